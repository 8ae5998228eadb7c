//! Records of the events that applications complete.

use bytemuck::{Pod, Zeroable};
use knee_core::Time;

/// The kind of a completed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum What {
    /// A transfer: from the call that starts it (its connection's handshake included) until all is acknowledged.
    Transfer = 0,
    /// A request and its answer, on a connection that was open.
    Request = 1,
    /// A page with all its objects, handshakes included.
    Page = 2,
    /// A handshake of TCP or QUIC, as the one who opens sees it.
    Connect = 3,
    /// A TLS handshake.
    Tls = 4,
    /// A segment of a video; the value is its bitrate in bit/s.
    Segment = 5,
    /// A stall of a video: from when the buffer ran empty until it plays again.
    Stall = 6,
    /// From the first request of a video until it plays.
    Startup = 7,
}

impl What {
    /// The names of all kinds, by number.
    pub const NAMES: [&str; 8] = ["transfer", "request", "page", "connect", "tls", "segment", "stall", "startup"];
}

/// Something that has been completed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Completion {
    /// When, s.
    pub t_s: f64,
    /// When it began, s.
    pub started_s: f64,
    /// A figure of its own kind; NaN where it has none.
    pub value: f64,
    /// Payload.
    pub bytes: u64,
    /// Index of the flow; whoever keeps the record fills it in.
    pub flow: u32,
    /// Kind, a [`What`].
    pub what: u32,
}

const _: () = assert!(size_of::<Completion>() == 40);

impl Completion {
    /// A record of flow 0 for an event that began at `started` and is complete at `now`, with `bytes` of payload.
    pub fn new(what: What, started: Time, now: Time, bytes: u64, value: f64) -> Self {
        let (t_s, started_s) = (now.as_secs_f64(), started.as_secs_f64());
        Self { t_s, started_s, value, bytes, flow: 0, what: what as u32 }
    }
}
