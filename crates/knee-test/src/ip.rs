//! Headers of IP: what is read of packets, and what captures show of datagrams that have none.

use crate::{Ecn, HEADERS, Inside, Port};
use knee_core::convert::{index_u16, low_u16};
use std::net::{Ipv4Addr, SocketAddrV4};

/// The UDP port of far ends; that of near ones is behind it.
const UDP_PORT: u16 = 4433;

/// The address of a port.
pub(crate) const fn address(port: Port) -> SocketAddrV4 {
    let [_, high, middle, low] = (port.path() + 1).to_be_bytes();
    let side = if port.is_far() { 129 } else { 1 };
    // Behind 65,535 paths the second byte counts on.
    let address = Ipv4Addr::new(10, side + high, middle, low);
    SocketAddrV4::new(address, if port.is_far() { UDP_PORT } else { UDP_PORT + 1 })
}

/// DSCP and ECN of an IP packet, as they are in a byte of the header.
pub(crate) fn fields(packet: &[u8]) -> Result<u8, &'static str> {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() < 20 => Err("a header of IPv4 has 20 bytes"),
        Some(4) => Ok(packet[1]),
        Some(6) if packet.len() < 40 => Err("a header of IPv6 has 40 bytes"),
        Some(6) => Ok(packet[0] << 4 | packet[1] >> 4),
        Some(_) => Err("the version is neither 4 nor 6"),
        None => Err("it is empty"),
    }
}

/// Sets the ECN field of an IP packet, and the checksum of its header where that has one.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    match fields(packet) {
        Ok(before) if before & 3 == ecn.bits() => {}
        Ok(_) if packet[0] >> 4 == 6 => packet[1] = packet[1] & !0x30 | ecn.bits() << 4,
        Ok(before) => {
            packet[1] = before & !3 | ecn.bits();
            packet[10..12].fill(0);
            let length = (usize::from(packet[0] & 15) * 4).min(packet.len());
            let sum = checksum(&packet[..length]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Err(_) => {}
    }
}

/// The checksum of the internet (RFC 1071) of an even number of bytes.
fn checksum(header: &[u8]) -> u16 {
    let sum: u64 =
        header.chunks(2).map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !low_u16((folded & 0xffff) + (folded >> 16))
}

/// The packet as a capture shows it, its first `most` bytes, and how long it is: datagrams have headers, without a
/// checksum of UDP (RFC 768).
pub(crate) fn shown(inside: &Inside, ecn: Ecn, most: usize) -> (Vec<u8>, usize) {
    if inside.is_ip {
        let mut bytes = inside.bytes.clone();
        set_ecn(&mut bytes, ecn);
        bytes.truncate(most);
        return (bytes, inside.bytes.len());
    }
    let length = inside.bytes.len() + HEADERS;
    let [from, to] = [inside.from, inside.from.other()].map(address);
    let mut bytes = Vec::with_capacity(most.min(length));
    bytes.extend([0x45, inside.dscp << 2 | ecn.bits()]);
    bytes.extend(index_u16(length).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend([from, to].iter().flat_map(|address| address.ip().octets()));
    let sum = checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend([from.port(), to.port(), index_u16(length - 20), 0].iter().flat_map(|field| field.to_be_bytes()));
    bytes.extend_from_slice(&inside.bytes[..inside.bytes.len().min(most.saturating_sub(HEADERS))]);
    bytes.truncate(most);
    (bytes, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Time;

    fn datagram(bytes: &[u8]) -> Inside {
        Inside { bytes: bytes.to_vec(), from: Port::near(2), sent: Time::ZERO, dscp: 46, is_ip: false }
    }

    #[test]
    fn a_datagram_is_shown_with_headers_whose_checksum_is_right() {
        let (bytes, length) = shown(&datagram(b"hello"), Ecn::Ect0, 30);
        assert_eq!((bytes.len(), length), (30, 33));
        assert_eq!((bytes[0], bytes[1], &bytes[2..4]), (0x45, 46 << 2 | 2, &[0, 33][..]));
        assert_eq!((&bytes[12..16], &bytes[16..20]), (&[10, 1, 0, 3][..], &[10, 129, 0, 3][..]));
        assert_eq!((&bytes[20..28], &bytes[28..]), (&[0x11, 0x52, 0x11, 0x51, 0, 13, 0, 0][..], &b"he"[..]));
        assert_eq!(checksum(&bytes[..20]), 0);
    }

    #[test]
    fn a_mark_is_set_in_both_versions_and_the_checksum_stays_right() {
        let (mut v4, _) = shown(&datagram(b"x"), Ecn::Ect0, 100);
        set_ecn(&mut v4, Ecn::Ce);
        assert_eq!((fields(&v4), checksum(&v4[..20])), (Ok(46 << 2 | 3), 0));
        let mut v6 = [0u8; 40];
        (v6[0], v6[1]) = (0x6b, 0x9a);
        assert_eq!(fields(&v6), Ok(46 << 2 | 1));
        set_ecn(&mut v6, Ecn::Ce);
        assert_eq!((v6[0], v6[1]), (0x6b, 0xba), "the flow label stays");
    }

    #[test]
    fn bytes_that_are_no_packet_are_refused_with_what_is_wrong() {
        let faults = [&[][..], &[0x45; 19], &[0x60; 39], &[0x15; 60]].map(|bytes| fields(bytes).unwrap_err());
        assert_eq!(faults[0], "it is empty");
        assert_eq!(faults[3], "the version is neither 4 nor 6");
    }
}
