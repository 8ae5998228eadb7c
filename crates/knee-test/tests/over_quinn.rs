//! Unmodified quinn over a network, in virtual time.

use knee_core::Time;
use knee_net::spec::{EcnSpec, FlowSpec, QuicSpec, Spec, TcpSpec, Transport};
use knee_quic::proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use knee_quic::tls::{CONFIGS, NAME};
use knee_sim::Simulation;
use knee_test::{Error, Lab, Net, Port};
use quinn::{ClientConfig, ServerConfig};
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "
    [link]
    rate = \"20 Mbit/s\"
    limit = \"100 packets\"

    [[flows]]
    rtt = \"40 ms\"
";
const SECONDS: u64 = 10;

fn configs() -> (ClientConfig, ServerConfig) {
    let configs = CONFIGS.clone();
    let client = QuicClientConfig::try_from(configs.client).expect("TLS 1.3");
    let server = QuicServerConfig::try_from(configs.server).expect("TLS 1.3");
    (ClientConfig::new(Arc::new(client)), ServerConfig::with_crypto(Arc::new(server)))
}

/// Sends for a time from the near end to the far one; gives the bytes that came.
async fn upload(lab: &Lab, time: Duration) -> Result<u64, Error> {
    let (client_config, server_config) = configs();
    let (client, server) = lab.quinn(client_config, server_config)?;
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

/// Goodput in the simulator, with quinn's connections but without its sockets and tasks, bit/s.
fn in_the_simulator() -> f64 {
    let scenario = knee_scenario::read(PATH, "the path").expect("a scenario");
    let end = SECONDS * 1_000_000_000;
    let flow = FlowSpec {
        label: "flow 1".into(),
        cc: "quinn:cubic".into(),
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

#[tokio::test(start_paused = true)]
async fn an_upload_has_the_goodput_of_the_simulators_flow() {
    let simulated = in_the_simulator();
    let lab = Net::from_toml(PATH).expect("a network").lab().expect("a paused clock");
    let bytes = upload(&lab, Duration::from_secs(SECONDS)).await.expect("a run");
    let goodput = bytes as f64 * 8.0 / SECONDS as f64;
    assert!((goodput / simulated - 1.0).abs() < 0.03, "{goodput} bit/s, {simulated} in the simulator");
    assert!(lab.net().link("bottleneck").expect("a link").queueing().p95() > Time::from_millis(10));
}

/// Packets of an upload of three seconds on a clock of its own: their times and lengths. Keys, and with them the bytes,
/// are random.
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

#[tokio::test]
async fn a_clock_that_runs_is_refused() {
    let error = Net::from_toml(PATH).expect("a network").lab().expect_err("it is refused").to_string();
    assert!(error.contains("start_paused"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn timers_of_tokio_and_packets_share_a_clock() {
    let lab = Net::from_toml(PATH).expect("a network").lab().expect("a paused clock");
    let times = lab.run(async {
        tokio::time::sleep(Duration::from_millis(7)).await;
        let before = lab.now();
        lab.net().send(before, Port::near(0), &[0; 1_000], knee_test::Ecn::NotEct).expect("it is sent");
        tokio::time::sleep(Duration::from_millis(3)).await;
        (before, lab.now())
    });
    let (before, after) = times.await.expect("a run");
    assert_eq!(before, Time::from_millis(7));
    assert!((Time::from_millis(10)..=Time::from_millis(12)).contains(&after), "{after}");
    // The packet came out at its time, and not at that of a timer.
    assert_eq!(lab.net().link("bottleneck").expect("a link").bytes(), 1_042);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_waits_for_nothing_is_told_so() {
    let lab = Net::from_toml(PATH).expect("a network").lab().expect("a paused clock");
    let error = lab.run(std::future::pending::<()>()).await.expect_err("it stalls").to_string();
    assert!(error.starts_with("the program waits since 0 s, and for a day nothing is due"), "{error}");
}
