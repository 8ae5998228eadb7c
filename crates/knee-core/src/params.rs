//! Parameters, declared once: scenario files, Python, help and docs all read the declaration.

use crate::declare::Choice;
use crate::units::{Bytes, Rate, Time};
use std::fmt;
use std::slice::Iter;
use thiserror::Error;

/// The quantity that a parameter measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A span of time, e.g. `"5 ms"`.
    Time,
    /// A rate, e.g. `"10 Mbit/s"`.
    Rate,
    /// An amount of data, e.g. `"100 kB"`.
    Bytes,
    /// A number of packets or another count, e.g. `"250 packets"` or `250`.
    Count,
    /// A number without unit, e.g. `1.25`.
    Ratio,
    /// `true` or `false`.
    Bool,
    /// One of the named words.
    Choice(&'static [&'static str]),
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// See [`Kind::Time`].
    Time(Time),
    /// See [`Kind::Rate`].
    Rate(Rate),
    /// See [`Kind::Bytes`].
    Bytes(Bytes),
    /// See [`Kind::Count`].
    Count(u64),
    /// See [`Kind::Ratio`].
    Ratio(f64),
    /// See [`Kind::Bool`].
    Bool(bool),
    /// See [`Kind::Choice`].
    Choice(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(v) => v.fmt(f),
            Self::Rate(v) => v.fmt(f),
            Self::Bytes(v) => v.fmt(f),
            Self::Count(v) => v.fmt(f),
            Self::Ratio(v) => v.fmt(f),
            Self::Bool(v) => v.fmt(f),
            Self::Choice(v) => v.fmt(f),
        }
    }
}

/// The declaration of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name in scenario files.
    pub name: &'static str,
    /// The quantity that it measures.
    pub kind: Kind,
    /// Its value where none is given.
    pub default: Value,
    /// The least value allowed, where there is an order.
    pub min: Value,
    /// The greatest value allowed, where there is an order.
    pub max: Value,
    /// Where the default comes from.
    pub source: &'static str,
    /// One line on what it does.
    pub about: &'static str,
}

impl Param {
    /// A span of time within `min..=max`.
    pub const fn time(
        name: &'static str,
        default: Time,
        range: (Time, Time),
        source: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            kind: Kind::Time,
            default: Value::Time(default),
            min: Value::Time(range.0),
            max: Value::Time(range.1),
            source,
            about,
        }
    }
    /// A rate within `min..=max`.
    pub const fn rate(
        name: &'static str,
        default: Rate,
        range: (Rate, Rate),
        source: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            kind: Kind::Rate,
            default: Value::Rate(default),
            min: Value::Rate(range.0),
            max: Value::Rate(range.1),
            source,
            about,
        }
    }
    /// An amount of data within `min..=max`.
    pub const fn bytes(
        name: &'static str,
        default: Bytes,
        range: (Bytes, Bytes),
        source: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            kind: Kind::Bytes,
            default: Value::Bytes(default),
            min: Value::Bytes(range.0),
            max: Value::Bytes(range.1),
            source,
            about,
        }
    }
    /// A count within `min..=max`.
    pub const fn count(
        name: &'static str,
        default: u64,
        range: (u64, u64),
        source: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            kind: Kind::Count,
            default: Value::Count(default),
            min: Value::Count(range.0),
            max: Value::Count(range.1),
            source,
            about,
        }
    }
    /// A number without unit within `min..=max`.
    pub const fn ratio(
        name: &'static str,
        default: f64,
        range: (f64, f64),
        source: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            kind: Kind::Ratio,
            default: Value::Ratio(default),
            min: Value::Ratio(range.0),
            max: Value::Ratio(range.1),
            source,
            about,
        }
    }
    /// A switch.
    pub const fn switch(name: &'static str, default: bool, source: &'static str, about: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Bool,
            default: Value::Bool(default),
            min: Value::Bool(false),
            max: Value::Bool(true),
            source,
            about,
        }
    }
    /// One word of several; the first is the default.
    pub const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        source: &'static str,
        about: &'static str,
    ) -> Self {
        let first = Value::Choice(words[0]);
        Self { name, kind: Kind::Choice(words), default: first, min: first, max: first, source, about }
    }

    /// Values that it accepts, as an error names them.
    pub fn accepted(&self) -> String {
        match self.kind {
            Kind::Bool => "true or false".into(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            _ => format!("{} to {}", self.min, self.max),
        }
    }

    /// Returns true if its values are the words of `T`, in whatever order.
    pub fn is<T: Choice>(&self) -> bool {
        let Kind::Choice(words) = self.kind else { return false };
        words.len() == T::WORDS.len() && T::WORDS.iter().all(|word| words.contains(word))
    }

    fn accepts(&self, value: Value) -> bool {
        match (value, self.min, self.max) {
            (Value::Time(v), Value::Time(lo), Value::Time(hi)) => lo <= v && v <= hi,
            (Value::Rate(v), Value::Rate(lo), Value::Rate(hi)) => lo <= v && v <= hi,
            (Value::Bytes(v), Value::Bytes(lo), Value::Bytes(hi)) => lo <= v && v <= hi,
            (Value::Count(v), Value::Count(lo), Value::Count(hi)) => lo <= v && v <= hi,
            (Value::Ratio(v), Value::Ratio(lo), Value::Ratio(hi)) => lo <= v && v <= hi,
            (Value::Bool(_), ..) => true,
            (Value::Choice(word), ..) => matches!(self.kind, Kind::Choice(words) if words.contains(&word)),
            _ => false,
        }
    }
}

/// Why given parameters were refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ParamError {
    /// No parameter of that name.
    #[error("no parameter `{name}`; there are: {known}")]
    Unknown {
        /// The name found.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A value outside the declared range, or of another kind.
    #[error("`{name}` is {found}; expected {accepted}")]
    Refused {
        /// The parameter.
        name: &'static str,
        /// The value found.
        found: String,
        /// The values accepted, in words.
        accepted: String,
    },
}

/// A full set of values for a list of declarations. Declarations by [`params!`](crate::params!) are read as a struct;
/// look-ups by name are for declarations by the functions of [`Param`], and for tests.
#[derive(Clone, Debug, PartialEq)]
pub struct Params(Vec<(&'static str, Value)>);

impl Params {
    /// The declared defaults with `given` values in place of some.
    ///
    /// # Errors
    /// If a name is not declared, or a value is of another kind or out of range.
    pub fn resolve<'a>(
        declared: &[Param],
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, ParamError> {
        let mut values: Vec<_> = declared.iter().map(|p| (p.name, p.default)).collect();
        for (name, value) in given {
            let Some(i) = declared.iter().position(|p| p.name == name) else {
                let known = declared.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".into() } else { known };
                return Err(ParamError::Unknown { name: name.into(), known });
            };
            let param = &declared[i];
            if !param.accepts(value) {
                let (found, accepted) = (value.to_string(), param.accepted());
                return Err(ParamError::Refused { name: param.name, found, accepted });
            }
            values[i].1 = value;
        }
        Ok(Self(values))
    }

    /// The declared defaults.
    pub fn defaults(declared: &[Param]) -> Self {
        Self(declared.iter().map(|p| (p.name, p.default)).collect())
    }

    /// All of them, in the order of the declaration.
    pub(crate) fn values(&self) -> Iter<'_, (&'static str, Value)> {
        self.0.iter()
    }

    /// The value of the parameter called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<Value> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    fn get(&self, name: &str) -> Value {
        match self.find(name) {
            Some(value) => value,
            None => panic!("parameter `{name}` is read but not declared"),
        }
    }

    /// The value of a [`Kind::Time`] parameter.
    ///
    /// # Panics
    /// If no such parameter of that kind is declared.
    pub fn time(&self, name: &str) -> Time {
        match self.get(name) {
            Value::Time(v) => v,
            v => panic!("parameter `{name}` is {v:?}, not a time"),
        }
    }
    /// The value of a [`Kind::Rate`] parameter.
    ///
    /// # Panics
    /// If no such parameter of that kind is declared.
    pub fn rate(&self, name: &str) -> Rate {
        match self.get(name) {
            Value::Rate(v) => v,
            v => panic!("parameter `{name}` is {v:?}, not a rate"),
        }
    }
    /// The value of a [`Kind::Bytes`] parameter.
    ///
    /// # Panics
    /// If no such parameter of that kind is declared.
    pub fn bytes(&self, name: &str) -> Bytes {
        match self.get(name) {
            Value::Bytes(v) => v,
            v => panic!("parameter `{name}` is {v:?}, not bytes"),
        }
    }
    /// The value of a [`Kind::Count`] parameter.
    ///
    /// # Panics
    /// If no such parameter of that kind is declared.
    pub fn count(&self, name: &str) -> u64 {
        match self.get(name) {
            Value::Count(v) => v,
            v => panic!("parameter `{name}` is {v:?}, not a count"),
        }
    }
    /// The value of a [`Kind::Ratio`] parameter.
    ///
    /// # Panics
    /// If no such parameter of that kind is declared.
    pub fn ratio(&self, name: &str) -> f64 {
        match self.get(name) {
            Value::Ratio(v) => v,
            v => panic!("parameter `{name}` is {v:?}, not a ratio"),
        }
    }
    /// The value of a [`Kind::Bool`] parameter.
    ///
    /// # Panics
    /// If no such parameter of that kind is declared.
    pub fn switch(&self, name: &str) -> bool {
        match self.get(name) {
            Value::Bool(v) => v,
            v => panic!("parameter `{name}` is {v:?}, not a switch"),
        }
    }
    /// The value of a [`Kind::Choice`] parameter.
    ///
    /// # Panics
    /// If no such parameter of that kind is declared.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.get(name) {
            Value::Choice(v) => v,
            v => panic!("parameter `{name}` is {v:?}, not a choice"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[Param] = &[
        Param::time("q_target", Time::from_millis(5), (Time::from_micros(1), Time::from_secs(1)), "LoLa, V-A", ""),
        Param::ratio("gamma", 0.95, (0.1, 1.0), "LoLa, V-A", ""),
    ];

    #[test]
    fn given_values_stand_and_the_rest_is_default() {
        let params = Params::resolve(DECLARED, [("gamma", Value::Ratio(0.5))]).unwrap();
        assert_eq!(params.get("gamma"), Value::Ratio(0.5));
        assert_eq!(params.time("q_target"), Time::from_millis(5));
    }

    #[test]
    fn unknown_names_other_kinds_and_values_out_of_range_are_refused() {
        for (name, value) in [
            ("gama", Value::Ratio(0.5)),
            ("gamma", Value::Ratio(1.5)),
            ("gamma", Value::Count(1)),
            ("q_target", Value::Time(Time::ZERO)),
        ] {
            assert!(Params::resolve(DECLARED, [(name, value)]).is_err(), "{name} = {value:?}");
        }
    }

    /// One of each kind, in the range from 2 to 8 where there is an order.
    const KINDS: &[Param] = &[
        Param::time("time", Time::from_nanos(5), (Time::from_nanos(2), Time::from_nanos(8)), "", ""),
        Param::rate("rate", Rate::from_bps(5), (Rate::from_bps(2), Rate::from_bps(8)), "", ""),
        Param::bytes("bytes", Bytes(5), (Bytes(2), Bytes(8)), "", ""),
        Param::count("count", 5, (2, 8), "", ""),
        Param::ratio("ratio", 5.0, (2.0, 8.0), "", ""),
        Param::switch("switch", true, "", ""),
        Param::choice("choice", &["one", "two"], "", ""),
    ];

    #[test]
    fn a_range_includes_its_ends_and_nothing_beyond() {
        type Make = fn(u64) -> Value;
        let of: [(&str, Make); 5] = [
            ("time", |n| Value::Time(Time::from_nanos(n))),
            ("rate", |n| Value::Rate(Rate::from_bps(n))),
            ("bytes", |n| Value::Bytes(Bytes(n))),
            ("count", Value::Count),
            ("ratio", |n| Value::Ratio(n as f64)),
        ];
        for (name, value) in of {
            let taken: Vec<u64> = (0..12).filter(|n| Params::resolve(KINDS, [(name, value(*n))]).is_ok()).collect();
            assert_eq!(taken, [2, 3, 4, 5, 6, 7, 8], "{name}");
        }
        let taken = |name, value| Params::resolve(KINDS, [(name, value)]).is_ok();
        assert!(taken("switch", Value::Bool(false)) && taken("switch", Value::Bool(true)));
        assert!(taken("choice", Value::Choice("two")) && !taken("choice", Value::Choice("three")));
    }

    #[test]
    fn each_kind_is_read_back_as_given() {
        let given = [
            ("time", Value::Time(Time::from_nanos(3))),
            ("rate", Value::Rate(Rate::from_bps(4))),
            ("bytes", Value::Bytes(Bytes(6))),
            ("count", Value::Count(7)),
            ("ratio", Value::Ratio(2.5)),
            ("switch", Value::Bool(false)),
            ("choice", Value::Choice("two")),
        ];
        let params = Params::resolve(KINDS, given).unwrap();
        assert_eq!((params.time("time"), params.rate("rate")), (Time::from_nanos(3), Rate::from_bps(4)));
        assert_eq!((params.bytes("bytes"), params.count("count")), (Bytes(6), 7));
        assert_eq!((params.ratio("ratio").to_bits(), params.switch("switch")), (2.5f64.to_bits(), false));
        assert_eq!(params.choice("choice"), "two");
        let defaults = Params::defaults(KINDS);
        assert_eq!((defaults.count("count"), defaults.switch("switch"), defaults.choice("choice")), (5, true, "one"));
    }

    #[test]
    fn a_refusal_names_what_there_is() {
        let unknown = |declared| Params::resolve(declared, [("x", Value::Count(1))]).unwrap_err().to_string();
        assert_eq!(unknown(DECLARED), "no parameter `x`; there are: q_target, gamma");
        assert_eq!(unknown(&[]), "no parameter `x`; there are: none");
        let refused = |name, value| Params::resolve(KINDS, [(name, value)]).unwrap_err().to_string();
        assert_eq!(refused("time", Value::Time(Time::from_millis(9))), "`time` is 9 ms; expected 2 ns to 8 ns");
        assert_eq!(refused("rate", Value::Ratio(1.5)), "`rate` is 1.5; expected 2 bit/s to 8 bit/s");
        assert_eq!(refused("switch", Value::Count(1)), "`switch` is 1; expected true or false");
        assert_eq!(refused("choice", Value::Choice("three")), "`choice` is three; expected one of one, two");
    }
}
