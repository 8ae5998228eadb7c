//! Scenarios of the criteria: the part of scenario files that this crate takes, and the specification of a run.
//!
//! It takes any network, and flows that are endless streams or transfers, whose receivers may misbehave. Any other key
//! is rejected by name, so that a scenario is either run as `knee evaluate` runs it, or not at all.

use knee_net::spec::{
    CapacitySpec, Change, FlowSpec, ModelSpec, QuicSpec, RecordedSpec, TcpSpec, Transport, ValueSpec,
};
use knee_scenario::{Path, quantity};
use knee_sim::Spec;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The congestion control of a scenario in whose place the algorithm under evaluation comes.
pub(crate) const PLACE: &str = "X";
/// Interval of the time series, ns: the default of scenario files.
const INTERVAL: u64 = 100_000_000;
/// Receive window, bytes. Several times what any path and buffer of the criteria hold, so that it limits none but an
/// algorithm that sends all at once.
const RECEIVE_WINDOW: u64 = 64 << 20;

/// A scenario with [`PLACE`] where the algorithm comes.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    network: knee_scenario::Scenario,
    sent: Sent,
}

/// The keys beside those of the network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    #[serde(deserialize_with = "time")]
    duration: u64,
    #[serde(default, deserialize_with = "time")]
    warmup: u64,
    #[serde(default)]
    tcp: Tcp,
    flows: Vec<Flow>,
    #[serde(default, rename = "link")]
    _link: IgnoredAny,
    #[serde(default, rename = "links")]
    _links: IgnoredAny,
    #[serde(default, rename = "changes")]
    _changes: IgnoredAny,
}

/// Settings of the TCP endpoints.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tcp {
    #[serde(default, deserialize_with = "size")]
    receive_window: Option<u64>,
}

/// A flow, or `count` identical ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flow {
    cc: String,
    label: String,
    #[serde(default, deserialize_with = "time")]
    start: u64,
    #[serde(default, deserialize_with = "size")]
    bytes: Option<u64>,
    #[serde(default = "one")]
    count: u64,
    #[serde(default, deserialize_with = "time")]
    stagger: u64,
    receiver: Option<String>,
    /// Counts, since receivers have no other parameters.
    #[serde(default)]
    receiver_params: BTreeMap<String, u64>,
    #[serde(rename = "rtt")]
    _rtt: IgnoredAny,
    #[serde(default, rename = "path")]
    _path: IgnoredAny,
    #[serde(default, rename = "direction")]
    _direction: IgnoredAny,
}

const fn one() -> u64 {
    1
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    quantity::time(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    quantity::size(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
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
        self.sent.flows.iter().filter(|flow| flow.cc == PLACE).map(|flow| flow.label.as_str())
    }

    /// True if receivers of the algorithm's flows misbehave, which only those over TCP can.
    pub(crate) fn misbehaves(&self) -> bool {
        self.sent.flows.iter().any(|flow| flow.cc == PLACE && flow.receiver.is_some())
    }

    /// The greatest rate that a link has in the course of time, bit/s.
    pub(crate) fn greatest_rate(&self) -> u64 {
        let links = self.network.links.iter().map(|link| match &link.capacity {
            CapacitySpec::Rate(rate) => *rate,
            CapacitySpec::Rates(RecordedSpec { values, .. }) => values.iter().copied().max().unwrap_or(u64::MAX),
            // Opportunities of one millisecond may be many.
            CapacitySpec::Trace(_) => u64::MAX,
        });
        let changed = self.network.changes.iter().filter_map(|change| match change.what {
            Change::Rate { rate, .. } => Some(rate),
            _ => None,
        });
        links.chain(changed).fold(0, u64::max)
    }

    /// The specification of a run.
    ///
    /// # Errors
    /// A change of a flow that is not there.
    pub(crate) fn spec(&self, placed: Placed<'_>, seed: u64) -> Result<Spec, String> {
        let Self { network, sent } = self;
        let (mut flows, mut numbers) = (Vec::new(), Vec::new());
        let each = sent.flows.iter().flat_map(|flow| (0..flow.count).map(move |number| (flow, number)));
        for ((flow, number), path) in each.zip(&network.paths) {
            let (cc, transport) = match placed {
                _ if flow.cc != PLACE => (flow.cc.as_str(), Transport::Tcp),
                Placed::Flows(cc, transport) => (cc, transport),
                Placed::Nothing => {
                    numbers.push(None);
                    continue;
                }
            };
            numbers.push(Some(flows.len()));
            flows.push(flow.spec(number, path, (cc, transport), sent.duration));
        }
        let mut changes = network.changes.clone();
        for change in &mut changes {
            if let Change::Rtt { flow, .. } = &mut change.what {
                let label = &network.paths[*flow].label;
                *flow = numbers[*flow].ok_or_else(|| format!("a change of the flow {label}"))?;
            }
        }
        let window = sent.tcp.receive_window.unwrap_or(RECEIVE_WINDOW);
        Ok(Spec {
            duration: sent.duration,
            seed,
            warmup: sent.warmup,
            interval: INTERVAL,
            tcp: TcpSpec { receive_window: Some(window), ..TcpSpec::default() },
            quic: QuicSpec { receive_window: Some(window), ..QuicSpec::default() },
            links: network.links.clone(),
            flows,
            changes,
        })
    }
}

impl Flow {
    fn spec(&self, number: u64, path: &Path, (cc, transport): (&str, Transport), stop: u64) -> FlowSpec {
        FlowSpec {
            bytes: self.bytes,
            transport,
            receiver: self.receiver(),
            ..path.flow(cc, self.start + number * self.stagger, stop)
        }
    }

    fn receiver(&self) -> Option<ModelSpec> {
        let params = self.receiver_params.iter().map(|(name, count)| (name.clone(), ValueSpec::Count(*count)));
        self.receiver.clone().map(|name| ModelSpec { name, params: params.collect() })
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
    let text = toml::to_string(&table).map_err(|error| error.to_string())?;
    let sent = table.try_into().map_err(|error: toml::de::Error| {
        // Without the list of what there is, which says nothing to readers of a report.
        error.message().split(", expected").next().unwrap_or_default().replace("unknown field", "the key")
    })?;
    let network = knee_scenario::read(&text, "scenario").map_err(|error| format!("{}: {}", error.key, error.found))?;
    Ok(Scenario { network, sent })
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
