//! Reductions of the window: proportional rate reduction (RFC 6937), and undoing what proves wrong (Eifel, D-SACK).

use super::Reference;
use knee_cc::{CaState, Congestion, Signal, StateEvent, Undo};
use knee_core::Time;

impl Reference {
    pub(super) fn current_ssthresh(&self) -> u32 {
        let cwnd = self.control.cwnd;
        if self.in_reduction() { self.control.ssthresh } else { self.control.ssthresh.max(cwnd / 2 + cwnd / 4) }
    }

    pub(super) fn ask_ssthresh(&mut self, signal: Signal, now: Time) {
        self.ask(now, |cc, view, control| {
            cc.on_congestion(&Congestion { view, signal }, control);
            control.ssthresh = control.ssthresh.max(1);
        });
    }

    pub(super) fn init_cwnd_reduction(&mut self, signal: Signal, now: Time) {
        self.high_seq = self.view.snd_nxt;
        self.tlp_end = 0;
        self.control.cwnd_cnt = 0;
        self.prior_cwnd = self.control.cwnd;
        (self.prr_delivered, self.prr_out) = (0, 0);
        self.ask_ssthresh(signal, now);
        self.cwr_to_signal = self.case.init.ecn.reports_reductions();
    }

    /// tcp_cwnd_reduction (RFC 6937).
    pub(super) fn cwnd_reduction(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 || self.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered += delivered;
        let [in_flight, ssthresh, prior, sum, out] =
            [self.in_flight(), self.control.ssthresh, self.prior_cwnd, self.prr_delivered, self.prr_out].map(i64::from);
        let mut count = if in_flight > ssthresh {
            (ssthresh * sum).div_euclid(prior) + i64::from((ssthresh * sum) % prior > 0) - out
        } else {
            let growth = i64::from(advanced && lost == 0);
            ((sum - out).max(i64::from(delivered)) + growth).min(ssthresh - in_flight)
        };
        // A first retransmission leaves whatever follows.
        count = count.max(i64::from(out == 0));
        self.control.cwnd = (in_flight + count).max(1) as u32;
    }

    pub(super) fn end_cwnd_reduction(&mut self, now: Time) {
        if self.needs().full_control {
            return;
        }
        let reduced = self.control.ssthresh < knee_cc::INFINITE_SSTHRESH;
        if reduced && (self.view.ca == CaState::Cwr || self.undo_marker.is_some()) {
            self.control.cwnd = self.control.ssthresh.max(1);
        }
        self.tell(StateEvent::ReductionDone, now);
    }

    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.view.snd_una);
        let probe = self.tlp_end != 0 && self.tlp_retrans;
        let retransmitted = i64::from(self.retrans_out()) + i64::from(probe);
        self.undo_retrans = if retransmitted > 0 { retransmitted } else { -1 };
    }

    /// Eifel (RFC 3522): tcp_packet_delayed.
    fn packet_delayed(&self) -> bool {
        self.retrans_stamp == 0 || self.echoes_before(self.retrans_stamp)
    }

    pub(super) fn may_undo(&self) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.packet_delayed())
    }

    pub(super) fn undo_cwnd_reduction(&mut self, unmark: bool, now: Time) {
        if unmark {
            self.segments.iter_mut().for_each(|segment| segment.lost = false);
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
        self.rack_advanced = true;
    }

    pub(super) fn try_undo_recovery(&mut self, now: Time) {
        if self.may_undo() {
            self.undo_cwnd_reduction(false, now);
        } else {
            self.reorder_persist = self.reorder_persist.saturating_sub(1);
        }
        self.set_ca_state(CaState::Open, now);
    }

    pub(super) fn try_undo_partial(&mut self, prior_una: u64, now: Time) -> bool {
        if self.undo_marker.is_none() || !self.packet_delayed() {
            return false;
        }
        self.check_sack_reordering(prior_una, self.highest_sacked());
        if self.retrans_out() > 0 {
            return true;
        }
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        self.undo_cwnd_reduction(true, now);
        self.try_keep_open(now);
        false
    }

    pub(super) fn try_undo_dsack(&mut self, now: Time) -> bool {
        let undoes = self.undo_marker.is_some() && self.undo_retrans == 0;
        if undoes {
            self.reorder_persist = (self.reorder_persist + 1).min(16);
            self.undo_cwnd_reduction(false, now);
        }
        undoes
    }
}
