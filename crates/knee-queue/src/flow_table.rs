//! The flows of a fair queue: buckets of the hash, a dense array of those that exist, and the lists they are on. A
//! flow that goes leaves no hole and no memory behind.

use crate::pool::{NONE, PooledFifo};
use crate::round_robin::{List, RoundRobin, give_back};
use knee_core::convert::index_u32;
use knee_core::{Time, Tuple};

/// A flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow<S> {
    /// Its packets.
    pub(crate) fifo: PooledFifo,
    /// Bytes it may send in this round.
    pub(crate) credit: i64,
    /// When it was detached: since then it is idle and remembered. `None` while it is in the round, or held back.
    pub(crate) detached_at: Option<Time>,
    /// Paced: when its next packet may leave; zero: never was held.
    pub(crate) next_packet_at: Time,
    /// Whose packets it holds; another's that come are a collision.
    pub(crate) tuple: Tuple,
    /// The buffer rule's state of this flow.
    pub(crate) state: S,
    /// The bucket of the hash that it has.
    pub(crate) bucket: u32,
}

/// All flows. A flow's index holds until another flow is removed; its bucket holds while it exists.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable<S> {
    buckets: Vec<u32>,
    flows: Vec<Flow<S>>,
    /// The lists of flows. Detached ones are idle; one that is held back until its next packet may leave is on none.
    pub(crate) lists: RoundRobin,
}

impl<S> FlowTable<S> {
    /// A table of `buckets` buckets without flows.
    pub(crate) fn new(buckets: u32) -> Self {
        Self { buckets: vec![NONE; buckets as usize], flows: Vec::new(), lists: RoundRobin::new(0) }
    }

    /// The flow in `bucket`.
    #[inline]
    pub(crate) fn find(&self, bucket: u32) -> Option<usize> {
        let i = self.buckets[bucket as usize];
        (i != NONE).then_some(i as usize)
    }

    /// Adds a detached flow in an empty `bucket`.
    pub(crate) fn add(&mut self, bucket: u32, tuple: Tuple, credit: i64, now: Time, state: S) -> usize {
        let i = self.flows.len();
        self.buckets[bucket as usize] = index_u32(i);
        let (fifo, next_packet_at) = (PooledFifo::EMPTY, Time::ZERO);
        self.flows.push(Flow { fifo, credit, detached_at: None, next_packet_at, tuple, state, bucket });
        self.lists.add();
        self.detach(i, now);
        i
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, i: usize) {
        self.lists.swap_remove(i);
        let removed = self.flows.swap_remove(i);
        self.buckets[removed.bucket as usize] = NONE;
        if let Some(moved) = self.flows.get(i) {
            self.buckets[moved.bucket as usize] = index_u32(i);
        }
        give_back(&mut self.flows);
    }

    /// The flow at index `i`.
    #[inline]
    pub(crate) fn get(&mut self, i: usize) -> &mut Flow<S> {
        &mut self.flows[i]
    }

    /// The flows there are, in no particular order.
    pub(crate) fn all(&self) -> &[Flow<S>] {
        &self.flows
    }

    /// The flow that has been detached longest, and since when.
    pub(crate) fn longest_detached(&self) -> Option<(usize, Time)> {
        let i = self.lists.first(List::Idle)?;
        Some((i, self.flows[i].detached_at?))
    }

    /// Takes an idle flow out of the round.
    pub(crate) fn detach(&mut self, i: usize, now: Time) {
        self.flows[i].detached_at = Some(now);
        self.lists.put(i, List::Idle);
    }

    /// Flows there are, and flows there is memory for.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.flows.len(), self.flows.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round_robin::KEPT;

    #[test]
    fn memory_is_given_back_and_leaves_room_for_as_many_flows_again() {
        let mut table = FlowTable::new(1024);
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

    #[test]
    fn flows_are_found_in_their_buckets_while_others_go() {
        let mut table = FlowTable::new(8);
        (0..8).for_each(|bucket| _ = table.add(bucket, Tuple::NONE, bucket.into(), Time::ZERO, ()));
        for removed in [0, 7, 3] {
            let i = table.find(removed).unwrap();
            table.remove(i);
        }
        let credits: Vec<_> = (0..8).map(|bucket| table.find(bucket).map(|i| table.get(i).credit)).collect();
        assert_eq!(credits, [None, Some(1), Some(2), None, Some(4), Some(5), Some(6), None]);
        assert_eq!(table.longest_detached(), table.find(1).map(|i| (i, Time::ZERO)));
    }

    #[test]
    fn when_flows_go_their_memory_goes() {
        let mut table = FlowTable::new(1000);
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
