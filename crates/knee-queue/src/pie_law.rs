//! PIE's control law, a part that serves every discipline with a PIE in it: one [`PieLaw`] for all queues, one
//! [`PieState`] per queue.
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
//! With `dq_rate_estimator` the delay is what waits over an estimate of the drain rate: while at least 16 KiB wait, the
//! time in which 16 KiB leave gives a sample of the rate, and the estimate moves by an eighth towards each. In Linux's
//! units a rate below 0.49 Mbit/s is 0, which counts as unknown: no delay.
//!
//! Source: RFC 8033 as Linux net/sched/sch_pie.c (7.2) has it: its integer arithmetic, p in units of 2^-56, time in
//! ticks of 64 ns, rates in 1/256 of a byte per tick. By default the delay is that of timestamps.
//!
//! A queue has no timer: at each call the updates that have come due are made up for, each with the state that the
//! timer would have found; nothing that they read changes between two calls.
//!
//! Linux counts `tupdate` in clock ticks, rounded up, and its timer wheel adds one more, so that a timer is never
//! early: 15 ms are 20 ms with 250 ticks a second, and 30 ms with 100. `tick` brings this about; 0 makes it exact.
//!
//! In Linux p runs beyond 1, up to 256, from where it comes back as slowly as it went, and falls back to 1 where its 64
//! bits overflow; a discipline chooses this or the RFC's p, which ends at 1.
//!
//! Departure: times and bytes are 64 bits wide and do not wrap.

use knee_core::convert::{clamped, index_u32};
use knee_core::{Packet, Rng, Time, params};

const LINUX: &str = "RFC 8033, 4 and 5; Linux include/net/pie.h";

params! {
    /// The parameters that all disciplines with a PIE share; `ecn` is declared by each.
    pub(crate) struct PieParams {
        //= RFC 8033, 4.2
        //# The target latency value, QDELAY_REF, SHOULD be set to 15 milliseconds.
        /// delay to steer to
        target: Time = Time::from_millis(15), in Time::from_micros(1)..=Time::from_secs(10), from LINUX;
        //= RFC 8033, 4.2
        //# The update interval, T_UPDATE, is defaulted to be 15 milliseconds.
        /// time between updates of the probability
        tupdate: Time = Time::from_millis(15), in Time::from_millis(1)..=Time::from_secs(10), from LINUX;
        /// the kernel's clock tick: updates come after whole ticks and one more; 0: exactly; in scenarios that of [tcp]
        tick: Time = Time::from_millis(4), in Time::ZERO..=Time::from_secs(1),
            from "Linux usecs_to_jiffies and calc_index; 4 ms with HZ=250";
        /// weight of the distance from the target, in 1/16 Hz
        alpha: u64 = 2, in 0..=32, from LINUX;
        /// weight of the change since the last update, in 1/16 Hz
        beta: u64 = 20, in 0..=32, from LINUX;
        //= RFC 8033, 4.4
        //# By default, the parameter SHOULD be set to 150 milliseconds.
        /// burst that passes untouched after a time without congestion
        max_burst: Time = Time::from_millis(150), in Time::ZERO..=Time::from_secs(10), from LINUX;
    }
}

params! {
    /// Parameters of all disciplines with a PIE that are listed after `ecn`.
    pub(crate) struct PieOptions {
        /// scale the probability with the packet's size
        bytemode: bool = false, from LINUX;
        /// take the delay from the backlog and an estimate of the drain rate, not from timestamps
        dq_rate_estimator: bool = false, from "RFC 8033, 4.3; Linux include/net/pie.h";
    }
}

/// A probability of one, in units of 2^-56.
pub(crate) const ONE: u64 = u64::MAX >> 8;
/// Ticks of 64 ns in a second.
const TICKS_PER_SEC: u64 = 1_000_000_000 >> TICK_SHIFT;
const TICK_SHIFT: u32 = 6;
/// Above this delay p rises by 2 % more at each update (Linux pie_calculate_probability; RFC 8033 has nothing like it).
const HIGH_DELAY: u64 = ticks(Time::from_millis(250));
//= RFC 8033, 5.2
//# It is recommended that the threshold be set to 16 KB, assuming a typical packet size of around 1 KB or 1.5 KB.
/// Bytes that must wait for the drain rate to be measured, and that leave during a measurement (Linux QUEUE_THRESHOLD).
const THRESHOLD: u64 = 1 << 14;
/// log2 of the units of rates in a byte per tick (Linux PIE_SCALE).
const RATE_SHIFT: u32 = 8;

/// `time` in ticks, rounded down.
pub(crate) const fn ticks(time: Time) -> u64 {
    time.as_nanos() >> TICK_SHIFT
}

/// The length of a timer of `span` on a clock of `tick`s.
pub(crate) fn in_ticks(span: Time, tick: Time) -> Time {
    if tick == Time::ZERO { span } else { span.ceil_to(tick) + tick }
}

/// Constants of the law, from the parameters; times in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieLaw {
    target: u64,
    alpha: u64,
    beta: u64,
    max_burst: u64,
    bytemode: bool,
    /// True if p runs beyond 1.
    beyond_one: bool,
    /// True if the delay comes from the drain rate.
    estimates: bool,
    /// Size of a full frame, bytes.
    mtu: u64,
    /// ECN-capable packets are marked, and not dropped, up to this probability. `None` for never.
    mark_up_to: Option<u64>,
}

/// The state of one queue's PIE; times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieState {
    /// Delay of the packet that left last, 0 if it left the queue empty; by the drain rate: at the last update.
    pub(crate) qdelay: u64,
    /// `qdelay` at the last update.
    pub(crate) qdelay_old: u64,
    /// The rest of the burst that passes untouched.
    pub(crate) burst: u64,
    /// When a packet left last, in the current cycle.
    left_at: Option<u64>,
    /// The measurement of the drain rate that is under way: when it began, and the bytes that left since.
    measured: Option<(u64, u64)>,
    /// Estimate of the drain rate, in 1/256 of a byte per tick; 0: none yet.
    drain_rate: u64,
    /// Drop probability, in units of 2^-56.
    pub(crate) prob: u64,
    /// Sum of the probabilities of the arrivals since the last drop, same units.
    pub(crate) accumulated: u64,
}

/// When the updates of a queue are due: first, and how long after each the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updates {
    /// When the next update is due.
    pub(crate) next: Time,
    /// Time between two updates.
    pub(crate) period: Time,
}

impl PieLaw {
    /// From the parameters and the size of a full frame.
    pub(crate) fn new(params: &PieParams, options: PieOptions, mtu: u64, mark_up_to: Option<u64>) -> Self {
        Self {
            target: ticks(params.target),
            alpha: params.alpha,
            beta: params.beta,
            max_burst: ticks(params.max_burst),
            bytemode: options.bytemode,
            beyond_one: false,
            estimates: options.dq_rate_estimator,
            mtu,
            mark_up_to,
        }
    }

    /// Lets p run beyond 1, as in Linux.
    pub(crate) const fn beyond_one(self) -> Self {
        Self { beyond_one: true, ..self }
    }

    /// A queue's state before its first packet.
    pub(crate) const fn start(&self) -> PieState {
        PieState {
            qdelay: 0,
            qdelay_old: 0,
            burst: self.max_burst,
            left_at: None,
            measured: None,
            drain_rate: 0,
            prob: 0,
            accumulated: 0,
        }
    }

    /// `p` after an update with these delays.
    pub(crate) fn next_prob(&self, p: u64, qdelay: u64, qdelay_old: u64) -> u64 {
        let gain = |weight: u64| i128::from(((weight * (ONE / TICKS_PER_SEC)) >> 4) >> scale_shift(p));
        let (delay, old, target) = (i128::from(qdelay), i128::from(qdelay_old), i128::from(self.target));
        //= RFC 8033, 4.2
        //# p = alpha * (current_qdelay - QDELAY_REF) + beta * (current_qdelay - PIE->qdelay_old_);
        let mut delta = gain(self.alpha) * (delay - target) + gain(self.beta) * (delay - old);
        //= RFC 8033, 5.5
        //# if (PIE->drop_prob_ >= 0.1 && p > 0.02) { p = 0.02; }
        if p >= ONE / 10 {
            delta = delta.min(i128::from(ONE / 100 * 2));
        }
        if qdelay > HIGH_DELAY {
            delta += i128::from(ONE / 50);
        }
        let next = i128::from(p) + delta;
        //= RFC 8033, 4.2 (departs: fq_pie's p goes beyond 1, as in Linux)
        //# if (PIE->drop_prob_ < 0) PIE->drop_prob_ = 0.0 if (PIE->drop_prob_ > 1) PIE->drop_prob_ = 1.0
        if self.beyond_one && next <= i128::from(u64::MAX) { clamped(next, u64::MAX) } else { clamped(next, ONE) }
    }

    /// Makes one update, with `backlog` bytes waiting.
    pub(crate) fn update(&self, state: &mut PieState, backlog: u64) {
        if self.estimates {
            state.qdelay_old = state.qdelay;
            //= RFC 8033, 4.3
            //# current_qdelay = queue_.byte_length()/dequeue_rate;
            state.qdelay = (backlog << RATE_SHIFT).checked_div(state.drain_rate).unwrap_or(0);
        }
        state.prob = self.next_prob(state.prob, state.qdelay, state.qdelay_old);
        // No delay with packets waiting means that none has left yet: no reason to take p back.
        //= RFC 8033, 4.2 (departs: Linux asks for an empty queue too)
        //# if (current_qdelay == 0 && PIE->qdelay_old_ == 0) { PIE->drop_prob_ = PIE->drop_prob_ * 0.98; //1 - 1/64 is
        //# //sufficient }
        if state.qdelay == 0 && state.qdelay_old == 0 && backlog == 0 {
            state.prob -= state.prob / 64;
        }
        let calm = self.target / 2;
        //= RFC 8033, 4.4
        //# if (PIE->drop_prob_ == 0 and current_qdelay < QDELAY_REF/2 and PIE->qdelay_old_ < QDELAY_REF/2)
        //# PIE->burst_allowance_ = MAX_BURST;
        let knows = !self.estimates || state.drain_rate > 0;
        if state.qdelay < calm && state.qdelay_old < calm && state.prob == 0 && knows {
            *state = PieState { qdelay: state.qdelay, qdelay_old: state.qdelay_old, ..self.start() };
        }
        if !self.estimates {
            state.qdelay_old = state.qdelay;
        }
    }

    /// Makes up for the updates due by `now`, with `backlog` bytes waiting at each.
    #[inline]
    pub(crate) fn catch_up(&self, state: &mut PieState, due: &mut Updates, backlog: u64, now: Time) {
        if now >= due.next {
            self.make_updates(state, due, backlog, now);
        }
    }

    fn make_updates(&self, state: &mut PieState, due: &mut Updates, backlog: u64, now: Time) {
        while now >= due.next {
            let before = *state;
            self.update(state, backlog);
            if *state == before {
                // Further updates from the same input change nothing.
                due.next += (now - due.next).floor_to(due.period);
            }
            due.next += due.period;
            if self.beyond_one && state.qdelay > 0 && now >= due.next {
                let more = (now - due.next).as_nanos() / due.period.as_nanos();
                due.next += due.period * Self::repeat(state, &before, more);
            }
        }
    }

    /// From p = 10 % on, with the same delay again, p moves by the same at each update: repeats the last one, at most
    /// `most` times and not beyond the range in which that holds. Gives how many times.
    fn repeat(state: &mut PieState, before: &PieState, most: u64) -> u64 {
        let steady = PieState { prob: before.prob, ..*state } == *before;
        let (up, down) = (state.prob.saturating_sub(before.prob), before.prob.saturating_sub(state.prob));
        if !steady || before.prob < ONE / 10 || state.prob < ONE / 10 {
            return 0;
        }
        let times = match (up, down) {
            (0, 0) => 0,
            (0, _) => most.min((state.prob - ONE / 10) / down),
            _ => most.min((u64::MAX - state.prob) / up),
        };
        state.prob = state.prob + up * times - down * times;
        times
    }

    /// True if a packet of `size` bytes that finds `backlog` bytes is to be dropped or marked.
    pub(crate) fn drops(&self, state: &mut PieState, backlog: u64, size: u64, rng: &mut Rng) -> bool {
        //= RFC 8033, 4.1 (departs: Linux takes the newest delay, and the MTU for the mean size)
        //# if ( (PIE->qdelay_old_ < QDELAY_REF/2 && PIE->drop_prob_ < 0.2) || (queue_.byte_length() <= 2 *
        //# MEAN_PKTSIZE) ) return ENQUE;
        //= RFC 8033, 4.4
        //# if PIE->burst_allowance_ > 0 enqueue packet;
        if state.burst > 0 || (state.qdelay < self.target / 2 && state.prob < ONE / 5) || backlog < 2 * self.mtu {
            return false;
        }
        let scaled = self.bytemode && size <= self.mtu;
        let prob = if scaled { size * (state.prob / self.mtu) } else { state.prob };
        //= RFC 8033, 5.4
        //# Upon packet arrival, PIE->accu_prob_ is incremented by the amount of drop probability, PIE->drop_prob_.
        state.accumulated = if prob == 0 { 0 } else { state.accumulated.wrapping_add(prob) };
        //= RFC 8033, 5.4
        //# If PIE->accu_prob_ is less than a low threshold, e.g., 0.85, the arriving packet is enqueued; on the other
        //# hand, if PIE->accu_prob_ is more than a high threshold, e.g., 8.5, and the queue is congested, the arrival
        //# packet is forced to be dropped.
        if state.accumulated < ONE / 100 * 85 {
            return false;
        }
        if state.accumulated >= ONE / 2 * 17 {
            return true;
        }
        //= RFC 8033, 4.1
        //# randomly drop the packet with a probability of PIE->drop_prob_.
        let hit = rng.next_u64() >> 8 < prob;
        if hit {
            state.accumulated = 0;
        }
        hit
    }

    /// True if a packet that is struck is marked when it is ECN-capable.
    pub(crate) fn may_mark(&self, state: &PieState) -> bool {
        //= RFC 8033, 5.1
        //# if the calculated drop probability exceeds mark_ecnth, PIE reverts to packet-dropping for ECN-capable
        //# packets.
        self.mark_up_to.is_some_and(|most| state.prob <= most)
    }

    /// Notes that `packet`, of `size` bytes, leaves at `now` and leaves `backlog` bytes behind.
    pub(crate) fn depart(&self, state: &mut PieState, packet: &Packet, size: u64, backlog: u64, now: Time) {
        let now = ticks(now);
        let passed = if self.estimates {
            state.measure(size, backlog, now)
        } else {
            //= RFC 8033, 4.3
            //# It may use other techniques for calculating queuing latency, e.g., time-stamp the packets at enqueue,
            //# and use the timestamps to calculate latency during dequeue.
            state.qdelay = if backlog > 0 { now - ticks(packet.at) } else { 0 };
            let since_last = state.left_at.map_or(0, |at| now - at);
            state.left_at = Some(now);
            since_last
        };
        //= RFC 8033, 4.4 (departs: as packets leave, by the time that has passed, as in Linux)
        //# PIE->burst_allowance_ = max(0,PIE->burst_allowance_ - T_UPDATE);
        state.burst = state.burst.saturating_sub(passed);
    }
}

impl PieState {
    /// Measures the drain rate; gives the time that a measurement took, which ends with this packet, or 0.
    fn measure(&mut self, size: u64, backlog: u64, now: u64) -> u64 {
        //= RFC 8033, 5.2
        //# if PIE->in_measurement_ == FALSE and queue.byte_length() >= DQ_THRESHOLD: PIE->in_measurement_ = TRUE;
        //# PIE->measurement_start_ = now; PIE->dq_count_ = 0;
        if self.measured.is_none() && backlog >= THRESHOLD {
            self.measured = Some((now, 0));
        }
        let Some((since, bytes)) = &mut self.measured else { return 0 };
        *bytes += size;
        let took = now - *since;
        if *bytes < THRESHOLD || took == 0 {
            return 0;
        }
        let sample = (*bytes << RATE_SHIFT) / took;
        let old = self.drain_rate;
        //= RFC 8033, 5.2 (departs: Linux averages the rate, with a weight of 1/8)
        //# PIE->avg_dq_time_ = (now - PIE->measurement_start_) * weight + PIE->avg_dq_time_ * (1 - weight);
        self.drain_rate = if old == 0 { sample } else { old - (old >> 3) + (sample >> 3) };
        self.measured = (backlog >= THRESHOLD).then_some((now, 0));
        took
    }
}

/// log2 of 1/s in the header.
fn scale_shift(p: u64) -> u32 {
    //= RFC 8033, 4.2
    //# if (PIE->drop_prob_ < 0.000001) { p /= 2048; } else if (PIE->drop_prob_ < 0.00001) { p /= 512; } else if
    //# (PIE->drop_prob_ < 0.0001) { p /= 128; } else if (PIE->drop_prob_ < 0.001) { p /= 32; } else if (PIE->drop_prob_
    //# < 0.01) { p /= 8; } else if (PIE->drop_prob_ < 0.1) { p /= 2; } else { p = p; }
    let thresholds = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
    match index_u32(thresholds.iter().take_while(|&&n| p < ONE / n).count()) {
        0 => 0,
        n => 2 * n - 1,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::pie::{ENTRY, Params};
    use crate::testing::params;
    use knee_core::Value;

    pub(crate) fn share(p: u64) -> f64 {
        p as f64 / ONE as f64
    }

    pub(crate) fn fixed(p: f64) -> u64 {
        (p * ONE as f64) as u64
    }

    pub(crate) const fn ms(ms: u64) -> u64 {
        ticks(Time::from_millis(ms))
    }

    fn law(given: &[(&str, Value)]) -> PieLaw {
        let params: Params = params(&ENTRY, given);
        PieLaw::new(&params.pie, params.options, 1514, None)
    }

    #[test]
    fn the_probability_moves_by_the_worked_steps() {
        let law = law(&[]);
        // 10 ms above the target and 5 ms more than last time: 2/16 · 0.010 + 20/16 · 0.005 = 0.0075, scaled by s.
        for (p, s) in [(0.2, 1.0), (0.05, 2.0), (0.005, 8.0), (5e-4, 32.0), (5e-5, 128.0), (5e-6, 512.0), (0.0, 2048.0)]
        {
            let next = share(law.next_prob(fixed(p), ms(25), ms(20)));
            assert!((next - p - 0.0075 / s).abs() < 1e-8, "from {p}: {next}");
        }
        // 5 ms below the target and falling by 2 ms: -(0.125 · 0.005 + 1.25 · 0.002) = -0.003125.
        let next = share(law.next_prob(fixed(0.5), ms(10), ms(12)));
        assert!((next - 0.496_875).abs() < 1e-8, "{next}");
    }

    #[test]
    fn steps_are_bounded_and_the_probability_stays_within_0_and_1() {
        let law = law(&[]);
        let next = |p, qdelay, old| share(law.next_prob(fixed(p), ms(qdelay), ms(old)));
        // 0.125 · 0.185 + 1.25 · 0.2 = 0.27 is cut to 2 %; from 250 ms on come 2 % more.
        assert!((next(0.2, 200, 0) - 0.22).abs() < 1e-8);
        assert!((next(0.2, 251, 0) - 0.24).abs() < 1e-8);
        assert_eq!((next(0.99, 300, 0), next(0.001, 0, 200)), (1.0, 0.0));
    }

    #[test]
    fn in_linux_the_probability_runs_beyond_1_until_its_64_bits_overflow() {
        let law = law(&[]).beyond_one();
        let next = |p, qdelay, old| share(law.next_prob(fixed(p), ms(qdelay), ms(old)));
        assert!((next(0.99, 300, 0) - 1.03).abs() < 1e-8);
        assert!((next(7.0, 25, 25) - 7.001_25).abs() < 1e-8);
        assert_eq!((next(255.99, 300, 0), next(0.001, 0, 200)), (1.0, 0.0));
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
        let law = law(&[("alpha", Value::Count(0))]);
        let mut state = PieState { burst: 0, prob: 64_000, ..law.start() };
        law.update(&mut state, 0);
        assert_eq!(state.prob, 63_000);
        law.update(&mut state, 1514);
        assert_eq!(state.prob, 63_000, "not while packets wait");
    }

    #[test]
    fn updates_repeated_or_made_one_by_one_come_to_the_same() {
        // From below 10 % up, from far above 1 down to 10 %, and through the overflow, with a delay that stands.
        for (target, p, delay, backlog) in [(5, 0.0, 20, 1), (500, 90.0, 1, 1), (1, 255.5, 400, 1), (5, 40.0, 0, 0)] {
            let law = law(&[("target", Value::Time(Time::from_millis(target)))]).beyond_one();
            let state = PieState { qdelay: ms(delay), prob: fixed(p), burst: 0, ..law.start() };
            let (mut one_by_one, mut made_up) = (state, state);
            let mut due = Updates { next: Time::from_millis(15), period: Time::from_millis(15) };
            for updates in 1..20_000 {
                law.update(&mut one_by_one, backlog);
                if updates % 7_001 == 0 {
                    law.catch_up(&mut made_up, &mut due, backlog, Time::from_millis(15) * updates);
                    assert_eq!(made_up, one_by_one, "{updates} updates from p = {p}");
                    assert_eq!(due.next, Time::from_millis(15) * (updates + 1));
                }
            }
        }
    }

    /// Packets of 1024 bytes leave 100 us apart, the first `wait` bytes before the queue would be empty.
    fn drained(law: &PieLaw, mut wait: u64) -> PieState {
        let mut state = law.start();
        let mut now = Time::ZERO;
        while wait > 0 {
            wait -= 1024;
            law.depart(&mut state, &crate::testing::FULL, 1024, wait, now);
            now += Time::from_micros(100);
        }
        state
    }

    #[test]
    fn the_drain_rate_is_measured_over_16_kib_while_as_much_waits() {
        let law = law(&[("dq_rate_estimator", Value::Bool(true))]);
        assert_eq!(drained(&law, 1 << 14).drain_rate, 0, "the first packet leaves less than 16 KiB behind");
        // 32 KiB: the first packet begins a measurement, and 15 intervals later 16 KiB have left: in 1500 us, which are
        // 23,437 ticks, so that the rate is 16,384 · 256 / 23,437 = 178.9, and the burst has that much less left. The
        // backlog is still 16 KiB: another measurement begins, and takes 16 intervals, 25,000 ticks: a sample of 167.
        let state = drained(&law, 1 << 15);
        assert_eq!(state.drain_rate, 178 - 22 + 20);
        assert_eq!(state.burst, ms(150) - 23_437 - 25_000);
        assert_eq!(state.measured, None, "nothing waits any more");
    }

    #[test]
    fn with_the_estimator_the_delay_is_the_backlog_over_the_rate_at_each_update() {
        let law = law(&[("dq_rate_estimator", Value::Bool(true))]);
        let mut state = PieState { drain_rate: 256, burst: 0, ..law.start() };
        // A byte per tick of 64 ns: 400,000 bytes are 25.6 ms.
        law.update(&mut state, 400_000);
        assert_eq!((state.qdelay, state.qdelay_old), (400_000, 0));
        assert_eq!(state.prob, law.next_prob(0, 400_000, 0));
        law.update(&mut state, 300_000);
        assert_eq!((state.qdelay, state.qdelay_old), (300_000, 400_000));
        // Without a rate nothing is known of the delay; and nothing begins anew.
        let mut unknown = PieState { burst: 5, ..law.start() };
        law.update(&mut unknown, 400_000);
        assert_eq!((unknown.qdelay, unknown.prob, unknown.burst), (0, 0, 5));
    }

    #[test]
    fn a_calm_queue_begins_anew() {
        // After two updates below half the target with p = 0: a whole burst, and no rate.
        let law = law(&[("dq_rate_estimator", Value::Bool(true))]);
        let mut state = PieState { drain_rate: 256, burst: 0, accumulated: 9, ..law.start() };
        law.update(&mut state, 0);
        assert_eq!(state, law.start());
    }
}
