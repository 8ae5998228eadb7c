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

impl Simulation {
    /// Lets the heap know of a sender's timers that are due before it expects them.
    #[inline]
    pub(super) fn arm_sender(&mut self, i: u32) {
        // In epochs there are none.
        let Some(alarms) = self.alarms.get_mut(i as usize) else { return };
        let sender = &self.senders[i as usize];
        let (due, pace) = (sender.timer.not_before(), sender.pace_at);
        if due < alarms.retransmit {
            alarms.retransmit = due;
            self.events.push(due, Event::Retransmit(i));
        }
        if pace < alarms.pace {
            alarms.pace = pace;
            self.events.push(pace, Event::Pace(i));
        }
    }

    /// The same for a receiver.
    #[inline]
    pub(super) fn arm_receiver(&mut self, i: u32) {
        let Some(alarms) = self.alarms.get_mut(i as usize) else { return };
        let receiver = &self.receivers[i as usize];
        let (due, compressed) = (receiver.delayed.not_before(), receiver.compressed_at);
        if due < alarms.delayed_ack {
            alarms.delayed_ack = due;
            self.events.push(due, Event::DelayedAck(i));
        }
        if compressed < alarms.compressed_sack {
            alarms.compressed_sack = compressed;
            self.events.push(compressed, Event::CompressedSack(i));
        }
    }

    pub(super) fn on_retransmit_timer(&mut self, i: u32) {
        let alarm = &mut self.alarms[i as usize].retransmit;
        if *alarm != self.now {
            // Void: an event for an earlier time was made meanwhile.
            return;
        }
        *alarm = Time::MAX;
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
        let alarm = &mut self.alarms[i as usize].pace;
        if *alarm != self.now {
            return;
        }
        *alarm = Time::MAX;
        if self.senders[i as usize].pace_at > self.now {
            self.arm_sender(i);
        } else {
            self.pace_timer_fires(i);
        }
    }

    pub(super) fn on_delayed_ack(&mut self, i: u32) {
        let alarm = &mut self.alarms[i as usize].delayed_ack;
        if *alarm != self.now {
            return;
        }
        *alarm = Time::MAX;
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
        let alarm = &mut self.alarms[i as usize].compressed_sack;
        if *alarm != self.now {
            return;
        }
        *alarm = Time::MAX;
        if self.receivers[i as usize].compressed_at <= self.now {
            self.compressed_sack_fires(i);
        }
        self.arm_receiver(i);
    }
}
