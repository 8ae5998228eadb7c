//! Many episodes side by side.

use super::{Episode, Task};
use crate::policy::Figures;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The task that a slot's next episode is of, and its seed.
pub type Next = (usize, u64);

/// Why a fleet failed.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A scenario was refused.
    #[error("scenario {task}: {error}")]
    Spec {
        /// The number of the task.
        task: usize,
        /// Why.
        error: crate::SpecError,
    },
    /// A fault of the engine.
    #[error("the engine panicked: {0}")]
    Panic(String),
    /// The operating system gives no thread.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
}

/// The slots' observations, rewards and figures, in order.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// Their observations, one behind the other.
    pub observations: Vec<f32>,
    /// Rewards.
    pub rewards: Vec<f64>,
    /// 1 where the episode came to its own end.
    pub terminated: Vec<u8>,
    /// 1 where its time is up.
    pub truncated: Vec<u8>,
    /// 1 where another episode began, for which the slot's [`Next`] was taken.
    pub began: Vec<u8>,
    /// [`Figures`] of the interval, five a slot: length, throughput, RTT, queueing, loss.
    pub figures: Vec<f64>,
    /// Simulated time, s.
    pub times: Vec<f64>,
    /// Conditions that the actions have put in force, [`super::Part::applied`] numbers a slot.
    pub applied: Vec<f64>,
}

impl Observations {
    fn push(&mut self, episode: &dyn Episode, step: super::Step, reward: f64, began: bool) {
        let Figures { length_s, throughput_bps, rtt_s, queueing_s, loss } = episode.figures();
        self.observations.extend_from_slice(episode.observation());
        self.rewards.push(reward);
        self.terminated.push(u8::from(step.terminated));
        self.truncated.push(u8::from(step.truncated));
        self.began.push(u8::from(began));
        self.figures.extend([length_s, throughput_bps, rtt_s, queueing_s, loss]);
        self.times.push(episode.now_s());
        self.applied.extend(episode.applied());
    }

    fn append(&mut self, mut other: Self) {
        self.observations.append(&mut other.observations);
        self.rewards.append(&mut other.rewards);
        self.terminated.append(&mut other.terminated);
        self.truncated.append(&mut other.truncated);
        self.began.append(&mut other.began);
        self.figures.append(&mut other.figures);
        self.times.append(&mut other.times);
        self.applied.append(&mut other.applied);
    }
}

/// One of the episodes that go on side by side.
#[derive(Default)]
struct FleetSlot {
    /// The episode and its task; none before the first.
    running: Option<(Box<dyn Episode>, usize)>,
    over: bool,
}

impl FleetSlot {
    fn begin(&mut self, tasks: &[Task], next: Next, into: &mut Observations) -> Result<(), FleetError> {
        let (task, seed) = next;
        let episode = tasks[task].begin(seed).map_err(|error| FleetError::Spec { task, error })?;
        self.over = false;
        into.push(episode.as_ref(), super::Step::default(), 0.0, true);
        self.running = Some((episode, task));
        Ok(())
    }

    fn step(&mut self, tasks: &[Task], action: &[f64], next: Next, into: &mut Observations) -> Result<(), FleetError> {
        let Some((episode, task)) = self.running.as_mut().filter(|_| !self.over) else {
            return self.begin(tasks, next, into);
        };
        let step = episode.step(action).map_err(|error| FleetError::Spec { task: *task, error })?;
        self.over = step.terminated || step.truncated;
        into.push(episode.as_ref(), step, tasks[*task].reward.of(&episode.figures()), false);
        Ok(())
    }
}

/// A call of all slots of a lane.
enum Order {
    Begin(Vec<Next>),
    Step(Vec<f64>, Vec<Next>),
}

/// The slots that one thread has.
struct Lane {
    tasks: Arc<Vec<Task>>,
    slots: Vec<FleetSlot>,
}

impl Lane {
    fn carry_out(&mut self, order: &Order) -> Result<Observations, FleetError> {
        let (mut observed, tasks) = (Observations::default(), &self.tasks);
        match order {
            Order::Begin(next) => {
                for (slot, &next) in self.slots.iter_mut().zip(next) {
                    slot.begin(tasks, next, &mut observed)?;
                }
            }
            Order::Step(actions, next) => {
                let width = actions.len() / self.slots.len();
                for ((slot, action), &next) in self.slots.iter_mut().zip(actions.chunks(width)).zip(next) {
                    slot.step(tasks, action, next, &mut observed)?;
                }
            }
        }
        Ok(observed)
    }

    fn carry_out_whole(&mut self, order: &Order) -> Result<Observations, FleetError> {
        let done = catch_unwind(AssertUnwindSafe(|| self.carry_out(order)));
        done.unwrap_or_else(|panic| Err(FleetError::Panic(text(panic.as_ref()))))
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// A thread with a lane.
struct Worker {
    slots: usize,
    orders: SyncSender<Order>,
    done: Receiver<Result<Observations, FleetError>>,
}

impl Worker {
    fn start(mut lane: Lane) -> Result<Self, FleetError> {
        let (orders, take) = sync_channel(1);
        let (give, done) = sync_channel(1);
        let slots = lane.slots.len();
        let work = move || {
            while let Ok(order) = take.recv() {
                // Sending fails only if the fleet is gone, and then the next order does not come.
                let _ = give.send(lane.carry_out_whole(&order));
            }
        };
        thread::Builder::new().name("knee fleet".into()).spawn(work).map_err(FleetError::Thread)?;
        Ok(Self { slots, orders, done })
    }
}

/// Episodes side by side. The caller's thread has the first lane of slots, and each other thread one more.
///
/// A slot whose episode is over begins another at the next step, with no reward, whatever the action: Gymnasium's
/// `AutoresetMode.NEXT_STEP`. The bits do not depend on the number of threads.
pub struct Fleet {
    here: Lane,
    others: Vec<Worker>,
    slots: usize,
}

impl Fleet {
    /// A fleet of `slots` episodes of these tasks in up to `threads` threads.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    ///
    /// # Panics
    /// If there is no slot.
    pub fn new(tasks: Vec<Task>, slots: usize, threads: usize) -> Result<Self, FleetError> {
        assert!(slots > 0, "a fleet has slots");
        let (tasks, threads) = (Arc::new(tasks), threads.clamp(1, slots));
        let lane = |i: usize| {
            let count = slots * (i + 1) / threads - slots * i / threads;
            Lane { tasks: Arc::clone(&tasks), slots: (0..count).map(|_| FleetSlot::default()).collect() }
        };
        let others = (1..threads).map(|i| Worker::start(lane(i))).collect::<Result<_, _>>()?;
        Ok(Self { here: lane(0), others, slots })
    }

    /// How many episodes there are.
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Begins an episode in each slot.
    ///
    /// # Errors
    /// If a scenario is refused, or the engine fails.
    pub fn begin(&mut self, next: &[Next]) -> Result<Observations, FleetError> {
        self.give(|from, to| Order::Begin(next[from..to].to_vec()))
    }

    /// Takes the actions of all slots, one slot's behind the other's; `next` is for slots whose episode is over.
    ///
    /// # Errors
    /// If a scenario is refused, or the engine fails.
    pub fn step(&mut self, actions: &[f64], next: &[Next]) -> Result<Observations, FleetError> {
        let width = actions.len() / self.slots;
        self.give(|from, to| Order::Step(actions[from * width..to * width].to_vec(), next[from..to].to_vec()))
    }

    fn give(&mut self, order: impl Fn(usize, usize) -> Order) -> Result<Observations, FleetError> {
        let mut from = self.here.slots.len();
        let first = order(0, from);
        for worker in &self.others {
            let to = from + worker.slots;
            // A thread that is gone is found below.
            let _ = worker.orders.send(order(from, to));
            from = to;
        }
        let mut observed = self.here.carry_out_whole(&first);
        for worker in &self.others {
            let there = worker.done.recv().unwrap_or_else(|_| Err(FleetError::Panic("its thread is gone".into())));
            match (&mut observed, there) {
                (Ok(all), Ok(there)) => all.append(there),
                (Ok(_), Err(error)) => observed = Err(error),
                (Err(_), _) => {}
            }
        }
        observed
    }
}
