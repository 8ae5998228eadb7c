//! A limit as two numbers that every enqueue compares with: packets and bytes.

use crate::{Limit, Resize};
use knee_core::{Bytes, Rate};

/// The most a queue may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    limit: Limit,
    rate: Rate,
    max_packets: u64,
    max_bytes: u64,
}

impl Bound {
    /// `limit` on a link of `rate`.
    pub fn new(limit: Limit, rate: Rate) -> Self {
        let (max_packets, max_bytes) = match limit {
            Limit::Packets(n) => (n, u64::MAX),
            Limit::Bytes(Bytes(n)) => (u64::MAX, n),
            Limit::Time(span) => (u64::MAX, rate.bytes_in(span).0),
        };
        Self { limit, rate, max_packets, max_bytes }
    }

    /// The bound after a change of limit or rate.
    #[must_use]
    pub fn resized(self, to: Resize) -> Self {
        match to {
            Resize::Limit(limit) => Self::new(limit, self.rate),
            Resize::Rate(rate) => Self::new(self.limit, rate),
        }
    }

    /// The rate of the link.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many packets of `size` bytes, which are more than none, it has room for besides `packets` and `bytes`.
    pub fn room(&self, packets: u64, bytes: u64, size: u64) -> u64 {
        let by_packets = self.max_packets.saturating_sub(packets);
        let by_bytes = if self.max_bytes == u64::MAX { u64::MAX } else { self.max_bytes.saturating_sub(bytes) / size };
        by_packets.min(by_bytes)
    }

    /// Bytes that it holds in frames of `frame` bytes.
    pub fn bytes(&self, frame: u64) -> u64 {
        self.max_bytes.min(self.max_packets.saturating_mul(frame))
    }

    /// True if `packets` and `bytes` are within it.
    #[inline]
    pub fn holds(&self, packets: u64, bytes: u64) -> bool {
        packets <= self.max_packets && bytes <= self.max_bytes
    }
}
