//! The plain ACK: it acknowledges new data in order while nothing is SACKed, lost, retransmitted, probed for or marked.
//!
//! Nearly all ACKs are plain, and for them most of what `ack.rs` asks is known beforehand. So they take this shorter
//! way to the same end; a test holds the two against each other.

use super::transmit::left_of_write;
use super::{AckInfo, Config, Departure, Pending, Sender};
use crate::timer::Timer;
use knee_cc::{Ack, CaState};
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
        let (oldest, burst) = self.rtx.acknowledge(prior_una, ack.seq)?;
        self.snd_una = ack.seq;
        self.tsecr = ack.tsecr;
        self.backoffs = 0;
        self.delivered += u64::from(acked);
        self.first_tx = burst.sent;
        self.count_acknowledged(acked);
        self.rack_advance(burst.sent, ack.seq, 0, stamp);
        let rtt = stamp.saturating_sub(burst.sent);
        self.rtt.sample(stamp.saturating_sub(oldest), rtt, stamp, self.snd_una, self.snd_nxt);
        let event = Ack {
            view: self.view(now),
            rtt: Some(rtt),
            acked,
            delivered: acked,
            lost: 0,
            prior_in_flight,
            prior_una,
            cwnd_limited: self.is_cwnd_limited(),
            ece: false,
            rate: self.rate_since(&burst, false, acked == 1, stamp),
        };
        self.ask(now, |cc, control| {
            let mut measured = cc.on_measure(&event, control);
            measured.cwnd = measured.cwnd.max(1);
            cc.on_ack(&event, measured)
        });
        self.update_reordering_window(burst.delivered);
        self.finish_rate(stamp, acked);
        self.update_pacing_rate();
        if self.waits_for_more(now, config) {
            self.set_probe_timer(now, config);
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

    /// The end of most plain ACKs: the window is full, or has room for less than the burst that is worth waiting for.
    /// False: `send_new` has to see.
    #[inline]
    fn waits_for_more(&mut self, now: Time, config: &Config) -> bool {
        let packets_out = self.packets_out();
        let room = self.control.cwnd.saturating_sub(packets_out);
        // Where the transfer or the receive window ends soon, it is for `send_new` to say what limits.
        let ahead = self.snd_nxt + u64::from(room);
        if self.paced || packets_out == 0 || ahead >= self.end || ahead >= self.snd_una + config.receive_window {
            return false;
        }
        let in_write = left_of_write(self.snd_nxt, config.initial_window);
        let waits = room == 0 || config.tso && self.should_defer(room, in_write, self.burst_limit(config), now);
        if waits {
            // As `validate_cwnd` where the window limits.
            self.cwnd_limited = true;
            self.max_packets_out = packets_out;
            self.cwnd_usage_end = self.snd_nxt;
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
        }
        waits
    }

    /// The timer of the loss probe after progress, while something is in flight.
    #[inline]
    fn set_probe_timer(&mut self, now: Time, config: &Config) {
        let span = self.probe_span(config).min(self.rtt.rto());
        self.pending = Pending::Probe;
        self.timer = Timer::set(now, span);
    }
}
