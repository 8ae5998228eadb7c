//! A first-in-first-out queue that drops or marks with a probability that is set from outside.
//!
//! It is in no list: [`Steered::queue`] makes one for the holder of a [`Steered`], which measures one interval after
//! the other. Each packet that arrives and finds room is marked CE with the probability in force, or dropped where it
//! is not ECN-capable (RFC 3168, 5). A packet that finds no room is dropped.

use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, DynQueue, Init, Limit, Queue, Resize, Verdict};
use knee_core::{Bytes, Packet, Rng, Time};
use std::sync::{Arc, Mutex, PoisonError};

/// Packets held where no limit is given, as in `pfifo`.
const LIMIT: Limit = Limit::Packets(1000);

/// Counts of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Packets that arrived, and bytes.
    pub arrived: (u64, u64),
    /// Packets that were dropped, for whatever reason.
    pub dropped: u64,
    /// Packets that were marked CE.
    pub marked: u64,
    /// Packets that left, and bytes.
    pub left: (u64, u64),
    /// Sum of the times that these waited, ns.
    pub waited_ns: u64,
    /// The longest of these times.
    pub longest: Time,
    /// Bytes held.
    pub held: u64,
}

/// The probability and the interval of a queue.
#[derive(Debug, Default)]
struct Gauge {
    probability: f64,
    measured: Measured,
}

/// Steers a queue. Copies steer the same one.
#[derive(Clone, Debug, Default)]
pub struct Steered(Arc<Mutex<Gauge>>);

impl Steered {
    fn with<T>(&self, look: impl FnOnce(&mut Gauge) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops or marks with this probability from now on; it is brought into 0 to 1, and NaN is 0. Gives it.
    pub fn set(&self, probability: f64) -> f64 {
        let probability = if probability.is_nan() { 0.0 } else { probability.clamp(0.0, 1.0) };
        self.with(|gauge| gauge.probability = probability);
        probability
    }

    /// Ends an interval, and gives what happened in it.
    pub fn take(&self) -> Measured {
        self.with(|gauge| {
            let measured = gauge.measured;
            gauge.measured = Measured { held: measured.held, ..Measured::default() };
            measured
        })
    }

    /// The queue that is steered.
    pub fn queue(&self, init: &Init) -> Box<dyn DynQueue> {
        Box::new(SteeredFifo {
            fifo: Fifo::new(init),
            bound: Bound::new(init.limit.unwrap_or(LIMIT), init.rate),
            rng: init.rng.clone(),
            steered: self.clone(),
        })
    }
}

#[derive(Clone)]
struct SteeredFifo {
    fifo: Fifo,
    bound: Bound,
    rng: Rng,
    steered: Steered,
}

impl Queue for SteeredFifo {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
        let size = self.fifo.wire_size(&packet);
        let Backlog { packets, bytes: Bytes(bytes) } = self.backlog();
        let room = self.bound.holds(packets + 1, bytes + size);
        let drawn = self.rng.unit();
        let verdict = self.steered.with(|Gauge { probability, measured }| {
            measured.arrived = (measured.arrived.0 + 1, measured.arrived.1 + size);
            let hit = drawn < *probability;
            let verdict = match (room, hit) {
                (true, false) => Verdict::Queued,
                (true, true) if cx.mark(&mut packet) => Verdict::Marked,
                _ => Verdict::Dropped,
            };
            measured.dropped += u64::from(verdict == Verdict::Dropped);
            measured.marked += u64::from(verdict == Verdict::Marked);
            measured.held += if verdict == Verdict::Dropped { 0 } else { size };
            verdict
        });
        if verdict == Verdict::Dropped {
            cx.dropped.push(packet);
        } else {
            self.fifo.push(packet);
        }
        verdict
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let packet = self.fifo.pop()?;
        let (size, waited) = (self.fifo.wire_size(&packet), cx.now.saturating_sub(packet.at));
        self.steered.with(|Gauge { measured, .. }| {
            measured.left = (measured.left.0 + 1, measured.left.1 + size);
            measured.waited_ns = measured.waited_ns.saturating_add(waited.as_nanos());
            measured.longest = measured.longest.max(waited);
            measured.held -= size;
        });
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        let before = cx.dropped.len();
        while !self.bound.holds(self.backlog().packets, self.backlog().bytes.0) {
            self.fifo.drop_tail(cx);
        }
        let gone = &cx.dropped[before..];
        let bytes: u64 = gone.iter().map(|packet| self.fifo.wire_size(packet)).sum();
        self.steered.with(|Gauge { measured, .. }| {
            measured.dropped += gone.len() as u64;
            measured.held -= bytes;
        });
    }
}

impl Bursts for SteeredFifo {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::check;
    use crate::testing::{FULL, init};

    fn steered(limit: u64) -> (Steered, Box<dyn DynQueue>) {
        let steered = Steered::default();
        let queue = steered.queue(&init(&ENTRY, Some(Limit::Packets(limit)), 10));
        (steered, queue)
    }

    const ENTRY: crate::Entry = crate::Entry {
        name: "steered",
        about: "drops with a probability from outside",
        source: "ours",
        params: &[],
        make: |_, init| {
            let steered = Steered::default();
            steered.set(0.3);
            steered.queue(init)
        },
    };

    #[test]
    fn an_interval_by_hand() {
        let (steered, mut queue) = steered(3);
        let mut cx = Context::at(Time::from_millis(1));
        for _ in 0..4 {
            queue.enqueue(Packet { at: cx.now, ..FULL }, &mut cx);
        }
        cx.now = Time::from_millis(5);
        queue.dequeue(&mut cx);
        cx.now = Time::from_millis(7);
        queue.dequeue(&mut cx);
        let size = steered.take();
        let frame = size.left.1 / 2;
        let expected = Measured {
            arrived: (4, 4 * frame),
            dropped: 1,
            marked: 0,
            left: (2, 2 * frame),
            waited_ns: 10_000_000,
            longest: Time::from_millis(6),
            held: frame,
        };
        assert_eq!(size, expected);
        assert_eq!(steered.take(), Measured { held: frame, ..Measured::default() });
    }

    #[test]
    fn a_probability_of_one_drops_all_but_what_can_be_marked() {
        let (steered, mut queue) = steered(10);
        let mut cx = Context::default();
        for (probability, flags, verdict) in [
            (0.0, 0, Verdict::Queued),
            (1.0, 0, Verdict::Dropped),
            (1.0, Packet::ECT, Verdict::Marked),
            (f64::NAN, 0, Verdict::Queued),
            (7.0, 0, Verdict::Dropped),
        ] {
            steered.set(probability);
            assert_eq!(queue.enqueue(Packet { flags, ..FULL }, &mut cx), verdict, "{probability}");
        }
        assert_eq!((steered.take().dropped, cx.dropped.len(), cx.marks), (2, 2, 1));
    }

    #[test]
    fn it_keeps_the_invariants_of_queues() {
        knee_core::testing::fuzz(None, &[("steered", &ENTRY)], 5_000, 1_000, |entry, bytes| check(entry, bytes));
    }
}
