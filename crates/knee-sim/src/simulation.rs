//! The engine: a model of a network with its hosts, and two schedulers that let time pass for it.
//!
//! A [`Model`](model::Model) has four parts, borrowed one by one: the network, the [`hosts`] at its ends, [`apps`] that
//! open connections on these, and the recorder. [`hosts`] has the only code that takes a packet, an ACK or a timer at
//! an end; the scheduler decides when. [`EventScheduler`] goes from event to event and takes any network.
//! [`BatchScheduler`] advances each flow and then each link by up to the minimum ACK delay at once, if data crosses
//! links that form no circle and ACKs return over a plain delay. Both give the same bits.

mod apps;
mod batch_scheduler;
mod beside;
#[cfg(test)]
mod books;
mod build;
mod distributions;
mod event_scheduler;
mod figures;
mod hosts;
#[cfg(any(test, feature = "testing"))]
pub mod invariants;
mod model;
mod obstacle;

use crate::Tap;
use crate::sender_log::SenderLogs;
use knee_core::Time;
use knee_core::convert::index_u32;
use knee_net::Rows;
use knee_net::events::agenda;
use knee_net::network::OwnQueue;
use knee_net::output::Output;
use knee_net::spec::Spec;
use knee_qlog::Log;

use batch_scheduler::{BatchScheduler, VISITS_PER_THREAD};
use event_scheduler::EventScheduler;
use model::Model;

pub use beside::{Beside, Fate};
pub use build::{Own, OwnMake};
#[cfg(feature = "quic")]
pub use hosts::quic::{MakeFactory, QuicSetup, quic_settings, quic_setup};
pub use obstacle::Obstacle;

/// A running simulation.
pub struct Simulation {
    model: Model,
    scheduler: Scheduler,
    /// See [`Simulation::work`].
    work: u64,
    /// All before has happened.
    from: Time,
}

/// The shortest time there is.
const INSTANT: Time = Time::from_nanos(1);

/// How time passes.
enum Scheduler {
    Events(Box<EventScheduler>, Obstacle),
    Batches(Box<BatchScheduler>),
}

impl Simulation {
    /// Builds what `spec` says; nothing has happened yet.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn new(spec: &Spec) -> Result<Self, knee_net::SpecError> {
        Self::with_own(spec, &[])
    }

    /// As [`Simulation::new`], with algorithms that are not in the registry. Their names go first.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn with_own(spec: &Spec, own: &[Own]) -> Result<Self, knee_net::SpecError> {
        Self::with_own_queues(spec, own, &[])
    }

    /// As [`Simulation::with_own`], with queue disciplines that are not in the registry either.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn with_own_queues(spec: &Spec, own: &[Own], queues: &[OwnQueue]) -> Result<Self, knee_net::SpecError> {
        let model = Model::new(spec, own, queues)?;
        let scheduler = match BatchScheduler::new(&model, agenda(spec)) {
            Ok(batches) => Scheduler::Batches(Box::new(batches)),
            Err(obstacle) => Scheduler::Events(Box::new(EventScheduler::new(&model, agenda(spec))), obstacle),
        };
        Ok(Self { model, scheduler, work: 0, from: Time::ZERO })
    }

    /// Current simulated time.
    pub const fn now(&self) -> Time {
        self.model.now
    }

    /// Lets flow samples go to `spool` in blocks of raw [`crate::SampleRow`]s instead of staying in memory.
    pub fn spool(&mut self, spool: impl std::io::Write + Send + 'static) {
        self.model.recorder.rows().spool_to(Box::new(spool));
    }

    /// Lets `tap` see the packets at the senders. Must be called before the first step. With it time passes event by
    /// event.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        if let Scheduler::Batches(batches) = &mut self.scheduler {
            self.model.hosts.divide(1);
            let events = Box::new(EventScheduler::new(&self.model, batches.take_agenda()));
            self.scheduler = Scheduler::Events(events, Obstacle::Observed);
        }
        if let Scheduler::Events(events, _) = &mut self.scheduler {
            events.tap(&mut self.model, tap);
        }
    }

    /// Lets up to `most` threads work where time passes in batches and each has enough flows. The bits are the same for
    /// any number. Must be called before the first step. Gives the number of threads.
    pub fn threads(&mut self, most: usize) -> usize {
        self.threads_for(most, VISITS_PER_THREAD)
    }

    /// As [`Simulation::threads`], where each thread is to visit at least `visits` flows in a batch.
    pub fn threads_for(&mut self, most: usize, visits: usize) -> usize {
        match &mut self.scheduler {
            Scheduler::Events(..) => 1,
            Scheduler::Batches(batches) => batches.divide(&mut self.model, most, visits.max(1)),
        }
    }

    /// Writes what senders do into `logs`, by flow. Must be called before the first step. With it time passes event by
    /// event.
    pub fn log(&mut self, logs: Vec<Option<Log>>) {
        let tcp =
            logs.iter().enumerate().map(|(i, log)| log.clone().filter(|_| !self.model.hosts.is_udp(index_u32(i))));
        let grouped = (0..logs.len()).map(|i| self.model.hosts.is_application(index_u32(i)));
        self.tap(Box::new(SenderLogs::new(tcp.collect(), grouped.collect())));
        self.model.hosts.settings.logs = logs;
    }

    /// Why time passes event by event, unless it passes in batches.
    pub const fn obstacle(&self) -> Option<Obstacle> {
        match self.scheduler {
            Scheduler::Events(_, obstacle) => Some(obstacle),
            Scheduler::Batches(_) => None,
        }
    }

    /// Work done so far, in steps: events, or, where time passes in batches, these, visits of flows and
    /// packets. A bound on it for each simulated second holds on every machine, one on wall time on none.
    pub const fn work(&self) -> u64 {
        self.work
    }

    /// Does `steps` steps, or a few more; false once the end is reached.
    pub fn step(&mut self, steps: u64) -> bool {
        self.advance(steps, Time::MAX);
        self.from = self.model.now + INSTANT;
        !self.model.finished
    }

    /// Lets all happen up to `time`, and what is due at that time too; false once the end is reached. The bits are
    /// those of an uninterrupted run.
    pub fn run_until(&mut self, time: Time) -> bool {
        self.approach(time, u64::MAX);
        !self.model.finished
    }

    /// Does `steps` steps, or a few more, on the way to `time`, as of [`Simulation::run_until`]; true once it is there,
    /// or the end is reached.
    pub fn approach(&mut self, time: Time, steps: u64) -> bool {
        let time = time.min(self.model.end);
        let pause = time + INSTANT;
        if pause > self.from {
            if self.advance(steps, pause) {
                (self.from, self.model.now) = (pause, time);
                return true;
            }
            self.from = self.model.now + INSTANT;
        }
        pause <= self.from || self.model.finished
    }

    /// Does `steps` steps, or a few more, or fewer where all before `pause` is done; true if it is.
    fn advance(&mut self, steps: u64, pause: Time) -> bool {
        let Self { model, scheduler, work, .. } = self;
        let until = work.saturating_add(steps);
        while *work < until && !model.finished {
            let done = match scheduler {
                Scheduler::Events(scheduler, _) => scheduler.step(model, until - *work, pause),
                Scheduler::Batches(scheduler) => scheduler.step(model, pause),
            };
            if done == 0 {
                return true;
            }
            *work += done;
        }
        model.finished
    }

    /// When what is changed now happens at the earliest: nothing at this time or later has happened.
    pub const fn changeable_from(&self) -> Time {
        self.from
    }

    /// The names of the links, reverse directions that queue last.
    pub fn link_names(&self) -> impl Iterator<Item = &str> {
        self.model.network.directions.iter().map(|direction| direction.name.as_str())
    }

    /// Returns true if the flow at this index has stopped, or all that it had to send is acknowledged.
    pub fn has_ended(&self, flow: usize) -> bool {
        self.model.recorder.record.is_over(flow)
    }

    /// Goes on by `spec`, which is that of this simulation but for further changes behind those it had, and other times
    /// at which flows stop; none of these is before [`Simulation::changeable_from`], and changes that have happened may
    /// be left out. The bits are those of an uninterrupted run with all of them. False, with nothing changed, if only a
    /// simulation from the start can go on so.
    ///
    /// # Errors
    /// If the specification contradicts itself, or a change is too early.
    pub fn amend(&mut self, spec: &Spec) -> Result<bool, knee_net::SpecError> {
        knee_net::network::check(spec)?;
        let (from, model) = (self.from, &mut self.model);
        let known = model.recorder.changes.len();
        if let Some(early) = spec.changes.iter().skip(known).find(|change| change.at < from.as_nanos()) {
            return Err(knee_net::SpecError::TooEarly { found: early.at, least: from.as_nanos() });
        }
        let before = std::mem::replace(&mut model.recorder.changes, spec.changes.clone());
        let amended = match &mut self.scheduler {
            Scheduler::Events(events, _) => {
                events.amend(agenda(spec), from);
                true
            }
            Scheduler::Batches(batches) => batches.amend(model, agenda(spec), from),
        };
        if !amended {
            model.recorder.changes = before;
        }
        Ok(amended)
    }

    /// A simulation that goes on from here by itself. `None` if a part cannot be copied: an algorithm or a queue
    /// that is not the registry's, a connection of a QUIC stack, rows that are spooled, and who looks on.
    pub fn copied(&self) -> Option<Self> {
        let scheduler = match &self.scheduler {
            Scheduler::Events(events, obstacle) => Scheduler::Events(Box::new(events.copied()?), *obstacle),
            Scheduler::Batches(batches) => Scheduler::Batches(batches.clone()),
        };
        Some(Self { model: self.model.copied()?, scheduler, work: self.work, from: self.from })
    }

    /// The rows so far.
    pub const fn rows(&mut self) -> &Rows {
        self.model.recorder.rows()
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// If the spool could not be written.
    pub fn run(mut self) -> std::io::Result<(Output, Rows)> {
        // In debug and test builds the books are checked as it goes.
        let steps = if cfg!(debug_assertions) { 1 << 14 } else { 1 << 20 };
        while self.step(steps) {
            debug_assert_eq!(self.audit(), Ok(()), "at {}", self.now());
        }
        debug_assert_eq!(self.audit(), Ok(()), "at the end");
        self.finish()
    }

    /// The figures and the rows.
    ///
    /// # Errors
    /// If the spool could not be written.
    pub fn finish(self) -> std::io::Result<(Output, Rows)> {
        self.model.finish()
    }

    /// How many endpoints there are: one for each flow, and as many as connections of applications were open at a time.
    pub fn endpoints(&self) -> usize {
        self.model.hosts.len() as usize
    }

    /// Checks the books: no packet created or lost unaccounted, no counter out of step.
    ///
    /// # Errors
    /// The counter that does not add up.
    pub fn audit(&self) -> Result<(), String> {
        match &self.scheduler {
            Scheduler::Events(scheduler, _) => scheduler.audit(&self.model),
            Scheduler::Batches(scheduler) => scheduler.audit(&self.model),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn link() -> Value {
        json!({
            "name": "one", "capacity": {"rate": 10_000_000}, "queue": "pfifo", "limit": {"packets": 50}, "overhead": 14,
            "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false, "burst": null, "reverse": null
        })
    }

    fn flow(path: &[usize], rtt_ms: u64) -> Value {
        let (rtt, stop) = (rtt_ms * 1_000_000, 1_000_000_000);
        json!({"label": "flow", "cc": "reno", "rtt": rtt, "start": 0, "stop": stop, "bytes": null, "path": path})
    }

    fn simulation(links: &[Value], flows: &[Value]) -> Simulation {
        let spec = json!({
            "duration": 1_000_000_000, "seed": 1, "warmup": 0, "interval": 100_000_000, "links": links, "flows": flows
        });
        Simulation::new(&serde_json::from_value(spec).unwrap()).unwrap()
    }

    fn obstacle(links: &[Value], flows: &[Value]) -> Option<Obstacle> {
        simulation(links, flows).obstacle()
    }

    fn with(key: &str, value: Value) -> Value {
        let mut link = link();
        link[key] = value;
        link
    }

    #[test]
    fn batches_take_links_that_keep_order_without_circles_and_acks_over_a_delay_alone() {
        let links = [link(), with("delay", json!(1_000_000)), link()];
        assert_eq!(obstacle(&links[..1], &[flow(&[0], 20)]), None);
        assert_eq!(obstacle(&links, &[flow(&[2, 0], 20), flow(&[2, 1, 0], 30), flow(&[1], 10)]), None);
        // Servers with a rate, and delays in order; a medium behind another only where a delay is between them.
        let bucket = with("burst", json!(3000));
        let kept = [("jitter", json!(1)), ("model", json!({"name": "lte"})), ("model", json!({"name": "leo"}))];
        for (key, value) in kept.into_iter().chain([("burst", json!(3000))]) {
            assert_eq!(obstacle(&[with(key, value.clone())], &[flow(&[0], 20)]), None, "{key} {value}");
        }
        let mut delayed = bucket.clone();
        delayed["delay"] = json!(1_000_000);
        assert_eq!(obstacle(&[delayed, bucket.clone()], &[flow(&[0, 1], 20)]), None);
        assert_eq!(obstacle(&[bucket.clone(), bucket.clone()], &[flow(&[0, 1], 20)]), Some(Obstacle::MediumMerges));
        let (through, other) = (flow(&[0, 1], 20), flow(&[1], 20));
        assert_eq!(obstacle(&[bucket.clone(), link()], std::slice::from_ref(&through)), None);
        assert_eq!(obstacle(&[bucket, link()], &[through, other]), Some(Obstacle::MediumMerges));
        // A circle, ACKs that have no delay left, and links that have no rate, carry ACKs or let packets overtake each
        // other.
        assert_eq!(obstacle(&links, &[flow(&[0, 2], 20), flow(&[2, 0], 20)]), Some(Obstacle::Circle));
        assert_eq!(obstacle(&links, &[flow(&[1], 1)]), Some(Obstacle::NoAckDelay));
        let reverse = json!({"capacity": {"rate": 1_000_000}, "queue": "pfifo", "limit": null});
        let mut overtaken = with("jitter", json!(1));
        overtaken["reorder"] = json!(true);
        assert_eq!(obstacle(&[overtaken], &[flow(&[0], 20)]), Some(Obstacle::Reordering));
        let trace = json!({"trace": [1, 2]});
        for (key, value, why) in [("reverse", reverse, Obstacle::QueuedAcks), ("capacity", trace, Obstacle::NoRate)] {
            assert_eq!(obstacle(&[with(key, value.clone())], &[flow(&[0], 20)]), Some(why));
            assert_eq!(obstacle(&[link(), with(key, value)], &[flow(&[0], 20)]), None, "a {key} that nobody crosses");
        }
    }

    #[test]
    fn applications_go_in_batches_where_their_connections_do_not_depend_on_each_other() {
        let with = |traffic: &Value| {
            let mut flow = flow(&[0], 20);
            flow["traffic"] = traffic.clone();
            flow
        };
        let transfers = |persistent: bool| {
            with(&json!({
                "kind": "transfers", "arrivals": {"poisson": 10.0}, "size": {"fixed": 30_000},
                "persistent": persistent, "number": null
            }))
        };
        let limited = with(&json!({"kind": "app_limited", "rate": 1_000_000}));
        let (new, stream) = (transfers(false), flow(&[0], 20));
        assert_eq!(obstacle(&[link()], std::slice::from_ref(&new)), None);
        assert_eq!(obstacle(&[link()], &[stream.clone(), new.clone()]), None);
        for other in [transfers(true), limited] {
            let why = obstacle(&[link()], &[stream.clone(), new.clone(), other]);
            assert_eq!(why, Some(Obstacle::DependentConnections));
        }
        // Two of their packets may land at the same time there.
        for other in [self::with("burst", json!(3000)), self::with("jitter", json!(1))] {
            let why = obstacle(&[link(), other], &[flow(&[1], 20), new.clone()]);
            assert_eq!(why, Some(Obstacle::ConnectionsOverMedium));
        }
    }

    #[test]
    fn with_many_more_flows_than_packets_in_a_batch_events_are_cheaper() {
        // A batch of 2 ms has 1.66 full packets of 1.2 ms: one, for which 16 flows are enough.
        assert_eq!(obstacle(&[link()], &vec![flow(&[0], 2); 16]), None);
        assert_eq!(obstacle(&[link()], &vec![flow(&[0], 2); 17]), Some(Obstacle::FewActive));
        // Two links carry one each.
        let over_both = |count: usize| vec![flow(&[0, 1], 2); count];
        assert_eq!(obstacle(&[link(), link()], &over_both(32)), None);
        assert_eq!(obstacle(&[link(), link()], &over_both(33)), Some(Obstacle::FewActive));
    }

    #[test]
    fn steps_are_about_as_many_packets_as_asked_for() {
        let mut simulation = simulation(&[link()], &[flow(&[0], 20)]);
        assert_eq!((simulation.now(), simulation.work()), (Time::ZERO, 0));
        let mut steps = 0;
        while simulation.step(10) {
            steps += 1;
        }
        // 10 Mbit/s carry 825 packets in a second; a batch has 16 of them.
        assert!((20..90).contains(&steps), "{steps}");
        assert!((800..1200).contains(&simulation.work()), "{}", simulation.work());
        assert_eq!(simulation.now(), Time::from_secs(1));
    }

    #[test]
    fn event_by_event_there_are_exactly_as_many_steps_as_asked_for() {
        let mut overtaken = with("jitter", json!(1));
        overtaken["reorder"] = json!(true);
        let mut simulation = simulation(&[overtaken], &[flow(&[0], 20)]);
        for (steps, in_all) in [(1, 1), (10, 11), (7, 18), (100, 118)] {
            assert!(simulation.step(steps));
            assert_eq!(simulation.work(), in_all);
        }
    }
}
