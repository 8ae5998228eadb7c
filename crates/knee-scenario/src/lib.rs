//! The network of a scenario file: links with their queues and models, the paths of flows over them, and what changes.
//!
//! [`open`] and [`read`] give a [`Scenario`] in the terms of [`knee_net::spec`], with every default written out. Of
//! `[[flows]]` they take the path, and what is sent there, but for programs and the congestion controls of QUIC stacks.
//! They also take probes and the settings of TCP and QUIC; of `[run]` nothing. An error has file, line and column, and
//! the sentence of `knee run`. Recordings by time (`rate_trace` and the like) are refused, as only the Python package
//! reads them.
//!
//! The Python package reads keys and values itself. It asks here for the tables of a text ([`tables`]), for the place
//! of an error ([`placed`]), whether tables fit together ([`refusal_of`]), and for files of numbers ([`numbers`]).

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod changes;
mod error;
mod fields;
mod files;
mod fitting;
mod framing;
mod links;
mod messages;
mod node;
mod params;
mod paths;
mod probes;
pub mod quantity;
mod quic;
mod recordings;
mod resolved;
mod sent;
mod settings;
mod traffic;
mod units;
mod words;

pub use error::Error;
pub use files::{Numbers, numbers};
pub use node::{Key, Node, Table, Value};
pub use quic::QUIC_OF_SIMULATOR;
pub use resolved::refusal_of;
pub use settings::quic_presets;

use error::{Refused, refused};
use fields::{Fields, Read, each, whole};
use knee_core::convert::saturating_u64;
use knee_net::spec::{ChangeSpec, EcnSpec, FlowSpec, LinkSpec, QuicSpec, TcpSpec, Transport};
use links::Link;
use std::path::Path as FilePath;
use words::shown;

/// The network of a scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of all random streams.
    pub seed: u64,
    /// Simulated time, ns, which networks of tests need not say.
    pub duration: Option<u64>,
    /// Figures count from each flow's start plus this, ns.
    pub warmup: u64,
    /// Interval of the time series, ns.
    pub interval: u64,
    /// The links.
    pub links: Vec<LinkSpec>,
    /// The path of each flow; without flows one over all links, whose RTT is the links' delay.
    pub paths: Vec<Path>,
    /// Changes in the order of the file, one for each flow.
    pub changes: Vec<ChangeSpec>,
    /// Flows that `knee run` sends on the paths, or the key for which one is refused, or not read here. If flows are
    /// refused together, as for settings of `[quic]` that none has, each has that error.
    pub flows: Vec<Result<FlowSpec, Error>>,
    /// Probes that `knee run` sends beside the flows.
    pub probes: Vec<FlowSpec>,
    /// Settings of TCP's endpoints.
    pub tcp: TcpSpec,
    /// Settings of QUIC's endpoints.
    pub quic: QuicSpec,
}

/// The path of a flow, between two ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The flow's name.
    pub label: String,
    /// Base round-trip time, ns.
    pub rtt: u64,
    /// Indices of the links that it crosses, in order.
    pub links: Vec<usize>,
    /// True if the flow's data takes the links' reverse direction, from the last to the first.
    pub reverse: bool,
    /// Number of the tunnel that it goes through.
    pub tunnel: Option<u32>,
    /// Codepoint of its packets (DSCP, RFC 2474), below 64.
    pub dscp: u8,
}

impl Path {
    /// An endless stream over TCP on this path, ns from `start` to `stop`.
    pub fn flow(&self, cc: &str, start: u64, stop: u64) -> FlowSpec {
        FlowSpec {
            label: self.label.clone(),
            cc: cc.into(),
            cc_params: None,
            policy: None,
            rtt: self.rtt,
            start,
            stop,
            bytes: None,
            path: self.links.clone(),
            reverse: self.reverse,
            pacing: false,
            ecn: EcnSpec::Off,
            transport: Transport::Tcp,
            tls: false,
            traffic: None,
            receiver: None,
            tunnel: self.tunnel,
            dscp: self.dscp,
        }
    }
}

/// Largest file that is read, bytes, as in Python.
const MAX_FILE: u64 = 8 << 20;
/// The default interval of time series, ns.
const INTERVAL: u64 = 100_000_000;
/// Three years, ns: the longest duration.
const LONGEST: u64 = 100_000_000_000_000_000;

/// Reads a scenario file. The files that it names are looked for beside it, here, and in the folders of `KNEE_TRACES`.
///
/// # Errors
/// If it cannot be read, or says what cannot be.
pub fn open(file: impl AsRef<FilePath>) -> Result<Scenario, Error> {
    let file = file.as_ref();
    let name = file.display().to_string();
    let whole = |found: String, accepted: &str| Error {
        file: name.clone(),
        line: 0,
        column: 0,
        key: String::new(),
        found,
        accepted: accepted.into(),
    };
    let unreadable = |reason: String| whole(format!("it cannot be read ({reason})"), "expected a readable TOML file");
    let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if size > MAX_FILE {
        return Err(unreadable(format!("it has {size} bytes, more than {MAX_FILE}")));
    }
    let content = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(content).map_err(|error| {
        whole(format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()), "expected UTF-8 text")
    })?;
    read_in(&text, &name, file.parent())
}

/// Reads the text of a scenario file; errors call it `name`. The files that it names are looked for here, and in the
/// folders of `KNEE_TRACES`.
///
/// # Errors
/// If it says what cannot be.
pub fn read(text: &str, name: &str) -> Result<Scenario, Error> {
    read_in(text, name, None)
}

/// Tables of files that are no single scenario, and the command that runs such a file.
const SECTIONS: [(&str, &str); 3] = [("sweep", "sweep"), ("search", "search"), ("plots", "sweep")];

/// A key that an error names, such as `links[0].rate`, as `file` writes it; and line and column, both from 1, of its
/// value there. Where the key is missing, they are those of the table that lacks it, if that is not the file itself.
///
/// With `sections` the key is one of the first of these tables that has it, or it is not the file's.
pub fn placed(file: &FilePath, key: &str, sections: Option<&[String]>) -> (String, Option<(usize, usize)>) {
    let is_file = std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() <= MAX_FILE);
    let Some(text) = is_file.then(|| std::fs::read_to_string(file).ok()).flatten() else { return (key.into(), None) };
    let Ok(root) = Table::parse(&text) else { return (key.into(), None) };
    let key = as_written(key.into(), &root);
    let is_of_section = SECTIONS.iter().any(|(name, _)| key.split(['.', '[']).next() == Some(*name));
    let at = match sections.filter(|_| !is_of_section) {
        None => node::place(&root, &key).0,
        Some(sections) => sections.iter().find_map(|section| {
            let key = format!("{section}.{key}");
            let (at, left) = node::place(&root, &key);
            at.filter(|_| left.is_empty())
        }),
    };
    (key, at.map(|at| error::line_and_column(&text, at)))
}

/// The error of a file whose text is read, for whoever does not take all that it says: `key` is as errors write it.
pub fn refusal(text: &str, name: &str, key: &str, found: impl Into<String>, accepted: impl Into<String>) -> Error {
    let root = Table::parse(text).unwrap_or_default();
    let key = as_written(key.into(), &root);
    let (line, column) = node::place(&root, &key).0.map_or((0, 0), |at| error::line_and_column(text, at));
    Error { file: name.into(), line, column, key, found: found.into(), accepted: accepted.into() }
}

/// A key as the file writes it: of the only link `link` or `links[0]`.
fn as_written(key: String, root: &Table) -> String {
    let has = |name| root.get(name).is_some();
    let other = |from: &str, to: &str| {
        let rest = key.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('.'));
        rest.map(|rest| format!("{to}{rest}"))
    };
    match (has("link"), has("links")) {
        (true, _) => other("links[0]", "link"),
        (false, true) => other("link", "links[0]"),
        (false, false) => None,
    }
    .unwrap_or(key)
}

/// The tables of a file of any kind, not yet checked; errors call it `name`.
///
/// # Errors
/// If it is not TOML, or has what no file of knee's has.
pub fn tables(text: &str, name: &str) -> Result<Table, Error> {
    Table::parse(text).map_err(|(at, found, accepted)| {
        let (line, column) = error::line_and_column(text, at);
        Error { file: name.into(), line, column, key: String::new(), found, accepted: accepted.into() }
    })
}

fn read_in(text: &str, name: &str, folder: Option<&FilePath>) -> Result<Scenario, Error> {
    let root = tables(text, name)?;
    let error = |error: Refused| {
        let key = words::shown_key(&as_written(error.name(), &root));
        let (line, column) = node::place(&root, &key).0.map_or((0, 0), |at| error::line_and_column(text, at));
        Error { file: name.into(), line, column, key, found: error.found, accepted: error.accepted }
    };
    scenario(&root, folder, &error).map_err(error)
}

/// The first of what was refused: an unknown key explains more than the missing one that it was meant to be.
fn first(errors: Vec<Refused>) -> Option<Refused> {
    let unknown = errors.iter().position(|error| error.unknown).unwrap_or(0);
    errors.into_iter().nth(unknown)
}

/// Keys of scenario files; those that say nothing of the network are read by whoever runs the file.
const KEYS: [&str; 14] = [
    "name", "title", "duration", "seed", "warmup", "interval", "run", "tcp", "quic", "links", "flows", "probes",
    "changes", "link",
];

fn scenario(root: &Table, folder: Option<&FilePath>, error: &impl Fn(Refused) -> Error) -> Result<Scenario, Refused> {
    for (key, kind) in SECTIONS {
        if root.get(key).is_some() {
            let found = format!("the file is a {kind}, not one scenario");
            return Err(refused(found, format!("run it with knee {kind}")).under(key));
        }
    }
    if root.get("link").is_some() && root.get("links").is_some() {
        let accepted = "expected one [link] or any number of [[links]]";
        return Err(refused("link and links are both given", accepted).under("link"));
    }
    let mut fields = Fields::of(root);
    let duration = fields.take("duration", |value| units::TIME.parse(value, false));
    let seed = fields.take("seed", seed);
    let warmup = fields.take("warmup", |value| units::TIME.parse(value, true)).unwrap_or(0);
    let interval = fields.take("interval", |value| units::TIME.parse(value, false)).unwrap_or(INTERVAL);
    let mut keep = |key, errors: Vec<Refused>| fields.errors.extend(errors.into_iter().map(|error| error.under(key)));
    let tcp = settings::tcp(root.get("tcp")).map_err(|errors| keep("tcp", errors)).unwrap_or_default();
    let quic = settings::quic(root.get("quic")).map_err(|errors| keep("quic", errors)).unwrap_or_default();
    let given = fields.keep(links_of(root)).unwrap_or_default();
    let mut errors = std::mem::take(&mut fields.errors);
    let links = each("links", &given, &mut errors, links::link);
    let flows = fields.take("flows", |value| fields::list(value).map(<[Node]>::to_vec));
    errors.append(&mut fields.errors);
    let flows = flows.map(|flows| each("flows", &flows, &mut errors, paths::group));
    let probes = fields.take("probes", |value| fields::list(value).map(<[Node]>::to_vec)).unwrap_or_default();
    errors.append(&mut fields.errors);
    let (count, mut number) = (probes.len(), 0);
    let probes = each("probes", &probes, &mut errors, |given| {
        number += 1;
        probes::probe(given, number - 1, count)
    });
    let asked = fields.take("changes", |value| fields::list(value).map(<[Node]>::to_vec));
    errors.append(&mut fields.errors);
    let asked = each("changes", &asked.unwrap_or_default(), &mut errors, changes::change);
    fields.end(&KEYS);
    errors.append(&mut fields.errors);
    if let Some(error) = first(errors) {
        return Err(error);
    }
    let flows = flows.unwrap_or_else(|| vec![paths::Group::over(&links)]);
    let parts = resolved::Parts { duration, warmup, interval, links, flows, probes, changes: asked };
    let (paths, probed) = parts.check(|_| Ok(()))?;
    let resolved::Parts { links, flows, probes, changes, .. } = parts;
    let end = duration.unwrap_or(LONGEST);
    let changes = changes::specs(&changes, &links, &paths);
    let flows = sent_on(&flows, &paths, (end, folder), (&tcp, &quic), error);
    let probes = probes.iter().zip(&probed).map(|(probe, path)| probe.spec(path, end)).collect();
    let (seed, links) = (seed.unwrap_or(1), specs(&links, folder)?);
    Ok(Scenario { seed, duration, warmup, interval, links, paths, changes, flows, probes, tcp, quic })
}

/// Flows on the paths, or why they are refused or not read here.
fn sent_on(
    groups: &[paths::Group],
    paths: &[Path],
    (end, folder): (u64, Option<&FilePath>),
    (tcp, quic): (&TcpSpec, &QuicSpec),
    error: &impl Fn(Refused) -> Error,
) -> Vec<Result<FlowSpec, Error>> {
    let place = |refused, i| error(fields::within(refused, "flows", i));
    let read: Vec<Read<sent::Sent>> = groups.iter().map(|group| sent::sent(&group.given, group.count, end)).collect();
    let end_of = |(sent, group): (&Read<sent::Sent>, &paths::Group)| {
        sent.as_ref().ok().map(|sent| quic::End::simulated(sent.keys.clone(), group.rtt))
    };
    let all: Option<Vec<quic::End>> = read.iter().zip(groups).map(end_of).collect();
    let together = all.and_then(|all| quic::check(&all, tcp, quic).err()).map(error);
    let mut flows = Vec::with_capacity(paths.len());
    for (i, (group, sent)) in groups.iter().zip(&read).enumerate() {
        let traffic = match (sent, &together) {
            (Err(refused), _) => Err(place(refused.clone(), i)),
            (_, Some(error)) => Err(error.clone()),
            (Ok(sent), None) => check_quic(&sent.keys)
                .and_then(|()| sent.traffic(folder, settings::resolved(quic).stacks_mtu().into()))
                .map(|traffic| (sent, traffic))
                .map_err(|refused| place(refused, i)),
        };
        for number in 0..group.count {
            let path = &paths[flows.len()];
            flows.push(traffic.clone().map(|(sent, traffic)| sent.spec(number, path, end, traffic)));
        }
    }
    flows
}

/// Refuses what means nothing to a flow over QUIC.
fn check_quic(keys: &fitting::Keys) -> Read<()> {
    if keys.is_quic() { keys.check_quic(true) } else { Ok(()) }
}

/// The engine's form.
fn specs(links: &[Link], folder: Option<&FilePath>) -> Read<Vec<LinkSpec>> {
    let each = links.iter().enumerate().map(|(i, link)| link.spec(folder).map_err(|error| error.at(i, "links")));
    each.collect()
}

/// The elements of `[[links]]`, or `[link]` as the only one.
fn links_of(root: &Table) -> Read<Vec<Node>> {
    let mut links = match (root.get("link"), root.get("links")) {
        (Some(link), _) => vec![link.clone()],
        (None, Some(links)) => fields::list(&links.value).map_err(|error| error.under("links"))?.to_vec(),
        (None, None) => {
            let accepted = "expected a [link] table or several [[links]]";
            return Err(refused("it is missing", accepted).under("links"));
        }
    };
    // The settings of hosts are let be, but for the clock that some queues share with them.
    if let Some(tick) = root.get("tcp").and_then(Node::table).and_then(|tcp| tcp.get("tick")) {
        for link in &mut links {
            if let Value::Table(table) = &mut link.value {
                links::on_clock(table, tick);
            }
        }
    }
    Ok(links)
}

fn seed(value: &Value) -> Read<u64> {
    const ABOUT: &str = "a whole number from 0 to 9223372036854775807";
    let seed = whole(value, 0, ABOUT)?;
    if seed > saturating_u64(1 << 63) - 1 {
        return Err(refused(format!("{} is out of range", shown(value)), format!("expected {ABOUT}")));
    }
    Ok(seed)
}
