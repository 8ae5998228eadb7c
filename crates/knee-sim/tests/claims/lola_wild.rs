//! LoLa for networks that others use too: 50 Mbit/s and 40 ms, 167 packets, unless a test says otherwise.

use super::dumbbell::{Dumbbell, Seen};
use crate::networks::{MS, S};
use serde_json::json;

/// A flow alone or beside others, from `from` to `until` seconds.
fn seen(limit: u64, others: &[(&str, u64)], [from, until]: [u64; 2]) -> Seen {
    let alone = Dumbbell::new(50, limit).flow("lola-wild", &json!({}), 40 * MS, 0);
    let net = others.iter().fold(alone, |net, (cc, start)| net.flow(cc, &json!({}), 40 * MS, start * MS));
    net.run(until * S).between(from * S, until * S)
}

#[test]
fn alone_and_among_its_own_kind_the_queue_is_lolas() {
    let alone = seen(334, &[], [10, 40]);
    assert!(alone.total() > 48.0, "{alone:?}");
    for step in [700, 1_100, 1_900] {
        let others: Vec<_> = (1..5).map(|i| ("lola-wild", i * step)).collect();
        let five = seen(334, &others, [15, 60]);
        assert!(five.total() > 48.0 && five.jain() > 0.98, "{step}: {five:?}");
        // 5 ms are 21 packets; rounds overshoot by what is added until it shows.
        assert!(alone.queue < 21.0 && five.queue < 21.0, "{step}: {alone:?} {five:?}");
    }
}

#[test]
fn beside_cubic_and_bbrv3_it_has_a_third_of_a_fair_share() {
    for (cc, limits) in [("cubic", [167, 334, 668].as_slice()), ("bbr3", &[334, 668])] {
        for &limit in limits {
            for start in [0, 777, 3_100] {
                let beside = seen(limit, &[(cc, start)], [30, 90]);
                assert!(beside.mbps[0] > 25.0 / 3.0, "{cc} {limit} {start}: {beside:?}");
            }
        }
    }
}

#[test]
fn five_flows_are_back_at_low_delay_ten_seconds_after_cubic_has_left() {
    for start in [9_000, 10_300, 12_700] {
        let step = start / 12;
        let first = Dumbbell::new(50, 334).flow("lola-wild", &json!({}), 40 * MS, 0);
        let five = (1..5).fold(first, |net, i| net.flow("lola-wild", &json!({}), 40 * MS, i * step * MS));
        let run = five.flow("cubic", &json!({}), 40 * MS, start * MS).stop(30 * S).run(50 * S);
        let (before, after) = (run.between(20 * S, 30 * S), run.between(40 * S, 50 * S));
        assert!(before.queue > 100.0, "{start}: {before:?}");
        assert!(after.queue < 21.0 && after.total() > 47.0, "{start}: {after:?}");
    }
}

#[test]
fn a_longer_path_is_known_within_two_seconds() {
    for ms in [60, 120] {
        let net = Dumbbell::new(50, 334).flow("lola-wild", &json!({}), 40 * MS, 0);
        let seen = net.rtt_at(30 * S, ms * MS).run(37 * S).between(32 * S, 37 * S);
        assert!(seen.total() > 0.8 * 50.0, "{ms} ms: {seen:?}");
        assert!(seen.queue < 60.0, "{ms} ms: {seen:?}");
    }
}

#[test]
fn without_a_part_its_networks_are_lost() {
    // Either of the two follows a longer path: of its way back, timestamps tell.
    let without = json!({"routes": {"bool": false}, "one_way": {"bool": false}});
    let longer = Dumbbell::new(50, 334).flow("lola-wild", &without, 40 * MS, 0);
    let longer = longer.rtt_at(30 * S, 60 * MS).run(37 * S).between(32 * S, 37 * S);
    assert!(longer.total() < 30.0, "{longer:?}");
    let yields = Dumbbell::new(50, 668).flow("lola-wild", &json!({"compete": {"bool": false}}), 40 * MS, 0);
    let yields = yields.flow("cubic", &json!({}), 40 * MS, 0).run(60 * S).between(30 * S, 60 * S);
    assert!(yields.mbps[0] < 4.0, "{yields:?}");
}
