//! A first-in-first-out queue with its bytes counted, the store of the disciplines that have one or two of them.
//! `pfifo` has its own, of bursts.

use crate::bound::Bound;
use crate::overhead::Overhead;
use crate::{Backlog, Context, Init};
use knee_core::{Bytes, Packet};
use std::collections::VecDeque;

/// Packets in the order they came.
#[derive(Clone)]
pub struct Fifo {
    packets: VecDeque<Packet>,
    bytes: u64,
    overhead: Overhead,
}

impl Fifo {
    /// An empty one on the link of `init`.
    pub fn new(init: &Init) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, overhead: Overhead::of(init) }
    }

    /// Bytes that `packet` counts.
    pub fn wire_size(&self, packet: &Packet) -> u64 {
        self.overhead.wire_size(packet)
    }

    /// Bytes that a packet of the size of the MTU counts.
    pub fn frame(&self) -> u64 {
        self.overhead.frame()
    }

    /// Puts `packet` at the tail.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.bytes += self.wire_size(&packet);
        self.packets.push_back(packet);
    }

    /// Takes the packet at the head.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= self.wire_size(&packet);
        Some(packet)
    }

    /// The packet at the head.
    pub fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    /// Drops the packet at the tail, if there is one.
    pub fn drop_tail(&mut self, cx: &mut Context) {
        self.drop_at(self.packets.len().wrapping_sub(1), cx);
    }

    /// Drops the packet at this place, counted from 0 at the head, if there is one.
    pub fn drop_at(&mut self, place: usize, cx: &mut Context) {
        if let Some(packet) = self.packets.remove(place) {
            self.bytes -= self.wire_size(&packet);
            cx.dropped.push(packet);
        }
    }

    /// Packets held.
    pub fn len(&self) -> u64 {
        self.packets.len() as u64
    }

    /// True if it holds no packet.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets and bytes held.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.len(), bytes: Bytes(self.bytes) }
    }

    /// True if `packet` fits within `bound`.
    #[inline]
    pub fn has_room(&self, packet: &Packet, bound: &Bound) -> bool {
        bound.holds(self.len() + 1, self.bytes + self.wire_size(packet))
    }

    /// Drops from the tail what is not within `bound`.
    pub fn shrink(&mut self, bound: &Bound, cx: &mut Context) {
        while !bound.holds(self.len(), self.bytes) {
            self.drop_tail(cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FULL;
    use knee_core::{Rate, Rng};

    #[test]
    fn a_packet_is_dropped_from_any_place_and_the_others_keep_their_order() {
        let init = Init { limit: None, overhead: 14, rate: Rate::from_mbps(1), rng: Rng::stream(1, "fifo") };
        let packet = |k: u16| Packet { size: 100 * (k + 1), ..FULL };
        for place in 0..5 {
            let (mut fifo, mut cx) = (Fifo::new(&init), Context::default());
            (0..4).for_each(|k| fifo.push(packet(k)));
            fifo.drop_at(place, &mut cx);
            let (dropped, kept): (Vec<_>, Vec<_>) = (0..4).partition(|&k| usize::from(k) == place);
            assert_eq!(cx.dropped, dropped.into_iter().map(packet).collect::<Vec<_>>());
            let bytes = kept.iter().map(|&k| u64::from(packet(k).size) + 14).sum();
            assert_eq!(fifo.backlog(), Backlog { packets: kept.len() as u64, bytes: Bytes(bytes) });
            assert_eq!(
                std::iter::from_fn(|| fifo.pop()).collect::<Vec<_>>(),
                kept.into_iter().map(packet).collect::<Vec<_>>()
            );
            assert_eq!(fifo.bytes(), 0);
        }
    }
}
