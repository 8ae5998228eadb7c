//! Google's congestion control for real-time communication: the rate from the trend of the delay, and from losses.
//!
//! After draft-ietf-rmcat-gcc-02, with both controllers at the sender (its section 3, with feedback for each packet),
//! in the form of the authors' program, WebRTC's `goog_cc` of 2023:
//!
//! ```text
//! groups      packets sent within 5 ms, or that arrive faster than sent; d = change of arrivals less that of sendings
//! trend       slope of the line through the last 20 smoothed sums of d, times 4 and the number of groups up to 60
//! detector    overuse: trend > threshold for 10 ms and not falling; underuse: trend < -threshold
//! threshold   follows |trend|: by 0.0087 per ms upwards, by 0.039 downwards, from 6 to 600 ms; in the draft (5.4) by
//!             0.01 and 0.00018, which a parameter chooses
//! delay       up 8 % per second; near the known capacity half a packet per response time; overuse: 0.85 R - 5 kbit/s
//! loss        above 10 %: times 1 - p/2; below 2 %: times 1.05; the rate is the less of the two
//! probes      bursts at 3 and 6 times the start rate, then at twice what the last one found, give the rate at once
//! ```
//!
//! R is the rate at which packets arrived in the last second. Differences from the program:
//!
//! * No probes but those of the start. The program also probes where its application limits it, where the application
//!   asks for more, and after a large drop: where a link becomes faster, the rate grows here by 8 % per second.
//! * The controller for losses is the draft's. The program's later ones estimate the link's own loss.
//! * The rate is never above the encoder's highest, where the program leaves the limit to others.

mod probes;
mod rate;
mod throughput;
mod trend;

use super::{Controller, Probe, Rates, Report, Reports, Threshold};
use knee_core::Time;
use probes::Probes;
use rate::RateControl;
use throughput::Throughput;
use trend::{Detector, Groups, Signal};

/// When the receiver reports.
pub(super) const REPORTS: Reports = Reports { interval: Time::from_millis(50), packets: usize::MAX };
/// Packets leave at this multiple of the target rate (`kDefaultPaceMultiplier`).
const PACING_FACTOR: f64 = 2.5;
/// A probe lowers the rate at most to this part of what arrives (`kProbeDropThroughputFraction`).
const PROBE_DROP: f64 = 0.85;

/// The sender's state.
#[derive(Clone)]
pub(super) struct Gcc {
    rates: Rates,
    probes: Probes,
    groups: Groups,
    detector: Detector,
    throughput: Throughput,
    by_delay: RateControl,
    /// bit/s.
    by_loss: f64,
    /// Smoothed RTT, s.
    rtt: f64,
}

impl Gcc {
    pub(super) fn new(rates: Rates, threshold: Threshold) -> Self {
        Self {
            rates,
            probes: Probes::new(rates.start, rates.max),
            groups: Groups::default(),
            detector: Detector::new(threshold),
            throughput: Throughput::default(),
            by_delay: RateControl::new(rates),
            by_loss: rates.start,
            rtt: 0.0,
        }
    }
}

impl Controller for Gcc {
    fn on_report(&mut self, report: &Report, at: Time) {
        let now = at.as_secs_f64();
        let rtt = now - report.acked[report.acked.len() - 1].sent.as_secs_f64();
        self.rtt = if self.rtt == 0.0 { rtt } else { self.rtt + (rtt - self.rtt) / 8.0 };
        self.throughput.on_report(report.acked);
        for acked in report.acked {
            if let Some(delta) = self.groups.on_packet(acked) {
                self.detector.on_delta(&delta);
            }
        }
        let throughput = self.throughput.rate();
        match (self.probes.on_report(report.acked), self.detector.signal()) {
            (Some(probe), Signal::Normal | Signal::Underuse) => {
                let floor = throughput.map_or(0.0, |rate| self.by_delay.rate().min(PROBE_DROP * rate));
                self.by_delay.set(self.rates.limit(probe.max(floor)), now);
                self.by_loss = self.by_delay.rate();
            }
            (_, signal) => self.by_delay.update(signal, throughput, self.rtt, now),
        }
        let p = report.lost as f64 / (report.lost as f64 + report.acked.len() as f64);
        if p > 0.1 {
            self.by_loss *= 1.0 - 0.5 * p;
        } else if p < 0.02 {
            self.by_loss *= 1.05;
        }
        // It goes no further ahead than the other may: "the actual rate is the minimum of the two".
        self.by_loss = self.rates.limit(self.by_loss.min(1.5 * self.by_delay.rate()));
        self.probes.on_rate(self.target_rate(), at);
    }

    fn on_silence(&mut self, now: Time) {
        self.by_delay.set(self.rates.min, now.as_secs_f64());
        self.by_loss = self.rates.min;
    }

    fn target_rate(&self) -> f64 {
        self.by_delay.rate().min(self.by_loss)
    }

    fn pacing_factor(&self) -> f64 {
        PACING_FACTOR
    }

    fn next_probe(&mut self, now: Time) -> Option<Probe> {
        self.probes.next(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Acked;
    use super::*;

    const RATES: Rates = Rates { start: 1e6, min: 1e5, max: 1e8 };

    #[test]
    fn many_losses_lower_the_rate_and_few_raise_it() {
        let sent = Time::from_secs(1);
        let acked: Vec<Acked> = (0..1000)
            .map(|_| Acked { bytes: 1000, sent, arrived: sent + Time::from_millis(10), ce: false, probe: 0 })
            .collect();
        let rate_after = |lost| {
            let mut gcc = Gcc::new(RATES, Threshold::Program);
            gcc.on_report(&Report { acked: &acked, newly_acked: 0, lost, in_flight: 0 }, sent + Time::from_millis(20));
            gcc.by_loss
        };
        // A fifth is lost, a twentieth, and a hundredth.
        for (lost, factor) in [(250, 1.0 - 0.5 * 0.2), (53, 1.0), (10, 1.05)] {
            assert!((rate_after(lost) / 1e6 - factor).abs() < 1e-6, "{lost}: {}", rate_after(lost));
        }
    }
}
