//! `docsis-pie`: the AQM of cable modems, PIE without timestamps and with other constants.
//!
//! Every 16 ms the drop probability p moves by
//!
//! ```text
//! p += s · (A (qdelay - target) + B (qdelay - qdelay_old)),  A = 0.25 Hz, B = 2.5 Hz
//! s = 1/2048, 1/512, 1/128, 1/32, 1/8, 1/2, 2, 8 and 32 for p below 10^-6, 10^-5, ... 1, 10, and beyond
//! ```
//!
//! Source: RFC 8034, rule by rule; constants as in its Appendix A.1.2.
//!
//! - The delay is what the queue holds over the rate of the service flow, never a timestamp: the wait for a grant is
//!   not in it (Section 4.2).
//! - The target is 10 ms (4.1).
//! - From p = 10 % on a step is at most 2 %; beyond 200 ms of delay p rises by 2 % more (A.2).
//! - p is scaled down to 10^-6 and below in seven steps, where PIE has two (4.4).
//! - p decays by 2 % at each update while two delays in a row are below 5 ms, where PIE waits for none (4.5).
//! - A packet is dropped with p times its size over 1024 bytes, at most 85 % (4.6); so p itself may be up to 13.6.
//! - Probabilities are summed up since the last drop: below 0.85 nothing is dropped, from 8.5 on everything (A.3).
//! - Nothing is dropped while the last delay is below half the target and p < 20 %, or two packets of 1024 bytes or
//!   less wait (A.3).
//! - A queue that was quiet for 1 s is inactive: nothing is dropped until a third of its buffer is full. Its first drop
//!   then begins 142 ms in which no other follows (4.3).
//!
//! Left out: the modem's token bucket with its peak rate, which the link models do not have (its tokens shorten the
//! estimate by what may go at once); a service flow without a rate; a target of the operator per service flow, beside
//! `target`. Packets are never marked, as in the RFC. The first update is at 16 ms, all at whole multiples of that,
//! made up for as in `pie_law`.

use crate::Entry;
use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::{Bytes, Packet, Rate, Rng, Time, params};

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "docsis-pie",
    about: "PIE as cable modems have it: delay from bytes and rate, so that the wait for a grant is no queue",
    source: "RFC 8034",
    params: Params::DECLARED,
    make: |params, init| Box::new(DocsisPie::new(params.into(), init)),
};

params! {
    /// The parameter of the classic queue, here and in `docsis-lld`.
    pub(crate) struct Params {
        /// delay of the (classic) queue to steer to
        target: Time = Time::from_millis(10), in Time::from_micros(1)..=Time::from_secs(10), from "RFC 8034, 4.1";
    }
}

/// The default limit.
pub(crate) const BUFFER: Limit = Limit::Time(Time::from_millis(100));

/// Time between updates.
pub(crate) const INTERVAL: Time = Time::from_millis(16);
/// In Hz: weights of the distance from the target, and of the change.
const A: f64 = 0.25;
/// See `A`.
const B: f64 = 2.5;
/// Sums of probabilities below which nothing is dropped, and from which on everything is.
const PROB_LOW: f64 = 0.85;
/// See `PROB_LOW`.
const PROB_HIGH: f64 = 8.5;
/// Bytes.
const MEAN_PACKET: u64 = 1024;
/// Bytes.
const MIN_PACKET: u64 = 64;
const LATENCY_LOW: Time = Time::from_millis(5);
const LATENCY_HIGH: Time = Time::from_millis(200);
/// No drop for that long after the first.
const MAX_BURST: Time = Time::from_millis(142);
/// Quiet for longer than that the queue is inactive.
const BURST_RESET: Time = Time::from_secs(1);

/// The state of the AQM, which decides if it may drop (A.1.3: aqm_state_).
#[derive(Clone, Copy, Debug, PartialEq)]
enum AqmState {
    Inactive,
    Quiescent,
    Active,
}

/// Variables of the control path, which its updates change.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Vars {
    prob: f64,
    qdelay_old: Time,
    /// The rest of the time without drops.
    burst: Time,
    /// How long it has been quiet.
    quiet: Time,
    state: AqmState,
}

/// Control and data path, for any estimate of the delay.
#[derive(Clone)]
pub(crate) struct Controller {
    target: Time,
    vars: Vars,
    /// Probabilities since the last drop.
    accumulated: f64,
    next_update: Time,
    rng: Rng,
}

/// `p` after an update with these delays (A.2).
fn next_prob(p: f64, qdelay: Time, qdelay_old: Time, target: Time) -> f64 {
    let (delay, old) = (qdelay.as_secs_f64(), qdelay_old.as_secs_f64());
    let mut change = (A * (delay - target.as_secs_f64()) + B * (delay - old)) * scale(p);
    if p >= 0.1 {
        change = change.min(0.02);
    }
    let mut next = p + change;
    if qdelay < LATENCY_LOW && qdelay_old < LATENCY_LOW {
        next *= 0.98;
    } else if qdelay > LATENCY_HIGH {
        next += 0.02;
    }
    next.clamp(0.0, PROB_LOW * MEAN_PACKET as f64 / MIN_PACKET as f64)
}

/// s in the header.
fn scale(p: f64) -> f64 {
    match p {
        _ if p < 1e-6 => 1.0 / 2048.0,
        _ if p < 1e-5 => 1.0 / 512.0,
        _ if p < 1e-4 => 1.0 / 128.0,
        _ if p < 1e-3 => 1.0 / 32.0,
        _ if p < 1e-2 => 1.0 / 8.0,
        _ if p < 0.1 => 0.5,
        _ if p < 1.0 => 2.0,
        _ if p < 10.0 => 8.0,
        _ => 32.0,
    }
}

impl Controller {
    pub(crate) fn new(target: Time, rng: Rng) -> Self {
        let vars =
            Vars { prob: 0.0, qdelay_old: Time::ZERO, burst: Time::ZERO, quiet: Time::ZERO, state: AqmState::Inactive };
        Self { target, vars, accumulated: 0.0, next_update: INTERVAL, rng }
    }

    /// The drop probability p, of a packet of 1024 bytes.
    pub(crate) fn prob(&self) -> f64 {
        self.vars.prob
    }

    /// True if an update is due by `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.next_update
    }

    /// Makes up for the updates due by `now`, each with the delay `qdelay`.
    pub(crate) fn catch_up(&mut self, now: Time, qdelay: Time) {
        while self.is_due(now) {
            let before = self.vars;
            self.update(qdelay);
            if self.vars == before {
                // Further updates from the same input would change nothing.
                self.next_update = now.floor_to(INTERVAL) + INTERVAL;
            }
        }
    }

    /// One update, the next that is due: the control path (A.2).
    pub(crate) fn update(&mut self, qdelay: Time) {
        self.next_update += INTERVAL;
        let v = &mut self.vars;
        if v.burst > Time::ZERO {
            v.prob = 0.0;
            v.burst = v.burst.saturating_sub(INTERVAL);
        } else {
            v.prob = next_prob(v.prob, qdelay, v.qdelay_old, self.target);
        }
        let half = self.target / 2;
        let quiet = qdelay < half && v.qdelay_old < half && v.prob <= 0.0 && v.burst == Time::ZERO;
        match v.state {
            AqmState::Active if quiet => (v.state, v.quiet) = (AqmState::Quiescent, Time::ZERO),
            AqmState::Quiescent if quiet => {
                v.quiet += INTERVAL;
                if v.quiet > BURST_RESET {
                    (v.state, v.quiet) = (AqmState::Inactive, Time::ZERO);
                }
            }
            AqmState::Quiescent => v.quiet = Time::ZERO,
            _ => {}
        }
        v.qdelay_old = qdelay;
    }

    /// True if a packet of `size` bytes that finds `backlog` of `buffer` bytes is to be dropped (the data path, A.3).
    pub(crate) fn drops(&mut self, size: u64, backlog: u64, buffer: u64) -> bool {
        let v = &mut self.vars;
        if v.burst > Time::ZERO {
            return false;
        }
        if v.prob <= 0.0 {
            self.accumulated = 0.0;
        }
        if v.state == AqmState::Inactive {
            if backlog < buffer / 3 {
                return false;
            }
            v.state = AqmState::Quiescent;
        }
        let p = (v.prob * size as f64 / MEAN_PACKET as f64).min(PROB_LOW);
        self.accumulated += p;
        if v.qdelay_old < self.target / 2 && v.prob < 0.2 || backlog <= 2 * MEAN_PACKET || self.accumulated < PROB_LOW {
            return false;
        }
        if self.accumulated < PROB_HIGH && !self.rng.chance(p) {
            return false;
        }
        self.accumulated = 0.0;
        if v.state == AqmState::Quiescent {
            (v.state, v.burst) = (AqmState::Active, MAX_BURST);
        }
        true
    }

    /// The delay at the last update.
    #[cfg(test)]
    pub(crate) fn delay(&self) -> Time {
        self.vars.qdelay_old
    }

    #[cfg(test)]
    pub(crate) fn set_prob(&mut self, prob: f64) {
        self.vars.prob = prob;
    }

    /// A packet found no room.
    pub(crate) fn overflowed(&mut self) {
        self.accumulated = 0.0;
    }
}

/// How long `bytes` take at `rate`; no rate takes no time to be waited for.
pub(crate) fn time_for(rate: Rate, bytes: u64) -> Time {
    if rate.as_bps() == 0 { Time::ZERO } else { rate.time_for(Bytes(bytes)) }
}

#[derive(Clone)]
struct DocsisPie {
    controller: Controller,
    fifo: Fifo,
    bound: Bound,
}

impl DocsisPie {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            controller: Controller::new(params.target, init.rng.clone()),
            fifo: Fifo::new(init),
            bound: Bound::new(init.limit.unwrap_or(BUFFER), init.rate),
        }
    }

    fn catch_up(&mut self, now: Time) {
        if self.controller.is_due(now) {
            let delay = time_for(self.bound.rate(), self.fifo.bytes());
            self.controller.catch_up(now, delay);
        }
    }
}

impl Queue for DocsisPie {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        self.catch_up(cx.now);
        let size = self.fifo.wire_size(&packet);
        let buffer = self.bound.bytes(self.fifo.frame());
        if !self.fifo.has_room(&packet, &self.bound) {
            self.controller.overflowed();
        } else if !self.controller.drops(size, self.fifo.bytes(), buffer) {
            self.fifo.push(packet);
            return Verdict::Queued;
        }
        cx.dropped.push(packet);
        Verdict::Dropped
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        self.catch_up(cx.now);
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.catch_up(cx.now);
        self.bound = self.bound.resized(to);
        self.fifo.shrink(&self.bound, cx);
    }
}

impl Bursts for DocsisPie {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};

    const MS: Time = Time::from_millis(1);

    fn controller() -> Controller {
        Controller::new(MS * 10, Rng::stream(1, "docsis-pie"))
    }

    #[test]
    fn the_probability_moves_by_the_worked_steps() {
        // 10 ms above the target, 5 ms more than last time: 0.25 · 0.010 + 2.5 · 0.005 = 0.015, scaled by s.
        let scales =
            [(0.5, 2.0), (0.05, 0.5), (5e-3, 0.125), (5e-4, 1.0 / 32.0), (5e-5, 1.0 / 128.0), (0.0, 1.0 / 2048.0)];
        for (p, s) in scales {
            let wanted = if p >= 0.1 { 0.02_f64.min(0.015 * s) } else { 0.015 * s };
            let moved = next_prob(p, MS * 20, MS * 15, MS * 10) - p;
            assert!((moved - wanted).abs() < 1e-12, "from {p}: {moved}");
        }
    }

    #[test]
    fn a_long_delay_adds_two_percent_and_a_short_one_takes_them() {
        assert!((next_prob(0.5, MS * 201, MS * 201, MS * 10) - 0.54).abs() < 1e-12);
        // (0.5 - 2 · 0.25 · 0.006) · 0.98.
        assert!((next_prob(0.5, MS * 4, MS * 4, MS * 10) - 0.497 * 0.98).abs() < 1e-12);
        assert!(next_prob(13.6, MS * 500, MS, MS * 10) <= 13.6 && next_prob(0.0, MS, MS * 9, MS * 10) <= 0.0);
    }

    #[test]
    fn the_delay_is_what_is_held_over_the_rate_however_long_it_stays() {
        // 20 packets of 1514 bytes at 100 Mbit/s are 2.4 ms, a fourth of the target: no drop, though they stay for 1 s.
        let mut q = DocsisPie::new(Params { target: MS * 10 }, &init(&ENTRY, None, 100));
        let mut cx = Context::default();
        (0..20).for_each(|_| {
            q.enqueue(FULL, &mut cx);
        });
        cx.now = Time::from_secs(1);
        q.catch_up(cx.now);
        assert_eq!((q.controller.vars.qdelay_old, q.controller.prob()), (Time::from_nanos(2_422_400), 0.0));
    }

    #[test]
    fn an_inactive_queue_drops_nothing_below_a_third_of_its_buffer_and_then_one_packet_in_142_ms() {
        let mut c = controller();
        c.vars.prob = 0.9;
        assert!((0..100).all(|_| !c.drops(1514, 33_000, 100_000)));
        c.vars.qdelay_old = MS * 20;
        // Active from a third on; once the sum is 0.85, each packet is dropped with 85 %.
        let first = (0..100).position(|_| c.drops(1514, 34_000, 100_000));
        assert!(first.is_some_and(|i| i < 10), "{first:?}");
        assert_eq!((c.vars.state, c.vars.burst), (AqmState::Active, MAX_BURST));
        assert!((0..100).all(|_| !c.drops(1514, 90_000, 100_000)));
        // Nine updates use up the 142 ms.
        (0..9).for_each(|_| c.update(MS * 50));
        assert_eq!((c.vars.burst, c.vars.prob), (Time::ZERO, 0.0));
    }

    #[test]
    fn after_a_quiet_second_it_is_inactive_again() {
        let mut c = controller();
        (c.vars.state, c.vars.qdelay_old) = (AqmState::Active, MS);
        // Quiet at once; 62 updates are 992 ms, and the 63rd goes beyond 1 s.
        (0..63).for_each(|_| c.update(MS));
        assert_eq!(c.vars.state, AqmState::Quiescent);
        c.update(MS);
        assert_eq!(c.vars.state, AqmState::Inactive);
    }

    #[test]
    fn small_packets_are_dropped_less_often() {
        let drops = |size| {
            let mut c = controller();
            c.vars = Vars { prob: 0.1, qdelay_old: MS * 20, state: AqmState::Active, ..c.vars };
            (0..100_000).filter(|_| c.drops(size, 50_000, 100_000)).count() as f64
        };
        // Sums of 0.85 take 1 / 0.1 packets of 1024 bytes less often than of 64: 0.148 against 0.00625 each, and until
        // 0.85 there is none, which makes a drop every 1 / p + 0.85 / p packets at most.
        let (large, small) = (drops(1514), drops(64));
        assert!((15.0..35.0).contains(&(large / small)), "{large} and {small}");
    }

    #[test]
    fn updates_of_a_long_time_without_packets_are_made_up_for() {
        let mut q = DocsisPie::new(params(&ENTRY, &[]), &init(&ENTRY, None, 100));
        q.controller.vars.prob = 0.5;
        let mut cx = Context::at(Time::from_secs(100_000_000));
        assert!(q.dequeue(&mut cx).is_none());
        assert!(q.controller.prob() <= 0.0 && q.controller.next_update > cx.now);
    }
}
