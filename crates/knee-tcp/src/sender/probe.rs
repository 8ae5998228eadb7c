//! Tail loss probes (RFC 8985, 7).

use super::ack::Findings;
use super::rtt::RTO_INITIAL;
use super::transmit::Push;
use super::{Config, Departure, Pending, Sender};
use knee_cc::{CaState, Signal};
use knee_core::Time;

/// Least timer of a loss probe beyond two RTTs (TCP_TIMEOUT_MIN_US).
const PROBE_MIN: Time = Time::from_micros(2000);

impl Sender {
    /// Sets the timer for a loss probe where one is due (tcp_schedule_loss_probe). `advancing`: an ACK made progress.
    pub(super) fn schedule_probe(&mut self, advancing: bool, now: Time, config: &Config) -> bool {
        if self.packets_out() == 0 || !self.may_probe() {
            return false;
        }
        let mut span = if self.rtt.srtt8_us() > 0 { self.probe_span(config) } else { RTO_INITIAL };
        if advancing {
            span = span.min(self.rtt.rto());
        } else if let Some(left) = self.timeout_left(now) {
            span = span.min(left);
        }
        self.set_timer(Pending::Probe, span, now);
        true
    }

    /// How long a loss probe waits where there is an RTT and something is in flight: two RTTs and a little.
    #[inline]
    pub(super) fn probe_span(&self, config: &Config) -> Time {
        let two_rtts = Time::from_micros(self.rtt.srtt8_us() >> 2);
        two_rtts + if self.packets_out() == 1 { config.rto_min } else { PROBE_MIN }
    }

    /// Whether loss probes are sent in this state.
    pub(super) const fn may_probe(&self) -> bool {
        matches!(self.view.ca, CaState::Open | CaState::Cwr)
    }

    /// RFC 8985, 7.3: a tail loss probe sends new data if there is some, else the last segment again.
    pub(super) fn send_probe(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        if !self.probing && self.packets_out() > 0 {
            self.tlp_retransmitted = false;
            let before = self.view.snd_nxt;
            let window_open = self.view.snd_nxt < self.view.snd_una + config.receive_window;
            if self.view.snd_nxt < self.end && window_open {
                self.send_new(Push::Probe, now, config, out);
            } else {
                self.rtx.track(self.view.snd_una, self.view.snd_nxt);
                self.resend(self.view.snd_nxt - 1, 1, now, out);
                self.tlp_retransmitted = true;
            }
            if self.tlp_retransmitted || self.view.snd_nxt > before {
                self.set_probe_end(self.view.snd_nxt);
                self.pending = Pending::Nothing;
            }
        }
        self.rearm_timeout(now);
    }

    /// A loss probe that ends before `end` is outstanding; 0: none is.
    pub(super) const fn set_probe_end(&mut self, end: u64) {
        self.tlp_end = end;
        self.probing = end != 0;
    }

    /// What an ACK of all before a segment, and of some bytes of that, says of the tail loss probe (tcp_process_tlp_ack).
    #[cold]
    pub(super) fn check_probe(&mut self, reach: (u64, u16), found: &Findings, now: Time) {
        if reach.0 < self.tlp_end {
            return;
        }
        if !self.tlp_retransmitted || found.dsack_of_probe {
            self.set_probe_end(0);
        } else if reach > (self.tlp_end, 0) {
            // The probe repaired a loss that nothing else saw.
            self.begin_reduction(Signal::Loss, now);
            self.set_state(CaState::Cwr, now);
            self.end_reduction(now);
            self.try_keep_open(now);
        } else if !found.advanced && !found.sacked {
            self.set_probe_end(0);
        }
    }
}
