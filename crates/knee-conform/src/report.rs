//! All vectors of an algorithm with an implementation.

use crate::play::{Off, Verdict, play};
use crate::subject::Implementation;
use crate::vector::{Level, Vector};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// A vector and its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The vector.
    pub vector: String,
    /// Its level.
    pub level: Level,
    /// The text with its version, and the section and function.
    pub source: String,
    /// The rule.
    pub rule: String,
    /// The cost of breaking it.
    pub cost: String,
    /// The arithmetic.
    pub work: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Judged {
    /// True if a rule of the text is broken: not a choice, and without a reason on record.
    pub fn is_broken(&self) -> bool {
        self.level != Level::Choice && matches!(self.verdict, Verdict::Fail(_))
            || matches!(self.verdict, Verdict::Broke { .. })
    }
}

/// Verdicts of an algorithm's vectors.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The implementation.
    pub implementation: String,
    /// The algorithm whose vectors these are.
    pub algorithm: String,
    /// Each vector, in the order of the file.
    pub vectors: Vec<Judged>,
}

/// Why an implementation may fail a vector.
pub type Reasons = BTreeMap<(String, String), String>;

/// Plays `vectors`. `look` is called before each and ends it where it gives an error.
///
/// # Errors
/// That of `look`.
pub fn judge<E>(
    vectors: &[Vector],
    algorithm: &str,
    implementation: &dyn Implementation,
    reasons: &Reasons,
    mut look: impl FnMut() -> Result<(), E>,
) -> Result<Report, E> {
    let name = implementation.name();
    let mut judged: Vec<Judged> = Vec::new();
    for vector in vectors {
        look()?;
        let passed = |id: &String| judged.iter().any(|one| one.vector == *id && one.verdict == Verdict::Pass);
        let verdict = match vector.after.iter().find(|id| !passed(id)) {
            Some(before) => Verdict::After { vector_before: before.clone() },
            None => match (play(vector, implementation), reasons.get(&(name.clone(), vector.id.clone()))) {
                (Verdict::Fail(off), Some(why)) => Verdict::Departs { why: why.clone(), off },
                (verdict, _) => verdict,
            },
        };
        judged.push(Judged {
            vector: vector.id.clone(),
            level: vector.level,
            source: format!("{}, {}", vector.text, vector.at),
            rule: vector.rule.clone(),
            cost: vector.cost.clone(),
            work: vector.work.clone(),
            verdict,
        });
    }
    Ok(Report { implementation: name, algorithm: algorithm.into(), vectors: judged })
}

impl Report {
    /// The verdict of a vector.
    pub fn verdict(&self, vector: &str) -> Option<&Verdict> {
        self.vectors.iter().find(|judged| judged.vector == vector).map(|judged| &judged.verdict)
    }

    /// The vectors whose rules are broken.
    pub fn broken(&self) -> Vec<&str> {
        self.vectors.iter().filter(|judged| judged.is_broken()).map(|judged| judged.vector.as_str()).collect()
    }

    /// How many vectors have a verdict of this name.
    pub fn count(&self, name: &str) -> usize {
        self.vectors.iter().filter(|judged| judged.verdict.name() == name).count()
    }

    /// Ends a test with the report, if a rule is broken.
    ///
    /// # Panics
    /// If one is.
    pub fn assert_conforms(&self) {
        let broken = self.broken();
        assert!(broken.is_empty(), "{} breaks {}\n\n{self}", self.implementation, broken.join(", "));
    }
}

/// A number as a reader wants it.
fn short(x: f64) -> String {
    if x.fract() == 0.0 || x.is_infinite() { format!("{x}") } else { format!("{x:.3}") }
}

/// A sentence that says what is off.
fn sentence(off: &Off) -> String {
    let seed = if off.seed > 1 { format!(", seed {}", off.seed) } else { String::new() };
    format!(
        "step {} at {:.3} s{seed}: {} is {}, expected {}",
        off.step,
        off.at_s,
        off.key,
        short(off.found),
        off.expected
    )
}

/// The details of a verdict, in a sentence; empty where its name says all.
pub fn details(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Pass => String::new(),
        Verdict::Fail(off) | Verdict::NotReached(off) => sentence(off),
        Verdict::NotShown { key } => format!("{key} is judged, and not shown"),
        Verdict::NotTold { event } => format!("the interface has no event \"{event}\""),
        Verdict::Broke { what } => what.clone(),
        Verdict::Departs { why, off } => format!("{why} ({})", sentence(off)),
        Verdict::After { vector_before } => format!("{vector_before} comes first"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = String::new();
        for name in ["FAILS", "BROKE", "departs", "not reached", "not shown", "not told", "not judged"] {
            match self.count(name) {
                0 => {}
                count => write!(counts, ", {count} {}", name.to_lowercase())?,
            }
        }
        let (passes, all) = (self.count("passes"), self.vectors.len());
        writeln!(f, "{} by the vectors of {}: {passes} of {all} pass{counts}", self.implementation, self.algorithm)?;
        for judged in self.vectors.iter().filter(|judged| judged.verdict != Verdict::Pass) {
            let Judged { vector, level, source, rule, cost, work, verdict } = judged;
            writeln!(f, "\n{:<12} {vector} ({level}; {source})", verdict.name())?;
            writeln!(f, "             {}", details(verdict))?;
            if matches!(verdict, Verdict::Fail(_)) {
                writeln!(f, "             rule: {rule}\n             cost: {cost}\n             work: {work}")?;
            }
        }
        Ok(())
    }
}
