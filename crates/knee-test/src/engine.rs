//! The only part that knows how links and queues are driven: packets go in, arrivals and drops come out. Beside them
//! the simulator may have flows of its own.

use crate::{Error, Reason};
use knee_core::convert::index_u32;
use knee_core::{Packet, Params, Payload, Time};
use knee_net::network::{OwnQueue, params};
use knee_net::observe::FlowCounts;
use knee_net::output::LinkFigures;
use knee_net::spec::{FlowSpec, LinkSpec, Spec};
use knee_queue::{Backlog, Bursts, Context, Entry, Queue, Resize, Verdict};
use knee_scenario::Scenario;
use knee_sim::Beside;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longer than any test, ns: the longest duration of a file.
const ENDLESS: u64 = 100_000_000_000_000_000;
/// The keys of the program's packets have this bit, by which queues know them.
const PROGRAM: u32 = 1 << 31;

/// The fate of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// It came to the other end of its path.
    Arrived(Packet),
    /// A link dropped it.
    Dropped(Packet, usize, Reason),
}

/// Links and pipes, and their events.
pub(crate) struct Engine {
    beside: Beside,
    /// Records of the queues.
    seen: Arc<Mutex<Seen>>,
    /// Paths of packets whose codepoint is not that of their path, by both.
    others: BTreeMap<(u32, u8), u32>,
    codepoints: Vec<u8>,
    /// Fates since they were last taken.
    fates: Vec<(Time, Fate)>,
}

impl Engine {
    /// The network of a scenario, in which the flows `background` are the simulator's.
    pub(crate) fn new(scenario: &Scenario, background: &BTreeSet<u32>) -> Result<Self, Error> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (links, own) = watched(&scenario.links, &seen)?;
        let mut flows: Vec<FlowSpec> = scenario.paths.iter().map(|path| path.flow("reno", 0, ENDLESS)).collect();
        for path in background {
            let sent = scenario.flows.get(*path as usize).ok_or(Error::NothingSent { path: *path })?;
            flows[*path as usize].clone_from(sent.as_ref().map_err(Clone::clone)?);
        }
        let outside: Vec<bool> = (0..index_u32(flows.len())).map(|i| !background.contains(&i)).collect();
        let spec = Spec {
            duration: ENDLESS,
            seed: scenario.seed,
            warmup: 0,
            interval: ENDLESS,
            tcp: scenario.tcp,
            quic: scenario.quic,
            links,
            flows,
            changes: scenario.changes.clone(),
        };
        Ok(Self {
            beside: Beside::new(&spec, &own, &outside)?,
            seen,
            others: BTreeMap::new(),
            codepoints: scenario.paths.iter().map(|path| path.dscp).collect(),
            fates: Vec::new(),
        })
    }

    /// When something is due next; `Time::MAX`: nothing is.
    pub(crate) fn next(&self) -> Time {
        self.beside.next()
    }

    /// Handles the next event.
    pub(crate) fn step(&mut self) {
        self.beside.step();
        self.book();
    }

    /// Sends a packet on a path of [`Engine::marked`]; all events before `now` have been handled. `against`: from the
    /// path's far end to its near one.
    pub(crate) fn send(&mut self, path: u32, against: bool, mut packet: Packet, now: Time) {
        packet.flow = path;
        packet.flags |= if against { Packet::ACK } else { 0 };
        self.beside.send(packet, now);
        self.book();
    }

    /// Takes the fates since the last call, in the order of time.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, (Time, Fate)> {
        self.fates.drain(..)
    }

    /// Names of the links, and of the reverse directions that queue, by their number.
    pub(crate) fn link_names(&self) -> impl Iterator<Item = &str> {
        self.beside.network().directions.iter().map(|direction| direction.name.as_str())
    }

    /// Figures of a link up to `now`, and the bytes that have left it.
    pub(crate) fn figures(&mut self, link: usize, now: Time) -> (LinkFigures, u64) {
        debug_assert_eq!(self.beside.audit(), Ok(()), "at {now}");
        let direction = &mut self.beside.network_mut().directions[link];
        // The end of an interval folds its delays into those of the run.
        direction.row(index_u32(link), now, now);
        (direction.figures(now), direction.link.counters().bytes)
    }

    /// Counts of a flow of the simulator's up to `now`.
    pub(crate) fn counts(&mut self, flow: u32, now: Time) -> FlowCounts {
        self.beside.counts(flow, now)
    }

    /// The number of a path for packets with this codepoint. `None` where they have to have the path's.
    pub(crate) fn marked(&mut self, path: u32, dscp: u8) -> Option<u32> {
        if self.codepoints[path as usize] == dscp {
            return Some(path);
        }
        if let Some(other) = self.others.get(&(path, dscp)) {
            return Some(*other);
        }
        let other = self.beside.alias(path, dscp)?;
        self.others.insert((path, dscp), other);
        Some(other)
    }

    /// Takes what has arrived, and what links have dropped.
    fn book(&mut self) {
        for (at, fate) in self.beside.take() {
            let fate = match fate {
                knee_sim::Fate::Arrived(packet) => {
                    lock(&self.seen).forget(key(&packet));
                    Fate::Arrived(packet)
                }
                knee_sim::Fate::Dropped(packet) => {
                    let link = self.beside.network().next_link(&packet).unwrap_or_default();
                    Fate::Dropped(packet, link as usize, lock(&self.seen).reason(&packet))
                }
            };
            self.fates.push((at, fate));
        }
    }
}

/// Records of the queues about packets inside, by the key of their bytes.
#[derive(Debug, Default)]
struct Seen {
    /// The link of its path to whose queue a packet came last, counted from 1; 0 for none.
    queued: Vec<u16>,
    /// Packets that a queue has dropped, and why.
    dropped: BTreeMap<u32, Reason>,
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn enqueued(&mut self, packet: &Packet) {
        let Some(key) = kept(packet) else { return };
        let key = key as usize;
        if self.queued.len() <= key {
            self.queued.resize(key + 1, 0);
        }
        self.queued[key] = u16::from(packet.hop) + 1;
    }

    /// Why a link has dropped a packet: where its queue did not, it was lost before that, or damaged behind it.
    fn reason(&mut self, packet: &Packet) -> Reason {
        let key = key(packet);
        let by_queue = self.dropped.remove(&key);
        let came = self.queued.get(key as usize).is_some_and(|link| *link == u16::from(packet.hop) + 1);
        self.forget(key);
        by_queue.unwrap_or(if came { Reason::Damaged } else { Reason::Lost })
    }

    fn forget(&mut self, key: u32) {
        if let Some(link) = self.queued.get_mut(key as usize) {
            *link = 0;
        }
    }
}

/// The links with queues that note what they see.
fn watched(links: &[LinkSpec], seen: &Arc<Mutex<Seen>>) -> Result<(Vec<LinkSpec>, Vec<OwnQueue>), Error> {
    let (mut links, mut own) = (links.to_vec(), Vec::new());
    for link in &mut links {
        let given = params_of(&link.queue, &link.queue_params, &link.name)?;
        link.queue = watch(given, format!("{} of {}", link.queue, link.name), &mut own, seen);
        if let Some(back) = &mut link.reverse {
            let given = params_of(&back.queue, &back.queue_params, &link.name)?;
            back.queue = watch(given, format!("{} of {} (reverse)", back.queue, link.name), &mut own, seen);
        }
    }
    Ok((links, own))
}

type Discipline = (&'static Entry, Params);

fn params_of(queue: &str, given: &knee_core::ParamsSpec, link: &str) -> Result<Discipline, Error> {
    let unknown = || knee_net::SpecError::UnknownQueue { link: link.into(), name: queue.into() };
    let entry = knee_queue::find(queue).ok_or_else(unknown)?;
    Ok((entry, params(entry.params, given, link)?))
}

fn watch((entry, given): Discipline, name: String, own: &mut Vec<OwnQueue>, seen: &Arc<Mutex<Seen>>) -> String {
    let seen = seen.clone();
    let make = Arc::new(move |_: &str, init: &knee_queue::Init| -> Box<dyn knee_queue::DynQueue> {
        Box::new(Watched { inner: (entry.make)(&given, init), seen: seen.clone() })
    });
    own.push(OwnQueue { name: name.clone(), make, outside: true });
    name
}

/// A queue discipline whose drops are noted with their reason.
#[derive(Clone)]
struct Watched {
    inner: Box<dyn knee_queue::DynQueue>,
    seen: Arc<Mutex<Seen>>,
}

impl Watched {
    /// Notes which of the program's packets were dropped from `before` on; `arrived` is the packet that came.
    fn note(&self, before: usize, arrived: Option<&Packet>, cx: &Context) {
        if cx.dropped.len() == before {
            return;
        }
        let mut seen = lock(&self.seen);
        for key in cx.dropped[before..].iter().filter_map(kept) {
            let reason = match arrived {
                Some(arrived) if kept(arrived) == Some(key) => Reason::Refused,
                Some(_) => Reason::PushedOut,
                None => Reason::Managed,
            };
            seen.dropped.insert(key, reason);
        }
    }
}

impl Queue for Watched {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let before = cx.dropped.len();
        lock(&self.seen).enqueued(&packet);
        let verdict = self.inner.enqueue(packet, cx);
        self.note(before, Some(&packet), cx);
        verdict
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let before = cx.dropped.len();
        let packet = self.inner.dequeue(cx);
        self.note(before, None, cx);
        packet
    }

    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        let before = cx.dropped.len();
        self.inner.resize(to, cx);
        self.note(before, None, cx);
    }

    fn observe(&self, cx: &mut Context) {
        self.inner.observe(cx);
    }
}

impl Bursts for Watched {}

/// A packet whose bytes are kept under `key`.
pub(crate) fn packet(key: u32, size: u16, flags: u8) -> Packet {
    Packet { payload: Payload::Stored(PROGRAM | key), size, flags, ..Packet::default() }
}

/// The key under which the bytes of a packet are kept; `None` for one of the simulator's.
fn kept(packet: &Packet) -> Option<u32> {
    packet.payload.stored().filter(|key| key & PROGRAM != 0).map(|key| key & !PROGRAM)
}

/// The key under which the bytes of a packet of the program's are kept.
pub(crate) fn key(packet: &Packet) -> u32 {
    packet.payload.key() & !PROGRAM
}
