//! A small closed loop for tests of papers' claims: flows through one queue that drops at its tail.
//!
//! Every packet is acknowledged by itself, a fixed base RTT after it left the queue. A loss is known when the packet
//! that would have followed is acknowledged; the window then goes to `ssthresh` at once. A flow sends its first window
//! at the link's rate.

use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, RateSample, Signal, StateChange, StateEvent, View, find,
};
use knee_core::{Params, Rng, Time, Value};
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
enum Event {
    Start { flow: usize },
    First { flow: usize },
    Delivered { flow: usize, segment: u64, sent: Time, delivered: u64 },
    Lost { flow: usize, segment: u64 },
}

/// A flow and its algorithm.
pub struct Flow {
    cc: Box<dyn CongestionControl>,
    pub control: Control,
    pub view: View,
    /// Reductions of the window so far, of any cause.
    pub backoffs: u32,
    base_rtt: Time,
    recovery_end: Option<u64>,
}

/// The queue, the flows and what is on its way.
pub struct Loop {
    pub now: Time,
    pub flows: Vec<Flow>,
    pub drops: u64,
    /// When the queue will have drained.
    drained: Time,
    /// Time per packet.
    service: Time,
    /// Packets the queue holds.
    buffer: u64,
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
}

impl Loop {
    /// A link that takes `service` per packet, with a queue of `buffer` packets in which `backlog` waits at first.
    pub fn new(service: Time, buffer: u64, backlog: Time) -> Self {
        let (flows, events) = (Vec::new(), BTreeMap::new());
        Self { now: Time::ZERO, flows, drops: 0, drained: backlog, service, buffer, events, count: 0 }
    }

    /// Adds a flow of the algorithm `name` with a window of `cwnd` packets from `start` on.
    pub fn add(&mut self, name: &str, given: &[(&str, Value)], base_rtt: Time, start: Time, cwnd: u32) {
        let entry = find(name).unwrap();
        let params = Params::resolve(entry.params, given.iter().copied()).unwrap();
        let rng = Rng::stream(self.flows.len() as u64, name);
        let init = Init { now: start, rtt: base_rtt, cwnd, mss: 1448, tick: Time::ZERO, rng };
        let flow = Flow {
            cc: (entry.make)(&params, &init),
            control: Control::initial(cwnd),
            view: View { srtt: base_rtt, ..crate::sample::view() },
            backoffs: 0,
            base_rtt,
            recovery_end: None,
        };
        self.flows.push(flow);
        self.at(start, Event::Start { flow: self.flows.len() - 1 });
    }

    /// How long a packet that enters now will wait.
    pub fn queueing(&self) -> Time {
        self.drained.saturating_sub(self.now)
    }

    /// Runs until `end`, calling `look` after every event.
    pub fn run(&mut self, end: Time, mut look: impl FnMut(&Self)) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((now, _), event) = entry.remove_entry();
            self.now = now;
            self.handle(event);
            look(self);
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.events.insert((time, self.count), event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start { flow } => {
                let (first, service) = (self.flows[flow].control.cwnd, self.service);
                self.tell(flow, StateEvent::Restart);
                for i in 0..first {
                    self.at(self.now + service * u64::from(i), Event::First { flow });
                }
            }
            Event::First { flow } => self.send(flow),
            Event::Delivered { flow, segment, sent, delivered } => {
                self.acknowledge(flow, segment, sent, delivered);
                self.fill(flow);
            }
            Event::Lost { flow, segment } => {
                self.lose(flow, segment);
                self.fill(flow);
            }
        }
    }

    fn fill(&mut self, flow: usize) {
        while self.flows[flow].view.in_flight < self.flows[flow].control.cwnd {
            self.send(flow);
        }
    }

    fn send(&mut self, flow: usize) {
        let waiting = self.queueing().as_nanos() / self.service.as_nanos();
        let sender = &mut self.flows[flow];
        let (segment, base_rtt, delivered) = (sender.view.snd_nxt, sender.base_rtt, sender.view.delivered);
        sender.view.snd_nxt += 1;
        sender.view.in_flight += 1;
        if waiting >= self.buffer {
            self.drops += 1;
            self.at(self.drained + self.service + base_rtt, Event::Lost { flow, segment });
        } else {
            self.drained = self.drained.max(self.now) + self.service;
            self.at(self.drained + base_rtt, Event::Delivered { flow, segment, sent: self.now, delivered });
        }
    }

    fn tell(&mut self, flow: usize, event: StateEvent) {
        let flow = &mut self.flows[flow];
        flow.view.now = self.now;
        if let StateEvent::Entered(ca) = event {
            flow.view.ca = ca;
        }
        flow.control = flow.cc.on_state(&StateChange { view: flow.view, event }, flow.control);
    }

    fn acknowledge(&mut self, index: usize, segment: u64, sent: Time, prior_delivered: u64) {
        let rtt = (self.now - sent).floor_to(Time::from_micros(1));
        let flow = &mut self.flows[index];
        let prior_una = flow.view.snd_una;
        let view = &mut flow.view;
        view.now = self.now;
        view.snd_una = view.snd_una.max(segment + 1);
        view.in_flight -= 1;
        view.delivered += 1;
        view.min_rtt = view.min_rtt.min(rtt);
        view.srtt = (view.srtt * 7 + rtt) / 8;
        let delivered = (view.delivered - prior_delivered) as u32;
        let rate = RateSample {
            delivered,
            delivered_ce: 0,
            interval: Some(rtt),
            prior_delivered,
            prior_lost: 0,
            tx_in_flight: delivered,
            app_limited: false,
            is_retrans: false,
            ack_delayed: false,
        };
        let ack = Ack {
            view: *view,
            rtt: Some(rtt),
            acked: 1,
            delivered: 1,
            lost: 0,
            prior_in_flight: view.in_flight + 1,
            prior_una,
            cwnd_limited: true,
            ece: false,
            rate,
        };
        flow.control = flow.cc.on_measure(&ack, flow.control);
        if flow.recovery_end.is_some_and(|end| flow.view.snd_una > end) {
            flow.recovery_end = None;
            self.tell(index, StateEvent::ReductionDone);
            self.tell(index, StateEvent::Entered(CaState::Open));
        }
        let flow = &mut self.flows[index];
        if flow.recovery_end.is_none() {
            let before = flow.control.cwnd;
            flow.control = flow.cc.on_ack(&Ack { view: flow.view, ..ack }, flow.control);
            flow.backoffs += u32::from(flow.control.cwnd < before);
        }
    }

    fn lose(&mut self, index: usize, segment: u64) {
        let flow = &mut self.flows[index];
        flow.view.now = self.now;
        flow.view.in_flight -= 1;
        flow.view.lost += 1;
        if flow.recovery_end.is_some_and(|end| segment <= end) {
            return;
        }
        let congestion = Congestion { view: flow.view, signal: Signal::Loss };
        flow.control.ssthresh = flow.cc.on_congestion(&congestion, flow.control);
        flow.control.cwnd = flow.control.ssthresh;
        flow.control.cwnd_cnt = 0;
        flow.backoffs += 1;
        flow.recovery_end = Some(flow.view.snd_nxt);
        self.tell(index, StateEvent::Entered(CaState::Recovery));
    }
}
