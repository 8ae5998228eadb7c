//! Senders before receivers that misbehave, as Linux's do (Savage et al., CCR 1999).

use crate::laws;
use crate::networks::{MS, S, any_chain, any_dumbbell, any_network, flow, link, spec};
use crate::runs::{run, simulation};
use knee_cc::{Ack, Congestion, CongestionControl, Control, Entry, Family, Needs};
use knee_core::{ConnectionId, Packet, Time};
use knee_sim::{Output, Own, OwnMake, Rows, Simulation, Spec, Tap};
use knee_tcp::sender::AckInfo;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A receiver, as a specification has it.
fn receiver(name: &str, param: &str, value: u64) -> Value {
    json!({"name": name, "params": {param: {"count": value}}})
}

/// A flow of `cc` with this receiver on 20 Mbit/s, 40 ms and a buffer of 1 BDP, where a receive window of 200 packets
/// is thrice what the path holds. Segments leave one by one, so that no ACK comes in the middle of a burst that waits.
fn alone(cc: &str, receiver: Value, bytes: Option<u64>) -> Value {
    let mut flow = flow(cc, 40 * MS, 0, 20 * S);
    (flow["receiver"], flow["bytes"]) = (receiver, json!(bytes));
    let mut spec = spec(20 * S, &[link(20_000_000, &json!({"packets": 66}))], &[flow]);
    spec["tcp"] = json!({"tso": false, "receive_window": 200 * 1448});
    spec
}

fn figures(spec: &Value) -> Value {
    serde_json::to_value(run(spec).0).unwrap()
}

/// An algorithm that grows with each ACK, whatever that acknowledges.
#[derive(Clone)]
struct CountsAcks(u32);

impl CongestionControl for CountsAcks {
    fn on_ack(&mut self, _: &Ack, control: &mut Control) {
        self.0 += 1;
        if self.0 >= control.cwnd {
            (self.0, control.cwnd) = (0, control.cwnd + 1);
        }
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = (control.cwnd / 2).max(2);
    }
}

const fn entry(full_control: bool) -> Entry {
    Entry {
        name: "counts-acks",
        family: Family::LossBased,
        about: "grows with every ACK",
        source: "this test",
        params: &[],
        phases: &["running"],
        edges: &[],
        min_cwnd: 2,
        needs: Needs { full_control, ..Needs::NONE },
        make: |_, _| Box::new(CountsAcks(0)),
    }
}

static GATED: Entry = entry(false);
static UNGATED: Entry = entry(true);

/// The window of the last 100 ms of a run of `seconds`, in which nothing is lost, with an algorithm that counts ACKs.
fn window_by_acks(entry: &'static Entry, receiver: Value, seconds: u64) -> f32 {
    let mut spec = alone("counts-acks", receiver, None);
    spec["duration"] = json!(seconds * S);
    spec["links"][0]["capacity"]["rate"] = json!(1_000_000_000);
    let make = OwnMake::Algorithm(Arc::new(|_, _, _| Box::new(CountsAcks(0))));
    let own = Own { name: entry.name.into(), entry, make };
    let spec: Spec = serde_json::from_value(spec).unwrap();
    let (output, rows) = Simulation::with_own(&spec, &[own]).unwrap().run().unwrap();
    assert_eq!(output.flows[0].lost_packets, 0);
    rows.samples.last().unwrap().cwnd_packets
}

/// Linux counts whole segments (tcp_tso_acked), lets the window grow on such ACKs only (tcp_may_raise_cwnd), and takes
/// no RTT sample from others.
#[test]
fn into_how_many_parts_a_segment_is_divided_makes_no_difference_to_algorithms_that_grow_by_segments() {
    for cc in ["reno", "cubic", "bbr", "bbr3"] {
        for bytes in [None, Some(3_000_001)] {
            let [two, eight] = [2, 8].map(|parts| figures(&alone(cc, receiver("ack-division", "parts", parts), bytes)));
            assert_eq!(two, eight, "{cc}");
        }
    }
}

/// By Reno's law of one packet per round trip, which each segment's own ACK makes two where every second was told of.
#[test]
fn an_algorithm_that_grows_per_ack_gains_by_division_only_where_it_is_told_of_every_ack() {
    let windows = |entry| {
        [receiver("ack-division", "parts", 2), receiver("ack-division", "parts", 8)]
            .map(|receiver| window_by_acks(entry, receiver, 2))
    };
    let [two, eight] = windows(&GATED);
    assert_eq!(two.to_bits(), eight.to_bits());
    // 50 round trips of a packet each, from 10.
    assert!((50.0..=62.0).contains(&two), "{two}");
    let [two, eight] = windows(&UNGATED);
    assert!(eight > 1.5 * two && two > 1.5 * 60.0, "{two} and {eight}");
}

/// tcp_fastretrans_alert: without SACK blocks a duplicate ACK tells a sender that uses SACK of no loss.
#[test]
fn spoofed_duplicates_make_no_difference() {
    for cc in ["reno", "cubic", "bbr3"] {
        let [one, many] =
            [1, 9].map(|copies| figures(&alone(cc, receiver("dup-ack-spoofing", "copies", copies), None)));
        assert_eq!(one, many, "{cc}");
    }
}

/// Section 2.3 of the paper: the sender goes on as if nothing were lost, here up to its receive window of 200 packets,
/// while the path holds 66 and as many in the buffer.
#[test]
fn an_optimistic_receiver_conceals_all_losses_and_its_data_has_holes() {
    let [honest, optimistic] =
        [json!(null), receiver("optimistic-acks", "ahead", 0)].map(|receiver| run(&alone("reno", receiver, None)).0);
    let [flow, link] = [&optimistic.flows[0].lost_packets, &optimistic.links[0].drops];
    assert!(*flow == 0 && *link > 1000, "{optimistic:?}");
    assert!(honest.flows[0].lost_packets > 0 && honest.links[0].drops < link / 10, "{honest:?}");
    let [arrived, sent] = [&optimistic.flows[0].throughput_mbps, &optimistic.flows[0].sending_rate_mbps];
    assert!(*sent > 1.2 * arrived, "{optimistic:?}");
}

/// RFC 9293, 3.10.7.4: an ACK of what was not sent is not taken.
#[test]
fn acks_ahead_of_the_data_shorten_the_rtt_and_end_a_transfer_nonetheless() {
    let [honest, ahead] = [json!(null), receiver("optimistic-acks", "ahead", 5)]
        .map(|receiver| run(&alone("reno", receiver, Some(1_000_000))).0);
    assert!(ahead.flows[0].rtt_min_ms < honest.flows[0].rtt_min_ms, "{ahead:?}");
    assert!(ahead.flows[0].completion_s.is_some(), "{ahead:?}");
    // With more than the first window ahead nothing is ever taken but what answers a segment that comes again.
    let far = run(&alone("reno", receiver("optimistic-acks", "ahead", 1000), Some(20_000))).0;
    assert!(far.flows[0].timeouts > 0 && far.flows[0].completion_s.is_some(), "{far:?}");
}

/// Sees all ACKs, as (segment, bytes of it).
struct Acks(Arc<Mutex<Vec<(u64, u16)>>>);

impl Tap for Acks {
    fn sent(&mut self, _: Time, _: ConnectionId, _: &Packet) {}

    fn received(&mut self, _: Time, _: ConnectionId, packet: &Packet, ack: Option<&AckInfo>) {
        if !packet.has(Packet::SYN) {
            self.0.lock().unwrap().extend(ack.map(|ack| (ack.seq, ack.part)));
        }
    }
}

#[test]
fn each_segment_of_a_transfer_is_acknowledged_in_its_parts_and_the_last_one_too() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut simulation = simulation(&alone("reno", receiver("ack-division", "parts", 4), Some(2 * 1448 + 100)));
    simulation.tap(Box::new(Acks(seen.clone())));
    while simulation.step(1) {
        simulation.audit().unwrap();
    }
    let expected = [(0, 362), (0, 724), (0, 1086), (1, 0), (1, 362), (1, 724), (1, 1086), (2, 0)];
    let last = [(2, 25), (2, 50), (2, 75), (3, 0)];
    assert_eq!(*seen.lock().unwrap(), [&expected[..], &last].concat());
}

#[test]
fn what_a_receiver_cannot_be_is_refused_with_the_flow_and_the_reason() {
    let why = |change: &dyn Fn(&mut Value)| {
        let mut spec = alone("reno", receiver("optimistic-acks", "ahead", 0), None);
        change(&mut spec);
        let spec: Spec = serde_json::from_value(spec).unwrap();
        Simulation::new(&spec).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let window = why(&|spec| spec["tcp"]["receive_window"] = Value::Null);
    assert!(window.contains("flow `reno`") && window.contains("receive window"), "{window}");
    let quic = why(&|spec| spec["flows"][0]["transport"] = json!("quic"));
    assert!(quic.contains("over TCP"), "{quic}");
    let unknown = why(&|spec| spec["flows"][0]["receiver"]["name"] = json!("rude"));
    assert!(unknown.contains("`rude`: there is no such receiver"), "{unknown}");
    let param = why(&|spec| spec["flows"][0]["receiver"]["params"] = json!({"parts": {"count": 2}}));
    assert!(param.contains("the receiver of flow `reno`"), "{param}");
}

/// Networks in which most receivers misbehave.
fn misbehaving(networks: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let any = prop_oneof![
        1 => Just(json!(null)),
        2 => (2u64..12).prop_map(|parts| receiver("ack-division", "parts", parts)),
        1 => (1u64..5).prop_map(|copies| receiver("dup-ack-spoofing", "copies", copies)),
        2 => prop_oneof![Just(0), 0u64..30].prop_map(|ahead| receiver("optimistic-acks", "ahead", ahead)),
    ];
    (networks, prop::collection::vec(any, 9), 20_000u64..400_000).prop_map(|(mut spec, receivers, window)| {
        for (flow, receiver) in spec["flows"].as_array_mut().unwrap().iter_mut().zip(receivers) {
            flow["receiver"] = receiver;
        }
        if spec["tcp"].is_null() {
            spec["tcp"] = json!({});
        }
        spec["tcp"]["receive_window"] = json!(window);
        spec
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_receivers_do_no_packet_is_unaccounted_and_no_figure_beyond_the_possible(
        spec in misbehaving(prop_oneof![any_network(), any_chain()])
    ) {
        let mut simulation = simulation(&spec);
        while simulation.step(20) {
            prop_assert_eq!(simulation.audit(), Ok(()));
        }
        let (output, rows) = simulation.finish().unwrap();
        prop_assert_eq!(laws::check(&spec, &output, &rows), Ok(()));
    }

    #[test]
    fn both_schedulers_give_the_same_bits_of_receivers_that_misbehave(
        spec in misbehaving(prop_oneof![any_dumbbell(), any_chain()])
    ) {
        let bits = |(output, rows): (Output, Rows)| {
            let series = [bytemuck::cast_slice(&rows.samples), bytemuck::cast_slice(&rows.events)].concat();
            (serde_json::to_string(&output).unwrap(), series)
        };
        let (alone, mut watched) = (simulation(&spec), simulation(&spec));
        watched.tap(Box::new(Acks(Arc::default())));
        let (alone, watched): (_, (String, Vec<u8>)) = (bits(alone.run().unwrap()), bits(watched.run().unwrap()));
        prop_assert_eq!(&alone.0, &watched.0);
        prop_assert!(alone.1 == watched.1, "the time series or the events differ");
    }
}
