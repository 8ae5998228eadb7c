//! Flows over QUIC, with quinn's endpoints and the simulator's alike: each end acts on what comes to it and on its own
//! timers.

use crate::laws;
use crate::networks::{MS, S, flow, link, spec};
use crate::runs;
use knee_core::{ConnectionId, Packet, Time};
use knee_net::SpecError;
use knee_sim::{Output, Simulation, Spec, Tap};
use knee_tcp::sender::AckInfo;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Reno in quinn, and in the simulator's endpoints.
const RENO: [&str; 2] = ["quinn:reno", "reno"];

/// A specification whose only flow goes over QUIC.
fn over(duration: u64, link: Value, mut flow: Value) -> Value {
    flow["transport"] = json!("quic");
    spec(duration, &[link], &[flow])
}

/// 20 Mbit/s that buffer a bandwidth-delay product of 40 ms.
fn usual() -> Value {
    link(20_000_000, &json!({"packets": 66}))
}

/// Packets that a sender sends and gets: the time, true if it is sent, its size and its flags.
type Seen = Arc<Mutex<Vec<(Time, bool, u16, u8)>>>;

struct Watch(Seen);

impl Tap for Watch {
    fn sent(&mut self, at: Time, _: ConnectionId, packet: &Packet) {
        self.0.lock().unwrap().push((at, true, packet.size, packet.flags));
    }

    fn received(&mut self, at: Time, _: ConnectionId, packet: &Packet, _: Option<&AckInfo>) {
        self.0.lock().unwrap().push((at, false, packet.size, packet.flags));
    }
}

fn seen(spec: &Value) -> Vec<(Time, bool, u16, u8)> {
    let spec: Spec = serde_json::from_value(spec.clone()).unwrap();
    let (mut simulation, seen) = (Simulation::new(&spec).unwrap(), Seen::default());
    simulation.tap(Box::new(Watch(seen.clone())));
    simulation.run().unwrap();
    std::mem::take(&mut seen.lock().unwrap())
}

/// A sender cannot know on which way its packets and their ACKs spend the round trip.
#[test]
fn a_sender_does_the_same_whichever_way_the_delay_is_on() {
    for cc in ["quinn:reno", "quinn:cubic", "reno", "cubic", "bbr", "lola"] {
        let [on_acks, half, on_data] = [0, 20 * MS, 39 * MS].map(|delay| {
            let mut link = usual();
            link["delay"] = json!(delay);
            seen(&over(5 * S, link, flow(cc, 40 * MS, 0, 5 * S)))
        });
        assert!(on_acks.len() > 3_000, "{cc}: {}", on_acks.len());
        for other in [half, on_data] {
            // What is on its way as the run ends differs.
            let both = on_acks.iter().zip(&other);
            if let Some((n, (a, b))) = both.enumerate().find(|(_, (a, b))| a != b) {
                panic!("{cc}: {n}: {a:?} and {b:?}");
            }
        }
    }
}

/// Runs it over the usual link; its figures obey the laws.
fn run(spec: &Value) -> Result<Output, SpecError> {
    let (output, rows) = Simulation::new(&serde_json::from_value(spec.clone()).unwrap())?.run().unwrap();
    laws::check(spec, &output, &rows).unwrap();
    Ok(output)
}

/// A stack's own controllers have no algorithm that TCP could use. Over QUIC each keeps a link busy that buffers a
/// bandwidth-delay product: RFC 9002's window, halved at a loss, still fills it, and BBRv3 leaves 15 % headroom.
#[test]
fn controllers_of_a_stack_run_over_quic_and_over_nothing_else() {
    let has = |stack: &str| knee_sim::stacks::entries().any(|entry| entry.name.starts_with(stack));
    assert_eq!((has("quinn:"), has("noq:")), (true, cfg!(feature = "stacks")));
    for entry in knee_sim::stacks::entries() {
        let flow = flow(entry.name, 40 * MS, 0, 5 * S);
        let refused = run(&spec(5 * S, &[usual()], std::slice::from_ref(&flow))).unwrap_err().to_string();
        assert!(refused.contains(entry.name), "{refused}");
        let links = run(&over(5 * S, usual(), flow)).unwrap().links;
        assert!(links[0].utilization > 0.85, "{}: {links:?}", entry.name);
    }
}

/// Little's law: what is in flight on average, as many packets as the window has where it always limits, is the rate of
/// packets times the round trip.
#[test]
fn the_mean_window_is_the_rate_times_the_round_trip() {
    for cc in RENO {
        let mut spec = over(20 * S, usual(), flow(cc, 40 * MS, 0, 20 * S));
        spec["warmup"] = json!(2 * S);
        let figures = &run(&spec).unwrap().flows[0];
        let in_flight = figures.sent_packets as f64 / 18.0 * figures.rtt_mean_ms.unwrap() / 1e3;
        let window = figures.cwnd_mean_packets.unwrap();
        assert!((window / in_flight - 1.0).abs() < 0.05, "{cc}: {window}, not {in_flight}");
    }
}

/// Data sent by then may have to be sent again, and ACKs come for some round trips.
#[test]
fn a_flow_that_stops_sends_no_new_data() {
    for cc in RENO {
        let seen = seen(&over(3 * S, usual(), flow(cc, 40 * MS, 0, S)));
        let sent = |from: u64, until: u64| {
            let times = Time::from_nanos(from)..Time::from_nanos(until);
            seen.iter().filter(|(at, sent, size, _)| *sent && *size > 1000 && times.contains(at)).count()
        };
        assert!(sent(S / 2, S) > 500);
        assert_eq!(sent(S + S / 2, 3 * S), 0, "{cc}");
    }
}

/// RFC 9000, 13.4.1: packets of an endpoint that uses ECN are ECT(0), those of both ends here.
#[test]
fn both_ends_send_ecn_capable_packets_where_that_is_asked_for() {
    let cases = [("off", 0), ("on", Packet::ECT)];
    for ((ecn, codepoint), cc) in cases.into_iter().flat_map(|case| RENO.map(|cc| (case, cc))) {
        let mut flow = flow(cc, 40 * MS, 0, S);
        flow["ecn"] = json!(ecn);
        let seen = seen(&over(S, usual(), flow));
        for (at, sent, _, flags) in &seen {
            let against = if *sent { 0 } else { Packet::ACK };
            assert_eq!(flags & (Packet::ECT | Packet::L4S | Packet::ACK), codepoint | against, "{cc}, {ecn}: {at}");
        }
        assert!(seen.iter().filter(|packet| packet.1).count() > 500 && seen.iter().any(|packet| !packet.1));
    }
}

/// Lost packets are those that the link dropped; their data is sent again in others, and no byte is counted twice.
#[test]
fn a_transfer_is_counted_to_the_byte_and_its_losses_are_the_drops() {
    let cases = [1u64, 1200, 100_000, 5_000_000];
    for (bytes, cc) in cases.into_iter().flat_map(|bytes| RENO.map(|cc| (bytes, cc))) {
        let mut flow = flow(cc, 40 * MS, S / 2, 20 * S);
        flow["bytes"] = json!(bytes);
        let output = run(&over(20 * S, usual(), flow)).unwrap();
        let (figures, drops) = (&output.flows[0], output.links[0].drops);
        assert_eq!(figures.delivered_bytes, bytes);
        assert_eq!((figures.lost_packets, figures.retransmitted_packets), (drops, drops), "{cc}");
        assert_eq!(drops > 0, bytes > 1_000_000, "slow start overshoots in the last one alone");
    }
}

/// RFC 9002, 7.6: where nothing arrives for longer than three probe timeouts, congestion is persistent.
#[test]
fn persistent_congestion_counts_as_a_timeout() {
    let timeouts = |cc: &str, loss: f64| {
        let mut spec = over(8 * S, usual(), flow(cc, 40 * MS, 0, 8 * S));
        spec["changes"] = json!([
            {"at": 2 * S, "what": {"loss": {"link": 0, "loss": loss}}},
            {"at": 4 * S, "what": {"loss": {"link": 0, "loss": 0.0}}}
        ]);
        let (output, rows) = Simulation::new(&serde_json::from_value(spec.clone()).unwrap()).unwrap().run().unwrap();
        let timeout = output.event_names.iter().position(|name| name == "timeout");
        let recorded = rows.events.iter().filter(|row| Some(row.event as usize) == timeout).count() as u64;
        assert_eq!(recorded, output.flows[0].timeouts);
        recorded
    };
    assert_eq!(RENO.map(|cc| (timeouts(cc, 0.0), timeouts(cc, 1.0))), [(0, 1); 2]);
}

/// RFC 9000, 10.1: a connection is closed once nothing has come for the idle timeout, or, if that is longer, for three
/// PTOs: each the smoothed RTT, up to four times its variation (at first half of it), and 25 ms by which an ACK may be
/// late.
#[test]
fn an_idle_connection_is_closed_after_its_timeout_or_three_ptos() {
    for (timeout, least, most) in [(10, 3.0 * 65.0, 3.0 * 145.0), (700, 700.0, 700.0), (3_000, 3_000.0, 3_000.0)] {
        let mut transfer = flow("reno", 40 * MS, 0, 10 * S);
        transfer["bytes"] = json!(30_000);
        let mut spec = over(10 * S, usual(), transfer);
        spec["quic"] = json!({"idle_timeout": timeout * MS});
        let (output, rows) = runs::run(&spec);
        let closed = output.event_names.iter().position(|name| name == "idle_timeout").unwrap();
        let times: Vec<f64> =
            rows.events.iter().filter(|row| row.event as usize == closed).map(|row| row.t_s).collect();
        let [at] = times[..] else { panic!("closed once, not {times:?}") };
        let idle = (at - output.flows[0].completion_s.unwrap()) * 1e3;
        assert!((least - 1e-6..most + 1e-6).contains(&idle), "{idle} ms where the timeout is {timeout} ms");
    }
}

/// RFC 9001, 4.6 and RFC 9000, 8.1.2: a byte is acknowledged after a round trip for the handshake and one for itself.
/// With 0-RTT it needs no handshake, and with Retry that takes a round trip more.
#[test]
fn zero_rtt_saves_a_round_trip_and_retry_costs_one() {
    for (quic, round_trips) in [(json!({}), 2), (json!({"zero_rtt": true}), 1), (json!({"retry": true}), 3)] {
        let mut transfer = flow("reno", 100 * MS, 0, 10 * S);
        transfer["bytes"] = json!(1);
        let mut spec = over(10 * S, link(1_000_000_000, &json!(null)), transfer);
        spec["quic"] = quic;
        let took = runs::run(&spec).0.flows[0].completion_s.unwrap() * 1e3;
        assert!((took / 100.0 - f64::from(round_trips)).abs() < 0.01, "{took} ms, not {round_trips} round trips");
    }
}

/// RFC 9221, 5: DATAGRAM frames are not sent again. Nothing crosses the link from 1 s on: once the connection has timed
/// out, all datagrams that were sent have arrived or are lost.
#[test]
fn datagrams_of_a_connection_that_times_out_are_lost() {
    let mut calls = flow("reno", 40 * MS, 0, 2 * S);
    calls["traffic"] = json!({"kind": "udp", "packet": 200, "interval": 20 * MS});
    let mut spec = over(10 * S, usual(), calls);
    spec["quic"] = json!({"idle_timeout": S});
    spec["changes"] = json!([{"at": S, "what": {"loss": {"link": 0, "loss": 1.0}}}]);
    let (output, _) = runs::run(&spec);
    let datagrams = output.flows[0].datagrams.as_ref().unwrap();
    assert!(datagrams.received > 40 && datagrams.lost > 0, "{datagrams:?}");
    assert_eq!(datagrams.received + datagrams.lost, datagrams.sent);
}
