//! The machine's clock, counted from the start of a run.

use knee_core::Time;
use knee_core::convert::non_negative;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock since a start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The start on the monotonic clock, ns.
    start: u64,
}

fn nanos(id: ClockId) -> u64 {
    let now = clock_gettime(id);
    non_negative(now.tv_sec) * 1_000_000_000 + non_negative(now.tv_nsec)
}

impl Clock {
    /// A clock that shows zero when the monotonic one shows `start` ns.
    pub const fn new(start: u64) -> Self {
        Self { start }
    }

    /// Time since the start; zero before it.
    #[inline]
    pub fn now(self) -> Time {
        Time::from_nanos(nanos(ClockId::Monotonic).saturating_sub(self.start))
    }

    /// The time of day at the start, ns since 1970.
    pub fn start_of_day(self) -> u64 {
        nanos(ClockId::Realtime) + self.start - nanos(ClockId::Monotonic)
    }
}

/// Processor time that this thread has taken.
pub fn processor() -> Time {
    Time::from_nanos(nanos(ClockId::ThreadCPUTime))
}
