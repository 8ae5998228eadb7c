//! Reductions that prove wrong are undone: the original arrived (Eifel, RFC 3522), or D-SACKs report each
//! retransmission (RFC 2883).

use super::rack::REORDER_PERSIST;
use super::{Sender, flags};
use knee_cc::{CaState, Undo};
use knee_core::Time;
use knee_core::convert::{low_u16, low_u32, saturating_i64};

/// Evidence that the current reduction was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UndoState {
    /// First unacknowledged segment when the reduction began. `None`: it cannot be undone.
    pub marker: Option<u64>,
    /// Retransmissions not yet reported as duplicates; -1: there was none.
    pub retransmissions: i64,
    /// `ssthresh` before it; 0: there is none to go back to.
    pub prior_ssthresh: u32,
    /// Timestamp of the first retransmission of the episode, ms; 0: none.
    pub stamp: u32,
}

impl UndoState {
    pub(super) const NONE: Self = Self { marker: None, retransmissions: -1, prior_ssthresh: 0, stamp: 0 };

    /// A reduction begins at segment `una`, with `retransmissions` in flight (tcp_init_undo).
    fn begin(&mut self, una: u64, retransmissions: u32) {
        self.marker = Some(una);
        self.retransmissions = if retransmissions == 0 { -1 } else { i64::from(retransmissions) };
    }

    /// Segments were sent again at timestamp `stamp`.
    pub(super) fn on_retransmission(&mut self, segments: u32, stamp: u32) {
        if self.stamp == 0 {
            self.stamp = stamp;
        }
        self.retransmissions = self.retransmissions.max(0) + i64::from(segments);
    }

    /// True if a D-SACK that ends before segment `end` may be of a retransmission of this reduction.
    pub(super) fn counts_dsack(&self, end: u64) -> bool {
        self.marker.is_some_and(|marker| end > marker) && self.retransmissions > 0
    }

    /// D-SACKs reported `segments` retransmissions as duplicates.
    pub(super) fn on_dsack(&mut self, segments: u64) {
        self.retransmissions = (self.retransmissions - saturating_i64(segments)).max(0);
    }

    /// True if the reduction proved wrong: every retransmission was reported as a duplicate (RFC 2883), or the original
    /// arrived (RFC 3522).
    const fn is_disproved(&self, original_arrived: bool) -> bool {
        self.marker.is_some() && (self.retransmissions == 0 || original_arrived)
    }
}

impl Sender {
    pub(super) fn init_undo(&mut self) {
        let probe = self.tlp.is_outstanding() && self.tlp.retransmitted;
        self.recovery.undo.begin(self.view.snd_una, self.scoreboard.retransmitted + u32::from(probe));
    }

    /// True if the echoed timestamp shows that the original, not the retransmission, arrived (Eifel, RFC 3522).
    fn original_arrived(&self) -> bool {
        self.recovery.undo.stamp == 0 || self.echoed_before(self.recovery.undo.stamp)
    }

    fn may_undo(&self) -> bool {
        self.recovery.undo.is_disproved(self.original_arrived())
    }

    fn undo_reduction(&mut self, unmark: bool, now: Time) {
        if unmark {
            if self.rtx.tracking() {
                for seq in self.view.snd_una..self.view.snd_nxt {
                    self.rtx.set_flags(seq, 0, flags::LOST);
                }
            }
            self.totals.unmarked += self.scoreboard.lost;
            self.scoreboard.lost = 0;
        }
        if self.recovery.undo.prior_ssthresh > 0 {
            let prior_cwnd = self.recovery.prr.prior_cwnd;
            self.ask(now, |cc, view, control| cc.on_undo(&Undo { view, prior_cwnd }, control));
            if self.recovery.undo.prior_ssthresh > self.control.ssthresh {
                self.control.ssthresh = self.recovery.undo.prior_ssthresh;
                self.cwr_to_signal = false;
            }
        }
        self.recovery.undo.marker = None;
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
        self.recovery.backoffs = 0;
        self.set_state(CaState::Open, now);
        true
    }

    /// A partial ACK by the original: reordering, not loss. True: retransmissions are still out, wait for them.
    pub(super) fn try_undo_partial(&mut self, prior_una: u64, now: Time) -> bool {
        if self.recovery.undo.marker.is_none() || !self.original_arrived() {
            return false;
        }
        let highest = self.rtx.highest_sacked(self.view.snd_una);
        self.note_reordering(prior_una, highest);
        if self.scoreboard.retransmitted > 0 {
            return true;
        }
        if !self.any_retransmission() {
            self.recovery.undo.stamp = 0;
        }
        self.undo_reduction(true, now);
        self.try_keep_open(now);
        false
    }

    pub(super) fn try_undo_dsack(&mut self, now: Time) -> bool {
        if self.recovery.undo.marker.is_none() || self.recovery.undo.retransmissions != 0 {
            return false;
        }
        self.rack.reorder_persist = (self.rack.reorder_persist + 1).min(REORDER_PERSIST);
        self.undo_reduction(false, now);
        true
    }

    /// TSval of packets sent now: milliseconds, never 0.
    pub fn tsval(now: Time) -> u32 {
        low_u32(now.as_millis()).wrapping_add(1)
    }

    /// The lower half of it, which is all that ACKs have room for.
    pub fn half_tsval(now: Time) -> u16 {
        low_u16(Self::tsval(now).into())
    }

    pub(super) fn echoed_before(&self, stamp: u32) -> bool {
        self.tsecr != 0 && self.tsecr.wrapping_sub(stamp).cast_signed() < 0
    }
}

#[cfg(test)]
mod tests {
    use super::UndoState;

    /// RFC 2883, 4: three segments were sent again; only when D-SACKs have reported all three was none of them needed.
    #[test]
    fn every_retransmission_has_to_be_reported_as_a_duplicate() {
        let mut undo = UndoState::NONE;
        undo.begin(10, 0);
        undo.on_retransmission(3, 7);
        assert!(!undo.counts_dsack(10) && undo.counts_dsack(11), "from the first unacknowledged segment on");
        undo.on_dsack(2);
        assert!(!undo.is_disproved(false));
        undo.on_dsack(1);
        assert!(undo.is_disproved(false) && !undo.counts_dsack(11));
    }

    /// A reduction without a retransmission has none that a D-SACK could report.
    #[test]
    fn without_a_retransmission_nothing_is_disproved_by_dsacks() {
        let mut undo = UndoState::NONE;
        undo.begin(10, 0);
        assert!(!undo.is_disproved(false) && !undo.counts_dsack(20));
        // RFC 3522: an echo from before the first retransmission is enough.
        undo.on_retransmission(1, 7);
        assert!(undo.is_disproved(true));
        assert!(!UndoState::NONE.is_disproved(true), "there is no reduction");
    }

    #[test]
    fn the_stamp_is_that_of_the_first_retransmission() {
        let mut undo = UndoState::NONE;
        undo.on_retransmission(1, 7);
        undo.on_retransmission(1, 9);
        assert_eq!((undo.stamp, undo.retransmissions), (7, 2));
    }
}
