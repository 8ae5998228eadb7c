//! The tables `[[probes]]`.

use crate::Path;
use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, name, out_of_range, word};
use crate::links::Link;
use crate::node::{Table, Value};
use crate::paths::{Group, dscp, names, route};
use crate::units::{BYTES, TIME};
use crate::words::{near, quoted, shown};
use knee_net::spec::{EcnSpec, FlowSpec};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The default time between two, ns, and the least.
const INTERVAL: u64 = 10_000_000;
const LEAST_INTERVAL: u64 = 100_000;
/// The default size of an IP packet, bytes.
const SIZE: u64 = 64;

/// A probe of a file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Probe {
    /// Its path and label, as of a flow.
    #[serde(flatten)]
    pub(crate) way: Group,
    interval: u64,
    size: u64,
    start: u64,
    stop: Option<u64>,
    #[serde(skip)]
    ecn: EcnSpec,
}

/// Probe `number` of `count`.
pub(crate) fn probe(given: &Table, number: usize, count: usize) -> Result<Probe, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let interval = fields.take("interval", |value| {
        let interval = TIME.parse(value, false)?;
        if interval >= LEAST_INTERVAL {
            return Ok(interval);
        }
        let found = format!("{} is too short", TIME.text(interval));
        Err(refused(found, format!("expected {} or more", TIME.text(LEAST_INTERVAL))))
    });
    let size = fields.take("size", |value| {
        let size = BYTES.parse(value, false)?;
        let about = "the size of an IP packet, \"36 B\" to \"1500 B\"";
        if (36..=1500).contains(&size) { Ok(size) } else { Err(out_of_range(value, about)) }
    });
    let about = "the base round-trip time, such as \"20 ms\"";
    let rtt = fields.require("rtt", about, |value| TIME.parse(value, false));
    let start = fields.take("start", |value| TIME.parse(value, true));
    let stop = fields.take("stop", |value| TIME.parse(value, false));
    let path = fields.take("path", names);
    let direction = fields.take("direction", |value| word(value, &["forward", "reverse"]));
    let tunnel = fields.take("tunnel", name);
    let dscp = fields.take("dscp", dscp);
    let ecn = fields.take("ecn", ecn);
    let label = fields.take("label", name);
    fields.end(&KEYS);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let usual = if count == 1 { "probe".into() } else { format!("probe {}", number + 1) };
    let way = Group {
        given: Table::default(),
        label: Some(label.unwrap_or(usual)),
        rtt: rtt.unwrap_or_default(),
        path,
        count: 1,
        reverse: direction == Some("reverse"),
        tunnel,
        dscp: dscp.unwrap_or(0),
    };
    let (interval, size) = (interval.unwrap_or(INTERVAL), size.unwrap_or(SIZE));
    Ok(Probe { way, interval, size, start: start.unwrap_or(0), stop, ecn: ecn.unwrap_or_default() })
}

const KEYS: [&str; 11] =
    ["interval", "size", "rtt", "start", "stop", "path", "direction", "tunnel", "dscp", "ecn", "label"];

fn ecn(value: &Value) -> Read<EcnSpec> {
    match value {
        Value::Bool(on) => Ok(if *on { EcnSpec::On } else { EcnSpec::Off }),
        Value::Text(text) if text == "l4s" => Ok(EcnSpec::L4s),
        other => {
            let named = if let Value::Text(text) = other { text.clone() } else { shown(other) };
            Err(refused(format!("{} is not known", shown(other)), near(&named, &["false", "true", "l4s"])))
        }
    }
}

impl Probe {
    /// The links that it crosses.
    pub(crate) fn check(&self, links: &[Link], labels: &BTreeSet<String>, end: u64) -> Read<Vec<usize>> {
        let route = route(&self.way, links)?;
        let [start, last] = [self.start, end].map(|at| TIME.text(at));
        if self.start >= end {
            let found = format!("the start at {start} is not before the end at {last}");
            return Err(refused(found, "expected an earlier start").under("start"));
        }
        if let Some(stop) = self.stop.filter(|stop| *stop <= self.start) {
            let found = format!("the stop at {} is not after the start at {start}", TIME.text(stop));
            return Err(refused(found, "expected a later stop").under("stop"));
        }
        match &self.way.label {
            Some(label) if labels.contains(label) => {
                let found = format!("{} is already used", quoted(label));
                Err(refused(found, "each probe needs its own label").under("label"))
            }
            _ => Ok(route),
        }
    }

    /// The engine's form, in a run that ends at `end`.
    pub(crate) fn spec(&self, path: &Path, end: u64) -> FlowSpec {
        let traffic = serde_json::json!({"kind": "probe", "packet": self.size, "interval": self.interval});
        FlowSpec {
            cc_params: serde_json::value::to_raw_value(&serde_json::json!({})).ok(),
            ecn: self.ecn,
            traffic: serde_json::from_value(traffic).ok(),
            ..path.flow("none", self.start, self.stop.unwrap_or(end).min(end))
        }
    }
}
