//! A pipe delays, and does nothing else.

use knee_core::{Packet, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Packets under way for a time.
pub struct Pipe {
    /// In order of arrival where every packet takes the same time or order is kept.
    fifo: VecDeque<(Time, Packet)>,
    /// When the last of them arrives.
    last: Time,
    /// By arrival, then by entry, where packets may overtake each other.
    overtaking: BinaryHeap<Reverse<(Time, u64, PacketByValue)>>,
    entered: u64,
}

/// A packet that takes no part in comparisons.
#[derive(Clone, Copy)]
struct PacketByValue(Packet);

impl PartialEq for PacketByValue {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for PacketByValue {}
impl PartialOrd for PacketByValue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for PacketByValue {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Pipe {
    /// An empty pipe.
    #[expect(clippy::new_without_default, reason = "an empty pipe is no default of anything")]
    pub const fn new() -> Self {
        Self { fifo: VecDeque::new(), last: Time::ZERO, overtaking: BinaryHeap::new(), entered: 0 }
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
        let first = self.overtaking.peek().is_none_or(|Reverse((head, ..))| at < *head);
        self.overtaking.push(Reverse((at, self.entered, PacketByValue(packet))));
        first.then_some(at)
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<Time> {
        let fifo = self.fifo.front().map(|(at, _)| *at);
        match self.overtaking.peek() {
            None => fifo,
            Some(Reverse((at, ..))) => Some(fifo.map_or(*at, |fifo| fifo.min(*at))),
        }
    }

    /// The packet `places` behind the head of those that keep their order.
    pub fn peek(&self, places: usize) -> Option<&Packet> {
        self.fifo.get(places).map(|(_, packet)| packet)
    }

    /// Takes the packet that arrives at `now`, if one does.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Packet> {
        if let Some(Reverse((at, ..))) = self.overtaking.peek()
            && *at == now
        {
            return self.overtaking.pop().map(|Reverse((.., packet))| packet.0);
        }
        match self.fifo.front() {
            Some((at, packet)) if *at == now => {
                let packet = *packet;
                self.fifo.pop_front();
                Some(packet)
            }
            _ => None,
        }
    }

    /// Packets under way.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.fifo.len() + self.overtaking.len()
    }

    /// All packets under way, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.fifo.iter().map(|(_, p)| p).chain(self.overtaking.iter().map(|Reverse((.., p))| &p.0))
    }
}
