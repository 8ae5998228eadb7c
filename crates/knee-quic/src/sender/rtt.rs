//! The RTT: latest, smoothed, its variation and the least (RFC 9002, 5), in whole nanoseconds.

use super::Sender;
use crate::config::{Config, Factor};
use knee_core::Time;

/// Estimator of the RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    latest: Time,
    smoothed: Time,
    variation: Time,
    least: Time,
    first_sample: Option<Time>,
}

impl RttEstimator {
    /// An estimator before its first sample.
    pub fn new(config: &Config) -> Self {
        //= RFC 9002, 5.3
        //# Before any RTT samples are available for a new path or when the estimator is reset, the estimator is
        //# initialized using the initial RTT; see Section 6.2.2.
        let initial = config.settings.initial_rtt;
        Self { latest: Time::ZERO, smoothed: initial, variation: initial / 2, least: Time::MAX, first_sample: None }
    }

    /// When the first sample was taken.
    pub const fn first_sample(&self) -> Option<Time> {
        self.first_sample
    }

    /// Smoothed RTT; the initial one before the first sample.
    pub const fn smoothed(&self) -> Time {
        self.smoothed
    }

    /// The latest sample.
    pub const fn latest(&self) -> Time {
        self.latest
    }

    /// The variation of the RTT.
    pub const fn variation(&self) -> Time {
        self.variation
    }

    /// Takes a sample; the ACK waited for `delay`. Gives the sample without that delay.
    fn sample(&mut self, rtt: Time, delay: Time, now: Time, config: &Config) -> Time {
        self.latest = rtt;
        if self.first_sample.is_none() {
            //= RFC 9002, 5.2
            //# min_rtt MUST be set to the latest_rtt on the first RTT sample.
            //= RFC 9002, 5.3
            //# smoothed_rtt = latest_rtt rttvar = latest_rtt / 2
            (self.least, self.smoothed, self.variation) = (rtt, rtt, rtt / 2);
            self.first_sample = Some(now);
            return rtt;
        }
        //= RFC 9002, 5.2
        //# min_rtt MUST be set to the lesser of min_rtt and latest_rtt (Section 5.1) on all other samples.
        self.least = self.least.min(rtt);
        //= RFC 9002, 5.3
        //# MUST use the lesser of the acknowledgment delay and the peer's max_ack_delay after the handshake is
        //# confirmed; and
        let delay = delay.min(config.settings.max_ack_delay);
        //= RFC 9002, 5.3
        //# MUST NOT subtract the acknowledgment delay from the RTT sample if the resulting value is smaller than the
        //# min_rtt.
        let adjusted = if rtt >= self.least.saturating_add(delay) { rtt - delay } else { rtt };
        // The variation first, from the smoothed RTT before: so A.7; 5.3 has both lines the other way round.
        //= RFC 9002, A.7
        //# rttvar = 3/4 * rttvar + 1/4 * abs(smoothed_rtt - adjusted_rtt)
        let difference = self.smoothed.max(adjusted) - self.smoothed.min(adjusted);
        self.variation = (self.variation * 3 + difference) / 4;
        //= RFC 9002, A.7
        //# smoothed_rtt = 7/8 * smoothed_rtt + 1/8 * adjusted_rtt
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
        adjusted
    }

    /// The time after which a packet is lost that was sent before one that arrived.
    pub fn loss_delay(&self, config: &Config) -> Time {
        self.loss_delay_by(config.time_threshold, config)
    }

    /// That time where it changes, once a loss was none, or is not in RTTs.
    #[cold]
    pub fn varied_loss_delay(&self, late: bool, config: &Config) -> Time {
        let window = config.settings.reordering_window;
        if window == Time::ZERO {
            return self.loss_delay_by(if late { config.late_time_threshold } else { config.time_threshold }, config);
        }
        // The largest packet acknowledged came back after the latest RTT.
        let delay = self.latest.saturating_add((self.smoothed / 4).min(window));
        delay.saturating_add(config.settings.max_ack_delay).min(self.pto(config))
    }

    fn loss_delay_by(&self, threshold: Factor, config: &Config) -> Time {
        //= RFC 9002, 6.1.2
        //# To avoid declaring packets as lost too early, this time threshold MUST be set to at least the local timer
        //# granularity, as indicated by the kGranularity constant.
        //= RFC 9002, 6.1.2
        //# max(kTimeThreshold * max(smoothed_rtt, latest_rtt), kGranularity)
        threshold.of_time(self.smoothed.max(self.latest)).max(config.settings.granularity)
    }

    /// The probe timeout without backoff.
    pub fn pto(&self, config: &Config) -> Time {
        //= RFC 9002, 6.2.1
        //# The PTO period MUST be at least kGranularity to avoid the timer expiring immediately.
        //= RFC 9002, 6.2.1
        //# PTO = smoothed_rtt + max(4*rttvar, kGranularity) + max_ack_delay
        let variations = u64::from(config.settings.pto_variations);
        let variation = self.variation.mul_div(variations, 1).max(config.settings.granularity);
        self.smoothed.saturating_add(variation).saturating_add(config.settings.max_ack_delay)
    }

    /// The path may have changed: the least RTT is that of the latest sample.
    pub const fn renew_least(&mut self) {
        self.least = self.latest;
    }

    /// The least RTT; `Time::MAX` before the first sample.
    pub const fn least(&self) -> Time {
        self.least
    }
}

impl Sender {
    /// Takes an RTT sample. Gives it without the ACK's delay, in whole microseconds, as the algorithm sees it.
    pub(super) fn take_rtt(&mut self, rtt: Time, delay: Time, now: Time, config: &Config) -> Time {
        let adjusted = self.rtt.sample(rtt, delay, now, config);
        self.view.srtt = in_micros(self.rtt.smoothed);
        self.view.min_rtt = in_micros(self.rtt.least);
        in_micros(adjusted)
    }
}

/// `time` in whole microseconds, rounded down.
pub const fn in_micros(time: Time) -> Time {
    Time::from_micros(time.as_micros())
}
