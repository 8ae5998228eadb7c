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
        if let Some(packet) = self.packets.pop_back() {
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
