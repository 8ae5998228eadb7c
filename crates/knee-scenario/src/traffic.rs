//! The table `traffic` of a flow, for kinds whose keys are single values, datagrams at constant intervals, and video.

use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, list, out_of_range, switch, table, word};
use crate::node::{Table, Value};
use crate::params::{parse, text};
use crate::units::{BYTES, RATE, TIME};
use crate::words::{near, quoted, shown};
use knee_core::ValueSpec;
use knee_traffic::{Entry, Given, registry};
use serde_json::{Map, Value as Json, json};

/// Traffic of a flow, in the engine's form.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) kind: &'static str,
    pub(crate) spec: Json,
    pub(crate) is_datagrams: bool,
}

/// Datagrams by preset: rate and size of an IP packet.
const PRESETS: [(&str, &str, &str); 3] =
    [("voip-g711", "80 kbit/s", "200 B"), ("voip-opus", "40 kbit/s", "100 B"), ("game-60hz", "61.44 kbit/s", "128 B")];
/// Netflix's fixed ladder, as in Python, bit/s.
const LADDER: [u64; 10] =
    [235_000, 375_000, 560_000, 750_000, 1_050_000, 1_750_000, 2_350_000, 3_000_000, 4_300_000, 5_800_000];
/// The longest time of traffic, a year, and the shortest segment, ns.
const LONGEST: u64 = 365 * 86_400 * 1_000_000_000;
const SHORTEST: u64 = 1_000_000;

/// Reads the table; `None` for kinds that only the Python package reads.
pub(crate) fn traffic(value: &Value) -> Result<Option<Carried>, Vec<Refused>> {
    let given = table(value).map_err(|error| vec![error])?;
    let kinds: Vec<&str> = registry().iter().filter(|entry| !entry.echoes).map(|entry| entry.name).collect();
    let Some(kind) = given.get("kind") else {
        return Err(vec![refused("it has no kind", format!("expected kind = one of {}", kinds.join(", ")))]);
    };
    let found = registry().iter().find(|entry| Some(entry.name) == kind.text() && !entry.echoes);
    let Some(entry) = found else {
        let named = shown(&kind.value);
        let accepted = near(kind.text().unwrap_or(&named), &kinds);
        return Err(vec![refused(format!("{named} is not a kind of traffic"), accepted)]);
    };
    let spec = match entry.name {
        "udp" if given.get("trace").is_some() => return Ok(None),
        "udp" => udp(given)?,
        "video" => video(given)?,
        _ if entry.tables.is_empty() => declared(entry, given)?,
        _ => return Ok(None),
    };
    Ok(Some(Carried { kind: entry.name, spec, is_datagrams: entry.sends_datagrams() }))
}

/// A kind whose keys are the parameters that its entry declares.
fn declared(entry: &'static Entry, given: &Table) -> Result<Json, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let mut spec = Map::new();
    for param in entry.params {
        let example = ValueSpec::from(param.default);
        let value = if entry.required.contains(&param.name) {
            let example = match &example {
                ValueSpec::Choice(_) | ValueSpec::Time(_) | ValueSpec::Rate(_) | ValueSpec::Bytes(_) => {
                    quoted(&text(&example))
                }
                other => text(other),
            };
            let about = format!("{}, such as {example}", param.about);
            fields.require(param.name, &about, |value| parse(param, value))
        } else {
            fields.take(param.name, |value| parse(param, value))
        };
        let plain = match value.unwrap_or(example) {
            ValueSpec::Time(n) | ValueSpec::Rate(n) | ValueSpec::Bytes(n) | ValueSpec::Count(n) => json!(n),
            ValueSpec::Ratio(x) => json!(x),
            ValueSpec::Bool(is) => json!(is),
            ValueSpec::Choice(word) => json!(word),
        };
        spec.insert(param.name.into(), plain);
    }
    let known: Vec<&'static str> = std::iter::once("kind").chain(entry.params.iter().map(|param| param.name)).collect();
    fields.end(&known);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let read = Given::read(entry, &spec).map_err(|error| vec![refused(error, "leave it out")])?;
    (entry.check)(&read).map_err(|conflict| vec![refused(conflict.found, conflict.accepted).under(conflict.key)])?;
    spec.insert("kind".into(), json!(entry.name));
    Ok(Json::Object(spec))
}

/// Datagrams at constant intervals, with or without pauses.
fn udp(given: &Table) -> Result<Json, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let names = PRESETS.map(|(name, ..)| name);
    let preset = fields.take("preset", |value| word(value, &names));
    let preset = PRESETS.iter().find(|(name, ..)| Some(*name) == preset);
    let packet = |value: &Value| {
        let size = BYTES.parse(value, false)?;
        let about = "the size of an IP packet, \"36 B\" to \"1500 B\"";
        if (36..=1500).contains(&size) { Ok(size) } else { Err(out_of_range(value, about)) }
    };
    let of_preset = |text: &str| Value::Text(text.into());
    let usual = preset.and_then(|(_, rate, _)| RATE.parse(&of_preset(rate), false).ok());
    let rate = fields.take("rate", |value| RATE.parse(value, false)).or(usual);
    let usual = preset.and_then(|(.., size)| packet(&of_preset(size)).ok());
    let size = fields.take("packet_size", packet).or(usual);
    let [on, off] = ["on", "off"].map(|key| fields.take(key, |value| TIME.parse(value, false)));
    let pauses = fields.take("pauses", |value| word(value, &["exponential", "constant"]));
    let repeat = fields.take("repeat", switch);
    fields.end(&["kind", "preset", "rate", "packet_size", "on", "off", "pauses", "trace", "repeat"]);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let no = |found: &str, accepted: &str, key: &str| Err(vec![refused(found, accepted).under(key)]);
    if repeat.is_some() {
        return no("there is no trace to repeat", "leave it out", "repeat");
    }
    let (Some(rate), Some(size)) = (rate, size) else {
        let key = if rate.is_none() { "rate" } else { "packet_size" };
        return no("it is missing", "expected rate and packet_size, a preset, or a trace", key);
    };
    if on.is_some() != off.is_some() {
        return no("it is missing", "expected on and off, or neither", if off.is_none() { "off" } else { "on" });
    }
    if pauses.is_some() && on.is_none() {
        return no("there are no pauses", "expected on and off too", "pauses");
    }
    let interval = knee_core::convert::truncated((size as f64 * 8e9 / rate as f64).round_ties_even()).max(1);
    let mut spec = json!({"kind": "udp", "packet": size, "interval": interval});
    if let (Some(on), Some(off)) = (on, off) {
        spec["on"] = json!(on);
        spec["off"] = json!(off);
        spec["constant"] = json!(pauses == Some("constant"));
    }
    Ok(spec)
}

/// A time of traffic, at least `least`.
fn span(value: &Value, least: u64) -> Read<u64> {
    let span = TIME.parse(value, false)?;
    if span > LONGEST {
        let found = format!("{} is too large", TIME.text(span));
        return Err(refused(found, format!("expected at most {}", TIME.text(LONGEST))));
    }
    if span < least {
        let found = format!("{} is too small", TIME.text(span));
        return Err(refused(found, format!("expected at least {}", TIME.text(least))));
    }
    Ok(span)
}

/// Adaptive streaming.
fn video(given: &Table) -> Result<Json, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let ladder = fields.take("ladder", |value| {
        let nodes = list(value)?.iter().enumerate();
        nodes
            .map(|(i, node)| RATE.parse(&node.value, false).map_err(|error| error.in_list(i)))
            .collect::<Read<Vec<_>>>()
    });
    let segment = fields.take("segment", |value| span(value, SHORTEST)).unwrap_or(4_000_000_000);
    let buffer = fields.take("buffer", |value| span(value, 0)).unwrap_or(240_000_000_000);
    let algorithm = fields.take("algorithm", |value| word(value, &["bba", "rate"])).unwrap_or("bba");
    let length = fields.take("length", |value| span(value, 0));
    fields.end(&["kind", "ladder", "segment", "buffer", "algorithm", "length"]);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let ladder = ladder.unwrap_or_else(|| LADDER.into());
    let no = |found: String, accepted: &str, key: &str| Err(vec![refused(found, accepted).under(key)]);
    if ladder.is_empty() {
        return no("it is empty".into(), "expected one or more bitrates", "ladder");
    }
    if let Some((below, above)) = ladder.iter().zip(&ladder[1..]).find(|(below, above)| above <= below) {
        let found = format!("{} follows {}", RATE.text(*above), RATE.text(*below));
        return no(found, "expected ascending bitrates", "ladder");
    }
    if buffer < 2 * segment {
        let found = format!("{} is less than two segments of {}", TIME.text(buffer), TIME.text(segment));
        return no(found, "expected a larger buffer", "buffer");
    }
    Ok(json!({
        "kind": "video", "ladder": ladder, "segment": segment, "buffer": buffer, "algorithm": algorithm,
        "length": length,
    }))
}
