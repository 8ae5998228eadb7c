//! Vectors as they are written, in TOML.

use crate::value::{Values, found};
use knee_core::Time;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// How strongly the text asks for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
pub enum Level {
    /// MUST, or the text's algorithm itself.
    #[serde(rename = "MUST")]
    Must,
    /// SHOULD.
    #[serde(rename = "SHOULD")]
    Should,
    /// The text leaves it open.
    #[serde(rename = "choice")]
    Choice,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Choice => "choice",
        })
    }
}

/// How many packets an ACK acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// This many packets.
    Every(u64),
    /// All that was in flight when the one before came.
    Flight,
}

impl<'de> Deserialize<'de> for Acks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::String(word) if word == "each" => Ok(Self::Every(1)),
            toml::Value::String(word) if word == "flight" => Ok(Self::Flight),
            toml::Value::Integer(n @ 1..) => Ok(Self::Every(n.unsigned_abs())),
            other => Err(serde::de::Error::custom(format!(
                "acks is {}; write \"each\", \"flight\" or a number from 1 on",
                found(&other)
            ))),
        }
    }
}

/// A time as `"200 ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Time);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || serde::de::Error::custom(format!("\"{text}\" is no time; write one as \"200 ms\" or \"1.5 s\""));
        let (number, unit) = text.split_once(' ').ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = match unit {
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(wrong()),
        };
        if !(0.0..=1e6).contains(&number) {
            return Err(wrong());
        }
        Ok(Self(Time::from_nanos(knee_core::convert::truncated(number * unit))))
    }
}

/// The path of a vector.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Path {
    /// Packets per second.
    pub rate: u64,
    /// Round-trip time without a queue.
    pub rtt: Span,
    /// How many packets an ACK acknowledges.
    pub acks: Acks,
}

impl Default for Path {
    fn default() -> Self {
        Self { rate: 1250, rtt: Span(Time::from_millis(100)), acks: Acks::Every(1) }
    }
}

/// Packets in flight that the application allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct App(pub u64);

impl<'de> Deserialize<'de> for App {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::String(word) if word == "all" => Ok(Self(u64::MAX)),
            toml::Value::Integer(n @ 0..) => Ok(Self(n.unsigned_abs())),
            other => Err(serde::de::Error::custom(format!(
                "app is {}; write a number of packets, or \"all\"",
                found(&other)
            ))),
        }
    }
}

/// A step: it disturbs, drives and judges, in this order. Without a drive it takes no time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// So many packets in flight will never come.
    pub lose: u64,
    /// After these, the oldest.
    pub skip: u64,
    /// Every packet of this number among the next `packets` to leave will never come.
    pub drop_every: u64,
    /// How many packets `drop_every` looks at.
    pub packets: u64,
    /// So many of the packets in flight get a CE mark.
    pub mark: u64,
    /// The RTT without a queue is longer by this from now on.
    pub delay: Option<Span>,
    /// The oldest packet in flight comes after this many younger ones.
    pub reorder: u64,
    /// Everything in flight is lost, with what would be sent in three timeouts.
    pub persistent: bool,
    /// Everything that the latest loss event called lost has come after all.
    pub spurious: bool,
    /// Packets in flight that the application allows from now on; "all": as many as may be.
    pub app: Option<App>,
    /// The path carries this share of its rate from now on.
    pub rate: Option<f64>,
    /// Drives for a time.
    pub run: Option<Span>,
    /// Drives for rounds: until all that is in flight at their begin is acknowledged or lost.
    pub rounds: u64,
    /// Drives until these hold; if they do not `within` a time, the vector was not reached.
    pub until: Values,
    /// Drives until these hold; if they do not `within` a time, the vector fails.
    pub reach: Values,
    /// The longest time of `until` and `reach`.
    pub within: Option<Span>,
    /// Requirements after every event of the drive.
    pub hold: Values,
    /// Requirements at the end; else the vector was not reached.
    pub setup: Values,
    /// Requirements at the end.
    pub expect: Values,
    /// The name under which the values at the end are noted.
    pub note: Option<String>,
}

/// A vector.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Its name, the algorithm's before the slash.
    pub id: String,
    /// The text, with its version.
    pub text: String,
    /// Section, and function or equation.
    pub at: String,
    /// How strongly the text asks for it.
    pub level: Level,
    /// The rule in a sentence.
    pub rule: String,
    /// The cost of breaking it, in a sentence.
    pub cost: String,
    /// The arithmetic by hand.
    pub work: String,
    /// Vectors that have to pass, since this one would show their rule again.
    #[serde(default)]
    pub after: Vec<String>,
    /// The path.
    #[serde(default)]
    pub path: Path,
    /// Seeds that all have to pass.
    #[serde(default = "one")]
    pub seeds: u64,
    /// The script.
    pub steps: Vec<Step>,
}

const fn one() -> u64 {
    1
}

/// A file of vectors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    vector: Vec<Vector>,
}

/// Why vectors cannot be taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum VectorError {
    /// The file is not TOML of that form.
    #[error("{file}, line {line}: {what}")]
    Form {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The fault, and what is accepted.
        what: String,
    },
    /// A vector contradicts itself.
    #[error("{file}: {id}, step {step}: {what}")]
    Step {
        /// The file.
        file: String,
        /// The vector.
        id: String,
        /// Number of the step, from 1.
        step: usize,
        /// The fault, and what is accepted.
        what: String,
    },
    /// A vector's head is wrong.
    #[error("{file}: {id}: {what}")]
    Head {
        /// The file.
        file: String,
        /// The vector.
        id: String,
        /// The fault, and what is accepted.
        what: String,
    },
}

/// The vectors of a file, in its order.
///
/// # Errors
/// [`VectorError`], with the line or the step.
pub fn read(file: &str, text: &str) -> Result<Vec<Vector>, VectorError> {
    let vectors = toml::from_str::<File>(text)
        .map_err(|error| {
            let before = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.get(..before).unwrap_or_default().matches('\n').count();
            VectorError::Form { file: file.into(), line, what: error.message().replace('\n', "; ") }
        })?
        .vector;
    let mut seen = BTreeSet::new();
    for vector in &vectors {
        check(file, vector, &seen)?;
        seen.insert(vector.id.clone());
    }
    Ok(vectors)
}

fn check(file: &str, vector: &Vector, before: &BTreeSet<String>) -> Result<(), VectorError> {
    let head = |what: String| VectorError::Head { file: file.into(), id: vector.id.clone(), what };
    if !vector.id.contains('/') || before.contains(&vector.id) {
        return Err(head("the id is to be \"algorithm/rule\", and no other vector's".into()));
    }
    let told = [&vector.text, &vector.at, &vector.rule, &vector.cost, &vector.work];
    if told.iter().any(|text| text.trim().is_empty()) {
        return Err(head("text, at, rule, cost and work are sentences that a reader needs; write each".into()));
    }
    if let Some(unknown) = vector.after.iter().find(|after| !before.contains(*after)) {
        return Err(head(format!("it comes after \"{unknown}\", which is no vector above it; name one that is")));
    }
    let path = &vector.path;
    if path.rate == 0 || path.rate > 1_000_000 || path.rtt.0 < Time::from_micros(100) || vector.seeds == 0 {
        return Err(head("rate is 1 to 1000000 packets/s, rtt 100 us or more, seeds 1 or more".into()));
    }
    let mut notes = BTreeSet::new();
    for (i, step) in vector.steps.iter().enumerate() {
        let wrong = |what: String| VectorError::Step { file: file.into(), id: vector.id.clone(), step: i + 1, what };
        let drives = [step.run.is_some(), step.rounds > 0, !step.until.is_empty(), !step.reach.is_empty()];
        if drives.iter().filter(|drive| **drive).count() > 1 {
            return Err(wrong("a step has one of run, rounds, until and reach; make two steps of it".into()));
        }
        let waits = !step.until.is_empty() || !step.reach.is_empty();
        if waits != step.within.is_some() {
            return Err(wrong("until and reach have a time `within` which they hold, and nothing else has one".into()));
        }
        if (step.drop_every > 0) != (step.packets > 0) {
            return Err(wrong("drop_every and packets come together: every how many-th packet, of how many".into()));
        }
        if !step.hold.is_empty() && !drives.contains(&true) {
            return Err(wrong("hold is judged while time passes; give run, rounds, until or reach too".into()));
        }
        if step.rate.is_some_and(|rate| !(0.001..=1000.0).contains(&rate)) {
            return Err(wrong("rate is a share of the path's rate, 0.001 to 1000".into()));
        }
        for values in [&step.until, &step.reach, &step.hold, &step.setup, &step.expect] {
            for name in values.names() {
                if !notes.contains(name) {
                    return Err(wrong(format!(
                        "no step before has the note \"{name}\"; write note = \"{name}\" there"
                    )));
                }
            }
        }
        notes.extend(step.note.clone());
    }
    if !vector.steps.iter().any(|step| [&step.hold, &step.expect, &step.reach].iter().any(|it| !it.is_empty())) {
        return Err(head("no step judges; give one expect, hold or reach".into()));
    }
    Ok(())
}

impl Vector {
    /// The algorithm that it belongs to.
    pub fn algorithm(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// True if the vector judges or needs a value under this key.
    pub fn reads(&self, key: crate::value::Key) -> bool {
        let values = |step: &Step| {
            [&step.until, &step.reach, &step.hold, &step.setup, &step.expect].iter().any(|it| it.get(key).is_some())
        };
        self.steps.iter().any(values)
    }
}
