//! Downloads that others have published times of, by unmodified quinn and noq over knee's networks:
//!
//! ```text
//! cargo run --release -p knee-test --features noq,quinn --example published
//! ```

#![allow(clippy::unwrap_used, reason = "an example ends where it fails")]

use knee_quinn::tls::{CONFIGS, NAME};
use knee_test::{Net, Port};
use std::sync::Arc;

/// A download, and what is printed of it.
struct Case {
    name: &'static str,
    bytes: u64,
    scenario: &'static str,
    printed: &'static str,
}

const CASES: [Case; 3] = [
    // github.com/private-octopus/c4, sim_specs/cubic_alone.txt; github.com/private-octopus/picoquic, pull request 2140.
    // Jitter is uniform here.
    Case {
        name: "picoquic alone",
        bytes: 10_000_000,
        scenario: r#"
            [link]
            rate = "20 Mbit/s"
            limit = "80 ms"
            delay = "40 ms"
            jitter = "2 ms"
            overhead = "0 B"
            [[flows]]
            rtt = "80 ms"
        "#,
        printed: "cubic 4.48 s, bbr 4.69 s",
    },
    // sim_specs/cubic_alone_200.txt.
    Case {
        name: "picoquic alone_200",
        bytes: 20_000_000,
        scenario: r#"
            [link]
            rate = "200 Mbit/s"
            limit = "80 ms"
            delay = "20 ms"
            overhead = "0 B"
            [[flows]]
            rtt = "40 ms"
        "#,
        printed: "cubic 1.15 s, bbr 1.22 s",
    },
    // github.com/n0-computer/noq, issue 819: latency, jitter and size. The rate is not said.
    Case {
        name: "noq #819 at 100 Mbit/s",
        bytes: 100_000_000,
        scenario: r#"
            [link]
            rate = "100 Mbit/s"
            limit = "1000 packets"
            delay = "10 ms"
            jitter = "5 ms"
            reorder = true
            [[flows]]
            rtt = "20 ms"
        "#,
        printed: "bbr3 slower than cubic",
    },
];

/// The function `$name`, which downloads by a stack and gives the time until the client has all, s.
macro_rules! download {
    ($name:ident, $stack:ident, $endpoint:ident, $($tls:ident)::+) => {
        async fn $name(case: &Case, control: Arc<dyn $stack::congestion::ControllerFactory + Send + Sync>) -> f64 {
            use $($tls)::+::{QuicClientConfig, QuicServerConfig};
            let lab = Net::from_toml(case.scenario).unwrap().lab().unwrap();
            let (tls, mut transport) = (CONFIGS.clone(), $stack::TransportConfig::default());
            transport.congestion_controller_factory(control);
            let mut config = $stack::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls.server).unwrap()));
            config.transport_config(Arc::new(transport));
            // Data takes the way of a flow's.
            let server = lab.$endpoint(Port::near(0), Some(config)).unwrap();
            #[allow(unused_mut, reason = "quinn's takes it")]
            let mut client = lab.$endpoint(Port::far(0), None).unwrap();
            let crypto = QuicClientConfig::try_from(tls.client).unwrap();
            client.set_default_client_config($stack::ClientConfig::new(Arc::new(crypto)));
            let bytes = case.bytes;
            lab.spawn(async move {
                let connection = server.accept().await.unwrap().await.unwrap();
                let (mut answer, mut request) = connection.accept_bi().await.unwrap();
                request.read_to_end(100).await.unwrap();
                let part = [7; 1 << 14];
                let mut left = bytes;
                while left > 0 {
                    let size = left.min(part.len() as u64);
                    answer.write_all(&part[..usize::try_from(size).unwrap()]).await.unwrap();
                    left -= size;
                }
                answer.finish().unwrap();
                connection.closed().await;
            });
            let took = lab.run(async {
                let connection = client.connect(Net::address(Port::near(0)).into(), NAME).unwrap().await.unwrap();
                let (mut request, mut answer) = connection.open_bi().await.unwrap();
                request.write_all(b"GET").await.unwrap();
                request.finish().unwrap();
                let (mut left, mut buffer) = (bytes, vec![0; 1 << 16]);
                while let Some(read) = answer.read(&mut buffer).await.unwrap() {
                    left -= read as u64;
                }
                assert_eq!(left, 0);
                lab.now().as_secs_f64()
            });
            took.await.unwrap()
        }
    };
}

download!(by_quinn, quinn, endpoint, knee_quinn::proto::crypto::rustls);
download!(by_noq, noq, noq_endpoint, noq_proto::crypto::rustls);

fn main() {
    println!("{:24} {:>12} {:>12} {:>12} {:>12}  printed", "s", "quinn cubic", "quinn bbr", "noq cubic", "noq bbr3");
    for case in &CASES {
        // A clock of its own for each.
        let run = |column: usize| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.unwrap().block_on(async {
                match column {
                    0 => by_quinn(case, Arc::new(quinn::congestion::CubicConfig::default())).await,
                    1 => by_quinn(case, Arc::new(quinn::congestion::BbrConfig::default())).await,
                    2 => by_noq(case, Arc::new(noq::congestion::CubicConfig::default())).await,
                    _ => by_noq(case, Arc::new(noq::congestion::Bbr3Config::default())).await,
                }
            })
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(run);
        println!("{:24} {a:12.3} {b:12.3} {c:12.3} {d:12.3}  {}", case.name, case.printed);
    }
}
