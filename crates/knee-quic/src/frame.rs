//! ACK frames, and the ECN field of packets as they arrive.

use crate::ranges::{Range, Ranges};
use knee_core::Time;
use std::sync::Arc;

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
    /// The range of the largest packets that arrived.
    pub top: Range,
    /// The ranges below it, ascending; none where there is no other. Frames share them until a packet changes them, so
    /// that a sender has to look at them once.
    pub below: Option<Arc<[Range]>>,
    /// Bytes of those ranges in the frame.
    pub below_size: u16,
    /// How long the largest packet waited for this frame.
    pub delay: Time,
    /// Marks counted, where the receiver sees them.
    pub ecn: Option<EcnCounts>,
}

/// Bytes of a number as a variable-length integer (RFC 9000, 16).
pub const fn varint(n: u64) -> u16 {
    match n {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

impl AckFrame {
    /// A frame that acknowledges what is in `ranges`.
    pub fn of(ranges: &Ranges, delay: Time, ecn: Option<EcnCounts>) -> Self {
        let Some((&top, below)) = ranges.as_slice().split_last() else { return Self::default() };
        Self {
            top,
            below: (!below.is_empty()).then(|| below.into()),
            below_size: Self::size_below(below, top),
            delay,
            ecn,
        }
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.below.iter().flat_map(|below| below.iter().copied()).chain(std::iter::once(self.top))
    }

    /// The largest packet acknowledged; none if the frame acknowledges nothing.
    pub const fn largest(&self) -> Option<u64> {
        self.top.1.checked_sub(1)
    }

    /// Bytes of ranges below the highest one, a gap and a length each, which count from one packet (19.3.1).
    pub fn size_below(below: &[Range], top: Range) -> u16 {
        let starts = below.iter().skip(1).map(|range| range.0).chain([top.0]);
        below.iter().zip(starts).map(|(range, next)| varint(next - range.1 - 1) + varint(range.1 - 1 - range.0)).sum()
    }

    /// Bytes of the frame (RFC 9000, 19.3).
    pub fn size(&self) -> u16 {
        let (from, to) = self.top;
        let count = self.below.as_ref().map_or(0, |below| below.len()) as u64;
        let counts = self.ecn.map_or(0, |EcnCounts { ect0, ect1, ce }| varint(ect0) + varint(ect1) + varint(ce));
        let delay = varint(self.delay.as_nanos() / DELAY_UNIT.as_nanos());
        1 + varint(to - 1) + delay + varint(count) + varint(to - 1 - from) + self.below_size + counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand from RFC 9000, 19.3: type, largest, delay of 20 ms (2,500 units), one range after the first, the
    /// first range, a gap, a range, three counts.
    #[test]
    fn an_ack_has_the_bytes_of_its_fields() {
        let mut ranges = Ranges::default();
        let size = |ranges: &Ranges, ecn| AckFrame::of(ranges, Time::from_millis(20), ecn).size();
        ranges.insert(0, 64);
        assert_eq!(size(&ranges, None), 1 + 1 + 2 + 1 + 1);
        ranges.insert(200, 20_001);
        assert_eq!(size(&ranges, None), 1 + 4 + 2 + 1 + 4 + 2 + 1);
        ranges.insert(100, 101);
        assert_eq!(size(&ranges, None), 1 + 4 + 2 + 1 + 4 + 2 + 1 + 1 + 1);
        let counts = EcnCounts { ect0: 5_000, ect1: 0, ce: 3 };
        assert_eq!(size(&ranges, Some(counts)), 17 + 2 + 1 + 1);
    }
}
