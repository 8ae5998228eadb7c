//! Copa: steers the rate to `1 / (delta d_q)`, so that about `1 / delta` packets of the flow wait, and empties the
//! queue every few round trips to see what the path is like without it.
//!
//! Source: V. Arun, H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018.
//!
//! - queueing delay: `d_q = RTTstanding - RTTmin`; RTTstanding is the least RTT of the last srtt/2, RTTmin that of the
//!   last 10 s (Sec. 2.1)
//! - target rate: `lambda_t = 1 / (delta d_q)` (Eq. 1); current rate: `lambda = cwnd / RTTstanding`
//! - per packet acknowledged: `cwnd += v / (delta cwnd)` where `lambda <= lambda_t`, else `cwnd -= v / (delta cwnd)`
//! - velocity `v`: 1 at first; once per round trip the direction of the window is compared with that before: from the
//!   third round trip in the same direction on `v` doubles, another direction sets it back to 1 (Sec. 2.1)
//! - pacing at `2 cwnd / RTTstanding`
//! - mode (Sec. 2.2): the queue is nearly empty where an RTT is within 10 % of RTTmax - RTTmin of RTTmin, RTTmax that
//!   of the last 4 round trips. Not seen for 5 round trips: somebody else fills the buffer, competitive mode
//! - competitive mode: `1 / delta` grows by one per round trip without a loss and halves on one; never below its value
//!   in default mode, 2 (delta = 0.5)
//!
//! Units: packets, seconds inside.
//!
//! ```text
//! slow_start ──lambda > lambda_t──► default ◄──────────► competitive
//! ```
//!
//! Departures: `v` is at most `delta cwnd`, so that the window at most doubles in a round trip (as the authors' own
//! sender does; the text has no bound). Loss moves the window in competitive mode only, through `delta`; so does ECN,
//! which the paper does not treat. RTTs are those of data; the handshake's smaller packets would look like an empty
//! queue no data ever meets.
//!
//! A weakness of the scheme itself: where some flows share a slow link, a swing of a few packets may miss the 10 % by a
//! packet. All then compete, and once their `1 / delta` have grown to a large part of the windows the queue no longer
//! swings to empty: they stay in competitive mode until losses shrink `1 / delta`. `mode_switching = false` is the pure
//! default mode, for which the paper's 1 / delta packets per flow hold.

mod program;

use crate::entry::{Entry, Family};
use crate::window::{Fractional, rate_of};
use crate::{Ack, Congestion, CongestionControl, Control, Needs};
use knee_core::{Time, choice, params};
use std::collections::VecDeque;

/// Copa's registry entry.
pub const ENTRY: Entry = Entry {
    name: "copa",
    family: Family::DelayBased,
    about: "steers to the rate 1 / (delta queueing delay); competes with flows that fill the buffer",
    source: "Arun, Balakrishnan: Copa, NSDI 2018",
    params: Params::DECLARED,
    phases: &["slow_start", "default", "competitive"],
    edges: &[(SLOW_START, DEFAULT), (SLOW_START, COMPETITIVE), (DEFAULT, COMPETITIVE), (COMPETITIVE, DEFAULT)],
    min_cwnd: 2,
    needs: Needs { pacing: true, full_control: true, ..Needs::NONE },
    make: |params, init| {
        let params = Params::from(params);
        if params.form == Form::Program {
            return Box::new(program::Program::new(params, init));
        }
        Box::new(Copa {
            params,
            phase: SLOW_START,
            window: Fractional::default(),
            min_rtt: Extreme::default(),
            standing: Extreme::default(),
            max_rtt: Extreme::default(),
            handshake_rtt: init.rtt,
            empty_at: init.now,
            packets: 1.0 / params.delta,
            lossy_round: false,
            velocity: Velocity { v: 1.0, up: true, same: 0 },
            round_end: 0,
            round_window: f64::from(init.cwnd),
        })
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
    /// Copa's parameters.
    struct Params {
        /// 1 / delta packets per flow are kept queued
        delta: f64 = 0.5, in 0.001..=100.0, from "NSDI 2018, Sec. 2";
        /// compete with flows that fill the buffer
        mode_switching: bool = true, from "NSDI 2018, Sec. 2.2";
        /// lifetime of the minimum RTT
        min_rtt_window: Time = Time::from_secs(10), in Time::from_millis(1)..=Time::from_secs(1000),
            from "NSDI 2018, Sec. 2.1";
        /// the algorithm of the authors' sender, or the paper's
        form: Form = Form::Program, from "NSDI 2018; genericCC, markoviancc.cc";
        /// how coarse the waits of the authors' sender are; only with form = "program"
        timer: Time = Time::ZERO, in Time::ZERO..=Time::from_millis(10), from "genericCC, ctcp.hh";
    }
}

const SLOW_START: u8 = 0;
const DEFAULT: u8 = 1;
const COMPETITIVE: u8 = 2;

/// The least window, in packets: the authors' sender's.
const LEAST: u32 = 2;

struct Copa {
    params: Params,
    phase: u8,
    window: Fractional,
    min_rtt: Extreme,
    standing: Extreme,
    max_rtt: Extreme,
    /// For all three before the first sample.
    handshake_rtt: Time,
    /// When the queue was last seen nearly empty.
    empty_at: Time,
    /// 1 / delta in force.
    packets: f64,
    /// Whether a loss was seen in the round trip under way.
    lossy_round: bool,
    velocity: Velocity,
    /// The round trip ends when this segment is acknowledged.
    round_end: u64,
    /// Window at the start of the round trip.
    round_window: f64,
}

/// An extreme RTT over a sliding span of time: the candidates, each better than all after it.
#[derive(Default)]
struct Extreme(VecDeque<(Time, Time)>);

impl Extreme {
    /// Takes a sample; `better` tells whether it makes an older one useless. The newest stays, however old.
    fn add(&mut self, now: Time, rtt: Time, span: Time, better: fn(&Time, &Time) -> bool) {
        while self.0.back().is_some_and(|(_, old)| better(&rtt, old)) {
            self.0.pop_back();
        }
        self.0.push_back((now, rtt));
        while self.0.len() > 1 && self.0[0].0 < now.saturating_sub(span) {
            self.0.pop_front();
        }
    }

    fn get(&self) -> Option<Time> {
        self.0.front().map(|(_, rtt)| *rtt)
    }
}

/// The velocity of the window and what it depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Velocity {
    v: f64,
    /// Direction of the last round trip.
    up: bool,
    /// Round trips in that direction.
    same: u32,
}

/// `lambda_t` in packets per second at queueing delay `d_q` in seconds (Eq. 1); infinite without a queue.
pub fn target_rate(delta: f64, d_q: f64) -> f64 {
    if d_q > 0.0 { 1.0 / (delta * d_q) } else { f64::INFINITY }
}

/// How far `acked` packets move the window, in packets.
pub fn step(v: f64, delta: f64, cwnd: f64, acked: f64) -> f64 {
    v / (delta * cwnd) * acked
}

/// The velocity after a round trip in direction `up`, at most `most`.
fn next_velocity(velocity: Velocity, up: bool, most: f64) -> Velocity {
    if up != velocity.up {
        return Velocity { v: 1.0, up, same: 1 };
    }
    let same = velocity.same.saturating_add(1);
    let v = if same > 3 { velocity.v * 2.0 } else { velocity.v };
    Velocity { v: v.min(most).max(1.0), up, same }
}

/// Whether an RTT means a nearly empty queue (Sec. 2.2).
pub fn nearly_empty(rtt: Time, min_rtt: Time, max_rtt: Time) -> bool {
    rtt.saturating_sub(min_rtt) <= max_rtt.saturating_sub(min_rtt) / 10
}

impl Copa {
    fn measure(&mut self, now: Time, rtt: Time, srtt: Time) {
        self.min_rtt.add(now, rtt, self.params.min_rtt_window, Time::le);
        self.standing.add(now, rtt, srtt / 2, Time::le);
        let four_rounds = srtt.saturating_add(srtt).saturating_add(srtt).saturating_add(srtt);
        self.max_rtt.add(now, rtt, four_rounds, Time::ge);
        let (min_rtt, max_rtt) = (self.min_rtt.get().unwrap_or(rtt), self.max_rtt.get().unwrap_or(rtt));
        if nearly_empty(rtt, min_rtt, max_rtt) {
            self.empty_at = now;
        }
        if self.phase == SLOW_START || !self.params.mode_switching {
            return;
        }
        let full = now.saturating_sub(self.empty_at) > four_rounds.saturating_add(srtt);
        if full != (self.phase == COMPETITIVE) {
            self.phase = if full { COMPETITIVE } else { DEFAULT };
            self.packets = 1.0 / self.params.delta;
        }
    }

    fn end_of_round(&mut self, cwnd: f64) {
        let most = cwnd / self.packets;
        self.velocity = next_velocity(self.velocity, cwnd > self.round_window, most);
        self.round_window = cwnd;
        if self.phase == COMPETITIVE && !self.lossy_round {
            self.packets += 1.0;
        }
        self.lossy_round = false;
    }
}

impl CongestionControl for Copa {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        if let Some(rtt) = ack.rtt {
            self.measure(ack.view.now, rtt, ack.view.srtt);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let mut cwnd = self.window.read(control.cwnd);
        let acked = f64::from(ack.delivered);
        let standing = self.standing.get().unwrap_or(self.handshake_rtt);
        let min_rtt = self.min_rtt.get().unwrap_or(self.handshake_rtt);
        let d_q = standing.saturating_sub(min_rtt).as_secs_f64();
        let delta = 1.0 / self.packets;
        let below = cwnd <= target_rate(delta, d_q) * standing.as_secs_f64();
        if self.phase == SLOW_START && !below {
            self.phase = DEFAULT;
            self.empty_at = ack.view.now;
            self.velocity = Velocity { v: 1.0, up: false, same: 0 };
        }
        if ack.view.snd_una >= self.round_end {
            self.round_end = ack.view.snd_nxt;
            self.end_of_round(cwnd);
        }
        let grows = if self.phase == SLOW_START { acked } else { step(self.velocity.v, delta, cwnd, acked) };
        if !below {
            cwnd -= grows;
        } else if ack.cwnd_limited {
            cwnd += grows;
        }
        control.cwnd = self.window.write(cwnd, LEAST);
        control.pacing_rate = Some(rate_of(2.0 * f64::from(control.cwnd), standing));
        control.phase = self.phase;
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        if self.phase == COMPETITIVE {
            self.packets = (self.packets / 2.0).max(1.0 / self.params.delta);
            self.lossy_round = true;
        }
        // The window itself stays: Copa controls it during recovery too.
        control.ssthresh = control.cwnd.max(LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Signal;
    use crate::testing::{close, view};

    #[test]
    fn the_target_rate_keeps_one_over_delta_packets_queued() {
        // delta 0.5 and 4 ms of queue: 500 packets/s, which over 4 ms are 2 packets.
        assert!(close(target_rate(0.5, 0.004), 500.0));
        assert!(target_rate(0.5, 0.0).is_infinite());
    }

    #[test]
    fn a_window_of_packets_moves_it_by_v_over_delta() {
        assert!(close(step(1.0, 0.5, 50.0, 50.0), 2.0) && close(step(8.0, 0.5, 50.0, 50.0), 16.0));
    }

    #[test]
    fn velocity_doubles_from_the_third_round_trip_on_and_falls_back_on_a_turn() {
        let mut velocity = Velocity { v: 1.0, up: false, same: 2 };
        let mut seen = Vec::new();
        for up in [true, true, true, true, true, false, false] {
            velocity = next_velocity(velocity, up, 1000.0);
            seen.push(velocity.v as u32);
        }
        assert_eq!(seen, [1, 1, 1, 2, 4, 1, 1]);
        assert!(close(next_velocity(Velocity { v: 8.0, up: true, same: 9 }, true, 10.0).v, 10.0));
    }

    /// Sec. 2.2: AIMD on 1 / delta, which never is less than that of the default mode.
    #[test]
    fn a_loss_in_competitive_mode_halves_the_packets_to_queue() {
        for (phase, before, after) in [(COMPETITIVE, 12.0, 6.0), (COMPETITIVE, 3.0, 2.0), (DEFAULT, 12.0, 12.0)] {
            let mut copa = Copa {
                params: Params::default(),
                phase,
                window: Fractional::default(),
                min_rtt: Extreme::default(),
                standing: Extreme::default(),
                max_rtt: Extreme::default(),
                handshake_rtt: Time::from_millis(20),
                empty_at: Time::ZERO,
                packets: before,
                lossy_round: false,
                velocity: Velocity { v: 1.0, up: true, same: 0 },
                round_end: 0,
                round_window: 10.0,
            };
            let mut control = Control::initial(10);
            copa.on_congestion(&Congestion { view: &view(), signal: Signal::Loss }, &mut control);
            assert!(close(copa.packets, after), "{} packets", copa.packets);
            assert_eq!((copa.lossy_round, control.cwnd), (phase == COMPETITIVE, 10));
        }
    }

    #[test]
    fn the_queue_counts_as_empty_within_a_tenth_of_its_swing() {
        let ms = Time::from_millis;
        assert!(nearly_empty(ms(22), ms(20), ms(40)) && !nearly_empty(ms(23), ms(20), ms(40)));
    }

    #[test]
    fn an_extreme_is_forgotten_after_its_span() {
        let ms = Time::from_millis;
        let mut least = Extreme::default();
        for (now, rtt) in [(0, 9), (1, 5), (2, 7), (3, 6)] {
            least.add(ms(now), ms(rtt), ms(2), Time::le);
        }
        assert_eq!(least.get(), Some(ms(5)));
        least.add(ms(4), ms(8), ms(2), Time::le);
        assert_eq!(least.get(), Some(ms(6)));
    }
}
