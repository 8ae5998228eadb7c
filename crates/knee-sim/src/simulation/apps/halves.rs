//! The paths that carry connections: taken as one opens, given back once nothing of it is in the network.

use super::{Action, Answer, Apps, Around, Connection, Half};
use crate::simulation::hosts::endpoint::{self, QuicEnds};
use crate::simulation::hosts::quic::{QuicFlow, QuicTraffic};
use crate::simulation::hosts::udp::UdpFlow;
use crate::simulation::hosts::{
    At, End, Ends, HalfView, Hosts, Outbox, PathRecord, Progress, StreamMessage, StreamProgress,
};
use knee_cc::CaState;
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_net::network::Network;
use knee_net::observe::{FlowCounts, Histogram};
use knee_net::output::SenderState;
use knee_tcp::ends::TcpEnds;
use knee_tcp::receiver::{Receiver, Reply};
use knee_tcp::sender::{Sender, SenderInit};
use knee_traffic::{Conn, Exchange};
use std::collections::VecDeque;

impl Apps {
    /// Takes a path for one direction of a connection. Gives its number.
    pub(super) fn add_half<O>(&mut self, flow: u32, conn: Conn, away: bool, around: &mut Around<'_, O>) -> u32 {
        let Around { now, hosts, network, .. } = around;
        let now = *now;
        let Some(running) = self.running_mut(flow) else { return u32::MAX };
        let with_data = running.pulls != away || running.quic.is_some();
        let number = running.connections.get(conn.0 as usize).map_or(0, |connection| connection.number);
        let id = ConnectionId::new(flow, number, !with_data);
        let i = running.take_free(now).unwrap_or(hosts.len());
        let (paced, ecn) = (running.paced, running.ecn);
        let PathRecord { algorithm, overhead, .. } = *hosts.record(flow);
        let quic = running.quic.map(|tls| QuicTraffic {
            tls,
            client: if running.pulls { End::Receiver } else { End::Sender },
            streams: running.streams,
            endpoints: hosts.settings.quic,
        });
        let algorithm_of = &hosts.settings.algorithms[algorithm as usize];
        let tcp = || {
            let init = SenderInit { needs: algorithm_of.needs(), paced, ecn, bytes: None };
            let mut sender = Sender::new(&init, &hosts.settings.sender_config);
            sender.open_stream();
            Ends::Tcp(Box::new(TcpEnds { receiver: Receiver::new(ecn), sender }))
        };
        let ends = quic.map_or_else(tcp, |traffic| {
            if endpoint::serve(algorithm_of) {
                let init = knee_quic::SenderInit { needs: algorithm_of.needs(), ecn: ecn.is_on(), bytes: None };
                let config = &hosts.settings.quic_ends;
                let ends = QuicEnds::connection(&init, (traffic.client, traffic.streams), config, now);
                return Ends::Quic(Box::new(ends));
            }
            let (seed, name) = (hosts.settings.flow_seeds[flow as usize], (flow, number));
            Ends::Udp(Box::new(UdpFlow::Quic(QuicFlow::connection(
                algorithm_of,
                traffic,
                ecn.is_on(),
                name,
                seed,
                now,
            ))))
        });
        let path = network.flow_paths[flow as usize];
        let path = if with_data { path } else { network.mirrored(&path) };
        network.identify(i, id, path.route);
        let view = HalfView { id, away, handshake: Time::ZERO };
        hosts.open(i, view, ends, PathRecord::new(algorithm, overhead, u64::MAX, Histogram::new(1)));
        let half = Half {
            flow,
            conn,
            away,
            closed_at: Time::MAX,
            under_way: 0,
            moved_at: now,
            last_sent: now,
            unsent: 0,
            arrives_at: u64::MAX,
            acked_at: u64::MAX,
            connecting: away,
            shakes_since: Time::MAX,
        };
        let k = (i - self.flows) as usize;
        if k < self.halves.len() {
            (self.halves[k], network.flow_paths[i as usize]) = (half, path);
        } else {
            self.halves.push(half);
            network.flow_paths.push(path);
        }
        i
    }

    /// The application writes `bytes` on half `i`, or, unless it `asks`, the other end does. Gives where the message
    /// ends ([`Hosts::write`]), and the end that sends it.
    pub(super) fn write(&self, i: u32, (asks, bytes): (bool, u64), around: &mut Around<'_, impl Outbox>) -> (u64, End) {
        let last_sent = self.half(i).map_or(around.now, |half| half.last_sent);
        let Around { now, order, hosts, network, out, .. } = around;
        let at = &At { now: *now, path: &network.flow_paths[i as usize], order: *order };
        hosts.write(i, (asks, bytes), last_sent, at, *out)
    }

    /// The application, or, unless it `asks`, the other end writes a message on a stream of QUIC. Gives the end that
    /// sends it.
    pub(super) fn write_stream(
        i: u32,
        asks: bool,
        message: StreamMessage,
        around: &mut Around<'_, impl Outbox>,
    ) -> End {
        let Around { now, order, hosts, network, out, .. } = around;
        let at = &At { now: *now, path: &network.flow_paths[i as usize], order: *order };
        hosts.pair(i).quic().write_stream(asks, message, at, *out)
    }

    /// The other half of the connection of half `i`, over TCP, once both are there.
    fn other_half(&mut self, i: u32) -> Option<u32> {
        let Half { flow, conn, away, .. } = *self.half(i)?;
        let Connection { away: first, back, .. } = *self.connection(flow, conn)?;
        let back = back.filter(|back| *back != first && first != u32::MAX)?;
        Some(if away { back } else { first })
    }

    /// Data packets leave half `i` now, `first` and those behind it. New ones carry the ACK that their end delays.
    pub(in crate::simulation) fn note_sent(
        &mut self,
        i: u32,
        first: &Packet,
        count: u32,
        now: Time,
        hosts: &mut Hosts,
    ) {
        let Some(half) = self.half_mut(i) else { return };
        half.under_way += count;
        half.last_sent = now;
        let Payload::Data { seq, .. } = first.payload else { return };
        let (segment, Half { flow, conn, away, .. }) = (seq.near(half.unsent), *half);
        if segment < half.unsent || first.has(Packet::SYN) {
            return;
        }
        half.unsent = segment + u64::from(count);
        if let Some(other) = self.other_half(i)
            && let Some(ack) = hosts.pair(other).tcp().ack_of_data(now)
            && let Some(connection) = self.connection(flow, conn)
        {
            connection.carried[usize::from(away)].push_back((segment, ack));
        }
    }

    /// The half whose sender gets the ACK that this packet of half `i` carries, and the ACK. One that was lost comes
    /// with the next packet.
    pub(in crate::simulation) fn carried_ack(
        &mut self,
        i: u32,
        packet: &Packet,
        hosts: &Hosts,
    ) -> Option<(u32, Reply)> {
        let Half { flow, conn, away, .. } = *self.half(i)?;
        let Payload::Data { seq, .. } = packet.payload else { return None };
        let segment = seq.near(hosts.tcp_ends(i).receiver.in_order());
        let carried = &mut self.connection(flow, conn)?.carried[usize::from(away)];
        let mut newest = None;
        while let Some((_, ack)) = pop_if(carried, |(first, _)| *first <= segment) {
            newest = Some(ack);
        }
        Some((self.other_half(i)?, newest?))
    }

    /// A packet of half `i` has come to its end.
    pub(in crate::simulation) fn after_delivery(&mut self, i: u32, end: End, now: Time, hosts: &mut Hosts) {
        self.add_packets(i, -1, now);
        self.note_progress(i, end, now, hosts);
    }

    /// An end of half `i` has taken what came: messages may be there, or acknowledged, as a whole.
    pub(in crate::simulation) fn note_progress(&mut self, i: u32, end: End, now: Time, hosts: &mut Hosts) {
        if hosts.is_quic(i) {
            if let Some(progress) = hosts.progress(i) {
                self.after_progress(i, progress, now);
            }
            if let Some(streams) = hosts.take_streams(i) {
                self.after_streams(i, streams, now);
            }
            return self.release_if_idle(i, hosts);
        }
        match end {
            End::Receiver => self.take_messages(i, hosts.tcp_ends(i).receiver.in_order(), now),
            End::Sender => {
                let handshake = hosts.pair(i).tcp().handshake();
                self.after_ack(i, &hosts.tcp_ends(i).sender, handshake);
            }
        }
        self.release_if_idle(i, hosts);
    }

    /// Messages of a QUIC connection may be there, or acknowledged, as a whole.
    pub(in crate::simulation) fn after_progress(&mut self, i: u32, progress: Progress, now: Time) {
        let Some(half) = self.half_mut(i) else { return };
        let Half { flow, conn, connecting, .. } = *half;
        half.connecting &= !progress.connected;
        let shakes_since = half.shakes_since;
        if progress.shaken {
            half.shakes_since = Time::MAX;
        } else if connecting && progress.connected {
            half.shakes_since = now;
        }
        if connecting && progress.connected {
            self.act(flow, Action::Connected(conn));
        }
        if progress.shaken && shakes_since < Time::MAX {
            self.act(flow, Action::ShookHands(shakes_since));
        }
        let Progress { asked: (arrived, acked), answered, .. } = progress;
        let whole = |(end, exchange): &(u64, Exchange)| *end <= if exchange.down > 0 { arrived } else { acked };
        while let Some(connection) = self.connection(flow, conn)
            && let Some((_, exchange)) = pop_if(&mut connection.sent, whole)
        {
            if exchange.down > 0 {
                self.prepare(i, 0, &exchange, now);
            } else {
                self.complete_next(flow, conn);
            }
        }
        while let Some(connection) = self.connection(flow, conn)
            && pop_if(&mut connection.answers, |end| *end <= answered).is_some()
        {
            self.complete_next(flow, conn);
        }
    }

    /// Messages of a QUIC connection have come, or are acknowledged, each on a stream of its own.
    fn after_streams(&mut self, i: u32, streams: StreamProgress, now: Time) {
        let Some(&Half { flow, conn, .. }) = self.half(i) else { return };
        let StreamProgress { asked, acked, answered } = streams;
        for stream in asked {
            let running = self.connection(flow, conn).and_then(|connection| connection.on_stream(stream));
            if let Some((_, exchange)) = running.filter(|(_, exchange)| exchange.down > 0) {
                self.prepare(i, stream, &exchange, now);
            }
        }
        let Some(connection) = self.connection(flow, conn) else { return };
        let unanswered = |&stream: &u64| connection.on_stream(stream).is_some_and(|(_, exchange)| exchange.down == 0);
        for stream in acked.into_iter().filter(unanswered).chain(answered).collect::<Vec<_>>() {
            let Some(connection) = self.connection(flow, conn) else { return };
            if let Some((number, _)) = connection.on_stream(stream) {
                connection.running.remove(&number);
                self.act(flow, Action::Complete(conn, number));
            }
        }
    }

    /// A request has come as a whole over half `i`, on this stream if there are several: its answer is made.
    fn prepare(&mut self, i: u32, stream: u64, exchange: &Exchange, now: Time) {
        let Some(&Half { flow, conn, .. }) = self.half(i) else { return };
        let Exchange { down: bytes, service, priority, .. } = *exchange;
        let Some(connection) = self.connection(flow, conn) else { return };
        connection.preparing.push_back(Answer { at: now + service, bytes, stream, priority });
        self.act(flow, if service == Time::ZERO { Action::Answer(conn) } else { Action::Prepare(i, now + service) });
    }

    /// The oldest exchange of a connection is complete.
    fn complete_next(&mut self, flow: u32, conn: Conn) {
        let Some(connection) = self.connection(flow, conn) else { return };
        let number = connection.completed;
        connection.completed += 1;
        connection.running.remove(&number);
        self.act(flow, Action::Complete(conn, number));
    }

    /// A timer of half `i` has fired. True if its connection has timed out before all of its exchanges were complete:
    /// another one takes its place.
    pub(in crate::simulation) fn note_timeout(&mut self, i: u32, hosts: &Hosts) -> bool {
        let Some(&Half { flow, conn, .. }) = self.half(i).filter(|_| hosts.is_over(i)) else { return false };
        let waits = |connection: &mut Connection| connection.away == i && !connection.running.is_empty();
        let reopens = self.connection(flow, conn).is_some_and(waits);
        if reopens {
            self.act(flow, Action::Reopen(conn));
        }
        reopens
    }

    /// Another connection takes the place of one that timed out, and asks again for what was not complete.
    pub(super) fn reopen(&mut self, flow: u32, conn: Conn, around: &mut Around<'_, impl Outbox>) -> Option<(u32, End)> {
        let running = self.running_mut(flow)?;
        let number = running.opened;
        running.opened += 1;
        let connection = running.connections.get_mut(conn.0 as usize)?;
        let Connection { away: old, started, completed, .. } = *connection;
        running.timed_out.push(old);
        let open = std::mem::take(&mut connection.running);
        *connection = Connection { started, completed, ..Connection::new(number) };
        for (exchange, content) in open.into_iter().rev() {
            self.act_first(flow, Action::Send(conn, exchange, content));
        }
        let opened = self.connect(flow, conn, around)?;
        if let Some(half) = self.half_mut(opened.0) {
            // The application takes it for the old one.
            (half.connecting, half.shakes_since) = (false, around.now);
        }
        if let Some(half) = self.half_mut(old) {
            half.closed_at = around.now;
        }
        self.release_if_idle(old, around.hosts);
        Some(opened)
    }

    fn take_messages(&mut self, i: u32, in_order: u64, now: Time) {
        while let Some(&Half { flow, conn, away, arrives_at, .. }) = self.half(i)
            && in_order >= arrives_at
            && let Some(connection) = self.connection(flow, conn)
        {
            if away {
                let Some((_, exchange)) = connection.sent.pop_front() else { break };
                self.prepare(i, 0, &exchange, now);
            } else {
                connection.answers.pop_front();
                self.complete_next(flow, conn);
            }
            self.await_next(i);
        }
    }

    /// The sender of half `i` has taken an ACK; its handshake took so long, if it is over.
    #[inline]
    pub(in crate::simulation) fn after_ack(&mut self, i: u32, sender: &Sender, handshake: Time) {
        if self.half(i).is_some_and(|half| half.connecting || sender.snd_una() >= half.acked_at) {
            self.note_handshake(i, handshake);
            self.complete_messages(i, sender.snd_una());
        }
    }

    /// The handshake of half `i` may be over: an application learns it if it waits for it.
    fn note_handshake(&mut self, i: u32, handshake: Time) {
        let Some(half) = self.half_mut(i).filter(|half| half.connecting && handshake > Time::ZERO) else { return };
        half.connecting = false;
        let Half { flow, conn, .. } = *half;
        if let Some(connection) = self.connection(flow, conn) {
            connection.handshake = handshake;
            self.act(flow, Action::Connected(conn));
        }
    }

    #[inline(never)]
    fn complete_messages(&mut self, i: u32, snd_una: u64) {
        while let Some(&Half { flow, conn, acked_at, .. }) = self.half(i)
            && snd_una >= acked_at
            && let Some(connection) = self.connection(flow, conn)
        {
            connection.sent.pop_front();
            self.complete_next(flow, conn);
            self.await_next(i);
        }
    }

    /// An answer at the other end of half `i` is ready.
    pub(in crate::simulation) fn note_ready(&mut self, i: u32) {
        if let Some(&Half { flow, conn, .. }) = self.half(i) {
            self.act(flow, Action::Answer(conn));
        }
    }

    /// The other end of a connection answers with what is ready.
    pub(super) fn answer(&mut self, flow: u32, conn: Conn, around: &mut Around<'_, impl Outbox>) -> Option<(u32, End)> {
        let (now, streams) = (around.now, self.has_streams(flow));
        let connection = self.connection(flow, conn)?;
        // On one stream an answer waits for those before it.
        let (preparing, ready) = (&mut connection.preparing, |answer: &Answer| answer.at <= now);
        let place = preparing.iter().take(if streams { usize::MAX } else { 1 }).position(ready)?;
        let Answer { bytes, stream, priority, .. } = preparing.remove(place)?;
        if streams {
            let (half, message) = (connection.away, StreamMessage { stream, bytes, priority });
            return Some((half, Self::write_stream(half, false, message, around)));
        }
        let (back, handshake) = (connection.back, connection.handshake);
        let back = if let Some(back) = back {
            back
        } else {
            let back = self.add_half(flow, conn, false, around);
            self.connection(flow, conn)?.back = Some(back);
            // The other end measures the same handshake.
            let at = &At { now, path: &around.network.flow_paths[back as usize], order: around.order };
            around.hosts.pair(back).tcp().open(handshake, at, around.out);
            back
        };
        let (message, end) = self.write(back, (false, bytes), around);
        let connection = self.connection(flow, conn)?;
        connection.answers.push_back(message);
        // One that was ready before has waited for this one.
        if connection.preparing.front().is_some_and(|answer| answer.at <= now) {
            self.act(flow, Action::Answer(conn));
        }
        self.await_next(back);
        Some((back, end))
    }

    /// Closes a connection. The FIN, which is not simulated, acknowledges answers: gives the end that does so.
    pub(super) fn close(&mut self, flow: u32, conn: Conn, around: &mut Around<'_, impl Outbox>) -> Option<(u32, End)> {
        let connection = self.connection(flow, conn)?;
        let (away, back) = (connection.away, connection.back.filter(|half| *half != connection.away));
        let Around { now, order, .. } = *around;
        let mut acknowledged = None;
        if let Some(back) = back {
            let at = &At { now, path: &around.network.flow_paths[back as usize], order };
            acknowledged = around.hosts.pair(back).tcp().acknowledge_now(at, around.out).then_some(back);
        }
        for half in [Some(away), back].into_iter().flatten() {
            if let Some(half) = self.half_mut(half) {
                half.closed_at = now;
            }
            // An ACK that is about to leave lets it go as it arrives.
            if acknowledged != Some(half) {
                self.release_if_idle(half, around.hosts);
            }
        }
        acknowledged.map(|back| (back, End::Receiver))
    }

    /// Releases half `i` if its connection is closed and nothing of it is in the network.
    #[inline]
    pub(in crate::simulation) fn release_if_idle(&mut self, i: u32, hosts: &mut Hosts) {
        if let Some(&half) = self.half(i)
            && half.under_way == 0
            && half.closed_at < Time::MAX
        {
            self.release(i, half, hosts);
        }
    }

    fn release(&mut self, i: u32, half: Half, hosts: &mut Hosts) {
        let Half { flow, conn, away, closed_at, moved_at, .. } = half;
        let Some(sent_once) = hosts.settled(i) else { return };
        // Where time passes in batches, what is known to have left the network may have done so later or earlier than
        // now.
        let at = closed_at.max(moved_at);
        let counts = hosts.counts(i, at);
        let Some(running) = self.running_mut(flow) else { return };
        let both = running.quic.is_some();
        if running.pulls != away || both {
            running.gone.add(&counts);
        }
        running.timed_out.retain(|&half| half != i);
        if let Some(connection) = running.connections.get_mut(conn.0 as usize) {
            // It is another's where this one timed out.
            let (is_away, is_back) = (connection.away == i, connection.back == Some(i));
            if is_away {
                connection.away = u32::MAX;
            }
            if is_back {
                connection.back = None;
            }
            if (is_away || is_back) && connection.away == u32::MAX && connection.back.is_none() {
                running.connections.remove(conn.0 as usize);
            }
        }
        if sent_once && moved_at <= closed_at {
            running.free.push(i);
        } else {
            running.released.push((at, i));
        }
        // Nothing of what the heap still holds for its timers is due any more.
        hosts.close(i);
        if let Some(half) = self.half_mut(i) {
            half.closed_at = Time::MAX;
        }
    }

    /// The counts of a flow that runs an application: of its connections that are there and of those that are gone.
    pub(in crate::simulation) fn counts(&self, flow: u32, hosts: &mut Hosts, now: Time) -> FlowCounts {
        let mut counts = self.gone(flow);
        for half in self.data_halves(flow) {
            counts.add(&hosts.counts(half, now));
        }
        FlowCounts { at: now, ..counts }
    }

    /// Bytes that a flow that runs an application has received, as [`Apps::counts`].
    pub(in crate::simulation) fn received_bytes(&self, flow: u32, hosts: &Hosts) -> u64 {
        let connections = self.data_halves(flow).map(|half| hosts.received_bytes(half));
        self.gone(flow).received_bytes + connections.sum::<u64>()
    }

    /// A sample of a flow that runs an application: window and packets in flight of all its connections
    /// together. Phase, smoothed RTT and pacing rate are those of each.
    pub(in crate::simulation) fn sender_state(&self, flow: u32, hosts: &mut Hosts, now: Time) -> SenderState {
        let full_control = hosts.has_full_control(flow);
        let states = self.data_halves(flow).map(|half| hosts.sender_state(half, now));
        let (cwnd, in_flight) = states
            .fold((0, 0), |(cwnd, in_flight), state| (cwnd + state.cwnd.unwrap_or(0), in_flight + state.in_flight));
        SenderState {
            phase: 0,
            ca: CaState::Open,
            full_control,
            srtt: Time::ZERO,
            cwnd: Some(cwnd),
            in_flight,
            pacing_rate_bps: None,
        }
    }

    /// The base RTT of a flow has changed: that of its connections changes with it.
    pub(in crate::simulation) fn follow_rtt(&self, flow: u32, network: &mut Network) {
        let path = network.flow_paths[flow as usize];
        let mirrored = network.mirrored(&path);
        let pulls = self.running(flow).is_some_and(|running| running.pulls);
        let both = self.running(flow).is_some_and(|running| running.quic.is_some());
        for (k, half) in self.halves.iter().enumerate().filter(|(_, half)| half.flow == flow) {
            network.flow_paths[self.flows as usize + k] = if pulls == half.away && !both { mirrored } else { path };
        }
    }
}

/// Pops the front element if `predicate` holds.
fn pop_if<T>(queue: &mut VecDeque<T>, predicate: impl FnOnce(&T) -> bool) -> Option<T> {
    if predicate(queue.front()?) { queue.pop_front() } else { None }
}
