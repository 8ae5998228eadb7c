//! A ring of transmissions in the order of sending, each with a number whose lower bits index it.

use super::micros::Micros;
use knee_core::cache::fetch;
use knee_core::convert::{index_u32, low_u8, low_u16, low_u32};

/// A transmission of consecutive segments. Four in a cache line: of thousands of flows each has a few.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmission {
    /// First segment, lower half: no two in flight are further apart than that can tell.
    start: u32,
    /// Packets delivered when it was sent, lower half.
    pub delivered: u32,
    /// | bits | |
    /// |---|---|
    /// | 63 to 16 | when it was sent, us (8 years) |
    /// | 15 to 8 | while tracking: of how many segments it is the last transmission and their fate is open |
    /// | 7 to 1 | how many segments |
    /// | 0 | whether they had been sent before |
    word: u64,
}

const _: () = assert!(size_of::<Transmission>() == 16);

/// Bits of [`Transmission::word`] below the time.
const TIME_SHIFT: u32 = 16;
const OPEN_SHIFT: u32 = 8;

impl Transmission {
    /// Segments that a burst can hold.
    pub const MOST: u32 = (1 << (OPEN_SHIFT - 1)) - 1;

    /// Up to [`Transmission::MOST`] segments from `start` on, sent when `delivered` packets had been.
    pub fn new(start: u64, count: u32, sent: Micros, delivered: u64, retransmission: bool) -> Self {
        debug_assert!(count <= Self::MOST && sent.0 >> (u64::BITS - TIME_SHIFT) == 0);
        let word = sent.0 << TIME_SHIFT | u64::from(count << 1) | u64::from(retransmission);
        Self { start: low_u32(start), delivered: low_u32(delivered), word }
    }

    /// When it was sent.
    pub const fn sent(&self) -> Micros {
        Micros(self.word >> TIME_SHIFT)
    }

    /// How many segments.
    pub const fn count(&self) -> u32 {
        (low_u8(self.word) >> 1) as u32
    }

    /// While tracking: of how many segments it is the last transmission and their fate is open.
    pub const fn open(&self) -> u32 {
        (low_u16(self.word) >> OPEN_SHIFT) as u32
    }

    /// Sets the number of open segments, at most [`Transmission::MOST`].
    pub const fn set_open(&mut self, open: u32) {
        debug_assert!(open <= Self::MOST);
        self.word = self.word & !(0xff << OPEN_SHIFT) | (open as u64) << OPEN_SHIFT;
    }

    /// The fate of one of those is known, or it was sent again.
    pub const fn close_one(&mut self) {
        debug_assert!(self.open() > 0);
        self.word -= 1 << OPEN_SHIFT;
    }

    /// True if its segments had been sent before.
    pub const fn retransmission(&self) -> bool {
        self.word & 1 != 0
    }

    /// Takes in one segment more.
    pub fn extend(&mut self) {
        debug_assert!(self.count() < Self::MOST);
        self.word += 2;
    }

    /// How many segments its end is beyond `seq`; negative: before it.
    pub const fn reach(&self, seq: u64) -> i32 {
        self.start.wrapping_add(self.count()).wrapping_sub(low_u32(seq)).cast_signed()
    }

    /// First segment and the one after the last, given one not far away.
    pub const fn range(&self, near: u64) -> (u64, u64) {
        let ahead = self.start.wrapping_sub(low_u32(near)).cast_signed();
        let start = near.wrapping_add_signed(ahead as i64);
        (start, start + self.count() as u64)
    }
}

/// Least slots once there are any.
const LEAST: usize = 8;
/// Slots that are never given back.
const KEPT: usize = 32;

/// A ring of transmissions, TCP's or another protocol's.
#[derive(Clone, Debug, Default)]
pub struct Ring<T> {
    /// A power of two of them, or none.
    slots: Box<[T]>,
    /// Number of the first burst.
    first: u32,
    len: u32,
}

impl<T: Copy + Default> Ring<T> {
    /// Bursts in a cache line.
    const LINE: u32 = 64 / index_u32(size_of::<T>());

    /// How many bursts.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there is no burst.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many have room.
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Number of the first burst, or of the next one where there is none.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Number of the burst after the last.
    pub const fn end(&self) -> u32 {
        self.first.wrapping_add(self.len)
    }

    /// Where the burst of this number is, or any with the same lower bits.
    pub const fn slot(&self, number: u32) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// A burst that is there.
    pub fn at(&self, number: u32) -> &T {
        &self.slots[self.slot(number)]
    }

    /// The burst of this number, to be changed.
    pub fn at_mut(&mut self, number: u32) -> &mut T {
        let slot = self.slot(number);
        &mut self.slots[slot]
    }

    /// The first burst.
    pub fn front(&self) -> Option<&T> {
        if self.len == 0 { None } else { self.slots.get(self.slot(self.first)) }
    }

    /// The last burst.
    pub fn back_mut(&mut self) -> Option<&mut T> {
        let slot = self.slot(self.end().wrapping_sub(1));
        if self.len == 0 { None } else { self.slots.get_mut(slot) }
    }

    /// Adds a burst; there has to be room.
    pub fn push(&mut self, burst: T) {
        let slot = self.slot(self.end());
        self.slots[slot] = burst;
        self.len += 1;
    }

    /// Drops bursts from the front; they have to be there.
    pub const fn drop_front(&mut self, count: u32) {
        self.first = self.first.wrapping_add(count);
        self.len -= count;
    }

    /// The bursts with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.len).map(|i| self.first.wrapping_add(i)).map(|number| (number, self.at(number)))
    }

    /// Doubles the room.
    #[cold]
    pub fn grow(&mut self) {
        self.resize((2 * self.slots.len()).max(LEAST));
    }

    fn resize(&mut self, capacity: usize) {
        let mut slots = vec![T::default(); capacity];
        for (number, burst) in self.iter() {
            slots[number as usize & (capacity - 1)] = *burst;
        }
        self.slots = slots.into();
    }

    /// Fetches some of the first bursts and the room for as many.
    pub fn fetch(&self) {
        for number in [self.first, self.first.wrapping_add(Self::LINE), self.end(), self.end().wrapping_add(Self::LINE)]
        {
            if let Some(burst) = self.slots.get(self.slot(number)) {
                fetch(burst);
            }
        }
    }
}

impl Ring<Transmission> {
    /// Drops retransmissions, which gives later bursts other numbers, and gives back room that is not needed.
    pub fn drop_retransmissions(&mut self) {
        let mut end = self.first;
        for i in 0..self.len {
            let burst = *self.at(self.first.wrapping_add(i));
            if !burst.retransmission() {
                let slot = self.slot(end);
                self.slots[slot] = burst;
                end = end.wrapping_add(1);
            }
        }
        self.len = end.wrapping_sub(self.first);
        let enough = (2 * self.len()).next_power_of_two().max(KEPT);
        if self.capacity() > enough {
            self.resize(enough);
        }
    }
}
