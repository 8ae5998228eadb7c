//! The TLS 1.3 of connections inside a simulation: rustls, with a certificate made at run time.
//!
//! Keys, randoms and signatures differ from run to run, and none of their sizes does: keys are of X25519 and Ed25519,
//! the certificate has a fixed serial number, and no session tickets are sent, since nobody connects twice.

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::error::Error;
use std::sync::{Arc, LazyLock};

/// The name on the certificate.
pub const NAME: &str = "knee";

/// Both ends' configurations.
#[derive(Clone)]
pub struct Configs {
    /// Trusts the server's certificate.
    pub client: ClientConfig,
    /// Has the certificate and its key.
    pub server: ServerConfig,
}

/// The configurations that all connections of this process share, made at first use.
pub static CONFIGS: LazyLock<Configs> =
    LazyLock::new(|| make().expect("rustls takes the certificate and the TLS version that are made for it"));

/// The configurations as quinn takes them.
pub(crate) struct Tls {
    pub client: Arc<QuicClientConfig>,
    pub server: Arc<QuicServerConfig>,
}

pub(crate) static TLS: LazyLock<Tls> = LazyLock::new(|| {
    let Configs { client, server } = CONFIGS.clone();
    let wrong = "quinn takes the TLS version that is chosen for it";
    Tls { client: Arc::new(client.try_into().expect(wrong)), server: Arc::new(server.try_into().expect(wrong)) }
});

fn make() -> Result<Configs, Box<dyn Error>> {
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let mut params = CertificateParams::new([NAME.into()])?;
    params.serial_number = Some(SerialNumber::from(1));
    let certificate = params.self_signed(&key)?.der().clone();

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
    server.send_tls13_tickets = 0;
    Ok(Configs { client, server })
}
