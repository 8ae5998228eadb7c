//! The three rotations of DRR++: each queue is in one of them or in none.

use super::ways::PLACES;
use knee_core::convert::index_u16;

/// A rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rotation {
    /// Queues that got their first packet, served before all others.
    New,
    /// Queues that used up their credit.
    Old,
    /// Empty queues whose COBALT has not forgotten yet.
    Decaying,
}

/// The rotations, as rings through places beyond the queues'.
#[derive(Clone)]
pub(super) struct Chain {
    next: Vec<u16>,
    prev: Vec<u16>,
}

impl Chain {
    /// All empty, for [`PLACES`] queues or, before there is any, none.
    pub(super) fn new(places: usize) -> Self {
        let alone: Vec<u16> = if places == 0 { Vec::new() } else { (0..index_u16(places + 3)).collect() };
        Self { next: alone.clone(), prev: alone }
    }

    fn end(rotation: Rotation) -> u16 {
        index_u16(PLACES + rotation as usize)
    }

    /// The queue whose turn it is.
    #[inline]
    pub(super) fn first(&self, rotation: Rotation) -> Option<usize> {
        let first = self.next[usize::from(Self::end(rotation))];
        (usize::from(first) < PLACES).then_some(usize::from(first))
    }

    /// The queue behind `i` in its rotation.
    #[inline]
    pub(super) fn after(&self, i: usize) -> Option<usize> {
        let next = usize::from(self.next[i]);
        (next < PLACES && next != i).then_some(next)
    }

    /// Takes a queue out of its rotation, if it is in one.
    #[inline]
    pub(super) fn remove(&mut self, i: usize) {
        let (prev, next) = (self.prev[i], self.next[i]);
        self.next[usize::from(prev)] = next;
        self.prev[usize::from(next)] = prev;
        (self.prev[i], self.next[i]) = (index_u16(i), index_u16(i));
    }

    /// Puts a queue last in a rotation.
    #[inline]
    pub(super) fn move_to(&mut self, i: usize, rotation: Rotation) {
        self.remove(i);
        let end = Self::end(rotation);
        let last = std::mem::replace(&mut self.prev[usize::from(end)], index_u16(i));
        self.next[usize::from(last)] = index_u16(i);
        (self.prev[i], self.next[i]) = (last, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_leave_a_rotation_in_the_order_they_came() {
        let mut chain = Chain::new(PLACES);
        for i in [7, 3, 9] {
            chain.move_to(i, Rotation::New);
        }
        chain.move_to(3, Rotation::Old);
        chain.move_to(7, Rotation::New);
        let mut order = vec![];
        while let Some(i) = chain.first(Rotation::New) {
            order.push(i);
            chain.remove(i);
        }
        assert_eq!(order, [9, 7]);
        assert_eq!((chain.first(Rotation::Old), chain.first(Rotation::Decaying)), (Some(3), None));
    }
}
