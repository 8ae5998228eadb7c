//! Asynchronous programs over a network, in the virtual time of tokio's paused clock.
//!
//! Tokio rounds the time of a timer up to milliseconds, and what it lets pass up to then too. So what waits for the
//! network is run here, and the last two milliseconds before something is due are passed by hand, to the nanosecond.

use crate::{Delivered, Error, Net, Port};
use knee_core::Time;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// Below this, time passes by hand.
const BY_HAND: Duration = Duration::from_millis(2);
/// How long a program may wait while nothing is due.
const PATIENCE: Time = Time::from_secs(24 * 3_600);

/// How long it may wait beside flows of the simulator, in which something is always due.
const BESIDE: Time = Time::from_secs(3_600);

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A network that asynchronous programs run over, from [`Net::lab`].
#[derive(Clone, Debug)]
pub struct Lab(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    state: Mutex<State>,
    base: Instant,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").finish_non_exhaustive()
    }
}

pub(crate) struct State {
    pub(crate) net: Net,
    sockets: BTreeMap<Port, Socket>,
    /// Who waits for a time, by that and a number of their own.
    pub(crate) timers: BTreeMap<(Time, u64), Waker>,
    #[cfg(any(feature = "noq", feature = "quinn"))]
    pub(crate) numbers: u64,
    spawned: Vec<Task>,
    /// The first error of the network while a program runs.
    failure: Option<Error>,
}

/// Datagrams at a port.
#[derive(Default)]
struct Socket {
    came: VecDeque<Delivered>,
    waits: Option<Waker>,
}

impl State {
    /// A datagram that has come to a port; who asks is woken when there is one.
    pub(crate) fn receive(&mut self, port: Port, cx: &Context<'_>) -> Option<Delivered> {
        let socket = self.sockets.entry(port).or_default();
        let came = socket.came.pop_front();
        if came.is_none() {
            socket.waits = Some(cx.waker().clone());
        }
        came
    }

    /// Keeps the first error, which [`Lab::run`] gives.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// When something is due next.
    fn due(&self) -> Option<Time> {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        self.net.next().into_iter().chain(timer).min()
    }

    /// Lets all happen that is due by `now`.
    fn act(&mut self, now: Time) -> Result<(), Error> {
        let Self { net, sockets, timers, .. } = self;
        for delivered in net.poll(now)? {
            let socket = sockets.entry(delivered.port).or_default();
            socket.came.push_back(delivered);
            socket.waits.take().into_iter().for_each(Waker::wake);
        }
        while let Some(first) = timers.first_entry().filter(|first| first.key().0 <= now) {
            first.remove().wake();
        }
        Ok(())
    }
}

/// Tasks that can go on, and the waker of [`Lab::run`].
#[derive(Default)]
struct Ready {
    tasks: VecDeque<usize>,
    runs: Option<Waker>,
}

struct TaskWaker {
    task: usize,
    ready: Arc<Mutex<Ready>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = locked(&self.ready);
        if !ready.tasks.contains(&self.task) {
            ready.tasks.push_back(self.task);
        }
        ready.runs.take().into_iter().for_each(Waker::wake);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Net {
    /// The network for asynchronous programs, which run in [`Lab::run`]. Its time zero is now.
    ///
    /// # Errors
    /// Outside of a tokio runtime whose clock is paused, as of `#[tokio::test(start_paused = true)]`.
    pub fn lab(self) -> Result<Lab, Error> {
        let base = Instant::now();
        // A clock that runs goes on by nanoseconds.
        let stands = tokio::runtime::Handle::try_current().is_ok() && (0..1_000).all(|_| Instant::now() == base);
        if !stands {
            return Err(Error::ClockRuns);
        }
        let (sockets, timers, spawned) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let state = State {
            net: self,
            sockets,
            timers,
            #[cfg(any(feature = "noq", feature = "quinn"))]
            numbers: 0,
            spawned,
            failure: None,
        };
        Ok(Lab(Arc::new(Shared { state: Mutex::new(state), base })))
    }
}

impl Lab {
    /// The network: for its figures, its drops and its capture. It must not be held across an `await`.
    pub fn net(&self) -> impl std::ops::DerefMut<Target = Net> + '_ {
        NetGuard(self.state())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0.state)
    }

    /// The time of the network.
    pub fn now(&self) -> Time {
        self.time_of(Instant::now())
    }

    pub(crate) fn time_of(&self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.0.base).as_nanos();
        Time::from_nanos(knee_core::convert::saturating_u64(nanos))
    }

    /// The seed of a stack's random numbers at a port.
    #[cfg(any(feature = "noq", feature = "quinn"))]
    pub(crate) fn random_bytes(&self, stack: &str, port: Port) -> [u8; 32] {
        let mut rng = knee_core::Rng::stream(self.net().seed(), &format!("{stack}/{port:?}"));
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
        bytes
    }

    /// Runs a task beside the program, as long as [`Lab::run`] runs one.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.state().spawned.push(Box::pin(task));
    }

    /// Runs a program to its end in virtual time. It may use tokio's timers, which fire up to 2 ms late, and spawn by
    /// [`Lab::spawn`]. Tasks that wait for the network go on to the nanosecond.
    ///
    /// # Errors
    /// The first error of the network meanwhile; or if the program waits for a day in which nothing happens.
    pub async fn run<T>(&self, program: impl Future<Output = T>) -> Result<T, Error> {
        // The budget that tokio gives a task is for many turns here.
        tokio::task::unconstrained(self.run_within(program)).await
    }

    async fn run_within<T>(&self, program: impl Future<Output = T>) -> Result<T, Error> {
        let ready = Arc::new(Mutex::new(Ready::default()));
        let waker = |task: usize| Waker::from(Arc::new(TaskWaker { task, ready: ready.clone() }));
        let mut program = pin!(program);
        let main = waker(0);
        let mut tasks: Vec<(Option<Task>, Waker)> = Vec::new();
        main.wake_by_ref();
        // When a task last went on: flows of the simulator's never rest.
        let mut active = self.now();
        loop {
            let spawned = std::mem::take(&mut self.state().spawned);
            for task in spawned {
                let own = waker(tasks.len() + 1);
                own.wake_by_ref();
                tasks.push((Some(task), own));
            }
            let next = locked(&ready).tasks.pop_front();
            if next.is_some() {
                active = self.now();
            } else if !self.state().net.background.is_empty() && self.now().saturating_sub(active) > BESIDE {
                return Err(Error::Stalled { at: active });
            }
            match next {
                Some(0) => {
                    if let Poll::Ready(done) = program.as_mut().poll(&mut Context::from_waker(&main)) {
                        self.return_tasks(tasks);
                        return self.state().failure.take().map_or(Ok(done), Err);
                    }
                }
                Some(i) => {
                    let (slot, waker) = &mut tasks[i - 1];
                    if slot.as_mut().is_some_and(|task| task.as_mut().poll(&mut Context::from_waker(waker)).is_ready())
                    {
                        *slot = None;
                    }
                }
                None => {
                    if let Some(error) = self.state().failure.take() {
                        return Err(error);
                    }
                    self.wait(&ready).await?;
                }
            }
        }
    }

    /// Tasks that have not ended go on in the next run.
    fn return_tasks(&self, tasks: Vec<(Option<Task>, Waker)>) {
        self.state().spawned.extend(tasks.into_iter().filter_map(|(task, _)| task));
    }

    /// Lets time pass up to the next event, or until something outside wakes a task; no task can go on now.
    async fn wait(&self, ready: &Mutex<Ready>) -> Result<(), Error> {
        let (now, due) = (self.now(), self.state().due());
        if due.is_some_and(|due| due <= now) {
            return self.state().act(now);
        }
        let left = Duration::from_nanos(due.map_or(PATIENCE, |due| due - now).as_nanos());
        if left <= BY_HAND {
            // Who runs beside, in tokio, acts before.
            tokio::task::yield_now().await;
            if locked(ready).tasks.is_empty() {
                tokio::time::advance(left).await;
            }
            return Ok(());
        }
        let mut sleep = pin!(tokio::time::sleep(left.saturating_sub(BY_HAND)));
        let woken = poll_fn(|cx| {
            let mut ready = locked(ready);
            if !ready.tasks.is_empty() {
                return Poll::Ready(true);
            }
            ready.runs = Some(cx.waker().clone());
            drop(ready);
            sleep.as_mut().poll(cx).map(|()| false)
        });
        if !woken.await && due.is_none() {
            return Err(Error::Stalled { at: now });
        }
        Ok(())
    }
}

struct NetGuard<'a>(MutexGuard<'a, State>);

impl std::ops::Deref for NetGuard<'_> {
    type Target = Net;

    fn deref(&self) -> &Net {
        &self.0.net
    }
}

impl std::ops::DerefMut for NetGuard<'_> {
    fn deref_mut(&mut self) -> &mut Net {
        &mut self.0.net
    }
}
