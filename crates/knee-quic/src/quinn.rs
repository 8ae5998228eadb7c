//! quinn's connections: quinn-proto's state machine as it is, under a controller of its interface.

use crate::connection::{
    Arrived, CID_BYTES, Connection, Datagram, Ended, REMOTE, Settings, Stack, Stats, Updates, instant, time,
};
use crate::peer::LEAST_BUFFER;
use crate::plain::Plain;
use crate::tls::{self, TLS};
use bytes::{Bytes, BytesMut};
use knee_core::convert::saturating_u64;
use knee_core::{Rng, Time};
use knee_qlog::Log;
use quinn_proto::congestion::ControllerFactory;
use quinn_proto::{
    ClientConfig, Connection as Machine, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, TransportConfig, ValidationTokenConfig,
    VarInt, crypto,
};
use std::sync::Arc;
use std::time::Duration;

/// Connections of quinn's under the controllers that a factory makes: a [`crate::Control`], or any other of quinn's
/// interface, such as its own.
pub struct Quinn(pub Arc<dyn ControllerFactory + Send + Sync>);

impl Stack for Quinn {
    fn connect(&self, settings: &Settings, now: Time) -> Box<dyn Connection> {
        let mut endpoint = Endpoint::new(endpoint_config(settings), None, true, None);
        let crypto: Arc<dyn crypto::ClientConfig> = if settings.tls { TLS.client.clone() } else { Arc::new(Plain) };
        let mut config = ClientConfig::new(crypto);
        let mut transport = transport(settings);
        transport.congestion_controller_factory(self.0.clone());
        config.transport_config(Arc::new(transport));
        let mut cids = CountedIds::new(settings.seed, "initial");
        let initial = cids.generate_cid();
        config.initial_dst_cid_provider(Arc::new(move || initial));
        let machine = endpoint
            .connect(instant(now), config, REMOTE, tls::NAME)
            .expect("the name and address of the other end are valid");
        Box::new(QuinnEnd::new(endpoint, Some(machine)))
    }

    fn listen(&self, settings: &Settings) -> Box<dyn Connection> {
        let crypto: Arc<dyn crypto::ServerConfig> = if settings.tls { TLS.server.clone() } else { Arc::new(Plain) };
        let mut config = ServerConfig::new(crypto, Arc::new(Plain));
        let mut transport = transport(settings);
        if settings.answers {
            transport.congestion_controller_factory(self.0.clone());
        }
        config.transport_config(Arc::new(transport));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config.validation_token_config(tokens);
        Box::new(QuinnEnd::new(Endpoint::new(endpoint_config(settings), Some(Arc::new(config)), true, None), None))
    }
}

/// One end of a connection.
struct QuinnEnd {
    endpoint: Endpoint,
    machine: Option<(ConnectionHandle, Machine)>,
    /// The stream that it writes, and the one that it reads.
    sends: Option<StreamId>,
    reads: Option<StreamId>,
    arrived: Arrived,
    /// Buffer for a datagram.
    scratch: Vec<u8>,
    /// Datagrams that are not the connection's own: answers of the endpoint.
    answers: Vec<BytesMut>,
}

impl QuinnEnd {
    fn new(endpoint: Endpoint, machine: Option<(ConnectionHandle, Machine)>) -> Self {
        let (scratch, answers) = (Vec::with_capacity(2048), Vec::new());
        Self { endpoint, machine, sends: None, reads: None, arrived: Arrived::default(), scratch, answers }
    }
}

impl Connection for QuinnEnd {
    fn receive(&mut self, now: Time, datagram: Datagram) {
        let mut answer = Vec::new();
        let event = self.endpoint.handle(instant(now), REMOTE, None, datagram.ecn, datagram.bytes, &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, machine)) = &mut self.machine {
                    machine.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.machine.is_none() => {
                if let Ok(accepted) = self.endpoint.accept(incoming, instant(now), &mut answer, None) {
                    self.machine = Some(accepted);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.answers.push(answer[..transmit.size].into()),
            None => {}
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Datagram> {
        if let Some(bytes) = self.answers.pop() {
            return Some(Datagram { bytes, ecn: None });
        }
        let (_, machine) = self.machine.as_mut()?;
        self.scratch.clear();
        let sent = machine.poll_transmit(instant(now), 1, &mut self.scratch)?;
        Some(Datagram { bytes: self.scratch[..sent.size].into(), ecn: sent.ecn })
    }

    fn deadline(&mut self) -> Option<Time> {
        self.machine.as_mut()?.1.poll_timeout().map(time)
    }

    fn fire(&mut self, now: Time) {
        if let Some((_, machine)) = &mut self.machine {
            machine.handle_timeout(instant(now));
        }
    }

    fn take_updates(&mut self) -> Updates {
        let mut updates = Updates::default();
        let Some((handle, machine)) = &mut self.machine else { return updates };
        while let Some(event) = machine.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                machine.handle_event(event);
            }
        }
        while let Some(event) = machine.poll() {
            match event {
                Event::Connected => updates.connected = true,
                Event::ConnectionLost { reason } => updates.ended = Some(Ended(reason.to_string())),
                Event::Stream(StreamEvent::Opened { dir }) => self.reads = machine.streams().accept(dir),
                Event::Stream(StreamEvent::Writable { .. }) => updates.writable = true,
                Event::Stream(StreamEvent::Finished { .. }) => updates.finished = true,
                _ => {}
            }
        }
        if let Some(id) = self.reads {
            updates.received = read(machine, id, &mut self.arrived);
        }
        updates.datagrams = std::iter::from_fn(|| machine.datagrams().recv()).collect();
        updates.in_order = self.arrived.in_order();
        updates
    }

    fn write(&mut self, data: Bytes, buffer: u64) -> Option<usize> {
        let (_, machine) = self.machine.as_mut()?;
        let whole = data.len() as u64;
        machine.set_send_window(buffer);
        let id = self.sends.or_else(|| machine.streams().open(Dir::Uni))?;
        self.sends = Some(id);
        let written = machine.send_stream(id).write_chunks(&mut [data]).ok().map(|written| written.bytes);
        if written.is_none() {
            // The stream is writable again once all of `data` fits.
            machine.set_send_window((buffer + 1).saturating_sub(whole));
        }
        written
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        // The oldest ones are dropped where more than a megabyte wait.
        self.machine.as_mut().is_some_and(|(_, machine)| machine.datagrams().send(data, true).is_ok())
    }

    fn finish(&mut self) {
        if let (Some((_, machine)), Some(id)) = (&mut self.machine, self.sends) {
            // Nobody stops the stream, and it is finished once.
            let _ = machine.send_stream(id).finish();
        }
    }

    fn reset(&mut self) {
        if let (Some((_, machine)), Some(id)) = (&mut self.machine, self.sends) {
            // It may be finished.
            let _ = machine.send_stream(id).reset(VarInt::from_u32(0));
        }
    }

    fn window(&self) -> u64 {
        self.machine.as_ref().map_or(0, |(_, machine)| machine.congestion_state().window())
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.machine.as_ref()?.1.congestion_state().metrics().pacing_rate
    }

    fn stats(&mut self) -> Option<Stats> {
        let (_, machine) = self.machine.as_ref()?;
        let path = machine.stats().path;
        let srtt = Time::from_nanos(saturating_u64(machine.rtt().as_nanos()));
        Some(Stats { lost_packets: path.lost_packets, mtu: path.current_mtu, srtt })
    }
}

/// Reads and forgets what came: how many bytes.
fn read(machine: &mut Machine, id: StreamId, arrived: &mut Arrived) -> u64 {
    let mut stream = machine.recv_stream(id);
    let Ok(mut chunks) = stream.read(false) else { return 0 };
    let mut bytes = 0;
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        bytes += chunk.bytes.len() as u64;
        arrived.note(chunk.offset, chunk.bytes.len() as u64);
    }
    // Whether the window is to be announced: quinn does so when it next transmits.
    let _ = chunks.finalize();
    bytes
}

fn endpoint_config(settings: &Settings) -> Arc<EndpointConfig> {
    let seed = settings.seed;
    let mut config = EndpointConfig::new(Arc::new(Plain));
    config.rng_seed(Some(endpoint_seed(seed)));
    config.cid_generator(move || Box::new(CountedIds::new(seed, "connection")));
    Arc::new(config)
}

/// Seed of an end's random numbers.
pub fn endpoint_seed(seed: u64) -> [u8; 32] {
    let mut rng = Rng::stream(seed, "quic/endpoint");
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    bytes
}

fn transport(settings: &Settings) -> TransportConfig {
    let window = VarInt::from_u64(settings.receive_window).unwrap_or(VarInt::MAX);
    let mut config = TransportConfig::default();
    config.stream_receive_window(window).receive_window(window).send_window(LEAST_BUFFER);
    config.max_idle_timeout(None).initial_mtu(settings.mtu).min_mtu(settings.mtu);
    config.qlog_stream(settings.log.as_ref().and_then(Log::quinn));
    config
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
