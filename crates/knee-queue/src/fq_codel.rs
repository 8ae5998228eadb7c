//! `fq_codel`: flows hashed into a fixed number of queues, served by deficit round robin, each under its own CoDel.
//!
//! A queue that gets a packet while it is on no list becomes new, with a quantum of credit; new queues are served
//! before old ones. Where all queues together are over the limit, or over the memory limit, the longest one (in bytes)
//! loses up to half of its bytes from its head, at most `drop_batch` packets at once.
//!
//! Source: RFC 8290 and Linux net/sched/sch_fq_codel.c (6.12), whose defaults these are. CoDel itself is in
//! `codel_law`; as in Linux its "at most an MTU left" looks at all queues together.
//!
//! Departures: a packet's memory is reckoned as the kernel allocates for a linear packet (a power of two for data,
//! headroom and shared info, and the sk_buff: 2304 bytes for a full frame, 768 for an ACK); a limit in bytes or time
//! drops in further batches where one is not enough; a lowered limit drops from the longest queues.

use crate::Entry;
use crate::bound::Bound;
use crate::codel_law::{CodelLaw, CodelParams, CodelState, Source};
use crate::hash::{Collisions, FlowHash};
use crate::overhead::Overhead;
use crate::pool::{Pool, PooledFifo};
use crate::round_robin::{List, RoundRobin};
use crate::{Backlog, Burst, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::convert::{index, index_u32, saturating_i64, saturating_u32};
use knee_core::{Bytes, Packet, Tuple, params};

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "fq_codel",
    about: "a queue per flow, deficit round robin, each under CoDel",
    source: "RFC 8290; Linux net/sched/sch_fq_codel.c",
    params: Params::DECLARED,
    make: |params, init| Box::new(FqCodel::new(&params.into(), init)),
};

params! {
    /// FQ-CoDel's parameters.
    struct Params {
        #[flatten]
        codel: CodelParams;
        /// mark beyond ce_threshold only packets whose ECN field is this in the bits of the mask: 1 for ECT(1), L4S
        ce_threshold_selector: u8 = 0, in 0..=3, from "Linux fq_codel: tc's ce_threshold_selector";
        /// the bits compared, 3 for the whole field; 0: mark all ECN-capable packets
        ce_threshold_mask: u8 = 0, in 0..=3, from "Linux fq_codel: tc's ce_threshold_selector";
        //= RFC 8290, 5.2.6
        //# ECN [RFC3168] is enabled by default.
        /// mark ECN-capable packets, not drop them
        ecn: bool = true, from "RFC 8290, 5.2.6; Linux fq_codel_init";
        //= RFC 8290, 5.2.5
        //# The default value is 1024 in the current Linux implementation.
        /// queues
        flows: u64 = 1024, in 1..=65_536, from "RFC 8290, 5.2.5; Linux fq_codel_init";
        //= RFC 8290, 5.2.4
        //# The default is set to 1514 bytes, which corresponds to the Ethernet MTU plus the hardware header length of
        //# 14 bytes.
        /// bytes a queue may send in a round
        quantum: Bytes = Bytes(1514), in Bytes(256)..=Bytes(1 << 20),
            from "RFC 8290, 5.2.4; Linux fq_codel_init: a full frame";
        /// most memory of all packets held
        memory_limit: Bytes = Bytes(32 << 20), in Bytes(4096)..=Bytes(1 << 31), from "Linux fq_codel_init";
        /// most packets dropped at once when full
        drop_batch: u64 = 64, in 1..=65_536, from "Linux fq_codel_init";
    }
}

//= RFC 8290, 5.2.3
//# In Linux, the default packet limit is 10240 packets, which is suitable for up to 10-Gigabit Ethernet speeds.
/// Packets held where no limit is given (Linux fq_codel_init).
const DEFAULT_LIMIT: Limit = Limit::Packets(10 * 1024);

/// Memory of a packet in a Linux kernel, its truesize, in bytes.
pub(crate) fn memory(packet: &Packet) -> u64 {
    const HEADROOM: u64 = 64;
    const SHARED_INFO: u64 = 320;
    const SK_BUFF: u64 = 256;
    (u64::from(packet.size) + HEADROOM + SHARED_INFO).next_power_of_two() + SK_BUFF
}

#[derive(Clone, Copy, Debug)]
struct FqCodelFlow {
    fifo: PooledFifo,
    deficit: i64,
    codel: CodelState,
    /// Whose packets it got when it became new; another's that come are a collision.
    tuple: Tuple,
}

/// The packets of all queues, and their totals.
#[derive(Clone)]
struct Store {
    pool: Pool,
    backlog: Backlog,
    memory: u64,
    overhead: Overhead,
}

/// One queue as its CoDel sees it.
struct Head<'a> {
    store: &'a mut Store,
    fifo: &'a mut PooledFifo,
    bytes: &'a mut u64,
}

impl Source for Head<'_> {
    #[inline]
    fn pop(&mut self, packet: &mut Packet) -> bool {
        if !self.store.pool.pop_some(self.fifo, 1, packet) {
            return false;
        }
        let size = self.store.overhead.wire_size(packet);
        self.store.backlog.packets -= 1;
        self.store.backlog.bytes.0 -= size;
        self.store.memory -= memory(packet);
        *self.bytes -= size;
        true
    }

    #[inline]
    fn bytes(&self) -> Bytes {
        //= RFC 8289, 4.4
        //# As an optimization to avoid queueing more than necessary, when testing for queue occupancy before
        //# dropping, the total occupancy of all queues sharing the same output link SHOULD be used.
        self.store.backlog.bytes
    }
}

#[derive(Clone)]
struct FqCodel {
    codel: CodelLaw,
    quantum: i64,
    memory_limit: u64,
    drop_batch: u64,
    hash: FlowHash,
    collisions: Collisions,
    flows: Vec<FqCodelFlow>,
    /// Bytes in each flow, apart from the rest: the search for the longest goes through all of them.
    bytes: Vec<u64>,
    store: Store,
    lists: RoundRobin,
    bound: Bound,
}

impl FqCodel {
    fn new(params: &Params, init: &Init) -> Self {
        let n = index(params.flows);
        let overhead = Overhead::of(init);
        let flow = FqCodelFlow { fifo: PooledFifo::EMPTY, deficit: 0, codel: CodelState::NEW, tuple: Tuple::NONE };
        Self {
            codel: CodelLaw::new(&params.codel, params.ecn, overhead.frame())
                .selecting(params.ce_threshold_selector, params.ce_threshold_mask),
            quantum: saturating_i64(params.quantum.0),
            memory_limit: params.memory_limit.0,
            drop_batch: params.drop_batch,
            //= RFC 8290, 4.1 (departs: the random value is the hash's key)
            //# The hash is salted by modulo addition of a random value selected at initialisation time to prevent
            //# possible DoS attacks if the hash is predictable ahead of time (see Section 8).
            hash: FlowHash::new(&mut init.rng.clone()),
            collisions: Collisions::default(),
            flows: vec![flow; n],
            bytes: vec![0; n],
            store: Store { pool: Pool::new(), backlog: Backlog::default(), memory: 0, overhead },
            lists: RoundRobin::new(n),
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
        }
    }

    fn is_over(&self) -> bool {
        let Backlog { packets, bytes } = self.store.backlog;
        //= RFC 8290, 5.2.3
        //# Routers do not have infinite memory, so some packet limit MUST be enforced.
        !self.bound.holds(packets, bytes.0) || self.store.memory > self.memory_limit
    }

    /// Takes in `count` packets that differ by their segments only; gives their queue.
    #[inline]
    fn take(&mut self, first: Packet, count: u32, cx: &mut Context) -> usize {
        let tuple = cx.tuple(&first);
        //= RFC 8290, 4.1 (departs: another hash, as in Linux; it is scaled to the number of queues)
        //# By default, this is done by hashing (using a Jenkins hash function [JENKINS]) on the 5-tuple of IP protocol,
        //# source and destination IP addresses, and source and destination port numbers (if they exist) and then taking
        //# the hash value modulo the number of queues.
        let i = self.hash.bucket(tuple, index_u32(self.flows.len())) as usize;
        let flow = &mut self.flows[i];
        let size = self.store.overhead.wire_size(&first) * u64::from(count);
        //= RFC 8290, 4.1
        //# It is then added to the tail of the selected queue, and the queue's byte count is updated by the packet
        //# size.
        self.store.pool.push_run(&mut flow.fifo, first, count);
        self.store.backlog.packets += u64::from(count);
        self.store.backlog.bytes.0 += size;
        self.store.memory += memory(&first) * u64::from(count);
        self.bytes[i] += size;
        //= RFC 8290, 4.1
        //# if the queue is not currently active (i.e., if it is not in either the list of new queues or the list of old
        //# queues), it is added to the end of the list of new queues, and its number of credits is initiated to the
        //# configured quantum.
        if !self.lists.is_listed(i) {
            flow.tuple = tuple;
            flow.deficit = self.quantum;
            self.lists.put(i, List::New);
        } else if flow.tuple != tuple {
            self.collisions.note(tuple, flow.tuple, cx);
        }
        i
    }

    /// Drops from the heads of the longest queues until the limits hold.
    #[cold]
    fn shed(&mut self, cx: &mut Context) {
        while self.is_over() {
            let mut longest = 0;
            for (i, bytes) in self.bytes.iter().enumerate() {
                if *bytes > self.bytes[longest] {
                    longest = i;
                }
            }
            let flow = &mut self.flows[longest];
            //= RFC 8290, 4.1 (departs: half of its bytes, as in Linux)
            //# If the limit is exceeded (which can happen since a packet was just enqueued), the queue with the largest
            //# current byte count is selected and half the number of packets from this queue (up to a maximum of 64
            //# packets) are dropped from the head of that queue.
            let (mut dropped, mut bytes, goal) = (0, 0, self.bytes[longest] / 2);
            let mut head = Head { store: &mut self.store, fifo: &mut flow.fifo, bytes: &mut self.bytes[longest] };
            let mut packet = Packet::default();
            while head.pop(&mut packet) {
                bytes += head.store.overhead.wire_size(&packet);
                dropped += 1;
                cx.dropped.push(packet);
                if dropped >= self.drop_batch || bytes >= goal {
                    break;
                }
            }
            // CoDel learns of it, so that its signal grows too.
            flow.codel.count = flow.codel.count.wrapping_add(saturating_u32(dropped));
        }
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let i = self.take(packet, 1, cx);
        if self.is_over() {
            self.shed(cx);
            // Drops are at the head: the packet itself went if nothing is left.
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

    fn backlog(&self) -> Backlog {
        self.store.backlog
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        self.shed(cx);
    }
}

impl Bursts for FqCodel {
    fn enqueue_burst(&mut self, &Burst { first, count }: &Burst, cx: &mut Context) -> u32 {
        let Backlog { packets, bytes } = self.store.backlog;
        let room = self.bound.room(packets, bytes.0, self.store.overhead.wire_size(&first));
        if u64::from(count) > room || self.store.memory + memory(&first) * u64::from(count) > self.memory_limit {
            return 0;
        }
        self.take(first, count, cx);
        count
    }

    /// Each is for CoDel to look at: one at most.
    fn dequeue_run(&mut self, _: u32, first: &mut Packet, cx: &mut Context) -> u32 {
        loop {
            //= RFC 8290, 4.2
            //# If the list of new queues is empty, the scheduler proceeds down the list of old queues in the same
            //# fashion
            let Some((i, list)) = self.lists.turn() else { return 0 };
            let flow = &mut self.flows[i];
            //= RFC 8290, 4.2
            //# if that queue has a negative number of credits (i.e., it has already dequeued at least a quantum of
            //# bytes), it is given an additional quantum of credits, the queue is put onto _the end of_ the list of old
            //# queues, and the routine selects the next queue and starts again.
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.lists.put(i, List::Old);
                continue;
            }
            let mut head = Head { store: &mut self.store, fifo: &mut flow.fifo, bytes: &mut self.bytes[i] };
            if self.codel.dequeue(&mut flow.codel, &mut head, first, cx) {
                //= RFC 8290, 4.2
                //# it subtracts the size of the packet from the byte credits for the selected queue and returns the
                //# packet as the result of the dequeue operation.
                flow.deficit -= saturating_i64(self.store.overhead.wire_size(first));
                self.lists.fetch_behind(i, &self.flows, |flow| &flow.fifo, &self.store.pool);
                return 1;
            }
            //= RFC 8290, 4.2 (departs: a new queue is removed where there are no old ones, as in Linux)
            //# If the queue selected for dequeue came from the list of new queues, it is moved to _the end of_ the list
            //# of old queues. If instead it came from the list of old queues, that queue is removed from the list, to
            //# be added back (as a new queue) the next time a packet arrives that hashes to that queue.
            self.lists.run_empty(i, list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};
    use knee_core::{Payload, Time, Value};

    fn packet(flow: u32, seq: u64, at: Time) -> Packet {
        Packet { at, payload: Payload::segment(seq), flow, ..FULL }
    }

    fn queue(limit: Option<Limit>, given: &[(&str, Value)]) -> FqCodel {
        FqCodel::new(&params(&ENTRY, given), &init(&ENTRY, limit, 12))
    }

    #[test]
    fn beyond_ce_threshold_the_selector_says_which_packets_are_marked() {
        let marked = |given: &[(&'static str, u64)], flags| {
            let mut given: Vec<_> = given.iter().map(|&(name, count)| (name, Value::Count(count))).collect();
            given.push(("ce_threshold", Value::Time(Time::from_millis(1))));
            let (mut q, mut cx) = (queue(None, &given), Context::default());
            q.enqueue(Packet { flags, ..packet(0, 0, Time::ZERO) }, &mut cx);
            cx.now = Time::from_millis(2);
            q.dequeue(&mut cx).is_some_and(|packet| packet.has(Packet::CE))
        };
        let (ect0, ect1) = (Packet::ECT, Packet::ECT | Packet::L4S);
        assert_eq!([0, ect0, ect1].map(|flags| marked(&[], flags)), [false, true, true]);
        // tc: ce_threshold_selector 0x01/0x03
        let l4s = [("ce_threshold_selector", 1), ("ce_threshold_mask", 3)];
        assert_eq!([0, ect0, ect1].map(|flags| marked(&l4s, flags)), [false, false, true]);
    }

    #[test]
    fn idle_flows_keep_no_memory_but_the_fixed_table() {
        let (mut q, mut cx) = (queue(None, &[]), Context::default());
        for flow in 0..6_000 {
            q.enqueue(packet(flow, 0, Time::ZERO), &mut cx);
        }
        assert!(q.store.pool.capacity() >= 6_000);
        while q.dequeue(&mut cx).is_some() {}
        assert_eq!((q.store.pool.capacity(), q.store.memory, q.flows.capacity()), (0, 0, 1024));
    }

    #[test]
    fn a_full_frame_counts_2304_bytes_of_memory_and_an_ack_768() {
        let full = packet(0, 0, Time::ZERO);
        assert_eq!((memory(&full), memory(&Packet { size: 52, ..full })), (2304, 768));
    }

    #[test]
    fn over_the_limit_the_longest_queue_loses_half_of_itself_at_most_a_batch() {
        // Flow 1: 100 packets, flow 2: 20. The 121st packet is one too many: flow 1 loses half of its bytes.
        let (mut q, mut cx) = (queue(Some(Limit::Packets(120)), &[]), Context::default());
        for seq in 0..100 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
        }
        for seq in 0..20 {
            q.enqueue(packet(2, seq, Time::ZERO), &mut cx);
        }
        assert!(cx.dropped.is_empty());
        assert_eq!(q.enqueue(packet(2, 20, Time::ZERO), &mut cx), Verdict::Queued);
        let dropped: Vec<_> = cx.dropped.iter().map(|p| (p.flow, p.payload.seq())).collect();
        assert_eq!(dropped, (0..50).map(|seq| (1, seq)).collect::<Vec<_>>(), "from the head");
        assert_eq!(q.backlog().packets, 71);

        // With 200 in the longest, half is more than a batch of 64.
        let (mut q, mut cx) = (queue(Some(Limit::Packets(200)), &[]), Context::default());
        for seq in 0..201 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
        }
        assert_eq!(cx.dropped.len(), 64);
    }

    #[test]
    fn the_memory_limit_holds_too() {
        let (mut q, mut cx) = (queue(None, &[("memory_limit", Value::Bytes(Bytes(23_040)))]), Context::default());
        for seq in 0..11 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
        }
        // Ten frames of 2304 bytes fit; the eleventh costs half of eleven frames: 8327 bytes, six frames of 1514.
        assert_eq!((q.backlog().packets, cx.dropped.len()), (5, 6));
    }

    #[test]
    fn each_queue_has_a_codel_of_its_own() {
        // Flow 1 stands; flow 2 sends a packet now and then and stays below the target: only flow 1 is dropped from.
        let (mut q, mut cx) = (queue(None, &[]), Context::default());
        for seq in 0..500 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
        }
        for t in 10..400 {
            cx.now = Time::from_millis(t);
            if t > 10 && t % 10 == 0 {
                q.enqueue(packet(2, t, cx.now), &mut cx);
                // New flows go first; at 10 ms flow 1 is new itself.
                assert_eq!(q.dequeue(&mut cx).unwrap().flow, 2);
            }
            assert_eq!(q.dequeue(&mut cx).unwrap().flow, 1);
        }
        assert!(cx.dropped.iter().all(|p| p.flow == 1));
        assert_eq!(cx.dropped.len(), 5, "CoDel's drops at 111, 211, 261, 318 and 367 ms");
    }

    /// When packets were dropped, in ms after the start at `at`, while one left each ms: a flow that filled the queue
    /// beyond its limit of 1000 at once, and whose packets have stood for 10 ms when the first leaves.
    fn drops_of_an_overfull_queue(at: Time) -> Vec<u64> {
        let (mut q, mut cx) = (queue(Some(Limit::Packets(1000)), &[]), Context::at(at));
        (0..1001).for_each(|seq| _ = q.enqueue(packet(1, seq, at), &mut cx));
        let mut drops = vec![0; cx.dropped.len()];
        for ms in 10..400 {
            cx.now = at + Time::from_millis(ms);
            cx.dropped.clear();
            q.dequeue(&mut cx);
            drops.resize(drops.len() + cx.dropped.len(), ms);
        }
        drops
    }

    #[test]
    fn a_batch_dropped_for_want_of_room_does_not_hurry_the_first_signals() {
        // A batch of 64, and then CoDel as with any queue that stands.
        let mut expected = vec![0; 64];
        expected.extend([111, 211, 261, 318, 367]);
        assert_eq!(drops_of_an_overfull_queue(Time::ZERO), expected);
        assert_eq!(drops_of_an_overfull_queue(Time::from_secs(3600)), expected);
    }

    #[test]
    fn backlogged_queues_get_the_same_within_a_quantum() {
        let (mut q, mut cx) = (queue(None, &[]), Context::default());
        let sizes = [1500, 700, 90];
        for (flow, size) in sizes.into_iter().enumerate() {
            for seq in 0..3000 {
                q.enqueue(Packet { size, ..packet(flow as u32, seq, Time::ZERO) }, &mut cx);
            }
        }
        let mut sent = [0u64; 3];
        for _ in 0..3000 {
            let left = q.dequeue(&mut cx).unwrap();
            sent[left.flow as usize] += u64::from(left.size) + 14;
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            assert!(most - least < 1514 + 2 * 1514, "{sent:?}");
        }
    }

    #[test]
    fn flows_that_fall_together_are_noted() {
        let (mut q, mut cx) = (queue(None, &[("flows", Value::Count(1))]), Context::default());
        for seq in 0..3 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
            q.enqueue(packet(2, seq, Time::ZERO), &mut cx);
        }
        assert_eq!(cx.notes.iter().map(|n| n.flow).collect::<Vec<_>>(), [Some(2)]);
    }
}
