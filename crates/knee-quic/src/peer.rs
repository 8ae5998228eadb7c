//! One end of a QUIC connection in virtual time: quinn's protocol state machine, whose datagrams, clock, random numbers
//! and identifiers come from outside.
//!
//! A datagram's way: [`Peer::transmit`] gives those that may leave now; the network hands them to the other end's
//! [`Peer::receive`]; what the clock owes the connection happens in [`Peer::fire`] at [`Peer::deadline`]. After each of
//! them `transmit` is called until it gives nothing.

use crate::acks::acked_ranges;
use crate::plain::Plain;
use crate::tls::{self, TLS};
use bytes::{Bytes, BytesMut};
use knee_core::{Rng, Time};
use knee_qlog::Log;
use quinn_proto::congestion::ControllerFactory;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent,
    Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, TransportConfig,
    ValidationTokenConfig, VarInt, crypto,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use thiserror::Error;

/// What all connections write: zeros. quinn looks for what to send chunk by chunk, so they are large.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
/// Of data written and not acknowledged, a stream holds four windows, but this at least, bytes: a window is sent behind
/// a hole until what fills it is acknowledged, and more where that is lost too.
const LEAST_BUFFER: u64 = 1 << 20;
/// It is written in so many chunks: each counts until the last byte of it is acknowledged.
const CHUNKS: u64 = 16;
/// QUIC's clock is an instant that cannot be made from a number: time zero of all simulations.
#[allow(clippy::disallowed_methods, reason = "only differences to it are used")]
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Bytes of connection identifiers, as quinn's own generator makes them.
const CID_BYTES: usize = 8;

/// Settings of a connection's end.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of stream data that may be under way to this end before it is read.
    pub receive_window: u64,
    /// Names the random numbers and identifiers of this end.
    pub seed: u64,
    /// Whether packets are encrypted: both ends alike. What is encrypted differs from run to run; its size does not.
    pub tls: bool,
    /// What a paced end that is called late makes up for by a burst, at the most. Zero where calls are never late.
    pub pacing_credit: Time,
    /// Where what this end does is logged.
    pub log: Option<Log>,
}

/// Why a connection ended.
#[derive(Clone, Debug, Error)]
#[error("the QUIC connection ended: {0}")]
pub struct Ended(#[from] ConnectionError);

/// A datagram that leaves.
#[derive(Debug)]
pub struct Datagram {
    /// UDP payload.
    pub bytes: BytesMut,
    /// ECN codepoint of its IP header: ECT(0), ECT(1) or CE; none: not ECN-capable.
    pub ecn: Option<EcnCodepoint>,
}

/// One end of a connection.
pub struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    /// Bytes still to be written; `None`: without end.
    to_write: Option<u64>,
    /// Bytes of stream data that came, in any order.
    received: u64,
    /// What a datagram is written into.
    scratch: Vec<u8>,
    /// Datagrams that are not the connection's own: answers of the endpoint.
    answers: Vec<BytesMut>,
    connected: bool,
    finished: bool,
    ended: Option<Ended>,
    /// When the algorithm's own pacing rate lets the next datagram go.
    next_departure: Time,
    pacing_credit: Time,
    log: Option<Log>,
    tls: bool,
}

impl Peer {
    /// The end that connects at `now` and sends `bytes` (`None`: without end), controlled by a [`crate::Control`], or any
    /// other controller of quinn's interface, such as its own.
    #[expect(clippy::missing_panics_doc, reason = "the name and the address are constants")]
    pub fn connect(
        control: Arc<dyn ControllerFactory + Send + Sync>,
        bytes: Option<u64>,
        settings: &Settings,
        now: Time,
    ) -> Self {
        let mut endpoint = Endpoint::new(endpoint_config(settings), None, true, None);
        let crypto: Arc<dyn crypto::ClientConfig> = if settings.tls { TLS.client.clone() } else { Arc::new(Plain) };
        let mut config = ClientConfig::new(crypto);
        config.transport_config(transport(settings, Some(control)));
        let mut cids = CountedIds::new(settings.seed, "initial");
        let initial = cids.generate_cid();
        config.initial_dst_cid_provider(Arc::new(move || initial));
        let connection = endpoint
            .connect(instant(now), config, REMOTE, tls::NAME)
            .expect("the name and address of the other end are valid");
        let mut peer = Self::new(endpoint, bytes, settings);
        peer.connection = Some(connection);
        peer
    }

    /// The end that waits for a connection and reads what it is sent.
    pub fn receiver(settings: &Settings) -> Self {
        let crypto: Arc<dyn crypto::ServerConfig> = if settings.tls { TLS.server.clone() } else { Arc::new(Plain) };
        let mut config = ServerConfig::new(crypto, Arc::new(Plain));
        config.transport_config(transport(settings, None));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config.validation_token_config(tokens);
        Self::new(Endpoint::new(endpoint_config(settings), Some(Arc::new(config)), true, None), Some(0), settings)
    }

    fn new(endpoint: Endpoint, to_write: Option<u64>, settings: &Settings) -> Self {
        Self {
            endpoint,
            connection: None,
            stream: None,
            to_write,
            received: 0,
            scratch: Vec::with_capacity(2048),
            answers: Vec::new(),
            connected: false,
            finished: false,
            ended: None,
            next_departure: Time::ZERO,
            pacing_credit: settings.pacing_credit,
            log: settings.log.clone(),
            tls: settings.tls,
        }
    }

    /// A datagram of the other end has come.
    pub fn receive(&mut self, now: Time, datagram: Datagram) {
        self.set_log_time(now);
        if let Some(log) = self.log.as_ref().filter(|_| !self.tls) {
            log.set_acked(acked_ranges(&datagram.bytes, CID_BYTES));
        }
        let mut answer = Vec::new();
        let event = self.endpoint.handle(instant(now), REMOTE, None, datagram.ecn, datagram.bytes, &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                if let Ok(accepted) = self.endpoint.accept(incoming, instant(now), &mut answer, None) {
                    self.connection = Some(accepted);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.answers.push(answer[..transmit.size].into()),
            None => {}
        }
        self.take_events();
    }

    /// The next datagram that may leave now.
    pub fn transmit(&mut self, now: Time) -> Option<Datagram> {
        self.set_log_time(now);
        if let Some(bytes) = self.answers.pop() {
            return Some(Datagram { bytes, ecn: None });
        }
        self.write();
        if now < self.next_departure {
            return None;
        }
        let (_, connection) = self.connection.as_mut()?;
        self.scratch.clear();
        let transmit = connection.poll_transmit(instant(now), 1, &mut self.scratch);
        let datagram = transmit.map(|sent| Datagram { bytes: self.scratch[..sent.size].into(), ecn: sent.ecn });
        if let Some(datagram) = &datagram
            && let Some(bits_per_s) = connection.congestion_state().metrics().pacing_rate
        {
            let ns = datagram.bytes.len() as u128 * 8_000_000_000 / u128::from(bits_per_s.max(1));
            let from = self.next_departure.max(now.saturating_sub(self.pacing_credit));
            self.next_departure = from.saturating_add(Time::from_nanos(ns.min(1_000_000_000) as u64));
        }
        self.take_events();
        datagram
    }

    /// When [`Peer::fire`] is due; `None`: nothing will happen by itself.
    pub fn deadline(&mut self, now: Time) -> Option<Time> {
        let timer = self.connection.as_mut()?.1.poll_timeout().map(time);
        let paced = (now < self.next_departure).then_some(self.next_departure);
        match (timer, paced) {
            (Some(timer), Some(paced)) => Some(timer.min(paced)),
            (timer, paced) => timer.or(paced),
        }
    }

    /// What is due at `now` happens.
    pub fn fire(&mut self, now: Time) {
        self.set_log_time(now);
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|due| due <= instant(now))
        {
            connection.handle_timeout(instant(now));
            self.take_events();
        }
    }

    /// The application stops: nothing is sent from now on, nor sent again.
    pub fn stop(&mut self) {
        self.to_write = Some(0);
        if let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream) {
            // It may be finished.
            let _ = connection.send_stream(id).reset(VarInt::from_u32(0));
        }
    }

    /// Bytes of stream data that came.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Whether the handshake is over.
    pub const fn connected(&self) -> bool {
        self.connected
    }

    /// Whether all there was to send has been acknowledged.
    pub const fn finished(&self) -> bool {
        self.finished
    }

    /// Why the connection ended before it was finished.
    pub const fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// quinn's connection, for its figures.
    pub fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref().map(|(_, connection)| connection)
    }

    /// quinn's events are logged as of `now`.
    fn set_log_time(&self, now: Time) {
        if let Some(log) = &self.log {
            log.set_time(now);
        }
    }

    fn take_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => self.ended = Some(Ended(reason)),
                Event::Stream(StreamEvent::Opened { dir }) => self.stream = connection.streams().accept(dir),
                Event::Stream(StreamEvent::Finished { .. }) => self.finished = true,
                _ => {}
            }
        }
        if let Some(id) = self.stream
            && id.initiator() != connection.side()
        {
            self.received += read(connection, id);
        }
    }

    /// Writes as much as the stream takes.
    fn write(&mut self) {
        if !self.connected || self.to_write == Some(0) {
            return;
        }
        let Some((_, connection)) = &mut self.connection else { return };
        let buffer = connection.congestion_state().window().saturating_mul(4).max(LEAST_BUFFER);
        let chunk = (buffer / CHUNKS).min(ZEROS.len() as u64);
        connection.set_send_window(buffer);
        let Some(id) = self.stream.or_else(|| connection.streams().open(Dir::Uni)) else { return };
        self.stream = Some(id);
        loop {
            let size = self.to_write.map_or(chunk, |left| left.min(chunk)) as usize;
            let mut chunks = [Bytes::from_static(&ZEROS[..size])];
            let Ok(written) = connection.send_stream(id).write_chunks(&mut chunks) else { return };
            if let Some(left) = &mut self.to_write {
                *left -= written.bytes as u64;
                if *left == 0 {
                    // Nobody stops the stream, and it is finished once.
                    let _ = connection.send_stream(id).finish();
                    return;
                }
            }
        }
    }
}

/// Reads and forgets what came: how many bytes.
fn read(connection: &mut Connection, id: StreamId) -> u64 {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(false) else { return 0 };
    let mut bytes = 0;
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        bytes += chunk.bytes.len() as u64;
    }
    // Whether the window is to be announced: quinn does so when it next transmits.
    let _ = chunks.finalize();
    bytes
}

/// Where datagrams seem to come from and go to.
const REMOTE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);

fn instant(now: Time) -> Instant {
    *EPOCH + Duration::from_nanos(now.as_nanos())
}

fn time(at: Instant) -> Time {
    Time::from_nanos(at.saturating_duration_since(*EPOCH).as_nanos() as u64)
}

fn endpoint_config(settings: &Settings) -> Arc<EndpointConfig> {
    let seed = settings.seed;
    let mut config = EndpointConfig::new(Arc::new(Plain));
    let mut rng = Rng::stream(seed, "quic/endpoint");
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    config.rng_seed(Some(bytes)).cid_generator(move || Box::new(CountedIds::new(seed, "connection")));
    Arc::new(config)
}

fn transport(settings: &Settings, control: Option<Arc<dyn ControllerFactory + Send + Sync>>) -> Arc<TransportConfig> {
    let window = VarInt::from_u64(settings.receive_window).unwrap_or(VarInt::MAX);
    let mut config = TransportConfig::default();
    config.stream_receive_window(window).receive_window(window).send_window(LEAST_BUFFER);
    config.max_idle_timeout(None);
    config.qlog_stream(settings.log.as_ref().and_then(Log::quinn));
    if let Some(control) = control {
        config.congestion_controller_factory(control);
    }
    Arc::new(config)
}

/// Connection identifiers from a random stream of our own.
struct CountedIds(Rng);

impl CountedIds {
    fn new(seed: u64, name: &str) -> Self {
        Self(Rng::stream(seed, &format!("quic/{name}-ids")))
    }
}

impl ConnectionIdGenerator for CountedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_le_bytes())
    }

    fn cid_len(&self) -> usize {
        CID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
