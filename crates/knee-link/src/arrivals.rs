//! Arrivals at a link within a span of time, known at once and in any order.

use crate::queue::Burst;
use knee_core::Time;
use knee_core::cache::fetch;
use knee_core::convert::index;
use std::cmp::Ordering;

/// How many places ahead a burst is fetched.
const AHEAD: usize = 12;

/// When a burst arrives, whether before what the link does then, and which it is, in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u64);

impl Key {
    /// Set for a burst that goes after what the link does at the same time.
    const AFTER_LINK: u64 = 1 << 31;

    /// The burst at index `i` below 2^31, of a time less than 2^32 ns after some beginning.
    #[inline]
    const fn new(after: Time, before_link: bool, i: usize) -> Self {
        Self(after.as_nanos() << 32 | if before_link { 0 } else { Self::AFTER_LINK } | i as u64)
    }

    /// How long after the beginning it comes.
    #[inline]
    const fn after(self) -> Time {
        Time::from_nanos(self.0 >> 32)
    }

    /// Its index.
    #[inline]
    const fn index(self) -> usize {
        (self.0 & (Self::AFTER_LINK - 1)) as usize
    }
}

/// A key, and the tie-break key among bursts of the same time.
type TieBreak = (Key, u64);

/// A burst that arrives at a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) at: Time,
    pub(crate) burst: &'a Burst,
    /// True if it goes before what the link does at the same time: its tie-break key is lower than the link's, or it
    /// has the time and the key of the burst before it.
    pub(crate) before_link: bool,
}

/// Arrivals at a link within a span of time. [`Arrivals::sort`] orders them by time, then by tie-break key, then by
/// order of insertion.
///
/// Many are sorted by counting, into stretches of time; few are left to sort within each.
#[derive(Default, Clone)]
pub struct Arrivals {
    from: Time,
    bursts: Vec<Burst>,
    tie_breaks: Vec<TieBreak>,
    sorted: Vec<Key>,
    /// Start of each stretch.
    begins: Vec<u32>,
}

/// Fewer arrivals are sorted by comparison.
const COMPARISON_SORT_BELOW: u32 = 64;

impl Arrivals {
    /// Begins anew, with a span that begins at `from`.
    pub fn clear(&mut self, from: Time) {
        self.from = from;
        self.bursts.clear();
        self.tie_breaks.clear();
        self.sorted.clear();
    }

    /// Adds a burst that arrives at its first packet's `at`, less than 2^32 ns after the beginning. Of arrivals at
    /// one time, a lower `tie_break` goes first; with `before_link` it goes before what the link does then.
    #[inline]
    pub fn push(&mut self, burst: Burst, tie_break: u64, before_link: bool) {
        self.tie_breaks.push((Key::new(burst.first.at - self.from, before_link, self.bursts.len()), tie_break));
        self.bursts.push(burst);
    }

    /// Adds what arrives by another list of the same span, as if it were added now, and clears that.
    pub fn append(&mut self, other: &mut Self) {
        if self.bursts.is_empty() {
            std::mem::swap(self, other);
        } else {
            let added = self.bursts.len() as u64;
            self.tie_breaks.extend(other.tie_breaks.iter().map(|&(Key(key), tie_break)| (Key(key + added), tie_break)));
            self.bursts.append(&mut other.bursts);
        }
        other.clear(self.from);
    }

    /// Orders the arrivals, none of which is after `until`, itself less than 2^32 ns after the beginning.
    pub fn sort(&mut self, until: Time) {
        if self.tie_breaks.len() < COMPARISON_SORT_BELOW as usize {
            let Self { sorted, tie_breaks, .. } = self;
            sorted.clear();
            sorted.extend(tie_breaks.iter().map(|(key, _)| key));
            // Each flow's are in order already: a stable sort merges such runs.
            sorted.sort_by(|a, b| precedes(*a, *b, tie_breaks));
        } else {
            self.counting_sort(until - self.from);
        }
    }

    /// The arrivals, in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arrival<'_>> {
        self.sorted.iter().enumerate().map(move |(place, key)| {
            if let Some(later) = self.sorted.get(place + AHEAD) {
                fetch(&self.bursts[later.index()]);
            }
            let before_link = key.0 & Key::AFTER_LINK == 0 || place > 0 && self.together(self.sorted[place - 1], *key);
            Arrival { at: self.from + key.after(), burst: &self.bursts[key.index()], before_link }
        })
    }

    /// Returns true if two bursts have the same time and tie-break key.
    #[inline]
    fn together(&self, before: Key, key: Key) -> bool {
        before.after() == key.after() && self.tie_breaks[before.index()].1 == self.tie_breaks[key.index()].1
    }

    /// Sorts by counting: puts each burst into one of about as many stretches of time as there are bursts.
    #[inline(never)]
    fn counting_sort(&mut self, span: Time) {
        let tie_breaks = self.tie_breaks.as_slice();
        let before = |a: &Key, b: &Key| precedes(*a, *b, tie_breaks);
        let stretches = tie_breaks.len().next_power_of_two();
        let shift = (u64::BITS - span.as_nanos().leading_zeros()).saturating_sub(stretches.trailing_zeros());
        self.begins.clear();
        self.begins.resize(stretches, 0);
        self.sorted.resize(tie_breaks.len(), Key::default());
        let (begins, sorted) = (self.begins.as_mut_slice(), self.sorted.as_mut_slice());
        let mask = begins.len() - 1;
        let stretch = |key: Key| index(key.after().as_nanos() >> shift) & mask;
        for &(key, _) in tie_breaks {
            begins[stretch(key)] += 1;
        }
        let (mut sum, mut longest) = (0, 0);
        for begin in &mut *begins {
            let count = *begin;
            longest = longest.max(count);
            *begin = sum;
            sum += count;
        }
        for &(key, _) in tie_breaks {
            let place = &mut begins[stretch(key)];
            sorted[*place as usize] = key;
            *place += 1;
        }
        // Each is in its stretch, which now ends where it began.
        if longest > COMPARISON_SORT_BELOW {
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

/// Orders two arrivals. Their tie-break keys are looked up only if they come at one time.
#[inline]
fn precedes(a: Key, b: Key, tie_breaks: &[TieBreak]) -> Ordering {
    if a.after() == b.after() { (tie_breaks[a.index()].1, a).cmp(&(tie_breaks[b.index()].1, b)) } else { a.cmp(&b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::{Packet, Payload};
    use proptest::prelude::*;

    /// Both bursts of one event arrive before the link acts again; those of the next event do not.
    #[test]
    fn bursts_of_one_tie_break_come_together() {
        let mut arrivals = Arrivals::default();
        arrivals.clear(Time::ZERO);
        for (seq, tie_break) in [(0, 9), (1, 9), (2, 10)] {
            let first = Packet { payload: Payload::segment(seq), at: Time::from_nanos(5), ..Packet::default() };
            arrivals.push(Burst { first, count: 1 }, tie_break, false);
        }
        arrivals.sort(Time::from_nanos(10));
        let found: Vec<_> =
            arrivals.iter().map(|arrival| (arrival.burst.first.payload.seq(), arrival.before_link)).collect();
        assert_eq!(found, [(0, false), (1, true), (2, false)]);
    }

    #[test]
    fn arrivals_of_another_list_come_behind_those_of_one_time() {
        let (mut one, mut other) = (Arrivals::default(), Arrivals::default());
        for seq in 0..5 {
            let first = Packet { payload: Payload::segment(seq), at: Time::from_nanos(5), ..Packet::default() };
            let list = if seq < 2 { &mut one } else { &mut other };
            list.push(Burst { first, count: 1 }, 9, false);
        }
        let mut all = Arrivals::default();
        for list in [&mut one, &mut other] {
            all.append(list);
            assert!(list.bursts.is_empty() && list.tie_breaks.is_empty());
        }
        all.sort(Time::from_nanos(10));
        let found: Vec<_> = all.iter().map(|arrival| arrival.burst.first.payload.seq()).collect();
        assert_eq!(found, [0, 1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn bursts_are_sorted_by_time_then_tie_break_then_place(
            from in 0u64..1 << 40,
            span in 1u64..1 << 32,
            // In some cases most arrive within a short time.
            close in prop_oneof![Just(0), 0usize..300],
            things in prop::collection::vec((any::<u64>(), 0u64..5), 0..500),
        ) {
            let at = |i: usize, at: u64| Time::from_nanos(from + if i < close { at % span.min(9) } else { at % span });
            let times: Vec<_> = things.iter().enumerate().map(|(i, (t, _))| at(i, *t)).collect();
            let mut expected: Vec<usize> = (0..things.len()).collect();
            expected.sort_by_key(|&i| (times[i], things[i].1));
            let mut arrivals = Arrivals::default();
            // Whatever was sorted before.
            for count in [things.len() / 2, things.len()] {
                arrivals.clear(Time::from_nanos(from));
                for (i, (&arrived, &(_, tie_break))) in times.iter().zip(&things).enumerate().take(count) {
                    let first = Packet { at: arrived, payload: Payload::segment(i as u64), ..Packet::default() };
                    arrivals.push(Burst { first, count: 1 }, tie_break, tie_break < 2);
                }
                arrivals.sort(Time::from_nanos(from + span));
            }
            let seen: Vec<_> = arrivals
                .iter()
                .map(|arrival| (arrival.burst.first.payload.seq() as usize, arrival.at, arrival.before_link))
                .collect();
            let key = |i: usize| (times[i], things[i].1);
            let together = |place: usize| place > 0 && key(expected[place - 1]) == key(expected[place]);
            let arrival = |(place, &i): (usize, &usize)| (i, times[i], things[i].1 < 2 || together(place));
            let expected: Vec<_> = expected.iter().enumerate().map(arrival).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
