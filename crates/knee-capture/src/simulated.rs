//! The simulator's packets with headers as they would have them: IPv4 and TCP with timestamps, without SACK blocks (a
//! simulated ACK carries only a handle of them) and without the TCP checksum (there is no payload to sum up).
//!
//! Flow n runs from 10.1.0.0 plus n, port 1 + n modulo 60000, to 10.129.0.0 plus n, the same port; bytes are counted
//! from 1, the SYN being number 0.

use crate::Capture;
use knee_core::packet::MSS;
use knee_core::{Packet, Time};
use knee_sim::Tap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// IPv4, TCP and the timestamp option with its padding; of a SYN, which has more options.
const HEADERS: usize = 52;
const SYN_HEADERS: usize = 60;
/// The options of a SYN: maximum segment size 1460, SACK permitted, a window scale of 14, nothing; the timestamps follow.
const SYN_OPTIONS: [u8; 10] = [2, 4, 0x05, 0xb4, 4, 2, 3, 3, 14, 1];
/// First addresses of senders and receivers.
const SENDERS: u32 = 0x0a01_0000;
const RECEIVERS: u32 = 0x0a81_0000;
/// Ports that flows share.
const PORTS: u32 = 60_000;
/// TCP's flags.
const SYN: u8 = 0x02;
const PSH_ACK: u8 = 0x18;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// A file of simulated packets. A clone writes into the same file: one is the simulation's, one ends it.
#[derive(Clone)]
pub struct Simulated(Arc<Mutex<Option<Capture>>>);

impl Simulated {
    /// Writes into `capture`.
    pub fn new(capture: Capture) -> Self {
        Self(Arc::new(Mutex::new(Some(capture))))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn finish(&self) -> io::Result<()> {
        let capture = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        capture.map_or(Ok(()), Capture::finish)
    }
}

impl Tap for Simulated {
    fn packet(&mut self, link: u32, at: Time, packet: &Packet) {
        if let Some(capture) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let length = if packet.has(Packet::SYN) { SYN_HEADERS } else { HEADERS };
            capture.cut_packet(link as usize, at, &headers(packet)[..length], u32::from(packet.size));
        }
    }
}

/// The headers of a packet.
fn headers(packet: &Packet) -> [u8; SYN_HEADERS] {
    let mut bytes = [0; SYN_HEADERS];
    let (sender, receiver) = (SENDERS + packet.flow, RECEIVERS + packet.flow);
    let port = (1 + packet.flow % PORTS) as u16;
    let backward = packet.has(Packet::ACK);
    let (from, to) = if backward { (receiver, sender) } else { (sender, receiver) };
    ip(&mut bytes, packet, from, to);
    // Number and acknowledgement: segments are counted from 0, bytes from 1.
    let place = (1 + packet.seq * u64::from(MSS)) as u32;
    let syn = packet.has(Packet::SYN);
    let (seq, ack) = match (syn, backward) {
        (true, _) => (0, u32::from(backward)),
        (false, true) => (1, place),
        (false, false) => (place, 1),
    };
    bytes[20..22].copy_from_slice(&port.to_be_bytes());
    bytes[22..24].copy_from_slice(&port.to_be_bytes());
    bytes[24..28].copy_from_slice(&seq.to_be_bytes());
    bytes[28..32].copy_from_slice(&ack.to_be_bytes());
    // The length of the header in words of four bytes.
    bytes[32] = if syn { 10 << 4 } else { 8 << 4 };
    bytes[33] = match (syn, backward) {
        (true, false) => SYN,
        (true, true) => SYN | ACK,
        (false, true) => ACK,
        (false, false) => PSH_ACK,
    };
    bytes[33] |= if packet.has(Packet::ECE) { ECE } else { 0 };
    bytes[33] |= if packet.has(Packet::CWR) { CWR } else { 0 };
    bytes[34..36].copy_from_slice(&u16::MAX.to_be_bytes());
    // The timestamps: the sender's own on data, its echo on ACKs; before them two of no operation, or a SYN's options.
    let options = if syn { &SYN_OPTIONS[..] } else { &[1, 1] };
    let stamps = 40 + options.len();
    bytes[40..stamps].copy_from_slice(options);
    bytes[stamps..stamps + 2].copy_from_slice(&[8, 10]);
    let echo = stamps + if backward { 6 } else { 2 };
    bytes[echo..echo + 4].copy_from_slice(&packet.stamp.to_be_bytes());
    bytes
}

fn ip(bytes: &mut [u8; SYN_HEADERS], packet: &Packet, from: u32, to: u32) {
    let ecn = match (packet.has(Packet::CE), packet.has(Packet::ECT), packet.has(Packet::L4S)) {
        (true, ..) => 3,
        (false, true, true) => 1,
        (false, true, false) => 2,
        (false, false, _) => 0,
    };
    bytes[0..2].copy_from_slice(&[0x45, ecn]);
    bytes[2..4].copy_from_slice(&packet.size.to_be_bytes());
    // Not to be fragmented; 64 hops; TCP.
    bytes[6..10].copy_from_slice(&[0x40, 0, 64, 6]);
    bytes[12..16].copy_from_slice(&from.to_be_bytes());
    bytes[16..20].copy_from_slice(&to.to_be_bytes());
    let sum = bytes[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    bytes[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_3_of_flow_2_goes_from_its_sender_to_its_receiver() {
        let packet = Packet { seq: 3, flow: 2, stamp: 7, size: 1500, flags: Packet::ECT, ..Packet::default() };
        let bytes = headers(&packet);
        assert_eq!((bytes[0], bytes[1], &bytes[2..4], bytes[9]), (0x45, 2, &[5, 220][..], 6));
        assert_eq!((&bytes[12..16], &bytes[16..20]), (&[10, 1, 0, 2][..], &[10, 129, 0, 2][..]));
        assert_eq!(bytes[20..28], [0, 3, 0, 3, 0, 0, 0x10, 0xf9], "3 · 1448 + 1 = 4345 = 0x10f9");
        assert_eq!((bytes[33], &bytes[44..48]), (PSH_ACK, &[0, 0, 0, 7][..]));
        let sum: u32 = bytes[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn an_ack_goes_back_and_acknowledges_what_came_before_its_segment() {
        let packet = Packet { seq: 1, stamp: 9, size: 52, flags: Packet::ACK | Packet::ECE, ..Packet::default() };
        let bytes = headers(&packet);
        assert_eq!((&bytes[12..16], &bytes[16..20]), (&[10, 129, 0, 0][..], &[10, 1, 0, 0][..]));
        assert_eq!(bytes[28..32], 1449u32.to_be_bytes());
        assert_eq!((bytes[33], &bytes[48..52]), (ACK | ECE, &[0, 0, 0, 9][..]));
    }
}
