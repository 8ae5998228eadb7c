//! The registries of algorithms, queue disciplines and others as JSON.

use knee_cc::Ecn;
use knee_core::{Kind, Param, Value};
use serde_json::{Map, Value as Json, json};

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

/// By name of a stack whose defaults the simulator's endpoints of QUIC can have: those that are keys of scenario files.
pub fn quic_presets() -> Json {
    let keys = |(name, keys): (&str, knee_net::spec::QuicSpec)| {
        let keys = json!({
            "initial_window": keys.initial_window, "initial_rtt": keys.initial_rtt,
            "packet_threshold": keys.packet_threshold, "pacing": keys.pacing, "max_mtu": keys.max_mtu,
            "max_ack_delay": keys.max_ack_delay, "ack_eliciting_threshold": keys.ack_eliciting_threshold,
        });
        (name.to_owned(), keys)
    };
    Json::Object(knee_scenario::quic_presets().into_iter().map(keys).collect())
}

/// How long a packet may have to wait at a link of this model and rate without any queue, ns.
pub fn access(name: &str, params: &str, rate: u64) -> Result<u64, String> {
    let model = knee_link::registry::find(name).ok_or_else(|| format!("no link model `{name}`"))?;
    let given: knee_net::spec::ParamsSpec = serde_json::from_str(params).map_err(|error| error.to_string())?;
    let params = knee_net::network::params(model.choice.params, &given, name).map_err(|error| error.to_string())?;
    Ok((model.access)(&params, knee_core::Rate::from_bps(rate)).as_nanos())
}

/// The rate that a flow's traffic offers on average, bit/s. `None` if it takes what it gets.
pub fn traffic_load(spec: &str) -> Result<Option<u64>, String> {
    let (entry, given) = traffic(spec)?;
    Ok((entry.load)(&given).map(knee_core::Rate::as_bps))
}

/// The mean of a distribution of sizes, bytes.
pub fn mean_size(spec: &str) -> Result<f64, String> {
    let size: knee_traffic::spec::Size = serde_json::from_str(spec).map_err(|error| error.to_string())?;
    Ok(size.mean())
}

fn traffic(spec: &str) -> Result<(&'static knee_traffic::Entry, knee_traffic::Given), String> {
    let mut keys: Map<String, Json> = serde_json::from_str(spec).map_err(|error| error.to_string())?;
    let kind = keys.remove("kind").unwrap_or_default();
    let entry = kind.as_str().and_then(knee_traffic::find).ok_or_else(|| format!("no kind of traffic {kind}"))?;
    let given = knee_traffic::Given::read(entry, &keys).map_err(|error| format!("{}: {error}", entry.name))?;
    Ok((entry, given))
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
    let tables = entry.tables.iter().map(|table| {
        let required = entry.required.contains(&table.name);
        json!({"name": table.name, "form": table.form.name(), "about": table.about, "required": required})
    });
    json!({
        "name": entry.name,
        "about": entry.about,
        "source": entry.source,
        "params": params.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
        "datagrams": entry.sends_datagrams(),
        "pulls": entry.pulls,
        "echoes": entry.echoes,
        "sockets": entry.sockets,
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
