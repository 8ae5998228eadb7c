//! A sender of fixed rate has the drops, the delays and the order of the simulator, to the bit, alone and beside the
//! simulator's own flows, and these are those of `knee run`.

use knee_core::convert::index;
use knee_core::{ConnectionId, Packet, Rng, Time};
use knee_net::spec::{EcnSpec, FlowSpec, QuicSpec, Spec, Transport};
use knee_sim::{Simulation, Tap};
use knee_test::{Ecn, Net, Port, Scenario};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

const DURATION: Time = Time::from_millis(400);

/// A sender: its flow, when it starts, how often it sends how much, and with which ECN field.
#[derive(Clone, Copy, Debug)]
struct Sender {
    start: u64,
    interval: u64,
    size: u16,
    ecn: Ecn,
}

/// The fate of a packet: its flow and number; when; its wait in queues and its mark if it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happened {
    Arrived { packet: (u32, u64), at: Time, queued: Time, marked: bool },
    Dropped { packet: (u32, u64), at: Time },
}

/// Numbers from `least` to `most`.
fn between(rng: &mut Rng, least: u64, most: u64) -> u64 {
    least + rng.below(most - least + 1)
}

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[index(rng.below(of.len() as u64))]
}

/// A link of a random network in TOML; its rate in Mbit/s is beside.
fn side(rng: &mut Rng) -> (String, u64) {
    let queues: Vec<&str> = knee_queue::registry().iter().map(|entry| entry.name).collect();
    let rate = between(rng, 1, 30);
    let mut text = format!("rate = \"{rate} Mbit/s\"\nqueue = \"{}\"\n", one_of(rng, &queues));
    let add = |text: &mut String, line: String| text.push_str(&line);
    if rng.chance(0.6) {
        let limit = format!("limit = \"{}\"\n", one_of(rng, &["3 packets", "40 packets", "9 kB", "20 ms"]));
        add(&mut text, limit);
    }
    if rng.chance(0.2) {
        add(&mut text, format!("model = \"{}\"\n", one_of(rng, &["wifi", "docsis", "lte", "nr", "leo"])));
    }
    if rng.chance(0.1) {
        add(&mut text, "corrupt = 0.02\n".into());
    }
    if rng.chance(0.1) {
        add(&mut text, "slot = { min = \"1 ms\", max = \"3 ms\", packets = 4 }\n".into());
    }
    if rng.chance(0.2) {
        add(&mut text, format!("overhead = \"{}\"\n", one_of(rng, &["docsis", "pppoe-ptm", "conservative", "0 B"])));
    }
    (text, rate)
}

const QUIC: &str = "transport = \"quic\"\n";

/// A flow of the simulator on another path.
fn background(rng: &mut Rng) -> String {
    let cc = one_of(rng, &["cubic", "reno", "bbr", "bbr3", "dctcp", "vegas"]);
    let mut text = format!(
        "[[flows]]\ncc = \"{cc}\"\nrtt = \"{} us\"\nstart = \"{} us\"\n",
        between(rng, 9_000, 30_000),
        between(rng, 0, 40_000)
    );
    text += one_of(
        rng,
        &[
            "",
            "lasts = \"200 ms\"\n",
            "bytes = \"200 kB\"\n",
            "count = 2\nstagger = \"7 ms\"\n",
            "traffic = { kind = \"transfers\", per_second = 50.0, size = { distribution = \"web-search\" } }\n",
            "traffic = { kind = \"requests\", size = \"20 kB\", objects = 5, connections = 2 }\n",
        ],
    );
    text + one_of(rng, &["", "pacing = \"on\"\n", "ecn = \"l4s\"\n", QUIC, QUIC])
}

/// A random network, and the senders in it, perhaps with flows of the simulator's beside them.
fn network(rng: &mut Rng, beside: bool) -> (String, Vec<Sender>) {
    let links = between(rng, 1, 3);
    let backward = rng.chance(0.5);
    let mut text = format!("seed = {}\n", rng.below(1 << 32));
    let mut slowest = u64::MAX;
    for i in 0..links {
        let (own, rate) = side(rng);
        slowest = slowest.min(rate);
        let _ = write!(text, "[[links]]\nname = \"link {i}\"\n{own}");
        if !own.contains("slot") && rng.chance(0.3) {
            let _ = write!(text, "jitter = \"2 ms\"\nreorder = {}\n", rng.chance(0.5));
        }
        if rng.chance(0.3) {
            text += one_of(rng, &["loss = 0.02\n", "loss_model = \"gilbert_elliott\"\nloss_params = { p = 0.02 }\n"]);
        }
        let _ = writeln!(text, "delay = \"{} us\"", between(rng, 0, 3_000));
        if backward {
            let (back, rate) = side(rng);
            slowest = slowest.min(rate);
            let _ = write!(text, "[links.reverse]\n{back}");
        }
    }
    if rng.chance(0.4) {
        let change = one_of(rng, &["rate = \"3 Mbit/s\"", "limit = \"5 packets\""]);
        let _ = write!(text, "[[changes]]\nat = \"150 ms\"\nlink = \"link 0\"\n{change}\n");
    }
    let flows = between(rng, 1, 3);
    let mut senders = Vec::new();
    for _ in 0..flows {
        let dscp = one_of(rng, &["CS0", "EF", "CS1", "AF41"]);
        let direction = if backward && rng.chance(0.4) { "reverse" } else { "forward" };
        let _ = write!(
            text,
            "[[flows]]\nrtt = \"{} us\"\ndscp = \"{dscp}\"\ndirection = \"{direction}\"\n",
            between(rng, 9_000, 30_000)
        );
        let (size, share) = (between(rng, 60, 1500), between(rng, 20, 200));
        // A share of the slowest rate, in hundredths.
        let interval = size * 8 * 1_000 * flows * 100 / (slowest * share);
        let ecn = one_of(rng, &[Ecn::NotEct, Ecn::Ect0, Ecn::Ect1]);
        let size = u16::try_from(size).expect("an IP packet");
        senders.push(Sender { start: between(rng, 0, 20_000_000), interval, size, ecn });
    }
    if beside {
        text += &background(rng);
        text += &background(rng);
    }
    (text, senders)
}

/// Notes in the simulator what happens to datagrams.
struct Noting {
    happened: Arc<Mutex<Vec<Happened>>>,
    /// The number of a packet inside, and how many were sent, by flow.
    inside: BTreeMap<(u32, u32), u64>,
    sent: BTreeMap<u32, u64>,
    /// Flows from this one on are no senders.
    senders: u32,
}

impl Noting {
    fn number(&mut self, packet: &Packet) -> (u32, u64) {
        let number = self.inside.remove(&(packet.flow, packet.payload.key()));
        (packet.flow, number.expect("it was sent"))
    }
}

impl Tap for Noting {
    fn sent(&mut self, _: Time, _: ConnectionId, packet: &Packet) {
        if packet.flow >= self.senders {
            return;
        }
        let sent = self.sent.entry(packet.flow).or_default();
        self.inside.insert((packet.flow, packet.payload.key()), *sent);
        *sent += 1;
    }

    fn received(&mut self, _: Time, _: ConnectionId, packet: &Packet, _: Option<&knee_tcp::sender::AckInfo>) {
        assert!(packet.flow >= self.senders, "nothing answers datagrams: {packet:?}");
    }

    fn delivered(&mut self, at: Time, _: ConnectionId, packet: &Packet) {
        if packet.flow >= self.senders {
            return;
        }
        let (queued, marked) = (packet.queued(), packet.has(Packet::CE));
        let packet = self.number(packet);
        self.happened.lock().expect("nobody panics").push(Happened::Arrived { packet, at, queued, marked });
    }

    fn dropped(&mut self, at: Time, _: ConnectionId, packet: &Packet) {
        if packet.flow >= self.senders {
            return;
        }
        let packet = self.number(packet);
        self.happened.lock().expect("nobody panics").push(Happened::Dropped { packet, at });
    }
}

/// Figures of each link: queueing delay at 95 %, ns, drops and marks. Then of each flow of the simulator's: payload
/// delivered, packets sent and lost.
type Figures = Vec<(u64, u64, u64)>;

/// For each flow of the simulator, true if it lasts to the end: packets of others are counted up to their own.
fn endless(scenario: &Scenario, senders: &[Sender]) -> impl Iterator<Item = bool> {
    let own = scenario.flows.iter().skip(senders.len()).flatten();
    own.map(|flow| flow.bytes.is_none() && flow.traffic.is_none() && flow.stop >= DURATION.as_nanos())
}

fn in_the_simulator(scenario: &Scenario, senders: &[Sender]) -> (Vec<Happened>, Figures) {
    let flows = scenario.paths.iter().zip(senders).map(|(path, sender)| FlowSpec {
        label: path.label.clone(),
        cc: "none".into(),
        cc_params: None,
        policy: None,
        rtt: path.rtt,
        start: sender.start,
        stop: DURATION.as_nanos(),
        bytes: None,
        path: path.links.clone(),
        reverse: path.reverse,
        pacing: false,
        ecn: match sender.ecn {
            Ecn::Ect0 => EcnSpec::On,
            Ecn::Ect1 => EcnSpec::L4s,
            _ => EcnSpec::Off,
        },
        transport: Transport::Tcp,
        tls: false,
        traffic: serde_json::from_value(json!({"kind": "udp", "packet": sender.size, "interval": sender.interval}))
            .ok(),
        receiver: None,
        tunnel: path.tunnel,
        dscp: path.dscp,
    });
    let own = scenario.flows.iter().skip(senders.len()).map(|flow| flow.clone().expect("it is read"));
    let own = own.map(|flow| FlowSpec { stop: flow.stop.min(DURATION.as_nanos()), ..flow });
    let spec = Spec {
        duration: DURATION.as_nanos(),
        seed: scenario.seed,
        warmup: 0,
        interval: 100_000_000,
        tcp: scenario.tcp,
        quic: QuicSpec::default(),
        links: scenario.links.clone(),
        flows: flows.chain(own).collect(),
        changes: scenario.changes.clone(),
    };
    let mut simulation = Simulation::new(&spec).expect("a specification");
    let happened = Arc::new(Mutex::new(Vec::new()));
    let count = u32::try_from(senders.len()).expect("few flows");
    let (inside, sent) = (BTreeMap::new(), BTreeMap::new());
    let noting = Noting { happened: happened.clone(), inside, sent, senders: count };
    simulation.tap(Box::new(noting));
    let (output, _) = simulation.run().expect("no file is written");
    let figures = output.links.iter().map(|link| {
        let p95 = link.queue_delay_p95_ms.map_or(0, |ms| (ms * 1e6).round() as u64);
        (p95, link.drops, link.marks)
    });
    let own = output.flows.iter().skip(senders.len());
    let own = own.zip(endless(scenario, senders)).map(|(flow, endless)| {
        let (sent, lost) = if endless { (flow.sent_packets, flow.lost_packets) } else { (0, 0) };
        (flow.delivered_bytes, sent, lost)
    });
    let figures = figures.chain(own).collect();
    let happened = std::mem::take(&mut *happened.lock().expect("nobody panics"));
    (happened, figures)
}

fn in_the_network(scenario: &Scenario, senders: &[Sender]) -> (Vec<Happened>, Figures) {
    let mut net = Net::new(scenario).expect("a network");
    let own: Vec<&str> = scenario.paths.iter().skip(senders.len()).map(|path| path.label.as_str()).collect();
    for flow in &own {
        net.background(flow).expect("a flow of the simulator's");
    }
    // When each sends next, in the order of the simulator: those that start go last.
    let due = |sent: &[u64]| {
        let each = senders.iter().zip(sent).enumerate();
        each.map(|(i, (sender, sent))| (sender.start + sent * sender.interval, *sent == 0, i)).min().expect("a sender")
    };
    let mut sent = vec![0; senders.len()];
    let mut numbers = Numbers::new();
    let mut happened = Vec::new();
    let (mut noted, end) = (0, DURATION - Time::from_nanos(1));
    loop {
        let (at, _, i) = due(&sent);
        let next = Time::from_nanos(at).min(end);
        while let Some(now) = net.next().filter(|now| *now <= next) {
            let arrived: Vec<_> = net.poll(now).expect("time goes on").collect();
            note_drops(&net, &mut noted, &numbers, &mut happened);
            happened.extend(arrived.iter().map(|packet| {
                let flow = flow_of(packet.port);
                let marked = packet.ecn == Ecn::Ce;
                let number = numbers[&(flow, packet.sent)];
                Happened::Arrived { packet: (flow, number), at: packet.at, queued: packet.queued, marked }
            }));
        }
        if Time::from_nanos(at) > end {
            net.poll(end).expect("time goes on").for_each(drop);
            break;
        }
        let flow = u32::try_from(i).expect("few flows");
        let port = Port::near(flow);
        let payload = vec![0; usize::from(senders[i].size) - knee_test::HEADERS];
        net.send(next, port, &payload, senders[i].ecn).expect("it is sent");
        numbers.insert((flow, next), sent[i]);
        note_drops(&net, &mut noted, &numbers, &mut happened);
        sent[i] += 1;
    }
    let names: Vec<String> = net.link_names().map(str::to_owned).collect();
    let mut figures = Figures::new();
    for name in names {
        let link = net.link(&name).expect("a link");
        figures.push((link.queueing().p95().as_nanos(), link.drops(), link.marks()));
    }
    for (flow, endless) in own.into_iter().zip(endless(scenario, senders)) {
        let flow = net.flow(flow).expect("a flow of the simulator's");
        let (sent, lost) = if endless { (flow.sent(), flow.lost()) } else { (0, 0) };
        figures.push((flow.delivered(), sent, lost));
    }
    (happened, figures)
}

/// The number of each packet of a flow, by the time at which it was sent.
type Numbers = BTreeMap<(u32, Time), u64>;

/// Notes drops from `noted` on.
fn note_drops(net: &Net, noted: &mut usize, numbers: &Numbers, happened: &mut Vec<Happened>) {
    let drops = &net.drops()[*noted..];
    *noted += drops.len();
    happened.extend(drops.iter().map(|dropped| {
        let flow = flow_of(dropped.from);
        Happened::Dropped { packet: (flow, numbers[&(flow, dropped.sent)]), at: dropped.at }
    }));
}

fn flow_of(port: Port) -> u32 {
    (0..9).find(|flow| [Port::near(*flow), Port::far(*flow)].contains(&port)).expect("few flows")
}

/// Sorts fates by time; at one time any order will do.
fn in_order(mut happened: Vec<Happened>) -> Vec<Happened> {
    happened.sort_by_key(|happened| match happened {
        Happened::Arrived { packet, at, .. } => (*at, 0, *packet),
        Happened::Dropped { packet, at } => (*at, 1, *packet),
    });
    happened
}

/// The order of arrivals.
fn arrivals(happened: &[Happened]) -> Vec<(u32, u64)> {
    let arrived = |happened: &Happened| match happened {
        Happened::Arrived { packet, .. } => Some(*packet),
        Happened::Dropped { .. } => None,
    };
    happened.iter().filter_map(arrived).collect()
}

/// Holds a hundred random networks to the law.
fn hold(seed: u64, beside: bool) {
    let mut rng = Rng::stream(seed, "knee-test");
    let (mut networks, mut packets, mut drops, mut marks, mut lost) = (0, 0, 0, 0, 0);
    while networks < 100 {
        let (text, senders) = network(&mut rng, beside);
        // A random network may say what no file may, such as a limit that a discipline does not take.
        let Ok(scenario) = knee_scenario::read(&text, "random") else { continue };
        networks += 1;
        let (theirs, figures) = in_the_simulator(&scenario, &senders);
        let (mine, own) = in_the_network(&scenario, &senders);
        assert_eq!(arrivals(&mine), arrivals(&theirs), "the order of arrivals in\n{text}\n{senders:?}");
        let (mine, theirs) = (in_order(mine), in_order(theirs));
        let differs = mine.iter().zip(&theirs).find(|(mine, theirs)| mine != theirs);
        assert!(differs.is_none() && mine.len() == theirs.len(), "{differs:?} in\n{text}\n{senders:?}");
        assert_eq!(own, figures, "figures in\n{text}");
        lost += own.iter().skip(own.len() - (scenario.paths.len() - senders.len())).map(|flow| flow.2).sum::<u64>();
        packets += mine.len();
        drops += mine.len() - arrivals(&mine).len();
        marks += mine.iter().filter(|happened| matches!(happened, Happened::Arrived { marked: true, .. })).count();
    }
    println!("{networks} networks, {packets} packets, {drops} drops, {marks} marks, {lost} of the simulator's lost");
    assert_eq!(lost > 1_000, beside, "{lost} packets of the simulator's were lost");
    assert!(packets > 10_000 && drops > 500 && marks > 100, "{packets} packets, {drops} drops, {marks} marks");
}

/// Four times a hundred, so that they share the processors.
mod a_sender_of_fixed_rate_has_the_simulators_drops_delays_and_order {
    #[test]
    fn in_the_first_networks() {
        super::hold(1, false);
    }

    #[test]
    fn in_the_second_networks() {
        super::hold(2, false);
    }

    #[test]
    fn in_the_third_networks() {
        super::hold(3, false);
    }

    #[test]
    fn in_the_fourth_networks() {
        super::hold(4, false);
    }
}

/// Twice a hundred.
mod beside_flows_of_the_simulators_it_has_them_too_and_these_are_those_of_a_run {
    #[test]
    fn in_the_first_networks() {
        super::hold(5, true);
    }

    #[test]
    fn in_the_second_networks() {
        super::hold(6, true);
    }
}
