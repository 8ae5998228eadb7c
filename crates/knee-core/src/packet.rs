//! The packet: 32 bytes, copied by value through queues and pipes.

use crate::convert::saturating_u32;
use crate::units::Time;

/// IP packet size of a full segment, in bytes.
pub const MTU: u16 = 1500;
/// Payload of a full segment: 1500 less IP (20), TCP (20) and the timestamp option (12).
pub const MSS: u16 = 1448;
/// IP packet size of a pure ACK: IP, TCP and the timestamp option.
pub const ACK_SIZE: u16 = 52;

/// Where in an ACK's number the bytes begin that are acknowledged of a segment: 2^48 segments are 400 PB, more than any run
/// sends.
const PART_SHIFT: u32 = 48;

/// A packet on its way through links and pipes.
///
/// Segments are counted, not bytes: segment `seq` of a flow carries [`MSS`] bytes at the most; the last one of a transfer, or
/// of what an application writes, may carry fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// When it entered the queue it is in, or entered last.
    pub enqueued: Time,
    /// Data: its segment. ACK: the next segment expected (cumulative), perhaps with a part of it ([`Packet::with_part`]).
    pub seq: u64,
    /// Index of its flow.
    pub flow: u32,
    /// Timestamp option in milliseconds; data: TSval, ACK: TSecr.
    pub stamp: u32,
    /// Data: queueing delay so far in units of [`Packet::QUEUED_UNIT`]. ACK: handle of its SACK blocks, or 0.
    pub extra: u32,
    /// Size of the IP packet in bytes.
    pub size: u16,
    /// See the associated constants.
    pub flags: u8,
    /// Which link of its path it crosses (or is about to), from 0.
    pub hop: u8,
}

const _: () = assert!(size_of::<Packet>() == 32);

impl Packet {
    /// An acknowledgement, travelling against its flow's data.
    pub const ACK: u8 = 1 << 0;
    /// ECN-capable transport (RFC 3168).
    pub const ECT: u8 = 1 << 1;
    /// Congestion experienced, set by a queue.
    pub const CE: u8 = 1 << 2;
    /// ECN echo, on ACKs.
    pub const ECE: u8 = 1 << 3;
    /// Congestion window reduced, on data.
    pub const CWR: u8 = 1 << 4;
    /// A handshake packet.
    pub const SYN: u8 = 1 << 5;
    /// L4S: ECT(1) rather than ECT(0) (RFC 9331); goes with `ECT`.
    pub const L4S: u8 = 1 << 6;
    /// The third bit of accurate ECN's counter, on ACKs (RFC 9768, 2.1).
    pub const AE: u8 = 1 << 7;
    /// The bits of an ACK that carry accurate ECN's counter (RFC 9768, 3.2.2): AE, CWR and ECE, highest first.
    pub const ACE: u8 = Self::AE | Self::CWR | Self::ECE;

    /// Resolution of the accumulated queueing delay: 64 ns, so that 32 bits hold 274 s.
    pub const QUEUED_UNIT: Time = Time::from_nanos(64);

    /// The flags that carry the low three bits of `count` as accurate ECN's counter.
    pub const fn ace(count: u8) -> u8 {
        (count & 4) << 5 | (count & 2) << 3 | (count & 1) << 3
    }

    /// The counter that `flags` of an ACK carry, below 8.
    pub const fn ace_count(flags: u8) -> u8 {
        (flags & Self::AE) >> 5 | (flags & Self::CWR) >> 3 | (flags & Self::ECE) >> 3
    }

    /// The ECN field of the IP header (RFC 3168, 5): 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 CE.
    pub const fn ecn_field(&self) -> u8 {
        match (self.has(Self::CE), self.has(Self::ECT), self.has(Self::L4S)) {
            (true, ..) => 3,
            (false, true, true) => 1,
            (false, true, false) => 2,
            (false, false, _) => 0,
        }
    }

    /// The cumulative acknowledgement of all segments before `seq`, and of `bytes` of that one. Only receivers that divide ACKs
    /// acknowledge a part of a segment; it lies above all segment numbers, so that who expects none sees a segment that was
    /// never sent.
    pub const fn with_part(seq: u64, bytes: u16) -> u64 {
        seq | (bytes as u64) << PART_SHIFT
    }

    /// The segment and the bytes of it that make such an acknowledgement.
    pub const fn part(ack: u64) -> (u64, u16) {
        (ack & ((1 << PART_SHIFT) - 1), (ack >> PART_SHIFT) as u16)
    }

    /// Whether `flag` is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// A stay in a queue in units of [`Packet::QUEUED_UNIT`], rounded.
    #[inline]
    pub fn queued_units(stay: Time) -> u32 {
        let units = (stay.as_nanos() + 32) / Self::QUEUED_UNIT.as_nanos();
        saturating_u32(units)
    }

    /// Adds a stay in a queue to the packet's account.
    #[inline]
    pub fn add_queued(&mut self, stay: Time) {
        self.extra = self.extra.saturating_add(Self::queued_units(stay));
    }

    /// The queueing delay the packet has met so far, over all queues.
    pub fn queued(&self) -> Time {
        Self::QUEUED_UNIT * u64::from(self.extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_has_a_bit_of_its_own() {
        let all =
            [Packet::ACK, Packet::ECT, Packet::CE, Packet::ECE, Packet::CWR, Packet::SYN, Packet::L4S, Packet::AE];
        for (i, flag) in all.into_iter().enumerate() {
            assert_eq!(flag, 1 << i);
            let packet = Packet { flags: flag, ..Packet::default() };
            assert!(all.iter().all(|other| packet.has(*other) == (*other == flag)));
        }
    }

    #[test]
    fn accurate_ecn_counts_in_three_bits_of_an_ack() {
        // RFC 9768, Fig. 3: AE, CWR, ECE.
        assert_eq!([1, 2, 4].map(Packet::ace), [Packet::ECE, Packet::CWR, Packet::AE]);
        for count in 0..=u8::MAX {
            assert_eq!(Packet::ace(count) & !Packet::ACE, 0);
            assert_eq!(Packet::ace_count(Packet::ace(count) | !Packet::ACE), count % 8);
        }
    }

    #[test]
    fn an_ack_of_a_part_is_beyond_all_segments_and_comes_apart_again() {
        for (seq, bytes) in [(0, 1), (7, 0), (7, 362), ((1 << 48) - 1, MSS)] {
            let ack = Packet::with_part(seq, bytes);
            assert_eq!(Packet::part(ack), (seq, bytes));
            assert_eq!(ack >= 1 << 48, bytes > 0);
        }
    }

    #[test]
    fn queueing_delays_are_rounded_to_64_ns_and_add_up_to_274_s() {
        assert_eq!([0, 31, 32, 95, 96].map(|ns| Packet::queued_units(Time::from_nanos(ns))), [0, 0, 1, 1, 2]);
        assert_eq!(Packet::queued_units(Time::from_secs(300)), u32::MAX);
        let mut packet = Packet::default();
        packet.add_queued(Time::from_nanos(128));
        packet.add_queued(Time::from_nanos(64));
        assert_eq!((packet.extra, packet.queued()), (3, Time::from_nanos(192)));
        packet.add_queued(Time::from_secs(300));
        assert_eq!(packet.queued(), Time::from_nanos(64) * u64::from(u32::MAX));
    }
}
