//! SCReAM, version 2: a reference window from delay, loss and marks, and the encoder's rate from that window.
//!
//! After draft-ietf-ccwg-rfc8298bis-screamv2-01 (6 July 2026); its editors' copy of 10 August (commit d30e8b8) differs
//! in typographical errors. It obsoletes RFC 8298. `lab/scream.md` goes through its sections.
//!
//! In the words of the draft, with `MSS` the bytes of a full RTP packet:
//!
//! ```text
//! congestion, at most once per min(VIRTUAL_RTT, s_rtt):
//!   loss        ref_wnd *= 0.7, if more than 1 % is lost or qdelay_avg > target/4
//!   CE          ref_wnd *= 0.8, or with L4S: ref_wnd *= 1 - l4s_alpha/2
//!   delay       ref_wnd *= 1 - a/2, where a rises from 0 to 1 as qdelay_avg goes from target/2 to target
//!               (L4S and delay: a part of it where s_rtt > VIRTUAL_RTT)
//! growth        a quarter of an MSS per RTT near the window at the last congestion, up to 2 % of itself far from it
//! target rate   8 ref_wnd / s_rtt, less a sixth, and less where packets wait or frames are larger than they should be
//! ```

use super::{Acked, Controller, Frame, PAYLOAD, Rates, Report, Reports};
use knee_core::Time;
use knee_core::convert::truncated;
use std::collections::VecDeque;

/// When the receiver reports ("Receiver Requirements on Feedback Intensity"): at the latest after 16 packets, and after
/// half the greatest interval that the draft names, since reports do not know where a frame ends.
pub(super) const REPORTS: Reports = Reports { interval: Time::from_millis(20), packets: 16 };

/// Queueing delay aimed at: least and greatest, s.
const QDELAY_TARGET_LO: f64 = 0.06;
const QDELAY_TARGET_HI: f64 = 0.4;
/// The largest RTP packet, bytes; the draft has 1000.
const MSS: f64 = PAYLOAD as f64 + 12.0;
const MIN_REF_WND: f64 = 3000.0;
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
const REF_WND_OVERHEAD_MIN: f64 = 1.5;
const REF_WND_OVERHEAD_MAX: f64 = 3.0;
const PACKET_PACING_HEADROOM: f64 = 1.5;
const MAX_RELAXED_PACING_FACTOR: f64 = 4.0;
const RELAXED_PACING_LIMIT_LOW: f64 = 0.8;
const L4S_AVG_G_UP: f64 = 1.0 / 8.0;
const L4S_AVG_G_DOWN: f64 = 1.0 / 128.0;
const QDELAY_AVG_G: f64 = 1.0 / 4.0;
const QDELAY_MIN_MAX_AVG_G: f64 = 1.0 / 16.0;
const QDELAY_DEV_AVG_G: f64 = 1.0 / 32.0;
/// s.
const QDELAY_DEV_THRESHOLD: f64 = 0.01;
const POST_CONGESTION_DELAY_RTTS: f64 = 100.0;
const MUL_INCREASE_FACTOR: f64 = 0.02;
/// s.
const VIRTUAL_RTT: f64 = 0.025;
const BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 1.5;
const LOSS_RATE_THRESHOLD: f64 = 0.01;
/// Bytes.
const PACKET_OVERHEAD: f64 = 20.0;
const RATE_ADJUST_GAIN: f64 = 1.0 / 16.0;
const FRAME_SIZE_DEV_ALPHA: f64 = 1.0 / 64.0;
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
    /// The window at the last congestion ("inflection point"), and whether it has grown since.
    ref_wnd_i: f64,
    ref_wnd_i_update_allowed: bool,
    s_rtt: f64,
    base: BaseDelay,
    qdelay_avg: f64,
    qdelay_avg_at: f64,
    /// None unless jitter is to be heeded (`REDUCE_JITTER`).
    jitter: Option<Jitter>,
    target: DelayTarget,
    l4s_alpha: f64,
    alpha_at: f64,
    delivered: f64,
    marked: f64,
    loss_rate: f64,
    /// Losses beyond the tolerance, and marks, since the window was last reduced.
    loss_detected: bool,
    data_units_marked: bool,
    /// `last_congestion_detected_time` and `last_reaction_to_congestion_time`.
    congested_at: f64,
    reacted_at: f64,
    /// The greatest bytes in flight of this round trip and the one before, and when this one began.
    max_in_flight: (f64, f64),
    round_at: f64,
    /// This round trip had a loss.
    lossy_round: bool,
    rate_adjust_factor: f64,
    frame_size_dev: f64,
}

impl Scream {
    pub(super) fn new(rates: Rates, l4s: bool, reduce_jitter: bool) -> Self {
        let never = f64::NEG_INFINITY;
        Self {
            rates,
            l4s,
            target_rate: rates.start,
            ref_wnd: None,
            ref_wnd_i: 1.0,
            ref_wnd_i_update_allowed: true,
            s_rtt: 0.0,
            base: BaseDelay::default(),
            qdelay_avg: 0.0,
            qdelay_avg_at: never,
            jitter: reduce_jitter.then(Jitter::default),
            target: DelayTarget::default(),
            l4s_alpha: 0.0,
            alpha_at: never,
            delivered: 0.0,
            marked: 0.0,
            loss_rate: 0.0,
            loss_detected: false,
            data_units_marked: false,
            congested_at: never,
            reacted_at: never,
            max_in_flight: (0.0, 0.0),
            round_at: never,
            lossy_round: false,
            rate_adjust_factor: 0.0,
            frame_size_dev: 0.0,
        }
    }

    /// `ref_wnd_delay_scale`.
    fn delay_scale(&self) -> f64 {
        self.jitter.as_ref().map_or(1.0, Jitter::scale)
    }

    /// Takes delay, marks and losses of a report; gives the queueing delay.
    fn measure(&mut self, report: &Report, ref_wnd: f64, now: f64) -> f64 {
        let mut qdelay = 0.0;
        for acked in report.acked {
            let delay = one_way(acked);
            qdelay = delay - self.base.update(delay, now);
            if let Some(jitter) = &mut self.jitter {
                jitter.on_packet(qdelay, self.target.qdelay);
            }
        }
        self.delivered += report.acked.len() as f64;
        let marked = report.acked.iter().filter(|acked| acked.ce).count() as f64;
        self.marked += marked;
        self.data_units_marked |= marked > 0.0;
        if now - self.alpha_at >= self.s_rtt.min(0.01) {
            self.l4s_alpha = next_alpha(self.l4s_alpha, self.marked / self.delivered);
            (self.delivered, self.marked, self.alpha_at) = (0.0, 0.0, now);
        }
        if now - self.qdelay_avg_at >= self.s_rtt.min(VIRTUAL_RTT) {
            // A slow attack, a fast decay.
            let risen = QDELAY_AVG_G * qdelay + (1.0 - QDELAY_AVG_G) * self.qdelay_avg;
            self.qdelay_avg = if qdelay < self.qdelay_avg { qdelay } else { risen };
            self.qdelay_avg_at = now;
            if let Some(jitter) = &mut self.jitter {
                jitter.on_update();
            }
        }
        let kept = 1.0 - (LOSS_RATE_THRESHOLD / 4.0).min(MSS / ref_wnd / 2.0);
        self.loss_rate *= libm::pow(kept, report.acked.len() as f64);
        self.loss_rate = 1.0 - (1.0 - self.loss_rate) * libm::pow(kept, report.lost as f64);
        self.loss_detected |=
            report.lost > 0 && (self.loss_rate > LOSS_RATE_THRESHOLD || self.qdelay_avg > self.target.qdelay / 4.0);
        self.max_in_flight.0 = self.max_in_flight.0.max((report.in_flight + report.newly_acked) as f64);
        if now - self.round_at >= self.s_rtt {
            self.target.on_round(std::mem::take(&mut self.lossy_round));
            self.max_in_flight = (report.in_flight as f64, self.max_in_flight.0);
            self.round_at = now;
        }
        qdelay
    }

    /// `scl_t`: how far a window is from the one at the last congestion, from 0.1 to 1.
    fn distance(&self, ref_wnd: f64) -> f64 {
        let near = 8.0 * (ref_wnd - self.ref_wnd_i) / self.ref_wnd_i;
        (near * near).clamp(0.1, 1.0)
    }

    /// Reduces a window if there is congestion.
    fn react(&mut self, mut ref_wnd: f64, qdelay: f64, distance: f64, now: f64) -> f64 {
        if self.loss_detected || self.data_units_marked {
            self.congested_at = now;
        }
        if now - self.reacted_at < self.s_rtt.min(VIRTUAL_RTT) {
            return ref_wnd;
        }
        let lost = std::mem::take(&mut self.loss_detected);
        let marked = std::mem::take(&mut self.data_units_marked) && !lost;
        let half = self.target.qdelay / 2.0;
        let delayed = !lost && !marked && self.qdelay_avg > half;
        if !(lost || marked || delayed) {
            return ref_wnd;
        }
        if std::mem::take(&mut self.ref_wnd_i_update_allowed) {
            self.ref_wnd_i = ref_wnd;
        }
        // It may happen every min(VIRTUAL_RTT, s_rtt), so each time a part of it is enough.
        let share = 0.5 / (self.s_rtt / VIRTUAL_RTT).max(1.0);
        if lost {
            ref_wnd *= BETA_LOSS;
        } else if marked && self.l4s {
            let mut backoff = self.l4s_alpha * share;
            if qdelay < self.target.qdelay / 4.0 {
                backoff *= distance.max(0.25) * self.delay_scale().max(0.25);
            }
            if now - self.reacted_at > 100.0 * self.s_rtt.max(VIRTUAL_RTT) {
                // The window may have grown far above what is in flight.
                ref_wnd = ref_wnd.min(self.max_in_flight.1);
            }
            ref_wnd *= 1.0 - backoff;
        } else if marked {
            ref_wnd *= BETA_ECN;
        } else {
            ref_wnd *= 1.0 - ((self.qdelay_avg - half) / half).clamp(0.0, 1.0) * share;
        }
        (self.congested_at, self.reacted_at) = (now, now);
        ref_wnd.max(MIN_REF_WND)
    }

    /// Lets a window grow.
    fn grow(&mut self, ref_wnd: f64, report: &Report, distance: f64, now: f64) -> f64 {
        let ce: f64 = report.acked.iter().filter(|acked| acked.ce).map(|acked| f64::from(acked.bytes)).sum();
        let newly = (report.newly_acked as f64 - ce).max(0.0);
        let after = (now - self.congested_at) / (POST_CONGESTION_DELAY_RTTS * self.s_rtt.max(VIRTUAL_RTT));
        let multiplicative = 1.0 + MUL_INCREASE_FACTOR * ref_wnd / MSS * after.clamp(0.0, 1.0) * distance;
        let increment = newly
            * ratio(ref_wnd)
            * (self.s_rtt / VIRTUAL_RTT).min(1.0)
            * distance.max(0.25)
            * self.delay_scale().max(0.1)
            * multiplicative;
        let allowed = MSS + self.max_in_flight.0.max(self.max_in_flight.1) * BYTES_IN_FLIGHT_HEAD_ROOM;
        if increment > 0.0 && ref_wnd + increment <= allowed && self.target_rate < self.rates.max {
            self.ref_wnd_i_update_allowed = true;
            return ref_wnd + increment;
        }
        ref_wnd
    }

    fn set_target_rate(&mut self, ref_wnd: f64) {
        let small = 1.0 - (ratio(ref_wnd) - 0.1).clamp(0.0, 0.2);
        let room = 1.2 + self.rate_adjust_factor + self.frame_size_dev;
        let factor = small * MSS / (MSS + PACKET_OVERHEAD) / room;
        self.target_rate = self.rates.limit(factor * 8.0 * ref_wnd / self.s_rtt);
    }
}

impl Controller for Scream {
    fn on_report(&mut self, report: &Report, now: Time) {
        let now = now.as_secs_f64();
        let rtt = now - report.acked[report.acked.len() - 1].sent.as_secs_f64();
        self.s_rtt = if self.s_rtt == 0.0 { rtt } else { self.s_rtt + (rtt - self.s_rtt) / 8.0 };
        self.lossy_round |= report.lost > 0;
        let ref_wnd = self.ref_wnd.unwrap_or_else(|| (self.rates.start * self.s_rtt / 8.0).max(MIN_REF_WND));
        let qdelay = self.measure(report, ref_wnd, now);
        let distance = self.distance(ref_wnd);
        let ref_wnd = self.react(ref_wnd, qdelay, distance, now);
        let ref_wnd = self.grow(ref_wnd, report, distance, now);
        self.ref_wnd = Some(ref_wnd);
        self.target.adjust(qdelay);
        self.set_target_rate(ref_wnd);
    }

    fn on_silence(&mut self, now: Time) {
        self.ref_wnd = self.ref_wnd.map(|_| MIN_REF_WND);
        (self.congested_at, self.reacted_at) = (now.as_secs_f64(), now.as_secs_f64());
        self.target_rate = self.rates.min;
    }

    fn target_rate(&self) -> f64 {
        self.target_rate
    }

    /// From 1.5 up to four times that as the encoder comes to its highest rate.
    fn pacing_factor(&self) -> f64 {
        let above = (self.target_rate / self.rates.max - RELAXED_PACING_LIMIT_LOW) / (1.0 - RELAXED_PACING_LIMIT_LOW);
        PACKET_PACING_HEADROOM / (1.0 - above).clamp(1.0 / MAX_RELAXED_PACING_FACTOR, 1.0)
    }

    fn send_window(&self) -> Option<f64> {
        let room = (REF_WND_OVERHEAD_MAX - REF_WND_OVERHEAD_MIN) * self.delay_scale();
        self.ref_wnd.map(|ref_wnd| ref_wnd * (REF_WND_OVERHEAD_MIN + room))
    }

    fn on_frame(&mut self, frame: &Frame) {
        let period = frame.period.as_secs_f64();
        let error = (frame.waited.as_secs_f64() - period / 4.0) / period;
        self.rate_adjust_factor = (self.rate_adjust_factor + error * RATE_ADJUST_GAIN).clamp(0.0, 0.5);
        let larger = ((frame.bytes - frame.nominal) / frame.nominal).max(0.0);
        self.frame_size_dev += FRAME_SIZE_DEV_ALPHA * (larger - self.frame_size_dev);
        self.frame_size_dev = self.frame_size_dev.min(0.2);
    }
}

/// One-way delay of a packet with the offset of the clocks, s.
fn one_way(acked: &Acked) -> f64 {
    acked.arrived.as_secs_f64() - acked.sent.as_secs_f64()
}

/// `ref_wnd_ratio`.
fn ratio(ref_wnd: f64) -> f64 {
    (MSS / ref_wnd).min(1.0)
}

/// `l4s_alpha` after a share of marks: a fast attack, a slow decay.
fn next_alpha(alpha: f64, marked: f64) -> f64 {
    if marked >= alpha { alpha + L4S_AVG_G_UP * (marked - alpha) } else { (1.0 - L4S_AVG_G_DOWN) * alpha }
}

/// How much the queueing delay varies ("Detecting Increased Queue Delay", optional), s: the draft's `qdelay_max_avg`,
/// `qdelay_min_avg` and `qdelay_dev_avg`.
#[derive(Clone)]
struct Jitter {
    highest: f64,
    lowest: f64,
    deviation: f64,
}

impl Default for Jitter {
    fn default() -> Self {
        Self { highest: QDELAY_TARGET_LO, lowest: 0.0, deviation: 0.0 }
    }
}

impl Jitter {
    fn on_packet(&mut self, qdelay: f64, target: f64) {
        self.highest = qdelay.max(self.highest).min(target);
        self.lowest = qdelay.min(self.lowest);
    }

    /// `calculate_ref_wnd_delay_scale`.
    fn on_update(&mut self) {
        self.highest *= 1.0 - QDELAY_MIN_MAX_AVG_G;
        self.lowest += QDELAY_MIN_MAX_AVG_G * (self.highest - self.lowest);
        let spread = self.highest - self.lowest;
        self.deviation += QDELAY_DEV_AVG_G * (spread - self.deviation);
    }

    fn scale(&self) -> f64 {
        (1.0 - self.deviation / QDELAY_DEV_THRESHOLD).clamp(0.0, 1.0)
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
    use super::*;

    const RATES: Rates = Rates { start: 1e6, min: 1e5, max: 1e8 };

    /// A sender with a window of 100,000 bytes and an RTT of 25 ms, all of whose window is in flight.
    fn scream(l4s: bool) -> Scream {
        let mut scream = Scream::new(RATES, l4s, false);
        (scream.ref_wnd, scream.s_rtt, scream.max_in_flight) = (Some(1e5), 0.025, (1e5, 1e5));
        scream.base.update(0.01, 0.0);
        (scream.round_at, scream.reacted_at) = (10.0, 9.0);
        scream
    }

    /// The window after a report that comes 25 ms after its packets were sent.
    fn after(scream: &mut Scream, acked: &[Acked], lost: u64) -> f64 {
        let newly_acked = acked.iter().map(|acked| u64::from(acked.bytes)).sum();
        let now = Time::from_millis(10_025);
        scream.on_report(&Report { acked, newly_acked, lost, in_flight: 90_000 }, now);
        scream.ref_wnd.expect("it has a window")
    }

    fn packet(delay_ms: u64, ce: bool) -> Acked {
        let sent = Time::from_secs(10);
        Acked { bytes: 1000, sent, arrived: sent + Time::from_millis(delay_ms), ce, probe: 0 }
    }

    /// 1000 bytes of 100,000 acknowledged: a hundredth of an MSS, and 1 + 0.02 · 82.5 times that without congestion.
    #[test]
    fn the_window_grows_by_an_mss_per_rtt_and_by_two_percent_far_from_the_last_congestion() {
        let far = after(&mut scream(false), &[packet(10, false)], 0);
        let expected = 1e5 + 1000.0 * MSS / 1e5 * (1.0 + 0.02 * 1e5 / MSS);
        assert!((far - expected).abs() < 1e-6, "{far} {expected}");
        let mut near = scream(false);
        (near.ref_wnd_i, near.congested_at) = (1e5, 10.0);
        let grown = after(&mut near, &[packet(10, false)], 0);
        // A quarter, and the multiplicative part a tenth of 1 %: 25 ms of 100 RTTs have passed.
        let expected = 1e5 + 1000.0 * MSS / 1e5 * 0.25 * (1.0 + 0.02 * 1e5 / MSS * 0.01 * 0.1);
        assert!((grown - expected).abs() < 1e-6, "{grown} {expected}");
    }

    #[test]
    fn growth_stops_at_one_and_a_half_times_what_is_in_flight_and_at_the_highest_rate() {
        let mut idle = scream(false);
        (idle.max_in_flight, idle.ref_wnd) = ((0.0, 0.0), Some(2e5));
        assert!((after(&mut idle, &[packet(10, false)], 0) - 2e5).abs() < 1e-9);
        let mut fastest = scream(false);
        fastest.target_rate = RATES.max;
        assert!((after(&mut fastest, &[packet(10, false)], 0) - 1e5).abs() < 1e-9);
    }

    /// Each loss raises the rate of losses by 0.25 %: the fifth is beyond 1 %. Or there is a queue of a quarter of
    /// 60 ms.
    #[test]
    fn losses_reduce_the_window_beyond_one_percent_or_with_a_queue() {
        let grown = |reduced: f64| reduced..reduced + 150.0;
        assert!(grown(100_000.0).contains(&after(&mut scream(false), &[packet(10, false)], 4)));
        assert!(grown(70_000.0).contains(&after(&mut scream(false), &[packet(10, false)], 5)));
        let mut queued = scream(false);
        (queued.qdelay_avg, queued.qdelay_avg_at) = (0.016, 10.02);
        assert!(grown(70_000.0).contains(&after(&mut queued, &[packet(26, false)], 1)));
    }

    #[test]
    fn classic_marks_reduce_the_window_by_a_fifth_and_l4s_marks_in_proportion() {
        let reduced = after(&mut scream(false), &[packet(10, true)], 0);
        assert!((reduced - 8e4).abs() < 1e-6, "{reduced}");
        // The RTT of the report is 25 ms: the average of 50 loses 25/8 ms.
        let two = (0.05 - 0.025 / 8.0) / 0.025;
        for (s_rtt, ref_wnd_i, parts) in [(0.025, 1.0, 1.0), (0.05, 1.0, two), (0.025, 1e5, 4.0)] {
            let mut scream = scream(true);
            (scream.l4s_alpha, scream.s_rtt, scream.ref_wnd_i) = (0.2, s_rtt, ref_wnd_i);
            let reduced = after(&mut scream, &[packet(10, true)], 0);
            // The only packet was marked: alpha becomes 0.2 + (1 - 0.2)/8, and nothing grows.
            let expected = 1e5 * (1.0 - 0.15 / parts);
            assert!((reduced - expected).abs() < 1e-6, "{reduced} {expected}");
        }
    }

    #[test]
    fn the_average_of_marks_rises_fast_and_falls_slowly() {
        assert!((next_alpha(0.2, 1.0) - 0.3).abs() < 1e-12);
        assert!((next_alpha(0.2, 0.1) - 0.2 * 127.0 / 128.0).abs() < 1e-12);
    }

    #[test]
    fn a_queueing_delay_beyond_half_the_target_reduces_the_window_in_proportion() {
        let mut scream = scream(false);
        // The average becomes 45 ms: halfway from 30 to 60.
        scream.qdelay_avg = 0.045;
        let reduced = after(&mut scream, &[packet(55, false)], 0);
        assert!((75_000.0..75_150.0).contains(&reduced), "{reduced}");
    }

    /// A queue of 0 and 20 ms in turn is a deviation of more than 10 ms; a constant one is none, however long.
    #[test]
    fn a_varying_delay_narrows_the_window_and_a_constant_one_does_not() {
        let scale = |delays: [f64; 2]| {
            let mut jitter = Jitter::default();
            for _ in 0..1000 {
                for delay in delays {
                    jitter.on_packet(delay, QDELAY_TARGET_LO);
                }
                jitter.on_update();
            }
            jitter.scale()
        };
        let (varying, constant) = (scale([0.0, 0.02]), scale([0.02; 2]));
        assert!(varying < 0.01 && constant > 0.99, "{varying} {constant}");
        let mut scream = scream(false);
        assert_eq!(scream.send_window(), Some(3e5));
        scream.jitter = Some(Jitter { deviation: 0.02, ..Jitter::default() });
        assert_eq!(scream.send_window(), Some(1.5e5));
    }

    /// 8 · 100,000 B / 25 ms = 32 Mbit/s, less 20 bytes for each packet's 1212, less a sixth; up to 0.7 more in the
    /// divisor where packets wait for long and frames are too large.
    #[test]
    fn the_target_rate_leaves_room_for_headers_waiting_packets_and_large_frames() {
        let mut scream = scream(false);
        let target = |scream: &mut Scream| {
            scream.set_target_rate(1e5);
            scream.target_rate() / (32e6 * MSS / (MSS + 20.0))
        };
        assert!((target(&mut scream) - 1.0 / 1.2).abs() < 1e-9);
        let period = Time::from_millis(40);
        for _ in 0..1000 {
            scream.on_frame(&Frame { bytes: 2000.0, nominal: 1000.0, period, waited: period });
        }
        assert!((target(&mut scream) - 1.0 / 1.9).abs() < 1e-9);
    }

    #[test]
    fn pacing_is_relaxed_towards_the_highest_rate() {
        let mut scream = scream(false);
        for (share, factor) in [(0.5, 1.5), (0.8, 1.5), (0.9, 3.0), (1.0, 6.0)] {
            scream.target_rate = share * RATES.max;
            assert!((scream.pacing_factor() - factor).abs() < 1e-9, "{share}: {}", scream.pacing_factor());
        }
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
