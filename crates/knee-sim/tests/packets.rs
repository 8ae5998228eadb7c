//! Captures on the senders' machines, in random networks: handshakes, segments, ACKs and timers follow the RFCs,
//! nothing is known before an ACK can have said it, and the counts equal what was seen.

use crate::laws;
use crate::networks::{MS, S, any_chain, any_dumbbell, any_network, flow, link, spec};
use knee_cc::{CaState, Ecn};
use knee_core::packet::{ACK_SIZE, MSS, MTU};
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_sim::{Output, Rows, Simulation, Spec, Tap};
use knee_tcp::receiver::Range;
use knee_tcp::sender::{AckInfo, Sender};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// SYN and SYN-ACK: 40 bytes of headers and 20 of options.
const SYN_SIZE: u16 = 60;
/// RFC 6298, 2.1: the first timeout is a second.
const FIRST_RTO: u64 = S;

/// Something that a sender's machine sees.
enum Seen {
    Sent(Packet),
    /// An ACK: the next segment expected, the echoed timestamp and SACK blocks.
    Received(Packet, u64, u32, Vec<Range>),
}

type Capture = Vec<(Time, Seen)>;

struct Writer(Arc<Mutex<Capture>>);

impl Tap for Writer {
    fn sent(&mut self, at: Time, _: ConnectionId, packet: &Packet) {
        self.0.lock().unwrap().push((at, Seen::Sent(*packet)));
    }

    fn received(&mut self, at: Time, _: ConnectionId, packet: &Packet, ack: Option<&AckInfo>) {
        let ack = ack.unwrap();
        self.0.lock().unwrap().push((at, Seen::Received(*packet, ack.seq, ack.tsecr, ack.blocks.to_vec())));
    }
}

fn captured(spec: &Value) -> (Output, Rows, Capture) {
    let spec: Spec = serde_json::from_value(spec.clone()).unwrap();
    let mut simulation = Simulation::new(&spec).unwrap();
    let capture = Arc::new(Mutex::new(Vec::new()));
    simulation.tap(Box::new(Writer(capture.clone())));
    let (output, rows) = simulation.run().unwrap();
    let seen = std::mem::take(&mut *capture.lock().unwrap());
    (output, rows, seen)
}

/// A flow and what is to hold of it.
struct Flow<'a> {
    spec: &'a Value,
    base_rtt: Time,
    /// Flags of its data.
    codepoint: u8,
    /// ACKs count marks, and CWR says nothing of the window (RFC 9768).
    accurate: bool,
    /// The codepoint of SYN and SYN-ACK.
    handshake: u8,
    tick: u64,
    end: Time,
    /// When SYNs left, and when the first answer came.
    syns: Vec<Time>,
    established: Option<Time>,
    /// When the third packet of the handshake left.
    third: Option<Time>,
    /// When each segment was sent first.
    first_sent: Vec<Time>,
    stamps: Vec<u32>,
    sent: u64,
    repeated: u64,
    /// There was a reason to reduce the window since the last CWR: an ECE, or a loss that was repaired or reported.
    may_reduce: bool,
}

impl<'a> Flow<'a> {
    fn new(spec: &'a Value, i: usize) -> Self {
        let flow = &spec["flows"][i];
        let needs = knee_cc::find(flow["cc"].as_str().unwrap()).unwrap().needs.ecn;
        let l4s = needs == Ecn::Scalable || flow["ecn"] == "l4s";
        let capable = l4s || needs != Ecn::Classic || ["on", "accurate"].iter().any(|on| flow["ecn"] == *on);
        let codepoint = if capable { Packet::ECT } else { 0 } | if l4s { Packet::L4S } else { 0 };
        Self {
            spec: flow,
            base_rtt: Time::from_nanos((laws::base_rtt(spec, i) * 1e6) as u64),
            codepoint,
            // RFC 8257, 3.6: where the algorithm needs ECN.
            handshake: if needs == Ecn::Classic { 0 } else { codepoint },
            accurate: l4s || flow["ecn"] == "accurate",
            tick: spec["tcp"]["tick"].as_u64().unwrap_or(4 * MS),
            end: Time::from_nanos(spec["duration"].as_u64().unwrap()),
            syns: Vec::new(),
            established: None,
            third: None,
            first_sent: Vec::new(),
            stamps: Vec::new(),
            sent: 0,
            repeated: 0,
            may_reduce: false,
        }
    }

    fn time(&self, key: &str) -> Time {
        Time::from_nanos(self.spec[key].as_u64().unwrap())
    }

    /// RFC 9293, 3.10 and RFC 6298, 2.1 and 5.5: a SYN at the start, again after 1, 2, 4, ... s, and none once
    /// answered.
    fn on_syn(&mut self, at: Time, packet: &Packet) {
        // RFC 3168, 6.1.1: ECE and CWR offer ECN; RFC 9768, 3.1.1: with AE, accurate feedback.
        // A SYN that is sent again offers none (RFC 3168, 6.1.1.1).
        let offer = match (self.codepoint, self.accurate) {
            (0, _) => 0,
            _ if !self.syns.is_empty() => 0,
            (_, false) => Packet::ECE | Packet::CWR,
            (_, true) => Packet::ACE,
        };
        assert_eq!((packet.size, packet.flags), (SYN_SIZE, Packet::SYN | offer | self.handshake));
        assert_eq!(self.established, None, "a SYN at {at}");
        match self.syns.last() {
            None => assert_eq!(at, self.time("start")),
            Some(&before) => {
                let rto = FIRST_RTO << (self.syns.len() - 1);
                let gap = (at - before).as_nanos();
                assert!((rto..=rto + 2 * self.tick).contains(&gap), "a SYN {gap} ns after another, not {rto}");
            }
        }
        self.syns.push(at);
    }

    /// RFC 9293, 3.5, Fig. 6: the answer to a SYN is acknowledged, once, before data leaves.
    fn on_third(&mut self, at: Time, packet: &Packet) {
        // Linux's tcp_ecn_send: pure ACKs are ECN-capable where feedback is accurate or the algorithm needs ECN.
        let codepoint = if self.accurate { self.codepoint } else { self.handshake };
        assert_eq!((packet.size, packet.flags), (ACK_SIZE, Packet::SYN | codepoint));
        assert_eq!((self.established, self.first_sent.len(), self.third), (Some(at), 0, None));
        self.third = Some(at);
    }

    fn on_data(&mut self, at: Time, packet: &Packet) {
        let next = self.first_sent.len() as u64;
        let Payload::Data { seq, tsval } = packet.payload else { panic!("{packet:?}") };
        let seq = seq.near(next);
        let again = seq < next;
        if next == 0 {
            assert_eq!((self.established, self.third), (Some(at), Some(at)), "the first window leaves with it");
        }
        if again {
            self.repeated += 1;
        } else {
            assert_eq!(seq, next, "new segments leave in order");
            assert!(at < self.time("stop"), "a new segment at {at}, after the stop");
            self.first_sent.push(at);
        }
        self.sent += 1;
        self.stamps.push(tsval);
        assert_eq!(packet.at, at);
        let left = self.spec["bytes"].as_u64().map_or(u64::MAX, |bytes| bytes - seq * u64::from(MSS));
        assert_eq!(u64::from(packet.size), u64::from(MTU - MSS) + left.min(MSS.into()), "segment {seq}");
        // RFC 3168, 6.1.5: retransmissions are not ECN-capable, unless feedback is accurate (RFC 8311, 4.3) or the
        // algorithm needs ECN (Linux). 6.1.2: the first new segment after a reduction, whatever its reason, has CWR.
        let codepoint = if again && !self.accurate { self.handshake } else { self.codepoint };
        assert_eq!(packet.flags & !(Packet::CWR | Packet::PSH), codepoint, "flags of data");
        assert!(packet.has(Packet::PSH) || left > MSS.into(), "the last segment ends a write");
        if packet.has(Packet::CWR) {
            assert!(self.may_reduce && !again && !self.accurate, "CWR without a reason");
            self.may_reduce = false;
        }
        self.may_reduce |= again;
    }

    fn on_ack(&mut self, at: Time, ack: &Packet, next: u64, tsecr: u32, blocks: &[Range]) {
        if ack.has(Packet::SYN) {
            assert_eq!((ack.size, blocks.len()), (SYN_SIZE, 0));
            // Where the first SYN did not arrive, nobody has offered ECN, and there is none.
            if self.syns.len() > 1 && ack.flags & Packet::ACE == 0 {
                (self.codepoint, self.accurate, self.handshake) = (0, false, 0);
            }
            // RFC 3168, 6.1.1: ECE accepts; RFC 9768, Table 2: so do other flags, which say with which codepoint the
            // SYN came, that of congestion among them.
            let accepted: &[u8] = match (self.codepoint, self.accurate, self.handshake) {
                (0, ..) => &[0],
                (_, false, _) => &[Packet::ECE],
                (_, true, 0) => &[Packet::CWR],
                (_, true, Packet::ECT) => &[Packet::AE, Packet::AE | Packet::CWR],
                (_, true, _) => &[Packet::CWR | Packet::ECE, Packet::AE | Packet::CWR],
            };
            assert!(accepted.contains(&(ack.flags & Packet::ACE)), "{:x}", ack.flags);
            assert_eq!(ack.flags & (Packet::ECT | Packet::L4S), self.handshake);
            assert!(at >= self.syns[0] + self.base_rtt, "an answer at {at}");
            self.established = self.established.or(Some(at));
            return;
        }
        // What is reported has been sent, half a way there and back ago.
        let highest = blocks.iter().map(|&(_, end)| end).fold(next, u64::max);
        assert!(highest <= self.first_sent.len() as u64, "{highest} reported");
        if let Some(last) = highest.checked_sub(1) {
            let sent = self.first_sent[last as usize];
            assert!(at >= sent + self.base_rtt, "{last} of {sent} reported at {at}");
        }
        // Before data comes in order there is nothing to echo.
        let echo = if next == 0 { tsecr == 0 } else { self.stamps.contains(&tsecr) };
        assert!(echo, "the echo of timestamp {tsecr}, which was not sent");
        // RFC 2018: blocks lie above the cumulative ACK. RFC 2883: only the first may be a D-SACK, below it or within
        // another.
        assert!(blocks.iter().all(|(start, end)| start < end), "{blocks:?}");
        assert!(blocks.iter().skip(1).all(|&(start, _)| start > next), "{next} {blocks:?}");
        let option = if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() as u16 };
        assert_eq!(ack.size, ACK_SIZE + option, "{} blocks", blocks.len());
        // A hole is a loss, also while the window holds its retransmission back.
        self.may_reduce |= ack.has(Packet::ECE) || !blocks.is_empty();
    }
}

fn check(spec: &Value) {
    let (output, rows, capture) = captured(spec);
    let mut flows: Vec<Flow> = (0..output.flows.len()).map(|i| Flow::new(spec, i)).collect();
    let mut now = Time::ZERO;
    for (at, seen) in &capture {
        assert!(*at >= now, "time goes back");
        now = *at;
        match seen {
            Seen::Sent(packet) if packet.ends_handshake() => flows[packet.flow as usize].on_third(*at, packet),
            Seen::Sent(packet) if packet.has(Packet::SYN) => flows[packet.flow as usize].on_syn(*at, packet),
            Seen::Sent(packet) => flows[packet.flow as usize].on_data(*at, packet),
            Seen::Received(ack, next, tsecr, blocks) => {
                flows[ack.flow as usize].on_ack(*at, ack, *next, *tsecr, blocks);
            }
        }
    }
    let timeout = output.event_names.iter().position(|name| name == "timeout");
    for (i, (flow, figures)) in flows.iter().zip(&output.flows).enumerate() {
        assert!(flow.syns.len() == 1 || flow.established.is_none() || flow.syns[1] < flow.established.unwrap());
        if spec["warmup"] == 0 && flow.time("stop") >= flow.end {
            let counted = (figures.sent_packets, figures.retransmitted_packets);
            assert_eq!(counted, (flow.sent, flow.repeated), "flow {i}");
            let recorded = rows.events.iter().filter(|row| row.flow == i as i32 && Some(row.event as usize) == timeout);
            assert_eq!(recorded.count() as u64, figures.timeouts, "timeouts of flow {i}");
        }
    }
    let sent: u64 = flows.iter().map(|flow| flow.sent).sum();
    assert!(output.packets <= sent, "{} packets arrived of {sent}", output.packets);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_capture_at_the_senders_follows_the_rfcs(spec in prop_oneof![any_dumbbell(), any_chain(), any_network()]) {
        check(&spec);
    }
}

#[test]
fn a_syn_is_sent_again_after_one_two_and_four_seconds() {
    let mut lossy = link(10_000_000, &json!({"packets": 50}));
    lossy["loss"] = json!(1.0);
    let spec = spec(20 * S, &[lossy], &[flow("reno", 20 * MS, MS / 3, 20 * S)]);
    check(&spec);
    let at: Vec<u64> = captured(&spec).2.iter().map(|(at, _)| at.as_millis()).collect();
    // Each timer fires a tick of 4 ms after its span, as the kernel's clock shows it.
    assert_eq!(at, [0, 1004, 3008, 7012, 15_016]);
}

/// RFC 3168, 6.1: what a queue marks is echoed, the sender reduces its window once per round trip, says so with CWR,
/// and no packet needs to be lost for it.
#[test]
fn marks_are_echoed_and_answered() {
    let mut marking = link(20_000_000, &json!({"packets": 300}));
    (marking["queue"], marking["queue_params"]) = (json!("codel"), json!({"ecn": {"bool": true}}));
    let mut capable = flow("reno", 40 * MS, 0, 10 * S);
    capable["ecn"] = json!("on");
    let spec = spec(10 * S, &[marking], &[capable]);
    check(&spec);
    let (output, rows, capture) = captured(&spec);
    let reductions = output.event_names.iter().position(|name| name == "cwr").unwrap();
    let reductions = rows.events.iter().filter(|row| row.event as usize == reductions).count();
    let seen = |flag: u8, sent: bool| {
        let has = |seen: &Seen| match seen {
            Seen::Sent(packet) => sent && packet.has(flag) && !packet.has(Packet::SYN),
            Seen::Received(ack, ..) => !sent && ack.has(flag) && !ack.has(Packet::SYN),
        };
        // The handshake has the same flags with another meaning.
        capture.iter().filter(|(_, seen)| has(seen)).count()
    };
    let (echoes, answers) = (seen(Packet::ECE, false), seen(Packet::CWR, true));
    assert!(reductions > 5 && output.links[0].drops == 0, "{reductions} reductions, {:?}", output.links);
    assert_eq!(answers, reductions);
    // Each is echoed with every ACK of about a round trip, up to the CWR.
    assert!(echoes > 5 * reductions, "{echoes} echoes");
}

/// The sender of an application's connection, as the capture shows it.
#[derive(Default)]
struct Answers {
    /// True if it has reduced its window and has not said so.
    owes: bool,
    reduces: bool,
    reductions: u32,
    said: u32,
    next: u64,
    short: u32,
}

struct WatchAnswers(Arc<Mutex<Answers>>);

impl Tap for WatchAnswers {
    fn sent(&mut self, at: Time, id: ConnectionId, packet: &Packet) {
        let mut seen = self.0.lock().unwrap();
        let Payload::Data { seq, .. } = packet.payload else { panic!("{packet:?}") };
        if id.flow() != 0 || packet.has(Packet::SYN) || seq.near(seen.next) < seen.next {
            return;
        }
        seen.next += 1;
        seen.short += u32::from(packet.size < MTU);
        seen.said += u32::from(packet.has(Packet::CWR));
        if packet.has(Packet::ECT) {
            assert_eq!(packet.has(Packet::CWR), std::mem::take(&mut seen.owes), "at {at}");
        }
    }

    fn received(&mut self, _: Time, _: ConnectionId, _: &Packet, _: Option<&AckInfo>) {}

    fn updated(&mut self, _: Time, id: ConnectionId, sender: &Sender) {
        let mut seen = self.0.lock().unwrap();
        if id.flow() == 0 {
            let reduces = matches!(sender.state(), CaState::Cwr | CaState::Recovery | CaState::Loss);
            if reduces && !seen.reduces {
                seen.reductions += 1;
                seen.owes = true;
            }
            seen.reduces = reduces;
        }
    }
}

/// RFC 3168, 6.1.2: the first new segment after a reduction of the window has CWR. So it is with what an application
/// writes bit by bit, too, any segment of which may be short. A sender that does not use ECN has nothing to say.
#[test]
fn an_application_that_writes_short_segments_answers_marks_too() {
    for ecn in ["on", "off"] {
        let mut marking = link(20_000_000, &json!({"packets": 300}));
        (marking["queue"], marking["queue_params"]) = (json!("codel"), json!({"ecn": {"bool": true}}));
        let mut writes = flow("reno", 40 * MS, 0, 10 * S);
        writes["traffic"] = json!({
            "kind": "transfers", "arrivals": {"poisson": 40.0}, "size": {"fixed": 20_000}, "persistent": true,
            "number": null
        });
        writes["ecn"] = json!(ecn);
        let mut beside = flow("reno", 40 * MS, 0, 10 * S);
        beside["ecn"] = json!("on");
        let spec: Spec = serde_json::from_value(spec(10 * S, &[marking], &[writes, beside])).unwrap();
        let (mut simulation, seen) = (Simulation::new(&spec).unwrap(), Arc::<Mutex<Answers>>::default());
        simulation.tap(Box::new(WatchAnswers(seen.clone())));
        simulation.run().unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.short > 100 && seen.reductions > 5, "{} short, {} reductions", seen.short, seen.reductions);
        if ecn == "on" {
            assert!(seen.said + 1 >= seen.reductions, "{} of {} said", seen.said, seen.reductions);
        } else {
            assert_eq!(seen.said, 0);
        }
    }
}

/// RTTs of each flow as Wireshark shows them (`tcp.analysis.ack_rtt`): from the first transmission of the last segment
/// that an ACK newly acknowledges.
fn traced_rtts(flows: usize, capture: &Capture) -> Vec<Vec<Time>> {
    let mut first_sent = vec![Vec::new(); flows];
    let mut rtts = vec![Vec::new(); flows];
    let mut acked = vec![0; flows];
    for (at, seen) in capture {
        match seen {
            Seen::Sent(packet) if !packet.has(Packet::SYN) => {
                let first_sent = &mut first_sent[packet.flow as usize];
                let Payload::Data { seq, .. } = packet.payload else { panic!("{packet:?}") };
                let next = first_sent.len() as u64;
                if seq.near(next) == next {
                    first_sent.push(*at);
                }
            }
            Seen::Received(ack, next, ..) if !ack.has(Packet::SYN) && *next > acked[ack.flow as usize] => {
                let i = ack.flow as usize;
                acked[i] = *next;
                rtts[i].push(*at - first_sent[i][*next as usize - 1]);
            }
            _ => {}
        }
    }
    rtts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn rtts_of_a_packet_trace_are_those_that_a_capture_shows(
        mut spec in prop_oneof![any_dumbbell(), any_chain(), any_network()]
    ) {
        (spec["warmup"], spec["tcp"]["trace_rtt"]) = (json!(0), json!(true));
        // All samples are in the figures.
        let end = spec["duration"].clone();
        spec["flows"].as_array_mut().unwrap().iter_mut().for_each(|flow| flow["stop"] = end.clone());
        let (output, _, capture) = captured(&spec);
        for (figures, rtts) in output.flows.iter().zip(traced_rtts(output.flows.len(), &capture)) {
            let ms = rtts.iter().map(|rtt| rtt.as_millis_f64());
            let range = (ms.clone().reduce(f64::min), ms.clone().reduce(f64::max));
            prop_assert_eq!((figures.rtt_min_ms, figures.rtt_max_ms), range);
            let (sum, shown) = (ms.sum::<f64>(), figures.rtt_mean_ms.unwrap_or(0.0) * rtts.len() as f64);
            prop_assert!((shown - sum).abs() <= 1e-9 * sum, "{shown} ms in sum, not {sum}");
        }
        // In batches, where nobody looks on, too.
        let (unseen, _) = Simulation::new(&serde_json::from_value(spec).unwrap()).unwrap().run().unwrap();
        let rtts = |output: &Output| {
            output.flows.iter().map(|flow| (flow.rtt_mean_ms, flow.rtt_p50_ms, flow.rtt_p99_ms)).collect::<Vec<_>>()
        };
        prop_assert_eq!(rtts(&unseen), rtts(&output));
    }
}
