//! LoLa in a closed loop: paced senders, one link with a queue, packets and delayed ACKs as events.

use super::ENTRY;
use crate::{Ack, CaState, CongestionControl, Control, Init, RateSample, View};
use knee_core::{Bytes, Params, Rate, Rng, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MSS: u64 = 1448;
const WIRE: Bytes = Bytes(1500);

struct Flow {
    cc: Box<dyn CongestionControl>,
    control: Control,
    base_rtt: Time,
    start: Time,
    srtt: Time,
    in_flight: u32,
    sent: u64,
    delivered: u64,
    next_send: Time,
    waiting: bool,
    unacked: Vec<Time>,
    /// `delivered` at the end of every tenth of a second.
    series: Vec<u64>,
    /// When each phase was entered.
    phases: Vec<(Time, u8)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send(usize),
    /// A packet that was sent then arrived at the receiver.
    Arrival(usize, Time),
}

/// Flows over one link.
struct Path {
    rate: Rate,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    inserted: u64,
    now: Time,
    link_free: Time,
    /// Greatest and time-weighted queueing delay per tenth of a second.
    peaks: Vec<Time>,
    served: u64,
}

impl Path {
    /// Flows given by base RTT and start.
    fn new(rate: Rate, flows: &[(Time, Time)]) -> Self {
        let params = Params::defaults(ENTRY.params);
        let flows: Vec<_> = flows
            .iter()
            .map(|&(rtt, now)| {
                let rng = Rng::stream(1, "lola");
                let init = Init { now, rtt, cwnd: 10, mss: MSS as u32, tick: Time::ZERO, rng };
                Flow {
                    cc: (ENTRY.make)(&params, &init),
                    control: Control::initial(10),
                    base_rtt: rtt,
                    start: now,
                    srtt: rtt,
                    in_flight: 0,
                    sent: 0,
                    delivered: 0,
                    next_send: now,
                    waiting: true,
                    unacked: Vec::new(),
                    series: Vec::new(),
                    phases: vec![(now, 0)],
                }
            })
            .collect();
        let (events, now) = (BinaryHeap::new(), Time::ZERO);
        let mut path =
            Self { rate, flows, events, inserted: 0, now, link_free: now, peaks: Vec::new(), served: 0 };
        for i in 0..path.flows.len() {
            path.schedule(path.flows[i].start, Event::Send(i));
        }
        path
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.inserted += 1;
        self.events.push(Reverse((at, self.inserted, event)));
    }

    fn run_until(&mut self, end: Time) {
        let tenth = Time::from_millis(100);
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            while self.now.floor_to(tenth) < at.floor_to(tenth) {
                self.now = self.now.floor_to(tenth) + tenth;
                for flow in &mut self.flows {
                    flow.series.push(flow.delivered);
                }
                self.peaks.push(Time::ZERO);
            }
            self.now = at;
            match event {
                Event::Send(i) => {
                    self.flows[i].waiting = false;
                    self.send(i);
                }
                Event::Arrival(i, sent) => self.arrive(i, sent),
            }
            if at >= end {
                return;
            }
        }
    }

    /// Sends what window and pacing allow, 1.2 times `cwnd` per RTT, twice in slow start, as Linux's senders do.
    fn send(&mut self, i: usize) {
        loop {
            let now = self.now;
            let flow = &mut self.flows[i];
            if flow.waiting || flow.in_flight >= flow.control.cwnd {
                return;
            }
            if now < flow.next_send {
                flow.waiting = true;
                let at = flow.next_send;
                return self.schedule(at, Event::Send(i));
            }
            let percent = if flow.control.cwnd < flow.control.ssthresh / 2 { 200 } else { 120 };
            let gap = flow.srtt.mul_div(100, percent * u64::from(flow.control.cwnd));
            flow.next_send = flow.next_send.max(now.saturating_sub(gap)) + gap;
            flow.in_flight += 1;
            flow.sent += 1;
            let rtt = flow.base_rtt;
            let done = self.link_free.max(now) + self.rate.time_for(WIRE);
            self.link_free = done;
            if let Some(peak) = self.peaks.last_mut() {
                *peak = (*peak).max(done - now);
            }
            self.schedule(done + rtt, Event::Arrival(i, now));
        }
    }

    /// All of the base RTT lies before the receiver, its ACKs take no time.
    fn arrive(&mut self, i: usize, sent: Time) {
        self.served += 1;
        let flow = &mut self.flows[i];
        flow.unacked.push(sent);
        if flow.unacked.len() == 2 || flow.delivered < 16 {
            let delivered = flow.unacked.len() as u32;
            flow.unacked.clear();
            let rtt = (self.now - sent).floor_to(Time::from_micros(1));
            flow.ack(self.now, delivered, rtt);
            self.send(i);
        }
    }

    /// Mean goodput of a flow over a span, in packets per second.
    fn goodput(&self, i: usize, from: u64, to: u64) -> f64 {
        let at = |s: u64| self.flows[i].series[s as usize * 10 - 1];
        (at(to) - at(from)) as f64 / (to - from) as f64
    }
}

impl Flow {
    fn ack(&mut self, now: Time, delivered: u32, rtt: Time) {
        self.srtt = (self.srtt * 7 + rtt) / 8;
        let prior_una = self.delivered;
        let prior_in_flight = self.in_flight;
        self.in_flight -= delivered;
        self.delivered += u64::from(delivered);
        let view = View {
            now,
            srtt: self.srtt,
            min_rtt: self.base_rtt,
            snd_una: self.delivered,
            snd_nxt: self.sent,
            in_flight: self.in_flight,
            delivered: self.delivered,
            delivered_ce: 0,
            lost: 0,
            ca: CaState::Open,
        };
        let rate = RateSample {
            delivered,
            delivered_ce: 0,
            interval: Some(rtt),
            prior_delivered: prior_una,
            prior_lost: 0,
            tx_in_flight: self.in_flight,
            app_limited: false,
            is_retrans: false,
            ack_delayed: false,
        };
        let ack = Ack {
            view,
            rtt: Some(rtt),
            acked: delivered,
            delivered,
            lost: 0,
            prior_in_flight,
            prior_una,
            cwnd_limited: true,
            ece: false,
            rate,
        };
        let before = self.control.phase;
        self.control = self.cc.on_measure(&ack, self.control);
        self.control = self.cc.on_ack(&ack, self.control);
        if self.control.phase != before {
            self.phases.push((now, self.control.phase));
        }
    }
}

#[test]
#[ignore]
fn explore() {
    let e = |k: &str, d: u64| std::env::var(k).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let (mbps, r1, r2, n, end, step) =
        (e("MBPS", 100), e("R1", 21), e("R2", 21), e("N", 2), e("END", 60), e("STEP", 20));
    let flows: Vec<_> = (0..n)
        .map(|i| (Time::from_millis(if i % 2 == 0 { r1 } else { r2 }), Time::from_secs(i * step)))
        .collect();
    let mut path = Path::new(Rate::from_mbps(mbps), &flows);
    path.run_until(Time::from_secs(end));
    let w = e("W", 2);
    let cap = mbps as f64 * 1e6 / 12000.0;
    for s in (w..end.saturating_sub(w)).step_by(w as usize) {
        let g: Vec<_> = (0..n as usize).map(|i| (path.goodput(i, s, s + w) / cap * 1000.0).round() as u64).collect();
        let sum: u64 = g.iter().sum();
        let peak = path.peaks[s as usize * 10..(s + w) as usize * 10].iter().max().unwrap();
        let low = path.peaks[s as usize * 10..(s + w) as usize * 10].iter().min().unwrap();
        println!("{s:4} sum {sum:4} q {:6} .. {:6} us  {g:?}", low.as_micros(), peak.as_micros());
    }
    for (i, f) in path.flows.iter().enumerate().take(e("PH", 2) as usize) {
        let line: Vec<_> = f.phases.iter().map(|(t, p)| format!("{:.2}:{}", t.as_secs_f64(), ["SS", "CI", "FF", "HO", "TD"][*p as usize])).collect();
        println!("flow {i}: {}", line.join(" "));
    }
}
