//! How much at a time goes through a queue and over the wire behind it, where all that comes is known beforehand.
//!
//! [`Crossing::pass`] is compiled for each discipline, so that a packet costs no virtual call.

use crate::wire::Wire;
use crate::{Context, Queue};
use knee_core::cache::fetch;
use knee_core::packet::MTU;
use knee_core::{Packet, Rng, Time};

/// Packets that come at once, at the time that the first says, and differ by their segments only, which follow its.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// The first of them.
    pub first: Packet,
    /// How many, at least 1.
    pub count: u32,
}

/// When a burst comes and which it is, in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    /// The burst at index `i`, of a time less than 2^32 ns after some beginning.
    #[inline]
    pub const fn new(after: Time, i: u32) -> Self {
        Self(after.as_nanos() << 32 | i as u64)
    }

    /// How long after the beginning it comes.
    #[inline]
    pub const fn after(self) -> Time {
        Time::from_nanos(self.0 >> 32)
    }

    /// Its index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// What a wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When the packet on the wire has left it, or, where it waits, when to ask its queue again; `Time::MAX`: it is idle.
    pub due: Time,
    /// Whether it only waits for its queue to release a packet.
    pub waiting: bool,
    /// When the packet on the wire began to be sent.
    pub since: Time,
}

impl Service {
    /// Whether a packet that comes now may change when the wire serves next.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.due == Time::MAX || self.waiting
    }
}

/// What has become of the packets.
#[derive(Debug, Default)]
pub struct Gone {
    /// Those that have left the wire, in that order: when they did (`enqueued`), and how long they were in the queue
    /// (`extra`, in units of [`Packet::QUEUED_UNIT`]). The last one is still on the wire where the wire is busy.
    pub left: Vec<Packet>,
    /// Exactly how long each of them was in the queue.
    pub stays: Vec<Time>,
    /// Those that were dropped, in that order, and when (`enqueued`).
    pub dropped: Vec<Packet>,
}

/// What comes to a queue, and the wire that it leaves over.
pub struct Crossing<'a> {
    /// The wire.
    pub wire: &'a mut Wire,
    /// What it does.
    pub service: Service,
    /// Bytes counted on top of each IP packet.
    pub overhead: u64,
    /// Random loss probability before the queue.
    pub loss: f64,
    /// Stream of the losses.
    pub loss_rng: &'a mut Rng,
    /// What comes, in any order.
    pub bursts: &'a [Burst],
    /// Its order.
    pub order: &'a [Key],
    /// From when on the keys count.
    pub from: Time,
    /// Packets are sent until then, at the least until the last burst comes.
    pub until: Time,
    /// What has become of the packets.
    pub gone: &'a mut Gone,
}

/// Bursts are fetched so many places before their turn.
const AHEAD: usize = 12;

impl Crossing<'_> {
    /// Lets all bursts come to `queue`, and what may leave it by the end cross the wire. Gives what the wire does then.
    #[inline]
    pub(crate) fn pass<Q: Queue + ?Sized>(mut self, queue: &mut Q, cx: &mut Context) -> Service {
        for (place, key) in self.order.iter().enumerate() {
            if let Some(later) = self.order.get(place + AHEAD) {
                fetch(&self.bursts[later.index()]);
            }
            let now = self.from + key.after();
            self.serve(queue, now, cx);
            cx.now = now;
            self.admit(queue, &self.bursts[key.index()], cx);
        }
        self.serve(queue, self.until, cx);
        self.service
    }

    /// A burst comes.
    #[inline]
    fn admit<Q: Queue + ?Sized>(&mut self, queue: &mut Q, burst: &Burst, cx: &mut Context) {
        let Burst { first, count } = burst;
        let mut taken = 0;
        if *count > 1 && self.loss == 0.0 && !self.service.is_idle() {
            taken = queue.enqueue_burst(*first, *count, cx);
        }
        for k in taken..*count {
            if self.loss > 0.0 && self.loss_rng.chance(self.loss) {
                self.gone.dropped.push(Packet { seq: first.seq + u64::from(k), ..*first });
                continue;
            }
            queue.enqueue(Packet { seq: first.seq + u64::from(k), ..*first }, cx);
            self.note_drops(cx);
            if self.service.is_idle() {
                self.next(queue, 1, cx);
            }
        }
    }

    /// The wire sends up to `until`.
    #[inline]
    fn serve<Q: Queue + ?Sized>(&mut self, queue: &mut Q, until: Time, cx: &mut Context) {
        while self.service.due <= until {
            let now = self.service.due;
            cx.now = now;
            let most = self.wire.begun_within(until - now, u64::from(MTU) + self.overhead);
            self.next(queue, most, cx);
        }
    }

    /// The wire takes what is next, at most `most` packets.
    #[inline]
    fn next<Q: Queue + ?Sized>(&mut self, queue: &mut Q, most: u32, cx: &mut Context) {
        let mut first = Packet::default();
        let count = queue.dequeue_run(most, &mut first, cx);
        if count == 0 {
            let wake = queue.next_wake().map(|at| at.max(cx.now));
            self.service.due = wake.unwrap_or(Time::MAX);
            self.service.waiting = wake.is_some();
        } else {
            self.send(&first, count, cx.now);
        }
        self.note_drops(cx);
    }

    /// `count` packets that differ by their segments only are sent back to back from `now` on.
    #[inline]
    fn send(&mut self, first: &Packet, count: u32, now: Time) {
        let bytes = u64::from(first.size) + self.overhead;
        let (mut since, mut at) = (now, now);
        for k in 0..u64::from(count) {
            since = at;
            at = since + self.wire.time_for(bytes);
            let stay = since.saturating_sub(first.enqueued);
            self.gone.stays.push(stay);
            let extra = Packet::queued_units(stay);
            self.gone.left.push(Packet { enqueued: at, seq: first.seq + k, extra, ..*first });
        }
        self.service = Service { due: at, waiting: false, since };
    }

    #[inline]
    fn note_drops(&mut self, cx: &mut Context) {
        if !cx.dropped.is_empty() {
            let now = cx.now;
            self.gone.dropped.extend(cx.dropped.drain(..).map(|packet| Packet { enqueued: now, ..packet }));
        }
    }
}
