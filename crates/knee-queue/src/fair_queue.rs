//! Flow queueing by deficit round robin as in Linux's sch_fq, with any rule for the flows' buffers: what `fq` and
//! `cocoa` share. How it works and what it follows is said in `fq`.

use crate::bound::Bound;
use crate::flow_table::FlowTable;
use crate::fq::Params;
use crate::hash::{Collisions, FlowHash};
use crate::overhead::Overhead;
use crate::pool::{Pool, PooledFifo};
use crate::round_robin::List;
use crate::{Backlog, Burst, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::convert::{non_negative, saturating_i64, saturating_u32};
use knee_core::{Bytes, Packet, Rate, Time, Tuple};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Packets held where no limit is given (Linux fq_init).
const DEFAULT_LIMIT: Limit = Limit::Packets(10_000);
/// The most packets that go past the flows into an empty queue (Linux fq_fastpath_check).
const FAST_PATH_PACKETS: u32 = 8;
/// Idle flows forgotten at one packet (Linux FQ_GC_MAX).
const GC_MAX: usize = 8;
/// The longest that pacing holds a packet back (Linux fq_dequeue).
const MAX_PACING_GAP: Time = Time::from_secs(1);

/// With more flows than these none is observed: a figure could not tell them apart.
const MAX_OBSERVED: usize = 8;

/// A rule's answer to a packet that comes to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is taken in.
    Take,
    /// It is dropped.
    Drop,
    /// It is dropped, and of those that wait all but this number.
    DropAndKeep(u32),
}

/// The rule for the buffer of a flow.
pub(crate) trait BufferRule: Send {
    /// State of the rule for each flow.
    type Flow: Send;
    /// True if several packets may leave at once without the rule seeing each.
    const RUNS: bool;
    /// True if packets may go past the flows into an empty queue.
    const FAST_PATH: bool;
    /// How long an idle flow is remembered.
    const REMEMBER: Time;

    /// A flow comes into being.
    fn start(&mut self, flow: u32, cx: &mut Context) -> Self::Flow;
    /// A packet comes and finds `held` packets of its flow.
    fn arrive(&mut self, state: &mut Self::Flow, held: u32, flow: u32, cx: &mut Context) -> Admission;
    /// How many more it takes of packets that come at once, where it need look at the first only.
    fn room(&self, state: &Self::Flow, held: u32) -> u32;
    /// A packet leaves and `held` packets stay.
    fn depart(&mut self, state: &mut Self::Flow, held: u32, packet: &Packet, now: Time);
    /// An interval of the time series ends and finds `held` packets of a flow.
    fn observe(&self, _held: u32, _flow: u32, _cx: &mut Context) {}
}

#[derive(Clone)]
struct FairQueueSettings {
    quantum: i64,
    initial_quantum: i64,
    refill_delay: Time,
    /// `None`: not paced.
    flow_max_rate: Option<Rate>,
    low_rate_threshold: Rate,
    /// `Time::MAX`: off.
    ce_threshold: Time,
    mask: u32,
    overhead: Overhead,
}

/// Flow queueing with the rule `R` for the flows' buffers.
#[derive(Clone)]
pub(crate) struct FairQueue<R: BufferRule> {
    rule: R,
    settings: FairQueueSettings,
    hash: FlowHash,
    collisions: Collisions,
    pool: Pool,
    /// Packets of the fast path.
    unclassified: PooledFifo,
    flows: FlowTable<R::Flow>,
    /// Flows that hold packets.
    backlogged: u32,
    /// Flows held back: when the next packet may leave, in which order they came, bucket.
    throttled: BinaryHeap<Reverse<(Time, u64, u32)>>,
    throttle_count: u64,
    /// No idle flow is to be forgotten before.
    gc_at: Time,
    backlog: Backlog,
    bound: Bound,
}

impl<R: BufferRule> FairQueue<R> {
    pub(crate) fn new(rule: R, params: &Params, init: &Init) -> Self {
        let settings = FairQueueSettings {
            quantum: saturating_i64(params.quantum.0),
            initial_quantum: saturating_i64(params.initial_quantum.0),
            refill_delay: params.refill_delay,
            flow_max_rate: (params.flow_max_rate > Rate::ZERO).then_some(params.flow_max_rate),
            low_rate_threshold: params.low_rate_threshold,
            ce_threshold: if params.ce_threshold == Time::ZERO { Time::MAX } else { params.ce_threshold },
            mask: params.orphan_mask,
            overhead: Overhead::of(init),
        };
        Self {
            rule,
            hash: FlowHash::new(&mut init.rng.clone()),
            collisions: Collisions::default(),
            pool: Pool::new(),
            unclassified: PooledFifo::EMPTY,
            flows: FlowTable::new(settings.mask + 1),
            settings,
            backlogged: 0,
            throttled: BinaryHeap::new(),
            throttle_count: 0,
            gc_at: Time::MAX,
            backlog: Backlog::default(),
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
        }
    }

    /// Books a packet that leaves or is dropped.
    #[inline]
    fn book_out(&mut self, packet: &Packet) {
        self.backlog.packets -= 1;
        self.backlog.bytes.0 -= self.settings.overhead.wire_size(packet);
    }

    /// The flow of a packet, made where there is none.
    #[inline]
    fn classify(&mut self, tuple: Tuple, cx: &mut Context) -> usize {
        if cx.now >= self.gc_at {
            self.forget_idle(cx.now);
        }
        let bucket = self.hash.hash(tuple) & self.settings.mask;
        let Some(i) = self.flows.find(bucket) else {
            let state = self.rule.start(tuple.flow(), cx);
            self.gc_at = self.gc_at.min(cx.now + R::REMEMBER);
            return self.flows.add(bucket, tuple, self.settings.initial_quantum, cx.now, state);
        };
        let flow = self.flows.get(i);
        if flow.tuple != tuple {
            if flow.detached_at.is_some() {
                flow.tuple = tuple;
            } else {
                self.collisions.note(tuple, flow.tuple, cx);
            }
        }
        i
    }

    /// Forgets flows that have been idle for long, a few at a time.
    #[cold]
    fn forget_idle(&mut self, now: Time) {
        for _ in 0..GC_MAX {
            let Some((i, since)) = self.flows.longest_detached() else { break };
            if now <= since + R::REMEMBER {
                break;
            }
            self.flows.remove(i);
        }
        let first = self.flows.longest_detached();
        self.gc_at = first.map_or(Time::MAX, |(_, since)| since + R::REMEMBER + Time::from_nanos(1));
    }

    /// Puts flows whose next packet is due by `now` back into the round.
    fn unthrottle(&mut self, now: Time) {
        while let Some(Reverse((due, _, bucket))) = self.throttled.peek().copied()
            && due <= now
        {
            self.throttled.pop();
            if let Some(i) = self.flows.find(bucket) {
                self.flows.lists.put(i, List::Old);
            }
        }
    }

    fn throttle(&mut self, i: usize) {
        let flow = self.flows.get(i);
        self.throttled.push(Reverse((flow.next_packet_at, self.throttle_count, flow.bucket)));
        self.throttle_count += 1;
        self.flows.lists.remove(i);
    }

    /// A flow whose turn it is has nothing: a new one passes through the old ones, an old one is detached.
    fn run_empty(&mut self, i: usize, list: List, now: Time) {
        if list == List::New {
            self.flows.lists.put(i, List::Old);
        } else {
            self.flows.detach(i, now);
            self.gc_at = self.gc_at.min(now + R::REMEMBER);
        }
    }

    /// True if a packet that comes goes past the flows.
    #[inline]
    fn takes_fast_path(&self) -> bool {
        R::FAST_PATH
            && self.backlogged == 0
            && self.unclassified.len() < FAST_PATH_PACKETS
            && self.settings.flow_max_rate.is_none()
    }

    /// Puts packets that differ by their segments only into a flow, and an idle flow into the round.
    #[inline]
    fn hold(&mut self, i: usize, first: Packet, count: u32, cx: &Context) {
        let flow = self.flows.get(i);
        self.backlogged += u32::from(flow.fifo.is_empty());
        self.pool.push_run(&mut flow.fifo, first, count);
        if let Some(since) = flow.detached_at.take() {
            if cx.now > since + self.settings.refill_delay {
                flow.credit = flow.credit.max(self.settings.quantum);
            }
            self.flows.lists.put(i, List::New);
        }
    }

    /// Takes the packet at the head of a flow, and of those of its burst as many as its credit lets go in this turn, at
    /// most `most` in all; puts the first into `first`, and gives how many.
    #[inline]
    fn take(&mut self, i: usize, most: u32, first: &mut Packet, now: Time) -> u32 {
        let flow = self.flows.get(i);
        let mut some = 1;
        if R::RUNS && most > 1 {
            let Some((head, alike)) = self.pool.head(&flow.fifo) else { return 0 };
            let size = self.settings.overhead.wire_size(head);
            let by_credit = non_negative(flow.credit.max(1)).div_ceil(size);
            some = alike.min(most).min(saturating_u32(by_credit));
        }
        if !self.pool.pop_some(&mut flow.fifo, some, first) {
            return 0;
        }
        let held = flow.fifo.len();
        self.rule.depart(&mut flow.state, held, first, now);
        self.backlogged -= u32::from(held == 0);
        self.backlog.packets -= u64::from(some);
        self.backlog.bytes.0 -= self.settings.overhead.wire_size(first) * u64::from(some);
        some
    }

    /// The next packets to send, at most `most`, as [`Bursts::dequeue_run`].
    #[inline]
    fn next(&mut self, most: u32, first: &mut Packet, cx: &mut Context) -> u32 {
        if self.backlog.packets == 0 {
            return 0;
        }
        if self.pool.pop_some(&mut self.unclassified, 1, first) {
            self.book_out(first);
            return 1;
        }
        if !self.throttled.is_empty() {
            self.unthrottle(cx.now);
        }
        loop {
            let Some((i, list)) = self.flows.lists.turn() else { return 0 };
            let flow = self.flows.get(i);
            if flow.credit <= 0 {
                flow.credit += self.settings.quantum;
                self.flows.lists.put(i, List::Old);
                continue;
            }
            let due = flow.next_packet_at;
            if due > cx.now && !flow.fifo.is_empty() {
                self.throttle(i);
                continue;
            }
            let count = self.take(i, most, first, cx.now);
            if count == 0 {
                self.run_empty(i, list, cx.now);
                continue;
            }
            if cx.now.saturating_sub(due.max(first.at)) > self.settings.ce_threshold {
                cx.mark(first);
            }
            self.flows.lists.fetch_behind(i, self.flows.all(), |flow| &flow.fifo, &self.pool);
            let size = self.settings.overhead.wire_size(first);
            self.flows.get(i).credit -= saturating_i64(size) * i64::from(count);
            if let Some(rate) = self.settings.flow_max_rate {
                self.pace(i, rate, size, cx.now);
            }
            return count;
        }
    }

    /// Sets when a paced flow may send again after `bytes`.
    fn pace(&mut self, i: usize, rate: Rate, bytes: u64, now: Time) {
        let quantum = self.settings.quantum;
        let by_packet = rate <= self.settings.low_rate_threshold;
        let flow = self.flows.get(i);
        if by_packet {
            flow.credit = 0;
        } else if flow.credit > 0 {
            return;
        }
        let bytes = if by_packet { bytes } else { bytes.max(non_negative(quantum)) };
        let mut gap = rate.time_for(Bytes(bytes)).min(MAX_PACING_GAP);
        if flow.next_packet_at > Time::ZERO {
            // Makes up for the packet having left late, by half a gap at most.
            gap -= (gap / 2).min(now - flow.next_packet_at);
        }
        flow.next_packet_at = now + gap;
    }

    /// Drops at the heads of the flows in turn until the limit holds.
    fn shed(&mut self, cx: &mut Context) {
        if self.bound.holds(self.backlog.packets, self.backlog.bytes.0) {
            return;
        }
        // Flows held back take their share too; the round holds them back again.
        self.unthrottle(Time::MAX);
        while !self.bound.holds(self.backlog.packets, self.backlog.bytes.0) {
            let packet = if let Some(packet) = self.pool.pop(&mut self.unclassified) {
                self.book_out(&packet);
                packet
            } else {
                let Some((i, list)) = self.flows.lists.turn() else { return };
                let mut packet = Packet::default();
                if self.take(i, 1, &mut packet, cx.now) == 0 {
                    self.run_empty(i, list, cx.now);
                    continue;
                }
                self.flows.lists.put(i, List::Old);
                packet
            };
            cx.dropped.push(packet);
        }
    }
}

#[cfg(test)]
impl<R: BufferRule> FairQueue<R> {
    /// Flows there are, flows there is memory for, packets there is memory for.
    pub(crate) fn memory(&self) -> (usize, usize, usize) {
        let (flows, room) = self.flows.size();
        (flows, room, self.pool.capacity())
    }
}

impl<R: BufferRule> Queue for FairQueue<R> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let size = self.settings.overhead.wire_size(&packet);
        if !self.bound.holds(self.backlog.packets + 1, self.backlog.bytes.0 + size) {
            cx.dropped.push(packet);
            return Verdict::Dropped;
        }
        if self.takes_fast_path() {
            self.pool.push(&mut self.unclassified, packet);
        } else {
            let tuple = cx.tuple(&packet);
            let i = self.classify(tuple, cx);
            let flow = self.flows.get(i);
            let held = flow.fifo.len();
            match self.rule.arrive(&mut flow.state, held, tuple.flow(), cx) {
                Admission::Take => {}
                Admission::Drop => {
                    cx.dropped.push(packet);
                    return Verdict::Dropped;
                }
                Admission::DropAndKeep(keep) => {
                    let (overhead, backlog) = (self.settings.overhead, &mut self.backlog);
                    self.pool.truncate(&mut flow.fifo, keep, |p| {
                        backlog.packets -= 1;
                        backlog.bytes.0 -= overhead.wire_size(&p);
                        cx.dropped.push(p);
                    });
                    self.backlogged -= u32::from(held > 0 && flow.fifo.is_empty());
                    cx.dropped.push(packet);
                    return Verdict::Dropped;
                }
            }
            self.hold(i, packet, 1, cx);
        }
        self.backlog.packets += 1;
        self.backlog.bytes.0 += size;
        Verdict::Queued
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let mut packet = Packet::default();
        (self.next(1, &mut packet, cx) > 0).then_some(packet)
    }

    fn next_wake(&self) -> Option<Time> {
        self.throttled.peek().map(|Reverse((due, ..))| *due)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        self.shed(cx);
    }

    fn observe(&self, cx: &mut Context) {
        let flows = self.flows.all();
        if flows.len() <= MAX_OBSERVED {
            for flow in flows {
                self.rule.observe(flow.fifo.len(), flow.tuple.flow(), cx);
            }
        }
    }
}

impl<R: BufferRule> Bursts for FairQueue<R> {
    fn enqueue_burst(&mut self, &Burst { first, count }: &Burst, cx: &mut Context) -> u32 {
        let size = self.settings.overhead.wire_size(&first);
        let room = self.bound.room(self.backlog.packets, self.backlog.bytes.0, size);
        if u64::from(count) > room || self.takes_fast_path() {
            return 0;
        }
        // A flow that is idle, or another's, or has no room takes the full path, packet by packet.
        let tuple = cx.tuple(&first);
        let Some(i) = self.flows.find(self.hash.hash(tuple) & self.settings.mask) else { return 0 };
        let flow = self.flows.get(i);
        let held = flow.fifo.len();
        if flow.tuple != tuple
            || flow.detached_at.is_some()
            || count > self.rule.room(&flow.state, held)
            || self.rule.arrive(&mut flow.state, held, tuple.flow(), cx) != Admission::Take
        {
            return 0;
        }
        self.hold(i, first, count, cx);
        self.backlog.packets += u64::from(count);
        self.backlog.bytes.0 += size * u64::from(count);
        // As often as for packets one by one.
        for _ in 0..count {
            if cx.now < self.gc_at {
                break;
            }
            self.forget_idle(cx.now);
        }
        count
    }

    fn dequeue_run(&mut self, most: u32, first: &mut Packet, cx: &mut Context) -> u32 {
        let each_counts = self.settings.flow_max_rate.is_some() || self.settings.ce_threshold < Time::MAX;
        self.next(if each_counts { 1 } else { most }, first, cx)
    }
}
