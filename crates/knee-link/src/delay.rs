//! Random extra delay behind a link: uniform, or by the quantiles of a distribution.
//!
//! A distribution is a table of equally probable values, as in Linux's netem, so that a draw is a look-up. The delay is
//! `mean + deviation × z`, and 0 where that is negative:
//!
//! | model | z |
//! |---|---|
//! | `normal` | standard normal |
//! | `pareto` | (x - 1.5) × 4/3, x Pareto-distributed with scale 1 and shape 3: mean 0, standard deviation 1.15 |
//! | `paretonormal` | a quarter of the first plus three quarters of the second, of one probability |
//!
//! Source: iproute2's netem tables (pareto.c, paretonormal.c), from which the constants are, with their 4096 entries
//! and their limit of 4. `normal` departs from the table there by being symmetric to the last entry.

use crate::entry::Choice;
use knee_core::convert::{index, index_u32, truncated};
use knee_core::{Params, Rng, Time, params};

/// Entries of a table.
const ENTRIES: usize = 4096;
/// Deviations at which netem's tables end, which are 16-bit numbers at a scale of 8192.
const END: f64 = 4.0;

const MOST: Time = Time::from_secs(100);

params! {
    /// The parameters of the distributions.
    struct Moments {
        /// mean of the extra delay, where it is never negative
        mean: Time = Time::from_millis(5), in Time::ZERO..=MOST, from "ours";
        /// its standard deviation, as netem's tables scale it
        deviation: Time = Time::from_millis(1), in Time::ZERO..=MOST, from "ours";
    }
}

/// Uniform from zero to the link's `jitter`.
pub const UNIFORM: Choice =
    Choice { name: "uniform", about: "uniform from zero to the link's jitter", source: "Linux netem", params: &[] };
/// See the module.
pub const NORMAL: Choice = Choice {
    name: "normal",
    about: "normally distributed extra delay",
    source: "Linux netem, distribution normal",
    params: Moments::DECLARED,
};
/// See the module.
pub const PARETO: Choice = Choice {
    name: "pareto",
    about: "extra delay with a long tail: Pareto with shape 3",
    source: "Linux netem, distribution pareto",
    params: Moments::DECLARED,
};
/// See the module.
pub const PARETO_NORMAL: Choice = Choice {
    name: "paretonormal",
    about: "a quarter normal, three quarters Pareto, which resembles measured delays",
    source: "Linux netem, distribution paretonormal",
    params: Moments::DECLARED,
};
/// Values from a file.
pub const TABLE: Choice = Choice {
    name: "table",
    about: "the measured delays of the file delay_table, each equally probable",
    source: "Linux netem, distribution tables",
    params: &[],
};

/// Random extra delay.
#[derive(Clone)]
pub enum Delay {
    /// None.
    None,
    /// Uniform from zero to this.
    Uniform(Time),
    /// These, each equally probable; not empty.
    Table(Box<[Time]>),
}

impl Delay {
    /// Uniform from zero to `jitter`.
    pub const fn uniform(jitter: Time) -> Self {
        if jitter.as_nanos() == 0 { Self::None } else { Self::Uniform(jitter) }
    }

    /// The distribution called `name`, with its parameters; none of that name: `None`.
    pub fn distribution(name: &str, params: &Params) -> Option<Self> {
        let quantile = match name {
            "normal" => normal,
            "pareto" => pareto,
            "paretonormal" => |u| 0.25 * normal(u) + 0.75 * pareto(u),
            _ => return None,
        };
        let Moments { mean, deviation } = params.into();
        let value = |i| {
            let z = quantile((f64::from(i) + 0.5) / ENTRIES as f64).clamp(-END, END);
            Time::from_nanos(truncated(mean.as_nanos() as f64 + deviation.as_nanos() as f64 * z))
        };
        Some(Self::Table((0..index_u32(ENTRIES)).map(value).collect()))
    }

    /// Returns true if there is none.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The delay of the next packet.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> Time {
        match self {
            Self::None => Time::ZERO,
            Self::Uniform(jitter) => Time::from_nanos(rng.below(jitter.as_nanos() + 1)),
            Self::Table(values) => values[index(rng.below(values.len() as u64))],
        }
    }
}

/// Value of the Pareto distribution with scale 1 and shape 3 that is exceeded with probability 1 - u, as netem scales
/// it.
fn pareto(u: f64) -> f64 {
    (libm::pow(1.0 - u, -1.0 / 3.0) - 1.5) * 4.0 / 3.0
}

/// Value that a standard normal variable exceeds with probability 1 - u: bisection of the error function.
fn normal(u: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let below = 0.5 * libm::erfc(-middle / std::f64::consts::SQRT_2);
        if below < u { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Value;

    /// Mean and standard deviation of many draws, in units of `deviation` around `mean`.
    fn moments(model: &Choice, mean_ms: u64) -> (f64, f64) {
        let ms = |n| Value::Time(Time::from_millis(n));
        let params = Params::resolve(model.params, [("mean", ms(mean_ms)), ("deviation", ms(10))]).unwrap();
        let (delay, mut rng) = (Delay::distribution(model.name, &params).unwrap(), Rng::stream(3, "delay"));
        let drawn: Vec<f64> = (0..200_000).map(|_| delay.draw(&mut rng).as_millis_f64()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / drawn.len() as f64;
        ((mean - mean_ms as f64) / 10.0, variance.sqrt() / 10.0)
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn moments_are_those_of_the_distributions_that_netem_has() {
        // The standard error of the mean is 0.0025. The limit of 4 takes from Pareto's tail: beyond x = 4.5 there is
        // 1/91 of the probability, which costs 0.033 x 4/3 / 2 of the mean: the integral of x^-3 from 4.5 is 0.0247.
        let (mean, deviation) = moments(&NORMAL, 100);
        assert!(mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.01, "{mean} {deviation}");
        let (mean, deviation) = moments(&PARETO, 100);
        assert!((mean + 0.033).abs() < 0.01, "{mean}");
        assert!((0.8..1.15).contains(&deviation), "{deviation}: the tail has more than half of the variance");
        let (mean, _) = moments(&PARETO_NORMAL, 100);
        assert!((mean + 0.025).abs() < 0.01, "{mean}");
    }

    #[test]
    fn quantiles_are_the_published_ones() {
        // Standard normal: 97.5 % at 1.959964. Pareto with shape 3: the median is 2^(1/3).
        assert!((normal(0.975) - 1.959_964).abs() < 1e-6 && normal(0.5).abs() < 1e-9);
        assert!((pareto(0.5) - (1.259_921 - 1.5) * 4.0 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn a_normal_table_is_symmetric_around_its_mean() {
        let ms = |n| Value::Time(Time::from_millis(n));
        let params = Params::resolve(NORMAL.params, [("mean", ms(100)), ("deviation", ms(10))]).unwrap();
        let Some(Delay::Table(values)) = Delay::distribution("normal", &params) else { panic!("no table") };
        let sums = values.iter().zip(values.iter().rev()).map(|(low, high)| (*low + *high).as_nanos());
        // Each is rounded down to a nanosecond.
        assert!(sums.into_iter().all(|sum| (199_999_998..=200_000_000).contains(&sum)));
    }

    #[test]
    fn jitter_is_uniform_and_none_where_it_is_zero() {
        let (jitter, mut rng) = (Time::from_nanos(3), Rng::stream(3, "delay"));
        assert!(Delay::uniform(Time::ZERO).is_none() && !Delay::uniform(jitter).is_none());
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[index(Delay::uniform(jitter).draw(&mut rng).as_nanos())] += 1;
        }
        // Four standard deviations of a binomial with n = 4000 and p = 1/4 are 110.
        assert!(counts.iter().all(|count| (890..1110).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_delay_is_never_negative_and_a_table_gives_what_it_has() {
        let ms = |n| Value::Time(Time::from_millis(n));
        let params = Params::resolve(NORMAL.params, [("mean", ms(1)), ("deviation", ms(10))]).unwrap();
        let Some(Delay::Table(values)) = Delay::distribution("normal", &params) else { panic!("no table") };
        assert_eq!((values.len(), values[0]), (4096, Time::ZERO));
        let (table, mut rng) = (Delay::Table([7, 9].map(Time::from_millis).into()), Rng::stream(3, "delay"));
        let drawn: Vec<u64> = (0..1000).map(|_| table.draw(&mut rng).as_nanos() / 1_000_000).collect();
        let sevens = drawn.iter().filter(|ms| **ms == 7).count();
        assert!(drawn.iter().all(|ms| [7, 9].contains(ms)) && (400..600).contains(&sevens), "{sevens}");
    }
}
