//! Random loss before a queue: packet by packet, or in bursts.
//!
//! `gilbert-elliott` is a chain of two states that takes a step with each packet; each state has a loss probability of
//! its own.
//!
//! ```text
//!            p
//!   good ─────────► bad      loss rate    = (r loss_good + p loss_bad) / (p + r)
//!        ◄─────────          packets spent in bad at a time, on average = 1 / r
//!            r
//! ```
//!
//! Sources: E. N. Gilbert, "Capacity of a Burst-Noise Channel", Bell System Technical Journal 39 (1960), where
//! `loss_good` is 0; E. O. Elliott, "Estimates of Error Rates for Codes on Burst-Noise Channels", the same 42 (1963),
//! where it need not be. Linux's netem has it as `loss gemodel p r 1-h 1-k`: its `1-h` is `loss_bad`, its `1-k` is
//! `loss_good` (tc-netem(8)).

use crate::entry::Choice;
use crate::recorded::Recorded;
use knee_core::{Params, Rng, Time, params};

/// Random loss of each packet by itself, with the probability `loss` of the link.
pub const RANDOM: Choice = Choice {
    name: "random",
    about: "each packet is lost by itself, with the link's probability loss",
    source: "Linux netem",
    params: &[],
};

/// Loss in bursts.
pub const GILBERT_ELLIOTT: Choice = Choice {
    name: "gilbert-elliott",
    about: "loss in bursts: a good and a bad state, each with a loss probability of its own",
    source: "Gilbert 1960, Elliott 1963; Linux netem's gemodel",
    params: GilbertElliott::DECLARED,
};

params! {
    /// The chain of `gilbert-elliott`.
    struct GilbertElliott {
        /// probability of the step from good to bad, per packet
        p: f64 = 0.01, in 0.0..=1.0, from "ours: with r a loss rate of 2.9 %";
        /// probability of the step from bad to good, per packet; bursts last 1/r packets
        r: f64 = 1.0 / 3.0, in 0.0..=1.0, from "ours: bursts of three packets";
        /// loss probability in the good state
        loss_good: f64 = 0.0, in 0.0..=1.0, from "Gilbert 1960; netem's default of 1-k";
        /// loss probability in the bad state
        loss_bad: f64 = 1.0, in 0.0..=1.0, from "netem's default of 1-h";
    }
}

/// Random loss before a queue.
#[derive(Clone)]
pub struct Loss {
    kind: LossModel,
    rng: Rng,
}

#[derive(Clone)]
enum LossModel {
    None,
    Random(f64),
    GilbertElliott { chain: GilbertElliott, bad: bool },
    Recorded(Recorded<f64>),
}

impl Loss {
    /// No loss until a probability is set.
    pub const fn none(rng: Rng) -> Self {
        Self { kind: LossModel::None, rng }
    }

    /// The model called `name`, with its parameters; none of that name: `None`.
    pub fn model(name: &str, params: &Params, rng: Rng) -> Option<Self> {
        let kind = match name {
            "random" => LossModel::None,
            "gilbert-elliott" => LossModel::GilbertElliott { chain: params.into(), bad: false },
            _ => return None,
        };
        Some(Self { kind, rng })
    }

    /// Each packet is lost by itself, with the probability recorded for its time.
    pub const fn recorded(probabilities: Recorded<f64>, rng: Rng) -> Self {
        Self { kind: LossModel::Recorded(probabilities), rng }
    }

    /// Each packet is lost by itself with this probability from now on.
    pub fn set_probability(&mut self, probability: f64) {
        self.kind = if probability > 0.0 { LossModel::Random(probability) } else { LossModel::None };
    }

    /// Returns true if nothing is lost.
    #[inline]
    pub(crate) const fn is_none(&self) -> bool {
        matches!(self.kind, LossModel::None)
    }

    /// Returns true if the packet that arrives `now` is lost.
    pub(crate) fn is_lost(&mut self, now: Time) -> bool {
        match &mut self.kind {
            LossModel::None => false,
            LossModel::Random(probability) => self.rng.chance(*probability),
            LossModel::GilbertElliott { chain, bad } => {
                let lost = self.rng.chance(if *bad { chain.loss_bad } else { chain.loss_good });
                *bad ^= self.rng.chance(if *bad { chain.r } else { chain.p });
                lost
            }
            LossModel::Recorded(probabilities) => self.rng.chance(probabilities.get(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Value;

    /// The share of packets lost, and the mean length of a run of losses.
    fn observed(given: &[(&str, f64)], packets: u32) -> (f64, f64) {
        let given = given.iter().map(|(name, value)| (*name, Value::Ratio(*value)));
        let params = Params::resolve(GILBERT_ELLIOTT.params, given).unwrap();
        let mut loss = Loss::model("gilbert-elliott", &params, Rng::stream(7, "loss")).unwrap();
        let (mut lost, mut runs, mut before) = (0u32, 0u32, false);
        for _ in 0..packets {
            let now = loss.is_lost(Time::ZERO);
            lost += u32::from(now);
            runs += u32::from(now && !before);
            before = now;
        }
        (f64::from(lost) / f64::from(packets), f64::from(lost) / f64::from(runs))
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn bursts_and_the_loss_rate_are_those_of_the_chain() {
        // Gilbert's simple model: all is lost in the bad state, nothing in the good one. The rate is p / (p + r), a
        // burst has 1 / r packets. Some 20,000 bursts make the standard error of both less than 1 %.
        for (p, r) in [(0.01, 1.0 / 3.0), (0.02, 0.1), (0.05, 0.9)] {
            let (rate, burst) = observed(&[("p", p), ("r", r)], 2_000_000);
            assert!((rate / (p / (p + r)) - 1.0).abs() < 0.03, "{rate} for p = {p}, r = {r}");
            assert!((burst * r - 1.0).abs() < 0.03, "{burst} for r = {r}");
        }
        // Elliott's: (r loss_good + p loss_bad) / (p + r) = (0.1 x 0.001 + 0.02 x 0.5) / 0.12.
        let (rate, _) = observed(&[("p", 0.02), ("r", 0.1), ("loss_good", 0.001), ("loss_bad", 0.5)], 2_000_000);
        assert!((rate / 0.084_17 - 1.0).abs() < 0.03, "{rate}");
    }

    #[test]
    fn a_recorded_probability_is_that_of_its_time() {
        let at: Box<[Time]> = [0, 10, 20].map(Time::from_millis).into();
        let recorded = Recorded::new(at, [0.0, 1.0, 0.25].into(), Some(Time::from_millis(40))).unwrap();
        let mut loss = Loss::recorded(recorded, Rng::stream(7, "loss"));
        let mut share = |ms: u64| (0..10_000).filter(|_| loss.is_lost(Time::from_millis(ms))).count();
        assert_eq!([0, 9, 10, 19, 40, 50].map(&mut share), [0, 0, 10_000, 10_000, 0, 10_000]);
        assert!((2300..2700).contains(&share(20)), "a quarter, within six standard deviations");
    }

    #[test]
    fn at_the_ends_of_the_ranges_it_is_certain() {
        assert!(observed(&[("p", 0.0)], 1000).0.abs() < f64::EPSILON, "never in the bad state");
        let (rate, _) = observed(&[("p", 1.0), ("r", 0.0)], 1000);
        assert!((rate - 0.999).abs() < 1e-9, "all but the first");
        let (rate, burst) = observed(&[("p", 1.0), ("r", 1.0)], 1000);
        assert!((rate - 0.5).abs() < 1e-9 && (burst - 1.0).abs() < 1e-9, "every other one");
    }
}
