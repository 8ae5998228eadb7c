//! A pipe delays, and does nothing else.

use knee_core::{Packet, Time};
use std::collections::{BTreeMap, VecDeque};

/// Packets in flight for a time.
#[derive(Clone)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{data, ms};
    use proptest::prelude::*;

    /// Takes all packets, each at the time that the pipe announces.
    fn drain(pipe: &mut Pipe) -> Vec<(Time, u64)> {
        let next = |pipe: &mut Pipe| {
            let at = pipe.next()?;
            let packet = pipe.pop(at).expect("the head arrives at its time");
            Some((at, packet.payload.seq()))
        };
        std::iter::from_fn(|| next(pipe)).collect()
    }

    #[test]
    fn nothing_arrives_before_its_time() {
        let mut pipe = Pipe::new();
        assert_eq!((pipe.push(ms(5), data(0)), pipe.push_overtaking(ms(6), data(1))), (Some(ms(5)), Some(ms(6))));
        // Of what arrives at one time, that which entered earlier is next.
        assert_eq!((pipe.push_overtaking(ms(6), data(2)), pipe.push(ms(5), data(3))), (None, None));
        assert_eq!((pipe.pop(ms(4)), pipe.len()), (None, 4));
        assert_eq!((pipe.pop(ms(5)), pipe.len()), (Some(data(0)), 3));
        assert_eq!((pipe.pop(ms(5)), pipe.pop(ms(5)), pipe.pop(ms(6))), (Some(data(3)), None, Some(data(1))));
        assert_eq!((pipe.pop(ms(6)), pipe.next(), pipe.len()), (Some(data(2)), None, 0));
    }

    #[test]
    fn the_packets_behind_the_head_can_be_looked_at() {
        let mut pipe = Pipe::new();
        pipe.push(ms(1), data(0));
        pipe.push(ms(1), data(1));
        let seen = [0, 1, 2].map(|place| pipe.peek(place).map(|packet| packet.payload.seq()));
        assert_eq!(seen, [Some(0), Some(1), None]);
    }

    proptest! {
        /// Overtaking packets leave by time, ties in the order of entry; the others in the order of entry, not before
        /// their time.
        /// Whoever notes the times that pushes return knows when the next packet arrives.
        #[test]
        fn packets_come_in_their_order(entries in prop::collection::vec((0u64..20, any::<bool>()), 0..50)) {
            let mut pipe = Pipe::new();
            let (mut kept, mut overtaking, mut announced) = (Vec::new(), Vec::new(), Vec::new());
            for (seq, &(at, overtakes)) in (0..).zip(&entries) {
                let at = ms(at);
                let (head, arrives) = if overtakes {
                    overtaking.push((at, seq));
                    (pipe.push_overtaking(at, data(seq)), at)
                } else {
                    let arrives = kept.last().map_or(at, |(last, _): &(Time, u64)| at.max(*last));
                    kept.push((arrives, seq));
                    (pipe.push(at, data(seq)), arrives)
                };
                prop_assert!(head.is_none_or(|head| head == arrives));
                announced.extend(head);
                prop_assert!(announced.contains(&pipe.next().expect("a packet is inside")));
            }
            prop_assert_eq!(pipe.len(), entries.len());
            overtaking.sort();
            let arrived = drain(&mut pipe);
            prop_assert!(arrived.is_sorted_by_key(|(at, _)| *at));
            let (second, first): (Vec<_>, Vec<_>) =
                arrived.into_iter().partition(|(_, seq)| entries[usize::try_from(*seq).unwrap()].1);
            prop_assert_eq!((first, second), (kept, overtaking));
        }
    }
}
