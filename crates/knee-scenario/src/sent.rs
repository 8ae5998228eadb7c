//! Flows that `knee run` sends on the paths of `[[flows]]`, as far as this crate reads them. The others are left to
//! whoever asks for them, as an error that names the key.

use crate::Path;
use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, switch, table, text, word};
use crate::fitting::{DATAGRAMS, Keys, NONE, Times, stack};
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

/// Keys of flows that only the Python package reads.
const PYTHONS: [&str; 3] = ["program", "receiver", "receiver_params"];

/// Keys, times and traffic of a flow, or of each of `count` identical ones.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) keys: Keys,
    cc_params: ParamsSpec,
    times: Times,
    traffic: Option<Carried>,
}

/// Reads what a flow sends; all but these keys have been read.
///
/// # Errors
/// The first key at fault, below the flow.
pub(crate) fn sent(given: &Table, count: u64, end: u64) -> Read<Sent> {
    let carried = carried(given)?;
    let is_datagrams = carried.as_ref().is_some_and(|carried| carried.keys().is_datagrams());
    if let Some(error) = PYTHONS.iter().find_map(|key| not_here(given, key)) {
        return Err(error);
    }
    let is_stacks = given.text("cc").is_some_and(|cc| stack(cc).is_some());
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
    let cc = cc.unwrap_or_default();
    let keys = Keys {
        cc: cc.into(),
        transport: transport.unwrap_or(if is_datagrams { "udp" } else { "tcp" }).into(),
        tls,
        bytes,
        is_paced: pacing == Some("on"),
        ecn: ecn.unwrap_or(least),
        is_classic: least == EcnSpec::Off,
        traffic: carried.as_ref().map(Carried::keys),
        is_program: false,
        receiver: None,
    };
    keys.check()?;
    let (start, stagger) = (start.unwrap_or_default(), stagger.unwrap_or_default());
    let times = Times { start, stagger, stop, lasts };
    times.check(count, end)?;
    Ok(Sent { keys, cc_params: cc_params.unwrap_or_default(), times, traffic: carried })
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
    /// Its traffic in the engine's form, with the files that it names; `mtu` is the UDP payload of QUIC's full packets.
    pub(crate) fn traffic(&self, folder: Option<&FilePath>, mtu: u64) -> Read<Option<TrafficSpec>> {
        let quic = Some(mtu).filter(|_| self.keys.is_quic());
        let spec = self.traffic.as_ref().map(|carried| carried.spec(folder, quic));
        spec.transpose().map_err(|error| error.under("traffic"))
    }

    /// Flow `number`, from 0, of identical ones, on its path, in a run that ends at `end`.
    pub(crate) fn spec(&self, number: u64, path: &Path, end: u64, traffic: Option<TrafficSpec>) -> FlowSpec {
        let Times { start, stagger, stop, lasts } = self.times;
        let start = start + number * stagger;
        let stop = lasts.map_or(stop.unwrap_or(end), |lasts| start.saturating_add(lasts));
        FlowSpec {
            cc_params: serde_json::value::to_raw_value(&self.cc_params).ok(),
            bytes: self.keys.bytes,
            pacing: self.keys.is_paced,
            traffic,
            ecn: self.keys.ecn,
            transport: if self.keys.is_quic() { Transport::Quic } else { Transport::Tcp },
            tls: self.keys.tls,
            ..path.flow(&self.keys.cc, start, stop.min(end))
        }
    }
}
