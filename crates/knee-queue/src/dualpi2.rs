//! `dualpi2`: a queue for L4S traffic next to one for classic traffic, coupled so that both get their share.
//!
//! The longer of the two heads' delays is held against a target; every `tupdate` the base probability p' moves by
//!
//! ```text
//! p' += alpha (qdelay - target) + beta (qdelay - qdelay_old)
//! p_C = p'^2     classic: drop, or mark where ECN-capable (two draws that must both hit)
//! p_CL = k p'    L4S: mark (k: `coupling_factor`); and in any case after a stay above `step_thresh`
//! ```
//!
//! as a classic flow's rate goes with 1/sqrt(p_C), and an L4S flow's with 1/p_CL. With k p' > 1 there is overload:
//! classic packets are dropped with p_C whatever their codepoint, and L4S packets likewise, or marked.
//!
//! The L queue goes first, but while both have packets the classic one gets `classic_protection` percent of the bytes
//! (weighted round robin by a credit). While less than two full frames are left nothing is struck.
//!
//! Source: RFC 9332, Appendix A; Linux net/sched/sch_dualpi2.c (6.17): its integer arithmetic, p' in units of 2^-32,
//! alpha and beta in 1/256 Hz.
//!
//! A packet is L4S by ECT(1) or CE (RFC 9331, 5.1), so a CE mark set by an earlier hop on an ECT(0) packet moves it to
//! the L queue and ahead of its flow, as on real routers. A queue has no timer: at each call the updates that have come
//! due are made up for, at whole multiples of `tupdate`, each with the heads' delays at its time.
//!
//! Departures: the change of p' is bounded, where in Linux it wraps in 32 bits; a draw hits with exactly p', in Linux
//! with 2^-32 more; step by time only; no memory limit besides that on packets; where the
//! limit is lowered, tails go first, the classic one's before the other's.

use crate::Entry;
use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::convert::{clamped, saturating_i64, truncated};
use knee_core::{Bytes, Packet, Rng, Time, params};
use std::collections::VecDeque;

const DEFAULT: &str = "RFC 9332, A.1; Linux dualpi2_reset_default";

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "dualpi2",
    about: "dual-queue coupled AQM: low delay for L4S traffic beside classic traffic",
    source: "RFC 9332; Linux net/sched/sch_dualpi2.c",
    params: Params::DECLARED,
    make: |params, init| Box::new(DualPi2::new(params.into(), init)),
};

params! {
    /// DualPI2's parameters.
    struct Params {
        /// delay of the classic queue to steer to
        target: Time = Time::from_millis(15), in Time::from_micros(1)..=Time::from_secs(10), from DEFAULT;
        /// time between updates of the probability
        tupdate: Time = Time::from_millis(16), in Time::from_millis(1)..=Time::from_secs(4), from DEFAULT;
        /// weight of the distance from the target, in Hz
        alpha: f64 = 0.16, in 0.0..=1e4, from DEFAULT;
        /// weight of the change since the last update, in Hz
        beta: f64 = 3.2, in 0.0..=1e4, from DEFAULT;
        //= RFC 9332, 2.5.1
        //# The L4S ECN protocol [RFC9331] says, "The constant of proportionality (k) does not have to be standardised
        //# for interoperability, but a value of 2 is RECOMMENDED."
        /// k: L4S marks for a base probability p' with k p'
        coupling_factor: u64 = 2, in 1..=255, from DEFAULT;
        /// every L4S packet that stayed longer is marked
        step_thresh: Time = Time::from_millis(1), in Time::ZERO..=Time::from_secs(4), from DEFAULT;
        /// but only if this many packets were in the L queue when it came; RFC 9332, A.1, has 1 (Th_len)
        min_qlen_step: u64 = 0, in 0..=1 << 20, from DEFAULT;
        /// percent of the bytes kept for classic traffic
        classic_protection: u32 = 10, in 0..=100, from DEFAULT;
        /// on overload drop L4S packets too, rather than only mark them
        drop_overload: bool = true, from DEFAULT;
        /// decide when a packet comes rather than when it leaves
        drop_early: bool = false, from DEFAULT;
        /// let ECT(0) into the L queue too
        any_ect: bool = false, from DEFAULT;
    }
}

/// Packets held where no limit is given (Linux dualpi2_reset_default).
const DEFAULT_LIMIT: Limit = Limit::Packets(10_000);
/// A probability of one, in units of 2^-32.
const ONE: u64 = u32::MAX as u64;
/// The two weights of the round robin come to this.
const WEIGHTS: i64 = 100;

/// Constants of both queues, from the parameters.
#[derive(Clone)]
struct DualPi2Settings {
    params: Params,
    /// Change of p' for each 64 ns of delay, in units of 2^-32.
    alpha: u64,
    beta: u64,
    /// Weight of the classic queue, of [`WEIGHTS`].
    classic_weight: i64,
    /// Size of a full frame, bytes.
    mtu: u64,
}

#[derive(Clone)]
struct DualPi2 {
    set: DualPi2Settings,
    /// p', in units of 2^-32.
    prob: u64,
    /// The delay at the last update.
    qdelay_old: Time,
    next_update: Time,
    /// Above zero it is the classic queue's turn, else the L queue's; bytes times weight.
    credit: i64,
    //= RFC 9332, 2.5.1
    //# A DualQ Coupled AQM implementation MUST utilize two queues, each with an AQM algorithm.
    l: Fifo,
    /// One flag for each packet in the L queue: true if the step applies to it.
    l_steps: VecDeque<bool>,
    c: Fifo,
    bound: Bound,
    rng: Rng,
}

/// A gain in Hz as Linux keeps it: in 1/256 Hz, then for 64 ns and 2^-32.
fn gain(hz: f64) -> u64 {
    let in_256ths = truncated((hz * 256.0).round());
    ((in_256ths * ONE) >> 2) / 1_000_000_000
}

impl DualPi2Settings {
    /// p' after an update with these delays.
    fn next_prob(&self, prob: u64, qdelay: Time, qdelay_old: Time) -> u64 {
        let ns = |time: Time| i128::from(time.as_nanos());
        //= RFC 9332, A.2
        //# p' = p' + alpha * (curq - target) + beta * (curq - prevq)
        let delta = (ns(qdelay) - ns(self.params.target)) * i128::from(self.alpha)
            + (ns(qdelay) - ns(qdelay_old)) * i128::from(self.beta);
        // Division rounds towards zero on both sides, as in Linux.
        clamped(i128::from(prob) + delta / 64, self.max_prob())
    }

    /// The greatest p': without drops on overload, k p' is at most one.
    const fn max_prob(&self) -> u64 {
        if self.params.drop_overload { ONE } else { ONE / self.params.coupling_factor }
    }

    fn is_l4s(&self, packet: &Packet) -> bool {
        packet.has(Packet::ECT) && (packet.has(Packet::L4S) || packet.has(Packet::CE) || self.params.any_ect)
    }

    /// The credit when the queues are empty.
    fn initial_credit(&self) -> i64 {
        saturating_i64(self.mtu) * (2 * self.classic_weight - WEIGHTS)
    }
}

impl DualPi2 {
    fn new(params: Params, init: &Init) -> Self {
        let (l, c) = (Fifo::new(init), Fifo::new(init));
        let set = DualPi2Settings {
            params,
            alpha: gain(params.alpha),
            beta: gain(params.beta),
            classic_weight: i64::from(params.classic_protection),
            mtu: l.frame(),
        };
        Self {
            prob: 0,
            qdelay_old: Time::ZERO,
            next_update: params.tupdate,
            credit: set.initial_credit(),
            set,
            l,
            l_steps: VecDeque::new(),
            c,
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
        //= RFC 9332, A.2
        //# curq = max(cq.time(), lq.time()) % use greatest queuing time
        let oldest = [&self.l, &self.c].into_iter().filter_map(|q| q.head()).map(|head| head.at).min();
        while now >= self.next_update {
            let qdelay = oldest.map_or(Time::ZERO, |at| self.next_update.saturating_sub(at));
            let prob = self.set.next_prob(self.prob, qdelay, self.qdelay_old);
            let empty_at_rest = oldest.is_none() && (prob, qdelay) == (self.prob, self.qdelay_old);
            // While a packet stands the delay only grows, and above the target so does the change of p'.
            let next = || self.set.next_prob(prob, qdelay + self.set.params.tupdate, qdelay);
            let standing_at_rest = prob == self.prob && qdelay >= self.set.params.target && next() == prob;
            (self.prob, self.qdelay_old) = (prob, qdelay);
            if empty_at_rest || standing_at_rest {
                // The others change nothing but the delay.
                let last = now.floor_to(self.set.params.tupdate).max(self.next_update);
                self.qdelay_old = oldest.map_or(Time::ZERO, |at| last.saturating_sub(at));
                self.next_update = last;
            }
            self.next_update += self.set.params.tupdate;
        }
    }

    /// True with probability `prob`.
    fn roll(&mut self, prob: u64) -> bool {
        self.rng.next_u64() >> 32 < prob
    }

    /// Draws for the packet and marks it if that is the result; true: it must be dropped.
    fn drops_or_marks(&mut self, packet: &mut Packet, cx: &mut Context) -> bool {
        if self.l.bytes() + self.c.bytes() < 2 * self.set.mtu {
            return false;
        }
        //= RFC 9332, 2.4
        //# p_CL = k*p'. (3)
        let coupled = self.prob * self.set.params.coupling_factor;
        let overload = coupled > ONE;
        if !self.set.is_l4s(packet) {
            //= RFC 9332, 2.4
            //# p_C = (p')^2. (2)
            let hit = self.roll(self.prob) && self.roll(self.prob);
            //= RFC 9332, A.2
            //# 12a: if ( (ecn(pkt) == 0) % ECN field = not-ECT 12b: OR (p_C >= p_Cmax) ) { % Overload disables ECN 13:
            //# drop(pkt) % squared drop, redo loop
            return hit && (overload || !cx.mark(packet));
        }
        //= RFC 9332, 2.5.1.1
        //# If the DualQ Coupled AQM has detected overload, it MUST introduce Classic drop to both types of ECN-capable
        //# traffic until the overload episode has subsided.
        //= RFC 9332, A.2
        //# 8c: if ( recur(lq, p_C) ) { % probability p_C = p'^2 8e: drop(pkt) % revert to Classic drop due to overload
        if overload && self.set.params.drop_overload && self.roll(self.prob) && self.roll(self.prob) {
            return true;
        }
        //= RFC 9332, 2.5.1
        //# The AQM algorithm for the low-latency (L) queue MUST be able to apply ECN marking to ECN-capable packets.
        //= RFC 9332, 2.5.1
        //# A DualQ Coupled AQM MUST apply ECN marking to traffic in the L queue that is no lower than that derived from
        //# the likelihood of drop (or ECN marking) in the Classic queue using equation (1).
        if overload || self.roll(coupled) {
            cx.mark(packet);
        }
        false
    }

    /// The next packet in turn, whether the step applies to it, and what the credit changes by once it is sent.
    fn take(&mut self) -> Option<(Packet, bool, i64)> {
        let (l, c) = (!self.l.is_empty(), !self.c.is_empty());
        //= RFC 9332, 2.5.1
        //# The scheduler draining the two queues MUST give L4S packets priority over Classic, although priority MUST be
        //# bounded in order not to starve Classic traffic (see Section 4.2.2).
        let from_l = l && (!c || self.credit <= 0);
        //= RFC 9332, 2.5.1
        //# The scheduler SHOULD be work-conserving, or otherwise close to work-conserving.
        let packet = if from_l { self.l.pop() } else { self.c.pop() };
        let steps = from_l && self.l_steps.pop_front().unwrap_or(true);
        let Some(packet) = packet else {
            self.credit = self.set.initial_credit();
            return None;
        };
        // With one queue empty before the packet left there was no choice to account for.
        let weight = match (from_l, l && c) {
            (_, false) => 0,
            (true, true) => self.set.classic_weight,
            (false, true) => self.set.classic_weight - WEIGHTS,
        };
        let size = saturating_i64(self.l.wire_size(&packet));
        Some((packet, steps, weight * size))
    }

    fn shrink(&mut self, cx: &mut Context) {
        while !self.bound.holds(self.l.len() + self.c.len(), self.l.bytes() + self.c.bytes()) {
            if self.c.is_empty() {
                self.l.drop_tail(cx);
                self.l_steps.pop_back();
            } else {
                self.c.drop_tail(cx);
            }
        }
    }
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
        self.catch_up(cx.now);
        let is_l4s = self.set.is_l4s(&packet);
        let bytes = self.l.bytes() + self.c.bytes() + self.l.wire_size(&packet);
        let fits = self.bound.holds(self.l.len() + self.c.len() + 1, bytes);
        let marks = cx.marks;
        if !fits || (self.set.params.drop_early && self.drops_or_marks(&mut packet, cx)) {
            cx.dropped.push(packet);
            return Verdict::Dropped;
        }
        if is_l4s {
            //= RFC 9332, A.2 (departs: when a packet comes, and with a Th_len of 0, as in Linux)
            //# if (lq.len()>Th_len) % >1 packet queued
            self.l_steps.push_back(self.l.len() >= self.set.params.min_qlen_step);
            self.l.push(packet);
        } else {
            self.c.push(packet);
        }
        if cx.marks > marks { Verdict::Marked } else { Verdict::Queued }
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        self.catch_up(cx.now);
        while let Some((mut packet, steps, change)) = self.take() {
            if !self.set.params.drop_early && self.drops_or_marks(&mut packet, cx) {
                cx.dropped.push(packet);
                continue;
            }
            //= RFC 9332, 2.4 (departs: the step marks what the coupled draw has not)
            //# This suggests p_L = max(p'_L, p_CL), (4)
            if steps && cx.now - packet.at > self.set.params.step_thresh {
                cx.mark(&mut packet);
            }
            self.credit += change;
            return Some(packet);
        }
        None
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.l.len() + self.c.len(), bytes: Bytes(self.l.bytes() + self.c.bytes()) }
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.catch_up(cx.now);
        self.bound = self.bound.resized(to);
        self.shrink(cx);
    }
}

impl Bursts for DualPi2 {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};
    use knee_core::Value;

    const L4S: u8 = Packet::ECT | Packet::L4S;

    fn queue(given: &[(&str, Value)]) -> DualPi2 {
        DualPi2::new(params(&ENTRY, given), &init(&ENTRY, None, 100))
    }

    fn packet(flags: u8, arrived: Time) -> Packet {
        Packet { at: arrived, flags, ..FULL }
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn fixed(p: f64) -> u64 {
        (p * ONE as f64) as u64
    }

    #[test]
    fn the_base_probability_moves_by_the_worked_steps() {
        let set = queue(&[]).set;
        // 41/256 Hz and 819/256 Hz, each rounded down to whole units: 44 and 879.
        assert_eq!((set.alpha, set.beta), (44, 879));
        // 10 ms above the target, 5 ms more than last time: 0.16 · 0.010 + 3.2 · 0.005 = 0.0176.
        for (delay, old, step) in [(25, 20, 0.0176), (15, 15, 0.0), (5, 10, -0.0176), (15, 5, 0.032)] {
            let next = set.next_prob(fixed(0.1), ms(delay), ms(old)) as f64 / ONE as f64;
            assert!((next - 0.1 - step).abs() < 0.0001, "{delay} ms after {old} ms: {next}");
        }
        assert_eq!(set.next_prob(fixed(0.01), ms(0), ms(100)), 0);
        assert_eq!(set.next_prob(fixed(0.9), ms(5000), ms(0)), ONE);
        let set = queue(&[("drop_overload", Value::Bool(false))]).set;
        assert_eq!(set.next_prob(fixed(0.9), ms(5000), ms(0)), ONE / 2, "so that k p' is at most one");
    }

    #[test]
    fn updates_see_the_older_head_at_their_own_times() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        cx.now = ms(2);
        q.enqueue(packet(0, cx.now), &mut cx);
        cx.now = ms(10);
        q.enqueue(packet(L4S, cx.now), &mut cx);
        cx.now = ms(50);
        q.catch_up(cx.now);
        // At 16, 32 and 48 ms the classic head had stood for 14, 30 and 46 ms.
        let mut p = 0;
        for (delay, old) in [(14, 0), (30, 14), (46, 30)] {
            p = q.set.next_prob(p, ms(delay), ms(old));
        }
        assert_eq!((q.prob, q.qdelay_old, q.next_update), (p, ms(46), ms(64)));
    }

    #[test]
    fn an_empty_queue_comes_to_rest_at_zero() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        (q.prob, q.qdelay_old) = (fixed(0.5), ms(40));
        cx.now = Time::from_secs(1_000_000);
        assert!(q.dequeue(&mut cx).is_none());
        assert_eq!((q.prob, q.next_update), (0, cx.now + ms(16)));
    }

    #[test]
    fn a_packet_that_stands_for_years_costs_few_updates() {
        // One by one they would be 10^11.
        let overload = |drops| ("drop_overload", Value::Bool(drops));
        let gains = |hz| [("alpha", Value::Ratio(hz)), ("beta", Value::Ratio(hz))];
        for (given, prob) in [
            (vec![overload(true)], ONE),
            (vec![overload(false)], ONE / 2),
            (gains(0.0).to_vec(), 0),
            (gains(0.005).to_vec(), ONE),
        ] {
            let given = [given, vec![("tupdate", Value::Time(ms(1)))]].concat();
            let (mut q, mut cx) = (queue(&given), Context::default());
            cx.now = Time::from_micros(500);
            q.enqueue(packet(0, cx.now), &mut cx);
            cx.now = Time::from_secs(100_000_000);
            q.catch_up(cx.now);
            let stay = cx.now - Time::from_micros(500);
            assert_eq!((q.prob, q.qdelay_old, q.next_update), (prob, stay, cx.now + ms(1)));
        }
    }

    /// Counts drops and marks of 10,000 packets with these flags at p'.
    fn struck(p: f64, flags: u8, given: &[(&str, Value)]) -> (usize, u64) {
        let (mut q, mut cx) = (queue(given), Context::default());
        (q.prob, q.next_update) = (fixed(p), Time::MAX);
        for _ in 0..3 {
            q.c.push(packet(0, Time::ZERO));
        }
        let dropped = (0..10_000).filter(|_| q.drops_or_marks(&mut packet(flags, Time::ZERO), &mut cx)).count();
        (dropped, cx.marks)
    }

    #[test]
    fn classic_is_struck_with_the_square_and_l4s_with_k_times_the_base() {
        // p' = 0.2: p_C = 4 %, p_CL = 40 %; standard deviations of 10,000 draws: 20 and 49.
        let (drops, marks) = struck(0.2, 0, &[]);
        assert!((320..480).contains(&drops) && marks == 0, "{drops}, {marks}");
        let (drops, marks) = struck(0.2, Packet::ECT, &[]);
        assert!((320..480).contains(&marks) && drops == 0, "{drops}, {marks}");
        let (drops, marks) = struck(0.2, L4S, &[]);
        assert!((3800..4200).contains(&marks) && drops == 0, "{drops}, {marks}");
        assert_eq!((struck(0.0, 0, &[]), struck(0.0, L4S, &[])), ((0, 0), (0, 0)));
    }

    #[test]
    fn on_overload_both_are_dropped_with_the_square_and_the_rest_of_l4s_marked() {
        // p' = 0.6, k p' = 1.2: p_C = 36 %, standard deviation 48.
        let (drops, marks) = struck(0.6, Packet::ECT, &[]);
        assert!((3400..3800).contains(&drops) && marks == 0, "{drops}, {marks}");
        let (drops, marks) = struck(0.6, L4S, &[]);
        assert!((3400..3800).contains(&drops) && drops as u64 + marks == 10_000, "{drops}, {marks}");
        assert_eq!(struck(0.6, L4S, &[("drop_overload", Value::Bool(false))]), (0, 10_000));
    }

    #[test]
    fn nothing_is_struck_with_less_than_two_frames_waiting() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        q.prob = ONE;
        q.c.push(packet(0, Time::ZERO));
        assert!(!q.drops_or_marks(&mut packet(0, Time::ZERO), &mut cx));
        q.c.push(packet(0, Time::ZERO));
        assert!(q.drops_or_marks(&mut packet(0, Time::ZERO), &mut cx));
    }

    #[test]
    fn the_step_marks_l4s_packets_that_stayed_longer() {
        let mut cx = Context::default();
        for (flags, stay_us, marked) in
            [(L4S, 1000, false), (L4S, 1001, true), (Packet::ECT, 5000, false), (0, 5000, false)]
        {
            let mut q = queue(&[]);
            cx.now = Time::ZERO;
            q.enqueue(packet(flags, cx.now), &mut cx);
            cx.now = Time::from_micros(stay_us);
            assert_eq!(q.dequeue(&mut cx).unwrap().has(Packet::CE), marked, "{flags} after {stay_us} us");
        }
    }

    #[test]
    fn ect1_and_ce_go_first_and_classic_gets_its_tenth() {
        let (mut q, mut cx) = (queue(&[]), Context::default());
        for _ in 0..2000 {
            q.enqueue(packet(0, Time::ZERO), &mut cx);
            q.enqueue(packet(L4S, Time::ZERO), &mut cx);
            q.enqueue(packet(Packet::ECT | Packet::CE, Time::ZERO), &mut cx);
        }
        assert_eq!((q.l.len(), q.c.len()), (4000, 2000));
        // The credit starts at -80 frames and each L4S packet adds 10: nine of them, then one classic takes 90.
        let sent: Vec<_> = (0..1000).map(|_| q.dequeue(&mut cx).unwrap().has(Packet::ECT)).collect();
        assert!(sent[..9].iter().all(|&l4s| l4s) && !sent[9] && sent[10..19].iter().all(|&l4s| l4s) && !sent[19]);
        assert_eq!(sent.iter().filter(|&&l4s| !l4s).count(), 100);
    }

    #[test]
    fn the_step_applies_to_packets_that_found_others_in_the_l_queue() {
        for (least, expected) in [(0, [true, true, true]), (1, [false, true, true]), (2, [false, false, true])] {
            let (mut q, mut cx) = (queue(&[("min_qlen_step", Value::Count(least))]), Context::default());
            for _ in 0..3 {
                q.enqueue(packet(L4S, Time::ZERO), &mut cx);
            }
            cx.now = Time::from_millis(2);
            let marked = [(); 3].map(|()| q.dequeue(&mut cx).unwrap().has(Packet::CE));
            assert_eq!(marked, expected, "{least}");
        }
    }
}
