//! The streams that come to an end, put together from their frames (RFC 9000, 2.2).

use crate::frames::Frames;
use crate::ranges::Ranges;
use std::collections::BTreeMap;

/// Streams of which something came.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Bytes that came of those that are not complete, and where each ends, once that is known.
    open: BTreeMap<u64, (Ranges, Option<u64>)>,
    /// Streams that came as a whole, and those of them that nobody was told of.
    closed: Ranges,
    complete: Vec<u64>,
}

impl Streams {
    /// Takes the frames of a packet. Gives how many of their bytes are new.
    pub fn take(&mut self, frames: &Frames) -> u64 {
        let mut new = 0;
        for frame in &frames.streams {
            if self.closed.contains(frame.stream) {
                continue;
            }
            let (data, end) = self.open.entry(frame.stream).or_default();
            //= RFC 9000, 2.2
            //# An endpoint uses the Stream ID and Offset fields in STREAM frames to place data in order.
            //= RFC 9000, 2.2
            //# Data that has already been received can be discarded.
            new += data.insert(frame.offset, frame.end());
            //= RFC 9000, 19.8
            //# The final size of the stream is the sum of the offset and the length of this frame.
            *end = end.or_else(|| frame.fin.then(|| frame.end()));
            if *end == Some(data.first_missing(0)) {
                self.open.remove(&frame.stream);
                self.closed.insert(frame.stream, frame.stream + 1);
                self.complete.push(frame.stream);
            }
        }
        new
    }

    /// Streams that have come as a whole since the last call.
    pub fn take_complete(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::StreamFrame;

    fn frames(all: &[(u64, u64, u16, bool)]) -> Frames {
        let streams = all.iter().map(|&(stream, offset, len, fin)| StreamFrame { stream, offset, len, fin }).collect();
        Frames { streams, max_streams: None }
    }

    /// Two streams share packets; the first is complete once its hole is filled, whatever of it comes again.
    #[test]
    fn a_stream_is_complete_once_all_up_to_its_end_is_there() {
        let mut streams = Streams::default();
        assert_eq!(streams.take(&frames(&[(0, 0, 100, false), (1, 0, 50, true)])), 150);
        assert_eq!(streams.take_complete(), [1]);
        assert_eq!(streams.take(&frames(&[(0, 200, 100, true)])), 100);
        assert_eq!(streams.take(&frames(&[(0, 50, 100, false), (1, 0, 50, true)])), 50);
        assert_eq!(streams.take_complete(), []);
        assert_eq!(streams.take(&frames(&[(0, 100, 200, true)])), 50);
        assert_eq!((streams.take_complete(), streams.take(&frames(&[(0, 0, 300, true)]))), (vec![0], 0));
    }
}
