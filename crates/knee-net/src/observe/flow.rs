//! Observes a flow.

use super::{Histogram, since};
use crate::output::FlowFigures;
use knee_core::{Packet, Time};

/// Cumulative counts of a flow at some moment.
#[derive(Clone, Copy, Default)]
pub struct FlowCounts {
    /// When.
    pub at: Time,
    /// Payload that has arrived, each byte counted once.
    pub delivered_bytes: u64,
    /// Payload sent at least once.
    pub new_bytes: u64,
    /// Packets sent at least once and not acknowledged.
    pub outstanding: u64,
    /// Bytes sent, with the overhead of the first link.
    pub sent_bytes: u64,
    /// Bytes received, with the same overhead.
    pub received_bytes: u64,
    /// Packets received.
    pub received: u64,
    /// Their queueing delays, in units of [`Packet::QUEUED_UNIT`].
    pub queued_units: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets deemed lost.
    pub lost: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Integral of the window.
    pub cwnd_integral: u128,
}

impl FlowCounts {
    /// Adds the counts of another connection of the flow.
    pub fn add(&mut self, other: &Self) {
        self.delivered_bytes += other.delivered_bytes;
        self.new_bytes += other.new_bytes;
        self.outstanding += other.outstanding;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.received += other.received;
        self.queued_units += other.queued_units;
        self.sent += other.sent;
        self.lost += other.lost;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.cwnd_integral += other.cwnd_integral;
    }
}

/// Observations of a flow between the start and the end of its figures.
#[derive(Clone)]
pub struct FlowWatch {
    /// Counts when the figures began.
    pub from: FlowCounts,
    /// Counts when they ended, where that is before the end of the run.
    pub until: Option<Box<FlowCounts>>,
}

impl FlowWatch {
    /// Begins to watch.
    pub const fn new(from: FlowCounts) -> Self {
        Self { from, until: None }
    }

    /// The figures between `from` and `until` (or `end`), of which `rtt` has the RTT samples.
    pub fn figures(&self, end: &FlowCounts, rtt: &Histogram, completion: Option<Time>) -> FlowFigures {
        let until = self.until.as_deref().unwrap_or(end);
        let from = &self.from;
        let span = until.at.saturating_sub(from.at);
        let mbps = |bytes: u64| if span == Time::ZERO { 0.0 } else { bytes as f64 * 8.0 / span.as_secs_f64() / 1e6 };
        let delivered = since(until.delivered_bytes, from.delivered_bytes);
        let sent_bytes = since(until.sent_bytes, from.sent_bytes);
        let received = since(until.received, from.received);
        let queued = Packet::QUEUED_UNIT * since(until.queued_units, from.queued_units);
        FlowFigures {
            goodput_mbps: mbps(delivered),
            throughput_mbps: mbps(since(until.received_bytes, from.received_bytes)),
            sending_rate_mbps: mbps(sent_bytes),
            // What was sent before the window and arrived in it is on neither side.
            goodput_ratio: (sent_bytes > 0)
                .then(|| until.delivered_bytes.saturating_sub(from.new_bytes) as f64 / sent_bytes as f64),
            rtt_mean_ms: rtt.mean_ms(),
            rtt_min_ms: rtt.min_ms(),
            rtt_p50_ms: rtt.quantile_ms(0.5),
            rtt_p95_ms: rtt.quantile_ms(0.95),
            rtt_p99_ms: rtt.quantile_ms(0.99),
            rtt_max_ms: rtt.max_ms(),
            queue_delay_mean_ms: (received > 0).then(|| queued.as_millis_f64() / received as f64),
            cwnd_mean_packets: (span > Time::ZERO)
                .then(|| (until.cwnd_integral - from.cwnd_integral) as f64 / span.as_nanos() as f64),
            outstanding_packets: from.outstanding,
            sent_packets: since(until.sent, from.sent),
            lost_packets: since(until.lost, from.lost),
            retransmitted_packets: since(until.retransmitted, from.retransmitted),
            timeouts: since(until.timeouts, from.timeouts),
            completion_s: completion.map(Time::as_secs_f64),
            datagrams: None,
            common_throughput_mbps: None,
            delivered_bytes: 0,
            received_bytes: 0,
        }
    }
}

/// Figures of a flow that was never watched, with the time that its transfer took.
pub fn no_figures(completion: Option<Time>) -> FlowFigures {
    FlowWatch::new(FlowCounts::default()).figures(&FlowCounts::default(), &Histogram::new(1), completion)
}
