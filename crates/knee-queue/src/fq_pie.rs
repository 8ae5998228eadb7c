//! `fq_pie`: flows hashed into a fixed number of queues, served by deficit round robin, each under its own PIE.
//!
//! A queue that gets a packet while it is on no list becomes new, with a quantum of credit; new queues are served
//! before old ones. An arrival is dropped or marked by the PIE of its queue, with that queue's bytes and delay; where
//! all queues together are at the limit it is dropped, whatever its queue holds.
//!
//! Source: Linux net/sched/sch_fq_pie.c (7.2), whose defaults these are. PIE itself is in `pie_law`.
//!
//! One timer updates the probabilities of all queues, also of those that hold nothing, 2048 of them at a time and the
//! next ones a clock tick later. Here a queue's updates are made up for when it is next used; with `tick` at 0 those
//! of all queues are due at the same times.
//!
//! `memory_limit` drops nothing: Linux counts arrivals that find more memory in use, and takes them in. Here the event
//! `overmemory` says when that begins.
//!
//! Departures, besides those of `pie_law`: the first update is not put off for half a second; a limit may be in bytes
//! or time; a packet's memory is reckoned as in `fq_codel`.

use crate::Entry;
use crate::bound::Bound;
use crate::fq_codel::memory;
use crate::hash::{Collisions, FlowHash};
use crate::overhead::Overhead;
use crate::pie_law::{ONE, PieLaw, PieOptions, PieParams, PieState, Updates, in_ticks};
use crate::pool::{Pool, PooledFifo};
use crate::round_robin::{List, RoundRobin};
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::convert::{index, index_u32, saturating_i64};
use knee_core::{Bytes, Packet, Rng, Tuple, params};

const LINUX: &str = "Linux fq_pie_init";

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "fq_pie",
    about: "a queue per flow, deficit round robin, each under PIE",
    source: "Linux net/sched/sch_fq_pie.c; RFC 8033",
    params: Params::DECLARED,
    make: |params, init| Box::new(FqPie::new(&params.into(), init)),
};

params! {
    /// FQ-PIE's parameters.
    struct Params {
        #[flatten]
        pie: PieParams;
        /// mark ECN-capable packets rather than drop them, up to p = ecn_prob
        ecn: bool = false, from "Linux pie_params_init";
        /// probability up to which packets are marked, in percent
        ecn_prob: u64 = 10, in 0..=100, from LINUX;
        #[flatten]
        options: PieOptions;
        /// queues
        flows: u64 = 1024, in 1..=65_536, from LINUX;
        /// bytes a queue may send in a round
        quantum: Bytes = Bytes(1514), in Bytes(256)..=Bytes(1 << 20),
            from "Linux fq_pie_init: a full frame; at least 256 in fq_pie_change";
        /// memory of all packets held beyond which there is an event; nothing is dropped
        memory_limit: Bytes = Bytes(32 << 20), in Bytes(4096)..=Bytes(1 << 31), from LINUX;
    }
}

/// Packets held where no limit is given (Linux fq_pie_init).
const DEFAULT_LIMIT: Limit = Limit::Packets(10 * 1024);
/// Queues that the timer updates at a time (Linux fq_pie_timer).
const UPDATED_AT_ONCE: usize = 2048;

#[derive(Clone, Copy, Debug)]
struct FqPieFlow {
    fifo: PooledFifo,
    bytes: u64,
    deficit: i64,
    pie: PieState,
    updates: Updates,
    /// Whose packets it got when it became new; another's that come are a collision.
    tuple: Tuple,
}

#[derive(Clone)]
struct FqPie {
    law: PieLaw,
    quantum: i64,
    memory_limit: u64,
    overhead: Overhead,
    hash: FlowHash,
    collisions: Collisions,
    flows: Vec<FqPieFlow>,
    lists: RoundRobin,
    pool: Pool,
    backlog: Backlog,
    memory: u64,
    is_over_memory: bool,
    bound: Bound,
    rng: Rng,
}

impl FqPie {
    fn new(params: &Params, init: &Init) -> Self {
        let overhead = Overhead::of(init);
        let mark_up_to = params.ecn.then_some(ONE / 100 * params.ecn_prob);
        let law = PieLaw::new(&params.pie, params.options, overhead.frame(), mark_up_to).beyond_one();
        let n = index(params.flows);
        let (first, tick) = (in_ticks(params.pie.tupdate, params.pie.tick), params.pie.tick);
        let later = |rounds: usize| tick * u64::from(index_u32(rounds));
        let period = first + later(n.div_ceil(UPDATED_AT_ONCE) - 1);
        let flow = |i: usize| FqPieFlow {
            fifo: PooledFifo::EMPTY,
            bytes: 0,
            deficit: 0,
            pie: law.start(),
            updates: Updates { next: first + later(i / UPDATED_AT_ONCE), period },
            tuple: Tuple::NONE,
        };
        let mut rng = init.rng.clone();
        Self {
            quantum: saturating_i64(params.quantum.0),
            memory_limit: params.memory_limit.0,
            overhead,
            hash: FlowHash::new(&mut rng),
            collisions: Collisions::default(),
            flows: (0..n).map(flow).collect(),
            lists: RoundRobin::new(n),
            pool: Pool::new(),
            backlog: Backlog::default(),
            memory: 0,
            is_over_memory: false,
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
            rng,
            law,
        }
    }

    /// Looks whether an arrival with so much memory finds more in use than the limit.
    fn watch_memory(&mut self, arriving: u64, cx: &mut Context) {
        // Linux adds the arrival to the limit, not to what is in use.
        let over = self.memory > self.memory_limit + arriving;
        if over && !self.is_over_memory {
            cx.note(None, "overmemory", self.memory as f64);
        }
        self.is_over_memory = over;
    }

    /// Puts a packet into its flow, and an idle flow into the round.
    fn take(&mut self, packet: Packet, i: usize, tuple: Tuple, cx: &mut Context) {
        let size = self.overhead.wire_size(&packet);
        let flow = &mut self.flows[i];
        self.pool.push(&mut flow.fifo, packet);
        flow.bytes += size;
        self.backlog.packets += 1;
        self.backlog.bytes.0 += size;
        self.memory += memory(&packet);
        if !self.lists.is_listed(i) {
            flow.tuple = tuple;
            flow.deficit = self.quantum;
            self.lists.put(i, List::New);
        } else if flow.tuple != tuple {
            self.collisions.note(tuple, flow.tuple, cx);
        }
    }
}

impl Queue for FqPie {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
        let tuple = cx.tuple(&packet);
        let i = self.hash.bucket(tuple, index_u32(self.flows.len())) as usize;
        let size = self.overhead.wire_size(&packet);
        let FqPieFlow { pie, updates, bytes, .. } = &mut self.flows[i];
        self.law.catch_up(pie, updates, *bytes, cx.now);
        let mut verdict = Verdict::Queued;
        if !self.bound.holds(self.backlog.packets + 1, self.backlog.bytes.0 + size) {
            verdict = Verdict::Dropped;
        } else if self.law.drops(pie, *bytes, size, &mut self.rng) {
            let marked = self.law.may_mark(pie) && cx.mark(&mut packet);
            verdict = if marked { Verdict::Marked } else { Verdict::Dropped };
        }
        if verdict == Verdict::Dropped {
            pie.accumulated = 0;
            cx.dropped.push(packet);
        } else {
            self.watch_memory(memory(&packet), cx);
            self.take(packet, i, tuple, cx);
        }
        verdict
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        loop {
            let (i, list) = self.lists.turn()?;
            let flow = &mut self.flows[i];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.lists.put(i, List::Old);
                continue;
            }
            let Some(packet) = self.pool.pop(&mut flow.fifo) else {
                self.lists.run_empty(i, list);
                continue;
            };
            self.law.catch_up(&mut flow.pie, &mut flow.updates, flow.bytes, cx.now);
            let size = self.overhead.wire_size(&packet);
            flow.bytes -= size;
            flow.deficit -= saturating_i64(size);
            self.backlog.packets -= 1;
            self.backlog.bytes.0 -= size;
            self.memory -= memory(&packet);
            self.law.depart(&mut flow.pie, &packet, size, flow.bytes, cx.now);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Drops what would leave next, as Linux does.
    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        while !self.bound.holds(self.backlog.packets, self.backlog.bytes.0) {
            let Some(packet) = self.dequeue(cx) else { return };
            cx.dropped.push(packet);
        }
    }
}

impl Bursts for FqPie {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pie_law::tests::{fixed, ms};
    use crate::testing::{FULL, init, params};
    use knee_core::{Payload, Time, Value};
    use proptest::prelude::*;

    fn packet(flow: u32, seq: u64, at: Time) -> Packet {
        Packet { at, payload: Payload::segment(seq), flow, ..FULL }
    }

    fn queue(limit: Option<Limit>, given: &[(&str, Value)]) -> FqPie {
        FqPie::new(&params(&ENTRY, &[&[("tick", Value::Time(Time::ZERO))], given].concat()), &init(&ENTRY, limit, 12))
    }

    fn flow_of<'a>(q: &'a mut FqPie, flow: u32, cx: &Context) -> &'a mut FqPieFlow {
        let i = q.hash.bucket(cx.tuple(&packet(flow, 0, Time::ZERO)), index_u32(q.flows.len()));
        &mut q.flows[i as usize]
    }

    /// Two flows with 20 packets each, the first one's PIE with a standing delay and this probability, which no update
    /// will change.
    fn steady(p: f64, given: &[(&str, Value)]) -> (FqPie, Context) {
        let (mut q, mut cx) = (queue(None, given), Context::default());
        for seq in 0..20 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
            q.enqueue(packet(2, seq, Time::ZERO), &mut cx);
        }
        let flow = flow_of(&mut q, 1, &cx);
        flow.updates.next = Time::MAX;
        (flow.pie.qdelay, flow.pie.burst, flow.pie.prob) = (ms(20), 0, fixed(p));
        (q, cx)
    }

    #[test]
    fn each_queue_has_a_pie_of_its_own() {
        // Whatever waits elsewhere: the second flow's PIE has seen no delay.
        let (mut q, mut cx) = steady(0.5, &[]);
        for seq in 20..120 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
            q.enqueue(packet(2, seq, Time::ZERO), &mut cx);
        }
        assert!(cx.dropped.iter().all(|p| p.flow == 1));
        // A drop ends a gap of one arrival without a draw, at which the sum is 0.5, and then of two on average.
        assert!((25..42).contains(&cx.dropped.len()), "{}", cx.dropped.len());
    }

    #[test]
    fn with_less_than_two_frames_in_its_own_queue_nothing_is_struck() {
        // Linux hands pie_drop_early the flow's backlog, not the discipline's.
        let (mut q, mut cx) = steady(0.5, &[]);
        for _ in 0..38 {
            q.dequeue(&mut cx);
        }
        let flow = flow_of(&mut q, 1, &cx);
        (flow.pie.qdelay, flow.pie.accumulated) = (ms(20), ONE * 9);
        assert_eq!(flow.bytes, 1514);
        assert_eq!(q.enqueue(packet(1, 20, Time::ZERO), &mut cx), Verdict::Queued);
        assert_eq!(q.enqueue(packet(1, 21, Time::ZERO), &mut cx), Verdict::Dropped);
    }

    #[test]
    fn ecn_marks_up_to_ecn_prob_and_drops_above() {
        for (percent, p, flags, verdict) in [
            (10, 0.099, Packet::ECT, Verdict::Marked),
            (10, 0.099, 0, Verdict::Dropped),
            (10, 0.101, Packet::ECT, Verdict::Dropped),
            (50, 0.499, Packet::ECT, Verdict::Marked),
            (0, 0.001, Packet::ECT, Verdict::Dropped),
        ] {
            let given = [("ecn", Value::Bool(true)), ("ecn_prob", Value::Count(percent))];
            let (mut q, mut cx) = steady(p, &given);
            flow_of(&mut q, 1, &cx).pie.accumulated = ONE * 9;
            let struck = Packet { flags, ..packet(1, 99, Time::ZERO) };
            assert_eq!(q.enqueue(struck, &mut cx), verdict, "p = {p} and ecn_prob = {percent}");
            assert_eq!(cx.marks, u64::from(verdict == Verdict::Marked));
        }
    }

    #[test]
    fn at_the_limit_the_arrival_goes_whatever_its_queue_holds() {
        // fq_codel would drop from the longest queue, flow 1.
        let (mut q, mut cx) = (queue(Some(Limit::Packets(100)), &[]), Context::default());
        for seq in 0..100 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
        }
        assert_eq!(q.enqueue(packet(2, 0, Time::ZERO), &mut cx), Verdict::Dropped);
        assert_eq!(cx.dropped.iter().map(|p| p.flow).collect::<Vec<_>>(), [2]);
        assert_eq!(q.backlog().packets, 100);
    }

    #[test]
    fn a_lowered_limit_drops_what_would_leave_next() {
        // Flow 1 is new before flow 2; each has a full frame of credit, so they take turns.
        let (mut q, mut cx) = steady(0.0, &[]);
        q.resize(Resize::Limit(Limit::Packets(35)), &mut cx);
        let dropped: Vec<_> = cx.dropped.iter().map(|p| (p.flow, p.payload.seq())).collect();
        assert_eq!(dropped, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
    }

    #[test]
    fn beyond_the_memory_limit_nothing_is_dropped_and_an_event_says_so_once() {
        // Full frames of 2304 bytes: ten are 23,040. Linux asks for more than the limit and the arrival together.
        let (mut q, mut cx) = (queue(None, &[("memory_limit", Value::Bytes(Bytes(23_040)))]), Context::default());
        for seq in 0..30 {
            assert_eq!(q.enqueue(packet(1, seq, Time::ZERO), &mut cx), Verdict::Queued);
        }
        let noted: Vec<_> = cx.notes.iter().map(|n| (n.flow, n.event, n.value)).collect();
        assert_eq!(noted, [(None, "overmemory", 2304.0 * 12.0)], "at the thirteenth");
    }

    #[test]
    fn new_queues_go_before_old_ones_and_pass_through_them_when_they_run_empty() {
        let (mut q, mut cx) = (queue(None, &[]), Context::default());
        for seq in 0..10 {
            q.enqueue(packet(1, seq, Time::ZERO), &mut cx);
        }
        // Its credit of one frame is used up: from here on flow 1 is old.
        assert_eq!(q.dequeue(&mut cx).unwrap().flow, 1);
        assert_eq!(q.dequeue(&mut cx).unwrap().flow, 1);
        q.enqueue(packet(2, 0, Time::ZERO), &mut cx);
        assert_eq!(q.dequeue(&mut cx).unwrap().flow, 2);
        // Used up and empty, flow 2 stands behind flow 1 and is no longer new: its next packet does not overtake.
        assert_eq!(q.dequeue(&mut cx).unwrap().flow, 1);
        q.enqueue(packet(2, 1, Time::ZERO), &mut cx);
        let order: Vec<_> = std::iter::from_fn(|| q.dequeue(&mut cx)).map(|p| p.flow).collect();
        assert_eq!(order, [2, 1, 1, 1, 1, 1, 1, 1]);
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
    fn the_timer_updates_2048_queues_at_a_time_a_tick_apart() {
        let given = |tick| [("flows", Value::Count(5000)), ("tick", Value::Time(Time::from_millis(tick)))];
        let updates = |tick, i: usize| {
            let Updates { next, period } = queue(None, &given(tick)).flows[i].updates;
            (next.as_nanos() / 1_000_000, period.as_nanos() / 1_000_000)
        };
        // 15 ms are 30 with a tick of 10 ms; two more rounds make that 50 from one update to the next.
        assert_eq!([0, 2047, 2048, 4096].map(|i| updates(10, i)), [(30, 50), (30, 50), (40, 50), (50, 50)]);
        assert_eq!([0, 2048, 4096].map(|i| updates(0, i)), [(15, 15); 3]);
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

    #[test]
    fn idle_flows_keep_no_memory_but_the_fixed_table() {
        let (mut q, mut cx) = (queue(None, &[]), Context::default());
        for flow in 0..6_000 {
            q.enqueue(packet(flow, 0, Time::ZERO), &mut cx);
        }
        while q.dequeue(&mut cx).is_some() {}
        assert_eq!((q.pool.capacity(), q.memory, q.flows.capacity()), (0, 0, 1024));
    }

    /// Makes every update of every queue at its time, whether or not it is in use, as a timer that never sleeps.
    fn tick_all(eager: &mut FqPie, now: Time) {
        let due = eager.flows.iter().map(|f| f.updates.next).min().unwrap();
        if now >= due {
            for flow in &mut eager.flows {
                eager.law.update(&mut flow.pie, flow.bytes);
                flow.updates.next += flow.updates.period;
            }
            tick_all(eager, now);
        }
    }

    proptest! {
        #[test]
        fn updates_made_up_for_are_those_that_a_timer_makes_of_all_queues(
            steps in prop::collection::vec((0u32..6, 0u32..8, 0u64..60), 0..400), estimator: bool
        ) {
            let given = [
                ("flows", Value::Count(3)),
                ("target", Value::Time(Time::from_millis(2))),
                ("max_burst", Value::Time(Time::from_millis(30))),
                ("dq_rate_estimator", Value::Bool(estimator)),
            ];
            let [mut lazy, mut eager] = [queue(None, &given), queue(None, &given)];
            let [mut cx, mut other] = [Context::default(), Context::default()];
            for (seq, (flow, what, wait)) in steps.into_iter().enumerate() {
                cx.now += Time::from_millis(wait * u64::from(what == 7));
                other.now = cx.now;
                tick_all(&mut eager, cx.now);
                if what < 5 {
                    for i in 0..8 {
                        let next = packet(flow, 8 * seq as u64 + i, cx.now);
                        prop_assert_eq!(lazy.enqueue(next, &mut cx), eager.enqueue(next, &mut other));
                    }
                } else {
                    for _ in 0..12 {
                        prop_assert_eq!(lazy.dequeue(&mut cx), eager.dequeue(&mut other));
                    }
                }
            }
            for (mine, theirs) in lazy.flows.iter_mut().zip(&eager.flows) {
                lazy.law.catch_up(&mut mine.pie, &mut mine.updates, mine.bytes, cx.now);
                prop_assert_eq!(mine.pie, theirs.pie);
            }
        }
    }
}
