//! Segments that were sent and are not yet acknowledged.
//!
//! Segments leave in bursts, and all of a burst share the time and the delivery state of their transmission: one
//! [`Transmission`] stands for them, in the order of sending. As long as everything arrives in order that is all there
//! is; an ACK takes from the front. With the first SACK, loss or retransmission, each segment gets flags of its own and
//! the number of the burst that carried it last (`track`), until all of that is acknowledged (`untrack`).

use super::flags;
use super::micros::Micros;
use super::rate::RateStart;
use super::ring::{Ring, Transmission};
use super::tracking::{NUMBERS, Segment, Tracking, hole};
use knee_core::cache::fetch;
use knee_core::convert::{index, index_u32};
use std::collections::VecDeque;

/// Delivery states at departure ([`RateStart`]), one for each burst in the order of sending, for algorithms that read
/// rate samples.
#[derive(Clone, Debug, Default)]
struct Starts(VecDeque<RateStart>);

impl Starts {
    /// Apart, so that it takes no room in those that keep none.
    #[inline(never)]
    fn drop_first(&mut self) {
        self.0.pop_front();
    }
}

/// The retransmission queue.
#[derive(Clone, Debug, Default)]
pub struct RetransmitQueue {
    bursts: Ring<Transmission>,
    tracking: Option<Box<Tracking>>,
    /// Beside each burst, where the algorithm reads rate samples.
    starts: Option<Box<Starts>>,
}

impl RetransmitQueue {
    /// An empty queue, which keeps what rate samples need or not.
    pub fn new(keeps_starts: bool) -> Self {
        Self { starts: keeps_starts.then(Box::default), ..Self::default() }
    }

    /// True while segments have state of their own.
    pub const fn tracking(&self) -> bool {
        self.tracking.is_some()
    }

    /// Fetches what lies behind the queue.
    pub fn fetch_behind(&self) {
        self.bursts.fetch();
        if let Some(tracking) = &self.tracking {
            fetch(tracking.as_ref());
        }
    }

    /// Books a transmission of new segments.
    pub fn push(&mut self, burst: Transmission) {
        self.push_untracked(burst);
        if self.tracking.is_some() {
            self.list_last();
        }
    }

    /// Books a burst while no segment has state of its own.
    pub fn push_untracked(&mut self, burst: Transmission) {
        if self.bursts.len() == self.bursts.capacity() {
            self.bursts.grow();
        }
        self.bursts.push(burst);
    }

    /// Books what the burst that was booked just before took along, where that is kept.
    pub fn push_start(&mut self, start: RateStart) {
        if let Some(starts) = &mut self.starts {
            starts.0.push_back(start);
        }
    }

    /// The delivery state that the last transmission of a segment carried; zeros where none is kept.
    pub fn start_of(&self, seq: u64) -> RateStart {
        match &self.starts {
            Some(starts) => starts.0[self.place(self.number_of(seq))],
            None => RateStart::default(),
        }
    }

    /// Gives the segments of the last burst a state of their own.
    #[cold]
    fn list_last(&mut self) {
        let number = self.last();
        if let (Some(tracking), Some(burst)) = (&mut self.tracking, self.bursts.back_mut()) {
            burst.set_open(burst.count());
            tracking.list(number, burst.count());
        }
        self.make_room();
    }

    /// Number of the last burst.
    const fn last(&self) -> u32 {
        self.bursts.end().wrapping_sub(1)
    }

    /// While tracking: where the next burst would make the queue grow, drops those at the front that are the last
    /// transmission of no segment.
    fn make_room(&mut self) {
        let Some(tracking) = self.tracking.as_ref().filter(|_| self.bursts.len() == self.bursts.capacity()) else {
            return;
        };
        let dead = tracking.range().map(|seq| self.place(tracking.segment(seq).number())).min().unwrap_or(0);
        // Where little is gained it grows, so that this remains rare.
        if dead >= self.bursts.len() / 4 {
            self.bursts.drop_front(index_u32(dead));
            if let Some(starts) = &mut self.starts {
                starts.0.drain(..dead);
            }
        }
    }

    /// Gives each of the segments from `una` to before `nxt` a state of its own.
    pub fn track(&mut self, una: u64, nxt: u64) {
        if self.tracking.is_none() {
            self.begin_tracking(una, nxt);
        }
    }

    #[inline(never)]
    fn begin_tracking(&mut self, una: u64, nxt: u64) {
        let mut tracking = Box::new(Tracking::new(una, index(nxt - una), self.bursts.first()));
        for i in 0..index_u32(self.bursts.len()) {
            let number = self.bursts.first().wrapping_add(i);
            let burst = self.bursts.at_mut(number);
            let open = burst.count().min(burst.reach(una).max(0).cast_unsigned());
            burst.set_open(open);
            tracking.list(number, open);
        }
        debug_assert_eq!(tracking.range(), una..nxt);
        self.tracking = Some(tracking);
    }

    /// Ends tracking where every segment left was sent once. The caller knows of none that is lost or SACKed.
    pub fn untrack(&mut self, una: u64) {
        if self.tracking.as_ref().is_some_and(|t| una >= t.untrack_at && t.sacked.is_empty()) {
            self.end_tracking(una);
        }
    }

    #[inline(never)]
    fn end_tracking(&mut self, una: u64) {
        self.tracking = None;
        self.drop_before(una);
        if let Some(starts) = &mut self.starts {
            let mut bursts = self.bursts.iter();
            starts.0.retain(|_| bursts.next().is_some_and(|(_, burst)| !burst.retransmission()));
        }
        self.bursts.drop_retransmissions();
    }

    /// Flags of a segment; none unless tracking.
    pub fn flags(&self, seq: u64) -> u8 {
        self.tracking.as_ref().map_or(0, |tracking| tracking.segment(seq).flags())
    }

    /// Sets and clears flags of a segment; only while tracking.
    pub fn set_flags(&mut self, seq: u64, set: u8, clear: u8) {
        let Some(tracking) = &mut self.tracking else { return };
        let segment = tracking.segment_mut(seq);
        let before = segment.flags();
        segment.set_flags(before & !clear | set);
        if before & flags::LISTED != 0 && segment.flags() & flags::LISTED == 0 {
            self.bursts.at_mut(segment.number()).close_one();
        }
    }

    /// How many bursts are before the one of this number.
    const fn place(&self, number: u32) -> usize {
        (number.wrapping_sub(self.bursts.first()) & NUMBERS) as usize
    }

    /// The last transmission of a segment.
    pub fn burst_of(&self, seq: u64) -> &Transmission {
        match self.bursts.front() {
            Some(first) if self.tracking.is_none() && first.reach(seq) > 0 => first,
            _ => self.bursts.at(self.number_of(seq)),
        }
    }

    /// Number of the last transmission of a segment, perhaps but for its upper byte.
    #[cold]
    fn number_of(&self, seq: u64) -> u32 {
        if let Some(tracking) = &self.tracking {
            return tracking.segment(seq).number();
        }
        // Asked for one of the first, mostly: bursts before the first unacknowledged segment have been dropped.
        let mut number = self.bursts.first();
        while self.bursts.at(number).reach(seq) <= 0 {
            number = number.wrapping_add(1);
        }
        number
    }

    /// Books the retransmission of the segment `seq`; only while tracking. Segments retransmitted in a row at one time,
    /// with nothing delivered in between, share a burst: false where this one shares that of the one before.
    pub fn retransmit(&mut self, seq: u64, burst: Transmission) -> bool {
        self.set_flags(seq, 0, flags::LISTED);
        let same = |last: &Transmission| last.sent() == burst.sent() && last.delivered == burst.delivered;
        let joins = |last: &&mut Transmission| last.retransmission() && last.reach(seq) == 0 && same(last);
        let joined = self.bursts.back_mut().filter(joins);
        let alone = joined.is_none();
        match joined {
            Some(last) if last.count() < Transmission::MOST => last.extend(),
            _ => {
                self.push_untracked(burst);
                if let Some(starts) = self.starts.as_mut().filter(|_| !alone) {
                    starts.0.extend(starts.0.back().copied());
                }
                self.make_room();
            }
        }
        let number = self.last();
        let burst = self.bursts.at_mut(number);
        burst.set_open(burst.open() + 1);
        let Some(tracking) = &mut self.tracking else { return alone };
        tracking.untrack_at = tracking.untrack_at.max(seq + 1);
        let segment = tracking.segment_mut(seq);
        *segment = Segment(Segment::new(number).0 | u32::from(segment.flags()));
        alone
    }

    /// Unless tracking: takes out what is acknowledged to before `ack`; gives when the oldest segment of it was sent,
    /// and the transmission of the newest. `RATE`: what rate samples need may lie next to them.
    pub fn acknowledge<const RATE: bool>(&mut self, ack: u64) -> Option<(Micros, Transmission)> {
        // Bursts acknowledged before are gone already, and they lie in the order of sending: the one with the last
        // segment is the newest.
        let mut newest = *self.bursts.front()?;
        let oldest = newest.sent();
        loop {
            let reach = newest.reach(ack);
            if reach <= 0 {
                self.drop_first::<RATE>();
            }
            if reach >= 0 {
                return Some((oldest, newest));
            }
            newest = *self.bursts.front()?;
        }
    }

    fn drop_first<const RATE: bool>(&mut self) {
        self.bursts.drop_front(1);
        if RATE && let Some(starts) = &mut self.starts {
            starts.drop_first();
        }
    }

    /// Drops bursts at the front that do not reach beyond `una`.
    fn drop_before(&mut self, una: u64) {
        while self.bursts.front().is_some_and(|burst| burst.reach(una) <= 0) {
            self.drop_first::<true>();
        }
    }

    /// While tracking: removes the first segment, which was acknowledged; gives its flags and its last transmission.
    pub fn pop(&mut self) -> Option<(u8, Transmission)> {
        let segment = self.tracking.as_mut()?.pop()?;
        let flags = segment.flags();
        if flags & flags::LISTED != 0 {
            self.bursts.at_mut(segment.number()).close_one();
        }
        Some((flags, *self.bursts.at(segment.number())))
    }

    /// While tracking: drops bursts at the front whose segments were all acknowledged, and SACKed ranges before `una`.
    pub fn tidy(&mut self, una: u64) {
        if let Some(tracking) = &mut self.tracking {
            let gone = tracking.sacked.iter().take_while(|r| r.1 <= una).count();
            if gone > 0 {
                tracking.sacked.drain(..gone);
            }
            if let Some(first) = tracking.sacked.first_mut() {
                first.0 = first.0.max(una);
            }
        }
        self.drop_before(una);
    }

    /// Number of the first burst whose fate is open; where there is none, of the last one. None unless tracking.
    pub fn first_open(&mut self) -> Option<u32> {
        let tracking = self.tracking.as_mut()?;
        let (first, last) = (self.bursts.first(), self.bursts.end().wrapping_sub(1));
        let mut number = tracking.open_from;
        if number.wrapping_sub(first) as usize >= self.bursts.len() {
            number = first;
        }
        while number != last && self.bursts.at(number).open() == 0 {
            number = number.wrapping_add(1);
        }
        tracking.open_from = number;
        Some(number)
    }

    /// The burst of this number. `None` if it is not there any more, or not yet.
    pub fn burst(&self, number: u32) -> Option<&Transmission> {
        (self.place(number) < self.bursts.len()).then(|| self.bursts.at(number))
    }

    /// True if the burst of this number is the last that carried `seq`; only while tracking.
    pub fn carries(&self, number: u32, seq: u64) -> bool {
        self.tracking.as_ref().is_some_and(|t| t.segment(seq).number() == number & NUMBERS)
    }

    /// While tracking: a segment was SACKed for the first time. Gives its flags before that and its last transmission.
    pub fn sack(&mut self, seq: u64) -> Option<(u8, Transmission)> {
        let tracking = self.tracking.as_mut()?;
        let segment = tracking.segment_mut(seq);
        let before = segment.flags();
        // A retransmission of what is not deemed lost any more is believed to be still in flight.
        let over = if before & flags::LOST != 0 { flags::RETRANSMITTED } else { 0 };
        segment.set_flags(before & !(flags::LOST | flags::LISTED | over) | flags::SACKED);
        let burst = self.bursts.at_mut(segment.number());
        if before & flags::LISTED != 0 {
            burst.close_one();
        }
        Some((before, *burst))
    }

    /// While tracking: none is SACKed any more.
    pub fn forget_sacks(&mut self) {
        let Some(tracking) = &mut self.tracking else { return };
        tracking.sacked.clear();
        for seq in tracking.range() {
            let segment = tracking.segment_mut(seq);
            segment.set_flags(segment.flags() & !flags::SACKED);
        }
    }

    /// No segment before this one waits to be retransmitted; only while tracking.
    pub fn retransmit_hint(&self) -> u64 {
        self.tracking.as_ref().map_or(0, |t| t.retransmit_hint)
    }

    /// Sets the hint, while tracking.
    pub fn set_retransmit_hint(&mut self, seq: u64) {
        if let Some(tracking) = &mut self.tracking {
            tracking.retransmit_hint = seq;
        }
    }

    /// Ranges of SACKed segments.
    fn sacked(&self) -> &[(u64, u64)] {
        self.tracking.as_ref().map_or(&[], |t| t.sacked.as_slice())
    }

    /// True if all of a range has been SACKed.
    pub fn is_sacked(&self, (start, end): (u64, u64)) -> bool {
        let sacked = self.sacked();
        sacked.get(sacked.partition_point(|r| r.1 < end)).is_some_and(|r| r.0 <= start)
    }

    /// Adds the first part of a SACK block that is new, and gives it. `None` if all of it was SACKed before.
    pub fn add_sack(&mut self, (from, to): (u64, u64)) -> Option<(u64, u64)> {
        let sacked = &mut self.tracking.as_mut()?.sacked;
        // Mostly the last range grows.
        if let Some(last) = sacked.last_mut().filter(|last| last.0 <= from && from <= last.1) {
            let start = last.1;
            last.1 = last.1.max(to);
            return (start < to).then_some((start, to));
        }
        let (i, (start, end)) = hole(sacked, from, to)?;
        let joins_next = sacked.get(i).is_some_and(|r| r.0 == end);
        match sacked[..i].last_mut() {
            Some(before) if before.1 == start => {
                before.1 = end;
                if joins_next {
                    sacked[i - 1].1 = sacked.remove(i).1;
                }
            }
            _ if joins_next => sacked[i].0 = start,
            _ => sacked.insert(i, (start, end)),
        }
        Some((start, end))
    }

    /// After the highest SACKed segment; `una` where there is none.
    pub fn highest_sacked(&self, una: u64) -> u64 {
        self.sacked().last().map_or(una, |r| r.1.max(una))
    }

    /// The next range of segments from `seq` on that are not SACKed, up to `limit`.
    pub fn next_hole(&self, seq: u64, limit: u64) -> Option<(u64, u64)> {
        hole(self.sacked(), seq, limit).map(|(_, hole)| hole)
    }
}

#[cfg(test)]
mod tests;
