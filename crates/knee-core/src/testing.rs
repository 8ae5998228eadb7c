//! For tests of registries: spread-out values, parameters anywhere in their ranges, and the run over all entries.
//!
//! Behind the feature `testing`, which the crates with registries ask for in their tests.

#![allow(clippy::cast_possible_truncation, reason = "random numbers are cut on purpose")]

use crate::{Bytes, Kind, Param, Params, Rate, Time, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::{iter, thread};

/// Where in its range a parameter is taken: how (0 least, 1 greatest, 2 and 3 the default, else by the noise), noise.
pub type Pick = (u8, u64);

/// Bytes out of which random cases are made, by proptest or by a fuzzer that watches what they reach; zeros follow the
/// last.
///
/// Draws take few bytes, and always the same number: so a fuzzer that changes one changes one thing.
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// A source that draws from these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True if all bytes have been drawn.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rest.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number of `count` bytes, at most eight.
    pub fn bytes(&mut self, count: u32) -> u64 {
        (0..count).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A number from 0 to below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        let bits = u64::BITS - (end - 1).leading_zeros();
        self.bytes(bits.div_ceil(8)) % end
    }

    /// From `from` to below `end`.
    pub fn range(&mut self, from: u64, end: u64) -> u64 {
        from + self.below(end - from)
    }

    /// Spread evenly over orders of magnitude from 1 to 2^`bits`.
    pub fn log_uniform(&mut self, bits: u32) -> u64 {
        let exponent = self.below(u64::from(bits));
        (1 << exponent) | (self.bytes(bits.div_ceil(8)) & ((1 << exponent) - 1))
    }

    /// True with a probability of `in_256` / 256.
    pub fn chance(&mut self, in_256: u8) -> bool {
        self.byte() < in_256
    }

    /// One of `things`.
    ///
    /// # Panics
    /// Where there are none.
    pub fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len() as u64) as usize]
    }

    /// Something in half of the cases.
    pub fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(128).then(|| some(self))
    }

    /// An index into `weights`, each as likely as it weighs: 256 in all at the most.
    pub fn weighted(&mut self, weights: &[u8]) -> usize {
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let mut place = u64::from(self.byte()) % sum.max(1);
        let found = weights.iter().position(|weight| {
            let found = place < u64::from(*weight);
            place = place.wrapping_sub(u64::from(*weight));
            found
        });
        found.unwrap_or(0)
    }

    /// For [`params`]: in half of the cases the defaults.
    pub fn picks(&mut self) -> Vec<Pick> {
        let count = if self.chance(128) { 0 } else { self.range(1, 32) };
        (0..count).map(|_| (self.below(8) as u8, self.bytes(8))).collect()
    }
}

/// The parameters that `picks` ask for, in turn; without any the defaults.
///
/// # Panics
/// Where a declaration contradicts itself.
pub fn params(declared: &[Param], picks: &[Pick]) -> Params {
    Params::resolve(declared, values(declared, picks)).expect("values within the declared ranges")
}

/// The values that `picks` ask for, as a scenario would give them: pairs of name and value; none without picks.
///
/// # Panics
/// Where a declaration contradicts itself.
pub fn values(declared: &[Param], picks: &[Pick]) -> Vec<(&'static str, Value)> {
    if picks.is_empty() {
        return Vec::new();
    }
    declared.iter().enumerate().map(|(i, param)| (param.name, value(param, picks[i % picks.len()]))).collect()
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
            lo + ((noise & (top | (top - 1))).min(hi - lo))
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

/// Runs `check` on random bytes, `most` at the most, for each of the named `entries`, or for those that the environment
/// variable `listed_in` lists, if there is one.
///
/// The bytes are the same every time: a failure is there for everybody. Failing ones are made fewer in `shrinks` steps.
///
/// # Panics
/// With all failures, one per entry; or where the variable lists a name that no entry has.
pub fn fuzz<E: Sync>(
    listed_in: Option<&str>,
    entries: &[(&str, E)],
    shrinks: u32,
    most: usize,
    check: impl Fn(&E, &[u8]) -> Result<(), TestCaseError> + Sync,
) {
    let list = listed_in.and_then(|variable| std::env::var(variable).ok());
    let wanted = listed(entries, list.as_deref());
    let failure = |(name, entry): &(&str, E)| {
        let config = Config { failure_persistence: None, max_shrink_iters: shrinks, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        match runner.run(&prop::collection::vec(any::<u8>(), 0..most), |bytes| check(entry, &bytes)) {
            Ok(()) => None,
            Err(TestError::Fail(why, bytes)) => Some(format!("{name}: {why}\n  {bytes:?}")),
            Err(TestError::Abort(why)) => Some(format!("{name}: {why}")),
        }
    };
    // Entries share nothing, and some take a hundred times as long as others: each thread takes the next one.
    let next = AtomicUsize::new(0);
    let work = || iter::from_fn(|| wanted.get(next.fetch_add(1, Relaxed))).filter_map(|entry| failure(entry)).collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let failures: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| -> Vec<_> { worker.join().expect("a panic is a failed case") }).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The `entries` whose names are in `list`, separated by commas; all where there is no list.
fn listed<'a, 'b, E>(entries: &'a [(&'b str, E)], list: Option<&str>) -> Vec<&'a (&'b str, E)> {
    let Some(list) = list else { return entries.iter().collect() };
    for name in list.split(',') {
        assert!(entries.iter().any(|(known, _)| *known == name), "there is no `{name}`");
    }
    entries.iter().filter(|(name, _)| list.split(',').any(|listed| listed == *name)).collect()
}

/// The inputs that the fuzzer's target `name` keeps in the repository, each with its file's name.
///
/// # Panics
/// Where they cannot be read, or there are none.
pub fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut inputs: Vec<_> = files
        .map(|file| {
            let path = file.expect("a file of the corpus").path();
            (path.display().to_string(), std::fs::read(&path).expect("a file of the corpus"))
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{folder} is empty");
    inputs
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
        // So that the shell and `fuzz`, given this name alone, try this entry alone.
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+.".contains(&byte)), "{name}");
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
            fuzz(None, &entries, 1_000, 9, |bound, bytes| {
                prop_assert!(Source::new(bytes).below(500) < *bound, "too much");
                Ok(())
            });
        });
        let told = found.unwrap_err().downcast::<String>().unwrap();
        assert!(told.starts_with("faulty: too much") && !told.contains("sound"), "{told}");
    }

    #[test]
    fn a_list_of_names_picks_these_entries() {
        let entries = [("fq", 1), ("fq_codel", 2), ("dualpi2", 3)];
        let picked = |list| listed(&entries, list).into_iter().map(|(_, entry)| *entry).collect::<Vec<_>>();
        assert_eq!(entries.map(|(name, _)| picked(Some(name))), [[1], [2], [3]]);
        assert_eq!((picked(None), picked(Some("dualpi2,fq"))), (vec![1, 2, 3], vec![1, 3]));
        let unknown = std::panic::catch_unwind(|| picked(Some("fq,codel"))).unwrap_err();
        assert_eq!(*unknown.downcast::<String>().unwrap(), "there is no `codel`");
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn what_is_drawn_is_within_its_bounds_and_all_of_it_is_reached() {
        let mut seen = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        let mut rng = crate::Rng::stream(1, "source");
        for _ in 0..10_000 {
            let bytes = rng.next_u64().to_le_bytes();
            seen[0].insert(Source::new(&bytes).range(3, 8));
            seen[1].insert(Source::new(&bytes).weighted(&[1, 0, 3]) as u64);
            seen[2].insert(u64::from(Source::new(&bytes).log_uniform(40).ilog2()));
            seen[3].insert(Source::new(&bytes).one_of(&[7u64, 9]));
        }
        assert_eq!(seen, [(3..8).collect(), BTreeSet::from([0, 2]), (0..40).collect(), BTreeSet::from([7u64, 9])]);
        let mut none = Source::new(&[]);
        assert_eq!((none.below(9), none.log_uniform(9), none.maybe(Source::byte)), (0, 1, Some(0)));
        assert!(none.is_empty() && none.picks().is_empty());
    }

    proptest! {
        #[test]
        fn picked_values_are_within_the_declared_range(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let picks = Source::new(&bytes).picks();
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
