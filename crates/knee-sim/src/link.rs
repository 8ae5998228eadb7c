//! One direction of a link: a queue discipline and what it sends at.

use crate::observe::{LinkCounts, LinkWatch};
use crate::spec::Capacity;
use knee_core::{Bytes, Packet, Rate, Rng, Time};
use knee_queue::{Backlog, Burst, Coming, Context, Crossing, Gone, Key, Left, Queue, Service, Wire};

/// What a link sends at.
pub enum Server {
    /// A wire: a packet leaves when its last bit has.
    Wire(Transmitter),
    /// A token bucket (Linux's htb): a packet leaves at once while there are tokens.
    Bucket(Bucket),
    /// Recorded delivery opportunities.
    Trace(Trace),
}

/// A wire and the packet on it.
pub struct Transmitter {
    wire: Wire,
    /// The packet being sent, and since when.
    in_service: Packet,
    busy: bool,
    since: Time,
}

impl Transmitter {
    fn new(rate: Rate) -> Self {
        Self { wire: Wire::new(rate), in_service: Packet::default(), busy: false, since: Time::ZERO }
    }

    /// The packet on the wire, if there is one, as one that leaves it when it is `due`.
    fn on_wire(&self, due: Time) -> Option<Left> {
        let stay = self.since.saturating_sub(self.in_service.enqueued);
        let packet = Packet { enqueued: due, extra: Packet::queued_units(stay), ..self.in_service };
        self.busy.then_some(Left { packet, stay })
    }
}

/// A token bucket, counted in time at its rate as htb does.
pub struct Bucket {
    wire: Wire,
    /// Depth, in time.
    depth: Time,
    /// When the bucket was, or will be, at zero tokens: tokens now = min(now - zero_at, depth).
    zero_at: Time,
}

impl Bucket {
    /// The tokens it has, in time.
    fn saved(&self, now: Time) -> Time {
        now.saturating_sub(self.zero_at).min(self.depth)
    }

    /// The tokens it owes, in time.
    const fn owed(&self, now: Time) -> Time {
        self.zero_at.saturating_sub(now)
    }

    /// Takes the tokens for `bytes`; they may go below zero.
    fn take(&mut self, bytes: u64, now: Time) {
        let floor = now.saturating_sub(self.depth);
        self.zero_at = self.zero_at.max(floor) + self.wire.time_for(bytes);
    }
}

/// Delivery opportunities that repeat.
pub struct Trace {
    /// Times within one round, ascending.
    at: Vec<Time>,
    /// Length of a round.
    period: Time,
    round: u64,
    index: usize,
    /// Bytes an opportunity carries: 1500 and the link's overhead.
    quantum: u64,
    /// Bytes the current opportunity has left; what is left when nothing waits is lost with the next opportunity.
    credit: u64,
    /// The packet being sent, when it left the queue, and what is left of it.
    in_service: Option<(Packet, Time, u64)>,
}

impl Trace {
    fn new(ms: &[u64], overhead: u32) -> Self {
        let period = Time::from_millis(ms.last().copied().unwrap_or(1).max(1));
        let at = ms.iter().map(|&t| Time::from_millis(t)).collect();
        let quantum = 1500 + u64::from(overhead);
        Self { at, period, round: 0, index: 0, quantum, credit: quantum, in_service: None }
    }

    fn current(&self) -> Time {
        self.at[self.index] + self.period * self.round
    }

    fn advance(&mut self) {
        self.credit = self.quantum;
        self.index += 1;
        if self.index == self.at.len() {
            (self.index, self.round) = (0, self.round + 1);
        }
    }

    /// The first opportunity not before `now`; earlier ones are gone.
    fn skip_to(&mut self, now: Time) -> Time {
        if self.current() < now {
            let (mut round, mut rest) =
                (now.as_nanos() / self.period.as_nanos(), now.as_nanos() % self.period.as_nanos());
            if rest == 0 {
                // The last one of a round comes as the next begins.
                (round, rest) = (round - 1, self.period.as_nanos());
            }
            let index = self.at.partition_point(|at| at.as_nanos() < rest);
            (self.round, self.index, self.credit) = (round, index, self.quantum);
        }
        self.current()
    }

    /// Bytes that the opportunities before `now`, and what has been used of those `now`, could have carried.
    fn offered_bytes(&self, now: Time) -> u64 {
        let len = self.at.len() as u64;
        // The last of a round may be at the time of the first of the next.
        let before = now.as_nanos().checked_sub(1).map_or(0, |last| {
            let rest = Time::from_nanos(last % self.period.as_nanos());
            last / self.period.as_nanos() * len + self.at.partition_point(|&t| t <= rest) as u64
        });
        let used = if self.current() < now { 0 } else { self.quantum - self.credit };
        before.max(self.round * len + self.index as u64) * self.quantum + used
    }
}

/// Counters of a link since the start.
#[derive(Clone, Copy, Default)]
pub struct Counters {
    /// Packets that came, before random loss.
    pub arrived: u64,
    /// Packets that left.
    pub departed: u64,
    /// Bytes that left, overhead included.
    pub bytes: u64,
    /// Packets dropped by the queue or by random loss.
    pub drops: u64,
}

/// How far a link is gone through at once.
pub struct Span {
    /// The beginning, from which the times of what comes count.
    pub from: Time,
    /// What comes before then is known.
    pub until: Time,
    /// Whether what surely leaves later may be sent too.
    pub foresees: bool,
}

/// One direction of a link.
pub struct Link {
    /// The queue discipline.
    pub queue: Box<dyn Queue>,
    /// What it sends at.
    pub server: Server,
    /// What the queue is given and gives back.
    pub cx: Context,
    /// Bytes counted on top of each IP packet.
    pub overhead: u64,
    /// Random loss probability before the queue.
    pub loss: f64,
    /// Stream of the losses.
    pub loss_rng: Rng,
    /// Propagation delay behind the queue.
    pub delay: Time,
    /// Largest random extra delay behind the queue.
    pub jitter: Time,
    /// Stream of the jitter.
    pub jitter_rng: Rng,
    /// Whether jitter may change the order.
    pub reorder: bool,
    /// Pipe behind the queue, where there is delay or jitter.
    pub pipe: Option<u32>,
    /// When its event in the heap is due; `Time::MAX`: it has none.
    pub due: Time,
    /// Whether it only waits for its queue to release a packet.
    waiting: bool,
    /// What it did.
    pub counters: Counters,
    /// What is observed of it.
    pub watch: LinkWatch,
    /// Bits it could have carried up to `rate_since`.
    offered_bits: u128,
    /// From when on it has its rate: not before the packet that was on the wire when it changed has left.
    rate_since: Time,
    /// Its rate before, in bit/s.
    rate_before: u64,
}

impl Server {
    /// Makes the server of a link.
    pub fn new(capacity: &Capacity, burst: Option<u64>, overhead: u32) -> Self {
        match (capacity, burst) {
            (Capacity::Rate(bps), None) => Self::Wire(Transmitter::new(Rate::from_bps(*bps))),
            (Capacity::Rate(bps), Some(burst)) => {
                let rate = Rate::from_bps(*bps);
                Self::Bucket(Bucket { wire: Wire::new(rate), depth: rate.time_for(Bytes(burst)), zero_at: Time::ZERO })
            }
            (Capacity::Trace(ms), _) => Self::Trace(Trace::new(ms, overhead)),
        }
    }
}

impl Link {
    /// A link direction at rest.
    pub fn new(queue: Box<dyn Queue>, server: Server, overhead: u32, streams: (Rng, Rng)) -> Self {
        Self {
            queue,
            server,
            cx: Context::default(),
            overhead: u64::from(overhead),
            loss: 0.0,
            loss_rng: streams.0,
            delay: Time::ZERO,
            jitter: Time::ZERO,
            jitter_rng: streams.1,
            reorder: false,
            pipe: None,
            due: Time::MAX,
            waiting: false,
            counters: Counters::default(),
            watch: LinkWatch::new(),
            offered_bits: 0,
            rate_since: Time::ZERO,
            rate_before: 0,
        }
    }

    /// Whether it is a wire.
    pub const fn is_wire(&self) -> bool {
        matches!(self.server, Server::Wire(_))
    }

    /// Its rate in bit/s, where it is a wire; else 0.
    pub const fn wire_rate(&self) -> u64 {
        match &self.server {
            Server::Wire(line) => line.wire.rate(),
            _ => 0,
        }
    }

    /// Counts a packet that comes. True: it is lost at random.
    #[inline]
    pub fn loses(&mut self) -> bool {
        self.counters.arrived += 1;
        self.loss > 0.0 && self.loss_rng.chance(self.loss)
    }

    /// Takes a packet into the queue.
    #[inline]
    pub fn take(&mut self, mut packet: Packet, now: Time) {
        packet.enqueued = now;
        self.cx.now = now;
        self.queue.enqueue(packet, &mut self.cx);
    }

    /// Takes in as many as the queue takes at once of `count` packets that differ by their segments only, which follow
    /// that of `first`; gives how many. The others have to come one by one: all do to an idle or lossy link.
    #[inline]
    pub fn take_burst(&mut self, mut first: Packet, count: u32, now: Time) -> u32 {
        if count < 2 || self.loss > 0.0 || self.idle() {
            return 0;
        }
        first.enqueued = now;
        self.cx.now = now;
        let taken = self.queue.enqueue_burst(&Burst { first, count }, &mut self.cx);
        self.counters.arrived += u64::from(taken);
        taken
    }

    /// Whether the queue dropped packets or left notes.
    #[inline]
    pub const fn has_news(&self) -> bool {
        self.cx.dropped.len() + self.cx.notes.len() > 0
    }

    /// When the link, idle until now, may send: called after a packet came into an idle link. A wire takes the packet
    /// into service.
    pub fn wake(&mut self, now: Time) -> Option<Time> {
        self.waiting = false;
        match &mut self.server {
            Server::Wire(_) => {
                let next = self.start_service(now);
                (next < Time::MAX).then_some(next)
            }
            Server::Bucket(bucket) => Some(bucket.zero_at.max(now)),
            Server::Trace(trace) => Some(trace.skip_to(now)),
        }
    }

    #[inline]
    fn start_service(&mut self, now: Time) -> Time {
        self.cx.now = now;
        let Server::Wire(line) = &mut self.server else { return Time::MAX };
        if self.queue.dequeue_run(1, &mut line.in_service, &mut self.cx) == 0 {
            return self.wait(now).unwrap_or(Time::MAX);
        }
        let bytes = u64::from(line.in_service.size) + self.overhead;
        line.busy = true;
        line.since = now;
        now + line.wire.time_for(bytes)
    }

    /// Nothing may leave: the queue is empty, or holds its packets back for a while.
    #[cold]
    fn wait(&mut self, now: Time) -> Option<Time> {
        let wake = self.queue.next_wake().map(|at| at.max(now));
        self.waiting = wake.is_some();
        wake
    }

    /// The link's event. Tells whether a packet leaves now, which is put into `served`, and sets when the next event is
    /// due.
    #[inline]
    pub fn serve(&mut self, now: Time, served: &mut Packet) -> bool {
        self.waiting = false;
        let Server::Wire(line) = &mut self.server else { return self.serve_other(now, served) };
        let leaves = std::mem::replace(&mut line.busy, false);
        if leaves {
            *served = line.in_service;
            self.watch.book(&mut self.counters, served, line.since, self.overhead);
        }
        self.due = self.start_service(now);
        leaves
    }

    /// Lets `bursts` come in their `order`, and all cross its wire that leaves it within `span`, or, where the queue can
    /// foresee it, all that is left then; where it is no wire nothing happens. What has become of them is added to
    /// `gone`.
    pub fn cross(&mut self, bursts: &[Coming], order: &[Key], span: &Span, gone: &mut Gone) {
        let Server::Wire(line) = &mut self.server else { return };
        let &Span { from, until, foresees } = span;
        let since = line.since;
        gone.left.extend(line.on_wire(self.due));
        let crossing = Crossing {
            wire: &mut line.wire,
            service: Service { due: self.due, waiting: self.waiting, since },
            overhead: self.overhead,
            loss: self.loss,
            loss_rng: &mut self.loss_rng,
            bursts,
            order,
            from,
            until,
            foresees,
            gone,
        };
        let service = self.queue.cross(crossing, &mut self.cx);
        (self.due, self.waiting, line.since) = (service.due, service.waiting, service.since);
        line.busy = !service.is_idle();
        if line.busy
            && let Some(Left { packet, stay }) = gone.left.pop()
        {
            line.in_service = Packet { enqueued: service.since - stay, extra: 0, ..packet };
        }
    }

    /// Takes out of `gone` what has been foreseen of the time after `now`: it is where it is now.
    pub fn recall(&mut self, now: Time, gone: &mut Gone) {
        self.queue.settle(now);
        let Server::Wire(line) = &mut self.server else { return };
        let Some(last) = line.on_wire(self.due) else { return };
        gone.left.push(last);
        if let Some(since) = self.queue.recall(&mut gone.left, &mut line.wire) {
            line.since = since;
        }
        let on_wire = gone.left.pop_if(|left| left.packet.enqueued > now);
        line.busy = on_wire.is_some();
        self.due = on_wire.map_or(Time::MAX, |left| left.packet.enqueued);
        if let Some(Left { packet, stay }) = on_wire {
            line.in_service = Packet { enqueued: line.since - stay, extra: 0, ..packet };
        }
    }

    /// Books packets that have left its wire.
    pub fn book(&mut self, left: &[Left]) {
        self.counters.departed += left.len() as u64;
        let bytes = |left: &Left| u64::from(left.packet.size) + self.overhead;
        self.counters.bytes += left.iter().map(bytes).sum::<u64>();
        self.watch.book_stays(left.iter().map(|left| left.stay));
    }

    /// What its queue holds `now`.
    pub fn backlog(&mut self, now: Time) -> Backlog {
        self.queue.settle(now);
        self.queue.backlog()
    }

    /// The packet on the wire.
    #[inline]
    pub fn in_service(&self) -> Option<&Packet> {
        match &self.server {
            Server::Wire(line) if line.busy => Some(&line.in_service),
            _ => None,
        }
    }

    #[cold]
    fn serve_other(&mut self, now: Time, served: &mut Packet) -> bool {
        self.cx.now = now;
        let (left, due) = match &mut self.server {
            Server::Wire(_) => (None, None),
            Server::Bucket(_) => self.serve_bucket(now),
            Server::Trace(_) => self.serve_trace(now),
        };
        self.due = due.unwrap_or(Time::MAX);
        let Some((packet, since)) = left else { return false };
        *served = packet;
        self.watch.book(&mut self.counters, served, since, self.overhead);
        true
    }

    /// The packet that leaves and when it left the queue; when the next event is due.
    fn serve_bucket(&mut self, now: Time) -> (Option<(Packet, Time)>, Option<Time>) {
        let Server::Bucket(bucket) = &mut self.server else { return (None, None) };
        // A lower rate may have pushed the time of zero tokens back since the event was set.
        if bucket.zero_at > now {
            return (None, Some(bucket.zero_at));
        }
        let Some(packet) = self.queue.dequeue(&mut self.cx) else {
            return (None, self.wait(now));
        };
        bucket.take(u64::from(packet.size) + self.overhead, now);
        let next = if self.queue.backlog().packets > 0 { Some(bucket.zero_at.max(now)) } else { None };
        (Some((packet, now)), next)
    }

    /// As [`Link::serve_bucket`].
    fn serve_trace(&mut self, now: Time) -> (Option<(Packet, Time)>, Option<Time>) {
        let Server::Trace(trace) = &mut self.server else { return (None, None) };
        let (packet, since, left) = if let Some(served) = trace.in_service.take() {
            served
        } else {
            let Some(packet) = self.queue.dequeue(&mut self.cx) else {
                let wake = self.queue.next_wake().map(|at| trace.skip_to(at.max(now)));
                self.waiting = wake.is_some();
                return (None, wake);
            };
            (packet, now, u64::from(packet.size) + self.overhead)
        };
        if left > trace.credit {
            trace.in_service = Some((packet, since, left - trace.credit));
            trace.advance();
            return (None, Some(trace.current()));
        }
        trace.credit -= left;
        if trace.credit == 0 {
            trace.advance();
        }
        let more = self.queue.backlog().packets > 0;
        (Some((packet, since)), more.then(|| trace.current()))
    }

    /// Whether a packet that comes now may change when the link serves next: it does nothing, or only waits for its
    /// queue to release a packet.
    pub fn idle(&self) -> bool {
        self.due == Time::MAX || self.waiting
    }

    /// Packets inside: queued and in service.
    pub fn held(&self) -> u64 {
        let in_service = match &self.server {
            Server::Wire(line) => line.busy,
            Server::Bucket(_) => false,
            Server::Trace(trace) => trace.in_service.is_some(),
        };
        self.queue.backlog().packets + u64::from(in_service)
    }

    /// Changes the rate from now on; the packet in service goes out as it began.
    pub fn set_rate(&mut self, rate: Rate, now: Time) {
        let since = if self.in_service().is_some() { self.due } else { now };
        if since > self.rate_since {
            self.offered_bits = self.offered_bits_at(since);
            (self.rate_since, self.rate_before) = (since, self.rate());
        }
        self.cx.now = now;
        match &mut self.server {
            Server::Wire(line) => line.wire = Wire::new(rate),
            Server::Bucket(bucket) => {
                let old = bucket.wire.rate();
                // The tokens it has, or owes, are bytes.
                let saved = bucket.saved(now).mul_div(old, rate.as_bps());
                let owed = bucket.owed(now).mul_div(old, rate.as_bps());
                bucket.zero_at = (now + owed).saturating_sub(saved);
                bucket.depth = bucket.depth.mul_div(old, rate.as_bps());
                bucket.wire = Wire::new(rate);
            }
            Server::Trace(_) => {}
        }
        self.queue.set_rate(rate, &mut self.cx);
    }

    /// What it did up to `now`. Where the link is ahead of that time, `ahead` is the packet that was on its wire then.
    ///
    /// What it carried is counted in bits, so that a packet belongs to each of two windows for the part sent in it. A
    /// token bucket sends a packet at once that tokens are still owed for: it counts as these come.
    pub fn counts(&self, now: Time, ahead: Option<&Left>) -> LinkCounts {
        let left = u128::from(self.counters.bytes) * 8;
        let (carried_bits, saved_bits) = match &self.server {
            Server::Wire(line) => {
                let own = line.busy.then_some((self.due, &line.in_service));
                let on_wire = ahead.map(|left| (left.packet.enqueued, &left.packet)).or(own);
                let sent = on_wire.map_or(0, |(due, packet)| {
                    let rest = self.offered_bits_at(due.max(now)) - self.offered_bits_at(now);
                    self.bits(packet).saturating_sub(rest)
                });
                (left + sent, 0)
            }
            Server::Bucket(bucket) => {
                let bits = |span: Time| bits_in(bucket.wire.rate(), span);
                (left.saturating_sub(bits(bucket.owed(now))), bits(bucket.saved(now)))
            }
            Server::Trace(trace) => {
                let sent = trace.in_service.map_or(0, |(packet, _, rest)| self.bits(&packet) - u128::from(rest) * 8);
                (left + sent, 0)
            }
        };
        LinkCounts {
            carried_bits,
            offered_bits: self.offered_bits_at(now),
            saved_bits,
            rounding_bits: 2 + bits_in(self.rate().max(self.rate_before), Time::from_nanos(2)),
            drops: self.counters.drops,
            marks: self.cx.marks,
        }
    }

    /// Bits that a packet takes up.
    fn bits(&self, packet: &Packet) -> u128 {
        u128::from(u64::from(packet.size) + self.overhead) * 8
    }

    /// Its rate in bit/s; 0 where delivery opportunities are recorded.
    const fn rate(&self) -> u64 {
        match &self.server {
            Server::Wire(Transmitter { wire, .. }) | Server::Bucket(Bucket { wire, .. }) => wire.rate(),
            Server::Trace(_) => 0,
        }
    }

    /// Bits the link could have carried from the start to `now`, beside what a token bucket had saved.
    fn offered_bits_at(&self, now: Time) -> u128 {
        match &self.server {
            Server::Trace(trace) => u128::from(trace.offered_bytes(now)) * 8,
            _ if now < self.rate_since => self.offered_bits - bits_in(self.rate_before, self.rate_since - now),
            _ => self.offered_bits + bits_in(self.rate(), now - self.rate_since),
        }
    }
}

/// Bits sent at `rate` bit/s in a `span`.
fn bits_in(rate: u64, span: Time) -> u128 {
    u128::from(rate) * u128::from(span.as_nanos()) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_trace_skips_to_the_opportunity_that_one_by_one_would_reach(
            mut ms in prop::collection::vec(0u64..40, 0..12),
            last in 40u64..50,
            waits in prop::collection::vec((0u64..200_000_000, 0u64..4), 1..20),
        ) {
            ms.sort_unstable();
            ms.push(last);
            let (mut skips, mut walks, mut now) = (Trace::new(&ms, 14), Trace::new(&ms, 14), Time::ZERO);
            for (wait, round) in waits {
                now += Time::from_nanos(if round == 0 { wait } else { wait / 10_000_000 * 10_000_000 });
                while walks.current() < now {
                    walks.advance();
                }
                prop_assert_eq!(skips.skip_to(now), walks.current());
                prop_assert_eq!((skips.round, skips.index, skips.credit), (walks.round, walks.index, walks.credit));
                // What is left of an opportunity that is not over stays.
                (skips.credit, walks.credit) = (7, 7);
            }
        }
    }
}
