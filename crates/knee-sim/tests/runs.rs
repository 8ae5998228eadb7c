//! Whole runs of a specification and all that they give, for the tests of several files.

use crate::laws;
use knee_sim::{Output, Rows, Simulation, Spec};
use knee_traffic::{Completion, What};
use serde_json::Value;

pub fn read(spec: &Value) -> Spec {
    serde_json::from_value(spec.clone()).unwrap()
}

pub fn simulation(spec: &Value) -> Simulation {
    Simulation::new(&read(spec)).unwrap()
}

/// Runs a simulation, whose figures obey the laws.
pub fn run(spec: &Value) -> (Output, Rows) {
    let (output, rows) = simulation(spec).run().unwrap();
    laws::check(spec, &output, &rows).unwrap();
    (output, rows)
}

/// All that a run gives, in text and raw memory.
pub fn bits((output, rows): (Output, Rows)) -> (String, Vec<u8>) {
    let Rows { samples, links, events, completions, delays, distributions, .. } = &rows;
    let tables: [&[u8]; 6] = [
        bytemuck::cast_slice(samples),
        bytemuck::cast_slice(links),
        bytemuck::cast_slice(events),
        bytemuck::cast_slice(completions),
        bytemuck::cast_slice(delays),
        bytemuck::cast_slice(distributions),
    ];
    (serde_json::to_string(&output).unwrap(), tables.concat())
}

/// Completions of an application, of one kind.
pub fn completed(rows: &Rows, what: What) -> Vec<Completion> {
    rows.completions.iter().filter(|c| c.what == what as u32).copied().collect()
}
