//! The longest queue: a heap that is kept only while there are overflows.

use super::ways::PLACES;
use knee_core::convert::index_u16;

/// Dequeues after an overflow for which the heap is kept (Linux cake_drop).
const KEPT_FOR: u16 = u16::MAX;

/// The heap: queues by bytes, the longest on top.
#[derive(Clone)]
pub(super) struct Longest {
    heap: Vec<u16>,
    /// The place of each queue in the heap.
    at: Vec<u16>,
    /// Dequeues until it is no longer kept; 0: it is not.
    kept_for: u16,
}

impl Longest {
    /// Not kept, for [`PLACES`] queues or, before there is any, none.
    pub(super) fn new(places: usize) -> Self {
        let heap: Vec<u16> = (0..index_u16(places)).collect();
        Self { at: heap.clone(), heap, kept_for: 0 }
    }

    /// The longest queue.
    pub(super) fn find(&mut self, bytes: &[u64]) -> usize {
        if self.kept_for == 0 {
            for place in (0..PLACES / 2).rev() {
                self.sift_down(place, bytes);
            }
        }
        self.kept_for = KEPT_FOR;
        usize::from(self.heap[0])
    }

    /// A queue has more bytes than before.
    #[inline]
    pub(super) fn grown(&mut self, i: usize, bytes: &[u64]) {
        if self.kept_for == 0 {
            return;
        }
        let mut place = usize::from(self.at[i]);
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.length(place, bytes) <= self.length(parent, bytes) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    /// A queue has fewer bytes than before.
    #[inline]
    pub(super) fn shrunk(&mut self, i: usize, bytes: &[u64]) {
        if self.kept_for > 0 {
            self.sift_down(usize::from(self.at[i]), bytes);
        }
    }

    /// A packet has left.
    #[inline]
    pub(super) fn on_dequeue(&mut self) {
        self.kept_for = self.kept_for.saturating_sub(1);
    }

    fn length(&self, place: usize, bytes: &[u64]) -> u64 {
        bytes[usize::from(self.heap[place])]
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.at[usize::from(self.heap[a])] = index_u16(a);
        self.at[usize::from(self.heap[b])] = index_u16(b);
    }

    fn sift_down(&mut self, mut place: usize, bytes: &[u64]) {
        loop {
            let mut longest = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < PLACES && self.length(child, bytes) > self.length(longest, bytes) {
                    longest = child;
                }
            }
            if longest == place {
                return;
            }
            self.swap(place, longest);
            place = longest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_top_is_a_longest_queue(changes in prop::collection::vec((0..PLACES, 0u64..50), 1..500)) {
            let (mut longest, mut bytes) = (Longest::new(PLACES), vec![0; PLACES]);
            for (n, (i, length)) in changes.into_iter().enumerate() {
                let before = std::mem::replace(&mut bytes[i], length);
                if length > before {
                    longest.grown(i, &bytes);
                } else {
                    longest.shrunk(i, &bytes);
                }
                if n > 100 {
                    let found = longest.find(&bytes);
                    prop_assert_eq!(bytes[found], *bytes.iter().max().unwrap());
                }
            }
        }
    }
}
