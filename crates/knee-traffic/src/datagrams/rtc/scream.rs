//! SCReAM, version 2: a reference window from delay, loss and marks, and the encoder's rate from that window.
//!
//! After draft-johansson-ccwg-rfc8298bis-screamv2, sections on network congestion control, media rate control and
//! competing flows, in the authors' text of 2024 that has `VIRTUAL_RTT` = 25 ms and `MUL_INCREASE_FACTOR` = 0.02. It
//! obsoletes RFC 8298.
//!
//! In the words of the draft, with `MSS` the bytes of a full RTP packet:
//!
//! ```text
//! congestion, at most once per min(VIRTUAL_RTT, s_rtt):
//!   loss        ref_wnd *= 0.7
//!   CE          ref_wnd *= 0.8, or with L4S: ref_wnd *= 1 - l4s_alpha/2
//!   delay       ref_wnd *= 1 - a/2, where a rises from 0 to 1 as qdelay_avg goes from target/2 to target
//! growth        MSS per RTT or less near the window at the last congestion, up to 2 % of itself far from it
//! target rate   8 ref_wnd / s_rtt, less where much more than the window is in flight
//! ```
//!
//! What differs: the window before the first RTT is known lets `start_rate` pass; the percentile of frame sizes is over
//! the last 128 frames; `l4s_active` means ECT(1) and a mark within the last 5 s; two constants that this text names
//! without a value have that of a later one (section on media rate control).

use super::{Controller, PAYLOAD, Rates, Report};
use knee_core::Time;
use knee_core::convert::{index, truncated};
use std::collections::VecDeque;

/// How often the receiver reports: RFC 8298, 4.2.1, at more than half a Mbit/s.
pub(super) const REPORT_INTERVAL: Time = Time::from_millis(20);

/// Queueing delay aimed at: least and greatest, s.
const QDELAY_TARGET_LO: f64 = 0.06;
const QDELAY_TARGET_HI: f64 = 0.4;
/// The largest RTP packet, bytes; the draft has 1000.
const MSS: f64 = PAYLOAD as f64 + 12.0;
const MIN_REF_WND: f64 = 3000.0;
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
const REF_WND_OVERHEAD: f64 = 1.5;
/// `PACKET_PACING_HEADROOM`.
const PACING_HEADROOM: f64 = 1.5;
const L4S_AVG_G: f64 = 1.0 / 16.0;
const QDELAY_AVG_G: f64 = 1.0 / 4.0;
/// s.
const POST_CONGESTION_DELAY: f64 = 4.0;
const MUL_INCREASE_FACTOR: f64 = 0.02;
/// s.
const VIRTUAL_RTT: f64 = 0.025;
const BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 2.0;
const BYTES_IN_FLIGHT_LIMIT: f64 = 0.9;
const BYTES_IN_FLIGHT_LIMIT_COMPENSATION: f64 = 1.5;
/// L4S counts as active for so long after a mark, s.
const L4S_ACTIVE: f64 = 5.0;
/// Frames whose sizes are remembered, and the percentile of them.
const FRAMES: usize = 128;
const FRAME_PERCENTILE: f64 = 0.75;
/// Minutes over which the least delay is the base delay (RFC 6817, 3.4.2).
const BASE_MINUTES: usize = 10;

/// The sender's state; times in s, sizes in bytes.
#[derive(Clone)]
pub(super) struct Scream {
    rates: Rates,
    l4s: bool,
    target_rate: f64,
    /// None before the first report.
    ref_wnd: Option<f64>,
    /// The window at the last congestion ("inflection point"), and when it was set.
    ref_wnd_i: f64,
    ref_wnd_i_at: f64,
    s_rtt: f64,
    base: BaseDelay,
    qdelay_avg: f64,
    qdelay_avg_at: f64,
    target: DelayTarget,
    l4s_alpha: f64,
    alpha_at: f64,
    delivered: f64,
    marked: f64,
    marked_at: f64,
    congested_at: f64,
    /// The greatest bytes in flight of this round trip and the one before, and when this one began.
    max_in_flight: (f64, f64),
    round_at: f64,
    /// Whether this round trip had a loss.
    lossy_round: bool,
    /// Sizes of the last frames that were larger than nominal, relative to that.
    frames: VecDeque<f64>,
    frame_high: f64,
}

impl Scream {
    pub(super) fn new(rates: Rates, l4s: bool) -> Self {
        let never = f64::NEG_INFINITY;
        Self {
            rates,
            l4s,
            target_rate: rates.start,
            ref_wnd: None,
            ref_wnd_i: 1.0,
            ref_wnd_i_at: never,
            s_rtt: 0.0,
            base: BaseDelay::default(),
            qdelay_avg: 0.0,
            qdelay_avg_at: never,
            target: DelayTarget::default(),
            l4s_alpha: 0.0,
            alpha_at: never,
            delivered: 0.0,
            marked: 0.0,
            marked_at: never,
            congested_at: never,
            max_in_flight: (0.0, 0.0),
            round_at: never,
            lossy_round: false,
            frames: VecDeque::new(),
            frame_high: 1.0,
        }
    }

    fn l4s_active(&self, now: f64) -> bool {
        self.l4s && now - self.marked_at < L4S_ACTIVE
    }

    /// Takes delay and marks of a report; gives the queueing delay.
    fn measure(&mut self, report: &Report, now: f64) -> f64 {
        let last = report.acked[report.acked.len() - 1];
        let rtt = now - last.sent.as_secs_f64();
        self.s_rtt = if self.s_rtt == 0.0 { rtt } else { self.s_rtt + (rtt - self.s_rtt) / 8.0 };
        let delay = last.arrived.as_secs_f64() - last.sent.as_secs_f64();
        let qdelay = delay - self.base.update(delay, now);
        self.delivered += report.acked.len() as f64;
        self.marked += report.acked.iter().filter(|acked| acked.ce).count() as f64;
        if report.acked.iter().any(|acked| acked.ce) {
            self.marked_at = now;
        }
        if now - self.alpha_at >= self.s_rtt.min(0.01) {
            let fraction = self.marked / self.delivered;
            self.l4s_alpha += L4S_AVG_G * (fraction - self.l4s_alpha);
            (self.delivered, self.marked, self.alpha_at) = (0.0, 0.0, now);
        }
        if now - self.qdelay_avg_at >= self.s_rtt {
            // A slow attack, a fast decay.
            let risen = QDELAY_AVG_G * qdelay + (1.0 - QDELAY_AVG_G) * self.qdelay_avg;
            self.qdelay_avg = if qdelay < self.qdelay_avg { qdelay } else { risen };
            self.qdelay_avg_at = now;
        }
        self.max_in_flight.0 = self.max_in_flight.0.max((report.in_flight + report.newly_acked) as f64);
        if now - self.round_at >= self.s_rtt {
            self.target.on_round(std::mem::take(&mut self.lossy_round));
            self.max_in_flight = (report.in_flight as f64, self.max_in_flight.0);
            self.round_at = now;
        }
        qdelay
    }

    /// Reduces a window if there is congestion.
    fn react(&mut self, mut ref_wnd: f64, report: &Report, qdelay: f64, now: f64) -> f64 {
        if now - self.congested_at < self.s_rtt.min(VIRTUAL_RTT) {
            return ref_wnd;
        }
        let ce = report.acked.iter().any(|acked| acked.ce);
        let half = self.target.qdelay / 2.0;
        let alpha_limit = 2.0 / self.target_rate * MSS * 8.0 / self.s_rtt;
        let by_delay = qdelay > half && (self.l4s_alpha < alpha_limit || !self.l4s_active(now));
        if report.lost == 0 && !ce && !by_delay {
            return ref_wnd;
        }
        if now - self.ref_wnd_i_at > 0.25 {
            (self.ref_wnd_i, self.ref_wnd_i_at) = (ref_wnd, now);
        }
        if report.lost > 0 {
            ref_wnd *= BETA_LOSS;
        }
        if ce && self.l4s {
            let mut backoff = self.l4s_alpha / 2.0 * (1.0 - 2.0 * MSS / ref_wnd).max(0.8);
            if now - self.congested_at > 5.0 {
                // The window may have grown far above what is in flight, and the average of marks is out of date.
                ref_wnd = ref_wnd.min(self.max_in_flight.1);
                (backoff, self.l4s_alpha) = (backoff.max(0.25), 0.25);
            }
            ref_wnd *= 1.0 - backoff;
        } else if ce {
            ref_wnd *= BETA_ECN;
        }
        if by_delay {
            ref_wnd *= 1.0 - ((self.qdelay_avg - half) / half).clamp(0.0, 1.0) / 2.0;
        }
        self.congested_at = now;
        ref_wnd.max(MIN_REF_WND)
    }

    /// Lets a window grow.
    fn grow(&self, ref_wnd: f64, report: &Report, now: f64) -> f64 {
        let ce: f64 = report.acked.iter().filter(|acked| acked.ce).map(|acked| f64::from(acked.bytes)).sum();
        let ratio = MSS / ref_wnd;
        let short = (self.s_rtt / VIRTUAL_RTT).min(1.0);
        let near = 4.0 * (ref_wnd - self.ref_wnd_i) / self.ref_wnd_i;
        let least = if self.l4s_active(now) { (0.02 / ratio).clamp(0.1, 1.0) } else { 0.1 };
        let scale = (near * near).min(1.0).max(least);
        let after = ((now - self.congested_at) / POST_CONGESTION_DELAY).clamp(0.0, 1.0);
        let multiplicative = 1.0 + MUL_INCREASE_FACTOR / ratio * after * scale;
        let newly = (report.newly_acked as f64 - ce).max(0.0);
        let grown = ref_wnd + newly * ratio * short * short * scale * multiplicative;
        let allowed = MSS + self.max_in_flight.0.max(self.max_in_flight.1) * BYTES_IN_FLIGHT_HEAD_ROOM;
        if grown <= allowed { grown } else { ref_wnd }
    }

    fn set_target_rate(&mut self, ref_wnd: f64, in_flight: f64, now: f64) {
        let mut factor = 1.0;
        let over = in_flight / ref_wnd / BYTES_IN_FLIGHT_LIMIT;
        if !self.l4s_active(now) && over > 1.0 {
            factor /= over.min(BYTES_IN_FLIGHT_LIMIT_COMPENSATION);
        }
        factor *= 1.0 - (MSS / ref_wnd - 0.1).clamp(0.0, 0.8);
        self.target_rate = self.rates.limit(factor * 8.0 * ref_wnd / self.s_rtt);
    }
}

impl Controller for Scream {
    fn on_report(&mut self, report: &Report, now: Time) {
        let now = now.as_secs_f64();
        self.lossy_round |= report.lost > 0;
        let qdelay = self.measure(report, now);
        let ref_wnd = self.ref_wnd.unwrap_or_else(|| (self.rates.start * self.s_rtt / 8.0).max(MIN_REF_WND));
        // "This value should be computed at the beginning of the ACK processing."
        let in_flight = (report.in_flight + report.newly_acked) as f64;
        let ref_wnd = self.react(ref_wnd, report, qdelay, now);
        let ref_wnd = self.grow(ref_wnd, report, now);
        self.ref_wnd = Some(ref_wnd);
        self.target.adjust(qdelay);
        self.set_target_rate(ref_wnd, in_flight, now);
    }

    fn on_silence(&mut self, now: Time) {
        self.ref_wnd = self.ref_wnd.map(|_| MIN_REF_WND);
        self.congested_at = now.as_secs_f64();
        self.target_rate = self.rates.min;
    }

    fn target_rate(&self) -> f64 {
        self.target_rate
    }

    fn pacing_factor(&self) -> f64 {
        PACING_HEADROOM
    }

    fn send_window(&self) -> Option<f64> {
        self.ref_wnd.map(|ref_wnd| ref_wnd * REF_WND_OVERHEAD * self.frame_high)
    }

    fn on_frame(&mut self, bytes: f64, nominal: f64) {
        if bytes <= nominal {
            return;
        }
        if self.frames.len() == FRAMES {
            self.frames.pop_front();
        }
        self.frames.push_back(bytes / nominal);
        let mut sorted: Vec<f64> = self.frames.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        self.frame_high = sorted[index(truncated((sorted.len() - 1) as f64 * FRAME_PERCENTILE))];
    }
}

/// The least one-way delay of the last ten minutes.
#[derive(Clone, Default)]
struct BaseDelay {
    /// By minute, the newest last: which one, and its least delay in s.
    minutes: VecDeque<(u64, f64)>,
}

impl BaseDelay {
    fn update(&mut self, delay: f64, now: f64) -> f64 {
        let minute = truncated(now / 60.0);
        match self.minutes.back_mut() {
            Some((last, least)) if *last == minute => *least = least.min(delay),
            _ => self.minutes.push_back((minute, delay)),
        }
        if self.minutes.len() > BASE_MINUTES {
            self.minutes.pop_front();
        }
        self.minutes.iter().map(|(_, least)| *least).fold(f64::INFINITY, f64::min)
    }
}

/// The queueing delay aimed at, which competing flows may raise.
#[derive(Clone)]
struct DelayTarget {
    qdelay: f64,
    /// Queueing delays over `QDELAY_TARGET_LO`, the newest last.
    history: VecDeque<f64>,
    loss_event_rate: f64,
}

impl Default for DelayTarget {
    fn default() -> Self {
        Self { qdelay: QDELAY_TARGET_LO, history: VecDeque::new(), loss_event_rate: 0.0 }
    }
}

impl DelayTarget {
    /// A round trip has ended.
    fn on_round(&mut self, lossy: bool) {
        self.loss_event_rate = 0.99 * self.loss_event_rate + if lossy { 0.01 } else { 0.0 };
    }

    fn adjust(&mut self, qdelay: f64) {
        if self.history.len() == 200 {
            self.history.pop_front();
        }
        self.history.push_back(qdelay / QDELAY_TARGET_LO);
        let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| values.sum::<f64>() / count as f64;
        let all = self.history.len();
        let average = mean(&mut self.history.iter().copied(), all);
        let variance = mean(&mut self.history.iter().map(|x| (x - average) * (x - average)), all);
        let recent = all.min(50);
        let new = (mean(&mut self.history.iter().rev().take(recent).copied(), recent) + libm::sqrt(variance))
            * QDELAY_TARGET_LO;
        self.qdelay = if self.loss_event_rate > 0.002 {
            1.5 * new
        } else if variance < 0.2 {
            new
        } else if new < QDELAY_TARGET_LO {
            new.max(0.5 * self.qdelay)
        } else {
            0.9 * self.qdelay
        };
        self.qdelay = self.qdelay.clamp(QDELAY_TARGET_LO, QDELAY_TARGET_HI);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Acked;
    use super::*;

    const RATES: Rates = Rates { start: 1e6, min: 1e5, max: 1e8 };

    /// A sender with a window of 100,000 bytes and an RTT of 50 ms, all of whose window is in flight.
    fn scream(l4s: bool) -> Scream {
        let mut scream = Scream::new(RATES, l4s);
        (scream.ref_wnd, scream.s_rtt, scream.max_in_flight) = (Some(1e5), 0.05, (1e5, 1e5));
        scream.base.update(0.01, 0.0);
        scream.round_at = 10.0;
        scream
    }

    fn after(scream: &mut Scream, acked: &[Acked], lost: u64) -> f64 {
        let newly_acked = acked.iter().map(|acked| u64::from(acked.bytes)).sum();
        let now = Time::from_millis(10_050);
        scream.on_report(&Report { acked, newly_acked, lost, in_flight: 90_000 }, now);
        scream.ref_wnd.expect("it has a window")
    }

    fn packet(delay_ms: u64, ce: bool) -> Acked {
        let sent = Time::from_secs(10);
        Acked { bytes: 1000, sent, arrived: sent + Time::from_millis(delay_ms), ce }
    }

    #[test]
    fn loss_and_classic_marks_reduce_the_window_by_their_factors() {
        let grown = |reduced: f64| reduced..reduced + 150.0;
        assert!(grown(70_000.0).contains(&after(&mut scream(false), &[packet(10, false)], 1)));
        assert!(grown(80_000.0).contains(&after(&mut scream(false), &[packet(10, true)], 0)));
        let without = after(&mut scream(false), &[packet(10, false)], 0);
        // 1000 bytes of a window of 100,000: a hundredth of an MSS, and as much again, 1 + 0.02 · 82.5 times.
        let expected = 1e5 + 1000.0 * MSS / 1e5 * (1.0 + MUL_INCREASE_FACTOR * 1e5 / MSS);
        assert!((without - expected).abs() < 1e-6, "{without} {expected}");
    }

    #[test]
    fn l4s_marks_reduce_the_window_in_proportion() {
        let mut scream = scream(true);
        (scream.l4s_alpha, scream.congested_at, scream.marked_at) = (0.2, 9.0, 10.0);
        let reduced = after(&mut scream, &[packet(10, true)], 0);
        // The average of marks becomes 0.2 · 15/16 + 1/16 = 0.25; the only packet was marked, and nothing grows.
        let expected = 1e5 * (1.0 - 0.125 * (1.0 - 2.0 * MSS / 1e5));
        assert!((reduced - expected).abs() < 1e-6, "{reduced} {expected}");
    }

    #[test]
    fn a_queueing_delay_beyond_half_the_target_reduces_the_window_in_proportion() {
        let mut scream = scream(false);
        // The average becomes 45 ms: halfway from 30 to 60.
        scream.qdelay_avg = 0.045;
        let reduced = after(&mut scream, &[packet(55, false)], 0);
        assert!((75_000.0..75_150.0).contains(&reduced), "{reduced}");
    }

    #[test]
    fn competing_flows_raise_the_delay_aimed_at_and_their_end_lowers_it() {
        let mut target = DelayTarget::default();
        (0..200).for_each(|_| target.adjust(0.2));
        assert!((target.qdelay - 0.2).abs() < 1e-9, "{}", target.qdelay);
        (0..400).for_each(|_| target.adjust(0.01));
        assert!((target.qdelay - QDELAY_TARGET_LO).abs() < 1e-9);
    }
}
