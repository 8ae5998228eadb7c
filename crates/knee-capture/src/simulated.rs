//! Simulated packets with the headers they would have: IPv4, and TCP with timestamps, window and SACK blocks, or UDP.
//!
//! Flow n, counted from 1, runs from 10.1.0.0 plus n to 10.129.0.0 plus n, on port 1 + n modulo 60000 at both ends; of
//! connections of an application, the end that opens them takes the next port for each. The SYN has sequence number 0,
//! the first byte of data 1. The payload is not written; checksums are those of a payload of zeros.

use crate::Capture;
use etherparse::TcpOptionElement::{
    MaximumSegmentSize, Noop, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted, Timestamp, WindowScale,
};
use etherparse::{IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};
use knee_core::convert::{low_u32, saturating_u16};
use knee_core::packet::{MSS, MTU};
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_sim::Tap;
use knee_tcp::receiver::Range;
use knee_tcp::sender::AckInfo;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Hops that a packet may make, Linux's default.
const TTL: u8 = 64;
/// The payload, of which only the checksum is written.
const PAYLOAD: &[u8] = &[0; MTU as usize];
/// First addresses of senders and receivers.
const SENDERS: u32 = 0x0a01_0000;
const RECEIVERS: u32 = 0x0a81_0000;
/// Ports that flows share.
const PORTS: u64 = 60_000;
/// The largest shift of the window (RFC 7323, 2.3).
const MAX_SCALE: u8 = 14;

/// A file of simulated packets. Clones write into the same file, so that one can go into the simulation and another one
/// finish the file.
#[derive(Clone)]
pub struct Simulated(Arc<Mutex<SharedFile>>);

struct SharedFile {
    capture: Option<Capture>,
    /// Connections, by flow and number.
    connections: BTreeMap<(u32, u64), Connection>,
    /// The receivers' window in bytes, and the bits by which it is shifted in headers.
    window: u64,
    scale: u8,
}

/// State that the headers of a connection's packets take from earlier ones.
#[derive(Default)]
struct Connection {
    /// The stream of the flow's data, and the stream against it.
    streams: [Stream; 2],
    /// Its SYN goes against the flow's data.
    opened_backward: bool,
}

/// The data of a connection in one direction.
#[derive(Default)]
struct Stream {
    /// TSval of the last ACK, which data echo.
    echo: u32,
    /// Short segments, in their order, and by how many bytes these and those before them are shorter than full ones.
    short: Vec<(u64, u64)>,
    /// Segments sent, and those that ACKs have come for.
    sent: u64,
    acked: u64,
}

impl Simulated {
    /// Writes the packets of flows into `capture`. TCP's receivers offer `window` bytes. `None` for as much as TCP can.
    pub fn new(capture: Capture, window: Option<u64>) -> Self {
        let most = u64::from(u16::MAX);
        let window = window.unwrap_or(u64::MAX).min(most << MAX_SCALE);
        let scale = (0..MAX_SCALE).find(|scale| window >> scale <= most).unwrap_or(MAX_SCALE);
        let inside = SharedFile { capture: Some(capture), connections: BTreeMap::new(), window, scale };
        Self(Arc::new(Mutex::new(inside)))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error met while writing it.
    pub fn finish(&self) -> io::Result<()> {
        let capture = self.0.lock().unwrap_or_else(PoisonError::into_inner).capture.take();
        capture.map_or(Ok(()), Capture::finish)
    }
}

impl Tap for Simulated {
    fn sent(&mut self, at: Time, id: ConnectionId, packet: &Packet) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Payload::Data { seq, tsval } = packet.payload else {
            return inside.write(at, id, packet, &datagram_headers(id, packet));
        };
        let connection = inside.connection(id);
        if packet.has(Packet::SYN) {
            connection.opened_backward = id.is_mirrored();
        }
        let stream = connection.stream(id);
        let segment = seq.near(stream.sent);
        stream.note_sent(segment, packet);
        let stamps = [tsval, stream.echo];
        let headers = inside.headers(id, packet, (segment, 0), stamps, &[]);
        inside.write(at, id, packet, &headers);
    }

    fn received(&mut self, at: Time, id: ConnectionId, packet: &Packet, ack: Option<&AckInfo>) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ack) = ack else { return inside.write(at, id, packet, &datagram_headers(id, packet)) };
        let left = low_u32(packet.at.as_nanos() / 1_000_000);
        inside.connection(id).stream(id).note_acked(left, ack);
        let headers = inside.headers(id, packet, (ack.seq, ack.part), [left, ack.tsecr], ack.blocks);
        inside.write(at, id, packet, &headers);
    }

    fn carried(&mut self, _: Time, id: ConnectionId, packet: &Packet, ack: &AckInfo) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Payload::Data { tsval, .. } = packet.payload else { return };
        inside.connection(id).stream(id).note_acked(tsval, ack);
    }
}

impl SharedFile {
    fn connection(&mut self, id: ConnectionId) -> &mut Connection {
        self.connections.entry((id.flow(), id.number())).or_default()
    }

    fn write(&mut self, at: Time, id: ConnectionId, packet: &Packet, headers: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.cut_packet(id.flow() as usize, at, headers, u32::from(packet.size));
        }
    }

    /// The headers of a packet of TCP with these timestamps (TSval, TSecr) and SACK blocks. Its place is a segment, its
    /// own or the next one expected, and how many bytes of it are acknowledged.
    fn headers(
        &mut self,
        id: ConnectionId,
        packet: &Packet,
        (segment, bytes): (u64, u16),
        stamps: [u32; 2],
        blocks: &[Range],
    ) -> Vec<u8> {
        let (window, scale) = (self.window, self.scale);
        let connection = self.connection(id);
        let (addresses, ports) = (addresses(id, packet), connection.ports(id, packet));
        let (stream, other) =
            (&connection.streams[usize::from(id.is_mirrored())], &connection.streams[usize::from(!id.is_mirrored())]);
        let (syn, is_ack) = (packet.has(Packet::SYN) && !packet.ends_handshake(), packet.has(Packet::ACK));
        let (seq, ack) = match (syn, is_ack) {
            (true, _) => (0, u32::from(is_ack)),
            (false, true) => (other.place(other.sent), stream.place(segment).wrapping_add(u32::from(bytes))),
            (false, false) => (stream.place(segment), other.place(other.acked)),
        };
        // RFC 7323, 2.2: the window of a SYN is not shifted.
        let window = if syn { window.min(u64::from(u16::MAX)) } else { window >> scale };
        let blocks: Vec<_> = blocks.iter().map(|&(a, b)| (stream.place(a), stream.place(b))).collect();
        let mut tcp = TcpHeader::new(ports[0], ports[1], seq, saturating_u16(window));
        tcp.acknowledgment_number = ack;
        let is_data = !syn && !is_ack;
        (tcp.syn, tcp.ack, tcp.psh) = (syn, is_ack || !syn, is_data && packet.has(Packet::PSH));
        // The bit that RFC 9768 calls AE was NS before.
        tcp.ns = !is_data && packet.has(Packet::AE);
        (tcp.cwr, tcp.ece) = (packet.has(Packet::CWR), packet.has(Packet::ECE));
        let options = options(syn.then_some(scale), stamps, &blocks);
        tcp.set_options(&options).expect("40 bytes hold timestamps and three blocks, which are all that Linux sends");
        let ip = ip(packet, addresses, IpNumber::TCP);
        let payload = usize::from(packet.size).saturating_sub(ip.header_len() + tcp.header_len());
        tcp.checksum = tcp.calc_checksum_ipv4(&ip, &PAYLOAD[..payload]).expect("a packet is no longer than an MTU");
        [&ip.to_bytes()[..], &tcp.to_bytes()].concat()
    }
}

/// The addresses from which to which a packet goes.
const fn addresses(id: ConnectionId, packet: &Packet) -> [u32; 2] {
    let (sender, receiver) = (SENDERS + id.flow() + 1, RECEIVERS + id.flow() + 1);
    if id.is_mirrored() == packet.has(Packet::ACK) { [sender, receiver] } else { [receiver, sender] }
}

/// The port of both ends of a flow, at connections that follow each other that of the end that opens them.
const fn port(id: ConnectionId, number: u64) -> u16 {
    1 + ((id.flow() as u64 + 1 + number) % PORTS) as u16
}

/// The headers of a datagram. Its checksum of 0 says that there is none (RFC 768).
fn datagram_headers(id: ConnectionId, packet: &Packet) -> Vec<u8> {
    let (ip, port) = (ip(packet, addresses(id, packet), IpNumber::UDP), port(id, 0));
    let length = packet.size - Ipv4Header::MIN_LEN_U16;
    let udp = UdpHeader { source_port: port, destination_port: port, length, checksum: 0 };
    [&ip.to_bytes()[..], &udp.to_bytes()].concat()
}

impl Connection {
    fn stream(&mut self, id: ConnectionId) -> &mut Stream {
        &mut self.streams[usize::from(id.is_mirrored())]
    }

    /// The ports from which to which a packet goes.
    const fn ports(&self, id: ConnectionId, packet: &Packet) -> [u16; 2] {
        let (client, server) = (port(id, id.number()), port(id, 0));
        let backward = id.is_mirrored() != packet.has(Packet::ACK);
        if backward == self.opened_backward { [client, server] } else { [server, client] }
    }
}

impl Stream {
    /// An ACK has arrived that left at `left`, in milliseconds.
    fn note_acked(&mut self, left: u32, ack: &AckInfo) {
        (self.echo, self.acked) = (left, self.acked.max(ack.seq));
    }

    fn note_sent(&mut self, segment: u64, packet: &Packet) {
        if packet.has(Packet::SYN) {
            return;
        }
        self.sent = self.sent.max(segment + 1);
        let (last, missing) = self.short.last().map_or((None, 0), |&(segment, missing)| (Some(segment), missing));
        if packet.size < MTU && last < Some(segment) {
            self.short.push((segment, missing + u64::from(MTU - packet.size)));
        }
    }

    /// The sequence number of the first byte of a segment, or of the end of those sent.
    fn place(&self, segment: u64) -> u32 {
        let before = self.short.partition_point(|&(short, _)| short < segment);
        let missing = before.checked_sub(1).map_or(0, |last| self.short[last].1);
        low_u32(1 + segment * u64::from(MSS) - missing)
    }
}

/// TCP's options: on a SYN, which has a scale, the largest segment, SACK permitted and the scale; timestamps
/// (RFC 7323); SACK blocks (RFC 2018). Padded to words as Linux does it.
fn options(scale: Option<u8>, [value, echo]: [u32; 2], blocks: &[(u32, u32)]) -> Vec<TcpOptionElement> {
    let mut options = match scale {
        Some(scale) => {
            vec![MaximumSegmentSize(MTU - 40), SelectiveAcknowledgementPermitted, WindowScale(scale), Noop]
        }
        None => vec![Noop, Noop],
    };
    options.push(Timestamp(value, echo));
    if let Some((&first, more)) = blocks.split_first() {
        let more = [0, 1, 2].map(|i| more.get(i).copied());
        options.extend([Noop, Noop, SelectiveAcknowledgement(first, more)]);
    }
    options
}

fn ip(packet: &Packet, [from, to]: [u32; 2], protocol: IpNumber) -> Ipv4Header {
    let length = packet.size - Ipv4Header::MIN_LEN_U16;
    let header = Ipv4Header::new(length, TTL, protocol, from.to_be_bytes(), to.to_be_bytes());
    let mut header = header.expect("a packet is no longer than an MTU");
    header.ecn = IpEcn::try_new(packet.ecn_field()).expect("it has two bits");
    header.header_checksum = header.calc_header_checksum();
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP's flags, as RFC 9293 and RFC 3168 place them.
    const PSH: u8 = 0x08;
    const ACK: u8 = 0x10;
    const ECE: u8 = 0x40;

    /// The internet's checksum (RFC 1071) of an even number of bytes; zero over a header whose checksum is right.
    fn checksum<'a>(bytes: impl Iterator<Item = &'a u8>) -> u16 {
        let sum: u32 = bytes.enumerate().map(|(i, byte)| u32::from(*byte) << if i % 2 == 0 { 8 } else { 0 }).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    }

    const FLOW_3: ConnectionId = ConnectionId::of_flow(2);

    fn inside(window: u64, scale: u8) -> SharedFile {
        SharedFile { capture: None, connections: BTreeMap::new(), window, scale }
    }

    fn tap() -> Simulated {
        let file = std::fs::File::create("/dev/null").unwrap();
        Simulated::new(Capture::new(file, &["flow 1".into()], 0).unwrap(), None)
    }

    #[test]
    fn segment_3_of_flow_3_goes_from_its_sender_to_its_receiver() {
        let packet = Packet { flow: 2, size: 1500, flags: Packet::ECT, ..Packet::default() };
        let bytes = inside(1 << 20, 5).headers(FLOW_3, &packet, (3, 0), [7, 8], &[]);
        assert_eq!(bytes.len(), 52);
        assert_eq!((bytes[0], bytes[1], &bytes[2..4], bytes[9]), (0x45, 2, &[5, 220][..], 6));
        assert_eq!((&bytes[12..16], &bytes[16..20]), (&[10, 1, 0, 3][..], &[10, 129, 0, 3][..]));
        assert_eq!(bytes[20..28], [0, 4, 0, 4, 0, 0, 0x10, 0xf9], "3 · 1448 + 1 = 4345 = 0x10f9");
        assert_eq!((bytes[33], &bytes[44..52]), (ACK, &[0, 0, 0, 7, 0, 0, 0, 8][..]));
        let last = Packet { flags: Packet::ECT | Packet::PSH, ..packet };
        assert_eq!(inside(1 << 20, 5).headers(FLOW_3, &last, (3, 0), [7, 8], &[])[33], PSH | ACK, "it ends a write");
        assert_eq!(bytes[34..36], [0x80, 0], "2^20 shifted by 5 is 2^15");
        assert_eq!(checksum(bytes[..20].iter()), 0);
        // RFC 9293, 3.1: over the pseudo-header (addresses, protocol, length), the header and the payload.
        assert_eq!(checksum(bytes[12..].iter().chain(&[0, 6, 0x05, 0xc8])), 0);
    }

    #[test]
    fn a_datagram_has_the_headers_of_ip_and_udp_and_its_echo_goes_back() {
        let packet = Packet { flow: 2, size: 200, flags: Packet::ECT | Packet::L4S, ..Packet::default() };
        let bytes = datagram_headers(FLOW_3, &packet);
        assert_eq!((bytes.len(), bytes[1], &bytes[2..4], bytes[9]), (28, 1, &[0, 200][..], 17));
        assert_eq!((&bytes[12..16], &bytes[16..20]), (&[10, 1, 0, 3][..], &[10, 129, 0, 3][..]));
        assert_eq!(bytes[20..28], [0, 4, 0, 4, 0, 180, 0, 0]);
        assert_eq!(checksum(bytes[..20].iter()), 0);
        let echo = datagram_headers(FLOW_3, &Packet { flags: Packet::ACK, ..packet });
        assert_eq!((&echo[12..16], &echo[16..20]), (&bytes[16..20], &bytes[12..16]));
    }

    #[test]
    fn an_ack_goes_back_with_what_came_before_its_segment_and_its_sack_blocks() {
        let packet = Packet { size: 72, flags: Packet::ACK | Packet::ECE, ..Packet::default() };
        let bytes = inside(1 << 20, 5).headers(ConnectionId::of_flow(0), &packet, (1, 0), [8, 9], &[(5, 6), (2, 4)]);
        assert_eq!((&bytes[12..16], &bytes[16..20]), (&[10, 129, 0, 1][..], &[10, 1, 0, 1][..]));
        assert_eq!(bytes[28..32], 1449u32.to_be_bytes());
        assert_eq!((bytes[33], &bytes[44..52]), (ACK | ECE, &[0, 0, 0, 8, 0, 0, 0, 9][..]));
        let blocks = [7241u32, 8689, 2897, 5793].map(u32::to_be_bytes).concat();
        assert_eq!((&bytes[52..56], &bytes[56..]), (&[1, 1, 5, 18][..], blocks.as_slice()));
        assert_eq!((bytes.len(), bytes[32] >> 4), (72, 13));
    }

    #[test]
    fn an_ack_of_a_part_of_a_segment_has_the_number_of_the_byte_behind_it() {
        let packet = Packet { flags: Packet::ACK, size: 52, ..Packet::default() };
        let bytes = inside(1 << 20, 5).headers(ConnectionId::of_flow(0), &packet, (1, 362), [8, 9], &[]);
        assert_eq!(bytes[28..32], (1 + 1448 + 362u32).to_be_bytes());
    }

    #[test]
    fn behind_a_short_segment_sequence_numbers_count_its_bytes() {
        let (mut tap, id) = (tap(), ConnectionId::of_flow(0));
        let short = Packet { payload: Payload::segment(2), size: 52 + 100, ..Packet::default() };
        tap.sent(Time::ZERO, id, &short);
        tap.sent(Time::ZERO, id, &Packet { payload: Payload::segment(3), size: MTU, ..short });
        tap.sent(Time::ZERO, id, &short);
        let inside = tap.0.lock().unwrap();
        let stream = &inside.connections[&(0, 0)].streams[0];
        assert_eq!([2, 3, 4].map(|segment| stream.place(segment)), [2897, 2997, 2997 + 1448]);
        assert_eq!((inside.window, inside.scale), (65_535 << 14, 14));
    }

    #[test]
    fn the_second_connection_of_an_application_is_opened_from_the_next_port() {
        let mut tap = tap();
        // The application is at the end that the flow's data goes to, so that its SYN goes against this.
        let (away, back) = (ConnectionId::new(0, 1, true), ConnectionId::new(0, 1, false));
        let packet = |flags| Packet { size: 60, flags, ..Packet::default() };
        tap.sent(Time::ZERO, away, &packet(Packet::SYN));
        let mut inside = tap.0.lock().unwrap();
        let mut ends = |id, flags| {
            let bytes = inside.headers(id, &packet(flags), (0, 0), [0, 0], &[]);
            (
                bytes[12..16].to_vec(),
                u16::from_be_bytes([bytes[20], bytes[21]]),
                u16::from_be_bytes([bytes[22], bytes[23]]),
            )
        };
        let (client, server) = (vec![10, 129, 0, 1], vec![10, 1, 0, 1]);
        assert_eq!(ends(away, Packet::SYN), (client.clone(), 3, 2));
        assert_eq!(ends(away, Packet::SYN | Packet::ACK), (server.clone(), 2, 3));
        assert_eq!(ends(back, 0), (server, 2, 3));
        assert_eq!(ends(back, Packet::ACK), (client, 3, 2));
    }
}
