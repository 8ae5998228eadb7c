//! From the specification of links to links at rest.

use super::{Direction, SpecError};
use crate::spec::{CapacitySpec, LinkSpec, ModelSpec, ParamsSpec, RecordedSpec, ReverseSpec, SlotSpec, Spec};
use knee_core::convert::index_u32;
use knee_core::{Bytes, Param, Params, Rate, Rng, Time};
use knee_link::medium::PathDelay;
use knee_link::registry::{self, Choice, Init, Shared};
use knee_link::{ByCategory, Delay, DynQueue, Framing, Link, Loss, Recorded, RecordedRate, Server, Slots, Slotting};
use std::sync::Arc;

/// The parameters `given`, and the defaults of the others that are `declared`.
///
/// # Errors
/// If one is not declared or not accepted; `owner` is whose they are.
pub fn params(declared: &[Param], given: &ParamsSpec, owner: &str) -> Result<Params, SpecError> {
    Params::from_spec(declared, given).map_err(|error| SpecError::Param { owner: owner.into(), error })
}

/// A recording with its values made of those `given`; `None` if its times are none.
fn recorded<T, V: Copy>(given: &RecordedSpec<T>, value: impl Fn(&T) -> V) -> Option<Recorded<V>> {
    let at = given.at.iter().map(|ns| Time::from_nanos(*ns)).collect();
    Recorded::new(at, given.values.iter().map(value).collect(), given.period.map(Time::from_nanos))
}

fn rates(given: &RecordedSpec<u64>) -> Option<RecordedRate> {
    RecordedRate::new(recorded(given, |bps| *bps)?)
}

fn no_times(link: &str, key: &'static str) -> SpecError {
    SpecError::Conflict { link: link.into(), key, found: "its times do not ascend from 0 to its period".into() }
}

fn mean_rate(capacity: &CapacitySpec) -> Option<Rate> {
    match capacity {
        CapacitySpec::Rates(given) => rates(given).map(|rates| rates.mean()),
        CapacitySpec::Rate(0) => None,
        CapacitySpec::Rate(bps) => Some(Rate::from_bps(*bps)),
        CapacitySpec::Trace(ms) => {
            let last = *ms.last()?;
            let ascending = ms.windows(2).all(|w| w[0] <= w[1]);
            (ascending && last > 0).then(|| Rate::from_bps(ms.len() as u64 * 12_000_000 / last))
        }
    }
}

/// A choice that a scenario names, with its parameters.
fn choice<'a>(
    choices: impl IntoIterator<Item = &'a Choice>,
    asked: &ModelSpec,
    link: &str,
) -> Result<(&'a Choice, Params), SpecError> {
    let unknown = || SpecError::UnknownModel { link: link.into(), name: asked.name.clone() };
    let found = choices.into_iter().find(|choice| choice.name == asked.name).ok_or_else(unknown)?;
    Ok((found, params(found.params, &asked.params, &format!("link `{link}`"))?))
}

/// The server of a link: a model, a wire, a token bucket or a trace; and the extra propagation delay behind a model.
fn build_server(
    asked: &ReverseSpec,
    spec: &LinkSpec,
    init: &Init,
) -> Result<(Server, Option<Box<dyn PathDelay>>), SpecError> {
    let (name, rate) = (init.name, init.rate);
    let (_, params) = choice(registry::models().iter().map(|model| &model.choice), &asked.model, name)?;
    if let Some(model) = registry::find(&asked.model.name)
        && let Some(make) = model.make
    {
        (model.check)(&params, rate).map_err(|conflict| SpecError::Conflict {
            link: name.into(),
            key: conflict.key,
            found: conflict.found,
        })?;
        if spec.burst.is_some() || asked.capacity.is_recorded() {
            return Err(SpecError::Conflict { link: name.into(), key: "model", found: "it takes a rate alone".into() });
        }
        return Ok((Server::Medium(make(&params, init)), model.path.map(|path| path(&params, init))));
    }
    let server = match (&asked.capacity, spec.burst) {
        (CapacitySpec::Rate(_), None) => Server::wire(rate),
        (CapacitySpec::Rate(_), Some(burst)) => Server::bucket(rate, Bytes(burst)),
        (CapacitySpec::Trace(ms), _) => Server::trace(ms, asked.overhead.unwrap_or(spec.overhead)),
        (CapacitySpec::Rates(given), _) => {
            Server::recorded(rates(given).ok_or_else(|| SpecError::NoCapacity(name.into()))?)
        }
    };
    Ok((server, None))
}

fn build_loss(link: &LinkSpec, rng: Rng) -> Result<Loss, SpecError> {
    let mut loss = Loss::none(rng.clone());
    loss.set_probability(link.loss);
    let Some(asked) = &link.loss_model else { return Ok(loss) };
    let (found, params) = choice(registry::losses(), asked, &link.name)?;
    Ok(if found.name == "random" { loss } else { Loss::model(found.name, &params, rng).unwrap_or(loss) })
}

fn build_delay(link: &LinkSpec) -> Result<Delay, SpecError> {
    if let Some(table) = &link.delay_table {
        if table.is_empty() {
            return Err(SpecError::Empty("extra delay in a table"));
        }
        return Ok(Delay::Table(table.iter().map(|ns| Time::from_nanos(*ns)).collect()));
    }
    let uniform = Delay::uniform(Time::from_nanos(link.jitter));
    let Some(asked) = &link.delay_model else { return Ok(uniform) };
    let (found, params) = choice(registry::delays(), asked, &link.name)?;
    Ok(Delay::distribution(found.name, &params).unwrap_or(uniform))
}

/// A queue discipline that is not in the registry, for a network of its own.
#[derive(Clone)]
pub struct OwnQueue {
    /// Its name in the specification.
    pub name: String,
    /// Makes one for a link.
    pub make: MakeQueue,
    /// True if it cannot be copied, or sees in which order links call it: then time passes event by event.
    pub outside: bool,
}

/// Makes a queue for the direction of a link that has this name.
pub type MakeQueue = Arc<dyn Fn(&str, &knee_queue::Init) -> Box<dyn DynQueue> + Send + Sync>;

/// The queue that a direction of link `name` asks for; of one whose model has access categories, a queue for each.
fn build_queue(
    name: &str,
    asked: &ReverseSpec,
    own: &[OwnQueue],
    init: impl Fn(&str) -> knee_queue::Init,
) -> Result<Box<dyn DynQueue>, SpecError> {
    let make: MakeQueue = if let Some(own) = own.iter().find(|own| own.name == asked.queue) {
        own.make.clone()
    } else {
        let entry = knee_queue::find(&asked.queue)
            .ok_or_else(|| SpecError::UnknownQueue { link: name.into(), name: asked.queue.clone() })?;
        let given = params(entry.params, &asked.queue_params, &format!("link `{name}`"))?;
        Arc::new(move |_, init| (entry.make)(&given, init))
    };
    let (_, model) = choice(registry::models().iter().map(|model| &model.choice), &asked.model, name)?;
    let categories = registry::find(&asked.model.name).and_then(|found| (found.categories)(&model));
    let Some((count, category)) = categories else { return Ok(make(name, &init("queue"))) };
    let queues = (0..count).map(|i| make(name, &init(&format!("queue {i}")))).collect();
    Ok(Box::new(ByCategory::new(queues, category)))
}

fn build_slots(given: SlotSpec, link: &str, rng: Rng) -> Result<Slots, SpecError> {
    let SlotSpec { min, max, packets, bytes } = given;
    if min == 0 || max < min || packets == Some(0) || bytes == Some(0) {
        let found = format!("{given:?} is no span of time, or lets no packet go");
        return Err(SpecError::Conflict { link: link.into(), key: "slot", found });
    }
    let (min, max) = (Time::from_nanos(min), Time::from_nanos(max));
    let (packets, bytes) = (packets.unwrap_or(u64::MAX), bytes.unwrap_or(u64::MAX));
    Ok(Slots::new(Slotting { min, max, packets, bytes }, rng))
}

fn build_link(
    name: String,
    asked: &ReverseSpec,
    spec: &LinkSpec,
    seed: u64,
    (shared, own): (&Shared, &[OwnQueue]),
) -> Result<Direction, SpecError> {
    let rate = mean_rate(&asked.capacity).ok_or_else(|| SpecError::NoCapacity(name.clone()))?;
    let stream = |what: &str| Rng::stream(seed, &format!("{what}/{name}"));
    let overhead = asked.overhead.unwrap_or(spec.overhead);
    let framing = Framing { overhead, mpu: asked.mpu, linklayer: asked.linklayer.into() };
    let init =
        |which: &str| knee_queue::Init { limit: asked.limit.map(Into::into), overhead, rate, rng: stream(which) };
    let queue = build_queue(&name, asked, own, init)?;
    let init = Init { rate, seed, name: &name, link: &spec.name, shared };
    let (server, mut path) = build_server(asked, spec, &init)?;
    let loss = match &asked.loss_trace {
        Some(given) => {
            let probabilities = recorded(given, |loss| *loss).ok_or_else(|| no_times(&name, "loss_trace"))?;
            Loss::recorded(probabilities, stream("loss"))
        }
        None => Loss::none(stream("loss")),
    };
    if let Some(given) = &asked.delay_trace {
        if path.is_some() {
            let found = "the model has a delay of its own".into();
            return Err(SpecError::Conflict { link: name, key: "delay_trace", found });
        }
        let delays = recorded(given, |ns| Time::from_nanos(*ns)).ok_or_else(|| no_times(&name, "delay_trace"))?;
        path = Some(Box::new(delays));
    }
    let mut link = Link::new(queue, server, framing, loss);
    link.corrupt(asked.corrupt, stream("corrupt"));
    let slots = asked.slot.map(|given| build_slots(given, &name, stream("slot"))).transpose()?;
    let jitter = stream("jitter");
    let mut direction = Direction::new(name, link, jitter);
    (direction.path, direction.slots) = (path, slots);
    direction.outside = own.iter().any(|own| own.outside && own.name == asked.queue);
    Ok(direction)
}

/// For each link the first one that is on its channel.
///
/// # Errors
/// If a link that is no Wi-Fi names a channel.
fn channels(spec: &Spec) -> Result<Vec<usize>, SpecError> {
    let first = |(i, link): (usize, &LinkSpec)| {
        if link.channel.is_some() && link.model.name != "wifi" {
            let found = format!("`{}` shares no channel", link.model.name);
            return Err(SpecError::Conflict { link: link.name.clone(), key: "channel", found });
        }
        let same = |other: &LinkSpec| other.channel.is_some() && other.channel == link.channel;
        Ok(spec.links.iter().position(same).unwrap_or(i))
    };
    spec.links.iter().enumerate().map(first).collect()
}

/// All forward directions of the links of `spec`, then the reverse ones that queue, at rest, without the pipes behind
/// them; and where the reverse direction of each forward one is.
///
/// # Errors
/// If a link contradicts itself or names what does not exist.
pub fn directions(spec: &Spec, own: &[OwnQueue]) -> Result<(Vec<Direction>, Vec<Option<u32>>), SpecError> {
    let (mut all, mut reverse) = (Vec::new(), vec![None; spec.links.len()]);
    let each: Vec<Shared> = spec.links.iter().map(|_| Shared::default()).collect();
    let shared: Vec<&Shared> = channels(spec)?.into_iter().map(|first| &each[first]).collect();
    for (link, shared) in spec.links.iter().zip(&shared) {
        let mut built = build_link(link.name.clone(), &link.forward(), link, spec.seed, (shared, own))?;
        if link.loss_trace.is_none() {
            built.link.lose(build_loss(link, Rng::stream(spec.seed, &format!("loss/{}", link.name)))?);
        }
        built.delay = Time::from_nanos(link.delay);
        built.extra = build_delay(link)?;
        built.reorder = link.reorder;
        built.shares =
            spec.links.iter().filter(|other| other.channel.is_some() && other.channel == link.channel).count() > 1;
        all.push(built);
    }
    for ((link, index), shared) in spec.links.iter().zip(&mut reverse).zip(shared) {
        let Some(back) = &link.reverse else { continue };
        *index = Some(index_u32(all.len()));
        all.push(build_link(format!("{} (reverse)", link.name), back, link, spec.seed, (shared, own))?);
    }
    Ok((all, reverse))
}
