//! qlog files: one connection each, as JSON text sequences (draft-ietf-quic-qlog-main-schema-05, version 0.3, which qvis
//! reads; events of draft-ietf-quic-qlog-quic-events-04).
//!
//! A [`Log`] is a file that takes events at times of any clock. quinn writes its own events into it through
//! [`Log::quinn`]; what it cannot know, and what senders other than quinn do, is written with [`Log::event`].

mod from_quinn;

pub use qlog::events;

use from_quinn::FromQuinn;
use knee_core::Time;
use qlog::events::EventData;
use qlog::events::quic::CongestionStateUpdated;
use quinn_proto::{QlogConfig, QlogStream};
use serde::Serialize;
use serde_json::json;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The version of the format.
pub const VERSION: &str = qlog::QLOG_VERSION;
/// Begins a record (RFC 7464); a line feed ends it.
const RECORD_SEPARATOR: u8 = 0x1e;

/// A file. Clones write into the same one.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Inside>>);

struct Inside {
    out: Box<dyn Write + Send>,
    /// The time of events that come without one.
    now: Time,
    state: Option<String>,
    /// What the packet acknowledges that quinn receives next.
    acked: Option<Vec<(u64, u64)>>,
    failed: Option<io::Error>,
}

/// What a file says of its connection.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The connection's name.
    pub title: &'a str,
    /// What it is.
    pub description: &'a str,
    /// `QUIC` or `TCP`.
    pub protocol: &'a str,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Record<'a, T: Serialize> {
    /// Milliseconds.
    time: f64,
    #[serde(flatten)]
    event: &'a T,
}

impl Log {
    /// A file that begins with what is said of the connection, from its sender's point of view. Times are milliseconds
    /// since time zero.
    pub fn new(out: impl Write + Send + 'static, about: About<'_>) -> Self {
        let inside =
            Inside { out: Box::new(BufWriter::new(out)), now: Time::ZERO, state: None, acked: None, failed: None };
        let log = Self(Arc::new(Mutex::new(inside)));
        // Readers look for version and format at the very beginning.
        let header = json!({
            "qlog_version": VERSION,
            "qlog_format": "JSON-SEQ",
            "title": about.title,
            "description": about.description,
            "trace": {
                "vantage_point": {"name": "sender", "type": "client"},
                "common_fields":
                    {"protocol_type": [about.protocol], "time_format": "relative", "reference_time": 0.0},
            },
        });
        log.inside(|inside| inside.write(&header));
        log
    }

    fn inside<T>(&self, work: impl FnOnce(&mut Inside) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on it is `now`, for events that come without a time.
    pub fn set_time(&self, now: Time) {
        self.inside(|inside| inside.now = inside.now.max(now));
    }

    /// The packets, in ranges that include their ends, that the next packet acknowledges which quinn receives: quinn's own
    /// event does not tell.
    pub fn set_acked(&self, acked: Option<Vec<(u64, u64)>>) {
        self.inside(|inside| inside.acked = acked);
    }

    pub(crate) fn take_acked(&self) -> Option<Vec<(u64, u64)>> {
        self.inside(|inside| inside.acked.take())
    }

    /// Writes an event at `now`. Times of a file must not go back.
    pub fn event(&self, now: Time, event: &EventData) {
        self.inside(|inside| {
            inside.now = inside.now.max(now);
            inside.record(event);
        });
    }

    /// The congestion control enters a state at `now`, unless it is in it already.
    pub fn state(&self, now: Time, state: &str) {
        self.inside(|inside| {
            if inside.state.as_deref() != Some(state) {
                let old = inside.state.replace(state.into());
                inside.now = inside.now.max(now);
                let new = state.into();
                inside.record(&EventData::CongestionStateUpdated(CongestionStateUpdated { old, new, trigger: None }));
            }
        });
    }

    /// What quinn writes its events into, for `TransportConfig::qlog_stream`. They get the time that
    /// [`Log::set_time`] has said.
    pub fn quinn(&self) -> Option<QlogStream> {
        let mut config = QlogConfig::default();
        config.writer(Box::new(FromQuinn::new(self.clone())));
        config.into_stream()
    }

    /// An event of quinn's, now.
    pub(crate) fn raw(&self, event: &from_quinn::Event) {
        self.inside(|inside| inside.record(event));
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn finish(&self) -> io::Result<()> {
        self.inside(|inside| inside.failed.take().map_or_else(|| inside.out.flush(), Err))
    }
}

impl Inside {
    fn record(&mut self, event: &impl Serialize) {
        let time = self.now.as_nanos() as f64 / 1e6;
        self.write(&Record { time, event });
    }

    fn write(&mut self, record: &impl Serialize) {
        if self.failed.is_some() {
            return;
        }
        let written = self.out.write_all(&[RECORD_SEPARATOR]).and_then(|()| {
            serde_json::to_writer(&mut self.out, record)?;
            self.out.write_all(b"\n")
        });
        self.failed = written.err();
    }
}
