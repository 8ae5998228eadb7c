//! Effects of an ACK (tcp_ack), in the order in which the kernel has them, with its RTT and rate samples.

use super::{Reference, Segment, stamp};
use crate::sender::rate::RateStart;
use crate::sender::{AckInfo, Resend};
use knee_cc::{Ack, CaState, RateSample};
use knee_core::packet::MSS;
use knee_core::{Packet, Time};

/// Facts collected while an ACK is taken apart.
#[derive(Default)]
pub(super) struct Found {
    pub(super) advanced: bool,
    pub(super) ece: bool,
    pub(super) sacked: bool,
    pub(super) dsack: bool,
    pub(super) dsack_of_probe: bool,
    /// FLAG_ORIG_SACK_ACKED.
    pub(super) original_delivered: bool,
    pub(super) retransmitted_acked: bool,
    pub(super) set_timer: bool,
    pub(super) lost_retransmission: bool,
    pub(super) acked: u32,
    /// When the first and the last of those were sent that were SACKed or acknowledged, and not retransmitted.
    pub(super) sack_sent: Vec<u64>,
    pub(super) ack_sent: Vec<u64>,
    /// First segment that arrived after a segment behind it (tcp_sacktag_state.reord).
    pub(super) late: Option<u64>,
    /// The newest transmission delivered: when, its end, and the segment.
    pub(super) newest: Option<(u64, u64, Segment)>,
}

impl Reference {
    /// Takes an ACK; gives its RTT sample.
    pub fn on_ack(&mut self, ack: &AckInfo, now: Time) -> Option<Time> {
        let (una, nxt, us) = (self.view.snd_una, self.view.snd_nxt, now.as_micros());
        if ack.seq > nxt || (ack.seq < una && ack.blocks.is_empty()) {
            return None;
        }
        let (prior_in_flight, prior_delivered, prior_lost) = (self.in_flight(), self.view.delivered, self.view.lost);
        let prior_fack = self.highest_sacked();
        let accurate = self.case.init.ecn.is_accurate();
        let ece = !accurate && ack.flags & Packet::ECE != 0;
        self.view.tsval_half = Some(ack.tsval);
        let newer = ack.tsecr > self.tsecr;
        let mut found = Found { advanced: ack.seq > una, ece, ..Found::default() };
        if ack.seq >= una {
            self.tsecr = ack.tsecr;
        }
        if found.advanced {
            self.backoffs = 0;
        }
        if ack.dsack || nxt > una && !ack.blocks.is_empty() {
            self.sacktag_write_queue(ack, us, &mut found);
        }
        if found.advanced {
            self.clean_rtx_queue(ack.seq, prior_fack, us, &mut found);
        }
        // tcp_accecn_process, without the option.
        if accurate && (found.advanced || found.sacked || newer) {
            let [now, before] = [ack.flags, self.ace].map(|flags| u64::from(Packet::ace_count(flags)));
            let marked = (now + 8 - before) % 8;
            self.view.delivered_ce += marked;
            found.ece = marked > 0;
            self.ace = ack.flags;
        }
        let rtt = self.ack_update_rtt(&mut found, us).map(Time::from_micros);
        let mut resend = Resend::None;
        let mut timer_after_sending = false;
        if nxt > una {
            let delivered = (self.view.delivered - prior_delivered) as u32;
            let rate = self.rate_gen(&found, delivered, us);
            let before = self.view;
            let told = Ack {
                view: &before,
                rtt,
                acked: found.acked,
                delivered,
                lost: 0,
                prior_in_flight,
                prior_una: una,
                part: false,
                cwnd_limited: self.is_cwnd_limited(),
                ece: found.ece,
                rate: &rate,
            };
            self.ask(now, |cc, view, control| {
                cc.on_measure(&Ack { view, lost: (view.lost - prior_lost) as u32, ..told }, control);
            });
            self.update_reo_wnd(&found);
            self.process_tlp_ack(ack.seq, &found, now);
            let dubious = !found.advanced || found.sacked || found.ece || found.dsack || self.view.ca != CaState::Open;
            if dubious {
                resend = self.fastretrans_alert(una, &mut found, now);
                if found.set_timer {
                    self.set_xmit_timer(now);
                }
            } else {
                timer_after_sending = found.set_timer;
            }
            if self.view.app_limited && self.view.delivered > self.app_limited_until {
                self.view.app_limited = false;
            }
            if delivered > 0 {
                self.delivered_at = us;
            }
            let full_control = self.needs().full_control;
            if !full_control && self.in_reduction() {
                self.cwnd_reduction(delivered, (self.view.lost - prior_lost) as u32, found.advanced);
            } else if full_control || found.advanced || found.sacked && self.reordering > 3 {
                let cwnd_limited = if dubious { self.is_cwnd_limited() } else { told.cwnd_limited };
                self.ask(now, |cc, view, control| {
                    cc.on_ack(&Ack { view, cwnd_limited, lost: (view.lost - prior_lost) as u32, ..told }, control);
                });
            }
            self.update_pacing_rate();
        } else {
            if found.dsack {
                resend = self.fastretrans_alert(una, &mut found, now);
            }
            self.process_tlp_ack(ack.seq, &found, now);
        }
        // Once all is as if nothing had been lost, all is in RACK's list again.
        let next = self.view.snd_una + 1;
        let in_order = self.segments.front().is_none_or(|head| (head.sent, next) >= self.newest);
        if in_order && self.segments.iter().all(|s| !s.sacked && !s.lost && !s.retrans && !s.ever_retrans) {
            self.segments.iter_mut().for_each(|segment| segment.listed = true);
        }
        let next = self.view.snd_nxt;
        self.xmit_recovery(resend, now);
        if timer_after_sending && self.view.snd_nxt == next {
            self.set_xmit_timer(now);
        }
        rtt
    }

    fn rate_gen(&self, found: &Found, delivered: u32, us: u64) -> RateSample {
        if !self.needs().rate {
            return RateSample::NONE;
        }
        let Some((sent, _, segment)) = found.newest.as_ref().filter(|_| !self.is_sack_reneg) else {
            return RateSample { delivered, ..RateSample::NONE };
        };
        let start: RateStart = segment.start;
        let interval = sent.saturating_sub(start.first_tx.0).max(us - start.delivered_at.0);
        let short = self.rtt.min_rtt_us().is_some_and(|least| interval < least);
        let lone = found.acked == 1 && !found.sacked && !found.ece;
        let last = self.view.snd_una == self.end && self.last_payload < u64::from(MSS);
        RateSample {
            delivered: (self.view.delivered - start.delivered) as u32,
            delivered_ce: (self.view.delivered_ce - u64::from(start.delivered_ce)) as u32,
            interval: (!short).then_some(Time::from_micros(interval)),
            prior_delivered: start.delivered,
            prior_lost: u64::from(start.lost),
            tx_in_flight: start.in_flight,
            app_limited: start.app_limited,
            is_retrans: segment.ever_retrans,
            ack_delayed: lone && last && self.view.delivered == start.delivered + 1,
        }
    }

    /// Karn's rule; a timestamp where only retransmissions were acknowledged.
    fn ack_update_rtt(&mut self, found: &mut Found, us: u64) -> Option<u64> {
        let ack_sent: &[u64] = if found.retransmitted_acked { &[] } else { &found.ack_sent };
        let sent: Vec<u64> = ack_sent.iter().chain(&found.sack_sent).copied().collect();
        let (oldest, newest) = match (sent.first(), sent.last()) {
            (Some(first), Some(last)) => (us - first, us - last),
            _ if found.advanced && self.tsecr != 0 => {
                let ms = stamp(Time::from_micros(us)).wrapping_sub(self.tsecr).clamp(1, 3_600_000);
                (1000 * u64::from(ms), 1000 * u64::from(ms))
            }
            _ => return None,
        };
        self.sample(oldest, newest, us);
        if !found.advanced
            && let (Some(first), Some(head)) = (found.sack_sent.first(), self.segments.front())
        {
            found.set_timer |= *first < head.sent;
        }
        Some(newest)
    }

    /// True if the echoed timestamp is older than `stamp`.
    pub(super) fn echoes_before(&self, stamp: u32) -> bool {
        self.tsecr != 0 && (self.tsecr.wrapping_sub(stamp) as i32) < 0
    }
}
