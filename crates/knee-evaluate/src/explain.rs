//! Why an implementation of BBR is worse: its conformance vectors are played. `bbr-rules.toml` has what breaking each
//! rule costs on the networks of the suite; `scripts/rule_costs.py` measured it with mutants of knee's BBRv3.

use crate::report::Judged as Figure;
use crate::run::panic_text;
use crate::subject::Subject;
use crate::verdict::Verdict;
use knee_conform::{Judged, conform, details};
use serde::Deserialize;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Costs that a sentence lists.
const MOST: usize = 4;

/// The measured cost of breaking a rule, on one network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// The scenario.
    pub network: String,
    /// The figure.
    pub figure: String,
    /// The figure of knee's BBRv3.
    pub kept: f64,
    /// The figure of a mutant which breaks the rule.
    pub broken: f64,
    /// The part that is lost, up to 1.
    pub part: f64,
}

/// A rule that is broken.
#[derive(Clone, Debug)]
pub struct BrokenRule {
    /// The vector that shows it, and its verdict.
    pub judged: Judged,
    /// The change that was measured; empty if there is none.
    pub change: String,
    /// Costs where the algorithm is behind, the greatest part first.
    pub here: Vec<Cost>,
    /// Costs on other networks.
    pub elsewhere: Vec<Cost>,
}

/// The rules that an implementation of BBR breaks.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The scenarios with a figure that does not pass.
    pub behind: Vec<String>,
    /// The rules that it breaks, worst first.
    pub rules: Vec<BrokenRule>,
    /// Vectors that pass, and all of them.
    pub passed: (usize, usize),
    /// Why nothing was played.
    pub reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    vector: String,
    change: String,
    costs: Vec<Cost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rule: Vec<Rule>,
}

fn table() -> Vec<Rule> {
    toml::from_str::<Table>(include_str!("../bbr-rules.toml")).expect("the file ships, and a test reads it").rule
}

/// Plays the vectors of an algorithm of which a figure does not pass.
pub(crate) fn explain<'a>(name: &str, subject: &Subject, figures: impl Iterator<Item = &'a Figure>) -> Explanation {
    let mut behind: Vec<String> = Vec::new();
    for figure in figures.filter(|figure| figure.verdict != Verdict::Passes) {
        if !behind.contains(&figure.scenario) {
            behind.push(figure.scenario.clone());
        }
    }
    let nothing = |behind, reason| Explanation { behind, rules: Vec::new(), passed: (0, 0), reason: Some(reason) };
    if behind.is_empty() {
        return nothing(behind, format!("{name} is behind on no network: there is nothing to explain."));
    }
    let played = catch_unwind(AssertUnwindSafe(|| conform("bbr", &*subject.implementation(name))));
    let report = match played {
        Ok(Ok(report)) => report,
        Ok(Err(error)) => return nothing(behind, error.to_string()),
        Err(panic) => return nothing(behind, format!("{name} panicked: {}", panic_text(panic.as_ref()))),
    };
    let passed = (report.count("passes"), report.vectors.len());
    let table = table();
    let mut rules: Vec<BrokenRule> = (report.vectors.into_iter().filter(Judged::is_broken))
        .map(|judged| {
            let known = table.iter().find(|rule| rule.vector == judged.vector);
            let costs = known.map(|rule| rule.costs.clone()).unwrap_or_default();
            let (here, elsewhere) = costs.into_iter().partition(|cost: &Cost| behind.contains(&cost.network));
            BrokenRule { judged, change: known.map(|rule| rule.change.clone()).unwrap_or_default(), here, elsewhere }
        })
        .collect();
    // The order of the vectors decides between rules that cost the same.
    rules.sort_by(|one, other| other.rank().partial_cmp(&one.rank()).unwrap_or(std::cmp::Ordering::Equal));
    Explanation { behind, rules, passed, reason: None }
}

impl BrokenRule {
    /// The greatest parts that it cost where the algorithm is behind, and elsewhere.
    fn rank(&self) -> (f64, f64) {
        let greatest = |costs: &[Cost]| costs.iter().map(|cost| cost.part).fold(0.0, f64::max);
        (greatest(&self.here), greatest(&self.elsewhere))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Rules that are broken, worst first")?;
        if let Some(reason) = &self.reason {
            return writeln!(f, "  {reason}");
        }
        let (passed, all) = self.passed;
        writeln!(f, "  {passed} of {all} vectors pass, rules broken: {}", self.rules.len())?;
        for BrokenRule { judged, change, here, elsewhere } in &self.rules {
            writeln!(f, "  {} ({}; {})", judged.vector, judged.level, judged.source)?;
            writeln!(f, "    {}\n    Found: {}.", judged.rule, details(&judged.verdict))?;
            if change.is_empty() {
                writeln!(f, "    No mutant has measured what it costs.")?;
            } else if here.is_empty() && elsewhere.is_empty() {
                writeln!(f, "    Seen to cost nothing on these networks.")?;
            }
            for (costs, place) in [(here, "where this one is behind"), (elsewhere, "elsewhere")] {
                let each: Vec<String> = (costs.iter().take(MOST))
                    .map(|cost| format!("{}, {} {} for {}", cost.network, cost.figure, cost.broken, cost.kept))
                    .collect();
                if !each.is_empty() {
                    writeln!(f, "    Seen to cost {place}: {}.", each.join("; "))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_conform::Suite;

    #[test]
    fn each_rule_of_bbr_has_its_costs_and_the_greatest_part_comes_first() {
        let vectors = Suite::find("bbr").unwrap().vectors().unwrap();
        let table = table();
        for vector in &vectors {
            let rule = table.iter().find(|rule| rule.vector == vector.id);
            let rule = rule.unwrap_or_else(|| panic!("{} is not measured", vector.id));
            assert!(rule.costs.is_sorted_by(|one, other| one.part >= other.part), "{}", vector.id);
            assert!(rule.costs.iter().all(|cost| cost.part > 0.0 && cost.part <= 1.0), "{}", vector.id);
        }
        assert_eq!(table.len(), vectors.len());
    }
}
