//! The plain ACK: it acknowledges new data in order while nothing is SACKed, lost, retransmitted, probed for or marked.
//!
//! Nearly all ACKs are plain, and for them most of what `ack.rs` asks is known beforehand. So they take this shorter
//! way to the same end; a test holds the two against each other.

use super::micros::Micros;
use super::ring::Burst;
use super::{AckInfo, Config, Departure, Pending, Sender};
use knee_cc::{Ack, CaState, PlainAck, RateSample, View};
use knee_core::Time;

impl Sender {
    /// Whether an ACK is plain.
    #[inline]
    pub(super) fn is_plain(&self, ack: &AckInfo) -> bool {
        self.snd_una < ack.seq
            && ack.seq <= self.snd_nxt
            && ack.blocks.is_empty()
            && !ack.ece
            && self.state == CaState::Open
            && !self.probing
            && !self.rtx.tracking()
    }

    /// Takes a plain ACK. Returns its RTT sample.
    #[inline(never)]
    pub(super) fn take_plain(
        &mut self,
        ack: &AckInfo,
        now: Time,
        config: &Config,
        out: &mut Vec<Departure>,
    ) -> Option<Time> {
        debug_assert_eq!(self.backoffs, 0);
        let stamp = Micros::of(now);
        let start = self.needs.rate.then(|| self.rtx.start_of(ack.seq - 1));
        let (oldest, newest) = self.rtx.acknowledge(ack.seq)?;
        let (prior_una, prior_in_flight) = (self.snd_una, self.packets_out());
        let acked = (ack.seq - prior_una) as u32;
        let cwnd_limited = self.plain_at != Time::ZERO || self.is_cwnd_limited();
        self.snd_una = ack.seq;
        self.tsecr = ack.tsecr;
        self.delivered += u64::from(acked);
        self.plain_at = now;
        self.plain_sent = newest.sent();
        let rtt = stamp.since(newest.sent());
        self.sample_rtts(stamp.since(oldest), rtt, stamp);
        let cwnd = self.control.cwnd;
        let brief = PlainAck { now, rtt: rtt.time(), acked, cwnd_limited };
        if let Some(cc) = &mut self.cc
            && !cc.on_plain_ack(&brief, &mut self.control)
        {
            let mut event = self.describe(&brief, prior_una, prior_in_flight);
            if let Some(start) = &start {
                event.rate = self.rate_since(newest.sent(), start, false, acked == 1, stamp);
            }
            self.measure_and_grow(&event);
        }
        if self.control.cwnd != cwnd {
            self.cwnd_was(cwnd, now);
        }
        if self.widened {
            self.update_reordering_window(newest.delivered);
        }
        if self.needs.rate {
            self.first_tx = newest.sent();
        }
        self.finish_rate(stamp, acked);
        if self.window_alone_limits(config) {
            self.send_in_window(stamp, now, config, out);
        } else {
            self.send_after_plain(now, config, out);
        }
        Some(rtt.time())
    }

    /// All of a plain ACK but its rate sample.
    #[inline]
    fn describe(&self, ack: &PlainAck, prior_una: u64, prior_in_flight: u32) -> Ack {
        let &PlainAck { now, rtt, acked, cwnd_limited } = ack;
        Ack {
            view: View { in_flight: self.packets_out(), ..self.view(now) },
            rtt: Some(rtt),
            acked,
            delivered: acked,
            lost: 0,
            prior_in_flight,
            prior_una,
            cwnd_limited,
            ece: false,
            rate: RateSample::NONE,
        }
    }

    #[inline]
    fn measure_and_grow(&mut self, event: &Ack) {
        if let Some(cc) = &mut self.cc {
            cc.on_whole_ack(event, &mut self.control);
        }
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
        self.rack_advance(self.plain_sent, self.snd_una, 0, Micros::of(at));
        self.update_pacing_rate();
    }

    #[inline(never)]
    fn send_after_plain(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        self.plain_at = Time::ZERO;
        self.book_delivery(now);
        let before = self.snd_nxt;
        self.send(now, config, out);
        if self.snd_nxt == before {
            self.set_ack_timer(now, config);
        }
    }

    /// Whether only the window says what may leave after a plain ACK: nothing is paced, and neither the transfer nor the
    /// receive window ends within it. Where nothing is in flight any more, or wherever it asks for that, `send_new` has to
    /// tell the algorithm.
    #[inline]
    fn window_alone_limits(&self, config: &Config) -> bool {
        let ahead = self.snd_nxt.max(self.snd_una + u64::from(self.control.cwnd));
        let ends = self.end.min(self.snd_una + config.receive_window);
        !self.paced && !self.needs.sent && self.packets_out() > 0 && ahead < ends
    }

    /// Sends as `send_new` does where the window alone limits: most often nothing, or a single burst. That the window
    /// limits is left to be booked.
    #[inline]
    fn send_in_window(&mut self, stamp: Micros, now: Time, config: &Config, out: &mut Vec<Departure>) {
        let before = self.snd_nxt;
        let mut room = self.control.cwnd.saturating_sub(self.packets_out());
        while room > 0 && !(config.tso && self.should_defer(room, || self.burst_limit(config), now, config)) {
            let count = self.burst_within(room, config);
            self.depart_plain(count, stamp, now, out);
            room -= count;
        }
        // As `schedule_probe`: no later than the timeout, which runs from now where nothing left, from the oldest segment
        // where something did.
        let timeout = if self.snd_nxt == before { Some(self.rtt.rto()) } else { self.timeout_left(now) };
        let span = self.probe_span(config);
        self.set_timer(Pending::Probe, timeout.map_or(span, |timeout| span.min(timeout)), now);
    }

    /// New segments leave in one burst, unpaced, neither the first in flight nor the last of the transfer.
    #[inline]
    fn depart_plain(&mut self, count: u32, stamp: Micros, now: Time, out: &mut Vec<Departure>) {
        let start = self.snd_nxt;
        self.push(Burst::new(start, count, stamp, self.delivered, false));
        self.snd_nxt += u64::from(count);
        self.pace_next = now;
        out.push(Departure { start, count, retransmission: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::{config, sender, state};
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
                let seq = (short.snd_una + segments).min(short.snd_nxt);
                let ack = AckInfo { seq, blocks: &[], dsack: false, tsecr: 1, ece: false };
                if !short.is_plain(&ack) {
                    break;
                }
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                let rtt = short.take_plain(&ack, now, &config, &mut out);
                prop_assert_eq!(rtt, long.take_any(&ack, now, &config, &mut expected));
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
