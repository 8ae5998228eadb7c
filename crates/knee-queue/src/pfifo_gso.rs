//! `pfifo` with `gso = true`: a limit in packets counts super-packets.
//!
//! With segmentation offload a sender hands a burst of segments down as one packet, and where it is forwarded, receive
//! offload joins segments again that come back to back (Linux net/ipv4/tcp_offload.c, net/core/gro.c). Only the device
//! cuts it up. So a queue of 1000 packets holds 1000 bursts (net/sched/sch_fifo.c counts what it is given), and what
//! finds it full is dropped as a whole.
//!
//! Segments of a flow that follow each other and arrive at one time are such a packet, up to 64 KiB. It leaves the
//! count when its first segment leaves.

use crate::bound::Bound;
use crate::overhead::Overhead;
use crate::{Backlog, Burst, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::{Bytes, Packet, Payload};
use std::collections::VecDeque;

/// Segments in a packet at most: 64 KiB (`GSO_LEGACY_MAX_SIZE`) of 1448 bytes each.
const MAX_SEGMENTS: u32 = 45;

#[derive(Clone)]
pub(crate) struct GsoFifo {
    /// Super-packets, as far as they have not left.
    held: VecDeque<Burst>,
    /// True if segments of the first burst have left.
    begun: bool,
    /// The last segment dropped on arrival, and how many of its packet were.
    refused: Option<Burst>,
    packets: u64,
    bytes: u64,
    overhead: Overhead,
    bound: Bound,
}

/// True if `packet` is the next segment of `burst`.
fn continues(burst: &Burst, packet: &Packet) -> bool {
    matches!(packet.payload, Payload::Data { .. })
        && burst.count < MAX_SEGMENTS
        && burst.first.behind(burst.count) == *packet
}

impl GsoFifo {
    pub(crate) fn new(init: &Init, default: Limit) -> Self {
        Self {
            held: VecDeque::new(),
            begun: false,
            refused: None,
            packets: 0,
            bytes: 0,
            overhead: Overhead::of(init),
            bound: Bound::new(init.limit.unwrap_or(default), init.rate),
        }
    }

    /// Super-packets of which nothing has left.
    fn whole(&self) -> u64 {
        self.held.len() as u64 - u64::from(self.begun)
    }

    fn drop_arriving(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        match &mut self.refused {
            Some(burst) if continues(burst, &packet) => burst.count += 1,
            refused => *refused = Some(Burst { first: packet, count: 1 }),
        }
        cx.dropped.push(packet);
        Verdict::Dropped
    }
}

impl Queue for GsoFifo {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let bytes = self.bytes + self.overhead.wire_size(&packet);
        let joins = self.held.back().is_some_and(|burst| continues(burst, &packet));
        let refused = !joins && self.refused.as_ref().is_some_and(|burst| continues(burst, &packet));
        if refused || !self.bound.holds(self.whole() + u64::from(!joins), bytes) {
            return self.drop_arriving(packet, cx);
        }
        self.packets += 1;
        self.bytes = bytes;
        match self.held.back_mut() {
            Some(burst) if joins => burst.count += 1,
            _ => self.held.push_back(Burst { first: packet, count: 1 }),
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, _: &mut Context) -> Option<Packet> {
        let burst = self.held.front_mut()?;
        let packet = burst.first;
        burst.first = packet.behind(1);
        burst.count -= 1;
        self.begun = burst.count > 0;
        if !self.begun {
            self.held.pop_front();
        }
        self.packets -= 1;
        self.bytes -= self.overhead.wire_size(&packet);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: Bytes(self.bytes) }
    }

    /// Drops from the tail; what has begun to leave goes on, unless it is beyond a limit in bytes.
    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        while !self.bound.holds(self.whole(), self.bytes) {
            let Some(burst) = self.held.back_mut() else { return };
            burst.count -= 1;
            let packet = burst.first.behind(burst.count);
            if burst.count == 0 {
                self.held.pop_back();
                self.begun &= !self.held.is_empty();
            }
            self.packets -= 1;
            self.bytes -= self.overhead.wire_size(&packet);
            cx.dropped.push(packet);
        }
    }
}

impl Bursts for GsoFifo {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FULL;
    use knee_core::{Rate, Rng, Time};

    fn queue(limit: Limit) -> GsoFifo {
        let rng = Rng::stream(1, "pfifo");
        GsoFifo::new(&Init { limit: Some(limit), overhead: 14, rate: Rate::from_mbps(100), rng }, limit)
    }

    /// `count` segments from number `first` on that arrive at `at_us`; how many were taken.
    fn arrive(queue: &mut GsoFifo, at_us: u64, first: u64, count: u64, cx: &mut Context) -> usize {
        let at = Time::from_micros(at_us);
        (first..first + count)
            .filter(|&seq| queue.enqueue(Packet { at, payload: Payload::segment(seq), ..FULL }, cx) == Verdict::Queued)
            .count()
    }

    #[test]
    fn a_limit_counts_bursts_and_a_burst_is_dropped_as_a_whole() {
        let (mut q, mut cx) = (queue(Limit::Packets(3)), Context::default());
        assert_eq!([0, 1, 2].map(|k| arrive(&mut q, k, 10 * k, 10, &mut cx)), [10, 10, 10]);
        assert_eq!(arrive(&mut q, 3, 30, 10, &mut cx), 0);
        assert_eq!((cx.dropped.len(), q.backlog().packets), (10, 30));
        // The first segment of a burst that leaves makes room for one: the rest of it is with the device.
        assert_eq!(q.dequeue(&mut cx).unwrap().payload.seq(), 0);
        assert_eq!(arrive(&mut q, 4, 40, 10, &mut cx), 10);
        assert_eq!(arrive(&mut q, 5, 50, 10, &mut cx), 0);
        let left: Vec<_> = std::iter::from_fn(|| q.dequeue(&mut cx)).map(|packet| packet.payload.seq()).collect();
        assert_eq!(left, (1..30).chain(40..50).collect::<Vec<_>>());
        assert_eq!(q.backlog(), Backlog::default());
    }

    #[test]
    fn a_refused_burst_does_not_slip_in_behind_one_that_leaves() {
        let (mut q, mut cx) = (queue(Limit::Packets(1)), Context::default());
        assert_eq!(arrive(&mut q, 0, 0, 1, &mut cx), 1);
        assert_eq!(arrive(&mut q, 1, 1, 2, &mut cx), 0);
        assert!(q.dequeue(&mut cx).is_some());
        assert_eq!((arrive(&mut q, 1, 3, 2, &mut cx), arrive(&mut q, 2, 5, 2, &mut cx)), (0, 2));
    }

    #[test]
    fn a_burst_ends_at_64_kib_at_a_gap_and_at_another_flow() {
        let (mut q, mut cx) = (queue(Limit::Packets(100)), Context::default());
        arrive(&mut q, 0, 0, 46, &mut cx);
        assert_eq!(q.whole(), 2);
        arrive(&mut q, 0, 50, 2, &mut cx);
        assert_eq!(q.whole(), 3);
        q.enqueue(Packet { payload: Payload::segment(52), flow: 1, ..FULL }, &mut cx);
        assert_eq!(q.whole(), 4);
    }
}
