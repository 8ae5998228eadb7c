//! PCC Vivace: Dong et al., NSDI 2018, and the authors' program.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S, flow, link, spec};
use knee_sim::Simulation;
use serde_json::{Value, json};

/// Fairness and convergence: flows that start one after another come to equal shares and fill the link. Rates are tried
/// in random order: the mean of six runs.
#[test]
fn vivace_flows_converge_to_fair_shares() {
    for utility in ["latency", "loss"] {
        let params = json!({"utility": {"choice": utility}});
        let total = |seed| {
            let net = Dumbbell::new(48, 120).seed(seed).flows(2, "vivace", &params, 30 * MS, 10 * S);
            let seen = net.packet_by_packet().run(180 * S).between(60 * S, 180 * S);
            assert!(seen.jain() > 0.95, "{utility}: {seen:?}");
            seen.total()
        };
        let mean = (1..=6).map(total).sum::<f64>() / 6.0;
        assert!(mean > 0.9 * 48.0, "{utility}: {mean} Mbit/s");
    }
}

/// Vivace and CUBIC shares of 20 Mbit/s, the sums over their flows, with a buffer of `packets` at 40 ms.
fn beside_cubic(params: &Value, flows: u64, packets: u64) -> (f64, f64) {
    let net = Dumbbell::new(20, packets).flows(flows, "vivace", params, 40 * MS, 100 * MS);
    let seen = net.flow("cubic", &json!({}), 40 * MS, S).run(160 * S).between(40 * S, 160 * S);
    let cubic = seen.mbps[flows as usize];
    (seen.total() - cubic, cubic)
}

/// The latency utility takes CUBIC's queue for congestion: Vivace gives way, and CUBIC has at least its fair share.
/// The authors' program beside the kernel's CUBIC has 6.3 of 19.3 Mbit/s.
#[test]
fn beside_vivace_latency_cubic_has_its_share() {
    for (flows, packets) in [(1, 33), (1, 133), (2, 33), (2, 133)] {
        let (vivace, cubic) = beside_cubic(&json!({}), flows, packets);
        let fair = (vivace + cubic) / (flows + 1) as f64;
        assert!(cubic > fair, "{flows} flows, {packets} packets: {vivace} and {cubic} Mbit/s");
        assert!(vivace > 0.5, "{flows} flows, {packets} packets: {vivace} and {cubic} Mbit/s");
    }
}

/// The loss utility is made to stand 5 % of loss, at which CUBIC's window is some 6 packets: CUBIC starves, as the
/// algorithm wants it.
#[test]
fn beside_vivace_loss_cubic_starves() {
    for flows in [1, 2] {
        let (vivace, cubic) = beside_cubic(&json!({"utility": {"choice": "loss"}}), flows, 133);
        assert!(cubic < 0.1 * (vivace + cubic) && vivace > 15.0, "{flows} flows: {vivace} and {cubic} Mbit/s");
    }
}

/// Random loss: where 1 % of packets get lost Reno comes down to a fraction, Vivace to little less than the link.
#[test]
fn vivace_tolerates_random_loss() {
    let rate = |cc, params: &Value| {
        let net = Dumbbell::new(96, 240).loss(0.01).flow(cc, params, 30 * MS, 0);
        net.run(90 * S).between(30 * S, 90 * S).total()
    };
    let (vivace, reno) = (rate("vivace", &json!({})), rate("reno", &json!({})));
    assert!(vivace > 0.8 * 96.0 && reno < 0.1 * 96.0, "vivace {vivace}, reno {reno}");
}

#[test]
fn two_vivace_flows_come_to_equal_shares_with_a_short_queue() {
    let net = Dumbbell::new(20, 100).flows(2, "vivace", &json!({}), 40 * MS, S);
    let seen = net.run(80 * S).between(20 * S, 80 * S);
    assert!(seen.jain() > 0.95 && seen.total() > 0.9 * 20.0 && seen.queue < 20.0, "{seen:?}");
}

/// Goodput of three Vivace flows on 30 Mbit/s and 30 ms behind a token bucket, one after another.
fn three_vivace_flows(stagger: u64) -> f64 {
    let mut link = link(30_000_000, &json!({"packets": 150}));
    link["burst"] = json!(1600);
    let flows: Vec<_> = (0..3).map(|i| flow("vivace", 30 * MS, i * stagger, 40 * S)).collect();
    let mut spec = spec(40 * S, &[link], &flows);
    spec["warmup"] = json!(13 * S);
    let output = Simulation::new(&serde_json::from_value(spec).unwrap()).unwrap().run().unwrap().0;
    output.flows.iter().map(|flow| flow.goodput_mbps).sum()
}

#[test]
fn three_vivace_flows_use_the_link_whenever_they_start() {
    // The authors' program on Linux: 29.0 of 30 Mbit/s (one run). On a path without noise the RTTs of each flow alone
    // were the same for good, which its program takes for one burst: none of the flows left its first rate, 3.6 Mbit/s.
    for stagger in [0, 3 * MS, 500 * MS, S] {
        let goodput = three_vivace_flows(stagger);
        assert!(goodput > 27.0, "{goodput} Mbit/s with starts {stagger} ns apart");
    }
}

#[test]
fn thirteen_vivace_flows_at_a_buffer_of_one_packet_send_little_more_than_the_link_carries() {
    // 7.5 Mbit/s carries 619 packets of 1514 bytes in a second. A flow's utility falls with its rate from 9 % of loss
    // on (11.35 x L > t x^(t - 1)), so all together never send many times what arrives.
    let mut link = link(7_500_000, &json!({"packets": 1}));
    link["queue"] = json!("fq_codel");
    let flow = flow("vivace", 20 * MS, 0, 3 * S);
    let spec = serde_json::from_value(spec(3 * S, &[link], &vec![flow; 13])).unwrap();
    let output = Simulation::new(&spec).unwrap().run().unwrap().0;
    let sent: u64 = output.flows.iter().map(|flow| flow.sent_packets).sum();
    assert!(sent < 10 * 3 * 619, "{sent} packets sent");
}
