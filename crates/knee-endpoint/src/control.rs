//! Messages of the client to the server beside the network, through a named pipe: each exchange before its first byte
//! is sent.

use bytemuck::{Pod, Zeroable};
use knee_traffic::Exchange;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// An exchange on the connection from a port of the client's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Told {
    /// Bytes that the client sends.
    pub up: u64,
    /// Bytes of the answer.
    pub down: u64,
    /// How long the server takes before it answers, ns.
    pub service_ns: u64,
    /// The client's port.
    pub port: u64,
}

/// The client's end.
pub struct ControlPipe(File);

impl ControlPipe {
    /// Opens the pipe, which the server may not have opened yet.
    ///
    /// # Errors
    /// Where there is no such pipe.
    pub fn open(path: &Path) -> io::Result<Self> {
        // With both directions, opening waits for nobody.
        Ok(Self(OpenOptions::new().read(true).write(true).open(path)?))
    }

    /// Tells of an exchange; waits while the pipe is full.
    ///
    /// # Errors
    /// Where the pipe is broken.
    pub fn tell(&mut self, port: u16, exchange: Exchange) -> io::Result<()> {
        let Exchange { up, down, service, .. } = exchange;
        let told = Told { up, down, service_ns: service.as_nanos(), port: u64::from(port) };
        self.0.write_all(bytemuck::bytes_of(&told))
    }
}

/// The server's end.
pub struct Listener {
    file: File,
    buffer: Vec<u8>,
}

impl Listener {
    /// Opens the pipe.
    ///
    /// # Errors
    /// Where there is no such pipe.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self { file, buffer: Vec::new() })
    }

    /// The file to wait for.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// All exchanges that have been told since the last call.
    ///
    /// # Errors
    /// Where the pipe is broken.
    pub fn hear(&mut self) -> io::Result<Vec<Told>> {
        let mut chunk = [0; 4096];
        loop {
            match self.file.read(&mut chunk) {
                Ok(0) => break,
                Ok(bytes) => self.buffer.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let whole = self.buffer.len() - self.buffer.len() % size_of::<Told>();
        let told = self.buffer[..whole].chunks_exact(size_of::<Told>()).map(bytemuck::pod_read_unaligned).collect();
        self.buffer.drain(..whole);
        Ok(told)
    }
}
