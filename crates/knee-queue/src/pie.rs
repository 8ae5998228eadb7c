//! `pie`: drops, or marks, what arrives with a probability that a proportional-integral controller sets.
//!
//! Source: RFC 8033 and Linux net/sched/sch_pie.c. PIE itself is in `pie_law`.
//!
//! Departures, besides those of `pie_law`: p ends at 1 as in the RFC; the first update is not put off for half a
//! second, and updates are due at whole multiples of `tupdate`; where the limit is lowered, the tail goes first, as in
//! `pfifo`.

use crate::Entry;
use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::pie_law::{ONE, PieLaw, PieOptions, PieParams, PieState, Updates, in_ticks};
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::{Packet, Rng, Time, params};

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "pie",
    about: "proportional integral controller enhanced: random drops that steer the delay to a target",
    source: "RFC 8033; Linux net/sched/sch_pie.c",
    params: Params::DECLARED,
    make: |params, init| Box::new(Pie::new(&params.into(), init)),
};

params! {
    /// PIE's parameters.
    pub(crate) struct Params {
        #[flatten]
        pie: PieParams;
        /// mark ECN-capable packets rather than drop them, up to p = 10 %
        ecn: bool = false, from "RFC 8033, 4 and 5; Linux include/net/pie.h";
        #[flatten]
        options: PieOptions;
    }
}

/// Packets held where no limit is given (Linux pie_params_init).
const DEFAULT_LIMIT: Limit = Limit::Packets(1000);

#[derive(Clone)]
struct Pie {
    law: PieLaw,
    state: PieState,
    updates: Updates,
    fifo: Fifo,
    bound: Bound,
    rng: Rng,
}

impl Pie {
    fn new(params: &Params, init: &Init) -> Self {
        let fifo = Fifo::new(init);
        //= RFC 8033, 5.1
        //# The variable mark_ecnth SHOULD be set to 0.1 (10%).
        let law = PieLaw::new(&params.pie, params.options, fifo.frame(), params.ecn.then_some(ONE / 10));
        let period = in_ticks(params.pie.tupdate, params.pie.tick);
        Self {
            state: law.start(),
            updates: Updates { next: period, period },
            law,
            fifo,
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
            rng: init.rng.clone(),
        }
    }

    /// Makes up for the updates due by `now`.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        self.law.catch_up(&mut self.state, &mut self.updates, self.fifo.bytes(), now);
    }

    /// True if a packet of `size` bytes that comes now is to be dropped or marked.
    fn drops(&mut self, size: u64) -> bool {
        self.law.drops(&mut self.state, self.fifo.bytes(), size, &mut self.rng)
    }
}

impl Queue for Pie {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
        self.catch_up(cx.now);
        let mut verdict = Verdict::Queued;
        if !self.fifo.has_room(&packet, &self.bound) {
            verdict = Verdict::Dropped;
        } else if self.drops(self.fifo.wire_size(&packet)) {
            //= RFC 8033, 5.1
            //# PIE MAY support ECN by marking (rather than dropping) ECN-capable packets [ECN].
            let marked = self.law.may_mark(&self.state) && cx.mark(&mut packet);
            verdict = if marked { Verdict::Marked } else { Verdict::Dropped };
        }
        if verdict == Verdict::Dropped {
            //= RFC 8033, 5.4
            //# A parameter called "PIE->accu_prob_" is reset to 0 after a drop.
            self.state.accumulated = 0;
            cx.dropped.push(packet);
        } else {
            self.fifo.push(packet);
        }
        verdict
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        self.catch_up(cx.now);
        let packet = self.fifo.pop()?;
        self.law.depart(&mut self.state, &packet, self.fifo.wire_size(&packet), self.fifo.bytes(), cx.now);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.catch_up(cx.now);
        self.bound = self.bound.resized(to);
        self.fifo.shrink(&self.bound, cx);
    }
}

impl Bursts for Pie {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pie_law::tests::{fixed, ms, share};
    use crate::testing::{FULL, init, params};
    use knee_core::{Payload, Value};

    fn queue(given: &[(&str, Value)]) -> Pie {
        Pie::new(&params(&ENTRY, &[&[("tick", Value::Time(Time::ZERO))], given].concat()), &init(&ENTRY, None, 100))
    }

    fn packet(seq: u64, arrived: Time, flags: u8) -> Packet {
        Packet { at: arrived, payload: Payload::segment(seq), flags, ..FULL }
    }

    #[test]
    fn updates_come_exactly_as_often_as_they_are_due() {
        let mut q = queue(&[("max_burst", Value::Time(Time::ZERO))]);
        let mut cx = Context::at(Time::from_millis(1));
        for seq in 0..3 {
            q.enqueue(packet(seq, cx.now, 0), &mut cx);
        }
        cx.now = Time::from_millis(14);
        q.state.prob = fixed(0.5);
        q.dequeue(&mut cx);
        let mut p = q.state.prob;
        // At 15 ms the first update, with the 13 ms that the packet stayed; at 150 ms nine more without a change.
        p = q.law.next_prob(p, ms(13), 0);
        for _ in 0..9 {
            p = q.law.next_prob(p, ms(13), ms(13));
        }
        cx.now = Time::from_micros(164_999);
        q.dequeue(&mut cx);
        assert_eq!(q.state.prob, p);
        assert_eq!(q.updates.next, Time::from_millis(165));
    }

    #[test]
    fn idle_updates_skipped_or_made_come_to_the_same() {
        let (mut skipping, mut cx) = (queue(&[]), Context::default());
        skipping.state.prob = fixed(0.3);
        let mut state = skipping.state;
        for _ in 0..100_000 {
            skipping.law.update(&mut state, 0);
        }
        cx.now = Time::from_millis(15) * 100_000;
        skipping.dequeue(&mut cx);
        assert_eq!((skipping.state, state.prob), (state, 0));
        assert_eq!(skipping.updates.next, Time::from_millis(15) * 100_001);
    }

    /// A queue with a standing delay and a given probability, which no update will change.
    fn steady(p: f64, given: &[(&str, Value)]) -> (Pie, Context) {
        let mut q = queue(given);
        q.updates.next = Time::MAX;
        (q.state.qdelay, q.state.burst, q.state.prob) = (ms(20), 0, fixed(p));
        for seq in 0..2 {
            q.fifo.push(packet(seq, Time::ZERO, 0));
        }
        (q, Context::default())
    }

    #[test]
    fn nothing_is_struck_in_a_burst_at_low_delay_or_with_less_than_two_frames() {
        let drops = |change: fn(&mut Pie)| {
            let (mut q, _) = steady(0.19, &[]);
            q.state.accumulated = ONE * 9;
            change(&mut q);
            q.drops(1514)
        };
        assert!(drops(|_| ()));
        assert!(!drops(|q| q.state.burst = 1));
        assert!(!drops(|q| q.state.qdelay = ms(7)));
        assert!(drops(|q| (q.state.qdelay, q.state.prob) = (ms(7), fixed(0.21))));
        assert!(!drops(|q| q.fifo.drop_tail(&mut Context::default())));
    }

    #[test]
    fn a_burst_is_used_up_by_the_time_between_departures() {
        let mut q = queue(&[]);
        let mut cx = Context::default();
        for seq in 0..20 {
            q.enqueue(packet(seq, Time::ZERO, 0), &mut cx);
        }
        q.updates.next = Time::MAX;
        for at in [100, 110, 150, 249, 250] {
            cx.now = Time::from_millis(at);
            q.dequeue(&mut cx);
        }
        // From the first departure at 100 ms to 250 ms: the 150 ms are gone at the last.
        assert_eq!(q.state.burst, 0);
        q.state.burst = ms(2);
        cx.now = Time::from_millis(251);
        q.dequeue(&mut cx);
        assert_eq!(q.state.burst, ms(1));
    }

    #[test]
    fn drops_come_as_often_as_p_says_but_never_close_together() {
        // With p = 5 % the sum is below 0.85 for 16 arrivals; from the 17th on each is a draw: 16 + 20 on average. The
        // standard deviation of a gap is sqrt(0.95)/0.05 = 19.5, of the mean over 1000 gaps 0.62.
        let (mut q, _) = steady(0.05, &[]);
        let mut gaps = vec![];
        let mut gap = 0;
        while gaps.len() < 1000 {
            gap += 1;
            if q.drops(1514) {
                gaps.push(gap);
                gap = 0;
            }
        }
        let mean = gaps.iter().sum::<u32>() as f64 / 1000.0;
        assert!(*gaps.iter().min().unwrap() >= 17 && *gaps.iter().max().unwrap() <= 170);
        assert!((34.1..37.9).contains(&mean), "{mean}");
    }

    #[test]
    fn in_bytemode_small_packets_are_struck_less() {
        let (mut q, _) = steady(0.5, &[("bytemode", Value::Bool(true))]);
        q.drops(757);
        assert!((share(q.state.accumulated) - 0.25).abs() < 1e-9);
        q.drops(1514);
        assert!((share(q.state.accumulated) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn ecn_marks_up_to_ten_percent_and_drops_above() {
        for (p, flags, verdict) in [
            (0.099, Packet::ECT, Verdict::Marked),
            (0.099, 0, Verdict::Dropped),
            (0.101, Packet::ECT, Verdict::Dropped),
        ] {
            let (mut q, mut cx) = steady(p, &[("ecn", Value::Bool(true))]);
            q.state.accumulated = ONE * 9;
            assert_eq!(q.enqueue(packet(9, Time::ZERO, flags), &mut cx), verdict, "p = {p}");
            assert_eq!(cx.marks, u64::from(verdict == Verdict::Marked));
        }
    }
}
