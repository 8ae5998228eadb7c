//! The engine: a world of endpoints and links, and two schedulers that let time pass for it.
//!
//! What a packet, an ACK or a timer does to an endpoint is written once, in [`World`]. When it happens is the scheduler's
//! part: [`EventScheduler`] goes from event to event and takes any network; [`BatchScheduler`] lets each flow and
//! then each link pass up to the minimum ACK delay at once, where data crosses wires without circles and ACKs return over
//! nothing but a delay. Both give the same bits.

mod ack_path;
mod alarms;
mod batch_scheduler;
#[cfg(test)]
mod books;
mod build;
mod connections;
mod datagrams;
mod distributions;
mod endpoints;
mod event_scheduler;
#[cfg(any(test, feature = "testing"))]
pub mod invariants;
mod landings;
mod non_tcp;
mod quic;
mod report;
mod stages;
mod world;

use crate::observe::{Rows, SenderLogs, Tap};
use crate::output::Output;
use crate::spec::Spec;
use knee_core::Time;
use knee_qlog::Log;

use batch_scheduler::BatchScheduler;
use event_scheduler::EventScheduler;
use world::World;

pub use build::{Own, OwnMake, QuicSetup, agenda, quic_setup};

/// A running simulation.
pub struct Simulation {
    world: World,
    scheduler: Scheduler,
    /// See [`Simulation::work`].
    work: u64,
}

/// How time passes.
enum Scheduler {
    Events(Box<EventScheduler>),
    Batches(Box<BatchScheduler>),
}

impl Simulation {
    /// Builds what `spec` says; nothing has happened yet.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn new(spec: &Spec) -> Result<Self, crate::SpecError> {
        Self::with_own(spec, &[])
    }

    /// As [`Simulation::new`], with algorithms beside those of the registry. Their names go first.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn with_own(spec: &Spec, own: &[Own]) -> Result<Self, crate::SpecError> {
        let world = World::new(spec, own)?;
        let agenda = agenda(spec);
        let scheduler = match BatchScheduler::stages(&world) {
            Some(stages) => Scheduler::Batches(Box::new(BatchScheduler::new(&world, stages, agenda))),
            None => Scheduler::Events(Box::new(EventScheduler::new(&world, agenda))),
        };
        Ok(Self { world, scheduler, work: 0 })
    }

    /// Current simulated time.
    pub const fn now(&self) -> Time {
        self.world.now
    }

    /// Lets flow samples go to `spool` in blocks of raw [`crate::SampleRow`]s instead of staying in memory.
    pub fn spool(&mut self, spool: impl std::io::Write + Send + 'static) {
        self.world.record.rows.spool_to(Box::new(spool));
    }

    /// Lets `tap` see the packets at the senders. Must be called before the first step. With it time passes event by event.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        if let Scheduler::Batches(batches) = &mut self.scheduler {
            self.scheduler = Scheduler::Events(Box::new(EventScheduler::new(&self.world, batches.take_agenda())));
        }
        if let Scheduler::Events(events) = &mut self.scheduler {
            events.tap(tap);
        }
    }

    /// Writes what senders do into `logs`, by flow. Must be called before the first step. With it time passes event by
    /// event.
    pub fn log(&mut self, logs: Vec<Option<Log>>) {
        let tcp = logs.iter().enumerate().map(|(i, log)| log.clone().filter(|_| !self.world.is_non_tcp(i as u32)));
        let grouped = (0..logs.len()).map(|i| self.world.connections.runs(i as u32));
        self.tap(Box::new(SenderLogs::new(tcp.collect(), grouped.collect())));
        self.world.logs = logs;
    }

    /// Whether time passes in batches.
    pub const fn goes_in_batches(&self) -> bool {
        matches!(self.scheduler, Scheduler::Batches(_))
    }

    /// What has been done so far, in steps: events, or, where time passes in batches, these, visits of flows and packets. A
    /// bound on it for each simulated second holds on every machine, one on wall time on none.
    pub const fn work(&self) -> u64 {
        self.work
    }

    /// Does so many steps, or a few more; false once the end is reached.
    pub fn step(&mut self, steps: u64) -> bool {
        let Self { world, scheduler, work } = self;
        let until = work.saturating_add(steps);
        while *work < until && !world.finished {
            *work += match scheduler {
                Scheduler::Events(scheduler) => scheduler.step(world),
                Scheduler::Batches(scheduler) => scheduler.step(world),
            };
        }
        !world.finished
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// If the spool could not be written.
    pub fn run(mut self) -> std::io::Result<(Output, Rows)> {
        // In debug and test builds the books are checked on the way.
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
        self.world.finish()
    }

    /// How many endpoints there are: one for each flow, and as many as connections of applications were open at a time.
    pub fn endpoints(&self) -> usize {
        self.world.senders.len()
    }

    /// Checks the books: no packet created or lost unaccounted, no counter out of step.
    ///
    /// # Errors
    /// What does not add up.
    pub fn audit(&self) -> Result<(), String> {
        let (between_links, acks) = match &self.scheduler {
            Scheduler::Events(scheduler) => {
                scheduler.audit(&self.world)?;
                (self.world.network.pipes.iter().map(|pipe| pipe.len() as u64).sum(), 0)
            }
            Scheduler::Batches(scheduler) => {
                (scheduler.under_way(&self.world), scheduler.acks_of_connections(&self.world))
            }
        };
        self.world.audit(between_links, acks)
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

    fn goes_in_batches(links: &[Value], flows: &[Value]) -> bool {
        simulation(links, flows).goes_in_batches()
    }

    fn with(key: &str, value: Value) -> Value {
        let mut link = link();
        link[key] = value;
        link
    }

    #[test]
    fn batches_take_links_that_keep_order_without_circles_and_acks_over_a_delay_alone() {
        let links = [link(), with("delay", json!(1_000_000)), link()];
        assert!(goes_in_batches(&links[..1], &[flow(&[0], 20)]));
        assert!(goes_in_batches(&links, &[flow(&[2, 0], 20), flow(&[2, 1, 0], 30), flow(&[1], 10)]));
        // Servers with a rate, and delays in order; a medium behind another only where a delay is between them.
        let bucket = with("burst", json!(3000));
        let kept = [("jitter", json!(1)), ("model", json!({"name": "lte"})), ("model", json!({"name": "leo"}))];
        for (key, value) in kept.into_iter().chain([("burst", json!(3000))]) {
            assert!(goes_in_batches(&[with(key, value.clone())], &[flow(&[0], 20)]), "{key} {value}");
        }
        let mut delayed = bucket.clone();
        delayed["delay"] = json!(1_000_000);
        assert!(goes_in_batches(&[delayed, bucket.clone()], &[flow(&[0, 1], 20)]));
        assert!(!goes_in_batches(&[bucket.clone(), bucket], &[flow(&[0, 1], 20)]));
        // A circle, ACKs that have no delay left, and links that have no rate, carry ACKs or let packets overtake each other.
        assert!(!goes_in_batches(&links, &[flow(&[0, 2], 20), flow(&[2, 0], 20)]));
        assert!(!goes_in_batches(&links, &[flow(&[1], 1)]));
        let reverse = json!({"capacity": {"rate": 1_000_000}, "queue": "pfifo", "limit": null});
        let mut overtaken = with("jitter", json!(1));
        overtaken["reorder"] = json!(true);
        assert!(!goes_in_batches(&[overtaken], &[flow(&[0], 20)]));
        for (key, value) in [("reverse", reverse), ("capacity", json!({"trace": [1, 2]}))] {
            assert!(!goes_in_batches(&[with(key, value.clone())], &[flow(&[0], 20)]), "{key}");
            assert!(goes_in_batches(&[link(), with(key, value)], &[flow(&[0], 20)]), "a {key} that nobody crosses");
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
        let limited =
            with(&json!({"kind": "declared", "name": "app_limited", "params": {"rate": {"rate": 1_000_000}}}));
        let (new, stream) = (transfers(false), flow(&[0], 20));
        assert!(goes_in_batches(&[link()], std::slice::from_ref(&new)));
        assert!(goes_in_batches(&[link()], &[stream.clone(), new.clone()]));
        for other in [transfers(true), limited] {
            assert!(!goes_in_batches(&[link()], &[stream.clone(), new.clone(), other]));
        }
    }

    #[test]
    fn with_many_more_flows_than_packets_in_a_batch_events_are_cheaper() {
        // A batch of 2 ms has 1.66 full packets of 1.2 ms: one, for which 16 flows are enough.
        assert!(goes_in_batches(&[link()], &vec![flow(&[0], 2); 16]));
        assert!(!goes_in_batches(&[link()], &vec![flow(&[0], 2); 17]));
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
}
