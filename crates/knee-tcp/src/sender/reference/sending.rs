//! Departures (tcp_write_xmit, tcp_xmit_retransmit_queue) and their bookkeeping.

use super::{Reference, Segment, stamp};
use crate::sender::micros::Micros;
use crate::sender::rate::RateStart;
use crate::sender::{Outgoing, Pending, Resend};
use knee_cc::{CaState, Sent, StateEvent};
use knee_core::packet::{MSS, MTU};
use knee_core::{Bytes, Rate, Time};

impl Reference {
    /// The first window, or what may leave after the pacing timer.
    pub fn send(&mut self, now: Time) {
        self.write_xmit(false, now);
    }

    pub(super) fn xmit_recovery(&mut self, resend: Resend, now: Time) {
        let mut lost = resend == Resend::Lost;
        if resend == Resend::New {
            self.write_xmit(false, now);
            // RFC 5682: new data shows whether the timeout was spurious; where there was no room, it is not known.
            lost = self.view.snd_nxt <= self.high_seq;
            self.frto &= !lost;
        }
        if lost {
            self.xmit_retransmit_queue(now);
        }
        self.write_xmit(false, now);
    }

    pub(super) fn write_xmit(&mut self, probe: bool, now: Time) {
        let next = self.view.snd_nxt;
        if self.control.restart_pacing && self.held_back && self.window_room() > 0 {
            self.held_back = false;
            let interval = now.saturating_add(self.rate().time_for(Bytes(u64::from(MSS))));
            self.view.paced_until = self.view.paced_until.max(interval);
        }
        let mut waits = false;
        while self.view.snd_nxt < self.end && !self.waits_for_pacing(now) {
            let window = self.view.snd_una + self.offered_window() - self.view.snd_nxt;
            let cwnd = self.window_room().max(u32::from(probe));
            let room = u64::from(cwnd).min(window);
            if room == 0 {
                break;
            }
            let left = self.end - self.view.snd_nxt;
            let most = self.tso_segs();
            waits = !probe && left > room && room < most && self.tso_should_defer(room, now);
            if waits {
                // tcp_tso_should_defer: the receive window is no limit by the congestion window.
                waits = room < window;
                break;
            }
            self.transmit_new(room.min(most).min(left), now);
            if probe {
                break;
            }
        }
        let sent = (self.view.snd_nxt - next) as u32;
        self.held_back = waits || self.in_flight() >= self.control.cwnd;
        if self.held_back || sent > 0 {
            self.cwnd_validate(now);
        }
        if sent > 0 {
            if matches!(self.view.ca, CaState::Cwr | CaState::Recovery) {
                self.prr_out += sent;
            }
            if !probe {
                self.schedule_loss_probe(false, now);
            }
            self.tell_sent(sent, false, now);
        }
    }

    /// The receive window: two segments of 1460 bytes more for each packet delivered, up to the bound, in units of its
    /// scale, which is such that 16 bits hold the bound.
    pub(super) fn offered_window(&self) -> u64 {
        let (config, bytes) = (&self.case.config, 65_535 + 2_920 * (self.view.delivered - 1));
        let open = self.needs().open_window || bytes >= config.window_growth;
        if open {
            return config.receive_window;
        }
        let unit =
            (0..=14).map(|scale| 1 << scale).find(|unit| config.window_growth / unit < 65_536).unwrap_or(1 << 14);
        config.receive_window.min(bytes.div_ceil(unit) * unit / 1448)
    }

    fn tell_sent(&mut self, packets: u32, retransmission: bool, now: Time) {
        if self.needs().sent {
            self.ask(now, |cc, view, control| cc.on_sent(&Sent { view, packets, retransmission }, control));
        }
    }

    fn waits_for_pacing(&mut self, now: Time) -> bool {
        let waits = self.paced() && self.view.paced_until > now;
        if waits {
            self.pace_at = self.view.paced_until;
        }
        waits
    }

    fn paced(&self) -> bool {
        self.case.init.paced || self.needs().pacing
    }

    /// tcp_update_pacing_rate.
    pub(super) fn update_pacing_rate(&mut self) {
        self.pace_window = self.control.cwnd.max(self.packets_out());
        self.pace_doubled = self.control.cwnd < self.control.ssthresh / 2;
    }

    pub(super) fn rate(&self) -> Rate {
        // mss * 8 / srtt8 times 2 or 1.2, in bytes a second.
        let percent = if self.pace_doubled { 200 } else { 120 };
        let bytes = u128::from(MSS) * 8 * 1_000_000 * u128::from(self.pace_window) * percent / 100;
        let own = u64::try_from(bytes / u128::from(self.rtt.srtt8.max(1))).unwrap_or(u64::MAX);
        self.control.pacing_rate.unwrap_or_else(|| Rate::from_bytes_per_sec(own.min(Rate::MAX.as_bytes_per_sec())))
    }

    /// tcp_tso_autosize.
    fn tso_segs(&self) -> u64 {
        if !self.case.config.tso {
            return 1;
        }
        let most = 65_536 - 321;
        let shift = self.rtt.min_rtt_us().map_or(64, |least| least >> self.case.config.tso_rtt_log);
        let near = if shift < 32 { most >> shift } else { 0 };
        let bytes = ((self.rate().as_bytes_per_sec() >> 10) + near).min(most);
        (bytes / u64::from(MSS)).max(u64::from(self.control.min_burst)).min(45).min(u64::from(self.control.max_burst))
    }

    /// tcp_tso_should_defer.
    fn tso_should_defer(&self, room: u64, now: Time) -> bool {
        let Some(head) = self.segments.front() else { return false };
        let ms = Time::from_millis(1);
        if !self.case.config.tso
            || matches!(self.view.ca, CaState::Recovery | CaState::Loss)
            || now.saturating_sub(self.view.paced_until) > ms
            || 3 * room >= self.offered_window().min(self.control.cwnd.into())
            || room >= self.left_of_write()
        {
            return false;
        }
        // An ACK is due within a millisecond or half an RTT.
        let srtt = Time::from_nanos(self.rtt.srtt8 * 125);
        Time::from_micros(head.sent) + srtt <= now + ms.min(srtt / 2)
    }

    /// Segments that the application's write still holds: units of 22 segments behind the initial window, as far as a
    /// first write of 2 MiB (1448 segments) fills them, then of 45.
    fn left_of_write(&self) -> u64 {
        let (next, first) = (self.view.snd_nxt, u64::from(self.case.config.initial_window));
        let mut end = first;
        while end == first || end <= next {
            end += if end + 22 <= 1448 { 22 } else { 45 };
        }
        end - next
    }

    fn transmit_new(&mut self, count: u64, now: Time) {
        let (start, us) = (self.view.snd_nxt, now.as_micros());
        let was_empty = self.segments.is_empty();
        if was_empty {
            (self.first_tx, self.delivered_at) = (us, us);
        }
        let segment = self.segment(us, count as u32);
        if self.in_flight() == 0 {
            self.tell(StateEvent::Restart, now);
        }
        self.segments.extend((0..count).map(|_| segment));
        self.view.snd_nxt += count;
        if (was_empty || self.pending == Pending::Probe) && !self.may_probe() {
            self.rearm_rto(now);
        }
        self.leave(start, count, false, now);
        self.last_sent = Some((start + count, us, false, segment));
    }

    /// Segments as they are sent now (tcp_rate_skb_sent).
    fn segment(&self, us: u64, count: u32) -> Segment {
        let start = RateStart {
            first_tx: Micros(self.first_tx),
            delivered_at: Micros(self.delivered_at),
            delivered: self.view.delivered,
            delivered_ce: self.view.delivered_ce as u32,
            lost: self.view.lost as u32,
            in_flight: self.in_flight() + count,
            app_limited: self.view.app_limited,
        };
        let delivered = self.view.delivered;
        let (sacked, lost, retrans, ever_retrans) = (false, false, false, false);
        Segment { sent: us, delivered, start, sacked, lost, retrans, ever_retrans, listed: true }
    }

    /// tcp_update_skb_after_send.
    fn leave(&mut self, start: u64, count: u64, retransmission: bool, now: Time) {
        let short = if start + count == self.end { u64::from(MSS) - self.last_payload } else { 0 };
        let payload = count * u64::from(MSS) - short;
        self.sent += count;
        self.sent_bytes += payload + count * u64::from(MTU - MSS);
        let prior = self.view.paced_until;
        self.view.paced_until = prior.max(now);
        if self.paced() && self.sent >= 10 {
            let span = self.rate().time_for(Bytes(payload));
            let credit = (self.view.paced_until - prior).min(span / 2);
            self.view.paced_until = self.view.paced_until.saturating_add(span - credit);
        }
        self.out.push(Outgoing { start, count: count as u32, retransmission });
    }

    pub(super) fn xmit_retransmit_queue(&mut self, now: Time) {
        let waits = |segment: &Segment| segment.lost && !segment.sacked && !segment.retrans;
        let (mut total, mut rearm) = (0, false);
        while self.retrans_out() < self.lost_out()
            && let Some(place) = self.segments.iter().position(waits)
        {
            let room = self.window_room();
            if self.waits_for_pacing(now) || room == 0 {
                break;
            }
            let most = self.tso_segs().min(room.into()) as usize;
            let count = self.segments.iter().skip(place).take(most).take_while(|segment| waits(segment)).count();
            rearm |= place == 0 && self.pending != Pending::Reordering;
            self.retransmit_skb(self.view.snd_una + place as u64, count as u64, now);
            if matches!(self.view.ca, CaState::Cwr | CaState::Recovery) {
                self.prr_out += count as u32;
            }
            total += count as u32;
        }
        if total > 0 {
            self.tell_sent(total, true, now);
        }
        if rearm {
            self.set_timer(Pending::Timeout, self.rtt.rto(), now);
        }
    }

    pub(super) fn retransmit_skb(&mut self, start: u64, count: u64, now: Time) {
        self.resend(start, count, now);
        (start..start + count).for_each(|seq| self.at(seq).retrans = true);
        if self.retrans_stamp == 0 {
            self.retrans_stamp = stamp(now);
        }
        self.undo_retrans = self.undo_retrans.max(0) + count as i64;
    }

    pub(super) fn resend(&mut self, start: u64, count: u64, now: Time) {
        let us = now.as_micros();
        for seq in start..start + count {
            // Segments sent again in a row at one time, with nothing delivered in between, are one transmission. For
            // the kernel each is its own (tcp_rate_skb_sent); that shows in `in_flight` alone.
            let delivered = self.view.delivered;
            let sent = match self.last_sent {
                Some((end, at, true, segment)) if (end, at, segment.delivered) == (seq, us, delivered) => segment,
                _ => self.segment(us, 1),
            };
            self.last_sent = Some((seq + 1, us, true, sent));
            let before = *self.at(seq);
            let (sacked, lost, retrans) = (before.sacked, before.lost, before.retrans);
            *self.at(seq) = Segment { sacked, lost, retrans, ever_retrans: true, ..sent };
        }
        self.retransmitted += count;
        self.leave(start, count, true, now);
    }

    /// tcp_cwnd_validate.
    fn cwnd_validate(&mut self, now: Time) {
        let limited = self.held_back;
        let out = self.packets_out();
        if self.view.snd_una >= self.cwnd_usage_end || limited || !self.cwnd_limited && out > self.max_packets_out {
            self.cwnd_limited = limited;
            self.max_packets_out = out;
            self.cwnd_usage_end = self.view.snd_nxt;
        }
        if self.is_cwnd_limited() {
            (self.cwnd_used, self.cwnd_stamp) = (0, now);
            return;
        }
        self.cwnd_used = self.cwnd_used.max(out);
        let shrinks = self.case.config.slow_start_after_idle && !self.needs().full_control;
        if shrinks && now - self.cwnd_stamp >= self.rtt.rto() {
            // tcp_cwnd_application_limited (RFC 2861).
            if self.view.ca == CaState::Open {
                let used = self.cwnd_used.max(self.case.config.initial_window);
                if used < self.control.cwnd {
                    self.control.ssthresh = self.current_ssthresh();
                    self.control.cwnd = u32::midpoint(self.control.cwnd, used);
                }
                self.cwnd_used = 0;
            }
            self.cwnd_stamp = now;
        }
    }

    pub(super) fn is_cwnd_limited(&self) -> bool {
        let slow_start = self.control.cwnd < self.control.ssthresh;
        self.cwnd_limited || slow_start && self.control.cwnd < 2 * self.max_packets_out
    }

    pub fn on_pace(&mut self, now: Time) {
        self.pace_at = Time::MAX;
        if self.lost_out() > self.retrans_out() && self.window_room() > 0 {
            self.xmit_retransmit_queue(now);
        }
        self.send(now);
    }
}
