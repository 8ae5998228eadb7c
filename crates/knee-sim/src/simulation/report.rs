//! Taking figures: at the end of each interval, where a window of measurement begins or ends, and at the end.

use super::Simulation;
use crate::events::Event;
use crate::observe::{FlowCounts, FlowWatch, LinkCounts, Rows, Spread, no_figures};
use crate::output::{EventRow, Output, SampleRow};
use knee_cc::CaState;
use knee_core::Time;
use knee_core::cache::fetch;

/// Flows whose state is fetched before it is sampled.
const AHEAD: usize = 4;

/// An interval of the time series that has ended.
pub(super) struct Sampling {
    /// When, in seconds.
    t_s: f64,
    /// Its length in seconds.
    span: f64,
}

impl Simulation {
    fn counts(&mut self, i: usize) -> FlowCounts {
        let sender = &mut self.senders[i];
        if sender.established() {
            sender.note_cwnd(self.now);
        }
        let received_bytes = self.received_bytes(i);
        let (sender, receiver) = (&self.senders[i], &self.receivers[i]);
        let overhead = u64::from(self.flows[i].overhead);
        let counters = sender.counters();
        FlowCounts {
            at: self.now,
            acked_bytes: counters.acked_bytes,
            new_bytes: sender.new_bytes(),
            outstanding: sender.snd_nxt() - sender.snd_una(),
            sent_bytes: counters.sent_bytes + overhead * counters.sent,
            received_bytes,
            received: receiver.packets,
            queued_units: receiver.queued_units,
            sent: counters.sent,
            lost: counters.lost,
            retransmitted: counters.retransmitted,
            timeouts: counters.timeouts,
            cwnd_integral: sender.cwnd_integral.0,
        }
    }

    /// Bytes received, with the overhead of the first link.
    fn received_bytes(&self, i: usize) -> u64 {
        let receiver = &self.receivers[i];
        receiver.bytes + u64::from(self.flows[i].overhead) * receiver.packets
    }

    pub(super) fn measure(&mut self, i: u32) {
        let counts = self.counts(i as usize);
        let flow = &mut self.flows[i as usize];
        flow.rtt_folded = flow.rtt.take();
        flow.watch = Some(Box::new(FlowWatch::new(counts)));
        flow.watched = true;
    }

    pub(super) fn end_figures(&mut self, i: u32) {
        let counts = self.counts(i as usize);
        self.fold_rtt(i as usize);
        let flow = &mut self.flows[i as usize];
        flow.watched = false;
        if let Some(watch) = &mut flow.watch {
            watch.until.get_or_insert_with(|| Box::new(counts));
        }
    }

    /// Folds the interval's RTT samples, and adds them to the figures, if those are being taken.
    fn fold_rtt(&mut self, i: usize) {
        let flow = &mut self.flows[i];
        let spread = flow.rtt.take();
        if flow.watched {
            flow.rtt_histogram.fold(&spread);
        }
        flow.rtt_folded.merge(&spread);
    }

    pub(super) fn measure_links(&mut self) {
        for i in 0..self.links.len() {
            let counts = self.link_counts(i);
            self.links[i].watch.begin(counts);
        }
        self.window_from = Some(self.now);
        if self.warmup > Time::ZERO {
            self.before_window = (0..self.flows.len()).map(|i| self.delivered(i)).collect();
        }
    }

    /// Payload acknowledged and bytes received since the start.
    fn delivered(&self, i: usize) -> (u64, u64) {
        (self.senders[i].acked_bytes(), self.received_bytes(i))
    }

    /// What link `i` did up to now.
    fn link_counts(&self, i: usize) -> LinkCounts {
        let epochs = self.epochs.as_ref().filter(|epochs| epochs.link as usize == i);
        let ahead = epochs.and_then(|epochs| epochs.gone.left.get(epochs.booked));
        self.links[i].counts(self.last_before(self.now), ahead)
    }

    pub(super) fn common_start(&mut self) {
        if self.flows.iter().any(|f| f.completion.is_some()) {
            return;
        }
        self.common.from = Some(self.now);
        for i in 0..self.flows.len() {
            self.flows[i].common = self.received_bytes(i);
        }
    }

    pub(super) fn common_end(&mut self) {
        if self.common.from.is_none() || self.common.until.is_some() {
            return;
        }
        self.common.until = Some(self.now);
        for i in 0..self.flows.len() {
            self.flows[i].common = self.received_bytes(i) - self.flows[i].common;
        }
    }

    pub(super) fn on_sample(&mut self) {
        self.sample();
        self.events.push(self.now + self.interval, Event::Sample);
    }

    /// Takes the sample of an interval that ends now.
    pub(super) fn sample(&mut self) {
        let Some(sampling) = self.begin_sample() else { return };
        for i in 0..self.flows.len() {
            if self.fetches && i + AHEAD < self.flows.len() {
                self.senders[i + AHEAD].fetch();
                fetch(&self.receivers[i + AHEAD]);
                fetch(&self.flows[i + AHEAD]);
            }
            self.sample_flow(i, &sampling);
        }
        self.sample_links(&sampling);
    }

    /// An interval ends now: of each flow in turn, then of the links, the sample has to be taken. None: it has no length.
    pub(super) fn begin_sample(&mut self) -> Option<Sampling> {
        let span = (self.now - self.sampled_at).as_secs_f64();
        self.sampled_at = self.now;
        (span > 0.0).then(|| Sampling { t_s: self.now.as_secs_f64(), span })
    }

    pub(super) fn sample_flow(&mut self, i: usize, sampling: &Sampling) {
        if self.flows[i].start >= self.now {
            return;
        }
        let counts = self.counts(i);
        self.fold_rtt(i);
        let row = self.sample_row(i, sampling, &counts);
        self.rows.sample(row);
        let flow = &mut self.flows[i];
        flow.last = counts.rates();
        flow.rtt_folded = Spread::EMPTY;
    }

    pub(super) fn sample_links(&mut self, sampling: &Sampling) {
        for i in 0..self.links.len() {
            self.sample_link(i, sampling.t_s);
        }
    }

    fn sample_row(&self, i: usize, sampling: &Sampling, counts: &FlowCounts) -> SampleRow {
        let &Sampling { t_s, span } = sampling;
        let (sender, flow) = (&self.senders[i], &self.flows[i]);
        let last = &flow.last;
        let mbps = |bytes: u64| (bytes as f64 * 8.0 / span / 1e6) as f32;
        let (rtt_mean_ms, rtt_min_ms, rtt_max_ms) = flow.rtt_folded.mean_min_max_ms();
        let srtt = sender.srtt();
        let ca = match sender.state() {
            CaState::Open => 0,
            CaState::Disorder => 1,
            CaState::Cwr => 2,
            CaState::Recovery => 3,
            CaState::Loss => 4,
        };
        let full_control = u32::from(self.algorithms[flow.algorithm as usize].entry.needs.full_control);
        SampleRow {
            t_s,
            flow: i as u32,
            state: u32::from(sender.control.phase) | ca << 8 | full_control << 16,
            goodput_mbps: mbps(counts.acked_bytes - last.acked_bytes),
            throughput_mbps: mbps(counts.received_bytes - last.received_bytes),
            sending_rate_mbps: mbps(counts.sent_bytes - last.sent_bytes),
            rtt_mean_ms,
            rtt_min_ms,
            rtt_max_ms,
            srtt_ms: if srtt == Time::ZERO { f32::NAN } else { srtt.as_millis_f64() as f32 },
            cwnd_packets: sender.control.cwnd as f32,
            in_flight_packets: sender.in_flight() as f32,
            pacing_rate_mbps: sender.pacing_rate().map_or(f32::NAN, |r| (r.as_bps() as f64 / 1e6) as f32),
            lost_packets: (counts.lost - last.lost) as u32,
            retransmitted_packets: (counts.retransmitted - last.retransmitted) as u32,
        }
    }

    fn sample_link(&mut self, i: usize, t_s: f64) {
        let link = &mut self.links[i];
        link.cx.now = self.now;
        link.queue.observe(&mut link.cx);
        self.collect(i as u32);
        let last = self.last_before(self.now);
        let counts = self.link_counts(i);
        let link = &mut self.links[i];
        let backlog = link.backlog(last);
        self.rows.links.push(link.watch.row(i as u32, t_s, counts, backlog));
    }

    pub(super) fn event_name(&mut self, name: &str) -> u32 {
        if let Some(i) = self.event_names.iter().position(|n| n == name) {
            return i as u32;
        }
        self.event_names.push(name.to_owned());
        self.event_names.len() as u32 - 1
    }

    pub(super) fn record(&mut self, flow: Option<u32>, link: Option<u32>, event: &str, value: f64) {
        let event = self.event_name(event);
        let index = |i: Option<u32>| i.map_or(-1, |i| i as i32);
        let row =
            EventRow { t_s: self.now.as_secs_f64(), value, flow: index(flow), link: index(link), event, reserved: 0 };
        self.rows.event(row);
    }

    pub(super) fn reach_end(&mut self) {
        self.now = self.end;
        self.finished = true;
        self.sample();
        self.common_end();
    }

    /// The figures and the rows.
    ///
    /// # Errors
    /// If the spool could not be written.
    pub fn finish(mut self) -> std::io::Result<(Output, Rows)> {
        for i in 0..self.links.len() {
            let drops = self.links[i].watch.dropping.take();
            self.record_drops(i as u32, drops);
        }
        self.rows.sort_events(&mut self.event_names);
        let window = self.common.from.zip(self.common.until).filter(|(from, until)| from < until);
        let mut flows = Vec::with_capacity(self.flows.len());
        for i in 0..self.flows.len() {
            let counts = self.counts(i);
            let flow = &self.flows[i];
            let mut figures = flow
                .watch
                .as_ref()
                .map_or_else(no_figures, |w| w.figures(&counts, &flow.rtt_histogram, flow.completion));
            figures.common_throughput_mbps =
                window.map(|(from, until)| flow.common as f64 * 8.0 / (until - from).as_secs_f64() / 1e6);
            let (acked, received) = self.delivered(i);
            let (acked_before, received_before) = self.before_window.get(i).copied().unwrap_or_default();
            figures.delivered_bytes = acked - acked_before;
            figures.received_bytes = received - received_before;
            flows.push(figures);
        }
        let links = (0..self.links.len())
            .map(|i| self.links[i].watch.figures(self.link_names[i].clone(), &self.link_counts(i)))
            .collect();
        let output = Output {
            packets: self.receivers.iter().map(|r| r.packets).sum(),
            flows,
            links,
            window_s: self.window_from.map(|from| (from.as_secs_f64(), self.now.as_secs_f64())),
            common_window_s: window.map(|(from, until)| (from.as_secs_f64(), until.as_secs_f64())),
            event_names: self.event_names,
        };
        self.rows.finish()?;
        Ok((output, self.rows))
    }
}
