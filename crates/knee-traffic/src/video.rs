//! Adaptive streaming over HTTP: a player asks for one segment after the other, each in a bitrate of its choice, over
//! one persistent connection.
//!
//! The player begins to play when it has a segment, and after a stall again. It asks for the next one as soon as it has
//! the last and there is room for it in the buffer. While there is none it waits: the well-known on-off pattern.
//! Segments have exactly the bytes of their bitrate; a request has [`REQUEST`] bytes.
//!
//! **Buffer-based** (BBA-0; Huang et al., "A Buffer-Based Approach to Rate Adaptation", SIGCOMM 2014, section 4 and
//! algorithm 1): below a reservoir the least bitrate; above reservoir and cushion the greatest; in between the line `f`
//! from one to the other, along which the bitrate stays as it is until `f` passes the next encoding above or below. The
//! paper's player holds 240 s, of which 90 s are reservoir and 126 s cushion; here both are in proportion to the
//! buffer. It never asks for a segment with less room than that segment, so that the cushion ends there at the latest:
//! a small buffer would otherwise never come to the greatest bitrate.
//!
//! **Rate-based**: the greatest bitrate up to the harmonic mean of the throughputs of the last five segments, as the
//! player "RB" that Yin et al. compare with ("A Control-Theoretic Approach for Dynamic Adaptive Video Streaming over
//! HTTP", SIGCOMM 2015). The harmonic mean is that of FESTIVE (Jiang et al., CoNEXT 2012), which takes 20 segments, and
//! has a gradual switch and a random schedule besides.
//!
//! On record: [`What::Segment`] (value: bitrate in bit/s), [`What::Startup`], [`What::Stall`]. A stall that
//! lasts when the flow stops ends there.

use std::collections::VecDeque;

use knee_core::{Bytes, Conflict, Rate, Time, choice, params};

use crate::check::MAX_SPAN;
use crate::spec::Rates;
use crate::{Application, Completion, Conn, Entry, Exchange, Form, Given, Make, Net, Table, What};

/// The entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "video",
    about: "adaptive streaming over one connection: a player that chooses bitrates",
    source: "BBA-0 (Huang et al., SIGCOMM 2014); harmonic means of throughput (Yin et al., SIGCOMM 2015)",
    params: Params::DECLARED,
    tables: &[Table { name: "ladder", form: Form::Rates, about: "bitrates of the encodings" }],
    required: &["ladder"],
    pulls: true,
    echoes: false,
    sockets: false,
    independent: |_| false,
    check,
    load: |_| None,
    make: Make::Application(|given, _| {
        let Rates(ladder) = given.table("ladder");
        Box::new(Video::new(ladder.clone(), (&given.params).into()))
    }),
};

choice! {
    /// How a player chooses bitrates.
    pub enum Algorithm {
        /// By the buffer (BBA-0; Huang et al., SIGCOMM 2014).
        Bba = "bba",
        /// By the measured throughput.
        Rate = "rate",
    }
}

params! {
    /// Its parameters.
    struct Params {
        /// duration of a segment
        segment: Time = Time::from_secs(4), in Time::from_millis(1)..=Time::from_nanos(MAX_SPAN), from "SIGCOMM 2014";
        /// video that the player holds at most, two segments or more
        buffer: Time = Time::from_secs(240), in Time::from_millis(2)..=Time::from_nanos(2 * MAX_SPAN), from "SIGCOMM 2014";
        /// how the player chooses bitrates
        algorithm: Algorithm = Algorithm::Bba, from "SIGCOMM 2014";
        /// duration of the video
        length: Time = Time::MAX, in Time::from_nanos(1)..=Time::MAX, from "ours: endless";
    }
}

fn check(given: &Given) -> Result<(), Conflict> {
    let Params { segment, buffer, .. } = (&given.params).into();
    // One that plays and one that arrives.
    if buffer >= segment + segment {
        return Ok(());
    }
    let found = format!("{buffer} is less than two segments of {segment}");
    Err(Conflict { key: "buffer", found, accepted: format!("expected {} or more", segment + segment) })
}

/// Bytes of a request: a line with the segment's path and a browser's usual header fields.
pub const REQUEST: u64 = 300;
/// How many segments the rate-based player looks back on.
const LOOK_BACK: usize = 5;

/// The application.
#[derive(Clone)]
struct Video {
    /// Bitrates of the encodings, ascending, bit/s.
    ladder: Vec<u64>,
    params: Params,
    conn: Option<Conn>,
    player: Player,
    /// Length of the video not asked for yet; [`Time::MAX`] where the video is endless.
    left: Time,
    /// The segment that is asked for.
    fetching: Option<Fetch>,
    /// Index of the last segment's bitrate.
    rung: usize,
    /// Throughputs of the last segments, bit/s.
    throughputs: VecDeque<f64>,
    stopped: bool,
}

#[derive(Clone)]
struct Fetch {
    since: Time,
    duration: Time,
    bytes: u64,
}

/// The player and its buffer, in simulated time.
#[derive(Clone)]
struct Player {
    state: Playback,
    /// Video in the buffer at `at`.
    level: Time,
    at: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Playback {
    /// It has not played yet, and was asked to at that time.
    Starting(Time),
    Playing,
    /// Its buffer ran empty then.
    Stalled(Time),
}

impl Player {
    /// Plays until `now`.
    fn advance(&mut self, now: Time) {
        if self.state == Playback::Playing {
            let elapsed = now - self.at;
            if elapsed > self.level {
                self.state = Playback::Stalled(self.at + self.level);
            }
            self.level = self.level.saturating_sub(elapsed);
        }
        self.at = now;
    }

    /// A segment is there; returns what ended with that, and when it had begun.
    fn receive(&mut self, duration: Time, now: Time) -> Option<(What, Time)> {
        self.advance(now);
        self.level += duration;
        match std::mem::replace(&mut self.state, Playback::Playing) {
            Playback::Starting(since) => Some((What::Startup, since)),
            Playback::Stalled(since) => Some((What::Stall, since)),
            Playback::Playing => None,
        }
    }
}

/// BBA-0's choice for the next segment, as an index into `ladder`, after one at `last`, with `level` in the buffer.
fn buffer_based(ladder: &[u64], params: Params, last: usize, level: Time) -> usize {
    let Params { segment, buffer, .. } = params;
    let top = ladder.len() - 1;
    // 90 s and 216 s of 240 s.
    let reservoir = buffer.mul_div(3, 8);
    let full = buffer.mul_div(9, 10).min(buffer - segment).max(reservoir);
    if level <= reservoir {
        return 0;
    }
    if level >= full {
        return top;
    }
    let climb = Rate::from_bps(ladder[top] - ladder[0]);
    let f = ladder[0] + climb.mul_div((level - reservoir).as_nanos(), (full - reservoir).as_nanos()).as_bps();
    if f >= ladder[(last + 1).min(top)] {
        // The greatest below f.
        ladder.partition_point(|rate| *rate < f).saturating_sub(1)
    } else if f <= ladder[last.saturating_sub(1)] {
        // The least above f.
        ladder.partition_point(|rate| *rate <= f).min(top)
    } else {
        last
    }
}

/// The greatest bitrate up to the harmonic mean of `throughputs`, as an index into `ladder`; the least where there are
/// none.
fn rate_based(ladder: &[u64], throughputs: &VecDeque<f64>) -> usize {
    let mean = throughputs.len() as f64 / throughputs.iter().map(|x| 1.0 / x).sum::<f64>();
    ladder.partition_point(|rate| *rate as f64 <= mean).saturating_sub(1)
}

impl Video {
    const fn new(ladder: Vec<u64>, params: Params) -> Self {
        Self {
            conn: None,
            player: Player { state: Playback::Starting(Time::ZERO), level: Time::ZERO, at: Time::ZERO },
            left: params.length,
            fetching: None,
            rung: 0,
            throughputs: VecDeque::new(),
            stopped: false,
            ladder,
            params,
        }
    }

    /// Asks for the next segment, waits for room in the buffer, or closes the connection where there is none to come.
    fn proceed(&mut self, net: &mut dyn Net) {
        if self.fetching.is_some() {
            return;
        }
        let Some(conn) = self.conn else { return };
        let duration = self.params.segment.min(self.left);
        if self.stopped || duration == Time::ZERO {
            self.conn = None;
            net.close(conn);
            return;
        }
        let now = net.now();
        self.player.advance(now);
        let room = self.params.buffer.saturating_sub(self.player.level);
        if room < duration {
            net.wake(now + (duration - room));
            return;
        }
        self.rung = match self.params.algorithm {
            Algorithm::Bba => buffer_based(&self.ladder, self.params, self.rung, self.player.level),
            Algorithm::Rate => rate_based(&self.ladder, &self.throughputs),
        };
        let bytes = Rate::from_bps(self.ladder[self.rung]).bytes_in(duration).0.max(1);
        self.fetching = Some(Fetch { since: now, duration, bytes });
        if self.left != Time::MAX {
            self.left -= duration;
        }
        net.exchange(conn, Exchange { down: bytes, ..Exchange::of(REQUEST) });
    }
}

impl Application for Video {
    fn start(&mut self, net: &mut dyn Net) {
        self.player.state = Playback::Starting(net.now());
        self.player.at = net.now();
        self.conn = Some(net.open());
        self.proceed(net);
    }

    fn on_connected(&mut self, _: Conn, _: &mut dyn Net) {}

    fn on_complete(&mut self, _: Conn, _: u64, net: &mut dyn Net) {
        let Fetch { since, duration, bytes } = self.fetching.take().expect("a segment was asked for");
        let (now, bitrate) = (net.now(), self.ladder[self.rung] as f64);
        net.record(Completion::new(What::Segment, since, now, bytes, bitrate));
        if self.throughputs.len() == LOOK_BACK {
            self.throughputs.pop_front();
        }
        // Nothing arrives in no time, but on a path without delay it may within the same nanosecond.
        self.throughputs.push_back(Rate::over(Bytes(bytes), now - since).as_bps().max(1) as f64);
        if !self.stopped
            && let Some((what, since)) = self.player.receive(duration, now)
        {
            net.record(Completion::new(what, since, now, 0, f64::NAN));
        }
        self.proceed(net);
    }

    fn on_wake(&mut self, net: &mut dyn Net) {
        self.proceed(net);
    }

    fn stop(&mut self, net: &mut dyn Net) {
        let all_is_there = self.left == Time::ZERO && self.fetching.is_none();
        self.player.advance(net.now());
        if let Playback::Stalled(since) = self.player.state
            && !all_is_there
        {
            net.record(Completion::new(What::Stall, since, net.now(), 0, f64::NAN));
        }
        self.stopped = true;
        self.proceed(net);
    }
}

#[cfg(test)]
#[path = "video/tests.rs"]
mod tests;
