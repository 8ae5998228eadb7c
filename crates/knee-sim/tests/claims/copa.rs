//! Copa: Arun and Balakrishnan, NSDI 2018, and the authors' program.
//!
//! A queue of some packets, as the paper has it, needs a sender that sends packet by packet and an ACK for each of
//! them. TSO's bursts and delayed ACKs, where they meet, hide that a lone flow's queue is nearly empty: it competes
//! with itself, and keeps 97 packets queued instead of 3.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::{Value, json};

/// The paper's rules, in default mode or with mode switching.
fn paper(delta: f64, mode_switching: bool) -> Value {
    json!({"form": {"choice": "paper"}, "delta": {"ratio": delta}, "mode_switching": {"bool": mode_switching}})
}

/// Sec. 3 and Fig. 1: the queue swings between empty and 2.5 packets / delta per flow with a period of five round
/// trips, 1.25 packets / delta on average; flows share alike, and the link is kept busy. (In default mode; see
/// the algorithm's file on mode switching.)
#[test]
fn copas_queue_swings_below_two_and_a_half_packets_per_delta_and_flow() {
    for (flows, delta) in [(1, 0.5), (2, 0.5), (4, 0.5), (2, 0.1)] {
        let net = Dumbbell::new(24, 500).flows(flows, "copa", &paper(delta, false), 40 * MS, 100 * MS);
        let seen = net.packet_by_packet().run(80 * S).between(20 * S, 80 * S);
        let unit = flows as f64 / delta;
        assert!((unit..1.6 * unit).contains(&seen.queue), "{flows} flows, delta {delta}: {seen:?}");
        // Some packets more are bursts of several flows' pacing that meet, and the one being sent.
        assert!(seen.queue_max <= 2.5 * unit + 5.0 + 1.0, "{flows} flows, delta {delta}: {seen:?}");
        assert!(seen.total() > 23.8 && seen.drops == 0 && seen.jain() > 0.95, "{flows}, {delta}: {seen:?}");
    }
}

#[test]
fn with_mode_switching_a_lone_copa_flow_keeps_the_same_average() {
    let net = Dumbbell::new(24, 500).flow("copa", &paper(0.5, true), 40 * MS, 0).packet_by_packet();
    let seen = net.run(80 * S).between(20 * S, 80 * S);
    assert!((2.0..4.0).contains(&seen.queue) && seen.total() > 23.8 && seen.drops == 0, "{seen:?}");
}

/// Sec. 2.2: beside a flow that fills the buffer, mode switching wins a fair part; without it Copa starves.
#[test]
fn copa_competes_with_reno_only_where_it_may_switch_modes() {
    let part = |switching| {
        let net = Dumbbell::new(24, 160).flow("copa", &paper(0.5, switching), 40 * MS, 0);
        let seen = net.flow("reno", &json!({}), 40 * MS, 0).run(140 * S).between(20 * S, 140 * S);
        seen.mbps[0] / seen.total()
    };
    let (competing, default) = (part(true), part(false));
    assert!(default < 0.15, "{default}");
    assert!((0.3..0.8).contains(&competing), "{competing}");
}

/// Two flows keep to default mode and a short queue where the paper's rules let them compete (docs/fidelity.md).
#[test]
fn two_flows_of_copas_program_leave_the_queue_short_and_lose_nothing() {
    let net = Dumbbell::new(20, 150).flows(2, "copa", &json!({}), 40 * MS, S);
    let seen = net.run(60 * S).between(10 * S, 60 * S);
    assert!(seen.drops == 0 && seen.queue < 15.0 && seen.jain() > 0.9, "{seen:?}");
    assert!(seen.total() > 0.75 * 20.0, "{seen:?}");
}
