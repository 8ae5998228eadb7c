//! Named random streams: each user of random numbers has its own stream of the seed, so that a new user changes no
//! others' numbers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A deterministic stream of random numbers (xoshiro256++).
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The stream called `name` under `seed`: same seed and name, same numbers, on every machine.
    pub fn stream(seed: u64, name: &str) -> Self {
        // FNV-1a spreads the name; seed_from_u64 runs SplitMix64 over the mixture.
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        Self(Xoshiro256PlusPlus::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Uniform over all 64-bit integers.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`; never for `p <= 0`, always for `p >= 1`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_name_and_seed() {
        let take = |seed, name| -> Vec<u64> {
            let mut rng = Rng::stream(seed, name);
            (0..4).map(|_| rng.next_u64()).collect()
        };
        assert_eq!(take(1, "loss/a"), take(1, "loss/a"));
        assert_ne!(take(1, "loss/a"), take(1, "loss/b"));
        assert_ne!(take(1, "loss/a"), take(2, "loss/a"));
    }

    /// The published 64-bit FNV-1a of "foobar" is 0x85944171f73967e8.
    #[test]
    fn a_stream_begins_with_the_hash_of_its_name() {
        let mut expected = Xoshiro256PlusPlus::seed_from_u64(0x8594_4171_f739_67e8);
        assert_eq!(Rng::stream(0, "foobar").next_u64(), expected.next_u64());
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn chance_comes_true_as_often_as_it_says() {
        let mut rng = Rng::stream(7, "chance");
        let hits = (0..100_000).filter(|_| rng.chance(0.25)).count();
        // Four standard deviations of a binomial with n = 1e5 and p = 1/4 are 548.
        assert!((24_452..25_548).contains(&hits), "{hits}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn numbers_below_reach_every_one_equally_often() {
        let mut rng = Rng::stream(7, "below");
        let mut seen = [0; 6];
        (0..60_000).for_each(|_| seen[rng.below(6) as usize] += 1);
        // Five standard deviations of a binomial with n = 6e4 and p = 1/6 are 456.
        assert!(seen.iter().all(|n| (9_544..10_456).contains(n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn the_unit_interval_is_filled_and_its_end_left_out() {
        let mut rng = Rng::stream(7, "unit");
        let drawn: Vec<f64> = (0..10_000).map(|_| rng.unit()).collect();
        assert!(drawn.iter().all(|x| (0.0..1.0).contains(x)));
        // Five standard deviations of the mean of 1e4 uniform numbers are 0.0144.
        assert!((drawn.iter().sum::<f64>() / 1e4 - 0.5).abs() < 0.0144);
        assert!(drawn.iter().all(|x| (x * 2f64.powi(53)).fract() == 0.0));
        assert!((0..1_000).all(|_| !rng.chance(0.0) && rng.chance(1.0)));
    }
}
