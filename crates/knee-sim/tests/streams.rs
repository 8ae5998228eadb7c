//! Several streams on one connection of QUIC: requests that run at once, as HTTP/3 has them.

use crate::networks::{MS, S, flow, link, spec};
use crate::runs::{bits, completed, read, run, simulation};
use knee_core::{ConnectionId, Packet, Time};
use knee_sim::sender_log::open_logs;
use knee_sim::{Simulation, Tap};
use knee_tcp::sender::AckInfo;
use knee_traffic::{Completion, What};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Pages of 71 objects of 37 kB, all asked for at once over one connection with this many streams.
fn page(streams: u64) -> Value {
    json!({
        "kind": "requests", "pages": {"closed": [S, false]}, "request": 500, "size": {"fixed": 37_000},
        "objects": {"fixed": 71}, "connections": 1, "streams": streams, "together": true, "persistent": false,
        "tls": "none", "service": 0, "number": 1
    })
}

/// A flow on 20 Mbit/s and 40 ms.
fn scenario(cc: &str, traffic: &Value) -> Value {
    let mut flow = flow(cc, 40 * MS, 0, 10 * S);
    (flow["traffic"], flow["transport"]) = (traffic.clone(), json!("quic"));
    let mut spec = spec(20 * S, &[link(20_000_000, &json!({"packets": 100}))], &[flow]);
    spec["quic"] = json!({});
    spec
}

fn millis(completion: &Completion) -> f64 {
    (completion.t_s - completion.started_s) * 1e3
}

/// The figure of docs/quic.md: quinn takes 1,290 ms with 71 streams. On one stream each object takes a round trip of
/// its own, which alone are 71 * 40 ms.
#[test]
fn a_page_of_71_streams_takes_1_290_ms() {
    for cc in ["cubic", "reno"] {
        let time = |streams| millis(&completed(&run(&scenario(cc, &page(streams))).1, What::Page)[0]);
        let (one, all) = (time(1), time(71));
        println!("{cc}: {one:.1} ms on one stream, {all:.1} ms on 71");
        assert!((all / 1290.0 - 1.0).abs() < 0.03, "{cc}: {all} ms");
        assert!(one > 71.0 * 40.0 + 37.0 * 71.0 * 8.0 / 20.0, "{cc}: {one} ms");
    }
}

/// With 0-RTT a request leaves before the handshake is over, which is on record all the same.
#[test]
fn each_connection_has_one_handshake_on_record() {
    for zero_rtt in [false, true] {
        let pages = json!({"objects": {"fixed": 1}, "number": 5});
        let mut traffic = page(1);
        traffic.as_object_mut().unwrap().extend(pages.as_object().unwrap().clone());
        let mut spec = scenario("cubic", &traffic);
        spec["quic"] = json!({"zero_rtt": zero_rtt});
        let rows = run(&spec).1;
        let [pages, handshakes] = [What::Page, What::Connect].map(|what| completed(&rows, what));
        assert_eq!((pages.len(), handshakes.len()), (5, 5), "0-RTT: {zero_rtt}");
        assert!(handshakes.iter().all(|handshake| (40.0..50.0).contains(&millis(handshake))), "{handshakes:?}");
    }
}

/// 71 objects of 37 kB take 1,051 ms of the link, and 4 % more with headers. Shared, all of them come towards the end,
/// those first that were asked for in the first window; one by one, each takes its own part. Of two urgencies all of
/// the higher come before any of the lower.
#[test]
fn answers_come_by_their_priorities() {
    let times = |priority: Value| {
        let mut page = page(71);
        page["priority"] = priority;
        completed(&run(&scenario("bbr", &page)).1, What::Request)
    };
    let came = |requests: &[Completion]| -> Vec<f64> { requests.iter().map(millis).collect() };
    let shared = came(&times(json!([{"urgency": 3, "incremental": true}])));
    let one_by_one = came(&times(json!([{}])));
    assert!((shared.len(), one_by_one.len()) == (71, 71));
    assert!(shared[0] > 0.85 * shared[70], "{shared:?}");
    assert!(one_by_one[0] < 0.1 * one_by_one[70] && (one_by_one[35] / one_by_one[70] - 0.5).abs() < 0.06);
    assert!((shared[70] / one_by_one[70] - 1.0).abs() < 0.01, "in the end all have come at the same time");
    // Every second object is of urgency 0, and has 36 of the 71 parts.
    let mut odd = page(71);
    odd["priority"] = json!([{"urgency": 0, "incremental": true}, {"urgency": 7, "incremental": true}]);
    let urgent = came(&completed(&run(&scenario("bbr", &odd)).1, What::Request));
    assert!(urgent[35] < 0.56 * urgent[70] && urgent[36] > 0.95 * urgent[70], "{urgent:?}");
}

/// A server that takes its time for the first of two answers sends the second one meanwhile.
#[test]
fn an_answer_waits_for_no_other() {
    let mut traffic = page(2);
    (traffic["objects"], traffic["size"]) = (json!({"fixed": 8}), json!({"fixed": 1_000}));
    traffic["service"] = json!(50 * MS);
    let requests = completed(&run(&scenario("reno", &traffic)).1, What::Request);
    // Two at once: a round trip and 50 ms for two answers.
    let span = requests[7].t_s - requests[0].started_s;
    assert!((0.36..0.38).contains(&span), "{span}");
}

#[test]
fn streams_that_a_connection_cannot_have_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut spec = scenario("cubic", &page(71));
        change(&mut spec);
        Simulation::new(&read(&spec)).err().unwrap().to_string()
    };
    assert_eq!(
        refused(&|spec| spec["flows"][0]["transport"] = json!("tcp")),
        "flow `cubic`: `streams` of its traffic is 71, and TCP has one stream; expected at most 1"
    );
    assert_eq!(
        refused(&|spec| spec["flows"][0]["cc"] = json!("quinn:cubic")),
        "flow `cubic`: `streams` of its traffic is 71, and the stack of its controller has one stream here; expected at \
         most 1"
    );
    assert_eq!(
        refused(&|spec| spec["quic"]["max_streams"] = json!(70)),
        "flow `cubic`: `streams` of its traffic is 71, and `max_streams` of `quic` limits them; expected at most 70"
    );
    let in_traffic = |key: &str, value: Value| {
        refused(&|spec| {
            spec["flows"][0]["traffic"]["priority"] = json!([{}]);
            spec["flows"][0]["traffic"][key] = value.clone();
        })
    };
    let refused = in_traffic("streams", json!(1));
    assert!(refused.contains("`priority`: answers of a connection come one after the other"), "{refused}");
    let refused = in_traffic("priority", json!([]));
    assert!(refused.contains("`priority`: the list of priorities is empty"), "{refused}");
    let refused = in_traffic("priority", json!([{"urgency": 8}]));
    assert!(refused.contains("`priority`: the urgency, 8, is not from 0 to 7"), "{refused}");
}

struct Onlooker;

impl Tap for Onlooker {
    fn sent(&mut self, _: Time, _: ConnectionId, _: &Packet) {}

    fn received(&mut self, _: Time, _: ConnectionId, _: &Packet, _: Option<&AckInfo>) {}
}

prop_compose! {
    /// Pages on a path of their own, beside a transfer.
    fn any_pages()(
        (objects, connections, streams, bytes) in (1u64..30, 1u64..4, 2u64..30, 1u64..60_000),
        (together, persistent, service_ms, think_ms) in (any::<bool>(), any::<bool>(), 0u64..20, 0u64..100),
        priorities in prop::collection::vec((0u8..8, any::<bool>()), 1..4),
        (mbit, rtt_ms, packets, loss, jitter_ms) in (1u64..40, 1u64..100, 5u64..200, 0.0..0.05, 0u64..5),
        (windows, max_streams) in ((20_000u64..200_000, 10_000u64..100_000), 30u64..40),
        cc in prop::sample::select(vec!["reno", "cubic", "bbr3", "lola", "prague"]),
        (lossy, limited) in any::<(bool, bool)>(),
    ) -> Value {
        let mut spec = scenario(cc, &json!({
            "kind": "requests", "pages": {"closed": [think_ms * MS, true]}, "request": 400,
            "size": {"lognormal": [bytes as f64, 1.0, 300_000]}, "objects": {"geometric": objects as f64},
            "connections": connections, "streams": streams, "together": together, "persistent": persistent,
            "tls": "none", "service": service_ms * MS,
            "priority": priorities.iter().map(|(urgency, incremental)| {
                json!({"urgency": urgency, "incremental": incremental})
            }).collect::<Vec<_>>(),
        }));
        spec["duration"] = json!(3 * S);
        spec["links"][0]["capacity"]["rate"] = json!(mbit * 1_000_000);
        spec["links"][0]["limit"] = json!({"packets": packets});
        if lossy {
            spec["links"][0]["loss"] = json!(loss);
            spec["links"][0]["jitter"] = json!(jitter_ms * MS);
        }
        let flows = spec["flows"].as_array_mut().unwrap();
        flows[0]["rtt"] = json!(rtt_ms * MS);
        flows[0]["stop"] = json!(2 * S);
        let mut other = flow("cubic", rtt_ms * MS, 300 * MS, 3 * S);
        (other["label"], other["transport"]) = (json!("other"), json!("quic"));
        flows.push(other);
        spec["quic"]["max_streams"] = json!(max_streams);
        if limited {
            spec["quic"]["receive_window"] = json!(windows.0);
            spec["quic"]["stream_receive_window"] = json!(windows.1);
        }
        spec
    }
}

proptest! {
    #![proptest_config(ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(60) })]

    /// A run gives the same bits with somebody who looks on, in stretches, as a copy and with logs. Its books balance,
    /// and it obeys the laws of networks.
    #[test]
    fn pages_of_streams_obey_the_laws_of_the_engine(
        spec in any_pages(), stretches in prop::collection::vec(1u64..900, 1..4)
    ) {
        let whole = run(&spec);
        prop_assert!(completed(&whole.1, What::Request).len() > 1 || spec["links"][0]["capacity"]["rate"] == json!(1_000_000));
        let whole = bits(whole);
        let mut watched = simulation(&spec);
        watched.tap(Box::new(Onlooker));
        prop_assert!(bits(watched.run().unwrap()) == whole, "with an onlooker");
        let mut live = simulation(&spec);
        let (mut at, mut left_behind) = (0, Vec::new());
        for span in stretches {
            at += span * MS;
            live.run_until(Time::from_nanos(at));
            live.audit().map_err(TestCaseError::fail)?;
            let copy = live.copied().expect("all parts can be copied");
            left_behind.push(std::mem::replace(&mut live, copy));
        }
        left_behind.push(live);
        for part in left_behind {
            prop_assert!(bits(part.run().unwrap()) == whole, "in stretches, or a copy");
        }
        let mut stepped = simulation(&spec);
        while stepped.step(97) {
            stepped.audit().map_err(TestCaseError::fail)?;
        }
        prop_assert!(bits(stepped.finish().unwrap()) == whole, "step by step");
        let mut logged = simulation(&spec);
        logged.log(open_logs(&read(&spec), "sim", |_| true, |_| Ok(std::io::sink())).unwrap());
        prop_assert!(bits(logged.run().unwrap()) == whole, "with logs");
    }
}
