//! Laws of a link: what leaves it, when, and what its counters say.

#![expect(clippy::unwrap_used, reason = "a failure here is the test's")]

use knee_core::{Bytes, Packet, Params, Payload, Rate, Rng, Seq, Time, Value};
use knee_link::{Arrivals, ByCategory, Counters, Departure, Link, Loss, Server};
use knee_queue::{Backlog, Burst, Init, Limit, find, registry};
use proptest::prelude::*;

const OVERHEAD: u32 = 14;
const MS: Time = Time::from_millis(1);
/// A full frame takes a millisecond.
const RATE: Rate = Rate::from_bps(1514 * 8 * 1000);

fn link_with(queue: &str, given: &[(&str, Value)], limit: Limit, server: Server) -> Link {
    let entry = find(queue).unwrap();
    let rate = server.rate().map_or(RATE, Rate::from_bps);
    let init = Init { limit: Some(limit), overhead: OVERHEAD, rate, rng: Rng::stream(1, queue) };
    let queue = (entry.make)(&Params::resolve(entry.params, given.iter().copied()).unwrap(), &init);
    Link::new(queue, server, OVERHEAD, Loss::none(Rng::stream(1, "loss")))
}

fn link(server: Server) -> Link {
    link_with("pfifo", &[], Limit::Packets(3), server)
}

fn burst(at: Time, seq: u64, count: u32) -> Burst {
    Burst { first: Packet { at, payload: Payload::segment(seq), size: 1500, ..Packet::default() }, count }
}

/// Segments that left, each with when and how long it was queued.
fn left(out: &mut Vec<Departure>) -> Vec<(u64, Time, Time)> {
    out.drain(..).map(|Departure { at, packet, sojourn }| (packet.payload.seq(), at, sojourn)).collect()
}

/// Segments that were dropped, and when.
fn drops(link: &mut Link) -> Vec<(u64, Time)> {
    link.unbooked().0.drain(..).map(|(at, packet)| (packet.payload.seq(), at)).collect()
}

/// Lets a link act up to `until`, step by step.
fn serve(link: &mut Link, until: Time, out: &mut Vec<Departure>) {
    while link.due() <= until {
        out.extend(link.serve(link.due()));
    }
}

#[test]
fn a_wire_sends_one_packet_after_the_other_and_a_full_queue_drops() {
    let (mut link, mut out) = (link(Server::wire(RATE)), Vec::new());
    assert_eq!((link.due(), link.is_wire(), link.rate()), (Time::MAX, true, Some(RATE.as_bps())));
    link.arrive(&burst(MS, 0, 6), MS);
    // One is on the wire, three wait, two find the queue full.
    assert_eq!((link.due(), link.held(), link.on_wire().unwrap().payload.seq()), (MS * 2, 4, 0));
    assert_eq!(link.backlog(), Backlog { packets: 3, bytes: Bytes(3 * 1514) });
    assert!(link.has_unbooked());
    assert_eq!(drops(&mut link), [(4, MS), (5, MS)]);
    assert!(!link.has_unbooked());
    serve(&mut link, MS * 3, &mut out);
    assert_eq!(left(&mut out), [(0, MS * 2, Time::ZERO), (1, MS * 3, MS)]);
    assert_eq!(*link.counters(), Counters { arrived: 6, departed: 2, bytes: 2 * 1514, drops: 2 });
    link.advance(&mut Arrivals::default(), MS * 9, &mut out);
    assert_eq!(out[1].packet.queued(), Packet::QUEUED_UNIT * u64::from(Packet::queued_units(MS * 3)));
    assert_eq!(left(&mut out), [(2, MS * 4, MS * 2), (3, MS * 5, MS * 3)]);
    assert_eq!((link.due(), link.held(), link.on_wire()), (Time::MAX, 0, None));
    let load = link.load(MS * 9);
    assert_eq!((load.carried, load.offered, load.saved), (4 * 1514 * 8, 9 * 1514 * 8, 0));
}

#[test]
fn queueing_delays_add_up_whatever_a_packet_carries() {
    let (mut link, mut out) = (link(Server::wire(RATE)), Vec::new());
    let before = Packet::queued_units(MS * 5);
    for payload in [Payload::segment(7), Payload::Stored(7), Payload::Ack { next: Seq::new(7), tsecr: 7, tsval: 7 }] {
        let first = Packet { payload, queued: before, size: 1500, ..Packet::default() };
        link.arrive(&Burst { first, count: 1 }, Time::ZERO);
    }
    serve(&mut link, MS * 9, &mut out);
    let queued: Vec<u32> = out.iter().map(|departure| departure.packet.queued).collect();
    assert_eq!(queued, [0, 1, 2].map(|waited| before + Packet::queued_units(MS * waited)));
}

#[test]
fn another_rate_counts_from_the_next_packet_on() {
    let (mut link, mut out) = (link(Server::wire(RATE)), Vec::new());
    link.arrive(&burst(Time::ZERO, 0, 3), Time::ZERO);
    link.set_rate(Rate::from_bps(RATE.as_bps() / 2), MS / 2);
    // The packet on the wire leaves as it began: until then the link has its old rate.
    let load = link.load(MS / 2);
    assert_eq!((load.carried, load.offered), (1514 * 4, 1514 * 4));
    serve(&mut link, MS * 2, &mut out);
    let load = link.load(MS * 2);
    assert_eq!((load.carried, load.offered), (1514 * 12, 1514 * 12));
    serve(&mut link, MS * 9, &mut out);
    assert_eq!(left(&mut out), [(0, MS, Time::ZERO), (1, MS * 3, MS), (2, MS * 5, MS * 3)]);
    // A millisecond at the full rate, and 8 at half of it.
    let load = link.load(MS * 9);
    assert_eq!((load.carried, load.offered), (3 * 1514 * 8, 5 * 1514 * 8));
}

#[test]
fn a_lower_limit_drops_what_no_longer_fits() {
    let mut link = link(Server::wire(RATE));
    link.arrive(&burst(Time::ZERO, 0, 4), Time::ZERO);
    link.set_limit(Limit::Packets(1), MS / 2);
    assert_eq!(drops(&mut link), [(3, MS / 2), (2, MS / 2)]);
    assert_eq!((link.counters().drops, link.held()), (2, 2));
}

#[test]
fn random_loss_takes_all_at_probability_one_and_its_share_below() {
    let (mut all, mut some, mut out) = (link(Server::wire(RATE)), link(Server::wire(RATE)), Vec::new());
    all.set_loss(1.0);
    all.arrive(&burst(MS, 0, 5), MS);
    assert_eq!((all.due(), drops(&mut all).len()), (Time::MAX, 5));
    assert_eq!(*all.counters(), Counters { arrived: 5, drops: 5, ..Counters::default() });
    some.set_loss(0.25);
    for k in 0..10_000 {
        let at = MS * 2 * k;
        serve(&mut some, at, &mut out);
        some.arrive(&burst(at, k, 1), at);
    }
    // Four standard deviations of a binomial with n = 1e4 and p = 1/4 are 173.
    assert!((2327..2673).contains(&some.counters().drops), "{}", some.counters().drops);
}

/// As netem's `corrupt`: the link has carried a damaged packet, whose checksum fails at the other end.
#[test]
fn a_damaged_packet_is_carried_and_dropped() {
    let mut link = link(Server::wire(RATE));
    link.corrupt(0.0, Rng::stream(1, "damage"));
    assert!(!link.corrupts());
    link.corrupt(1.0, Rng::stream(1, "damage"));
    assert!(link.corrupts());
    link.arrive(&burst(MS, 0, 1), MS);
    assert_eq!((link.serve(MS * 2), drops(&mut link)), (None, vec![(0, MS * 2)]));
    assert_eq!(*link.counters(), Counters { arrived: 1, departed: 0, bytes: 1514, drops: 1 });
}

/// A packet waits in the queue of its access category: voice (EF, 46) passes best effort, and both leave.
#[test]
fn each_access_category_has_a_queue_of_its_own() {
    let (model, entry) = (knee_link::registry::find("wifi").unwrap(), find("pfifo").unwrap());
    let params = Params::resolve(model.choice.params, [("edca", Value::Bool(true))]).unwrap();
    let (count, category) = (model.categories)(&params).unwrap();
    let rate = Rate::from_mbps(50);
    let shared = knee_link::registry::Shared::default();
    let init = knee_link::registry::Init { rate, seed: 1, name: "air", link: "air", shared: &shared };
    let queue = || {
        let init = Init { limit: Some(Limit::Packets(20)), overhead: OVERHEAD, rate, rng: Rng::stream(1, "queue") };
        (entry.make)(&Params::resolve(entry.params, []).unwrap(), &init)
    };
    let queues = ByCategory::new((0..count).map(|_| queue()).collect(), category);
    let server = Server::Medium(model.make.unwrap()(&params, &init));
    let mut link = Link::new(Box::new(queues), server, OVERHEAD, Loss::none(Rng::stream(1, "loss")));
    link.set_dscp(1, 46);
    for (flow, packets) in [(0, 20), (1, 2)] {
        let Burst { first, count } = burst(MS, 0, packets);
        link.arrive(&Burst { first: Packet { flow, ..first }, count }, MS);
    }
    let mut out = Vec::new();
    serve(&mut link, MS * 100, &mut out);
    let flows: Vec<u32> = out.iter().map(|departure| departure.packet.flow).collect();
    let voice = flows.iter().position(|flow| *flow == 1).unwrap();
    assert!(flows.len() == 22 && voice < 20, "{flows:?}");
    assert_eq!((link.held(), link.counters().bytes), (0, 22 * 1514));
}

#[test]
fn a_bucket_lets_a_burst_go_at_once_and_then_keeps_the_rate() {
    let bucket = || Server::bucket(RATE, Bytes(2 * 1514));
    let (mut one, mut out) = (link_with("pfifo", &[], Limit::Packets(9), bucket()), Vec::new());
    let now = MS * 10;
    one.arrive(&burst(now, 0, 5), now);
    assert_eq!((one.due(), one.held(), one.is_wire()), (now, 5, false));
    serve(&mut one, now, &mut out);
    // Two have tokens, and a third leaves on credit of what is exactly zero.
    assert_eq!(left(&mut out), [(0, now, Time::ZERO), (1, now, Time::ZERO), (2, now, Time::ZERO)]);
    assert_eq!((one.due(), one.held()), (now + MS, 2));
    // The third counts as its tokens come.
    let load = one.load(now);
    assert_eq!((load.carried, load.offered, load.saved), (2 * 1514 * 8, 10 * 1514 * 8, 0));
    one.set_rate(Rate::from_bps(RATE.as_bps() / 2), now);
    serve(&mut one, now + MS, &mut out);
    assert_eq!((left(&mut out), one.due()), (vec![], now + MS * 2), "the debt takes twice as long");
    serve(&mut one, now + MS * 9, &mut out);
    assert_eq!(left(&mut out), [(3, now + MS * 2, MS * 2), (4, now + MS * 4, MS * 4)]);
    assert_eq!((one.due(), one.counters().bytes, one.rate()), (Time::MAX, 5 * 1514, Some(RATE.as_bps() / 2)));
    assert_eq!(one.load(now + MS * 99).saved, 2 * 1514 * 8, "the depth stays in bytes");
}

/// Linux's htb dequeues after each packet that is enqueued: of a burst into an empty queue of three, as many leave at
/// once as there are tokens for, and three wait. (Measured on Linux 6.1: of a window of ten, five are dropped.)
#[test]
fn a_full_bucket_lets_packets_of_a_burst_pass_a_short_queue() {
    let server = || Server::bucket(RATE, Bytes(1600));
    for packets in [10, 4] {
        let (mut link, mut out) = (link(server()), Vec::new());
        link.arrive(&burst(MS, 0, packets), MS);
        // 1600 bytes of tokens let one go and, as they may fall below zero, another.
        let dropped: Vec<u64> = drops(&mut link).iter().map(|drop| drop.0).collect();
        assert_eq!(dropped, (5..u64::from(packets)).collect::<Vec<_>>());
        assert_eq!((link.due(), link.held()), (MS, u64::from(packets.min(5))));
        serve(&mut link, MS, &mut out);
        assert_eq!(left(&mut out), [(0, MS, Time::ZERO), (1, MS, Time::ZERO)]);
        assert_eq!(link.backlog().packets, u64::from(packets.min(5)) - 2);
        // One packet at a time from here on; tokens for 86 bytes were left.
        serve(&mut link, MS * 2, &mut out);
        assert_eq!(out.len(), 1);
    }
}

#[test]
fn a_trace_sends_at_its_opportunities_only() {
    let trace = Server::trace(&[0, 2, 2, 10], OVERHEAD);
    let (mut link, mut out) = (link_with("pfifo", &[], Limit::Packets(9), trace), Vec::new());
    assert_eq!(link.rate(), None);
    link.arrive(&burst(MS, 0, 3), MS);
    assert_eq!((link.due(), link.held()), (MS * 2, 3));
    serve(&mut link, MS * 9, &mut out);
    assert_eq!(left(&mut out), [(0, MS * 2, MS), (1, MS * 2, MS)]);
    serve(&mut link, MS * 10, &mut out);
    assert_eq!((left(&mut out), link.due()), (vec![(2, MS * 10, MS * 9)], Time::MAX));
    // A packet of more than two opportunities waits in service for a third.
    let long = Packet { payload: Payload::segment(9), size: 4000, ..Packet::default() };
    link.arrive(&Burst { first: long, count: 1 }, MS * 11);
    assert_eq!((link.due(), link.held(), link.backlog().packets), (MS * 12, 1, 1), "those at 10 ms are over");
    serve(&mut link, MS * 12, &mut out);
    assert_eq!((link.due(), link.held(), link.backlog().packets), (MS * 20, 1, 0));
    assert_eq!(link.load(MS * 12).carried, 5 * 1514 * 8, "two of them for the long one");
    serve(&mut link, MS * 20, &mut out);
    assert_eq!(left(&mut out).iter().map(|left| (left.0, left.1)).collect::<Vec<_>>(), [(9, MS * 20)]);
    let load = link.load(MS * 20);
    assert_eq!((load.carried, load.offered), ((3 * 1514 + 4014) * 8, (7 * 1514 + 986) * 8));
    // With the last packet the link has nothing more to do.
    link.arrive(&burst(MS * 21, 10, 1), MS * 21);
    assert!(link.serve(link.due()).is_some());
    assert_eq!(link.due(), Time::MAX);
}

#[test]
fn figures_of_a_load_are_off_by_two_bits_and_what_is_sent_in_two_nanoseconds() {
    let rounding = |rate| link(Server::wire(rate)).load(MS).rounding;
    assert_eq!((rounding(RATE), rounding(Rate::from_mbps(10_000))), (2, 22));
}

#[test]
fn a_wire_waits_for_a_queue_that_holds_packets_back_but_not_beyond_another_flow() {
    let given = [("flow_max_rate", Value::Rate(Rate::from_bps(RATE.as_bps() / 10)))];
    let (mut link, mut out) = (link_with("fq", &given, Limit::Packets(99), Server::wire(RATE)), Vec::new());
    let of = |flow, seq, at| Burst { first: Packet { flow, ..burst(at, seq, 1).first }, count: 1 };
    for seq in 0..12 {
        link.arrive(&of(1, seq, Time::ZERO), Time::ZERO);
    }
    // The quantum is sent, then the flow has to pause.
    while link.on_wire().is_some() {
        link.serve(link.due());
    }
    let wake = link.due();
    assert!(wake > MS * 3 && wake < Time::MAX && link.held() > 0, "{wake}");
    let now = wake - MS * 2;
    link.arrive(&of(2, 100, now), now);
    assert_eq!((link.due(), link.on_wire().unwrap().flow), (now + MS, 2), "it does not wait");
    serve(&mut link, wake, &mut out);
    assert_eq!(link.on_wire().unwrap().flow, 1, "at {wake} the first flow goes on");
    assert_eq!(left(&mut out), [(100, now + MS, Time::ZERO)]);
}

#[test]
fn what_queues_observe_is_handed_on() {
    let drawn = registry().iter().filter(|entry| {
        let mut link = link_with(entry.name, &[], Limit::Packets(50), Server::wire(RATE));
        link.arrive(&burst(Time::ZERO, 0, 20), Time::ZERO);
        let before = link.unbooked().1.len();
        link.observe(MS / 2);
        link.unbooked().1.len() > before && link.has_unbooked()
    });
    assert!(drawn.count() > 0, "no discipline has anything to draw over time");
}

#[test]
fn packets_are_accounted_for_after_each_step_and_drops_are_on_record_when_they_happen() {
    let mut at_dequeue = 0;
    for entry in registry() {
        let mut link = link_with(entry.name, &[], Limit::Packets(200), Server::wire(RATE));
        let (mut departed, mut dropped) = (0, 0);
        let mut check = |link: &mut Link, departure: Option<Departure>, now: Time| {
            let drops = drops(link);
            assert!(drops.iter().all(|drop| drop.1 == now), "{}: a drop at {now}", entry.name);
            let drops = drops.len() as u64;
            departed += u64::from(departure.is_some());
            dropped += drops;
            let Counters { arrived, departed: left, drops: counted, .. } = *link.counters();
            assert_eq!((left, counted), (departed, dropped), "{} at {now}", entry.name);
            assert_eq!(arrived, departed + dropped + link.held(), "{} at {now}", entry.name);
            drops
        };
        // Three flows send half as much again as the wire carries.
        for k in 0..600 {
            let now = MS * 2 * k;
            while link.due() <= now {
                let due = link.due();
                let departure = link.serve(due);
                at_dequeue += check(&mut link, departure, due);
            }
            let Burst { first, count } = burst(now, 3 * k, 3);
            link.arrive(&Burst { first: Packet { flow: k as u32 % 3, ..first }, count }, now);
            check(&mut link, None, now);
        }
    }
    assert!(at_dequeue > 0, "no discipline drops what it lets go");
}

/// Ends of spans, and what arrives, are at whole ones of these: much happens at the same time.
const STEP: Time = Time::from_micros(250);

#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Limit(u64),
    Rate(u64),
    Loss(f64),
}

fn server(kind: u8, rate: Rate) -> Server {
    match kind {
        0 => Server::bucket(rate, Bytes(4000)),
        1 => Server::trace(&[0, 1, 1, 3, 7], OVERHEAD),
        _ => Server::wire(rate),
    }
}

/// So many steps long, in which, after as many, packets of a flow and a size arrive, perhaps first of their time.
type Span = (u64, Vec<(u64, u32, u32, u16, bool)>, Then);

fn spans() -> impl Strategy<Value = Vec<Span>> {
    let then = prop_oneof![
        3 => Just(Then::Nothing),
        1 => (0u64..30).prop_map(Then::Limit),
        1 => (1_000_000u64..20_000_000).prop_map(Then::Rate),
        1 => (0.0f64..0.3).prop_map(Then::Loss),
    ];
    let size = prop_oneof![3 => Just(1500u16), 1 => 52u16..1500];
    let bursts = prop::collection::vec((0u64..200, 1u32..9, 0u32..4, size, any::<bool>()), 0..20);
    prop::collection::vec((1u64..200, bursts, then), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn many_arrivals_at_once_do_the_same_as_packet_by_packet(
        name in prop::sample::select(registry().iter().map(|entry| entry.name).collect::<Vec<_>>()),
        kind in 0u8..6,
        limit in 1u64..60,
        rate in prop_oneof![Just(RATE.as_bps()), 1_000_000u64..20_000_000],
        spans in spans(),
    ) {
        let new = || link_with(name, &[], Limit::Packets(limit), server(kind, Rate::from_bps(rate)));
        let (mut batch, mut single) = (new(), new());
        let (mut out, mut alone) = (Vec::new(), Vec::new());
        let (mut arrivals, mut from, mut seq) = (Arrivals::default(), Time::ZERO, 0);
        for (steps, mut bursts, then) in spans {
            for burst in &mut bursts {
                burst.0 %= steps;
            }
            // Those that go before what leaves at their time come before the others.
            bursts.sort_by_key(|burst| (burst.0, !burst.4));
            let mut arriving = Vec::new();
            for (after, count, flow, size, first) in bursts {
                let at = from + STEP * after;
                let packet = Packet { at, payload: Payload::segment(seq), flow, size, flags: Packet::ECT, ..Packet::default() };
                arriving.push((at, Burst { first: packet, count }, first && kind > 1));
                seq += u64::from(count);
            }
            for (at, Burst { first: packet, count }, first) in &arriving {
                while single.due() < *at || !first && single.due() == *at {
                    alone.extend(single.serve(single.due()));
                }
                for k in 0..*count {
                    let first = packet.behind(k);
                    single.arrive(&Burst { first, count: 1 }, *at);
                }
            }
            let until = from + STEP * steps;
            arrivals.clear(from);
            for (turn, (_, burst, first)) in (0..).zip(&arriving) {
                arrivals.push(*burst, turn, *first);
            }
            batch.advance(&mut arrivals, until, &mut out);
            serve(&mut single, until, &mut alone);
            for link in [&mut batch, &mut single] {
                match then {
                    Then::Nothing => {}
                    Then::Limit(packets) => link.set_limit(Limit::Packets(packets), until),
                    Then::Rate(rate) => link.set_rate(Rate::from_bps(rate), until),
                    Then::Loss(loss) => link.set_loss(loss),
                }
            }
            prop_assert_eq!(&out, &alone, "up to {}", until);
            prop_assert_eq!(batch.unbooked(), single.unbooked(), "up to {}", until);
            prop_assert_eq!((batch.due(), batch.on_wire()), (single.due(), single.on_wire()));
            prop_assert_eq!((batch.backlog(), batch.held()), (single.backlog(), single.held()));
            prop_assert_eq!((batch.counters(), batch.marks()), (single.counters(), single.marks()));
            let Counters { arrived, departed, drops, .. } = *batch.counters();
            prop_assert_eq!(arrived, departed + drops + batch.held());
            from = until;
        }
    }
}
