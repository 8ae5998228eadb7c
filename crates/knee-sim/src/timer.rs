//! The kernel's clock: timers and some algorithms see time in ticks (jiffies).

use knee_core::Time;

/// A clock that ticks every `tick`; ideal where `tick` is zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    tick: Time,
}

impl Clock {
    /// A clock of this tick.
    pub const fn new(tick: Time) -> Self {
        Self { tick }
    }

    /// The time the clock shows: `now` rounded down to a tick.
    pub const fn jiffies(&self, now: Time) -> Time {
        now.floor_to(self.tick)
    }

    /// A span as the kernel counts it: rounded up to ticks.
    pub const fn span(&self, span: Time) -> Time {
        span.ceil_to(self.tick)
    }

    /// When a timer set now for `span` fires. The timer wheel never fires early: it adds a tick to the time that the
    /// coarse clock shows.
    pub fn expiry(&self, now: Time, span: Time) -> Time {
        self.jiffies(now).saturating_add(self.span(span)).saturating_add(self.tick)
    }

    /// The tick.
    pub const fn tick(&self) -> Time {
        self.tick
    }
}
