//! The links that data crosses, in an order in which no packet comes back to an earlier one: what leaves one in a batch
//! arrives at later ones.

use super::obstacle::Obstacle;
use super::world::World;
use knee_core::convert::{index_u32, saturating_u16};
use knee_core::packet::MTU;
use knee_core::{Packet, Time};
use knee_link::Arrivals;
use knee_net::network::{Direction, Network};
use knee_queue::Burst;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Packets that leave a link in a batch, about, at the most: what is noted of them has a bound.
const MAX_PACKETS: u64 = 131_072;
/// The longest batch: its times have to fit into 32 bits of nanoseconds.
const LONGEST: Time = Time::from_secs(4);
/// More links than this go event by event: ranks have nine bits for them.
const MAX_LINKS: usize = 1 << RANK_BITS;
const RANK_BITS: u32 = 9;
/// The same for pipes, which have 20 bits in a tie-break key, as flows have.
const MAX_PIPES: usize = 1 << 20;
/// No stage comes behind.
const NONE: u32 = u32::MAX;

/// Why a receiver sends an ACK: the upper three bits of its rank. A packet has landed from a wire, a pipe or a medium,
/// or a timer fires.
const FROM_PIPE: u16 = 1 << RANK_BITS;
const FROM_MEDIUM: u16 = 2 << RANK_BITS;
pub(super) const DELAYED_ACK: u16 = 3 << RANK_BITS;
pub(super) const COMPRESSED_SACK: u16 = 4 << RANK_BITS;

/// The order of what is due at one time, as [`knee_net::events::Event`] has it: packets that come from wires first, by
/// link, then what comes out of pipes, then packets that come from media, by link, then what flows do, by flow.
const PIPE: u64 = 1 << TIE_BREAK_BITS;
const MEDIUM: u64 = 2 << TIE_BREAK_BITS;
pub(super) const RETRANSMIT: u64 = 3 << TIE_BREAK_BITS;
pub(super) const PACE: u64 = 4 << TIE_BREAK_BITS;
pub(super) const START: u64 = 5 << TIE_BREAK_BITS;
pub(super) const WAKE: u64 = 6 << TIE_BREAK_BITS;
/// A tie-break key leaves eight bits of a number for something else: those of its pipe, rank and place are below, and
/// three above.
const TIE_BREAK_BITS: u32 = PIPE_BITS + PLACE_BITS + RANK_BITS + 3;
const PIPE_BITS: u32 = 20;
const PLACE_BITS: u32 = 21;
const _: () = assert!(TIE_BREAK_BITS + 3 <= u64::BITS - u8::BITS && 1 << PIPE_BITS == MAX_PIPES);

/// Tie-break key of an ACK that leaves a pipe: pipe, then cause (`rank`), then index of the packet or flow that caused
/// it (`place`).
#[inline]
pub(super) const fn ack_tie_break(pipe: u32, rank: u16, place: u32) -> u64 {
    PIPE | (pipe as u64) << (RANK_BITS + 3 + PLACE_BITS) | (rank as u64) << PLACE_BITS | place as u64
}

/// Latest arrival at the receiver that is processed before an ACK of this rank, which is back at its sender `at`.
#[inline]
pub(super) const fn landed_before(at: Time, rank: u16) -> Time {
    if rank >> RANK_BITS == FROM_MEDIUM >> RANK_BITS { at.saturating_sub(Time::from_nanos(1)) } else { at }
}

/// Whether several packets may leave a link, or come out of the pipe behind it, at the same time.
fn lets_coincide(direction: &Direction) -> bool {
    !direction.link.is_wire() || !direction.is_steady()
}

/// One of the links, and what arrives there in a batch.
struct Stage {
    link: u32,
    /// What arrives in this batch.
    arrivals: Arrivals,
    /// What arrives after this batch, with its tie-break key, from pipes.
    later: Vec<(Packet, u64)>,
    /// By route, the stage that comes behind.
    next: Vec<u32>,
    /// Whether there is any.
    goes_on: bool,
    /// Tie-break key of what the link does.
    tie_break: u64,
    /// The pipe behind the link.
    pipe: Option<u32>,
}

/// The links that data crosses, in an order in which no packet comes back to an earlier one.
pub(super) struct Stages {
    in_order: Vec<Stage>,
    /// By route, the first stage.
    first: Vec<u32>,
    /// By route, the rank of ACKs for what lands.
    ranks: Vec<u16>,
    /// Whether several packets may land at the same time.
    arrivals_coincide: bool,
}

impl Stages {
    /// The stages of a network.
    ///
    /// # Errors
    /// With what keeps its links from being gone through one after the other.
    pub(super) fn new(network: &Network) -> Result<Self, Obstacle> {
        let Network { links, pipes, routes, .. } = network;
        if links.len() > MAX_LINKS || pipes.len() >= MAX_PIPES / 2 {
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
            } else if data.any(|direction| direction.link.rate().is_none()) {
                return Err(Obstacle::NoRate);
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
                arrivals: Arrivals::default(),
                later: Vec::new(),
                goes_on: next.iter().any(|next| *next != NONE),
                next,
                tie_break: if medium(link) { MEDIUM | u64::from(link) } else { u64::from(link) },
                pipe: direction.pipe,
            }
        };
        let last = |data: &[u32]| data[data.len() - 1];
        let at_end = |link: u32| {
            if medium(link) { FROM_MEDIUM | saturating_u16(u64::from(link)) } else { saturating_u16(u64::from(link)) }
        };
        let rank = |link: u32| {
            links[link as usize].pipe.map_or(at_end(link), |pipe| FROM_PIPE | saturating_u16(u64::from(pipe)))
        };
        Ok(Self {
            in_order: order.iter().map(stage).collect(),
            first: routes.iter().map(|route| place(route.data[0])).collect(),
            ranks: routes.iter().map(|route| rank(last(&route.data))).collect(),
            arrivals_coincide: order.iter().any(|link| lets_coincide(&links[*link as usize])),
        })
    }

    /// The links, and whether what lands from each comes after what concerns the whole run: from a pipe or a medium.
    pub(super) fn links(&self) -> impl Iterator<Item = (usize, bool)> {
        self.in_order.iter().map(|stage| (stage.link as usize, stage.pipe.is_some() || stage.tie_break >= MEDIUM))
    }

    /// Whether several packets may land at the same time.
    #[inline]
    pub(super) const fn arrivals_coincide(&self) -> bool {
        self.arrivals_coincide
    }

    /// The first stage of a route, and the rank of ACKs for what lands at its end.
    #[inline]
    pub(super) fn of_route(&self, route: u32) -> (u32, u16) {
        (self.first[route as usize], self.ranks[route as usize])
    }

    /// The longest batch: at its end each link has carried [`MAX_PACKETS`] at the most, about.
    pub(super) fn longest(&self, world: &World) -> Time {
        self.packet_times(world).min().map_or(LONGEST, |time| (time * MAX_PACKETS).min(LONGEST))
    }

    /// How many packets all links together carry in `span`.
    pub(super) fn packets_in(&self, span: Time, world: &World) -> u64 {
        self.packet_times(world).map(|time| span.as_nanos() / time.as_nanos()).sum()
    }

    /// How long each link takes for a full packet, at least 1 ns.
    fn packet_times(&self, world: &World) -> impl Iterator<Item = Time> {
        let rate = |stage: &Stage| world.network.links[stage.link as usize].link.rate().unwrap_or(1);
        let time = move |stage: &Stage| u64::from(MTU) * 8_000_000_000 / rate(stage);
        self.in_order.iter().map(move |stage| Time::from_nanos(time(stage).max(1)))
    }

    /// A time before which no packet leaves a link, comes to one from a pipe, or lands.
    pub(super) fn next_departure(&self, world: &World) -> Time {
        let next = |stage: &Stage| {
            let direction = &world.network.links[stage.link as usize];
            let lands = direction.outcome.departed.first().map_or(Time::MAX, |left| left.packet.arrived);
            let comes = stage.later.iter().map(|(packet, _)| packet.arrived).min().unwrap_or(Time::MAX);
            direction.link.due().min(lands).min(comes)
        };
        self.in_order.iter().map(next).min().unwrap_or(Time::MAX)
    }

    /// Packets between links, and behind the last one before they land.
    pub(super) fn under_way(&self, world: &World) -> u64 {
        let departed = |stage: &Stage| world.network.links[stage.link as usize].outcome.departed.len();
        self.in_order.iter().map(|stage| (departed(stage) + stage.later.len()) as u64).sum()
    }

    /// A batch begins at this time.
    pub(super) fn begin(&mut self, at: Time) {
        self.in_order.iter_mut().for_each(|stage| stage.arrivals.clear(at));
    }

    /// `count` packets that differ only by their segments come from their sender to their first stage; `tie_break` is
    /// that of the event that sent them.
    #[inline]
    pub(super) fn push(&mut self, stage: u32, first: Packet, count: u32, tie_break: u64) {
        self.in_order[stage as usize].push(first, count, tie_break);
    }

    /// Processes arrivals before `until`; departures after `last` wait for the next batch.
    pub(super) fn advance(&mut self, world: &mut World, until: Time, last: Time) {
        // What has been in a pipe for longer comes out of it first.
        self.in_order.iter_mut().for_each(|stage| stage.take_later(until));
        for k in 0..self.in_order.len() {
            let stage = &mut self.in_order[k];
            let direction = &mut world.network.links[stage.link as usize];
            let before = direction.outcome.departed.len();
            // What a medium does just at the end comes after what concerns the whole run.
            let last = if stage.tie_break >= MEDIUM { until - Time::from_nanos(1) } else { last };
            direction.link.advance(&mut stage.arrivals, last, &mut direction.outcome);
            direction.book(before);
            world.book_link(stage.link);
            if stage.goes_on || stage.pipe.is_some() {
                self.hand_on(k, before, world, until);
            }
        }
    }

    /// What has left stage `k`, behind the first `before` of its departures, goes on to later stages, or has a pipe
    /// before it lands.
    fn hand_on(&mut self, k: usize, before: usize, world: &mut World, until: Time) {
        let (stage, behind) = self.in_order[k..].split_first_mut().expect("there is a stage");
        let tie_break = stage.pipe.map_or(stage.tie_break, |pipe| ack_tie_break(pipe, 0, 0));
        let network = &mut world.network;
        let direction = &mut network.links[stage.link as usize];
        if stage.pipe.is_some() {
            for i in before..direction.outcome.departed.len() {
                let left = direction.outcome.departed[i].packet.arrived;
                direction.outcome.departed[i].packet.arrived = direction.propagate(left);
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
            let next = &mut behind[next as usize - k - 1];
            if stage.pipe.is_none() || packet.arrived < until {
                next.push(*packet, 1, tie_break);
            } else {
                next.later.push((*packet, tie_break));
            }
        }
        departed.truncate(lands);
    }
}

impl Stage {
    /// Of what arrives when a packet leaves, those that left a link of a lower index go first.
    #[inline]
    fn push(&mut self, first: Packet, count: u32, tie_break: u64) {
        self.arrivals.push(Burst { first, count }, tie_break, tie_break < self.tie_break);
    }

    /// Takes what comes from pipes before `until`.
    fn take_later(&mut self, until: Time) {
        let mut later = std::mem::take(&mut self.later);
        later.retain(|(packet, tie_break)| {
            let comes = packet.arrived < until;
            if comes {
                self.push(*packet, 1, *tie_break);
            }
            !comes
        });
        self.later = later;
    }
}

/// Whether packets come to each of `links` links from several places: from senders and links, or from several links.
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
    use knee_net::events::Event;
    use proptest::prelude::*;

    /// An event, and its tie-break key.
    fn due(kind: u8, i: u32) -> (Event, u64) {
        match kind {
            0 => (Event::Wire(i), u64::from(i)),
            1 => (Event::Pipe(i), ack_tie_break(i, 0, 0)),
            6 => (Event::Link(i), MEDIUM | u64::from(i)),
            2 => (Event::Retransmit(i), RETRANSMIT | u64::from(i)),
            3 => (Event::Pace(i), PACE | u64::from(i)),
            4 => (Event::Start(i), START | u64::from(i)),
            _ => (Event::Wake(i), WAKE | u64::from(i)),
        }
    }

    proptest! {
        #[test]
        fn tie_breaks_have_the_order_of_events(a in (0u8..7, 0u32..1024), b in (0u8..7, 0u32..1024)) {
            let ((a, tie_break_a), (b, tie_break_b)) = (due(a.0, a.1), due(b.0, b.1));
            prop_assert_eq!(tie_break_a.cmp(&tie_break_b), a.cmp(&b), "{:?} and {:?}", a, b);
        }

        /// ACKs of one pipe come as they left: for what lands from wires, by link, then from pipes, then from media,
        /// then those of timers; of one rank by place.
        #[test]
        fn acks_of_one_pipe_come_by_what_they_answer(
            pipe in 0..MAX_PIPES as u32, a in (0u16..6, 0u32..1 << 20), b in (0u16..6, 0u32..1 << 20)
        ) {
            let ranks = [0, MAX_LINKS as u16 - 1, FROM_PIPE, FROM_MEDIUM, DELAYED_ACK, COMPRESSED_SACK];
            let tie_break = |(rank, place): (u16, u32)| ack_tie_break(pipe, ranks[usize::from(rank)], place);
            prop_assert_eq!(tie_break(a).cmp(&tie_break(b)), a.cmp(&b));
            prop_assert!(tie_break(a) < ack_tie_break(pipe + 1, 0, 0));
            prop_assert!(tie_break(a) < RETRANSMIT);
        }
    }

    #[test]
    fn links_are_in_an_order_in_which_every_path_goes_forward() {
        assert_eq!(topological_order(4, &[&[2, 0], &[0, 3], &[2, 3]]), Some(vec![2, 0, 3]), "nobody crosses 1");
        assert_eq!(topological_order(2, &[&[0, 1], &[1, 0]]), None);
        assert_eq!(topological_order(3, &[&[0, 1], &[1, 2], &[2, 0]]), None);
    }
}
