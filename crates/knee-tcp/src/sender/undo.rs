//! Reductions that prove wrong are undone: the original arrived (Eifel, RFC 3522), or D-SACKs report each
//! retransmission (RFC 2883).

use super::rack::REORDER_PERSIST;
use super::{Sender, flags};
use knee_cc::{CaState, Undo};
use knee_core::Time;
use knee_core::convert::low_u32;

impl Sender {
    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.view.snd_una);
        let mut retransmitted = i64::from(self.retrans_out);
        if self.probing && self.tlp_retransmitted {
            retransmitted += 1;
        }
        self.undo_retrans = if retransmitted == 0 { -1 } else { retransmitted };
    }

    /// Whether the echoed timestamp tells that the original, not the retransmission, arrived (Eifel, RFC 3522).
    fn original_arrived(&self) -> bool {
        self.retrans_stamp == 0 || self.echoed_before(self.retrans_stamp)
    }

    fn may_undo(&self) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.original_arrived())
    }

    fn undo_reduction(&mut self, unmark: bool, now: Time) {
        if unmark {
            if self.rtx.tracking() {
                for seq in self.view.snd_una..self.view.snd_nxt {
                    self.rtx.set_flags(seq, 0, flags::LOST);
                }
            }
            self.unmarked += self.lost_out;
            self.lost_out = 0;
        }
        if self.prior_ssthresh > 0 {
            let prior_cwnd = self.prior_cwnd;
            self.ask(now, |cc, view, control| cc.on_undo(&Undo { view, prior_cwnd }, control));
            if self.prior_ssthresh > self.control.ssthresh {
                self.control.ssthresh = self.prior_ssthresh;
                self.cwr_to_signal = false;
            }
        }
        self.undo_marker = None;
        self.rack.advanced = true;
    }

    pub(super) fn try_undo_recovery(&mut self, now: Time) {
        if self.may_undo() {
            self.undo_reduction(false, now);
        } else if self.rack.reorder_persist > 0 {
            self.rack.reorder_persist -= 1;
        }
        self.set_state(CaState::Open, now);
    }

    pub(super) fn try_undo_loss(&mut self, by_frto: bool, now: Time) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        self.undo_reduction(true, now);
        self.backoffs = 0;
        self.set_state(CaState::Open, now);
        true
    }

    /// A partial ACK by the original: reordering, not loss. True: retransmissions are still out, wait for them.
    pub(super) fn try_undo_partial(&mut self, prior_una: u64, now: Time) -> bool {
        if self.undo_marker.is_none() || !self.original_arrived() {
            return false;
        }
        let highest = self.rtx.highest_sacked(self.view.snd_una);
        self.note_reordering(prior_una, highest);
        if self.retrans_out > 0 {
            return true;
        }
        if !self.any_retransmission() {
            self.retrans_stamp = 0;
        }
        self.undo_reduction(true, now);
        self.try_keep_open(now);
        false
    }

    pub(super) fn try_undo_dsack(&mut self, now: Time) -> bool {
        if self.undo_marker.is_none() || self.undo_retrans != 0 {
            return false;
        }
        self.rack.reorder_persist = (self.rack.reorder_persist + 1).min(REORDER_PERSIST);
        self.undo_reduction(false, now);
        true
    }

    /// The timestamp clock: milliseconds, never 0.
    pub(super) fn stamp(now: Time) -> u32 {
        low_u32(now.as_millis()).wrapping_add(1)
    }

    /// TSval for packets sent now.
    pub fn tsval(now: Time) -> u32 {
        Self::stamp(now)
    }

    pub(super) fn echoed_before(&self, stamp: u32) -> bool {
        self.tsecr != 0 && self.tsecr.wrapping_sub(stamp).cast_signed() < 0
    }
}
