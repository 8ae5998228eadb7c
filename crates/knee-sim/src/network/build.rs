//! From the specification of links to links at rest.

use super::{Direction, SpecError};
use crate::spec::{Capacity, LinkSpec, ReverseSpec, Spec, ValueSpec};
use knee_core::{Bytes, Param, Params, Rate, Rng, Time};
use knee_link::{Link, Server};
use std::collections::BTreeMap;

/// The parameters `given`, and the defaults of the others that are `declared`.
///
/// # Errors
/// If one is not declared or not accepted; `owner` is whose they are.
pub(crate) fn params(
    declared: &[Param],
    given: &BTreeMap<String, ValueSpec>,
    owner: &str,
) -> Result<Params, SpecError> {
    let mut values = Vec::with_capacity(given.len());
    for (name, value) in given {
        let value = match declared.iter().find(|p| p.name == name) {
            Some(param) => {
                value.to_value(param).ok_or_else(|| SpecError::Word { owner: owner.into(), name: name.clone() })?
            }
            None => knee_core::Value::Bool(false),
        };
        values.push((name.as_str(), value));
    }
    Params::resolve(declared, values).map_err(|error| SpecError::Param { owner: owner.into(), error })
}

fn mean_rate(capacity: &Capacity) -> Option<Rate> {
    match capacity {
        Capacity::Rate(0) => None,
        Capacity::Rate(bps) => Some(Rate::from_bps(*bps)),
        Capacity::Trace(ms) => {
            let last = *ms.last()?;
            let ascending = ms.windows(2).all(|w| w[0] <= w[1]);
            (ascending && last > 0).then(|| Rate::from_bps(ms.len() as u64 * 12_000_000 / last))
        }
    }
}

fn build_link(name: String, way: &ReverseSpec, spec: &LinkSpec, seed: u64) -> Result<Direction, SpecError> {
    let rate = mean_rate(&way.capacity).ok_or_else(|| SpecError::NoCapacity(name.clone()))?;
    let entry = knee_queue::find(&way.queue)
        .ok_or_else(|| SpecError::UnknownQueue { link: name.clone(), name: way.queue.clone() })?;
    let params = params(entry.params, &way.queue_params, &format!("link `{name}`"))?;
    let stream = |what: &str| Rng::stream(seed, &format!("{what}/{name}"));
    let init =
        knee_queue::Init { limit: way.limit.map(Into::into), overhead: spec.overhead, rate, rng: stream("queue") };
    let queue = (entry.make)(&params, &init);
    let server = match (&way.capacity, spec.burst) {
        (Capacity::Rate(_), None) => Server::wire(rate),
        (Capacity::Rate(_), Some(burst)) => Server::bucket(rate, Bytes(burst)),
        (Capacity::Trace(ms), _) => Server::trace(ms, spec.overhead),
    };
    let link = Link::new(queue, server, spec.overhead, stream("loss"));
    let jitter = stream("jitter");
    Ok(Direction::new(name, link, jitter))
}

/// All forward directions of the links of `spec`, then the reverse ones that queue, at rest, without the pipes behind them;
/// and where the reverse direction of each forward one is.
///
/// # Errors
/// If a link contradicts itself or names what does not exist.
pub fn links(spec: &Spec) -> Result<(Vec<Direction>, Vec<Option<u32>>), SpecError> {
    let (mut all, mut reverse) = (Vec::new(), vec![None; spec.links.len()]);
    for link in &spec.links {
        let mut built = build_link(link.name.clone(), &link.forward(), link, spec.seed)?;
        built.link.set_loss(link.loss);
        built.delay = Time::from_nanos(link.delay);
        built.jitter = Time::from_nanos(link.jitter);
        built.reorder = link.reorder;
        all.push(built);
    }
    for (link, index) in spec.links.iter().zip(&mut reverse) {
        let Some(back) = &link.reverse else { continue };
        *index = Some(all.len() as u32);
        all.push(build_link(format!("{} (reverse)", link.name), back, link, spec.seed)?);
    }
    Ok((all, reverse))
}
