//! Visits of flows: what one does in a batch.
//!
//! A visit lets the receiver take what has landed, the packets that have reached it since the last visit
//! ([`Visit::run_receiver`]); its ACKs go to an [`AckQueue`]. Then the sender takes the ACKs that have arrived
//! ([`Visit::run_sender`]); what it sends goes to the arrivals at the flow's first link ([`BatchOutbox`]). Between
//! visits, what is in flight waits in [`BetweenVisits`].

use super::applications::DueActions;
use super::stages::{Stages, Way};
use crate::simulation::apps::Apps;
use crate::simulation::hosts::{At, End, Ends, Group, Outbox, Protocol, StateNote, event_of};
use knee_core::cache::{fetch, fetch_first};
use knee_core::convert::{index_u32, low_u8};
use knee_core::{Packet, Payload, Time};
use knee_link::queue::Burst;
use knee_link::{Arrivals, Departure};
use knee_net::events::{Event, ack_key};
use knee_net::network::FlowPath;
use knee_net::observe::{FlowRecord, Interval};
use knee_net::output::SampleRow;

/// Prefetch distance in flows: of their own state, and of the data behind its pointers.
const FLOWS_AHEAD: (usize, usize) = (3, 1);

/// Visits the flows of one group, whose paths have consecutive numbers.
pub(super) struct Visitor<'a> {
    pub(super) hosts: Group<'a>,
    /// All paths.
    pub(super) paths: &'a [FlowPath],
    pub(super) stages: &'a Stages,
    /// By path.
    pub(super) pending: &'a mut [BetweenVisits],
    pub(super) outbox: &'a mut BatchOutbox,
    /// The interval that ends with this batch's beginning, if one does, and the records of the flows.
    pub(super) sample: Option<(Interval, &'a mut [FlowRecord])>,
    /// Applications, where there are any.
    pub(super) apps: Option<&'a mut Apps>,
}

impl Visitor<'_> {
    /// Lets receivers come to the beginning of the batch, `at`, and senders to `limit`.
    pub(super) fn visit_all(&mut self, visits: &[u32], prefetches: bool, at: Time, limit: Time) {
        for (k, &i) in visits.iter().enumerate() {
            if prefetches {
                self.fetch_ahead(&visits[k..]);
            }
            self.visit(i, &Steps { starts: None, received: Some(at), samples: true, sent: Some(limit) });
            self.end(i);
        }
    }

    /// The index of path `i` in what the group has by path.
    const fn place(&self, i: u32) -> usize {
        (i - self.hosts.first) as usize
    }

    /// Fetches what the flows behind the first of `visits` will need.
    #[inline]
    fn fetch_ahead(&self, visits: &[u32]) {
        if let Some(&i) = visits.get(FLOWS_AHEAD.0) {
            let (ends, flow) = self.hosts.look(i);
            if let Ends::Tcp(tcp) = ends {
                if self.sample.is_some() {
                    fetch(&tcp.sender);
                } else {
                    tcp.sender.fetch();
                }
                fetch(&tcp.receiver);
            }
            if self.sample.is_some() {
                fetch(flow);
            } else {
                fetch_first(flow, 1);
            }
            fetch(&self.paths[i as usize]);
            fetch_first(&self.pending[self.place(i)], 1);
        }
        if let Some(&i) = visits.get(FLOWS_AHEAD.1) {
            let (ends, flow) = self.hosts.look(i);
            if let Ends::Tcp(tcp) = ends {
                tcp.sender.fetch_behind();
                tcp.receiver.fetch_behind();
            }
            flow.rtt_histogram.fetch_counts();
            let acks = self.pending[self.place(i)].acks.as_slice();
            fetch_first(acks, size_of_val(acks).min(1024));
        }
    }

    /// Visits flow `i`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every visit")]
    pub(super) fn visit(&mut self, i: u32, steps: &Steps) {
        let (k, path) = (self.place(i), &self.paths[i as usize]);
        let Self { hosts, stages, pending, outbox, sample, apps, .. } = self;
        outbox.acks.load(&mut pending[k]);
        let sample = sample.as_mut().map(|(interval, records)| (*interval, &mut records[k]));
        let apps = apps.as_deref_mut().filter(|apps| apps.carries(i));
        let (pair, range) = (hosts.pair(i), &mut pending[k].landed);
        if matches!(pair.ends, Ends::Quic(_)) {
            Visit { pair: pair.quic(), path, stages, range, outbox, sample, apps }.run(steps);
        } else {
            Visit { pair: pair.tcp(), path, stages, range, outbox, sample, apps }.run(steps);
        }
    }

    /// Ends the visit of flow `i`: notes when it has something to do next.
    #[inline]
    pub(super) fn end(&mut self, i: u32) {
        let due = self.outbox.acks.next_arrival().min(self.hosts.look(i).0.due());
        let k = self.place(i);
        self.pending[k].due = due;
        self.outbox.acks.store(&mut self.pending[k]);
        (self.outbox.sent, self.outbox.received, self.outbox.moved_at) = (0, 0, Time::ZERO);
    }
}

/// Steps of a visit, in this order.
pub(super) struct Steps {
    /// It starts at this time.
    pub(super) starts: Option<Time>,
    /// Its receiver comes to this time.
    pub(super) received: Option<Time>,
    /// Its sample is taken then, if an interval ends.
    pub(super) samples: bool,
    /// Its sender comes to this time.
    pub(super) sent: Option<Time>,
}

/// A flow that is visited.
struct Visit<'a, Pair> {
    pair: Pair,
    path: &'a FlowPath,
    stages: &'a Stages,
    /// The range of its packets among those that have [`landed`](Stages::landed).
    range: &'a mut (u32, u32),
    outbox: &'a mut BatchOutbox,
    sample: Option<(Interval, &'a mut FlowRecord)>,
    /// Applications, if it carries a connection of one.
    apps: Option<&'a mut Apps>,
}

impl<Pair: Protocol> Visit<'_, Pair> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every visit")]
    fn run(mut self, steps: &Steps) {
        if let Some(now) = steps.starts {
            let at = &At { now, path: self.path, order: Event::Start(self.pair.path()).key() };
            self.pair.connect(at, self.outbox);
        }
        if let Some(at) = steps.received {
            self.run_receiver(at);
            if steps.samples {
                self.sample(at);
            }
        }
        if let Some(until) = steps.sent {
            self.run_sender(until);
        }
    }

    /// The receiver takes what has landed up to `at`, and its timers before.
    #[inline]
    fn run_receiver(&mut self, at: Time) {
        let Self { pair, path, outbox, range: (next, end), stages, .. } = self;
        let (path, outbox, way) = (*path, &mut **outbox, &stages.ways[path.route as usize]);
        let begin = *next as usize;
        let landed = &stages.landed.packets[begin..*end as usize];
        // As a batch begins, `distribute` has left nothing later. `end_transfers` brings a receiver to the time of an
        // ACK: what a wire or a link's pipe delivers then comes before that ACK, what a medium delivers after it.
        let until = if way.lands_late() { at.saturating_sub(Time::from_nanos(1)) } else { at };
        let count = match landed.last() {
            Some(last) if last.at > until => landed.partition_point(|arrival| arrival.at <= until),
            _ => landed.len(),
        };
        *next += index_u32(count);
        let places = stages.landed.places.get(begin..begin + count).unwrap_or_default();
        if count > 0 {
            outbox.received += index_u32(count);
            outbox.moved_at = outbox.moved_at.max(landed[count - 1].at);
        }
        for (k, &Departure { at: now, ref packet, .. }) in landed[..count].iter().enumerate() {
            while pair.receiver_due() < now {
                outbox.fire(pair, End::Receiver, path, now);
            }
            let order = way.cause | u64::from(places.get(k).copied().unwrap_or(pair.path()));
            pair.on_data(packet, &At { now, path, order }, outbox);
        }
        while pair.receiver_due() < at {
            outbox.fire(pair, End::Receiver, path, at);
        }
    }

    /// Takes the flow's sample, if an interval ends now and the flow has started.
    #[inline]
    fn sample(&mut self, now: Time) {
        if let Some((interval, flow_record)) = &mut self.sample
            && flow_record.start() < now
        {
            let (counts, sender, rtts) = self.pair.observe(now);
            self.outbox.samples.push(flow_record.row(self.pair.path(), *interval, &counts, &rtts).with_sender(&sender));
        }
    }

    /// The sender takes its ACKs and timers before `until`.
    #[inline]
    fn run_sender(&mut self, until: Time) {
        let Self { pair, path, outbox, apps, .. } = self;
        let (path, outbox) = (*path, &mut **outbox);
        loop {
            let limit = outbox.acks.next_arrival().min(until);
            while pair.sender_due() < limit {
                outbox.fire(pair, End::Sender, path, limit);
            }
            if limit == until {
                return;
            }
            let ack = outbox.acks.take();
            let at = &At { now: ack.at, path, order: ack.tie_break() };
            pair.on_ack(ack.payload_and_flags(), at, outbox);
            if let Some(apps) = apps {
                outbox.moved_at = ack.at;
                pair.tell(ack.at, apps);
                outbox.due.take_from(apps, ack.at, at.order);
            }
        }
    }
}

/// Takes what the visited flow sends.
#[repr(align(128))]
#[derive(Clone)]
pub(super) struct BatchOutbox {
    /// By stage, what arrives there in this batch.
    pub(super) arrivals: Vec<Arrivals>,
    /// ACKs of the visited flow, from its receiver to its sender.
    pub(super) acks: AckQueue,
    /// By route, where data sets out.
    ways: Vec<Way>,
    /// RTT samples of connections in this batch, with the flows to which they belong.
    pub(super) rtts: Vec<(u32, Time)>,
    /// Changes of senders' states in this batch.
    pub(super) changes: Vec<StateNote>,
    /// Samples of flows that were visited in this batch.
    pub(super) samples: Vec<SampleRow>,
    /// Transfers completed in this batch.
    pub(super) completed: Vec<(Time, u32)>,
    /// News for applications.
    pub(super) due: DueActions,
    /// Packets that the visited flow has sent.
    pub(super) sent: u32,
    /// Packets that its receiver has taken during this visit.
    pub(super) received: u32,
    /// Time of the latest delivery of a packet or an ACK of a connection.
    pub(super) moved_at: Time,
}

impl Outbox for BatchOutbox {
    #[inline]
    fn data(&mut self, first: Packet, count: u32, &At { path, order, .. }: &At<'_>) {
        self.sent += count;
        let Way { first_stage, link_key, .. } = self.ways[path.route as usize];
        self.arrivals[first_stage as usize].push(Burst { first, count }, order, order < link_key);
    }

    #[inline]
    fn ack(&mut self, ack: Packet, at: &At<'_>) {
        self.acks.push(&ack, at);
    }

    #[inline]
    fn rtt(&mut self, owner: u32, rtt: Time) {
        self.rtts.push((owner, rtt));
    }

    fn changed(&mut self, change: StateNote) {
        self.changes.push(change);
    }

    fn completed(&mut self, flow: u32, now: Time) {
        self.completed.push((now, flow));
    }
}

impl BatchOutbox {
    pub(super) fn new(stages: &Stages) -> Self {
        Self {
            arrivals: stages.no_arrivals(),
            acks: AckQueue::default(),
            ways: stages.ways.clone(),
            rtts: Vec::new(),
            changes: Vec::new(),
            samples: Vec::new(),
            completed: Vec::new(),
            due: DueActions::default(),
            sent: 0,
            received: 0,
            moved_at: Time::ZERO,
        }
    }

    /// Adds what flows did that were visited at the same time and come behind those here.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.changes.append(&mut other.changes);
        self.samples.append(&mut other.samples);
        self.completed.append(&mut other.completed);
        for (arrivals, others) in self.arrivals.iter_mut().zip(&mut other.arrivals) {
            arrivals.append(others);
        }
    }

    /// Fires the next timer of an end if it is due before `limit`. If it is not, its exact time is kept, so that it is
    /// not asked again before.
    #[inline(never)]
    fn fire(&mut self, pair: &mut impl Protocol, end: End, path: &FlowPath, limit: Time) {
        let Some((due, timer)) = pair.next_timer(end, limit) else { return };
        let event = event_of(timer, pair.path());
        let order = if end == End::Sender { event.key() } else { event.cause(pair.path()) };
        pair.on_timer(timer, &At { now: due, path, order }, self);
    }
}

/// Packets that wait for the receiver of a path between two visits, and ACKs that wait for its sender.
#[derive(Clone)]
pub(super) struct BetweenVisits {
    /// When it has something to do, at the earliest, apart from taking what has landed.
    pub(super) due: Time,
    /// The range of [`super::stages::Landed::packets`] that its receiver has not taken.
    pub(super) landed: (u32, u32),
    /// ACKs in flight, in the order in which they arrive.
    pub(super) acks: Vec<AckInFlight>,
    /// When the last of them arrives.
    last_arrival: Time,
}

impl BetweenVisits {
    /// Nothing waits: the flow has not started.
    pub(super) const NOTHING: Self =
        Self { due: Time::MAX, landed: (0, 0), acks: Vec::new(), last_arrival: Time::ZERO };

    /// How many packets have landed that its receiver has not taken.
    pub(super) fn count_landed(&self) -> u64 {
        u64::from(self.landed.1 - self.landed.0)
    }
}

/// An ACK in flight.
#[derive(Clone, Copy)]
pub(super) struct AckInFlight {
    /// When it arrives at its sender.
    pub(super) at: Time,
    payload: Payload,
    /// Its tie-break key among events of that time, and its flags below.
    tie_break_and_flags: u64,
}

const _: () = assert!(size_of::<AckInFlight>() == 32);

impl AckInFlight {
    /// Payload and flags of its packet.
    #[inline]
    pub(super) const fn payload_and_flags(&self) -> (Payload, u8) {
        (self.payload, low_u8(self.tie_break_and_flags))
    }

    /// Its tie-break key among events of that time.
    #[inline]
    pub(super) const fn tie_break(&self) -> u64 {
        self.tie_break_and_flags >> u8::BITS
    }

    /// Order of the ACKs of a flow.
    const fn key(&self) -> (Time, u64) {
        (self.at, self.tie_break())
    }
}

/// The ACKs of the flow that is visited, from its receiver to its sender. The same few lines of memory serve flow after
/// flow: a batch is mostly as long as the delay of the ACKs, so that most arrive within the visit.
#[derive(Clone, Default)]
pub(super) struct AckQueue {
    /// ACKs taken during the visit, and behind them ACKs in flight.
    acks: Vec<AckInFlight>,
    /// How many have been taken.
    taken: usize,
    /// When the last of those in flight arrives.
    last_arrival: Time,
    /// How many ACKs were in flight as the visit began; if any, `acks` is the flow's own vector, swapped in.
    before: usize,
}

impl AckQueue {
    /// A visit begins: takes what is in flight from `pending`.
    #[inline]
    pub(super) fn load(&mut self, pending: &mut BetweenVisits) {
        self.last_arrival = pending.last_arrival;
        self.before = pending.acks.len();
        if self.before > 0 {
            std::mem::swap(&mut self.acks, &mut pending.acks);
        }
    }

    /// A visit ends: leaves what has not arrived in `pending`.
    #[inline]
    pub(super) fn store(&mut self, pending: &mut BetweenVisits) {
        pending.last_arrival = self.last_arrival;
        self.acks.drain(..self.taken);
        if self.before > 0 {
            std::mem::swap(&mut self.acks, &mut pending.acks);
        } else if !self.acks.is_empty() {
            pending.acks.append(&mut self.acks);
        }
        self.taken = 0;
    }

    /// How many more are in flight than when the visit began.
    pub(super) fn more(&self) -> i32 {
        index_u32(self.acks.len() - self.taken).cast_signed() - index_u32(self.before).cast_signed()
    }

    /// When the next ACK arrives; `Time::MAX`: none is in flight.
    #[inline]
    pub(super) fn next_arrival(&self) -> Time {
        self.acks.get(self.taken).map_or(Time::MAX, |ack| ack.at)
    }

    /// Takes the next ACK.
    ///
    /// # Panics
    /// If none is in flight.
    #[inline]
    pub(super) fn take(&mut self) -> AckInFlight {
        let next = self.acks[self.taken];
        self.taken += 1;
        next
    }

    /// An ACK leaves now.
    #[inline]
    pub(super) fn push(&mut self, ack: &Packet, &At { now, path, order }: &At<'_>) {
        let Packet { payload, flags, .. } = *ack;
        let at = now + path.ack_delay;
        let tie_break_and_flags = ack_key(path.ack_pipe, order) << u8::BITS | u64::from(flags);
        self.acks.push(AckInFlight { at, payload, tie_break_and_flags });
        if at <= self.last_arrival {
            self.overtake();
        } else {
            self.last_arrival = at;
        }
    }

    /// Brings the last ACK to its place: those on a path that has become shorter overtake.
    #[cold]
    fn overtake(&mut self) {
        let mut k = self.acks.len() - 1;
        while k > self.taken && self.acks[k - 1].key() > self.acks[k].key() {
            self.acks.swap(k - 1, k);
            k -= 1;
        }
        self.last_arrival = self.acks[self.acks.len() - 1].at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_net::network::FlowPath;
    use proptest::prelude::*;

    proptest! {
        /// Visits of a flow, in each of which ACKs leave after each other on paths of any delay, by one pipe for each
        /// delay; then those are taken that arrive before the end of the visit.
        #[test]
        fn acks_arrive_once_at_their_time_in_order(
            visits in prop::collection::vec((1u64..50, prop::collection::vec((0u64..5, 1u64..5, 0u64..3), 0..8)), 1..12)
        ) {
            let (mut queue, mut pending) = (AckQueue::default(), BetweenVisits::NOTHING);
            // Time, tie-break key and number of those in flight.
            let mut expected: Vec<(Time, u64, u32)> = Vec::new();
            let (mut now, mut until, mut sent) = (Time::ZERO, Time::ZERO, 0);
            for (length, acks) in visits {
                until += Time::from_nanos(length);
                queue.load(&mut pending);
                for (gap, delay, rank) in acks {
                    now += Time::from_nanos(gap);
                    // It arrives within this visit at the earliest, or later, even long after one that leaves next.
                    let ack_delay = until.saturating_sub(now) + Time::from_nanos(delay * 10);
                    let ack_pipe = delay as u32;
                    let (base_rtt, mirrored) = (ack_delay, false);
                    let flow_path = FlowPath { route: 0, ack_pipe, ack_delay, base_rtt, mirrored };
                    let ack = Packet { payload: Payload::Stored(sent), flags: 5, ..Packet::default() };
                    queue.push(&ack, &At { now, path: &flow_path, order: rank });
                    expected.push((now + ack_delay, ack_key(flow_path.ack_pipe, rank), sent));
                    sent += 1;
                }
                expected.sort_unstable();
                let arrived = expected.iter().take_while(|ack| ack.0 < until).count();
                for (at, tie_break, sent) in expected.drain(..arrived) {
                    prop_assert_eq!(queue.next_arrival(), at);
                    let came = queue.take();
                    prop_assert_eq!((came.at, came.tie_break(), came.payload_and_flags()), (at, tie_break, (Payload::Stored(sent), 5)));
                }
                prop_assert_eq!(queue.next_arrival(), expected.first().map_or(Time::MAX, |ack| ack.0));
                queue.store(&mut pending);
                prop_assert_eq!(pending.acks.len(), expected.len());
            }
        }
    }
}
