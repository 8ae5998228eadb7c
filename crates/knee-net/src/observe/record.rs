//! The record of a run: rows at the end of each interval, and figures of windows of it.

use super::{FlowCounts, FlowWatch, Histogram, Rows, Spread, no_figures, since};
use crate::network::Direction;
use crate::output::{Output, SampleRow};
use crate::spec::{FlowSpec, Spec};
use knee_core::Time;
use knee_core::convert::{nearest_f32, saturating_u32};

/// The record of a flow, apart from the RTTs in its figures.
#[derive(Clone)]
pub struct FlowRecord {
    start: Time,
    /// RTTs of the interval.
    rtt: Spread,
    last: FlowCounts,
    watch: Option<Box<FlowWatch>>,
    completion: Option<Time>,
    /// True if its figures have ended, or can no longer begin.
    over: bool,
    /// Bytes received: when the window in which all flows run began, and, once it has ended, within it.
    common: u64,
}

impl FlowRecord {
    /// When the flow starts.
    pub const fn start(&self) -> Time {
        self.start
    }

    /// The row of flow `i`, whose record this is, at the end of an interval, with these counts and the RTTs since they
    /// were last added; without what only its sender knows.
    pub fn row(&mut self, i: u32, interval: Interval, counts: &FlowCounts, rtts: &Spread) -> SampleRow {
        let last = std::mem::replace(&mut self.last, *counts);
        self.rtt.merge(rtts);
        let mbps = |bytes: u64| nearest_f32(bytes as f64 * 8.0 / interval.span / 1e6);
        let (rtt_mean_ms, rtt_min_ms, rtt_max_ms) = std::mem::take(&mut self.rtt).mean_min_max_ms();
        SampleRow {
            t_s: interval.t_s,
            flow: i,
            state: 0,
            goodput_mbps: mbps(since(counts.delivered_bytes, last.delivered_bytes)),
            throughput_mbps: mbps(since(counts.received_bytes, last.received_bytes)),
            sending_rate_mbps: mbps(since(counts.sent_bytes, last.sent_bytes)),
            rtt_mean_ms,
            rtt_min_ms,
            rtt_max_ms,
            srtt_ms: f32::NAN,
            cwnd_packets: f32::NAN,
            in_flight_packets: f32::NAN,
            pacing_rate_mbps: f32::NAN,
            lost_packets: saturating_u32(since(counts.lost, last.lost)),
            retransmitted_packets: saturating_u32(since(counts.retransmitted, last.retransmitted)),
        }
    }
}

/// The record of a run.
pub struct Record {
    flows: Vec<FlowRecord>,
    /// The rows so far.
    pub rows: Rows,
    sampled_at: Time,
    /// When the window of totals and of the links' figures began, and what each flow had delivered and received then.
    window: Option<(Time, Vec<(u64, u64)>)>,
    /// Beginning and end of the window in which all flows run.
    common: (Option<Time>, Option<Time>),
}

/// An interval of the time series that has ended.
#[derive(Clone, Copy)]
pub struct Interval {
    /// When, in seconds.
    t_s: f64,
    /// Its length in seconds.
    span: f64,
}

impl Record {
    /// The empty record of a specification.
    pub fn new(spec: &Spec) -> Self {
        let flow = |flow: &FlowSpec| FlowRecord {
            start: Time::from_nanos(flow.start),
            rtt: Spread::EMPTY,
            last: FlowCounts::default(),
            watch: None,
            completion: None,
            over: false,
            common: 0,
        };
        Self {
            flows: spec.flows.iter().map(flow).collect(),
            rows: Rows::default(),
            sampled_at: Time::ZERO,
            window: None,
            common: (None, None),
        }
    }

    /// A copy of the record; none if rows have been spooled.
    pub fn copied(&self) -> Option<Self> {
        let Self { flows, rows, sampled_at, window, common } = self;
        let (sampled_at, common) = (*sampled_at, *common);
        Some(Self { flows: flows.clone(), rows: rows.copied()?, sampled_at, window: window.clone(), common })
    }

    /// When a flow starts.
    pub fn start(&self, i: usize) -> Time {
        self.flows[i].start
    }

    /// Returns true if a flow has stopped or is complete.
    pub fn is_over(&self, i: usize) -> bool {
        self.flows[i].over
    }

    /// Records of flows.
    pub fn flows(&mut self) -> &mut [FlowRecord] {
        &mut self.flows
    }

    /// Adds RTTs of a flow in this interval.
    pub fn add_rtts(&mut self, i: usize, rtts: &Spread) {
        self.flows[i].rtt.merge(rtts);
    }

    /// The figures of a flow begin; false: it has stopped or is complete, so that it has none.
    pub fn begin_figures(&mut self, i: usize, counts: FlowCounts) -> bool {
        if !self.flows[i].over {
            self.flows[i].watch = Some(Box::new(FlowWatch::new(counts)));
        }
        !self.flows[i].over
    }

    /// The figures of a flow end, unless they have.
    pub fn end_figures(&mut self, i: usize, counts: FlowCounts) {
        self.flows[i].over = true;
        if let Some(watch) = &mut self.flows[i].watch {
            watch.until.get_or_insert_with(|| Box::new(counts));
        }
    }

    /// The transfer of a flow is complete; false: it has been before.
    pub fn complete(&mut self, i: usize, now: Time) -> bool {
        let flow = &mut self.flows[i];
        let first = flow.completion.is_none();
        flow.completion.get_or_insert(now.saturating_sub(flow.start));
        first
    }

    /// The window of totals and of the links' figures begins, where each flow has delivered and received so much.
    pub fn begin_window(&mut self, now: Time, links: &mut [Direction], delivered: Vec<(u64, u64)>) {
        for link in links {
            link.measure(now);
        }
        self.window = Some((now, delivered));
    }

    /// The window in which all flows run begins, where `received` gives the bytes that each has received.
    pub fn begin_common(&mut self, now: Time, received: impl Fn(usize) -> u64) {
        if self.flows.iter().any(|flow| flow.completion.is_some()) {
            return;
        }
        self.common.0 = Some(now);
        for (i, flow) in self.flows.iter_mut().enumerate() {
            flow.common = received(i);
        }
    }

    /// It ends, if it has begun and not ended.
    pub fn end_common(&mut self, now: Time, received: impl Fn(usize) -> u64) {
        if !self.in_common() {
            return;
        }
        self.common.1 = Some(now);
        for (i, flow) in self.flows.iter_mut().enumerate() {
            flow.common = since(received(i), flow.common);
        }
    }

    /// Returns true if it has begun and not ended.
    pub const fn in_common(&self) -> bool {
        self.common.0.is_some() && self.common.1.is_none()
    }

    /// An interval of the time series ends now. `None` if it has no length.
    pub fn end_interval(&mut self, now: Time) -> Option<Interval> {
        let span = (now - std::mem::replace(&mut self.sampled_at, now)).as_secs_f64();
        (span > 0.0).then_some(Interval { t_s: now.as_secs_f64(), span })
    }

    /// All figures of the run that ends now; what leaves `links` after `last` is no part of it. Of each flow the counts
    /// and the RTTs of its figures are given.
    pub fn output<'a>(
        &mut self,
        now: Time,
        last: Time,
        links: &mut [Direction],
        flows: impl Iterator<Item = (FlowCounts, &'a Histogram)>,
    ) -> Output {
        for (i, link) in (0..).zip(&mut *links) {
            if let Some(drops) = link.last_drops() {
                self.rows.record_drops(i, &drops);
            }
        }
        let common = self.common.0.zip(self.common.1).filter(|(from, until)| from < until);
        let mut packets = 0;
        let flows = flows.enumerate().map(|(i, (counts, rtts))| {
            let flow = &self.flows[i];
            let watch = flow.watch.as_ref();
            let mut figures = watch
                .map_or_else(|| no_figures(flow.completion), |watch| watch.figures(&counts, rtts, flow.completion));
            figures.common_throughput_mbps =
                common.map(|(from, until)| flow.common as f64 * 8.0 / (until - from).as_secs_f64() / 1e6);
            let (delivered, received) = self.window.as_ref().map_or((0, 0), |(_, before)| before[i]);
            figures.delivered_bytes = since(counts.delivered_bytes, delivered);
            figures.received_bytes = since(counts.received_bytes, received);
            packets += counts.received;
            figures
        });
        let seconds = |(from, until): (Time, Time)| (from.as_secs_f64(), until.as_secs_f64());
        Output {
            flows: flows.collect(),
            packets,
            links: links.iter().map(|link| link.figures(last)).collect(),
            window_s: self.window.as_ref().map(|(from, _)| seconds((*from, now))),
            common_window_s: common.map(seconds),
            event_names: self.rows.sort_events(),
        }
    }
}
