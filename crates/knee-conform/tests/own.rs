//! knee's own algorithms, and the vectors themselves.

use knee_cc::find;
use knee_conform::{Noted, Own, SUITES, Suite, conform, details, play_watched, read, reasons};
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

/// Plays a file's vectors and prints what is shown: `KNEE_VECTORS=file [KNEE_VECTOR=id [KNEE_EVERY_MS=10]]`.
#[test]
#[ignore = "a tool for those who write vectors: it needs a file of them"]
fn a_file_of_vectors() {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let (file, only) = (var("KNEE_VECTORS"), var("KNEE_VECTOR"));
    let every: f64 = var("KNEE_EVERY_MS").parse().unwrap_or(100.0);
    for vector in read(&file, &std::fs::read_to_string(&file).unwrap()).unwrap() {
        if !only.is_empty() && vector.id != only {
            continue;
        }
        let mut last = (0, -1.0);
        let mut watch = |step: usize, noted: &Noted| {
            let now = (step, (noted[&knee_conform::Key::Time] / every).floor());
            if !only.is_empty() && now != last {
                let values: Vec<_> = noted.iter().map(|(key, value)| format!("{key} {value:.2}")).collect();
                println!("  {step}: {}", values.join("  "));
                last = now;
            }
        };
        let implementation = own(Suite::find(vector.algorithm()).unwrap());
        let verdict = play_watched(&vector, &implementation, Some(&mut watch));
        println!("{:<12} {} {}", verdict.name(), vector.id, details(&verdict));
    }
}
