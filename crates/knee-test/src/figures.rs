//! The figures of links, and of the simulator's flows.

use knee_core::Time;
use knee_core::convert::truncated;
use knee_net::observe::FlowCounts;
use knee_net::output::LinkFigures;

/// The figures of a link from the start on.
#[derive(Clone, Debug)]
pub struct Link {
    figures: LinkFigures,
    bytes: u64,
    until: Time,
}

/// The figures of a flow of the simulator's from its start on.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    delivered: u64,
    sent: u64,
    lost: u64,
    runs: Time,
}

impl Flow {
    pub(crate) const fn new(counts: &FlowCounts, runs: Time) -> Self {
        let FlowCounts { delivered_bytes: delivered, sent, lost, .. } = *counts;
        Self { delivered, sent, lost, runs }
    }

    /// Payload that its receiver has, bytes, each counted once.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Mean of that since its start, bit/s.
    pub fn goodput(&self) -> f64 {
        if self.runs == Time::ZERO { 0.0 } else { self.delivered as f64 * 8.0 / self.runs.as_secs_f64() }
    }

    /// Data packets sent.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Packets that its sender deems lost.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

/// How long packets that have left a link waited in its queue; zero where none has left.
#[derive(Clone, Copy, Debug)]
pub struct Queueing {
    mean: Time,
    p95: Time,
    p99: Time,
    max: Time,
}

impl Link {
    pub(crate) const fn new(figures: LinkFigures, bytes: u64, until: Time) -> Self {
        Self { figures, bytes, until }
    }

    /// How long packets waited in its queue.
    pub fn queueing(&self) -> Queueing {
        let figures = &self.figures;
        Queueing {
            mean: time(figures.queue_delay_mean_ms),
            p95: time(figures.queue_delay_p95_ms),
            p99: time(figures.queue_delay_p99_ms),
            max: time(figures.queue_delay_max_ms),
        }
    }

    /// Packets dropped by the queue, by random loss or by damage.
    pub const fn drops(&self) -> u64 {
        self.figures.drops
    }

    /// Packets that the queue has marked CE.
    pub const fn marks(&self) -> u64 {
        self.figures.marks
    }

    /// Bits that it has carried over those that it could have, 0 to 1.
    pub const fn utilization(&self) -> f64 {
        self.figures.utilization
    }

    /// Bytes that have left, with the link's overhead.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Mean rate since the start, bit/s.
    pub fn throughput(&self) -> f64 {
        if self.until == Time::ZERO { 0.0 } else { self.bytes as f64 * 8.0 / self.until.as_secs_f64() }
    }
}

impl Queueing {
    /// The mean.
    pub const fn mean(&self) -> Time {
        self.mean
    }

    /// The 95th percentile, to a thousandth.
    pub const fn p95(&self) -> Time {
        self.p95
    }

    /// The 99th percentile, to a thousandth.
    pub const fn p99(&self) -> Time {
        self.p99
    }

    /// The longest.
    pub const fn max(&self) -> Time {
        self.max
    }
}

fn time(ms: Option<f64>) -> Time {
    ms.map_or(Time::ZERO, |ms| Time::from_nanos(truncated((ms * 1e6).round())))
}
