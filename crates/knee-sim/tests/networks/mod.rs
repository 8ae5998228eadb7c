//! Networks for tests: by hand, and at random.

use proptest::prelude::*;
use serde_json::{Value, json};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1000 * MS;

/// A link with its queue.
pub fn link(rate: u64, limit: &Value) -> Value {
    json!({
        "name": "bottleneck", "capacity": {"rate": rate}, "queue": "pfifo", "limit": limit, "overhead": 14,
        "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false, "burst": null, "reverse": null
    })
}

/// An endless flow over the first link.
pub fn flow(cc: &str, rtt: u64, start: u64, stop: u64) -> Value {
    json!({"label": cc, "cc": cc, "rtt": rtt, "start": start, "stop": stop, "bytes": null, "path": [0]})
}

/// A specification.
pub fn spec(duration: u64, links: &[Value], flows: &[Value]) -> Value {
    json!({
        "duration": duration, "seed": 1, "warmup": 0, "interval": 100 * MS, "links": links, "flows": flows
    })
}

/// The name of an algorithm.
pub fn any_cc() -> impl Strategy<Value = &'static str> {
    let names: Vec<_> = knee_cc::registry().iter().map(|entry| entry.name).collect();
    prop::sample::select(names)
}

/// What a flow asks of ECN.
pub fn any_ecn() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("off"), 2 => Just("on"), 1 => Just("accurate"), 1 => Just("l4s")]
}

prop_compose! {
    /// Flows over one link. In half of them all times are round, so that much happens at the same nanosecond: a full
    /// packet takes a whole number of microseconds then.
    pub fn any_dumbbell()(
        round in any::<bool>(),
        (rate, new_rate) in (1_000_000u64..200_000_000, 1_000_000u64..200_000_000),
        (us, new_us) in (60u64..2000, 60u64..2000),
        packets in 1u64..300,
        queue in prop_oneof![
            Just("pfifo"),
            prop::sample::select(knee_queue::registry().iter().map(|entry| entry.name).collect::<Vec<_>>()),
        ],
        endless in any::<bool>(),
        loss in prop_oneof![Just(0.0), 0.0..0.02],
        flows in prop::collection::vec(
            (any_cc(), 2 * MS..80 * MS, 0..S, prop::option::of(1u64..300_000), any::<bool>(), any_ecn()), 1..9
        ),
        new_rtt in 2 * MS..80 * MS,
        held_back in any::<bool>(),
        sack_delay in prop_oneof![Just(0), Just(MS)],
        warmup in prop_oneof![Just(0), Just(S / 2), Just(2 * S - 7 * MS)],
        delayed_ack in prop_oneof![Just(40 * MS), Just(MS)],
    ) -> Value {
        let rounded = |time: u64| if round { time / (10 * MS) * (10 * MS) } else { time };
        let carried = |rate: u64, us: u64| if round { 1514 * 8 * 1_000_000 / us } else { rate };
        let mut link = link(carried(rate, us), &json!({"packets": packets}));
        (link["queue"], link["loss"]) = (json!(queue), json!(loss));
        if queue == "fq" && held_back {
            link["queue_params"] = json!({"flow_max_rate": {"rate": rate / 3}});
        }
        let flows: Vec<Value> = flows.into_iter().map(|(cc, rtt, start, bytes, paced, ecn)| {
            let mut f = flow(cc, rounded(rtt).max(2 * MS), rounded(start), 2 * S - rounded(start / 4));
            let bytes = if endless { None } else { bytes };
            (f["bytes"], f["pacing"], f["ecn"]) = (json!(bytes), json!(paced), json!(ecn));
            f
        }).collect();
        let mut spec = spec(2 * S, &[link], &flows);
        spec["warmup"] = json!(warmup);
        spec["changes"] = json!([
            {"at": S, "what": {"rate": {"link": 0, "rate": carried(new_rate, new_us)}}},
            {"at": S + S / 4, "what": {"rtt": {"flow": 0, "rtt": rounded(new_rtt).max(2 * MS)}}},
            {"at": S + S / 2, "what": {"limit": {"link": 0, "limit": {"packets": 3}}}},
        ]);
        spec["tcp"] = json!({"sack_delay": sack_delay, "delayed_ack": delayed_ack});
        spec
    }
}

prop_compose! {
    /// Dumbbells with up to three more links, all crossed in one direction. Some have the rate of the first, so that
    /// packets leave several links at the same time.
    pub fn any_chain()(
        spec in any_dumbbell(),
        more in prop::collection::vec(
            (any::<bool>(), 1_000_000u64..200_000_000, 1u64..300, prop_oneof![Just(0u64), Just(120_000), 0u64..400_000]),
            0..4,
        ),
        queues in prop::collection::vec(
            prop::sample::select(knee_queue::registry().iter().map(|entry| entry.name).collect::<Vec<_>>()), 4
        ),
        paths in prop::collection::vec((0usize..4, 0usize..4), 9),
        (backwards, first_delay) in (any::<bool>(), prop_oneof![Just(0u64), Just(120_000)]),
    ) -> Value {
        let mut spec = spec;
        let mut links = vec![spec["links"][0].clone()];
        links[0]["delay"] = json!(first_delay);
        for (i, (same, rate, packets, delay)) in more.into_iter().enumerate() {
            let mut next = link(rate, &json!({"packets": packets}));
            if same {
                next["capacity"] = links[0]["capacity"].clone();
            }
            (next["name"], next["delay"], next["queue"]) = (json!(format!("link {i}")), json!(delay), json!(queues[i]));
            links.push(next);
        }
        for (flow, (a, b)) in spec["flows"].as_array_mut().unwrap().iter_mut().zip(paths) {
            let (a, b) = (a % links.len(), b % links.len());
            let path: Vec<usize> = (a.min(b)..=a.max(b)).collect();
            flow["path"] = if backwards { json!(path.into_iter().rev().collect::<Vec<_>>()) } else { json!(path) };
        }
        spec["links"] = json!(links);
        spec
    }
}

prop_compose! {
    /// A small network with everything in it that a scenario can ask for.
    pub fn any_network()(
        rate in 1u64..50,
        packets in 1u64..200,
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        jitter in prop_oneof![Just(0), 0..5 * MS],
        reorder in any::<bool>(),
        burst in prop_oneof![Just(None), Just(Some(1600u64)), Just(Some(200_000))],
        warmup in prop_oneof![Just(0), Just(S / 2), Just(2 * S - 3 * MS)],
        delay in 0..2 * MS,
        reverse in prop_oneof![Just(Value::Null), Just(json!({
            "capacity": {"rate": 2_000_000}, "queue": "pfifo", "limit": {"packets": 20}
        }))],
        traced in any::<bool>(),
        single in any::<bool>(),
        flows in prop::collection::vec((any_cc(), 2u64..80, 0u64..500, prop::option::of(1u64..300_000), any::<bool>()), 1..5),
        backwards in any::<bool>(),
        new_rate in 1u64..50,
        seed in any::<u64>(),
    ) -> Value {
        let mut first = link(rate * 1_000_000, &json!({"packets": packets}));
        first["loss"] = json!(loss);
        first["jitter"] = json!(jitter);
        first["reorder"] = json!(reorder);
        first["burst"] = json!(burst);
        first["delay"] = json!(delay);
        first["reverse"] = reverse.clone();
        let mut second = link(20_000_000, &json!({"time": 20 * MS}));
        second["name"] = json!("second");
        if traced {
            second["capacity"] = json!({"trace": [0, 0, 1, 5, 5, 7, 12, 30]});
        }
        let mut all = Vec::new();
        for (i, (cc, rtt, start, bytes, paced)) in flows.into_iter().enumerate() {
            let mut f = flow(cc, rtt * MS, start * MS, 2 * S);
            f["bytes"] = json!(bytes);
            f["pacing"] = json!(paced);
            f["path"] = if i % 2 == 0 && !single { json!([0, 1]) } else { json!([0]) };
            // Only a link whose reverse direction has a rate can carry data backwards.
            f["reverse"] = json!(backwards && i % 2 == 1 && !reverse.is_null());
            all.push(f);
        }
        if single {
            // Half of these are dumbbells, in which time may pass in batches.
            (first["delay"], first["jitter"]) = (json!(0), json!(0));
        }
        let links = if single { vec![first] } else { vec![first, second] };
        let mut spec = spec(2 * S, &links, &all);
        (spec["seed"], spec["warmup"]) = (json!(seed), json!(warmup));
        spec["changes"] = json!([
            {"at": S, "what": {"rate": {"link": 0, "rate": new_rate * 1_000_000}}},
            {"at": S + S / 2, "what": {"limit": {"link": 0, "limit": {"packets": 3}}}},
            {"at": S + S / 4, "what": {"rtt": {"flow": 0, "rtt": 9 * MS}}},
        ]);
        spec
    }
}
