//! The hosts at the ends of paths: TCP's senders and receivers, and both ends of flows over UDP.
//!
//! A scheduler brings packets and timers, with the time and the path ([`At`]), to the two ends of a path
//! ([`HostPair`]); what they send goes to an [`Outbox`]. They know nothing of the network and of applications. Paths
//! are numbered: those of the scenario's flows come first, behind them those of connections that applications open
//! ([`apps`](super::apps)).

pub(super) mod carried;
mod contents;
pub(super) mod datagrams;
pub(super) mod endpoint;
mod ends;
mod pair;
#[cfg_attr(not(feature = "quic"), path = "hosts/no_quic.rs")]
pub(super) mod quic;
mod settings;
pub(super) mod tcp;
mod trace;
pub(super) mod udp;

pub(super) use contents::{Progress, QuicContents, StreamMessage, StreamProgress};
pub(super) use ends::Ends;
pub(super) use pair::{At, End, Group, HostPair, Outbox, PathRecord, Protocol, Slot, StateNote, event_of, timer_of};
pub(super) use settings::{Algorithm, HostSettings};

use super::beside::Fate;
use datagrams::DatagramFlow;
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_net::observe::FlowCounts;
use knee_net::output::SenderState;
use knee_tcp::ends::{EndTimer, TcpEnds};
use knee_tcp::receiver::FullReply;
use knee_tcp::sender::{AckInfo, Outgoing};
use pair::EndFigures;
use slab::Slab;
use std::collections::BTreeMap;
use trace::PacketTrace;
use udp::UdpFlow;

/// All hosts.
pub(super) struct Hosts {
    /// By path.
    slots: Vec<Slot>,
    pub(super) settings: HostSettings,
    /// ACKs in the network, and what else goes against the data of flows; 0 in batches, where ACKs wait with their
    /// flows.
    pub(super) acks: u64,
    /// Packets that links have dropped since they were last shown to taps; none without a tap.
    pub(super) dropped: Option<Vec<(Time, ConnectionId, Packet)>>,
    /// By group of paths ([`Hosts::groups`]).
    pub(super) stores: Vec<Stores>,
    /// How many paths are in a group.
    group_size: u32,
    /// The flows whose packets are a program's, beside which this simulation runs, if there is one.
    pub(super) outside: Option<Outside>,
}

/// Packets that come from outside and go there again.
pub(super) struct Outside {
    /// By path: the flow that it belongs to; `None` for those of the simulator's own.
    pub(super) owners: Vec<Option<u32>>,
    /// Fates since they were last taken.
    pub(super) fates: Vec<(Time, Fate)>,
}

impl Outside {
    /// The flows where `outside` is true.
    pub(super) fn new(outside: &[bool]) -> Self {
        let owners = (0..).zip(outside).map(|(i, outside)| outside.then_some(i)).collect();
        Self { owners, fates: Vec::new() }
    }
}

/// Stores that the hosts of a group share.
#[derive(Clone, Default)]
#[repr(align(128))]
pub(super) struct Stores {
    /// ACKs in flight for which a packet has no room: they carry SACK blocks, or acknowledge a part of a segment.
    full_acks: Slab<FullReply>,
    /// Contents of packets of QUIC in flight for which a packet has no room.
    quic_packets: Slab<QuicContents>,
    /// Segments that the sender at work sends.
    outgoing: Vec<Outgoing>,
    /// Packets that the sender at work sends over QUIC.
    quic_outgoing: Vec<knee_quic::Outgoing>,
    /// By path, when segments left first, where RTT figures are those of a packet trace.
    traces: BTreeMap<u32, PacketTrace>,
    /// SYNs sent less those that have left the network, which no sender counts as data.
    pub(super) syns: i64,
}

/// Half a connection (one of its directions) that an application opened, as its hosts see it.
#[derive(Clone, Copy)]
pub(super) struct HalfView {
    pub(super) id: ConnectionId,
    /// True if it leads away from the application.
    pub(super) away: bool,
    /// RTT of the handshake; zero until it is over.
    pub(super) handshake: Time,
}

impl Hosts {
    pub(super) fn new(settings: HostSettings) -> Self {
        let flows = settings.scenario_flows as usize;
        Self {
            slots: Vec::with_capacity(flows),
            settings,
            acks: 0,
            dropped: None,
            stores: vec![Stores::default()],
            group_size: u32::MAX,
            outside: None,
        }
    }

    /// A copy; none where an algorithm is not the registry's, a QUIC stack takes part, or somebody looks on.
    pub(super) fn copied(&self) -> Option<Self> {
        let Self { slots, settings, acks, dropped, stores, group_size, outside } = self;
        if dropped.is_some() || outside.is_some() {
            return None;
        }
        // First: only algorithms of the registry can be copied.
        let settings = settings.copied()?;
        Some(Self {
            slots: slots.iter().map(Slot::copied).collect::<Option<_>>()?,
            settings,
            acks: *acks,
            dropped: None,
            stores: stores.clone(),
            group_size: *group_size,
            outside: None,
        })
    }

    /// The flow of the program's to which path `i` belongs, if it is one of those.
    pub(super) fn owner_outside(&self, i: u32) -> Option<u32> {
        self.outside.as_ref()?.owners.get(i as usize).copied().flatten()
    }

    /// Returns true if the packets of path `i` are the program's.
    pub(super) fn is_outside(&self, i: u32) -> bool {
        self.owner_outside(i).is_some()
    }

    /// A packet of the program's leaves the network.
    pub(super) fn note_fate(&mut self, at: Time, fate: Fate) {
        self.acks -= 1;
        self.outside.iter_mut().for_each(|outside| outside.fates.push((at, fate)));
    }

    /// Divides the paths, before anything has happened, into `count` groups that threads may visit at once, where there
    /// are that many paths.
    pub(super) fn divide(&mut self, count: u32) {
        self.group_size = self.len().div_ceil(count.max(1)).max(1);
        self.stores.resize_with(self.len().div_ceil(self.group_size).max(1) as usize, Stores::default);
    }

    /// How many paths are in each group but the last, which may have fewer.
    pub(super) const fn group_size(&self) -> u32 {
        self.group_size
    }

    /// The groups of paths.
    pub(super) fn groups(&mut self) -> impl Iterator<Item = Group<'_>> {
        let Self { slots, settings, stores, group_size, .. } = self;
        let (settings, size, per_store) = (&*settings, *group_size as usize, *group_size);
        let parts = (0..).step_by(size).zip(slots.chunks_mut(size).zip(stores.chunks_mut(1)));
        parts.map(move |(first, (slots, stores))| Group { first, slots, settings, stores, per_store })
    }

    /// All paths.
    #[inline]
    pub(super) fn all(&mut self) -> Group<'_> {
        let Self { slots, settings, stores, group_size, .. } = self;
        Group { first: 0, slots, settings, stores, per_store: *group_size }
    }

    /// The ends of path `i`, to one of which something happens.
    #[inline]
    pub(super) fn pair(&mut self, i: u32) -> HostPair<'_, Ends> {
        let group = self.group_of(i);
        self.slots[i as usize].pair(i, &self.settings, &mut self.stores[group])
    }

    /// A packet has arrived at its end of path `i` now.
    #[inline]
    pub(super) fn on_packet(&mut self, i: u32, at: &At<'_>, packet: &Packet, out: &mut impl Outbox) {
        let pair = self.pair(i);
        match (&*pair.ends, packet.has(Packet::ACK)) {
            (Ends::Udp(_), _) => pair.udp().on_packet(at, packet, out),
            (Ends::Quic(_), true) => pair.quic().on_ack((packet.payload, packet.flags), at, out),
            (Ends::Quic(_), false) => pair.quic().on_data(packet, at, out),
            (_, true) => pair.tcp().on_ack((packet.payload, packet.flags), at, out),
            (_, false) => pair.tcp().on_data(packet, at, out),
        }
    }

    /// Fires a timer of path `i` that may be due, if it is.
    pub(super) fn on_timer(&mut self, i: u32, timer: EndTimer, at: &At<'_>, out: &mut impl Outbox) {
        let pair = self.pair(i);
        match &*pair.ends {
            Ends::Udp(_) => pair.udp().on_timer(End::with(timer), at, out),
            Ends::Quic(_) => pair.quic().on_timer(timer, at, out),
            Ends::Tcp(_) | Ends::Application => pair.tcp().on_timer(timer, at, out),
        }
    }

    /// Flow `i`, which runs no application, starts.
    pub(super) fn start(&mut self, i: u32, at: &At<'_>, out: &mut impl Outbox) {
        let pair = self.pair(i);
        match &*pair.ends {
            Ends::Udp(_) => pair.udp().start(at, out),
            Ends::Quic(_) => pair.quic().connect(at, out),
            Ends::Tcp(_) | Ends::Application => pair.tcp().connect(at, out),
        }
    }

    /// The record of path `i`.
    #[inline]
    pub(super) fn record(&self, i: u32) -> &PathRecord {
        &self.slots[i as usize].record
    }

    #[inline]
    pub(super) fn record_mut(&mut self, i: u32) -> &mut PathRecord {
        &mut self.slots[i as usize].record
    }

    /// The group of path `i`.
    #[inline]
    fn group_of(&self, i: u32) -> usize {
        if self.stores.len() == 1 { 0 } else { (i / self.group_size) as usize }
    }

    /// The connection whose data path `i` carries.
    #[inline]
    pub(super) fn id(&self, i: u32) -> ConnectionId {
        self.slots[i as usize].half.map_or(ConnectionId::of_flow(i), |half| half.id)
    }

    /// The flow to which path `i` belongs.
    #[inline]
    pub(super) fn owner(&self, i: u32) -> u32 {
        self.id(i).flow()
    }

    /// SYNs in the network.
    pub(super) fn syns(&self) -> u64 {
        self.stores.iter().map(|stores| stores.syns).sum::<i64>().cast_unsigned()
    }

    /// How many paths there are.
    pub(super) fn len(&self) -> u32 {
        knee_core::convert::index_u32(self.slots.len())
    }

    /// Adds the ends of a flow's path.
    pub(super) fn push(&mut self, ends: Ends, record: PathRecord) {
        self.slots.push(Slot { record, ends, half: None });
    }

    /// Sets up half a connection on path `i`, which is the next one or one that is not used any more.
    pub(super) fn open(&mut self, i: u32, half: HalfView, ends: Ends, record: PathRecord) {
        let slot = Slot { record, ends, half: Some(half) };
        if i == self.len() {
            self.slots.push(slot);
        } else {
            self.slots[i as usize] = slot;
        }
    }

    /// All paths with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots)
    }

    /// Returns true if path `i` is that of a flow over UDP.
    pub(super) fn is_udp(&self, i: u32) -> bool {
        self.slots[i as usize].ends.is_udp()
    }

    /// Returns true if flow `i` runs an application.
    pub(super) fn is_application(&self, i: u32) -> bool {
        matches!(self.slots[i as usize].ends, Ends::Application)
    }

    /// TCP's ends of path `i`, over which TCP speaks.
    #[inline]
    pub(super) fn tcp_ends(&self, i: u32) -> &TcpEnds {
        let Ends::Tcp(tcp) = &self.slots[i as usize].ends else { no_tcp(i) };
        tcp
    }

    #[cfg(test)]
    pub(super) fn tcp_ends_mut(&mut self, i: u32) -> &mut TcpEnds {
        let Ends::Tcp(tcp) = &mut self.slots[i as usize].ends else { no_tcp(i) };
        tcp
    }

    /// TCP's ends of path `i`, if TCP speaks over it.
    #[inline]
    pub(super) fn find_tcp(&self, i: u32) -> Option<&TcpEnds> {
        if let Ends::Tcp(tcp) = &self.slots[i as usize].ends { Some(tcp) } else { None }
    }

    /// The ends of those paths over which TCP speaks.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn all_tcp(&self) -> impl Iterator<Item = &TcpEnds> {
        (0..self.len()).filter_map(|i| self.find_tcp(i))
    }

    /// The ends of the first two paths.
    #[cfg(test)]
    pub(super) fn first_two(&mut self) -> &mut [Slot; 2] {
        self.slots.first_chunk_mut().expect("there are two")
    }

    /// True if path `i` is that of a connection of QUIC.
    pub(super) fn is_quic(&self, i: u32) -> bool {
        match &self.slots[i as usize].ends {
            Ends::Quic(_) => true,
            Ends::Udp(flow) => matches!(**flow, UdpFlow::Quic(_)),
            Ends::Tcp(_) | Ends::Application => false,
        }
    }

    /// The state of the messages of path `i`, that of a connection of QUIC; none once it is over.
    pub(super) fn progress(&self, i: u32) -> Option<Progress> {
        match &self.slots[i as usize].ends {
            Ends::Quic(quic) => quic.progress(),
            Ends::Udp(flow) => match &**flow {
                UdpFlow::Quic(flow) => flow.progress(),
                UdpFlow::Datagrams(_) | UdpFlow::Carried(_) => None,
            },
            Ends::Tcp(_) | Ends::Application => None,
        }
    }

    /// News of the streams of path `i`, if it is that of a connection that has several.
    pub(super) fn take_streams(&mut self, i: u32) -> Option<StreamProgress> {
        match &mut self.slots[i as usize].ends {
            Ends::Quic(quic) => quic.take_streams(),
            Ends::Udp(_) | Ends::Tcp(_) | Ends::Application => None,
        }
    }

    /// Tells whether the connection on path `i` has timed out at the end that opened it.
    pub(super) fn is_over(&self, i: u32) -> bool {
        matches!(&self.slots[i as usize].ends, Ends::Quic(quic) if quic.is_over())
    }

    /// A connection that an application opened connects, on path `i`. Gives the end that does.
    pub(super) fn connect(&mut self, i: u32, at: &At<'_>, out: &mut impl Outbox) -> End {
        let pair = self.pair(i);
        match &*pair.ends {
            Ends::Udp(_) => pair.udp().quic().open(at, out),
            Ends::Quic(quic) => {
                let end = quic.client_end();
                pair.quic().connect(at, out);
                end
            }
            Ends::Tcp(_) | Ends::Application => {
                pair.tcp().connect(at, out);
                End::Sender
            }
        }
    }

    /// Writes `bytes` on path `i`: from the application, where it `asks`, else from the other end. The path last
    /// carried data at `last_sent`. Gives where the message ends, in TCP's segments or QUIC's bytes, and the end that
    /// sends it.
    pub(super) fn write(
        &mut self,
        i: u32,
        (asks, bytes): (bool, u64),
        last_sent: Time,
        at: &At<'_>,
        out: &mut impl Outbox,
    ) -> (u64, End) {
        let pair = self.pair(i);
        match &*pair.ends {
            Ends::Udp(_) => pair.udp().quic().write(asks, bytes, at, out),
            Ends::Quic(_) => pair.quic().write(asks, bytes, at, out),
            // Each half has a path of its own.
            Ends::Tcp(_) | Ends::Application => (pair.tcp().write(bytes, last_sent, at, out), End::Sender),
        }
    }

    /// Tells whether nothing that was written on path `i`, a connection's, was sent again; none before all of it is
    /// acknowledged.
    pub(super) fn settled(&mut self, i: u32) -> Option<bool> {
        if self.is_quic(i) {
            return self.progress(i).is_none_or(|progress| progress.settled).then_some(false);
        }
        let sender = &self.tcp_ends(i).sender;
        (sender.snd_una() >= sender.end).then(|| sender.sent_once())
    }

    /// Nothing of the connection on path `i` is due any more.
    pub(super) fn close(&mut self, i: u32) {
        match &mut self.slots[i as usize].ends {
            Ends::Tcp(tcp) => tcp.stop_timers(),
            Ends::Quic(quic) => quic.close(),
            Ends::Udp(flow) => flow.close(),
            Ends::Application => {}
        }
    }

    /// Both ends of flow `i`, if it sends datagrams.
    pub(super) fn datagrams(&mut self, i: u32) -> Option<&mut DatagramFlow> {
        let Ends::Udp(flow) = &mut self.slots[i as usize].ends else { return None };
        match &mut **flow {
            UdpFlow::Datagrams(flow) => Some(flow),
            UdpFlow::Carried(flow) => Some(&mut flow.datagrams),
            UdpFlow::Quic(_) => None,
        }
    }

    /// Flow `i` sends nothing new from now on.
    pub(super) fn stop(&mut self, i: u32) {
        match &mut self.slots[i as usize].ends {
            Ends::Tcp(tcp) => tcp.sender.stop(),
            Ends::Quic(quic) => quic.stop(),
            Ends::Udp(flow) => flow.stop(),
            Ends::Application => {}
        }
    }

    /// When a timer at path `i` is due at the earliest; `Time::MAX`: it is not set.
    #[inline]
    pub(super) fn not_before(&mut self, i: u32, timer: EndTimer) -> Time {
        match &mut self.slots[i as usize].ends {
            Ends::Tcp(tcp) => tcp.not_before(timer),
            Ends::Quic(quic) => quic.not_before(timer),
            Ends::Udp(flow) if timer == End::with(timer).timers()[0] => flow.due(End::with(timer)),
            Ends::Udp(_) | Ends::Application => Time::MAX,
        }
    }

    /// A packet was dropped on its way: counts it, and frees what the host kept for it. TCP's sender learns nothing.
    pub(super) fn on_drop(&mut self, packet: &Packet) {
        let is_data = !packet.has(Packet::ACK);
        self.acks -= u64::from(!is_data);
        let group = self.group_of(packet.flow);
        let (is_quic, keeps_all) = match &mut self.slots[packet.flow as usize].ends {
            Ends::Udp(flow) => {
                flow.on_drop(packet);
                (flow.is_own_quic(), !flow.is_own_quic())
            }
            ends => (matches!(ends, Ends::Quic(_)), false),
        };
        if packet.has(Packet::SYN) && !keeps_all {
            self.stores[group].syns -= i64::from(is_data);
            return;
        }
        self.record_mut(packet.flow).dropped += u64::from(is_data);
        let Some(key) = packet.payload.stored().filter(|_| !keeps_all) else { return };
        if is_quic {
            self.stores[group].quic_packets.remove(key as usize);
        } else {
            self.stores[group].full_acks.remove(key as usize);
        }
    }

    /// The ACK that a packet of TCP carries.
    pub(super) fn ack(&self, packet: &Packet) -> AckInfo<'_> {
        match packet.payload {
            Payload::Ack { next, tsecr, tsval } => {
                let seq = next.near(self.tcp_ends(packet.flow).sender.snd_una());
                AckInfo::plain(seq, tsecr, packet.flags).stamped(tsval)
            }
            other => self.stores[self.group_of(packet.flow)].full_acks[other.key() as usize].info(),
        }
    }

    /// The ACK with this key on path `i`, for which a packet has no room.
    pub(super) fn full_ack(&self, i: u32, key: u32) -> Option<&FullReply> {
        self.stores[self.group_of(i)].full_acks.get(key as usize)
    }

    /// Returns true if the algorithm at path `i` keeps its window in recovery too.
    pub(super) fn has_full_control(&self, i: u32) -> bool {
        self.settings.has_full_control(self.record(i))
    }

    /// Returns true if what is sent on path `i` is under a congestion control.
    pub(super) fn has_algorithm(&self, i: u32) -> bool {
        self.record(i).algorithm != u32::MAX
    }

    fn figures(&mut self, i: u32, now: Time) -> EndFigures {
        let full_control = self.has_full_control(i);
        let mut figures = match &mut self.slots[i as usize].ends {
            Ends::Tcp(ends) => tcp::figures(ends, now),
            Ends::Quic(ends) => ends.figures(now, &self.settings.quic_ends),
            Ends::Udp(flow) => flow.figures(now),
            Ends::Application => no_tcp(i),
        };
        figures.sender.full_control = full_control;
        figures
    }

    /// State of the sender of path `i` for a sample.
    pub(super) fn sender_state(&mut self, i: u32, now: Time) -> SenderState {
        self.figures(i, now).sender
    }

    /// Counts of the ends of path `i`.
    pub(super) fn counts(&mut self, i: u32, now: Time) -> FlowCounts {
        self.figures(i, now).counts(self.record(i), now)
    }

    /// Bytes that came to the receiver of path `i`, with the overhead of the first link.
    pub(super) fn received_bytes(&self, i: u32) -> u64 {
        let received = match &self.slots[i as usize].ends {
            Ends::Tcp(tcp) => &tcp.receiver.received,
            Ends::Quic(quic) => quic.received(),
            Ends::Udp(flow) => flow.received(),
            Ends::Application => no_tcp(i),
        };
        self.record(i).received_bytes(received)
    }
}

#[cold]
#[inline(never)]
fn no_tcp(i: u32) -> ! {
    panic!("path {i} is not TCP's")
}
