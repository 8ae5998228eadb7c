//! The bytes that queues count for a packet.

use crate::Init;
use knee_core::Packet;
use knee_core::packet::MTU;

/// Bytes of the link's headers, counted on top of each IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overhead(u64);

impl Overhead {
    /// The overhead of the link of `init`.
    pub(crate) fn of(init: &Init) -> Self {
        Self(u64::from(init.overhead))
    }

    /// Bytes that `packet` counts.
    #[inline]
    pub(crate) fn wire_size(self, packet: &Packet) -> u64 {
        u64::from(packet.size) + self.0
    }

    /// Bytes that a packet of the size of the MTU counts.
    pub(crate) fn frame(self) -> u64 {
        u64::from(MTU) + self.0
    }
}
