//! Observers: what is counted and recorded while a simulation runs. They read the parts; no part knows them.

use crate::output::{EventRow, FlowFigures, LinkFigures, LinkRow, SampleRow};
use knee_core::Time;
use std::fs::File;
use std::io::{self, Write};

/// Counts of values in buckets of constant relative width, for quantiles of times.
///
/// A value falls into one of `2^bits` buckets of its octave; within a bucket quantiles are interpolated, so that their
/// error is well below `2^-bits`. Only pages of buckets that were hit exist.
pub struct Histogram {
    bits: u32,
    pages: Vec<(u32, Box<[u32; PAGE]>)>,
    /// Index into `pages` of the last hit: the next value is mostly near.
    last: usize,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

const PAGE: usize = 32;

impl Histogram {
    /// An empty histogram with `2^bits` buckets per octave.
    pub const fn new(bits: u32) -> Self {
        Self { bits, pages: Vec::new(), last: 0, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts a span.
    pub fn add(&mut self, span: Time) {
        let value = span.as_nanos();
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let bucket = self.bucket(value);
        let (page, slot) = (bucket / PAGE as u32, bucket as usize % PAGE);
        if self.pages.get(self.last).is_none_or(|p| p.0 != page) {
            self.last = match self.pages.binary_search_by_key(&page, |p| p.0) {
                Ok(i) => i,
                Err(i) => {
                    self.pages.insert(i, (page, Box::new([0; PAGE])));
                    i
                }
            };
        }
        self.pages[self.last].1[slot] += 1;
    }

    fn bucket(&self, value: u64) -> u32 {
        let octave = (u64::BITS - value.leading_zeros()).saturating_sub(self.bits + 1);
        (octave << self.bits) + (value >> octave) as u32
    }

    /// First value of a bucket, and its width.
    fn bounds(&self, bucket: u32) -> (u64, u64) {
        let octave = (bucket >> self.bits).saturating_sub(1);
        let offset = u64::from(bucket) - (u64::from(octave) << self.bits);
        (offset << octave, 1 << octave)
    }

    /// The `p`-quantile in ms, for `p` in 0 to 1.
    pub fn quantile_ms(&self, p: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = p * (self.count - 1) as f64;
        let mut below = 0u64;
        for (page, counts) in &self.pages {
            for (slot, &count) in counts.iter().enumerate() {
                if count > 0 && rank < (below + u64::from(count)) as f64 {
                    let (start, width) = self.bounds(page * PAGE as u32 + slot as u32);
                    let within = (rank - below as f64 + 0.5) / f64::from(count);
                    let value = start as f64 + width as f64 * within;
                    return Some(value.clamp(self.min as f64, self.max as f64) / 1e6);
                }
                below += u64::from(count);
            }
        }
        Some(self.max as f64 / 1e6)
    }

    /// The mean in ms.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e6)
    }

    /// The least value in ms.
    pub fn min_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.min as f64 / 1e6)
    }

    /// The greatest value in ms.
    pub fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max as f64 / 1e6)
    }
}

/// Sum, count and range of spans over an interval.
#[derive(Clone, Copy)]
pub struct Spread {
    sum: u64,
    count: u32,
    min: u64,
    max: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { sum: 0, count: 0, min: u64::MAX, max: 0 }
    }
}

impl Spread {
    /// Takes a span.
    pub fn add(&mut self, span: Time) {
        let ns = span.as_nanos();
        self.sum += ns;
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Mean, least and greatest in ms; NaN where there is none.
    pub fn mean_min_max_ms(&self) -> (f32, f32, f32) {
        if self.count == 0 {
            return (f32::NAN, f32::NAN, f32::NAN);
        }
        let ms = |ns: f64| (ns / 1e6) as f32;
        (ms(self.sum as f64 / f64::from(self.count)), ms(self.min as f64), ms(self.max as f64))
    }
}

/// Cumulative counts of a flow at some moment.
#[derive(Clone, Copy, Default)]
pub struct FlowCounts {
    /// When.
    pub at: Time,
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// Bytes sent, with the overhead of the first link.
    pub sent_bytes: u64,
    /// Bytes received, with the same overhead.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets deemed lost.
    pub lost: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Integral of the window.
    pub cwnd_integral: u128,
}

/// What is watched of a flow between the start and the end of its figures.
pub struct FlowWatch {
    /// RTT samples.
    pub rtt: Histogram,
    /// Queueing delays of its packets.
    pub queued_sum: u128,
    /// How many those are.
    pub queued_count: u64,
    /// Counts when the figures began.
    pub from: FlowCounts,
    /// Counts when they ended.
    pub until: Option<FlowCounts>,
}

impl FlowWatch {
    /// Begins to watch.
    pub const fn new(from: FlowCounts, histogram_bits: u32) -> Self {
        Self { rtt: Histogram::new(histogram_bits), queued_sum: 0, queued_count: 0, from, until: None }
    }

    /// The figures between `from` and `until` (or `end`).
    pub fn figures(&self, end: &FlowCounts, completion: Option<Time>) -> FlowFigures {
        let until = self.until.unwrap_or(*end);
        let from = &self.from;
        let span = until.at.saturating_sub(from.at);
        let mbps = |bytes: u64| if span == Time::ZERO { 0.0 } else { bytes as f64 * 8.0 / span.as_secs_f64() / 1e6 };
        let acked = until.acked_bytes - from.acked_bytes;
        let sent_bytes = until.sent_bytes - from.sent_bytes;
        FlowFigures {
            goodput_mbps: mbps(acked),
            throughput_mbps: mbps(until.received_bytes - from.received_bytes),
            sending_rate_mbps: mbps(sent_bytes),
            goodput_ratio: (sent_bytes > 0).then(|| acked as f64 / sent_bytes as f64),
            rtt_mean_ms: self.rtt.mean_ms(),
            rtt_min_ms: self.rtt.min_ms(),
            rtt_p50_ms: self.rtt.quantile_ms(0.5),
            rtt_p95_ms: self.rtt.quantile_ms(0.95),
            rtt_p99_ms: self.rtt.quantile_ms(0.99),
            rtt_max_ms: self.rtt.max_ms(),
            queue_delay_mean_ms: (self.queued_count > 0)
                .then(|| self.queued_sum as f64 / self.queued_count as f64 / 1e6),
            cwnd_mean_packets: (span > Time::ZERO)
                .then(|| (until.cwnd_integral - from.cwnd_integral) as f64 / span.as_nanos() as f64),
            sent_packets: until.sent - from.sent,
            lost_packets: until.lost - from.lost,
            retransmitted_packets: until.retransmitted - from.retransmitted,
            timeouts: until.timeouts - from.timeouts,
            completion_s: completion.map(Time::as_secs_f64),
            common_throughput_mbps: None,
        }
    }
}

/// Figures of a flow that never began to be watched.
pub fn no_figures() -> FlowFigures {
    FlowWatch::new(FlowCounts::default(), 1).figures(&FlowCounts::default(), None)
}

/// Cumulative counts of a link at some moment.
#[derive(Clone, Copy, Default)]
pub struct LinkCounts {
    /// Bytes that left.
    pub bytes: u64,
    /// Bits it could have carried.
    pub offered_bits: u128,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
}

impl LinkCounts {
    /// Bytes that left since `before` over what could have.
    pub fn utilization_since(&self, before: &Self) -> f64 {
        let offered = self.offered_bits - before.offered_bits;
        if offered == 0 { 0.0 } else { (self.bytes - before.bytes) as f64 * 8.0 / offered as f64 }
    }
}

/// What is watched of a link.
pub struct LinkWatch {
    /// Queueing delays since the figures began.
    pub delay: Histogram,
    /// Queueing delays of the interval.
    pub interval: Spread,
    /// Counts when the figures began; none before that.
    pub from: Option<LinkCounts>,
    /// Counts at the end of the last interval.
    pub last: LinkCounts,
    /// Drops not yet on record: flow, first and last time, number.
    pub dropping: Option<(u32, Time, Time, u32)>,
}

impl LinkWatch {
    /// Watches from the start.
    pub fn new() -> Self {
        Self {
            delay: Histogram::new(10),
            interval: Spread::default(),
            from: None,
            last: LinkCounts::default(),
            dropping: None,
        }
    }

    /// The figures until `end`.
    pub fn figures(&self, link: String, end: &LinkCounts) -> LinkFigures {
        let from = self.from.unwrap_or(*end);
        LinkFigures {
            link,
            utilization: end.utilization_since(&from),
            queue_delay_mean_ms: self.delay.mean_ms(),
            queue_delay_p95_ms: self.delay.quantile_ms(0.95),
            queue_delay_p99_ms: self.delay.quantile_ms(0.99),
            queue_delay_max_ms: self.delay.max_ms(),
            drops: end.drops - from.drops,
            marks: end.marks - from.marks,
        }
    }
}

impl Default for LinkWatch {
    fn default() -> Self {
        Self::new()
    }
}

/// The rows of a run. Samples may be spooled to a file, so that memory does not grow with the run.
#[derive(Default)]
pub struct Rows {
    /// Flow samples not yet in the spool.
    pub samples: Vec<SampleRow>,
    /// Link samples.
    pub links: Vec<LinkRow>,
    /// Events.
    pub events: Vec<EventRow>,
    spool: Option<File>,
    spool_error: Option<io::Error>,
}

/// Rows held before they go to the spool.
const SPOOL_BLOCK: usize = 4096;

impl Rows {
    /// Spools samples to `file` from now on.
    pub fn spool_to(&mut self, file: File) {
        self.spool = Some(file);
    }

    /// Adds a sample.
    pub fn sample(&mut self, row: SampleRow) {
        self.samples.push(row);
        if self.samples.len() >= SPOOL_BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.spool {
            if let Err(error) = file.write_all(bytemuck::cast_slice(&self.samples)) {
                self.spool_error.get_or_insert(error);
            }
            self.samples.clear();
        }
    }

    /// Writes out what is left.
    ///
    /// # Errors
    /// The first error met while writing to the spool.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush();
        self.spool_error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket_of_the_exact_ones(
            mut values in prop::collection::vec(1u64..10_000_000_000, 1..500),
            p in 0.0f64..1.0,
            bits in 6u32..11,
        ) {
            let mut histogram = Histogram::new(bits);
            values.iter().for_each(|&v| histogram.add(Time::from_nanos(v)));
            values.sort_unstable();
            let exact = values[(p * (values.len() - 1) as f64) as usize] as f64 / 1e6;
            let got = histogram.quantile_ms(p).unwrap();
            prop_assert!((got - exact).abs() <= exact * f64::from(1u32 << bits).recip() + 1e-5, "{} {}", got, exact);
        }
    }

    #[test]
    fn mean_and_range_are_exact() {
        let mut histogram = Histogram::new(6);
        for ms in [10, 20, 60] {
            histogram.add(Time::from_millis(ms));
        }
        assert_eq!((histogram.mean_ms(), histogram.min_ms(), histogram.max_ms()), (Some(30.0), Some(10.0), Some(60.0)));
    }
}
