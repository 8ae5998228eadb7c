//! quinn's own events, brought to the form of ours.
//!
//! quinn 0.11 gives times as 32-bit floats, which are 2 us apart after 20 s, and RTTs in seconds, where the format has
//! milliseconds. It names the size of every packet `length` of its header, a field that the format keeps for packets
//! with long headers, and which no reader looks at. It gives the same trigger for each lost packet, because it
//! subtracts the two times the wrong way round. Frames it leaves out.

use crate::{Log, RECORD_SEPARATOR};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Fields that are RTTs.
const RTTS: [&str; 4] = ["min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"];

/// The fields of an event that are taken over.
#[derive(Serialize, Deserialize)]
pub struct Event {
    name: String,
    data: Map<String, Value>,
}

/// Takes quinn's records.
pub struct FromQuinn {
    log: Log,
    /// A record that is not complete.
    partial: Vec<u8>,
    /// The header of its records has come.
    begun: bool,
}

impl FromQuinn {
    /// Writes them into `log`.
    pub const fn new(log: Log) -> Self {
        Self { log, partial: Vec::new(), begun: false }
    }

    fn take(&mut self, record: &[u8]) -> io::Result<()> {
        // The file has a header of ours.
        if !std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let record = record.strip_prefix(&[RECORD_SEPARATOR]).unwrap_or(record);
        // The event's own time is left out, as the log's is more exact, and so is its group, the same all through a
        // file.
        let Event { name, mut data } = serde_json::from_slice(record)?;
        let header = data.get_mut("header").and_then(Value::as_object_mut);
        if let Some(length) = header.and_then(|header| header.remove("length")) {
            data.insert("raw".into(), json!({"length": length}));
        }
        data.remove("trigger");
        for field in RTTS {
            if let Some(seconds) = data.get(field).and_then(Value::as_f64) {
                data.insert(field.into(), json!((seconds * 1e9).round() / 1e6));
            }
        }
        if name == "transport:packet_received"
            && let Some(acked) = self.log.take_acked()
        {
            data.insert("frames".into(), json!([{"frame_type": "ack", "acked_ranges": acked}]));
        }
        self.log.raw(&Event { name, data });
        Ok(())
    }
}

impl Write for FromQuinn {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend(piece);
            if piece.ends_with(b"\n") {
                let record = std::mem::take(&mut self.partial);
                self.take(&record)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
