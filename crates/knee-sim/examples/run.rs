//! Runs a specification in JSON from a file and prints what came out, without Python:
//! `cargo run --release -p knee-sim --example run -- spec.json [samples.csv]`.

use knee_sim::{Simulation, Spec};
use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("the specification's file is missing")?;
    let spec: Spec = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let (output, rows) = Simulation::new(&spec)?.run()?;
    if let Some(path) = args.next() {
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
    println!("{}", serde_json::to_string_pretty(&output)?);
    Ok(())
}
