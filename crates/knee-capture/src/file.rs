//! A pcapng file: an interface per flow, and the headers of each packet with its time in nanoseconds.

use knee_core::Time;
use knee_core::convert::index_u32;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

/// Bytes kept of each packet: more than IP and TCP headers with all options have.
const SNAPLEN: u32 = 128;
/// Times in units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// A file that is written.
pub struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
    /// The time of day at the start, ns since 1970.
    start: u64,
    error: Option<io::Error>,
}

impl Capture {
    /// Begins a file with an interface per name.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn new(file: File, names: &[String], start: u64) -> io::Result<Self> {
        let mut writer = PcapNgWriter::new(BufWriter::new(file)).map_err(reason)?;
        for name in names {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            let block = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: SNAPLEN, options };
            writer.write_pcapng_block(block).map_err(reason)?;
        }
        Ok(Self { writer, start, error: None })
    }

    /// Writes a packet of flow `flow` that is sent or arrives at `at`. The first error is kept for the end.
    pub fn packet(&mut self, flow: usize, at: Time, bytes: &[u8]) {
        self.cut_packet(flow, at, bytes, index_u32(bytes.len()));
    }

    /// Writes a packet of `size` bytes of which only the first, `bytes`, exist.
    pub fn cut_packet(&mut self, flow: usize, at: Time, bytes: &[u8], size: u32) {
        if self.error.is_some() {
            return;
        }
        let block = EnhancedPacketBlock {
            interface_id: index_u32(flow),
            timestamp: Duration::from_nanos(self.start + at.as_nanos()),
            original_len: size,
            data: Cow::Borrowed(&bytes[..bytes.len().min(SNAPLEN as usize)]),
            options: Vec::new(),
        };
        if let Err(error) = self.writer.write_pcapng_block(block) {
            self.error = Some(reason(error));
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)?;
        self.writer.into_inner().flush()
    }
}

/// Why a block was not written. The library's own message for any failed call is `Error reading bytes`.
fn reason(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut capture = Capture::new(full, &["flow 1".into()], 0).unwrap();
        // More than the buffer holds, so that a packet meets the error, and not only the end.
        for i in 0..1000 {
            capture.packet(0, Time::from_nanos(i), &[0; 52]);
        }
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
