//! `pfifo` and `bfifo`: first in, first out; what finds the queue full is dropped (drop tail).
//!
//! Source: Linux net/sched/sch_fifo.c. The two differ in the limit they have where none is given: `pfifo` counts
//! packets, `bfifo` bytes. A given limit may be in packets, in bytes or in time at the link's rate for both.

use crate::Entry;
use crate::bound::Bound;
use crate::overhead::Overhead;
use crate::pfifo_gso::GsoFifo;
use crate::{Backlog, Burst, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::convert::saturating_u32;
use knee_core::{Bytes, Packet, params};
use std::collections::VecDeque;

/// The registry entry of `pfifo`.
pub const ENTRY: Entry = Entry {
    name: "pfifo",
    about: "first in, first out, drop tail",
    source: "Linux net/sched/sch_fifo.c",
    params: Params::DECLARED,
    make: |params, init| {
        let (params, default): (Params, _) = (params.into(), Limit::Packets(TX_QUEUE_LEN));
        if params.gso { Box::new(GsoFifo::new(init, default)) } else { Box::new(Pfifo::new(init, default)) }
    },
};

params! {
    /// `pfifo`'s parameters.
    struct Params {
        /// count a sender's burst as one packet, as where segmentation offload lasts to the queue
        gso: bool = false, from "Linux net/sched/sch_fifo.c, net/core/gro.c";
    }
}

/// The registry entry of `bfifo`.
pub const BFIFO: Entry = Entry {
    name: "bfifo",
    about: "first in, first out, drop tail, in bytes",
    source: "Linux net/sched/sch_fifo.c",
    params: &[],
    make: |_, init| Box::new(Pfifo::new(init, Limit::Bytes(Bytes(TX_QUEUE_LEN * Overhead::of(init).frame())))),
};

/// Full frames held where no limit is given: Linux's default transmit queue length.
const TX_QUEUE_LEN: u64 = 1000;

#[derive(Clone)]
struct Pfifo {
    /// Packets and bytes held.
    bursts: VecDeque<Burst>,
    packets: u64,
    bytes: u64,
    overhead: Overhead,
    bound: Bound,
}

impl Pfifo {
    fn new(init: &Init, default: Limit) -> Self {
        Self {
            bursts: VecDeque::new(),
            packets: 0,
            bytes: 0,
            overhead: Overhead::of(init),
            bound: Bound::new(init.limit.unwrap_or(default), init.rate),
        }
    }

    /// Takes of a burst as many as there is room for.
    #[cold]
    fn take_some(&mut self, burst: &Burst) -> u32 {
        let size = self.overhead.wire_size(&burst.first);
        let taken = self.bound.room(self.packets, self.bytes, size).min(u64::from(burst.count));
        if taken > 0 {
            self.packets += taken;
            self.bytes += taken * size;
            self.bursts.push_back(Burst { count: saturating_u32(taken), ..*burst });
        }
        saturating_u32(taken)
    }

    /// Drops from the tail what no longer fits.
    fn shrink(&mut self, cx: &mut Context) {
        while !self.bound.holds(self.packets, self.bytes) {
            let Some(burst) = self.bursts.back_mut() else { return };
            burst.count -= 1;
            let packet = burst.first.behind(burst.count);
            if burst.count == 0 {
                self.bursts.pop_back();
            }
            self.packets -= 1;
            self.bytes -= self.overhead.wire_size(&packet);
            cx.dropped.push(packet);
        }
    }
}

#[cold]
fn drop_tail(packet: Packet, cx: &mut Context) -> Verdict {
    cx.dropped.push(packet);
    Verdict::Dropped
}

impl Queue for Pfifo {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let size = self.overhead.wire_size(&packet);
        if !self.bound.holds(self.packets + 1, self.bytes + size) {
            return drop_tail(packet, cx);
        }
        self.packets += 1;
        self.bytes += size;
        self.bursts.push_back(Burst { first: packet, count: 1 });
        Verdict::Queued
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let mut packet = Packet::default();
        (self.dequeue_run(1, &mut packet, cx) > 0).then_some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: Bytes(self.bytes) }
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        self.shrink(cx);
    }
}

impl Bursts for Pfifo {
    #[inline]
    fn enqueue_burst(&mut self, burst: &Burst, _: &mut Context) -> u32 {
        let (size, count) = (self.overhead.wire_size(&burst.first), u64::from(burst.count));
        let (packets, bytes) = (self.packets + count, self.bytes + count * size);
        if !self.bound.holds(packets, bytes) {
            return self.take_some(burst);
        }
        (self.packets, self.bytes) = (packets, bytes);
        self.bursts.push_back(*burst);
        burst.count
    }

    #[inline]
    fn dequeue_run(&mut self, max: u32, first: &mut Packet, _: &mut Context) -> u32 {
        let Some(burst) = self.bursts.front_mut() else { return 0 };
        let count = burst.count.min(max);
        *first = burst.first;
        self.packets -= u64::from(count);
        self.bytes -= self.overhead.wire_size(&burst.first) * u64::from(count);
        burst.count -= count;
        if burst.count == 0 {
            self.bursts.pop_front();
        } else {
            burst.first = burst.first.behind(count);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FULL;
    use knee_core::{Payload, Rate, Rng, Time};

    fn packet(seq: u64) -> Packet {
        Packet { payload: Payload::segment(seq), ..FULL }
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
        q.resize(Resize::Limit(Limit::Packets(3)), &mut cx);
        assert_eq!(cx.dropped.iter().map(|p| p.payload.seq()).collect::<Vec<_>>(), [9, 8, 7, 6, 5, 4, 3]);
        assert_eq!(q.backlog(), Backlog { packets: 3, bytes: Bytes(3 * 1514) });
        assert_eq!(q.dequeue(&mut cx).unwrap().payload.seq(), 0);
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
