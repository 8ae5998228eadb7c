//! Traffic that `knee run` sends on the paths of `[[flows]]`, as far as this crate reads it: endless streams and
//! transfers over TCP. The others are left to whoever asks for them, as an error that names the key.

use crate::Path;
use crate::error::refused;
use crate::fields::{Fields, Read, table, text, word};
use crate::node::{Node, Table, Value};
use crate::params::{find, resolve};
use crate::units::{BYTES, TIME};
use crate::words::shown;
use knee_core::ParamsSpec;
use knee_net::spec::{EcnSpec, FlowSpec, TcpSpec};

/// Keys of flows and tables that only the Python package reads.
const PYTHONS: [&str; 6] = ["traffic", "program", "transport", "tls", "receiver", "receiver_params"];

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
}

/// Reads what a flow sends; all but these keys have been read.
///
/// # Errors
/// The first key at fault, below the flow.
pub(crate) fn sent(given: &Table, count: u64, end: u64) -> Read<Sent> {
    for key in PYTHONS {
        if let Some(node) = given.get(key).filter(|node| !(key == "transport" && node.text() == Some("tcp"))) {
            let accepted = "here the simulator sends endless streams and transfers over TCP; leave it out";
            return Err(refused(format!("{} is not read here", shown(&node.value)), accepted).under(key));
        }
    }
    let mut fields = Fields::of(given);
    let known: Vec<&'static str> = knee_cc::registry().iter().map(|entry| entry.name).collect();
    let cc = fields
        .require("cc", "the name of a congestion control", |value| find("congestion control", text(value)?, &known));
    let given_params = fields.take("cc_params", |value| table(value).cloned());
    let declared = cc.and_then(knee_cc::find).map_or(&[][..], |entry| entry.params);
    let resolved = cc.map(|cc| resolve(cc, declared, &given_params.unwrap_or_default()));
    let cc_params = resolved.and_then(|params| fields.keep(params.map_err(|error| error.under("cc_params"))));
    let [start, stagger] = ["start", "stagger"].map(|key| fields.take(key, |value| TIME.parse(value, true)));
    let [stop, lasts] = ["stop", "lasts"].map(|key| fields.take(key, |value| TIME.parse(value, false)));
    let bytes = fields.take("bytes", |value| BYTES.parse(value, false));
    let pacing = fields.take("pacing", |value| word(value, &["auto", "on"]));
    let ecn = fields.take("ecn", ecn);
    if let Some(error) = fields.errors.into_iter().next() {
        return Err(error);
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
        ecn: ecn.unwrap_or_default(),
    })
}

fn ecn(value: &Value) -> Read<EcnSpec> {
    match value {
        Value::Bool(false) => Ok(EcnSpec::Off),
        Value::Bool(true) => Ok(EcnSpec::On),
        Value::Text(text) if text == "accurate" => Ok(EcnSpec::Accurate),
        Value::Text(text) if text == "l4s" => Ok(EcnSpec::L4s),
        other => {
            let accepted = "expected true, false, \"accurate\" or \"l4s\"";
            Err(refused(format!("{} is not known", shown(other)), accepted))
        }
    }
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
            ecn: self.ecn,
            ..path.flow(&self.cc, start, stop.min(end))
        }
    }
}

/// The settings of TCP's endpoints: here the kernel's tick alone, which queues share.
pub(crate) fn tcp(given: Option<&Node>) -> Read<TcpSpec> {
    let usual = TcpSpec::default();
    let Some(node) = given else { return Ok(usual) };
    let given = table(&node.value)?;
    if let Some(other) = given.0.iter().find(|key| key.name != "tick") {
        let found = format!("{} is not read here", shown(&other.node.value));
        return Err(refused(found, "here the simulator's TCP has the defaults, but for tick").under(&other.name));
    }
    let tick = given.get("tick").map(|tick| TIME.parse(&tick.value, true).map_err(|error| error.under("tick")));
    Ok(TcpSpec { tick: tick.transpose()?.unwrap_or(usual.tick), ..usual })
}
