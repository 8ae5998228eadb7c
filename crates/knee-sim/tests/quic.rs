//! Flows over QUIC: each end acts on what comes to it and on its own timers.

use crate::networks::{MS, S, flow, link, spec};
use knee_core::{ConnectionId, Packet, Time};
use knee_sim::{Simulation, Spec, Tap};
use knee_tcp::sender::AckInfo;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// What a sender sends and gets: when, whether it is sent, and its size.
type Seen = Arc<Mutex<Vec<(Time, bool, u16)>>>;

struct Watch(Seen);

impl Tap for Watch {
    fn sent(&mut self, at: Time, _: ConnectionId, packet: &Packet) {
        self.0.lock().unwrap().push((at, true, packet.size));
    }

    fn received(&mut self, at: Time, _: ConnectionId, packet: &Packet, _: Option<&AckInfo>) {
        self.0.lock().unwrap().push((at, false, packet.size));
    }
}

fn seen(spec: &Value) -> Vec<(Time, bool, u16)> {
    let spec: Spec = serde_json::from_value(spec.clone()).unwrap();
    let (mut simulation, seen) = (Simulation::new(&spec).unwrap(), Seen::default());
    simulation.tap(Box::new(Watch(seen.clone())));
    simulation.run().unwrap();
    std::mem::take(&mut seen.lock().unwrap())
}

/// A sender cannot know on which way its packets and their ACKs spend the round trip.
#[test]
fn a_sender_does_the_same_whichever_way_the_delay_is_on() {
    for cc in ["reno", "cubic", "bbr", "lola"] {
        let [on_acks, half, on_data] = [0, 20 * MS, 39 * MS].map(|delay| {
            let mut flow = flow(cc, 40 * MS, 0, 5 * S);
            flow["transport"] = json!("quic");
            let mut link = link(20_000_000, &json!({"packets": 66}));
            link["delay"] = json!(delay);
            seen(&spec(5 * S, &[link], &[flow]))
        });
        assert!(on_acks.len() > 3_000, "{cc}: {}", on_acks.len());
        for other in [half, on_data] {
            // What is on its way as the run ends differs.
            let both = on_acks.iter().zip(&other);
            if let Some((n, (a, b))) = both.enumerate().find(|(_, (a, b))| a != b) {
                panic!("{cc}: {n}: {a:?} and {b:?}");
            }
        }
    }
}
