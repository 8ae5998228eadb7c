//! TCP's clock: whole microseconds.

use knee_core::Time;

/// A time on TCP's clock, or a span of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub u64);

impl Micros {
    /// The clock's reading at `time`: whole microseconds, rounded down.
    pub const fn of(time: Time) -> Self {
        Self(time.as_micros())
    }

    /// The time at which the clock begins to show this.
    pub const fn time(self) -> Time {
        Time::from_micros(self.0)
    }

    /// How long ago `earlier` was; zero where it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}
