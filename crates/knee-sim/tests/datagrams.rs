//! Laws of flows of datagrams: their delays are what arithmetic says, and none is created or lost unaccounted.

use crate::laws;
use crate::networks::{MS, S, flow, link, spec};
use knee_net::output::DatagramFigures;
use knee_sim::{Output, Rows, Simulation, Spec};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Runs a simulation, whose books balance all the time and whose figures obey the laws.
fn run(spec: &Value) -> (Output, Rows) {
    let read: Spec = serde_json::from_value(spec.clone()).unwrap();
    let mut simulation = Simulation::new(&read).unwrap();
    while simulation.step(50) {
        simulation.audit().unwrap();
    }
    let (output, rows) = simulation.finish().unwrap();
    laws::check(spec, &output, &rows).unwrap();
    (output, rows)
}

fn datagrams(output: &Output, i: usize) -> &DatagramFigures {
    output.flows[i].datagrams.as_ref().unwrap()
}

/// A flow with this traffic over the first link.
fn sends(traffic: Value, rtt: u64, stop: u64) -> Value {
    let mut flow = flow("", rtt, 0, stop);
    flow["traffic"] = traffic;
    flow
}

fn udp(packet: u64, interval: u64) -> Value {
    json!({"kind": "udp", "packet": packet, "interval": interval})
}

fn probe(packet: u64, interval: u64) -> Value {
    json!({"kind": "probe", "packet": packet, "interval": interval})
}

fn with(mut link: Value, key: &str, value: Value) -> Value {
    link[key] = value;
    link
}

fn assert_near(what: &str, got: f64, expected: f64, relative: f64) {
    assert!((got / expected - 1.0).abs() <= relative, "{what}: {got}, expected {expected}");
}

/// Two links of 10 and 5 Mbit/s, of which the second has 7 ms behind it.
fn two_links() -> [Value; 2] {
    [link(10_000_000, &json!(null)), with(link(5_000_000, &json!(null)), "delay", json!(7 * MS))]
}

#[test]
fn on_an_empty_path_the_one_way_delay_is_serialisation_and_propagation_exactly() {
    // 200 bytes and 14 of overhead take 171.2 us at 10 Mbit/s, and twice that at 5.
    let serialisation = 0.1712 + 0.3424;
    // The links of the path have less than half the base RTT, or more than that. What is sent 20 ms before the end
    // arrives after it in the first case.
    for (rtt, propagation, received) in [(40, 20.0, 499), (10, 7.0, 500)] {
        let mut flow = sends(udp(200, 20 * MS), rtt * MS, 10 * S);
        flow["path"] = json!([0, 1]);
        let (output, rows) = run(&spec(10 * S, &two_links(), &[flow]));
        let figures = datagrams(&output, 0);
        let expected = Some(serialisation + propagation);
        assert_eq!((figures.sent, figures.lost, figures.received), (500, 0, received));
        assert_eq!(figures.echoed, None, "the other end sends nothing back");
        assert_eq!((figures.owd_min_ms, figures.owd_max_ms), (expected, expected));
        assert_eq!((figures.owd_p50_ms, figures.owd_p99_ms), (expected, expected));
        assert_eq!((figures.jitter_ms, figures.jitter_mean_ms), (Some(0.0), Some(0.0)));
        assert!(rows.delays.iter().all(|row| (row.sent, row.lost) == (5, 0)), "{:?}", rows.delays);
        assert!(rows.delays[1..].iter().all(|row| row.received == 5), "{:?}", rows.delays);
        assert_eq!(rows.delays.iter().map(|row| u64::from(row.received)).sum::<u64>(), received);
        assert!(rows.samples.iter().all(|row| row.cwnd_packets.is_nan()));
        assert_eq!(output.flows[0].cwnd_mean_packets, None);
        // 172 bytes of payload of 214 with headers and overhead, every 20 ms.
        assert_near("goodput", output.flows[0].goodput_mbps, 0.0688, 1e-9);
        assert_near("throughput", output.flows[0].throughput_mbps, 0.0856, 1e-9);
    }
}

#[test]
fn an_echo_is_back_after_the_base_rtt_and_all_serialisations() {
    let mut links = two_links();
    // 100 bytes and 14 of overhead take 91.2 us there and 912 us back.
    links[0]["reverse"] = json!({"capacity": {"rate": 1_000_000}, "queue": "pfifo", "limit": null});
    let (output, rows) = run(&spec(10 * S, &links, &[sends(probe(100, 100 * MS), 30 * MS, 10 * S)]));
    let (flow, figures) = (&output.flows[0], datagrams(&output, 0));
    assert_eq!((flow.rtt_min_ms, flow.rtt_max_ms), (Some(31.0032), Some(31.0032)));
    assert_eq!((figures.owd_min_ms, figures.owd_max_ms), (Some(15.0912), Some(15.0912)));
    assert_eq!((figures.sent, figures.received, figures.echoed), (100, 100, Some(100)));
    assert!(rows.delays.iter().all(|row| (row.rtt_mean_ms, row.rtt_max_ms) == (31.0032, 31.0032)));
    let distribution: Vec<_> = rows.distributions.iter().map(|row| (row.quantity, row.index, row.count)).collect();
    assert_eq!(
        distribution,
        [(0, 0, 100), (1, 0, 100), (0, u32::MAX, 100), (1, u32::MAX, 100), (2, 0, 100), (2, 2, 100)]
    );
    assert!((rows.distributions[0].value_ms - 31.0032).abs() < 1e-9);
}

/// Little's law: a datagram each 2 ms that takes 10 ms and 171.2 us makes 5.09 in flight, five where the last one left
/// less than 1.8 ms ago.
#[test]
fn datagrams_in_flight_are_their_rate_times_their_delay() {
    let links = [with(link(10_000_000, &json!(null)), "delay", json!(10 * MS))];
    let mut spec = spec(S / 2, &links, &[sends(udp(200, 2 * MS), 20 * MS, S / 2)]);
    (spec["warmup"], spec["interval"]) = (json!(301 * MS), json!(150_500_000));
    let (output, rows) = run(&spec);
    assert_eq!(output.flows[0].outstanding_packets, 5);
    let in_flight: Vec<f32> = rows.samples.iter().take(3).map(|row| row.in_flight_packets).collect();
    assert_eq!(in_flight, [5.0; 3]);
}

#[test]
fn what_is_counted_as_lost_is_what_the_link_dropped() {
    // From 2 to 3 s all is lost; from 5 to 6 s the link carries less than is sent.
    let changes = json!([
        {"at": 2 * S + 1, "what": {"loss": {"link": 0, "loss": 1.0}}},
        {"at": 3 * S + 1, "what": {"loss": {"link": 0, "loss": 0.0}}},
        {"at": 5 * S + 1, "what": {"rate": {"link": 0, "rate": 500_000}}},
        {"at": 6 * S + 1, "what": {"rate": {"link": 0, "rate": 10_000_000}}},
    ]);
    let links = [link(10_000_000, &json!({"packets": 20}))];
    let mut spec = spec(10 * S, &links, &[sends(udp(500, 4 * MS), 20 * MS, 10 * S)]);
    spec["changes"] = changes;
    let (output, rows) = run(&spec);
    let (figures, drops) = (datagrams(&output, 0), output.links[0].drops);
    assert!(drops > 330, "{drops}");
    // The last two, sent in the last 10 ms, are under way as the run ends.
    assert_eq!((figures.sent, figures.lost, figures.received), (2500, drops, 2498 - drops));
    let sum =
        |of: fn(&knee_net::output::DelayRow) -> u32| rows.delays.iter().map(|row| u64::from(of(row))).sum::<u64>();
    assert_eq!((sum(|row| row.sent), sum(|row| row.lost), sum(|row| row.received)), (2500, drops, 2498 - drops));
    let lost: u64 = rows.samples.iter().map(|row| u64::from(row.lost_packets)).sum();
    assert_eq!((lost, output.flows[0].lost_packets), (drops, drops));
}

/// The difference of two independent delays, each uniform from 0 to J, is J/3 on average, and so is the jitter.
#[test]
fn the_mean_jitter_of_uniform_delays_is_a_third_of_their_range() {
    let links = [with(with(link(100_000_000, &json!(null)), "jitter", json!(9 * MS)), "reorder", json!(true))];
    let (output, _) = run(&spec(200 * S, &links, &[sends(udp(200, 20 * MS), 20 * MS, 200 * S)]));
    let figures = datagrams(&output, 0);
    assert_near("jitter", figures.jitter_mean_ms.unwrap(), 3.0, 0.03);
    assert_near("one-way delay", figures.owd_mean_ms.unwrap(), 10.0 + 4.5 + 0.017, 0.01);
}

#[test]
fn datagrams_that_overtake_each_other_are_not_lost() {
    let links = [with(with(link(100_000_000, &json!(null)), "jitter", json!(30 * MS)), "reorder", json!(true))];
    let (output, rows) = run(&spec(10 * S, &links, &[sends(udp(200, 2 * MS), 20 * MS, 9 * S)]));
    let figures = datagrams(&output, 0);
    assert_eq!((figures.sent, output.links[0].drops), (4500, 0));
    // At the stop some are in flight, and arrive later.
    assert_eq!(figures.received, 4500);
    assert_eq!(rows.delays.iter().map(|row| row.received).sum::<u32>(), 4500);
    let counted = |of: &dyn Fn(usize) -> u32, rows: usize| (0..rows).map(of).sum::<u32>();
    let in_rows = [
        counted(&|i| rows.delays[i].lost, rows.delays.len()),
        counted(&|i| rows.samples[i].lost_packets, rows.samples.len()),
    ];
    assert_eq!((figures.lost, output.flows[0].lost_packets, in_rows), (0, 0, [0, 0]));
}

#[test]
fn of_datagrams_that_overtake_each_other_only_those_are_lost_that_were_dropped() {
    let mut lossy = with(with(link(100_000_000, &json!(null)), "jitter", json!(30 * MS)), "reorder", json!(true));
    lossy["loss"] = json!(0.05);
    let mut spec = spec(10 * S, &[lossy], &[sends(udp(200, 2 * MS), 20 * MS, 9 * S)]);
    // The flow stops while some are in flight; all have ended at the end of the run.
    let (output, rows) = run(&spec);
    let drops = output.links[0].drops;
    let in_rows: u64 = rows.delays.iter().map(|row| u64::from(row.lost)).sum();
    assert!(drops > 150 && in_rows + 2 >= drops && in_rows <= drops, "{drops} {in_rows}");
    assert_eq!((datagrams(&output, 0).lost, output.flows[0].lost_packets), (in_rows, in_rows));
    for warmup in [1, 4, 8] {
        // The laws hold what ends in a window against what was sent in it or before.
        spec["warmup"] = json!(warmup * S);
        let (output, _) = run(&spec);
        assert_eq!(datagrams(&output, 0).lost, output.flows[0].lost_packets);
    }
}

/// Half the base RTT lies before the receiver: in a run that is shorter, nothing arrives.
#[test]
fn a_datagram_is_received_when_its_one_way_delay_has_passed() {
    for (rtt, received) in [(10 * S, 0), (S, 125), (20 * MS, 248)] {
        let spec = spec(S, &[link(100_000_000, &json!(null))], &[sends(udp(200, 4 * MS), rtt, S)]);
        let (output, rows) = run(&spec);
        let figures = datagrams(&output, 0);
        assert_eq!((figures.sent, figures.received, figures.lost), (250, received, 0), "{rtt}");
        assert_eq!(rows.delays.iter().map(|row| u64::from(row.received)).sum::<u64>(), received);
        assert_eq!(figures.owd_mean_ms.is_some(), received > 0);
    }
}

#[test]
fn a_flow_that_stops_before_its_figures_begin_has_none() {
    let mut spec = spec(2 * S, &[link(500_000, &json!(null))], &[sends(udp(200, 2 * MS), 21 * MS, 713 * MS)]);
    spec["warmup"] = json!(S);
    let (output, _) = run(&spec);
    let figures = datagrams(&output, 0);
    assert_eq!((figures.sent, figures.received, figures.lost), (0, 0, 0));
    assert_eq!((output.flows[0].sent_packets, output.flows[0].goodput_mbps.to_bits()), (0, 0));
}

#[test]
fn on_off_sources_together_have_their_mean_rate() {
    let voice = json!({"kind": "udp", "packet": 200, "interval": 20 * MS, "on": 352 * MS, "off": 650 * MS});
    let flows: Vec<Value> = (0..40).map(|_| sends(voice.clone(), 20 * MS, 200 * S)).collect();
    let (output, _) = run(&spec(200 * S, &[link(100_000_000, &json!(null))], &flows));
    // A talkspurt has 1 / (1 - exp(-20/352)) = 18.1 datagrams on average.
    let expected = 40.0 * 200.0 / 1.002 * 18.104;
    let sent: u64 = (0..40).map(|i| datagrams(&output, i).sent).sum();
    assert_near("datagrams", sent as f64, expected, 0.03);
    let first: Vec<u64> = (0..40).map(|i| datagrams(&output, i).sent).collect();
    assert!(first.windows(2).any(|pair| pair[0] != pair[1]), "each has random numbers of its own");
}

#[test]
fn a_recorded_trace_is_sent_as_it_was() {
    let trace = json!({"kind": "udp", "trace": [[0, 1000], [30 * MS, 500]], "repeat": false});
    let (output, rows) = run(&spec(S, &[link(8_000_000, &json!(null))], &[sends(trace, 20 * MS, S)]));
    // 1.014 and 0.514 ms on the wire.
    let figures = datagrams(&output, 0);
    assert_eq!((figures.sent, figures.owd_max_ms, figures.owd_min_ms), (2, Some(11.014), Some(10.514)));
    assert_eq!((rows.delays[0].received, rows.delays[1].sent), (2, 0));
}

/// A probe beside two downloads: its greatest delay within the run after the start, in ms.
fn probe_beside_bulk(queue: &str) -> f64 {
    let link = with(link(20_000_000, &json!({"packets": 250})), "queue", json!(queue));
    let bulk = flow("cubic", 20 * MS, 0, 20 * S);
    let mut spec = spec(20 * S, &[link], &[bulk.clone(), bulk, sends(probe(100, 50 * MS), 20 * MS, 20 * S)]);
    spec["warmup"] = json!(2 * S);
    let (output, _) = run(&spec);
    assert!(datagrams(&output, 2).lost < 10);
    output.flows[2].rtt_p95_ms.unwrap()
}

#[test]
fn a_queue_per_flow_keeps_a_probes_delay_low_beside_bulk_and_pfifo_does_not() {
    // A probe waits for about one packet of each flow (0.6 ms) where each has a queue, and behind up to 151 ms at a
    // full pfifo.
    let [fq_codel, fq_pie, pfifo] = ["fq_codel", "fq_pie", "pfifo"].map(probe_beside_bulk);
    assert!(fq_codel < 22.0 && fq_pie < 22.0, "{fq_codel} and {fq_pie}");
    assert!(pfifo > 100.0, "{pfifo}");
}

#[test]
fn marks_of_ecn_capable_datagrams_are_counted() {
    let marking = with(link(2_000_000, &json!({"packets": 1000})), "queue", json!("fq_codel"));
    let mut flow = sends(udp(1000, 4 * MS), 20 * MS, 5 * S);
    flow["ecn"] = json!("on");
    let (output, _) = run(&spec(6 * S, &[marking], &[flow]));
    let figures = datagrams(&output, 0);
    assert!(figures.marked > 0, "{figures:?}");
    assert_eq!((figures.lost, output.links[0].drops), (0, 0));
}

#[test]
fn the_same_specification_gives_the_same_bits() {
    let voice = json!({"kind": "udp", "packet": 200, "interval": 20 * MS, "on": 352 * MS, "off": 650 * MS});
    let flows =
        [sends(voice, 20 * MS, 5 * S), flow("cubic", 20 * MS, 0, 5 * S), sends(probe(64, 10 * MS), 30 * MS, 4 * S)];
    let spec = spec(5 * S, &[with(link(10_000_000, &json!(null)), "loss", json!(0.02))], &flows);
    let bits = |(output, rows): (Output, Rows)| {
        let delays = bytemuck::cast_slice::<_, u8>(&rows.delays).to_vec();
        (serde_json::to_string(&output).unwrap(), delays, bytemuck::cast_slice::<_, u8>(&rows.distributions).to_vec())
    };
    assert!(bits(run(&spec)) == bits(run(&spec)));
}

#[test]
fn with_many_flows_probes_keep_their_distributions_and_bulk_flows_have_one_together() {
    let bulk = (0..60).map(|i| flow("cubic", (20 + i) * MS, 0, 2 * S));
    let mut flows: Vec<Value> = bulk.chain((0..4).map(|i| sends(probe(64, 100 * MS), (20 + i) * MS, 2 * S))).collect();
    // By kind of row and index, how many times were counted.
    let counts = |flows: &[Value]| {
        let (output, rows) = run(&spec(3 * S, &[link(100_000_000, &json!(null))], flows));
        let mut counts = BTreeMap::new();
        for row in &rows.distributions {
            *counts.entry((row.quantity, row.index)).or_insert(0) += row.count;
        }
        (output, counts)
    };
    let (_, few) = counts(&flows);
    assert_eq!(few.keys().filter(|key| key.0 == 0).count(), 65, "each of 64, and all together");
    flows.push(sends(probe(64, 100 * MS), 20 * MS, 2 * S));
    let (output, many) = counts(&flows);
    for i in 60..65 {
        let index = u32::try_from(i).unwrap();
        assert_eq!(many[&(0, index)], datagrams(&output, i).echoed.unwrap());
        assert_eq!(many[&(1, index)], datagrams(&output, i).received);
    }
    let (all, bulk) = (many[&(0, u32::MAX)], many[&(0, u32::MAX - 1)]);
    assert_eq!(all, bulk + (60..65).map(|i| many[&(0, i)]).sum::<u64>());
    assert_eq!(many.keys().filter(|key| key.0 == 0).count(), 7);
}

#[test]
fn datagrams_that_cannot_be_are_refused() {
    let spec = spec(S, &[link(1_000_000, &json!(null))], &[sends(udp(1501, MS), 20 * MS, S)]);
    let read: Spec = serde_json::from_value(spec).unwrap();
    let said = Simulation::new(&read).err().unwrap().to_string();
    assert_eq!(said, "flow ``: udp: `packet` is 1501 B; expected 28 B to 1500 B");
}

fn rtc(controller: &str, max_rate: u64) -> Value {
    json!({"kind": "rtc", "controller": controller, "max_rate": max_rate})
}

/// Mean rate received from `from` to `until` s, Mbit/s.
fn between(rows: &Rows, i: u32, from: f64, until: f64) -> f64 {
    let rates: Vec<f64> = rows
        .samples
        .iter()
        .filter(|row| row.flow == i && row.t_s > from && row.t_s <= until)
        .map(|row| f64::from(row.throughput_mbps))
        .collect();
    rates.iter().sum::<f64>() / rates.len() as f64
}

#[test]
fn real_time_video_stays_below_the_links_rate_with_a_queue_below_its_target() {
    // SCReAM aims at 60 ms of queueing delay; GCC's detector sees a queue that grows for some tens of ms.
    for (controller, queue_ms) in [("scream", 60.0), ("gcc", 100.0)] {
        let flow = sends(rtc(controller, 20_000_000), 40 * MS, 90 * S);
        let mut spec = spec(90 * S, &[link(4_000_000, &json!({"time": 400 * MS}))], &[flow]);
        spec["warmup"] = json!(40 * S);
        let (output, _) = run(&spec);
        let (figures, link) = (datagrams(&output, 0), &output.links[0]);
        assert!((0.6..=1.0).contains(&link.utilization), "{controller}: {link:?}");
        assert!(link.queue_delay_p95_ms.unwrap() < queue_ms, "{controller}: {link:?}");
        assert!(figures.lost * 1000 < figures.sent, "{controller}: {figures:?}");
        // The RTT of a packet with its report is the base RTT and the queue of the way there.
        let (rtt, queue) = (output.flows[0].rtt_mean_ms.unwrap(), link.queue_delay_mean_ms.unwrap());
        assert!(output.flows[0].rtt_min_ms.unwrap() >= 40.0, "{controller}: {:?}", output.flows[0]);
        assert!((rtt - 40.0 - queue).abs() < 0.2 * queue + 3.0, "{controller}: {rtt} ms with a queue of {queue}");
    }
}

/// A report waits for up to 50 ms with GCC, which is no part of its RTT: on 100 Mbit/s that is 30 ms and 0.1 ms for a
/// packet, before which at most five of a frame queue.
#[test]
fn the_rtt_of_video_is_without_the_time_for_which_reports_wait() {
    for controller in ["scream", "gcc"] {
        let flow = sends(rtc(controller, 2_000_000), 30 * MS, 20 * S);
        let (output, rows) = run(&spec(20 * S, &[link(100_000_000, &json!(null))], &[flow]));
        let (least, greatest) = (output.flows[0].rtt_min_ms.unwrap(), output.flows[0].rtt_max_ms.unwrap());
        assert!(least >= 30.0 && greatest < 30.6, "{controller}: {least} to {greatest} ms");
        assert!(rows.delays.iter().any(|row| row.rtt_mean_ms >= 30.0), "{controller}");
    }
}

#[test]
fn real_time_video_recovers_when_the_links_rate_doubles() {
    for controller in ["scream", "gcc"] {
        let flow = sends(rtc(controller, 20_000_000), 40 * MS, 120 * S);
        let mut spec = spec(120 * S, &[link(2_000_000, &json!({"time": 400 * MS}))], &[flow]);
        spec["changes"] = json!([{"at": 60 * S, "what": {"rate": {"link": 0, "rate": 4_000_000}}}]);
        let (_, rows) = run(&spec);
        let (before, doubled) = (between(&rows, 0, 40.0, 60.0), between(&rows, 0, 95.0, 120.0));
        assert!(doubled > 1.5 * before && doubled <= 4.0, "{controller}: {before}, then {doubled}");
    }
}

#[test]
fn real_time_video_backs_off_beside_cubic_and_comes_back() {
    // GCC has met its limit at many rates by then, and adds half a packet per response time: 34 kbit/s in each second.
    for (controller, share) in [("scream", 0.7), ("gcc", 0.5)] {
        let video = sends(rtc(controller, 20_000_000), 40 * MS, 150 * S);
        let bulk = flow("cubic", 40 * MS, 50 * S, 100 * S);
        let (_, rows) = run(&spec(150 * S, &[link(6_000_000, &json!({"time": 200 * MS}))], &[video, bulk]));
        let [alone, beside, after] =
            [(30.0, 50.0), (60.0, 100.0), (130.0, 150.0)].map(|(a, b)| between(&rows, 0, a, b));
        assert!(beside < 0.7 * alone && beside > 0.05, "{controller}: {alone}, then {beside}");
        assert!(after > share * alone && after > 1.2 * beside, "{controller}: {alone}, {beside}, then {after}");
    }
}

#[test]
fn reports_cross_the_links_on_the_way_back() {
    let mut link = link(10_000_000, &json!(null));
    link["reverse"] = json!({"capacity": {"rate": 1_000_000}, "queue": "pfifo", "limit": null});
    let mut spec = spec(20 * S, &[link], &[sends(rtc("scream", 2_000_000), 40 * MS, 20 * S)]);
    spec["warmup"] = json!(10 * S);
    let (output, _) = run(&spec);
    // At the highest rate a frame leaves within 6 ms, and gets one report: of 28 bytes of IP and UDP, 20 of RTCP, 2 for
    // each of about 7 datagrams, padded, and 14.
    let used = output.links[1].utilization * 1_000_000.0 / 8.0 / 30.0;
    assert!((70.0..90.0).contains(&used), "{used} bytes per report");
}

/// On a queue that marks for L4S, SCReAM's marks keep the queue far below what its delay-based part would.
#[test]
fn l4s_marks_keep_screams_queue_short() {
    let queue = |ecn: &str| {
        let link = with(link(10_000_000, &json!({"packets": 1000})), "queue", json!("dualpi2"));
        let mut flow = sends(rtc("scream", 30_000_000), 30 * MS, 60 * S);
        flow["ecn"] = json!(ecn);
        let mut spec = spec(60 * S, &[link], &[flow]);
        spec["warmup"] = json!(20 * S);
        let (output, _) = run(&spec);
        assert!(output.links[0].utilization > 0.5, "{ecn}: {:?}", output.links[0]);
        (output.links[0].queue_delay_p99_ms.unwrap(), datagrams(&output, 0).marked)
    };
    let ((l4s, marked), (classic, _)) = (queue("l4s"), queue("off"));
    assert!(marked > 100 && l4s < 0.8 * classic, "{l4s} and {classic} ms, {marked} marked");
}

#[test]
fn figures_that_begin_after_the_end_count_nothing() {
    let mut spec = spec(S, &[link(1_000_000, &json!(null))], &[sends(probe(100, 50 * MS), 20 * MS, S)]);
    spec["warmup"] = json!(2 * S);
    let (output, rows) = run(&spec);
    let figures = datagrams(&output, 0);
    assert_eq!((figures.sent, figures.received, figures.echoed, figures.owd_mean_ms), (0, 0, Some(0), None));
    assert_eq!(rows.delays.iter().map(|row| row.sent).sum::<u32>(), 20);
    assert!(rows.distributions.is_empty());
}
