//! LEDBAT: RFC 6817, on 10 Mbit/s with a queue of up to 240 ms.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::json;

fn alone() -> Dumbbell {
    Dumbbell::new(10, 200).flow("ledbat", &json!({}), 40 * MS, 0)
}

#[test]
fn ledbat_alone_fills_the_link_and_holds_the_queue_at_the_target() {
    let run = alone().run(120 * S);
    let seen = run.between(60 * S, 120 * S);
    // Within two packets of the target of 100 ms; an RTT is 40 ms and one packet's time of 1.2 ms more.
    assert!(seen.total() > 9.999 && seen.rtt[0].0 > 138.2 && seen.rtt[0].1 < 144.2, "{seen:?}");
    assert_eq!(run.between(0, 120 * S).drops, 0);
}

#[test]
fn ledbat_yields_to_a_reno_flow() {
    let seen = alone().flow("reno", &json!({}), 40 * MS, 60 * S).run(240 * S).between(120 * S, 240 * S);
    // Even shares would be 5 Mbit/s each.
    assert!(seen.mbps[0] < 0.5 && seen.mbps[1] > 9.0, "{seen:?}");
}
