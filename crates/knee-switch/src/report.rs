//! Rows of time series and figures, in the simulator's form. State of TCP flows that only the kernel knows (window,
//! smoothed RTT, pacing rate, state) is left out here: NaN in rows, none in figures. The endpoints of QUIC flows are
//! ours and report it.

use crate::endpoints::Effort;
use crate::header::Header;
use crate::late::LateFigures;
use crate::network::{Accounts, SwitchNetwork};
use knee_core::convert::index_u32;
use knee_core::{Packet, Time};
use knee_net::events::Event;
use knee_net::observe::{FlowCounts, Histogram, Rows, Spread};
use knee_net::output::{Output, SenderState};
use knee_net::recorder::Counts;
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

/// Figures of a run apart from its rows.
#[derive(Serialize)]
pub struct RunReport {
    /// Figures in the simulator's form.
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

impl Counts for Accounts {
    fn counts(&mut self, i: u32, at: Time) -> FlowCounts {
        let (book, flow) = (&self.books[i as usize], &self.flows[i as usize]);
        let counts = FlowCounts {
            at,
            delivered_bytes: book.delivered_bytes,
            new_bytes: book.end,
            outstanding: book.sent.saturating_sub(book.received.packets + book.dropped),
            sent_bytes: book.sent_bytes + flow.overhead * book.sent,
            received_bytes: self.received_bytes(i),
            received: book.received.packets,
            queued_units: book.received.queued_units,
            sent: book.sent,
            lost: book.dropped,
            retransmitted: book.retransmitted,
            timeouts: 0,
            cwnd_integral: 0,
        };
        flow.account.as_ref().map_or(counts, |account| account.counts(counts, at))
    }

    fn received_bytes(&self, i: u32) -> u64 {
        let received = &self.books[i as usize].received;
        received.bytes + self.flows[i as usize].overhead * received.packets
    }

    fn sender(&mut self, i: u32, _: Time) -> Option<SenderState> {
        Some(self.flows[i as usize].account.as_ref()?.sender())
    }

    fn take_rtts(&mut self, i: u32) -> Spread {
        let flow = &mut self.flows[i as usize];
        let spread = std::mem::take(&mut flow.rtt);
        if flow.watched {
            flow.rtts.fold(&spread);
        }
        spread
    }

    fn rtts(&self, i: u32) -> &Histogram {
        &self.flows[i as usize].rtts
    }

    fn watch(&mut self, i: u32, begins: bool) {
        self.flows[i as usize].watched = begins;
    }

    /// The kernel's programs stop by themselves.
    fn stop(&mut self, _: u32, _: Time) {}

    fn on_drop(&mut self, packet: &Packet, _: Time) -> u32 {
        // Data packets have more than headers.
        if Header::read_any(self.store.bytes(packet)).is_some_and(|header| header.payload > 0)
            && !packet.has(Packet::ACK)
        {
            self.books[packet.flow as usize].dropped += 1;
        }
        self.store.release(packet);
        packet.flow
    }
}

impl SwitchNetwork {
    /// Does what is due at a time known from the start, or at the end of an interval.
    pub(crate) fn on_agenda(&mut self, event: Event) {
        self.hear_endpoints();
        self.recorder.on_agenda(event, self.now, &mut self.paths, &mut self.accounts);
        if event == Event::Sample {
            self.driver.events.push(self.now + self.recorder.interval, Event::Sample);
        }
    }

    /// Takes what the endpoints of QUIC flows have come to.
    fn hear_endpoints(&mut self) {
        for i in 0..self.accounts.flows.len() {
            let flow = &mut self.accounts.flows[i];
            let Some(account) = &flow.account else { continue };
            let (rtts, events) = account.take_news();
            for (at, event, value) in events {
                self.recorder.rows().record(at, Some(index_u32(i)), None, event, value);
            }
            for rtt in rtts {
                flow.book_rtt(rtt);
            }
            self.complete_quic(i);
        }
    }

    /// Ends the figures of a QUIC flow if all of its transfer has been acknowledged.
    pub(crate) fn complete_quic(&mut self, i: usize) {
        let account = self.accounts.flows[i].account.as_ref().filter(|account| account.is_complete());
        if let Some(at) = account.and_then(|account| account.completed()) {
            self.recorder.end_transfer(index_u32(i), at, &mut self.accounts);
        }
    }

    /// After an ACK: whether all of a finite transfer has arrived.
    pub(crate) fn complete(&mut self, i: usize, at: Time) {
        if self.accounts.flows[i].bytes == Some(self.accounts.books[i].acked_bytes) {
            self.recorder.end_transfer(index_u32(i), at, &mut self.accounts);
        }
    }

    /// The end of the run: the last interval, all figures, and the rows as bytes.
    pub fn finish(mut self, end: Time, outcome: Outcome, quic: Option<Effort>) -> (RunReport, Vec<u8>) {
        self.hear_endpoints();
        let Self { recorder, paths, accounts, .. } = &mut self;
        recorder.end(end, paths, accounts);
        let mut output = recorder.output(end, paths, accounts);
        for (figures, _) in output.flows.iter_mut().zip(&accounts.flows).filter(|(_, flow)| flow.account.is_none()) {
            figures.cwnd_mean_packets = None;
        }
        let Rows { samples, links, events, .. } = recorder.rows();
        let rows = [samples.len(), links.len(), events.len()];
        let mut bytes: Vec<u8> = bytemuck::cast_slice(samples).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(links));
        bytes.extend_from_slice(bytemuck::cast_slice(events));
        (RunReport { output, outcome, strays: self.strays, quic, rows }, bytes)
    }
}
