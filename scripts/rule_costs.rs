//! Plays the vectors of BBR and runs the networks of the suite `bbr` with knee's BBRv3, or with the mutant of it that
//! KNEE_MUTANT names by its number; scripts/rule_costs.py makes those and calls this.

use knee_evaluate::knee_conform::{Own, conform};
use knee_evaluate::{Suite, algorithm, knee_cc, knee_core};
use serde_json::{Value, json};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let entry = knee_cc::find("bbr3").ok_or("the registry lacks bbr3")?;
    let vectors = conform("bbr", &Own::new(entry, knee_core::Params::defaults(entry.params)))?;
    // Nobody is run beside it: the figures of the original are those of mutant 0.
    let evaluation = algorithm(entry).suite(Suite::Bbr).against([]).all_scenarios();
    let report = evaluation.run()?;
    let figures: Vec<Value> = (report.criteria.iter().flat_map(|found| &found.figures))
        .map(|figure| {
            let name = figure.key.rsplit('/').next();
            json!({"key": figure.key, "scenario": figure.scenario, "figure": name, "less": figure.less,
                "values": figure.values, "reason": figure.reason})
        })
        .collect();
    println!("{}", json!({"broken": vectors.broken(), "figures": figures}));
    Ok(())
}
