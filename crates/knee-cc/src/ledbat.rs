//! LEDBAT: a scavenger that adds at most TARGET of delay and makes way for everyone else.
//!
//! Source: RFC 6817 (S. Shalunov et al., "Low Extra Delay Background Transport (LEDBAT)", 2012).
//!
//! - base delay: the least delay of each of the last BASE_HISTORY minutes, the least of these (Sec. 2.4.2)
//! - current delay: the least of the last CURRENT_FILTER samples (filter MIN)
//! - `off_target = (TARGET - (current - base)) / TARGET`
//! - `cwnd += GAIN off_target acked / cwnd`, at most `flightsize + ALLOWED_INCREASE`, at least MIN_CWND (Sec. 2.4.2)
//! - loss: `cwnd = max(cwnd / 2, MIN_CWND)`, once per round trip (Sec. 2.4.2)
//!
//! Units: packets, seconds inside. The window is a fraction; the sender sees whole packets.
//!
//! Departures: delays are those of the round trip, not one-way ones: the sender has no timestamps of the receiver's;
//! where only data queues, the difference to the base is the same. The congestion timeout is the sender's. The
//! connection starts with the sender's initial window instead of two packets. `off_target` is not clamped from below
//! (the RFC does not either). Slow start, which the RFC leaves open, is off; where switched on it ends at 3/4 of
//! TARGET, as in LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus, Sec. 4.1).

use crate::registry::{CLASSIC_EDGES, CLASSIC_PHASES, Entry, Family};
use crate::window::Fractional;
use crate::{Ack, Congestion, CongestionControl, Control, Ecn, INFINITE_SSTHRESH, Needs, increase};
use knee_core::{Param, Time};
use std::collections::VecDeque;

/// LEDBAT's registry entry.
pub const ENTRY: Entry = Entry {
    name: "ledbat",
    family: Family::DelayBased,
    about: "background transport: holds a small target delay when alone, yields to everyone else",
    source: "RFC 6817",
    params: &[
        Param::time(
            "target",
            Time::from_millis(100),
            (Time::from_millis(1), Time::from_millis(100)),
            "RFC 6817, Sec. 2.5 (at most 100 ms; LEDBAT++: 60 ms)",
            "queueing delay to hold",
        ),
        Param::ratio("gain", 1.0, (0.001, 1.0), "RFC 6817, Sec. 2.5", "packets gained per round trip at no delay"),
        Param::count("base_history", 10, (2, 1000), "RFC 6817, Sec. 2.5", "minutes the base delay is remembered"),
        Param::count("current_filter", 4, (1, 1000), "RFC 6817, Sec. 2.5", "samples the current delay is the least of"),
        Param::count("allowed_increase", 1, (1, 1000), "RFC 6817, Sec. 2.5", "packets beyond those in flight"),
        Param::count("min_cwnd", 2, (2, 1000), "RFC 6817, Sec. 2.5", "least window"),
        Param::switch("slow_start", false, "draft-irtf-iccrg-ledbat-plus-plus, Sec. 4.1", "double until 3/4 of target"),
    ],
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 2,
    needs: Needs { pacing: false, full_control: false, sent: false, ecn: Ecn::Classic },
    make: |params, init| {
        Box::new(Ledbat {
            params: LedbatParams {
                target: params.time("target").as_secs_f64(),
                gain: params.ratio("gain"),
                base_history: params.count("base_history") as usize,
                current_filter: params.count("current_filter") as usize,
                allowed_increase: params.count("allowed_increase") as f64,
                min_cwnd: params.count("min_cwnd") as u32,
            },
            slow_start: params.switch("slow_start"),
            minute: init.now.as_nanos() / MINUTE.as_nanos(),
            base: VecDeque::from([init.rtt]),
            current: VecDeque::new(),
            window: Fractional::default(),
        })
    },
};

const MINUTE: Time = Time::from_secs(60);

struct LedbatParams {
    /// Seconds.
    target: f64,
    gain: f64,
    /// Minutes.
    base_history: usize,
    /// Samples.
    current_filter: usize,
    /// Packets.
    allowed_increase: f64,
    /// Packets.
    min_cwnd: u32,
}

struct Ledbat {
    params: LedbatParams,
    slow_start: bool,
    /// The minute the last of `base` stands for.
    minute: u64,
    /// Least delay of each minute.
    base: VecDeque<Time>,
    /// The last delays.
    current: VecDeque<Time>,
    window: Fractional,
}

/// How far the delay is below the target, as a part of it; negative above.
pub fn off_target(queueing_delay: f64, target: f64) -> f64 {
    (target - queueing_delay) / target
}

/// The next window in packets after `acked` packets (Sec. 2.4.2); `flight` counts those in flight before the ACK.
pub fn next_window(cwnd: f64, off_target: f64, acked: f64, gain: f64, flight: f64, allowed_increase: f64) -> f64 {
    let grown = cwnd + gain * off_target * acked / cwnd;
    grown.min(flight + allowed_increase)
}

impl Ledbat {
    fn remember(&mut self, now: Time, delay: Time) {
        let minute = now.as_nanos() / MINUTE.as_nanos();
        match self.base.back_mut() {
            Some(least) if minute == self.minute => *least = delay.min(*least),
            _ => self.base.push_back(delay),
        }
        self.minute = minute;
        self.current.push_back(delay);
        while self.base.len() > self.params.base_history {
            self.base.pop_front();
        }
        while self.current.len() > self.params.current_filter {
            self.current.pop_front();
        }
    }

    /// Seconds.
    fn queueing_delay(&self) -> f64 {
        match (self.current.iter().min(), self.base.iter().min()) {
            (Some(current), Some(base)) => current.saturating_sub(*base).as_secs_f64(),
            _ => 0.0,
        }
    }
}

impl CongestionControl for Ledbat {
    fn on_measure(&mut self, ack: &Ack, control: Control) -> Control {
        if let Some(rtt) = ack.rtt {
            self.remember(ack.view.now, rtt);
        }
        control
    }

    fn on_ack(&mut self, ack: &Ack, mut control: Control) -> Control {
        let delay = self.queueing_delay();
        if !self.slow_start && control.ssthresh == INFINITE_SSTHRESH {
            control.ssthresh = control.cwnd;
        }
        if control.in_slow_start() {
            if self.slow_start && delay < 0.75 * self.params.target {
                if ack.cwnd_limited {
                    control = increase::slow_start(control, ack.delivered).0;
                }
                return Control { phase: increase::classic_phase(&control), ..control };
            }
            control.ssthresh = control.cwnd;
        }
        let p = &self.params;
        let w = self.window.read(control.cwnd);
        let next = next_window(
            w,
            off_target(delay, p.target),
            f64::from(ack.delivered),
            p.gain,
            f64::from(ack.prior_in_flight),
            p.allowed_increase,
        );
        control.cwnd = self.window.write(next, p.min_cwnd);
        control.ssthresh = control.ssthresh.min(control.cwnd);
        Control { phase: increase::classic_phase(&control), ..control }
    }

    fn on_congestion(&mut self, _: &Congestion, control: Control) -> u32 {
        (control.cwnd / 2).max(self.params.min_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reno;
    use crate::testing::{Dumbbell, close};
    use knee_core::{Rate, Value};

    #[test]
    fn the_window_grows_in_proportion_to_what_is_left_of_the_target() {
        // No delay: one packet per round trip, that is 1/10 per ACK at 10 packets. A quarter of 100 ms: 3/4 of it.
        assert!(close(off_target(0.0, 0.1), 1.0) && close(off_target(0.025, 0.1), 0.75));
        assert!(close(next_window(10.0, 1.0, 1.0, 1.0, 10.0, 1.0), 10.1));
        // At 300 ms, twice the target too much: 2 packets less per round trip.
        assert!(close(off_target(0.3, 0.1), -2.0));
        assert!(close(next_window(10.0, -2.0, 1.0, 1.0, 10.0, 1.0), 9.8));
    }

    #[test]
    fn the_window_never_runs_ahead_of_what_is_in_flight() {
        assert!(close(next_window(10.0, 1.0, 1.0, 1.0, 4.0, 1.0), 5.0));
    }

    fn ledbat() -> Ledbat {
        let params = LedbatParams {
            target: 0.1,
            gain: 1.0,
            base_history: 2,
            current_filter: 4,
            allowed_increase: 1.0,
            min_cwnd: 2,
        };
        let (base, current) = (VecDeque::new(), VecDeque::new());
        Ledbat { params, slow_start: false, minute: 0, base, current, window: Fractional::default() }
    }

    #[test]
    fn a_base_delay_is_forgotten_after_the_history_and_the_filter_takes_the_least_of_four() {
        let mut l = ledbat();
        let ms = Time::from_millis;
        l.remember(ms(0), ms(20));
        for delay in [70, 90, 80, 60] {
            l.remember(ms(1), ms(delay));
        }
        assert!(close(l.queueing_delay(), 0.04));
        l.remember(Time::from_secs(61), ms(50));
        assert!(close(l.queueing_delay(), 0.03));
        // With a history of two minutes, the third forgets the first: base 50 ms, current 50 ms.
        l.remember(Time::from_secs(121), ms(55));
        assert!(close(l.queueing_delay(), 0.0));
    }

    /// RFC 6817, design goals: alone, LEDBAT uses the link and holds TARGET: 50 ms of 1000 packets/s are 50 packets.
    #[test]
    fn alone_it_fills_the_link_and_holds_its_target() {
        let mut net = Dumbbell::new(Rate::from_mbps(12), 300);
        net.add(&ENTRY, &[("target", Value::Time(Time::from_millis(50)))], Time::from_millis(40), Time::ZERO);
        net.run(Time::from_secs(60));
        let seen = net.measure(Time::from_secs(90));
        assert!(seen.total() > 11.9 && seen.drops == 0, "{seen:?}");
        assert!((45.0..55.0).contains(&seen.queue), "{seen:?}");
    }

    /// RFC 6817, design goals: it yields to TCP, whose standing queue exceeds the target.
    #[test]
    fn it_yields_to_reno_where_the_buffer_holds_more_than_the_target() {
        let mut net = Dumbbell::new(Rate::from_mbps(12), 300);
        net.add(&ENTRY, &[], Time::from_millis(40), Time::ZERO);
        net.add(&reno::ENTRY, &[], Time::from_millis(40), Time::from_secs(30));
        net.run(Time::from_secs(60));
        let seen = net.measure(Time::from_secs(180));
        assert!(seen.mbps[0] < 0.1 * seen.mbps[1] && seen.total() > 11.9, "{seen:?}");
    }
}
