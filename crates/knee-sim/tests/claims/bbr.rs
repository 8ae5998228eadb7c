//! BBR: the states of a flow alone on 12 Mbit/s and 40 ms, which is 1000 packets a second and a BDP of 40 packets.

use super::dumbbell::Dumbbell;
use crate::networks::{MS, S};
use serde_json::json;

fn alone() -> Dumbbell {
    Dumbbell::new(12, 400).flow("bbr", &json!({}), 40 * MS, 0)
}

#[test]
fn bbr_goes_through_startup_and_drain_to_probe_bw_and_fills_the_link_with_little_queue() {
    let run = alone().run(8 * S);
    let names: Vec<_> = run.phases(0).iter().map(|(_, name)| *name).collect();
    assert_eq!(names, ["startup", "drain", "probe_bw"]);
    // Growth ends within log2(40 / 10) rounds, three more see no growth, each up to three times 40 ms.
    assert!(run.phases(0)[1].0 - run.phases(0)[0].0 < 0.6, "{:?}", run.phases(0));
    // Pacing is 1 % below what is estimated.
    let seen = run.between(3 * S, 8 * S);
    assert!(seen.total() > 0.98 * 12.0, "{seen:?}");
    // A quarter of a BDP is queued while probing, 10 ms and a packet's time; the cruise before may hold a little.
    assert!(seen.rtt[0].1 < 60.0, "{seen:?}");
}

#[test]
fn ten_seconds_without_a_lower_rtt_lead_bbr_to_probe_rtt_for_200_ms_at_4_packets() {
    // The path gets longer: no sample reaches the old minimum again.
    let run = alone().interval(10 * MS).rtt_at(3 * S, 60 * MS).run(18 * S);
    let [(entered, "probe_rtt"), (left, "probe_bw")] = run.phases(0)[3..5] else { panic!("{:?}", run.phases(0)) };
    assert!(entered > 10.0 && entered < 14.0, "{entered}");
    assert!((0.2..0.4).contains(&(left - entered)), "from {entered} to {left}");
    let window = |at: f64| run.rows.samples.iter().find(|row| row.t_s >= at).unwrap().cwnd_packets;
    assert!(window(entered) <= 4.0 && window(left - 0.02) <= 4.0);
    // Twice 1000 packets a second and 61 ms with the packet's own time.
    assert!((122.0..=140.0).contains(&window(left + 3.0)), "{}", window(left + 3.0));
}

#[test]
fn after_the_rate_halves_bbrs_estimate_follows_within_ten_rounds() {
    let run = alone().rate_at(3 * S, 6).run(8 * S);
    let seen = run.between(6 * S, 8 * S);
    assert!(seen.total() > 0.97 * 6.0, "{seen:?}");
    // Of payload, 1448 of 1500 bytes: 99 %, times one of the three gains.
    let paced = 6.0 * 0.99 * 1448.0 / 1500.0;
    for row in run.rows.samples.iter().filter(|row| row.t_s > 6.0) {
        let gain = f64::from(row.pacing_rate_mbps) / paced;
        assert!([0.75, 1.0, 1.25].iter().any(|wanted| (gain / wanted - 1.0).abs() < 0.01), "gain {gain}");
    }
}

#[test]
fn five_percent_of_random_loss_leave_bbr_nine_tenths_of_the_link() {
    // Cardwell et al., Fig. 8: at 5 % random loss BBR still has nearly all of the link. The loss is before the queue:
    // what is sent beyond the link's rate makes up for it.
    for seed in 0..4 {
        let seen = alone().loss(0.05).seed(seed).run(10 * S).between(5 * S, 10 * S);
        assert!(seen.total() > 0.9 * 12.0 && seen.drops > 150, "{seen:?}");
    }
}
