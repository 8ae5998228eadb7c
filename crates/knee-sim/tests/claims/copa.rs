//! Copa: Arun and Balakrishnan, NSDI 2018, and the authors' program.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::json;

/// Sec. 2.2: beside a flow that fills the buffer, mode switching wins a fair part; without it Copa starves.
#[test]
fn copa_competes_with_reno_only_where_it_may_switch_modes() {
    let part = |switching: bool| {
        let net = Dumbbell::new(24, 160).flow("copa", &json!({"mode_switching": {"bool": switching}}), 40 * MS, 0);
        let seen = net.flow("reno", &json!({}), 40 * MS, 0).run(140 * S).between(20 * S, 140 * S);
        seen.mbps[0] / seen.total()
    };
    let (competing, default) = (part(true), part(false));
    assert!(default < 0.15, "{default}");
    assert!((0.3..0.8).contains(&competing), "{competing}");
}

#[test]
fn two_copa_flows_keep_to_default_mode_and_a_short_queue() {
    let net = Dumbbell::new(20, 150).flows(2, "copa", &json!({}), 40 * MS, S);
    let seen = net.run(60 * S).between(10 * S, 60 * S);
    assert!(seen.drops == 0 && seen.queue < 15.0 && seen.jain() > 0.9, "{seen:?}");
    assert!(seen.total() > 0.75 * 20.0, "{seen:?}");
}
