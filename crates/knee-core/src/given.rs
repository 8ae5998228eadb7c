//! Parameters as specifications give them in JSON.

use crate::{Bytes, Kind, Param, ParamError, Params, Rate, Time, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// A parameter's value, tagged with its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueSpec {
    /// ns.
    Time(u64),
    /// bit/s.
    Rate(u64),
    /// Bytes.
    Bytes(u64),
    /// A count.
    Count(u64),
    /// A plain number.
    Ratio(f64),
    /// A switch.
    Bool(bool),
    /// A word.
    Choice(String),
}

/// Parameters by name.
pub type ParamsSpec = BTreeMap<String, ValueSpec>;

impl ValueSpec {
    /// The value as `param` declares it.
    ///
    /// # Errors
    /// With a word that is not one of its choices.
    fn to_value(&self, param: &Param) -> Result<Value, &str> {
        Ok(match self {
            Self::Time(ns) => Value::Time(Time::from_nanos(*ns)),
            Self::Rate(bps) => Value::Rate(Rate::from_bps(*bps)),
            Self::Bytes(n) => Value::Bytes(Bytes(*n)),
            Self::Count(n) => Value::Count(*n),
            Self::Ratio(x) => Value::Ratio(*x),
            Self::Bool(b) => Value::Bool(*b),
            Self::Choice(word) => {
                let Kind::Choice(words) = param.kind else { return Err(word) };
                Value::Choice(words.iter().find(|w| *w == word).ok_or(word.as_str())?)
            }
        })
    }
}

impl From<Value> for ValueSpec {
    fn from(value: Value) -> Self {
        match value {
            Value::Time(time) => Self::Time(time.as_nanos()),
            Value::Rate(rate) => Self::Rate(rate.as_bps()),
            Value::Bytes(bytes) => Self::Bytes(bytes.0),
            Value::Count(n) => Self::Count(n),
            Value::Ratio(x) => Self::Ratio(x),
            Value::Bool(b) => Self::Bool(b),
            Value::Choice(word) => Self::Choice(word.into()),
        }
    }
}

impl Params {
    /// The declared defaults with the values of a specification in place of some.
    ///
    /// # Errors
    /// If a name is not declared, or a value is of another kind or not accepted.
    pub fn from_spec(declared: &[Param], given: &ParamsSpec) -> Result<Self, ParamError> {
        let mut values = Vec::with_capacity(given.len());
        for (name, value) in given {
            let value = match declared.iter().find(|p| p.name == name) {
                Some(param) => value.to_value(param).map_err(|word| ParamError::Refused {
                    name: param.name,
                    found: word.into(),
                    accepted: param.accepted(),
                })?,
                // Any value: `resolve` rejects the name.
                None => Value::Bool(false),
            };
            values.push((name.as_str(), value));
        }
        Self::resolve(declared, values)
    }
}

/// Parameters that contradict each other, though each is within its range.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{key}`: {found}; {accepted}")]
pub struct Conflict {
    /// The parameter.
    pub key: &'static str,
    /// The values found, in words.
    pub found: String,
    /// The values that would be accepted, in words.
    pub accepted: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[Param] = &[
        Param::time("time", Time::from_nanos(5), (Time::from_nanos(2), Time::from_nanos(8)), "", ""),
        Param::choice("choice", &["one", "two"], "", ""),
    ];

    fn from(name: &str, value: ValueSpec) -> Result<Params, String> {
        Params::from_spec(DECLARED, &ParamsSpec::from([(name.to_owned(), value)])).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_given_replaces_the_default() {
        let params = from("choice", ValueSpec::Choice("two".into())).unwrap();
        assert_eq!((params.time("time"), params.choice("choice")), (Time::from_nanos(5), "two"));
        assert_eq!(from("time", ValueSpec::Time(8)).unwrap().time("time"), Time::from_nanos(8));
    }

    #[test]
    fn what_is_not_accepted_is_named_with_what_is() {
        let said = |name, value| from(name, value).unwrap_err();
        assert_eq!(said("choice", ValueSpec::Choice("six".into())), "`choice` is six; expected one of one, two");
        assert_eq!(said("time", ValueSpec::Choice("six".into())), "`time` is six; expected 2 ns to 8 ns");
        assert_eq!(said("time", ValueSpec::Count(5)), "`time` is 5; expected 2 ns to 8 ns");
        assert_eq!(said("tim", ValueSpec::Time(5)), "no parameter `tim`; there are: time, choice");
    }
}
