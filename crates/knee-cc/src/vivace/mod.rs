//! PCC Vivace: tries slightly different rates, sees which has the higher utility, and climbs that gradient.
//!
//! Source: M. Dong et al., "PCC Vivace: Online-Learning Congestion Control", NSDI 2018.
//!
//! - utility of a monitor interval at rate `x` in Mbit/s: `u = x^t - b x dRTT/dT - c x L` (Sec. 4, Eq. 1), t = 0.9,
//!   b = 900 (Vivace-latency) or 0 (Vivace-loss), c = 11.35; `L` the part of packets lost, dRTT/dT by linear
//!   regression, taken as zero below 0.01
//! - gradient: two intervals at `r (1 + epsilon)` and `r (1 - epsilon)` in random order, epsilon = 0.05:
//!   `gamma = (u+ - u-) / (2 epsilon r)` (Sec. 5)
//! - step: `r += m(tau) theta_0 gamma`, theta_0 = 1; confidence amplifier `m(tau) = tau` up to 3, then `2 tau - 3`,
//!   where `tau` counts the steps in the same direction
//! - dynamic change boundary: a step is at most `omega r`, `omega = omega_0 + k delta` (0.05, 0.1); `k` grows by one
//!   with each step that would go beyond, shrinks to what a smaller one needs and is zero after a turn
//! - starting: the rate doubles from interval to interval until the utility falls
//!
//! Units: Mbit/s of payload, seconds.
//!
//! ```text
//! starting ──utility falls──► learning
//! ```
//!
//! Departures: an interval lasts an RTT, or as long as 10 packets take; while the results of two are under way, the
//! base rate is sent (and in the starting phase the rate is doubled once a result is there). `x` is the rate at which
//! an interval was really sent. Where the window or the application held the sender back, the base rate comes down to
//! that, and nothing is learned from two intervals whose rates hardly differ. The paper's repetition of measurements
//! that contradict each other is left out. ECN changes nothing (the paper has none). A timeout halves the rate. The
//! window only keeps out of the way of the rate.

mod interval;
mod judge;
mod program;

use crate::entry::{Entry, Family};
use crate::window::{PACKET_BITS, rate_of, window_beyond};
use crate::{Ack, Congestion, CongestionControl, Control, Needs, Sent, Signal, View};
use interval::{Interval, Intervals};
use knee_core::convert::truncated;
use knee_core::{Rate, Rng, Time, choice, params};
use std::collections::VecDeque;

/// Vivace's registry entry.
pub const ENTRY: Entry = Entry {
    name: "vivace",
    family: Family::Hybrid,
    about: "follows the gradient of a utility of rate, latency and loss, measured by trying rates",
    source: "Dong et al.: PCC Vivace, NSDI 2018",
    params: Params::DECLARED,
    phases: &["starting", "learning", "moving"],
    edges: &[(STARTING, LEARNING), (LEARNING, MOVING), (MOVING, LEARNING), (LEARNING, STARTING)],
    min_cwnd: 4,
    needs: Needs { pacing: true, full_control: true, sent: true, rate: true, ..Needs::NONE },
    make: |params, init| {
        let params = Params::from(params);
        if params.form == Form::Program {
            return Box::new(program::Program::new(&params, init));
        }
        let min_rate = params.min_rate.as_bps() as f64 / 1e6;
        let rtt = if init.rtt == Time::ZERO { UNKNOWN_RTT } else { init.rtt };
        let rate = (rate_of(f64::from(init.cwnd), rtt).as_bps() as f64 / 1e6).clamp(min_rate, LARGEST);
        Box::new(Vivace {
            params,
            utility: params.weights(),
            min_rate,
            phase: STARTING,
            rate,
            plan: VecDeque::from([rate]),
            intervals: Intervals::default(),
            results: Vec::new(),
            climb: Climb::default(),
            rng: init.rng.clone(),
        })
    },
};

choice! {
    /// Whether it is Vivace-latency or Vivace-loss.
    enum Variant {
        Latency = "latency",
        Loss = "loss",
    }
}

choice! {
    /// Whose algorithm it is.
    enum Form {
        Program = "program",
        Paper = "paper",
    }
}

params! {
    /// Vivace's parameters.
    struct Params {
        /// whether rising RTTs lower the utility
        utility: Variant = Variant::Latency, from "NSDI 2018, Sec. 4";
        /// exponent of the rate
        t: f64 = 0.9, in 0.1..=0.99, from "NSDI 2018, Sec. 4";
        /// weight of the RTT gradient
        b: f64 = 900.0, in 0.0..=1e6, from "NSDI 2018, Sec. 4";
        /// weight of loss
        c: f64 = 11.35, in 0.0..=1e6, from "NSDI 2018, Sec. 4; tolerates 5 % of random loss";
        /// smaller RTT gradients count as noise
        rtt_gradient_floor: f64 = 0.01, in 0.0..=1.0, from "NSDI 2018, Sec. 5";
        /// relative distance of the rates that are tried
        epsilon: f64 = 0.05, in 0.001..=0.5, from "NSDI 2018, Sec. 5";
        /// Mbit/s per unit of the gradient
        theta: f64 = 1.0, in 0.001..=1000.0, from "NSDI 2018, Sec. 5";
        /// initial maximum step, as a fraction of the rate
        omega: f64 = 0.05, in 0.001..=1.0, from "NSDI 2018, Sec. 5";
        /// growth of the maximum step
        boundary_step: f64 = 0.1, in 0.0..=1.0, from "NSDI 2018, Sec. 5 (delta)";
        /// minimum rate
        min_rate: Rate = Rate::from_bps(500_000), in Rate::from_bps(1000)..=Rate::from_mbps(1000),
            from "not in the paper";
        /// the algorithm of the authors' program, with t, b and c, or the paper's with all parameters
        form: Form = Form::Program, from "NSDI 2018; PCC-Uspace, pcc_vivace_sender.cpp";
    }
}

const STARTING: u8 = 0;
const LEARNING: u8 = 1;
/// Only in the program's form.
const MOVING: u8 = 2;
/// No rate grows beyond 1 Tbit/s.
const LARGEST: f64 = 1e6;
/// Taken for the RTT where the handshake gave none, since its SYN had to be sent again; the authors' program begins
/// with it.
const UNKNOWN_RTT: Time = Time::from_millis(100);
/// Fewest packets of an interval.
const INTERVAL_PACKETS: f64 = 10.0;

/// Weights of the utility.
#[derive(Clone, Copy, Debug)]
struct Utility {
    t: f64,
    b: f64,
    c: f64,
}

impl Params {
    fn weights(&self) -> Utility {
        let b = if self.utility == Variant::Latency { self.b } else { 0.0 };
        Utility { t: self.t, b, c: self.c }
    }
}

/// What has been learned of the direction to go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Climb {
    /// Steps in a row in the same direction: tau.
    steps: u32,
    up: bool,
    /// Increments of the change boundary: k.
    increments: u32,
}

struct Vivace {
    params: Params,
    utility: Utility,
    /// Mbit/s.
    min_rate: f64,
    phase: u8,
    /// Base rate, Mbit/s.
    rate: f64,
    /// Rates of the intervals still to be sent, Mbit/s.
    plan: VecDeque<f64>,
    intervals: Intervals,
    /// Rate wanted, rate sent and utility of intervals measured.
    results: Vec<Measured>,
    climb: Climb,
    rng: Rng,
}

/// The outcome of an interval.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Mbit/s.
    wanted: f64,
    /// Mbit/s.
    sent: f64,
    utility: f64,
}

impl Utility {
    /// Of an interval at `x` Mbit/s (Eq. 1).
    fn of(&self, x: f64, rtt_gradient: f64, loss: f64) -> f64 {
        libm::pow(x, self.t) - self.b * x * rtt_gradient - self.c * x * loss
    }
}

/// The confidence amplifier m(tau).
pub fn amplifier(steps: u32) -> f64 {
    let tau = f64::from(steps);
    if steps <= 3 { tau } else { 2.0 * tau - 3.0 }
}

/// The next rate and climb at gradient `gamma`.
fn climbed(rate: f64, gamma: f64, climb: Climb, p: &Params) -> (f64, Climb) {
    let up = gamma > 0.0;
    let turned = climb.steps > 0 && up != climb.up;
    let steps = if turned { 1 } else { climb.steps.saturating_add(1) };
    let mut increments = if turned { 0 } else { climb.increments };
    let wanted = amplifier(steps) * p.theta * gamma;
    let bound = (p.omega + f64::from(increments) * p.boundary_step) * rate;
    let step = if wanted.abs() > bound {
        increments = increments.saturating_add(1);
        bound.copysign(wanted)
    } else {
        while increments > 0 && wanted.abs() <= (p.omega + f64::from(increments - 1) * p.boundary_step) * rate {
            increments -= 1;
        }
        wanted
    };
    (rate + step, Climb { steps, up, increments })
}

impl Vivace {
    fn bounded(&self, rate: f64) -> f64 {
        if rate > self.min_rate { rate.min(LARGEST) } else { self.min_rate }
    }

    /// The rate to send at now, Mbit/s.
    fn sending(&self) -> f64 {
        self.bounded(self.intervals.current().map_or(self.rate, |interval| interval.wanted))
    }

    fn evaluate(&mut self, interval: &Interval) {
        let slope = interval.rtt_gradient();
        let gradient = if slope.abs() < self.params.rtt_gradient_floor { 0.0 } else { slope };
        let sent = interval.rate();
        let utility = self.utility.of(sent, gradient, interval.loss());
        self.results.push(Measured { wanted: interval.wanted, sent, utility });
        match self.phase {
            STARTING => self.start_on(),
            _ => self.learn(),
        }
    }

    fn start_on(&mut self) {
        let Some(&last) = self.results.last() else { return };
        let before = (self.results.len() > 1).then(|| self.results.remove(0));
        let rate = last.wanted.min(last.sent);
        if before.is_some_and(|before| last.utility < before.utility) {
            self.rate = self.bounded(rate / 2.0);
            self.phase = LEARNING;
            self.try_around();
        } else {
            self.rate = self.bounded(rate * 2.0);
            self.plan.push_back(self.rate);
        }
    }

    fn try_around(&mut self) {
        self.results.clear();
        let epsilon = self.params.epsilon;
        let sign = if self.rng.chance(0.5) { 1.0 } else { -1.0 };
        self.plan = VecDeque::from([self.rate * (1.0 + sign * epsilon), self.rate * (1.0 - sign * epsilon)]);
    }

    fn learn(&mut self) {
        let &[a, b] = &self.results[..] else { return };
        self.rate = self.bounded(self.rate.min(a.sent.max(b.sent)));
        let apart = a.sent - b.sent;
        if apart.abs() > self.params.epsilon / 2.0 * self.rate {
            let gamma = (a.utility - b.utility) / apart;
            let (rate, climb) = climbed(self.rate, gamma, self.climb, &self.params);
            (self.rate, self.climb) = (self.bounded(rate), climb);
        }
        self.try_around();
    }

    /// Begins the next interval where the current one has lasted long enough.
    fn turn_interval(&mut self, view: &View) {
        let next = view.now.max(view.paced_until);
        let over = self.intervals.current().is_none_or(|current| {
            let packets = Time::from_nanos(truncated(INTERVAL_PACKETS * PACKET_BITS * 1e3 / self.sending()));
            let span = view.srtt.max(packets);
            // One that nobody waits for lasts until there is something to try.
            if current.useful { current.begin().is_some_and(|begin| next >= begin.saturating_add(span)) } else { true }
        });
        if over && let Some(rate) = self.plan.pop_front() {
            self.intervals.begin(Interval::new(rate, true), next);
        } else if over && self.intervals.current().is_none_or(|current| current.useful) {
            self.intervals.begin(Interval::new(self.rate, false), next);
        }
    }

    fn answer(&self, view: &View, control: &mut Control) {
        let rate = Rate::from_bps(truncated(self.sending() * 1e6));
        control.pacing_rate = Some(rate);
        control.cwnd = window_beyond(rate, view.srtt, 4);
        control.phase = self.phase;
    }
}

impl CongestionControl for Vivace {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.intervals.on_ack(ack);
        while let Some(interval) = self.intervals.pop_settled() {
            if interval.useful {
                self.evaluate(&interval);
            }
        }
        self.turn_interval(ack.view);
        self.answer(ack.view, control);
    }

    fn on_sent(&mut self, sent: &Sent, control: &mut Control) {
        if self.intervals.current().is_none() {
            self.turn_interval(sent.view);
        }
        self.intervals.on_sent(sent);
        self.turn_interval(sent.view);
        self.answer(sent.view, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        if congestion.signal == Signal::Timeout {
            self.rate = self.bounded(self.rate / 2.0);
            self.intervals.clear();
            self.phase = LEARNING;
            self.climb = Climb::default();
            self.try_around();
        }
        control.ssthresh = control.cwnd.max(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_of_nothing, close, init, view};
    use crate::{Init, RateSample};
    use knee_core::Value;

    const PAPER: (&str, Value) = ("form", Value::Choice("paper"));
    const LATENCY: Utility = Utility { t: 0.9, b: 900.0, c: 11.35 };

    #[test]
    fn utility_by_hand() {
        // 32^0.9 = 2^4.5; an RTT rising by 1 ms in 100 ms costs 900 * 32 * 0.01; 1 % of loss 11.35 * 32 * 0.01.
        let rate = libm::sqrt(512.0);
        assert!(close(LATENCY.of(32.0, 0.0, 0.0), rate));
        assert!(close(LATENCY.of(32.0, 0.01, 0.01), rate - 288.0 - 3.632));
    }

    /// Sec. 4: c = 11.35 tolerates 5 % of random loss up to 100 Mbit/s: there the utility still grows with the rate.
    #[test]
    fn five_percent_of_loss_leave_the_utility_growing() {
        let loss = Utility { b: 0.0, ..LATENCY };
        assert!(loss.of(100.0, 0.0, 0.05) > loss.of(99.0, 0.0, 0.05));
        assert!(loss.of(100.0, 0.0, 0.06) < loss.of(99.0, 0.0, 0.06));
    }

    #[test]
    fn the_amplifier_counts_to_three_and_then_by_two() {
        let seen: Vec<u32> = (1..=6).map(|tau| amplifier(tau) as u32).collect();
        assert_eq!(seen, [1, 2, 3, 5, 7, 9]);
    }

    #[test]
    fn steps_are_bound_the_bound_widens_and_a_turn_takes_it_all_back() {
        let p = Params::default();
        let mut climb = Climb::default();
        let mut seen = Vec::new();
        // From 100 Mbit/s, steps in percent of a percent. Wanted: 0.5, 2 * 10, 3 * 10, then 5 * 0.2, then down by 50.
        for gamma in [0.5, 10.0, 10.0, 0.2, -50.0] {
            let (next, after) = climbed(100.0, gamma, climb, &p);
            seen.push((((next - 100.0) * 100.0).round() as i64, after.steps, after.increments));
            climb = after;
        }
        assert_eq!(seen, [(50, 1, 0), (500, 2, 1), (1500, 3, 2), (100, 4, 0), (-500, 1, 1)]);
    }

    /// Pacing rates in Mbit/s where ten packets leave every two seconds, whatever the algorithm wants.
    fn rates(init: &Init, rounds: u64) -> Vec<f64> {
        let params = knee_core::Params::resolve(ENTRY.params, [PAPER]).unwrap();
        let mut cc = (ENTRY.make)(&params, init);
        let mut control = Control::initial(10);
        let mut view = view();
        let mut seen = Vec::new();
        for round in 0..rounds {
            view = View { now: Time::from_secs(2 * round), snd_nxt: 10 * round + 10, in_flight: 10, ..view };
            cc.on_sent(&Sent { view: &view, packets: 10, retransmission: false }, &mut control);
            seen.push(control.pacing_rate.unwrap().as_bps() as f64 / 1e6);
            let (prior_delivered, rtt) = (view.delivered, Time::from_secs(1));
            for _ in 0..10 {
                let now = Time::from_secs(2 * round + 1);
                view = View { now, in_flight: view.in_flight - 1, delivered: view.delivered + 1, srtt: rtt, ..view };
                let rate = RateSample { prior_delivered, tx_in_flight: 10, ..RateSample::NONE };
                let ack = Ack { view: &view, rtt: Some(rtt), acked: 1, delivered: 1, rate: &rate, ..ack_of_nothing() };
                cc.on_ack(&ack, &mut control);
            }
        }
        seen
    }

    #[test]
    fn without_an_rtt_of_the_handshake_it_starts_with_ten_packets_in_100_ms() {
        // Its SYN was lost: the RTT is not known, and was taken for zero. 10 x 1448 x 8 bits in 0.1 s.
        let unknown = Init { rtt: Time::ZERO, ..init() };
        assert!(close(rates(&unknown, 1)[0], 1.1584));
    }

    #[test]
    fn a_sender_that_has_nothing_to_send_does_not_double_its_rate() {
        // Ten packets every two seconds are 0.058 Mbit/s; no rate grows beyond its least one.
        let seen = rates(&init(), 40);
        assert!(seen[20..].iter().all(|rate| *rate <= 0.5 * 1.05 + 1e-6), "{seen:?}");
    }

    #[test]
    fn the_defaults_are_vivace_latency() {
        assert_eq!(Params::default().utility, Variant::Latency);
    }
}
