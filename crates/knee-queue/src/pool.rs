//! Packets of many queues in one slab, each queue a list of indices through it: an empty queue costs nothing, and a
//! place freed is the next one used, so that the part of the slab in use stays in the cache. Packets of a burst, which
//! differ by their segments only, take one place.

use knee_core::Packet;
use knee_core::cache::fetch;
use knee_core::convert::index_u32;

/// Index of nothing.
pub(crate) const NONE: u32 = u32::MAX;

/// Places kept when the slab runs empty; beyond, the memory is given back.
const KEPT: usize = 1024;

/// A packet within one cache line, never across two.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Place(Packet);

const _: () = assert!(size_of::<Place>() == 32);

/// A place and its link.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The place behind it, in its queue or among the free ones.
    next: u32,
    /// Packets that it stands for.
    count: u32,
}

/// The slab.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    places: Vec<Place>,
    nodes: Vec<Node>,
    free: u32,
    used: u32,
}

/// A first-in first-out queue in a [`Pool`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PooledFifo {
    head: u32,
    tail: u32,
    len: u32,
}

impl PooledFifo {
    /// A queue without packets.
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    /// Packets in it.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// True if it holds no packet.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Pool {
    /// A pool without packets.
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), nodes: Vec::new(), free: NONE, used: 0 }
    }

    /// Puts `packet` at the tail of `fifo`.
    #[inline]
    pub(crate) fn push(&mut self, fifo: &mut PooledFifo, packet: Packet) {
        self.push_run(fifo, packet, 1);
    }

    /// Puts `count` packets that differ by their segments only, which follow that of `first`, at the tail of `fifo`.
    #[inline]
    pub(crate) fn push_run(&mut self, fifo: &mut PooledFifo, first: Packet, count: u32) {
        let place = self.free;
        let place = if place == NONE {
            self.places.push(Place(first));
            self.nodes.push(Node { next: NONE, count });
            index_u32(self.places.len() - 1)
        } else {
            let node = &mut self.nodes[place as usize];
            node.count = count;
            self.free = node.next;
            self.places[place as usize] = Place(first);
            place
        };
        if fifo.len == 0 {
            fifo.head = place;
        } else {
            self.nodes[fifo.tail as usize].next = place;
        }
        fifo.tail = place;
        fifo.len += count;
        self.used += 1;
    }

    /// Takes the packet at the head of `fifo`.
    #[inline]
    pub(crate) fn pop(&mut self, fifo: &mut PooledFifo) -> Option<Packet> {
        let mut packet = Packet::default();
        self.pop_some(fifo, 1, &mut packet).then_some(packet)
    }

    /// The packet at the head of `fifo`, and how many with it differ by their segments only.
    #[inline]
    pub(crate) fn head(&self, fifo: &PooledFifo) -> Option<(&Packet, u32)> {
        let place = fifo.head as usize;
        (fifo.len > 0).then(|| (&self.places[place].0, self.nodes[place].count))
    }

    /// Takes `some` of those that [`Pool::head`] tells of and puts the first of them into `first`, by reference: so it
    /// is copied once, in wide moves. False: there is none.
    #[inline]
    pub(crate) fn pop_some(&mut self, fifo: &mut PooledFifo, some: u32, first: &mut Packet) -> bool {
        if fifo.len == 0 {
            return false;
        }
        let place = fifo.head;
        *first = self.places[place as usize].0;
        fifo.len -= some;
        let node = &mut self.nodes[place as usize];
        node.count -= some;
        if node.count > 0 {
            let first = &mut self.places[place as usize].0;
            *first = first.behind(some);
        } else {
            fifo.head = node.next;
            self.release(place);
        }
        true
    }

    /// The packets of `fifo`, from the head; of a run, which takes one place, the first.
    pub(crate) fn places(&self, fifo: &PooledFifo) -> impl Iterator<Item = &Packet> {
        let mut place = if fifo.len > 0 { fifo.head } else { NONE };
        std::iter::from_fn(move || {
            let packet = self.places.get(place as usize).map(|place| &place.0)?;
            place = if place == fifo.tail { NONE } else { self.nodes[place as usize].next };
            Some(packet)
        })
    }

    /// Takes the packet at the `n`th place of `fifo`, from 0 at the head, where one packet alone is; not the last one.
    pub(crate) fn remove(&mut self, fifo: &mut PooledFifo, n: usize) -> Packet {
        let mut before = NONE;
        let mut place = fifo.head;
        for _ in 0..n {
            (before, place) = (place, self.nodes[place as usize].next);
        }
        let packet = self.places[place as usize].0;
        let Node { next, count } = self.nodes[place as usize];
        assert!(count == 1 && place != fifo.tail, "a packet alone, and not the last one");
        if before == NONE {
            fifo.head = next;
        } else {
            self.nodes[before as usize].next = next;
        }
        fifo.len -= 1;
        self.release(place);
        packet
    }

    /// Fetches what taking the packet at the head of `fifo` needs.
    #[inline]
    pub(crate) fn fetch_head(&self, fifo: &PooledFifo) {
        if let Some(place) = self.places.get(fifo.head as usize) {
            fetch(place);
            fetch(&self.nodes[fifo.head as usize]);
        }
    }

    /// Keeps the first `len` packets of `fifo` and hands the others, in order, to `take`.
    pub(crate) fn truncate(&mut self, fifo: &mut PooledFifo, len: u32, mut take: impl FnMut(Packet)) {
        let mut rest = *fifo;
        let mut kept = PooledFifo::EMPTY;
        while kept.len < len && rest.len > 0 {
            let place = rest.head;
            let Node { next, count } = self.nodes[place as usize];
            if kept.len == 0 {
                kept.head = place;
            }
            kept.tail = place;
            let some = count.min(len - kept.len);
            kept.len += some;
            rest.len -= count;
            rest.head = next;
            // Only some of a run stay.
            let first = self.places[place as usize].0;
            self.nodes[place as usize].count = some;
            for k in some..count {
                take(first.behind(k));
            }
        }
        while let Some(packet) = self.pop(&mut rest) {
            take(packet);
        }
        *fifo = kept;
    }

    #[inline]
    fn release(&mut self, place: u32) {
        self.used -= 1;
        self.nodes[place as usize].next = self.free;
        self.free = place;
        if self.used == 0 && self.places.len() > KEPT {
            *self = Self::new();
        }
    }

    /// Places there is memory for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FULL;
    use knee_core::Payload;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn packet(seq: u64) -> Packet {
        Packet { payload: Payload::segment(seq), ..FULL }
    }

    proptest! {
        #[test]
        fn several_fifos_in_one_pool_are_as_so_many_deques(
            steps in prop::collection::vec((0usize..3, 0u8..8), 0..400)
        ) {
            let mut pool = Pool::new();
            let (mut fifos, mut deques) = ([PooledFifo::EMPTY; 3], [const { VecDeque::new() }; 3]);
            for (seq, (i, what)) in steps.into_iter().enumerate() {
                let (fifo, deque) = (&mut fifos[i], &mut deques[i]);
                let seq = 10 * seq;
                match what {
                    0..=1 => {
                        pool.push(fifo, packet(seq as u64));
                        deque.push_back(seq as u64);
                    }
                    2..=3 => {
                        pool.push_run(fifo, packet(seq as u64), 1 + what as u32);
                        deque.extend((0..=u64::from(what)).map(|k| seq as u64 + k));
                    }
                    4..=6 => prop_assert_eq!(pool.pop(fifo).map(|p| p.payload.seq()), deque.pop_front()),
                    _ => {
                        let mut cut = vec![];
                        pool.truncate(fifo, 2, |p| cut.push(p.payload.seq()));
                        prop_assert_eq!(cut, deque.drain(2.min(deque.len())..).collect::<Vec<_>>());
                    }
                }
                prop_assert_eq!(fifo.len() as usize, deque.len());
                prop_assert_eq!(fifo.is_empty(), deque.is_empty());
            }
        }
    }

    #[test]
    fn a_packet_is_taken_out_of_the_middle() {
        let (mut pool, mut fifo) = (Pool::new(), PooledFifo::EMPTY);
        pool.push_run(&mut fifo, packet(0), 2);
        (5..8).for_each(|seq| pool.push(&mut fifo, packet(seq)));
        let seqs = |pool: &Pool, fifo: &PooledFifo| pool.places(fifo).map(|p| p.payload.seq()).collect::<Vec<_>>();
        assert_eq!(seqs(&pool, &fifo), [0, 5, 6, 7]);
        assert_eq!(pool.remove(&mut fifo, 2), packet(6));
        assert_eq!((seqs(&pool, &fifo), fifo.len()), (vec![0, 5, 7], 4));
        pool.pop(&mut fifo);
        pool.pop(&mut fifo);
        assert_eq!(pool.remove(&mut fifo, 0), packet(5));
        assert_eq!((pool.pop(&mut fifo), pool.pop(&mut fifo)), (Some(packet(7)), None));
        assert_eq!(seqs(&pool, &fifo), []);
    }

    #[test]
    fn an_empty_pool_gives_its_memory_back() {
        let (mut pool, mut fifo) = (Pool::new(), PooledFifo::EMPTY);
        for seq in 0..5000 {
            pool.push(&mut fifo, packet(seq));
        }
        assert!(pool.capacity() >= 5000);
        while pool.pop(&mut fifo).is_some() {}
        assert_eq!(pool.capacity(), 0);
    }
}
