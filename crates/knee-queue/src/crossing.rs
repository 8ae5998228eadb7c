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

/// A burst on its way to its first queue, in the memory of a packet: half a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Coming(Packet);

impl Coming {
    /// `count` packets like `first`, which have met no queue; it says when they come.
    #[inline]
    pub fn new(first: Packet, count: u32) -> Self {
        debug_assert_eq!(first.extra, 0, "data that has been queued before");
        Self(Packet { extra: count, ..first })
    }

    /// The same as a burst.
    #[inline]
    pub(crate) fn burst(&self) -> Burst {
        Burst { first: Packet { extra: 0, ..self.0 }, count: self.0.extra }
    }
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

/// A packet that leaves a wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// As it left the queue, but that `enqueued` is when it leaves the wire, and `extra` how long it was in the queue.
    pub packet: Packet,
    /// How long it was in the queue, exactly.
    pub stay: Time,
}

/// What has become of the packets.
#[derive(Debug, Default)]
pub struct Gone {
    /// Those that left the wire, in that order. The last one is still on the wire where the wire is busy.
    pub left: Vec<Left>,
    /// Those that were dropped, in that order; `enqueued` is when.
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
    pub bursts: &'a [Coming],
    /// Its order.
    pub order: &'a [Key],
    /// From when on the keys count.
    pub from: Time,
    /// Packets are sent until then, at the least until the last burst comes.
    pub until: Time,
    /// Whether a discipline that knows what will leave may let it leave.
    pub foresees: bool,
    /// What has become of the packets.
    pub gone: &'a mut Gone,
}

/// A wire over which packets are sent ahead of their time, each when it comes, behind all that came before.
pub(crate) struct Line<'a> {
    wire: &'a mut Wire,
    /// From when on it is free.
    free: Time,
    /// When the last packet began to be sent.
    since: Time,
    left: &'a mut Vec<Left>,
}

impl<'a> Line<'a> {
    /// The `wire`, from a time on at which it does what `service` says; what leaves it is added to `left`.
    pub(crate) fn new(wire: &'a mut Wire, service: &Service, from: Time, left: &'a mut Vec<Left>) -> Self {
        let free = if service.is_idle() { from } else { service.due };
        Self { wire, free, since: service.since, left }
    }

    /// Sends a packet of so many `bytes` that comes `now`, like `first` but for its segment and what it has been through.
    /// Gives when it begins to be sent.
    #[inline]
    pub(crate) fn send(&mut self, first: &Packet, seq: u64, bytes: u64, now: Time) -> Time {
        let begins = self.free.max(now);
        let stay = begins - first.enqueued;
        (self.free, self.since) = (begins + self.wire.time_for(bytes), begins);
        // Copied whole, then changed where it lies.
        self.left.push(Left { packet: *first, stay });
        if let Some(Left { packet, .. }) = self.left.last_mut() {
            packet.enqueued = self.free;
            packet.seq = seq;
            packet.extra = Packet::queued_units(stay);
        }
        begins
    }

    /// What the wire does if no more than this comes by `until`.
    pub(crate) fn service(&self, until: Time) -> Service {
        let due = if self.free <= until { Time::MAX } else { self.free };
        Service { due, waiting: false, since: self.since }
    }
}

/// Bursts are fetched so many places before their turn.
const AHEAD: usize = 12;

/// Calls `come` with all `bursts` in their `order`: how many packets come, like which one, and how long after the
/// beginning.
#[inline]
pub(crate) fn in_order(bursts: &[Coming], order: &[Key], mut come: impl FnMut(u32, &Packet, Time)) {
    for (place, key) in order.iter().enumerate() {
        if let Some(later) = order.get(place + AHEAD) {
            fetch(&bursts[later.index()]);
        }
        let Coming(first) = &bursts[key.index()];
        come(first.extra, first, key.after());
    }
}

impl Crossing<'_> {
    /// Lets all bursts come to `queue`, and what may leave it by the end cross the wire. Gives what the wire does then.
    #[inline]
    pub(crate) fn pass<Q: Queue + ?Sized>(mut self, queue: &mut Q, cx: &mut Context) -> Service {
        let mut order = self.order.iter();
        loop {
            let key = order.as_slice().first();
            let until = key.map_or(self.until, |key| self.from + key.after());
            if self.service.due <= until {
                cx.now = self.service.due;
                self.next(queue, until, cx);
            } else if let Some(key) = order.next() {
                if let Some(later) = order.as_slice().get(AHEAD) {
                    fetch(&self.bursts[later.index()]);
                }
                cx.now = until;
                self.admit(queue, &self.bursts[key.index()].burst(), cx);
            } else {
                break;
            }
        }
        self.service
    }

    /// Whether a packet that comes is lost at random.
    #[inline]
    fn loses(&mut self) -> bool {
        self.loss > 0.0 && self.loss_rng.chance(self.loss)
    }

    /// A burst comes.
    #[inline]
    fn admit<Q: Queue + ?Sized>(&mut self, queue: &mut Q, burst: &Burst, cx: &mut Context) {
        let mut taken = 0;
        if self.loss == 0.0 && !self.service.is_idle() {
            taken = queue.enqueue_burst(burst, cx);
        }
        if taken < burst.count {
            self.admit_singly(queue, burst, taken, cx);
        }
    }

    /// The packets of a burst behind the first `taken` ones come one by one, and any may be lost.
    #[inline(never)]
    fn admit_singly<Q: Queue + ?Sized>(&mut self, queue: &mut Q, burst: &Burst, taken: u32, cx: &mut Context) {
        let Burst { first, count } = burst;
        for k in taken..*count {
            let packet = Packet { seq: first.seq + u64::from(k), ..*first };
            if self.loses() {
                self.gone.dropped.push(packet);
                continue;
            }
            queue.enqueue(packet, cx);
            self.note_drops(cx);
            if self.service.is_idle() {
                self.wake(queue, cx);
            }
        }
    }

    /// The idle wire takes what may leave now.
    #[cold]
    fn wake<Q: Queue + ?Sized>(&mut self, queue: &mut Q, cx: &mut Context) {
        self.next(queue, cx.now, cx);
    }

    /// The wire takes what is next, and what else begins to be sent up to `until` without anything else coming.
    #[inline]
    fn next<Q: Queue + ?Sized>(&mut self, queue: &mut Q, until: Time, cx: &mut Context) {
        let most = self.wire.begun_within(until - cx.now, u64::from(MTU) + self.overhead);
        let place = self.gone.left.len();
        self.gone.left.push(Left::default());
        let left = &mut self.gone.left[place];
        let count = queue.dequeue_run(most, &mut left.packet, cx);
        if count == 0 {
            self.wait(queue.next_wake(), cx.now);
        } else {
            let now = cx.now;
            let bytes = u64::from(left.packet.size) + self.overhead;
            left.stay = now.saturating_sub(left.packet.enqueued);
            left.packet.enqueued = now + self.wire.time_for(bytes);
            left.packet.extra = Packet::queued_units(left.stay);
            self.service = Service { due: left.packet.enqueued, waiting: false, since: now };
            if count > 1 {
                self.follow(place, count, bytes);
            }
        }
        self.note_drops(cx);
    }

    /// Behind the packet at `place` of those that have left, which is the first of `count` that differ by their
    /// segments only, the others are sent back to back.
    #[inline(never)]
    fn follow(&mut self, place: usize, count: u32, bytes: u64) {
        let Left { mut packet, mut stay } = self.gone.left[place];
        for _ in 1..count {
            let since = packet.enqueued;
            let time = self.wire.time_for(bytes);
            stay += since - self.service.since;
            packet.seq += 1;
            packet.enqueued += time;
            packet.extra = Packet::queued_units(stay);
            self.gone.left.push(Left { packet, stay });
            self.service.since = since;
        }
        self.service.due = packet.enqueued;
    }

    /// Nothing may leave `now`: the queue is empty, or releases a packet at `wake`.
    #[cold]
    fn wait(&mut self, wake: Option<Time>, now: Time) {
        self.gone.left.pop();
        self.service.due = wake.map_or(Time::MAX, |at| at.max(now));
        self.service.waiting = wake.is_some();
    }

    #[inline]
    fn note_drops(&mut self, cx: &mut Context) {
        if !cx.dropped.is_empty() {
            self.note_all_drops(cx);
        }
    }

    #[cold]
    fn note_all_drops(&mut self, cx: &mut Context) {
        let now = cx.now;
        self.gone.dropped.extend(cx.dropped.drain(..).map(|packet| Packet { enqueued: now, ..packet }));
    }
}
