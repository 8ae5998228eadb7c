//! A controller fitted to [`Window`] does what the same controller of quinn's interface does, but for a pacing rate.

use knee_evaluate::quinn_proto::RttEstimator;
use knee_evaluate::quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use knee_evaluate::{Acked, Deployed, Evaluation, Lost, Report, Verdict, Window, quinn, window};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that the window grows by in a round trip.
const INCREASE: u64 = 1_200;

/// Additive increase, multiplicative decrease.
#[derive(Clone)]
struct Aimd<T> {
    window: u64,
    reduced: Option<T>,
}

impl<T: PartialOrd> Aimd<T> {
    const fn new() -> Self {
        Self { window: 10 * INCREASE, reduced: None }
    }

    fn grow(&mut self, bytes: u64, app_limited: bool) {
        if !app_limited {
            self.window += if self.reduced.is_none() { bytes } else { INCREASE * bytes / self.window };
        }
    }

    fn reduce(&mut self, now: T, sent: &T) {
        if self.reduced.as_ref().is_none_or(|at| sent > at) {
            self.reduced = Some(now);
            self.window = (self.window / 2).max(2 * INCREASE);
        }
    }
}

impl Window for Aimd<Duration> {
    fn on_ack(&mut self, ack: &Acked) {
        assert!(ack.sent < ack.now && ack.min_rtt >= Duration::from_millis(40) && ack.rtt >= ack.min_rtt);
        self.grow(ack.bytes, ack.app_limited);
    }

    fn on_loss(&mut self, loss: &Lost) {
        self.reduce(loss.now, &loss.sent);
    }

    fn window(&self) -> u64 {
        self.window
    }
}

struct AimdConfig;

impl ControllerFactory for AimdConfig {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Aimd::<Instant>::new())
    }
}

impl Controller for Aimd<Instant> {
    fn on_ack(&mut self, _: Instant, _: Instant, bytes: u64, app_limited: bool, _: &RttEstimator) {
        self.grow(bytes, app_limited);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, _: bool, _: u64) {
        self.reduce(now, &sent);
    }

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn run(evaluation: Evaluation) -> Report {
    evaluation.named("aimd").only("wired").only("beside-deployed").seeds(1).run().unwrap()
}

#[test]
#[ignore = "long: make test-system"]
fn a_fitted_controller_gives_the_figures_of_one_of_quinns_interface() {
    let fitted = run(window(|mtu| {
        assert_eq!(mtu, 1_200);
        Aimd::<Duration>::new()
    }));
    assert_eq!(fitted.to_string(), run(quinn(|| Arc::new(AimdConfig))).to_string());
    assert!(fitted.with(Verdict::DoesNotRun).next().is_none(), "{fitted}");
}

/// A window that never changes, and a pacing rate: a fifth of a flow's share of 50 Mbit/s.
#[derive(Clone)]
struct Paced;

const FIXED: u64 = 200_000;
const RATE: u64 = 5_000_000;

impl Window for Paced {
    fn on_ack(&mut self, _: &Acked) {}

    fn on_loss(&mut self, _: &Lost) {}

    fn window(&self) -> u64 {
        FIXED
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(RATE)
    }
}

struct PacedConfig;

impl ControllerFactory for PacedConfig {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Paced)
    }
}

impl Controller for Paced {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        FIXED
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.pacing_rate = Some(RATE);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        FIXED
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// How much of the link two flows use on a wired path.
fn utilization(evaluation: Evaluation) -> f64 {
    let report = evaluation.only("wired").against(Deployed::Reno).seeds(1).run().unwrap();
    assert!(report.with(Verdict::DoesNotRun).next().is_none(), "{report}");
    let figures = &report.criteria[0].figures;
    figures.iter().find(|figure| figure.key == "wired/two-flows/utilization").unwrap().values[0].unwrap()
}

#[test]
fn the_pacing_rate_of_a_fitted_controller_is_followed_and_that_of_quinns_interface_is_not() {
    let followed = utilization(window(|_| Paced));
    assert!((0.19..0.22).contains(&followed), "{followed}");
    let not = utilization(quinn(|| Arc::new(PacedConfig)));
    assert!(not > 0.95, "{not}");
}
