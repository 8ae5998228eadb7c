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
//! once instead of by proportional rate reduction, the timer is a coarse one, and every packet is acknowledged.
//!
//! ```ignore
//! let mut net = Dumbbell::new(Rate::from_mbps(12), 100);
//! net.add(&reno::ENTRY, &[], Time::from_millis(40), Time::ZERO);
//! net.run(Time::from_secs(10));                       // settle
//! let seen = net.measure(Time::from_secs(60));        // goodput per flow, queue, drops
//! ```

use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Ecn, Entry, Init, RateSample, Sent, Signal, StateChange,
    StateEvent, View,
};
use knee_core::packet::{MSS, MTU};
use knee_core::{Bytes, Params, Rate, Rng, Time, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

const PACKET: Bytes = Bytes(MTU as u64);
const TIMER: Time = Time::from_millis(250);

/// Whether two worked numbers agree to nine digits.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// What [`Dumbbell::measure`] saw.
#[derive(Debug)]
pub struct Measured {
    /// Payload delivered per flow, Mbit/s of IP packets.
    pub mbps: Vec<f64>,
    /// Packets waiting for the link, on average over time (the one in service not counted).
    pub queue: f64,
    /// The most packets that waited.
    pub queue_max: usize,
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

struct Flow {
    entry: &'static Entry,
    cc: Box<dyn CongestionControl>,
    control: Control,
    view: View,
    base_rtt: Time,
    /// By order of transmission.
    in_flight: BTreeMap<u64, Transmission>,
    ahead: BTreeSet<u64>,
    to_repeat: VecDeque<u64>,
    next_tx: u64,
    reduction_end: u64,
    limited_until: u64,
    next_send: Time,
    wake_at: Time,
    delivered_at: Time,
    first_sent: Time,
    last_ack: Time,
    /// Of `measure`.
    delivered_before: u64,
}

/// See the file's head.
pub struct Dumbbell {
    rate: Rate,
    buffer: usize,
    loss: f64,
    mark_above: usize,
    rng: Rng,
    now: Time,
    order: u64,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    flows: Vec<Flow>,
    /// When each packet in the queue or on the link leaves it.
    departures: VecDeque<Time>,
    waited: Time,
    queue_max: usize,
    drops: u64,
}

impl Dumbbell {
    /// A link of `rate` with room for `buffer` waiting packets.
    pub fn new(rate: Rate, buffer: usize) -> Self {
        Self {
            rate,
            buffer,
            loss: 0.0,
            mark_above: usize::MAX,
            rng: Rng::stream(1, "dumbbell"),
            now: Time::ZERO,
            order: 0,
            events: BinaryHeap::new(),
            flows: Vec::new(),
            departures: VecDeque::new(),
            waited: Time::ZERO,
            queue_max: 0,
            drops: 0,
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

    /// Adds a flow; returns its index. Its handshake has measured `base_rtt`.
    pub fn add(&mut self, entry: &'static Entry, given: &[(&str, Value)], base_rtt: Time, start: Time) -> usize {
        let params = Params::resolve(entry.params, given.iter().copied()).unwrap();
        let (flow, cwnd) = (self.flows.len(), 10);
        let rng = Rng::stream(flow as u64 + 1, "flow");
        let init = Init { now: start, rtt: base_rtt, cwnd, mss: u32::from(MSS), tick: Time::ZERO, rng };
        let view = View {
            now: start,
            srtt: base_rtt,
            min_rtt: base_rtt,
            snd_una: 0,
            snd_nxt: 0,
            in_flight: 0,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            ca: CaState::Open,
        };
        self.flows.push(Flow {
            entry,
            cc: (entry.make)(&params, &init),
            control: Control::initial(cwnd),
            view,
            base_rtt,
            in_flight: BTreeMap::new(),
            ahead: BTreeSet::new(),
            to_repeat: VecDeque::new(),
            next_tx: 0,
            reduction_end: 0,
            limited_until: 0,
            next_send: start,
            wake_at: Time::MAX,
            delivered_at: start,
            first_sent: start,
            last_ack: start,
            delivered_before: 0,
        });
        self.at(start, Event::Send { flow });
        self.at(start + TIMER, Event::Timer { flow });
        flow
    }

    /// What flow `flow` may do now.
    pub fn control(&self, flow: usize) -> Control {
        self.flows[flow].control
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
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at <= until
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Ack { flow, tx, ce } => self.ack(flow, tx, ce),
                Event::Send { flow } => {
                    if self.flows[flow].wake_at == at {
                        self.flows[flow].wake_at = Time::MAX;
                    }
                    self.send(flow);
                }
                Event::Timer { flow } => self.timer(flow),
            }
        }
        self.now = until;
    }

    /// Runs up to `until` and tells what went on meanwhile.
    pub fn measure(&mut self, until: Time) -> Measured {
        let (from, waited, drops) = (self.now, self.waited, self.drops);
        self.queue_max = 0;
        for flow in &mut self.flows {
            flow.delivered_before = flow.view.delivered;
        }
        self.run(until);
        let span = (until - from).as_secs_f64();
        let mbps = |f: &Flow| (f.view.delivered - f.delivered_before) as f64 * f64::from(MTU) * 8e-6 / span;
        Measured {
            mbps: self.flows.iter().map(mbps).collect(),
            // Little's law: mean number waiting = time waited by all / time.
            queue: (self.waited - waited).as_secs_f64() / span,
            queue_max: self.queue_max,
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
            if f.entry.needs.pacing && f.next_send > now {
                if f.wake_at > f.next_send {
                    f.wake_at = f.next_send;
                    let at = f.next_send;
                    self.at(at, Event::Send { flow });
                }
                return;
            }
            let own = Rate::over(Bytes(PACKET.0 * u64::from(f.control.cwnd)), f.view.srtt);
            let gain = if f.control.in_slow_start() { 200 } else { 120 };
            let pace = f.control.pacing_rate.unwrap_or(own.mul_div(gain, 100));
            f.next_send = now.saturating_add(pace.time_for(PACKET));
            self.transmit(flow);
        }
    }

    fn transmit(&mut self, flow: usize) {
        let now = self.now;
        let f = &mut self.flows[flow];
        let repeated = f.to_repeat.pop_front();
        let seq = repeated.unwrap_or(f.view.snd_nxt);
        f.view.snd_nxt = f.view.snd_nxt.max(seq + 1);
        if f.in_flight.is_empty() {
            (f.first_sent, f.delivered_at, f.last_ack) = (now, now, now);
        }
        f.view.in_flight += 1;
        let tx = f.next_tx;
        f.next_tx += 1;
        f.in_flight.insert(
            tx,
            Transmission {
                seq,
                sent: now,
                retransmission: repeated.is_some(),
                delivered: f.view.delivered,
                delivered_at: f.delivered_at,
                first_sent: f.first_sent,
                lost: f.view.lost,
                in_flight: f.view.in_flight,
            },
        );
        if f.entry.needs.sent {
            let sent = Sent { view: f.view, packets: 1, retransmission: repeated.is_some() };
            f.control = f.cc.on_sent(&sent, f.control);
        }
        let base_rtt = f.base_rtt;

        let waiting = self.queue();
        if self.loss > 0.0 && self.rng.chance(self.loss) || waiting >= self.buffer {
            self.drops += 1;
            return;
        }
        self.queue_max = self.queue_max.max(waiting);
        let begin = self.departures.back().map_or(now, |last| now.max(*last));
        self.waited += begin - now;
        let leaves = begin + self.rate.time_for(PACKET);
        self.departures.push_back(leaves);
        self.at(leaves + base_rtt, Event::Ack { flow, tx, ce: waiting > self.mark_above });
    }

    fn ack(&mut self, flow: usize, tx: u64, ce: bool) {
        let f = &mut self.flows[flow];
        f.view.now = self.now;
        // A packet given up as lost that arrives after all: its repetition counts.
        let Some(packet) = f.in_flight.remove(&tx) else { return };
        let (prior_in_flight, prior_una) = (f.view.in_flight, f.view.snd_una);
        f.last_ack = self.now;
        f.view.in_flight -= 1;
        f.view.delivered += 1;
        f.view.delivered_ce += u64::from(ce);
        f.ahead.insert(packet.seq);
        while f.ahead.remove(&f.view.snd_una) {
            f.view.snd_una += 1;
        }
        let rtt = (!packet.retransmission).then(|| (self.now - packet.sent).floor_to(Time::from_micros(1)));
        if let Some(rtt) = rtt {
            f.view.srtt = ((f.view.srtt * 7 + rtt) / 8).floor_to(Time::from_micros(1));
            f.view.min_rtt = f.view.min_rtt.min(rtt);
        }
        let interval = (packet.sent - packet.first_sent).max(self.now - packet.delivered_at);
        (f.first_sent, f.delivered_at) = (packet.sent, self.now);

        let gone: Vec<u64> = f.in_flight.range(..tx.saturating_sub(2)).map(|(tx, _)| *tx).collect();
        for tx in &gone {
            f.to_repeat.extend(f.in_flight.remove(tx).map(|p| p.seq));
        }
        f.view.lost += gone.len() as u64;
        f.view.in_flight -= gone.len() as u32;

        let slow_start_limited = f.control.in_slow_start() && f.control.cwnd < 2 * prior_in_flight;
        let mut ack = Ack {
            view: f.view,
            rtt,
            acked: (f.view.snd_una - prior_una) as u32,
            delivered: 1,
            lost: gone.len() as u32,
            prior_in_flight,
            prior_una,
            cwnd_limited: prior_una <= f.limited_until || slow_start_limited,
            ece: ce,
            rate: RateSample {
                delivered: (f.view.delivered - packet.delivered) as u32,
                delivered_ce: u32::from(ce),
                interval: (interval >= f.view.min_rtt).then_some(interval),
                prior_delivered: packet.delivered,
                prior_lost: packet.lost,
                tx_in_flight: packet.in_flight,
                app_limited: false,
                is_retrans: packet.retransmission,
                ack_delayed: false,
            },
        };
        f.control = f.cc.on_measure(&ack, f.control);
        if f.view.ca != CaState::Open && f.view.snd_una >= f.reduction_end {
            f.finish();
        }
        if f.view.ca == CaState::Open && !gone.is_empty() {
            f.reduce(Signal::Loss, CaState::Recovery);
        } else if f.view.ca == CaState::Open && ce && f.entry.needs.ecn == Ecn::Classic {
            f.reduce(Signal::Ecn, CaState::Cwr);
        }
        ack.view = f.view;
        let grows = matches!(f.view.ca, CaState::Open | CaState::Loss);
        if f.entry.needs.full_control || grows {
            f.control = f.cc.on_ack(&ack, f.control);
        }
        self.send(flow);
    }

    fn timer(&mut self, flow: usize) {
        let f = &mut self.flows[flow];
        f.view.now = self.now;
        let rto = (f.view.srtt * 2).max(Time::from_millis(500));
        if !f.in_flight.is_empty() && self.now.saturating_sub(f.last_ack) > rto {
            let gone = std::mem::take(&mut f.in_flight);
            f.to_repeat.extend(gone.values().map(|p| p.seq));
            f.view.lost += gone.len() as u64;
            f.view.in_flight = 0;
            f.tell(StateEvent::Timeout);
            f.reduce(Signal::Timeout, CaState::Loss);
            f.next_send = self.now;
            self.send(flow);
        }
        self.at(self.now + TIMER, Event::Timer { flow });
    }
}

impl Flow {
    fn tell(&mut self, event: StateEvent) {
        self.control = self.cc.on_state(&StateChange { view: self.view, event }, self.control);
    }

    fn reduce(&mut self, signal: Signal, state: CaState) {
        self.control.ssthresh = self.cc.on_congestion(&Congestion { view: self.view, signal }, self.control);
        self.control.cwnd_cnt = 0;
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
        assert!(net.control(0).cwnd >= 2);
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
