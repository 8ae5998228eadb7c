//! Outcome of a link's work: departures, drops and counters.

use crate::queue::Note;
use knee_core::{Packet, Time};

/// A packet that leaves a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// It leaves the link at its `at`, which in batches becomes the time at which it comes out of a delay behind the
    /// link; its sojourn is added to `queued`.
    pub packet: Packet,
    /// How long it was in the queue.
    pub sojourn: Time,
}

/// Departures, drops and notes since the caller last took them.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Those that left the link, in that order. While the link works, a wire's packet is the last of them. In batches,
    /// packets that have crossed their last link stay here until they land.
    pub departed: Vec<Departure>,
    /// Those dropped, in that order, and when.
    pub dropped: Vec<(Time, Packet)>,
    /// The queue's notes, in the order of time.
    pub notes: Vec<Note>,
}

impl Outcome {
    /// Returns true if packets were dropped or the queue noted something.
    #[inline]
    pub const fn has_unbooked(&self) -> bool {
        !self.dropped.is_empty() || !self.notes.is_empty()
    }
}

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
