//! The links that data crosses, in an order in which no packet comes back to an earlier one: what leaves one in a batch
//! arrives at later ones.

use super::model::Model;
use super::obstacle::Obstacle;
use knee_core::convert::index_u32;
use knee_core::packet::MTU;
use knee_core::{Packet, Time};
use knee_link::Arrivals;
use knee_net::events::{Event, KEYED_LINKS, KEYED_PIPES};
use knee_net::network::{Direction, Network};
use knee_queue::Burst;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Packets that leave a link in a batch, about, at the most: what is noted of them has a bound.
const MAX_PACKETS: u64 = 131_072;
/// The longest batch: its times have to fit into 32 bits of nanoseconds.
const LONGEST: Time = Time::from_secs(4);
/// No stage comes behind.
const NONE: u32 = u32::MAX;

/// Latest arrival at the receiver, by this event, that is processed before what a sender does `at` this time.
#[inline]
pub(super) const fn landed_before(at: Time, landing: Event) -> Time {
    if matches!(landing, Event::Link(_)) { at.saturating_sub(Time::from_nanos(1)) } else { at }
}

/// Returns true if several packets may leave a link, or come out of the pipe behind it, at the same time.
fn lets_coincide(direction: &Direction) -> bool {
    !direction.link.is_wire() || !direction.is_steady()
}

/// One of the links, and what arrives there in a batch.
#[derive(Clone)]
struct Stage {
    link: u32,
    /// Arrivals from pipes after this batch, with their tie-break keys.
    later: Vec<(Packet, u64)>,
    /// By route, the stage that comes behind.
    next: Vec<u32>,
    /// True if there is any.
    goes_on: bool,
    /// Event of the link.
    event: Event,
    /// The pipe behind the link.
    pipe: Option<u32>,
}

/// The links that data crosses, in an order in which no packet comes back to an earlier one.
#[derive(Clone)]
pub(super) struct Stages {
    in_order: Vec<Stage>,
    /// By route, the first stage and the tie-break key of what its link does.
    first: Vec<(u32, u64)>,
    /// By route, the event by which packets land.
    landings: Vec<Event>,
    /// True if several packets may land at the same time.
    arrivals_coincide: bool,
}

impl Stages {
    /// The stages of a network.
    ///
    /// # Errors
    /// With what keeps its links from being gone through one after the other.
    pub(super) fn new(network: &Network) -> Result<Self, Obstacle> {
        let Network { links, pipes, routes, .. } = network;
        if links.len() > KEYED_LINKS || pipes.len() >= KEYED_PIPES / 2 {
            return Err(Obstacle::ManyLinks);
        }
        let medium = |link: u32| !links[link as usize].link.is_wire();
        let merges = merges(links.len(), routes.iter().map(|route| route.data.as_slice()));
        // A medium may pass a packet on at the time at which it came, whatever else is due then: tie-break keys do not
        // tell the order of that.
        let at_once = |pair: &[u32]| {
            let passes_on = medium(pair[0]) && links[pair[0] as usize].pipe.is_none();
            passes_on && (medium(pair[1]) || merges[pair[1] as usize])
        };
        for route in routes {
            let mut data = route.data.iter().map(|&link| &links[link as usize]);
            if !route.acks.is_empty() {
                return Err(Obstacle::QueuedAcks);
            } else if data.clone().any(|direction| !direction.keeps_order()) {
                return Err(Obstacle::Reordering);
            } else if data.clone().any(|direction| direction.link.rate().is_none()) {
                return Err(Obstacle::NoRate);
            } else if data.clone().any(|direction| direction.link.corrupts()) {
                return Err(Obstacle::Corruption);
            } else if data.clone().any(|direction| direction.outside) {
                return Err(Obstacle::OwnQueue);
            } else if data.any(|direction| direction.shares) {
                return Err(Obstacle::SharedChannel);
            } else if route.data.windows(2).any(at_once) {
                return Err(Obstacle::MediumMerges);
            }
        }
        let paths: Vec<&[u32]> = routes.iter().map(|route| route.data.as_slice()).collect();
        let order = topological_order(links.len(), &paths).ok_or(Obstacle::Circle)?;
        let place = |link: u32| order.iter().position(|other| *other == link).map_or(NONE, index_u32);
        let stage = |&link: &u32| {
            let behind = |data: &[u32]| {
                let here = data.iter().position(|other| *other == link);
                here.and_then(|here| data.get(here + 1)).map_or(NONE, |next| place(*next))
            };
            let next: Vec<u32> = routes.iter().map(|route| behind(&route.data)).collect();
            let direction = &links[link as usize];
            Stage {
                link,
                later: Vec::new(),
                goes_on: next.iter().any(|next| *next != NONE),
                next,
                event: if medium(link) { Event::Link(link) } else { Event::Wire(link) },
                pipe: direction.pipe,
            }
        };
        let last = |data: &[u32]| data[data.len() - 1];
        let event = |link: u32| if medium(link) { Event::Link(link) } else { Event::Wire(link) };
        let landing = |link: u32| links[link as usize].pipe.map_or(event(link), Event::Pipe);
        Ok(Self {
            in_order: order.iter().map(stage).collect(),
            first: routes.iter().map(|route| (place(route.data[0]), event(route.data[0]).key())).collect(),
            landings: routes.iter().map(|route| landing(last(&route.data))).collect(),
            arrivals_coincide: order.iter().any(|link| lets_coincide(&links[*link as usize])),
        })
    }

    /// The links, and whether what lands from each comes after what concerns the whole run: from a pipe or a medium.
    pub(super) fn links(&self) -> impl Iterator<Item = (usize, bool)> {
        self.in_order.iter().map(|stage| (stage.link as usize, stage.pipe.is_some() || stage.is_medium()))
    }

    /// Returns true if several packets may land at the same time.
    #[inline]
    pub(super) const fn arrivals_coincide(&self) -> bool {
        self.arrivals_coincide
    }

    /// The first stage of a route with the tie-break key of what its link does, and the event by which packets land at
    /// its end.
    #[inline]
    pub(super) fn of_route(&self, route: u32) -> ((u32, u64), Event) {
        (self.first[route as usize], self.landings[route as usize])
    }

    /// The longest batch: at its end each link has carried [`MAX_PACKETS`] at the most, about.
    pub(super) fn longest(&self, network: &Network) -> Time {
        self.packet_times(network).min().map_or(LONGEST, |time| (time * MAX_PACKETS).min(LONGEST))
    }

    /// How many packets all links together carry in `span`.
    pub(super) fn packets_in(&self, span: Time, network: &Network) -> u64 {
        self.packet_times(network).map(|time| span.as_nanos() / time.as_nanos()).sum()
    }

    /// How long each link takes for a full packet, at least 1 ns.
    fn packet_times(&self, network: &Network) -> impl Iterator<Item = Time> {
        let rate = |stage: &Stage| network.links[stage.link as usize].link.rate().unwrap_or(1);
        let time = move |stage: &Stage| u64::from(MTU) * 8_000_000_000 / rate(stage);
        self.in_order.iter().map(move |stage| Time::from_nanos(time(stage).max(1)))
    }

    /// A time before which no packet leaves a link, comes to one from a pipe, or lands.
    pub(super) fn next_departure(&self, network: &Network) -> Time {
        let next = |stage: &Stage| {
            let direction = &network.links[stage.link as usize];
            let lands = direction.outcome.departed.first().map_or(Time::MAX, |left| left.packet.at);
            let comes = stage.later.iter().map(|(packet, _)| packet.at).min().unwrap_or(Time::MAX);
            direction.link.due().min(lands).min(comes)
        };
        self.in_order.iter().map(next).min().unwrap_or(Time::MAX)
    }

    /// Packets between links, and behind the last one before they land.
    pub(super) fn under_way(&self, network: &Network) -> u64 {
        let departed = |stage: &Stage| network.links[stage.link as usize].outcome.departed.len();
        self.in_order.iter().map(|stage| (departed(stage) + stage.later.len()) as u64).sum()
    }

    /// Processes arrivals before `until`; departures after the last time that counts wait for the next batch.
    /// `arrivals` are by stage.
    pub(super) fn advance(&mut self, arrivals: &mut [Arrivals], model: &mut Model, until: Time) {
        let last = model.recorder.last_before(until);
        // What has been in a pipe for longer comes out of it first.
        for (stage, arrivals) in self.in_order.iter_mut().zip(&mut *arrivals) {
            stage.take_later(arrivals, until);
        }
        for k in 0..self.in_order.len() {
            let (recorder, network, mut observed) = model.observed();
            let stage = &mut self.in_order[k];
            let direction = &mut network.links[stage.link as usize];
            let before = direction.outcome.departed.len();
            // What a medium does just at the end comes after what concerns the whole run.
            let last = if stage.is_medium() { until - Time::from_nanos(1) } else { last };
            direction.link.advance(&mut arrivals[k], last, &mut direction.outcome);
            direction.book(before);
            recorder.book_link(stage.link, network, &mut observed);
            if stage.goes_on || stage.pipe.is_some() {
                self.hand_on(k, before, arrivals, network, until);
            }
        }
    }

    /// Hands the departures of stage `k` behind the first `before` on to later stages, or has a pipe
    /// before it lands.
    fn hand_on(&mut self, k: usize, before: usize, arrivals: &mut [Arrivals], network: &mut Network, until: Time) {
        let (stage, behind) = self.in_order[k..].split_first_mut().expect("there is a stage");
        let tie_break = stage.pipe.map_or(stage.event, Event::Pipe).key();
        let direction = &mut network.links[stage.link as usize];
        if stage.pipe.is_some() {
            for i in before..direction.outcome.departed.len() {
                let packet = direction.outcome.departed[i].packet;
                direction.outcome.departed[i].packet.at = direction.propagate(&packet, packet.at);
            }
        }
        let departed = &mut direction.outcome.departed;
        let mut lands = before;
        for i in before..departed.len() {
            let packet = &mut departed[i].packet;
            let next = stage.next[network.flow_paths[packet.flow as usize].route as usize];
            if next == NONE {
                departed[lands] = departed[i];
                lands += 1;
                continue;
            }
            let at = &mut behind[next as usize - k - 1];
            if stage.pipe.is_none() || packet.at < until {
                at.push(&mut arrivals[next as usize], *packet, tie_break);
            } else {
                at.later.push((*packet, tie_break));
            }
        }
        departed.truncate(lands);
    }
}

impl Stage {
    /// Returns true if the link is no wire.
    const fn is_medium(&self) -> bool {
        matches!(self.event, Event::Link(_))
    }

    /// Among arrivals at the time of a departure, those that left a link of a lower index go first.
    #[inline]
    fn push(&self, arrivals: &mut Arrivals, packet: Packet, tie_break: u64) {
        arrivals.push(Burst { first: packet, count: 1 }, tie_break, tie_break < self.event.key());
    }

    /// Takes what comes from pipes before `until`.
    fn take_later(&mut self, arrivals: &mut Arrivals, until: Time) {
        let mut later = std::mem::take(&mut self.later);
        later.retain(|(packet, tie_break)| {
            let comes = packet.at < until;
            if comes {
                self.push(arrivals, *packet, *tie_break);
            }
            !comes
        });
        self.later = later;
    }
}

/// Returns true for each of `links` links that packets enter from several places: senders and links, or several links.
fn merges<'a>(links: usize, paths: impl Iterator<Item = &'a [u32]>) -> Vec<bool> {
    const SENDERS: u32 = NONE;
    let mut sources = vec![None; links];
    let mut merges = vec![false; links];
    for path in paths {
        for (source, &link) in std::iter::once(&SENDERS).chain(path).zip(path) {
            merges[link as usize] |= sources[link as usize].get_or_insert(source) != &source;
        }
    }
    merges
}

/// The links that `paths` cross, among `links` links, in an order in which each path only goes forward (Kahn's
/// algorithm, lowest index first). `None` if the paths form a circle.
fn topological_order(links: usize, paths: &[&[u32]]) -> Option<Vec<u32>> {
    let mut next = vec![Vec::new(); links];
    let mut before = vec![0_usize; links];
    for pair in paths.iter().flat_map(|path| path.windows(2)) {
        next[pair[0] as usize].push(pair[1]);
        before[pair[1] as usize] += 1;
    }
    let mut crossed: Vec<u32> = paths.concat();
    crossed.sort_unstable();
    crossed.dedup();
    let mut free: BinaryHeap<Reverse<u32>> =
        crossed.iter().filter(|&&link| before[link as usize] == 0).map(|&link| Reverse(link)).collect();
    let mut order = Vec::with_capacity(crossed.len());
    while let Some(Reverse(link)) = free.pop() {
        order.push(link);
        for &behind in &next[link as usize] {
            before[behind as usize] -= 1;
            if before[behind as usize] == 0 {
                free.push(Reverse(behind));
            }
        }
    }
    (order.len() == crossed.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_in_an_order_in_which_every_path_goes_forward() {
        assert_eq!(topological_order(4, &[&[2, 0], &[0, 3], &[2, 3]]), Some(vec![2, 0, 3]), "nobody crosses 1");
        assert_eq!(topological_order(2, &[&[0, 1], &[1, 0]]), None);
        assert_eq!(topological_order(3, &[&[0, 1], &[1, 2], &[2, 0]]), None);
    }
}
