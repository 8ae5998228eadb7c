//! FAST TCP: moves the window in one step to where `alpha` packets of the flow wait in the queue.
//!
//! Source: C. Jin, D. X. Wei, S. H. Low, "FAST TCP: Motivation, Architecture, Algorithms, Performance", INFOCOM 2004;
//! enlarged in IEEE/ACM ToN 14(6), 2006.
//!
//! - average RTT: `RTT += eta (sample - RTT)`, `eta = min(3 / w, 1/4)`; `baseRTT`: the least sample
//! - window: `w = min(2 w, (1 - gamma) w + gamma (baseRTT / RTT w + alpha))`, where `alpha` is `a w` while the
//!   queueing delay is zero (multiplicative increase)
//! - equilibrium: `w - w baseRTT / RTT = alpha`: each flow keeps `alpha` packets in the queue
//! - loss: the window is halved
//!
//! Units: packets, seconds inside. The window is a fraction; the sender sees whole packets.
//!
//! ```text
//! slow_start ──backlog ≥ alpha, or a loss──► equation ──timeout──► slow_start
//! ```
//!
//! Departures: the paper leaves slow start open; here it doubles per round trip until the estimated backlog
//! `w (1 - baseRTT / RTT)` reaches `alpha`. Its burstiness control is replaced by pacing. Queueing delay counts as
//! zero below 1 us, the clock's resolution.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::window::Fractional;
use crate::{Ack, Congestion, CongestionControl, Control, Needs, increase};
use knee_core::{Time, params};

/// FAST's registry entry.
pub const ENTRY: Entry = Entry {
    name: "fast",
    family: Family::DelayBased,
    about: "steps to the window that keeps alpha packets of the flow in the queue",
    source: "Jin, Wei, Low: FAST TCP, INFOCOM 2004",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 2,
    needs: Needs { pacing: true, ..Needs::NONE },
    make: |params, init| {
        Box::new(Fast {
            params: params.into(),
            base_rtt: init.rtt.as_secs_f64(),
            rtt: init.rtt.as_secs_f64(),
            round_end: 0,
            rounds: 0,
            window: Fractional::default(),
        })
    },
};

params! {
    /// FAST's parameters.
    struct Params {
        /// packets each flow keeps in the queue; the buffer must hold them for all flows
        alpha: u32 = 100, in 1..=100_000,
            from "INFOCOM 2004; the paper gives no default, 100 is the authors' ns-2 model's";
        /// weight of the new window in each step
        gamma: f64 = 0.5, in 0.01..=1.0, from "INFOCOM 2004";
        /// alpha = a w while there is no queueing delay
        a: f64 = 1.0, in 0.0..=10.0, from "INFOCOM 2004";
        /// round trips between steps
        update_every: u64 = 2, in 1..=16, from "INFOCOM 2004";
    }
}

#[derive(Clone)]
struct Fast {
    params: Params,
    /// Least RTT seen, seconds.
    base_rtt: f64,
    /// Average RTT, seconds.
    rtt: f64,
    /// The round trip ends when this segment is acknowledged.
    round_end: u64,
    rounds: u64,
    window: Fractional,
}

/// The least window of the equation, in packets.
const LEAST: u32 = 2;

/// Weight of a sample in the average RTT at window `w` in packets.
pub fn eta(w: f64) -> f64 {
    (3.0 / w).min(0.25)
}

/// Packets of a window `w` that wait in the queue, by Little's law.
pub fn backlog(w: f64, base_rtt: f64, rtt: f64) -> f64 {
    if rtt > base_rtt { w * (1.0 - base_rtt / rtt) } else { 0.0 }
}

/// The next window.
pub fn next_window(w: f64, base_rtt: f64, rtt: f64, alpha: f64, gamma: f64) -> f64 {
    let target = w - backlog(w, base_rtt, rtt) + alpha;
    (2.0 * w).min((1.0 - gamma) * w + gamma * target)
}

impl Fast {
    fn alpha(&self, w: f64) -> f64 {
        if self.rtt - self.base_rtt < Time::from_micros(1).as_secs_f64() {
            self.params.a * w
        } else {
            f64::from(self.params.alpha)
        }
    }
}

impl CongestionControl for Fast {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if let Some(sample) = ack.rtt {
            let sample = sample.as_secs_f64();
            self.base_rtt = if self.base_rtt > 0.0 { self.base_rtt.min(sample) } else { sample };
            self.rtt += eta(self.window.read(control.cwnd)) * (sample - self.rtt);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let w = self.window.read(control.cwnd);
        if control.in_slow_start() {
            if backlog(w, self.base_rtt, self.rtt) < f64::from(self.params.alpha) {
                if ack.cwnd_limited {
                    increase::slow_start(control, ack.delivered);
                }
                control.phase = increase::classic_phase(control);
                return;
            }
            control.ssthresh = control.cwnd.max(LEAST);
        }
        if ack.view.snd_una >= self.round_end {
            self.round_end = ack.view.snd_nxt;
            self.rounds += 1;
            if self.rounds.is_multiple_of(self.params.update_every) {
                let next = next_window(w, self.base_rtt, self.rtt, self.alpha(w), self.params.gamma);
                // Growth means nothing where the window did not limit sending.
                if next < w || ack.cwnd_limited {
                    control.cwnd = self.window.write(next, LEAST);
                    control.ssthresh = control.ssthresh.min(control.cwnd);
                }
            }
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = (control.cwnd / 2).max(LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::close;

    #[test]
    fn the_equation_rests_where_alpha_packets_are_queued() {
        // 100 packets at baseRTT 80 ms, RTT 100 ms: 20 queued. With alpha 20 nothing moves.
        assert!(close(backlog(100.0, 0.08, 0.1), 20.0));
        assert!(close(next_window(100.0, 0.08, 0.1, 20.0, 0.5), 100.0));
        // With alpha 50: halfway to 80 + 50.
        assert!(close(next_window(100.0, 0.08, 0.1, 50.0, 0.5), 115.0));
        assert!(close(backlog(100.0, 0.1, 0.1), 0.0));
    }

    #[test]
    fn a_step_at_most_doubles_the_window() {
        assert!(close(next_window(10.0, 0.1, 0.1, 1000.0, 0.5), 20.0));
    }

    #[test]
    fn a_sample_weighs_a_quarter_at_small_windows_and_three_per_window_at_large() {
        assert!(close(eta(4.0), 0.25) && close(eta(12.0), 0.25) && close(eta(300.0), 0.01));
    }
}
