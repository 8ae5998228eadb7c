//! The account of a flow, kept from the packets that pass: what was sent, what arrived, what was acknowledged, and the
//! round-trip times between the two at the sender's device.
//!
//! An ACK gives an RTT sample as it does in Linux: from the first transmission of the first segment it newly
//! acknowledges, and none where any segment it acknowledges was sent twice (Karn's rule).
//!
//! Of QUIC's datagrams only their number and size can be seen; the rest is in [`crate::account`].

use crate::header::Header;
use knee_core::{Packet, Time};
use std::collections::VecDeque;

/// A stretch of the stream that is under way: its end, when it was first sent, whether it was sent again.
#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    sent: Time,
    again: bool,
}

/// The account of a flow since the start.
#[derive(Debug, Default)]
pub struct Book {
    /// Sequence number of the first byte, once the SYN has passed.
    first: Option<u32>,
    /// The end of what was sent, in bytes of the stream.
    pub end: u64,
    under_way: VecDeque<Segment>,
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// Data packets sent.
    pub sent: u64,
    /// Their bytes as IP packets.
    pub sent_bytes: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Data packets dropped on the way.
    pub dropped: u64,
    /// Data packets received.
    pub received: u64,
    /// Their bytes as IP packets.
    pub received_bytes: u64,
    /// Their queueing delays, in units of [`Packet::QUEUED_UNIT`].
    pub queued_units: u64,
}

impl Book {
    /// Place in the stream of a sequence number, near `near`; bytes are counted from 0.
    fn place(&self, number: u32, near: u64) -> Option<u64> {
        let low = number.wrapping_sub(self.first?);
        let difference = low.wrapping_sub(near as u32) as i32;
        near.checked_add_signed(i64::from(difference))
    }

    /// A packet of the sender comes into the network.
    pub fn sent(&mut self, header: &Header, packet: &Packet, now: Time) {
        if header.syn {
            self.first = Some(header.seq.wrapping_add(1));
        }
        if header.payload == 0 {
            return;
        }
        self.sent += 1;
        self.sent_bytes += u64::from(packet.size);
        if header.udp {
            return;
        }
        let Some(start) = self.place(header.seq, self.end) else { return };
        let end = start + u64::from(header.payload);
        if start < self.end {
            self.retransmitted += 1;
            // Segments lie in order: the first that this one touches, and all up to its end.
            let from = self.under_way.partition_point(|segment| segment.end <= start);
            let touched = self.under_way.iter_mut().skip(from);
            let mut begins = start;
            for segment in touched {
                if begins >= end {
                    break;
                }
                segment.again = true;
                begins = segment.end;
            }
        }
        if end > self.end {
            self.under_way.push_back(Segment { end, sent: now, again: start < self.end });
            self.end = end;
        }
    }

    /// A data packet reaches the receiver.
    pub fn received(&mut self, packet: &Packet) {
        self.received += 1;
        self.received_bytes += u64::from(packet.size);
        self.queued_units += u64::from(packet.extra);
    }

    /// An ACK reaches the sender; gives an RTT sample.
    pub fn acked(&mut self, header: &Header, now: Time) -> Option<Time> {
        let up_to = if header.has_ack && !header.syn { self.place(header.ack, self.acked_bytes) } else { None };
        // The number after the last byte is the FIN's.
        let up_to = up_to.map(|up_to| up_to.min(self.end)).filter(|up_to| *up_to > self.acked_bytes)?;
        self.acked_bytes = up_to;
        let (mut first, mut again) = (None, false);
        while let Some(segment) = self.under_way.front().filter(|segment| segment.end <= up_to) {
            first = first.or(Some(segment.sent));
            again |= segment.again;
            self.under_way.pop_front();
        }
        first.filter(|_| !again).map(|sent| now.saturating_sub(sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: Header =
        Header { udp: false, from: 1, to: 2, seq: 0, ack: 0, payload: 0, syn: true, has_ack: false, ecn: 0 };

    fn opened(first: u32) -> Book {
        let mut book = Book::default();
        book.sent(&Header { seq: first.wrapping_sub(1), ..SYN }, &Packet { size: 60, ..Packet::default() }, Time::ZERO);
        book
    }

    fn send(book: &mut Book, seq: u32, ms: u64) {
        let header = Header { seq, payload: 1000, syn: false, ..SYN };
        book.sent(&header, &Packet { size: 1052, ..Packet::default() }, Time::from_millis(ms));
    }

    fn ack(book: &mut Book, ack: u32, ms: u64) -> Option<u64> {
        let header = Header { ack, has_ack: true, syn: false, ..SYN };
        book.acked(&header, Time::from_millis(ms)).map(Time::as_millis)
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
}
