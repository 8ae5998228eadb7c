//! Taking figures: at the end of each interval, where a window of measurement begins or ends, and at the end.

use super::quic::SenderFigures;
use super::world::World;
use crate::events::Event;
use crate::observe::{FlowCounts, FlowWatch, Rows, Spread, no_figures};
use crate::output::{Output, SampleRow};
use knee_cc::CaState;
use knee_core::cache::fetch;
use knee_core::{Packet, Time};
use knee_queue::Note;

/// Flows whose state is fetched before it is sampled.
const FLOWS_AHEAD: usize = 4;
/// Flows whose packets were dropped are fetched so many drops before their turn.
const DROPS_AHEAD: usize = 8;

/// An interval of the time series that has ended.
pub(super) struct Sampling {
    /// When, in seconds.
    t_s: f64,
    /// Its length in seconds.
    span: f64,
}

impl World {
    fn counts(&mut self, i: usize) -> FlowCounts {
        let sender = self.sender_figures(i);
        self.counts_of(i, &sender)
    }

    fn counts_of(&self, i: usize, sender: &SenderFigures) -> FlowCounts {
        let received_bytes = self.received_bytes(i);
        let receiver = &self.receivers[i];
        let overhead = u64::from(self.flows[i].overhead);
        let counters = &sender.counters;
        FlowCounts {
            at: self.now,
            acked_bytes: counters.acked_bytes,
            new_bytes: sender.new_bytes,
            outstanding: sender.outstanding,
            sent_bytes: counters.sent_bytes + overhead * counters.sent,
            received_bytes,
            received: receiver.packets,
            queued_units: receiver.queued_units,
            sent: counters.sent,
            lost: counters.lost,
            retransmitted: counters.retransmitted,
            timeouts: counters.timeouts,
            cwnd_integral: sender.cwnd_integral,
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

    fn measure_links(&mut self) {
        self.network.links.iter_mut().for_each(|link| link.measure(self.now));
        self.window_from = Some(self.now);
        if self.warmup > Time::ZERO {
            self.before_window = (0..self.flows.len()).map(|i| self.delivered(i)).collect();
        }
    }

    /// Payload acknowledged and bytes received since the start.
    fn delivered(&mut self, i: usize) -> (u64, u64) {
        (self.sender_figures(i).counters.acked_bytes, self.received_bytes(i))
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
        if !self.in_common_window() {
            return;
        }
        self.common.until = Some(self.now);
        for i in 0..self.flows.len() {
            self.flows[i].common = self.received_bytes(i) - self.flows[i].common;
        }
    }

    /// Takes the sample of an interval that ends now.
    pub(super) fn sample(&mut self) {
        let Some(sampling) = self.begin_sample() else { return };
        for i in 0..self.flows.len() {
            if self.prefetches && i + FLOWS_AHEAD < self.flows.len() {
                self.senders[i + FLOWS_AHEAD].fetch();
                fetch(&self.receivers[i + FLOWS_AHEAD]);
                fetch(&self.flows[i + FLOWS_AHEAD]);
            }
            self.sample_flow(i, &sampling);
        }
        self.sample_links();
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
        let sender = self.sender_figures(i);
        let counts = self.counts_of(i, &sender);
        self.fold_rtt(i);
        let row = self.sample_row(i, sampling, &sender, &counts);
        self.rows.sample(row);
        let flow = &mut self.flows[i];
        flow.last = counts.rates();
        flow.rtt_folded = Spread::EMPTY;
    }

    pub(super) fn sample_links(&mut self) {
        let last = self.last_before(self.now);
        for i in 0..self.network.links.len() as u32 {
            self.network.links[i as usize].observe(self.now);
            self.book_news(i);
            let row = self.network.links[i as usize].row(i, self.now, last);
            self.rows.links.push(row);
        }
    }

    fn sample_row(&self, i: usize, sampling: &Sampling, sender: &SenderFigures, counts: &FlowCounts) -> SampleRow {
        let &Sampling { t_s, span } = sampling;
        let flow = &self.flows[i];
        let last = &flow.last;
        let mbps = |bytes: u64| (bytes as f64 * 8.0 / span / 1e6) as f32;
        let (rtt_mean_ms, rtt_min_ms, rtt_max_ms) = flow.rtt_folded.mean_min_max_ms();
        let srtt = sender.srtt;
        let ca = match sender.ca {
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
            state: u32::from(sender.phase) | ca << 8 | full_control << 16,
            goodput_mbps: mbps(counts.acked_bytes - last.acked_bytes),
            throughput_mbps: mbps(counts.received_bytes - last.received_bytes),
            sending_rate_mbps: mbps(counts.sent_bytes - last.sent_bytes),
            rtt_mean_ms,
            rtt_min_ms,
            rtt_max_ms,
            srtt_ms: if srtt == Time::ZERO { f32::NAN } else { srtt.as_millis_f64() as f32 },
            cwnd_packets: sender.cwnd as f32,
            in_flight_packets: sender.in_flight as f32,
            pacing_rate_mbps: sender.pacing_rate_bps.map_or(f32::NAN, |bps| (bps as f64 / 1e6) as f32),
            lost_packets: (counts.lost - last.lost) as u32,
            retransmitted_packets: (counts.retransmitted - last.retransmitted) as u32,
        }
    }

    /// What leaves a link at the very end is no longer part of the run.
    pub(super) fn last_before(&self, until: Time) -> Time {
        if until == self.end { until - Time::from_nanos(1) } else { until }
    }

    /// Puts on record what happens now.
    pub(super) fn record(&mut self, flow: Option<u32>, link: Option<u32>, event: &str, value: f64) {
        self.rows.record(self.now, flow, link, event, value);
    }

    /// Books what a link has dropped and its queue has noted.
    #[inline]
    pub(super) fn book_news(&mut self, link: u32) {
        if self.network.links[link as usize].outcome.has_news() {
            self.book_all_news(link);
        }
    }

    #[cold]
    fn book_all_news(&mut self, link: u32) {
        let outcome = &mut self.network.links[link as usize].outcome;
        let mut dropped = std::mem::take(&mut outcome.dropped);
        let mut notes = std::mem::take(&mut outcome.notes).into_iter().peekable();
        for (k, packet) in dropped.iter().enumerate() {
            if let Some(later) = dropped.get(k + DROPS_AHEAD) {
                fetch(&self.flows[later.flow as usize].dropped);
            }
            while let Some(note) = notes.next_if(|note| note.at < packet.enqueued) {
                self.book_note(link, &note);
            }
            self.book_drop(link, packet);
        }
        for note in notes {
            self.book_note(link, &note);
        }
        dropped.clear();
        self.network.links[link as usize].outcome.dropped = dropped;
    }

    fn book_note(&mut self, link: u32, note: &Note) {
        self.rows.record(note.at, note.flow, Some(link), note.event, note.value);
    }

    fn book_drop(&mut self, link: u32, packet: &Packet) {
        if self.quic_flow(packet.flow).is_some() {
            self.drop_datagram(packet);
            self.flows[packet.flow as usize].dropped += u64::from(!packet.has(Packet::ACK));
        } else if packet.has(Packet::ACK) {
            self.sacks.release(packet.extra);
        } else if !packet.has(Packet::SYN) {
            self.flows[packet.flow as usize].dropped += 1;
        }
        if let Some(over) = self.network.links[link as usize].book_drop(packet) {
            self.rows.record_drops(link, &over);
        }
    }

    /// Something that concerns the whole run is due now.
    pub(super) fn on_agenda(&mut self, event: Event) {
        match event {
            Event::Change(i) => {
                let what = self.changes[i as usize].what;
                let (flow, link, name, value) = self.network.change(what, self.now);
                if let Some(link) = link {
                    self.book_news(link);
                }
                self.record(flow, link, name, value);
            }
            Event::Sample => self.sample(),
            Event::Measure(i) => self.measure(i),
            Event::MeasureLinks => self.measure_links(),
            Event::Stop(i) => {
                self.end_figures(i);
                match self.quic_flow(i) {
                    Some(flow) => flow.stop(),
                    None => self.senders[i as usize].stop(),
                }
            }
            Event::CommonStart => self.common_start(),
            Event::CommonEnd => self.common_end(),
            _ => {}
        }
    }

    /// What ends with a transfer that is complete now: its figures, and the window in which all flows run.
    pub(super) fn end_transfer(&mut self, i: u32) {
        self.end_figures(i);
        self.common_end();
    }

    /// Whether the window in which all flows run would end now.
    pub(super) const fn in_common_window(&self) -> bool {
        self.common.from.is_some() && self.common.until.is_none()
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
        for i in 0..self.network.links.len() {
            if let Some(drops) = self.network.links[i].last_drops() {
                self.rows.record_drops(i as u32, &drops);
            }
        }
        let event_names = self.rows.sort_events();
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
        let last = self.last_before(self.now);
        let links = self.network.links.iter().map(|link| link.figures(last)).collect();
        let output = Output {
            packets: self.receivers.iter().map(|r| r.packets).sum(),
            flows,
            links,
            window_s: self.window_from.map(|from| (from.as_secs_f64(), self.now.as_secs_f64())),
            common_window_s: window.map(|(from, until)| (from.as_secs_f64(), until.as_secs_f64())),
            event_names,
        };
        self.rows.finish()?;
        Ok((output, self.rows))
    }
}
