//! Random traffic for tests: any kind that declares its parameters, with these anywhere in their ranges.

use crate::{Entry, Make, registry};
use knee_core::testing::{Pick, values};
use knee_core::{Params, ParamsSpec, Rate};
use proptest::prelude::*;

/// The parameters that `picks` ask for; where these contradict each other, only those that a scenario must give.
pub fn params(entry: &Entry, picks: &[Pick]) -> ParamsSpec {
    let required: ParamsSpec = (entry.params.iter().filter(|param| entry.required.contains(&param.name)))
        .map(|param| (param.name.to_owned(), param.default.into()))
        .collect();
    let mut picked = required.clone();
    picked.extend(values(entry.params, picks).into_iter().map(|(name, value)| (name.to_owned(), value.into())));
    match Params::from_spec(entry.params, &picked) {
        Ok(params) if (entry.check)(&params).is_ok() => picked,
        _ => required,
    }
}

/// Kinds over connections with random parameters, which offer at most this rate.
pub fn any_application(most: Rate) -> impl Strategy<Value = (&'static str, ParamsSpec)> {
    let entries: Vec<&Entry> = registry().iter().filter(|entry| matches!(entry.make, Make::Application(_))).collect();
    let picks = prop::collection::vec((0u8..8, any::<u64>()), 0..32);
    (prop::sample::select(entries), picks).prop_filter_map("offers too much", move |(entry, picks)| {
        let given = params(entry, &picks);
        let resolved = Params::from_spec(entry.params, &given).ok()?;
        (entry.load)(&resolved).is_none_or(|load| load <= most).then_some((entry.name, given))
    })
}
