//! Rows of time series and figures, in the simulator's form. What only the kernel knows (window, smoothed RTT, pacing
//! rate, state) is left out here: NaN in rows, none in figures.

use crate::late::LateFigures;
use crate::network::Network;
use knee_core::Time;
use knee_sim::events::Event;
use knee_sim::observe::{FlowCounts, Rows, Spread};
use knee_sim::output::Output;
use serde::Serialize;

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

impl Network {
    /// Does what is due at a time known from the start, or at the end of an interval.
    pub(crate) fn on_agenda(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Change(i) => self.change(self.changes[i as usize].what),
            Event::Measure(i) => {
                let counts = self.counts(i as usize, now);
                self.record.begin_figures(i as usize, counts);
                self.flows[i as usize].watched = true;
            }
            Event::Stop(i) => self.end_figures(i as usize, now),
            Event::MeasureLinks => {
                let counts = (0..self.books.len()).map(|i| self.counts(i, now));
                let delivered = counts.map(|counts| (counts.acked_bytes, counts.received_bytes)).collect();
                self.record.begin_window(now, &mut self.paths.links, delivered);
            }
            Event::CommonStart => {
                let received = self.received_bytes();
                self.record.begin_common(now, |i| received[i]);
            }
            Event::CommonEnd => self.end_common(now),
            Event::Sample => {
                self.sample();
                self.agenda.push(now + self.interval, Event::Sample);
            }
            // What packets and endpoints do is not on the agenda.
            _ => {}
        }
    }

    fn counts(&self, i: usize, at: Time) -> FlowCounts {
        let (book, overhead) = (&self.books[i], self.flows[i].overhead);
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

    fn received_bytes(&self) -> Vec<u64> {
        (0..self.books.len()).map(|i| self.counts(i, self.now).received_bytes).collect()
    }

    /// Takes an RTT sample of a flow.
    pub(crate) fn book_rtt(&mut self, i: usize, rtt: Time) {
        let (flow, mut one) = (&mut self.flows[i], Spread::EMPTY);
        one.add(rtt);
        self.record.add_rtts(i, &one);
        if flow.watched {
            flow.rtts.count(rtt);
            flow.rtts.fold(&one);
        }
    }

    fn end_figures(&mut self, i: usize, at: Time) {
        let counts = self.counts(i, at);
        self.record.end_figures(i, counts);
        self.flows[i].watched = false;
    }

    /// After an ACK: whether all of a finite transfer has arrived.
    pub(crate) fn complete(&mut self, i: usize, at: Time) {
        if self.flows[i].bytes == Some(self.books[i].acked_bytes) && self.record.complete(i, at) {
            self.end_figures(i, at);
            self.end_common(at);
        }
    }

    fn end_common(&mut self, at: Time) {
        let received = self.received_bytes();
        self.record.end_common(at, |i| received[i]);
    }

    /// Ends an interval.
    fn sample(&mut self) {
        let now = self.now;
        let Some(interval) = self.record.end_interval(now) else { return };
        for i in (0..self.books.len()).filter(|i| self.record.start(*i) < now).collect::<Vec<_>>() {
            let counts = self.counts(i, now);
            let row = self.record.row(i, interval, &counts);
            self.record.rows.sample(row);
        }
        for i in 0..self.paths.links.len() {
            self.paths.links[i].observe(now);
            self.book_news(i);
            let row = self.paths.links[i].row(i as u32, now, now);
            self.record.rows.links.push(row);
        }
    }

    /// The end of the run: the last interval, all figures, and the rows as bytes.
    pub fn finish(mut self, end: Time, outcome: Outcome) -> (Told, Vec<u8>) {
        self.now = end;
        self.sample();
        self.end_common(end);
        let counts: Vec<FlowCounts> = (0..self.books.len()).map(|i| self.counts(i, end)).collect();
        let flows = counts.into_iter().zip(self.flows.iter().map(|flow| &flow.rtts));
        let mut output = self.record.output(end, end, &mut self.paths.links, flows);
        output.flows.iter_mut().for_each(|figures| figures.cwnd_mean_packets = None);
        let Rows { samples, links, events, .. } = &self.record.rows;
        let rows = [samples.len(), links.len(), events.len()];
        let mut bytes: Vec<u8> = bytemuck::cast_slice(samples).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(links));
        bytes.extend_from_slice(bytemuck::cast_slice(events));
        (Told { output, outcome, strays: self.strays, rows }, bytes)
    }
}
