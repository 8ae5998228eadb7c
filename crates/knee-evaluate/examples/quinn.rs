//! Prints the reports of quinn's controllers by all criteria, of which docs/evaluate-rust.md has the verdicts: it takes
//! minutes. With the name of a file, draws its picture instead.

use knee_evaluate::quinn;
use knee_evaluate::quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let new_reno = quinn(|| Arc::new(NewRenoConfig::default()));
    if let Some(path) = std::env::args_os().nth(1) {
        let evaluation = new_reno.named("quinn's NewReno").only("wired").only("aqm").only("beside-deployed").seeds(1);
        std::fs::write(path, evaluation.run()?.svg())?;
        return Ok(());
    }
    for evaluation in [quinn(|| Arc::new(CubicConfig::default())), new_reno, quinn(|| Arc::new(BbrConfig::default()))] {
        println!("{}\n", evaluation.run()?);
    }
    Ok(())
}
