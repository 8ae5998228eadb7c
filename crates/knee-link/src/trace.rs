//! Recorded delivery opportunities, as mahimahi replays them: each carries a full packet, and what is left of one when
//! nothing waits is lost.

use knee_core::packet::MTU;
use knee_core::{Packet, Time};

/// Delivery opportunities that repeat.
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
    /// The packet being sent.
    pub(crate) in_service: Option<InService>,
}

/// A packet of which a part may have been sent.
pub(crate) struct InService {
    pub(crate) packet: Packet,
    /// When it left the queue.
    pub(crate) since: Time,
    /// Bytes not yet sent.
    pub(crate) rest: u64,
}

impl Trace {
    /// Opportunities at these milliseconds, ascending, which repeat after the last; each carries a full packet and the
    /// link's `overhead`.
    pub fn new(ms: &[u64], overhead: u32) -> Self {
        let period = Time::from_millis(ms.last().copied().unwrap_or(1).max(1));
        let at = ms.iter().map(|&t| Time::from_millis(t)).collect();
        let quantum = u64::from(MTU) + u64::from(overhead);
        Self { at, period, round: 0, index: 0, quantum, credit: quantum, in_service: None }
    }

    /// The current opportunity.
    pub(crate) fn current(&self) -> Time {
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
    pub(crate) fn skip_to(&mut self, now: Time) -> Time {
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

    /// Sends what the current opportunity carries of a packet. Gives it back if it has not left.
    pub(crate) fn carry(&mut self, served: InService) -> Result<InService, ()> {
        if served.rest > self.credit {
            let rest = served.rest - self.credit;
            self.in_service = Some(InService { rest, ..served });
            self.advance();
            return Err(());
        }
        self.credit -= served.rest;
        if self.credit == 0 {
            self.advance();
        }
        Ok(served)
    }

    /// Bytes that the opportunities before `now`, and what has been used of those `now`, could have carried.
    pub(crate) fn offered_bytes(&self, now: Time) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    fn packet(bytes: u64) -> InService {
        InService { packet: Packet::default(), since: Time::ZERO, rest: bytes }
    }

    #[test]
    fn opportunities_repeat_and_what_nobody_uses_is_lost() {
        let mut trace = Trace::new(&[0, 2, 2, 10], 0);
        assert_eq!(trace.skip_to(ms(1)), ms(2));
        assert!(trace.carry(packet(1000)).is_ok());
        assert_eq!(trace.current(), ms(2), "500 bytes are left");
        assert!(trace.carry(packet(500)).is_ok());
        assert!(trace.carry(packet(1500)).is_ok());
        assert_eq!(trace.current(), ms(10), "both at 2 ms are used up");
        assert_eq!(trace.skip_to(ms(11)), ms(12));
        assert!(trace.carry(packet(1400)).is_ok());
        assert_eq!(trace.skip_to(ms(1_000_005)), ms(1_000_010));
        assert!(trace.carry(packet(1500)).is_ok(), "the 100 bytes from before are lost");
        assert_eq!(trace.current(), ms(1_000_010), "the last of one round and the first of the next are at one time");
    }

    #[test]
    fn a_packet_may_take_several_opportunities() {
        let mut trace = Trace::new(&[1, 2, 3], 14);
        assert!(trace.carry(packet(1514 + 1000)).is_err());
        assert_eq!(trace.current(), ms(2));
        let rest = trace.in_service.take().unwrap();
        assert_eq!(rest.rest, 1000);
        assert!(trace.carry(rest).is_ok());
        assert_eq!(trace.credit, 514);
    }

    #[test]
    fn offered_bytes_are_those_of_the_opportunities_before_and_of_what_is_used_now() {
        let mut trace = Trace::new(&[0, 5, 5, 10], 14);
        for (until, count) in [(0, 0), (1, 1), (5, 1), (6, 3), (10, 3), (11, 5), (20, 7), (26, 11)] {
            assert_eq!(trace.offered_bytes(ms(until)), count * 1514, "{until} ms");
        }
        assert!(trace.carry(packet(1000)).is_ok());
        assert_eq!(trace.offered_bytes(ms(0)), 1000);
        trace.skip_to(ms(5));
        assert!(trace.carry(packet(1514)).is_ok());
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
