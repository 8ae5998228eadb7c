//! Checks of a scenario whose keys have been read, every default filled in: by this crate, or by the Python package,
//! which reads more kinds of values and asks here whether its tables fit together.

use crate::changes::{self, Asked};
use crate::error::refused;
use crate::fields::Read;
use crate::fitting::{Keys, Times};
use crate::links::{self, Link, Side};
use crate::messages::{Arriving, Asking, RATES_OF_PAGES, RATES_OF_TRANSFERS, SizeKeys};
use crate::paths::{Group, counted_out};
use crate::probes::Probe;
use crate::quic::{self, End};
use crate::traffic::{UdpKeys, VideoKeys};
use crate::units::TIME;
use crate::{LONGEST, Path};
use knee_net::spec::{QuicSpec, TcpSpec};
use knee_traffic::Given;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// Most rows of time series; more would not fit into memory.
const MOST_ROWS: u64 = 100_000_000;

/// The parts of a scenario that have to fit together; times in ns.
#[derive(Debug, Deserialize)]
pub(crate) struct Parts {
    pub(crate) duration: Option<u64>,
    pub(crate) warmup: u64,
    pub(crate) interval: u64,
    pub(crate) links: Vec<Link>,
    pub(crate) flows: Vec<Group>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) changes: Vec<Asked>,
}

impl Parts {
    /// The path of each single flow and of each probe. `check` looks at what else a group of flows says, by its number.
    pub(crate) fn check(&self, check: impl Fn(usize) -> Read<()>) -> Read<(Vec<Path>, Vec<Path>)> {
        links::check_all(&self.links)?;
        if self.flows.is_empty() {
            return Err(refused("there is no flow", "expected one or more [[flows]]").under("flows"));
        }
        let end = self.duration.unwrap_or(LONGEST);
        let (paths, probed) = counted_out(&self.flows, &self.probes, &self.links, end, check)?;
        if let Some(duration) = self.duration {
            check_times(duration, self.warmup, self.interval, (paths.len() + self.links.len()) as u64)?;
        }
        changes::check(&self.changes, &self.links, &paths, end)?;
        Ok((paths, probed))
    }
}

/// Refuses a warmup that leaves nothing, and time series of flows and links that no memory holds.
fn check_times(duration: u64, warmup: u64, interval: u64, parts: u64) -> Read<()> {
    if warmup >= duration {
        let [warmup, duration] = [warmup, duration].map(|ns| TIME.text(ns));
        let found = format!("{warmup} is not shorter than the duration of {duration}");
        return Err(refused(found, "expected a warmup shorter than the duration").under("warmup"));
    }
    let rows = u128::from(parts) * u128::from(duration.div_ceil(interval));
    if rows > u128::from(MOST_ROWS) {
        let least = u64::try_from((u128::from(parts) * u128::from(duration)).div_ceil(MOST_ROWS.into()));
        let found = format!("an interval of {} gives {rows} rows of time series", TIME.text(interval));
        let least = TIME.text(least.unwrap_or(u64::MAX));
        let accepted = format!("expected at most {MOST_ROWS}, which needs an interval of {least} or more");
        return Err(refused(found, accepted).under("interval"));
    }
    Ok(())
}

/// The flows of a scenario, as far as they do not say which way packets take.
#[derive(Deserialize)]
struct Senders {
    flows: Vec<Sender>,
    /// The window of TCP's receivers, bytes.
    receive_window: Option<u64>,
}

#[derive(Deserialize)]
struct Sender {
    #[serde(flatten)]
    keys: Keys,
    #[serde(flatten)]
    times: Times,
    count: u64,
}

/// The endpoints of all flows.
#[derive(Deserialize)]
struct Endpoints {
    tcp: TcpSpec,
    quic: QuicSpec,
    flows: Vec<End>,
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Read<T> {
    serde_json::from_str(json).map_err(|error| refused(error.to_string(), "expected tables as Python has them"))
}

fn check_scenario(json: &str) -> Read<()> {
    let (parts, Senders { flows, receive_window }) = (read::<Parts>(json)?, read(json)?);
    let end = parts.duration.unwrap_or(LONGEST);
    let check = |i: usize| {
        let Sender { keys, times, count } = &flows[i];
        times.check(*count, end)?;
        keys.check_receiver(receive_window)
    };
    parts.check(check).map(drop)
}

/// Refuses traffic in the engine's form whose parameters contradict each other.
fn check_traffic(json: &str) -> Read<()> {
    let mut keys: Map<String, Json> = read(json)?;
    let kind = keys.remove("kind").unwrap_or_default();
    let entry = kind.as_str().and_then(knee_traffic::find);
    let entry =
        entry.ok_or_else(|| refused(format!("{kind} is no kind of traffic"), "expected one of the registry"))?;
    let given = Given::read(entry, &keys).map_err(|error| refused(error, "leave it out"))?;
    (entry.check)(&given).map_err(|conflict| refused(conflict.found, conflict.accepted).under(conflict.key))
}

/// The refusal of tables that the Python package has read, as key, what was found and what is accepted; `None` if they
/// fit together.
///
/// `what` says which: a "link", a direction of it ("side"), a "flow", a flow over "quic", the "endpoints" of all flows,
/// or the "scenario"; of traffic a "size", "arrivals", or a kind, "transfers", "requests", "udp" or "video"; or
/// "traffic" of any kind in the engine's form. `json` has their keys in base units.
pub fn refusal_of(what: &str, json: &str) -> Option<(String, String, String)> {
    let checked = match what {
        "side" => read::<Side>(json).and_then(|side| links::check_capacity(&side)),
        "link" => read::<Link>(json).and_then(|link| links::check(&link)),
        "flow" => read::<Keys>(json).and_then(|keys| keys.check()),
        "quic" => read::<End>(json).and_then(|end| end.keys.check_quic(end.is_own)),
        "endpoints" => read::<Endpoints>(json).and_then(|all| quic::check(&all.flows, &all.tcp, &all.quic)),
        "scenario" => check_scenario(json),
        "size" => read::<SizeKeys>(json).and_then(SizeKeys::size).map(drop),
        "arrivals" => read::<Arriving>(json).and_then(|keys| keys.starts(RATES_OF_PAGES)).map(drop),
        "transfers" => read::<Arriving>(json).and_then(|keys| keys.starts(RATES_OF_TRANSFERS)).map(drop),
        "requests" => read::<Asking>(json).and_then(|keys| keys.check()),
        "udp" => read::<UdpKeys>(json).and_then(|keys| keys.check()),
        "video" => read::<VideoKeys>(json).and_then(|keys| keys.check()),
        "traffic" => check_traffic(json),
        other => Err(refused(format!("nothing is checked as {other}"), "expected one of those above")),
    };
    checked.err().map(|error| (error.name(), error.found, error.accepted))
}
