//! Controllers that cannot run: the verdict is "does not run" with the reason, and other scenarios go on.

use knee_evaluate::knee_cc::{self, Ack, Congestion, CongestionControl, Control, Entry, Family, Needs};
use knee_evaluate::quinn_proto::congestion::{Controller, ControllerFactory};
use knee_evaluate::{Deployed, Error, Evaluation, Report, Verdict, algorithm, quinn};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// A controller whose window is what `window` makes of the number of ACKs so far.
#[derive(Clone)]
struct Windowed {
    window: fn(u64) -> u64,
    acks: u64,
}

struct Config(fn(u64) -> u64);

impl ControllerFactory for Config {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Windowed { window: self.0, acks: 0 })
    }
}

impl Controller for Windowed {
    fn on_end_acks(&mut self, _: Instant, _: u64, _: bool, _: Option<u64>) {
        self.acks += 1;
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        (self.window)(self.acks)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

const TEN_PACKETS: u64 = 12_000;

/// One criterion with one scenario and one deployed algorithm.
fn evaluated(evaluation: Evaluation) -> Report {
    evaluation.only("wired").against(Deployed::Reno).seeds(1).run().unwrap()
}

/// The reason why a controller with this window, in bytes by the number of ACKs, does not run.
fn reason(window: fn(u64) -> u64) -> String {
    let report = evaluated(quinn(move || Arc::new(Config(window))));
    assert_eq!(report.verdict("wired"), Some(Verdict::DoesNotRun), "{report}");
    report.with(Verdict::DoesNotRun).next().unwrap().reason.clone().unwrap()
}

#[test]
fn a_window_of_zero_does_not_run() {
    let reason = reason(|acks| if acks < 50 { TEN_PACKETS } else { 0 });
    assert!(reason.contains("window() is 0 bytes; expected 1 to"), "{reason}");
    assert!(reason.starts_with("At ") && !reason.starts_with("At 0.000 s"), "{reason}");
}

#[test]
fn a_window_without_end_does_not_run() {
    let reason = reason(|_| u64::MAX);
    assert!(reason.contains("window() is 18446744073709551615 bytes"), "{reason}");
}

#[test]
fn a_controller_that_never_sends_does_not_run() {
    assert_eq!(reason(|_| 1), "Its flows delivered nothing.");
}

#[test]
fn a_controller_that_panics_does_not_run() {
    let reason = reason(|acks| if acks < 100 { TEN_PACKETS } else { panic!("ssthresh {acks}") });
    assert_eq!(reason, "It panicked: ssthresh 100");
}

#[test]
fn a_controller_that_sends_without_end_does_not_run() {
    // A gigabyte, and losses change nothing.
    let reason = reason(|acks| if acks < 100 { TEN_PACKETS } else { 1_000_000_000 });
    assert!(reason.starts_with("It sends without end: by "), "{reason}");
}

/// A bad algorithm of knee's interface: its function is called on each ACK.
#[derive(Clone)]
struct Bad(fn(&Ack, &mut Control));

impl CongestionControl for Bad {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        (self.0)(ack, control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = (control.cwnd / 2).max(2);
    }
}

const BAD: Entry = Entry {
    name: "bad",
    family: Family::LossBased,
    about: "a bad one",
    source: "this test",
    params: &[],
    phases: &["running"],
    edges: &[],
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |_, _| Box::new(Bad(|_, _| ())),
};

static ZERO: Entry = Entry { make: |_, _| Box::new(Bad(|_, control| control.cwnd = 0)), ..BAD };
static ENDLESS: Entry = Entry { make: |_, _| Box::new(Bad(|_, control| control.cwnd = 2_000_000_000)), ..BAD };
/// It sets its window in recovery too, so that no reduction of the sender's holds it back.
static DEAF: Entry = Entry {
    make: |_, _| Box::new(Bad(|_, control| control.cwnd = 900_000)),
    needs: Needs { full_control: true, ..Needs::NONE },
    ..BAD
};
static PANICS: Entry = Entry { make: |_, _| Box::new(Bad(|_, _| panic!("no sample"))), ..BAD };
/// A tenth of what the link carries at 40 ms, whatever happens.
static TIMID: Entry = Entry { make: |_, _| Box::new(Bad(|_, control| control.cwnd = 8)), ..BAD };
/// Ten times what the path holds, whatever happens.
static AGGRESSIVE: Entry = Entry { make: |_, _| Box::new(Bad(|_, control| control.cwnd = 1_700)), ..BAD };

fn reason_of(entry: &'static Entry) -> String {
    let report = evaluated(algorithm(entry));
    assert_eq!(report.verdict("wired"), Some(Verdict::DoesNotRun), "{report}");
    report.with(Verdict::DoesNotRun).next().unwrap().reason.clone().unwrap()
}

#[test]
fn a_bad_algorithm_of_knees_interface_does_not_run() {
    let zero = reason_of(&ZERO);
    assert!(zero.contains("control.cwnd is 0 packets; expected 1 to 1000000000"), "{zero}");
    let endless = reason_of(&ENDLESS);
    assert!(endless.contains("control.cwnd is 2000000000 packets"), "{endless}");
    let deaf = reason_of(&DEAF);
    assert!(deaf.starts_with("It sends without end: by "), "{deaf}");
    assert_eq!(reason_of(&PANICS), "It panicked: no sample");
}

#[test]
fn a_timid_algorithm_fails_to_use_the_link_and_does_no_harm() {
    let report = algorithm(&TIMID).only("wired").only("beside-deployed").seeds(1).run().unwrap();
    let worse: Vec<_> = report.with(Verdict::WorseThanEveryDeployed).map(|figure| figure.key.as_str()).collect();
    assert!(worse.contains(&"wired/two-flows/utilization"), "{report}");
    assert!(worse.contains(&"beside-deployed/cubic/goodput_mbps-share-x"), "{report}");
    assert!(!worse.iter().any(|key| key.contains("harm") || key.contains("loss")), "{report}");
}

#[test]
fn an_aggressive_algorithm_fails_on_loss_and_harm_and_uses_the_link() {
    let report = algorithm(&AGGRESSIVE).only("wired").only("beside-deployed").seeds(1).run().unwrap();
    let worse: Vec<_> = report.with(Verdict::WorseThanEveryDeployed).map(|figure| figure.key.as_str()).collect();
    assert!(worse.contains(&"wired/two-flows/loss"), "{report}");
    assert!(worse.contains(&"beside-deployed/cubic/goodput_mbps-harm-other"), "{report}");
    assert!(!worse.iter().any(|key| key.contains("utilization") || key.contains("share")), "{report}");
}

#[test]
fn each_seed_may_fail_and_the_deployed_ones_have_their_own_figures() {
    let figures = |entry| {
        let report = algorithm(entry).only("wired").against(Deployed::Reno).seeds(2).run().unwrap();
        report.criteria[0].figures.iter().map(|figure| figure.deployed.clone()).collect::<Vec<_>>()
    };
    assert_eq!(figures(&PANICS), figures(&TIMID));
}

/// Panics where the link is deep, and is Reno elsewhere.
#[test]
fn other_scenarios_go_on() {
    static DEEP: Entry = Entry {
        make: |_, _| {
            let seen = |ack: &Ack, control: &mut Control| {
                assert!(ack.rtt.is_none_or(|rtt| rtt.as_millis_f64() < 250.0), "a deep queue");
                control.cwnd =
                    if control.cwnd < control.ssthresh { control.cwnd + ack.delivered } else { control.cwnd };
            };
            Box::new(Bad(seen))
        },
        ..BAD
    };
    let report = algorithm(&DEEP).only("wired").only("bufferbloat").against(Deployed::Cubic).seeds(1).run().unwrap();
    assert_eq!(report.verdict("bufferbloat"), Some(Verdict::DoesNotRun), "{report}");
    assert_ne!(report.verdict("wired"), Some(Verdict::DoesNotRun), "{report}");
    let text = report.to_string();
    assert_eq!(text.matches("bufferbloat-one-flow (").count(), 1, "said once for two figures: {text}");
}

#[test]
#[should_panic(
    expected = "wired-two-flows (two flows on 50 Mbit/s, a buffer of 2 BDP) does not run: Its flows delivered"
)]
fn what_does_not_run_fails_the_assertion() {
    evaluated(quinn(|| Arc::new(Config(|_| 1)))).assert_no_worse();
}

#[test]
fn bad_input_is_rejected_by_name() {
    let cubic = || algorithm(knee_cc::find("cubic").unwrap());
    let unknown = cubic().only("bufferblaot").run().unwrap_err();
    assert!(matches!(&unknown, Error::UnknownCriterion { name, .. } if name == "bufferblaot"));
    assert!(unknown.to_string().contains("there are bufferbloat, wired,"), "{unknown}");
    assert_eq!(cubic().seeds(0).run().unwrap_err(), Error::NoSeeds);
    assert_eq!(cubic().against([]).run().unwrap_err(), Error::NothingAgainst);
    let nothing = cubic().only("short-flows").run().unwrap_err().to_string();
    assert!(nothing.contains("`short-flows`: short-flows-alone has the figure transfer_p50_ms"), "{nothing}");
}
