//! TIMELY: a rate that follows the gradient of the RTT, for data centres.
//!
//! Source: R. Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, Algorithm 1.
//!
//! Per completion of a segment (here 64 kB), with its RTT:
//! - gradient: `rtt_diff = (1 - alpha) rtt_diff + alpha (rtt - prev_rtt)`, `gradient = rtt_diff / min_rtt`
//! - `rtt < T_low`: `rate += delta`
//! - `rtt > T_high`: `rate *= 1 - beta (1 - T_high / rtt)`
//! - `gradient <= 0`: `rate += N delta`, with N = 5 from the fifth completion in a row on (hyper-active increase), else
//!   1
//! - `gradient > 0`: `rate *= 1 - beta gradient`
//!
//! The thresholds are data-centre ones (50 us, 500 us). On paths whose base RTT is above T_high the rate goes down to
//! its least: set `t_low` and `t_high` for the path, or `above_base`, by which they count the queueing delay alone.
//!
//! Units: Mbit/s of payload and seconds inside.
//!
//! Departures: the paper runs on lossless Ethernet, so a loss or a mark changes nothing here either; segments are
//! packets acknowledged, and the RTT is the last packet's, so that no serialisation time is to be taken off; the
//! rate starts at the initial window per RTT, not at a share of the line rate; `alpha` and `beta` are as in Zhu et al.,
//! "ECN or Delay", CoNEXT 2016, where the paper has no number. The window is large enough not to limit the rate.

use crate::entry::{Entry, Family};
use crate::window::{rate_of, window_beyond};
use crate::{Ack, Congestion, CongestionControl, Control, Needs};
use knee_core::convert::truncated;
use knee_core::{Bytes, Rate, Time, params};

const SECOND: Time = Time::from_secs(1);

/// TIMELY's registry entry.
pub const ENTRY: Entry = Entry {
    name: "timely",
    family: Family::DelayBased,
    about: "rate control by the gradient of the RTT; its defaults are for data centres",
    source: "Mittal et al.: TIMELY, SIGCOMM 2015, Algorithm 1",
    params: Params::DECLARED,
    phases: &["rate_control"],
    edges: &[],
    min_cwnd: 4,
    needs: Needs { pacing: true, full_control: true, lossless: true, ..Needs::NONE },
    make: |params, init| {
        let params = Params::from(params);
        let rate = mbps(rate_of(f64::from(init.cwnd), init.mss, init.rtt));
        Box::new(Timely {
            rate: params.bounded(rate),
            params,
            base_rtt: init.rtt.as_secs_f64(),
            prev_rtt: init.rtt.as_secs_f64(),
            rtt_diff: 0.0,
            falling: 0,
            acked: 0,
        })
    },
};

params! {
    /// TIMELY's parameters.
    struct Params {
        /// below this RTT the rate always increases
        t_low: Time = Time::from_micros(50), in Time::ZERO..=SECOND, from "SIGCOMM 2015, Sec. 4.4";
        /// above this RTT the rate always decreases
        t_high: Time = Time::from_micros(500), in Time::from_micros(1)..=SECOND, from "SIGCOMM 2015, Sec. 4.4";
        /// additive increase per completion
        delta: Rate = Rate::from_mbps(10), in Rate::from_bps(1000)..=Rate::from_mbps(10_000),
            from "SIGCOMM 2015, Sec. 4.3";
        /// multiplicative decrease
        beta: f64 = 0.8, in 0.01..=1.0, from "SIGCOMM 2015, Sec. 4.3";
        /// weight of a new RTT difference
        alpha: f64 = 0.875, in 0.001..=1.0, from "Zhu et al., CoNEXT 2016, Table 2";
        /// RTT by which the gradient is normalised
        min_rtt: Time = Time::from_micros(20), in Time::from_micros(1)..=SECOND, from "SIGCOMM 2015, Sec. 4.3";
        /// completions without a positive gradient before N = 5
        hai_threshold: u64 = 5, in 1..=1000, from "SIGCOMM 2015, Sec. 4.3";
        /// data per completion event
        segment: Bytes = Bytes(64_000), in Bytes(1)..=Bytes(10_000_000), from "SIGCOMM 2015, Sec. 4.1";
        /// apply the thresholds to the delay above the minimum RTT
        above_base: bool = false, from "for other paths; not in the paper";
        /// minimum rate
        min_rate: Rate = Rate::from_mbps(1), in Rate::from_bps(1000)..=Rate::from_mbps(10_000), from "not in the paper";
        /// maximum rate, that of the network card
        max_rate: Rate = Rate::from_mbps(10_000), in Rate::from_bps(1000)..=Rate::from_mbps(1_000_000),
            from "SIGCOMM 2015, Sec. 6 (10 Gbit/s cards)";
    }
}

#[derive(Clone)]
struct Timely {
    params: Params,
    /// Mbit/s.
    rate: f64,
    /// Least RTT seen, seconds.
    base_rtt: f64,
    /// RTT of the last completion, seconds.
    prev_rtt: f64,
    /// Smoothed difference between RTTs, seconds.
    rtt_diff: f64,
    /// Completions in a row without a rising RTT.
    falling: u64,
    /// Packets acknowledged of the segment under way.
    acked: u64,
}

fn mbps(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e6
}

/// The smoothed RTT difference after a new one.
pub fn smoothed(rtt_diff: f64, new_diff: f64, alpha: f64) -> f64 {
    (1.0 - alpha) * rtt_diff + alpha * new_diff
}

/// The rate after an RTT above T_high.
pub fn above_high(rate: f64, beta: f64, t_high: f64, rtt: f64) -> f64 {
    rate * (1.0 - beta * (1.0 - t_high / rtt))
}

/// The rate after a rising RTT; a gradient above 1 / beta leaves nothing.
pub fn rising(rate: f64, beta: f64, gradient: f64) -> f64 {
    (rate * (1.0 - beta * gradient)).max(0.0)
}

impl Params {
    fn bounded(&self, rate: f64) -> f64 {
        rate.min(mbps(self.max_rate)).max(mbps(self.min_rate))
    }

    fn segment_packets(&self, mss: u32) -> u64 {
        (self.segment.0 / u64::from(mss.max(1))).max(1)
    }
}

impl Timely {
    fn complete(&mut self, rtt: f64) {
        let p = &self.params;
        let (t_low, t_high, delta) = (p.t_low.as_secs_f64(), p.t_high.as_secs_f64(), mbps(p.delta));
        self.rtt_diff = smoothed(self.rtt_diff, rtt - self.prev_rtt, p.alpha);
        self.prev_rtt = rtt;
        let (delay, normal) =
            if p.above_base { (rtt - self.base_rtt, self.base_rtt.max(1e-6)) } else { (rtt, p.min_rtt.as_secs_f64()) };
        let gradient = self.rtt_diff / normal;
        self.falling = if gradient <= 0.0 { self.falling + 1 } else { 0 };
        let rate = if delay < t_low {
            self.rate + delta
        } else if delay > t_high {
            above_high(self.rate, p.beta, t_high, delay)
        } else if gradient <= 0.0 {
            let n = if self.falling >= p.hai_threshold { 5.0 } else { 1.0 };
            self.rate + n * delta
        } else {
            rising(self.rate, p.beta, gradient)
        };
        self.rate = p.bounded(rate);
    }
}

impl CongestionControl for Timely {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.acked += u64::from(ack.delivered);
        if let Some(rtt) = ack.rtt {
            self.base_rtt = if self.base_rtt > 0.0 { self.base_rtt.min(rtt.as_secs_f64()) } else { rtt.as_secs_f64() };
            if self.acked >= self.params.segment_packets(ack.view.mss) {
                self.acked = 0;
                self.complete(rtt.as_secs_f64());
            }
        }
        let rate = Rate::from_bps(truncated(self.rate * 1e6));
        control.pacing_rate = Some(rate);
        control.cwnd = window_beyond(rate, ack.view.mss, ack.view.srtt.max(ack.rtt.unwrap_or_default()), 4);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = control.cwnd.max(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::close;

    #[test]
    fn the_equations_by_hand() {
        assert!(close(smoothed(8.0, 16.0, 0.875), 15.0));
        // 1 ms where 500 us is the limit: 1 - 0.8 / 2 of the rate is left.
        assert!(close(above_high(1000.0, 0.8, 500e-6, 1e-3), 600.0));
        // RTT rising by a quarter of min_rtt per completion: 1 - 0.2.
        assert!(close(rising(1000.0, 0.8, 0.25), 800.0) && close(rising(1000.0, 0.8, 2.0), 0.0));
    }

    fn timely() -> Timely {
        let params = Params::default();
        Timely { params, rate: 1000.0, base_rtt: 20e-6, prev_rtt: 100e-6, rtt_diff: 0.0, falling: 0, acked: 0 }
    }

    #[test]
    fn the_fifth_completion_without_a_rise_begins_hyper_active_increase() {
        let mut t = timely();
        let mut gains = Vec::new();
        for _ in 0..6 {
            let before = t.rate;
            t.complete(100e-6);
            gains.push((t.rate - before) as u32);
        }
        assert_eq!(gains, [10, 10, 10, 10, 50, 50]);
        // A rise ends it: 10 us up, smoothed 8.75 us, gradient 0.4375, 35 % less.
        let before = t.rate;
        t.complete(110e-6);
        assert!(close(t.rate, before * 0.65), "{}", t.rate);
    }

    #[test]
    fn thresholds_overrule_the_gradient() {
        let mut t = timely();
        t.complete(40e-6);
        assert!(close(t.rate, 1010.0));
        t.complete(49e-6);
        assert!(close(t.rate, 1020.0));
        // Falling from 2 ms to 1 ms, but still above T_high.
        t.prev_rtt = 2e-3;
        t.complete(1e-3);
        assert!(close(t.rate, 612.0));
    }
}
