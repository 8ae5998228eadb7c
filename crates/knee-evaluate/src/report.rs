//! Results of an evaluation, as data and as text.

use crate::criteria::{Bound, Criterion, Form, Untested};
use crate::explain::Explanation;
use crate::figures::{Figure, mean};
use crate::subject::Deployed;
use crate::verdict::Verdict;
use std::fmt::{self, Display};

/// Results of an evaluation. Its `Display` is the report as text.
#[derive(Clone, Debug)]
pub struct Report {
    /// The algorithm.
    pub name: String,
    /// The document that the criteria come from.
    pub document: String,
    /// The deployed algorithms that it was compared with.
    pub against: Vec<Deployed>,
    /// True if it, and the deployed ones in its place, ran over QUIC; else over TCP, as do the flows beside them.
    pub quic: bool,
    /// Runs of each scenario.
    pub seeds: u64,
    /// The criteria, in the order of their file.
    pub criteria: Vec<Found>,
    /// Scenarios of the suite that this crate does not have.
    pub left_out: Vec<LeftOut>,
    /// Sections of the document that no criterion covers.
    pub untested: Vec<Untested>,
    /// The rules that it breaks, if they were asked for ([`crate::Evaluation::explain`]).
    pub explained: Option<Explanation>,
}

/// A scenario that this crate does not have.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The scenario: the criterion's name and its own.
    pub scenario: String,
    /// The parts of the scenario that this crate does not have.
    pub why: String,
}

/// A criterion and what was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name in the suite's file.
    pub key: String,
    /// Its title.
    pub title: String,
    /// The section of the document.
    pub section: String,
    /// The question in a sentence.
    pub question: String,
    /// The figures.
    pub figures: Vec<Judged>,
}

impl Found {
    pub(crate) fn new(criterion: &Criterion, figures: Vec<Judged>) -> Self {
        Self {
            key: criterion.key.clone(),
            title: criterion.title.clone(),
            section: criterion.section.clone(),
            question: criterion.question.clone(),
            figures,
        }
    }

    /// The worst verdict of its figures.
    pub fn verdict(&self) -> Verdict {
        self.figures.iter().map(|figure| figure.verdict).max().unwrap_or(Verdict::Passes)
    }
}

/// A figure of a scenario, and the verdict on it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The criterion, the scenario and the figure: `bufferbloat/one-flow/utilization`, as in `evaluate.json`.
    pub key: String,
    /// The scenario: the criterion's name and its own.
    pub scenario: String,
    /// One line about the scenario.
    pub about: String,
    /// The figure.
    pub figure: Figure,
    /// The label of the flows that it is computed over; empty: all.
    pub of: String,
    /// The derived value of the figure that is judged.
    pub form: Form,
    /// The threshold as the suite's file states it.
    pub bound: Bound,
    /// True if less is better.
    pub less: bool,
    /// The threshold in the figure's unit; `None` where it depends on a figure that no deployed algorithm has.
    pub threshold: Option<f64>,
    /// The source of the threshold.
    pub source: String,
    /// The figure by seed, in [`Figure::unit`], or a ratio for shares and harm; `None` where a run has no such value.
    /// Empty where the algorithm does not run.
    pub values: Vec<Option<f64>>,
    /// The figure by seed of each deployed algorithm, in the same unit.
    pub deployed: Vec<(Deployed, Vec<Option<f64>>)>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it does not run.
    pub reason: Option<String>,
}

impl Judged {
    /// The verdict in a sentence: the figure, its threshold and the figures of the deployed algorithms.
    pub fn sentence(&self) -> String {
        let predicate = match self.verdict {
            Verdict::WorseThanEveryDeployed => "is worse than with every deployed one",
            verdict => verdict.text(),
        };
        let place = format!("{} ({}) {predicate}", self.scenario, self.about);
        if let Some(reason) = &self.reason {
            return format!("{place}: {reason}");
        }
        let others: Vec<String> =
            self.deployed.iter().map(|(who, values)| format!("{who} {}", self.shown(mean_of(values)))).collect();
        let (title, value, bound) = (self.title(), self.mean_shown(), self.bound_shown());
        format!("{place}: {title} {value}, expected {bound}; {}.", others.join(", "))
    }

    /// The mean over the seeds, in words.
    pub(crate) fn mean_shown(&self) -> String {
        self.shown(mean_of(&self.values))
    }

    /// The threshold in words.
    pub(crate) fn bound_shown(&self) -> String {
        match self.threshold {
            Some(bound) => format!("at {} {}", if self.less { "most" } else { "least" }, self.shown(Some(bound))),
            None => "a figure that no deployed one has".into(),
        }
    }

    pub(crate) fn title(&self) -> String {
        let title = self.figure.title();
        let whole = title.split_once(',').map_or(title, |(whole, _)| whole);
        match (self.form, self.of.as_str()) {
            (Form::Value, "other") => format!("{title}, of the others"),
            (Form::Value, _) => title.into(),
            (Form::Harm, _) => format!("harm to the others' {whole}"),
            (Form::Share, "other") => format!("the others' share of the {whole}"),
            (Form::Share, "x") => format!("its share of the {whole}"),
            (Form::Share, of) => format!("the {} flow's share of the {whole}", of.trim_start_matches("x ")),
        }
    }

    /// A value with its unit and three significant digits.
    fn shown(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "no value".into() };
        let part = self.form != Form::Value || matches!(self.figure, Figure::Utilization | Figure::Loss);
        let (value, unit) = if part { (100.0 * value, "%") } else { (value, self.figure.unit()) };
        let decimals = match value.abs() {
            100.0.. => 0,
            10.0.. => 1,
            1.0.. => 2,
            0.1.. => 3,
            _ => 4,
        };
        let text = format!("{value:.decimals$}");
        let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        format!("{} {unit}", if text == "-0" { "0" } else { text }).trim_end().into()
    }
}

/// The mean over the seeds; `None` where one has no value.
fn mean_of(values: &[Option<f64>]) -> Option<f64> {
    values.iter().copied().collect::<Option<Vec<_>>>().as_deref().and_then(mean)
}

impl Report {
    /// The figures with this verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Judged> {
        self.criteria.iter().flat_map(|found| &found.figures).filter(move |figure| figure.verdict == verdict)
    }

    /// The verdict on the criterion of this name; `None` if it was not evaluated.
    pub fn verdict(&self, key: &str) -> Option<Verdict> {
        self.criteria.iter().find(|found| found.key == key).map(Found::verdict)
    }

    /// Fails the test in which it is called if a figure is worse than with every deployed algorithm it was compared
    /// with, or if the algorithm does not run in some scenario.
    ///
    /// # Panics
    /// With a sentence for each such figure.
    #[track_caller]
    pub fn assert_no_worse(&self) {
        let sentences = sentences(self.criteria.iter().flat_map(|found| &found.figures), Verdict::fails);
        assert!(
            sentences.is_empty(),
            "{} is worse than {}, or does not run:\n  {}\n\n{self}",
            self.name,
            self.names(),
            sentences.join("\n  ")
        );
    }

    fn names(&self) -> String {
        self.against.iter().map(|who| who.name()).collect::<Vec<_>>().join(", ")
    }
}

/// The sentences of figures with such verdicts; that a scenario does not run is said once.
fn sentences<'a>(figures: impl Iterator<Item = &'a Judged>, wanted: impl Fn(Verdict) -> bool) -> Vec<String> {
    let mut sentences: Vec<String> = figures.filter(|each| wanted(each.verdict)).map(Judged::sentence).collect();
    sentences.dedup();
    sentences
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = if self.seeds == 1 { "1 run".into() } else { format!("{} runs", self.seeds) };
        let Self { name, document, .. } = self;
        let over = if self.quic { " over QUIC" } else { "" };
        writeln!(f, "{name} by the criteria of {document}, beside {}{over}, {runs} of each scenario\n", self.names())?;
        let width = self.criteria.iter().map(|found| found.title.len()).max().unwrap_or(0).max("criterion".len());
        writeln!(f, "{:width$}  section  figures   verdict", "criterion")?;
        for found in &self.criteria {
            let passed = found.figures.iter().filter(|figure| figure.verdict == Verdict::Passes).count();
            let passed = format!("{passed} of {}", found.figures.len());
            writeln!(f, "{:width$}  {:7}  {passed:8}  {}", found.title, found.section, found.verdict().text())?;
        }
        for found in &self.criteria {
            let sentences = sentences(found.figures.iter(), |verdict| verdict != Verdict::Passes);
            if !sentences.is_empty() {
                writeln!(f, "\n{}\n  {}", found.title, sentences.join("\n  "))?;
            }
        }
        if let Some(explained) = &self.explained {
            write!(f, "\n{explained}")?;
        }
        if !self.left_out.is_empty() {
            let each = self.left_out.iter().map(|each| format!("{} ({})", each.scenario, each.why));
            writeln!(f, "\nNot in this crate: {}.", each.collect::<Vec<_>>().join(", "))?;
        }
        let untested = self.untested.iter().map(|each| format!("{} ({})", each.title, each.section));
        writeln!(f, "\nNot tested: {}.", untested.collect::<Vec<_>>().join(", "))
    }
}
