//! Evaluates a congestion control in a test, by the criteria of RFC 9743: scenarios, thresholds and verdicts are those
//! of `knee evaluate`, computed without Python. `docs/evaluate-rust.md` explains them.
//!
//! ```no_run
//! use knee_evaluate::Deployed::Cubic;
//! use knee_evaluate::quinn_proto::congestion::NewRenoConfig;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), knee_evaluate::Error> {
//! knee_evaluate::quinn(|| Arc::new(NewRenoConfig::default())).against(Cubic).run()?.assert_no_worse();
//! # Ok(())
//! # }
//! ```
//!
//! The rules of its standard that it breaks, by `docs/conformance.md`:
//!
//! ```
//! use knee_evaluate::quinn_proto::congestion::CubicConfig;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), knee_evaluate::knee_conform::Error> {
//! let report = knee_evaluate::conform("cubic", || Arc::new(CubicConfig::default()))?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! A controller of one's own, on a wired path:
//!
//! ```
//! use knee_evaluate::quinn_proto::RttEstimator;
//! use knee_evaluate::quinn_proto::congestion::{Controller, ControllerFactory};
//! use std::any::Any;
//! use std::sync::Arc;
//! use std::time::Instant;
//!
//! /// Additive increase by a packet per round trip, multiplicative decrease to a half.
//! #[derive(Clone)]
//! struct Aimd {
//!     window: u64,
//!     mtu: u64,
//!     /// When the latest reduction began: packets sent before it reduce no more.
//!     reduced: Option<Instant>,
//! }
//!
//! struct AimdConfig;
//!
//! impl ControllerFactory for AimdConfig {
//!     fn build(self: Arc<Self>, _now: Instant, mtu: u16) -> Box<dyn Controller> {
//!         let mtu = u64::from(mtu);
//!         Box::new(Aimd { window: 10 * mtu, mtu, reduced: None })
//!     }
//! }
//!
//! impl Controller for Aimd {
//!     fn on_ack(&mut self, _now: Instant, _sent: Instant, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
//!         if !app_limited {
//!             let slow_start = self.reduced.is_none();
//!             self.window += if slow_start { bytes } else { self.mtu * bytes / self.window };
//!         }
//!     }
//!
//!     fn on_congestion_event(&mut self, now: Instant, sent: Instant, _persistent: bool, _lost_bytes: u64) {
//!         if self.reduced.is_none_or(|at| sent > at) {
//!             self.reduced = Some(now);
//!             self.window = (self.window / 2).max(2 * self.mtu);
//!         }
//!     }
//!
//!     fn on_mtu_update(&mut self, mtu: u16) {
//!         self.mtu = u64::from(mtu);
//!     }
//!
//!     fn window(&self) -> u64 {
//!         self.window
//!     }
//!
//!     fn clone_box(&self) -> Box<dyn Controller> {
//!         Box::new(self.clone())
//!     }
//!
//!     fn initial_window(&self) -> u64 {
//!         10 * self.mtu
//!     }
//!
//!     fn into_any(self: Box<Self>) -> Box<dyn Any> {
//!         self
//!     }
//! }
//!
//! # fn main() -> Result<(), knee_evaluate::Error> {
//! let report = knee_evaluate::quinn(|| Arc::new(AimdConfig)).only("wired").run()?;
//! println!("{report}");
//! report.assert_no_worse();
//! # Ok(())
//! # }
//! ```
//!
//! An algorithm of knee's interface, with the defaults of its parameters:
//!
//! ```no_run
//! use knee_evaluate::knee_cc::{Ack, Congestion, CongestionControl, Control, Entry, Family, Needs};
//!
//! /// Grows by a packet for every hundred acknowledged, and gives up an eighth on a loss.
//! #[derive(Clone)]
//! struct Mimd(u32);
//!
//! impl CongestionControl for Mimd {
//!     fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
//!         if ack.cwnd_limited {
//!             self.0 += ack.delivered;
//!             control.cwnd += self.0 / 100;
//!             self.0 %= 100;
//!         }
//!     }
//!
//!     fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
//!         control.ssthresh = (control.cwnd - control.cwnd / 8).max(2);
//!     }
//! }
//!
//! static MIMD: Entry = Entry {
//!     name: "mimd",
//!     family: Family::LossBased,
//!     about: "multiplicative increase, multiplicative decrease",
//!     source: "Chiu and Jain, Computer Networks and ISDN Systems 17, 1989",
//!     params: &[],
//!     phases: &["running"],
//!     edges: &[],
//!     min_cwnd: 2,
//!     needs: Needs::NONE,
//!     make: |_, _| Box::new(Mimd(0)),
//! };
//!
//! # fn main() -> Result<(), knee_evaluate::Error> {
//! println!("{}", knee_evaluate::algorithm(&MIMD).run()?);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod criteria;
mod explain;
mod figures;
mod guard;
mod in_flight;
mod report;
mod run;
mod scenario;
mod subject;
mod svg;
mod verdict;
mod window;

pub use criteria::{Bound, Form, Suite, Untested};
pub use explain::{BrokenRule, Cost, Explanation};
pub use figures::Figure;
pub use in_flight::{InFlight, Packet};
pub use knee_cc;
pub use knee_conform;
pub use knee_core;
pub use knee_quinn::conform::{Controllers, Probe};
pub use knee_quinn::proto as quinn_proto;
pub use report::{Found, Judged, LeftOut, Report};
pub use run::Error;
pub use subject::Deployed;
pub use verdict::Verdict;
pub use window::{Acked, Lost, Window};

use knee_cc::Entry;
use quinn_proto::congestion::ControllerFactory;
use std::sync::Arc;
use subject::Subject;
use window::Windows;

/// Seeds of each scenario, as many as `knee evaluate --quick` takes.
const SEEDS: u64 = 2;

/// Evaluates a controller of quinn's interface. Its flows and those of deployed algorithms in their place go over QUIC
/// in virtual time, flows beside them over TCP.
///
/// `make` is called for each flow; what it gives makes the controller of the flow's connection.
pub fn quinn<C>(make: impl Fn() -> Arc<C> + Send + Sync + 'static) -> Evaluation
where
    C: ControllerFactory + Send + Sync + 'static,
{
    let name = std::any::type_name::<C>();
    Evaluation::new(name, Subject::Quinn(Arc::new(move || make())))
}

/// Evaluates a controller of another stack, fitted to [`Window`]. Its flows go over QUIC as those of [`quinn`].
///
/// `make` is called for each connection, with the bytes of a full datagram as it begins.
pub fn window<W: Window>(make: impl Fn(u16) -> W + Send + Sync + 'static) -> Evaluation {
    let make = Arc::new(make);
    let factory = move || -> Arc<dyn ControllerFactory + Send + Sync> { Arc::new(Windows(make.clone())) };
    Evaluation::new(std::any::type_name::<W>(), Subject::Window(Arc::new(factory)))
}

/// Evaluates an algorithm of knee's interface, with the defaults of its parameters. Its flows go over TCP.
pub fn algorithm(entry: &'static Entry) -> Evaluation {
    Evaluation::new(entry.name, Subject::Algorithm(entry))
}

/// Plays the conformance vectors of an algorithm, such as `cubic`, with a controller of quinn's interface. The report
/// names the rules that it breaks. `docs/conformance.md` explains vectors; [`Controllers::probed`] shows more of a
/// controller.
///
/// # Errors
/// If the algorithm has no vectors.
pub fn conform<C>(
    algorithm: &str,
    make: impl Fn() -> Arc<C> + Send + Sync + 'static,
) -> Result<knee_conform::Report, knee_conform::Error>
where
    C: ControllerFactory + Send + Sync + 'static,
{
    let name = std::any::type_name::<C>();
    knee_conform::conform(algorithm, &Controllers::new(name, Arc::new(move || make())))
}

/// An evaluation that has not run.
#[derive(Clone)]
#[must_use = "nothing runs before `run`"]
pub struct Evaluation {
    name: String,
    subject: Subject,
    suite: Suite,
    /// Deployed algorithms to compare with; `None` for the suite's.
    against: Option<Vec<Deployed>>,
    only: Vec<String>,
    quick: bool,
    seeds: u64,
    explains: bool,
}

impl Evaluation {
    fn new(name: &str, subject: Subject) -> Self {
        let suite = Suite::default();
        Self {
            name: name.into(),
            subject,
            suite,
            against: None,
            only: Vec::new(),
            quick: true,
            seeds: SEEDS,
            explains: false,
        }
    }

    /// Judges by the criteria of this suite; by default by those of RFC 9743.
    pub const fn suite(mut self, suite: Suite) -> Self {
        self.suite = suite;
        self
    }

    /// Compares with these deployed algorithms, one or several; by default with those of the suite, as `knee evaluate`
    /// does: CUBIC, BBRv3 and Reno by RFC 9743, BBRv3 and BBR by BBR's test cases.
    pub fn against(mut self, deployed: impl AsRef<[Deployed]>) -> Self {
        let mut against = Vec::new();
        for who in deployed.as_ref() {
            if !against.contains(who) {
                against.push(*who);
            }
        }
        self.against = Some(against);
        self
    }

    /// Evaluates the criterion of this name, such as `bufferbloat`. May be repeated; by default all of the suite.
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

    /// Names the rules of BBR's draft that the algorithm breaks, worst first, if a figure does not pass. For
    /// [`Suite::Bbr`].
    pub const fn explain(mut self) -> Self {
        self.explains = true;
        self
    }

    /// Sets the algorithm's name in reports; by default its type or its entry's name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Runs the scenarios, on all processors, and judges. An algorithm that panics, asks for a window of 0 or sends
    /// without end gets the verdict [`Verdict::DoesNotRun`]; one that never returns from a method is not stopped.
    ///
    /// # Errors
    /// [`Error`] if there is no such criterion, none of what was asked for can be run, or there is nothing to compare
    /// with.
    pub fn run(&self) -> Result<Report, Error> {
        run::run(self)
    }
}
