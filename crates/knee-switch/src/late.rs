//! How late packets went out: the difference between the moment the kernel got one and the moment it was due.

use knee_core::Time;
use knee_net::observe::{Histogram, Spread};
use serde::Serialize;

/// A departure later than this is one that the machine could not carry.
pub const BEHIND: Time = Time::from_millis(1);

/// Lateness of all departures.
pub struct Late {
    all: Histogram,
    spread: Spread,
    departures: u64,
    behind: u64,
}

/// Its figures in the result. Times in us.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LateFigures {
    pub departures: u64,
    pub late_mean_us: Option<f64>,
    pub late_p50_us: Option<f64>,
    pub late_p99_us: Option<f64>,
    pub late_max_us: Option<f64>,
    /// Departures more than 1 ms late.
    pub behind: u64,
}

impl Default for Late {
    fn default() -> Self {
        Self { all: Histogram::new(7), spread: Spread::EMPTY, departures: 0, behind: 0 }
    }
}

impl Late {
    /// Counts a departure that was `late`.
    #[inline]
    pub fn count(&mut self, late: Time) {
        self.all.count(late);
        self.spread.add(late);
        self.departures += 1;
        self.behind += u64::from(late > BEHIND);
    }

    /// Departures so far, and those of them that were more than 1 ms late.
    pub const fn so_far(&self) -> (u64, u64) {
        (self.departures, self.behind)
    }

    /// The figures.
    pub fn figures(mut self) -> LateFigures {
        self.all.fold(&self.spread);
        let us = |ms: Option<f64>| ms.map(|ms| ms * 1e3);
        LateFigures {
            departures: self.departures,
            late_mean_us: us(self.all.mean_ms()),
            late_p50_us: us(self.all.quantile_ms(0.5)),
            late_p99_us: us(self.all.quantile_ms(0.99)),
            late_max_us: us(self.all.max_ms()),
            behind: self.behind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_that_is_late_shows_above_the_99th_percentile_only() {
        let mut late = Late::default();
        (0..990).for_each(|_| late.count(Time::from_micros(10)));
        (0..10).for_each(|_| late.count(Time::from_millis(2)));
        let figures = late.figures();
        assert_eq!((figures.departures, figures.behind), (1000, 10));
        assert!((figures.late_p99_us.unwrap() - 10.0).abs() < 0.1, "{figures:?}");
        assert_eq!(figures.late_max_us, Some(2000.0));
    }
}
