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
use super::prr::Prr;
use super::undo::UndoState;
use super::{Outgoing, Pending, Resend, Sender, flags};
use knee_cc::{CaState, Congestion, Signal, StateEvent};
use knee_core::Time;
use knee_core::convert::{non_negative, saturating_u32};

/// SACKed segments beyond which a hole counts as lost where no reordering was seen (tcp_reordering).
const DUP_THRESHOLD: u32 = 3;
/// Least time that a receiver has to acknowledge what it SACKed (tcp_check_sack_reneging).
const RENEGING_MIN: Time = Time::from_millis(10);

/// The state of loss recovery beside the counts of the [`Scoreboard`](super::sack::Scoreboard) and RACK's.
#[derive(Clone)]
pub(super) struct Recovery {
    /// The episode ends once all segments before this one are acknowledged.
    pub high_seq: u64,
    pub undo: UndoState,
    pub prr: Prr,
    /// Segments by which packets were reordered at the most (tcp_reordering).
    pub reordering: u32,
    /// Segments that D-SACKs have reported.
    pub dsack_segments: u32,
    /// Timeouts in a row without progress.
    pub backoffs: u32,
    /// New segments show whether the last timeout was spurious (RFC 5682).
    pub frto: bool,
    /// In recovery from a timeout that found the first segment SACKed. Linux's `is_sack_reneg` also stays after a
    /// partial undo of that recovery.
    pub reneged: bool,
}

impl Recovery {
    /// Nothing was lost or reordered.
    pub(super) const NONE: Self = Self {
        high_seq: 0,
        undo: UndoState::NONE,
        prr: Prr::begin(0),
        reordering: DUP_THRESHOLD,
        dsack_segments: 0,
        backoffs: 0,
        frto: false,
        reneged: false,
    };
}

impl Sender {
    /// Runs the state machine on a dubious ACK (tcp_fastretrans_alert). Tells what to send first.
    #[cold]
    pub(super) fn recover(&mut self, prior_una: u64, duplicate: bool, found: &mut Findings, now: Time) -> Resend {
        if found.ece {
            self.recovery.undo.prior_ssthresh = 0;
        }
        if found.advanced && self.head_is_sacked() {
            self.await_sacked(found, now);
            return Resend::None;
        }
        if self.view.ca == CaState::Open {
            self.recovery.undo.stamp = 0;
        } else if self.view.snd_una >= self.recovery.high_seq {
            //= RFC 6675, 5
            //# An incoming cumulative ACK for a sequence number greater than RecoveryPoint signals the end of loss
            //# recovery, and the loss recovery phase MUST be terminated.
            match self.view.ca {
                // The CWR flag must reach the receiver: something beyond `high_seq` has to be acknowledged.
                CaState::Cwr if self.view.snd_una != self.recovery.high_seq => {
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
                    if self.scoreboard.lost == 0 {
                        return Resend::None;
                    }
                    self.enter_recovery(found.ece, now);
                }
            }
            CaState::Loss => {
                let resend = self.process_loss(duplicate, found, now);
                self.find_losses(found, now);
                //= RFC 6675, 5.1 (departs: Linux goes back to recovery where RACK finds a retransmission lost)
                //# In addition, a new recovery phase (as described in Section 5) MUST NOT be initiated until HighACK is
                //# greater than or equal to the new value of RecoveryPoint.
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

    /// Returns true if the receiver expects next what it has SACKed.
    fn head_is_sacked(&self) -> bool {
        self.packets_out() > 0 && self.rtx.flags(self.view.snd_una) & flags::SACKED != 0
    }

    /// The receiver seems to have discarded what it SACKed (RFC 2018, 8). It has a little time to acknowledge that
    /// after all, before a timeout (tcp_check_sack_reneging).
    #[cold]
    fn await_sacked(&mut self, found: &mut Findings, now: Time) {
        let half_rtt = Time::from_micros(self.rtt.srtt8_us() >> 4);
        self.set_timer(Pending::Timeout, half_rtt.max(RENEGING_MIN), now);
        found.set_timer = false;
    }

    fn maybe_enter_recovery(&mut self, found: &Findings, now: Time) -> Resend {
        if self.scoreboard.lost == 0 {
            self.try_to_open(found, now);
            return Resend::None;
        }
        self.enter_recovery(found.ece, now);
        Resend::Lost
    }

    fn find_losses(&mut self, found: &mut Findings, now: Time) {
        let retransmitted = self.scoreboard.retransmitted;
        if self.detect_losses(now) {
            found.set_timer = false;
        }
        found.lost_retransmission |= retransmitted > self.scoreboard.retransmitted;
    }

    /// The retransmission timeout fired (tcp_retransmit_timer).
    pub(super) fn on_timeout(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        if self.packets_out() == 0 {
            return;
        }
        self.totals.timeouts += 1;
        self.enter_loss(now);
        self.recovery.backoffs += 1;
        //= RFC 5682, 3.1
        //# When the retransmission timer expires, retransmit the first unacknowledged segment and set SpuriousRecovery
        //# to FALSE.
        let head = self.view.snd_una;
        //= RFC 6298, 5.4
        //# Retransmit the earliest segment that has not been acknowledged by the TCP receiver.
        self.retransmit(head, 1, now, out);
        self.rtt.back_off();
        //= RFC 6298, 5.6
        //# Start the retransmission timer, such that it expires after RTO seconds (for the value of RTO after the
        //# doubling operation outlined in 5.5).
        self.set_timer(Pending::Timeout, self.rtt.rto(), now);
    }

    /// All that is old counts as lost; the window falls to one packet (tcp_enter_loss).
    fn enter_loss(&mut self, now: Time) {
        let fresh = !matches!(self.view.ca, CaState::Recovery | CaState::Loss);
        self.mark_lost_by_timeout(now);
        //= RFC 5681, 3.1
        //# When a TCP sender detects segment loss using the retransmission timer and the given segment has not yet been
        //# resent by way of the retransmission timer, the value of ssthresh MUST be set
        let reduces = matches!(self.view.ca, CaState::Open | CaState::Disorder)
            || self.recovery.high_seq <= self.view.snd_una
            || (self.view.ca == CaState::Loss && self.recovery.backoffs == 0);
        if reduces {
            self.recovery.undo.prior_ssthresh = self.current_ssthresh();
            self.recovery.prr.prior_cwnd = self.control.cwnd;
            self.ask_ssthresh(Signal::Timeout, now);
            self.tell(StateEvent::Timeout, now);
            self.init_undo();
        }
        //= RFC 5681, 3.1 (departs: Linux adds what RACK still holds to be in flight)
        //# Furthermore, upon a timeout (as specified in [RFC2988]) cwnd MUST be set to no more than the loss window,
        //# LW, which equals 1 full-sized segment (regardless of the value of IW).
        self.set_cwnd(self.in_flight() + 1, now);
        self.control.cwnd_cnt = 0;
        if matches!(self.view.ca, CaState::Open | CaState::Disorder) && self.scoreboard.sacked >= DUP_THRESHOLD {
            self.recovery.reordering = self.recovery.reordering.min(DUP_THRESHOLD);
        }
        self.set_state(CaState::Loss, now);
        //= RFC 6675, 5.1
        //# If an RTO occurs during loss recovery as specified in this document, RecoveryPoint MUST be set to HighData.
        self.recovery.high_seq = self.view.snd_nxt;
        self.tlp.end = 0;
        self.cwr_to_signal = self.ecn.reports_reductions();
        //= RFC 5682, 3.1 (departs: Linux applies it again once the timeout has fired before)
        //# This algorithm SHOULD NOT be applied if the TCP sender is already in loss recovery when a retransmission
        //# timeout occurs.
        self.recovery.frto = fresh || self.recovery.backoffs > 0;
    }

    /// Marks lost what is old, and all that is in flight where the receiver has discarded what it SACKed
    /// (tcp_timeout_mark_lost).
    fn mark_lost_by_timeout(&mut self, now: Time) {
        self.rtx.track(self.view.snd_una, self.view.snd_nxt);
        // RFC 2018, 8: a first segment that is SACKed was discarded, and so may the others have been.
        let reneged = self.head_is_sacked();
        if reneged {
            self.rtx.forget_sacks();
            self.scoreboard.sacked = 0;
            self.recovery.reneged = true;
        }
        let stamp = Micros::of(now);
        for seq in self.view.snd_una..self.view.snd_nxt {
            //= RFC 6675, 5.1
            //# Further, a SACK TCP sender SHOULD utilize all SACK information made available during the loss recovery
            //# following an RTO.
            let recent = stamp.since(self.rtx.burst_of(seq).sent()) < self.rack.rtt;
            if reneged || seq == self.view.snd_una || !recent {
                self.mark_lost(seq);
            }
        }
        self.rtx.set_retransmit_hint(self.view.snd_una);
    }

    /// An ACK after a timeout: was it spurious (F-RTO, RFC 5682)? Is it over?
    fn process_loss(&mut self, duplicate: bool, found: &Findings, now: Time) -> Resend {
        let recovered = self.view.snd_una >= self.recovery.high_seq;
        if found.advanced && self.try_undo_loss(false, now) {
            return Resend::None;
        }
        //= RFC 5682, 3.1
        //# Given that the TCP Selective Acknowledgment Option [MMFR96] is enabled for a TCP connection, a TCP sender
        //# MAY apply the SACK-enhanced F-RTO algorithm.
        if self.recovery.frto {
            //= RFC 5682, 3.1
            //# If the Cumulative Acknowledgment field or a SACK information in the ACK does not cover more than
            //# "RecoveryPoint" AND it acknowledges data that was not acknowledged earlier (either with cumulative
            //# acknowledgment or using SACK information), declare the timeout spurious and set SpuriousRecovery to
            //# SPUR_TO.
            if found.original_delivered && self.try_undo_loss(true, now) {
                return Resend::None;
            }
            if self.view.snd_nxt > self.recovery.high_seq {
                //= RFC 5682, 3.1 (departs: Linux leaves the window as it is)
                //# proceed with the conventional RTO recovery, retransmitting unacknowledged segments.
                if found.sacked || duplicate {
                    self.recovery.frto = false;
                }
            } else if found.advanced && !recovered {
                //= RFC 5682, 3.1
                //# When a new acknowledgment arrives, set variable "RecoveryPoint" to indicate the highest sequence
                //# number transmitted so far.
                self.recovery.high_seq = self.view.snd_nxt;
                //= RFC 5682, 3.1 (departs: as many as the window lets leave)
                //# Else, if the Cumulative Acknowledgment field does not cover "RecoveryPoint" but is larger than
                //# SND.UNA, transmit up to two new (previously unsent) segments and proceed to step 3.
                if self.view.snd_nxt < self.end {
                    return Resend::New;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(now);
            return Resend::None;
        }
        Resend::Lost
    }

    pub(super) fn enter_recovery(&mut self, ece: bool, now: Time) {
        if !self.any_retransmission() {
            self.recovery.undo.stamp = 0;
        }
        self.recovery.undo.prior_ssthresh = 0;
        self.init_undo();
        if !self.reducing() {
            if !ece {
                self.recovery.undo.prior_ssthresh = self.current_ssthresh();
            }
            self.begin_reduction(Signal::Loss, now);
        }
        self.set_state(CaState::Recovery, now);
    }

    fn enter_cwr(&mut self, now: Time) {
        self.recovery.undo.prior_ssthresh = 0;
        if matches!(self.view.ca, CaState::Open | CaState::Disorder) {
            self.recovery.undo.marker = None;
            //= RFC 8257, 3.3
            //# Just as specified in [RFC3168], DCTCP does not react to congestion indications more than once for every
            //# window of data.
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

    pub(super) fn begin_reduction(&mut self, signal: Signal, now: Time) {
        self.recovery.high_seq = self.view.snd_nxt;
        self.tlp.end = 0;
        self.control.cwnd_cnt = 0;
        self.recovery.prr = Prr::begin(self.control.cwnd);
        //= RFC 6937, 3
        //# ssthresh = CongCtrlAlg() // Target cwnd after recovery
        self.ask_ssthresh(signal, now);
        self.cwr_to_signal = self.ecn.reports_reductions();
    }

    /// The window moves to `ssthresh` in proportion to what is delivered. `progress`: new data was acknowledged, and no
    /// new loss was found.
    #[cold]
    pub(super) fn reduce_proportionally(&mut self, delivered: u32, progress: bool, now: Time) {
        let (in_flight, ssthresh) = (self.in_flight(), self.control.ssthresh);
        if let Some(count) = self.recovery.prr.sndcnt(delivered, in_flight, ssthresh, progress) {
            let cwnd = (i64::from(in_flight) + count).max(1);
            self.set_cwnd(saturating_u32(non_negative(cwnd)), now);
        }
    }

    pub(super) fn end_reduction(&mut self, now: Time) {
        if self.needs.full_control {
            return;
        }
        //= RFC 5681, 3.2 (departs: once all that was sent before the loss is acknowledged)
        //# a TCP MUST set cwnd to ssthresh
        if self.reduced() && (self.view.ca == CaState::Cwr || self.recovery.undo.marker.is_some()) {
            //= RFC 5681, 4.3
            //# cwnd MUST be set to no more than ssthresh
            self.set_cwnd(self.control.ssthresh, now);
        }
        self.tell(StateEvent::ReductionDone, now);
    }

    pub(super) fn any_retransmission(&self) -> bool {
        self.scoreboard.retransmitted > 0
            || (self.packets_out() > 0 && self.rtx.flags(self.view.snd_una) & flags::EVER_RETRANSMITTED != 0)
    }

    pub(super) fn try_keep_open(&mut self, now: Time) {
        let left_out = self.scoreboard.sacked + self.scoreboard.lost > 0;
        let state = if left_out || self.any_retransmission() { CaState::Disorder } else { CaState::Open };
        if self.view.ca != state {
            self.set_state(state, now);
            self.recovery.high_seq = self.view.snd_nxt;
        }
    }

    fn try_to_open(&mut self, found: &Findings, now: Time) {
        if !self.any_retransmission() {
            self.recovery.undo.stamp = 0;
        }
        if found.ece {
            self.enter_cwr(now);
        }
        if self.view.ca != CaState::Cwr {
            self.try_keep_open(now);
        }
    }
}
