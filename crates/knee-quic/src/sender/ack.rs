//! The way of an ACK (RFC 9002, A.7).

use super::{Outgoing, Sender, Violation};
use crate::config::Config;
use crate::frame::AckFrame;
use crate::ranges::Range;
use knee_cc::{Ack, RateSample, Signal, View};
use knee_core::Time;
use knee_core::convert::low_u32;
use knee_tcp::sender::{Micros, RateStart};
use std::sync::Arc;

/// Probe timeouts for which a lost packet's number is kept: RFC 9002, A.1, says "an amount of time".
const KEPT_PTOS: u64 = 3;

/// The newest packet that an ACK newly acknowledges.
#[derive(Clone, Copy, Debug)]
struct Newest {
    number: u64,
    sent: Time,
    start: Option<RateStart>,
}

/// Packets that an ACK newly acknowledges.
#[derive(Clone, Copy, Debug, Default)]
struct Newly {
    packets: u32,
    /// How many of them were sent after the recovery period began.
    after_recovery: u32,
    /// How many of them left with an ECT codepoint.
    ect: u32,
    newest: Option<Newest>,
}

/// An ACK as the algorithm sees it, apart from the sender's state.
struct Seen {
    rtt: Option<Time>,
    prior_in_flight: u32,
    prior_una: u64,
    cwnd_limited: bool,
    ece: bool,
    rate: RateSample,
}

impl Seen {
    /// The ACK with `acked` packets and `lost` ones, in this state of the sender.
    const fn of<'a>(&'a self, acked: u32, lost: u32, view: &'a View) -> Ack<'a> {
        let Self { rtt, prior_in_flight, prior_una, cwnd_limited, ece, ref rate } = *self;
        let (delivered, part) = (acked, false);
        Ack { view, rtt, acked, delivered, lost, prior_in_flight, prior_una, part, cwnd_limited, ece, rate }
    }
}

impl Sender {
    /// Takes an ACK frame; what may leave then leaves. Gives its RTT sample, if it gave one, in whole microseconds and
    /// without the ACK's delay.
    ///
    /// # Errors
    /// If the frame acknowledges a packet that was never sent, or nothing. It changes nothing then.
    pub fn on_ack(
        &mut self,
        frame: &AckFrame,
        now: Time,
        config: &Config,
        out: &mut Vec<Outgoing>,
    ) -> Result<Option<Time>, Violation> {
        let largest = frame.largest().ok_or(Violation::Empty)?;
        //= RFC 9000, 13.1
        //# An endpoint SHOULD treat receipt of an acknowledgment for a packet it did not send as a connection error of
        //# type PROTOCOL_VIOLATION, if it is able to detect the condition.
        if largest >= self.view.snd_nxt {
            return Err(Violation::Unsent { largest, next: self.view.snd_nxt });
        }
        self.view.now = now;
        let (prior_una, prior_in_flight) = (self.view.snd_una, self.view.in_flight);
        //= RFC 9002, 7.8
        //# When this occurs, the congestion window SHOULD NOT be increased in either slow start or congestion
        //# avoidance.
        let cwnd_limited = !self.underused(config);
        self.view.snd_una = prior_una.max(largest + 1);
        let news = self.news(frame);
        let ranges = || news.iter().copied().chain([frame.top]);
        let newly = self.take_acknowledged(ranges(), config);
        self.take_spurious(ranges(), now, config);
        let Some(newest) = newly.newest else { return Ok(None) };
        //= RFC 9002, 5.1
        //# To avoid generating multiple RTT samples for a single packet, an ACK frame SHOULD NOT be used to update RTT
        //# estimates if it does not newly acknowledge the largest acknowledged packet.
        let sampled = newest.number == largest;
        let rtt = sampled.then(|| self.take_rtt(now.saturating_sub(newest.sent), frame.delay, now, config));
        let marks = self.ecn.take(frame.ecn.as_ref(), newly.ect, self.view.snd_una > prior_una);
        self.view.delivered += u64::from(newly.packets);
        self.view.delivered_ce += marks;
        let rate = self.take_rate(&newest, now);
        self.end_recovery(newest.sent);

        // Measure, losses, growth. The algorithm sees the sender as it is at each of them.
        let ack = Seen { rtt, prior_in_flight, prior_una, cwnd_limited, ece: marks > 0, rate };
        self.ask(|cc, view, control| cc.on_measure(&ack.of(newly.packets, 0, view), control));
        let recovery_before = self.recovery_start;
        if marks > 0 {
            //= RFC 9002, 7.1
            //# If a path has been validated to support Explicit Congestion Notification (ECN) [RFC3168] [RFC8311], QUIC
            //# treats a Congestion Experienced (CE) codepoint in the IP header as a signal of congestion.
            self.on_congestion(Signal::Ecn, newest.sent, config);
        }
        let losses = self.detect_losses(now, config);
        self.on_losses(&losses, config);
        //= RFC 9002, B.5
        //# Do not increase congestion window in recovery period.
        let growing = match self.recovery_start {
            None => newly.packets,
            Some(start) if Some(start) == recovery_before => newly.after_recovery,
            Some(_) => 0,
        };
        let delivered = if self.needs.full_control { newly.packets } else { growing };
        if delivered > 0 {
            self.ask(|cc, view, control| cc.on_ack(&ack.of(delivered, losses.packets, view), control));
        }
        //= RFC 9002, 6.2.1
        //# The PTO backoff factor is reset when an acknowledgment is received, except in the following case.
        self.pto_count = 0;
        //= RFC 9002, 6.2.1
        //# A sender SHOULD restart its PTO timer every time an ack-eliciting packet is sent or acknowledged, or when
        //# Initial or Handshake keys are discarded (Section 4.9 of [QUIC-TLS]).
        self.send(now, config, out);
        Ok(rtt)
    }

    /// The frame's lower ranges, if no frame before had the same.
    fn news<'a>(&mut self, frame: &'a AckFrame) -> &'a [Range] {
        let Some(below) = &frame.below else { return &[] };
        if self.seen_below.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, below)) {
            return &[];
        }
        self.seen_below = Some(below.clone());
        below
    }

    /// Takes packets out of flight that are in these ranges.
    fn take_acknowledged(&mut self, ranges: impl Iterator<Item = Range>, config: &Config) -> Newly {
        let (mut newly, mut newest) = (Newly::default(), None);
        // Bytes that are acknowledged, up to the first packet that does not continue them.
        let (near, mut data) = (self.acked.first_missing(0), (0, 0));
        for (from, to) in ranges {
            let mut place = self.flight.place_of(from);
            while let Some(record) = self.flight.get(place).copied().filter(|record| record.first() < to) {
                let bits = record.open_in(from, to);
                for run in record.runs(bits, near) {
                    if let Some(streams) = &mut self.streams {
                        streams.acknowledge(run.first, config);
                    } else if !record.is_datagram() {
                        if run.data.0 != data.1 {
                            self.settle(data);
                            data.0 = run.data.0;
                        }
                        data.1 = run.data.1;
                    }
                    newest = Some((run.first + u64::from(run.count) - 1, record.sent(), place));
                }
                let packets = bits.count_ones();
                newly.packets += packets;
                newly.after_recovery += if self.in_recovery(record.sent()) { 0 } else { packets };
                newly.ect += if record.ect() { packets } else { 0 };
                self.bytes_in_flight -= u64::from(packets) * config.size(record.len());
                self.flight.close(place, bits);
                place += 1;
            }
        }
        self.settle(data);
        newly.newest = newest.map(|(number, sent, place)| Newest { number, sent, start: self.flight.start_of(place) });
        self.view.in_flight -= newly.packets;
        self.flight.drop_settled();
        newly
    }

    /// Bytes of the stream are acknowledged.
    fn settle(&mut self, (from, to): (u64, u64)) {
        self.acked.insert(from, to);
        //= RFC 9000, 13.3
        //# A sender SHOULD avoid retransmitting information from packets once they are acknowledged.
        self.lost.remove(from, to);
    }

    /// Counts packets that are in these ranges although they were found lost, and does not send their data again.
    fn take_spurious(&mut self, ranges: impl Iterator<Item = Range>, now: Time, config: &Config) {
        if self.lost_packets.is_empty() {
            return;
        }
        let kept = self.rtt.pto(config).mul_div(KEPT_PTOS, 1);
        while self.lost_packets.front().is_some_and(|lost| now.saturating_sub(lost.at) > kept) {
            let lost = self.lost_packets.pop_front();
            if let (Some(streams), Some(lost)) = (&mut self.streams, lost) {
                streams.forget(lost.number);
            }
        }
        for (from, to) in ranges {
            let mut place = self.lost_packets.partition_point(|lost| lost.number < from);
            while let Some(lost) = self.lost_packets.get(place).copied().filter(|lost| lost.number < to) {
                self.lost_packets.remove(place);
                place = place.min(self.lost_packets.len());
                self.totals.spurious += 1;
                let reach = self.view.snd_una - 1 - lost.number;
                self.totals.spurious_reach = self.totals.spurious_reach.max(reach);
                self.adapt_threshold(reach, config);
                if let Some(streams) = &mut self.streams {
                    streams.acknowledge(lost.number, config);
                }
                let end = lost.offset + u64::from(lost.len);
                self.acked.insert(lost.offset, end);
                self.lost.remove(lost.offset, end);
            }
        }
    }

    /// The rate sample of an ACK, and the end of the limit by the application.
    fn take_rate(&mut self, newest: &Newest, now: Time) -> RateSample {
        if self.view.app_limited {
            self.view.app_limited = self.view.delivered <= self.app_limited_until;
        }
        let Some(start) = newest.start else { return RateSample::NONE };
        let (sent, stamp) = (Micros::of(newest.sent), Micros::of(now));
        (self.first_tx, self.delivered_at) = (sent, stamp);
        start.sample(sent, stamp, self.view.min_rtt, &self.view)
    }

    /// The delivery state that packets take along which leave now.
    pub(super) fn rate_start(&self) -> RateStart {
        RateStart {
            first_tx: self.first_tx,
            delivered_at: self.delivered_at,
            delivered: self.view.delivered,
            delivered_ce: low_u32(self.view.delivered_ce),
            lost: low_u32(self.view.lost),
            in_flight: self.view.in_flight,
            app_limited: self.view.app_limited,
        }
    }

    /// Marks what is sent until all in flight is delivered as limited by the application.
    pub(super) fn limit_by_application(&mut self) {
        self.view.app_limited = true;
        self.app_limited_until = self.view.delivered + u64::from(self.view.in_flight.max(1));
    }
}
