//! A handshake and packet protection that protect nothing, for connections inside a simulation: QUIC's packets have the
//! sizes and times that TLS 1.3 gives them, the same bits in each run, and cost no encryption.
//!
//! The handshake has TLS's flights: the client's hello, the server's hello, its certificate and finish, the client's
//! finish. They carry transport parameters and padding, and packets have room for an authentication tag.

use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair,
    Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use std::any::Any;
use std::sync::Arc;

/// Bytes that AES-GCM and ChaCha20-Poly1305 add to a packet (RFC 9001, 5.3).
const TAG: usize = 16;
/// Bytes of the flights of [`crate::tls`], without the transport parameters that some carry: hellos of the client and the
/// server, the server's certificate and finish, the client's finish. A test holds them against it.
const CLIENT_HELLO: usize = 178;
const SERVER_HELLO: usize = 90;
const SERVER_FLIGHT: usize = 416;
const FINISHED: usize = 52;
/// Of a flight: what is in it and its length.
const FLIGHT_HEADER: usize = 3;

/// Starts sessions without encryption, at either end.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// Which flight is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    WriteClientHello,
    ReadServerHello,
    TakeHandshakeKeys,
    ReadServerFlight,
    WriteClientFinished,
    ReadClientHello,
    WriteServerHello,
    WriteServerFlight,
    ReadClientFinished,
    Done,
}

struct PlainSession {
    side: Side,
    step: Step,
    local: Vec<u8>,
    remote: Option<TransportParameters>,
    /// Handshake bytes of a flight that is not complete.
    partial: Vec<u8>,
}

impl PlainSession {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut local = Vec::new();
        params.write(&mut local);
        let step = if side.is_client() { Step::WriteClientHello } else { Step::ReadClientHello };
        Self { side, step, local, remote: None, partial: Vec::new() }
    }

    /// A flight of `size` bytes, and the transport parameters where it carries them.
    fn write_flight(&self, size: usize, with_parameters: bool, out: &mut Vec<u8>) {
        let parameters: &[u8] = if with_parameters { &self.local } else { &[] };
        let size = size + parameters.len();
        let start = out.len();
        out.push(1);
        out.extend(((size - FLIGHT_HEADER) as u16).to_be_bytes());
        out.extend((parameters.len() as u16).to_be_bytes());
        out.extend(parameters);
        out.resize(start + size, 0);
    }

    /// Takes a flight from what has come, and the transport parameters in it; false: it is not whole yet.
    fn read_flight(&mut self) -> Result<bool, TransportError> {
        let [_, high, low, ..] = self.partial[..] else { return Ok(false) };
        let end = FLIGHT_HEADER + usize::from(u16::from_be_bytes([high, low]));
        if self.partial.len() < end {
            return Ok(false);
        }
        let flight: Vec<u8> = self.partial.drain(..end).skip(FLIGHT_HEADER).collect();
        let malformed = || TransportError {
            code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame: None,
            reason: "a malformed handshake".into(),
        };
        let [high, low, ref rest @ ..] = flight[..] else { return Err(malformed()) };
        let parameters = rest.get(..usize::from(u16::from_be_bytes([high, low]))).ok_or_else(malformed)?;
        if !parameters.is_empty() {
            let read = TransportParameters::read(self.side, &mut &parameters[..]).map_err(TransportError::from)?;
            self.remote = Some(read);
        }
        Ok(true)
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
        self.step != Step::Done
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.partial.extend(buf);
        let next = match self.step {
            Step::ReadServerHello => Step::TakeHandshakeKeys,
            Step::ReadServerFlight => Step::WriteClientFinished,
            Step::ReadClientHello => Step::WriteServerHello,
            Step::ReadClientFinished => Step::Done,
            _ => return Ok(false),
        };
        if self.read_flight()? {
            self.step = next;
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.remote)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let (flight, new_keys, next) = match self.step {
            Step::WriteClientHello => (Some((CLIENT_HELLO, true)), false, Step::ReadServerHello),
            Step::TakeHandshakeKeys => (None, true, Step::ReadServerFlight),
            Step::WriteClientFinished => (Some((FINISHED, false)), true, Step::Done),
            Step::WriteServerHello => (Some((SERVER_HELLO, false)), true, Step::WriteServerFlight),
            Step::WriteServerFlight => (Some((SERVER_FLIGHT, true)), true, Step::ReadClientFinished),
            _ => return None,
        };
        if let Some((size, with_parameters)) = flight {
            self.write_flight(size, with_parameters, out);
        }
        self.step = next;
        new_keys.then(keys)
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
    fn encrypt(&self, _: u64, _: &mut [u8], _: usize) {}

    fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(length);
        Ok(())
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
