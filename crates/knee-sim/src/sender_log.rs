//! qlog events of TCP senders. A TCP segment has no packet number, so transmissions are counted, as QUIC counts
//! packets, and data packets stand for QUIC's `1RTT` ones, whose `stream` frame tells the bytes. ACKs name the
//! transmissions that they acknowledge for the first time; of a segment sent twice that is the later one, since TCP
//! cannot tell.
//!
//! Where a flow runs an application, each connection's sender of the flow's data is a group of events (`group_id`) in
//! the flow's file.

use crate::Tap;
use knee_core::convert::nearest_f32;
use knee_core::packet::{MSS, Seq};
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_net::spec::{FlowSpec, Spec, Transport};
use knee_qlog::events::quic::{
    AckedRanges, MetricsUpdated, PacketHeader, PacketLost, PacketReceived, PacketSent, PacketType, QuicFrame,
};
use knee_qlog::events::{EventData, RawInfo};
use knee_qlog::{About, Log};
use knee_tcp::sender::{AckInfo, Sender};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Begins a log for each flow that is `wanted`, in the file that `open` gives for its name: `flow-1.sqlog` for the
/// first one. `ground` is where the flows run.
///
/// # Errors
/// If a file cannot be opened.
pub fn open_logs<File: Write + Send + 'static>(
    spec: &Spec,
    ground: &str,
    wanted: impl Fn(&FlowSpec) -> bool,
    open: impl Fn(&str) -> io::Result<File>,
) -> io::Result<Vec<Option<Log>>> {
    let begin = |(i, flow): (usize, &FlowSpec)| {
        let protocol = match flow.transport {
            Transport::Tcp => "TCP",
            Transport::Quic => "QUIC",
        };
        let description = format!("{} over {protocol}, ground {ground}", flow.cc);
        let about = About { title: &flow.label, description: &description, protocol, is_server: flow.pulls() };
        let file = wanted(flow).then(|| open(&format!("flow-{}.sqlog", i + 1))).transpose()?;
        Ok(file.map(|file| Log::new(file, about)))
    };
    spec.flows.iter().enumerate().map(begin).collect()
}

/// Writes qlog events of the senders of TCP flows.
pub struct SenderLogs {
    /// By flow.
    logs: Vec<Option<Log>>,
    /// Flows whose connections are groups in their logs.
    grouped: Vec<bool>,
    /// By flow and number.
    connections: BTreeMap<(u32, u64), FlowLog>,
}

struct FlowLog {
    log: Log,
    /// Transmissions and ACKs so far.
    sent: u64,
    acks: u64,
    /// The segment behind the last one sent.
    next: u64,
    /// Segments that are not acknowledged.
    open: BTreeMap<u64, OpenSegment>,
    /// How many transmissions the sender had deemed lost, and how many of them are not yet in the log.
    lost: u64,
    unlogged: u64,
    /// As they were last logged.
    metrics: MetricsUpdated,
}

/// The latest transmission of a segment.
struct OpenSegment {
    number: u64,
    again: bool,
    lost: bool,
}

impl SenderLogs {
    /// Logs by flow; none for those that are not TCP's. The connections of those `grouped` are groups in their logs.
    pub fn new(logs: Vec<Option<Log>>, grouped: Vec<bool>) -> Self {
        Self { logs, grouped, connections: BTreeMap::new() }
    }

    /// The log of a sender of a flow's data.
    fn connection(&mut self, id: ConnectionId) -> Option<&mut FlowLog> {
        let log = self.logs.get(id.flow() as usize)?.as_ref().filter(|_| !id.is_mirrored())?;
        let grouped = self.grouped.get(id.flow() as usize).is_some_and(|grouped| *grouped);
        let log = || if grouped { log.group(id.number()) } else { log.clone() };
        Some(self.connections.entry((id.flow(), id.number())).or_insert_with(|| FlowLog::new(log())))
    }
}

impl FlowLog {
    fn new(log: Log) -> Self {
        let metrics = MetricsUpdated::default();
        Self { log, sent: 0, acks: 0, next: 0, open: BTreeMap::new(), lost: 0, unlogged: 0, metrics }
    }
}

impl Tap for SenderLogs {
    fn sent(&mut self, at: Time, id: ConnectionId, packet: &Packet) {
        // A QUIC stack writes by itself what its connections do.
        let Payload::Data { seq, .. } = packet.payload else { return };
        if let Some(connection) = self.connection(id).filter(|_| !packet.has(Packet::SYN)) {
            connection.on_sent(at, packet, seq);
        }
    }

    fn received(&mut self, at: Time, id: ConnectionId, packet: &Packet, ack: Option<&AckInfo>) {
        let Some(ack) = ack.filter(|_| !packet.has(Packet::SYN)) else { return };
        if let Some(connection) = self.connection(id) {
            connection.on_received(at, packet, ack);
        }
    }

    fn carried(&mut self, at: Time, id: ConnectionId, packet: &Packet, ack: &AckInfo) {
        if let Some(connection) = self.connection(id) {
            connection.on_received(at, packet, ack);
        }
    }

    fn updated(&mut self, at: Time, id: ConnectionId, sender: &Sender) {
        if let Some(connection) = self.connection(id).filter(|_| sender.established()) {
            connection.on_updated(at, sender);
        }
    }
}

impl FlowLog {
    fn on_sent(&mut self, at: Time, packet: &Packet, seq: Seq) {
        let number = self.sent;
        self.sent += 1;
        let segment = seq.near(self.next);
        self.next = self.next.max(segment + 1);
        let before = self.open.insert(segment, OpenSegment { number, again: false, lost: false });
        if let Some(before) = &before {
            // What was found lost and sent again at once.
            if before.again && !before.lost && self.unlogged > 0 {
                self.unlogged -= 1;
                self.lose(at, before.number);
            }
            self.open.entry(segment).and_modify(|now| now.again = true);
        }
        let payload = u64::from(packet.size) - u64::from(knee_core::packet::MTU - MSS);
        let stream =
            QuicFrame::Stream { stream_id: 0, offset: segment * u64::from(MSS), length: payload, fin: None, raw: None };
        let event = PacketSent {
            header: header(number),
            raw: Some(raw(packet)),
            frames: Some([stream].into_iter().collect()),
            ..PacketSent::default()
        };
        self.log.event(at, &EventData::PacketSent(event));
    }

    fn on_received(&mut self, at: Time, packet: &Packet, ack: &AckInfo) {
        let number = self.acks;
        self.acks += 1;
        let open = self.open.split_off(&ack.seq);
        let mut acked: Vec<u64> =
            std::mem::replace(&mut self.open, open).into_values().map(|sent| sent.number).collect();
        for &(start, end) in ack.blocks.iter().filter(|(start, end)| start < end) {
            let segments: Vec<u64> = self.open.range(start..end).map(|(segment, _)| *segment).collect();
            acked.extend(segments.iter().filter_map(|segment| self.open.remove(segment)).map(|sent| sent.number));
        }
        let event = PacketReceived {
            header: header(number),
            raw: Some(raw(packet)),
            frames: (!acked.is_empty()).then(|| vec![ack_frame(acked)]),
            ..PacketReceived::default()
        };
        self.log.event(at, &EventData::PacketReceived(event));
    }

    fn on_updated(&mut self, at: Time, sender: &Sender) {
        let lost = sender.losses();
        if lost > self.lost {
            self.unlogged = lost - self.lost;
            self.lost = lost;
            let is_lost = |segment: u64, sent: &OpenSegment| {
                let (lost, sent_again) = sender.marks(segment);
                lost && !(sent.again && sent_again) && !sent.lost
            };
            let found = self.open.iter_mut().filter(|(segment, sent)| is_lost(**segment, sent));
            let numbers: Vec<u64> = found.map(|(_, sent)| (sent.lost = true, sent.number).1).collect();
            self.unlogged = self.unlogged.saturating_sub(numbers.len() as u64);
            for number in numbers {
                self.lose(at, number);
            }
        }
        let now = metrics(sender);
        if let Some(changes) = changes(&self.metrics, &now) {
            self.log.event(at, &EventData::MetricsUpdated(changes));
            self.metrics = now;
        }
    }

    fn lose(&self, at: Time, number: u64) {
        let event = PacketLost { header: Some(header(number)), ..PacketLost::default() };
        self.log.event(at, &EventData::PacketLost(event));
    }
}

/// The header of the packet, or transmission, of this number.
pub(crate) fn header(number: u64) -> PacketHeader {
    header_of(PacketType::OneRtt, number)
}

pub(crate) fn header_of(packet_type: PacketType, number: u64) -> PacketHeader {
    PacketHeader { packet_type, packet_number: Some(number), ..PacketHeader::default() }
}

/// Bytes of an IP packet.
fn raw(packet: &Packet) -> RawInfo {
    RawInfo { length: Some(u64::from(packet.size)), ..RawInfo::default() }
}

/// An ACK of these transmissions, as ranges that include their ends.
fn ack_frame(mut numbers: Vec<u64>) -> QuicFrame {
    numbers.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    QuicFrame::Ack {
        ack_delay: None,
        acked_ranges: Some(AckedRanges::Double(ranges)),
        ect1: None,
        ect0: None,
        ce: None,
        length: None,
        payload_length: None,
    }
}

/// Metrics of a sender; windows are payload.
fn metrics(sender: &Sender) -> MetricsUpdated {
    let bytes = |packets: u32| u64::from(packets) * u64::from(MSS);
    let ms = |time: Time| (time > Time::ZERO && time < Time::MAX).then(|| nearest_f32(time.as_millis_f64()));
    let in_flight = sender.in_flight();
    MetricsUpdated {
        min_rtt: ms(sender.min_rtt()),
        smoothed_rtt: ms(sender.srtt()),
        rtt_variance: ms(sender.rtt_variance()),
        congestion_window: Some(bytes(sender.control.cwnd)),
        bytes_in_flight: Some(bytes(in_flight)),
        packets_in_flight: Some(u64::from(in_flight)),
        ssthresh: (sender.control.ssthresh < knee_cc::INFINITE_SSTHRESH).then(|| bytes(sender.control.ssthresh)),
        pacing_rate: sender.pacing_rate().map(knee_core::Rate::as_bps),
        ..MetricsUpdated::default()
    }
}

/// The metrics of `now` that differ from `before`, if any do.
pub(crate) fn changes(before: &MetricsUpdated, now: &MetricsUpdated) -> Option<MetricsUpdated> {
    fn new<T: PartialEq + Copy>(before: Option<T>, now: Option<T>) -> Option<T> {
        now.filter(|_| now != before)
    }
    let changes = MetricsUpdated {
        min_rtt: new(before.min_rtt, now.min_rtt),
        smoothed_rtt: new(before.smoothed_rtt, now.smoothed_rtt),
        latest_rtt: new(before.latest_rtt, now.latest_rtt),
        pto_count: new(before.pto_count, now.pto_count),
        rtt_variance: new(before.rtt_variance, now.rtt_variance),
        congestion_window: new(before.congestion_window, now.congestion_window),
        bytes_in_flight: new(before.bytes_in_flight, now.bytes_in_flight),
        packets_in_flight: new(before.packets_in_flight, now.packets_in_flight),
        ssthresh: new(before.ssthresh, now.ssthresh),
        pacing_rate: new(before.pacing_rate, now.pacing_rate),
    };
    (changes != MetricsUpdated::default()).then_some(changes)
}
