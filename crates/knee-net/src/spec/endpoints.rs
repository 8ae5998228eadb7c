//! Settings of the endpoints of a simulation.

use serde::Deserialize;

/// Settings of the TCP endpoints, the same for all flows; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpSpec {
    /// Clock tick of the kernel, ns: timers and algorithms that count jiffies see time at this resolution. 0: ideal.
    pub tick: u64,
    /// Initial window in packets (RFC 6928).
    pub initial_window: u32,
    /// Least retransmission timeout, ns (Linux's TCP_RTO_MIN).
    pub rto_min: u64,
    /// Longest delay of an ACK, ns (Linux's TCP_DELACK_MIN, its usual value).
    pub delayed_ack: u64,
    /// Longest delay of compressed SACKs, ns (Linux's tcp_comp_sack_delay_ns); 0 sends each at once.
    pub sack_delay: u64,
    /// How long a receiver's host joins segments that follow each other to one packet, which it acknowledges once, ns
    /// (Linux's GRO, between two interrupts of its card); 0: not at all.
    pub receive_offload: u64,
    /// True if senders hand segments down in bursts sized to a millisecond of their pacing rate, as Linux does (TSO
    /// autosizing and deferral), or one by one.
    pub tso: bool,
    /// Bursts are larger on short paths: their part beyond the rate's halves for every 2^this us of the least RTT
    /// (Linux's tcp_tso_rtt_log, since 5.18). 0, as good as never: before 5.18.
    pub tso_rtt_log: u32,
    /// True if a window that is idle or not used for a timeout shrinks (Linux's tcp_slow_start_after_idle; RFC 2861).
    pub slow_start_after_idle: bool,
    /// Bytes up to which the receiver's window grows as data arrives, half of the receive buffer: until then every
    /// packet is acknowledged at once (Linux's tcp_grow_window). It limits nothing, that is `receive_window`'s part.
    pub window_growth: u64,
    /// Receive window in bytes. `None` for no limit.
    pub receive_window: Option<u64>,
    /// True if RTT figures are those of a packet trace, as Wireshark's `tcp.analysis.ack_rtt`: from the first
    /// transmission of a segment to the ACK that ends with it, which includes the recovery of losses before it.
    /// Otherwise they are the samples of the sender.
    pub trace_rtt: bool,
}

impl Default for TcpSpec {
    fn default() -> Self {
        Self {
            tick: 4_000_000,
            initial_window: 10,
            rto_min: 200_000_000,
            delayed_ack: 40_000_000,
            sack_delay: 1_000_000,
            receive_offload: 0,
            tso: true,
            tso_rtt_log: 9,
            slow_start_after_idle: true,
            window_growth: 16 << 20,
            receive_window: None,
            trace_rtt: false,
        }
    }
}

/// Settings of the QUIC endpoints, the same for all flows; by default windows limit nothing.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuicSpec {
    /// With knee's endpoints: the stack whose defaults hold where a key that may be left out is.
    pub preset: Option<QuicPreset>,
    /// With knee's endpoints: bytes of the server's certificates.
    pub certificate: u64,
    /// With knee's endpoints: whether the client's data leaves behind its hello.
    pub zero_rtt: bool,
    /// With knee's endpoints: whether the server asks for a token first.
    pub retry: bool,
    /// With knee's endpoints: time without a packet after which a connection is closed, ns. `None`: it is not.
    pub idle_timeout: Option<u64>,
    /// With knee's endpoints: packets of the initial window.
    pub initial_window: Option<u32>,
    /// With knee's endpoints: RTT before the first sample, ns.
    pub initial_rtt: Option<u64>,
    /// With knee's endpoints: packets by which a packet is reordered before it is lost.
    pub packet_threshold: Option<u32>,
    /// With knee's endpoints: whether packets are paced where the algorithm does not ask for it.
    pub pacing: Option<bool>,
    /// With knee's endpoints: packets that leave together where they are paced.
    pub gso: u32,
    /// Bytes of data that a connection's receiver takes ahead of what is read (RFC 9000, 4.1). `None` for no limit.
    pub receive_window: Option<u64>,
    /// Bytes of data that the receiver of one stream takes ahead of what is read. `None` for no limit.
    pub stream_receive_window: Option<u64>,
    /// With knee's endpoints: streams that a server lets a client have open at once (RFC 9000, 4.6).
    pub max_streams: u32,
    /// With a stack's endpoints: bytes of UDP payload of a full datagram at the start.
    pub initial_mtu: u16,
    /// Bytes of UDP payload of a full datagram; with a stack's endpoints, up to which path MTU discovery raises it (RFC
    /// 8899).
    pub max_mtu: Option<u16>,
    /// Longest delay of an ACK, ns (RFC 9000, 18.2).
    pub max_ack_delay: Option<u64>,
    /// Ack-eliciting packets after which the next one is acknowledged at once (draft-ietf-quic-ack-frequency).
    pub ack_eliciting_threshold: Option<u64>,
    /// Bytes of datagrams that may wait in a sender; the oldest go where more come.
    pub datagram_buffer: u64,
}

impl Default for QuicSpec {
    fn default() -> Self {
        Self {
            preset: None,
            certificate: 400,
            zero_rtt: false,
            retry: false,
            idle_timeout: None,
            initial_window: None,
            initial_rtt: None,
            packet_threshold: None,
            pacing: None,
            gso: 1,
            receive_window: None,
            stream_receive_window: None,
            max_streams: 100,
            initial_mtu: 1200,
            max_mtu: None,
            max_ack_delay: None,
            ack_eliciting_threshold: None,
            datagram_buffer: 1 << 20,
        }
    }
}

impl QuicSpec {
    /// Bytes of `max_mtu` where no preset has another: those of the stacks.
    pub const USUAL_MTU: u16 = 1452;

    /// Bytes up to which a stack's path MTU discovery goes.
    pub fn stacks_mtu(&self) -> u16 {
        self.max_mtu.unwrap_or(Self::USUAL_MTU)
    }

    /// Longest delay of a stack's ACK, ns (RFC 9000, 18.2).
    pub fn stacks_ack_delay(&self) -> u64 {
        self.max_ack_delay.unwrap_or(25_000_000)
    }

    /// Ack-eliciting packets after which a stack acknowledges the next one at once.
    pub fn stacks_ack_threshold(&self) -> u64 {
        self.ack_eliciting_threshold.unwrap_or(1)
    }
}

/// Stacks of QUIC whose defaults knee's endpoints can have.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum QuicPreset {
    /// quinn's.
    Quinn,
    /// Cloudflare's quiche's.
    Quiche,
    /// neqo's.
    Neqo,
    /// picoquic's.
    Picoquic,
    /// MsQuic's.
    Msquic,
    /// ngtcp2's.
    Ngtcp2,
    /// Chromium's.
    Chromium,
}

#[cfg(test)]
mod tests {
    use crate::testing::{flow, link, read, spec};

    #[test]
    fn defaults_of_tcp_are_those_of_linux() {
        // include/net/tcp.h: TCP_INIT_CWND, TCP_RTO_MIN, TCP_DELACK_MIN with HZ = 250; sysctls
        // tcp_comp_sack_delay_ns, tcp_tso_rtt_log and tcp_slow_start_after_idle.
        let tcp = read(&spec(&[link("a")], &[flow(&[0])])).tcp;
        assert_eq!((tcp.tick, tcp.initial_window, tcp.rto_min), (4_000_000, 10, 200_000_000));
        assert_eq!((tcp.delayed_ack, tcp.sack_delay, tcp.tso, tcp.tso_rtt_log), (40_000_000, 1_000_000, true, 9));
        assert!(tcp.slow_start_after_idle);
    }
}
