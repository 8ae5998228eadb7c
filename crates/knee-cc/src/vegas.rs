//! Vegas: keeps a few packets of its own in the queue, by comparing the expected with the actual rate.
//!
//! Source: Brakmo, Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8), 1995,
//! in the form of Linux's net/ipv4/tcp_vegas.c.
//!
//! Once per round trip, with `base` and `rtt` the least RTT ever and of this round trip (`vegas_rtt`):
//!
//! - `diff = cwnd · (rtt - base) / base`: packets in the queue (the paper's Diff, in packets)
//! - slow start ends where `diff > gamma`, at `cwnd = cwnd · base / rtt + 1`
//! - congestion avoidance: one packet less where `diff > beta`, one more where `diff < alpha`
//! - loss: half the window, as Reno
//!
//! Departures from the paper, all as Linux does: slow start grows every round trip, not every other one; ACKs, not
//! transmissions, give the actual rate; detection of losses is the sender's; growth falls back on Reno's where a
//! round trip had fewer than three RTT samples and until a round trip after a loss is over; RTTs count one
//! microsecond more; growth inside slow start does not ask whether the window limited sending; `diff` divides by
//! `base`, and its product is one of 32 bits.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::vegas_rtt::VegasRtt;
use crate::{Ack, Congestion, CongestionControl, Control, Needs, StateChange, increase, reno};
use knee_core::convert::saturating_u32;
use knee_core::params;

const SOURCE: &str = "Brakmo, Peterson, IEEE JSAC 13(8), 1995; Linux net/ipv4/tcp_vegas.c";

/// Vegas's registry entry.
pub const ENTRY: Entry = Entry {
    name: "vegas",
    family: Family::DelayBased,
    about: "keeps two to four packets of each flow in the queue",
    source: SOURCE,
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, _| Box::new(Vegas { params: params.into(), rtt: VegasRtt::new(0) }),
};

params! {
    /// Vegas's parameters.
    struct Params {
        /// the window grows while fewer packets than this are queued
        alpha: u32 = 2, in 0..=10_000, from SOURCE;
        /// the window shrinks while more packets than this are queued
        beta: u32 = 4, in 0..=10_000, from SOURCE;
        /// slow start ends when more packets than this are queued
        gamma: u32 = 1, in 0..=10_000, from SOURCE;
    }
}

#[derive(Clone)]
struct Vegas {
    params: Params,
    rtt: VegasRtt,
}

/// Packets in the queue: `cwnd · (rtt - base) / base`, in Linux's 32 bits. RTTs in microseconds.
pub const fn diff(cwnd: u32, rtt: u32, base: u32) -> u32 {
    cwnd.wrapping_mul(rtt.saturating_sub(base)) / if base > 0 { base } else { 1 }
}

/// The window at the actual rate and without a queue: `cwnd · base / rtt`. RTTs in microseconds.
pub const fn target(cwnd: u32, rtt: u32, base: u32) -> u32 {
    let window = cwnd as u64 * base as u64 / if rtt > 0 { rtt as u64 } else { 1 };
    if window > u32::MAX as u64 { u32::MAX } else { saturating_u32(window) }
}

/// `ssthresh` as Linux keeps it fresh: at least three quarters of the window (`tcp_current_ssthresh`).
const fn refreshed_ssthresh(control: &Control) -> u32 {
    let three_quarters = (control.cwnd >> 1) + (control.cwnd >> 2);
    if control.ssthresh > three_quarters { control.ssthresh } else { three_quarters }
}

fn reno_growth(ack: &Ack, control: &mut Control) {
    if ack.cwnd_limited {
        increase::reno(control, ack.delivered);
    }
}

impl Vegas {
    /// The decision at the end of a round trip.
    fn once_per_round(&self, ack: &Ack, control: &mut Control) {
        let diff = diff(control.cwnd, self.rtt.min, self.rtt.base);
        if control.in_slow_start() {
            if diff > self.params.gamma {
                // One more than the target, since it is rounded down.
                let target = target(control.cwnd, self.rtt.min, self.rtt.base).saturating_add(1);
                control.cwnd = control.cwnd.min(target);
                control.ssthresh = control.ssthresh.min(control.cwnd);
            } else {
                increase::slow_start(control, ack.delivered);
            }
        } else if diff > self.params.beta {
            control.cwnd = control.cwnd.saturating_sub(1);
            control.ssthresh = control.ssthresh.min(control.cwnd);
        } else if diff < self.params.alpha {
            control.cwnd = control.cwnd.saturating_add(1);
        }
        control.cwnd = control.cwnd.max(2);
        control.ssthresh = refreshed_ssthresh(control);
    }

    fn grow(&mut self, ack: &Ack, control: &mut Control) {
        if !self.rtt.enabled {
            reno_growth(ack, control);
        } else if self.rtt.round_ended(ack) {
            if self.rtt.enough() {
                self.once_per_round(ack, control);
            } else {
                reno_growth(ack, control);
            }
            self.rtt.next_round(ack.view.snd_nxt);
        } else if control.in_slow_start() {
            increase::slow_start(control, ack.delivered);
        }
    }
}

impl CongestionControl for Vegas {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        self.rtt.measure(ack);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.grow(ack, control);
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = reno::halved(control.cwnd);
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        self.rtt.on_state(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::{CaState, StateEvent};

    /// Runs one round trip of four ACKs at `rtts` microseconds that ends beyond segment `end`.
    fn round(cc: &mut Vegas, mut control: Control, end: u64, rtts: [u64; 4]) -> Control {
        for (i, rtt) in rtts.into_iter().enumerate() {
            let ack = testing::ack_up_to(end + i as u64 - 2, end + 100, rtt);
            cc.on_measure(&ack, &mut control);
            cc.on_ack(&ack, &mut control);
            if i == 3 {
                // Only the last of the four is beyond `end`.
                assert!(!cc.rtt.round_ended(&ack));
            }
        }
        control
    }

    fn vegas(base: u32) -> Vegas {
        let mut rtt = VegasRtt::new(100);
        rtt.base = base;
        Vegas { params: Params::default(), rtt }
    }

    #[test]
    fn diff_counts_the_packets_in_the_queue_and_target_those_on_the_wire() {
        // 100 packets at 44 ms, of which 4 ms are queue: 100 · 4/40 = 10 in the queue, 100 · 40/44 = 90.9 without.
        assert_eq!((diff(100, 44_000, 40_000), target(100, 44_000, 40_000)), (10, 90));
    }

    #[test]
    fn the_product_in_diff_wraps_at_32_bits_as_in_linux() {
        // 5000 · 900 000 = 4 500 000 000 = 2^32 + 205 032 704.
        assert_eq!(diff(5000, 940_000, 40_000), 205_032_704 / 40_000);
    }

    #[test]
    fn the_window_moves_by_one_per_round_trip_to_hold_alpha_to_beta_packets() {
        // base = 40 000 us and cwnd = 100: diff = 1 at 40 400, 3 at 41 200, 5 at 42 000.
        for (rtt, cwnd) in [(40_400, 101), (41_200, 100), (42_000, 99)] {
            // The sample counts one microsecond more than was measured.
            let after =
                round(&mut vegas(40_000), testing::avoiding(100), 100, [rtt + 500, rtt - 1, rtt + 500, rtt + 500]);
            assert_eq!(after.cwnd, cwnd, "rtt {rtt}");
        }
    }

    #[test]
    fn slow_start_ends_at_the_actual_rate_plus_one() {
        // diff = 103 · 2000 / 40 000 = 5 > gamma; three ACKs in slow start come first, so cwnd = 103 at the decision.
        let after = round(&mut vegas(40_000), Control::initial(100), 100, [41_999; 4]);
        // 103 · 40 000 / 42 000 = 98.09, and one.
        assert_eq!((after.cwnd, after.ssthresh, after.phase), (99, 99, 1));
    }

    #[test]
    fn two_samples_in_a_round_trip_are_not_enough_and_reno_steps_in() {
        let mut cc = vegas(40_000);
        let mut control = testing::avoiding(100);
        for una in [100, 101] {
            let ack = testing::ack_up_to(una, 200, 60_000);
            cc.on_measure(&ack, &mut control);
            cc.on_ack(&ack, &mut control);
        }
        assert_eq!((control.cwnd, control.cwnd_cnt), (100, 1));
    }

    #[test]
    fn outside_of_open_it_grows_as_reno_and_measures_anew_afterwards() {
        let mut cc = vegas(40_000);
        let view = testing::ack_up_to(50, 300, 0).view;
        cc.on_state(&testing::change(*view, StateEvent::Entered(CaState::Disorder)), &mut testing::avoiding(100));
        let after = testing::after(testing::avoiding(100), |c| cc.on_ack(&testing::ack_up_to(150, 300, 90_000), c));
        assert_eq!((after.cwnd, after.cwnd_cnt), (100, 1));
        cc.on_state(&testing::change(*view, StateEvent::Entered(CaState::Open)), &mut testing::avoiding(100));
        assert_eq!((cc.rtt.count, cc.rtt.base), (0, 40_000));
        assert!(
            !cc.rtt.round_ended(&testing::ack_up_to(300, 400, 0))
                && cc.rtt.round_ended(&testing::ack_up_to(301, 400, 0))
        );
    }

    #[test]
    fn an_idle_time_makes_it_forget_the_base_rtt() {
        let mut cc = vegas(40_000);
        cc.on_state(&testing::change(testing::view(), StateEvent::Restart), &mut testing::avoiding(10));
        cc.on_measure(&testing::ack_up_to(1, 10, 70_000), &mut testing::avoiding(10));
        assert_eq!(cc.rtt.base, 70_001);
    }
}
