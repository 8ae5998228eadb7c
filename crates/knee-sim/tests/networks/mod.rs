//! Networks for tests: by hand, and at random.

use knee_core::testing::{Pick, values};
use knee_core::{Params, ParamsSpec, Rate, Value as Given};
use knee_link::registry::{Choice, delays, find, losses, models};
use knee_traffic::random::any_application;
use proptest::prelude::*;
use serde_json::{Value, json};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1000 * MS;

/// A link with its queue.
pub fn link(rate: u64, limit: &Value) -> Value {
    json!({"name": "bottleneck", "capacity": {"rate": rate}, "queue": "pfifo", "limit": limit, "overhead": 14})
}

/// An endless flow over the first link.
pub fn flow(cc: &str, rtt: u64, start: u64, stop: u64) -> Value {
    json!({"label": cc, "cc": cc, "rtt": rtt, "start": start, "stop": stop, "path": [0]})
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

/// A flow's use of ECN.
pub fn any_ecn() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("off"), 2 => Just("on"), 1 => Just("accurate"), 1 => Just("l4s")]
}

/// The codepoint of a flow: none in half of the cases.
pub fn any_dscp() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), 0u8..64]
}

/// One of several choices, and what its parameters are, in half of the cases as declared.
type Drawn = (&'static Choice, Vec<Pick>);

fn any_of(choices: impl IntoIterator<Item = &'static Choice>) -> impl Strategy<Value = Drawn> {
    let picks = prop_oneof![Just(Vec::new()), prop::collection::vec((0u8..8, any::<u64>()), 1..32)];
    (prop::sample::select(choices.into_iter().collect::<Vec<_>>()), picks)
}

/// As a specification has it.
fn told(name: &str, given: &[(&str, Given)]) -> Value {
    let params: ParamsSpec = given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    json!({"name": name, "params": params})
}

/// How a link works: what sends, what loses packets before its queue, and what delays them behind it.
#[derive(Clone, Debug)]
pub struct Works {
    model: Drawn,
    loss: Option<Drawn>,
    delay: Option<Drawn>,
}

impl Works {
    /// Lets a link with a rate work like this.
    pub fn set(&self, link: &mut Value) {
        link["model"] = self.model(&link["capacity"]);
        for (key, drawn) in [("loss_model", &self.loss), ("delay_model", &self.delay)] {
            if let Some((choice, picks)) = drawn {
                link[key] = told(choice.name, &values(choice.params, picks));
            }
        }
    }

    /// Lets links with a rate be on one channel, as far as their rates allow.
    pub fn share(&self, links: &mut [Value]) {
        for link in links {
            link["model"] = self.model(&link["capacity"]);
            if link["model"]["name"] == "wifi" {
                link["channel"] = json!("home");
            }
        }
    }

    /// The model of a link of this capacity: with its declared parameters if those drawn contradict each other or the
    /// rate, and a wire if the declared ones do too.
    fn model(&self, capacity: &Value) -> Value {
        let (choice, picks) = &self.model;
        let rate = Rate::from_bps(capacity["rate"].as_u64().expect("a rate"));
        let model = find(choice.name).expect("it is registered");
        let accepted = |given: &Vec<_>| {
            let params = Params::resolve(choice.params, given.iter().copied()).expect("within the declared ranges");
            (model.check)(&params, rate).is_ok()
        };
        let tried = [values(choice.params, picks), Vec::new()];
        tried.iter().find(|given| accepted(given)).map_or_else(|| told("wire", &[]), |given| told(choice.name, given))
    }
}

/// Wi-Fi with any parameters.
fn any_air() -> impl Strategy<Value = Works> {
    let wifi = models().iter().map(|model| &model.choice).filter(|choice| choice.name == "wifi");
    any_of(wifi).prop_map(|model| Works { model, loss: None, delay: None })
}

/// Slots of netem.
fn any_slot() -> impl Strategy<Value = Value> {
    let most = || prop::option::of(1u64..100_000);
    (1..5 * MS, 0..5 * MS, prop::option::of(1u64..40), most()).prop_map(
        |(min, more, packets, bytes)| json!({"min": min, "max": min + more, "packets": packets, "bytes": bytes}),
    )
}

/// How a link works: half are wires that neither lose packets nor delay them in ways of their own.
pub fn any_works() -> impl Strategy<Value = Works> {
    let registered = || models().iter().map(|model| &model.choice);
    // The table of delays has its values elsewhere.
    let tables = || delays().iter().filter(|delay| delay.name != "table");
    let wire = any_of(registered().take(1)).prop_map(|model| Works { model, loss: None, delay: None });
    let any = (
        any_of(registered()),
        prop_oneof![3 => Just(None), 1 => any_of(losses()).prop_map(Some)],
        prop_oneof![3 => Just(None), 1 => any_of(tables()).prop_map(Some)],
    );
    prop_oneof![wire, any.prop_map(|(model, loss, delay)| Works { model, loss, delay })]
}

/// The same networks; in half of them some flows go over QUIC.
pub fn with_quic(networks: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let acks = (prop_oneof![Just(25 * MS), MS..100 * MS], 0u64..12);
    let presets = ["quinn", "quiche", "neqo", "picoquic", "msquic", "ngtcp2", "chromium"];
    let starts = (0usize..6, prop::option::of(MS..S), prop::option::of(prop::sample::select(presets.to_vec())));
    (networks, any::<bool>(), any::<u16>(), acks, starts).prop_map(
        |(mut spec, some, over, (delay, threshold), starts)| {
            for (i, flow) in spec["flows"].as_array_mut().unwrap().iter_mut().enumerate() {
                if some && over >> (i % 16) & 1 == 1 {
                    flow["transport"] = json!("quic");
                }
            }
            spec["quic"] = json!({
                "zero_rtt": starts.0 == 0, "retry": starts.0 == 1, "idle_timeout": starts.1,
            });
            if let Some(preset) = starts.2 {
                spec["quic"]["preset"] = json!(preset);
            } else {
                spec["quic"]["max_ack_delay"] = json!(delay);
                spec["quic"]["ack_eliciting_threshold"] = json!(threshold);
            }
            spec
        },
    )
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
            (any_cc(), 2 * MS..80 * MS, 0..S, prop::option::of(1u64..300_000), any::<bool>(), any_ecn(), any_dscp()),
            1..9,
        ),
        new_rtt in 2 * MS..80 * MS,
        held_back in any::<bool>(),
        sack_delay in prop_oneof![Just(0), Just(MS)],
        receive_offload in prop_oneof![3 => Just(0), 1 => 1..2 * MS],
        warmup in prop_oneof![Just(0), Just(S / 2), Just(2 * S - 7 * MS)],
        delayed_ack in prop_oneof![Just(40 * MS), Just(MS)],
        works in any_works(),
    ) -> Value {
        let rounded = |time: u64| if round { time / (10 * MS) * (10 * MS) } else { time };
        let carried = |rate: u64, us: u64| if round { 1514 * 8 * 1_000_000 / us } else { rate };
        let mut link = link(carried(rate, us), &json!({"packets": packets}));
        (link["queue"], link["loss"]) = (json!(queue), json!(loss));
        if queue == "fq" && held_back {
            link["queue_params"] = json!({"flow_max_rate": {"rate": rate / 3}});
        }
        works.set(&mut link);
        let flows: Vec<Value> = flows.into_iter().map(|(cc, rtt, start, bytes, paced, ecn, dscp)| {
            let mut f = flow(cc, rounded(rtt).max(2 * MS), rounded(start), 2 * S - rounded(start / 4));
            let bytes = if endless { None } else { bytes };
            (f["bytes"], f["pacing"], f["ecn"], f["dscp"]) = (json!(bytes), json!(paced), json!(ecn), json!(dscp));
            f
        }).collect();
        let mut spec = spec(2 * S, &[link], &flows);
        spec["warmup"] = json!(warmup);
        spec["changes"] = json!([
            {"at": S, "what": {"rate": {"link": 0, "rate": carried(new_rate, new_us)}}},
            {"at": S + S / 4, "what": {"rtt": {"flow": 0, "rtt": rounded(new_rtt).max(2 * MS)}}},
            {"at": S + S / 2, "what": {"limit": {"link": 0, "limit": {"packets": 3}}}},
        ]);
        spec["tcp"] = json!({"sack_delay": sack_delay, "delayed_ack": delayed_ack, "receive_offload": receive_offload});
        spec
    }
}

prop_compose! {
    /// Dumbbells with up to three more links, all crossed in one direction. Some have the rate of the first, so that
    /// packets leave several links at the same time. Some wires are token buckets, which pass packets on at once. In a
    /// quarter of them all links are Wi-Fi on one channel.
    pub fn any_chain()(
        spec in any_dumbbell(),
        more in prop::collection::vec(
            (any::<bool>(), 1_000_000u64..200_000_000, 1u64..300, prop_oneof![Just(0u64), Just(120_000), 0u64..400_000]),
            0..=3,
        ),
        queues in prop::collection::vec(
            prop::sample::select(knee_queue::registry().iter().map(|entry| entry.name).collect::<Vec<_>>()), 4
        ),
        paths in prop::collection::vec((0usize..4, 0usize..4), 9),
        (backwards, first_delay) in (any::<bool>(), prop_oneof![Just(0u64), Just(120_000)]),
        works in prop::collection::vec(any_works(), 3),
        bursts in prop::collection::vec(prop_oneof![3 => Just(None), 1 => Just(Some(1600u64)), 1 => Just(Some(20_000))], 4),
        air in prop_oneof![3 => Just(None), 1 => any_air().prop_map(Some)],
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
            works[i].set(&mut next);
            links.push(next);
        }
        if let Some(air) = air {
            air.share(&mut links);
        }
        for (link, burst) in links.iter_mut().zip(bursts) {
            if link["model"].get("name").is_none_or(|name| name == "wire") {
                link["burst"] = json!(burst);
            }
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
        (works, back, alike) in (any_works(), any_works(), any::<bool>()),
        air in prop_oneof![3 => Just(None), 1 => any_air().prop_map(Some)],
        slot in prop_oneof![3 => Just(Value::Null), 1 => any_slot()],
        corrupt in prop_oneof![3 => Just(0.0), 1 => 0.0..0.05],
    ) -> Value {
        let mut first = link(rate * 1_000_000, &json!({"packets": packets}));
        first["loss"] = json!(loss);
        first["jitter"] = json!(jitter);
        first["reorder"] = json!(reorder);
        first["burst"] = json!(burst);
        first["delay"] = json!(delay);
        (first["slot"], first["corrupt"]) = (slot, json!(corrupt));
        first["reverse"] = reverse.clone();
        if burst.is_none() {
            works.set(&mut first);
            if !reverse.is_null() {
                // Both directions of a Wi-Fi link share the air, those of a satellite link its times.
                let back = if alike { &works } else { &back };
                first["reverse"]["model"] = back.model(&first["reverse"]["capacity"]);
            }
        }
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
        let mut links = if single { vec![first] } else { vec![first, second] };
        if let Some(air) = air && burst.is_none() && !traced {
            air.share(&mut links);
        }
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

/// When transfers start: many at the same nanosecond, at times.
fn any_arrivals() -> impl Strategy<Value = Value> {
    let times = prop::collection::vec(0..2 * S, 1..40).prop_map(|mut times| {
        times.sort_unstable();
        json!({"times": times})
    });
    let round = prop::collection::vec(0..20u64, 1..60).prop_map(|mut times| {
        times.sort_unstable();
        json!({"times": times.into_iter().map(|time| time * 100 * MS).collect::<Vec<_>>()})
    });
    prop_oneof![times, round, (1.0..300.0f64).prop_map(|rate| json!({"poisson": rate}))]
}

prop_compose! {
    /// Dumbbells and chains, on which some flows are connections that come and go: of any size, or of full segments
    /// alone, the last of which may wait for a delayed ACK.
    pub fn any_transfers()(
        spec in prop_oneof![any_dumbbell(), any_chain()],
        traffic in prop::collection::vec(
            (any_arrivals(), prop_oneof![1u64..60_000, (1u64..40).prop_map(|n| n * 1448)], prop::option::of(0u64..50)), 1..5
        ),
        interval in prop_oneof![Just(100 * MS), 3 * MS..S],
    ) -> Value {
        let mut spec = spec;
        spec["interval"] = json!(interval);
        for (flow, (arrivals, size, number)) in spec["flows"].as_array_mut().unwrap().iter_mut().zip(traffic) {
            flow["bytes"] = Value::Null;
            flow["traffic"] = json!({
                "kind": "transfers", "arrivals": arrivals, "size": {"fixed": size}, "persistent": false, "number": number
            });
        }
        spec
    }
}

/// Any kind of traffic over connections that declares its parameters, which offers at most this rate.
pub fn any_declared(most: Rate) -> impl Strategy<Value = Value> {
    any_application(most)
}

/// An application that waits for the end of each connection.
fn any_dialogue() -> impl Strategy<Value = Value> {
    let tls = prop_oneof![Just("none"), Just("1.3"), Just("1.2")];
    prop_oneof![
        (1u64..60_000, 1u32..9, 1u32..7, any::<bool>(), tls, 0u64..30 * MS, any_arrivals(), any::<bool>()).prop_map(
            |(size, objects, connections, persistent, tls, service, arrivals, open)| {
                let pages = if open { json!({"open": arrivals}) } else { json!({"closed": [100 * MS, true]}) };
                json!({
                    "kind": "requests", "pages": pages, "request": 400, "size": {"fixed": size},
                    "objects": {"fixed": objects}, "connections": connections, "persistent": persistent, "tls": tls,
                    "service": service, "number": null
                })
            }
        ),
        any_declared(Rate::from_mbps(50)),
    ]
}

prop_compose! {
    /// As [`any_transfers`], where some of the others wait for answers.
    pub fn any_applications()(
        spec in any_transfers(), dialogues in prop::collection::vec(prop::option::of(any_dialogue()), 9)
    ) -> Value {
        let mut spec = spec;
        for (flow, dialogue) in spec["flows"].as_array_mut().unwrap().iter_mut().zip(dialogues) {
            if let Some(dialogue) = dialogue {
                flow["bytes"] = Value::Null;
                flow["traffic"] = dialogue;
            }
        }
        spec
    }
}
