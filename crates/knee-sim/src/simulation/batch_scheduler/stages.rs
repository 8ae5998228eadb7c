//! The links that data crosses, in an order in which no packet comes back to an earlier one: what leaves one in a batch
//! arrives at later ones, or lands.
//!
//! A packet that has crossed its last link waits here ([`Stage::landing`]) until the batch begins by which it lands;
//! then [`Stages::distribute`] sorts what has landed by path.

use super::visits::BetweenVisits;
use crate::simulation::model::Model;
use crate::simulation::obstacle::Obstacle;
use knee_core::convert::index_u32;
use knee_core::packet::MTU;
use knee_core::{Packet, Time};
use knee_link::queue::Burst;
use knee_link::{Arrivals, Departure};
use knee_net::events::{Event, KEYED_LINKS, KEYED_PIPES};
use knee_net::network::{Network, Route};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Packets that leave a link in a batch, about, at the most: what is noted of them has a bound.
const MAX_PACKETS: u64 = 131_072;
/// The longest batch: its times have to fit into 32 bits of nanoseconds.
const LONGEST: Time = Time::from_secs(4);
/// No stage comes behind.
const NONE: u32 = u32::MAX;

/// One of the links, what arrives there after this batch, and what has left it.
#[derive(Clone)]
struct Stage {
    link: u32,
    /// Arrivals from pipes after this batch, with their tie-break keys.
    later: Vec<(Packet, u64)>,
    /// Packets for which this was the last link, and which have not landed, in the order in which they do.
    landing: Vec<Departure>,
    /// By route, the stage that comes behind.
    next: Vec<u32>,
    /// True if there is any.
    goes_on: bool,
    /// Event of the link.
    event: Event,
    /// The pipe behind the link, for its tie-break key: in batches no packet enters it.
    pipe: Option<u32>,
}

/// The way of a path's data, as it is for all paths of a route.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// The first stage.
    pub(super) first_stage: u32,
    /// The tie-break key of what the link of that stage does.
    pub(super) link_key: u64,
    /// The event by which packets land: they leave the last link, or the pipe behind it.
    landing: Event,
    /// The landing as the cause of an ACK ([`Event::cause`]), without its index.
    pub(super) cause: u64,
}

impl Way {
    /// Returns true if what lands at one time comes after the ACKs that reach senders then.
    #[inline]
    pub(super) const fn lands_late(&self) -> bool {
        matches!(self.landing, Event::Medium(_))
    }
}

/// Data that has crossed its last link, path by path ([`BetweenVisits::landed`]), each path's in the order of time,
/// until its receiver takes it.
#[derive(Clone, Default)]
pub(super) struct Landed {
    /// Each at the time at which it lands.
    pub(super) packets: Vec<Departure>,
    /// Their places among those of their link that land with them, where several may land at one time; else empty.
    pub(super) places: Vec<u32>,
    /// How many land from each stage.
    counts: Vec<usize>,
}

/// The links that data crosses, in an order in which no packet comes back to an earlier one.
#[derive(Clone)]
pub(super) struct Stages {
    in_order: Vec<Stage>,
    /// By route.
    pub(super) ways: Vec<Way>,
    pub(super) landed: Landed,
    /// Packets that have left the link whose turn it is.
    departures: Vec<Departure>,
    /// True if several packets may land at the same time.
    arrivals_coincide: bool,
}

impl Stages {
    /// The stages of a network.
    ///
    /// # Errors
    /// With what keeps its links from being gone through one after the other.
    pub(super) fn new(network: &Network) -> Result<Self, Obstacle> {
        let Network { directions, pipes, routes, .. } = network;
        if directions.len() > KEYED_LINKS || pipes.len() >= KEYED_PIPES / 2 {
            return Err(Obstacle::ManyLinks);
        }
        let medium = |link: u32| !directions[link as usize].link.is_wire();
        let merges = merges(directions.len(), routes.iter().map(|route| route.data.as_slice()));
        // A medium may pass a packet on at the time at which it came, whatever else is due then: tie-break keys do not
        // tell the order of that.
        let at_once = |pair: &[u32]| {
            let passes_on = medium(pair[0]) && directions[pair[0] as usize].pipe.is_none();
            passes_on && (medium(pair[1]) || merges[pair[1] as usize])
        };
        for route in routes {
            let mut data = route.data.iter().map(|&link| &directions[link as usize]);
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
        let order = topological_order(directions.len(), &paths).ok_or(Obstacle::Circle)?;
        let place = |link: u32| order.iter().position(|other| *other == link).map_or(NONE, index_u32);
        let event = |link: u32| if medium(link) { Event::Medium(link) } else { Event::Wire(link) };
        let stage = |&link: &u32| {
            let behind = |data: &[u32]| {
                let here = data.iter().position(|other| *other == link);
                here.and_then(|here| data.get(here + 1)).map_or(NONE, |next| place(*next))
            };
            let next: Vec<u32> = routes.iter().map(|route| behind(&route.data)).collect();
            let goes_on = next.iter().any(|next| *next != NONE);
            let pipe = directions[link as usize].pipe;
            Stage { link, later: Vec::new(), landing: Vec::new(), goes_on, next, event: event(link), pipe }
        };
        let way = |route: &Route| {
            let (first, last) = (route.data[0], route.data[route.data.len() - 1]);
            let landing = directions[last as usize].pipe.map_or(event(last), Event::Pipe);
            Way { first_stage: place(first), link_key: event(first).key(), landing, cause: landing.cause(0) }
        };
        Ok(Self {
            in_order: order.iter().map(stage).collect(),
            ways: routes.iter().map(way).collect(),
            landed: Landed::default(),
            departures: Vec::new(),
            // A medium, or a delay that varies, may let packets out at the same time.
            arrivals_coincide: order.iter().any(|&link| medium(link) || !directions[link as usize].is_steady()),
        })
    }

    /// An empty list of arrivals for each stage.
    pub(super) fn no_arrivals(&self) -> Vec<Arrivals> {
        self.in_order.iter().map(|_| Arrivals::default()).collect()
    }

    /// Returns true if several packets may land at the same time.
    pub(super) const fn arrivals_coincide(&self) -> bool {
        self.arrivals_coincide
    }

    /// The length of the longest batch: no link carries more than about [`MAX_PACKETS`] in it.
    pub(super) fn longest(&self, network: &Network) -> Time {
        self.packet_times(network).min().map_or(LONGEST, |time| (time * MAX_PACKETS).min(LONGEST))
    }

    /// How many packets all links together carry in `span`.
    pub(super) fn packets_in(&self, span: Time, network: &Network) -> u64 {
        self.packet_times(network).map(|time| span.as_nanos() / time.as_nanos()).sum()
    }

    /// How long each link takes for a full packet, at least 1 ns.
    fn packet_times(&self, network: &Network) -> impl Iterator<Item = Time> {
        let rate = |stage: &Stage| network.directions[stage.link as usize].link.rate().unwrap_or(1);
        let time = move |stage: &Stage| u64::from(MTU) * 8_000_000_000 / rate(stage);
        self.in_order.iter().map(move |stage| Time::from_nanos(time(stage).max(1)))
    }

    /// A time before which no packet leaves a link, comes to one from a pipe, or lands.
    pub(super) fn next_departure(&self, network: &Network) -> Time {
        let next = |stage: &Stage| {
            let lands = stage.landing.first().map_or(Time::MAX, |left| left.at);
            let comes = stage.later.iter().map(|(packet, _)| packet.at).min().unwrap_or(Time::MAX);
            network.directions[stage.link as usize].link.due().min(lands).min(comes)
        };
        self.in_order.iter().map(next).min().unwrap_or(Time::MAX)
    }

    /// Packets between links, and behind the last one before they land.
    pub(super) fn under_way(&self) -> u64 {
        self.in_order.iter().map(|stage| (stage.landing.len() + stage.later.len()) as u64).sum()
    }

    /// Loses what is to land behind the first stage.
    #[cfg(test)]
    pub(super) fn lose_landing(&mut self) -> usize {
        self.in_order[0].landing.drain(..).len()
    }

    /// Goes through the links, each of which takes its arrivals before `until` and, from a wire, those at `until`;
    /// `arrivals` are by stage. A packet that leaves a link after the batch stays in the link until a later one.
    pub(super) fn advance(&mut self, arrivals: &mut [Arrivals], model: &mut Model, until: Time) {
        let last = model.recorder.last_departure(until);
        // Packets that have been in a pipe for longer come out of it first.
        for (stage, arrivals) in self.in_order.iter_mut().zip(&mut *arrivals) {
            let mut later = std::mem::take(&mut stage.later);
            for (packet, tie_break) in later.extract_if(.., |(packet, _)| packet.at < until) {
                stage.push(arrivals, packet, tie_break);
            }
            stage.later = later;
        }
        for k in 0..self.in_order.len() {
            let (recorder, network, mut observed) = model.observed();
            let stage = &mut self.in_order[k];
            let direction = &mut network.directions[stage.link as usize];
            // A medium acts after events of the whole run: what it does just at the end is part of the next batch.
            let last = if stage.is_medium() { until - Time::from_nanos(1) } else { last };
            direction.advance(&mut arrivals[k], last, &mut self.departures);
            recorder.book_link(stage.link, network, &mut observed);
            if stage.goes_on || stage.pipe.is_some() || !stage.landing.is_empty() {
                self.hand_on(k, arrivals, network, until);
            } else {
                std::mem::swap(&mut stage.landing, &mut self.departures);
            }
        }
    }

    /// Takes on the packets that have left stage `k` in this batch, each after the delay of the pipe behind the link,
    /// if there is one: to its next stage, or, behind its last link, to those that land.
    fn hand_on(&mut self, k: usize, arrivals: &mut [Arrivals], network: &mut Network, until: Time) {
        let (stage, behind) = self.in_order[k..].split_first_mut().expect("there is a stage");
        let tie_break = stage.pipe.map_or(stage.event, Event::Pipe).key();
        let direction = &mut network.directions[stage.link as usize];
        for Departure { mut at, mut packet, sojourn } in self.departures.drain(..) {
            if stage.pipe.is_some() {
                at = direction.propagate(&packet, at);
            }
            let next = stage.next[network.flow_paths[packet.flow as usize].route as usize];
            if next == NONE {
                stage.landing.push(Departure { at, packet, sojourn });
                continue;
            }
            packet.at = at;
            let following = &mut behind[next as usize - k - 1];
            if stage.pipe.is_none() || at < until {
                following.push(&mut arrivals[next as usize], packet, tie_break);
            } else {
                following.later.push((packet, tie_break));
            }
        }
    }

    /// Sorts what lands up to `until` by path; gives how many packets that is. Call it when receivers have taken all
    /// that landed, since it lays out their ranges anew, or again for a time by which nothing new lands.
    pub(super) fn distribute(&mut self, pending: &mut [BetweenVisits], until: Time) -> usize {
        let Self { in_order, landed: Landed { packets, places, counts }, arrivals_coincide, .. } = self;
        counts.clear();
        counts.extend(in_order.iter().map(|stage| {
            // Packets from a pipe or a medium come after events of the whole run.
            let margin = Time::from_nanos(u64::from(stage.pipe.is_some() || stage.is_medium()));
            stage.landing.partition_point(|departure| departure.at + margin <= until)
        }));
        let count = counts.iter().sum();
        if count == 0 {
            return 0;
        }
        // A range's length becomes how many packets land for its path.
        for (stage, &count) in in_order.iter().zip(&*counts) {
            for Departure { packet, .. } in &stage.landing[..count] {
                pending[packet.flow as usize].landed.1 += 1;
            }
        }
        // The ranges now follow each other in the order of paths; each is empty at first, and its end moves on with
        // every packet put there below.
        let mut from = 0;
        for BetweenVisits { landed: (next, end), .. } in &mut *pending {
            let count = *end - *next;
            (*next, *end) = (from, from);
            from += count;
        }
        packets.resize(packets.len().max(count), Departure::default());
        if *arrivals_coincide {
            places.resize(packets.len(), 0);
        }
        for (stage, &count) in in_order.iter_mut().zip(&*counts) {
            for (place, departure) in (0..).zip(&stage.landing[..count]) {
                let end = &mut pending[departure.packet.flow as usize].landed.1;
                packets[*end as usize] = *departure;
                if *arrivals_coincide {
                    places[*end as usize] = place;
                }
                *end += 1;
            }
            stage.landing.drain(..count);
        }
        count
    }
}

impl Stage {
    /// Returns true if the link has a medium, and is no wire.
    const fn is_medium(&self) -> bool {
        matches!(self.event, Event::Medium(_))
    }

    /// Adds a packet to `arrivals`. It goes before what this stage's link does at the same time if its key is lower: if
    /// it comes from a link of the same kind with a lower index, or from an event of an earlier class.
    #[inline]
    fn push(&self, arrivals: &mut Arrivals, packet: Packet, tie_break: u64) {
        arrivals.push(Burst { first: packet, count: 1 }, tie_break, tie_break < self.event.key());
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
