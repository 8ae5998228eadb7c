//! Taking figures: at the end of each interval, where a window of measurement begins or ends, and at the end.

use super::connections::Action;
use super::ends::{EndFigures, Ends};
use super::world::{Flow, World};
use knee_core::cache::fetch;
use knee_core::convert::index_u32;
use knee_core::{Packet, Payload, Received, Time};
use knee_net::events::Event;
use knee_net::observe::{FlowCounts, Interval, Rows};
use knee_net::output::{Output, SenderState};
use knee_queue::Note;

/// Flows whose state is fetched before it is sampled.
const FLOWS_AHEAD: u32 = 4;
/// How many drops ahead the flow of a dropped packet is fetched.
const DROPS_AHEAD: usize = 8;

impl World {
    /// What flow `i` has counted.
    fn counts(&mut self, i: u32) -> FlowCounts {
        if self.ends.is_application(i) { self.application_counts(i) } else { self.endpoint_counts(i) }
    }

    /// The same of the ends of one path.
    pub(super) fn endpoint_counts(&mut self, i: u32) -> FlowCounts {
        let ends = self.ends.figures(i, self.now);
        self.counts_of(i, &ends)
    }

    pub(super) fn counts_of(&self, i: u32, ends: &EndFigures) -> FlowCounts {
        let EndFigures { received, counters, .. } = ends;
        let flow = &self.flows[i as usize];
        let overhead = u64::from(flow.overhead);
        FlowCounts {
            at: self.now,
            delivered_bytes: ends.delivered_bytes,
            new_bytes: ends.new_bytes,
            outstanding: ends.outstanding,
            sent_bytes: counters.sent_bytes + overhead * counters.sent,
            received_bytes: received_bytes(received, flow),
            received: received.packets,
            queued_units: received.queued_units,
            sent: counters.sent,
            lost: counters.lost,
            retransmitted: counters.retransmitted,
            timeouts: counters.timeouts,
            cwnd_integral: ends.cwnd_integral,
        }
    }

    /// The figures of a flow begin.
    pub(super) fn begin_figures(&mut self, i: u32) {
        let counts = self.counts(i);
        self.fold_rtt(i);
        if !self.record.begin_figures(i as usize, counts) {
            return;
        }
        self.flows[i as usize].watched = true;
        if let Some(flow) = self.datagram_flow(i) {
            flow.begin_figures();
        }
    }

    fn end_figures(&mut self, i: u32) {
        let counts = self.counts(i);
        self.fold_rtt(i);
        self.record.end_figures(i as usize, counts);
        // Datagrams that are under way as their flow stops are still received or lost.
        self.flows[i as usize].watched = self.flows[i as usize].watched && self.datagram_flow(i).is_some();
    }

    /// Folds the interval's RTT samples, and adds them to the figures, if those are being taken.
    fn fold_rtt(&mut self, i: u32) {
        let flow = &mut self.flows[i as usize];
        let spread = std::mem::take(&mut flow.rtt);
        if flow.watched {
            flow.rtt_histogram.fold(&spread);
        }
        self.record.add_rtts(i as usize, &spread);
        let watched = flow.watched;
        if let Some(flow) = self.datagram_flow(i) {
            flow.watch.fold(watched);
        }
    }

    fn end_common(&mut self) {
        if self.record.in_common() {
            let received = self.received_by_flow();
            self.record.end_common(self.now, |i| received[i]);
        }
    }

    /// Bytes that each flow has received. Senders are not asked: where time passes in batches, they may be ahead.
    fn received_by_flow(&self) -> Vec<u64> {
        let by_endpoint = |i: u32| received_bytes(self.ends.received(i), &self.flows[i as usize]);
        let of_flow = |i: u32| {
            if self.ends.is_application(i) {
                let connections = self.connections.data_halves(i).map(by_endpoint);
                self.connections.gone(i).received_bytes + connections.sum::<u64>()
            } else {
                by_endpoint(i)
            }
        };
        (0..self.connections.flows).map(of_flow).collect()
    }

    /// Takes the sample of an interval that ends now.
    pub(super) fn sample(&mut self) {
        let Some(interval) = self.record.end_interval(self.now) else { return };
        for i in 0..self.connections.flows {
            let ahead = i + FLOWS_AHEAD;
            if self.prefetches
                && ahead < self.connections.flows
                && let Ends::Tcp(Some(tcp)) = &self.ends[ahead]
            {
                tcp.sender.fetch();
                fetch(&tcp.receiver);
                fetch(&self.flows[ahead as usize]);
            }
            self.sample_flow(i, interval);
        }
        self.sample_links();
    }

    fn sample_flow(&mut self, i: u32, interval: Interval) {
        if !self.has_started(i) {
            return;
        }
        if self.ends.is_application(i) {
            let (counts, state) = (self.application_counts(i), self.application_state(i, self.has_full_control(i)));
            self.sample_as(i, interval, &counts, &state);
        } else {
            let ends = self.ends.figures(i, self.now);
            self.sample_ends(i, interval, &ends);
        }
    }

    /// Whether flow `i` has begun before now.
    pub(super) fn has_started(&self, i: u32) -> bool {
        self.record.start(i as usize) < self.now
    }

    /// Takes the sample of flow `i` from the figures of its ends.
    pub(super) fn sample_ends(&mut self, i: u32, interval: Interval, ends: &EndFigures) {
        self.sample_as(i, interval, &self.counts_of(i, ends), &ends.state(self.has_full_control(i)));
    }

    fn sample_as(&mut self, i: u32, interval: Interval, counts: &FlowCounts, state: &SenderState) {
        self.fold_rtt(i);
        let row = self.record.row(i as usize, interval, counts).with_sender(state);
        self.record.rows.sample(row);
        if let Some(flow) = self.datagram_flow(i) {
            let row = flow.watch.row(flow.counts(), &row);
            self.record.rows.delays.push(row);
        }
    }

    /// Whether the algorithm of flow `i` keeps its window in recovery too.
    fn has_full_control(&self, i: u32) -> bool {
        // Datagrams have no algorithm.
        self.algorithms
            .get(self.flows[i as usize].algorithm as usize)
            .is_some_and(|algorithm| algorithm.entry.needs.full_control)
    }

    pub(super) fn sample_links(&mut self) {
        let last = self.last_before(self.now);
        for i in 0..index_u32(self.network.links.len()) {
            self.network.links[i as usize].observe(self.now);
            self.book_link(i);
            let row = self.network.links[i as usize].row(i, self.now, last);
            self.record.rows.links.push(row);
        }
    }

    /// What leaves a link at the very end is no longer part of the run.
    pub(super) fn last_before(&self, until: Time) -> Time {
        if until == self.end { until - Time::from_nanos(1) } else { until }
    }

    /// Puts on record what happens now.
    pub(super) fn record(&mut self, flow: Option<u32>, link: Option<u32>, event: &str, value: f64) {
        self.record.rows.record(self.now, flow, link, event, value);
    }

    /// Books what links have dropped and their queues have noted as packets moved.
    #[inline]
    pub(super) fn book_links(&mut self) {
        if !self.network.unbooked.is_empty() {
            self.book_each_link();
        }
    }

    #[cold]
    fn book_each_link(&mut self) {
        let mut unbooked = std::mem::take(&mut self.network.unbooked);
        unbooked.drain(..).for_each(|link| self.book_link(link));
        self.network.unbooked = unbooked;
    }

    /// Books what a link has dropped and its queue has noted.
    #[inline]
    pub(super) fn book_link(&mut self, link: u32) {
        if self.network.links[link as usize].outcome.has_unbooked() {
            self.book_outcome(link);
        }
    }

    #[cold]
    fn book_outcome(&mut self, link: u32) {
        let outcome = &mut self.network.links[link as usize].outcome;
        let mut dropped = std::mem::take(&mut outcome.dropped);
        let mut notes = std::mem::take(&mut outcome.notes).into_iter().peekable();
        for (k, &(at, packet)) in dropped.iter().enumerate() {
            if let Some((_, later)) = dropped.get(k + DROPS_AHEAD) {
                fetch(&self.flows[later.flow as usize].dropped);
            }
            while let Some(note) = notes.next_if(|note| note.at < at) {
                self.book_note(link, &note);
            }
            self.book_drop(link, at, &packet);
        }
        for note in notes {
            self.book_note(link, &note);
        }
        dropped.clear();
        self.network.links[link as usize].outcome.dropped = dropped;
    }

    fn book_note(&mut self, link: u32, note: &Note) {
        self.record.rows.record(note.at, note.flow, Some(link), note.event, note.value);
    }

    fn book_drop(&mut self, link: u32, at: Time, packet: &Packet) {
        let owner = self.connections.owner(packet.flow);
        self.acks -= u64::from(packet.has(Packet::ACK));
        if self.ends.is_udp(packet.flow) {
            self.drop_udp(packet);
            self.flows[packet.flow as usize].dropped += u64::from(!packet.has(Packet::ACK));
        } else if packet.has(Packet::ACK) {
            if let Payload::Stored(key) = packet.payload {
                self.full_acks.remove(key as usize);
            }
        } else if packet.has(Packet::SYN) {
            self.syns -= 1;
        } else {
            self.flows[packet.flow as usize].dropped += 1;
        }
        if owner != packet.flow {
            self.connections.count(packet.flow, -1, at);
            self.release_if_idle(packet.flow);
        }
        if let Some(over) = self.network.links[link as usize].book_drop(at, owner, packet) {
            self.record.rows.record_drops(link, &over);
        }
    }

    /// Something that concerns the whole run is due now.
    pub(super) fn on_agenda(&mut self, event: Event) {
        match event {
            Event::Change(i) => {
                let what = self.changes[i as usize].what;
                let (flow, link, name, value) = self.network.change(what, self.now);
                if let Some(link) = link {
                    self.book_link(link);
                }
                if let Some(flow) = flow.filter(|&flow| self.ends.is_application(flow)) {
                    self.follow_rtt(flow);
                }
                self.record(flow, link, name, value);
            }
            Event::Sample => self.sample(),
            Event::Measure(i) => self.begin_figures(i),
            Event::MeasureLinks => {
                let counts = (0..self.connections.flows).map(|i| self.counts(i));
                let delivered = counts.map(|counts| (counts.delivered_bytes, counts.received_bytes)).collect();
                self.record.begin_window(self.now, &mut self.network.links, delivered);
            }
            Event::Stop(i) => {
                self.end_figures(i);
                match &mut self.ends[i] {
                    Ends::Udp(flow) => flow.stop(),
                    Ends::Application => self.connections.act(i, Action::Stop),
                    Ends::Tcp(_) => self.ends.tcp_mut(i).sender.stop(),
                }
            }
            Event::CommonStart => {
                let received = self.received_by_flow();
                self.record.begin_common(self.now, |i| received[i]);
            }
            Event::CommonEnd => self.end_common(),
            _ => {}
        }
    }

    /// What ends with a transfer that is complete now: its figures, and the window in which all flows run.
    pub(super) fn end_transfer(&mut self, i: u32) {
        self.end_figures(i);
        self.end_common();
    }

    pub(super) fn reach_end(&mut self) {
        self.now = self.end;
        self.finished = true;
        self.sample();
        self.end_common();
    }

    /// The figures and the rows.
    ///
    /// # Errors
    /// If the spool could not be written.
    pub fn finish(mut self) -> std::io::Result<(Output, Rows)> {
        let counts: Vec<FlowCounts> = (0..self.connections.flows).map(|i| self.counts(i)).collect();
        let flows = counts.into_iter().zip(self.flows.iter().map(|flow| &flow.rtt_histogram));
        let last = self.last_before(self.now);
        let mut output = self.record.output(self.now, last, &mut self.network.links, flows);
        for (i, figures) in (0..).zip(&mut output.flows) {
            if let Some(flow) = self.datagram_flow(i) {
                let datagrams = flow.watch.figures(&flow.counts(), flow.echoes());
                figures.lost_packets = datagrams.lost;
                figures.datagrams = Some(datagrams);
                figures.cwnd_mean_packets = None;
            }
        }
        self.record_distributions();
        self.record.rows.finish()?;
        Ok((output, self.record.rows))
    }
}

/// Bytes received, with the overhead of the first link.
fn received_bytes(received: &Received, flow: &Flow) -> u64 {
    received.bytes + u64::from(flow.overhead) * received.packets
}
