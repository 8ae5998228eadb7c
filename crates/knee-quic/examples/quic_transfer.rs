//! Moves data over loopback through quinn, under any of knee's congestion controls.
//!
//! ```text
//! cargo run --release -p knee-quic --example quic_transfer -- lola 1000000000
//! cargo run --release -p knee-quic --example quic_transfer -- quinn 1000000000
//! ```
//!
//! `quinn` stands for quinn's default controller, its own CUBIC.

use knee_quic::Control;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::RootCertStore;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let cc = arguments.next().unwrap_or_else(|| "lola".into());
    let bytes: u64 = arguments.next().map_or(Ok(1_000_000_000), |text| text.parse())?;

    // These three lines put knee's algorithm into an existing quinn program.
    let mut transport = TransportConfig::default();
    if cc != "quinn" {
        transport.congestion_controller_factory(Arc::new(Control::named(&cc)?));
    }

    let signed = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let certificate = signed.cert.der().clone();
    let key = quinn::rustls::pki_types::PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let server_config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    let server = Endpoint::server(server_config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = server.local_addr()?;

    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let tls = quinn::rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let mut client = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    client.set_default_client_config(config);

    let receiving = tokio::spawn(receive(server));
    #[allow(clippy::disallowed_methods, reason = "this is no simulation")]
    let begin = Instant::now();
    let connection = client.connect(address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    let chunk = vec![0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let size = left.min(chunk.len() as u64) as usize;
        stream.write_all(&chunk[..size]).await?;
        left -= size as u64;
    }
    stream.finish()?;
    stream.stopped().await?;
    let seconds = begin.elapsed().as_secs_f64();
    let stats = connection.stats().path;
    connection.close(0u32.into(), b"done");
    let received = receiving.await?.map_err(|error| error.to_string())?;
    let mbps = received as f64 * 8.0 / seconds / 1e6;
    println!("{cc}: {received} bytes in {seconds:.3} s, {mbps:.0} Mbit/s, {} packets lost", stats.lost_packets);
    Ok(())
}

/// Reads one stream of one connection to its end: how many bytes came.
async fn receive(server: Endpoint) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let connection = server.accept().await.ok_or("the endpoint was closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, false).await? {
        received += chunk.bytes.len() as u64;
    }
    // The sender closes once it knows that all has come.
    connection.closed().await;
    Ok(received)
}
