//! A pipe delays, and does nothing else.

use knee_core::{Packet, Time};
use std::collections::{BTreeMap, VecDeque};

/// Packets in flight for a time.
pub struct Pipe {
    /// In order of arrival where every packet takes the same time or order is kept.
    fifo: VecDeque<(Time, Packet)>,
    /// When the last of them arrives.
    last: Time,
    /// By arrival, then by entry, where packets may overtake each other.
    overtaking: BTreeMap<(Time, u64), Packet>,
    entered: u64,
}

impl Pipe {
    /// An empty pipe.
    #[expect(clippy::new_without_default, reason = "an empty pipe is no default of anything")]
    pub const fn new() -> Self {
        Self { fifo: VecDeque::new(), last: Time::ZERO, overtaking: BTreeMap::new(), entered: 0 }
    }

    /// Lets `packet` arrive at `at`, not before those that entered earlier. Returns the time of the pipe's next
    /// arrival if that is this packet's.
    #[inline]
    pub fn push(&mut self, at: Time, packet: Packet) -> Option<Time> {
        self.last = self.last.max(at);
        self.fifo.push_back((self.last, packet));
        (self.fifo.len() == 1).then_some(self.last)
    }

    /// Lets `packet` arrive at `at`, whoever entered earlier. Returns as [`Pipe::push`].
    pub fn push_overtaking(&mut self, at: Time, packet: Packet) -> Option<Time> {
        self.entered += 1;
        let first = self.overtaking.first_key_value().is_none_or(|((head, _), _)| at < *head);
        self.overtaking.insert((at, self.entered), packet);
        first.then_some(at)
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<Time> {
        let overtaking = self.overtaking.first_key_value().map(|((at, _), _)| *at);
        let fifo = self.fifo.front().map(|(at, _)| *at);
        fifo.into_iter().chain(overtaking).min()
    }

    /// The packet `places` behind the head of those that keep their order.
    pub fn peek(&self, places: usize) -> Option<&Packet> {
        self.fifo.get(places).map(|(_, packet)| packet)
    }

    /// Takes the packet that arrives at `now`, if one does.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Packet> {
        if let Some(entry) = self.overtaking.first_entry()
            && entry.key().0 == now
        {
            return Some(entry.remove());
        }
        self.fifo.front().filter(|(at, _)| *at == now)?;
        self.fifo.pop_front().map(|(_, packet)| packet)
    }

    /// Packets in flight.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.fifo.len() + self.overtaking.len()
    }
}
