//! Moves data through quinn as its authors ship it, on sockets and on tokio, under any of knee's congestion controls or
//! quinn's own.
//!
//! ```text
//! quic_transfer CC BYTES                            over loopback, in one process
//! quic_transfer serve ADDRESS CERTIFICATE           takes what comes, and leaves its certificate in a file
//! quic_transfer send ADDRESS CERTIFICATE CC stream BYTES SECONDS
//! quic_transfer send ADDRESS CERTIFICATE CC datagrams SIZE BITS_PER_S SECONDS
//! ```
//!
//! `CC` is one of knee's, or `quinn:cubic`, `quinn:reno` or `quinn:bbr`. The sender prints a line of JSON: seconds from
//! its start to the last ACK, bytes of the stream and datagrams that came, the time between the first and the last of
//! them, and packets sent and lost. `scripts/quic_reference.py` runs both ends behind `knee shell`.

use knee_quinn::Control;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address, file] => {
            let (server, certificate) = server(address.parse()?)?;
            std::fs::write(file, certificate)?;
            serve(server).await
        }
        ["send", address, file, cc, ref what @ ..] => {
            send(address.parse()?, std::fs::read(file)?.into(), cc, what).await
        }
        [cc, bytes] => {
            let (server, certificate) = server((Ipv4Addr::LOCALHOST, 0).into())?;
            let address = server.local_addr()?;
            tokio::spawn(serve(server));
            send(address, certificate, cc, &["stream", bytes, "3600"]).await
        }
        _ => Err("expected CC BYTES, serve or send; see the head of quic_transfer.rs".into()),
    }
}

#[allow(clippy::disallowed_methods, reason = "this is no simulation")]
fn now() -> Instant {
    Instant::now()
}

/// Both sides have the machine's clock.
#[allow(clippy::disallowed_methods, reason = "this is no simulation")]
fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// A server with a certificate of its own.
fn server(address: SocketAddr) -> Result<(Endpoint, CertificateDer<'static>), Failure> {
    let signed = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let certificate = signed.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    Ok((Endpoint::server(config, address)?, certificate))
}

async fn serve(server: Endpoint) -> Result<(), Failure> {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move { take(incoming.await?).await });
    }
    Ok(())
}

/// Bytes and times of arrivals at the server.
#[derive(Default)]
struct Came {
    first: Option<Instant>,
    last: Option<Instant>,
    bytes: u64,
    datagrams: u64,
    most_delay_ns: u64,
}

impl Came {
    fn note(&mut self, bytes: usize) {
        self.first.get_or_insert(now());
        self.last = Some(now());
        self.bytes += bytes as u64;
    }
}

/// Takes what comes, and answers with its figures once the sender opens a stream in both directions.
async fn take(connection: Connection) -> Result<(), Failure> {
    let mut came = Came::default();
    let mut stream = None;
    loop {
        tokio::select! {
            opened = connection.accept_uni() => stream = Some(opened?),
            chunk = async { match &mut stream {
                Some(stream) => quinn::RecvStream::read_chunk(stream, usize::MAX, false).await,
                None => std::future::pending().await,
            } } => match chunk? {
                Some(chunk) => came.note(chunk.bytes.len()),
                None => stream = None,
            },
            datagram = connection.read_datagram() => {
                let datagram = datagram?;
                came.note(datagram.len());
                came.datagrams += 1;
                let sent = datagram.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                came.most_delay_ns = came.most_delay_ns.max(wall_ns().saturating_sub(sent));
            }
            asked = connection.accept_bi() => {
                let (mut answer, _) = asked?;
                let span = came.first.zip(came.last).map_or(0.0, |(first, last)| (last - first).as_secs_f64());
                let Came { bytes, datagrams, most_delay_ns, .. } = came;
                let text = format!(
                    "\"bytes\": {bytes}, \"datagrams\": {datagrams}, \"span_s\": {span}, \"most_delay_ms\": {}",
                    most_delay_ns as f64 / 1e6
                );
                answer.write_all(text.as_bytes()).await?;
                answer.finish()?;
                connection.closed().await;
                return Ok(());
            }
        }
    }
}

/// The client: sends what the words say, and prints its figures.
async fn send(
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    cc: &str,
    what: &[&str],
) -> Result<(), Failure> {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match cc {
        "quinn:cubic" => Arc::new(CubicConfig::default()),
        "quinn:reno" => Arc::new(NewRenoConfig::default()),
        "quinn:bbr" => Arc::new(BbrConfig::default()),
        // This puts knee's algorithm into a program that uses quinn.
        _ => Arc::new(Control::named(cc)?),
    };
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(control);
    if what.first() == Some(&"datagrams") {
        // They have to fit before the path's MTU is found.
        transport.initial_mtu(1452);
    }
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let tls = quinn::rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    endpoint.set_default_client_config(config);

    let begin = now();
    let connection = endpoint.connect(address, "localhost")?.await?;
    match what {
        ["stream", bytes, seconds] => {
            let (left, until) = (bytes.parse()?, begin + Duration::from_secs_f64(seconds.parse()?));
            stream(&connection, left, until).await?;
        }
        ["datagrams", size, bits, seconds] => {
            let until = begin + Duration::from_secs_f64(seconds.parse()?);
            datagrams(&connection, size.parse()?, bits.parse()?, until).await?;
        }
        _ => return Err("expected stream BYTES SECONDS or datagrams SIZE BITS_PER_S SECONDS".into()),
    }
    let seconds = begin.elapsed().as_secs_f64();
    let path = connection.stats().path;
    let (mut ask, mut answer) = connection.open_bi().await?;
    ask.finish()?;
    let came = String::from_utf8(answer.read_to_end(1 << 12).await?)?;
    let (sent, lost, rtt_ms) = (path.sent_packets, path.lost_packets, path.rtt.as_secs_f64() * 1e3);
    println!("{{\"seconds\": {seconds}, {came}, \"sent\": {sent}, \"lost\": {lost}, \"rtt_ms\": {rtt_ms}}}");
    connection.close(0u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

/// Writes `left` bytes, until they are acknowledged or the time is over.
async fn stream(connection: &Connection, mut left: u64, until: Instant) -> Result<(), Failure> {
    let mut stream = connection.open_uni().await?;
    let chunk = vec![0; 1 << 16];
    let write = async {
        while left > 0 {
            let size = left.min(chunk.len() as u64) as usize;
            stream.write_all(&chunk[..size]).await?;
            left -= size as u64;
        }
        stream.finish()?;
        stream.stopped().await?;
        Ok::<(), Failure>(())
    };
    tokio::time::timeout_at(until.into(), write).await.unwrap_or(Ok(()))
}

/// Sends datagrams of `size` bytes, with IP's and UDP's headers, at this rate; waits for what is on the way.
async fn datagrams(connection: &Connection, size: usize, bits_per_s: f64, until: Instant) -> Result<(), Failure> {
    let begin = now();
    let mut number = 0u32;
    while now() < until {
        let due = begin + Duration::from_secs_f64(f64::from(number) * size as f64 * 8.0 / bits_per_s);
        tokio::time::sleep_until(due.into()).await;
        let mut data = vec![0; size - 28];
        data[..8].copy_from_slice(&wall_ns().to_le_bytes());
        connection.send_datagram(data.into())?;
        number += 1;
    }
    Ok(())
}
