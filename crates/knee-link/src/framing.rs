//! Bytes that an IP packet takes on a line: headers, a least size, and the cells or codewords of DSL.
//!
//! ```text
//! n = max(IP packet + overhead, mpu)      ethernet: n      atm: 53 ceil(n / 48)      ptm: n + ceil(n / 64)
//! ```
//!
//! ATM carries 48 bytes in each cell of 53, the last one padded (ITU-T I.363.5). PTM sends 65 bytes for 64; as in Linux
//! there is one more for each 64 begun.

use knee_core::choice;

choice! {
    /// The layer that carries packets below their last header.
    #[derive(Default)]
    pub enum LinkLayer {
        /// Nothing that adds bytes.
        #[default]
        Ethernet = "ethernet",
        /// Cells of ATM, as on ADSL.
        Atm = "atm",
        /// 64/65-octet codewords, as on VDSL2.
        Ptm = "ptm",
    }
}

/// Bytes that a packet takes beyond its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes on top of each IP packet.
    pub overhead: u32,
    /// Bytes that a packet takes at least, overhead included and cells not.
    pub mpu: u32,
    /// The layer below.
    pub linklayer: LinkLayer,
}

impl From<u32> for Framing {
    /// Overhead alone.
    fn from(overhead: u32) -> Self {
        Self { overhead, ..Self::default() }
    }
}

impl Framing {
    /// Bytes on the line of an IP packet of `size` bytes.
    #[inline]
    pub fn bytes(self, size: u16) -> u64 {
        let bytes = (u64::from(size) + u64::from(self.overhead)).max(u64::from(self.mpu));
        match self.linklayer {
            LinkLayer::Ethernet => bytes,
            LinkLayer::Atm => bytes.div_ceil(48) * 53,
            LinkLayer::Ptm => bytes + bytes.div_ceil(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(overhead: u32, mpu: u32, linklayer: LinkLayer, sizes: [u16; 3]) -> [u64; 3] {
        sizes.map(|size| Framing { overhead, mpu, linklayer }.bytes(size))
    }

    #[test]
    fn a_packet_takes_whole_cells_of_atm() {
        // PPPoE over LLC/SNAP, 40 bytes: an ACK of 92 bytes takes two cells, a full packet of 1540 takes 33; one more
        // byte than 32 cells hold takes another cell.
        assert_eq!(bytes(40, 0, LinkLayer::Atm, [52, 1500, 1496]), [106, 1749, 32 * 53]);
        assert_eq!(bytes(40, 0, LinkLayer::Atm, [1497, 8, 9]), [33 * 53, 53, 2 * 53]);
    }

    #[test]
    fn ptm_adds_a_byte_for_each_64_begun_and_mpu_raises_small_packets() {
        assert_eq!(bytes(30, 0, LinkLayer::Ptm, [34, 35, 1500]), [65, 67, 1530 + 24]);
        assert_eq!(bytes(18, 64, LinkLayer::Ethernet, [40, 46, 1500]), [64, 64, 1518]);
        // The least size is put into cells, too.
        assert_eq!(bytes(10, 96, LinkLayer::Atm, [40, 86, 87]), [106, 106, 159]);
        assert_eq!(bytes(14, 0, LinkLayer::Ethernet, [52, 576, 1500]), [66, 590, 1514]);
    }
}
