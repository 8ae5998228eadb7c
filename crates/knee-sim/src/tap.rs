//! Observers of packets: at senders, as they reach receivers, and as links drop them.

use knee_core::{ConnectionId, Packet, Time};
use knee_tcp::sender::{AckInfo, Sender};

/// Sees what a capture on the senders' machines would: their packets before the first queue, and the ACKs that arrive.
/// Each direction of a connection has a sender of its own; `id` says of which connection and which direction. What
/// packets carry as their flow is another number.
pub trait Tap: Send {
    /// A sender sends a packet at `at`.
    fn sent(&mut self, at: Time, id: ConnectionId, packet: &Packet);
    /// A packet reaches the sender at `at`, with this ACK, or without one if its flow is UDP's. It left the receiver at
    /// `packet.at`; behind several links on its path back, that is when it came to the last of them.
    fn received(&mut self, at: Time, id: ConnectionId, packet: &Packet, ack: Option<&AckInfo>);
    /// A data packet brings this ACK to the sender of `id`, which sends the other way, at `at`.
    fn carried(&mut self, _at: Time, _id: ConnectionId, _packet: &Packet, _ack: &AckInfo) {}
    /// A TCP sender has taken an ACK, or one of its timers has fired, at `at`. What it sends for that follows.
    fn updated(&mut self, _at: Time, _id: ConnectionId, _sender: &Sender) {}
    /// A data packet reaches its receiver at `at`.
    fn delivered(&mut self, _at: Time, _id: ConnectionId, _packet: &Packet) {}
    /// A link drops a packet at `at`.
    fn dropped(&mut self, _at: Time, _id: ConnectionId, _packet: &Packet) {}
}
