//! Flows over QUIC whose ends are knee's own, packet by packet ([`knee_quic`]): endless ones, single transfers, and the
//! connections of applications.
//!
//! Packets go through `packets.rs`: of the handshake (`handshake.rs`), for which the flag [`Packet::SYN`] stands, of
//! data and of ACKs. An ACK for which a packet has no room waits in the [`Stores`](super::Stores). An application's
//! connection has one path for both directions and a stream in each (`messages.rs`): what the receiver's end sends goes
//! against the data, as ACKs do. ACKs are packets of their own.

mod handshake;
mod idle;
mod log;
mod messages;
mod packets;

use super::{Algorithm, End, EndFigures};
use crate::simulation::build::OwnMake;
use idle::Idle;
use knee_core::{Bytes, Packet, Params, Rate, Received, Time, Value};
use knee_net::SpecError;
use knee_net::output::SenderState;
use knee_net::spec::{FlowSpec, QuicPreset, QuicSpec, Transport};
use knee_quic::handshake::{Client, Server};
use knee_quic::{Config, Mark, Receiver, Sender, SenderInit, Settings, preset};
use knee_tcp::ends::EndTimer;
use knee_tcp::sender::Counters;
use knee_traffic::TrafficSpec;
use log::EndpointLog;

/// Bytes of the IPv4 and UDP headers.
const HEADERS: u16 = 28;
/// Bytes of an initial window that is not limited in bytes.
const NO_LIMIT: u32 = 1_000_000_000;
/// Bytes of a packet around an ACK frame: a short header with an ID of 8 bytes and a number of 2 (RFC 9000, 17.3.1),
/// and the tag of its encryption (RFC 9001, 5.3).
const AROUND_ACK: u16 = 11 + 16;

/// Both ends of a flow, or of a connection that an application opened.
#[derive(Clone)]
pub(in crate::simulation) struct QuicEnds {
    /// The flow's data.
    sender: Sender,
    receiver: Receiver,
    /// Data against it, on a connection of an application.
    back: Option<Box<Back>>,
    /// The end that opens the connection, and both ends of the handshake.
    client_end: End,
    client: Client,
    server: Server,
    /// True once data may leave the sender, and the other end.
    established: bool,
    back_established: bool,
    /// True while an end reads packets of 1-RTT, by end.
    open: [bool; 2],
    /// When the timer of the handshake or that of idle time is due, by end.
    rare_due: [Time; 2],
    /// The client's packets below this number leave as 0-RTT.
    early_end: u64,
    /// The server has an ACK of 0-RTT that it was not allowed to send.
    owes_ack: bool,
    /// Nothing happens any more at an end, by end.
    closed: [bool; 2],
    /// The timers of idle time, by end.
    idle: [Idle; 2],
    /// The codepoint of the receiver's packets.
    receiver_ect: u8,
    /// Packets that came to the receiver's end, duplicates included.
    received: Received,
    /// Packets with ACKs that left the sender's end, and their bytes as IP packets.
    acks: (u64, u64),
    /// Datagrams that have come to the end at work, and those of the sender that will not come: the lower halves of
    /// their numbers.
    came: Vec<u32>,
    missing: Vec<u32>,
    /// Integral of the window over time, packets times ns, when it was last brought up to date, and the window since
    /// then.
    cwnd_integral: (u128, Time, u32),
    /// Log of the sender's events.
    log: Option<Box<EndpointLog>>,
}

/// The direction against a flow's data: from the receiver's end to the sender's.
#[derive(Clone)]
struct Back {
    sender: Sender,
    receiver: Receiver,
}

/// The settings of a specification.
///
/// # Errors
/// If they contradict each other, or are none of these endpoints'.
pub(in crate::simulation) fn config(spec: &QuicSpec) -> Result<Config, SpecError> {
    let refused = |error| SpecError::Text { owner: "the endpoints of QUIC".into(), error };
    let mut settings = spec.preset.map_or_else(Settings::default, preset);
    let given = [
        ("certificate", Some(Value::Count(spec.certificate))),
        ("datagram", spec.max_mtu.map(|bytes| Value::Count(bytes.into()))),
        ("datagram_buffer", Some(Value::Bytes(Bytes(spec.datagram_buffer)))),
        ("idle_timeout", spec.idle_timeout.map(|ns| Value::Time(Time::from_nanos(ns)))),
        ("initial_window", spec.initial_window.map(|packets| Value::Count(packets.into()))),
        ("initial_rtt", spec.initial_rtt.map(|ns| Value::Time(Time::from_nanos(ns)))),
        ("packet_threshold", spec.packet_threshold.map(|packets| Value::Count(packets.into()))),
        ("max_ack_delay", spec.max_ack_delay.map(|ns| Value::Time(Time::from_nanos(ns)))),
        ("ack_every", spec.ack_eliciting_threshold.map(|packets| Value::Count(packets.saturating_add(1)))),
        ("receive_window", spec.receive_window.map(|bytes| Value::Bytes(Bytes(bytes)))),
        ("stream_receive_window", spec.stream_receive_window.map(|bytes| Value::Bytes(Bytes(bytes)))),
        ("max_streams", Some(Value::Count(spec.max_streams.into()))),
        ("gso", Some(Value::Count(spec.gso.into()))),
    ];
    let given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let params = Params::resolve(Settings::DECLARED, given).map_err(|error| refused(error.to_string()))?;
    let told = Settings::from(&params);
    let (zero_rtt, retry) = (spec.zero_rtt, spec.retry);
    let Settings { certificate, datagram_buffer, idle_timeout, .. } = told;
    let Settings { receive_window, stream_receive_window, max_streams, gso, .. } = told;
    settings = Settings { zero_rtt, retry, certificate, datagram_buffer, idle_timeout, ..settings };
    settings = Settings { receive_window, stream_receive_window, max_streams, gso, ..settings };
    if spec.preset.is_none() || spec.max_mtu.is_some() {
        settings.datagram = spec.max_mtu.unwrap_or(QuicSpec::USUAL_MTU).into();
    }
    // A key that is given replaces all of the preset's rules about it.
    if spec.initial_window.is_some() {
        (settings.initial_window, settings.initial_bytes) = (told.initial_window, NO_LIMIT);
    }
    if spec.initial_rtt.is_some() {
        settings.initial_rtt = told.initial_rtt;
    }
    if spec.packet_threshold.is_some() {
        settings.packet_threshold = told.packet_threshold;
        (settings.packet_threshold_most, settings.flight_threshold_most) = (0, 0);
    }
    if spec.max_ack_delay.is_some() {
        settings.max_ack_delay = told.max_ack_delay;
        settings.ack_delay_rtt = 0.0;
    }
    if spec.ack_eliciting_threshold.is_some() {
        settings.ack_every = told.ack_every;
        (settings.ack_every_later, settings.acks_per_rtt) = (0, 0);
    }
    settings.pacing = spec.pacing.unwrap_or(settings.pacing);
    Config::new(&settings).map_err(|conflict| refused(conflict.to_string()))
}

/// The settings of a stack.
fn preset(of: QuicPreset) -> Settings {
    let name = match of {
        QuicPreset::Quinn => "quinn",
        QuicPreset::Quiche => "quiche",
        QuicPreset::Neqo => "neqo",
        QuicPreset::Picoquic => "picoquic",
        QuicPreset::Msquic => "msquic",
        QuicPreset::Ngtcp2 => "ngtcp2",
        QuicPreset::Chromium => "chromium",
    };
    (preset::find(name).expect("there is one of each").settings)()
}

/// True if these endpoints are those of flows over QUIC under `algorithm`; a stack's controller is in its own.
pub(in crate::simulation) fn serve(algorithm: &Algorithm) -> bool {
    let of_interface = matches!(algorithm.make, Some(OwnMake::Quinn(_)));
    !of_interface && super::quic::find(algorithm.entry.name).is_none()
}

/// Checks that the connections of a flow can have as many requests at once as its traffic asks for.
///
/// # Errors
/// If these endpoints are not its (`own`) and it asks for several, or for more streams than the server lets it open.
pub(in crate::simulation) fn check_streams(flow: &FlowSpec, own: bool, spec: &QuicSpec) -> Result<(), SpecError> {
    let found = flow.traffic.as_ref().map_or(1, TrafficSpec::streams);
    let (most, why) = match (flow.transport, own) {
        (Transport::Tcp, _) => (1, "TCP has one stream"),
        (Transport::Quic, false) => (1, "the stack of its controller has one stream here"),
        (Transport::Quic, true) => (u64::from(spec.max_streams).max(1), "`max_streams` of `quic` limits them"),
    };
    if found > most { Err(SpecError::Streams { flow: flow.label.clone(), found, why, most }) } else { Ok(()) }
}

impl QuicEnds {
    /// A flow that has `bytes` to send, or no end, before it begins at `start`.
    pub(in crate::simulation) fn new(init: &SenderInit, config: &Config, start: Time) -> Self {
        let sender = Sender::new(init, config);
        Self {
            receiver_ect: ect(sender.mark()),
            sender,
            receiver: Receiver::default(),
            back: None,
            client_end: End::Sender,
            client: Client::default(),
            server: Server::default(),
            established: false,
            back_established: false,
            open: [false; 2],
            rare_due: [Time::MAX; 2],
            early_end: 0,
            owes_ack: false,
            closed: [false; 2],
            idle: [Idle::OFF; 2],
            received: Received::default(),
            acks: (0, 0),
            came: Vec::new(),
            missing: Vec::new(),
            cwnd_integral: (0, start, 0),
            log: None,
        }
    }

    /// The sender of an end.
    #[inline]
    fn tx(&mut self, end: End) -> Option<&mut Sender> {
        match end {
            End::Sender => Some(&mut self.sender),
            End::Receiver => self.back.as_deref_mut().map(|back| &mut back.sender),
        }
    }

    /// The receiver of an end.
    #[inline]
    fn rx(&mut self, end: End) -> Option<&mut Receiver> {
        match end {
            End::Sender => self.back.as_deref_mut().map(|back| &mut back.receiver),
            End::Receiver => Some(&mut self.receiver),
        }
    }

    /// True once data may leave an end.
    const fn is_established(&self, end: End) -> bool {
        match end {
            End::Sender => self.established,
            End::Receiver => self.back_established,
        }
    }

    /// Packets that left the sender's end, but for those of the handshake.
    pub(in crate::simulation) const fn sent(&self) -> u64 {
        self.sender.view().snd_nxt + self.acks.0
    }

    /// Packets that came to the receiver's end.
    pub(in crate::simulation) const fn received(&self) -> &Received {
        &self.received
    }

    /// No new data from now on.
    pub(in crate::simulation) fn stop(&mut self) {
        self.sender.stop();
    }

    /// When the timer of the handshake at an end is due.
    fn handshake_due(&self, end: End) -> Time {
        if end == self.client_end { self.client.timer.not_before() } else { self.server.timer.not_before() }
    }

    /// The timers of the handshake or of idle time may have changed.
    fn note_rare_timers(&mut self) {
        for end in [End::Sender, End::Receiver] {
            self.rare_due[end as usize] = self.handshake_due(end).min(self.idle[end as usize].due);
        }
    }

    /// When a timer is due; `Time::MAX`: it is not set. Each end has two, under the names of TCP's ([`End::timers`]).
    /// The first is for loss detection, delayed ACKs, the handshake and idle time; the second for the pacer at the
    /// sender's end, and for all timers of [`Back`]'s sender at the receiver's.
    pub(super) fn not_before(&self, timer: EndTimer) -> Time {
        let end = End::with(timer) as usize;
        if self.closed[end] {
            return Time::MAX;
        }
        let back = self.back.as_deref();
        match timer {
            EndTimer::Retransmit => {
                let delayed = back.map_or(Time::MAX, |back| back.receiver.delayed.not_before());
                self.sender.timer.not_before().min(self.rare_due[end]).min(delayed)
            }
            EndTimer::Pace => self.sender.pacer.due,
            EndTimer::DelayedAck => self.receiver.delayed.not_before().min(self.rare_due[end]),
            EndTimer::CompressedSack => back.map_or(Time::MAX, |back| back.sender.due()),
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
                sent: self.sent(),
                sent_bytes: totals.sent_bytes + headers * view.snd_nxt + self.acks.1,
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
                pacing_rate_bps: self
                    .sender
                    .paces()
                    .then(|| self.sender.pacing_rate(config))
                    .filter(|rate| *rate < Rate::MAX)
                    .map(Rate::as_bps),
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

/// The mark with which a packet with these flags arrives.
const fn mark(flags: u8) -> Mark {
    match (flags & Packet::CE != 0, flags & Packet::ECT != 0, flags & Packet::L4S != 0) {
        (true, ..) => Mark::Ce,
        (false, true, false) => Mark::Ect0,
        (false, true, true) => Mark::Ect1,
        (false, false, _) => Mark::NotEct,
    }
}
