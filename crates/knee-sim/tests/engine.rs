//! Laws of the engine: nothing is created or lost unaccounted, the same specification gives the same bits, and simple
//! networks do what arithmetic says.

#![expect(clippy::unwrap_used, reason = "a failure here is the test's")]

use knee_core::{Packet, Time};
use knee_sim::{EventRow, Output, Rows, Simulation, Spec, Tap};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn link(rate: u64, limit: &Value) -> Value {
    json!({
        "name": "bottleneck", "capacity": {"rate": rate}, "queue": "pfifo", "limit": limit, "overhead": 14,
        "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false, "burst": null, "reverse": null
    })
}

fn flow(cc: &str, rtt: u64, start: u64, stop: u64) -> Value {
    json!({"label": cc, "cc": cc, "rtt": rtt, "start": start, "stop": stop, "bytes": null, "path": [0]})
}

fn spec(duration: u64, links: &[Value], flows: &[Value]) -> Value {
    json!({
        "duration": duration, "seed": 1, "warmup": 0, "interval": 100 * MS, "links": links, "flows": flows
    })
}

fn simulation(spec: &Value) -> Simulation {
    let spec: Spec = serde_json::from_value(spec.clone()).unwrap();
    Simulation::new(&spec).unwrap()
}

fn run(spec: &Value) -> (Output, Rows) {
    simulation(spec).run().unwrap()
}

/// All that a run gives, whatever the order in which events of one time were noted.
fn account((output, rows): (Output, Rows)) -> Vec<String> {
    let named = |e: &EventRow| (e.t_s, &output.event_names[e.event as usize], e.flow, e.link, e.value);
    let mut all: Vec<String> = rows.events.iter().map(|e| format!("{:?}", named(e))).collect();
    all.sort();
    all.extend(output.flows.iter().map(|flow| serde_json::to_string(flow).unwrap()));
    all.extend(output.links.iter().map(|link| serde_json::to_string(link).unwrap()));
    all.extend(rows.samples.iter().map(|row| format!("{row:?}")));
    all.extend(rows.links.iter().map(|row| format!("{row:?}")));
    all
}

fn fingerprint(spec: &Value) -> (String, Vec<u8>) {
    let (output, rows) = run(spec);
    let mut bytes = bytemuck::cast_slice(&rows.samples).to_vec();
    bytes.extend_from_slice(bytemuck::cast_slice(&rows.links));
    bytes.extend_from_slice(bytemuck::cast_slice(&rows.events));
    (serde_json::to_string(&output).unwrap(), bytes)
}

/// Steps one event at a time and checks the books after each.
fn audited(spec: &Value) -> Output {
    let mut simulation = simulation(spec);
    while simulation.step(1) {
        simulation.audit().unwrap();
    }
    simulation.finish().unwrap().0
}

/// Looks on. With it no link lags behind.
struct Onlooker;

impl Tap for Onlooker {
    fn packet(&mut self, _: u32, _: Time, _: &Packet) {}
}

fn any_cc() -> impl Strategy<Value = &'static str> {
    let names: Vec<_> = knee_cc::registry().iter().map(|entry| entry.name).collect();
    prop::sample::select(names)
}

prop_compose! {
    /// Flows over one link. No two things happen at the same nanosecond, whose order would be anybody's.
    fn any_dumbbell()(
        rate in 1_000_000u64..200_000_000,
        packets in 1u64..300,
        queue in prop::sample::select(vec!["pfifo", "bfifo", "fq"]),
        loss in prop_oneof![Just(0.0), 0.0..0.02],
        flows in prop::collection::vec(
            (any_cc(), 2 * MS..80 * MS, 0..S, prop::option::of(1u64..300_000), any::<bool>(), any::<bool>()), 1..5
        ),
        new_rate in 1_000_000u64..200_000_000,
        new_rtt in 2 * MS..80 * MS,
        held_back in any::<bool>(),
        sack_delay in prop_oneof![Just(0), Just(MS)],
    ) -> Value {
        let mut link = link(rate, &json!({"packets": packets}));
        (link["queue"], link["loss"]) = (json!(queue), json!(loss));
        if queue == "fq" && held_back {
            link["queue_params"] = json!({"flow_max_rate": {"rate": rate / 3}});
        }
        let flows: Vec<Value> = flows.into_iter().map(|(cc, rtt, start, bytes, paced, ecn)| {
            let mut f = flow(cc, rtt, start, 2 * S);
            (f["bytes"], f["pacing"], f["ecn"]) = (json!(bytes), json!(paced), json!(ecn));
            f
        }).collect();
        let mut spec = spec(2 * S, &[link], &flows);
        spec["changes"] = json!([
            {"at": S, "what": {"rate": {"link": 0, "rate": new_rate}}},
            {"at": S + S / 4, "what": {"rtt": {"flow": 0, "rtt": new_rtt}}},
            {"at": S + S / 2, "what": {"limit": {"link": 0, "limit": {"packets": 3}}}},
        ]);
        spec["tcp"] = json!({"sack_delay": sack_delay});
        spec
    }
}

prop_compose! {
    /// A small network with everything in it that a scenario can ask for.
    fn any_network()(
        rate in 1u64..50,
        packets in 1u64..200,
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        jitter in prop_oneof![Just(0), 0..5 * MS],
        reorder in any::<bool>(),
        burst in prop_oneof![Just(None), Just(Some(1600u64))],
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
            // Half of these are dumbbells, whose link may lag behind.
            (first["delay"], first["jitter"]) = (json!(0), json!(0));
        }
        let links = if single { vec![first] } else { vec![first, second] };
        let mut spec = spec(2 * S, &links, &all);
        spec["seed"] = json!(seed);
        spec["changes"] = json!([
            {"at": S, "what": {"rate": {"link": 0, "rate": new_rate * 1_000_000}}},
            {"at": S + S / 2, "what": {"limit": {"link": 0, "limit": {"packets": 3}}}},
            {"at": S + S / 4, "what": {"rtt": {"flow": 0, "rtt": 9 * MS}}},
        ]);
        spec
    }
}

proptest! {
    // Always the same ones: of some thousands one has two packets of two flows at one nanosecond, in spite of all.
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn nobody_notices_that_a_link_lags_behind(spec in any_dumbbell()) {
        let mut watched = simulation(&spec);
        watched.tap(Box::new(Onlooker));
        let (alone, watched) = (account(run(&spec)), account(watched.run().unwrap()));
        for (alone, watched) in alone.iter().zip(&watched) {
            prop_assert_eq!(alone, watched);
        }
        prop_assert_eq!(alone.len(), watched.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_packet_is_created_or_lost_unaccounted(spec in any_network()) {
        audited(&spec);
    }

    #[test]
    fn the_same_specification_gives_the_same_bits(spec in any_network()) {
        prop_assert!(fingerprint(&spec) == fingerprint(&spec));
    }
}

#[test]
fn a_lone_flow_fills_its_link() {
    // Payload over wire bytes: 1448 / 1514 of the rate; slow start and one recovery cost less than 3 % of 20 s.
    let (output, _) =
        run(&spec(20 * S, &[link(10_000_000, &json!({"packets": 50}))], &[flow("reno", 20 * MS, 0, 20 * S)]));
    let ideal = 10.0 * 1448.0 / 1514.0;
    assert!(output.flows[0].goodput_mbps > 0.97 * ideal && output.flows[0].goodput_mbps <= ideal, "{output:?}");
    assert!(output.links[0].utilization > 0.97, "{output:?}");
}

#[test]
fn two_flows_keep_going_beyond_their_first_timers() {
    let flows = [flow("reno", 20 * MS, 0, 10 * S), flow("reno", 20 * MS, S / 2, 10 * S)];
    let (output, _) = run(&spec(10 * S, &[link(10_000_000, &json!({"packets": 50}))], &flows));
    assert!(output.links[0].utilization > 0.98, "{output:?}");
}

#[test]
fn an_empty_network_has_its_base_rtt() {
    // One segment and its delayed ACK: 20 ms of path and 1.2112 ms to serialise 1514 bytes at 10 Mbit/s, then up to
    // the delayed-ACK time; the SYN of 74 bytes takes 59.2 us.
    let mut one = flow("reno", 20 * MS, 0, S);
    one["bytes"] = json!(1448);
    let (output, _) = run(&spec(S, &[link(10_000_000, &json!({"packets": 50}))], &[one]));
    let completion = output.flows[0].completion_s.unwrap() * 1000.0;
    let exact = 20.0 + 0.0592 + 20.0 + 1.2112;
    assert!((completion - exact).abs() < 0.001, "{completion} ms, not {exact}");
}

#[test]
fn a_finite_transfer_is_counted_to_the_byte() {
    for bytes in [1u64, 1447, 1448, 1449, 100_000, 1_234_567] {
        let mut f = flow("cubic", 20 * MS, 0, 10 * S);
        f["bytes"] = json!(bytes);
        let (output, _) = run(&spec(10 * S, &[link(50_000_000, &json!({"packets": 20}))], &[f]));
        let got = output.flows[0].goodput_mbps * output.flows[0].completion_s.unwrap() * 1e6 / 8.0;
        assert!((got - bytes as f64).abs() < 0.5, "{got} of {bytes} bytes");
    }
}

#[test]
fn random_loss_comes_as_often_as_asked_and_is_repaired() {
    let mut lossy = link(20_000_000, &json!({"packets": 1000}));
    lossy["loss"] = json!(0.01);
    let (output, _) = run(&spec(20 * S, &[lossy], &[flow("cubic", 10 * MS, 0, 20 * S)]));
    let share = output.links[0].drops as f64 / output.packets as f64;
    assert!((0.008..0.012).contains(&share), "{share}");
    assert!(output.flows[0].timeouts <= 5, "{:?}", output.flows[0]);
}

#[test]
fn a_trace_delivers_at_its_mean_rate() {
    // Eight opportunities of a full packet in 30 ms.
    let mut traced = link(1, &json!({"packets": 100}));
    traced["capacity"] = json!({"trace": [0, 0, 1, 5, 5, 7, 12, 30]});
    let (output, _) = run(&spec(10 * S, &[traced], &[flow("cubic", 20 * MS, 0, 10 * S)]));
    let ideal = 8.0 * 1448.0 * 8.0 / 30.0 / 1000.0;
    assert!((0.95 * ideal..ideal).contains(&output.flows[0].goodput_mbps), "{output:?}");
}

#[test]
fn a_new_limit_is_on_record_as_it_was_given() {
    let mut spec = spec(S, &[link(10_000_000, &json!({"packets": 50}))], &[flow("reno", 20 * MS, 0, S)]);
    let limits = [json!({"packets": 7}), json!({"bytes": 30_000}), json!({"time": 25 * MS})];
    let change = |(i, limit)| json!({"at": (i as u64 + 1) * 100 * MS, "what": {"limit": {"link": 0, "limit": limit}}});
    spec["changes"] = limits.iter().enumerate().map(change).collect();
    let (output, rows) = run(&spec);
    let name = output.event_names.iter().position(|name| name == "limit").unwrap();
    let values: Vec<f64> = rows.events.iter().filter(|row| row.event as usize == name).map(|row| row.value).collect();
    assert_eq!(values, [7.0, 30_000.0, 25.0], "packets, bytes, milliseconds");
}

#[test]
fn a_window_that_limits_is_obeyed() {
    let mut spec = spec(10 * S, &[link(100_000_000, &json!({"packets": 1000}))], &[flow("reno", 50 * MS, 0, 10 * S)]);
    spec["tcp"] = json!({"receive_window": 10 * 1448});
    let (output, _) = run(&spec);
    // Ten segments every 50 ms and what it takes to send them.
    let ideal = 10.0 * 1448.0 * 8.0 / 0.050 / 1e6;
    assert!((0.9 * ideal..ideal * 1.01).contains(&output.flows[0].goodput_mbps), "{output:?}");
}

#[test]
fn data_and_acks_share_a_reverse_queue() {
    let mut forward = link(10_000_000, &json!({"packets": 50}));
    forward["reverse"] = json!({"capacity": {"rate": 1_000_000}, "queue": "pfifo", "limit": {"packets": 100}});
    let mut back = flow("reno", 30 * MS, 0, 10 * S);
    back["reverse"] = json!(true);
    let (output, _) = run(&spec(10 * S, &[forward], &[flow("reno", 30 * MS, 0, 10 * S), back]));
    // The forward flow's ACKs queue behind the reverse flow's data: its RTT holds both queues and the path.
    let forward = &output.flows[0];
    let expected = 30.0 + forward.queue_delay_mean_ms.unwrap() + output.links[1].queue_delay_mean_ms.unwrap();
    let rtt = forward.rtt_mean_ms.unwrap();
    assert!((rtt / expected - 1.0).abs() < 0.15, "{rtt} ms, not about {expected} ms");
    assert!(output.links[1].utilization > 0.95, "{output:?}");
}
