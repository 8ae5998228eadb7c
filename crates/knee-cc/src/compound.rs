//! Compound TCP: Reno's window plus a second one that fills fast links and shrinks as soon as a queue grows.
//!
//! Source: K. Tan, J. Song, Q. Zhang, M. Sridharan, "A Compound TCP Approach for High-speed and Long Distance
//! Networks", INFOCOM 2006; constants as in draft-sridharan-tcpm-ctcp-02.
//!
//! - window: `win = cwnd + dwnd` (Eq. 1); `cwnd` grows by `1 / win` per ACK (Eq. 2), so by one packet a round trip
//! - backlog: `diff = (win / baseRTT - win / RTT) baseRTT` (as Vegas)
//! - per round trip (Eq. 5): `dwnd += max(alpha win^k - 1, 0)` while `diff < gamma`, else
//!   `dwnd = max(dwnd - zeta diff, 0)`
//! - loss: `cwnd /= 2`, `dwnd = max(win (1 - beta) - cwnd / 2, 0)` (Eq. 5): together `win (1 - beta)`; a timeout takes
//!   `dwnd` to zero
//! - `alpha` = 1/8, `beta` = 1/2, `k` = 3/4, `gamma` = 30 packets
//!
//! Units: packets. `loss_window` below is the paper's `cwnd`, `delay_window` its `dwnd`; the sender's `cwnd` is `win`.
//!
//! Departures: RTT is the mean of the samples of a round trip; `gamma` is fixed (the draft also tells how it may be
//! tuned to small buffers); slow start is Linux's, with `dwnd = 0`.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::window::Fractional;
use crate::{Ack, Congestion, CongestionControl, Control, Needs, Signal, Undo, increase, slow_start};
use knee_core::convert::truncated_u32;
use knee_core::params;

/// Compound's registry entry.
pub const ENTRY: Entry = Entry {
    name: "compound",
    family: Family::Hybrid,
    about: "Reno's window plus a delay-based one that shrinks when a queue grows",
    source: "Tan et al.: Compound TCP, INFOCOM 2006; draft-sridharan-tcpm-ctcp-02",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        let cc = Compound {
            params,
            delay_window: 0.0,
            prior_delay_window: 0.0,
            window: Fractional::default(),
            base_rtt: init.rtt.as_secs_f64(),
            rtt_sum: 0.0,
            rtt_count: 0,
            round_end: 0,
        };
        slow_start::with(cc, &params.start, init)
    },
};

params! {
    /// Compound's parameters.
    struct Params {
        /// factor of the increase alpha win^k
        alpha: f64 = 0.125, in 0.0..=1.0, from "draft-sridharan-tcpm-ctcp-02";
        /// fraction of win given up on a loss
        beta: f64 = 0.5, in 0.01..=0.99, from "draft-sridharan-tcpm-ctcp-02";
        /// exponent of the increase alpha win^k
        k: f64 = 0.75, in 0.0..=1.0, from "draft-sridharan-tcpm-ctcp-02";
        /// how fast dwnd shrinks when a queue grows
        zeta: f64 = 1.0, in 0.0..=10.0, from "INFOCOM 2006, Eq. 5";
        /// packets queued that count as congestion
        gamma: u32 = 30, in 1..=10_000, from "INFOCOM 2006; draft-sridharan-tcpm-ctcp-02";
        #[flatten]
        start: slow_start::Params;
    }
}

#[derive(Clone)]
struct Compound {
    params: Params,
    /// The paper's dwnd, packets.
    delay_window: f64,
    /// Before the last reduction, should it be undone.
    prior_delay_window: f64,
    /// The paper's win.
    window: Fractional,
    /// Least RTT seen, seconds.
    base_rtt: f64,
    /// Sum of the RTT samples of the round trip under way, seconds.
    rtt_sum: f64,
    rtt_count: u32,
    /// The round trip ends when this segment is acknowledged.
    round_end: u64,
}

/// Packets queued of a window `win`.
pub fn diff(win: f64, base_rtt: f64, rtt: f64) -> f64 {
    if rtt > base_rtt { win * (1.0 - base_rtt / rtt) } else { 0.0 }
}

/// Growth of dwnd in a round trip without congestion, packets (Eq. 5, first case).
pub fn delay_increase(win: f64, alpha: f64, k: f64) -> f64 {
    (alpha * libm::pow(win, k) - 1.0).max(0.0)
}

/// dwnd after a round trip that saw `diff` packets queued, at least gamma (Eq. 5, second case).
pub fn withdrawn(dwnd: f64, diff: f64, zeta: f64) -> f64 {
    (dwnd - zeta * diff).max(0.0)
}

/// dwnd after a loss (Eq. 5, third case).
pub fn after_loss(win: f64, loss_window: f64, beta: f64) -> f64 {
    (win * (1.0 - beta) - loss_window / 2.0).max(0.0)
}

impl Compound {
    fn end_of_round(&mut self, win: f64) {
        let rtt = self.rtt_sum / f64::from(self.rtt_count);
        let queued = diff(win, self.base_rtt, rtt);
        let p = &self.params;
        self.delay_window = if queued < f64::from(p.gamma) {
            self.delay_window + delay_increase(win, p.alpha, p.k)
        } else {
            withdrawn(self.delay_window, queued, p.zeta)
        };
        (self.rtt_sum, self.rtt_count) = (0.0, 0);
    }
}

impl CongestionControl for Compound {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.as_secs_f64();
            self.base_rtt = if self.base_rtt > 0.0 { self.base_rtt.min(rtt) } else { rtt };
            self.rtt_sum += rtt;
            self.rtt_count += 1;
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        let mut rest = ack.delivered;
        if control.in_slow_start() {
            rest = increase::slow_start(control, rest);
            (self.round_end, self.rtt_sum, self.rtt_count) = (ack.view.snd_nxt, 0.0, 0);
        }
        if rest > 0 {
            let win = self.window.read(control.cwnd);
            self.delay_window = self.delay_window.min(win);
            let mut loss_window = win - self.delay_window;
            loss_window += f64::from(rest) / win.max(1.0);
            if ack.view.snd_una >= self.round_end && self.rtt_count > 0 {
                self.round_end = ack.view.snd_nxt;
                self.end_of_round(win);
            }
            control.cwnd = self.window.write(loss_window + self.delay_window, 1);
            control.ssthresh = control.ssthresh.min(control.cwnd);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let win = self.window.read(control.cwnd);
        let loss_window = (win - self.delay_window).max(0.0);
        self.prior_delay_window = self.delay_window;
        self.delay_window = match congestion.signal {
            Signal::Timeout => 0.0,
            Signal::Loss | Signal::Ecn => after_loss(win, loss_window, self.params.beta),
        };
        control.ssthresh = (truncated_u32(win * (1.0 - self.params.beta))).max(2);
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        self.delay_window = self.prior_delay_window;
        control.cwnd = control.cwnd.max(undo.prior_cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::close;

    #[test]
    fn dwnd_grows_as_the_power_of_the_window_less_renos_packet() {
        // 256^0.75 = 64: an eighth of it is 8, less Reno's one 7. Below 16 packets (16^0.75 = 8) Reno alone grows.
        assert!(close(delay_increase(256.0, 0.125, 0.75), 7.0));
        assert!(close(delay_increase(16.0, 0.125, 0.75), 0.0) && close(delay_increase(5.0, 0.125, 0.75), 0.0));
    }

    #[test]
    fn dwnd_withdraws_by_what_is_queued() {
        // 200 packets at 80 of 100 ms: 40 queued.
        assert!(close(diff(200.0, 0.08, 0.1), 40.0));
        assert!(close(withdrawn(100.0, 40.0, 1.0), 60.0) && close(withdrawn(30.0, 40.0, 1.0), 0.0));
    }

    #[test]
    fn a_loss_takes_half_of_the_whole_window() {
        // cwnd 40, dwnd 60: win 100 becomes 50, of which 20 are Reno's.
        assert!(close(after_loss(100.0, 40.0, 0.5), 30.0));
        // beta = 0.8 would leave 20 in all: nothing for dwnd.
        assert!(close(after_loss(100.0, 40.0, 0.8), 0.0));
    }
}
