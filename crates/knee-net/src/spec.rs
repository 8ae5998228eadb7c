//! The specification of a simulation: a scenario with every default written out and every quantity in base units (times
//! in nanoseconds, rates in bits per second, sizes in bytes), as the Python package hands it over in JSON.

use knee_core::{Bytes, Rng, Time};
pub use knee_core::{ParamsSpec, ValueSpec};
use knee_link::LinkLayer;
use knee_traffic::TrafficSpec;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A whole experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Simulated time, ns.
    pub duration: u64,
    /// Seed of all random streams.
    pub seed: u64,
    /// Figures count from each flow's start plus this, ns.
    pub warmup: u64,
    /// Interval of the time series, ns.
    pub interval: u64,
    /// Settings of the TCP endpoints.
    #[serde(default)]
    pub tcp: TcpSpec,
    /// Settings of the QUIC endpoints.
    #[serde(default)]
    pub quic: QuicSpec,
    /// The links.
    pub links: Vec<LinkSpec>,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// Changes during the run.
    #[serde(default)]
    pub changes: Vec<ChangeSpec>,
}

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

/// A link with its queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Its name.
    pub name: String,
    /// Its capacity.
    pub capacity: CapacitySpec,
    /// Name of the queue discipline.
    pub queue: String,
    /// Capacity of the queue. `None` for the discipline's own default.
    pub limit: Option<LimitSpec>,
    /// Parameters of the queue discipline.
    #[serde(default)]
    pub queue_params: BTreeMap<String, ValueSpec>,
    /// Bytes counted on top of each IP packet.
    pub overhead: u32,
    /// Bytes that a packet takes at least.
    #[serde(default)]
    pub mpu: u32,
    /// The layer that carries packets.
    #[serde(default)]
    pub linklayer: LinkLayerSpec,
    /// How it sends what it carries.
    #[serde(default)]
    pub model: ModelSpec,
    /// Name of the channel that it shares with the other links that name it. `None` for one of its own.
    #[serde(default)]
    pub channel: Option<String>,
    /// Random loss probability before the queue.
    #[serde(default)]
    pub loss: f64,
    /// Model of that loss. `None` for `loss` of each packet.
    #[serde(default)]
    pub loss_model: Option<ModelSpec>,
    /// Propagation delay behind the queue, ns; part of the base RTT of the flows that cross it.
    #[serde(default)]
    pub delay: u64,
    /// Largest random extra delay behind the queue, ns, uniform from 0.
    #[serde(default)]
    pub jitter: u64,
    /// Distribution of the extra delay. `None` for that of `jitter`.
    #[serde(default)]
    pub delay_model: Option<ModelSpec>,
    /// Extra delays of which each packet has one, ns. `None` for those of `jitter` or `delay_model`.
    #[serde(default)]
    pub delay_table: Option<Vec<u64>>,
    /// True if the extra delay may change the order of packets.
    #[serde(default)]
    pub reorder: bool,
    /// Extra propagation delay behind the queue by time, ns.
    #[serde(default)]
    pub delay_trace: Option<RecordedSpec<u64>>,
    /// Loss probability before the queue by time, in place of `loss`.
    #[serde(default)]
    pub loss_trace: Option<RecordedSpec<f64>>,
    /// Slots in which packets are let go at the other end.
    #[serde(default)]
    pub slot: Option<SlotSpec>,
    /// Probability that a packet is damaged on the link.
    #[serde(default)]
    pub corrupt: f64,
    /// Bytes a token bucket may send at once (Linux's htb). `None` for a wire that serialises each packet.
    pub burst: Option<u64>,
    /// The other direction. `None` if it never queues.
    pub reverse: Option<ReverseSpec>,
}

impl LinkSpec {
    /// Its forward direction, described as the reverse one is.
    pub(crate) fn forward(&self) -> ReverseSpec {
        let Self { capacity, model, queue, limit, queue_params, delay_trace, loss_trace, .. } = self.clone();
        let (overhead, mpu, linklayer) = (Some(self.overhead), self.mpu, self.linklayer);
        ReverseSpec {
            capacity,
            model,
            queue,
            limit,
            queue_params,
            delay_trace,
            loss_trace,
            slot: self.slot,
            corrupt: self.corrupt,
            overhead,
            mpu,
            linklayer,
        }
    }
}

/// One of several ways in which a part of a link works.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Its name.
    pub name: String,
    /// Its parameters.
    #[serde(default)]
    pub params: ParamsSpec,
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self { name: "wire".into(), params: ParamsSpec::new() }
    }
}

/// The reverse direction of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReverseSpec {
    /// Its capacity.
    pub capacity: CapacitySpec,
    /// How it sends that.
    #[serde(default)]
    pub model: ModelSpec,
    /// Name of the queue discipline.
    pub queue: String,
    /// Capacity of the queue.
    pub limit: Option<LimitSpec>,
    /// Parameters of the queue discipline.
    #[serde(default)]
    pub queue_params: BTreeMap<String, ValueSpec>,
    /// Extra propagation delay behind the queue by time, ns.
    #[serde(default)]
    pub delay_trace: Option<RecordedSpec<u64>>,
    /// Loss probability before the queue by time.
    #[serde(default)]
    pub loss_trace: Option<RecordedSpec<f64>>,
    /// Slots in which packets are let go at the other end.
    #[serde(default)]
    pub slot: Option<SlotSpec>,
    /// Probability that a packet is damaged on the link.
    #[serde(default)]
    pub corrupt: f64,
    /// Bytes counted on top of each IP packet. `None` for those of the forward direction.
    #[serde(default)]
    pub overhead: Option<u32>,
    /// Bytes that a packet takes at least.
    #[serde(default)]
    pub mpu: u32,
    /// The layer that carries packets.
    #[serde(default)]
    pub linklayer: LinkLayerSpec,
}

/// Slots of one direction of a link (netem's `slot`).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotSpec {
    /// Least time to the next slot, ns.
    pub min: u64,
    /// Greatest time to it, ns, at least that.
    pub max: u64,
    /// Packets of a slot at the most. `None` for any number.
    #[serde(default)]
    pub packets: Option<u64>,
    /// Bytes after which a slot takes no more packets. `None` for any number.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// The layer that carries packets below their last header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayerSpec {
    /// Nothing that adds bytes.
    #[default]
    Ethernet,
    /// ATM's cells.
    Atm,
    /// VDSL2's codewords.
    Ptm,
}

impl From<LinkLayerSpec> for LinkLayer {
    fn from(asked: LinkLayerSpec) -> Self {
        match asked {
            LinkLayerSpec::Ethernet => Self::Ethernet,
            LinkLayerSpec::Atm => Self::Atm,
            LinkLayerSpec::Ptm => Self::Ptm,
        }
    }
}

/// Capacity of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapacitySpec {
    /// A fixed rate, bit/s.
    Rate(u64),
    /// Delivery opportunities of 1500 bytes each at these milliseconds, ascending; repeats after the last.
    Trace(Vec<u64>),
    /// Recorded rates, bit/s.
    Rates(RecordedSpec<u64>),
}

impl CapacitySpec {
    /// Returns true if it is recorded, and so no rate that could be changed.
    pub const fn is_recorded(&self) -> bool {
        !matches!(self, Self::Rate(_))
    }
}

/// Values by time, as recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedSpec<T> {
    /// From when on each value holds, ns: ascending, the first 0.
    pub at: Vec<u64>,
    /// The values, as many.
    pub values: Vec<T>,
    /// When it begins anew, ns, after the last of `at`. `None` if the last value holds on.
    pub period: Option<u64>,
}

/// Capacity of a queue.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitSpec {
    /// Packets.
    Packets(u64),
    /// Bytes.
    Bytes(u64),
    /// Time at the link's rate, ns.
    Time(u64),
}

impl LimitSpec {
    /// Its figure as results give it: packets, bytes or ms.
    pub fn figure(self) -> f64 {
        match self {
            Self::Packets(n) | Self::Bytes(n) => n as f64,
            Self::Time(ns) => Time::from_nanos(ns).as_millis_f64(),
        }
    }
}

impl From<LimitSpec> for knee_queue::Limit {
    fn from(limit: LimitSpec) -> Self {
        match limit {
            LimitSpec::Packets(n) => Self::Packets(n),
            LimitSpec::Bytes(n) => Self::Bytes(Bytes(n)),
            LimitSpec::Time(ns) => Self::Time(Time::from_nanos(ns)),
        }
    }
}

impl FlowSpec {
    /// Returns true if it goes over TCP, and not over UDP.
    pub fn is_tcp(&self) -> bool {
        self.transport == Transport::Tcp && !self.sends_datagrams()
    }

    /// Returns true if its application sits where its data goes to, and asks for it.
    pub fn pulls(&self) -> bool {
        self.traffic.as_ref().is_some_and(TrafficSpec::pulls)
    }

    /// Returns true if it sends datagrams, and is no connection.
    pub fn sends_datagrams(&self) -> bool {
        self.traffic.as_ref().is_some_and(TrafficSpec::is_datagrams)
    }

    /// Seed of its endpoints' random numbers, by its name: flows beside it do not change them.
    pub fn seed(&self, of_run: u64) -> u64 {
        Rng::stream(of_run, &format!("flow/{}", self.label)).next_u64()
    }

    /// Returns true if `other` has the same congestion control with the same parameters.
    pub fn same_cc(&self, other: &Self) -> bool {
        let [mine, theirs] = [self, other].map(|flow| flow.cc_params.as_ref().map(|raw| raw.get()));
        let [plan, other_plan] = [self, other].map(|flow| flow.policy.as_ref().map(|raw| raw.get()));
        self.cc == other.cc && mine == theirs && plan == other_plan
    }
}

/// A flow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Its name.
    pub label: String,
    /// Name of the congestion control.
    pub cc: String,
    /// Parameters of the congestion control, a map of [`ValueSpec`]s by name. It is read once for all flows in a row
    /// that are the same: there may be a million.
    pub cc_params: Option<Box<RawValue>>,
    /// The policy that its window or rate follows, in place of an algorithm (`knee_sim::policy::Plan`).
    #[serde(default)]
    pub policy: Option<Box<RawValue>>,
    /// Base round-trip time, ns: link delays and the fixed delay of the ACK path.
    pub rtt: u64,
    /// When the connection is opened, ns.
    pub start: u64,
    /// When the sender stops sending new data, ns.
    pub stop: u64,
    /// Size of a finite transfer. `None` if endless.
    pub bytes: Option<u64>,
    /// Indices of the links crossed, in order.
    pub path: Vec<usize>,
    /// True if the data takes the links' reverse direction, from the last of the path to the first.
    #[serde(default)]
    pub reverse: bool,
    /// True if window-based algorithms are paced too.
    #[serde(default)]
    pub pacing: bool,
    /// How ECN is used; algorithms that need ECN have it in any case.
    #[serde(default)]
    pub ecn: EcnSpec,
    /// Transport protocol.
    #[serde(default)]
    pub transport: Transport,
    /// True if QUIC's packets are encrypted.
    #[serde(default)]
    pub tls: bool,
    /// Its traffic. `None` for an endless stream, or the transfer of `bytes`.
    #[serde(default)]
    pub traffic: Option<TrafficSpec>,
    /// How its receiver misbehaves. `None` if it is honest.
    #[serde(default)]
    pub receiver: Option<ModelSpec>,
    /// Number of the tunnel that it goes through. `None` for no tunnel.
    #[serde(default)]
    pub tunnel: Option<u32>,
    /// Codepoint of its packets, both ways (DSCP, RFC 2474), below 64.
    #[serde(default)]
    pub dscp: u8,
}

/// How a flow is to use ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EcnSpec {
    /// ECN only if the algorithm needs it.
    #[default]
    Off,
    /// ECT(0), with the feedback that the algorithm asks for.
    On,
    /// ECT(0) and accurate feedback.
    Accurate,
    /// ECT(1) (RFC 9331) and accurate feedback.
    L4s,
}

/// Transport protocol of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP like Linux's.
    #[default]
    Tcp,
    /// A QUIC stack.
    Quic,
}

/// Something that changes during the run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeSpec {
    /// When, ns.
    pub at: u64,
    /// The change.
    pub what: Change,
}

/// A change.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A link's rate, bit/s.
    Rate {
        /// Index of the link.
        link: usize,
        /// The new rate, bit/s.
        rate: u64,
    },
    /// A link's loss probability.
    Loss {
        /// Index of the link.
        link: usize,
        /// The new probability.
        loss: f64,
    },
    /// A queue's capacity.
    Limit {
        /// Index of the link.
        link: usize,
        /// The new capacity.
        limit: LimitSpec,
    },
    /// A flow's base RTT.
    Rtt {
        /// Index of the flow.
        flow: usize,
        /// The new base RTT, ns.
        rtt: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{flow, link, read, spec};
    use serde_json::{Value, json};

    fn with(changes: &[(&str, Value)]) -> FlowSpec {
        let mut flow = flow(&[0]);
        for (key, value) in changes {
            flow[key] = value.clone();
        }
        read(&spec(&[link("a")], &[flow])).flows.remove(0)
    }

    #[test]
    fn a_flow_goes_over_tcp_unless_over_quic_or_in_datagrams() {
        let probe = ("traffic", json!({"kind": "probe", "packet": 100, "interval": 1_000_000}));
        let video = json!({
            "kind": "video", "ladder": [1_000_000], "segment": 4_000_000_000_u64, "buffer": 20_000_000_000_u64,
            "algorithm": "bba", "length": null
        });
        let flows = [with(&[]), with(&[("transport", json!("quic"))]), with(&[probe]), with(&[("traffic", video)])];
        assert_eq!(flows.each_ref().map(FlowSpec::is_tcp), [true, false, false, true]);
        assert_eq!(flows.each_ref().map(FlowSpec::sends_datagrams), [false, false, true, false]);
        // A player asks for its segments.
        assert_eq!(flows.each_ref().map(FlowSpec::pulls), [false, false, false, true]);
    }

    #[test]
    fn flows_have_the_same_congestion_control_where_name_and_parameters_are_the_same() {
        let of = |cc: &str, beta: f64| with(&[("cc", json!(cc)), ("cc_params", json!({"beta": {"ratio": beta}}))]);
        assert!(of("cubic", 0.7).same_cc(&of("cubic", 0.7)));
        assert!(!of("cubic", 0.7).same_cc(&of("cubic", 0.8)));
        assert!(!of("cubic", 0.7).same_cc(&of("reno", 0.7)));
        assert!(!of("cubic", 0.7).same_cc(&with(&[("cc", json!("cubic"))])));
    }

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
