//! The record of an end, and its binary form.

use bytemuck::{Pod, Zeroable};
use knee_traffic::Completion;
use serde::Serialize;
use std::io::{self, Write};

/// A datagram that was sent or that arrived.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Datagram {
    /// When, ns from the run's start.
    pub at_ns: u64,
    /// Its number, from 0.
    pub number: u32,
    /// Its size as an IP packet, bytes.
    pub bytes: u16,
    /// True if it was marked CE.
    pub ce: u16,
}

/// Bytes that had arrived by a time.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Progress {
    /// When, ns from the run's start.
    pub at_ns: u64,
    /// Payload of all connections.
    pub bytes: u64,
}

/// The record of an end.
#[derive(Default)]
pub struct EndRecord {
    /// Completions of the application.
    pub completions: Vec<Completion>,
    /// Datagrams that were sent.
    pub sent: Vec<Datagram>,
    /// Datagrams that arrived.
    pub arrived: Vec<Datagram>,
    /// Payload of connections that had arrived.
    pub progress: Vec<Progress>,
}

/// How many rows of each kind follow.
#[derive(Serialize)]
struct Head {
    completions: usize,
    sent: usize,
    arrived: usize,
    progress: usize,
}

impl EndRecord {
    /// Writes a line of JSON, which says how many rows of each kind follow, and the rows.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let head = Head {
            completions: self.completions.len(),
            sent: self.sent.len(),
            arrived: self.arrived.len(),
            progress: self.progress.len(),
        };
        serde_json::to_writer(&mut *out, &head)?;
        out.write_all(b"\n")?;
        out.write_all(bytemuck::cast_slice(&self.completions))?;
        out.write_all(bytemuck::cast_slice(&self.sent))?;
        out.write_all(bytemuck::cast_slice(&self.arrived))?;
        out.write_all(bytemuck::cast_slice(&self.progress))?;
        out.flush()
    }
}
