//! Counts and samples of hosts and applications for the recorder.

use super::apps::{Action, Apps};
use super::beside::Fate;
use super::hosts::Hosts;
use super::model::Model;
use knee_core::{Packet, Time};
use knee_net::observe::{FlowCounts, Histogram, Rows, Spread};
use knee_net::output::{DelayRow, Output, SampleRow, SenderState};
use knee_net::recorder::Counts;

/// Hosts, and the applications on them.
pub(super) struct Observed<'a> {
    pub(super) hosts: &'a mut Hosts,
    pub(super) apps: &'a mut Apps,
}

impl Counts for Observed<'_> {
    fn counts(&mut self, i: u32, now: Time) -> FlowCounts {
        let Self { hosts, apps } = self;
        if hosts.is_application(i) { apps.counts(i, hosts, now) } else { hosts.counts(i, now) }
    }

    fn received_bytes(&self, i: u32) -> u64 {
        let Self { hosts, apps } = self;
        if hosts.is_application(i) { apps.received_bytes(i, hosts) } else { hosts.received_bytes(i) }
    }

    fn sender(&mut self, i: u32, now: Time) -> Option<SenderState> {
        let Self { hosts, apps } = self;
        Some(if hosts.is_application(i) { apps.sender_state(i, hosts, now) } else { hosts.sender_state(i, now) })
    }

    fn take_rtts(&mut self, i: u32) -> Spread {
        let flow = self.hosts.record_mut(i);
        let (spread, watched) = (flow.take_rtts(), flow.watched);
        if let Some(flow) = self.hosts.datagrams(i) {
            flow.watch.fold(watched);
        }
        spread
    }

    fn rtts(&self, i: u32) -> &Histogram {
        &self.hosts.record(i).rtt_histogram
    }

    fn watch(&mut self, i: u32, begins: bool) {
        let datagrams = self.hosts.datagrams(i);
        let ends_late = datagrams.is_some();
        if let Some(flow) = datagrams.filter(|_| begins) {
            flow.begin_figures();
        }
        // Datagrams that are under way as their flow stops are still received or lost.
        let flow = self.hosts.record_mut(i);
        flow.watched = begins || flow.watched && ends_late;
    }

    fn delays(&mut self, i: u32, row: &SampleRow) -> Option<DelayRow> {
        let flow = self.hosts.datagrams(i)?;
        Some(flow.watch.row(flow.counts(), row))
    }

    fn stop(&mut self, i: u32, _: Time) {
        if self.hosts.is_application(i) {
            self.apps.act(i, Action::Stop);
        }
        self.hosts.stop(i);
    }

    fn on_drop(&mut self, packet: &Packet, at: Time) -> u32 {
        let i = packet.flow;
        if let Some(flow) = self.hosts.owner_outside(i) {
            self.hosts.note_fate(at, Fate::Dropped(*packet));
            return flow;
        }
        if self.hosts.dropped.is_some() {
            let id = self.hosts.id(i);
            self.hosts.dropped.get_or_insert_default().push((at, id, *packet));
        }
        self.hosts.on_drop(packet);
        if self.apps.carries(i) {
            self.apps.add_packets(i, -1, at);
            self.apps.release_if_idle(i, self.hosts);
        }
        self.hosts.owner(i)
    }
}

impl Model {
    /// The figures and the rows.
    ///
    /// # Errors
    /// If the spool could not be written.
    pub(super) fn finish(mut self) -> std::io::Result<(Output, Rows)> {
        let now = self.now;
        let (recorder, network, mut observed) = self.observed();
        let mut output = recorder.output(now, network, &mut observed);
        for (i, figures) in (0..).zip(&mut output.flows) {
            if let Some(flow) = observed.hosts.datagrams(i) {
                let datagrams = flow.watch.figures(&flow.counts(), flow.echoes());
                // Over QUIC packets and the window are the connection's.
                if !observed.hosts.has_algorithm(i) {
                    figures.lost_packets = datagrams.lost;
                    figures.cwnd_mean_packets = None;
                }
                figures.datagrams = Some(datagrams);
            }
        }
        self.record_distributions();
        let mut rows = self.recorder.record.rows;
        rows.finish()?;
        Ok((output, rows))
    }
}
