//! Many episodes side by side.

use super::{Episode, Task};
use knee_cc::policy::Figures;
use rayon::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
pub struct Observed {
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

impl Observed {
    fn push(&mut self, episode: &dyn Episode, step: &super::Step, reward: f64, began: bool) {
        let Figures { length_s, throughput_bps, rtt_s, queueing_s, loss } = step.figures;
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
struct Slot {
    /// The episode and its task; none before the first.
    running: Option<(Box<dyn Episode>, usize)>,
    over: bool,
}

impl Slot {
    fn begin(&mut self, tasks: &[Task], next: Next, into: &mut Observed) -> Result<(), FleetError> {
        let (task, seed) = next;
        let episode = tasks[task].begin(seed).map_err(|error| FleetError::Spec { task, error })?;
        self.over = false;
        into.push(episode.as_ref(), &super::Step::default(), 0.0, true);
        self.running = Some((episode, task));
        Ok(())
    }

    fn step(&mut self, tasks: &[Task], action: &[f64], next: Next, into: &mut Observed) -> Result<(), FleetError> {
        let Some((episode, task)) = self.running.as_mut().filter(|_| !self.over) else {
            return self.begin(tasks, next, into);
        };
        let step = episode.step(action).map_err(|error| FleetError::Spec { task: *task, error })?;
        self.over = step.terminated || step.truncated;
        into.push(episode.as_ref(), &step, tasks[*task].reward.of(&step.figures), false);
        Ok(())
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// Episodes side by side. Each thread has as many slots as the others, or one fewer.
///
/// A slot whose episode is over begins another at the next step, with no reward, whatever the action: Gymnasium's
/// `AutoresetMode.NEXT_STEP`. The bits do not depend on the number of threads.
pub struct Fleet {
    tasks: Vec<Task>,
    slots: Vec<Slot>,
    /// The threads, if there is more than one.
    pool: Option<rayon::ThreadPool>,
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
        let threads = threads.clamp(1, slots);
        let pool = (threads > 1).then(|| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
        let pool = pool.transpose().map_err(|error| FleetError::Thread(std::io::Error::other(error)))?;
        Ok(Self { tasks, slots: (0..slots).map(|_| Slot::default()).collect(), pool })
    }

    /// How many episodes there are.
    pub const fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Begins an episode in each slot.
    ///
    /// # Errors
    /// If a scenario is refused, or the engine fails.
    pub fn begin(&mut self, next: &[Next]) -> Result<Observed, FleetError> {
        self.all(|i, slot, tasks, observed| slot.begin(tasks, next[i], observed))
    }

    /// Takes the actions of all slots, one slot's behind the other's; `next` is for slots whose episode is over.
    ///
    /// # Errors
    /// If a scenario is refused, or the engine fails.
    pub fn step(&mut self, actions: &[f64], next: &[Next]) -> Result<Observed, FleetError> {
        let width = actions.len() / self.slots.len();
        self.all(|i, slot, tasks, observed| slot.step(tasks, &actions[i * width..(i + 1) * width], next[i], observed))
    }

    /// Calls `act` for each slot, and puts together what they observe.
    fn all<F>(&mut self, act: F) -> Result<Observed, FleetError>
    where
        F: Fn(usize, &mut Slot, &[Task], &mut Observed) -> Result<(), FleetError> + Sync,
    {
        let Self { tasks, slots, pool } = self;
        let size = slots.len().div_ceil(pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads));
        let lane = |(k, slots): (usize, &mut [Slot])| {
            let mut observed = Observed::default();
            let mut numbered = (k * size..).zip(slots);
            numbered.try_for_each(|(i, slot)| act(i, slot, tasks, &mut observed)).map(|()| observed)
        };
        let lanes = || match pool {
            None => vec![lane((0, slots))],
            Some(pool) => pool.install(|| slots.par_chunks_mut(size).enumerate().map(lane).collect()),
        };
        let observed =
            catch_unwind(AssertUnwindSafe(lanes)).map_err(|panic| FleetError::Panic(text(panic.as_ref())))?;
        let mut all = Observed::default();
        observed.into_iter().try_for_each(|lane| lane.map(|lane| all.append(lane)))?;
        Ok(all)
    }
}
