//! `red`: random early detection, drops or marks what arrives with a probability that grows with the average queue.
//!
//! ```text
//! avg := avg + w (q - avg)                       at each arrival; w = 2^-weight_log, q the queue that it finds
//! avg := avg (1 - w)^m                           instead, after an idle time of m average packets
//! pb  = max_p (avg - min) / (max - min)          for min <= avg < max; 0 below
//! pb  = max_p + (1 - max_p) (avg - max) / max    for max <= avg < 2 max, with `gentle`
//! pb  = 1                                        above
//! ```
//!
//! Drops are spread: a number R is drawn, uniform in [0, 1), and the first arrival with count · pb >= R is struck, with
//! `count` the arrivals since the last. That is a gap uniform between 1 and 1/pb (method 2 of the paper).
//!
//! `adaptive`: every half second max_p grows by min(1 %, max_p/4) if avg stands above min + 0.6 (max - min), up to a
//! half, and shrinks by a tenth if it is below min + 0.4 (max - min), down to 1 %.
//!
//! Source: Floyd and Jacobson, Random Early Detection Gateways for Congestion Avoidance, 1993; Floyd, Gummadi and
//! Shenker, Adaptive RED, 2001; `gentle`: Floyd, Recommendation on using the gentle variant of RED, 2000. Integer
//! average, order of steps, `ecn` and `harddrop` as Linux net/sched/sch_red.c; thresholds and limit by default as in
//! the example of tc-red(8).
//!
//! The queue counts in bytes as in Linux, or with `unit = "packets"` as the paper's does: each packet then counts as
//! one of `avpkt` bytes, so that min = 5000 B with avpkt = 1000 B are 5 packets.
//!
//! Departures: the decay over an idle time is the paper's, not Linux's table of powers of two; max_p is a float, not
//! 32 bits; `gentle` is not in Linux; `max` below `min` counts as equal to it; `nodrop` is not offered; the average is
//! kept where the limit changes, and the tail goes first, as in `pfifo`. The updates of `adaptive` are made up for at
//! each call, each with the average at its time: a queue has no timer.

use crate::Entry;
use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::{Bytes, Packet, Rng, Time, choice, params};
use std::ops::RangeInclusive;

const SIZES: RangeInclusive<Bytes> = Bytes(1)..=Bytes(1 << 31);
const EXAMPLE: &str = "tc-red(8), example";

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "red",
    about: "random early detection: random drops by the average queue, optionally adaptive and gentle",
    source: "Floyd and Jacobson 1993; Floyd et al. 2001; Linux net/sched/sch_red.c",
    params: Params::DECLARED,
    make: |params, init| Box::new(Red::new(params.into(), init)),
};

choice! {
    /// The unit in which the queue is counted.
    enum Unit {
        Bytes = "bytes",
        Packets = "packets",
    }
}

params! {
    /// RED's parameters.
    struct Params {
        /// average queue from which on packets are struck
        min: Bytes = Bytes(30_000), in SIZES, from EXAMPLE;
        /// average queue at which the probability is `probability`
        max: Bytes = Bytes(90_000), in SIZES, from EXAMPLE;
        /// max_p
        probability: f64 = 0.02, in 0.0..=1.0, from "Floyd and Jacobson 1993, VI; tc-red(8)";
        /// -log2 of the weight w
        weight_log: u32 = 9, in 0..=31, from "Floyd and Jacobson 1993, VI: w = 0.002";
        /// size of an average packet
        avpkt: Bytes = Bytes(1000), in Bytes(1)..=Bytes(65_535), from EXAMPLE;
        /// what the queue is counted in
        unit: Unit = Unit::Bytes, from "Linux sch_red.c";
        /// let max_p follow the average queue
        adaptive: bool = false, from "Floyd et al. 2001";
        /// let the probability grow to 1 between max and 2 max
        gentle: bool = false, from "Floyd 2000";
        /// mark ECN-capable packets rather than drop them
        ecn: bool = false, from "Linux sch_red.c";
        /// drop where the probability is 1 even with `ecn`
        harddrop: bool = false, from "Linux sch_red.c";
    }
}

/// Bytes held where no limit is given (tc-red(8), example).
const DEFAULT_LIMIT: Limit = Limit::Bytes(Bytes(400_000));
/// Time between two updates of max_p (Floyd et al. 2001, 3).
const ADAPT_INTERVAL: Time = Time::from_millis(500);
/// Least and greatest max_p that `adaptive` still changes (Floyd et al. 2001, 3).
const MAX_P_RANGE: (f64, f64) = (0.01, 0.5);

/// The decision on an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    /// Struck by chance.
    Early,
    /// Struck because the probability is one.
    Forced,
}

#[derive(Clone)]
struct Red {
    /// With a `max` that is at least `min`.
    params: Params,
    /// Average queue in units of 2^-weight_log bytes.
    avg: u64,
    /// max_p.
    max_p: f64,
    /// Arrivals since the last that was struck; none while the average is below `min` or the probability one.
    count: Option<u32>,
    /// R.
    drawn: f64,
    /// Since when nothing is queued.
    idle_since: Option<Time>,
    next_update: Time,
    fifo: Fifo,
    bound: Bound,
    rng: Rng,
}

impl Params {
    /// pb for an average queue of `avg` bytes; 1: forced.
    fn probability(&self, avg: u64, max_p: f64) -> f64 {
        if avg < self.min.0 {
            0.0
        } else if avg < self.max.0 {
            max_p * (avg - self.min.0) as f64 / (self.max.0 - self.min.0) as f64
        } else if self.gentle && avg < 2 * self.max.0 {
            max_p + (1.0 - max_p) * (avg - self.max.0) as f64 / self.max.0 as f64
        } else {
            1.0
        }
    }

    /// max_p after an update with an average queue of `avg` bytes.
    fn adapted(&self, avg: u64, max_p: f64) -> f64 {
        let fifth = (self.max.0 - self.min.0) / 5;
        if avg > self.min.0 + 3 * fifth && max_p <= MAX_P_RANGE.1 {
            max_p + f64::min(0.01, max_p / 4.0)
        } else if avg < self.min.0 + 2 * fifth && max_p >= MAX_P_RANGE.0 {
            max_p * 0.9
        } else {
            max_p
        }
    }
}

/// `avg` (1 - 2^-`weight_log`)^`m`, by squaring in 64 bits behind the point.
fn decayed(avg: u64, weight_log: u32, mut m: u64) -> u64 {
    if weight_log == 0 && m > 0 {
        return 0;
    }
    let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64;
    let mut left = avg;
    // 1 - 2^-weight_log in units of 2^-64; not read where weight_log is 0, as m is 0 then.
    let mut factor = 0u64.wrapping_sub(1u64.checked_shl(64 - weight_log).unwrap_or(0));
    while m > 0 && left > 0 {
        if m % 2 == 1 {
            left = times(left, factor);
        }
        factor = times(factor, factor);
        m /= 2;
    }
    left
}

impl Red {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            params: Params { max: params.max.max(params.min), ..params },
            avg: 0,
            max_p: params.probability,
            count: None,
            drawn: 0.0,
            idle_since: Some(Time::ZERO),
            next_update: ADAPT_INTERVAL,
            fifo: Fifo::new(init),
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
            rng: init.rng.clone(),
        }
    }

    /// The average queue in units of 2^-weight_log bytes, were it looked at now.
    fn avg_at(&self, now: Time) -> u64 {
        match self.idle_since {
            None => self.avg,
            Some(since) => {
                let m = self.bound.rate().bytes_in(now.saturating_sub(since)).0 / self.params.avpkt.0;
                decayed(self.avg, self.params.weight_log, m)
            }
        }
    }

    /// Takes the queue that an arrival finds into the average.
    fn sample(&mut self, now: Time) {
        if self.idle_since.is_some() {
            self.avg = self.avg_at(now);
            self.idle_since = None;
        } else {
            let queue = if self.params.unit == Unit::Packets {
                self.fifo.len() * self.params.avpkt.0
            } else {
                self.fifo.bytes()
            };
            self.avg = self.avg - (self.avg >> self.params.weight_log) + queue;
        }
    }

    /// Makes up for the updates of max_p due by `now`.
    fn catch_up(&mut self, now: Time) {
        while self.params.adaptive && now >= self.next_update {
            let avg = self.avg_at(self.next_update) >> self.params.weight_log;
            let max_p = self.params.adapted(avg, self.max_p);
            self.next_update += ADAPT_INTERVAL;
            // An average that stands, or only falls from below the aim, gives the same again.
            let settled = self.idle_since.is_none() || avg < self.params.min.0;
            if max_p.to_bits() == self.max_p.to_bits() && settled {
                self.next_update = self.next_update.max(now.floor_to(ADAPT_INTERVAL) + ADAPT_INTERVAL);
            }
            self.max_p = max_p;
        }
    }

    fn judge(&mut self) -> Action {
        let pb = self.params.probability(self.avg >> self.params.weight_log, self.max_p);
        if self.avg >> self.params.weight_log < self.params.min.0 {
            self.count = None;
            return Action::Pass;
        }
        if pb >= 1.0 {
            self.count = None;
            return Action::Forced;
        }
        let Some(count) = self.count else {
            self.count = Some(0);
            self.drawn = self.rng.unit();
            return Action::Pass;
        };
        let count = count.saturating_add(1);
        if f64::from(count) * pb < self.drawn || pb <= 0.0 {
            self.count = Some(count);
            return Action::Pass;
        }
        self.count = Some(0);
        self.drawn = self.rng.unit();
        Action::Early
    }

    /// Notes that nothing is queued, if so.
    fn note_idle(&mut self, now: Time) {
        if self.fifo.is_empty() && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
    }
}

impl Queue for Red {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
        self.catch_up(cx.now);
        self.sample(cx.now);
        let action = self.judge();
        let may_mark = self.params.ecn && !(action == Action::Forced && self.params.harddrop);
        let verdict = if !self.fifo.has_room(&packet, &self.bound) {
            Verdict::Dropped
        } else if action == Action::Pass {
            Verdict::Queued
        } else if may_mark && cx.mark(&mut packet) {
            Verdict::Marked
        } else {
            Verdict::Dropped
        };
        if verdict == Verdict::Dropped {
            cx.dropped.push(packet);
            self.note_idle(cx.now);
        } else {
            self.fifo.push(packet);
        }
        verdict
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        self.catch_up(cx.now);
        let packet = self.fifo.pop()?;
        self.note_idle(cx.now);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.catch_up(cx.now);
        // Packets that could have left while idle are counted at the rate there was.
        if matches!(to, Resize::Rate(rate) if rate != self.bound.rate()) && self.idle_since.is_some() {
            self.avg = self.avg_at(cx.now);
            self.idle_since = Some(cx.now);
        }
        self.bound = self.bound.resized(to);
        self.fifo.shrink(&self.bound, cx);
        self.note_idle(cx.now);
    }
}

impl Bursts for Red {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};
    use knee_core::{Payload, Value};

    fn queue(given: &[(&str, Value)]) -> Red {
        Red::new(params(&ENTRY, given), &Init { overhead: 0, ..init(&ENTRY, None, 8) })
    }

    fn packet(seq: u64, size: u16, flags: u8) -> Packet {
        Packet { payload: Payload::segment(seq), size, flags, ..FULL }
    }

    /// With this average, bytes, and packets waiting.
    fn standing(avg: u64, given: &[(&str, Value)]) -> Red {
        let mut q = queue(given);
        q.idle_since = None;
        q.avg = avg << q.params.weight_log;
        q.fifo.push(packet(0, 1500, 0));
        q
    }

    #[test]
    fn the_probability_is_linear_between_the_thresholds() {
        let params = queue(&[]).params;
        // min 30 kB, max 90 kB, max_p 2 %.
        for (avg, pb) in [(29_999, 0.0), (30_000, 0.0), (45_000, 0.005), (60_000, 0.01), (75_000, 0.015), (90_000, 1.0)]
        {
            assert!((params.probability(avg, 0.02) - pb).abs() < 1e-12, "{avg}");
        }
    }

    #[test]
    fn gentle_goes_on_from_max_p_to_one_at_twice_max() {
        let params = queue(&[("gentle", Value::Bool(true))]).params;
        for (avg, pb) in [(60_000, 0.01), (90_000, 0.02), (135_000, 0.51), (180_000, 1.0)] {
            assert!((params.probability(avg, 0.02) - pb).abs() < 1e-12, "{avg}");
        }
    }

    #[test]
    fn the_average_moves_by_w_of_the_distance() {
        let mut q = standing(1000, &[("weight_log", Value::Count(2))]);
        // 1000 + (1500 - 1000)/4 = 1125; then 1125 + 375/4 = 1218.75, kept in quarters.
        q.sample(Time::ZERO);
        assert_eq!(q.avg, 4 * 1125);
        q.sample(Time::ZERO);
        assert_eq!(q.avg, 4875);
        // The third: 4875 - 4875/4 + 1500 = 4875 - 1218 + 1500.
        q.sample(Time::ZERO);
        assert_eq!(q.avg, 5157);
    }

    #[test]
    fn counted_in_packets_each_is_an_average_one() {
        let mut q = standing(0, &[("weight_log", Value::Count(1)), ("unit", Value::Choice("packets"))]);
        q.sample(Time::ZERO);
        assert_eq!(q.avg >> 1, 500);
    }

    #[test]
    fn over_an_idle_time_the_average_decays_as_if_packets_had_left() {
        // 3 ms at 8 Mbit/s are three packets of 1000 bytes: 64,000 (3/4)^3 = 27,000.
        let mut q = queue(&[("weight_log", Value::Count(2))]);
        q.avg = 64_000 << 2;
        q.idle_since = Some(Time::from_millis(10));
        q.sample(Time::from_millis(13));
        assert!((q.avg as i64 - (27_000 << 2)).abs() <= 3, "{}", q.avg);
        assert_eq!(decayed(1 << 40, 9, 0), 1 << 40);
        assert_eq!(decayed(1 << 40, 9, 1 << 40), 0);
        assert_eq!(decayed(7, 0, 1), 0);
        // (511/512)^355 = 0.49955.
        assert!((decayed(1_000_000, 9, 355) as i64 - 499_550).abs() < 20);
    }

    #[test]
    fn gaps_are_uniform_between_one_and_one_over_pb() {
        // pb = 1 % at 60 kB: gaps of 1 to 100, mean 50.5, standard deviation 28.9; of the mean over 2000, 0.65.
        let mut q = standing(60_000, &[]);
        let mut gaps = vec![];
        let mut gap = 0u64;
        while gaps.len() < 2001 {
            gap += 1;
            if q.judge() == Action::Early {
                gaps.push(std::mem::take(&mut gap));
            }
        }
        // The first arrival only draws.
        let gaps = &gaps[1..];
        let mean = gaps.iter().sum::<u64>() as f64 / 2000.0;
        assert!((48.5..52.5).contains(&mean), "{mean}");
        assert!(*gaps.iter().max().unwrap() <= 100 && *gaps.iter().min().unwrap() <= 3);
        let short = gaps.iter().filter(|&&gap| gap <= 25).count();
        assert!((420..580).contains(&short), "a quarter of them, five standard deviations: {short}");
    }

    #[test]
    fn adaptive_holds_the_average_in_the_middle_fifth() {
        let params = queue(&[]).params;
        // The aim is 54 to 66 kB.
        for (avg, from, to) in [
            (66_001, 0.02, 0.025),
            (66_001, 0.1, 0.11),
            (66_001, 0.51, 0.51),
            (60_000, 0.02, 0.02),
            (53_999, 0.02, 0.018),
            (53_999, 0.009, 0.009),
        ] {
            assert!((params.adapted(avg, from) - to).abs() < 1e-12, "{avg} B, {from}");
        }
        let mut q = standing(80_000, &[("adaptive", Value::Bool(true))]);
        let mut cx = Context { now: Time::from_millis(1999), ..Context::default() };
        q.dequeue(&mut cx);
        // Updates at 0.5, 1.0 and 1.5 s: 2 % · 1.25^3.
        assert!((q.max_p - 0.02 * 1.953_125).abs() < 1e-12, "{}", q.max_p);
    }

    #[test]
    fn ecn_marks_early_and_forced_and_harddrop_drops_where_forced() {
        let on = Value::Bool(true);
        for (given, flags, verdict) in [
            (&[] as &[_], Packet::ECT, Verdict::Dropped),
            (&[("ecn", on)], 0, Verdict::Dropped),
            (&[("ecn", on)], Packet::ECT, Verdict::Marked),
            (&[("ecn", on), ("harddrop", on)], Packet::ECT, Verdict::Dropped),
        ] {
            let mut cx = Context::default();
            let mut q = standing(200_000, given);
            assert_eq!(q.enqueue(packet(1, 1500, flags), &mut cx), verdict, "{given:?} {flags}");
            assert_eq!(cx.dropped.len(), usize::from(verdict == Verdict::Dropped));
        }
    }

    #[test]
    fn below_min_everything_passes() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        for seq in 0..10_000 {
            assert_eq!(q.enqueue(packet(seq, 1500, 0), &mut cx), Verdict::Queued);
            if seq >= 15 {
                q.dequeue(&mut cx);
            }
        }
    }
}
