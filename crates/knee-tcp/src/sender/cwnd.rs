//! The congestion window: its integral over time, how much of it is used (tcp_cwnd_validate), its decay while it is
//! not.

use super::{Config, Sender};
use crate::receiver::{INITIAL_WINDOW, WINDOW_STEP};
use knee_cc::{CaState, Control, INFINITE_SSTHRESH};
use knee_core::Time;
use knee_core::packet::MSS;

/// Greatest scale of a window (RFC 7323, 2.3).
const MAX_WINDOW_SCALE: u32 = 14;

/// How much of the window is used (tcp_cwnd_validate; RFC 2861, 7661).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowUse {
    /// The round trip that `limited` and `max_out` describe is over when all before this segment is acknowledged.
    pub end: u64,
    /// When the window last limited sending, or decayed.
    pub since: Time,
    /// Most packets in flight since.
    pub used: u32,
    /// Most packets in flight in this round trip.
    pub max_out: u32,
    /// The window limited sending in this round trip.
    pub limited: bool,
}

impl WindowUse {
    /// The window limits sending now, with `out` packets in flight and `nxt` as the next segment.
    const fn fill(&mut self, out: u32, nxt: u64, now: Time) {
        *self = Self { end: nxt, since: now, used: 0, max_out: out, limited: true };
    }

    /// The window does not limit sending now.
    fn note(&mut self, out: u32, una: u64, nxt: u64) {
        if una >= self.end || (!self.limited && out > self.max_out) {
            (self.end, self.max_out, self.limited) = (nxt, out, false);
        }
    }

    /// A part of the window is not used now. Gives for how long it has been so.
    fn leave_unused(&mut self, out: u32, now: Time) -> Time {
        self.used = self.used.max(out);
        now - self.since
    }

    /// True if the window may grow: all of it is used, or in slow start more than half.
    const fn lets_grow(&self, control: &Control) -> bool {
        self.limited || (control.in_slow_start() && control.cwnd < 2 * self.max_out)
    }
}

impl Sender {
    /// Packets that the congestion window still lets leave.
    pub(super) fn window_room(&self) -> u32 {
        //= RFC 6675, 5
        //# If cwnd - pipe >= 1 SMSS, the sender SHOULD transmit one or more segments as follows:
        self.control.cwnd.saturating_sub(self.in_flight())
    }

    /// The receive window in packets, which grows with what has been delivered, the SYN excepted (tcp_grow_window).
    ///
    /// It is offered in units of its scale, the largest window being of 16 bits or more, and is rounded up to them
    /// (tcp_select_initial_window, __tcp_select_window).
    pub(super) fn offered_window(&self, config: &Config) -> u64 {
        let bytes = INITIAL_WINDOW + WINDOW_STEP * self.view.delivered.saturating_sub(1);
        if bytes >= config.window_growth || self.needs.open_window {
            return config.receive_window;
        }
        let scale = config.window_growth.ilog2().saturating_sub(15).min(MAX_WINDOW_SCALE);
        config.receive_window.min(bytes.next_multiple_of(1 << scale) / u64::from(MSS))
    }

    pub(super) fn set_cwnd(&mut self, cwnd: u32, now: Time) {
        self.note_cwnd(now);
        self.control.cwnd = cwnd.max(1);
    }

    /// Brings the integral of the window up to date.
    pub fn note_cwnd(&mut self, now: Time) {
        self.cwnd_was(self.control.cwnd, now);
    }

    /// Adds the time since the last call to the integral, with `cwnd` packets as the window throughout.
    pub(super) fn cwnd_was(&mut self, cwnd: u32, now: Time) {
        let span = now.saturating_sub(self.totals.cwnd_integral.1);
        self.totals.cwnd_integral.0 += u128::from(cwnd) * u128::from(span.as_nanos());
        self.totals.cwnd_integral.1 = now;
    }

    /// The threshold to return to if a reduction proves wrong (Linux's `tcp_current_ssthresh`).
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.reducing() {
            self.control.ssthresh
        } else {
            self.control.ssthresh.max((self.control.cwnd >> 1) + (self.control.cwnd >> 2))
        }
    }

    /// True once the window was reduced.
    pub const fn reduced(&self) -> bool {
        self.control.ssthresh < INFINITE_SSTHRESH
    }

    /// The window limits sending now (tcp_cwnd_validate).
    pub(super) const fn note_window_full(&mut self, now: Time) {
        self.window_use.fill(self.packets_out(), self.view.snd_nxt, now);
    }

    /// Notes how much of the window is used where it does not limit sending now (tcp_cwnd_validate).
    #[inline(never)]
    pub(super) fn validate_cwnd(&mut self, now: Time, config: &Config) {
        let packets_out = self.packets_out();
        self.window_use.note(packets_out, self.view.snd_una, self.view.snd_nxt);
        if self.is_cwnd_limited() {
            (self.window_use.used, self.window_use.since) = (0, now);
        } else {
            let idle = self.window_use.leave_unused(packets_out, now);
            if config.slow_start_after_idle && idle >= self.rtt.rto() && !self.needs.full_control {
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
            let used = self.window_use.used.max(config.initial_window);
            if used < self.control.cwnd {
                self.control.ssthresh = self.current_ssthresh();
                self.set_cwnd(u32::midpoint(self.control.cwnd, used), now);
            }
            self.window_use.used = 0;
        }
        self.window_use.since = now;
    }

    /// True if the window may grow (tcp_is_cwnd_limited).
    pub(super) const fn is_cwnd_limited(&self) -> bool {
        self.window_use.lets_grow(&self.control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::{config, established};

    fn control(cwnd: u32, ssthresh: u32) -> Control {
        Control { cwnd, ssthresh, ..Control::initial(10) }
    }

    /// tcp_is_cwnd_limited: in slow start more than half of the window has to be in use, later all of it.
    #[test]
    fn a_window_grows_where_it_is_used() {
        let mut window_use = WindowUse::default();
        window_use.note(6, 0, 6);
        assert!(window_use.lets_grow(&control(11, INFINITE_SSTHRESH)), "6 of 11 are more than half");
        assert!(!window_use.lets_grow(&control(12, INFINITE_SSTHRESH)), "6 of 12 are not");
        assert!(!window_use.lets_grow(&control(11, 10)), "congestion avoidance needs a full window");
        window_use.fill(11, 17, Time::from_millis(1));
        assert!(window_use.lets_grow(&control(11, 10)));
    }

    /// tcp_cwnd_validate: a full window counts until all that was out then is acknowledged.
    #[test]
    fn a_full_window_is_forgotten_a_round_trip_later() {
        let mut window_use = WindowUse::default();
        window_use.fill(10, 30, Time::ZERO);
        window_use.note(4, 29, 33);
        assert!(window_use.limited && window_use.max_out == 10);
        window_use.note(4, 30, 34);
        assert!(!window_use.limited && window_use.max_out == 4);
        // The most of a round trip counts.
        window_use.note(7, 31, 38);
        window_use.note(5, 33, 38);
        assert_eq!(window_use.max_out, 7);
        // As many again are no more: the round trip ends with what was out at first.
        window_use.note(7, 33, 40);
        assert_eq!(window_use.end, 38);
    }

    /// Linux 6.1 in virtual time: hybla has 310 packets of window and 112 in flight after 33 have been delivered, since
    /// 65,535 + 33 · 2,920 bytes are offered as 317 units of 512.
    #[test]
    fn a_growing_window_is_offered_in_units_of_its_scale() {
        for (growth, offered) in [(1 << 24, 112), (1 << 18, 111), (1 << 16, 1000), (1 << 40, 113)] {
            let config = Config { window_growth: growth, ..config(true, 9, 1000) };
            let mut sender = established("hybla", None, false, None, &config);
            sender.view.delivered = 34;
            assert_eq!(sender.offered_window(&config), offered, "up to {growth} bytes");
        }
    }

    /// RFC 2861: the most that was used, and for how long that was less than the window.
    #[test]
    fn how_much_was_left_unused_is_known_with_its_time() {
        let mut window_use = WindowUse::default();
        window_use.fill(10, 10, Time::from_millis(5));
        assert_eq!(window_use.leave_unused(3, Time::from_millis(6)), Time::from_millis(1));
        assert_eq!(window_use.leave_unused(2, Time::from_millis(9)), Time::from_millis(4));
        assert_eq!(window_use.used, 3);
    }
}
