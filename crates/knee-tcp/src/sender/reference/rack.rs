//! Detection of lost segments: RACK's reordering window and the tail loss probe (RFC 8985).

use super::acks::Found;
use super::{Reference, Segment};
use crate::sender::Pending;
use knee_cc::{CaState, Signal};
use knee_core::Time;

impl Reference {
    pub(super) fn rack_advance(&mut self, segment: &Segment, seq: u64, us: u64) {
        let rtt = us - segment.sent;
        if segment.ever_retrans && Time::from_micros(rtt) < self.rtt.min_rtt() {
            return;
        }
        self.rack_advanced = true;
        self.rack_rtt = rtt;
        self.newest = self.newest.max((segment.sent, seq + 1));
    }

    /// tcp_rack_update_reo_wnd.
    pub(super) fn update_reo_wnd(&mut self, found: &Found) {
        let Some((_, _, newest)) = &found.newest else { return };
        if newest.delivered < self.rack_last_delivered {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.reorder_steps = (self.reorder_steps + 1).min(255);
            self.dsack_seen = false;
            self.rack_last_delivered = self.view.delivered;
            self.reorder_persist = 16;
        } else if self.reorder_persist == 0 {
            self.reorder_steps = 1;
        }
    }

    /// tcp_rack_reo_wnd.
    fn reo_wnd(&self) -> u64 {
        let repairing = matches!(self.view.ca, CaState::Recovery | CaState::Loss);
        if !self.reorder_seen && (repairing || self.sacked_out() >= self.reordering) {
            return 0;
        }
        let least = self.rtt.min_rtt_us().unwrap_or(u64::from(u32::MAX));
        (least / 4 * self.reorder_steps).min(self.rtt.srtt8 / 8)
    }

    /// tcp_rack_detect_loss: marks what is late; gives how long the last of the others still has.
    pub(super) fn rack_detect_loss(&mut self, now: Time) -> Option<u64> {
        let (us, patience) = (now.as_micros(), self.rack_rtt + self.reo_wnd());
        let mut wait = None;
        for seq in self.view.snd_una..self.view.snd_nxt {
            let segment = *self.at(seq);
            if !segment.listed || segment.lost && !segment.retrans || (segment.sent, seq + 1) >= self.newest {
                continue;
            }
            let age = us - segment.sent;
            if age < patience {
                wait = wait.max(Some(patience - age));
            } else {
                self.mark_skb_lost(seq);
                self.at(seq).listed = false;
            }
        }
        wait
    }

    /// tcp_rack_mark_lost. True: the timer waits for others.
    fn rack_mark_lost(&mut self, now: Time) -> bool {
        if self.segments.is_empty() || !std::mem::take(&mut self.rack_advanced) {
            return false;
        }
        let Some(wait) = self.rack_detect_loss(now) else { return false };
        let span = Time::from_micros(wait + 2000).min(self.rtt.rto());
        self.set_timer(Pending::Reordering, span, now);
        true
    }

    pub(super) fn mark_skb_lost(&mut self, seq: u64) {
        let segment = *self.at(seq);
        if segment.sacked || segment.lost && !segment.retrans {
            return;
        }
        self.view.lost += 1;
        let now = self.at(seq);
        now.retrans &= !segment.lost;
        now.lost = true;
    }

    pub(super) fn identify_packet_loss(&mut self, found: &mut Found, now: Time) {
        let before = self.retrans_out();
        found.set_timer &= !self.rack_mark_lost(now);
        found.lost_retransmission |= before > self.retrans_out();
    }

    pub(super) fn process_tlp_ack(&mut self, ack_seq: u64, found: &Found, now: Time) {
        if self.tlp_end == 0 || ack_seq < self.tlp_end {
            return;
        }
        if !self.tlp_retrans || found.dsack_of_probe {
            self.tlp_end = 0;
        } else if ack_seq > self.tlp_end {
            self.init_cwnd_reduction(Signal::Loss, now);
            self.set_ca_state(CaState::Cwr, now);
            self.end_cwnd_reduction(now);
            self.try_keep_open(now);
        } else if !found.advanced && !found.sacked {
            self.tlp_end = 0;
        }
    }
}
