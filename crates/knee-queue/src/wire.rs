//! A wire: how long packets take to be sent at a fixed rate.

use knee_core::{Rate, Time};

/// Serialisation at a fixed rate. Fractions of nanoseconds carry over, so that a busy wire keeps its rate exactly.
pub struct Wire {
    /// In bit/s.
    rate: u64,
    /// Numerator left over from earlier packets, below `rate`.
    carry: u64,
    /// Size, quotient and remainder of the last division: nearly all packets have one size.
    last: (u64, u64, u64),
}

impl Wire {
    /// A wire of `rate`, which is more than none.
    pub const fn new(rate: Rate) -> Self {
        Self { rate: rate.as_bps(), carry: 0, last: (0, 0, 0) }
    }

    /// Its rate in bit/s.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// How long it takes to send `bytes` (of a packet with its overhead), asked once per packet.
    #[inline]
    pub fn time_for(&mut self, bytes: u64) -> Time {
        if self.last.0 != bytes {
            self.divide(bytes);
        }
        let (_, mut ns, remainder) = self.last;
        self.carry += remainder;
        if self.carry >= self.rate {
            self.carry -= self.rate;
            ns += 1;
        }
        Time::from_nanos(ns)
    }

    /// Undoes [`Wire::time_for`] for a packet of as many bytes that was the last one asked for.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        let remainder = bytes * 8_000_000_000 % self.rate;
        self.carry = if self.carry < remainder { self.carry + self.rate - remainder } else { self.carry - remainder };
    }

    #[inline(never)]
    fn divide(&mut self, bytes: u64) {
        let numerator = bytes * 8_000_000_000;
        self.last = (bytes, numerator / self.rate, numerator % self.rate);
    }

    /// How many packets of no more than `most` bytes surely begin to be sent within `span` if the first begins at once:
    /// at least 1.
    #[inline]
    pub(crate) fn begun_within(&self, span: Time, most: u64) -> u32 {
        // Each takes as long as the last one if that was a full one, or less, or a nanosecond more.
        let (bytes, ns, _) = self.last;
        if span.as_nanos() <= ns || bytes < most {
            return 1;
        }
        (1 + span.as_nanos() / (ns + 1)).min(u64::from(u32::MAX)) as u32
    }
}
