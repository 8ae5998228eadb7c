//! The program: reads what it is told from standard input (a line of JSON, then a line with the start on the monotonic
//! clock in ns), carries packets, and writes what came out to standard output (a line when the devices are open; at the
//! end a line of JSON and the rows). Exit code 1 and one line on standard error where something is wrong.

use knee_capture::Capture;
use knee_core::Time;
use knee_switch::clock::Clock;
use knee_switch::config::Config;
use knee_switch::device::Device;
use knee_switch::late::Late;
use knee_switch::network::Network;
use knee_switch::report::Outcome;
use knee_switch::{clock, ferry, privileges};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("knee-switch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut lines = io::stdin().lock().lines();
    let mut line = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let config: Config = serde_json::from_str(&line()?)?;
    let file = config.capture.as_ref().map(File::create).transpose()?;
    let priority = privileges::be_prompt();
    let sides = [Device::open(&config.sides[0])?, Device::open(&config.sides[1])?];
    privileges::drop_all(config.user)?;
    privileges::end_with(config.parent)?;
    println!("ready");

    let from_start = Clock::new(line()?.trim().parse()?);
    let labels: Vec<String> = config.spec.flows.iter().map(|flow| flow.label.clone()).collect();
    let capture = file.map(|file| Capture::new(file, &labels, from_start.start_of_day())).transpose()?;
    let mut network = Network::new(&config.spec, config.port, capture)?;
    let mut late = Late::default();
    let end = Time::from_nanos(config.spec.duration);
    let refused = ferry::run(&mut network, &sides, from_start, end, &mut late, priority == "fifo")?;
    network.end_capture()?;
    let processor_s = clock::processor().as_secs_f64();
    let outcome = Outcome { late: late.figures(), refused, processor_s, priority };
    let (told, rows) = network.finish(end, outcome);
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &told)?;
    out.write_all(b"\n")?;
    out.write_all(&rows)?;
    Ok(out.flush()?)
}
