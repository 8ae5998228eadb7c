//! A wire: how long packets take to be sent at a fixed rate.

use knee_core::convert::saturating_u32;
use knee_core::{Rate, Time};

/// Serialisation at a fixed rate. Fractions of nanoseconds carry over, so that a busy wire keeps its rate exactly.
#[derive(Clone)]
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

    #[inline(never)]
    fn divide(&mut self, bytes: u64) {
        let numerator = bytes * 8_000_000_000;
        self.last = (bytes, numerator / self.rate, numerator % self.rate);
    }

    /// How many packets of at most `max` bytes certainly begin to be sent within `span` if the first one begins at
    /// once: at least 1.
    #[inline]
    pub(crate) const fn begun_within(&self, span: Time, max: u64) -> u32 {
        // Each takes as long as the last one if that was a full one, or less, or a nanosecond more.
        let (bytes, ns, _) = self.last;
        if span.as_nanos() <= ns || bytes < max {
            return 1;
        }
        let count = 1 + span.as_nanos() / (ns + 1);
        saturating_u32(count)
    }
}

/// Bits sent at `rate` bit/s in a `span`.
pub(crate) fn bits_in(rate: u64, span: Time) -> u128 {
    u128::from(rate) * u128::from(span.as_nanos()) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_busy_wire_keeps_its_rate_exactly(
            rate in 1u64..10_000_000_000,
            sizes in prop::collection::vec(64u64..1600, 1..100),
        ) {
            let mut wire = Wire::new(Rate::from_bps(rate));
            let taken: u128 = sizes.iter().map(|&bytes| u128::from(wire.time_for(bytes).as_nanos())).sum();
            let bits: u128 = sizes.iter().map(|&bytes| u128::from(bytes) * 8).sum();
            prop_assert_eq!(taken, bits * 1_000_000_000 / u128::from(rate));
        }

        #[test]
        fn as_many_packets_begin_as_it_says(
            rate in 1_000_000u64..10_000_000_000,
            sizes in prop::collection::vec(64u64..=1514, 1..5),
            span in 0u64..100_000_000,
        ) {
            let mut wire = Wire::new(Rate::from_bps(rate));
            for bytes in sizes {
                wire.time_for(bytes);
            }
            let (span, count) = (Time::from_nanos(span), wire.begun_within(Time::from_nanos(span), 1514));
            let before_the_last: Time = (1..count).fold(Time::ZERO, |sum, _| sum + wire.time_for(1514));
            prop_assert!(count == 1 || before_the_last <= span, "{} packets", count);
        }
    }

    #[test]
    fn it_says_more_than_one_where_full_packets_follow_each_other() {
        let mut wire = Wire::new(Rate::from_mbps(1514 * 8));
        assert_eq!(wire.begun_within(Time::from_micros(10), 1514), 1, "nothing is known yet");
        wire.time_for(1514); // 1 us
        assert_eq!(wire.begun_within(Time::from_micros(1), 1514), 1, "the second begins no earlier than then");
        assert_eq!(wire.begun_within(Time::from_nanos(10_010), 1514), 11);
        assert_eq!(
            wire.begun_within(Time::from_secs(100_000), 1514),
            u32::MAX,
            "1e11 microseconds, as far as it counts"
        );
        wire.time_for(1000);
        assert_eq!(wire.begun_within(Time::from_micros(10), 1514), 1, "the next may be longer");
    }
}
