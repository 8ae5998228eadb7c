//! The rate by delay: multiplicative increase to find the link's capacity, additive increase near it, and decrease to
//! 85 % of what arrived (the authors' `aimd_rate_control.cc` and `link_capacity_estimator.cc`).

use super::super::{PAYLOAD, Rates};
use super::trend::Signal;

/// The rate falls to this part of what arrives (`kDefaultBackoffFactor`), less this, bit/s.
const BETA: f64 = 0.85;
const BELOW: f64 = 5_000.0;
/// Increase per second far from the capacity.
const ETA: f64 = 1.08;
/// Increases are at least this, bit/s each, and bit/s per second near the capacity.
const LEAST_STEP: f64 = 1_000.0;
const LEAST_SLOPE: f64 = 4_000.0;
/// The rate exceeds what arrives at most by this factor and this, bit/s.
const LIMIT: (f64, f64) = (1.5, 10_000.0);
/// For so long an overuse takes to be noticed, s.
const DETECTION: f64 = 0.1;
/// Weight of a sample of the capacity, and bounds of its variance relative to the capacity, kbit/s.
const WEIGHT: f64 = 0.05;
const VARIANCES: (f64, f64) = (0.4, 2.5);

/// State of the delay-based controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateState {
    Hold,
    Increase,
}

/// The capacity of the link, as overuses show it, kbit/s.
#[derive(Clone, Default)]
struct Capacity {
    estimate: Option<f64>,
    /// Relative to the estimate.
    variance: f64,
}

impl Capacity {
    fn on_overuse(&mut self, throughput: f64) {
        let sample = throughput / 1000.0;
        let estimate = self.estimate.map_or(sample, |estimate| estimate + WEIGHT * (sample - estimate));
        self.estimate = Some(estimate);
        let error = estimate - sample;
        let variance = (1.0 - WEIGHT) * self.variance + WEIGHT * error * error / estimate.max(1.0);
        self.variance = variance.clamp(VARIANCES.0, VARIANCES.1);
    }

    /// Forgets the capacity where a throughput is more than three standard deviations above it (or `below` it).
    fn check(&mut self, throughput: f64, below: bool) {
        let Some(estimate) = self.estimate else { return };
        let margin = 3.0 * libm::sqrt(self.variance * estimate);
        let over = throughput / 1000.0 - estimate;
        if (if below { -over } else { over }) > margin {
            self.estimate = None;
        }
    }
}

/// The rate by delay, bit/s.
#[derive(Clone)]
pub(super) struct RateControl {
    rates: Rates,
    rate: f64,
    state: RateState,
    capacity: Capacity,
    /// When the rate was last changed, s.
    changed: Option<f64>,
    /// The last throughput known, bit/s.
    throughput: f64,
}

/// How fast the rate grows near the capacity, bit/s per second: half a packet per response time. 30 frames a second are
/// cut into packets of about the same size.
fn near_capacity_slope(rate: f64, rtt: f64) -> f64 {
    let frame = rate / 30.0;
    let packet = frame / libm::ceil(frame / f64::from(PAYLOAD * 8)).max(1.0);
    (packet / (2.0 * (rtt + DETECTION))).max(LEAST_SLOPE)
}

impl RateControl {
    pub(super) fn new(rates: Rates) -> Self {
        let (state, capacity) = (RateState::Hold, Capacity::default());
        Self { rates, rate: rates.start, state, capacity, changed: None, throughput: rates.start }
    }

    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn set(&mut self, rate: f64, now: f64) {
        (self.rate, self.changed) = (rate, Some(now));
    }

    /// A report has come: what the detector says, the throughput in bit/s where it is known, the RTT in s.
    pub(super) fn update(&mut self, signal: Signal, throughput: Option<f64>, rtt: f64, now: f64) {
        match (signal, throughput) {
            (Signal::Overuse, _) if !self.may_reduce(throughput, rtt, now) => return,
            // Nothing is known of what arrives.
            (Signal::Overuse, None) => self.set(self.rate / 2.0, now),
            (Signal::Overuse, Some(throughput)) => self.decrease(throughput, now),
            (Signal::Normal, _) => self.increase(throughput, rtt, now),
            (Signal::Underuse, _) => self.state = RateState::Hold,
        }
        self.throughput = throughput.unwrap_or(self.throughput);
        self.rate = self.rates.limit(self.rate);
    }

    /// At most once per round trip, unless less than half of the rate arrives (`TimeToReduceFurther`).
    fn may_reduce(&self, throughput: Option<f64>, rtt: f64, now: f64) -> bool {
        self.changed.is_none_or(|changed| now - changed >= rtt.clamp(0.01, 0.2))
            || throughput.is_some_and(|throughput| throughput < self.rate / 2.0)
    }

    fn decrease(&mut self, throughput: f64, now: f64) {
        let reduced = |throughput: f64| BETA * throughput;
        let mut rate = reduced(throughput);
        if rate > BELOW {
            rate -= BELOW;
        }
        if let (true, Some(capacity)) = (rate > self.rate, self.capacity.estimate) {
            rate = reduced(1000.0 * capacity);
        }
        self.capacity.check(throughput, true);
        self.capacity.on_overuse(throughput);
        // The pipe empties first.
        self.state = RateState::Hold;
        self.set(rate.min(self.rate), now);
    }

    fn increase(&mut self, throughput: Option<f64>, rtt: f64, now: f64) {
        if self.state == RateState::Hold {
            (self.state, self.changed) = (RateState::Increase, Some(now));
        }
        let throughput = throughput.unwrap_or(self.throughput);
        self.capacity.check(throughput, false);
        let limit = LIMIT.0 * throughput + LIMIT.1;
        let elapsed = now - self.changed.replace(now).unwrap_or(now);
        if self.rate < limit {
            let step = if self.capacity.estimate.is_some() {
                near_capacity_slope(self.rate, rtt) * elapsed
            } else {
                (self.rate * (libm::pow(ETA, elapsed.min(1.0)) - 1.0)).max(LEAST_STEP)
            };
            self.rate = (self.rate + step).min(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { start: 1e6, min: 1e5, max: 1e8 };

    /// Reports without overuse, 50 ms apart.
    fn grow(control: &mut RateControl, throughput: f64, from: f64, reports: u32) {
        for k in 0..=reports {
            control.update(Signal::Normal, Some(throughput), 0.1, from + f64::from(k) / 20.0);
        }
    }

    #[test]
    fn far_from_the_capacity_the_rate_grows_by_8_percent_a_second_up_to_what_arrives_and_a_half() {
        let mut control = RateControl::new(RATES);
        // The first of 21 reports has nothing to grow by but the least step.
        grow(&mut control, 1e7, 0.0, 20);
        assert!((control.rate / 1.001e6 - 1.08).abs() < 1e-6, "{}", control.rate);
        let mut control = RateControl::new(RATES);
        grow(&mut control, 7e5, 0.0, 200);
        assert!((control.rate - (1.5 * 7e5 + 1e4)).abs() < 1e-6, "{}", control.rate);
    }

    #[test]
    fn an_overuse_leaves_85_percent_of_what_arrives_and_then_half_a_packet_per_response_time() {
        let mut control = RateControl::new(RATES);
        control.update(Signal::Overuse, Some(9e5), 0.1, 1.0);
        assert!((control.rate - (0.85 * 9e5 - 5e3)).abs() < 1e-6);
        control.update(Signal::Overuse, Some(9e5), 0.1, 1.05);
        assert!((control.rate - (0.85 * 9e5 - 5e3)).abs() < 1e-6, "once per round trip");
        let before = control.rate;
        grow(&mut control, 8e5, 2.0, 20);
        // Frames of 760 and then 781 kbit/s / 30 are three packets of 8444 to 8680 bits, each 2 · 0.2 s.
        assert!((21_111.0..21_700.0).contains(&(control.rate - before)), "{}", control.rate - before);
    }

    #[test]
    fn half_a_packet_per_response_time_has_a_floor() {
        // 2 Mbit/s / 30 = 66 667 bits, 7 packets of 9524; 0.3 s.
        assert!((near_capacity_slope(2e6, 0.05) - 9523.8 / 0.3).abs() < 0.1);
        assert!((near_capacity_slope(3e4, 0.5) - 4000.0).abs() < 1e-9);
    }

    #[test]
    fn the_capacity_is_forgotten_three_deviations_from_it() {
        let mut capacity = Capacity::default();
        capacity.on_overuse(1e6);
        // The least variance: sqrt(0.4 · 1000) = 20 kbit/s.
        capacity.check(1.059e6, false);
        assert_eq!(capacity.estimate, Some(1000.0));
        capacity.check(1.061e6, false);
        assert_eq!(capacity.estimate, None);
        capacity.on_overuse(1e6);
        capacity.check(0.939e6, true);
        assert_eq!(capacity.estimate, None);
        capacity.on_overuse(1e6);
        capacity.on_overuse(1.1e6);
        // 1000 + 0.05 · 100; 0.95 · 0.4 + 0.05 · 95^2 / 1005.
        assert_eq!(capacity.estimate, Some(1005.0));
        assert!((capacity.variance - 0.829).abs() < 1e-3, "{}", capacity.variance);
    }

    #[test]
    fn underuse_holds_the_rate() {
        let mut control = RateControl::new(RATES);
        control.update(Signal::Underuse, Some(1e7), 0.1, 0.0);
        control.update(Signal::Underuse, Some(1e7), 0.1, 5.0);
        assert!((control.rate - 1e6).abs() < 1e-9);
    }
}
