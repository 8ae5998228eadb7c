//! Sum, count and range of times.

use knee_core::Time;

/// Sum, count and range of spans over an interval.
#[derive(Clone, Copy)]
pub struct Spread {
    pub(super) sum: u64,
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
