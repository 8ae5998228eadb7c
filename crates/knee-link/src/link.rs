//! The link: what arrives goes through loss and queue to the server, and leaves.

use crate::server::Server;
use crate::trace::InService;
use knee_core::packet::MTU;
use knee_core::{Packet, Rate, Rng, Time};
use knee_queue::{Backlog, Burst, Context, Limit, Note, Queue};
use std::collections::VecDeque;

/// A burst that arrives at a link.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When.
    pub at: Time,
    /// Its packets; `enqueued` of the first says the same time.
    pub burst: &'a Burst,
    /// Whether it goes before a packet that leaves the link at the same time.
    pub first: bool,
}

/// A packet that leaves a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// `enqueued` is when it leaves the link; the `extra` of data has its sojourn added.
    pub packet: Packet,
    /// How long it was in the queue.
    pub sojourn: Time,
}

/// What has become of packets.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Those that left the link, in that order.
    pub departed: Vec<Departure>,
    /// Those dropped, in that order; `enqueued` is when.
    pub dropped: Vec<Packet>,
    /// What the queue noted, in the order of time.
    pub notes: Vec<Note>,
}

impl Outcome {
    /// Whether packets were dropped or the queue noted something.
    #[inline]
    pub const fn has_news(&self) -> bool {
        !self.dropped.is_empty() || !self.notes.is_empty()
    }
}

/// What a link has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived, before random loss.
    pub arrived: u64,
    /// Packets that left.
    pub departed: u64,
    /// Bytes that left, overhead included.
    pub bytes: u64,
    /// Packets dropped by the queue or by random loss.
    pub drops: u64,
}

/// Bits that a link has carried and could have carried since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bits that left, and those of a packet that have been sent.
    pub carried: u128,
    /// Bits it could have carried, beside what a token bucket had saved.
    pub offered: u128,
    /// What a token bucket has saved up to now.
    pub saved: u128,
    /// By how much the others may be off, times being whole nanoseconds.
    pub rounding: u128,
}

/// One direction of a link.
pub struct Link {
    queue: Box<dyn Queue>,
    server: Server,
    cx: Context,
    /// Bytes counted on top of each IP packet.
    overhead: u64,
    /// Random loss probability before the queue.
    loss: f64,
    loss_rng: Rng,
    /// When it acts next; `Time::MAX`: not before something arrives.
    due: Time,
    /// Whether it only waits for its queue to release a packet.
    waiting: bool,
    /// The packet that a wire sends; it leaves when the link is `due`.
    on_wire: Option<Departure>,
    /// Packets that have had their tokens as they arrived; they leave when the link is `due`, which is at once.
    released: VecDeque<Departure>,
    counters: Counters,
    /// Bits it could have carried up to `rate_since`.
    offered_bits: u128,
    /// From when on it has its rate: not before the packet that was on the wire when it changed has left.
    rate_since: Time,
    /// Its rate before, in bit/s.
    rate_before: u64,
}

impl Link {
    /// A link at rest, without random loss.
    pub fn new(queue: Box<dyn Queue>, server: Server, overhead: u32, loss_rng: Rng) -> Self {
        Self {
            queue,
            server,
            cx: Context::default(),
            overhead: u64::from(overhead),
            loss: 0.0,
            loss_rng,
            due: Time::MAX,
            waiting: false,
            on_wire: None,
            released: VecDeque::new(),
            counters: Counters::default(),
            offered_bits: 0,
            rate_since: Time::ZERO,
            rate_before: 0,
        }
    }

    /// When it acts next; `Time::MAX`: not before something arrives.
    #[inline]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Whether it sends at a fixed rate.
    pub const fn is_wire(&self) -> bool {
        matches!(self.server, Server::Wire(_))
    }

    /// Its rate in bit/s; a trace has none.
    pub const fn rate(&self) -> Option<u64> {
        self.server.rate()
    }

    /// The packet that a wire sends now.
    #[inline]
    pub const fn on_wire(&self) -> Option<&Departure> {
        self.on_wire.as_ref()
    }

    /// A burst arrives `now`; the link is not due before.
    #[inline]
    pub fn arrive(&mut self, burst: &Burst, now: Time, out: &mut Outcome) {
        let idle = self.is_idle();
        self.admit(burst, now, out);
        if idle {
            self.hold(out);
        }
    }

    /// Takes the step that is due `now`: at most one packet leaves.
    #[inline]
    pub fn serve(&mut self, now: Time, out: &mut Outcome) {
        let before = out.departed.len();
        out.departed.extend(self.on_wire.take());
        self.step(now, now, out);
        self.hold(out);
        self.count(&out.departed[before..]);
    }

    /// Lets `arrivals` come, which are in the order of time, and all steps be taken up to `until`, no earlier than the last
    /// of them.
    pub fn advance<'a>(&mut self, arrivals: impl Iterator<Item = Arrival<'a>>, until: Time, out: &mut Outcome) {
        let before = out.departed.len();
        out.departed.extend(self.on_wire.take());
        for Arrival { at, burst, first } in arrivals {
            let before_it = if first { at.saturating_sub(Time::from_nanos(1)) } else { at };
            if self.due <= before_it {
                self.steps(before_it, out);
            }
            self.admit(burst, at, out);
        }
        self.steps(until, out);
        self.hold(out);
        self.count(&out.departed[before..]);
    }

    /// Takes all steps that are due up to `until`.
    #[inline(never)]
    fn steps(&mut self, until: Time, out: &mut Outcome) {
        while self.due <= until {
            self.step(self.due, until, out);
        }
    }

    /// A step that is due `now`. Nothing arrives up to `until`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet")]
    fn step(&mut self, now: Time, until: Time, out: &mut Outcome) {
        self.cx.now = now;
        match self.server {
            Server::Wire(_) => self.transmit(now, until, out),
            Server::Bucket(_) => self.serve_bucket(now, out),
            Server::Trace(_) => self.serve_trace(now, out),
        }
        if !self.cx.dropped.is_empty() || !self.cx.notes.is_empty() {
            self.report(out);
        }
    }

    /// While the link works: a wire's packet is the last of those departed until it is held again.
    #[inline]
    fn hold(&mut self, out: &mut Outcome) {
        if self.is_wire() && !self.is_idle() {
            self.on_wire = out.departed.pop();
        }
    }

    fn count(&mut self, departed: &[Departure]) {
        self.counters.departed += departed.len() as u64;
        let bytes = |departure: &Departure| u64::from(departure.packet.size) + self.overhead;
        self.counters.bytes += departed.iter().map(bytes).sum::<u64>();
    }

    /// Whether a packet that arrives now may change when the link acts next: it does nothing, or only waits for its queue
    /// to release a packet.
    #[inline]
    fn is_idle(&self) -> bool {
        self.due == Time::MAX || self.waiting
    }

    /// A burst arrives.
    #[inline]
    fn admit(&mut self, burst: &Burst, now: Time, out: &mut Outcome) {
        self.counters.arrived += u64::from(burst.count);
        self.cx.now = now;
        let mut taken = 0;
        if self.loss == 0.0 && !self.is_idle() && self.released.is_empty() {
            taken = self.queue.enqueue_burst(burst, &mut self.cx);
        }
        if taken < burst.count {
            self.admit_singly(burst, taken, out);
        }
    }

    /// The packets of a burst behind the first `taken` ones arrive one by one, and any may be lost.
    #[inline(never)]
    fn admit_singly(&mut self, burst: &Burst, taken: u32, out: &mut Outcome) {
        for k in taken..burst.count {
            let packet = Packet { seq: burst.first.seq + u64::from(k), ..burst.first };
            if self.loss > 0.0 && self.loss_rng.chance(self.loss) {
                self.counters.drops += 1;
                out.dropped.push(packet);
                continue;
            }
            self.queue.enqueue(packet, &mut self.cx);
            if !self.cx.dropped.is_empty() || !self.cx.notes.is_empty() {
                self.report(out);
            }
            if self.is_idle() || !self.released.is_empty() {
                self.wake(out);
            }
        }
    }

    /// Moves what the queue has dropped and noted to where others hear of it.
    #[cold]
    fn report(&mut self, out: &mut Outcome) {
        let now = self.cx.now;
        self.counters.drops += self.cx.dropped.len() as u64;
        out.dropped.extend(self.cx.dropped.drain(..).map(|packet| Packet { enqueued: now, ..packet }));
        out.notes.append(&mut self.cx.notes);
    }

    /// An idle link has been given a packet.
    #[cold]
    fn wake(&mut self, out: &mut Outcome) {
        let now = self.cx.now;
        self.waiting = false;
        match &mut self.server {
            Server::Wire(_) => self.step(now, now, out),
            Server::Bucket(_) => self.release(now, out),
            Server::Trace(trace) => self.due = trace.skip_to(now),
        }
    }

    /// A free wire takes the next packet, and the others of its run that begin to be sent up to `until`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet")]
    fn transmit(&mut self, now: Time, until: Time, out: &mut Outcome) {
        let Server::Wire(wire) = &mut self.server else { return };
        let max = wire.begun_within(until - now, u64::from(MTU) + self.overhead);
        let place = out.departed.len();
        out.departed.push(Departure::default());
        let departure = &mut out.departed[place];
        let count = self.queue.dequeue_run(max, &mut departure.packet, &mut self.cx);
        if count == 0 {
            out.departed.pop();
            return self.wait(now);
        }
        let bytes = u64::from(departure.packet.size) + self.overhead;
        departure.sojourn = now.saturating_sub(departure.packet.enqueued);
        if !departure.packet.has(Packet::ACK) {
            departure.packet.add_queued(departure.sojourn);
        }
        departure.packet.enqueued = now + wire.time_for(bytes);
        (self.due, self.waiting) = (departure.packet.enqueued, false);
        if count > 1 {
            self.transmit_run(place, now, count, out);
        }
    }

    /// Behind the packet at `place`, the first of a run of `count`, the others are sent back to back.
    #[inline(never)]
    fn transmit_run(&mut self, place: usize, now: Time, count: u32, out: &mut Outcome) {
        let Server::Wire(wire) = &mut self.server else { return };
        let Departure { mut packet, mut sojourn } = out.departed[place];
        let bytes = u64::from(packet.size) + self.overhead;
        // What data has met before: the same for all of a run.
        let before = packet.extra.saturating_sub(Packet::queued_units(sojourn));
        let mut begins = now;
        for _ in 1..count {
            sojourn += packet.enqueued - begins;
            begins = packet.enqueued;
            packet.seq += 1;
            packet.enqueued += wire.time_for(bytes);
            packet.extra = before + Packet::queued_units(sojourn);
            out.departed.push(Departure { packet, sojourn });
        }
        self.due = packet.enqueued;
    }

    /// Nothing may leave: the queue is empty, or holds its packets back for a while.
    #[cold]
    fn wait(&mut self, now: Time) {
        let wake = self.queue.next_wake();
        self.due = wake.map_or(Time::MAX, |at| at.max(now));
        self.waiting = wake.is_some();
    }

    /// What there are tokens for leaves its queue before the next packet of a burst enters it, as Linux dequeues after each
    /// that it enqueues.
    fn release(&mut self, now: Time, out: &mut Outcome) {
        let Server::Bucket(bucket) = &mut self.server else { return };
        while bucket.ready_at(now) == now
            && let Some(packet) = self.queue.dequeue(&mut self.cx)
        {
            bucket.take(u64::from(packet.size) + self.overhead, now);
            self.released.push_back(departure(packet, now, now));
        }
        let ready = bucket.ready_at(now);
        if !self.released.is_empty() {
            self.due = now;
        } else if ready > now && self.queue.backlog().packets > 0 {
            self.due = ready;
        } else {
            self.wait(now);
        }
        if !self.cx.dropped.is_empty() || !self.cx.notes.is_empty() {
            self.report(out);
        }
    }

    fn serve_bucket(&mut self, now: Time, out: &mut Outcome) {
        let Server::Bucket(bucket) = &mut self.server else { return };
        self.waiting = false;
        if let Some(departure) = self.released.pop_front() {
            out.departed.push(departure);
            if self.released.is_empty() {
                let more = self.queue.backlog().packets > 0;
                self.due = if more { bucket.ready_at(now) } else { Time::MAX };
            }
            return;
        }
        // A lower rate may have pushed back when there are tokens.
        if bucket.ready_at(now) > now {
            self.due = bucket.ready_at(now);
            return;
        }
        let Some(packet) = self.queue.dequeue(&mut self.cx) else { return self.wait(now) };
        bucket.take(u64::from(packet.size) + self.overhead, now);
        let more = self.queue.backlog().packets > 0;
        self.due = if more { bucket.ready_at(now) } else { Time::MAX };
        out.departed.push(departure(packet, now, now));
    }

    fn serve_trace(&mut self, now: Time, out: &mut Outcome) {
        let Server::Trace(trace) = &mut self.server else { return };
        self.waiting = false;
        let served = if let Some(served) = trace.in_service.take() {
            served
        } else if let Some(packet) = self.queue.dequeue(&mut self.cx) {
            InService { packet, since: now, rest: u64::from(packet.size) + self.overhead }
        } else {
            let wake = self.queue.next_wake();
            self.due = wake.map_or(Time::MAX, |at| trace.skip_to(at.max(now)));
            self.waiting = wake.is_some();
            return;
        };
        let Ok(InService { packet, since, .. }) = trace.carry(served) else {
            self.due = trace.current();
            return;
        };
        let more = self.queue.backlog().packets > 0;
        self.due = if more { trace.current() } else { Time::MAX };
        out.departed.push(departure(packet, since, now));
    }

    /// What its queue holds.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Packets inside: queued and in service.
    pub fn held(&self) -> u64 {
        let in_service = match &self.server {
            Server::Wire(_) => self.on_wire.is_some(),
            Server::Bucket(_) => false,
            Server::Trace(trace) => trace.in_service.is_some(),
        };
        self.queue.backlog().packets + u64::from(in_service) + self.released.len() as u64
    }

    /// What it has done.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Packets that its queue has marked CE.
    pub const fn marks(&self) -> u64 {
        self.cx.marks
    }

    /// Changes the probability of random loss from now on.
    pub const fn set_loss(&mut self, loss: f64) {
        self.loss = loss;
    }

    /// Changes the capacity of the queue.
    pub fn set_limit(&mut self, limit: Limit, now: Time, out: &mut Outcome) {
        self.cx.now = now;
        self.queue.set_limit(limit, &mut self.cx);
        self.report(out);
    }

    /// Changes the rate from now on; the packet that a wire sends goes out as it began.
    pub fn set_rate(&mut self, rate: Rate, now: Time, out: &mut Outcome) {
        let since = if self.on_wire.is_some() { self.due } else { now };
        if since > self.rate_since {
            self.offered_bits = self.offered_bits(since);
            (self.rate_since, self.rate_before) = (since, self.rate().unwrap_or(0));
        }
        self.server.set_rate(rate, now);
        self.cx.now = now;
        self.queue.set_rate(rate, &mut self.cx);
        self.report(out);
    }

    /// An interval of the time series ends: the queue notes what is to be drawn over time.
    pub fn observe(&mut self, now: Time, out: &mut Outcome) {
        self.cx.now = now;
        self.queue.observe(&mut self.cx);
        self.report(out);
    }

    /// What it has carried and could have carried up to `now`.
    ///
    /// It is counted in bits, so that a packet belongs to each of two windows for the part sent in it. A token bucket sends a
    /// packet at once that tokens are still owed for: it counts as these come.
    pub fn load(&self, now: Time) -> Load {
        let left = u128::from(self.counters.bytes) * 8;
        let (carried, saved) = match &self.server {
            Server::Wire(_) => {
                let sent = self.on_wire.map_or(0, |Departure { packet, .. }| {
                    let rest = self.offered_bits(self.due.max(now)) - self.offered_bits(now);
                    self.bits(&packet).saturating_sub(rest)
                });
                (left + sent, 0)
            }
            Server::Bucket(bucket) => {
                let bits = |span: Time| bits_in(bucket.rate(), span);
                let released: u128 = self.released.iter().map(|departure| self.bits(&departure.packet)).sum();
                ((left + released).saturating_sub(bits(bucket.owed(now))), bits(bucket.saved(now)))
            }
            Server::Trace(trace) => {
                let sent = |served: &InService| self.bits(&served.packet) - u128::from(served.rest) * 8;
                (left + trace.in_service.as_ref().map_or(0, sent), 0)
            }
        };
        let fastest = self.rate().unwrap_or(0).max(self.rate_before);
        let rounding = 2 + bits_in(fastest, Time::from_nanos(2));
        Load { carried, offered: self.offered_bits(now), saved, rounding }
    }

    /// Bits that a packet takes up.
    fn bits(&self, packet: &Packet) -> u128 {
        u128::from(u64::from(packet.size) + self.overhead) * 8
    }

    /// Bits it could have carried from the start to `now`, beside what a token bucket had saved.
    fn offered_bits(&self, now: Time) -> u128 {
        match &self.server {
            Server::Trace(trace) => u128::from(trace.offered_bytes(now)) * 8,
            _ if now < self.rate_since => self.offered_bits - bits_in(self.rate_before, self.rate_since - now),
            _ => self.offered_bits + bits_in(self.rate().unwrap_or(0), now - self.rate_since),
        }
    }
}

/// Bits sent at `rate` bit/s in a `span`.
fn bits_in(rate: u64, span: Time) -> u128 {
    u128::from(rate) * u128::from(span.as_nanos()) / 1_000_000_000
}

/// A packet that leaves `now` and left its queue at `since`.
fn departure(mut packet: Packet, since: Time, now: Time) -> Departure {
    let sojourn = since.saturating_sub(packet.enqueued);
    if !packet.has(Packet::ACK) {
        packet.add_queued(sojourn);
    }
    packet.enqueued = now;
    Departure { packet, sojourn }
}
