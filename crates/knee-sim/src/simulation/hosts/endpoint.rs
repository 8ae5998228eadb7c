//! Flows over QUIC whose ends are knee's own, packet by packet ([`knee_quic`]): endless ones and single transfers.
//!
//! The sender is the client of the [`handshake`](knee_quic::handshake), for whose packets the flag [`Packet::SYN`]
//! stands. Then data and ACKs alternate as TCP's do; an ACK for which a packet has no room waits in the
//! [`Stores`](super::Stores).

use super::endpoint_log::EndpointLog;
use super::{Algorithm, At, End, EndFigures, HostPair, Outbox, Protocol};
use crate::simulation::apps::Apps;
use crate::simulation::build::OwnMake;
use knee_cc::{DynCongestionControl, Init};
use knee_core::convert::{index_u32, low_u16, low_u32, saturating_u32};
use knee_core::packet::Seq;
use knee_core::{Bytes, Packet, Params, Payload, Rate, Received, Rng, Time, Value};
use knee_net::SpecError;
use knee_net::observe::{FlowCounts, Spread};
use knee_net::output::SenderState;
use knee_net::spec::{FlowSpec, QuicEndpoints, QuicSpec, Transport};
use knee_quic::handshake::{Client, FromClient, Server, ToClient, ToServer};
use knee_quic::{AckFrame, Arrival, Config, DELAY_UNIT, Mark, Outgoing, Receiver, Sender, SenderInit, Settings};
use knee_tcp::ends::EndTimer;
use knee_tcp::sender::Counters;

/// Bytes of the IPv4 and UDP headers.
const HEADERS: u16 = 28;
/// Bytes of a packet around an ACK frame: a short header with an ID of 8 bytes and a number of 2 (RFC 9000, 17.3.1),
/// and the tag of its encryption (RFC 9001, 5.3).
const AROUND_ACK: u16 = 11 + 16;

/// Both ends of a flow.
#[derive(Clone)]
pub(in crate::simulation) struct QuicEnds {
    pub(in crate::simulation) sender: Sender,
    pub(in crate::simulation) receiver: Receiver,
    /// Both ends of the handshake.
    client: Client,
    server: Server,
    /// True once data may leave.
    established: bool,
    /// The codepoint of the receiver's packets.
    receiver_ect: u8,
    /// Packets with data that came to the receiver, duplicates included.
    pub(in crate::simulation) received: Received,
    /// Integral of the window over time, packets times ns, when it was last brought up to date, and the window since
    /// then.
    cwnd_integral: (u128, Time, u32),
    /// Where the sender's events are logged.
    log: Option<Box<EndpointLog>>,
}

/// The settings of a specification; the usual ones where other endpoints have those.
///
/// # Errors
/// If they contradict each other, or are none of these endpoints'.
pub(in crate::simulation) fn config(spec: &QuicSpec) -> Result<Config, SpecError> {
    if spec.endpoints != QuicEndpoints::Knee {
        return Ok(Config::default());
    }
    let refused = |error| SpecError::Text { owner: "the endpoints of QUIC".into(), error };
    let window = spec.receive_window.into_iter().chain(spec.stream_receive_window).min();
    let settings = Settings::default();
    let given = [
        ("datagram", Value::Count(spec.max_mtu.into())),
        ("certificate", Value::Count(spec.certificate)),
        ("max_ack_delay", Value::Time(Time::from_nanos(spec.max_ack_delay))),
        ("ack_every", Value::Count(spec.ack_eliciting_threshold.saturating_add(1))),
        ("receive_window", Value::Bytes(window.map_or(settings.receive_window, Bytes))),
    ];
    let params = Params::resolve(Settings::DECLARED, given).map_err(|error| refused(error.to_string()))?;
    Config::new(&Settings::from(&params)).map_err(|conflict| refused(conflict.to_string()))
}

/// Tells whether these endpoints are those of a flow under `algorithm`: those under a stack's controller are its own.
///
/// # Errors
/// If they are, and do not have what the flow asks for.
pub(in crate::simulation) fn serves(
    flow: &FlowSpec,
    algorithm: &Algorithm,
    spec: &QuicSpec,
) -> Result<bool, SpecError> {
    let is_stacks =
        matches!(algorithm.make, Some(OwnMake::Quinn(_))) || super::quic::find(algorithm.entry.name).is_some();
    if flow.transport != Transport::Quic || spec.endpoints != QuicEndpoints::Knee || is_stacks {
        return Ok(false);
    }
    let asks = if flow.traffic.is_some() || flow.sends_datagrams() {
        "carry endless flows and single transfers, and no application's traffic"
    } else if flow.tls {
        "do not encrypt"
    } else {
        return Ok(true);
    };
    Err(SpecError::Endpoints(flow.label.clone(), asks))
}

impl QuicEnds {
    /// A flow that has `bytes` to send, or no end, before it begins at `start`.
    pub(in crate::simulation) fn new(init: &SenderInit, config: &Config, start: Time) -> Self {
        let sender = Sender::new(init, config);
        Self {
            receiver_ect: ect(sender.mark()),
            sender,
            receiver: Receiver::default(),
            client: Client::default(),
            server: Server::default(),
            established: false,
            received: Received::default(),
            cwnd_integral: (0, start, 0),
            log: None,
        }
    }

    /// Packets with data that left the sender.
    pub(in crate::simulation) const fn sent(&self) -> u64 {
        self.sender.view().snd_nxt
    }

    /// When a timer is due; `Time::MAX`: it is not set.
    pub(super) fn not_before(&self, timer: EndTimer) -> Time {
        match timer {
            EndTimer::Retransmit => self.sender.timer.not_before().min(self.client.timer.not_before()),
            EndTimer::Pace => self.sender.pacer.due,
            EndTimer::DelayedAck => self.receiver.delayed.not_before(),
            // The receiver has one more, that of the handshake.
            EndTimer::CompressedSack => self.server.timer.not_before(),
        }
    }

    /// When one of the timers of an end is due; `Time::MAX`: none is set.
    #[inline]
    pub(in crate::simulation) fn due(&self, end: End) -> Time {
        let [first, second] = end.timers();
        self.not_before(first).min(self.not_before(second))
    }

    /// Counts the window up to `now`.
    fn note_cwnd(&mut self, now: Time) {
        let (sum, since, cwnd) = self.cwnd_integral;
        let area = u128::from(cwnd) * u128::from(now.saturating_sub(since).as_nanos());
        self.cwnd_integral = (sum + area, now, if self.established { self.sender.control.cwnd } else { 0 });
    }

    /// The sender's figures so far.
    pub(super) fn figures(&mut self, now: Time, config: &Config) -> EndFigures {
        self.note_cwnd(now);
        let (view, totals) = (self.sender.view(), self.sender.totals());
        let headers = u64::from(HEADERS);
        EndFigures {
            received: self.received,
            counters: Counters {
                sent: view.snd_nxt,
                sent_bytes: totals.sent_bytes + headers * view.snd_nxt,
                retransmitted: totals.again,
                lost: view.lost,
                timeouts: totals.persistent,
            },
            delivered_bytes: self.receiver.delivered(),
            new_bytes: self.sender.new_bytes(),
            outstanding: u64::from(view.in_flight),
            cwnd_integral: self.cwnd_integral.0,
            sender: SenderState {
                phase: self.sender.control.phase,
                ca: view.ca,
                full_control: false,
                srtt: view.srtt,
                cwnd: Some(if self.established { self.sender.control.cwnd } else { 0 }),
                in_flight: view.in_flight,
                pacing_rate_bps: self.sender.paces().then(|| self.sender.pacing_rate(config)).map(Rate::as_bps),
            },
        }
    }
}

/// The codepoint of a packet that leaves.
const fn ect(mark: Mark) -> u8 {
    match mark {
        Mark::Ect0 => Packet::ECT,
        Mark::Ect1 => Packet::ECT | Packet::L4S,
        Mark::NotEct | Mark::Ce => 0,
    }
}

/// The mark with which a packet arrives.
const fn mark(packet: &Packet) -> Mark {
    match packet.ecn_field() {
        3 => Mark::Ce,
        2 => Mark::Ect0,
        1 => Mark::Ect1,
        _ => Mark::NotEct,
    }
}

impl Protocol for HostPair<'_, QuicEnds> {
    #[inline]
    fn path(&self) -> u32 {
        self.i
    }

    #[inline]
    fn receiver_due(&self) -> Time {
        self.ends.due(End::Receiver)
    }

    #[inline]
    fn sender_due(&self) -> Time {
        self.ends.due(End::Sender)
    }

    fn connect(&mut self, at: At<'_>, out: &mut impl Outbox) {
        self.ends.log = self.log().map(|log| Box::new(EndpointLog::new(log)));
        let hello = self.ends.client.start(at.now, &self.settings.quic_ends);
        self.send_to_server(&hello, at, out);
    }

    #[inline]
    fn on_data(&mut self, packet: &Packet, at: At<'_>, out: &mut impl Outbox) {
        let Payload::Stream { number, offset, len } = packet.payload else { panic!("not QUIC's: {packet:?}") };
        if packet.has(Packet::SYN) {
            return self.on_handshake(packet, at, out);
        }
        self.ends.received.count(packet);
        if !self.ends.server.is_done() {
            // It has no keys for it yet.
            return;
        }
        let receiver = &mut self.ends.receiver;
        let (number, offset) = (number.near(receiver.expected()), offset.near(receiver.in_order()));
        let arrival = Arrival { number, offset, len, eliciting: true, mark: mark(packet) };
        let is_first = receiver.expected() == 0;
        let ack = receiver.on_packet(&arrival, at.now, &self.settings.quic_ends);
        // Stacks send the first data in the datagram of their Finished: the packet that says that the handshake is done
        // acknowledges it.
        if let Some(ack) = ack.or_else(|| if is_first { receiver.ack(at.now) } else { None }) {
            self.send_ack(ack, at, out);
        }
    }

    #[inline]
    fn on_ack(&mut self, (payload, flags): (Payload, u8), at: At<'_>, out: &mut impl Outbox) {
        let now = at.now;
        let frame = match payload {
            Payload::Stream { .. } if flags & Packet::SYN != 0 => return self.on_answer(payload, at, out),
            Payload::QuicAck { next, delay } => {
                let top = (0, next.near(self.ends.sender.view().snd_una));
                AckFrame { top, delay: DELAY_UNIT * u64::from(delay), ..AckFrame::default() }
            }
            other => self.stores.quic_acks.remove(other.key() as usize),
        };
        if let Some(log) = &mut self.ends.log {
            log.note_received(now, &frame, AROUND_ACK + frame.size());
        }
        let (sender, outgoing) = (&mut self.ends.sender, &mut self.stores.quic_outgoing);
        let rtt = sender.on_ack(&frame, now, &self.settings.quic_ends, outgoing);
        let rtt = rtt.unwrap_or_else(|violation| panic!("flow {}: {violation}", self.i));
        // Figures have the ACK's delay in them.
        let rtt = rtt.map(|_| self.ends.sender.rtt().latest());
        self.book_rtt(rtt, out);
        self.after_sender(at, out);
    }

    fn on_timer(&mut self, timer: EndTimer, at: At<'_>, out: &mut impl Outbox) {
        if self.ends.not_before(timer) > at.now {
            return;
        }
        let (now, config) = (at.now, &self.settings.quic_ends);
        match timer {
            EndTimer::Retransmit if self.ends.client.timer.not_before() <= now => {
                if let Some(probe) = self.ends.client.on_timer(now, config) {
                    self.send_to_server(&probe, at, out);
                }
            }
            EndTimer::Retransmit => {
                self.ends.sender.on_timer(now, config, &mut self.stores.quic_outgoing);
                self.after_sender(at, out);
            }
            EndTimer::Pace => {
                self.ends.sender.send(now, config, &mut self.stores.quic_outgoing);
                self.after_sender(at, out);
            }
            EndTimer::DelayedAck => {
                if let Some(ack) = self.ends.receiver.on_timer(now) {
                    self.send_ack(ack, at, out);
                }
            }
            EndTimer::CompressedSack => {
                let mut answers = Vec::new();
                self.ends.server.on_timer(now, config, &mut answers);
                self.send_to_client(&answers, at, out);
            }
        }
    }

    fn next_timer(&mut self, end: End, limit: Time) -> Option<(Time, EndTimer)> {
        // The first where both are due at once.
        let [first, second] = end.timers().map(|timer| (self.ends.not_before(timer), timer));
        let next = if first.0 <= second.0 { first } else { second };
        Some(next).filter(|(due, _)| *due < limit)
    }

    fn observe(&mut self, now: Time) -> (FlowCounts, SenderState, Spread) {
        let figures = self.ends.figures(now, &self.settings.quic_ends);
        let sender = SenderState { full_control: self.settings.has_full_control(self.record), ..figures.sender };
        (figures.counts(self.record, now), sender, self.record.take_rtts())
    }

    fn tell(&self, _: &mut Apps) {
        // These flows carry no application's traffic.
    }
}

impl HostPair<'_, QuicEnds> {
    /// A datagram of the handshake leaves the sender, the client.
    fn send_to_server(&mut self, datagram: &ToServer, at: At<'_>, out: &mut impl Outbox) {
        self.stores.syns += 1;
        let (hello, kind) = match datagram.what {
            FromClient::Hello(number) => (number, 0),
            FromClient::Acks => (0, 1),
            FromClient::Finished => (0, 2),
        };
        let (number, offset) = (Seq::new(datagram.came.into()), Seq::new(hello.into()));
        let payload = Payload::Stream { number, offset, len: kind };
        let (size, flags) = (HEADERS + datagram.size, Packet::SYN | ect(self.ends.sender.mark()));
        out.data(Packet { at: at.now, payload, flow: self.i, queued: 0, size, flags, hop: 0 }, 1, at);
    }

    /// One has arrived at the receiver, the server.
    #[cold]
    fn on_handshake(&mut self, packet: &Packet, at: At<'_>, out: &mut impl Outbox) {
        self.stores.syns -= 1;
        let Payload::Stream { number, offset, len } = packet.payload else { panic!("not QUIC's: {packet:?}") };
        let what = match len {
            0 => FromClient::Hello(low_u16(offset.near(0))),
            1 => FromClient::Acks,
            _ => FromClient::Finished,
        };
        let datagram = ToServer { what, came: low_u32(number.near(0)), size: packet.size - HEADERS };
        let mut answers = Vec::new();
        self.ends.server.receive(&datagram, at.now, &self.settings.quic_ends, &mut answers);
        self.send_to_client(&answers, at, out);
    }

    /// Datagrams of the handshake leave the receiver.
    fn send_to_client(&mut self, datagrams: &[ToClient], at: At<'_>, out: &mut impl Outbox) {
        for datagram in datagrams {
            let payload = match *datagram {
                ToClient::Flight { place, of, hello, .. } => {
                    let (number, offset) = (u64::from(place) << 16 | u64::from(of), Seq::new(hello.into()));
                    Payload::Stream { number: Seq::new(number), offset, len: 0 }
                }
                ToClient::Done => Payload::Stream { number: Seq::new(0), offset: Seq::new(0), len: 1 },
            };
            let (size, flags) = (HEADERS + datagram.size(), Packet::SYN | Packet::ACK | self.ends.receiver_ect);
            out.ack(Packet { at: at.now, payload, flow: self.i, queued: 0, size, flags, hop: 0 }, at);
        }
    }

    /// One has arrived at the sender.
    #[cold]
    fn on_answer(&mut self, payload: Payload, at: At<'_>, out: &mut impl Outbox) {
        let Payload::Stream { number, offset, len } = payload else { panic!("not QUIC's: {payload:?}") };
        let datagram = if len == 1 {
            ToClient::Done
        } else {
            let (number, hello) = (low_u32(number.near(0)), low_u16(offset.near(0)));
            // Only the server counts sizes.
            ToClient::Flight { place: low_u16(u64::from(number >> 16)), of: low_u16(number.into()), hello, size: 0 }
        };
        if let Some(answer) = self.ends.client.receive(&datagram, at.now, &self.settings.quic_ends) {
            self.send_to_server(&answer, at, out);
        }
        if let Some(rtt) = self.ends.client.connected()
            && !std::mem::replace(&mut self.ends.established, true)
        {
            self.establish(rtt, at, out);
        }
    }

    /// The handshake, of this RTT, lets data leave.
    fn establish(&mut self, rtt: Time, at: At<'_>, out: &mut impl Outbox) {
        let (now, config) = (at.now, &self.settings.quic_ends);
        let sender = &mut self.ends.sender;
        let init = Init {
            now,
            rtt,
            cwnd: sender.control.cwnd,
            mss: u32::from(config.datagram),
            tick: Time::ZERO,
            paced: sender.paces(),
            accurate_ecn: true,
            tso: false,
            rng: Rng::stream(self.settings.flow_seeds[self.i as usize], "cc"),
        };
        let Algorithm { entry, make, params } = &self.settings.algorithms[self.record.algorithm as usize];
        let cc: Box<dyn DynCongestionControl> = match make {
            Some(OwnMake::Algorithm(make)) => make(params, &init, self.i as usize),
            Some(OwnMake::Policy(plan)) => plan.make(&init),
            _ => (entry.make)(params, &init),
        };
        sender.adopt(cc, Some(rtt), now, config);
        sender.send(now, config, &mut self.stores.quic_outgoing);
        // The first phase is put on record, whichever it is.
        self.record.phase = u8::MAX;
        self.after_sender(at, out);
    }

    /// The receiver sends an ACK now.
    #[inline]
    fn send_ack(&mut self, ack: AckFrame, at: At<'_>, out: &mut impl Outbox) {
        let size = HEADERS + AROUND_ACK + ack.size();
        let payload = if let AckFrame { top: (0, end), ecn: None, delay, .. } = ack {
            let delay = saturating_u32(delay.as_nanos() / DELAY_UNIT.as_nanos());
            Payload::QuicAck { next: Seq::new(end), delay }
        } else {
            Payload::Stored(index_u32(self.stores.quic_acks.insert(ack)))
        };
        let flags = Packet::ACK | self.ends.receiver_ect;
        out.ack(Packet { at: at.now, payload, flow: self.i, queued: 0, size, flags, hop: 0 }, at);
    }

    /// Follows every call of the sender: its packets leave, its changes of state are noted.
    #[inline]
    fn after_sender(&mut self, at: At<'_>, out: &mut impl Outbox) {
        let headers = self.settings.quic_ends.headers;
        if self.ends.log.is_some() {
            self.log_sender(at.now);
        }
        for Outgoing { first, count, offset, len, mark, .. } in self.stores.quic_outgoing.drain(..) {
            let payload = Payload::Stream { number: Seq::new(first), offset: Seq::new(offset), len };
            let (size, flags) = (HEADERS + headers + len, ect(mark));
            out.data(Packet { at: at.now, payload, flow: self.i, queued: 0, size, flags, hop: 0 }, count, at);
        }
        if self.ends.sender.control.cwnd != self.ends.cwnd_integral.2 {
            self.ends.note_cwnd(at.now);
        }
        let sender = &self.ends.sender;
        let (control, ca, persistent) = (sender.control, sender.view().ca, sender.totals().persistent);
        if control.phase != self.record.phase
            || ca != self.record.ca
            || persistent != u64::from(self.record.seen_timeouts)
        {
            self.note_states(at.now, &control, ca, saturating_u32(persistent), out);
        }
        // A flow that was stopped is done without having sent it all.
        if self.ends.sender.done() && self.ends.sender.new_bytes() == self.record.complete_at {
            self.complete(at.now, out);
        }
    }
    /// Logs what the sender has done.
    #[cold]
    fn log_sender(&mut self, now: Time) {
        let (QuicEnds { sender, log, .. }, config) = (&mut *self.ends, &self.settings.quic_ends);
        let Some(log) = log else { return };
        log.note_updated(now, sender, config);
        for burst in &self.stores.quic_outgoing {
            log.note_sent(now, burst, config.headers + burst.len);
        }
    }
}
