//! Data that has crossed its last link, flow by flow, where time passes in batches.

use super::stages::Stages;
use knee_core::convert::index_u32;
use knee_core::{Packet, Time};
use knee_link::Departure;
use knee_net::network::Network;

/// Data that receivers have not taken yet.
#[derive(Clone)]
pub(super) struct Landings {
    /// Flow by flow, in the order of time; each at the time at which it lands.
    packets: Vec<Packet>,
    /// Their places among those of their link that land with them, where several may land at one time; else empty.
    places: Vec<u32>,
    /// Range of `packets` that each flow has not taken.
    ranges: Vec<(u32, u32)>,
    /// How many land from each stage.
    counts: Vec<usize>,
}

/// Landings of flows with numbers in a row.
pub(super) struct Landed<'a> {
    packets: &'a [Packet],
    places: &'a [u32],
    ranges: &'a mut [(u32, u32)],
}

impl<'a> Landed<'a> {
    /// Takes the packets of a flow, by its place in the row, that land up to `at`, with their places.
    #[inline]
    pub(super) fn take(&mut self, flow: usize, at: Time) -> (&'a [Packet], &'a [u32]) {
        let (next, end) = &mut self.ranges[flow];
        let packets = &self.packets[*next as usize..*end as usize];
        let count = match packets.last() {
            Some(last) if last.at > at => packets.partition_point(|packet| packet.at <= at),
            _ => packets.len(),
        };
        let places = self.places.get(*next as usize..*next as usize + count).unwrap_or_default();
        *next += index_u32(count);
        (&packets[..count], places)
    }
}

impl Landings {
    pub(super) fn new(flows: usize) -> Self {
        Self { packets: Vec::new(), places: Vec::new(), ranges: vec![(0, 0); flows], counts: Vec::new() }
    }

    /// Makes room for `flows` flows.
    pub(super) fn make_room(&mut self, flows: usize) {
        self.ranges.resize(flows, (0, 0));
    }

    /// Those of all flows.
    pub(super) fn all(&mut self) -> Landed<'_> {
        let Self { packets, places, ranges, .. } = self;
        Landed { packets, places, ranges }
    }

    /// Those of each `flows` flows in a row.
    pub(super) fn parts(&mut self, flows: u32) -> impl Iterator<Item = Landed<'_>> {
        let Self { packets, places, ranges, .. } = self;
        ranges.chunks_mut(flows as usize).map(|ranges| Landed { packets, places, ranges })
    }

    /// By flow, whether it has packets to take.
    pub(super) fn waiting(&self) -> impl Iterator<Item = bool> {
        self.ranges.iter().map(|(next, end)| next < end)
    }

    /// How many packets have not been taken.
    pub(super) fn len(&self) -> u64 {
        self.ranges.iter().map(|(next, end)| u64::from(end - next)).sum()
    }

    /// Sorts what lands up to `until` by flow; gives how many packets that is. Receivers have taken all that
    /// landed before, or nothing new has landed since.
    pub(super) fn distribute(&mut self, network: &mut Network, stages: &Stages, until: Time) -> usize {
        self.counts.clear();
        self.counts.extend(stages.links().map(|(link, later)| {
            let departed = &network.links[link].outcome.departed;
            // What does not come from a wire comes after what concerns the whole run.
            departed.partition_point(|departure| departure.packet.at + Time::from_nanos(later.into()) <= until)
        }));
        let count = self.counts.iter().sum();
        if count > 0 {
            self.fill(network, stages, count);
        }
        count
    }

    #[inline(never)]
    fn fill(&mut self, network: &mut Network, stages: &Stages, count: usize) {
        let links = || stages.links().map(|(link, _)| link).zip(&self.counts);
        for (link, &count) in links() {
            for Departure { packet, .. } in &network.links[link].outcome.departed[..count] {
                self.ranges[packet.flow as usize].1 += 1;
            }
        }
        // The ranges hold how many came; each is filled from its beginning.
        let mut from = 0;
        for (next, end) in &mut self.ranges {
            let count = *end - *next;
            (*next, *end) = (from, from);
            from += count;
        }
        if self.packets.len() < count {
            self.packets.resize(count, Packet::default());
        }
        if stages.arrivals_coincide() && self.places.len() < count {
            self.places.resize(count, 0);
        }
        for (link, &count) in links() {
            let departed = &mut network.links[link].outcome.departed;
            for (place, Departure { packet, .. }) in (0..).zip(&departed[..count]) {
                let end = &mut self.ranges[packet.flow as usize].1;
                self.packets[*end as usize] = *packet;
                if stages.arrivals_coincide() {
                    self.places[*end as usize] = place;
                }
                *end += 1;
            }
            departed.drain(..count);
        }
    }
}
