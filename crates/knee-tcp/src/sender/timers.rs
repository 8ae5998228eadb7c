//! The pacing timer, and the one that is set for the reordering window, a loss probe or the retransmission timeout.

use super::micros::Micros;
use super::{Config, Outgoing, Pending, Sender};
use crate::timer::Timer;
use knee_core::Time;

impl Sender {
    /// The pacing timer fired.
    pub fn on_pace(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        self.pacer.due = Time::MAX;
        // tcp_tsq_write: a full window does not set the timer again.
        if self.window_room() > 0 {
            self.send_lost(now, config, out);
        }
        self.send(now, config, out);
    }

    /// The retransmission timer fired.
    pub fn on_timer(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        self.timer = Timer::OFF;
        let pending = std::mem::replace(&mut self.pending, Pending::Nothing);
        match pending {
            Pending::Nothing => {}
            Pending::Reordering => self.on_reordering_timeout(now, config, out),
            Pending::Probe => self.send_probe(now, config, out),
            Pending::Timeout => self.on_timeout(now, out),
        }
    }

    /// How far the timeout of the oldest segment is away; none where it is past.
    pub(super) fn timeout_left(&self, now: Time) -> Option<Time> {
        self.timeout_left_since(self.rtx.burst_of(self.view.snd_una).sent(), now)
    }

    /// The rest of the retransmission timeout if the oldest segment was sent at `oldest`; `None` once it is over.
    #[inline]
    pub(super) fn timeout_left_since(&self, oldest: Micros, now: Time) -> Option<Time> {
        let due = Micros(oldest.0 + self.rtt.rto_us().0).time();
        (due > now).then(|| due - now)
    }

    /// Sets the retransmission timeout, counted from the oldest segment where another timer ran before
    /// (tcp_rearm_rto).
    pub(super) fn rearm_timeout(&mut self, now: Time) {
        //= RFC 6298, 5.2
        //# When all outstanding data has been acknowledged, turn off the retransmission timer.
        if self.packets_out() == 0 {
            self.pending = Pending::Nothing;
            self.timer = Timer::OFF;
            return;
        }
        let span = if matches!(self.pending, Pending::Reordering | Pending::Probe) {
            self.timeout_left(now).unwrap_or(Time::from_micros(1))
        } else {
            self.rtt.rto()
        };
        self.set_timer(Pending::Timeout, span, now);
    }

    pub(super) fn set_timer(&mut self, pending: Pending, span: Time, now: Time) {
        //= RFC 8985, 8
        //# When arming a RACK reordering timer or TLP PTO timer, the sender SHOULD cancel any other pending timers.
        self.pending = pending;
        self.timer = Timer::set(now, span);
    }

    /// The timer after an ACK that made progress.
    pub(super) fn rearm_after_ack(&mut self, now: Time, config: &Config) {
        //= RFC 6298, 5.3 (departs: a loss probe's timer runs first, where one is due)
        //# When an ACK is received that acknowledges new data, restart the retransmission timer so that it will expire
        //# after RTO seconds (for the current value of RTO).
        if !self.schedule_probe(true, now, config) {
            self.rearm_timeout(now);
        }
    }

    /// When its next timer is due, at the earliest.
    pub fn due(&self) -> Time {
        self.timer.not_before().min(self.pacer.due)
    }
}
