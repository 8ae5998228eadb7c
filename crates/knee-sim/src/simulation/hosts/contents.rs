//! Contents of QUIC's packets beside their own fields, and messages of its connections.

use knee_core::Priority;
use knee_quic::{AckFrame, Frames};
use std::sync::Arc;

/// Contents of a packet of QUIC.
#[derive(Clone)]
pub(in crate::simulation) enum QuicContents {
    /// An ACK that has several ranges, or one that begins behind the first packet, or counts of marks.
    Ack(AckFrame),
    /// Frames of several streams, and the packet's number.
    Frames(u64, Arc<Frames>),
}

/// A message with a stream of QUIC of its own.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct StreamMessage {
    /// Number of the stream.
    pub(in crate::simulation) stream: u64,
    pub(in crate::simulation) bytes: u64,
    pub(in crate::simulation) priority: Priority,
}

/// Streams of a connection on which messages have come as a whole, or are acknowledged, since the last call.
pub(in crate::simulation) struct StreamProgress {
    /// Streams whose request is at the other end.
    pub(in crate::simulation) asked: Vec<u64>,
    /// Streams whose request is acknowledged.
    pub(in crate::simulation) acked: Vec<u64>,
    /// Streams whose answer is at the application.
    pub(in crate::simulation) answered: Vec<u64>,
}

/// The state of the messages of a connection of QUIC.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct Progress {
    /// True once the application's data may leave.
    pub(in crate::simulation) connected: bool,
    /// True once the handshake is over for the end that opened it.
    pub(in crate::simulation) shaken: bool,
    /// Bytes from the application: without a hole at the other end, and acknowledged.
    pub(in crate::simulation) asked: (u64, u64),
    /// Bytes of answers without a hole at the application.
    pub(in crate::simulation) answered: u64,
    /// True if all that was written is acknowledged, and no ACK waits.
    pub(in crate::simulation) settled: bool,
}
