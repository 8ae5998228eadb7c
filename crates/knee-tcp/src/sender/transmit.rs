//! Sends new segments within the windows, and segments again.

use super::micros::Micros;
use super::ring::Transmission;
use super::{Config, Outgoing, Pending, Resend, Sender, flags};
use knee_cc::{Sent, StateEvent};
use knee_core::Time;
use knee_core::convert::{count_u32, index_u32, saturating_u32};
use knee_core::packet::MSS;

/// Why `send_new` is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Push {
    /// All segments that may leave are sent.
    Normal,
    /// A single burst although the window is full: a tail loss probe.
    Probe,
}

impl Sender {
    /// Sends new segments that may leave now: after a write, as the connection opens, as pacing allows.
    pub fn send(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        if self.established {
            self.send_new(Push::Normal, now, config, out);
        }
    }

    pub(super) fn send_after_ack(&mut self, resend: Resend, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        //= RFC 6675, 4
        //# If no sequence number 'S2' per rule (1) exists but there exists available unsent data and the receiver's
        //# advertised window allows, the sequence range of one segment of up to SMSS octets of previously unsent data
        //# starting with sequence number HighData+1 MUST be returned.
        if resend != Resend::None {
            self.resend_first(resend, now, config, out);
        }
        self.send_new(Push::Normal, now, config, out);
    }

    #[cold]
    fn resend_first(&mut self, resend: Resend, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        if resend == Resend::New {
            self.send_new(Push::Normal, now, config, out);
            if self.view.snd_nxt > self.recovery.high_seq {
                return;
            }
            //= RFC 5682, 3.1
            //# If the TCP sender is not able to transmit any previously unsent data -- either due to receiver window
            //# limitation or because it does not have any new data to send -- the recommended action is to refrain from
            //# entering step 3 of this algorithm.
            self.recovery.frto = false;
        }
        self.send_lost(now, config, out);
    }

    /// Sends new segments as far as windows and pacing let them leave.
    #[inline(never)]
    pub(super) fn send_new(&mut self, push: Push, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        let next = self.view.snd_nxt;
        let mut limited = false;
        if self.control.restart_pacing {
            self.restart_pacing(now);
        }
        while self.view.snd_nxt < self.end {
            if self.waits_for_pacing(now) {
                break;
            }
            let room = self.room(push, config);
            if room == 0 {
                break;
            }
            let left = saturating_u32(self.end - self.view.snd_nxt);
            let wait = push == Push::Normal && left > room && self.may_wait(room, now, config);
            let count = self.burst_now(room, wait, config).min(left);
            if count == 0 {
                // It waits for the smaller of the two windows.
                limited = u64::from(room) < self.receive_room(config);
                break;
            }
            self.depart(count, now, out);
            if push == Push::Probe {
                break;
            }
        }
        let limited = limited || self.in_flight() >= self.control.cwnd;
        self.held_back = limited;
        if limited {
            self.note_window_full(now);
        } else if self.view.snd_nxt != next {
            self.validate_cwnd(now, config);
        }
        if self.view.snd_nxt != next {
            self.after_departures(count_u32(self.view.snd_nxt - next), push, now, config);
        }
    }

    /// How many new segments the windows let leave.
    fn room(&self, push: Push, config: &Config) -> u32 {
        let room = self.window_room();
        let room = if room == 0 && push == Push::Probe { 1 } else { room };
        //= RFC 5681, 2 (departs: what is SACKed or lost makes room in cwnd, as in RFC 6675)
        //# At any given time, a TCP MUST NOT send data with a sequence number higher than the sum of the highest
        //# acknowledged sequence number and the minimum of cwnd and rwnd.
        room.min(saturating_u32(self.receive_room(config)))
    }

    /// How many new segments the receive window lets leave.
    fn receive_room(&self, config: &Config) -> u64 {
        (self.view.snd_una + self.offered_window(config)).saturating_sub(self.view.snd_nxt)
    }

    /// Bookkeeping when `sent` new segments have left: recovery's count, the loss probe's timer, the algorithm.
    fn after_departures(&mut self, sent: u32, push: Push, now: Time, config: &Config) {
        if self.reducing() {
            //= RFC 6937, 3
            //# prr_out += (data sent) // strictly less than or equal to sndcnt
            self.recovery.prr.out += sent;
        }
        //= RFC 8985, 7.2
        //# The sender SHOULD start or restart a loss probe PTO timer after transmitting new data (that was not itself a
        //# loss probe)
        if push == Push::Normal {
            self.schedule_probe(false, now, config);
        }
        self.tell_sent(sent, false, now);
    }

    pub(super) fn tell_sent(&mut self, packets: u32, retransmission: bool, now: Time) {
        if self.needs.sent {
            self.ask(now, |cc, view, control| cc.on_sent(&Sent { view, packets, retransmission }, control));
        }
    }

    /// New segments leave in one burst.
    pub(super) fn depart(&mut self, count: u32, now: Time, out: &mut Vec<Outgoing>) {
        let (start, stamp) = (self.view.snd_nxt, Micros::of(now));
        let was_empty = self.packets_out() == 0;
        //= RFC 8985, 4 (departs: in microseconds, once for the packets that leave together)
        //# For each data segment sent, the sender MUST store its most recent transmission time with a timestamp whose
        //# granularity is finer than 1/4 of the minimum RTT of the connection.
        self.rtx.push(Transmission::new(start, count, stamp, self.view.delivered, false));
        if self.needs.rate {
            if was_empty {
                self.rate_clock.first_tx = stamp;
                self.rate_clock.delivered_at = stamp;
            }
            self.push_start(count);
        }
        if self.in_flight() == 0 {
            self.tell(StateEvent::Restart, now);
        }
        self.view.snd_nxt += u64::from(count);
        // In other states a probe is scheduled once all that may leave has left.
        //= RFC 6298, 5.1 (departs: a loss probe's timer runs first, where one is due)
        //# Every time a packet containing data is sent (including a retransmission), if the timer is not running, start
        //# it running so that it will expire after RTO seconds (for the current value of RTO).
        if (was_empty || self.pending == Pending::Probe) && !self.may_probe() {
            self.rearm_timeout(now);
        }
        self.leave(Outgoing { start, count, retransmission: false }, now, out);
    }

    /// Counts a departure, after which the next one may have to wait.
    fn leave(&mut self, departure: Outgoing, now: Time, out: &mut Vec<Outgoing>) {
        let end = departure.start + u64::from(departure.count);
        let mut short = if end == self.end { u32::from(MSS) - self.last_payload } else { 0 };
        if let Some(stream) = &self.stream {
            short += count_u32(stream.missing_before(end) - stream.missing_before(departure.start));
        }
        self.totals.short_bytes += u64::from(short);
        self.advance_pacing_clock(departure.count * u32::from(MSS) - short, now);
        out.push(departure);
    }

    /// Retransmits lost segments as far as the window lets (tcp_xmit_retransmit_queue).
    pub(super) fn send_lost(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        if !self.rtx.tracking() {
            return;
        }
        let mut seq = self.rtx.retransmit_hint().max(self.view.snd_una);
        let (mut total, mut rearm) = (0, false);
        while self.scoreboard.retransmitted < self.scoreboard.lost
            && let Some((start, end)) = self.next_lost(seq)
        {
            self.rtx.set_retransmit_hint(start);
            let room = self.window_room();
            //= RFC 8985, 9.3
            //# A segment marked as lost by RACK-TLP MUST NOT be retransmitted until congestion control deems this
            //# appropriate.
            if self.waits_for_pacing(now) || room == 0 {
                break;
            }
            let end = end.min(start + u64::from(self.burst_now(room, false, config)));
            let count = 1 + index_u32((start + 1..end).take_while(|&seq| self.waits_to_leave(seq)).count());
            rearm |= start == self.view.snd_una && self.pending != Pending::Reordering;
            self.retransmit(start, count, now, out);
            total += count;
            seq = start + u64::from(count);
            self.rtx.set_retransmit_hint(seq);
        }
        if self.reducing() {
            //= RFC 6937, 3
            //# prr_out += (data sent) // strictly less than or equal to sndcnt
            self.recovery.prr.out += total;
        }
        if total > 0 {
            self.tell_sent(total, true, now);
        }
        //= RFC 6675, 6 (departs: re-armed where the oldest segment is sent again)
        //# re-arms the RTO timer on each retransmission that is sent during recovery MAY be used.
        if rearm {
            self.set_timer(Pending::Timeout, self.rtt.rto(), now);
        }
    }

    /// The first segment from `seq` on that waits to be retransmitted, and the end of the hole that it lies in.
    fn next_lost(&self, mut seq: u64) -> Option<(u64, u64)> {
        while let Some((start, end)) = self.rtx.next_hole(seq, self.view.snd_nxt) {
            //= RFC 6675, 4 (departs: what RACK marked, in place of the three criteria)
            //# If there exists a smallest unSACKed sequence number 'S2' that meets the following three criteria for
            //# determining loss, the sequence range of one segment of up to SMSS octets starting with S2 MUST be
            //# returned.
            if let Some(lost) = (start..end).find(|&seq| self.waits_to_leave(seq)) {
                return Some((lost, end));
            }
            seq = end;
        }
        None
    }

    /// True if a segment is lost and was not sent again since.
    fn waits_to_leave(&self, seq: u64) -> bool {
        self.rtx.flags(seq) & (flags::LOST | flags::SACKED | flags::RETRANSMITTED) == flags::LOST
    }

    /// Sends segments again and counts them as retransmissions in flight (tcp_retransmit_skb).
    pub(super) fn retransmit(&mut self, start: u64, count: u32, now: Time, out: &mut Vec<Outgoing>) {
        self.resend(start, count, now, out);
        for seq in start..start + u64::from(count) {
            // After an undo a retransmission may be in flight of what is not lost; on a timeout the head leaves once
            // more.
            self.scoreboard.retransmitted += u32::from(self.rtx.flags(seq) & flags::RETRANSMITTED == 0);
            self.rtx.set_flags(seq, flags::RETRANSMITTED, 0);
        }
        self.recovery.undo.on_retransmission(count, Self::tsval(now));
    }

    /// Sends segments again; only while tracking.
    pub(super) fn resend(&mut self, start: u64, count: u32, now: Time, out: &mut Vec<Outgoing>) {
        let stamp = Micros::of(now);
        for seq in start..start + u64::from(count) {
            let alone = self.rtx.retransmit(seq, Transmission::new(seq, 1, stamp, self.view.delivered, true));
            if alone && self.needs.rate {
                self.push_start(1);
            }
            //= RFC 8985, 6.1
            //# Upon retransmitting a segment, set Segment.retransmitted to TRUE.
            self.rtx.set_flags(seq, flags::EVER_RETRANSMITTED, 0);
        }
        self.totals.retransmitted += u64::from(count);
        self.leave(Outgoing { start, count, retransmission: true }, now, out);
    }
}
