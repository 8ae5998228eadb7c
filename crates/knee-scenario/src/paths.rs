//! The tables `[[flows]]`, as far as they say which way packets take.

use crate::Path;
use crate::error::{Part, Refused, refused};
use crate::fields::{Fields, Read, list, name, text, whole, within, word};
use crate::links::Link;
use crate::node::{Table, Value};
use crate::probes::Probe;
use crate::units::TIME;
use crate::words::{near, quoted, shown};
use knee_core::convert::index;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Keys of flows; those about what they send, and when, are read in `sent.rs`, as the path does not depend on them.
const KEYS: [&str; 22] = [
    "traffic",
    "cc",
    "cc_params",
    "program",
    "rtt",
    "start",
    "stop",
    "lasts",
    "bytes",
    "count",
    "stagger",
    "transport",
    "tls",
    "label",
    "path",
    "direction",
    "tunnel",
    "dscp",
    "pacing",
    "ecn",
    "receiver",
    "receiver_params",
];
/// Most flows, and most links on a path.
const MAX_FLOWS: u64 = 1_000_000;
const MAX_PATH: usize = 255;
const MAX_PROBES: usize = 1000;
/// Codepoints by name (RFC 2474, 2597, 3246, 5865, 8622, 9956), in the order of an error.
const OTHER_CODEPOINTS: [(&str, u8); 4] = [("EF", 46), ("VA", 44), ("LE", 1), ("NQB", 45)];

/// A flow, or `count` identical ones.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Group {
    /// Its table; none where the file has no flows.
    #[serde(skip)]
    pub(crate) given: Table,
    pub(crate) label: Option<String>,
    pub(crate) rtt: u64,
    /// `None` for all links.
    pub(crate) path: Option<Vec<String>>,
    #[serde(default = "one")]
    pub(crate) count: u64,
    pub(crate) reverse: bool,
    pub(crate) tunnel: Option<String>,
    pub(crate) dscp: u8,
}

const fn one() -> u64 {
    1
}

impl Group {
    /// One flow over all links, without any delay but theirs.
    pub(crate) fn over(links: &[Link]) -> Self {
        let rtt = links.iter().map(|link| link.delay).sum();
        Self { given: Table::default(), label: None, rtt, path: None, count: 1, reverse: false, tunnel: None, dscp: 0 }
    }
}

fn codepoints() -> Vec<(String, u8)> {
    let selectors = (0..8).map(|i| (format!("CS{i}"), 8 * i));
    let forwarding = (1..5).flat_map(|i| (1..4).map(move |j| (format!("AF{i}{j}"), 8 * i + 2 * j)));
    let others = OTHER_CODEPOINTS.map(|(name, number)| (name.to_owned(), number));
    selectors.chain(forwarding).chain(others).collect()
}

pub(crate) fn dscp(value: &Value) -> Read<u8> {
    const ACCEPTED: &str = "expected a name such as \"EF\", \"AF41\" or \"CS1\", or a number from 0 to 63";
    let known = codepoints();
    match value {
        Value::Text(text) => {
            let named = text.to_uppercase();
            let found = known.iter().find(|(name, _)| *name == named).map(|(_, number)| *number);
            found.ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
                refused(format!("{} is no codepoint", quoted(text)), format!("{ACCEPTED}; {}", near(&named, &names)))
            })
        }
        Value::Whole(n) if (0..64).contains(n) => Ok(u8::try_from(*n).unwrap_or(0)),
        other => Err(refused(format!("{} is no codepoint", shown(other)), ACCEPTED)),
    }
}

pub(crate) fn names(value: &Value) -> Result<Vec<String>, Refused> {
    let nodes = list(value)?;
    let each = nodes.iter().enumerate().map(|(i, node)| {
        text(&node.value).map(str::to_owned).map_err(|error| {
            let key = [&[Part::Index(i)], error.key.as_slice()].concat();
            Refused { key, ..error }
        })
    });
    each.collect()
}

/// A flow of a file.
pub(crate) fn group(given: &Table) -> Result<Group, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let about = "the base round-trip time, such as \"20 ms\"";
    let rtt = fields.require("rtt", about, |value| TIME.parse(value, false));
    let count = fields.take("count", |value| whole(value, 1, "a number of identical flows, 1 or more"));
    let label = fields.take("label", name);
    let path = fields.take("path", names);
    let direction = fields.take("direction", |value| word(value, &["forward", "reverse"]));
    let tunnel = fields.take("tunnel", name);
    let dscp = fields.take("dscp", dscp);
    fields.end(&KEYS);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let reverse = direction == Some("reverse");
    let (rtt, count, dscp) = (rtt.unwrap_or_default(), count.unwrap_or(1), dscp.unwrap_or(0));
    Ok(Group { given: given.clone(), label, rtt, path, count, reverse, tunnel, dscp })
}

/// The path of each single flow, and of each probe, which are groups of one. `check` looks at what else a group of
/// flows says, by its number.
pub(crate) fn counted_out(
    groups: &[Group],
    probes: &[Probe],
    links: &[Link],
    end: u64,
    check: impl Fn(usize) -> Read<()>,
) -> Read<(Vec<Path>, Vec<Path>)> {
    let total: u64 = groups.iter().map(|group| group.count).fold(0, u64::saturating_add);
    if total > MAX_FLOWS {
        return Err(refused(format!("there are {total} flows"), format!("expected at most {MAX_FLOWS}")).under("flows"));
    }
    let routes: Vec<Vec<usize>> = groups
        .iter()
        .enumerate()
        .map(|(i, group)| {
            let route = route(group, links).and_then(|route| check(i).map(|()| route));
            route.map_err(|error| within(error, "flows", i))
        })
        .collect::<Read<_>>()?;
    let mut paths: Vec<Path> = Vec::new();
    let mut labels = BTreeSet::new();
    for (i, (group, route)) in groups.iter().zip(&routes).enumerate() {
        for k in 0..group.count {
            let label = match (&group.label, group.count) {
                (Some(label), 1) => label.clone(),
                (Some(label), _) => format!("{label} {}", k + 1),
                (None, _) => format!("flow {}", paths.len() + 1),
            };
            if !labels.insert(label.clone()) {
                let error = refused(format!("{} is already used", quoted(&label)), "each flow needs its own label");
                return Err(within(error.under("label"), "flows", i));
            }
            let Group { rtt, reverse, dscp, .. } = *group;
            paths.push(Path { label, rtt, links: route.clone(), reverse, tunnel: None, dscp });
        }
    }
    if probes.len() > MAX_PROBES {
        let found = format!("there are {} probes", probes.len());
        return Err(refused(found, format!("expected at most {MAX_PROBES}")).under("probes"));
    }
    let (mut routes, mut probed) = (routes, Vec::with_capacity(probes.len()));
    for (i, probe) in probes.iter().enumerate() {
        let route = probe.check(links, &labels, end).map_err(|error| within(error, "probes", i))?;
        let Group { rtt, reverse, dscp, .. } = probe.way;
        let label = probe.way.label.clone().unwrap_or_default();
        labels.insert(label.clone());
        probed.push(Path { label, rtt, links: route.clone(), reverse, tunnel: None, dscp });
        routes.push(route);
    }
    let all: Vec<&Group> = groups.iter().chain(probes.iter().map(|probe| &probe.way)).collect();
    let tunnels = tunnels(&all, groups.len(), &routes, links)?;
    let single = all.iter().zip(tunnels).flat_map(|(group, tunnel)| (0..group.count).map(move |_| tunnel));
    paths.iter_mut().chain(&mut probed).zip(single).for_each(|(path, tunnel)| path.tunnel = tunnel);
    Ok((paths, probed))
}

/// The number of each tunnel by group; all that goes through one crosses the same links. Behind `flows` are probes.
fn tunnels(groups: &[&Group], flows: usize, routes: &[Vec<usize>], links: &[Link]) -> Read<Vec<Option<u32>>> {
    let place = |i: usize| if i < flows { ("flows", i) } else { ("probes", i - flows) };
    let (mut known, mut numbers) = (BTreeMap::<&str, (u32, usize)>::new(), Vec::with_capacity(groups.len()));
    for (i, group) in groups.iter().enumerate() {
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        let tunnel = group.tunnel.as_deref().map(|name| (name, *known.entry(name).or_insert((next, i))));
        numbers.push(tunnel.map(|(_, (number, _))| number));
        if let Some((name, (_, first))) = tunnel.filter(|(_, (_, first))| routes[*first] != routes[i]) {
            let (list, number) = place(first);
            let first_key = format!("{list}[{number}]");
            let found = format!("{} is also the tunnel of {first_key}, which crosses other links", quoted(name));
            let crossed = routes[first].iter().map(|i| serde_json::Value::from(links[*i].name.as_str()).to_string());
            let path = format!("[{}]", crossed.collect::<Vec<_>>().join(", "));
            let error = refused(found, format!("expected the path of {first_key}, {path}, or a tunnel of its own"));
            let (list, number) = place(i);
            return Err(within(error.under("tunnel"), list, number));
        }
    }
    Ok(numbers)
}

pub(crate) fn route(group: &Group, links: &[Link]) -> Read<Vec<usize>> {
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let path: Vec<&str> = match &group.path {
        Some(path) => path.iter().map(String::as_str).collect(),
        None => names.clone(),
    };
    if path.is_empty() {
        return Err(refused("the path is empty", format!("expected one or more of {}", names.join(", "))).under("path"));
    }
    if path.len() > MAX_PATH {
        let found = format!("the path has {} links", path.len());
        return Err(refused(found, format!("expected at most {MAX_PATH}")).under("path"));
    }
    let mut route = Vec::new();
    for (j, name) in path.iter().enumerate() {
        let at = |error: Refused| Refused { key: vec![Part::Key("path".into()), Part::Index(j)], ..error };
        let Some(i) = names.iter().position(|known| known == name) else {
            return Err(at(refused(format!("no link is named {}", quoted(name)), near(name, &names))));
        };
        if route.contains(&i) {
            let found = format!("{} is in the path twice", quoted(name));
            return Err(at(refused(found, "a path crosses each link at most once")));
        }
        if group.reverse && links[i].reverse.is_none() {
            let accepted = format!("add reverse = {{ rate = ... }} to the link {name}, or leave direction out");
            return Err(refused(format!("{} has no reverse direction", quoted(name)), accepted).under("direction"));
        }
        route.push(i);
    }
    check_delay(group.rtt, &route, links).map_err(|error| error.under("rtt"))?;
    Ok(route)
}

pub(crate) fn check_delay(rtt: u64, route: &[usize], links: &[Link]) -> Read<()> {
    let delay: u64 = route.iter().map(|i| links[*i].delay).sum();
    if delay > rtt {
        let found = format!("{} is less than the links' delay of {}", TIME.text(rtt), TIME.text(delay));
        return Err(refused(found, "the links' delay is part of the round-trip time"));
    }
    Ok(())
}

/// The index of a flow.
pub(crate) fn find(paths: &[Path], label: &str) -> Option<usize> {
    paths.iter().position(|path| path.label == label).map(|i| index(i as u64))
}
