//! For tests of registries: spread-out values, parameters anywhere in their ranges, and the run over all entries.
//!
//! Behind the feature `testing`, which the crates with registries ask for in their tests.

use crate::{Bytes, Kind, Param, Params, Rate, Rng, Time, Value};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Where in its range a parameter is taken: how (0 least, 1 greatest, 2 and 3 the default, else by the noise), noise.
pub type Pick = (u8, u64);

/// Spread evenly over orders of magnitude from 1 to 2^`bits`.
pub fn log_uniform(bits: u32) -> impl Strategy<Value = u64> + Clone {
    (0..bits, any::<u64>()).prop_map(|(exponent, noise)| (1 << exponent) | (noise & ((1 << exponent) - 1)))
}

/// For [`params`]: in half of the cases the defaults.
pub fn picks() -> impl Strategy<Value = Vec<Pick>> {
    prop_oneof![Just(vec![]), prop::collection::vec((0u8..8, any::<u64>()), 1..32)]
}

/// The parameters that `picks` ask for, in turn; without any the defaults.
///
/// # Panics
/// Where a declaration contradicts itself.
pub fn params(declared: &[Param], picks: &[Pick]) -> Params {
    if picks.is_empty() {
        return Params::defaults(declared);
    }
    let given = declared.iter().enumerate().map(|(i, param)| (param.name, value(param, picks[i % picks.len()])));
    Params::resolve(declared, given).expect("values within the declared ranges")
}

/// Somewhere in `lo..=hi`: an end, the default, or spread over the orders of magnitude between.
fn whole(pick: u8, noise: u64, lo: u64, default: u64, hi: u64) -> u64 {
    match pick {
        0 => lo,
        1 => hi,
        2 | 3 => default,
        _ => {
            let span = (hi - lo).max(1);
            let top = 1u64.checked_shl((noise >> 58) as u32 % (span.ilog2() + 1)).unwrap_or(1);
            lo + ((noise & (2 * top - 1)).min(hi - lo))
        }
    }
}

fn value(param: &Param, (pick, noise): (u8, u64)) -> Value {
    match (param.kind, param.min, param.default, param.max) {
        (Kind::Choice(words), ..) => Value::Choice(words[(noise >> 32) as usize % words.len()]),
        (Kind::Bool, _, default, _) => match pick {
            2 | 3 => default,
            _ => Value::Bool(noise % 2 == 0),
        },
        (_, Value::Time(lo), Value::Time(default), Value::Time(hi)) => {
            Value::Time(Time::from_nanos(whole(pick, noise, lo.as_nanos(), default.as_nanos(), hi.as_nanos())))
        }
        (_, Value::Rate(lo), Value::Rate(default), Value::Rate(hi)) => {
            Value::Rate(Rate::from_bps(whole(pick, noise, lo.as_bps(), default.as_bps(), hi.as_bps())))
        }
        (_, Value::Bytes(lo), Value::Bytes(default), Value::Bytes(hi)) => {
            Value::Bytes(Bytes(whole(pick, noise, lo.0, default.0, hi.0)))
        }
        (_, Value::Count(lo), Value::Count(default), Value::Count(hi)) => {
            Value::Count(whole(pick, noise, lo, default, hi))
        }
        (_, Value::Ratio(lo), Value::Ratio(default), Value::Ratio(hi)) => Value::Ratio(match pick {
            0 => lo,
            1 => hi,
            2 | 3 => default,
            _ => lo + (hi - lo) * (noise >> 11) as f64 / (1u64 << 53) as f64,
        }),
        other => panic!("`{}` is declared as {other:?}", param.name),
    }
}

/// Runs `check` on random cases for each of the named `entries`, or for those that the environment's `variable` lists.
///
/// The same cases every time: a failure is there for everybody. A failing one is made smaller in `shrinks` steps.
///
/// # Panics
/// With all failures, one per entry.
pub fn fuzz<E, S>(
    variable: &str,
    entries: &[(&str, E)],
    shrinks: u32,
    case: impl Fn() -> S,
    check: impl Fn(&E, S::Value) -> Result<(), TestCaseError>,
) where
    S: Strategy,
    S::Value: Debug,
{
    let wanted = std::env::var(variable).ok();
    let wanted = |name: &str| wanted.as_ref().is_none_or(|list| list.split(',').any(|w| w == name));
    let mut failures = Vec::new();
    for (name, entry) in entries.iter().filter(|(name, _)| wanted(name)) {
        let config = Config { failure_persistence: None, max_shrink_iters: shrinks, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        match runner.run(&case(), |value| check(entry, value)) {
            Ok(()) => {}
            Err(TestError::Fail(why, value)) => failures.push(format!("{name}: {why}\n  {value:?}")),
            Err(TestError::Abort(why)) => failures.push(format!("{name}: {why}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Bytes that a case may use beyond those given: more than any needs.
const TAIL: usize = 1 << 16;

/// The case that these bytes stand for: wherever `case` would draw at random it takes the next of them, and once there are
/// no more the same random ones for all. So a fuzzer that knows nothing but bytes finds its way into cases. None: `case`
/// refuses them.
pub fn from_bytes<S: Strategy>(case: &S, bytes: &[u8]) -> Option<S::Value> {
    let mut tail = Rng::stream(0, "tail");
    let mut all = bytes.to_vec();
    // Zeros, which would come next, are drawn again for ever where a range is no power of two.
    all.extend((0..TAIL / 8).flat_map(|_| tail.next_u64().to_le_bytes()));
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::PassThrough, &all);
    case.new_tree(&mut TestRunner::new_with_rng(config, rng)).ok().map(|tree| tree.current())
}

/// Checks what a registry declares (name, what it does, source, parameters): no name twice, nothing empty, defaults
/// within their ranges.
///
/// # Panics
/// With the first fault.
pub fn assert_declared<'a>(entries: impl Iterator<Item = (&'a str, &'a str, &'a str, &'a [Param])>) {
    let mut names = BTreeSet::new();
    for (name, about, source, declared) in entries {
        assert!(names.insert(name), "{name} is listed twice");
        assert!(!about.is_empty() && !source.is_empty(), "{name}");
        let mut params = BTreeSet::new();
        for param in declared {
            assert!(params.insert(param.name), "{name}: {} is declared twice", param.name);
            assert!(!param.source.is_empty() && !param.about.is_empty(), "{name}: {}", param.name);
            let default = Params::resolve(declared, [(param.name, param.default)]);
            assert!(default.is_ok(), "{name}: {default:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_one_entry_is_found_and_named() {
        let entries = [("sound", 1_000), ("faulty", 10)];
        let found = std::panic::catch_unwind(|| {
            fuzz(
                "KNEE_NO_SUCH_VARIABLE",
                &entries,
                100,
                || 0..500u64,
                |bound, x| {
                    prop_assert!(x < *bound, "too much");
                    Ok(())
                },
            );
        });
        let told = found.unwrap_err().downcast::<String>().unwrap();
        assert!(told.starts_with("faulty: too much") && told.ends_with("\n  10"), "{told}");
    }

    #[test]
    fn bytes_lead_to_cases() {
        let case = (0..10u64, prop::collection::vec(any::<u64>(), 1..4));
        let several: BTreeSet<_> = (0..=255u8).map(|byte| from_bytes(&case, &[byte; 8])).collect();
        assert!(several.len() >= 10 && !several.contains(&None), "{several:?}");
        let [one, again, other] = [[1, 2, 3], [1, 2, 3], [1, 200, 3]].map(|bytes| from_bytes(&any::<u32>(), &bytes));
        assert!(one == again && one != other, "{one:?} {again:?} {other:?}");
    }

    proptest! {
        #[test]
        fn picked_values_are_within_the_declared_range(picks in picks()) {
            let declared = [
                Param::time("t", Time::from_millis(5), (Time::ZERO, Time::from_secs(9)), "s", "a"),
                Param::count("n", 7, (7, 7), "s", "a"),
                Param::ratio("r", 0.5, (0.25, 4.0), "s", "a"),
            ];
            let params = params(&declared, &picks);
            prop_assert!(params.time("t") <= Time::from_secs(9));
            prop_assert_eq!(params.count("n"), 7);
            prop_assert!((0.25..=4.0).contains(&params.ratio("r")));
        }
    }
}
