//! Westwood+: Reno that on a loss sets the window to the measured bandwidth-delay product.
//!
//! Source: S. Mascolo et al., "TCP Westwood: Bandwidth Estimation for Enhanced Transport over Wireless Links",
//! MobiCom 2001, and L. Grieco, S. Mascolo, "Performance Evaluation and Comparison of Westwood+, New Reno, and Vegas
//! TCP Congestion Control", ACM CCR 34(2), 2004, in the form of Linux's `tcp_westwood.c`:
//!
//! - growth: Reno
//! - a bandwidth sample `b` per RTT, at least 50 ms: bytes acknowledged over the span, in bytes per jiffy
//! - two low passes in a row of gain 1/8 (CCR 2004): `x = (7 x + b) / 8`, `bw = (7 bw + x) / 8`
//! - at the end of a reduction: `cwnd = ssthresh = max(bw rtt_min / mss, 2)` (MobiCom 2001)
//! - at a timeout: `ssthresh` as above; `rtt_min` starts anew
//! - bytes acknowledged: a duplicate ACK counts a segment, and the ACK that covers those segments later counts what
//!   they have not (CCR 2004)
//!
//! Departures from the papers, all as Linux does: while a reduction runs, the window goes to half, and only then to the
//! estimate; time is in jiffies, RTTs rounded up.
//!
//! Departure from Linux: there, ACKs taken by the receive fast path count by `snd_una` alone; which path an ACK takes
//! depends on whether the advertised window moved. Here all take the slow path. The two differ by the segments that
//! duplicate ACKs counted, in the first ACKs after a recovery.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::jiffies::Jiffies;
use crate::{
    Ack, Congestion, CongestionControl, Control, Init, Needs, StateChange, StateEvent, View, increase, reno, slow_start,
};
use knee_core::Time;

/// Westwood+'s registry entry.
pub const ENTRY: Entry = Entry {
    name: "westwood",
    family: Family::LossBased,
    about: "Reno that on a loss reduces the window to the measured bandwidth times the minimum RTT",
    source: "Grieco, Mascolo, Westwood+, ACM CCR 34(2) 2004; Linux net/ipv4/tcp_westwood.c",
    params: slow_start::Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| slow_start::with(Westwood::new(init), &params.into(), init),
};

/// The RTT assumed before the first sample (`TCP_WESTWOOD_INIT_RTT`).
const INIT_RTT: Time = Time::from_secs(20);

/// State of a connection.
#[derive(Clone)]
struct Westwood {
    clock: Jiffies,
    /// Payload of a segment in bytes.
    bandwidth: Bandwidth,
    acked: AckedCount,
    /// Bytes acknowledged since `since`.
    bytes: u64,
    /// Start of the sample, in jiffies.
    since: u64,
    /// Last RTT in jiffies.
    rtt: u64,
    /// Least RTT in jiffies since the connection's start or the last timeout.
    rtt_min: u64,
    /// The next RTT becomes the least.
    reset_rtt_min: bool,
}

/// The two low passes, in bytes per jiffy.
#[derive(Clone, Copy, Debug, Default)]
struct Bandwidth {
    once: u64,
    twice: u64,
}

impl Bandwidth {
    /// Takes a sample; as long as both are zero, it is taken as it is.
    fn take(&mut self, sample: u64) {
        if self.once == 0 && self.twice == 0 {
            (self.once, self.twice) = (sample, sample);
        } else {
            self.once = low_pass(self.once, sample);
            self.twice = low_pass(self.twice, self.once);
        }
    }
}

/// `(7 a + b) / 8`.
const fn low_pass(a: u64, b: u64) -> u64 {
    a.saturating_mul(7).saturating_add(b) >> 3
}

/// Counts the segments that ACKs stand for, duplicate ACKs included.
#[derive(Clone, Copy, Debug, Default)]
struct AckedCount {
    /// Highest cumulative ACK seen, in segments; `None` before the first ACK.
    una: Option<u64>,
    /// Segments counted for duplicate ACKs and not yet covered.
    ahead: u64,
}

impl AckedCount {
    /// The segments that an ACK up to `una` acknowledges.
    fn take(&mut self, una: u64) -> u64 {
        // The first ACK sets the reference, and so counts as a duplicate.
        let advance = una.saturating_sub(self.una.unwrap_or(una));
        self.una = Some(una);
        match advance {
            0 => {
                self.ahead += 1;
                1
            }
            1 => 1,
            n if self.ahead >= n => {
                self.ahead -= n;
                1
            }
            n => n - std::mem::take(&mut self.ahead),
        }
    }
}

/// Packets that the path holds, with `bw` in bytes per jiffy and `rtt_min` in jiffies; at least 2.
fn path_holds(bw: u64, rtt_min: u64, mss: u64) -> u32 {
    (bw.saturating_mul(rtt_min) / mss.max(1)).clamp(2, 1 << 30) as u32
}

impl Westwood {
    fn new(init: &Init) -> Self {
        let clock = Jiffies::new(init.tick);
        let rtt = clock.covering(INIT_RTT);
        Self {
            clock,
            bandwidth: Bandwidth::default(),
            acked: AckedCount::default(),
            bytes: 0,
            since: clock.at(init.now),
            rtt,
            rtt_min: rtt,
            reset_rtt_min: true,
        }
    }

    /// Ends the sample if it spans an RTT and 50 ms.
    fn update_window(&mut self, now: u64) {
        let span = now.saturating_sub(self.since);
        if self.rtt > 0 && span > self.rtt.max(self.clock.hz() / 20) {
            self.bandwidth.take(self.bytes / span);
            (self.bytes, self.since) = (0, now);
        }
    }

    fn ssthresh(&self, view: &View) -> u32 {
        path_holds(self.bandwidth.twice, self.rtt_min, view.mss.into())
    }
}

impl CongestionControl for Westwood {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        if let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO) {
            self.rtt = self.clock.covering(rtt);
        }
        self.update_window(self.clock.at(ack.view.now));
        // The parts of a segment are counted when all of it is acknowledged; Linux counts their bytes as they come.
        let segments = if ack.part { 0 } else { self.acked.take(ack.view.snd_una) };
        self.bytes = self.bytes.saturating_add(segments.saturating_mul(ack.view.mss.into()));
        let reset = std::mem::take(&mut self.reset_rtt_min);
        self.rtt_min = if reset { self.rtt } else { self.rtt_min.min(self.rtt) };
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        increase::reno(control, ack.delivered);
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = reno::halved(control.cwnd);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::ReductionDone => {
                control.ssthresh = self.ssthresh(change.view);
                control.cwnd = control.ssthresh;
            }
            StateEvent::Timeout => {
                control.ssthresh = self.ssthresh(change.view);
                self.reset_rtt_min = true;
            }
            _ => return,
        }
        control.phase = increase::classic_phase(control);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, ack_of_nothing, avoiding, change_at, init};

    #[test]
    fn the_path_holds_bandwidth_times_rtt() {
        // 100 Mbit/s is 125000 bytes per jiffy of 10 ms; 40 ms of it are 500000 bytes.
        assert_eq!(path_holds(125_000, 4, 1448), 345);
        assert_eq!(path_holds(0, 4, 1448), 2);
    }

    #[test]
    fn the_parts_of_a_segment_count_once_and_duplicates_each() {
        let counted = |acks: &[(u64, bool)]| {
            let mut westwood = Westwood::new(&init());
            westwood.acked.una = Some(10);
            for &(snd_una, part) in acks {
                let view = View { snd_una, now: Time::from_millis(1), ..View::INITIAL };
                westwood.on_measure(&Ack { view: &view, part, ..ack_of_nothing() }, &mut avoiding(20));
            }
            westwood.bytes / u64::from(View::INITIAL.mss)
        };
        assert_eq!(counted(&[(10, true), (10, true), (10, true), (11, false)]), 1);
        assert_eq!(counted(&[(10, false), (10, false), (10, false), (11, false)]), 4);
    }

    #[test]
    fn bandwidth_passes_two_filters() {
        let mut bw = Bandwidth::default();
        bw.take(8000);
        assert_eq!((bw.once, bw.twice), (8000, 8000));
        bw.take(16_000);
        // (7 * 8000 + 16000) / 8, and an eighth of that step again.
        assert_eq!((bw.once, bw.twice), (9000, 8125));
    }

    #[test]
    fn duplicate_acks_are_counted_once_when_the_hole_is_filled() {
        let mut count = AckedCount { una: Some(10), ahead: 0 };
        let counted: Vec<u64> = [10, 10, 10, 11, 16, 18].map(|una| count.take(una)).to_vec();
        // Three duplicates, the next segment, then 5 of which 3 are known, then 2.
        assert_eq!(counted, [1, 1, 1, 1, 2, 2]);
        // A delayed ACK wholly known counts a segment.
        let mut count = AckedCount { una: Some(10), ahead: 5 };
        assert_eq!((count.take(12), count.ahead), (1, 3));
    }

    #[test]
    fn a_sample_spans_more_than_an_rtt_and_fifty_milliseconds() {
        let mut cc = Westwood::new(&init());
        for ms in [40, 50, 55] {
            cc.on_measure(&ack_at(Time::from_millis(ms), 10, Some(Time::from_millis(40))), &mut avoiding(10));
            assert_eq!(cc.bandwidth.twice, 0);
        }
        // The jiffy after the fifth: bytes of the ACKs before this one, in 6 jiffies. All at the same `snd_una`.
        cc.on_measure(&ack_at(Time::from_millis(60), 10, Some(Time::from_millis(40))), &mut avoiding(10));
        assert_eq!(cc.bandwidth.twice, 3 * 1448 / 6);
    }

    #[test]
    fn the_end_of_a_reduction_sets_the_window_to_what_the_path_holds() {
        let mut cc = Westwood::new(&init());
        cc.on_measure(&ack_at(Time::from_millis(40), 10, Some(Time::from_millis(40))), &mut avoiding(10));
        cc.bandwidth = Bandwidth { once: 125_000, twice: 125_000 };
        let c = crate::testing::after(avoiding(250), |c| {
            cc.on_state(&change_at(Time::from_secs(1), StateEvent::ReductionDone), c);
        });
        assert_eq!((c.cwnd, c.ssthresh), (345, 345));
    }

    #[test]
    fn a_timeout_sets_the_threshold_and_forgets_the_least_rtt() {
        let mut cc = Westwood::new(&init());
        let rtt = |ms| ack_at(Time::from_millis(40), 10, Some(Time::from_millis(ms)));
        cc.on_measure(&rtt(40), &mut avoiding(10));
        cc.bandwidth = Bandwidth { once: 125_000, twice: 125_000 };
        let c = crate::testing::after(avoiding(250), |c| {
            cc.on_state(&change_at(Time::from_secs(1), StateEvent::Timeout), c);
        });
        assert_eq!((c.cwnd, c.ssthresh), (250, 345));
        cc.on_measure(&rtt(90), &mut avoiding(10));
        assert_eq!(cc.rtt_min, 9);
    }
}
