//! RACK: what was sent well before something that was delivered is lost (RFC 8985, 6; tcp_recovery.c).

use super::micros::Micros;
use super::{Config, Outgoing, Pending, Sender, flags};
use knee_cc::CaState;
use knee_core::Time;
use knee_core::convert::low_u32;

/// Recoveries for which a widened reordering window persists (RFC 8985, 6.2 step 4; TCP_RACK_RECOVERY_THRESH).
pub(super) const REORDER_PERSIST: u32 = 16;
/// Bound of the measured degree of reordering (tcp_max_reordering).
const MAX_REORDERING: u64 = 300;
/// Least timer of the reordering window (TCP_TIMEOUT_MIN_US).
const REORDER_TIMER_MIN: Time = Time::from_micros(2000);

/// State of RACK (RFC 8985, 5.2).
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// Latest transmission time of a delivered segment, and the segment after it.
    pub newest: (Micros, u64),
    pub rtt: Micros,
    pub advanced: bool,
    pub reorder_seen: bool,
    pub reorder_steps: u32,
    pub reorder_persist: u32,
    pub dsack_seen: bool,
    pub last_delivered: u64,
}

impl Sender {
    /// Step 2 of RFC 8985, 6.2: the newest transmission delivered.
    pub(super) fn rack_advance(&mut self, sent: Micros, end: u64, segment: u8, stamp: Micros) {
        let rtt = stamp.since(sent);
        // Too quick for the retransmission: it was the original that arrived.
        //= RFC 8985, 6.2
        //# The segment was last retransmitted less than RACK.min_rtt ago.
        if segment & flags::EVER_RETRANSMITTED != 0 && rtt.time() < self.rtt.min_rtt() {
            return;
        }
        self.rack.advanced = true;
        //= RFC 8985, 6.2
        //# RACK.rtt = rtt
        self.rack.rtt = rtt;
        //= RFC 8985, 6.2
        //# If RACK_sent_after(Segment.xmit_ts, Segment.end_seq RACK.xmit_ts, RACK.end_seq): RACK.xmit_ts =
        //# Segment.xmit_ts RACK.end_seq = Segment.end_seq
        self.rack.newest = self.rack.newest.max((sent, end));
    }

    /// RACK marks what was sent well before something that was delivered (RFC 8985, 6.2). True: the timer was set since
    /// others may still be late.
    pub(super) fn detect_losses(&mut self, now: Time) -> bool {
        if self.packets_out() == 0 || !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let Some(wait) = self.mark_lost_by_time(now) else { return false };
        let span = (wait.time() + REORDER_TIMER_MIN).min(self.rtt.rto());
        //= RFC 8985, 6.2
        //# For timely loss detection, it is RECOMMENDED that the sender install a reordering timer.
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

    /// Marks lost segments from burst `number` on; gives how long the reordering window still holds others back.
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
                if age < patience {
                    // In a burst sent at the same time as the newest delivered segment, the segments behind that one
                    // are not late yet.
                    if (start..end).any(|seq| self.may_be_late(seq, number)) {
                        wait = wait.max(Some(patience.since(age)));
                    }
                } else {
                    (start..end).for_each(|seq| self.mark_late(seq, number));
                }
            }
            number = number.wrapping_add(1);
        }
        wait
    }

    /// True if the fate of a segment is open, and burst `number` carried it last.
    fn may_be_late(&self, seq: u64, number: u32) -> bool {
        let segment = self.rtx.flags(seq);
        let waiting = segment & (flags::LOST | flags::RETRANSMITTED) == flags::LOST;
        segment & flags::LISTED != 0 && !waiting && self.rtx.carries(number, seq)
    }

    /// Marks such a segment lost.
    fn mark_late(&mut self, seq: u64, number: u32) {
        if self.may_be_late(seq, number) {
            self.mark_lost(seq);
            self.rtx.set_flags(seq, 0, flags::LISTED);
        }
    }

    /// RFC 8985, 6.2 step 4: a quarter of the least RTT once reordering was seen, more after D-SACKs.
    fn reordering_window(&self) -> Micros {
        //= RFC 8985, 3.3.2
        //# The reordering window SHOULD be set to zero if no reordering has been observed on the connection so far, and
        //# either (a) three segments have been SACKed since the last recovery or (b) the sender is already in fast or
        //# RTO recovery.
        if !self.rack.reorder_seen
            && (matches!(self.view.ca, CaState::Recovery | CaState::Loss)
                || self.scoreboard.sacked >= self.recovery.reordering)
        {
            return Micros(0);
        }
        //= RFC 8985, 3.3.2
        //# Otherwise, the reordering window SHOULD start from a small fraction of the round-trip time or zero if no
        //# round-trip time estimate is available.
        let quarter = u64::from(self.rtt.min_rtt_us().unwrap_or(u32::MAX) >> 2);
        //= RFC 8985, 3.3.2
        //# The RACK reordering window MUST be bounded, and this bound SHOULD be SRTT.
        Micros(quarter * u64::from(self.rack.reorder_steps)).min(Micros(self.rtt.srtt8_us() >> 3))
    }

    /// RFC 8985, 6.2 step 4: D-SACKs widen the window, a step for each round trip that saw some. `prior`: `delivered`
    /// when the newest packet delivered was sent, lower half. Nothing is to be done unless `widened`.
    #[cold]
    pub(super) fn update_reordering_window(&mut self, prior: u32) {
        if prior.wrapping_sub(low_u32(self.rack.last_delivered)).cast_signed() < 0 {
            self.rack.dsack_seen = false;
        }
        if self.rack.dsack_seen {
            //= RFC 8985, 6.2
            //# The RACK.reo_wnd increases linearly for every round trip in which the sender receives some DSACK option
            //# so that after N round trips in which a DSACK is received, the RACK.reo_wnd becomes (N+1) * min_RTT / 4,
            //# with an upper-bound
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
        if metric > u64::from(self.recovery.reordering) {
            self.recovery.reordering = metric.min(MAX_REORDERING) as u32;
        }
        //= RFC 8985, 6.2
        //# The sender sets RACK.reordering_seen to TRUE if such a segment is identified.
        self.rack.reorder_seen = true;
    }

    /// A segment is deemed lost (tcp_mark_skb_lost).
    pub(super) fn mark_lost(&mut self, seq: u64) {
        let segment = self.rtx.flags(seq);
        if segment & flags::SACKED != 0 {
            return;
        }
        self.rtx.set_retransmit_hint(self.rtx.retransmit_hint().min(seq));
        if segment & flags::LOST != 0 {
            if segment & flags::RETRANSMITTED != 0 {
                self.rtx.set_flags(seq, 0, flags::RETRANSMITTED);
                self.scoreboard.retransmitted -= 1;
                self.count_lost();
            }
        } else {
            self.rtx.set_flags(seq, flags::LOST, 0);
            self.scoreboard.lost += 1;
            self.count_lost();
        }
    }

    /// Counts a transmission as lost. One that was taken for lost before, which turned out wrong, is on record already.
    const fn count_lost(&mut self) {
        self.view.lost += 1;
        if self.totals.unmarked > 0 {
            self.totals.unmarked -= 1;
            self.totals.lost_again += 1;
        }
    }

    /// The timer of the reordering window fired (tcp_rack_reo_timeout).
    pub(super) fn on_reordering_timeout(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        let in_flight = self.in_flight();
        self.mark_lost_by_time(now);
        if in_flight != self.in_flight() {
            if self.view.ca != CaState::Recovery {
                self.enter_recovery(false, now);
                if !self.needs.full_control {
                    self.reduce_proportionally(1, false, now);
                }
            }
            self.send_lost(now, config, out);
        }
        if self.pending != Pending::Timeout {
            self.pending = Pending::Reordering;
            self.rearm_timeout(now);
        }
    }
}
