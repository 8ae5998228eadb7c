//! For those who write vectors: plays those of a file with knee's algorithms.
//!
//! `cargo run -p knee-conform --example vectors -- FILE [ID]`; with the id of a vector it prints what is shown after
//! each event.

use knee_cc::find;
use knee_conform::{Noted, Own, Suite, details, play_watched, read};
use knee_core::{Params, Value};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let file = words.next().ok_or("give a file of vectors")?;
    let only = words.next();
    for vector in read(&file, &std::fs::read_to_string(&file)?)? {
        if only.as_ref().is_some_and(|id| *id != vector.id) {
            continue;
        }
        let mut watch = |step: usize, noted: &Noted| {
            if only.is_some() {
                let values: Vec<_> = noted.iter().map(|(key, value)| format!("{key} {value:.2}")).collect();
                println!("  {step}: {}", values.join("  "));
            }
        };
        let suite = Suite::find(vector.algorithm())?;
        let entry = find(suite.own).ok_or("the registry lacks the algorithm")?;
        let params = suite.param.map(|(name, value)| (name, Value::Choice(value)));
        let implementation = Own::new(entry, Params::resolve(entry.params, params)?);
        let verdict = play_watched(&vector, &implementation, Some(&mut watch));
        println!("{:<12} {} {}", verdict.name(), vector.id, details(&verdict));
    }
    Ok(())
}
