//! What was sent and is not yet acknowledged.
//!
//! Segments leave in bursts, and all of a burst share the time and the delivery state of their transmission: one
//! [`Burst`] stands for them, in the order of sending. As long as everything arrives in order that is all there is; an
//! ACK takes from the front. With the first SACK, loss or retransmission, each segment gets flags of its own and the
//! number of the burst that carried it last (`track`), until all of that is acknowledged (`untrack`).

use super::flags;
use knee_core::Time;
use knee_core::cache::fetch;
use std::collections::VecDeque;

/// A transmission of consecutive segments.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Burst {
    /// First segment.
    pub start: u64,
    /// When it was sent, at microseconds.
    pub sent: Time,
    /// How many segments.
    pub count: u32,
    /// Packets delivered at that time, lower half.
    pub delivered: u32,
    /// Segments whose last transmission this is and whose fate is open; counted while tracking.
    pub open: u32,
    /// Whether its segments had been sent before.
    pub retransmission: bool,
}

// Two in a cache line: of thousands of flows each has a few.
const _: () = assert!(size_of::<Burst>() == 32);

/// What a transmission takes along for the rate sample of its ACK (tcp_rate_skb_sent).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateStart {
    /// Start of the send interval.
    pub first_tx: Time,
    /// Start of the ACK interval.
    pub delivered_at: Time,
    /// Packets delivered at that time.
    pub delivered: u64,
    /// Packets delivered with a mark at that time, lower half.
    pub delivered_ce: u32,
    /// Packets lost at that time, lower half.
    pub lost: u32,
    /// Packets in flight just after sending.
    pub in_flight: u32,
    /// Whether the application limited sending.
    pub app_limited: bool,
}

impl Burst {
    /// After the last segment.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.start + self.count as u64
    }
}

/// Those of the bursts, in their order: few flows have any.
#[derive(Debug, Default)]
struct Starts(VecDeque<RateStart>);

impl Starts {
    /// Apart, so that it does not lie in the way of those that keep none.
    #[inline(never)]
    fn drop_first(&mut self) {
        self.0.pop_front();
    }
}

/// Bits of a burst's number that are kept with a segment.
const NUMBERS: u32 = u32::MAX >> 8;

/// State of a segment while tracking: the number of the burst that carried it last, but for its upper byte, and its
/// [`flags`].
#[derive(Clone, Copy, Debug)]
struct Segment(u32);

impl Segment {
    /// Just sent.
    const fn new(number: u32) -> Self {
        Self(number << 8 | flags::LISTED as u32)
    }

    const fn number(self) -> u32 {
        self.0 >> 8
    }

    const fn flags(self) -> u8 {
        self.0 as u8
    }

    const fn set_flags(&mut self, flags: u8) {
        self.0 = self.0 & !0xff | flags as u32;
    }
}

/// The retransmission queue.
#[derive(Debug, Default)]
pub struct RetransmitQueue {
    bursts: VecDeque<Burst>,
    /// Beside each burst, where the algorithm reads rate samples.
    starts: Option<Box<Starts>>,
    /// Number of the first of `bursts`.
    first: u32,
    /// From the first unacknowledged segment on; empty unless tracking.
    segments: VecDeque<Segment>,
    tracking: bool,
    /// Segment of `segments[0]`.
    base: u64,
    /// Every burst before this number has no open segment; counted while tracking.
    open_from: u32,
    /// Disjoint ascending ranges of SACKed segments beyond the first unacknowledged one.
    sacked: Vec<(u64, u64)>,
    /// No segment before this one waits to be retransmitted.
    pub retransmit_hint: u64,
    /// Tracking may end when this segment is acknowledged: nothing from here on was ever retransmitted.
    untrack_at: u64,
}

impl RetransmitQueue {
    /// An empty queue, which keeps what rate samples need or not.
    pub fn new(keeps_starts: bool) -> Self {
        Self { starts: keeps_starts.then(Box::default), ..Self::default() }
    }

    /// Whether segments have state of their own.
    pub const fn tracking(&self) -> bool {
        self.tracking
    }

    /// Fetches the bursts.
    #[inline]
    pub fn fetch_bursts(&self) {
        let (first, rest) = self.bursts.as_slices();
        fetch(first);
        fetch(rest);
    }

    /// Books a transmission of new segments.
    #[inline]
    pub fn push(&mut self, burst: Burst) {
        self.bursts.push_back(burst);
        if self.tracking {
            self.list_last();
        }
    }

    /// Books what the burst that was booked just before took along, where that is kept.
    pub fn push_start(&mut self, start: RateStart) {
        if let Some(starts) = &mut self.starts {
            starts.0.push_back(start);
        }
    }

    /// What the last transmission of a segment took along; nothing unless that is kept.
    pub fn start_of(&self, seq: u64) -> RateStart {
        match &self.starts {
            Some(starts) => starts.0[self.place_of(seq)],
            None => RateStart::default(),
        }
    }

    /// Gives the segments of the last burst a state of their own.
    #[cold]
    fn list_last(&mut self) {
        let number = self.last();
        if let Some(burst) = self.bursts.back_mut() {
            burst.open = burst.count;
            for _ in 0..burst.count {
                self.segments.push_back(Segment::new(number));
            }
        }
        self.make_room();
    }

    /// Number of the last burst.
    fn last(&self) -> u32 {
        self.first.wrapping_add(self.bursts.len() as u32 - 1)
    }

    /// While tracking: where the next burst would make the queue grow, drops those at the front of which nothing will
    /// be asked any more. A SACKed segment does not need its own.
    fn make_room(&mut self) {
        if self.bursts.len() < self.bursts.capacity() {
            return;
        }
        let first = self.first;
        let needed = |(i, s): (usize, &Segment)| {
            let settled = i > 0 && s.flags() & (flags::SACKED | flags::LISTED) == flags::SACKED;
            (!settled).then(|| self.place(s.number()) as u32)
        };
        let dead = self.segments.iter().enumerate().filter_map(needed).min().unwrap_or(0);
        // Where little is gained it grows, so that this remains rare.
        if dead as usize >= self.bursts.len() / 4 {
            self.bursts.drain(..dead as usize);
            if let Some(starts) = &mut self.starts {
                starts.0.drain(..dead as usize);
            }
            self.first = first.wrapping_add(dead);
        }
    }

    /// Gives each of the segments from `una` on a state of its own.
    #[inline]
    pub fn track(&mut self, una: u64, nxt: u64) {
        if !self.tracking {
            self.begin_tracking(una, nxt);
        }
    }

    #[inline(never)]
    fn begin_tracking(&mut self, una: u64, nxt: u64) {
        self.tracking = true;
        self.base = una;
        self.retransmit_hint = una;
        self.untrack_at = una;
        self.open_from = self.first;
        let count = (nxt - una) as usize;
        // Room for what will be sent meanwhile.
        self.segments.reserve(count + count / 2 + 8);
        let mut number = self.first;
        for burst in &mut self.bursts {
            let start = burst.start.max(una);
            burst.open = burst.end().saturating_sub(start) as u32;
            for _ in 0..burst.open {
                self.segments.push_back(Segment::new(number));
            }
            number = number.wrapping_add(1);
        }
        debug_assert_eq!(self.segments.len(), count);
    }

    /// Ends tracking where every segment left was sent once. The caller knows of none that is lost or SACKed.
    #[inline]
    pub fn untrack(&mut self, una: u64) {
        if self.tracking && una >= self.untrack_at && self.sacked.is_empty() {
            self.end_tracking(una);
        }
    }

    #[inline(never)]
    fn end_tracking(&mut self, una: u64) {
        self.tracking = false;
        self.segments = VecDeque::new();
        self.front(una);
        if let Some(starts) = &mut self.starts {
            let mut bursts = self.bursts.iter();
            starts.0.retain(|_| bursts.next().is_some_and(|burst| !burst.retransmission));
        }
        self.bursts.retain(|burst| !burst.retransmission);
        // What recovery took beside the bursts is given back: with thousands of flows it counts.
        self.bursts.shrink_to((2 * self.bursts.len()).max(16));
        self.sacked = Vec::new();
    }

    /// Flags of a segment; none unless tracking.
    pub fn flags(&self, seq: u64) -> u8 {
        if self.tracking { self.segments.get((seq - self.base) as usize).map_or(0, |s| s.flags()) } else { 0 }
    }

    /// Sets and clears flags of a segment; only while tracking.
    pub fn set_flags(&mut self, seq: u64, set: u8, clear: u8) {
        let i = (seq - self.base) as usize;
        let segment = &mut self.segments[i];
        let before = segment.flags();
        segment.set_flags(before & !clear | set);
        if before & flags::LISTED != 0 && segment.flags() & flags::LISTED == 0 {
            let number = segment.number();
            self.burst_mut(number).open -= 1;
        }
    }

    /// Where the burst of this number is. There are never as many as there are numbers.
    #[inline]
    fn place(&self, number: u32) -> usize {
        (number.wrapping_sub(self.first) & NUMBERS) as usize
    }

    fn burst_mut(&mut self, number: u32) -> &mut Burst {
        let place = self.place(number);
        &mut self.bursts[place]
    }

    /// The last transmission of a segment.
    #[inline]
    pub fn burst_of(&self, seq: u64) -> &Burst {
        match self.bursts.front() {
            Some(first) if !self.tracking && first.end() > seq => first,
            _ => &self.bursts[self.place_of(seq)],
        }
    }

    /// Where the last transmission of a segment is.
    #[cold]
    fn place_of(&self, seq: u64) -> usize {
        if self.tracking {
            return self.place(self.segments[(seq - self.base) as usize].number());
        }
        // Asked for one of the first, mostly: bursts before the first unacknowledged segment have been dropped.
        let mut i = 0;
        while self.bursts[i].end() <= seq {
            i += 1;
        }
        i
    }

    /// Books the retransmission of a segment; only while tracking. Segments retransmitted in a row at one time share
    /// a burst: false where this one shares that of the one before.
    pub fn retransmit(&mut self, burst: Burst) -> bool {
        let seq = burst.start;
        self.set_flags(seq, 0, flags::LISTED);
        self.untrack_at = self.untrack_at.max(burst.end());
        let alone = match self.bursts.back_mut() {
            Some(last) if last.retransmission && last.end() == seq && last.sent == burst.sent => {
                last.count += 1;
                last.open += 1;
                false
            }
            _ => {
                self.bursts.push_back(Burst { open: 1, ..burst });
                self.make_room();
                true
            }
        };
        let number = self.last();
        let segment = &mut self.segments[(seq - self.base) as usize];
        *segment = Segment(Segment::new(number).0 | u32::from(segment.flags()));
        alone
    }

    /// Unless tracking: takes out what is acknowledged from `una` to before `ack`; gives when the oldest segment of it
    /// was sent, and the transmission of the newest.
    #[inline]
    pub fn acknowledge(&mut self, una: u64, ack: u64) -> Option<(Time, Burst)> {
        // Bursts acknowledged before are gone already, and they lie in the order of sending: the one with the last segment
        // is the newest.
        let first = self.bursts.front()?;
        debug_assert!(first.end() > una);
        let oldest = first.sent;
        loop {
            let newest = *self.bursts.front()?;
            if newest.end() <= ack {
                self.drop_first();
            }
            if newest.end() >= ack {
                return Some((oldest, newest));
            }
        }
    }

    #[inline]
    fn drop_first(&mut self) {
        self.bursts.pop_front();
        if let Some(starts) = &mut self.starts {
            starts.drop_first();
        }
        self.first = self.first.wrapping_add(1);
    }

    /// The oldest burst that reaches beyond `una`; those before it are dropped.
    #[inline]
    pub fn front(&mut self, una: u64) -> Option<&Burst> {
        while self.bursts.front().is_some_and(|b| b.end() <= una) {
            self.drop_first();
        }
        self.bursts.front()
    }

    /// While tracking: removes the first segment, which was acknowledged; gives its flags and, unless it was SACKed,
    /// its last transmission.
    #[inline]
    pub fn pop(&mut self) -> Option<(u8, Option<&Burst>)> {
        let segment = self.segments.pop_front()?;
        self.base += 1;
        self.retransmit_hint = self.retransmit_hint.max(self.base);
        let flags = segment.flags();
        if flags & flags::LISTED != 0 {
            self.burst_mut(segment.number()).open -= 1;
        }
        let sacked = flags & flags::SACKED != 0;
        Some((flags, (!sacked).then(|| &*self.burst_mut(segment.number()))))
    }

    /// While tracking: drops bursts at the front whose segments were all acknowledged, and SACKed ranges before `una`.
    pub fn tidy(&mut self, una: u64) {
        let gone = self.sacked.iter().take_while(|r| r.1 <= una).count();
        self.sacked.drain(..gone);
        if let Some(first) = self.sacked.first_mut() {
            first.0 = first.0.max(una);
        }
        self.front(una);
    }

    /// While tracking: number of the first burst whose fate is open; where there is none, of the last one.
    pub fn first_open(&mut self) -> u32 {
        let ahead = self.open_from.wrapping_sub(self.first) as usize;
        let mut i = if ahead < self.bursts.len() { ahead } else { 0 };
        while i + 1 < self.bursts.len() && self.bursts[i].open == 0 {
            i += 1;
        }
        self.open_from = self.first.wrapping_add(i as u32);
        self.open_from
    }

    /// The burst of this number; none: it is not there any more, or not yet.
    #[inline]
    pub fn burst(&self, number: u32) -> Option<&Burst> {
        self.bursts.get(self.place(number))
    }

    /// Whether the burst of this number is the last that carried `seq`; only while tracking.
    pub fn carries(&self, number: u32, seq: u64) -> bool {
        self.segments[(seq - self.base) as usize].number() == number & NUMBERS
    }

    /// While tracking: a segment was SACKed for the first time. Gives its flags before that and its last transmission.
    #[inline]
    pub fn sack(&mut self, seq: u64) -> (u8, &Burst) {
        let i = (seq - self.base) as usize;
        let segment = &mut self.segments[i];
        let before = segment.flags();
        // A retransmission of what is not deemed lost any more is believed to be still in flight.
        let over = if before & flags::LOST != 0 { flags::RETRANSMITTED } else { 0 };
        segment.set_flags(before & !(flags::LOST | flags::LISTED | over) | flags::SACKED);
        let number = segment.number();
        let burst = self.burst_mut(number);
        if before & flags::LISTED != 0 {
            burst.open -= 1;
        }
        (before, burst)
    }

    /// Whether all of a range has been SACKed.
    #[inline]
    pub fn is_sacked(&self, (start, end): (u64, u64)) -> bool {
        let i = self.sacked.partition_point(|r| r.1 < end);
        self.sacked.get(i).is_some_and(|r| r.0 <= start)
    }

    /// Adds the first part of a SACK block that is new, and gives it; none: all of it was SACKed before.
    pub fn add_sack(&mut self, (from, to): (u64, u64)) -> Option<(u64, u64)> {
        let (i, (start, end)) = self.hole(from, to)?;
        let joins_next = self.sacked.get(i).is_some_and(|r| r.0 == end);
        match self.sacked[..i].last_mut() {
            Some(before) if before.1 == start => {
                before.1 = end;
                if joins_next {
                    self.sacked[i - 1].1 = self.sacked.remove(i).1;
                }
            }
            _ if joins_next => self.sacked[i].0 = start,
            _ => self.sacked.insert(i, (start, end)),
        }
        Some((start, end))
    }

    /// After the highest SACKed segment; `una` where there is none.
    #[inline]
    pub fn highest_sacked(&self, una: u64) -> u64 {
        self.sacked.last().map_or(una, |r| r.1)
    }

    /// The next range of segments from `seq` on that are not SACKed, up to `limit`.
    pub fn next_hole(&self, seq: u64, limit: u64) -> Option<(u64, u64)> {
        self.hole(seq, limit).map(|(_, hole)| hole)
    }

    /// The same with the index of the SACKed range behind it.
    #[inline]
    fn hole(&self, seq: u64, limit: u64) -> Option<(usize, (u64, u64))> {
        let mut i = self.sacked.partition_point(|r| r.1 <= seq);
        let mut start = seq;
        if let Some(r) = self.sacked.get(i).filter(|r| r.0 <= seq) {
            start = r.1;
            i += 1;
        }
        let end = self.sacked.get(i).map_or(limit, |r| r.0.min(limit));
        (start < limit).then_some((i, (start, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn burst(start: u64, count: u32, now: u64, retransmission: bool) -> Burst {
        Burst { start, sent: Time::from_micros(now), count, delivered: 0, open: 0, retransmission }
    }

    /// Tells the transmissions apart.
    fn begun(now: u64) -> RateStart {
        RateStart { delivered: now, ..RateStart::default() }
    }

    proptest! {
        /// The scoreboard against a map from segments to their last transmission and whether they were SACKed.
        #[test]
        fn segments_not_yet_sacked_know_their_last_transmission(
            first in 1u32..12,
            steps in prop::collection::vec((0u8..4, prop_oneof![0u64..3, 0u64..30], 1u64..6), 1..300),
        ) {
            let mut rtx = RetransmitQueue::new(true);
            let (mut una, mut nxt) = (0, u64::from(first));
            rtx.push(burst(0, first, 0, false));
            rtx.push_start(begun(0));
            let mut model: BTreeMap<u64, (u64, bool)> = (0..nxt).map(|seq| (seq, (0, false))).collect();
            rtx.track(una, nxt);
            for (now, (step, at, count)) in (1..).zip(steps) {
                let seq = (una + at).min(nxt - 1);
                let sacked = model[&seq].1;
                match step {
                    0 => {
                        rtx.push(burst(nxt, count as u32, now, false));
                        rtx.push_start(begun(now));
                        model.extend((nxt..nxt + count).map(|seq| (seq, (now, false))));
                        nxt += count;
                    }
                    1 if !sacked => {
                        if rtx.retransmit(burst(seq, 1, now, true)) {
                            rtx.push_start(begun(now));
                        }
                        model.insert(seq, (now, false));
                    }
                    // The first segment that is missing is never SACKed.
                    2 if seq > una => {
                        while let Some((start, end)) = rtx.add_sack((seq, (seq + count).min(nxt))) {
                            for seq in start..end {
                                let before = model.insert(seq, (0, true));
                                let sent = rtx.sack(seq).1.sent;
                                prop_assert_eq!(before, Some((sent.as_micros(), false)));
                            }
                        }
                    }
                    3 if nxt - una > count => {
                        while una < seq || una + 1 < nxt && model[&una].1 {
                            let (sent, sacked) = model.remove(&una).unwrap();
                            let burst = rtx.pop().unwrap().1.map(|burst| burst.sent.as_micros());
                            prop_assert_eq!(burst, (!sacked).then_some(sent));
                            una += 1;
                        }
                        if model[&una].1 {
                            break;
                        }
                        rtx.tidy(una);
                    }
                    _ => {}
                }
                for (&seq, &(sent, sacked)) in &model {
                    if !sacked {
                        prop_assert_eq!(rtx.burst_of(seq).sent, Time::from_micros(sent));
                        prop_assert_eq!(rtx.start_of(seq).delivered, sent);
                    }
                    prop_assert_eq!(rtx.is_sacked((seq, seq + 1)), sacked);
                }
                let open: u32 = rtx.bursts.iter().map(|burst| burst.open).sum();
                prop_assert_eq!(open as usize, model.values().filter(|(_, sacked)| !sacked).count());
            }
        }
    }

    #[test]
    fn sacked_bursts_make_room_for_those_of_the_next_round_trip() {
        let mut rtx = RetransmitQueue::default();
        (0..8).for_each(|seq| rtx.push(burst(seq, 1, seq, false)));
        rtx.track(0, 8);
        rtx.retransmit(burst(0, 1, 8, true));
        for seq in 1..15 {
            assert_eq!(rtx.add_sack((1, seq + 1)), Some((seq, seq + 1)));
            rtx.sack(seq);
            rtx.push(burst(seq + 7, 1, seq + 8, false));
        }
        // 23 were sent.
        assert_eq!(rtx.bursts.capacity(), 16);
        assert_eq!(rtx.burst_of(0).sent, Time::from_micros(8));
    }
}
