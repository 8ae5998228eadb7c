//! Watches packets: which are in the queue, and, on request, what becomes of each.

use crate::session::lock;
use bytemuck::{Pod, Zeroable};
use knee_core::convert::{low_u16, low_u32};
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_sim::Tap;
use knee_tcp::sender::AckInfo;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Something that a packet did.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Seen {
    /// When, ns.
    pub at: f64,
    /// Number of its segment; of an ACK, the next segment expected, or `u32::MAX` where it carries SACK blocks.
    pub seq: u32,
    /// Index of its flow in the low 16 bits; then a [`What`]; bit 24 where it is marked CE.
    pub what: u32,
}

/// A step of a packet.
#[derive(Clone, Copy)]
pub enum What {
    /// Left its sender, for the queue.
    Sent = 0,
    /// Left the link, for its receiver.
    Delivered = 1,
    /// Was dropped.
    Dropped = 2,
    /// Came back to the sender: an ACK.
    Acked = 3,
}

/// Packets on record at the most: what is not read in time is no longer of interest.
const KEPT: usize = 1 << 16;

/// Packets in the queue and on the wire, and those on record.
#[derive(Default)]
pub struct Book {
    held: VecDeque<Seen>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) records: bool,
}

impl Book {
    /// Packets in the queue and on the wire, in the order in which they were sent.
    pub fn held(&mut self) -> &[Seen] {
        self.held.make_contiguous()
    }

    /// The steps of each packet on record.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    fn note(&mut self, at: Time, id: ConnectionId, packet: &Packet, what: What) -> Seen {
        let seq = match packet.payload {
            Payload::Data { .. } => packet.payload.seq(),
            Payload::Stream { number, .. } => number.near(0),
            Payload::Ack { next, .. } | Payload::Sack { next, .. } | Payload::QuicAck { next, .. } => next.near(0),
            Payload::Stored(_) => u64::MAX,
        };
        let marked = u32::from(packet.has(Packet::CE)) << 24;
        let what = id.flow() & 0xffff | (what as u32) << 16 | marked;
        let seen = Seen { at: at.as_nanos() as f64, seq: low_u32(seq), what };
        if self.records && self.seen.len() < KEPT {
            self.seen.push(seen);
        }
        seen
    }

    /// A packet has left the queue. Those of a flow that are dropped or leave do so in any order across flows.
    fn release(&mut self, gone: Seen) {
        let same = |held: &Seen| held.seq == gone.seq && low_u16(held.what.into()) == low_u16(gone.what.into());
        if let Some(place) = self.held.iter().position(same) {
            self.held.remove(place);
        }
    }
}

/// The observer that keeps the [`Book`].
pub struct Packets(pub Arc<Mutex<Book>>);

impl Tap for Packets {
    fn sent(&mut self, at: Time, id: ConnectionId, packet: &Packet) {
        let mut book = lock(&self.0);
        let seen = book.note(at, id, packet, What::Sent);
        book.held.push_back(seen);
    }

    fn received(&mut self, at: Time, id: ConnectionId, packet: &Packet, _: Option<&AckInfo>) {
        lock(&self.0).note(at, id, packet, What::Acked);
    }

    fn delivered(&mut self, at: Time, id: ConnectionId, packet: &Packet) {
        let mut book = lock(&self.0);
        let seen = book.note(at, id, packet, What::Delivered);
        book.release(seen);
    }

    fn dropped(&mut self, at: Time, id: ConnectionId, packet: &Packet) {
        if packet.has(Packet::ACK) {
            return;
        }
        let mut book = lock(&self.0);
        let seen = book.note(at, id, packet, What::Dropped);
        book.release(seen);
    }
}
