//! The plain ACK: it acknowledges new data in order while nothing is SACKed, lost, retransmitted, probed for or marked.
//!
//! Nearly all ACKs are plain, and for them most of what `ack.rs` asks is known beforehand. So they take this shorter
//! way to the same end; a test holds the two against each other.

use super::queue::Burst;
use super::{AckInfo, Config, Departure, Pending, Sender};
use knee_cc::{Ack, CaState, RateSample, View};
use knee_core::Time;
use knee_core::packet::MTU;

impl Sender {
    /// Whether an ACK is plain.
    #[inline]
    pub(super) fn is_plain(&self, ack: &AckInfo) -> bool {
        self.snd_una < ack.seq
            && ack.seq <= self.snd_nxt
            && ack.blocks.is_empty()
            && !ack.ece
            && self.state == CaState::Open
            && self.tlp_end == 0
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
        let stamp = now.floor_to(Time::from_micros(1));
        let (prior_una, prior_in_flight) = (self.snd_una, self.packets_out());
        let acked = (ack.seq - prior_una) as u32;
        let start = self.needs.rate.then(|| self.rtx.start_of(ack.seq - 1));
        let (oldest, Burst { sent, delivered: prior_delivered, .. }) = self.rtx.acknowledge(prior_una, ack.seq)?;
        self.snd_una = ack.seq;
        self.tsecr = ack.tsecr;
        self.backoffs = 0;
        self.delivered += u64::from(acked);
        self.first_tx = sent;
        self.count_acknowledged(acked);
        self.rack_advance(sent, ack.seq, 0, stamp);
        let rtt = stamp.saturating_sub(sent);
        self.rtt.sample(stamp.saturating_sub(oldest), rtt, stamp, self.snd_una, self.snd_nxt);
        let mut event = Ack {
            view: View { in_flight: self.packets_out(), ..self.view(now) },
            rtt: Some(rtt),
            acked,
            delivered: acked,
            lost: 0,
            prior_in_flight,
            prior_una,
            cwnd_limited: self.is_cwnd_limited(),
            ece: false,
            rate: RateSample::NONE,
        };
        if let Some(start) = &start {
            event.rate = self.rate_since(sent, start, false, acked == 1, stamp);
        }
        let cwnd = self.control.cwnd;
        if let Some(cc) = &mut self.cc {
            cc.on_plain_ack(&event, &mut self.control);
        }
        if self.control.cwnd != cwnd {
            self.cwnd_was(cwnd, now);
        }
        self.update_reordering_window(prior_delivered);
        self.finish_rate(stamp, acked);
        self.update_pacing_rate();
        if self.window_alone_limits(config) {
            self.send_in_window(stamp, now, config, out);
        } else {
            self.send_after_plain(now, config, out);
        }
        Some(rtt)
    }

    #[inline(never)]
    fn send_after_plain(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        let before = self.snd_nxt;
        self.send(now, config, out);
        if self.snd_nxt == before {
            self.set_ack_timer(now, config);
        }
    }

    /// Whether only the window says what may leave after a plain ACK: nothing is paced, and neither the transfer nor the
    /// receive window ends within it. Where nothing is in flight any more, `send_new` has to tell the algorithm.
    #[inline]
    fn window_alone_limits(&self, config: &Config) -> bool {
        let ahead = self.snd_nxt.max(self.snd_una + u64::from(self.control.cwnd));
        let ends = self.end.min(self.snd_una + config.receive_window);
        !self.paced && self.packets_out() > 0 && ahead < ends
    }

    /// Sends as `send_new` does where the window alone limits: most often nothing, or a single burst.
    #[inline]
    fn send_in_window(&mut self, stamp: Time, now: Time, config: &Config, out: &mut Vec<Departure>) {
        let before = self.snd_nxt;
        let mut room = self.control.cwnd.saturating_sub(self.packets_out());
        while room > 0 && !(config.tso && self.should_defer(room, || self.burst_limit(config), now, config)) {
            let count = self.burst_within(room, config);
            self.depart_plain(count, stamp, now, out);
            room -= count;
        }
        self.window_limited(now);
        // As `schedule_probe`: no later than the timeout, which runs from now where nothing left, from the oldest segment
        // where something did.
        let sent = (self.snd_nxt - before) as u32;
        let timeout = if sent == 0 { Some(self.rtt.rto()) } else { self.timeout_left(now) };
        let span = self.probe_span(config);
        self.set_timer(Pending::Probe, timeout.map_or(span, |timeout| span.min(timeout)), now);
        if sent > 0 {
            self.tell_sent(sent, false, now);
        }
    }

    /// New segments leave in one burst, unpaced, neither the first in flight nor the last of the transfer.
    #[inline]
    fn depart_plain(&mut self, count: u32, stamp: Time, now: Time, out: &mut Vec<Departure>) {
        let start = self.snd_nxt;
        let burst = self.new_burst(start, count, false, stamp);
        self.push(burst);
        self.snd_nxt += u64::from(count);
        self.pace_next = self.pace_next.max(now);
        self.count_sent(Departure { start, count, retransmission: false }, u64::from(count) * u64::from(MTU), out);
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
                prop_assert_eq!(state(&short), state(&long));
                if short.pace_at <= now {
                    short.on_pace(now, &config, &mut Vec::new());
                    long.on_pace(now, &config, &mut Vec::new());
                }
            }
        }
    }
}
