//! C4, Christian's Congestion Control Code: a rate and the greatest RTT without a queue, for real-time media.
//!
//! Source: C. Huitema, S. Nandakumar, C. Jennings, draft-huitema-ccwg-c4-spec, the authors' text of August 2026 for
//! version 05 (its list of changes starts from 04); section names below are the draft's. `lab/c4.md` goes
//! through them.
//!
//! An era is a round trip: it ends when the first packet sent in it is acknowledged.
//! - `nominal_rate` grows to each greater delivery rate, unless the flow recovers from congestion. A cycle that finds
//!   no greater one trims it to the mean of itself and the greatest of that cycle.
//! - `nominal_max_rtt` follows the greatest RTT of eras whose packets were sent at no more than that rate: up at once,
//!   down by an eighth.
//! - `pacing_rate = alpha nominal_rate`, `cwnd = pacing_rate (nominal_max_rtt + margin)`, with a margin of a quarter of
//!   it up to 15 ms, and alpha = 2 in Initial, 15/16 for an era of Recovery (7/8 if there is a queue to drain), 1 for
//!   two eras of Cruising, 17/16 for an era of Probing, 5/4 for Pushing.
//! - A probe that finds a greater rate leads to Pushing, which lasts while each era brings 3/16 more; after three eras
//!   it goes on as Initial.
//! - Congestion is an RTT above `nominal_max_rtt` plus a threshold, a smoothed loss rate or a share of CE marks above
//!   theirs; thresholds fall as the rate grows (`sensitivity`), so that the faster of two flows yields first. While
//!   Cruising it takes up to a quarter of `nominal_rate`; everywhere it leads to Recovery.
//!
//! ```text
//! Initial --> Recovery --> Cruising --> Probing --> Recovery
//!    |         ^    |--> Pushing --> Recovery, or Initial after three eras of growth
//!    v         |    `--> Initial (jitter, once)
//! Resuming ----
//! ```

use crate::entry::{Entry, Family, edges};
use crate::window::LARGEST;
use crate::{Ack, Congestion, CongestionControl, Control, Needs, Signal, View};
use knee_core::convert::{truncated, truncated_u32};
use knee_core::{Bytes, Rate, Time, params};

/// C4's registry entry.
pub const ENTRY: Entry = Entry {
    name: "c4",
    family: Family::Hybrid,
    about: "keeps a measured rate and the greatest RTT without a queue; yields to delay, loss and marks the more, the faster it is",
    source: "draft-huitema-ccwg-c4-spec, text of August 2026 for 05",
    params: Params::DECLARED,
    phases: &["initial", "resuming", "recovery", "cruising", "probing", "pushing"],
    edges: edges![Phase:
        Initial => Recovery, Initial => Resuming, Resuming => Recovery,
        Recovery => Initial, Recovery => Cruising, Recovery => Pushing,
        Cruising => Probing, Cruising => Recovery, Probing => Recovery, Pushing => Recovery, Pushing => Initial,
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
            seed_cwnd: params.resume_cwnd.0 as f64,
            seed_rate: params.resume_cwnd.0 as f64 / rtt.max(LEAST_RTT),
            mss: f64::from(init.mss.max(1)),
            initial_cwnd: f64::from(init.cwnd),
            resumes: params.resume_cwnd > Bytes(0),
            phase: Phase::Initial,
            nominal_rate: 0.0,
            recent_max_rate: 0.0,
            nominal_max_rtt: rtt.max(LEAST_RTT),
            running_min_rtt: rtt,
            era: Era::default(),
            alpha: params.initial_alpha,
            alpha_previous: params.initial_alpha,
            congested: false,
            congestions: 0,
            eras_in_phase: 0,
            eras_without_increase: 0,
            probed_from: None,
            cycle: Cycle::default(),
            jitter_seen: false,
            marks_seen: false,
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
        /// factor of the rate in Recovery with a queue to drain
        drain_alpha: f64 = 0.875, in 0.5..=1.0, from "draft, Draining the standing queues; its table has 3/4";
        /// factor of the rate in Probing
        probe_alpha: f64 = 1.0625, in 1.0..=2.0, from "draft, Probing state";
        /// factor of the rate in Probing where packets have been marked
        marked_probe_alpha: f64 = 1.03125, in 1.0..=2.0, from "draft, Probing state";
        /// factor of the rate in Pushing
        push_alpha: f64 = 1.25, in 1.0..=2.0, from "draft, Pushing state";
        /// eras of Cruising before a probe
        cruising_eras: u64 = 2, in 1..=100, from "draft, Cruising state";
        /// least pacing rate in Initial
        initial_pacing: Rate = Rate::from_bps(1_048_576), in Rate::from_bps(1)..=Rate::from_bps(1_000_000_000),
            from "draft, Setting pacing rate";
        /// window remembered from an earlier connection, with which the flow resumes; 0: it begins with Initial
        resume_cwnd: Bytes = Bytes(0), in Bytes(0)..=Bytes(1_000_000_000), from "draft, Resuming state";
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

/// Eras without a greater rate after which Initial ends, and after which a delay or marks end it.
const INITIAL_ERAS: u32 = 3;
const INITIAL_ERAS_DELAY: u32 = 2;
/// Packets received before a loss ends Initial.
const INITIAL_PACKETS: u64 = 20;
/// By what factor the rate grows in an era of Initial that brings an increase: a quarter of what is sent more, as in
/// the authors' code.
const INITIAL_GROWTH: f64 = 1.25;
/// By what factor the rate grows in an era of Pushing that leads to another.
const PUSH_GROWTH: f64 = 19.0 / 16.0;
/// Eras of Pushing: of the first only Recovery's packets are acknowledged; after the last the flow goes on as Initial.
const PUSH_ERAS: std::ops::RangeInclusive<u64> = 2..=3;
/// Eras of Resuming.
const RESUMING_ERAS: u64 = 2;
/// The part of the remembered window that is under way unless the application limits the flow.
const RESUMED: f64 = 16.0 / 17.0;
/// Congestions one after the other that are persistent.
const PERSISTENT: u32 = 2;
/// Room of the window beyond `nominal_max_rtt`, as a part of that, and its upper bound, s.
const MARGIN: f64 = 0.25;
const MARGIN_MOST: f64 = 0.015;
/// The least `nominal_max_rtt`, s. Up to it a flow neither trims its rate nor drains queues (picoquic's pull request
/// 2193).
const LEAST_RTT: f64 = 0.001;
/// `running_min_rtt` below this part of `nominal_max_rtt` is high jitter.
const HIGH_JITTER: f64 = 0.4;
/// Weight of the past in the loss rate, and gain of the share of marks.
const SMOOTHING: f64 = 16.0;
/// Packets over which a share of marks is taken.
const MARKS_OVER: u64 = 16;
/// A share of marks that counts at once.
const MANY_MARKS: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Initial,
    Resuming,
    Recovery,
    Cruising,
    Probing,
    Pushing,
}

/// Measurements from one end of an era to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Era {
    /// Packets delivered when it began: what was sent later was sent in it.
    begins: u64,
    /// `nominal_rate` when it began.
    rate: f64,
    /// Seconds; none without a sample.
    rtts: Option<(f64, f64)>,
    app_limited: bool,
}

/// Measurements from one end of Recovery to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    /// `nominal_rate` when it began.
    rate: f64,
    app_limited: bool,
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
    /// Window and rate of Resuming: bytes, and payload bytes per second.
    seed_cwnd: f64,
    seed_rate: f64,
    /// It will resume with the first ACK, which confirms the path (RFC 9959's reconnaissance).
    resumes: bool,
    /// Payload of a packet, bytes.
    mss: f64,
    /// Packets.
    initial_cwnd: f64,
    phase: Phase,
    /// Payload bytes per second; 0 before the first sample.
    nominal_rate: f64,
    /// The greatest since Recovery last ended.
    recent_max_rate: f64,
    /// Seconds.
    nominal_max_rtt: f64,
    /// Seconds.
    running_min_rtt: f64,
    era: Era,
    /// `alpha_current`.
    alpha: f64,
    /// Alpha of the era before, in which the packets were sent that this one sees acknowledged.
    alpha_previous: f64,
    /// Recovery was entered by congestion, or has seen any.
    congested: bool,
    /// Recoveries with congestion, one after the other.
    congestions: u32,
    eras_in_phase: u64,
    /// Eras of Initial in a row in which `nominal_rate` did not increase.
    eras_without_increase: u32,
    /// `nominal_rate` when Probing began, in it and in the Recovery after it.
    probed_from: Option<f64>,
    cycle: Cycle,
    /// Initial was entered again for high jitter; this is done once.
    jitter_seen: bool,
    /// At least one packet was marked.
    marks_seen: bool,
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
            let rate = f64::from(ack.rate.delivered) * self.mss / interval.as_secs_f64();
            self.era.app_limited |= ack.rate.app_limited;
            self.cycle.app_limited |= ack.rate.app_limited;
            self.recent_max_rate = self.recent_max_rate.max(rate);
            let settling = self.phase == Phase::Recovery && self.congested;
            if rate > self.nominal_rate && !settling {
                self.nominal_rate = rate;
            }
        }
        if self.phase == Phase::Initial && !ack.rate.app_limited {
            // As Reno's slow start, and slower where the rate does not grow.
            self.initial_cwnd += f64::from(ack.delivered) / f64::from(1u32 << (3 * self.eras_without_increase.min(8)));
        }
        self.marks_seen |= self.echoed || ack.view.delivered_ce > 0;
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
        (excess > 0.0 && self.heeds_early_signs()).then(|| (excess / threshold).min(self.params.beta))
    }

    /// Neither jitter alone nor the marks of others end Initial.
    fn heeds_early_signs(&self) -> bool {
        self.phase != Phase::Initial || self.eras_without_increase >= INITIAL_ERAS_DELAY
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
            return (std::mem::take(&mut self.echoed) && self.heeds_early_signs()).then_some(self.params.beta);
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
        (smoothed > threshold && self.heeds_early_signs())
            .then(|| ((smoothed - threshold) / threshold).min(self.params.beta))
    }

    fn enter(&mut self, phase: Phase, view: &View) {
        match (self.phase, phase) {
            (Phase::Initial, Phase::Recovery) if self.nominal_rate > 0.0 => {
                self.nominal_max_rtt = (self.window() / 2.0 / self.nominal_rate).max(LEAST_RTT);
            }
            (_, Phase::Initial) => {
                self.initial_cwnd = self.nominal_rate * self.nominal_max_rtt / self.mss;
            }
            _ => {}
        }
        self.alpha = match phase {
            Phase::Initial | Phase::Resuming => self.params.initial_alpha,
            Phase::Recovery if self.has_queue(view) => self.params.drain_alpha,
            Phase::Recovery => self.params.recovery_alpha,
            Phase::Cruising => 1.0,
            Phase::Probing if self.marks_seen => self.params.marked_probe_alpha,
            Phase::Probing => self.params.probe_alpha,
            Phase::Pushing => self.params.push_alpha,
        };
        self.phase = phase;
        self.eras_in_phase = 0;
        self.eras_without_increase = 0;
        self.begin_era(view);
    }

    /// True if more is under way than an ordinary Recovery would drain ("Draining the standing queues").
    fn has_queue(&self, view: &View) -> bool {
        let pipe = self.nominal_rate * self.nominal_max_rtt / self.mss;
        self.nominal_max_rtt > LEAST_RTT && f64::from(view.in_flight) > (2.0 - self.params.recovery_alpha) * pipe + 1.0
    }

    fn begin_era(&mut self, view: &View) {
        self.era = Era { begins: view.delivered, rate: self.nominal_rate, ..Era::default() };
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
        let grown = |by: f64| self.nominal_rate >= by * self.era.rate && self.nominal_rate > 0.0;
        let next = match self.phase {
            Phase::Initial => {
                if grown(INITIAL_GROWTH) {
                    self.eras_without_increase = 0;
                } else if !self.era.app_limited {
                    self.eras_without_increase += 1;
                }
                (self.eras_without_increase >= INITIAL_ERAS).then_some(Phase::Recovery)
            }
            Phase::Resuming => (self.eras_in_phase >= RESUMING_ERAS).then_some(Phase::Recovery),
            Phase::Recovery => Some(self.after_recovery()),
            Phase::Cruising => {
                let due = self.eras_in_phase >= self.params.cruising_eras && !self.era.app_limited;
                due.then_some(Phase::Probing)
            }
            Phase::Probing => Some(Phase::Recovery),
            Phase::Pushing if self.eras_in_phase < *PUSH_ERAS.start() => None,
            Phase::Pushing if !grown(PUSH_GROWTH) => Some(Phase::Recovery),
            Phase::Pushing => (self.eras_in_phase >= *PUSH_ERAS.end()).then_some(Phase::Initial),
        };
        match next {
            None => self.begin_era(view),
            Some(next) => {
                if next == Phase::Recovery {
                    self.congested = false;
                } else if next == Phase::Probing {
                    self.probed_from = Some(self.nominal_rate);
                }
                self.enter(next, view);
            }
        }
    }

    fn after_recovery(&mut self) -> Phase {
        let found_more = self.probed_from.take().is_some_and(|rate| !self.congested && self.nominal_rate > rate);
        if self.congested {
            self.congestions += 1;
            if self.congestions >= PERSISTENT && self.recent_max_rate > 0.0 {
                self.nominal_rate = self.nominal_rate.min(self.recent_max_rate);
            }
        } else {
            self.congestions = 0;
            let grew = self.nominal_rate > self.cycle.rate;
            if !grew && !self.cycle.app_limited && self.nominal_max_rtt > LEAST_RTT && self.recent_max_rate > 0.0 {
                self.nominal_rate = f64::midpoint(self.nominal_rate, self.recent_max_rate);
            }
        }
        self.recent_max_rate = 0.0;
        self.cycle = Cycle { rate: self.nominal_rate, app_limited: false };
        self.congested = false;
        self.marks.share = 0.0;
        if !self.jitter_seen && self.running_min_rtt < self.nominal_max_rtt * HIGH_JITTER {
            self.jitter_seen = true;
            Phase::Initial
        } else if found_more {
            Phase::Pushing
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
        self.nominal_max_rtt = if up { most } else { toward(self.nominal_max_rtt, most) }.max(LEAST_RTT);
    }

    /// The window, bytes.
    fn window(&self) -> f64 {
        let rate = self.alpha * self.nominal_rate;
        let nominal = |rate: f64| rate * (self.nominal_max_rtt + (MARGIN * self.nominal_max_rtt).min(MARGIN_MOST));
        match self.phase {
            Phase::Initial => (self.initial_cwnd * self.mss).max(rate * self.nominal_max_rtt),
            Phase::Resuming => self.seed_cwnd,
            // Less than a packet more would find out nothing, as the authors' code has it.
            Phase::Probing | Phase::Pushing => nominal(rate).max(nominal(self.nominal_rate) + self.mss),
            Phase::Recovery | Phase::Cruising => nominal(rate),
        }
    }

    /// The rate at which it sends, bytes/s.
    fn rate(&self) -> f64 {
        let rate = self.alpha * self.nominal_rate;
        let least = self.params.initial_pacing.as_bps() as f64 / 8.0;
        match self.phase {
            Phase::Initial if self.nominal_rate > 0.0 => rate.max(least),
            // There is no rate of an interface: `alpha` windows per RTT.
            Phase::Initial => (self.alpha * self.window() / self.nominal_max_rtt).max(least),
            Phase::Resuming => self.seed_rate,
            _ => rate,
        }
    }

    fn apply(&self, control: &mut Control) {
        control.pacing_rate = Some(Rate::from_bps(truncated(self.rate() * 8.0)).max(Rate::from_bps(1)));
        // Up: the authors' sender lets a packet go while no more than the window is in flight.
        control.cwnd = truncated_u32((self.window() / self.mss).ceil().clamp(2.0, LARGEST));
        control.phase = self.phase as u8;
    }
}

impl CongestionControl for C4 {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.mss = f64::from(ack.view.mss.max(1));
        if std::mem::take(&mut self.resumes) {
            self.enter(Phase::Resuming, ack.view);
        }
        let congestion = self.measure(ack);
        if congestion.is_some() {
            self.congested = true;
            self.probed_from = None;
        }
        if self.phase == Phase::Resuming && f64::from(ack.prior_in_flight) * self.mss < RESUMED * self.seed_cwnd {
            // The application, or the window's growth, limits it: the era goes on.
            self.era.begins = ack.view.delivered;
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
mod tests;
