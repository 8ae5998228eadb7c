//! Recorded delivery opportunities, as mahimahi replays them: each carries a full packet, and what is left of one when
//! nothing waits is lost.

use crate::medium::{Capacity, Frame, Medium, Port};
use knee_core::packet::MTU;
use knee_core::{Rate, Time};

/// Delivery opportunities that repeat.
#[derive(Clone)]
pub struct Trace {
    /// Times within one round, ascending.
    at: Vec<Time>,
    /// Length of a round.
    period: Time,
    round: u64,
    index: usize,
    /// Bytes an opportunity carries.
    quantum: u64,
    /// Bytes the current opportunity has left.
    credit: u64,
    /// The packet being sent, and its bytes not yet sent.
    in_service: Option<(Frame, u64)>,
    /// True if nothing waited when it was last asked.
    idle: bool,
}

impl Trace {
    /// Opportunities at these milliseconds, ascending, which repeat after the last; each carries a full packet and the
    /// link's `overhead`.
    pub fn new(ms: &[u64], overhead: u32) -> Self {
        let period = Time::from_millis(ms.last().copied().unwrap_or(1).max(1));
        let at = ms.iter().map(|&t| Time::from_millis(t)).collect();
        let quantum = u64::from(MTU) + u64::from(overhead);
        Self { at, period, round: 0, index: 0, quantum, credit: quantum, in_service: None, idle: true }
    }

    /// The current opportunity.
    fn current(&self) -> Time {
        self.at[self.index] + self.period * self.round
    }

    fn advance(&mut self) {
        self.credit = self.quantum;
        self.index += 1;
        if self.index == self.at.len() {
            (self.index, self.round) = (0, self.round + 1);
        }
    }

    /// The first opportunity not before `now`.
    fn skip_to(&mut self, now: Time) -> Time {
        if self.current() < now {
            let period = self.period.as_nanos();
            let (mut round, mut rest) = (now.as_nanos() / period, now.as_nanos() % period);
            if rest == 0 {
                // The last one of a round comes as the next begins.
                (round, rest) = (round - 1, period);
            }
            let index = self.at.partition_point(|at| at.as_nanos() < rest);
            (self.round, self.index, self.credit) = (round, index, self.quantum);
        }
        self.current()
    }

    /// Sends what the current opportunity carries of `rest` bytes. Gives how many are left.
    fn carry(&mut self, rest: u64) -> u64 {
        if rest > self.credit {
            let rest = rest - self.credit;
            self.advance();
            return rest;
        }
        self.credit -= rest;
        if self.credit == 0 {
            self.advance();
        }
        0
    }

    /// Bytes that the opportunities before `now`, and what has been used of those `now`, could have carried.
    fn offered_bytes(&self, now: Time) -> u64 {
        let len = self.at.len() as u64;
        // The last of a round may be at the time of the first of the next.
        let before = now.as_nanos().checked_sub(1).map_or(0, |last| {
            let rest = Time::from_nanos(last % self.period.as_nanos());
            last / self.period.as_nanos() * len + self.at.partition_point(|&t| t <= rest) as u64
        });
        let used = if self.current() < now { 0 } else { self.quantum - self.credit };
        before.max(self.round * len + self.index as u64) * self.quantum + used
    }
}

impl Medium for Trace {
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time {
        if self.idle {
            // All of a burst that comes now enters the queue before any of it leaves.
            self.idle = false;
            return self.skip_to(now);
        }
        let taken = self.in_service.take().or_else(|| port.take().map(|frame| (frame, frame.bytes)));
        let Some((frame, rest)) = taken else {
            self.idle = true;
            return Time::MAX;
        };
        let left = self.carry(rest);
        port.carry((rest - left) * 8, now, now);
        if left > 0 {
            self.in_service = Some((frame, left));
            return self.current();
        }
        port.leave(frame, now);
        self.idle = port.backlog().packets == 0;
        if self.idle { Time::MAX } else { self.current() }
    }

    fn capacity(&self, now: Time) -> Capacity {
        Capacity::Offered(u128::from(self.offered_bytes(now)) * 8)
    }

    fn set_rate(&mut self, _rate: Rate, now: Time) -> Time {
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn opportunities_repeat_and_what_nobody_uses_is_lost() {
        let mut trace = Trace::new(&[0, 2, 2, 10], 0);
        assert_eq!(trace.skip_to(ms(1)), ms(2));
        assert_eq!(trace.carry(1000), 0);
        assert_eq!(trace.current(), ms(2), "500 bytes are left");
        assert_eq!(trace.carry(500), 0);
        assert_eq!(trace.carry(1500), 0);
        assert_eq!(trace.current(), ms(10), "both at 2 ms are used up");
        assert_eq!(trace.skip_to(ms(11)), ms(12));
        assert_eq!(trace.carry(1400), 0);
        assert_eq!(trace.skip_to(ms(1_000_005)), ms(1_000_010));
        assert_eq!(trace.carry(1500), 0, "the 100 bytes from before are lost");
        assert_eq!(trace.current(), ms(1_000_010), "the last of one round and the first of the next are at one time");
    }

    #[test]
    fn a_packet_may_take_several_opportunities() {
        let mut trace = Trace::new(&[1, 2, 3], 14);
        assert_eq!(trace.carry(1514 + 1000), 1000);
        assert_eq!(trace.current(), ms(2));
        assert_eq!(trace.carry(1000), 0);
        assert_eq!(trace.credit, 514);
    }

    #[test]
    fn offered_bytes_are_those_of_the_opportunities_before_and_of_what_is_used_now() {
        let mut trace = Trace::new(&[0, 5, 5, 10], 14);
        for (until, count) in [(0, 0), (1, 1), (5, 1), (6, 3), (10, 3), (11, 5), (20, 7), (26, 11)] {
            assert_eq!(trace.offered_bytes(ms(until)), count * 1514, "{until} ms");
        }
        assert_eq!(trace.carry(1000), 0);
        assert_eq!(trace.offered_bytes(ms(0)), 1000);
        trace.skip_to(ms(5));
        assert_eq!(trace.carry(1514), 0);
        assert_eq!((trace.offered_bytes(ms(5)), trace.offered_bytes(ms(6))), (2 * 1514, 3 * 1514));
    }

    proptest! {
        #[test]
        fn a_trace_skips_to_the_opportunity_that_one_by_one_would_reach(
            mut ms in prop::collection::vec(0u64..40, 0..12),
            last in 40u64..50,
            waits in prop::collection::vec((0u64..200_000_000, 0u64..4), 1..20),
        ) {
            ms.sort_unstable();
            ms.push(last);
            let (mut skips, mut walks, mut now) = (Trace::new(&ms, 14), Trace::new(&ms, 14), Time::ZERO);
            for (wait, round) in waits {
                now += Time::from_nanos(if round == 0 { wait } else { wait / 10_000_000 * 10_000_000 });
                while walks.current() < now {
                    walks.advance();
                }
                prop_assert_eq!(skips.skip_to(now), walks.current());
                prop_assert_eq!((skips.round, skips.index, skips.credit), (walks.round, walks.index, walks.credit));
                // What is left of an opportunity that is not over stays.
                (skips.credit, walks.credit) = (7, 7);
            }
        }
    }
}
