//! `pie`: drops, or marks, what arrives with a probability that a proportional-integral controller sets.
//!
//! The delay of the last packet that left is held against a target; every `tupdate` the probability p moves by
//!
//! ```text
//! p += s · (alpha/16 Hz · (qdelay - target) + beta/16 Hz · (qdelay - qdelay_old))
//! s = 1 for p >= 10 %, 1/2 for p >= 1 %, and a quarter of that for each power of ten below, down to 1/2048
//! ```
//!
//! by at most 2 % where p >= 10 %, and by 2 % more where qdelay > 250 ms. With two updates in a row without delay p
//! loses 1/64. After a time without congestion bursts of up to `max_burst` pass untouched.
//!
//! An arrival is let in without a draw while it is part of a burst, while the delay is below half the target and
//! p < 20 %, or while less than two full frames wait. Draws are made more regular: probabilities are summed up since
//! the last drop; below 0.85 nothing is dropped, from 8.5 on everything.
//!
//! Source: RFC 8033 as Linux net/sched/sch_pie.c has it (delay from timestamps, no estimate of the drain rate): its
//! integer arithmetic, p in units of 2^-56, time in ticks of 64 ns.
//!
//! A queue has no timer: at each call the updates that have come due are made up for, each with the state that the
//! timer would have found; nothing that they read changes between two calls. They are due at whole multiples of
//! `tupdate`.
//!
//! Linux counts `tupdate` in clock ticks, rounded up, and its timer wheel adds one more, so that a timer is never
//! early: with 100 ticks a second 15 ms are 30 ms. `tick` brings this about; by default the time is exact.
//!
//! Departures: the first update is not put off for half a second; p ends at 1 as in the RFC, where Linux's runs beyond;
//! the estimator of the drain rate (off in Linux) is left out; where the limit is lowered, the tail goes first, as in
//! `pfifo`.

use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::registry::Entry;
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::convert::{clamped, index_u32};
use knee_core::{Packet, Param, Params, Rng, Time};

const LINUX: &str = "RFC 8033, 4 and 5; Linux include/net/pie.h";

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "pie",
    about: "proportional integral controller enhanced: random drops that steer the delay to a target",
    source: "RFC 8033; Linux net/sched/sch_pie.c",
    params: &[
        Param::time(
            "target",
            Time::from_millis(15),
            (Time::from_micros(1), Time::from_secs(10)),
            LINUX,
            "delay to steer to",
        ),
        Param::time(
            "tupdate",
            Time::from_millis(15),
            (Time::from_millis(1), Time::from_secs(10)),
            LINUX,
            "time between updates of the probability",
        ),
        Param::time(
            "tick",
            Time::ZERO,
            (Time::ZERO, Time::from_millis(10)),
            "Linux usecs_to_jiffies and calc_index; 10 ms with HZ=100",
            "clock tick of the Linux to be like: updates come after whole ticks and one more; 0: exactly",
        ),
        Param::count("alpha", 2, (0, 32), LINUX, "weight of the distance from the target, in 1/16 Hz"),
        Param::count("beta", 20, (0, 32), LINUX, "weight of the change since the last update, in 1/16 Hz"),
        Param::time(
            "max_burst",
            Time::from_millis(150),
            (Time::ZERO, Time::from_secs(10)),
            LINUX,
            "burst that passes untouched after a time without congestion",
        ),
        Param::switch("ecn", false, LINUX, "mark ECN-capable packets rather than drop them, up to p = 10 %"),
        Param::switch("bytemode", false, LINUX, "scale the probability with the packet's size"),
    ],
    make: |params, init| Box::new(Pie::new(params, init)),
};

/// Packets held where no limit is given (Linux pie_params_init).
const DEFAULT_LIMIT: Limit = Limit::Packets(1000);
/// A probability of one, in units of 2^-56.
const ONE: u64 = u64::MAX >> 8;
/// Ticks of 64 ns in a second.
const TICKS_PER_SEC: u64 = 1_000_000_000 >> TICK_SHIFT;
const TICK_SHIFT: u32 = 6;
/// Above this delay p rises by 2 % more at each update (RFC 8033, 5.2).
const HIGH_DELAY: u64 = ticks(Time::from_millis(250));

/// `time` in ticks, rounded down.
const fn ticks(time: Time) -> u64 {
    time.as_nanos() >> TICK_SHIFT
}

/// What is set; times in ticks.
struct Settings {
    target: u64,
    tupdate: Time,
    alpha: u64,
    beta: u64,
    max_burst: u64,
    ecn: bool,
    bytemode: bool,
    /// Size of a full frame, bytes.
    mtu: u64,
}

/// What the controller knows; times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vars {
    /// Delay of the packet that left last; 0 if it left the queue empty.
    qdelay: u64,
    /// `qdelay` at the last update.
    qdelay_old: u64,
    /// What is left of the burst that passes untouched.
    burst: u64,
    /// When a packet left last, in the current cycle.
    left_at: Option<u64>,
    /// Drop probability, in units of 2^-56.
    prob: u64,
    /// Sum of the probabilities of the arrivals since the last drop, same units.
    accumulated: u64,
}

struct Pie {
    set: Settings,
    vars: Vars,
    next_update: Time,
    fifo: Fifo,
    bound: Bound,
    rng: Rng,
}

impl Settings {
    /// `p` after an update with these delays.
    fn next_prob(&self, p: u64, qdelay: u64, qdelay_old: u64) -> u64 {
        let gain = |weight: u64| i128::from(((weight * (ONE / TICKS_PER_SEC)) >> 4) >> scale_shift(p));
        let (delay, old, target) = (i128::from(qdelay), i128::from(qdelay_old), i128::from(self.target));
        let mut delta = gain(self.alpha) * (delay - target) + gain(self.beta) * (delay - old);
        if p >= ONE / 10 {
            delta = delta.min(i128::from(ONE / 100 * 2));
        }
        if qdelay > HIGH_DELAY {
            delta += i128::from(ONE / 50);
        }
        clamped(i128::from(p) + delta, ONE)
    }

    /// One update, with `backlog` bytes waiting.
    fn update(&self, vars: &mut Vars, backlog: u64) {
        vars.prob = self.next_prob(vars.prob, vars.qdelay, vars.qdelay_old);
        // No delay with packets waiting means that none has left yet: no reason to take p back.
        if vars.qdelay == 0 && vars.qdelay_old == 0 && backlog == 0 {
            vars.prob -= vars.prob / 64;
        }
        let calm = self.target / 2;
        if vars.qdelay < calm && vars.qdelay_old < calm && vars.prob == 0 {
            *vars = Vars { burst: self.max_burst, left_at: None, accumulated: 0, ..*vars };
        }
        vars.qdelay_old = vars.qdelay;
    }
}

/// What becomes of `span` on a clock of `tick`s.
fn in_ticks(span: Time, tick: Time) -> Time {
    if tick == Time::ZERO { span } else { span.ceil_to(tick) + tick }
}

/// log2 of 1/s in the header.
fn scale_shift(p: u64) -> u32 {
    let thresholds = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
    match index_u32(thresholds.iter().take_while(|&&n| p < ONE / n).count()) {
        0 => 0,
        n => 2 * n - 1,
    }
}

impl Pie {
    fn new(params: &Params, init: &Init) -> Self {
        let fifo = Fifo::new(init);
        let set = Settings {
            target: ticks(params.time("target")),
            tupdate: in_ticks(params.time("tupdate"), params.time("tick")),
            alpha: params.count("alpha"),
            beta: params.count("beta"),
            max_burst: ticks(params.time("max_burst")),
            ecn: params.switch("ecn"),
            bytemode: params.switch("bytemode"),
            mtu: fifo.frame(),
        };
        Self {
            vars: Vars { qdelay: 0, qdelay_old: 0, burst: set.max_burst, left_at: None, prob: 0, accumulated: 0 },
            next_update: set.tupdate,
            set,
            fifo,
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
            rng: init.rng.clone(),
        }
    }

    /// Makes up for the updates due by `now`.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        if now >= self.next_update {
            self.make_updates(now);
        }
    }

    fn make_updates(&mut self, now: Time) {
        while now >= self.next_update {
            let before = self.vars;
            self.set.update(&mut self.vars, self.fifo.bytes());
            self.next_update += self.set.tupdate;
            if self.vars == before {
                // The same input gives the same again: the others change nothing either.
                self.next_update = now.floor_to(self.set.tupdate) + self.set.tupdate;
            }
        }
    }

    /// Whether a packet of `size` bytes that comes now is to be dropped or marked.
    fn strikes(&mut self, size: u64) -> bool {
        let vars = &mut self.vars;
        if vars.burst > 0
            || (vars.qdelay < self.set.target / 2 && vars.prob < ONE / 5)
            || self.fifo.bytes() < 2 * self.set.mtu
        {
            return false;
        }
        let scaled = self.set.bytemode && size <= self.set.mtu;
        let prob = if scaled { size * (vars.prob / self.set.mtu) } else { vars.prob };
        vars.accumulated = if prob == 0 { 0 } else { vars.accumulated.saturating_add(prob) };
        if vars.accumulated < ONE / 100 * 85 {
            return false;
        }
        if vars.accumulated >= ONE / 2 * 17 {
            return true;
        }
        let hit = self.rng.next_u64() >> 8 < prob;
        if hit {
            vars.accumulated = 0;
        }
        hit
    }

    /// Notes the delay of `packet`, which leaves at `now`.
    fn note_delay(&mut self, packet: &Packet, now: Time) {
        let now = ticks(now);
        let waiting = self.fifo.len() > 0;
        self.vars.qdelay = if waiting { now - ticks(packet.enqueued) } else { 0 };
        let since_last = self.vars.left_at.map_or(0, |at| now - at);
        self.vars.left_at = Some(now);
        self.vars.burst = self.vars.burst.saturating_sub(since_last);
    }
}

impl Queue for Pie {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
        self.catch_up(cx.now);
        let mut verdict = Verdict::Queued;
        if !self.fifo.has_room(&packet, &self.bound) {
            verdict = Verdict::Dropped;
        } else if self.strikes(self.fifo.wire_size(&packet)) {
            let marked = self.set.ecn && self.vars.prob <= ONE / 10 && cx.mark(&mut packet);
            verdict = if marked { Verdict::Marked } else { Verdict::Dropped };
        }
        if verdict == Verdict::Dropped {
            self.vars.accumulated = 0;
            cx.dropped.push(packet);
        } else {
            self.fifo.push(packet);
        }
        verdict
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        self.catch_up(cx.now);
        let packet = self.fifo.pop()?;
        self.note_delay(&packet, cx.now);
        Some(packet)
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

impl Bursts for Pie {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};
    use knee_core::Value;

    fn queue(given: &[(&str, Value)]) -> Pie {
        Pie::new(&params(&ENTRY, given), &init(&ENTRY, None, 100))
    }

    fn packet(seq: u64, enqueued: Time, flags: u8) -> Packet {
        Packet { enqueued, seq, flags, ..FULL }
    }

    fn share(p: u64) -> f64 {
        p as f64 / ONE as f64
    }

    fn fixed(p: f64) -> u64 {
        (p * ONE as f64) as u64
    }

    const fn ms(ms: u64) -> u64 {
        ticks(Time::from_millis(ms))
    }

    #[test]
    fn the_probability_moves_by_the_worked_steps() {
        let set = queue(&[]).set;
        // 10 ms above the target and 5 ms more than last time: 2/16 · 0.010 + 20/16 · 0.005 = 0.0075, scaled by s.
        for (p, s) in [(0.2, 1.0), (0.05, 2.0), (0.005, 8.0), (5e-4, 32.0), (5e-5, 128.0), (5e-6, 512.0), (0.0, 2048.0)]
        {
            let next = share(set.next_prob(fixed(p), ms(25), ms(20)));
            assert!((next - p - 0.0075 / s).abs() < 1e-8, "from {p}: {next}");
        }
        // 5 ms below the target and falling by 2 ms: -(0.125 · 0.005 + 1.25 · 0.002) = -0.003125.
        let next = share(set.next_prob(fixed(0.5), ms(10), ms(12)));
        assert!((next - 0.496_875).abs() < 1e-8, "{next}");
    }

    #[test]
    fn steps_are_bounded_and_the_probability_stays_within_0_and_1() {
        let set = queue(&[]).set;
        let next = |p, qdelay, old| share(set.next_prob(fixed(p), ms(qdelay), ms(old)));
        // 0.125 · 0.185 + 1.25 · 0.2 = 0.27 is cut to 2 %; from 250 ms on come 2 % more.
        assert!((next(0.2, 200, 0) - 0.22).abs() < 1e-8);
        assert!((next(0.2, 251, 0) - 0.24).abs() < 1e-8);
        assert_eq!((next(0.99, 300, 0), next(0.001, 0, 200)), (1.0, 0.0));
    }

    #[test]
    fn updates_come_exactly_as_often_as_they_are_due() {
        let mut q = queue(&[("max_burst", Value::Time(Time::ZERO))]);
        let mut cx = Context { now: Time::from_millis(1), ..Context::default() };
        for seq in 0..3 {
            q.enqueue(packet(seq, cx.now, 0), &mut cx);
        }
        cx.now = Time::from_millis(14);
        q.vars.prob = fixed(0.5);
        q.dequeue(&mut cx);
        let mut p = q.vars.prob;
        // At 15 ms the first update, with the 13 ms that the packet stayed; at 150 ms nine more without a change.
        p = q.set.next_prob(p, ms(13), 0);
        for _ in 0..9 {
            p = q.set.next_prob(p, ms(13), ms(13));
        }
        cx.now = Time::from_micros(164_999);
        q.dequeue(&mut cx);
        assert_eq!(q.vars.prob, p);
        assert_eq!(q.next_update, Time::from_millis(165));
    }

    #[test]
    fn idle_updates_skipped_or_made_come_to_the_same() {
        let (mut skipping, mut cx) = (queue(&[]), Context::default());
        skipping.vars.prob = fixed(0.3);
        let mut vars = skipping.vars;
        for _ in 0..100_000 {
            skipping.set.update(&mut vars, 0);
        }
        cx.now = Time::from_millis(15) * 100_000;
        skipping.dequeue(&mut cx);
        assert_eq!((skipping.vars, vars.prob), (vars, 0));
        assert_eq!(skipping.next_update, Time::from_millis(15) * 100_001);
    }

    #[test]
    fn on_a_clock_of_ticks_updates_come_after_whole_ticks_and_one_more() {
        let ms = Time::from_millis;
        for (tick, span) in [(0, 15), (1, 16), (4, 20), (10, 30)] {
            assert_eq!(in_ticks(ms(15), ms(tick)), ms(span), "tick {tick} ms");
        }
    }

    #[test]
    fn two_updates_without_delay_take_a_64th() {
        let set = queue(&[("alpha", Value::Count(0))]).set;
        let mut vars = Vars { qdelay: 0, qdelay_old: 0, burst: 0, left_at: None, prob: 64_000, accumulated: 0 };
        set.update(&mut vars, 0);
        assert_eq!(vars.prob, 63_000);
        set.update(&mut vars, 1514);
        assert_eq!(vars.prob, 63_000, "not while packets wait");
    }

    /// A queue with a standing delay and a given probability, which no update will change.
    fn steady(p: f64, given: &[(&str, Value)]) -> (Pie, Context) {
        let mut q = queue(given);
        q.next_update = Time::MAX;
        q.vars = Vars { qdelay: ms(20), burst: 0, prob: fixed(p), ..q.vars };
        for seq in 0..2 {
            q.fifo.push(packet(seq, Time::ZERO, 0));
        }
        (q, Context::default())
    }

    #[test]
    fn nothing_is_struck_in_a_burst_at_low_delay_or_with_less_than_two_frames() {
        let strikes = |change: fn(&mut Pie)| {
            let (mut q, _) = steady(0.19, &[]);
            q.vars.accumulated = ONE * 9;
            change(&mut q);
            q.strikes(1514)
        };
        assert!(strikes(|_| ()));
        assert!(!strikes(|q| q.vars.burst = 1));
        assert!(!strikes(|q| q.vars.qdelay = ms(7)));
        assert!(strikes(|q| (q.vars.qdelay, q.vars.prob) = (ms(7), fixed(0.21))));
        assert!(!strikes(|q| q.fifo.drop_tail(&mut Context::default())));
    }

    #[test]
    fn a_burst_is_used_up_by_the_time_between_departures() {
        let mut q = queue(&[]);
        let mut cx = Context::default();
        for seq in 0..20 {
            q.enqueue(packet(seq, Time::ZERO, 0), &mut cx);
        }
        q.next_update = Time::MAX;
        for at in [100, 110, 150, 249, 250] {
            cx.now = Time::from_millis(at);
            q.dequeue(&mut cx);
        }
        // From the first departure at 100 ms to 250 ms: the 150 ms are gone at the last.
        assert_eq!(q.vars.burst, 0);
        q.vars.burst = ms(2);
        cx.now = Time::from_millis(251);
        q.dequeue(&mut cx);
        assert_eq!(q.vars.burst, ms(1));
    }

    #[test]
    fn drops_come_as_often_as_p_says_but_never_close_together() {
        // With p = 5 % the sum is below 0.85 for 16 arrivals; from the 17th on each is a draw: 16 + 20 on average. The
        // standard deviation of a gap is sqrt(0.95)/0.05 = 19.5, of the mean over 1000 gaps 0.62.
        let (mut q, _) = steady(0.05, &[]);
        let mut gaps = vec![];
        let mut gap = 0;
        while gaps.len() < 1000 {
            gap += 1;
            if q.strikes(1514) {
                gaps.push(gap);
                gap = 0;
            }
        }
        let mean = gaps.iter().sum::<u32>() as f64 / 1000.0;
        assert!(*gaps.iter().min().unwrap() >= 17 && *gaps.iter().max().unwrap() <= 170);
        assert!((34.1..37.9).contains(&mean), "{mean}");
    }

    #[test]
    fn in_bytemode_small_packets_are_struck_less() {
        let (mut q, _) = steady(0.5, &[("bytemode", Value::Bool(true))]);
        q.strikes(757);
        assert!((share(q.vars.accumulated) - 0.25).abs() < 1e-9);
        q.strikes(1514);
        assert!((share(q.vars.accumulated) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn ecn_marks_up_to_ten_percent_and_drops_above() {
        for (p, flags, verdict) in [
            (0.099, Packet::ECT, Verdict::Marked),
            (0.099, 0, Verdict::Dropped),
            (0.101, Packet::ECT, Verdict::Dropped),
        ] {
            let (mut q, mut cx) = steady(p, &[("ecn", Value::Bool(true))]);
            q.vars.accumulated = ONE * 9;
            assert_eq!(q.enqueue(packet(9, Time::ZERO, flags), &mut cx), verdict, "p = {p}");
            assert_eq!(cx.marks, u64::from(verdict == Verdict::Marked));
        }
    }
}
