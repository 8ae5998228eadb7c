//! Reno, of which the law is known best: what the network itself must get right.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::json;

#[test]
fn two_reno_flows_fill_a_link_with_one_bdp_of_buffer_and_share_it() {
    // 12 Mbit/s = 1000 packets/s; 40 ms: BDP 40 packets. With a buffer of one BDP half the peak window still
    // fills the pipe, so nothing is left idle.
    let net = Dumbbell::new(12, 40).flows(2, "reno", &json!({}), 40 * MS, 300 * MS);
    let seen = net.run(120 * S).between(20 * S, 120 * S);
    assert!(seen.total() > 11.5 && seen.total() <= 12.001 && seen.jain() > 0.9, "{seen:?}");
    assert!(seen.queue < 40.0 && seen.queue_max <= 40.0 && seen.drops > 0, "{seen:?}");
}

/// Mathis et al. 1997: W = sqrt(3/(2p)) = 8.7 packets where every packet is acknowledged at once, sqrt(3/(4p)) = 6.1
/// where every other one is; in 41 ms these are 2.5 and 1.8 Mbit/s.
#[test]
fn random_loss_leaves_reno_the_rate_of_mathis() {
    let seen = Dumbbell::new(12, 1000).loss(0.02).flow("reno", &json!({}), 40 * MS, 0).run(200 * S);
    let seen = seen.between(10 * S, 200 * S);
    assert!((1.8..3.1).contains(&seen.total()), "{seen:?}");
}
