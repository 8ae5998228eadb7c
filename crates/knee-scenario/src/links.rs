//! The tables `[link]` and `[[links]]`.

use crate::error::{Part, Refused, refused};
use crate::fields::{Fields, Read, line, name, out_of_range, probability, switch, table, text, whole, word};
use crate::framing::{LINK_LAYERS, line_bytes, share_with_reverse, spelled_out};
use crate::node::{Node, Table, Value};
use crate::params::{find, resolve};
use crate::units::{BYTES, RATE, TIME, limit};
use crate::words::quoted;
use crate::{files, words};
use knee_core::{ParamsSpec, Rate};
use knee_link::registry::{self, Choice};
use knee_net::network::params;
use knee_net::spec::{CapacitySpec, LimitSpec, LinkLayerSpec, LinkSpec, ModelSpec, ReverseSpec, SlotSpec};
use serde::Deserialize;
use std::path::Path;

/// The name of `[link]`.
pub(crate) const DEFAULT: &str = "bottleneck";
/// An IP packet of full size, bytes.
const FULL_PACKET: u64 = 1500;
/// Disciplines with a timer that counts the kernel's clock ticks.
const WITH_TICK: &[&str] = &["pie", "fq_pie"];
/// Models whose propagation delay changes by itself.
const MOVING: &[&str] = &["leo"];
const RECORDINGS: [&str; 3] = ["rate_trace", "delay_trace", "loss_trace"];

/// Parameters that both directions of a link share, by model: they describe the air, or the sky.
fn shared(model: &str) -> &'static [&'static str] {
    match model {
        "wifi" => &["contenders", "contender_airtime", "slot", "sifs", "aifsn", "cw_min", "cw_max", "ack"],
        "leo" => &["period", "first", "outage", "delay_spread", "capacity", "burst_gap", "burst_length", "burst_loss"],
        _ => &[],
    }
}

/// A capacity and the queue before it, as a file gives them.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Side {
    pub(crate) rate: Option<u64>,
    trace: Option<String>,
    rate_trace: Option<String>,
    delay_trace: Option<String>,
    loss_trace: Option<String>,
    corrupt: f64,
    slot: Option<SlotSpec>,
    trace_repeats: Option<bool>,
    pub(crate) model: String,
    pub(crate) model_params: ParamsSpec,
    queue: String,
    limit: Option<LimitSpec>,
    #[serde(skip)]
    queue_params: ParamsSpec,
    overhead: u64,
    linklayer: String,
    mpu: u64,
}

/// A link as a file gives it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Link {
    #[serde(flatten)]
    pub(crate) side: Side,
    pub(crate) name: String,
    loss: f64,
    pub(crate) loss_model: String,
    loss_params: ParamsSpec,
    pub(crate) delay: u64,
    jitter: u64,
    delay_model: String,
    #[serde(skip)]
    delay_params: ParamsSpec,
    delay_table: Option<String>,
    reorder: bool,
    pub(crate) channel: Option<String>,
    burst: Option<u64>,
    pub(crate) reverse: Option<Side>,
}

impl Link {
    pub(crate) const fn has_recorded_loss(&self) -> bool {
        self.side.loss_trace.is_some()
    }
}

/// A link whose queues with a timer have the kernel's clock tick, in both directions.
pub(crate) fn on_clock(link: &mut Table, tick: &Node) {
    let inner = link.get("reverse").cloned();
    if let Some(Node { value: Value::Table(mut reverse), span }) = inner {
        on_clock(&mut reverse, tick);
        link.put("reverse", Node { value: Value::Table(reverse), span });
    }
    if !link.text("queue").is_some_and(|queue| WITH_TICK.contains(&queue)) {
        return;
    }
    let given = link.get("queue_params").cloned();
    match given {
        Some(Node { value: Value::Table(mut params), span }) => {
            params.put_default("tick", tick);
            link.put("queue_params", Node { value: Value::Table(params), span });
        }
        Some(_) => {}
        None => {
            let mut params = Table::default();
            params.put("tick", tick.clone());
            link.put("queue_params", Node { value: Value::Table(params), span: tick.span.clone() });
        }
    }
}

fn names(choices: &'static [Choice]) -> Vec<&'static str> {
    choices.iter().map(|choice| choice.name).collect()
}

fn models() -> Vec<&'static str> {
    registry::models().iter().map(|model| model.choice.name).collect()
}

fn slot(value: &Value) -> Result<SlotSpec, Vec<Refused>> {
    let given = table(value).map_err(|error| vec![error])?;
    let mut fields = Fields::of(given);
    let about = "the least time to the next slot, such as \"800 us\"";
    let min = fields.require("min", about, |value| TIME.parse(value, false));
    let max = fields.take("max", |value| TIME.parse(value, false));
    let packets = fields.take("packets", |value| whole(value, 1, "the number of packets of a slot at most"));
    let bytes = fields.take("bytes", |value| BYTES.parse(value, false));
    fields.end(&["min", "max", "packets", "bytes"]);
    let Some(min) = min.filter(|_| fields.errors.is_empty()) else { return Err(fields.errors) };
    match max {
        Some(max) if max < min => {
            let found = format!("{} is less than min, {}", TIME.text(max), TIME.text(min));
            Err(vec![refused(found, "expected at least that").under("max")])
        }
        _ => Ok(SlotSpec { min, max: max.unwrap_or(min), packets, bytes }),
    }
}

/// The name of an entry and its parameters: two keys.
fn chosen(
    fields: &mut Fields<'_>,
    (key, params): (&'static str, &'static str),
    kind: &str,
    default: &'static str,
    known: &[&'static str],
    resolve: impl FnOnce(&'static str, &Table) -> Read<ParamsSpec>,
) -> (String, ParamsSpec) {
    let given = fields.node(key).is_some();
    let name = fields.take(key, |value| find(kind, text(value)?, known));
    let values = fields.take(params, |value| table(value).cloned());
    let refused = fields.errors.last().is_some_and(|error| error.key == [Part::Key(params.into())]);
    let name = if given { name } else { Some(default) };
    let Some(name) = name.filter(|_| !refused) else { return (String::new(), ParamsSpec::new()) };
    let resolved = resolve(name, &values.unwrap_or_default()).map_err(|error| error.under(params));
    (name.into(), fields.keep(resolved).unwrap_or_default())
}

fn of_choice(choices: &'static [Choice]) -> impl Fn(&'static str, &Table) -> Read<ParamsSpec> {
    move |name, given| {
        let declared = choices.iter().find(|choice| choice.name == name).map_or(&[][..], |choice| choice.params);
        resolve(name, declared, given)
    }
}

fn model_params(name: &'static str, given: &Table) -> Read<ParamsSpec> {
    resolve(name, registry::find(name).map_or(&[][..], |model| model.choice.params), given)
}

fn queue_params(name: &'static str, given: &Table) -> Read<ParamsSpec> {
    let declared = knee_queue::find(name).map_or(&[][..], |entry| entry.params);
    if name != "cake" {
        return resolve(name, declared, given);
    }
    if given.get("nat").is_some() {
        let found = "the hosts of a simulated network have addresses of their own, which nothing translates";
        return Err(refused(found, "leave it out").under("nat"));
    }
    resolve(name, declared, &spelled_out(given)?)
}

fn overhead(value: &Value, about: &str) -> Read<u64> {
    let bytes = BYTES.parse(value, true)?;
    if bytes > 10_000 {
        return Err(out_of_range(&Value::Text(BYTES.text(bytes)), about));
    }
    Ok(bytes)
}

/// The keys that both directions have.
fn side(fields: &mut Fields<'_>) -> Side {
    let rate = fields.take("rate", |value| RATE.parse(value, false));
    let trace = fields.take("trace", line);
    let [rate_trace, delay_trace, loss_trace] = RECORDINGS.map(|key| fields.take(key, line));
    let corrupt = fields.take("corrupt", |value| probability(value, "a probability that a packet is damaged, 0 to 1"));
    let slot = fields.node("slot").and_then(|node| {
        let read = slot(&node.value);
        read.map_err(|errors| fields.errors.extend(errors.into_iter().map(|error| error.under("slot")))).ok()
    });
    let trace_repeats = fields.take("trace_repeats", switch);
    let (model, model_params) =
        chosen(fields, ("model", "model_params"), "link model", "wire", &models(), model_params);
    let queues: Vec<&str> = knee_queue::registry().iter().map(|entry| entry.name).collect();
    // The parameters of a queue come after its limit.
    let given = fields.node("queue").is_some();
    let queue = fields.take("queue", |value| find("queue discipline", text(value)?, &queues));
    let queue = if given { queue } else { Some("pfifo") };
    let limit = fields.take("limit", limit);
    let asked = fields.node("queue_params").is_some();
    let given = fields.take("queue_params", |value| table(value).cloned());
    let queue_params = match (queue, given, asked) {
        (None, ..) | (_, None, true) => None,
        (Some(queue), given, _) => {
            let read = queue_params(queue, &given.unwrap_or_default());
            fields.keep(read.map_err(|error| error.under("queue_params")))
        }
    };
    let about = "bytes counted on top of each IP packet, such as \"14 B\", or a keyword such as \"docsis\"";
    let counted = fields.take("overhead", |value| overhead(value, about));
    let linklayer = fields.take("linklayer", |value| word(value, LINK_LAYERS));
    let about = "bytes that each packet takes at least, such as \"64 B\"";
    let mpu = fields.take("mpu", |value| overhead(value, about));
    Side {
        rate,
        trace,
        rate_trace,
        delay_trace,
        loss_trace,
        corrupt: corrupt.unwrap_or(0.0),
        slot,
        trace_repeats,
        model,
        model_params,
        queue: queue.unwrap_or_default().into(),
        limit,
        queue_params: queue_params.unwrap_or_default(),
        overhead: counted.unwrap_or(14),
        linklayer: linklayer.unwrap_or("ethernet").into(),
        mpu: mpu.unwrap_or(0),
    }
}

/// Refuses parameters of a link model that contradict each other or the rate.
pub(crate) fn check_model(model: &str, given: &ParamsSpec, rate: u64) -> Read<()> {
    let Some(model) = registry::find(model) else { return Ok(()) };
    let read = params(model.choice.params, given, model.choice.name);
    let read = read.map_err(|error| refused(error.to_string(), "leave it out"))?;
    let checked = (model.check)(&read, Rate::from_bps(rate));
    checked.map_err(|conflict| refused(conflict.found, conflict.accepted).under(conflict.key))
}

/// Refuses a direction of a link whose rate, traces and model contradict each other.
pub(crate) fn check_capacity(side: &Side) -> Read<()> {
    let given =
        [("rate", side.rate.is_some()), ("trace", side.trace.is_some()), ("rate_trace", side.rate_trace.is_some())];
    let given: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
    let accepted = "expected one of rate = \"100 Mbit/s\", trace = \"FILE\" or rate_trace = \"FILE.csv\"";
    match given.as_slice() {
        [_] => {}
        [] => return Err(refused("rate and trace are both missing", accepted)),
        [one, other, ..] => return Err(refused(format!("{one} and {other} are both given"), accepted)),
    }
    if side.trace_repeats.is_some() && side.recordings().is_empty() {
        let found =
            if side.trace.is_some() { "a trace of opportunities always repeats" } else { "there is no recording" };
        let accepted = format!("leave it out, or expected one of {}", RECORDINGS.join(", "));
        return Err(refused(found, accepted).under("trace_repeats"));
    }
    let model = &side.model;
    if side.delay_trace.is_some() && MOVING.contains(&model.as_str()) {
        let found = format!("the link model {model} has a delay of its own");
        return Err(refused(found, "leave one of the two out").under("delay_trace"));
    }
    if model == "wire" {
        return Ok(());
    }
    let Some(rate) = side.rate else {
        let found = format!("the link model {model} sends at a rate of its own");
        return Err(refused(found, "expected rate = \"100 Mbit/s\" instead").under(given[0]));
    };
    check_model(model, &side.model_params, rate).map_err(|error| error.under("model_params"))
}

fn reverse(value: &Value) -> Result<Side, Vec<Refused>> {
    let given = table(value).map_err(|error| vec![error])?;
    let mut fields = Fields::of(given);
    let made = side(&mut fields);
    fields.end(&SIDE_KEYS);
    if fields.errors.is_empty() {
        fields.keep(check_capacity(&made));
    }
    if fields.errors.is_empty() { Ok(made) } else { Err(fields.errors) }
}

const SIDE_KEYS: [&str; 16] = [
    "rate",
    "trace",
    "rate_trace",
    "delay_trace",
    "loss_trace",
    "corrupt",
    "slot",
    "trace_repeats",
    "model",
    "model_params",
    "queue",
    "limit",
    "queue_params",
    "overhead",
    "linklayer",
    "mpu",
];
const OWN_KEYS: [&str; 13] = [
    "name",
    "loss",
    "loss_model",
    "loss_params",
    "delay",
    "jitter",
    "delay_model",
    "delay_params",
    "delay_table",
    "reorder",
    "channel",
    "burst",
    "reverse",
];

/// A link of a file.
pub(crate) fn link(given: &Table) -> Result<Link, Vec<Refused>> {
    let given = share_with_reverse(given).map_err(|error| vec![error])?;
    let mut fields = Fields::of(&given);
    let side = side(&mut fields);
    let named = fields.take("name", name);
    let loss = fields.take("loss", |value| probability(value, "a probability, 0 to 1"));
    let losses = registry::losses();
    let pair = ("loss_model", "loss_params");
    let (loss_model, loss_params) =
        chosen(&mut fields, pair, "loss model", "random", &names(losses), of_choice(losses));
    let delay = fields.take("delay", |value| TIME.parse(value, true));
    let jitter = fields.take("jitter", |value| TIME.parse(value, true));
    let delays = registry::delays();
    let pair = ("delay_model", "delay_params");
    let (delay_model, delay_params) =
        chosen(&mut fields, pair, "delay model", "uniform", &names(delays), of_choice(delays));
    let delay_table = fields.take("delay_table", line);
    let reorder = fields.take("reorder", switch);
    let channel = fields.take("channel", name);
    let burst = fields.take("burst", |value| BYTES.parse(value, false));
    let back = fields.node("reverse").and_then(|node| {
        let read = reverse(&node.value);
        read.map_err(|errors| fields.errors.extend(errors.into_iter().map(|error| error.under("reverse")))).ok()
    });
    fields.end(&[&SIDE_KEYS[..], &OWN_KEYS].concat());
    let link = Link {
        side,
        name: named.unwrap_or_else(|| DEFAULT.into()),
        loss: loss.unwrap_or(0.0),
        loss_model,
        loss_params,
        delay: delay.unwrap_or(0),
        jitter: jitter.unwrap_or(0),
        delay_model,
        delay_params,
        delay_table,
        reorder: reorder.unwrap_or(false),
        channel,
        burst,
        reverse: back,
    };
    if fields.errors.is_empty() {
        fields.keep(check(&link));
    }
    if fields.errors.is_empty() { Ok(link) } else { Err(fields.errors) }
}

/// Refuses a link whose rate, traces and models contradict each other, or its other keys.
pub(crate) fn check(link: &Link) -> Read<()> {
    check_capacity(&link.side)?;
    let model = &link.side.model;
    let no = |found: String, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
    if link.burst.is_some() && model != "wire" {
        return no(format!("the link model {model} is no token bucket"), "leave burst out", "burst");
    }
    if let Some(back) = link.reverse.as_ref().filter(|back| link.burst.is_some() && back.model != "wire") {
        let found = format!("burst holds for both directions, and the reverse one has the model {}", back.model);
        return no(found, "leave burst out", "burst");
    }
    if link.channel.is_some() && model != "wifi" {
        let found = format!("the link model {model} has no channel that others send on");
        return no(found, "leave it out, or expected model = \"wifi\"", "channel");
    }
    if link.side.slot.is_some() && link.reorder {
        return no("the packets of a slot leave in order".into(), "leave one of slot and reorder out", "slot");
    }
    let (has_loss, loss_model) = (link.loss != 0.0, &link.loss_model);
    if link.has_recorded_loss() && (has_loss || loss_model != "random") {
        let other = if has_loss { "loss" } else { "loss_model" };
        let found = format!("{other} is given beside a recording of losses");
        return no(found, "leave one of the two out", "loss_trace");
    }
    if loss_model != "random" && has_loss {
        let loss = words::number(link.loss);
        let found = format!("{loss} is given beside the loss model {loss_model}, which has probabilities of its own");
        return no(found, "leave it out, or loss_model = \"random\"", "loss");
    }
    let lossless = |name: &str| link.loss_params.get(name).is_none_or(|p| *p == knee_core::ValueSpec::Ratio(0.0));
    if loss_model != "random" && lossless("p") && lossless("loss_good") {
        let error = refused("p and loss_good are 0: nothing is ever lost", "expected p above 0");
        return Err(error.under("p").under("loss_params"));
    }
    let delay_model = &link.delay_model;
    if delay_model != "uniform" && link.jitter > 0 {
        let found = format!("{} is given beside the delay model {delay_model}", TIME.text(link.jitter));
        return no(found, "leave it out, or delay_model = \"uniform\"", "jitter");
    }
    match (delay_model == "table", link.delay_table.is_some()) {
        (true, false) => {
            let found = "the delay model table has no table".into();
            return no(found, "expected delay_table = \"FILE\"", "delay_table");
        }
        (false, true) => {
            let found = format!("the delay model {delay_model} reads no table");
            return no(found, "leave it out, or delay_model = \"table\"", "delay_table");
        }
        _ => {}
    }
    let Some(back) = link.reverse.as_ref().filter(|back| back.model == *model) else { return Ok(()) };
    for name in shared(model) {
        if back.model_params.get(*name) != link.side.model_params.get(*name) {
            let found = "it differs from the link's own, which both directions share";
            let error = refused(found, "leave it out, or expected the same value");
            return Err(error.under(name).under("model_params").under("reverse"));
        }
    }
    Ok(())
}

/// Refuses links that do not fit together.
pub(crate) fn check_all(links: &[Link]) -> Read<()> {
    let at =
        |i: usize, key: &str, found: String, accepted: &str| Err(refused(found, accepted).under(key).at(i, "links"));
    if links.is_empty() {
        return Err(refused("there is no link", "expected a [link] or one or more [[links]]").under("links"));
    }
    for (i, link) in links.iter().enumerate() {
        if links[..i].iter().any(|other| other.name == link.name) {
            return at(i, "name", format!("{} is already used", quoted(&link.name)), "each link needs its own name");
        }
        if let Some(burst) = link.burst {
            if link.side.rate.is_none() {
                return at(i, "burst", "a link with a trace cannot be a token bucket".into(), "leave burst out");
            }
            let side = &link.side;
            let least = line_bytes((side.overhead, &side.linklayer, side.mpu), FULL_PACKET);
            if burst < least {
                let found = format!("{} is less than a full packet", BYTES.text(burst));
                return at(i, "burst", found, &format!("expected {} or more", BYTES.text(least)));
            }
        }
        let has_jitter = link.jitter > 0 || link.delay_model != "uniform" || link.side.delay_trace.is_some();
        if link.reorder && !has_jitter {
            let accepted = "add jitter, such as jitter = \"1 ms\", or a delay_model";
            return at(i, "reorder", "the link has no jitter to reorder packets".into(), accepted);
        }
    }
    for (i, link) in links.iter().enumerate() {
        let Some(channel) = &link.channel else { continue };
        let Some(other) = links.iter().find(|other| other.channel.as_ref() == Some(channel)) else { continue };
        for name in shared("wifi") {
            if link.side.model_params.get(*name) != other.side.model_params.get(*name) {
                let other = &other.name;
                let found =
                    format!("it differs from that of the link {other}, which is on the same channel, {channel}");
                let error = refused(found, "expected the same value, or another channel");
                return Err(error.under(name).under("model_params").at(i, "links"));
            }
        }
    }
    Ok(())
}

impl Side {
    /// The keys that name recordings by time.
    fn recordings(&self) -> Vec<&'static str> {
        let given = [&self.rate_trace, &self.delay_trace, &self.loss_trace];
        RECORDINGS.into_iter().zip(given).filter(|(_, file)| file.is_some()).map(|(key, _)| key).collect()
    }

    fn spec(&self, folder: Option<&Path>) -> Read<ReverseSpec> {
        let capacity = match (&self.trace, self.rate) {
            (Some(name), _) => {
                let trace = files::find(name, files::KIND_TRACE, folder).and_then(|path| files::trace(&path));
                CapacitySpec::Trace(trace.map_err(|error| error.under("trace"))?)
            }
            (None, rate) => CapacitySpec::Rate(rate.unwrap_or_default()),
        };
        if let Some(key) = self.recordings().first() {
            return Err(files::recording(key).under(key));
        }
        let linklayer = match self.linklayer.as_str() {
            "atm" => LinkLayerSpec::Atm,
            "ptm" => LinkLayerSpec::Ptm,
            _ => LinkLayerSpec::Ethernet,
        };
        Ok(ReverseSpec {
            capacity,
            model: ModelSpec { name: self.model.clone(), params: self.model_params.clone() },
            queue: self.queue.clone(),
            limit: self.limit,
            queue_params: self.queue_params.clone(),
            delay_trace: None,
            loss_trace: None,
            slot: self.slot,
            corrupt: self.corrupt,
            overhead: Some(knee_core::convert::saturating_u32(self.overhead)),
            mpu: knee_core::convert::saturating_u32(self.mpu),
            linklayer,
        })
    }
}

impl Link {
    /// The engine's form.
    pub(crate) fn spec(&self, folder: Option<&Path>) -> Read<LinkSpec> {
        let table = self
            .delay_table
            .as_ref()
            .map(|name| files::find(name, files::KIND_TABLE, folder).and_then(|path| files::delays(&path)));
        let delay_table = table.transpose().map_err(|error| error.under("delay_table"))?;
        let ReverseSpec {
            capacity, model, queue, limit, queue_params, slot, corrupt, overhead, mpu, linklayer, ..
        } = self.side.spec(folder)?;
        let reverse = self.reverse.as_ref().map(|side| side.spec(folder)).transpose();
        Ok(LinkSpec {
            name: self.name.clone(),
            capacity,
            queue,
            limit,
            queue_params,
            overhead: overhead.unwrap_or_default(),
            mpu,
            linklayer,
            model,
            channel: self.channel.clone(),
            loss: self.loss,
            loss_model: Some(ModelSpec { name: self.loss_model.clone(), params: self.loss_params.clone() }),
            delay: self.delay,
            jitter: self.jitter,
            delay_model: Some(ModelSpec { name: self.delay_model.clone(), params: self.delay_params.clone() }),
            delay_table,
            reorder: self.reorder,
            delay_trace: None,
            loss_trace: None,
            slot,
            corrupt,
            burst: self.burst,
            reverse: reverse.map_err(|error| error.under("reverse"))?,
        })
    }
}
