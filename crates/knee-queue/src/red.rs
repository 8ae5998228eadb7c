//! `red`: random early detection, drops or marks what arrives with a probability that grows with the average queue.
//!
//! ```text
//! avg := avg + w (q - avg)                       at each arrival; w = 2^-weight_log, q the queue that it finds
//! avg := about avg (1 - w)^m                     instead, after an idle time of m average packets
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
//! average, order of steps, decay over an idle time, `ecn` and `harddrop` as Linux net/sched/sch_red.c with the table
//! of iproute2's tc; thresholds and limit by default as in the example of tc-red(8).
//!
//! The queue counts in bytes as in Linux, or with `unit = "packets"` as the paper's does: each packet then counts as
//! one of `avpkt` bytes, so that min = 5000 B with avpkt = 1000 B are 5 packets.
//!
//! Departures: max_p is a float, not 32 bits; `gentle` is not in Linux; `max` below `min` counts as equal to it;
//! `nodrop` is not offered; the average is kept where the limit changes, and the tail goes first, as in `pfifo`. An
//! idle time begins where the last packet has left a link of the queue's rate. The updates of `adaptive` are made up
//! for at each call, each with the average at its time: a queue has no timer.

use crate::Entry;
use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::convert::{index, truncated_u32};
use knee_core::{Bytes, Packet, Rate, Rng, Time, choice, params};
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
    decay: Decay,
    /// From when on nothing is queued and the link is idle.
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

/// How the average falls over an idle time (`red_calc_qavg_from_idle_time`): by powers of two from a table over cells
/// of 2^`cell_log` microseconds, and along a line to a half before the first of them.
#[derive(Clone)]
struct Decay {
    cell_log: u32,
    table: [u32; 256],
}

impl Decay {
    /// Greatest power in the table.
    const MOST: f64 = 31.0;
    /// Units of tc's clock in a microsecond. Linux counts microseconds, so the table falls by as much too slowly.
    const TICKS: f64 = 15.625;

    /// As `tc_red_eval_idle_damping` of iproute2, for average packets of `avpkt` at `rate`.
    fn new(weight_log: u32, avpkt: Bytes, rate: Rate) -> Self {
        let packet = (avpkt.0 as f64 * 8e6 / rate.as_bps().max(1) as f64 * Self::TICKS).trunc().max(1.0);
        let fall = minus_ln_one_less(weight_log) / packet;
        let cell_log = (0..32).find(|log| Self::MOST / fall / f64::from(1u32 << log) < 512.0).unwrap_or(31);
        let mut table = [31; 256];
        for (i, power) in (0u32..255).zip(&mut table) {
            let at = f64::from(i) * f64::from(1u32 << cell_log) * fall;
            *power = if i == 0 { 0 } else { truncated_u32(at.min(Self::MOST)) };
        }
        Self { cell_log, table }
    }

    /// `avg` after being idle for this long.
    fn over(&self, avg: u64, idle: Time) -> u64 {
        let us = idle.as_micros().min(255 << self.cell_log);
        let power = self.table[index(us >> self.cell_log)];
        if power > 0 {
            return avg >> power;
        }
        // Along a line: to a half within half a cell.
        let fallen = (u128::from(avg) * u128::from(us)) >> self.cell_log;
        avg - u64::try_from(fallen).map_or(avg / 2, |fallen| fallen.min(avg / 2))
    }
}

/// -ln(1 - 2^-`log`), by its series: the same bits everywhere.
fn minus_ln_one_less(log: u32) -> f64 {
    if log == 0 {
        return f64::INFINITY;
    }
    let x = (0..log).fold(1.0, |x, _| x / 2.0);
    let (mut sum, mut power) = (0.0, 1.0);
    for k in 1..=64 {
        power *= x;
        sum += power / f64::from(k);
    }
    sum
}

impl Red {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            params: Params { max: params.max.max(params.min), ..params },
            avg: 0,
            max_p: params.probability,
            count: None,
            drawn: 0.0,
            decay: Decay::new(params.weight_log, params.avpkt, init.rate),
            idle_since: Some(Time::ZERO),
            next_update: ADAPT_INTERVAL,
            fifo: Fifo::new(init),
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
            rng: init.rng.clone(),
        }
    }

    /// For how long the link has been idle.
    fn idle_for(&self, now: Time) -> Option<Time> {
        self.idle_since.filter(|since| *since <= now).map(|since| now - since)
    }

    /// The average queue in units of 2^-weight_log bytes, were it looked at now.
    fn avg_at(&self, now: Time) -> u64 {
        self.idle_for(now).map_or(self.avg, |idle| self.decay.over(self.avg, idle))
    }

    /// Takes the queue that an arrival finds into the average.
    fn sample(&mut self, now: Time) {
        let idle = self.idle_for(now).is_some();
        let decayed = self.avg_at(now);
        self.idle_since = None;
        if idle {
            self.avg = decayed;
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

    /// Notes that the link is idle from a time on, if nothing is queued.
    fn note_idle(&mut self, from: Time) {
        if self.fifo.is_empty() && self.idle_since.is_none() {
            self.idle_since = Some(from);
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
        let takes = self.bound.rate().time_for(Bytes(self.fifo.wire_size(&packet)));
        self.note_idle(cx.now.saturating_add(takes));
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.catch_up(cx.now);
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

    /// tc's table for 1000 bytes at 10 Mbit/s and w = 1/512: a packet takes 12,500 ticks, a cell is 2^19 us, and the
    /// power is one from the 13th on, since -ln(1 - 1/512) 12 2^19 / 12,500 = 0.9840.
    #[test]
    fn over_an_idle_time_the_average_falls_as_in_linux() {
        let decay = Decay::new(9, Bytes(1000), Rate::from_mbps(10));
        assert_eq!((decay.cell_log, decay.table[12], decay.table[13], decay.table[255]), (19, 0, 1, 31));
        let over = |ms| decay.over(1 << 20, Time::from_millis(ms));
        assert_eq!(over(0), 1 << 20);
        // Along a line: 131,072 of 524,288 us.
        assert_eq!(decay.over(1 << 20, Time::from_micros(1 << 17)), 3 << 18);
        assert_eq!((over(263), over(6_000), over(6_900)), (1 << 19, 1 << 19, 1 << 19));
        // 38 cells: 3.119.
        assert_eq!((over(20_000), over(1 << 40)), (1 << 17, 0));
        assert!((minus_ln_one_less(1) - std::f64::consts::LN_2).abs() < 1e-15);
        assert_eq!(Decay::new(0, Bytes(1000), Rate::from_mbps(10)).over(7, Time::from_millis(1)), 0);
    }

    #[test]
    fn an_idle_time_begins_where_the_last_packet_has_left() {
        // 1500 bytes at 8 Mbit/s take 1.5 ms; what comes before that finds an empty queue, not an idle link.
        let mut q = standing(60_000, &[]);
        let mut cx = Context::at(Time::from_millis(10));
        assert!(q.dequeue(&mut cx).is_some());
        assert_eq!(q.idle_for(Time::from_micros(11_499)), None);
        assert_eq!(q.idle_for(Time::from_micros(12_500)), Some(Time::from_millis(1)));
        let before = q.avg;
        q.sample(Time::from_micros(11_499));
        assert_eq!(q.avg, before - (before >> 9));
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
        let mut cx = Context::at(Time::from_millis(1999));
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
