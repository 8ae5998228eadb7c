//! Moves packets through a network, from event to event.
//!
//! [`Driver::forward`] takes a packet to the next link of its path; behind the last, an ACK to the pipe at the end of
//! the path, and data to whoever runs the network. [`Driver::step`] lets the link or pipe that is due next act: a
//! packet that leaves a link, or the pipe behind it, is taken on.
//!
//! Only half-connections of applications have mirrored paths ([`FlowPath::mirrored`]), on which data has the pipe, and
//! ACKs have none. A reverse link makes none.

use crate::events::{Event, Events};
use crate::network::{FlowPath, Network};
use knee_core::{Packet, Time};
use knee_link::Link;
use knee_link::queue::Burst;

/// An outcome of a step.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A packet moved within the network, or nothing did.
    Moved,
    /// A packet came to its end: data to its receiver, an ACK to its sender.
    Arrived(Packet),
    /// An event of others is due.
    Due(Event),
}

/// Lets time pass in a network.
#[derive(Clone)]
pub struct Driver {
    /// An event for each link and pipe that has something to do, and what others schedule.
    pub events: Events,
    /// The link or pipe that acted last, with the time of its next packet: as long as nothing else is due before, it
    /// goes on without the heap.
    last: (Time, Event),
}

const NOBODY: (Time, Event) = (Time::MAX, Event::Sample);

impl Driver {
    /// For a network in which nothing has happened yet, with the events of others.
    pub const fn new(events: Events) -> Self {
        Self { events, last: NOBODY }
    }

    /// When something is due next; `Time::MAX`: nothing is.
    #[inline]
    pub fn next(&self) -> Time {
        self.events.next().min(self.last.0)
    }

    /// Lets the next event before `end` happen, if there is one, and gives its time. Links that dropped packets or left
    /// notes are in [`Network::unbooked`] then.
    #[inline]
    pub fn step(&mut self, network: &mut Network, end: Time) -> Option<(Time, Step)> {
        let (last, next) = (self.last, self.events.next());
        if last.0.min(next) >= end {
            return None;
        }
        self.last = NOBODY;
        let (now, event) = if last.0 < next {
            last
        } else {
            if last.0 < Time::MAX {
                self.events.push(last.0, last.1);
            }
            self.events.pop()?
        };
        let step = match event {
            Event::Wire(i) | Event::Medium(i) => self.serve(network, i, event, now),
            Event::Pipe(i) => self.deliver(network, i, now),
            _ => Step::Due(event),
        };
        Some((now, step))
    }

    /// Takes `count` packets that differ only by their segments to the next link of their path, or behind the last one.
    /// It is a burst that sets out, or one packet on its way: its `hop` says how many links it has crossed.
    #[inline]
    pub fn forward(&mut self, network: &mut Network, mut first: Packet, count: u32, now: Time) -> Step {
        let FlowPath { ack_pipe, ack_delay, mirrored, .. } = network.flow_paths[first.flow as usize];
        if let Some(i) = network.next_link(&first) {
            first.at = now;
            let link = &mut network.directions[i as usize].link;
            let before = link.due();
            link.arrive(&Burst { first, count }, now);
            // An event at another time that the heap still holds for the link is void from now on.
            if link.due() != before && link.due() < Time::MAX {
                self.events.push(link.due(), event_of(link, i));
            }
            if link.has_unbooked() {
                network.unbooked.push(i);
            }
        } else if first.has(Packet::ACK) == mirrored {
            // Not mirrored: data has arrived, an ACK enters its pipe. Mirrored: the other way round.
            return Step::Arrived(first);
        } else {
            let pipe = &mut network.pipes[ack_pipe as usize];
            for k in 0..count {
                if let Some(at) = pipe.push(now + ack_delay, first.behind(k)) {
                    self.events.push(at, Event::Pipe(ack_pipe));
                }
            }
        }
        Step::Moved
    }

    /// The next event that the link or pipe that acted last expects; the state at its ends can be prefetched.
    #[inline]
    pub fn upcoming<'a>(&self, network: &'a Network) -> Upcoming<'a> {
        match self.last.1 {
            _ if self.last.0 == Time::MAX => Upcoming::Nothing,
            Event::Wire(i) | Event::Medium(i) => {
                let on_wire = network.directions[i as usize].link.on_wire();
                on_wire.map_or(Upcoming::Nothing, Upcoming::Departure)
            }
            Event::Pipe(i) if network.ends_a_path(i) => Upcoming::Arrivals(&network.pipes[i as usize]),
            _ => Upcoming::Nothing,
        }
    }

    /// Checks that an event is there for each link and pipe at the time at which it is due.
    ///
    /// # Errors
    /// If one is missing.
    pub fn audit(&self, network: &Network) -> Result<(), String> {
        let links = network.directions.iter().map(|direction| &direction.link);
        let links = (0..).zip(links).map(|(i, link)| (link.due(), event_of(link, i)));
        let pipes = (0..).zip(&network.pipes).map(|(i, pipe)| (pipe.next().unwrap_or(Time::MAX), Event::Pipe(i)));
        let known = |at, event| self.last == (at, event) || self.events.contains(at, event);
        match links.chain(pipes).find(|&(at, event)| at < Time::MAX && !known(at, event)) {
            Some((at, event)) => Err(format!("no event for {event:?} at {at}")),
            None => Ok(()),
        }
    }

    /// A link serves: a packet that leaves it enters the pipe behind it, or is taken on where there is none.
    #[inline]
    fn serve(&mut self, network: &mut Network, i: u32, event: Event, now: Time) -> Step {
        let direction = &mut network.directions[i as usize];
        // Its time may have changed since the event was made; there is another event then.
        if direction.link.due() != now {
            return Step::Moved;
        }
        let packet = direction.serve(now);
        self.last = (direction.link.due(), event);
        if direction.link.has_unbooked() {
            network.unbooked.push(i);
        }
        let Some(mut packet) = packet else { return Step::Moved };
        packet.hop += 1;
        let Some(pipe) = direction.pipe else { return self.forward(network, packet, 1, now) };
        let at = direction.propagate(&packet, now);
        let behind = &mut network.pipes[pipe as usize];
        let head = if direction.reorder { behind.push_overtaking(at, packet) } else { behind.push(at, packet) };
        if let Some(at) = head {
            self.events.push(at, Event::Pipe(pipe));
        }
        Step::Moved
    }

    /// A pipe delivers. At the end of a path an ACK has arrived at its sender or, on a mirrored path, data at its
    /// receiver. Behind a link the packet is taken on.
    #[inline]
    fn deliver(&mut self, network: &mut Network, i: u32, now: Time) -> Step {
        let pipe = &mut network.pipes[i as usize];
        // None: the event of a packet that another one overtook.
        let Some(packet) = pipe.pop(now) else { return Step::Moved };
        if let Some(at) = pipe.next() {
            self.last = (at, Event::Pipe(i));
        }
        if network.ends_a_path(i) { Step::Arrived(packet) } else { self.forward(network, packet, 1, now) }
    }
}

/// The next event that the link or pipe that acted last expects.
#[derive(Clone, Copy)]
pub enum Upcoming<'a> {
    /// Nothing.
    Nothing,
    /// This packet leaves a link next.
    Departure(&'a Packet),
    /// Packets arrive at senders out of this pipe.
    Arrivals(&'a crate::pipe::Pipe),
}

/// The event of the link at an index.
const fn event_of(link: &Link, i: u32) -> Event {
    if link.is_wire() { Event::Wire(i) } else { Event::Medium(i) }
}

#[cfg(test)]
mod tests;
