//! Loss detection and recovery: RACK, the state machine, proportional rate reduction, undo.
//!
//! ```text
//!            SACKs seen              loss proven               high_seq acknowledged
//!   Open ───────────────▶ Disorder ───────────────▶ Recovery ───────────────────────▶ Open
//!    │  ECN echo                                       ▲ │ timeout                     ▲
//!    └──────────▶ Cwr ── high_seq acknowledged ──▶ Open│ ▼                             │
//!                                                      Loss ── high_seq acknowledged ──┘
//! ```

use super::ack::Findings;
use super::micros::Micros;
use super::{Config, Departure, Pending, Resend, Sender, Spares, flags};
use knee_cc::{CaState, Congestion, Signal, StateEvent, Undo};
use knee_core::Time;

/// Recoveries for which a widened reordering window persists (RFC 8985, 6.2 step 4; TCP_RACK_RECOVERY_THRESH).
const REORDER_PERSIST: u32 = 16;
/// SACKed segments beyond which a hole counts as lost where no reordering was seen (tcp_reordering).
const DUP_THRESHOLD: u32 = 3;
/// Bound of the measured degree of reordering (tcp_max_reordering).
const MAX_REORDERING: u64 = 300;
/// Least timer of the reordering window (TCP_TIMEOUT_MIN_US).
const REORDER_TIMER_MIN: Time = Time::from_micros(2000);

impl Sender {
    /// Runs the state machine on a dubious ACK (tcp_fastretrans_alert). Tells what to send first.
    #[cold]
    pub(super) fn recover(&mut self, prior_una: u64, duplicate: bool, found: &mut Findings, now: Time) -> Resend {
        if found.ece {
            self.prior_ssthresh = 0;
        }
        if self.view.ca == CaState::Open {
            self.retrans_stamp = 0;
        } else if self.view.snd_una >= self.high_seq {
            match self.view.ca {
                // The CWR flag must reach the receiver: something beyond `high_seq` has to be acknowledged.
                CaState::Cwr if self.view.snd_una != self.high_seq => {
                    self.end_reduction(now);
                    self.set_state(CaState::Open, now);
                }
                CaState::Recovery => {
                    self.try_undo_recovery(now);
                    self.end_reduction(now);
                }
                _ => {}
            }
        }
        match self.view.ca {
            CaState::Recovery => {
                if found.advanced && self.try_undo_partial(prior_una, now) {
                    return Resend::None;
                }
                if self.try_undo_dsack(now) {
                    self.try_to_open(found, now);
                }
                self.find_losses(found, now);
                if self.view.ca != CaState::Recovery {
                    if self.lost_out == 0 {
                        return Resend::None;
                    }
                    self.enter_recovery(found.ece, now);
                }
            }
            CaState::Loss => {
                let resend = self.process_loss(duplicate, found, now);
                self.find_losses(found, now);
                if !(self.view.ca == CaState::Open || found.lost_retransmission) {
                    return resend;
                }
                return self.maybe_enter_recovery(found, now);
            }
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                if self.view.ca != CaState::Cwr {
                    self.try_undo_dsack(now);
                }
                self.find_losses(found, now);
                return self.maybe_enter_recovery(found, now);
            }
        }
        Resend::Lost
    }

    fn maybe_enter_recovery(&mut self, found: &Findings, now: Time) -> Resend {
        if self.lost_out == 0 {
            self.try_to_open(found, now);
            return Resend::None;
        }
        self.enter_recovery(found.ece, now);
        Resend::Lost
    }

    fn find_losses(&mut self, found: &mut Findings, now: Time) {
        let retransmitted = self.retrans_out;
        if self.detect_losses(now) {
            found.set_timer = false;
        }
        found.lost_retransmission |= retransmitted > self.retrans_out;
    }

    /// RACK marks what was sent well before something that was delivered (RFC 8985, 6.2). True: the timer was set since
    /// others may still be late.
    #[inline]
    pub(super) fn detect_losses(&mut self, now: Time) -> bool {
        if self.packets_out() == 0 || !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let Some(wait) = self.mark_lost_by_time(now) else { return false };
        let span = (wait.time() + REORDER_TIMER_MIN).min(self.rtt.rto());
        self.set_timer(Pending::Reordering, span, now);
        true
    }

    /// Marks lost segments; gives how long the reordering window still holds others back.
    fn mark_lost_by_time(&mut self, now: Time) -> Option<Micros> {
        let number = self.rtx.first_open()?;
        // Mostly all that was sent so early has arrived or is known to be lost.
        let open = self.rtx.burst(number).is_some_and(|burst| burst.sent() <= self.rack.newest.0);
        if open { self.mark_lost_from(number, now) } else { None }
    }

    /// The same from the burst of this number on.
    #[inline(never)]
    fn mark_lost_from(&mut self, mut number: u32, now: Time) -> Option<Micros> {
        let (newest, newest_end) = self.rack.newest;
        let stamp = Micros::of(now);
        let patience = Micros(self.rack.rtt.0 + self.reordering_window().0);
        let mut wait = None;
        while let Some(burst) = self.rtx.burst(number).filter(|burst| burst.sent() <= newest) {
            if burst.open() > 0 {
                let (start, end) = burst.range(self.view.snd_una);
                let end = if burst.sent() == newest { end.min(newest_end.saturating_sub(1)) } else { end };
                let start = start.max(self.view.snd_una);
                let age = stamp.since(burst.sent());
                if start < end && age < patience {
                    wait = wait.max(Some(patience.since(age)));
                } else {
                    (start..end).for_each(|seq| self.mark_late(seq, number));
                }
            }
            number = number.wrapping_add(1);
        }
        wait
    }

    /// Marks a segment lost if its fate is open and burst `number` carried it last.
    fn mark_late(&mut self, seq: u64, number: u32) {
        let segment = self.rtx.flags(seq);
        let waiting = segment & (flags::LOST | flags::RETRANSMITTED) == flags::LOST;
        if segment & flags::LISTED != 0 && !waiting && self.rtx.carries(number, seq) {
            self.mark_lost(seq);
            self.rtx.set_flags(seq, 0, flags::LISTED);
        }
    }

    /// RFC 8985, 6.2 step 4: a quarter of the least RTT once reordering was seen, more after D-SACKs.
    fn reordering_window(&self) -> Micros {
        if !self.rack.reorder_seen
            && (matches!(self.view.ca, CaState::Recovery | CaState::Loss) || self.sacked_out >= self.reordering)
        {
            return Micros(0);
        }
        let quarter = u64::from(self.rtt.min_rtt_us().unwrap_or(u32::MAX) >> 2);
        Micros(quarter * u64::from(self.rack.reorder_steps)).min(Micros(self.rtt.srtt8_us() >> 3))
    }

    /// A segment is deemed lost (tcp_mark_skb_lost).
    fn mark_lost(&mut self, seq: u64) {
        let segment = self.rtx.flags(seq);
        if segment & flags::SACKED != 0 {
            return;
        }
        self.rtx.set_retransmit_hint(self.rtx.retransmit_hint().min(seq));
        if segment & flags::LOST != 0 {
            if segment & flags::RETRANSMITTED != 0 {
                self.rtx.set_flags(seq, 0, flags::RETRANSMITTED);
                self.retrans_out -= 1;
                self.count_lost();
            }
        } else {
            self.rtx.set_flags(seq, flags::LOST, 0);
            self.lost_out += 1;
            self.count_lost();
        }
    }

    /// Counts a transmission as lost. One that was taken for lost before, which turned out wrong, is on record already.
    const fn count_lost(&mut self) {
        self.view.lost += 1;
        if self.unmarked > 0 {
            self.unmarked -= 1;
            self.lost_again += 1;
        }
    }

    /// Step 2 of RFC 8985, 6.2: the newest transmission delivered.
    pub(super) fn rack_advance(&mut self, sent: Micros, end: u64, segment: u8, stamp: Micros) {
        let rtt = stamp.since(sent);
        // Too quick for the retransmission: it was the original that arrived.
        if segment & flags::EVER_RETRANSMITTED != 0 && rtt.time() < self.rtt.min_rtt() {
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt = rtt;
        if (sent, end) > self.rack.newest {
            self.rack.newest = (sent, end);
        }
    }

    /// RFC 8985, 6.2 step 4: D-SACKs widen the window, a step for each round trip that saw some. `prior`: `delivered`
    /// when the newest packet delivered was sent, lower half. Nothing is to be done unless `widened`.
    #[cold]
    pub(super) fn update_reordering_window(&mut self, prior: u32) {
        if prior.wrapping_sub(self.rack.last_delivered as u32).cast_signed() < 0 {
            self.rack.dsack_seen = false;
        }
        if self.rack.dsack_seen {
            self.rack.reorder_steps = (self.rack.reorder_steps + 1).min(255);
            self.rack.dsack_seen = false;
            self.rack.last_delivered = self.view.delivered;
            self.rack.reorder_persist = REORDER_PERSIST;
        } else if self.rack.reorder_persist == 0 {
            self.rack.reorder_steps = 1;
        }
        self.widened = self.rack.reorder_steps != 1;
    }

    pub(super) fn note_reordering(&mut self, lowest: u64, highest: u64) {
        if lowest >= highest {
            return;
        }
        let metric = highest - lowest;
        if metric > u64::from(self.reordering) {
            self.reordering = metric.min(MAX_REORDERING) as u32;
        }
        self.rack.reorder_seen = true;
    }

    /// The timer of the reordering window fired (tcp_rack_reo_timeout).
    pub(super) fn on_reordering_timeout(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        let (in_flight, lost) = (self.in_flight(), self.view.lost);
        self.mark_lost_by_time(now);
        if in_flight != self.in_flight() {
            if self.view.ca != CaState::Recovery {
                self.enter_recovery(false, now);
                if !self.needs.full_control {
                    self.reduce_proportionally(1, (self.view.lost - lost) as u32, false, now);
                }
            }
            self.send_lost(now, config, out);
        }
        if self.pending != Pending::Timeout {
            self.pending = Pending::Reordering;
            self.rearm_timeout(now);
        }
    }

    /// The retransmission timeout fired (tcp_retransmit_timer).
    pub(super) fn on_timeout(&mut self, now: Time, out: &mut Vec<Departure>, spares: &mut Spares) {
        if self.packets_out() == 0 {
            return;
        }
        self.timeouts += 1;
        self.enter_loss(now, spares);
        self.backoffs += 1;
        let head = self.view.snd_una;
        self.retransmit(head, 1, now, out);
        self.rtt.back_off();
        self.set_timer(Pending::Timeout, self.rtt.rto(), now);
    }

    /// All that is old counts as lost; the window falls to one packet (tcp_enter_loss).
    fn enter_loss(&mut self, now: Time, spares: &mut Spares) {
        let fresh = !matches!(self.view.ca, CaState::Recovery | CaState::Loss);
        self.rtx.track(self.view.snd_una, self.view.snd_nxt, spares);
        let stamp = Micros::of(now);
        for seq in self.view.snd_una..self.view.snd_nxt {
            if self.rtx.flags(seq) & flags::SACKED != 0 {
                continue;
            }
            let recent = stamp.since(self.rtx.burst_of(seq).sent()) < self.rack.rtt;
            if seq == self.view.snd_una || !recent {
                self.mark_lost(seq);
            }
        }
        self.rtx.set_retransmit_hint(self.view.snd_una);
        let reduces = matches!(self.view.ca, CaState::Open | CaState::Disorder)
            || self.high_seq <= self.view.snd_una
            || (self.view.ca == CaState::Loss && self.backoffs == 0);
        if reduces {
            self.prior_ssthresh = self.current_ssthresh();
            self.prior_cwnd = self.control.cwnd;
            self.ask_ssthresh(Signal::Timeout, now);
            self.tell(StateEvent::Timeout, now);
            self.init_undo();
        }
        self.set_cwnd(self.in_flight() + 1, now);
        self.control.cwnd_cnt = 0;
        if matches!(self.view.ca, CaState::Open | CaState::Disorder) && self.sacked_out >= DUP_THRESHOLD {
            self.reordering = self.reordering.min(DUP_THRESHOLD);
        }
        self.set_state(CaState::Loss, now);
        self.high_seq = self.view.snd_nxt;
        self.set_probe_end(0);
        self.cwr_to_signal = self.ecn;
        self.frto = fresh || self.backoffs > 0;
    }

    /// An ACK after a timeout: was it spurious (F-RTO, RFC 5682)? Is it over?
    fn process_loss(&mut self, duplicate: bool, found: &Findings, now: Time) -> Resend {
        let recovered = self.view.snd_una >= self.high_seq;
        if found.advanced && self.try_undo_loss(false, now) {
            return Resend::None;
        }
        if self.frto {
            if found.original_delivered && self.try_undo_loss(true, now) {
                return Resend::None;
            }
            if self.view.snd_nxt > self.high_seq {
                if found.sacked || duplicate {
                    self.frto = false;
                }
            } else if found.advanced && !recovered {
                self.high_seq = self.view.snd_nxt;
                if self.view.snd_nxt < self.end {
                    return Resend::New;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(now);
            return Resend::None;
        }
        Resend::Lost
    }

    fn enter_recovery(&mut self, ece: bool, now: Time) {
        if !self.any_retransmission() {
            self.retrans_stamp = 0;
        }
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.reducing() {
            if !ece {
                self.prior_ssthresh = self.current_ssthresh();
            }
            self.begin_reduction(Signal::Loss, now);
        }
        self.set_state(CaState::Recovery, now);
    }

    fn enter_cwr(&mut self, now: Time) {
        self.prior_ssthresh = 0;
        if matches!(self.view.ca, CaState::Open | CaState::Disorder) {
            self.undo_marker = None;
            self.begin_reduction(Signal::Ecn, now);
            self.set_state(CaState::Cwr, now);
        }
    }

    fn ask_ssthresh(&mut self, signal: Signal, now: Time) {
        self.ask(now, |cc, view, control| {
            cc.on_congestion(&Congestion { view, signal }, control);
            control.ssthresh = control.ssthresh.max(1);
        });
    }

    fn begin_reduction(&mut self, signal: Signal, now: Time) {
        self.high_seq = self.view.snd_nxt;
        self.set_probe_end(0);
        self.control.cwnd_cnt = 0;
        self.prior_cwnd = self.control.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.ask_ssthresh(signal, now);
        self.cwr_to_signal = self.ecn;
    }

    /// Proportional rate reduction (RFC 6937 with the bounds of Linux's `tcp_cwnd_reduction`): the window moves to
    /// `ssthresh` in proportion to what is delivered.
    #[cold]
    pub(super) fn reduce_proportionally(&mut self, delivered: u32, lost: u32, advanced: bool, now: Time) {
        if delivered == 0 || self.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered += delivered;
        let in_flight = i64::from(self.in_flight());
        let ssthresh = i64::from(self.control.ssthresh);
        let (prr_delivered, prr_out) = (i64::from(self.prr_delivered), i64::from(self.prr_out));
        let room = ssthresh - in_flight;
        let count = if room < 0 {
            let prior = i64::from(self.prior_cwnd);
            (ssthresh * prr_delivered + prior - 1) / prior - prr_out
        } else {
            let bound = (prr_delivered - prr_out).max(i64::from(delivered));
            // Progress without new losses: grow as in slow start.
            room.min(bound + i64::from(advanced && lost == 0))
        };
        let count = count.max(i64::from(self.prr_out == 0));
        self.set_cwnd((in_flight + count).max(1) as u32, now);
    }

    fn end_reduction(&mut self, now: Time) {
        if self.needs.full_control {
            return;
        }
        if self.reduced() && (self.view.ca == CaState::Cwr || self.undo_marker.is_some()) {
            self.set_cwnd(self.control.ssthresh, now);
        }
        self.tell(StateEvent::ReductionDone, now);
    }

    fn init_undo(&mut self) {
        self.undo_marker = Some(self.view.snd_una);
        let mut retransmitted = i64::from(self.retrans_out);
        if self.probing && self.tlp_retransmitted {
            retransmitted += 1;
        }
        self.undo_retrans = if retransmitted == 0 { -1 } else { retransmitted };
    }

    /// Whether the echoed timestamp tells that the original, not the retransmission, arrived (Eifel, RFC 3522).
    fn original_arrived(&self) -> bool {
        self.retrans_stamp == 0 || self.echoed_before(self.retrans_stamp)
    }

    fn may_undo(&self) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.original_arrived())
    }

    fn undo_reduction(&mut self, unmark: bool, now: Time) {
        if unmark {
            if self.rtx.tracking() {
                for seq in self.view.snd_una..self.view.snd_nxt {
                    self.rtx.set_flags(seq, 0, flags::LOST);
                }
            }
            self.unmarked += self.lost_out;
            self.lost_out = 0;
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
        self.rack.advanced = true;
    }

    fn try_undo_recovery(&mut self, now: Time) {
        if self.may_undo() {
            self.undo_reduction(false, now);
        } else if self.rack.reorder_persist > 0 {
            self.rack.reorder_persist -= 1;
        }
        self.set_state(CaState::Open, now);
    }

    fn try_undo_loss(&mut self, by_frto: bool, now: Time) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        self.undo_reduction(true, now);
        self.backoffs = 0;
        self.set_state(CaState::Open, now);
        true
    }

    /// A partial ACK by the original: reordering, not loss. True: retransmissions are still out, wait for them.
    fn try_undo_partial(&mut self, prior_una: u64, now: Time) -> bool {
        if self.undo_marker.is_none() || !self.original_arrived() {
            return false;
        }
        let highest = self.rtx.highest_sacked(self.view.snd_una);
        self.note_reordering(prior_una, highest);
        if self.retrans_out > 0 {
            return true;
        }
        if !self.any_retransmission() {
            self.retrans_stamp = 0;
        }
        self.undo_reduction(true, now);
        self.try_keep_open(now);
        false
    }

    fn try_undo_dsack(&mut self, now: Time) -> bool {
        if self.undo_marker.is_none() || self.undo_retrans != 0 {
            return false;
        }
        self.rack.reorder_persist = (self.rack.reorder_persist + 1).min(REORDER_PERSIST);
        self.undo_reduction(false, now);
        true
    }

    fn any_retransmission(&self) -> bool {
        self.retrans_out > 0
            || (self.packets_out() > 0 && self.rtx.flags(self.view.snd_una) & flags::EVER_RETRANSMITTED != 0)
    }

    fn try_keep_open(&mut self, now: Time) {
        let left_out = self.sacked_out + self.lost_out > 0;
        let state = if left_out || self.any_retransmission() { CaState::Disorder } else { CaState::Open };
        if self.view.ca != state {
            self.set_state(state, now);
            self.high_seq = self.view.snd_nxt;
        }
    }

    fn try_to_open(&mut self, found: &Findings, now: Time) {
        if !self.any_retransmission() {
            self.retrans_stamp = 0;
        }
        if found.ece {
            self.enter_cwr(now);
        }
        if self.view.ca != CaState::Cwr {
            self.try_keep_open(now);
        }
    }

    /// What an ACK says of the tail loss probe (tcp_process_tlp_ack).
    #[cold]
    pub(super) fn check_probe(&mut self, ack_seq: u64, found: &Findings, now: Time) {
        if ack_seq < self.tlp_end {
            return;
        }
        if !self.tlp_retransmitted || found.dsack_of_probe {
            self.set_probe_end(0);
        } else if ack_seq > self.tlp_end {
            // The probe repaired a loss that nothing else saw.
            self.begin_reduction(Signal::Loss, now);
            self.set_state(CaState::Cwr, now);
            self.end_reduction(now);
            self.try_keep_open(now);
        } else if !found.advanced && !found.sacked {
            self.set_probe_end(0);
        }
    }
}
