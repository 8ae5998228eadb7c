//! A [`Net`] for tests: an ideal path, and checks of what an application must not do.

use std::collections::BTreeMap;

use knee_core::{Bytes, Rate, Time};

use crate::{Application, Completion, Conn, Exchange, Net, What};

/// An event on the path.
enum Event {
    Connected(Conn),
    Complete(Conn, u64),
}

/// A connection, whose every direction carries the path's rate.
struct Connection {
    /// When the handshake is over, the last byte in each direction has left, and the last exchange is complete.
    open: Time,
    up_free: Time,
    down_free: Time,
    complete: Time,
    /// Numbers of the exchanges that are not complete, and how many there have been.
    pending: Vec<u64>,
    exchanges: u64,
    closed: bool,
}

/// A path without loss, queue or congestion control: each connection has its rate in each direction, half the RTT each
/// way.
pub struct Ideal {
    rtt: Time,
    rate: Rate,
    now: Time,
    connections: Vec<Connection>,
    events: BTreeMap<(Time, u64), Event>,
    number: u64,
    wake: Option<Time>,
    /// Records of the application, in the order in which they were made.
    pub records: Vec<Completion>,
    /// Exchanges asked for: when, on which connection, of which sizes.
    pub exchanges: Vec<(Time, Conn, Exchange)>,
    /// How often it was woken.
    pub wakes: u64,
    /// The most connections that were not closed at the same time.
    pub most_open: usize,
    /// Each exchange has a stream of its own, and waits for no other.
    pub streams: bool,
    /// The most exchanges of a connection that ran at the same time.
    pub most_running: usize,
}

impl Ideal {
    pub fn new(rtt: Time, rate: Rate) -> Self {
        Self {
            rtt,
            rate,
            now: Time::ZERO,
            connections: Vec::new(),
            events: BTreeMap::new(),
            number: 0,
            wake: None,
            records: Vec::new(),
            exchanges: Vec::new(),
            wakes: 0,
            most_open: 0,
            streams: false,
            most_running: 0,
        }
    }

    /// Starts an application, stops it at `stop` (never where there is none), and runs it to its end.
    ///
    /// # Panics
    /// If it does not end, or leaves a connection open.
    pub fn run(&mut self, app: &mut dyn Application, mut stop: Option<Time>) {
        app.start(self);
        for _ in 0..10_000_000 {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let next = [event, self.wake, stop].into_iter().flatten().min();
            let Some(next) = next else {
                assert!(self.connections.iter().all(|c| c.closed), "left a connection open");
                return;
            };
            self.now = next;
            if stop == Some(next) {
                stop = None;
                app.stop(self);
            } else if event == Some(next) {
                self.happen(app);
            } else {
                self.wake = None;
                self.wakes += 1;
                app.on_wake(self);
            }
        }
        panic!("does not end");
    }

    fn happen(&mut self, app: &mut dyn Application) {
        match self.events.pop_first().unwrap().1 {
            Event::Connected(conn) => app.on_connected(conn, self),
            Event::Complete(conn, number) => {
                let pending = &mut self.connections[conn.0 as usize].pending;
                let place = pending.iter().position(|other| *other == number).unwrap();
                assert!(place == 0 || self.streams, "in their order");
                pending.remove(place);
                app.on_complete(conn, number, self);
            }
        }
    }

    fn push(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.number), event);
        self.number += 1;
    }

    /// The records of a kind.
    pub fn of(&self, what: What) -> Vec<Completion> {
        self.records.iter().filter(|c| c.what == what as u32).copied().collect()
    }

    /// How many connections were opened.
    pub fn opened(&self) -> usize {
        self.connections.len()
    }

    /// Bytes that the application sent, and that it was answered with.
    pub fn carried(&self) -> (u64, u64) {
        self.exchanges.iter().fold((0, 0), |(up, down), (_, _, e)| (up + e.up, down + e.down))
    }
}

impl Net for Ideal {
    fn now(&self) -> Time {
        self.now
    }

    fn open(&mut self) -> Conn {
        // A handshake takes time; only with 0-RTT a connection is open at once.
        let open = self.now + self.rtt.max(Time::from_nanos(1));
        let conn = Conn(self.connections.len() as u32);
        self.connections.push(Connection {
            open,
            up_free: open,
            down_free: open,
            complete: open,
            pending: Vec::new(),
            exchanges: 0,
            closed: false,
        });
        self.push(open, Event::Connected(conn));
        self.most_open = self.most_open.max(self.connections.iter().filter(|c| !c.closed).count());
        conn
    }

    fn exchange(&mut self, conn: Conn, exchange: Exchange) -> u64 {
        assert!(exchange.up >= 1, "an exchange of nothing");
        let half = self.rtt / 2;
        let c = &mut self.connections[conn.0 as usize];
        assert!(!c.closed, "an exchange on a closed connection");
        if self.streams {
            (c.up_free, c.down_free, c.complete) = (c.open, c.open, c.open);
        }
        c.up_free = c.up_free.max(self.now) + self.rate.time_for(Bytes(exchange.up));
        let arrived = c.up_free + half;
        if exchange.down > 0 {
            let ready = arrived + exchange.service;
            c.down_free = c.down_free.max(ready) + self.rate.time_for(Bytes(exchange.down));
            c.complete = c.complete.max(c.down_free + half);
        } else {
            c.complete = c.complete.max(arrived + half);
        }
        let number = c.exchanges;
        c.exchanges += 1;
        c.pending.push(number);
        self.most_running = self.most_running.max(c.pending.len());
        let at = c.complete;
        self.push(at, Event::Complete(conn, number));
        self.exchanges.push((self.now, conn, exchange));
        number
    }

    fn close(&mut self, conn: Conn) {
        let c = &mut self.connections[conn.0 as usize];
        assert!(!c.closed, "closed twice");
        assert!(c.open <= self.now, "closed before it was open");
        assert!(c.pending.is_empty(), "closed before all exchanges were complete");
        c.closed = true;
    }

    fn wake(&mut self, at: Time) {
        assert!(at >= self.now, "woken in the past");
        self.wake = Some(at);
    }

    fn record(&mut self, completion: Completion) {
        assert!(completion.t_s.to_bits() == self.now.as_secs_f64().to_bits() && completion.started_s <= completion.t_s);
        self.records.push(completion);
    }
}
