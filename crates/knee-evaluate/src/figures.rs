//! Figures of a run, defined as `knee evaluate` defines them (`python/knee/study/sweeps/table.py` and
//! `python/knee/figures/metrics.py`); a test compares the two.

use knee_net::output::FlowFigures;
use knee_sim::{Output, SampleRow};

/// Half the least interval there can be, s: room for the rounding of times.
const EPSILON_S: f64 = 0.5e-9;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Payload that the flows together delivered for the first time, Mbit/s.
    Goodput,
    /// 95th percentile of the RTT, mean of the flows, ms.
    RttP95,
    /// 95th percentile of the queueing delay of the link, ms.
    QueueDelayP95,
    /// Mean queueing delay of the slowest queue, ms.
    QueueDelayMean,
    /// Part of the link's capacity that was used, 0 to 1.
    Utilization,
    /// Lost packets divided by those sent, 0 to 1.
    Loss,
    /// Jain's index of the flows' throughputs over the time in which all run, 1/n to 1.
    Jain,
    /// Mean of Jain's index in intervals of 100 ms, 1/n to 1.
    JainIntervalMean,
    /// Time of the finite flow that took longest, s.
    Completion,
}

use Figure::{Completion, Goodput, Jain, JainIntervalMean, Loss, QueueDelayMean, QueueDelayP95, RttP95, Utilization};

impl Figure {
    /// All figures.
    pub const ALL: [Self; 9] =
        [Goodput, RttP95, QueueDelayP95, QueueDelayMean, Utilization, Loss, Jain, JainIntervalMean, Completion];

    /// The figure of this name in `criteria.toml`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }

    /// Its name in `criteria.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Goodput => "goodput_mbps",
            RttP95 => "rtt_p95_ms",
            QueueDelayP95 => "queue_delay_p95_ms",
            QueueDelayMean => "queue_delay_mean_ms",
            Utilization => "utilization",
            Loss => "loss",
            Jain => "jain",
            JainIntervalMean => "jain_interval_mean",
            Completion => "completion_s",
        }
    }

    /// Its title in reports.
    pub const fn title(self) -> &'static str {
        match self {
            Goodput => "goodput",
            RttP95 => "RTT, 95 %",
            QueueDelayP95 => "queueing delay, 95 %",
            QueueDelayMean => "queueing delay, mean",
            Utilization => "utilization",
            Loss => "loss",
            Jain => "Jain's index",
            JainIntervalMean => "Jain's index, mean of intervals",
            Completion => "completion",
        }
    }

    /// Its unit; empty for ratios.
    pub const fn unit(self) -> &'static str {
        match self {
            Goodput => "Mbit/s",
            RttP95 | QueueDelayP95 | QueueDelayMean => "ms",
            Completion => "s",
            Utilization | Loss | Jain | JainIntervalMean => "",
        }
    }

    /// True if less is better.
    pub const fn less_is_better(self) -> bool {
        matches!(self, RttP95 | QueueDelayP95 | QueueDelayMean | Loss | Completion)
    }
}

/// The parts of a run's results that figures are computed from.
#[derive(Debug)]
pub(crate) struct Run {
    flows: Vec<(String, Option<u64>, FlowFigures)>,
    window_s: Option<(f64, f64)>,
    utilization: f64,
    queue_delay_p95_ms: Option<f64>,
    queue_delay_mean_ms: Option<f64>,
    jain: Option<f64>,
    jain_interval_mean: Option<f64>,
}

impl Run {
    /// The figures of a run: its output, the labels and sizes of its flows, its samples and their interval, s.
    pub(crate) fn new(output: Output, flows: &[(String, Option<u64>)], samples: &[SampleRow], interval_s: f64) -> Self {
        let link = output.links.first();
        let delivered = output.flows.iter().any(|flow| flow.delivered_bytes > 0);
        let shares: Option<Vec<f64>> = output.flows.iter().map(|flow| flow.common_throughput_mbps).collect();
        // One flow shares with nobody.
        let shared = output.common_window_s.zip(shares).filter(|(_, shares)| shares.len() > 1);
        Self {
            window_s: output.window_s,
            utilization: link.map_or(0.0, |link| link.utilization),
            queue_delay_p95_ms: link.and_then(|link| link.queue_delay_p95_ms),
            queue_delay_mean_ms: link.and_then(|link| link.queue_delay_mean_ms),
            jain: shared.as_ref().filter(|_| delivered).and_then(|(_, shares)| jain(shares)),
            jain_interval_mean: shared.and_then(|(window, _)| jain_interval_mean(samples, window, interval_s)),
            flows: (flows.iter().zip(output.flows))
                .map(|((label, bytes), figures)| (label.clone(), *bytes, figures))
                .collect(),
        }
    }

    /// A figure of all flows, or of those with a label; `None` where the run has no such value.
    pub(crate) fn value(&self, figure: Figure, of: &str) -> Option<f64> {
        let flows = || self.flows.iter().filter(|(label, _, _)| of.is_empty() || has(label, of));
        match figure {
            Goodput => {
                let (start, end) = self.window_s.filter(|(start, end)| end > start && flows().next().is_some())?;
                let bytes: u64 = flows().map(|(_, _, flow)| flow.delivered_bytes).sum();
                Some((bytes * 8) as f64 / (end - start) / 1e6)
            }
            RttP95 => mean(&flows().filter_map(|(_, _, flow)| flow.rtt_p95_ms).collect::<Vec<_>>()),
            QueueDelayP95 => self.queue_delay_p95_ms,
            QueueDelayMean => self.queue_delay_mean_ms,
            Utilization => Some(self.utilization),
            Loss => {
                let sent: u64 = flows().map(|(_, _, flow)| flow.sent_packets + flow.outstanding_packets).sum();
                let lost: u64 = flows().map(|(_, _, flow)| flow.lost_packets).sum();
                (sent > 0).then(|| lost as f64 / sent as f64)
            }
            Jain => self.jain,
            JainIntervalMean => self.jain_interval_mean,
            Completion => {
                let finite = flows().filter(|(_, bytes, _)| bytes.is_some());
                let times: Option<Vec<f64>> = finite.map(|(_, _, flow)| flow.completion_s).collect();
                times?.into_iter().reduce(f64::max)
            }
        }
    }

    /// True if none of the flows with these labels delivered anything.
    pub(crate) fn delivered_nothing<'a>(&self, mut labels: impl Iterator<Item = &'a str>) -> bool {
        labels.all(|label| !self.flows.iter().any(|(own, _, flow)| has(own, label) && flow.delivered_bytes > 0))
    }
}

/// True if a flow is one of those with a label; several identical ones are numbered.
fn has(label: &str, wanted: &str) -> bool {
    let number = label.strip_prefix(wanted).and_then(|rest| rest.strip_prefix(' '));
    label == wanted || number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Jain's index (sum x)^2 / (n sum x^2); `None` where nothing was shared.
fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| (sum * sum / (shares.len() as f64 * squares)).min(1.0))
}

/// The mean of Jain's index in the whole intervals of a window in which something was received.
fn jain_interval_mean(samples: &[SampleRow], window: (f64, f64), interval_s: f64) -> Option<f64> {
    let (start, end) = (window.0 + interval_s - EPSILON_S, window.1 + EPSILON_S);
    let inside = |row: &&SampleRow| row.t_s >= start && row.t_s <= end && !row.throughput_mbps.is_nan();
    let mut rows: Vec<(f64, f64)> =
        samples.iter().filter(inside).map(|row| (row.t_s, f64::from(row.throughput_mbps))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let interval = |rows: &[(f64, f64)]| jain(&rows.iter().map(|(_, rate)| *rate).collect::<Vec<_>>());
    let indexes: Vec<f64> = rows.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()).filter_map(interval).collect();
    mean(&indexes)
}

/// The mean; `None` of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_of_equal_shares_and_one_nth_of_a_single_one() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0]), Some(0.5));
        // A split of 1:2 (Jain et al., DEC-TR-301): 9 / (2 * 5).
        assert_eq!(jain(&[1.0, 2.0]), Some(0.9));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn identical_flows_are_numbered() {
        assert!(has("x", "x") && has("x 12", "x"));
        assert!(!has("x far", "x") && !has("x ", "x") && !has("xx", "x"));
    }
}
