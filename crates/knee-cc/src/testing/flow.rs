//! A sender for [`super::Dumbbell`].
//!
//! It calls an algorithm as the simulator's sender does, in the same order, and leaves out what a test of a paper's claim
//! does not need: a packet counts as lost once one sent three later was delivered, a reduction takes the window to
//! `ssthresh` at once instead of by proportional rate reduction, the timer is a coarse one, every packet is acknowledged,
//! and the first window leaves at the link's rate.

use super::events;
use crate::{
    Ack, CaState, Congestion, Control, DynCongestionControl, Ecn, Entry, Init, RateSample, Sent, Signal, StateChange,
    StateEvent, View,
};
use knee_core::packet::{MSS, MTU};
use knee_core::{Bytes, Rate, Time};
use std::collections::{BTreeSet, VecDeque};

const PACKET: Bytes = Bytes(MTU as u64);
const PAYLOAD: Bytes = Bytes(MSS as u64);
const US: Time = Time::from_micros(1);

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

/// What a flow does next.
pub enum Next {
    /// It sends a packet; this is the number of the transmission.
    Packet(u64),
    /// It waits for an ACK, or for this time.
    Wait(Option<Time>),
}

/// A flow, its sender and its algorithm.
pub struct Flow {
    entry: &'static Entry,
    /// The algorithm.
    pub cc: Box<dyn DynCongestionControl>,
    /// Its last answer.
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
    /// When the event comes that lets it send again.
    pub wake_at: Time,
    initial_window: u32,
    /// By order of transmission, from number `first_tx` on.
    in_flight: VecDeque<Transmission>,
    first_tx: u64,
    ahead: BTreeSet<u64>,
    to_repeat: VecDeque<u64>,
    reduction_end: u64,
    limited_until: u64,
    delivered_at: Time,
    first_sent: Time,
    last_ack: Time,
}

impl Flow {
    /// A flow whose handshake ended at `init.now` and measured `init.rtt`, all of which is delay of the path.
    pub fn new(entry: &'static Entry, cc: Box<dyn DynCongestionControl>, init: &Init) -> Self {
        let (now, rtt) = (init.now, init.rtt);
        Self {
            entry,
            cc,
            control: Control::initial(init.cwnd),
            view: View { now, srtt: rtt, min_rtt: rtt, ..View::INITIAL },
            base_rtt: rtt,
            phases: vec![(now, 0)],
            rtt_max: Time::ZERO,
            reductions: 0,
            series: Vec::new(),
            wake_at: now,
            initial_window: init.cwnd,
            in_flight: VecDeque::new(),
            first_tx: 0,
            ahead: BTreeSet::new(),
            to_repeat: VecDeque::new(),
            reduction_end: 0,
            limited_until: 0,
            delivered_at: now,
            first_sent: now,
            last_ack: now,
        }
    }

    /// Sends a packet if the window and pacing let it; the link has the rate `link`.
    pub fn next(&mut self, now: Time, link: Rate) -> Next {
        self.view.now = now;
        if self.view.in_flight >= self.control.cwnd {
            self.limited_until = self.view.snd_nxt;
            return Next::Wait(None);
        }
        let paced_until = self.view.paced_until;
        if paced_until > now {
            let sooner = self.wake_at > paced_until;
            self.wake_at = self.wake_at.min(paced_until);
            return Next::Wait(sooner.then_some(paced_until));
        }
        self.view.paced_until = now.saturating_add(self.gap(link));
        Next::Packet(self.transmit(now))
    }

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

    fn transmit(&mut self, now: Time) -> u64 {
        if self.in_flight.is_empty() {
            (self.first_sent, self.delivered_at, self.last_ack) = (now, now, now);
            self.tell(StateEvent::Restart);
        }
        let repeated = self.to_repeat.pop_front();
        let seq = repeated.unwrap_or(self.view.snd_nxt);
        self.view.snd_nxt = self.view.snd_nxt.max(seq + 1);
        self.view.in_flight += 1;
        let tx = self.first_tx + self.in_flight.len() as u64;
        self.in_flight.push_back(Transmission {
            seq,
            sent: now,
            retransmission: repeated.is_some(),
            settled: false,
            delivered: self.view.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.view.lost,
            in_flight: self.view.in_flight,
        });
        if self.entry.needs.sent {
            let sent = Sent { view: &self.view, packets: 1, retransmission: repeated.is_some() };
            let control = events::after(self.control, |c| self.cc.on_sent(&sent, c));
            self.take(control);
        }
        tx
    }

    /// A transmission is acknowledged now, with a CE mark or without.
    pub fn on_ack(&mut self, now: Time, tx: u64, ce: bool) {
        self.view.now = now;
        // A packet given up as lost that arrives after all: its repetition counts.
        let Some(index) = tx.checked_sub(self.first_tx) else { return };
        let packet = &mut self.in_flight[index as usize];
        packet.settled = true;
        let packet = *packet;
        let (prior_in_flight, prior_una) = (self.view.in_flight, self.view.snd_una);
        self.count_delivered(packet.seq, ce);
        let rtt = (!packet.retransmission).then(|| (now - packet.sent).floor_to(US));
        if let Some(rtt) = rtt {
            self.view.srtt = ((self.view.srtt * 7 + rtt) / 8).floor_to(US);
            self.view.min_rtt = self.view.min_rtt.min(rtt);
            self.rtt_max = self.rtt_max.max(rtt);
        }
        let rate = self.rate_sample(&packet, ce);
        (self.first_sent, self.delivered_at) = (packet.sent, now);
        let lost = self.give_up(tx);
        let view = self.view;
        let slow_start_limited = self.control.in_slow_start() && self.control.cwnd < 2 * prior_in_flight;
        let ack = Ack {
            view: &view,
            rtt,
            acked: (view.snd_una - prior_una) as u32,
            delivered: 1,
            lost,
            prior_in_flight,
            prior_una,
            part: false,
            cwnd_limited: prior_una <= self.limited_until || slow_start_limited,
            ece: ce,
            rate: &rate,
        };
        self.ask(&ack);
    }

    /// Segment `seq` has been delivered.
    fn count_delivered(&mut self, seq: u64, ce: bool) {
        let view = &mut self.view;
        self.last_ack = view.now;
        view.in_flight -= 1;
        view.delivered += 1;
        view.delivered_ce += u64::from(ce);
        if seq == view.snd_una && self.ahead.is_empty() {
            view.snd_una += 1;
        } else {
            self.ahead.insert(seq);
            while self.ahead.remove(&view.snd_una) {
                view.snd_una += 1;
            }
        }
    }

    fn rate_sample(&self, packet: &Transmission, ce: bool) -> RateSample {
        let interval = (packet.sent - packet.first_sent).max(self.view.now - packet.delivered_at);
        RateSample {
            delivered: (self.view.delivered - packet.delivered) as u32,
            delivered_ce: u32::from(ce),
            interval: (interval >= self.view.min_rtt).then_some(interval),
            prior_delivered: packet.delivered,
            prior_lost: packet.lost,
            tx_in_flight: packet.in_flight,
            is_retrans: packet.retransmission,
            ..RateSample::NONE
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

    /// Lets the algorithm measure, reduces the window where it has to be, and lets it grow where it may.
    fn ask(&mut self, ack: &Ack) {
        let control = events::after(self.control, |c| self.cc.on_measure(ack, c));
        self.take(control);
        if self.view.ca != CaState::Open && self.view.snd_una >= self.reduction_end {
            self.end_reduction();
        }
        if self.view.ca == CaState::Open && ack.lost > 0 {
            self.reduce(Signal::Loss, CaState::Recovery);
        } else if self.view.ca == CaState::Open && ack.ece && self.entry.needs.ecn == Ecn::Classic {
            self.reduce(Signal::Ecn, CaState::Cwr);
        }
        let grows = matches!(self.view.ca, CaState::Open | CaState::Loss);
        if self.entry.needs.full_control || grows {
            let view = self.view;
            let control = events::after(self.control, |c| self.cc.on_ack(&Ack { view: &view, ..*ack }, c));
            self.reductions += u32::from(control.cwnd < self.control.cwnd);
            self.take(control);
        }
    }

    /// Takes a timeout if one has passed, and says so.
    pub fn on_timer(&mut self, now: Time) -> bool {
        self.view.now = now;
        let rto = (self.view.srtt * 2).max(Time::from_millis(500));
        if self.view.in_flight == 0 || now.saturating_sub(self.last_ack) <= rto {
            return false;
        }
        let lost = std::mem::take(&mut self.in_flight);
        self.first_tx += lost.len() as u64;
        self.to_repeat.extend(lost.iter().filter(|p| !p.settled).map(|p| p.seq));
        self.view.lost += u64::from(self.view.in_flight);
        self.view.in_flight = 0;
        self.tell(StateEvent::Timeout);
        self.reduce(Signal::Timeout, CaState::Loss);
        self.view.paced_until = now;
        true
    }

    fn take(&mut self, control: Control) {
        assert!(control.cwnd >= 1 && control.pacing_rate != Some(Rate::ZERO));
        if control.phase != self.control.phase {
            self.phases.push((self.view.now, control.phase));
        }
        self.control = control;
    }

    /// Tells the algorithm of a change of state.
    pub fn tell(&mut self, event: StateEvent) {
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

    fn end_reduction(&mut self) {
        if self.view.ca != CaState::Loss {
            self.tell(StateEvent::ReductionDone);
        }
        self.view.ca = CaState::Open;
        self.tell(StateEvent::Entered(CaState::Open));
    }
}
