//! A handshake and packet protection that protect nothing, for connections inside a simulation: QUIC's packets have the
//! sizes and times that TLS 1.3 gives them, the same bits in each run, and cost no encryption.
//!
//! The handshake has TLS's flights: the client's hello, the server's hello, its certificate and finish, the client's
//! finish. They carry transport parameters and padding, and packets have room for an authentication tag.

use bytes::BytesMut;
use knee_core::convert::index_u16;

/// Bytes that AES-GCM and ChaCha20-Poly1305 add to a packet (RFC 9001, 5.3).
pub const TAG: usize = 16;
/// Bytes of the flights of [`crate::tls`], without the transport parameters that some carry: hellos of the client and
/// the server, the server's certificate and finish, the client's finish. A test holds them against it.
const CLIENT_HELLO: usize = 178;
const SERVER_HELLO: usize = 90;
const SERVER_FLIGHT: usize = 416;
const FINISHED: usize = 52;
/// Kind and length of a flight.
const FLIGHT_HEADER: usize = 3;

/// The next step of the handshake, at either end.
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

/// The handshake of one end.
pub struct Flights {
    step: Step,
    /// This end's transport parameters.
    local: Vec<u8>,
    /// Handshake bytes of a flight that is not complete.
    partial: Vec<u8>,
}

/// The bytes received are no flight.
#[derive(Clone, Copy, Debug)]
pub struct Malformed;

impl Flights {
    /// The handshake of a client or a server with these transport parameters, encoded.
    pub const fn new(client: bool, local: Vec<u8>) -> Self {
        let step = if client { Step::WriteClientHello } else { Step::ReadClientHello };
        Self { step, local, partial: Vec::new() }
    }

    /// Returns true if the handshake is over.
    pub fn are_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Takes handshake bytes. Gives the other end's transport parameters where they complete a flight that carries
    /// them.
    ///
    /// # Errors
    /// If the flight is none.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        self.partial.extend(bytes);
        let next = match self.step {
            Step::ReadServerHello => Step::TakeHandshakeKeys,
            Step::ReadServerFlight => Step::WriteClientFinished,
            Step::ReadClientHello => Step::WriteServerHello,
            Step::ReadClientFinished => Step::Done,
            _ => return Ok(None),
        };
        let Some(parameters) = self.read_flight()? else { return Ok(None) };
        self.step = next;
        Ok((!parameters.is_empty()).then_some(parameters))
    }

    /// Writes this end's next flight, if it is its turn. Returns true if new keys are to be had.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let (flight, new_keys, next) = match self.step {
            Step::WriteClientHello => (Some((CLIENT_HELLO, true)), false, Step::ReadServerHello),
            Step::TakeHandshakeKeys => (None, true, Step::ReadServerFlight),
            Step::WriteClientFinished => (Some((FINISHED, false)), true, Step::Done),
            Step::WriteServerHello => (Some((SERVER_HELLO, false)), true, Step::WriteServerFlight),
            Step::WriteServerFlight => (Some((SERVER_FLIGHT, true)), true, Step::ReadClientFinished),
            _ => return false,
        };
        if let Some((size, with_parameters)) = flight {
            self.write_flight(size, with_parameters, out);
        }
        self.step = next;
        new_keys
    }

    /// Writes a flight of `size` bytes, and the transport parameters where it carries them.
    fn write_flight(&self, size: usize, with_parameters: bool, out: &mut Vec<u8>) {
        let parameters: &[u8] = if with_parameters { &self.local } else { &[] };
        let size = size + parameters.len();
        let start = out.len();
        out.push(1);
        out.extend(index_u16(size - FLIGHT_HEADER).to_be_bytes());
        out.extend(index_u16(parameters.len()).to_be_bytes());
        out.extend(parameters);
        out.resize(start + size, 0);
    }

    /// Takes a flight from what has come, and the transport parameters in it. `None` if it is not whole yet.
    fn read_flight(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let [_, high, low, ..] = self.partial[..] else { return Ok(None) };
        let end = FLIGHT_HEADER + usize::from(u16::from_be_bytes([high, low]));
        if self.partial.len() < end {
            return Ok(None);
        }
        let flight: Vec<u8> = self.partial.drain(..end).skip(FLIGHT_HEADER).collect();
        let [high, low, ref rest @ ..] = flight[..] else { return Err(Malformed) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        rest.get(..length).map(|parameters| Some(parameters.to_vec())).ok_or(Malformed)
    }
}

/// Puts the packet's number where its tag stands, as an AEAD does: headers carry the last bytes of a number alone.
pub fn seal(number: u64, packet: &mut [u8]) {
    if let Some(tag) = packet.len().checked_sub(TAG).and_then(|at| packet.get_mut(at..at + size_of::<u64>())) {
        tag.copy_from_slice(&number.to_le_bytes());
    }
}

/// Takes the tag off; false if there is none, or of another number than the one that the receiver made of the header.
/// That happens where a packet is overtaken by more than half of the numbers that its header can tell apart (RFC 9000,
/// A.3).
pub fn open(number: u64, payload: &mut BytesMut) -> bool {
    let Some(length) = payload.len().checked_sub(TAG) else { return false };
    let meant = payload[length..].starts_with(&number.to_le_bytes());
    payload.truncate(length);
    meant
}
