//! One direction of a link, with the delay behind it and what is observed of it.

use crate::observe::{Drops, Histogram, LinkCounts, LinkWatch};
use crate::output::{LinkFigures, LinkRow};
use knee_core::{Packet, Rng, Time};
use knee_link::medium::PathDelay;
use knee_link::{Arrivals, Delay, Departure, Link, Slots};

/// One direction of a link in a network: the link itself, what is behind it, and its observer.
#[derive(Clone)]
pub struct Direction {
    /// Its name in results.
    pub name: String,
    /// Loss, queue and server.
    pub link: Link,
    /// Propagation delay behind it. 0 for the reverse direction, whose delay is part of the ACKs' pipe.
    pub delay: Time,
    /// Random extra delay behind it.
    pub extra: Delay,
    /// Stream of that.
    jitter_rng: Rng,
    /// The propagation delay's change with time.
    pub path: Option<Box<dyn PathDelay>>,
    /// Slots in which packets are let go behind all delay.
    pub slots: Option<Slots>,
    /// True if the extra delay may change the order.
    pub reorder: bool,
    /// True if what other links send changes when it does.
    pub shares: bool,
    /// True if its queue cannot be copied, or sees in which order links call it.
    pub outside: bool,
    /// The pipe behind it, where there is a delay.
    pub pipe: Option<u32>,
    /// When the last packet that keeps the order comes to the other end.
    last_arrival: Time,
    /// Its observer.
    watch: LinkWatch,
}

impl Direction {
    /// `link` with nothing behind it.
    pub fn new(name: String, link: Link, jitter_rng: Rng) -> Self {
        let watch = LinkWatch::of(&link);
        Self {
            name,
            link,
            delay: Time::ZERO,
            extra: Delay::None,
            jitter_rng,
            path: None,
            slots: None,
            reorder: false,
            shares: false,
            outside: false,
            pipe: None,
            last_arrival: Time::ZERO,
            watch,
        }
    }

    /// Returns true if all packets take `delay` to get to the other end.
    pub const fn is_steady(&self) -> bool {
        self.extra.is_none() && self.path.is_none() && self.slots.is_none()
    }

    /// When `packet`, which leaves the link at `left`, comes to the other end. It is not before those that left earlier
    /// unless the extra delay may change the order.
    pub fn propagate(&mut self, packet: &Packet, left: Time) -> Time {
        let path = self.path.as_mut().map_or(Time::ZERO, |path| path.delay(left));
        let delay = self.delay + path + self.extra.draw(&mut self.jitter_rng);
        // So that what comes out of the pipe at one time was not still in the link at that time.
        let delay = if self.link.is_wire() { delay } else { delay.max(Time::from_nanos(1)) };
        let arrival = left + delay;
        let bytes = self.link.bytes_of(packet);
        let arrival = self.slots.as_mut().map_or(arrival, |slots| slots.release(arrival, bytes));
        if self.reorder {
            return arrival;
        }
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }

    /// Returns true if packets stay in order up to the other end.
    pub const fn keeps_order(&self) -> bool {
        !self.reorder || self.is_steady()
    }

    /// Takes the step that is due `now`; gives the packet that leaves, if one does.
    #[inline]
    pub fn serve(&mut self, now: Time) -> Option<Packet> {
        let departure = self.link.serve(now)?;
        self.watch.book(std::slice::from_ref(&departure));
        Some(departure.packet)
    }

    /// Lets all `arrivals` come, and takes all steps up to `until`. Packets that leave go to `departures`, which is
    /// empty.
    pub fn advance(&mut self, arrivals: &mut Arrivals, until: Time, departures: &mut Vec<Departure>) {
        self.link.advance(arrivals, until, departures);
        self.watch.book(departures);
    }

    /// Books a drop of a packet of `flow`; gives those before it that it does not belong to.
    pub fn book_drop(&mut self, at: Time, flow: u32, packet: &Packet) -> Option<Drops> {
        self.watch.note_drop(flow, packet.has(Packet::ACK), at)
    }

    /// Drops that are not yet on record.
    pub const fn last_drops(&mut self) -> Option<Drops> {
        self.watch.dropping.take()
    }

    /// The figures begin to count.
    pub fn measure(&mut self, now: Time) {
        self.watch.begin(LinkCounts::of(&self.link, now));
    }

    /// Row of link `i` for the interval ending now, without departures after `last`.
    pub fn row(&mut self, i: u32, now: Time, last: Time) -> LinkRow {
        self.watch.row(i, now.as_secs_f64(), LinkCounts::of(&self.link, last), self.link.backlog())
    }

    /// Queueing delays in the figures.
    pub const fn delays(&self) -> &Histogram {
        &self.watch.delay
    }

    /// The figures up to `end`.
    pub fn figures(&self, end: Time) -> LinkFigures {
        self.watch.figures(self.name.clone(), &LinkCounts::of(&self.link, end))
    }
}
