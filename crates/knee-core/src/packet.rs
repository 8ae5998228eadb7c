//! The packet: 32 bytes, copied by value through queues and pipes.

use crate::convert::{ahead, low_u32, saturating_u32};
use crate::units::Time;

/// IP packet size of a full segment, in bytes.
pub const MTU: u16 = 1500;
/// Payload of a full segment: 1500 less IP (20), TCP (20) and the timestamp option (12).
pub const MSS: u16 = 1448;
/// IP packet size of a pure ACK: IP, TCP and the timestamp option.
pub const ACK_SIZE: u16 = 52;

/// A packet on its way through links and pipes: what these know of it, and a payload for its ends. Two disciplines look
/// at that too: cake's ACK filter, and pfifo where it takes GSO into account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// When it arrived at the queue that it is in, or was in last; before the first, when its end sent it.
    pub at: Time,
    /// Its contents: a segment, data of a QUIC stream, an ACK, or its owner's key.
    pub payload: Payload,
    /// Number of its path: a flow's, or behind those that of half a connection.
    pub flow: u32,
    /// Queueing delay so far, in units of [`Packet::QUEUED_UNIT`].
    pub queued: u32,
    /// Size of the IP packet in bytes.
    pub size: u16,
    /// See the associated constants.
    pub flags: u8,
    /// The link of its path that it crosses (or is about to), from 0; always 0 in batches, whose stages know it.
    pub hop: u8,
}

const _: () = assert!(size_of::<Packet>() == 32);

/// The contents of a packet, from one end of its flow to the other.
///
/// TCP's segments are counted, not bytes: each carries [`MSS`] bytes at the most; the last one of a transfer, or of
/// what an application writes, may carry fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A segment of TCP.
    Data {
        /// Its number.
        seq: Seq,
        /// TSval of the timestamp option, in milliseconds.
        tsval: u32,
    },
    /// An ACK of TCP without SACK blocks.
    Ack {
        /// The next segment expected.
        next: Seq,
        /// TSecr of the timestamp option: a TSval.
        tsecr: u32,
        /// The lower half of its own TSval: it is not on its way for 65 s.
        tsval: u16,
    },
    /// An ACK of TCP with SACK blocks, which the ends of the flow keep.
    Sack {
        /// Key under which its blocks are kept.
        key: u32,
        /// The next segment expected.
        next: Seq,
        /// Segments in its blocks. 0: they do not tell all that is held beyond `next`, or tell of a duplicate.
        sacked: u16,
    },
    /// A packet of QUIC with data of one stream, or with a datagram ([`Packet::DATAGRAM`]).
    Stream {
        /// Its packet number.
        number: Seq,
        /// Place of its data in the stream, or the number of the datagram.
        offset: Seq,
        /// Bytes of data; 0: a PING.
        len: u16,
    },
    /// A packet of QUIC with an ACK frame that has one range, from the first packet on, and no counts of marks. Others
    /// are [`Payload::Stored`].
    QuicAck {
        /// The number after the largest acknowledged.
        next: Seq,
        /// How long that one waited, in units of 8 us.
        delay: u32,
    },
    /// Contents that the ends of the flow, or the switch, keep under this key: a datagram, a packet's bytes.
    Stored(u32),
}

/// A segment's number modulo 2^32, as TCP's sequence numbers wrap (RFC 9293, 3.4), so that a packet has room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seq(u32);

impl Seq {
    /// The number of segment `n`, counted from 0.
    #[inline]
    pub const fn new(n: u64) -> Self {
        Self(low_u32(n))
    }

    /// The number `k` further on.
    #[inline]
    #[must_use]
    pub const fn plus(self, k: u32) -> Self {
        Self(self.0.wrapping_add(k))
    }

    /// How far it is ahead of `other`, modulo 2^32: below 2^31 where it is not behind.
    #[inline]
    pub const fn ahead_of(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }

    /// The segment of this number that is nearest to segment `n`: which one is meant, where `n` is less than 2^31 away.
    #[inline]
    pub const fn near(self, n: u64) -> u64 {
        n.wrapping_add_signed(ahead(self.0, n))
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::segment(0)
    }
}

impl Payload {
    /// Segment `seq` with a TSval of 0.
    pub const fn segment(seq: u64) -> Self {
        Self::Data { seq: Seq::new(seq), tsval: 0 }
    }

    /// The number of the segment that it is, below 2^32.
    ///
    /// # Panics
    /// If it is none.
    #[inline]
    pub fn seq(&self) -> u64 {
        match self {
            Self::Data { seq, .. } => u64::from(seq.0),
            other => panic!("{other:?} is no segment"),
        }
    }

    /// The key under which it is kept, if it is.
    #[inline]
    pub const fn stored(&self) -> Option<u32> {
        match self {
            Self::Stored(key) | Self::Sack { key, .. } => Some(*key),
            Self::Data { .. } | Self::Ack { .. } | Self::Stream { .. } | Self::QuicAck { .. } => None,
        }
    }

    /// The key under which it is kept.
    ///
    /// # Panics
    /// If it is not kept.
    #[inline]
    pub fn key(&self) -> u32 {
        self.stored().unwrap_or_else(|| panic!("{self:?} is not stored"))
    }
}

impl Packet {
    /// It travels against its flow's data: an ACK, an answer to datagrams, or any packet of QUIC's other end.
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
    /// The third bit of accurate ECN's counter, on ACKs and handshake packets (RFC 9768, 2.1).
    pub const AE: u8 = 1 << 7;
    /// All that was written has been sent, on data (RFC 9293, 3.9.1).
    pub const PSH: u8 = Self::AE;
    /// Its data is a datagram (RFC 9221), on packets of QUIC.
    pub const DATAGRAM: u8 = Self::AE;
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

    /// True for the third packet of a handshake, a pure ACK on the way of the data. It has the flag [`Packet::SYN`] and
    /// the size of an ACK.
    pub const fn ends_handshake(&self) -> bool {
        self.has(Self::SYN) && !self.has(Self::ACK) && self.size == ACK_SIZE
    }

    /// True if `flag` is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The packet `k` places behind this one in a burst, whose data follow each other.
    #[inline]
    #[must_use]
    pub const fn behind(mut self, k: u32) -> Self {
        match &mut self.payload {
            Payload::Data { seq, .. } => *seq = seq.plus(k),
            Payload::Stream { number, offset, len } => {
                *number = number.plus(k);
                *offset = offset.plus(k.wrapping_mul(*len as u32));
            }
            _ => {}
        }
        self
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
        self.queued = self.queued.saturating_add(Self::queued_units(stay));
    }

    /// The queueing delay the packet has met so far, over all queues.
    pub fn queued(&self) -> Time {
        Self::QUEUED_UNIT * u64::from(self.queued)
    }
}

/// Packets that have come to the end of their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// How many, duplicates included.
    pub packets: u64,
    /// Their bytes as IP packets.
    pub bytes: u64,
    /// Their queueing delays, in units of [`Packet::QUEUED_UNIT`].
    pub queued_units: u64,
}

impl Received {
    /// Counts a packet.
    #[inline]
    pub fn count(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        self.queued_units += u64::from(packet.queued);
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
    fn a_segments_number_wraps_and_means_the_nearest_segment() {
        const FAR: u64 = (1 << 31) - 1;
        for expected in [FAR, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 5 << 40] {
            for segment in [expected - FAR, expected - 1, expected, expected + 1, expected + FAR] {
                assert_eq!(Seq::new(segment).near(expected), segment);
                assert_eq!(Seq::new(segment).plus(7), Seq::new(segment + 7));
            }
        }
    }

    #[test]
    fn a_packet_behind_another_in_a_burst_differs_by_its_number_and_its_data() {
        let first = Packet { flow: 3, size: MTU, payload: Payload::segment(7), ..Packet::default() };
        assert_eq!(first.behind(0), first);
        assert_eq!(first.behind(2), Packet { payload: Payload::segment(9), ..first });
        let stream = |number, offset| {
            let (number, offset) = (Seq::new(number), Seq::new(offset));
            Payload::Stream { number, offset, len: 1400 }
        };
        let first = Packet { payload: stream((1 << 32) - 1, (1 << 32) - 1400), ..first };
        assert_eq!(first.behind(2), Packet { payload: stream((1 << 32) + 1, (1 << 32) + 1400), ..first });
    }

    #[test]
    #[should_panic(expected = "is no segment")]
    fn what_is_no_segment_is_not_read_as_one() {
        Payload::Stored(0).seq();
    }

    #[test]
    fn queueing_delays_are_rounded_to_64_ns_and_add_up_to_274_s() {
        assert_eq!([0, 31, 32, 95, 96].map(|ns| Packet::queued_units(Time::from_nanos(ns))), [0, 0, 1, 1, 2]);
        assert_eq!(Packet::queued_units(Time::from_secs(300)), u32::MAX);
        let mut packet = Packet::default();
        packet.add_queued(Time::from_nanos(128));
        packet.add_queued(Time::from_nanos(64));
        assert_eq!((packet.queued, packet.queued()), (3, Time::from_nanos(192)));
        packet.add_queued(Time::from_secs(300));
        assert_eq!(packet.queued(), Time::from_nanos(64) * u64::from(u32::MAX));
    }
}
