//! Compound TCP: Tan et al., INFOCOM 2006.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::json;

/// Fairness to standard TCP: once gamma packets are queued dwnd is gone, and what is left grows as Reno does: both get
/// the same.
#[test]
fn compound_shares_with_reno_as_reno_does_where_a_queue_grows() {
    let share = |cc| {
        let net = Dumbbell::new(12, 120).flow(cc, &json!({}), 60 * MS, 0);
        let seen = net.flow("reno", &json!({}), 60 * MS, 130 * MS).run(660 * S).between(60 * S, 660 * S);
        assert!(seen.total() > 11.8, "{seen:?}");
        seen.mbps[0] / seen.total()
    };
    let (compound, reno) = (share("compound"), share("reno"));
    assert!((0.42..0.58).contains(&reno), "two Reno flows share unfairly: {reno}");
    assert!((compound - reno).abs() < 0.08, "{compound} instead of {reno}");
}

/// Efficiency (response function): under a random loss rate p the window is about p^(-1/(2-k)), against Reno's
/// 1.22 p^(-1/2): on a long fat path Compound gets a multiple.
#[test]
fn compound_uses_a_long_fat_path_with_random_loss_better_than_reno() {
    let rate = |cc| {
        let net = Dumbbell::new(240, 1000).loss(1e-4).flow(cc, &json!({}), 100 * MS, 0);
        net.run(130 * S).between(30 * S, 130 * S).total()
    };
    let (compound, reno) = (rate("compound"), rate("reno"));
    assert!(compound > 2.0 * reno, "compound {compound}, reno {reno}");
}
