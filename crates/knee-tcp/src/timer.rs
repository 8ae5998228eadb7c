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
        if now.as_nanos() == u64::MAX { now } else { now.floor_to(self.tick) }
    }

    /// A span as the kernel counts it: rounded up to ticks.
    pub const fn span(&self, span: Time) -> Time {
        span.ceil_to(self.tick)
    }

    /// When a timer fires. The timer wheel never fires early: it adds a tick to the time that the coarse clock shows.
    pub const fn expiry(&self, timer: &Timer) -> Time {
        if timer.span.as_nanos() == 0 {
            return timer.set_at;
        }
        self.jiffies(timer.set_at).saturating_add(self.span(timer.span)).saturating_add(self.tick)
    }

    /// The tick.
    pub const fn tick(&self) -> Time {
        self.tick
    }
}

/// A timer as it was set, or, with a span of zero, the exact time of its firing. The exact time it fires at is worked
/// out only when that may have come: timers are set with nearly every packet, and hardly ever fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    set_at: Time,
    span: Time,
}

impl Default for Timer {
    fn default() -> Self {
        Self::OFF
    }
}

impl Timer {
    /// A timer that is not set.
    pub const OFF: Self = Self { set_at: Time::MAX, span: Time::ZERO };

    /// A timer set at `now` for `span`.
    pub const fn set(now: Time, span: Time) -> Self {
        // A span of zero means "exactly then"; the shortest real one is a nanosecond.
        let span = if span.as_nanos() == 0 { Time::from_nanos(1) } else { span };
        Self { set_at: now, span }
    }

    /// A timer that fires at just this time.
    pub const fn at(time: Time) -> Self {
        Self { set_at: time, span: Time::ZERO }
    }

    /// The exact time at which it fires. From now on it is known.
    pub const fn resolve(&mut self, clock: &Clock) -> Time {
        *self = Self::at(clock.expiry(self));
        self.set_at
    }

    /// It does not fire before this time; `Time::MAX` where it is not set.
    pub const fn not_before(&self) -> Time {
        self.set_at.saturating_add(self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_a_tick_after_its_rounded_span() {
        let clock = Clock::new(Time::from_millis(10));
        // Set at 12 ms, seen as 10 ms, for 40 ms: at 60 ms.
        assert_eq!(clock.expiry(&Timer::set(Time::from_millis(12), Time::from_millis(40))), Time::from_millis(60));
        assert_eq!(clock.expiry(&Timer::OFF), Time::MAX);
    }

    #[test]
    fn an_exact_timer_fires_then_on_any_clock() {
        let timer = Timer::at(Time::from_millis(13));
        assert_eq!(Clock::new(Time::from_millis(10)).expiry(&timer), Time::from_millis(13));
        assert_eq!(timer.not_before(), Time::from_millis(13));
    }

    #[test]
    fn a_timer_that_is_resolved_fires_when_it_did() {
        let clock = Clock::new(Time::from_millis(10));
        let mut timer = Timer::set(Time::from_millis(12), Time::from_millis(40));
        assert_eq!((timer.not_before(), timer.resolve(&clock)), (Time::from_millis(52), Time::from_millis(60)));
        assert_eq!((timer.not_before(), timer.resolve(&clock)), (Time::from_millis(60), Time::from_millis(60)));
    }

    #[test]
    fn an_ideal_clock_fires_exactly() {
        let clock = Clock::new(Time::ZERO);
        assert_eq!(clock.expiry(&Timer::set(Time::from_millis(12), Time::from_millis(40))), Time::from_millis(52));
    }
}
