//! FAST TCP: Jin, Wei, Low, INFOCOM 2004.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::json;

/// Abstract and equilibrium: in equilibrium each flow keeps alpha packets in the queue, whatever its RTT.
#[test]
fn each_fast_flow_keeps_alpha_packets_in_the_queue() {
    for (flows, alpha) in [(1, 20), (1, 50), (3, 20)] {
        let net = Dumbbell::new(48, 400).flows(flows, "fast", &json!({"alpha": {"count": alpha}}), 30 * MS, 5 * MS);
        let seen = net.run(40 * S).between(20 * S, 40 * S);
        let wanted = (flows * alpha) as f64;
        // The handshake told every flow the true base RTT; the packet in service counts as queued for the flows.
        assert!((seen.queue - wanted).abs() < 0.1 * wanted, "{flows} flows, alpha {alpha}: {seen:?}");
        assert!(seen.total() > 47.9 && seen.drops == 0 && seen.jain() > 0.99, "{seen:?}");
    }
}
