//! A small network for tests of a paper's claim: N endless flows over one FIFO link, packet by packet.
//!
//! ```text
//! sender 1 ─┐
//!           ├─► FIFO (rate, buffer; optional random loss, optional marking) ─► receiver: one ACK a packet ─┐
//! sender N ─┘                                                                                             │
//!    ▲                        base RTT of the flow, all of it behind the queue                            │
//!    └──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The link is the simulator's (`knee-link`), with a wire and `pfifo`. The senders (`flow.rs`) are simpler than the
//! simulator's.
//!
//! ```ignore
//! let mut net = Dumbbell::new(Rate::from_mbps(12), 100);
//! net.add(&reno::ENTRY, &[], Time::from_millis(40), Time::ZERO);
//! net.run(Time::from_secs(10));                       // settle
//! let seen = net.measure(Time::from_secs(60));        // goodput per flow, queue, drops
//! ```
//!
//! The rate and the base RTTs may change between two runs.

use super::flow::{Flow, Next};
use crate::{Entry, Init, StateEvent};
use knee_core::packet::{MSS, MTU};
use knee_core::{Packet, Params, Payload, Rate, Rng, Time, Value};
use knee_link::queue::{Burst, Limit};
use knee_link::{Departure, Link, Loss, Outcome, Server};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How often a flow looks whether its retransmission timeout has passed.
const TIMER: Time = Time::from_millis(250);
const TENTH: Time = Time::from_millis(100);
/// Whose packets the backlog at the start is.
const NOBODY: u32 = u32::MAX;

/// Whether two worked numbers agree to nine digits.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// What [`Dumbbell::measure`] saw.
#[derive(Debug)]
pub struct Measured {
    /// Packets delivered per flow.
    pub delivered: Vec<u64>,
    /// Rate delivered per flow, Mbit/s of IP packets.
    pub mbps: Vec<f64>,
    /// Packets waiting for the link, on average over time (the one in service not counted).
    pub queue: f64,
    /// The most packets that an arriving packet found waiting.
    pub queue_max: u64,
    /// The shortest and the longest sojourn in the queue.
    pub delay: (Time, Time),
    /// Packets lost, to the full buffer and at random.
    pub drops: u64,
}

impl Measured {
    /// Sum over all flows, Mbit/s.
    pub fn total(&self) -> f64 {
        self.mbps.iter().sum()
    }

    /// Jain's index of the flows' rates.
    pub fn jain(&self) -> f64 {
        let squares: f64 = self.mbps.iter().map(|x| x * x).sum();
        self.total() * self.total() / (squares * self.mbps.len() as f64)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ack { flow: usize, tx: u64, ce: bool },
    Send { flow: usize },
    Timer { flow: usize },
}

/// See the file's head.
pub struct Dumbbell {
    /// Initial window of flows to be added, in packets.
    pub initial_window: u32,
    /// The flows.
    pub flows: Vec<Flow>,
    /// The time.
    pub now: Time,
    /// Longest sojourn in the queue per tenth of a second.
    pub peaks: Vec<Time>,
    link: Link,
    outcome: Outcome,
    buffer: usize,
    mark_above: u64,
    order: u64,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    waited: Time,
    queue_max: u64,
    delay: (Time, Time),
}

fn link(rate: Rate, buffer: usize, rng: Rng) -> Link {
    let pfifo = knee_queue::find("pfifo").unwrap();
    let params = Params::resolve(pfifo.params, []).unwrap();
    let init = knee_queue::Init { limit: Some(Limit::Packets(buffer as u64)), overhead: 0, rate, rng: rng.clone() };
    Link::new((pfifo.make)(&params, &init), Server::wire(rate), 0, Loss::none(rng))
}

impl Dumbbell {
    /// A link of `rate` with room for `buffer` waiting packets.
    pub fn new(rate: Rate, buffer: usize) -> Self {
        Self {
            initial_window: 10,
            flows: Vec::new(),
            now: Time::ZERO,
            peaks: vec![Time::ZERO],
            link: link(rate, buffer, Rng::stream(1, "dumbbell")),
            outcome: Outcome::default(),
            buffer,
            mark_above: u64::MAX,
            order: 0,
            events: BinaryHeap::new(),
            waited: Time::ZERO,
            queue_max: 0,
            delay: (Time::MAX, Time::ZERO),
        }
    }

    /// Drops each packet with probability `loss` before the queue.
    pub fn with_loss(self, loss: f64) -> Self {
        self.with_loss_from(loss, Rng::stream(1, "dumbbell"))
    }

    /// The same; `rng` draws which packets get lost.
    pub fn with_loss_from(mut self, loss: f64, rng: Rng) -> Self {
        self.link = link(self.rate(), self.buffer, rng);
        self.link.set_loss(loss);
        self
    }

    /// Marks packets that find more than `packets` waiting.
    pub fn with_marks_above(self, packets: u64) -> Self {
        Self { mark_above: packets, ..self }
    }

    /// Lets that many packets be at the link from the beginning.
    pub fn with_backlog(mut self, packets: u32) -> Self {
        let first = Packet { flow: NOBODY, size: MTU, ..Packet::default() };
        self.link.arrive(&Burst { first, count: packets }, Time::ZERO, &mut self.outcome);
        self
    }

    /// One flow with its defaults on a link of its own.
    pub fn single(entry: &'static Entry, rate: Rate, buffer: usize, base_rtt: Time) -> Self {
        let mut net = Self::new(rate, buffer);
        net.add(entry, &[], base_rtt, Time::ZERO);
        net
    }

    /// Adds a flow; returns its index. Its handshake has measured `base_rtt`.
    pub fn add(&mut self, entry: &'static Entry, given: &[(&str, Value)], base_rtt: Time, start: Time) -> usize {
        let params = Params::resolve(entry.params, given.iter().copied()).unwrap();
        let (flow, cwnd) = (self.flows.len(), self.initial_window);
        let rng = Rng::stream(flow as u64 + 1, "flow");
        let paced = entry.needs.pacing;
        let init = Init {
            now: start,
            rtt: base_rtt,
            cwnd,
            mss: u32::from(MSS),
            tick: Time::ZERO,
            paced,
            accurate_ecn: false,
            rng,
        };
        self.flows.push(Flow::new(entry, (entry.make)(&params, &init), &init));
        self.flows[flow].tell(StateEvent::Start);
        self.at(start, Event::Send { flow });
        self.at(start + TIMER, Event::Timer { flow });
        flow
    }

    /// Rate of the link.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.link.rate().unwrap())
    }

    /// Changes the rate of the link from now on.
    pub fn set_rate(&mut self, rate: Rate) {
        self.link.set_rate(rate, self.now, &mut self.outcome);
    }

    /// Packets waiting for the link now.
    pub fn queue(&self) -> u64 {
        self.link.backlog().packets
    }

    /// Packets lost so far.
    pub fn drops(&self) -> u64 {
        self.link.counters().drops
    }

    /// Runs up to `until`.
    pub fn run(&mut self, until: Time) {
        self.run_while(until, |_| true);
    }

    /// Runs up to `until`, or to the first event of a sender after which `go_on` says no; returns whether it came to that.
    pub fn run_while(&mut self, until: Time, mut go_on: impl FnMut(&Self) -> bool) -> bool {
        loop {
            let next = self.events.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
            if next.min(self.link.due()) > until {
                self.advance(until);
                return false;
            }
            if self.link.due() <= next {
                self.depart();
                continue;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else { continue };
            self.advance(at);
            match event {
                Event::Ack { flow, tx, ce } => {
                    self.flows[flow].on_ack(at, tx, ce);
                    self.send(flow);
                }
                Event::Send { flow } => {
                    // Another one was set for an earlier time since.
                    if self.flows[flow].wake_at == at {
                        self.flows[flow].wake_at = Time::MAX;
                        self.send(flow);
                    }
                }
                Event::Timer { flow } => {
                    if self.flows[flow].on_timer(at) {
                        self.send(flow);
                    }
                    self.at(at + TIMER, Event::Timer { flow });
                }
            }
            if !go_on(self) {
                return true;
            }
        }
    }

    fn advance(&mut self, to: Time) {
        while self.now.floor_to(TENTH) < to.floor_to(TENTH) {
            self.now = self.now.floor_to(TENTH) + TENTH;
            for flow in &mut self.flows {
                flow.series.push(flow.view.delivered);
            }
            self.peaks.push(Time::ZERO);
        }
        self.now = to;
    }

    /// Runs up to `until` and tells what went on meanwhile.
    pub fn measure(&mut self, until: Time) -> Measured {
        let (from, waited, drops) = (self.now, self.waited, self.drops());
        (self.queue_max, self.delay) = (0, (Time::MAX, Time::ZERO));
        let before: Vec<u64> = self.flows.iter().map(|f| f.view.delivered).collect();
        self.run(until);
        let span = (until - from).as_secs_f64();
        let delivered: Vec<u64> = self.flows.iter().zip(before).map(|(f, before)| f.view.delivered - before).collect();
        Measured {
            mbps: delivered.iter().map(|n| *n as f64 * f64::from(MTU) * 8e-6 / span).collect(),
            delivered,
            // Little's law: mean number waiting = time waited by all / time.
            queue: (self.waited - waited).as_secs_f64() / span,
            queue_max: self.queue_max,
            delay: self.delay,
            drops: self.drops() - drops,
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    /// Lets a flow send what it may.
    fn send(&mut self, flow: usize) {
        loop {
            let rate = self.rate();
            match self.flows[flow].next(self.now, rate) {
                Next::Packet(tx) => self.arrive(flow, tx),
                Next::Wait(Some(at)) => return self.at(at, Event::Send { flow }),
                Next::Wait(None) => return,
            }
        }
    }

    /// A packet comes from its sender to the link.
    fn arrive(&mut self, flow: usize, tx: u64) {
        let waiting = self.queue();
        let flags = if waiting > self.mark_above { Packet::CE } else { 0 };
        let drops = self.drops();
        let payload = Payload::segment(tx);
        let first = Packet { arrived: self.now, payload, flow: flow as u32, size: MTU, flags, ..Packet::default() };
        self.link.arrive(&Burst { first, count: 1 }, self.now, &mut self.outcome);
        if self.drops() == drops {
            self.queue_max = self.queue_max.max(waiting);
        }
    }

    /// The packet that the link sends leaves it, and is acknowledged.
    fn depart(&mut self) {
        self.advance(self.link.due());
        self.link.serve(self.now, &mut self.outcome);
        self.outcome.dropped.clear();
        for Departure { packet, sojourn } in std::mem::take(&mut self.outcome.departed) {
            let Some(flow) = self.flows.get(packet.flow as usize) else { continue };
            self.waited += sojourn;
            self.delay = (self.delay.0.min(sojourn), self.delay.1.max(sojourn));
            if let Some(peak) = self.peaks.last_mut() {
                *peak = (*peak).max(sojourn);
            }
            let (home, ce) = (self.now + flow.base_rtt, packet.has(Packet::CE));
            self.at(home, Event::Ack { flow: packet.flow as usize, tx: packet.payload.seq(), ce });
        }
    }
}

mod tests {
    use super::*;
    use crate::reno;

    #[test]
    fn two_reno_flows_fill_a_link_with_one_bdp_of_buffer_and_share_it() {
        // 12 Mbit/s = 1000 packets/s; 40 ms: BDP 40 packets. With a buffer of one BDP half the peak window still
        // fills the pipe, so nothing is left idle.
        let mut net = Dumbbell::new(Rate::from_mbps(12), 40);
        net.add(&reno::ENTRY, &[], Time::from_millis(40), Time::ZERO);
        net.add(&reno::ENTRY, &[], Time::from_millis(40), Time::from_millis(300));
        net.run(Time::from_secs(20));
        let seen = net.measure(Time::from_secs(120));
        assert!(seen.total() > 11.5 && seen.total() <= 12.0, "{seen:?}");
        assert!(seen.jain() > 0.9, "{seen:?}");
        assert!(seen.queue < 40.0 && seen.queue_max < 40 && seen.drops > 0 && net.queue() < 40, "{seen:?}");
        assert!(net.flows[0].control.cwnd >= 2);
    }

    #[test]
    fn marks_reduce_as_losses_do_and_random_loss_takes_its_share() {
        let mut marked = Dumbbell::new(Rate::from_mbps(12), 1000).with_marks_above(20);
        marked.add(&reno::ENTRY, &[], Time::from_millis(20), Time::ZERO);
        marked.run(Time::from_secs(5));
        let seen = marked.measure(Time::from_secs(20));
        assert!(seen.drops == 0 && seen.queue_max < 60 && seen.total() > 11.0, "{seen:?}");

        let mut lossy = Dumbbell::new(Rate::from_mbps(12), 1000).with_loss(0.02);
        lossy.add(&reno::ENTRY, &[], Time::from_millis(40), Time::ZERO);
        lossy.run(Time::from_secs(10));
        // Mathis et al. 1997: W = sqrt(3/(2p)) = 8.7 packets; 8.7 packets in 41 ms are 2.5 Mbit/s.
        let seen = lossy.measure(Time::from_secs(200));
        assert!((1.9..3.1).contains(&seen.total()), "{seen:?}");
    }
}
