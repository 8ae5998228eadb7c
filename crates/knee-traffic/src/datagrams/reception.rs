//! A receiver's counts and jitter, from numbered datagrams with the time at which they were sent.

use knee_core::Time;
use knee_core::convert::low_u32;

/// Counts and jitter of the datagrams of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reception {
    /// Datagrams that arrived.
    received: u64,
    /// The number after the highest one that arrived.
    expected: u64,
    /// Transit of the last one, ns, and 16 times the jitter.
    transit: Option<u64>,
    jitter: u64,
    /// The jitter in ns after each one but the first, added up.
    jitter_sum: u64,
}

impl Reception {
    /// A datagram has arrived, whose number has these low 32 bits, after `transit`, by whichever clocks. Gives its
    /// number.
    ///
    /// Interarrival jitter is RFC 3550's (6.4.1, and A.8 for the rounding): `J += (|D| - J) / 16` for each datagram in
    /// the order of arrival, where D is the change of the transit.
    pub fn on_datagram(&mut self, number: u32, transit: Time) -> u64 {
        let number = self.number(number);
        self.received += 1;
        self.expected = self.expected.max(number + 1);
        if let Some(before) = self.transit.replace(transit.as_nanos()) {
            self.jitter = self.jitter + transit.as_nanos().abs_diff(before) - ((self.jitter + 8) >> 4);
            self.jitter_sum += self.jitter >> 4;
        }
        number
    }

    /// The number that has these low 32 bits: the nearest to the one expected (RFC 3550, A.1).
    pub const fn number(&self, low: u32) -> u64 {
        let ahead = low.wrapping_sub(low_u32(self.expected)).cast_signed();
        self.expected.saturating_add_signed(ahead as i64)
    }

    /// The number after the highest one that arrived.
    pub const fn expected(&self) -> u64 {
        self.expected
    }

    /// Datagrams that arrived.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Interarrival jitter now. `None` if fewer than two datagrams have arrived.
    pub fn jitter(&self) -> Option<Time> {
        (self.received > 1).then(|| Time::from_nanos(self.jitter >> 4))
    }

    /// The mean of the jitter after each datagram since `before`. `None` if there was none.
    pub fn mean_jitter_since(&self, before: &Self) -> Option<Time> {
        let samples = |reception: &Self| reception.received.saturating_sub(1);
        let count = samples(self) - samples(before);
        (count > 0).then(|| Time::from_nanos((self.jitter_sum - before.jitter_sum) / count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn jitter_follows_rfc_3550() {
        let mut reception = Reception::default();
        assert_eq!(reception.jitter(), None);
        reception.on_datagram(0, ms(10));
        assert_eq!((reception.jitter(), reception.mean_jitter_since(&Reception::default())), (None, None));
        reception.on_datagram(1, ms(26));
        // 16 ms / 16, then 1 - 1/16.
        assert_eq!(reception.jitter(), Some(ms(1)));
        reception.on_datagram(2, ms(26));
        assert_eq!(reception.jitter(), Some(Time::from_nanos(937_500)));
        assert_eq!(reception.mean_jitter_since(&Reception::default()), Some(Time::from_nanos(968_750)));
    }

    #[test]
    fn a_late_datagram_does_not_lower_the_number_that_is_expected() {
        let mut reception = Reception::default();
        assert_eq!([0, 1, 4].map(|number| reception.on_datagram(number, ms(1))), [0, 1, 4]);
        reception.on_datagram(2, ms(1));
        assert_eq!((reception.received(), reception.expected()), (4, 5));
    }

    #[test]
    fn numbers_go_on_beyond_32_bits() {
        let mut reception = Reception { received: 1 << 32, expected: 1 << 32, ..Reception::default() };
        assert_eq!(
            [3, 1, u32::MAX].map(|number| reception.on_datagram(number, ms(1))),
            [(1 << 32) + 3, (1 << 32) + 1, (1 << 32) - 1]
        );
    }

    proptest! {
        /// The jitter stays between nothing and the greatest change of the transit.
        #[test]
        fn jitter_is_bounded_by_the_greatest_change(transits in prop::collection::vec(0u64..1_000_000_000, 2..100)) {
            let mut reception = Reception::default();
            (0..).zip(&transits).for_each(|(k, ns)| { reception.on_datagram(k, Time::from_nanos(*ns)); });
            let greatest = transits.windows(2).map(|pair| pair[0].abs_diff(pair[1])).max().unwrap_or(0);
            let jitter = reception.jitter().expect("two have arrived");
            prop_assert!(jitter.as_nanos() <= greatest + 1, "{jitter} {greatest}");
        }
    }
}
