//! knee's own algorithms, and the vectors themselves.

use knee_cc::find;
use knee_conform::{Own, SUITES, Suite, conform, read, reasons};
use knee_core::{Params, Value};

/// knee's algorithm of a suite.
pub fn own(suite: &Suite) -> Own {
    let entry = find(suite.own).unwrap();
    let params = suite.param.map(|(name, value)| (name, Value::Choice(value)));
    Own::new(entry, Params::resolve(entry.params, params).unwrap())
}

#[test]
fn knees_own_algorithms_conform() {
    for (suite, departs) in SUITES.iter().zip([0, 1, 0, 0, 0, 0]) {
        let report = conform(suite.name, &own(suite)).unwrap();
        report.assert_conforms();
        // Nothing is left out either: all are reached, shown and judged.
        let judged = report.count("passes") + report.count("departs");
        assert_eq!((judged, report.count("departs")), (report.vectors.len(), departs), "{report}");
    }
}

#[test]
fn every_suite_has_the_vectors_that_the_page_counts() {
    let counts = SUITES.each_ref().map(|suite| (suite.name, suite.vectors().unwrap().len()));
    let expected = [("bbr", 46), ("cubic", 16), ("newreno", 10), ("hystart++", 8), ("lola", 13), ("daimd", 12)];
    assert_eq!(counts, expected);
}

#[test]
fn reasons_are_about_vectors_that_exist() {
    for (_, vector) in reasons().keys() {
        let suite = Suite::find(vector.split('/').next().unwrap()).unwrap();
        assert!(suite.vectors().unwrap().iter().any(|one| one.id == *vector), "{vector}");
    }
}

#[test]
fn files_with_unknown_events_or_contradictions_are_refused_with_line_or_step() {
    let file = |steps: &str| {
        let head = "id = 'a/b'\ntext = 't'\nat = '1'\nlevel = 'MUST'\nrule = 'r'\ncost = 'c'\nwork = 'w'\n";
        read("mine.toml", &format!("[[vector]]\n{head}steps = [\n{steps}\n]\n")).unwrap_err().to_string()
    };
    let cases = [
        ("{ loose = 1 }", "mine.toml, line 10: unknown field `loose`, expected one of `lose`"),
        ("{ rounds = 1, expect = { cwdn = 1 } }", "nothing is called \"cwdn\"; expected one of cwnd"),
        ("{ rounds = 1, run = '1 s' }", "a/b, step 1: a step has one of run, rounds, until and reach"),
        ("{ rounds = 1, expect = { cwnd = '0.7 w' } }", "step 1: no step before has the note \"w\""),
        ("{ until = { cwnd = 1 } }", "step 1: until and reach have a time `within`"),
        ("{ run = '3 parsec' }", "\"3 parsec\" is no time; write one as \"200 ms\""),
        ("{ rounds = 1 }", "a/b: no step judges; give one expect, hold or reach"),
    ];
    for (steps, said) in cases {
        let error = file(steps);
        assert!(error.contains(said), "{error}");
    }
}
