//! Parameters that the registries declare, as files give them.

use crate::error::{Refused, refused};
use crate::fields::Read;
use crate::node::{Table, Value};
use crate::units::{BYTES, Measure, PACKETS, RATE, TIME, count};
use crate::words::{near, number, quoted, shown};
use knee_core::{Kind, Param, ParamsSpec, ValueSpec};

/// Pairs of thresholds of which the first may not exceed the second, by the name of their entry.
const ORDERED: &[(&str, &str, &str)] = &[
    ("lola", "q_low", "q_target"),
    ("red", "min", "max"),
    ("timely", "t_low", "t_high"),
    ("timely", "min_rate", "max_rate"),
    ("vegas", "alpha", "beta"),
];

/// Values of all parameters of `owner`: those given, and defaults for the others.
pub(crate) fn resolve(owner: &str, declared: &[Param], given: &Table) -> Read<ParamsSpec> {
    let mut values: ParamsSpec =
        declared.iter().map(|param| (param.name.to_owned(), ValueSpec::from(param.default))).collect();
    for key in &given.0 {
        let name = key.name.as_str();
        let Some(param) = declared.iter().find(|param| param.name == name) else {
            let names: Vec<&str> = declared.iter().map(|param| param.name).collect();
            return Err(if names.is_empty() {
                refused(format!("{owner} has no parameters"), "leave it out").under(name)
            } else {
                refused(format!("{owner} has no such parameter"), near(name, &names)).under(name)
            });
        };
        values.insert(name.to_owned(), parse(param, &key.node.value).map_err(|error| error.under(name))?);
    }
    for &(_, lower, upper) in ORDERED.iter().filter(|(of, ..)| *of == owner) {
        let [low, high] = [lower, upper].map(|name| values.get(name).map(amount).unwrap_or_default());
        if low > high {
            let [low, high] = [lower, upper].map(|name| values.get(name).map(text).unwrap_or_default());
            return Err(if given.get(upper).is_some() {
                refused(format!("{high} is below {lower}, which is {low}"), format!("expected {low} or more"))
                    .under(upper)
            } else {
                refused(format!("{low} is above {upper}, which is {high}"), format!("expected {high} or less"))
                    .under(lower)
            });
        }
    }
    let resumes = matches!(values.get("slow_start"), Some(ValueSpec::Choice(how)) if how == "careful_resume");
    if resumes && matches!(values.get("saved_cwnd"), Some(ValueSpec::Count(0))) {
        let found = "slow_start = \"careful_resume\" has no window to resume";
        let accepted = "expected the window of an earlier connection, in packets";
        return Err(refused(found, accepted).under("saved_cwnd"));
    }
    Ok(values)
}

fn measure(kind: Kind) -> Option<&'static Measure> {
    match kind {
        Kind::Time => Some(&TIME),
        Kind::Rate => Some(&RATE),
        Kind::Bytes => Some(&BYTES),
        Kind::Count => Some(&PACKETS),
        _ => None,
    }
}

pub(crate) fn parse(param: &Param, value: &Value) -> Read<ValueSpec> {
    let wrong = || refused(format!("{} has the wrong type", shown(value)), accepted(param));
    let out_of_range = || refused(format!("{} is out of range", shown(value)), accepted(param));
    let parsed = match (param.kind, value) {
        (Kind::Time, _) => ValueSpec::Time(TIME.parse(value, true)?),
        (Kind::Rate, _) => ValueSpec::Rate(RATE.parse(value, true)?),
        (Kind::Bytes, _) => ValueSpec::Bytes(BYTES.parse(value, true)?),
        (Kind::Count, _) => ValueSpec::Count(count(value)?),
        (Kind::Bool, Value::Bool(on)) => return Ok(ValueSpec::Bool(*on)),
        (Kind::Ratio, Value::Whole(n)) if n.unsigned_abs() > 1 << 53 => return Err(out_of_range()),
        (Kind::Ratio, Value::Whole(n)) => ValueSpec::Ratio(*n as f64),
        (Kind::Ratio, Value::Number(x)) => ValueSpec::Ratio(*x),
        (Kind::Choice(words), Value::Text(word)) => {
            if !words.contains(&word.as_str()) {
                return Err(refused(format!("{} is unknown", quoted(word)), near(word, words)));
            }
            return Ok(ValueSpec::Choice(word.clone()));
        }
        _ => return Err(wrong()),
    };
    let [least, most] = [param.min, param.max].map(|end| amount(&ValueSpec::from(end)));
    // NaN is not within.
    if (least..=most).contains(&amount(&parsed)) { Ok(parsed) } else { Err(out_of_range()) }
}

/// A value as a number that has the order of its kind; whole ones are below 2^63.
fn amount(value: &ValueSpec) -> Amount {
    match value {
        ValueSpec::Time(n) | ValueSpec::Rate(n) | ValueSpec::Bytes(n) | ValueSpec::Count(n) => Amount::Whole(*n),
        ValueSpec::Ratio(x) => Amount::Number(*x),
        ValueSpec::Bool(_) | ValueSpec::Choice(_) => Amount::None,
    }
}

#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
enum Amount {
    #[default]
    None,
    Whole(u64),
    Number(f64),
}

/// A value as listings show it.
pub(crate) fn text(value: &ValueSpec) -> String {
    match value {
        ValueSpec::Time(n) => TIME.text(*n),
        ValueSpec::Rate(n) => RATE.text(*n),
        ValueSpec::Bytes(n) => BYTES.text(*n),
        ValueSpec::Count(n) => n.to_string(),
        ValueSpec::Ratio(x) => number(*x),
        ValueSpec::Bool(on) => on.to_string(),
        ValueSpec::Choice(word) => word.clone(),
    }
}

fn accepted(param: &Param) -> String {
    match param.kind {
        Kind::Choice(words) => return format!("expected one of {}", words.join(", ")),
        Kind::Bool => return "expected true or false".into(),
        _ => {}
    }
    let [least, most] = [param.min, param.max].map(ValueSpec::from);
    let endless = |measure: &Measure| amount(&most) >= Amount::Whole(measure.most);
    let span = if measure(param.kind).is_some_and(endless) {
        format!("{} or more", text(&least))
    } else {
        format!("{} to {}", text(&least), text(&most))
    };
    let bound = if param.source.ends_with(&format!(": at most {}", text(&most))) {
        format!(" ({})", param.source)
    } else {
        String::new()
    };
    format!("expected {span}{bound}")
}

/// The entry called `name`; `known` are all of its kind.
pub(crate) fn find(kind: &str, name: &str, known: &[&'static str]) -> Result<&'static str, Refused> {
    let found = known.iter().copied().find(|entry| *entry == name);
    found.ok_or_else(|| refused(format!("no {kind} is called {}", quoted(name)), near(name, known)))
}
