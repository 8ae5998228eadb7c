//! Laws of the engine: nothing is created or lost unaccounted, the same specification gives the same bits, and simple
//! networks do what arithmetic says.

use crate::laws;
use crate::networks::{MS, S, any_chain, any_dumbbell, any_network, any_transfers, flow, link, spec, with_quic};
use crate::runs::{bits, run, simulation};
use knee_core::{ConnectionId, Packet, Time};
use knee_sim::{Output, Simulation, Tap};
use knee_tcp::sender::AckInfo;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// Steps one event at a time and checks the books after each.
fn audited(spec: &Value) -> Output {
    let mut simulation = simulation(spec);
    while simulation.step(1) {
        simulation.audit().unwrap();
    }
    simulation.finish().unwrap().0
}

/// Looks on. With it time passes event by event, without it in batches where the network allows it.
struct Onlooker;

impl Tap for Onlooker {
    fn sent(&mut self, _: Time, _: ConnectionId, _: &Packet) {}

    fn received(&mut self, _: Time, _: ConnectionId, _: &Packet, _: Option<&AckInfo>) {}
}

/// Holds a law against `cases` random networks. Enough of them must go in batches where nobody looks on, so that events
/// are not compared with events: the expected `share`, counted over 5,000 networks, less four standard deviations. One
/// sample in 30,000 has fewer by chance.
fn in_batches(
    cases: u32,
    share: f64,
    networks: &impl Strategy<Value = Value>,
    law: impl Fn(&Value) -> Result<(), TestCaseError>,
) {
    in_batches_of(cases, share, networks, |spec| spec, law);
}

/// As [`in_batches`], with a network within each value.
fn in_batches_of(
    cases: u32,
    share: f64,
    networks: &impl Strategy<Value = Value>,
    spec_of: impl Fn(&Value) -> &Value,
    law: impl Fn(&Value) -> Result<(), TestCaseError>,
) {
    let batches = AtomicU32::new(0);
    let mut runner =
        TestRunner::new(ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(cases) });
    let outcome = runner.run(networks, |spec| {
        batches.fetch_add(u32::from(simulation(spec_of(&spec)).obstacle().is_none()), Relaxed);
        law(&spec)
    });
    if let Err(error) = outcome {
        panic!("{error}\n{runner}");
    }
    let batches = batches.into_inner();
    let expected = share * f64::from(cases);
    let least = expected - 4.0 * (expected * (1.0 - share)).sqrt();
    assert!(f64::from(batches) >= least, "only {batches} of {cases} went in batches, expected are {expected:.0}");
}

#[test]
fn both_schedulers_give_the_same_bits() {
    in_batches(400, 0.84, &with_quic(prop_oneof![any_dumbbell(), any_chain()]), |spec| {
        let mut watched = simulation(spec);
        watched.tap(Box::new(Onlooker));
        prop_assert!(watched.obstacle().is_some());
        let (alone, watched) = (bits(run(spec)), bits(watched.run().unwrap()));
        prop_assert_eq!(&alone.0, &watched.0);
        prop_assert!(alone.1 == watched.1, "the time series or the events differ");
        Ok(())
    });
}

/// Counts what it sees.
#[derive(Default)]
struct Counter {
    sent: u64,
    delivered: u64,
    dropped: u64,
}

struct Counting(Arc<Mutex<Counter>>);

impl Tap for Counting {
    fn sent(&mut self, _: Time, _: ConnectionId, _: &Packet) {
        self.0.lock().unwrap().sent += 1;
    }

    fn received(&mut self, _: Time, _: ConnectionId, _: &Packet, _: Option<&AckInfo>) {}

    fn delivered(&mut self, _: Time, _: ConnectionId, packet: &Packet) {
        self.0.lock().unwrap().delivered += u64::from(!packet.has(Packet::SYN));
    }

    fn dropped(&mut self, _: Time, _: ConnectionId, packet: &Packet) {
        self.0.lock().unwrap().dropped += u64::from(!packet.has(Packet::ACK));
    }
}

#[test]
fn a_run_in_stretches_gives_the_same_bits() {
    let networks =
        (with_quic(prop_oneof![any_dumbbell(), any_chain(), any_network()]), prop::collection::vec(1_u64..400, 1..6));
    let networks = networks.prop_map(|(spec, stretches)| json!({"spec": spec, "stretches": stretches}));
    in_batches_of(
        200,
        0.63,
        &networks,
        |told| &told["spec"],
        |told| {
            let (spec, stretches) = (&told["spec"], told["stretches"].as_array().unwrap());
            let whole = bits(run(spec));
            for watched in [false, true] {
                let mut simulation = simulation(spec);
                let counter = Arc::new(Mutex::new(Counter::default()));
                if watched {
                    simulation.tap(Box::new(Counting(Arc::clone(&counter))));
                }
                let (mut until, mut rows) = (Time::ZERO, 0);
                for stretch in stretches.iter().cycle() {
                    until += Time::from_micros(stretch.as_u64().unwrap() * 331);
                    let goes_on = simulation.run_until(until);
                    prop_assert!(!goes_on || simulation.now() >= until);
                    prop_assert!(simulation.rows().samples.len() >= rows);
                    rows = simulation.rows().samples.len();
                    if !goes_on {
                        break;
                    }
                }
                let parts = simulation.finish().unwrap();
                if watched {
                    let seen = counter.lock().unwrap();
                    prop_assert!(seen.sent >= seen.delivered + seen.dropped);
                    let drops = parts.0.links.iter().map(|link| link.drops).sum::<u64>();
                    let acks = parts.0.links.iter().map(|link| link.ack_drops).sum::<u64>();
                    prop_assert!(seen.dropped >= drops - acks, "{} drops seen, {drops} counted", seen.dropped);
                }
                let parts = bits(parts);
                prop_assert_eq!(&whole.0, &parts.0);
                prop_assert!(whole.1 == parts.1, "the time series or the events differ");
            }
            Ok(())
        },
    );
}

/// The packets of a batch are joined in the order in which one thread would have sent them.
#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let divided = AtomicU32::new(0);
    in_batches(200, 0.84, &with_quic(prop_oneof![any_dumbbell(), any_chain()]), |spec| {
        let alone = bits(run(spec));
        for most in [2, 3, 8] {
            let mut simulation = simulation(spec);
            divided.fetch_add(u32::from(simulation.threads_for(most, 1) > 1), Relaxed);
            while simulation.step(1_000) {
                prop_assert_eq!(simulation.audit(), Ok(()));
            }
            let together = bits(simulation.finish().unwrap());
            prop_assert_eq!(&alone.0, &together.0, "{} threads", most);
            prop_assert!(alone.1 == together.1, "the time series or the events differ with {} threads", most);
        }
        Ok(())
    });
    assert!(divided.into_inner() > 300);
}

/// Endpoints included, which connections get by who has left: timers that fire at one time go by their number.
#[test]
fn both_schedulers_give_the_same_bits_of_connections_that_come_and_go() {
    // A third of these networks do; others have links that are no wires, or delays that vary.
    in_batches(200, 0.33, &with_quic(any_transfers()), |spec| {
        let (mut alone, mut watched) = (simulation(spec), simulation(spec));
        watched.tap(Box::new(Onlooker));
        while alone.step(100) {
            prop_assert_eq!(alone.audit(), Ok(()));
        }
        while watched.step(1_000) {}
        prop_assert_eq!(alone.endpoints(), watched.endpoints());
        let (alone, watched) = (bits(alone.finish().unwrap()), bits(watched.finish().unwrap()));
        prop_assert_eq!(&alone.0, &watched.0);
        prop_assert!(alone.1 == watched.1, "the time series, the events or what was completed differ");
        Ok(())
    });
}

/// At 16 Mbit/s a SYN of 60 bytes takes 30 us, an ACK of 52 bytes 26 us and a full packet 0.75 ms. With an RTT of
/// 20 ms the first window lands from 20.806 to 27.556 ms, a packet each 0.75 ms, or 10 ms later where the link has that
/// delay. Events of one time have an order: what lands from a wire just as an interval ends counts in it, what lands
/// out of a delay in the next one. What lands at the end of the run does not count.
#[test]
fn packets_that_land_just_at_the_end_of_an_interval_count_once() {
    for (delay, first) in [(0, 20_806_000), (10 * MS, 30_806_000)] {
        let mut link = link(16_000_000, &json!({"packets": 50}));
        (link["overhead"], link["delay"]) = (json!(0), json!(delay));
        for late in [0, 1] {
            let (interval, end) = (first + late, first + 6_750_000 + late);
            let mut spec = spec(end, std::slice::from_ref(&link), &[flow("reno", 20 * MS, 0, S)]);
            spec["interval"] = json!(interval);
            let mut watched = simulation(&spec);
            assert_eq!(watched.obstacle(), None);
            watched.tap(Box::new(Onlooker));
            let (alone, watched) = (run(&spec), watched.run().unwrap());
            let in_first = f64::from(alone.1.samples[0].throughput_mbps) * interval as f64 / 1e3 / 8.0 / 1500.0;
            let expected = if late == 1 || delay == 0 { 1.0 } else { 0.0 };
            assert!((in_first - expected).abs() < 1e-6, "{in_first} packets up to {interval} ns, not {expected}");
            assert_eq!(alone.0.packets, 9 + late, "up to {end} ns");
            assert!(bits(alone) == bits(watched));
        }
    }
}

/// DCTCP's receiver acknowledges at once where marks begin or end (RFC 8257, 3.2): two ACKs may leave at one time.
#[test]
fn both_schedulers_give_the_same_bits_where_each_mark_is_echoed() {
    let mut marking = link(30_000_000, &json!({"packets": 200}));
    (marking["queue"], marking["queue_params"]) = (json!("codel"), json!({"ce_threshold": {"time": MS}}));
    let flows: Vec<Value> = (0..4).map(|i| flow("dctcp", (5 + 7 * i) * MS, i * 10 * MS, 3 * S)).collect();
    let mut spec = spec(3 * S, &[marking], &flows);
    // Every second packet is acknowledged from the beginning.
    spec["tcp"] = json!({"window_growth": 0});
    let mut watched = simulation(&spec);
    watched.tap(Box::new(Onlooker));
    let (alone, watched) = (run(&spec), watched.run().unwrap());
    assert!(alone.0.links[0].marks > 100, "{:?}", alone.0.links);
    assert!(bits(alone) == bits(watched));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_figure_is_beyond_the_possible(spec in with_quic(prop_oneof![any_dumbbell(), any_network()])) {
        let (output, rows) = simulation(&spec).run().unwrap();
        prop_assert_eq!(laws::check(&spec, &output, &rows), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_packet_is_created_or_lost_unaccounted(spec in with_quic(prop_oneof![any_network(), any_chain()])) {
        audited(&spec);
    }

    #[test]
    fn the_same_specification_gives_the_same_bits(spec in with_quic(any_network())) {
        prop_assert!(bits(run(&spec)) == bits(run(&spec)));
    }
}

#[test]
fn parameters_are_those_of_each_flow_and_refused_by_name() {
    let mut flows = [0; 3].map(|start| flow("cubic", 20 * MS, start, 20 * S));
    for (flow, beta) in flows.iter_mut().zip([300, 300, 900]) {
        flow["cc_params"] = json!({"beta": {"count": beta}});
    }
    let links = [link(10_000_000, &json!({"packets": 50}))];
    let (output, _) = run(&spec(20 * S, &links, &flows));
    // The one that yields less takes more (RFC 9438, 4.6).
    let goodput: Vec<f64> = output.flows.iter().map(|flow| flow.goodput_mbps).collect();
    assert!(goodput[2] > 1.5 * goodput[0].max(goodput[1]), "{goodput:?}");

    flows[1]["label"] = json!("second");
    flows[1]["cc_params"] = json!({"beta": 300});
    let refused =
        Simulation::new(&serde_json::from_value(spec(20 * S, &links, &flows)).unwrap()).err().unwrap().to_string();
    assert!(refused.starts_with("flow `second`: its parameters cannot be read: "), "{refused}");
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
    // SYN and SYN-ACK, then one segment and its ACK, which a new connection sends at once: 20 ms of path each. At
    // 10 Mbit/s the SYN of 74 bytes takes 59.2 us, the ACK of the SYN-ACK, 66 bytes before the segment, 52.8 us, and
    // the segment of 1514 bytes 1.2112 ms.
    let mut one = flow("reno", 20 * MS, 0, S);
    one["bytes"] = json!(1448);
    let (output, _) = run(&spec(S, &[link(10_000_000, &json!({"packets": 50}))], &[one]));
    let completion = output.flows[0].completion_s.unwrap() * 1000.0;
    let exact = 20.0 + 0.0592 + 20.0 + 0.0528 + 1.2112;
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

/// Blocks are whole bytes, and half a byte that an interval does not use comes with the next one: `run` checks that no
/// interval has a utilization above 1.
#[test]
fn blocks_of_whole_bytes_carry_no_more_than_the_rate() {
    let mut lte = link(21_513_321, &json!({"packets": 100}));
    lte["model"] = json!({"name": "lte", "params": {"bler": {"ratio": 0.0}}});
    let (output, rows) = run(&spec(5 * S, &[lte], &[flow("reno", 20 * MS, 0, 5 * S)]));
    assert!(rows.links.iter().filter(|row| row.utilization > 0.9999).count() > 10, "{output:?}");
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

#[test]
fn a_token_bucket_does_not_stall_among_many_pipes_and_a_reverse_queue() {
    // Each RTT has a pipe of its own. With more than seven, an arrival at a link at the time at which the other
    // direction was served once cost the link its event, and it never sent again.
    let mut bucket = link(20_000_000, &json!({"packets": 100}));
    bucket["burst"] = json!(3000);
    bucket["reverse"] = json!({"capacity": {"rate": 20_000_000}, "queue": "pfifo", "limit": {"packets": 50}});
    let flows: Vec<Value> = (0..12)
        .map(|i| {
            let mut flow = flow("cubic", (20 + 7 * i) * MS, 0, 2 * S);
            flow["reverse"] = json!(i % 2 == 1);
            flow
        })
        .collect();
    let output = audited(&spec(2 * S, &[bucket], &flows));
    assert!(output.links.iter().all(|link| link.utilization > 0.8), "{:?}", output.links);
}

#[test]
fn hundreds_of_flows_cross_a_link_with_jitter() {
    // State is fetched ahead with this many flows; the delay that data had met was once taken for a handle of SACK
    // blocks.
    let mut jittery = link(100_000_000, &json!({"packets": 300}));
    jittery["jitter"] = json!(MS / 10);
    let output = run(&spec(S, &[jittery], &vec![flow("reno", 20 * MS, 0, S); 300])).0;
    assert!(output.links[0].utilization > 0.8, "{:?}", output.links);
}

/// A packet of a long flow takes an event at its link, and its ACK, one for two packets, one at its pipe; timers, which
/// are set with nearly every packet, hardly any. In batches it takes a step, and each flow's visits.
#[test]
fn a_packet_takes_two_steps_at_the_most() {
    let flows = [flow("reno", 20 * MS, 0, 10 * S), flow("cubic", 30 * MS, 0, 10 * S)];
    let spec = spec(10 * S, &[link(100_000_000, &json!({"packets": 200}))], &flows);
    for watched in [false, true] {
        let mut simulation = simulation(&spec);
        if watched {
            simulation.tap(Box::new(Onlooker));
        }
        while simulation.step(1 << 20) {}
        let work = simulation.work() as f64;
        let packets = simulation.finish().unwrap().0.packets as f64;
        assert!((packets..2.0 * packets).contains(&work), "{work} steps for {packets} packets, watched: {watched}");
    }
}

/// The work of a run, and how many rows of flows and packets came out.
fn work(spec: &Value) -> (u64, u64) {
    let mut simulation = simulation(spec);
    while simulation.step(1) {
        assert!(simulation.work() < 1_000_000, "endless at {}", simulation.now());
    }
    let work = simulation.work();
    let (output, rows) = simulation.finish().unwrap();
    (work, output.packets + rows.samples.len() as u64)
}

#[test]
fn empty_time_costs_nothing() {
    let years = 100_000_000 * S;
    let slow = |rate: u64, end: u64, edit: &dyn Fn(&mut Value)| {
        let mut spec = spec(end, &[link(rate, &json!({"packets": 50}))], &[flow("reno", 20 * MS, 0, end)]);
        spec["interval"] = json!(end / 4);
        edit(&mut spec);
        spec
    };
    let byte = |spec: &mut Value| spec["flows"][0]["bytes"] = json!(1);
    let no_epochs = |spec: &mut Value| {
        (spec["links"][0]["jitter"], spec["links"][0]["reorder"]) = (json!(1), json!(true));
    };
    let rare = |spec: &mut Value| spec["links"][0]["capacity"] = json!({"trace": [500_000_000u64]});
    let much = |spec: &mut Value| {
        spec["links"][0]["capacity"] = json!({"trace": (0..1_000_000).map(|i| i / 1000).collect::<Vec<u64>>()});
        spec["flows"][0]["bytes"] = json!(1);
    };
    let late = |spec: &mut Value| spec["flows"][0]["start"] = json!(years - S);
    let long_way = |spec: &mut Value| spec["flows"][0]["rtt"] = json!(100_000 * S);
    let specs = [
        (
            "the first sample is long after the end",
            slow(10_000_000, 2 * S, &|spec| spec["interval"] = json!(years / 5)),
        ),
        ("one byte in three years", slow(10_000_000, years, &byte)),
        (
            "one byte in three years, event by event",
            slow(10_000_000, years, &|spec| {
                byte(spec);
                no_epochs(spec);
            }),
        ),
        ("1 bit/s for eleven days", slow(1, 1_000_000 * S, &|_| {})),
        ("1 bit/s for eleven days, event by event", slow(1, 1_000_000 * S, &no_epochs)),
        (
            "an opportunity in six days",
            slow(1, years, &|spec| {
                rare(spec);
                byte(spec);
            }),
        ),
        ("opportunities that nobody takes", slow(1, 1_000 * S, &much)),
        ("a start after three years", slow(1_000_000, years, &late)),
        ("an RTT of a day", slow(1_000_000, 1_000_000 * S, &long_way)),
    ];
    for (what, spec) in specs {
        let (work, done) = work(&spec);
        // Timers fire where no ACK arrives: the retransmission timer, backed off, each 120 s (Linux's TCP_RTO_MAX).
        let timers = spec["duration"].as_u64().unwrap() / (120 * S);
        eprintln!("{what}: {work} steps, {done}, {timers}");
        assert!(
            work <= 20 * done + 8 * timers + 200,
            "{what}: {work} steps for {done} rows and packets, {timers} timers"
        );
    }
}

#[test]
fn numbers_beyond_all_sense_are_refused_by_name() {
    let sound = spec(S, &[link(10_000_000, &json!({"packets": 50}))], &[flow("reno", 20 * MS, 0, S)]);
    for (place, what) in [
        ("/duration", "the duration"),
        ("/interval", "the interval"),
        ("/flows/0/rtt", "a flow's RTT"),
        ("/links/0/capacity/rate", "a rate"),
        ("/links/0/limit/packets", "a limit"),
    ] {
        let mut spec = sound.clone();
        *spec.pointer_mut(place).unwrap() = json!(u64::MAX);
        let refused = Simulation::new(&serde_json::from_value(spec).unwrap()).err().unwrap().to_string();
        assert!(refused.starts_with(&format!("{what} is 18446744073709551615, which is more than 1")), "{refused}");
    }
}
