//! Invariants of every specification: it is rejected, or it runs, and its books add up.
//!
//! * Bytes that begin with `{` are read as JSON, as the binding does; others make a network with numbers from anywhere.
//! * While it runs, no packet is created or lost unaccounted ([`Simulation::audit`]), and time does not go back.
//! * The work is in proportion to what happens: packets, rows, timeouts. Empty time costs nothing.
//! * What senders send is in proportion to what arrives: no algorithm runs away.
//!
//! Each run is cut off after some work.

use super::Simulation;
use knee_core::Time;
use knee_core::testing::Source;
use knee_net::spec::{CapacitySpec, Spec};
use serde_json::{Value, json};

/// Work after which a run is cut off, and that between two looks at the books.
const WORK: u64 = 20_000;
const LOOK: u64 = 200;
/// Larger networks are not run.
const MAX_FLOWS: usize = 64;
const MAX_LINKS: usize = 16;
const MAX_WINDOW: u32 = 1_000;
/// No algorithm sends this many times what arrives, beyond a first burst.
const EXCESS: u64 = 1_000;
const BURST: u64 = 10_000;
/// An algorithm that paces has a least rate, at most 2.4 Mbit/s: packets per second and flow.
const FLOOR: u64 = 200;

/// Size of a run, in packets, rows and timeouts.
fn happened(simulation: &Simulation) -> u64 {
    let packets: u64 =
        simulation.model.network.directions.iter().map(|direction| direction.link.counters().arrived).sum();
    let senders = simulation.model.hosts.all_tcp().map(|tcp| tcp.sender.counters());
    let sent: u64 = senders.map(|counters| counters.sent + counters.timeouts).sum();
    let rows = &simulation.model.recorder.record.rows;
    packets + sent + (rows.samples.len() + rows.links.len() + rows.events.len()) as u64
}

fn is_small(spec: &Spec) -> bool {
    let traced = |capacity: &CapacitySpec| matches!(capacity, CapacitySpec::Trace(ms) if ms.len() > 10_000);
    spec.flows.len() <= MAX_FLOWS
        && spec.links.len() <= MAX_LINKS
        && spec.tcp.initial_window <= MAX_WINDOW
        && !spec.links.iter().any(|link| traced(&link.capacity))
}

/// Builds and runs it, as far as the limits here go; gives how much time passed, where it was not refused.
///
/// # Panics
/// If it breaks an invariant.
pub fn check_spec(spec: &Spec) -> Option<Time> {
    if !is_small(spec) {
        return None;
    }
    Some(check_run(spec, Simulation::new(spec).ok()?))
}

/// Runs the simulation of a specification, as far as the limits here go; gives how much time passed.
fn check_run(spec: &Spec, mut simulation: Simulation) -> Time {
    let mut now = Time::ZERO;
    // Drops do not slow such an algorithm, and a short queue hardly moves the RTT.
    let lossless = simulation.model.hosts.settings.algorithms.iter().any(|algorithm| algorithm.entry.needs.lossless);
    let loses = lossless
        || spec.links.iter().any(|link| link.loss > 0.0 || link.loss_trace.is_some())
        || !spec.changes.is_empty();
    loop {
        let goes_on = simulation.work() < WORK && simulation.step(LOOK);
        assert!(
            now <= simulation.now() && simulation.now() <= simulation.model.end,
            "{now}, then {}",
            simulation.now()
        );
        now = simulation.now();
        if let Err(what) = simulation.audit() {
            panic!("at {now}: {what}");
        }
        let (work, happened) = (simulation.work(), happened(&simulation));
        let most = 2 * LOOK + 20 * happened + 40 * (spec.flows.len() + spec.changes.len()) as u64;
        assert!(work <= most, "{work} steps up to {now}, where {happened} things happened");
        // Datagrams leave as their application has them.
        let sent: u64 = simulation.model.hosts.all_tcp().map(|tcp| tcp.sender.counters().sent).sum();
        let arrived: u64 = simulation.model.hosts.all_tcp().map(|tcp| tcp.receiver.received.packets).sum();
        let floor = FLOOR * spec.flows.len() as u64 * (now.as_secs_f64() as u64 + 1);
        assert!(
            loses || sent <= BURST + EXCESS * arrived + floor,
            "{sent} packets sent up to {now}, {arrived} arrived"
        );
        if !goes_on {
            return now;
        }
    }
}

/// Times from nanoseconds to three years, most of them usual ones.
fn time(source: &mut Source) -> u64 {
    if source.chance(200) { source.log_uniform(31) } else { source.log_uniform(57) }
}

fn limit(source: &mut Source) -> Value {
    match source.below(3) {
        0 => json!({"packets": source.log_uniform(12) - 1}),
        1 => json!({"bytes": source.log_uniform(24)}),
        _ => json!({"time": time(source)}),
    }
}

fn capacity(source: &mut Source) -> Value {
    if source.chance(200) {
        return json!({"rate": if source.chance(200) { source.log_uniform(30) } else { source.log_uniform(50) }});
    }
    if source.chance(128) {
        return json!({"rates": recorded(source, |source| if source.chance(60) { 0 } else { source.log_uniform(30) })});
    }
    let mut ms: Vec<u64> = (0..source.range(1, 9)).map(|_| source.log_uniform(12)).collect();
    ms.sort_unstable();
    json!({ "trace": ms })
}

/// Some values by time, repeated or not.
fn recorded<T: Into<Value>>(source: &mut Source, value: impl Fn(&mut Source) -> T) -> Value {
    let mut at = vec![0];
    let mut values: Vec<Value> = vec![value(source).into()];
    for _ in 0..source.below(6) {
        at.push(at[at.len() - 1] + source.log_uniform(31));
        values.push(value(source).into());
    }
    let period = source.chance(128).then(|| at[at.len() - 1] + source.log_uniform(31));
    json!({"at": at, "values": values, "period": period})
}

fn link(source: &mut Source, name: &str) -> Value {
    let queues: Vec<_> = knee_queue::registry().iter().map(|entry| entry.name).collect();
    let queue = |source: &mut Source| if source.chance(80) { "pfifo" } else { source.one_of(&queues) };
    let loss = |source: &mut Source| f64::from(source.byte()) / 255.0;
    let loss_trace = |source: &mut Source| source.chance(20).then(|| recorded(source, loss));
    let delay = |source: &mut Source| source.log_uniform(24) - 1;
    let delay_trace = |source: &mut Source| source.chance(20).then(|| recorded(source, delay));
    let reverse = source.chance(40).then(|| {
        json!({
            "capacity": capacity(source), "queue": queue(source), "limit": limit(source),
            "delay_trace": delay_trace(source), "loss_trace": loss_trace(source),
        })
    });
    json!({
        "name": name, "capacity": capacity(source), "queue": queue(source),
        "limit": source.maybe(limit), "overhead": source.below(60),
        "loss": if source.chance(220) { 0.0 } else { f64::from(source.byte()) / 255.0 },
        "delay": if source.chance(200) { 0 } else { source.log_uniform(24) },
        "jitter": if source.chance(220) { 0 } else { source.log_uniform(24) },
        "reorder": source.chance(30), "reverse": reverse,
        "burst": if source.chance(220) { None } else { Some(source.log_uniform(20)) },
        "delay_trace": delay_trace(source), "loss_trace": loss_trace(source),
    })
}

/// Lets links be Wi-Fi, on one channel or on one each.
fn on_the_air(links: &mut [Value], source: &mut Source) {
    let model = json!({"name": "wifi", "params": {
        "contenders": {"count": source.below(3)}, "error": {"ratio": f64::from(source.byte()) / 512.0},
        "max_frames": {"count": source.below(3)}, "edca": {"bool": source.chance(128)}, "mcs_steps": {"count": source.below(3)},
    }});
    let shared = source.chance(200);
    // Slower than this a frame does not fit into its airtime.
    let fast = |link: &&mut Value| link["capacity"]["rate"].as_u64().is_some_and(|rate| rate > 4_000_000);
    for link in links.iter_mut().filter(fast) {
        link["model"] = model.clone();
        link["channel"] = json!(shared.then_some("home"));
        link["burst"] = Value::Null;
    }
}

/// The specification that these bytes stand for.
pub fn network(bytes: &[u8]) -> Value {
    let source = &mut Source::new(bytes);
    let ccs: Vec<_> = knee_cc::registry().iter().map(|entry| entry.name).collect();
    let duration = time(source);
    let links = source.range(1, 4);
    let mut all: Vec<Value> = (0..links).map(|i| link(source, &format!("link {i}"))).collect();
    let traffic = |source: &mut Source| match source.below(5) {
        4 => json!({
            "kind": "rtc", "controller": source.one_of(&["scream", "gcc"]), "start_rate": 1_000_000,
            "min_rate": source.log_uniform(19), "max_rate": 1_000_000 + source.log_uniform(30),
            "fps": source.range(1, 1001).min(240),
        }),
        0 => {
            json!({"kind": "udp", "packet": source.range(28, 1501), "interval": 1_000_000 + time(source)})
        }
        1 => json!({
            "kind": "udp", "packet": source.range(28, 1501), "interval": 1_000_000 + time(source),
            "on": 1 + time(source), "off": 1 + time(source), "constant": source.below(2) == 1,
        }),
        2 => json!({"kind": "probe", "packet": source.range(28, 1501), "interval": 1_000_000 + time(source)}),
        _ => {
            let mut packets: Vec<(u64, u64)> =
                (0..source.range(1, 9)).map(|_| (time(source), source.range(28, 1501))).collect();
            packets.sort_unstable();
            let repeat = packets.len() == 1 && packets[0].0 > 1_000_000;
            json!({"kind": "udp", "trace": packets, "repeat": repeat})
        }
    };
    let flow = |source: &mut Source| {
        let from = if source.chance(200) { 0 } else { source.below(links) };
        let start = if source.chance(128) { 0 } else { time(source) };
        let traffic = if source.chance(200) { None } else { Some(traffic(source)) };
        let over_quic = traffic.is_none() && source.chance(48);
        json!({
            "label": "a flow", "cc": source.one_of(&ccs), "rtt": (1 << 25) + time(source), "start": start,
            "stop": if source.chance(200) { duration } else { time(source) },
            "bytes": source.maybe(|source| source.log_uniform(24)),
            "path": if source.chance(128) { vec![0] } else { (from..links).collect::<Vec<_>>() },
            "traffic": traffic, "transport": if over_quic { "quic" } else { "tcp" },
            "reverse": source.chance(20), "pacing": source.chance(64), "ecn": source.one_of(&["off", "off", "off", "on", "accurate", "l4s"]),
        })
    };
    let flows: Vec<Value> = (0..source.range(1, 14)).map(|_| flow(source)).collect();
    let change = |source: &mut Source| {
        let what = match source.below(4) {
            0 => json!({"rate": {"link": source.below(links), "rate": source.log_uniform(40)}}),
            1 => json!({"loss": {"link": source.below(links), "loss": f64::from(source.byte()) / 255.0}}),
            2 => json!({"limit": {"link": source.below(links), "limit": limit(source)}}),
            _ => json!({"rtt": {"flow": source.below(flows.len() as u64), "rtt": (1 << 25) + time(source)}}),
        };
        json!({"at": time(source), "what": what})
    };
    let changes: Vec<Value> = (0..source.below(5).saturating_sub(1)).map(|_| change(source)).collect();
    let (seed, interval) = (source.bytes(1), time(source).max(duration / 20));
    let warmup = if source.chance(200) { 0 } else { time(source) };
    let tcp = json!({
        "tick": source.one_of(&[0, 1_000_000, 4_000_000]), "sack_delay": source.one_of(&[1_000_000, 0]),
        "delayed_ack": source.one_of(&[40_000_000, 1_000_000]), "tso": source.chance(200),
        "receive_offload": source.one_of(&[0, 600_000]),
    });
    if !source.chance(216) {
        on_the_air(&mut all, source);
    }
    json!({
        "duration": duration, "seed": seed, "interval": interval, "warmup": warmup,
        "links": all, "flows": flows, "changes": changes, "tcp": tcp,
        "quic": quic(source),
    })
}

/// Settings of knee's endpoints of QUIC.
fn quic(source: &mut Source) -> Value {
    let mut quic = json!({});
    if source.chance(128) {
        quic[source.one_of(&["zero_rtt", "retry"])] = json!(true);
    }
    if source.chance(128) {
        let presets = ["quinn", "quiche", "neqo", "picoquic", "msquic", "ngtcp2", "chromium"];
        quic["preset"] = json!(source.one_of(&presets));
    }
    quic
}

/// Checks what these bytes stand for.
///
/// # Panics
/// If an invariant does not hold.
pub fn check(bytes: &[u8]) {
    let spec = if bytes.first() == Some(&b'{') {
        serde_json::from_slice::<Spec>(bytes)
    } else {
        serde_json::from_value::<Spec>(network(bytes))
    };
    if let Ok(spec) = spec {
        check_spec(&spec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{Own, OwnMake};
    use knee_cc::{Ack, Congestion, CongestionControl, Control, DynCongestionControl, Entry, Needs};
    use knee_core::Rate;
    use knee_core::testing::corpus;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Flows of 20 ms at a link of 7.5 Mbit/s whose queue holds one packet: nearly all of a burst is dropped.
    fn one_packet_of_buffer(cc: &str, flows: usize) -> Spec {
        let end = 3_000_000_000u64;
        let flow = |i| {
            json!({
                "label": format!("flow {i}"), "cc": cc, "rtt": 20_000_000, "start": 0, "stop": end, "bytes": null,
                "path": [0]
            })
        };
        serde_json::from_value(json!({
            "duration": end, "seed": 1, "warmup": 0, "interval": 100_000_000,
            "flows": (0..flows).map(flow).collect::<Vec<_>>(),
            "links": [{
                "name": "bottleneck", "capacity": {"rate": 7_500_000}, "queue": "fq_codel", "limit": {"packets": 1},
                "overhead": 14, "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false, "burst": null, "reverse": null
            }]
        }))
        .unwrap()
    }

    /// Doubles its rate on every ACK, whatever gets lost.
    #[derive(Clone)]
    struct Runaway(Rate);

    impl CongestionControl for Runaway {
        fn on_ack(&mut self, _: &Ack, control: &mut Control) {
            self.0 = Rate::from_bps((self.0.as_bps() * 2).min(1_000_000_000_000));
            (control.cwnd, control.pacing_rate) = (1 << 17, Some(self.0));
        }

        fn on_congestion(&mut self, _: &Congestion, _: &mut Control) {}
    }

    #[test]
    #[should_panic(expected = "packets sent up to")]
    fn an_algorithm_that_runs_away_is_noticed() {
        let needs = Needs { pacing: true, full_control: true, open_window: true, ..Needs::NONE };
        let entry: &'static Entry = Box::leak(Box::new(Entry { needs, ..knee_cc::registry()[0] }));
        let spec = one_packet_of_buffer("runaway", 1);
        let make = Arc::new(|_: &_, _: &_, _| Box::new(Runaway(Rate::from_mbps(1))) as Box<dyn DynCongestionControl>);
        let own = Own { name: "runaway".into(), entry, make: OwnMake::Algorithm(make) };
        check_run(&spec, Simulation::with_own(&spec, &[own]).unwrap());
    }

    #[test]
    fn no_algorithm_runs_away_where_nearly_all_is_dropped() {
        for entry in knee_cc::registry() {
            eprintln!("{}", entry.name);
            assert!(check_spec(&one_packet_of_buffer(entry.name, 13)).is_some());
        }
    }

    /// A queue of 33 packets drops part of a burst at 400 Mbit/s, and the ACKs come far apart. Where packets sent
    /// between two of them count as delivered, losses go unseen and the rate doubles on: 1.9 Gbit/s, of which 0.12
    /// arrived.
    #[test]
    fn vivace_sees_the_losses_of_a_small_buffer() {
        let spec = serde_json::from_value(json!({
            "duration": 3_000_000_000_u64, "seed": 1, "warmup": 0, "interval": 100_000_000,
            "flows": [{
                "label": "flow 1", "cc": "vivace", "rtt": 10_000_000, "start": 0, "stop": 3_000_000_000_u64,
                "bytes": null, "path": [0]
            }],
            "links": [{
                "name": "bottleneck", "capacity": {"rate": 400_000_000}, "queue": "pfifo",
                "limit": {"packets": 33}, "overhead": 14, "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false,
                "burst": null, "reverse": null
            }]
        }))
        .unwrap();
        let (output, _) = Simulation::new(&spec).unwrap().run().unwrap();
        let flow = &output.flows[0];
        assert!(flow.lost_packets < flow.sent_packets / 10, "{flow:?}");
    }

    #[test]
    fn most_random_networks_run() {
        let mut rng = knee_core::Rng::stream(1, "networks");
        let ran = (0..100).filter(|_| {
            let bytes: Vec<u8> = (0..80).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
            check_spec(&serde_json::from_value(network(&bytes)).unwrap()).is_some_and(|now| now > Time::ZERO)
        });
        assert!(ran.count() > 50);
    }

    #[test]
    fn what_the_fuzzer_found_its_way_with_keeps_the_invariants() {
        for (file, bytes) in corpus("spec") {
            eprintln!("{file}");
            check(&bytes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn every_specification_is_refused_or_runs(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            check(&bytes);
        }
    }
}
