//! All that hosts have of one path ([`Slot`]), its two ends while something happens to one of them ([`HostPair`]), what
//! that end is told ([`At`]), where what it does goes to ([`Outbox`]), and what is on record of both ([`PathRecord`]).

use super::endpoint::QuicEnds;
use super::udp::UdpFlow;
use super::{Ends, HalfView, HostSettings, Stores, no_tcp};
use crate::simulation::apps::Apps;
use knee_cc::{CaState, Control};
use knee_core::{Packet, Payload, Received, Rng, Time};
use knee_net::events::Event;
use knee_net::network::FlowPath;
use knee_net::observe::{FlowCounts, Histogram, Spread, States};
use knee_net::output::SenderState;
use knee_qlog::Log;
use knee_tcp::ends::{EndTimer, TcpEnds};
use knee_tcp::sender::{Counters, Sender};

/// When something happens to an end, and on which path.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct At<'a> {
    pub(in crate::simulation) now: Time,
    pub(in crate::simulation) path: &'a FlowPath,
    /// Order, in batches, of what the end sends among what is sent at this time: for a sender the key of the event that
    /// happens to it ([`Event::key`]), for a receiver that event as the cause of its ACKs ([`Event::cause`]).
    pub(in crate::simulation) order: u64,
}

/// Takes what ends send and what is to be noted of them.
pub(in crate::simulation) trait Outbox {
    /// `count` packets that differ only by their segments leave the sender's end now, in the direction of the data.
    fn data(&mut self, first: Packet, count: u32, at: &At<'_>);
    /// A packet leaves the receiver's end now, against the data: mostly an ACK.
    fn ack(&mut self, ack: Packet, at: &At<'_>);
    /// An ACK gave an RTT sample on a connection of flow `owner`.
    fn rtt(&mut self, owner: u32, rtt: Time);
    /// The sender of a flow changed its state.
    fn changed(&mut self, change: StateNote);
    /// All of a flow's transfer is acknowledged now. Its figures end once all that arrived before has been received.
    fn completed(&mut self, flow: u32, now: Time);
}

/// A new state of a flow's sender, for the record.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct StateNote {
    pub(in crate::simulation) at: Time,
    pub(in crate::simulation) flow: u32,
    /// The phase or the state of recovery that begins, or `timeout`.
    pub(in crate::simulation) event: &'static str,
    /// The window then, packets.
    pub(in crate::simulation) cwnd: u32,
}

/// One of the two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum End {
    /// Data leaves it.
    Sender,
    /// Data comes to it.
    Receiver,
}

impl End {
    /// The one to which a packet goes.
    #[inline]
    pub(in crate::simulation) const fn of(packet: &Packet) -> Self {
        if packet.has(Packet::ACK) { Self::Sender } else { Self::Receiver }
    }

    /// The other one.
    #[inline]
    pub(in crate::simulation) const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }

    /// Its timers: TCP's, of which ends of flows over UDP have the first.
    #[inline]
    pub(in crate::simulation) const fn timers(self) -> [EndTimer; 2] {
        match self {
            Self::Sender => [EndTimer::Retransmit, EndTimer::Pace],
            Self::Receiver => [EndTimer::DelayedAck, EndTimer::CompressedSack],
        }
    }

    /// The one that has a timer.
    pub(in crate::simulation) const fn with(timer: EndTimer) -> Self {
        match timer {
            EndTimer::Retransmit | EndTimer::Pace => Self::Sender,
            EndTimer::DelayedAck | EndTimer::CompressedSack => Self::Receiver,
        }
    }
}

/// The event of a timer at path `i`.
#[inline]
pub(in crate::simulation) const fn event_of(timer: EndTimer, i: u32) -> Event {
    match timer {
        EndTimer::Retransmit => Event::Retransmit(i),
        EndTimer::Pace => Event::Pace(i),
        EndTimer::DelayedAck => Event::DelayedAck(i),
        EndTimer::CompressedSack => Event::CompressedSack(i),
    }
}

/// The timer whose event this is, and its path.
#[inline]
pub(in crate::simulation) const fn timer_of(event: Event) -> Option<(EndTimer, u32)> {
    match event {
        Event::Retransmit(i) => Some((EndTimer::Retransmit, i)),
        Event::Pace(i) => Some((EndTimer::Pace, i)),
        Event::DelayedAck(i) => Some((EndTimer::DelayedAck, i)),
        Event::CompressedSack(i) => Some((EndTimer::CompressedSack, i)),
        _ => None,
    }
}

/// All that hosts have of one path.
#[repr(C)]
pub(in crate::simulation) struct Slot {
    pub(in crate::simulation) record: PathRecord,
    pub(in crate::simulation) ends: Ends,
    /// The half of a connection that has the path, if one has.
    pub(super) half: Option<HalfView>,
}

impl Slot {
    /// A copy; none where its ends cannot be copied.
    pub(super) fn copied(&self) -> Option<Self> {
        Some(Self { record: self.record.clone(), ends: self.ends.copied()?, half: self.half })
    }

    /// Its ends, those of path `i`, to one of which something happens.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every visit")]
    pub(super) const fn pair<'a>(
        &'a mut self,
        i: u32,
        settings: &'a HostSettings,
        stores: &'a mut Stores,
    ) -> HostPair<'a, Ends> {
        let Self { record, ends, half } = self;
        HostPair { i, ends, record, half, settings, stores }
    }
}

/// Both ends of one path while something happens to one of them: `on_data` to the receiver, `on_ack` to the sender.
pub(in crate::simulation) struct HostPair<'a, E> {
    /// The number of the path.
    pub(in crate::simulation) i: u32,
    pub(in crate::simulation) ends: &'a mut E,
    pub(super) record: &'a mut PathRecord,
    pub(super) half: &'a mut Option<HalfView>,
    pub(super) settings: &'a HostSettings,
    pub(super) stores: &'a mut Stores,
}

/// Hosts whose paths have consecutive numbers: all of them, or, for a thread, flows of which none runs an application.
pub(in crate::simulation) struct Group<'a> {
    /// The number of the first path.
    pub(in crate::simulation) first: u32,
    pub(super) slots: &'a mut [Slot],
    pub(super) settings: &'a HostSettings,
    pub(super) stores: &'a mut [Stores],
    /// How many paths share one of the stores.
    pub(super) per_store: u32,
}

impl Group<'_> {
    /// The ends of path `i`, to one of which something happens.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every visit")]
    pub(in crate::simulation) fn pair(&mut self, i: u32) -> HostPair<'_, Ends> {
        let k = (i - self.first) as usize;
        let group = if self.stores.len() == 1 { 0 } else { k / self.per_store as usize };
        self.slots[k].pair(i, self.settings, &mut self.stores[group])
    }

    /// The ends of path `i`, and its record.
    #[inline]
    pub(in crate::simulation) fn look(&self, i: u32) -> (&Ends, &PathRecord) {
        let Slot { record, ends, .. } = &self.slots[(i - self.first) as usize];
        (ends, record)
    }
}

/// TCP or QUIC at the ends of a path. "The receiver" and "the sender" are its two ends: each end of a QUIC connection
/// that an application opened has both a receiver and a sender.
pub(in crate::simulation) trait Protocol {
    /// The number of the path.
    fn path(&self) -> u32;
    /// When the receiver has something to do by itself, at the earliest.
    fn receiver_due(&self) -> Time;
    /// The same of the sender.
    fn sender_due(&self) -> Time;
    /// The sender opens its connection now.
    fn connect(&mut self, at: &At<'_>, out: &mut impl Outbox);
    /// A packet in the direction of the data has arrived at the receiver: it carries data or belongs to the handshake;
    /// over QUIC it may be an ACK, too.
    fn on_data(&mut self, packet: &Packet, at: &At<'_>, out: &mut impl Outbox);
    /// A packet against the data, with this payload and these flags, has arrived at the sender: an ACK, or an answer of
    /// the handshake; over QUIC it may carry data, too.
    fn on_ack(&mut self, ack: (Payload, u8), at: &At<'_>, out: &mut impl Outbox);
    /// The next timer of an end and its exact time, if that is before `limit`.
    fn next_timer(&mut self, end: End, limit: Time) -> Option<(Time, EndTimer)>;
    /// Works out the exact time of a timer that may be due, and fires it if that has come.
    fn on_timer(&mut self, timer: EndTimer, at: &At<'_>, out: &mut impl Outbox);
    /// Counts up to now, the state of the sender, and the RTT samples since they were last taken.
    fn observe(&mut self, now: Time) -> (FlowCounts, SenderState, Spread);
    /// Tells applications of an ACK that the sender has taken, on a path that carries a connection.
    fn tell(&self, now: Time, apps: &mut Apps);
}

impl<'a> HostPair<'a, Ends> {
    /// TCP's ends over the path.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every visit")]
    pub(in crate::simulation) fn tcp(self) -> HostPair<'a, TcpEnds> {
        let Self { i, ends, record, half, settings, stores } = self;
        let Ends::Tcp(ends) = ends else { no_tcp(i) };
        HostPair { i, ends, record, half, settings, stores }
    }

    /// QUIC's ends over the path, knee's own.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every visit")]
    pub(in crate::simulation) fn quic(self) -> HostPair<'a, QuicEnds> {
        let Self { i, ends, record, half, settings, stores } = self;
        let Ends::Quic(ends) = ends else { panic!("path {i} is not that of a flow over QUIC") };
        HostPair { i, ends, record, half, settings, stores }
    }

    /// UDP's ends over the path.
    pub(super) fn udp(self) -> HostPair<'a, UdpFlow> {
        let Self { i, ends, record, half, settings, stores } = self;
        let Ends::Udp(ends) = ends else { panic!("path {i} is not that of a flow over UDP") };
        HostPair { i, ends, record, half, settings, stores }
    }
}

impl<E> HostPair<'_, E> {
    /// The flow of the specification that this is, or one of whose connections it is.
    pub(super) fn flow(&self) -> u32 {
        self.half.as_ref().map_or(self.i, |half| half.id.flow())
    }

    /// Random numbers of the algorithm, among those of its flow. A connection has two: `first` tells which.
    pub(super) fn random_numbers(&self, first: bool) -> Rng {
        let name = self.half.as_ref().map_or_else(
            || "cc".into(),
            // Formatting takes four times as long, 2 % of a short transfer.
            |half| ["cc/", itoa::Buffer::new().format(half.id.number()), if first { "/0" } else { "/1" }].concat(),
        );
        Rng::stream(self.settings.flow_seeds[self.flow() as usize], &name)
    }

    /// Takes the RTT sample of an ACK, if it gave one, for the flow to which the path belongs.
    #[inline]
    pub(super) fn book_rtt(&mut self, rtt: Option<Time>, out: &mut impl Outbox) {
        let Some(rtt) = rtt else { return };
        match self.half {
            None => self.record.take_rtt(rtt),
            Some(half) => out.rtt(half.id.flow(), rtt),
        }
    }

    /// Puts on record which states of the sender are new.
    pub(super) fn note_states(
        &mut self,
        now: Time,
        control: &Control,
        ca: CaState,
        timeouts: u32,
        out: &mut impl Outbox,
    ) {
        let record = &mut *self.record;
        let before = States { phase: record.phase, ca: record.ca, timeouts: record.seen_timeouts };
        let after = States { phase: control.phase, ca, timeouts };
        (record.phase, record.ca, record.seen_timeouts) = (after.phase, after.ca, after.timeouts);
        let phases = self.settings.algorithms[record.algorithm as usize].entry.phases;
        let log = self.log();
        for event in after.events_since(before, phases) {
            self.note_event(now, event, control.cwnd, out);
            if let Some(log) = &log {
                log.state(now, event);
            }
        }
    }

    /// Something has happened to the flow, whose window has `cwnd` packets.
    pub(super) fn note_event(&self, now: Time, event: &'static str, cwnd: u32, out: &mut impl Outbox) {
        // Connections that come and go are too many.
        if self.half.is_none() {
            out.changed(StateNote { at: now, flow: self.i, event, cwnd });
        }
    }

    /// The log of the sender's events.
    pub(super) fn log(&self) -> Option<Log> {
        let log = |flow: u32| self.settings.logs.get(flow as usize).cloned().flatten();
        let Some(HalfView { id, .. }) = &*self.half else { return log(self.i) };
        if id.is_mirrored() { None } else { Some(log(id.flow())?.group(id.number())) }
    }

    /// All that the flow had to send is acknowledged now.
    pub(super) fn complete(&mut self, now: Time, out: &mut impl Outbox) {
        if self.record.complete_at != u64::MAX {
            self.record.complete_at = u64::MAX;
            out.completed(self.i, now);
        }
    }
}

/// Record of the ends of a path besides their state. Every ACK needs the first cache line.
#[repr(C, align(64))]
#[derive(Clone)]
pub(in crate::simulation) struct PathRecord {
    pub(in crate::simulation) seen_timeouts: u32,
    pub(in crate::simulation) phase: u8,
    pub(in crate::simulation) ca: CaState,
    /// True if the window of the figures has begun and not ended.
    pub(in crate::simulation) watched: bool,
    /// True if it is an endless stream or one transfer, and not an application's traffic.
    pub(in crate::simulation) bulk: bool,
    /// RTT samples of the interval, since they were last folded.
    pub(in crate::simulation) rtt: Spread,
    /// RTTs in the window of the figures; next to `rtt`, since both take each sample.
    pub(in crate::simulation) rtt_histogram: Histogram,
    /// Bytes acknowledged with which its transfer is complete; `u64::MAX`: it is, or is endless.
    pub(in crate::simulation) complete_at: u64,
    /// When the first SYN left; `Time::MAX`: it has not.
    pub(in crate::simulation) syn_at: Time,
    pub(in crate::simulation) dropped: u64,
    /// Index of its algorithm.
    pub(in crate::simulation) algorithm: u32,
    /// Overhead of the first link, counted in throughput.
    pub(in crate::simulation) overhead: u32,
}

const _: () =
    assert!(std::mem::offset_of!(PathRecord, rtt_histogram) + Histogram::HOT <= 64 && size_of::<PathRecord>() == 128);

impl PathRecord {
    /// A path on which nothing has happened, under the algorithm of this index.
    pub(in crate::simulation) fn new(
        algorithm: u32,
        overhead: u32,
        complete_at: u64,
        rtt_histogram: Histogram,
    ) -> Self {
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

    /// Takes an RTT sample.
    #[inline]
    pub(in crate::simulation) fn take_rtt(&mut self, rtt: Time) {
        self.rtt.add(rtt);
        if self.watched {
            self.rtt_histogram.count(rtt);
        }
    }

    /// Gives the RTT samples since it was last asked, and adds them to those of the figures if these are being taken.
    pub(in crate::simulation) fn take_rtts(&mut self) -> Spread {
        let spread = std::mem::take(&mut self.rtt);
        if self.watched {
            self.rtt_histogram.fold(&spread);
        }
        spread
    }

    /// Returns true if something about its sender is to be put on record.
    #[inline]
    pub(super) fn has_changed(&self, sender: &Sender) -> bool {
        sender.control.phase != self.phase
            || sender.state() != self.ca
            || sender.done() && sender.acked_bytes() == self.complete_at
    }

    /// Bytes received, with the overhead of the first link.
    pub(super) fn received_bytes(&self, received: &Received) -> u64 {
        received.bytes + u64::from(self.overhead) * received.packets
    }
}

/// Figures of both ends.
pub(in crate::simulation) struct EndFigures {
    /// Data packets that have arrived.
    pub(super) received: Received,
    pub(super) counters: Counters,
    /// Payload that has arrived, each byte counted once.
    pub(super) delivered_bytes: u64,
    /// Payload sent at least once.
    pub(super) new_bytes: u64,
    /// Packets sent and not acknowledged.
    pub(super) outstanding: u64,
    pub(super) cwnd_integral: u128,
    pub(super) sender: SenderState,
}

impl EndFigures {
    /// Counts of the path with this record up to now.
    pub(super) fn counts(&self, record: &PathRecord, now: Time) -> FlowCounts {
        let Self { received, counters, .. } = self;
        FlowCounts {
            at: now,
            delivered_bytes: self.delivered_bytes,
            new_bytes: self.new_bytes,
            outstanding: self.outstanding,
            sent_bytes: counters.sent_bytes + u64::from(record.overhead) * counters.sent,
            received_bytes: record.received_bytes(received),
            received: received.packets,
            queued_units: received.queued_units,
            sent: counters.sent,
            lost: counters.lost,
            retransmitted: counters.retransmitted,
            timeouts: counters.timeouts,
            cwnd_integral: self.cwnd_integral,
        }
    }
}
