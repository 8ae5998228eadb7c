//! The registries of algorithms, queue disciplines and others as JSON.

use knee_cc::Ecn;
use knee_core::{Kind, Param, Params, Value};
use serde_json::{Value as Json, json};

/// The registries of algorithms, of queue disciplines, of the models of links, of their loss and of their delay, of the
/// QUIC stacks' own controllers, of receivers, and of kinds of traffic. Times in ns, rates in bit/s, sizes in bytes.
pub fn registry() -> Json {
    let cc: Vec<Json> = knee_cc::registry().iter().map(algorithm).collect();
    let queues: Vec<Json> = knee_queue::registry().iter().map(discipline).collect();
    let stacks: Vec<Json> = knee_sim::stacks::entries().map(algorithm).collect();
    let links: Vec<Json> = knee_link::registry::models().iter().map(|model| choice(&model.choice)).collect();
    let losses: Vec<Json> = knee_link::registry::losses().iter().map(choice).collect();
    let delays: Vec<Json> = knee_link::registry::delays().iter().map(choice).collect();
    let receivers: Vec<Json> = knee_tcp::receiver::ENTRIES.iter().map(receiver).collect();
    let traffic: Vec<Json> = knee_traffic::registry().iter().map(kind_of_traffic).collect();
    json!({
        "cc": cc, "queues": queues, "quic": stacks, "links": links, "losses": losses, "delays": delays,
        "receivers": receivers, "traffic": traffic,
    })
}

/// What of a link model's parameters contradicts each other or the rate: the parameter, what was found and what would
/// do.
pub fn conflict(name: &str, params: &str, rate: u64) -> Result<Option<(String, String, String)>, String> {
    let model = knee_link::registry::find(name).ok_or_else(|| format!("no link model `{name}`"))?;
    let given: knee_net::spec::ParamsSpec = serde_json::from_str(params).map_err(|error| error.to_string())?;
    let params = knee_net::network::params(model.choice.params, &given, name).map_err(|error| error.to_string())?;
    let conflict = (model.check)(&params, knee_core::Rate::from_bps(rate)).err();
    Ok(conflict.map(|conflict| (conflict.key.into(), conflict.found, conflict.accepted)))
}

/// How long a packet may have to wait at a link of this model and rate without any queue, ns.
pub fn access(name: &str, params: &str, rate: u64) -> Result<u64, String> {
    let model = knee_link::registry::find(name).ok_or_else(|| format!("no link model `{name}`"))?;
    let given: knee_net::spec::ParamsSpec = serde_json::from_str(params).map_err(|error| error.to_string())?;
    let params = knee_net::network::params(model.choice.params, &given, name).map_err(|error| error.to_string())?;
    Ok((model.access)(&params, knee_core::Rate::from_bps(rate)).as_nanos())
}

/// What of a kind of traffic's parameters contradicts each other: the parameter, what was found and what would do.
pub fn traffic_conflict(name: &str, params: &str) -> Result<Option<(String, String, String)>, String> {
    let (entry, params) = traffic(name, params)?;
    let conflict = (entry.check)(&params).err();
    Ok(conflict.map(|conflict| (conflict.key.into(), conflict.found, conflict.accepted)))
}

/// The rate that a kind of traffic offers with these parameters, bit/s. `None` if it takes what it gets.
pub fn traffic_load(name: &str, params: &str) -> Result<Option<u64>, String> {
    let (entry, params) = traffic(name, params)?;
    Ok((entry.load)(&params).map(knee_core::Rate::as_bps))
}

fn traffic(name: &str, params: &str) -> Result<(&'static knee_traffic::Entry, Params), String> {
    let entry = knee_traffic::find(name).ok_or_else(|| format!("no kind of traffic `{name}`"))?;
    let given: knee_core::ParamsSpec = serde_json::from_str(params).map_err(|error| error.to_string())?;
    let params = Params::from_spec(entry.params, &given).map_err(|error| format!("{name}: {error}"))?;
    Ok((entry, params))
}

fn choice(choice: &knee_link::registry::Choice) -> Json {
    json!({
        "name": choice.name,
        "about": choice.about,
        "source": choice.source,
        "params": choice.params.iter().map(param).collect::<Vec<_>>(),
    })
}

fn receiver(entry: &knee_tcp::receiver::Entry) -> Json {
    json!({
        "name": entry.name,
        "about": entry.about,
        "source": entry.source,
        "params": entry.params.iter().map(param).collect::<Vec<_>>(),
        "needs": { "receive_window": entry.conceals_losses },
    })
}

fn kind_of_traffic(entry: &knee_traffic::Entry) -> Json {
    let params = entry.params.iter().map(|declared| {
        let mut told = param(declared);
        told["required"] = json!(entry.required.contains(&declared.name));
        told
    });
    json!({
        "name": entry.name,
        "about": entry.about,
        "source": entry.source,
        "params": params.collect::<Vec<_>>(),
        "datagrams": entry.sends_datagrams(),
        "pulls": entry.pulls,
        "sockets": entry.sockets,
        "tables": entry.has_tables(),
    })
}

fn algorithm(entry: &knee_cc::Entry) -> Json {
    json!({
        "name": entry.name,
        "family": entry.family.name(),
        "about": entry.about,
        "source": entry.source,
        "params": entry.params.iter().map(param).collect::<Vec<_>>(),
        "phases": entry.phases,
        "needs": {
            "pacing": entry.needs.pacing,
            "full_control": entry.needs.full_control,
            "ecn": match entry.needs.ecn {
                Ecn::Classic => "classic",
                Ecn::PerPacket => "per_packet",
                Ecn::Scalable => "scalable",
            },
        },
    })
}

fn discipline(entry: &knee_queue::Entry) -> Json {
    json!({
        "name": entry.name,
        "about": entry.about,
        "source": entry.source,
        "params": entry.params.iter().map(param).collect::<Vec<_>>(),
    })
}

fn param(param: &Param) -> Json {
    let (kind, words): (&str, &[&str]) = match param.kind {
        Kind::Time => ("time", &[]),
        Kind::Rate => ("rate", &[]),
        Kind::Bytes => ("bytes", &[]),
        Kind::Count => ("count", &[]),
        Kind::Ratio => ("ratio", &[]),
        Kind::Bool => ("bool", &[]),
        Kind::Choice(words) => ("choice", words),
    };
    json!({
        "name": param.name,
        "kind": kind,
        "words": words,
        "default": value(param.default),
        "min": value(param.min),
        "max": value(param.max),
        "source": param.source,
        "about": param.about,
    })
}

fn value(value: Value) -> Json {
    match value {
        Value::Time(time) => json!(time.as_nanos()),
        Value::Rate(rate) => json!(rate.as_bps()),
        Value::Bytes(bytes) => json!(bytes.0),
        Value::Count(n) => json!(n),
        Value::Ratio(x) => json!(x),
        Value::Bool(b) => json!(b),
        Value::Choice(word) => json!(word),
    }
}
