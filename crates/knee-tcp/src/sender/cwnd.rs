//! The congestion window: its integral over time, how much of it is used (tcp_cwnd_validate), its decay while it is
//! not.

use super::{Config, Sender};
use knee_cc::{CaState, INFINITE_SSTHRESH};
use knee_core::Time;

impl Sender {
    /// Packets that the congestion window still lets leave.
    #[inline]
    pub(super) fn window_room(&self) -> u32 {
        //= RFC 6675, 5
        //# If cwnd - pipe >= 1 SMSS, the sender SHOULD transmit one or more segments as follows:
        self.control.cwnd.saturating_sub(self.in_flight())
    }

    pub(super) fn set_cwnd(&mut self, cwnd: u32, now: Time) {
        self.note_cwnd(now);
        self.control.cwnd = cwnd.max(1);
    }

    /// Brings the integral of the window up to date.
    pub fn note_cwnd(&mut self, now: Time) {
        self.cwnd_was(self.control.cwnd, now);
    }

    /// The same where the window was `cwnd` until now.
    pub(super) fn cwnd_was(&mut self, cwnd: u32, now: Time) {
        let span = now.saturating_sub(self.cwnd_integral.1);
        self.cwnd_integral.0 += u128::from(cwnd) * u128::from(span.as_nanos());
        self.cwnd_integral.1 = now;
    }

    /// The threshold to return to if a reduction proves wrong (Linux's `tcp_current_ssthresh`).
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.reducing() {
            self.control.ssthresh
        } else {
            self.control.ssthresh.max((self.control.cwnd >> 1) + (self.control.cwnd >> 2))
        }
    }

    /// Whether a reduction was ever made.
    pub const fn reduced(&self) -> bool {
        self.control.ssthresh < INFINITE_SSTHRESH
    }

    /// The window limits sending now (tcp_cwnd_validate).
    #[inline]
    pub(super) const fn window_limits(&mut self, now: Time) {
        self.cwnd_limited = true;
        self.max_packets_out = self.packets_out();
        self.cwnd_usage_end = self.view.snd_nxt;
        self.cwnd_used = 0;
        self.cwnd_stamp = now;
    }

    /// Notes how much of the window is used where it does not limit sending now (tcp_cwnd_validate).
    #[inline(never)]
    pub(super) fn validate_cwnd(&mut self, now: Time, config: &Config) {
        let packets_out = self.packets_out();
        if self.view.snd_una >= self.cwnd_usage_end || (!self.cwnd_limited && packets_out > self.max_packets_out) {
            self.cwnd_limited = false;
            self.max_packets_out = packets_out;
            self.cwnd_usage_end = self.view.snd_nxt;
        }
        if self.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
        } else {
            self.cwnd_used = self.cwnd_used.max(packets_out);
            let idle = now - self.cwnd_stamp;
            if idle >= self.rtt.rto() && !self.needs.full_control {
                self.shrink_unused(now, config);
            }
        }
    }

    /// RFC 2861: a window that is not used decays towards what is.
    fn shrink_unused(&mut self, now: Time, config: &Config) {
        if self.view.ca == CaState::Open {
            //= RFC 5681, 4.1 (departs: the window decays by RFC 2861, and only where it is not used)
            //# Therefore, a TCP SHOULD set cwnd to no more than RW before beginning transmission if the TCP has not
            //# sent data in an interval exceeding the retransmission timeout.
            let used = self.cwnd_used.max(config.initial_window);
            if used < self.control.cwnd {
                self.control.ssthresh = self.current_ssthresh();
                self.set_cwnd(u32::midpoint(self.control.cwnd, used), now);
            }
            self.cwnd_used = 0;
        }
        self.cwnd_stamp = now;
    }

    /// Whether the window may grow (tcp_is_cwnd_limited).
    pub(super) const fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited || (self.control.in_slow_start() && self.control.cwnd < 2 * self.max_packets_out)
    }
}
