//! Expectations of a step: numbers, ranges, and values noted before.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// A quantity that vectors judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Window, packets.
    Cwnd,
    /// Threshold of slow start, packets.
    Ssthresh,
    /// Pacing rate, as a share of the path's.
    Pacing,
    /// Estimated bandwidth, as a share of the path's.
    MaxBw,
    /// Estimated least RTT, ms.
    MinRtt,
    /// Long-term bound of BBR, packets.
    InflightLongterm,
    /// Packets in flight.
    InFlight,
    /// RTT of the newest ACK, ms.
    Rtt,
    /// Packet-timed rounds since the start (draft-ietf-ccwg-bbr, 5.5.1).
    Round,
    /// Time since the start, ms.
    Time,
    /// Packets sent since the start.
    Sent,
}

impl Key {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Cwnd,
        Self::Ssthresh,
        Self::Pacing,
        Self::MaxBw,
        Self::MinRtt,
        Self::InflightLongterm,
        Self::InFlight,
        Self::Rtt,
        Self::Round,
        Self::Time,
        Self::Sent,
    ];

    /// The key's name in vectors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cwnd => "cwnd",
            Self::Ssthresh => "ssthresh",
            Self::Pacing => "pacing",
            Self::MaxBw => "max_bw",
            Self::MinRtt => "min_rtt",
            Self::InflightLongterm => "inflight_longterm",
            Self::InFlight => "in_flight",
            Self::Rtt => "rtt",
            Self::Round => "round",
            Self::Time => "time",
            Self::Sent => "sent",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Values at a moment.
pub type Noted = BTreeMap<Key, f64>;

/// Share of a number within which a value is the same.
const TOLERANCE: f64 = 0.005;

/// The requirement on a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Between these, both included.
    Range(f64, f64),
    /// `factor · name + offset`, within `tolerance`.
    Noted {
        /// The name of the note.
        name: String,
        /// Multiplies the value noted under the same key.
        factor: f64,
        /// Added to it.
        offset: f64,
        /// How far the value may be off.
        tolerance: f64,
    },
    /// One of several expectations holds, for a reason.
    Any(Vec<Self>, String),
}

impl Expected {
    /// True if `value` of `key` is as expected, given the values noted before.
    pub fn holds(&self, key: Key, value: f64, notes: &BTreeMap<String, Noted>) -> bool {
        match self {
            Self::Range(low, high) => (*low..=*high).contains(&value),
            Self::Noted { name, factor, offset, tolerance } => {
                let noted = notes.get(name).and_then(|noted| noted.get(&key));
                noted.is_some_and(|noted| {
                    let wanted = factor * noted + offset;
                    // Both infinite: a bound that was not set and still is not.
                    value.total_cmp(&wanted).is_eq()
                        || (value - wanted).abs() <= tolerance.max(wanted.abs() * TOLERANCE)
                })
            }
            Self::Any(each, _) => each.iter().any(|expected| expected.holds(key, value, notes)),
        }
    }

    /// As in `Display`, with what was noted as a number.
    pub fn with(&self, key: Key, notes: &BTreeMap<String, Noted>) -> String {
        match self {
            Self::Noted { name, factor, offset, .. } => match notes.get(name).and_then(|noted| noted.get(&key)) {
                Some(noted) => format!("{self} = {:.4}", factor * noted + offset),
                None => format!("{self}, where \"{name}\" has no {key}"),
            },
            Self::Any(each, because) => {
                let each: Vec<_> = each.iter().map(|expected| expected.with(key, notes)).collect();
                format!("{} ({because})", each.join(" or "))
            }
            Self::Range(..) => self.to_string(),
        }
    }

    fn names<'a>(&'a self, into: &mut Vec<&'a str>) {
        match self {
            Self::Range(..) => {}
            Self::Noted { name, .. } => into.push(name),
            Self::Any(each, _) => each.iter().for_each(|expected| expected.names(into)),
        }
    }

    fn read(value: &toml::Value) -> Result<Self, String> {
        let number = |value: &toml::Value| match value {
            toml::Value::Integer(n) => Some(*n as f64),
            toml::Value::Float(x) if !x.is_nan() => Some(*x),
            _ => None,
        };
        if let Some(x) = number(value) {
            let slack = x.abs() * TOLERANCE;
            return Ok(Self::Range(x - slack, x + slack));
        }
        let wrong = || {
            format!(
                "{} is nothing to expect; write a number, [low, high], \"0.85 name +- 1\", or {{ any = [...], \
                 because = \"...\" }}",
                found(value)
            )
        };
        match value {
            toml::Value::Array(pair) => match pair.iter().map(number).collect::<Vec<_>>()[..] {
                [Some(low), Some(high)] if low <= high => Ok(Self::Range(low, high)),
                _ => Err(wrong()),
            },
            toml::Value::String(text) => noted(text).ok_or_else(wrong),
            toml::Value::Table(table) => {
                let (Some(toml::Value::Array(each)), Some(toml::Value::String(because)), 2) =
                    (table.get("any"), table.get("because"), table.len())
                else {
                    return Err(wrong());
                };
                let each = each.iter().map(Self::read).collect::<Result<_, _>>()?;
                Ok(Self::Any(each, because.clone()))
            }
            _ => Err(wrong()),
        }
    }
}

/// A value of a file as an error shows it.
pub fn found(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("\"{text}\""),
        toml::Value::Integer(n) => n.to_string(),
        toml::Value::Float(x) => x.to_string(),
        toml::Value::Boolean(yes) => yes.to_string(),
        other => format!("this {}", other.type_str()),
    }
}

/// Reads `"0.85 name + 2 +- 1"`: factor, addend and tolerance may be left out.
fn noted(text: &str) -> Option<Expected> {
    let mut words: Vec<&str> = text.split(' ').collect();
    let number = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite());
    let mut tolerance = 0.0;
    if let [.., "+-", last] = words[..] {
        tolerance = number(last)?;
        words.truncate(words.len() - 2);
    }
    let mut offset = 0.0;
    if let [.., sign @ ("+" | "-"), last] = words[..] {
        offset = if sign == "-" { -number(last)? } else { number(last)? };
        words.truncate(words.len() - 2);
    }
    let (factor, name) = match words[..] {
        [name] => (1.0, name),
        [factor, name] => (number(factor)?, name),
        _ => return None,
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_alphanumeric());
    is_name.then(|| Expected::Noted { name: name.into(), factor, offset, tolerance })
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(low, high) if high.is_infinite() => write!(f, "{low} or more"),
            Self::Range(low, high) => write!(f, "{low:.5} to {high:.5}"),
            Self::Noted { name, factor, offset, tolerance } => {
                write!(f, "{factor} {name}")?;
                if *offset != 0.0 {
                    write!(f, " {} {}", if *offset < 0.0 { '-' } else { '+' }, offset.abs())?;
                }
                if *tolerance > 0.0 { write!(f, " +- {tolerance}") } else { Ok(()) }
            }
            Self::Any(each, _) => {
                let each: Vec<_> = each.iter().map(ToString::to_string).collect();
                f.write_str(&each.join(" or "))
            }
        }
    }
}

/// The requirements on several values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(Vec<(Key, Expected)>);

impl Values {
    /// True if nothing is expected.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each key and what it has to be.
    pub fn iter(&self) -> impl Iterator<Item = &(Key, Expected)> {
        self.0.iter()
    }

    /// The requirement under a key.
    pub fn get(&self, key: Key) -> Option<&Expected> {
        self.0.iter().find(|(each, _)| *each == key).map(|(_, expected)| expected)
    }

    /// The notes that it refers to.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.iter().for_each(|(_, expected)| expected.names(&mut names));
        names
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let table = toml::Table::deserialize(from)?;
        let read = |(name, value): (String, toml::Value)| {
            let key = Key::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| {
                let known: Vec<_> = Key::ALL.iter().map(|key| key.name()).collect();
                D::Error::custom(format!("nothing is called \"{name}\"; expected one of {}", known.join(", ")))
            })?;
            let expected = Expected::read(&value).map_err(|what| D::Error::custom(format!("{name}: {what}")))?;
            Ok((key, expected))
        };
        table.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Result<Values, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    fn holds(text: &str, value: f64) -> bool {
        let notes = BTreeMap::from([("w".to_owned(), BTreeMap::from([(Key::Cwnd, 100.0)]))]);
        values(text).unwrap().iter().all(|(key, expected)| expected.holds(*key, value, &notes))
    }

    #[test]
    fn numbers_have_half_a_percent_and_ranges_their_ends() {
        assert_eq!([99.4, 99.6, 100.4, 100.6].map(|x| holds("cwnd = 100", x)), [false, true, true, false]);
        assert_eq!([4.0, 5.0, 7.0, 7.1].map(|x| holds("cwnd = [5, 7]", x)), [false, true, true, false]);
        assert!(holds("cwnd = [5, inf]", 1e12));
    }

    #[test]
    fn notes_are_multiplied_moved_and_blurred() {
        assert_eq!([83.0, 85.9, 86.1].map(|x| holds("cwnd = '0.85 w +- 1'", x)), [false, true, false]);
        assert_eq!([102.0, 103.0, 98.0].map(|x| holds("cwnd = 'w + 3 +- 0.1'", x)), [false, true, false]);
        assert!(holds("cwnd = 'w - 1 +- 0'", 99.2));
        assert!(holds("cwnd = { any = [5, '2 w'], because = 'both are meant' }", 200.0));
    }

    #[test]
    fn other_keys_and_values_are_refused_with_what_is_accepted() {
        assert!(values("cwdn = 5").unwrap_err().contains("one of cwnd, ssthresh"));
        for wrong in ["[5]", "[7, 5]", "true", "'0.5 w +- x'", "'W'", "{ any = [5] }", "nan"] {
            let error = values(&format!("cwnd = {wrong}")).unwrap_err();
            assert!(error.contains("[low, high]"), "{error}");
        }
    }
}
