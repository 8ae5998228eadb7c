//! Packets in flight, and delivery-rate samples from them.
//!
//! quinn says when a packet was sent only as it is acknowledged, and of lost ones only how many bytes they were. So
//! each burst leaves a record of what had been delivered when it left (Cheng et al., draft-cheng-iccrg-delivery-rate-
//! estimation), and an ACK finds it by its time.

use knee_cc::RateSample;
use knee_core::Time;
use knee_core::convert::saturating_u32;
use std::collections::VecDeque;

/// Packets delivered and lost when a burst left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentBurst {
    /// When it left.
    pub sent: Time,
    /// Bytes of it of which neither an ACK nor a loss is known.
    open: u64,
    /// Number of the packet after it; packets are counted from the start of the connection.
    pub end: u64,
    /// Packets delivered by then, and with a CE mark.
    delivered: u64,
    delivered_ce: u64,
    /// When the last of them was.
    delivered_at: Time,
    /// When the packet left whose ACK that was.
    first_sent: Time,
    /// Packets lost by then.
    lost: u64,
    /// Packets in flight with it.
    in_flight: u32,
    app_limited: bool,
}

/// Counters of a connection that a burst takes along.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Packets delivered.
    pub delivered: u64,
    /// Delivered packets that are known to carry a CE mark.
    pub delivered_ce: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets in flight, those that are leaving included.
    pub in_flight: u32,
    /// True if the application limits what is sent.
    pub app_limited: bool,
}

/// Bursts in flight in the order in which they left, and the state of rate sampling.
#[derive(Clone, Debug)]
pub struct Flight {
    bursts: VecDeque<SentBurst>,
    delivered_at: Time,
    first_sent: Time,
}

impl Flight {
    /// Nothing in flight.
    pub const fn new() -> Self {
        Self { bursts: VecDeque::new(), delivered_at: Time::ZERO, first_sent: Time::ZERO }
    }

    /// A burst of `bytes` leaves, whose last packet has the number `end - 1`. At most `most` are remembered: packets
    /// that are never acknowledged, ACKs themselves, look like any others.
    pub fn push(&mut self, sent: Time, bytes: u64, end: u64, counters: &Counters, idle: bool, most: usize) {
        if idle {
            self.first_sent = sent;
            self.delivered_at = sent;
        }
        if self.bursts.len() >= most {
            self.bursts.pop_front();
        }
        let &Counters { delivered, delivered_ce, lost, in_flight, app_limited } = counters;
        let (delivered_at, first_sent) = (self.delivered_at, self.first_sent);
        self.bursts.push_back(SentBurst {
            sent,
            open: bytes,
            end,
            delivered,
            delivered_ce,
            delivered_at,
            first_sent,
            lost,
            in_flight,
            app_limited,
        });
    }

    /// `bytes` of what was sent at `sent` have been acknowledged: its burst, where it is still known.
    pub fn acknowledge(&mut self, sent: Time, bytes: u64) -> Option<SentBurst> {
        // Mostly it is the oldest one.
        let mut i = match self.bursts.front() {
            Some(front) if front.sent == sent => 0,
            _ => self.bursts.partition_point(|burst| burst.sent < sent),
        };
        // Several may have left at the same time.
        while self.bursts.get(i).is_some_and(|burst| burst.sent == sent && burst.open == 0) {
            i += 1;
        }
        let burst = self.bursts.get_mut(i).filter(|burst| burst.sent == sent)?;
        burst.open = burst.open.saturating_sub(bytes);
        let found = *burst;
        self.drop_settled();
        Some(found)
    }

    /// `bytes` have been lost of what was sent up to `newest`: the oldest ones, as far as anybody knows.
    pub fn lose(&mut self, newest: Time, mut bytes: u64) {
        for burst in self.bursts.iter_mut().take_while(|burst| burst.sent <= newest) {
            let lost = burst.open.min(bytes);
            burst.open -= lost;
            bytes -= lost;
            if bytes == 0 {
                break;
            }
        }
        self.drop_settled();
    }

    /// Forgets what was sent before `time`: an ACK for it cannot come any more.
    pub fn forget_before(&mut self, time: Time) {
        while self.bursts.front().is_some_and(|burst| burst.sent < time) {
            self.bursts.pop_front();
        }
    }

    fn drop_settled(&mut self) {
        while self.bursts.front().is_some_and(|burst| burst.open == 0) {
            self.bursts.pop_front();
        }
    }

    /// The rate sample of an ACK at `now` whose newest packet was one of `burst`: the longer of the send and the ACK
    /// interval counts. There is none where that is shorter than the least RTT.
    pub fn sample(&mut self, burst: &SentBurst, now: Time, min_rtt: Time, counters: &Counters) -> RateSample {
        self.first_sent = burst.sent;
        self.delivered_at = now;
        let sending = burst.sent.saturating_sub(burst.first_sent);
        let interval = sending.max(now.saturating_sub(burst.delivered_at));
        RateSample {
            delivered: saturating_u32(counters.delivered - burst.delivered),
            delivered_ce: saturating_u32(counters.delivered_ce - burst.delivered_ce),
            interval: (interval >= min_rtt && interval > Time::ZERO).then_some(interval),
            prior_delivered: burst.delivered,
            prior_lost: burst.lost,
            tx_in_flight: burst.in_flight,
            app_limited: burst.app_limited,
            is_retrans: false,
            ack_delayed: false,
        }
    }
}
