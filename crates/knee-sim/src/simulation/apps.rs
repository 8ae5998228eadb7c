//! Applications and their connections, which come and go: what they open, and the paths that carry it.
//!
//! Paths are numbered: the first ones belong to the scenario's flows, those behind them to halves of connections. A
//! half carries data in one direction, as a bulk flow does; a connection has one where its application only sends,
//! and two where it is answered. The half with the flow's data takes the flow's path, the other the mirrored one. A
//! connection of QUIC has one half, on the flow's path: what goes against the data does so as ACKs do.
//!
//! The way of an exchange: the application asks for it (`calls.rs`); its bytes are written to the half that
//! leads away from it; when the last of them has arrived in order, the answer is written to the other half; when that
//! has arrived, or, where there is none, when all is acknowledged, the application learns of it. What applications ask
//! for and what they are to learn waits in one queue ([`Action`]), which the scheduler empties after each event.
//!
//! A half is released once its connection is closed and nothing of it is in the network. Where that is so as it closes
//! and nothing was sent again, it is free for another connection of its flow at once, else from the next whole
//! [`REUSE`] on. Reuse is quantised so that both schedulers assign the same half: only at these times do both know of
//! all that has left the network. The order of halves is that of timers that fire at one
//! time. Queues know a connection by a [`ConnectionId`], which is never used again. Not modelled: FIN and its ACK; SACK
//! blocks on data, which leave as ACKs of their own.

mod calls;
mod halves;

use super::hosts::Hosts;
use knee_core::convert::{index, index_u32};
use knee_core::{Priority, Rng, Time};
use knee_net::network::Network;
use knee_net::observe::FlowCounts;
use knee_net::spec::{FlowSpec, Spec, Transport};
use knee_tcp::ecn::Ecn;
use knee_tcp::receiver::Reply;
use knee_traffic::{Application, Completion, Conn, Exchange};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};

/// Halves that were released are free from the next multiple of this on.
const REUSE: Time = Time::from_millis(100);

/// A request of an application, or a call of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Its flow starts.
    Start,
    /// Its flow stops.
    Stop,
    /// The time it asked for may have come.
    Wake,
    /// It opens a connection.
    Open(Conn),
    /// It starts an exchange of this number.
    Send(Conn, u64, Exchange),
    /// A connection timed out before all of its exchanges were complete.
    Reopen(Conn),
    /// It closes a connection.
    Close(Conn),
    /// It asks to be woken.
    WakeAt(Time),
    /// A connection is open.
    Connected(Conn),
    /// A handshake is over that began then, and that the application did not wait for.
    ShookHands(Time),
    /// A half of a connection brings a request, whose answer is ready then.
    Prepare(u32, Time),
    /// Answers of a connection may be ready.
    Answer(Conn),
    /// The exchange of this number is complete.
    Complete(Conn, u64),
}

/// Applications and their connections.
#[derive(Clone)]
pub(super) struct Apps {
    /// How many flows there are: paths from this number on carry halves of connections.
    flows: u32,
    /// By flow; empty where none runs an application.
    applications: Vec<Option<Box<RunningApp>>>,
    /// By number of the path, less that of flows.
    halves: Vec<Half>,
    /// True if all applications have independent connections, none of which times out.
    independent: bool,
    /// True if an application's connections are those of a QUIC stack.
    in_stack: bool,
    /// Pending actions by flow, first come, first served.
    actions: VecDeque<(u32, Action)>,
}

/// The parts of a simulation that applications act on.
pub(super) struct Around<'a, O> {
    pub(super) now: Time,
    /// Order of what happens ([`At::order`](super::hosts::At)).
    pub(super) order: u64,
    pub(super) hosts: &'a mut Hosts,
    pub(super) network: &'a mut Network,
    pub(super) completions: &'a mut Vec<Completion>,
    pub(super) out: &'a mut O,
}

/// An application of a flow.
#[derive(Clone)]
struct RunningApp {
    /// None while it is called.
    application: Option<Box<dyn Application>>,
    /// True if it sits where the flow's data goes to.
    pulls: bool,
    connections: Slab<Connection>,
    /// Connections opened so far, which name their random numbers.
    opened: u64,
    wake_at: Time,
    /// Halves that may be used again.
    free: Vec<u32>,
    /// Halves that become reusable at the next multiple of [`REUSE`] after this time.
    released: Vec<(Time, u32)>,
    /// The last multiple of it at which some were taken over.
    reused_at: Time,
    /// Halves of connections that timed out, which are not released yet.
    timed_out: Vec<u32>,
    /// Counts of released halves with the flow's data.
    gone: FlowCounts,
    paced: bool,
    ecn: Ecn,
    /// Set where its connections go over QUIC: whether packets are encrypted.
    quic: Option<bool>,
    /// True if each exchange of a connection has a stream of QUIC of its own.
    streams: bool,
}

/// An answer that is being made.
#[derive(Clone, Copy)]
struct Answer {
    /// When it is ready.
    at: Time,
    bytes: u64,
    /// Its stream, where it has one of its own.
    stream: u64,
    priority: Priority,
}

/// One direction of a connection (a half-connection in RFC 4340, 1.1).
#[derive(Clone, Copy)]
pub(super) struct Half {
    flow: u32,
    conn: Conn,
    /// True if it leads away from the application.
    away: bool,
    /// When its connection was closed, so that it is released once nothing of it is in the network; `Time::MAX`: it is
    /// open, or the half was released.
    closed_at: Time,
    /// Packets in the network.
    under_way: u32,
    /// When one of them last left it.
    moved_at: Time,
    /// When it last sent data.
    last_sent: Time,
    /// The first segment that it has not sent.
    unsent: u64,
    /// A message is there as a whole once its receiver has all segments before this one in order; `u64::MAX`: none is
    /// in flight.
    arrives_at: u64,
    /// A message is acknowledged as a whole, where that completes it, once all segments before this one are.
    acked_at: u64,
    /// True if it leads away, and its handshake is not over.
    connecting: bool,
    /// When a handshake began that goes on while the application asks already; `Time::MAX`: there is none.
    shakes_since: Time,
}

/// A connection.
#[derive(Clone)]
struct Connection {
    /// The half that leads away from its application.
    away: u32,
    /// The half that leads to it, once there is an answer.
    back: Option<u32>,
    /// Names its random numbers.
    number: u64,
    /// RTT of its handshake; zero until it is over.
    handshake: Time,
    /// Messages in flight to the other end: the segment after the last one, and their exchanges.
    sent: VecDeque<(u64, Exchange)>,
    /// Exchanges that were started, and those completed one after the other.
    started: u64,
    completed: u64,
    /// Exchanges that are not complete, over QUIC.
    running: BTreeMap<u64, Exchange>,
    /// The exchange of each stream, where each has one of its own.
    streams: Vec<u64>,
    /// Answers that are being made.
    preparing: VecDeque<Answer>,
    /// Answers in flight: the segment after the last one.
    answers: VecDeque<u64>,
    /// ACKs that data carries to the application, and away from it: the first segment that does, and the ACK.
    carried: [VecDeque<(u64, Reply)>; 2],
}

impl RunningApp {
    /// Takes a half that is free now.
    fn take_free(&mut self, now: Time) -> Option<u32> {
        let Self { free, released, reused_at, .. } = self;
        let current = now.floor_to(REUSE);
        if current > *reused_at {
            *reused_at = current;
            let known = free.len();
            released.retain(|&(at, half)| {
                if at < current {
                    free.push(half);
                }
                at >= current
            });
            free[known..].sort_unstable_by(|a, b| b.cmp(a));
        }
        free.pop()
    }
}

impl Connection {
    /// The exchange on a stream, while it is not complete.
    fn on_stream(&self, stream: u64) -> Option<(u64, Exchange)> {
        let number = *self.streams.get(index(stream))?;
        Some((number, *self.running.get(&number)?))
    }

    const fn new(number: u64) -> Self {
        Self {
            away: u32::MAX,
            back: None,
            number,
            handshake: Time::ZERO,
            sent: VecDeque::new(),
            started: 0,
            completed: 0,
            running: BTreeMap::new(),
            streams: Vec::new(),
            preparing: VecDeque::new(),
            answers: VecDeque::new(),
            carried: [VecDeque::new(), VecDeque::new()],
        }
    }
}

impl Apps {
    /// No connections yet, for `flows` flows.
    pub(super) const fn new(flows: usize) -> Self {
        Self {
            flows: index_u32(flows),
            applications: Vec::new(),
            halves: Vec::new(),
            independent: true,
            in_stack: false,
            actions: VecDeque::new(),
        }
    }

    /// Returns true if there is no application at all.
    pub(super) const fn is_empty(&self) -> bool {
        self.applications.is_empty()
    }

    /// Returns true if what happens on a connection depends on no other:
    /// [`knee_traffic::TrafficSpec::has_independent_connections`].
    pub(super) const fn are_independent(&self) -> bool {
        self.independent
    }

    /// Returns true if connections of an application are those of a QUIC stack.
    pub(super) const fn are_in_stack(&self) -> bool {
        self.in_stack
    }

    fn running(&self, flow: u32) -> Option<&RunningApp> {
        self.applications.get(flow as usize)?.as_deref()
    }

    fn running_mut(&mut self, flow: u32) -> Option<&mut RunningApp> {
        self.applications.get_mut(flow as usize)?.as_deref_mut()
    }

    /// Returns true if path `i` carries a half of a connection.
    #[inline]
    pub(super) const fn carries(&self, i: u32) -> bool {
        i >= self.flows
    }

    /// The half that path `i` carries. `None` if it carries a flow's data.
    #[inline]
    fn half(&self, i: u32) -> Option<&Half> {
        self.halves.get(i.checked_sub(self.flows)? as usize)
    }

    #[inline]
    fn half_mut(&mut self, i: u32) -> Option<&mut Half> {
        self.halves.get_mut(i.checked_sub(self.flows)? as usize)
    }

    /// True if each exchange of flow `i` has a stream of its own.
    fn has_streams(&self, i: u32) -> bool {
        self.running(i).is_some_and(|running| running.streams)
    }

    fn connection(&mut self, flow: u32, conn: Conn) -> Option<&mut Connection> {
        self.running_mut(flow)?.connections.get_mut(conn.0 as usize)
    }

    /// Adds something to be done.
    pub(super) fn act(&mut self, flow: u32, action: Action) {
        self.actions.push_back((flow, action));
    }

    /// Adds something to be done before all else.
    fn act_first(&mut self, flow: u32, action: Action) {
        self.actions.push_front((flow, action));
    }

    /// The next action.
    pub(super) fn next_action(&mut self) -> Option<(u32, Action)> {
        self.actions.pop_front()
    }

    /// Lets flow `i` of `spec` run the application that its traffic asks for, over QUIC with endpoints of our own or a
    /// stack's. False: it asks for none.
    pub(super) fn add(&mut self, i: usize, flow: &FlowSpec, (ecn, own_quic): (Ecn, bool), spec: &Spec) -> bool {
        let Some(traffic) = &flow.traffic else { return false };
        let rng = Rng::stream(spec.seed, &format!("traffic/{i}"));
        let quic = (flow.transport == Transport::Quic).then_some(flow.tls);
        let Some(application) = knee_traffic::application(traffic, rng) else { return false };
        self.in_stack |= quic.is_some() && !own_quic;
        // A connection that times out is opened anew.
        let times_out = quic.is_some() && spec.quic.idle_timeout.is_some();
        self.independent &= traffic.has_independent_connections() && !times_out;
        self.applications.resize_with(spec.flows.len(), || None);
        self.applications[i] = Some(Box::new(RunningApp {
            application: Some(application),
            pulls: flow.pulls(),
            connections: Slab::new(),
            opened: 0,
            wake_at: Time::MAX,
            free: Vec::new(),
            released: Vec::new(),
            reused_at: Time::ZERO,
            timed_out: Vec::new(),
            gone: FlowCounts::default(),
            paced: flow.pacing,
            ecn,
            quic,
            streams: quic.is_some() && traffic.streams() > 1,
        }));
        true
    }

    /// Packets of half `i` enter the network, or, where negative, leave it, at this time.
    pub(super) fn add_packets(&mut self, i: u32, packets: i32, at: Time) {
        let Some(half) = self.half_mut(i) else { return };
        half.under_way = half.under_way.wrapping_add_signed(packets);
        half.moved_at = half.moved_at.max(at);
    }

    /// Packets of connections in the network, and whether every packet belongs to one.
    pub(super) fn under_way(&self) -> (u64, bool) {
        let all = !self.is_empty() && self.applications.iter().all(Option::is_some);
        (self.halves.iter().map(|half| u64::from(half.under_way)).sum(), all)
    }

    /// Notes what half `i` awaits next: that the first of its messages arrives, or that it is acknowledged.
    fn await_next(&mut self, i: u32) {
        let Some(&Half { flow, conn, away, .. }) = self.half(i) else { return };
        let Some(connection) = self.connection(flow, conn) else { return };
        let (arrives_at, acked_at) = match (away, connection.sent.front()) {
            (true, Some(&(end, exchange))) if exchange.down > 0 => (end, u64::MAX),
            (true, Some(&(end, _))) => (u64::MAX, end),
            (true, None) => (u64::MAX, u64::MAX),
            (false, _) => (connection.answers.front().copied().unwrap_or(u64::MAX), u64::MAX),
        };
        if let Some(half) = self.half_mut(i) {
            (half.arrives_at, half.acked_at) = (arrives_at, acked_at);
        }
    }

    /// Counts of the released connections of flow `i`.
    fn gone(&self, i: u32) -> FlowCounts {
        self.running(i).map_or_else(FlowCounts::default, |running| running.gone)
    }

    /// When halves that were released are free next, after `now`; `Time::MAX`: there are no connections.
    pub(super) fn next_reuse(&self, now: Time) -> Time {
        if self.is_empty() { Time::MAX } else { now.floor_to(REUSE) + REUSE }
    }

    /// The halves that carry the data of flow `i`.
    fn data_halves(&self, i: u32) -> impl Iterator<Item = u32> {
        let running = self.running(i);
        let pulls = running.is_some_and(|running| running.pulls);
        let all = running.into_iter().flat_map(|running| &running.connections);
        let data = move |(_, conn): (usize, &Connection)| if pulls { conn.back } else { Some(conn.away) };
        let timed_out = running.into_iter().flat_map(|running| &running.timed_out).copied();
        all.filter_map(data).filter(|&half| half != u32::MAX).chain(timed_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;
    use knee_traffic::Net;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    /// Asks for two answers at once, of which the first takes longer to make. Notes when they come.
    #[derive(Clone)]
    struct TwoAtOnce(Arc<Mutex<Vec<Time>>>);

    impl Application for TwoAtOnce {
        fn start(&mut self, net: &mut dyn Net) {
            net.open();
        }

        fn on_connected(&mut self, conn: Conn, net: &mut dyn Net) {
            for service in [50, 10] {
                net.exchange(conn, Exchange { down: 1000, service: Time::from_millis(service), ..Exchange::of(100) });
            }
        }

        fn on_complete(&mut self, _: Conn, _: u64, net: &mut dyn Net) {
            self.0.lock().unwrap().push(net.now());
        }

        fn on_wake(&mut self, _: &mut dyn Net) {}

        fn stop(&mut self, _: &mut dyn Net) {}
    }

    /// RFC 9112, 9.3.2: a server may prepare answers to pipelined requests at once, but sends them in their order. The
    /// second one, ready 40 ms before the first, waits for it and goes with it.
    #[test]
    fn an_answer_that_is_ready_early_goes_behind_the_one_before() {
        let spec = json!({
            "duration": 1_000_000_000, "seed": 1, "warmup": 0, "interval": 100_000_000,
            "links": [{
                "name": "one", "capacity": {"rate": 100_000_000}, "queue": "pfifo", "limit": null, "overhead": 14
            }],
            "flows": [{
                "label": "flow", "cc": "reno", "rtt": 40_000_000, "start": 0, "stop": 1_000_000_000, "path": [0],
                "traffic": {
                    "kind": "requests", "pages": {"open": {"times": [0]}}, "request": 1, "size": {"fixed": 1},
                    "objects": {"fixed": 1}, "connections": 1, "persistent": true, "tls": "none", "service": 0,
                    "number": 1
                }
            }]
        });
        let mut simulation = Simulation::new(&serde_json::from_value(spec).unwrap()).unwrap();
        let came = Arc::default();
        let [Some(running)] = &mut simulation.model.apps.applications[..] else { panic!("one flow") };
        running.application = Some(Box::new(TwoAtOnce(Arc::clone(&came))));
        simulation.run().unwrap();
        // A round trip for the handshake, one for the request and its answer, and 50 ms.
        let came: Vec<u64> = came.lock().unwrap().iter().copied().map(Time::as_millis).collect();
        assert_eq!(came, [130, 130]);
    }
}
