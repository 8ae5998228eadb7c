//! A simulated network for tests: knee's links, queues and models, driven by the program under test, with its bytes.
//!
//! A [`Net`] is read from a scenario file; it has no clock, no sockets and no threads. [`Net::send`] puts a datagram in
//! at one end of a path, [`Net::poll`] gives what has come out at the others, and [`Net::next`] says when that may be.
//! The same file, seed and calls give the same bytes at the same times.
//!
//! ```
//! use knee_test::{Ecn, Net, Time};
//!
//! # fn main() -> Result<(), knee_test::Error> {
//! let mut net = Net::from_toml(
//!     r#"
//!     [link]
//!     rate = "10 Mbit/s"
//!     queue = "codel"
//!
//!     [[flows]]
//!     rtt = "40 ms"
//!     "#,
//! )?;
//! let [client, server] = net.ends("flow 1")?;
//! net.send(Time::ZERO, client, b"ping", Ecn::Ect0)?;
//! while let Some(now) = net.next() {
//!     for delivered in net.poll(now)? {
//!         assert_eq!((delivered.port, &delivered.bytes[..]), (server, &b"ping"[..]));
//!     }
//! }
//! assert!(net.link("bottleneck")?.queueing().p95() < Time::from_millis(20));
//! # Ok(())
//! # }
//! ```
//!
//! `[[flows]]` of the file are the paths: each has two ends, the near one, from which a flow's data would come, and the
//! far one. What `knee run` would send there is sent only where [`Net::background`] says so. Not modelled: processor
//! time, segmentation offload, and fragmentation.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod engine;
mod error;
mod figures;
mod ip;
#[cfg(feature = "tokio")]
mod lab;
#[cfg(feature = "noq")]
mod noq;
mod pcap;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "smoltcp")]
mod smoltcp;
#[cfg(any(feature = "noq", feature = "quinn"))]
mod timer;
#[cfg(feature = "tokio")]
mod udp;

#[cfg(feature = "smoltcp")]
pub use self::smoltcp::{Came, Room, Wire, Wires};
pub use error::Error;
pub use figures::{Flow, Link, Queueing};
pub use knee_core::Time;
pub use knee_scenario::{Path, Scenario};
#[cfg(feature = "tokio")]
pub use lab::Lab;
#[cfg(feature = "tokio")]
pub use udp::Udp;

use engine::{Engine, Fate};
use knee_core::Packet;
use knee_core::convert::{index_u16, index_u32};
use pcap::Capture;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddrV4;
use std::path::Path as FilePath;

/// Largest IP packet, bytes.
pub const MTU: usize = knee_core::packet::MTU as usize;
/// Bytes of the headers of IPv4 and UDP, which each datagram of [`Net::send`] has on the links.
pub const HEADERS: usize = 28;
/// Packets that have come out and were not taken, at the most.
const MOST_WAITING: usize = 100_000;

/// An end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(u32);

impl Port {
    /// The near end of the path of flow `path`, counted from 0 in the order of the file.
    pub const fn near(path: u32) -> Self {
        Self(path * 2)
    }

    /// The far end of it.
    pub const fn far(path: u32) -> Self {
        Self(path * 2 + 1)
    }

    /// The other end of the same path.
    #[must_use]
    pub const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// The number of its path, counted from 0 in the order of the file.
    pub const fn path(self) -> u32 {
        self.0 / 2
    }

    /// True of the far end.
    pub const fn is_far(self) -> bool {
        self.0 % 2 == 1
    }
}

/// The ECN field of an IP header (RFC 3168, 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(1), of L4S (RFC 9331).
    Ect1,
    /// ECT(0).
    Ect0,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// From the two bits of the header.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits of the header.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    const fn flags(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => Packet::ECT | Packet::L4S,
            Self::Ect0 => Packet::ECT,
            Self::Ce => Packet::ECT | Packet::CE,
        }
    }
}

/// A packet that has come out at an end of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// When it came out.
    pub at: Time,
    /// Where.
    pub port: Port,
    /// The payload given to [`Net::send`], or the whole packet given to [`Net::send_ip`] with this ECN field.
    pub bytes: Vec<u8>,
    /// Its ECN field, which queues may have set to CE.
    pub ecn: Ecn,
    /// Its codepoint (DSCP, RFC 2474), below 64.
    pub dscp: u8,
    /// When it was sent.
    pub sent: Time,
    /// How long it waited in queues, to 64 ns.
    pub queued: Time,
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was lost at random before the queue.
    Lost,
    /// The queue did not take it: it was full, or its discipline dropped it on arrival.
    Refused,
    /// The queue dropped it for another packet that came.
    PushedOut,
    /// The queue's discipline dropped it as it was to leave, or as the limit changed.
    Managed,
    /// It was damaged on the link, so that its checksum failed at the other end.
    Damaged,
}

/// A packet that a link dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// When.
    pub at: Time,
    /// The port that sent it.
    pub from: Port,
    /// When it was sent.
    pub sent: Time,
    /// The number of the link, as in [`Net::link_names`].
    pub link: usize,
    /// Why.
    pub reason: Reason,
    /// Its size as an IP packet, bytes.
    pub size: usize,
}

/// A packet inside.
#[derive(Clone, Debug)]
struct Inside {
    bytes: Vec<u8>,
    from: Port,
    sent: Time,
    dscp: u8,
    is_ip: bool,
}

/// A simulated network.
pub struct Net {
    engine: Engine,
    scenario: Scenario,
    /// Paths whose flows are the simulator's.
    background: BTreeSet<u32>,
    /// True once something was sent, or time has passed.
    begun: bool,
    /// The latest time told.
    now: Time,
    inside: Vec<Option<Inside>>,
    free: Vec<u32>,
    arrived: VecDeque<Delivered>,
    drops: Vec<Dropped>,
    capture: Capture,
}

impl Net {
    /// The network of a scenario file.
    ///
    /// # Errors
    /// If the file cannot be read, or says what cannot be.
    pub fn open(file: impl AsRef<FilePath>) -> Result<Self, Error> {
        Self::new(&knee_scenario::open(file)?)
    }

    /// The network of a scenario file's text.
    ///
    /// # Errors
    /// If it says what cannot be.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        Self::new(&knee_scenario::read(text, "the text")?)
    }

    /// The network of a scenario that was read before, perhaps with another seed.
    ///
    /// # Errors
    /// If its links cannot be built.
    pub fn new(scenario: &Scenario) -> Result<Self, Error> {
        Ok(Self {
            engine: Engine::new(scenario, &BTreeSet::new())?,
            scenario: scenario.clone(),
            background: BTreeSet::new(),
            begun: false,
            now: Time::ZERO,
            inside: Vec::new(),
            free: Vec::new(),
            arrived: VecDeque::new(),
            drops: Vec::new(),
            capture: Capture::new(scenario.paths.iter().map(|path| path.label.as_str())),
        })
    }

    /// Lets the simulator send what the file says of a flow, as `knee run` does: its traffic, start and stop, by the
    /// simulator's TCP or QUIC. Its path has no ports for the program then.
    ///
    /// # Errors
    /// If there is no such flow, the file says of it what is not read here, or something was sent or time has passed.
    pub fn background(&mut self, flow: &str) -> Result<(), Error> {
        let path = self.path(flow)?;
        if self.begun {
            return Err(Error::Begun { flow: flow.into(), at: self.now });
        }
        let mut background = self.background.clone();
        background.insert(path);
        self.engine = Engine::new(&self.scenario, &background)?;
        self.background = background;
        Ok(())
    }

    /// The figures of a flow of the simulator's, from its start to the latest time told.
    ///
    /// # Errors
    /// If there is no such flow, or it is the program's.
    pub fn flow(&mut self, flow: &str) -> Result<Flow, Error> {
        let path = self.path(flow)?;
        if !self.background.contains(&path) {
            let found = "the program's; the simulator sends those that background names";
            return Err(Error::Whose { flow: flow.into(), found });
        }
        let start = self.scenario.flows.get(path as usize).and_then(|sent| sent.as_ref().ok());
        let start = Time::from_nanos(start.map_or(0, |sent| sent.start));
        Ok(Flow::new(&self.engine.counts(path, self.now), self.now.saturating_sub(start)))
    }

    /// How many of the program's packets are inside.
    pub fn inside(&self) -> usize {
        self.inside.len() - self.free.len()
    }

    /// The seed of all random streams; a failing test prints it.
    pub const fn seed(&self) -> u64 {
        self.scenario.seed
    }

    /// The latest time told.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// How many paths there are; each has a [`Port::near`] and a [`Port::far`].
    pub fn paths(&self) -> u32 {
        index_u32(self.scenario.paths.len())
    }

    /// The near and the far end of a flow's path.
    ///
    /// # Errors
    /// If there is no such flow; without a label the first is `flow 1`.
    pub fn ends(&self, flow: &str) -> Result<[Port; 2], Error> {
        self.path(flow).map(|path| [Port::near(path), Port::far(path)])
    }

    /// The number of a flow's path.
    fn path(&self, flow: &str) -> Result<u32, Error> {
        let mut labels = self.scenario.paths.iter().map(|path| &path.label);
        labels.clone().position(|label| label == flow).map(index_u32).ok_or_else(|| {
            let known = labels.by_ref().cloned().collect();
            Error::UnknownName { kind: "flow", found: flow.into(), known }
        })
    }

    /// The address of a port in captures, and for programs that want one: near ends are in 10.1.0.0/16, far ones in
    /// 10.129.0.0/16.
    pub const fn address(port: Port) -> SocketAddrV4 {
        ip::address(port)
    }

    /// The port of an address.
    pub fn port_of(&self, address: SocketAddrV4) -> Option<Port> {
        (0..self.paths() * 2).map(Port).find(|port| Self::address(*port) == address)
    }

    /// Sends a UDP payload from one end of a path to the other, with the path's codepoint. On links it has 28 bytes of
    /// headers more.
    ///
    /// # Errors
    /// If the packet is larger than [`MTU`], the port does not exist, `now` is before the last time told, or nobody
    /// takes what comes out.
    pub fn send(&mut self, now: Time, port: Port, bytes: &[u8], ecn: Ecn) -> Result<(), Error> {
        let dscp = self.scenario.paths.get(port.path() as usize).map_or(0, |path| path.dscp);
        let inside = Inside { bytes: bytes.to_vec(), from: port, sent: now, dscp, is_ip: false };
        self.put(now, inside, bytes.len() + HEADERS, ecn)
    }

    /// Sends a whole IP packet, of version 4 or 6, with the codepoint and the ECN field that it has. It is not routed:
    /// it goes to the other end, whatever its addresses are.
    ///
    /// # Errors
    /// As of [`Net::send`], and if the bytes are no IP packet.
    pub fn send_ip(&mut self, now: Time, port: Port, packet: &[u8]) -> Result<(), Error> {
        let fields = ip::fields(packet).map_err(|fault| Error::NotIp { port, len: packet.len(), fault })?;
        let inside = Inside { bytes: packet.to_vec(), from: port, sent: now, dscp: fields >> 2, is_ip: true };
        self.put(now, inside, packet.len(), Ecn::from_bits(fields))
    }

    /// Refuses a port that no path has, or whose path is the simulator's.
    fn check(&self, port: Port) -> Result<(), Error> {
        let paths = self.paths();
        let Some(path) = self.scenario.paths.get(port.path() as usize) else {
            return Err(Error::UnknownPort { found: port, paths });
        };
        if self.background.contains(&port.path()) {
            let found = "the simulator's; a program sends on the paths of others";
            return Err(Error::Whose { flow: path.label.clone(), found });
        }
        Ok(())
    }

    fn put(&mut self, now: Time, inside: Inside, size: usize, ecn: Ecn) -> Result<(), Error> {
        let port = inside.from;
        self.check(port)?;
        if size > MTU {
            let most = if inside.is_ip { MTU } else { MTU - HEADERS };
            return Err(Error::TooLarge { at: now, port, found: size, most });
        }
        if let Some(first) = self.arrived.front().filter(|_| self.arrived.len() >= MOST_WAITING) {
            return Err(Error::NotPolled { waiting: self.arrived.len(), since: first.at });
        }
        self.advance(now)?;
        let dscp = inside.dscp;
        let path = self.engine.marked(port.path(), dscp).ok_or(Error::Codepoint { at: now, found: dscp })?;
        self.capture.packet(now, port, &inside, ecn, None);
        let key = self.free.pop().unwrap_or_else(|| {
            self.inside.push(None);
            index_u32(self.inside.len()) - 1
        });
        self.inside[key as usize] = Some(inside);
        let packet = engine::packet(key, index_u16(size), ecn.flags());
        self.engine.send(path, port.is_far(), packet, now);
        self.sort();
        Ok(())
    }

    /// When something happens inside next. `None` if nothing does until something is sent. Something may also have
    /// come out already.
    pub fn next(&self) -> Option<Time> {
        if let Some(first) = self.arrived.front() {
            return Some(first.at.max(self.now));
        }
        Some(self.engine.next()).filter(|at| *at < Time::MAX)
    }

    /// Lets time pass up to `now`; gives what has come out, in the order in which it did.
    ///
    /// # Errors
    /// If `now` is before the last time told.
    pub fn poll(&mut self, now: Time) -> Result<impl Iterator<Item = Delivered> + '_, Error> {
        self.advance(now)?;
        Ok(self.arrived.drain(..))
    }

    /// Does all that is due up to `now`, inclusive.
    fn advance(&mut self, now: Time) -> Result<(), Error> {
        if now < self.now {
            return Err(Error::ClockWentBack { before: self.now, found: now });
        }
        self.begun = true;
        while self.engine.next() <= now {
            self.engine.step();
            self.sort();
        }
        self.now = now;
        Ok(())
    }

    /// Takes what has happened inside.
    fn sort(&mut self) {
        let Self { engine, inside, free, arrived, drops, capture, .. } = self;
        for (at, fate) in engine.take() {
            let (Fate::Arrived(packet) | Fate::Dropped(packet, ..)) = fate;
            let key = engine::key(&packet);
            let Some(mut kept) = inside[key as usize].take() else { continue };
            free.push(key);
            let (from, sent, size) = (kept.from, kept.sent, usize::from(packet.size));
            let ecn = Ecn::from_bits(packet.ecn_field());
            if let Fate::Dropped(_, link, reason) = fate {
                capture.packet(at, from, &kept, ecn, Some(reason));
                drops.push(Dropped { at, from, sent, link, reason, size });
                continue;
            }
            if kept.is_ip {
                ip::set_ecn(&mut kept.bytes, ecn);
            }
            capture.packet(at, from.other(), &kept, ecn, None);
            let (port, dscp, queued) = (from.other(), kept.dscp, packet.queued());
            arrived.push_back(Delivered { at, port, bytes: kept.bytes, ecn, dscp, sent, queued });
        }
    }

    /// Drops of all links so far, in the order of time.
    pub fn drops(&self) -> &[Dropped] {
        &self.drops
    }

    /// The names of the links, then of the reverse directions that queue, as `downlink (reverse)`.
    pub fn link_names(&self) -> impl Iterator<Item = &str> {
        self.engine.link_names()
    }

    /// The figures of a link up to the latest time told.
    ///
    /// # Errors
    /// If no link has this name; that of `[link]` is `bottleneck`.
    pub fn link(&mut self, name: &str) -> Result<Link, Error> {
        let Some(number) = self.engine.link_names().position(|link| link == name) else {
            let known = self.engine.link_names().map(str::to_owned).collect();
            return Err(Error::UnknownName { kind: "link", found: name.into(), known });
        };
        let (figures, bytes) = self.engine.figures(number, self.now);
        Ok(Link::new(figures, bytes, self.now))
    }

    /// Keeps the first `bytes` of each packet for [`Net::write_pcap`] from now on; 0: keeps no packet. At first 96.
    pub const fn capture(&mut self, bytes: usize) {
        self.capture.keep = bytes;
    }

    /// The packets so far as a pcapng file: an interface for each port, and one more for each path, whose packets were
    /// dropped, each with a comment that says why.
    pub fn pcap(&self) -> Vec<u8> {
        self.capture.file()
    }

    /// Writes [`Net::pcap`] into a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_pcap(&self, file: impl AsRef<FilePath>) -> Result<(), Error> {
        let file = file.as_ref();
        let failed = |error| Error::Write { file: file.display().to_string(), error };
        std::fs::write(file, self.pcap()).map_err(failed)
    }
}
