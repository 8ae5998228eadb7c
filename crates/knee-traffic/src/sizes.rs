//! How large messages are: draws from a [`Size`] and its mean.
//!
//! All arithmetic is that of `libm`, so that a seed gives the same sizes on every machine.

use knee_core::Rng;
use knee_core::convert::truncated;

use crate::spec::Size;

impl Size {
    /// Draws a size in bytes, at least 1.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(bytes) => (*bytes).max(1),
            Self::Lognormal(median, sigma, max) => whole(median * libm::exp(sigma * normal(rng))).min(*max),
            Self::Pareto(min, shape, max) => whole(pareto(*min, *shape, *max as f64, rng.unit())).min(*max),
            Self::Empirical(points) => whole(quantile(points, rng.unit())),
        }
    }

    /// The mean size in bytes. With the arrivals per second it gives the offered load.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => *bytes as f64,
            Self::Lognormal(median, sigma, max) => lognormal_mean(*median, *sigma, *max as f64),
            Self::Pareto(min, shape, max) => pareto_mean(*min, *shape, *max as f64),
            Self::Empirical(points) => empirical_mean(points),
        }
    }
}

/// Rounded to whole bytes, at least 1.
fn whole(bytes: f64) -> u64 {
    truncated(libm::round(bytes).max(1.0))
}

/// Exponential with this mean.
pub(crate) fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -mean * libm::log(1.0 - rng.unit())
}

/// Standard normal, by the method of Box and Muller (Ann. Math. Stat. 29, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(exponential(2.0, rng));
    radius * libm::cos(2.0 * std::f64::consts::PI * rng.unit())
}

/// The mean of a lognormal distribution whose larger sizes count as `max`:
/// `E[min(X, m)] = e^(mu + sigma^2/2) Phi((ln m - mu - sigma^2) / sigma) + m Phi(-(ln m - mu) / sigma)`.
fn lognormal_mean(median: f64, sigma: f64, max: f64) -> f64 {
    if sigma == 0.0 {
        return median.min(max);
    }
    let phi = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let z = libm::log(max / median) / sigma;
    median * libm::exp(sigma * sigma / 2.0) * phi(z - sigma) + max * phi(-z)
}

/// The size below which a share `u` of a bounded Pareto distribution lies, `u` in [0, 1):
/// `F(x) = (1 - (L/x)^a) / (1 - (L/H)^a)`.
fn pareto(min: f64, shape: f64, max: f64, u: f64) -> f64 {
    let bounded = -libm::expm1(-shape * libm::log(max / min));
    min * libm::exp(-libm::log1p(-u * bounded) / shape)
}

/// `E[X] = a L (1 - (L/H)^(a-1)) / ((a - 1) (1 - (L/H)^a))`; its limit `a L ln(H/L) / (1 - L/H)` at `a = 1`.
fn pareto_mean(min: f64, shape: f64, max: f64) -> f64 {
    let span = libm::log(max / min);
    if span == 0.0 {
        return min;
    }
    let beyond_one = shape - 1.0;
    let tail = if beyond_one == 0.0 { span } else { -libm::expm1(-beyond_one * span) / beyond_one };
    shape * min * tail / -libm::expm1(-shape * span)
}

/// The size at cumulative probability `u`, linear between the points; sizes up to the first point are the first size.
fn quantile(points: &[(u64, f64)], u: f64) -> f64 {
    let i = points.partition_point(|(_, p)| *p <= u);
    let (above, p_above) = points[i.min(points.len() - 1)];
    if i == 0 || i == points.len() {
        return above as f64;
    }
    let (below, p_below) = points[i - 1];
    below as f64 + (above as f64 - below as f64) * (u - p_below) / (p_above - p_below)
}

fn empirical_mean(points: &[(u64, f64)]) -> f64 {
    let (first, p_first) = points[0];
    let between = |pair: &[(u64, f64)]| (pair[1].1 - pair[0].1) * (pair[0].0 as f64 + pair[1].0 as f64) / 2.0;
    first as f64 * p_first + points.windows(2).map(between).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distributions that are shipped.
    const WEB_SEARCH: &str = include_str!("../../../python/knee/scenarios/sizes/web-search.txt");
    const DATA_MINING: &str = include_str!("../../../python/knee/scenarios/sizes/data-mining.txt");

    fn points(text: &str) -> Vec<(u64, f64)> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split_once(' ').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).unwrap()).collect()
    }

    fn draws(size: &Size, n: usize) -> Vec<u64> {
        let mut rng = Rng::stream(11, "sizes");
        (0..n).map(|_| size.draw(&mut rng)).collect()
    }

    /// The mean of many draws lies within five standard errors, taken from the draws, of the mean that is stated.
    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn the_mean_is_that_of_the_draws() {
        let sizes = [
            Size::Fixed(1_234),
            Size::Lognormal(10_000.0, 1.0, 1_000_000_000),
            // A third of the draws is cut.
            Size::Lognormal(10_000.0, 1.0, 15_000),
            Size::Lognormal(10_000.0, 0.0, 15_000),
            Size::Pareto(1_000.0, 1.2, 10_000_000),
            Size::Pareto(1_000.0, 1.0, 1_000_000),
            Size::Pareto(1_000.0, 3.0, 1_000_000),
            Size::Pareto(5_000.0, 1.5, 5_000),
            Size::Empirical(points(WEB_SEARCH)),
            Size::Empirical(vec![(100, 0.25), (100, 0.5), (1_000, 0.5), (2_000, 1.0)]),
        ];
        for size in sizes {
            let drawn = draws(&size, 200_000);
            let n = drawn.len() as f64;
            let mean = drawn.iter().map(|x| *x as f64).sum::<f64>() / n;
            let variance = drawn.iter().map(|x| (*x as f64 - mean) * (*x as f64 - mean)).sum::<f64>() / n;
            // Rounding to whole bytes shifts a mean by less than half a byte.
            let bound = 5.0 * libm::sqrt(variance / n) + 0.5;
            assert!((mean - size.mean()).abs() <= bound, "{size:?}: {mean} drawn, {} stated", size.mean());
        }
    }

    /// Worked by hand: 5000 * .15 + 15000 * .05 + 25000 * .1 and so on.
    #[test]
    fn the_shipped_distributions_have_their_means() {
        let web_search = [750, 750, 2_500, 4_000, 8_450, 9_800, 60_000, 150_000, 350_000, 525_000, 600_000];
        let data_mining = [9, 20, 39, 73, 100, 149, 252, 658, 20_500, 89_000, 2_063_200, 5_500_000];
        for (text, by_hand, rounded) in [(WEB_SEARCH, &web_search[..], 0.5), (DATA_MINING, &data_mining[..], 6.0)] {
            let size = Size::Empirical(points(text));
            assert!((size.mean() - by_hand.iter().sum::<i32>() as f64).abs() < rounded, "{}", size.mean());
            assert_eq!(size.check(), Ok(()));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn half_of_lognormal_draws_lie_below_the_median_and_68_percent_within_a_sigma() {
        let drawn = draws(&Size::Lognormal(10_000.0, 0.7, u64::MAX), 100_000);
        let share = |low: f64, high: f64| drawn.iter().filter(|x| (low..high).contains(&(**x as f64))).count();
        let sigma = libm::exp(0.7);
        // Five standard deviations of binomials with n = 1e5 are 791 (p = 1/2) and 736 (p = 0.6827).
        assert!(share(0.0, 10_000.0).abs_diff(50_000) < 791);
        assert!(share(10_000.0 / sigma, 10_000.0 * sigma).abs_diff(68_269) < 736);
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn draws_follow_their_cumulative_distribution() {
        let (min, shape, max) = (1_000.0, 1.2, 10_000_000);
        let pareto = draws(&Size::Pareto(min, shape, max), 100_000);
        assert!(pareto.iter().all(|x| (1_000..=max).contains(x)));
        let web = draws(&Size::Empirical(points(WEB_SEARCH)), 100_000);
        let below = |drawn: &[u64], x: f64| drawn.iter().filter(|d| **d as f64 <= x).count() as f64 / 1e5;
        let bounded = 1.0 - libm::pow(min / max as f64, shape);
        for x in [1_100.0, 2_000.0, 10_000.0, 1e6] {
            let f = (1.0 - libm::pow(min / x, shape)) / bounded;
            assert!((below(&pareto, x) - f).abs() < 5.0 * libm::sqrt(f * (1.0 - f) / 1e5), "{x}");
        }
        for (x, f) in points(WEB_SEARCH).into_iter().chain([(65_000, 0.465)]) {
            assert!((below(&web, x as f64) - f).abs() <= 5.0 * libm::sqrt(f * (1.0 - f) / 1e5), "{x}");
        }
    }

    #[test]
    fn sizes_repeat_with_their_stream_and_are_never_empty() {
        let size = Size::Lognormal(1.0, 3.0, 100);
        assert_eq!(draws(&size, 100), draws(&size, 100));
        assert!(draws(&size, 1_000).iter().all(|x| (1..=100).contains(x)));
        assert!(draws(&Size::Empirical(vec![(0, 0.0), (2, 1.0)]), 100).iter().all(|x| (1..=2).contains(x)));
    }

    /// Fixes the bits: whoever changes the arithmetic changes everybody's results.
    #[test]
    fn the_first_draws_are_known() {
        let first = |size: Size| draws(&size, 3);
        let known = [
            first(Size::Lognormal(10_000.0, 1.0, 1_000_000)),
            first(Size::Pareto(1_000.0, 1.2, 1_000_000)),
            first(Size::Empirical(points(WEB_SEARCH))),
        ];
        assert_eq!(known, [[21_062, 13_012, 4_246], [1_715, 1_130, 1_915], [67_679, 9_094, 99_936]].map(Vec::from));
    }
}
