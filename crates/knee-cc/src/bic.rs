//! BIC: after a loss the window searches its former maximum by bisection, then probes beyond it, first slowly.
//!
//! Source: L. Xu, K. Harfoush, I. Rhee, "Binary Increase Congestion Control (BIC) for Fast Long-Distance Networks",
//! INFOCOM 2004, in the form of Linux's `tcp_bic.c`. With `w_max` the window at the last loss and B = 4:
//!
//! - growth per round trip below `w_max`: `(w_max - cwnd) / B`, at most `max_increment`; where that is 1 or less,
//!   `B / smooth_part` (binary search, additive increase)
//! - beyond `w_max`: mirrored, `B / smooth_part`, then `(cwnd - w_max) / (B - 1)`, at most `max_increment` (max
//!   probing)
//! - as long as there was no loss: at least 5 % per round trip
//! - loss: `ssthresh = beta cwnd`, beta = 819/1024; `w_max = cwnd`, or `(1 + beta) / 2 cwnd` where `cwnd` fell short
//!   of `w_max` (fast convergence)
//! - up to `low_window` packets: Reno
//!
//! Growth is kept as `cnt`, the packets to acknowledge per packet of growth, and is corrected by the receiver's ratio
//! of packets per ACK (in 16ths, smoothed by 1/16), as if growth were per ACK. It is not computed anew within `HZ / 32`
//! while `cwnd` does not change.
//!
//! Departures from the paper, all as Linux does: beta is 0.8, not 0.875; `cnt` goes by packets acknowledged, and yet is
//! divided by the packets per ACK, so that with delayed ACKs BIC grows twice as fast as its equations say.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::jiffies::Jiffies;
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, StateChange, StateEvent, View, increase, reno,
    slow_start,
};
use knee_core::convert::saturating_u32;
use knee_core::params;

/// BIC's registry entry.
pub const ENTRY: Entry = Entry {
    name: "bic",
    family: Family::LossBased,
    about: "binary search for the window of the last loss, then probing beyond it",
    source: "Xu, Harfoush, Rhee, BIC, INFOCOM 2004; Linux net/ipv4/tcp_bic.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        slow_start::with(Bic::new(params, init), &params.start, init)
    },
};

params! {
    /// BIC's parameters.
    struct Params {
        /// release bandwidth faster if the maximum window shrinks
        fast_convergence: bool = true, from "Xu, Harfoush, Rhee 2004; tcp_bic.c";
        /// maximum growth per round trip, in packets
        max_increment: u64 = 16, in 1..=100_000, from "tcp_bic.c";
        /// window up to which BIC behaves like Reno, in packets
        low_window: u32 = 14, in 0..=1_000_000, from "Xu, Harfoush, Rhee 2004; tcp_bic.c";
        /// fraction of the window kept after a loss, in 1/1024
        beta: u64 = 819, in 1..=1023, from "tcp_bic.c";
        /// first ssthresh in packets, at least 2; 0: none
        initial_ssthresh: u32 = 0, in 0..=1_000_000_000, from "tcp_bic.c";
        /// round trips over the last B packets before, and the first B after, the former maximum
        smooth_part: u64 = 20, in 1..=100_000, from "tcp_bic.c";
        #[flatten]
        start: slow_start::Params;
    }
}

/// Unit of `beta`.
const BETA_SCALE: u64 = 1024;
/// The search goes this fraction of the distance per round trip (`BICTCP_B`).
const B: u64 = 4;
/// Packets per ACK are counted in units of 2^-4.
const ACK_RATIO_SHIFT: u32 = 4;

/// State of a connection.
#[derive(Clone)]
struct Bic {
    p: Params,
    clock: Jiffies,
    /// The parameter `initial_ssthresh` still has to be set.
    fresh: bool,
    /// Packets to acknowledge per packet of growth.
    cnt: u32,
    /// Window of the last loss in packets; zero before the first.
    w_max: u32,
    /// Window for which `cnt` was computed, in packets.
    last_cwnd: u32,
    /// When `cnt` was computed, in jiffies.
    last_time: u64,
    /// Packets per ACK in 16ths.
    ack_ratio: u32,
}

/// Packets to acknowledge per packet of growth at `cwnd`, before the correction for delayed ACKs.
fn packets_per_increase(p: &Params, cwnd: u32, w_max: u32) -> u64 {
    if cwnd <= p.low_window {
        return u64::from(cwnd);
    }
    let (w, w_max) = (u64::from(cwnd), u64::from(w_max));
    let smooth = w * p.smooth_part / B;
    let cnt = if w < w_max {
        match (w_max - w) / B {
            step if step > p.max_increment => w / p.max_increment,
            0 | 1 => smooth,
            step => w / step,
        }
    } else if w < w_max + B {
        smooth
    } else if w < w_max + p.max_increment * (B - 1) {
        w * (B - 1) / (w - w_max)
    } else {
        w / p.max_increment
    };
    if w_max == 0 { cnt.min(20) } else { cnt }
}

/// `w_max` after a congestion signal at `cwnd`, in packets.
fn next_w_max(p: &Params, cwnd: u32, w_max: u32) -> u32 {
    if cwnd < w_max && p.fast_convergence {
        saturating_u32(u64::from(cwnd) * (BETA_SCALE + p.beta) / (2 * BETA_SCALE))
    } else {
        cwnd
    }
}

/// `ssthresh` after a congestion signal at `cwnd`, in packets.
fn reduced(p: &Params, cwnd: u32) -> u32 {
    if cwnd <= p.low_window {
        reno::halved(cwnd)
    } else {
        (saturating_u32(u64::from(cwnd) * p.beta / BETA_SCALE)).max(2)
    }
}

/// Smoothed packets per ACK in 16ths after an ACK of `acked` packets.
fn next_ack_ratio(ratio: u32, acked: u32) -> u32 {
    (ratio - (ratio >> ACK_RATIO_SHIFT)).saturating_add(acked)
}

impl Bic {
    fn new(p: Params, init: &Init) -> Self {
        let mut bic = Self {
            p,
            clock: Jiffies::new(init.tick),
            fresh: true,
            cnt: 0,
            w_max: 0,
            last_cwnd: 0,
            last_time: 0,
            ack_ratio: 0,
        };
        bic.reset();
        bic
    }

    /// Resets the state; assumes two packets per ACK.
    fn reset(&mut self) {
        (self.cnt, self.w_max, self.last_cwnd, self.last_time) = (0, 0, 0, 0);
        self.ack_ratio = 2 << ACK_RATIO_SHIFT;
    }

    fn update(&mut self, view: &View, cwnd: u32) {
        let now = self.clock.at(view.now);
        if self.last_cwnd == cwnd && now - self.last_time.min(now) <= self.clock.hz() / 32 {
            return;
        }
        (self.last_cwnd, self.last_time) = (cwnd, now);
        let cnt = packets_per_increase(&self.p, cwnd, self.w_max);
        // Linux applies the correction above `low_window` only.
        self.cnt = if cwnd <= self.p.low_window {
            saturating_u32(cnt)
        } else {
            saturating_u32(((cnt << ACK_RATIO_SHIFT) / u64::from(self.ack_ratio.max(1))).clamp(1, u64::from(u32::MAX)))
        };
    }
}

impl CongestionControl for Bic {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if ack.view.ca == CaState::Open {
            self.ack_ratio = next_ack_ratio(self.ack_ratio, ack.acked);
        }
        if std::mem::take(&mut self.fresh) && self.p.initial_ssthresh > 0 {
            control.ssthresh = self.p.initial_ssthresh.max(2);
            control.phase = increase::classic_phase(control);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        let rest = if control.in_slow_start() { increase::slow_start(control, ack.delivered) } else { ack.delivered };
        if rest > 0 {
            self.update(ack.view, control.cwnd);
            increase::additive_increase(control, self.cnt, rest);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        self.w_max = next_w_max(&self.p, control.cwnd, self.w_max);
        control.ssthresh = reduced(&self.p, control.cwnd);
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        if change.event == StateEvent::Entered(CaState::Loss) {
            self.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, avoiding, change_at, loss_at, make, make_with};
    use knee_core::{Time, Value};

    fn defaults() -> Params {
        Params::default()
    }

    #[test]
    fn growth_per_round_trip_is_bisection_bounded_by_the_greatest_increment() {
        let cnt = |w| packets_per_increase(&defaults(), w, 1000);
        // 800: a quarter of the way is 50 packets, more than 16: 800 / 16.
        assert_eq!(cnt(800), 50);
        // 960: 10 packets per round trip.
        assert_eq!(cnt(960), 96);
        // 996: one packet is too much: 20 round trips for 4 packets.
        assert_eq!(cnt(996), 996 * 20 / 4);
    }

    #[test]
    fn probing_beyond_the_maximum_starts_slowly_and_speeds_up() {
        let cnt = |w| packets_per_increase(&defaults(), w, 1000);
        assert_eq!(cnt(1003), 1003 * 20 / 4);
        // 1012: a third of the 12 packets gone past.
        assert_eq!(cnt(1012), 1012 * 3 / 12);
        assert_eq!(cnt(1048), 1048 / 16);
    }

    #[test]
    fn before_the_first_loss_growth_is_at_least_five_percent() {
        assert_eq!(packets_per_increase(&defaults(), 1000, 0), 20);
        assert_eq!(packets_per_increase(&defaults(), 14, 0), 14);
    }

    #[test]
    fn a_loss_keeps_four_fifths_and_a_second_one_below_the_maximum_gives_way() {
        let mut cc = Bic::new(defaults(), &crate::testing::init());
        assert_eq!(crate::testing::after(avoiding(1000), |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 799);
        assert_eq!(cc.w_max, 1000);
        assert_eq!(crate::testing::after(avoiding(900), |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 719);
        // 900 * 1843 / 2048.
        assert_eq!(cc.w_max, 809);
        assert_eq!(crate::testing::after(avoiding(14), |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 7);
    }

    #[test]
    fn packets_per_ack_settle_at_the_receivers_ratio() {
        assert_eq!(next_ack_ratio(32, 2), 32);
        assert_eq!((0..200).fold(32, |r, _| next_ack_ratio(r, 4)), 64);
        // From above, whole 16ths stop it within one packet of the ratio: 31 - 31 / 16 + 1 = 31.
        assert_eq!((0..200).fold(32, |r, _| next_ack_ratio(r, 1)), 31);
        // Duplicate ACKs alone: it never reaches zero.
        assert_eq!((0..200).fold(32, |r, _| next_ack_ratio(r, 0)), 15);
    }

    #[test]
    fn delayed_acks_double_the_growth() {
        let mut cc = make(&ENTRY);
        cc.on_congestion(&loss_at(Time::ZERO), &mut avoiding(1000));
        // 50 packets acknowledged per packet of growth, halved by the assumed two packets per ACK.
        let mut c = avoiding(800);
        for _ in 0..13 {
            cc.on_ack(&ack(2), &mut c);
        }
        assert_eq!((c.cwnd, c.cwnd_cnt), (801, 1));
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut cc = Bic::new(defaults(), &crate::testing::init());
        cc.on_congestion(&loss_at(Time::ZERO), &mut avoiding(1000));
        cc.on_state(&change_at(Time::ZERO, StateEvent::Entered(CaState::Loss)), &mut avoiding(1));
        assert_eq!(cc.w_max, 0);
    }

    #[test]
    fn the_first_slow_start_ends_at_the_initial_threshold() {
        let mut cc = make_with(&ENTRY, &[("initial_ssthresh", Value::Count(100))]);
        let c = crate::testing::after(Control::initial(10), |c| cc.on_measure(&ack(1), c));
        assert_eq!(c.ssthresh, 100);
    }
}
