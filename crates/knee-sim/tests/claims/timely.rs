//! TIMELY: Mittal et al., SIGCOMM 2015.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::json;

/// Abstract and Sec. 6: line-rate throughput at RTTs below T_high, without loss. (Nothing is claimed of fairness here:
/// Zhu et al. show that the gradient alone has no unique fixed point.)
#[test]
fn timely_fills_the_link_and_keeps_the_rtt_below_t_high() {
    for flows in [2, 8] {
        let params = json!({"segment": {"bytes": 16_000}});
        let net = Dumbbell::new(10_000, 10_000).interval(10 * MS).flows(flows, "timely", &params, 20_000, 130_000);
        // In TSO's bursts of 45 packets, 54 us long, RTTs of 20 us say little: 2.5 Gbit/s of two flows.
        let net = net.packet_by_packet();
        let seen = net.run(300 * MS).between(100 * MS, 300 * MS);
        // T_high less the base RTT are 480 us, 400 packets of the link.
        assert!(seen.queue_max < 400.0 && seen.drops == 0, "{seen:?}");
        assert!(seen.total() > 9_000.0, "{seen:?}");
    }
}

#[test]
fn with_thresholds_above_the_base_rtt_timely_runs_on_a_long_path() {
    let params = json!({
        "above_base": {"bool": true}, "t_low": {"time": 2 * MS}, "t_high": {"time": 20 * MS}, "delta": {"rate": 100_000}
    });
    let net = Dumbbell::new(48, 1000).flows(2, "timely", &params, 20 * MS, 0);
    let seen = net.run(40 * S).between(20 * S, 40 * S);
    // 20 ms are 80 packets.
    assert!(seen.total() > 40.0 && seen.queue < 80.0 && seen.drops == 0, "{seen:?}");
}
