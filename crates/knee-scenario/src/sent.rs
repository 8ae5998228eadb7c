//! Traffic that `knee run` sends on the paths of `[[flows]]`, as far as this crate reads it. The others are left to
//! whoever asks for them, as an error that names the key.

use crate::Path;
use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, out_of_range, switch, table, text, whole, word};
use crate::node::{Node, Table, Value};
use crate::params::{find, resolve};
use crate::traffic::{Carried, traffic};
use crate::units::{BYTES, TIME};
use crate::words::shown;
use knee_cc::Ecn;
use knee_core::ParamsSpec;
use knee_net::spec::{EcnSpec, FlowSpec, TcpSpec};
use serde_json::Value as Json;

/// The name of no congestion control, which datagrams have.
const NONE: &str = "none";
const DATAGRAMS: &str = "datagrams have no congestion control";
/// Keys of flows that only the Python package reads.
const PYTHONS: [&str; 4] = ["program", "tls", "receiver", "receiver_params"];

/// Traffic of one flow, or each of `count` identical ones.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    cc: String,
    cc_params: ParamsSpec,
    start: u64,
    stagger: u64,
    stop: Option<u64>,
    lasts: Option<u64>,
    bytes: Option<u64>,
    paced: bool,
    ecn: EcnSpec,
    traffic: Option<Json>,
}

/// Reads what a flow sends; all but these keys have been read.
///
/// # Errors
/// The first key at fault, below the flow.
pub(crate) fn sent(given: &Table, count: u64, end: u64) -> Read<Sent> {
    let carried = carried(given)?;
    let is_datagrams = carried.as_ref().is_some_and(|carried| carried.is_datagrams);
    let usual = if is_datagrams { "udp" } else { "tcp" };
    let transport = given.get("transport").and_then(Node::text);
    let is_other = transport.map_or(given.get("transport").is_some(), |name| name != usual && name != "tcp");
    if let Some(error) = PYTHONS
        .iter()
        .find_map(|key| not_here(given, key))
        .or_else(|| not_here(given, "transport").filter(|_| is_other))
    {
        return Err(error);
    }
    let mut fields = Fields::of(given);
    let known: Vec<&'static str> = knee_cc::registry().iter().map(|entry| entry.name).collect();
    let named = |value: &Value| match text(value)? {
        NONE if is_datagrams => Ok(NONE),
        name => find("congestion control", name, &known),
    };
    let cc = if is_datagrams && given.get("cc").is_none() {
        Some(NONE)
    } else {
        fields.require("cc", "the name of a congestion control", named)
    };
    let given_params = fields.take("cc_params", |value| table(value).cloned());
    let declared = cc.and_then(knee_cc::find).map_or(&[][..], |entry| entry.params);
    let resolved = cc.map(|cc| match given_params.unwrap_or_default() {
        given if cc != NONE => resolve(cc, declared, &given),
        given if given.0.is_empty() => Ok(ParamsSpec::new()),
        _ => Err(refused(DATAGRAMS, "leave it out")),
    });
    let cc_params = resolved.and_then(|params| fields.keep(params.map_err(|error| error.under("cc_params"))));
    let start = fields.take("start", |value| TIME.parse(value, true));
    let [stop, lasts] = ["stop", "lasts"].map(|key| fields.take(key, |value| TIME.parse(value, false)));
    let bytes = fields.take("bytes", |value| BYTES.parse(value, false));
    let stagger = fields.take("stagger", |value| TIME.parse(value, true));
    let pacing = fields.take("pacing", |value| word(value, &["auto", "on"]));
    let least = cc.map_or(EcnSpec::Off, least_ecn);
    let ecn = fields.take("ecn", |value| ecn(value, cc.unwrap_or_default(), least));
    if let Some(error) = fields.errors.into_iter().next() {
        return Err(error);
    }
    if let Some(carried) = &carried {
        check(carried, given, cc == Some(NONE), ecn)?;
    }
    let (start, stagger) = (start.unwrap_or_default(), stagger.unwrap_or_default());
    let last = start.saturating_add((count - 1).saturating_mul(stagger));
    let time = |at| TIME.text(at);
    if last >= end {
        let found = format!("the start at {} is not before the end at {}", time(last), time(end));
        let key = if start >= end { "start" } else { "stagger" };
        return Err(refused(found, "expected an earlier start or a longer duration").under(key));
    }
    if stop.is_some() && lasts.is_some() {
        return Err(refused("stop and lasts are both given", "expected one of them").under("lasts"));
    }
    if let Some(stop) = stop.filter(|stop| *stop <= last) {
        let found = format!("the stop at {} is not after the start at {}", time(stop), time(last));
        return Err(refused(found, "expected a later stop").under("stop"));
    }
    Ok(Sent {
        cc: cc.unwrap_or_default().into(),
        cc_params: cc_params.unwrap_or_default(),
        start,
        stagger,
        stop,
        lasts,
        bytes,
        paced: pacing == Some("on"),
        traffic: carried.map(|carried| carried.spec),
        ecn: ecn.unwrap_or(least),
    })
}

/// The traffic of a flow; none for an endless stream or a transfer.
fn carried(given: &Table) -> Read<Option<Carried>> {
    match given.get("traffic").map(|node| traffic(&node.value)) {
        None => Ok(None),
        Some(Ok(Some(carried))) => Ok(Some(carried)),
        Some(Ok(None)) => {
            Err(not_here(given, "traffic").unwrap_or_else(|| refused("it is not read here", "leave it out")))
        }
        Some(Err(errors)) => {
            let error = crate::first(errors).unwrap_or_else(|| refused("it is not known", "leave it out"));
            Err(error.under("traffic"))
        }
    }
}

/// The refusal of a key that only the Python package reads, if it is there.
fn not_here(given: &Table, key: &str) -> Option<Refused> {
    let accepted = "here the simulator sends no QUIC and runs no programs; leave it out";
    let node = given.get(key)?;
    Some(refused(format!("{} is not read here", shown(&node.value)), accepted).under(key))
}

/// Refuses keys of a flow that contradict its traffic.
fn check(carried: &Carried, given: &Table, is_without_cc: bool, ecn: Option<EcnSpec>) -> Read<()> {
    let Carried { kind, is_datagrams, .. } = *carried;
    let no = |found: String, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
    if given.get("bytes").is_some() {
        let found = format!("traffic of kind {kind} has sizes of its own");
        return no(found, "expected one of bytes and traffic", "bytes");
    }
    if !is_datagrams {
        return Ok(());
    }
    if !is_without_cc {
        return no(DATAGRAMS.into(), "leave it out", "cc");
    }
    if given.text("transport") == Some("tcp") {
        let found = format!("traffic of kind {kind} goes in datagrams");
        return no(found, "expected \"quic\", or no such key", "transport");
    }
    if given.text("pacing") == Some("on") {
        return no(format!("traffic of kind {kind} has times of its own"), "leave it out", "pacing");
    }
    if ecn == Some(EcnSpec::Accurate) {
        let found = "\"accurate\" is feedback of TCP".into();
        return no(found, "expected true, false or \"l4s\"", "ecn");
    }
    Ok(())
}

/// The ECN that an algorithm has at least, by its reaction to marks.
fn least_ecn(cc: &str) -> EcnSpec {
    match knee_cc::find(cc).map(|entry| entry.needs.ecn) {
        Some(Ecn::PerPacket) => EcnSpec::On,
        Some(Ecn::Scalable) => EcnSpec::L4s,
        Some(Ecn::Classic) | None => EcnSpec::Off,
    }
}

fn ecn(value: &Value, cc: &str, least: EcnSpec) -> Read<EcnSpec> {
    let asked = match value {
        Value::Bool(false) => EcnSpec::Off,
        Value::Bool(true) => EcnSpec::On,
        Value::Text(text) if text == "accurate" => EcnSpec::Accurate,
        Value::Text(text) if text == "l4s" => EcnSpec::L4s,
        other => {
            let accepted = "expected true, false, \"accurate\" or \"l4s\"";
            return Err(refused(format!("{} is not known", shown(other)), accepted));
        }
    };
    let enough = match least {
        EcnSpec::Off => return Ok(asked),
        EcnSpec::L4s if asked != EcnSpec::L4s => "\"l4s\"",
        _ if asked == EcnSpec::Off => "true, \"accurate\" or \"l4s\"",
        _ => return Ok(asked),
    };
    Err(refused(format!("{cc} needs ECN"), format!("expected {enough}, or no such key")))
}

impl Sent {
    /// Flow `number`, from 0, of identical ones, on its path, in a run that ends at `end`.
    pub(crate) fn spec(&self, number: u64, path: &Path, end: u64) -> FlowSpec {
        let start = self.start + number * self.stagger;
        let stop = self.lasts.map_or(self.stop.unwrap_or(end), |lasts| start.saturating_add(lasts));
        FlowSpec {
            cc_params: serde_json::value::to_raw_value(&self.cc_params).ok(),
            bytes: self.bytes,
            pacing: self.paced,
            traffic: self.traffic.clone().and_then(|told| serde_json::from_value(told).ok()),
            ecn: self.ecn,
            ..path.flow(&self.cc, start, stop.min(end))
        }
    }
}

/// The settings of TCP's endpoints.
pub(crate) fn tcp(given: Option<&Node>) -> Result<TcpSpec, Vec<Refused>> {
    let usual = TcpSpec::default();
    let Some(node) = given else { return Ok(usual) };
    let mut fields = Fields::of(table(&node.value).map_err(|error| vec![error])?);
    let tick = fields.take("tick", |value| TIME.parse(value, true));
    let initial_window =
        fields.take("initial_window", |value| number(value, 1, 1000, "a number of packets, 1 to 1000"));
    let rto_min = fields.take("rto_min", |value| TIME.parse(value, false));
    let [delayed_ack, sack_delay, receive_offload] =
        ["delayed_ack", "sack_delay", "receive_offload"].map(|key| fields.take(key, |value| TIME.parse(value, true)));
    let tso = fields.take("tso", switch);
    let tso_rtt_log = fields.take("tso_rtt_log", |value| number(value, 0, 31, "0 to 31; 0 is Linux before 5.18"));
    let slow_start_after_idle = fields.take("slow_start_after_idle", switch);
    let window_growth = fields.take("window_growth", |value| BYTES.parse(value, true));
    let receive_window = fields.take("receive_window", |value| BYTES.parse(value, false));
    let trace_rtt = fields.take("trace_rtt", switch);
    fields.end(&TCP);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    Ok(TcpSpec {
        tick: tick.unwrap_or(usual.tick),
        initial_window: initial_window.unwrap_or(usual.initial_window),
        rto_min: rto_min.unwrap_or(usual.rto_min),
        delayed_ack: delayed_ack.unwrap_or(usual.delayed_ack),
        sack_delay: sack_delay.unwrap_or(usual.sack_delay),
        receive_offload: receive_offload.unwrap_or(usual.receive_offload),
        tso: tso.unwrap_or(usual.tso),
        tso_rtt_log: tso_rtt_log.unwrap_or(usual.tso_rtt_log),
        slow_start_after_idle: slow_start_after_idle.unwrap_or(usual.slow_start_after_idle),
        window_growth: window_growth.unwrap_or(usual.window_growth),
        receive_window,
        trace_rtt: trace_rtt.unwrap_or(usual.trace_rtt),
    })
}

/// Keys of `[tcp]`.
const TCP: [&str; 12] = [
    "tick",
    "initial_window",
    "rto_min",
    "delayed_ack",
    "sack_delay",
    "receive_offload",
    "tso",
    "tso_rtt_log",
    "slow_start_after_idle",
    "window_growth",
    "receive_window",
    "trace_rtt",
];

/// A whole number from `least` to `most`.
fn number(value: &Value, least: u64, most: u32, about: &str) -> Read<u32> {
    let number = whole(value, least, about)?;
    u32::try_from(number).ok().filter(|n| *n <= most).ok_or_else(|| out_of_range(value, about))
}
