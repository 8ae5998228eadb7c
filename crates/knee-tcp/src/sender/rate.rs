//! Samples of the delivery rate (tcp_rate.c; draft-cheng-iccrg-delivery-rate-estimation).

use super::ack::Findings;
use super::micros::Micros;
use super::ring::Transmission;
use super::{Sender, flags};
use knee_cc::{RateSample, View};
use knee_core::Time;
use knee_core::convert::{count_u32, low_u32};
use knee_core::packet::MSS;

/// Delivery state at the departure of a transmission, for the rate sample of its ACK (tcp_rate_skb_sent).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateStart {
    /// Start of the send interval.
    pub first_tx: Micros,
    /// Start of the ACK interval.
    pub delivered_at: Micros,
    /// Packets delivered at that time.
    pub delivered: u64,
    /// Packets delivered with a mark at that time, lower half.
    pub delivered_ce: u32,
    /// Packets lost at that time, lower half.
    pub lost: u32,
    /// Packets in flight just after sending.
    pub in_flight: u32,
    /// The application limited sending.
    pub app_limited: bool,
}

impl RateStart {
    /// The rate sample since this state, which a transmission took along at `sent`, of an ACK at `now`: the longer of
    /// the send and the ACK interval counts.
    pub fn sample(&self, sent: Micros, now: Micros, min_rtt: Time, view: &View) -> RateSample {
        let interval = sent.since(self.first_tx).max(now.since(self.delivered_at)).time();
        // Shorter than the least RTT: a retransmission that was not needed was acknowledged.
        let valid = interval >= min_rtt || min_rtt == Time::MAX;
        RateSample {
            delivered: count_u32(view.delivered - self.delivered),
            delivered_ce: low_u32(view.delivered_ce).wrapping_sub(self.delivered_ce),
            interval: valid.then_some(interval),
            prior_delivered: self.delivered,
            prior_lost: view.lost - u64::from(low_u32(view.lost).wrapping_sub(self.lost)),
            tx_in_flight: self.in_flight,
            app_limited: self.app_limited,
            ..RateSample::NONE
        }
    }
}

/// The delivery state that the next transmission notes as its [`RateStart`], but for what the algorithm sees.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateClock {
    /// When the newest transmission left that was delivered; before, when the first of a flight did.
    pub first_tx: Micros,
    /// When it was delivered.
    pub delivered_at: Micros,
    /// Samples are limited by the application until this many packets are delivered; 0: none is.
    pub app_limited_until: u64,
}

/// The newest transmission that an ACK delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateBase {
    sent: Micros,
    /// `delivered` at that time, lower half.
    pub delivered: u32,
    /// The segment after the newest one of it.
    end: u64,
    is_retrans: bool,
}

impl Sender {
    /// Remembers the newest transmission delivered (tcp_rate_skb_delivered). True: it is this one so far.
    pub(super) fn rate_delivered(&mut self, burst: &Transmission, end: u64, segment: u8, found: &mut Findings) -> bool {
        let sent = burst.sent();
        let newer = found.rate.as_ref().is_none_or(|rate| (sent, end) > (rate.sent, rate.end));
        if newer {
            if self.needs.rate {
                self.rate_clock.first_tx = sent;
            }
            let is_retrans = segment & flags::EVER_RETRANSMITTED != 0;
            found.rate = Some(RateBase { sent, delivered: burst.delivered, end, is_retrans });
        }
        newer
    }

    /// The rate sample of this ACK (tcp_rate_gen): the longer of the send and the ACK interval counts. There is none
    /// while what was delivered is in doubt.
    pub(super) fn rate_sample(&self, found: &Findings, prior_delivered: u64, stamp: Micros) -> RateSample {
        let newest = found.rate.as_ref().filter(|_| !self.recovery.reneged);
        let (Some(RateBase { sent, is_retrans, .. }), Some(start)) = (newest, &found.start) else {
            return RateSample { delivered: count_u32(self.view.delivered - prior_delivered), ..RateSample::NONE };
        };
        let lone = found.acked == 1 && !found.sacked && !found.ece;
        self.rate_since(*sent, start, *is_retrans, lone, stamp)
    }

    /// The rate sample since `start` of the newest transmission delivered, which was sent at `sent`. `lone`: the ACK
    /// was for a single segment.
    pub(super) fn rate_since(
        &self,
        sent: Micros,
        start: &RateStart,
        is_retrans: bool,
        lone: bool,
        stamp: Micros,
    ) -> RateSample {
        RateSample {
            is_retrans,
            ack_delayed: lone && self.probably_delayed(start),
            ..start.sample(sent, stamp, self.rtt.min_rtt(), &self.view)
        }
    }

    /// A lone segment acknowledged by itself: the receiver probably waited for a second one.
    fn probably_delayed(&self, start: &RateStart) -> bool {
        self.view.snd_una == self.end
            && self.last_payload < u32::from(MSS)
            && start.delivered + 1 == self.view.delivered
    }

    pub(super) fn finish_rate(&mut self, stamp: Micros, delivered: u32) {
        if self.view.app_limited {
            self.end_app_limit();
        }
        if self.needs.rate && delivered > 0 {
            self.rate_clock.delivered_at = stamp;
        }
    }

    /// Ends the marking of what is sent where all that was limited by the application has been delivered.
    #[cold]
    pub(super) fn end_app_limit(&mut self) {
        self.view.app_limited = self.view.delivered <= self.rate_clock.app_limited_until;
    }

    /// True if an ACK in order up to `seq` ends the limit by the application, so that the algorithm's view of it
    /// changes while the ACK is taken.
    #[cold]
    pub(super) const fn ends_app_limit(&self, seq: u64) -> bool {
        self.view.delivered + (seq - self.view.snd_una) > self.rate_clock.app_limited_until
    }

    /// The delivery state that a transmission of `count` segments takes along (tcp_rate_skb_sent).
    fn rate_start(&self, count: u32) -> RateStart {
        RateStart {
            first_tx: self.rate_clock.first_tx,
            delivered_at: self.rate_clock.delivered_at,
            delivered: self.view.delivered,
            delivered_ce: low_u32(self.view.delivered_ce),
            lost: low_u32(self.view.lost),
            in_flight: self.in_flight() + count,
            app_limited: self.view.app_limited,
        }
    }

    /// Apart, so that what few algorithms need takes no room in all senders.
    #[inline(never)]
    pub(super) fn push_start(&mut self, count: u32) {
        self.rtx.push_start(self.rate_start(count));
    }

    /// Marks what is sent until all in flight is delivered as limited by the application, which writes only now though
    /// less than a segment was left to send (tcp_rate_check_app_limited).
    pub(super) fn check_app_limited(&mut self) {
        let unsent = self.end - self.view.snd_nxt;
        let starved = unsent == 0 || unsent == 1 && self.last_payload < u32::from(MSS);
        if starved && self.window_room() > 0 && self.scoreboard.lost <= self.scoreboard.retransmitted {
            self.view.app_limited = true;
            self.rate_clock.app_limited_until = (self.view.delivered + u64::from(self.in_flight())).max(1);
        }
    }
}
