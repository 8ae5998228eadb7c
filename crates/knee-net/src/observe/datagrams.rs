//! Observes a flow's datagrams.

use super::{Histogram, Spread, since};
use crate::output::{DatagramFigures, DelayRow, SampleRow};
use knee_core::Time;
use knee_core::convert::saturating_u32;
use knee_traffic::datagrams::Reception;

/// Cumulative counts of a flow's datagrams at some moment.
#[derive(Clone, Copy, Default)]
pub struct DatagramCounts {
    /// Datagrams sent.
    pub sent: u64,
    /// Echoes that came back.
    pub echoed: u64,
    /// Datagrams that arrived marked CE.
    pub marked: u64,
    /// Datagrams that were dropped, and of which later ones have arrived.
    pub lost: u64,
    /// Datagrams that arrived, and their jitter.
    pub reception: Reception,
}

/// Delays of a flow's datagrams within the window.
#[derive(Clone)]
pub struct DatagramWatch {
    /// One-way delays of the interval, since they were last folded, and those before in the interval.
    delay: Spread,
    before: Spread,
    /// Delays since the figures began.
    pub delays: Histogram,
    /// Counts when the figures began. `None` if they have not.
    from: Option<DatagramCounts>,
    /// Counts at the end of the last interval.
    last: DatagramCounts,
}

impl DatagramWatch {
    /// Nothing has been seen yet; the histogram has `2^bits` buckets per octave.
    pub fn new(bits: u8) -> Self {
        let zero = DatagramCounts::default();
        let (delay, before) = (Spread::EMPTY, Spread::EMPTY);
        Self { delay, before, delays: Histogram::new(bits), from: None, last: zero }
    }

    /// Takes the one-way delay of a datagram; `in_figures`: it arrived in the figures' window.
    pub fn book(&mut self, delay: Time, in_figures: bool) {
        self.delay.add(delay);
        if in_figures {
            self.delays.count(delay);
        }
    }

    /// Folds the delays of the interval; `in_figures`: they belong to the figures too.
    pub fn fold(&mut self, in_figures: bool) {
        let spread = std::mem::take(&mut self.delay);
        if in_figures {
            self.delays.fold(&spread);
        }
        self.before.merge(&spread);
    }

    /// The figures begin.
    pub const fn begin(&mut self, counts: DatagramCounts) {
        self.from = Some(counts);
    }

    /// The row of an interval whose end `sample` describes.
    pub fn row(&mut self, counts: DatagramCounts, sample: &SampleRow) -> DelayRow {
        let last = std::mem::replace(&mut self.last, counts);
        let (owd_mean_ms, _, owd_max_ms) = std::mem::take(&mut self.before).mean_min_max_ms();
        DelayRow {
            t_s: sample.t_s,
            flow: sample.flow,
            sent: saturating_u32(since(counts.sent, last.sent)),
            received: saturating_u32(since(counts.reception.received(), last.reception.received())),
            lost: saturating_u32(since(counts.lost, last.lost)),
            owd_mean_ms,
            owd_max_ms,
            rtt_mean_ms: sample.rtt_mean_ms,
            rtt_max_ms: sample.rtt_max_ms,
        }
    }

    /// The figures, where these are the counts at the end of the run.
    pub fn figures(&self, until: &DatagramCounts, echoes: bool) -> DatagramFigures {
        let from = self.from.as_ref().unwrap_or(until);
        let delays = &self.delays;
        DatagramFigures {
            sent: since(until.sent, from.sent),
            received: since(until.reception.received(), from.reception.received()),
            lost: since(until.lost, from.lost),
            marked: since(until.marked, from.marked),
            echoed: echoes.then(|| since(until.echoed, from.echoed)),
            owd_mean_ms: delays.mean_ms(),
            owd_min_ms: delays.min_ms(),
            owd_p50_ms: delays.quantile_ms(0.5),
            owd_p95_ms: delays.quantile_ms(0.95),
            owd_p99_ms: delays.quantile_ms(0.99),
            owd_max_ms: delays.max_ms(),
            jitter_ms: until.reception.jitter().map(Time::as_millis_f64),
            jitter_mean_ms: until.reception.mean_jitter_since(&from.reception).map(Time::as_millis_f64),
        }
    }
}
