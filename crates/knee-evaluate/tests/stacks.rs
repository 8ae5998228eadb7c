//! quinn's own controllers.

use knee_evaluate::quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use knee_evaluate::{Deployed, Suite, Verdict, algorithm, knee_cc, quinn};
use std::sync::Arc;

#[test]
fn quinns_reno_is_no_worse_on_a_wired_path() {
    let reno = quinn(|| Arc::new(NewRenoConfig::default()));
    let report = reno.only("wired").only("tail-drop").against(Deployed::Reno).seeds(1).run().unwrap();
    report.assert_no_worse();
    assert_eq!(report.verdict("wired"), Some(Verdict::Passes), "{report}");
}

#[test]
#[ignore = "long: make test-system"]
fn quinns_bbr_is_found_to_harm_cubic() {
    let bbr = quinn(|| Arc::new(BbrConfig::default())).named("quinn's BBR");
    let report = bbr.only("beside-deployed").against([Deployed::Cubic, Deployed::Reno]).seeds(1).run().unwrap();
    let worse: Vec<_> = report.with(Verdict::WorseThanEveryDeployed).map(|figure| figure.key.as_str()).collect();
    assert!(worse.contains(&"beside-deployed/cubic/goodput_mbps-harm-other"), "{report}");
}

/// Runs with the same seeds give the same report, on whatever thread each one went.
#[test]
#[ignore = "long: make test-system"]
fn reports_repeat() {
    let report = || {
        let cubic = quinn(|| Arc::new(CubicConfig::default()));
        cubic.only("wired").against(Deployed::Cubic).run().unwrap().to_string()
    };
    assert_eq!(report(), report());
}

/// An algorithm beside itself is never worse: of itself the best seed is no worse than the worst.
#[test]
fn a_deployed_algorithm_is_no_worse_than_itself() {
    let cubic = algorithm(knee_cc::find("cubic").unwrap());
    cubic.only("wired").only("aqm").against(Deployed::Cubic).run().unwrap().assert_no_worse();
}

/// knee's BBRv3 over TCP does what the cases of BBR's draft ask for. quinn's BBR keeps its window of two BDPs in the
/// queue, since nobody paces it at the rate that it computes.
#[test]
#[ignore = "long: make test-system"]
fn bbr_is_judged_by_the_cases_of_its_draft() {
    let report = algorithm(knee_cc::find("bbr3").unwrap()).suite(Suite::Bbr).seeds(1).run().unwrap();
    assert!(report.criteria.iter().all(|found| found.verdict() == Verdict::Passes), "{report}");
    assert!(report.to_string().contains("draft-ietf-ccwg-bbr"), "{report}");
    let bbr = quinn(|| Arc::new(BbrConfig::default())).suite(Suite::Bbr).only("probing").seeds(1);
    let report = bbr.against(Deployed::Bbr3).run().unwrap();
    assert_ne!(report.verdict("probing"), Some(Verdict::Passes), "{report}");
}
