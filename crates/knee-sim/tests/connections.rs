//! Connections that applications open: how long handshakes and answers take, that the books add up, that nothing stays
//! behind.

use crate::networks::{self, MS, S, any_declared};
use knee_core::Rate;
use knee_core::packet::MSS;
use knee_sim::{Output, Rows, Simulation, Spec};
use knee_traffic::What;
use proptest::prelude::*;
use serde_json::{Value, json};

fn flow(traffic: &Value, cc: &str, rtt: u64, reverse: bool) -> Value {
    json!({
        "label": "flow", "cc": cc, "rtt": rtt, "start": 0, "stop": 1000 * S, "path": [0],
        "reverse": reverse, "traffic": traffic
    })
}

fn spec(flows: &[Value], seconds: u64, link: &Value) -> Spec {
    let mut whole = networks::link(100_000_000, &json!({"packets": 1000}));
    whole.as_object_mut().unwrap().extend(link.as_object().unwrap().clone());
    serde_json::from_value(networks::spec(seconds * S, &[whole], flows)).unwrap()
}

fn run(flows: &[Value], seconds: u64, link: &Value) -> (Output, Rows) {
    Simulation::new(&spec(flows, seconds, link)).unwrap().run().unwrap()
}

fn transfers(arrivals: &Value, size: &Value, persistent: bool) -> Value {
    json!({"kind": "transfers", "arrivals": arrivals, "size": size, "persistent": persistent, "number": null})
}

/// Durations of what was completed, ms.
fn durations(rows: &Rows, what: What) -> Vec<f64> {
    let kind = rows.completions.iter().filter(|row| row.what == what as u32);
    kind.map(|row| (row.t_s - row.started_s) * 1e3).collect()
}

#[test]
fn a_request_takes_the_round_trips_of_its_handshakes_wherever_the_delay_lies() {
    // TCP's handshake and a request: a round trip each (RFC 9293, 3.5); TLS 1.3 adds one (RFC 8446, 2), 1.2 two (RFC
    // 5246, 7.3).
    for (tls, rounds) in [("none", 2.0), ("1.3", 3.0), ("1.2", 4.0)] {
        for (reverse, link) in [
            (false, json!({})),
            (false, json!({"delay": 10 * MS})),
            (
                false,
                json!({"delay": 40 * MS, "reverse": {"capacity": {"rate": 100_000_000}, "queue": "pfifo", "limit": null}}),
            ),
            (
                true,
                json!({"delay": 10 * MS, "reverse": {"capacity": {"rate": 100_000_000}, "queue": "pfifo", "limit": null}}),
            ),
        ] {
            let traffic = json!({
                "kind": "requests", "pages": {"open": {"times": [0]}}, "request": 300, "size": {"fixed": 1000},
                "objects": {"fixed": 1}, "connections": 1, "persistent": false, "tls": tls, "service": 0, "number": 1
            });
            let (_, rows) = run(&[flow(&traffic, "reno", 40 * MS, reverse)], 5, &link);
            let [page] = durations(&rows, What::Page)[..] else { panic!("{:?}", rows.completions) };
            // A few packets are serialised in each direction.
            assert!((40.0 * rounds..40.0 * rounds + 2.0).contains(&page), "{tls}, {reverse}, {link}: {page} ms");
        }
    }
}

#[test]
fn a_server_takes_its_time() {
    let requests = |service: u64| {
        let traffic = json!({
            "kind": "requests", "pages": {"open": {"times": [0]}}, "request": 300, "size": {"fixed": 1000},
            "objects": {"fixed": 1}, "connections": 1, "persistent": false, "tls": "none", "service": service, "number": 1
        });
        durations(&run(&[flow(&traffic, "reno", 40 * MS, false)], 5, &json!({})).1, What::Page)[0]
    };
    let took = requests(25 * MS) - requests(0);
    // Without a pause the ACK of the request goes before the answer.
    assert!((took - 25.0).abs() < 0.01, "{took} ms");
}

#[test]
fn connections_that_are_gone_leave_no_endpoints_behind() {
    // 5,000 transfers, of which few are in flight at a time (Little's law: 100/s of 100 ms each are 10). Those that had
    // to send again, about a third at a loss of 2 %, stay for another 100 ms at the most.
    for loss in [0.0, 0.02] {
        let traffic = transfers(&json!({"poisson": 100.0}), &json!({"fixed": 30_000}), false);
        let flow = flow(&traffic, "cubic", 50 * MS, false);
        let mut simulation = Simulation::new(&spec(&[flow], 50, &json!({ "loss": loss }))).unwrap();
        while simulation.step(10_000) {}
        assert!((5..80).contains(&simulation.endpoints()), "{loss}: {}", simulation.endpoints());
        let (output, rows) = simulation.finish().unwrap();
        assert!((4_700..5_300).contains(&rows.completions.len()), "{loss}: {}", rows.completions.len());
        // What they delivered stays in their flow's figures.
        let delivered = rows.completions.iter().map(|row| row.bytes).sum::<u64>() as f64 * 8.0 / 50.0 / 1e6;
        assert!((delivered..delivered * 1.01).contains(&output.flows[0].goodput_mbps), "{loss}: {delivered}");
    }
}

/// Each connection of a flow is paced by itself: there is no one rate, and certainly not one of 0 Mbit/s.
#[test]
fn a_flow_that_runs_an_application_has_no_pacing_rate() {
    let traffic = transfers(&json!({"times": [0]}), &json!({"fixed": 10_000_000}), false);
    let link = json!({"capacity": {"rate": 10_000_000}, "limit": {"packets": 100}});
    let (_, rows) = run(&[flow(&traffic, "bbr", 20 * MS, false), flow(&Value::Null, "bbr", 20 * MS, false)], 2, &link);
    let paced = |i: u32| {
        let rows = rows.samples.iter().filter(move |row| row.flow == i && row.goodput_mbps > 0.0);
        rows.map(|row| row.pacing_rate_mbps).collect::<Vec<_>>()
    };
    assert!(paced(0).len() > 5 && paced(0).iter().all(|rate| rate.is_nan()), "{:?}", paced(0));
    assert!(paced(1).len() > 5 && paced(1).iter().all(|rate| *rate > 0.0), "{:?}", paced(1));
}

#[test]
fn the_short_end_of_a_message_is_acknowledged_when_it_has_been_read() {
    // tcp_cleanup_rbuf: an ACK leaves once a short segment has been read where the other end sends nothing itself; it
    // does not wait for the delayed ACK's 40 ms. A window that does not grow ends the quick ACKs.
    let times: Vec<u64> = std::iter::once(0).chain((0..20).map(|k| 5 * S + k * 100 * MS)).collect();
    let size = json!({"fixed": 2 * u64::from(MSS) + 100});
    let mut told =
        spec(&[flow(&transfers(&json!({"times": times}), &size, true), "reno", 20 * MS, false)], 10, &json!({}));
    told.tcp.window_growth = 10_000;
    let (_, rows) = Simulation::new(&told).unwrap().run().unwrap();
    let took = durations(&rows, What::Transfer);
    assert_eq!(took.len(), 21);
    assert!(took[1..].iter().all(|ms| (20.0..21.0).contains(ms)), "{took:?}");
}

/// RFC 9293, 3.6: closing a connection does not end the delivery of what has been sent. A browser closes as its answer
/// is there; its ACK, over the link in the other direction, is lost, and so the server sends again.
#[test]
fn what_is_not_acknowledged_as_a_connection_closes_is_sent_again() {
    let traffic = json!({
        "kind": "requests", "pages": {"open": {"times": [0]}}, "request": 300, "size": {"fixed": 1000},
        "objects": {"fixed": 1}, "connections": 1, "persistent": false, "tls": "none", "service": 0, "number": 1
    });
    let link = json!({"reverse": {"capacity": {"rate": 100_000_000}, "queue": "pfifo", "limit": null}});
    let mut lossy = spec(&[flow(&traffic, "reno", 40 * MS, true)], 5, &link);
    for (until, again) in [(71 * MS, 0), (200 * MS, 1)] {
        // The answer comes 80 ms after the start, the SYN and the request have left long before.
        let loss = |at: u64, loss: f64| json!({"at": at, "what": {"loss": {"link": 0, "loss": loss}}});
        lossy.changes = serde_json::from_value(json!([loss(70 * MS, 1.0), loss(until, 0.0)])).unwrap();
        let (output, rows) = Simulation::new(&lossy).unwrap().run().unwrap();
        assert_eq!(durations(&rows, What::Page).len(), 1);
        assert_eq!((output.links[0].drops, output.flows[0].retransmitted_packets), (again, again), "{output:?}");
    }
}

#[test]
fn a_flow_whose_rtt_changes_changes_that_of_its_connections() {
    let traffic = transfers(&json!({"times": [0, 2 * S]}), &json!({"fixed": 1000}), true);
    let mut changed = spec(&[flow(&traffic, "reno", 20 * MS, false)], 5, &json!({}));
    changed.changes = serde_json::from_value(json!([{"at": S, "what": {"rtt": {"flow": 0, "rtt": 80 * MS}}}])).unwrap();
    let (_, rows) = Simulation::new(&changed).unwrap().run().unwrap();
    let took = durations(&rows, What::Transfer);
    assert!(took[0] < 45.0 && (80.0..85.0).contains(&took[1]), "{took:?}");
}

fn any_traffic() -> impl Strategy<Value = Value> {
    let size = prop_oneof![
        (1u64..200_000).prop_map(|bytes| json!({"fixed": bytes})),
        (1e3..1e5f64).prop_map(|median| json!({"lognormal": [median, 1.5, 10_000_000]})),
    ];
    let arrivals = prop_oneof![
        (1.0..200.0f64).prop_map(|rate| json!({"poisson": rate})),
        prop::collection::vec(0u64..2 * S, 1..20).prop_map(|mut times| {
            times.sort_unstable();
            json!({"times": times})
        }),
    ];
    let tls = prop_oneof![Just("none"), Just("1.3"), Just("1.2")];
    prop_oneof![
        (arrivals.clone(), size.clone(), any::<bool>())
            .prop_map(|(arrivals, size, kept)| transfers(&arrivals, &size, kept)),
        (size, 1u32..9, 1u32..7, any::<bool>(), tls, 0u64..30 * MS, prop::option::of(arrivals)).prop_map(
            |(size, objects, connections, persistent, tls, service, arrivals)| {
                let pages = arrivals.map_or_else(|| json!({"closed": [100 * MS, true]}), |at| json!({"open": at}));
                json!({
                    "kind": "requests", "pages": pages, "request": 400, "size": size, "objects": {"fixed": objects},
                    "connections": connections, "persistent": persistent, "tls": tls, "service": service, "number": null
                })
            }
        ),
        any_declared(Rate::from_mbps(50)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever applications do, over links that lose and queues in both directions: no packet is created or lost
    /// unaccounted, no more is completed than was delivered, and the same comes out again.
    #[test]
    fn the_books_of_connections_add_up(
        each in prop::collection::vec((any_traffic(), 1u64..100, any::<bool>(), 0usize..4), 1..4),
        rate in 500_000u64..50_000_000, limit in 2u64..100, loss in 0.0..0.05f64, back in any::<bool>(), alone in any::<bool>(),
        queue in prop_oneof![Just("pfifo"), Just("fq_codel"), Just("cocoa")],
    ) {
        let flows: Vec<Value> = each
            .iter()
            .map(|(traffic, rtt, reverse, cc)| {
                let cc = ["cubic", "lola", "bbr", "reno"][*cc];
                flow(traffic, cc, rtt * MS, *reverse && back)
            })
            .chain((!alone).then(|| flow(&Value::Null, "cubic", 20 * MS, false)))
            .collect();
        let reverse = back.then(|| json!({"capacity": {"rate": rate / 4}, "queue": "pfifo", "limit": {"packets": limit}}));
        let link = json!({
            "capacity": {"rate": rate}, "limit": {"packets": limit}, "loss": loss, "queue": queue, "reverse": reverse
        });
        let spec = spec(&flows, 3, &link);
        let mut simulation = Simulation::new(&spec).unwrap();
        while simulation.step(500) {
            prop_assert_eq!(simulation.audit(), Ok(()));
        }
        let (output, rows) = simulation.finish().unwrap();
        for (i, figures) in output.flows.iter().enumerate() {
            let mine = rows.completions.iter().filter(|row| row.flow as usize == i);
            let whole = [What::Transfer, What::Request].map(|what| what as u32);
            let completed: u64 = mine.filter(|row| whole.contains(&row.what)).map(|row| row.bytes).sum();
            let delivered = figures.goodput_mbps * 3e6 / 8.0;
            // An answer is complete when it is there, and counts as delivered when that is acknowledged.
            let late = (0.1 * delivered).max(2.0 * 200_000.0 * 8.0);
            prop_assert!(completed as f64 <= delivered + late, "{completed} of {delivered}");
        }
        let (_, again) = Simulation::new(&spec).unwrap().run().unwrap();
        prop_assert_eq!(rows.completions.len(), again.completions.len());
        prop_assert!(rows.completions.iter().zip(&again.completions).all(|(a, b)| a.t_s.to_bits() == b.t_s.to_bits()));
    }
}
