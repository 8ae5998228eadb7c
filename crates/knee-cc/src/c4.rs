//! C4, Christian's Congestion Control Code: a rate and the greatest RTT without a queue, for real-time media.
//!
//! Source: C. Huitema, S. Nandakumar, C. Jennings, draft-huitema-ccwg-c4-spec-01; section names below are the draft's.
//!
//! An era is a round trip: it ends when the first packet sent in it is acknowledged.
//! - `nominal_rate` grows to each greater delivery rate, unless the flow recovers from congestion.
//! - `nominal_max_rtt` follows the greatest RTT of eras whose packets were sent at no more than that rate: up at once,
//!   down by an eighth.
//! - `pacing_rate = alpha nominal_rate`, `cwnd = alpha nominal_rate nominal_max_rtt`, with alpha = 2 in Initial, 15/16
//!   for an era of Recovery, 1 for four eras of Cruising, 17/16 or up to 5/4 for an era of Pushing.
//! - Congestion is an RTT above `nominal_max_rtt` plus a threshold, a smoothed loss rate or a share of CE marks above
//!   theirs; thresholds fall as the rate grows (`sensitivity`), so that the faster of two flows yields first. While
//!   Cruising it takes up to a quarter of `nominal_rate`; everywhere it leads to Recovery.
//!
//! Departures: the RTT of the handshake is the first sample, and the first packets are paced at `alpha` windows per
//! RTT, since there is no rate of an interface. Marks are counted over 16 packets, not per ACK: TCP acknowledges one or
//! two, of which a single mark would be half. Where the receiver does not count marks (RFC 3168, and knee's QUIC), an
//! echo is what a loss is. With a successful push and no marks, alpha is 5/4 as the table of "Setting pacing
//! rate" has it; the formula in "Pushing state" would give 17/8. Losses by the retransmission timer do not count, as
//! the draft has it for probe timeouts; a flow with an application-limited era stays in Cruising.

use crate::entry::{Entry, Family, edges};
use crate::window::LARGEST;
use crate::{Ack, Congestion, CongestionControl, Control, Needs, Signal, View};
use knee_core::convert::{truncated, truncated_u32};
use knee_core::packet::MSS;
use knee_core::{Rate, Time, params};

/// C4's registry entry.
pub const ENTRY: Entry = Entry {
    name: "c4",
    family: Family::Hybrid,
    about: "keeps a measured rate and the greatest RTT without a queue; yields to delay, loss and marks the more, the faster it is",
    source: "draft-huitema-ccwg-c4-spec-01",
    params: Params::DECLARED,
    phases: &["initial", "recovery", "cruising", "pushing"],
    edges: edges![Phase:
        Initial => Recovery, Recovery => Initial, Recovery => Cruising, Cruising => Pushing, Cruising => Recovery,
        Pushing => Recovery,
    ],
    min_cwnd: 2,
    needs: Needs { pacing: true, full_control: true, rate: true, ..Needs::NONE },
    make: |params, init| {
        let rtt = init.rtt.as_secs_f64();
        let params = Params::from(params);
        Box::new(C4 {
            params,
            most_delay: params.delay_threshold.as_secs_f64(),
            max_jitter: params.max_jitter.as_secs_f64(),
            first_cwnd: init.cwnd,
            phase: Phase::Initial,
            nominal_rate: 0.0,
            nominal_max_rtt: rtt,
            running_min_rtt: rtt,
            era: Era::default(),
            alpha: params.initial_alpha,
            alpha_previous: params.initial_alpha,
            congested: false,
            eras_in_phase: 0,
            eras_without_increase: 0,
            push: None,
            pushed_well: false,
            successes: 0,
            jitter_seen: false,
            loss_rate: 0.0,
            accurate_ecn: init.accurate_ecn,
            echoed: false,
            marks: Marks::default(),
        })
    },
};

params! {
    /// C4's parameters.
    struct Params {
        /// factor of the rate in Initial
        initial_alpha: f64 = 2.0, in 1.25..=4.0, from "draft, Setting pacing rate";
        /// factor of the rate in Recovery
        recovery_alpha: f64 = 0.9375, in 0.5..=1.0, from "draft, Setting pacing rate";
        /// factor of the rate after a successful push
        push_alpha: f64 = 1.25, in 1.0..=2.0, from "draft, Setting pacing rate";
        /// factor of the rate after a push without success
        low_push_alpha: f64 = 1.0625, in 1.0..=2.0, from "draft, Pushing state";
        /// eras of Cruising before a push
        cruising_eras: u64 = 4, in 1..=100, from "draft, Cruising state";
        /// the greatest excess of the RTT that is not congestion
        delay_threshold: Time = Time::from_millis(25), in Time::from_millis(1)..=Time::from_secs(1),
            from "draft, Detecting Excessive Delays";
        /// how far the nominal maximum RTT can be above the minimum
        max_jitter: Time = Time::from_millis(250), in Time::from_millis(1)..=Time::from_secs(1),
            from "draft, Nominal max RTT";
        /// the largest reduction of the rate
        beta: f64 = 0.25, in 0.01..=0.9, from "draft, Rate Reduction on Congestion";
    }
}

/// Eras without a greater rate after which Initial ends, and after which a delay ends it.
const INITIAL_ERAS: u32 = 3;
const INITIAL_ERAS_DELAY: u32 = 2;
/// Packets received before a loss ends Initial.
const INITIAL_PACKETS: u64 = 20;
/// Successful pushes in a row after which the flow starts anew from Initial.
const RESTART_SUCCESSES: u32 = 3;
/// `running_min_rtt` below this part of `nominal_max_rtt` is high jitter.
const HIGH_JITTER: f64 = 0.4;
/// What part of its expected increase a push must bring to be a success.
const SUCCESS: f64 = 0.25;
/// Weight of the past in the loss rate, and gain of the share of marks.
const SMOOTHING: f64 = 16.0;
/// Packets over which a share of marks is taken.
const MARKS_OVER: u64 = 16;
/// A share of marks that counts at once.
const MANY_MARKS: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Initial,
    Recovery,
    Cruising,
    Pushing,
}

/// What is measured between two ends of an era.
#[derive(Clone, Copy, Debug, Default)]
struct Era {
    /// Packets delivered when it began: what was sent later was sent in it.
    begins: u64,
    /// Seconds; none without a sample.
    rtts: Option<(f64, f64)>,
    app_limited: bool,
    /// Whether the rate grew.
    grew: bool,
}

/// A push whose outcome Recovery will tell.
#[derive(Clone, Copy, Debug)]
struct Push {
    alpha: f64,
    /// `nominal_rate` when it began, bytes/s.
    rate: f64,
}

/// Packets and marks since the last share was taken.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    delivered: u64,
    delivered_ce: u64,
    /// `ecn_alpha`.
    share: f64,
}

#[derive(Clone)]
struct C4 {
    params: Params,
    /// Seconds.
    most_delay: f64,
    /// Seconds.
    max_jitter: f64,
    /// Packets.
    first_cwnd: u32,
    phase: Phase,
    /// Payload bytes per second; 0 before the first sample.
    nominal_rate: f64,
    /// Seconds.
    nominal_max_rtt: f64,
    /// Seconds.
    running_min_rtt: f64,
    era: Era,
    /// `alpha_current`.
    alpha: f64,
    /// That of the era before, in which the packets were sent that this one sees acknowledged.
    alpha_previous: f64,
    /// Whether Recovery was entered by congestion, or has seen any.
    congested: bool,
    eras_in_phase: u64,
    /// Of Initial.
    eras_without_increase: u32,
    push: Option<Push>,
    pushed_well: bool,
    /// Successful pushes in a row.
    successes: u32,
    /// Whether Initial was entered again for high jitter; this is done once.
    jitter_seen: bool,
    loss_rate: f64,
    accurate_ecn: bool,
    /// Without accurate ECN: the receiver echoed a mark since the last ACK.
    echoed: bool,
    marks: Marks,
}

/// How much a flow of this rate (bytes/s) heeds congestion, from 0 to 1 ("Variable Sensitivity").
pub fn sensitivity(rate: f64) -> f64 {
    let between = |from: (f64, f64), to: (f64, f64)| from.1 + (rate - from.0) / (to.0 - from.0) * (to.1 - from.1);
    match rate {
        r if r < 5e4 => 0.0,
        r if r < 1e6 => between((5e4, 0.0), (1e6, 0.92)),
        r if r < 1e7 => between((1e6, 0.92), (1e7, 1.0)),
        _ => 1.0,
    }
}

/// By how much an RTT may exceed `nominal_max_rtt` ("Detecting Excessive Delays"), seconds.
pub fn delay_threshold(sensitivity: f64, nominal_max_rtt: f64, most: f64) -> f64 {
    ((1.0 / 16.0 + (1.0 - sensitivity) * 3.0 / 16.0) * nominal_max_rtt).min(most)
}

/// The smoothed loss rate that is congestion ("Detecting Excessive Losses").
pub fn loss_threshold(sensitivity: f64) -> f64 {
    0.02 + 0.5 * (1.0 - sensitivity)
}

/// The share of marks that is congestion ("Detecting Excessive CE Marks").
pub fn mark_threshold(sensitivity: f64) -> f64 {
    (2.0 - sensitivity) * 3.0 / 32.0
}

impl C4 {
    /// Takes the samples of an ACK, and gives the reduction that congestion asks for.
    fn measure(&mut self, ack: &Ack) -> Option<f64> {
        if let Some(interval) = ack.rate.interval.filter(|interval| *interval > Time::ZERO) {
            let rate = f64::from(ack.rate.delivered) * f64::from(MSS) / interval.as_secs_f64();
            self.era.app_limited |= ack.rate.app_limited;
            let settling = self.phase == Phase::Recovery && self.congested;
            if rate > self.nominal_rate && !settling {
                self.nominal_rate = rate;
                self.era.grew = true;
            }
        }
        let rtt = ack.rtt.map(Time::as_secs_f64);
        if let Some(rtt) = rtt {
            self.era.rtts = Some(self.era.rtts.map_or((rtt, rtt), |(least, most)| (least.min(rtt), most.max(rtt))));
        }
        let sensitivity = sensitivity(self.nominal_rate);
        let delay = rtt.and_then(|rtt| self.delay_congestion(rtt, sensitivity));
        let loss = self.loss_congestion(ack, sensitivity);
        let marks = self.mark_congestion(ack, sensitivity);
        [delay, loss, marks].into_iter().flatten().reduce(f64::max)
    }

    fn delay_congestion(&self, rtt: f64, sensitivity: f64) -> Option<f64> {
        let threshold = delay_threshold(sensitivity, self.nominal_max_rtt, self.most_delay);
        let excess = rtt - (self.nominal_max_rtt + threshold);
        // Jitter alone does not end Initial.
        let heeded = self.phase != Phase::Initial || self.eras_without_increase >= INITIAL_ERAS_DELAY;
        (excess > 0.0 && heeded).then(|| (excess / threshold).min(self.params.beta))
    }

    fn loss_congestion(&mut self, ack: &Ack, sensitivity: f64) -> Option<f64> {
        let by_timer = ack.view.ca == crate::CaState::Loss;
        let losses = if by_timer { 0 } else { ack.lost };
        let kept = 1.0 - 1.0 / SMOOTHING;
        let peak = 1.0 - (1.0 - self.loss_rate) * libm::pow(kept, f64::from(losses));
        self.loss_rate = peak * libm::pow(kept, f64::from(ack.delivered));
        let heeded = self.phase != Phase::Initial || ack.view.delivered > INITIAL_PACKETS;
        (losses > 0 && heeded && peak > loss_threshold(sensitivity)).then_some(self.params.beta)
    }

    fn mark_congestion(&mut self, ack: &Ack, sensitivity: f64) -> Option<f64> {
        if !self.accurate_ecn {
            return std::mem::take(&mut self.echoed).then_some(self.params.beta);
        }
        let marks = &mut self.marks;
        let delivered = ack.view.delivered - marks.delivered.min(ack.view.delivered);
        if delivered < MARKS_OVER {
            return None;
        }
        let share = (ack.view.delivered_ce.saturating_sub(marks.delivered_ce)) as f64 / delivered as f64;
        let smoothed = if share >= MANY_MARKS { share } else { marks.share + (share - marks.share) / SMOOTHING };
        *marks = Marks { delivered: ack.view.delivered, delivered_ce: ack.view.delivered_ce, share: smoothed };
        let threshold = mark_threshold(sensitivity);
        (smoothed > threshold).then(|| ((smoothed - threshold) / threshold).min(self.params.beta))
    }

    fn enter(&mut self, phase: Phase, view: &View) {
        self.alpha = match phase {
            Phase::Initial => self.params.initial_alpha,
            Phase::Recovery => self.params.recovery_alpha,
            Phase::Cruising => 1.0,
            Phase::Pushing => self.next_push(),
        };
        if phase == Phase::Pushing {
            self.push = Some(Push { alpha: self.alpha, rate: self.nominal_rate });
        }
        self.phase = phase;
        self.eras_in_phase = 0;
        self.eras_without_increase = 0;
        self.begin_era(view);
    }

    /// The more marks, the less of the step up that a successful push allows.
    fn next_push(&self) -> f64 {
        if !self.pushed_well {
            return self.params.low_push_alpha;
        }
        let room = 1.0 - self.marks.share / mark_threshold(sensitivity(self.nominal_rate));
        self.params.low_push_alpha
            + (self.params.push_alpha - self.params.low_push_alpha).max(0.0) * room.clamp(0.0, 1.0)
    }

    fn begin_era(&mut self, view: &View) {
        self.era = Era { begins: view.delivered, ..Era::default() };
    }

    /// Congestion leads to Recovery, unless the flow is there already; only in Cruising the rate was the nominal one,
    /// and is reduced.
    fn yield_by(&mut self, beta: f64, view: &View) {
        if self.phase == Phase::Cruising {
            self.nominal_rate *= 1.0 - beta;
        }
        self.alpha_previous = self.alpha;
        self.enter(Phase::Recovery, view);
    }

    fn end_era(&mut self, view: &View) {
        if self.alpha_previous <= 1.0 {
            self.track_rtts();
        }
        self.alpha_previous = self.alpha;
        self.eras_in_phase += 1;
        match self.phase {
            Phase::Initial => {
                if self.era.grew {
                    self.eras_without_increase = 0;
                } else if !self.era.app_limited {
                    self.eras_without_increase += 1;
                }
                if self.eras_without_increase >= INITIAL_ERAS {
                    self.congested = false;
                    return self.enter(Phase::Recovery, view);
                }
            }
            Phase::Recovery => {
                let next = self.after_recovery();
                return self.enter(next, view);
            }
            Phase::Cruising => {
                if self.eras_in_phase >= self.params.cruising_eras && !self.era.app_limited {
                    return self.enter(Phase::Pushing, view);
                }
            }
            Phase::Pushing => {
                self.congested = false;
                return self.enter(Phase::Recovery, view);
            }
        }
        self.begin_era(view);
    }

    fn after_recovery(&mut self) -> Phase {
        if let Some(push) = self.push.take() {
            let needed = if push.alpha <= self.params.low_push_alpha { 0.0 } else { (push.alpha - 1.0) * SUCCESS };
            self.pushed_well = !self.congested && self.nominal_rate > push.rate * (1.0 + needed);
            self.successes = if self.pushed_well { self.successes + 1 } else { 0 };
        }
        self.congested = false;
        self.marks.share = 0.0;
        let jitter = !self.jitter_seen && self.running_min_rtt < self.nominal_max_rtt * HIGH_JITTER;
        self.jitter_seen |= jitter;
        if jitter || self.successes >= RESTART_SUCCESSES {
            self.successes = 0;
            Phase::Initial
        } else {
            Phase::Cruising
        }
    }

    /// "Nominal max RTT", at the end of an era.
    fn track_rtts(&mut self) {
        let Some((least, most)) = self.era.rtts else { return };
        let toward = |from: f64, to: f64| (7.0 * from + to) / 8.0;
        let down = least < self.running_min_rtt;
        self.running_min_rtt = if down { least } else { toward(self.running_min_rtt, least) };
        let most = most.min(self.running_min_rtt + self.max_jitter);
        let up = most > self.nominal_max_rtt;
        self.nominal_max_rtt = if up { most } else { toward(self.nominal_max_rtt, most) };
    }

    fn apply(&self, control: &mut Control) {
        let mss = f64::from(MSS);
        let (rate, cwnd) = if self.nominal_rate > 0.0 && self.nominal_max_rtt > 0.0 {
            let rate = self.alpha * self.nominal_rate;
            (rate, (rate * self.nominal_max_rtt / mss).round())
        } else {
            let cwnd = f64::from(self.first_cwnd);
            (self.alpha * cwnd * mss / self.nominal_max_rtt.max(1e-3), cwnd)
        };
        control.pacing_rate = Some(Rate::from_bps(truncated(rate * 8.0)).max(Rate::from_bps(1)));
        // In Initial a slow sample does not take back the window that the connection starts with.
        let least = if self.phase == Phase::Initial { f64::from(self.first_cwnd).clamp(2.0, LARGEST) } else { 2.0 };
        control.cwnd = truncated_u32(cwnd.clamp(least, LARGEST));
        control.phase = self.phase as u8;
    }
}

impl CongestionControl for C4 {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let congestion = self.measure(ack);
        if congestion.is_some() {
            self.congested = true;
            self.push = None;
            self.pushed_well = false;
            self.successes = 0;
        }
        match congestion {
            Some(beta) if self.phase != Phase::Recovery => self.yield_by(beta, ack.view),
            _ if ack.rate.interval.is_some() && ack.rate.prior_delivered >= self.era.begins => self.end_era(ack.view),
            _ => {}
        }
        self.apply(control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.echoed |= congestion.signal == Signal::Ecn;
        control.ssthresh = control.cwnd.max(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::close;

    /// "Variable Sensitivity" gives the points, and the thresholds their formulas.
    #[test]
    fn the_thresholds_by_hand() {
        assert!(close(sensitivity(0.0), 0.0) && close(sensitivity(5e4), 0.0));
        assert!(close(sensitivity(525_000.0), 0.46) && close(sensitivity(1e6), 0.92));
        assert!(close(sensitivity(5.5e6), 0.96) && close(sensitivity(1e8), 1.0));
        // A sixteenth of 80 ms for a fast flow, a quarter for a slow one, but never more than 25 ms.
        assert!(close(delay_threshold(1.0, 0.08, 0.025), 0.005) && close(delay_threshold(0.0, 0.08, 0.025), 0.02));
        assert!(close(delay_threshold(0.0, 0.4, 0.025), 0.025));
        assert!(close(loss_threshold(1.0), 0.02) && close(loss_threshold(0.0), 0.52));
        assert!(close(mark_threshold(1.0), 3.0 / 32.0) && close(mark_threshold(0.0), 6.0 / 32.0));
    }

    fn c4() -> C4 {
        C4 {
            params: Params::default(),
            most_delay: 0.025,
            max_jitter: 0.25,
            first_cwnd: 10,
            phase: Phase::Cruising,
            nominal_rate: 2e7,
            nominal_max_rtt: 0.08,
            running_min_rtt: 0.08,
            era: Era::default(),
            alpha: 1.0,
            alpha_previous: 1.0,
            congested: false,
            eras_in_phase: 0,
            eras_without_increase: 0,
            push: None,
            pushed_well: false,
            successes: 0,
            jitter_seen: false,
            loss_rate: 0.0,
            accurate_ecn: true,
            echoed: false,
            marks: Marks::default(),
        }
    }

    fn ack_of<'a>(view: &'a View, rate: &'a crate::RateSample, rtt_ms: u64) -> Ack<'a> {
        Ack {
            view,
            rtt: Some(Time::from_millis(rtt_ms)),
            acked: 1,
            delivered: 1,
            lost: 0,
            prior_in_flight: 10,
            prior_una: 0,
            part: false,
            cwnd_limited: true,
            ece: false,
            rate,
        }
    }

    /// 80 ms and a threshold of 5: 86 ms are congestion by a fifth of the threshold, 87.5 by half of it, capped at a
    /// quarter.
    #[test]
    fn a_delay_takes_up_to_a_quarter_while_cruising_and_nothing_elsewhere() {
        for (phase, rtt, left) in [(Phase::Cruising, 86, 0.8), (Phase::Cruising, 90, 0.75), (Phase::Pushing, 90, 1.0)] {
            let mut c4 = C4 { phase, ..c4() };
            let mut control = Control::initial(10);
            c4.on_ack(&ack_of(&View::INITIAL, &crate::RateSample::NONE, rtt), &mut control);
            assert_eq!(c4.phase, Phase::Recovery);
            assert!(close(c4.nominal_rate, 2e7 * left), "{phase:?} {rtt}: {}", c4.nominal_rate);
        }
        let mut c4 = c4();
        c4.on_ack(&ack_of(&View::INITIAL, &crate::RateSample::NONE, 85), &mut Control::initial(10));
        assert_eq!(c4.phase, Phase::Cruising);
    }

    /// 16 packets with three marks: a share of 3/16 over 3/32, smoothed to 3/256; with eight of them it counts at once.
    #[test]
    fn marks_are_congestion_by_their_share_and_a_classic_echo_at_once() {
        let view = |marked| View { delivered: 16, delivered_ce: marked, ..View::INITIAL };
        for (marked, beta) in [(3, None), (8, Some(0.25))] {
            assert_eq!(c4().mark_congestion(&ack_of(&view(marked), &crate::RateSample::NONE, 80), 1.0), beta);
        }
        let mut classic = C4 { accurate_ecn: false, ..c4() };
        let mut control = Control::initial(10);
        let view = View::INITIAL;
        classic.on_congestion(&Congestion { view: &view, signal: Signal::Loss }, &mut control);
        assert_eq!(classic.mark_congestion(&ack_of(&view, &crate::RateSample::NONE, 80), 1.0), None);
        classic.on_congestion(&Congestion { view: &view, signal: Signal::Ecn }, &mut control);
        let ack = ack_of(&view, &crate::RateSample::NONE, 80);
        assert_eq!([(); 2].map(|()| classic.mark_congestion(&ack, 1.0)), [Some(0.25), None]);
    }

    #[test]
    fn the_window_is_within_its_bounds_whatever_the_connection_starts_with() {
        for (first_cwnd, cwnd) in [(1, 2), (u32::MAX, 1_000_000_000)] {
            let c4 = C4 { phase: Phase::Initial, first_cwnd, nominal_rate: 0.0, ..c4() };
            let mut control = Control::initial(first_cwnd);
            c4.apply(&mut control);
            assert_eq!(control.cwnd, cwnd);
        }
        let c4 = C4 { phase: Phase::Initial, first_cwnd: 1, nominal_rate: 1.0, ..c4() };
        let mut control = Control::initial(1);
        c4.apply(&mut control);
        assert_eq!(control.cwnd, 2);
    }

    /// 20 MB/s of payload: alpha times the rate, and what it sends in 80 ms.
    #[test]
    fn rate_and_window_are_alpha_times_the_nominal_ones() {
        for (phase, alpha) in [(Phase::Recovery, 0.9375), (Phase::Cruising, 1.0), (Phase::Initial, 2.0)] {
            let mut c4 = c4();
            c4.enter(phase, &View::INITIAL);
            let mut control = Control::initial(10);
            c4.apply(&mut control);
            assert_eq!(control.pacing_rate, Some(Rate::from_bps((alpha * 1.6e8) as u64)));
            assert_eq!(control.cwnd, (alpha * 1.6e6 / f64::from(MSS)).round() as u32);
        }
    }

    #[test]
    fn a_push_is_a_success_with_a_quarter_of_its_increase() {
        for (grown, pushed_well) in [(1.0, false), (1.06, false), (1.07, true)] {
            let mut c4 = c4();
            c4.push = Some(Push { alpha: 1.25, rate: 2e7 });
            c4.nominal_rate = 2e7 * grown;
            assert_eq!(c4.after_recovery(), Phase::Cruising);
            assert_eq!(c4.pushed_well, pushed_well, "{grown}");
            assert!(close(c4.next_push(), if pushed_well { 1.25 } else { 1.0625 }));
        }
        let mut c4 = C4 { successes: 2, push: Some(Push { alpha: 1.0625, rate: 1e7 }), ..c4() };
        assert_eq!(c4.after_recovery(), Phase::Initial);
    }

    /// Jitter is remembered for several cycles: up at once, down by an eighth, at most 250 ms above the minimum.
    #[test]
    fn the_maximum_rtt_rises_at_once_and_falls_slowly() {
        let mut c4 = c4();
        c4.era.rtts = Some((0.08, 0.12));
        c4.track_rtts();
        assert!(close(c4.nominal_max_rtt, 0.12));
        c4.era.rtts = Some((0.08, 0.08));
        c4.track_rtts();
        assert!(close(c4.nominal_max_rtt, 0.115));
        c4.era.rtts = Some((0.08, 1.0));
        c4.track_rtts();
        assert!(close(c4.nominal_max_rtt, 0.33));
        assert_eq!(c4.after_recovery(), Phase::Initial, "0.08 is below two fifths of 0.33");
        assert_eq!(c4.after_recovery(), Phase::Cruising, "once");
    }
}
