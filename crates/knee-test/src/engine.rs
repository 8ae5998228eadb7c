//! The only part that knows how links and queues are driven: packets go in, arrivals and drops come out.

use crate::{Error, Reason};
use knee_core::convert::index_u32;
use knee_core::{ConnectionId, Packet, Params, Payload, Time};
use knee_net::driver::{Driver, Step};
use knee_net::events::{Event, Events};
use knee_net::network::{Network, OwnQueue, params};
use knee_net::output::LinkFigures;
use knee_net::spec::{Change, EcnSpec, FlowSpec, LinkSpec, QuicSpec, Spec, TcpSpec, Transport};
use knee_queue::{Backlog, Bursts, Context, Entry, Queue, Resize, Verdict};
use knee_scenario::Scenario;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    network: Network,
    driver: Driver,
    changes: Vec<Change>,
    /// Records of the queues.
    seen: Arc<Mutex<Seen>>,
    /// Paths of packets whose codepoint is not that of their path, by both.
    others: BTreeMap<(u32, u8), u32>,
    codepoints: Vec<u8>,
    /// Fates since they were last taken.
    fates: Vec<(Time, Fate)>,
}

impl Engine {
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, Error> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (links, own) = watched(&scenario.links, &seen)?;
        let spec = Spec {
            duration: 1,
            seed: scenario.seed,
            warmup: 0,
            interval: 1,
            tcp: TcpSpec::default(),
            quic: QuicSpec::default(),
            links,
            flows: scenario.paths.iter().map(flow).collect(),
            changes: scenario.changes.clone(),
        };
        let mut network = Network::with_own(&spec, &own)?;
        network.directions.iter_mut().for_each(|direction| direction.measure(Time::ZERO));
        let mut events = Events::default();
        for (i, change) in (0..).zip(&spec.changes) {
            events.push(Time::from_nanos(change.at), Event::Change(i));
        }
        Ok(Self {
            network,
            driver: Driver::new(events),
            changes: spec.changes.iter().map(|change| change.what).collect(),
            seen,
            others: BTreeMap::new(),
            codepoints: scenario.paths.iter().map(|path| path.dscp).collect(),
            fates: Vec::new(),
        })
    }

    /// When something is due next; `Time::MAX`: nothing is.
    pub(crate) fn next(&self) -> Time {
        self.driver.next()
    }

    /// Handles the next event.
    pub(crate) fn step(&mut self) {
        let Some((now, step)) = self.driver.step(&mut self.network, Time::MAX) else { return };
        if let Step::Due(Event::Change(i)) = step {
            self.change(i as usize, now);
        }
        self.book(now);
        if let Step::Arrived(packet) = step {
            self.arrive(now, packet);
        }
    }

    /// Sends a packet; all events before `now` have been handled. `against`: from the path's far end to its near one.
    pub(crate) fn send(&mut self, path: u32, against: bool, dscp: Option<u8>, mut packet: Packet, now: Time) {
        packet.flow = dscp.map_or(path, |dscp| self.marked(path, dscp));
        packet.flags |= if against { Packet::ACK } else { 0 };
        let step = self.driver.forward(&mut self.network, packet, 1, now);
        self.book(now);
        if let Step::Arrived(packet) = step {
            self.arrive(now, packet);
        }
    }

    /// Takes the fates since the last call, in the order of time.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, (Time, Fate)> {
        self.fates.drain(..)
    }

    /// Names of the links, and of the reverse directions that queue, by their number.
    pub(crate) fn link_names(&self) -> impl Iterator<Item = &str> {
        self.network.directions.iter().map(|direction| direction.name.as_str())
    }

    /// Figures of a link up to `now`, and the bytes that have left it.
    pub(crate) fn figures(&mut self, link: usize, now: Time) -> (LinkFigures, u64) {
        let direction = &mut self.network.directions[link];
        // The end of an interval folds its delays into those of the run.
        direction.row(index_u32(link), now, now);
        (direction.figures(now), direction.link.counters().bytes)
    }

    /// The number of a path for packets with another codepoint.
    fn marked(&mut self, path: u32, dscp: u8) -> u32 {
        if self.codepoints[path as usize] == dscp {
            return path;
        }
        let network = &mut self.network;
        *self.others.entry((path, dscp)).or_insert_with(|| {
            let copy = network.flow_paths[path as usize];
            let number = index_u32(network.flow_paths.len());
            network.flow_paths.push(copy);
            network.identify(number, ConnectionId::of_flow(path), copy.route);
            let route = network.routes[copy.route as usize].clone();
            for link in route.data.into_iter().chain(route.acks) {
                network.directions[link as usize].link.set_dscp(number, dscp);
            }
            number
        })
    }

    fn change(&mut self, i: usize, now: Time) {
        let change = self.changes[i];
        let (_, link, ..) = self.network.change(change, now);
        self.network.unbooked.extend(link);
        if let Change::Rtt { flow, rtt } = change {
            for ((path, _), copy) in &self.others {
                if *path as usize == flow {
                    self.network.change(Change::Rtt { flow: *copy as usize, rtt }, now);
                }
            }
        }
    }

    fn arrive(&mut self, now: Time, packet: Packet) {
        lock(&self.seen).forget(packet.payload.key());
        self.fates.push((now, Fate::Arrived(packet)));
    }

    /// Takes what links have dropped as packets moved.
    fn book(&mut self, now: Time) {
        let Self { network, seen, fates, .. } = self;
        for link in network.unbooked.drain(..) {
            let (dropped, notes) = network.directions[link as usize].link.unbooked();
            notes.clear();
            for (_, packet) in dropped.drain(..) {
                let reason = lock(seen).reason(&packet);
                fates.push((now, Fate::Dropped(packet, link as usize, reason)));
            }
        }
    }
}

fn flow(path: &knee_scenario::Path) -> FlowSpec {
    FlowSpec {
        label: path.label.clone(),
        cc: "none".into(),
        cc_params: None,
        policy: None,
        rtt: path.rtt,
        start: 0,
        stop: 1,
        bytes: None,
        path: path.links.clone(),
        reverse: path.reverse,
        pacing: false,
        ecn: EcnSpec::Off,
        transport: Transport::Tcp,
        tls: false,
        traffic: None,
        receiver: None,
        tunnel: path.tunnel,
        dscp: path.dscp,
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
        let key = packet.payload.key() as usize;
        if self.queued.len() <= key {
            self.queued.resize(key + 1, 0);
        }
        self.queued[key] = u16::from(packet.hop) + 1;
    }

    /// Why a link has dropped a packet: where its queue did not, it was lost before that, or damaged behind it.
    fn reason(&mut self, packet: &Packet) -> Reason {
        let key = packet.payload.key();
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
    /// Notes what was dropped from `before` on; `arrived` is the packet that came.
    fn note(&self, before: usize, arrived: Option<u32>, cx: &Context) {
        if cx.dropped.len() == before {
            return;
        }
        let mut seen = lock(&self.seen);
        for packet in &cx.dropped[before..] {
            let key = packet.payload.key();
            let reason = match arrived {
                Some(arrived) if arrived == key => Reason::Refused,
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
        self.note(before, Some(packet.payload.key()), cx);
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
    Packet { payload: Payload::Stored(key), size, flags, ..Packet::default() }
}
