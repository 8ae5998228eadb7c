//! Segments that an ACK delivers: those that it SACKs (tcp_sacktag_write_queue), those before it (tcp_clean_rtx_queue),
//! and those that arrived twice (D-SACK) or late (reordering).

use super::acks::Found;
use super::{Reference, Segment, stamp};
use crate::sender::AckInfo;
use knee_cc::CaState;
use knee_core::Time;
use std::collections::BTreeSet;

impl Reference {
    pub(super) fn sacktag_write_queue(&mut self, ack: &AckInfo, us: u64, found: &mut Found) {
        let mut blocks = ack.blocks;
        if ack.dsack {
            self.check_dsack(blocks[0], ack.seq, found);
            blocks = &blocks[1..];
        }
        let (from, to) = (self.view.snd_una.max(ack.seq), self.view.snd_nxt);
        let highest = self.highest_sacked();
        let reported: BTreeSet<u64> = blocks.iter().flat_map(|&(start, end)| start.max(from)..end.min(to)).collect();
        for seq in reported {
            let segment = *self.at(seq);
            if segment.sacked {
                continue;
            }
            self.rack_advance(&segment, seq, us);
            if !segment.ever_retrans {
                found.original_delivered |= seq < self.high_seq;
                found.sack_sent.push(segment.sent);
                if seq < highest {
                    found.late = Some(found.late.map_or(seq, |late| late.min(seq)));
                }
            }
            let now = self.at(seq);
            (now.sacked, now.lost, now.listed) = (true, false, false);
            now.retrans &= !segment.lost;
            found.sacked = true;
            self.deliver(1, found);
            self.rate_skb_delivered(segment, seq, found);
        }
        if let Some(late) = found.late
            && (self.view.ca != CaState::Loss || self.undo_marker.is_some())
        {
            self.check_sack_reordering(late, self.highest_sacked());
        }
    }

    /// tcp_check_dsack, tcp_dsack_seen.
    fn check_dsack(&mut self, (start, end): (u64, u64), ack_seq: u64, found: &mut Found) {
        self.dsack_segments += end - start;
        if self.dsack_segments > self.retransmitted {
            return;
        }
        found.dsack = true;
        found.dsack_of_probe = self.tlp_end != 0 && self.tlp_retrans && end == self.tlp_end;
        self.dsack_seen |= self.reorder_seen && !found.dsack_of_probe;
        let counts = self.undo_retrans > 0 && self.undo_marker.is_some_and(|marker| end > marker);
        let una = self.view.snd_una;
        if counts && end <= ack_seq.max(una) {
            self.undo_retrans = (self.undo_retrans - (end - start) as i64).max(0);
        } else if start >= una {
            for seq in start..end.min(self.view.snd_nxt) {
                let segment = *self.at(seq);
                if counts && segment.ever_retrans {
                    self.undo_retrans = (self.undo_retrans - 1).max(0);
                }
                if segment.sacked && segment.ever_retrans {
                    found.late = Some(found.late.map_or(seq, |late| late.min(seq)));
                }
                self.at(seq).retrans &= !segment.sacked;
            }
        }
        self.deliver(end - start, found);
    }

    pub(super) fn clean_rtx_queue(&mut self, ack_seq: u64, prior_fack: u64, us: u64, found: &mut Found) {
        let mut reordered_from = None;
        for seq in self.view.snd_una..ack_seq {
            let segment = self.segments.pop_front().expect("it is in flight");
            self.view.snd_una = seq + 1;
            found.acked += 1;
            found.retransmitted_acked |= segment.ever_retrans;
            if segment.sacked {
                continue;
            }
            if !segment.ever_retrans {
                found.ack_sent.push(segment.sent);
                found.original_delivered |= seq < self.high_seq;
                reordered_from = reordered_from.or(Some(seq));
            }
            self.deliver(1, found);
            // The echoed timestamp is older than the retransmission: it was spurious.
            let spurious = segment.ever_retrans && self.echoes_before(stamp(Time::from_micros(segment.sent)));
            if !spurious {
                self.rack_advance(&segment, seq, us);
            }
            self.rate_skb_delivered(segment, seq, found);
        }
        if let Some(seq) = reordered_from.filter(|&seq| seq < prior_fack) {
            self.check_sack_reordering(seq, self.highest_sacked());
        }
        found.set_timer = true;
    }

    fn deliver(&mut self, segments: u64, found: &Found) {
        self.view.delivered += segments;
        self.view.delivered_ce += if found.ece { segments } else { 0 };
    }

    fn rate_skb_delivered(&mut self, segment: Segment, seq: u64, found: &mut Found) {
        if found.newest.as_ref().is_none_or(|&(sent, end, _)| (segment.sent, seq + 1) > (sent, end)) {
            self.first_tx = segment.sent;
            found.newest = Some((segment.sent, seq + 1, segment));
        }
    }

    pub(super) fn check_sack_reordering(&mut self, lowest: u64, highest: u64) {
        if lowest < highest {
            self.reordering = self.reordering.max((highest - lowest).min(300) as u32);
            self.reorder_seen = true;
        }
    }
}
