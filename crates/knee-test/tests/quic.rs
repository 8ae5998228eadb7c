//! Each QUIC stack, unmodified, over a network in virtual time.

use knee_net::spec::{EcnSpec, FlowSpec, QuicSpec, Spec, TcpSpec, Transport};
use knee_sim::Simulation;

pub const PATH: &str = "
    [link]
    rate = \"20 Mbit/s\"
    limit = \"100 packets\"

    [[flows]]
    rtt = \"40 ms\"
";
pub const SECONDS: u64 = 10;

/// Goodput in the simulator, with the stack's connections but without its sockets and tasks, bit/s.
pub fn in_the_simulator(cc: &str) -> f64 {
    let scenario = knee_scenario::read(PATH, "the path").expect("a scenario");
    let end = SECONDS * 1_000_000_000;
    let flow = FlowSpec {
        label: "flow 1".into(),
        cc: cc.into(),
        cc_params: None,
        policy: None,
        rtt: 40_000_000,
        start: 0,
        stop: end,
        bytes: None,
        path: vec![0],
        reverse: false,
        pacing: false,
        ecn: EcnSpec::On,
        transport: Transport::Quic,
        tls: true,
        traffic: None,
        receiver: None,
        tunnel: None,
        dscp: 0,
    };
    let spec = Spec {
        duration: end,
        seed: 1,
        warmup: 0,
        interval: 100_000_000,
        tcp: TcpSpec::default(),
        quic: QuicSpec::default(),
        links: scenario.links,
        flows: vec![flow],
        changes: Vec::new(),
    };
    let (output, _) = Simulation::new(&spec).expect("a specification").run().expect("no file is written");
    output.flows[0].goodput_mbps * 1e6
}

/// The tests of a stack, whose crate this is, with its configurations of TLS and the simulator's name of its algorithm.
macro_rules! over {
    ($stack:ident, $($tls:ident)::+, $cc:literal) => {
        use crate::quic::{PATH, SECONDS, in_the_simulator};
        use knee_core::Time;
        use knee_quinn::tls::{CONFIGS, NAME};
        use knee_test::{Error, Lab, Net, Port};
        use std::sync::Arc;
        use std::time::Duration;
        use $($tls)::+::{QuicClientConfig, QuicServerConfig};

        fn configs() -> ($stack::ClientConfig, $stack::ServerConfig) {
            let configs = CONFIGS.clone();
            let client = QuicClientConfig::try_from(configs.client).expect("TLS 1.3");
            let server = QuicServerConfig::try_from(configs.server).expect("TLS 1.3");
            ($stack::ClientConfig::new(Arc::new(client)), $stack::ServerConfig::with_crypto(Arc::new(server)))
        }

        /// Sends for a time from the near end to the far one; gives the bytes that came.
        async fn upload(lab: &Lab, time: Duration) -> Result<u64, Error> {
            let (client_config, server_config) = configs();
            let (client, server) = lab.$stack(client_config, server_config)?;
            let end = tokio::time::Instant::now() + time;
            let counted = lab.run(async {
                let receiving = async {
                    let connection = server.accept().await.expect("a client").await.expect("a handshake");
                    let mut stream = connection.accept_uni().await.expect("a stream");
                    let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
                    while let Ok(Ok(Some(read))) = tokio::time::timeout_at(end, stream.read(&mut buffer)).await {
                        bytes += read as u64;
                    }
                    bytes
                };
                let sending = async {
                    let address = Net::address(Port::far(0)).into();
                    let connection = client.connect(address, NAME).expect("an address").await.expect("a handshake");
                    let mut stream = connection.open_uni().await.expect("a stream");
                    while stream.write_all(&[7; 1 << 14]).await.is_ok() {}
                };
                tokio::select! {
                    biased;
                    bytes = receiving => bytes,
                    () = sending => panic!("the sender has ended"),
                }
            });
            counted.await
        }

        #[tokio::test(start_paused = true)]
        async fn an_upload_has_the_goodput_of_the_simulators_flow() {
            let simulated = in_the_simulator($cc);
            let lab = Net::from_toml(PATH).expect("a network").lab().expect("a paused clock");
            let bytes = upload(&lab, Duration::from_secs(SECONDS)).await.expect("a run");
            let goodput = bytes as f64 * 8.0 / SECONDS as f64;
            assert!((goodput / simulated - 1.0).abs() < 0.03, "{goodput} bit/s, {simulated} in the simulator");
            assert!(lab.net().link("bottleneck").expect("a link").queueing().p95() > Time::from_millis(10));
        }

        /// Packets of an upload of three seconds on a clock of its own: their times and lengths. Keys, and with them
        /// the bytes, are random.
        fn packets() -> Vec<u8> {
            const HEADERS: usize = 24;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.expect("a runtime").block_on(async {
                let net = Net::from_toml(PATH).expect("a network");
                let lab = net.lab().expect("a paused clock");
                lab.net().capture(HEADERS);
                upload(&lab, Duration::from_secs(3)).await.expect("a run");
                lab.net().pcap()
            })
        }

        #[test]
        fn a_program_sends_the_same_packets_at_the_same_times_in_each_run() {
            let (first, second) = (packets(), packets());
            assert!(first.len() > 4_000 * 40, "{}", first.len());
            assert!(first == second);
        }
    };
}
pub(crate) use over;
