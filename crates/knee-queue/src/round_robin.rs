//! The lists of a round robin: queues by their index, each on one list or on none.

use crate::pool::{Pool, PooledFifo};
use knee_core::cache::fetch;
use knee_core::convert::index_u32;

/// A list of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Queues that got their first packet, served before the old ones.
    New,
    /// Queues served in turn, after the new ones.
    Old,
    /// Queues without packets whose state is still needed, longest idle first.
    Idle,
}

/// The number of lists.
const LISTS: usize = 3;
/// Places kept when elements go.
pub(crate) const KEPT: usize = 16;

/// The places before and behind one in its ring; on no list, its own.
#[derive(Clone, Copy, Debug)]
struct Links {
    prev: u32,
    next: u32,
}

/// All lists, as rings through places: the first ones are the ends of the lists, and queue `i` has place `LISTS + i`.
#[derive(Clone, Debug)]
pub(crate) struct RoundRobin(Vec<Links>);

impl RoundRobin {
    /// So many queues, none of them on a list.
    pub(crate) fn new(queues: usize) -> Self {
        let alone = |place| Links { prev: place, next: place };
        Self((0..index_u32(LISTS + queues)).map(alone).collect())
    }

    /// Adds a queue, which is on no list.
    pub(crate) fn add(&mut self) {
        let place = index_u32(self.0.len());
        self.0.push(Links { prev: place, next: place });
    }

    /// Removes queue `i`; the last queue has its index from then on.
    pub(crate) fn swap_remove(&mut self, i: usize) {
        self.remove(i);
        let place = LISTS + i;
        let Links { prev, next } = self.0[self.0.len() - 1];
        self.0[prev as usize].next = index_u32(place);
        self.0[next as usize].prev = index_u32(place);
        self.0.swap_remove(place);
        give_back(&mut self.0);
    }

    /// The first queue of `list`.
    #[inline]
    pub(crate) fn first(&self, list: List) -> Option<usize> {
        (self.0[list as usize].next as usize).checked_sub(LISTS)
    }

    /// The queue whose turn it is, and its list.
    #[inline]
    pub(crate) fn turn(&self) -> Option<(usize, List)> {
        let old = || Some((self.first(List::Old)?, List::Old));
        self.first(List::New).map(|i| (i, List::New)).or_else(old)
    }

    /// The queue behind `i` on its list.
    #[inline]
    fn after(&self, i: usize) -> Option<usize> {
        (self.0[LISTS + i].next as usize).checked_sub(LISTS)
    }

    /// Returns true if queue `i` is on a list.
    #[inline]
    pub(crate) fn is_listed(&self, i: usize) -> bool {
        self.0[LISTS + i].next as usize != LISTS + i
    }

    /// Takes queue `i` off its list, if it is on one.
    #[inline]
    pub(crate) fn remove(&mut self, i: usize) {
        let place = index_u32(LISTS + i);
        let Links { prev, next } = std::mem::replace(&mut self.0[LISTS + i], Links { prev: place, next: place });
        self.0[prev as usize].next = next;
        self.0[next as usize].prev = prev;
    }

    /// Takes queue `i` off its list and puts it at the end of `list`.
    #[inline]
    pub(crate) fn put(&mut self, i: usize, list: List) {
        self.remove(i);
        let (place, end) = (index_u32(LISTS + i), index_u32(list as usize));
        let last = std::mem::replace(&mut self.0[list as usize].prev, place);
        self.0[last as usize].next = place;
        self.0[LISTS + i] = Links { prev: last, next: end };
    }

    /// Queue `i`, whose turn on `list` it is, has no packet. A new one passes through the old ones, so that it cannot
    /// starve them.
    #[inline]
    pub(crate) fn run_empty(&mut self, i: usize, list: List) {
        if list == List::New && self.first(List::Old).is_some() {
            self.put(i, List::Old);
        } else {
            self.remove(i);
        }
    }

    /// Fetches what taking a packet from the queue behind `i` needs, and the state of the queue behind that.
    #[inline]
    pub(crate) fn fetch_behind<Q>(&self, i: usize, queues: &[Q], fifo: impl Fn(&Q) -> &PooledFifo, pool: &Pool) {
        let Some(next) = self.after(i) else { return };
        pool.fetch_head(fifo(&queues[next]));
        if let Some(after) = self.after(next) {
            fetch(&queues[after]);
        }
    }
}

/// Gives back most of the memory that elements which went have left.
pub(crate) fn give_back<T>(elements: &mut Vec<T>) {
    if elements.capacity() > KEPT && elements.len() * 4 < elements.capacity() {
        elements.shrink_to(elements.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [List; LISTS] = [List::New, List::Old, List::Idle];

    fn listed(lists: &RoundRobin, list: List) -> Vec<usize> {
        std::iter::successors(lists.first(list), |i| lists.after(*i)).collect()
    }

    proptest! {
        #[test]
        fn lists_keep_their_order_while_queues_come_move_and_go(
            steps in prop::collection::vec((0usize..12, 0usize..6), 0..300)
        ) {
            let mut lists = RoundRobin::new(0);
            // The name of each queue by its index, and of those on each list.
            let mut names: Vec<usize> = vec![];
            let mut model: [Vec<usize>; LISTS] = Default::default();
            for (name, (i, what)) in steps.into_iter().enumerate() {
                if i >= names.len() {
                    lists.add();
                    names.push(name);
                    continue;
                }
                for list in &mut model {
                    list.retain(|name| *name != names[i]);
                }
                match what {
                    4 => {
                        lists.swap_remove(i);
                        names.swap_remove(i);
                    }
                    3 | 5 => lists.remove(i),
                    to => {
                        lists.put(i, ALL[to]);
                        model[to].push(names[i]);
                    }
                }
                for list in ALL {
                    let found: Vec<usize> = listed(&lists, list).into_iter().map(|i| names[i]).collect();
                    prop_assert_eq!(&found, &model[list as usize]);
                }
                for (i, name) in names.iter().enumerate() {
                    prop_assert_eq!(lists.is_listed(i), model.iter().flatten().any(|listed| listed == name));
                }
            }
        }
    }

    #[test]
    fn new_queues_have_their_turn_first_and_pass_through_the_old_ones() {
        let mut lists = RoundRobin::new(3);
        lists.put(2, List::Old);
        lists.put(0, List::New);
        assert_eq!(lists.turn(), Some((0, List::New)));
        lists.run_empty(0, List::New);
        assert_eq!((lists.turn(), listed(&lists, List::Old)), (Some((2, List::Old)), vec![2, 0]));
        lists.run_empty(2, List::Old);
        lists.run_empty(0, List::Old);
        lists.put(1, List::New);
        // Where there are no old ones, a new one leaves.
        lists.run_empty(1, List::New);
        assert_eq!((lists.turn(), lists.is_listed(1)), (None, false));
    }
}
