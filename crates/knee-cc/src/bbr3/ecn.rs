//! ECN with accurate feedback: marks of a shallow threshold bound what is in flight by their fraction.
//!
//! Source: Google's BBRv3, `net/ipv4/tcp_bbr.c` of its Linux branch v3. The draft leaves the response open (3.6).
//!
//! With `F` the fraction of packets delivered with a mark in a round:
//!
//! - `alpha = (1 - g) · alpha + g · F`, once per round, from 1 on
//! - a round with a mark, not probing: `inflight_shortterm` `· (1 - ecn_factor · alpha)`
//! - probing, with more than `ecn_thresh` of the packets marked: the probe put too much in flight
//! - startup ends after two rounds of such fractions
//! - a cycle with marks, without loss: the next probe starts as soon as the marks end
//!
//! A flow does this once its least RTT has been at most `ecn_max_rtt`. Linux asks besides that the route says that its
//! queues mark early (`ecn_low`); here accurate feedback stands for that.
//!
//! Departures: a flow with a longer RTT, which ignores marks there, takes them as loss, as the draft demands; fractions
//! have 20 bits where Linux has 8.

use super::model::Sample;
use super::{Bbr3, INFINITE};
use crate::Ack;
use knee_core::convert::{saturating_u64, truncated};
use knee_core::{Time, params};

/// A fraction of 1.
pub const ONE: u64 = 1 << 20;

const GOOGLE: &str = "Google's BBRv3, tcp_bbr.c of its Linux branch v3";

params! {
    /// The parameters of the response to marks.
    pub struct Params {
        /// with accurate ECN: up to this least RTT the fraction of marks counts, beyond it a mark is a loss; 0: any RTT
        ecn_max_rtt: Time = Time::from_millis(5), in Time::ZERO..=Time::from_secs(10), from GOOGLE;
        /// gain of the average fraction of marks, alpha
        ecn_alpha_gain: f64 = 1.0 / 16.0, in 0.0..=1.0, from GOOGLE;
        /// a round with marks takes this times alpha; 0: off
        ecn_factor: f64 = 1.0 / 3.0, in 0.0..=1.0, from GOOGLE;
        /// fraction of marks that ends a probe; 0: none does
        ecn_thresh: f64 = 0.5, in 0.0..=1.0, from GOOGLE;
        /// share of inflight_longterm that a probe right after marks adds at once; 0: no such probe
        ecn_reprobe_gain: f64 = 0.5, in 0.0..=1.0, from GOOGLE;
        /// rounds above ecn_thresh that end startup; 0: none do
        startup_full_ecn_cnt: u64 = 2, in 0..=1000, from GOOGLE;
    }
}

/// Gains and fractions of the parameters in units of 1 / [`ONE`].
#[derive(Clone, Copy, Debug)]
pub struct Fractions {
    /// g.
    pub alpha_gain: u64,
    /// Share of alpha that the bound loses.
    pub factor: u64,
    /// Fraction of marks that says that too much is in flight; 0: none does.
    pub thresh: u64,
    /// Share of `inflight_longterm` that the first round of a probe after marks adds; 0: no such probe.
    pub reprobe_gain: u64,
}

impl Fractions {
    /// Converts the parameters, rounded to the nearest unit.
    pub fn new(params: &Params) -> Self {
        let fraction = |ratio| truncated(libm::round(ratio * ONE as f64));
        Self {
            alpha_gain: fraction(params.ecn_alpha_gain),
            factor: fraction(params.ecn_factor),
            thresh: fraction(params.ecn_thresh),
            reprobe_gain: fraction(params.ecn_reprobe_gain),
        }
    }
}

/// State of the reaction to marks.
#[derive(Clone, Debug)]
pub struct Ecn {
    /// The receiver counts marks.
    counted: bool,
    /// The flow reacts to the fraction of marks.
    pub eligible: bool,
    /// Average fraction of marked packets.
    alpha: u64,
    /// Packets delivered, and those of them with a mark, when alpha was updated.
    seen: (u64, u64),
    /// A packet of this round was marked.
    in_round: bool,
    /// Packets of this probing cycle were marked.
    in_cycle: bool,
    /// Packets were lost in this probing cycle.
    pub loss_in_cycle: bool,
    /// Rounds of startup above the threshold, in a row.
    startup_rounds: u64,
}

impl Ecn {
    /// The state before the first mark.
    pub const fn new(counted: bool) -> Self {
        Self {
            counted,
            eligible: false,
            alpha: ONE,
            seen: (0, 0),
            in_round: false,
            in_cycle: false,
            loss_in_cycle: false,
            startup_rounds: 0,
        }
    }

    /// A probe or startup is over (`bbr_reset_congestion_signals`).
    pub const fn reset(&mut self) {
        (self.in_round, self.in_cycle, self.loss_in_cycle) = (false, false, false);
    }

    /// Takes a round's fraction of marks into alpha (`bbr_update_ecn_alpha`).
    const fn update_alpha(&mut self, fraction: u64, gain: u64) {
        self.alpha = ((ONE - gain) * self.alpha + gain * fraction) / ONE;
    }

    /// `inflight`, a bound on the packets in flight, after a round with marks: less by `alpha · factor` of it
    /// (`bbr_ecn_lower_bounds`).
    const fn lowered(&self, inflight: u64, factor: u64) -> u64 {
        let kept = ONE - self.alpha * factor / ONE;
        saturating_u64(inflight as u128 * kept as u128 / ONE as u128)
    }
}

impl Bbr3 {
    /// Follows the marks of an ACK; once per round their average, and the end of startup.
    pub(super) fn update_ecn(&mut self, ack: &Ack) {
        let params = self.tunables.params.ecn;
        if self.ecn.counted && self.model.round_start() {
            let near =
                params.ecn_max_rtt == Time::ZERO || self.min_rtt.rtt().is_some_and(|rtt| rtt <= params.ecn_max_rtt);
            self.ecn.eligible |= near && self.tunables.ecn.factor > 0;
            self.update_ecn_alpha(ack);
        }
        self.ecn.in_round |= self.ecn.eligible && ack.ece;
    }

    fn update_ecn_alpha(&mut self, ack: &Ack) {
        let delivered = ack.view.delivered.saturating_sub(self.ecn.seen.0);
        let marked = ack.view.delivered_ce.saturating_sub(self.ecn.seen.1).min(delivered);
        if !self.ecn.eligible || delivered == 0 {
            return;
        }
        let fraction = (marked << 20) / delivered;
        self.ecn.update_alpha(fraction, self.tunables.ecn.alpha_gain);
        self.ecn.seen = (ack.view.delivered, ack.view.delivered_ce);
        self.check_startup_ecn(fraction);
    }

    /// Ends startup where round after round more is marked than the threshold (`bbr_check_ecn_too_high_in_startup`).
    fn check_startup_ecn(&mut self, fraction: u64) {
        let (rounds, thresh) = (self.tunables.params.ecn.startup_full_ecn_cnt, self.tunables.ecn.thresh);
        if self.full_pipe.reached || rounds == 0 || thresh == 0 {
            return;
        }
        let above = fraction >= thresh;
        self.ecn.startup_rounds = if above { self.ecn.startup_rounds + 1 } else { 0 };
        if self.ecn.startup_rounds >= rounds {
            self.end_startup();
        }
    }

    /// True if a sample shows that a probe put too much in flight (`bbr_is_inflight_too_high`).
    pub(super) fn is_marked_too_much(&self, sample: &Sample) -> bool {
        let thresh = self.tunables.ecn.thresh;
        self.ecn.eligible && thresh > 0 && sample.delivered_ce << 20 > sample.delivered.saturating_mul(thresh)
    }

    /// The short-term bound after a round with marks; [`INFINITE`] without.
    pub(super) fn inflight_after_marks(&self, cwnd: u32) -> u64 {
        if !self.ecn.in_round {
            return INFINITE;
        }
        let bound = if self.short_term.inflight == INFINITE { u64::from(cwnd) } else { self.short_term.inflight };
        self.ecn.lowered(bound, self.tunables.ecn.factor)
    }

    /// A round is over.
    pub(super) const fn end_ecn_round(&mut self) {
        self.ecn.in_round = false;
    }

    /// Notes what an ACK told for the rest of the probing cycle.
    pub(super) const fn note_cycle(&mut self, sample: &Sample) {
        self.ecn.loss_in_cycle |= sample.lost > 0;
        self.ecn.in_cycle |= sample.delivered_ce > 0;
    }

    /// Where marks without loss have ended, how often the slope of the coming probe is doubled in advance.
    pub(super) fn reprobe_after_marks(&self, is_open: bool) -> Option<u32> {
        let gain = self.tunables.ecn.reprobe_gain;
        let due = gain > 0 && self.ecn.eligible && self.ecn.in_cycle && !self.ecn.loss_in_cycle && is_open;
        due.then(|| (u128::from(self.inflight_longterm) * u128::from(gain) / u128::from(ONE)).max(1).ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::testing::{self, ack_of_nothing, lent, lent_rate};
    use crate::{CaState, RateSample};
    use knee_core::Value;

    const RTT: Time = Time::from_millis(4);

    fn flow(counted: bool, given: &[(&str, Value)]) -> Bbr3 {
        let params = knee_core::Params::resolve(ENTRY.params, given.iter().copied()).unwrap();
        let init = Init { rtt: RTT, accurate_ecn: counted, tick: Time::ZERO, ..testing::init() };
        Bbr3::new((&params).into(), &init)
    }

    /// The ACK that ends the round of that number: 100 packets, `marked` of them with a mark in all so far.
    fn ack(round: u64, marked: u64, newly: u32) -> Ack<'static> {
        let view = View {
            now: RTT * round,
            delivered: 100 * round,
            delivered_ce: marked,
            in_flight: 100,
            ca: if newly > 0 { CaState::Cwr } else { CaState::Open },
            ..testing::view()
        };
        let rate = RateSample {
            delivered: 100,
            delivered_ce: newly,
            interval: Some(RTT),
            prior_delivered: 100 * (round - 1),
            tx_in_flight: 100,
            ..RateSample::NONE
        };
        let (view, rate) = (lent(view), lent_rate(rate));
        Ack { view, rtt: Some(RTT), delivered: 100, ece: newly > 0, rate, ..ack_of_nothing() }
    }

    #[test]
    fn defaults_are_those_of_googles_branch() {
        let ecn = flow(true, &[]).tunables.ecn;
        // BBR_UNIT is 256: 16, 85 (a third, rounded), 128, 128; 5 ms; two rounds.
        let in_256ths = [ecn.alpha_gain, ecn.factor, ecn.thresh, ecn.reprobe_gain].map(|part| part * 256 / ONE);
        assert_eq!(in_256ths, [16, 85, 128, 128]);
        let params = super::Params::default();
        assert_eq!((params.ecn_max_rtt, params.startup_full_ecn_cnt), (Time::from_millis(5), 2));
    }

    #[test]
    fn alpha_starts_at_one_and_moves_a_sixteenth_of_the_way_each_round() {
        let mut ecn = Ecn::new(true);
        let mut expected = 1.0;
        for fraction in [0.0, 0.0, 0.5, 1.0, 0.0] {
            ecn.update_alpha((fraction * ONE as f64) as u64, ONE / 16);
            expected = expected * 15.0 / 16.0 + fraction / 16.0;
            assert!((ecn.alpha as f64 / ONE as f64 - expected).abs() < 1e-5, "{fraction}");
        }
    }

    #[test]
    fn a_round_with_marks_takes_a_third_of_alpha_off_the_bound() {
        let mut ecn = Ecn::new(true);
        assert_eq!(ecn.lowered(300, ONE / 3), 200);
        ecn.alpha = ONE / 10;
        assert_eq!(ecn.lowered(300, ONE / 3), 290);
    }

    /// The part of an ACK that follows the congestion signals, at a window of 100.
    fn signals(flow: &mut Bbr3, ack: &Ack) {
        let sample = Sample::new(ack, &flow.model.mark);
        flow.update_latest_delivery(ack, &sample);
        flow.update_congestion_signals(ack, &sample, &Control::initial(100));
    }

    #[test]
    fn marks_lower_the_short_term_bound_only_while_not_probing() {
        for (state, bound) in [(State::Cruise, 67), (State::Refill, INFINITE)] {
            let mut flow = flow(true, &[]);
            (flow.state, flow.full_pipe.reached) = (state, true);
            flow.probe.ack_phase = probe_bw::AckPhase::Init;
            signals(&mut flow, &ack(1, 0, 0));
            assert_eq!(flow.short_term.inflight, INFINITE);
            // Alpha: 15/16 after the first round, then 15/16 · 15/16 + 1/16: 0.941, a third of which is 0.314.
            signals(&mut flow, &ack(2, 100, 100));
            let got = flow.short_term.inflight;
            assert!(if bound == INFINITE { got == INFINITE } else { got.abs_diff(bound) <= 2 }, "{state:?}: {got}");
            assert_eq!(flow.short_term.bw, INFINITE, "marks say nothing of the bandwidth");
        }
    }

    #[test]
    fn two_rounds_of_half_the_packets_marked_end_startup() {
        for (newly, rounds) in [(50, Some(2)), (49, None)] {
            let mut flow = flow(true, &[]);
            let mut control = Control::initial(100);
            let mut ended = None;
            for round in 1..=2 {
                // A bandwidth that grows, so that no plateau ends startup.
                flow.full_pipe.restart(0);
                flow.on_ack(&ack(round, u64::from(newly) * round, newly), &mut control);
                if flow.full_pipe.reached && ended.is_none() {
                    ended = Some(round);
                }
            }
            assert_eq!(ended, rounds, "{newly} of 100");
            assert_eq!(flow.inflight_longterm != INFINITE, rounds.is_some());
        }
    }

    #[test]
    fn a_probe_ends_where_more_than_half_is_marked() {
        for (newly, ends) in [(50, false), (51, true)] {
            let mut flow = flow(true, &[]);
            (flow.state, flow.full_pipe.reached, flow.ecn.eligible) = (State::Up, true, true);
            flow.probe.is_sample = true;
            flow.on_ack(&ack(1, newly, newly as u32), &mut Control::initial(100));
            assert_eq!((flow.state != State::Up, flow.probe.prev_too_high), (ends, ends), "{newly} of 100");
            assert_eq!(flow.inflight_longterm, if ends { 100 } else { INFINITE });
        }
    }

    #[test]
    fn when_marks_without_loss_end_the_next_probe_starts_at_half_the_bound() {
        for (lost, refills) in [(false, true), (true, false)] {
            let mut flow = flow(true, &[]);
            (flow.state, flow.full_pipe.reached, flow.ecn.eligible) = (State::Cruise, true, true);
            flow.inflight_longterm = 100;
            (flow.ecn.in_cycle, flow.ecn.loss_in_cycle) = (true, lost);
            // ilog2(100 / 2) = 5: the first round of the probe adds 32 packets.
            assert_eq!(flow.reprobe_after_marks(true), refills.then_some(5));
            assert_eq!(flow.reprobe_after_marks(false), None, "marks still come");
        }
    }

    #[test]
    fn a_long_rtt_or_classic_feedback_leaves_all_this_out() {
        let any = ("ecn_max_rtt", Value::Time(Time::ZERO));
        let short = ("ecn_max_rtt", Value::Time(Time::from_millis(3)));
        let off = ("ecn_factor", Value::Ratio(0.0));
        for (counted, given, eligible) in
            [(true, vec![], true), (true, vec![short], false), (true, vec![any], true), (true, vec![off], false)]
                .into_iter()
                .chain([(false, vec![], false), (false, vec![any], false)])
        {
            let mut flow = flow(counted, &given);
            flow.on_ack(&ack(1, 100, 100), &mut Control::initial(100));
            assert_eq!(flow.ecn.eligible, eligible, "{counted} {given:?}");
        }
    }
}
