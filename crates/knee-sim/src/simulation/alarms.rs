//! Timers where time passes event by event.
//!
//! An endpoint sets a timer with nearly every packet, and hardly one ever fires. So the heap holds at most one event per
//! timer, for a time at which it may be due; when that comes and the timer is due later by now, a new event is made.

use super::Simulation;
use crate::events::Event;
use crate::timer::Timer;
use knee_core::Time;

/// For when the heap holds an event for each of a flow's timers; `Time::MAX`: it holds none.
#[derive(Clone, Copy)]
pub(super) struct Alarms {
    retransmit: Time,
    pace: Time,
    delayed_ack: Time,
    compressed_sack: Time,
}

impl Alarms {
    pub(super) const NONE: Self =
        Self { retransmit: Time::MAX, pace: Time::MAX, delayed_ack: Time::MAX, compressed_sack: Time::MAX };
}

/// One of a flow's alarms.
type Which = fn(&mut Alarms) -> &mut Time;

impl Simulation {
    /// Lets the heap know of a sender's timers that are due before it expects them.
    #[inline]
    pub(super) fn arm_sender(&mut self, i: u32) {
        let sender = &self.senders[i as usize];
        let (due, pace) = (sender.timer.not_before(), sender.pace_at);
        self.arm(i, |alarms| &mut alarms.retransmit, due, Event::Retransmit(i));
        self.arm(i, |alarms| &mut alarms.pace, pace, Event::Pace(i));
    }

    /// The same for a receiver.
    #[inline]
    pub(super) fn arm_receiver(&mut self, i: u32) {
        let receiver = &self.receivers[i as usize];
        let (due, compressed) = (receiver.delayed.not_before(), receiver.compressed_at);
        self.arm(i, |alarms| &mut alarms.delayed_ack, due, Event::DelayedAck(i));
        self.arm(i, |alarms| &mut alarms.compressed_sack, compressed, Event::CompressedSack(i));
    }

    #[inline]
    fn arm(&mut self, i: u32, which: Which, due: Time, event: Event) {
        // In epochs there are none.
        let Some(alarm) = self.alarms.get_mut(i as usize).map(which) else { return };
        if due < *alarm {
            *alarm = due;
            self.schedule_event(due, event);
        }
    }

    /// Whether the event that has come is the one that counts: it does not where one for an earlier time was made
    /// meanwhile. From now on the heap holds none.
    fn rings(&mut self, i: u32, which: Which) -> bool {
        let alarm = which(&mut self.alarms[i as usize]);
        let rings = *alarm == self.now;
        if rings {
            *alarm = Time::MAX;
        }
        rings
    }

    pub(super) fn on_retransmit_timer(&mut self, i: u32) {
        if !self.rings(i, |alarms| &mut alarms.retransmit) {
            return;
        }
        let timer = &mut self.senders[i as usize].timer;
        let due = self.sender_config.clock.expiry(timer);
        if due > self.now {
            *timer = Timer::at(due);
            self.arm_sender(i);
        } else {
            self.retransmit_timer_fires(i);
        }
    }

    pub(super) fn on_pace_timer(&mut self, i: u32) {
        if !self.rings(i, |alarms| &mut alarms.pace) {
            return;
        }
        if self.senders[i as usize].pace_at > self.now {
            self.arm_sender(i);
        } else {
            self.pace_timer_fires(i);
        }
    }

    pub(super) fn on_delayed_ack(&mut self, i: u32) {
        if !self.rings(i, |alarms| &mut alarms.delayed_ack) {
            return;
        }
        let timer = &mut self.receivers[i as usize].delayed;
        let due = self.receiver_config.clock.expiry(timer);
        if due > self.now {
            *timer = Timer::at(due);
        } else {
            self.delayed_ack_fires(i);
        }
        self.arm_receiver(i);
    }

    pub(super) fn on_compressed_sack(&mut self, i: u32) {
        if !self.rings(i, |alarms| &mut alarms.compressed_sack) {
            return;
        }
        if self.receivers[i as usize].compressed_at <= self.now {
            self.compressed_sack_fires(i);
        }
        self.arm_receiver(i);
    }
}
