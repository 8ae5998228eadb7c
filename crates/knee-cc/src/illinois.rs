//! Illinois: the queueing delay sets how fast the window grows and how far it falls; losses set when.
//!
//! Source: S. Liu, T. Başar, R. Srikant, "TCP-Illinois: A Loss- and Delay-Based Congestion Control Algorithm for
//! High-Speed Networks", Performance Evaluation 65, 2008, in the form of Linux's `tcp_illinois.c`. With `da` the mean
//! queueing delay of the last round trip and `dm` the greatest seen:
//!
//! - `alpha = k1 / (k2 + da)`: 10 packets per round trip at `da <= d1`, down to 0.3 at `dm`; `d1 = dm / 100`
//! - `beta = k3 + k4 da`: 1/8 up to `d2 = dm / 10`, 1/2 from `d3 = 8 dm / 10`
//! - congestion avoidance: `cwnd += alpha / cwnd` per packet acknowledged; loss: `ssthresh = (1 - beta) cwnd`
//! - once the delay was above `d1`, alpha returns to 10 only after `theta` round trips below
//! - below `win_thresh` packets, and after a timeout: Reno, alpha = 1 and beta = 1/2
//!
//! alpha is kept in 128ths, beta in 64ths, delays in microseconds.
//!
//! Departures from the paper, all as Linux does: `dm` is never aged; RTTs count up to 3.3 s; what an ACK in slow start
//! acknowledges beyond `ssthresh` is not used; the count of RTTs per round trip has 16 bits and wraps.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Needs, StateChange, StateEvent, View, increase, slow_start,
};
use knee_core::convert::saturating_u32;
use knee_core::params;

/// Illinois' registry entry.
pub const ENTRY: Entry = Entry {
    name: "illinois",
    family: Family::Hybrid,
    about: "additive increase and multiplicative decrease whose factors follow the queueing delay",
    source: "Liu, Basar, Srikant, TCP-Illinois, Perform. Eval. 65 2008; Linux net/ipv4/tcp_illinois.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        slow_start::with(Illinois::new(params), &params.start, init)
    },
};

params! {
    /// Illinois' parameters.
    struct Params {
        /// window below which it behaves like Reno, in packets
        win_thresh: u32 = 15, in 0..=1_000_000, from "Liu, Basar, Srikant 2008; tcp_illinois.c";
        /// round trips of low delay before growth returns to its maximum
        theta: u8 = 5, in 1..=255, from "Liu, Basar, Srikant 2008; tcp_illinois.c";
        #[flatten]
        start: slow_start::Params;
    }
}

/// alpha of Reno, 1.
const ALPHA_BASE: u32 = 1 << 7;
/// Least alpha, 0.3 rounded down.
const ALPHA_MIN: u32 = 3 * ALPHA_BASE / 10;
/// Greatest alpha, 10.
const ALPHA_MAX: u32 = 10 * ALPHA_BASE;
/// Shift of beta's unit.
const BETA_SHIFT: u32 = 6;
/// Least beta, 1/8.
const BETA_MIN: u32 = 1 << (BETA_SHIFT - 3);
/// Greatest beta, 1/2, that of Reno.
const BETA_MAX: u32 = 1 << (BETA_SHIFT - 1);
/// The longest RTT counted, in microseconds: its product with [`ALPHA_MAX`] fits 32 bits.
const RTT_MAX: u32 = u32::MAX / ALPHA_MAX;

/// State of a connection.
#[derive(Clone)]
struct Illinois {
    p: Params,
    /// Sum of the RTTs of this round trip, in microseconds.
    rtt_sum: u64,
    /// Their number; wraps.
    rtt_count: u16,
    /// Least RTT in microseconds.
    rtt_base: u32,
    /// Greatest RTT in microseconds.
    rtt_max: u32,
    /// The round trip ends when this segment is passed; `None` before the first ACK.
    end_seq: Option<u64>,
    /// Growth per round trip in 128ths of a packet.
    alpha: u32,
    /// Share of the window that a loss takes, in 64ths.
    beta: u32,
    /// Packets the next ACK in congestion avoidance counts for.
    acked: u32,
    /// The delay has been above `d1` since alpha was at its greatest.
    rtt_above: bool,
    /// Round trips of low delay since.
    rtt_low: u8,
}

/// `k1 / (k2 + da)` for `da > dm / 100`, in 128ths.
fn alpha(da: u32, dm: u32) -> u32 {
    let d1 = dm / 100;
    let (dm, da) = (dm - d1, da - d1);
    // In 32 bits, as in Linux: only a mean spoilt by the wrapping count can overflow.
    let slope = da.wrapping_mul(ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN;
    dm.wrapping_mul(ALPHA_MAX) / dm.wrapping_add(slope).max(1)
}

/// `k3 + k4 da` within 1/8 to 1/2, in 64ths.
fn beta(da: u32, dm: u32) -> u32 {
    let (d2, d3) = (dm / 10, 8 * dm / 10);
    if da <= d2 {
        BETA_MIN
    } else if da >= d3 || d3 <= d2 {
        BETA_MAX
    } else {
        (BETA_MIN * d3 + (BETA_MAX - BETA_MIN) * da - BETA_MAX * d2) / (d3 - d2)
    }
}

impl Illinois {
    fn new(p: Params) -> Self {
        Self {
            p,
            rtt_sum: 0,
            rtt_count: 0,
            rtt_base: 0x7fff_ffff,
            rtt_max: 0,
            end_seq: None,
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            acked: 0,
            rtt_above: false,
            rtt_low: 0,
        }
    }

    fn start_round(&mut self, view: &View) {
        self.end_seq = Some(view.snd_nxt);
        (self.rtt_sum, self.rtt_count) = (0, 0);
    }

    fn next_alpha(&mut self, da: u32, dm: u32) -> u32 {
        if da > dm / 100 {
            self.rtt_above = true;
            return alpha(da, dm);
        }
        if self.rtt_above {
            self.rtt_low += 1;
            if self.rtt_low < self.p.theta {
                return self.alpha;
            }
            (self.rtt_low, self.rtt_above) = (0, false);
        }
        ALPHA_MAX
    }

    /// Ends a round trip.
    fn update(&mut self, view: &View, cwnd: u32) {
        if cwnd < self.p.win_thresh {
            (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
        } else if self.rtt_count > 0 {
            let mean = saturating_u32(self.rtt_sum / u64::from(self.rtt_count));
            let (da, dm) = (mean.wrapping_sub(self.rtt_base), self.rtt_max.saturating_sub(self.rtt_base));
            self.alpha = self.next_alpha(da, dm);
            self.beta = beta(da, dm);
        }
        self.start_round(view);
    }
}

impl CongestionControl for Illinois {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        // Nothing was outstanding at the start: the first round trip ends with the first new ACK.
        self.end_seq = self.end_seq.or(Some(ack.prior_una));
        self.acked = ack.acked;
        if let Some(rtt) = ack.rtt {
            let rtt = saturating_u32(rtt.as_micros().min(u64::from(RTT_MAX)));
            self.rtt_base = self.rtt_base.min(rtt);
            self.rtt_max = self.rtt_max.max(rtt);
            self.rtt_sum += u64::from(rtt);
            self.rtt_count = self.rtt_count.wrapping_add(1);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if self.end_seq.is_some_and(|end| ack.view.snd_una > end) {
            self.update(ack.view, control.cwnd);
        }
        if !ack.cwnd_limited {
            return;
        }
        let c = control;
        if c.in_slow_start() {
            increase::slow_start(c, ack.delivered);
        } else {
            c.cwnd_cnt = c.cwnd_cnt.saturating_add(self.acked);
            self.acked = 1;
            let delta = saturating_u32((u64::from(c.cwnd_cnt) * u64::from(self.alpha)) >> 7);
            if delta >= c.cwnd {
                c.cwnd = c.cwnd.saturating_add(delta / c.cwnd);
                c.cwnd_cnt = 0;
            }
        }
        c.phase = increase::classic_phase(c);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        let cut = (u64::from(control.cwnd) * u64::from(self.beta)) >> BETA_SHIFT;
        control.ssthresh = (control.cwnd - saturating_u32(cut)).max(2);
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        if change.event == StateEvent::Entered(CaState::Loss) {
            (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
            (self.rtt_low, self.rtt_above) = (0, false);
            self.start_round(change.view);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, avoiding, change_at, loss_at};
    use knee_core::Time;

    fn illinois() -> Illinois {
        Illinois::new(Params::default())
    }

    #[test]
    fn alpha_falls_from_ten_to_three_tenths() {
        // dm = 10 ms: just above d1 = 100 us, at half the range, at its end.
        // 9900 * 1280 / (9900 + 1242 / 38) = 1275.9.
        assert_eq!(alpha(101, 10_000), 1275);
        // 9900 * 1280 / (9900 + 4950 * 1242 / 38).
        assert_eq!(alpha(5_050, 10_000), 73);
        assert_eq!(alpha(10_000, 10_000), ALPHA_MIN);
    }

    #[test]
    fn beta_rises_linearly_from_an_eighth_to_a_half() {
        assert_eq!([0, 1_000, 4_500, 8_000, 10_000].map(|da| beta(da, 10_000)), [8, 8, 20, 32, 32]);
        // No delay ever seen: the loss was not congestion's.
        assert_eq!(beta(0, 0), BETA_MIN);
    }

    #[test]
    fn full_growth_comes_back_after_theta_round_trips() {
        let mut cc = illinois();
        assert_eq!(cc.next_alpha(0, 10_000), ALPHA_MAX);
        cc.alpha = cc.next_alpha(5_050, 10_000);
        let back: Vec<u32> = (0..5).map(|_| cc.next_alpha(50, 10_000)).collect();
        assert_eq!(back, [73, 73, 73, 73, ALPHA_MAX]);
    }

    #[test]
    fn ten_packets_are_gained_per_window_while_the_queue_is_empty() {
        let mut cc = illinois();
        let mut c = avoiding(1000);
        let ack = ack_at(Time::from_secs(1), 2, Some(Time::from_millis(40)));
        for _ in 0..500 {
            cc.on_measure(&ack, &mut c);
            cc.on_ack(&ack, &mut c);
        }
        // Rounding up to whole ACKs costs one of them.
        assert_eq!(c.cwnd, 1009);
        // Before the first RTT above, beta is that of an empty queue.
        assert_eq!(crate::testing::after(avoiding(800), |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 700);
    }

    #[test]
    fn small_windows_and_timeouts_are_renos() {
        let mut cc = illinois();
        let ack = ack_at(Time::from_secs(1), 2, Some(Time::from_millis(40)));
        cc.on_measure(&ack, &mut avoiding(14));
        cc.on_ack(&ack, &mut avoiding(14));
        assert_eq!((cc.alpha, cc.beta), (ALPHA_BASE, BETA_MAX));
        let mut cc = illinois();
        cc.on_state(&change_at(Time::ZERO, StateEvent::Entered(CaState::Loss)), &mut avoiding(1));
        assert_eq!((cc.alpha, cc.beta), (ALPHA_BASE, BETA_MAX));
    }
}
