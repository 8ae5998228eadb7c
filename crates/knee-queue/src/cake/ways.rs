//! Set-associative hashing: a flow or a host has eight places to go to, so that few share one.
//!
//! A hash names one of [`PLACES`]; the eight aligned places around it are its set. A flow's own places come first, from
//! the named one on, then free ones; with neither, it shares the named one.

use knee_core::convert::index_u16;

/// Queues, and hosts on either side (Linux CAKE_QUEUES).
pub(super) const PLACES: usize = 1024;
/// Places in a set (Linux CAKE_SET_WAYS).
const WAYS: usize = 8;

/// A place for a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The flow's own place, from earlier packets.
    Own(usize),
    /// A place of no flow.
    Free(usize),
    /// Another flow's place.
    Shared(usize),
}

/// The place for `hash`, where `is_own` and `is_free` tell of a place what it is.
#[inline]
pub(super) fn find(hash: u32, is_own: impl Fn(usize) -> bool, is_free: impl Fn(usize) -> bool) -> Place {
    let named = hash as usize % PLACES;
    if is_own(named) {
        return Place::Own(named);
    }
    let set = named - named % WAYS;
    let mut ways = (0..WAYS).map(|i| set + (named + i) % WAYS);
    if let Some(i) = ways.clone().find(|&i| is_own(i)) {
        return Place::Own(i);
    }
    ways.find(|&i| is_free(i)).map_or(Place::Shared(named), Place::Free)
}

/// The hosts on one side, each with the number of its bulk flows.
#[derive(Clone)]
pub(super) struct Hosts {
    tags: Vec<u32>,
    bulk: Vec<u16>,
}

impl Hosts {
    /// No host known yet, and room for `places`.
    pub(super) fn new(places: usize) -> Self {
        Self { tags: vec![0; places], bulk: vec![0; places] }
    }

    /// The place of the host with this hash.
    pub(super) fn place(&mut self, hash: u32) -> u16 {
        let (Place::Own(i) | Place::Free(i) | Place::Shared(i)) =
            find(hash, |i| self.tags[i] == hash, |i| self.bulk[i] == 0);
        self.tags[i] = hash;
        index_u16(i)
    }

    /// Counts a further bulk flow of the host.
    pub(super) fn add(&mut self, host: u16) {
        self.bulk[usize::from(host)] += 1;
    }

    /// Counts a bulk flow of the host less.
    pub(super) fn remove(&mut self, host: u16) {
        let bulk = &mut self.bulk[usize::from(host)];
        *bulk = bulk.saturating_sub(1);
    }

    /// Bulk flows of a host.
    #[inline]
    pub(super) fn bulk(&self, host: u16) -> u16 {
        self.bulk[usize::from(host)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_of_one_set_get_a_place_each_and_the_ninth_shares() {
        let mut tags: Vec<Option<u32>> = vec![None; PLACES];
        // All name place 21, whose set is 16 to 23.
        for (n, place) in [21, 22, 23, 16, 17, 18, 19, 20].into_iter().enumerate() {
            let hash = 21 + 1024 * n as u32;
            let free = |i: usize| tags[i].is_none();
            assert_eq!(find(hash, |i| tags[i] == Some(hash), free), Place::Free(place));
            tags[place] = Some(hash);
            assert_eq!(find(hash, |i| tags[i] == Some(hash), |i| tags[i].is_none()), Place::Own(place));
        }
        let ninth = 21 + 1024 * 8;
        assert_eq!(find(ninth, |i| tags[i] == Some(ninth), |i| tags[i].is_none()), Place::Shared(21));
    }

    #[test]
    fn a_host_keeps_its_place_while_it_has_bulk_flows() {
        let mut hosts = Hosts::new(PLACES);
        let first = hosts.place(5);
        hosts.add(first);
        let second = hosts.place(5 + 1024);
        hosts.add(second);
        assert_eq!((first, second), (5, 6));
        assert_eq!(hosts.place(5), first);
        hosts.remove(first);
        assert_eq!((hosts.bulk(first), hosts.bulk(second)), (0, 1));
        assert_eq!(hosts.place(5 + 2048), 5, "a place without bulk flows is free");
    }
}
