//! The link: what arrives goes through random loss and the queue to the server, and leaves.
//!
//! [`Link::arrive`] and [`Link::serve`] move a packet at a time, [`Link::advance`] all those of a batch; both use
//! [`Line::admit`], by which packets enter the queue, and [`Line::step`], by which one leaves the link and the next
//! leaves the queue for the server. An idle link steps as a packet enters ([`Line::wake`]), else when it is due.

use crate::arrivals::{Arrival, Arrivals};
use crate::entry::Copies;
use crate::framing::Framing;
use crate::loss::Loss;
use crate::medium::{Access, Capacity, Transit};
use crate::outcome::{Counters, Departure, Dropped, Load};
use crate::queue::{Backlog, Burst, Bursts, Context, Limit, Note, Resize};
use crate::server::Server;
use crate::wire::bits_in;
use knee_core::packet::MTU;
use knee_core::{ConnectionId, Packet, Rate, Rng, Time};

/// One direction of a link.
#[derive(Clone)]
pub struct Link {
    queue: Box<dyn DynQueue>,
    line: Line,
    /// Probability that a packet it has carried is damaged, and its random stream. `None` if none is.
    damage: Option<(f64, Rng)>,
}

impl Link {
    /// A link at rest.
    pub fn new(queue: Box<dyn DynQueue>, server: Server, framing: impl Into<Framing>, loss: Loss) -> Self {
        let line = Line::new(server, framing.into(), loss);
        Self { queue, line, damage: None }
    }

    /// When it acts next; `Time::MAX`: not before something arrives.
    #[inline]
    pub const fn due(&self) -> Time {
        self.line.due
    }

    /// Returns true if its server is a wire.
    pub const fn is_wire(&self) -> bool {
        matches!(self.line.server, Server::Wire(_))
    }

    /// Its rate in bit/s; a trace has none.
    pub fn rate(&self) -> Option<u64> {
        self.line.server.rate()
    }

    /// The packet that a wire sends now.
    #[inline]
    pub fn on_wire(&self) -> Option<&Packet> {
        self.line.on_wire.as_ref().map(|(packet, _)| packet)
    }

    /// A burst arrives `now`; the link is not due before.
    #[inline]
    pub fn arrive(&mut self, burst: &Burst, now: Time) {
        self.line.admit(&mut *self.queue, burst, now);
    }

    /// Takes the step that is due `now`. Gives the packet that leaves, if one does.
    #[inline]
    pub fn serve(&mut self, now: Time) -> Option<Departure> {
        let Self { queue, line, damage } = self;
        let mut left = None;
        line.step(&mut **queue, now, now, |departure| left = Some(departure));
        let Departure { packet, .. } = left.as_ref()?;
        // As netem's `corrupt`: the checksum fails at the other end, so that the packet counts as dropped there, and
        // its bytes as carried by the link.
        if let Some((probability, rng)) = damage
            && rng.chance(*probability)
        {
            line.counters.departed -= 1;
            line.lose(now, *packet);
            return None;
        }
        left
    }

    /// Lets all `arrivals` come, and takes all steps up to `until`; what leaves goes to `sink`. A medium gets 1 ns
    /// before the end of the batch as `until`. A wire may still hand it a packet just at that end, so arrivals may be
    /// 1 ns later.
    pub fn advance(&mut self, arrivals: &mut Arrivals, until: Time, sink: &mut Vec<Departure>) {
        arrivals.sort(until + Time::from_nanos(1));
        self.queue.advance(&mut self.line, arrivals, until, sink);
    }

    /// Returns true if packets were dropped, or the queue noted something, since [`Link::unbooked`] was emptied.
    #[inline]
    pub const fn has_unbooked(&self) -> bool {
        !self.line.dropped.is_empty() || !self.line.cx.notes.is_empty()
    }

    /// Drops and the queue's notes, in the order of time; the caller empties both.
    pub const fn unbooked(&mut self) -> (&mut Vec<Dropped>, &mut Vec<Note>) {
        (&mut self.line.dropped, &mut self.line.cx.notes)
    }

    /// Damages a packet with this probability from now on.
    pub fn corrupt(&mut self, probability: f64, rng: Rng) {
        self.damage = (probability > 0.0).then_some((probability, rng));
    }

    /// Returns true if it damages packets.
    pub const fn corrupts(&self) -> bool {
        self.damage.is_some()
    }

    /// Bytes that a packet takes on it.
    pub fn bytes_of(&self, packet: &Packet) -> u64 {
        self.line.framing.bytes(packet.size)
    }

    /// Packets and bytes in its queue.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Packets inside: queued and in service.
    pub fn held(&self) -> u64 {
        let in_service = match &self.line.server {
            Server::Wire(_) => u64::from(self.line.on_wire.is_some()),
            Server::Medium(_) => self.line.transit.held + self.line.transit.leaving.len() as u64,
        };
        self.queue.backlog().packets + in_service
    }

    /// Its counters.
    pub const fn counters(&self) -> &Counters {
        &self.line.counters
    }

    /// Packets that its queue has marked CE.
    pub const fn marks(&self) -> u64 {
        self.line.cx.marks
    }

    /// Separates a clone from the state of media that it shares with its original
    /// ([`Medium::separate`](crate::medium::Medium::separate)).
    pub fn separate(&mut self, copies: &mut Copies) {
        if let Server::Medium(medium) = &mut self.line.server {
            medium.separate(copies);
        }
    }

    /// Packets that carry this index as their flow belong to connection `id` from now on.
    pub fn identify(&mut self, index: u32, id: ConnectionId) {
        self.line.cx.connections.set(index, id);
    }

    /// Packets that carry this index as their flow have codepoint `dscp` from now on.
    pub fn set_dscp(&mut self, index: u32, dscp: u8) {
        self.line.cx.codepoints.set(index, dscp);
    }

    /// The codepoint of `packet`.
    pub fn dscp(&self, packet: &Packet) -> u8 {
        self.line.cx.dscp(packet)
    }

    /// Loses packets before the queue as `loss` says from now on.
    pub fn lose(&mut self, loss: Loss) {
        self.line.loss = loss;
    }

    /// Each packet is lost with this probability from now on, whatever the model was.
    pub fn set_loss(&mut self, probability: f64) {
        self.line.loss.set_probability(probability);
    }

    /// Changes the capacity of the queue.
    pub fn set_limit(&mut self, limit: Limit, now: Time) {
        self.line.cx.now = now;
        self.queue.resize(Resize::Limit(limit), &mut self.line.cx);
        self.line.note_drops();
    }

    /// Changes the rate from now on; the packet that a wire sends goes out as it began. The present rate changes
    /// nothing: fractions of nanoseconds carry over.
    pub fn set_rate(&mut self, rate: Rate, now: Time) {
        if self.rate() == Some(rate.as_bps()) {
            return;
        }
        self.line.set_rate(rate, now);
        self.line.cx.now = now;
        self.queue.resize(Resize::Rate(rate), &mut self.line.cx);
        self.line.note_drops();
    }

    /// An interval of the time series ends: the queue notes what is to be drawn over time.
    pub fn observe(&mut self, now: Time) {
        self.line.cx.now = now;
        self.queue.observe(&mut self.line.cx);
        self.line.note_drops();
    }

    /// Bits that it has carried and could have carried up to `now`.
    ///
    /// It is counted in bits, so that a packet belongs to each of two windows for the part sent in it. A token bucket
    /// sends a packet at once that tokens are still owed for: it counts as these come.
    pub fn load(&self, now: Time) -> Load {
        self.line.load(now)
    }
}

/// A link without its queue: random loss, the server, and the packet in service. It is not the queue's waiting line.
#[derive(Clone)]
pub struct Line {
    server: Server,
    cx: Context,
    /// Bytes that packets take on the link.
    framing: Framing,
    /// Bytes that a packet of the size of the MTU takes there.
    full: u64,
    /// Random loss before the queue.
    loss: Loss,
    /// When it acts next; `Time::MAX`: not before something arrives.
    due: Time,
    /// True if it only waits for its queue to release a packet, or for packets that have left a medium's queue to
    /// leave.
    waiting: bool,
    /// The packet that a wire sends, and how long it was in the queue; it leaves when the link is `due`.
    on_wire: Option<(Packet, Time)>,
    /// Bytes that it takes there.
    wire_bytes: u64,
    /// Packets that a medium has in transit.
    transit: Transit,
    counters: Counters,
    /// Packets that were dropped and not booked yet.
    dropped: Vec<Dropped>,
    /// Capacity up to `rate_since`, in bit/s times ns, so that changes of its rate round nothing.
    offered: u128,
    /// From when on it has its rate: not before the packet that was on the wire when it changed has left.
    rate_since: Time,
    /// Its rate before, in bit/s.
    rate_before: u64,
}

impl Line {
    /// At rest.
    fn new(server: Server, framing: Framing, loss: Loss) -> Self {
        Self {
            server,
            cx: Context::default(),
            framing,
            full: framing.bytes(MTU),
            loss,
            due: Time::MAX,
            waiting: false,
            on_wire: None,
            wire_bytes: 0,
            transit: Transit { asks: Time::MAX, ..Transit::default() },
            counters: Counters::default(),
            dropped: Vec::new(),
            offered: 0,
            rate_since: Time::ZERO,
            rate_before: 0,
        }
    }

    /// Changes the rate from now on; the packet that a wire sends goes out as it began.
    fn set_rate(&mut self, rate: Rate, now: Time) {
        let before = self.server.rate();
        let begun = if self.on_wire.is_some() { self.due } else { now };
        let since = self.server.set_rate(rate, now).max(begun);
        if since > self.rate_since {
            self.offered = self.offered_at(before, since);
            (self.rate_since, self.rate_before) = (since, before.unwrap_or(0));
        }
    }

    /// Takes the step that is due `now`; nothing arrives before `until`. A medium is served. The packet on a wire
    /// leaves, and the next takes its place; of a run, those that leave by `until` do so at once.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet")]
    fn step<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time, until: Time, mut sink: impl FnMut(Departure)) {
        self.cx.now = now;
        if let Server::Wire(wire) = &mut self.server {
            if let Some((mut packet, sojourn)) = self.on_wire {
                self.counters.departed += 1;
                self.counters.bytes += self.wire_bytes;
                packet.add_queued(sojourn);
                sink(Departure { at: now, packet, sojourn });
            }
            let max = wire.begun_within(until - now, self.full);
            let (packet, sojourn) = self.on_wire.get_or_insert_default();
            let count = queue.dequeue_run(max, packet, &mut self.cx);
            if count > 0 {
                *sojourn = now.saturating_sub(packet.at);
                self.wire_bytes = self.framing.bytes(packet.size);
                (self.due, self.waiting) = (now + wire.time_for(self.wire_bytes), false);
            } else {
                self.on_wire = None;
                self.wait(queue, now);
            }
            if count > 1 {
                self.transmit_run(now, count, sink);
            }
        } else if let Some(departure) = self.serve_medium(queue, now) {
            sink(departure);
        }
        if !self.cx.dropped.is_empty() {
            self.note_drops();
        }
    }

    /// Returns true if a packet that arrives now may make the link act earlier: a wire is free; a medium may still
    /// have packets in transit.
    #[inline]
    fn is_idle(&self) -> bool {
        self.due == Time::MAX || self.waiting
    }

    /// A burst arrives: a busy link takes as much of it at once as its discipline can, the other packets one by one.
    #[inline]
    fn admit<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, burst: &Burst, now: Time) {
        self.counters.arrived += u64::from(burst.count);
        self.cx.now = now;
        let at_once = self.loss.is_none() && !self.is_idle();
        let taken = if at_once { queue.enqueue_burst(burst, &mut self.cx) } else { 0 };
        for k in taken..burst.count {
            let packet = burst.first.behind(k);
            if self.loss.is_lost(now) {
                self.lose(now, packet);
                continue;
            }
            queue.enqueue(packet, &mut self.cx);
            if !self.cx.dropped.is_empty() {
                self.note_drops();
            }
            if self.is_idle() {
                self.wake(queue);
            }
        }
    }

    /// Drops a packet.
    fn lose(&mut self, at: Time, packet: Packet) {
        self.counters.drops += 1;
        self.dropped.push((at, packet));
    }

    /// Takes what the queue has dropped now.
    #[cold]
    fn note_drops(&mut self) {
        let now = self.cx.now;
        self.counters.drops += self.cx.dropped.len() as u64;
        self.dropped.extend(self.cx.dropped.drain(..).map(|packet| (now, packet)));
    }

    /// An idle link has been given a packet; none leaves it yet.
    #[cold]
    fn wake<Q: Bursts + ?Sized>(&mut self, queue: &mut Q) {
        let now = self.cx.now;
        self.waiting = false;
        match &self.server {
            Server::Wire(_) => self.step(queue, now, now, |_| {}),
            Server::Medium(_) => {
                self.ask(queue, now);
                self.note_drops();
            }
        }
    }

    /// The packet on the wire is the first of a run of `count`, which are sent back to back; the last one stays there.
    #[inline(never)]
    fn transmit_run(&mut self, now: Time, count: u32, mut sink: impl FnMut(Departure)) {
        // A copy stays in registers. In place, each packet would be read while parts of it are being written.
        let (Server::Wire(wire), Some((mut packet, mut sojourn))) = (&mut self.server, self.on_wire) else { return };
        let mut begins = now;
        for _ in 1..count {
            let mut left = packet;
            left.add_queued(sojourn);
            sink(Departure { at: self.due, packet: left, sojourn });
            sojourn += self.due - begins;
            begins = self.due;
            packet = packet.behind(1);
            self.due += wire.time_for(self.wire_bytes);
        }
        self.on_wire = Some((packet, sojourn));
        self.counters.departed += u64::from(count - 1);
        self.counters.bytes += u64::from(count - 1) * self.wire_bytes;
    }

    /// Nothing may leave: the queue is empty, or holds its packets back for a while.
    #[cold]
    fn wait<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time) {
        let wake = queue.next_wake();
        self.due = wake.map_or(Time::MAX, |at| at.max(now));
        self.waiting = wake.is_some();
    }

    /// A packet leaves a medium, or the medium is asked. At most one packet leaves.
    #[inline]
    fn serve_medium<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time) -> Option<Departure> {
        if self.transit.leaving.front().is_none_or(|next| next.at > now) {
            self.ask(queue, now);
        }
        let left = self.transit.leaving.front().is_some_and(|next| next.at <= now);
        let departure = if left { self.transit.leaving.pop_front() } else { None }?;
        self.due = self.transit.due();
        self.counters.departed += 1;
        self.counters.bytes += self.framing.bytes(departure.packet.size);
        Some(departure)
    }

    /// A medium is asked what it does `now`.
    fn ask<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time) {
        let Self { server: Server::Medium(medium), cx, transit, counters, framing, dropped, .. } = self else { return };
        transit.listens = false;
        let mut port = Access { queue, cx, transit, counters, dropped, framing: *framing };
        let at = medium.serve(now, &mut port);
        self.waiting = at == Time::MAX || transit.listens;
        // A packet that it could have had `now` is one that it takes later.
        let wake = queue.next_wake().filter(|wake| self.waiting && (at == Time::MAX || *wake > now));
        transit.asks = wake.map_or(at, |wake| wake.max(now).min(at));
        self.due = transit.due();
    }

    fn load(&self, now: Time) -> Load {
        let left = u128::from(self.counters.bytes) * 8;
        let (carried, saved) = match &self.server {
            Server::Wire(_) => {
                let sent = self.on_wire.map_or(0, |_| {
                    let rest = self.offered_bits(self.due.max(now)) - self.offered_bits(now);
                    (u128::from(self.wire_bytes) * 8).saturating_sub(rest)
                });
                (left + sent, 0)
            }
            Server::Medium(medium) => {
                let Transit { carried, sending, tail, .. } = &self.transit;
                let saved = if let Capacity::Rate { saved, .. } = medium.capacity(now) { saved } else { 0 };
                let unsent = tail.rest(now) + sending.rest(now) + saved.min(0).unsigned_abs();
                (carried.saturating_sub(unsent), saved.max(0).unsigned_abs())
            }
        };
        let fastest = self.server.rate().unwrap_or(0).max(self.rate_before);
        let rounding = 2 + bits_in(fastest, Time::from_nanos(2));
        Load { carried, offered: self.offered_bits(now), saved, rounding }
    }

    /// Bits it could have carried from the start to `now`, apart from what a token bucket had saved.
    fn offered_bits(&self, now: Time) -> u128 {
        match self.server.capacity(now) {
            Capacity::Offered(bits) => bits,
            Capacity::Rate { bps, .. } => self.offered_at(Some(bps), now) / u128::from(Time::from_secs(1).as_nanos()),
        }
    }

    /// Capacity up to `now`, in bit/s times ns, where it has a `rate` in bit/s since `rate_since`.
    fn offered_at(&self, rate: Option<u64>, now: Time) -> u128 {
        let within = |rate: u64, time: Time| u128::from(rate) * u128::from(time.as_nanos());
        if now < self.rate_since {
            self.offered - within(self.rate_before, self.rate_since - now)
        } else {
            self.offered + within(rate.unwrap_or(0), now - self.rate_since)
        }
    }
}

/// A discipline behind a link. It is implemented below for every one that is `Clone`.
pub trait DynQueue: Bursts + CloneQueue {
    /// Lets all `arrivals` come, in their order, and all steps be taken up to `until`: compiled for each discipline, so
    /// that no packet costs a virtual call.
    fn advance(&mut self, line: &mut Line, arrivals: &Arrivals, until: Time, sink: &mut Vec<Departure>);
}

impl<Q: Bursts + CloneQueue> DynQueue for Q {
    fn advance(&mut self, line: &mut Line, arrivals: &Arrivals, until: Time, sink: &mut Vec<Departure>) {
        let mut arrivals = arrivals.iter();
        loop {
            let next = arrivals.next();
            let limit = match next {
                Some(Arrival { at, before_link: true, .. }) => at.saturating_sub(Time::from_nanos(1)),
                Some(Arrival { at, .. }) => at,
                None => until,
            };
            while line.due <= limit {
                line.step(self, line.due, limit, |departure| sink.push(departure));
            }
            let Some(Arrival { at, burst, .. }) = next else { return };
            line.admit(self, burst, at);
        }
    }
}

knee_core::boxed_clone!(CloneQueue: Bursts => DynQueue);
