//! The test of docs/network-tests.md, which finds that an upload fills a long queue.

use knee_test::{Net, Port, Time};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivateKeyDer;
use quinn::{ClientConfig, Endpoint, ServerConfig};
use std::sync::Arc;

/// The name on the server's certificate.
const NAME: &str = "example.org";

/// A home's uplink, whose modem has a queue of a second.
const UPLINK: &str = r#"
[link]
rate = "10 Mbit/s"
limit = "1000 packets"

[[flows]]
rtt = "30 ms"
"#;

/// Configurations of quinn whose server has a certificate of its own.
fn configs() -> (ClientConfig, ServerConfig) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    (client, ServerConfig::with_single_cert(vec![made.cert.der().clone()], key).unwrap())
}

/// Takes a connection and reads what it sends.
async fn serve(server: Endpoint) {
    let connection = server.accept().await.unwrap().await.unwrap();
    let mut stream = connection.accept_uni().await.unwrap();
    while stream.read_chunk(usize::MAX, true).await.unwrap().is_some() {}
    connection.close(0u32.into(), b"done");
}

/// Sends bytes and waits until the other end has them.
async fn upload(client: Endpoint, bytes: usize) {
    let connection = client.connect(Net::address(Port::far(0)).into(), NAME).unwrap().await.unwrap();
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(&vec![0; bytes]).await.unwrap();
    stream.finish().unwrap();
    connection.closed().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "95 % of the packets waited up to")]
async fn an_upload_leaves_the_queue_short() {
    let lab = Net::from_toml(UPLINK).unwrap().lab().unwrap();
    let (client_config, server_config) = configs();
    let (client, server) = lab.quinn(client_config, server_config).unwrap();
    lab.spawn(serve(server));
    lab.run(upload(client, 5_000_000)).await.unwrap();

    let waited = lab.net().link("bottleneck").unwrap().queueing().p95();
    assert!(waited < Time::from_millis(20), "95 % of the packets waited up to {} ms", waited.as_millis());
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_manages_itself_is_a_tenth_as_long_under_the_same_upload() {
    let lab = Net::from_toml(&UPLINK.replace("limit = \"1000 packets\"", "queue = \"codel\"")).unwrap().lab().unwrap();
    let (client_config, server_config) = configs();
    let (client, server) = lab.quinn(client_config, server_config).unwrap();
    lab.spawn(serve(server));
    lab.run(upload(client, 5_000_000)).await.unwrap();
    let waited = lab.net().link("bottleneck").unwrap().queueing().p95();
    assert!(waited < Time::from_millis(96), "95 % of the packets waited up to {} ms", waited.as_millis());
}
