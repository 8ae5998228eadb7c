//! `cake`: a queue per flow, fair among hosts and then among flows, each under COBALT, behind a shaper of its own.
//!
//! Flows go by set-associative hashing (`ways`) to 1024 queues; deficit round robin with a place for sparse flows
//! (DRR++) serves them:
//!
//! ```text
//!           packet comes              credit used up, more waiting          empty
//!   none ----------------> sparse -------------------------------> bulk ----------------.
//!    ^  ^                    |  | credit used up, empty              ^                  |
//!    |  |             empty  |  '---------> sparse-wait -------------'                  |
//!    |  |                    v                   |     packet comes                     v
//!    |  '-------------- at rest? <---------------'-------------------------------- at rest?
//!    '-- COBALT at rest -- decaying <-- no --'           (a packet makes it sparse again)
//! ```
//!
//! Isolation among hosts: a queue's credit is `quantum` / max(1, bulk flows of its source, bulk flows of its
//! destination), with a random remainder so that rounding does not add up ("triple").
//!
//! The shaper lets the next packet go size / bandwidth after the last was due. Where all packets together take more
//! memory than there is, the longest queue loses its head and its COBALT hears of it.
//!
//! Source: Linux net/sched/sch_cake.c (6.12); Hoeiland-Joergensen, Taht and Morton, Piece of CAKE, 2018. One tin
//! (besteffort), no ACK filter, no overhead beyond the link's, no ingress mode, no estimate of the bandwidth.
//! CAKE-MQ (Linux 7.0) has one of these on each transmit queue of a device, which share the bandwidth by how many of
//! them are busy: links here have one transmit queue, where it is `cake`.
//!
//! Hosts are not modelled: flow f comes from host f / `flows_per_source` and goes to host f / `flows_per_destination`,
//! rounded down; its ACKs go the other direction.
//!
//! Departures: a flow whose last packet is still queued, or shares its queue with one that is, stays with that queue,
//! so that its packets keep their order even where flows collide (Linux looks for a place anew); COBALT starts with
//! 1/sqrt(count) = 1 rather than 0, as the recorded runs behave; a packet's memory is reckoned as in `fq_codel`; a
//! limit, where one is given, is on packets, bytes or time, in place of Linux's 10,240 full frames of memory.

mod chain;
mod cobalt;
mod longest;
#[cfg(test)]
mod tests;
mod ways;

use crate::Entry;
use crate::bound::Bound;
use crate::fq_codel::memory;
use crate::hash::{Collisions, FlowHash};
use crate::pool::{Fifo, Pool};
use crate::{Backlog, Burst, Bursts, Context, Init, Queue, Resize, Verdict};
use chain::{Chain, Rotation};
use cobalt::{Settings, State};
use knee_core::cache::fetch;
use knee_core::convert::{index_u16, saturating_i64};
use knee_core::packet::MTU;
use knee_core::{Bytes, Packet, Rate, Rng, Time, Tuple, choice, params};
use longest::Longest;
use ways::{Hosts, PLACES, Place};

const LINUX: &str = "Linux cake_init; tc-cake(8)";

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "cake",
    about: "common applications kept enhanced: fair among hosts and flows, COBALT, its own shaper",
    source: "Linux net/sched/sch_cake.c; Hoeiland-Joergensen et al. 2018",
    params: Params::DECLARED,
    make: |params, init| Box::new(Cake::new(&params.into(), init)),
};

choice! {
    /// Who gets equal shares.
    enum Shares {
        Triple = "triple-isolate",
        Sources = "dual-srchost",
        Destinations = "dual-dsthost",
        Flows = "flows",
        FlowBlind = "flowblind",
    }
}

params! {
    /// Cake's parameters.
    struct Params {
        /// rate of the shaper; 0: unlimited
        bandwidth: Rate = Rate::ZERO, in Rate::ZERO..=Rate::MAX, from LINUX;
        /// delay that may stand; at least one and a half full frames at the shaper's rate
        target: Time = Time::from_millis(5), in Time::from_micros(1)..=Time::from_secs(10), from LINUX;
        /// time until the first signal; `rtt` of tc
        interval: Time = Time::from_millis(100), in Time::from_micros(1)..=Time::from_secs(100), from LINUX;
        /// most memory of all packets; 0: four intervals at the shaper's rate and at least 4 MiB
        memlimit: Bytes = Bytes(0), in Bytes(0)..=Bytes(u32::MAX as u64), from LINUX;
        /// who gets equal shares: flows and hosts on both sides, on one side, flows alone, or nobody
        isolation: Shares = Shares::Triple, from LINUX;
        /// flows that come from one host; 0: all
        flows_per_source: u64 = 1, in 0..=1 << 20, from "knee";
        /// flows that go to one host; 0: all
        flows_per_destination: u64 = 1, in 0..=1 << 20, from "knee";
    }
}

/// Full frames whose memory is the limit where none is given (Linux cake_init).
const DEFAULT_FRAMES: u64 = 10_240;
/// Most and least credit of a round, in bytes (Linux cake_set_rate).
const QUANTUM: (u64, u64) = (300, 1514);
/// No queue.
const NOWHERE: u16 = u16::MAX;
/// Entries of `Cake::homes` kept when nothing is queued.
const HOMES_KEPT: usize = 8192;

/// Where a queue is in the picture above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    None,
    Sparse,
    /// Empty, in the old rotation, counted as sparse.
    SparseWait,
    Bulk,
    Decaying,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct CakeFlow {
    fifo: Fifo,
    deficit: i64,
    cobalt: State,
    source: u16,
    destination: u16,
    tuple: Tuple,
}

// One line of the cache.
const _: () = assert!(size_of::<CakeFlow>() == 64);

/// Which hosts get equal shares, and how flows stand for hosts.
#[derive(Clone, Copy, Debug)]
struct Isolation {
    sources: bool,
    destinations: bool,
    flows: bool,
    per_source: u64,
    per_destination: u64,
    /// Perturbs the hashes of hosts.
    perturbation: u64,
}

struct Cake {
    cobalt: Settings,
    isolation: Isolation,
    quantum: u64,
    memory_limit: u64,
    bandwidth: Option<Rate>,
    /// When the shaper lets the next packet go.
    time_next: Time,
    hash: FlowHash,
    collisions: Collisions,
    flows: Vec<CakeFlow>,
    /// Where each queue is; apart, as a search goes through eight.
    sets: Vec<Set>,
    /// Hash of the flow that each queue is reserved for.
    tags: Vec<u32>,
    /// Bytes in each queue.
    bytes: Vec<u64>,
    /// The queue that the last packet of each 5-tuple went to.
    homes: Vec<u16>,
    sources: Hosts,
    destinations: Hosts,
    chain: Chain,
    longest: Longest,
    pool: Pool,
    backlog: Backlog,
    memory: u64,
    overhead: u64,
    /// Where a limit was given.
    bound: Option<Bound>,
    rate: Rate,
    rng: Rng,
}

impl Isolation {
    fn new(params: &Params, rng: &mut Rng) -> Self {
        Self {
            sources: matches!(params.isolation, Shares::Triple | Shares::Sources),
            destinations: matches!(params.isolation, Shares::Triple | Shares::Destinations),
            flows: params.isolation != Shares::FlowBlind,
            per_source: params.flows_per_source,
            per_destination: params.flows_per_destination,
            perturbation: rng.next_u64() | 1,
        }
    }

    /// Hashes of the packet's source and destination.
    fn hosts(&self, tuple: Tuple) -> (u32, u32) {
        let hash =
            |host: u64| ((host + 1).wrapping_mul(self.perturbation).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let flow = u64::from(tuple.flow());
        let sender = hash(2 * flow.checked_div(self.per_source).unwrap_or(0));
        let receiver = hash(2 * flow.checked_div(self.per_destination).unwrap_or(0) + 1);
        if tuple.is_backward() { (receiver, sender) } else { (sender, receiver) }
    }
}

/// COBALT's settings for a shaper (Linux cake_set_rate): no target below one and a half full frames.
fn cobalt_settings(target: Time, interval: Time, bandwidth: Option<Rate>, frame: u64) -> Settings {
    let mtu_time = bandwidth.map_or(Time::ZERO, |rate| rate.time_for(Bytes(frame)));
    let raised = target.max(mtu_time.mul_div(3, 2));
    Settings { target: raised, interval: (interval + raised - target).max(raised * 2), mtu_time }
}

/// Bytes of credit in a round for a host with `load` bulk flows; `noise` is uniform in 16 bits.
fn credit(quantum: u64, load: u16, noise: u64) -> i64 {
    let share = if load > 1 { 65_535 / u64::from(load) } else { 65_535 };
    saturating_i64((quantum * share + noise) >> 16)
}

impl Cake {
    fn new(params: &Params, init: &Init) -> Self {
        let mut rng = init.rng.clone();
        let overhead = u64::from(init.overhead);
        let frame = u64::from(MTU) + overhead;
        let bandwidth = Some(params.bandwidth).filter(|&rate| rate != Rate::ZERO);
        let memory_limit = match (params.memlimit.0, bandwidth) {
            (0, Some(rate)) => rate.bytes_in(params.interval * 4).0.max(4 << 20),
            (0, None) => u64::MAX,
            (given, _) => given,
        };
        let unlimited = init.limit.is_none() && params.memlimit.0 == 0;
        let flow = CakeFlow {
            fifo: Fifo::EMPTY,
            deficit: 0,
            cobalt: State::NEW,
            source: 0,
            destination: 0,
            tuple: Tuple::NONE,
        };
        Self {
            cobalt: cobalt_settings(params.target, params.interval, bandwidth, frame),
            quantum: bandwidth.map_or(QUANTUM.1, |rate| (rate.as_bytes_per_sec() >> 12).clamp(QUANTUM.0, QUANTUM.1)),
            memory_limit: if unlimited { memory_limit.min(DEFAULT_FRAMES * frame) } else { memory_limit },
            bandwidth,
            time_next: Time::ZERO,
            hash: FlowHash::new(&mut rng),
            collisions: Collisions::default(),
            isolation: Isolation::new(params, &mut rng),
            flows: vec![flow; PLACES],
            sets: vec![Set::None; PLACES],
            tags: vec![0; PLACES],
            bytes: vec![0; PLACES],
            homes: Vec::new(),
            sources: Hosts::new(),
            destinations: Hosts::new(),
            chain: Chain::new(),
            longest: Longest::new(),
            pool: Pool::new(),
            backlog: Backlog::default(),
            memory: 0,
            overhead,
            bound: init.limit.map(|limit| Bound::new(limit, init.rate)),
            rate: init.rate,
            rng,
        }
    }

    fn wire_size(&self, packet: &Packet) -> u64 {
        u64::from(packet.size) + self.overhead
    }

    /// The queue for `packet`.
    #[inline]
    fn queue_for(&mut self, packet: &Packet, cx: &mut Context) -> usize {
        if !self.isolation.flows {
            return 0;
        }
        let key = 2 * packet.flow as usize + usize::from(packet.has(Packet::ACK));
        let home = self.homes.get(key).copied().unwrap_or(NOWHERE);
        if home != NOWHERE && self.bytes[usize::from(home)] > 0 {
            return usize::from(home);
        }
        let i = self.find_place(packet, cx);
        if self.homes.len() <= key {
            self.homes.resize(key + 1, NOWHERE);
        }
        self.homes[key] = index_u16(i);
        i
    }

    fn find_place(&mut self, packet: &Packet, cx: &mut Context) -> usize {
        let tuple = cx.tuple(packet);
        let hash = self.hash.hash(tuple);
        let (tags, sets) = (&self.tags, &self.sets);
        let place = ways::find(hash, |i| tags[i] == hash, |i| sets[i] == Set::None);
        let (Place::Own(i) | Place::Free(i) | Place::Shared(i)) = place;
        if matches!(place, Place::Shared(_)) {
            self.collisions.note(tuple, self.flows[i].tuple, cx);
        }
        let set = self.sets[i];
        if set == Set::None || matches!(place, Place::Shared(_)) {
            if set == Set::Bulk {
                self.leave_bulk(i);
            }
            let (source, destination) = self.isolation.hosts(tuple);
            if self.isolation.sources {
                self.flows[i].source = self.sources.place(source);
            }
            if self.isolation.destinations {
                self.flows[i].destination = self.destinations.place(destination);
            }
            if set == Set::Bulk {
                self.enter_bulk(i);
            }
        }
        self.tags[i] = hash;
        self.flows[i].tuple = tuple;
        i
    }

    fn enter_bulk(&mut self, i: usize) {
        self.sets[i] = Set::Bulk;
        let flow = &self.flows[i];
        if self.isolation.sources {
            self.sources.add(flow.source);
        }
        if self.isolation.destinations {
            self.destinations.add(flow.destination);
        }
    }

    fn leave_bulk(&mut self, i: usize) {
        let flow = &self.flows[i];
        if self.isolation.sources {
            self.sources.remove(flow.source);
        }
        if self.isolation.destinations {
            self.destinations.remove(flow.destination);
        }
    }

    /// Credit of a round for queue `i`.
    #[inline]
    fn round_credit(&mut self, i: usize) -> i64 {
        let flow = &self.flows[i];
        let source = if self.isolation.sources { self.sources.bulk(flow.source) } else { 0 };
        let destination = if self.isolation.destinations { self.destinations.bulk(flow.destination) } else { 0 };
        credit(self.quantum, source.max(destination), self.rng.next_u64() >> 48)
    }

    /// Takes the packet at the head of queue `i` and puts it into `packet`. False: there is none.
    fn pop(&mut self, i: usize, packet: &mut Packet) -> bool {
        if !self.pool.pop_some(&mut self.flows[i].fifo, 1, packet) {
            return false;
        }
        let size = self.wire_size(packet);
        self.bytes[i] -= size;
        self.backlog.packets -= 1;
        self.backlog.bytes.0 -= size;
        self.memory -= memory(packet);
        self.longest.shrunk(i, &self.bytes);
        if self.backlog.packets == 0 && self.homes.len() > HOMES_KEPT {
            self.homes = Vec::new();
        }
        true
    }

    fn is_over(&self) -> bool {
        let fits = self.bound.is_none_or(|bound| bound.holds(self.backlog.packets, self.backlog.bytes.0));
        !fits || self.memory > self.memory_limit
    }

    /// Whether the limits would not hold with `count` more packets like `packet`.
    fn would_be_over(&self, packet: &Packet, count: u32) -> bool {
        let count = u64::from(count);
        let (packets, bytes) = (self.backlog.packets + count, self.backlog.bytes.0 + self.wire_size(packet) * count);
        let fits = self.bound.is_none_or(|bound| bound.holds(packets, bytes));
        !fits || self.memory + memory(packet) * count > self.memory_limit
    }

    /// Drops heads of the longest queue until the limits hold.
    #[cold]
    fn shed(&mut self, cx: &mut Context) {
        while self.is_over() {
            let i = self.longest.find(&self.bytes);
            let mut packet = Packet::default();
            if !self.pop(i, &mut packet) {
                return;
            }
            self.flows[i].cobalt.on_overflow(&self.cobalt, cx.now);
            cx.dropped.push(packet);
        }
    }

    /// Whose turn it is; decaying queues get one turn in each dequeue.
    #[inline]
    fn turn(&self, is_first: bool) -> Option<usize> {
        let decaying = self.chain.first(Rotation::Decaying);
        decaying
            .filter(|_| is_first)
            .or_else(|| self.chain.first(Rotation::New))
            .or_else(|| self.chain.first(Rotation::Old))
            .or(decaying)
    }

    /// A queue without credit gets some and goes to the end of the old rotation.
    fn renew(&mut self, i: usize) {
        if self.sets[i] == Set::Sparse {
            if self.flows[i].fifo.is_empty() {
                self.sets[i] = Set::SparseWait;
            } else {
                self.enter_bulk(i);
            }
        }
        self.flows[i].deficit += self.round_credit(i);
        self.chain.move_to(i, Rotation::Old);
    }

    /// A queue in its turn is empty: it leaves, or decays.
    fn retire(&mut self, i: usize, now: Time) {
        if self.sets[i] == Set::Bulk {
            self.leave_bulk(i);
        }
        let flow = &mut self.flows[i];
        flow.cobalt.on_empty(&self.cobalt, now);
        if flow.cobalt.is_at_rest(now) {
            self.sets[i] = Set::None;
            self.chain.remove(i);
        } else {
            self.sets[i] = Set::Decaying;
            self.chain.move_to(i, Rotation::Decaying);
        }
    }

    /// Puts the next packet of queue `i` that COBALT lets go into `packet`; the last one in a queue always. False:
    /// there is none.
    #[inline]
    fn pass(&mut self, i: usize, packet: &mut Packet, cx: &mut Context) -> bool {
        while self.pop(i, packet) {
            let flow = &mut self.flows[i];
            let drop = flow.cobalt.judge(&self.cobalt, packet, &mut self.rng, cx);
            if !drop || flow.fifo.is_empty() {
                return true;
            }
            cx.dropped.push(*packet);
        }
        false
    }
}

impl Cake {
    /// Takes in `count` packets that differ by their segments only; gives their queue.
    #[inline]
    fn take(&mut self, first: Packet, count: u32, cx: &mut Context) -> usize {
        let i = self.queue_for(&first, cx);
        let size = self.wire_size(&first) * u64::from(count);
        if self.backlog.packets == 0 {
            self.time_next = self.time_next.max(cx.now);
        }
        self.pool.push_run(&mut self.flows[i].fifo, first, count);
        self.bytes[i] += size;
        self.backlog.packets += u64::from(count);
        self.backlog.bytes.0 += size;
        self.memory += memory(&first) * u64::from(count);
        self.longest.grown(i, &self.bytes);
        match self.sets[i] {
            Set::None | Set::Decaying => {
                self.sets[i] = Set::Sparse;
                self.flows[i].deficit = self.round_credit(i);
                self.chain.move_to(i, Rotation::New);
            }
            Set::SparseWait => self.enter_bulk(i),
            Set::Sparse | Set::Bulk => {}
        }
        i
    }
}

impl Queue for Cake {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let i = self.take(packet, 1, cx);
        if self.is_over() {
            self.shed(cx);
            // Heads go first: the packet itself went if nothing is left.
            if self.flows[i].fifo.is_empty() {
                return Verdict::Dropped;
            }
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let mut packet = Packet::default();
        (self.dequeue_run(1, &mut packet, cx) > 0).then_some(packet)
    }

    fn next_wake(&self) -> Option<Time> {
        (self.bandwidth.is_some() && self.backlog.packets > 0).then_some(self.time_next)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        match to {
            Resize::Limit(limit) => self.bound = Some(Bound::new(limit, self.rate)),
            Resize::Rate(rate) => {
                self.rate = rate;
                self.bound = self.bound.map(|bound| bound.resized(to));
            }
        }
        self.shed(cx);
    }
}

impl Bursts for Cake {
    fn enqueue_burst(&mut self, &Burst { first, count }: &Burst, cx: &mut Context) -> u32 {
        if self.would_be_over(&first, count) {
            return 0;
        }
        self.take(first, count, cx);
        count
    }

    /// Each is for COBALT to look at: one at most.
    fn dequeue_run(&mut self, _: u32, first: &mut Packet, cx: &mut Context) -> u32 {
        let mut is_first = true;
        while self.backlog.packets > 0 {
            if self.bandwidth.is_some() && self.time_next > cx.now {
                return 0;
            }
            let Some(i) = self.turn(is_first) else { return 0 };
            is_first = false;
            if self.flows[i].deficit <= 0 {
                self.renew(i);
                continue;
            }
            if !self.pass(i, first, cx) {
                self.retire(i, cx.now);
                continue;
            }
            if let Some(next) = self.chain.after(i) {
                self.pool.fetch_head(&self.flows[next].fifo);
                if let Some(after) = self.chain.after(next) {
                    fetch(&self.flows[after]);
                }
            }
            let size = self.wire_size(first);
            self.flows[i].deficit -= saturating_i64(size);
            if let Some(rate) = self.bandwidth {
                self.time_next += rate.time_for(Bytes(size));
            }
            self.longest.on_dequeue();
            return 1;
        }
        0
    }
}
