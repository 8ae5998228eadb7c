//! Runs a specification in JSON from a file and prints what came out, without Python:
//! `cargo run --release -p knee-sim --example run -- spec.json [samples.csv]`, on as many threads as the environment
//! variable `THREADS` says. Without a second file, the time series is spooled to one that is thrown away, as `knee`
//! does it with the folder of a run.

use knee_sim::{Simulation, Spec};
use mimalloc::MiMalloc;
use std::error::Error;
use std::io::Write;

/// As in the core that Python loads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A file without a name.
fn tempfile() -> std::io::Result<std::fs::File> {
    let path = std::env::temp_dir().join(format!("knee-run-{}", std::process::id()));
    let file = std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("the specification's file is missing")?;
    let spec: Spec = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let mut simulation = Simulation::new(&spec)?;
    drop(spec);
    simulation.threads(std::env::var("THREADS").map_or(Ok(1), |threads| threads.parse())?);
    let csv = args.next();
    if csv.is_none() {
        simulation.spool(tempfile()?);
    }
    let (output, rows) = simulation.run()?;
    if let Some(path) = csv {
        let mut csv = std::io::BufWriter::new(std::fs::File::create(path)?);
        writeln!(csv, "t_s,flow,goodput_mbps,rtt_mean_ms,srtt_ms,cwnd,in_flight,state,retransmitted")?;
        for r in &rows.samples {
            writeln!(
                csv,
                "{:.4},{},{:.3},{:.3},{:.3},{},{},{},{}",
                r.t_s,
                r.flow,
                r.goodput_mbps,
                r.rtt_mean_ms,
                r.srtt_ms,
                r.cwnd_packets,
                r.in_flight_packets,
                r.state & 0xffff,
                r.retransmitted_packets
            )?;
        }
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&output)?)?;
    Ok(())
}
