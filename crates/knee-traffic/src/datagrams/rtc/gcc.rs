//! Google's congestion control for real-time communication: the rate from the gradient of the delay, and from losses.
//!
//! After draft-ietf-rmcat-gcc-02, with both controllers at the sender (its section 3, with feedback for each packet):
//!
//! ```text
//! groups      packets sent within 5 ms; d = change of the arrival times less that of the sending times
//! filter      m follows d by a Kalman filter: gain e/(var_v + e), e the variance of the error plus q
//! detector    overuse: m > threshold for 10 ms and not falling; underuse: m < -threshold
//! threshold   follows |m|: by K_u = 0.01 upwards, by K_d = 0.00018 downwards, from 6 to 600 ms
//! delay       Increase: 8 % per second, or half a packet per response time near the known limit; Decrease: 0.85 R
//! loss        above 10 %: times 1 - p/2; below 2 %: times 1.05; the rate is the less of the two
//! ```
//!
//! R is the rate at which packets arrived in the last half second. What differs:
//!
//! * The detector compares the threshold with m times the number of estimates so far, up to 60, as the authors' program
//!   does. The draft has m itself, which a sender that exceeds the link's rate by a few percent never raises to the
//!   threshold's least value of 6 ms: it then fills any queue.
//! * The pacer sends packet by packet at 1.5 times the target rate: at the rate itself frames of varying size would
//!   queue without a bound.
//! * Near a known limit means within 5 % of it at least: after one decrease the deviation is still zero.

use super::{Acked, Controller, PAYLOAD, Rates, Report};
use knee_core::Time;
use std::collections::VecDeque;

/// How often the receiver reports.
pub(super) const REPORT_INTERVAL: Time = Time::from_millis(50);

/// Packets sent within this time are a group (`burst_time`).
const BURST_TIME: Time = Time::from_millis(5);
/// State noise, ms^2, and the error's first variance.
const Q: f64 = 1e-3;
const E_0: f64 = 0.1;
/// Coefficient for the variance of the measurements.
const CHI: f64 = 0.01;
/// Groups over which the highest rate of groups is taken.
const K: usize = 5;
/// The detector's first threshold, ms, and how fast it follows.
const DEL_VAR_TH_0: f64 = 12.5;
const K_U: f64 = 0.01;
const K_D: f64 = 0.00018;
/// Most deltas that the estimate counts.
const MAX_DELTAS: f64 = 60.0;
/// For so long m must be above the threshold, ms.
const OVERUSE_TIME_TH: f64 = 10.0;
/// The rate falls to this part of what arrives.
const BETA: f64 = 0.85;
/// Increase per second.
const ETA: f64 = 1.08;
/// Smoothing of the rates at which it had to decrease.
const SMOOTHING: f64 = 0.95;
/// What arrived in so much time makes R, s.
const RATE_WINDOW: f64 = 0.5;

/// What the detector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Normal,
    Overuse,
    Underuse,
}

/// State of the delay-based controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

impl State {
    /// Table of the draft's section 6.
    const fn after(self, signal: Signal) -> Self {
        match (signal, self) {
            (Signal::Overuse, _) => Self::Decrease,
            (Signal::Normal, Self::Hold | Self::Increase) => Self::Increase,
            (Signal::Normal, Self::Decrease) | (Signal::Underuse, _) => Self::Hold,
        }
    }
}

/// The sender's state. Rates in bit/s.
pub(super) struct Gcc {
    rates: Rates,
    filter: Filter,
    detector: Detector,
    state: State,
    /// Rates by delay and by losses.
    by_delay: f64,
    by_loss: f64,
    /// When the delay-based one was last brought up to date, s.
    updated: Option<f64>,
    /// What arrived: when, by the receiver's clock in s, and bits.
    arrived: VecDeque<(f64, f64)>,
    limit: Limit,
    /// Smoothed RTT, s.
    rtt: f64,
}

impl Gcc {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            rates,
            filter: Filter::default(),
            detector: Detector::default(),
            state: State::Increase,
            by_delay: rates.start,
            by_loss: rates.start,
            updated: None,
            arrived: VecDeque::new(),
            limit: Limit::default(),
            rtt: 0.0,
        }
    }

    /// R: bits per second that arrived in the last window.
    fn incoming_rate(&mut self, acked: &[Acked]) -> f64 {
        let heard = acked.iter().map(|acked| (acked.arrived.as_secs_f64(), 8.0 * f64::from(acked.bytes)));
        self.arrived.extend(heard);
        let now = self.arrived.back().map_or(0.0, |(at, _)| *at);
        while self.arrived.front().is_some_and(|(at, _)| now - at >= RATE_WINDOW) {
            self.arrived.pop_front();
        }
        self.arrived.iter().map(|(_, bits)| bits).sum::<f64>() / RATE_WINDOW
    }

    fn update(&mut self, signal: Signal, incoming: f64, now: f64) {
        let elapsed = now - self.updated.replace(now).unwrap_or(now);
        self.state = self.state.after(signal);
        match self.state {
            State::Hold => {}
            State::Decrease => {
                self.by_delay = (BETA * incoming).min(self.by_delay);
                self.limit.on_decrease(incoming);
            }
            State::Increase => {
                if self.limit.is_near(incoming) {
                    let alpha = 0.5 * (elapsed / (0.1 + self.rtt)).min(1.0);
                    self.by_delay += (alpha * packet_bits(self.by_delay)).max(1000.0);
                } else {
                    self.by_delay *= libm::pow(ETA, elapsed.min(1.0));
                }
                // No further than what has been shown to arrive.
                self.by_delay = self.by_delay.min(1.5 * incoming.max(self.rates.min));
            }
        }
        self.by_delay = self.rates.limit(self.by_delay);
    }
}

/// The expected size of a packet at a rate, bits: 30 frames per second, cut into packets of about the same size.
fn packet_bits(rate: f64) -> f64 {
    let frame = rate / 30.0;
    frame / libm::ceil(frame / f64::from(PAYLOAD * 8)).max(1.0)
}

impl Controller for Gcc {
    fn on_report(&mut self, report: &Report, now: Time) {
        let now = now.as_secs_f64();
        let rtt = now - report.acked[report.acked.len() - 1].sent.as_secs_f64();
        self.rtt = if self.rtt == 0.0 { rtt } else { self.rtt + (rtt - self.rtt) / 8.0 };
        let incoming = self.incoming_rate(report.acked);
        let mut signal = self.detector.signal;
        for acked in report.acked {
            if let Some((m, since)) = self.filter.on_packet(acked) {
                let next = self.detector.on_estimate(m, since);
                // An overuse within the report counts, though it may be over at its end.
                signal = if signal == Signal::Overuse && next != Signal::Underuse { signal } else { next };
            }
        }
        self.update(signal, incoming, now);
        let p = report.lost as f64 / (report.lost as f64 + report.acked.len() as f64);
        if p > 0.1 {
            self.by_loss *= 1.0 - 0.5 * p;
        } else if p < 0.02 {
            self.by_loss *= 1.05;
        }
        // It goes no further ahead than the other may: "the actual rate is the minimum of the two".
        self.by_loss = self.rates.limit(self.by_loss.min(1.5 * self.by_delay));
    }

    fn on_silence(&mut self, _: Time) {
        (self.by_delay, self.by_loss) = (self.rates.min, self.rates.min);
    }

    fn target_rate(&self) -> f64 {
        self.by_delay.min(self.by_loss)
    }
}

/// Packets that were sent together.
#[derive(Clone, Copy)]
struct Group {
    /// When the first was sent, the last was sent, and the last arrived.
    began: Time,
    sent: Time,
    arrived: Time,
}

/// The arrival-time filter (section 5): an estimate of the gradient of the queueing delay between groups.
struct Filter {
    group: Option<Group>,
    before: Option<Group>,
    /// Estimate, ms; variance of its error; variance of the measurements.
    m: f64,
    e: f64,
    var_v: f64,
    /// Times between the last groups as they were sent, ms.
    gaps: VecDeque<f64>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { group: None, before: None, m: 0.0, e: E_0, var_v: 0.0, gaps: VecDeque::new() }
    }
}

impl Filter {
    /// A packet has arrived. Where that completes a group: the estimate, and the time between the arrivals of the
    /// groups, both in ms.
    fn on_packet(&mut self, acked: &Acked) -> Option<(f64, f64)> {
        let new = Group { began: acked.sent, sent: acked.sent, arrived: acked.arrived };
        match &mut self.group {
            Some(group) if acked.sent < group.began => return None,
            Some(group) if acked.sent - group.began <= BURST_TIME => {
                (group.sent, group.arrived) = (acked.sent.max(group.sent), acked.arrived);
                return None;
            }
            _ => {}
        }
        let complete = self.group.replace(new)?;
        let before = self.before.replace(complete)?;
        let ms = |later: Time, earlier: Time| later.as_millis_f64() - earlier.as_millis_f64();
        let (sent, arrived) = (ms(complete.sent, before.sent), ms(complete.arrived, before.arrived));
        Some((self.update(arrived - sent, sent), arrived))
    }

    /// The estimate after a measured gradient `d`, where the groups were sent `gap` apart.
    fn update(&mut self, d: f64, gap: f64) -> f64 {
        if self.gaps.len() == K {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap.max(1e-3));
        let f_max = 1.0 / self.gaps.iter().copied().fold(f64::INFINITY, f64::min);
        let alpha = libm::pow(1.0 - CHI, 30.0 / (1000.0 * f_max));
        // An outlier counts as three standard deviations.
        let outlier = 3.0 * libm::sqrt(self.var_v);
        let z = d - self.m;
        let z = if self.var_v > 0.0 { z.clamp(-outlier, outlier) } else { z };
        self.var_v = (alpha * self.var_v + (1.0 - alpha) * z * z).max(1.0);
        let e = self.e + Q;
        let k = e / (self.var_v + e);
        self.m += z * k;
        self.e = (1.0 - k) * e;
        self.m
    }
}

/// The overuse detector with its adaptive threshold (section 5.4).
struct Detector {
    /// ms.
    threshold: f64,
    signal: Signal,
    /// For how long m has been above the threshold, ms.
    above: f64,
    /// The value compared before, and how many there were.
    m: f64,
    estimates: f64,
}

impl Default for Detector {
    fn default() -> Self {
        Self { threshold: DEL_VAR_TH_0, signal: Signal::Normal, above: 0.0, m: 0.0, estimates: 0.0 }
    }
}

impl Detector {
    /// A new estimate, `since` ms after the one before.
    fn on_estimate(&mut self, m: f64, since: f64) -> Signal {
        self.estimates = (self.estimates + 1.0).min(MAX_DELTAS);
        self.compare(m * self.estimates, since.max(0.0))
    }

    fn compare(&mut self, m: f64, since: f64) -> Signal {
        let before = std::mem::replace(&mut self.m, m);
        self.above = if m > self.threshold { self.above + since } else { 0.0 };
        self.signal = if m > self.threshold {
            if self.above >= OVERUSE_TIME_TH && m >= before { Signal::Overuse } else { self.signal_below_overuse() }
        } else if m < -self.threshold {
            Signal::Underuse
        } else {
            Signal::Normal
        };
        let over = m.abs() - self.threshold;
        if over <= 15.0 {
            let k = if over < 0.0 { K_D } else { K_U };
            self.threshold = (self.threshold + since * k * over).clamp(6.0, 600.0);
        }
        self.signal
    }

    /// What holds where m is above the threshold and overuse is not signalled anew.
    fn signal_below_overuse(&self) -> Signal {
        if self.signal == Signal::Underuse { Signal::Normal } else { self.signal }
    }
}

/// The rates that arrived when it had to decrease: near them it goes carefully.
#[derive(Default)]
struct Limit {
    average: Option<f64>,
    variance: f64,
}

impl Limit {
    fn on_decrease(&mut self, incoming: f64) {
        let average = self.average.get_or_insert(incoming);
        let deviation = incoming - *average;
        *average += (1.0 - SMOOTHING) * deviation;
        self.variance = SMOOTHING * (self.variance + (1.0 - SMOOTHING) * deviation * deviation);
    }

    /// Whether a rate is within three standard deviations of the average; one above makes it forget the average.
    fn is_near(&mut self, incoming: f64) -> bool {
        let Some(average) = self.average else { return false };
        // With few decreases the deviation says little: at least 5 % of the rate.
        let margin = 3.0 * libm::sqrt(self.variance).max(0.05 * average);
        if incoming > average + margin {
            (self.average, self.variance) = (None, 0.0);
        }
        (incoming - average).abs() <= margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { start: 1e6, min: 1e5, max: 1e8 };

    #[test]
    fn the_filter_converges_to_a_steady_gradient_and_holds_zero_without_one() {
        let mut filter = Filter::default();
        (0..500).for_each(|_| {
            filter.update(0.0, 33.0);
        });
        assert!(filter.m.abs() < 1e-9);
        (0..500).for_each(|_| {
            filter.update(4.0, 33.0);
        });
        assert!((filter.m - 4.0).abs() < 0.05, "{}", filter.m);
    }

    #[test]
    fn the_kalman_gain_is_that_of_the_draft() {
        let mut filter = Filter::default();
        // var_v is 1 at least: k = 0.101 / 1.101.
        assert!((filter.update(2.0, 33.0) - 2.0 * 0.101 / 1.101).abs() < 1e-12);
        assert!((filter.e - (1.0 - 0.101 / 1.101) * 0.101).abs() < 1e-12);
    }

    #[test]
    fn overuse_needs_10_ms_above_the_threshold_and_no_fall() {
        let mut detector = Detector::default();
        assert_eq!(detector.compare(13.0, 6.0), Signal::Normal);
        assert_eq!(detector.compare(13.1, 6.0), Signal::Overuse);
        let mut falls = Detector::default();
        assert_eq!(falls.compare(14.0, 6.0), Signal::Normal);
        assert_eq!(falls.compare(13.0, 6.0), Signal::Normal);
        assert_eq!(Detector::default().compare(-13.0, 6.0), Signal::Underuse);
    }

    #[test]
    fn the_threshold_follows_the_estimate_between_its_bounds() {
        let mut detector = Detector::default();
        detector.compare(20.0, 10.0);
        assert!((detector.threshold - (12.5 + 10.0 * 0.01 * 7.5)).abs() < 1e-12);
        detector = Detector::default();
        detector.compare(0.5, 10.0);
        assert!((detector.threshold - (12.5 - 10.0 * 0.00018 * 12.0)).abs() < 1e-12);
        detector = Detector::default();
        detector.compare(30.0, 10.0);
        assert!((detector.threshold - 12.5).abs() < 1e-12, "a spike is left out");
        (0..100_000).for_each(|_| {
            detector.compare(0.0, 30.0);
        });
        assert!((detector.threshold - 6.0).abs() < 1e-12);
    }

    #[test]
    fn the_states_follow_the_table_of_the_draft() {
        let after = |signal| [State::Hold, State::Increase, State::Decrease].map(|state| state.after(signal));
        assert_eq!(after(Signal::Overuse), [State::Decrease; 3]);
        assert_eq!(after(Signal::Normal), [State::Increase, State::Increase, State::Hold]);
        assert_eq!(after(Signal::Underuse), [State::Hold; 3]);
    }

    #[test]
    fn far_from_a_limit_the_rate_grows_by_8_percent_a_second_and_falls_to_085_of_what_arrives() {
        let mut gcc = Gcc::new(RATES);
        (0..=20).for_each(|k| gcc.update(Signal::Normal, 1e7, f64::from(k) / 20.0));
        assert!((gcc.by_delay / 1e6 - 1.08).abs() < 1e-6, "{}", gcc.by_delay);
        gcc.update(Signal::Overuse, 9e5, 1.05);
        assert!((gcc.by_delay - 0.85 * 9e5).abs() < 1e-6);
        // Near that limit: half a packet per response time of 100 ms and the RTT.
        (gcc.rtt, gcc.state) = (0.1, State::Increase);
        let before = gcc.by_delay;
        gcc.update(Signal::Normal, 8.5e5, 1.25);
        assert!((gcc.by_delay - before - 0.5 * packet_bits(before)).abs() < 1e-6);
    }

    #[test]
    fn many_losses_lower_the_rate_and_few_raise_it() {
        let sent = Time::from_secs(1);
        let acked: Vec<Acked> =
            (0..1000).map(|_| Acked { bytes: 1000, sent, arrived: sent + Time::from_millis(10), ce: false }).collect();
        let rate_after = |lost| {
            let mut gcc = Gcc::new(RATES);
            gcc.on_report(&Report { acked: &acked, newly_acked: 0, lost, in_flight: 0 }, sent + Time::from_millis(20));
            gcc.by_loss
        };
        // A fifth is lost, a twentieth, and a hundredth.
        for (lost, factor) in [(250, 1.0 - 0.5 * 0.2), (53, 1.0), (10, 1.05)] {
            assert!((rate_after(lost) / 1e6 - factor).abs() < 1e-6, "{lost}: {}", rate_after(lost));
        }
    }
}
