//! The criteria as their files state them: those of `knee evaluate`, of which this crate has no copies.

use crate::figures::Figure;
use crate::scenario::{self, Scenario};
use crate::subject::Deployed;
use serde::Deserialize;
use toml::Table;

/// The document whose criteria are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suite {
    /// RFC 9743's criteria, for any congestion control: `criteria.toml`.
    #[default]
    Rfc9743,
    /// The example test cases of draft-ietf-ccwg-bbr, for any implementation of BBR: `bbr.toml`.
    Bbr,
}

/// The file of a suite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Criteria {
    /// The document that they come from.
    pub(crate) document: String,
    /// Deployed algorithms it is compared with by default.
    pub(crate) deployed: Vec<Deployed>,
    pub(crate) criterion: Vec<Criterion>,
    pub(crate) untested: Vec<Untested>,
}

/// A criterion: a question of the suite's document, scenarios, and what is asked of their figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Criterion {
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) section: String,
    pub(crate) question: String,
    #[serde(rename = "text")]
    default_text: String,
    pub(crate) scenario: Vec<Case>,
    check: Vec<RawCheck>,
}

/// A scenario of a criterion.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) about: String,
    /// It belongs to the quick part.
    #[serde(default)]
    pub(crate) quick: bool,
    /// The scenario; by default the criterion's.
    #[serde(default)]
    text: String,
    /// Changes to it, `key=value`.
    #[serde(default)]
    set: Vec<String>,
}

/// A section of the suite's document that no criterion covers, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Untested {
    /// The section.
    pub section: String,
    /// Its title.
    pub title: String,
    /// Why nothing tests it.
    pub why: String,
}

/// A check as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    figure: String,
    #[serde(default)]
    of: String,
    #[serde(default, rename = "as")]
    form: Form,
    at_most: Option<f64>,
    at_least: Option<f64>,
    no_worse: Option<f64>,
    source: String,
    #[serde(default)]
    only: Vec<String>,
}

/// The derived value of a figure that is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The figure itself.
    #[default]
    Value,
    /// Its part, 0 to 1, in that of all flows.
    Share,
    /// The part, up to 1, of it that flows lose compared with a run without the algorithm, or by which their delay
    /// grows (Ware et al., HotNets 2019).
    Harm,
}

/// A threshold, in the figure's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The figure must not exceed this.
    AtMost(f64),
    /// The figure must reach this.
    AtLeast(f64),
    /// The figure must not be worse than the worst deployed algorithm's by more than this factor.
    NoWorse(f64),
}

/// A figure of a scenario, and what is asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) figure: Figure,
    /// The label of the flows that it is computed over; empty: all.
    pub(crate) of: String,
    pub(crate) form: Form,
    pub(crate) bound: Bound,
    pub(crate) source: String,
}

impl Check {
    /// True if less is better.
    pub(crate) fn less(&self) -> bool {
        match self.bound {
            Bound::AtMost(_) => true,
            Bound::AtLeast(_) => false,
            Bound::NoWorse(_) => self.form == Form::Harm || (self.form == Form::Value && self.figure.less_is_better()),
        }
    }

    /// The name of the check among those of its scenario, as `evaluate.json` has it.
    pub(crate) fn key(&self) -> String {
        let form = match self.form {
            Form::Value => "",
            Form::Share => "-share",
            Form::Harm => "-harm",
        };
        let of = if self.of.is_empty() { String::new() } else { format!("-{}", self.of) };
        let most = if self.form == Form::Share && matches!(self.bound, Bound::AtMost(_)) { "-most" } else { "" };
        format!("{}{form}{of}{most}", self.figure.name())
    }
}

impl RawCheck {
    /// The check, or why this crate cannot compute it.
    fn read(&self) -> Result<Check, String> {
        let figure = Figure::named(&self.figure).ok_or_else(|| format!("the figure {}", self.figure))?;
        let bound = match (self.at_most, self.at_least, self.no_worse) {
            (Some(most), None, None) => Bound::AtMost(most),
            (None, Some(least), None) => Bound::AtLeast(least),
            (None, None, Some(factor)) => Bound::NoWorse(factor),
            _ => return Err(format!("the threshold of {}", self.figure)),
        };
        Ok(Check { figure, of: self.of.clone(), form: self.form, bound, source: self.source.clone() })
    }
}

impl Criterion {
    /// The name of a scenario among those of all criteria.
    pub(crate) fn name(&self, case: &Case) -> String {
        format!("{}-{}", self.key, case.name)
    }

    /// A scenario and what is asked of its figures, or what of it this crate does not have.
    pub(crate) fn read(&self, case: &Case) -> Result<(Scenario, Vec<Check>), String> {
        let asked = self.check.iter().filter(|check| check.only.is_empty() || check.only.contains(&case.name));
        let checks = asked.map(RawCheck::read).collect::<Result<Vec<_>, _>>()?;
        let text = if case.text.is_empty() { &self.default_text } else { &case.text };
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
        let scenario = scenario::read(table, &case.set)?;
        Ok((scenario, checks))
    }
}

/// The criteria of a suite.
///
/// # Panics
/// If its file is not of the form that [`Criteria`] states; a test reads it.
pub(crate) fn load(suite: Suite) -> Criteria {
    let text = match suite {
        Suite::Rfc9743 => include_str!("../criteria.toml"),
        Suite::Bbr => include_str!("../bbr.toml"),
    };
    match toml::from_str(text) {
        Ok(criteria) => criteria,
        Err(error) => panic!("the criteria of {suite:?}: {error}"),
    }
}
