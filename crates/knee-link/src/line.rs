//! The work of a link: random loss before its queue, and the server behind it.

use crate::arrivals::{Arrival, Arrivals};
use crate::framing::Framing;
use crate::loss::Loss;
use crate::medium::{Access, Capacity, Transit};
use crate::outcome::{Counters, Departure, Load, Outcome};
use crate::queue::{Burst, Bursts, Context};
use crate::server::Server;
use crate::wire::bits_in;
use knee_core::packet::MTU;
use knee_core::{Packet, Rate, Time};

/// A link without its queue.
#[derive(Clone)]
pub struct Line {
    pub(crate) server: Server,
    pub(crate) cx: Context,
    /// Bytes that packets take.
    pub(crate) framing: Framing,
    /// Random loss before the queue.
    pub(crate) loss: Loss,
    /// When it acts next; `Time::MAX`: not before something arrives.
    pub(crate) due: Time,
    /// True if it only waits for its queue to release a packet, or for packets that have left a medium's queue to
    /// leave.
    waiting: bool,
    /// The packet that a wire sends; it leaves when the link is `due`.
    pub(crate) on_wire: Option<Departure>,
    /// Packets that a medium has in transit.
    pub(crate) transit: Transit,
    pub(crate) counters: Counters,
    /// Capacity up to `rate_since`, in bit/s times ns, so that changes of its rate round nothing.
    offered: u128,
    /// From when on it has its rate: not before the packet that was on the wire when it changed has left.
    rate_since: Time,
    /// Its rate before, in bit/s.
    rate_before: u64,
}

impl Line {
    /// At rest.
    pub(crate) fn new(server: Server, framing: Framing, loss: Loss) -> Self {
        Self {
            server,
            cx: Context::default(),
            framing,
            loss,
            due: Time::MAX,
            waiting: false,
            on_wire: None,
            transit: Transit { asks: Time::MAX, ..Transit::default() },
            counters: Counters::default(),
            offered: 0,
            rate_since: Time::ZERO,
            rate_before: 0,
        }
    }

    /// Changes the rate from now on; the packet that a wire sends goes out as it began.
    pub(crate) fn set_rate(&mut self, rate: Rate, now: Time) {
        let before = self.server.rate();
        let begun = if self.on_wire.is_some() { self.due } else { now };
        let since = self.server.set_rate(rate, now).max(begun);
        if since > self.rate_since {
            self.offered = self.offered_at(before, since);
            (self.rate_since, self.rate_before) = (since, before.unwrap_or(0));
        }
    }

    /// Lets all `arrivals` come, in their order, and all steps be taken up to `until`.
    pub(crate) fn advance<Q: Bursts>(&mut self, queue: &mut Q, arrivals: &Arrivals, until: Time, out: &mut Outcome) {
        let mut arrivals = arrivals.iter();
        loop {
            let next = arrivals.next();
            let limit = match next {
                Some(Arrival { at, first: true, .. }) => at.saturating_sub(Time::from_nanos(1)),
                Some(Arrival { at, .. }) => at,
                None => until,
            };
            while self.due <= limit {
                self.step(queue, self.due, limit, out);
            }
            let Some(Arrival { at, burst, .. }) = next else { return };
            self.admit(queue, burst, at, out);
        }
    }

    /// A step that is due `now`. Nothing arrives up to `until`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet")]
    pub(crate) fn step<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time, until: Time, out: &mut Outcome) {
        self.cx.now = now;
        match self.server {
            Server::Wire(_) => self.transmit(queue, now, until, out),
            Server::Medium(_) => self.serve_medium(queue, now, out),
        }
        if !self.cx.dropped.is_empty() || !self.cx.notes.is_empty() {
            self.report(out);
        }
    }

    /// While the link works: a wire's packet is the last of those departed until it is held again.
    #[inline]
    pub(crate) fn hold(&mut self, out: &mut Outcome) {
        if matches!(self.server, Server::Wire(_)) && !self.is_idle() {
            self.on_wire = out.departed.pop();
        }
    }

    pub(crate) fn count(&mut self, departed: &[Departure]) {
        self.counters.departed += departed.len() as u64;
        let bytes = |departure: &Departure| self.framing.bytes(departure.packet.size);
        self.counters.bytes += departed.iter().map(bytes).sum::<u64>();
    }

    #[inline]
    pub(crate) fn count_one(&mut self, departure: &Departure) {
        self.counters.departed += 1;
        self.counters.bytes += self.framing.bytes(departure.packet.size);
    }

    /// Returns true if a packet that arrives now may change when the link acts next: it is idle, or only waits for its
    /// queue to release a packet.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.due == Time::MAX || self.waiting
    }

    /// A burst arrives.
    #[inline]
    pub(crate) fn admit<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, burst: &Burst, now: Time, out: &mut Outcome) {
        self.counters.arrived += u64::from(burst.count);
        self.cx.now = now;
        let mut taken = 0;
        if self.loss.is_none() && !self.is_idle() {
            taken = queue.enqueue_burst(burst, &mut self.cx);
        }
        if taken < burst.count {
            self.admit_singly(queue, burst, taken, out);
        }
    }

    /// The packets of a burst behind the first `taken` ones arrive one by one, and any may be lost.
    #[inline(never)]
    fn admit_singly<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, burst: &Burst, taken: u32, out: &mut Outcome) {
        for k in taken..burst.count {
            let packet = burst.first.behind(k);
            if self.loss.is_lost(self.cx.now) {
                self.counters.drops += 1;
                out.dropped.push((self.cx.now, packet));
                continue;
            }
            queue.enqueue(packet, &mut self.cx);
            if !self.cx.dropped.is_empty() || !self.cx.notes.is_empty() {
                self.report(out);
            }
            if self.is_idle() {
                self.wake(queue, out);
            }
        }
    }

    /// Moves what the queue has dropped and noted to where others hear of it.
    #[cold]
    pub(crate) fn report(&mut self, out: &mut Outcome) {
        let now = self.cx.now;
        self.counters.drops += self.cx.dropped.len() as u64;
        out.dropped.extend(self.cx.dropped.drain(..).map(|packet| (now, packet)));
        out.notes.append(&mut self.cx.notes);
    }

    /// An idle link has been given a packet.
    #[cold]
    fn wake<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, out: &mut Outcome) {
        let now = self.cx.now;
        self.waiting = false;
        match &self.server {
            Server::Wire(_) => self.step(queue, now, now, out),
            Server::Medium(_) => {
                self.ask(queue, now, out);
                self.report(out);
            }
        }
    }

    /// A free wire takes the next packet, and the others of its run that begin to be sent up to `until`. They are among
    /// the departed as they begin; `hold` takes the last one back until it has left.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet")]
    fn transmit<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time, until: Time, out: &mut Outcome) {
        let Server::Wire(wire) = &mut self.server else { return };
        let max = wire.begun_within(until - now, self.framing.bytes(MTU));
        let place = out.departed.len();
        out.departed.push(Departure::default());
        let departure = &mut out.departed[place];
        let count = queue.dequeue_run(max, &mut departure.packet, &mut self.cx);
        if count == 0 {
            out.departed.pop();
            return self.wait(queue, now);
        }
        let bytes = self.framing.bytes(departure.packet.size);
        departure.sojourn = now.saturating_sub(departure.packet.at);
        departure.packet.add_queued(departure.sojourn);
        departure.packet.at = now + wire.time_for(bytes);
        (self.due, self.waiting) = (departure.packet.at, false);
        if count > 1 {
            self.transmit_run(place, now, count, out);
        }
    }

    /// Behind the packet at `place`, the first of a run of `count`, the others are sent back to back.
    #[inline(never)]
    fn transmit_run(&mut self, place: usize, now: Time, count: u32, out: &mut Outcome) {
        let Server::Wire(wire) = &mut self.server else { return };
        let Departure { mut packet, mut sojourn } = out.departed[place];
        let bytes = self.framing.bytes(packet.size);
        // What they have met before: the same for all of a run.
        let before = packet.queued.saturating_sub(Packet::queued_units(sojourn));
        let mut begins = now;
        out.departed.extend((1..count).map(|_| {
            sojourn += packet.at - begins;
            begins = packet.at;
            packet = packet.behind(1);
            packet.at += wire.time_for(bytes);
            packet.queued = before + Packet::queued_units(sojourn);
            Departure { packet, sojourn }
        }));
        self.due = packet.at;
    }

    /// Nothing may leave: the queue is empty, or holds its packets back for a while.
    #[cold]
    fn wait<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time) {
        let wake = queue.next_wake();
        self.due = wake.map_or(Time::MAX, |at| at.max(now));
        self.waiting = wake.is_some();
    }

    /// A packet leaves a medium, or the medium is asked. At most one packet leaves.
    fn serve_medium<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time, out: &mut Outcome) {
        if self.transit.leaving.front().is_none_or(|next| next.0 > now) {
            self.ask(queue, now, out);
        }
        if self.transit.leaving.front().is_some_and(|next| next.0 <= now) {
            out.departed.extend(self.transit.leaving.pop_front().map(|next| next.1));
            self.due = self.transit.leaving.front().map_or(self.transit.asks, |next| next.0.min(self.transit.asks));
        }
    }

    /// A medium is asked what it does `now`.
    fn ask<Q: Bursts + ?Sized>(&mut self, queue: &mut Q, now: Time, out: &mut Outcome) {
        let Self { server: Server::Medium(medium), cx, transit, counters, framing, .. } = self else { return };
        let dropped = &mut out.dropped;
        transit.listens = false;
        let mut port = Access { queue, cx, transit, counters, dropped, framing: *framing };
        let at = medium.serve(now, &mut port);
        self.waiting = at == Time::MAX || transit.listens;
        // A packet that it could have had `now` is one that it takes later.
        let wake = queue.next_wake().filter(|wake| self.waiting && (at == Time::MAX || *wake > now));
        transit.asks = wake.map_or(at, |wake| wake.max(now).min(at));
        self.due = transit.leaving.front().map_or(transit.asks, |next| next.0.min(transit.asks));
    }

    pub(crate) fn load(&self, now: Time) -> Load {
        let left = u128::from(self.counters.bytes) * 8;
        let (carried, saved) = match &self.server {
            Server::Wire(_) => {
                let sent = self.on_wire.map_or(0, |Departure { packet, .. }| {
                    let rest = self.offered_bits(self.due.max(now)) - self.offered_bits(now);
                    self.bits(&packet).saturating_sub(rest)
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

    /// Bits that a packet takes up.
    fn bits(&self, packet: &Packet) -> u128 {
        u128::from(self.framing.bytes(packet.size)) * 8
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

/// A discipline behind a link. Work on many packets at once is compiled for each discipline. It is implemented below
/// for every one that is `Clone`.
pub trait DynQueue: Bursts + CloneQueue {
    /// As [`crate::Link::advance`].
    fn advance(&mut self, line: &mut Line, arrivals: &Arrivals, until: Time, out: &mut Outcome);
}

impl<Q: Bursts + CloneQueue> DynQueue for Q {
    fn advance(&mut self, line: &mut Line, arrivals: &Arrivals, until: Time, out: &mut Outcome) {
        // Back to `Line::advance`, compiled for this discipline.
        line.advance(self, arrivals, until, out);
    }
}

knee_core::boxed_clone!(CloneQueue: Bursts => DynQueue);
