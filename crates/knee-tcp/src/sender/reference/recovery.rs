//! The state machine: open, disorder, CWR, recovery, loss (tcp_fastretrans_alert).

use super::Reference;
use super::acks::Found;
use crate::sender::{Pending, Resend};
use knee_cc::{CaState, Signal, StateEvent};
use knee_core::Time;

impl Reference {
    pub(super) fn in_reduction(&self) -> bool {
        matches!(self.view.ca, CaState::Cwr | CaState::Recovery)
    }

    pub(super) fn set_ca_state(&mut self, state: CaState, now: Time) {
        if self.view.ca != state || state == CaState::Loss {
            self.view.ca = state;
            self.is_sack_reneg &= state != CaState::Open;
            self.tell(StateEvent::Entered(state), now);
        }
    }

    pub(super) fn fastretrans_alert(&mut self, prior_una: u64, found: &mut Found, now: Time) -> Resend {
        let una = self.view.snd_una;
        if found.ece {
            self.prior_ssthresh = 0;
        }
        // tcp_check_sack_reneging.
        if found.advanced && self.head_is_sacked() {
            let delay = Time::from_micros(self.rtt.srtt8 / 16).max(Time::from_millis(10));
            self.set_timer(Pending::Timeout, delay, now);
            found.set_timer = false;
            return Resend::None;
        }
        match self.view.ca {
            CaState::Open => self.retrans_stamp = 0,
            CaState::Cwr if una > self.high_seq => {
                self.end_cwnd_reduction(now);
                self.set_ca_state(CaState::Open, now);
            }
            CaState::Recovery if una >= self.high_seq => {
                self.try_undo_recovery(now);
                self.end_cwnd_reduction(now);
            }
            _ => {}
        }
        match self.view.ca {
            CaState::Recovery => {
                if found.advanced && self.try_undo_partial(prior_una, now) {
                    return Resend::None;
                }
                if self.try_undo_dsack(now) {
                    self.try_to_open(found, now);
                }
                self.identify_packet_loss(found, now);
                if self.view.ca == CaState::Recovery {
                    return Resend::Lost;
                }
                if self.lost_out() == 0 {
                    return Resend::None;
                }
                self.enter_recovery(found.ece, now);
                return Resend::Lost;
            }
            CaState::Loss => {
                let resend = self.process_loss(found, now);
                self.identify_packet_loss(found, now);
                if self.view.ca != CaState::Open && !found.lost_retransmission {
                    return resend;
                }
            }
            _ => {
                if self.view.ca != CaState::Cwr {
                    self.try_undo_dsack(now);
                }
                self.identify_packet_loss(found, now);
            }
        }
        if self.lost_out() == 0 {
            self.try_to_open(found, now);
            return Resend::None;
        }
        self.enter_recovery(found.ece, now);
        Resend::Lost
    }

    /// tcp_process_loss with F-RTO (RFC 5682).
    fn process_loss(&mut self, found: &Found, now: Time) -> Resend {
        let (una, nxt) = (self.view.snd_una, self.view.snd_nxt);
        let recovered = una >= self.high_seq;
        if found.advanced && self.may_undo() || self.frto && found.original_delivered {
            self.undo_cwnd_reduction(true, now);
            self.backoffs = 0;
            self.set_ca_state(CaState::Open, now);
            return Resend::None;
        }
        if self.frto && nxt > self.high_seq {
            // RFC 5682, 3.1 step 3: a duplicate ACK, the timeout was right.
            self.frto = !(found.sacked || !found.advanced && !found.dsack);
        } else if self.frto && found.advanced && !recovered {
            self.high_seq = nxt;
            if nxt < self.end {
                return Resend::New;
            }
            self.frto = false;
        }
        if recovered {
            self.try_undo_recovery(now);
            return Resend::None;
        }
        Resend::Lost
    }

    pub(super) fn enter_recovery(&mut self, ece: bool, now: Time) {
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.in_reduction() {
            if !ece {
                self.prior_ssthresh = self.current_ssthresh();
            }
            self.init_cwnd_reduction(Signal::Loss, now);
        }
        self.set_ca_state(CaState::Recovery, now);
    }

    pub(super) fn any_retrans_done(&self) -> bool {
        self.retrans_out() > 0 || self.segments.front().is_some_and(|segment| segment.ever_retrans)
    }

    pub(super) fn try_keep_open(&mut self, now: Time) {
        let left_out = self.sacked_out() > 0 || self.lost_out() > 0;
        let state = if left_out || self.any_retrans_done() { CaState::Disorder } else { CaState::Open };
        if self.view.ca != state {
            self.set_ca_state(state, now);
            self.high_seq = self.view.snd_nxt;
        }
    }

    fn try_to_open(&mut self, found: &Found, now: Time) {
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        if found.ece {
            self.prior_ssthresh = 0;
            if matches!(self.view.ca, CaState::Open | CaState::Disorder) {
                self.undo_marker = None;
                self.init_cwnd_reduction(Signal::Ecn, now);
                self.set_ca_state(CaState::Cwr, now);
            }
        }
        if self.view.ca != CaState::Cwr {
            self.try_keep_open(now);
        }
    }
}
