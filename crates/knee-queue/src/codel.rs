//! `codel`: one queue whose head is dropped, or marked, while packets stand in it for too long.
//!
//! Source: RFC 8289; Linux net/sched/sch_codel.c for defaults and limit. The law itself is in `codel_law`.
//!
//! Departures: where the limit is lowered, the tail goes first, as in `pfifo`.

use crate::Entry;
use crate::bound::Bound;
use crate::codel_law::{CodelLaw, CodelParams, CodelState};
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::{Packet, params};

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "codel",
    about: "controlled delay: drops at the head while packets stand longer than a target",
    source: "RFC 8289; Linux net/sched/sch_codel.c",
    params: Params::DECLARED,
    make: |params, init| Box::new(Codel::new(&params.into(), init)),
};

params! {
    /// CoDel's parameters.
    struct Params {
        #[flatten]
        codel: CodelParams;
        /// mark ECN-capable packets rather than drop them
        ecn: bool = false, from "Linux codel_params_init";
    }
}

/// Packets held where no limit is given (Linux DEFAULT_CODEL_LIMIT).
const DEFAULT_LIMIT: Limit = Limit::Packets(1000);

#[derive(Clone)]
struct Codel {
    fifo: Fifo,
    law: CodelLaw,
    state: CodelState,
    bound: Bound,
}

impl Codel {
    fn new(params: &Params, init: &Init) -> Self {
        let fifo = Fifo::new(init);
        Self {
            law: CodelLaw::new(&params.codel, params.ecn, fifo.frame()),
            fifo,
            state: CodelState::NEW,
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
        }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        if !self.fifo.has_room(&packet, &self.bound) {
            cx.dropped.push(packet);
            return Verdict::Dropped;
        }
        self.fifo.push(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let mut packet = Packet::default();
        self.law.dequeue(&mut self.state, &mut self.fifo, &mut packet, cx).then_some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        self.fifo.shrink(&self.bound, cx);
    }
}

impl Bursts for Codel {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};
    use knee_core::{Payload, Rate, Rng, Time, Value};

    fn packet(seq: u64, arrived: Time, flags: u8) -> Packet {
        Packet { at: arrived, payload: Payload::segment(seq), flags, ..FULL }
    }

    fn queue(ecn: bool) -> Codel {
        Codel::new(&params(&ENTRY, &[("ecn", Value::Bool(ecn))]), &init(&ENTRY, None, 12))
    }

    /// Full of packets that came at `since`; one leaves every millisecond of `ms`; when something was dropped or
    /// marked.
    fn signals(q: &mut Codel, since: u64, ms: std::ops::Range<u64>, flags: u8) -> Vec<u64> {
        let mut cx = Context::default();
        let mut at = vec![];
        for seq in 0..1000 {
            q.enqueue(packet(seq, Time::from_millis(since), flags), &mut cx);
        }
        for t in ms {
            let marks = cx.marks;
            cx.now = Time::from_millis(t);
            cx.dropped.clear();
            q.dequeue(&mut cx).unwrap();
            at.extend((0..cx.dropped.len() as u64 + cx.marks - marks).map(|_| t));
        }
        at
    }

    #[test]
    fn a_standing_queue_is_dropped_from_at_the_worked_times() {
        // Above the target at 10 ms, so bad after 110 ms: the first drop at 111 ms. From there the spacings are the
        // interval times 1, 0.5, 0.5625 and 0.48779 (the Newton steps): due at 211, 261, 317.2 and 366.0 ms, seen at
        // the next whole millisecond.
        assert_eq!(signals(&mut queue(false), 0, 10..400, 0), [111, 211, 261, 318, 367]);
    }

    #[test]
    fn with_ecn_the_same_times_mark_and_nothing_is_dropped() {
        let mut q = queue(true);
        assert_eq!(signals(&mut q, 0, 10..400, Packet::ECT), [111, 211, 261, 318, 367]);
        assert_eq!(q.backlog().packets, 1000 - 390);
        assert_eq!(signals(&mut queue(true), 0, 10..400, 0), [111, 211, 261, 318, 367], "dropped where not capable");
    }

    #[test]
    fn a_packet_below_the_target_starts_the_interval_anew() {
        let mut q = queue(false);
        let mut cx = Context::default();
        for seq in 0..1000 {
            // All have stood for 6 ms when they leave, but one at 60 ms has not.
            let stood = if seq == 50 { 4 } else { 6 };
            q.enqueue(packet(seq, Time::from_millis(10 + seq - stood), 0), &mut cx);
        }
        let first = (10..1000).find(|&t| {
            cx.now = Time::from_millis(t);
            q.dequeue(&mut cx);
            !cx.dropped.is_empty()
        });
        assert_eq!(first, Some(162), "61 ms + 100 ms, and then the next packet");
    }

    #[test]
    fn a_single_frame_left_is_never_dropped() {
        let (mut q, mut cx) = (queue(false), Context::default());
        for t in 0..1000 {
            q.enqueue(packet(t, Time::ZERO, 0), &mut cx);
            q.enqueue(packet(t, Time::ZERO, 0), &mut cx);
            cx.now = Time::from_millis(500 + t);
            // One of two: 1514 bytes are left, an MTU.
            assert!(q.dequeue(&mut cx).is_some());
            assert!(q.dequeue(&mut cx).is_some());
        }
        assert!(cx.dropped.is_empty());
    }

    #[test]
    fn a_cycle_soon_after_another_starts_near_its_drop_rate() {
        let mut q = queue(false);
        signals(&mut q, 0, 10..400, 0);
        assert_eq!((q.state.count, q.state.last_count()), (5, 1));
        // One short stay ends the cycle; then bad again: five less one drops were this cycle's.
        let mut cx = Context::at(Time::from_millis(400));
        while q.fifo.pop().is_some() {}
        q.dequeue(&mut cx);
        signals(&mut q, 400, 410..512, 0);
        assert_eq!((q.state.count, q.state.last_count()), (4, 4));
    }

    #[test]
    fn beyond_ce_threshold_every_capable_packet_is_marked() {
        let params = params(&ENTRY, &[("ce_threshold", Value::Time(Time::from_millis(1)))]);
        let rng = Rng::stream(1, "codel");
        let mut q = Codel::new(&params, &Init { limit: None, overhead: 14, rate: Rate::from_mbps(12), rng });
        let mut cx = Context::default();
        for seq in 0..4 {
            q.enqueue(packet(seq, Time::ZERO, if seq < 3 { Packet::ECT } else { 0 }), &mut cx);
        }
        let marked: Vec<_> = [500, 1500, 2000, 2500]
            .map(|us| {
                cx.now = Time::from_micros(us);
                q.dequeue(&mut cx).unwrap().has(Packet::CE)
            })
            .into();
        assert_eq!(marked, [false, true, true, false]);
        assert_eq!(cx.marks, 2);
    }
}
