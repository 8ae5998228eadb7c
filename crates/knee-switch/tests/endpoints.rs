//! QUIC flows over loopback, without namespaces, devices and the network between: what their endpoints and the switch's
//! accounts make of them.

#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of them")]

use knee_core::Time;
use knee_switch::clock::Clock;
use knee_switch::config::Config;
use knee_switch::endpoints::{Effort, Endpoints, Sockets};
use knee_switch::late::Late;
use knee_switch::network::SwitchNetwork;
use knee_switch::report::Outcome;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::net::UdpSocket;

/// In real time: a busy machine may leave a transfer without a processor for a second.
const LENGTH: u64 = 10_000_000_000;

fn config(flows: &[Value]) -> Config {
    let flow = |(i, change): (usize, &Value)| {
        let mut flow = json!({"label": format!("flow {}", i + 1), "cc": "cubic", "rtt": 20_000_000, "start": 0,
            "stop": LENGTH, "path": [0], "transport": "quic"});
        flow.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        flow
    };
    // Ports of receivers follow on one another: those above a free one are, as a rule.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let side = json!({"namespace": "/", "device": "none"});
    let told = json!({
        "spec": {
            "duration": LENGTH, "seed": 1, "warmup": 0, "interval": 100_000_000,
            "links": [{"name": "bottleneck", "capacity": {"rate": 100_000_000}, "queue": "pfifo",
                "limit": {"packets": 5}, "overhead": 14,
                "reverse": {"capacity": {"rate": 100_000_000}, "queue": "pfifo", "limit": null}}],
            "flows": flows.iter().enumerate().map(flow).collect::<Vec<_>>(),
        },
        "sides": [side, side], "port": port, "addresses": ["127.0.0.1", "127.0.0.1"],
        "capture": null, "qlog": null, "parent": 1, "user": 0,
    });
    serde_json::from_value(told).unwrap()
}

/// Lets the endpoints of a configuration run: their effort, and what the switch says of its flows at the end.
fn run(config: &Config) -> (Effort, Value) {
    let sockets = [Sockets::open(config, 0).unwrap(), Sockets::open(config, 1).unwrap()];
    let (endpoints, accounts) = Endpoints::new(config, sockets).unwrap();
    let mut network = SwitchNetwork::new(&config.spec, config.port, None).unwrap();
    network.watch(accounts);
    while network.next() == Time::ZERO {
        network.step();
    }
    let now = clock_gettime(ClockId::Monotonic);
    let clock = Clock::new(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
    let end = Time::from_nanos(LENGTH);
    let effort = endpoints.unwrap().run(clock, end, "ordinary").unwrap();
    let outcome = Outcome { late: Late::default().figures(), refused: 0, processor_s: 0.0, priority: "ordinary" };
    let told = network.finish(end, outcome, Some(effort.clone())).0;
    (effort, serde_json::to_value(told).unwrap())
}

#[test]
fn transfers_come_whole_in_both_directions_and_their_figures_end_with_them() {
    let config = config(&[json!({"bytes": 300_000}), json!({"bytes": 100_000, "reverse": true, "cc": "bbr"})]);
    let (effort, told) = run(&config);
    assert_eq!(effort.refused, 0);
    for (flow, bytes) in told["output"]["flows"].as_array().unwrap().iter().zip([300_000.0, 100_000.0]) {
        let seconds = flow["completion_s"].as_f64().unwrap();
        let mbps = flow["goodput_mbps"].as_f64().unwrap();
        assert!((mbps * seconds * 1e6 / 8.0 - bytes).abs() < 1.0, "{bytes} bytes at {mbps} Mbit/s in {seconds} s");
        assert!(flow["rtt_min_ms"].as_f64().unwrap() > 0.0);
        assert!(flow["cwnd_mean_packets"].as_f64().unwrap() >= 2.0);
    }
}

#[test]
fn a_flow_stops_and_starts_at_its_times() {
    let config =
        config(&[json!({"stop": 2_000_000_000u64, "cc": "lola"}), json!({"start": LENGTH + 1, "stop": LENGTH + 2})]);
    let (_, told) = run(&config);
    let flows = &told["output"]["flows"];
    let delivered = |i: usize| flows[i]["delivered_bytes"].as_u64().unwrap();
    assert!(delivered(0) > 0);
    assert_eq!(delivered(1), 0);
}

#[test]
fn what_does_not_exist_is_refused() {
    let config = config(&[json!({"cc": "lolla"})]);
    let sockets = [Sockets::open(&config, 0).unwrap(), Sockets::open(&config, 1).unwrap()];
    let refused = Endpoints::new(&config, sockets).err().unwrap().to_string();
    assert!(refused.contains("lolla"), "{refused}");
}

#[test]
fn flows_of_tcp_have_no_endpoints_here() {
    let config = config(&[json!({"transport": "tcp"})]);
    let sockets = [Sockets::open(&config, 0).unwrap(), Sockets::open(&config, 1).unwrap()];
    let (endpoints, accounts) = Endpoints::new(&config, sockets).unwrap();
    assert!(endpoints.is_none());
    assert!(accounts[0].is_none());
}
