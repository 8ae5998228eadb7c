//! Verdicts by figures of several seeds, as docs/evaluate.md states them.

use crate::criteria::{Bound, Check, Form};
use crate::figures::{Run, mean};

/// A difference smaller than this part of a figure is none: 1000 ms are not worse than 999.
const MARGIN: f64 = 0.05;

/// A verdict, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The mean over the seeds meets the threshold.
    Passes,
    /// It does not, but a deployed algorithm does no better, or the seeds leave it open.
    MustBeLookedAt,
    /// It does not, and the best seed is worse, by more than 5 %, than the worst seed of every deployed algorithm.
    WorseThanEveryDeployed,
    /// The algorithm panicked, asked for a window of 0 or without end, sent without end, or delivered nothing.
    DoesNotRun,
}

impl Verdict {
    /// The verdict in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::MustBeLookedAt => "must be looked at",
            Self::WorseThanEveryDeployed => "worse than every deployed one",
            Self::DoesNotRun => "does not run",
        }
    }

    /// True if [`crate::Report::assert_no_worse`] fails for it.
    pub const fn fails(self) -> bool {
        matches!(self, Self::WorseThanEveryDeployed | Self::DoesNotRun)
    }
}

/// The value of a check in a run, with the run without the algorithm for harm.
pub(crate) fn measure(check: &Check, run: &Run, alone: Option<&Run>) -> Option<f64> {
    let value = run.value(check.figure, &check.of)?;
    match check.form {
        Form::Value => Some(value),
        Form::Share => run.value(check.figure, "").filter(|all| *all != 0.0).map(|all| value / all),
        Form::Harm => {
            let without = alone?.value(check.figure, &check.of).filter(|without| *without != 0.0)?;
            if check.figure.less_is_better() {
                (value != 0.0).then(|| 1.0 - without / value)
            } else {
                Some(1.0 - value / without)
            }
        }
    }
}

/// A value as a cost, of which less is better; what has no value is worst.
fn cost(check: &Check, value: Option<f64>) -> f64 {
    value.map_or(f64::INFINITY, |value| if check.less() { value } else { -value })
}

fn costs(check: &Check, values: &[Option<f64>]) -> Vec<f64> {
    values.iter().map(|value| cost(check, *value)).collect()
}

/// The threshold in the figure's unit: as it stands, or from the worst deployed algorithm; infinite where that has no
/// value.
pub(crate) fn threshold<'a>(check: &Check, deployed: impl Iterator<Item = &'a [Option<f64>]>) -> f64 {
    match check.bound {
        Bound::AtMost(bound) | Bound::AtLeast(bound) => bound,
        Bound::NoWorse(factor) => {
            let means = deployed.filter_map(|values| mean(&costs(check, values)));
            let worst = means.fold(f64::NEG_INFINITY, f64::max);
            if check.less() { worst * factor } else { -worst / factor }
        }
    }
}

/// The verdict on a figure: `mine` by seed, and the same of each deployed algorithm.
pub(crate) fn judge<'a>(
    check: &Check,
    mine: &[Option<f64>],
    deployed: impl Iterator<Item = &'a [Option<f64>]> + Clone,
) -> Verdict {
    let own = costs(check, mine);
    let bound = cost(check, Some(threshold(check, deployed.clone())));
    if mean(&own).is_some_and(|mean| mean <= bound) {
        return Verdict::Passes;
    }
    let best = own.into_iter().fold(f64::INFINITY, f64::min);
    let others = deployed.flat_map(|values| costs(check, values)).reduce(f64::max);
    let worst_of_others = others.unwrap_or(f64::INFINITY);
    if best > worst_of_others + MARGIN * worst_of_others.abs() {
        Verdict::WorseThanEveryDeployed
    } else {
        Verdict::MustBeLookedAt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figure;

    fn check(figure: Figure, bound: Bound) -> Check {
        Check { figure, of: String::new(), form: Form::Value, bound, source: String::new() }
    }

    fn verdict(check: &Check, mine: &[Option<f64>], deployed: &[&[Option<f64>]]) -> Verdict {
        judge(check, mine, deployed.iter().copied())
    }

    #[test]
    fn a_figure_is_worse_only_if_its_best_seed_is() {
        let delay = check(Figure::QueueDelayP95, Bound::AtMost(100.0));
        let deployed: &[&[_]] = &[&[Some(110.0), Some(120.0)], &[Some(20.0), Some(30.0)]];
        assert_eq!(verdict(&delay, &[Some(90.0), Some(105.0)], deployed), Verdict::Passes);
        assert_eq!(verdict(&delay, &[Some(500.0), Some(120.0)], deployed), Verdict::MustBeLookedAt);
        // 126 is 5 % more than the worst seed of the worst deployed algorithm.
        assert_eq!(verdict(&delay, &[Some(500.0), Some(126.0)], deployed), Verdict::MustBeLookedAt);
        assert_eq!(verdict(&delay, &[Some(500.0), Some(126.1)], deployed), Verdict::WorseThanEveryDeployed);
        assert_eq!(verdict(&delay, &[None, None], deployed), Verdict::WorseThanEveryDeployed);
    }

    #[test]
    fn more_is_better_the_other_way_round() {
        let used = check(Figure::Utilization, Bound::AtLeast(0.75));
        let deployed: &[&[_]] = &[&[Some(0.7)], &[Some(0.95)]];
        assert_eq!(verdict(&used, &[Some(0.75)], deployed), Verdict::Passes);
        assert_eq!(verdict(&used, &[Some(0.68)], deployed), Verdict::MustBeLookedAt);
        assert_eq!(verdict(&used, &[Some(0.6)], deployed), Verdict::WorseThanEveryDeployed);
    }

    #[test]
    fn a_relative_threshold_is_that_of_the_worst_deployed_one() {
        let deployed: [&[Option<f64>]; 2] = [&[Some(40.0), Some(50.0)], &[Some(20.0), Some(30.0)]];
        let goodput = check(Figure::Goodput, Bound::NoWorse(1.25));
        assert_eq!(threshold(&goodput, deployed.into_iter()).to_bits(), 20.0f64.to_bits());
        let loss = check(Figure::Loss, Bound::NoWorse(1.25));
        assert_eq!(threshold(&loss, deployed.into_iter()).to_bits(), 56.25f64.to_bits());
    }
}
