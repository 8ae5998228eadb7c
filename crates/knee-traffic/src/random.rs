//! Random traffic for tests: any kind, with its parameters and tables anywhere in their ranges.

use crate::{Entry, Form, Make, TrafficSpec, registry};
use knee_core::testing::{Pick, values};
use knee_core::{Rate, Rng, Value};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

/// The value as specifications have it; times of a day and messages of 1 GB at most, so that thousands of them in a row
/// fit the clock.
fn plain(value: Value) -> Json {
    match value {
        Value::Time(time) => json!(time.as_nanos().min(86_400_000_000_000)),
        Value::Rate(rate) => json!(rate.as_bps()),
        Value::Bytes(bytes) => json!(bytes.0.min(1_000_000_000)),
        Value::Count(n) => json!(n),
        Value::Ratio(x) => json!(x),
        Value::Bool(b) => json!(b),
        Value::Choice(word) => json!(word),
    }
}

/// Ascending times within 2 s, ns.
fn times(rng: &mut Rng) -> Vec<u64> {
    let mut times: Vec<u64> = (0..=rng.below(50)).map(|_| rng.below(2_000_000_000)).collect();
    times.sort_unstable();
    times
}

fn arrivals(rng: &mut Rng) -> Json {
    match rng.below(3) {
        0 => json!({"poisson": 0.5 + 300.0 * rng.unit()}),
        1 => json!({"periodic": 0.5 + 300.0 * rng.unit()}),
        _ => json!({"times": times(rng)}),
    }
}

fn size(rng: &mut Rng) -> Json {
    match rng.below(4) {
        0 => json!({"fixed": 1 + rng.below(200_000)}),
        1 => json!({"lognormal": [1.0 + 50_000.0 * rng.unit(), 3.0 * rng.unit(), 1 + rng.below(1_000_000)]}),
        2 => json!({"pareto": [1.0 + 49_999.0 * rng.unit(), 0.1 + 4.0 * rng.unit(), 50_000 + rng.below(1_000_000)]}),
        _ => {
            let mut sizes: Vec<u64> = (0..=rng.below(9)).map(|_| rng.below(500_000)).collect();
            let mut shares: Vec<f64> = sizes.iter().map(|_| rng.unit()).collect();
            sizes.sort_unstable();
            shares.sort_by(f64::total_cmp);
            sizes.push(500_000);
            shares.push(1.0);
            json!({"empirical": sizes.into_iter().zip(shares).collect::<Vec<_>>()})
        }
    }
}

fn table(form: Form, rng: &mut Rng) -> Json {
    match form {
        Form::Arrivals => arrivals(rng),
        Form::Pages if rng.chance(0.5) => json!({"closed": [rng.below(500_000_000), rng.chance(0.5)]}),
        Form::Pages => json!({"open": arrivals(rng)}),
        Form::Size => size(rng),
        Form::Count if rng.chance(0.5) => json!({"fixed": 1 + rng.below(40)}),
        Form::Count => json!({"geometric": 1.0 + 20.0 * rng.unit()}),
        Form::Rates => {
            let rates: std::collections::BTreeSet<u64> =
                (0..=rng.below(8)).map(|_| 1_000 + rng.below(10_000_000)).collect();
            json!(rates)
        }
        Form::Packets => {
            let sized = times(rng).into_iter().map(|at| (at, 28 + rng.below(1_473)));
            json!(sized.collect::<Vec<_>>())
        }
        Form::Priorities => {
            let each = (0..=rng.below(3)).map(|_| json!({"urgency": rng.below(8), "incremental": rng.chance(0.5)}));
            json!(each.collect::<Vec<_>>())
        }
    }
}

/// Traffic of this kind with the parameters that `picks` ask for, as a specification has it; where these contradict
/// each other, with those alone that a scenario must give.
pub fn traffic(entry: &Entry, picks: &[Pick]) -> Json {
    let rng = &mut Rng::stream(picks.iter().fold(0, |seed, pick| seed ^ pick.1), "tables");
    let mut required = Map::from_iter([("kind".to_owned(), json!(entry.name))]);
    let is_required = |name: &str| entry.required.contains(&name);
    for param in entry.params.iter().filter(|param| is_required(param.name)) {
        required.insert(param.name.to_owned(), plain(param.default));
    }
    let mut optional = Map::new();
    for declared in entry.tables {
        let tables = if is_required(declared.name) { &mut required } else { &mut optional };
        tables.insert(declared.name.to_owned(), table(declared.form, rng));
    }
    let mut picked = required.clone();
    picked.extend(values(entry.params, picks).into_iter().map(|(name, value)| (name.to_owned(), plain(value))));
    if rng.chance(0.5) {
        picked.extend(optional);
    }
    let picked = Json::Object(picked);
    if parse(&picked).check().is_ok() { picked } else { Json::Object(required) }
}

/// The specification in `json`.
///
/// # Panics
/// If it has no `kind`.
pub fn parse(json: &Json) -> TrafficSpec {
    serde_json::from_value(json.clone()).expect("a specification has a kind")
}

/// Traffic of any kind over connections whose parameters are single values, which offers at most this rate.
pub fn any_application(most: Rate) -> impl Strategy<Value = Json> {
    let is_drawn = |entry: &&Entry| matches!(entry.make, Make::Application(_)) && entry.tables.is_empty();
    let entries: Vec<&Entry> = registry().iter().filter(is_drawn).collect();
    let picks = prop::collection::vec((0u8..8, any::<u64>()), 0..32);
    (prop::sample::select(entries), picks).prop_filter_map("offers too much", move |(entry, picks)| {
        let traffic = traffic(entry, &picks);
        parse(&traffic).load().is_none_or(|load| load <= most).then_some(traffic)
    })
}
