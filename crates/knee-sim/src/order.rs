//! The order in time of many bursts that are known at once.

use knee_core::Time;
use knee_queue::{Burst, Key};
use std::cmp::Ordering;

/// Sorts by time, then by turn, then by place.
///
/// Times are first put into as many stretches as there are bursts, by counting; what is left to do within each is
/// little.
#[derive(Default)]
pub struct Order {
    keys: Vec<Key>,
    sorted: Vec<Key>,
    /// Where each stretch begins.
    begins: Vec<u32>,
}

/// So few are sorted as they are.
const FEW: u32 = 64;

impl Order {
    /// The order of `bursts`, each of which comes from `from` to `until`, less than 2^32 ns later, and has a turn.
    pub fn sort(&mut self, bursts: &[Burst], turns: &[u64], from: Time, until: Time) -> &[Key] {
        let keys = bursts.iter().enumerate().map(|(i, burst)| Key::new(burst.first.enqueued - from, i as u32));
        let before = |a: &Key, b: &Key| precedes(*a, *b, turns);
        if bursts.len() < FEW as usize {
            self.sorted.clear();
            self.sorted.extend(keys);
            self.sorted.sort_unstable_by(before);
        } else {
            self.count(keys, until - from, before);
        }
        &self.sorted
    }

    #[inline(never)]
    fn count(&mut self, keys: impl Iterator<Item = Key>, span: Time, before: impl Fn(&Key, &Key) -> Ordering) {
        self.keys.clear();
        self.keys.extend(keys);
        let stretches = self.keys.len().next_power_of_two();
        let shift = (u64::BITS - span.as_nanos().leading_zeros()).saturating_sub(stretches.trailing_zeros());
        let stretch = |key: Key| (key.after().as_nanos() >> shift) as usize & (stretches - 1);
        self.begins.clear();
        self.begins.resize(stretches, 0);
        for &key in &self.keys {
            self.begins[stretch(key)] += 1;
        }
        let (mut sum, mut longest) = (0, 0);
        for begin in &mut self.begins {
            let count = *begin;
            longest = longest.max(count);
            *begin = sum;
            sum += count;
        }
        self.sorted.resize(self.keys.len(), Key::default());
        for &key in &self.keys {
            let place = &mut self.begins[stretch(key)];
            self.sorted[*place as usize] = key;
            *place += 1;
        }
        // Each is in its stretch, which now ends where it began.
        if longest > FEW {
            let mut from = 0;
            for &to in &self.begins {
                self.sorted[from as usize..to as usize].sort_unstable_by(&before);
                from = to;
            }
            return;
        }
        for i in 1..self.sorted.len() {
            let key = self.sorted[i];
            let mut k = i;
            while k > 0 && before(&self.sorted[k - 1], &key).is_gt() {
                self.sorted[k] = self.sorted[k - 1];
                k -= 1;
            }
            self.sorted[k] = key;
        }
    }
}

/// Which of two comes first: their turns are looked up only where they come at one time.
#[inline]
fn precedes(a: Key, b: Key, turns: &[u64]) -> Ordering {
    if a.after() == b.after() { (turns[a.index()], a).cmp(&(turns[b.index()], b)) } else { a.cmp(&b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Packet;
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
            let turns: Vec<_> = things.iter().map(|(_, turn)| *turn).collect();
            let burst = |&enqueued: &Time| Burst { first: Packet { enqueued, ..Packet::default() }, count: 1 };
            let bursts: Vec<_> = times.iter().map(burst).collect();
            let mut expected: Vec<usize> = (0..things.len()).collect();
            expected.sort_by_key(|&i| (times[i], turns[i]));
            let (from, until) = (Time::from_nanos(from), Time::from_nanos(from + span));
            let mut order = Order::default();
            // Whatever was sorted before.
            order.sort(&bursts[bursts.len() / 2..], &turns, from, until);
            let sorted = order.sort(&bursts, &turns, from, until).iter().map(|key| key.index());
            prop_assert_eq!(sorted.collect::<Vec<_>>(), expected);
        }
    }
}
