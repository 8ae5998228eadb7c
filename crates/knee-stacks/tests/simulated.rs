//! noq's controllers on a link of 20 Mbit/s with an RTT of 40 ms.

use knee_net::output::FlowFigures;
use knee_sim::{Simulation, Spec, stacks};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;
/// The link's, Mbit/s.
const RATE: f64 = 20.0;
/// The least part of IP packets with 1452 bytes of UDP payload that is stream data.
const PAYLOAD: f64 = 0.94;

/// The figures of flows with these controllers over 30 s, after 5 s; those whose name has a colon go over QUIC. The
/// buffer holds `limit_ms`.
fn run(flows: &[&str], limit_ms: u64, change: impl Fn(&mut Value)) -> Vec<FlowFigures> {
    let stop = 30 * SECOND;
    let flow = |(i, cc): (usize, &&str)| {
        let transport = if cc.contains(':') { "quic" } else { "tcp" };
        json!({ "label": format!("{cc} {i}"), "cc": cc, "rtt": SECOND / 25, "start": 0, "stop": stop, "path": [0],
                "transport": transport })
    };
    let flows: Vec<Value> = flows.iter().enumerate().map(flow).collect();
    let mut spec = json!({
        "duration": stop, "seed": 1, "warmup": 5 * SECOND, "interval": SECOND / 10, "flows": flows,
        "links": [{ "name": "bottleneck", "capacity": { "rate": 20_000_000 }, "queue": "pfifo",
                    "limit": { "time": limit_ms * 1_000_000 }, "overhead": 14 }],
    });
    change(&mut spec);
    let spec: Spec = serde_json::from_value(spec).unwrap();
    let (output, _) = Simulation::new(&spec).unwrap().run().unwrap();
    output.flows
}

fn alone(cc: &str, limit_ms: u64) -> FlowFigures {
    run(&[cc], limit_ms, |_| ()).remove(0)
}

#[test]
fn the_stack_is_built_in() {
    let names: Vec<_> = stacks::entries().map(|entry| entry.name).collect();
    for name in ["quinn:cubic", "noq:cubic", "noq:reno", "noq:bbr3"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

/// With a buffer of one BDP Reno's halved window fills the pipe (Appenzeller et al., SIGCOMM 2004); CUBIC's decrease is
/// smaller, and BBR paces at the bottleneck's rate, less what it gives up to probe and drain.
#[test]
fn each_controller_uses_the_link_and_obeys_physics() {
    for (cc, least) in [("noq:cubic", 0.95), ("noq:reno", 0.95), ("noq:bbr3", 0.75)] {
        let flow = alone(cc, 40);
        println!("{cc}: {:.2} Mbit/s, {:?} ms, {} lost", flow.goodput_mbps, flow.rtt_mean_ms, flow.lost_packets);
        assert!((least * PAYLOAD * RATE..RATE).contains(&flow.goodput_mbps), "{cc}: {}", flow.goodput_mbps);
        let (least, most) = (flow.rtt_min_ms.unwrap(), flow.rtt_max_ms.unwrap());
        // Base RTT, buffer, the receiver's 25 ms of ACK delay (RFC 9000, 18.2).
        assert!(least >= 40.0 && most < 40.0 + 40.0 + 26.0, "{cc}: {least} to {most} ms");
        assert_eq!(flow.timeouts, 0, "{cc}");
    }
}

/// BBR bounds what is in flight by the path's BDP (draft-ietf-ccwg-bbr, 2.1), whatever the buffer holds; CUBIC fills
/// it.
#[test]
fn bbr_leaves_a_deep_buffer_empty() {
    let [bbr, cubic] = ["noq:bbr3", "noq:cubic"].map(|cc| alone(cc, 400).rtt_mean_ms.unwrap());
    assert!(bbr < 1.5 * 40.0, "{bbr} ms");
    assert!(cubic > 4.0 * 40.0, "{cubic} ms");
}

#[test]
fn runs_repeat_and_are_the_same_encrypted() {
    let figures = |tls: bool| {
        let flows = run(&["noq:cubic", "noq:reno", "cubic"], 40, |spec| {
            for flow in &mut spec["flows"].as_array_mut().unwrap()[..2] {
                flow["tls"] = tls.into();
            }
        });
        serde_json::to_value(flows).unwrap()
    };
    let first = figures(false);
    assert_eq!(first, figures(false));
    assert_eq!(first, figures(true));
}

/// CUBIC over QUIC and over TCP share one queue within a factor of two.
#[test]
fn cubic_shares_a_queue_with_cubic_over_tcp() {
    let flows = run(&["noq:cubic", "cubic"], 40, |_| ());
    let ratio = flows[0].goodput_mbps / flows[1].goodput_mbps;
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

/// noq's CUBIC is quinn's (both cite RFC 8312), in nearly the same stack.
#[test]
fn cubic_carries_what_quinns_does() {
    let [noq, quinn] = ["noq:cubic", "quinn:cubic"].map(|cc| alone(cc, 40).goodput_mbps);
    assert!((0.95..1.05).contains(&(noq / quinn)), "{noq} and {quinn} Mbit/s");
}

#[test]
fn a_finite_transfer_arrives_whole() {
    for cc in ["noq:cubic", "noq:reno", "noq:bbr3"] {
        let flows = run(&[cc], 40, |spec| {
            spec["flows"][0]["bytes"] = 3_000_000.into();
            spec["warmup"] = 0.into();
        });
        // At the link's rate 1.2 s, plus handshake and slow start.
        let completed = flows[0].completion_s.expect("the transfer ends");
        assert!((1.2..3.0).contains(&completed), "{cc}: {completed} s");
        assert_eq!(flows[0].delivered_bytes, 3_000_000, "{cc}");
    }
}
