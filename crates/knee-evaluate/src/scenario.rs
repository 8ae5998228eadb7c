//! Scenarios of the criteria: the part of scenario files that this crate takes, and the specification of a run.
//!
//! It takes one link that is a wire, and flows that are endless streams or transfers, whose receivers may misbehave.
//! Any other key is rejected by name, so that a scenario is either run as `knee evaluate` runs it, or not at all.

use crate::quantity::{BitsPerSecond, Limit, Nanos, Size};
use knee_net::spec::EcnSpec;
use knee_net::spec::{
    Capacity, Change, ChangeSpec, FlowSpec, LinkLayerSpec, LinkSpec, ModelSpec, QuicSpec, TcpSpec, Transport, ValueSpec,
};
use knee_sim::Spec;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The congestion control of a scenario in whose place the algorithm under evaluation comes.
pub(crate) const PLACE: &str = "X";
/// Name of the one link, unless a scenario gives another.
const LINK: &str = "bottleneck";
/// Bytes that a link counts on top of each IP packet: an Ethernet header, the default of scenario files.
const OVERHEAD: u32 = 14;
/// Interval of the time series, ns: the default of scenario files.
const INTERVAL: u64 = 100_000_000;
/// Receive window of TCP flows, bytes. Several times what any path and buffer of the criteria hold, so that it limits
/// none but an algorithm that sends all at once.
const RECEIVE_WINDOW: u64 = 64 << 20;

/// A scenario with [`PLACE`] where the algorithm comes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    duration: Nanos,
    #[serde(default)]
    warmup: Nanos,
    #[serde(default)]
    tcp: Tcp,
    link: Link,
    flows: Vec<Flow>,
    #[serde(default)]
    changes: Vec<RawChange>,
}

/// Settings of the TCP endpoints.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tcp {
    receive_window: Option<Size>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    rate: BitsPerSecond,
    #[serde(default = "pfifo")]
    queue: String,
    limit: Option<Limit>,
    #[serde(default)]
    loss: f64,
    #[serde(default)]
    jitter: Nanos,
    #[serde(default)]
    reorder: bool,
}

fn pfifo() -> String {
    "pfifo".into()
}

/// A flow, or `count` identical ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flow {
    cc: String,
    label: String,
    rtt: Nanos,
    #[serde(default)]
    start: Nanos,
    bytes: Option<Size>,
    #[serde(default = "one")]
    count: u64,
    #[serde(default)]
    stagger: Nanos,
    receiver: Option<String>,
    /// Counts, since receivers have no other parameters.
    #[serde(default)]
    receiver_params: BTreeMap<String, u64>,
}

const fn one() -> u64 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    at: Nanos,
    link: Option<String>,
    flow: Option<String>,
    rate: Option<BitsPerSecond>,
    rtt: Option<Nanos>,
}

/// The replacement of the algorithm under evaluation in a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placed<'a> {
    /// Flows with a congestion control of this name, over TCP or QUIC.
    Flows(&'a str, Transport),
    /// Nothing: what the others are worth alone.
    Nothing,
}

impl Scenario {
    /// The labels of the flows in whose place the algorithm comes.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        self.flows.iter().filter(|flow| flow.cc == PLACE).map(|flow| flow.label.as_str())
    }

    /// True if receivers of the algorithm's flows misbehave, which only those over TCP can.
    pub(crate) fn misbehaves(&self) -> bool {
        self.flows.iter().any(|flow| flow.cc == PLACE && flow.receiver.is_some())
    }

    /// The greatest rate that the link has in the course of time, bit/s.
    pub(crate) fn greatest_rate(&self) -> u64 {
        let changed = self.changes.iter().filter_map(|change| change.rate);
        changed.map(|rate| rate.0).fold(self.link.rate.0, u64::max)
    }

    /// The specification of a run.
    ///
    /// # Errors
    /// What in the scenario this crate does not have.
    pub(crate) fn spec(&self, placed: Placed<'_>, seed: u64) -> Result<Spec, String> {
        let mut flows = Vec::new();
        for flow in &self.flows {
            let (cc, transport) = match placed {
                _ if flow.cc != PLACE => (flow.cc.as_str(), Transport::Tcp),
                Placed::Flows(cc, transport) => (cc, transport),
                Placed::Nothing => continue,
            };
            flows.extend((0..flow.count).map(|i| self.flow(flow, i, cc, transport)));
        }
        let changes = self.changes.iter().map(|change| change.read(&flows)).collect::<Result<_, _>>()?;
        let window = self.tcp.receive_window.as_ref().map_or(RECEIVE_WINDOW, |size| size.0);
        Ok(Spec {
            duration: self.duration.0,
            seed,
            warmup: self.warmup.0,
            interval: INTERVAL,
            tcp: TcpSpec { receive_window: Some(window), ..TcpSpec::default() },
            quic: QuicSpec::default(),
            links: vec![self.link.spec()],
            flows,
            changes,
        })
    }

    fn flow(&self, flow: &Flow, number: u64, cc: &str, transport: Transport) -> FlowSpec {
        let label = if flow.count == 1 { flow.label.clone() } else { format!("{} {}", flow.label, number + 1) };
        FlowSpec {
            label,
            cc: cc.into(),
            cc_params: None,
            policy: None,
            rtt: flow.rtt.0,
            start: flow.start.0 + number * flow.stagger.0,
            stop: self.duration.0,
            bytes: flow.bytes.map(|size| size.0),
            path: vec![0],
            reverse: false,
            pacing: false,
            ecn: EcnSpec::Off,
            transport,
            tls: false,
            traffic: None,
            receiver: flow.receiver(),
            tunnel: None,
            dscp: 0,
        }
    }
}

impl Flow {
    fn receiver(&self) -> Option<ModelSpec> {
        let params = self.receiver_params.iter().map(|(name, count)| (name.clone(), ValueSpec::Count(*count)));
        self.receiver.clone().map(|name| ModelSpec { name, params: params.collect() })
    }
}

impl Link {
    fn spec(&self) -> LinkSpec {
        LinkSpec {
            name: LINK.into(),
            capacity: Capacity::Rate(self.rate.0),
            queue: self.queue.clone(),
            limit: self.limit.map(|limit| limit.0),
            queue_params: BTreeMap::new(),
            overhead: OVERHEAD,
            mpu: 0,
            linklayer: LinkLayerSpec::default(),
            model: ModelSpec::default(),
            channel: None,
            loss: self.loss,
            loss_model: None,
            delay: 0,
            jitter: self.jitter.0,
            delay_model: None,
            delay_table: None,
            reorder: self.reorder,
            delay_trace: None,
            loss_trace: None,
            slot: None,
            corrupt: 0.0,
            burst: None,
            reverse: None,
        }
    }
}

impl RawChange {
    fn read(&self, flows: &[FlowSpec]) -> Result<ChangeSpec, String> {
        let what = match (self.link.as_deref(), &self.flow, self.rate, self.rtt) {
            (Some(LINK), None, Some(rate), None) => Change::Rate { link: 0, rate: rate.0 },
            (None, Some(label), None, Some(rtt)) => {
                let flow = flows.iter().position(|flow| flow.label == *label);
                Change::Rtt { flow: flow.ok_or_else(|| format!("a change of the flow {label}"))?, rtt: rtt.0 }
            }
            _ => return Err("a change of something else than a link's rate or a flow's RTT".into()),
        };
        Ok(ChangeSpec { at: self.at.0, what })
    }
}

/// A scenario from the table of its file, with each change `key=value` applied.
///
/// # Errors
/// The key or the value that this crate does not have.
pub(crate) fn read(mut table: Table, changes: &[String]) -> Result<Scenario, String> {
    for change in changes {
        let (key, value) = change.split_once('=').ok_or_else(|| format!("the change {change:?}"))?;
        put(&mut table, key.trim(), value.trim()).ok_or_else(|| format!("the key {key}"))?;
    }
    table.try_into().map_err(|error: toml::de::Error| {
        // Without the list of what there is, which says nothing to readers of a report.
        error.message().split(", expected").next().unwrap_or_default().replace("unknown field", "the key")
    })
}

/// Sets a key such as `flows.0.count`; `None` if there is no such place. A value that is not TOML is text.
fn put(table: &mut Table, key: &str, value: &str) -> Option<()> {
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    let (path, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut place = table;
    let mut parts = path.split('.').filter(|part| !part.is_empty());
    while let Some(part) = parts.next() {
        place = match place.get_mut(part)? {
            Value::Table(table) => table,
            Value::Array(elements) => {
                let index: usize = parts.next()?.parse().ok()?;
                elements.get_mut(index)?.as_table_mut()?
            }
            _ => return None,
        };
    }
    place.insert(last.to_owned(), value);
    Some(())
}
