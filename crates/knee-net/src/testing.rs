//! Small networks, and packets in them, for this crate's tests.

use crate::spec::Spec;
use knee_core::{Packet, Payload, Time};
use serde_json::{Value, json};

pub const MS: u64 = 1_000_000;

/// A link of 12 Mbit/s that counts no overhead, so that a packet of 1500 bytes takes 1 ms.
pub fn link(name: &str) -> Value {
    json!({"name": name, "capacity": {"rate": 12_000_000}, "queue": "pfifo", "limit": {"packets": 100}, "overhead": 0})
}

/// An endless flow with a base RTT of 20 ms over the links at `path`.
pub fn flow(path: &[usize]) -> Value {
    json!({"label": "f", "cc": "reno", "rtt": 20 * MS, "start": 0, "stop": 1000 * MS, "path": path})
}

/// A second without warm-up.
pub fn spec(links: &[Value], flows: &[Value]) -> Value {
    json!({
        "duration": 1000 * MS, "seed": 1, "warmup": 0, "interval": 100 * MS, "links": links, "flows": flows
    })
}

/// The specification in JSON.
pub fn read(spec: &Value) -> Spec {
    serde_json::from_str(&spec.to_string()).expect("a specification")
}

pub fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// Full segment `seq` of the first flow.
pub fn data(seq: u64) -> Packet {
    Packet { payload: Payload::segment(seq), size: 1500, ..Packet::default() }
}

/// A packet of 1500 bytes that answers the data of the first flow.
pub fn ack(seq: u64) -> Packet {
    Packet { flags: Packet::ACK, ..data(seq) }
}
