//! Observers: what is counted and recorded while a simulation runs. They read the parts; no part knows them.

use crate::link::Counters;
use crate::output::{EventRow, FlowFigures, LinkFigures, LinkRow, SampleRow};
use crate::receiver::Range;
use knee_core::cache::fetch;
use knee_core::{Packet, Time};
use knee_queue::Backlog;
use std::fs::File;
use std::io::{self, Write};

/// Counts of values in buckets of constant relative width, for quantiles of times.
///
/// A value falls into one of `2^bits` buckets of its octave; within a bucket quantiles are interpolated, so that their
/// error is below `2^-bits`. Only the stretch of buckets between the least and the greatest value hit exists.
#[repr(C)]
pub struct Histogram {
    counts: Box<[u32]>,
    /// The bucket of `counts[0]`.
    base: u16,
    /// Where the last value is counted.
    last: u16,
    bits: u8,
    total: Spread,
}

impl Histogram {
    /// Bytes at its beginning that counting reads and writes.
    pub const HOT: usize = std::mem::offset_of!(Self, total);

    /// An empty histogram with `2^bits` buckets per octave, at least two and at most 1,024.
    pub fn new(bits: u8) -> Self {
        Self { counts: Box::default(), bits, base: 0, last: 0, total: Spread::EMPTY }
    }

    /// Counts a span; its share in mean and range follows with [`Histogram::fold`].
    #[inline]
    pub fn count(&mut self, span: Time) {
        let bucket = self.bucket(span.as_nanos());
        let place = bucket.wrapping_sub(u32::from(self.base));
        match self.counts.get_mut(place as usize) {
            Some(count) => {
                *count += 1;
                self.last = place as u16;
            }
            None => self.extend_to(bucket),
        }
    }

    /// Counts a value in a bucket that does not exist yet.
    #[cold]
    fn extend_to(&mut self, bucket: u32) {
        // Half an octave at once.
        let page = 1 << (self.bits - 1);
        let start = bucket - bucket % page;
        let base = if self.counts.is_empty() { start } else { start.min(u32::from(self.base)) };
        let before = u32::from(self.base).saturating_sub(base) as usize;
        self.base = base as u16;
        let needed = (start + page - base) as usize;
        let mut counts = vec![0; needed.max(before + self.counts.len())];
        counts[before..before + self.counts.len()].copy_from_slice(&self.counts);
        self.counts = counts.into_boxed_slice();
        self.counts[(bucket - base) as usize] += 1;
    }

    /// Fetches where the next value will be counted, most likely.
    #[inline]
    pub fn fetch_counts(&self) {
        if let Some(count) = self.counts.get(self.last as usize) {
            fetch(count);
        }
    }

    /// Adds sum, number and range of the spans counted since the last call.
    pub fn fold(&mut self, spread: &Spread) {
        self.total.merge(spread);
    }

    fn bucket(&self, value: u64) -> u32 {
        let bits = u32::from(self.bits);
        let octave = (u64::BITS - value.leading_zeros()).saturating_sub(bits + 1);
        (octave << bits) + (value >> octave) as u32
    }

    /// First value of a bucket, and its width.
    fn bounds(&self, bucket: u32) -> (u64, u64) {
        let octave = (bucket >> self.bits).saturating_sub(1);
        let offset = u64::from(bucket) - (u64::from(octave) << self.bits);
        (offset << octave, 1 << octave)
    }

    /// The `p`-quantile in ms, for `p` in 0 to 1: the value at rank `p · (n - 1)`, rounded down.
    pub fn quantile_ms(&self, p: f64) -> Option<f64> {
        if self.total.count == 0 {
            return None;
        }
        let rank = (p * (self.total.count - 1) as f64) as u64;
        let mut below = 0u64;
        for (i, &count) in self.counts.iter().enumerate() {
            if rank < below + u64::from(count) {
                let (start, width) = self.bounds(u32::from(self.base) + i as u32);
                let within = ((rank - below) as f64 + 0.5) / f64::from(count);
                let value = start as f64 + width as f64 * within;
                return Some(value.clamp(self.total.min as f64, self.total.max as f64) / 1e6);
            }
            below += u64::from(count);
        }
        Some(self.total.max as f64 / 1e6)
    }

    /// The mean in ms.
    pub fn mean_ms(&self) -> Option<f64> {
        let total = &self.total;
        (total.count > 0).then(|| total.sum as f64 / total.count as f64 / 1e6)
    }

    /// The least value in ms.
    pub fn min_ms(&self) -> Option<f64> {
        (self.total.count > 0).then(|| self.total.min as f64 / 1e6)
    }

    /// The greatest value in ms.
    pub fn max_ms(&self) -> Option<f64> {
        (self.total.count > 0).then(|| self.total.max as f64 / 1e6)
    }
}

/// Sum, count and range of spans over an interval.
#[derive(Clone, Copy)]
pub struct Spread {
    sum: u64,
    count: u64,
    min: u64,
    max: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Spread {
    /// Of no spans at all.
    pub const EMPTY: Self = Self { sum: 0, count: 0, min: u64::MAX, max: 0 };

    /// Takes a span.
    pub fn add(&mut self, span: Time) {
        let ns = span.as_nanos();
        self.sum += ns;
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds the spans of another.
    pub fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Mean, least and greatest in ms; NaN where there is none.
    pub fn mean_min_max_ms(&self) -> (f32, f32, f32) {
        if self.count == 0 {
            return (f32::NAN, f32::NAN, f32::NAN);
        }
        let ms = |ns: f64| (ns / 1e6) as f32;
        (ms(self.sum as f64 / self.count as f64), ms(self.min as f64), ms(self.max as f64))
    }
}

/// As [`Spread`], in little memory, of RTTs, which are whole microseconds.
#[derive(Clone, Copy)]
pub struct RttSpread {
    sum_us: u64,
    count: u32,
    min_us: u32,
    max_us: u32,
}

impl RttSpread {
    /// Of no RTTs at all.
    pub const EMPTY: Self = Self { sum_us: 0, count: 0, min_us: u32::MAX, max_us: 0 };

    /// Takes an RTT of less than 71 minutes.
    #[inline]
    pub fn add(&mut self, rtt: Time) {
        let us = rtt.as_micros();
        self.sum_us += us;
        self.count += 1;
        self.min_us = self.min_us.min(us as u32);
        self.max_us = self.max_us.max(us as u32);
    }

    /// The same as a spread, which begins anew.
    pub fn take(&mut self) -> Spread {
        let Self { sum_us, count, min_us, max_us } = std::mem::replace(self, Self::EMPTY);
        if count == 0 {
            return Spread::EMPTY;
        }
        let [min, max] = [min_us, max_us].map(|us| u64::from(us) * 1000);
        Spread { sum: sum_us * 1000, count: u64::from(count), min, max }
    }
}

/// Cumulative counts of a flow at some moment.
#[derive(Clone, Copy, Default)]
pub struct FlowCounts {
    /// When.
    pub at: Time,
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// Payload sent at least once.
    pub new_bytes: u64,
    /// Packets sent at least once and not acknowledged.
    pub outstanding: u64,
    /// Bytes sent, with the overhead of the first link.
    pub sent_bytes: u64,
    /// Bytes received, with the same overhead.
    pub received_bytes: u64,
    /// Packets received.
    pub received: u64,
    /// Their queueing delays, in units of [`Packet::QUEUED_UNIT`].
    pub queued_units: u64,
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

/// Those of the counts whose growth over an interval goes into the time series.
#[derive(Clone, Copy, Default)]
pub struct FlowRates {
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// Bytes sent, with the overhead of the first link.
    pub sent_bytes: u64,
    /// Bytes received, with the same overhead.
    pub received_bytes: u64,
    /// Packets deemed lost.
    pub lost: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
}

impl FlowCounts {
    /// Those that the time series needs.
    pub const fn rates(&self) -> FlowRates {
        FlowRates {
            acked_bytes: self.acked_bytes,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            lost: self.lost,
            retransmitted: self.retransmitted,
        }
    }
}

/// What is watched of a flow between the start and the end of its figures.
pub struct FlowWatch {
    /// Counts when the figures began.
    pub from: FlowCounts,
    /// Counts when they ended, where that is before the end of the run.
    pub until: Option<Box<FlowCounts>>,
}

impl FlowWatch {
    /// Begins to watch.
    pub const fn new(from: FlowCounts) -> Self {
        Self { from, until: None }
    }

    /// The figures between `from` and `until` (or `end`), of which `rtt` has the RTT samples.
    pub fn figures(&self, end: &FlowCounts, rtt: &Histogram, completion: Option<Time>) -> FlowFigures {
        let until = self.until.as_deref().unwrap_or(end);
        let from = &self.from;
        let span = until.at.saturating_sub(from.at);
        let mbps = |bytes: u64| if span == Time::ZERO { 0.0 } else { bytes as f64 * 8.0 / span.as_secs_f64() / 1e6 };
        let acked = until.acked_bytes - from.acked_bytes;
        let sent_bytes = until.sent_bytes - from.sent_bytes;
        let received = until.received - from.received;
        let queued = Packet::QUEUED_UNIT * (until.queued_units - from.queued_units);
        FlowFigures {
            goodput_mbps: mbps(acked),
            throughput_mbps: mbps(until.received_bytes - from.received_bytes),
            sending_rate_mbps: mbps(sent_bytes),
            // What was sent before the window and acknowledged in it is on neither side.
            goodput_ratio: (sent_bytes > 0)
                .then(|| until.acked_bytes.saturating_sub(from.new_bytes) as f64 / sent_bytes as f64),
            rtt_mean_ms: rtt.mean_ms(),
            rtt_min_ms: rtt.min_ms(),
            rtt_p50_ms: rtt.quantile_ms(0.5),
            rtt_p95_ms: rtt.quantile_ms(0.95),
            rtt_p99_ms: rtt.quantile_ms(0.99),
            rtt_max_ms: rtt.max_ms(),
            queue_delay_mean_ms: (received > 0).then(|| queued.as_millis_f64() / received as f64),
            cwnd_mean_packets: (span > Time::ZERO)
                .then(|| (until.cwnd_integral - from.cwnd_integral) as f64 / span.as_nanos() as f64),
            outstanding_packets: from.outstanding,
            sent_packets: until.sent - from.sent,
            lost_packets: until.lost - from.lost,
            retransmitted_packets: until.retransmitted - from.retransmitted,
            timeouts: until.timeouts - from.timeouts,
            completion_s: completion.map(Time::as_secs_f64),
            common_throughput_mbps: None,
            delivered_bytes: 0,
            received_bytes: 0,
        }
    }
}

/// Figures of a flow that never began to be watched.
pub fn no_figures() -> FlowFigures {
    FlowWatch::new(FlowCounts::default()).figures(&FlowCounts::default(), &Histogram::new(1), None)
}

/// Cumulative counts of a link at some moment.
#[derive(Clone, Copy, Default)]
pub struct LinkCounts {
    /// Bits that left.
    pub carried_bits: u128,
    /// Bits it could have carried, beside what a token bucket had saved.
    pub offered_bits: u128,
    /// What a token bucket has saved up to now.
    pub saved_bits: u128,
    /// By how much the others may be off, times being whole nanoseconds.
    pub rounding_bits: u128,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
}

impl LinkCounts {
    /// Bits that left since `before` over those that could have: what was offered since, and what had been saved.
    pub fn utilization_since(&self, before: &Self) -> f64 {
        let offered = self.offered_bits - before.offered_bits + before.saved_bits;
        let carried = self.carried_bits.saturating_sub(before.carried_bits);
        let carried = if carried <= offered + self.rounding_bits { carried.min(offered) } else { carried };
        if offered == 0 { 0.0 } else { carried as f64 / offered as f64 }
    }
}

/// What is watched of a link.
pub struct LinkWatch {
    /// Queueing delays since the figures began.
    pub delay: Histogram,
    /// Queueing delays of the interval.
    pub interval: Spread,
    /// Those of the interval from before the figures began.
    pub before: Spread,
    /// Counts when the figures began; none before that.
    pub from: Option<LinkCounts>,
    /// Counts at the end of the last interval.
    pub last: LinkCounts,
    /// Drops not yet on record.
    pub dropping: Option<Drops>,
}

/// Sees what a capture on the senders' machines would: their packets before the first queue, and the ACKs that arrive.
pub trait Tap: Send {
    /// A sender sends a packet at `at`.
    fn sent(&mut self, at: Time, packet: &Packet);
    /// An ACK with these SACK blocks, in segments, reaches its sender at `at`. It left the receiver, or entered the last
    /// link on its way back, at `ack.enqueued`.
    fn received(&mut self, at: Time, ack: &Packet, blocks: &[Range]);
}

/// Drops of a flow closer together than this are one event.
const DROP_GAP: Time = Time::from_millis(1);

/// Drops of one flow in a row.
#[derive(Clone, Copy)]
pub struct Drops {
    /// Index of the flow.
    pub flow: u32,
    /// When the first was.
    pub first: Time,
    /// When the last was.
    pub last: Time,
    /// How many.
    pub count: u32,
}

impl LinkWatch {
    /// Watches from the start.
    pub fn new() -> Self {
        Self {
            delay: Histogram::new(10),
            interval: Spread::EMPTY,
            before: Spread::EMPTY,
            from: None,
            last: LinkCounts::default(),
            dropping: None,
        }
    }

    /// Books a packet that leaves, having left the queue at `since`; it counts `overhead` bytes more than its own.
    #[inline]
    pub fn book(&mut self, counters: &mut Counters, packet: &mut Packet, since: Time, overhead: u64) {
        let sojourn = since.saturating_sub(packet.enqueued);
        self.book_stays(std::iter::once(sojourn));
        if !packet.has(Packet::ACK) {
            packet.add_queued(sojourn);
        }
        counters.departed += 1;
        counters.bytes += u64::from(packet.size) + overhead;
    }

    /// Books the queueing delays of packets that have left.
    pub fn book_stays(&mut self, stays: impl Iterator<Item = Time> + Clone) {
        let mut spread = Spread::EMPTY;
        stays.clone().for_each(|stay| spread.add(stay));
        self.interval.merge(&spread);
        if self.from.is_some() {
            stays.for_each(|stay| self.delay.count(stay));
        }
    }

    /// Notes a drop; gives those before it that it does not belong to.
    pub fn note_drop(&mut self, flow: u32, now: Time) -> Option<Drops> {
        match &mut self.dropping {
            Some(drops) if drops.flow == flow && now - drops.last <= DROP_GAP => {
                drops.last = now;
                drops.count += 1;
                None
            }
            _ => self.dropping.replace(Drops { flow, first: now, last: now, count: 1 }),
        }
    }

    /// Begins the figures, with these counts.
    pub fn begin(&mut self, counts: LinkCounts) {
        self.before = std::mem::take(&mut self.interval);
        self.from = Some(counts);
    }

    /// Ends an interval of the time series at `t_s`; its row for link `i`.
    pub fn row(&mut self, i: u32, t_s: f64, counts: LinkCounts, backlog: Backlog) -> LinkRow {
        let mut spread = std::mem::take(&mut self.interval);
        if self.from.is_some() {
            self.delay.fold(&spread);
        }
        spread.merge(&std::mem::take(&mut self.before));
        let (mean, _, max) = spread.mean_min_max_ms();
        let last = std::mem::replace(&mut self.last, counts);
        LinkRow {
            t_s,
            backlog_bytes: backlog.bytes.0,
            link: i,
            backlog_packets: backlog.packets as u32,
            queue_delay_mean_ms: mean,
            queue_delay_max_ms: max,
            drops: (counts.drops - last.drops) as u32,
            marks: (counts.marks - last.marks) as u32,
            utilization: counts.utilization_since(&last) as f32,
            reserved: 0,
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

/// Rows held before they go to the spool: 32 KiB, so that what is simulated stays in the caches.
const SPOOL_BLOCK: usize = 512;

impl Rows {
    /// Spools samples to `file` from now on.
    pub fn spool_to(&mut self, file: File) {
        self.spool = Some(file);
    }

    /// Adds an event.
    pub fn event(&mut self, row: EventRow) {
        self.events.push(row);
    }

    /// Puts the events in the order of time, those of one time by flow and link, and their `names` in the order in which
    /// they come up.
    pub fn sort_events(&mut self, names: &mut Vec<String>) {
        self.events.sort_by(|a, b| a.t_s.total_cmp(&b.t_s).then((a.flow, a.link).cmp(&(b.flow, b.link))));
        let mut places = vec![None; names.len()];
        let mut sorted = Vec::with_capacity(names.len());
        for event in &mut self.events {
            let name = event.event as usize;
            event.event = *places[name].get_or_insert_with(|| {
                sorted.push(std::mem::take(&mut names[name]));
                sorted.len() as u32 - 1
            });
        }
        *names = sorted;
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

    fn feed(histogram: &mut Histogram, spans: impl Iterator<Item = Time>) {
        let mut spread = Spread::EMPTY;
        for span in spans {
            histogram.count(span);
            spread.add(span);
        }
        histogram.fold(&spread);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket_of_the_exact_ones(
            mut values in prop::collection::vec(1u64..10_000_000_000, 1..500),
            p in 0.0f64..1.0,
            bits in 6u8..11,
        ) {
            let mut histogram = Histogram::new(bits);
            feed(&mut histogram, values.iter().map(|&v| Time::from_nanos(v)));
            values.sort_unstable();
            let exact = values[(p * (values.len() - 1) as f64) as usize] as f64 / 1e6;
            let got = histogram.quantile_ms(p).unwrap();
            prop_assert!((got - exact).abs() <= exact * f64::from(1u32 << bits).recip(), "{} {}", got, exact);
        }
    }

    #[test]
    fn mean_and_range_are_exact() {
        let mut histogram = Histogram::new(6);
        feed(&mut histogram, [10, 20, 60].into_iter().map(Time::from_millis));
        assert_eq!((histogram.mean_ms(), histogram.min_ms(), histogram.max_ms()), (Some(30.0), Some(10.0), Some(60.0)));
    }
}
