//! `pfifo`: first in, first out; what finds the queue full is dropped (drop tail).
//!
//! Source: Linux net/sched/sch_fifo.c, whose limit is in packets; here also in bytes or in time at the link's rate.

use crate::registry::Entry;
use crate::{Backlog, Context, Init, Limit, Queue, Verdict};
use knee_core::{Bytes, Packet, Rate};
use std::collections::VecDeque;

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "pfifo",
    about: "first in, first out, drop tail",
    source: "Linux net/sched/sch_fifo.c",
    params: &[],
    make: |_, init| Box::new(Pfifo::new(init)),
};

/// Packets held where no limit is given: Linux's default transmit queue length.
const DEFAULT_LIMIT: Limit = Limit::Packets(1000);

struct Pfifo {
    packets: VecDeque<Packet>,
    bytes: u64,
    overhead: u64,
    limit: Limit,
    rate: Rate,
    max_packets: u64,
    max_bytes: u64,
}

impl Pfifo {
    fn new(init: &Init) -> Self {
        let mut queue = Self {
            packets: VecDeque::new(),
            bytes: 0,
            overhead: u64::from(init.overhead),
            limit: init.limit.unwrap_or(DEFAULT_LIMIT),
            rate: init.rate,
            max_packets: 0,
            max_bytes: 0,
        };
        queue.apply_limit();
        queue
    }

    /// Turns the limit into the two numbers that `enqueue` compares with.
    fn apply_limit(&mut self) {
        (self.max_packets, self.max_bytes) = match self.limit {
            Limit::Packets(n) => (n, u64::MAX),
            Limit::Bytes(Bytes(n)) => (u64::MAX, n),
            Limit::Time(span) => (u64::MAX, self.rate.bytes_in(span).0),
        };
    }

    fn wire_size(&self, packet: &Packet) -> u64 {
        u64::from(packet.size) + self.overhead
    }

    /// Drops from the tail what no longer fits.
    fn shrink(&mut self, cx: &mut Context) {
        while self.packets.len() as u64 > self.max_packets || self.bytes > self.max_bytes {
            let Some(packet) = self.packets.pop_back() else { return };
            self.bytes -= self.wire_size(&packet);
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
        let size = self.wire_size(&packet);
        if self.packets.len() as u64 >= self.max_packets || self.bytes + size > self.max_bytes {
            return drop_tail(packet, cx);
        }
        self.bytes += size;
        self.packets.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, _: &mut Context) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= self.wire_size(&packet);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u64, bytes: Bytes(self.bytes) }
    }

    fn set_limit(&mut self, limit: Limit, cx: &mut Context) {
        self.limit = limit;
        self.apply_limit();
        self.shrink(cx);
    }

    fn set_rate(&mut self, rate: Rate, cx: &mut Context) {
        self.rate = rate;
        self.apply_limit();
        self.shrink(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::{Rng, Time};

    fn packet(seq: u64) -> Packet {
        Packet { enqueued: Time::ZERO, seq, flow: 0, stamp: 0, extra: 0, size: 1500, flags: 0, hop: 0 }
    }

    fn queue(limit: Limit) -> Pfifo {
        Pfifo::new(&Init { limit: Some(limit), overhead: 14, rate: Rate::from_mbps(100), rng: Rng::stream(1, "pfifo") })
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
    fn a_lower_limit_drops_from_the_tail() {
        let (mut q, mut cx) = (queue(Limit::Packets(10)), Context::default());
        fill(&mut q, 10, &mut cx);
        q.set_limit(Limit::Packets(3), &mut cx);
        assert_eq!(cx.dropped.iter().map(|p| p.seq).collect::<Vec<_>>(), [9, 8, 7, 6, 5, 4, 3]);
        assert_eq!(q.backlog(), Backlog { packets: 3, bytes: Bytes(3 * 1514) });
        assert_eq!(q.dequeue(&mut cx).unwrap().seq, 0);
    }
}
