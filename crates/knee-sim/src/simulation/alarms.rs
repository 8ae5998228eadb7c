//! Timers where time passes event by event.
//!
//! An end sets a timer with nearly every packet, and hardly one ever fires. So the heap holds at most one event per
//! timer, for a time at which it may be due; when that comes and the timer is due later by now, a new event is made.

use knee_core::Time;
use knee_net::events::{Event, Events};
use knee_tcp::ends::EndTimer;

/// By timer, for when the heap holds an event; `Time::MAX`: it holds none.
#[derive(Clone, Copy)]
pub(super) struct Alarms([Time; 4]);

impl Alarms {
    pub(super) const NONE: Self = Self([Time::MAX; 4]);

    /// Lets the heap know of a timer at path `i` that is due before it expects it.
    #[inline]
    pub(super) fn arm(&mut self, i: u32, timer: EndTimer, due: Time, events: &mut Events) {
        let alarm = &mut self.0[timer as usize];
        if due < *alarm {
            *alarm = due;
            events.push(due, event(timer, i));
        }
    }

    /// Returns true if the event of a timer that is due `now` counts: it does not if the timer was set to an earlier
    /// time meanwhile. From now on the heap holds none.
    pub(super) fn counts(&mut self, timer: EndTimer, now: Time) -> bool {
        let counts = self.0[timer as usize] == now;
        if counts {
            self.0[timer as usize] = Time::MAX;
        }
        counts
    }
}

/// The event of a timer at path `i`.
#[inline]
pub(super) const fn event(timer: EndTimer, i: u32) -> Event {
    match timer {
        EndTimer::Retransmit => Event::Retransmit(i),
        EndTimer::Pace => Event::Pace(i),
        EndTimer::DelayedAck => Event::DelayedAck(i),
        EndTimer::CompressedSack => Event::CompressedSack(i),
    }
}

/// The timer whose event this is, and its path.
#[inline]
pub(super) const fn timer_of(event: Event) -> Option<(EndTimer, u32)> {
    match event {
        Event::Retransmit(i) => Some((EndTimer::Retransmit, i)),
        Event::Pace(i) => Some((EndTimer::Pace, i)),
        Event::DelayedAck(i) => Some((EndTimer::DelayedAck, i)),
        Event::CompressedSack(i) => Some((EndTimer::CompressedSack, i)),
        _ => None,
    }
}
