//! YeAH: grows as Scalable while the queue is short, empties it before it overflows, and falls back to Reno's pace.
//!
//! Source: Baiocchi, Castellani, Vacirca, "YeAH-TCP: Yet Another Highspeed TCP", PFLDnet 2007, in the form of Linux's
//! net/ipv4/tcp_yeah.c. `base` and `rtt` are Vegas's minima (`vegas_rtt`), in microseconds.
//!
//! - queue, once per round trip: `Q = cwnd · (rtt - base) / rtt` packets
//! - fast, where `Q <= alpha` and `rtt - base <= base / phy`: one packet per `min(cwnd, 100)` acknowledged
//! - slow otherwise: one packet per window; where also `Q > alpha`, early decongestion:
//!   `cwnd -= min(Q / gamma, cwnd >> epsilon)`, but not below `reno_count`, the window of an imagined Reno flow
//! - loss: `cwnd -= max(min(Q, cwnd / 2), cwnd >> delta)`; after `rho` slow round trips in a row half the window, since
//!   then others compete that do not empty the queue
//! - `zeta` fast round trips let `reno_count` start anew
//!
//! Departures from the paper, all as Linux does: delta and epsilon are shifts, the queue's part of the decision uses
//! whole packets, and slow start hands its rest to the same ACK's increase.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::vegas_rtt::VegasRtt;
use crate::{Ack, Congestion, CongestionControl, Control, Needs, StateChange, increase, slow_start};
use knee_core::convert::saturating_u32;
use knee_core::params;

const SOURCE: &str = "Baiocchi et al., YeAH-TCP, PFLDnet 2007; Linux net/ipv4/tcp_yeah.c";

/// YeAH's registry entry.
pub const ENTRY: Entry = Entry {
    name: "yeah",
    family: Family::Hybrid,
    about: "scalable growth with a short queue, early decongestion and Reno's pace with a long one",
    source: SOURCE,
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        slow_start::with(Yeah { params, state: YeahState::new() }, &params.start, init)
    },
};

params! {
    /// YeAH's parameters.
    struct Params {
        /// queued packets of the flow at which it empties the queue
        alpha: u32 = 80, in 0..=1_000_000, from SOURCE;
        /// the queue is reduced by its gamma-th part per round trip
        gamma: u32 = 1, in 1..=1000, from SOURCE;
        /// a loss reduces the window by at least the window shifted right by this
        delta: u32 = 3, in 0..=31, from SOURCE;
        /// emptying the queue reduces the window by at most the window shifted right by this
        epsilon: u32 = 1, in 0..=31, from SOURCE;
        /// slow mode starts when the queueing delay exceeds the phy-th part of the base RTT
        phy: u32 = 8, in 1..=1000, from SOURCE;
        /// round trips in slow mode after which a loss halves the window
        rho: u32 = 16, in 0..=100_000, from SOURCE;
        /// round trips in fast mode after which the estimate of competing Reno flows is reset
        zeta: u32 = 50, in 0..=100_000, from SOURCE;
        #[flatten]
        start: slow_start::Params;
    }
}

/// In fast mode the window grows by one packet per this many acknowledged (Scalable TCP; Linux's
/// `TCP_SCALABLE_AI_CNT`).
const SCALABLE_COUNT: u32 = 100;
/// Largest window, so that the arithmetic of decreases stays in 32 bits (Linux: 2^32 / 128).
const MAX_CWND: u32 = u32::MAX / 128;
/// Where Linux stops counting slow round trips.
const MAX_SLOW_ROUNDS: u32 = 0x00ff_ffff;

#[derive(Clone)]
struct YeahState {
    rtt: VegasRtt,
    /// Queue at the last decision, in packets (Linux's `lastQ`).
    queue: u32,
    /// Slow round trips in a row; 0 in fast mode (Linux's `doing_reno_now`).
    slow_rounds: u32,
    /// Window of the imagined Reno flow, in packets, at least 2.
    reno_count: u32,
    /// Fast round trips since the last loss or reset.
    fast_count: u32,
}

impl YeahState {
    const fn new() -> Self {
        Self { rtt: VegasRtt::new(0), queue: 0, slow_rounds: 0, reno_count: 2, fast_count: 0 }
    }
}

#[derive(Clone)]
struct Yeah {
    params: Params,
    state: YeahState,
}

/// Packets in the queue: `cwnd · (rtt - base) / rtt`; RTTs in microseconds.
pub const fn queue(cwnd: u32, rtt: u32, base: u32) -> u32 {
    saturating_u32(cwnd as u64 * rtt.saturating_sub(base) as u64 / if rtt > 0 { rtt as u64 } else { 1 })
}

/// Half the window, at least 2.
fn half(cwnd: u32) -> u32 {
    (cwnd >> 1).max(2)
}

/// Packets that a loss takes from the window: the queue, within `cwnd >> delta` and half the window.
pub fn loss_reduction(cwnd: u32, queue: u32, delta: u32) -> u32 {
    queue.min(half(cwnd)).max(cwnd >> delta)
}

impl Yeah {
    /// The decision at the end of a round trip.
    fn once_per_round(&mut self, control: &mut Control) {
        let (params, state) = (&self.params, &mut self.state);
        let queue = queue(control.cwnd, state.rtt.min, state.rtt.base);
        if queue > params.alpha || state.rtt.queueing() > state.rtt.base / params.phy {
            if queue > params.alpha && control.cwnd > state.reno_count {
                let reduction = (queue / params.gamma).min(control.cwnd >> params.epsilon);
                control.cwnd = (control.cwnd - reduction).max(state.reno_count);
                control.ssthresh = control.cwnd;
            }
            state.reno_count =
                if state.reno_count <= 2 { half(control.cwnd) } else { state.reno_count.saturating_add(1) };
            state.slow_rounds = (state.slow_rounds + 1).min(MAX_SLOW_ROUNDS);
        } else {
            state.fast_count += 1;
            if state.fast_count > params.zeta {
                state.reno_count = 2;
                state.fast_count = 0;
            }
            state.slow_rounds = 0;
        }
        state.queue = queue;
    }

    fn grow(&mut self, ack: &Ack, control: &mut Control) {
        let rest = if control.in_slow_start() { increase::slow_start(control, ack.delivered) } else { ack.delivered };
        if rest > 0 {
            let per = if self.state.slow_rounds == 0 { control.cwnd.min(SCALABLE_COUNT) } else { control.cwnd };
            increase::additive_increase(control, per, rest);
        }
        control.cwnd = control.cwnd.min(MAX_CWND);
        if self.state.rtt.round_ended(ack) {
            if self.state.rtt.enough() {
                self.once_per_round(control);
            }
            self.state.rtt.next_round(ack.view.snd_nxt);
        }
    }
}

impl CongestionControl for Yeah {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        self.state.rtt.measure(ack);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if ack.cwnd_limited {
            self.grow(ack, control);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        let (params, state) = (&self.params, &mut self.state);
        let reduction = if state.slow_rounds < params.rho {
            loss_reduction(control.cwnd, state.queue, params.delta)
        } else {
            half(control.cwnd)
        };
        state.fast_count = 0;
        state.reno_count = half(state.reno_count);
        control.ssthresh = control.cwnd.saturating_sub(reduction).max(2);
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        self.state.rtt.on_state(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Signal, testing};

    /// At the end of a round trip with these minima, in microseconds.
    fn yeah(base: u32, min: u32) -> Yeah {
        let mut state = YeahState::new();
        state.rtt.base = base;
        state.rtt.min = min;
        state.rtt.count = 3;
        Yeah { params: Params::default(), state }
    }

    fn lose(cc: &mut Yeah, cwnd: u32) -> u32 {
        testing::after(testing::avoiding(cwnd), |c| {
            cc.on_congestion(&testing::congestion(testing::view(), Signal::Loss), c);
        })
        .ssthresh
    }

    #[test]
    fn the_queue_is_the_share_of_the_window_that_waits() {
        // 500 packets, 10 ms of 50 ms are queueing: a fifth.
        assert_eq!(queue(500, 50_000, 40_000), 100);
    }

    #[test]
    fn fast_growth_takes_one_packet_per_hundred_acknowledged_slow_growth_one_per_window() {
        let ack = crate::Ack { delivered: 100, ..testing::ack_up_to(0, 1000, 40_000) };
        assert_eq!(testing::after(testing::avoiding(1000), |c| yeah(40_000, 40_000).on_ack(&ack, c)).cwnd, 1001);
        let mut slow = yeah(40_000, 40_000);
        slow.state.slow_rounds = 1;
        let after = testing::after(testing::avoiding(1000), |c| slow.on_ack(&ack, c));
        assert_eq!((after.cwnd, after.cwnd_cnt), (1000, 100));
    }

    #[test]
    fn a_queue_beyond_alpha_is_emptied_at_once_but_by_half_the_window_at_most() {
        let mut cc = yeah(40_000, 50_000);
        // Q = 500 · 10/50 = 100 > 80.
        let after = testing::after(testing::avoiding(500), |c| cc.once_per_round(c));
        assert_eq!((after.cwnd, after.ssthresh), (400, 400));
        assert_eq!((cc.state.reno_count, cc.state.slow_rounds), (200, 1));
        // Q = 500 · 60/100 = 300 > 250.
        assert_eq!(testing::after(testing::avoiding(500), |c| yeah(40_000, 100_000).once_per_round(c)).cwnd, 250);
    }

    #[test]
    fn emptying_stops_at_the_window_of_the_imagined_reno_flow() {
        let mut cc = yeah(40_000, 50_000);
        cc.state.reno_count = 450;
        assert_eq!(testing::after(testing::avoiding(500), |c| cc.once_per_round(c)).cwnd, 450);
        assert_eq!(cc.state.reno_count, 451);
    }

    #[test]
    fn a_delay_of_an_eighth_of_the_base_is_still_fast_and_more_is_slow() {
        let mut cc = yeah(40_000, 45_000);
        testing::after(testing::avoiding(100), |c| cc.once_per_round(c));
        assert_eq!(cc.state.slow_rounds, 0);
        let mut cc = yeah(40_000, 45_001);
        let after = testing::after(testing::avoiding(100), |c| cc.once_per_round(c));
        assert_eq!((cc.state.slow_rounds, after.cwnd), (1, 100));
    }

    #[test]
    fn a_loss_takes_the_queue_within_an_eighth_and_half_of_the_window() {
        assert_eq!([0, 30, 90].map(|q| loss_reduction(160, q, 3)), [20, 30, 80]);
        let mut cc = yeah(40_000, 40_000);
        cc.state.queue = 30;
        assert_eq!(lose(&mut cc, 160), 130);
    }

    #[test]
    fn after_rho_slow_rounds_a_loss_halves_the_window() {
        let mut cc = yeah(40_000, 40_000);
        cc.state.slow_rounds = 16;
        cc.state.reno_count = 50;
        assert_eq!(lose(&mut cc, 160), 80);
        assert_eq!(cc.state.reno_count, 25);
    }

    #[test]
    fn more_than_zeta_fast_rounds_reset_the_imagined_reno_flow() {
        let mut cc = yeah(40_000, 40_000);
        cc.state.reno_count = 60;
        for _ in 0..50 {
            testing::after(testing::avoiding(100), |c| cc.once_per_round(c));
        }
        assert_eq!(cc.state.reno_count, 60);
        testing::after(testing::avoiding(100), |c| cc.once_per_round(c));
        assert_eq!(cc.state.reno_count, 2);
    }
}
