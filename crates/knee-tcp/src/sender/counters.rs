//! Counters of packets and bytes sent, acknowledged and lost.

use super::{Sender, flags};
use knee_core::Time;
use knee_core::convert::saturating_u16;
use knee_core::packet::{MSS, MTU};

/// Counters since the start, for observers.
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

/// Totals that a sender keeps, from which [`Counters`] follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Integral of the window over time, packets times ns, and when it was last brought up to date.
    pub cwnd_integral: (u128, Time),
    /// Packets retransmitted.
    pub(super) retransmitted: u64,
    /// Losses of a transmission that was taken for lost before, which had turned out wrong.
    pub(super) lost_again: u64,
    /// Bytes that packets sent have been shorter than full ones.
    pub(super) short_bytes: u64,
    /// Transmissions that were taken for lost, which was undone.
    pub(super) unmarked: u32,
    /// Retransmission timeouts, those of the handshake included.
    pub timeouts: u32,
}

impl Sender {
    /// Counters since the start. Those that follow from others are computed here.
    pub fn counters(&self) -> Counters {
        let sent = self.view.snd_nxt + self.totals.retransmitted;
        Counters {
            sent,
            sent_bytes: sent * u64::from(MTU) - self.totals.short_bytes,
            retransmitted: self.totals.retransmitted,
            lost: self.view.lost - self.totals.lost_again,
            timeouts: u64::from(self.totals.timeouts),
        }
    }

    /// Payload bytes acknowledged.
    pub fn acked_bytes(&self) -> u64 {
        self.payload_before(self.view.snd_una)
    }

    /// Payload bytes sent at least once.
    pub fn new_bytes(&self) -> u64 {
        self.payload_before(self.view.snd_nxt)
    }

    /// Payload bytes of the segments before `seq`.
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
        (self.scoreboard.sacked, self.scoreboard.lost, self.scoreboard.retransmitted)
    }

    /// Transmissions deemed lost so far, with those of which that turned out wrong.
    pub const fn losses(&self) -> u64 {
        self.view.lost
    }

    /// Marks of a segment that is not acknowledged: (it counts as lost, it was sent again since it does).
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

    /// True if nothing was ever sent again, the SYN included.
    pub const fn sent_once(&self) -> bool {
        self.totals.retransmitted == 0 && self.totals.timeouts == 0
    }

    /// True once all there is to send has been acknowledged.
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
    use crate::sender::testing::{config, sender};
    use crate::sender::{AckInfo, Config, Sender};
    use knee_core::Time;

    const fn ack(seq: u64, tsecr: u32) -> AckInfo<'static> {
        AckInfo { seq, part: 0, blocks: &[], dsack: false, tsecr, tsval: 0, flags: 0 }
    }

    /// The timers of a sender that hears nothing fire up to its first retransmission timeout; gives its time.
    fn until_timeout(sender: &mut Sender, config: &Config) -> Time {
        let mut now = Time::ZERO;
        while sender.counters().timeouts == 0 {
            now = config.clock.expiry(&sender.timer);
            sender.on_timer(now, config, &mut Vec::new());
        }
        now
    }

    #[test]
    fn a_transmission_is_lost_once_though_it_is_taken_for_lost_twice() {
        let config = config(false, 9, 1_000);
        let mut sender = sender("reno", Some(10 * 1448), false, &config);
        // A probe, which is the last segment, and a timeout: all ten are deemed lost.
        let mut now = until_timeout(&mut sender, &config);
        let lost = sender.counters().lost;
        assert!(lost >= 10);
        now += Time::from_millis(20);
        sender.on_ack(&ack(1, Sender::tsval(now)), now, &config, &mut Vec::new());
        // Segment 1 arrived as it was sent at first, which undoes that. All but segment 2 are late, and lost again.
        now += Time::from_millis(20);
        sender.on_ack(&ack(2, Sender::tsval(Time::from_millis(20))), now, &config, &mut Vec::new());
        assert_eq!(sender.scoreboard().1, 7);
        assert_eq!((sender.losses(), sender.counters().lost), (lost + 7, lost));
    }

    #[test]
    fn the_least_rtt_begins_with_that_of_the_handshake() {
        let config = config(false, 9, 1_000);
        let sender = sender("reno", None, false, &config);
        assert_eq!(sender.min_rtt(), Time::from_millis(20));
    }

    #[test]
    fn marks_are_those_of_segments_lost_and_sent_again() {
        let config = config(false, 9, 1_000);
        let mut sender = sender("reno", None, false, &config);
        assert_eq!((sender.marks(0), sender.marks(9), sender.sent_once()), ((false, false), (false, false), true));
        until_timeout(&mut sender, &config);
        assert_eq!((sender.marks(0), sender.marks(9), sender.sent_once()), ((true, true), (true, false), false));
    }

    #[test]
    fn a_reduction_is_one_from_an_infinite_threshold() {
        // RFC 5681, 3.1: ssthresh is arbitrarily high at first, and reduced in response to congestion.
        let config = config(false, 9, 1_000);
        let mut sender = sender("reno", None, false, &config);
        assert!(!sender.reduced());
        until_timeout(&mut sender, &config);
        assert!(sender.reduced());
    }

    #[test]
    fn a_transfer_that_is_stopped_when_all_of_it_is_under_way_has_its_size() {
        let config = config(true, 9, 1000);
        let mut sender = sender("reno", Some(2000), false, &config);
        sender.stop();
        sender.on_ack(&ack(2, 1), Time::from_millis(40), &config, &mut Vec::new());
        assert_eq!((sender.done(), sender.acked_bytes()), (true, 2000));
    }
}
