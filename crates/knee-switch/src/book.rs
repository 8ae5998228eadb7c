//! The account of a flow, kept from the packets that pass: what was sent, what arrived, what was acknowledged, and the
//! round-trip times between the two at the sender's device.
//!
//! An ACK gives an RTT sample as it does in Linux: from the first transmission of the first segment it newly
//! acknowledges, and none where any segment it acknowledges was sent twice (Karn's rule).
//!
//! The switch sees only number and size of QUIC's datagrams; the rest is in [`crate::account`].

use crate::header::Header;
use knee_core::convert::ahead;
use knee_core::{Packet, Received, Time};
use std::collections::{BTreeMap, VecDeque};

/// A stretch of the stream that is in flight: its end, when it was first sent, whether it was sent again.
#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    sent: Time,
    again: bool,
}

/// The parts of a stream that have arrived.
#[derive(Debug, Default)]
struct Arrived {
    /// The end of what has arrived without a gap.
    in_order: u64,
    /// Stretches beyond a gap: their ends by their beginnings, apart from each other.
    beyond: BTreeMap<u64, u64>,
}

impl Arrived {
    /// Takes the bytes from `start` to before `end`; gives how many of them had not arrived before.
    fn take(&mut self, start: u64, end: u64) -> u64 {
        let (mut start, mut end) = (start.max(self.in_order), end);
        if start >= end {
            return 0;
        }
        let mut new = end - start;
        // All stretches that this one overlaps or touches become one with it.
        while let Some((&from, &to)) = self.beyond.range(..=end).next_back().filter(|&(_, &to)| to >= start) {
            self.beyond.remove(&from);
            new -= to.min(end).saturating_sub(from.max(start));
            (start, end) = (start.min(from), end.max(to));
        }
        if start <= self.in_order {
            self.in_order = end;
        } else {
            self.beyond.insert(start, end);
        }
        new
    }
}

/// State of one of a flow's connections.
#[derive(Debug, Default)]
struct Stream {
    /// Sequence number of the first byte, once the SYN has passed.
    first: Option<u32>,
    /// The end of what was sent, in bytes of the stream.
    end: u64,
    under_way: VecDeque<Segment>,
    /// Payload acknowledged.
    acked_bytes: u64,
    arrived: Arrived,
}

/// The account of a flow since the start. A bulk flow has one connection, an application's any number of them, told
/// apart by the port at the end that opens them.
#[derive(Debug, Default)]
pub struct Book {
    streams: BTreeMap<u16, Stream>,
    /// Payload sent for the first time, over all connections.
    pub end: u64,
    /// Payload acknowledged, over all connections.
    pub acked_bytes: u64,
    /// Payload that has arrived, each byte counted once, over all connections.
    pub delivered_bytes: u64,
    /// Data packets sent.
    pub sent: u64,
    /// Their bytes as IP packets.
    pub sent_bytes: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Data packets dropped in the network.
    pub dropped: u64,
    /// Data packets received.
    pub received: Received,
}

impl Stream {
    /// Place in the stream of a sequence number, near `near`; bytes are counted from 0.
    fn place(&self, number: u32, near: u64) -> Option<u64> {
        near.checked_add_signed(ahead(number.wrapping_sub(self.first?), near))
    }
}

impl Book {
    /// A packet of the sender comes into the network, on the connection from or to `port`.
    pub fn sent(&mut self, header: &Header, packet: &Packet, port: u16, now: Time) {
        if header.syn {
            // A port that is used again opens a new connection; a SYN that is sent again repeats its number.
            let first = Some(header.seq.wrapping_add(1));
            let stream = self.streams.entry(port).or_default();
            if stream.first != first {
                *stream = Stream { first, ..Stream::default() };
            }
        }
        if header.payload == 0 {
            return;
        }
        self.sent += 1;
        self.sent_bytes += u64::from(packet.size);
        if header.udp {
            return;
        }
        let Some(stream) = self.streams.get_mut(&port) else { return };
        let Some(start) = stream.place(header.seq, stream.end) else { return };
        let end = start + u64::from(header.payload);
        if start < stream.end {
            self.retransmitted += 1;
            // Segments lie in order: the first that this one touches, and all up to its end.
            let from = stream.under_way.partition_point(|segment| segment.end <= start);
            let touched = stream.under_way.iter_mut().skip(from);
            let mut begins = start;
            for segment in touched {
                if begins >= end {
                    break;
                }
                segment.again = true;
                begins = segment.end;
            }
        }
        if end > stream.end {
            stream.under_way.push_back(Segment { end, sent: now, again: start < stream.end });
            self.end += end - stream.end;
            stream.end = end;
        }
    }

    /// A data packet reaches the receiver, on the connection from or to `port`.
    pub fn received(&mut self, header: &Header, packet: &Packet, port: u16) {
        self.received.count(packet);
        if header.udp {
            self.delivered_bytes += u64::from(header.payload);
            return;
        }
        let Some(stream) = self.streams.get_mut(&port) else { return };
        if let Some(start) = stream.place(header.seq, stream.arrived.in_order) {
            self.delivered_bytes += stream.arrived.take(start, start + u64::from(header.payload));
        }
    }

    /// An ACK reaches the sender, on the connection from or to `port`; gives an RTT sample.
    pub fn acked(&mut self, header: &Header, port: u16, now: Time) -> Option<Time> {
        let stream = self.streams.get_mut(&port)?;
        let up_to = if header.has_ack && !header.syn { stream.place(header.ack, stream.acked_bytes) } else { None };
        // The number after the last byte is the FIN's.
        let up_to = up_to.map(|up_to| up_to.min(stream.end)).filter(|up_to| *up_to > stream.acked_bytes)?;
        self.acked_bytes += up_to - stream.acked_bytes;
        stream.acked_bytes = up_to;
        let (mut first, mut again) = (None, false);
        while let Some(segment) = stream.under_way.front().filter(|segment| segment.end <= up_to) {
            first = first.or(Some(segment.sent));
            again |= segment.again;
            stream.under_way.pop_front();
        }
        first.filter(|_| !again).map(|sent| now.saturating_sub(sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: Header =
        Header { udp: false, from: 1, to: 2, seq: 0, ack: 0, payload: 0, syn: true, has_ack: false, ecn: 0 };

    const PORT: u16 = 1;

    fn opened(first: u32) -> Book {
        let mut book = Book::default();
        book.sent(
            &Header { seq: first.wrapping_sub(1), ..SYN },
            &Packet { size: 60, ..Packet::default() },
            PORT,
            Time::ZERO,
        );
        book
    }

    fn send(book: &mut Book, seq: u32, ms: u64) {
        let header = Header { seq, payload: 1000, syn: false, ..SYN };
        book.sent(&header, &Packet { size: 1052, ..Packet::default() }, PORT, Time::from_millis(ms));
    }

    fn ack(book: &mut Book, ack: u32, ms: u64) -> Option<u64> {
        let header = Header { ack, has_ack: true, syn: false, ..SYN };
        book.acked(&header, PORT, Time::from_millis(ms)).map(Time::as_millis)
    }

    #[test]
    fn an_ack_of_two_segments_samples_the_first() {
        let mut book = opened(100);
        send(&mut book, 100, 1);
        send(&mut book, 1100, 3);
        assert_eq!(ack(&mut book, 2100, 21), Some(20));
        assert_eq!((book.sent, book.sent_bytes, book.acked_bytes, book.retransmitted), (2, 2104, 2000, 0));
    }

    #[test]
    fn an_ack_that_covers_a_retransmission_gives_no_sample() {
        let mut book = opened(0);
        for (seq, ms) in [(0, 1), (1000, 2), (2000, 3), (1000, 20)] {
            send(&mut book, seq, ms);
        }
        assert_eq!(ack(&mut book, 1000, 21), Some(20));
        assert_eq!(ack(&mut book, 3000, 40), None);
        assert_eq!((book.acked_bytes, book.retransmitted), (3000, 1));
        send(&mut book, 3000, 41);
        assert_eq!(ack(&mut book, 4000, 61), Some(20));
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut book = opened(u32::MAX - 499);
        send(&mut book, u32::MAX - 499, 1);
        send(&mut book, 500, 2);
        assert_eq!(ack(&mut book, 1500, 12), Some(11));
        assert_eq!(book.acked_bytes, 2000);
    }

    #[test]
    fn old_acks_and_the_fin_count_nothing() {
        let mut book = opened(0);
        send(&mut book, 0, 1);
        assert_eq!(ack(&mut book, 1001, 11), Some(10));
        assert_eq!(ack(&mut book, 500, 12), None);
        assert_eq!(book.acked_bytes, 1000);
    }

    #[test]
    fn payload_counts_as_it_first_arrives() {
        let mut book = opened(0);
        let mut arrive = |seq, payload| {
            let header = Header { seq, payload, syn: false, ..SYN };
            book.received(&header, &Packet { size: 1052, ..Packet::default() }, PORT);
            book.delivered_bytes
        };
        // Beyond a gap, in order, the same again, into the gap, over all of it, and behind.
        let arrivals =
            [(2000, 1000), (0, 1000), (2000, 1000), (1500, 1000), (1000, 1000), (4000, 1000), (0, 5000), (5000, 10)];
        let delivered = arrivals.map(|(seq, payload)| arrive(seq, payload));
        assert_eq!(delivered, [1000, 2000, 2000, 2500, 3000, 4000, 5000, 5010]);
    }

    #[test]
    fn connections_of_a_flow_are_counted_by_themselves_and_together() {
        let mut book = Book::default();
        let open = |book: &mut Book, port, seq| book.sent(&Header { seq, ..SYN }, &Packet::default(), port, Time::ZERO);
        let data = Header { payload: 1000, syn: false, ..SYN };
        let ack = |ack| Header { ack, has_ack: true, syn: false, ..SYN };
        open(&mut book, 7, 99);
        open(&mut book, 8, 5_000_000);
        book.sent(&Header { seq: 100, ..data }, &Packet::default(), 7, Time::from_millis(1));
        book.sent(&Header { seq: 5_000_001, ..data }, &Packet::default(), 8, Time::from_millis(2));
        assert_eq!(book.acked(&ack(5_001_001), 8, Time::from_millis(12)), Some(Time::from_millis(10)));
        assert_eq!(book.acked(&ack(1100), 7, Time::from_millis(31)), Some(Time::from_millis(30)));
        assert_eq!((book.end, book.acked_bytes, book.retransmitted), (2000, 2000, 0));
        // The port of a connection that is gone serves another; its SYN is sent twice.
        open(&mut book, 7, 0);
        book.sent(&Header { seq: 1, ..data }, &Packet::default(), 7, Time::from_millis(40));
        open(&mut book, 7, 0);
        assert_eq!(book.acked(&ack(1001), 7, Time::from_millis(50)), Some(Time::from_millis(10)));
        assert_eq!((book.end, book.acked_bytes, book.retransmitted), (3000, 3000, 0));
    }
}
