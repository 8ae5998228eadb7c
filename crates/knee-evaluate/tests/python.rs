//! The figures of `knee evaluate`, recorded, and this crate's: the same scenarios and seeds give the same.

use knee_evaluate::{Deployed, Evaluation, Report, algorithm, quinn, quinn_proto::congestion::CubicConfig};
use serde_json::Value;
use std::sync::Arc;

/// Recorded output of `.venv/bin/knee evaluate cubic --quick --seeds 1 --json`, by figure.
const CUBIC: &str = include_str!("data/cubic.json");
/// Recorded output for `quinn:cubic` with `--only wired --only self-fairness --only beside-deployed`.
const QUINN_CUBIC: &str = include_str!("data/quinn-cubic.json");

/// Means of many intervals are summed in another order in Python.
const ROUNDING: f64 = 1e-9;

fn assert_equal(what: &str, ours: &[Option<f64>], recorded: &Value) {
    let recorded: Vec<Option<f64>> = recorded.as_array().unwrap().iter().map(Value::as_f64).collect();
    assert_eq!(ours.len(), recorded.len(), "{what}");
    for (ours, recorded) in ours.iter().zip(recorded) {
        let near = ours.zip(recorded).is_some_and(|(a, b)| (a - b).abs() <= ROUNDING * b.abs());
        assert!(near || *ours == recorded, "{what}: {ours:?} here, {recorded:?} in Python");
    }
}

/// Every figure of the report is the recorded one, and each recorded one is in the report or named as left out.
fn assert_as_in_python(report: &Report, recorded: &str, verdicts: bool) -> usize {
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let mut compared = 0;
    for (key, python) in recorded["figures"].as_object().unwrap() {
        let Some(ours) = report.criteria.iter().flat_map(|found| &found.figures).find(|ours| ours.key == *key) else {
            let scenario = python["scenario"].as_str().unwrap();
            assert!(report.left_out.iter().any(|left| left.scenario == scenario), "{key} is missing without a word");
            continue;
        };
        assert_equal(key, &ours.values, &python["values"]);
        for (who, values) in &ours.deployed {
            assert_equal(&format!("{key} of {who}"), values, &python["deployed"][who.name()]);
        }
        if verdicts {
            assert_eq!(ours.verdict.text(), python["verdict"].as_str().unwrap(), "{key}");
            assert_equal(
                &format!("threshold of {key}"),
                &[ours.threshold],
                &Value::from(vec![python["threshold"].clone()]),
            );
        }
        compared += 1;
    }
    let figures = report.criteria.iter().map(|found| found.figures.len()).sum::<usize>();
    assert_eq!(compared, figures, "a figure that Python does not have");
    compared
}

fn run(evaluation: &Evaluation) -> Report {
    evaluation.clone().seeds(1).run().unwrap()
}

#[test]
fn figures_of_an_algorithm_are_those_of_knee_evaluate() {
    let report = run(&algorithm(knee_evaluate::knee_cc::find("cubic").unwrap()).against(Deployed::Reno));
    assert_eq!(assert_as_in_python(&report, CUBIC, false), 58);
}

#[test]
#[ignore = "long: make test-system"]
fn figures_and_verdicts_of_a_quinn_controller_are_those_of_knee_evaluate() {
    let cubic = quinn(|| Arc::new(CubicConfig::default()));
    let report = run(&cubic.only("wired").only("self-fairness").only("beside-deployed"));
    assert_eq!(assert_as_in_python(&report, QUINN_CUBIC, true), 18);
}
