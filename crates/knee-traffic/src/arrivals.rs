//! When transfers start and users come: Poisson, periodic, or a list of times.

use knee_core::convert::truncated;
use std::vec;

use knee_core::{Rate, Rng, Time};

use crate::sizes::exponential;
use crate::spec::Arrivals;

/// The times of arrivals after their flow's start, ascending; [`Time::MAX`] stands for those beyond the clock's range.
#[derive(Clone)]
pub struct ArrivalTimes(Process);

#[derive(Clone)]
enum Process {
    /// Arrivals per second, the last arrival, and the stream of the gaps.
    Poisson(f64, Time, Rng),
    /// Arrivals per second, and how many have come.
    Periodic(f64, u64),
    Times(vec::IntoIter<u64>),
}

impl ArrivalTimes {
    /// Arrivals as `spec` says. A Poisson process has its first arrival one gap after the start, a periodic one has it
    /// at the start.
    pub fn new(spec: &Arrivals, rng: Rng) -> Self {
        Self(match spec {
            Arrivals::Poisson(rate) => Process::Poisson(*rate, Time::ZERO, rng),
            Arrivals::Periodic(rate) => Process::Periodic(*rate, 0),
            Arrivals::Times(times) => Process::Times(times.clone().into_iter()),
        })
    }
}

impl Arrivals {
    /// The rate that messages of `mean` bytes offer. `None` if the arrivals are listed.
    pub(crate) fn load(&self, mean: f64) -> Option<Rate> {
        match self {
            Self::Poisson(rate) | Self::Periodic(rate) => Some(Rate::from_bps(truncated(rate * mean * 8.0))),
            Self::Times(_) => None,
        }
    }
}

impl Iterator for ArrivalTimes {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        match &mut self.0 {
            Process::Poisson(rate, last, rng) => {
                *last = last.saturating_add(nanos(exponential(1e9 / *rate, rng)));
                Some(*last)
            }
            Process::Periodic(rate, number) => {
                let at = nanos(*number as f64 * 1e9 / *rate);
                *number += 1;
                Some(at)
            }
            Process::Times(times) => times.next().map(Time::from_nanos),
        }
    }
}

/// Rounded to whole nanoseconds; "never" where they do not fit.
pub(crate) fn nanos(ns: f64) -> Time {
    Time::from_nanos(truncated(libm::round(ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(spec: &Arrivals, n: usize) -> Vec<Time> {
        ArrivalTimes::new(spec, Rng::stream(5, "arrivals")).take(n).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn a_poisson_process_has_exponential_gaps() {
        let n = 100_000;
        let arrivals = times(&Arrivals::Poisson(1_000.0), n);
        let mut last = Time::ZERO;
        let gaps: Vec<f64> =
            arrivals.iter().map(|at| (*at - std::mem::replace(&mut last, *at)).as_millis_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / n as f64;
        // An exponential distribution's standard deviation is its mean, 1 ms here: five standard errors.
        assert!((mean - 1.0).abs() < 5.0 / libm::sqrt(n as f64), "{mean} ms");
        // P(gap > x) = e^-x.
        for x in [0.1, 0.5, 1.0, 2.0, 5.0] {
            let p = libm::exp(-x);
            let beyond = gaps.iter().filter(|gap| **gap > x).count() as f64 / n as f64;
            assert!((beyond - p).abs() < 5.0 * libm::sqrt(p * (1.0 - p) / n as f64), "{x}: {beyond}");
        }
    }

    #[test]
    fn a_periodic_process_does_not_drift() {
        let arrivals = times(&Arrivals::Periodic(3.0), 3_000_001);
        assert_eq!(arrivals[..3], [0, 333_333_333, 666_666_667].map(Time::from_nanos));
        assert_eq!(arrivals[3_000_000], Time::from_secs(1_000_000));
    }

    #[test]
    fn times_come_as_listed_and_end() {
        assert_eq!(times(&Arrivals::Times(vec![1, 1, 7]), 9), [1, 1, 7].map(Time::from_nanos));
    }

    #[test]
    fn arrivals_too_rare_for_the_clock_never_come() {
        assert_eq!(times(&Arrivals::Poisson(1e-12), 3)[2], Time::MAX);
    }
}
