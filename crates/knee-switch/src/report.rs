//! Rows of time series and figures, in the simulator's form. What only the kernel knows (window, smoothed RTT, pacing
//! rate, state) is left out here: NaN in rows, none in figures.

use crate::late::LateFigures;
use crate::network::Network;
use knee_core::Time;
use knee_sim::observe::{Drops, FlowCounts, FlowRates, FlowWatch, Histogram, Rows, Spread, no_figures};
use knee_sim::output::{Output, SampleRow};
use knee_sim::spec::{Change, Spec};
use serde::Serialize;
use std::collections::VecDeque;

/// What happens at a time known from the start.
#[derive(Clone, Copy)]
enum Step {
    Change(Change),
    Measure(usize),
    Stop(usize),
    MeasureLinks,
    CommonStart,
    CommonEnd,
}

/// What is recorded of a flow.
struct Flow {
    start: Time,
    bytes: Option<u64>,
    /// Bytes that each packet counts beside its own on the first link.
    overhead: u64,
    /// RTT samples of the interval.
    rtt: Spread,
    histogram: Histogram,
    watched: bool,
    watch: Option<FlowWatch>,
    last: FlowRates,
    completion: Option<Time>,
    common: (u64, u64),
}

/// Everything that is recorded.
pub struct Figures {
    flows: Vec<Flow>,
    plan: VecDeque<(Time, Step)>,
    interval: Time,
    next_sample: Time,
    sampled_at: Time,
    common: (Option<Time>, Option<Time>),
    /// When the window of totals and of the links' figures began, and what each flow had delivered and received then.
    window: Option<(Time, Vec<(u64, u64)>)>,
    rows: Rows,
}

/// How the machine did.
#[derive(Serialize)]
pub struct Outcome {
    /// How late packets left.
    pub late: LateFigures,
    /// Packets that a device refused.
    pub refused: u64,
    /// Processor time of the switch, s.
    pub processor_s: f64,
    /// Its turn among processes: `fifo` (before all ordinary ones), `nice` (first of them) or `ordinary`.
    pub priority: &'static str,
}

/// What a run gives beside its rows.
#[derive(Serialize)]
pub struct Told {
    /// In the form of the simulator's.
    pub output: Output,
    /// How the machine did.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Packets that belong to no flow.
    pub strays: u64,
    /// Rows that follow: samples, links, events.
    pub rows: [usize; 3],
}

impl Figures {
    /// What is to be recorded of a specification.
    pub fn new(spec: &Spec) -> Self {
        let flow = |flow: &knee_sim::spec::FlowSpec| Flow {
            start: Time::from_nanos(flow.start),
            bytes: flow.bytes,
            overhead: u64::from(spec.links[flow.path[0]].overhead),
            rtt: Spread::EMPTY,
            histogram: Histogram::new(10),
            watched: false,
            watch: None,
            last: FlowRates::default(),
            completion: None,
            common: (0, 0),
        };
        let interval = Time::from_nanos(spec.interval);
        Self {
            flows: spec.flows.iter().map(flow).collect(),
            plan: plan(spec),
            interval,
            next_sample: interval,
            sampled_at: Time::ZERO,
            common: (None, None),
            window: None,
            rows: Rows::default(),
        }
    }

    /// When something is to be recorded or changed next.
    pub fn next(&self) -> Time {
        self.plan.front().map_or(self.next_sample, |(at, _)| self.next_sample.min(*at))
    }

    /// Records that something happened.
    pub fn record(&mut self, at: Time, flow: Option<u32>, link: Option<u32>, event: &str, value: f64) {
        self.rows.record(at, flow, link, event, value);
    }

    /// Records drops that are over, at the time when they began.
    pub fn record_drops(&mut self, link: u32, drops: &Drops) {
        self.rows.record_drops(link, drops);
    }

    /// Takes an RTT sample of a flow.
    #[inline]
    pub fn rtt(&mut self, flow: usize, rtt: Option<Time>) {
        let Some(rtt) = rtt else { return };
        let flow = &mut self.flows[flow];
        flow.rtt.add(rtt);
        if flow.watched {
            let mut one = Spread::EMPTY;
            one.add(rtt);
            flow.histogram.count(rtt);
            flow.histogram.fold(&one);
        }
    }
}

/// All that happens at times known from the start, in order.
fn plan(spec: &Spec) -> VecDeque<(Time, Step)> {
    let warmup = Time::from_nanos(spec.warmup);
    let mut plan: Vec<(Time, Step)> =
        spec.changes.iter().map(|change| (Time::from_nanos(change.at), Step::Change(change.what))).collect();
    for (i, flow) in spec.flows.iter().enumerate() {
        plan.push((Time::from_nanos(flow.start) + warmup, Step::Measure(i)));
        if flow.stop < spec.duration {
            plan.push((Time::from_nanos(flow.stop), Step::Stop(i)));
        }
    }
    let starts = spec.flows.iter().map(|flow| Time::from_nanos(flow.start) + warmup);
    let (first, last) = (starts.clone().min().unwrap_or_default(), starts.max().unwrap_or_default());
    let stop = spec.flows.iter().map(|flow| flow.stop).min().unwrap_or(spec.duration).min(spec.duration);
    plan.push((first, Step::MeasureLinks));
    if last < Time::from_nanos(stop) {
        plan.push((last, Step::CommonStart));
        plan.push((Time::from_nanos(stop), Step::CommonEnd));
    }
    plan.sort_by_key(|(at, _)| *at);
    plan.into()
}

impl Network {
    /// Does what the plan or the end of an interval asks for.
    pub(crate) fn on_figures(&mut self) {
        let step = self.figures.plan.front().copied().filter(|(at, _)| *at <= self.now);
        let Some((_, step)) = step else {
            self.sample();
            return self.figures.next_sample += self.figures.interval;
        };
        self.figures.plan.pop_front();
        match step {
            Step::Change(change) => self.change(change),
            Step::Measure(i) => self.measure(i),
            Step::Stop(i) => self.end_figures(i, self.now),
            Step::MeasureLinks => {
                let now = self.now;
                self.paths.links.iter_mut().for_each(|link| link.measure(now));
                let delivered = (0..self.books.len()).map(|i| self.counts(i, now));
                let delivered = delivered.map(|counts| (counts.acked_bytes, counts.received_bytes)).collect();
                self.figures.window = Some((now, delivered));
            }
            Step::CommonStart => self.common_start(),
            Step::CommonEnd => self.common_end(self.now),
        }
    }

    fn counts(&self, i: usize, at: Time) -> FlowCounts {
        let (book, overhead) = (&self.books[i], self.figures.flows[i].overhead);
        FlowCounts {
            at,
            acked_bytes: book.acked_bytes,
            new_bytes: book.end,
            outstanding: book.sent.saturating_sub(book.received + book.dropped),
            sent_bytes: book.sent_bytes + overhead * book.sent,
            received_bytes: book.received_bytes + overhead * book.received,
            received: book.received,
            queued_units: book.queued_units,
            sent: book.sent,
            lost: book.dropped,
            retransmitted: book.retransmitted,
            timeouts: 0,
            cwnd_integral: 0,
        }
    }

    fn measure(&mut self, i: usize) {
        let counts = self.counts(i, self.now);
        let flow = &mut self.figures.flows[i];
        flow.watch = Some(FlowWatch::new(counts));
        flow.watched = flow.completion.is_none();
    }

    fn end_figures(&mut self, i: usize, at: Time) {
        let counts = self.counts(i, at);
        let flow = &mut self.figures.flows[i];
        flow.watched = false;
        if let Some(watch) = &mut flow.watch {
            watch.until.get_or_insert_with(|| Box::new(counts));
        }
    }

    /// After an ACK: whether all of a finite transfer has arrived.
    pub(crate) fn complete(&mut self, i: usize, at: Time) {
        let flow = &mut self.figures.flows[i];
        if flow.bytes == Some(self.books[i].acked_bytes) && flow.completion.is_none() {
            flow.completion = Some(at.saturating_sub(flow.start));
            self.end_figures(i, at);
            self.common_end(at);
        }
    }

    fn common_start(&mut self) {
        if self.figures.flows.iter().any(|flow| flow.completion.is_some()) {
            return;
        }
        self.figures.common.0 = Some(self.now);
        for i in 0..self.books.len() {
            self.figures.flows[i].common.0 = self.counts(i, self.now).received_bytes;
        }
    }

    fn common_end(&mut self, at: Time) {
        if self.figures.common.0.is_none() || self.figures.common.1.is_some() {
            return;
        }
        self.figures.common.1 = Some(at);
        for i in 0..self.books.len() {
            self.figures.flows[i].common.1 = self.counts(i, at).received_bytes;
        }
    }

    /// Ends an interval.
    fn sample(&mut self) {
        let (now, span) = (self.now, (self.now - self.figures.sampled_at).as_secs_f64());
        if span == 0.0 {
            return;
        }
        self.figures.sampled_at = now;
        for i in 0..self.books.len() {
            if self.figures.flows[i].start < now {
                let counts = self.counts(i, now);
                let flow = &mut self.figures.flows[i];
                let row = sample_row(i, now.as_secs_f64(), span, &counts, flow);
                (flow.last, flow.rtt) = (counts.rates(), Spread::EMPTY);
                self.figures.rows.sample(row);
            }
        }
        for i in 0..self.paths.links.len() {
            self.paths.links[i].observe(now);
            self.book_news(i);
            let row = self.paths.links[i].row(i as u32, now, now);
            self.figures.rows.links.push(row);
        }
    }

    /// The end of the run: the last interval, all figures, and the rows as bytes.
    pub fn finish(mut self, end: Time, outcome: Outcome) -> (Told, Vec<u8>) {
        self.now = end;
        self.sample();
        self.common_end(end);
        for i in 0..self.paths.links.len() {
            if let Some(drops) = self.paths.links[i].last_drops() {
                self.figures.record_drops(i as u32, &drops);
            }
        }
        let event_names = self.figures.rows.sort_events();
        let window = self.figures.common.0.zip(self.figures.common.1).filter(|(from, until)| from < until);
        let flows = (0..self.books.len()).map(|i| {
            let (counts, flow) = (self.counts(i, end), &self.figures.flows[i]);
            let watch = flow.watch.as_ref();
            let mut figures =
                watch.map_or_else(no_figures, |watch| watch.figures(&counts, &flow.histogram, flow.completion));
            figures.cwnd_mean_packets = None;
            if let Some((_, before)) = &self.figures.window {
                figures.delivered_bytes = counts.acked_bytes - before[i].0;
                figures.received_bytes = counts.received_bytes - before[i].1;
            }
            figures.common_throughput_mbps = window
                .map(|(from, until)| (flow.common.1 - flow.common.0) as f64 * 8.0 / (until - from).as_secs_f64() / 1e6);
            figures
        });
        let output = Output {
            packets: self.books.iter().map(|book| book.received).sum(),
            flows: flows.collect(),
            links: self.paths.links.iter().map(|link| link.figures(end)).collect(),
            window_s: self.figures.window.as_ref().map(|(from, _)| (from.as_secs_f64(), end.as_secs_f64())),
            common_window_s: window.map(|(from, until)| (from.as_secs_f64(), until.as_secs_f64())),
            event_names,
        };
        let Rows { samples, links, events, .. } = &self.figures.rows;
        let rows = [samples.len(), links.len(), events.len()];
        let mut bytes: Vec<u8> = bytemuck::cast_slice(samples).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(links));
        bytes.extend_from_slice(bytemuck::cast_slice(events));
        (Told { output, outcome, strays: self.strays, rows }, bytes)
    }
}

fn sample_row(i: usize, t_s: f64, span: f64, counts: &FlowCounts, flow: &Flow) -> SampleRow {
    let last = &flow.last;
    let mbps = |bytes: u64| (bytes as f64 * 8.0 / span / 1e6) as f32;
    let (rtt_mean_ms, rtt_min_ms, rtt_max_ms) = flow.rtt.mean_min_max_ms();
    SampleRow {
        t_s,
        flow: i as u32,
        state: 0,
        goodput_mbps: mbps(counts.acked_bytes - last.acked_bytes),
        throughput_mbps: mbps(counts.received_bytes - last.received_bytes),
        sending_rate_mbps: mbps(counts.sent_bytes - last.sent_bytes),
        rtt_mean_ms,
        rtt_min_ms,
        rtt_max_ms,
        srtt_ms: f32::NAN,
        cwnd_packets: f32::NAN,
        in_flight_packets: f32::NAN,
        pacing_rate_mbps: f32::NAN,
        lost_packets: (counts.lost - last.lost) as u32,
        retransmitted_packets: (counts.retransmitted - last.retransmitted) as u32,
    }
}
