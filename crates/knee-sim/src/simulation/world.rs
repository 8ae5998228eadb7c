//! What there is: endpoints, the network between them, and what is recorded of both.

use super::build::OwnMake;
use super::connections::Connections;
use super::ends::{AllEnds, Ends, TcpEnds};
use knee_cc::{CaState, Entry, Needs};
use knee_core::{Packet, Params, Time};
use knee_net::network::{FlowPath, Network};
use knee_net::observe::{Histogram, Record, Spread};
use knee_net::spec::ChangeSpec;
use knee_qlog::Log;
use knee_tcp::receiver::{self, FullReply};
use knee_tcp::sender::{self, Departure, Sender};
use slab::Slab;

/// Where there are more flows than this, their histograms are coarser, and of bulk flows only the sum is among the
/// rows.
pub(super) const MANY_FLOWS: usize = 64;

/// Endpoints, the network between them, and what is recorded.
pub(super) struct World {
    pub(super) now: Time,
    pub(super) end: Time,
    pub(super) finished: bool,
    pub(super) network: Network,
    pub(super) ends: AllEnds,
    pub(super) flows: Vec<Flow>,
    /// Applications, and which of the ends behind those of the flows belong to their connections.
    pub(super) connections: Connections,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) sender_config: sender::Config,
    pub(super) receiver_config: receiver::Config,
    /// Those ACKs in flight for which a packet has no room: they carry SACK blocks, or acknowledge a part of a segment.
    pub(super) full_acks: Slab<FullReply>,
    /// What the sender at work sends.
    pub(super) departures: Vec<Departure>,
    /// SYNs in the network, which no sender counts as data.
    pub(super) syns: u64,
    /// ACKs in the network; 0 in batches, where they wait with their flows.
    pub(super) acks: u64,
    pub(super) record: Record,
    /// By flow, where its sender's events are logged; empty if no flow's are.
    pub(super) logs: Vec<Option<Log>>,
    pub(super) interval: Time,
    /// How long flows and links run before their figures start to count.
    pub(super) warmup: Time,
    pub(super) seed: u64,
    pub(super) changes: Vec<ChangeSpec>,
    /// Whether flows' state is fetched ahead: with many flows it has left the caches.
    pub(super) prefetches: bool,
}

/// Takes what endpoints send.
pub(super) trait Outbox {
    /// `count` packets that differ only by their segments leave a sender now.
    fn data(&mut self, first: Packet, count: u32);
    /// An ACK leaves a receiver now.
    fn ack(&mut self, ack: Packet, now: Time, path: &FlowPath);
    /// All of a flow's transfer is acknowledged now: once all that arrived before has been received, what ends with it
    /// is to be booked ([`World::end_transfer`]).
    fn completed(&mut self, flow: u32, now: Time);
}

/// A congestion control with its parameters, shared by flows that configure it alike.
pub(super) struct Algorithm {
    pub(super) entry: &'static Entry,
    /// Makes it where it is not the registry's.
    pub(super) make: Option<OwnMake>,
    pub(super) params: Params,
}

impl Algorithm {
    /// What it requires of a sender.
    pub(super) fn needs(&self) -> Needs {
        self.entry.needs_with(&self.params)
    }
}

/// What the engine knows of a flow apart from its endpoints. The first cache line has what every ACK needs.
#[repr(C, align(64))]
pub(super) struct Flow {
    pub(super) seen_timeouts: u32,
    pub(super) phase: u8,
    pub(super) ca: CaState,
    /// Whether the window of the figures has begun and not ended.
    pub(super) watched: bool,
    /// Whether it is an endless stream or one transfer, and not an application's traffic.
    pub(super) bulk: bool,
    /// RTT samples of the interval, since they were last folded.
    pub(super) rtt: Spread,
    /// Those of the window of the figures; next to `rtt`, since both take each sample.
    pub(super) rtt_histogram: Histogram,
    /// Bytes acknowledged with which its transfer is complete; `u64::MAX`: it is, or is endless.
    pub(super) complete_at: u64,
    /// When the first SYN left; `Time::MAX`: it has not.
    pub(super) syn_at: Time,
    pub(super) dropped: u64,
    /// Index of its algorithm.
    pub(super) algorithm: u32,
    /// Overhead of the first link, counted in throughput.
    pub(super) overhead: u32,
}

const _: () = assert!(std::mem::offset_of!(Flow, rtt_histogram) + Histogram::HOT <= 64 && size_of::<Flow>() == 128);

impl Flow {
    /// A flow that has not begun, under the algorithm of this index.
    pub(super) fn new(algorithm: u32, overhead: u32, complete_at: u64, rtt_histogram: Histogram) -> Self {
        Self {
            seen_timeouts: 0,
            phase: 0,
            ca: CaState::Open,
            watched: false,
            bulk: false,
            rtt: Spread::EMPTY,
            rtt_histogram,
            complete_at,
            syn_at: Time::MAX,
            dropped: 0,
            algorithm,
            overhead,
        }
    }

    /// Takes the RTT sample of an ACK, if it gave one.
    #[inline]
    pub(super) fn book_rtt(&mut self, rtt: Option<Time>) {
        let Some(rtt) = rtt else { return };
        self.rtt.add(rtt);
        if self.watched {
            self.rtt_histogram.count(rtt);
        }
    }

    /// Whether something about its sender is to be put on record.
    #[inline]
    pub(super) fn has_changed(&self, sender: &Sender) -> bool {
        sender.control.phase != self.phase
            || sender.state() != self.ca
            || sender.done() && sender.acked_bytes() == self.complete_at
    }
}

impl World {
    /// Lets TCP's ends of path `i` act. Meanwhile they are not in the table, so that they and the world can change.
    #[inline]
    pub(super) fn with_tcp<T>(&mut self, i: u32, act: impl FnOnce(&mut Self, &mut TcpEnds) -> T) -> T {
        let mut tcp = self.ends.lend(i);
        let given = act(self, &mut tcp);
        self.ends.give_back(i, tcp);
        given
    }

    /// Checks that all packets that were sent and have not ended are in the network, and nothing else is.
    /// `between_links` are those in pipes and, in batches, on their way to receivers; `parked_acks` those ACKs of
    /// connections that wait with their flows in batches.
    pub(super) fn audit(&self, between_links: u64, parked_acks: u64) -> Result<(), String> {
        let mut under_way = 0u64;
        for (i, ends) in self.ends.iter() {
            let (sent, received) = match ends {
                Ends::Tcp(_) => (self.ends.sender(i).counters().sent, self.ends.receiver(i).received.packets),
                Ends::Udp(flow) => (flow.sent(), flow.received().packets),
                Ends::Application => continue,
            };
            let ended = received + self.flows[i as usize].dropped;
            let Some(rest) = sent.checked_sub(ended) else {
                return Err(format!("flow {i}: {sent} sent, but {ended} received or dropped"));
            };
            under_way += rest;
            if !matches!(ends, Ends::Tcp(_)) {
                continue;
            }
            let TcpEnds { sender, receiver } = self.ends.tcp(i);
            let (sacked, lost, retransmitted) = sender.scoreboard();
            let out = sender.snd_nxt() - sender.snd_una();
            if u64::from(sacked) + u64::from(lost) > out || u64::from(retransmitted) > out {
                return Err(format!("flow {i}: {sacked} SACKed, {lost} lost, {retransmitted} again of {out} out"));
            }
            if receiver.claimed() < sender.snd_una() || receiver.in_order() > sender.snd_nxt() {
                return Err(format!("flow {i}: {} in order, not {}", receiver.claimed(), sender.snd_una()));
            }
        }
        let mut inside = between_links;
        for direction in &self.network.links {
            let (counters, held) = (direction.link.counters(), direction.link.held());
            if counters.arrived != counters.departed + counters.drops + held {
                return Err(format!(
                    "at a link {} arrived, but {} left, {} were dropped, {held} are there",
                    counters.arrived, counters.departed, counters.drops
                ));
            }
            inside += held;
        }
        let (syns, acks) = (self.syns, self.acks);
        if under_way + syns + acks != inside {
            return Err(format!(
                "{under_way} data packets, {syns} SYNs and {acks} ACKs in flight, but {inside} packets in links and pipes"
            ));
        }
        let ((counted, all), inside) = (self.connections.under_way(), inside + parked_acks);
        if counted > inside || all && counted != inside {
            return Err(format!("{counted} packets of connections in flight, but {inside} in links and pipes"));
        }
        Ok(())
    }
}
