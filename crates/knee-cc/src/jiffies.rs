//! Linux's coarse clock, for algorithms that measure in its ticks ("jiffies").
//!
//! An ideal clock (tick zero) is read at 1 ms, Linux's finest (`HZ` = 1000): their arithmetic is in whole ticks and
//! needs one.

use knee_core::Time;

/// A clock that ticks `HZ` times per second.
#[derive(Clone, Copy, Debug)]
pub struct Jiffies {
    tick_ns: u64,
}

impl Jiffies {
    /// A clock with this tick; zero means 1 ms.
    pub const fn new(tick: Time) -> Self {
        Self { tick_ns: if tick.as_nanos() == 0 { 1_000_000 } else { tick.as_nanos() } }
    }

    /// Ticks per second, at least 1.
    pub const fn hz(self) -> u64 {
        let hz = 1_000_000_000 / self.tick_ns;
        if hz == 0 { 1 } else { hz }
    }

    /// Ticks up to `now`.
    pub const fn at(self, now: Time) -> u64 {
        now.as_nanos() / self.tick_ns
    }

    /// Ticks that cover `span`, as `usecs_to_jiffies` and `msecs_to_jiffies` round: up, and from whole microseconds.
    pub const fn covering(self, span: Time) -> u64 {
        (span.as_nanos() - span.as_nanos() % 1_000).div_ceil(self.tick_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_round_up_and_moments_down() {
        let clock = Jiffies::new(Time::from_millis(10));
        assert_eq!(clock.hz(), 100);
        assert_eq!([40_000, 40_001, 0, 1].map(|us| clock.covering(Time::from_micros(us))), [4, 5, 0, 1]);
        assert_eq!(clock.covering(Time::from_nanos(10_000_999)), 1);
        assert_eq!(clock.at(Time::from_micros(49_999)), 4);
    }

    #[test]
    fn an_ideal_clock_is_read_at_a_millisecond() {
        assert_eq!(Jiffies::new(Time::ZERO).hz(), 1000);
        assert_eq!(Jiffies::new(Time::from_millis(4)).hz(), 250);
    }
}
