//! What is known of each segment from the first SACK, loss or retransmission on, until all of that is acknowledged.
//!
//! Its lists are handed on from flow to flow: few flows are in recovery at a time, and the memory of the last one is warm.

use super::flags;
use std::collections::VecDeque;

/// Longest lists that are kept for others.
const HANDY: usize = 4096;
/// How many are kept at the most.
const SPARES: usize = 1024;

/// Bits of a burst's number that are kept with a segment. There are never as many bursts as that.
pub const NUMBERS: u32 = u32::MAX >> 8;

/// State of a segment while tracking: the number of the burst that carried it last, but for its upper byte, and its
/// [`flags`].
#[derive(Clone, Copy, Debug)]
pub struct Segment(pub u32);

impl Segment {
    /// Just sent.
    pub const fn new(number: u32) -> Self {
        Self(number << 8 | flags::LISTED as u32)
    }

    /// Of the burst that carried it last.
    pub const fn number(self) -> u32 {
        self.0 >> 8
    }

    /// Its flags.
    pub const fn flags(self) -> u8 {
        self.0 as u8
    }

    /// Puts other flags in their place.
    pub const fn set_flags(&mut self, flags: u8) {
        self.0 = self.0 & !0xff | flags as u32;
    }
}

/// What is known of each segment while tracking.
#[derive(Debug, Default)]
pub struct Tracking {
    /// From the first unacknowledged segment on.
    pub segments: VecDeque<Segment>,
    /// Segment of `segments[0]`.
    pub base: u64,
    /// Of the burst in each slot of the ring: segments whose last transmission it is and whose fate is open.
    pub open: Vec<u32>,
    /// Every burst before this number has no open segment.
    pub open_from: u32,
    /// Disjoint ascending ranges of SACKed segments beyond the first unacknowledged one.
    pub sacked: Vec<(u64, u64)>,
    /// No segment before this one waits to be retransmitted.
    pub retransmit_hint: u64,
    /// Tracking may end when this segment is acknowledged: nothing from here on was ever retransmitted.
    pub untrack_at: u64,
}

/// Lists that nobody uses, if there are any.
pub type Spare = Option<Box<Tracking>>;

/// Those that senders hand on, the last one first.
#[derive(Default)]
pub struct Spares(Vec<Spare>);

impl Spares {
    /// Takes lists out.
    #[inline]
    pub fn lend(&mut self) -> Spare {
        self.0.pop().flatten()
    }

    /// Takes lists back, whether they were used or not.
    #[inline]
    pub fn take_back(&mut self, spare: Spare) {
        if self.0.len() < SPARES && spare.as_ref().is_some_and(|lists| lists.is_handy()) {
            self.0.push(spare);
        }
    }
}

impl Tracking {
    /// Begins anew with `una` as the first of `count` segments, in a ring of so many slots with `first` as its first burst.
    pub fn begin(&mut self, una: u64, count: usize, first: u32, slots: usize) {
        (self.base, self.retransmit_hint, self.untrack_at) = (una, una, una);
        self.open_from = first;
        self.open.clear();
        self.open.resize(slots, 0);
        self.sacked.clear();
        self.segments.clear();
        // Room for what will be sent meanwhile.
        self.segments.reserve(count + count / 2 + 8);
    }

    /// Whether its lists are small enough to be kept for others.
    fn is_handy(&self) -> bool {
        self.segments.capacity().max(self.open.capacity()) <= HANDY && self.sacked.capacity() <= HANDY
    }

    /// Where the state of a segment is.
    #[inline]
    pub const fn place(&self, seq: u64) -> usize {
        (seq - self.base) as usize
    }

    /// The segments of a burst in `slot` get a state of their own.
    pub fn list(&mut self, number: u32, slot: usize, count: u32) {
        self.open[slot] = count;
        self.segments.extend(std::iter::repeat_n(Segment::new(number), count as usize));
    }
}

/// The next range of segments from `seq` on that are not in `sacked`, up to `limit`, and the index of the SACKed range
/// behind it.
#[inline]
pub fn hole(sacked: &[(u64, u64)], seq: u64, limit: u64) -> Option<(usize, (u64, u64))> {
    let mut i = sacked.partition_point(|r| r.1 <= seq);
    let mut start = seq;
    if let Some(r) = sacked.get(i).filter(|r| r.0 <= seq) {
        start = r.1;
        i += 1;
    }
    let end = sacked.get(i).map_or(limit, |r| r.0.min(limit));
    (start < limit).then_some((i, (start, end)))
}
