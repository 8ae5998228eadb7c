//! A sender on an ideal path: one rate, one RTT, a queue without end, no loss but the script's.
//!
//! The sender sends as window and pacing of the implementation allow. Here are the parts that every sender has: packet
//! numbers, loss detection (RFC 9002, 6.1), RTTs (RFC 9002, 5), samples of the delivery rate (draft-ietf-ccwg-bbr,
//! 4.1), and packet-timed rounds. No two events share a time, so that no comparison of times is decided by accident.
//! Losses that an ACK shows come before its packets, as in RFC 9002, A.7.

use crate::subject::{Acked, Event, Lost, MSS, Packet, Rate, Sent, Shown, Start, Subject};
use crate::vector::{Acks, Path, Step};
use knee_core::Time;
use knee_core::convert::truncated;
use std::collections::VecDeque;

/// Time between two events that happen at once.
const GAP: Time = Time::from_micros(1);
/// How many younger packets have to come before one counts as lost (RFC 9002, 6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// The longest delay of an ACK that a timeout allows for (RFC 9000, 18.2).
const MAX_ACK_DELAY: Time = Time::from_millis(25);
/// No window that a vector asks for comes near this, packets.
const MOST: f64 = 1e6;

/// A packet in flight, with what the sender notes as it leaves.
#[derive(Clone, Copy, Debug)]
struct Flying {
    number: u64,
    sent: Time,
    /// When the path's end has it, and so the sender its ACK; none where the path loses it.
    arrives: Option<Time>,
    marked: bool,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    lost: u64,
    tx_in_flight: u64,
    app_limited: bool,
}

/// The event that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Ack,
    Timer,
    Send,
}

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The implementation failed; a sentence.
    Broke(String),
    /// Its interface has no such event.
    NotTold(&'static str),
}

/// A connection of an implementation.
pub struct Connection {
    subject: Box<dyn Subject>,
    shown: Shown,
    pub now: Time,
    path: Path,
    /// The path's rate as a share of the vector's.
    share: f64,
    /// Added to the path's RTT.
    delay: Time,
    flying: VecDeque<Flying>,
    /// When the path's end has the last packet that left.
    busy_until: Time,
    next: u64,
    /// Packets in flight that the application allows.
    app: u64,
    paced_until: Time,
    delivered: u64,
    lost: u64,
    delivered_at: Time,
    first_sent: Time,
    /// `C.app_limited` of the draft.
    app_limited: u64,
    largest_acked: Option<u64>,
    latest: Time,
    srtt: Time,
    rttvar: Time,
    min_rtt: Time,
    blocked: bool,
    blocked_in_round: bool,
    cwnd_limited: bool,
    round: u64,
    round_end: u64,
    /// The newest packet of the flight that the next ACK acknowledges.
    flight_end: Option<u64>,
    /// Every how many-th packet is lost, of how many more, and how many of them left.
    drop: (u64, u64, u64),
    latest_loss: Vec<Packet>,
    /// Timeouts since the last ACK, and whether one lets a packet go.
    timeouts: u32,
    probe: bool,
    progress: Time,
}

impl Connection {
    /// A connection begins.
    pub fn new(subject: Box<dyn Subject>, path: Path, start: &Start) -> Self {
        let mut new = Self {
            subject,
            shown: Shown::default(),
            // Time zero of some interfaces means that nothing was sent yet.
            now: Time::from_millis(1),
            path,
            share: 1.0,
            delay: Time::ZERO,
            flying: VecDeque::new(),
            busy_until: Time::ZERO,
            next: 0,
            app: u64::MAX,
            paced_until: Time::ZERO,
            delivered: 0,
            lost: 0,
            delivered_at: Time::ZERO,
            first_sent: Time::ZERO,
            app_limited: 0,
            largest_acked: None,
            latest: start.rtt,
            srtt: Time::ZERO,
            rttvar: Time::ZERO,
            min_rtt: Time::MAX,
            blocked: false,
            blocked_in_round: false,
            cwnd_limited: false,
            round: 0,
            round_end: 0,
            flight_end: None,
            drop: (0, 0, 0),
            latest_loss: Vec::new(),
            timeouts: 0,
            probe: false,
            progress: Time::ZERO,
        };
        new.shown = new.subject.shown();
        new
    }

    /// The values shown after the last event.
    pub const fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Packets in flight.
    pub fn in_flight(&self) -> u64 {
        self.flying.len() as u64
    }

    /// RTT of the newest ACK.
    pub const fn rtt(&self) -> Time {
        self.latest
    }

    /// Packet-timed rounds since the start.
    pub const fn round(&self) -> u64 {
        self.round
    }

    /// Packets sent.
    pub const fn sent(&self) -> u64 {
        self.next
    }

    /// The path's rate at the start, bytes per second.
    pub fn rate(&self) -> f64 {
        (self.path.rate * MSS) as f64
    }

    fn tell(&mut self, event: &Event) -> Result<(), Stop> {
        let at = self.now;
        let told = self.subject.take(at, event).map_err(Stop::Broke)?;
        if !told {
            return Err(Stop::NotTold(event.name()));
        }
        self.shown = self.subject.shown();
        let cwnd = self.shown.cwnd / MSS as f64;
        if !(1.0..=MOST).contains(&cwnd) {
            return Err(Stop::Broke(format!(
                "after \"{}\" at {:.6} s the window is {} bytes; expected {MSS} to {}",
                event.name(),
                at.as_secs_f64(),
                self.shown.cwnd,
                MOST * MSS as f64
            )));
        }
        self.now += GAP;
        Ok(())
    }

    /// The window in whole packets.
    fn cwnd(&self) -> u64 {
        truncated(self.shown.cwnd / MSS as f64 + 1e-9)
    }

    fn pacing_gap(&self) -> Option<Time> {
        let rate = self.shown.pacing.filter(|rate| *rate > 0.0)?;
        Some(Time::from_nanos(truncated((MSS as f64 / rate * 1e9).min(1e12))))
    }

    /// Notes whether the application, and not the window, limits sending (`CheckIfApplicationLimited`).
    fn check_app_limited(&mut self) {
        if self.is_app_limited() {
            self.app_limited = (self.delivered + self.in_flight()).max(1);
        }
    }

    fn is_app_limited(&self) -> bool {
        self.in_flight() >= self.app && self.in_flight() < self.cwnd()
    }

    /// When the next packet may leave, if the window, pacing and the application let it.
    fn send_at(&mut self) -> Option<Time> {
        if self.probe {
            return Some(self.now);
        }
        if self.in_flight() >= self.app {
            return None;
        }
        let at = if self.shown.pacing.is_some() { self.paced_until.max(self.now) } else { self.now };
        if self.in_flight() < self.cwnd() {
            return Some(at);
        }
        if at == self.now {
            self.blocked = true;
            self.blocked_in_round = true;
        }
        None
    }

    /// When the next ACK comes, and the packets that it acknowledges, by their places.
    fn ack_at(&mut self) -> Option<(Time, Vec<usize>)> {
        let arriving = || self.flying.iter().enumerate().filter_map(|(i, packet)| Some((packet.arrives?, i)));
        match self.path.acks {
            // Only the oldest few can be the first ones to arrive, unless somebody reordered them.
            Acks::Every(1) => arriving().take(64).min().map(|(at, i)| (at, vec![i])),
            Acks::Every(n) => {
                let mut all: Vec<_> = arriving().collect();
                all.sort_unstable();
                all.truncate(usize::try_from(n).unwrap_or(usize::MAX));
                let at = all.last()?.0;
                Some((at, all.into_iter().map(|(_, i)| i).collect()))
            }
            Acks::Flight => {
                let newest = self.flying.back()?.number;
                let end = *self.flight_end.get_or_insert(newest);
                let all: Vec<_> = arriving().filter(|(_, i)| self.flying[*i].number <= end).collect();
                let at = all.iter().map(|(at, _)| *at).max()?;
                Some((at, all.into_iter().map(|(_, i)| i).collect()))
            }
        }
    }

    fn pto(&self) -> Time {
        let srtt = if self.srtt == Time::ZERO { self.latest } else { self.srtt };
        srtt + (self.rttvar * 4).max(Time::from_millis(1)) + MAX_ACK_DELAY
    }

    fn lost_after(&self) -> Time {
        self.srtt.max(self.latest).mul_div(9, 8)
    }

    /// When a timer finds a packet lost, or lets another one go.
    fn timer_at(&self) -> Option<Time> {
        let oldest = self.flying.front()?;
        if self.largest_acked.is_some_and(|largest| oldest.number < largest) {
            return Some(oldest.sent + self.lost_after());
        }
        let since = self.flying.back().map_or(self.progress, |newest| newest.sent.max(self.progress));
        Some(since + self.pto() * (1 << self.timeouts.min(10)))
    }

    fn next(&mut self) -> Option<(Time, Next)> {
        if let (Acks::Flight, Some(end)) = (self.path.acks, self.flight_end)
            && self.flying.iter().all(|packet| packet.number > end)
        {
            self.flight_end = None;
        }
        // Send first, so that an ACK's flight is counted with all that may leave now.
        let send = self.send_at().map(|at| (at, Next::Send));
        if send == Some((self.now, Next::Send)) {
            return send;
        }
        let ack = self.ack_at().map(|(at, _)| (at.max(self.now), Next::Ack));
        let timer = self.timer_at().map(|at| (at.max(self.now), Next::Timer));
        [ack, timer, send].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Lets the next event happen, if it comes until `until`; else time passes until then. Gives whether one came.
    pub fn step(&mut self, until: Time) -> Result<bool, Stop> {
        match self.next() {
            Some((at, next)) if at <= until => {
                self.now = at;
                match next {
                    Next::Ack => self.ack()?,
                    Next::Timer => self.fire()?,
                    Next::Send => self.send()?,
                }
                Ok(true)
            }
            _ => {
                self.now = self.now.max(until);
                Ok(false)
            }
        }
    }

    /// Sends all that may leave at once.
    pub fn fill(&mut self) -> Result<(), Stop> {
        while self.shown.pacing.is_none() && self.send_at().is_some_and(|at| at <= self.now) {
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Stop> {
        let room = self.cwnd().min(self.app).saturating_sub(self.in_flight());
        let paced = self.pacing_gap();
        let packets = if self.probe || paced.is_some() { 1 } else { room };
        self.probe = false;
        let (first, now, idle) = (self.next, self.now, self.flying.is_empty());
        if idle {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        for _ in 0..packets {
            self.leave();
        }
        if let Some(gap) = paced {
            self.paced_until = self.paced_until.max(now) + gap;
        }
        let (in_flight, app_limited) = (self.in_flight(), self.app_limited > 0);
        self.tell(&Event::Sent(Sent { first, packets, idle, in_flight, app_limited }))
    }

    fn leave(&mut self) {
        let service = Time::from_nanos(truncated(1e9 / (self.path.rate as f64 * self.share)));
        let (every, left, count) = &mut self.drop;
        let lost = *left > 0 && {
            *left -= 1;
            *count += 1;
            *count % *every == 0
        };
        let arrives = (self.now + self.path.rtt.0 + self.delay).max(self.busy_until + service);
        self.busy_until = arrives;
        self.flying.push_back(Flying {
            number: self.next,
            sent: self.now,
            arrives: (!lost).then_some(arrives),
            marked: false,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            tx_in_flight: self.in_flight() + 1,
            app_limited: self.app_limited > 0,
        });
        self.next += 1;
    }

    fn ack(&mut self) -> Result<(), Stop> {
        let Some((_, mut places)) = self.ack_at() else { return Ok(()) };
        self.check_app_limited();
        let prior_in_flight = self.in_flight();
        places.sort_unstable();
        let came: Vec<Flying> = places.iter().map(|i| self.flying[*i]).collect();
        for i in places.into_iter().rev() {
            self.flying.remove(i);
        }
        let Some(newest) = came.last().copied() else { return Ok(()) };
        (self.timeouts, self.progress) = (0, self.now);
        let rtt = self.take_rtt(&newest);
        let lost = self.find_lost();
        let rate = self.sample(&newest, came.len() as u64);
        if rate.prior_delivered >= self.round_end {
            self.round_end = self.delivered;
            self.round += 1;
            self.cwnd_limited = std::mem::take(&mut self.blocked_in_round);
        }
        let in_flight = self.in_flight();
        if !lost.is_empty() {
            self.tell_lost(Lost { packets: lost, persistent: false, in_flight, with_ack: true })?;
        }
        let packet = |flying: &Flying| Packet { number: flying.number, sent: flying.sent };
        let marked: Vec<_> = came.iter().filter(|flying| flying.marked).map(packet).collect();
        if !marked.is_empty() {
            self.tell(&Event::Marked(marked))?;
        }
        let acked = Acked {
            packets: came.iter().map(packet).collect(),
            prior_in_flight,
            in_flight,
            una: self.flying.front().map_or(self.next, |oldest| oldest.number),
            app_limited: prior_in_flight >= self.app && prior_in_flight < self.cwnd(),
            blocked: std::mem::take(&mut self.blocked),
            cwnd_limited: self.cwnd_limited || self.blocked_in_round,
            rtt,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            rate,
        };
        self.tell(&Event::Acked(acked))
    }

    /// Takes the RTT of an ACK's newest packet (RFC 9002, 5.3).
    fn take_rtt(&mut self, newest: &Flying) -> Time {
        if self.largest_acked.is_none_or(|largest| newest.number > largest) {
            self.largest_acked = Some(newest.number);
            let rtt = self.now - newest.sent;
            self.latest = rtt;
            self.min_rtt = self.min_rtt.min(rtt);
            if self.srtt == Time::ZERO {
                (self.srtt, self.rttvar) = (rtt, rtt / 2);
            } else {
                let off = self.srtt.max(rtt) - self.srtt.min(rtt);
                self.rttvar = self.rttvar.mul_div(3, 4) + off / 4;
                self.srtt = self.srtt.mul_div(7, 8) + rtt / 8;
            }
        }
        self.latest
    }

    /// `UpdateRateSample` and `GenerateRateSample`.
    fn sample(&mut self, newest: &Flying, packets: u64) -> Rate {
        self.delivered += packets;
        self.delivered_at = self.now;
        self.first_sent = newest.sent;
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let interval = newest.sent.saturating_sub(newest.first_sent).max(self.now.saturating_sub(newest.delivered_at));
        Rate {
            delivered: self.delivered - newest.delivered,
            interval: (interval >= self.min_rtt).then_some(interval),
            prior_delivered: newest.delivered,
            prior_lost: newest.lost,
            tx_in_flight: newest.tx_in_flight,
            app_limited: newest.app_limited,
        }
    }

    /// Takes out what now counts as lost (RFC 9002, 6.1).
    fn find_lost(&mut self) -> Vec<Packet> {
        let Some(largest) = self.largest_acked else { return Vec::new() };
        let (now, after) = (self.now, self.lost_after());
        let is_lost = |packet: &Flying| {
            packet.number + PACKET_THRESHOLD <= largest || packet.number < largest && packet.sent + after <= now
        };
        let lost: Vec<_> = self.flying.iter().filter(|packet| is_lost(packet)).copied().collect();
        self.flying.retain(|packet| !is_lost(packet));
        self.lost += lost.len() as u64;
        lost.iter().map(|packet| Packet { number: packet.number, sent: packet.sent }).collect()
    }

    fn tell_lost(&mut self, lost: Lost) -> Result<(), Stop> {
        self.latest_loss.clone_from(&lost.packets);
        self.tell(&Event::Lost(lost))
    }

    fn fire(&mut self) -> Result<(), Stop> {
        let packets = self.find_lost();
        if packets.is_empty() {
            self.timeouts += 1;
            self.probe = true;
            return Ok(());
        }
        let in_flight = self.in_flight();
        self.tell_lost(Lost { packets, persistent: false, in_flight, with_ack: false })
    }

    /// Does to the connection what a step says, before time passes.
    pub fn disturb(&mut self, step: &Step) -> Result<(), Stop> {
        let skip = usize::try_from(step.skip).unwrap_or(usize::MAX);
        let lose = usize::try_from(step.lose).unwrap_or(usize::MAX);
        self.flying.iter_mut().filter(|packet| packet.arrives.is_some()).skip(skip).take(lose).for_each(|packet| {
            packet.arrives = None;
        });
        let mark = usize::try_from(step.mark).unwrap_or(usize::MAX);
        self.flying.iter_mut().filter(|packet| packet.arrives.is_some()).take(mark).for_each(|packet| {
            packet.marked = true;
        });
        if step.reorder > 0 {
            let behind = usize::try_from(step.reorder).unwrap_or(usize::MAX).min(self.flying.len().saturating_sub(1));
            let after = self.flying.get(behind).and_then(|packet| packet.arrives);
            if let (Some(after), Some(oldest)) = (after, self.flying.front_mut()) {
                oldest.arrives = Some(after + GAP * 10);
            }
        }
        if step.drop_every > 0 {
            self.drop = (step.drop_every, step.packets, 0);
        }
        if let Some(app) = step.app {
            // Written before what is new is queued.
            self.check_app_limited();
            self.app = app.0;
        }
        if let Some(share) = step.rate {
            self.share = share;
        }
        if let Some(delay) = step.delay {
            self.delay = delay.0;
        }
        if step.persistent && !self.flying.is_empty() {
            self.now += self.pto() * 3;
            let lost = self.flying.drain(..).map(|packet| Packet { number: packet.number, sent: packet.sent });
            let packets: Vec<_> = lost.collect();
            self.lost += packets.len() as u64;
            self.tell_lost(Lost { packets, persistent: true, in_flight: 0, with_ack: false })?;
        }
        if step.spurious {
            self.tell(&Event::Spurious)?;
        }
        Ok(())
    }

    /// The number up to which packets are those of the round that begins now.
    pub fn round_mark(&self) -> u64 {
        if self.flying.is_empty() { self.next + 1 } else { self.next }
    }

    /// True if all packets with numbers below `mark` have left and are acknowledged or lost.
    pub fn is_past(&self, mark: u64) -> bool {
        self.next >= mark && self.flying.front().is_none_or(|oldest| oldest.number >= mark)
    }
}
