//! Plays a vector's script with an implementation, and judges.

use crate::path::{Connection, Stop};
use crate::subject::{Implementation, MSS, Start};
use crate::value::{Key, Noted, Values};
use crate::vector::{Step, Vector};
use knee_core::Time;
use serde::Serialize;
use std::collections::BTreeMap;

/// Initial window of every connection, packets: RFC 9002, 7.2.
pub const INITIAL_CWND: u64 = 10;
/// More events than any vector has: something never ends.
const MOST_EVENTS: u64 = 3_000_000;

/// A value that is not as expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Off {
    /// Number of the step, from 1.
    pub step: usize,
    /// The key.
    pub key: &'static str,
    /// The expected value, in words.
    pub expected: String,
    /// The value found.
    pub found: f64,
    /// Time since the start, s.
    pub at_s: f64,
    /// The seed, where the vector has several.
    pub seed: u64,
}

/// A vector's verdict on an implementation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// All holds.
    Pass,
    /// Something does not.
    Fail(Off),
    /// The script did not come to the step that judges.
    NotReached(Off),
    /// The implementation does not show the value that is judged.
    NotShown {
        /// The key of that value.
        key: &'static str,
    },
    /// The implementation's interface has no such event.
    NotTold {
        /// The event's name.
        event: &'static str,
    },
    /// The implementation failed.
    Broke {
        /// A sentence.
        what: String,
    },
    /// It fails, and a reason is on record.
    Departs {
        /// The reason.
        why: String,
        /// The deviation, in words.
        off: Off,
    },
    /// A vector that has to pass before this one does not.
    After {
        /// The name of that vector.
        vector_before: String,
    },
}

impl Verdict {
    /// The verdict's words in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pass => "passes",
            Self::Fail(_) => "FAILS",
            Self::NotReached(_) => "not reached",
            Self::NotShown { .. } => "not shown",
            Self::NotTold { .. } => "not told",
            Self::Broke { .. } => "BROKE",
            Self::Departs { .. } => "departs",
            Self::After { .. } => "not judged",
        }
    }
}

enum Found {
    Holds,
    Off(Off),
    NotShown(Key),
}

enum Ended {
    Verdict(Verdict),
    Stop(Stop),
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// A value of each key at a moment.
pub type Watch<'a> = &'a mut dyn FnMut(usize, &Noted);

struct Play<'a> {
    connection: Connection,
    watch: Option<Watch<'a>>,
    notes: BTreeMap<String, Noted>,
    seed: u64,
    step: usize,
    events: u64,
    /// When the connection began.
    zero: Time,
}

impl Play<'_> {
    fn value(&self, key: Key) -> Option<f64> {
        let shown = self.connection.shown();
        let packets = |bytes: f64| bytes / MSS as f64;
        let share = |rate: f64| rate / self.connection.rate();
        match key {
            Key::Cwnd => Some(packets(shown.cwnd)),
            Key::Ssthresh => shown.ssthresh.map(packets),
            Key::Pacing => shown.pacing.map(share),
            Key::MaxBw => shown.max_bw.map(share),
            Key::MinRtt => shown.min_rtt.map(|seconds| seconds * 1e3),
            Key::InflightLongterm => shown.inflight_longterm.map(packets),
            Key::InFlight => Some(self.connection.in_flight() as f64),
            Key::Rtt => Some(self.connection.rtt().as_millis_f64()),
            Key::Round => Some(self.connection.round() as f64),
            Key::Time => Some(self.connection.now.saturating_sub(self.zero).as_millis_f64()),
            Key::Sent => Some(self.connection.sent() as f64),
        }
    }

    /// The values shown now.
    fn noted(&self) -> Noted {
        Key::ALL.into_iter().filter_map(|key| Some((key, self.value(key)?))).collect()
    }

    fn check(&self, values: &Values) -> Found {
        for (key, expected) in values.iter() {
            let Some(found) = self.value(*key) else { return Found::NotShown(*key) };
            if !expected.holds(*key, found, &self.notes) {
                let at_s = self.connection.now.saturating_sub(self.zero).as_secs_f64();
                let expected = expected.with(*key, &self.notes);
                return Found::Off(Off { step: self.step, key: key.name(), expected, found, at_s, seed: self.seed });
            }
        }
        Found::Holds
    }

    fn demand(&self, values: &Values, otherwise: fn(Off) -> Verdict) -> Result<(), Ended> {
        match self.check(values) {
            Found::Holds => Ok(()),
            Found::Off(off) => Err(Ended::Verdict(otherwise(off))),
            Found::NotShown(key) => Err(Ended::Verdict(Verdict::NotShown { key: key.name() })),
        }
    }

    /// Lets one event happen until `until`.
    fn event(&mut self, until: Time, step: &Step) -> Result<bool, Ended> {
        self.events += 1;
        if self.events > MOST_EVENTS {
            let what = format!("step {} does not end: {MOST_EVENTS} events", self.step);
            return Err(Ended::Stop(Stop::Broke(what)));
        }
        let came = self.connection.step(until)?;
        if came {
            if self.watch.is_some() {
                let noted = self.noted();
                self.watch.as_mut().into_iter().for_each(|watch| watch(self.step, &noted));
            }
            self.demand(&step.hold, Verdict::Fail)?;
        }
        Ok(came)
    }

    fn drive(&mut self, step: &Step) -> Result<(), Ended> {
        if let Some(span) = step.run {
            let until = self.connection.now + span.0;
            while self.event(until, step)? {}
        }
        for _ in 0..step.rounds {
            self.connection.fill()?;
            let mark = self.connection.round_mark();
            // A round that does not end in a minute never does.
            let until = self.connection.now + Time::from_secs(60);
            while !self.connection.is_past(mark) {
                if !self.event(until, step)? {
                    let what = format!("step {}: a round does not end in 60 s", self.step);
                    return Err(Ended::Stop(Stop::Broke(what)));
                }
            }
            self.connection.fill()?;
        }
        if let Some(within) = step.within {
            let (values, otherwise): (&Values, fn(Off) -> Verdict) =
                if step.until.is_empty() { (&step.reach, Verdict::Fail) } else { (&step.until, Verdict::NotReached) };
            let until = self.connection.now + within.0;
            loop {
                match self.check(values) {
                    Found::Holds => break,
                    Found::NotShown(key) => return Err(Ended::Verdict(Verdict::NotShown { key: key.name() })),
                    Found::Off(off) => {
                        if !self.event(until, step)? {
                            return Err(Ended::Verdict(otherwise(off)));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn play(&mut self, vector: &Vector) -> Result<(), Ended> {
        for (i, step) in vector.steps.iter().enumerate() {
            self.step = i + 1;
            self.connection.disturb(step)?;
            self.drive(step)?;
            self.demand(&step.setup, Verdict::NotReached)?;
            self.demand(&step.expect, Verdict::Fail)?;
            if let Some(name) = &step.note {
                let noted = self.noted();
                self.notes.insert(name.clone(), noted);
            }
        }
        Ok(())
    }
}

/// Plays a vector once with each of its seeds: the first verdict that is not "passes".
pub fn play(vector: &Vector, implementation: &dyn Implementation) -> Verdict {
    play_watched(vector, implementation, None)
}

/// Plays as [`play`] does; `watch` sees the number of the step and the values shown after each event.
pub fn play_watched(vector: &Vector, implementation: &dyn Implementation, mut watch: Option<Watch<'_>>) -> Verdict {
    for seed in 1..=vector.seeds {
        let start = Start { seed, initial_cwnd: INITIAL_CWND, rtt: vector.path.rtt.0 };
        let subject = match implementation.connect(&start) {
            Ok(subject) => subject,
            Err(what) => return Verdict::Broke { what },
        };
        let connection = Connection::new(subject, vector.path, &start);
        let zero = connection.now;
        // Each connection borrows the watcher anew.
        let watch: Option<Watch<'_>> = match &mut watch {
            Some(watch) => Some(&mut **watch),
            None => None,
        };
        let mut play = Play { connection, watch, notes: BTreeMap::new(), seed, step: 0, events: 0, zero };
        match play.play(vector) {
            Ok(()) => {}
            Err(Ended::Verdict(verdict)) => return verdict,
            Err(Ended::Stop(Stop::NotTold(event))) => return Verdict::NotTold { event },
            Err(Ended::Stop(Stop::Broke(what))) => {
                return Verdict::Broke { what: format!("step {}: {what}", play.step) };
            }
        }
    }
    Verdict::Pass
}
