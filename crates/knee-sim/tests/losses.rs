//! Where nothing is reordered and no ACK is lost, what a sender counts as lost is what the links dropped.

use crate::networks::{MS, S, any_cc, any_ecn, flow, link, spec};
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_sim::{Simulation, Spec, Tap};
use knee_tcp::sender::AckInfo;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Packets that the link carries at most, so that a run takes some ms.
const PACKETS: f64 = 10_000.0;

/// Retransmissions that left within the microsecond of an earlier transmission of a later segment, and SYNs.
///
/// RACK compares times of transmission in microseconds, and sequence numbers where these are equal, as Linux's
/// `tcp_skb_sent_after` does: it takes such a retransmission for the earlier one, and for lost as soon as the other is
/// delivered.
#[derive(Default)]
struct Ties {
    us: u64,
    /// The highest segment sent in that microsecond.
    highest: u64,
    retransmissions: u64,
    syns: u64,
}

struct Watch(Arc<Mutex<Ties>>);

impl Tap for Watch {
    fn sent(&mut self, at: Time, _: ConnectionId, packet: &Packet) {
        let mut ties = self.0.lock().unwrap();
        if packet.has(Packet::SYN) {
            ties.syns += 1;
        } else if let Payload::Data { seq, .. } = packet.payload {
            let seq = seq.near(ties.highest);
            if at.as_nanos() / 1_000 != ties.us {
                (ties.us, ties.highest) = (at.as_nanos() / 1_000, seq);
            } else if seq <= ties.highest {
                ties.retransmissions += 1;
            } else {
                ties.highest = seq;
            }
        }
    }

    fn received(&mut self, _: Time, _: ConnectionId, _: &Packet, _: Option<&AckInfo>) {}
}

prop_compose! {
    /// One endless flow over one link of any rate and queue, which loses up to 30 % of the packets at random, or none.
    fn any_lossy()(
        (cc, ecn) in (any_cc(), any_ecn()),
        (rate, rtt) in (6.0..11.0f64, 4.3..8.3f64),
        queue in prop::sample::select(knee_queue::registry().iter().map(|entry| entry.name).collect::<Vec<_>>()),
        room in 0.3..4.0f64,
        loss in prop_oneof![Just(0.0), (-4.0..-0.52f64).prop_map(libm::exp10)],
        (paced, seed) in (any::<bool>(), any::<u64>()),
    ) -> Value {
        let (rate, rtt) = (libm::exp10(rate), libm::exp10(rtt));
        let mut link = link(rate as u64, &json!({"packets": libm::exp10(room) as u64}));
        (link["queue"], link["loss"]) = (json!(queue), json!(loss));
        // A high rate needs a short time, but the loss of a tail is repaired after 200 ms.
        let duration = (PACKETS * 12e3 / rate * 1e9).clamp(30.0 * MS as f64, 3.0 * S as f64) as u64;
        let mut flow = flow(cc, rtt as u64, 0, duration);
        (flow["ecn"], flow["pacing"]) = (json!(ecn), json!(paced));
        let mut spec = spec(duration, &[link], &[flow]);
        (spec["seed"], spec["interval"]) = (json!(seed), json!(duration));
        spec
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn without_reordering_lost_equals_dropped(spec in any_lossy()) {
        let parsed: Spec = serde_json::from_value(spec).unwrap();
        let mut simulation = Simulation::new(&parsed).unwrap();
        let ties = Arc::new(Mutex::new(Ties::default()));
        simulation.tap(Box::new(Watch(ties.clone())));
        let (output, rows) = simulation.run().unwrap();
        let (lost, dropped, ties) = (output.flows[0].lost_packets, output.links[0].drops, ties.lock().unwrap());
        // A timeout takes all for lost that is older than an RTT, what waits in queues too.
        if output.flows[0].timeouts == 0 {
            prop_assert!(lost <= dropped + ties.retransmissions, "{lost} lost, {dropped} dropped");
        }
        // Drops that the sender cannot know of yet are in flight to it; nobody counts a SYN.
        let in_flight = rows.samples.last().map_or(0.0, |row| row.in_flight_packets) as u64;
        prop_assert!(dropped <= lost + in_flight + ties.syns, "{lost} lost, {dropped} dropped, {in_flight} in flight");
    }
}

/// A flow of DCTCP that comes to a queue which drops what it cannot mark: RFC 8257, 3.6.
#[test]
fn every_flow_connects_through_a_queue_that_marks() {
    for cc in knee_cc::registry().iter().filter(|entry| entry.needs.ecn != knee_cc::Ecn::Classic) {
        for (queue, params) in [
            (
                "red",
                json!({"ecn": {"bool": true}, "min": {"bytes": 30_280}, "max": {"bytes": 31_794}, "weight_log": {"count": 0}}),
            ),
            ("codel", json!({"ecn": {"bool": true}})),
            ("pie", json!({"ecn": {"bool": true}})),
            ("dualpi2", json!({})),
        ] {
            let mut link = link(1_000_000_000, &json!({"bytes": 4_000_000}));
            (link["queue"], link["queue_params"]) = (json!(queue), params);
            let flows: Vec<Value> =
                (0..24).map(|i| flow(cc.name, 100_000, if i < 18 { 0 } else { S / 4 }, S / 2)).collect();
            let parsed: Spec = serde_json::from_value(spec(S / 2, &[link], &flows)).unwrap();
            let (output, _) = Simulation::new(&parsed).unwrap().run().unwrap();
            let unconnected = output.flows.iter().filter(|flow| flow.sent_packets == 0).count();
            assert_eq!(unconnected, 0, "flows of {} through {queue}", cc.name);
        }
    }
}
