//! What is counted: packets and bytes sent, acknowledged, lost.

use super::{Sender, flags};
use knee_core::Time;
use knee_core::convert::saturating_u16;
use knee_core::packet::{MSS, MTU};

/// What the observers read: counters since the start.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Their bytes as IP packets.
    pub sent_bytes: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Packets deemed lost, each transmission once.
    pub lost: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl Sender {
    /// Counters since the start. What follows from others is not kept.
    pub fn counters(&self) -> Counters {
        let sent = self.view.snd_nxt + self.retransmitted;
        Counters {
            sent,
            sent_bytes: sent * u64::from(MTU) - self.short_bytes,
            retransmitted: self.retransmitted,
            lost: self.view.lost - self.lost_again,
            timeouts: u64::from(self.timeouts),
        }
    }

    /// Payload bytes acknowledged.
    #[inline]
    pub fn acked_bytes(&self) -> u64 {
        self.payload_before(self.view.snd_una)
    }

    /// Payload bytes sent at least once.
    pub fn new_bytes(&self) -> u64 {
        self.payload_before(self.view.snd_nxt)
    }

    /// Payload bytes of the segments before `seq`.
    #[inline]
    fn payload_before(&self, seq: u64) -> u64 {
        let mss = u64::from(MSS);
        let missing = self.stream.as_ref().map_or(0, |stream| stream.missing_before(seq));
        let bytes = seq * mss - missing;
        if seq == self.end { bytes - (mss - u64::from(self.last_payload)) } else { bytes }
    }

    /// IP packet size of a segment.
    pub fn packet_size(&self, seq: u64) -> u16 {
        let headers = MTU - MSS;
        if seq + 1 == self.end {
            return headers + saturating_u16(u64::from(self.last_payload));
        }
        headers + self.stream.as_ref().and_then(|stream| stream.payload(seq)).unwrap_or(MSS)
    }

    /// Segments SACKed, lost and retransmitted but not resolved, for checks.
    pub const fn scoreboard(&self) -> (u32, u32, u32) {
        (self.sacked_out, self.lost_out, self.retrans_out)
    }

    /// Transmissions deemed lost so far, with those of which that turned out wrong.
    pub const fn losses(&self) -> u64 {
        self.view.lost
    }

    /// Whether a segment that is not acknowledged counts as lost, and whether it was sent again since it does.
    pub fn marks(&self, seq: u64) -> (bool, bool) {
        let marks = if self.rtx.tracking() { self.rtx.flags(seq) } else { 0 };
        (marks & flags::LOST != 0, marks & flags::RETRANSMITTED != 0)
    }

    /// Least RTT of the last 300 s; `Time::MAX` before the first sample.
    pub const fn min_rtt(&self) -> Time {
        self.rtt.min_rtt()
    }

    /// Smoothed deviation of the RTT.
    pub const fn rtt_variance(&self) -> Time {
        self.rtt.variance()
    }

    /// Whether nothing was ever sent again, the SYN included.
    pub const fn sent_once(&self) -> bool {
        self.retransmitted == 0 && self.timeouts == 0
    }

    /// Whether all there is to send has been acknowledged.
    pub const fn done(&self) -> bool {
        self.established && self.view.snd_una >= self.end
    }

    /// No new data from now on; what is in flight is still repaired.
    pub fn stop(&mut self) {
        if self.view.snd_nxt < self.end {
            self.end = self.view.snd_nxt;
            self.last_payload = u32::from(MSS);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sender::AckInfo;
    use crate::sender::testing::{config, sender};
    use knee_core::Time;

    #[test]
    fn a_transfer_that_is_stopped_when_all_of_it_is_under_way_has_its_size() {
        let config = config(true, 9, 1000);
        let mut sender = sender("reno", Some(2000), false, &config);
        sender.stop();
        let ack = AckInfo { seq: 2, part: 0, blocks: &[], dsack: false, tsecr: 1, flags: 0 };
        sender.on_ack(&ack, Time::from_millis(40), &config, &mut Vec::new());
        assert_eq!((sender.done(), sender.acked_bytes()), (true, 2000));
    }
}
