//! Sums and counts of times, for their mean, range and quantiles.

use knee_core::Time;
use knee_core::cache::fetch;
use knee_core::convert::{index_u32, low_u16, low_u32, nearest_f32, saturating_u16, truncated};

/// Sum, count and range of spans over an interval.
#[derive(Clone, Copy)]
pub struct Spread {
    /// Spans of 584 years together, and more: no mean is given.
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
    /// Without any span.
    pub const EMPTY: Self = Self { sum: 0, count: 0, min: u64::MAX, max: 0 };

    /// Takes a span.
    #[inline]
    pub fn add(&mut self, span: Time) {
        let ns = span.as_nanos();
        self.sum = self.sum.saturating_add(ns);
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds the spans of another.
    pub fn merge(&mut self, other: &Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Mean, ns; none where there are no spans, or their sum does not fit.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0 && self.sum < u64::MAX).then(|| self.sum as f64 / self.count as f64)
    }

    /// Mean, least and greatest in ms; NaN where there is none.
    pub fn mean_min_max_ms(&self) -> (f32, f32, f32) {
        if self.count == 0 {
            return (f32::NAN, f32::NAN, f32::NAN);
        }
        let ms = |ns: f64| nearest_f32(ns / 1e6);
        (self.mean().map_or(f32::NAN, ms), ms(self.min as f64), ms(self.max as f64))
    }
}

/// Counts of values in buckets of constant relative width, for quantiles of times.
///
/// A value falls into one of `2^bits` buckets of its octave; within a bucket quantiles are interpolated, so that their
/// error is below `2^-bits`. Only the stretch of buckets between the least and the greatest value hit exists.
#[repr(C)]
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u32]>,
    /// The bucket of `counts[0]`.
    base: u16,
    /// Bucket of the last value.
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
                // A full bucket stays full.
                *count = count.saturating_add(1);
                self.last = low_u16(u64::from(place));
            }
            None => self.extend_to(bucket, 1),
        }
    }

    /// Counts `count` values in a bucket that does not exist yet.
    #[cold]
    fn extend_to(&mut self, bucket: u32, count: u32) {
        // Half an octave at once.
        let page = 1 << (self.bits - 1);
        let start = bucket - bucket % page;
        let base = if self.counts.is_empty() { start } else { start.min(u32::from(self.base)) };
        let before = u32::from(self.base).saturating_sub(base) as usize;
        self.base = saturating_u16(u64::from(base));
        let needed = (start + page - base) as usize;
        let mut counts = vec![0; needed.max(before + self.counts.len())];
        counts[before..before + self.counts.len()].copy_from_slice(&self.counts);
        self.counts = counts.into_boxed_slice();
        let counted = &mut self.counts[(bucket - base) as usize];
        *counted = counted.saturating_add(count);
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

    /// All that `histograms`, whose resolution is not coarser, have counted, in `2^bits` buckets per octave.
    pub fn sum<'a>(bits: u8, histograms: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::new(bits);
        for histogram in histograms {
            for (start, count) in histogram.counted() {
                let bucket = sum.bucket(start);
                match sum.counts.get_mut(bucket.wrapping_sub(u32::from(sum.base)) as usize) {
                    Some(sum) => *sum = sum.saturating_add(count),
                    None => sum.extend_to(bucket, count),
                }
            }
            sum.total.merge(&histogram.total);
        }
        sum
    }

    /// The buckets that have counted anything: first value in ns and count.
    fn counted(&self) -> impl Iterator<Item = (u64, u32)> {
        let counted = (u32::from(self.base)..).zip(&self.counts).filter(|(_, count)| **count > 0);
        counted.map(|(bucket, &count)| (self.bounds(bucket).0, count))
    }

    /// Values, in ns, and how many there are of each, in `2^bits` buckets per octave, not more than it has: the middle
    /// of each bucket, within the range of what was counted.
    pub fn buckets(&self, bits: u8) -> impl Iterator<Item = (f64, u64)> {
        let coarse = Self::sum(bits, std::iter::once(self));
        let (base, Spread { min, max, .. }) = (u32::from(coarse.base), coarse.total);
        let counts = coarse.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        counts.into_iter().map(move |(i, count)| {
            let (start, width) = coarse.bounds(base + index_u32(i));
            let middle = start as f64 + (width - 1) as f64 / 2.0;
            (middle.clamp(min as f64, max as f64), u64::from(count))
        })
    }

    fn bucket(&self, value: u64) -> u32 {
        let bits = u32::from(self.bits);
        let octave = (u64::BITS - value.leading_zeros()).saturating_sub(bits + 1);
        (octave << bits) + low_u32(value >> octave)
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
        let rank = truncated(p * (self.total.count - 1) as f64);
        let mut below = 0u64;
        for (i, &count) in self.counts.iter().enumerate() {
            if rank < below + u64::from(count) {
                let (start, width) = self.bounds(u32::from(self.base) + index_u32(i));
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
        self.total.mean().map(|ns| ns / 1e6)
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

    proptest! {
        #[test]
        fn coarse_buckets_hold_every_value_near_their_middle(
            mut values in prop::collection::vec(1u64..10_000_000_000, 1..300),
            parts in 1usize..4,
        ) {
            let parts: Vec<Histogram> = values.chunks(values.len().div_ceil(parts)).map(|values| {
                let mut histogram = Histogram::new(10);
                feed(&mut histogram, values.iter().map(|&v| Time::from_nanos(v)));
                histogram
            }).collect();
            let sum = Histogram::sum(6, parts.iter());
            values.sort_unstable();
            let repeated = sum.buckets(6).flat_map(|(value, count)| std::iter::repeat_n(value, count as usize));
            let got: Vec<f64> = repeated.collect();
            prop_assert_eq!(got.len(), values.len());
            for (got, exact) in got.iter().zip(&values) {
                prop_assert!((got - *exact as f64).abs() <= *exact as f64 / 128.0, "{} {}", got, exact);
            }
        }
    }

    #[test]
    fn what_is_constant_has_one_bucket_with_its_exact_value() {
        let mut histogram = Histogram::new(10);
        feed(&mut histogram, std::iter::repeat_n(Time::from_nanos(20_123_457), 9));
        assert_eq!(histogram.buckets(6).collect::<Vec<_>>(), [(20_123_457.0, 9)]);
    }

    #[test]
    fn values_of_a_bucket_are_spread_over_it() {
        // With 64 buckets per octave, 1000 to 1007 ns are one. Two values in it are at a quarter and three quarters.
        let mut histogram = Histogram::new(6);
        feed(&mut histogram, [1000, 1007].into_iter().map(Time::from_nanos));
        let ns = |p| histogram.quantile_ms(p).map(|ms| (ms * 1e6).round());
        assert_eq!((ns(0.0), ns(1.0)), (Some(1002.0), Some(1006.0)));
        assert_eq!(histogram.buckets(6).collect::<Vec<_>>(), [(1003.5, 2)]);
        assert_eq!(Histogram::new(6).quantile_ms(0.5), None);
    }

    #[test]
    fn a_full_bucket_stays_full() {
        let mut histogram = Histogram::new(6);
        histogram.count(Time::from_nanos(1000));
        histogram.counts.iter_mut().filter(|count| **count > 0).for_each(|count| *count = u32::MAX);
        histogram.count(Time::from_nanos(1000));
        assert_eq!(histogram.counted().map(|(_, count)| count).collect::<Vec<_>>(), [u32::MAX]);
    }

    #[test]
    fn mean_and_range_are_exact() {
        let mut histogram = Histogram::new(6);
        feed(&mut histogram, [10, 20, 60].into_iter().map(Time::from_millis));
        assert_eq!((histogram.mean_ms(), histogram.min_ms(), histogram.max_ms()), (Some(30.0), Some(10.0), Some(60.0)));
    }
}
