//! The way of packets through links and pipes.

use super::{PipeEnd, Simulation};
use crate::events::Event;
use crate::observe::Drops;
use crate::output::EventRow;
use knee_core::cache::{fetch, fetch_first};
use knee_core::{Packet, Time};

impl Simulation {
    /// The link at the head of the heap serves, again and again while nothing else is due before its next packet:
    /// a busy link mostly needs no heap.
    pub(super) fn on_link(&mut self, i: u32) {
        if self.links[i as usize].due != self.now {
            return self.events.pop();
        }
        let mut packet = Packet::default();
        loop {
            let link = &mut self.links[i as usize];
            let leaves = link.serve(self.now, &mut packet);
            let (next, pipe) = (link.due, link.pipe);
            if self.fetches
                && let Some(packet) = link.in_service()
            {
                fetch(&self.receivers[packet.flow as usize]);
                fetch(&self.ways[packet.flow as usize]);
            }
            if link.has_news() {
                self.collect(i);
            }
            if leaves {
                match pipe {
                    None => self.arrive(&mut packet),
                    Some(pipe) => self.propagate(i, pipe, &mut packet),
                }
            }
            // Meanwhile the link may have been woken or given another time; its old entry is still the head.
            match self.links[i as usize].due {
                due if due == Time::MAX || due != next => return self.events.pop(),
                due if due < self.events.second().min(self.end) => self.now = due,
                due if self.links[i as usize].is_wire() => return self.events.postpone_leaving(due),
                due => return self.events.postpone(due),
            }
        }
    }

    /// A packet that has left a link enters the pipe behind it.
    fn propagate(&mut self, i: u32, pipe: u32, packet: &mut Packet) {
        let link = &mut self.links[i as usize];
        let mut at = self.now + link.delay;
        if link.jitter > Time::ZERO {
            at += Time::from_nanos(link.jitter_rng.below(link.jitter.as_nanos() + 1));
        }
        let behind = &mut self.pipes[pipe as usize].0;
        let head = if link.reorder { behind.push_overtaking(at, *packet) } else { behind.push(at, *packet) };
        if let Some(at) = head {
            self.schedule_event(at, Event::Pipe(pipe));
        }
    }

    /// The pipe at the head of the heap delivers, as long as nothing else is due before its next packet.
    pub(super) fn on_pipe(&mut self, i: u32) {
        loop {
            if self.fetches {
                self.fetch_ahead(i);
            }
            let (pipe, end) = &mut self.pipes[i as usize];
            // None: an event that another packet overtook.
            match (pipe.pop(self.now), *end) {
                (Some(mut packet), PipeEnd::Hop) => self.arrive(&mut packet),
                (Some(packet), PipeEnd::Sender) => self.on_ack(&packet),
                (None, _) => return self.events.pop(),
            }
            match self.pipes[i as usize].0.next() {
                Some(at) if at < self.events.second().min(self.end) => self.now = at,
                Some(at) => return self.events.postpone(at),
                None => return self.events.pop(),
            }
        }
    }

    /// Fetches what the ACKs behind the head of a pipe will need.
    #[inline]
    fn fetch_ahead(&self, i: u32) {
        let pipe = &self.pipes[i as usize].0;
        if let Some(packet) = pipe.peek(2) {
            self.senders[packet.flow as usize].fetch();
            fetch_first(&self.flows[packet.flow as usize], 1);
            self.sacks.fetch(packet.extra);
        }
        if let Some(packet) = pipe.peek(1) {
            self.senders[packet.flow as usize].fetch_behind();
            self.flows[packet.flow as usize].rtt_histogram.fetch_counts();
        }
    }

    /// A packet has crossed a link.
    #[inline(never)]
    fn arrive(&mut self, packet: &mut Packet) {
        packet.hop += 1;
        let way = self.ways[packet.flow as usize];
        if packet.has(Packet::ACK) {
            if packet.hop < way.ack_hops { self.forward(*packet) } else { self.return_home(*packet, &way) }
        } else if packet.hop < way.data_hops {
            self.forward(*packet);
        } else {
            self.on_data(packet, &way);
        }
    }

    /// A packet goes on to the next link of its way.
    #[inline(never)]
    pub(super) fn forward(&mut self, packet: Packet) {
        let route = &self.routes[self.ways[packet.flow as usize].route as usize];
        let links = if packet.has(Packet::ACK) { &route.acks } else { &route.data };
        self.enqueue(links[usize::from(packet.hop)], packet);
    }

    /// `count` packets that differ by their segments only come to a link now.
    pub(super) fn admit(&mut self, i: u32, first: Packet, count: u32) {
        for k in self.links[i as usize].take_burst(first, count, self.now)..count {
            self.enqueue(i, Packet { seq: first.seq + u64::from(k), ..first });
        }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, i: u32, packet: Packet) {
        let link = &mut self.links[i as usize];
        if link.loses() {
            return self.book_drop(i, &packet);
        }
        link.take(packet, self.now);
        let idle = link.idle();
        if idle || link.has_news() {
            self.attend(i, idle);
        }
    }

    /// After a packet came: books what the queue did, and lets an idle link begin.
    #[cold]
    fn attend(&mut self, i: u32, idle: bool) {
        self.collect(i);
        if idle {
            self.wake(i);
            self.collect(i);
        }
    }

    /// Lets an idle link begin.
    fn wake(&mut self, i: u32) {
        let link = &mut self.links[i as usize];
        if let Some(at) = link.wake(self.now) {
            // An event at another time that the link still has in the heap is void from now on.
            link.due = at;
            if link.is_wire() {
                self.events.push_leaving(at, Event::Link(i));
            } else {
                self.schedule_event(at, Event::Link(i));
            }
        }
    }

    /// Books what a queue dropped or noted.
    #[cold]
    pub(super) fn collect(&mut self, i: u32) {
        let mut dropped = std::mem::take(&mut self.links[i as usize].cx.dropped);
        for packet in dropped.drain(..) {
            self.book_drop(i, &packet);
        }
        self.links[i as usize].cx.dropped = dropped;
        let mut notes = std::mem::take(&mut self.links[i as usize].cx.notes);
        for note in notes.drain(..) {
            self.record(note.flow, Some(i), note.event, note.value);
        }
        self.links[i as usize].cx.notes = notes;
    }

    pub(super) fn book_drop(&mut self, i: u32, packet: &Packet) {
        self.links[i as usize].counters.drops += 1;
        if packet.has(Packet::ACK) {
            self.sacks.release(packet.extra);
        } else if !packet.has(Packet::SYN) {
            self.flows[packet.flow as usize].dropped += 1;
        }
        let over = self.links[i as usize].watch.note_drop(packet.flow, self.now);
        self.record_drops(i, over);
    }

    pub(super) fn record_drops(&mut self, link: u32, drops: Option<Drops>) {
        if let Some(Drops { flow, first, count, .. }) = drops {
            let event = self.event_name("drop");
            let t_s = first.as_secs_f64();
            // They are entered when they are over, but read by the time they began.
            self.rows.event(EventRow {
                t_s,
                value: f64::from(count),
                flow: flow as i32,
                link: link as i32,
                event,
                reserved: 0,
            });
        }
    }
}
