//! Sum, count and range of times.

use knee_core::Time;
use knee_core::convert::nearest_f32;

/// Sum, count and range of spans over an interval.
#[derive(Clone, Copy)]
pub struct Spread {
    /// Spans of 584 years together, and more: no mean is given.
    sum: u64,
    pub(super) count: u64,
    pub(super) min: u64,
    pub(super) max: u64,
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
