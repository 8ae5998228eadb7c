//! The ACK frames of packets that are not encrypted, for logs: quinn tells nobody which packets an ACK acknowledges.

use bytes::Buf;
use quinn_proto::VarInt;
use quinn_proto::coding::Codec;

/// Bit of the first byte of packets with a long header (RFC 9000, 17.2).
const LONG: u8 = 0x80;
/// Frames (RFC 9000, 19) that may stand before an ACK and have no content.
const PADDING: u64 = 0x00;
const PING: u64 = 0x01;
const HANDSHAKE_DONE: u64 = 0x1e;
const ACK: u64 = 0x02;
const ACK_ECN: u64 = 0x03;

/// The packet numbers that the ACK frame of a datagram acknowledges, ascending ranges that include their ends. None if
/// the datagram has a long header, or no ACK before its other frames. Its connection identifier has `cid` bytes.
pub fn acked_ranges(datagram: &[u8], cid: usize) -> Option<Vec<(u64, u64)>> {
    let first = *datagram.first().filter(|first| **first & LONG == 0)?;
    let number = usize::from(first & 3) + 1;
    let mut frames = datagram.get(1 + cid + number..)?;
    loop {
        match varint(&mut frames)? {
            PADDING | PING | HANDSHAKE_DONE => {}
            ACK | ACK_ECN => return ranges(&mut frames),
            _ => return None,
        }
    }
}

/// The ranges of an ACK frame after its type (RFC 9000, 19.3).
fn ranges(frame: &mut &[u8]) -> Option<Vec<(u64, u64)>> {
    let (mut last, _delay, count) = (varint(frame)?, varint(frame)?, varint(frame)?);
    let mut first = last.checked_sub(varint(frame)?)?;
    let mut ranges = vec![(first, last)];
    for _ in 0..count {
        let (gap, length) = (varint(frame)?, varint(frame)?);
        last = first.checked_sub(gap + 2)?;
        first = last.checked_sub(length)?;
        ranges.push((first, last));
    }
    ranges.reverse();
    Some(ranges)
}

fn varint(bytes: &mut impl Buf) -> Option<u64> {
    VarInt::decode(bytes).ok().map(VarInt::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A datagram with a packet number of two bytes and these bytes of frames.
    fn datagram(frames: &[u8]) -> Vec<u8> {
        [&[0x41][..], &[7; 8], &[0, 9], frames].concat()
    }

    #[test]
    fn an_ack_behind_a_ping_is_read() {
        // Largest 20, delay 3, one more range; 20 down to 18; a gap of 16 and 17 (1 + 1 packets); 15 down to 15.
        let read = acked_ranges(&datagram(&[1, 2, 20, 3, 1, 2, 1, 0]), 8);
        assert_eq!(read, Some(vec![(15, 15), (18, 20)]));
    }

    #[test]
    fn others_have_none() {
        let ack = [2, 20, 3, 0, 2];
        assert_eq!(acked_ranges(&datagram(&ack), 8), Some(vec![(18, 20)]));
        let mut long = datagram(&ack);
        long[0] |= LONG;
        assert_eq!(acked_ranges(&long, 8), None);
        assert_eq!(acked_ranges(&datagram(&[8, 1, 2]), 8), None);
        assert_eq!(acked_ranges(&datagram(&[2, 2, 3, 0, 5]), 8), None, "packets below zero");
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(ranges) = acked_ranges(&bytes, 8) {
                prop_assert!(ranges.iter().all(|(first, last)| first <= last));
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
