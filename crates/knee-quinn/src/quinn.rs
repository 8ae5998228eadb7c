//! quinn's connections: quinn-proto's state machine as it is, under a controller of its interface.

use crate::connection::{Connection, Datagram, REMOTE, Settings, Stack, Stats};
use crate::plain::Plain;
use crate::tls::TLS;
use bytes::Bytes;
use knee_core::Time;
use knee_core::convert::saturating_u64;
use knee_qlog::Log;
use quinn_proto::EcnCodepoint;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use std::sync::Arc;
use std::time::Instant;

crate::end!(quinn_proto);

/// Connections of quinn's under the controllers that a factory makes: a [`crate::Control`], or any other of quinn's
/// interface, such as its own.
pub struct Quinn(pub Arc<dyn ControllerFactory + Send + Sync>);

impl Stack for Quinn {
    fn connect(&self, settings: &Settings, now: Time) -> Box<dyn Connection> {
        Box::new(End::connect(self.0.clone(), settings, now))
    }

    fn listen(&self, settings: &Settings) -> Box<dyn Connection> {
        Box::new(End::listen(self.0.clone(), settings))
    }
}

/// quinn's answers where the stacks differ.
struct Differs;

impl Differs {
    fn client_tls() -> Arc<QuicClientConfig> {
        TLS.client.clone()
    }

    fn server_tls() -> Arc<QuicServerConfig> {
        TLS.server.clone()
    }

    fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(config, server, true, None)
    }

    fn number_ids(config: &mut EndpointConfig, seed: u64) {
        config.cid_generator(move || Box::new(CountedIds::new(seed, "connection")));
    }

    fn set_log(config: &mut TransportConfig, settings: &Settings) {
        config.qlog_stream(settings.log.as_ref().and_then(Log::quinn));
    }

    fn receive(
        endpoint: &mut Endpoint,
        at: Instant,
        datagram: Datagram,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(at, REMOTE, None, datagram.ecn, datagram.bytes, answer)
    }

    fn transmit(machine: &mut Machine, at: Instant, buffer: &mut Vec<u8>) -> Option<(usize, Option<EcnCodepoint>)> {
        machine.poll_transmit(at, 1, buffer).map(|sent| (sent.size, sent.ecn))
    }

    fn write(mut stream: SendStream<'_>, data: Bytes) -> Option<usize> {
        stream.write_chunks(&mut [data]).ok().map(|written| written.bytes)
    }

    fn window(machine: &Machine) -> u64 {
        machine.congestion_state().window()
    }

    fn pacing_rate(machine: &Machine) -> Option<u64> {
        machine.congestion_state().metrics().pacing_rate
    }

    #[expect(clippy::unnecessary_wraps, reason = "another stack may have none")]
    fn stats(machine: &mut Machine) -> Option<Stats> {
        let path = machine.stats().path;
        let srtt = Time::from_nanos(saturating_u64(machine.rtt().as_nanos()));
        Some(Stats { lost_packets: path.lost_packets, mtu: path.current_mtu, srtt })
    }
}
