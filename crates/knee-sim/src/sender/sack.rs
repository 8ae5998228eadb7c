//! What SACK and D-SACK blocks report (tcp_sacktag_write_queue; RFC 2018, 2883).

use super::ack::Findings;
use super::micros::Micros;
use super::{AckInfo, Sender, Spares, flags};

impl Sender {
    /// Tags what the SACK blocks report (tcp_sacktag_write_queue).
    #[cold]
    pub(super) fn tag_sacks(&mut self, ack: &AckInfo, stamp: Micros, found: &mut Findings, spares: &mut Spares) {
        let mut blocks = ack.blocks;
        if ack.dsack() {
            let block = blocks[0];
            blocks = &blocks[1..];
            self.take_dsack(block, ack.seq, found);
        }
        let (una, nxt) = (self.view.snd_una.max(ack.seq), self.view.snd_nxt);
        let clip = |&(start, end): &(u64, u64)| (start.max(una), end.min(nxt));
        if let [block] = blocks {
            let block = clip(block);
            if block.0 < block.1 {
                self.rtx.track(self.view.snd_una, nxt, spares);
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
        self.rtx.track(self.view.snd_una, nxt, spares);
        sorted[..count].sort_unstable();
        sorted[..count].iter().for_each(|&block| self.tag_block(block, stamp, found));
    }

    /// Tags what is new in a SACK block.
    #[inline]
    fn tag_block(&mut self, (mut from, to): (u64, u64), stamp: Micros, found: &mut Findings) {
        while from < to
            && let Some((start, end)) = self.rtx.add_sack((from, to))
        {
            for seq in start..end {
                self.tag_sacked(seq, stamp, found);
            }
            from = end;
        }
    }

    /// A segment is reported received for the first time (tcp_sacktag_one). Mostly it is the only one, and what a loop
    /// over segments would keep at hand does not pay.
    #[inline(never)]
    fn tag_sacked(&mut self, seq: u64, stamp: Micros, found: &mut Findings) {
        let Some((segment, burst)) = self.rtx.sack(seq) else { return };
        let sent = burst.sent();
        self.rack_advance(sent, seq + 1, segment, stamp);
        if segment & flags::LOST != 0 {
            self.lost_out -= 1;
            self.retrans_out -= u32::from(segment & flags::RETRANSMITTED != 0);
        }
        if segment & flags::EVER_RETRANSMITTED == 0 {
            found.original_delivered |= seq < self.high_seq;
            let first = found.sack_sent.map_or(sent, |(first, _)| first);
            found.sack_sent = Some((first, sent));
        }
        self.sacked_out += 1;
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
        self.dsack_segments = self.dsack_segments.saturating_add(segments as u32);
        // More duplicates than retransmissions: the network made them.
        if u64::from(self.dsack_segments) > self.retransmitted {
            return;
        }
        found.dsack = true;
        found.dsack_of_probe = self.probing && self.tlp_retransmitted && block.1 == self.tlp_end;
        if self.rack.reorder_seen && !found.dsack_of_probe {
            self.rack.dsack_seen = true;
            self.widened = true;
        }
        let counts = self.undo_marker.is_some_and(|marker| block.1 > marker) && self.undo_retrans > 0;
        if counts && block.1 <= ack_seq.max(self.view.snd_una) {
            self.undo_retrans = (self.undo_retrans - segments as i64).max(0);
        } else if block.0 >= self.view.snd_una && self.rtx.tracking() {
            for seq in block.0..block.1.min(self.view.snd_nxt) {
                let segment = self.rtx.flags(seq);
                if segment & flags::EVER_RETRANSMITTED != 0 && counts {
                    self.undo_retrans = (self.undo_retrans - 1).max(0);
                }
                if segment & flags::SACKED != 0 && segment & flags::RETRANSMITTED != 0 {
                    self.rtx.set_flags(seq, 0, flags::RETRANSMITTED);
                    self.retrans_out -= 1;
                }
            }
        }
        self.count_delivered(segments as u32, found);
    }
}
