//! The kinds `transfers` and `requests` of traffic: messages that start at times of their own, with sizes by a
//! distribution.

use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, between, line, list, number, switch, table, word};
use crate::files::{KIND_SIZES, KIND_TIMES, find};
use crate::node::{Key, Node, Table, Value};
use crate::recordings;
use crate::settings::bytes;
use crate::traffic::span;
use crate::units::{BYTES, RATE, TIME};
use crate::words::{rounded, shown};
use knee_traffic::spec::Size as Drawn;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::path::Path;

/// Bytes of certificates with TLS over TCP: the server's first answer has 4000 B then.
pub(crate) const USUAL_CERTIFICATE: u64 = 3_682;

/// The largest message, bytes; and most transfers or pages per second.
const LARGEST_MESSAGE: u64 = 1_000_000_000_000_000;
const MOST_PER_SECOND: f64 = 1e7;
/// Most transfers or pages of a flow.
const MOST_NUMBER: u64 = 1 << 53;
/// The largest message of a lognormal distribution that names none, bytes.
const USUAL_MAX: u64 = 1_000_000_000;

const CONNECTIONS: [&str; 2] = ["new", "persistent"];
const SIZE: &str = "expected a size such as \"30 kB\", or a table such as { distribution = \"web-search\" }";

/// When transfers or pages start.
#[derive(Clone, Debug)]
pub(crate) enum Starts {
    /// By a process of this name: starts per second.
    PerSecond(String, f64),
    /// By a process of this name: the load that they offer, bit/s.
    Load(String, u64),
    /// At the times of a file.
    Times(String),
    /// This long after the last answer, ns; the flag: that is a mean.
    Think(u64, bool),
}

/// Sizes of messages.
#[derive(Clone, Debug)]
pub(crate) enum Size {
    /// In the engine's form.
    Known(Json),
    /// A distribution that is shipped.
    Shipped(String),
    /// A distribution in a file.
    File(String),
}

impl Size {
    /// The engine's form.
    pub(crate) fn spec(&self, folder: Option<&Path>) -> Read<Json> {
        match self {
            Self::Known(spec) => Ok(spec.clone()),
            Self::Shipped(name) => Ok(json!({"empirical": recordings::shipped_sizes(name)?})),
            Self::File(name) => {
                let points = find(name, KIND_SIZES, folder).and_then(|path| recordings::sizes(&path));
                Ok(json!({"empirical": points.map_err(|error| error.under("file").under("size"))?}))
            }
        }
    }
}

impl Starts {
    /// The engine's form; `size` is that of the messages.
    pub(crate) fn spec(&self, size: &Size, folder: Option<&Path>) -> Read<Json> {
        match self {
            Self::PerSecond(process, per_second) => Ok(json!({process: per_second})),
            Self::Load(process, load) => Ok(json!({process: per_second(*load, &size.spec(folder)?)?})),
            Self::Times(name) => {
                let times = find(name, KIND_TIMES, folder).and_then(|path| recordings::times(&path));
                Ok(json!({"times": times.map_err(|error| error.under("times"))?}))
            }
            Self::Think(time, is_mean) => Ok(json!({"closed": [time, is_mean]})),
        }
    }
}

/// Transfers per second of these sizes that offer a load, bit/s.
fn per_second(load: u64, size: &Json) -> Read<f64> {
    let mean = serde_json::from_str::<Drawn>(&size.to_string()).map_or(f64::NAN, |size| size.mean());
    let number = load as f64 / 8.0 / mean;
    if number <= MOST_PER_SECOND {
        return Ok(number);
    }
    let found = format!("{} of such sizes are {} transfers per second", RATE.text(load), rounded(number, 3));
    let most = rounded(MOST_PER_SECOND, 1);
    Err(refused(found, format!("expected a lower load, of at most {most} per second")).under("load"))
}

fn message(value: &Value) -> Read<u64> {
    let size = BYTES.parse(value, false)?;
    if size <= LARGEST_MESSAGE {
        return Ok(size);
    }
    let found = format!("{} is too large", BYTES.text(size));
    Err(refused(found, format!("expected at most {}", BYTES.text(LARGEST_MESSAGE))))
}

/// A size, or a distribution of sizes.
fn size(value: &Value) -> Result<Size, Vec<Refused>> {
    if let Value::Text(_) = value {
        BYTES.parse(value, false).map_err(|error| vec![error])?;
        let bytes = message(value).map_err(|error| vec![error.under("bytes")])?;
        return Ok(Size::Known(json!({"fixed": bytes})));
    }
    let Value::Table(given) = value else {
        return Err(vec![refused(format!("{} is not a size", shown(value)), SIZE)]);
    };
    let mut fields = Fields::of(given);
    let read = SizeKeys {
        bytes: fields.take("bytes", message),
        distribution: fields
            .take("distribution", |value| word(value, &["lognormal", "pareto", "web-search", "data-mining"]))
            .map(str::to_owned),
        median: fields.take("median", message),
        sigma: fields.take("sigma", |value| number(value, |x| x > 0.0 && x <= 5.0, SIGMA)),
        min: fields.take("min", message),
        shape: fields.take("shape", |value| number(value, |x| x > 0.0 && x <= 100.0, SHAPE)),
        max: fields.take("max", message),
        file: fields.take("file", line),
    };
    fields.end(&["bytes", "distribution", "median", "sigma", "min", "shape", "max", "file"]);
    if fields.errors.is_empty() { read.size().map_err(|error| vec![error]) } else { Err(fields.errors) }
}

const MEDIAN: &str = "the median, such as \"10 kB\"";
const SIGMA: &str = "the standard deviation of the logarithm, above 0 and at most 5";
const MIN: &str = "the smallest size, such as \"1 kB\"";
const SHAPE: &str = "the exponent of the tail, above 0 and at most 100";
const MAX: &str = "the largest size, such as \"100 MB\"";

/// The keys of a distribution of sizes.
#[derive(Deserialize)]
pub(crate) struct SizeKeys {
    bytes: Option<u64>,
    distribution: Option<String>,
    median: Option<u64>,
    sigma: Option<f64>,
    min: Option<u64>,
    shape: Option<f64>,
    max: Option<u64>,
    file: Option<String>,
}

impl SizeKeys {
    /// The sizes that they say.
    pub(crate) fn size(mut self) -> Read<Size> {
        if self.distribution.as_deref() == Some("lognormal") {
            self.max = self.max.or(Some(USUAL_MAX));
        }
        if let Some(bytes) = self.bytes {
            self.only(&["bytes"], "a fixed size")?;
            return Ok(Size::Known(json!({"fixed": bytes})));
        }
        let Some(distribution) = self.distribution.clone() else {
            let Some(file) = self.file.clone() else {
                return Err(refused("it has neither distribution nor file", SIZE));
            };
            return self.only(&["file"], "a size from a file").map(|()| Size::File(file));
        };
        let name = format!("the distribution {distribution}");
        let needs = |about: &str, key| refused("it is missing", format!("{name} needs {about}")).under(key);
        match distribution.as_str() {
            "lognormal" => {
                self.only(&["median", "sigma", "max"], &name)?;
                let median = self.median.ok_or_else(|| needs(MEDIAN, "median"))?;
                let sigma = self.sigma.ok_or_else(|| needs(SIGMA, "sigma"))?;
                let max = above(self.max, median, "median")?;
                Ok(Size::Known(json!({"lognormal": [median as f64, sigma, max]})))
            }
            "pareto" => {
                self.only(&["min", "shape", "max"], &name)?;
                let min = self.min.ok_or_else(|| needs(MIN, "min"))?;
                let shape = self.shape.ok_or_else(|| needs(SHAPE, "shape"))?;
                let max = above(Some(self.max.ok_or_else(|| needs(MAX, "max"))?), min, "smallest size")?;
                Ok(Size::Known(json!({"pareto": [min as f64, shape, max]})))
            }
            shipped => self.only(&[], &name).map(|()| Size::Shipped(shipped.into())),
        }
    }

    /// Refuses keys that a distribution does not have.
    fn only(&self, known: &[&str], name: &str) -> Read<()> {
        let given = [
            ("bytes", self.bytes.is_some()),
            ("median", self.median.is_some()),
            ("sigma", self.sigma.is_some()),
            ("min", self.min.is_some()),
            ("shape", self.shape.is_some()),
            ("max", self.max.is_some()),
            ("file", self.file.is_some()),
        ];
        match given.into_iter().find(|(key, is_given)| *is_given && !known.contains(key)) {
            Some((key, _)) => Err(refused(format!("{name} has no such parameter"), "leave it out").under(key)),
            None => Ok(()),
        }
    }
}

/// The largest size, which exceeds another.
fn above(max: Option<u64>, least: u64, what: &str) -> Read<u64> {
    let max = max.unwrap_or(USUAL_MAX);
    if max > least {
        return Ok(max);
    }
    let [max, least] = [max, least].map(|bytes| BYTES.text(bytes));
    Err(refused(format!("{max} is not above the {what} of {least}"), "expected a larger size").under("max"))
}

/// The keys that say when transfers or pages start.
#[derive(Deserialize)]
pub(crate) struct Arriving {
    arrivals: Option<String>,
    per_second: Option<f64>,
    times: Option<String>,
    /// The payload that transfers offer, bit/s, in place of `per_second`.
    load: Option<u64>,
}

const ARRIVING: [&str; 3] = ["arrivals", "per_second", "times"];

fn arriving(fields: &mut Fields<'_>) -> Arriving {
    let about = "a number per second, such as 50.0";
    Arriving {
        arrivals: fields.take("arrivals", |value| word(value, &["poisson", "periodic"])).map(str::to_owned),
        per_second: fields.take("per_second", |value| number(value, |x| x > 0.0 && x <= MOST_PER_SECOND, about)),
        times: fields.take("times", line),
        load: None,
    }
}

/// Keys that say how often transfers start, and pages.
pub(crate) const RATES_OF_TRANSFERS: &str = "per_second, load";
pub(crate) const RATES_OF_PAGES: &str = "per_second";

impl Arriving {
    /// When they start; `rates` are the keys of the kind that say how often.
    pub(crate) fn starts(self, rates: &str) -> Read<Starts> {
        let Self { arrivals, per_second, times, load } = self;
        let given = [("per_second", per_second.is_some()), ("load", load.is_some()), ("times", times.is_some())];
        let given: Vec<&str> = given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect();
        let accepted = format!("expected one of {rates} and times");
        if let [_, second, ..] = given[..] {
            let number = if given.len() == 2 { "both" } else { "all" };
            return Err(refused(format!("{} are {number} given", given.join(" and ")), accepted).under(second));
        }
        let is_named = arrivals.is_some();
        let process = arrivals.unwrap_or_else(|| "poisson".into());
        match (times, per_second, load) {
            (Some(_), ..) if is_named => {
                let accepted = "expected one of arrivals and times";
                Err(refused("the file says when they start", accepted).under("arrivals"))
            }
            (Some(times), ..) => Ok(Starts::Times(times)),
            (None, Some(per_second), _) => Ok(Starts::PerSecond(process, per_second)),
            (None, None, Some(load)) => Ok(Starts::Load(process, load)),
            (None, None, None) => Err(refused("it does not say when they start", accepted).under("per_second")),
        }
    }
}

/// A flow's messages, of either kind.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    pub(crate) starts: Starts,
    pub(crate) size: Size,
    /// The other keys, in the engine's form.
    pub(crate) spec: Json,
}

const SIZE_ABOUT: &str = "a size such as \"30 kB\", or a table such as { distribution = \"web-search\" }";
const ANSWER_ABOUT: &str = "the size of an answer, such as \"30 kB\", or a table such as { file = \"FILE\" }";

/// A key that must be there, in which several values can be refused.
fn required<T>(
    fields: &mut Fields<'_>,
    name: &'static str,
    about: &str,
    read: impl FnOnce(&Value) -> Result<T, Vec<Refused>>,
) -> Option<T> {
    let Some(node) = fields.node(name) else {
        fields.errors.push(refused("it is missing", format!("expected {about}")).under(name));
        return None;
    };
    let keep = |errors: Vec<Refused>| fields.errors.extend(errors.into_iter().map(|error| error.under(name)));
    read(&node.value).map_err(keep).ok()
}

/// Connections that come and go, or messages on one that stays.
pub(crate) fn transfers(given: &Table) -> Result<Messages, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let mut arriving = arriving(&mut fields);
    arriving.load = fields.take("load", |value| RATE.parse(value, false));
    let size = required(&mut fields, "size", SIZE_ABOUT, size);
    let connection = fields.take("connection", |value| word(value, &CONNECTIONS));
    let number = fields.take("number", |value| between(value, 1, MOST_NUMBER, "a number of transfers, 1 or more"));
    let known = [&ARRIVING[..], &["kind", "load", "size", "connection", "number"]].concat();
    fields.end(&known);
    let Some(size) = size.filter(|_| fields.errors.is_empty()) else { return Err(fields.errors) };
    let starts = arriving.starts(RATES_OF_TRANSFERS).map_err(|error| vec![error])?;
    let spec = json!({"persistent": connection == Some("persistent"), "number": number});
    Ok(Messages { starts, size, spec })
}

/// The keys of a preset of requests, as a file would have them.
const PRESETS: [(&str, &str); 2] = [
    (
        "web-page",
        "request = \"500 B\"\n\
         size = { distribution = \"lognormal\", median = \"12 kB\", sigma = 1.5, max = \"2 MB\" }\n\
         objects = 71\nconnections = 6\nconnection = \"new\"\ntls = \"1.3\"\nservice = \"10 ms\"\nthink = \"1 s\"",
    ),
    (
        "rpc",
        "request = \"200 B\"\nsize = \"1 kB\"\nobjects = 1\nconnections = 1\nconnection = \"persistent\"\n\
         tls = \"none\"\nservice = \"0 s\"\nthink = \"10 ms\"",
    ),
];

/// The table with what its preset says, and without a time to think where pages start at given times.
fn with_preset(given: &Table) -> Read<Table> {
    let preset = PRESETS.iter().find(|(name, _)| given.text("preset") == Some(name));
    let preset = preset.and_then(|(_, text)| Table::parse(text).ok()).unwrap_or_default();
    let mut whole = given.clone();
    let is_open = ["per_second", "times"].iter().any(|key| given.get(key).is_some());
    if is_open && given.get("think").is_some() {
        return Err(refused(GIVEN_TIMES, "expected one of think, per_second and times").under("think"));
    }
    for Key { name, node, .. } in preset.0 {
        if !is_open || name != "think" {
            whole.put_default(&name, &node);
        }
    }
    if !is_open {
        whole.put_default("think", &Node { value: Value::Text("0 s".into()), span: 0..0 });
    }
    Ok(whole)
}

const GIVEN_TIMES: &str = "pages start at given times";

/// A table of the one key `mean`.
fn mean(value: &Value) -> Option<&Value> {
    match value {
        Value::Table(Table(keys)) => match keys.as_slice() {
            [Key { name, node, .. }] if name == "mean" => Some(&node.value),
            _ => None,
        },
        _ => None,
    }
}

/// A time between pages.
fn think(value: &Value) -> Read<Starts> {
    if let Some(mean) = mean(value) {
        return span(mean, false).map(|time| Starts::Think(time, true)).map_err(|error| error.under("mean"));
    }
    if let Value::Table(_) = value {
        let accepted = "expected a time such as \"1 s\", or a table { mean = \"1 s\" }";
        return Err(refused("it is a table", accepted));
    }
    TIME.parse(value, true)?;
    span(value, true).map(|time| Starts::Think(time, false)).map_err(|error| error.under("time"))
}

/// A number of objects of a page, in the engine's form.
fn objects(value: &Value) -> Read<Json> {
    const MOST: u64 = 10_000;
    if let Some(mean) = mean(value) {
        let is_mean = |x| (1.0..=MOST as f64).contains(&x);
        let mean = number(mean, is_mean, "a mean from 1 to 10000").map_err(|error| error.under("mean"))?;
        return Ok(json!({"geometric": mean}));
    }
    between(value, 1, MOST, "").map(|number| json!({"fixed": number})).map_err(|_| {
        let accepted = "expected a whole number from 1 to 10000, or a table { mean = 70.0 }";
        refused(format!("{} is not a number of objects", shown(value)), accepted)
    })
}

/// A priority of all answers, or of one after the other, in the engine's form.
fn priorities(value: &Value) -> Result<Vec<Json>, Vec<Refused>> {
    const ACCEPTED: &str = "expected a table such as { urgency = 3, incremental = false }, or a list of such";
    let nodes = match value {
        Value::List(nodes) if nodes.is_empty() => return Err(vec![refused("it is empty", ACCEPTED)]),
        Value::List(_) => list(value).map_err(|error| vec![error])?.to_vec(),
        Value::Table(_) => vec![Node { value: value.clone(), span: 0..0 }],
        other => return Err(vec![refused(format!("{} is not a priority", shown(other)), ACCEPTED)]),
    };
    let (mut read, mut errors) = (Vec::new(), Vec::new());
    for (i, node) in nodes.iter().enumerate() {
        match priority(&node.value) {
            Ok(priority) => read.push(priority),
            Err(refused) => errors.extend(refused.into_iter().map(|error| error.in_list(i))),
        }
    }
    if errors.is_empty() { Ok(read) } else { Err(errors) }
}

fn priority(value: &Value) -> Result<Json, Vec<Refused>> {
    let mut fields = Fields::of(table(value).map_err(|error| vec![error])?);
    let urgency = fields.take("urgency", |value| between(value, 0, 7, "an urgency, 0 to 7; 0 goes first"));
    let incremental = fields.take("incremental", switch);
    fields.end(&["urgency", "incremental"]);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    Ok(json!({"urgency": urgency.unwrap_or(3), "incremental": incremental.unwrap_or(false)}))
}

/// Requests and answers.
pub(crate) fn requests(given: &Table) -> Result<Messages, Vec<Refused>> {
    let whole = with_preset(given).map_err(|error| vec![error])?;
    let mut fields = Fields::of(&whole);
    let arriving = arriving(&mut fields);
    fields.take("preset", |value| word(value, &PRESETS.map(|(name, _)| name)));
    let request = fields.take("request", message);
    let size = required(&mut fields, "size", ANSWER_ABOUT, size);
    let objects = fields.take("objects", objects).unwrap_or_else(|| json!({"fixed": 1}));
    let connections =
        fields.take("connections", |value| between(value, 1, 1000, "a number of connections per page, 1 to 1000"));
    let about = "a number of requests at once on a connection over QUIC, 1 to 10000";
    let streams = fields.take("streams", |value| between(value, 1, 10_000, about)).unwrap_or(1);
    let priority = fields.node("priority").and_then(|node| {
        let keep = |errors: Vec<Refused>| fields.errors.extend(errors.into_iter().map(|error| error.under("priority")));
        priorities(&node.value).map_err(keep).ok()
    });
    let connection = fields.take("connection", |value| word(value, &CONNECTIONS));
    let tls = fields.take("tls", |value| word(value, &["1.3", "1.2", "none"])).unwrap_or("1.3");
    let about = "the size of the server's certificates, up to \"36 kB\"";
    let certificate = fields.take("certificate", |value| bytes(value, 0, 36_000, about)).unwrap_or(USUAL_CERTIFICATE);
    let service = fields.take("service", |value| span(value, true)).unwrap_or(0);
    let think = fields.take("think", think);
    let together = fields.take("together", switch).unwrap_or(false);
    let number = fields.take("number", |value| between(value, 1, MOST_NUMBER, "a number of pages, 1 or more"));
    let others = [
        "kind",
        "preset",
        "request",
        "size",
        "objects",
        "connections",
        "streams",
        "priority",
        "connection",
        "tls",
        "certificate",
        "service",
        "think",
        "together",
        "number",
    ];
    let known = [&ARRIVING[..], &others].concat();
    fields.end(&known);
    let Some(size) = size.filter(|_| fields.errors.is_empty()) else { return Err(fields.errors) };
    let asking = Asking {
        thinks: think.is_some(),
        has_arrivals: arriving.arrivals.is_some(),
        together,
        connections: connections.unwrap_or(1),
        streams,
        is_one_object: objects == json!({"fixed": 1}),
        tls: tls.into(),
        certificate,
        has_priority: priority.is_some(),
    };
    let starts = think.map_or_else(|| arriving.starts(RATES_OF_PAGES), Ok).map_err(|error| vec![error])?;
    asking.check().map_err(|error| vec![error])?;
    let connections = asking.connections;
    let spec = json!({
        "request": request.unwrap_or(500), "objects": objects, "connections": connections, "streams": streams,
        "priority": priority, "persistent": connection == Some("persistent"), "tls": tls,
        "certificate": certificate, "service": service,
        "together": together, "number": number,
    });
    Ok(Messages { starts, size, spec })
}

/// Keys of requests that have to fit each other.
#[derive(Deserialize)]
pub(crate) struct Asking {
    /// Pages start a time after the last one, and not at times of their own.
    thinks: bool,
    has_arrivals: bool,
    together: bool,
    connections: u64,
    streams: u64,
    is_one_object: bool,
    tls: String,
    certificate: u64,
    has_priority: bool,
}

impl Asking {
    /// Refuses keys that contradict each other.
    pub(crate) fn check(&self) -> Read<()> {
        let no = |found: &str, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
        if self.thinks && self.has_arrivals {
            return no("it has no rate", "add per_second, or leave it out", "arrivals");
        }
        if self.together && self.connections == 1 && self.streams == 1 && !self.is_one_object {
            let found = "one connection asks for one object at a time, unless it has several streams of QUIC";
            return no(found, "expected connections or streams of 2 or more, or no such key", "together");
        }
        if self.tls == "none" && self.certificate != USUAL_CERTIFICATE {
            return no("without TLS there are none", "expected tls = \"1.3\", or no such key", "certificate");
        }
        if self.has_priority && self.streams == 1 {
            let found = "answers of a connection with one stream come one after the other";
            return no(found, "expected streams of 2 or more, or no such key", "priority");
        }
        Ok(())
    }
}
