//! Connections that come and go: what applications open, and the endpoints that carry it.
//!
//! Endpoints are numbered: the first ones belong to the scenario's flows, those behind them to halves of connections. A half
//! carries data one way, as a bulk flow does; a connection has one where its application only sends, and two where it is
//! answered. The half with the flow's data takes the flow's way, the other the mirrored one.
//!
//! What an exchange goes through: the application asks for it ([`Calls`]); its bytes are written to the half that leads away
//! from it; when the last of them has arrived in order, the answer is written to the other half; when that has arrived, or,
//! where there is none, when all is acknowledged, the application learns of it. What applications ask for and what they are
//! to learn waits in one queue ([`Action`]), which the scheduler empties after each event.
//!
//! A half is free for another connection once nothing of it is in the network. Not modelled: FIN and its ACK; ACKs that ride
//! on answers (an ACK of its own leaves with the answer).

use super::world::{Flow, Outbox, World};
use crate::ecn::Ecn;
use crate::observe::{FlowCounts, Histogram, Spread};
use crate::receiver::Receiver;
use crate::sender::{Sender, SenderInit};
use crate::spec::{FlowSpec, Spec};
use crate::timer::Timer;
use knee_cc::CaState;
use knee_core::{Rng, Time};
use knee_traffic::{Application, Completion, Conn, Exchange, Net, TrafficSpec};
use slab::Slab;
use std::collections::VecDeque;

/// What an application asks for, or is to learn.
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
    /// It starts an exchange.
    Send(Conn, Exchange),
    /// It closes a connection.
    Close(Conn),
    /// It asks to be woken.
    WakeAt(Time),
    /// A connection is open.
    Connected(Conn),
    /// A half of a connection brings a request, whose answer is ready then.
    Prepare(u32, Time),
    /// Answers of a connection may be ready.
    Answer(Conn),
    /// The oldest exchange of a connection is complete.
    Complete(Conn),
}

/// Applications and their connections.
pub(super) struct Connections {
    /// How many flows there are: endpoints from this number on are halves of connections.
    pub(super) flows: u32,
    /// By flow; empty where none runs an application.
    applications: Vec<Option<Box<Running>>>,
    /// By the endpoints' number, less that of flows.
    halves: Vec<Half>,
    /// Halves that may be used again.
    free: Vec<u32>,
    /// What is to be done, by flow, first come first.
    actions: VecDeque<(u32, Action)>,
}

/// An application of a flow.
struct Running {
    /// None while it is called.
    application: Option<Box<dyn Application>>,
    /// Whether it sits where the flow's data goes to.
    pulls: bool,
    connections: Slab<Connection>,
    /// Connections opened so far, which name their random numbers.
    opened: u64,
    wake_at: Time,
    /// What the halves with the flow's data had counted that are gone.
    gone: FlowCounts,
    paced: bool,
    ecn: Ecn,
}

/// One way of a connection.
#[derive(Clone, Copy)]
struct Half {
    flow: u32,
    conn: Conn,
    /// Whether it leads away from the application.
    away: bool,
    /// Whether its connection is closed, so that it is free once nothing of it is in the network.
    closed: bool,
    /// Packets in the network.
    under_way: u32,
    /// When it last sent data.
    last_sent: Time,
    /// A message is there as a whole once its receiver has all segments before this one in order; `u64::MAX`: none is
    /// under way.
    arrives_at: u64,
    /// A message is acknowledged as a whole, where that completes it, once all segments before this one are.
    acked_at: u64,
}

/// A connection.
struct Connection {
    /// The half that leads away from its application.
    away: u32,
    /// The half that leads to it, once there is an answer.
    back: Option<u32>,
    /// Names its random numbers.
    number: u64,
    /// RTT of its handshake; none: a SYN was lost.
    handshake: Option<Time>,
    established: bool,
    /// Messages under way to the other end: the segment after the last one, and their exchanges.
    sent: VecDeque<(u64, Exchange)>,
    /// Answers that are being made: when they are ready, and bytes.
    preparing: VecDeque<(Time, u64)>,
    /// Answers under way: the segment after the last one.
    answers: VecDeque<u64>,
}

/// What an application asks for while it is called.
struct Calls<'a> {
    now: Time,
    flow: u32,
    connections: &'a mut Slab<Connection>,
    opened: &'a mut u64,
    wake_at: &'a mut Time,
    actions: &'a mut VecDeque<(u32, Action)>,
    completions: &'a mut Vec<Completion>,
}

impl Net for Calls<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn open(&mut self) -> Conn {
        let number = *self.opened;
        *self.opened += 1;
        let conn = Conn(self.connections.insert(Connection::new(number)) as u32);
        self.actions.push_back((self.flow, Action::Open(conn)));
        conn
    }

    fn exchange(&mut self, conn: Conn, exchange: Exchange) {
        self.actions.push_back((self.flow, Action::Send(conn, exchange)));
    }

    fn close(&mut self, conn: Conn) {
        self.actions.push_back((self.flow, Action::Close(conn)));
    }

    fn wake(&mut self, at: Time) {
        *self.wake_at = at;
        self.actions.push_back((self.flow, Action::WakeAt(at)));
    }

    fn record(&mut self, completion: Completion) {
        self.completions.push(Completion { flow: self.flow, ..completion });
    }
}

impl Connection {
    const fn new(number: u64) -> Self {
        Self {
            away: u32::MAX,
            back: None,
            number,
            handshake: None,
            established: false,
            sent: VecDeque::new(),
            preparing: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }
}

impl Connections {
    /// Those of so many flows, none of which runs an application yet.
    pub(super) const fn new(flows: usize) -> Self {
        Self {
            flows: flows as u32,
            applications: Vec::new(),
            halves: Vec::new(),
            free: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// Whether there is no application at all.
    pub(super) const fn is_empty(&self) -> bool {
        self.applications.is_empty()
    }

    /// Whether an endpoint is a half of a connection, not a flow.
    #[inline]
    pub(super) const fn is_half(&self, i: u32) -> bool {
        i >= self.flows
    }

    /// The flow that an endpoint belongs to.
    #[inline]
    pub(super) fn owner(&self, i: u32) -> u32 {
        if self.is_half(i) { self.half(i).flow } else { i }
    }

    /// Whether flow `i` runs an application.
    pub(super) fn runs(&self, i: u32) -> bool {
        self.running(i).is_some()
    }

    fn running(&self, flow: u32) -> Option<&Running> {
        self.applications.get(flow as usize)?.as_deref()
    }

    fn running_mut(&mut self, flow: u32) -> Option<&mut Running> {
        self.applications.get_mut(flow as usize)?.as_deref_mut()
    }

    fn half(&self, i: u32) -> &Half {
        &self.halves[(i - self.flows) as usize]
    }

    fn half_mut(&mut self, i: u32) -> &mut Half {
        &mut self.halves[(i - self.flows) as usize]
    }

    fn connection(&mut self, flow: u32, conn: Conn) -> Option<&mut Connection> {
        self.running_mut(flow)?.connections.get_mut(conn.0 as usize)
    }

    /// Adds something to be done.
    pub(super) fn act(&mut self, flow: u32, action: Action) {
        self.actions.push_back((flow, action));
    }

    /// What is to be done next.
    pub(super) fn next_action(&mut self) -> Option<(u32, Action)> {
        self.actions.pop_front()
    }

    /// Lets flow `i` of `spec` run the application that its traffic asks for, if any.
    pub(super) fn add(&mut self, i: usize, flow: &FlowSpec, ecn: Ecn, spec: &Spec) {
        let Some(traffic) = &flow.traffic else { return };
        let rng = Rng::stream(spec.seed, &format!("traffic/{i}"));
        let Some(application) = knee_traffic::application(traffic, rng) else { return };
        self.applications.resize_with(spec.flows.len(), || None);
        self.applications[i] = Some(Box::new(Running {
            application: Some(application),
            pulls: TrafficSpec::pulls(traffic),
            connections: Slab::new(),
            opened: 0,
            wake_at: Time::MAX,
            gone: FlowCounts::default(),
            paced: flow.pacing,
            ecn,
        }));
    }

    /// Half `i` sends so many packets.
    #[inline]
    pub(super) fn note_sent(&mut self, i: u32, packets: u32, now: Time) {
        let half = self.half_mut(i);
        half.under_way += packets;
        half.last_sent = now;
    }

    /// Packets of half `i` enter the network, or, where negative, leave it.
    #[inline]
    pub(super) fn count(&mut self, i: u32, packets: i32) {
        let half = self.half_mut(i);
        half.under_way = half.under_way.wrapping_add_signed(packets);
    }

    /// Packets of connections in the network, and whether there are no others.
    pub(super) fn under_way(&self) -> (u64, bool) {
        let all = !self.is_empty() && self.applications.iter().all(Option::is_some);
        (self.halves.iter().map(|half| u64::from(half.under_way)).sum(), all)
    }

    /// Notes what half `i` awaits next: that the first of its messages arrives, or that it is acknowledged.
    fn await_next(&mut self, i: u32) {
        let Half { flow, conn, away, .. } = *self.half(i);
        let Some(connection) = self.connection(flow, conn) else { return };
        let (arrives_at, acked_at) = match (away, connection.sent.front()) {
            (true, Some(&(end, exchange))) if exchange.down > 0 => (end, u64::MAX),
            (true, Some(&(end, _))) => (u64::MAX, end),
            (true, None) => (u64::MAX, u64::MAX),
            (false, _) => (connection.answers.front().copied().unwrap_or(u64::MAX), u64::MAX),
        };
        let half = self.half_mut(i);
        (half.arrives_at, half.acked_at) = (arrives_at, acked_at);
    }

    /// The halves that carry the data of flow `i`.
    fn data_halves(&self, i: u32) -> impl Iterator<Item = u32> {
        let running = self.running(i);
        let pulls = running.is_some_and(|running| running.pulls);
        let all = running.into_iter().flat_map(|running| &running.connections);
        let data = move |(_, conn): (usize, &Connection)| if pulls { conn.back } else { Some(conn.away) };
        all.filter_map(data).filter(|&half| half != u32::MAX)
    }
}

impl World {
    /// Calls the application of a flow.
    fn call(&mut self, flow: u32, what: impl FnOnce(&mut dyn Application, &mut dyn Net)) {
        let Connections { applications, actions, .. } = &mut self.connections;
        let Some(Some(running)) = applications.get_mut(flow as usize) else { return };
        let Some(mut application) = running.application.take() else { return };
        what(
            application.as_mut(),
            &mut Calls {
                now: self.now,
                flow,
                connections: &mut running.connections,
                opened: &mut running.opened,
                wake_at: &mut running.wake_at,
                actions,
                completions: &mut self.record.rows.completions,
            },
        );
        running.application = Some(application);
    }

    /// Does what is to be done for an application. Gives the half whose sender has something to send, or has been opened.
    pub(super) fn carry_out(&mut self, flow: u32, action: Action, out: &mut impl Outbox) -> Option<u32> {
        match action {
            Action::Start => self.call(flow, |application, net| application.start(net)),
            Action::Stop => self.call(flow, |application, net| application.stop(net)),
            Action::Wake => {
                let now = self.now;
                let running = self.connections.running_mut(flow)?;
                if running.wake_at <= now {
                    running.wake_at = Time::MAX;
                    self.call(flow, |application, net| application.on_wake(net));
                }
            }
            Action::Connected(conn) => self.call(flow, |application, net| application.on_connected(conn, net)),
            Action::Complete(conn) => self.call(flow, |application, net| application.on_complete(conn, net)),
            Action::Open(conn) => {
                let half = self.add_half(flow, conn, true);
                self.connections.connection(flow, conn)?.away = half;
                self.connect(half, out);
                return Some(half);
            }
            Action::Send(conn, exchange) => {
                let half = self.connections.connection(flow, conn)?.away;
                let end = self.write(half, exchange.up, out);
                self.connections.connection(flow, conn)?.sent.push_back((end, exchange));
                self.connections.await_next(half);
                return Some(half);
            }
            Action::Answer(conn) => return self.answer(flow, conn, out),
            Action::Close(conn) => self.close(flow, conn),
            Action::WakeAt(_) | Action::Prepare(..) => {}
        }
        None
    }

    /// Takes endpoints for one way of a connection. Gives their number.
    fn add_half(&mut self, flow: u32, conn: Conn, away: bool) -> u32 {
        let Some(running) = self.connections.running(flow) else { return u32::MAX };
        let with_data = running.pulls != away;
        let (entry, ecn) = (self.algorithms[self.flows[flow as usize].algorithm as usize].entry, running.ecn);
        let init = SenderInit { needs: entry.needs, paced: running.paced, ecn, bytes: None };
        let mut sender = Sender::new(&init, &self.sender_config);
        sender.open_stream();
        let way = self.network.ways[flow as usize];
        let way = if with_data { way } else { self.network.mirrored(&way) };
        let endpoints = Flow {
            algorithm: self.flows[flow as usize].algorithm,
            complete_at: u64::MAX,
            syn_at: Time::MAX,
            overhead: self.flows[flow as usize].overhead,
            dropped: 0,
            phase: sender.control.phase,
            ca: CaState::Open,
            watched: false,
            rtt_histogram: Histogram::new(1),
            rtt: Spread::EMPTY,
            seen_timeouts: 0,
        };
        let half = Half {
            flow,
            conn,
            away,
            closed: false,
            under_way: 0,
            last_sent: self.now,
            arrives_at: u64::MAX,
            acked_at: u64::MAX,
        };
        if let Some(i) = self.connections.free.pop() {
            let k = i as usize;
            (self.senders[k], self.receivers[k], self.flows[k]) = (sender, Receiver::new(ecn), endpoints);
            self.network.ways[k] = way;
            *self.connections.half_mut(i) = half;
            return i;
        }
        self.senders.push(sender);
        self.receivers.push(Receiver::new(ecn));
        self.flows.push(endpoints);
        self.network.ways.push(way);
        self.connections.halves.push(half);
        self.senders.len() as u32 - 1
    }

    /// Names the random numbers of the algorithm at an endpoint.
    pub(super) fn stream_name(&self, i: u32) -> String {
        if !self.connections.is_half(i) {
            return format!("cc/{i}");
        }
        let Half { flow, conn, away, .. } = *self.connections.half(i);
        let connection = self.connections.running(flow).and_then(|running| running.connections.get(conn.0 as usize));
        format!("cc/{flow}/{}/{}", connection.map_or(0, |connection| connection.number), u8::from(!away))
    }

    /// The handshake of half `i` is over, after `rtt`.
    pub(super) fn note_established(&mut self, i: u32, rtt: Option<Time>) {
        let Half { flow, conn, away, .. } = *self.connections.half(i);
        if let Some(connection) = self.connections.connection(flow, conn)
            && away
        {
            (connection.handshake, connection.established) = (rtt, true);
            self.connections.act(flow, Action::Connected(conn));
        }
    }

    /// The application at half `i` writes so many bytes. Gives the segment after the last of them.
    fn write(&mut self, i: u32, bytes: u64, out: &mut impl Outbox) -> u64 {
        let (now, last_sent) = (self.now, self.connections.half(i).last_sent);
        let sender = &mut self.senders[i as usize];
        let end = sender.write(bytes, last_sent, now, &self.sender_config);
        sender.send(now, &self.sender_config, &mut self.departures);
        self.after_other(i, out);
        end
    }

    /// Data has arrived at the receiver of half `i`: messages may be there as a whole.
    #[inline]
    pub(super) fn note_arrival(&mut self, i: u32) {
        if self.receivers[i as usize].in_order() >= self.connections.half(i).arrives_at {
            self.take_messages(i);
        }
    }

    fn take_messages(&mut self, i: u32) {
        let (now, in_order) = (self.now, self.receivers[i as usize].in_order());
        let Half { flow, conn, away, .. } = *self.connections.half(i);
        while let Some(connection) = self.connections.connection(flow, conn) {
            let action = if away {
                let Some((_, exchange)) = connection.sent.pop_front_if(|(end, _)| *end <= in_order) else { break };
                connection.preparing.push_back((now + exchange.service, exchange.down));
                match exchange.service {
                    Time::ZERO => Action::Answer(conn),
                    service => Action::Prepare(i, now + service),
                }
            } else {
                let Some(_) = connection.answers.pop_front_if(|end| *end <= in_order) else { break };
                Action::Complete(conn)
            };
            self.connections.act(flow, action);
            self.connections.await_next(i);
            if self.connections.half(i).arrives_at > in_order {
                break;
            }
        }
    }

    /// The sender of half `i` has taken an ACK: messages may be acknowledged as a whole.
    #[inline]
    pub(super) fn note_acknowledged(&mut self, i: u32) {
        while self.senders[i as usize].snd_una() >= self.connections.half(i).acked_at {
            let Half { flow, conn, .. } = *self.connections.half(i);
            if let Some(connection) = self.connections.connection(flow, conn) {
                connection.sent.pop_front();
            }
            self.connections.act(flow, Action::Complete(conn));
            self.connections.await_next(i);
        }
    }

    /// An answer at the other end of half `i` is ready.
    pub(super) fn note_ready(&mut self, i: u32) {
        let Half { flow, conn, .. } = *self.connections.half(i);
        self.connections.act(flow, Action::Answer(conn));
    }

    /// The other end of a connection answers with what is ready.
    fn answer(&mut self, flow: u32, conn: Conn, out: &mut impl Outbox) -> Option<u32> {
        let now = self.now;
        let connection = self.connections.connection(flow, conn)?;
        let (_, bytes) = connection.preparing.pop_front_if(|(at, _)| *at <= now)?;
        let (away, back, handshake) = (connection.away, connection.back, connection.handshake);
        // Linux's ACK would ride on the answer.
        self.acknowledge_now(away, out);
        let back = match back {
            Some(back) => back,
            None => {
                let back = self.add_half(flow, conn, false);
                self.connections.connection(flow, conn)?.back = Some(back);
                // The other end measures the same handshake.
                self.open_established(back, handshake, out);
                back
            }
        };
        let end = self.write(back, bytes, out);
        self.connections.connection(flow, conn)?.answers.push_back(end);
        self.connections.await_next(back);
        Some(back)
    }

    fn close(&mut self, flow: u32, conn: Conn) {
        let Some(connection) = self.connections.connection(flow, conn) else { return };
        for half in [Some(connection.away), connection.back].into_iter().flatten() {
            self.connections.half_mut(half).closed = true;
            self.release_if_idle(half);
        }
    }

    /// Frees half `i` if its connection is closed and nothing of it is in the network.
    #[inline]
    pub(super) fn release_if_idle(&mut self, i: u32) {
        let half = self.connections.half(i);
        if half.closed && half.under_way == 0 {
            self.release(i);
        }
    }

    fn release(&mut self, i: u32) {
        let Half { flow, conn, away, .. } = *self.connections.half(i);
        let sender = &self.senders[i as usize];
        if sender.snd_una() < sender.end {
            return;
        }
        let counts = self.endpoint_counts(i as usize);
        let Some(running) = self.connections.applications.get_mut(flow as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        if running.pulls != away {
            running.gone.add(&counts);
        }
        if let Some(connection) = running.connections.get_mut(conn.0 as usize) {
            match away {
                true => connection.away = u32::MAX,
                false => connection.back = None,
            }
            if connection.away == u32::MAX && connection.back.is_none() {
                running.connections.remove(conn.0 as usize);
            }
        }
        // Nothing of what the heap still holds for its timers is due any more.
        let (sender, receiver) = (&mut self.senders[i as usize], &mut self.receivers[i as usize]);
        (sender.timer, sender.pace_at) = (Timer::OFF, Time::MAX);
        (receiver.delayed, receiver.compressed_at) = (Timer::OFF, Time::MAX);
        self.connections.half_mut(i).closed = false;
        self.connections.free.push(i);
    }

    /// The counts of a flow that runs an application: of its connections that are there and of those that are gone.
    pub(super) fn application_counts(&mut self, flow: u32) -> Option<FlowCounts> {
        let mut counts = self.connections.running(flow)?.gone;
        let halves: Vec<u32> = self.connections.data_halves(flow).collect();
        for half in halves {
            counts.add(&self.endpoint_counts(half as usize));
        }
        Some(FlowCounts { at: self.now, ..counts })
    }

    /// Window and packets in flight of all connections of a flow together.
    pub(super) fn application_windows(&self, flow: u32) -> (u32, u32) {
        let halves = self.connections.data_halves(flow).map(|half| &self.senders[half as usize]);
        halves.fold((0, 0), |(cwnd, in_flight), sender| (cwnd + sender.control.cwnd, in_flight + sender.in_flight()))
    }

    /// The base RTT of a flow has changed: that of its connections changes with it.
    pub(super) fn follow_rtt(&mut self, flow: u32) {
        let way = self.network.ways[flow as usize];
        let mirrored = self.network.mirrored(&way);
        for k in 0..self.connections.halves.len() {
            let half = self.connections.halves[k];
            if half.flow == flow {
                let pulls = self.connections.running(flow).is_some_and(|running| running.pulls);
                self.network.ways[self.connections.flows as usize + k] =
                    if pulls == half.away { mirrored } else { way };
            }
        }
    }
}
