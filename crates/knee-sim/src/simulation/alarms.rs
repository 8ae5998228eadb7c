//! Timers where time passes event by event.
//!
//! An endpoint sets a timer with nearly every packet, and hardly one ever fires. So the heap holds at most one event
//! per timer, for a time at which it may be due; when that comes and the timer is due later by now, a new event is
//! made.

use super::udp::End;
use knee_core::Time;
use knee_net::events::{Event, Events};
use knee_tcp::receiver::Receiver;
use knee_tcp::sender::Sender;

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

    /// Lets the heap know of the timers of sender `i` that are due before it expects them.
    #[inline]
    pub(super) fn arm_sender(&mut self, i: u32, sender: &Sender, events: &mut Events) {
        arm(&mut self.retransmit, sender.timer.not_before(), Event::Retransmit(i), events);
        arm(&mut self.pace, sender.pace_at, Event::Pace(i), events);
    }

    /// The same for a receiver.
    #[inline]
    pub(super) fn arm_receiver(&mut self, i: u32, receiver: &Receiver, events: &mut Events) {
        arm(&mut self.delayed_ack, receiver.delayed.not_before(), Event::DelayedAck(i), events);
        arm(&mut self.compressed_sack, receiver.compressed_at, Event::CompressedSack(i), events);
    }

    /// The same for an end of a flow over UDP, which is due then.
    pub(super) fn arm_udp(&mut self, i: u32, end: End, due: Time, events: &mut Events) {
        match end {
            End::Sender => arm(&mut self.retransmit, due, Event::Retransmit(i), events),
            End::Receiver => arm(&mut self.delayed_ack, due, Event::DelayedAck(i), events),
        }
    }

    /// Whether the event of a timer that has come `now` is the one that counts: it does not where one for an earlier
    /// time was made meanwhile. From now on the heap holds none.
    pub(super) fn counts(&mut self, event: Event, now: Time) -> bool {
        let alarm = match event {
            Event::Retransmit(_) => &mut self.retransmit,
            Event::Pace(_) => &mut self.pace,
            Event::DelayedAck(_) => &mut self.delayed_ack,
            Event::CompressedSack(_) => &mut self.compressed_sack,
            _ => return false,
        };
        let counts = *alarm == now;
        if counts {
            *alarm = Time::MAX;
        }
        counts
    }
}

#[inline]
fn arm(alarm: &mut Time, due: Time, event: Event, events: &mut Events) {
    if due < *alarm {
        *alarm = due;
        events.push(due, event);
    }
}
