//! The frames of a packet on a connection with several streams.

use crate::frame::varint;
use smallvec::SmallVec;

/// Bytes of a STREAM frame's Length field.
const LENGTH: u16 = 2;

/// A STREAM frame (RFC 9000, 19.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFrame {
    /// Number of the stream, in the order of opening from 0: a quarter of its ID, since the client opens all streams,
    /// and all go both ways (2.1).
    pub stream: u64,
    /// Place of the data in the stream.
    pub offset: u64,
    /// Bytes of data.
    pub len: u16,
    /// The stream ends with it.
    pub fin: bool,
}

impl StreamFrame {
    /// The place after the data.
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}

/// Bytes of data of a frame for which `room` bytes are left, of a stream with `bytes` more from `offset` on, and bytes
/// of the frame.
pub fn fitting(stream: u64, offset: u64, bytes: u64, room: u16) -> (u16, u16) {
    let head = 1 + varint(4 * stream) + if offset == 0 { 0 } else { varint(offset) };
    let most = u64::from(room.saturating_sub(head));
    if bytes >= most {
        //= RFC 9000, 19.8
        //# If this bit is set to 0, the Length field is absent and the Stream Data field extends to the end of the
        //# packet.
        return (room.saturating_sub(head), room);
    }
    let len = knee_core::convert::saturating_u16(bytes.min(most.saturating_sub(u64::from(LENGTH))));
    (len, head + LENGTH + len)
}

/// The frames of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Stream data.
    pub streams: SmallVec<[StreamFrame; 2]>,
    /// A MAX_STREAMS frame (RFC 9000, 19.11): how many streams the peer may open in all.
    pub max_streams: Option<u64>,
}

/// Bytes of a MAX_STREAMS frame.
pub const fn max_streams_size(limit: u64) -> u16 {
    1 + varint(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand from RFC 9000, 16 and 19.8: a type, an ID of one or two bytes, no offset, or one of two or four,
    /// and a length where the packet goes on.
    #[test]
    fn a_stream_frame_has_the_bytes_of_its_fields() {
        assert_eq!(fitting(0, 0, 5_000, 1173), (1171, 1173));
        assert_eq!(fitting(16, 1171, 5_000, 1173), (1168, 1173));
        assert_eq!(fitting(15, 20_000, 5_000, 1173), (1167, 1173));
        assert_eq!(fitting(15, 20_000, 100, 1173), (100, 1 + 1 + 4 + 2 + 100));
        // Just too much for a length beside it: the rest goes in another packet.
        assert_eq!(fitting(0, 0, 1170, 1173), (1169, 1173));
        assert_eq!(max_streams_size(200), 3);
    }
}
