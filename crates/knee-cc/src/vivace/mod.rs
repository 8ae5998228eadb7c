//! PCC Vivace: tries slightly different rates, sees which has the higher utility, and climbs that gradient.
//!
//! Source: M. Dong et al., "PCC Vivace: Online-Learning Congestion Control", NSDI 2018, and the authors' program
//! (PCC-Uspace, `Vivace` with the utility `Vivace`), which takes precedence where the two differ.
//!
//! - utility of a monitor interval at rate `x` in Mbit/s: `u = x^t - b x dRTT/dT - c x L` (Sec. 4, Eq. 1), t = 0.9,
//!   b = 900 (Vivace-latency) or 0 (Vivace-loss), c = 11.35; `L` the part of packets lost, dRTT/dT by linear
//!   regression; [`judge`] says which rise of the RTT counts
//! - an interval lasts until the least RTT has passed and four of its own packets are acknowledged: an RTT and a little
//!   more. Only the utilities of useful ones count; until they are known, packets belong to one that is not
//! - starting: the rate doubles from interval to interval until the utility falls
//! - probing: three pairs of intervals, each at `r (1 +- 0.05)` in random order. The rate rises where two pairs are for
//!   it, falls where all three are against it; otherwise they are tried again
//! - moving: at once to the better of the two rates and a step beyond, and on, an interval at a time, as long as rate
//!   and utility change in the same sense (in the opposite one, when it falls). Else it takes the step back and probes
//! - step: the gradient of the utility, from the second move on times `floor((n + 1) / 2)^1.2`; at most 5 % of the rate
//!   and 5 % more for each step in a row that was cut to that; at least 0.5 Mbit/s
//!
//! Units: Mbit/s, seconds. Rates are of packets of 1500 bytes; in the gradient a Mbit is 2^20 bits.
//!
//! ```text
//! starting ──utility does not rise──► learning ◄──► moving
//! ```
//!
//! ACKs whose times are far apart from the usual are of a burst, and their RTTs not reliable, until an RTT is above the
//! one before, which is below the mean. On a path without noise, which only a simulator has, no RTT ever is: equal ones
//! end a burst, too. ECN changes nothing (the paper has none).

mod interval;
mod judge;

use crate::entry::{Entry, Family};
use crate::window::window_beyond;
use crate::{Ack, Congestion, CongestionControl, Control, Init, Needs, Sent, StateChange, StateEvent, View};
use interval::{Interval, Intervals};
use judge::Judge;
use knee_core::convert::truncated;
use knee_core::{Rate, Rng, Time, choice, params};

/// Vivace's registry entry.
pub const ENTRY: Entry = Entry {
    name: "vivace",
    family: Family::Hybrid,
    about: "follows the gradient of a utility of rate, latency and loss, measured by trying rates",
    source: "Dong et al.: PCC Vivace, NSDI 2018",
    params: Params::DECLARED,
    phases: &["starting", "learning", "moving"],
    edges: &[(STARTING, LEARNING), (LEARNING, MOVING), (MOVING, LEARNING), (LEARNING, STARTING)],
    min_cwnd: 4,
    needs: Needs { pacing: true, full_control: true, sent: true, rate: true, ..Needs::NONE },
    make: |params, init| Box::new(Vivace::new(&Params::from(params), init)),
};

choice! {
    /// The utility function: Vivace-latency or Vivace-loss.
    enum Variant {
        Latency = "latency",
        Loss = "loss",
    }
}

params! {
    /// Vivace's parameters.
    struct Params {
        /// whether rising RTTs lower the utility
        utility: Variant = Variant::Latency, from "NSDI 2018, Sec. 4";
        /// exponent of the rate
        t: f64 = 0.9, in 0.1..=0.99, from "NSDI 2018, Sec. 4";
        /// weight of the RTT gradient
        b: f64 = 900.0, in 0.0..=1e6, from "NSDI 2018, Sec. 4";
        /// weight of loss
        c: f64 = 11.35, in 0.0..=1e6, from "NSDI 2018, Sec. 4; tolerates 5 % of random loss";
    }
}

const STARTING: u8 = 0;
const LEARNING: u8 = 1;
const MOVING: u8 = 2;
/// No rate grows beyond 1 Tbit/s.
const LARGEST: f64 = 1e6;
/// Bytes that a packet counts as in rates.
const PACKET: f64 = 1500.0;
/// Packets in the first window, and the RTT that it is paced over until there is a sample.
const FIRST_RATE: f64 = 10.0 * 1400.0 * 8.0 / 1e6 / 0.1;
const FIRST_RTT: Time = Time::from_millis(100);
/// RTT samples that an interval needs.
const SAMPLES: u32 = 4;
/// Part of them that must be reliable, or it lasts twice as long.
const RELIABLE: f64 = 0.8;
/// Times between ACKs that differ this many times more than usual are of a burst.
const BURST: f64 = 50.0;
const PAIRS: usize = 3;
const EPSILON: f64 = 0.05;
/// Largest step at first, and what it grows by, as parts of the rate.
const BOUND: f64 = 0.05;
/// Smallest step and smallest rate, Mbit/s.
const SMALLEST: f64 = 0.5;
const AMPLIFIER: f64 = 1.2;
/// Bits of a Mbit in the gradient, / 10^6.
const MEBI: f64 = 1.048_576;

/// Weights of the utility.
#[derive(Clone, Copy, Debug)]
struct Utility {
    t: f64,
    b: f64,
    c: f64,
}

impl Params {
    fn weights(&self) -> Utility {
        let b = if self.utility == Variant::Latency { self.b } else { 0.0 };
        Utility { t: self.t, b, c: self.c }
    }
}

impl Utility {
    /// The utility of an interval at `x` Mbit/s (Eq. 1).
    fn of(&self, x: f64, rtt_gradient: f64, loss: f64) -> f64 {
        libm::pow(x, self.t) - self.b * x * rtt_gradient - self.c * x * loss
    }
}

/// A rate in Mbit/s and its utility.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    rate: f64,
    utility: f64,
}

/// True if the first of a pair speaks for the higher rate.
fn is_for_more([a, b]: [Outcome; 2]) -> bool {
    (a.utility > b.utility) == (a.rate > b.rate)
}

#[derive(Clone)]
struct Vivace {
    utility: Utility,
    phase: u8,
    /// The rate, and in probing the one in the middle, Mbit/s.
    rate: f64,
    up: bool,
    /// Moves in a row in the same direction.
    moves: u32,
    /// How often the bound of a step was raised.
    raised: u32,
    latest: Outcome,
    intervals: Intervals,
    judge: Judge,
    acks: AckClock,
    pending: Option<HeldAck>,
    srtt: Time,
    min_rtt: Option<Time>,
    rng: Rng,
}

/// The RTT that an ACK gave: whether it is reliable turns out when the next one comes.
#[derive(Clone)]
struct HeldAck {
    /// How many packets were sent up to the newest that the ACK delivered.
    newest: u64,
    rtt: Option<Time>,
    delivered: u32,
}

/// Finds ACKs that come in bursts, whose RTTs say little.
#[derive(Clone, Debug, Default)]
struct AckClock {
    last: Option<Time>,
    gap: f64,
    /// Usual ratio of one time between ACKs to the next.
    ratio: Option<f64>,
    burst: bool,
    rtt: Time,
    srtt: Time,
}

impl AckClock {
    /// Takes an ACK that came `gap` seconds after the last one; whether the RTT of the one before it is reliable.
    fn is_reliable(&mut self, gap: f64, rtt: Time, srtt: Time) -> bool {
        let before = std::mem::replace(&mut self.gap, gap);
        let (rtt_before, srtt_before) =
            (std::mem::replace(&mut self.rtt, rtt), std::mem::replace(&mut self.srtt, srtt));
        if before <= 0.0 {
            return false;
        }
        let ratio = if gap < before { before / gap } else { gap / before };
        let usual = self.ratio.unwrap_or(ratio);
        self.ratio = Some(usual * 0.9 + ratio * 0.1);
        if ratio > BURST * usual {
            self.burst = true;
        } else if self.burst {
            // In whole microseconds, as the program's clock has it; equal ones end a burst too (see the file's head).
            let [rtt, before, srtt] = [rtt, rtt_before, srtt_before].map(Time::as_micros);
            self.burst = rtt < before || before > srtt;
        } else {
            return true;
        }
        false
    }
}

impl Vivace {
    fn new(params: &Params, init: &Init) -> Self {
        Self {
            utility: params.weights(),
            phase: STARTING,
            rate: FIRST_RATE,
            up: true,
            moves: 1,
            raised: 0,
            latest: Outcome::default(),
            intervals: Intervals::default(),
            judge: Judge::default(),
            acks: AckClock::default(),
            pending: None,
            srtt: Time::ZERO,
            min_rtt: None,
            rng: init.rng.clone(),
        }
    }

    fn measure(&mut self, rtt: Time) {
        self.srtt = if self.srtt == Time::ZERO { rtt } else { self.srtt.mul_div(7, 8).saturating_add(rtt / 8) };
        if self.min_rtt.is_none() && rtt < FIRST_RTT && rtt > Time::ZERO {
            self.rate = bounded(self.rate * FIRST_RTT.as_secs_f64() / rtt.as_secs_f64());
        }
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// Begins another interval where the next packet is to be its first.
    fn turn_interval(&mut self, view: &View) {
        let next = view.now.max(view.paced_until);
        let useful = self.intervals.useful();
        let most = if self.phase == LEARNING { 2 * PAIRS } else { 1 };
        let Some(min_rtt) = self.min_rtt else {
            if self.intervals.current().is_none() {
                self.intervals.begin(Interval::new(self.rate, false));
            }
            return;
        };
        if useful > 0
            && let Some(current) = self.intervals.current_mut()
        {
            let lasted = current.begin().is_some_and(|begin| next.saturating_sub(begin) >= min_rtt * current.spans());
            if !current.useful || current.reliable < SAMPLES || !lasted {
                return;
            }
            if f64::from(current.reliable) <= RELIABLE * f64::from(current.samples) && !current.extended {
                current.extended = true;
                return;
            }
        }
        let useful_next = useful < most;
        let rate = if self.phase == LEARNING && useful_next {
            self.up = if useful.is_multiple_of(2) { self.rng.chance(0.5) } else { !self.up };
            bounded(self.rate * if self.up { 1.0 + EPSILON } else { 1.0 - EPSILON })
        } else {
            self.rate
        };
        let mut interval = Interval::new(rate, useful_next);
        interval.starting = self.phase == STARTING;
        self.intervals.begin(interval);
    }

    /// Acts on the useful intervals once all of them are settled.
    fn decide(&mut self, intervals: &[Interval]) {
        let outcomes: Vec<Outcome> = intervals
            .iter()
            .map(|interval| {
                let gap_us = PACKET * 8.0 / interval.wanted;
                let utility = self.judge.utility(&self.utility, interval, gap_us, interval.starting);
                Outcome { rate: interval.wanted, utility }
            })
            .collect();
        match (self.phase, &outcomes[..]) {
            (STARTING, &[outcome, ..]) => self.start_on(outcome),
            (MOVING, &[outcome, ..]) => self.move_on(outcome),
            _ => self.probe_on(&outcomes),
        }
    }

    fn start_on(&mut self, outcome: Outcome) {
        if outcome.utility > self.latest.utility {
            self.rate = bounded(self.rate * 2.0);
            self.latest = outcome;
            self.moves += 1;
        } else {
            self.rate = bounded(self.rate / 2.0);
            self.phase = LEARNING;
            self.moves = 1;
        }
    }

    fn probe_on(&mut self, outcomes: &[Outcome]) {
        let pairs: Vec<[Outcome; 2]> = outcomes.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        let more = pairs.iter().filter(|pair| is_for_more(**pair)).count();
        if pairs.len() == PAIRS && (more > PAIRS / 2 || more == 0) {
            self.up = more > 0;
            let mut agree = pairs.iter().filter(|pair| is_for_more(**pair) == self.up);
            let rise: f64 = agree.clone().map(|[a, b]| (a.utility - b.utility).abs()).sum::<f64>() / PAIRS as f64;
            if let Some([a, b]) = agree.next_back() {
                self.latest = if a.utility > b.utility { *a } else { *b };
            }
            let apart = (pairs[0][0].rate - pairs[0][1].rate).abs();
            self.rate *= if self.up { 1.0 + EPSILON } else { 1.0 - EPSILON };
            self.moves = 1;
            self.raised = 0;
            let step = self.step(rise, apart, 1.0);
            self.go(step);
        } else {
            self.moves += 1;
        }
        if (self.moves > 1 || self.phase == MOVING) && self.rate <= SMALLEST {
            (self.rate, self.raised, self.moves, self.phase) = (SMALLEST, 0, 1, STARTING);
        }
    }

    fn move_on(&mut self, outcome: Outcome) {
        let (rate, utility) = (outcome.rate - self.latest.rate, outcome.utility - self.latest.utility);
        let in_line = if self.up { rate * utility > 0.0 } else { rate * utility < 0.0 };
        if in_line {
            self.moves += 1;
            let amplified = libm::pow(f64::from(self.moves.div_ceil(2)), AMPLIFIER);
            let step = self.step(utility.abs(), rate.abs(), amplified);
            self.go(step);
            self.latest = outcome;
        } else {
            self.moves = 1;
            let step = self.step(utility.abs(), rate.abs(), 1.0);
            self.rate += if self.up { -step } else { step };
            if self.rate < SMALLEST {
                (self.rate, self.raised) = (SMALLEST, 0);
            }
            self.rate = bounded(self.rate);
            self.phase = LEARNING;
        }
    }

    /// A step in the direction decided on.
    fn go(&mut self, step: f64) {
        self.rate = bounded(self.rate + if self.up { step } else { -step });
        if self.rate <= SMALLEST && !self.up {
            (self.rate, self.phase, self.moves, self.raised) = (SMALLEST, LEARNING, 1, 0);
        } else {
            self.phase = MOVING;
        }
    }

    /// The size of a step where the utility changed by `rise` over `apart` Mbit/s.
    fn step(&mut self, rise: f64, apart: f64, amplified: f64) -> f64 {
        let wanted = if apart > 0.0 { amplified * MEBI * MEBI * rise / apart } else { 0.0 };
        let bound = self.rate * BOUND * f64::from(self.raised + 1);
        let step = if wanted > bound {
            self.raised += 1;
            bound
        } else {
            self.raised = self.raised.saturating_sub(1);
            wanted
        };
        step.max(SMALLEST)
    }

    fn answer(&self, view: &View, control: &mut Control) {
        let rate = self.intervals.current().map_or(self.rate, |interval| interval.wanted);
        let payload = Rate::from_bps(truncated(rate * 1e6 * f64::from(view.mss) / PACKET));
        control.pacing_rate = Some(payload);
        control.cwnd = window_beyond(payload, view.mss, view.srtt.saturating_add(view.srtt), 4);
        control.min_burst = 1;
        control.phase = self.phase;
    }
}

fn bounded(rate: f64) -> f64 {
    if rate > SMALLEST { rate.min(LARGEST) } else { SMALLEST }
}

impl CongestionControl for Vivace {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        let gap = self.acks.last.replace(now).map_or(0.0, |last| now.saturating_sub(last).as_secs_f64());
        if let Some(rtt) = ack.rtt {
            self.measure(rtt);
        }
        let reliable = self.acks.is_reliable(gap, ack.rtt.unwrap_or(self.srtt), self.srtt);
        if let Some(HeldAck { newest, rtt, delivered }) = self.pending.take() {
            if let Some(rtt) = rtt {
                self.intervals.book_rtt(newest, rtt, delivered, reliable);
            }
            if let Some(settled) = self.intervals.take_useful(SAMPLES) {
                self.decide(&settled);
            }
        }
        let newest = self.intervals.on_ack(ack);
        self.pending = Some(HeldAck { newest, rtt: ack.rtt, delivered: ack.delivered });
        self.turn_interval(ack.view);
        self.answer(ack.view, control);
    }

    fn on_sent(&mut self, sent: &Sent, control: &mut Control) {
        if self.intervals.current().is_none() {
            self.turn_interval(sent.view);
        }
        self.intervals.on_sent(sent);
        self.turn_interval(sent.view);
        self.answer(sent.view, control);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        // No burst at the start, which would make the first RTTs unreliable.
        if change.event == StateEvent::Start {
            self.answer(change.view, control);
        }
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = control.cwnd.max(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RateSample;
    use crate::testing::{ack_of_nothing, close, init, view};

    const LATENCY: Utility = Utility { t: 0.9, b: 900.0, c: 11.35 };

    #[test]
    fn utility_by_hand() {
        // 32^0.9 = 2^4.5; an RTT rising by 1 ms in 100 ms costs 900 * 32 * 0.01; 1 % of loss 11.35 * 32 * 0.01.
        let rate = libm::sqrt(512.0);
        assert!(close(LATENCY.of(32.0, 0.0, 0.0), rate));
        assert!(close(LATENCY.of(32.0, 0.01, 0.01), rate - 288.0 - 3.632));
    }

    /// Sec. 4: c = 11.35 tolerates 5 % of random loss up to 100 Mbit/s: there the utility still grows with the rate.
    #[test]
    fn five_percent_of_loss_leave_the_utility_growing() {
        let loss = Utility { b: 0.0, ..LATENCY };
        assert!(loss.of(100.0, 0.0, 0.05) > loss.of(99.0, 0.0, 0.05));
        assert!(loss.of(100.0, 0.0, 0.06) < loss.of(99.0, 0.0, 0.06));
    }

    fn vivace(phase: u8, rate: f64) -> Vivace {
        Vivace { phase, rate, ..Vivace::new(&Params::default(), &init()) }
    }

    /// Three pairs at 19 and 21 Mbit/s, of which `more` speak for the higher rate by `rise`.
    fn pairs(more: usize, rise: f64) -> Vec<Outcome> {
        (0..3)
            .flat_map(|i| {
                let up = if i < more { rise } else { -rise };
                [Outcome { rate: 21.0, utility: 10.0 + up }, Outcome { rate: 19.0, utility: 10.0 }]
            })
            .collect()
    }

    #[test]
    fn two_pairs_of_three_raise_the_rate_and_it_takes_all_three_to_lower_it() {
        // Up: to 21 Mbit/s and a step of 2/3 x 0.9 / 2 x 1.0995 = 0.33, which is less than the least one of 0.5.
        let after = |more| {
            let mut vivace = vivace(LEARNING, 20.0);
            vivace.probe_on(&pairs(more, 0.9));
            (vivace.rate, vivace.phase)
        };
        assert!(close(after(2).0, 21.5) && close(after(3).0, 21.5) && close(after(0).0, 18.5));
        assert_eq!([after(0).1, after(1).1, after(2).1], [MOVING, LEARNING, MOVING]);
        assert!(close(after(1).0, 20.0));
    }

    #[test]
    fn a_step_is_cut_to_five_percent_and_five_more_each_time() {
        let mut vivace = vivace(MOVING, 20.0);
        let steps = [100.0, 100.0, 100.0, 0.1].map(|rise| vivace.step(rise, 1.0, 1.0));
        assert!(steps.iter().zip([1.0, 2.0, 3.0, 0.5]).all(|(step, wanted)| close(*step, wanted)), "{steps:?}");
        assert_eq!(vivace.raised, 2);
    }

    #[test]
    fn a_move_that_does_not_pay_is_taken_back() {
        let mut vivace = vivace(MOVING, 22.0);
        (vivace.up, vivace.latest) = (true, Outcome { rate: 21.0, utility: 10.0 });
        vivace.move_on(Outcome { rate: 22.0, utility: 9.9 });
        assert!(close(vivace.rate, 21.5) && vivace.phase == LEARNING);
    }

    #[test]
    fn rtts_of_a_burst_are_not_reliable_until_one_rises_below_the_mean() {
        let mut clock = AckClock::default();
        let ms = Time::from_millis;
        let mut take = |gap, rtt| clock.is_reliable(gap, ms(rtt), ms(41));
        let seen = [take(0.001, 40), take(0.001, 40), take(0.1, 40), take(0.001, 39), take(0.001, 42), take(0.001, 42)];
        assert_eq!(seen, [false, true, false, false, false, true]);
    }

    /// A path without noise gives the same RTT for good, which never rises below its mean: without an end of the burst
    /// no interval is ever judged, and the rate stays as it is.
    #[test]
    fn a_burst_ends_where_the_rtt_stays_the_same_to_the_microsecond() {
        let mut clock = AckClock::default();
        let ns = Time::from_nanos;
        let mut take = |gap, rtt, srtt| clock.is_reliable(gap, ns(rtt), ns(srtt));
        let bursts = [take(0.001, 41_000_000, 41_000_000), take(0.001, 41_000_000, 41_000_000)];
        let after = [0.1, 0.001, 0.001, 0.001, 0.001].map(|gap| take(gap, 40_000_003, 40_000_001));
        assert_eq!((bursts, after), ([false, true], [false, false, true, true, true]));
    }

    #[test]
    fn packets_sent_between_two_acks_are_not_delivered_by_the_first() {
        let mut vivace = vivace(LEARNING, 20.0);
        let mut control = Control::initial(10);
        let mut view = View { now: Time::from_secs(1), in_flight: 0, delivered: 0, lost: 0, ..view() };
        // Ten packets leave and one arrives; 30 more leave and another arrives.
        for (packets, number) in [(10, 1), (30, 2)] {
            view.in_flight += packets;
            vivace.on_sent(&Sent { view: &view, packets, retransmission: false }, &mut control);
            view = View { now: view.now + Time::from_millis(20), in_flight: view.in_flight - 1, ..view };
            view.delivered += 1;
            let rate = RateSample { tx_in_flight: number, ..RateSample::NONE };
            let rtt = Some(Time::from_millis(20));
            let ack = Ack { view: &view, rtt, acked: 1, delivered: 1, rate: &rate, ..ack_of_nothing() };
            vivace.on_ack(&ack, &mut control);
        }
        assert_eq!(vivace.intervals.outstanding(), 38);
    }
}
