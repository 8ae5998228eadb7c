//! The commonest ACK in recovery: a SACK of the next segment, which was sent just once.
//!
//! Most of what `ack.rs` asks is known beforehand for it. A test holds it against the slow path.

use super::ack::{AckDetails, Prior};
use super::micros::Micros;
use super::{AckInfo, Config, Departure, Resend, Sender};
use knee_cc::{CaState, RateSample, View};
use knee_core::Time;
use knee_core::convert::count_u32;

impl Sender {
    /// The segment that an ACK reports, if that is all it does.
    pub(super) fn next_sack(&self, ack: &AckInfo) -> Option<u64> {
        let needs = &self.needs;
        let expected = self.view.ca == CaState::Recovery
            && (ack.seq, ack.part) == (self.view.snd_una, 0)
            && self.view.snd_una < self.high_seq
            && !ack.dsack
            && self.tells_no_mark(ack);
        let asks = self.tlp.is_outstanding()
            || self.widened
            || needs.rate
            || needs.full_control
            || self.undo.retransmissions == 0;
        let (&newest, known) = ack.blocks.split_first().filter(|_| expected && !asks)?;
        self.rtx.next_sacked(newest).filter(|_| known.iter().all(|&block| self.rtx.is_sacked(block)))
    }

    /// Takes an ACK that reports this segment only. Returns its RTT sample.
    pub(super) fn ack_next_sack(
        &mut self,
        seq: u64,
        ack: &AckInfo,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
    ) -> Option<Time> {
        let stamp = Micros::of(now);
        let View { snd_una: una, delivered, lost, .. } = self.view;
        let prior = Prior { una, delivered, lost, in_flight: self.in_flight() };
        self.tsecr = ack.tsecr;
        let sent = self.rtx.sack_next(seq)?.sent();
        self.rack_advance(sent, seq + 1, 0, stamp);
        self.sacked_out += 1;
        self.view.delivered += 1;
        let span = stamp.since(sent);
        self.sample_rtts(span, span, stamp);
        let rtt = Some(span.time());
        // The timeout is put off only by what was sent after the oldest segment was sent last.
        let early = sent < self.rtx.burst_of(self.view.snd_una).sent();
        let details = AckDetails {
            rtt,
            acked: 0,
            delivered: 1,
            part: false,
            prior: &prior,
            cwnd_limited: self.is_cwnd_limited(),
            ece: false,
            rate: &RateSample::NONE,
        };
        self.tell_ack(&details, now, |cc, ack, control| cc.on_measure(ack, control));
        let waits = self.detect_losses(now);
        if early && !waits {
            self.set_ack_timer(now, config);
        }
        self.finish_rate(stamp, 1);
        self.reduce_proportionally(1, count_u32(self.view.lost - lost), false, now);
        self.update_pacing_rate();
        self.send_after_ack(Resend::Lost, now, config, out);
        rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::{Receiving, config, sender, state};
    use knee_core::Packet;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_leads_to_the_same_state_as_the_slow_path(
            cc in prop::sample::select(vec!["reno", "cubic", "vegas", "bbr"]),
            bytes in prop::option::of(20_000u64..200_000),
            paced in any::<bool>(),
            tso in any::<bool>(),
            // How many are lost, and which one of those in flight arrives; then the time and the flags.
            steps in prop::collection::vec((0usize..12, 0usize..6, 1u64..20_000, 0u8..12), 1..120),
        ) {
            let config = config(tso, 9, 1000);
            let [mut quick, mut slow] = [(); 2].map(|()| sender(cc, bytes, paced, &config));
            let mut receiver = Receiving::default();
            let mut flight: VecDeque<u64> = (1..quick.view.snd_nxt).collect();
            let mut now = Time::from_millis(40);
            for (lost, arrives, us, flags) in steps {
                flight.drain(..usize::from(lost == 0).min(flight.len()));
                let last = flight.len().saturating_sub(1);
                let Some(seq) = flight.remove(arrives.saturating_sub(4).min(last)) else { break };
                let mut blocks = receiver.take(seq);
                // The newest first, as receivers do.
                blocks.sort_by_key(|block| !(block.0..block.1).contains(&seq));
                let flags = if flags == 0 { Packet::ECE } else { 0 };
                let info = AckInfo { seq: receiver.next, part: 0, blocks: &blocks, dsack: false, tsecr: 1, flags };
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                let rtt = quick.on_ack(&info, now, &config, &mut out);
                prop_assert_eq!(rtt, slow.ack_slow(&info, now, &config, &mut expected));
                prop_assert_eq!(&out, &expected);
                prop_assert_eq!(state(&mut quick), state(&mut slow));
                flight.extend(out.iter().flat_map(|sent| sent.start..sent.start + u64::from(sent.count)));
                now += Time::from_micros(us);
            }
        }
    }

    #[test]
    fn it_is_taken_once_recovery_is_under_way() {
        let config = config(false, 9, 1000);
        let mut sender = sender("cubic", None, false, &config);
        let mut taken = Vec::new();
        for seq in 1..8 {
            let info = AckInfo { seq: 0, part: 0, blocks: &[(1, seq + 1)], dsack: false, tsecr: 1, flags: 0 };
            taken.push(sender.next_sack(&info));
            sender.on_ack(&info, Time::from_millis(40), &config, &mut Vec::new());
        }
        // The third SACK begins recovery.
        assert_eq!(taken, [None, None, None, Some(4), Some(5), Some(6), Some(7)]);
    }
}
