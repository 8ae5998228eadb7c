//! Probes: bursts above the target rate, which show at once what the link carries (the authors' `probe_controller.cc`,
//! `bitrate_prober.cc` and `probe_bitrate_estimator.cc`).
//!
//! The first two are at three and six times the start rate. Where the rate then known is above 0.7 of the last probe,
//! one at twice that rate follows, up to the highest rate of the encoder. A probe that gives no such rate within a
//! second is the last.

use super::super::{Acked, PROBE_BYTES_TIME, PROBE_PACKETS, Probe};
use knee_core::Time;
use std::collections::VecDeque;

/// The first probes, times the start rate (`first_exponential_probe_scale`, `second_exponential_probe_scale`).
const FIRST: [f64; 2] = [3.0, 6.0];
/// The next, times the rate found (`further_exponential_probe_scale`), where that is above this part of the last probe
/// (`further_probe_threshold`).
const FURTHER: f64 = 2.0;
const FOUND: f64 = 0.7;
/// For so long a result is waited for (`kMaxWaitingTimeForProbingResult`).
const PATIENCE: Time = Time::from_secs(1);
/// The part of a probe's packets and bytes that must have arrived (`kMinReceivedProbesRatio`,
/// `kMinReceivedBytesRatio`).
const RECEIVED: f64 = 0.8;
/// A probe that arrives this many times faster than it was sent says nothing (`kMaxValidRatio`).
const MOST_FASTER: f64 = 2.0;
/// Below this part of the rate sent the link was full (`kMinRatioForUnsaturatedLink`), and this part of what arrived is
/// used (`kTargetUtilizationFraction`).
const UNSATURATED: f64 = 0.9;
const UTILIZATION: f64 = 0.95;
/// Longest time between a probe's first and last packet (`kMaxProbeInterval`).
const LONGEST: Time = Time::from_secs(1);

/// The packets of a probe that have arrived.
#[derive(Clone, Copy)]
struct Cluster {
    probe: Probe,
    packets: u32,
    bytes: u32,
    /// First and last departure, and the bytes of the last packet sent.
    sent: (Time, Time, u32),
    /// First and last arrival, and the bytes of the first packet that arrived.
    arrived: (Time, Time, u32),
}

impl Cluster {
    fn of(probe: Probe, packet: &Acked) -> Self {
        let (sent, arrived) = (packet.sent, packet.arrived);
        let (sent, arrived) = ((sent, sent, packet.bytes), (arrived, arrived, packet.bytes));
        Self { probe, packets: 0, bytes: 0, sent, arrived }
    }

    fn add(&mut self, packet: &Acked) {
        self.packets += 1;
        self.bytes += packet.bytes;
        self.sent.0 = self.sent.0.min(packet.sent);
        if packet.sent >= self.sent.1 {
            (self.sent.1, self.sent.2) = (packet.sent, packet.bytes);
        }
        if packet.arrived < self.arrived.0 {
            (self.arrived.0, self.arrived.2) = (packet.arrived, packet.bytes);
        }
        self.arrived.1 = self.arrived.1.max(packet.arrived);
    }

    /// The rate that the link carries, bit/s, as far as the probe shows it.
    fn rate(&self) -> Option<f64> {
        let least = RECEIVED * self.probe.rate / 8.0 * PROBE_BYTES_TIME.as_secs_f64();
        if f64::from(self.packets) < RECEIVED * f64::from(PROBE_PACKETS) || f64::from(self.bytes) < least {
            return None;
        }
        let rate = |(first, last, without): (Time, Time, u32)| {
            let span = last.saturating_sub(first);
            let seconds = span.as_secs_f64();
            (seconds > 0.0 && span <= LONGEST).then(|| 8.0 * f64::from(self.bytes - without) / seconds)
        };
        let (sent, arrived) = (rate(self.sent)?, rate(self.arrived)?);
        if arrived > MOST_FASTER * sent {
            return None;
        }
        Some(if arrived < UNSATURATED * sent { UTILIZATION * arrived } else { sent.min(arrived) })
    }
}

/// Decides on probes, and reads their results.
#[derive(Clone)]
pub(super) struct Probes {
    /// Probes that are still to be sent.
    due: VecDeque<Probe>,
    /// Probes that were sent, each with the arrivals so far.
    clusters: Vec<(Probe, Option<Cluster>)>,
    number: u32,
    max: f64,
    /// The rate above which another follows, and until when; none once the last was decided on.
    waits: Option<(f64, Time)>,
}

impl Probes {
    /// For a flow that starts at `start` bit/s and never sends more than `max`.
    pub(super) fn new(start: f64, max: f64) -> Self {
        let mut probes = Self { due: VecDeque::new(), clusters: Vec::new(), number: 0, max, waits: None };
        probes.decide(&FIRST.map(|scale| scale * start), Time::MAX);
        probes
    }

    /// Probes at these rates. None follows one that is as fast as the encoder can be.
    fn decide(&mut self, rates: &[f64], until: Time) {
        self.waits = None;
        for rate in rates {
            self.number += 1;
            self.due.push_back(Probe { number: self.number, rate: rate.min(self.max) });
            if *rate >= self.max {
                self.waits = None;
                return;
            }
            self.waits = Some((FOUND * rate, until));
        }
    }

    /// The next probe to be sent.
    pub(super) fn next(&mut self, now: Time) -> Option<Probe> {
        let probe = self.due.pop_front()?;
        if let Some((_, until)) = &mut self.waits {
            *until = now + PATIENCE;
        }
        self.clusters.push((probe, None));
        Some(probe)
    }

    /// A report acknowledges these packets: the rate that the newest probe with a result shows, bit/s.
    pub(super) fn on_report(&mut self, acked: &[Acked]) -> Option<f64> {
        let mut found = None;
        for packet in acked.iter().filter(|packet| packet.probe > 0) {
            let Some((probe, cluster)) = self.clusters.iter_mut().find(|(probe, _)| probe.number == packet.probe)
            else {
                continue;
            };
            let cluster = cluster.get_or_insert_with(|| Cluster::of(*probe, packet));
            cluster.add(packet);
            found = cluster.rate().or(found);
        }
        found
    }

    /// The rate is `rate` now.
    pub(super) fn on_rate(&mut self, rate: f64, now: Time) {
        let Some((least, until)) = self.waits else { return };
        if now > until {
            self.waits = None;
        } else if rate > least {
            self.decide(&[FURTHER * rate], Time::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_millis(1);

    /// The rate that a probe of `packets` packets of 1000 bytes shows, sent `apart` ms after each other, that arrive
    /// `spaced` ms after each other.
    fn shown(packets: u64, apart: u64, spaced: u64) -> Option<f64> {
        let mut probes = Probes::new(3e5, 1e7);
        let probe = probes.next(Time::ZERO)?;
        let acked: Vec<Acked> = (0..packets)
            .map(|k| {
                let (sent, arrived) = (MS * (apart * k), MS * (50 + spaced * k));
                Acked { bytes: 1000, sent, arrived, ce: false, probe: probe.number }
            })
            .collect();
        probes.on_report(&acked)
    }

    #[test]
    fn a_probe_shows_the_rate_sent_or_95_percent_of_what_a_full_link_delivered() {
        // 8000 bits each 10 ms; each 11 ms they are 91 % of that; each 25 ms the link is full.
        assert_eq!(shown(5, 10, 10), Some(8e5));
        assert!((shown(5, 10, 11).unwrap() - 8e3 / 0.011).abs() < 1e-6);
        assert!((shown(5, 10, 25).unwrap() - 0.95 * 3.2e5).abs() < 1e-6);
        assert_eq!(shown(3, 10, 10), None, "three of five packets");
        assert_eq!(shown(5, 10, 4), None, "more than twice as fast as sent");
        assert_eq!(shown(5, 10, 0), None, "at once");
    }

    #[test]
    fn two_probes_at_three_and_six_times_the_start_lead_to_others_at_twice_what_is_found() {
        let mut probes = Probes::new(3e5, 5e6);
        // kbit/s.
        let rates = |probes: &mut Probes, now| -> Vec<u32> {
            std::iter::from_fn(|| probes.next(now)).map(|probe| (probe.rate / 1e3).round() as u32).collect()
        };
        assert_eq!(rates(&mut probes, Time::ZERO), [900, 1800]);
        probes.on_rate(1.26e6, MS * 100);
        assert!(rates(&mut probes, MS * 100).is_empty(), "not above 0.7 of 1.8 Mbit/s");
        probes.on_rate(1.7e6, MS * 100);
        assert_eq!(rates(&mut probes, MS * 100), [3400]);
        let mut late = probes.clone();
        late.on_rate(3e6, MS * 1200);
        assert!(rates(&mut late, MS * 1200).is_empty(), "nobody waits longer than a second");
        probes.on_rate(3e6, MS * 200);
        assert_eq!(rates(&mut probes, MS * 200), [5000], "no faster than the encoder");
        probes.on_rate(5e6, MS * 300);
        assert!(rates(&mut probes, MS * 300).is_empty());
    }
}
