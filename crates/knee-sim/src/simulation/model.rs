//! The model that a scheduler moves through time: the network, the hosts at its ends, applications on these, and the
//! recorder.

use super::apps::{Action, Apps, Around};
use super::figures::Observed;
use super::hosts::{At, End, Ends, Hosts, Outbox, StateNote};
use knee_core::Time;
use knee_core::convert::index_u32;
use knee_net::events::Event;
use knee_net::network::Network;
use knee_net::recorder::Recorder;
use knee_net::spec::Change;
use knee_tcp::ends::TcpEnds;

/// Above this number of flows their histograms are coarser, and only the sum of bulk flows is among the rows.
pub(super) const MANY_FLOWS: usize = 64;

/// The parts of a simulation apart from its scheduler, each of which can be borrowed by itself.
pub(super) struct Model {
    pub(super) network: Network,
    pub(super) hosts: Hosts,
    pub(super) apps: Apps,
    pub(super) recorder: Recorder,
    pub(super) now: Time,
    pub(super) end: Time,
    pub(super) finished: bool,
    /// True if flows' state is fetched ahead: with many flows it has left the caches.
    pub(super) prefetches: bool,
}

impl Model {
    /// A copy, if each of its parts can be copied.
    pub(super) fn copied(&self) -> Option<Self> {
        let Self { network, hosts, apps, recorder, now, end, finished, prefetches } = self;
        if network.directions.iter().any(|direction| direction.outside) {
            return None;
        }
        let (hosts, recorder) = (hosts.copied()?, recorder.copied()?);
        let (network, apps, now, end) = (network.clone(), apps.clone(), *now, *end);
        Some(Self { network, hosts, apps, recorder, now, end, finished: *finished, prefetches: *prefetches })
    }

    /// The recorder, and what it observes.
    #[inline]
    pub(super) const fn observed(&mut self) -> (&mut Recorder, &mut Network, Observed<'_>) {
        let Self { network, hosts, apps, recorder, .. } = self;
        (recorder, network, Observed { hosts, apps })
    }

    /// The hosts, and where path `i` is now.
    #[inline]
    pub(super) fn hosts_at(&mut self, i: u32) -> (&mut Hosts, At<'_>) {
        (&mut self.hosts, At { now: self.now, path: &self.network.flow_paths[i as usize], order: 0 })
    }

    /// Something that concerns the whole run is due now.
    pub(super) fn on_agenda(&mut self, event: Event) {
        let now = self.now;
        let (recorder, network, mut observed) = self.observed();
        recorder.on_agenda(event, now, network, &mut observed);
        if let Event::Change(i) = event
            && let Change::Rtt { flow, .. } = recorder.changes[i as usize].what
            && observed.hosts.is_application(index_u32(flow))
        {
            observed.apps.follow_rtt(index_u32(flow), network);
        }
    }

    /// Flow `i` starts now: without a warm-up its figures do, too.
    pub(super) fn begin_flow(&mut self, i: u32) {
        let now = self.now;
        let (recorder, _, mut observed) = self.observed();
        if recorder.warmup == Time::ZERO {
            recorder.begin_figures(i, now, &mut observed);
        }
    }

    /// Puts a change of a sender's state on record.
    pub(super) fn record(&mut self, StateNote { at, flow, event, cwnd }: StateNote) {
        self.recorder.rows().record(at, Some(flow), None, event, f64::from(cwnd));
    }

    /// All of a flow's transfer is acknowledged now.
    pub(super) fn end_transfer(&mut self, i: u32) {
        let now = self.now;
        let (recorder, _, mut observed) = self.observed();
        recorder.end_transfer(i, now, &mut observed);
    }

    /// Carries out an action of an application now; its packets have this order ([`At::order`]). Gives the half
    /// and the end of it that has something to send, or has been opened.
    pub(super) fn carry_out(
        &mut self,
        flow: u32,
        action: Action,
        order: u64,
        out: &mut impl Outbox,
    ) -> Option<(u32, End)> {
        let Self { network, hosts, apps, recorder, now, .. } = self;
        let completions = &mut recorder.rows().completions;
        apps.carry_out(flow, action, &mut Around { now: *now, order, hosts, network, completions, out })
    }

    pub(super) fn reach_end(&mut self) {
        (self.now, self.finished) = (self.end, true);
        let end = self.end;
        let (recorder, network, mut observed) = self.observed();
        recorder.end(end, network, &mut observed);
    }

    /// Checks that all packets that were sent and have not ended are in the network, and nothing else is.
    /// `between_links` are those in pipes and, in batches, on their way to receivers; `parked_acks` those ACKs of
    /// connections that wait with their flows in batches.
    pub(super) fn audit(&self, between_links: u64, parked_acks: u64) -> Result<(), String> {
        let mut under_way = 0u64;
        for (i, slot) in self.hosts.iter() {
            let (sent, received) = match &slot.ends {
                Ends::Tcp(tcp) => (tcp.sender.counters().sent, tcp.receiver.received.packets),
                Ends::Quic(quic) => (quic.sent(), quic.received().packets),
                Ends::Udp(flow) => (flow.sent(), flow.received().packets),
                Ends::Application => continue,
            };
            let ended = received + slot.record.dropped;
            let Some(rest) = sent.checked_sub(ended) else {
                return Err(format!("flow {i}: {sent} sent, but {ended} received or dropped"));
            };
            under_way += rest;
            if let Ends::Tcp(tcp) = &slot.ends {
                audit_tcp(tcp).map_err(|what| format!("flow {i}: {what}"))?;
            }
        }
        let mut inside = between_links;
        for direction in &self.network.directions {
            let (counters, held) = (direction.link.counters(), direction.link.held());
            if counters.arrived != counters.departed + counters.drops + held {
                return Err(format!(
                    "at a link {} arrived, but {} left, {} were dropped, {held} are there",
                    counters.arrived, counters.departed, counters.drops
                ));
            }
            inside += held;
        }
        let (syns, acks) = (self.hosts.syns(), self.hosts.acks);
        if under_way + syns + acks != inside {
            return Err(format!(
                "{under_way} data packets, {syns} SYNs and {acks} ACKs in flight, but {inside} packets in links and pipes"
            ));
        }
        let ((counted, all), inside) = (self.apps.under_way(), inside + parked_acks);
        if counted > inside || all && counted != inside {
            return Err(format!("{counted} packets of connections in flight, but {inside} in links and pipes"));
        }
        Ok(())
    }
}

/// Checks that what a sender and its receiver know of each other fits.
fn audit_tcp(TcpEnds { sender, receiver }: &TcpEnds) -> Result<(), String> {
    let (sacked, lost, retransmitted) = sender.scoreboard();
    let out = sender.snd_nxt() - sender.snd_una();
    if u64::from(sacked) + u64::from(lost) > out || u64::from(retransmitted) > out {
        return Err(format!("{sacked} SACKed, {lost} lost, {retransmitted} again of {out} out"));
    }
    if receiver.claimed() < sender.snd_una() || receiver.in_order() > sender.snd_nxt() {
        return Err(format!("{} in order, not {}", receiver.claimed(), sender.snd_una()));
    }
    Ok(())
}
