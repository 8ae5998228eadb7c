//! The network between the two sides, without devices: packets come as bytes at chosen times.

#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of them")]

use knee_core::{Packet, Time};
use knee_sim::Spec;
use knee_switch::late::Late;
use knee_switch::network::{DuePacket, SwitchNetwork};
use knee_switch::report::Outcome;
use proptest::prelude::*;
use serde_json::{Value, json};

const PORT: u16 = 10_000;
const SEND: usize = 0;
const RECEIVE: usize = 1;

fn spec(change: impl FnOnce(&mut Value)) -> Spec {
    let mut told = json!({
        "duration": 1_000_000_000u64, "seed": 1, "warmup": 0, "interval": 100_000_000,
        "links": [{"name": "bottleneck", "capacity": {"rate": 100_000_000}, "queue": "pfifo",
            "limit": {"packets": 5}, "overhead": 14}],
        "flows": [{"label": "flow 1", "cc": "reno", "rtt": 20_000_000, "start": 0, "stop": 1_000_000_000, "path": [0]}],
    });
    change(&mut told);
    serde_json::from_value(told).unwrap()
}

/// A segment of flow 0: `payload` bytes from number `seq`, or an ACK up to `ack`.
fn segment(to_receiver: bool, seq: u32, ack: u32, payload: u16, ecn: u8) -> Vec<u8> {
    let size = 40 + payload;
    let mut bytes = vec![0x45, ecn];
    bytes.extend(size.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let ports = if to_receiver { [40_000, PORT] } else { [PORT, 40_000] };
    for port in ports {
        bytes.extend(u16::to_be_bytes(port));
    }
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    bytes.resize(usize::from(size), 0);
    bytes
}

fn come(network: &mut SwitchNetwork, side: usize, bytes: &[u8], at: Time) {
    network.store().free()[..bytes.len()].copy_from_slice(bytes);
    network.ingress(side, bytes.len(), at);
}

/// All departures up to `until`, handed out on time.
fn departures(network: &mut SwitchNetwork, until: Time) -> Vec<DuePacket> {
    while network.next() <= until {
        network.step();
    }
    let out = std::mem::take(&mut network.out);
    for departure in &out {
        network.on_written(departure, departure.due);
    }
    out
}

fn outcome(network: SwitchNetwork, end: Time) -> Value {
    let outcome = Outcome { late: Late::default().figures(), refused: 0, processor_s: 0.0, priority: "ordinary" };
    serde_json::to_value(network.finish(end, outcome, None).0).unwrap()
}

#[test]
fn packets_leave_one_serialisation_after_the_other() {
    let mut network = SwitchNetwork::new(&spec(|_| ()), PORT, None).unwrap();
    for i in 0..4 {
        come(&mut network, SEND, &segment(true, 1 + i * 1460, 1, 1460, 0), Time::ZERO);
    }
    let out = departures(&mut network, Time::from_millis(10));
    // 1514 bytes at 100 Mbit/s.
    let due: Vec<u64> = out.iter().map(|departure| departure.due.as_nanos()).collect();
    assert_eq!(due, [121_120, 242_240, 363_360, 484_480]);
    assert!(out.iter().all(|departure| departure.side == RECEIVE));
}

#[test]
fn the_base_rtt_lies_on_the_way_of_the_acks() {
    let mut network = SwitchNetwork::new(&spec(|_| ()), PORT, None).unwrap();
    come(&mut network, RECEIVE, &segment(false, 1, 1461, 0, 0), Time::from_millis(3));
    let out = departures(&mut network, Time::from_millis(100));
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].side, out[0].due), (SEND, Time::from_millis(23)));
}

#[test]
fn a_full_queue_drops_and_the_figures_say_so() {
    let mut network = SwitchNetwork::new(&spec(|_| ()), PORT, None).unwrap();
    for i in 0..10 {
        come(&mut network, SEND, &segment(true, 1 + i * 1460, 1, 1460, 0), Time::ZERO);
    }
    // One is on the wire, five wait.
    assert_eq!(departures(&mut network, Time::from_millis(100)).len(), 6);
    let told = outcome(network, Time::from_secs(1));
    assert_eq!(told["output"]["links"][0]["drops"], 4);
    assert_eq!(told["output"]["flows"][0]["lost_packets"], 4);
    assert_eq!(told["output"]["flows"][0]["sent_packets"], 10);
    assert_eq!(told["output"]["packets"], 6);
}

#[test]
fn a_change_of_rate_holds_from_its_time_on() {
    let change = |told: &mut Value| {
        told["changes"] = json!([{"at": 50_000_000, "what": {"rate": {"link": 0, "rate": 10_000_000}}}]);
    };
    let mut network = SwitchNetwork::new(&spec(change), PORT, None).unwrap();
    come(&mut network, SEND, &segment(true, 1, 1, 1460, 0), Time::ZERO);
    come(&mut network, SEND, &segment(true, 1461, 1, 1460, 0), Time::from_millis(60));
    let due: Vec<u64> =
        departures(&mut network, Time::from_millis(100)).iter().map(|departure| departure.due.as_nanos()).collect();
    assert_eq!(due, [121_120, 60_000_000 + 1_211_200]);
}

#[test]
fn what_belongs_to_no_flow_is_dropped() {
    let mut network = SwitchNetwork::new(&spec(|_| ()), PORT, None).unwrap();
    let mut other = segment(true, 1, 1, 100, 0);
    other[22..24].copy_from_slice(&(PORT + 1).to_be_bytes());
    come(&mut network, SEND, &other, Time::ZERO);
    // The receiver's side sends no data of this flow.
    come(&mut network, RECEIVE, &segment(true, 1, 1, 100, 0), Time::ZERO);
    come(&mut network, SEND, &[0x60; 40], Time::ZERO);
    assert_eq!(
        (departures(&mut network, Time::from_millis(50)).len(), network.strays, network.store().held()),
        (0, 3, 0)
    );
}

#[test]
fn a_marking_queue_marks_what_is_capable() {
    let codel = |told: &mut Value| {
        told["links"][0]["queue"] = json!("codel");
        told["links"][0]["queue_params"] = json!({"ce_threshold": {"time": 1000}});
        told["links"][0]["limit"] = json!({"packets": 100});
    };
    let Ok(mut network) = SwitchNetwork::new(&spec(codel), PORT, None) else { panic!("codel has no ce_threshold") };
    for i in 0..6u32 {
        come(&mut network, SEND, &segment(true, 1 + i * 1460, 1, 1460, 2 * (i % 2) as u8), Time::ZERO);
    }
    let marked: Vec<bool> =
        departures(&mut network, Time::from_millis(50)).iter().map(|d| d.packet.has(Packet::CE)).collect();
    assert_eq!(marked, [false, true, false, true, false, true]);
}

proptest! {
    /// Packets in = packets out + dropped + strays + held, and no buffer is lost, whatever comes.
    #[test]
    fn no_packet_is_lost_unaccounted(
        queue in prop::sample::select(knee_queue::registry().iter().map(|entry| entry.name).collect::<Vec<_>>()),
        loss in prop::sample::select(vec![0.0, 0.3]),
        jitter in prop::sample::select(vec![0u64, 2_000_000]),
        packets in prop::collection::vec((0u64..300_000, any::<bool>(), 0u16..1461, 0u8..3), 1..200),
    ) {
        let told = spec(|told| {
            told["links"][0]["queue"] = json!(queue);
            told["links"][0]["limit"] = json!({"packets": 10});
            told["links"][0]["loss"] = json!(loss);
            told["links"][0]["jitter"] = json!(jitter);
            told["links"][0]["reorder"] = json!(jitter > 0);
        });
        let mut network = SwitchNetwork::new(&told, PORT, None).unwrap();
        let (mut at, mut seq, mut out) = (Time::ZERO, 1u32, 0);
        let count = packets.len();
        for (gap, data, payload, ecn) in packets {
            at += Time::from_nanos(gap);
            if data {
                come(&mut network, SEND, &segment(true, seq, 1, payload, ecn), at);
                seq += u32::from(payload);
            } else {
                come(&mut network, RECEIVE, &segment(false, 1, seq, 0, 0), at);
            }
            out += departures(&mut network, at).len();
        }
        let end = at + Time::from_secs(20);
        out += departures(&mut network, end).len();
        prop_assert_eq!(network.store().held(), 0);
        let drops = outcome(network, end)["output"]["links"][0]["drops"].as_u64().unwrap();
        prop_assert!(out <= count);
        // Until its figures begin, at the start, nothing has been dropped.
        prop_assert_eq!(out as u64 + drops, count as u64);
    }
}

#[test]
fn datagrams_are_those_of_quic_flows_alone() {
    let datagram = |to: u16, from: u16| {
        let mut bytes = vec![0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([from.to_be_bytes(), to.to_be_bytes(), 1480u16.to_be_bytes(), [0, 0]].concat());
        bytes.resize(1500, 0);
        bytes
    };
    for (transport, leaves, strays) in [("quic", 2, 1), ("tcp", 1, 2)] {
        let spec = spec(|told| told["flows"][0]["transport"] = json!(transport));
        let mut network = SwitchNetwork::new(&spec, PORT, None).unwrap();
        come(&mut network, SEND, &datagram(PORT, 40_000), Time::ZERO);
        come(&mut network, RECEIVE, &datagram(40_000, PORT), Time::ZERO);
        come(&mut network, SEND, &segment(true, 1, 1, 1460, 0), Time::ZERO);
        // Over QUIC data and what answers it; over TCP the segment.
        assert_eq!(departures(&mut network, Time::from_millis(50)).len(), leaves);
        assert_eq!(network.strays, strays);
        let told = outcome(network, Time::from_millis(50));
        assert_eq!(told["output"]["flows"][0]["sent_packets"], 1);
    }
}
