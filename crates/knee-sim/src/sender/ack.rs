//! What an ACK does, in the order of Linux's `tcp_ack`.

use super::micros::Micros;
use super::queue::RateStart;
use super::ring::Burst;
use super::{AckInfo, Config, Departure, Resend, Sender, Spares, flags};
use knee_cc::{Ack, CaState, Control, DynCongestionControl, RateSample};
use knee_core::Time;
use knee_core::packet::MSS;

/// What is found out while an ACK is taken apart (Linux's flags and `tcp_sacktag_state`).
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The cumulative acknowledgement moved.
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
    sack_sent: Option<(Micros, Micros)>,
    /// Transmission of the first and last newly acknowledged segments never retransmitted.
    ack_sent: Option<(Micros, Micros)>,
    /// Newest transmission among those delivered, for the rate sample.
    rate: Option<RateBase>,
    /// What it took along, where rate samples are read.
    start: Option<RateStart>,
    /// Segments acknowledged.
    acked: u32,
}

/// The newest transmission that an ACK delivered.
#[derive(Clone, Copy, Debug)]
struct RateBase {
    sent: Micros,
    /// `delivered` at that time, lower half.
    delivered: u32,
    /// After the newest segment of it.
    end: u64,
    is_retrans: bool,
}

/// What the algorithm is told of an ACK, beside the sender's own state.
pub(super) struct Told<'a> {
    pub rtt: Option<Time>,
    pub acked: u32,
    pub delivered: u32,
    /// The sender's count of lost packets before it.
    pub prior_lost: u64,
    pub prior_in_flight: u32,
    pub prior_una: u64,
    pub cwnd_limited: bool,
    pub ece: bool,
    pub rate: &'a RateSample,
}

impl Findings {
    /// `delivered` when the newest packet that this ACK delivered was sent, lower half.
    pub(super) fn prior_delivered(&self) -> Option<u32> {
        self.rate.as_ref().map(|rate| rate.delivered)
    }
}

impl Sender {
    /// Takes an ACK. Returns its RTT sample, if it gave one.
    #[inline]
    pub fn on_ack(
        &mut self,
        ack: &AckInfo,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
        spares: &mut Spares,
    ) -> Option<Time> {
        if !self.takes_fast_path(ack) {
            self.ack_other(ack, now, config, out, spares)
        } else if self.needs.rate {
            self.ack_fast::<true>(ack.seq, ack.tsecr, now, config, out)
        } else {
            self.ack_fast::<false>(ack.seq, ack.tsecr, now, config, out)
        }
    }

    #[inline(never)]
    fn ack_other(
        &mut self,
        ack: &AckInfo,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
        spares: &mut Spares,
    ) -> Option<Time> {
        match self.next_sack(ack) {
            Some(seq) => self.ack_next_sack(seq, ack, now, config, out),
            None => self.ack_slow(ack, now, config, out, spares),
        }
    }

    /// Takes any ACK, in any state.
    #[inline(never)]
    pub(super) fn ack_slow(
        &mut self,
        ack: &AckInfo,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
        spares: &mut Spares,
    ) -> Option<Time> {
        if ack.seq > self.view.snd_nxt || (ack.seq < self.view.snd_una && ack.blocks.is_empty()) {
            return None;
        }
        let stamp = Micros::of(now);
        let (prior_una, prior_delivered, prior_lost) = (self.view.snd_una, self.view.delivered, self.view.lost);
        let prior_in_flight = self.in_flight();
        let had_packets = self.packets_out() > 0;
        let mut found = Findings { ece: ack.ece(), ..Findings::default() };
        found.advanced = ack.seq > prior_una;
        let prior_fack =
            if found.advanced && self.rtx.tracking() { self.rtx.highest_sacked(prior_una) } else { prior_una };
        if ack.seq >= prior_una {
            self.tsecr = ack.tsecr;
        }
        if found.advanced {
            self.backoffs = 0;
        }
        if !ack.blocks.is_empty() && had_packets {
            self.tag_sacks(ack, stamp, &mut found, spares);
        }
        if found.advanced {
            self.take_acknowledged(ack.seq, prior_fack, stamp, &mut found);
        }
        let newest_rtt = self.sample_rtt(&mut found, stamp);
        let mut resend = Resend::None;
        let mut timer_waits = false;
        if had_packets {
            let (rtt, delivered) = (newest_rtt.map(Micros::time), (self.view.delivered - prior_delivered) as u32);
            let sampled = self.needs.rate.then(|| self.rate_sample(&found, prior_delivered, stamp));
            let rate = sampled.as_ref().unwrap_or(&RateSample::NONE);
            let (acked, ece, cwnd_limited) = (found.acked, found.ece, self.is_cwnd_limited());
            let mut told =
                Told { rtt, acked, delivered, prior_lost, prior_in_flight, prior_una, cwnd_limited, ece, rate };
            self.tell_ack(&told, now, |cc, ack, control| cc.on_measure(ack, control));
            if self.widened
                && let Some(prior) = found.prior_delivered()
            {
                self.update_reordering_window(prior);
            }
            if self.probing {
                self.check_probe(ack.seq, &found, now);
            }
            let dubious = self.is_dubious(&found);
            if dubious {
                let duplicate = !found.advanced && !found.dsack;
                resend = self.recover(prior_una, duplicate, &mut found, now);
            }
            timer_waits = found.set_timer && !dubious;
            if found.set_timer && dubious {
                self.set_ack_timer(now, config);
            }
            self.finish_rate(stamp, delivered);
            if !self.needs.full_control && self.reducing() {
                self.reduce_proportionally(delivered, (self.view.lost - prior_lost) as u32, found.advanced, now);
            } else if self.needs.full_control || self.grows(&found) {
                if dubious {
                    told.cwnd_limited = self.is_cwnd_limited();
                }
                self.tell_ack(&told, now, |cc, ack, control| cc.on_ack(ack, control));
            }
            self.update_pacing_rate();
        }
        if self.rtx.tracking() && (found.advanced || self.sacked_out == 0) {
            self.tidy(found.advanced, spares);
        }
        let before = self.view.snd_nxt;
        self.send_after_ack(resend, now, config, out);
        // What is sent sets the timer anyway.
        if timer_waits && self.view.snd_nxt == before {
            self.set_ack_timer(now, config);
        }
        newest_rtt.map(Micros::time)
    }

    /// The timer after an ACK that made progress.
    pub(super) fn set_ack_timer(&mut self, now: Time, config: &Config) {
        if !self.schedule_probe(true, now, config) {
            self.rearm_timeout(now);
        }
    }

    #[cold]
    fn tidy(&mut self, advanced: bool, spares: &mut Spares) {
        if advanced {
            self.rtx.tidy(self.view.snd_una);
        }
        if self.sacked_out == 0 && self.lost_out == 0 && self.retrans_out == 0 {
            self.rtx.untrack(self.view.snd_una, spares);
        }
    }

    /// Whether an ACK tells of anything but progress.
    const fn is_dubious(&self, found: &Findings) -> bool {
        !found.advanced || found.sacked || found.ece || found.dsack || !matches!(self.view.ca, CaState::Open)
    }

    /// Whether the window may grow outside of reductions: RFC 5681 grows on new data only; where reordering is common, on
    /// every delivery.
    const fn grows(&self, found: &Findings) -> bool {
        found.advanced || found.sacked && self.reordering > 3
    }

    /// Tells the algorithm of an ACK by `call`.
    pub(super) fn tell_ack(
        &mut self,
        told: &Told,
        now: Time,
        call: impl FnOnce(&mut dyn DynCongestionControl, &Ack, &mut Control),
    ) {
        let &Told { rtt, acked, delivered, prior_lost, prior_in_flight, prior_una, cwnd_limited, ece, rate } = told;
        self.ask(now, |cc, view, control| {
            let lost = (view.lost - prior_lost) as u32;
            let ack = Ack { view, rtt, acked, delivered, lost, prior_in_flight, prior_una, cwnd_limited, ece, rate };
            call(cc, &ack, control);
        });
    }

    /// Tags what the SACK blocks report (tcp_sacktag_write_queue).
    #[cold]
    fn tag_sacks(&mut self, ack: &AckInfo, stamp: Micros, found: &mut Findings, spares: &mut Spares) {
        let mut blocks = ack.blocks;
        if ack.dsack() {
            let block = blocks[0];
            blocks = &blocks[1..];
            self.take_dsack(block, ack.seq, found);
        }
        let (una, nxt) = (self.view.snd_una.max(ack.seq), self.view.snd_nxt);
        let clip = |&(start, end): &(u64, u64)| (start.max(una), end.min(nxt));
        if let [block] = blocks {
            let block = clip(block);
            if block.0 < block.1 {
                self.rtx.track(self.view.snd_una, nxt, spares);
                self.tag_block(block, stamp, found);
            }
            return;
        }
        let mut sorted = [(0, 0); 4];
        let mut count = 0;
        for (start, end) in blocks.iter().map(clip) {
            // Most of the blocks only repeat what is known.
            if start < end && !self.rtx.is_sacked((start, end)) {
                sorted[count] = (start, end);
                count += 1;
            }
        }
        if count == 0 {
            return;
        }
        self.rtx.track(self.view.snd_una, nxt, spares);
        sorted[..count].sort_unstable();
        sorted[..count].iter().for_each(|&block| self.tag_block(block, stamp, found));
    }

    /// Tags what is new in a SACK block.
    #[inline]
    fn tag_block(&mut self, (mut from, to): (u64, u64), stamp: Micros, found: &mut Findings) {
        while from < to
            && let Some((start, end)) = self.rtx.add_sack((from, to))
        {
            for seq in start..end {
                self.tag_sacked(seq, stamp, found);
            }
            from = end;
        }
    }

    /// A segment is reported received for the first time (tcp_sacktag_one). Mostly it is the only one, and what a loop
    /// over segments would keep at hand does not pay.
    #[inline(never)]
    fn tag_sacked(&mut self, seq: u64, stamp: Micros, found: &mut Findings) {
        let Some((segment, burst)) = self.rtx.sack(seq) else { return };
        let sent = burst.sent();
        self.rack_advance(sent, seq + 1, segment, stamp);
        if segment & flags::LOST != 0 {
            self.lost_out -= 1;
            self.retrans_out -= u32::from(segment & flags::RETRANSMITTED != 0);
        }
        if segment & flags::EVER_RETRANSMITTED == 0 {
            found.original_delivered |= seq < self.high_seq;
            let first = found.sack_sent.map_or(sent, |(first, _)| first);
            found.sack_sent = Some((first, sent));
        }
        self.sacked_out += 1;
        self.count_delivered(1, found);
        found.sacked = true;
        if self.rate_delivered(&burst, seq + 1, segment, found) && self.needs.rate {
            found.start = Some(self.rtx.start_of(seq));
        }
    }

    /// A D-SACK: a segment arrived twice (tcp_check_dsack, tcp_dsack_seen).
    #[cold]
    fn take_dsack(&mut self, block: (u64, u64), ack_seq: u64, found: &mut Findings) {
        let segments = block.1 - block.0;
        self.dsack_segments = self.dsack_segments.saturating_add(segments as u32);
        // More duplicates than retransmissions: the network made them.
        if u64::from(self.dsack_segments) > self.retransmitted {
            return;
        }
        found.dsack = true;
        found.dsack_of_probe = self.probing && self.tlp_retransmitted && block.1 == self.tlp_end;
        if self.rack.reorder_seen && !found.dsack_of_probe {
            self.rack.dsack_seen = true;
            self.widened = true;
        }
        let counts = self.undo_marker.is_some_and(|marker| block.1 > marker) && self.undo_retrans > 0;
        if counts && block.1 <= ack_seq.max(self.view.snd_una) {
            self.undo_retrans = (self.undo_retrans - segments as i64).max(0);
        } else if block.0 >= self.view.snd_una && self.rtx.tracking() {
            for seq in block.0..block.1.min(self.view.snd_nxt) {
                let segment = self.rtx.flags(seq);
                if segment & flags::EVER_RETRANSMITTED != 0 && counts {
                    self.undo_retrans = (self.undo_retrans - 1).max(0);
                }
                if segment & flags::SACKED != 0 && segment & flags::RETRANSMITTED != 0 {
                    self.rtx.set_flags(seq, 0, flags::RETRANSMITTED);
                    self.retrans_out -= 1;
                }
            }
        }
        self.count_delivered(segments as u32, found);
    }

    fn count_delivered(&mut self, packets: u32, found: &Findings) {
        self.view.delivered += u64::from(packets);
        if found.ece {
            self.view.delivered_ce += u64::from(packets);
        }
    }

    /// Removes what is acknowledged cumulatively (tcp_clean_rtx_queue).
    #[inline]
    fn take_acknowledged(&mut self, ack_seq: u64, prior_fack: u64, stamp: Micros, found: &mut Findings) {
        let from = self.view.snd_una;
        found.acked = (ack_seq - from) as u32;
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
            found.original_delivered |= from < self.high_seq;
        }
        self.view.snd_una = ack_seq;
        found.set_timer = true;
    }

    /// Removes segment by segment what is acknowledged cumulatively.
    #[cold]
    fn take_tracked(&mut self, ack_seq: u64, prior_fack: u64, stamp: Micros, found: &mut Findings) {
        let mut lowest = u64::MAX;
        for seq in self.view.snd_una..ack_seq {
            // Of a SACKed segment the burst may be gone.
            let asked = self.needs.rate && self.rtx.flags(seq) & flags::SACKED == 0;
            let start = asked.then(|| self.rtx.start_of(seq));
            let Some((segment, burst)) = self.rtx.pop() else { break };
            self.view.snd_una = seq + 1;
            if segment & flags::LOST != 0 {
                self.lost_out -= 1;
            }
            if segment & flags::RETRANSMITTED != 0 {
                self.retrans_out -= 1;
            }
            let again = segment & flags::EVER_RETRANSMITTED != 0;
            found.retransmitted_acked |= again;
            let Some(burst) = burst else {
                self.sacked_out -= 1;
                continue;
            };
            let sent = burst.sent();
            if !again {
                let first = found.ack_sent.map_or(sent, |(first, _)| first);
                found.ack_sent = Some((first, sent));
                lowest = lowest.min(seq);
                found.original_delivered |= seq < self.high_seq;
            }
            self.count_delivered(1, found);
            let spurious = again && self.echoed_before(Self::stamp(sent.time()));
            if !spurious {
                self.rack_advance(sent, seq + 1, segment, stamp);
            }
            if self.rate_delivered(&burst, seq + 1, segment, found) {
                found.start = start;
            }
        }
        // A hole that was never retransmitted got filled: reordering.
        if lowest < prior_fack {
            self.note_reordering(lowest, prior_fack);
        }
    }

    /// Takes the RTT samples: the oldest newly acknowledged segment for the estimate, the newest for the algorithm
    /// (Karn's rule; a timestamp where only retransmissions were acknowledged).
    #[inline]
    fn sample_rtt(&mut self, found: &mut Findings, stamp: Micros) -> Option<Micros> {
        let span = |sent: Micros| stamp.since(sent);
        if let (Some((first, last)), false, None) = (found.ack_sent, found.retransmitted_acked, found.sack_sent) {
            let newest = span(last);
            self.sample_rtts(span(first), newest, stamp);
            return Some(newest);
        }
        self.sample_rtt_of_rest(found, stamp)
    }

    #[inline]
    pub(super) fn sample_rtts(&mut self, oldest: Micros, newest: Micros, stamp: Micros) {
        let ends = (self.view.snd_una, self.view.snd_nxt);
        if self.rtt.sample((oldest, newest), stamp, ends, &mut self.least_rtts) {
            self.view.min_rtt = self.rtt.min_rtt();
        }
    }

    /// The same where SACKs or retransmissions are involved.
    #[cold]
    fn sample_rtt_of_rest(&mut self, found: &mut Findings, stamp: Micros) -> Option<Micros> {
        let span = |sent: Micros| stamp.since(sent);
        let mut smooth = None;
        let mut newest = None;
        if let (Some((first, last)), false) = (found.ack_sent, found.retransmitted_acked) {
            smooth = Some(span(first));
            newest = Some(span(last));
        }
        if let Some((first, last)) = found.sack_sent {
            smooth = smooth.or(Some(span(first)));
            newest = Some(span(last));
        }
        if smooth.is_none() && found.advanced && self.tsecr != 0 {
            smooth = Some(self.rtt_by_timestamp(stamp));
            newest = smooth;
        }
        let (Some(smooth), Some(newest)) = (smooth, newest) else { return None };
        self.sample_rtts(smooth, newest, stamp);
        // Do not put off the timeout for SACKs of what was sent before the oldest segment was sent last.
        if !found.advanced && self.packets_out() > 0 {
            let head = self.rtx.burst_of(self.view.snd_una).sent();
            found.set_timer |= found.sack_sent.is_some_and(|(first, _)| first < head);
        }
        Some(newest)
    }

    #[cold]
    fn rtt_by_timestamp(&self, stamp: Micros) -> Micros {
        let ms = Self::stamp(stamp.time()).wrapping_sub(self.tsecr);
        Micros(1000 * u64::from(ms.clamp(1, 3_600_000)))
    }

    /// Remembers the newest transmission delivered (tcp_rate_skb_delivered). True: it is this one so far.
    #[inline]
    fn rate_delivered(&mut self, burst: &Burst, end: u64, segment: u8, found: &mut Findings) -> bool {
        let sent = burst.sent();
        let newer = found.rate.as_ref().is_none_or(|rate| (sent, end) > (rate.sent, rate.end));
        if newer {
            if self.needs.rate {
                self.first_tx = sent;
            }
            let is_retrans = segment & flags::EVER_RETRANSMITTED != 0;
            found.rate = Some(RateBase { sent, delivered: burst.delivered, end, is_retrans });
        }
        newer
    }

    /// The rate sample of this ACK (tcp_rate_gen): the longer of the send and the ACK interval counts.
    fn rate_sample(&self, found: &Findings, prior_delivered: u64, stamp: Micros) -> RateSample {
        let (Some(RateBase { sent, is_retrans, .. }), Some(start)) = (&found.rate, &found.start) else {
            return RateSample { delivered: (self.view.delivered - prior_delivered) as u32, ..RateSample::NONE };
        };
        let lone = found.acked == 1 && !found.sacked && !found.ece;
        self.rate_since(*sent, start, *is_retrans, lone, stamp)
    }

    /// The rate sample since `start` of the newest transmission delivered, which was sent at `sent`. `lone`: the ACK was for a single segment.
    #[inline]
    pub(super) fn rate_since(
        &self,
        sent: Micros,
        start: &RateStart,
        is_retrans: bool,
        lone: bool,
        stamp: Micros,
    ) -> RateSample {
        let interval = sent.since(start.first_tx).max(stamp.since(start.delivered_at)).time();
        // Shorter than the least RTT: a retransmission that was not needed was acknowledged.
        let valid = interval >= self.rtt.min_rtt() || self.rtt.min_rtt() == Time::MAX;
        RateSample {
            delivered: (self.view.delivered - start.delivered) as u32,
            delivered_ce: (self.view.delivered_ce as u32).wrapping_sub(start.delivered_ce),
            interval: valid.then_some(interval),
            prior_delivered: start.delivered,
            prior_lost: self.view.lost - u64::from((self.view.lost as u32).wrapping_sub(start.lost)),
            tx_in_flight: start.in_flight,
            app_limited: start.app_limited,
            is_retrans,
            ack_delayed: lone && self.probably_delayed(start),
        }
    }

    /// A lone segment acknowledged by itself: the receiver probably waited for a second one.
    fn probably_delayed(&self, start: &RateStart) -> bool {
        self.view.snd_una == self.end
            && self.last_payload < u32::from(MSS)
            && start.delivered + 1 == self.view.delivered
    }

    #[inline]
    pub(super) fn finish_rate(&mut self, stamp: Micros, delivered: u32) {
        if self.view.app_limited {
            self.end_app_limit();
        }
        if self.needs.rate && delivered > 0 {
            self.delivered_at = stamp;
        }
    }

    /// Ends the marking of what is sent where all that was limited by the application has been delivered.
    #[cold]
    pub(super) fn end_app_limit(&mut self) {
        self.view.app_limited = self.view.delivered <= self.app_limited_until;
    }
}
