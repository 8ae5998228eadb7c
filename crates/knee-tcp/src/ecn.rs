//! How a connection uses ECN: the codepoint of its packets, and what its receiver tells of CE marks.

use knee_core::Packet;

/// The receiver's feedback of CE marks to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// ACKs echo a mark until the sender reports that it reduced its window (RFC 3168, 6.1).
    Classic,
    /// ACKs echo whether the packets they acknowledge were marked (DCTCP: RFC 8257, 3.2).
    PerPacket,
    /// ACKs count the marked packets in three bits (accurate ECN: RFC 9768).
    Accurate,
}

/// How a connection uses ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecn {
    /// Flags of data packets: none, [`Packet::ECT`], or that and [`Packet::L4S`].
    pub codepoint: u8,
    /// Flags of SYN and SYN-ACK: `codepoint` where the algorithm needs ECN, else none.
    pub handshake: u8,
    /// The receiver's feedback of CE marks.
    pub feedback: Feedback,
}

impl Ecn {
    /// No ECN.
    pub const OFF: Self = Self { codepoint: 0, handshake: 0, feedback: Feedback::Classic };
    /// ECT(0) with the feedback of RFC 3168.
    pub const CLASSIC: Self = Self { codepoint: Packet::ECT, ..Self::OFF };
    /// ECT(0) with DCTCP's feedback (RFC 8257, 3.2), for algorithms that need it.
    pub const PER_PACKET: Self = Self { feedback: Feedback::PerPacket, ..Self::CLASSIC.needed() };
    /// ECT(0) with accurate feedback (RFC 9768).
    pub const ACCURATE: Self = Self { feedback: Feedback::Accurate, ..Self::CLASSIC };
    /// As L4S requires (RFC 9331, 4.1 and 4.2).
    pub const L4S: Self = Self { codepoint: Packet::ECT | Packet::L4S, ..Self::ACCURATE };

    /// Makes SYN and SYN-ACK ECN-capable as well, for an algorithm that needs ECN: a queue that marks then does not
    /// keep the flow from connecting (Linux's `INET_ECN_xmit`).
    #[must_use]
    pub const fn needed(self) -> Self {
        //= RFC 8257, 3.6 (departs: RSTs are not simulated)
        //# Hence, for DCTCP connections, the sender SHOULD set ECT for SYN, SYN-ACK, and RST packets.
        Self { handshake: self.codepoint, ..self }
    }

    /// True if data packets are ECN-capable.
    pub const fn is_on(self) -> bool {
        self.codepoint != 0
    }

    /// Flags of a SYN that offers it: ECE and CWR (RFC 3168, 6.1.1), and AE where feedback is accurate (RFC 9768,
    /// 3.1.1).
    pub const fn of_syn(self) -> u8 {
        let offer = match (self.is_on(), self.is_accurate()) {
            (false, _) => 0,
            (true, false) => Packet::ECE | Packet::CWR,
            (true, true) => Packet::AE | Packet::ECE | Packet::CWR,
        };
        offer | self.handshake
    }

    /// Flags of the SYN-ACK that accepts what `syn` offers: ECE (RFC 3168, 6.1.1), or the ECN field of the SYN where
    /// feedback is accurate (RFC 9768, 3.1.2, Table 2).
    pub const fn of_syn_ack(self, syn: &Packet) -> u8 {
        let accept = match (self.is_on(), self.is_accurate()) {
            (false, _) => 0,
            (true, false) => Packet::ECE,
            (true, true) if syn.has(Packet::CE) => Packet::AE | Packet::CWR,
            (true, true) if syn.has(Packet::L4S) => Packet::CWR | Packet::ECE,
            (true, true) if syn.has(Packet::ECT) => Packet::AE,
            (true, true) => Packet::CWR,
        };
        accept | self.handshake
    }

    /// True if the flags of a SYN offer ECN, or those of a SYN-ACK accept it.
    pub const fn is_in_handshake(flags: u8) -> bool {
        flags & (Packet::ECE | Packet::CWR | Packet::AE) != 0
    }

    /// True if ACKs carry a counter of marks.
    pub const fn is_accurate(self) -> bool {
        matches!(self.feedback, Feedback::Accurate)
    }

    /// True if the sender reports a reduced window with CWR. Accurate ECN uses that bit otherwise.
    pub const fn reports_reductions(self) -> bool {
        //= RFC 9768, 3.1.5
        //# MUST NOT set CWR to indicate that it has received and responded to indications of congestion.
        self.is_on() && !self.is_accurate()
    }

    /// True if retransmissions and pure ACKs are ECN-capable too, as in Linux where feedback is accurate or the
    /// algorithm needs ECN: a queue that marks early would drop them. Else they are not (RFC 3168, 6.1.4 and 6.1.5).
    const fn is_on_all(self) -> bool {
        self.is_accurate() || self.handshake != 0
    }

    /// Flags of a data packet.
    pub const fn of_data(self, retransmission: bool) -> u8 {
        //= RFC 9768, 3.1.5
        //# SHOULD set an ECT codepoint in the IP header of packets to indicate to the network that the transport is
        //# capable and willing to participate in ECN for this packet;
        if retransmission && !self.is_on_all() { 0 } else { self.codepoint }
    }

    /// Flags of a pure ACK.
    pub const fn of_acks(self) -> u8 {
        if self.is_on_all() { self.codepoint } else { 0 }
    }
}

//= RFC 9768, 3.2.1
//# it initializes its counters to r.cep = 5,
/// Where both ends begin to count (RFC 9768, 3.2.1: `s.cep` and `r.cep`).
pub const FIRST_COUNT: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ecn; 5] = [Ecn::OFF, Ecn::CLASSIC, Ecn::PER_PACKET, Ecn::ACCURATE, Ecn::L4S];

    #[test]
    fn the_handshake_offers_and_accepts_ecn_as_its_rfcs_say() {
        // RFC 3168, 6.1.1: an ECN-setup SYN has ECE and CWR, an ECN-setup SYN-ACK ECE alone. RFC 9768, 3.1.1: (AE, CWR,
        // ECE) = (1, 1, 1) offers accurate ECN; 3.1.2, Table 2: (0, 1, 0) accepts it, if the SYN was not ECN-capable.
        let (ae, cwr, ece) = (Packet::AE, Packet::CWR, Packet::ECE);
        let bits = |flags| flags & (ae | cwr | ece);
        assert_eq!(ALL.map(|ecn| bits(ecn.of_syn())), [0, cwr | ece, cwr | ece, ae | cwr | ece, ae | cwr | ece]);
        let accepted = |flags| ALL.map(|ecn| bits(ecn.of_syn_ack(&Packet { flags, ..Packet::default() })));
        assert_eq!(accepted(0), [0, ece, ece, cwr, cwr]);
        // The rest of Table 2: accurate feedback says what the SYN came with.
        assert_eq!(accepted(Packet::ECT), [0, ece, ece, ae, ae]);
        assert_eq!(accepted(Packet::ECT | Packet::L4S), [0, ece, ece, cwr | ece, cwr | ece]);
        assert_eq!(accepted(Packet::ECT | Packet::CE), [0, ece, ece, ae | cwr, ae | cwr]);
        assert_eq!(accepted(Packet::ECT | Packet::L4S | Packet::CE), [0, ece, ece, ae | cwr, ae | cwr]);
    }

    #[test]
    fn packets_have_the_codepoint_that_their_rfcs_allow() {
        let (ect0, ect1) = (Packet::ECT, Packet::ECT | Packet::L4S);
        assert_eq!(ALL.map(|ecn| ecn.of_data(false)), [0, ect0, ect0, ect0, ect1]);
        // RFC 8257, 3.6: SYN and SYN-ACK where the algorithm needs ECN. RFC 3168, 6.1.1: not where it does not.
        let handshake = |ecn: Ecn| {
            let both = [ecn.of_syn(), ecn.of_syn_ack(&Packet::default())];
            both.map(|flags| flags & (Packet::ECT | Packet::L4S))
        };
        assert_eq!(ALL.map(handshake), [[0; 2], [0; 2], [ect0; 2], [0; 2], [0; 2]]);
        assert_eq!(ALL.map(|ecn| handshake(ecn.needed())), [[0; 2], [ect0; 2], [ect0; 2], [ect0; 2], [ect1; 2]]);
        // RFC 3168, 6.1.4 and 6.1.5: neither pure ACKs nor retransmissions are ECN-capable. Linux sets the codepoint
        // once for all packets where the algorithm needs ECN.
        for of in [Ecn::of_acks, |ecn: Ecn| ecn.of_data(true)] {
            assert_eq!(ALL.map(of), [0, 0, ect0, ect0, ect1]);
            assert_eq!(ALL.map(|ecn| of(ecn.needed())), [0, ect0, ect0, ect0, ect1]);
        }
        // RFC 9768, 3.1.5: CWR does not report reductions.
        assert_eq!(ALL.map(Ecn::reports_reductions), [false, true, true, false, false]);
        assert_eq!(ALL.map(Ecn::is_on), [false, true, true, true, true]);
    }
}
