//! A tin: queues for the flows of a class of traffic, served by DRR++, and its place in the shaper.

use super::cobalt::{CobaltSettings, CobaltState};
use super::diffserv::Part;
use super::longest::Longest;
use super::ways::{self, Hosts, PLACES, Place};
use super::{Isolation, Set, credit};
use crate::Context;
use crate::hash::{Collisions, FlowHash};
use crate::pool::{Pool, PooledFifo};
use crate::round_robin::{List, RoundRobin};
use knee_core::convert::index_u16;
use knee_core::{Packet, Rate, Rng, Time, Tuple};

/// No queue.
const NOWHERE: u16 = u16::MAX;
/// Entries of `Tin::homes` kept when nothing is queued.
const HOMES_KEPT: usize = 8192;

/// A queue of a tin.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct CakeFlow {
    pub(super) fifo: PooledFifo,
    pub(super) deficit: i64,
    pub(super) cobalt: CobaltState,
    source: u16,
    destination: u16,
    tuple: Tuple,
}

// One line of the cache.
const _: () = assert!(size_of::<CakeFlow>() == 64);

/// State that all tins share.
#[derive(Clone)]
pub(super) struct SharedByTins {
    pub(super) isolation: Isolation,
    pub(super) hash: FlowHash,
    pub(super) collisions: Collisions,
    pub(super) pool: Pool,
    pub(super) rng: Rng,
}

/// The tin.
#[derive(Clone)]
pub(super) struct Tin {
    pub(super) cobalt: CobaltSettings,
    /// Credit of a round for one flow, in bytes.
    flow_quantum: u64,
    /// Its rate, up to which it goes first. `None` without a shaper.
    rate: Option<Rate>,
    /// From when on it is within its rate.
    pub(super) time_next: Time,
    /// Without a shaper: bytes that it may send in its turn.
    pub(super) deficit: i64,
    pub(super) quantum: i64,
    /// Packets in it.
    pub(super) packets: u64,
    /// Queues that are sparse or bulk.
    pub(super) active: u32,
    /// Empty until a packet comes.
    pub(super) flows: Vec<CakeFlow>,
    /// The set of each queue; apart, as a search goes through eight.
    pub(super) sets: Vec<Set>,
    /// Hash of the flow that each queue is reserved for.
    tags: Vec<u32>,
    /// Bytes in each queue.
    pub(super) bytes: Vec<u64>,
    /// The queue that the last packet of each 5-tuple went to.
    pub(super) homes: Vec<u16>,
    sources: Hosts,
    destinations: Hosts,
    /// The rotations of DRR++. Idle queues are the decaying ones.
    lists: RoundRobin,
    pub(super) longest: Longest,
}

impl Tin {
    /// Without queues; these come with the first packet.
    pub(super) fn new(cobalt: CobaltSettings, flow_quantum: u64, part: Part, rate: Option<Rate>) -> Self {
        Self {
            cobalt,
            flow_quantum,
            rate,
            time_next: Time::ZERO,
            deficit: 0,
            quantum: part.quantum,
            packets: 0,
            active: 0,
            flows: Vec::new(),
            sets: Vec::new(),
            tags: Vec::new(),
            bytes: Vec::new(),
            homes: Vec::new(),
            sources: Hosts::new(0),
            destinations: Hosts::new(0),
            lists: RoundRobin::new(0),
            longest: Longest::new(0),
        }
    }

    #[cold]
    fn open(&mut self) {
        let flow = CakeFlow {
            fifo: PooledFifo::EMPTY,
            deficit: 0,
            cobalt: CobaltState::NEW,
            source: 0,
            destination: 0,
            tuple: Tuple::NONE,
        };
        self.flows = vec![flow; PLACES];
        self.sets = vec![Set::None; PLACES];
        self.tags = vec![0; PLACES];
        self.bytes = vec![0; PLACES];
        self.sources = Hosts::new(PLACES);
        self.destinations = Hosts::new(PLACES);
        self.lists = RoundRobin::new(PLACES);
        self.longest = Longest::new(PLACES);
    }

    /// Takes in `count` packets that differ by their segments only, with `size` bytes together; gives their queue.
    #[inline]
    pub(super) fn take(
        &mut self,
        first: Packet,
        count: u32,
        size: u64,
        shared: &mut SharedByTins,
        cx: &mut Context,
    ) -> usize {
        if self.flows.is_empty() {
            self.open();
        }
        let i = self.queue_for(&first, shared, cx);
        if self.packets == 0 {
            self.time_next = self.time_next.max(cx.now);
        }
        shared.pool.push_run(&mut self.flows[i].fifo, first, count);
        self.packets += u64::from(count);
        self.bytes[i] += size;
        self.longest.grown(i, &self.bytes);
        match self.sets[i] {
            Set::None | Set::Decaying => {
                self.sets[i] = Set::Sparse;
                self.active += 1;
                self.flows[i].deficit = self.round_credit(i, shared);
                self.lists.put(i, List::New);
            }
            Set::SparseWait => self.enter_bulk(i, shared.isolation),
            Set::Sparse | Set::Bulk => {}
        }
        i
    }

    /// The queue for `packet`.
    #[inline]
    fn queue_for(&mut self, packet: &Packet, shared: &mut SharedByTins, cx: &mut Context) -> usize {
        if !shared.isolation.flows {
            return 0;
        }
        let key = 2 * packet.flow as usize + usize::from(packet.has(Packet::ACK));
        let home = self.homes.get(key).copied().unwrap_or(NOWHERE);
        if home != NOWHERE && self.bytes[usize::from(home)] > 0 {
            return usize::from(home);
        }
        let i = self.find_place(packet, shared, cx);
        if self.homes.len() <= key {
            self.homes.resize(key + 1, NOWHERE);
        }
        self.homes[key] = index_u16(i);
        i
    }

    fn find_place(&mut self, packet: &Packet, shared: &mut SharedByTins, cx: &mut Context) -> usize {
        let isolation = shared.isolation;
        let tuple = cx.tuple(packet);
        let hash = shared.hash.hash(tuple);
        let (tags, sets) = (&self.tags, &self.sets);
        let place = ways::find(hash, |i| tags[i] == hash, |i| sets[i] == Set::None);
        let (Place::Own(i) | Place::Free(i) | Place::Shared(i)) = place;
        if matches!(place, Place::Shared(_)) {
            shared.collisions.note(tuple, self.flows[i].tuple, cx);
        }
        let set = self.sets[i];
        if set == Set::None || matches!(place, Place::Shared(_)) {
            if set == Set::Bulk {
                self.leave_bulk(i, isolation);
            }
            let (source, destination) = isolation.hosts(tuple);
            if isolation.sources {
                self.flows[i].source = self.sources.place(source);
            }
            if isolation.destinations {
                self.flows[i].destination = self.destinations.place(destination);
            }
            if set == Set::Bulk {
                self.enter_bulk(i, isolation);
            }
        }
        self.tags[i] = hash;
        self.flows[i].tuple = tuple;
        i
    }

    fn enter_bulk(&mut self, i: usize, isolation: Isolation) {
        self.sets[i] = Set::Bulk;
        let flow = &self.flows[i];
        if isolation.sources {
            self.sources.add(flow.source);
        }
        if isolation.destinations {
            self.destinations.add(flow.destination);
        }
    }

    fn leave_bulk(&mut self, i: usize, isolation: Isolation) {
        let flow = &self.flows[i];
        if isolation.sources {
            self.sources.remove(flow.source);
        }
        if isolation.destinations {
            self.destinations.remove(flow.destination);
        }
    }

    /// Credit of a round for queue `i`.
    #[inline]
    fn round_credit(&mut self, i: usize, shared: &mut SharedByTins) -> i64 {
        let (flow, isolation) = (&self.flows[i], shared.isolation);
        let source = if isolation.sources { self.sources.bulk(flow.source) } else { 0 };
        let destination = if isolation.destinations { self.destinations.bulk(flow.destination) } else { 0 };
        credit(self.flow_quantum, source.max(destination), shared.rng.next_u64() >> 48)
    }

    /// Takes the packet at the head of queue `i` and puts it into `packet`. False: there is none.
    pub(super) fn pop(&mut self, i: usize, packet: &mut Packet, shared: &mut SharedByTins) -> bool {
        shared.pool.pop_some(&mut self.flows[i].fifo, 1, packet)
    }

    /// A packet with `size` bytes has left queue `i`.
    pub(super) fn shrink(&mut self, i: usize, size: u64) {
        self.bytes[i] -= size;
        self.packets -= 1;
        self.longest.shrunk(i, &self.bytes);
        if self.packets == 0 && self.homes.len() > HOMES_KEPT {
            self.homes = Vec::new();
        }
    }

    /// Whose turn it is; decaying queues get one turn in each dequeue.
    #[inline]
    pub(super) fn turn(&self, is_first: bool) -> Option<usize> {
        let decaying = self.lists.first(List::Idle);
        decaying.filter(|_| is_first).or_else(|| self.lists.turn().map(|(i, _)| i)).or(decaying)
    }

    /// A queue without credit gets some and goes to the end of the old rotation.
    pub(super) fn renew(&mut self, i: usize, shared: &mut SharedByTins) {
        if self.sets[i] == Set::Sparse {
            if self.flows[i].fifo.is_empty() {
                self.sets[i] = Set::SparseWait;
            } else {
                self.enter_bulk(i, shared.isolation);
            }
        }
        self.flows[i].deficit += self.round_credit(i, shared);
        self.lists.put(i, List::Old);
    }

    /// A queue in its turn is empty: it leaves, or decays.
    pub(super) fn retire(&mut self, i: usize, isolation: Isolation, now: Time) {
        match self.sets[i] {
            Set::Bulk => {
                self.leave_bulk(i, isolation);
                self.active -= 1;
            }
            Set::Sparse | Set::SparseWait => self.active -= 1,
            Set::None | Set::Decaying => {}
        }
        let flow = &mut self.flows[i];
        flow.cobalt.on_empty(&self.cobalt, now);
        if flow.cobalt.is_at_rest(now) {
            self.sets[i] = Set::None;
            self.lists.remove(i);
        } else {
            self.sets[i] = Set::Decaying;
            self.lists.put(i, List::Idle);
        }
    }

    /// Fetches what the queues behind `i` in its rotation need.
    #[inline]
    pub(super) fn fetch_behind(&self, i: usize, pool: &Pool) {
        self.lists.fetch_behind(i, &self.flows, |flow| &flow.fifo, pool);
    }

    /// It has sent a packet of `time` at its rate.
    #[inline]
    pub(super) fn charge(&mut self, bytes: u64, now: Time) {
        let Some(rate) = self.rate else { return };
        let time = rate.time_for(knee_core::Bytes(bytes));
        if self.time_next < now {
            self.time_next += time;
        } else {
            self.time_next = self.time_next.max(now + time);
        }
    }
}
