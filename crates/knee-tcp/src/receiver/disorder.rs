//! Segments that a receiver holds beyond a gap, and the SACK and D-SACK blocks that report them.
//!
//! Few flows have a gap at any time, so this is kept apart from the receiver.

use super::misbehaviour::Misbehaviour;
use smallvec::SmallVec;

/// SACK blocks that fit next to the timestamp option.
const MAX_BLOCKS: usize = 3;
/// SACK blocks remembered (TCP_NUM_SACKS).
pub(super) const MAX_RECENT: usize = 4;
/// Duplicate ACKs sent at once before compression begins (TCP_FASTRETRANS_THRESH).
const DUP_ACK_THRESHOLD: u32 = 3;
/// SACKs compressed into one at the most (tcp_comp_sack_nr).
const MAX_COMPRESSED: u32 = 44;
/// SACK blocks that an ACK is sure to carry, beside a D-SACK and with some ACKs lost (TCP_SACK_BLOCKS_EXPECTED).
const BLOCKS_EXPECTED: usize = 2;

/// A range of segments, from the first to before the second.
pub type Range = (u64, u64);

/// SACK blocks of an ACK, the D-SACK block first where there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    count: u8,
    /// The first block is a D-SACK (RFC 2883).
    dsack: bool,
    ranges: [Range; MAX_BLOCKS],
}

impl Blocks {
    /// An ACK without blocks.
    pub const NONE: Self = Self { count: 0, dsack: false, ranges: [(0, 0); MAX_BLOCKS] };

    /// The blocks.
    pub fn as_slice(&self) -> &[Range] {
        &self.ranges[..usize::from(self.count)]
    }

    /// True if there is no block.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the option that carries them, padded to words (RFC 2018, 3).
    pub fn option_size(&self) -> u16 {
        if self.is_empty() { 0 } else { 4 + 8 * u16::from(self.count) }
    }

    /// True if the first block is a D-SACK.
    pub const fn dsack(&self) -> bool {
        self.dsack
    }

    /// True if no further block fits.
    pub(super) const fn is_full(&self) -> bool {
        self.count as usize == MAX_BLOCKS
    }

    pub(super) fn push(&mut self, range: Range) {
        if let Some(free) = self.ranges.get_mut(usize::from(self.count)) {
            *free = range;
            self.count += 1;
        }
    }
}

/// Segments that arrived beyond a gap, or twice: three cache lines, which are fetched at once.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Disorder {
    /// Ranges received beyond the next segment expected, ascending, apart.
    out_of_order: SmallVec<[Range; 3]>,
    /// SACK blocks by how recently they grew, newest first.
    recent: SmallVec<[Range; MAX_RECENT]>,
    /// A segment that has come twice, still to be reported.
    pub(super) dsack: Option<u64>,
    /// SACKs that wait to be sent as one.
    pub(super) compressed: u32,
    dup_acks: u32,
    /// The next segment is not acknowledged: it made the compressed SACK leave.
    pub(super) flushed: bool,
    /// The segment that was expected while they were counted.
    dup_acks_at: u64,
    /// The receiver's misbehaviour, if any. It is here since honest receivers do not look here.
    pub(super) misbehaviour: Option<Box<Misbehaviour>>,
}

const _: () = assert!(size_of::<Disorder>() == 192);

impl Disorder {
    /// True while segments wait beyond a gap.
    pub(super) fn has_gap(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// True if there is nothing to remember, so that the receiver can drop this.
    pub(super) fn is_over(&self) -> bool {
        !self.has_gap() && self.dsack.is_none() && self.misbehaviour.is_none()
    }

    /// True if there is a SACK or D-SACK block to report.
    pub(super) fn has_blocks(&self) -> bool {
        self.dsack.is_some() || !self.recent.is_empty()
    }

    /// The blocks of an ACK that leaves now.
    pub(super) fn report(&mut self) -> Blocks {
        let dsack = self.dsack.take();
        let mut blocks = Blocks { dsack: dsack.is_some(), ..Blocks::default() };
        dsack
            .map(|seq| (seq, seq + 1))
            .into_iter()
            .chain(self.recent.iter().copied())
            .for_each(|range| blocks.push(range));
        blocks
    }

    /// Returns true if a SACK leaves at once for a segment beyond the gap at `rcv_nxt`; otherwise it waits to be sent
    /// with others.
    pub(super) fn replies(&mut self, rcv_nxt: u64) -> bool {
        if self.compressed >= MAX_COMPRESSED {
            return true;
        }
        if self.dup_acks_at != rcv_nxt {
            (self.dup_acks_at, self.dup_acks) = (rcv_nxt, 0);
        }
        if self.dup_acks < DUP_ACK_THRESHOLD {
            self.dup_acks += 1;
            return true;
        }
        self.compressed += 1;
        false
    }

    /// True if the compressed SACK leaves before a segment beyond the gap is taken: that segment would push a block out
    /// of those that are sure to be reported (`tcp_sack_new_ofo_skb`).
    pub(super) fn flushes(&self, seq: u64) -> bool {
        self.compressed > 0
            && self.recent.len() >= BLOCKS_EXPECTED
            && self.recent[..BLOCKS_EXPECTED].iter().all(|r| seq + 1 < r.0 || r.1 < seq)
    }

    /// Puts a segment beyond the gap into the ranges and the SACK blocks; false: it has come before.
    pub(super) fn insert(&mut self, seq: u64) -> bool {
        // Mostly the last range grows, and it is the one that grew last.
        if let (Some(last), Some(newest)) = (self.out_of_order.last_mut(), self.recent.first_mut())
            && (last.1, newest.1) == (seq, seq)
        {
            (last.1, newest.1) = (seq + 1, seq + 1);
            return true;
        }
        let i = self.out_of_order.partition_point(|r| r.1 < seq);
        let known = self.out_of_order.get(i).is_some_and(|r| r.0 <= seq && seq < r.1);
        if known {
            self.dsack = Some(seq);
        } else {
            let grows_left = self.out_of_order.get(i).is_some_and(|r| r.1 == seq);
            if grows_left {
                self.out_of_order[i].1 = seq + 1;
                if self.out_of_order.get(i + 1).is_some_and(|r| r.0 == seq + 1) {
                    self.out_of_order[i].1 = self.out_of_order.remove(i + 1).1;
                }
            } else if self.out_of_order.get(i).is_some_and(|r| r.0 == seq + 1) {
                self.out_of_order[i].0 = seq;
            } else {
                self.out_of_order.insert(i, (seq, seq + 1));
            }
        }
        self.note_recent(seq);
        !known
    }

    /// Moves the block that holds or touches `seq` to the front (RFC 2018, 4: the first block holds the segment that
    /// triggered the ACK).
    fn note_recent(&mut self, seq: u64) {
        let mut block = (seq, seq + 1);
        self.recent.retain(|r| {
            let touches = r.0 <= block.1 && block.0 <= r.1;
            if touches {
                block = (block.0.min(r.0), block.1.max(r.1));
            }
            !touches
        });
        self.recent.truncate(MAX_RECENT - 1);
        self.recent.insert(0, block);
    }

    /// All before `rcv_nxt` has come; gives the next segment expected, behind the ranges that now touch it.
    pub(super) fn close_gap(&mut self, mut rcv_nxt: u64) -> u64 {
        let mut taken = 0;
        for range in &self.out_of_order {
            if range.0 > rcv_nxt {
                break;
            }
            rcv_nxt = rcv_nxt.max(range.1);
            taken += 1;
        }
        self.out_of_order.drain(..taken);
        self.recent.retain(|r| r.1 > rcv_nxt);
        rcv_nxt
    }
}
