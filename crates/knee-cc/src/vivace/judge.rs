//! The utility of an interval as the authors' program computes it, and which rise of the RTT it takes for noise.
//!
//! The RTT's gradient counts only where it is larger than the regression's error, as a part of the mean RTT, or where
//! the mean RTTs of the last six intervals rise out of line with how they moved before. In the starting phase a rise of
//! less than 1 ms over the interval does not count. A falling RTT never does.

use super::Utility;
use super::interval::Interval;
use std::collections::VecDeque;

/// Intervals over which mean RTTs are looked at.
const HISTORY: usize = 6;
/// Weight of the newest in moving averages.
const ALPHA: f64 = 0.1;
/// So many mean deviations away from the mean is out of line.
const DEVIATIONS: f64 = 2.0;
/// A trend that many times smaller than the smallest seen starts the averages anew.
const ABNORMAL: f64 = 100.0;
/// Trends below it, in us per interval, are none.
const NO_TREND: f64 = 1e-6;
/// A rise of the RTT over an interval that does not count in the starting phase, in us.
const STARTING_RISE: f64 = 1000.0;

/// Least-squares sums of a straight line, about the samples' mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    n: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    /// Takes a sample.
    pub fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += dx / self.n;
        self.mean_y += dy / self.n;
        self.xx += dx * (x - self.mean_x);
        self.xy += dx * (y - self.mean_y);
        self.yy += dy * (y - self.mean_y);
    }

    fn slope(&self) -> f64 {
        if self.xx > 0.0 { self.xy / self.xx } else { 0.0 }
    }

    /// Root mean square distance of the samples from the line through their mean with that slope.
    fn distance(&self, slope: f64) -> f64 {
        let sum = self.yy - 2.0 * slope * self.xy + slope * slope * self.xx;
        libm::sqrt((sum / self.n).max(0.0))
    }
}

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// Mean RTTs of the last intervals, us.
    means: VecDeque<f64>,
    trend: Option<Trend>,
}

/// How the trend of the mean RTTs moved, in us per interval.
#[derive(Clone, Copy, Debug)]
struct Trend {
    mean: f64,
    deviation: f64,
    last: f64,
    /// Smallest seen.
    least: f64,
}

impl Judge {
    /// The utility of `interval`, whose packets were to leave every `gap_us`. `starting`: it was sent in the starting
    /// phase.
    pub fn utility(&mut self, utility: &Utility, interval: &Interval, gap_us: f64, starting: bool) -> f64 {
        let duration_us = interval.span_us() + gap_us;
        let rate = interval.payload_bits() / duration_us;
        let line = &interval.line;
        let enough = line.n >= 2.0;
        let gradient = if enough { line.slope() / gap_us } else { 0.0 };
        // The program takes the gradient over time for one over packets here, which leaves the spread of the RTTs.
        let mut counts = enough && line.distance(gradient) / line.mean_y < gradient.abs();
        if enough {
            counts |= self.rises_out_of_line(line.mean_y);
        }
        let noise = !counts || gradient < 0.0 || (starting && gradient.abs() < STARTING_RISE / duration_us);
        utility.of(rate, if noise { 0.0 } else { gradient }, interval.loss())
    }

    /// Returns true if the mean RTTs rise, and not as they moved before.
    fn rises_out_of_line(&mut self, mean_us: f64) -> bool {
        self.means.push_back(mean_us);
        if self.means.len() > HISTORY {
            self.means.pop_front();
        }
        if self.means.len() < HISTORY {
            return false;
        }
        let mut line = Line::default();
        self.means.iter().enumerate().for_each(|(i, mean)| line.add(i as f64, *mean));
        let slope = line.slope();
        let Some(trend) = self.trend.as_mut().filter(|t| t.least >= NO_TREND && slope.abs() >= t.least / ABNORMAL)
        else {
            self.trend = Some(Trend { mean: 0.0, deviation: slope.abs(), last: slope, least: slope.abs() });
            return false;
        };
        let out = (slope - trend.mean).abs() > DEVIATIONS * trend.deviation;
        if !out {
            trend.deviation += ALPHA * ((slope - trend.last).abs() - trend.deviation);
            trend.mean += ALPHA * (slope - trend.mean);
            trend.last = slope;
        }
        trend.least = trend.least.min(slope.abs());
        out && slope > 0.0
    }
}
