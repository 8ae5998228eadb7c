//! noq's connections: noq-proto's state machine as it is.

use crate::noq::plain::Plain;
use bytes::{Bytes, BytesMut};
use knee_core::convert::saturating_u64;
use knee_core::{Rng, Time};
use knee_quic::connection::{Arrived, CID_BYTES, Connection, REMOTE, Stats, Updates, instant, time};
use knee_quic::proto::EcnCodepoint;
use knee_quic::{Datagram, Ended, LEAST_BUFFER, Settings, endpoint_seed, tls};
use noq_proto::congestion::ControllerFactory;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, Connection as Machine, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir,
    EcnCodepoint as NoqEcn, Endpoint, EndpointConfig, Event, FourTuple, PathId, ServerConfig, StreamEvent, StreamId,
    TransportConfig, ValidationTokenConfig, VarInt, crypto,
};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// TLS for all connections of this process.
static TLS: LazyLock<(Arc<QuicClientConfig>, Arc<QuicServerConfig>)> = LazyLock::new(|| {
    let tls::Configs { client, server } = tls::CONFIGS.clone();
    let wrong = "noq takes the TLS version that is chosen for it";
    (Arc::new(client.try_into().expect(wrong)), Arc::new(server.try_into().expect(wrong)))
});

/// One end of a connection.
pub struct End {
    endpoint: Endpoint,
    machine: Option<(ConnectionHandle, Machine)>,
    /// The stream that it writes, and the one that it reads.
    sends: Option<StreamId>,
    reads: Option<StreamId>,
    arrived: Arrived,
    /// What a datagram is written into.
    scratch: Vec<u8>,
    /// Datagrams that are not the connection's own: answers of the endpoint.
    answers: Vec<BytesMut>,
}

impl End {
    /// The end that connects, whose controller `factory` makes.
    pub fn connect(factory: Arc<dyn ControllerFactory + Send + Sync>, settings: &Settings, now: Time) -> Self {
        let mut endpoint = Endpoint::new(endpoint_config(settings), None, true);
        let crypto: Arc<dyn crypto::ClientConfig> = if settings.tls { TLS.0.clone() } else { Arc::new(Plain) };
        let mut config = ClientConfig::new(crypto);
        let mut transport = transport(settings);
        transport.congestion_controller_factory(factory);
        config.transport_config(Arc::new(transport));
        let initial = CountedIds::new(settings.seed, "initial").generate_cid();
        config.initial_dst_cid_provider(Arc::new(move || initial));
        let machine = endpoint
            .connect(instant(now), config, REMOTE, tls::NAME)
            .expect("the name and address of the other end are valid");
        Self::new(endpoint, Some(machine))
    }

    /// The end that waits for a connection. Where it sends more than ACKs, `factory` makes its controller.
    pub fn listen(factory: Arc<dyn ControllerFactory + Send + Sync>, settings: &Settings) -> Self {
        let crypto: Arc<dyn crypto::ServerConfig> = if settings.tls { TLS.1.clone() } else { Arc::new(Plain) };
        let mut config = ServerConfig::new(crypto, Arc::new(Plain));
        let mut transport = transport(settings);
        if settings.answers {
            transport.congestion_controller_factory(factory);
        }
        config.transport_config(Arc::new(transport));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config.validation_token_config(tokens);
        Self::new(Endpoint::new(endpoint_config(settings), Some(Arc::new(config)), true), None)
    }

    fn new(endpoint: Endpoint, machine: Option<(ConnectionHandle, Machine)>) -> Self {
        let (scratch, answers) = (Vec::with_capacity(2048), Vec::new());
        Self { endpoint, machine, sends: None, reads: None, arrived: Arrived::default(), scratch, answers }
    }
}

impl Connection for End {
    fn receive(&mut self, now: Time, datagram: Datagram) {
        let mut answer = Vec::new();
        let ecn = datagram.ecn.and_then(|ecn| NoqEcn::from_bits(ecn as u8));
        let path = FourTuple::from_remote(REMOTE);
        match self.endpoint.handle(instant(now), path, ecn, datagram.bytes, &mut answer) {
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
        let sent = machine.poll_transmit(instant(now), NonZeroUsize::MIN, &mut self.scratch)?;
        let ecn = sent.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        Some(Datagram { bytes: self.scratch[..sent.size].into(), ecn })
    }

    fn deadline(&mut self) -> Option<Time> {
        self.machine.as_ref()?.1.poll_timeout().map(time)
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
        let written = machine.send_stream(id).write_chunks(&mut &mut [data][..]).ok();
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
        let machine = self.machine.as_ref().map(|(_, machine)| machine);
        machine
            .and_then(|machine| machine.congestion_state(PathId::ZERO))
            .map_or(0, noq_proto::congestion::Controller::window)
    }

    /// noq follows the rate by itself.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    fn stats(&mut self) -> Option<Stats> {
        let path = self.machine.as_mut()?.1.path_stats(PathId::ZERO)?;
        let srtt = Time::from_nanos(saturating_u64(path.rtt.as_nanos()));
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
    // Whether the window is to be announced: noq does so when it next transmits.
    let _ = chunks.finalize();
    bytes
}

fn endpoint_config(settings: &Settings) -> Arc<EndpointConfig> {
    let seed = settings.seed;
    let mut config = EndpointConfig::new(Arc::new(Plain));
    config.rng_seed(Some(endpoint_seed(seed)));
    config.cid_generator(Arc::new(move || Box::new(CountedIds::new(seed, "connection"))));
    Arc::new(config)
}

fn transport(settings: &Settings) -> TransportConfig {
    let window = VarInt::from_u64(settings.receive_window).unwrap_or(VarInt::MAX);
    let mut config = TransportConfig::default();
    config.stream_receive_window(window).receive_window(window).send_window(LEAST_BUFFER);
    config.max_idle_timeout(None).initial_mtu(settings.mtu).min_mtu(settings.mtu);
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
