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
use super::hosts::{At, End};
use super::landings::Landings;
use super::model::Model;
use super::obstacle::Obstacle;
use super::stages::{Stages, landed_before};
use knee_core::Time;
use knee_core::cache::{fetch, fetch_first};
use knee_core::convert::index_u32;
use knee_net::events::{Event, Events};
use knee_net::observe::Interval;
use knee_net::spec::Change;
use knee_tcp::ends::TcpEnds;
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
fn min_ack_delay(model: &Model) -> Time {
    let paths = &model.network.flow_paths;
    let changed = model.recorder.changes.iter().filter_map(|change| match change.what {
        Change::Rtt { flow, rtt } => Some(paths[flow].ack_delay_at(Time::from_nanos(rtt))),
        _ => None,
    });
    paths.iter().map(|path| path.ack_delay).chain(changed).min().unwrap_or(Time::ZERO)
}

impl BatchScheduler {
    /// The stages of `model`'s network.
    ///
    /// # Errors
    /// Where batches cannot be, or do not pay.
    pub(super) fn stages(model: &Model) -> Result<Stages, Obstacle> {
        if (0..model.hosts.len()).any(|i| model.hosts.is_udp(i)) {
            return Err(Obstacle::Udp);
        }
        if !model.apps.are_independent() {
            return Err(Obstacle::DependentConnections);
        }
        let (stages, delay) = (Stages::new(&model.network)?, min_ack_delay(model));
        if !model.apps.is_empty() && stages.arrivals_coincide() {
            return Err(Obstacle::ConnectionsOverMedium);
        }
        if delay == Time::ZERO {
            return Err(Obstacle::NoAckDelay);
        }
        let packets = stages.packets_in(delay.min(stages.longest(&model.network)), &model.network);
        if packets * IDLE_FLOWS < u64::from(model.hosts.len()) {
            return Err(Obstacle::FewActive);
        }
        Ok(stages)
    }

    /// A scheduler for `model`, in which nothing has happened yet.
    pub(super) fn new(model: &Model, stages: Stages, agenda: Events) -> Self {
        let flows = model.hosts.len();
        let all = (0..flows).map(|i| (model.recorder.start(i), i));
        let (applications, mut starts): (Vec<_>, Vec<_>) = all.partition(|&(_, i)| model.hosts.is_application(i));
        starts.sort_unstable_by(|a, b| b.cmp(a));
        let mut scheduler = Self {
            agenda,
            at: Time::ZERO,
            min_ack_delay: min_ack_delay(model),
            landings: Landings::new(flows as usize),
            parked: std::iter::repeat_with(Parked::default).take(flows as usize).collect(),
            dues: vec![Time::MAX; flows as usize],
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

    /// Checks the model's books.
    pub(super) fn audit(&self, model: &Model) -> Result<(), String> {
        model.audit(self.under_way(model), self.acks_of_connections(model.hosts.common.scenario_flows))
    }

    /// Packets between links and receivers.
    pub(super) fn under_way(&self, model: &Model) -> u64 {
        self.landings.len() + self.outbox.stages.under_way(&model.network)
    }

    /// Goes through a batch, or through what concerns the whole run at its beginning. Gives how much work that was:
    /// one, visits of flows, and packets that landed. To look through the flows for those to be visited is little work,
    /// but not where there are many.
    pub(super) fn step(&mut self, model: &mut Model) -> u64 {
        let at = self.at;
        let next = self.agenda.peek().filter(|(due, _)| *due < model.end);
        match next {
            Some((due, Event::Sample)) if due <= at => self.batch_with_sample(model),
            Some((due, event)) if due <= at => {
                self.receive_all(model, at);
                model.now = at;
                self.agenda.pop();
                model.on_agenda(event);
                self.carry_out(model, at);
                1
            }
            None if at >= model.end => {
                self.receive_all(model, at);
                model.reach_end();
                1
            }
            _ => self.batch(model, next.map_or(model.end, |(due, _)| due), None),
        }
    }

    /// A batch that begins with a sample, which is taken of each flow as it is visited, unless something else is due at
    /// just that time.
    fn batch_with_sample(&mut self, model: &mut Model) -> u64 {
        let at = self.at;
        model.now = at;
        self.agenda.pop();
        self.agenda.push(at + model.recorder.interval, Event::Sample);
        let next = self.agenda.next().min(model.end);
        // An application's sample is that of all its connections.
        if next > at && model.apps.is_empty() {
            let (recorder, network, mut observed) = model.observed();
            let interval = recorder.record.end_interval(at);
            if interval.is_some() {
                recorder.sample_links(at, network, &mut observed);
            }
            return self.batch(model, next, interval);
        }
        self.receive_all(model, at);
        model.now = at;
        model.on_agenda(Event::Sample);
        1
    }

    /// A batch, perhaps with a sample, that ends by `until`, before which nothing concerns the whole run.
    fn batch(&mut self, model: &mut Model, until: Time, interval: Option<Interval>) -> u64 {
        let at = self.at;
        let packets = self.landings.distribute(&mut model.network, &self.outbox.stages, at) as u64;
        let limit = until.min(at + self.min_ack_delay).min(at + self.outbox.stages.longest(&model.network));
        // Which halves are free for new connections is known at the beginning.
        let limit = limit.min(model.apps.next_reuse(at));
        let (earliest, looks) = (self.choose(limit), 1 + u64::from(model.hosts.len()) / LOOKS);
        if interval.is_some() {
            self.visits.clear();
            self.visits.extend(0..model.hosts.len());
        }
        let start = self.starts.last().map_or(Time::MAX, |&i| model.recorder.start(i));
        let start = start.min(self.outbox.due.next());
        let departs = self.outbox.stages.next_departure(&model.network);
        if self.visits.is_empty() && departs > limit && start >= limit {
            // Nothing happens: on to what comes next. What leaves just at the end of a batch is part of it.
            self.at = earliest.min(start).min(until).min(departs - Time::from_nanos(1));
            model.now = self.at;
            return looks;
        }
        let visits = self.visits.len() as u64;
        self.outbox.stages.begin(at);
        self.visit_all(model, limit, interval);
        self.serve_applications(model, limit);
        self.outbox.changes.drain(..).for_each(|change| model.record(change));
        self.outbox.stages.advance(model, limit);
        self.at = limit;
        self.end_transfers(model);
        // Flows were visited one after the other, each up to the end.
        model.now = limit;
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
    fn visit_all(&mut self, model: &mut Model, limit: Time, interval: Option<Interval>) {
        let (at, visits) = (self.at, std::mem::take(&mut self.visits));
        for (k, &i) in visits.iter().enumerate() {
            if model.prefetches {
                self.fetch_ahead(model, &visits[k..], interval.is_some());
            }
            self.enter(model, i);
            self.receive(model, i, at);
            if let Some(interval) = interval {
                let (recorder, _, mut observed) = model.observed();
                recorder.sample_flow(i, interval, at, &mut observed);
            }
            self.send(model, i, limit);
            self.leave(model, i);
        }
        self.visits = visits;
        self.visit_starts(model, limit);
    }

    /// Flows that start before `limit` do, and come that far.
    fn visit_starts(&mut self, model: &mut Model, limit: Time) {
        while let Some(&i) = self.starts.last()
            && model.recorder.start(i) < limit
        {
            self.starts.pop();
            model.now = model.recorder.start(i);
            model.begin_flow(i);
            self.enter(model, i);
            self.outbox.tie_break = Event::Start(i).key();
            model.hosts.tcp(i).connect(model.now, &mut self.outbox);
            self.send(model, i, limit);
            self.leave(model, i);
        }
    }

    /// Fetches what the flows behind the first of `visits` will need.
    #[inline]
    fn fetch_ahead(&self, Model { hosts, network, .. }: &Model, visits: &[u32], sampled: bool) {
        if let Some(&i) = visits.get(FLOWS_AHEAD.0) {
            let (tcp, i) = (hosts.tcp_ends(i), i as usize);
            if sampled {
                fetch(&tcp.sender);
                fetch(&hosts.flows[i]);
            } else {
                tcp.sender.fetch();
                fetch_first(&hosts.flows[i], 1);
            }
            fetch(&tcp.receiver);
            fetch(&network.flow_paths[i]);
            fetch_first(&self.parked[i], 1);
        }
        if let Some(&i) = visits.get(FLOWS_AHEAD.1) {
            let TcpEnds { sender, receiver } = hosts.tcp_ends(i);
            sender.fetch_behind();
            receiver.fetch_behind();
            hosts.flows[i as usize].rtt_histogram.fetch_counts();
            let acks = self.parked[i as usize].acks.as_slice();
            fetch_first(acks, size_of_val(acks).min(1024));
        }
    }

    /// A visit of a flow begins.
    #[inline]
    fn enter(&mut self, model: &Model, i: u32) {
        self.take_path_of(model, i);
        self.outbox.acks.enter(&mut self.parked[i as usize]);
    }

    /// What is sent takes the path of flow `i`.
    #[inline]
    fn take_path_of(&mut self, model: &Model, i: u32) {
        let outbox = &mut self.outbox;
        (outbox.stage, outbox.landing) = outbox.stages.of_route(model.network.flow_paths[i as usize].route);
        outbox.cause = outbox.landing.cause();
    }

    /// A visit of a flow ends: notes when it has something to do.
    #[inline]
    fn leave(&mut self, model: &mut Model, i: u32) {
        self.count_packets(model, i);
        let TcpEnds { sender, receiver } = model.hosts.tcp_ends(i);
        self.dues[i as usize] = self.outbox.acks.next_arrival().min(sender.due()).min(receiver.due());
        self.outbox.acks.leave(&mut self.parked[i as usize]);
    }

    /// All receivers take what has landed up to `at`, and their timers before.
    fn receive_all(&mut self, model: &mut Model, at: Time) {
        self.landings.distribute(&mut model.network, &self.outbox.stages, at);
        self.choose(at);
        let visits = std::mem::take(&mut self.visits);
        visits.iter().for_each(|&i| self.visit_receiver(model, i, at));
        self.visits = visits;
    }

    fn visit_receiver(&mut self, model: &mut Model, i: u32, at: Time) {
        self.enter(model, i);
        self.receive(model, i, at);
        self.leave(model, i);
    }

    /// The receiver at path `i` takes what has landed up to `at`, and its timers before.
    #[inline]
    fn receive(&mut self, model: &mut Model, i: u32, at: Time) {
        let (path, mut host) = (&model.network.flow_paths[i as usize], model.hosts.tcp(i));
        let outbox = &mut self.outbox;
        let (landed, places) = self.landings.take(i, landed_before(at, outbox.landing));
        if let Some(last) = landed.last() {
            outbox.landed += index_u32(landed.len());
            outbox.moved_at = outbox.moved_at.max(last.arrived);
        }
        for (k, packet) in landed.iter().enumerate() {
            let lands = packet.arrived;
            while host.ends.receiver.due() < lands {
                outbox.fire(&mut host, End::Receiver, path, lands);
            }
            outbox.index = places.get(k).copied().unwrap_or(i);
            host.on_data(packet, At { now: lands, path }, outbox);
        }
        while host.ends.receiver.due() < at {
            outbox.fire(&mut host, End::Receiver, path, at);
        }
    }

    /// The sender at path `i` takes its ACKs and timers before `until`.
    #[inline]
    fn send(&mut self, model: &mut Model, i: u32, until: Time) {
        let Model { network, hosts, apps, .. } = model;
        let (path, mut host, outbox) = (&network.flow_paths[i as usize], hosts.tcp(i), &mut self.outbox);
        loop {
            let limit = outbox.acks.next_arrival().min(until);
            while host.ends.sender.due() < limit {
                outbox.fire(&mut host, End::Sender, path, limit);
            }
            let Some(returning) = outbox.acks.next(until) else { return };
            outbox.tie_break = returning.tie_break();
            host.on_ack(returning.ack(), returning.at, outbox);
            if apps.has(i) {
                outbox.moved_at = returning.at;
                apps.after_ack(i, &host.ends.sender, host.handshake());
                outbox.due.take_from(apps, returning.at, outbox.tie_break);
            }
        }
    }

    /// What ends with the transfers completed in this batch, at the end of which it is now: their figures, and the
    /// window in which all flows run. Receivers come to each completion for it.
    fn end_transfers(&mut self, model: &mut Model) {
        if self.outbox.completed.is_empty() {
            return;
        }
        self.landings.distribute(&mut model.network, &self.outbox.stages, self.at);
        let mut completed = std::mem::take(&mut self.outbox.completed);
        completed.sort_unstable();
        for (at, i) in completed {
            if model.recorder.record.in_common() {
                self.receive_all(model, at);
            } else {
                self.visit_receiver(model, i, at);
            }
            model.now = at;
            model.end_transfer(i);
        }
    }
}
