//! Rows of time series and figures, in the simulator's form. What only the kernel knows of TCP flows (window, smoothed
//! RTT, pacing rate, state) is left out here: NaN in rows, none in figures. The endpoints of QUIC flows are ours, and
//! tell.

use crate::endpoints::Effort;
use crate::late::LateFigures;
use crate::network::Network;
use knee_core::Time;
use knee_core::convert::index_u32;
use knee_net::events::Event;
use knee_net::observe::{FlowCounts, Rows, Spread};
use knee_net::output::Output;
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

/// What a run gives apart from its rows.
#[derive(Serialize)]
pub struct RunReport {
    /// In the form of the simulator's.
    pub output: Output,
    /// How the machine did.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Packets that belong to no flow.
    pub strays: u64,
    /// How the machine did with the endpoints of QUIC flows, if there are any.
    pub quic: Option<Effort>,
    /// Rows that follow: samples, links, events.
    pub rows: [usize; 3],
}

impl Network {
    /// Does what is due at a time known from the start, or at the end of an interval.
    pub(crate) fn on_agenda(&mut self, event: Event) {
        let now = self.now;
        self.hear_endpoints();
        match event {
            Event::Change(i) => self.change(self.changes[i as usize].what),
            Event::Measure(i) => {
                let counts = self.counts(i as usize, now);
                self.flows[i as usize].watched = self.record.begin_figures(i as usize, counts);
            }
            Event::Stop(i) => self.end_figures(i as usize, now),
            Event::MeasureLinks => {
                let counts = (0..self.books.len()).map(|i| self.counts(i, now));
                let delivered = counts.map(|counts| (counts.delivered_bytes, counts.received_bytes)).collect();
                self.record.begin_window(now, &mut self.paths.links, delivered);
            }
            Event::CommonStart => {
                let received = self.received_bytes();
                self.record.begin_common(now, |i| received[i]);
            }
            Event::CommonEnd => self.end_common(now),
            Event::Sample => {
                self.sample();
                self.driver.events.push(now + self.interval, Event::Sample);
            }
            // What packets and endpoints do is not on the agenda.
            _ => {}
        }
    }

    fn counts(&self, i: usize, at: Time) -> FlowCounts {
        let (book, overhead) = (&self.books[i], self.flows[i].overhead);
        let counts = FlowCounts {
            at,
            delivered_bytes: book.delivered_bytes,
            new_bytes: book.end,
            outstanding: book.sent.saturating_sub(book.received.packets + book.dropped),
            sent_bytes: book.sent_bytes + overhead * book.sent,
            received_bytes: book.received.bytes + overhead * book.received.packets,
            received: book.received.packets,
            queued_units: book.received.queued_units,
            sent: book.sent,
            lost: book.dropped,
            retransmitted: book.retransmitted,
            timeouts: 0,
            cwnd_integral: 0,
        };
        self.flows[i].account.as_ref().map_or(counts, |account| account.counts(counts, at))
    }

    /// Takes what the endpoints of QUIC flows have come to.
    fn hear_endpoints(&mut self) {
        for i in 0..self.flows.len() {
            let Some(account) = &self.flows[i].account else { continue };
            let (rtts, events) = account.take_news();
            for rtt in rtts {
                self.book_rtt(i, rtt);
            }
            for (at, event, value) in events {
                self.record.rows.record(at, Some(index_u32(i)), None, event, value);
            }
            self.complete_quic(i);
        }
    }

    /// Ends the figures of a QUIC flow if all of its transfer has been acknowledged.
    pub(crate) fn complete_quic(&mut self, i: usize) {
        let account = self.flows[i].account.as_ref().filter(|account| account.is_complete());
        if let Some(at) = account.and_then(|account| account.completed())
            && self.record.complete(i, at)
        {
            self.end_transfer(i, at);
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
            self.end_transfer(i, at);
        }
    }

    fn end_transfer(&mut self, i: usize, at: Time) {
        self.end_figures(i, at);
        self.end_common(at);
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
            let account = self.flows[i].account.as_ref();
            self.record.rows.sample(account.map_or(row, |account| row.with_sender(&account.sender())));
        }
        for i in 0..self.paths.links.len() {
            self.paths.links[i].observe(now);
            self.book_link(i);
            let row = self.paths.links[i].row(index_u32(i), now, now);
            self.record.rows.links.push(row);
        }
    }

    /// The end of the run: the last interval, all figures, and the rows as bytes.
    pub fn finish(mut self, end: Time, outcome: Outcome, quic: Option<Effort>) -> (RunReport, Vec<u8>) {
        self.now = end;
        self.hear_endpoints();
        self.sample();
        self.end_common(end);
        let counts: Vec<FlowCounts> = (0..self.books.len()).map(|i| self.counts(i, end)).collect();
        let flows = counts.into_iter().zip(self.flows.iter().map(|flow| &flow.rtts));
        let mut output = self.record.output(end, end, &mut self.paths.links, flows);
        for (figures, _) in output.flows.iter_mut().zip(&self.flows).filter(|(_, flow)| flow.account.is_none()) {
            figures.cwnd_mean_packets = None;
        }
        let Rows { samples, links, events, .. } = &self.record.rows;
        let rows = [samples.len(), links.len(), events.len()];
        let mut bytes: Vec<u8> = bytemuck::cast_slice(samples).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(links));
        bytes.extend_from_slice(bytemuck::cast_slice(events));
        (RunReport { output, outcome, strays: self.strays, quic, rows }, bytes)
    }
}
