//! Hybrid slow start as in Linux's CDG: ends slow start by the length of an ACK train or by the delay.
//!
//! Source: Ha, Rhee, "Taming the Elephants: New TCP Slow Start", Computer Networks 55(9), 2011; unlike CUBIC's it works
//! at every window, with a clock of microseconds, and starts a train anew where the window did not limit sending.

use crate::Ack;
use knee_core::Time;
use knee_core::convert::non_negative;

/// ACKs further apart than this do not belong to one train.
const TRAIN_GAP: Time = Time::from_millis(3);
/// Least threshold, in microseconds.
const LEAST_DELAY: i64 = 125;
/// Samples of a round trip before its delay counts.
const SAMPLES: u8 = 8;

#[derive(Clone)]
pub(super) struct Hystart {
    /// Least RTT since the start, in microseconds; 0 before the first one.
    delay_min: i64,
    /// First and last ACK of the train.
    train: Option<(Time, Time)>,
    /// Samples in this round trip, counted up to [`SAMPLES`].
    samples: u8,
}

impl Hystart {
    pub const fn new() -> Self {
        Self { delay_min: 0, train: None, samples: 0 }
    }

    pub const fn next_round(&mut self) {
        self.train = None;
        self.samples = 0;
    }

    /// Returns true if slow start should end with this ACK; `rtt_min` is the least RTT of the round trip so far.
    pub fn ends_slow_start(&mut self, ack: &Ack, rtt_min: i64, by_train: bool, by_delay: bool) -> bool {
        self.delay_min = match (self.delay_min, rtt_min) {
            (0, rtt) => rtt,
            (delay, 0) => delay,
            (delay, rtt) => delay.min(rtt),
        };
        if self.delay_min == 0 {
            return false;
        }
        (by_train && self.train_is_long(ack)) || (by_delay && self.delay_is_long(rtt_min))
    }

    /// True if ACKs have followed closely for half the least RTT.
    fn train_is_long(&mut self, ack: &Ack) -> bool {
        let now = ack.view.now;
        match self.train {
            Some((first, last)) if ack.cwnd_limited => {
                if now < last.saturating_add(TRAIN_GAP) {
                    self.train = Some((first, now));
                    let half = (self.delay_min / 2).max(LEAST_DELAY);
                    return now > first.saturating_add(Time::from_micros(non_negative(half)));
                }
            }
            _ => self.train = Some((now, now)),
        }
        false
    }

    /// True if this round trip's least RTT exceeds the least ever by an eighth.
    fn delay_is_long(&mut self, rtt_min: i64) -> bool {
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        rtt_min > (self.delay_min + self.delay_min / 8).max(LEAST_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{View, testing};

    fn at(us: u64) -> Ack<'static> {
        let ack = testing::ack_up_to(1, 100, 40_000);
        Ack { view: testing::lent(View { now: Time::from_micros(us), ..*ack.view }), ..ack }
    }

    #[test]
    fn a_train_of_half_the_least_rtt_ends_slow_start_unless_it_has_a_gap() {
        let mut hystart = Hystart::new();
        let mut ends = |us| hystart.ends_slow_start(&at(us), 40_000, true, false);
        assert!((0..=20).all(|ms| !ends(1_000 * (ms + 1))));
        assert!(ends(21_001));
        let mut gap = Hystart::new();
        assert!([0, 1_000, 4_000, 30_000].iter().all(|&us| !gap.ends_slow_start(&at(us), 40_000, true, false)));
    }

    #[test]
    fn a_ninth_sample_more_than_an_eighth_above_the_least_ends_slow_start() {
        let mut hystart = Hystart::new();
        hystart.delay_min = 40_000;
        let mut ends = |rtt| hystart.ends_slow_start(&at(0), rtt, false, true);
        assert!((0..8).all(|_| !ends(45_001)));
        assert!(!ends(45_000) && ends(45_001));
    }
}
