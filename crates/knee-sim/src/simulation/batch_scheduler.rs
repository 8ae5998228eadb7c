//! Conservative-lookahead scheduler: each flow, then each link, up to the minimum ACK delay ahead.
//!
//! If data crosses links that form no circle and ACKs return over a plain delay, a sender learns the effect of what it
//! sends no sooner than the shortest ACK delay later. So time passes in batches of at most that length:
//!
//! 1. [`Stages::distribute`] sorts the packets that have landed up to its beginning by path.
//! 2. Flow by flow ([`Visitor`]), the receiver takes them, and its ACKs wait for their sender, each with its time of
//!    arrival. Then the sender takes the ACKs and timers of the batch and sends.
//! 3. Link by link, in the order in which data crosses them, the packets that arrive in the batch go through
//!    ([`Stages::advance`]).
//!
//! A flow's state is fetched once for all that it does in a batch, nothing waits in a heap, and the code of one end at
//! a time is in the cache. Results are bit-identical to the event scheduler's: events keep their times, those of one
//! time have the order of [`Event`], and changes and flows that stop happen between two batches. A sample of a flow is
//! taken as the flow is visited, unless something else is due at its time or there are applications. These act after
//! all visits, before the links.

mod applications;
mod stages;
mod visits;

use super::model::Model;
use super::obstacle::Obstacle;
use knee_core::Time;
use knee_core::convert::index_u32;
use knee_net::events::{Event, Events};
use knee_net::observe::Interval;
use knee_net::spec::Change;
use stages::Stages;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use visits::{BatchOutbox, BetweenVisits, Steps, Visitor};

/// Batches pay where at least one flow in 16 is active in each.
const IDLE_FLOWS: u64 = 16;
/// Looking through this many flows costs as much as a visit.
const LOOKS: u64 = 64;
/// Fewest visits in a batch for a thread of their own (lab/performance.md).
pub(super) const VISITS_PER_THREAD: usize = 1024;
/// Groups of flows for each thread. One that has visited its own takes groups of others, as some have more to do.
const GROUPS_PER_THREAD: usize = 4;

/// Lets time pass in batches.
#[derive(Clone)]
pub(super) struct BatchScheduler {
    /// Events of the whole run: samples, changes, flows that stop.
    agenda: Events,
    /// Start of the next batch. Senders have come this far, receivers at least to the start of the last batch.
    at: Time,
    /// The shortest delay of an ACK.
    min_ack_delay: Time,
    /// By path.
    pending: Vec<BetweenVisits>,
    /// Flows that have not started, the next one last.
    starts: Vec<u32>,
    /// Flows to be visited in this batch.
    visits: Vec<u32>,
    stages: Stages,
    /// Takes what flows send. If threads visit them, `others` has one for each further group of flows
    /// ([`Hosts::groups`](super::hosts::Hosts::groups)).
    outbox: BatchOutbox,
    others: Vec<BatchOutbox>,
    visits_per_thread: usize,
    threads: usize,
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
    /// A scheduler for `model`, in which nothing has happened yet.
    ///
    /// # Errors
    /// If batches are impossible or do not pay.
    pub(super) fn new(model: &Model, agenda: Events) -> Result<Self, Obstacle> {
        let flows = model.hosts.len();
        if model.apps.are_in_stack() || (0..flows).any(|i| model.hosts.is_udp(i)) {
            return Err(Obstacle::Udp);
        }
        if !model.apps.are_independent() {
            return Err(Obstacle::DependentConnections);
        }
        let (stages, min_ack_delay) = (Stages::new(&model.network)?, min_ack_delay(model));
        if !model.apps.is_empty() && stages.arrivals_coincide() {
            return Err(Obstacle::ConnectionsOverMedium);
        }
        if min_ack_delay == Time::ZERO {
            return Err(Obstacle::NoAckDelay);
        }
        let packets = stages.packets_in(min_ack_delay.min(stages.longest(&model.network)), &model.network);
        if packets * IDLE_FLOWS < u64::from(flows) {
            return Err(Obstacle::FewActive);
        }
        let all = (0..flows).map(|i| (model.recorder.start(i), i));
        let (applications, mut starts): (Vec<_>, Vec<_>) = all.partition(|&(_, i)| model.hosts.is_application(i));
        starts.sort_unstable_by(|a, b| b.cmp(a));
        let mut scheduler = Self {
            agenda,
            at: Time::ZERO,
            min_ack_delay,
            pending: vec![BetweenVisits::NOTHING; flows as usize],
            starts: starts.into_iter().map(|(_, i)| i).collect(),
            visits: Vec::new(),
            outbox: BatchOutbox::new(&stages),
            others: Vec::new(),
            visits_per_thread: VISITS_PER_THREAD,
            threads: 1,
            stages,
        };
        for (at, i) in applications {
            scheduler.add_start(i, at);
        }
        Ok(scheduler)
    }

    /// Replaces what concerns the whole run by what `agenda` has from `from` on, which `model` knows already. False if
    /// time cannot pass in batches then; nothing is changed.
    pub(super) fn amend(&mut self, model: &Model, agenda: Events, from: Time) -> bool {
        let shortest = min_ack_delay(model);
        if shortest > Time::ZERO {
            self.min_ack_delay = shortest;
            self.agenda.amend(agenda, from);
        }
        shortest > Time::ZERO
    }

    /// Gives the agenda away, before the first step.
    pub(super) fn take_agenda(&mut self) -> Events {
        std::mem::take(&mut self.agenda)
    }

    /// Lets up to `most` threads visit flows, before anything has happened. Each visits at least `visits` in a batch,
    /// none of them of applications. Gives the number of threads.
    pub(super) fn divide(&mut self, model: &mut Model, most: usize, visits: usize) -> usize {
        self.visits_per_thread = visits;
        let most = if model.apps.is_empty() { most.min(model.hosts.len() as usize / visits) } else { 1 };
        model.hosts.divide(index_u32(if most > 1 { most * GROUPS_PER_THREAD } else { 1 }));
        let groups = model.hosts.stores.len();
        self.threads = most.clamp(1, groups);
        self.others.resize_with(groups - 1, || BatchOutbox::new(&self.stages));
        self.threads
    }

    /// Checks the model's books.
    pub(super) fn audit(&self, model: &Model) -> Result<(), String> {
        model.audit(self.under_way(), self.acks_of_connections(model.hosts.settings.scenario_flows))
    }

    /// Packets between links and receivers.
    pub(super) fn under_way(&self) -> u64 {
        self.pending.iter().map(BetweenVisits::count_landed).sum::<u64>() + self.stages.under_way()
    }

    /// Loses packets that have crossed their last link.
    #[cfg(test)]
    pub(super) fn lose_landing(&mut self) -> usize {
        self.stages.lose_landing()
    }

    /// Goes through a batch that ends by `pause`, or through what concerns the whole run at its beginning. Gives how
    /// much work that was: one, visits of flows, and packets that landed; 0 where all before `pause` is done. To look
    /// through the flows for those to be visited is little work, but not where there are many.
    pub(super) fn step(&mut self, model: &mut Model, pause: Time) -> u64 {
        let at = self.at;
        if at >= pause {
            return 0;
        }
        let next = self.agenda.peek().filter(|(due, _)| *due < model.end);
        match next {
            Some((due, Event::Sample)) if due <= at => self.batch_with_sample(model, pause),
            Some((due, event)) if due <= at => {
                self.receive_all(model, at);
                model.now = at;
                self.agenda.pop();
                model.on_agenda(event);
                self.carry_out(model, event.key(), at);
                1
            }
            None if at >= model.end => {
                self.receive_all(model, at);
                model.reach_end();
                1
            }
            _ => self.batch(model, next.map_or(model.end, |(due, _)| due).min(pause), None),
        }
    }

    /// A batch that begins with a sample, which is taken of each flow as it is visited, unless something else is due at
    /// just that time.
    fn batch_with_sample(&mut self, model: &mut Model, pause: Time) -> u64 {
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
            return self.batch(model, next.min(pause), interval);
        }
        self.receive_all(model, at);
        model.now = at;
        model.on_agenda(Event::Sample);
        1
    }

    /// A batch, perhaps with a sample, that ends by `until`, before which nothing concerns the whole run.
    fn batch(&mut self, model: &mut Model, until: Time, interval: Option<Interval>) -> u64 {
        let at = self.at;
        let packets = self.stages.distribute(&mut self.pending, at) as u64;
        let limit = until.min(at + self.min_ack_delay).min(at + self.stages.longest(&model.network));
        // Which halves are free for new connections is known at the beginning.
        let limit = limit.min(model.apps.next_reuse(at));
        let (earliest, looks) = (self.choose(limit), 1 + u64::from(model.hosts.len()) / LOOKS);
        if interval.is_some() {
            self.visits.clear();
            self.visits.extend(0..model.hosts.len());
        }
        let start = self.starts.last().map_or(Time::MAX, |&i| model.recorder.start(i));
        let start = start.min(self.outbox.due.next());
        let departs = self.stages.next_departure(&model.network);
        if self.visits.is_empty() && departs > limit && start >= limit {
            // Nothing happens: on to what comes next. What leaves a wire just at the end of a batch is part of it.
            self.at = earliest.min(start).min(until).min(departs - Time::from_nanos(1));
            model.now = self.at;
            return looks;
        }
        let visits = self.visits.len() as u64;
        self.outbox.arrivals.iter_mut().for_each(|arrivals| arrivals.clear(at));
        self.visit_flows(model, limit, interval);
        self.serve_applications(model, limit);
        self.outbox.rtts.drain(..).for_each(|(owner, rtt)| model.hosts.record_mut(owner).take_rtt(rtt));
        self.outbox.changes.drain(..).for_each(|change| model.record(change));
        self.outbox.samples.drain(..).for_each(|row| model.recorder.rows().sample(row));
        self.stages.advance(&mut self.outbox.arrivals, model, limit);
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
        for (i, pending) in (0..).zip(&self.pending) {
            if pending.due < limit || pending.count_landed() > 0 {
                self.visits.push(i);
            } else {
                earliest = earliest.min(pending.due);
            }
        }
        earliest
    }

    /// Step 2 for all flows that have something to do: receivers come to the beginning of the batch, senders to
    /// `limit`.
    fn visit_flows(&mut self, model: &mut Model, limit: Time, interval: Option<Interval>) {
        let (at, prefetches, visits) = (self.at, model.prefetches, std::mem::take(&mut self.visits));
        if self.threads > 1 && visits.len() >= self.threads * self.visits_per_thread {
            self.visit_groups(model, &visits, limit, interval);
        } else if model.apps.is_empty() {
            let mut visitor = self.visitor(model, interval);
            visitor.visit_all(&visits, prefetches, at, limit);
        } else {
            for &i in &visits {
                self.visit(model, i, Some(at), Some(limit));
            }
        }
        self.visits = visits;
        self.visit_starts(model, limit);
    }

    /// Visits flows group by group, by several threads; what they send is put together in the order of flows.
    fn visit_groups(&mut self, model: &mut Model, visits: &[u32], limit: Time, interval: Option<Interval>) {
        let Self { at, pending, stages, outbox, others, threads, .. } = self;
        let Model { hosts, network, recorder, prefetches, .. } = model;
        let (at, stages, paths, size) = (*at, &*stages, network.flow_paths.as_slice(), hosts.group_size());
        let outboxes = std::iter::once(&mut *outbox).chain(&mut *others);
        let flow_records = recorder.record.flows().chunks_mut(size as usize);
        let groups = hosts.groups().zip(flow_records).zip(pending.chunks_mut(size as usize).zip(outboxes));
        let groups = Mutex::new(groups.map(Some).collect::<Vec<_>>());
        let work = |thread: usize| loop {
            let next = {
                let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
                // Its own first: it visited them in the last batch, too, so that their flows are in its caches.
                let begin = thread * groups.len() / *threads;
                let (others, own) = groups.split_at_mut(begin);
                own.iter_mut().chain(others).find_map(Option::take)
            };
            let Some(((hosts, flow_records), (pending, outbox))) = next else { return };
            outbox.arrivals.iter_mut().for_each(|arrivals| arrivals.clear(at));
            let begin = visits.partition_point(|&i| i < hosts.first);
            let end = visits.partition_point(|&i| i < hosts.first.saturating_add(size));
            let sample = interval.map(|interval| (interval, flow_records));
            let mut visitor = Visitor { hosts, paths, stages, pending, outbox, sample, apps: None };
            visitor.visit_all(&visits[begin..end], *prefetches, at, limit);
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..*threads).map(|thread| scope.spawn(move || work(thread))).collect();
            work(0);
            // A panic goes on here with its message.
            if let Some(panic) = workers.into_iter().find_map(|worker| worker.join().err()) {
                resume_unwind(panic);
            }
        });
        for other in others {
            outbox.append(other);
        }
    }

    /// A visitor for all flows.
    #[inline]
    fn visitor<'a>(&'a mut self, model: &'a mut Model, interval: Option<Interval>) -> Visitor<'a> {
        let Self { pending, stages, outbox, .. } = self;
        let Model { hosts, network, apps, recorder, .. } = model;
        let (paths, apps) = (network.flow_paths.as_slice(), (!apps.is_empty()).then_some(apps));
        let sample = interval.map(|interval| (interval, recorder.record.flows()));
        Visitor { hosts: hosts.all(), paths, stages, pending, outbox, sample, apps }
    }

    /// Flows that start before `limit` do, and come that far.
    fn visit_starts(&mut self, model: &mut Model, limit: Time) {
        while let Some(&i) = self.starts.last()
            && model.recorder.start(i) < limit
        {
            self.starts.pop();
            model.now = model.recorder.start(i);
            model.begin_flow(i);
            let now = model.now;
            let mut visitor = self.visitor(model, None);
            visitor.visit(i, &Steps { starts: Some(now), received: None, samples: false, sent: Some(limit) });
            visitor.end(i);
        }
    }

    /// Visits path `i`: its receiver comes to one time, its sender to another.
    fn visit(&mut self, model: &mut Model, i: u32, received: Option<Time>, sent: Option<Time>) {
        self.visitor(model, None).visit(i, &Steps { starts: None, received, samples: false, sent });
        self.count_packets(model, i);
        self.visitor(model, None).end(i);
    }

    /// All receivers take what has landed up to `at`, and their timers before.
    fn receive_all(&mut self, model: &mut Model, at: Time) {
        self.stages.distribute(&mut self.pending, at);
        self.choose(at);
        let visits = std::mem::take(&mut self.visits);
        for &i in &visits {
            self.visit(model, i, Some(at), None);
        }
        self.visits = visits;
    }

    /// Ends the transfers completed in this batch, at whose end it is now: their figures, and the window in which all
    /// flows run. Receivers advance to the time of each completion.
    fn end_transfers(&mut self, model: &mut Model) {
        if self.outbox.completed.is_empty() {
            return;
        }
        self.stages.distribute(&mut self.pending, self.at);
        let mut completed = std::mem::take(&mut self.outbox.completed);
        completed.sort_unstable();
        for (at, i) in completed {
            if model.recorder.record.in_common() {
                self.receive_all(model, at);
            } else {
                self.visit(model, i, Some(at), None);
            }
            model.now = at;
            model.end_transfer(i);
        }
    }
}
