//! The retransmission timer, which is one of three: the timeout, RACK's for reordering, and the tail loss probe's.

use super::Reference;
use crate::sender::Pending;
use crate::timer::Timer;
use knee_cc::{CaState, Signal, StateEvent};
use knee_core::Time;

impl Reference {
    pub fn on_timer(&mut self, now: Time) {
        self.timer = Timer::OFF;
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => {}
            Pending::Reordering => self.rack_reo_timeout(now),
            Pending::Probe => self.send_loss_probe(now),
            Pending::Timeout => self.retransmit_timer(now),
        }
    }

    fn rack_reo_timeout(&mut self, now: Time) {
        let (in_flight, lost) = (self.in_flight(), self.view.lost);
        self.rack_detect_loss(now);
        if self.in_flight() != in_flight {
            if self.view.ca != CaState::Recovery {
                self.enter_recovery(false, now);
                if !self.needs().full_control {
                    self.cwnd_reduction(1, (self.view.lost - lost) as u32, false);
                }
            }
            self.xmit_retransmit_queue(now);
        }
        if self.pending != Pending::Timeout {
            self.pending = Pending::Reordering;
            self.rearm_rto(now);
        }
    }

    /// tcp_retransmit_timer, tcp_enter_loss.
    fn retransmit_timer(&mut self, now: Time) {
        if self.segments.is_empty() {
            return;
        }
        self.timeouts += 1;
        let fresh = !matches!(self.view.ca, CaState::Recovery | CaState::Loss);
        let una = self.view.snd_una;
        let reneged = self.head_is_sacked();
        if reneged {
            self.segments.iter_mut().for_each(|segment| segment.sacked = false);
            self.is_sack_reneg = true;
        }
        for seq in una..self.view.snd_nxt {
            let age = now.as_micros() - self.at(seq).sent;
            if reneged || seq == una || age >= self.rack_rtt {
                self.mark_skb_lost(seq);
            }
        }
        let calm = matches!(self.view.ca, CaState::Open | CaState::Disorder);
        if calm || self.high_seq <= una || self.view.ca == CaState::Loss && self.backoffs == 0 {
            self.prior_ssthresh = self.current_ssthresh();
            self.prior_cwnd = self.control.cwnd;
            self.ask_ssthresh(Signal::Timeout, now);
            self.tell(StateEvent::Timeout, now);
            self.init_undo();
        }
        self.control.cwnd = self.in_flight() + 1;
        self.control.cwnd_cnt = 0;
        if calm && self.sacked_out() >= 3 {
            self.reordering = self.reordering.min(3);
        }
        self.set_ca_state(CaState::Loss, now);
        self.high_seq = self.view.snd_nxt;
        self.tlp_end = 0;
        self.cwr_to_signal = self.case.init.ecn.reports_reductions();
        self.frto = fresh || self.backoffs > 0;
        self.backoffs += 1;
        self.retransmit_skb(una, 1, now);
        self.rtt.back_off();
        self.set_timer(Pending::Timeout, self.rtt.rto(), now);
    }

    fn send_loss_probe(&mut self, now: Time) {
        self.pending = Pending::Probe;
        if self.tlp_end == 0 && !self.segments.is_empty() {
            let next = self.view.snd_nxt;
            self.tlp_retrans = next >= self.end || next >= self.view.snd_una + self.offered_window();
            if self.tlp_retrans {
                self.resend(next - 1, 1, now);
            } else {
                self.write_xmit(true, now);
            }
            if self.tlp_retrans || self.view.snd_nxt > next {
                self.tlp_end = self.view.snd_nxt;
                self.pending = Pending::Nothing;
            }
        }
        self.rearm_rto(now);
    }

    pub(super) fn may_probe(&self) -> bool {
        matches!(self.view.ca, CaState::Open | CaState::Cwr)
    }

    pub(super) fn schedule_loss_probe(&mut self, advancing: bool, now: Time) -> bool {
        if self.segments.is_empty() || !self.may_probe() {
            return false;
        }
        let slack = if self.segments.len() == 1 { self.case.config.rto_min } else { Time::from_millis(2) };
        let span = match self.rtt.srtt8 {
            0 => Time::from_secs(1),
            srtt8 => Time::from_micros(srtt8 / 4) + slack,
        };
        let limit = if advancing { Some(self.rtt.rto()) } else { self.rto_left(now) };
        self.set_timer(Pending::Probe, span.min(limit.unwrap_or(Time::MAX)), now);
        true
    }

    /// How far the timeout of the oldest segment is away; none where it is past.
    fn rto_left(&self, now: Time) -> Option<Time> {
        let due = Time::from_micros(self.segments[0].sent + self.rtt.rto);
        (due > now).then(|| due - now)
    }

    pub(super) fn rearm_rto(&mut self, now: Time) {
        if self.segments.is_empty() {
            (self.pending, self.timer) = (Pending::Nothing, Timer::OFF);
            return;
        }
        let another = matches!(self.pending, Pending::Reordering | Pending::Probe);
        let left = if another { self.rto_left(now).unwrap_or(Time::from_micros(1)) } else { self.rtt.rto() };
        self.set_timer(Pending::Timeout, left, now);
    }

    pub(super) fn set_timer(&mut self, pending: Pending, span: Time, now: Time) {
        (self.pending, self.timer) = (pending, Timer::set(now, span));
    }

    /// tcp_set_xmit_timer.
    pub(super) fn set_xmit_timer(&mut self, now: Time) {
        if !self.schedule_loss_probe(true, now) {
            self.rearm_rto(now);
        }
    }
}
