//! Packets that were sent and of which neither an acknowledgment nor the loss is known.
//!
//! Packets leave in bursts of consecutive numbers, one size and consecutive data: one [`Record`] stands for up to 64,
//! with a bit for each whose fate is open.

use knee_core::Time;
use knee_core::convert::{count_u32, low_u16, low_u32};
use knee_tcp::sender::{RateStart, Ring};
use std::collections::VecDeque;

/// A burst that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was sent, ns (9 years), above 6 bits for the number of packets less one.
    sent_count: u64,
    /// A bit for each packet whose fate is open, the first packet's lowest.
    open: u64,
    /// Number of the first packet.
    first: u64,
    /// Place of its data in the stream, lower half: none in flight are further apart than that can tell.
    offset: u32,
    /// Bytes of data in each packet.
    len: u16,
    /// They left with an ECT codepoint.
    ect: bool,
    /// Their data is a datagram, and not the stream's.
    datagram: bool,
}

const _: () = assert!(size_of::<Record>() == 32);

/// Bits of [`Record::sent_count`] below the time.
const COUNT_BITS: u32 = 6;

impl Record {
    /// Packets that a record can hold.
    pub const MOST: u32 = 1 << COUNT_BITS;

    /// `count` packets from number `first` on, of `len` bytes of data each, from `offset` on.
    pub const fn new(first: u64, count: u32, sent: Time, offset: u64, len: u16, ect: bool) -> Self {
        debug_assert!(count > 0 && count <= Self::MOST && sent.as_nanos() >> (u64::BITS - COUNT_BITS) == 0);
        let sent_count = sent.as_nanos() << COUNT_BITS | (count - 1) as u64;
        let open = u64::MAX >> (Self::MOST - count);
        Self { sent_count, open, first, offset: low_u32(offset), len, ect, datagram: false }
    }

    /// When they were sent.
    pub const fn sent(&self) -> Time {
        Time::from_nanos(self.sent_count >> COUNT_BITS)
    }

    /// Number of the first packet.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Number after the last packet.
    pub const fn end(&self) -> u64 {
        self.first + (self.sent_count & (Self::MOST as u64 - 1)) + 1
    }

    /// Bytes of data in each packet.
    pub const fn len(&self) -> u16 {
        self.len
    }

    /// True if they left with an ECT codepoint.
    pub const fn ect(&self) -> bool {
        self.ect
    }

    /// The same, with a datagram as their data.
    #[must_use]
    pub const fn with_datagram(self) -> Self {
        Self { datagram: true, ..self }
    }

    /// True if their data is a datagram.
    pub const fn is_datagram(&self) -> bool {
        self.datagram
    }

    /// A bit for each packet from number `from` to before `to` whose fate is open.
    pub fn open_in(&self, from: u64, to: u64) -> u64 {
        let below = |number: u64| match number.saturating_sub(self.first) {
            0 => 0,
            n if n < Self::MOST as u64 => (1 << n) - 1,
            _ => u64::MAX,
        };
        self.open & below(to) & !below(from)
    }

    /// The fate of these packets is known.
    pub const fn close(&mut self, bits: u64) {
        self.open &= !bits;
    }

    /// The runs of packets in `bits`: the number of each one's first packet, and their data, given a place in the
    /// stream not far away.
    pub fn runs(self, mut bits: u64, near: u64) -> impl Iterator<Item = Run> {
        let ahead = self.offset.wrapping_sub(low_u32(near)).cast_signed();
        let offset = near.wrapping_add_signed(i64::from(ahead));
        std::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let start = bits.trailing_zeros();
            let count = (bits >> start).trailing_ones();
            bits &= u64::MAX.checked_shl(start + count).unwrap_or(0);
            let from = offset + u64::from(start) * u64::from(self.len);
            let data = (from, from + u64::from(count) * u64::from(self.len));
            Some(Run { first: self.first + u64::from(start), count, data })
        })
    }
}

/// Consecutive packets of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the first one.
    pub first: u64,
    /// How many.
    pub count: u32,
    /// Their data in the stream.
    pub data: (u64, u64),
}

/// A packet that was found lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPacket {
    /// Its number.
    pub number: u64,
    /// When it was found lost.
    pub at: Time,
    /// Place of its data in the stream.
    pub offset: u64,
    /// Bytes of data.
    pub len: u16,
}

/// Records in the order of sending, each with the delivery state at its departure where rate samples are read.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    pub(super) records: Ring<Record>,
    starts: Option<VecDeque<RateStart>>,
}

impl Flight {
    /// Nothing in flight.
    pub fn new(keeps_starts: bool) -> Self {
        Self { starts: keeps_starts.then(VecDeque::new), ..Self::default() }
    }

    /// Books a burst.
    pub fn push(&mut self, record: Record, start: impl FnOnce() -> RateStart) {
        if self.records.len() == self.records.capacity() {
            self.records.grow();
        }
        self.records.push(record);
        if let Some(starts) = &mut self.starts {
            starts.push_back(start());
        }
    }

    /// How many records.
    pub const fn len(&self) -> u32 {
        self.records.end().wrapping_sub(self.records.first())
    }

    /// The record at this place from the front on.
    pub fn get(&self, place: u32) -> Option<&Record> {
        (place < self.len()).then(|| self.records.at(self.records.first().wrapping_add(place)))
    }

    /// Closes packets of the record at this place.
    pub fn close(&mut self, place: u32, bits: u64) {
        if place < self.len() {
            self.records.at_mut(self.records.first().wrapping_add(place)).close(bits);
        }
    }

    /// The place of the first record that ends behind packet `number`.
    pub fn place_of(&self, number: u64) -> u32 {
        // Mostly the oldest ones are acknowledged.
        if self.records.front().is_none_or(|record| record.end() > number) {
            return 0;
        }
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = u32::midpoint(from, to);
            if self.get(middle).is_some_and(|record| record.end() <= number) { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// The delivery state when the record at this place left; none where rate samples are not read.
    pub fn start_of(&self, place: u32) -> Option<RateStart> {
        self.starts.as_ref()?.get(place as usize).copied()
    }

    /// Drops the records at the front whose packets all have their fate.
    pub fn drop_settled(&mut self) {
        while self.records.front().is_some_and(|record| record.open == 0) {
            self.records.drop_front(1);
            if let Some(starts) = &mut self.starts {
                starts.pop_front();
            }
        }
    }
}

/// A length in bytes of data that is no longer than a packet's.
pub const fn packet_len(bytes: u64) -> u16 {
    debug_assert!(bytes <= u16::MAX as u64, "more than a packet holds");
    low_u16(bytes)
}

/// How many packets of `len` bytes there are in `bytes`, at most a record's.
pub const fn whole_packets(bytes: u64, len: u16) -> u32 {
    let count = bytes / if len == 0 { 1 } else { len as u64 };
    if count > Record::MOST as u64 { Record::MOST } else { count_u32(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_its_packets_apart() {
        let mut record = Record::new(1_000, 64, Time::from_nanos(12_345), (5 << 32) + 7, 100, true);
        assert_eq!((record.first(), record.end(), record.sent().as_nanos()), (1_000, 1_064, 12_345));
        assert_eq!(
            (record.open_in(0, 1_000), record.open_in(0, u64::MAX), record.open_in(1_063, 1_064)),
            (0, u64::MAX, 1 << 63)
        );
        record.close(record.open_in(1_002, 1_062));
        let runs: Vec<_> = record.runs(record.open_in(0, 2_000), 5 << 32).collect();
        let at = |place: u64| (5 << 32) + 7 + place * 100;
        assert_eq!(
            runs,
            [
                Run { first: 1_000, count: 2, data: (at(0), at(2)) },
                Run { first: 1_062, count: 2, data: (at(62), at(64)) }
            ]
        );
    }

    #[test]
    fn records_are_found_by_the_numbers_of_their_packets() {
        let mut flight = Flight::new(true);
        for i in 0..20u32 {
            let record = Record::new(u64::from(i) * 3, 3, Time::ZERO, 0, 10, false);
            flight.push(record, || RateStart { in_flight: i, ..RateStart::default() });
        }
        assert_eq!([0, 2, 3, 58, 59, 60].map(|number| flight.place_of(number)), [0, 0, 1, 19, 19, 20]);
        flight.close(0, u64::MAX);
        flight.close(2, u64::MAX);
        flight.drop_settled();
        assert_eq!((flight.len(), flight.place_of(0), flight.place_of(8)), (19, 0, 1));
        assert_eq!(flight.start_of(1).map(|start| start.in_flight), Some(2));
    }
}
