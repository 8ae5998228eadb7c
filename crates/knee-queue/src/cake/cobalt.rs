//! COBALT: CoDel for flows that answer to signals, BLUE for those that do not, side by side.
//!
//! CoDel here is one mechanism for both delays: the first signal comes an `interval` after the delay rose above
//! `target`, the next after `interval / sqrt(count)`. While the delay is low `count` falls again, at the pace at which
//! it rose, rather than being dropped with the dropping state.
//!
//! ```text
//! above target:  at drop_next: signal, count += 1, drop_next += interval / sqrt(count)
//! below target:  at drop_next:         count -= 1, drop_next += interval / sqrt(count)
//! ```
//!
//! BLUE drops with a probability that rises by 1/256 where the queue overflows, at most once in a target, and falls by
//! 1/4096 where it is found empty, likewise.
//!
//! In a queue that is above the target for the first time, the first signal comes at once, with the second packet that
//! is late: Linux starts with 1/sqrt(count) = 0.
//!
//! 1/sqrt(count) is 32 bits behind the point; exact up to count = 15, then one Newton step for each change as in CoDel.

use crate::Context;
use knee_core::convert::truncated_u32;
use knee_core::{Packet, Rng, Time};

/// Rise of the drop probability at an overflow, in units of 2^-32 (Linux cake_set_rate).
const P_INC: u32 = 1 << 24;
/// Its fall where the queue is found empty.
const P_DEC: u32 = 1 << 20;
/// Counts whose inverse root is kept exactly.
const EXACT: u32 = 16;

/// Constants of all queues of a tin.
#[derive(Clone, Copy, Debug)]
pub(super) struct CobaltSettings {
    /// Delay that may stand.
    pub(super) target: Time,
    /// Time until the first signal.
    pub(super) interval: Time,
    /// Time that a full frame takes at the shaper's rate; zero without a shaper. Four of them are no queue.
    pub(super) mtu_time: Time,
}

/// The state of one queue's COBALT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CobaltState {
    /// Signals sent and not yet forgotten.
    count: u32,
    /// 1/sqrt(count), in units of 2^-32; that of 1 where count is 0, but 0 before count first changes by one.
    inv_sqrt: u32,
    /// True while the delay is above the target.
    above: bool,
    /// When the next signal is due; below the target, when count falls.
    drop_next: Time,
    /// When `p_drop` may change again.
    blue_due: Time,
    /// BLUE's drop probability, in units of 2^-32.
    p_drop: u32,
}

impl CobaltState {
    /// The state before the first packet.
    pub(super) const NEW: Self =
        Self { count: 0, inv_sqrt: 0, above: false, drop_next: Time::ZERO, blue_due: Time::ZERO, p_drop: 0 };

    /// True if it has forgotten everything by `now`.
    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inv_sqrt = if count < EXACT { exact_inv_sqrt(count) } else { newton(self.inv_sqrt, count) };
    }

    /// Puts `drop_next` off by interval / sqrt(count).
    fn put_off(&mut self, from: Time, interval: Time) {
        self.drop_next = from + interval.mul_div(u64::from(self.inv_sqrt), 1 << 32);
    }

    fn is_due(&self, now: Time) -> bool {
        self.count > 0 && now >= self.drop_next
    }

    /// A packet had to be dropped for want of room.
    pub(super) fn on_overflow(&mut self, set: &CobaltSettings, now: Time) {
        if now >= self.blue_due {
            self.p_drop = self.p_drop.saturating_add(P_INC);
            self.blue_due = after_target(set, now);
        }
        self.above = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue's turn came, and it was empty.
    pub(super) fn on_empty(&mut self, set: &CobaltSettings, now: Time) {
        if self.p_drop > 0 && now >= self.blue_due {
            self.p_drop = self.p_drop.saturating_sub(P_DEC);
            self.blue_due = after_target(set, now);
        }
        self.above = false;
        if self.is_due(now) {
            self.set_count(self.count - 1);
            self.put_off(self.drop_next, set.interval);
        }
    }

    /// Judges `packet`, which is about to leave, and marks it if that is its signal; true: it is to be dropped.
    #[inline]
    pub(super) fn judge(&mut self, set: &CobaltSettings, packet: &mut Packet, rng: &mut Rng, cx: &mut Context) -> bool {
        let now = cx.now;
        let sojourn = now.saturating_sub(packet.at);
        let above = sojourn > set.target && sojourn > set.mtu_time * 4;
        let due = self.is_due(now);
        let mut late = now > self.drop_next;
        if above {
            if !self.above {
                self.put_off(now, set.interval);
            }
            self.count = self.count.max(1);
        }
        self.above = above;
        let mut drop = false;
        if due && above {
            drop = !cx.mark(packet);
            self.set_count(self.count.saturating_add(1));
            self.put_off(self.drop_next, set.interval);
            late = now > self.drop_next;
        } else if due {
            while self.is_due(now) {
                self.set_count(self.count - 1);
                self.put_off(self.drop_next, set.interval);
            }
            late = now > self.drop_next;
        }
        // Marks would not stop what BLUE is for.
        if self.p_drop > 0 {
            drop |= ((rng.next_u64() >> 32) as u32) < self.p_drop;
        }
        if self.count == 0 {
            // Nothing to count: the time until which the flow counts as active.
            self.drop_next = now + set.interval;
        } else if late && !drop {
            self.drop_next = now;
        }
        drop
    }
}

/// The first time more than a target after `now`.
fn after_target(set: &CobaltSettings, now: Time) -> Time {
    now.saturating_add(set.target).saturating_add(Time::from_nanos(1))
}

/// 2^32 / sqrt(`count`), rounded to the nearest, for small counts; just below one for 0 and 1.
fn exact_inv_sqrt(count: u32) -> u32 {
    if count < 2 {
        return u32::MAX;
    }
    truncated_u32(((1u64 << 32) as f64 / f64::from(count).sqrt()).round())
}

/// One Newton step: x (3 - count x^2) / 2.
///
/// Range: count x^2 stays near 1, as count moves by one between steps; the shift by 2 keeps the product below 2^64.
fn newton(x: u32, count: u32) -> u32 {
    let x = u64::from(x);
    let rest = (3u64 << 32).wrapping_sub(u64::from(count).wrapping_mul((x * x) >> 32)) >> 2;
    (rest.wrapping_mul(x) >> 31) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FULL;

    const SET: CobaltSettings =
        CobaltSettings { target: Time::from_millis(5), interval: Time::from_millis(100), mtu_time: Time::ZERO };

    struct Bench {
        state: CobaltState,
        rng: Rng,
        cx: Context,
    }

    impl Bench {
        fn new() -> Self {
            Self { state: CobaltState::NEW, rng: Rng::stream(1, "cobalt"), cx: Context::default() }
        }

        /// A packet leaves at `us` after a stay of `stay_us`; whether it was dropped or marked.
        fn leave(&mut self, us: u64, stay_us: u64, flags: u8) -> bool {
            self.cx.now = Time::from_micros(us);
            let arrived = Time::from_micros(us - stay_us);
            let mut packet = Packet { at: arrived, flags, ..FULL };
            let drop = self.state.judge(&SET, &mut packet, &mut self.rng, &mut self.cx);
            drop || packet.has(Packet::CE)
        }

        /// When signals came while a packet left every 100 us of `ms`.
        fn signals(&mut self, ms: std::ops::Range<u64>, stay_us: u64, flags: u8) -> Vec<u64> {
            (ms.start * 10..ms.end * 10).map(|t| t * 100).filter(|&t| self.leave(t, stay_us, flags)).collect()
        }
    }

    #[test]
    fn signals_come_at_the_worked_times() {
        // Above from 20 ms on, for the first time: the first with the next packet, then after 100/sqrt(2) = 70.711,
        // 100/sqrt(3) = 57.735 and 50 ms, seen with the next packet: 90.711, 148.446 and 198.446 ms. On Linux 6.1 (bic
        // on 52.8 Mbit/s) drops came at 46, 118, 176 and 226 ms.
        let mut bench = Bench::new();
        bench.signals(10..20, 1000, 0);
        assert_eq!(bench.signals(20..220, 6000, 0), [20_100, 90_800, 148_500, 198_500]);
        assert_eq!(bench.state.count, 5);
    }

    #[test]
    fn with_ecn_the_same_times_mark() {
        let mut bench = Bench::new();
        bench.signals(10..20, 1000, Packet::ECT);
        assert_eq!(bench.signals(20..220, 6000, Packet::ECT), [20_100, 90_800, 148_500, 198_500]);
        assert_eq!(bench.cx.marks, 4);
    }

    #[test]
    fn below_the_target_count_falls_at_the_pace_it_rose() {
        let mut bench = Bench::new();
        bench.signals(10..20, 1000, 0);
        bench.signals(20..200, 6000, 0);
        // The last signal put off the next to 198.446 + 100/sqrt(5) = 243.168; count falls from 5 there, and 50 ms
        // after, then 57.735 and 70.711 later, and at 521.6 to 0.
        for (until, count) in [(243, 5), (244, 4), (293, 4), (294, 3), (350, 3), (351, 2), (421, 2), (422, 1), (522, 0)]
        {
            let from = bench.cx.now.as_millis() + 1;
            assert!(bench.signals(from..until, 1000, 0).is_empty());
            bench.leave(until * 1000, 1000, 0);
            assert_eq!(bench.state.count, count, "at {until} ms");
        }
        assert_eq!(bench.signals(530..640, 6000, 0), [630_000], "an interval after it rose again");
    }

    #[test]
    fn a_new_excursion_waits_for_what_is_left_of_the_count() {
        let mut bench = Bench::new();
        bench.signals(10..20, 1000, 0);
        bench.signals(20..30, 6000, 0);
        bench.signals(30..40, 1000, 0);
        // Count is 2: the next signal comes 70.711 ms after the new rise, at 40 + 70.711.
        assert_eq!(bench.signals(40..115, 6000, 0), [110_800]);
    }

    #[test]
    fn blue_rises_with_overflow_and_falls_with_emptiness_once_in_a_target() {
        let mut state = CobaltState::NEW;
        for us in [0, 2_000, 5_000, 5_001] {
            state.on_overflow(&SET, Time::from_micros(us));
        }
        assert_eq!(state.p_drop, 2 << 24, "at 0 and, more than a target later, at 5.001 ms");
        state.on_empty(&SET, Time::from_micros(10_001));
        assert_eq!(state.p_drop, 2 << 24);
        state.on_empty(&SET, Time::from_micros(10_002));
        assert_eq!(state.p_drop, (2 << 24) - (1 << 20));
    }

    #[test]
    fn blue_drops_as_often_as_it_says_and_capable_packets_too() {
        let mut bench = Bench::new();
        bench.state.p_drop = 1 << 30;
        let hits = (0..10_000).filter(|i| bench.leave(100_000 + i, 1000, Packet::ECT)).count();
        // A quarter, within four standard deviations of 43.
        assert!((2328..2672).contains(&hits) && bench.cx.marks == 0, "{hits}");
    }

    #[test]
    fn it_is_at_rest_an_interval_after_the_last_packet() {
        let mut bench = Bench::new();
        bench.leave(50_000, 1000, 0);
        assert!(!bench.state.is_at_rest(Time::from_micros(149_999)));
        assert!(bench.state.is_at_rest(Time::from_millis(150)));
    }

    #[test]
    fn newton_steps_follow_the_root_up_and_down() {
        let mut x = exact_inv_sqrt(15);
        for count in (16..200).chain((16..199).rev()) {
            x = newton(x, count);
            let exact = (1u64 << 32) as f64 / f64::from(count).sqrt();
            // A step's error is about 3/8 of the squared relative change of count: at most 3/8/15^2 = 0.0017.
            assert!((f64::from(x) / exact - 1.0).abs() < 0.002, "{count}");
        }
    }
}
