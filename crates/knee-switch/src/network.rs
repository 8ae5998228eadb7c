//! The way of packets through links and pipes, as in the simulator: data cross the links of their flow's path, ACKs the
//! links' reverse directions where those have queues, and then the pipe that holds what is left of the base RTT.
//!
//! Time here is when something was due, not when the machine got to it.

use crate::book::Book;
use crate::header::Header;
use crate::report::Figures;
use crate::store::Store;
use knee_capture::Capture;
use knee_core::{Packet, Rate, Time};
use knee_sim::link::Link;
use knee_sim::pipe::Pipe;
use knee_sim::simulation::{SpecError, check, links, path_delay};
use knee_sim::spec::{Change, Spec};

/// Where a pipe leads.
#[derive(Clone, Copy)]
enum PipeEnd {
    /// To the next link or the far endpoint.
    Hop,
    /// To the sender: the ACK is home.
    Sender,
}

/// What the network needs to know of a flow.
struct Way {
    /// The side that sends data: 0 in the forward direction, 1 in the reverse one.
    source: usize,
    data: Vec<u32>,
    acks: Vec<u32>,
    /// Propagation delay of the links of its path.
    links_delay: Time,
    ack_pipe: u32,
}

/// A packet that is due at a device.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The packet.
    pub packet: Packet,
    /// The side whose device gets it.
    pub side: usize,
    /// When.
    pub due: Time,
}

/// Something with a time of its own.
#[derive(Clone, Copy)]
enum Due {
    Link(usize),
    Pipe(usize),
    Figures,
}

/// Links, pipes and the accounts of flows.
pub struct Network {
    pub(crate) now: Time,
    pub(crate) links: Vec<Link>,
    pub(crate) names: Vec<String>,
    pub(crate) books: Vec<Book>,
    pub(crate) figures: Figures,
    /// The bytes of the packets inside.
    pub store: Store,
    /// What is due at a device and not yet written; the caller empties it.
    pub out: Vec<Departure>,
    /// Packets that belong to no flow, which were dropped.
    pub strays: u64,
    capture: Option<Capture>,
    pipes: Vec<(Pipe, PipeEnd)>,
    /// Pipes of the ACK path by their delay.
    ack_pipes: Vec<(Time, u32)>,
    ways: Vec<Way>,
    port: u16,
}

impl Network {
    /// The network of a specification at rest. Flow n has `port` plus n at the receiver of its data.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn new(spec: &Spec, port: u16, capture: Option<Capture>) -> Result<Self, SpecError> {
        check(spec)?;
        let built = links(spec)?;
        let mut network = Self {
            now: Time::ZERO,
            links: built.links,
            names: built.names,
            books: spec.flows.iter().map(|_| Book::default()).collect(),
            figures: Figures::new(spec),
            store: Store::default(),
            out: Vec::new(),
            strays: 0,
            capture,
            pipes: Vec::new(),
            ack_pipes: Vec::new(),
            ways: Vec::new(),
            port,
        };
        for link in &mut network.links {
            if link.delay > Time::ZERO || link.jitter > Time::ZERO {
                link.pipe = Some(network.pipes.len() as u32);
                network.pipes.push((Pipe::new(), PipeEnd::Hop));
            }
        }
        for flow in &spec.flows {
            let forward: Vec<u32> = flow.path.iter().map(|&link| link as u32).collect();
            let backward: Vec<u32> = flow.path.iter().rev().filter_map(|&link| built.reverse[link]).collect();
            let (data, acks) = if flow.reverse { (backward, forward) } else { (forward, backward) };
            let links_delay = path_delay(spec, &flow.path);
            let ack_pipe = network.ack_pipe(Time::from_nanos(flow.rtt) - links_delay);
            network.ways.push(Way { source: usize::from(flow.reverse), data, acks, links_delay, ack_pipe });
        }
        Ok(network)
    }

    /// The pipe of all ACK paths with this delay: packets that take the same time stay in order.
    fn ack_pipe(&mut self, delay: Time) -> u32 {
        if let Some(&(_, pipe)) = self.ack_pipes.iter().find(|(other, _)| *other == delay) {
            return pipe;
        }
        let pipe = self.pipes.len() as u32;
        self.pipes.push((Pipe::new(), PipeEnd::Sender));
        self.ack_pipes.push((delay, pipe));
        pipe
    }

    /// A packet came from a side's device at `now`: its bytes are in the free slot of the store.
    pub fn come(&mut self, side: usize, bytes: usize, now: Time) {
        let mut packet = Packet { seq: self.store.take(), size: bytes as u16, ..Packet::default() };
        // What was due before comes before: the network's clock never goes back.
        while self.next() <= now {
            self.step();
        }
        self.now = now;
        let header = Header::read(self.store.bytes(&packet));
        let Some((header, flow, ack)) = header.and_then(|header| self.flow_of(side, header)) else {
            self.strays += 1;
            return self.store.release(&packet);
        };
        packet.flow = flow as u32;
        packet.flags = [0, Packet::ECT | Packet::L4S, Packet::ECT, Packet::ECT | Packet::CE][usize::from(header.ecn)];
        packet.flags |= if ack { Packet::ACK } else { 0 };
        packet.flags |= if header.syn { Packet::SYN } else { 0 };
        if !ack {
            self.books[flow].sent(&header, &packet, now);
            if let Some(capture) = &mut self.capture {
                capture.packet(flow, now, self.store.bytes(&packet));
            }
        }
        self.go_on(packet);
    }

    /// The flow of a packet that a side sent, and whether it goes against the flow's data.
    fn flow_of(&self, side: usize, header: Header) -> Option<(Header, usize, bool)> {
        let flow = |port: u16| usize::from(port.wrapping_sub(self.port));
        let source = |flow: usize| self.ways.get(flow).map(|way| way.source);
        let (data, ack) = (flow(header.to), flow(header.from));
        if source(data) == Some(side) {
            Some((header, data, false))
        } else {
            source(ack).filter(|source| *source != side).map(|_| (header, ack, true))
        }
    }

    /// When something is due next.
    pub fn next(&self) -> Time {
        self.head().0
    }

    fn head(&self) -> (Time, Due) {
        let mut head = (self.figures.next(), Due::Figures);
        for (i, link) in self.links.iter().enumerate() {
            if link.due < head.0 {
                head = (link.due, Due::Link(i));
            }
        }
        for (i, (pipe, _)) in self.pipes.iter().enumerate() {
            if let Some(at) = pipe.next().filter(|at| *at < head.0) {
                head = (at, Due::Pipe(i));
            }
        }
        head
    }

    /// Does what is due next.
    pub fn step(&mut self) {
        let (at, due) = self.head();
        self.now = at;
        match due {
            Due::Link(i) => self.serve(i),
            Due::Pipe(i) => self.deliver(i),
            Due::Figures => self.on_figures(),
        }
    }

    fn serve(&mut self, i: usize) {
        let mut packet = Packet::default();
        let leaves = self.links[i].serve(self.now, &mut packet);
        self.collect(i);
        if !leaves {
            return;
        }
        let link = &mut self.links[i];
        let Some(pipe) = link.pipe else { return self.crossed(packet) };
        let mut at = self.now + link.delay;
        if link.jitter > Time::ZERO {
            at += Time::from_nanos(link.jitter_rng.below(link.jitter.as_nanos() + 1));
        }
        let behind = &mut self.pipes[pipe as usize].0;
        if link.reorder {
            behind.push_overtaking(at, packet)
        } else {
            behind.push(at, packet)
        };
    }

    fn deliver(&mut self, i: usize) {
        let (pipe, end) = &mut self.pipes[i];
        match (pipe.pop(self.now), *end) {
            (Some(packet), PipeEnd::Hop) => self.crossed(packet),
            (Some(packet), PipeEnd::Sender) => self.leave(packet),
            (None, _) => {}
        }
    }

    fn crossed(&mut self, mut packet: Packet) {
        packet.hop += 1;
        self.go_on(packet);
    }

    /// Into the next link of its way, or, where it has crossed all, on to its endpoint.
    fn go_on(&mut self, packet: Packet) {
        let way = &self.ways[packet.flow as usize];
        let ack = packet.has(Packet::ACK);
        match if ack { &way.acks } else { &way.data }.get(usize::from(packet.hop)) {
            Some(&link) => self.enqueue(link as usize, packet),
            None if ack => {
                let at = self.now + self.ack_delay(packet.flow as usize);
                self.pipes[self.ways[packet.flow as usize].ack_pipe as usize].0.push(at, packet);
            }
            None => self.leave(packet),
        }
    }

    fn ack_delay(&self, flow: usize) -> Time {
        let pipe = self.ways[flow].ack_pipe;
        self.ack_pipes.iter().find(|(_, other)| *other == pipe).map_or(Time::ZERO, |(delay, _)| *delay)
    }

    fn leave(&mut self, packet: Packet) {
        let source = self.ways[packet.flow as usize].source;
        let side = if packet.has(Packet::ACK) { source } else { 1 - source };
        self.out.push(Departure { packet, side, due: self.now });
    }

    fn enqueue(&mut self, i: usize, packet: Packet) {
        let now = self.now;
        let link = &mut self.links[i];
        if link.loses() {
            return self.drop(i, &packet);
        }
        link.take(packet, now);
        self.collect(i);
        let link = &mut self.links[i];
        if link.idle()
            && let Some(at) = link.wake(now)
        {
            link.due = at;
        }
        self.collect(i);
    }

    /// Books what a queue dropped or noted.
    pub(crate) fn collect(&mut self, i: usize) {
        if !self.links[i].has_news() {
            return;
        }
        let mut dropped = std::mem::take(&mut self.links[i].cx.dropped);
        for packet in dropped.drain(..) {
            self.drop(i, &packet);
        }
        self.links[i].cx.dropped = dropped;
        let mut notes = std::mem::take(&mut self.links[i].cx.notes);
        for note in notes.drain(..) {
            self.figures.record(self.now, note.flow, Some(i), note.event, note.value);
        }
        self.links[i].cx.notes = notes;
    }

    fn drop(&mut self, i: usize, packet: &Packet) {
        self.links[i].counters.drops += 1;
        // Data packets have more than headers.
        if Header::read(self.store.bytes(packet)).is_some_and(|header| header.payload > 0) && !packet.has(Packet::ACK) {
            self.books[packet.flow as usize].dropped += 1;
        }
        self.store.release(packet);
        if let Some(over) = self.links[i].watch.note_drop(packet.flow, self.now) {
            self.figures.record_drops(i, &over);
        }
    }

    /// A departure has been written to its device at `at`.
    pub fn left(&mut self, departure: &Departure, at: Time) {
        let packet = &departure.packet;
        let flow = packet.flow as usize;
        if let Some(capture) = self.capture.as_mut().filter(|_| packet.has(Packet::ACK)) {
            capture.packet(flow, at, self.store.bytes(packet));
        }
        if let Some(header) = Header::read(self.store.bytes(packet)) {
            if packet.has(Packet::ACK) {
                let acked = self.books[flow].acked(&header, at);
                self.figures.rtt(flow, acked.rtt);
                self.complete(flow, at);
            } else if header.payload > 0 {
                self.books[flow].received(packet);
            }
        }
        self.store.release(packet);
    }

    /// Makes a change of the scenario.
    pub(crate) fn change(&mut self, change: Change) {
        let now = self.now;
        match change {
            Change::Rate { link, rate } => {
                self.links[link].set_rate(Rate::from_bps(rate), now);
                self.collect(link);
                self.figures.record(now, None, Some(link), "rate", rate as f64 / 1e6);
            }
            Change::Loss { link, loss } => {
                self.links[link].loss = loss;
                self.figures.record(now, None, Some(link), "loss_probability", loss);
            }
            Change::Limit { link, limit } => {
                let target = &mut self.links[link];
                target.cx.now = now;
                target.queue.set_limit(limit.into(), &mut target.cx);
                self.collect(link);
                self.figures.record(now, None, Some(link), "limit", limit.figure());
            }
            Change::Rtt { flow, rtt } => {
                let rtt = Time::from_nanos(rtt);
                let pipe = self.ack_pipe(rtt.saturating_sub(self.ways[flow].links_delay));
                self.ways[flow].ack_pipe = pipe;
                self.figures.record(now, Some(flow as u32), None, "rtt", rtt.as_millis_f64());
            }
        }
    }

    /// Ends the capture, if there is one.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn end_capture(&mut self) -> std::io::Result<()> {
        self.capture.take().map_or(Ok(()), Capture::finish)
    }
}
