//! The flows of a fair queue: buckets of the hash, a dense array of those that exist, and the lists they are on. A
//! flow that goes leaves no hole and no memory behind.

use crate::pool::{Fifo, NONE, Pool};
use knee_core::cache::fetch;
use knee_core::convert::index_u32;
use knee_core::{Time, Tuple};

/// The lists of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Came lately; served first.
    New,
    /// Served in the round robin, after the new ones.
    Old,
    /// Idle and remembered, longest idle first.
    Detached,
    /// On none: held back until its next packet may leave.
    Throttled,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow<S> {
    /// Its packets.
    pub(crate) fifo: Fifo,
    /// Bytes it may send in this round.
    pub(crate) credit: i64,
    /// When it was detached.
    pub(crate) detached_at: Time,
    /// Paced: when its next packet may leave; zero: never was held.
    pub(crate) next_packet_at: Time,
    /// Whose packets it holds; another's that come are a collision.
    pub(crate) tuple: Tuple,
    /// The buffer rule's state of this flow.
    pub(crate) state: S,
    bucket: u32,
    prev: u32,
    next: u32,
    list: List,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// All flows. A flow's index holds until another flow is removed; its bucket holds while it exists.
#[derive(Clone, Debug)]
pub(crate) struct Table<S> {
    buckets: Vec<u32>,
    flows: Vec<Flow<S>>,
    ends: [Ends; 3],
}

/// Places kept when flows go.
const KEPT: usize = 16;

impl<S> Table<S> {
    /// A table of `buckets` buckets without flows.
    pub(crate) fn new(buckets: u32) -> Self {
        let ends = [Ends { first: NONE, last: NONE }; 3];
        Self { buckets: vec![NONE; buckets as usize], flows: Vec::new(), ends }
    }

    /// The flow in `bucket`.
    #[inline]
    pub(crate) fn find(&self, bucket: u32) -> Option<u32> {
        let i = self.buckets[bucket as usize];
        (i != NONE).then_some(i)
    }

    /// Adds a detached flow in an empty `bucket`.
    pub(crate) fn add(&mut self, bucket: u32, tuple: Tuple, credit: i64, now: Time, state: S) -> u32 {
        let i = index_u32(self.flows.len());
        self.buckets[bucket as usize] = i;
        self.flows.push(Flow {
            fifo: Fifo::EMPTY,
            credit,
            detached_at: now,
            next_packet_at: Time::ZERO,
            tuple,
            state,
            bucket,
            prev: NONE,
            next: NONE,
            list: List::Throttled,
        });
        self.append(i, List::Detached);
        i
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, i: u32) {
        self.unlink(i);
        let gone = self.flows.swap_remove(i as usize);
        self.buckets[gone.bucket as usize] = NONE;
        if let Some(moved) = self.flows.get(i as usize) {
            let (bucket, prev, next, list) = (moved.bucket, moved.prev, moved.next, moved.list);
            self.buckets[bucket as usize] = i;
            if list != List::Throttled {
                *self.next_of(prev, list) = i;
                *self.prev_of(next, list) = i;
            }
        }
        if self.flows.capacity() > KEPT && self.flows.len() * 4 < self.flows.capacity() {
            self.flows.shrink_to(self.flows.len() * 2);
        }
    }

    /// The flow at index `i`.
    #[inline]
    pub(crate) fn get(&mut self, i: u32) -> &mut Flow<S> {
        &mut self.flows[i as usize]
    }

    /// The flows there are, in no particular order.
    pub(crate) fn all(&self) -> &[Flow<S>] {
        &self.flows
    }

    /// The first flow of `list`.
    #[inline]
    pub(crate) fn first(&self, list: List) -> Option<u32> {
        let i = self.ends[list as usize].first;
        (i != NONE).then_some(i)
    }

    /// Fetches what the flow after next in line behind `i` needs, and the first packet of the next.
    #[inline]
    pub(crate) fn fetch_behind(&self, i: u32, pool: &Pool) {
        let Some(next) = self.flows.get(self.flows[i as usize].next as usize) else { return };
        pool.fetch_head(&next.fifo);
        if let Some(after) = self.flows.get(next.next as usize) {
            fetch(after);
        }
    }

    /// Takes a flow off its list and puts it at the end of `list`, or on none.
    #[inline]
    pub(crate) fn put(&mut self, i: u32, list: List) {
        self.unlink(i);
        self.append(i, list);
    }

    #[inline]
    fn append(&mut self, i: u32, list: List) {
        let prev = if list == List::Throttled { NONE } else { self.ends[list as usize].last };
        let flow = self.get(i);
        (flow.prev, flow.next, flow.list) = (prev, NONE, list);
        if list != List::Throttled {
            *self.next_of(prev, list) = i;
            self.ends[list as usize].last = i;
        }
    }

    #[inline]
    fn unlink(&mut self, i: u32) {
        let Flow { prev, next, list, .. } = self.flows[i as usize];
        if list != List::Throttled {
            *self.next_of(prev, list) = next;
            *self.prev_of(next, list) = prev;
        }
    }

    /// The link that points forward to what follows `i`; of none: the list's first.
    #[inline]
    fn next_of(&mut self, i: u32, list: List) -> &mut u32 {
        if i == NONE { &mut self.ends[list as usize].first } else { &mut self.flows[i as usize].next }
    }

    /// The link that points back to what precedes `i`; of none: the list's last.
    #[inline]
    fn prev_of(&mut self, i: u32, list: List) -> &mut u32 {
        if i == NONE { &mut self.ends[list as usize].last } else { &mut self.flows[i as usize].prev }
    }

    /// Flows there are, and flows there is memory for.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.flows.len(), self.flows.capacity())
    }
}

impl<S> Flow<S> {
    /// The list that the flow is on.
    #[inline]
    pub(crate) fn list(&self) -> List {
        self.list
    }

    /// The bucket of the hash that the flow has.
    #[inline]
    pub(crate) fn bucket(&self) -> u32 {
        self.bucket
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(table: &Table<()>, list: List) -> Vec<u32> {
        let mut i = table.ends[list as usize].first;
        let mut buckets = vec![];
        while i != NONE {
            buckets.push(table.flows[i as usize].bucket);
            i = table.flows[i as usize].next;
        }
        buckets
    }

    #[test]
    fn memory_is_given_back_and_leaves_room_for_as_many_flows_again() {
        let mut table = Table::new(1024);
        (0..1024).for_each(|bucket| {
            table.add(bucket, Tuple::NONE, 0, Time::ZERO, ());
        });
        while table.flows.len() > 1 {
            let before = table.flows.capacity();
            table.remove(0);
            let (len, room) = (table.flows.len(), table.flows.capacity());
            assert!(room <= KEPT.max(4 * len), "room for {room} flows, where there are {len}");
            assert!(room == before || room >= 2 * len, "room for {room} flows, where there are {len}");
        }
    }

    proptest! {
        #[test]
        fn lists_keep_their_order_while_flows_come_move_and_go(
            steps in prop::collection::vec((0u32..12, 0usize..5), 0..300)
        ) {
            const LISTS: [List; 4] = [List::New, List::Old, List::Detached, List::Throttled];
            let mut table = Table::new(12);
            let mut model: [Vec<u32>; 4] = Default::default();
            for (bucket, what) in steps {
                let i = table.find(bucket);
                prop_assert_eq!(i.is_some(), model.iter().flatten().any(|b| *b == bucket));
                for list in &mut model {
                    list.retain(|b| *b != bucket);
                }
                match (i, what) {
                    (None, _) => {
                        table.add(bucket, Tuple::NONE, 0, Time::ZERO, ());
                        model[List::Detached as usize].push(bucket);
                    }
                    (Some(i), 4) => table.remove(i),
                    (Some(i), to) => {
                        table.put(i, LISTS[to]);
                        model[to].push(bucket);
                    }
                }
                for list in [List::New, List::Old, List::Detached] {
                    prop_assert_eq!(&listed(&table, list), &model[list as usize]);
                }
            }
        }
    }

    #[test]
    fn when_flows_go_their_memory_goes() {
        let mut table = Table::new(1000);
        for bucket in 0..1000 {
            table.add(bucket, Tuple::NONE, 0, Time::ZERO, ());
        }
        for bucket in 1..1000 {
            let i = table.find(bucket).unwrap();
            table.remove(i);
        }
        let (flows, room) = table.size();
        assert_eq!(flows, 1);
        assert!(room <= KEPT, "{room}");
    }
}
