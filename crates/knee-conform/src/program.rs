//! An implementation that is a program in any language: a line of JSON for each event, and one back.
//!
//! `docs/conformance.md` has the protocol, version 1. A process serves one connection and is killed afterwards with its
//! whole group, whatever it does.

use crate::subject::{Acked, Event, Implementation, MSS, Packet, Shown, Start, Subject};
use knee_core::Time;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Version of the protocol.
const VERSION: u64 = 1;
/// The longest wait for an answer to an event.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest wait for the first answer, which includes the program's start.
const START: Duration = Duration::from_secs(10);
/// The longest line that is read, bytes.
const LONGEST: u64 = 1 << 16;
/// How much of an answer an error quotes, characters.
const QUOTED: usize = 120;
/// Events that every program takes.
const TAKEN: [&str; 3] = ["sent", "acked", "lost"];

/// A program and its arguments.
pub struct Program {
    command: Vec<String>,
    algorithm: String,
}

impl Program {
    /// A program that implements `algorithm`.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>, algorithm: &str) -> Self {
        Self { command: command.into_iter().map(Into::into).collect(), algorithm: algorithm.into() }
    }
}

impl Implementation for Program {
    fn name(&self) -> String {
        self.command.join(" ")
    }

    fn connect(&self, start: &Start) -> Result<Box<dyn Subject>, String> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err("no program is named; give one after --".into());
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| format!("{program} does not start: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{program} has no pipes"));
        };
        let (sender, lines) = sync_channel(16);
        // It ends with the program, whose group is killed.
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                match output.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
                    Ok(1..) if sender.send(line).is_ok() => {}
                    _ => break,
                }
            }
        });
        let mut running =
            Running { child, input, lines, shown: Shown::default(), shows: Vec::new(), takes: Vec::new() };
        running.greet(&self.algorithm, start)?;
        Ok(Box::new(running))
    }
}

struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Vec<u8>>,
    shown: Shown,
    shows: Vec<String>,
    takes: Vec<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its process group has the number of the process, which is still there until it is waited for.
        #[cfg(unix)]
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), nix::sys::signal::Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn quoted(text: &str) -> String {
    let text = text.trim_end();
    if text.chars().count() > QUOTED {
        format!("{}...", text.chars().take(QUOTED).collect::<String>())
    } else {
        text.into()
    }
}

fn words(value: Option<&Value>) -> Option<Vec<String>> {
    value?.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// A size, rate or time of an answer.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|x| x.is_finite() && *x >= 0.0)
}

impl Running {
    fn greet(&mut self, algorithm: &str, start: &Start) -> Result<(), String> {
        let Start { seed, initial_cwnd, rtt } = *start;
        let hello = json!({
            "hello": "knee-conform", "version": VERSION, "algorithm": algorithm, "mss": MSS,
            "initial_cwnd": initial_cwnd * MSS, "rtt": rtt.as_nanos(), "seed": seed,
        });
        let answer = self.ask("hello", &hello, START)?;
        self.shows = words(answer.get("shows")).unwrap_or_default();
        self.takes = words(answer.get("takes")).unwrap_or_else(|| TAKEN.map(str::to_owned).to_vec());
        self.note("hello", &answer)
    }

    /// Writes a line and reads the answer.
    fn ask(&mut self, event: &str, line: &Value, patience: Duration) -> Result<Map<String, Value>, String> {
        if let Ok(early) = self.lines.try_recv() {
            let early = quoted(&String::from_utf8_lossy(&early));
            return Err(format!(
                "the program wrote a line that nothing asked for, before \"{event}\": {early}; write \
                                one for each line that is read"
            ));
        }
        let mut text = line.to_string();
        text.push('\n');
        if let Err(error) = self.input.write_all(text.as_bytes()).and_then(|()| self.input.flush()) {
            return Err(format!("the program reads no more at \"{event}\" ({error}){}", self.fate()));
        }
        let answer = match self.lines.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!(
                    "no answer to \"{event}\" in {} s; write a line for each, and flush it: {}",
                    patience.as_secs(),
                    quoted(&text)
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("the program wrote nothing more at \"{event}\"{}: {}", self.fate(), quoted(&text)));
            }
        };
        let answer = String::from_utf8_lossy(&answer);
        match serde_json::from_str(&answer) {
            Ok(Value::Object(answer)) => Ok(answer),
            _ => Err(format!(
                "the answer to \"{event}\" is no JSON object on one line: {}; expected one as {{\"cwnd\":12000}}",
                quoted(&answer)
            )),
        }
    }

    /// How the program ended, as an addition to a sentence.
    fn fate(&mut self) -> String {
        // Its output closes a little before it can be waited for.
        for _ in 0..20 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return format!(", and ended with {status}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        String::new()
    }

    fn note(&mut self, event: &str, answer: &Map<String, Value>) -> Result<(), String> {
        let wrong = |key: &str, found: Option<&Value>| {
            let found = found.map_or_else(|| "missing".into(), ToString::to_string);
            format!("{key} is {found} in the answer to \"{event}\"; expected a number, not negative")
        };
        let Some(cwnd) = answer.get("cwnd").and_then(number) else { return Err(wrong("cwnd", answer.get("cwnd"))) };
        self.shown.cwnd = cwnd;
        let take = |key: &'static str, null: Option<f64>, before: Option<f64>| -> Result<Option<f64>, String> {
            if !self.shows.iter().any(|shown| shown == key) {
                return Ok(None);
            }
            match answer.get(key) {
                None => Ok(before.or(null)),
                Some(Value::Null) => Ok(null),
                Some(value) => number(value).map(Some).ok_or_else(|| wrong(key, Some(value))),
            }
        };
        self.shown.ssthresh = take("ssthresh", Some(f64::INFINITY), self.shown.ssthresh)?;
        self.shown.pacing = take("pacing_rate", None, self.shown.pacing)?;
        self.shown.max_bw = take("max_bw", Some(0.0), self.shown.max_bw)?;
        let before = self.shown.min_rtt.map(|seconds| seconds * 1e9);
        self.shown.min_rtt = take("min_rtt", None, before)?.map(|ns| ns / 1e9);
        self.shown.inflight_longterm = take("inflight_longterm", Some(f64::INFINITY), self.shown.inflight_longterm)?;
        Ok(())
    }
}

fn packets(packets: &[Packet]) -> Value {
    packets.iter().map(|packet| json!([packet.number, packet.sent.as_nanos(), MSS])).collect()
}

fn acked(acked: &Acked) -> Value {
    let Acked { rate, .. } = acked;
    json!({
        "acked": packets(&acked.packets),
        "in_flight": acked.in_flight * MSS,
        "app_limited": acked.app_limited,
        "cwnd_limited": acked.cwnd_limited,
        "rtt": acked.rtt.as_nanos(),
        "srtt": acked.srtt.as_nanos(),
        "min_rtt": acked.min_rtt.as_nanos(),
        "rate": {
            "delivered": rate.delivered * MSS,
            "interval": rate.interval.map(Time::as_nanos),
            "app_limited": rate.app_limited,
            "prior_delivered": rate.prior_delivered * MSS,
            "prior_lost": rate.prior_lost * MSS,
            "tx_in_flight": rate.tx_in_flight * MSS,
        },
    })
}

impl Subject for Running {
    fn take(&mut self, now: Time, event: &Event) -> Result<bool, String> {
        if !self.takes.iter().any(|taken| taken == event.name()) {
            return Ok(false);
        }
        let mut line = match event {
            Event::Sent(sent) => json!({
                "sent": [sent.first, sent.first + sent.packets - 1],
                "bytes": sent.packets * MSS,
                "in_flight": sent.in_flight * MSS,
                "app_limited": sent.app_limited,
            }),
            Event::Acked(it) => acked(it),
            Event::Lost(lost) => json!({
                "lost": packets(&lost.packets),
                "in_flight": lost.in_flight * MSS,
                "persistent": lost.persistent,
            }),
            Event::Marked(marked) => json!({ "ecn": packets(marked) }),
            Event::Spurious => json!({ "spurious": true }),
        };
        line["t"] = now.as_nanos().into();
        let answer = self.ask(event.name(), &line, PATIENCE)?;
        self.note(event.name(), &answer)?;
        Ok(true)
    }

    fn shown(&mut self) -> Shown {
        self.shown
    }
}
