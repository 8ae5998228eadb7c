//! The table `traffic` of a flow. Kinds with messages that start at times of their own are in `messages.rs`.

use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, line, list, out_of_range, switch, table, word};
use crate::files::{KIND_PACKETS, find};
use crate::messages::{Messages, Starts, USUAL_CERTIFICATE, requests, transfers};
use crate::node::{Table, Value};
use crate::params::{parse, text};
use crate::recordings;
use crate::units::{BYTES, RATE, TIME};
use crate::words::{near, quoted, shown};
use knee_core::ValueSpec;
use knee_traffic::{Entry, Given, TrafficSpec, registry};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// Keys of traffic that a flow's other keys depend on.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Carries {
    pub(crate) kind: String,
    tls: Option<String>,
    certificate: Option<u64>,
    streams: Option<u64>,
}

impl Carries {
    /// True if it goes in datagrams.
    pub(crate) fn is_datagrams(&self) -> bool {
        knee_traffic::find(&self.kind).is_some_and(Entry::sends_datagrams)
    }

    /// True if its TLS is 1.2.
    pub(crate) fn is_tls_1_2(&self) -> bool {
        self.tls.as_deref() == Some("1.2")
    }

    /// True if its certificates with TLS have another size than usual.
    pub(crate) fn has_certificate(&self) -> bool {
        self.certificate.is_some_and(|size| size != USUAL_CERTIFICATE)
    }

    /// Requests at once on a connection.
    pub(crate) fn streams(&self) -> u64 {
        self.streams.unwrap_or(1)
    }
}

/// Traffic of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    kind: &'static str,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// In the engine's form.
    Known(Json),
    Messages(Messages),
    /// Packets of a file, and whether it repeats.
    Recorded(String, bool),
}

/// The least datagram that QUIC carries, as an IP packet of UDP, which holds its number, and how much less than its UDP
/// payload a packet of QUIC carries at most, bytes.
const LEAST_PACKET: u64 = 32;
const QUIC_HEADERS: u64 = 10;
/// The largest packet of real-time media, bytes.
const RTC_PACKET: u64 = 1240;

impl Carried {
    /// The keys that a flow's other keys depend on.
    pub(crate) fn keys(&self) -> Carries {
        let spec = if let What::Messages(messages) = &self.what { &messages.spec } else { &Json::Null };
        Carries {
            kind: self.kind.into(),
            tls: spec["tls"].as_str().map(str::to_owned),
            certificate: spec["certificate"].as_u64(),
            streams: spec["streams"].as_u64(),
        }
    }

    /// The engine's form, with the content of the files that it names; `quic` is the UDP payload of QUIC's full
    /// packets, bytes, if QUIC carries it.
    pub(crate) fn spec(&self, folder: Option<&Path>, quic: Option<u64>) -> Read<TrafficSpec> {
        let mut spec = match &self.what {
            What::Known(spec) => spec.clone(),
            What::Messages(messages) => self.messages(messages, folder)?,
            What::Recorded(name, repeats) => recorded(name, *repeats, folder)?,
        };
        spec["kind"] = json!(self.kind);
        if let Some(mtu) = quic {
            over_quic(&mut spec, self.kind, mtu - QUIC_HEADERS)?;
        }
        // Through text, as from Python: a number has the same bits then.
        let read = serde_json::from_str(&spec.to_string());
        read.map_err(|error| refused(error.to_string(), "leave it out"))
    }

    fn messages(&self, messages: &Messages, folder: Option<&Path>) -> Read<Json> {
        let Messages { starts, size, spec, .. } = messages;
        let mut spec = spec.clone();
        let at = starts.spec(size, folder)?;
        if self.kind == "transfers" {
            spec["arrivals"] = at;
        } else {
            spec["pages"] = if matches!(starts, Starts::Think(..)) { at } else { json!({"open": at}) };
        }
        spec["size"] = size.spec(folder)?;
        Ok(spec)
    }
}

/// Datagrams as recorded.
fn recorded(name: &str, repeats: bool, folder: Option<&Path>) -> Read<Json> {
    let packets = find(name, KIND_PACKETS, folder).and_then(|path| recordings::packets(&path));
    let packets = packets.map_err(|error| error.under("trace"))?;
    if repeats && packets.last().is_some_and(|(last, _)| *last == 0) {
        let found = format!("the packet trace {} lasts no time, so it cannot repeat", quoted(name));
        return Err(refused(found, "expected a last time above zero, or no repeat").under("repeat"));
    }
    Ok(json!({"trace": packets, "repeat": repeats}))
}

/// Changes traffic as QUIC carries it, whose packets have datagrams of up to `most` bytes.
fn over_quic(spec: &mut Json, kind: &str, most: u64) -> Read<()> {
    if spec.get("tls").is_some() {
        // TLS is a part of QUIC's own handshake.
        spec["tls"] = json!("none");
    }
    if kind == "rtc" && most < RTC_PACKET {
        let found = format!("a datagram of up to {RTC_PACKET} B with its headers does not fit QUIC's packets");
        let accepted = format!("expected max_mtu of {} B or more in [quic]", RTC_PACKET + QUIC_HEADERS);
        return Err(refused(found, accepted).under("kind"));
    }
    let trace = spec.get("trace").and_then(Json::as_array);
    let key = if trace.is_some() { "trace" } else { "packet_size" };
    let recorded = trace.into_iter().flatten().filter_map(|packet| packet[1].as_u64());
    let mut sizes = recorded.chain(spec.get("packet").and_then(Json::as_u64));
    match sizes.find(|size| !(LEAST_PACKET..=most).contains(size)) {
        None => Ok(()),
        Some(size) => {
            let found = format!("a datagram of {size} B with its headers does not fit QUIC's packets");
            Err(refused(found, format!("expected {LEAST_PACKET} B to {most} B")).under(key))
        }
    }
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

/// Reads the table.
pub(crate) fn traffic(value: &Value) -> Result<Carried, Vec<Refused>> {
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
    let what = match entry.name {
        "transfers" => What::Messages(transfers(given)?),
        "requests" => What::Messages(requests(given)?),
        "udp" => udp(given)?,
        "video" => What::Known(video(given)?),
        _ => What::Known(declared(entry, given)?),
    };
    Ok(Carried { kind: entry.name, what })
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
    Ok(Json::Object(spec))
}

/// Datagrams at constant intervals, with or without pauses, or as recorded.
fn udp(given: &Table) -> Result<What, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let names = PRESETS.map(|(name, ..)| name);
    let preset = fields.take("preset", |value| word(value, &names));
    let preset = PRESETS.iter().find(|(name, ..)| Some(*name) == preset);
    let packet = |value: &Value| {
        let size = BYTES.parse(value, false)?;
        let about = "the size of an IP packet, \"36 B\" to \"1500 B\"";
        if (36..=1500).contains(&size) { Ok(size) } else { Err(out_of_range(value, about)) }
    };
    let rate = fields.take("rate", |value| RATE.parse(value, false));
    let size = fields.take("packet_size", packet);
    let [on, off] = ["on", "off"].map(|key| fields.take(key, |value| TIME.parse(value, false)));
    let pauses = fields.take("pauses", |value| word(value, &["exponential", "constant"]));
    let trace = fields.take("trace", line);
    let repeat = fields.take("repeat", switch);
    fields.end(&["kind", "preset", "rate", "packet_size", "on", "off", "pauses", "trace", "repeat"]);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let of_preset = |text: &str| Value::Text(text.into());
    // A trace has rates and sizes of its own.
    let filled = preset.filter(|_| trace.is_none());
    let keys = UdpKeys {
        preset: preset.map(|(name, ..)| (*name).to_owned()),
        rate: rate.or_else(|| filled.and_then(|(_, rate, _)| RATE.parse(&of_preset(rate), false).ok())),
        packet_size: size.or_else(|| filled.and_then(|(.., size)| packet(&of_preset(size)).ok())),
        on,
        off,
        pauses: pauses.map(str::to_owned),
        trace,
        repeat,
    };
    keys.check().map_err(|error| vec![error])?;
    if let Some(trace) = keys.trace {
        return Ok(What::Recorded(trace, repeat == Some(true)));
    }
    let (rate, size) = (keys.rate.unwrap_or_default(), keys.packet_size.unwrap_or_default());
    let interval = knee_core::convert::truncated((size as f64 * 8e9 / rate as f64).round_ties_even()).max(1);
    let mut spec = json!({"packet": size, "interval": interval});
    if let (Some(on), Some(off)) = (on, off) {
        spec["on"] = json!(on);
        spec["off"] = json!(off);
        spec["constant"] = json!(pauses == Some("constant"));
    }
    Ok(What::Known(spec))
}

/// The keys of datagrams, with what a preset says.
#[derive(Deserialize)]
pub(crate) struct UdpKeys {
    preset: Option<String>,
    rate: Option<u64>,
    packet_size: Option<u64>,
    on: Option<u64>,
    off: Option<u64>,
    pauses: Option<String>,
    trace: Option<String>,
    repeat: Option<bool>,
}

impl UdpKeys {
    /// Refuses keys that contradict each other, or are missing.
    pub(crate) fn check(&self) -> Read<()> {
        let no = |found: &str, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
        if self.trace.is_some() {
            let others = [
                ("preset", self.preset.is_some()),
                ("rate", self.rate.is_some()),
                ("packet_size", self.packet_size.is_some()),
                ("on", self.on.is_some()),
                ("off", self.off.is_some()),
                ("pauses", self.pauses.is_some()),
            ];
            let given = others.into_iter().find(|(_, is_given)| *is_given);
            return given.map_or(Ok(()), |(key, _)| no("the trace has sizes and times", "leave it out", key));
        }
        if self.repeat.is_some() {
            return no("there is no trace to repeat", "leave it out", "repeat");
        }
        if self.rate.is_none() || self.packet_size.is_none() {
            let key = if self.rate.is_none() { "rate" } else { "packet_size" };
            return no("it is missing", "expected rate and packet_size, a preset, or a trace", key);
        }
        if self.on.is_some() != self.off.is_some() {
            let key = if self.off.is_none() { "off" } else { "on" };
            return no("it is missing", "expected on and off, or neither", key);
        }
        if self.pauses.is_some() && self.on.is_none() {
            return no("there are no pauses", "expected on and off too", "pauses");
        }
        Ok(())
    }
}

/// A time of traffic; zero is refused unless `zero` is true.
pub(crate) fn span(value: &Value, zero: bool) -> Read<u64> {
    let span = TIME.parse(value, zero)?;
    if span > LONGEST {
        let found = format!("{} is too large", TIME.text(span));
        return Err(refused(found, format!("expected at most {}", TIME.text(LONGEST))));
    }
    Ok(span)
}

/// The duration of a segment.
fn segment(value: &Value) -> Read<u64> {
    let segment = span(value, false)?;
    if segment >= SHORTEST {
        return Ok(segment);
    }
    let found = format!("{} is too small", TIME.text(segment));
    Err(refused(found, format!("expected at least {}", TIME.text(SHORTEST))))
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
    let segment = fields.take("segment", segment).unwrap_or(4_000_000_000);
    let buffer = fields.take("buffer", |value| span(value, false)).unwrap_or(240_000_000_000);
    let algorithm = fields.take("algorithm", |value| word(value, &["bba", "rate"])).unwrap_or("bba");
    let length = fields.take("length", |value| span(value, false));
    fields.end(&["kind", "ladder", "segment", "buffer", "algorithm", "length"]);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let keys = VideoKeys { ladder: ladder.unwrap_or_else(|| LADDER.into()), segment, buffer };
    keys.check().map_err(|error| vec![error])?;
    Ok(json!({
        "ladder": keys.ladder, "segment": segment, "buffer": buffer, "algorithm": algorithm,
        "length": length,
    }))
}

/// The keys of adaptive streaming that have to fit each other: bit/s, and ns.
#[derive(Deserialize)]
pub(crate) struct VideoKeys {
    ladder: Vec<u64>,
    segment: u64,
    buffer: u64,
}

impl VideoKeys {
    /// Refuses bitrates that do not ascend, and a buffer that does not hold two segments.
    pub(crate) fn check(&self) -> Read<()> {
        let Self { ladder, segment, buffer } = self;
        let no = |found: String, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
        if ladder.is_empty() {
            return no("it is empty".into(), "expected one or more bitrates", "ladder");
        }
        if let Some((below, above)) = ladder.iter().zip(&ladder[1..]).find(|(below, above)| above <= below) {
            let found = format!("{} follows {}", RATE.text(*above), RATE.text(*below));
            return no(found, "expected ascending bitrates", "ladder");
        }
        if *buffer < 2 * segment {
            let found = format!("{} is less than two segments of {}", TIME.text(*buffer), TIME.text(*segment));
            return no(found, "expected a larger buffer", "buffer");
        }
        Ok(())
    }
}
