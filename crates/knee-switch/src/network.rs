//! The path of packets through links and pipes, as in the simulator: data cross the links of their flow's path, ACKs
//! the links' reverse directions where those have queues, and then the pipe that holds what is left of the base RTT.
//!
//! Time here is when something was due, not when the machine got to it.

use crate::account::Account;
use crate::book::Book;
use crate::header::Header;
use crate::late::Late;
use crate::store::Store;
use knee_capture::Capture;
use knee_core::convert::{index_u16, index_u32};
use knee_core::{Packet, Time};
use knee_net::SpecError;
use knee_net::driver::{Driver, Step};
use knee_net::events::{Event, agenda};
use knee_net::network::Network as Paths;
use knee_net::observe::{Histogram, Spread};
use knee_net::recorder::Recorder;
use knee_net::spec::{FlowSpec, Spec, Transport};
use std::sync::Arc;

/// A packet that is due at a device.
#[derive(Clone, Copy, Debug)]
pub struct DuePacket {
    /// The packet.
    pub packet: Packet,
    /// The side whose device gets it.
    pub side: usize,
    /// When.
    pub due: Time,
}

/// State of a flow apart from its account.
pub(crate) struct SwitchedFlow {
    /// The side that sends its data: 0 in the forward direction, 1 in the reverse one.
    source: usize,
    /// Size of its transfer.
    pub(crate) bytes: Option<u64>,
    /// Bytes that each packet counts besides its own on the first link.
    pub(crate) overhead: u64,
    /// RTT samples of the interval.
    pub(crate) rtt: Spread,
    /// RTTs in its figures.
    pub(crate) rtts: Histogram,
    /// True if its figures have begun and not ended.
    pub(crate) watched: bool,
    /// True if it goes in datagrams: QUIC's, or an application's own.
    udp: bool,
    /// True if its port is where its data comes from: at the server of an application that asks for data.
    pulls: bool,
    /// True if it runs over QUIC.
    quic: bool,
    /// Counters of its endpoints. `None` if it has none here.
    pub(crate) account: Option<Arc<Account>>,
}

impl SwitchedFlow {
    /// Takes an RTT sample.
    pub(crate) fn book_rtt(&mut self, rtt: Time) {
        self.rtt.add(rtt);
        if self.watched {
            self.rtts.count(rtt);
        }
    }
}

/// State of flows, and the bytes of their packets.
pub(crate) struct Accounts {
    pub(crate) flows: Vec<SwitchedFlow>,
    pub(crate) books: Vec<Book>,
    /// The bytes of the packets inside.
    pub(crate) store: Store,
}

/// Links, pipes and the accounts of flows.
pub struct SwitchNetwork {
    pub(crate) now: Time,
    /// Links, pipes and the paths of flows, as in the simulator.
    pub(crate) paths: Paths,
    /// State of flows.
    pub(crate) accounts: Accounts,
    pub(crate) recorder: Recorder,
    /// Moves packets through it, and knows what happens at times known from the start.
    pub(crate) driver: Driver,
    /// Packets due at a device that are not written yet; the caller empties it.
    pub out: Vec<DuePacket>,
    /// Packets that belong to no flow, which were dropped.
    pub strays: u64,
    capture: Option<Capture>,
    port: u16,
    /// The flow of packets that have no other flow's port.
    program: Option<usize>,
}

impl SwitchNetwork {
    /// The network of a specification at rest. Flow n has `port` plus n at one end: a bulk flow at the receiver of its
    /// data, an application's where its server is.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn new(spec: &Spec, port: u16, capture: Option<Capture>) -> Result<Self, SpecError> {
        let flow = |flow: &FlowSpec| SwitchedFlow {
            source: usize::from(flow.reverse),
            bytes: flow.bytes,
            overhead: u64::from(spec.links[flow.path[0]].overhead),
            rtt: Spread::EMPTY,
            rtts: Histogram::new(10),
            watched: false,
            udp: flow.transport == Transport::Quic || flow.sends_datagrams(),
            pulls: flow.pulls(),
            quic: flow.transport == Transport::Quic,
            account: None,
        };
        let mut agenda = agenda(spec);
        if spec.warmup == 0 {
            (0..).zip(&spec.flows).for_each(|(i, flow)| agenda.push(Time::from_nanos(flow.start), Event::Measure(i)));
        }
        Ok(Self {
            now: Time::ZERO,
            paths: Paths::new(spec)?,
            accounts: Accounts {
                flows: spec.flows.iter().map(flow).collect(),
                books: spec.flows.iter().map(|_| Book::default()).collect(),
                store: Store::default(),
            },
            // Packets on a link at the end have left it by the machine's clock.
            recorder: Recorder::new(spec, Time::MAX),
            driver: Driver::new(agenda),
            out: Vec::new(),
            strays: 0,
            capture,
            port,
            program: None,
        })
    }

    /// Takes packets that have no flow's port for those of flow `program`, in which any connection may be.
    pub fn carry_program(&mut self, program: Option<usize>) {
        self.program = program;
    }

    /// Lets the network see the endpoints of QUIC flows, by flow.
    pub fn watch(&mut self, accounts: Vec<Option<Arc<Account>>>) {
        for (flow, account) in self.accounts.flows.iter_mut().zip(accounts) {
            flow.account = account;
        }
    }

    /// A packet came from a side's device at `now`: its bytes are in the free slot of the store.
    pub fn ingress(&mut self, side: usize, bytes: usize, now: Time) {
        let mut packet = Packet { payload: self.accounts.store.take(), size: index_u16(bytes), ..Packet::default() };
        // Events that were due earlier come first: the network's clock never goes back.
        while self.next() <= now {
            self.step();
        }
        self.now = now;
        let header = Header::read_any(self.accounts.store.bytes(&packet));
        let Some((header, flow, ack)) = header.and_then(|header| self.flow_of(side, header)) else {
            self.strays += 1;
            return self.accounts.store.release(&packet);
        };
        packet.flow = index_u32(flow);
        packet.flags = [0, Packet::ECT | Packet::L4S, Packet::ECT, Packet::ECT | Packet::CE][usize::from(header.ecn)];
        packet.flags |= if ack { Packet::ACK } else { 0 };
        packet.flags |= if header.syn { Packet::SYN } else { 0 };
        if !ack {
            let port = self.connection(flow, &header);
            self.accounts.books[flow].sent(&header, &packet, port, now);
            if let Some(capture) = &mut self.capture {
                capture.packet(flow, now, self.accounts.store.bytes(&packet));
            }
        }
        self.driver.forward(&mut self.paths, packet, 1, now);
        self.book_links();
    }

    /// The flow of a packet that a side sent, and whether it goes against the flow's data. Ports that the kernel
    /// chooses are none of the flows'.
    fn flow_of(&self, side: usize, header: Header) -> Option<(Header, usize, bool)> {
        let flow = |port: u16| {
            Some(usize::from(port.wrapping_sub(self.port)))
                .filter(|i| *i < self.accounts.flows.len() && Some(*i) != self.program)
        };
        let (to, from) = (flow(header.to), flow(header.from));
        let known = |i: usize| {
            let known = &self.accounts.flows[i];
            let with_data = known.source == side;
            (known.udp == header.udp && to.is_some() == (with_data != known.pulls)).then_some((header, i, !with_data))
        };
        let program = |i: usize| (header, i, self.accounts.flows[i].source != side);
        to.or(from).and_then(known).or_else(|| self.program.map(program))
    }

    /// The port that tells the connections of a flow apart.
    fn connection(&self, flow: usize, header: &Header) -> u16 {
        if self.program == Some(flow) {
            // This number is the same in both directions, and another one for each port of a program that talks to one
            // server.
            return header.from ^ header.to;
        }
        if usize::from(header.to.wrapping_sub(self.port)) == flow { header.from } else { header.to }
    }

    /// When something is due next.
    pub fn next(&self) -> Time {
        self.driver.next()
    }

    /// Does what is due next.
    pub fn step(&mut self) {
        let Some((at, step)) = self.driver.step(&mut self.paths, Time::MAX) else { return };
        self.now = at;
        self.book_links();
        match step {
            Step::Moved => {}
            Step::Arrived(packet) => self.leave(packet),
            Step::Due(event) => self.on_agenda(event),
        }
    }

    fn leave(&mut self, packet: Packet) {
        let source = self.accounts.flows[packet.flow as usize].source;
        let side = if packet.has(Packet::ACK) { source } else { 1 - source };
        self.out.push(DuePacket { packet, side, due: self.now });
    }

    /// Books what links have dropped and their queues have noted as packets moved.
    fn book_links(&mut self) {
        self.recorder.book_links(&mut self.paths, &mut self.accounts);
    }

    /// The bytes of the packets inside.
    pub const fn store(&mut self) -> &mut Store {
        &mut self.accounts.store
    }

    /// A departure has been written to its device at `at`.
    pub fn on_written(&mut self, departure: &DuePacket, at: Time) {
        let packet = &departure.packet;
        let flow = packet.flow as usize;
        if let Some(capture) = self.capture.as_mut().filter(|_| packet.has(Packet::ACK)) {
            capture.packet(flow, at, self.accounts.store.bytes(packet));
        }
        if let Some(header) = Header::read_any(self.accounts.store.bytes(packet)) {
            if packet.has(Packet::ACK) {
                if self.accounts.flows[flow].quic {
                    self.complete_quic(flow);
                } else {
                    let port = self.connection(flow, &header);
                    if let Some(rtt) = self.accounts.books[flow].acked(&header, port, at) {
                        self.accounts.flows[flow].book_rtt(rtt);
                    }
                    self.complete(flow, at);
                }
            } else if header.payload > 0 {
                let port = self.connection(flow, &header);
                self.accounts.books[flow].received(&header, packet, port);
            }
        }
        self.accounts.store.release(packet);
    }

    /// How the run goes, as JSON: time, what the program's flow and all flows have received, what waits in links, and
    /// how many packets left late.
    pub fn live(&self, late: &Late) -> String {
        let received = |book: &Book| book.received.bytes;
        let program = self.program.map_or(0, |i| received(&self.accounts.books[i]));
        let all: u64 = self.accounts.books.iter().map(received).sum();
        let (departures, behind) = late.so_far();
        let (t, held) = (self.now.as_nanos(), self.accounts.store.held());
        format!(
            r#"{{"t":{t},"program":{program},"all":{all},"held":{held},"departures":{departures},"behind":{behind}}}"#
        )
    }

    /// Ends the capture, if there is one.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn end_capture(&mut self) -> std::io::Result<()> {
        self.capture.take().map_or(Ok(()), Capture::finish)
    }
}
