//! quinn's and noq's controllers by the vectors; and a tool for those who write vectors.

use knee_conform::{Implementation, Own, Suite, Verdict, conform, details, play_watched, read};
use knee_core::{Params, Value};
use knee_quic::conform::Controllers;
use knee_stacks::noq;

/// An implementation by its name: knee's algorithm of a suite, quinn's, noq's.
fn named(name: &str, suite: &Suite) -> Box<dyn Implementation> {
    if name == "knee" {
        let entry = knee_cc::find(suite.own).unwrap();
        let params = suite.param.map(|(name, value)| (name, Value::Choice(value)));
        return Box::new(Own::new(entry, Params::resolve(entry.params, params).unwrap()));
    }
    match Controllers::named(name) {
        Some(quinn) => Box::new(quinn),
        None => Box::new(noq::conform::Controllers::named(name).unwrap()),
    }
}

/// Plays a file's vectors: `KNEE_VECTORS=file KNEE_WHO=knee,noq:bbr3 [KNEE_TRACE=id]`.
#[test]
#[ignore = "a tool: it needs a file of vectors"]
fn a_file_of_vectors() {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let (file, trace) = (var("KNEE_VECTORS"), var("KNEE_TRACE"));
    let vectors = read(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
    for who in var("KNEE_WHO").split(',') {
        let (mut passed, mut all) = (0, 0);
        for vector in vectors.iter().filter(|vector| trace.is_empty() || vector.id == trace) {
            let implementation = named(who, Suite::find(vector.algorithm()).unwrap());
            let mut before = String::new();
            let mut watch = |step: usize, noted: &knee_conform::Noted| {
                let values: Vec<_> = noted.iter().map(|(key, value)| format!("{key} {value:.3}")).collect();
                let round = format!("{step} {:?}", noted.get(&knee_conform::Key::Round));
                if !trace.is_empty() && (round != before || var("KNEE_ALL") != "") {
                    println!("  {step}: {}", values.join("  "));
                    before = round;
                }
            };
            let verdict = play_watched(vector, &*implementation, Some(&mut watch));
            (passed, all) = (passed + usize::from(verdict == Verdict::Pass), all + 1);
            println!("{who:<12} {:<12} {} {}", verdict.name(), vector.id, details(&verdict));
        }
        println!("{who}: {passed} of {all}\n");
    }
}

fn broken(suite: &str, who: &str) -> Vec<String> {
    let report = conform(suite, &*named(who, Suite::find(suite).unwrap())).unwrap();
    println!("{report}");
    report.broken().into_iter().map(|id| id.split('/').nth(1).unwrap().to_owned()).collect()
}

/// Pacing of startup by an RTT of 1 ms, a probe's feedback that does not end, and the undo of spurious losses are on a
/// public audit's list of noq 1.4.0.
#[test]
fn noqs_bbr_breaks_rules_of_the_draft() {
    let broken = broken("bbr", "noq:bbr3");
    for rule in ["initial-pacing", "max-bw-two-cycles", "spurious-cruise"] {
        assert!(broken.iter().any(|one| one == rule), "{rule} is not named: {broken:?}");
    }
    assert!(!broken.iter().any(|one| one == "drain-gain" || one == "probe-wait"), "{broken:?}");
}

#[test]
fn quinns_and_noqs_cubic_depart_from_rfc_9438() {
    let departs = ["fast-convergence-k", "alpha-one", "half-per-round", "idle-time", "persistent"];
    for who in ["quinn:cubic", "noq:cubic"] {
        assert_eq!(broken("cubic", who), departs, "{who}");
    }
}

#[test]
fn their_newreno_breaks_nothing() {
    for who in ["quinn:reno", "noq:reno"] {
        assert!(broken("newreno", who).is_empty(), "{who}");
    }
}
