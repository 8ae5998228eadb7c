//! A medium between a queue without limit and a list of what leaves.

use crate::entry::{Init, Model, Shared};
use crate::medium::{Frame, Medium, Port, Sending};
use crate::queue::Backlog;
use knee_core::{Bytes, Packet, Params, Payload, Rate, Time, Value};
use std::collections::VecDeque;

/// A medium of `model` at a rate in Mbit/s.
pub fn make(model: &Model, given: &[(&str, Value)], mbps: u64) -> Box<dyn Medium> {
    make_on(&Shared::default(), "link", model, given, mbps)
}

/// A medium of the link `name` that shares something with others.
pub fn make_on(shared: &Shared, name: &str, model: &Model, given: &[(&str, Value)], mbps: u64) -> Box<dyn Medium> {
    let params = Params::resolve(model.choice.params, given.iter().copied()).unwrap();
    let rate = Rate::from_mbps(mbps);
    let init = Init { rate, seed: 1, name, link: name, shared };
    (model.check)(&params, init.rate).unwrap();
    model.make.unwrap()(&params, &init)
}

/// A medium before a queue of packets of 1500 bytes, and a list of what leaves it.
pub struct Bench {
    medium: Box<dyn Medium>,
    /// When the medium is to be asked.
    due: Time,
    /// Arrivals: the time, the number of packets, and their category.
    comes: VecDeque<(Time, u64, u8)>,
    side: Side,
}

#[derive(Default)]
struct Side {
    now: Time,
    waits: VecDeque<Packet>,
    leaves: Vec<(u64, Time)>,
    lost: Vec<u64>,
    carried: u64,
    sending: Sending,
    held: u64,
    next: u64,
    /// True if there is always another packet; and the categories of which there is, a bit for each.
    endless: bool,
    saturated: u8,
    /// The category of each packet that left, and how long it was here.
    left: Vec<(u32, Time)>,
    /// True if the medium is also asked when a packet comes.
    listens: bool,
}

impl Side {
    fn comes(&mut self, category: u8) {
        let payload = Payload::segment(self.next);
        let packet = Packet { size: 1500, payload, at: self.now, flow: category.into(), ..Packet::default() };
        self.waits.push_back(packet);
        self.next += 1;
    }

    fn taken(&mut self, packet: Packet) -> Frame {
        self.held += 1;
        Frame { packet, since: self.now, bytes: u64::from(packet.size) + 14 }
    }
}

impl Port for Side {
    fn take(&mut self) -> Option<Frame> {
        if self.endless {
            self.comes(0);
        }
        let packet = self.waits.pop_front()?;
        Some(self.taken(packet))
    }

    fn take_from(&mut self, category: u8) -> Option<Frame> {
        if self.saturated & 1 << category != 0 {
            self.comes(category);
        }
        let first = self.waits.iter().position(|packet| packet.flow == u32::from(category))?;
        let packet = self.waits.remove(first)?;
        Some(self.taken(packet))
    }

    fn listen(&mut self) {
        self.listens = true;
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.waits.len() as u64, bytes: Bytes(self.waits.len() as u64 * 1514) }
    }

    fn leave(&mut self, frame: Frame, at: Time) {
        assert!(at >= self.now, "{at} is before {}", self.now);
        self.held -= 1;
        let at = at.max(self.leaves.last().map_or(at, |last| last.1));
        self.leaves.push((frame.packet.payload.seq(), at));
        self.left.push((frame.packet.flow, at - frame.packet.at));
    }

    fn lose(&mut self, frame: Frame) {
        self.held -= 1;
        self.lost.push(frame.packet.payload.seq());
    }

    fn carry(&mut self, bits: u64, from: Time, until: Time) {
        self.carried += bits;
        self.sending = Sending { from, until, bits };
    }
}

impl Bench {
    pub fn new(medium: Box<dyn Medium>) -> Self {
        Self { medium, due: Time::MAX, comes: VecDeque::new(), side: Side::default() }
    }

    /// So many packets come at a time, which is not before those of the calls before.
    pub fn arrive(&mut self, at: Time, count: u64) {
        self.arrive_in(0, at, count);
    }

    /// So many packets of an access category come at a time, which is not before those of the calls before.
    pub fn arrive_in(&mut self, category: u8, at: Time, count: u64) {
        self.comes.push_back((at, count, category));
    }

    /// From the start there is always a packet to send.
    pub fn saturate(&mut self) {
        self.side.endless = true;
        self.arrive(Time::ZERO, 1);
    }

    /// From the start there is always a packet to send of these access categories.
    pub fn saturate_categories(&mut self, categories: &[u8]) {
        self.side.saturated = categories.iter().map(|category| 1 << category).sum();
        self.arrive_in(categories[0], Time::ZERO, 1);
    }

    /// Lets time pass up to `until`. Gives how long packets of an access category were here that have left.
    pub fn delays_in(&mut self, category: u8, until: Time) -> Vec<Time> {
        self.run(until);
        let of = self.side.left.iter().filter(|left| left.0 == u32::from(category));
        of.map(|left| left.1).collect()
    }

    /// Lets time pass up to `until`. Gives when packets left.
    pub fn departures(&mut self, until: Time) -> Vec<Time> {
        self.run(until);
        self.side.leaves.iter().map(|leave| leave.1).filter(|at| *at <= until).collect()
    }

    /// The packets that left, by their number, and those lost.
    pub fn fates(&mut self, until: Time) -> (Vec<u64>, Vec<u64>) {
        self.run(until);
        (self.side.leaves.iter().map(|leave| leave.0).collect(), self.side.lost.clone())
    }

    /// Bits carried in the time up to `until`.
    pub fn carried(&mut self, until: Time) -> u128 {
        self.run(until);
        u128::from(self.side.carried) - self.side.sending.rest(until)
    }

    fn run(&mut self, until: Time) {
        together(std::slice::from_mut(self), until);
    }

    fn next(&self) -> Time {
        self.comes.front().map_or(self.due, |next| next.0.min(self.due))
    }

    /// Something comes, or the medium is asked.
    fn step(&mut self, now: Time) {
        self.side.now = now;
        if let Some((at, count, category)) = self.comes.front().copied()
            && at <= self.due
        {
            self.comes.pop_front();
            for _ in 0..count {
                self.side.comes(category);
            }
            if self.due < Time::MAX && !self.side.listens {
                return;
            }
        }
        self.side.listens = false;
        self.due = self.medium.serve(now, &mut self.side);
        assert!(self.due >= now, "it asks for {} at {now}", self.due);
        let inside = self.side.waits.len() as u64 + self.side.held;
        let done = (self.side.leaves.len() + self.side.lost.len()) as u64;
        assert_eq!(self.side.next, done + inside, "every packet is somewhere at {now}");
    }
}

/// Lets time pass up to `until` for media that share something: events due at one time go in their order.
pub fn together(benches: &mut [Bench], until: Time) {
    loop {
        let next = benches.iter().enumerate().min_by_key(|(i, bench)| (bench.next(), *i));
        let Some((i, now)) = next.map(|(i, bench)| (i, bench.next())) else { return };
        if now > until || now == Time::MAX {
            return;
        }
        benches[i].step(now);
    }
}
