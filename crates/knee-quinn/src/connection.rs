//! The interface of a QUIC stack: connections, whose datagrams, clock and random numbers come from outside.

use crate::peer::LEAST_MTU;
use bytes::{Bytes, BytesMut};
use knee_core::convert::saturating_u64;
use knee_core::{Rng, Time};
use knee_qlog::Log;
use quinn_proto::EcnCodepoint;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bytes of connection identifiers, as quinn's own generator makes them.
pub const CID_BYTES: usize = 8;
/// Address that datagrams carry.
pub const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);
/// QUIC's clock is an instant that cannot be made from a number: time zero of all simulations.
#[allow(clippy::disallowed_methods, reason = "only differences to it are used")]
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The instant that stacks have for a time.
pub fn instant(now: Time) -> Instant {
    *EPOCH + Duration::from_nanos(now.as_nanos())
}

/// The time of a stack's instant.
pub fn time(at: Instant) -> Time {
    Time::from_nanos(saturating_u64(at.saturating_duration_since(*EPOCH).as_nanos()))
}

/// Seed of an end's random numbers.
pub fn endpoint_seed(seed: u64) -> [u8; 32] {
    let mut rng = Rng::stream(seed, "quic/endpoint");
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    bytes
}

/// Settings of a connection's end.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of data that this end takes ahead of what is read.
    pub receive_window: u64,
    /// Bytes of one stream that this end takes ahead of what is read.
    pub stream_receive_window: u64,
    /// Names the random numbers and identifiers of this end.
    pub seed: u64,
    /// True if the end that waits for a connection sends more than ACKs: under the stack's congestion control.
    pub answers: bool,
    /// Bytes of UDP payload that every path takes, from 1200 on; of a full datagram at the start; and up to which path
    /// MTU discovery raises that.
    pub mtu: [u16; 3],
    /// How the other end acknowledges.
    pub acks: AckFrequency,
    /// True if packets are encrypted: both ends alike. Encrypted bytes differ from run to run; their number does not.
    pub tls: bool,
    /// The longest lateness that a paced end makes up for by a burst. Zero where calls are never late.
    pub pacing_credit: Time,
    /// The log of this end.
    pub log: Option<Log>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            receive_window: 16 << 20,
            stream_receive_window: 16 << 20,
            seed: 1,
            answers: false,
            mtu: [LEAST_MTU, LEAST_MTU, 1452],
            acks: AckFrequency::default(),
            tls: false,
            pacing_credit: Time::ZERO,
            log: None,
        }
    }
}

/// How an end acknowledges (RFC 9000, 13.2; draft-ietf-quic-ack-frequency).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Longest delay of an ACK.
    pub max_delay: Time,
    /// Ack-eliciting packets after which the next one is acknowledged at once.
    pub threshold: u64,
}

impl Default for AckFrequency {
    /// As an end does that nobody asks otherwise.
    fn default() -> Self {
        Self { max_delay: Time::from_millis(25), threshold: 1 }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, Error)]
#[error("the QUIC connection ended: {0}")]
pub struct Ended(pub String);

/// A datagram that leaves.
#[derive(Debug)]
pub struct Datagram {
    /// UDP payload.
    pub bytes: BytesMut,
    /// ECN codepoint of its IP header: ECT(0), ECT(1) or CE. `None` if not ECN-capable.
    pub ecn: Option<EcnCodepoint>,
}

/// Opens the connections of a flow.
pub trait Stack: Send + Sync {
    /// The end that connects at `now` and sends, under the flow's congestion control.
    fn connect(&self, settings: &Settings, now: Time) -> Box<dyn Connection>;

    /// The end that waits for a connection and reads what it is sent. Its own data is under the flow's
    /// congestion control, too, if [`Settings::answers`].
    fn listen(&self, settings: &Settings) -> Box<dyn Connection>;
}

/// One end of a stack's connection, with one stream in each direction. [`crate::Peer`] drives it.
pub trait Connection: Send {
    /// A datagram of the other end has come.
    fn receive(&mut self, now: Time, datagram: Datagram);

    /// The next datagram that the stack lets go now.
    fn transmit(&mut self, now: Time) -> Option<Datagram>;

    /// When the stack wants to be called next; `None`: nothing will happen by itself.
    fn deadline(&mut self) -> Option<Time>;

    /// The stack's timers that are due at `now` fire.
    fn fire(&mut self, now: Time);

    /// Events of the connection since the last call.
    fn take_updates(&mut self) -> Updates;

    /// Writes the first bytes of `data` to the stream, which it opens if there is none: how many. At most `buffer`
    /// bytes are written and not acknowledged. `None`: the stream takes no more until [`Updates::writable`] says that
    /// all of `data` fits.
    fn write(&mut self, data: Bytes, buffer: u64) -> Option<usize>;

    /// The stream ends after what was written.
    fn finish(&mut self);

    /// The stream ends at once: nothing is sent from now on, nor sent again.
    fn reset(&mut self);

    /// Window of the sender's congestion control, bytes.
    fn window(&self) -> u64;

    /// Rate in bit/s at which whoever drives the connection spaces its datagrams, where the stack does not by itself.
    fn pacing_rate(&self) -> Option<u64>;

    /// Its figures; `None` before it began.
    fn stats(&mut self) -> Option<Stats>;
}

/// Events of a connection.
#[derive(Debug, Default)]
pub struct Updates {
    /// The handshake is over.
    pub connected: bool,
    /// The stream takes data again.
    pub writable: bool,
    /// All that was written has been acknowledged.
    pub finished: bool,
    /// The reason for the connection's end, where that came before all was acknowledged.
    pub ended: Option<Ended>,
    /// Bytes of stream data that came, in any order.
    pub received: u64,
    /// Bytes of the stream that are there without a hole, since the start.
    pub in_order: u64,
}

/// The parts of a stream that have come.
#[derive(Debug, Default)]
pub struct Arrived {
    in_order: u64,
    /// Ends of the parts behind a hole, by their start.
    ahead: BTreeMap<u64, u64>,
}

impl Arrived {
    /// `bytes` have come from this offset on, none of them before.
    pub fn note(&mut self, offset: u64, bytes: u64) {
        self.ahead.insert(offset, offset + bytes);
        while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() <= self.in_order) {
            self.in_order = self.in_order.max(entry.remove());
        }
    }

    /// Bytes without a hole.
    pub const fn in_order(&self) -> u64 {
        self.in_order
    }
}

/// Figures that a stack keeps of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Packets that it declared lost.
    pub lost_packets: u64,
    /// Bytes of UDP payload of a full datagram.
    pub mtu: u16,
    /// Smoothed RTT.
    pub srtt: Time,
}
