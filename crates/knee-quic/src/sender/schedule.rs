//! The order in which streams with something to send are served (RFC 9218, 10).

use knee_core::Priority;
use std::collections::{BTreeSet, VecDeque};

/// A turn of an urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The first of the streams that are served one by one.
    InOrder,
    /// A stream that shares with others.
    Stream(u64),
}

/// Streams of one urgency.
#[derive(Clone, Debug, Default)]
struct Urgency {
    /// Turns, one a packet: each incremental stream has its own, all others have one together.
    turns: VecDeque<Turn>,
    /// Streams that are not incremental.
    in_order: BTreeSet<u64>,
}

/// Streams that have something to send, or wait for the peer's limits.
#[derive(Clone, Debug, Default)]
pub struct Schedule([Urgency; 1 + Priority::LAST as usize]);

const fn turn_of(stream: u64, priority: Priority) -> Turn {
    if priority.incremental { Turn::Stream(stream) } else { Turn::InOrder }
}

impl Schedule {
    fn urgency(&mut self, priority: Priority) -> &mut Urgency {
        &mut self.0[usize::from(priority.urgency.min(Priority::LAST))]
    }

    /// A stream has something to send.
    pub fn add(&mut self, stream: u64, priority: Priority) {
        let Urgency { turns, in_order } = self.urgency(priority);
        if !priority.incremental {
            in_order.insert(stream);
        }
        let turn = turn_of(stream, priority);
        if !turns.contains(&turn) {
            turns.push_back(turn);
        }
    }

    /// A stream has nothing to send any more.
    pub fn remove(&mut self, stream: u64, priority: Priority) {
        let Urgency { turns, in_order } = self.urgency(priority);
        in_order.remove(&stream);
        if priority.incremental || in_order.is_empty() {
            turns.retain(|turn| *turn != turn_of(stream, priority));
        }
    }

    /// A stream had its turn.
    pub fn served(&mut self, stream: u64, priority: Priority) {
        let (turns, turn) = (&mut self.urgency(priority).turns, turn_of(stream, priority));
        if let Some(place) = turns.iter().position(|other| *other == turn) {
            turns.remove(place);
            turns.push_back(turn);
        }
    }

    /// The stream that is served next, of those that may send.
    pub fn next(&self, may_send: impl Fn(u64) -> bool) -> Option<u64> {
        //= RFC 9218, 10
        //# It is RECOMMENDED that, when possible, servers respect the urgency parameter (Section 4.1), sending
        //# higher-urgency responses before lower-urgency responses.
        self.0.iter().find_map(|Urgency { turns, in_order }| {
            //= RFC 9218, 10
            //# Incremental responses of the same urgency SHOULD be served by sharing bandwidth among them.
            //= RFC 9218, 10
            //# It is RECOMMENDED that servers avoid such starvation where possible.
            turns.iter().find_map(|turn| match *turn {
                //= RFC 9218, 10
                //# Non-incremental responses of the same urgency SHOULD be served by prioritizing bandwidth allocation
                //# in ascending order of the stream ID, which corresponds to the order in which clients make requests.
                Turn::InOrder => in_order.iter().copied().find(|stream| may_send(*stream)),
                Turn::Stream(stream) => may_send(stream).then_some(stream),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    fn turns(schedule: &mut Schedule, of: &[(u64, Priority)], count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let stream = schedule.next(|_| true).unwrap();
                schedule.served(stream, of.iter().find(|(id, _)| *id == stream).unwrap().1);
                stream
            })
            .collect()
    }

    /// RFC 9218, 4.1, 4.2 and 10: a style sheet of urgency 0 before all, then what was asked for first, one by one;
    /// images that are used in parts share.
    #[test]
    fn streams_are_served_by_urgency_then_one_by_one_or_in_turn() {
        let mut schedule = Schedule::default();
        let all = [
            (0, priority(3, false)),
            (1, priority(5, true)),
            (2, priority(5, true)),
            (3, priority(0, false)),
            (4, priority(3, false)),
        ];
        for (stream, priority) in all {
            schedule.add(stream, priority);
        }
        assert_eq!(turns(&mut schedule, &all, 2), [3, 3]);
        schedule.remove(3, all[3].1);
        assert_eq!(turns(&mut schedule, &all, 2), [0, 0]);
        // The peer's window holds the first one back.
        assert_eq!(schedule.next(|stream| stream != 0), Some(4));
        schedule.remove(0, all[0].1);
        schedule.remove(4, all[4].1);
        assert_eq!(turns(&mut schedule, &all, 5), [1, 2, 1, 2, 1]);
    }

    /// RFC 9218, 10, the two challenges: a large response one by one and a small one in parts do not starve each other.
    #[test]
    fn those_one_by_one_have_one_turn_among_those_in_parts() {
        let mut schedule = Schedule::default();
        let all = [0, 1, 2, 3].map(|stream| (stream, priority(3, stream >= 2)));
        for (stream, priority) in all {
            schedule.add(stream, priority);
        }
        assert_eq!(turns(&mut schedule, &all, 6), [0, 2, 3, 0, 2, 3]);
        schedule.remove(0, all[0].1);
        assert_eq!(turns(&mut schedule, &all, 3), [1, 2, 3]);
    }
}
