//! Reads the headers that the switch needs: IPv4 (RFC 791), TCP (RFC 9293), UDP (RFC 768), and the ECN field (RFC
//! 3168).

use etherparse::{IpNumber, Ipv4HeaderSlice, TcpHeaderSlice, UdpHeaderSlice};
use knee_core::convert::{index_u32, low_u16};

/// Ports, numbers and flags of a TCP segment or a UDP datagram in an IPv4 packet. A datagram has neither numbers nor
/// flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// True if it is a UDP datagram.
    pub udp: bool,
    /// Source port.
    pub from: u16,
    /// Destination port.
    pub to: u16,
    /// Sequence number of the first byte (or of the SYN).
    pub seq: u32,
    /// The next byte expected.
    pub ack: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// True if it opens the connection.
    pub syn: bool,
    /// True if `ack` counts.
    pub has_ack: bool,
    /// The ECN field: 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
}

/// Congestion experienced.
const CE: u8 = 3;
/// Bytes of IPv6's header.
const V6_HEADER: usize = 40;

impl Header {
    /// Reads the headers of a packet; none if it is not a whole, unfragmented TCP segment or UDP datagram over IPv4.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let ip = Ipv4HeaderSlice::from_slice(packet).ok()?;
        if usize::from(ip.total_len()) != packet.len() || ip.is_fragmenting_payload() {
            return None;
        }
        let (inside, ecn) = (&packet[ip.slice().len()..], ip.ecn().value());
        match ip.protocol() {
            IpNumber::TCP => {
                let tcp = TcpHeaderSlice::from_slice(inside).ok()?;
                Some(Self {
                    udp: false,
                    from: tcp.source_port(),
                    to: tcp.destination_port(),
                    seq: tcp.sequence_number(),
                    ack: tcp.acknowledgment_number(),
                    payload: index_u32(inside.len() - tcp.slice().len()),
                    syn: tcp.syn(),
                    has_ack: tcp.ack(),
                    ecn,
                })
            }
            IpNumber::UDP => {
                let udp = UdpHeaderSlice::from_slice(inside).ok()?;
                let (from, to) = (udp.source_port(), udp.destination_port());
                let payload = index_u32(inside.len() - udp.slice().len());
                let whole = usize::from(udp.length()) == inside.len();
                whole.then_some(Self { udp: true, from, to, seq: 0, ack: 0, payload, syn: false, has_ack: false, ecn })
            }
            _ => None,
        }
    }

    /// Reads the headers of any packet: one that [`Header::read`] does not know counts as a datagram without ports.
    /// None if it is no whole packet of IPv4 or IPv6 (RFC 8200).
    pub fn read_any(packet: &[u8]) -> Option<Self> {
        Self::read(packet).or_else(|| {
            let (headers, bytes, ecn) = match packet.first()? >> 4 {
                4 => {
                    let ip = Ipv4HeaderSlice::from_slice(packet).ok()?;
                    (ip.slice().len(), usize::from(ip.total_len()), ip.ecn().value())
                }
                6 => (V6_HEADER, V6_HEADER + usize::from(be16(packet, 4)?), packet.get(1)? >> 4 & CE),
                _ => return None,
            };
            let payload = index_u32(bytes.checked_sub(headers)?);
            let other = Self { udp: true, from: 0, to: 0, seq: 0, ack: 0, payload, syn: false, has_ack: false, ecn };
            (bytes == packet.len()).then_some(other)
        })
    }
}

/// Marks an IP packet CE. Brings the checksum in line that IPv4 has (RFC 1624, equation 3).
pub fn mark(packet: &mut [u8]) {
    if packet.first().is_some_and(|byte| byte >> 4 == 6) {
        // The traffic class follows the version's four bits.
        if let Some(byte) = packet.get_mut(1) {
            *byte |= CE << 4;
        }
        return;
    }
    let (Some(before), Some(sum)) = (be16(packet, 0), be16(packet, 10)) else { return };
    let after = before | u16::from(CE);
    let sum = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[0..2].copy_from_slice(&after.to_be_bytes());
    packet[10..12].copy_from_slice(&(!low_u16(u64::from(folded))).to_be_bytes());
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// TCP's flags SYN and ACK.
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;

    /// The sum of RFC 1071 over a header; zero where its checksum is right.
    fn residue(header: &[u8]) -> u16 {
        let sum = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
        let folded = (sum & 0xffff) + (sum >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    }

    /// A segment of 10 bytes from port 1000 to port 2000, seq 7, ack 9, with timestamps (12 bytes of options).
    fn segment(tos: u8, flags: u8) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 62, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([3, 0xe8, 7, 0xd0, 0, 0, 0, 7, 0, 0, 0, 9, 0x80, flags, 1, 0, 0, 0, 0, 0]);
        packet.extend([0; 22]);
        let sum = residue(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn the_fields_of_a_segment_are_read() {
        let read = Header::read(&segment(2, ACK)).unwrap();
        let told =
            Header { udp: false, from: 1000, to: 2000, seq: 7, ack: 9, payload: 10, syn: false, has_ack: true, ecn: 2 };
        assert_eq!(read, told);
        assert!(Header::read(&segment(0, SYN)).unwrap().syn);
    }

    #[test]
    fn the_fields_of_a_datagram_are_read_and_its_length_must_be_right() {
        let mut packet = vec![0x45, 1, 0, 33, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([3, 0xe8, 7, 0xd0, 0, 13, 0, 0, 1, 2, 3, 4, 5]);
        let told =
            Header { udp: true, from: 1000, to: 2000, seq: 0, ack: 0, payload: 5, syn: false, has_ack: false, ecn: 1 };
        assert_eq!(Header::read(&packet), Some(told));
        packet[25] = 12;
        assert_eq!(Header::read(&packet), None);
    }

    #[test]
    fn what_is_no_whole_segment_or_datagram_over_ipv4_is_none() {
        let good = segment(0, ACK);
        for (at, byte) in [(0, 0x65), (0, 0x44), (9, 17), (6, 0x20), (7, 1), (3, 63), (32, 0xf0), (32, 0x40)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(Header::read(&bad), None, "byte {at} = {byte}");
        }
        assert_eq!(Header::read(&good[..30]), None);
        assert_eq!(Header::read(&[]), None);
    }

    #[test]
    fn any_whole_ip_packet_is_a_datagram_at_least_and_is_marked() {
        // An echo request with 8 bytes, whose first four would be ports; the same over IPv6.
        let mut ping = vec![0x45, 2, 0, 28, 0, 1, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ping.extend([8, 0, 0, 0, 0, 1, 0, 1]);
        let sum = residue(&ping[..20]);
        ping[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut ping6 = vec![0x60, 2 << 4, 0, 0, 0, 8, 58, 64];
        ping6.extend([0; 40]);
        for mut packet in [ping, ping6] {
            assert_eq!(Header::read(&packet), None);
            let told = Header::read_any(&packet).unwrap();
            assert_eq!((told.udp, told.from, told.to, told.payload, told.ecn), (true, 0, 0, 8, 2));
            mark(&mut packet);
            assert_eq!(Header::read_any(&packet).unwrap().ecn, 3);
            assert!(packet[0] >> 4 == 6 || residue(&packet[..20]) == 0);
            packet.pop();
            assert_eq!(Header::read_any(&packet), None);
        }
        assert_eq!(Header::read_any(&segment(0, ACK)), Header::read(&segment(0, ACK)));
    }

    proptest! {
        #[test]
        fn a_marked_packet_is_ce_with_a_right_checksum(tos in any::<u8>(), bytes in any::<[u8; 8]>()) {
            let mut packet = segment(tos, ACK);
            packet[12..20].copy_from_slice(&bytes);
            packet[10..12].copy_from_slice(&[0, 0]);
            let sum = residue(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(residue(&packet[..20]), 0);
            mark(&mut packet);
            prop_assert_eq!(packet[1], tos | CE);
            prop_assert_eq!(residue(&packet[..20]), 0);
        }

        #[test]
        fn reading_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Header::read_any(&bytes);
        }
    }
}
