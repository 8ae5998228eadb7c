//! `pfifo` and `bfifo`: first in, first out; what finds the queue full is dropped (drop tail).
//!
//! Source: Linux net/sched/sch_fifo.c. The two differ in the limit they have where none is given: `pfifo` counts
//! packets, `bfifo` bytes. A given limit may be in packets, in bytes or in time at the link's rate for both.

use crate::bound::Bound;
use crate::crossing::{Line, in_order};
use crate::registry::Entry;
use crate::{Backlog, Burst, Context, Crossing, Gone, Init, Left, Limit, Queue, Service, Verdict, Wire};
use knee_core::packet::MTU;
use knee_core::{Bytes, Packet, Rate, Time};
use std::collections::VecDeque;

/// The registry entry of `pfifo`.
pub const ENTRY: Entry = Entry {
    name: "pfifo",
    about: "first in, first out, drop tail",
    source: "Linux net/sched/sch_fifo.c",
    params: &[],
    make: |_, init| Box::new(Pfifo::new(init, Limit::Packets(TX_QUEUE_LEN))),
};

/// The registry entry of `bfifo`.
pub const BFIFO: Entry = Entry {
    name: "bfifo",
    about: "first in, first out, drop tail, in bytes",
    source: "Linux net/sched/sch_fifo.c",
    params: &[],
    make: |_, init| {
        let frame = u64::from(MTU) + u64::from(init.overhead);
        Box::new(Pfifo::new(init, Limit::Bytes(Bytes(TX_QUEUE_LEN * frame))))
    },
};

/// Full frames held where no limit is given: Linux's default transmit queue length.
const TX_QUEUE_LEN: u64 = 1000;

/// Packets that have left ahead of their time, as whoever comes meanwhile finds them.
#[derive(Default)]
struct Foreseen {
    /// When each begins to be sent, until when it is held, and what `total` was with it; behind those that have begun.
    begins: Vec<(Time, u64)>,
    /// How many have begun.
    begun: usize,
    /// Bytes of all that had to wait, and of those of them that have begun.
    total: u64,
    gone: u64,
    /// When the last of those that have begun did.
    last: Time,
}

impl Foreseen {
    /// Those whose time has come do not wait any more.
    #[inline]
    fn settle(&mut self, now: Time) {
        let waiting = &self.begins[self.begun..];
        let count = waiting.iter().take_while(|(at, _)| *at <= now).count();
        if count > 0 {
            (self.last, self.gone) = waiting[count - 1];
            self.begun += count;
        }
    }

    /// A packet that came `now` begins to be sent `at` a later time, or at once: then none waits any more.
    #[inline]
    fn push(&mut self, now: Time, at: Time, bytes: u64) {
        if at > now {
            self.total += bytes;
            self.begins.push((at, self.total));
        } else {
            self.clear();
            self.last = at;
        }
    }

    #[inline(never)]
    fn clear(&mut self) {
        self.begins.clear();
        (self.begun, self.gone) = (0, self.total);
    }

    /// Forgets those that have begun, where they are the most.
    fn forget(&mut self) {
        if self.begun > self.begins.len() / 2 {
            self.begins.drain(..self.begun);
            self.begun = 0;
        }
    }

    /// What is held of them.
    #[inline]
    fn backlog(&self) -> (u64, u64) {
        ((self.begins.len() - self.begun) as u64, self.total - self.gone)
    }
}

struct Pfifo {
    /// What is held.
    bursts: VecDeque<Burst>,
    packets: u64,
    bytes: u64,
    foreseen: Foreseen,
    overhead: u64,
    bound: Bound,
    rate: Rate,
}

impl Pfifo {
    fn new(init: &Init, default: Limit) -> Self {
        Self {
            bursts: VecDeque::new(),
            packets: 0,
            bytes: 0,
            foreseen: Foreseen::default(),
            overhead: u64::from(init.overhead),
            bound: Bound::new(init.limit.unwrap_or(default), init.rate),
            rate: init.rate,
        }
    }

    fn wire_size(&self, packet: &Packet) -> u64 {
        u64::from(packet.size) + self.overhead
    }

    /// The first `count` packets of the first burst have left.
    #[inline]
    fn advance(&mut self, count: u32) {
        let Some(burst) = self.bursts.front_mut() else { return };
        burst.first.seq += u64::from(count);
        burst.count -= count;
        if burst.count == 0 {
            self.bursts.pop_front();
        }
    }

    /// Takes of a burst as many as there is room for.
    #[cold]
    fn take_some(&mut self, burst: &Burst) -> u32 {
        let size = self.wire_size(&burst.first);
        let taken = self.bound.room(self.packets, self.bytes, size).min(u64::from(burst.count));
        if taken > 0 {
            self.packets += taken;
            self.bytes += taken * size;
            self.bursts.push_back(Burst { count: taken as u32, ..*burst });
        }
        taken as u32
    }

    /// Drops from the tail what no longer fits.
    fn shrink(&mut self, cx: &mut Context) {
        while !self.bound.holds(self.packets, self.bytes) {
            let Some(burst) = self.bursts.back_mut() else { return };
            burst.count -= 1;
            let packet = Packet { seq: burst.first.seq + u64::from(burst.count), ..burst.first };
            if burst.count == 0 {
                self.bursts.pop_back();
            }
            self.packets -= 1;
            self.bytes -= self.wire_size(&packet);
            cx.dropped.push(packet);
        }
    }
}

/// Segment `seq` of a burst like `first` is dropped.
#[inline(never)]
fn drop_of(first: &Packet, seq: u64, dropped: &mut Vec<Packet>) {
    dropped.push(Packet { seq, extra: 0, ..*first });
}

#[cold]
fn drop_tail(packet: Packet, cx: &mut Context) -> Verdict {
    cx.dropped.push(packet);
    Verdict::Dropped
}

impl Queue for Pfifo {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let size = self.wire_size(&packet);
        if !self.bound.holds(self.packets + 1, self.bytes + size) {
            return drop_tail(packet, cx);
        }
        self.packets += 1;
        self.bytes += size;
        self.bursts.push_back(Burst { first: packet, count: 1 });
        Verdict::Queued
    }

    #[inline]
    fn enqueue_burst(&mut self, burst: &Burst, _: &mut Context) -> u32 {
        let (size, count) = (self.wire_size(&burst.first), u64::from(burst.count));
        let (packets, bytes) = (self.packets + count, self.bytes + count * size);
        if !self.bound.holds(packets, bytes) {
            return self.take_some(burst);
        }
        (self.packets, self.bytes) = (packets, bytes);
        self.bursts.push_back(*burst);
        burst.count
    }

    fn dequeue(&mut self, _: &mut Context) -> Option<Packet> {
        let burst = self.bursts.front_mut()?;
        // Read from the burst: the copy is handed on whole, in wide moves.
        self.bytes -= u64::from(burst.first.size) + self.overhead;
        let packet = burst.first;
        self.packets -= 1;
        self.advance(1);
        Some(packet)
    }

    #[inline]
    fn dequeue_run(&mut self, most: u32, first: &mut Packet, _: &mut Context) -> u32 {
        let Some(burst) = self.bursts.front_mut() else { return 0 };
        let count = burst.count.min(most);
        self.bytes -= (u64::from(burst.first.size) + self.overhead) * u64::from(count);
        *first = burst.first;
        self.packets -= u64::from(count);
        self.advance(count);
        count
    }

    fn cross(&mut self, crossing: Crossing<'_>, cx: &mut Context) -> Service {
        if !crossing.foresees {
            return crossing.pass(self, cx);
        }
        let Crossing { wire, service, loss, loss_rng, bursts, order, from, until, gone, .. } = crossing;
        let Gone { left, dropped } = gone;
        let mut line = Line::new(wire, &service, from, left);
        self.foreseen.forget();
        while let Some(packet) = self.dequeue(cx) {
            let size = self.wire_size(&packet);
            let at = line.send(&packet, packet.seq, size, from);
            self.foreseen.push(from, at, size);
        }
        let Self { foreseen, bound, overhead, .. } = self;
        // There is surely room for so many of a size: as long as there is, nobody asks which others have begun.
        let (mut room, mut of) = (0, 0);
        in_order(bursts, order, |count, first, after| {
            let now = from + after;
            let size = u64::from(first.size) + *overhead;
            for seq in first.seq..first.seq + u64::from(count) {
                if loss > 0.0 && loss_rng.chance(loss) {
                    drop_of(first, seq, dropped);
                    continue;
                }
                if room == 0 || of != size {
                    foreseen.settle(now);
                    let (packets, bytes) = foreseen.backlog();
                    (room, of) = (bound.room(packets, bytes, size), size);
                }
                if room == 0 {
                    drop_of(first, seq, dropped);
                } else {
                    room -= 1;
                    foreseen.push(now, line.send(first, seq, size, now), size);
                }
            }
        });
        line.service(until)
    }

    fn recall(&mut self, left: &mut Vec<Left>, wire: &mut Wire) -> Option<Time> {
        let (waiting, _) = self.foreseen.backlog();
        let from = left.len() - waiting as usize;
        let begins = &self.foreseen.begins[self.foreseen.begun..];
        for (Left { packet, stay }, (at, _)) in left.drain(from..).zip(begins) {
            let bytes = u64::from(packet.size) + self.overhead;
            wire.give_back(bytes);
            self.packets += 1;
            self.bytes += bytes;
            let first = Packet { enqueued: *at - stay, extra: 0, ..packet };
            self.bursts.push_back(Burst { first, count: 1 });
        }
        self.foreseen.clear();
        Some(self.foreseen.last)
    }

    fn settle(&mut self, now: Time) {
        self.foreseen.settle(now);
    }

    fn backlog(&self) -> Backlog {
        let (packets, bytes) = self.foreseen.backlog();
        Backlog { packets: self.packets + packets, bytes: Bytes(self.bytes + bytes) }
    }

    fn set_limit(&mut self, limit: Limit, cx: &mut Context) {
        self.bound = Bound::new(limit, self.rate);
        self.shrink(cx);
    }

    fn set_rate(&mut self, rate: Rate, cx: &mut Context) {
        self.rate = rate;
        self.bound = self.bound.at_rate(rate);
        self.shrink(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FULL;
    use knee_core::{Rng, Time};

    fn packet(seq: u64) -> Packet {
        Packet { seq, ..FULL }
    }

    fn init(limit: Option<Limit>) -> Init {
        Init { limit, overhead: 14, rate: Rate::from_mbps(100), rng: Rng::stream(1, "pfifo") }
    }

    fn queue(limit: Limit) -> Pfifo {
        Pfifo::new(&init(Some(limit)), Limit::Packets(0))
    }

    fn fill(queue: &mut Pfifo, n: u64, cx: &mut Context) -> u64 {
        (0..n).filter(|&seq| queue.enqueue(packet(seq), cx) == Verdict::Queued).count() as u64
    }

    #[test]
    fn a_limit_in_packets_bytes_or_time_holds_exactly() {
        // 100 Mbit/s carry 12,500 bytes in 1 ms: eight frames of 1514 bytes and not nine.
        for (limit, fits) in [
            (Limit::Packets(7), 7),
            (Limit::Bytes(Bytes(1514 * 5)), 5),
            (Limit::Bytes(Bytes(1514 * 5 - 1)), 4),
            (Limit::Time(Time::from_millis(1)), 8),
        ] {
            let mut cx = Context::default();
            assert_eq!(fill(&mut queue(limit), 20, &mut cx), fits, "{limit:?}");
            assert_eq!(cx.dropped.len() as u64, 20 - fits);
        }
    }

    #[test]
    fn a_burst_is_taken_as_far_as_its_packets_would_be_one_by_one() {
        for limit in [Limit::Packets(7), Limit::Bytes(Bytes(1514 * 7 + 1513)), Limit::Time(Time::from_millis(1))] {
            let (mut burst, mut single, mut cx) = (queue(limit), queue(limit), Context::default());
            for (first, count) in [(0, 3), (3, 1), (4, 20), (24, 2)] {
                let taken = burst.enqueue_burst(&Burst { first: packet(first), count }, &mut cx);
                let one_by_one = (first..first + u64::from(count))
                    .filter(|&seq| single.enqueue(packet(seq), &mut cx) == Verdict::Queued)
                    .count();
                assert_eq!((taken as usize, burst.backlog()), (one_by_one, single.backlog()), "{limit:?}");
            }
            let drain = |q: &mut Pfifo| std::iter::from_fn(|| q.dequeue(&mut Context::default())).collect::<Vec<_>>();
            assert_eq!(drain(&mut burst), drain(&mut single));
            assert_eq!(burst.backlog(), Backlog::default());
        }
    }

    #[test]
    fn a_lower_limit_drops_from_the_tail() {
        let (mut q, mut cx) = (queue(Limit::Packets(10)), Context::default());
        fill(&mut q, 4, &mut cx);
        assert_eq!(q.enqueue_burst(&Burst { first: packet(4), count: 6 }, &mut cx), 6);
        q.set_limit(Limit::Packets(3), &mut cx);
        assert_eq!(cx.dropped.iter().map(|p| p.seq).collect::<Vec<_>>(), [9, 8, 7, 6, 5, 4, 3]);
        assert_eq!(q.backlog(), Backlog { packets: 3, bytes: Bytes(3 * 1514) });
        assert_eq!(q.dequeue(&mut cx).unwrap().seq, 0);
    }

    #[test]
    fn without_a_limit_a_thousand_frames_fit_counted_in_packets_or_in_bytes() {
        let mut small = packet(0);
        small.size = 743; // half a frame with its 14 bytes of overhead: 757 of 1514
        for (entry, full, half) in [(ENTRY, 1000, 1000), (BFIFO, 1000, 2000)] {
            for (kind, fits) in [(packet(0), full), (small, half)] {
                let mut q = (entry.make)(&knee_core::Params::defaults(entry.params), &init(None));
                let mut cx = Context::default();
                let taken = (0..3000).filter(|_| q.enqueue(kind, &mut cx) == Verdict::Queued).count();
                assert_eq!(taken, fits, "{} with packets of {} bytes", entry.name, kind.size);
            }
        }
    }
}
