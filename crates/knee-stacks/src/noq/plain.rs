//! noq's connections without encryption: what [`knee_quinn::flights`] has, as noq's interface for cryptography.

use bytes::BytesMut;
use knee_quinn::flights::{Flights, Malformed, TAG, open, seal};
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair, Keys,
    PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError, TransportErrorCode};
use std::any::Any;

/// Starts sessions without encryption, at either end.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

struct PlainSession {
    side: Side,
    flights: Flights,
    remote: Option<TransportParameters>,
}

impl PlainSession {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut local = Vec::new();
        params.write(&mut local);
        Self { side, flights: Flights::new(side.is_client(), local), remote: None }
    }
}

impl Session for PlainSession {
    fn initial_keys(&self, _: ConnectionId, _: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        !self.flights.are_done()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        let malformed =
            |Malformed| TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, "a malformed handshake".into());
        if let Some(parameters) = self.flights.read(buf).map_err(malformed)? {
            self.remote = Some(TransportParameters::read(self.side, &mut &parameters[..])?);
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.remote)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        self.flights.write(out).then(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(KeyPair { local: Box::new(Plain), remote: Box::new(Plain) })
    }

    fn is_valid_retry(&self, _: ConnectionId, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

impl ClientConfig for Plain {
    fn start_session(&self, _: u32, _: &str, params: &TransportParameters) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(PlainSession::new(Side::Client, params)))
    }
}

impl ServerConfig for Plain {
    fn initial_keys(&self, _: u32, _: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(&self, _: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(PlainSession::new(Side::Server, params))
    }
}

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(Plain), remote: Box::new(Plain) },
        packet: KeyPair { local: Box::new(Plain), remote: Box::new(Plain) },
    }
}

impl PacketKey for Plain {
    fn encrypt(&self, _: PathId, number: u64, packet: &mut [u8], _: usize) {
        seal(number, packet);
    }

    fn decrypt(&self, _: PathId, number: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        if open(number, payload) { Ok(()) } else { Err(CryptoError) }
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Plain {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

impl HmacKey for Plain {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        for (byte, from) in out.iter_mut().zip(data.iter().chain(std::iter::repeat(&0))) {
            *byte = *from;
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = vec![0; signature.len()];
        self.sign(data, &mut own);
        if own == signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for Plain {
    fn seal(&self, _: u128, _: &mut Vec<u8>) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, _: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        Ok(data)
    }
}
