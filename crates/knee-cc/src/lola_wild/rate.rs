//! The flow's delivery rate by round trips, and the greatest of late.

use crate::View;
use knee_core::Time;
use knee_core::convert::saturating_u32;

/// Span of the greatest rate: this, and up to twice as much.
const SPAN: Time = Time::from_secs(5);

/// The delivery rate, in packets per second, of each round trip of at least 40 ms.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    since: Time,
    delivered: u64,
    last: u64,
    /// The greatest of this span of [`SPAN`] and of the one before it.
    greatest: [u64; 2],
    turned: Time,
}

impl Rate {
    /// No round trip has passed at `now`.
    pub const fn new(now: Time) -> Self {
        Self { since: now, delivered: 0, last: 0, greatest: [0; 2], turned: now }
    }

    /// Takes an ACK with an RTT.
    pub fn update(&mut self, view: &View, rtt: Time) {
        let passed = view.now.saturating_sub(self.since);
        if passed < rtt.max(Time::from_millis(40)) {
            return;
        }
        self.last = view.delivered.saturating_sub(self.delivered).saturating_mul(1_000_000) / passed.as_micros();
        (self.since, self.delivered) = (view.now, view.delivered);
        if view.now.saturating_sub(self.turned) >= SPAN {
            (self.greatest, self.turned) = ([0, self.greatest[0]], view.now);
        }
        self.greatest[0] = self.greatest[0].max(self.last);
    }

    /// Packets that this many microseconds carry at the greatest rate.
    pub fn carried(&self, us: u64) -> u32 {
        let greatest = self.greatest[0].max(self.greatest[1]);
        saturating_u32(greatest.saturating_mul(us) / 1_000_000)
    }

    /// The rate of the last round trip.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Leaves out the idle time before `view`.
    pub const fn restart(&mut self, view: &View) {
        (self.since, self.delivered) = (view.now, view.delivered);
    }
}
