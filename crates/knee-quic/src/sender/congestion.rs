//! The window: what the algorithm is asked and told, and the recovery period (RFC 9002, 7.3).

use super::Sender;
use super::loss::Losses;
use crate::config::Config;
use knee_cc::{CaState, Congestion, Control, DynCongestionControl, Signal, StateChange, StateEvent, View};
use knee_core::Time;

impl Sender {
    /// The window in bytes.
    pub fn window(&self, config: &Config) -> u64 {
        //= RFC 9002, 7.2
        //# The minimum congestion window is the smallest value the congestion window can attain in response to loss, an
        //# increase in the peer-reported ECN-CE count, or persistent congestion.
        u64::from(self.control.cwnd.max(config.settings.min_window)) * u64::from(config.datagram)
    }

    /// Calls the algorithm for an event; it changes `control` in place.
    pub(super) fn ask(&mut self, event: impl FnOnce(&mut dyn DynCongestionControl, &View, &mut Control)) {
        if let Some(cc) = &mut self.cc {
            event(cc.as_mut(), &self.view, &mut self.control);
            self.control.cwnd = self.control.cwnd.max(1);
        }
    }

    pub(super) fn tell(&mut self, event: StateEvent) {
        self.ask(|cc, view, control| cc.on_state(&StateChange { view, event }, control));
    }

    fn enter(&mut self, state: CaState) {
        if self.view.ca != state {
            self.view.ca = state;
            self.tell(StateEvent::Entered(state));
        }
    }

    /// True if a packet was sent until the recovery period began.
    pub(super) fn in_recovery(&self, sent: Time) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }

    /// Ends the state of recovery if the newest packet acknowledged was sent in it.
    ///
    /// An algorithm with full control, which keeps its window through a recovery, stays in it as in Linux until lost
    /// data has arrived: Linux repairs losses of packets sent in a recovery before it leaves that state.
    pub(super) fn end_recovery(&mut self, newest: Time) {
        let full_control = self.needs.full_control;
        let repaired = !full_control || newest > self.lost_at;
        //= RFC 9002, 7.3.2
        //# A recovery period ends and the sender enters congestion avoidance when a packet sent during the recovery
        //# period is acknowledged.
        if self.view.ca != CaState::Open && repaired && newest > self.state_since {
            if !full_control {
                self.tell(StateEvent::ReductionDone);
            }
            self.enter(CaState::Open);
        }
    }

    /// A sign of congestion of packets the newest of which left at `sent`.
    pub(super) fn on_congestion(&mut self, signal: Signal, sent: Time, config: &Config) {
        //= RFC 9002, 7.3.2
        //# Therefore, during a recovery period, the congestion window does not change in response to new losses or
        //# increases in the ECN-CE count.
        if self.in_recovery(sent) {
            return;
        }
        self.recovery_start = Some(self.view.now);
        self.state_since = self.view.now;
        self.control.cwnd_cnt = 0;
        self.ask_ssthresh(signal);
        //= RFC 9002, 7.3.1
        //# The sender MUST exit slow start and enter a recovery period when a packet is lost or when the ECN-CE count
        //# reported by its peer increases.
        self.enter(if signal == Signal::Ecn { CaState::Cwr } else { CaState::Recovery });
        if !self.needs.full_control {
            //= RFC 9002, 7.3.2
            //# Implementations MAY reduce the congestion window immediately upon entering a recovery period or use
            //# other mechanisms, such as Proportional Rate Reduction [PRR], to reduce the congestion window more
            //# gradually.
            //= RFC 9002, 7.3.2
            //# The congestion window MUST be set to the reduced value of the slow start threshold before exiting the
            //# recovery period.
            self.control.cwnd = self.control.cwnd.min(self.control.ssthresh).max(config.settings.min_window);
        }
    }

    fn ask_ssthresh(&mut self, signal: Signal) {
        //= RFC 9002, 7.3.2 (departs: the algorithm says how much; Reno, half)
        //# On entering a recovery period, a sender MUST set the slow start threshold to half the value of the
        //# congestion window when loss is detected.
        self.ask(|cc, view, control| {
            cc.on_congestion(&Congestion { view, signal }, control);
            control.ssthresh = control.ssthresh.max(1);
        });
    }

    /// Packets were found lost (RFC 9002, B.8).
    pub(super) fn on_losses(&mut self, losses: &Losses, config: &Config) {
        let Some(newest) = losses.newest_sent else { return };
        self.lost_at = self.view.now;
        self.pacer.end_first_burst();
        let most = config.settings.persistent_probes;
        if !losses.persistent && (most == 0 || self.pto_count <= most) {
            self.on_congestion(Signal::Loss, newest, config);
            return;
        }
        self.totals.persistent += 1;
        if !self.in_recovery(newest) {
            self.ask_ssthresh(Signal::Timeout);
        }
        self.tell(StateEvent::Timeout);
        //= RFC 9002, 7.6.2
        //# When persistent congestion is declared, the sender's congestion window MUST be reduced to the minimum
        //# congestion window (kMinimumWindow), similar to a TCP sender's response on an RTO [RFC5681].
        (self.control.cwnd, self.control.cwnd_cnt) = (config.settings.min_window, 0);
        self.recovery_start = None;
        self.state_since = self.view.now;
        self.enter(CaState::Loss);
        //= RFC 9002, 5.2
        //# Endpoints SHOULD set the min_rtt to the newest RTT sample after persistent congestion is established.
        self.rtt.renew_least();
        self.view.min_rtt = super::rtt::in_micros(self.rtt.least());
    }
}
