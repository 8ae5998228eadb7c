//! How the queueing delay moves: groups of packets, a line through their delays, and the detector of overuse.
//!
//! Times are in ms, as in the authors' program (`inter_arrival_delta.cc`, `trendline_estimator.cc`).

use super::super::{Acked, Threshold};
use knee_core::Time;
use std::collections::VecDeque;

/// Packets sent within this time after the first are a group (`kSendTimeGroupLength`).
const GROUP_LENGTH: Time = Time::from_millis(5);
/// So is a packet that arrives so close after the one before, and closer than it was sent (`kBurstDeltaThreshold`).
const BURST_GAP: Time = Time::from_millis(5);
/// A group that has arrived for this time takes no more of these (`kMaxBurstDuration`).
const LONGEST_BURST: Time = Time::from_millis(100);
/// Groups that the line is fitted to (`kDefaultTrendlineWindowSize`).
const WINDOW: usize = 20;
/// Weight of the past in the smoothed delay (`kDefaultTrendlineSmoothingCoeff`).
const SMOOTHING: f64 = 0.9;
/// Factor of the slope (`kDefaultTrendlineThresholdGain`), and most deltas that multiply it (`kMinNumDeltas`).
const GAIN: f64 = 4.0;
const MAX_DELTAS: f64 = 60.0;
/// For so long the trend must be above the threshold (`kOverUsingTimeThreshold`), ms.
const OVERUSE_TIME: f64 = 10.0;
/// The threshold: its start and bounds, ms.
const THRESHOLD: f64 = 12.5;
const THRESHOLDS: (f64, f64) = (6.0, 600.0);
/// How fast it follows, 1/ms, upwards and downwards: in the program (`k_up_`, `k_down_`), and in the draft (5.4).
const PROGRAM: (f64, f64) = (0.0087, 0.039);
const DRAFT: (f64, f64) = (0.01, 0.00018);
/// A trend so far above the threshold is a spike, which it does not follow (`kMaxAdaptOffsetMs`).
const SPIKE: f64 = 15.0;
/// Longest time by which the threshold is adapted at once, ms (`kMaxTimeDeltaMs`).
const LONGEST_STEP: f64 = 100.0;

/// The detector's state of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Signal {
    #[default]
    Normal,
    Overuse,
    Underuse,
}

/// Packets that were sent together.
#[derive(Clone, Copy)]
struct Group {
    /// When the first was sent and arrived, and the last.
    began: Time,
    first_arrived: Time,
    sent: Time,
    arrived: Time,
}

impl Group {
    fn takes(&self, packet: &Acked) -> bool {
        let (sent, arrived) = (packet.sent.saturating_sub(self.sent), packet.arrived.saturating_sub(self.arrived));
        packet.sent - self.began <= GROUP_LENGTH
            || sent == Time::ZERO
            || (arrived < sent && arrived <= BURST_GAP && packet.arrived - self.first_arrived < LONGEST_BURST)
    }
}

/// Two groups beside each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    /// Times between their last packets as sent and as arrived, ms.
    sent: f64,
    arrived: f64,
    /// When the later one arrived, ms.
    at: f64,
}

/// Forms groups of packets.
#[derive(Clone, Default)]
pub(super) struct Groups {
    current: Option<Group>,
    before: Option<Group>,
}

impl Groups {
    /// A packet has arrived: the delta that it completes. One sent before the current group is left out.
    pub(super) fn on_packet(&mut self, packet: &Acked) -> Option<Delta> {
        let Acked { sent, arrived, .. } = *packet;
        match &mut self.current {
            Some(group) if sent < group.began => return None,
            Some(group) if group.takes(packet) => {
                (group.sent, group.arrived) = (sent.max(group.sent), arrived);
                return None;
            }
            _ => {}
        }
        let complete = self.current.replace(Group { began: sent, first_arrived: arrived, sent, arrived })?;
        let before = self.before.replace(complete)?;
        let ms = |later: Time, earlier: Time| later.as_millis_f64() - earlier.as_millis_f64();
        Some(Delta {
            sent: ms(complete.sent, before.sent),
            arrived: ms(complete.arrived, before.arrived),
            at: complete.arrived.as_millis_f64(),
        })
    }
}

/// Slope of the line through these points by least squares; none where all lie above each other.
fn slope<'a>(points: impl ExactSizeIterator<Item = &'a (f64, f64)> + Clone) -> Option<f64> {
    let n = points.len() as f64;
    let (sum_x, sum_y) = points.clone().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (sum_x / n, sum_y / n);
    let (up, across) = points.fold((0.0, 0.0), |(up, across), point| {
        (up + (point.0 - x) * (point.1 - y), across + (point.0 - x) * (point.0 - x))
    });
    (across > 0.0).then(|| up / across)
}

/// The trend of the queueing delay.
#[derive(Clone, Default)]
pub(super) struct Trend {
    /// Sum of the deltas, and the same smoothed, ms.
    delay: f64,
    smoothed: f64,
    /// When the last groups arrived, after the first one, and their smoothed delays, ms.
    window: VecDeque<(f64, f64)>,
    first: Option<f64>,
    /// How many deltas there were.
    deltas: f64,
    /// ms of queue per ms.
    slope: f64,
}

impl Trend {
    fn update(&mut self, delta: &Delta) -> f64 {
        self.deltas = (self.deltas + 1.0).min(MAX_DELTAS);
        self.delay += delta.arrived - delta.sent;
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * self.delay;
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back((delta.at - *self.first.get_or_insert(delta.at), self.smoothed));
        if self.window.len() == WINDOW {
            self.slope = slope(self.window.iter()).unwrap_or(self.slope);
        }
        self.slope
    }
}

/// The detector of overuse with its adaptive threshold.
#[derive(Clone)]
pub(super) struct Detector {
    trend: Trend,
    /// How fast the threshold follows.
    speeds: (f64, f64),
    /// ms.
    threshold: f64,
    signal: Signal,
    /// For how long, ms, and how many times the trend has been above the threshold; none if it is below.
    above: Option<(f64, u32)>,
    slope: f64,
    /// When the threshold was last adapted, ms.
    adapted: Option<f64>,
}

impl Detector {
    pub(super) fn new(threshold: Threshold) -> Self {
        let speeds = match threshold {
            Threshold::Program => PROGRAM,
            Threshold::Draft => DRAFT,
        };
        let (trend, signal) = (Trend::default(), Signal::Normal);
        Self { trend, speeds, threshold: THRESHOLD, signal, above: None, slope: 0.0, adapted: None }
    }

    pub(super) const fn signal(&self) -> Signal {
        self.signal
    }

    /// Two groups have arrived.
    pub(super) fn on_delta(&mut self, delta: &Delta) {
        let slope = self.trend.update(delta);
        if self.trend.deltas >= 2.0 {
            self.compare(slope, self.trend.deltas * GAIN * slope, delta);
        }
    }

    /// Compares the trend, the slope times a factor, with the threshold.
    fn compare(&mut self, slope: f64, trend: f64, delta: &Delta) {
        if trend > self.threshold {
            // When it began is not known: half of the time since the last group.
            let (time, times) = self.above.map_or((delta.sent / 2.0, 1), |(time, n)| (time + delta.sent, n + 1));
            self.above = Some((time, times));
            if time > OVERUSE_TIME && times > 1 && slope >= self.slope {
                (self.above, self.signal) = (Some((0.0, 0)), Signal::Overuse);
            }
        } else {
            self.above = None;
            self.signal = if trend < -self.threshold { Signal::Underuse } else { Signal::Normal };
        }
        self.slope = slope;
        self.adapt(trend, delta.at);
    }

    fn adapt(&mut self, trend: f64, at: f64) {
        let since = (at - self.adapted.replace(at).unwrap_or(at)).clamp(0.0, LONGEST_STEP);
        let over = trend.abs() - self.threshold;
        if over <= SPIKE {
            let (up, down) = self.speeds;
            let k = if over < 0.0 { down } else { up };
            self.threshold = (self.threshold + k * over * since).clamp(THRESHOLDS.0, THRESHOLDS.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_millis(1);

    fn delta(sent: f64, arrived: f64, at: f64) -> Delta {
        Delta { sent, arrived, at }
    }

    #[test]
    fn packets_within_five_ms_or_that_arrive_faster_than_sent_are_a_group() {
        let mut groups = Groups::default();
        let mut at = |sent: u64, arrived: u64| {
            let packet = Acked { bytes: 1000, sent: MS * sent, arrived: MS * arrived, ce: false, probe: 0 };
            groups.on_packet(&packet).map(|delta| (delta.sent, delta.arrived, delta.at))
        };
        assert_eq!([at(0, 20), at(5, 25), at(10, 30)], [None; 3], "one group is complete");
        // Sent 8 ms after the last, it arrives 2 ms after it.
        assert_eq!(at(18, 32), None, "a burst");
        assert_eq!(at(40, 70), Some((13.0, 7.0, 32.0)), "two groups: up to 5 and 25 ms, up to 18 and 32 ms");
        assert_eq!(at(39, 71), None, "overtaken");
    }

    #[test]
    fn the_slope_is_that_of_least_squares() {
        // The mean is (1, 2): ((-1)(-2) + 0·1 + 1·1) / 2.
        assert_eq!(slope([(0.0, 0.0), (1.0, 3.0), (2.0, 3.0)].iter()), Some(1.5));
        assert_eq!(slope([(1.0, 0.0), (1.0, 3.0)].iter()), None);
    }

    #[test]
    fn at_five_percent_above_the_rate_of_the_link_the_slope_becomes_a_twentieth() {
        let mut trend = Trend::default();
        let slopes: Vec<f64> = (0..100).map(|k| trend.update(&delta(20.0, 21.0, 21.0 * f64::from(k)))).collect();
        assert!(slopes[..19].iter().all(|slope| *slope == 0.0), "no line before twenty groups");
        // A ms of queue every 21 ms.
        assert!((slopes[99] - 1.0 / 21.0).abs() < 1e-4, "{}", slopes[99]);
    }

    #[test]
    fn overuse_needs_two_trends_above_the_threshold_10_ms_and_no_fall() {
        let seen = |slopes: &[f64]| {
            let mut detector = Detector::new(Threshold::Program);
            for slope in slopes {
                detector.compare(*slope, 100.0 * slope, &delta(8.0, 8.0, 0.0));
            }
            detector.signal
        };
        // 4 ms, then 12: above 10 with the second.
        assert_eq!(seen(&[0.2]), Signal::Normal);
        assert_eq!(seen(&[0.2, 0.2]), Signal::Overuse);
        assert_eq!(seen(&[0.2, 0.19]), Signal::Normal, "it falls");
        assert_eq!(seen(&[0.2, 0.1, 0.2]), Signal::Normal, "not at a stretch");
        assert_eq!(seen(&[-0.2]), Signal::Underuse);
    }

    #[test]
    fn the_threshold_follows_the_trend_between_its_bounds() {
        let by = |threshold, trend: f64| {
            let mut detector = Detector::new(threshold);
            detector.adapt(0.0, 0.0);
            detector.adapt(trend, 10.0);
            detector.threshold
        };
        let after = |trend| by(Threshold::Program, trend);
        assert!((by(Threshold::Draft, 20.0) - (12.5 + 10.0 * 0.01 * 7.5)).abs() < 1e-12);
        assert!((by(Threshold::Draft, 0.5) - (12.5 - 10.0 * 0.00018 * 12.0)).abs() < 1e-12);
        assert!((after(20.0) - (12.5 + 10.0 * 0.0087 * 7.5)).abs() < 1e-12);
        assert!((after(0.5) - (12.5 - 10.0 * 0.039 * 12.0)).abs() < 1e-12);
        assert!([28.0, -28.0].iter().all(|&slope| (after(slope) - 12.5).abs() < 1e-9), "a spike is left out");
        let mut detector = Detector::new(Threshold::Program);
        (0..100).for_each(|k| detector.adapt(0.0, f64::from(k) * 30.0));
        assert!((detector.threshold - 6.0).abs() < 1e-9);
    }
}
