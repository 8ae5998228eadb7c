//! Sets of numbers as ranges: packets that arrived, bytes that were delivered or have to be sent again.

use smallvec::SmallVec;
use std::iter;

pub use knee_tcp::receiver::Range;

/// Ranges stored inline.
const INLINE: usize = 3;

/// A set of numbers as ranges, ascending and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(SmallVec<[Range; INLINE]>);

impl Ranges {
    /// The ranges.
    pub fn as_slice(&self) -> &[Range] {
        &self.0
    }

    /// True if there is no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The least number.
    pub fn first(&self) -> Option<u64> {
        self.0.first().map(|range| range.0)
    }

    /// The greatest number.
    pub fn last(&self) -> Option<u64> {
        self.0.last().map(|range| range.1 - 1)
    }

    /// True if `n` is in it.
    pub fn contains(&self, n: u64) -> bool {
        self.0.get(self.behind(n)).is_some_and(|range| range.0 <= n)
    }

    /// The first number from `n` on that is missing.
    #[inline]
    pub fn first_missing(&self, n: u64) -> u64 {
        self.0.get(self.behind(n)).filter(|range| range.0 <= n).map_or(n, |range| range.1)
    }

    /// The index of the first range that ends behind `n`.
    #[inline]
    fn behind(&self, n: u64) -> usize {
        // Mostly the question is of the last range.
        match self.0.last() {
            Some(last) if last.0 <= n => self.0.len() - usize::from(last.1 > n),
            _ => self.0.partition_point(|range| range.1 <= n),
        }
    }

    /// Adds the numbers from `from` to before `to`. Gives how many of them are new.
    #[inline]
    pub fn insert(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        if let Some(last) = self.0.last_mut().filter(|last| last.1 == from) {
            last.1 = to;
            return to - from;
        }
        self.insert_elsewhere(from, to)
    }

    /// The same where the numbers do not continue the last range.
    fn insert_elsewhere(&mut self, from: u64, to: u64) -> u64 {
        let start = self.0.partition_point(|range| range.1 < from);
        let end = self.0.partition_point(|range| range.0 <= to);
        let touched = &self.0[start..end];
        let known: u64 = touched.iter().map(|range| range.1.min(to).saturating_sub(range.0.max(from))).sum();
        match (touched.first(), touched.last()) {
            (Some(first), Some(last)) => {
                self.0[start] = (first.0.min(from), last.1.max(to));
                // An empty drain would move all behind it onto itself.
                if start + 1 < end {
                    self.0.drain(start + 1..end);
                }
            }
            _ => self.0.insert(start, (from, to)),
        }
        to - from - known
    }

    /// Removes the numbers from `from` to before `to`.
    pub fn remove(&mut self, from: u64, to: u64) {
        if self.is_empty() {
            return;
        }
        let start = self.0.partition_point(|range| range.1 <= from);
        let end = self.0.partition_point(|range| range.0 < to);
        if from >= to || start >= end {
            return;
        }
        let (head, tail) = ((self.0[start].0, from), (to, self.0[end - 1].1));
        // The remaining ones take the place of the first.
        let mut kept = start;
        for rest in [head, tail].into_iter().filter(|rest| rest.0 < rest.1) {
            if kept < end {
                self.0[kept] = rest;
            } else {
                self.0.insert(kept, rest);
            }
            kept += 1;
        }
        if kept < end {
            self.0.drain(kept..end);
        }
    }

    /// Drops the range of the least numbers. Gives the number behind it.
    pub fn drop_first(&mut self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.remove(0).1)
    }

    /// The ranges from `from` to before `to` that are missing.
    pub fn gaps(&self, from: u64, to: u64) -> impl Iterator<Item = Range> + '_ {
        let mut at = from;
        iter::from_fn(move || {
            let start = self.first_missing(at);
            let end = self.0.get(self.behind(start)).map_or(to, |range| range.0.min(to));
            at = end;
            (start < to).then_some((start, end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// A set of single numbers is the oracle.
        #[test]
        fn ranges_are_a_set_of_numbers(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..40)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (adds, from, count) in steps {
                let numbers = from..from + count;
                if adds {
                    let new = numbers.clone().filter(|n| set.insert(*n)).count() as u64;
                    prop_assert_eq!(ranges.insert(from, from + count), new);
                } else {
                    set.retain(|n| !numbers.contains(n));
                    ranges.remove(from, from + count);
                }
                let listed: Vec<u64> = ranges.as_slice().iter().flat_map(|range| range.0..range.1).collect();
                prop_assert_eq!(&listed, &set.iter().copied().collect::<Vec<_>>());
                prop_assert!(ranges.as_slice().windows(2).all(|pair| pair[0].1 < pair[1].0), "apart");
                let missing: Vec<u64> = ranges.gaps(5, 50).flat_map(|range| range.0..range.1).collect();
                prop_assert_eq!(missing, (5..50).filter(|n| !set.contains(n)).collect::<Vec<_>>());
                prop_assert!((0..80).all(|n| ranges.contains(n) == set.contains(&n)));
                prop_assert_eq!((ranges.first(), ranges.last()), (set.first().copied(), set.last().copied()));
            }
        }
    }

    #[test]
    fn the_least_range_is_dropped_with_the_number_behind_it() {
        let mut ranges = Ranges::default();
        ranges.insert(3, 5);
        ranges.insert(8, 9);
        assert_eq!(
            (ranges.len(), ranges.drop_first(), ranges.drop_first(), ranges.drop_first()),
            (2, Some(5), Some(9), None)
        );
    }
}
