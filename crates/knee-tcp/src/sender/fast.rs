//! The fast path of ACKs (Linux's header prediction): new data is acknowledged in order while nothing is SACKed, lost,
//! retransmitted, probed for or marked, and no limit by the application ends.
//!
//! Nearly all ACKs take it, and for them most of what `ack.rs` asks is known beforehand. A test holds the two paths
//! against each other.

use super::micros::Micros;
use super::ring::Transmission;
use super::transmit::Push;
use super::{AckInfo, Config, Outgoing, Pending, Sender};
use knee_cc::{Ack, CaState, RateSample};
use knee_core::Time;
use knee_core::convert::count_u32;

impl Sender {
    /// True if an ACK takes the fast path.
    pub(super) fn takes_fast_path(&self, ack: &AckInfo) -> bool {
        self.view.snd_una < ack.seq
            && ack.seq <= self.view.snd_nxt
            && ack.part == 0
            && ack.blocks.is_empty()
            && self.tells_no_mark(ack)
            && self.view.ca == CaState::Open
            && !self.tlp.is_outstanding()
            && !self.rtx.tracking()
            && !(self.view.app_limited && self.ends_app_limit(ack.seq))
    }

    /// Takes such an ACK. Returns its RTT sample. `RATE`: whether the algorithm reads rate samples.
    #[inline(never)]
    pub(super) fn ack_fast<const RATE: bool>(
        &mut self,
        seq: u64,
        tsecr: u32,
        now: Time,
        config: &Config,
        out: &mut Vec<Outgoing>,
    ) -> Option<Time> {
        debug_assert!(self.recovery.backoffs == 0 && self.needs.rate == RATE);
        let stamp = Micros::of(now);
        let start = if RATE { Some(self.rtx.start_of(seq - 1)) } else { None };
        let (oldest, newest) = self.rtx.acknowledge::<RATE>(seq)?;
        let (prior_una, prior_in_flight) = (self.view.snd_una, self.packets_out());
        let acked = count_u32(seq - prior_una);
        let cwnd_limited = self.is_cwnd_limited();
        self.view.snd_una = seq;
        self.view.delivered += u64::from(acked);
        self.tsecr = tsecr;
        self.rack_advance(newest.sent(), seq, 0, stamp);
        let rtt = stamp.since(newest.sent());
        self.feed_rtt(stamp.since(oldest), rtt, stamp);
        let rtt = Some(rtt.time());

        let sampled;
        let rate = match &start {
            Some(start) => {
                sampled = self.rate_since(newest.sent(), start, false, acked == 1, stamp);
                self.rate_clock.first_tx = newest.sent();
                self.rate_clock.delivered_at = stamp;
                &sampled
            }
            None => &RateSample::NONE,
        };
        self.ask_with(self.packets_out(), now, |cc, view, control| {
            let (delivered, lost, ece) = (acked, 0, false);
            let part = false;
            let ack =
                Ack { view, rtt, acked, delivered, lost, prior_in_flight, prior_una, part, cwnd_limited, ece, rate };
            cc.on_fast_ack(&ack, control);
        });
        if self.widened {
            self.update_reordering_window(newest.delivered);
        }
        self.update_pacing_rate();
        if self.window_alone_limits(config) {
            self.send_in_window::<RATE>(stamp, now, config, out);
        } else {
            self.send_in_limits(now, config, out);
        }
        rtt
    }

    /// True if the window alone limits sending: nothing is paced, neither the transfer nor the receive window ends
    /// within it, and nothing that happens meanwhile concerns the algorithm.
    fn window_alone_limits(&self, config: &Config) -> bool {
        let ahead = self.view.snd_nxt.max(self.view.snd_una + u64::from(self.control.cwnd));
        let ends = self.end.min(self.view.snd_una + self.offered_window(config));
        !self.paced() && !self.needs.sent && self.packets_out() > 0 && ahead < ends
    }

    /// Sends new segments then: most often none, or a single burst. In the end either the window is full or a larger
    /// burst is waited for.
    fn send_in_window<const RATE: bool>(&mut self, stamp: Micros, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        let mut left = self.rtt.rto();
        let mut room = self.control.cwnd.saturating_sub(self.packets_out());
        if room > 0 {
            let oldest = self.rtx.burst_of(self.view.snd_una).sent();
            let mut sent = false;
            while room > 0 {
                let wait = config.tso && self.may_defer(room, oldest, now, config);
                let count = self.burst_now(room, wait, config);
                if count == 0 {
                    break;
                }
                self.depart_in_window::<RATE>(count, stamp, now, out);
                sent = true;
                room -= count;
            }
            if sent {
                // Once something left, the timeout counts from the oldest segment; if that time is past, there is none.
                left = self.timeout_left_since(oldest, now).unwrap_or(Time::MAX);
            }
        }
        self.note_window_full(now);
        // As `schedule_probe`: no later than the timeout.
        self.set_timer(Pending::Probe, self.probe_span(config).min(left), now);
    }

    /// New segments leave in one burst, neither the first in flight nor the last of the transfer.
    fn depart_in_window<const RATE: bool>(&mut self, count: u32, stamp: Micros, now: Time, out: &mut Vec<Outgoing>) {
        let start = self.view.snd_nxt;
        self.rtx.push_untracked(Transmission::new(start, count, stamp, self.view.delivered, false));
        if RATE {
            self.push_start(count);
        }
        self.view.snd_nxt += u64::from(count);
        self.view.paced_until = now;
        out.push(Outgoing { start, count, retransmission: false });
    }

    /// Sends new segments within all limits.
    #[inline(never)]
    fn send_in_limits(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        let next = self.view.snd_nxt;
        self.send_new(Push::Normal, now, config, out);
        if self.view.snd_nxt == next {
            self.rearm_after_ack(now, config);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::AckInfo;
    use crate::sender::testing::{config, sender, state};
    use proptest::prelude::*;

    /// Without this, the comparison of the two paths would compare nothing.
    #[test]
    fn an_ack_of_new_data_in_order_takes_the_fast_path_and_no_other_does() {
        let config = config(false, 9, 1_000);
        let mut sender = sender("reno", None, false, &config);
        let plain = AckInfo { seq: 4, part: 0, blocks: &[], dsack: false, tsecr: 1, tsval: 0, flags: 0 };
        assert!(sender.takes_fast_path(&plain) && sender.takes_fast_path(&AckInfo { seq: 10, ..plain }));
        let others = [
            AckInfo { seq: 0, ..plain },
            AckInfo { seq: 11, ..plain },
            AckInfo { part: 100, ..plain },
            AckInfo { blocks: &[(6, 7)], ..plain },
            AckInfo { flags: knee_core::Packet::ECE, ..plain },
        ];
        for other in others {
            assert!(!sender.takes_fast_path(&other), "{other:?}");
        }
        // A gap takes the slow one until all of it is repaired.
        let mut now = Time::from_millis(40);
        for end in 2..=6 {
            now += Time::from_millis(1);
            sender.on_ack(&AckInfo { seq: 0, blocks: &[(1, end)], ..plain }, now, &config, &mut Vec::new());
        }
        assert!(!sender.takes_fast_path(&plain));
        now += Time::from_millis(20);
        let all = AckInfo { seq: sender.view.snd_nxt, tsecr: Sender::tsval(now), ..plain };
        sender.on_ack(&all, now, &config, &mut Vec::new());
        let next = AckInfo { seq: all.seq + 1, ..all };
        assert!(sender.takes_fast_path(&next) && sender.counters().retransmitted == 1);
    }

    #[test]
    fn the_window_alone_limits_what_is_neither_paced_nor_about_to_end() {
        let wide = config(false, 9, 1_000);
        assert!(sender("reno", None, false, &wide).window_alone_limits(&wide));
        assert!(!sender("reno", None, true, &wide).window_alone_limits(&wide));
        assert!(!sender("reno", Some(10 * 1448), false, &wide).window_alone_limits(&wide));
        assert!(sender("reno", Some(11 * 1448), false, &wide).window_alone_limits(&wide));
        let narrow = config(false, 9, 10);
        assert!(!sender("reno", None, false, &narrow).window_alone_limits(&narrow));
    }

    proptest! {
        #[test]
        fn both_paths_lead_to_the_same_end(
            cc in prop::sample::select(vec!["reno", "cubic", "nv", "bbr", "lola"]),
            bytes in prop::option::of(1u64..2_000_000),
            paced in any::<bool>(),
            tso in any::<bool>(),
            tso_rtt_log in 0u32..32,
            receive_window in 5u64..500,
            acks in prop::collection::vec((1u64..30, 1u64..20_000), 1..200),
        ) {
            let config = config(tso, tso_rtt_log, receive_window);
            let [mut fast, mut slow] = [(); 2].map(|()| sender(cc, bytes, paced, &config));
            let mut now = Time::from_millis(40);
            for (segments, us) in acks {
                now += Time::from_micros(us);
                let seq = (fast.view.snd_una + segments).min(fast.view.snd_nxt);
                let ack = AckInfo { seq, part: 0, blocks: &[], dsack: false, tsecr: 1, tsval: 0, flags: 0 };
                if !fast.takes_fast_path(&ack) {
                    break;
                }
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                let rtt = fast.on_ack(&ack, now, &config, &mut out);
                prop_assert_eq!(rtt, slow.ack_slow(&ack, now, &config, &mut expected));
                prop_assert_eq!(out, expected);
                fast.note_cwnd(now);
                slow.note_cwnd(now);
                prop_assert_eq!(state(&mut fast), state(&mut slow));
                if fast.pacer.due <= now {
                    fast.on_pace(now, &config, &mut Vec::new());
                    slow.on_pace(now, &config, &mut Vec::new());
                }
            }
        }
    }
}
