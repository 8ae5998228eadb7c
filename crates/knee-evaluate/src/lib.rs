//! Evaluates a congestion control in a test, by the criteria of RFC 9743: the scenarios, figures, thresholds and verdicts of
//! `knee evaluate`, without Python. `docs/evaluate-rust.md` shows how.

mod criteria;
mod figures;
mod guard;
mod quantity;
mod report;
mod run;
mod scenario;
mod subject;
mod verdict;

pub use criteria::{Bound, Form, Untested};
pub use figures::Figure;
pub use knee_cc;
pub use knee_core;
pub use knee_quic::proto as quinn_proto;
pub use report::{Found, Judged, LeftOut, Report};
pub use run::Error;
pub use subject::Deployed;
pub use verdict::Verdict;

use knee_cc::Entry;
use quinn_proto::congestion::ControllerFactory;
use std::sync::Arc;
use subject::Subject;

/// Seeds of each scenario, as many as `knee evaluate --quick` takes.
const SEEDS: u64 = 2;

/// Evaluates a controller of quinn's interface. Its flows go over QUIC in virtual time, those of all others over TCP.
///
/// `make` is called for each flow; what it gives makes the controller of the flow's connection.
pub fn quinn<C>(make: impl Fn() -> Arc<C> + Send + Sync + 'static) -> Evaluation
where
    C: ControllerFactory + Send + Sync + 'static,
{
    let name = std::any::type_name::<C>();
    Evaluation::new(name, Subject::Quinn(Arc::new(move || make())))
}

/// Evaluates an algorithm of knee's interface, with the defaults of its parameters. Its flows go over TCP.
pub fn algorithm(entry: &'static Entry) -> Evaluation {
    Evaluation::new(entry.name, Subject::Algorithm(entry))
}

/// An evaluation that has not run.
#[derive(Clone)]
#[must_use = "nothing runs before `run`"]
pub struct Evaluation {
    name: String,
    subject: Subject,
    against: Vec<Deployed>,
    only: Vec<String>,
    quick: bool,
    seeds: u64,
}

impl Evaluation {
    fn new(name: &str, subject: Subject) -> Self {
        let against = Deployed::ALL.to_vec();
        Self { name: name.into(), subject, against, only: Vec::new(), quick: true, seeds: SEEDS }
    }

    /// Compares with these deployed algorithms, one or several; by default with all of [`Deployed::ALL`].
    pub fn against(mut self, deployed: impl AsRef<[Deployed]>) -> Self {
        self.against.clear();
        for who in deployed.as_ref() {
            if !self.against.contains(who) {
                self.against.push(*who);
            }
        }
        self
    }

    /// Evaluates the criterion of this name in `criteria.toml`, such as `bufferbloat`. May be repeated; by default all.
    pub fn only(mut self, criterion: &str) -> Self {
        self.only.push(criterion.into());
        self
    }

    /// Runs all scenarios, and not only the quick ones.
    pub const fn all_scenarios(mut self) -> Self {
        self.quick = false;
        self
    }

    /// Runs each scenario with the seeds 1 to `seeds`; by default 2.
    pub const fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// What reports call the algorithm; by default its type or its entry's name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Runs the scenarios, on all processors, and judges. An algorithm that panics, asks for a window of 0 or sends without
    /// end gets the verdict [`Verdict::DoesNotRun`]; one that never returns from a method is not stopped.
    ///
    /// # Errors
    /// [`Error`] if there is no such criterion, none of what was asked for can be run, or there is nothing to compare with.
    pub fn run(&self) -> Result<Report, Error> {
        run::run(self)
    }
}
