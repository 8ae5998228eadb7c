//! qlog files: one connection each, or several as groups of events, as JSON text sequences
//! (draft-ietf-quic-qlog-main-schema-05, version 0.3, which qvis reads; events of draft-ietf-quic-qlog-quic-events-04).
//!
//! A [`Log`] is a file that takes events at times of any clock. quinn writes its own events into it through
//! [`Log::quinn`]; what it cannot know, and what senders other than quinn do, is written with [`Log::event`].

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

#[cfg(feature = "quinn")]
mod from_quinn;

pub use qlog::events;

#[cfg(feature = "quinn")]
use from_quinn::FromQuinn;
use knee_core::Time;
use qlog::events::EventData;
use qlog::events::quic::CongestionStateUpdated;
#[cfg(feature = "quinn")]
use quinn_proto::{QlogConfig, QlogStream};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The version of the format.
pub const VERSION: &str = qlog::QLOG_VERSION;
/// Begins a record (RFC 7464); a line feed ends it.
const RECORD_SEPARATOR: u8 = 0x1e;

/// A file, or a group of events in it. Clones write into the same one.
#[derive(Clone)]
pub struct Log {
    file: Arc<Mutex<LogFile>>,
    /// The number of the group.
    group: Option<u64>,
}

struct LogFile {
    out: Box<dyn Write + Send>,
    /// The time of events that come without one.
    now: Time,
    /// The latest state of loss recovery, by group.
    states: BTreeMap<Option<u64>, String>,
    /// Packet numbers that the packet quinn receives next acknowledges, as ranges.
    acked: Option<Vec<(u64, u64)>>,
    failed: Option<io::Error>,
}

/// The description of a file's connection.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The connection's name.
    pub title: &'a str,
    /// One line about the connection.
    pub description: &'a str,
    /// `QUIC` or `TCP`.
    pub protocol: &'a str,
    /// True if the sender's end is the one that others connect to.
    pub is_server: bool,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    group_id: Option<String>,
    #[serde(flatten)]
    event: &'a T,
}

impl Log {
    /// A file that begins with what is said of the connection, from its sender's point of view. Times are milliseconds
    /// since time zero.
    pub fn new(out: impl Write + Send + 'static, about: About<'_>) -> Self {
        let inside = LogFile {
            out: Box::new(BufWriter::new(out)),
            now: Time::ZERO,
            states: BTreeMap::new(),
            acked: None,
            failed: None,
        };
        let log = Self { file: Arc::new(Mutex::new(inside)), group: None };
        // Readers look for version and format at the very beginning.
        let header = json!({
            "qlog_version": VERSION,
            "qlog_format": "JSON-SEQ",
            "title": about.title,
            "description": about.description,
            "trace": {
                "vantage_point": {"name": "sender", "type": if about.is_server { "server" } else { "client" }},
                "common_fields":
                    {"protocol_type": [about.protocol], "time_format": "relative", "reference_time": 0.0},
            },
        });
        log.inside(|inside| inside.write(&header));
        log
    }

    fn inside<T>(&self, work: impl FnOnce(&mut LogFile) -> T) -> T {
        work(&mut self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The events of connection `number`, counted from 0, of those that share the file: their `group_id` counts from 1.
    #[must_use]
    pub fn group(&self, number: u64) -> Self {
        Self { file: self.file.clone(), group: Some(number + 1) }
    }

    /// From now on it is `now`, for events that come without a time.
    pub fn set_time(&self, now: Time) {
        self.inside(|inside| inside.now = inside.now.max(now));
    }

    /// The packets, in ranges that include their ends, that the next packet acknowledges which quinn receives: quinn's
    /// own event does not tell.
    pub fn set_acked(&self, acked: Option<Vec<(u64, u64)>>) {
        self.inside(|inside| inside.acked = acked);
    }

    #[cfg(feature = "quinn")]
    pub(crate) fn take_acked(&self) -> Option<Vec<(u64, u64)>> {
        self.inside(|inside| inside.acked.take())
    }

    /// Writes an event at `now`. Times of a file must not go back.
    pub fn event(&self, now: Time, event: &EventData) {
        self.inside(|inside| {
            inside.now = inside.now.max(now);
            inside.record(event, self.group);
        });
    }

    /// The congestion control enters a state at `now`, unless it is in it already.
    pub fn state(&self, now: Time, state: &str) {
        self.inside(|inside| {
            if inside.states.get(&self.group).is_none_or(|old| old != state) {
                let old = inside.states.insert(self.group, state.into());
                inside.now = inside.now.max(now);
                let new = state.into();
                let event = CongestionStateUpdated { old, new, trigger: None };
                inside.record(&EventData::CongestionStateUpdated(event), self.group);
            }
        });
    }

    /// The stream that quinn writes its events into, for `TransportConfig::qlog_stream`. They get the time last set by
    /// [`Log::set_time`].
    #[cfg(feature = "quinn")]
    pub fn quinn(&self) -> Option<QlogStream> {
        let mut config = QlogConfig::default();
        config.writer(Box::new(FromQuinn::new(self.clone())));
        config.into_stream()
    }

    /// An event of quinn's, now.
    #[cfg(feature = "quinn")]
    pub(crate) fn raw(&self, event: &from_quinn::Event) {
        self.inside(|inside| inside.record(event, self.group));
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn finish(&self) -> io::Result<()> {
        self.inside(|inside| inside.failed.take().map_or_else(|| inside.out.flush(), Err))
    }
}

impl LogFile {
    fn record(&mut self, event: &impl Serialize, group: Option<u64>) {
        let time = self.now.as_nanos() as f64 / 1e6;
        self.write(&Record { time, group_id: group.map(|group| group.to_string()), event });
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

#[cfg(test)]
mod tests {
    use super::*;
    use qlog::events::quic::MetricsUpdated;
    use serde_json::Value;

    /// The bytes written so far.
    #[derive(Clone, Default)]
    pub struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink {
        /// The records, of which each begins and ends as RFC 7464 says.
        fn records(&self, log: &Log) -> Vec<Value> {
            log.finish().unwrap();
            let bytes = self.0.lock().unwrap().clone();
            assert_eq!((bytes.first(), bytes.last()), (Some(&RECORD_SEPARATOR), Some(&b'\n')));
            let records = bytes[1..].split(|byte| *byte == RECORD_SEPARATOR);
            records.map(|record| serde_json::from_slice(record.strip_suffix(b"\n").unwrap()).unwrap()).collect()
        }
    }

    fn log() -> (Log, Sink) {
        let sink = Sink::default();
        (Log::new(sink.clone(), About { title: "a", description: "b", protocol: "QUIC", is_server: false }), sink)
    }

    #[test]
    fn a_state_is_written_when_it_changes_with_the_one_before() {
        let (log, sink) = log();
        for (ms, state) in [(1, "slow_start"), (2, "slow_start"), (3, "recovery")] {
            log.state(Time::from_millis(ms), state);
        }
        let records = sink.records(&log);
        assert_eq!(records[0]["trace"]["common_fields"]["protocol_type"], json!(["QUIC"]));
        let name = "recovery:congestion_state_updated";
        assert_eq!(records[1], json!({"time": 1.0, "name": name, "data": {"new": "slow_start"}}));
        assert_eq!(records[2], json!({"time": 3.0, "name": name, "data": {"old": "slow_start", "new": "recovery"}}));
        assert_eq!(records.len(), 3);
    }

    #[test]
    fn times_have_nanoseconds_and_do_not_go_back() {
        let (log, sink) = log();
        let metrics = MetricsUpdated { congestion_window: Some(7), ..MetricsUpdated::default() };
        let event = EventData::MetricsUpdated(metrics);
        log.event(Time::from_nanos(150_000_000_001), &event);
        log.event(Time::from_nanos(5), &event);
        let records = sink.records(&log);
        assert_eq!((&records[1]["time"], &records[2]["time"]), (&json!(150_000.000_001), &json!(150_000.000_001)));
    }

    #[cfg(feature = "quinn")]
    #[test]
    fn quinns_events_are_brought_to_the_form_of_the_drafts() {
        let (log, sink) = log();
        let mut quinn = FromQuinn::new(log.clone());
        log.set_time(Time::from_millis(9));
        log.set_acked(Some(vec![(3, 5)]));
        let header = json!({"qlog_version": "0.3"});
        let sent = json!({"time": 1.5, "name": "transport:packet_sent", "group_id": "x",
            "data": {"header": {"packet_type": "1RTT", "packet_number": 4, "length": 1200}}});
        let received = json!({"time": 1.5, "name": "transport:packet_received",
            "data": {"header": {"packet_type": "1RTT", "packet_number": 1}}});
        let metrics = json!({"time": 1.5, "name": "recovery:metrics_updated", "data": {"min_rtt": 0.040_993_6}});
        for record in [&header, &sent, &received, &received, &metrics] {
            // In pieces, as a streaming serialiser writes.
            let text = format!("\u{1e}{record}\n");
            text.as_bytes().chunks(7).for_each(|piece| quinn.write_all(piece).unwrap());
        }
        let records = sink.records(&log);
        let data = |i: usize| records[i]["data"].clone();
        assert!(records[1..].iter().all(|record| record["time"] == 9.0 && record.get("group_id").is_none()));
        assert_eq!(data(1), json!({"header": {"packet_type": "1RTT", "packet_number": 4}, "raw": {"length": 1200}}));
        assert_eq!(data(2)["frames"], json!([{"frame_type": "ack", "acked_ranges": [[3, 5]]}]));
        assert_eq!(data(3).get("frames"), None, "an ACK belongs to one packet");
        assert_eq!(data(4), json!({"min_rtt": 40.993_6}));
    }

    #[test]
    fn the_first_error_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = Log::new(Full, About { title: "", description: "", protocol: "TCP", is_server: false });
        (0..2000).for_each(|ms| log.state(Time::from_millis(ms), &ms.to_string()));
        assert_eq!(log.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
