//! The numbers that a monitor interval is described by.

use serde::Deserialize;

/// The set of numbers that describe an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Features {
    /// Ours: eight numbers without units, within -1 and 10.
    #[default]
    Knee,
    /// Aurora's three (Jay et al., ICML 2019, Sec. 4.1; `sender_obs.py` of PCC-RL).
    Aurora,
}

/// Measurements at the end of an interval; times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) length: f64,
    pub(super) sent: f64,
    pub(super) delivered: f64,
    pub(super) marked: f64,
    pub(super) lost: f64,
    /// Mean RTT, of the last interval that has one.
    pub(super) rtt: f64,
    /// Mean RTT of the second half of the samples, less that of the first.
    pub(super) rtt_increase: f64,
    /// Least RTT of the flow.
    pub(super) min_rtt: f64,
    /// Least mean RTT of an interval of the flow.
    pub(super) least_mean_rtt: f64,
    /// Largest rate at which an interval delivered, packets/s.
    pub(super) peak: f64,
    /// The window in force, packets.
    pub(super) window: f64,
}

impl Features {
    /// The names.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Knee => {
                &["queueing", "gradient", "excess", "loss", "marks", "queueing_10ms", "queued_10", "delivery"]
            }
            Self::Aurora => &["latency_inflation", "latency_ratio", "send_ratio"],
        }
    }

    /// The range of each, for the space of observations.
    pub const fn ranges(self) -> &'static [(f32, f32)] {
        match self {
            Self::Knee => {
                &[(0.0, 10.0), (-1.0, 1.0), (-1.0, 10.0), (0.0, 1.0), (0.0, 1.0), (0.0, 10.0), (0.0, 10.0), (0.0, 1.0)]
            }
            Self::Aurora => &[(-1.0, 10.0), (1.0, 10_000.0), (0.0, 1000.0)],
        }
    }

    /// The numbers of an interval before the first.
    pub(super) const fn before(self) -> &'static [f32] {
        match self {
            Self::Knee => &[0.0; 8],
            Self::Aurora => &[0.0, 1.0, 1.0],
        }
    }

    /// Appends the numbers of an interval.
    pub(super) fn append(self, m: &Measured, to: &mut Vec<f32>) {
        match self {
            Self::Knee => to.extend(self.bounded(&knee(m))),
            Self::Aurora => to.extend(self.bounded(&aurora(m))),
        }
    }

    fn bounded(self, values: &[f64]) -> impl Iterator<Item = f32> {
        #[allow(clippy::cast_possible_truncation, reason = "observations are of single precision")]
        values.iter().zip(self.ranges()).map(|(&value, &(least, most))| (value as f32).clamp(least, most))
    }
}

/// A share, 0 of nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn knee(m: &Measured) -> [f64; 8] {
    let queueing = (m.rtt - m.min_rtt).max(0.0);
    [
        share(queueing, m.min_rtt),
        share(m.rtt_increase, m.length),
        if m.delivered > 0.0 { m.sent / m.delivered - 1.0 } else { 0.0 },
        share(m.lost, m.lost + m.delivered),
        share(m.marked, m.delivered),
        queueing / 0.010,
        // Vegas's estimate of the flow's own packets in the queue, in tens.
        share(m.window * queueing, m.rtt) / 10.0,
        share(share(m.delivered, m.length), m.peak),
    ]
}

/// PCC-RL leaves out one packet of those acknowledged, and gives 1 for a ratio that it does not know.
fn aurora(m: &Measured) -> [f64; 3] {
    let received = m.delivered - 1.0;
    [
        share(m.rtt_increase, m.length),
        if m.least_mean_rtt > 0.0 { m.rtt / m.least_mean_rtt } else { 1.0 },
        if received > 0.0 && m.sent < 1000.0 * received { m.sent / received } else { 1.0 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Measured = Measured {
        length: 0.02,
        sent: 30.0,
        delivered: 21.0,
        marked: 7.0,
        lost: 7.0,
        rtt: 0.025,
        rtt_increase: 0.005,
        min_rtt: 0.020,
        least_mean_rtt: 0.0225,
        peak: 2100.0,
        window: 50.0,
    };

    fn close(found: &[f64], expected: &[f64]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}, not {expected:?}");
    }

    #[test]
    fn an_interval_by_hand() {
        // 5 ms of 20 ms queue; +5 ms in 20 ms; 30/21; 7/28; 7/21; 5/10; 50 * 5/25 / 10; 1050/s of 2100/s.
        close(&knee(&INTERVAL), &[0.25, 0.25, 9.0 / 21.0, 0.25, 1.0 / 3.0, 0.5, 1.0, 0.5]);
        close(&aurora(&INTERVAL), &[0.25, 0.025 / 0.0225, 1.5]);
    }

    #[test]
    fn nothing_known_is_no_nan() {
        let nothing = Measured::default();
        close(&knee(&nothing), &[0.0; 8]);
        close(&aurora(&nothing), &[0.0, 1.0, 1.0]);
        for features in [Features::Knee, Features::Aurora] {
            let mut values = Vec::new();
            features.append(&nothing, &mut values);
            assert_eq!(values, features.before());
        }
    }

    #[test]
    fn values_stay_in_their_ranges() {
        let wild = Measured { rtt: 1e9, sent: 1e12, rtt_increase: -1e9, ..INTERVAL };
        for features in [Features::Knee, Features::Aurora] {
            let mut values = Vec::new();
            features.append(&wild, &mut values);
            assert_eq!(values.len(), features.names().len());
            assert!(values.iter().zip(features.ranges()).all(|(value, (least, most))| (least..=most).contains(&value)));
        }
    }
}
