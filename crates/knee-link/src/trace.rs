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
        let round = now.as_nanos() / self.period.as_nanos();
        if round > self.round + 1 {
            (self.round, self.index, self.credit) = (round - 1, 0, self.quantum);
        }
        while self.current() < now {
            self.advance();
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

    /// Bits it could have carried in `[0, until)`.
    pub(crate) fn offered_bits(&self, until: Time) -> u128 {
        let rounds = until.as_nanos() / self.period.as_nanos();
        let rest = until - self.period * rounds;
        let count = rounds * self.at.len() as u64 + self.at.partition_point(|&t| t < rest) as u64;
        u128::from(count) * 8 * u128::from(self.quantum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn offered_bits_are_those_of_the_opportunities_before() {
        let trace = Trace::new(&[0, 5, 5, 10], 14);
        let full = 8 * 1514;
        for (until, count) in [(0, 0), (1, 1), (5, 1), (6, 3), (10, 4), (11, 5), (20, 8), (26, 11)] {
            assert_eq!(trace.offered_bits(ms(until)), count * full, "{until} ms");
        }
    }
}
