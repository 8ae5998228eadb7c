//! Whole connections over a bottleneck: a wire behind a drop-tail buffer, in virtual time.

use knee_core::{Time, Value};
use knee_quinn::proto::congestion;
use knee_quinn::{AckFrequency, Control, Datagram, Peer, Quinn, Settings};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of the IPv4 and UDP headers.
const HEADERS: u64 = 28;

/// One direction: a buffer, a wire and a delay.
struct Path {
    ns_per_byte: u64,
    delay: Time,
    /// Bytes that may wait in the buffer.
    limit: u64,
    free_at: Time,
    on_the_way: VecDeque<(Time, Datagram)>,
    dropped: u64,
    carried: u64,
    /// UDP payload of the largest datagram.
    largest: usize,
}

impl Path {
    fn new(mbit_per_s: u64, delay: Time, limit: u64) -> Self {
        Self {
            ns_per_byte: 8000 / mbit_per_s,
            delay,
            limit,
            free_at: Time::ZERO,
            on_the_way: VecDeque::new(),
            dropped: 0,
            carried: 0,
            largest: 0,
        }
    }

    fn send(&mut self, now: Time, datagram: Datagram) {
        let size = datagram.bytes.len() as u64 + HEADERS;
        let waiting = self.free_at.saturating_sub(now).as_nanos() / self.ns_per_byte;
        if waiting + size > self.limit {
            self.dropped += 1;
            return;
        }
        self.carried += 1;
        self.largest = self.largest.max(datagram.bytes.len());
        self.free_at = self.free_at.max(now).saturating_add(Time::from_nanos(size * self.ns_per_byte));
        self.on_the_way.push_back((self.free_at.saturating_add(self.delay), datagram));
    }

    fn next(&self) -> Option<Time> {
        self.on_the_way.front().map(|(at, _)| *at)
    }
}

struct Outcome {
    ended_at: Time,
    received: u64,
    packets: u64,
    dropped: u64,
    srtt: Time,
    largest: usize,
    /// Datagrams of the receiver: ACKs, but for those of the handshake.
    acks: u64,
}

/// Runs a connection until it is finished or `duration` is over.
fn run(mut sender: Peer, mut receiver: Peer, mut there: Path, mut back: Path, duration: Time) -> Outcome {
    let mut now = Time::ZERO;
    loop {
        while let Some(datagram) = sender.transmit(now) {
            there.send(now, datagram);
        }
        while let Some(datagram) = receiver.transmit(now) {
            back.send(now, datagram);
        }
        if sender.finished() {
            break;
        }
        let next = [there.next(), back.next(), sender.deadline(), receiver.deadline()];
        let next = next.into_iter().flatten().min().expect("a connection always waits for something").max(now);
        if next > duration {
            break;
        }
        assert!(sender.ended().is_none() && receiver.ended().is_none(), "{:?}", sender.ended());
        now = next;
        while there.next().is_some_and(|at| at <= now) {
            let (_, datagram) = there.on_the_way.pop_front().unwrap();
            receiver.receive(now, datagram);
        }
        while back.next().is_some_and(|at| at <= now) {
            let (_, datagram) = back.on_the_way.pop_front().unwrap();
            sender.receive(now, datagram);
        }
        sender.fire(now);
        receiver.fire(now);
    }
    let srtt = sender.stats().unwrap().srtt;
    let Path { carried, dropped, largest, .. } = there;
    let (received, acks) = (receiver.received(), back.carried);
    Outcome { ended_at: now, received, packets: carried, dropped, srtt, largest, acks }
}

fn settings(seed: u64) -> Settings {
    Settings { seed, ..Settings::default() }
}

/// 20 Mbit/s, 40 ms, a buffer of one bandwidth-delay product.
fn paths() -> (Path, Path) {
    (Path::new(20, Time::from_millis(20), 100_000), Path::new(1000, Time::from_millis(20), 1_000_000))
}

fn transfer(cc: &str, bytes: Option<u64>, duration: Time) -> Outcome {
    transfer_with(Control::named(cc).unwrap(), bytes, duration)
}

fn transfer_with(control: Control, bytes: Option<u64>, duration: Time) -> Outcome {
    let stack = Quinn(Arc::new(control));
    let (there, back) = paths();
    let sender = Peer::connect(&stack, bytes, &settings(1), Time::ZERO);
    run(sender, Peer::receiver(&stack, &settings(2)), there, back, duration)
}

#[test]
fn a_transfer_arrives_whole() {
    let outcome = transfer("cubic", Some(5_000_000), Time::from_secs(60));
    assert_eq!(outcome.received, 5_000_000);
    assert!(outcome.ended_at < Time::from_secs(5), "{:?}", outcome.ended_at);
}

#[test]
fn each_algorithm_moves_data_and_the_same_way_twice() {
    for entry in knee_cc::registry() {
        let outcomes = [(); 2].map(|()| transfer(entry.name, None, Time::from_secs(10)));
        let [first, second] = &outcomes;
        println!(
            "{:10} {:6.2} Mbit/s, srtt {:5.1} ms, {} dropped of {}",
            entry.name,
            first.received as f64 * 8.0 / 10e6,
            first.srtt.as_millis_f64(),
            first.dropped,
            first.packets
        );
        assert_eq!((first.received, first.packets, first.dropped), (second.received, second.packets, second.dropped));
        // Half of the link, from the handshake and slow start on; thresholds of a data centre keep the rate low here.
        let least = if entry.needs.lossless { 1_000_000 } else { 12_000_000 };
        assert!(first.received > least, "{}: {} bytes in 10 s", entry.name, first.received);
    }
}

#[test]
fn slow_starts_that_watch_the_delay_lose_less_and_faster_ones_end_sooner_than_the_standard() {
    let outcome = |kind| {
        let saved = [("saved_cwnd", Value::Count(80)), ("saved_rtt", Value::Time(Time::from_millis(40)))];
        let given = [("slow_start", Value::Choice(kind)), saved[0], saved[1]];
        let outcome = transfer_with(Control::with("cubic", given).unwrap(), Some(2_000_000), Time::from_secs(10));
        println!("{kind}: {} dropped, {}", outcome.dropped, outcome.ended_at);
        assert_eq!(outcome.received, 2_000_000, "{kind}");
        outcome
    };
    let standard = outcome("standard");
    for kind in ["hystart", "hystart++"] {
        assert!(outcome(kind).dropped < standard.dropped / 2, "{kind}");
    }
    for kind in ["careful_resume", "rapid_start"] {
        assert!(outcome(kind).ended_at < standard.ended_at, "{kind}");
    }
}

/// RFC 8899: the search for the path's MTU ends at what it may try, or less than 20 B below: quinn looks no closer.
#[test]
fn datagrams_grow_to_the_greatest_that_is_set() {
    for (initial, most) in [(1200, 1452), (1200, 1201), (1200, 1220), (1300, 1472), (1400, 1400)] {
        let set = |seed| Settings { seed, mtu: [1200, initial, most], ..Settings::default() };
        let stack = Quinn(Arc::new(Control::named("reno").unwrap()));
        let (there, back) = paths();
        let sender = Peer::connect(&stack, Some(500_000), &set(1), Time::ZERO);
        let outcome = run(sender, Peer::receiver(&stack, &set(2)), there, back, Time::from_secs(5));
        assert_eq!(outcome.received, 500_000);
        assert!((usize::from(most) - 19..=usize::from(most)).contains(&outcome.largest), "{most}: {}", outcome.largest);
    }
}

/// RFC 9000, 13.2.2: by default every second packet is acknowledged; draft-ietf-quic-ack-frequency, 4: each one more
/// than the threshold, from a round trip on.
#[test]
fn packets_are_acknowledged_as_often_as_is_set() {
    let acks = |threshold| {
        let acks = AckFrequency { threshold, max_delay: Time::from_millis(40) };
        let set = |seed| Settings { seed, acks, ..Settings::default() };
        let stack = Quinn(Arc::new(Control::named("reno").unwrap()));
        // No packet is lost: a gap is acknowledged at once.
        let there = Path::new(20, Time::from_millis(20), 10_000_000);
        let sender = Peer::connect(&stack, Some(2_000_000), &set(1), Time::ZERO);
        let outcome = run(sender, Peer::receiver(&stack, &set(2)), there, paths().1, Time::from_secs(5));
        assert_eq!((outcome.received, outcome.dropped), (2_000_000, 0));
        outcome.packets as f64 / outcome.acks as f64
    };
    for (threshold, each) in [(0, 1.0), (1, 2.0), (3, 4.0), (9, 10.0)] {
        let found = acks(threshold);
        assert!((0.85..1.05).contains(&(found / each)), "every {found} packets, not {each}");
    }
}

/// quinn's own CUBIC and ours are the same algorithm.
#[test]
fn cubic_is_about_as_fast_as_quinns_own() {
    let own = transfer("cubic", None, Time::from_secs(20));
    let (there, back) = paths();
    let quinns = Quinn(Arc::new(congestion::CubicConfig::default()));
    let sender = Peer::connect(&quinns, None, &settings(1), Time::ZERO);
    let theirs = run(sender, Peer::receiver(&quinns, &settings(2)), there, back, Time::from_secs(20));
    println!("{} {} {} {}", own.received, own.dropped, theirs.received, theirs.dropped);
    let ratio = own.received as f64 / theirs.received as f64;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}
