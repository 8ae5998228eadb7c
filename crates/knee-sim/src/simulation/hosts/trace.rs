//! RTTs as a packet trace at the sender shows them, Wireshark's `tcp.analysis.ack_rtt`.

use knee_core::Time;
use std::collections::VecDeque;

/// When the segments of one connection that are not acknowledged yet left for the first time.
#[derive(Clone, Debug, Default)]
pub(in crate::simulation) struct PacketTrace {
    /// The segment behind each transmission of new ones, and its time; ascending.
    sent: VecDeque<(u64, Time)>,
    /// Acknowledged so far.
    acked: u64,
}

impl PacketTrace {
    /// Segments up to before `end` leave at `now`, none of them sent before.
    pub(super) fn sent(&mut self, end: u64, now: Time) {
        self.sent.push_back((end, now));
    }

    /// An ACK for all before `acked` arrives at `now`. Gives the time since the last of these was sent first; nothing
    /// unless the ACK is the first that acknowledges it.
    pub(super) fn acknowledged(&mut self, acked: u64, now: Time) -> Option<Time> {
        if acked <= self.acked {
            return None;
        }
        self.acked = acked;
        while self.sent.front().is_some_and(|&(end, _)| end < acked) {
            self.sent.pop_front();
        }
        self.sent.front().map(|&(_, at)| now - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments 0 to 3 leave at 0 ms and 4 and 5 at 10 ms. Segment 1 is lost: the ACK of 1 comes at 50 ms, duplicates
    /// follow, and the retransmission's ACK, at 110 ms, acknowledges all six, of which the last left at 10 ms.
    #[test]
    fn what_waits_for_a_retransmission_counts_from_its_own_first_transmission() {
        let (mut trace, ms) = (PacketTrace::default(), Time::from_millis);
        trace.sent(4, ms(0));
        trace.sent(6, ms(10));
        let acks = [(1, 50), (1, 51), (1, 60), (6, 110)];
        let rtts = acks.map(|(acked, at)| trace.acknowledged(acked, ms(at)));
        assert_eq!(rtts, [Some(ms(50)), None, None, Some(ms(100))]);
    }
}
