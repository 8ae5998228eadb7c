//! LoLa in a closed loop: paced senders, one link with a queue, packets and delayed ACKs as events.

use super::ENTRY;
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, RateSample, Signal, StateChange, StateEvent, View,
};
use knee_core::{Bytes, Params, Rate, Rng, Time, Value};
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
    /// Greatest queueing delay per tenth of a second.
    peaks: Vec<Time>,
}

impl Path {
    /// Flows given by base RTT and start.
    fn new(rate: Rate, flows: &[(Time, Time)], given: &[(&'static str, Value)]) -> Self {
        let params = Params::resolve(ENTRY.params, given.iter().copied()).unwrap();
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
        let mut path = Self { rate, flows, events, inserted: 0, now, link_free: now, peaks: Vec::new() };
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

    /// When a flow entered a phase, in whole seconds.
    fn entered(&self, i: usize, phase: u8) -> Vec<u64> {
        self.flows[i].phases.iter().filter(|(_, p)| *p == phase).map(|(at, _)| at.as_millis() / 1000).collect()
    }

    /// Greatest queueing delay over a span of seconds.
    fn peak(&self, from: u64, to: u64) -> Time {
        *self.peaks[from as usize * 10..to as usize * 10].iter().max().unwrap()
    }

    /// Share of the link that a flow had over a span of seconds.
    fn share(&self, i: usize, from: u64, to: u64) -> f64 {
        let at = |s: u64| self.flows[i].series[s as usize * 10 - 1];
        (at(to) - at(from)) as f64 * self.rate.time_for(WIRE).as_secs_f64() / (to - from) as f64
    }
}

impl Flow {
    fn view(&self, now: Time) -> View {
        View {
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
        }
    }

    fn ack(&mut self, now: Time, delivered: u32, rtt: Time) {
        self.srtt = (self.srtt * 7 + rtt) / 8;
        let prior_una = self.delivered;
        let prior_in_flight = self.in_flight;
        self.in_flight -= delivered;
        self.delivered += u64::from(delivered);
        let view = self.view(now);
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

const FAIR_FLOW_BALANCING: u8 = 2;
const CWND_HOLD: u8 = 3;
const TAILORED_DECREASE: u8 = 4;

fn run(mbps: u64, rtts_ms: &[u64], step: u64, end: u64) -> Path {
    let flows: Vec<_> = rtts_ms
        .iter()
        .enumerate()
        .map(|(i, &rtt)| (Time::from_millis(rtt), Time::from_secs(i as u64 * step)))
        .collect();
    let mut path = Path::new(Rate::from_mbps(mbps), &flows, &[]);
    path.run_until(Time::from_secs(end));
    path
}

#[test]
fn at_100_mbit_two_flows_are_fair_within_ten_seconds_and_the_queue_stays_low() {
    // Fig. 5.
    let path = run(100, &[21, 21], 20, 61);
    for i in 0..2 {
        let share = path.share(i, 30, 60);
        assert!((0.45..0.55).contains(&share), "{share}");
    }
    assert!(path.share(0, 30, 60) + path.share(1, 30, 60) > 0.97);
    // Q_target, and what both flows add in the 67 ms until they see it: both X = (t/35)³ near t = 1.1 s grow the queue by
    // 13 ms per second, 0.9 ms, and in steps that large.
    assert!(path.peak(30, 60) < Time::from_micros(7_500), "{}", path.peak(30, 60));
}

#[test]
fn at_1_gbit_fairness_takes_four_to_six_rounds() {
    let path = run(1_000, &[21, 21], 20, 61);
    let rounds = path.entered(1, FAIR_FLOW_BALANCING);
    let ratio = |from| path.share(1, from, from + 4) / path.share(0, from, from + 4);
    assert!(ratio(rounds[2]) < 0.9, "after two rounds {}", ratio(rounds[2]));
    assert!((0.9..1.1).contains(&ratio(rounds[6])), "after six rounds {}", ratio(rounds[6]));
    assert!(path.share(0, 40, 60) + path.share(1, 40, 60) > 0.97);
    assert!(path.peak(40, 60) < Time::from_millis(6));
}

#[test]
fn flows_of_different_rtts_get_the_same_rate() {
    // Fig. 4d at a tenth and a hundredth of its rate.
    for mbps in [1_000, 100] {
        let path = run(mbps, &[21, 101], 20, 121);
        for i in 0..2 {
            let share = path.share(i, 70, 120);
            assert!((0.425..0.575).contains(&share), "{mbps} Mbit/s: {share}");
        }
    }
}

#[test]
fn with_many_flows_the_delay_stays_around_the_target() {
    // Fig. 6 at a tenth of its rate: 18 flows, one more every 4 s.
    let path = run(1_000, &[21; 18], 4, 121);
    for i in 0..18 {
        let share = 18.0 * path.share(i, 90, 120);
        assert!((0.9..1.1).contains(&share), "flow {i}: {share}");
    }
    assert!(path.peak(90, 120) < Time::from_millis(8), "{}", path.peak(90, 120));
}

#[test]
fn the_window_is_held_for_t_sync_and_every_decrease_is_seen() {
    let path = run(100, &[21], 0, 30);
    let phases = &path.flows[0].phases;
    assert!(path.entered(0, TAILORED_DECREASE).len() > 5);
    for pair in phases.windows(2).filter(|pair| pair[0].1 == CWND_HOLD) {
        let held = pair[1].0 - pair[0].0;
        assert_eq!(pair[1].1, TAILORED_DECREASE);
        assert!(held >= Time::from_millis(250) && held < Time::from_millis(255), "{held}");
    }
}

#[test]
fn a_longer_path_is_learnt_after_the_set_number_of_decreases() {
    let share_after_change = |resets| {
        let given = [("min_rtt_resets", Value::Count(resets))];
        let mut path = Path::new(Rate::from_mbps(100), &[(Time::from_millis(21), Time::ZERO)], &given);
        path.run_until(Time::from_secs(20));
        path.flows[0].base_rtt = Time::from_millis(61);
        path.run_until(Time::from_secs(81));
        path.share(0, 60, 80)
    };
    assert!(share_after_change(5) > 0.97);
    // Until then 40 ms of path are taken for a queue, and the window stays small.
    assert!(share_after_change(1_000_000) < 0.5);
}

#[test]
fn a_loss_is_handled_as_by_cubic_and_only_a_timeout_leads_to_slow_start() {
    let given = [("fast_convergence", Value::Bool(false))];
    let mut path = Path::new(Rate::from_mbps(1_000), &[(Time::from_millis(21), Time::ZERO)], &given);
    path.run_until(Time::from_secs(20));
    let now = path.now;
    let flow = &mut path.flows[0];
    let cwnd_max = flow.control.cwnd;
    let lose = |flow: &mut Flow, signal, event| {
        let view = flow.view(now);
        flow.control.ssthresh = flow.cc.on_congestion(&Congestion { view, signal }, flow.control);
        flow.control.cwnd = flow.control.ssthresh;
        flow.control = flow.cc.on_state(&StateChange { view, event }, flow.control);
    };
    lose(flow, Signal::Loss, StateEvent::ReductionDone);
    assert_eq!((flow.control.cwnd, flow.control.phase), (cwnd_max * 717 / 1024, 1));
    // Eq. 1 with CWnd_max - CWnd = C K³, three seconds later and one RTT ahead.
    let k = libm::cbrt(f64::from(cwnd_max - flow.control.cwnd) / 0.4);
    let expected = f64::from(cwnd_max) - 0.4 * (k - 3.021).powi(3);
    path.run_until(now + Time::from_secs(3));
    let flow = &mut path.flows[0];
    assert!((f64::from(flow.control.cwnd) - expected).abs() < 5.0, "{} {expected}", flow.control.cwnd);
    assert_eq!(flow.control.phase, 1);
    lose(flow, Signal::Timeout, StateEvent::Entered(CaState::Loss));
    assert_eq!(flow.control.phase, 0);
}
