//! ACKs in flight where time passes in batches.

use super::hosts::At;
use knee_core::convert::{index_u32, low_u8};
use knee_core::{Packet, Payload, Time};
use knee_net::events::ack_key;

/// ACKs of a flow that are in flight between two visits.
#[derive(Clone, Default)]
pub(super) struct Parked {
    /// In the order in which they arrive.
    pub(super) acks: Vec<Returning>,
    /// When the last of them arrives.
    last_arrival: Time,
}

/// An ACK in flight.
#[derive(Clone, Copy)]
pub(super) struct Returning {
    /// When it arrives at its sender.
    pub(super) at: Time,
    payload: Payload,
    /// Its tie-break key among events of that time, and its flags below.
    tie_break_and_flags: u64,
}

const _: () = assert!(size_of::<Returning>() == 32);

impl Returning {
    /// Payload and flags of its packet.
    #[inline]
    pub(super) const fn ack(&self) -> (Payload, u8) {
        (self.payload, low_u8(self.tie_break_and_flags))
    }

    /// Its tie-break key among events of that time.
    #[inline]
    pub(super) const fn tie_break(&self) -> u64 {
        self.tie_break_and_flags >> u8::BITS
    }

    /// Order of the ACKs of a flow.
    const fn key(&self) -> (Time, u64) {
        (self.at, self.tie_break())
    }
}

/// The ACKs of the flow that is visited, from its receiver to its sender. The same few lines of memory serve flow after
/// flow: most ACKs arrive within the visit.
#[derive(Clone, Default)]
pub(super) struct AckPath {
    /// Those in flight, behind those that have been taken.
    acks: Vec<Returning>,
    taken: usize,
    /// When the last of them arrives.
    last_arrival: Time,
    /// How many there were when the visit began. If any, the memory is the flow's own.
    before: usize,
}

impl AckPath {
    /// A visit begins.
    #[inline]
    pub(super) fn enter(&mut self, parked: &mut Parked) {
        self.last_arrival = parked.last_arrival;
        self.before = parked.acks.len();
        if self.before > 0 {
            std::mem::swap(&mut self.acks, &mut parked.acks);
        }
    }

    /// A visit ends: what has not arrived waits in `parked`.
    #[inline]
    pub(super) fn leave(&mut self, parked: &mut Parked) {
        parked.last_arrival = self.last_arrival;
        self.acks.drain(..self.taken);
        if self.before > 0 {
            std::mem::swap(&mut self.acks, &mut parked.acks);
        } else if !self.acks.is_empty() {
            parked.acks.append(&mut self.acks);
        }
        self.taken = 0;
    }

    /// How many more are in flight than when the visit began.
    pub(super) fn more(&self) -> i32 {
        index_u32(self.acks.len() - self.taken).cast_signed() - index_u32(self.before).cast_signed()
    }

    /// When the next ACK arrives; `Time::MAX`: none is in flight.
    #[inline]
    pub(super) fn next_arrival(&self) -> Time {
        self.acks.get(self.taken).map_or(Time::MAX, |ack| ack.at)
    }

    /// Takes the next ACK if it arrives before `until`.
    #[inline]
    pub(super) fn next(&mut self, until: Time) -> Option<Returning> {
        let next = self.acks.get(self.taken).filter(|ack| ack.at < until)?;
        self.taken += 1;
        Some(*next)
    }

    /// An ACK leaves now, sent for a cause ([`knee_net::events::Event::cause`]), with its index among those of that.
    #[inline]
    pub(super) fn push(&mut self, ack: &Packet, At { now, path }: At<'_>, (cause, index): (u16, u32)) {
        let Packet { payload, flags, .. } = *ack;
        let at = now + path.ack_delay;
        let tie_break_and_flags = ack_key(path.ack_pipe, cause, index) << u8::BITS | u64::from(flags);
        self.acks.push(Returning { at, payload, tie_break_and_flags });
        if at <= self.last_arrival {
            self.overtake();
        } else {
            self.last_arrival = at;
        }
    }

    /// Brings the last ACK to its place: those on a path that has become shorter overtake.
    #[cold]
    fn overtake(&mut self) {
        let mut k = self.acks.len() - 1;
        while k > self.taken && self.acks[k - 1].key() > self.acks[k].key() {
            self.acks.swap(k - 1, k);
            k -= 1;
        }
        self.last_arrival = self.acks[self.acks.len() - 1].at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_net::network::FlowPath;
    use proptest::prelude::*;

    proptest! {
        /// Visits of a flow, in each of which ACKs leave after each other on paths of any delay, by one pipe for each
        /// delay; then those are taken that arrive before the end of the visit.
        #[test]
        fn acks_arrive_once_at_their_time_in_order(
            visits in prop::collection::vec((1u64..50, prop::collection::vec((0u64..5, 1u64..5, 0u16..3), 0..8)), 1..12)
        ) {
            let (mut path, mut parked) = (AckPath::default(), Parked::default());
            // Time, tie-break key and number of those in flight.
            let mut expected: Vec<(Time, u64, u32)> = Vec::new();
            let (mut now, mut until, mut sent) = (Time::ZERO, Time::ZERO, 0);
            for (length, acks) in visits {
                until += Time::from_nanos(length);
                path.enter(&mut parked);
                for (gap, delay, rank) in acks {
                    now += Time::from_nanos(gap);
                    // It arrives within this visit at the earliest, or later, even long after one that leaves next.
                    let ack_delay = until.saturating_sub(now) + Time::from_nanos(delay * 10);
                    let ack_pipe = delay as u32;
                    let (data_hops, ack_hops, base_rtt, mirrored) = (1, 0, ack_delay, false);
                    let flow_path = FlowPath { route: 0, ack_pipe, data_hops, ack_hops, ack_delay, base_rtt, mirrored };
                    let ack = Packet { payload: Payload::Stored(sent), flags: 5, ..Packet::default() };
                    path.push(&ack, At { now, path: &flow_path }, (rank, 3));
                    expected.push((now + ack_delay, ack_key(flow_path.ack_pipe, rank, 3), sent));
                    sent += 1;
                }
                expected.sort_unstable();
                let arrived = expected.iter().take_while(|ack| ack.0 < until).count();
                for (at, tie_break, sent) in expected.drain(..arrived) {
                    prop_assert_eq!(path.next_arrival(), at);
                    let came = path.next(until).expect("it has arrived");
                    prop_assert_eq!((came.at, came.tie_break(), came.ack()), (at, tie_break, (Payload::Stored(sent), 5)));
                }
                prop_assert!(path.next(until).is_none());
                prop_assert_eq!(path.next_arrival(), expected.first().map_or(Time::MAX, |ack| ack.0));
                path.leave(&mut parked);
                prop_assert_eq!(parked.acks.len(), expected.len());
            }
        }
    }
}
