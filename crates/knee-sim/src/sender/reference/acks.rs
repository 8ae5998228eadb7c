//! What an ACK does (tcp_ack): SACKs, samples, RACK, the state machine, undo, proportional rate reduction.

use super::{Reference, Segment, stamp};
use crate::sender::rate::RateStart;
use crate::sender::{AckInfo, Pending, Resend};
use knee_cc::{Ack, CaState, Congestion, RateSample, Signal, StateEvent, Undo};
use knee_core::packet::MSS;
use knee_core::{Packet, Time};
use std::collections::BTreeSet;

/// What is found out on the way.
#[derive(Default)]
struct Found {
    advanced: bool,
    ece: bool,
    sacked: bool,
    dsack: bool,
    dsack_of_probe: bool,
    /// FLAG_ORIG_SACK_ACKED.
    original_delivered: bool,
    retransmitted_acked: bool,
    set_timer: bool,
    lost_retransmission: bool,
    acked: u32,
    /// When the first and the last of those were sent that were SACKed or acknowledged, and not retransmitted.
    sack_sent: Vec<u64>,
    ack_sent: Vec<u64>,
    /// What arrived after a segment behind it (tcp_sacktag_state.reord).
    late: Option<u64>,
    /// The newest transmission delivered: when, its end, and the segment.
    newest: Option<(u64, u64, Segment)>,
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
        let newer = ack.tsecr > self.tsecr;
        let mut found = Found { advanced: ack.seq > una, ece, ..Found::default() };
        if ack.seq >= una {
            self.tsecr = ack.tsecr;
        }
        if found.advanced {
            self.backoffs = 0;
        }
        if nxt > una && !ack.blocks.is_empty() {
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
        }
        // Once all is as if nothing had been lost, all is in RACK's list again.
        let in_order = self.segments.front().is_none_or(|head| head.sent >= self.newest.0);
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

    fn sacktag_write_queue(&mut self, ack: &AckInfo, us: u64, found: &mut Found) {
        let mut blocks = ack.blocks;
        if ack.dsack {
            self.check_dsack(blocks[0], ack.seq, found);
            blocks = &blocks[1..];
        }
        let (from, to) = (self.view.snd_una.max(ack.seq), self.view.snd_nxt);
        let highest = self.highest_sacked();
        let reported: BTreeSet<u64> = blocks.iter().flat_map(|&(start, end)| start.max(from)..end.min(to)).collect();
        for seq in reported {
            let segment = *self.at(seq);
            if segment.sacked {
                continue;
            }
            self.rack_advance(&segment, seq, us);
            if !segment.ever_retrans {
                found.original_delivered |= seq < self.high_seq;
                found.sack_sent.push(segment.sent);
                if seq < highest {
                    found.late = Some(found.late.map_or(seq, |late| late.min(seq)));
                }
            }
            let now = self.at(seq);
            (now.sacked, now.lost, now.listed) = (true, false, false);
            now.retrans &= !segment.lost;
            found.sacked = true;
            self.deliver(1, found);
            self.rate_skb_delivered(segment, seq, found);
        }
        if let Some(late) = found.late
            && (self.view.ca != CaState::Loss || self.undo_marker.is_some())
        {
            self.check_sack_reordering(late, self.highest_sacked());
        }
    }

    /// tcp_check_dsack, tcp_dsack_seen.
    fn check_dsack(&mut self, (start, end): (u64, u64), ack_seq: u64, found: &mut Found) {
        self.dsack_segments += end - start;
        if self.dsack_segments > self.retransmitted {
            return;
        }
        found.dsack = true;
        found.dsack_of_probe = self.tlp_end != 0 && self.tlp_retrans && end == self.tlp_end;
        self.dsack_seen |= self.reorder_seen && !found.dsack_of_probe;
        let counts = self.undo_retrans > 0 && self.undo_marker.is_some_and(|marker| end > marker);
        let una = self.view.snd_una;
        if counts && end <= ack_seq.max(una) {
            self.undo_retrans = (self.undo_retrans - (end - start) as i64).max(0);
        } else if start >= una {
            for seq in start..end.min(self.view.snd_nxt) {
                let segment = *self.at(seq);
                if counts && segment.ever_retrans {
                    self.undo_retrans = (self.undo_retrans - 1).max(0);
                }
                if segment.sacked && segment.ever_retrans {
                    found.late = Some(found.late.map_or(seq, |late| late.min(seq)));
                }
                self.at(seq).retrans &= !segment.sacked;
            }
        }
        self.deliver(end - start, found);
    }

    fn clean_rtx_queue(&mut self, ack_seq: u64, prior_fack: u64, us: u64, found: &mut Found) {
        let mut reordered_from = None;
        for seq in self.view.snd_una..ack_seq {
            let segment = self.segments.pop_front().expect("it is under way");
            self.view.snd_una = seq + 1;
            found.acked += 1;
            found.retransmitted_acked |= segment.ever_retrans;
            if segment.sacked {
                continue;
            }
            if !segment.ever_retrans {
                found.ack_sent.push(segment.sent);
                found.original_delivered |= seq < self.high_seq;
                reordered_from = reordered_from.or(Some(seq));
            }
            self.deliver(1, found);
            // What is echoed is older than the retransmission: it was spurious.
            let spurious = segment.ever_retrans && self.echoes_before(stamp(Time::from_micros(segment.sent)));
            if !spurious {
                self.rack_advance(&segment, seq, us);
            }
            self.rate_skb_delivered(segment, seq, found);
        }
        if let Some(seq) = reordered_from.filter(|&seq| seq < prior_fack) {
            self.check_sack_reordering(seq, self.highest_sacked());
        }
        found.set_timer = true;
    }

    fn deliver(&mut self, segments: u64, found: &Found) {
        self.view.delivered += segments;
        self.view.delivered_ce += if found.ece { segments } else { 0 };
    }

    fn rate_skb_delivered(&mut self, segment: Segment, seq: u64, found: &mut Found) {
        if found.newest.as_ref().is_none_or(|&(sent, end, _)| (segment.sent, seq + 1) > (sent, end)) {
            self.first_tx = segment.sent;
            found.newest = Some((segment.sent, seq + 1, segment));
        }
    }

    fn rate_gen(&self, found: &Found, delivered: u32, us: u64) -> RateSample {
        if !self.needs().rate {
            return RateSample::NONE;
        }
        let Some((sent, _, segment)) = &found.newest else { return RateSample { delivered, ..RateSample::NONE } };
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

    /// Whether the echoed timestamp is older than `stamp`.
    fn echoes_before(&self, stamp: u32) -> bool {
        self.tsecr != 0 && (self.tsecr.wrapping_sub(stamp) as i32) < 0
    }

    fn rack_advance(&mut self, segment: &Segment, seq: u64, us: u64) {
        let rtt = us - segment.sent;
        if segment.ever_retrans && Time::from_micros(rtt) < self.rtt.min_rtt() {
            return;
        }
        self.rack_advanced = true;
        self.rack_rtt = rtt;
        self.newest = self.newest.max((segment.sent, seq + 1));
    }

    /// tcp_rack_update_reo_wnd.
    fn update_reo_wnd(&mut self, found: &Found) {
        let Some((_, _, newest)) = &found.newest else { return };
        if newest.delivered < self.rack_last_delivered {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.reorder_steps = (self.reorder_steps + 1).min(255);
            self.dsack_seen = false;
            self.rack_last_delivered = self.view.delivered;
            self.reorder_persist = 16;
        } else if self.reorder_persist == 0 {
            self.reorder_steps = 1;
        }
    }

    /// tcp_rack_reo_wnd.
    fn reo_wnd(&self) -> u64 {
        let repairing = matches!(self.view.ca, CaState::Recovery | CaState::Loss);
        if !self.reorder_seen && (repairing || self.sacked_out() >= self.reordering) {
            return 0;
        }
        let least = self.rtt.min_rtt_us().unwrap_or(u64::from(u32::MAX));
        (least / 4 * self.reorder_steps).min(self.rtt.srtt8 / 8)
    }

    /// tcp_rack_detect_loss: marks what is late; gives how long the last of the others still has.
    pub(super) fn rack_detect_loss(&mut self, now: Time) -> Option<u64> {
        let (us, patience) = (now.as_micros(), self.rack_rtt + self.reo_wnd());
        let mut wait = None;
        for seq in self.view.snd_una..self.view.snd_nxt {
            let segment = *self.at(seq);
            if !segment.listed || segment.lost && !segment.retrans || (segment.sent, seq + 1) >= self.newest {
                continue;
            }
            let age = us - segment.sent;
            if age < patience {
                wait = wait.max(Some(patience - age));
            } else {
                self.mark_skb_lost(seq);
                self.at(seq).listed = false;
            }
        }
        wait
    }

    /// tcp_rack_mark_lost. True: the timer waits for others.
    fn rack_mark_lost(&mut self, now: Time) -> bool {
        if self.segments.is_empty() || !std::mem::take(&mut self.rack_advanced) {
            return false;
        }
        let Some(wait) = self.rack_detect_loss(now) else { return false };
        let span = Time::from_micros(wait + 2000).min(self.rtt.rto());
        self.set_timer(Pending::Reordering, span, now);
        true
    }

    pub(super) fn mark_skb_lost(&mut self, seq: u64) {
        let segment = *self.at(seq);
        if segment.sacked || segment.lost && !segment.retrans {
            return;
        }
        self.view.lost += 1;
        let now = self.at(seq);
        now.retrans &= !segment.lost;
        now.lost = true;
    }

    fn check_sack_reordering(&mut self, lowest: u64, highest: u64) {
        if lowest < highest {
            self.reordering = self.reordering.max((highest - lowest).min(300) as u32);
            self.reorder_seen = true;
        }
    }

    fn process_tlp_ack(&mut self, ack_seq: u64, found: &Found, now: Time) {
        if self.tlp_end == 0 || ack_seq < self.tlp_end {
            return;
        }
        if !self.tlp_retrans || found.dsack_of_probe {
            self.tlp_end = 0;
        } else if ack_seq > self.tlp_end {
            self.init_cwnd_reduction(Signal::Loss, now);
            self.set_ca_state(CaState::Cwr, now);
            self.end_cwnd_reduction(now);
            self.try_keep_open(now);
        } else if !found.advanced && !found.sacked {
            self.tlp_end = 0;
        }
    }

    fn in_reduction(&self) -> bool {
        matches!(self.view.ca, CaState::Cwr | CaState::Recovery)
    }

    pub(super) fn set_ca_state(&mut self, state: CaState, now: Time) {
        if self.view.ca != state || state == CaState::Loss {
            self.view.ca = state;
            self.tell(StateEvent::Entered(state), now);
        }
    }

    fn fastretrans_alert(&mut self, prior_una: u64, found: &mut Found, now: Time) -> Resend {
        let una = self.view.snd_una;
        if found.ece {
            self.prior_ssthresh = 0;
        }
        match self.view.ca {
            CaState::Open => self.retrans_stamp = 0,
            CaState::Cwr if una > self.high_seq => {
                self.end_cwnd_reduction(now);
                self.set_ca_state(CaState::Open, now);
            }
            CaState::Recovery if una >= self.high_seq => {
                self.try_undo_recovery(now);
                self.end_cwnd_reduction(now);
            }
            _ => {}
        }
        match self.view.ca {
            CaState::Recovery => {
                if found.advanced && self.try_undo_partial(prior_una, now) {
                    return Resend::None;
                }
                if self.try_undo_dsack(now) {
                    self.try_to_open(found, now);
                }
                self.identify_packet_loss(found, now);
                if self.view.ca == CaState::Recovery {
                    return Resend::Lost;
                }
                if self.lost_out() == 0 {
                    return Resend::None;
                }
                self.enter_recovery(found.ece, now);
                return Resend::Lost;
            }
            CaState::Loss => {
                let resend = self.process_loss(found, now);
                self.identify_packet_loss(found, now);
                if self.view.ca != CaState::Open && !found.lost_retransmission {
                    return resend;
                }
            }
            _ => {
                if self.view.ca != CaState::Cwr {
                    self.try_undo_dsack(now);
                }
                self.identify_packet_loss(found, now);
            }
        }
        if self.lost_out() == 0 {
            self.try_to_open(found, now);
            return Resend::None;
        }
        self.enter_recovery(found.ece, now);
        Resend::Lost
    }

    fn identify_packet_loss(&mut self, found: &mut Found, now: Time) {
        let before = self.retrans_out();
        found.set_timer &= !self.rack_mark_lost(now);
        found.lost_retransmission |= before > self.retrans_out();
    }

    /// tcp_process_loss with F-RTO (RFC 5682).
    fn process_loss(&mut self, found: &Found, now: Time) -> Resend {
        let (una, nxt) = (self.view.snd_una, self.view.snd_nxt);
        let recovered = una >= self.high_seq;
        if found.advanced && self.may_undo() || self.frto && found.original_delivered {
            self.undo_cwnd_reduction(true, now);
            self.backoffs = 0;
            self.set_ca_state(CaState::Open, now);
            return Resend::None;
        }
        if self.frto && nxt > self.high_seq {
            // RFC 5682, 3.1 step 3: a duplicate ACK, the timeout was right.
            self.frto = !(found.sacked || !found.advanced && !found.dsack);
        } else if self.frto && found.advanced && !recovered {
            self.high_seq = nxt;
            if nxt < self.end {
                return Resend::New;
            }
            self.frto = false;
        }
        if recovered {
            self.try_undo_recovery(now);
            return Resend::None;
        }
        Resend::Lost
    }

    pub(super) fn enter_recovery(&mut self, ece: bool, now: Time) {
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.in_reduction() {
            if !ece {
                self.prior_ssthresh = self.current_ssthresh();
            }
            self.init_cwnd_reduction(Signal::Loss, now);
        }
        self.set_ca_state(CaState::Recovery, now);
    }

    pub(super) fn current_ssthresh(&self) -> u32 {
        let cwnd = self.control.cwnd;
        if self.in_reduction() { self.control.ssthresh } else { self.control.ssthresh.max(cwnd / 2 + cwnd / 4) }
    }

    pub(super) fn ask_ssthresh(&mut self, signal: Signal, now: Time) {
        self.ask(now, |cc, view, control| {
            cc.on_congestion(&Congestion { view, signal }, control);
            control.ssthresh = control.ssthresh.max(1);
        });
    }

    fn init_cwnd_reduction(&mut self, signal: Signal, now: Time) {
        self.high_seq = self.view.snd_nxt;
        self.tlp_end = 0;
        self.control.cwnd_cnt = 0;
        self.prior_cwnd = self.control.cwnd;
        (self.prr_delivered, self.prr_out) = (0, 0);
        self.ask_ssthresh(signal, now);
        self.cwr_to_signal = self.case.init.ecn.reports_reductions();
    }

    /// tcp_cwnd_reduction (RFC 6937).
    pub(super) fn cwnd_reduction(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 || self.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered += delivered;
        let [in_flight, ssthresh, prior, sum, out] =
            [self.in_flight(), self.control.ssthresh, self.prior_cwnd, self.prr_delivered, self.prr_out].map(i64::from);
        let mut count = if in_flight > ssthresh {
            (ssthresh * sum).div_euclid(prior) + i64::from((ssthresh * sum) % prior > 0) - out
        } else {
            let growth = i64::from(advanced && lost == 0);
            ((sum - out).max(i64::from(delivered)) + growth).min(ssthresh - in_flight)
        };
        // A first retransmission leaves whatever follows.
        count = count.max(i64::from(out == 0));
        self.control.cwnd = (in_flight + count).max(1) as u32;
    }

    fn end_cwnd_reduction(&mut self, now: Time) {
        if self.needs().full_control {
            return;
        }
        let reduced = self.control.ssthresh < knee_cc::INFINITE_SSTHRESH;
        if reduced && (self.view.ca == CaState::Cwr || self.undo_marker.is_some()) {
            self.control.cwnd = self.control.ssthresh.max(1);
        }
        self.tell(StateEvent::ReductionDone, now);
    }

    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.view.snd_una);
        let probe = self.tlp_end != 0 && self.tlp_retrans;
        let retransmitted = i64::from(self.retrans_out()) + i64::from(probe);
        self.undo_retrans = if retransmitted > 0 { retransmitted } else { -1 };
    }

    /// Eifel (RFC 3522): tcp_packet_delayed.
    fn packet_delayed(&self) -> bool {
        self.retrans_stamp == 0 || self.echoes_before(self.retrans_stamp)
    }

    fn may_undo(&self) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.packet_delayed())
    }

    fn undo_cwnd_reduction(&mut self, unmark: bool, now: Time) {
        if unmark {
            self.segments.iter_mut().for_each(|segment| segment.lost = false);
        }
        if self.prior_ssthresh > 0 {
            let prior_cwnd = self.prior_cwnd;
            self.ask(now, |cc, view, control| cc.on_undo(&Undo { view, prior_cwnd }, control));
            if self.prior_ssthresh > self.control.ssthresh {
                self.control.ssthresh = self.prior_ssthresh;
                self.cwr_to_signal = false;
            }
        }
        self.undo_marker = None;
        self.rack_advanced = true;
    }

    fn try_undo_recovery(&mut self, now: Time) {
        if self.may_undo() {
            self.undo_cwnd_reduction(false, now);
        } else {
            self.reorder_persist = self.reorder_persist.saturating_sub(1);
        }
        self.set_ca_state(CaState::Open, now);
    }

    fn try_undo_partial(&mut self, prior_una: u64, now: Time) -> bool {
        if self.undo_marker.is_none() || !self.packet_delayed() {
            return false;
        }
        self.check_sack_reordering(prior_una, self.highest_sacked());
        if self.retrans_out() > 0 {
            return true;
        }
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        self.undo_cwnd_reduction(true, now);
        self.try_keep_open(now);
        false
    }

    fn try_undo_dsack(&mut self, now: Time) -> bool {
        let undoes = self.undo_marker.is_some() && self.undo_retrans == 0;
        if undoes {
            self.reorder_persist = (self.reorder_persist + 1).min(16);
            self.undo_cwnd_reduction(false, now);
        }
        undoes
    }

    fn any_retrans_done(&self) -> bool {
        self.retrans_out() > 0 || self.segments.front().is_some_and(|segment| segment.ever_retrans)
    }

    fn try_keep_open(&mut self, now: Time) {
        let left_out = self.sacked_out() > 0 || self.lost_out() > 0;
        let state = if left_out || self.any_retrans_done() { CaState::Disorder } else { CaState::Open };
        if self.view.ca != state {
            self.set_ca_state(state, now);
            self.high_seq = self.view.snd_nxt;
        }
    }

    fn try_to_open(&mut self, found: &Found, now: Time) {
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        if found.ece {
            self.prior_ssthresh = 0;
            if matches!(self.view.ca, CaState::Open | CaState::Disorder) {
                self.undo_marker = None;
                self.init_cwnd_reduction(Signal::Ecn, now);
                self.set_ca_state(CaState::Cwr, now);
            }
        }
        if self.view.ca != CaState::Cwr {
            self.try_keep_open(now);
        }
    }
}
