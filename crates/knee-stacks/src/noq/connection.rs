//! noq's connections: noq-proto's state machine as it is.

use crate::noq::plain::Plain;
use bytes::Bytes;
use knee_core::Time;
use knee_core::convert::saturating_u64;
use knee_quinn::connection::{REMOTE, Stats};
use knee_quinn::proto::EcnCodepoint;
use knee_quinn::{Datagram, Settings, tls};
use noq_proto::congestion::Controller;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{EcnCodepoint as NoqEcn, FourTuple, PathId};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

knee_quinn::end!(noq_proto);

/// TLS for all connections of this process.
static TLS: LazyLock<(Arc<QuicClientConfig>, Arc<QuicServerConfig>)> = LazyLock::new(|| {
    let tls::Configs { client, server } = tls::CONFIGS.clone();
    let wrong = "noq takes the TLS version that is chosen for it";
    (Arc::new(client.try_into().expect(wrong)), Arc::new(server.try_into().expect(wrong)))
});

/// noq's answers where the stacks differ. It calls a connection's only path zero.
struct Differs;

impl Differs {
    fn client_tls() -> Arc<QuicClientConfig> {
        TLS.0.clone()
    }

    fn server_tls() -> Arc<QuicServerConfig> {
        TLS.1.clone()
    }

    fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(config, server, true)
    }

    fn number_ids(config: &mut EndpointConfig, seed: u64) {
        config.cid_generator(Arc::new(move || Box::new(CountedIds::new(seed, "connection"))));
    }

    /// noq's own log is of another form.
    const fn set_log(_: &mut TransportConfig, _: &Settings) {}

    fn receive(
        endpoint: &mut Endpoint,
        at: Instant,
        datagram: Datagram,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        let ecn = datagram.ecn.and_then(|ecn| NoqEcn::from_bits(ecn as u8));
        endpoint.handle(at, FourTuple::from_remote(REMOTE), ecn, datagram.bytes, answer)
    }

    fn transmit(machine: &mut Machine, at: Instant, buffer: &mut Vec<u8>) -> Option<(usize, Option<EcnCodepoint>)> {
        let sent = machine.poll_transmit(at, NonZeroUsize::MIN, buffer)?;
        Some((sent.size, sent.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8))))
    }

    fn write(mut stream: SendStream<'_>, data: Bytes) -> Option<usize> {
        stream.write_chunks(&mut &mut [data][..]).ok()
    }

    fn window(machine: &Machine) -> u64 {
        machine.congestion_state(PathId::ZERO).map_or(0, Controller::window)
    }

    /// noq follows the rate by itself.
    const fn pacing_rate(_: &Machine) -> Option<u64> {
        None
    }

    fn stats(machine: &mut Machine) -> Option<Stats> {
        let path = machine.path_stats(PathId::ZERO)?;
        let srtt = Time::from_nanos(saturating_u64(path.rtt.as_nanos()));
        Some(Stats { lost_packets: path.lost_packets, mtu: path.current_mtu, srtt })
    }
}
