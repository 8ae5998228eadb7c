//! Laws of a sender, whatever packets and ACKs are lost, reordered, repeated or late.

use super::testing::{config, counted, frame, numbers, sender};
use super::{Outgoing, Sender, SenderInit, Violation};
use crate::config::Config;
use crate::frame::{AckFrame, Mark};
use crate::preset::ALL;
use crate::ranges::Ranges;
use crate::receiver::{Arrival, Receiver};
use knee_core::testing::Source;
use knee_core::{Bytes, Rng, Time};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A call of the sender.
#[derive(Debug)]
pub enum Event<'a> {
    Send,
    /// The timer of loss detection.
    Timer,
    Ack(&'a AckFrame),
}

/// Called after each event with what left, and the time.
pub type Watch<'a> = dyn FnMut(&Event, &Sender, &[Outgoing], Time) + 'a;

/// A sender, a receiver, and what is on its way between them.
pub struct Bench {
    pub config: Config,
    sender: Sender,
    receiver: Receiver,
    now: Time,
    packets: Vec<Arrival>,
    acks: Vec<AckFrame>,
    /// Packets that ACKs which arrived acknowledge.
    acknowledged: Ranges,
    /// The next packet number.
    next: u64,
}

/// Settings at random.
fn draw_config(source: &mut Source) -> Config {
    config(|settings| {
        settings.datagram = source.one_of(&[1200, 1200, 1452, 9000]);
        settings.min_window = source.one_of(&[1, 2]);
        settings.packet_threshold = source.range(3, 7) as u32;
        settings.time_threshold = source.one_of(&[1.125, 1.125, 1.0, 1.25]);
        settings.granularity = source.one_of(&[Time::from_millis(1), Time::from_nanos(1)]);
        settings.initial_rtt = Time::from_nanos(source.range(1_000, 1 << 29));
        settings.probes = source.range(1, 3) as u32;
        settings.persistent_congestion = source.range(0, 4) as u32;
        settings.max_ack_delay = Time::from_millis(source.one_of(&[25, 0, 5, 100]));
        settings.ack_every = source.one_of(&[2, 1, 10]);
        settings.reordering = source.range(0, 4) as u32;
        settings.ack_ranges = source.one_of(&[32, 1, 3]);
        settings.pacing = source.chance(64);
        settings.burst = source.range(1, 12) as u32;
        settings.receive_window = source.one_of(&[Bytes(1 << 30), Bytes(9_500)]);
    })
}

/// Settings at random, or a preset's.
fn draw_any_config(source: &mut Source) -> Config {
    let preset = source.maybe(|source| source.one_of(&ALL));
    preset.map_or_else(|| draw_config(source), |preset| config(|settings| *settings = (preset.settings)()))
}

impl Bench {
    /// One at random with this algorithm, whose settings RFC 9002's pseudocode has.
    pub fn draw(cc: &str, source: &mut Source) -> Self {
        let config = draw_config(source);
        Self::with(cc, &config, source)
    }

    /// One at random with this algorithm and these settings.
    fn with(cc: &str, config: &Config, source: &mut Source) -> Self {
        let bytes = source.maybe(|source| source.range(0, 60_000));
        let init = SenderInit { bytes, ecn: source.chance(100), ..SenderInit::default() };
        Self {
            sender: sender(cc, init, None, config),
            config: *config,
            receiver: Receiver::default(),
            now: Time::ZERO,
            packets: Vec::new(),
            acks: Vec::new(),
            acknowledged: Ranges::default(),
            next: 0,
        }
    }

    /// Calls the sender as long as `source` has something to say.
    pub fn run(&mut self, source: &mut Source, watch: &mut Watch) {
        self.call(&Event::Send, watch);
        while !source.is_empty() {
            match source.weighted(&[100, 100, 20, 10, 30, 10, 5, 5]) {
                // Mostly in order.
                0 if !self.packets.is_empty() => {
                    let i = if source.chance(200) { 0 } else { source.below(self.packets.len() as u64) as usize };
                    let mut packet = self.packets.remove(i);
                    if packet.mark != Mark::NotEct && source.chance(20) {
                        packet.mark = Mark::Ce;
                    }
                    let ack = self.receiver.on_packet(&packet, self.now, &self.config);
                    self.acks.extend(ack);
                }
                1 if !self.acks.is_empty() => {
                    let i = if source.chance(200) { 0 } else { source.below(self.acks.len() as u64) as usize };
                    let ack = self.acks.remove(i);
                    self.call(&Event::Ack(&ack), watch);
                }
                2 if !self.packets.is_empty() => drop(self.packets.remove(0)),
                3 if !self.acks.is_empty() => drop(self.acks.remove(0)),
                5 => self.acks.extend(self.acks.first().cloned()),
                6 => {
                    self.sender.write(source.range(0, 5_000));
                    self.call(&Event::Send, watch);
                }
                7 => self.refuse(),
                _ => self.wait(source, watch),
            }
        }
    }

    /// Time passes; timers fire when they are due, or late.
    fn wait(&mut self, source: &mut Source, watch: &mut Watch) {
        let late = source.chance(40);
        let end = self.now + Time::from_nanos(source.log_uniform(29));
        for _ in 0..20 {
            let due = self.sender.timer.not_before().min(self.sender.pacer.due).min(self.receiver.delayed.not_before());
            if due > end || self.sender.pto_count > 20 {
                break;
            }
            self.now = if late { end } else { due.max(self.now) };
            let acks = self.receiver.on_timer(self.now);
            self.acks.extend(acks);
            if self.sender.timer.not_before() <= self.now {
                self.call(&Event::Timer, watch);
            }
            if self.sender.pacer.due <= self.now {
                self.call(&Event::Send, watch);
            }
        }
        self.now = end;
    }

    fn call(&mut self, event: &Event, watch: &mut Watch) {
        let (mut out, now) = (Vec::new(), self.now);
        let timeouts = self.sender.totals().timeouts;
        match event {
            Event::Send => self.sender.send(now, &self.config, &mut out),
            Event::Timer => self.sender.on_timer(now, &self.config, &mut out),
            Event::Ack(ack) => {
                for range in ack.ranges() {
                    self.acknowledged.insert(range.0, range.1);
                }
                self.sender.on_ack(ack, now, &self.config, &mut out).unwrap();
            }
        }
        let probed = self.sender.totals().timeouts > timeouts;
        for burst in &out {
            assert_eq!(burst.first, self.next, "no number is used twice");
            self.next += u64::from(burst.count);
            let limit = self.config.settings.receive_window.0 + self.receiver.in_order();
            assert!(burst.offset + u64::from(burst.len) * u64::from(burst.count) <= limit, "the peer's window");
            self.packets.extend((burst.first..self.next).map(|number| Arrival::of(burst, number, burst.mark)));
        }
        let within = self.sender.bytes_in_flight() <= self.sender.window(&self.config);
        assert!(within || probed || out.is_empty(), "only probes leave beyond the window");
        self.conserves();
        watch(event, &self.sender, &out, now);
    }

    /// Each packet is in flight, acknowledged or lost, and bytes in flight are those of the packets in flight.
    fn conserves(&self) {
        let (sent, acknowledged, in_flight, lost) = self.sender.packets();
        assert_eq!((sent, sent), (self.next, acknowledged + u64::from(in_flight) + lost));
        let counted = counted(&self.sender, &self.config);
        assert_eq!(counted, (in_flight, self.sender.bytes_in_flight()));
        let open = numbers(&self.sender);
        assert!(open.iter().all(|number| !self.acknowledged.contains(*number)), "in flight and acknowledged");
        let known: u64 = self.acknowledged.as_slice().iter().map(|range| range.1 - range.0).sum();
        // A loss is forgotten after a while: an acknowledgment that comes later does not count.
        assert!(known >= acknowledged && sent - known - u64::from(in_flight) <= lost);
        for lost in &self.sender.lost_packets {
            assert!(
                !open.contains(&lost.number) && !self.acknowledged.contains(lost.number),
                "lost and something else"
            );
        }
    }

    /// An ACK of a packet that was not sent is refused, and changes nothing.
    fn refuse(&mut self) {
        let before = (self.sender.packets(), self.sender.timer, self.sender.control);
        let ack = frame(&[(0, self.next + 1)], Time::ZERO, None);
        let refused = self.sender.on_ack(&ack, self.now, &self.config, &mut Vec::new());
        assert_eq!(refused, Err(Violation::Unsent { largest: self.next, next: self.next }));
        assert_eq!((self.sender.packets(), self.sender.timer, self.sender.control), before);
    }
}

/// An arrival at the end of a pipe, which are ordered by time and then by insertion.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// Index of a packet that arrives.
    Packet(usize),
    /// Index of an ACK that arrives.
    Ack(usize),
}

/// A network that loses packets and ACKs, and delays each by itself.
struct Pipe {
    rng: Rng,
    /// Packets lost of 100.
    loss: u64,
    base: Time,
    jitter: u64,
}

impl Pipe {
    /// When what leaves now arrives; none if it is lost.
    fn arrival(&mut self, now: Time) -> Option<Time> {
        let (lost, extra) = (self.rng.next_u64() % 100 < self.loss, self.rng.next_u64() % (self.jitter + 1));
        (!lost).then_some(now + self.base + Time::from_nanos(extra))
    }
}

/// A whole transfer over a pipe. Gives when it was done.
fn transfer(cc: &str, bytes: u64, pipe: &mut Pipe, config: &Config) -> Time {
    let init = SenderInit { bytes: Some(bytes), ecn: true, ..SenderInit::default() };
    let mut sender = sender(cc, init, Some(pipe.base * 2), config);
    let (mut receiver, mut now, mut out) = (Receiver::default(), Time::ZERO, Vec::new());
    let (mut packets, mut acks, mut queue) = (Vec::new(), Vec::new(), BinaryHeap::new());
    sender.send(now, config, &mut out);
    for _ in 0..400_000 {
        for burst in out.drain(..) {
            for number in burst.first..burst.first + u64::from(burst.count) {
                let marked = burst.mark != Mark::NotEct && pipe.rng.next_u64().is_multiple_of(50);
                let mark = if marked { Mark::Ce } else { burst.mark };
                if let Some(at) = pipe.arrival(now) {
                    queue.push(Reverse((at, packets.len() + acks.len(), Next::Packet(packets.len()))));
                    packets.push(Arrival::of(&burst, number, mark));
                }
            }
        }
        if sender.done() {
            assert_eq!(receiver.in_order(), bytes);
            return now;
        }
        let due = [sender.timer.not_before(), sender.pacer.due, receiver.delayed.not_before()];
        let next = queue.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
        now = due.into_iter().min().unwrap().min(next).max(now);
        assert!(now < Time::MAX, "{cc}: nothing will happen");
        let mut ack = None;
        if next <= now {
            match queue.pop().unwrap().0.2 {
                Next::Packet(i) => ack = receiver.on_packet(&packets[i], now, config),
                Next::Ack(i) => drop(sender.on_ack(&acks[i], now, config, &mut out).unwrap()),
            }
        } else if due[0] <= now {
            sender.on_timer(now, config, &mut out);
        } else if due[1] <= now {
            sender.send(now, config, &mut out);
        } else {
            ack = receiver.on_timer(now);
        }
        if let Some((ack, at)) = ack.and_then(|ack| pipe.arrival(now).map(|at| (ack, at))) {
            queue.push(Reverse((at, packets.len() + acks.len(), Next::Ack(acks.len()))));
            acks.push(ack);
        }
    }
    panic!("{cc}: {bytes} bytes were not delivered, {:?}", sender.packets());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 300, ..ProptestConfig::default() })]

    /// The laws that [`Bench::call`] holds, with each algorithm.
    #[test]
    fn packets_are_conserved(bytes in prop::collection::vec(any::<u8>(), 0..1_500)) {
        let mut source = Source::new(&bytes);
        let entries = knee_cc::registry();
        let entry = &entries[usize::from(source.byte()) % entries.len()];
        let config = draw_any_config(&mut source);
        Bench::with(entry.name, &config, &mut source).run(&mut source, &mut |_, _, _, _| {});
    }

    /// All data arrives, however much is lost both ways.
    #[test]
    fn all_data_is_delivered(seed: u64, cc: u8, loss in 0u64..40, jitter in 0u64..30_000_000, draw: [u8; 40]) {
        let entries = knee_cc::registry();
        let entry = &entries[usize::from(cc) % entries.len()];
        let config = draw_any_config(&mut Source::new(&draw));
        let mut pipe = Pipe { rng: Rng::stream(seed, "pipe"), loss, base: Time::from_millis(10), jitter };
        transfer(entry.name, 50_000 + seed % 50_000, &mut pipe, &config);
    }

    /// A transfer that is repeated takes as long as before.
    #[test]
    fn a_transfer_repeats(seed: u64, loss in 0u64..20) {
        let time = || {
            let mut pipe = Pipe { rng: Rng::stream(seed, "pipe"), loss, base: Time::from_millis(5), jitter: 1_000_000 };
            transfer("cubic", 40_000, &mut pipe, &Config::default())
        };
        prop_assert_eq!(time(), time());
    }

    /// 6.2.1: with nothing acknowledged each probe timeout is twice as long as the one before.
    #[test]
    fn probe_timeouts_double_while_all_is_lost(rtt in 1u64..1_000_000_000, probes in 1u32..3, bytes in 1u64..9_999) {
        let config = config(|settings| settings.probes = probes);
        let init = SenderInit { bytes: Some(bytes), ..SenderInit::default() };
        let mut sender = sender("reno", init, Some(Time::from_nanos(rtt)), &config);
        sender.send(Time::ZERO, &config, &mut Vec::new());
        let mut times = vec![Time::ZERO];
        for _ in 0..12 {
            let (due, mut out) = (sender.timer.not_before(), Vec::new());
            sender.on_timer(due, &config, &mut out);
            prop_assert!(!out.is_empty() && out.len() <= probes as usize);
            times.push(due);
        }
        // PTO = RTT + max(2 RTT, 1 ms) + 25 ms.
        let first = rtt + 4 * (rtt / 2).max(250_000) + 25_000_000;
        for (i, pair) in times.windows(2).enumerate() {
            prop_assert_eq!((pair[1] - pair[0]).as_nanos(), first << i);
        }
        prop_assert_eq!((sender.control.cwnd, sender.view().lost), (10, 0));
    }
}
