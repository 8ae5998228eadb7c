//! State of each segment from the first SACK, loss or retransmission on, until all of that is acknowledged.

use super::flags;
use knee_core::convert::{index, low_u8};
use smallvec::SmallVec;

/// Segments stored inline, the least capacity.
const USUAL: usize = 32;

/// Bits of a burst's number that are kept with a segment. There are never as many bursts as that.
pub const NUMBERS: u32 = u32::MAX >> 8;

/// State of a segment while tracking: the number of the burst that carried it last, but for its upper byte, and its
/// [`flags`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment(pub u32);

impl Segment {
    /// The state of a segment that burst `number` has just carried.
    pub const fn new(number: u32) -> Self {
        Self(number << 8 | flags::LISTED as u32)
    }

    /// Number of the burst that carried it last, without its upper byte.
    pub const fn number(self) -> u32 {
        self.0 >> 8
    }

    /// Its flags.
    pub const fn flags(self) -> u8 {
        low_u8(self.0 as u64)
    }

    /// Puts other flags in their place.
    pub const fn set_flags(&mut self, flags: u8) {
        self.0 = self.0 & !0xff | flags as u32;
    }
}

/// State of all segments while tracking: four cache lines, which are fetched at once.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Tracking {
    /// First unacknowledged segment.
    pub base: u64,
    /// The segment after the last one sent.
    end: u64,
    /// No segment before this one waits to be retransmitted.
    pub retransmit_hint: u64,
    /// Tracking may end when this segment is acknowledged: nothing from here on was ever retransmitted.
    pub untrack_at: u64,
    /// Disjoint ascending ranges of SACKed segments beyond the first unacknowledged one.
    pub sacked: SmallVec<[(u64, u64); 3]>,
    /// A ring, indexed by the lower bits of the segments' numbers.
    segments: SmallVec<[Segment; USUAL]>,
    /// Every burst before this number has no open segment.
    pub open_from: u32,
}

const _: () = assert!(size_of::<Tracking>() == 256);

impl Tracking {
    /// Begins with `una` as the next segment and `first` as the number of the first burst; there will be `count`
    /// segments soon.
    pub fn new(una: u64, count: usize, first: u32) -> Self {
        let (base, end, retransmit_hint, untrack_at) = (una, una, una, una);
        let mut new = Self { base, end, retransmit_hint, untrack_at, open_from: first, ..Self::default() };
        new.make_room(count);
        new
    }

    /// From the first unacknowledged segment to the last one.
    pub const fn range(&self) -> std::ops::Range<u64> {
        self.base..self.end
    }

    /// State of a segment that is there.
    pub fn segment(&self, seq: u64) -> Segment {
        debug_assert!(self.range().contains(&seq));
        self.segments[index(seq) & (self.segments.len() - 1)]
    }

    /// State of segment `seq`, to be changed.
    pub fn segment_mut(&mut self, seq: u64) -> &mut Segment {
        debug_assert!(self.range().contains(&seq));
        let mask = self.segments.len() - 1;
        &mut self.segments[index(seq) & mask]
    }

    /// Removes the first segment.
    pub fn pop(&mut self) -> Option<Segment> {
        if self.base == self.end {
            return None;
        }
        let segment = self.segment(self.base);
        self.base += 1;
        self.retransmit_hint = self.retransmit_hint.max(self.base);
        Some(segment)
    }

    /// The next segments, those of a burst, get a state of their own.
    pub fn list(&mut self, number: u32, count: u32) {
        let from = self.end;
        self.end += u64::from(count);
        let segments = index(self.end - self.base);
        if segments > self.segments.len() {
            self.grow(segments, from);
        }
        (from..self.end).for_each(|seq| *self.segment_mut(seq) = Segment::new(number));
    }

    /// Makes room for `count` segments, of which those before `end` are there already.
    #[cold]
    fn grow(&mut self, count: usize, end: u64) {
        let old = self.segments.to_vec();
        self.make_room(count);
        for seq in self.base..end {
            *self.segment_mut(seq) = old[index(seq) & (old.len() - 1)];
        }
    }

    /// A ring for `count` segments and for what will be sent meanwhile.
    fn make_room(&mut self, count: usize) {
        let slots = (count + count / 2).next_power_of_two().max(USUAL);
        self.segments.resize(slots, Segment::default());
    }
}

/// The next range of segments from `seq` on that are not in `sacked`, up to `limit`, and the index of the SACKed range
/// behind it.
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
