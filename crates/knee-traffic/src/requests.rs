//! Requests and answers: web pages of several objects, and RPCs (pages of one object).
//!
//! A page is loaded as HTTP/1.1 (RFC 9112) has it, one request at a time on each connection, no pipelining: first its
//! first object (the HTML, which names the others) alone; then all others, over at most `connections` parallel
//! connections. With `streams` above 1 a connection has as many requests at once, each on a stream of QUIC, as HTTP/3
//! (RFC 9114) has it, and answers come by their `priority` (RFC 9218). With `together` nothing waits for the first: a
//! page is the block of a file whose parts a client asks several servers for, and the next is asked for when the
//! slowest has answered (incast; Phanishayee et al., FAST 2008). A page takes idle connections where there are any, the
//! one used last first, and opens new ones for what is left. A connection is usable after its TCP handshake and, with
//! TLS, the round trips of that:
//!
//! | TLS | client sends | server answers |
//! |---|---|---|
//! | 1.3 | ClientHello, 300 B | ServerHello, certificates, CertificateVerify, Finished, 4000 B |
//! | 1.2 | ClientHello, 300 B | ServerHello, certificates, ServerKeyExchange, ServerHelloDone, 4000 B |
//! | | ClientKeyExchange, ChangeCipherSpec, Finished, 126 B | ChangeCipherSpec, Finished, 51 B |
//!
//! 300 and 4000 B are round figures: certificates range from below 1 to above 10 kB; 2540 B of them and 212 B of
//! ClientHello were measured by D. Wong ("How big are TLS records during a handshake?", 2017), who also has the 75 B of
//! the ClientKeyExchange. Both fit the initial window (RFC 6928), so that they cost one round trip; larger certificates
//! (`certificate`, 318 B less than the answer) may cost more.
//! The second flight of TLS 1.2 has records of 6 and 45 B (RFC 5246, 7.1 and 7.4.9, with AES-GCM as RFC 5288 has it).
//! The client's Finished of TLS 1.3 goes with the first request and is not counted, nor are session tickets and
//! resumption.
//!
//! On record: [`What::Connect`] and [`What::Tls`] per connection, [`What::Request`] per object (from the call that
//! sends the request on an open connection to the last byte of the answer), [`What::Page`] per page (from when the user
//! asks).
//!
//! The stop of the flow ends the arrival of pages; those that are being loaded are finished. All sizes of a page are
//! drawn when it is asked for, so that with an open loop pages are the same whatever the path makes of them.

use knee_core::convert::{index, truncated_u32};
use std::collections::{BTreeMap, VecDeque};

use knee_core::{Bytes, Conflict, Rng, Time, choice, params};

use crate::arrivals::{ArrivalTimes, nanos};
use crate::check::{MAX_SIZE, MAX_SPAN};
use crate::sizes::exponential;
use crate::spec::{Count, Pages, Priorities, Size};
use crate::{Application, Completion, Conn, Entry, Exchange, Form, Given, Make, Net, Table, What};

/// The entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "requests",
    about: "requests and answers: web pages with handshakes and TLS, or RPCs",
    source: "HTTP/1.1's browsers; Web Almanac 2024 for the preset web-page",
    params: Params::DECLARED,
    tables: &[
        Table { name: "pages", form: Form::Pages, about: "when pages are asked for" },
        Table { name: "size", form: Form::Size, about: "how large each answer is" },
        Table { name: "objects", form: Form::Count, about: "answers per page" },
        Table { name: "priority", form: Form::Priorities, about: "priority of an answer, or of each in turn" },
    ],
    required: &["pages", "size", "objects"],
    pulls: true,
    echoes: false,
    sockets: true,
    independent: |_| false,
    check,
    load: |given| match given.table("pages") {
        Pages::Closed(..) => None,
        Pages::Open(arrivals) => {
            arrivals.load(given.table::<Count>("objects").mean() * given.table::<Size>("size").mean())
        }
    },
    make: Make::Application(|given, rng| {
        let (size, objects) = (given.table::<Size>("size").clone(), *given.table("objects"));
        let priorities = given.find("priority").cloned().unwrap_or_default();
        Box::new(Requests::new(given.table("pages"), (size, objects, priorities), (&given.params).into(), rng))
    }),
};

choice! {
    /// A TLS handshake before the first request of a connection.
    pub enum Tls {
        /// No TLS: requests in clear.
        None = "none",
        /// One round trip (RFC 8446).
        V13 = "1.3",
        /// Two round trips (RFC 5246).
        V12 = "1.2",
    }
}

/// Bytes of the server's first answer beside its certificates: hellos, extensions, a signature by ECDSA, Finished.
const BESIDE_CERTIFICATE: u64 = 318;

params! {
    /// Its parameters.
    struct Params {
        /// bytes of a request
        request: Bytes = Bytes(500), in Bytes(1)..=Bytes(MAX_SIZE), from "ours: a browser's header fields";
        /// connections at most for a page
        connections: u64 = 1, in 1..=100_000, from "ours: an RPC";
        /// requests at most at once on a connection, each on a stream of QUIC
        streams: u64 = 1, in 1..=100_000, from "RFC 9112; RFC 9114, 4.1";
        /// whether connections stay open from page to page; at most `connections` wait idle, the others close
        persistent: bool = false, from "ours: HTTP/1.0";
        /// TLS handshake
        tls: Tls = Tls::V13, from "RFC 8446";
        /// bytes of the server's certificates, with TLS
        certificate: u64 = 3_682, in 0..=36_000, from "ours: an answer of 4000 B, a round figure";
        /// how long the server takes for each answer
        service: Time = Time::ZERO, in Time::ZERO..=Time::from_nanos(MAX_SPAN), from "ours: none";
        /// whether all objects of a page are asked for at once; else the first comes alone, as it names the others
        together: bool = false, from "ours: a web page";
        /// how many pages there are at most
        number: u64 = u64::MAX, in 0..=u64::MAX, from "ours: no limit";
    }
}

/// The application.
#[derive(Clone)]
struct Requests {
    params: Params,
    /// Bytes of each answer, answers of a page, and their priorities.
    size: Size,
    objects: Count,
    priorities: Priorities,
    users: Users,
    /// Stream of the sizes and counts of objects.
    sizes: Rng,
    /// When the flow started.
    began: Time,
    /// When the next page is asked for. `None` for not before another is complete, or never.
    next: Option<Time>,
    /// Pages still to be asked for at most.
    left: u64,
    /// Pages that are being loaded, by number, and how many there have been.
    pages: BTreeMap<u64, Page>,
    begun: u64,
    links: BTreeMap<Conn, Link>,
    /// Connections open without a page, the one used last at the end.
    idle: Vec<Conn>,
}

#[derive(Clone)]
enum Users {
    /// One who thinks so long (ns) between pages; on average, with a stream of these times, where it is random.
    One(u64, Option<Rng>),
    Many(ArrivalTimes),
}

#[derive(Clone)]
struct Page {
    started: Time,
    bytes: u64,
    /// Objects that nobody has asked for, in their order, and how many were.
    waiting: VecDeque<u64>,
    asked: u64,
    /// Requests that are not answered.
    running: u32,
    /// The first object has not come, without which the others are unknown.
    first: bool,
}

/// A connection that is not idle.
#[derive(Clone)]
struct Link {
    /// The page it was taken for. It may be complete without it.
    page: u64,
    state: LinkState,
    /// When that began; the first of all rounds of TLS.
    since: Time,
}

#[derive(Clone)]
enum LinkState {
    Connecting,
    /// In this round trip of the TLS handshake, from 0.
    Tls(usize),
    /// Answers are on their way, by the number of the exchange: bytes, and when each was asked for.
    Busy(BTreeMap<u64, (u64, Time)>),
}

impl Tls {
    /// Bytes up and down of round trip `round` of the handshake, if there is such.
    const fn round(self, round: usize, certificate: u64) -> Option<(u64, u64)> {
        match (self, round) {
            (Self::V13 | Self::V12, 0) => Some((300, certificate + BESIDE_CERTIFICATE)),
            (Self::V12, 1) => Some((126, 51)),
            _ => None,
        }
    }
}

impl Count {
    /// The mean number.
    pub fn mean(self) -> f64 {
        match self {
            Self::Fixed(n) => f64::from(n),
            Self::Geometric(mean) => mean,
        }
    }

    /// Draws a number, at least 1.
    pub fn draw(self, rng: &mut Rng) -> u32 {
        match self {
            Self::Fixed(n) => n.max(1),
            Self::Geometric(mean) if mean <= 1.0 => 1,
            // The number of trials up to the first success, each with probability 1/mean.
            Self::Geometric(mean) => {
                1 + truncated_u32(libm::floor(libm::log(1.0 - rng.unit()) / libm::log1p(-1.0 / mean)).min(1e9))
            }
        }
    }
}

impl Requests {
    fn new(
        pages: &Pages,
        (size, objects, priorities): (Size, Count, Priorities),
        params: Params,
        mut rng: Rng,
    ) -> Self {
        let times = Rng::stream(rng.next_u64(), "arrivals");
        let users = match pages {
            Pages::Closed(think, random) => Users::One(*think, random.then_some(times)),
            Pages::Open(arrivals) => Users::Many(ArrivalTimes::new(arrivals, times)),
        };
        Self {
            params,
            size,
            objects,
            priorities,
            users,
            sizes: Rng::stream(rng.next_u64(), "sizes"),
            began: Time::ZERO,
            next: None,
            left: params.number,
            pages: BTreeMap::new(),
            begun: 0,
            links: BTreeMap::new(),
            idle: Vec::new(),
        }
    }

    /// Sets when users who do not wait for answers ask next.
    fn advance(&mut self) {
        self.next = match &mut self.users {
            Users::Many(arrivals) if self.left > 0 => arrivals.next().map(|after| self.began.saturating_add(after)),
            _ => None,
        };
    }

    /// Asks for all pages that are due.
    fn ask(&mut self, net: &mut dyn Net) {
        while self.next.is_some_and(|at| at <= net.now()) {
            self.left -= 1;
            let number = self.begun;
            self.begun += 1;
            let objects = self.objects.draw(&mut self.sizes);
            let waiting: VecDeque<u64> = (0..objects).map(|_| self.size.draw(&mut self.sizes)).collect();
            let bytes = waiting.iter().sum();
            let Params { together, connections, streams, .. } = self.params;
            let page = Page { started: net.now(), bytes, waiting, asked: 0, running: 0, first: !together };
            self.pages.insert(number, page);
            for _ in 0..if together { u64::from(objects).div_ceil(streams).min(connections) } else { 1 } {
                self.take_connection(number, net);
            }
            self.advance();
        }
        match self.next {
            Some(Time::MAX) | None => self.close_if_over(net),
            Some(at) => net.wake(at),
        }
    }

    /// Takes an idle connection for a page, or opens one.
    fn take_connection(&mut self, page: u64, net: &mut dyn Net) {
        if let Some(conn) = self.idle.pop() {
            self.use_connection(conn, page, net);
        } else {
            let conn = net.open();
            self.links.insert(conn, Link { page, state: LinkState::Connecting, since: net.now() });
        }
    }

    /// Sends the page's next requests on a connection that is ready; where none runs then, it is idle or closes.
    fn use_connection(&mut self, conn: Conn, number: u64, net: &mut dyn Net) {
        let mut running = match self.links.remove(&conn) {
            Some(Link { state: LinkState::Busy(running), .. }) => running,
            _ => BTreeMap::new(),
        };
        while let Some(page) = self.pages.get_mut(&number)
            && (running.len() as u64) < self.params.streams
            && !(page.first && page.running > 0)
            && let Some(bytes) = page.waiting.pop_front()
        {
            let priority = self.priorities.of(page.asked);
            page.asked += 1;
            page.running += 1;
            let Params { request, service, .. } = self.params;
            let exchange = net.exchange(conn, Exchange { up: request.0, down: bytes, service, priority });
            running.insert(exchange, (bytes, net.now()));
        }
        if !running.is_empty() {
            self.links.insert(conn, Link { page: number, state: LinkState::Busy(running), since: net.now() });
            return;
        }
        if self.params.persistent && self.idle.len() < index(self.params.connections) {
            self.idle.push(conn);
        } else {
            net.close(conn);
        }
        self.close_if_over(net);
    }

    /// Starts round `round` of a connection's TLS handshake, or uses it where that is over.
    fn shake_hands(&mut self, conn: Conn, page: u64, round: usize, since: Time, net: &mut dyn Net) {
        let Params { tls, certificate, .. } = self.params;
        if let Some((up, down)) = tls.round(round, certificate) {
            self.links.insert(conn, Link { page, state: LinkState::Tls(round), since });
            net.exchange(conn, Exchange { down, ..Exchange::of(up) });
            return;
        }
        if round > 0 {
            let bytes = (0..round).filter_map(|round| tls.round(round, certificate)).map(|(up, down)| up + down).sum();
            net.record(Completion::new(What::Tls, since, net.now(), bytes, f64::NAN));
        }
        self.use_connection(conn, page, net);
    }

    /// An answer has come.
    fn answered(&mut self, conn: Conn, number: u64, net: &mut dyn Net) {
        let page = self.pages.get_mut(&number).expect("a page waits for its answers");
        page.running -= 1;
        let first = std::mem::take(&mut page.first);
        if page.running == 0 && page.waiting.is_empty() {
            net.record(Completion::new(What::Page, page.started, net.now(), page.bytes, f64::NAN));
            self.pages.remove(&number);
            self.think(net);
        }
        self.use_connection(conn, number, net);
        if first {
            let more = self.pages.get(&number).map_or(0, |page| page.waiting.len() as u64);
            for _ in 0..more.div_ceil(self.params.streams).min(self.params.connections - 1) {
                self.take_connection(number, net);
            }
        }
    }

    /// The one user has a page and asks for another later.
    fn think(&mut self, net: &mut dyn Net) {
        if let Users::One(think, random) = &mut self.users
            && self.left > 0
        {
            let think = match random {
                Some(rng) => nanos(exponential(*think as f64, rng)),
                None => Time::from_nanos(*think),
            };
            let at = net.now().saturating_add(think);
            self.next = Some(at);
            net.wake(at);
        }
    }

    /// Closes idle connections once nobody will need them.
    fn close_if_over(&mut self, net: &mut dyn Net) {
        if self.next.is_none() && self.pages.is_empty() {
            self.idle.drain(..).for_each(|conn| net.close(conn));
        }
    }
}

/// Refuses priorities that nobody is to obey.
fn check(given: &Given) -> Result<(), Conflict> {
    if given.find::<Priorities>("priority").is_some() && given.params.count("streams") == 1 {
        let found = "answers of a connection come one after the other, with `streams` of 1".into();
        return Err(Conflict { key: "priority", found, accepted: "`streams` of 2 or more, or no such key".into() });
    }
    Ok(())
}

impl Application for Requests {
    fn start(&mut self, net: &mut dyn Net) {
        self.began = net.now();
        match &self.users {
            Users::One(..) if self.left > 0 => self.next = Some(self.began),
            _ => self.advance(),
        }
        self.ask(net);
    }

    fn on_connected(&mut self, conn: Conn, net: &mut dyn Net) {
        let link = &self.links[&conn];
        // With 0-RTT its handshake goes on.
        if net.now() > link.since {
            net.record(Completion::new(What::Connect, link.since, net.now(), 0, f64::NAN));
        }
        self.shake_hands(conn, link.page, 0, net.now(), net);
    }

    fn on_handshake(&mut self, since: Time, net: &mut dyn Net) {
        net.record(Completion::new(What::Connect, since, net.now(), 0, f64::NAN));
    }

    fn on_complete(&mut self, conn: Conn, exchange: u64, net: &mut dyn Net) {
        let Link { page, state, since } =
            self.links.get_mut(&conn).expect("an exchange is of a connection that is busy");
        let (page, since) = (*page, *since);
        match state {
            LinkState::Connecting => unreachable!("nothing is sent on a connection that is not open"),
            LinkState::Tls(round) => {
                let next = *round + 1;
                self.shake_hands(conn, page, next, since, net);
            }
            LinkState::Busy(running) => {
                let (bytes, since) = running.remove(&exchange).expect("each exchange completes once");
                net.record(Completion::new(What::Request, since, net.now(), bytes, f64::NAN));
                self.answered(conn, page, net);
            }
        }
    }

    fn on_wake(&mut self, net: &mut dyn Net) {
        self.ask(net);
    }

    fn stop(&mut self, net: &mut dyn Net) {
        (self.next, self.left) = (None, 0);
        self.close_if_over(net);
    }
}

#[cfg(test)]
#[path = "requests/tests.rs"]
mod tests;
