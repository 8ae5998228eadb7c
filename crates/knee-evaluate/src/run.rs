//! Runs the scenarios with the algorithm and with deployed ones, and judges.

use crate::Evaluation;
use crate::criteria::{Case, Check, Criteria, Criterion, Form, Suite, load};
use crate::explain::explain;
use crate::figures::Run;
use crate::guard::Guard;
use crate::report::{Found, Judged, LeftOut, Report};
use crate::scenario::{PLACE, Placed, Scenario};
use crate::subject::{Deployed, Subject};
use crate::verdict::{Verdict, judge, measure, threshold};
use knee_core::convert::index;
use knee_net::spec::Transport;
use knee_sim::{Own, Simulation, Spec};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use thiserror::Error;

/// Steps between two looks at whether a run is to go on: some milliseconds of work.
const STEPS: u64 = 20_000;
/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// There is no such criterion.
    #[error("there is no criterion `{name}`; there are {known}")]
    UnknownCriterion {
        /// The name found.
        name: String,
        /// The names of all criteria, for the message.
        known: String,
    },
    /// Nothing of what was asked for can be run by this crate.
    #[error("knee-evaluate has no scenario of `{names}`: {why}; `knee evaluate` has them all")]
    NothingToRun {
        /// The criteria asked for.
        names: String,
        /// The parts of each scenario that this crate does not have.
        why: String,
    },
    /// Zero seeds.
    #[error("0 seeds; expected 1 or more")]
    NoSeeds,
    /// No deployed algorithm to compare with.
    #[error("no deployed algorithm to compare with; expected one such as Deployed::Cubic")]
    NothingAgainst,
    /// The suite's rules have no vectors.
    #[error("explain plays the conformance vectors of BBR; expected Suite::Bbr")]
    NotExplained,
    /// A deployed algorithm failed, which is a bug of knee's.
    #[error("{who} failed in {scenario}: {reason}")]
    Deployed {
        /// The algorithm.
        who: String,
        /// The scenario.
        scenario: String,
        /// Why.
        reason: String,
    },
}

/// A scenario that is run.
struct Chosen<'a> {
    criterion: &'a Criterion,
    case: &'a Case,
    scenario: Scenario,
    checks: Vec<Check>,
}

/// Who is in the place of the algorithm under evaluation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Subject,
    Deployed(Deployed),
    Nobody,
}

/// The runs of a scenario by seed, or why one failed.
type Runs = Result<Vec<Run>, String>;

pub(crate) fn run(evaluation: &Evaluation) -> Result<Report, Error> {
    if evaluation.seeds == 0 {
        return Err(Error::NoSeeds);
    }
    if evaluation.explains && evaluation.suite != Suite::Bbr {
        return Err(Error::NotExplained);
    }
    let mut criteria = load(evaluation.suite);
    let against = evaluation.against.clone().unwrap_or_else(|| std::mem::take(&mut criteria.deployed));
    if against.is_empty() {
        return Err(Error::NothingAgainst);
    }
    let (chosen, left_out) = choose(&criteria, evaluation)?;
    let mut jobs = Vec::new();
    for (i, chosen) in chosen.iter().enumerate() {
        jobs.push((i, Who::Subject));
        jobs.extend(against.iter().map(|who| (i, Who::Deployed(*who))));
        if chosen.checks.iter().any(|check| check.form == Form::Harm) {
            jobs.push((i, Who::Nobody));
        }
    }
    let seeded: Vec<_> = jobs.iter().flat_map(|job| (1..=evaluation.seeds).map(move |seed| (*job, seed))).collect();
    let mut done =
        in_parallel(&seeded, |((i, who), seed)| simulate(&chosen[*i].scenario, *who, &evaluation.subject, *seed))
            .into_iter();
    let mut of_a_job = || -> Vec<_> { done.by_ref().take(index(evaluation.seeds)).collect() };
    // All seeds of a job are taken, also where the first one failed.
    let outcomes: Vec<((usize, Who), Runs)> = jobs.iter().map(|job| (*job, of_a_job().into_iter().collect())).collect();
    let outcome = |i, who| outcomes.iter().find(|(job, _)| *job == (i, who)).map(|(_, runs)| runs);

    let mut found: Vec<Found> = Vec::new();
    for (i, chosen) in chosen.iter().enumerate() {
        let name = chosen.criterion.name(chosen.case);
        let mut others = Vec::new();
        for who in against.iter().map(|who| Who::Deployed(*who)).chain([Who::Nobody]) {
            match outcome(i, who) {
                Some(Ok(runs)) => others.push((who, runs.as_slice())),
                Some(Err(reason)) => {
                    let who = if let Who::Deployed(who) = who { who.name() } else { "the run without the algorithm" };
                    return Err(Error::Deployed { who: who.into(), scenario: name, reason: reason.clone() });
                }
                None => {}
            }
        }
        let Some(mine) = outcome(i, Who::Subject) else { continue };
        let judged = chosen.checks.iter().map(|check| chosen.judged(&name, check, mine, &others));
        match found.last_mut().filter(|found| found.key == chosen.criterion.key) {
            Some(found) => found.figures.extend(judged),
            None => found.push(Found::new(chosen.criterion, judged.collect())),
        }
    }
    let figures = found.iter().flat_map(|found| &found.figures);
    let explained = evaluation.explains.then(|| explain(&evaluation.name, &evaluation.subject, figures));
    Ok(Report {
        explained,
        name: evaluation.name.clone(),
        document: criteria.document,
        against,
        quic: evaluation.subject.transport() == Transport::Quic,
        seeds: evaluation.seeds,
        criteria: found,
        left_out,
        untested: criteria.untested,
    })
}

/// The scenarios that were asked for, and those of them that this crate does not have.
fn choose<'a>(criteria: &'a Criteria, evaluation: &Evaluation) -> Result<(Vec<Chosen<'a>>, Vec<LeftOut>), Error> {
    let only = &evaluation.only;
    if let Some(name) = only.iter().find(|name| !criteria.criterion.iter().any(|each| each.key == **name)) {
        let known: Vec<_> = criteria.criterion.iter().map(|each| each.key.as_str()).collect();
        return Err(Error::UnknownCriterion { name: name.clone(), known: known.join(", ") });
    }
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for criterion in criteria.criterion.iter().filter(|each| only.is_empty() || only.contains(&each.key)) {
        for case in criterion.scenario.iter().filter(|case| case.quick || !evaluation.quick) {
            match criterion.read(case) {
                Ok((scenario, _)) if scenario.misbehaves() && evaluation.subject.transport() == Transport::Quic => {
                    let why = "a receiver that misbehaves, where that of the QUIC stack is honest".into();
                    left_out.push(LeftOut { scenario: criterion.name(case), why });
                }
                Ok((scenario, checks)) => chosen.push(Chosen { criterion, case, scenario, checks }),
                Err(why) => left_out.push(LeftOut { scenario: criterion.name(case), why }),
            }
        }
    }
    if chosen.is_empty() {
        let why = left_out.iter().map(|each| format!("{} has {}", each.scenario, each.why)).collect::<Vec<_>>();
        return Err(Error::NothingToRun { names: only.join(", "), why: why.join(", ") });
    }
    Ok((chosen, left_out))
}

impl Chosen<'_> {
    fn judged(&self, name: &str, check: &Check, mine: &Runs, others: &[(Who, &[Run])]) -> Judged {
        let alone = others.iter().find(|(who, _)| *who == Who::Nobody).map(|(_, runs)| *runs);
        let values = |runs: &[Run]| -> Vec<Option<f64>> {
            let without = |i| alone.and_then(|alone| alone.get(i));
            runs.iter().enumerate().map(|(i, run)| measure(check, run, without(i))).collect()
        };
        let deployed: Vec<(Deployed, Vec<Option<f64>>)> = (others.iter())
            .filter_map(|(who, runs)| if let Who::Deployed(who) = who { Some((*who, values(runs))) } else { None })
            .collect();
        let by_seed = || deployed.iter().map(|(_, values)| values.as_slice());
        let failed = match mine {
            Err(reason) => Some(reason.clone()),
            Ok(runs) if runs.iter().any(|run| run.delivered_nothing(self.scenario.places())) => {
                Some("Its flows delivered nothing.".into())
            }
            Ok(_) => None,
        };
        let (own, verdict) = match mine {
            Ok(runs) if failed.is_none() => {
                let own = values(runs);
                let verdict = judge(check, &own, by_seed());
                (own, verdict)
            }
            _ => (Vec::new(), Verdict::DoesNotRun),
        };
        Judged {
            key: format!("{}/{}/{}", self.criterion.key, self.case.name, check.key()),
            scenario: name.into(),
            about: self.case.about.clone(),
            figure: check.figure,
            of: check.of.clone(),
            form: check.form,
            bound: check.bound,
            less: check.less(),
            threshold: Some(threshold(check, by_seed())).filter(|bound| bound.is_finite()),
            source: check.source.clone(),
            values: own,
            deployed,
            verdict,
            reason: failed,
        }
    }
}

/// Simulates one run; gives its figures, or the reason why it failed.
fn simulate(scenario: &Scenario, who: Who, subject: &Subject, seed: u64) -> Result<Run, String> {
    let guard = Guard::new(scenario.greatest_rate());
    let placed = match who {
        Who::Subject => Placed::Flows(PLACE, subject.transport()),
        Who::Deployed(who) => Placed::Flows(who.name(), subject.transport()),
        Who::Nobody => Placed::Nothing,
    };
    let spec = scenario.spec(placed, seed)?;
    let own = if who == Who::Subject { vec![subject.own(&guard)] } else { Vec::new() };
    let driven = catch_unwind(AssertUnwindSafe(|| drive(&spec, &own, &guard)));
    driven.unwrap_or_else(|panic| Err(format!("It panicked: {}", panic_text(panic.as_ref()))))
}

fn drive(spec: &Spec, own: &[Own], guard: &Guard) -> Result<Run, String> {
    let mut simulation = Simulation::with_own(spec, own).map_err(|error| error.to_string())?;
    while simulation.step(STEPS) {
        guard.check()?;
    }
    guard.check()?;
    let (output, rows) = simulation.finish().map_err(|error| error.to_string())?;
    let flows: Vec<_> = spec.flows.iter().map(|flow| (flow.label.clone(), flow.bytes)).collect();
    Ok(Run::new(output, &flows, &rows.samples, spec.interval as f64 / 1e9))
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// Results of `work` for each of `jobs`, in their order, computed on as many threads as there are processors.
fn in_parallel<J: Sync, T: Send>(jobs: &[J], work: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs.len())));
    let worker = || {
        while let Some((i, job)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, jobs.get(i)?))) {
            let made = work(job);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((i, made));
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(jobs.len());
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        // A panic goes on here with its message.
        if let Some(panic) = workers.into_iter().find_map(|worker| worker.join().err()) {
            resume_unwind(panic);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "job 3 fails")]
    fn a_panic_of_a_worker_keeps_its_message() {
        in_parallel(&[1, 2, 3], |job| assert!(*job != 3, "job {job} fails"));
    }
}
