//! What happens next: a heap of the heads of everything that waits.
//!
//! A link, a pipe and a timer each have at most one entry at a time, so that the heap holds sources, not packets.
//! Entries are ordered by time, then by the order in which they were scheduled.

use knee_core::Time;

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link direction may send its next packet.
    Link(u32),
    /// The head of a pipe arrives.
    Pipe(u32),
    /// A sender's retransmission timer (RTO, loss probe or reordering).
    Retransmit(u32),
    /// A paced sender may send again.
    Pace(u32),
    /// A receiver's delayed ACK is due.
    DelayedAck(u32),
    /// A receiver's compressed SACK is due.
    CompressedSack(u32),
    /// A flow opens its connection.
    Start(u32),
    /// A flow stops sending new data.
    Stop(u32),
    /// A change of the scenario.
    Change(u32),
    /// The end of an interval of the time series.
    Sample,
    /// A flow's figures start to count.
    Measure(u32),
    /// The links' figures start to count.
    MeasureLinks,
    /// The window in which all flows run begins.
    CommonStart,
    /// The window in which all flows run ends.
    CommonEnd,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Time in the upper half, order of scheduling in the lower: one comparison.
    key: u128,
    event: Event,
}

impl Entry {
    /// Later than all others.
    const NEVER: Self = Self { key: u128::MAX, event: Event::Sample };

    const fn new(at: Time, order: u64, event: Event) -> Self {
        Self { key: (at.as_nanos() as u128) << 64 | order as u128, event }
    }

    const fn at(&self) -> Time {
        Self::at_key(self.key)
    }

    const fn at_key(key: u128) -> Time {
        Time::from_nanos((key >> 64) as u64)
    }
}

/// Links and pipes held in order beside the heap.
const FRONT: usize = 8;

/// A few links and pipes in order, and a binary heap of all else; the earlier of the two heads is next.
///
/// Links and pipes are rescheduled with every packet to be next or next but one again, timers are far away and mostly
/// void by the time they come: so the former cost a step or two in a short list, and the depth of the heap, a few
/// entries per flow, counts only for timers.
pub struct Events {
    /// `len` entries, ascending, then [`Entry::NEVER`].
    front: [Entry; FRONT + 1],
    len: usize,
    heap: Vec<Entry>,
    /// Key of the heap's first entry.
    heap_key: u128,
    order: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self { front: [Entry::NEVER; FRONT + 1], len: 0, heap: Vec::new(), heap_key: Entry::NEVER.key, order: 0 }
    }
}

impl Events {
    /// Schedules `event` for `at`, which must not be past: the head may lag while its owner serves on.
    pub fn push(&mut self, at: Time, event: Event) {
        self.order += 1;
        let entry = Entry::new(at, self.order, event);
        if self.len == FRONT || !matches!(event, Event::Link(_) | Event::Pipe(_)) {
            self.heap.push(entry);
            return self.sift_up(self.heap.len() - 1);
        }
        let mut i = self.len;
        self.len += 1;
        while i > 0 && self.front[i - 1].key > entry.key {
            self.front[i] = self.front[i - 1];
            i -= 1;
        }
        self.front[i] = entry;
    }

    /// The next event and its time.
    pub fn peek(&self) -> Option<(Time, Event)> {
        let next = if self.in_front() { &self.front[0] } else { self.heap.first()? };
        Some((next.at(), next.event))
    }

    /// Removes the next event.
    pub fn pop(&mut self) {
        if self.in_front() {
            self.len -= 1;
            for i in 0..self.len.min(FRONT) {
                self.front[i] = self.front[i + 1];
            }
            self.front[self.len] = Entry::NEVER;
        } else if let Some(last) = self.heap.pop() {
            match self.heap.first_mut() {
                Some(first) => {
                    *first = last;
                    self.sift_down();
                }
                None => self.heap_key = Entry::NEVER.key,
            }
        }
    }

    /// When the event after the next one is due.
    #[inline]
    pub fn second(&self) -> Time {
        if self.in_front() {
            return Entry::at_key(self.front[1].key.min(self.heap_key));
        }
        let behind = self.heap.iter().skip(1).take(2).map(|e| e.key);
        Entry::at_key(behind.fold(self.front[0].key, u128::min))
    }

    /// Moves the next event to a later time `at`: `pop` and `push` of the same event in one step.
    pub fn postpone(&mut self, at: Time) {
        self.order += 1;
        let order = self.order;
        if self.in_front() {
            let entry = Entry::new(at, order, self.front[0].event);
            let mut i = 0;
            // What lies behind the last is later than anything.
            while i < FRONT && self.front[i + 1].key < entry.key {
                self.front[i] = self.front[i + 1];
                i += 1;
            }
            self.front[i] = entry;
        } else if let Some(first) = self.heap.first_mut() {
            *first = Entry::new(at, order, first.event);
            self.sift_down();
        }
    }

    /// Whether the next event, if there is one, is in the front.
    fn in_front(&self) -> bool {
        self.front[0].key < self.heap_key
    }

    fn sift_up(&mut self, mut i: usize) {
        let entry = self.heap[i];
        while i > 0 {
            let parent = (i - 1) / 2;
            if entry.key >= self.heap[parent].key {
                break;
            }
            self.heap[i] = self.heap[parent];
            i = parent;
        }
        self.heap[i] = entry;
        self.heap_key = self.heap[0].key;
    }

    fn sift_down(&mut self) {
        let heap = self.heap.as_mut_slice();
        let entry = heap[0];
        let mut i = 0;
        loop {
            let left = 2 * i + 1;
            let child = match heap.get(left..) {
                Some([l, r, ..]) => left + usize::from(r.key < l.key),
                Some([_]) => left,
                _ => break,
            };
            if heap[child].key >= entry.key {
                break;
            }
            heap[i] = heap[child];
            i = child;
        }
        heap[i] = entry;
        self.heap_key = heap[0].key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_in_time_leave_in_the_order_they_came() {
        let mut events = Events::default();
        for i in 0..50 {
            events.push(Time::from_nanos(u64::from(i % 2)), Event::Link(i));
        }
        let mut seen = Vec::new();
        while let Some((_, Event::Link(i))) = events.peek() {
            seen.push(i);
            events.pop();
        }
        let expected: Vec<u32> = (0..50).step_by(2).chain((1..50).step_by(2)).collect();
        assert_eq!(seen, expected);
    }

    proptest! {
        #[test]
        fn times_never_run_backwards(ops in prop::collection::vec((0u64..1000, 0u8..3), 1..300)) {
            let (mut events, mut now) = (Events::default(), Time::ZERO);
            for (delta, op) in ops {
                match op {
                    0 if delta % 2 == 0 => events.push(now + Time::from_nanos(delta), Event::Sample),
                    0 => events.push(now + Time::from_nanos(delta), Event::Link(0)),
                    1 => if let Some((at, _)) = events.peek() {
                        prop_assert!(at >= now);
                        now = at;
                        events.pop();
                    },
                    _ => if let Some((at, _)) = events.peek() {
                        now = at;
                        events.postpone(at + Time::from_nanos(delta));
                    },
                }
            }
        }
    }
}
