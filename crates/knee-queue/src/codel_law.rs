//! CoDel's control law, a part that serves every discipline with a CoDel in it: one [`CodelLaw`] for all queues,
//! one [`CodelState`] per queue.
//!
//! Packets that stayed at least `target` in the queue for a whole `interval` mean a standing queue. From then on one
//! packet is dropped (or marked), the next after `interval / sqrt(count)`, where `count` is the number of drops so
//! far, until a packet stays shorter than `target` or at most `mtu` bytes are left.
//!
//! ```text
//!                     above target for an interval: drop, count := 1 or what the last time taught
//!             waiting ---------------------------------------------------------------> dropping --.
//!                ^                                                                       |  ^     | at drop_next:
//!                '------------- below target, or nothing more than an MTU left ----------'  '-----' drop, count += 1,
//!                                                                            drop_next += interval / sqrt(count)
//! ```
//!
//! Source: RFC 8289 and Linux include/net/codel_impl.h, whose arithmetic this follows: time in units of 1024 ns, and
//! 1/sqrt(count) in 16 bits, improved by one Newton step per drop rather than computed:
//!
//! ```text
//! x' = x (3 - count x^2) / 2
//! ```
//!
//! Departures: times are 64 bits wide and do not wrap; a queue that has never dropped has no latest drop, where Linux
//! takes it to have been at time 0 of its clock, which wraps every 4,398 s. Drops of a full `fq_codel` count towards
//! `count`, so that Linux's first signal to such a flow depends on how long the kernel has been up.

use crate::Context;
use crate::fifo::Fifo;
use knee_core::{Bytes, Packet, Time, params};

params! {
    /// The parameters that all disciplines with a CoDel share; `ecn` is declared by each, as the defaults differ.
    pub(crate) struct CodelParams {
        //= RFC 8289, 4.3
        //# TARGET SHOULD be set to 5 ms for normal Internet traffic.
        /// acceptable standing delay
        target: Time = Time::from_millis(5), in Time::from_micros(2)..=Time::from_secs(10),
            from "RFC 8289, 4.3; Linux codel_params_init";
        //= RFC 8289, 4.2
        //# For devices intended for the normal terrestrial Internet, INTERVAL SHOULD have a value of 100 ms.
        /// how long the delay may stand above the target; a round-trip time that covers most paths
        interval: Time = Time::from_millis(100), in Time::from_micros(2)..=Time::from_secs(100),
            from "RFC 8289, 4.2; Linux codel_params_init";
        //= RFC 8290, 5.2.7
        //# The "ce_threshold" parameter is disabled by default; it can be enabled by setting it to a number of
        //# microseconds.
        /// mark every ECN-capable packet that stayed longer than this; 0: off
        ce_threshold: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(2000), from "Linux codel_params_init: off";
    }
}

/// Time in units of 1024 ns.
pub(crate) type CodelTime = u64;

/// `time` in CoDel's units, rounded down.
pub(crate) const fn codel_time(time: Time) -> CodelTime {
    time.as_nanos() >> 10
}

/// After a pause shorter than this many intervals the next cycle starts with the drop rate of the last.
const REMEMBER_INTERVALS: u64 = 16;

/// 1/sqrt(count) as Q0.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvSqrt(pub(crate) u16);

impl InvSqrt {
    /// For count = 1, as near to one as 16 bits come.
    pub(crate) const ONE: Self = Self(u16::MAX);

    /// One Newton step towards 1/sqrt(`count`).
    ///
    /// Range: x < 2^32 in Q0.32, so x^2 >> 32 < 2^32; 3 - count x^2 stays positive for count < 3 / x^2, which holds as
    /// count moves by one between steps, and wraps as in Linux where it was set far off; the shift by 2 leaves room
    /// for the product with x below 2^64.
    pub(crate) fn step(self, count: u32) -> Self {
        let x = u64::from(self.0) << 16;
        let square = (x * x) >> 32;
        let rest = (3u64 << 32).wrapping_sub(u64::from(count) * square) >> 2;
        Self((rest.wrapping_mul(x) >> 31 >> 16) as u16)
    }

    /// interval / sqrt(count).
    pub(crate) fn spacing(self, interval: CodelTime) -> CodelTime {
        //= RFC 8289, 5.6 (departs: 1/sqrt(count) by one Newton step for each drop, as in Linux)
        //# return t + INTERVAL / sqrt(count);
        (interval * (u64::from(self.0) << 16)) >> 32
    }
}

/// Constants of the law, from the parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodelLaw {
    target: CodelTime,
    interval: CodelTime,
    /// `CodelTime::MAX`: off.
    ce_threshold: CodelTime,
    /// The IP header's ECN field is compared with the selector in these bits; 0: any packet is marked beyond the
    /// threshold.
    ce_threshold_mask: u8,
    ce_threshold_selector: u8,
    /// Bytes queued up to which nothing is dropped: one full frame.
    mtu: u64,
    ecn: bool,
}

impl CodelLaw {
    /// From the parameters and the size of a full frame.
    pub(crate) fn new(params: &CodelParams, ecn: bool, mtu: u64) -> Self {
        let threshold = params.ce_threshold;
        Self {
            target: codel_time(params.target),
            interval: codel_time(params.interval),
            ce_threshold: if threshold == Time::ZERO { CodelTime::MAX } else { codel_time(threshold) },
            ce_threshold_mask: 0,
            ce_threshold_selector: 0,
            mtu,
            ecn,
        }
    }

    /// Marks beyond `ce_threshold` only packets whose ECN field, with `mask`, is `selector`.
    pub(crate) const fn selecting(self, selector: u8, mask: u8) -> Self {
        Self { ce_threshold_mask: mask, ce_threshold_selector: selector, ..self }
    }

    const fn selects(&self, packet: &Packet) -> bool {
        self.ce_threshold_mask == 0 || packet.ecn_field() & self.ce_threshold_mask == self.ce_threshold_selector
    }
}

/// The state of one queue's CoDel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodelState {
    /// Drops or marks since the dropping state was entered, or what stands for them.
    pub(crate) count: u32,
    /// `count` at the entry into the dropping state.
    last_count: u32,
    /// True in the dropping state.
    dropping: bool,
    /// 1/sqrt(count).
    inv_sqrt: InvSqrt,
    /// When the delay will have been above the target for an interval; none while it is below.
    above_until: Option<CodelTime>,
    /// When the next drop is due, in the dropping state; after it, when it would have been. None before the first.
    drop_next: Option<CodelTime>,
}

impl CodelState {
    /// The state before the first packet.
    pub(crate) const NEW: Self =
        Self { count: 0, last_count: 0, dropping: false, inv_sqrt: InvSqrt(0), above_until: None, drop_next: None };

    #[cfg(test)]
    pub(crate) fn last_count(&self) -> u32 {
        self.last_count
    }
}

/// The queue that a CoDel controls.
pub(crate) trait Source {
    /// Takes the packet at the head and puts it into `packet`, by reference: so it is copied once, in wide moves.
    /// False: there is none.
    fn pop(&mut self, packet: &mut Packet) -> bool;
    /// Bytes left, overhead included.
    fn bytes(&self) -> Bytes;
}

impl Source for Fifo {
    #[inline]
    fn pop(&mut self, packet: &mut Packet) -> bool {
        let Some(head) = Self::pop(self) else { return false };
        *packet = head;
        true
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.bytes())
    }
}

impl CodelLaw {
    /// Puts the next packet that may leave into `packet`; those dropped on the way are in `cx`. False: there is none.
    #[inline]
    pub(crate) fn dequeue(
        &self,
        state: &mut CodelState,
        source: &mut impl Source,
        packet: &mut Packet,
        cx: &mut Context,
    ) -> bool {
        let now = codel_time(cx.now);
        let mut held = source.pop(packet);
        let bad = self.is_bad(state, held.then_some(packet), source, now);
        if state.dropping {
            if !bad {
                state.dropping = false;
            }
            //= RFC 8289, 5.5 (departs: what is marked leaves at once, as in Linux)
            //# while (now >= drop_next_ && dropping_) { drop(r.p); ++count_; r = dodequeue(now);
            while state.dropping
                && let Some(due) = state.drop_next
                && now >= due
            {
                state.count = state.count.wrapping_add(1);
                state.inv_sqrt = state.inv_sqrt.step(state.count);
                let marked = self.drop_or_mark(&mut held, packet, source, cx);
                if marked || self.is_bad(state, held.then_some(packet), source, now) {
                    //= RFC 8289, 5.5
                    //# drop_next_ = control_law(drop_next_, count_);
                    state.drop_next = Some(due + state.inv_sqrt.spacing(self.interval));
                } else {
                    state.dropping = false;
                }
                if marked {
                    break;
                }
            }
        } else if bad {
            if !self.drop_or_mark(&mut held, packet, source, cx) {
                self.is_bad(state, held.then_some(packet), source, now);
            }
            self.enter(state, now);
        }
        if held && now - codel_time(packet.at) > self.ce_threshold && self.selects(packet) {
            cx.mark(packet);
        }
        held
    }

    /// Marks the packet, where one is held and may be, and says so; or drops it for the next one, if there is one.
    fn drop_or_mark(&self, held: &mut bool, packet: &mut Packet, source: &mut impl Source, cx: &mut Context) -> bool {
        if !*held {
            return false;
        }
        if self.ecn && cx.mark(packet) {
            return true;
        }
        cx.dropped.push(*packet);
        *held = source.pop(packet);
        false
    }

    /// Enters the dropping state: from the start, or near the drop rate of the last cycle where that is recent.
    fn enter(&self, state: &mut CodelState, now: CodelTime) {
        //= RFC 8289, 5.5
        //# delta = count_ - lastcount_; count_ = 1; if ((delta > 1) && (now - drop_next_ < 16*INTERVAL)) count_ =
        //# delta; drop_next_ = control_law(now, count_); lastcount_ = count_;
        let drops = state.count.wrapping_sub(state.last_count);
        let is_recent = state.drop_next.is_some_and(|due| now < due + REMEMBER_INTERVALS * self.interval);
        if drops > 1 && is_recent {
            state.count = drops;
            state.inv_sqrt = state.inv_sqrt.step(drops);
        } else {
            state.count = 1;
            //= RFC 8289, 3.3
            //# so the initial drop spacing SHOULD be set to the estimator's interval (i.e., initial drop spacing =
            //# interval) to ensure that the controller has accounted for acceptable congestion delays.
            state.inv_sqrt = InvSqrt::ONE;
        }
        state.dropping = true;
        state.last_count = state.count;
        state.drop_next = Some(now + state.inv_sqrt.spacing(self.interval));
    }

    /// True if the delay has been above the target for an interval, up to this packet.
    #[inline]
    fn is_bad(&self, state: &mut CodelState, packet: Option<&Packet>, source: &impl Source, now: CodelTime) -> bool {
        //= RFC 8289, 5.6
        //# if (r.p == NULL) { // queue is empty - we can't be above TARGET first_above_time_ = 0; return r; }
        let Some(packet) = packet else {
            state.above_until = None;
            return false;
        };
        //= RFC 8289, 5.6
        //# if (sojourn_time_ < TARGET || bytes() <= maxpacket_) { // went below - stay below for at least INTERVAL
        //# first_above_time_ = 0; }
        let sojourn = now - codel_time(packet.at);
        //= RFC 8289, 4.1
        //# If not, the packet SHOULD NOT be dropped; therefore, CoDel exits the drop state.
        if sojourn < self.target || source.bytes().0 <= self.mtu {
            state.above_until = None;
            return false;
        }
        //= RFC 8289, 5.6 (departs: Linux asks for more than that time, not for as much)
        //# first_above_time_ = now + INTERVAL; } else if (now >= first_above_time_) { r.ok_to_drop = true; }
        match state.above_until {
            None => {
                state.above_until = Some(now + self.interval);
                false
            }
            Some(until) => now > until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newton_steps_from_one_on_are_the_worked_ones() {
        // x1 = 1; x2 = 1 (3 - 2) / 2 = 0.5; x3 = 0.5 (3 - 3/4) / 2 = 0.5625;
        // x4 = 0.5625 (3 - 4 0.5625^2) / 2 = 0.48779.
        let mut x = InvSqrt::ONE;
        for (count, worked) in [(2, 0.5), (3, 0.5625), (4, 0.487_79)] {
            x = x.step(count);
            assert!((f64::from(x.0) / 65536.0 - worked).abs() < 1e-4, "count {count}: {x:?}");
        }
    }

    #[test]
    fn the_newton_steps_come_to_the_inverse_square_root() {
        let mut x = InvSqrt::ONE;
        for count in 2..=400 {
            x = x.step(count);
            let exact = 65536.0 / f64::from(count).sqrt();
            if count >= 16 {
                // The error of a step is about 3/8 of the squared relative change of count, plus 16-bit rounding.
                assert!((f64::from(x.0) / exact - 1.0).abs() < 0.005, "count {count}: {x:?}, not {exact}");
            }
        }
    }

    #[test]
    fn at_count_one_the_spacing_is_the_interval_less_a_16_bit_rounding() {
        // 100 ms are 97,656 units; 97,656 * 65,535 / 65,536 = 97,654.5.
        assert_eq!(codel_time(Time::from_millis(100)), 97_656);
        assert_eq!(InvSqrt::ONE.spacing(97_656), 97_654);
    }
}
