//! knee's own algorithms.

use knee_cc::find;
use knee_conform::{Own, SUITES, Suite, conform};
use knee_core::{Params, Value};

fn own(suite: &Suite) -> Own {
    let entry = find(suite.own).unwrap();
    let params = suite.param.map(|(name, value)| (name, Value::Choice(value)));
    Own::new(entry, Params::resolve(entry.params, params).unwrap()).named(&format!("knee:{}", suite.name))
}

#[test]
fn knees_own_algorithms_conform() {
    for suite in &SUITES {
        let report = conform(suite.name, &own(suite)).unwrap();
        println!("{report}");
    }
}
