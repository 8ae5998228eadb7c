//! Observers: what is counted and recorded while a simulation runs. They read the parts; no part knows them.

mod datagrams;
mod flow;
mod histogram;
mod link;
mod record;
mod rows;
mod sender_log;
mod spread;
mod states;

pub use datagrams::{DatagramCounts, DatagramWatch};
pub use flow::{FlowCounts, FlowWatch, no_figures};
pub use histogram::Histogram;
pub use link::{Drops, LinkCounts, LinkWatch};
pub use record::{Interval, Record};
pub use rows::Rows;
pub use sender_log::{SenderLogs, open_logs};
pub use spread::Spread;
pub use states::States;

use crate::receiver::Range;
use crate::sender::Sender;
use knee_core::{ConnectionId, Packet, Time};

/// What a counter has counted since it was `before`.
///
/// # Panics
/// If it has decreased, since that is an error in the program.
pub(crate) fn since(now: u64, before: u64) -> u64 {
    assert!(before <= now, "a counter fell from {before} to {now}");
    now - before
}

/// Sees what a capture on the senders' machines would: their packets before the first queue, and the ACKs that arrive. Each
/// way of a connection has a sender of its own; `id` says of which connection and which way. What packets carry as their flow
/// is another number.
pub trait Tap: Send {
    /// A sender sends a packet at `at`.
    fn sent(&mut self, at: Time, id: ConnectionId, packet: &Packet);
    /// An ACK with these SACK blocks, in segments, reaches its sender at `at`. It left the receiver, or entered the last
    /// link on its way back, at `ack.enqueued`.
    fn received(&mut self, at: Time, id: ConnectionId, ack: &Packet, blocks: &[Range]);
    /// A TCP sender has taken an ACK, or one of its timers has fired, at `at`. What it sends for that follows.
    fn updated(&mut self, _at: Time, _id: ConnectionId, _sender: &Sender) {}
}
