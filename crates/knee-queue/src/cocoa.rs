//! `cocoa`: `fq` whose buffer per flow follows what the flow's congestion control needs.
//!
//! The idea: between two losses of a loss-based algorithm the queue shows whether its buffer fits. If it never ran
//! empty, its least length is a standing queue that serves nothing: the buffer shrinks by it. If it ran empty, the link
//! was idle: the buffer grows by what could have been sent meanwhile. So that two losses of one burst are not taken for
//! a cycle, the longest interval (LI) between losses within a guard interval (GI) counts, and the GI lasts at least
//! `multiplier` times the LI of the one before.
//!
//! ```text
//! packet comes, queue full (Algorithm 1):
//!   idle in this interval, not enlarged in it, not the first   buffer += sent / active * idle     packet is taken
//!                                                              (at most to buffer * max_increase)
//!   first interval of the flow, or enlarged in it              new interval, new GI               packet is dropped
//!   now >= end of the GI                                       buffer -= standing queue of the LI;
//!                                                              new interval, new GI               packet is dropped
//!   otherwise                                                  new interval                       packet is dropped
//!
//! end of a GI = its start + min(multiplier * LI before it, max_guard_interval)
//! ```
//!
//! Source: Bachl, Fabini and Zseby, "Cocoa: Congestion Control Aware Queuing", BS'19 (arXiv 1910.10604); where it
//! leaves something open, as the authors' qdisc: the LI after an enlargement is the enlarged interval; queue lengths
//! are taken as packets leave; growth is in whole packets, rounded down; a flow is remembered for 10 s.
//!
//! Options, off by default. `max_guard_rtts` (Section 2.3) bounds the GI by this many of the flow's round-trip times in
//! place of `max_guard_interval`. The paper would read the RTT off TCP timestamps or the spin bit, which needs both
//! directions of a flow; this queue sees one, so it takes `base_rtt` and adds the stay of the flow's last packet.
//! `learn_initial` (Section 6) starts a flow with an average over the buffers that other flows had at the ends of their
//! GIs, each new one counting an eighth.
//!
//! `max_idle`, ours: after a longer pause the flow is measured anew, as after its first packet. Applications that pause
//! make the queue run empty whatever the buffer is, and so does the slow start after it: bursts of CUBIC would enlarge
//! the buffer again and again. A loss empties a queue for a round-trip time at most. The pause also ends the guard
//! interval, since bursts may end before it does: if the LI is longer than `max_idle`, the buffer shrinks by the least
//! queue that a packet met in it, or, if the last interval is so long and had idle time, grows by at most a half. The
//! guard interval after the pause lasts by the LI before it, not by a first interval that slow start makes short.
//!
//! Notes per flow, at each full queue: "idle" (s, in this interval) and the branch by name with its figure, "enlarge"
//! (packets gained), "restart" (the interval that ended, s), "reduce" (packets of the standing queue, 0 if there was
//! none) or "loss" (the interval that ended, s); where a GI begins, the LI before it as "longest_interval" and its
//! least length as "guard_interval" (s); and "buffer" (packets) whenever it changes. At the end of each interval of the
//! time series, of up to eight flows, "backlog" (packets).
//!
//! Departures: a buffer keeps at least one packet (an enlargement by less than one takes a packet beyond the buffer, so
//! that the standing queue may be as long as the buffer); an LI in which nothing left reduces nothing.

use crate::Context;
use crate::Entry;
use crate::fair_queue::{Admission, BufferRule, FairQueue};
use crate::fq;
use knee_core::convert::{saturating_u32, truncated, truncated_u32};
use knee_core::{Packet, Time, params};

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "cocoa",
    about: "fq with a buffer per flow that follows its congestion control",
    source: "Bachl et al., Cocoa: Congestion Control Aware Queuing, BS 2019",
    params: Params::DECLARED,
    make: |params, init| {
        let params = Params::from(params);
        Box::new(FairQueue::new(Cocoa::new(&params), &params.fq, init))
    },
};

params! {
    /// Cocoa's parameters.
    struct Params {
        /// length of a guard interval in longest intervals
        multiplier: f64 = 1.25, in 0.0..=100.0, from "cocoa, 2.1";
        /// most growth of a buffer at once, as a factor
        max_increase: f64 = 2.0, in 1.0..=100.0, from "cocoa, 2.2";
        /// most a guard interval must last
        max_guard_interval: Time = Time::from_secs(1), in Time::ZERO..=Time::from_secs(1000), from "cocoa, 2.3";
        /// the same in round-trip times of the flow, in place of max_guard_interval; 0: off
        max_guard_rtts: f64 = 0.0, in 0.0..=1000.0, from "cocoa, 2.3: for example 2, 4 or 8";
        /// round-trip time without this queue, for max_guard_rtts
        base_rtt: Time = Time::from_millis(100), in Time::ZERO..=Time::from_secs(10),
            from "an estimate; cocoa, 2.3, leaves the measuring open";
        /// an idle time beyond this is the application's: the flow is measured anew; 0: the queue is always to blame
        max_idle: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(100), from "ours; cocoa counts every idle time";
        /// start flows with the buffer that earlier ones came to
        learn_initial: bool = false, from "cocoa, 6";
        #[flatten]
        fq: fq::Params;
    }
}

/// More packets than any queue holds.
const MAX_BUFFER: u32 = 1 << 30;

/// A factor with 16 bits behind the point.
#[derive(Clone, Copy, Debug)]
struct Factor(u64);

impl Factor {
    const ONE: u64 = 1 << 16;

    fn new(factor: f64) -> Self {
        Self(truncated((factor * Self::ONE as f64).round()))
    }

    fn of_time(self, time: Time) -> Time {
        time.mul_div(self.0, Self::ONE)
    }

    fn of_packets(self, packets: u32) -> u32 {
        saturating_u32(u64::from(packets) * self.0 / Self::ONE).min(MAX_BUFFER)
    }
}

/// Packets that could have been sent while idle: sent / active * idle, rounded down.
fn missed_packets(sent: u64, active: Time, idle: Time) -> u32 {
    if active == Time::ZERO {
        return if sent == 0 { 0 } else { MAX_BUFFER };
    }
    saturating_u32(idle.mul_div(sent, active.as_nanos()).as_nanos()).min(MAX_BUFFER)
}

/// The rule's constants, from its parameters.
#[derive(Clone)]
struct CocoaSettings {
    multiplier: Factor,
    max_increase: Factor,
    max_guard_interval: Time,
    /// `None`: off.
    max_guard_rtts: Option<Factor>,
    base_rtt: Time,
    /// [`Time::MAX`]: off.
    max_idle: Time,
    learn_initial: bool,
    initial_buffer: u32,
}

#[derive(Clone)]
struct Cocoa {
    settings: CocoaSettings,
    /// Average of the buffers so far, packets.
    learned: Option<f64>,
}

/// What packets met as they came.
#[derive(Clone, Copy, Debug)]
struct Met {
    /// When the last one came.
    last: Time,
    /// Least that one met in the queue.
    least: u32,
}

/// A span between two losses.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: Time,
    /// Time with nothing queued.
    idle: Time,
    /// Packets that left.
    sent: u64,
    /// Least that was left queued when a packet had gone. `None` if no packet went.
    least: Option<u32>,
    /// The packets that came, which are not those of the drain before a pause. `None` if no packet was taken.
    met: Option<Met>,
}

impl Interval {
    fn new(start: Time) -> Self {
        Self { start, idle: Time::ZERO, sent: 0, least: None, met: None }
    }
}

/// The longest interval of a guard interval, so far.
#[derive(Clone, Copy, Debug)]
struct Longest {
    length: Time,
    standing: u32,
}

/// A flow's buffer and the intervals that size it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowState {
    /// Packets it may hold.
    buffer: u32,
    interval: Interval,
    longest: Longest,
    /// When the guard interval ends at the earliest; none before the first loss.
    guard_end: Option<Time>,
    /// True once the buffer grew in this interval.
    enlarged: bool,
    /// When the queue last ran empty.
    idle_since: Option<Time>,
    /// Stay in the queue of the packet that left last.
    sojourn: Time,
}

/// The weight of a new sample in what is learned.
const LEARNING_GAIN: f64 = 0.125;

impl Cocoa {
    fn new(params: &Params) -> Self {
        let rtts = params.max_guard_rtts;
        Self {
            settings: CocoaSettings {
                multiplier: Factor::new(params.multiplier),
                max_increase: Factor::new(params.max_increase),
                max_guard_interval: params.max_guard_interval,
                max_guard_rtts: (rtts > 0.0).then(|| Factor::new(rtts)),
                base_rtt: params.base_rtt,
                max_idle: if params.max_idle == Time::ZERO { Time::MAX } else { params.max_idle },
                learn_initial: params.learn_initial,
                initial_buffer: params.fq.flow_limit,
            },
            learned: None,
        }
    }

    fn max_guard_interval(&self, flow: &FlowState) -> Time {
        match self.settings.max_guard_rtts {
            Some(rtts) => rtts.of_time(self.settings.base_rtt + flow.sojourn),
            None => self.settings.max_guard_interval,
        }
    }

    /// Begins a guard interval after one whose longest interval was `flow.longest`.
    fn start_guard(&mut self, flow: &mut FlowState, id: u32, cx: &mut Context) {
        let guard = self.settings.multiplier.of_time(flow.longest.length).min(self.max_guard_interval(flow));
        flow.guard_end = Some(cx.now + guard);
        note(cx, id, "longest_interval", flow.longest.length.as_secs_f64());
        note(cx, id, "guard_interval", guard.as_secs_f64());
        flow.longest = Longest { length: Time::ZERO, standing: 0 };
        let buffer = f64::from(flow.buffer);
        let learned = self.learned.get_or_insert(buffer);
        *learned += (buffer - *learned) * LEARNING_GAIN;
    }

    /// The queue is full: Algorithm 1 of the paper.
    fn on_full(&mut self, flow: &mut FlowState, id: u32, cx: &mut Context) -> Admission {
        let idle = flow.interval.idle;
        note(cx, id, "idle", idle.as_secs_f64());
        if let Some(guard_end) = flow.guard_end
            && !flow.enlarged
        {
            if idle > Time::ZERO {
                flow.enlarged = true;
                let active = cx.now - flow.interval.start - idle;
                let gain = missed_packets(flow.interval.sent, active, idle);
                let most = self.settings.max_increase.of_packets(flow.buffer);
                let gain = gain.min(most - flow.buffer);
                note(cx, id, "enlarge", f64::from(gain));
                flow.resize(flow.buffer + gain, id, cx);
                return Admission::Take;
            }
            let length = flow.end_interval(cx.now);
            if cx.now < guard_end {
                note(cx, id, "loss", length.as_secs_f64());
                return Admission::Drop;
            }
            let standing = flow.longest.standing;
            note(cx, id, "reduce", f64::from(standing));
            flow.resize(flow.buffer.saturating_sub(standing).max(1), id, cx);
            self.start_guard(flow, id, cx);
            return if standing > 0 { Admission::DropAndKeep(flow.buffer) } else { Admission::Drop };
        }
        if flow.enlarged {
            // The length measured before belongs to another buffer.
            flow.longest.length = Time::ZERO;
        }
        let length = flow.end_interval(cx.now);
        note(cx, id, "restart", length.as_secs_f64());
        flow.enlarged = false;
        self.start_guard(flow, id, cx);
        Admission::Drop
    }
}

impl FlowState {
    /// Ends the interval, begins the next and says how long it was; the last of equally long ones is the longest.
    fn end_interval(&mut self, now: Time) -> Time {
        let length = now - self.interval.start;
        if length >= self.longest.length {
            self.longest = Longest { length, standing: self.interval.least.unwrap_or(0) };
        }
        self.interval = Interval::new(now);
        length
    }

    /// A pause of the application since `empty`: it ends the interval and the guard interval as losses would.
    fn on_pause(&mut self, empty: Time, settings: &CocoaSettings, id: u32, cx: &mut Context) {
        let Interval { start, idle, sent, met, .. } = self.interval;
        if let (Some(met), Some(_), false) = (met, self.guard_end, self.enlarged) {
            let length = met.last - start;
            if length >= self.longest.length {
                self.longest = Longest { length, standing: met.least };
            }
            // The effect of a loss shows within `max_idle`.
            if length > settings.max_idle && idle > Time::ZERO {
                // Slow start may be to blame for a part of it, so that the buffer grows by at most a half.
                let most = settings.max_increase.of_packets(self.buffer).min(self.buffer + self.buffer.div_ceil(2));
                let gain = missed_packets(sent, empty - start - idle, idle).min(most - self.buffer);
                note(cx, id, "enlarge", f64::from(gain));
                self.resize(self.buffer + gain, id, cx);
            } else if self.longest.length > settings.max_idle {
                note(cx, id, "reduce", f64::from(self.longest.standing));
                self.resize(self.buffer.saturating_sub(self.longest.standing).max(1), id, cx);
            }
        }
        self.measure_anew(cx.now);
    }

    /// Forgets what was measured, as before the first packet, but for the LI, by which the next GI is long enough.
    fn measure_anew(&mut self, now: Time) {
        self.interval = Interval::new(now);
        self.longest.standing = 0;
        (self.guard_end, self.enlarged) = (None, false);
    }

    fn resize(&mut self, buffer: u32, id: u32, cx: &mut Context) {
        if self.buffer != buffer {
            self.buffer = buffer;
            note(cx, id, "buffer", f64::from(buffer));
        }
    }
}

fn note(cx: &mut Context, flow: u32, event: &'static str, value: f64) {
    cx.note(Some(flow), event, value);
}

impl BufferRule for Cocoa {
    type Flow = FlowState;
    /// The flow must be seen to measure it.
    const RUNS: bool = false;
    const FAST_PATH: bool = false;
    /// The authors' COCOA_GC_AGE.
    const REMEMBER: Time = Time::from_secs(10);

    fn start(&mut self, id: u32, cx: &mut Context) -> FlowState {
        let initial = self.settings.initial_buffer;
        let buffer = match self.learned {
            Some(learned) if self.settings.learn_initial => truncated_u32(learned.round()).max(1),
            _ => initial,
        };
        note(cx, id, "buffer", f64::from(buffer));
        FlowState {
            buffer,
            interval: Interval::new(cx.now),
            longest: Longest { length: Time::ZERO, standing: 0 },
            guard_end: None,
            enlarged: false,
            idle_since: None,
            sojourn: Time::ZERO,
        }
    }

    #[inline]
    fn arrive(&mut self, flow: &mut FlowState, held: u32, id: u32, cx: &mut Context) -> Admission {
        if held >= flow.buffer {
            return self.on_full(flow, id, cx);
        }
        if let Some(since) = flow.idle_since.take() {
            let idle = cx.now - since;
            if idle > self.settings.max_idle {
                flow.on_pause(since, &self.settings, id, cx);
            } else {
                flow.interval.idle += idle;
            }
        }
        let least = flow.interval.met.map_or(held, |met| met.least.min(held));
        flow.interval.met = Some(Met { last: cx.now, least });
        Admission::Take
    }

    #[inline]
    fn room(&self, flow: &FlowState, held: u32) -> u32 {
        flow.buffer.saturating_sub(held)
    }

    #[inline]
    fn depart(&mut self, flow: &mut FlowState, held: u32, packet: &Packet, now: Time) {
        flow.interval.sent += 1;
        flow.interval.least = Some(flow.interval.least.map_or(held, |least| least.min(held)));
        flow.sojourn = now - packet.at;
        if held == 0 {
            flow.idle_since = Some(now);
        }
    }

    fn observe(&self, held: u32, id: u32, cx: &mut Context) {
        note(cx, id, "backlog", f64::from(held));
    }
}

#[cfg(test)]
#[path = "cocoa_kernel.rs"]
mod kernel;
#[cfg(test)]
#[path = "cocoa_tests.rs"]
mod tests;
