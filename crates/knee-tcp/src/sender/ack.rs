//! Effects of an ACK, in the order of Linux's `tcp_ack`.

use super::micros::Micros;
use super::rate::{RateBase, RateStart};
use super::{AckInfo, Config, Outgoing, Resend, Sender, flags};
use knee_cc::{Ack, CaState, Control, DynCongestionControl, RateSample, View};
use knee_core::convert::count_u32;
use knee_core::{Packet, Time};

/// Facts collected while an ACK is taken apart (Linux's flags and `tcp_sacktag_state`).
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The cumulative acknowledgement moved, perhaps by a part of a segment only (FLAG_SND_UNA_ADVANCED).
    pub advanced: bool,
    /// Segments never retransmitted, at or before `high_seq`, were delivered.
    pub original_delivered: bool,
    /// Segments that had been retransmitted were acknowledged.
    pub retransmitted_acked: bool,
    /// New segments were SACKed.
    pub sacked: bool,
    /// A D-SACK was taken up.
    pub dsack: bool,
    /// It reports the tail loss probe.
    pub dsack_of_probe: bool,
    /// ECN echo.
    pub ece: bool,
    /// The retransmission timer is to be set anew.
    pub set_timer: bool,
    /// RACK found retransmissions lost.
    pub lost_retransmission: bool,
    /// Transmission of the first and last newly SACKed segments never retransmitted.
    pub sack_sent: Option<(Micros, Micros)>,
    /// Transmission of the first and last newly acknowledged segments never retransmitted.
    pub ack_sent: Option<(Micros, Micros)>,
    /// First newly SACKed segment, never retransmitted, below one that was SACKed before (`tcp_sacktag_state.reord`).
    pub sacked_late: Option<u64>,
    /// Newest transmission among those delivered, for the rate sample.
    pub rate: Option<RateBase>,
    /// The delivery state that this transmission carried, where rate samples are read.
    pub start: Option<RateStart>,
    /// Segments acknowledged.
    pub acked: u32,
}

impl Findings {
    /// A segment arrived after one behind it.
    pub(super) fn saw_late(&mut self, seq: u64) {
        self.sacked_late = Some(self.sacked_late.map_or(seq, |first| first.min(seq)));
    }
}

/// The sender before an ACK.
pub(super) struct Prior {
    pub una: u64,
    pub delivered: u64,
    pub lost: u64,
    pub in_flight: u32,
}

/// Facts of an ACK that are handed to the algorithm beside the sender's own state.
pub(super) struct AckDetails<'a> {
    pub rtt: Option<Time>,
    pub acked: u32,
    pub delivered: u32,
    pub part: bool,
    pub prior: &'a Prior,
    pub cwnd_limited: bool,
    pub ece: bool,
    pub rate: &'a RateSample,
}

impl Sender {
    /// Takes an ACK. Returns its RTT sample, if it gave one.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every ACK, and mostly a call of the fast path")]
    pub fn on_ack(&mut self, ack: &AckInfo, now: Time, config: &Config, out: &mut Vec<Outgoing>) -> Option<Time> {
        self.view.tsval_half = Some(ack.tsval);
        if !self.takes_fast_path(ack) {
            self.ack_slow(ack, now, config, out)
        } else if self.needs.rate {
            self.ack_fast::<true>(ack.seq, ack.tsecr, now, config, out)
        } else {
            self.ack_fast::<false>(ack.seq, ack.tsecr, now, config, out)
        }
    }

    /// Takes any ACK, in any state.
    #[inline(never)]
    pub(super) fn ack_slow(
        &mut self,
        ack: &AckInfo,
        now: Time,
        config: &Config,
        out: &mut Vec<Outgoing>,
    ) -> Option<Time> {
        let View { snd_una: una, snd_nxt: nxt, delivered, lost, .. } = self.view;
        let (AckInfo { seq, part, .. }, reached) = (*ack, self.reached.max((una, 0)));
        if (seq, part) > (nxt, 0) || ((seq, part) < reached && ack.blocks.is_empty()) {
            return None;
        }
        let stamp = Micros::of(now);
        let prior = Prior { una, delivered, lost, in_flight: self.in_flight() };
        let accurate = self.ecn.is_accurate();
        let advanced = (seq, part) > reached;
        let mut found = Findings { advanced, ece: !accurate && ack.ece(), ..Findings::default() };
        if advanced {
            self.reached = (seq, part);
        }
        let newer = ack.tsecr > self.tsecr;
        self.take_in(ack, stamp, &mut found);
        //= RFC 9768, 3.2.2.2
        //# it first checks whether it has already been superseded
        if accurate && (found.acked > 0 || found.sacked || newer) {
            self.count_marks(ack, &mut found);
        }
        let rtt = self.sample_rtt(&mut found, stamp).map(Micros::time);
        let mut resend = Resend::None;
        let mut timer_waits = false;
        if nxt > una {
            (resend, timer_waits) = self.react((seq, part), rtt, &prior, &mut found, now, config);
        } else {
            // Nothing was in flight: it can only say that segments came twice.
            if found.dsack {
                resend = self.recover(una, false, &mut found, now);
            }
            if self.tlp.is_outstanding() {
                self.check_probe((seq, part), &found, now);
            }
        }
        if self.rtx.tracking() {
            self.tidy();
        }
        self.send_after_ack(resend, now, config, out);
        // Sending sets the timer anyway.
        if timer_waits && self.view.snd_nxt == nxt {
            self.rearm_after_ack(now, config);
        }
        rtt
    }

    /// Books what an ACK reports of segments.
    fn take_in(&mut self, ack: &AckInfo, stamp: Micros, found: &mut Findings) {
        let una = self.view.snd_una;
        let fack = self.rtx.highest_sacked(una);
        if ack.seq >= una {
            self.tsecr = ack.tsecr;
        }
        if found.advanced {
            self.recovery.backoffs = 0;
        }
        if !ack.blocks.is_empty() {
            //= RFC 6675, 5
            //# Upon the receipt of any ACK containing SACK information, the scoreboard MUST be updated via the Update
            //# () routine.
            self.tag_sacks(ack, stamp, found);
            self.check_sack_reordering(found);
        }
        if ack.seq > una {
            self.take_acknowledged(ack.seq, fack, stamp, found);
        }
    }

    /// Adds the marks that the receiver has counted since the last ACK (RFC 9768, 3.2.2). The counter has three bits:
    /// with more than seven marks in between, which takes a row of lost ACKs, eight are missed.
    #[cold]
    fn count_marks(&mut self, ack: &AckInfo, found: &mut Findings) {
        //= RFC 9768, 3.2.2.2
        //# It takes the least significant 3 bits of its local s.cep counter and subtracts them from the incoming ACE
        //# counter to work out the minimum positive increment it could apply to s.cep (assuming the ACE field only
        //# wrapped at most once).
        let marked = Packet::ace_count(ack.flags).wrapping_sub(Packet::ace_count(self.known_marks)) % 8;
        self.known_marks = ack.flags & Packet::ACE;
        self.view.delivered_ce += u64::from(marked);
        found.ece = marked > 0;
    }

    /// Lets the algorithm and the state machine react. Gives which segments to send first, and whether the timer is to
    /// be set unless something leaves.
    fn react(
        &mut self,
        reach: (u64, u16),
        rtt: Option<Time>,
        prior: &Prior,
        found: &mut Findings,
        now: Time,
        config: &Config,
    ) -> (Resend, bool) {
        let stamp = Micros::of(now);
        let delivered = count_u32(self.view.delivered - prior.delivered);
        let sampled = self.needs.rate.then(|| self.rate_sample(found, prior.delivered, stamp));
        let rate = sampled.as_ref().unwrap_or(&RateSample::NONE);
        let (acked, ece, cwnd_limited) = (found.acked, found.ece, self.is_cwnd_limited());
        let part = found.advanced && acked == 0;
        let mut details = AckDetails { rtt, acked, delivered, part, prior, cwnd_limited, ece, rate };
        self.tell_ack(&details, now, |cc, ack, control| cc.on_measure(ack, control));
        if self.widened
            && let Some(newest) = &found.rate
        {
            self.update_reordering_window(newest.delivered);
        }
        if self.tlp.is_outstanding() {
            self.check_probe(reach, found, now);
        }
        let dubious = self.is_dubious(found);
        let mut resend = Resend::None;
        if dubious {
            let duplicate = !found.advanced && !found.dsack;
            resend = self.recover(prior.una, duplicate, found, now);
            if found.set_timer {
                self.rearm_after_ack(now, config);
            }
            details.cwnd_limited = self.is_cwnd_limited();
        }
        self.finish_rate(stamp, delivered);
        //= RFC 8985, 9.3
        //# The Proportional Rate Reduction (PRR) algorithm [RFC6937] is RECOMMENDED for the specific congestion control
        //# actions taken upon the losses detected by RACK-TLP.
        if !self.needs.full_control && self.reducing() {
            self.reduce_proportionally(delivered, found.advanced && self.view.lost == prior.lost, now);
        } else if self.needs.full_control || self.grows(found) {
            self.tell_ack(&details, now, |cc, ack, control| cc.on_ack(ack, control));
        }
        self.update_pacing_rate();
        (resend, found.set_timer && !dubious)
    }

    /// Drops what is acknowledged, and ends tracking where nothing is left to track.
    #[cold]
    fn tidy(&mut self) {
        let una = self.view.snd_una;
        self.rtx.tidy(una);
        if self.scoreboard.sacked + self.scoreboard.lost + self.scoreboard.retransmitted > 0 {
            return;
        }
        // RACK may yet find those late that were sent before the newest one delivered.
        let head = (self.packets_out() > 0).then(|| (self.rtx.burst_of(una).sent(), una + 1));
        if head.is_none_or(|head| head >= self.rack.newest) {
            self.rtx.untrack(una);
        }
    }

    /// True if an ACK reports anything but progress.
    const fn is_dubious(&self, found: &Findings) -> bool {
        !found.advanced || found.sacked || found.ece || found.dsack || !matches!(self.view.ca, CaState::Open)
    }

    /// True if the window may grow outside of reductions (tcp_may_raise_cwnd): RFC 5681 grows on new data only, which
    /// Linux counts in whole segments; where reordering is common, on every delivery.
    const fn grows(&self, found: &Findings) -> bool {
        found.acked > 0 || found.sacked && self.recovery.reordering > 3
    }

    /// Tells the algorithm of an ACK by `call`.
    pub(super) fn tell_ack(
        &mut self,
        details: &AckDetails,
        now: Time,
        call: impl FnOnce(&mut dyn DynCongestionControl, &Ack, &mut Control),
    ) {
        let &AckDetails { rtt, acked, delivered, part, prior, cwnd_limited, ece, rate } = details;
        let &Prior { una: prior_una, lost: prior_lost, in_flight: prior_in_flight, .. } = prior;
        self.ask(now, |cc, view, control| {
            let lost = count_u32(view.lost - prior_lost);
            let ack =
                Ack { view, rtt, acked, delivered, lost, prior_in_flight, prior_una, part, cwnd_limited, ece, rate };
            call(cc, &ack, control);
        });
    }

    pub(super) fn count_delivered(&mut self, packets: u32, found: &Findings) {
        self.view.delivered += u64::from(packets);
        if found.ece {
            //= RFC 8257, 3.3 (departs: in packets, SACKed ones included, as in Linux)
            //# If the ECE flag is set, update the bytes marked: DCTCP.BytesMarked += BytesAcked
            self.view.delivered_ce += u64::from(packets);
        }
    }

    /// Removes what is acknowledged cumulatively (tcp_clean_rtx_queue).
    fn take_acknowledged(&mut self, ack_seq: u64, prior_fack: u64, stamp: Micros, found: &mut Findings) {
        let from = self.view.snd_una;
        found.acked = count_u32(ack_seq - from);
        if self.rtx.tracking() {
            self.take_tracked(ack_seq, prior_fack, stamp, found);
        } else {
            self.count_delivered(found.acked, found);
            let start = self.needs.rate.then(|| self.rtx.start_of(ack_seq - 1));
            if let Some((oldest, newest)) = self.rtx.acknowledge::<true>(ack_seq) {
                found.ack_sent = Some((oldest, newest.sent()));
                self.rack_advance(newest.sent(), ack_seq, 0, stamp);
                if self.rate_delivered(&newest, ack_seq, 0, found) {
                    found.start = start;
                }
            }
            found.original_delivered |= from < self.recovery.high_seq;
        }
        self.view.snd_una = ack_seq;
        found.set_timer = true;
    }

    /// Removes segment by segment what is acknowledged cumulatively.
    #[cold]
    fn take_tracked(&mut self, ack_seq: u64, prior_fack: u64, stamp: Micros, found: &mut Findings) {
        let mut lowest = u64::MAX;
        for seq in self.view.snd_una..ack_seq {
            // A SACKed segment was delivered before.
            let sampled = self.needs.rate && self.rtx.flags(seq) & flags::SACKED == 0;
            let start = sampled.then(|| self.rtx.start_of(seq));
            //= RFC 6675, 4
            //# SACK information is advisory and therefore SACKed data MUST NOT be removed from the TCP's retransmission
            //# buffer until the data is cumulatively acknowledged [RFC2018].
            let Some((segment, burst)) = self.rtx.pop() else { break };
            if segment & flags::LOST != 0 {
                self.scoreboard.lost -= 1;
            }
            if segment & flags::RETRANSMITTED != 0 {
                self.scoreboard.retransmitted -= 1;
            }
            let again = segment & flags::EVER_RETRANSMITTED != 0;
            found.retransmitted_acked |= again;
            if segment & flags::SACKED != 0 {
                self.scoreboard.sacked -= 1;
                continue;
            }
            let sent = burst.sent();
            if !again {
                let first = found.ack_sent.map_or(sent, |(first, _)| first);
                found.ack_sent = Some((first, sent));
                lowest = lowest.min(seq);
                found.original_delivered |= seq < self.recovery.high_seq;
            }
            self.count_delivered(1, found);
            //= RFC 8985, 6.2
            //# The Timestamp Echo Reply field (TSecr) of the ACK's timestamp option [RFC7323], if available, indicates
            //# the ACK was not acknowledging the last retransmission of the segment.
            let spurious = again && self.echoed_before(Self::tsval(sent.time()));
            if !spurious {
                self.rack_advance(sent, seq + 1, segment, stamp);
            }
            if self.rate_delivered(&burst, seq + 1, segment, found) {
                found.start = start;
            }
        }
        //= RFC 8985, 6.2
        //# If a never-retransmitted segment that's below RACK.fack is (selectively or cumulatively) acknowledged, it
        //# has been delivered out of order.
        // A hole that was never retransmitted got filled: reordering.
        if lowest < prior_fack {
            self.note_reordering(lowest, self.rtx.highest_sacked(ack_seq));
        }
    }
}
