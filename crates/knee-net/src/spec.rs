//! The specification of a simulation: a scenario with every default written out and every quantity in base units (times
//! in nanoseconds, rates in bits per second, sizes in bytes), as the Python package hands it over in JSON.

mod endpoints;

pub use endpoints::{QuicPreset, QuicSpec, TcpSpec};
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
}
