//! Outcome of a link's work: departures, drops and counters.

use knee_core::{Packet, Time};

/// A packet that leaves a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// When it leaves the link; behind a delay, when it comes out of that.
    pub at: Time,
    /// The packet; its sojourn is added to `queued`.
    pub packet: Packet,
    /// How long it was in the queue.
    pub sojourn: Time,
}

/// A packet that was dropped, and when.
pub type Dropped = (Time, Packet);

/// Counters of a link since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived, before random loss.
    pub arrived: u64,
    /// Packets that left.
    pub departed: u64,
    /// Bytes that left, overhead included.
    pub bytes: u64,
    /// Packets dropped by the queue or by random loss.
    pub drops: u64,
}

/// Bits that a link has carried and could have carried since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bits that left, and those of a packet that have been sent.
    pub carried: u128,
    /// Bits it could have carried, apart from what a token bucket had saved.
    pub offered: u128,
    /// Tokens that a token bucket has saved.
    pub saved: u128,
    /// By how much the others may be off, times being whole nanoseconds.
    pub rounding: u128,
}
