//! Requests on streams of one connection: unmodified quinn beside knee's endpoints in the simulator.

use knee_core::Rng;
use knee_net::spec::{QuicSpec, Spec, TcpSpec};
use knee_quinn::tls::{CONFIGS, NAME};
use knee_sim::Simulation;
use knee_test::{Net, Port};
use knee_traffic::What;
use quinn::congestion::NewRenoConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use serde_json::json;
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// Bytes of a request.
const REQUEST: usize = 500;

/// Objects that are all asked for at once over a new connection.
#[derive(Clone, Copy, Debug)]
struct Page {
    mbit: u64,
    rtt_ms: u64,
    packets: u64,
    objects: u64,
    bytes: usize,
}

impl Page {
    fn scenario(&self) -> String {
        let Self { mbit, rtt_ms, packets, .. } = self;
        format!("[link]\nrate = \"{mbit} Mbit/s\"\nlimit = \"{packets} packets\"\n\n[[flows]]\nrtt = \"{rtt_ms} ms\"\n")
    }

    /// Time of the page in the simulator, ms.
    fn simulated(&self) -> f64 {
        let end = 60_000 * MS;
        let flow = json!({
            "label": "flow 1", "cc": "reno", "rtt": self.rtt_ms * MS, "start": 0, "stop": end, "path": [0],
            "transport": "quic",
            "traffic": {
                "kind": "requests", "pages": {"closed": [0, false]}, "request": REQUEST, "size": {"fixed": self.bytes},
                "objects": {"fixed": self.objects}, "connections": 1, "streams": self.objects, "together": true,
                "priority": [{"urgency": 3, "incremental": true}], "persistent": false, "tls": "none", "service": 0,
                "number": 1
            }
        });
        let spec = Spec {
            duration: end,
            seed: 1,
            warmup: 0,
            interval: 100 * MS,
            tcp: TcpSpec::default(),
            quic: QuicSpec::default(),
            links: knee_scenario::read(&self.scenario(), "the path").unwrap().links,
            flows: vec![serde_json::from_value(flow).unwrap()],
            changes: Vec::new(),
        };
        let (_, rows) = Simulation::new(&spec).unwrap().run().unwrap();
        let page = rows.completions.iter().find(|completion| completion.what == What::Page as u32).unwrap();
        (page.t_s - page.started_s) * 1e3
    }

    /// The same with quinn at both ends, on a clock of its own.
    fn over_quinn(&self) -> f64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let lab = Net::from_toml(&self.scenario()).unwrap().lab().unwrap();
            let (client_config, server_config) = configs();
            // Answers cross the link.
            let server = lab.endpoint(Port::near(0), Some(server_config)).unwrap();
            let mut client = lab.endpoint(Port::far(0), None).unwrap();
            client.set_default_client_config(client_config);
            lab.spawn(serve(server, self.bytes));
            lab.run(ask(client, self.objects)).await.unwrap();
            lab.now().as_secs_f64() * 1e3
        })
    }
}

/// Full packets from the start, and New Reno, which is the same at both.
fn configs() -> (ClientConfig, ServerConfig) {
    let mut transport = TransportConfig::default();
    let mut reno = NewRenoConfig::default();
    reno.initial_window(10 * 1452);
    transport.congestion_controller_factory(Arc::new(reno)).initial_mtu(1452).mtu_discovery_config(None);
    let (configs, transport) = (CONFIGS.clone(), Arc::new(transport));
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(configs.client).unwrap()));
    client.transport_config(transport.clone());
    let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(configs.server).unwrap()));
    server.transport_config(transport);
    (client, server)
}

/// Answers each request of a connection with `bytes`.
async fn serve(server: Endpoint, bytes: usize) {
    let connection = server.accept().await.unwrap().await.unwrap();
    while let Ok((mut answer, mut request)) = connection.accept_bi().await {
        request.read_to_end(REQUEST).await.unwrap();
        tokio::spawn(async move {
            answer.write_all(&vec![0; bytes]).await.unwrap();
            answer.finish().unwrap();
        });
    }
}

/// Asks for objects on a stream each, and waits for all.
async fn ask(client: Endpoint, objects: u64) {
    let connection = client.connect(Net::address(Port::near(0)).into(), NAME).unwrap().await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..objects {
        let (mut request, answer) = connection.open_bi().await.unwrap();
        request.write_all(&[0; REQUEST]).await.unwrap();
        request.finish().unwrap();
        answers.push(tokio::spawn(read(answer)));
    }
    for answer in answers {
        answer.await.unwrap();
    }
}

async fn read(mut answer: quinn::RecvStream) {
    while answer.read_chunk(usize::MAX, false).await.unwrap().is_some() {}
}

/// The page of docs/quic.md.
#[test]
fn a_page_of_71_streams_takes_the_time_that_it_takes_over_quinn() {
    let page = Page { mbit: 20, rtt_ms: 40, packets: 100, objects: 71, bytes: 37_000 };
    let (over_quinn, simulated) = (page.over_quinn(), page.simulated());
    println!("{over_quinn:.1} {simulated:.1} ms");
    assert!((simulated / over_quinn - 1.0).abs() < 0.01, "{simulated} ms, {over_quinn} over quinn");
}

/// As many packets are lost in both, to one or two. Three of twenty differ by more than 3 %, all of which lose some
/// hundred packets as slow start ends; why they differ is not known.
#[test]
fn pages_on_random_networks_take_the_time_that_they_take_over_quinn() {
    let ratios: Vec<f64> = (0..20)
        .map(|seed| {
            let rng = &mut Rng::stream(seed, "pages");
            let (mbit, rtt_ms) = (2 + rng.below(39), 10 + rng.below(141));
            let packets = 10 + mbit * rtt_ms / 12 * (7 + rng.below(24)) / 10;
            let (objects, bytes) = (2 + rng.below(90), 1_000 + rng.below(60_000) as usize);
            let page = Page { mbit, rtt_ms, packets, objects, bytes };
            let (over_quinn, simulated) = (page.over_quinn(), page.simulated());
            println!("{page:?}: {over_quinn:.1} {simulated:.1} ms");
            simulated / over_quinn
        })
        .collect();
    let within = |part: f64| ratios.iter().filter(|ratio| (*ratio - 1.0).abs() < part).count();
    assert!(within(0.03) >= 17 && within(0.08) == 20, "{ratios:?}");
}
