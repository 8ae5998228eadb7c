//! A token bucket, counted in time at its rate as Linux's htb does (net/sched/sch_htb.c).

use crate::medium::{Capacity, Medium, Port};
use crate::wire::{Wire, bits_in};
use knee_core::{Bytes, Rate, Time};

/// Tokens for `depth` at the most; they may go below zero by a packet.
#[derive(Clone)]
pub struct TokenBucket {
    wire: Wire,
    /// Depth, in time at the rate.
    depth: Time,
    /// When the bucket was, or will be, full.
    full_at: Time,
}

impl TokenBucket {
    /// A full bucket of `rate`, which is not zero, that holds `burst` bytes.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        Self { wire: Wire::new(rate), depth: rate.time_for(burst), full_at: Time::ZERO }
    }

    /// When a packet may leave.
    fn ready_at(&self, now: Time) -> Time {
        self.full_at.saturating_sub(self.depth).max(now)
    }

    /// Tokens missing until it is full, in time.
    const fn missing(&self, now: Time) -> Time {
        self.full_at.saturating_sub(now)
    }

    /// Takes the tokens for `bytes`; they may go below zero.
    fn take(&mut self, bytes: u64, now: Time) {
        self.full_at = self.full_at.max(now) + self.wire.time_for(bytes);
    }

    /// The tokens it lacks and its depth are bytes: at another rate they take another time.
    fn change_rate(&mut self, rate: Rate, now: Time) {
        let old = self.wire.rate();
        self.full_at = now + self.missing(now).mul_div(old, rate.as_bps());
        self.depth = self.depth.mul_div(old, rate.as_bps());
        self.wire = Wire::new(rate);
    }
}

impl Medium for TokenBucket {
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time {
        // A lower rate may have pushed back when there are tokens.
        if self.ready_at(now) > now {
            return self.ready_at(now);
        }
        let Some(frame) = port.take() else { return Time::MAX };
        self.take(frame.bytes, now);
        port.carry(frame.bytes * 8, now, now);
        port.leave(frame, now);
        if port.backlog().packets > 0 { self.ready_at(now) } else { Time::MAX }
    }

    fn capacity(&self, now: Time) -> Capacity {
        let bits = |span| bits_in(self.wire.rate(), span).cast_signed();
        Capacity::Rate { bps: self.wire.rate(), saved: bits(self.depth) - bits(self.missing(now)) }
    }

    fn set_rate(&mut self, rate: Rate, now: Time) -> Time {
        self.change_rate(rate, now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_millis(1);

    /// 8 Mbit/s are 1000 bytes in a millisecond; the bucket holds three of these.
    fn bucket() -> TokenBucket {
        TokenBucket::new(Rate::from_mbps(8), Bytes(3000))
    }

    #[test]
    fn it_starts_full() {
        // As Linux's: htb_change_class gives a new class the tokens of its whole buffer, tbf_init does likewise.
        let mut bucket = bucket();
        bucket.take(3000, Time::ZERO);
        assert_eq!(bucket.ready_at(Time::ZERO), Time::ZERO, "all three fit at once");
        bucket.take(1000, Time::ZERO);
        assert_eq!(bucket.ready_at(Time::ZERO), MS);
    }

    #[test]
    fn it_saves_up_to_its_depth_and_no_more() {
        let (mut bucket, now) = (bucket(), MS * 10);
        for _ in 0..3 {
            bucket.take(1000, now);
        }
        assert_eq!(bucket.ready_at(now), now, "three fit");
        bucket.take(1000, now);
        assert_eq!(bucket.ready_at(now), now + MS, "the fourth is a debt");
        // Two milliseconds after the debt is paid there are tokens for two.
        let later = now + MS * 3;
        bucket.take(2000, later);
        assert_eq!(bucket.ready_at(later), later);
        bucket.take(1, later);
        assert_eq!(bucket.ready_at(later), later + Time::from_micros(1));
    }

    #[test]
    fn another_rate_keeps_debt_and_depth_in_bytes() {
        let (mut bucket, now) = (bucket(), MS * 10);
        bucket.take(5000, now); // 2000 bytes of debt
        assert_eq!(bucket.ready_at(now), now + MS * 2);
        bucket.set_rate(Rate::from_mbps(4), now);
        assert_eq!((bucket.wire.rate(), bucket.ready_at(now)), (4_000_000, now + MS * 4));
        // Long after, 3000 bytes are saved, and no more.
        let later = now + MS * 100;
        bucket.take(3000, later);
        assert_eq!(bucket.ready_at(later), later);
        bucket.take(1000, later);
        assert_eq!(bucket.ready_at(later), later + MS * 2);
    }
}
