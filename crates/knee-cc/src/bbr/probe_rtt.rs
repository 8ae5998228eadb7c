//! Probe_rtt and the delay half of the model: where no RTT as low as `min_rtt` was seen for 10 s, four packets in
//! flight for 200 ms and a round make the queue drain, so that the path's delay shows.

use super::{Bbr, Mode};
use crate::{Ack, Control, Init, View};
use knee_core::Time;

/// Window in `probe_rtt`, and the least one aimed at elsewhere, in packets (`bbr_cwnd_min_target`).
pub const CWND_MIN_TARGET: u32 = 4;

/// The least RTT and the visits to `probe_rtt`.
#[derive(Clone, Debug)]
pub struct MinRtt {
    rtt: Option<Time>,
    /// When it was measured, or `probe_rtt` last left; in ticks.
    stamp: Time,
    /// When `probe_rtt` may end, in ticks; `None` until in flight is down to 4 packets.
    done: Option<Time>,
    /// A round has passed since in flight was down to 4 packets.
    round_done: bool,
}

impl MinRtt {
    /// The handshake's RTT is the first sample.
    pub fn new(init: &Init) -> Self {
        let rtt = (init.rtt > Time::ZERO).then_some(init.rtt);
        Self { rtt, stamp: init.now.floor_to(init.tick), done: None, round_done: false }
    }

    /// When it was measured.
    #[cfg(test)]
    pub const fn stamp(&self) -> Time {
        self.stamp
    }

    /// In microseconds; `None` before the first sample. Never above 2^32 - 1, as in Linux's field.
    pub fn micros(&self) -> Option<u64> {
        self.rtt.map(|rtt| rtt.as_micros().min(u64::from(u32::MAX)))
    }
}

impl Bbr {
    /// Updates the filter and walks through `probe_rtt` (`bbr_update_min_rtt`).
    pub(super) fn update_min_rtt(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now.floor_to(self.tick);
        let expired = now > self.min_rtt.stamp.saturating_add(self.tunables.params.min_rtt_win);
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.rtt.is_none_or(|least| rtt < least || (rtt == least && self.is_old()))
                || (expired && (!ack.rate.ack_delayed || self.is_old())))
        {
            (self.min_rtt.rtt, self.min_rtt.stamp) = (Some(rtt), now);
        }
        let wanted = self.tunables.params.probe_rtt_mode > Time::ZERO && expired && !self.idle_restart;
        if wanted && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.recovery.save_cwnd(control.cwnd, self.mode);
            self.min_rtt.done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.stay_in_probe_rtt(ack.view, control);
        }
        if ack.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn stay_in_probe_rtt(&mut self, view: &View, control: &mut Control) {
        // Four packets in flight say nothing about the bandwidth.
        self.model.mark.set(view);
        if self.min_rtt.done.is_none() {
            if view.in_flight <= CWND_MIN_TARGET {
                let stay = self.tunables.params.probe_rtt_mode.ceil_to(self.tick);
                self.min_rtt.done = Some(view.now.floor_to(self.tick).saturating_add(stay));
                self.min_rtt.round_done = false;
                self.model.restart_round(view.delivered);
            }
            return;
        }
        self.min_rtt.round_done |= self.model.round_start();
        if self.min_rtt.round_done {
            self.check_probe_rtt_done(view.now, control);
        }
    }

    /// Leaves `probe_rtt` with the window of before once its time is over (`bbr_check_probe_rtt_done`).
    pub(super) fn check_probe_rtt_done(&mut self, now: Time, control: &mut Control) {
        let now = now.floor_to(self.tick);
        if self.min_rtt.done.is_some_and(|done| now > done) {
            self.min_rtt.stamp = now;
            control.cwnd = control.cwnd.max(self.recovery.prior_cwnd);
            self.reset_mode();
        }
    }

    /// True if a transmission into an empty pipe follows a pause of the application; one under `probe_rtt`'s mark
    /// counts as such, as in Linux.
    pub(super) fn is_idle_restart(&self, view: &View) -> bool {
        view.app_limited || self.model.mark.covers(view.delivered)
    }
}
