//! Delay-based AIMD: Leith et al., PFLDnet 2007. The link of Figs. 2 to 4 has 50 Mbit/s, 240 us per packet, and 120 ms.

use super::dumbbell::{Dumbbell, Seen};
use crate::networks::{MS, S};
use serde_json::{Value, json};

const BASE_RTT: u64 = 120 * MS;
/// With one packet's time, ms.
const LEAST_RTT: f64 = 120.24;

/// The basic algorithm (Eq. 1) with some parameters given.
fn basic(given: &Value) -> Value {
    let mut params = json!({
        "gamma": {"ratio": 0.0}, "hold": {"bool": false}, "delta0_mode": {"choice": "fixed"}, "delta0": {"time": 0},
        "adaptive_backoff": {"bool": false}
    });
    params.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
    params
}

/// One flow between 20 s and 60 s in the setting of Fig. 2.
fn fig_2(params: &Value) -> Seen {
    Dumbbell::new(50, 400).flow("daimd", params, BASE_RTT, 0).run(60 * S).between(20 * S, 60 * S)
}

#[test]
fn fig_2_the_queue_just_empties_with_the_adaptive_backoff_and_the_link_idles_with_a_half() {
    let seen = fig_2(&basic(&json!({"adaptive_backoff": {"bool": true}, "delta": {"ratio": 1.0}})));
    assert!(seen.total() > 0.999 * 50.0 && seen.drops == 0, "{seen:?}");
    // What is added in the round trip before the backoff shows is left over: alpha is below 20 packets, 4.8 ms.
    let (least, most) = seen.rtt[0];
    assert!(least < LEAST_RTT + 4.8, "{least}");
    // 20 ms, and once more what was added meanwhile; the queue's 400 packets would be 96 ms.
    assert!(most > LEAST_RTT + 20.0 && most < LEAST_RTT + 24.8, "{most}");
    let seen = fig_2(&basic(&json!({})));
    assert!(seen.total() < 0.8 * 50.0 && seen.rtt[0].0 < LEAST_RTT + 0.01, "{seen:?}");
}

/// Fig. 4: each flow starts with an RTTmin that the others' queue may have shown it; all find the propagation delay,
/// since each backoff aims below RTTmin.
#[test]
fn fig_4_ten_flows_with_false_rtt_mins_find_the_propagation_delay() {
    let queue = |delta: f64| {
        let given = json!({
            "adaptive_backoff": {"bool": true}, "delta": {"ratio": delta}, "rtt_min_initial": {"time": 200 * MS}
        });
        let net = Dumbbell::new(50, 400).initial_window(80).flows(10, "daimd", &basic(&given), BASE_RTT, 10 * MS);
        let seen = net.run(60 * S).between(40 * S, 60 * S);
        seen.rtt.iter().map(|(least, _)| least - LEAST_RTT).fold(0.0, f64::max)
    };
    let [ratchet, none] = [0.75, 1.0].map(queue);
    assert!(ratchet < 1.0, "{ratchet} ms of queue that some flow never saw go");
    assert!(none > 5.0, "{none}");
}

/// Sec. I, with the parameters of Fig. 6.
#[test]
fn equals_keep_the_link_full_at_low_delay_without_a_loss() {
    let net = Dumbbell::new(100, 2083).flows(8, "daimd", &json!({}), 50 * MS, 100 * MS);
    let run = net.run(60 * S);
    let seen = run.between(20 * S, 60 * S);
    // 20 ms are 167 packets.
    assert!(seen.total() > 98.0 && seen.queue < 167.0 && run.between(0, 60 * S).drops == 0, "{seen:?}");
}

/// Sec. IV: the window just before the first backoff.
#[test]
fn limited_slow_start_reaches_the_bandwidth_delay_product_where_the_standard_one_leaves_too_soon() {
    let reached = |mode| {
        let given = json!({"slow_start": {"choice": mode}, "gamma": {"ratio": 0.0}});
        let run = Dumbbell::new(50, 4000).interval(MS).flow("daimd", &given, BASE_RTT, 0).run(10 * S);
        let windows: Vec<f32> =
            run.rows.samples.iter().map(|row| row.cwnd_packets).filter(|cwnd| cwnd.is_finite()).collect();
        windows.windows(2).find(|pair| pair[1] < pair[0]).expect("a backoff")[0]
    };
    let product = 500.0;
    let [standard, limited] = ["standard", "limited"].map(reached);
    assert!(standard < product && limited > product, "{standard} and {limited} packets");
}
