//! The interface of a server that is not a wire.

use crate::entry::Copies;
use crate::framing::Framing;
use crate::outcome::{Counters, Departure, Dropped};
use crate::queue::{Backlog, Context, Queue};
use knee_core::{Packet, Rate, Time};
use std::collections::VecDeque;

/// A packet that has left its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The packet.
    pub packet: Packet,
    /// When it left its queue.
    pub since: Time,
    /// Its bytes on the link.
    pub bytes: u64,
}

/// Operations of a medium on its link.
pub trait Port {
    /// Takes the next packet out of the queue. `None` if it is empty, or holds its packets back.
    fn take(&mut self) -> Option<Frame>;

    /// Takes the next packet of an access category; only where the link has a queue for each
    /// ([`Model::categories`](crate::registry::Model::categories)).
    fn take_from(&mut self, category: u8) -> Option<Frame>;

    /// Asks to be called with the next packet that arrives, too, whatever time this call returns.
    fn listen(&mut self);

    /// Packets and bytes in the queue.
    fn backlog(&self) -> Backlog;

    /// The packet leaves the link at a time not before now, and not before those that were given to it before.
    fn leave(&mut self, frame: Frame, at: Time);

    /// The packet is lost now.
    fn lose(&mut self, frame: Frame);

    /// So many bits are sent evenly `from` one time `until` another, and so count as carried by the link; between equal
    /// times at once. A later call replaces what is still to be sent.
    fn carry(&mut self, bits: u64, from: Time, until: Time);
}

/// A propagation delay that changes with time.
pub trait PathDelay: Send + ClonePathDelay {
    /// The extra delay `now`, which is not before that of the call before.
    fn delay(&mut self, now: Time) -> Time;
}

/// A server with times of its own: it says when packets leave the queue, when they leave the link, and which are lost.
pub trait Medium: Send + CloneMedium {
    /// Called at the time last returned, or when a packet arrives at an idle medium. Returns when to call again: a
    /// time not before now, or `Time::MAX` to wait until a packet arrives or the queue releases one.
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time;

    /// Its capacity, which the link's utilization is a share of.
    fn capacity(&self, now: Time) -> Capacity;

    /// Changes the rate. Gives from when on it has it: what is being sent goes out as it began.
    fn set_rate(&mut self, rate: Rate, now: Time) -> Time;

    /// Called on the clone of a medium whose whole network is copied: replaces what it shares with others
    /// ([`Shared`](crate::registry::Shared)), and until now with its original, by the copy of it in `copies`.
    fn separate(&mut self, _copies: &mut Copies) {}
}

knee_core::boxed_clone!(ClonePathDelay: PathDelay => PathDelay);
knee_core::boxed_clone!(CloneMedium: Medium => Medium);

/// Capacity of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// It has a rate, above which it carries nothing.
    Rate {
        /// In bit/s.
        bps: u64,
        /// Bits that it could have sent before and may send now beyond its rate, such as a bucket's tokens; negative:
        /// those it sent too early.
        saved: i128,
    },
    /// It has no rate: bits that it could have carried from the start until now.
    Offered(u128),
}

impl Capacity {
    /// A rate in bit/s, of which nothing can be saved.
    pub const fn rate(bps: u64) -> Self {
        Self::Rate { bps, saved: 0 }
    }
}

/// Bits that are sent evenly from one time to another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sending {
    pub(crate) from: Time,
    pub(crate) until: Time,
    pub(crate) bits: u64,
}

impl Sending {
    /// The bits that are still to be sent at `now`.
    pub(crate) fn rest(&self, now: Time) -> u128 {
        if now >= self.until || self.bits == 0 {
            return 0;
        }
        let span = u128::from((self.until - self.from).as_nanos());
        let left = u128::from((self.until - now.max(self.from)).as_nanos());
        u128::from(self.bits) * left / span
    }
}

/// A link's side of a medium.
#[derive(Clone, Default)]
pub(crate) struct Transit {
    /// Packets that are to leave, in order.
    pub(crate) leaving: VecDeque<Departure>,
    /// When the medium is to be asked.
    pub(crate) asks: Time,
    /// Bits that count as carried, those still to be sent included.
    pub(crate) carried: u128,
    /// The last of them, and those before, whose last byte may be still under way as these begin.
    pub(crate) sending: Sending,
    pub(crate) tail: Sending,
    /// True if the medium is also to be asked when a packet arrives.
    pub(crate) listens: bool,
    /// Packets that have left the queue and neither are to leave nor were lost.
    pub(crate) held: u64,
}

impl Transit {
    /// When a packet leaves, or the medium is to be asked.
    pub(crate) fn due(&self) -> Time {
        self.leaving.front().map_or(self.asks, |next| next.at.min(self.asks))
    }
}

/// The parts of a [`Port`].
pub(crate) struct Access<'a, Q: Queue + ?Sized> {
    pub(crate) queue: &'a mut Q,
    pub(crate) cx: &'a mut Context,
    pub(crate) transit: &'a mut Transit,
    pub(crate) counters: &'a mut Counters,
    pub(crate) dropped: &'a mut Vec<Dropped>,
    pub(crate) framing: Framing,
}

impl<Q: Queue + ?Sized> Port for Access<'_, Q> {
    fn take(&mut self) -> Option<Frame> {
        let packet = self.queue.dequeue(self.cx)?;
        self.transit.held += 1;
        Some(Frame { packet, since: self.cx.now, bytes: self.framing.bytes(packet.size) })
    }

    fn take_from(&mut self, category: u8) -> Option<Frame> {
        self.cx.category = Some(category);
        let taken = self.take();
        self.cx.category = None;
        taken
    }

    fn listen(&mut self) {
        self.transit.listens = true;
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn leave(&mut self, frame: Frame, at: Time) {
        let Frame { mut packet, since, .. } = frame;
        let at = at.max(self.transit.leaving.back().map_or(self.cx.now, |last| last.at));
        let sojourn = since.saturating_sub(packet.at);
        self.transit.held -= 1;
        packet.add_queued(sojourn);
        self.transit.leaving.push_back(Departure { at, packet, sojourn });
    }

    fn lose(&mut self, frame: Frame) {
        self.transit.held -= 1;
        self.counters.drops += 1;
        self.dropped.push((self.cx.now, frame.packet));
    }

    fn carry(&mut self, bits: u64, from: Time, until: Time) {
        self.transit.carried += u128::from(bits);
        self.transit.tail = std::mem::replace(&mut self.transit.sending, Sending { from, until, bits });
    }
}
