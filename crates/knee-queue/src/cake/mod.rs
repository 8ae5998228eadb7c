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
//! The shaper lets the next packet go size / bandwidth after the last was due; `overhead`, `linklayer` and `mpu` say
//! what size is (`Framing`). Packets go to tins by DSCP (`diffserv`), which have queues and COBALT of their own;
//! `ack_filter` thins ACKs. Where all packets together take more memory than there is, the longest queue loses its
//! head and its COBALT hears of it.
//!
//! Source: Linux net/sched/sch_cake.c (6.12); Hoeiland-Joergensen, Taht and Morton, Piece of CAKE, 2018.
//! Left out: NAT (hosts have addresses of their own), precedence, wash, ingress mode, the estimate of the bandwidth.
//! CAKE-MQ (Linux 7.0) has one of these on each transmit queue of a device, which share the bandwidth by how many of
//! them are busy: links here have one transmit queue, where it is `cake`.
//!
//! Hosts are not modelled: flow f comes from host f / `flows_per_source` and goes to host f / `flows_per_destination`,
//! rounded down; its ACKs go the other direction.
//!
//! Departures: a flow whose last packet is still queued, or shares its queue with one that is, stays with that queue,
//! so that its packets keep their order even where flows collide (Linux looks for a place anew); a packet's memory is
//! reckoned as in `fq_codel`; a limit, where one is given, is on packets, bytes or time, in place of Linux's 10,240
//! full frames of memory.

mod ack_filter;
mod cobalt;
mod diffserv;
mod longest;
#[cfg(test)]
mod tests;
mod tin;
mod ways;

use crate::Entry;
use crate::bound::Bound;
use crate::fq_codel::memory;
use crate::hash::{Collisions, FlowHash};
use crate::overhead::Overhead;
use crate::pool::Pool;
use crate::{Backlog, Burst, Bursts, Context, Init, Queue, Resize, Verdict};
use cobalt::CobaltSettings;
use diffserv::{Diffserv, Part};
use knee_core::convert::{saturating_i64, saturating_u32};
use knee_core::{Bytes, Packet, Rate, Rng, Time, Tuple, choice, params};
use knee_link::{Framing, LinkLayer};
use std::cmp::Reverse;
use tin::{SharedByTins, Tin};

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
    /// The parties that get equal shares.
    enum Shares {
        Triple = "triple-isolate",
        Sources = "dual-srchost",
        Destinations = "dual-dsthost",
        Flows = "flows",
        FlowBlind = "flowblind",
    }
}

choice! {
    /// The ACKs to drop.
    enum AckFilter {
        Off = "no-ack-filter",
        On = "ack-filter",
        Aggressive = "ack-filter-aggressive",
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
        /// bytes that the shaper counts on top of each IP packet; the default is an Ethernet header, as `raw` of tc
        overhead: Bytes = Bytes(14), in Bytes(0)..=Bytes(256), from LINUX;
        /// what the shaper takes to be below: nothing, ATM's cells of 53 bytes for 48, or PTM's codewords of 65 for 64
        linklayer: LinkLayer = LinkLayer::Ethernet, from LINUX;
        /// bytes that the shaper counts at least, overhead included
        mpu: Bytes = Bytes(0), in Bytes(0)..=Bytes(256), from LINUX;
        /// whether ACKs go that later ones in their queue make needless
        ack_filter: AckFilter = AckFilter::Off, from LINUX;
        /// tins to which packets go by their DSCP
        diffserv: Diffserv = Diffserv::Three, from LINUX;
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
/// The sets of the picture above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    None,
    Sparse,
    /// Empty, in the old rotation, counted as sparse.
    SparseWait,
    Bulk,
    Decaying,
}

/// The hosts that get equal shares, and how flows stand for hosts.
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

#[derive(Clone)]
struct Cake {
    tins: Vec<Tin>,
    diffserv: Diffserv,
    shared: SharedByTins,
    memory_limit: u64,
    bandwidth: Option<Rate>,
    /// When the shaper lets the next packet go.
    time_next: Time,
    /// Without a shaper: the tin whose turn it is.
    turn: usize,
    /// The bytes that the shaper counts for a packet.
    framing: Framing,
    ack_filter: AckFilter,
    backlog: Backlog,
    memory: u64,
    overhead: Overhead,
    /// The limit on packets, bytes or time; none unless one is given.
    bound: Option<Bound>,
    rate: Rate,
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
fn cobalt_settings(target: Time, interval: Time, bandwidth: Option<Rate>, frame: u64) -> CobaltSettings {
    let mtu_time = bandwidth.map_or(Time::ZERO, |rate| rate.time_for(Bytes(frame)));
    let raised = target.max(mtu_time.mul_div(3, 2));
    CobaltSettings { target: raised, interval: (interval + raised - target).max(raised * 2), mtu_time }
}

/// Bytes of credit in a round for a host with `load` bulk flows; `noise` is uniform in 16 bits.
fn credit(quantum: u64, load: u16, noise: u64) -> i64 {
    let share = if load > 1 { 65_535 / u64::from(load) } else { 65_535 };
    saturating_i64((quantum * share + noise) >> 16)
}

impl Cake {
    fn new(params: &Params, init: &Init) -> Self {
        let mut rng = init.rng.clone();
        let overhead = Overhead::of(init);
        let frame = overhead.frame();
        let bandwidth = Some(params.bandwidth).filter(|&rate| rate != Rate::ZERO);
        let memory_limit = match (params.memlimit.0, bandwidth) {
            (0, Some(rate)) => rate.bytes_in(params.interval * 4).0.max(4 << 20),
            (0, None) => u64::MAX,
            (given, _) => given,
        };
        let unlimited = init.limit.is_none() && params.memlimit.0 == 0;
        let tin = |part: Part| {
            let rate = bandwidth.map(|bandwidth| part.rate(bandwidth));
            let flow_quantum = rate.map_or(QUANTUM.1, |r| (r.as_bytes_per_sec() >> 12).clamp(QUANTUM.0, QUANTUM.1));
            Tin::new(cobalt_settings(params.target, params.interval, rate, frame), flow_quantum, part, rate)
        };
        let framing = Framing {
            overhead: saturating_u32(params.overhead.0),
            mpu: saturating_u32(params.mpu.0),
            linklayer: params.linklayer,
        };
        Self {
            tins: params.diffserv.parts().into_iter().map(tin).collect(),
            diffserv: params.diffserv,
            memory_limit: if unlimited { memory_limit.min(DEFAULT_FRAMES * frame) } else { memory_limit },
            bandwidth,
            time_next: Time::ZERO,
            turn: 0,
            framing,
            ack_filter: params.ack_filter,
            shared: SharedByTins {
                hash: FlowHash::new(&mut rng),
                collisions: Collisions::default(),
                isolation: Isolation::new(params, &mut rng),
                pool: Pool::new(),
                rng,
            },
            backlog: Backlog::default(),
            memory: 0,
            overhead,
            bound: init.limit.map(|limit| Bound::new(limit, init.rate)),
            rate: init.rate,
        }
    }

    /// A packet has left a queue.
    fn discount(&mut self, tin: usize, i: usize, packet: &Packet) {
        let size = self.overhead.wire_size(packet);
        self.tins[tin].shrink(i, size);
        self.backlog.packets -= 1;
        self.backlog.bytes.0 -= size;
        self.memory -= memory(packet);
    }

    /// Takes the packet at the head of queue `i` of a tin and puts it into `packet`. False: there is none.
    fn pop(&mut self, tin: usize, i: usize, packet: &mut Packet) -> bool {
        let popped = self.tins[tin].pop(i, packet, &mut self.shared);
        if popped {
            self.discount(tin, i, packet);
        }
        popped
    }

    fn is_over(&self) -> bool {
        let fits = self.bound.is_none_or(|bound| bound.holds(self.backlog.packets, self.backlog.bytes.0));
        !fits || self.memory > self.memory_limit
    }

    /// True if the limits would not hold with `count` more packets like `packet`.
    fn would_be_over(&self, packet: &Packet, count: u32) -> bool {
        let count = u64::from(count);
        let (packets, bytes) =
            (self.backlog.packets + count, self.backlog.bytes.0 + self.overhead.wire_size(packet) * count);
        let fits = self.bound.is_none_or(|bound| bound.holds(packets, bytes));
        !fits || self.memory + memory(packet) * count > self.memory_limit
    }

    /// Drops heads of the longest queue until the limits hold.
    #[cold]
    fn shed(&mut self, cx: &mut Context) {
        while self.is_over() {
            let longest = self.tins.iter_mut().enumerate().filter(|(_, tin)| tin.packets > 0).map(|(t, tin)| {
                let i = tin.longest.find(&tin.bytes);
                (tin.bytes[i], t, i)
            });
            let mut packet = Packet::default();
            let Some((_, tin, i)) = longest.max_by_key(|longest| longest.0) else { return };
            if !self.pop(tin, i, &mut packet) {
                return;
            }
            let Tin { flows, cobalt, .. } = &mut self.tins[tin];
            flows[i].cobalt.on_overflow(cobalt, cx.now);
            cx.dropped.push(packet);
        }
    }

    /// The tin that is served. With a shaper: the last of those within their rates, else the first to be within.
    /// Without one: in turn.
    #[inline]
    fn choose_tin(&mut self, now: Time) -> Option<usize> {
        if self.tins.len() == 1 {
            return Some(0);
        }
        if self.bandwidth.is_none() {
            return self.tin_in_turn();
        }
        let busy = self.tins.iter().enumerate().filter(|(_, tin)| tin.active > 0);
        // The last one of equals wins.
        busy.min_by_key(|(t, tin)| (tin.time_next.saturating_sub(now), Reverse(*t))).map(|(t, _)| t)
    }

    /// Deficit round robin among the tins (Linux cake_dequeue, unlimited mode).
    fn tin_in_turn(&mut self) -> Option<usize> {
        if self.tins.iter().all(|tin| tin.active == 0) {
            return None;
        }
        loop {
            let tin = &mut self.tins[self.turn];
            if tin.deficit >= 0 && tin.active > 0 {
                return Some(self.turn);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum;
            }
            self.turn = (self.turn + 1) % self.tins.len();
        }
    }

    /// Puts the next packet of queue `i` that COBALT lets go into `packet`; the last one in a queue always. False:
    /// there is none.
    #[inline]
    fn pass(&mut self, tin: usize, i: usize, packet: &mut Packet, cx: &mut Context) -> bool {
        while self.pop(tin, i, packet) {
            let Tin { flows, cobalt, .. } = &mut self.tins[tin];
            let drop = flows[i].cobalt.judge(cobalt, packet, &mut self.shared.rng, cx);
            if !drop || flows[i].fifo.is_empty() {
                return true;
            }
            cx.dropped.push(*packet);
        }
        false
    }

    /// Takes in `count` packets that differ by their segments only; gives their tin and queue.
    #[inline]
    fn take(&mut self, first: Packet, count: u32, cx: &mut Context) -> (usize, usize) {
        let tin = self.diffserv.tin(cx.dscp(&first));
        let size = self.overhead.wire_size(&first) * u64::from(count);
        if self.backlog.packets == 0 {
            self.time_next = self.time_next.max(cx.now);
        }
        let i = self.tins[tin].take(first, count, size, &mut self.shared, cx);
        self.backlog.packets += u64::from(count);
        self.backlog.bytes.0 += size;
        self.memory += memory(&first) * u64::from(count);
        if self.ack_filter != AckFilter::Off && first.has(Packet::ACK) && !first.has(Packet::SYN) {
            self.filter_acks(tin, i, &first, cx);
        }
        (tin, i)
    }

    /// Drops an ACK that `new`, the last packet of queue `i`, makes needless. Nobody sees what is inside a tunnel.
    fn filter_acks(&mut self, tin: usize, i: usize, new: &Packet, cx: &mut Context) {
        let fifo = &mut self.tins[tin].flows[i].fifo;
        if fifo.len() < 2 || cx.tuple(new).is_tunnel() {
            return;
        }
        let pool = &mut self.shared.pool;
        let places = pool.places(fifo).count();
        let before = pool.places(fifo).take(places - 1);
        if let Some(n) = ack_filter::needless(before, new, self.ack_filter == AckFilter::Aggressive) {
            let old = pool.remove(fifo, n);
            self.discount(tin, i, &old);
            cx.dropped.push(old);
        }
    }
}

impl Queue for Cake {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let (tin, i) = self.take(packet, 1, cx);
        if self.is_over() {
            self.shed(cx);
            // Heads go first: the packet itself went if nothing is left.
            if self.tins[tin].flows[i].fifo.is_empty() {
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
            let Some(t) = self.choose_tin(cx.now) else { return 0 };
            let Some(i) = self.tins[t].turn(is_first) else { return 0 };
            is_first = false;
            if self.tins[t].flows[i].deficit <= 0 {
                self.tins[t].renew(i, &mut self.shared);
                continue;
            }
            if !self.pass(t, i, first, cx) {
                self.tins[t].retire(i, self.shared.isolation, cx.now);
                continue;
            }
            let tin = &mut self.tins[t];
            tin.fetch_behind(i, &self.shared.pool);
            let bytes = self.framing.bytes(first.size);
            tin.flows[i].deficit -= saturating_i64(bytes);
            tin.deficit -= saturating_i64(bytes);
            if let Some(rate) = self.bandwidth {
                tin.charge(bytes, cx.now);
                self.time_next += rate.time_for(Bytes(bytes));
            }
            self.tins.iter_mut().for_each(|tin| tin.longest.on_dequeue());
            return 1;
        }
        0
    }
}
