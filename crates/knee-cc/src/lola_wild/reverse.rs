//! The queue of the ACKs' way, by TCP's timestamps: it is in the RTT, and not ours (RFC 6817, 2.1; TCP-LP).
//!
//! With `B = now - TSval`, the delay of the ACKs' way plus the unknown offset of the receiver's clock, and
//! `F = RTT - B`, the rest of the RTT less the same offset:
//!
//! `queue = B - least B - 1 ms`, at least 0, where timestamps count milliseconds: `B` is up to 1 ms too large.
//!
//! What limits it:
//!
//! - **Clocks that drift apart.** A receiver's clock that is slow makes `B` grow, which would hide the flow's own
//!   queue; `F` falls by as much. So what `F` falls below its least raises the least `B`, by at most 200 ppm of the
//!   time: the drift that it follows, once per time in which the flow's own queue is empty. Without that, 100 ppm are
//!   1 ms in 10 s. Where the other way is never empty and the receiver's clock is fast, its queue is found too short by
//!   the drift.
//! - **Delayed ACKs** make `F` larger and not `B`: the TSval is of the time when the ACK left. So the echo (TSecr),
//!   which is of the oldest segment, is not used.
//! - **A clock that does not count milliseconds**, as RFC 7323 allows: a slower one makes `B` exceed the RTT, which no
//!   delay does, and then nothing is left out any more. A faster one makes `B` fall, which leaves nothing out.

use knee_core::Time;

/// Timestamps are not trusted for so long.
const TRIAL: Time = Time::from_secs(1);
/// The most by which `B` is too large, us.
const GRAIN: i64 = 1_000;
/// The least B follows a drift of one in this many.
const DRIFT: u64 = 5_000;

/// The first ACK with a timestamp.
#[derive(Clone, Copy, Debug)]
struct First {
    now: Time,
    tsval: u32,
}

/// The queue of the ACKs' way. In microseconds, relative to the first ACK.
#[derive(Clone, Copy, Debug)]
pub struct Reverse {
    first: Option<First>,
    /// Least `B`.
    back: i64,
    /// Least `F`.
    forth: i64,
    /// The sum by which the least `B` was raised.
    raised: i64,
    /// The clock counts something else.
    unusable: bool,
}

impl Reverse {
    /// No ACK came yet.
    pub const NEW: Self = Self { first: None, back: 0, forth: 0, raised: 0, unusable: false };

    /// The part of an RTT of `rtt` us that is a queue of the ACKs' way, us.
    pub fn queue(&mut self, now: Time, rtt: u64, tsval: Option<u32>) -> u64 {
        let Some(tsval) = tsval else { return 0 };
        let rtt = rtt.cast_signed();
        let Some(first) = self.first else {
            self.first = Some(First { now, tsval });
            self.forth = rtt;
            return 0;
        };
        let passed = now.saturating_sub(first.now);
        let there = i64::from(tsval.wrapping_sub(first.tsval).cast_signed()) * 1_000;
        let back = passed.as_micros().cast_signed() - there;
        let forth = rtt - back;
        if forth < self.forth {
            let most = (passed.as_micros() / DRIFT).cast_signed() - self.raised;
            let drift = (self.forth - forth).min(most.max(0));
            (self.back, self.raised, self.forth) = (self.back + drift, self.raised + drift, forth);
        }
        self.back = self.back.min(back);
        let queue = (back - self.back - GRAIN).max(0);
        self.unusable |= queue > rtt;
        if self.unusable || passed < TRIAL { 0 } else { queue.cast_unsigned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::View;

    /// A path of 20 ms there and back, and a receiver whose clock is `ppm` slow. An ACK each millisecond.
    struct Path {
        reverse: Reverse,
        ms: u64,
        ppm: u64,
    }

    impl Path {
        fn new(ppm: u64) -> Self {
            Self { reverse: Reverse::NEW, ms: 1_000, ppm }
        }

        /// For so long, with queues of the data's way and of the ACKs', us; the least and the greatest found in the
        /// last half.
        fn during(&mut self, ms: u64, there: impl Fn(u64) -> u64, back: impl Fn(u64) -> u64) -> (u64, u64) {
            let mut found = (u64::MAX, 0);
            for k in 0..ms {
                self.ms += 1;
                let arrives = self.ms * 1_000 + 777;
                let left = arrives - 10_000 - back(k);
                let clock = 12_345_678 + left - left * self.ppm / 1_000_000;
                let rtt = 20_000 + there(k) + back(k);
                let queue = self.reverse.queue(Time::from_micros(arrives), rtt, Some((clock / 1_000) as u32));
                if k >= ms / 2 {
                    found = (found.0.min(queue), found.1.max(queue));
                }
            }
            found
        }
    }

    #[test]
    fn an_empty_way_has_no_queue_and_the_datas_queue_is_none() {
        assert_eq!(Path::new(0).during(5_000, |_| 0, |_| 0), (0, 0));
        let mut path = Path::new(0);
        path.during(2_000, |_| 0, |_| 0);
        assert_eq!(path.during(5_000, |k| k * 20, |_| 0), (0, 0));
    }

    #[test]
    fn a_queue_of_the_acks_is_found_to_a_millisecond() {
        let mut path = Path::new(0);
        path.during(2_000, |_| 0, |_| 0);
        let (least, most) = path.during(60_000, |_| 3_000, |_| 150_000);
        assert!(least >= 149_000 && most <= 150_000, "{least} {most}");
        assert_eq!(path.during(2_000, |_| 0, |_| 0), (0, 0));
    }

    /// 100 ppm are 60 ms in ten minutes. The flow's own queue is empty once in two seconds.
    #[test]
    fn a_slow_clock_hides_no_queue_of_the_flow() {
        let mut path = Path::new(100);
        let (least, most) = path.during(600_000, |k| k % 2_000 * 5, |_| 0);
        assert!(least == 0 && most <= 200, "{most}");
    }

    #[test]
    fn a_clock_of_ten_milliseconds_is_found_out() {
        let mut reverse = Reverse::NEW;
        for ms in 0..10_000u64 {
            let queue = reverse.queue(Time::from_millis(ms), 40_000, Some((ms / 10) as u32));
            assert_eq!(queue, 0, "{ms}");
        }
        assert!(reverse.unusable);
    }

    /// At 70 s the clock shows 70001. An ACK that left 10 ms before has 69991, one of 5 s before 65001, below 2^16.
    #[test]
    fn a_whole_timestamp_follows_from_its_lower_half() {
        for (half, whole) in [(4_455, 69_991), (65_001, 65_001), (4_465, 70_001)] {
            let view = View { now: Time::from_secs(70), tsval_half: Some(half), ..View::INITIAL };
            assert_eq!(view.tsval(), Some(whole));
        }
        assert_eq!(View::INITIAL.tsval(), None);
    }

    #[test]
    fn without_timestamps_nothing_is_left_out() {
        let mut reverse = Reverse::NEW;
        assert_eq!(reverse.queue(Time::from_secs(5), 40_000, None), 0);
    }
}
