//! Flow identity: what a hash of the 5-tuple would give, under a perturbation drawn per queue; and the count of
//! flows that fell together.
//!
//! Linux hashes with SipHash and a key drawn at boot (net/core/flow_dissector.c); any well-mixed function of key and
//! tuple collides as often, so this takes two rounds of multiply and shift (the finaliser of MurmurHash3).

use crate::Context;
use knee_core::{Rng, Tuple};

/// A keyed hash of 5-tuples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowHash {
    perturbation: u64,
}

impl FlowHash {
    /// A hash with a perturbation drawn from `rng`.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self { perturbation: rng.next_u64() }
    }

    /// 32 well-mixed bits.
    #[inline]
    pub(crate) fn hash(self, tuple: Tuple) -> u32 {
        let mut h = tuple.number() ^ self.perturbation;
        h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (h >> 32) as u32
    }

    /// The bucket of a 5-tuple, from 0 to below `n`.
    #[inline]
    pub(crate) fn bucket(self, tuple: Tuple, n: u32) -> u32 {
        ((u64::from(self.hash(tuple)) * u64::from(n)) >> 32) as u32
    }
}

/// Flows that found their bucket in use by another: each is noted once, the first time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collisions {
    /// A bit per flow and direction.
    noted: Vec<u64>,
}

impl Collisions {
    /// `tuple` found its bucket in use by `other`.
    #[inline]
    pub(crate) fn note(&mut self, tuple: Tuple, other: Tuple, cx: &mut Context) {
        let (word, bit) = (tuple.of_flow() / 64, 1u64 << (tuple.of_flow() % 64));
        if self.noted.get(word).is_none_or(|bits| bits & bit == 0) {
            self.remember(word, bit);
            // Results count flows from 1.
            let value = f64::from(other.flow() + 1);
            cx.note(Some(tuple.flow()), "collision", value);
        }
    }

    #[cold]
    fn remember(&mut self, word: usize, bit: u64) {
        if self.noted.len() <= word {
            self.noted.resize(word + 1, 0);
        }
        self.noted[word] |= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::{ConnectionId, Packet};

    fn tuple(flow: u32, flags: u8) -> Tuple {
        Tuple::of(ConnectionId::of_flow(flow), &Packet { flow, flags, size: 1500, ..Packet::default() })
    }

    fn buckets_used(seed: u64, flows: u32, n: u32) -> usize {
        let hash = FlowHash::new(&mut Rng::stream(seed, "hash"));
        let mut used = vec![false; n as usize];
        for flow in 0..flows {
            used[hash.bucket(tuple(flow, 0), n) as usize] = true;
        }
        used.iter().filter(|u| **u).count()
    }

    #[test]
    fn flows_fall_together_as_often_as_chance_has_it() {
        // 1000 flows in 1024 buckets: 1024 (1 - (1 - 1/1024)^1000) = 638.6 buckets in use on average, standard
        // deviation 10; over 100 perturbations the mean lies within 4 on either side.
        let mean = (0..100).map(|seed| buckets_used(seed, 1000, 1024)).sum::<usize>() as f64 / 100.0;
        assert!((mean - 638.6).abs() < 4.0, "{mean}");
    }

    #[test]
    fn another_perturbation_puts_flows_elsewhere_and_the_same_one_does_not() {
        let place = |seed| {
            let hash = FlowHash::new(&mut Rng::stream(seed, "hash"));
            (0..8).map(|flow| hash.bucket(tuple(flow, 0), 1024)).collect::<Vec<_>>()
        };
        assert_eq!(place(1), place(1));
        assert_ne!(place(1), place(2));
    }

    #[test]
    fn data_and_acks_of_a_flow_are_two_tuples_of_one_flow() {
        assert_ne!(tuple(7, 0), tuple(7, Packet::ACK));
        assert_eq!(tuple(7, 0), tuple(7, Packet::ECT));
        assert_eq!(tuple(7, Packet::ACK).flow(), 7);
    }

    #[test]
    fn a_collision_is_noted_once_per_flow() {
        let (mut collisions, mut cx) = (Collisions::default(), Context::default());
        for _ in 0..3 {
            collisions.note(tuple(9, 0), tuple(4, 0), &mut cx);
            collisions.note(tuple(200, 0), tuple(4, 0), &mut cx);
        }
        let noted: Vec<_> = cx.notes.iter().map(|n| (n.flow, n.event, n.value)).collect();
        assert_eq!(noted, [(Some(9), "collision", 5.0), (Some(200), "collision", 5.0)], "flow 5 in results");
    }
}
