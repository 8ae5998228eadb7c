//! qlog events of the sender: packets sent, received and lost, and metrics.

use crate::sender_log::{changes, header, header_of};
use knee_core::Time;
use knee_core::convert::{nearest_f32, saturating_index, saturating_u16};
use knee_qlog::Log;
use knee_qlog::events::quic::{
    AckedRanges, MetricsUpdated, PacketHeader, PacketLost, PacketReceived, PacketSent, PacketType, QuicFrame,
    StreamType,
};
use knee_qlog::events::{EventData, RawInfo};
use knee_quic::{AckFrame, Config, Frames, Outgoing, Sender};

/// The log of a flow's sender.
#[derive(Clone)]
pub(super) struct EndpointLog {
    log: Log,
    /// Packets received so far.
    received: u64,
    /// Datagrams of the handshake sent and received so far.
    shaken: [u64; 2],
    /// Packets found lost so far.
    lost: u64,
    /// As they were last logged.
    metrics: MetricsUpdated,
}

impl EndpointLog {
    pub(super) fn new(log: Log) -> Self {
        Self { log, received: 0, shaken: [0; 2], lost: 0, metrics: MetricsUpdated::default() }
    }

    /// A datagram of the handshake leaves, or arrives, with a first packet of this type.
    pub(super) fn note_handshake(&mut self, at: Time, leaves: bool, packet_type: PacketType, size: u16) {
        let number = &mut self.shaken[usize::from(!leaves)];
        // A Retry packet has no number (RFC 9000, 17.2.5).
        let is_numbered = packet_type != PacketType::Retry;
        let packet_number = is_numbered.then_some(*number);
        *number += u64::from(is_numbered);
        let header = PacketHeader { packet_type, packet_number, ..PacketHeader::default() };
        let raw = Some(raw(size));
        let event = if leaves {
            EventData::PacketSent(PacketSent { header, raw, ..PacketSent::default() })
        } else {
            EventData::PacketReceived(PacketReceived { header, raw, ..PacketReceived::default() })
        };
        self.log.event(at, &event);
    }

    /// A burst leaves; packets below `early` do as 0-RTT.
    pub(super) fn note_sent(&self, at: Time, burst: &Outgoing, early: u64, frames: Option<&Frames>, size: u16) {
        let stream = |stream_id, offset, length, fin| QuicFrame::Stream { stream_id, offset, length, fin, raw: None };
        for k in 0..u64::from(burst.count) {
            let length = u64::from(burst.len);
            let frame = match length {
                _ if burst.datagram => QuicFrame::Datagram { length, raw: None },
                0 => QuicFrame::Ping { length: None, payload_length: None },
                _ => stream(0, burst.offset + k * length, length, None),
            };
            let limit = |limit| QuicFrame::MaxStreams { stream_type: StreamType::Bidirectional, maximum: limit };
            let framed = |frames: &Frames| {
                let streams = frames
                    .streams
                    .iter()
                    .map(|frame| stream(4 * frame.stream, frame.offset, u64::from(frame.len), Some(frame.fin)));
                frames.max_streams.map(limit).into_iter().chain(streams).collect()
            };
            let event = PacketSent {
                header: header_of(packet_type(burst.first + k, early), burst.first + k),
                raw: Some(raw(size)),
                frames: Some(frames.map_or_else(|| [frame].into_iter().collect(), framed)),
                ..PacketSent::default()
            };
            self.log.event(at, &EventData::PacketSent(event));
        }
    }

    /// A packet with an ACK arrives.
    pub(super) fn note_received(&mut self, at: Time, ack: &AckFrame, size: u16) {
        let counts = ack.ecn;
        let frame = QuicFrame::Ack {
            ack_delay: Some(nearest_f32(ack.delay.as_millis_f64())),
            acked_ranges: Some(AckedRanges::Double(ack.ranges().map(|(from, to)| (from, to - 1)).collect())),
            ect1: counts.map(|counts| counts.ect1),
            ect0: counts.map(|counts| counts.ect0),
            ce: counts.map(|counts| counts.ce),
            length: None,
            payload_length: None,
        };
        let event = PacketReceived {
            header: header(self.received),
            raw: Some(raw(size)),
            frames: Some(vec![frame]),
            ..PacketReceived::default()
        };
        self.received += 1;
        self.log.event(at, &EventData::PacketReceived(event));
    }

    /// The sender has taken an ACK, or one of its timers has fired.
    pub(super) fn note_updated(&mut self, at: Time, sender: &Sender, early: u64, config: &Config) {
        let lost = sender.view().lost;
        for number in sender.last_lost(saturating_index(lost - self.lost)) {
            let event =
                PacketLost { header: Some(header_of(packet_type(number, early), number)), ..PacketLost::default() };
            self.log.event(at, &EventData::PacketLost(event));
        }
        self.lost = lost;
        let now = metrics(sender, config);
        if let Some(changes) = changes(&self.metrics, &now) {
            self.log.event(at, &EventData::MetricsUpdated(changes));
            self.metrics = now;
        }
    }
}

/// The type of packet `number` of data, where those below `early` leave as 0-RTT.
const fn packet_type(number: u64, early: u64) -> PacketType {
    if number < early { PacketType::ZeroRtt } else { PacketType::OneRtt }
}

/// Bytes of a packet of QUIC.
fn raw(size: u16) -> RawInfo {
    RawInfo { length: Some(u64::from(size)), ..RawInfo::default() }
}

fn metrics(sender: &Sender, config: &Config) -> MetricsUpdated {
    let ms = |time: Time| (time > Time::ZERO && time < Time::MAX).then(|| nearest_f32(time.as_millis_f64()));
    let (rtt, ssthresh) = (sender.rtt(), sender.control.ssthresh);
    MetricsUpdated {
        min_rtt: ms(rtt.least()),
        smoothed_rtt: ms(rtt.smoothed()),
        latest_rtt: ms(rtt.latest()),
        rtt_variance: ms(rtt.variation()),
        pto_count: Some(saturating_u16(u64::from(sender.pto_count()))),
        congestion_window: Some(sender.window(config)),
        bytes_in_flight: Some(sender.bytes_in_flight()),
        packets_in_flight: Some(u64::from(sender.view().in_flight)),
        ssthresh: (ssthresh < knee_cc::INFINITE_SSTHRESH).then(|| u64::from(ssthresh) * u64::from(config.datagram)),
        pacing_rate: sender.paces().then(|| sender.pacing_rate(config).as_bps()),
    }
}
