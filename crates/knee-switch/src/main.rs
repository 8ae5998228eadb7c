//! The program: reads its configuration from standard input (a line of JSON, then a line with the start on the
//! monotonic clock in ns), carries packets, and writes what came out to standard output (a line when the devices are
//! open; at the end a line of JSON and the rows). Exit code 1 and one line on standard error where something is wrong.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use knee_capture::Capture;
use knee_core::Time;
use knee_switch::clock::Clock;
use knee_switch::config::Config;
use knee_switch::device::Device;
use knee_switch::endpoints::{Effort, Endpoints, Sockets};
use knee_switch::ferry::Ferry;
use knee_switch::late::Late;
use knee_switch::network::SwitchNetwork;
use knee_switch::report::Outcome;
use knee_switch::{clock, privileges};
use std::error::Error;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, spawn};

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
    let line = || io::stdin().lines().next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let config: Config = serde_json::from_str(&line()?)?;
    // The caller has made it: this process is still root's, and would make it wherever a link leads.
    let file = config.capture.as_ref().map(|file| OpenOptions::new().write(true).open(file)).transpose()?;
    let live = config.live.as_ref().map(|file| OpenOptions::new().write(true).open(file)).transpose()?;
    privileges::open_many_files();
    let idle = IdleThread::start(config.user);
    let priority = privileges::be_prompt();
    // A side's namespace is entered with its device.
    let here = (Device::open(&config.sides[0])?, Sockets::open(&config, 0)?);
    let there = (Device::open(&config.sides[1])?, Sockets::open(&config, 1)?);
    let (endpoints, accounts) = Endpoints::new(&config, [here.1, there.1])?;
    let mut sides = [here.0, there.0];
    privileges::drop_all(config.user)?;
    privileges::end_with(config.parent)?;
    println!("ready");

    let from_start = Clock::new(line()?.trim().parse()?);
    let end = Time::from_nanos(config.spec.duration);
    let endpoints = idle.go(endpoints, from_start, end);
    let labels: Vec<String> = config.spec.flows.iter().map(|flow| flow.label.clone()).collect();
    let capture = file.map(|file| Capture::new(file, &labels, from_start.start_of_day())).transpose()?;
    let mut network = SwitchNetwork::new(&config.spec, config.port, capture)?;
    network.watch(accounts);
    network.carry_program(config.program);
    // A line on standard input asks for an early end.
    let asked = Arc::new(AtomicBool::new(false));
    let hear = asked.clone();
    spawn(move || {
        if io::stdin().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0) {
            hear.store(true, Relaxed);
        }
    });
    let mut late = Late::default();
    let mut ferry = Ferry { clock: from_start, end, forced_sleeps: priority == "fifo", asked: &asked, live };
    let (refused, end) = ferry.run(&mut network, &mut sides, &mut late)?;
    network.end_capture()?;
    let processor_s = clock::processor().as_secs_f64();
    let outcome = Outcome { late: late.figures(), refused, processor_s, priority };
    // The endpoints of QUIC flows end at the time of the scenario, and with this process.
    let effort = if end < Time::from_nanos(config.spec.duration) { None } else { endpoints.wait() };
    let (output, rows) = network.finish(end, outcome, effort);
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &output)?;
    out.write_all(b"\n")?;
    out.write_all(&rows)?;
    Ok(out.flush()?)
}

/// The thread of the endpoints, without privileges, before it has any.
struct IdleThread {
    thread: JoinHandle<Option<Effort>>,
    give: Sender<(Endpoints, Clock, Time)>,
}

/// The thread of the endpoints at work.
struct RunningThread(JoinHandle<Option<Effort>>);

impl IdleThread {
    fn start(user: u32) -> Self {
        let (give, take) = channel::<(Endpoints, Clock, Time)>();
        let work = move || {
            let priority = privileges::be_prompt();
            let dropped = privileges::drop_all(user).map_err(|error| error.to_string());
            let (endpoints, clock, end) = take.recv().ok()?;
            let done = dropped.and_then(|()| {
                let done = catch_unwind(AssertUnwindSafe(|| endpoints.run(clock, end, priority)));
                done.unwrap_or_else(|_| Err("a programming error, reported above".into()))
            });
            Some(done.unwrap_or_else(|error| fail(&error)))
        };
        Self { thread: spawn(work), give }
    }

    /// Lets the endpoints run; without any the thread ends.
    fn go(self, endpoints: Option<Endpoints>, clock: Clock, end: Time) -> RunningThread {
        if let Some(endpoints) = endpoints {
            // The thread ends only after it has got them.
            let _ = self.give.send((endpoints, clock, end));
        }
        RunningThread(self.thread)
    }
}

impl RunningThread {
    /// Waits for the end of the endpoints.
    fn wait(self) -> Option<Effort> {
        self.0.join().ok().flatten()
    }
}

/// Ends the process: without its endpoints a run has no result, and nobody waits for them before its end.
fn fail(error: &str) -> ! {
    eprintln!("knee-switch: the QUIC endpoints failed: {error}");
    std::process::exit(1)
}
