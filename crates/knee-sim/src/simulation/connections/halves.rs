//! The endpoints that carry connections: taken as one opens, given back once nothing of it is in the network.

use super::{Action, Half};
use crate::simulation::ends::{Ends, TcpEnds};
use crate::simulation::world::{Flow, Outbox, World};
use knee_cc::CaState;
use knee_core::convert::index_u32;
use knee_core::packet::MTU;
use knee_core::{ConnectionId, Packet, Time};
use knee_net::observe::{FlowCounts, Histogram};
use knee_net::output::SenderState;
use knee_tcp::receiver::Receiver;
use knee_tcp::sender::{Sender, SenderInit};
use knee_tcp::timer::Timer;
use knee_traffic::Conn;
use std::collections::VecDeque;

impl World {
    /// Takes endpoints for one direction of a connection. Gives their number.
    pub(super) fn add_half(&mut self, flow: u32, conn: Conn, away: bool) -> u32 {
        let now = self.now;
        let Some(running) = self.connections.running_mut(flow) else { return u32::MAX };
        let with_data = running.pulls != away;
        let number = running.connections.get(conn.0 as usize).map_or(0, |connection| connection.number);
        let id = ConnectionId::new(flow, number, !with_data);
        let free = running.take_free(now);
        let one_way = away && !running.pulls;
        let (paced, ecn) = (running.paced, running.ecn);
        let needs = self.algorithms[self.flows[flow as usize].algorithm as usize].needs();
        let init = SenderInit { needs, paced, ecn, bytes: None };
        let mut sender = Sender::new(&init, &self.sender_config);
        sender.open_stream();
        let path = self.network.flow_paths[flow as usize];
        let path = if with_data { path } else { self.network.mirrored(&path) };
        let Flow { algorithm, overhead, .. } = self.flows[flow as usize];
        let record = Flow::new(algorithm, overhead, u64::MAX, Histogram::new(1));
        let half = Half {
            one_way,
            flow,
            conn,
            id,
            away,
            closed_at: Time::MAX,
            under_way: 0,
            moved_at: self.now,
            last_sent: self.now,
            arrives_at: u64::MAX,
            acked_at: u64::MAX,
        };
        let i = free.unwrap_or(index_u32(self.ends.len()));
        self.network.identify(i, id, path.route);
        if free.is_some() {
            let k = i as usize;
            let tcp = self.ends.tcp_mut(i);
            (tcp.sender, tcp.receiver, self.flows[k]) = (sender, Receiver::new(ecn), record);
            self.network.flow_paths[k] = path;
            self.connections.halves[(i - self.connections.flows) as usize] = half;
        } else {
            self.ends.push(Ends::tcp(Receiver::new(ecn), sender));
            self.flows.push(record);
            self.network.flow_paths.push(path);
            self.connections.halves.push(half);
        }
        i
    }

    /// Names the random numbers of the algorithm at an endpoint.
    pub(in crate::simulation) fn stream_name(&self, i: u32) -> String {
        let Some(&Half { id, away, .. }) = self.connections.half(i) else { return format!("cc/{i}") };
        // Formatting takes four times as long, 2 % of a short transfer.
        let mut digits = [itoa::Buffer::new(), itoa::Buffer::new()];
        let [a, b] = &mut digits;
        ["cc/", a.format(id.flow()), "/", b.format(id.number()), if away { "/0" } else { "/1" }].concat()
    }

    /// A handshake is over, after `rtt`: an application learns it if it is that of its half.
    pub(in crate::simulation) fn note_established(&mut self, i: u32, rtt: Time) {
        let Some(&Half { flow, conn, away, .. }) = self.connections.half(i) else { return };
        if let Some(connection) = self.connections.connection(flow, conn)
            && away
        {
            (connection.handshake, connection.established) = (rtt, true);
            self.connections.act(flow, Action::Connected(conn));
        }
    }

    /// The application at half `i` writes `bytes`. Gives the segment after the last of them.
    pub(super) fn write(&mut self, i: u32, bytes: u64, out: &mut impl Outbox) -> u64 {
        let (now, last_sent) = (self.now, self.connections.half(i).map_or(self.now, |half| half.last_sent));
        self.with_tcp(i, |world, tcp| {
            let end = tcp.sender.write(bytes, last_sent, now, &world.sender_config);
            tcp.sender.send(now, &world.sender_config, &mut world.departures);
            world.after_other(&mut tcp.sender, i, out);
            end
        })
    }

    /// A data packet has arrived. At a half's receiver, where it is short, the other end sends nothing itself and has
    /// read all that came, the ACK does not wait (tcp_cleanup_rbuf).
    #[inline]
    pub(in crate::simulation) fn note_packet(
        &mut self,
        receiver: &mut Receiver,
        packet: &Packet,
        out: &mut impl Outbox,
    ) {
        if packet.size < MTU && self.connections.half(packet.flow).is_some_and(|half| half.one_way) {
            self.acknowledge_now(receiver, packet.flow, out);
        }
    }

    /// Data has arrived at receiver `i`: if it is a half's, messages may be there as a whole.
    #[inline]
    pub(in crate::simulation) fn note_arrival(&mut self, i: u32) {
        if self.awaits(i, self.ends.receiver(i).in_order()) {
            self.take_messages(i);
        }
    }

    /// Whether half `i` awaits that all segments before `in_order` have arrived.
    #[inline]
    fn awaits(&self, i: u32, in_order: u64) -> bool {
        self.connections.half(i).is_some_and(|half| in_order >= half.arrives_at)
    }

    fn take_messages(&mut self, i: u32) {
        let (now, in_order) = (self.now, self.ends.receiver(i).in_order());
        let Some(&Half { flow, conn, away, .. }) = self.connections.half(i) else { return };
        while let Some(connection) = self.connections.connection(flow, conn) {
            let action = if away {
                let Some((_, exchange)) = pop_if(&mut connection.sent, |(end, _)| *end <= in_order) else { break };
                connection.preparing.push_back((now + exchange.service, exchange.down));
                match exchange.service {
                    Time::ZERO => Action::Answer(conn),
                    service => Action::Prepare(i, now + service),
                }
            } else {
                let Some(_) = pop_if(&mut connection.answers, |end| *end <= in_order) else { break };
                Action::Complete(conn)
            };
            self.connections.act(flow, action);
            self.connections.await_next(i);
            if !self.awaits(i, in_order) {
                break;
            }
        }
    }

    /// Sender `i` has taken an ACK: if it is a half's, messages may be acknowledged as a whole.
    #[inline]
    pub(in crate::simulation) fn note_acknowledged(&mut self, sender: &Sender, i: u32) {
        if self.connections.half(i).is_some_and(|half| sender.snd_una() >= half.acked_at) {
            self.complete_messages(sender, i);
        }
    }

    #[inline(never)]
    fn complete_messages(&mut self, sender: &Sender, i: u32) {
        while let Some(&Half { flow, conn, acked_at, .. }) = self.connections.half(i)
            && sender.snd_una() >= acked_at
        {
            if let Some(connection) = self.connections.connection(flow, conn) {
                connection.sent.pop_front();
            }
            self.connections.act(flow, Action::Complete(conn));
            self.connections.await_next(i);
        }
    }

    /// An answer at the other end of half `i` is ready.
    pub(in crate::simulation) fn note_ready(&mut self, i: u32) {
        if let Some(&Half { flow, conn, .. }) = self.connections.half(i) {
            self.connections.act(flow, Action::Answer(conn));
        }
    }

    /// The other end of a connection answers with what is ready.
    pub(super) fn answer(&mut self, flow: u32, conn: Conn, out: &mut impl Outbox) -> Option<u32> {
        let now = self.now;
        let connection = self.connections.connection(flow, conn)?;
        let (_, bytes) = pop_if(&mut connection.preparing, |(at, _)| *at <= now)?;
        let (away, back, handshake) = (connection.away, connection.back, connection.handshake);
        // Linux's ACK would ride on the answer.
        self.with_tcp(away, |world, tcp| world.acknowledge_now(&mut tcp.receiver, away, out));
        let back = if let Some(back) = back {
            back
        } else {
            let back = self.add_half(flow, conn, false);
            self.connections.connection(flow, conn)?.back = Some(back);
            // The other end measures the same handshake.
            self.with_tcp(back, |world, tcp| world.open_established(&mut tcp.sender, back, handshake, out));
            back
        };
        let end = self.write(back, bytes, out);
        let connection = self.connections.connection(flow, conn)?;
        connection.answers.push_back(end);
        // One that was ready before has waited for this one.
        if connection.preparing.front().is_some_and(|(at, _)| *at <= now) {
            self.connections.act(flow, Action::Answer(conn));
        }
        self.connections.await_next(back);
        Some(back)
    }

    pub(super) fn close(&mut self, flow: u32, conn: Conn) {
        let Some(connection) = self.connections.connection(flow, conn) else { return };
        for half in [Some(connection.away), connection.back].into_iter().flatten() {
            if let Some(half) = self.connections.half_mut(half) {
                half.closed_at = self.now;
            }
            self.release_if_idle(half);
        }
    }

    /// Releases `i` if it is a half whose connection is closed and of which nothing is in the network.
    #[inline]
    pub(in crate::simulation) fn release_if_idle(&mut self, i: u32) {
        if let Some(&half) = self.connections.half(i)
            && half.under_way == 0
            && half.closed_at < Time::MAX
        {
            self.release(i, half);
        }
    }

    fn release(&mut self, i: u32, half: Half) {
        let Half { flow, conn, away, closed_at, moved_at, .. } = half;
        let sender = self.ends.sender(i);
        if sender.snd_una() < sender.end {
            return;
        }
        let sent_once = sender.sent_once();
        let at = closed_at.max(moved_at);
        // Where time passes in batches, what is known to have left the network may have done so later or earlier than
        // now.
        let now = std::mem::replace(&mut self.now, at);
        let counts = self.endpoint_counts(i);
        self.now = now;
        let Some(running) = self.connections.applications.get_mut(flow as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        if running.pulls != away {
            running.gone.add(&counts);
        }
        if let Some(connection) = running.connections.get_mut(conn.0 as usize) {
            if away {
                connection.away = u32::MAX;
            } else {
                connection.back = None;
            }
            if connection.away == u32::MAX && connection.back.is_none() {
                running.connections.remove(conn.0 as usize);
            }
        }
        if sent_once && moved_at <= closed_at {
            running.free.push(i);
        } else {
            running.released.push((at, i));
        }
        // Nothing of what the heap still holds for its timers is due any more.
        let TcpEnds { sender, receiver } = self.ends.tcp_mut(i);
        (sender.timer, sender.pace_at) = (Timer::OFF, Time::MAX);
        (receiver.delayed, receiver.compressed_at) = (Timer::OFF, Time::MAX);
        if let Some(half) = self.connections.half_mut(i) {
            half.closed_at = Time::MAX;
        }
    }

    /// The counts of a flow that runs an application: of its connections that are there and of those that are gone.
    pub(in crate::simulation) fn application_counts(&mut self, flow: u32) -> FlowCounts {
        let mut counts = self.connections.gone(flow);
        let halves: Vec<u32> = self.connections.data_halves(flow).collect();
        for half in halves {
            counts.add(&self.endpoint_counts(half));
        }
        FlowCounts { at: self.now, ..counts }
    }

    /// What a sample says of a flow that runs an application: window and packets in flight of all its connections
    /// together. Phase, smoothed RTT and pacing rate are those of each.
    pub(in crate::simulation) fn application_state(&self, flow: u32, full_control: bool) -> SenderState {
        let senders = || self.connections.data_halves(flow).map(|half| self.ends.sender(half));
        SenderState {
            phase: 0,
            ca: CaState::Open,
            full_control,
            srtt: Time::ZERO,
            cwnd: Some(senders().map(|sender| sender.control.cwnd).sum()),
            in_flight: senders().map(Sender::in_flight).sum(),
            pacing_rate_bps: None,
        }
    }

    /// The base RTT of a flow has changed: that of its connections changes with it.
    pub(in crate::simulation) fn follow_rtt(&mut self, flow: u32) {
        let path = self.network.flow_paths[flow as usize];
        let mirrored = self.network.mirrored(&path);
        for k in 0..self.connections.halves.len() {
            let half = self.connections.halves[k];
            if half.flow == flow {
                let pulls = self.connections.running(flow).is_some_and(|running| running.pulls);
                self.network.flow_paths[self.connections.flows as usize + k] =
                    if pulls == half.away { mirrored } else { path };
            }
        }
    }
}

/// Pops the front element if `predicate` holds.
fn pop_if<T>(queue: &mut VecDeque<T>, predicate: impl FnOnce(&T) -> bool) -> Option<T> {
    if predicate(queue.front()?) { queue.pop_front() } else { None }
}
