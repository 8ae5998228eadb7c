//! Laws of applications over simulated connections: what each kind must show on a path whose answer is known, and what
//! none may show on any path.

use crate::laws;
use crate::networks::{MS, S, any_declared, flow, link, spec};
use knee_core::{ConnectionId, Packet, Rate, Time};
use knee_sim::{Output, Rows, Simulation, Spec, Tap};
use knee_tcp::sender::AckInfo;
use knee_traffic::{Completion, What};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One flow of `traffic` under `cc` on a link of its own, with 1000 packets of buffer, for so long.
struct Path {
    cc: &'static str,
    mbps: f64,
    rtt_ms: u64,
    seconds: u64,
    loss: f64,
}

const EMPTY: Path = Path { cc: "reno", mbps: 10_000.0, rtt_ms: 100, seconds: 60, loss: 0.0 };

impl Path {
    fn run(&self, traffic: &Value) -> (Output, Rows) {
        let mut flow = flow(self.cc, self.rtt_ms * MS, 0, self.seconds * S);
        flow["traffic"] = traffic.clone();
        let mut link = link((self.mbps * 1e6) as u64, &json!({"packets": 1000}));
        link["loss"] = json!(self.loss);
        let spec: Spec = serde_json::from_value(spec(self.seconds * S, &[link], &[flow])).unwrap();
        Simulation::new(&spec).unwrap().run().unwrap()
    }

    fn rtt_s(&self) -> f64 {
        self.rtt_ms as f64 / 1e3
    }
}

fn of(rows: &Rows, what: What) -> Vec<Completion> {
    rows.completions.iter().filter(|c| c.what == what as u32).copied().collect()
}

fn time(completion: &Completion) -> f64 {
    completion.t_s - completion.started_s
}

fn transfers(arrivals: &Value, size: &Value, persistent: bool, number: Option<u64>) -> Value {
    json!({"kind": "transfers", "arrivals": arrivals, "size": size, "persistent": persistent, "number": number})
}

fn limited(rate: u64) -> Value {
    json!({"kind": "app_limited", "rate": rate})
}

/// Counts pure ACKs, and those that data carries.
#[derive(Clone, Default)]
struct Acks(Arc<[AtomicU32; 2]>);

impl Tap for Acks {
    fn sent(&mut self, _: Time, _: ConnectionId, _: &Packet) {}

    fn received(&mut self, _: Time, _: ConnectionId, packet: &Packet, _: Option<&AckInfo>) {
        self.0[0].fetch_add(u32::from(!packet.has(Packet::SYN)), Relaxed);
    }

    fn carried(&mut self, _: Time, _: ConnectionId, _: &Packet, _: &AckInfo) {
        self.0[1].fetch_add(1, Relaxed);
    }
}

/// Linux acknowledges the first request and the first answer at once. From then on each end has answered within the
/// delay of ACKs, so that requests and answers carry them, and only the last answer has one of its own.
#[test]
fn requests_and_answers_carry_acks() {
    // The handshake and the first exchange take 40 ms.
    let times: Vec<u64> = (0..20).map(|i| if i == 0 { 0 } else { (20 + 30 * i) * MS }).collect();
    let mut flow = flow("reno", 20 * MS, 0, S);
    flow["traffic"] = json!({
        "kind": "requests", "pages": {"open": {"times": times}}, "request": 400, "size": {"fixed": 1_000},
        "objects": {"fixed": 1}, "connections": 1, "persistent": true, "tls": "none", "service": 0, "number": null
    });
    let spec = spec(S, &[link(100_000_000, &json!({"packets": 100}))], &[flow]);
    let mut simulation = Simulation::new(&serde_json::from_value(spec).unwrap()).unwrap();
    let acks = Acks::default();
    simulation.tap(Box::new(acks.clone()));
    simulation.run().unwrap();
    // Of 20 requests and 20 answers.
    assert_eq!([0, 1].map(|i| acks.0[i].load(Relaxed)), [3, 37]);
}

/// RFC 6928 starts with 10 segments and slow start doubles them each round trip: k rounds carry 10 (2^k - 1).
#[test]
fn a_transfer_alone_takes_the_round_trips_of_slow_start() {
    for (segments, rounds) in [(1, 1), (10, 1), (11, 2), (30, 2), (31, 3), (70, 3), (71, 4), (150, 4), (310, 5)] {
        let bytes = segments * 1448;
        let (_, rows) = EMPTY.run(&transfers(&json!({"times": [0]}), &json!({"fixed": bytes}), false, None));
        let [transfer] = of(&rows, What::Transfer)[..] else { panic!("one transfer") };
        let trips = time(&transfer) / EMPTY.rtt_s();
        let handshake = 1.0;
        // Bytes at 10 Gbit/s take 0.4 ms at most.
        assert!((0.0..0.005).contains(&(trips - handshake - f64::from(rounds))), "{segments} segments: {trips}");
        assert_eq!(transfer.bytes, bytes as u64);
    }
}

/// Arrivals and sizes are those of the specification, and every byte of them arrives.
#[test]
fn poisson_transfers_offer_their_load() {
    let (rate, seconds) = (50.0, 60);
    // Half of 1 kB and half uniform up to 39 kB: a mean of 10.5 kB, mean square of 254.2 kB^2.
    let size = json!({"empirical": [[1_000, 0.5], [1_000, 0.5], [39_000, 1.0]]});
    let (output, rows) = Path { mbps: 100.0, rtt_ms: 20, seconds, ..EMPTY }.run(&transfers(
        &json!({"poisson": rate}),
        &size,
        false,
        None,
    ));
    let done = of(&rows, What::Transfer);
    let bytes: u64 = done.iter().map(|c| c.bytes).sum();
    let n = rate * seconds as f64;
    let (mean, square) = (0.5 * 1e3 + 0.5 * 20e3, 0.5 * 1e6 + 0.5 * (20e3 * 20e3 + 38e3 * 38e3 / 12.0));
    // A compound Poisson sum has the variance n E[S^2]; what comes in the last 100 ms may not be complete.
    assert!((bytes as f64 - n * mean).abs() < 3.0 * f64::sqrt(n * square) + 0.1 * rate * mean, "{bytes}");
    assert!((done.len() as f64 - n).abs() < 3.0 * f64::sqrt(n) + 0.1 * rate, "{}", done.len());
    // What the flow's figures say was delivered is what was completed and what is in flight.
    let [flow] = &output.flows[..] else { panic!("one flow") };
    assert!(flow.delivered_bytes >= bytes && flow.delivered_bytes < bytes + 20 * 39_000, "{flow:?}");
    // A handshake and a round trip at least.
    assert!(done.iter().all(|c| time(c) >= 0.04), "{done:?}");
}

/// On a connection that stays, only the first transfer pays for the handshake. The window has grown for the next one;
/// after an idle time of many RTOs it starts again from 10 segments (RFC 2861; `tcp_cwnd_restart` in Linux's
/// tcp_output.c).
#[test]
fn a_persistent_connection_has_one_handshake_and_keeps_its_window_while_it_is_in_use() {
    // 40 segments take three rounds from 10 on and one from 50 on. The second transfer comes 200 ms after the last
    // segment of the first, less than the RTO of 300 ms.
    let arrivals = json!({"times": [0, 500 * MS, 10 * S]});
    let (_, rows) = EMPTY.run(&transfers(&arrivals, &json!({"fixed": 40 * 1448}), true, None));
    let trips: Vec<f64> = of(&rows, What::Transfer).iter().map(|c| (time(c) / EMPTY.rtt_s()).floor()).collect();
    assert_eq!(trips, [4.0, 1.0, 3.0]);
}

fn requests(objects: u32, connections: u32, tls: &str, service_ms: u64) -> Value {
    json!({
        "kind": "requests", "pages": {"closed": [S, false]}, "request": 300, "size": {"fixed": 10_000},
        "objects": {"fixed": objects}, "connections": connections, "persistent": false, "tls": tls,
        "service": service_ms * MS, "number": 2
    })
}

/// Objects of 10 kB fit the initial window, so that each costs a round trip: connect, TLS, the first object, then the
/// others over six connections, of which five have to be opened.
#[test]
fn the_load_time_of_a_page_on_an_empty_path_is_its_count_of_round_trips() {
    for (objects, tls, trips) in
        [(1, "none", 2), (1, "1.3", 3), (1, "1.2", 4), (7, "none", 4), (4, "1.3", 6), (9, "1.3", 6)]
    {
        let (_, rows) = EMPTY.run(&requests(objects, 6, tls, 0));
        let pages = of(&rows, What::Page);
        assert_eq!(pages.len(), 2);
        for page in pages {
            let found = time(&page) / EMPTY.rtt_s();
            assert!((0.0..0.01).contains(&(found - f64::from(trips))), "{objects} objects, TLS {tls}: {found}");
            assert_eq!(page.bytes, u64::from(objects) * 10_000);
        }
        assert!(of(&rows, What::Connect).iter().all(|c| (time(c) / EMPTY.rtt_s() - 1.0).abs() < 0.001));
        assert_eq!(of(&rows, What::Request).len() as u32, 2 * objects);
    }
    let (_, rows) = EMPTY.run(&requests(3, 1, "none", 30));
    // Three answers that take 30 ms each.
    assert!((time(&of(&rows, What::Page)[0]) - 4.0 * EMPTY.rtt_s() - 0.09).abs() < 1e-3);
}

const CCS: [&str; 7] = ["reno", "cubic", "bbr3", "vegas", "lola", "daimd", "dctcp"];

const LADDER: [u64; 5] = [300_000, 750_000, 1_500_000, 3_000_000, 6_000_000];

fn video(algorithm: &str) -> Value {
    json!({
        "kind": "video", "ladder": LADDER, "segment": 2 * S, "buffer": 30 * S, "algorithm": algorithm, "length": null
    })
}

/// A fifth more than the least bitrate is enough for a player that knows what it does.
#[test]
fn video_does_not_stall_above_the_least_bitrate_and_stays_below_the_link() {
    for algorithm in ["bba", "rate"] {
        for mbps in [0.36, 1.0, 4.0, 20.0] {
            let path = Path { mbps, rtt_ms: 40, seconds: 200, ..EMPTY };
            let (output, rows) = path.run(&video(algorithm));
            assert_eq!(of(&rows, What::Stall), [], "{algorithm} at {mbps} Mbit/s");
            assert_eq!(of(&rows, What::Startup).len(), 1);
            let bitrates: Vec<f64> = of(&rows, What::Segment).iter().map(|c| c.value / 1e6).collect();
            let late = &bitrates[bitrates.len() / 2..];
            let mean = late.iter().sum::<f64>() / late.len() as f64;
            assert!(mean <= mbps && output.flows[0].goodput_mbps <= mbps, "{algorithm} at {mbps} Mbit/s: {mean}");
            // Not the least one where the link carries much more.
            assert!(mean > 0.5 * mbps.min(6.0) || mbps < 0.5, "{algorithm} at {mbps} Mbit/s: {mean}");
        }
    }
}

#[test]
fn a_full_player_pauses_between_segments() {
    let (output, rows) = Path { mbps: 50.0, rtt_ms: 20, seconds: 100, ..EMPTY }.run(&video("bba"));
    let segments = of(&rows, What::Segment);
    let late: Vec<f64> = segments[segments.len() / 2..].iter().map(|c| c.started_s).collect();
    assert!(late.windows(2).all(|pair| (pair[1] - pair[0] - 2.0).abs() < 1e-6), "{late:?}");
    assert!(output.flows[0].goodput_mbps < 6.5, "{output:?}");
}

#[test]
fn an_application_of_a_given_rate_takes_it_under_every_congestion_control() {
    for cc in CCS {
        let path = Path { cc, mbps: 20.0, rtt_ms: 30, seconds: 20, ..EMPTY };
        let (output, _) = path.run(&limited(5_000_000));
        let flow = &output.flows[0];
        assert!((flow.goodput_mbps - 5.0).abs() < 0.05, "{cc}: {flow:?}");
        // A quarter of the link fills no queue: one packet each 2.3 ms, 0.6 ms long.
        assert!(output.links[0].queue_delay_max_ms.unwrap_or(0.0) < 1.3, "{cc}: {output:?}");
    }
    // What the link does not carry is not delivered, and nothing breaks.
    let (output, _) = Path { mbps: 3.0, rtt_ms: 30, seconds: 20, ..EMPTY }.run(&limited(5_000_000));
    assert!((2.5..3.0).contains(&output.flows[0].goodput_mbps), "{output:?}");
}

/// 500 kB each second at 20 Mbit/s take 0.2 s. A burst that waits for the one before comes a second after its end.
#[test]
fn bursts_come_each_period_or_a_period_after_the_one_before() {
    for waits in [false, true] {
        let (_, rows) = Path { mbps: 20.0, rtt_ms: 30, seconds: 20, ..EMPTY }.run(&json!({
            "kind": "bursts", "period": S, "burst": 500_000, "waits": waits
        }));
        let bursts = of(&rows, What::Transfer);
        // A segment of 1448 bytes is 1514 on the link; the handshake and slow start add some round trips.
        let least = 500e3 * 8.0 / 20e6 * 1514.0 / 1448.0;
        assert!(bursts.iter().all(|c| c.bytes == 500_000 && (least..0.4).contains(&time(c))), "{bursts:?}");
        for (k, pair) in bursts.windows(2).enumerate() {
            let expected = if waits { pair[0].t_s + 1.0 } else { (k + 1) as f64 };
            assert!((pair[1].started_s - expected).abs() < 1e-6, "{waits}: {pair:?}");
        }
        assert_eq!(bursts.len(), if waits { 16 } else { 20 });
    }
}

#[test]
fn an_application_that_cannot_be_is_refused() {
    let mut flow = flow("reno", 20 * MS, 0, S);
    flow["traffic"] = transfers(&json!({"times": [3, 2]}), &json!({"fixed": 1}), false, None);
    let link = link(1_000_000, &json!({"packets": 10}));
    let spec: Spec = serde_json::from_value(spec(S, &[link], &[flow])).unwrap();
    let said = Simulation::new(&spec).err().unwrap().to_string();
    assert_eq!(
        said,
        "flow `reno`: transfers: `arrivals`: arrivals must ascend: arrival 2 at 2 ns comes after one at 3 ns"
    );
}

/// Any application as JSON. Open loops end, so that what has not been complete when the flow stops can be.
fn traffic() -> impl Strategy<Value = Value> {
    let arrivals = prop_oneof![
        (1.0f64..100.0).prop_map(|rate| json!({"poisson": rate})),
        (1.0f64..100.0).prop_map(|rate| json!({"periodic": rate})),
        prop::collection::vec(0..2 * S, 1..20).prop_map(|mut times| {
            times.sort_unstable();
            json!({"times": times})
        }),
    ];
    let size = prop_oneof![
        (1u64..100_000).prop_map(|bytes| json!({"fixed": bytes})),
        (100.0f64..20_000.0, 0.0f64..2.0).prop_map(|(median, sigma)| json!({"lognormal": [median, sigma, 300_000]})),
        (100.0f64..5_000.0, 0.5f64..3.0).prop_map(|(min, shape)| json!({"pareto": [min, shape, 300_000]})),
    ];
    let pages = prop_oneof![
        (0..300 * MS, any::<bool>()).prop_map(|(think, random)| json!({"closed": [think, random]})),
        arrivals.clone().prop_map(|arrivals| json!({"open": arrivals})),
    ];
    let tls = prop::sample::select(&["none", "1.3", "1.2"]);
    let how = (1u32..12, 1u32..7, any::<bool>(), tls, 0..30 * MS);
    prop_oneof![
        (arrivals, size.clone(), any::<bool>(), 0u64..100)
            .prop_map(|(arrivals, size, persistent, number)| transfers(&arrivals, &size, persistent, Some(number))),
        any_declared(Rate::from_mbps(30)),
        (pages, size, how, 0u64..20).prop_map(|(pages, size, (objects, connections, persistent, tls, service), number)| {
            json!({
                "kind": "requests", "pages": pages, "request": 300, "size": size, "objects": {"fixed": objects},
                "connections": connections, "persistent": persistent, "tls": tls, "service": service, "number": number
            })
        }),
        prop::sample::select(&["bba", "rate"]).prop_map(video),
    ]
}

/// Flows with applications, alone or beside bulk flows, either way across a link that drops.
fn network() -> impl Strategy<Value = Value> {
    let flow =
        (traffic().prop_map(Some).boxed(), prop::sample::select(&CCS), 1u64..100, 0..S, any::<bool>(), any::<bool>());
    let flow = flow.prop_map(|(traffic, cc, rtt, start, reverse, pacing)| {
        json!({
            "label": cc, "cc": cc, "rtt": rtt * MS, "start": start, "stop": 3 * S, "bytes": null, "path": [0],
            "traffic": traffic, "reverse": reverse, "pacing": pacing
        })
    });
    let bulk = json!({
        "label": "bulk", "cc": "cubic", "rtt": 20 * MS, "start": 0, "stop": 3 * S, "bytes": null, "path": [0]
    });
    let link = (1u64..200, 2u64..300, prop::sample::select(&["pfifo", "fq_codel"]), 0.0f64..0.03, any::<bool>());
    (prop::collection::vec(flow, 1..5), any::<bool>(), link, any::<u32>()).prop_map(
        move |(mut flows, beside, (mbps, packets, queue, loss, both), seed)| {
            for flow in &mut flows {
                flow["reverse"] = json!(both && flow["reverse"] == true);
            }
            if beside {
                flows.push(bulk.clone());
            }
            let reverse = both
                .then(|| json!({"capacity": {"rate": mbps * 300_000}, "queue": queue, "limit": {"packets": packets}}));
            json!({
                "duration": 600 * S, "seed": seed, "warmup": 0, "interval": S, "flows": flows,
                "links": [{
                    "name": "link", "capacity": {"rate": mbps * 1_000_000}, "queue": queue,
                    "limit": {"packets": packets}, "overhead": 14, "loss": loss, "reverse": reverse
                }]
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Figures obey physics, a second run gives the same, and everything that was begun is complete ten minutes after
    /// the stop: on a link of 300 kbit/s that drops, timeouts back off for minutes.
    #[test]
    fn applications_on_any_network_complete_what_they_begin(spec in network()) {
        let run = || {
            let spec: Spec = serde_json::from_value(spec.clone()).unwrap();
            Simulation::new(&spec).unwrap().run().unwrap()
        };
        let (output, rows) = run();
        laws::check(&spec, &output, &rows).map_err(TestCaseError::fail)?;
        let again = run();
        prop_assert_eq!(serde_json::to_value(&output).unwrap(), serde_json::to_value(&again.0).unwrap());
        for (i, flow) in spec["flows"].as_array().unwrap().iter().enumerate() {
            let rtt = flow["rtt"].as_f64().unwrap() / 1e9;
            let own: Vec<_> = rows.completions.iter().filter(|c| c.flow as usize == i).collect();
            let trips = |c: &Completion| match What::NAMES[c.what as usize] {
                "transfer" if flow["traffic"]["persistent"] == false => 2.0,
                "transfer" | "request" | "connect" | "tls" | "page" | "segment" => 1.0,
                _ => 0.0,
            };
            for c in &own {
                prop_assert!(time(c) >= trips(c) * rtt - 1e-9, "{:?} in less than the base RTT of {} s", c, rtt);
                prop_assert!(c.t_s <= 600.0 && c.started_s >= flow["start"].as_f64().unwrap() / 1e9 - 1e-9);
            }
            let delivered = output.flows[i].delivered_bytes;
            let done = |what| own.iter().filter(|c| c.what == what as u32).map(|c| c.bytes).sum::<u64>();
            match flow["traffic"]["kind"].as_str() {
                Some("transfers") => prop_assert_eq!(done(What::Transfer), delivered),
                Some("video") => prop_assert_eq!(done(What::Segment), delivered),
                Some("requests") => {
                    prop_assert_eq!(done(What::Request), done(What::Page));
                    prop_assert!(done(What::Request) <= delivered);
                }
                _ => {}
            }
        }
    }
}
