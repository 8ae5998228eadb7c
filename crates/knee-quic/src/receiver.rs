//! The receiving end: which packets arrived, and when an ACK leaves.
//!
//! An ACK leaves at once with every `ack_every`-th packet that elicits one, with a packet out of order and with a CE
//! mark; else `max_ack_delay` after the first packet that waits for it (RFC 9000, 13.2). The ranges of ACKs are
//! bounded: the lowest are forgotten, and packets below them no longer accepted (13.2.3). The receiver sends nothing
//! that elicits an ACK, so it learns of no ACK that arrived.

mod streams;

use crate::config::{Config, Settings};
use crate::frame::{AckFrame, DELAY_UNIT, EcnCounts, Mark};
use crate::frames::Frames;
use crate::ranges::{Range, Ranges};
use crate::sender::Outgoing;
use knee_core::Time;
use knee_core::convert::saturating_index;
use knee_tcp::timer::Timer;
use std::sync::Arc;

/// Most packets that one ACK is for where a number of them is for an RTT: picoquic's.
const MOST_OF_AN_RTT: u32 = 64;

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its number.
    pub number: u64,
    /// Place of its data in the stream.
    pub offset: u64,
    /// Bytes of data; 0: a PING.
    pub len: u16,
    /// It carries frames that elicit an ACK.
    pub eliciting: bool,
    /// Its ECN field.
    pub mark: Mark,
}

impl Arrival {
    /// Packet `number` of a burst.
    pub const fn of(burst: &Outgoing, number: u64, mark: Mark) -> Self {
        let offset = burst.offset + (number - burst.first) * burst.len as u64;
        Self { number, offset, len: burst.len, eliciting: true, mark }
    }
}

/// The receiving end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Packets that arrived, from `floor` on.
    received: Ranges,
    /// Their ranges but the last, as ACKs share them, their bytes there, and whether they have changed since.
    below: Option<Arc<[Range]>>,
    below_size: u16,
    stale: bool,
    /// Packets below this number are no longer told apart, and discarded.
    floor: u64,
    /// When the largest packet arrived.
    largest_at: Time,
    /// The largest packet that elicited an ACK, plus one.
    largest_eliciting: u64,
    /// The largest packet of the last ACK, plus one.
    reported: u64,
    /// Packets that elicited an ACK since the last one.
    unacknowledged: u32,
    /// RTT of the handshake; zero until that is known.
    pub rtt: Time,
    /// Start of an RTT, packets that arrived in it, and in the one before.
    round: (Time, u32, u32),
    /// The timer of a delayed ACK.
    pub delayed: Timer,
    counts: EcnCounts,
    /// The packet before had a CE mark.
    after_mark: bool,
    /// Bytes of the stream that arrived, and how many they are.
    data: Ranges,
    delivered: u64,
    /// The streams of a connection that has several at once.
    streams: Option<Box<streams::Streams>>,
    /// Packets that arrived twice, or too late to be told apart.
    duplicates: u64,
}

impl Receiver {
    /// Takes a packet. Gives the ACK that leaves at once.
    pub fn on_packet(&mut self, packet: &Arrival, now: Time, config: &Config) -> Option<AckFrame> {
        let number = packet.number;
        //= RFC 9000, 12.3
        //# A receiver MUST discard a newly unprotected packet unless it is certain that it has not processed another
        //# packet with the same packet number from the same packet number space.
        let follows = number == self.expected();
        if number < self.floor || self.received.insert(number, number + 1) == 0 {
            self.duplicates += 1;
            return None;
        }
        if self.received.last() == Some(number) {
            self.largest_at = now;
        }
        self.delivered += self.data.insert(packet.offset, packet.offset + u64::from(packet.len));
        match packet.mark {
            Mark::NotEct => {}
            Mark::Ect0 => self.counts.ect0 += 1,
            Mark::Ect1 => self.counts.ect1 += 1,
            Mark::Ce => self.counts.ce += 1,
        }
        let after_mark = std::mem::replace(&mut self.after_mark, packet.mark == Mark::Ce);
        if !follows {
            self.stale = true;
            self.bound(config);
        }
        //= RFC 9000, 13.2.1
        //# An endpoint MUST NOT send a non-ack-eliciting packet in response to a non-ack-eliciting packet, even if
        //# there are packet gaps that precede the received packet.
        if !packet.eliciting {
            return None;
        }
        self.unacknowledged += 1;
        let expected = self.largest_eliciting;
        self.largest_eliciting = expected.max(number + 1);
        //= RFC 9000, 13.2.2
        //# A receiver SHOULD send an ACK frame after receiving at least two ack-eliciting packets.
        let every = if config.varies_acks { self.every(number, now, config) } else { config.settings.ack_every };
        let enough = self.unacknowledged >= every;
        //= RFC 9000, 13.2.1
        //# Similarly, packets marked with the ECN Congestion Experienced (CE) codepoint in the IP header SHOULD be
        //# acknowledged immediately, to reduce the peer's response time to congestion events.
        let marked = packet.mark == Mark::Ce && (every <= 2 || !after_mark);
        if enough || marked || self.out_of_order(number, expected, config) {
            return self.ack(now);
        }
        if self.delayed == Timer::OFF {
            //= RFC 9000, 13.2.1
            //# ack-eliciting packets MUST be acknowledged at least once within the maximum delay an endpoint
            //# communicated using the max_ack_delay transport parameter; see Section 18.2.
            let delay = if config.varies_acks { self.delay(number, config) } else { config.settings.max_ack_delay };
            self.delayed = Timer::at(now.saturating_add(delay));
        }
        None
    }

    /// With how many packets an ACK leaves, when this one arrives.
    #[cold]
    fn every(&mut self, number: u64, now: Time, config: &Config) -> u32 {
        let Settings { ack_every, ack_every_later, ack_later_from, acks_per_rtt, .. } = config.settings;
        if acks_per_rtt > 0 {
            let (since, packets, before) = self.round;
            self.round =
                if now >= since.saturating_add(self.rtt) { (now, 1, packets) } else { (since, packets + 1, before) };
            return self.round.2.div_ceil(acks_per_rtt).clamp(ack_every, MOST_OF_AN_RTT.max(ack_every));
        }
        let is_late = ack_every_later > 0 && number >= u64::from(ack_later_from);
        if is_late { ack_every_later } else { ack_every }
    }

    /// How long the ACK of this packet waits at most.
    #[cold]
    fn delay(&self, number: u64, config: &Config) -> Time {
        let Settings { max_ack_delay, ack_later_from, ack_delay_rtt, granularity, .. } = config.settings;
        if ack_delay_rtt == 0.0 || self.rtt == Time::ZERO || number < u64::from(ack_later_from) {
            return max_ack_delay;
        }
        config.ack_delay_rtt.of_time(self.rtt).max(granularity).min(max_ack_delay)
    }

    /// True if packet `number` is so far out of order that an ACK leaves at once; `expected` is the number after the
    /// largest before.
    ///
    /// With a threshold above 1 that is the case once a packet is missing by as many, and the last ACK did not let the
    /// sender find it lost, or if it let the sender find this one lost (draft-ietf-quic-ack-frequency, "Response to
    /// Out-of-Order Packets").
    fn out_of_order(&self, number: u64, expected: u64, config: &Config) -> bool {
        let threshold = u64::from(config.settings.reordering);
        if threshold <= 1 {
            //= RFC 9000, 13.2.1
            //# In order to assist loss detection at the sender, an endpoint SHOULD generate and send an ACK frame
            //# without delay when it receives an ack-eliciting packet either:
            let gap = number > expected && self.received.first_missing(expected) < number;
            return threshold == 1 && (number + 1 < self.largest_eliciting || gap);
        }
        let found = self.reported.saturating_sub(threshold).max(self.floor);
        let missing = self.received.first_missing(found);
        missing.saturating_add(threshold) < self.largest_eliciting || number + threshold < self.reported
    }

    /// Forgets the lowest ranges where there are more than an ACK has.
    fn bound(&mut self, config: &Config) {
        //= RFC 9000, 13.2.3
        //# A receiver limits the number of ACK Ranges (Section 19.3.1) it remembers and sends in ACK frames, both to
        //# limit the size of ACK frames and to avoid resource exhaustion.
        while self.received.len() > saturating_index(u64::from(config.settings.ack_ranges)) {
            //= RFC 9000, 13.2.3
            //# A receiver MUST retain an ACK Range unless it can ensure that it will not subsequently accept packets
            //# with numbers in that range.
            self.floor = self.received.drop_first().unwrap_or(self.floor);
        }
    }

    /// The timer of the delayed ACK fired: the ACK that leaves.
    pub fn on_timer(&mut self, now: Time) -> Option<AckFrame> {
        if now < self.delayed.not_before() {
            return None;
        }
        self.ack(now)
    }

    /// An ACK of all that arrived, which leaves now; none before the first packet.
    pub fn ack(&mut self, now: Time) -> Option<AckFrame> {
        self.delayed = Timer::OFF;
        let (&top, below) = self.received.as_slice().split_last()?;
        let largest = top.1 - 1;
        if std::mem::take(&mut self.stale) {
            self.below = (!below.is_empty()).then(|| below.into());
            self.below_size = AckFrame::size_below(below, top);
        }
        self.reported = largest + 1;
        //= RFC 9000, 13.2.1
        //# Since packets containing only ACK frames are not congestion controlled, an endpoint MUST NOT send more than
        //# one such packet in response to receiving an ack-eliciting packet.
        self.unacknowledged = 0;
        //= RFC 9000, 13.4.1
        //# Even if an endpoint does not set an ECT field in packets it sends, the endpoint MUST provide feedback about
        //# ECN markings it receives, if these are accessible.
        let ecn = (self.counts != EcnCounts::default()).then_some(self.counts);
        //= RFC 9000, 13.2.5
        //# An endpoint measures the delays intentionally introduced between the time the packet with the largest packet
        //# number is received and the time an acknowledgment is sent.
        let delay = now.saturating_sub(self.largest_at).floor_to(DELAY_UNIT);
        //= RFC 9000, 13.2.5
        //# When the measured acknowledgment delay is larger than its max_ack_delay, an endpoint SHOULD report the
        //# measured delay.
        //= RFC 9000, 13.2.3
        //# A receiver SHOULD include an ACK Range containing the largest received packet number in every ACK frame.
        Some(AckFrame { top, below: self.below.clone(), below_size: self.below_size, delay, ecn })
    }

    /// Takes a packet with frames of several streams, as [`Receiver::on_packet`].
    pub fn on_frames(&mut self, packet: &Arrival, frames: &Frames, now: Time, config: &Config) -> Option<AckFrame> {
        let duplicates = self.duplicates;
        let ack = self.on_packet(packet, now, config);
        if self.duplicates == duplicates {
            self.delivered += self.streams.get_or_insert_default().take(frames);
        }
        ack
    }

    /// Streams that have come as a whole since the last call.
    pub fn take_complete(&mut self) -> Vec<u64> {
        self.streams.as_mut().map_or_else(Vec::new, |streams| streams.take_complete())
    }

    /// Bytes of the stream that arrived in order.
    pub fn in_order(&self) -> u64 {
        self.data.first_missing(0)
    }

    /// Bytes of streams that arrived, in any order; each counts once.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// True if an ACK waits.
    pub fn waits(&self) -> bool {
        self.delayed != Timer::OFF
    }

    /// The number after the largest packet that arrived.
    pub fn expected(&self) -> u64 {
        self.received.last().map_or(0, |last| last + 1)
    }

    /// Packets that arrived twice, or below the ranges that are remembered.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

#[cfg(test)]
mod tests;
