//! ACK frames, and the ECN field of packets as they arrive.

use crate::ranges::Ranges;
use knee_core::Time;

/// The unit in which ACKs report their delay: 2^3 us, by the default `ack_delay_exponent` (RFC 9000, 18.2).
pub const DELAY_UNIT: Time = Time::from_micros(8);

/// Counts of packets that arrived with each mark (RFC 9000, 19.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// With ECT(0).
    pub ect0: u64,
    /// With ECT(1).
    pub ect1: u64,
    /// With CE.
    pub ce: u64,
}

/// The ECN field of a packet (RFC 3168, 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// An ACK frame (RFC 9000, 19.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckFrame {
    /// Packets that arrived.
    pub ranges: Ranges,
    /// How long the largest of them waited for this frame.
    pub delay: Time,
    /// Marks counted, where the receiver sees them.
    pub ecn: Option<EcnCounts>,
}

impl AckFrame {
    /// The largest packet acknowledged; none if the frame acknowledges nothing.
    pub fn largest(&self) -> Option<u64> {
        self.ranges.last()
    }
}
