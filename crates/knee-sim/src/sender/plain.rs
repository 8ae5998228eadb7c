//! The plain ACK: it acknowledges new data in order while nothing is SACKed, lost, retransmitted, probed for or marked.
//!
//! Nearly all ACKs are plain, and for them most of what `ack.rs` asks is known beforehand. So they take this shorter
//! way to the same end; a test holds the two against each other.

use super::micros::Micros;
use super::ring::Burst;
use super::{Config, Departure, Pending, Sender};
use knee_cc::{Ack, CaState, RateSample};
use knee_core::Time;

impl Sender {
    /// Whether an ACK that acknowledges all before `seq`, without SACK blocks or ECN echo, is plain.
    #[inline]
    pub fn is_plain(&self, seq: u64) -> bool {
        self.view.snd_una < seq
            && seq <= self.view.snd_nxt
            && self.view.ca == CaState::Open
            && !self.probing
            && !self.rtx.tracking()
    }

    /// Takes a plain ACK with this echoed timestamp. Returns its RTT sample.
    #[inline]
    pub fn on_plain_ack(
        &mut self,
        seq: u64,
        tsecr: u32,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
    ) -> Option<Time> {
        if self.needs.rate {
            self.take_plain::<true>(seq, tsecr, now, config, out)
        } else {
            self.take_plain::<false>(seq, tsecr, now, config, out)
        }
    }

    /// `RATE`: whether the algorithm reads rate samples.
    #[inline(never)]
    fn take_plain<const RATE: bool>(
        &mut self,
        seq: u64,
        tsecr: u32,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
    ) -> Option<Time> {
        debug_assert_eq!(self.backoffs, 0);
        let stamp = Micros::of(now);
        debug_assert_eq!(self.needs.rate, RATE);
        let start = if RATE { Some(self.rtx.start_of(seq - 1)) } else { None };
        let (oldest, newest) = self.rtx.acknowledge::<RATE>(seq)?;
        let (prior_una, prior_in_flight) = (self.view.snd_una, self.packets_out());
        let acked = (seq - prior_una) as u32;
        let cwnd_limited = self.plain_at != Time::ZERO || self.is_cwnd_limited();
        self.view.snd_una = seq;
        self.tsecr = tsecr;
        self.view.delivered += u64::from(acked);
        self.plain_at = now;
        self.plain_sent = newest.sent();
        let rtt = stamp.since(newest.sent());
        self.sample_rtts(stamp.since(oldest), rtt, stamp);
        let sampled;
        let rate = match &start {
            Some(start) => {
                sampled = self.rate_since(newest.sent(), start, false, acked == 1, stamp);
                self.first_tx = newest.sent();
                self.delivered_at = stamp;
                &sampled
            }
            None => &RateSample::NONE,
        };
        let rtt_time = Some(rtt.time());
        self.ask(now, |cc, view, control| {
            let ack = Ack {
                view,
                rtt: rtt_time,
                acked,
                delivered: acked,
                lost: 0,
                prior_in_flight,
                prior_una,
                cwnd_limited,
                ece: false,
                rate,
            };
            cc.on_measure(&ack, control);
            control.cwnd = control.cwnd.max(1);
            cc.on_ack(&ack, control);
        });
        if self.widened {
            self.update_reordering_window(newest.delivered);
        }
        if self.view.app_limited {
            self.end_app_limit();
        }
        if self.window_alone_limits(config) {
            self.send_in_window::<RATE>(stamp, now, config, out);
        } else {
            self.send_after_plain(now, config, out);
        }
        Some(rtt.time())
    }

    /// Books what plain ACKs have left open, since nobody asks for it before another kind of event.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.plain_at != Time::ZERO {
            self.book_plain();
        }
    }

    #[inline(never)]
    fn book_plain(&mut self) {
        let at = std::mem::replace(&mut self.plain_at, Time::ZERO);
        self.book_delivery(at);
        self.window_limited(at);
    }

    /// Books the last plain ACK, which came `at` this time.
    fn book_delivery(&mut self, at: Time) {
        self.rack_advance(self.plain_sent, self.view.snd_una, 0, Micros::of(at));
        self.update_pacing_rate();
    }

    #[inline(never)]
    fn send_after_plain(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        self.plain_at = Time::ZERO;
        self.book_delivery(now);
        let before = self.view.snd_nxt;
        self.send(now, config, out);
        if self.view.snd_nxt == before {
            self.set_ack_timer(now, config);
        }
    }

    /// Whether only the window says what may leave after a plain ACK: nothing is paced, and neither the transfer nor the
    /// receive window ends within it. Where nothing is in flight any more, or wherever it asks for that, `send_new` has to
    /// tell the algorithm.
    #[inline]
    fn window_alone_limits(&self, config: &Config) -> bool {
        let ahead = self.view.snd_nxt.max(self.view.snd_una + u64::from(self.control.cwnd));
        let ends = self.end.min(self.view.snd_una + config.receive_window);
        !self.paced && !self.needs.sent && self.packets_out() > 0 && ahead < ends
    }

    /// Sends as `send_new` does where the window alone limits: most often nothing, or a single burst. That the window
    /// limits is left to be booked.
    #[inline]
    fn send_in_window<const RATE: bool>(
        &mut self,
        stamp: Micros,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
    ) {
        let room = self.control.cwnd.saturating_sub(self.packets_out());
        let mut left = self.rtt.rto();
        if room > 0 {
            let oldest = self.rtx.burst_of(self.view.snd_una).sent();
            let count = self.burst_now(room, oldest, now, config);
            if count > 0 {
                self.depart_plain::<RATE>(count, stamp, now, out);
                // It runs from the oldest segment where something left; where it is past, there is none.
                let due = Micros(oldest.0 + self.rtt.rto_us().0).time();
                left = if due > now { due - now } else { Time::MAX };
                if count < room {
                    self.send_rest::<RATE>(room - count, stamp, now, config, out);
                }
            }
        }
        // As `schedule_probe`: no later than the timeout.
        self.set_timer(Pending::Probe, self.probe_span(config).min(left), now);
    }

    /// Sends further bursts of at most `room` segments, at least 1.
    #[inline(never)]
    fn send_rest<const RATE: bool>(
        &mut self,
        mut room: u32,
        stamp: Micros,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
    ) {
        let oldest = self.rtx.burst_of(self.view.snd_una).sent();
        while room > 0 {
            let count = self.burst_now(room, oldest, now, config);
            if count == 0 {
                break;
            }
            self.depart_plain::<RATE>(count, stamp, now, out);
            room -= count;
        }
    }

    /// Size of the burst that leaves now of at most `room` segments, at least 1; 0: it is better to wait for a larger one.
    /// `oldest`: when the oldest segment under way was sent.
    #[inline]
    fn burst_now(&self, room: u32, oldest: Micros, now: Time, config: &Config) -> u32 {
        let patient = config.tso && self.may_defer(room, oldest, now, config);
        let least = self.least_burst();
        if config.tso && (room < least || room == least && !patient) {
            return if patient { 0 } else { room };
        }
        let max = self.burst_limit(config);
        if patient && room < max { 0 } else { room.min(max) }
    }

    /// New segments leave in one burst, unpaced, neither the first in flight nor the last of the transfer.
    #[inline]
    fn depart_plain<const RATE: bool>(&mut self, count: u32, stamp: Micros, now: Time, out: &mut Vec<Departure>) {
        let start = self.view.snd_nxt;
        self.rtx.push_untracked(Burst::new(start, count, stamp, self.view.delivered, false));
        if RATE {
            self.push_start(count);
        }
        self.view.snd_nxt += u64::from(count);
        self.view.paced_until = now;
        out.push(Departure { start, count, retransmission: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::{config, sender, state};
    use crate::sender::{AckInfo, Spares};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_shorter_way_leads_to_the_same_end(
            cc in prop::sample::select(vec!["reno", "cubic", "nv", "bbr", "lola"]),
            bytes in prop::option::of(1u64..2_000_000),
            paced in any::<bool>(),
            tso in any::<bool>(),
            tso_rtt_log in 0u32..32,
            receive_window in 5u64..500,
            acks in prop::collection::vec((1u64..30, 1u64..20_000), 1..200),
        ) {
            let config = config(tso, tso_rtt_log, receive_window);
            let [mut short, mut long] = [(); 2].map(|()| sender(cc, bytes, paced, &config));
            let mut now = Time::from_millis(40);
            for (segments, us) in acks {
                now += Time::from_micros(us);
                let seq = (short.view.snd_una + segments).min(short.view.snd_nxt);
                let ack = AckInfo { seq, blocks: &[], tsecr: 1, flags: 0 };
                if !short.is_plain(seq) {
                    break;
                }
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                let rtt = short.on_ack(&ack, now, &config, &mut out, &mut Spares::default());
                prop_assert_eq!(rtt, long.take_any(&ack, now, &config, &mut expected, &mut Spares::default()));
                prop_assert_eq!(out, expected);
                short.note_cwnd(now);
                long.note_cwnd(now);
                prop_assert_eq!(state(&mut short), state(&mut long));
                if short.pace_at <= now {
                    short.on_pace(now, &config, &mut Vec::new());
                    long.on_pace(now, &config, &mut Vec::new());
                }
            }
        }
    }
}
