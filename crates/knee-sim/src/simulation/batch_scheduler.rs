//! Conservative-lookahead scheduler: each flow, then each link, up to the minimum ACK delay ahead.
//!
//! Where data crosses wires without circles and ACKs return over nothing but a delay, a sender hears of what it does
//! now no sooner than after the shortest delay of an ACK. So time passes in batches of that length at the most:
//!
//! 1. What has landed up to the beginning of the batch is sorted by flow ([`Landings`]).
//! 2. Flow by flow, the receiver takes it, and its ACKs wait for their sender, with the time at which they arrive
//!    ([`AckPath`](super::ack_path::AckPath)). Then the sender takes the ACKs and timers of the batch, and what it
//!    sends is noted.
//! 3. Link by link, in the order in which data crosses them, what arrives in the batch goes through ([`Stages`]).
//!
//! So a flow's state is fetched once for all that it does in a batch, nothing waits in a heap, and the code of one end
//! at a time is at hand. Results are bit-identical to the event scheduler's: events keep their times, those of one time
//! have the order of [`Event`], and what concerns the whole run (samples, changes, flows that stop) happens between two
//! batches.

mod applications;
mod outbox;

use super::ack_path::Parked;
use super::ends::{Ends, TcpEnds};
use super::landings::Landings;
use super::obstacle::Obstacle;
use super::stages::{START, Stages, landed_before};
use super::world::World;
use knee_core::Time;
use knee_core::cache::{fetch, fetch_first};
use knee_core::convert::index_u32;
use knee_net::events::{Event, Events};
use knee_net::observe::Interval;
use knee_net::spec::Change;
use knee_tcp::receiver::Receiver;
use knee_tcp::sender::Sender;
use outbox::BatchOutbox;

/// Batches pay where at least one flow in 16 is active in each.
const IDLE_FLOWS: u64 = 16;
/// Looking through this many flows costs as much as a visit.
const LOOKS: u64 = 64;
/// Prefetch distance in flows: of their own state, and of the data behind its pointers.
const FLOWS_AHEAD: (usize, usize) = (3, 1);

/// Lets time pass in batches.
pub(super) struct BatchScheduler {
    /// What concerns the whole run.
    agenda: Events,
    /// Start of the next batch; receivers may lag behind it.
    at: Time,
    /// The shortest delay of an ACK.
    min_ack_delay: Time,
    landings: Landings,
    /// ACKs in flight, by flow.
    parked: Vec<Parked>,
    /// When each flow has something to do, at the earliest, apart from taking what has landed.
    dues: Vec<Time>,
    /// Flows that have not started, the next one last.
    starts: Vec<u32>,
    /// Flows to be visited in this batch.
    visits: Vec<u32>,
    outbox: BatchOutbox,
}

/// The shortest delay of an ACK, changes included.
fn min_ack_delay(world: &World) -> Time {
    let changed = world.changes.iter().filter_map(|change| match change.what {
        Change::Rtt { flow, rtt } => Some(world.network.flow_paths[flow].ack_delay_at(Time::from_nanos(rtt))),
        _ => None,
    });
    world.network.flow_paths.iter().map(|path| path.ack_delay).chain(changed).min().unwrap_or(Time::ZERO)
}

impl BatchScheduler {
    /// The stages of `world`'s network.
    ///
    /// # Errors
    /// Where batches cannot be, or do not pay.
    pub(super) fn stages(world: &World) -> Result<Stages, Obstacle> {
        if world.ends.iter().any(|(_, ends)| matches!(ends, Ends::Udp(_))) {
            return Err(Obstacle::Udp);
        }
        if !world.connections.are_independent() {
            return Err(Obstacle::DependentConnections);
        }
        let (stages, delay) = (Stages::new(&world.network)?, min_ack_delay(world));
        if !world.connections.is_empty() && stages.arrivals_coincide() {
            return Err(Obstacle::ConnectionsOverMedium);
        }
        if delay == Time::ZERO {
            return Err(Obstacle::NoAckDelay);
        }
        let packets = stages.packets_in(delay.min(stages.longest(world)), world);
        if packets * IDLE_FLOWS < world.flows.len() as u64 {
            return Err(Obstacle::FewActive);
        }
        Ok(stages)
    }

    /// A scheduler for `world`, in which nothing has happened yet.
    pub(super) fn new(world: &World, stages: Stages, agenda: Events) -> Self {
        let flows = world.flows.len();
        let all = (0..flows).map(|i| (world.record.start(i), index_u32(i)));
        let (applications, mut starts): (Vec<_>, Vec<_>) = all.partition(|&(_, i)| world.ends.is_application(i));
        starts.sort_unstable_by(|a, b| b.cmp(a));
        let mut scheduler = Self {
            agenda,
            at: Time::ZERO,
            min_ack_delay: min_ack_delay(world),
            landings: Landings::new(flows),
            parked: std::iter::repeat_with(Parked::default).take(flows).collect(),
            dues: vec![Time::MAX; flows],
            starts: starts.into_iter().map(|(_, i)| i).collect(),
            visits: Vec::new(),
            outbox: BatchOutbox::new(stages),
        };
        for (at, i) in applications {
            scheduler.add_start(i, at);
        }
        scheduler
    }

    /// Gives the agenda away, before the first step.
    pub(super) fn take_agenda(&mut self) -> Events {
        std::mem::take(&mut self.agenda)
    }

    /// Packets between links and receivers.
    pub(super) fn under_way(&self, world: &World) -> u64 {
        self.landings.len() + self.outbox.stages.under_way(world)
    }

    /// Goes through a batch, or through what concerns the whole run at its beginning. Gives how much work that was:
    /// one, visits of flows, and packets that landed. To look through the flows for those to be visited is little work,
    /// but not where there are many.
    pub(super) fn step(&mut self, world: &mut World) -> u64 {
        let at = self.at;
        let next = self.agenda.peek().filter(|(due, _)| *due < world.end);
        match next {
            Some((due, Event::Sample)) if due <= at => self.batch_with_sample(world),
            Some((due, event)) if due <= at => {
                self.receive_all(world, at);
                world.now = at;
                self.agenda.pop();
                world.on_agenda(event);
                self.carry_out(world, at);
                1
            }
            None if at >= world.end => {
                self.receive_all(world, at);
                world.reach_end();
                1
            }
            _ => self.batch(world, next.map_or(world.end, |(due, _)| due), None),
        }
    }

    /// A batch that begins with a sample, which is taken of each flow as it is visited, unless something else is due at
    /// just that time.
    fn batch_with_sample(&mut self, world: &mut World) -> u64 {
        let at = self.at;
        world.now = at;
        self.agenda.pop();
        self.agenda.push(at + world.interval, Event::Sample);
        let next = self.agenda.next().min(world.end);
        // An application's sample is that of all its connections.
        if next > at && world.connections.is_empty() {
            let interval = world.record.end_interval(at);
            if interval.is_some() {
                world.sample_links();
            }
            return self.batch(world, next, interval);
        }
        self.receive_all(world, at);
        world.now = at;
        world.sample();
        1
    }

    /// A batch, perhaps with a sample, that ends by `until`, before which nothing concerns the whole run.
    fn batch(&mut self, world: &mut World, until: Time, interval: Option<Interval>) -> u64 {
        let at = self.at;
        let packets = self.landings.distribute(world, &self.outbox.stages, at) as u64;
        let limit = until.min(at + self.min_ack_delay).min(at + self.outbox.stages.longest(world));
        // Which halves are free for new connections is known at the beginning.
        let limit = limit.min(world.connections.next_reuse(at));
        let (earliest, looks) = (self.choose(limit), 1 + world.flows.len() as u64 / LOOKS);
        if interval.is_some() {
            self.visits.clear();
            self.visits.extend(0..index_u32(world.flows.len()));
        }
        let start = self.starts.last().map_or(Time::MAX, |&i| world.record.start(i as usize));
        let start = start.min(self.outbox.due.next());
        let departs = self.outbox.stages.next_departure(world);
        if self.visits.is_empty() && departs > limit && start >= limit {
            // Nothing happens: on to what comes next. What leaves just at the end of a batch is part of it.
            self.at = earliest.min(start).min(until).min(departs - Time::from_nanos(1));
            world.now = self.at;
            return looks;
        }
        let visits = self.visits.len() as u64;
        self.outbox.stages.begin(at);
        self.visit_all(world, limit, interval);
        self.serve_applications(world, limit);
        let last = world.last_before(limit);
        self.outbox.stages.advance(world, limit, last);
        self.at = limit;
        self.end_transfers(world);
        // Flows were visited one after the other, each up to the end.
        world.now = limit;
        looks + visits + packets
    }

    /// Lists the flows that have something to do before `limit`. Gives when the first of the others has.
    fn choose(&mut self, limit: Time) -> Time {
        self.visits.clear();
        let mut earliest = Time::MAX;
        for ((i, &due), waiting) in (0..).zip(&self.dues).zip(self.landings.waiting()) {
            if due < limit || waiting {
                self.visits.push(i);
            } else {
                earliest = earliest.min(due);
            }
        }
        earliest
    }

    /// Step 2 for all flows that have something to do: receivers come to the beginning of the batch, senders to
    /// `limit`.
    fn visit_all(&mut self, world: &mut World, limit: Time, interval: Option<Interval>) {
        let visits = std::mem::take(&mut self.visits);
        for (k, &i) in visits.iter().enumerate() {
            if world.prefetches {
                self.fetch_ahead(world, &visits[k..], interval.is_some());
            }
            self.visit(world, i, |scheduler, world, tcp| {
                scheduler.receive(world, &mut tcp.receiver, i, scheduler.at);
                if let Some(interval) = interval {
                    world.now = scheduler.at;
                    if world.has_started(i) {
                        world.sample_ends(i, interval, &tcp.figures(world.now));
                    }
                }
                scheduler.send(world, &mut tcp.sender, i, limit);
            });
        }
        self.visits = visits;
        self.visit_starts(world, limit);
    }

    /// Flows that start before `limit` do, and come that far.
    fn visit_starts(&mut self, world: &mut World, limit: Time) {
        while let Some(&i) = self.starts.last()
            && world.record.start(i as usize) < limit
        {
            self.starts.pop();
            world.now = world.record.start(i as usize);
            self.enter(world, i);
            self.outbox.tie_break = START | u64::from(i);
            world.start(i, &mut self.outbox);
            world.with_tcp(i, |world, tcp| self.send(world, &mut tcp.sender, i, limit));
            self.leave(world, i);
        }
    }

    /// Fetches what the flows behind the first of `visits` will need.
    #[inline]
    fn fetch_ahead(&self, world: &World, visits: &[u32], sampled: bool) {
        if let Some(&i) = visits.get(FLOWS_AHEAD.0) {
            let tcp = world.ends.tcp(i);
            let i = i as usize;
            if sampled {
                fetch(&tcp.sender);
                fetch(&world.flows[i]);
            } else {
                tcp.sender.fetch();
                fetch_first(&world.flows[i], 1);
            }
            fetch(&tcp.receiver);
            fetch(&world.network.flow_paths[i]);
            fetch_first(&self.parked[i], 1);
        }
        if let Some(&i) = visits.get(FLOWS_AHEAD.1) {
            let TcpEnds { sender, receiver } = world.ends.tcp(i);
            sender.fetch_behind();
            receiver.fetch_behind();
            world.flows[i as usize].rtt_histogram.fetch_counts();
            let acks = self.parked[i as usize].acks.as_slice();
            fetch_first(acks, size_of_val(acks).min(1024));
        }
    }

    /// Lets TCP's ends of path `i` act in a visit.
    #[inline]
    fn visit(&mut self, world: &mut World, i: u32, act: impl FnOnce(&mut Self, &mut World, &mut TcpEnds)) {
        self.enter(world, i);
        world.with_tcp(i, |world, tcp| act(self, world, tcp));
        self.leave(world, i);
    }

    /// A visit of a flow begins.
    #[inline]
    fn enter(&mut self, world: &World, i: u32) {
        self.take_path_of(world, i);
        self.outbox.acks.enter(&mut self.parked[i as usize]);
    }

    /// What is sent takes the path of flow `i`.
    #[inline]
    fn take_path_of(&mut self, world: &World, i: u32) {
        (self.outbox.stage, self.outbox.landing) =
            self.outbox.stages.of_route(world.network.flow_paths[i as usize].route);
        self.outbox.rank = self.outbox.landing;
    }

    /// A visit of a flow ends: notes when it has something to do.
    #[inline]
    fn leave(&mut self, world: &mut World, i: u32) {
        self.count_packets(world, i);
        let TcpEnds { sender, receiver } = world.ends.tcp(i);
        self.dues[i as usize] = self.outbox.acks.next_arrival().min(sender.due()).min(receiver.due());
        self.outbox.acks.leave(&mut self.parked[i as usize]);
    }

    /// All receivers take what has landed up to `at`, and their timers before.
    fn receive_all(&mut self, world: &mut World, at: Time) {
        self.landings.distribute(world, &self.outbox.stages, at);
        self.choose(at);
        let visits = std::mem::take(&mut self.visits);
        for &i in &visits {
            self.visit(world, i, |scheduler, world, tcp| scheduler.receive(world, &mut tcp.receiver, i, at));
        }
        self.visits = visits;
    }

    /// A receiver takes what has landed up to `at`, and its timers before.
    #[inline]
    fn receive(&mut self, world: &mut World, receiver: &mut Receiver, i: u32, at: Time) {
        let (path, outbox) = (world.network.flow_paths[i as usize], &mut self.outbox);
        let (landed, places) = self.landings.take(i, landed_before(at, outbox.landing));
        if let Some(last) = landed.last() {
            outbox.landed += index_u32(landed.len());
            outbox.moved_at = outbox.moved_at.max(last.arrived);
        }
        for (k, packet) in landed.iter().enumerate() {
            let lands = packet.arrived;
            while receiver.due() < lands {
                outbox.receiver_timer(world, receiver, i, lands);
            }
            world.now = lands;
            outbox.place = places.get(k).copied().unwrap_or(i);
            world.on_data(receiver, packet, &path, outbox);
            world.note_packet(receiver, packet, outbox);
        }
        while receiver.due() < at {
            outbox.receiver_timer(world, receiver, i, at);
        }
    }

    /// A sender takes its ACKs and timers before `until`.
    #[inline]
    fn send(&mut self, world: &mut World, sender: &mut Sender, i: u32, until: Time) {
        let outbox = &mut self.outbox;
        loop {
            let limit = outbox.acks.next_arrival().min(until);
            while sender.due() < limit {
                outbox.sender_timer(world, sender, i, limit);
            }
            let Some(returning) = outbox.acks.next(until) else { return };
            world.now = returning.at;
            outbox.tie_break = returning.tie_break();
            world.on_ack(sender, i, returning.ack(), outbox);
            outbox.moved_at = returning.at;
            world.note_acknowledged(sender, i);
            outbox.due.take_from(world, outbox.tie_break);
        }
    }

    /// What ends with the transfers completed in this batch, at the end of which it is now: their figures, and the
    /// window in which all flows run. Receivers come to each completion for it.
    fn end_transfers(&mut self, world: &mut World) {
        if self.outbox.completed.is_empty() {
            return;
        }
        self.landings.distribute(world, &self.outbox.stages, self.at);
        let mut completed = std::mem::take(&mut self.outbox.completed);
        completed.sort_unstable();
        for (at, i) in completed {
            if world.record.in_common() {
                self.receive_all(world, at);
            } else {
                self.visit(world, i, |scheduler, world, tcp| scheduler.receive(world, &mut tcp.receiver, i, at));
            }
            world.now = at;
            world.end_transfer(i);
        }
    }
}
