//! A tiny network for tests of a paper's claim: N endless flows over one FIFO link, packet by packet.
//!
//! ```text
//! sender 1 ─┐
//!           ├─► FIFO (rate, buffer; optional random loss, optional marking) ─► receiver: one ACK a packet ─┐
//! sender N ─┘                                                                                             │
//!    ▲                        base RTT of the flow, all of it behind the queue                            │
//!    └──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! It calls an algorithm as the real sender does, in the same order, and leaves out what such a test does not need:
//! a packet is deemed lost once one sent three later was delivered, a reduction takes the window to `ssthresh` at
//! once instead of by proportional rate reduction, the timer is a coarse one, every packet is acknowledged, and the
//! first window leaves at the link's rate.
//!
//! ```ignore
//! let mut net = Dumbbell::new(Rate::from_mbps(12), 100);
//! net.add(&reno::ENTRY, &[], Time::from_millis(40), Time::ZERO);
//! net.run(Time::from_secs(10));                       // settle
//! let seen = net.measure(Time::from_secs(60));        // goodput per flow, queue, drops
//! ```
//!
//! Rate, loss and base RTTs may be changed between two runs.

use super::events;
use crate::{
    Ack, CaState, Congestion, Control, DynCongestionControl, Entry, Init, RateSample, Sent, Signal, StateChange,
    StateEvent, View,
};
use knee_core::packet::{MSS, MTU};
use knee_core::{Bytes, Params, Rate, Rng, Time, Value};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

const PACKET: Bytes = Bytes(MTU as u64);
const PAYLOAD: Bytes = Bytes(MSS as u64);
const TIMER: Time = Time::from_millis(250);
const TENTH: Time = Time::from_millis(100);

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
    /// The most packets that waited.
    pub queue_max: usize,
    /// The least and the longest time a packet would have waited, looked at whenever one left its sender.
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

#[derive(Clone, Copy)]
struct Transmission {
    seq: u64,
    sent: Time,
    retransmission: bool,
    /// Whether its fate is known.
    settled: bool,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    lost: u64,
    in_flight: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ack { flow: usize, tx: u64, ce: bool },
    Send { flow: usize },
    Timer { flow: usize },
}

/// A flow, its sender and its algorithm.
pub struct Flow {
    entry: &'static Entry,
    /// The algorithm.
    pub cc: Box<dyn DynCongestionControl>,
    /// What it answered last.
    pub control: Control,
    /// The sender.
    pub view: View,
    /// Delay of the path without the link's own.
    pub base_rtt: Time,
    /// Phases and when they were entered.
    pub phases: Vec<(Time, u8)>,
    /// Longest RTT since this was last set to zero.
    pub rtt_max: Time,
    /// Reductions of the window so far, of any cause.
    pub reductions: u32,
    /// Packets delivered by the end of every tenth of a second.
    pub series: Vec<u64>,
    initial_window: u32,
    /// By order of transmission, from number `first_tx` on.
    in_flight: VecDeque<Transmission>,
    first_tx: u64,
    ahead: BTreeSet<u64>,
    to_repeat: VecDeque<u64>,
    reduction_end: u64,
    limited_until: u64,
    wake_at: Time,
    delivered_at: Time,
    first_sent: Time,
    last_ack: Time,
}

/// See the file's head.
pub struct Dumbbell {
    /// Rate of the link.
    pub rate: Rate,
    /// Probability of a packet's loss before the queue.
    pub loss: f64,
    /// Initial window of flows to be added, in packets.
    pub initial_window: u32,
    /// The flows.
    pub flows: Vec<Flow>,
    /// The time.
    pub now: Time,
    /// Packets lost so far.
    pub drops: u64,
    /// Draws which packets get lost.
    pub rng: Rng,
    buffer: usize,
    mark_above: usize,
    order: u64,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    /// When each packet in the queue or on the link leaves it.
    departures: VecDeque<Time>,
    waited: Time,
    queue_max: usize,
    delay: (Time, Time),
    /// Longest queueing delay per tenth of a second.
    pub peaks: Vec<Time>,
}

impl Dumbbell {
    /// A link of `rate` with room for `buffer` waiting packets.
    pub fn new(rate: Rate, buffer: usize) -> Self {
        Self {
            rate,
            loss: 0.0,
            initial_window: 10,
            flows: Vec::new(),
            now: Time::ZERO,
            drops: 0,
            buffer,
            mark_above: usize::MAX,
            rng: Rng::stream(1, "dumbbell"),
            order: 0,
            events: BinaryHeap::new(),
            departures: VecDeque::new(),
            waited: Time::ZERO,
            queue_max: 0,
            delay: (Time::MAX, Time::ZERO),
            peaks: vec![Time::ZERO],
        }
    }

    /// Drops each packet with probability `loss` before the queue.
    pub fn with_loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// Marks packets that find more than `packets` waiting.
    pub fn with_marks_above(self, packets: usize) -> Self {
        Self { mark_above: packets, ..self }
    }

    /// Lets that many packets wait from the beginning.
    pub fn with_backlog(mut self, packets: u64) -> Self {
        self.departures = (1..=packets).map(|n| self.rate.time_for(PACKET) * n).collect();
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
        let init = Init { now: start, rtt: base_rtt, cwnd, mss: u32::from(MSS), tick: Time::ZERO, paced, rng };
        self.flows.push(Flow {
            entry,
            cc: (entry.make)(&params, &init),
            control: Control::initial(cwnd),
            view: View { now: start, srtt: base_rtt, min_rtt: base_rtt, ..events::view() },
            base_rtt,
            phases: vec![(start, 0)],
            rtt_max: Time::ZERO,
            reductions: 0,
            series: Vec::new(),
            initial_window: cwnd,
            in_flight: VecDeque::new(),
            first_tx: 0,
            ahead: BTreeSet::new(),
            to_repeat: VecDeque::new(),
            reduction_end: 0,
            limited_until: 0,
            wake_at: start,
            delivered_at: start,
            first_sent: start,
            last_ack: start,
        });
        self.flows[flow].tell(StateEvent::Start);
        self.at(start, Event::Send { flow });
        self.at(start + TIMER, Event::Timer { flow });
        flow
    }

    /// Packets waiting for the link now.
    pub fn queue(&mut self) -> usize {
        while self.departures.front().is_some_and(|t| *t <= self.now) {
            self.departures.pop_front();
        }
        self.departures.len().saturating_sub(1)
    }

    /// Runs up to `until`.
    pub fn run(&mut self, until: Time) {
        self.run_while(until, |_| true);
    }

    /// Runs up to `until`, or to the first event after which `go_on` says no; returns whether it came to that.
    pub fn run_while(&mut self, until: Time, mut go_on: impl FnMut(&Self) -> bool) -> bool {
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at <= until
        {
            self.events.pop();
            self.advance(at);
            match event {
                Event::Ack { flow, tx, ce } => self.ack(flow, tx, ce),
                Event::Send { flow } => {
                    // Another one was set for an earlier time since.
                    if self.flows[flow].wake_at == at {
                        self.flows[flow].wake_at = Time::MAX;
                        self.send(flow);
                    }
                }
                Event::Timer { flow } => self.timer(flow),
            }
            if !go_on(self) {
                return true;
            }
        }
        self.advance(until);
        false
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
        let (from, waited, drops) = (self.now, self.waited, self.drops);
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
            drops: self.drops - drops,
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn send(&mut self, flow: usize) {
        loop {
            let now = self.now;
            let f = &mut self.flows[flow];
            f.view.now = now;
            if f.view.in_flight >= f.control.cwnd {
                f.limited_until = f.view.snd_nxt;
                return;
            }
            if f.view.paced_until > now {
                if f.wake_at > f.view.paced_until {
                    f.wake_at = f.view.paced_until;
                    let at = f.view.paced_until;
                    self.at(at, Event::Send { flow });
                }
                return;
            }
            let gap = f.gap(self.rate);
            f.view.paced_until = now.saturating_add(gap);
            self.transmit(flow);
        }
    }

    fn transmit(&mut self, flow: usize) {
        let now = self.now;
        let f = &mut self.flows[flow];
        if f.in_flight.is_empty() {
            (f.first_sent, f.delivered_at, f.last_ack) = (now, now, now);
            f.tell(StateEvent::Restart);
        }
        let repeated = f.to_repeat.pop_front();
        let seq = repeated.unwrap_or(f.view.snd_nxt);
        f.view.snd_nxt = f.view.snd_nxt.max(seq + 1);
        f.view.in_flight += 1;
        let tx = f.first_tx + f.in_flight.len() as u64;
        f.in_flight.push_back(Transmission {
            seq,
            sent: now,
            retransmission: repeated.is_some(),
            settled: false,
            delivered: f.view.delivered,
            delivered_at: f.delivered_at,
            first_sent: f.first_sent,
            lost: f.view.lost,
            in_flight: f.view.in_flight,
        });
        if f.entry.needs.sent {
            let sent = Sent { view: &f.view, packets: 1, retransmission: repeated.is_some() };
            let control = events::after(f.control, |c| f.cc.on_sent(&sent, c));
            f.take(control);
        }
        let base_rtt = f.base_rtt;

        let waiting = self.queue();
        if self.loss > 0.0 && self.rng.chance(self.loss) || waiting >= self.buffer {
            self.drops += 1;
            return;
        }
        self.queue_max = self.queue_max.max(waiting);
        let begin = self.departures.back().map_or(now, |last| now.max(*last));
        let delay = begin - now;
        self.waited += delay;
        self.delay = (self.delay.0.min(delay), self.delay.1.max(delay));
        if let Some(peak) = self.peaks.last_mut() {
            *peak = (*peak).max(delay);
        }
        let leaves = begin + self.rate.time_for(PACKET);
        self.departures.push_back(leaves);
        self.at(leaves + base_rtt, Event::Ack { flow, tx, ce: waiting > self.mark_above });
    }

    fn ack(&mut self, flow: usize, tx: u64, ce: bool) {
        let f = &mut self.flows[flow];
        f.view.now = self.now;
        // A packet given up as lost that arrives after all: its repetition counts.
        let Some(index) = tx.checked_sub(f.first_tx) else { return };
        let packet = f.in_flight[index as usize];
        f.in_flight[index as usize].settled = true;
        let (prior_in_flight, prior_una) = (f.view.in_flight, f.view.snd_una);
        f.last_ack = self.now;
        f.view.in_flight -= 1;
        f.view.delivered += 1;
        f.view.delivered_ce += u64::from(ce);
        if packet.seq == f.view.snd_una && f.ahead.is_empty() {
            f.view.snd_una += 1;
        } else {
            f.ahead.insert(packet.seq);
            while f.ahead.remove(&f.view.snd_una) {
                f.view.snd_una += 1;
            }
        }
        let rtt = (!packet.retransmission).then(|| (self.now - packet.sent).floor_to(Time::from_micros(1)));
        if let Some(rtt) = rtt {
            f.view.srtt = ((f.view.srtt * 7 + rtt) / 8).floor_to(Time::from_micros(1));
            f.view.min_rtt = f.view.min_rtt.min(rtt);
            f.rtt_max = f.rtt_max.max(rtt);
        }
        let interval = (packet.sent - packet.first_sent).max(self.now - packet.delivered_at);
        (f.first_sent, f.delivered_at) = (packet.sent, self.now);
        let lost = f.give_up(tx);

        let slow_start_limited = f.control.in_slow_start() && f.control.cwnd < 2 * prior_in_flight;
        let (view, rate) = (
            f.view,
            RateSample {
                delivered: (f.view.delivered - packet.delivered) as u32,
                delivered_ce: u32::from(ce),
                interval: (interval >= f.view.min_rtt).then_some(interval),
                prior_delivered: packet.delivered,
                prior_lost: packet.lost,
                tx_in_flight: packet.in_flight,
                is_retrans: packet.retransmission,
                ..RateSample::NONE
            },
        );
        let ack = Ack {
            view: &view,
            rtt,
            acked: (f.view.snd_una - prior_una) as u32,
            delivered: 1,
            lost,
            prior_in_flight,
            prior_una,
            cwnd_limited: prior_una <= f.limited_until || slow_start_limited,
            ece: ce,
            rate: &rate,
        };
        let control = events::after(f.control, |c| f.cc.on_measure(&ack, c));
        f.take(control);
        if f.view.ca != CaState::Open && f.view.snd_una >= f.reduction_end {
            f.finish();
        }
        if f.view.ca == CaState::Open && lost > 0 {
            f.reduce(Signal::Loss, CaState::Recovery);
        } else if f.view.ca == CaState::Open && ce && f.entry.needs.ecn == crate::Ecn::Classic {
            f.reduce(Signal::Ecn, CaState::Cwr);
        }
        let view = f.view;
        let ack = Ack { view: &view, ..ack };
        let grows = matches!(f.view.ca, CaState::Open | CaState::Loss);
        if f.entry.needs.full_control || grows {
            let control = events::after(f.control, |c| f.cc.on_ack(&ack, c));
            f.reductions += u32::from(control.cwnd < f.control.cwnd);
            f.take(control);
        }
        self.send(flow);
    }

    fn timer(&mut self, flow: usize) {
        let f = &mut self.flows[flow];
        f.view.now = self.now;
        let rto = (f.view.srtt * 2).max(Time::from_millis(500));
        if f.view.in_flight > 0 && self.now.saturating_sub(f.last_ack) > rto {
            let gone = std::mem::take(&mut f.in_flight);
            f.first_tx += gone.len() as u64;
            f.to_repeat.extend(gone.iter().filter(|p| !p.settled).map(|p| p.seq));
            f.view.lost += u64::from(f.view.in_flight);
            f.view.in_flight = 0;
            f.tell(StateEvent::Timeout);
            f.reduce(Signal::Timeout, CaState::Loss);
            f.view.paced_until = self.now;
            self.send(flow);
        }
        self.at(self.now + TIMER, Event::Timer { flow });
    }
}

impl Flow {
    /// How long pacing holds the next packet.
    fn gap(&self, link: Rate) -> Time {
        if self.entry.needs.pacing {
            let own = Rate::over(Bytes(PAYLOAD.0 * u64::from(self.control.cwnd)), self.view.srtt);
            let percent = if self.control.cwnd < self.control.ssthresh / 2 { 200 } else { 120 };
            self.control.pacing_rate.unwrap_or(own.mul_div(percent, 100)).time_for(PAYLOAD)
        } else if self.view.snd_nxt < u64::from(self.initial_window) {
            link.time_for(PACKET)
        } else {
            Time::ZERO
        }
    }

    /// Gives up as lost what was sent three or more before `tx`; returns how many.
    fn give_up(&mut self, tx: u64) -> u32 {
        let mut lost = 0;
        while let Some(first) = self.in_flight.front()
            && (first.settled || self.first_tx + 2 < tx)
        {
            if !first.settled {
                self.to_repeat.push_back(first.seq);
                lost += 1;
            }
            self.in_flight.pop_front();
            self.first_tx += 1;
        }
        self.view.lost += u64::from(lost);
        self.view.in_flight -= lost;
        lost
    }

    fn take(&mut self, control: Control) {
        assert!(control.cwnd >= 1 && control.pacing_rate != Some(Rate::ZERO));
        if control.phase != self.control.phase {
            self.phases.push((self.view.now, control.phase));
        }
        self.control = control;
    }

    fn tell(&mut self, event: StateEvent) {
        let change = StateChange { view: &self.view, event };
        let control = events::after(self.control, |c| self.cc.on_state(&change, c));
        self.take(control);
    }

    fn reduce(&mut self, signal: Signal, state: CaState) {
        self.cc.on_congestion(&Congestion { view: &self.view, signal }, &mut self.control);
        self.control.cwnd_cnt = 0;
        self.reductions += 1;
        self.reduction_end = self.view.snd_nxt;
        if signal == Signal::Timeout {
            self.control.cwnd = 1;
        } else if !self.entry.needs.full_control {
            self.control.cwnd = self.control.cwnd.min(self.control.ssthresh).max(1);
        }
        self.view.ca = state;
        self.tell(StateEvent::Entered(state));
    }

    fn finish(&mut self) {
        if self.view.ca != CaState::Loss {
            self.tell(StateEvent::ReductionDone);
        }
        self.view.ca = CaState::Open;
        self.tell(StateEvent::Entered(CaState::Open));
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
