//! Applications over QUIC: what they write arrives, as over TCP.

use crate::laws;
use crate::networks::{MS, S, flow, link, spec};
use crate::runs::completed;
use knee_core::Rate;
use knee_sim::sender_log::open_logs;
use knee_sim::{Output, Rows, Simulation, Spec};
use knee_traffic::What;
use knee_traffic::random::any_application;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A path of its own for one flow.
#[derive(Clone, Copy, Debug)]
struct Path {
    mbit: u64,
    rtt_ms: u64,
    packets: u64,
    loss: f64,
    seconds: u64,
}

impl Path {
    fn spec(&self, cc: &str, transport: &str, traffic: &Value) -> Value {
        let mut flow = flow(cc, self.rtt_ms * MS, 0, self.seconds * S);
        (flow["traffic"], flow["transport"]) = (traffic.clone(), json!(transport));
        let mut link = link(self.mbit * 1_000_000, &json!({"packets": self.packets}));
        link["loss"] = json!(self.loss);
        spec((self.seconds + 2) * S, &[link], &[flow])
    }

    fn run(&self, cc: &str, transport: &str, traffic: &Value) -> (Output, Rows) {
        let spec = self.spec(cc, transport, traffic);
        let (output, rows) = run(&spec);
        laws::check(&spec, &output, &rows).unwrap();
        (output, rows)
    }
}

fn run(spec: &Value) -> (Output, Rows) {
    let simulation = Simulation::new(&serde_json::from_value(spec.clone()).unwrap()).unwrap();
    simulation.run().unwrap()
}

fn mean(rows: &Rows, what: What) -> f64 {
    let times: Vec<f64> = completed(rows, what).iter().map(|c| c.t_s - c.started_s).collect();
    times.iter().sum::<f64>() / times.len() as f64
}

fn kinds() -> [(&'static str, Option<What>, Value); 7] {
    let size = json!({"lognormal": [20_000.0, 1.2, 1_000_000]});
    let page = |objects: u64, connections: u64, persistent: bool| {
        json!({
            "kind": "requests", "pages": {"closed": [200 * MS, false]}, "request": 500, "size": size,
            "objects": {"fixed": objects}, "connections": connections, "persistent": persistent, "tls": "none",
            "service": 10 * MS
        })
    };
    [
        ("app_limited", None, json!({"kind": "app_limited", "rate": 4_000_000})),
        ("bursts", Some(What::Transfer), json!({"kind": "bursts", "period": 500 * MS, "burst": 300_000})),
        (
            "video",
            Some(What::Segment),
            json!({"kind": "video", "ladder": [1_000_000, 3_000_000], "segment": 2 * S, "buffer": 60 * S}),
        ),
        (
            "transfers",
            Some(What::Transfer),
            json!({"kind": "transfers", "arrivals": {"poisson": 5.0}, "size": size, "persistent": false}),
        ),
        (
            "one connection",
            Some(What::Transfer),
            json!({"kind": "transfers", "arrivals": {"poisson": 5.0}, "size": size, "persistent": true}),
        ),
        ("pages", Some(What::Page), page(20, 6, false)),
        ("requests", Some(What::Request), page(1, 1, true)),
    ]
}

/// Within 5 %, but for what the transports do differently: a QUIC receiver holds back the ACK of a last packet for
/// 25 ms (RFC 9000, 18.2), which ends a transfer; its initial window of ten packets of 1200 bytes lacks a fifth of
/// TCP's, which may cost a round trip; and quinn keeps the window of a connection that was idle, which Linux reduces
/// (RFC 2861).
#[test]
fn each_kind_does_over_quic_what_it_does_over_tcp() {
    for path in [
        Path { mbit: 10, rtt_ms: 40, packets: 70, loss: 0.0, seconds: 30 },
        Path { mbit: 100, rtt_ms: 10, packets: 200, loss: 0.0, seconds: 20 },
        Path { mbit: 10, rtt_ms: 100, packets: 200, loss: 0.0, seconds: 30 },
    ] {
        for (name, what, traffic) in kinds() {
            let (tcp, tcp_rows) = path.run("cubic", "tcp", &traffic);
            for cc in ["quinn:cubic", "cubic"] {
                let (quic, quic_rows) = path.run(cc, "quic", &traffic);
                let [before, after] = [&tcp, &quic].map(|output| output.flows[0].goodput_mbps);
                println!("{cc} {} {} {name} {before:.3} {after:.3}", path.mbit, path.rtt_ms);
                let Some(what) = what else {
                    assert!((after / before - 1.0).abs() < 0.05, "{cc}: {name}: {after}, not {before}");
                    continue;
                };
                let counts = [&tcp_rows, &quic_rows].map(|rows| completed(rows, what).len());
                let times = [&tcp_rows, &quic_rows].map(|rows| mean(rows, what) * 1e3);
                println!("{counts:?} {times:.1?}");
                let most = 1.05 * times[0] + if what == What::Transfer { 25.0 } else { path.rtt_ms as f64 };
                assert!((0.75 * times[0]..most).contains(&times[1]), "{cc}: {name} on {path:?}: {times:?}");
                // An open loop's load is carried; a user who waits asks as often as the answers come.
                let least = if what == What::Page { times[0] / times[1] } else { 1.0 };
                assert!(after / before > 0.95 * least, "{cc}: {name} on {path:?}: {after}, not {before}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Twice the same to the bit; what arrives is what was written; and the laws of all networks.
    #[test]
    fn any_application_over_quic_obeys_the_laws_and_does_the_same_twice(
        traffic in any_application(Rate::from_mbps(20)),
        cc in prop::sample::select(vec!["reno", "cubic", "bbr3", "lola", "quinn:cubic"]),
        (mbit, rtt_ms, packets) in (1u64..30, 1u64..120, 5u64..200),
        lossy in any::<bool>(),
    ) {
        let path = Path { mbit, rtt_ms, packets, loss: if lossy { 0.02 } else { 0.0 }, seconds: 3 };
        let spec = path.spec(cc, "quic", &traffic);
        let ((first, first_rows), (second, second_rows)) = (run(&spec), run(&spec));
        prop_assert_eq!(format!("{:?}", first), format!("{:?}", second));
        prop_assert_eq!(format!("{:?}", first_rows.completions), format!("{:?}", second_rows.completions));
        laws::check(&spec, &first, &first_rows).unwrap();
        // Logging changes nothing.
        let spec: Spec = serde_json::from_value(spec).unwrap();
        let mut simulation = Simulation::new(&spec).unwrap();
        simulation.log(open_logs(&spec, "sim", |_| true, |_| Ok(std::io::sink())).unwrap());
        prop_assert_eq!(format!("{:?}", first), format!("{:?}", simulation.run().unwrap().0));
    }
}

/// Calls and real-time video in datagrams of QUIC, on an empty path and beside nothing: nearly what they do over UDP.
#[test]
fn datagrams_do_over_quic_what_they_do_over_udp() {
    let path = Path { mbit: 5, rtt_ms: 40, packets: 60, loss: 0.0, seconds: 20 };
    let calls = json!({"kind": "udp", "packet": 200, "interval": 20 * MS});
    let media = json!({"kind": "rtc", "controller": "scream"});
    for traffic in [calls, media] {
        let [udp, quic] = ["tcp", "quic"].map(|transport| path.run("cubic", transport, &traffic).0);
        let of = |output: &Output| {
            let flow = &output.flows[0];
            let datagrams = flow.datagrams.clone().unwrap();
            (flow.goodput_mbps, datagrams.sent, datagrams.received, datagrams.lost, datagrams.owd_mean_ms)
        };
        // The connection has a window, and datagrams alone have none.
        let window = [&udp, &quic].map(|output| output.flows[0].cwnd_mean_packets);
        assert!(window[0].is_none() && window[1] > Some(1.0), "{window:?}");
        let (udp_mbps, _, _, _, udp_owd) = of(&udp);
        let (mbps, sent, received, lost, owd) = of(&quic);
        assert!((mbps / udp_mbps - 1.0).abs() < 0.02, "{mbps}, not {udp_mbps}");
        assert_eq!((sent, 0), (received, lost));
        assert!((owd.unwrap() / udp_owd.unwrap() - 1.0).abs() < 0.05, "{owd:?}, not {udp_owd:?}");
    }
}

/// A datagram is lost where the network drops its packet or the sender's stack has no room; not because it waits. quinn
/// itself behind such a link carried 1.885 Mbit/s, with a delay of up to 2,888 ms: of its buffer of 1 MiB the
/// oldest datagram goes where 3 Mbit/s come, so that one which leaves has waited for 2.8 s.
#[test]
fn datagrams_that_wait_in_the_sender_are_not_lost() {
    let path = Path { mbit: 2, rtt_ms: 40, packets: 17, loss: 0.0, seconds: 15 };
    let traffic = json!({"kind": "udp", "packet": 1200, "interval": 3_200_000});
    let mut spec = path.spec("cubic", "quic", &traffic);
    spec["duration"] = json!(15 * S);
    let (output, rows) = run(&spec);
    laws::check(&spec, &output, &rows).unwrap();
    let flow = &output.flows[0];
    let datagrams = flow.datagrams.clone().unwrap();
    assert!((1.85..1.92).contains(&flow.goodput_mbps), "{} Mbit/s", flow.goodput_mbps);
    assert!((2700.0..3000.0).contains(&datagrams.owd_max_ms.unwrap()), "{datagrams:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Once all has left the network, each datagram has arrived or was lost; and none was lost where nothing dropped
    /// any, however long they waited.
    #[test]
    fn each_datagram_over_quic_arrives_or_is_lost(
        (mbit, rtt_ms, packets) in (1u64..20, 1u64..200, 5u64..200),
        (packet, kbit) in (32u64..1442, 100u64..8_000),
        cc in prop::sample::select(vec!["reno", "bbr3"]),
        lossy in any::<bool>(),
    ) {
        let path = Path { mbit, rtt_ms, packets, loss: if lossy { 0.02 } else { 0.0 }, seconds: 1 };
        let interval = packet * 8 * S / (kbit * 1000);
        let mut spec = path.spec(cc, "quic", &json!({"kind": "udp", "packet": packet, "interval": interval}));
        spec["duration"] = json!(12 * S);
        let (output, rows) = run(&spec);
        laws::check(&spec, &output, &rows).unwrap();
        let datagrams = output.flows[0].datagrams.clone().unwrap();
        let (accounted, drops) = (datagrams.received + datagrams.lost, output.links[0].drops);
        // Those behind the last one that arrived count as neither.
        prop_assert!(accounted <= datagrams.sent && datagrams.sent - accounted <= drops * 45, "{:?}", datagrams);
        // A packet has at most as many datagrams as fit.
        prop_assert!(datagrams.lost <= drops * (1452 / (packet - 28) + 1), "{:?} of {} drops", datagrams, drops);
        // The application writes for a second, less the handshake's round trip and the time that its packets take.
        prop_assert!(datagrams.sent * 10 > 9 * (S.saturating_sub(2 * rtt_ms * MS + 100 * MS) / interval));
    }
}

/// Frames of media overflow a queue of 25 packets, 30 times a second. quinn once took such losses for a path with a
/// smaller MTU, and refused every datagram from then on.
#[test]
fn datagrams_go_on_where_bursts_are_lost() {
    let path = Path { mbit: 20, rtt_ms: 40, packets: 25, loss: 0.0, seconds: 5 };
    for packet in (620u64..=1442).step_by(30) {
        // 12 Mbit/s, sent at ten times that.
        let interval = packet * 8 * S / 120_000_000;
        let traffic = json!({
            "kind": "udp", "packet": packet, "interval": interval, "on": 3_333_333, "off": 30 * MS, "constant": true
        });
        for cc in ["cubic", "bbr3"] {
            let spec = path.spec(cc, "quic", &traffic);
            let (output, rows) = run(&spec);
            laws::check(&spec, &output, &rows).unwrap();
            let datagrams = output.flows[0].datagrams.clone().unwrap();
            assert!(3 * datagrams.received > datagrams.sent, "{cc}, {packet} bytes: {datagrams:?}");
        }
    }
}
