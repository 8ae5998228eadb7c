//! The link: what arrives goes through loss and queue to the server, and leaves.

use crate::arrivals::Arrivals;
use crate::framing::Framing;
use crate::line::{DynQueue, Line};
use crate::loss::Loss;
use crate::outcome::{Counters, Departure, Load, Outcome};
use crate::queue::{Backlog, Burst, Limit, Resize};
use crate::server::Server;
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

    /// Returns true if it sends at a fixed rate.
    pub const fn is_wire(&self) -> bool {
        matches!(self.line.server, Server::Wire(_))
    }

    /// Its rate in bit/s; a trace has none.
    pub fn rate(&self) -> Option<u64> {
        self.line.server.rate()
    }

    /// The packet that a wire sends now.
    #[inline]
    pub const fn on_wire(&self) -> Option<&Departure> {
        self.line.on_wire.as_ref()
    }

    /// A burst arrives `now`; the link is not due before.
    #[inline]
    pub fn arrive(&mut self, burst: &Burst, now: Time, out: &mut Outcome) {
        let Self { queue, line, .. } = self;
        let idle = line.is_idle();
        line.admit(&mut **queue, burst, now, out);
        if idle {
            line.hold(out);
        }
    }

    /// Takes the step that is due `now`: at most one packet leaves.
    #[inline]
    pub fn serve(&mut self, now: Time, out: &mut Outcome) {
        let Self { queue, line, .. } = self;
        let before = out.departed.len();
        out.departed.extend(line.on_wire.take());
        line.step(&mut **queue, now, now, out);
        line.hold(out);
        if let Some(departure) = out.departed.get(before) {
            line.count_one(departure);
            self.damage(out);
        }
    }

    /// Damages the packet that has just left with its probability, as netem's `corrupt` does: the checksum fails at the
    /// other end, so that it counts as dropped there, and as carried by the link.
    #[inline]
    fn damage(&mut self, out: &mut Outcome) {
        let Some((probability, rng)) = &mut self.damage else { return };
        if rng.chance(*probability)
            && let Some(Departure { packet, .. }) = out.departed.pop()
        {
            self.line.counters.departed -= 1;
            self.line.counters.drops += 1;
            out.dropped.push((packet.at, packet));
        }
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

    /// Lets all `arrivals` come and all steps be taken up to `until`, no earlier than the last of them.
    pub fn advance(&mut self, arrivals: &mut Arrivals, until: Time, out: &mut Outcome) {
        let Self { queue, line, .. } = self;
        let before = out.departed.len();
        out.departed.extend(line.on_wire.take());
        // What leaves a wire just at the end may come after it.
        arrivals.sort(until + Time::from_nanos(1));
        queue.advance(line, arrivals, until, out);
        line.hold(out);
        line.count(&out.departed[before..]);
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
    pub fn set_limit(&mut self, limit: Limit, now: Time, out: &mut Outcome) {
        self.line.cx.now = now;
        self.queue.resize(Resize::Limit(limit), &mut self.line.cx);
        self.line.report(out);
    }

    /// Changes the rate from now on; the packet that a wire sends goes out as it began. The present rate changes
    /// nothing: fractions of nanoseconds carry over.
    pub fn set_rate(&mut self, rate: Rate, now: Time, out: &mut Outcome) {
        if self.rate() == Some(rate.as_bps()) {
            return;
        }
        self.line.set_rate(rate, now);
        self.line.cx.now = now;
        self.queue.resize(Resize::Rate(rate), &mut self.line.cx);
        self.line.report(out);
    }

    /// An interval of the time series ends: the queue notes what is to be drawn over time.
    pub fn observe(&mut self, now: Time, out: &mut Outcome) {
        self.line.cx.now = now;
        self.queue.observe(&mut self.line.cx);
        self.line.report(out);
    }

    /// Bits that it has carried and could have carried up to `now`.
    ///
    /// It is counted in bits, so that a packet belongs to each of two windows for the part sent in it. A token bucket
    /// sends a packet at once that tokens are still owed for: it counts as these come.
    pub fn load(&self, now: Time) -> Load {
        self.line.load(now)
    }
}
