//! Probe_rtt and `min_rtt`: every 5 s without a lower RTT, half a BDP in flight for 200 ms and a round (5.3.4).

use super::probe_bw::AckPhase;
use super::{Bbr3, MIN_PIPE_CWND, State, UNIT};
use crate::{Ack, Control, Init, View};
use knee_core::Time;

/// The least RTT and the visits to `probe_rtt`.
#[derive(Clone, Debug)]
pub struct MinRtt {
    /// Least of 10 s; [`Time::MAX`]: none.
    least: Time,
    least_stamp: Time,
    /// Least of 5 s (`probe_rtt_min_delay`).
    recent: Time,
    recent_stamp: Time,
    /// On the last ACK, `recent` was due for a refresh.
    expired: bool,
    /// When `probe_rtt` may end; `None` until in flight is low enough.
    done: Option<Time>,
    /// A round has passed since in flight was low enough.
    round_done: bool,
}

impl MinRtt {
    /// The handshake's RTT is the first sample.
    pub fn new(init: &Init) -> Self {
        let rtt = if init.rtt > Time::ZERO { init.rtt } else { Time::MAX };
        Self {
            least: rtt,
            least_stamp: init.now,
            recent: rtt,
            recent_stamp: init.now,
            expired: false,
            done: None,
            round_done: false,
        }
    }

    /// `None` before the first sample.
    pub fn rtt(&self) -> Option<Time> {
        (self.least < Time::MAX).then_some(self.least)
    }

    /// `UpdateMinRTT` (5.3.4.3).
    fn update(&mut self, now: Time, rtt: Option<Time>, interval: Time, filter_len: Time, kernel: bool) {
        self.expired = now > self.recent_stamp.saturating_add(interval);
        if let Some(rtt) = rtt
            && (rtt < self.recent || self.expired)
        {
            (self.recent, self.recent_stamp) = (rtt, now);
        }
        let fresh = self.recent < self.least || (kernel && self.recent == self.least);
        if fresh || now > self.least_stamp.saturating_add(filter_len) {
            (self.least, self.least_stamp) = (self.recent, self.recent_stamp);
        }
    }
}

impl Bbr3 {
    /// Updates the filters.
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        let (interval, len) = (self.tunables.params.probe_rtt_interval, self.tunables.params.min_rtt_filter_len);
        self.min_rtt.update(ack.view.now, ack.rtt, interval, len, self.tunables.is_kernel());
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack, control: &mut Control) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.save_cwnd(control.cwnd);
            self.min_rtt.done = None;
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.model.start_round(ack.view.delivered);
        }
        if self.state == State::ProbeRtt {
            self.stay_in_probe_rtt(ack.view, control);
        }
        if ack.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`.
    fn stay_in_probe_rtt(&mut self, view: &View, control: &mut Control) {
        self.model.mark.set(view);
        if self.min_rtt.done.is_none() {
            if u64::from(view.in_flight) <= self.probe_rtt_cwnd() {
                self.min_rtt.done = Some(view.now.saturating_add(self.tunables.params.probe_rtt_duration));
                self.min_rtt.round_done = false;
                self.model.start_round(view.delivered);
            }
            return;
        }
        self.min_rtt.round_done |= self.model.round_start();
        if self.min_rtt.round_done {
            self.check_probe_rtt_done(view, control);
        }
    }

    /// Leaves for cruise once the time is over, with the window of before (`CheckProbeRTTDone`, 5.3.4.4).
    pub(super) fn check_probe_rtt_done(&mut self, view: &View, control: &mut Control) {
        if self.min_rtt.done.is_none_or(|done| view.now <= done) {
            return;
        }
        self.min_rtt.recent_stamp = view.now;
        control.cwnd = control.cwnd.max(self.saved.prior_cwnd);
        self.short_term.reset();
        if self.full_pipe.reached {
            self.start_down(view);
            self.start_cruise();
        } else {
            self.state = State::Startup;
        }
    }

    /// Window in `probe_rtt`: half a BDP (`ProbeRTTCwnd`, 5.6.4.5).
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.bw(), self.tunables.probe_rtt_cwnd_gain).max(MIN_PIPE_CWND)
    }

    /// After a pause of the application (`HandleRestartFromIdle`, 5.4.1).
    pub(super) fn restart(&mut self, view: &View, control: &mut Control) {
        self.idle_restart = true;
        self.model.restart_interval(view.now);
        if self.state.in_probe_bw() {
            let bw = self.bw();
            self.output.set_rate(bw, UNIT, self.full_pipe.reached, &self.tunables);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(view, control);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn min_rtt_rises_only_after_ten_seconds_and_then_to_the_least_of_the_last_visit() {
        let ms = Time::from_millis;
        let mut rtt = MinRtt::new(&testing::init());
        let mut at = |now: u64, sample: u64| {
            rtt.update(ms(now), Some(ms(sample)), ms(5000), ms(10_000), false);
            (rtt.expired, rtt.rtt().unwrap().as_millis())
        };
        assert_eq!(at(5000, 50), (false, 40));
        assert_eq!(at(5001, 60), (true, 40));
        assert_eq!(at(5200, 45), (false, 40));
        assert_eq!(at(10_000, 80), (false, 40));
        assert_eq!(at(10_001, 80), (false, 45));
        assert_eq!(at(10_002, 30), (false, 30));
    }
}
