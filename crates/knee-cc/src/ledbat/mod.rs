//! LEDBAT: background traffic that adds a fixed delay and makes room for everybody else.
//!
//! Source: RFC 6817, Sec. 2.4.2.
//!
//! On each ACK, with `delay` the least of the last `current_filter` samples and `base` the least of the last
//! `base_history` minutes:
//!
//! - `off_target = (target - (delay - base)) / target`
//! - `cwnd += gain · off_target · acked / cwnd`, a fall where the queue is above the target
//! - `cwnd <= flight + allowed_increase`, `cwnd >= min_cwnd`
//! - loss: half the window, at least `min_cwnd`; timeout: one packet
//!
//! That is `form = "paper"`. By default it does what libutp does ([`program`]) with the given `target`; the other
//! parameters are the RFC's. Departures from the RFC: the RTT stands for the one-way delay, so a queue of the ACKs' way
//! counts as well; the timeout and the initial window are the sender's. The RFC's algorithm has no slow start; it can
//! be turned on, and then ends where the queue reaches the target.

mod program;

use crate::entry::{Entry, Family, edges};
use crate::{Ack, Congestion, CongestionControl, Control, Needs, StateChange, StateEvent, increase};
use knee_core::convert::{clamped, saturating_u32, truncated};
use knee_core::{Time, choice, params};

/// LEDBAT's registry entry.
pub const ENTRY: Entry = Entry {
    name: "ledbat",
    family: Family::DelayBased,
    about: "background traffic: holds the queue at a target delay and yields to others",
    source: "RFC 6817",
    params: Params::DECLARED,
    phases: &["slow_start", "below_target", "above_target"],
    edges: edges![Phase:
        SlowStart => BelowTarget,
        SlowStart => AboveTarget,
        BelowTarget => AboveTarget,
        AboveTarget => BelowTarget,
        BelowTarget => SlowStart,
        AboveTarget => SlowStart,
    ],
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        match params.form {
            Form::Program => Box::new(program::Program::of_full_packets(params.target, init.now)),
            Form::Paper => Box::new(Ledbat::new(params)),
        }
    },
};

choice! {
    /// Whose algorithm it is.
    enum Form {
        Program = "program",
        Paper = "paper",
    }
}

params! {
    /// LEDBAT's parameters.
    struct Params {
        /// queueing delay to hold
        target: Time = Time::from_millis(100), in Time::from_millis(1)..=Time::from_millis(100),
            from "RFC 6817, Sec. 2.5: at most 100 ms";
        /// packets per round trip without a queue
        gain: f64 = 1.0, in 0.001..=1.0, from "RFC 6817, Sec. 2.5: at most 1";
        /// minutes whose least delay is the base
        base_history: u32 = 10, in 1..=60, from "RFC 6817, Sec. 2.5";
        /// samples of the minimum filter
        current_filter: u32 = 4, in 1..=64, from "RFC 6817, Sec. 2.4.2; the value is ours";
        /// packets the window may exceed the flight
        allowed_increase: u32 = 1, in 1..=1000, from "RFC 6817, Sec. 2.5";
        /// least window
        min_cwnd: u32 = 2, in 2..=1000, from "RFC 6817, Sec. 2.5";
        /// begin with slow start, up to the target
        slow_start: bool = false, from "RFC 6817, Sec. 2.4.2: none";
        /// what libutp does with the target, or what the RFC says
        form: Form = Form::Program, from "RFC 6817; libutp, utp_internal.cpp";
    }
}

/// The phases, in the order of the entry.
#[derive(Clone, Copy)]
enum Phase {
    SlowStart,
    BelowTarget,
    AboveTarget,
}

const MINUTE: u64 = 60_000_000_000;
/// One packet in units of the credit.
const PACKET: i128 = 1_000_000;
/// Largest window asked for, in packets.
const MAX_CWND: u32 = 1 << 30;

/// Delay samples: the last few, and the minimum of each of the last minutes.
struct Delays {
    /// The first minute begins here.
    start: Time,
    current: Vec<Time>,
    base: Vec<Time>,
    minute: u64,
}

impl Delays {
    fn since(start: Time) -> Self {
        Self { start, current: Vec::new(), base: Vec::new(), minute: 0 }
    }

    fn add(&mut self, now: Time, delay: Time, history: usize, filter: usize) {
        let minute = now.saturating_sub(self.start).as_nanos() / MINUTE;
        match self.base.last_mut() {
            Some(least) if minute == self.minute => *least = (*least).min(delay),
            _ => {
                self.minute = minute;
                push_bounded(&mut self.base, delay, history);
            }
        }
        push_bounded(&mut self.current, delay, filter);
    }

    /// Queueing delay; none before the first sample.
    fn queueing(&self) -> Option<Time> {
        Some(self.current.iter().min()?.saturating_sub(*self.base.iter().min()?))
    }
}

fn push_bounded(list: &mut Vec<Time>, delay: Time, length: usize) {
    if list.len() >= length {
        list.remove(0);
    }
    list.push(delay);
}

struct Ledbat {
    params: Params,
    /// In millionths.
    gain: i128,
    delays: Delays,
    /// Change not yet given to the window, in millionths of a packet.
    credit: i128,
}

/// What one ACK of `acked` packets adds to a window of `cwnd` packets, in millionths of a packet; `gain` in millionths.
fn change(gain: i128, target: Time, queueing: Time, acked: u32, cwnd: u32) -> i128 {
    let target = i128::from(target.as_nanos().max(1));
    let off_target = target - i128::from(queueing.as_nanos());
    gain * off_target * i128::from(acked) / target / i128::from(cwnd.max(1))
}

impl Ledbat {
    fn new(params: Params) -> Self {
        Self {
            params,
            gain: i128::from(truncated(params.gain * 1e6 + 0.5)),
            delays: Delays::since(Time::ZERO),
            credit: 0,
        }
    }

    fn phase(&self, control: &Control) -> u8 {
        let above = self.delays.queueing().is_some_and(|queueing| queueing > self.params.target);
        let phase = match () {
            () if self.params.slow_start && control.in_slow_start() => Phase::SlowStart,
            () if above => Phase::AboveTarget,
            () => Phase::BelowTarget,
        };
        phase as u8
    }

    fn steer(&mut self, ack: &Ack, queueing: Time, control: &mut Control) {
        self.credit += change(self.gain, self.params.target, queueing, ack.delivered, control.cwnd);
        let packets = self.credit / PACKET;
        self.credit %= PACKET;
        let cwnd = saturating_u32(clamped(i128::from(control.cwnd) + packets, u64::from(MAX_CWND)).max(1));
        control.cwnd = cwnd.min(ack.prior_in_flight.saturating_add(self.params.allowed_increase));
        control.cwnd = control.cwnd.max(self.params.min_cwnd);
    }
}

impl CongestionControl for Ledbat {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if let Some(rtt) = ack.rtt {
            let (history, filter) = (self.params.base_history as usize, self.params.current_filter as usize);
            self.delays.add(ack.view.now, rtt, history, filter);
        }
        control.phase = self.phase(control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let queueing = self.delays.queueing().unwrap_or(Time::ZERO);
        if self.params.slow_start && control.in_slow_start() && queueing < self.params.target {
            if ack.cwnd_limited {
                increase::slow_start(control, ack.delivered);
            }
        } else {
            self.steer(ack, queueing, control);
            control.ssthresh = control.ssthresh.min(control.cwnd);
        }
        control.phase = self.phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        self.credit = 0;
        control.ssthresh = (control.cwnd / 2).max(self.params.min_cwnd).min(control.cwnd.max(2));
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::Start if !self.params.slow_start => control.ssthresh = control.cwnd,
            // Samples from before an idle time say nothing about the queue.
            StateEvent::Restart => self.delays.current.clear(),
            _ => {}
        }
        control.phase = self.phase(control);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Signal, testing};

    fn ledbat() -> Ledbat {
        Ledbat::new(Params::default())
    }

    #[test]
    fn the_window_moves_by_gain_times_the_distance_from_the_target() {
        let ms = Time::from_millis;
        let per_window = |queueing| change(PACKET, ms(100), queueing, 50, 50);
        // Alone one packet per round trip, half of it half-way, none at the target, one less at twice the target.
        assert_eq!([0, 50, 100, 200].map(|q| per_window(ms(q))), [1_000_000, 500_000, 0, -1_000_000]);
        assert_eq!(change(PACKET / 2, ms(100), ms(0), 1, 10), 50_000);
    }

    #[test]
    fn the_base_is_the_least_of_the_last_ten_minutes_and_the_delay_the_least_of_the_last_four_samples() {
        let mut delays = ledbat().delays;
        let mut add = |s, ms| {
            delays.add(Time::from_secs(s), Time::from_millis(ms), 10, 4);
            delays.queueing().unwrap().as_millis()
        };
        assert_eq!(add(0, 40), 0);
        let later: Vec<_> = [90, 80, 70, 95].map(|ms| add(10, ms)).to_vec();
        assert_eq!(later, [0, 0, 0, 30]);
        // Minutes 1 to 9 keep minute 0 in the list; minute 10 pushes it out, and 60 ms is the least that is left.
        let minutes: Vec<_> = (1..=10).map(|minute| add(60 * minute, 60)).collect();
        assert_eq!(minutes, [20, 20, 20, 20, 20, 20, 20, 20, 20, 0]);
    }

    #[test]
    fn the_window_does_not_run_ahead_of_what_is_in_flight() {
        let mut cc = ledbat();
        let ack = testing::ack_up_to(1, 6, 40_000);
        let control = testing::after(Control::initial(50), |c| cc.on_measure(&ack, c));
        assert_eq!(testing::after(control, |c| cc.on_ack(&ack, c)).cwnd, 7);
    }

    #[test]
    fn a_loss_halves_the_window_down_to_its_minimum() {
        let mut cc = ledbat();
        let event = testing::congestion(testing::view(), Signal::Loss);
        assert_eq!(
            [40, 3, 1].map(|cwnd| testing::after(Control::initial(cwnd), |c| cc.on_congestion(&event, c)).ssthresh),
            [20, 2, 2]
        );
    }
}
