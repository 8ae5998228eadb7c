//! quinn's connections without encryption: what [`crate::flights`] has, as quinn's interface for cryptography.

use crate::flights::{Flights, Malformed, TAG, open, seal};
use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair,
    Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use std::any::Any;
use std::sync::Arc;

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
    fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
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
        let read = self.flights.read(buf).map_err(|Malformed| TransportError {
            code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame: None,
            reason: "a malformed handshake".into(),
        })?;
        if let Some(parameters) = read {
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

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

impl ClientConfig for Plain {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(PlainSession::new(Side::Client, params)))
    }
}

impl ServerConfig for Plain {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(self: Arc<Self>, _: u32, params: &TransportParameters) -> Box<dyn Session> {
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
    fn encrypt(&self, number: u64, packet: &mut [u8], _: usize) {
        seal(number, packet);
    }

    fn decrypt(&self, number: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
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
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for Plain {
    fn seal(&self, _: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{NAME, TLS};

    /// The flights that a client and a server write, of which each reads the other's: their sizes.
    fn flights(client: Arc<dyn ClientConfig>, server: Arc<dyn ServerConfig>) -> Vec<usize> {
        let params = TransportParameters::read(Side::Server, &mut &[][..]).unwrap();
        let mut ends = [client.start_session(1, NAME, &params).unwrap(), server.start_session(1, &params)];
        let mut sizes = Vec::new();
        // Each end writes a flight in turn; what gives it new keys may be none.
        for turn in 0..12 {
            let mut flight = Vec::new();
            ends[turn % 2].write_handshake(&mut flight);
            ends[1 - turn % 2].read_handshake(&flight).unwrap();
            sizes.push(flight.len());
        }
        assert!(ends.iter().all(|end| !end.is_handshaking()));
        sizes
    }

    #[test]
    fn flights_have_the_sizes_of_tls() {
        let tls = flights(TLS.client.clone(), TLS.server.clone());
        assert_eq!(tls, flights(Arc::new(Plain), Arc::new(Plain)));
    }
}
