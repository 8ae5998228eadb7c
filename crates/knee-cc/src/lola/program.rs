//! `form = "program"`: where the authors' module (v1.5) departs from their paper, from a description of it.
//!
//! - Slow start ends when the least of a round's first 16 RTTs exceeds `RTT_min` by more than 1 ms. A tailored decrease
//!   follows at once, with `Q_data` at that least RTT.
//! - `X(t) - Q_data` is added evenly over `t_measure`, as if it stayed as it is, and not at once.
//! - `t` counts from the entry into fair flow balancing, as printed.
//! - The decrease takes `Q_data` at `RTT_now` on entry into the hold.

use crate::View;
use knee_core::Time;
use knee_core::convert::saturating_u64;

/// RTTs of a round that are looked at.
const SAMPLES: u8 = 16;
/// Their least exceeds `RTT_min` by more than this where slow start ends, us.
const INCREASE_US: u64 = 1_000;

/// The RTTs of a round of slow start, us.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The round ends when more than this segment is acknowledged.
    end: u64,
    samples: u8,
    least: u64,
}

impl Round {
    /// The next ACK begins a round.
    pub const NONE: Self = Self { end: 0, samples: 0, least: u64::MAX };

    /// Takes an RTT.
    pub fn update(&mut self, view: &View, rtt: u64) {
        if view.snd_una > self.end {
            *self = Self { end: view.snd_nxt, ..Self::NONE };
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            self.least = self.least.min(rtt);
        }
    }

    /// The round's least RTT where it shows a queue.
    pub fn queued(&self, rtt_min: u64) -> Option<u64> {
        (self.samples == SAMPLES && self.least.saturating_sub(rtt_min) > INCREASE_US).then_some(self.least)
    }
}

/// An increase that goes on for some time.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Until then it is accounted for.
    since: Time,
    /// The remainder below a packet, in bytes times nanoseconds.
    rest: u128,
}

impl Spread {
    /// Begins at `now`.
    pub const fn begin(now: Time) -> Self {
        Self { since: now, rest: 0 }
    }

    /// Whole packets of `missing` bytes that are due since the last call, of what takes `over` in all.
    pub fn due(&mut self, now: Time, missing: u64, mss: u64, over: Time) -> u64 {
        let passed = now.saturating_sub(self.since).min(over);
        self.since = now;
        self.rest += u128::from(missing) * u128::from(passed.as_nanos());
        let packet = u128::from(mss) * u128::from(over.as_nanos().max(1));
        let packets = self.rest / packet;
        self.rest %= packet;
        saturating_u64(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn sixteen_rtts_decide_and_the_seventeenth_does_not() {
        let mut round = Round::NONE;
        let view = View { snd_una: 10, snd_nxt: 50, ..testing::view() };
        for k in 0..15 {
            round.update(&view, 22_100 + k);
            assert_eq!(round.queued(21_000), None);
        }
        round.update(&view, 22_500);
        assert_eq!([21_000, 21_099, 21_100].map(|rtt_min| round.queued(rtt_min)), [Some(22_100), Some(22_100), None]);
        round.update(&view, 21_000);
        assert_eq!(round.queued(21_000), Some(22_100));
        // More than segment 50 acknowledged: another round.
        round.update(&View { snd_una: 51, snd_nxt: 90, ..view }, 30_000);
        assert_eq!(round.queued(21_000), None);
    }

    #[test]
    fn an_increase_is_due_evenly_over_its_time() {
        let (mut spread, over) = (Spread::begin(Time::from_millis(100)), Time::from_millis(40));
        // Ten packets in 40 ms are one in 4 ms: two after 10 ms, and the half that is left makes one 2 ms later.
        let due = [110, 112, 112, 115].map(|ms| spread.due(Time::from_millis(ms), 14_480, 1_448, over));
        assert_eq!(due, [2, 1, 0, 0]);
        // A pause longer than that adds all of it, once: with three quarters of one left over.
        assert_eq!(spread.due(Time::from_secs(9), 14_480, 1_448, over), 10);
    }
}
