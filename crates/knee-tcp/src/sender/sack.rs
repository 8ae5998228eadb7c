//! Reports of SACK and D-SACK blocks (tcp_sacktag_write_queue; RFC 2018, 2883).

use super::ack::Findings;
use super::micros::Micros;
use super::{AckInfo, Sender, flags};
use knee_cc::CaState;
use knee_core::convert::count_u32;

/// Segments of the flight by what is known of them (RFC 6675, 2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scoreboard {
    /// Segments that the receiver has beyond a gap (Linux's `sacked_out`).
    pub sacked: u32,
    /// Segments deemed lost (`lost_out`).
    pub lost: u32,
    /// Retransmissions in flight (`retrans_out`).
    pub retransmitted: u32,
}

impl Sender {
    /// Tags what the SACK blocks report (tcp_sacktag_write_queue).
    #[cold]
    pub(super) fn tag_sacks(&mut self, ack: &AckInfo, stamp: Micros, found: &mut Findings) {
        let mut blocks = ack.blocks;
        if ack.dsack {
            let block = blocks[0];
            blocks = &blocks[1..];
            self.take_dsack(block, ack.seq, found);
        }
        let (una, nxt) = (self.view.snd_una.max(ack.seq), self.view.snd_nxt);
        let clip = |&(start, end): &(u64, u64)| (start.max(una), end.min(nxt));
        if let [block] = blocks {
            let block = clip(block);
            if block.0 < block.1 {
                self.rtx.track(self.view.snd_una, nxt);
                self.tag_block(block, stamp, found);
            }
            return;
        }
        let mut sorted = [(0, 0); 4];
        let mut count = 0;
        for (start, end) in blocks.iter().map(clip) {
            // Most of the blocks only repeat what is known.
            if start < end && !self.rtx.is_sacked((start, end)) {
                sorted[count] = (start, end);
                count += 1;
            }
        }
        if count == 0 {
            return;
        }
        self.rtx.track(self.view.snd_una, nxt);
        sorted[..count].sort_unstable();
        sorted[..count].iter().for_each(|&block| self.tag_block(block, stamp, found));
    }

    /// Tags what is new in a SACK block.
    fn tag_block(&mut self, (mut from, to): (u64, u64), stamp: Micros, found: &mut Findings) {
        let highest = self.rtx.highest_sacked(self.view.snd_una);
        while from < to
            && let Some((start, end)) = self.rtx.add_sack((from, to))
        {
            for seq in start..end {
                self.tag_sacked(seq, highest, stamp, found);
            }
            from = end;
        }
    }

    /// A segment that was sent once arrived after a later one (tcp_check_sack_reordering).
    pub(super) fn check_sack_reordering(&mut self, found: &Findings) {
        if let Some(lowest) = found.sacked_late
            && (self.view.ca != CaState::Loss || self.recovery.undo.marker.is_some())
        {
            self.note_reordering(lowest, self.rtx.highest_sacked(self.view.snd_una));
        }
    }

    /// A segment is reported received for the first time (tcp_sacktag_one); `highest` is after the highest one so far.
    /// Mostly it is the only one, and what a loop over segments would keep at hand does not pay.
    #[inline(never)]
    fn tag_sacked(&mut self, seq: u64, highest: u64, stamp: Micros, found: &mut Findings) {
        let Some((segment, burst)) = self.rtx.sack(seq) else { return };
        let sent = burst.sent();
        self.rack_advance(sent, seq + 1, segment, stamp);
        if segment & flags::LOST != 0 {
            self.scoreboard.lost -= 1;
            self.scoreboard.retransmitted -= u32::from(segment & flags::RETRANSMITTED != 0);
        }
        if segment & flags::EVER_RETRANSMITTED == 0 {
            //= RFC 8985, 6.2
            //# If a never-retransmitted segment that's below RACK.fack is (selectively or cumulatively) acknowledged,
            //# it has been delivered out of order.
            if seq < highest {
                found.saw_late(seq);
            }
            found.original_delivered |= seq < self.recovery.high_seq;
            let first = found.sack_sent.map_or(sent, |(first, _)| first);
            found.sack_sent = Some((first, sent));
        }
        self.scoreboard.sacked += 1;
        self.count_delivered(1, found);
        found.sacked = true;
        if self.rate_delivered(&burst, seq + 1, segment, found) && self.needs.rate {
            found.start = Some(self.rtx.start_of(seq));
        }
    }

    /// A D-SACK: a segment arrived twice (tcp_check_dsack, tcp_dsack_seen).
    #[cold]
    fn take_dsack(&mut self, block: (u64, u64), ack_seq: u64, found: &mut Findings) {
        let segments = block.1 - block.0;
        self.recovery.dsack_segments = self.recovery.dsack_segments.saturating_add(count_u32(segments));
        // More duplicates than retransmissions: the network made them.
        if u64::from(self.recovery.dsack_segments) > self.totals.retransmitted {
            return;
        }
        found.dsack = true;
        found.dsack_of_probe = self.tlp.is_reported_by(block.1);
        if self.rack.reorder_seen && !found.dsack_of_probe {
            self.rack.dsack_seen = true;
            self.widened = true;
        }
        let counts = self.recovery.undo.counts_dsack(block.1);
        if counts && block.1 <= ack_seq.max(self.view.snd_una) {
            self.recovery.undo.on_dsack(segments);
        } else if block.0 >= self.view.snd_una && self.rtx.tracking() {
            for seq in block.0..block.1.min(self.view.snd_nxt) {
                let segment = self.rtx.flags(seq);
                if segment & flags::EVER_RETRANSMITTED != 0 && counts {
                    self.recovery.undo.on_dsack(1);
                }
                if segment & flags::SACKED != 0 && segment & flags::EVER_RETRANSMITTED != 0 {
                    found.saw_late(seq);
                }
                if segment & flags::SACKED != 0 && segment & flags::RETRANSMITTED != 0 {
                    self.rtx.set_flags(seq, 0, flags::RETRANSMITTED);
                    self.scoreboard.retransmitted -= 1;
                }
            }
        }
        self.count_delivered(count_u32(segments), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::{config, sender};
    use knee_core::Time;

    /// A sender of ten segments, 0 to 9, that hears of one block at a time and of nothing cumulative.
    fn after(blocks: &[(u64, u64)]) -> Sender {
        let config = config(false, 9, 1000);
        let mut sender = sender("reno", None, false, &config);
        for (i, block) in blocks.iter().enumerate() {
            let info = AckInfo { seq: 0, part: 0, blocks: &[*block], dsack: false, tsecr: 1, tsval: 0, flags: 0 };
            let now = Time::from_millis(40) + Time::from_micros(i as u64);
            sender.on_ack(&info, now, &config, &mut Vec::new());
        }
        sender
    }

    /// tcp_check_sack_reordering: how far the highest SACKed segment is beyond one that is SACKed later.
    #[test]
    fn a_segment_sacked_below_another_shows_reordering_by_that_distance() {
        let seen = |blocks: &[(u64, u64)]| {
            let sender = after(blocks);
            (sender.rack.reorder_seen, sender.recovery.reordering)
        };
        assert_eq!(seen(&[(2, 3), (2, 4)]), (false, 3), "in order");
        // Segment 1 after segment 2: a distance of 2, less than the three that are tolerated anyway.
        assert_eq!(seen(&[(2, 3), (1, 3)]), (true, 3));
        assert_eq!(seen(&[(9, 10), (3, 4)]), (true, 7));
        // The greatest distance stays.
        assert_eq!(seen(&[(9, 10), (6, 8), (5, 6)]), (true, 5));
    }

    #[test]
    fn one_that_was_retransmitted_says_nothing_of_the_order() {
        // The third SACK makes those before it lost, and some leave again at once.
        let mut sender = after(&[(4, 5), (4, 6), (4, 7), (4, 8), (4, 9), (4, 10)]);
        let resent = (1..4).filter(|&seq| sender.rtx.flags(seq) & flags::EVER_RETRANSMITTED != 0).max().unwrap();
        let config = config(false, 9, 1000);
        let info =
            AckInfo { seq: 0, part: 0, blocks: &[(resent, resent + 1)], dsack: false, tsecr: 100, tsval: 0, flags: 0 };
        sender.on_ack(&info, Time::from_millis(80), &config, &mut Vec::new());
        assert!(!sender.rack.reorder_seen);
    }

    /// Linux asks in the state Loss only as long as the timeout may still prove wrong.
    #[test]
    fn after_a_timeout_reordering_counts_while_it_may_be_undone() {
        for (marker, counts) in [(Some(0), true), (None, false)] {
            let mut sender = after(&[(9, 10)]);
            (sender.view.ca, sender.recovery.undo.marker) = (CaState::Loss, marker);
            let found = Findings { sacked_late: Some(4), ..Findings::default() };
            sender.check_sack_reordering(&found);
            assert_eq!(sender.rack.reorder_seen, counts);
        }
    }
}
