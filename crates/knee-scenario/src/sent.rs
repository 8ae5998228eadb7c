//! Flows that `knee run` sends on the paths of `[[flows]]`, as far as this crate reads them. The others are left to
//! whoever asks for them, as an error that names the key.

use crate::Path;
use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, switch, table, text, word};
use crate::node::{Table, Value};
use crate::params::{find, resolve};
use crate::traffic::{Carried, traffic};
use crate::units::{BYTES, TIME};
use crate::words::shown;
use knee_cc::Ecn;
use knee_core::ParamsSpec;
use knee_net::spec::{EcnSpec, FlowSpec, Transport};
use knee_traffic::TrafficSpec;
use std::path::Path as FilePath;

/// The name of no congestion control, which datagrams have.
const NONE: &str = "none";
const DATAGRAMS: &str = "datagrams have no congestion control";
/// Keys of flows that only the Python package reads.
const PYTHONS: [&str; 3] = ["program", "receiver", "receiver_params"];
/// QUIC stacks whose congestion controls only the Python package runs.
const STACKS: [&str; 2] = ["quinn:", "noq:"];

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
    pub(crate) transport: Transport,
    tls: bool,
    pub(crate) paced: bool,
    pub(crate) ecn: EcnSpec,
    pub(crate) traffic: Option<Carried>,
}

/// Reads what a flow sends; all but these keys have been read.
///
/// # Errors
/// The first key at fault, below the flow.
pub(crate) fn sent(given: &Table, count: u64, end: u64) -> Read<Sent> {
    let carried = carried(given)?;
    let is_datagrams = carried.as_ref().is_some_and(|carried| carried.is_datagrams);
    if let Some(error) = PYTHONS.iter().find_map(|key| not_here(given, key)) {
        return Err(error);
    }
    let is_stacks = given.text("cc").is_some_and(|cc| STACKS.iter().any(|stack| cc.starts_with(stack)));
    if let Some(error) = not_here(given, "cc").filter(|_| is_stacks) {
        return Err(error);
    }
    let is_quic = given.text("transport") == Some("quic");
    let mut fields = Fields::of(given);
    let known: Vec<&'static str> = knee_cc::registry().iter().map(|entry| entry.name).collect();
    let named = |value: &Value| match text(value)? {
        NONE => Ok(NONE),
        name => find("congestion control", name, &known),
    };
    let cc = if is_datagrams && !is_quic && given.get("cc").is_none() {
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
    let transport = fields.take("transport", |value| word(value, &["tcp", "quic", "udp"]));
    let tls = fields.take("tls", switch).unwrap_or(false);
    let pacing = fields.take("pacing", |value| word(value, &["auto", "on"]));
    let least = cc.map_or(EcnSpec::Off, least_ecn);
    let ecn = fields.take("ecn", |value| ecn(value, cc.unwrap_or_default(), least));
    if let Some(error) = fields.errors.into_iter().next() {
        return Err(error);
    }
    let transport = transport.unwrap_or(if is_datagrams { "udp" } else { "tcp" });
    check(carried.as_ref(), given, (cc == Some(NONE), transport), ecn)?;
    if tls && transport != "quic" {
        return Err(
            refused("TCP flows are not encrypted", "expected transport = \"quic\", or no such key").under("tls")
        );
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
        transport: if is_quic { Transport::Quic } else { Transport::Tcp },
        tls,
        paced: pacing == Some("on"),
        traffic: carried,
        ecn: ecn.unwrap_or(least),
    })
}

/// The traffic of a flow; none for an endless stream or a transfer.
fn carried(given: &Table) -> Read<Option<Carried>> {
    let Some(node) = given.get("traffic") else { return Ok(None) };
    traffic(&node.value).map(Some).map_err(|errors| {
        let error = crate::first(errors).unwrap_or_else(|| refused("it is not known", "leave it out"));
        error.under("traffic")
    })
}

/// The refusal of a key that only the Python package reads, if it is there.
fn not_here(given: &Table, key: &str) -> Option<Refused> {
    let accepted = "here the simulator runs neither programs nor QUIC stacks; leave it out";
    let node = given.get(key)?;
    Some(refused(format!("{} is not read here", shown(&node.value)), accepted).under(key))
}

/// Refuses keys of a flow that contradict its traffic.
fn check(
    carried: Option<&Carried>,
    given: &Table,
    (is_without_cc, transport): (bool, &str),
    ecn: Option<EcnSpec>,
) -> Read<()> {
    let no = |found: String, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
    let (is_quic, is_datagrams) = (transport == "quic", carried.is_some_and(|carried| carried.is_datagrams));
    if !is_datagrams && is_without_cc {
        return no("only datagrams have none".into(), "expected the name of a congestion control", "cc");
    }
    if !is_datagrams && transport == "udp" {
        let found = "\"udp\" carries only datagrams".into();
        return no(found, "expected tcp, quic, or a table traffic", "transport");
    }
    let Some(carried) = carried else { return Ok(()) };
    let kind = carried.kind;
    if is_quic && carried.is_tls_1_2() {
        let found = "QUIC's handshake is that of TLS 1.3".into();
        return no(found, "expected \"1.3\", or no such key", "tls").map_err(|error| error.under("traffic"));
    }
    if is_quic && carried.has_certificate() {
        let found = "the certificates of QUIC's handshake are those of [quic]".into();
        let accepted = "expected certificate in [quic], or no such key";
        return no(found, accepted, "certificate").map_err(|error| error.under("traffic"));
    }
    if !is_quic && carried.streams() > 1 {
        let found = "a connection of TCP has one stream".into();
        let accepted = "expected transport = \"quic\", or no such key";
        return no(found, accepted, "streams").map_err(|error| error.under("traffic"));
    }
    if given.get("bytes").is_some() {
        let found = format!("traffic of kind {kind} has sizes of its own");
        return no(found, "expected one of bytes and traffic", "bytes");
    }
    if is_datagrams { check_datagrams(kind, given, (is_without_cc, transport), ecn) } else { Ok(()) }
}

/// Refuses keys of a flow that contradict its datagrams.
fn check_datagrams(
    kind: &str,
    given: &Table,
    (is_without_cc, transport): (bool, &str),
    ecn: Option<EcnSpec>,
) -> Read<()> {
    let no = |found: String, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
    if transport == "quic" {
        let found = "over QUIC datagrams are under a congestion control".into();
        return if is_without_cc { no(found, "expected the name of a congestion control", "cc") } else { Ok(()) };
    }
    if !is_without_cc {
        return no(DATAGRAMS.into(), "leave it out", "cc");
    }
    if transport != "udp" {
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
    /// The reaction of its algorithm to marks is that of RFC 3168.
    pub(crate) fn is_classic(&self) -> bool {
        knee_cc::find(&self.cc).is_none_or(|entry| entry.needs.ecn == Ecn::Classic)
    }

    /// Its traffic in the engine's form, with the files that it names; `mtu` is the UDP payload of QUIC's full packets.
    pub(crate) fn traffic(&self, folder: Option<&FilePath>, mtu: u64) -> Read<Option<TrafficSpec>> {
        let quic = Some(mtu).filter(|_| self.transport == Transport::Quic);
        let spec = self.traffic.as_ref().map(|carried| carried.spec(folder, quic));
        spec.transpose().map_err(|error| error.under("traffic"))
    }

    /// Flow `number`, from 0, of identical ones, on its path, in a run that ends at `end`.
    pub(crate) fn spec(&self, number: u64, path: &Path, end: u64, traffic: Option<TrafficSpec>) -> FlowSpec {
        let start = self.start + number * self.stagger;
        let stop = self.lasts.map_or(self.stop.unwrap_or(end), |lasts| start.saturating_add(lasts));
        FlowSpec {
            cc_params: serde_json::value::to_raw_value(&self.cc_params).ok(),
            bytes: self.bytes,
            pacing: self.paced,
            traffic,
            ecn: self.ecn,
            transport: self.transport,
            tls: self.tls,
            ..path.flow(&self.cc, start, stop.min(end))
        }
    }
}
