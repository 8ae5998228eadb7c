//! The qlog events of TCP senders, held against what a tap sees of the same senders.

use crate::networks::{MS, S, flow, link, spec};
use knee_core::packet::{MSS, MTU};
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_sim::sender_log::open_logs;
use knee_sim::{Output, Rows, Simulation, Spec, Tap};
use knee_tcp::sender::{AckInfo, Sender};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// The record separator of JSON text sequences (RFC 7464, 2.2).
const SEPARATOR: u8 = 0x1e;

/// A file in memory.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event that a tap sees.
#[derive(Clone, Debug)]
enum Seen {
    /// A data packet's segment and bytes.
    Sent(u64, u16),
    /// The segment that an ACK expects, those that it has in SACK blocks, and the bytes of its packet.
    Received(u64, Vec<(u64, u64)>, u16),
    /// A sender's metrics.
    Updated(Map<String, Value>),
}

#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Vec<(ConnectionId, Time, Seen)>>>);

impl Watch {
    fn note(&self, id: ConnectionId, at: Time, seen: Seen) {
        self.0.lock().unwrap().push((id, at, seen));
    }
}

impl Tap for Watch {
    fn sent(&mut self, at: Time, id: ConnectionId, packet: &Packet) {
        // No run here has more segments than a number has.
        let Payload::Data { seq, .. } = packet.payload else { return };
        if !packet.has(Packet::SYN) {
            self.note(id, at, Seen::Sent(seq.near(0), packet.size));
        }
    }

    fn received(&mut self, at: Time, id: ConnectionId, packet: &Packet, ack: Option<&AckInfo>) {
        if let Some(ack) = ack.filter(|_| !packet.has(Packet::SYN)) {
            let blocks = ack.blocks.iter().copied().filter(|(start, end)| start < end);
            self.note(id, at, Seen::Received(ack.seq, blocks.collect(), packet.size));
        }
    }

    fn carried(&mut self, at: Time, id: ConnectionId, packet: &Packet, ack: &AckInfo) {
        self.received(at, id, packet, Some(ack));
    }

    fn updated(&mut self, at: Time, id: ConnectionId, sender: &Sender) {
        if !sender.established() {
            return;
        }
        let bytes = |packets: u32| json!(u64::from(packets) * u64::from(MSS));
        let ms = |time: Time| json!(time.as_millis_f64() as f32);
        let mut metrics = Map::new();
        let mut set = |name: &str, value: Value| metrics.insert(name.into(), value);
        set("congestion_window", bytes(sender.control.cwnd));
        set("bytes_in_flight", bytes(sender.in_flight()));
        set("packets_in_flight", json!(sender.in_flight()));
        for (name, time) in
            [("min_rtt", sender.min_rtt()), ("smoothed_rtt", sender.srtt()), ("rtt_variance", sender.rtt_variance())]
        {
            // Before the first sample they are none.
            if time > Time::ZERO && time < Time::MAX {
                set(name, ms(time));
            }
        }
        if sender.control.ssthresh < knee_cc::INFINITE_SSTHRESH {
            set("ssthresh", bytes(sender.control.ssthresh));
        }
        if let Some(rate) = sender.pacing_rate() {
            set("pacing_rate", json!(rate.as_bps()));
        }
        self.note(id, at, Seen::Updated(metrics));
    }
}

/// A run: its figures and rows, by flow the records of its log, without the header, and what the tap saw.
struct Logged {
    output: Output,
    rows: Rows,
    records: Vec<Vec<Value>>,
    seen: Vec<(ConnectionId, Time, Seen)>,
}

impl Logged {
    fn run(spec: &Value) -> Self {
        let spec: Spec = serde_json::from_value(spec.clone()).unwrap();
        let files: Arc<Mutex<BTreeMap<String, Sink>>> = Arc::default();
        let open = |name: &str| Ok(files.lock().unwrap().entry(name.into()).or_default().clone());
        let logs = open_logs(&spec, "sim", |_| true, open).unwrap();
        let (mut simulation, watch) = (Simulation::new(&spec).unwrap(), Watch::default());
        simulation.tap(Box::new(watch.clone()));
        simulation.log(logs.clone());
        let (output, rows) = simulation.run().unwrap();
        logs.iter().flatten().for_each(|log| log.finish().unwrap());
        let names: Vec<String> = (1..=spec.flows.len()).map(|i| format!("flow-{i}.sqlog")).collect();
        let files = files.lock().unwrap();
        assert!(files.keys().eq(names.iter()), "{:?}", files.keys());
        let records = |name: &String| {
            let bytes = files[name].0.lock().unwrap().clone();
            let texts = bytes[1..].split(|byte| *byte == SEPARATOR);
            texts.skip(1).map(|text| serde_json::from_slice(text).unwrap()).collect()
        };
        let seen = watch.0.lock().unwrap().clone();
        Self { output, rows, records: names.iter().map(records).collect(), seen }
    }

    /// The events that a log should have of one connection, by what the tap saw: each a time, a name and its data.
    /// Losses, which only the sender knows, are left out.
    fn expected(&self, id: ConnectionId) -> Vec<(f64, &'static str, Value)> {
        let (mut sent, mut acks, mut open, mut metrics) = (0u64, 0u64, BTreeMap::new(), Map::new());
        let mut events = Vec::new();
        for (_, at, seen) in self.seen.iter().filter(|(of, ..)| *of == id) {
            let at = at.as_millis_f64();
            match seen {
                Seen::Sent(segment, size) => {
                    open.insert(*segment, sent);
                    let payload = *size - (MTU - MSS);
                    let said = json!({
                        "number": sent, "bytes": size, "offset": segment * u64::from(MSS), "payload": payload
                    });
                    events.push((at, "transport:packet_sent", said));
                    sent += 1;
                }
                Seen::Received(next, blocks, size) => {
                    let covered = |segment: u64| {
                        segment < *next || blocks.iter().any(|(start, end)| (*start..*end).contains(&segment))
                    };
                    let mut acked: Vec<u64> =
                        open.iter().filter(|(segment, _)| covered(**segment)).map(|(_, number)| *number).collect();
                    open.retain(|segment, _| !covered(*segment));
                    acked.sort_unstable();
                    events.push((
                        at,
                        "transport:packet_received",
                        json!({"number": acks, "bytes": size, "acked": acked}),
                    ));
                    acks += 1;
                }
                Seen::Updated(now) => {
                    let changed: Map<String, Value> = now
                        .iter()
                        .filter(|(name, value)| metrics.get(*name) != Some(value))
                        .map(|(name, value)| (name.clone(), value.clone()))
                        .collect();
                    if !changed.is_empty() {
                        metrics.extend(changed.clone());
                        events.push((at, "recovery:metrics_updated", Value::Object(changed)));
                    }
                }
            }
        }
        events
    }
}

/// A record in the form of [`Logged::expected`].
fn said(record: &Value) -> (f64, &'static str, Value) {
    let (at, data) = (record["time"].as_f64().unwrap(), &record["data"]);
    let (number, bytes) = (&data["header"]["packet_number"], &data["raw"]["length"]);
    match record["name"].as_str().unwrap() {
        "transport:packet_sent" => {
            assert_eq!(data["header"]["packet_type"], "1RTT");
            let [frame] = data["frames"].as_array().unwrap().as_slice() else { panic!("{record}") };
            let (offset, payload) = (&frame["offset"], &frame["length"]);
            assert_eq!((&frame["frame_type"], &frame["stream_id"]), (&json!("stream"), &json!(0)));
            let what = json!({"number": number, "bytes": bytes, "offset": offset, "payload": payload});
            (at, "transport:packet_sent", what)
        }
        "transport:packet_received" => {
            let mut acked = Vec::new();
            if let Some(frames) = data["frames"].as_array() {
                let [frame] = frames.as_slice() else { panic!("{record}") };
                let ranges: Vec<(u64, u64)> = serde_json::from_value(frame["acked_ranges"].clone()).unwrap();
                assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "as few as can be: {ranges:?}");
                acked.extend(ranges.iter().flat_map(|(first, last)| *first..=*last));
                assert!(!acked.is_empty());
            }
            (at, "transport:packet_received", json!({"number": number, "bytes": bytes, "acked": acked}))
        }
        "recovery:metrics_updated" => {
            // Numbers of 32 bits are written as short as they can be.
            let single = |value: &Value| value.as_f64().filter(|_| !value.is_u64()).map(|value| json!(value as f32));
            let data = data.as_object().unwrap();
            let data = data.iter().map(|(name, value)| (name.clone(), single(value).unwrap_or_else(|| value.clone())));
            (at, "recovery:metrics_updated", Value::Object(data.collect()))
        }
        other => panic!("{other}"),
    }
}

/// Checks the records of one connection, without those of its states. Gives how many losses they have.
fn check(records: &[&Value], expected: &[(f64, &'static str, Value)]) -> u64 {
    let (lost, rest): (Vec<&Value>, Vec<&Value>) =
        records.iter().partition(|record| record["name"] == "recovery:packet_lost");
    for (n, (record, expected)) in rest.iter().zip(expected).enumerate() {
        assert_eq!(&said(record), expected, "{n}");
    }
    assert_eq!(rest.len(), expected.len());
    // A transmission that is lost has been sent and was not acknowledged, and is lost once. What is neither is in
    // flight as the next ACK comes; with a segment all its transmissions are acknowledged.
    let (mut offsets, mut open, mut gone, mut in_flight) = (Vec::new(), BTreeSet::new(), BTreeSet::new(), 0);
    for record in records {
        if record["name"] == "recovery:packet_lost" {
            let number = record["data"]["header"]["packet_number"].as_u64().unwrap();
            assert!(open.remove(&number) && gone.insert(number), "{record}");
            continue;
        }
        let (_, name, what) = said(record);
        match name {
            "transport:packet_sent" => {
                // A tail loss probe is not counted besides the transmission that it repeats (tcp_send_loss_probe).
                open.retain(|number: &u64| offsets[*number as usize] != what["offset"]);
                open.insert(what["number"].as_u64().unwrap());
                offsets.push(what["offset"].clone());
            }
            "transport:packet_received" => {
                assert_eq!(open.len() as u64, in_flight, "{record}");
                for number in what["acked"].as_array().unwrap() {
                    let offset = &offsets[number.as_u64().unwrap() as usize];
                    open.retain(|number| offsets[*number as usize] != *offset);
                }
            }
            _ => in_flight = what["packets_in_flight"].as_u64().unwrap_or(in_flight),
        }
    }
    lost.len() as u64
}

fn of_sender(record: &Value) -> bool {
    record["name"] != "recovery:congestion_state_updated"
}

/// Flows that lose packets, one of them paced, over a queue that is too short.
#[test]
fn a_log_says_what_a_sender_does() {
    let links = [link(20_000_000, &json!({"packets": 30}))];
    let mut short = flow("cubic", 50 * MS, 100 * MS, 6 * S);
    short["bytes"] = json!(400_000);
    let flows = [flow("reno", 30 * MS, 0, 6 * S), flow("bbr", 40 * MS, 0, 6 * S), short];
    let logged = Logged::run(&spec(6 * S, &links, &flows));
    for (i, records) in (0..).zip(&logged.records) {
        let records: Vec<&Value> = records.iter().filter(|record| of_sender(record)).collect();
        let lost = check(&records, &logged.expected(ConnectionId::of_flow(i)));
        let flow = &logged.output.flows[i as usize];
        let sent = records.iter().filter(|record| record["name"] == "transport:packet_sent").count() as u64;
        assert_eq!((sent, lost), (flow.sent_packets, flow.lost_packets), "{i}");
        assert!(lost > 0, "{i}");
    }
}

/// A log has the states that the events of the run have, each as it begins (qlog's `congestion_state_updated`).
#[test]
fn states_of_a_sender_are_those_on_record() {
    let links = [link(20_000_000, &json!({"packets": 30}))];
    let flows = [flow("cubic", 30 * MS, 0, 6 * S), flow("bbr", 40 * MS, 0, 6 * S)];
    let logged = Logged::run(&spec(6 * S, &links, &flows));
    for (i, records) in (0..).zip(&logged.records) {
        let states = records.iter().filter(|record| !of_sender(record));
        let states: Vec<_> = states.map(|record| (record["time"].as_f64(), record["data"]["new"].as_str())).collect();
        // Drops are of a link, too.
        let events = logged.rows.events.iter().filter(|row| row.flow == i && row.link < 0);
        let name = |event: u32| logged.output.event_names[event as usize].as_str();
        let mut events: Vec<_> = events.map(|row| (row.t_s, Some(name(row.event)))).collect();
        events.dedup_by_key(|event| event.1);
        assert!(events.len() > 5 && events.len() == states.len(), "{events:?}, {states:?}");
        for ((logged, state), (at, event)) in states.iter().zip(&events) {
            assert!((logged.unwrap() - at * 1e3).abs() < 1e-6 && state == event, "{events:?}, {states:?}");
        }
    }
}

/// RFC 6298, 5.4: what is in flight as the timer fires is lost, and sent again.
#[test]
fn a_retransmission_timeout_is_in_the_log() {
    let links = [link(10_000_000, &json!({"packets": 50}))];
    let mut spec = spec(8 * S, &links, &[flow("cubic", 40 * MS, 0, 8 * S)]);
    // Nothing passes for 2 s.
    spec["changes"] = json!([
        {"at": 2 * S, "what": {"loss": {"link": 0, "loss": 1.0}}},
        {"at": 4 * S, "what": {"loss": {"link": 0, "loss": 0.0}}}
    ]);
    let logged = Logged::run(&spec);
    let records: Vec<&Value> = logged.records[0].iter().filter(|record| of_sender(record)).collect();
    let lost = check(&records, &logged.expected(ConnectionId::of_flow(0)));
    let flow = &logged.output.flows[0];
    assert!(flow.timeouts > 1 && lost == flow.lost_packets && lost > 50, "{} timeouts, {lost} lost", flow.timeouts);
}

/// Each connection of an application is a group, whose transmissions are counted by themselves. What comes back from
/// its other end is not the flow's data.
#[test]
fn connections_are_groups_of_their_flow() {
    let links = [link(20_000_000, &json!({"packets": 30}))];
    let mut pages = flow("cubic", 30 * MS, 0, 4 * S);
    pages["traffic"] = json!({
        "kind": "requests", "pages": {"closed": [100 * MS, false]}, "request": 300, "size": {"fixed": 50_000},
        "objects": {"fixed": 4}, "connections": 2, "persistent": false, "tls": "none", "service": 0, "number": null
    });
    let logged = Logged::run(&spec(4 * S, &links, &[pages, flow("reno", 30 * MS, 0, 4 * S)]));
    let mut groups: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for record in logged.records[0].iter().filter(|record| of_sender(record)) {
        let group: u64 = record["group_id"].as_str().unwrap().parse().unwrap();
        groups.entry(group - 1).or_default().push(record);
    }
    assert!(groups.len() > 1);
    for (number, records) in &groups {
        let sent = logged.seen.iter().map(|(id, ..)| *id).filter(|id| id.flow() == 0 && id.number() == *number);
        let id = sent.into_iter().find(|id| !id.is_mirrored()).unwrap();
        check(records, &logged.expected(id));
        // The server's sender has its first state as it sends: its handshake was over a request before.
        let state = logged.records[0].iter().find(|of| of["group_id"] == records[0]["group_id"] && !of_sender(of));
        assert_eq!(state.map(|state| &state["time"]), Some(&records[0]["time"]), "{number}");
    }
    let alone: Vec<&Value> = logged.records[1].iter().filter(|record| of_sender(record)).collect();
    assert!(alone.iter().all(|record| record.get("group_id").is_none()));
    check(&alone, &logged.expected(ConnectionId::of_flow(1)));
}

/// The connections of an application over QUIC are groups as those over TCP are, in the stack's own words.
#[test]
fn an_application_over_quic_is_logged_by_its_stack() {
    for (cc, traffic) in [
        ("quinn:cubic", json!({"kind": "app_limited", "rate": 2_000_000})),
        ("quinn:bbr", json!({"kind": "bursts", "period": 500 * MS, "burst": 30_000})),
    ] {
        let mut limited = flow(cc, 30 * MS, 0, 2 * S);
        (limited["transport"], limited["traffic"]) = (json!("quic"), traffic);
        let logged = Logged::run(&spec(2 * S, &[link(20_000_000, &json!({"packets": 30}))], &[limited]));
        let sent = logged.records[0].iter().filter(|record| record["name"] == "transport:packet_sent").count() as u64;
        // Datagrams of the handshake hold several packets.
        let datagrams = logged.output.flows[0].sent_packets;
        assert!(datagrams > 50 && (datagrams..datagrams + 5).contains(&sent), "{cc}: {sent} in {datagrams}");
    }
}

/// A datagram of 500 bytes as an IP packet has 472 of its own; its number is no place in the stream.
#[test]
fn datagrams_over_quic_are_logged_as_such() {
    let mut flow = flow("cubic", 30 * MS, 0, S);
    let traffic = json!({"kind": "udp", "packet": 500, "interval": 10 * MS});
    (flow["transport"], flow["traffic"]) = (json!("quic"), traffic);
    let spec = spec(S, &[link(10_000_000, &json!({"packets": 50}))], &[flow]);
    let logged = Logged::run(&spec);
    let sent = logged.records[0].iter().filter(|record| record["name"] == "transport:packet_sent");
    let sent = sent.filter(|record| record["data"]["header"]["packet_type"] == "1RTT");
    let frames: Vec<_> = sent.map(|record| record["data"]["frames"][0].clone()).collect();
    assert!(frames.len() > 90 && frames.iter().all(|frame| frame["frame_type"] == "datagram"), "{frames:?}");
    assert!(frames.iter().all(|frame| frame["length"] == 472), "{frames:?}");
}

/// RFC 9000, 12.3: packets of an end are numbered in the order in which they leave, here without gaps. Those of its
/// handshake count for themselves.
#[test]
fn a_log_of_quic_has_each_packet_of_data_once() {
    let mut bulk = flow("reno", 40 * MS, 0, 2 * S);
    bulk["transport"] = json!("quic");
    let logged = Logged::run(&spec(2 * S, &[link(10_000_000, &json!({"packets": 50}))], &[bulk]));
    let sent = logged.records[0].iter().filter(|record| record["name"].as_str().unwrap().ends_with("packet_sent"));
    let headers = sent.map(|record| &record["data"]["header"]).filter(|header| header["packet_type"] == "1RTT");
    let numbers: Vec<u64> = headers.map(|header| header["packet_number"].as_u64().unwrap()).collect();
    assert!(numbers.len() > 1_000, "{} packets", numbers.len());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    // Each packet that comes from the receiver has an ACK.
    let came = logged.records[0].iter().filter(|record| record["name"].as_str().unwrap().ends_with("packet_received"));
    let came = came.map(|record| &record["data"]).filter(|data| data["header"]["packet_type"] == "1RTT");
    let frames: Vec<_> = came.map(|data| &data["frames"][0]["frame_type"]).collect();
    assert!(frames.len() > 300 && frames.iter().all(|frame| **frame == "ack"), "{frames:?}");
}
