//! Finds the next event among the heads of all that waits.
//!
//! A link, a pipe and a timer each have one entry that counts at a time, so that what is held here are sources, not
//! packets. Entries are ordered by time. What is due at one time has an order of its own, whoever was scheduled first:
//! wires go first, so that a packet that comes finds the place free of one that leaves; then what concerns the whole
//! run; then pipes, so that an ACK goes before the timer it would stop; then media, the servers of links that are no
//! wire; then timers and what else flows do. The lower number of a kind goes first.

use crate::spec::Spec;
use knee_core::Time;
use knee_core::convert::index_u32;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event; variants are in order of priority at equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A packet leaves a wire.
    Wire(u32),
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
    /// A link with a [`Medium`](knee_link::medium::Medium), which is no wire, may send its next packet.
    Medium(u32),
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
    /// The application of a flow is to be woken.
    Wake(u32),
    /// The other end of a connection has an answer ready; by the connection's first endpoint.
    Answer(u32),
}

// A key, from its highest bit to its lowest; on top the bits' numbers. An event of the whole run has its kind from bit
// 32 on and its number below; all others but pipes have their number alone.
//
//     57..54   53..34   33..30           29..21          20..0
//   | class  | number | class of cause | link or pipe | index |   ACK from a pipe
//   | class  | number | 0              | 0            | 0     |   pipe
//   | class  | number of link or flow                         |   link, timer, start, wake, answer

/// Bits of a key below the class of its event.
const CLASS_SHIFT: u32 = PIPE_SHIFT + 20;
/// Bits of a pipe's key below its number: cause and index of an ACK that leaves it.
const PIPE_SHIFT: u32 = INDEX_BITS + 4 + LINK_BITS;
/// Key of the first pipe.
const FIRST_PIPE: u64 = Event::Pipe(0).key();
/// Bits of the index of what caused an ACK: a packet among those that land with it, or a flow.
const INDEX_BITS: u32 = 21;
/// Bits of a link's number in the cause of an ACK.
const LINK_BITS: u32 = 9;
/// Most links that keys have room for.
pub const KEYED_LINKS: usize = 1 << LINK_BITS;
/// Most pipes that keys have room for.
pub const KEYED_PIPES: usize = 1 << (CLASS_SHIFT - PIPE_SHIFT);

impl Event {
    /// Its class, and its place within that.
    const fn class(self) -> (u64, u64) {
        /// Events that concern the whole run, one kind after the other.
        const fn whole_run(kind: u64, i: u32) -> (u64, u64) {
            (1, kind << 32 | i as u64)
        }
        match self {
            Self::Wire(i) => (0, i as u64),
            Self::Change(i) => whole_run(0, i),
            Self::MeasureLinks => whole_run(1, 0),
            Self::Measure(i) => whole_run(2, i),
            Self::Stop(i) => whole_run(3, i),
            Self::CommonStart => whole_run(4, 0),
            Self::CommonEnd => whole_run(5, 0),
            Self::Sample => whole_run(6, 0),
            Self::Pipe(i) => (2, (i as u64) << PIPE_SHIFT),
            Self::Medium(i) => (3, i as u64),
            Self::Retransmit(i) => (4, i as u64),
            Self::Pace(i) => (5, i as u64),
            Self::DelayedAck(i) => (6, i as u64),
            Self::CompressedSack(i) => (7, i as u64),
            Self::Start(i) => (8, i as u64),
            Self::Wake(i) => (9, i as u64),
            Self::Answer(i) => (10, i as u64),
        }
    }

    /// Place among events of one time as a number: keys are ordered as events are.
    #[inline]
    pub const fn key(self) -> u64 {
        let (class, place) = self.class();
        class << CLASS_SHIFT | place
    }

    /// This event as the cause of an ACK, for [`ack_key`]: a packet that came from a wire, a pipe or a link that is no
    /// wire, or a timer of a receiver. `index` is the packet's among those that land with it, or the path's.
    #[inline]
    pub const fn cause(self, index: u32) -> u64 {
        let number = match self {
            Self::Wire(i) | Self::Pipe(i) | Self::Medium(i) => i,
            _ => 0,
        };
        (self.class().0 << LINK_BITS | number as u64) << INDEX_BITS | index as u64
    }
}

/// Key of an ACK that leaves a pipe: those of one pipe go by cause ([`Event::cause`]).
///
/// All packets take the same time through an ACK pipe, so ACKs that leave it at one time entered it at one time: event
/// by event, in the order of the events that caused them. Batches, which go flow by flow, restore that order by this
/// key.
#[inline]
pub const fn ack_key(pipe: u32, cause: u64) -> u64 {
    FIRST_PIPE | (pipe as u64) << PIPE_SHIFT | cause
}

// An ACK's key is packed with its eight flags.
const _: () = assert!(ack_key(u32::MAX >> 12, u64::MAX >> 30) < 1 << 56);

/// Events in the order of time, those of one time in their own.
///
/// Most events that happen make one of the same kind, soon: an event that was taken leaves its place at the head to the
/// next one pushed.
#[derive(Clone, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Time, Event)>>,
    /// True if the head has been taken.
    taken: bool,
}

impl Events {
    /// Schedules `event` for `at`, not before those taken.
    #[inline]
    pub fn push(&mut self, at: Time, event: Event) {
        if self.taken
            && let Some(mut head) = self.heap.peek_mut()
        {
            *head = Reverse((at, event));
        } else {
            self.heap.push(Reverse((at, event)));
        }
        self.taken = false;
    }

    /// The next event and its time.
    #[inline]
    pub fn peek(&self) -> Option<(Time, Event)> {
        let heap = self.heap.as_slice();
        let next = if self.taken { heap.iter().skip(1).take(2).max() } else { heap.first() };
        next.map(|entry| entry.0)
    }

    /// When the next event is due; `Time::MAX`: there is none.
    #[inline]
    pub fn next(&self) -> Time {
        let at = |place: usize| self.heap.as_slice().get(place).map_or(Time::MAX, |entry| entry.0.0);
        if self.taken { at(1).min(at(2)) } else { at(0) }
    }

    /// Returns true if `event` is scheduled for `at`.
    pub fn contains(&self, at: Time, event: Event) -> bool {
        self.heap.as_slice().iter().skip(usize::from(self.taken)).any(|entry| entry.0 == (at, event))
    }

    /// Replaces what concerns the whole run, but for the next sample, by what `agenda` has from `from` on; nothing at
    /// `from` or later has been taken.
    pub fn amend(&mut self, agenda: Self, from: Time) {
        if std::mem::take(&mut self.taken) {
            self.heap.pop();
        }
        let stays = |event: Event| event.class().0 != Event::Sample.class().0 || event == Event::Sample;
        self.heap.retain(|entry| stays(entry.0.1));
        self.heap.extend(agenda.heap.into_iter().filter(|entry| entry.0.0 >= from && !stays(entry.0.1)));
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Event)> {
        if std::mem::replace(&mut self.taken, true) {
            self.heap.pop();
        }
        let next = self.heap.peek().map(|entry| entry.0);
        self.taken = next.is_some();
        next
    }
}

/// Events of the whole run, apart from flows' starts. Without a warm-up, a flow's figures begin with its start.
pub fn agenda(spec: &Spec) -> Events {
    let mut agenda = Events::default();
    let warmup = Time::from_nanos(spec.warmup);
    let duration = Time::from_nanos(spec.duration);
    for (i, change) in spec.changes.iter().enumerate() {
        agenda.push(Time::from_nanos(change.at), Event::Change(index_u32(i)));
    }
    let starts = spec.flows.iter().map(|f| Time::from_nanos(f.start));
    let (first, last) = (starts.clone().min(), starts.max());
    // Before the first flow starts, so that its first packet counts.
    agenda.push(first.unwrap_or(Time::ZERO) + warmup, Event::MeasureLinks);
    for (i, flow) in spec.flows.iter().enumerate() {
        if warmup > Time::ZERO {
            agenda.push(Time::from_nanos(flow.start) + warmup, Event::Measure(index_u32(i)));
        }
        if flow.stop < spec.duration {
            agenda.push(Time::from_nanos(flow.stop), Event::Stop(index_u32(i)));
        }
    }
    let stop = spec.flows.iter().map(|f| Time::from_nanos(f.stop)).min().unwrap_or(duration).min(duration);
    let from = last.unwrap_or(Time::ZERO) + warmup;
    if from < stop {
        agenda.push(from, Event::CommonStart);
        if stop < duration {
            agenda.push(stop, Event::CommonEnd);
        }
    }
    agenda.push(Time::from_nanos(spec.interval), Event::Sample);
    agenda
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, flow, link, read, spec};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_due_at_one_time_has_an_order_of_its_own() {
        let mut events = Events::default();
        let now = Time::from_nanos(5);
        let expected = [
            Event::Wire(4),
            Event::Change(9),
            Event::Change(10),
            Event::Measure(8),
            Event::Sample,
            Event::Pipe(2),
            Event::Medium(1),
            Event::Retransmit(3),
            Event::Retransmit(7),
            Event::Pace(0),
            Event::Start(0),
        ];
        for event in expected.into_iter().rev() {
            events.push(now, event);
        }
        let popped: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(popped, expected.map(|event| (now, event)));
    }

    /// An event of each class, and one of another number.
    fn event(class: u8, i: u32) -> Event {
        let of = [
            Event::Wire,
            Event::Change,
            Event::Measure,
            Event::Stop,
            Event::Pipe,
            Event::Medium,
            Event::Retransmit,
            Event::Pace,
            Event::DelayedAck,
            Event::CompressedSack,
            Event::Start,
            Event::Wake,
            Event::Answer,
        ];
        let whole = [Event::MeasureLinks, Event::CommonStart, Event::CommonEnd, Event::Sample];
        of.get(usize::from(class)).map_or_else(|| whole[usize::from(class) - of.len()], |of| of(i))
    }

    proptest! {
        #[test]
        fn keys_have_the_order_of_events(a in (0u8..17, 0u32..1 << 20), b in (0u8..17, 0u32..1 << 20)) {
            let (a, b) = (event(a.0, a.1), event(b.0, b.1));
            prop_assert_eq!(a.key().cmp(&b.key()), a.cmp(&b), "{:?} and {:?}", a, b);
        }

        /// ACKs of one pipe leave as they came: those for what lands from wires, by link, then from pipes, then from
        /// other links, then those of timers; of one cause by index.
        #[test]
        fn acks_of_one_pipe_go_by_what_they_answer(
            pipe in 0..(KEYED_PIPES as u32 - 1), a in (0usize..6, 0u32..1 << 20), b in (0usize..6, 0u32..1 << 20)
        ) {
            let last = KEYED_LINKS as u32 - 1;
            let causes = [
                Event::Wire(0), Event::Wire(last), Event::Pipe(last), Event::Medium(0), Event::DelayedAck(1 << 20),
                Event::CompressedSack(7),
            ];
            let key = |(cause, index): (usize, u32)| ack_key(pipe, causes[cause].cause(index));
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            prop_assert!(Event::Pipe(pipe).key() <= key(a) && key(a) < Event::Pipe(pipe + 1).key());
            prop_assert!(key(a) < Event::Medium(0).key());
        }
    }

    #[test]
    fn figures_begin_after_the_warm_up_and_end_with_their_flows() {
        use Event::{Change, CommonEnd, CommonStart, Measure, MeasureLinks, Sample, Stop};
        let agenda_of = |warmup: u64, starts_and_stops: &[(u64, u64)]| {
            let flows = starts_and_stops.iter().map(|&(start, stop)| {
                let mut flow = flow(&[0]);
                (flow["start"], flow["stop"]) = (json!(start * MS), json!(stop * MS));
                flow
            });
            let mut spec = spec(&[link("a")], &flows.collect::<Vec<_>>());
            spec["warmup"] = json!(warmup * MS);
            spec["changes"] = json!([{"at": 40 * MS, "what": {"loss": {"link": 0, "loss": 0.1}}}]);
            let mut agenda = agenda(&read(&spec));
            std::iter::from_fn(|| agenda.pop()).map(|(at, event)| (at.as_nanos() / MS, event)).collect::<Vec<_>>()
        };
        // The run takes 1000 ms, an interval 100.
        let expected =
            [(10, MeasureLinks), (40, Change(0)), (100, Sample), (500, CommonStart), (800, Stop(0)), (800, CommonEnd)];
        assert_eq!(agenda_of(0, &[(10, 800), (500, 1000)]), expected);
        // All flows run to the end of the run, which ends the window too.
        let expected =
            [(40, Change(0)), (60, MeasureLinks), (60, Measure(0)), (70, Measure(1)), (70, CommonStart), (100, Sample)];
        assert_eq!(agenda_of(50, &[(10, 1000), (20, 1000)]), expected);
        // There is no time in which both have run for as long as the warm-up.
        let expected =
            [(40, Change(0)), (50, MeasureLinks), (50, Measure(0)), (100, Sample), (150, Measure(1)), (150, Stop(0))];
        assert_eq!(agenda_of(50, &[(0, 150), (100, 1000)]), expected);
    }

    #[test]
    fn an_event_is_held_until_it_is_taken() {
        let mut events = Events::default();
        let [early, late] = [1, 2].map(Time::from_nanos);
        events.push(late, Event::Sample);
        events.push(early, Event::Pipe(0));
        assert!(events.contains(early, Event::Pipe(0)) && events.contains(late, Event::Sample));
        assert!(!events.contains(late, Event::Pipe(0)) && !events.contains(early, Event::Sample));
        events.pop();
        assert!(!events.contains(early, Event::Pipe(0)) && events.contains(late, Event::Sample));
    }

    proptest! {
        #[test]
        fn events_come_in_the_order_of_time(times in prop::collection::vec(0u64..1000, 0..100)) {
            let mut events = Events::default();
            for &at in &times {
                events.push(Time::from_nanos(at), Event::Retransmit(0));
            }
            let mut sorted = times;
            sorted.sort_unstable();
            for at in sorted {
                prop_assert_eq!(events.next(), Time::from_nanos(at));
                prop_assert_eq!(events.peek(), events.pop());
            }
            prop_assert_eq!((events.next(), events.pop()), (Time::MAX, None));
        }

        /// A queue of events where the one taken leaves its place to the next is no different from a sorted list.
        #[test]
        fn events_come_in_order_whenever_they_are_pushed(steps in prop::collection::vec(prop::option::of(0u64..50), 0..200)) {
            let mut events = Events::default();
            let mut waiting = Vec::new();
            let mut now = 0;
            for (step, number) in steps.into_iter().zip(0..) {
                if let Some(after) = step {
                    let entry = (Time::from_nanos(now + after), Event::Pace(number));
                    events.push(entry.0, entry.1);
                    waiting.push(entry);
                    waiting.sort();
                } else {
                    let first = (!waiting.is_empty()).then(|| waiting.remove(0));
                    prop_assert_eq!(events.pop(), first);
                    now = first.map_or(now, |(at, _)| at.as_nanos());
                    prop_assert!(first.is_none_or(|(at, event)| !events.contains(at, event)));
                }
                prop_assert_eq!(events.peek(), waiting.first().copied());
                prop_assert_eq!(events.next(), waiting.first().map_or(Time::MAX, |entry| entry.0));
                prop_assert!(waiting.iter().all(|&(at, event)| events.contains(at, event)));
            }
        }
    }
}
