//! BBRv3: test cases of draft-ietf-ccwg-bbr's Appendix A and its goals. Where nothing else is said, the path has
//! 12 Mbit/s and 40 ms, which is 1000 packets a second and a BDP of 40 packets.

use super::at_one_bdp;
use super::dumbbell::{Dumbbell, Run};
use crate::networks::{MS, S};
use serde_json::json;

fn alone(mbps: u64, packets: u64) -> Dumbbell {
    Dumbbell::new(mbps, packets).flow("bbr3", &json!({}), 40 * MS, 0)
}

/// Time from `from` s on at which the flow is in `phase`.
fn next(run: &Run, phase: &str, from: f64) -> f64 {
    run.entered(0, phase).into_iter().find(|at| *at >= from).unwrap_or_else(|| panic!("{:?}", run.phases(0)))
}

/// "Exiting STARTUP on Bandwidth Plateau" and "Exiting DRAIN Based on Inflight".
#[test]
fn a_plateau_leads_bbr3_through_drain_to_probe_bw() {
    let run = alone(12, 400).run(S);
    // With the queue drained there is nothing left to do in probe_bw_down: it is passed on the same ACK.
    let names: Vec<_> = run.phases(0).iter().map(|(_, name)| *name).collect();
    assert_eq!(names, ["startup", "drain", "probe_bw_cruise"]);
    assert_eq!(run.between(0, S).lost, 0);
    // Two rounds of growth and three without, at up to twice 40 ms.
    assert!(run.phases(0)[1].0 - run.phases(0)[0].0 < 0.5, "{:?}", run.phases(0));
}

#[test]
fn bbr3_alone_fills_the_link_and_probes_every_two_to_three_seconds_or_sooner() {
    let run = alone(12, 400).run(21 * S);
    // Probe_rtt costs 2 % by design (5.3.4.2), pacing leaves 1 %.
    let seen = run.between(S, 21 * S);
    assert!(seen.total() > 0.96 * 12.0, "{seen:?}");
    let ups = run.entered(0, "probe_bw_up");
    assert!(ups.len() >= 6, "{ups:?}");
    for pair in ups.windows(2) {
        // 2 to 3 s, the rounds of up and refill before, and a visit to probe_rtt on the way.
        assert!(pair[1] - pair[0] < 4.0, "{ups:?}");
    }
}

/// "Entering and Exiting PROBE_RTT": half a BDP for 200 ms and a round, five seconds after the last least RTT.
#[test]
fn five_seconds_without_a_lower_rtt_lead_bbr3_to_probe_rtt_at_half_a_bdp() {
    let run = alone(12, 400).interval(10 * MS).rtt_at(2 * S, 41 * MS).run(9 * S);
    let entered = next(&run, "probe_rtt", 0.0);
    assert!(entered > 5.0 && entered < 8.0, "{entered}");
    // 0.5 · 1000/s · 41 ms is 20.5 packets.
    let window = run.rows.samples.iter().find(|row| row.t_s >= entered + 0.1).unwrap().cwnd_packets;
    assert!((20.0..=22.0).contains(&window), "{window}");
    assert!((0.2..0.4).contains(&(next(&run, "probe_bw_cruise", entered) - entered)), "{:?}", run.phases(0));
}

/// 5.3.1.3, and the loss ceiling of 5.5.10.2: a buffer of half a BDP.
#[test]
fn a_shallow_buffer_ends_bbr3s_startup_by_loss_and_it_loses_less_than_two_percent_from_then_on() {
    let seen = alone(12, 20).run(30 * S).between(2 * S, 30 * S);
    let sent = seen.total() / 12.0 * 28_000.0 + seen.lost as f64;
    assert!((seen.lost as f64) < 0.02 * sent && seen.total() > 0.85 * 12.0, "{seen:?}");
}

/// 5.3.3.8: one per cent of random loss is to be tolerated. Some of the link is lost to the short-term bounds, which
/// every round with a loss between two probes lowers to what was delivered: 1 % of margin and 1 % of loss less than
/// sent.
#[test]
fn one_percent_of_random_loss_leaves_bbr3_most_of_the_link() {
    for seed in 0..4 {
        let seen = alone(120, 4000).loss(0.01).seed(seed).run(35 * S).between(5 * S, 35 * S);
        // Reno would have sqrt(3/(2p)) packets in 40 ms (Mathis et al. 1997), 3.7 Mbit/s.
        assert!(seen.total() > 0.7 * 120.0, "{seen:?}");
    }
}

/// "Increasing Bandwidth 10x".
#[test]
fn bbr3_finds_ten_times_the_bandwidth_in_a_few_probes() {
    let seen = alone(3, 400).rate_at(4 * S, 30).run(18 * S).between(16 * S, 18 * S);
    assert!(seen.total() > 0.9 * 30.0, "{seen:?}");
}

/// "Decreasing Bandwidth 10x": two probing cycles later the estimate has followed.
#[test]
fn bbr3_follows_a_tenth_of_the_bandwidth_within_two_cycles() {
    let run = alone(30, 100).rate_at(4 * S, 3).run(30 * S);
    let mut at = 4.0;
    for _ in 0..2 {
        // A cycle takes 3 s, half a second of probe_rtt, and a few round trips of up to 440 ms.
        let down = next(&run, "probe_bw_down", next(&run, "probe_bw_up", at));
        assert!(down < at + 8.0, "{:?}", run.phases(0));
        at = down;
    }
    let rate = run.rows.samples.iter().find(|row| row.t_s > at + 1.0).unwrap().pacing_rate_mbps;
    assert!(rate <= 3.0, "{rate}");
    let from = (at as u64 + 2) * S;
    let seen = run.between(from, from + 8 * S);
    assert!(seen.total() > 0.9 * 3.0 && (seen.lost as f64) < 0.02 * 8.0 * 250.0, "{seen:?}");
}

#[test]
fn bbr3_shares_a_link_with_cubic_at_one_bandwidth_delay_product_of_buffer() {
    // draft-ietf-ccwg-bbr-06: v3 leaves room for flows that fill buffers, and bounds its own losses by BBRLossThresh,
    // 2 %. Neither flow is starved: each has at least a quarter of the link's payload rate of 95.6 Mbit/s.
    let output = at_one_bdp(&["bbr3", "cubic"], 0.0, 120);
    let [bbr, cubic] = [&output.flows[0], &output.flows[1]];
    assert!(bbr.goodput_mbps.min(cubic.goodput_mbps) > 0.25 * 95.6, "{output:?}");
    let lost = bbr.lost_packets as f64 / bbr.sent_packets as f64;
    assert!(lost < 0.02, "{lost}");
    assert!(output.links[0].utilization > 0.97, "{output:?}");
}

#[test]
fn bbr3_holds_its_rate_below_its_loss_ceiling_and_gives_way_above() {
    // BBRLossThresh is 2 %: random loss of 0.5 % is no reason to slow down much, 5 % is.
    let below = at_one_bdp(&["bbr3"], 0.005, 60).flows[0].goodput_mbps;
    let above = at_one_bdp(&["bbr3"], 0.05, 60).flows[0].goodput_mbps;
    assert!(below > 0.75 * 95.6 && above < 0.25 * 95.6, "{below} and {above} Mbit/s");
}
