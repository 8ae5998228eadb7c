//! The order in time of many bursts that are known at once.

use knee_core::Time;
use std::cmp::Ordering;

/// When a burst comes and which it is, in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    /// The burst at index `i`, of a time less than 2^32 ns after some beginning.
    #[inline]
    pub const fn new(after: Time, i: u32) -> Self {
        Self(after.as_nanos() << 32 | i as u64)
    }

    /// How long after the beginning it comes.
    #[inline]
    pub const fn after(self) -> Time {
        Time::from_nanos(self.0 >> 32)
    }

    /// Its index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// When a burst comes and which it is, and its turn among those of its time.
pub type Turn = (Key, u64);

/// Sorts by time, then by turn, then by place.
///
/// Times are first put into as many stretches as there are bursts, by counting; what is left to do within each is
/// little.
#[derive(Default)]
pub struct Order {
    sorted: Vec<Key>,
    /// Where each stretch begins.
    begins: Vec<u32>,
}

/// So few are sorted as they are.
const FEW: u32 = 64;

impl Order {
    /// The order of bursts, whose indices are their places in `turns`, that all come within `span` or at its end; it is
    /// shorter than 2^32 ns.
    pub fn sort(&mut self, turns: &[Turn], span: Time) -> &[Key] {
        if turns.len() < FEW as usize {
            self.sorted.clear();
            self.sorted.extend(turns.iter().map(|(key, _)| key));
            self.sorted.sort_unstable_by(|a, b| precedes(*a, *b, turns));
        } else {
            self.count(turns, span);
        }
        &self.sorted
    }

    #[inline(never)]
    fn count(&mut self, turns: &[Turn], span: Time) {
        let before = |a: &Key, b: &Key| precedes(*a, *b, turns);
        let stretches = turns.len().next_power_of_two();
        let shift = (u64::BITS - span.as_nanos().leading_zeros()).saturating_sub(stretches.trailing_zeros());
        self.begins.clear();
        self.begins.resize(stretches, 0);
        self.sorted.resize(turns.len(), Key::default());
        let (begins, sorted) = (self.begins.as_mut_slice(), self.sorted.as_mut_slice());
        let mask = begins.len() - 1;
        let stretch = |key: Key| (key.after().as_nanos() >> shift) as usize & mask;
        for &(key, _) in turns {
            begins[stretch(key)] += 1;
        }
        let (mut sum, mut longest) = (0, 0);
        for begin in &mut *begins {
            let count = *begin;
            longest = longest.max(count);
            *begin = sum;
            sum += count;
        }
        for &(key, _) in turns {
            let place = &mut begins[stretch(key)];
            sorted[*place as usize] = key;
            *place += 1;
        }
        // Each is in its stretch, which now ends where it began.
        if longest > FEW {
            let mut from = 0;
            for &to in &*begins {
                sorted[from as usize..to as usize].sort_unstable_by(&before);
                from = to;
            }
            return;
        }
        let mut last = Key::default();
        for i in 0..sorted.len() {
            let key = sorted[i];
            if last.after() < key.after() {
                last = key;
                continue;
            }
            let mut k = i;
            while k > 0 && before(&sorted[k - 1], &key).is_gt() {
                sorted[k] = sorted[k - 1];
                k -= 1;
            }
            sorted[k] = key;
            last = sorted[i];
        }
    }
}

/// Which of two comes first: their turns are looked up only where they come at one time.
#[inline]
fn precedes(a: Key, b: Key, turns: &[Turn]) -> Ordering {
    if a.after() == b.after() { (turns[a.index()].1, a).cmp(&(turns[b.index()].1, b)) } else { a.cmp(&b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bursts_are_sorted_by_time_then_turn_then_place(
            from in 0u64..1 << 40,
            span in 1u64..1 << 32,
            // In some cases much is crowded into a short time.
            crowd in prop_oneof![Just(0), 0usize..300],
            things in prop::collection::vec((any::<u64>(), 0u64..5), 0..500),
        ) {
            let at = |i: usize, at: u64| Time::from_nanos(from + if i < crowd { at % span.min(9) } else { at % span });
            let times: Vec<_> = things.iter().enumerate().map(|(i, (t, _))| at(i, *t)).collect();
            let from = Time::from_nanos(from);
            let turns: Vec<_> = (0..).zip(&times).zip(&things).map(|((i, at), thing)| (Key::new(*at - from, i), thing.1)).collect();
            let mut expected: Vec<usize> = (0..things.len()).collect();
            expected.sort_by_key(|&i| (times[i], things[i].1));
            let span = Time::from_nanos(span);
            let mut order = Order::default();
            // Whatever was sorted before.
            order.sort(&turns[..turns.len() / 2], span);
            let sorted = order.sort(&turns, span).iter().map(|key| key.index());
            prop_assert_eq!(sorted.collect::<Vec<_>>(), expected);
        }
    }
}
