//! What happens next: the heads of everything that waits.
//!
//! A link, a pipe and a timer each have at most one entry at a time, so that what is held here are sources, not packets.
//! Entries are ordered by time. What is due at one time has an order of its own, whoever was scheduled first: busy wires
//! go first, so that a packet that comes finds the place free of one that leaves; then what concerns the whole run; then
//! pipes, so that an ACK goes before the timer it would stop; then timers and what else flows do. Of one kind, the lower
//! number goes first.

use knee_core::Time;

/// Something that is due; of one time in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change of the scenario.
    Change(u32),
    /// The links' figures start to count.
    MeasureLinks,
    /// A flow's figures start to count.
    Measure(u32),
    /// A flow stops sending new data.
    Stop(u32),
    /// The window in which all flows run begins.
    CommonStart,
    /// The window in which all flows run ends.
    CommonEnd,
    /// The end of an interval of the time series.
    Sample,
    /// The head of a pipe arrives.
    Pipe(u32),
    /// A link direction may send its next packet; a busy wire goes before all else.
    Link(u32),
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
}

impl Event {
    /// Its place among those of one time, from 1: 0 is for busy wires.
    pub(crate) const fn order(self) -> u64 {
        let (kind, number) = match self {
            Self::Change(i) => (1, i),
            Self::MeasureLinks => (2, 0),
            Self::Measure(i) => (3, i),
            Self::Stop(i) => (4, i),
            Self::CommonStart => (5, 0),
            Self::CommonEnd => (6, 0),
            Self::Sample => (7, 0),
            Self::Pipe(i) => (8, i),
            Self::Link(i) => (9, i),
            Self::Retransmit(i) => (10, i),
            Self::Pace(i) => (11, i),
            Self::DelayedAck(i) => (12, i),
            Self::CompressedSack(i) => (13, i),
            Self::Start(i) => (14, i),
        };
        kind << 32 | number as u64
    }
}

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    /// Order of those due at one time.
    order: u64,
    event: Event,
}

impl Entry {
    /// Later than all others.
    const NEVER: Self = Self { at: u64::MAX, order: u64::MAX, event: Event::Sample };

    const fn new(at: Time, event: Event) -> Self {
        Self { at: at.as_nanos(), order: event.order(), event }
    }

    /// Before all but other busy wires of its time.
    const fn first(at: Time, event: Event) -> Self {
        Self { at: at.as_nanos(), order: event.order() & u32::MAX as u64, event }
    }

    const fn at(&self) -> Time {
        Time::from_nanos(self.at)
    }

    /// Time in the upper half, order in the lower: one comparison.
    const fn key(&self) -> u128 {
        (self.at as u128) << 64 | self.order as u128
    }
}

/// Links and pipes held in order beside the timers.
const FRONT: usize = 8;
/// Length of a slot of the wheel: 2^18 ns, about a quarter of a millisecond.
const SLOT_SHIFT: u32 = 18;
/// Slots of the wheel: together they reach 268 ms ahead.
const SLOTS: u64 = 1024;
/// List of what is beyond the wheel.
const FAR: usize = SLOTS as usize;
/// Slots that a word of the bitmap stands for.
const WORD: u64 = u64::BITS as u64;
/// End of a list.
const END: u32 = u32::MAX;
/// Entries of a cell.
const CELL: usize = 8;

/// Some entries of a list, and the next cell of it.
#[derive(Clone, Copy)]
struct Cell {
    entries: [Entry; CELL],
    len: u32,
    next: u32,
}

/// A few links and pipes in order, and timers: those due soon in a binary heap, later ones unordered in the slots of a
/// wheel, and what is beyond the wheel in a heap of its own kind, a list sorted out once per turn.
///
/// Links and pipes are rescheduled with every packet to be next or next but one again: that costs a step or two in a
/// short list. Timers are far away and mostly void by the time they come: they cost a push to their slot and later a
/// place in a heap that holds no more than a slot's worth, however many flows there are.
pub struct Events {
    /// `len` entries, ascending, then [`Entry::NEVER`].
    front: [Entry; FRONT + 1],
    len: usize,
    /// Entries due before the end of slot `turned`, and such as found no place in the front.
    heap: Vec<Entry>,
    /// Key of the heap's first entry, or of the end of slot `turned` where that is earlier: then the wheel has to turn.
    heap_key: u128,
    /// Heads of the lists of the slots after `turned`, by slot number modulo the size; then that of what is beyond the
    /// wheel at its last full turn.
    wheel: Vec<u32>,
    /// A bit for each slot of the wheel whose list is not empty.
    occupied: [u64; (SLOTS / WORD) as usize],
    /// The earliest slot beyond the wheel that has an entry; `u64::MAX` where none has.
    far: u64,
    /// What the lists are made of.
    cells: Vec<Cell>,
    /// Head of the list of free cells.
    free: u32,
    /// Number of the last slot whose entries are in the heap.
    turned: u64,
    /// Entries in the wheel and beyond.
    later: usize,
    /// How often the wheel has turned.
    turns: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            front: [Entry::NEVER; FRONT + 1],
            len: 0,
            heap: Vec::new(),
            heap_key: Entry::NEVER.key(),
            wheel: vec![END; FAR + 1],
            occupied: [0; (SLOTS / WORD) as usize],
            far: u64::MAX,
            cells: Vec::new(),
            free: END,
            turned: 0,
            later: 0,
            turns: 0,
        }
    }
}

impl Events {
    /// Schedules `event` for `at`, which must not be past: the head may lag while its owner serves on.
    pub fn push(&mut self, at: Time, event: Event) {
        self.push_entry(Entry::new(at, event));
    }

    /// As [`Events::push`], for a packet that leaves a wire, which goes before all else of its time: that must be later
    /// than the time it is.
    pub fn push_leaving(&mut self, at: Time, event: Event) {
        self.push_entry(Entry::first(at, event));
    }

    fn push_entry(&mut self, entry: Entry) {
        if self.len < FRONT && matches!(entry.event, Event::Link(_) | Event::Pipe(_)) {
            return self.push_front(entry);
        }
        let at = entry.at();
        let slot = at.as_nanos() >> SLOT_SHIFT;
        if slot <= self.turned {
            self.push_heap(entry);
        } else {
            self.push_later(slot, entry);
            self.update_key();
        }
    }

    fn push_front(&mut self, entry: Entry) {
        let mut i = self.len;
        self.len += 1;
        // Never before the head at its own time: its owner may be at work. What leaves a wire does so later than that.
        let leaves = entry.order >> 32 == 0;
        while i > 0 && self.front[i - 1].key() > entry.key() && (i > 1 || self.front[0].at > entry.at || leaves) {
            self.front[i] = self.front[i - 1];
            i -= 1;
        }
        self.front[i] = entry;
    }

    /// The next event and its time.
    pub fn peek(&mut self) -> Option<(Time, Event)> {
        loop {
            if self.in_front() {
                return Some((self.front[0].at(), self.front[0].event));
            }
            match self.heap.first() {
                Some(first) if first.key() == self.heap_key => return Some((first.at(), first.event)),
                None if self.later == 0 => return None,
                _ => self.turn(),
            }
        }
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
            if let Some(first) = self.heap.first_mut() {
                *first = last;
                self.sift_down();
            }
            self.update_key();
        }
    }

    /// A time before which nothing but the next event is due.
    #[inline]
    pub fn second(&self) -> Time {
        if self.in_front() {
            return Time::from_nanos(self.front[1].at.min((self.heap_key >> 64) as u64));
        }
        let behind = self.heap.iter().skip(1).take(2).map(|e| e.at);
        Time::from_nanos(behind.fold(self.front[0].at.min((self.slot_end() >> 64) as u64), u64::min))
    }

    /// Moves the next event to a later time `at`: `pop` and `push` of the same event in one step.
    pub fn postpone(&mut self, at: Time) {
        self.postpone_entry(|event| Entry::new(at, event));
    }

    /// As [`Events::postpone`], where a packet leaves a wire then, which goes before all else of its time.
    pub fn postpone_leaving(&mut self, at: Time) {
        self.postpone_entry(|event| Entry::first(at, event));
    }

    #[inline]
    fn postpone_entry(&mut self, at: impl Fn(Event) -> Entry) {
        if !self.in_front() {
            let Some(&Entry { event, .. }) = self.heap.first() else { return };
            self.pop();
            return self.push_entry(at(event));
        }
        let entry = at(self.front[0].event);
        let mut i = 0;
        // What lies behind the last is later than anything.
        while i < FRONT && self.front[i + 1].key() < entry.key() {
            self.front[i] = self.front[i + 1];
            i += 1;
        }
        self.front[i] = entry;
    }

    /// Whether the next event, if there is one, is in the front.
    const fn in_front(&self) -> bool {
        self.front[0].key() < self.heap_key
    }

    /// Key just before the first entry that can still be in the wheel.
    const fn slot_end(&self) -> u128 {
        if self.later == 0 { Entry::NEVER.key() } else { (((self.turned + 1) << SLOT_SHIFT) as u128) << 64 }
    }

    fn update_key(&mut self) {
        let first = self.heap.first().map_or(Entry::NEVER.key(), Entry::key);
        self.heap_key = first.min(self.slot_end());
    }

    fn push_later(&mut self, slot: u64, entry: Entry) {
        self.later += 1;
        // A full turn begins with a slot number that is a multiple of the size.
        let reach = (self.turned | (SLOTS - 1)) + 1;
        let list = if slot < reach {
            let place = slot % SLOTS;
            self.occupied[(place / WORD) as usize] |= 1 << (place % WORD);
            place as usize
        } else {
            self.far = self.far.min(slot);
            FAR
        };
        let mut head = self.wheel[list];
        if head == END || self.cells[head as usize].len == CELL as u32 {
            head = self.new_cell(head);
            self.wheel[list] = head;
        }
        let cell = &mut self.cells[head as usize];
        cell.entries[cell.len as usize] = entry;
        cell.len += 1;
    }

    fn new_cell(&mut self, next: u32) -> u32 {
        let new = Cell { entries: [Entry::NEVER; CELL], len: 0, next };
        let cell = self.free;
        if cell == END {
            self.cells.push(new);
            return self.cells.len() as u32 - 1;
        }
        self.free = self.cells[cell as usize].next;
        self.cells[cell as usize] = new;
        cell
    }

    /// The wheel turns to the next slot that has an entry, but not beyond that of the front.
    #[cold]
    fn turn(&mut self) {
        self.turns += 1;
        // Where nothing is left of this full turn: to the beginning of the one that has the earliest entry.
        let next = self.next_occupied().unwrap_or(self.far & !(SLOTS - 1));
        self.turned = next.min(self.front[0].at >> SLOT_SHIFT);
        if self.turned / SLOTS >= self.far / SLOTS {
            self.far = u64::MAX;
            self.empty(FAR, |events, entry| events.push_later(entry.at >> SLOT_SHIFT, entry));
        }
        let place = self.turned % SLOTS;
        self.occupied[(place / WORD) as usize] &= !(1 << (place % WORD));
        self.empty(place as usize, Self::push_heap);
        self.update_key();
    }

    /// The first slot after `turned`, within its full turn, that has an entry.
    fn next_occupied(&self) -> Option<u64> {
        let (begin, place) = (self.turned & !(SLOTS - 1), self.turned % SLOTS);
        let (word, bit) = (place / WORD, place % WORD);
        // Shifted twice, since a shift by all bits is none.
        let rest = self.occupied[word as usize] & (u64::MAX << bit << 1);
        let later = (word + 1..SLOTS / WORD).map(|word| (word, self.occupied[word as usize]));
        let found = std::iter::once((word, rest)).chain(later).find(|(_, bits)| *bits != 0);
        found.map(|(word, bits)| begin + word * WORD + u64::from(bits.trailing_zeros()))
    }

    /// How often the wheel has turned: what time costs beside the events in it.
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// Takes all entries out of a list and hands them on.
    fn empty(&mut self, list: usize, give: impl Fn(&mut Self, Entry)) {
        let mut head = std::mem::replace(&mut self.wheel[list], END);
        while head != END {
            let cell = self.cells[head as usize];
            self.cells[head as usize].next = std::mem::replace(&mut self.free, head);
            self.later -= cell.len as usize;
            for &entry in &cell.entries[..cell.len as usize] {
                give(self, entry);
            }
            head = cell.next;
        }
    }

    fn push_heap(&mut self, entry: Entry) {
        self.heap.push(entry);
        let mut i = self.heap.len() - 1;
        while i > 0 {
            let parent = (i - 1) / 2;
            if entry.key() >= self.heap[parent].key() {
                break;
            }
            self.heap[i] = self.heap[parent];
            i = parent;
        }
        self.heap[i] = entry;
        self.update_key();
    }

    fn sift_down(&mut self) {
        let heap = self.heap.as_mut_slice();
        let entry = heap[0];
        let mut i = 0;
        loop {
            let left = 2 * i + 1;
            let child = match heap.get(left..) {
                Some([l, r, ..]) => left + usize::from(r.key() < l.key()),
                Some([_]) => left,
                _ => break,
            };
            if heap[child].key() >= entry.key() {
                break;
            }
            heap[i] = heap[child];
            i = child;
        }
        heap[i] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_due_at_one_time_has_an_order_of_its_own() {
        let mut events = Events::default();
        let now = Time::from_nanos(5);
        let later = [Event::Start(0), Event::Pace(9), Event::Retransmit(7), Event::Retransmit(3), Event::Pipe(2)];
        for event in later {
            events.push(now, event);
        }
        events.push(now, Event::Sample);
        events.push_leaving(now, Event::Link(4));
        let mut seen = Vec::new();
        while let Some((_, event)) = events.peek() {
            seen.push(event);
            events.pop();
        }
        let expected: Vec<Event> = [Event::Link(4), Event::Sample].into_iter().chain(later.into_iter().rev()).collect();
        assert_eq!(seen, expected);
    }

    /// Far apart, as samples of a run of three years are.
    #[test]
    fn empty_time_costs_nothing() {
        let mut events = Events::default();
        let times = (0..10).map(|i| Time::from_secs(10_000_000 * i + i)).collect::<Vec<_>>();
        for at in &times {
            events.push(*at, Event::Sample);
        }
        for at in times {
            assert_eq!(events.peek(), Some((at, Event::Sample)));
            events.pop();
        }
        assert_eq!(events.peek(), None);
        assert!(events.turns() <= 30, "{} turns of the wheel for ten events", events.turns());
    }

    proptest! {
        /// Against a list in which the next time is looked for.
        #[test]
        fn events_come_in_order_however_far_apart(
            ops in prop::collection::vec((0u32..56, any::<u64>(), 0u8..4, 0u32..20), 1..400)
        ) {
            let (mut events, mut list, mut now) = (Events::default(), Vec::new(), 0);
            let mut pushed = 0;
            for (bits, noise, op, i) in ops {
                let at = now + (noise & ((1 << bits) - 1)) + 1;
                let event = if op == 0 { Event::Pipe(i) } else { Event::Retransmit(i) };
                if op < 2 {
                    events.push(Time::from_nanos(at), event);
                    list.push(at);
                    pushed += 1;
                } else {
                    list.sort_unstable();
                    let next = (!list.is_empty()).then(|| list.remove(0));
                    prop_assert_eq!(events.peek().map(|(at, _)| at.as_nanos()), next);
                    now = next.unwrap_or(now);
                    events.pop();
                }
                prop_assert!(events.turns() <= 3 * (pushed + 1), "{} turns for {pushed} events", events.turns());
            }
        }

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
