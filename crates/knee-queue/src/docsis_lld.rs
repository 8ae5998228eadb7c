//! `docsis-lld`: the dual queue of Low Latency DOCSIS, coupled as in RFC 9332, whose delays leave the wait for grants
//! out.
//!
//! ```text
//!            ┌─ C: docsis-pie, p from C's bytes over the rate that L leaves
//! packets ──►┤                          │ p' = sqrt(p), coupling: k p'
//!            └─ L: mark with max(ramp(delay), k p') on arrival
//! ```
//!
//! - L4S packets (ECT(1) or CE; RFC 9331, 5.1) and those with the codepoint of non-queue-building traffic (NQB, 45; RFC
//!   9956) go to L, all others to C, which drops and never marks. Packets in L that are not ECN-capable are not marked.
//! - L's delay is that of a virtual queue, which each packet lengthens and which empties at the link's rate, whether a
//!   grant is there or not; or what L holds over the rate beyond `loop_delay`, the time that a request and its grant
//!   take, where that is more. The downstream needs no grants: `loop_delay` is 0.
//! - `ramp` rises from 0 to 1 between `max_thresh - range` and `max_thresh`; on slow links both move up until the lower
//!   one is two frames of 2000 bytes.
//! - Marks are spread evenly: probabilities are summed up, and each whole one is a mark.
//! - C's delay is its bytes over the rate less what L takes, at most `weight`/256 of it.
//! - While both have packets L gets `weight`/256 of the bytes, 90 %.
//! - L holds 10 ms at the rate, or 40,000 bytes; the limit, 100 ms by default, is for both together.
//!
//! Source: DOCSIS 3.1 MULPI (CM-SP-MULPIv3.1-I19), annexes M, N and O, as CableLabs' model for ns-3 documents it
//! (github.com/cablelabs/docsis-ns3); RFC 9332.
//!
//! Departures: what L takes is averaged over about eight intervals, since the noise of one in the difference of two
//! rates moves C's probability more than its queue does; what L holds is not averaged before it is compared with the
//! virtual queue. Left out: queue protection (RFC 9957), rates and buffers of single service flows.

use crate::Entry;
use crate::bound::Bound;
use crate::docsis_pie::{self, BUFFER, Controller, INTERVAL, time_for};
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, Init, Queue, Resize, Verdict};
use knee_core::convert::{non_negative, saturating_i64};
use knee_core::{Bytes, Packet, Rate, Time, params};

const MULPI: &str = "DOCSIS 3.1 MULPI, annexes M to O; docsis-ns3";

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "docsis-lld",
    about: "dual queue of Low Latency DOCSIS: L4S beside classic traffic, delays without the wait for grants",
    source: "DOCSIS 3.1 MULPI, annexes M to O; RFC 9332",
    params: Params::DECLARED,
    make: |params, init| Box::new(DocsisLld::new(params.into(), init)),
};

params! {
    /// The parameters of both queues.
    struct Params {
        #[flatten]
        classic: docsis_pie::Params;
        /// k: L4S marks for a base probability p' with k p'
        coupling_factor: f64 = 2.0, in 0.0..=25.5, from MULPI;
        /// delay of the L queue from which on every packet is marked
        max_thresh: Time = Time::from_millis(1), in Time::from_micros(1)..=Time::from_millis(65), from MULPI;
        /// marking begins that much below max_thresh
        range: Time = Time::from_nanos(1 << 19), in Time::ZERO..=Time::from_millis(33), from MULPI;
        /// share of the bytes for the L queue while both wait, of 256
        weight: u32 = 230, in 1..=255, from MULPI;
        /// what the L queue may hold, at the link's rate, while it waits for grants; 0 s for a downstream
        loop_delay: Time = Time::from_millis(3), in Time::ZERO..=Time::from_secs(1),
            from "ours: that of the link model docsis-lld";
    }
}

/// The two weights come to this.
const WEIGHTS: i64 = 256;
/// The longest frame, bytes.
const MAX_FRAME: u64 = 2000;
/// The L queue's capacity: this time at the rate, or 20 frames if that is more.
const L_BUFFER: Time = Time::from_millis(10);

/// A queue that empties at the link's rate, grant or not.
#[derive(Clone, Copy, Debug, Default)]
struct VirtualQueue {
    delay: Time,
    at: Time,
}

impl VirtualQueue {
    /// Lets it empty up to `now`, and adds what takes `time` to send. Gives its delay.
    fn add(&mut self, now: Time, time: Time) -> Time {
        self.delay = self.delay.saturating_sub(now - self.at).saturating_add(time);
        self.at = now;
        self.delay
    }
}

#[derive(Clone)]
struct DocsisLld {
    controller: Controller,
    params: Params,
    /// L's, of [`WEIGHTS`].
    weight: i64,
    virtual_queue: VirtualQueue,
    /// Sum of the probabilities since the last mark.
    count: f64,
    /// Above zero it is C's turn, else L's; bytes times weight.
    credit: i64,
    /// Bytes that left L since the last update of C's probability.
    l_bytes: u64,
    /// L's rate, bit/s: a moving average with weight 1/8.
    l_rate: u64,
    l: Fifo,
    c: Fifo,
    bound: Bound,
}

/// The codepoint of non-queue-building traffic (RFC 9956).
const NQB: u8 = 45;

fn is_l4s(packet: &Packet) -> bool {
    packet.has(Packet::ECT) && (packet.has(Packet::L4S) || packet.has(Packet::CE))
}

/// The delays at which marking begins and is certain.
fn thresholds(max_thresh: Time, range: Time, rate: Rate) -> (Time, Time) {
    let least = max_thresh.saturating_sub(range).max(time_for(rate, 2 * MAX_FRAME));
    (least, least.saturating_add(range))
}

/// The native probability of a mark at a delay.
fn ramp(delay: Time, (least, most): (Time, Time)) -> f64 {
    if delay >= most {
        1.0
    } else if delay > least {
        (delay - least).as_secs_f64() / (most - least).as_secs_f64()
    } else {
        0.0
    }
}

impl DocsisLld {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            controller: Controller::new(params.classic.target, init.rng.clone()),
            params,
            weight: i64::from(params.weight),
            virtual_queue: VirtualQueue::default(),
            count: 0.0,
            credit: 0,
            l_bytes: 0,
            l_rate: 0,
            l: Fifo::new(init),
            c: Fifo::new(init),
            bound: Bound::new(init.limit.unwrap_or(BUFFER), init.rate),
        }
    }

    fn catch_up(&mut self, now: Time) {
        while self.controller.is_due(now) {
            // L took nothing in intervals in which nobody looked at the queue.
            let taken = Rate::over(Bytes(std::mem::take(&mut self.l_bytes)), INTERVAL).as_bps();
            let before = self.l_rate;
            self.l_rate = before - before / 8 + taken / 8;
            let delay = self.classic_delay();
            // Once the average stands, the delay does too.
            if taken == 0 && self.l_rate == before {
                self.controller.catch_up(now, delay);
            } else {
                self.controller.update(delay);
            }
        }
    }

    /// How long C's bytes take at the rate that L leaves.
    fn classic_delay(&self) -> Time {
        let rate = self.bound.rate();
        let most = rate.mul_div(non_negative(self.weight), non_negative(WEIGHTS));
        time_for(Rate::from_bps(rate.as_bps() - most.as_bps().min(self.l_rate)), self.c.bytes())
    }

    /// Marks what comes to L as its delay and C's probability ask.
    fn mark(&mut self, packet: &mut Packet, delay: Time, cx: &mut Context) {
        let native = ramp(delay, thresholds(self.params.max_thresh, self.params.range, self.bound.rate()));
        let coupled = self.params.coupling_factor * self.controller.prob().sqrt();
        self.count += native.max(coupled.min(1.0));
        if self.count > 1.0 {
            self.count -= 1.0;
            cx.mark(packet);
        }
    }

    fn fits(&self, packet: &Packet) -> bool {
        let size = self.l.wire_size(packet);
        self.bound.holds(self.l.len() + self.c.len() + 1, self.l.bytes() + self.c.bytes() + size)
    }

    fn enqueue_l(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
        let size = self.l.wire_size(&packet);
        let room = self.bound.rate().bytes_in(L_BUFFER).0.max(20 * MAX_FRAME);
        if !self.fits(&packet) || self.l.bytes() + size > room {
            cx.dropped.push(packet);
            return Verdict::Dropped;
        }
        let own = time_for(self.bound.rate(), size);
        let held = time_for(self.bound.rate(), self.l.bytes() + size).saturating_sub(self.params.loop_delay);
        let delay = self.virtual_queue.add(cx.now, own).max(held);
        let marks = cx.marks;
        self.mark(&mut packet, delay, cx);
        self.l.push(packet);
        if cx.marks > marks { Verdict::Marked } else { Verdict::Queued }
    }

    fn enqueue_c(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let buffer = self.bound.bytes(self.c.frame());
        if !self.fits(&packet) {
            self.controller.overflowed();
        } else if !self.controller.drops(self.c.wire_size(&packet), self.c.bytes(), buffer) {
            self.c.push(packet);
            return Verdict::Queued;
        }
        cx.dropped.push(packet);
        Verdict::Dropped
    }

    fn shrink(&mut self, cx: &mut Context) {
        while !self.bound.holds(self.l.len() + self.c.len(), self.l.bytes() + self.c.bytes()) {
            if self.c.is_empty() { self.l.drop_tail(cx) } else { self.c.drop_tail(cx) }
        }
    }
}

impl Queue for DocsisLld {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        self.catch_up(cx.now);
        if is_l4s(&packet) || cx.dscp(&packet) == NQB { self.enqueue_l(packet, cx) } else { self.enqueue_c(packet, cx) }
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        self.catch_up(cx.now);
        let both = !self.l.is_empty() && !self.c.is_empty();
        let from_l = !self.l.is_empty() && (!both || self.credit <= 0);
        let packet = if from_l { self.l.pop() } else { self.c.pop() }?;
        let size = self.l.wire_size(&packet);
        if from_l {
            self.l_bytes += size;
        }
        if both {
            self.credit += saturating_i64(size) * if from_l { WEIGHTS - self.weight } else { -self.weight };
        } else {
            self.credit = 0;
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.l.len() + self.c.len(), bytes: Bytes(self.l.bytes() + self.c.bytes()) }
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.catch_up(cx.now);
        self.bound = self.bound.resized(to);
        self.shrink(cx);
    }
}

impl Bursts for DocsisLld {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};
    use knee_core::Value;

    const L4S: u8 = Packet::ECT | Packet::L4S;

    /// On 100 Mbit/s, where 1514 bytes take 121.12 us.
    fn queue(given: &[(&str, Value)]) -> DocsisLld {
        DocsisLld::new(params(&ENTRY, given), &init(&ENTRY, None, 100))
    }

    fn packet(flags: u8) -> Packet {
        Packet { flags, ..FULL }
    }

    #[test]
    fn marking_begins_half_a_millisecond_below_one_and_two_frames_on_slow_links() {
        let (ms, us, range) = (Time::from_millis, Time::from_micros, Time::from_nanos(1 << 19));
        let fast = thresholds(ms(1), range, Rate::from_mbps(100));
        assert_eq!(fast, (Time::from_nanos(475_712), ms(1)));
        // 4000 bytes take 3.2 ms at 10 Mbit/s.
        assert_eq!(thresholds(ms(1), range, Rate::from_mbps(10)).0, us(3200));
        assert!([ramp(us(475), fast), ramp(ms(1), fast)].map(|p| p as u32) == [0, 1]);
        assert!((ramp(fast.0 + range / 4, fast) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_waits_for_a_grant_is_no_queue_up_to_the_delay_of_the_loop() {
        // A packet each 200 us and none leaves for 4.8 ms: 24 packets stay, which take 2.9 ms; after 8 ms 40, 4.8 ms.
        let marks = |packets, loop_ms| {
            let given = [("loop_delay", Value::Time(Time::from_millis(loop_ms)))];
            let (mut q, mut cx) = (queue(&given), Context::default());
            for i in 0..packets {
                cx.now = Time::from_micros(200) * i;
                assert_ne!(q.enqueue(packet(L4S), &mut cx), Verdict::Dropped);
            }
            cx.marks
        };
        assert_eq!((marks(24, 3), marks(40, 6)), (0, 0));
        assert!(marks(24, 0) > 12 && marks(40, 3) > 5);
    }

    #[test]
    fn non_queue_building_traffic_goes_to_the_low_latency_queue_unmarked() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        cx.codepoints.set(1, NQB);
        cx.codepoints.set(2, 46);
        for flow in [0, 2, 1] {
            (0..20).for_each(|_| assert_eq!(q.enqueue(Packet { flow, ..FULL }, &mut cx), Verdict::Queued));
        }
        assert_eq!((q.l.len(), q.c.len(), cx.marks), (20, 40, 0));
        assert_eq!(q.dequeue(&mut cx).map(|packet| packet.flow), Some(1));
    }

    #[test]
    fn what_comes_faster_than_the_rate_is_marked() {
        // Twice the rate: the virtual queue grows by 60.56 us with each packet, from 121.12 us, and reaches 1 ms with
        // the 16th.
        let (mut q, mut cx) = (queue(&[]), Context::default());
        let marked: Vec<bool> = (0..40)
            .map(|i| {
                cx.now = Time::from_nanos(60_560) * i;
                q.enqueue(packet(L4S), &mut cx) == Verdict::Marked
            })
            .collect();
        assert!(marked[..7].iter().all(|marked| !marked) && marked[16..].iter().all(|marked| *marked), "{marked:?}");
    }

    #[test]
    fn l4s_traffic_is_marked_by_twice_the_root_of_the_classic_probability() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        q.controller.set_prob(0.01);
        for i in 0..1000 {
            cx.now = Time::from_micros(10) * i;
            q.enqueue(packet(L4S), &mut cx);
            q.dequeue(&mut cx);
            q.virtual_queue = VirtualQueue::default();
        }
        // 2 · sqrt(1 %) = 20 % of 1000, evenly; the last may be due.
        assert!((199..=200).contains(&cx.marks), "{}", cx.marks);
    }

    #[test]
    fn each_queue_gets_its_weight_while_both_wait_and_all_of_the_link_alone() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        for _ in 0..600 {
            q.c.push(packet(0));
            q.l.push(packet(L4S));
        }
        // 230 of 256.
        let l4s = (0..512).filter(|_| q.dequeue(&mut cx).is_some_and(|packet| packet.has(Packet::L4S))).count();
        assert_eq!(l4s, 460);
        let left = std::iter::from_fn(|| q.dequeue(&mut cx)).count();
        assert_eq!(left, 1200 - 512);
    }

    /// Its rate of L and p after L4S traffic at half of the link's rate for a second, a classic backlog, and a time in
    /// which nobody looks at it or, with `polled`, somebody does in each interval.
    fn after_idling(intervals: u64, classic: u64, polled: bool) -> (u64, f64, Time) {
        let mut q = queue(&[]);
        (0..classic).for_each(|_| q.c.push(packet(0)));
        for i in 1..63 {
            q.l_bytes = 100_000;
            q.catch_up(INTERVAL * i);
        }
        for i in if polled { 63 } else { 62 + intervals }..=62 + intervals {
            q.catch_up(INTERVAL * i);
        }
        (q.l_rate, q.controller.prob(), q.controller.delay())
    }

    #[test]
    fn the_rate_of_l_falls_while_nobody_looks_as_while_somebody_does() {
        for classic in [0, 3, 20, 50] {
            for intervals in [1, 2, 3, 10, 100, 625] {
                assert_eq!(after_idling(intervals, classic, false), after_idling(intervals, classic, true));
            }
        }
        // By an eighth in each interval, down to where the eighth is less than one bit/s.
        assert_eq!(after_idling(625, 0, false).0, 7);
    }

    #[test]
    fn the_classic_delay_is_over_the_rate_that_l4s_traffic_leaves() {
        // 50 packets, 75,700 bytes, take 6.056 ms; where L took half of the rate in the interval, twice that.
        let delay = |l_bytes| {
            let mut q = queue(&[]);
            (0..50).for_each(|_| q.c.push(packet(0)));
            // Long enough for the average.
            for i in 1..200 {
                q.l_bytes = l_bytes;
                q.catch_up(INTERVAL * i);
            }
            q.controller.delay().as_micros()
        };
        assert_eq!(delay(0), 6056);
        assert!(delay(100_000).abs_diff(12_112) < 10, "{}", delay(100_000));
    }
}
