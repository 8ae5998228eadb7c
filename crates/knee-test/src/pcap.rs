//! Packets as pcapng (draft-ietf-opsawg-pcapng).

use crate::{Ecn, Inside, Port, Reason, ip};
use knee_core::Time;
use knee_core::convert::{index_u32, low_u32};

/// Link type of IP packets without another header (LINKTYPE_RAW).
const RAW: u16 = 101;
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Options: the comment of a packet, the name and the resolution of an interface.
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;

/// The packets of a network.
pub(crate) struct Capture {
    /// Bytes of each packet that are kept.
    pub(crate) keep: usize,
    /// Number of the interface behind those of the ports.
    drops: u32,
    blocks: Vec<u8>,
}

impl Capture {
    /// For paths with these names: an interface for each port, then one for what is dropped of each path.
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut blocks = Vec::new();
        // The byte order, version 1.0, and a length of the section that is not told.
        let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend([0xff; 8]);
        block(&mut blocks, SECTION, &body);
        let drops = index_u32(paths.clone().count() * 2);
        let ports = paths.clone().flat_map(|path| [format!("{path}, near end"), format!("{path}, far end")]);
        for name in ports.chain(paths.map(|path| format!("{path}, dropped"))) {
            let mut body = u32::from(RAW).to_le_bytes().to_vec();
            body.extend([0; 4]);
            option(&mut body, NAME, name.as_bytes());
            // Times in units of 10^-9 s.
            option(&mut body, RESOLUTION, &[9]);
            body.extend([0; 4]);
            block(&mut blocks, INTERFACE, &body);
        }
        Self { keep: 96, drops, blocks }
    }

    /// A packet passes a port at `at`, or was dropped on its way from it.
    pub(crate) fn packet(&mut self, at: Time, port: Port, inside: &Inside, ecn: Ecn, dropped: Option<Reason>) {
        if self.keep == 0 {
            return;
        }
        let (bytes, length) = ip::shown(inside, ecn, self.keep);
        let interface = if dropped.is_some() { self.drops + port.path() } else { port.0 };
        let mut body = Vec::with_capacity(bytes.len() + 64);
        let nanos = at.as_nanos();
        for field in [interface, low_u32(nanos >> 32), low_u32(nanos), index_u32(bytes.len()), index_u32(length)] {
            body.extend(field.to_le_bytes());
        }
        body.extend(&bytes);
        pad(&mut body);
        if let Some(reason) = dropped {
            option(&mut body, COMMENT, format!("dropped: {reason:?}").as_bytes());
            body.extend([0; 4]);
        }
        block(&mut self.blocks, PACKET, &body);
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        self.blocks.clone()
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend(knee_core::convert::index_u16(value.len()).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn block(blocks: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = index_u32(body.len() + 12).to_le_bytes();
    blocks.extend(kind.to_le_bytes());
    blocks.extend(length);
    blocks.extend(body);
    blocks.extend(length);
}
