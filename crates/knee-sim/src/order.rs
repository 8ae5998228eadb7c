//! The order in time of many things that are known at once.

use knee_core::Time;

/// Sorts by time, then by turn, then by place.
///
/// Times are first put into as many stretches as there are things, by counting; what is left to do within each is little.
#[derive(Default)]
pub struct Order {
    /// Time in the upper 32 bits, then 64 of the turn, then 32 of the place.
    keys: Vec<u128>,
    sorted: Vec<u128>,
    /// Where each stretch begins.
    begins: Vec<u32>,
}

/// So few are sorted as they are.
const FEW: usize = 64;

impl Order {
    /// The places of `things`, each with a time below 2^32 ns and a turn, in their order.
    pub fn sort(&mut self, things: impl Iterator<Item = (Time, u64)>) -> impl Iterator<Item = u32> {
        let key = |(place, (at, turn)): (u32, (Time, u64))| {
            u128::from(at.as_nanos()) << 96 | u128::from(turn) << 32 | u128::from(place)
        };
        self.keys.clear();
        self.keys.extend((0..).zip(things).map(key));
        if self.keys.len() < FEW {
            self.keys.sort_unstable();
            self.sorted.clone_from(&self.keys);
        } else {
            self.count();
        }
        self.sorted.iter().map(|&key| key as u32)
    }

    fn count(&mut self) {
        let stretches = self.keys.len().next_power_of_two();
        let last = self.keys.iter().map(|key| (key >> 96) as u64).max().unwrap_or(0);
        let shift = (u64::BITS - last.leading_zeros()).saturating_sub(stretches.trailing_zeros());
        let stretch = |key: u128| ((key >> 96) as u64 >> shift) as usize;
        self.begins.clear();
        self.begins.resize(stretches + 1, 0);
        for &key in &self.keys {
            self.begins[stretch(key) + 1] += 1;
        }
        let mut sum = 0;
        for begin in &mut self.begins {
            sum += *begin;
            *begin = sum;
        }
        self.sorted.resize(self.keys.len(), 0);
        for &key in &self.keys {
            let place = &mut self.begins[stretch(key)];
            self.sorted[*place as usize] = key;
            *place += 1;
        }
        let mut from = 0;
        for &to in &self.begins[..stretches] {
            if (to - from) as usize > FEW {
                self.sorted[from as usize..to as usize].sort_unstable();
            }
            from = to;
        }
        // Each is in its stretch, and where that is a long one, in its place.
        for i in 1..self.sorted.len() {
            let key = self.sorted[i];
            let mut k = i;
            while k > 0 && self.sorted[k - 1] > key {
                self.sorted[k] = self.sorted[k - 1];
                k -= 1;
            }
            self.sorted[k] = key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn things_are_sorted_by_time_then_turn_then_place(
            span in 1u64..1 << 32,
            // In some cases much is crowded into a short time.
            crowd in prop_oneof![Just(0), 0usize..300],
            things in prop::collection::vec((any::<u64>(), 0u64..5), 0..500),
        ) {
            let at = |i: usize, at: u64| Time::from_nanos(if i < crowd { at % span.min(9) } else { at % span });
            let things: Vec<_> = things.into_iter().enumerate().map(|(i, (t, turn))| (at(i, t), turn)).collect();
            let mut expected: Vec<u32> = (0..things.len() as u32).collect();
            expected.sort_by_key(|&i| things[i as usize]);
            let mut order = Order::default();
            // Whatever was sorted before.
            let _ = order.sort(things.iter().copied().rev()).count();
            prop_assert_eq!(order.sort(things.iter().copied()).collect::<Vec<_>>(), expected);
        }
    }
}
