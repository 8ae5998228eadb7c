//! Data that an application writes bit by bit: where all of it has been sent, the last segment may be short, and more
//! follows.
//!
//! Sources: Linux net/ipv4/tcp.c (`tcp_sendmsg_locked`: what is written joins the last segment while that has not left;
//! with TCP_NODELAY it leaves at once), tcp_output.c (`tcp_cwnd_restart`).

use super::{Config, Sender};
use knee_cc::StateEvent;
use knee_core::Time;
use knee_core::convert::{saturating_u16, saturating_u32};
use knee_core::packet::MSS;
use std::collections::VecDeque;

/// Short segments that have been sent before more was written.
#[derive(Clone, Default)]
pub(super) struct Stream {
    /// Short segments that are not acknowledged, with their payloads in bytes.
    short: VecDeque<(u64, u16)>,
    /// Bytes by which short segments that are acknowledged were shorter than full ones.
    missing: u64,
}

impl Stream {
    /// Bytes that the segments before `seq` have been shorter than full ones.
    pub(super) fn missing_before(&self, seq: u64) -> u64 {
        let here = self.short.iter().take_while(|&&(at, _)| at < seq);
        self.missing + here.map(|&(_, payload)| u64::from(MSS - payload)).sum::<u64>()
    }

    /// The payload of a segment that is short.
    pub(super) fn payload(&self, seq: u64) -> Option<u16> {
        self.short.iter().find(|&&(at, _)| at == seq).map(|&(_, payload)| payload)
    }
}

impl Sender {
    /// From now on it sends what is written. Before the first write it has nothing to send.
    pub fn open_stream(&mut self) {
        self.end = 0;
        self.last_payload = u32::from(MSS);
        self.stream = Some(Box::default());
    }

    /// True if segments other than the last may be short.
    pub fn has_short_segments(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.short.is_empty())
    }

    /// The application writes `bytes`, at least 1; nothing has been sent since `idle_since`. Gives the segment after
    /// the one with the last of them. Segments that may leave do so with the next [`Sender::send`].
    pub fn write(&mut self, mut bytes: u64, idle_since: Time, now: Time, config: &Config) -> u64 {
        self.check_app_limited();
        self.restart_after_idle(idle_since, now, config);
        let mss = u32::from(MSS);
        if self.last_payload < mss {
            if self.view.snd_nxt < self.end {
                let joins = saturating_u32(bytes.min(u64::from(mss - self.last_payload)));
                self.last_payload += joins;
                bytes -= u64::from(joins);
            } else if let Some(stream) = &mut self.stream {
                // One that a stop has cut short carries what it carried.
                stream.short.push_back((self.end - 1, saturating_u16(u64::from(self.last_payload))));
                self.plain_packets = false;
                self.last_payload = mss;
            }
        }
        if bytes > 0 {
            let segments = bytes.div_ceil(u64::from(mss));
            self.end += segments;
            self.last_payload = saturating_u32(bytes - (segments - 1) * u64::from(mss));
        }
        self.forget_short();
        self.end
    }

    /// Short segments that are acknowledged are only counted.
    fn forget_short(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        while let Some(&(at, payload)) = stream.short.front()
            && at < self.view.snd_una
        {
            stream.missing += u64::from(MSS - payload);
            stream.short.pop_front();
        }
    }

    /// A sender that was idle for longer than the timeout begins with a smaller window (tcp_cwnd_restart; RFC 2861,
    /// 3.1).
    fn restart_after_idle(&mut self, idle_since: Time, now: Time, config: &Config) {
        let rto = self.rtt.rto();
        let idle = now.saturating_sub(idle_since);
        let shrinks = config.slow_start_after_idle && !self.needs.full_control;
        if !self.established || self.packets_out() > 0 || !shrinks || idle <= rto {
            return;
        }
        self.tell(StateEvent::Idle, now);
        self.control.ssthresh = self.current_ssthresh();
        let least = config.initial_window.min(self.control.cwnd);
        let (mut cwnd, mut left) = (self.control.cwnd, idle.saturating_sub(rto));
        while left > Time::ZERO && cwnd > least {
            cwnd >>= 1;
            left = left.saturating_sub(rto);
        }
        self.set_cwnd(cwnd.max(least), now);
        self.window_use.since = now;
        self.window_use.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::sender::testing::{config, stream};
    use crate::sender::{AckInfo, Config, Sender};
    use knee_core::Time;
    use knee_core::packet::{MSS, MTU};
    use proptest::prelude::*;

    const HEADERS: u64 = (MTU - MSS) as u64;

    proptest! {
        /// All that was written is sent, and nothing else: the payloads of all segments add up to it, and a segment is
        /// short only where all that had been written was sent.
        #[test]
        fn segments_carry_what_was_written(writes in prop::collection::vec((1u64..9_000, 0u8..3), 1..40)) {
            let config = config(true, 9, 1 << 30);
            let mut sender = stream("reno", &config);
            let (mut now, mut total, mut out) = (Time::from_millis(100), 0, Vec::new());
            let (mut sizes, mut acked) = (std::collections::BTreeMap::new(), 0);
            for (bytes, what) in writes {
                now += Time::from_millis(1);
                total += bytes;
                let end = sender.write(bytes, now, now, &config);
                prop_assert_eq!(end, sender.end);
                if what > 0 {
                    sender.send(now, &config, &mut out);
                }
                for departure in out.drain(..) {
                    for seq in departure.start..departure.start + u64::from(departure.count) {
                        sizes.insert(seq, u64::from(sender.packet_size(seq)) - HEADERS);
                    }
                }
                // A segment keeps its size once it was sent.
                for (&seq, &size) in sizes.range(acked..) {
                    prop_assert_eq!(u64::from(sender.packet_size(seq)) - HEADERS, size);
                }
                prop_assert_eq!(sender.new_bytes(), sizes.values().sum::<u64>());
                if what == 2 {
                    acked = sender.snd_nxt();
                    let ack = AckInfo { seq: acked, part: 0, blocks: &[], dsack: false, tsecr: 1, tsval: 0, flags: 0 };
                    sender.on_ack(&ack, now, &config, &mut out);
                    prop_assert_eq!(sender.acked_bytes(), sizes.range(..acked).map(|(_, size)| size).sum::<u64>());
                    for departure in out.drain(..) {
                        for seq in departure.start..departure.start + u64::from(departure.count) {
                            sizes.insert(seq, u64::from(sender.packet_size(seq)) - HEADERS);
                        }
                    }
                }
            }
            let left = (sender.snd_nxt()..sender.end).map(|seq| u64::from(sender.packet_size(seq)) - HEADERS);
            prop_assert_eq!(sizes.values().sum::<u64>() + left.sum::<u64>(), total);
            let counters = sender.counters();
            prop_assert_eq!(counters.sent_bytes - HEADERS * counters.sent, sizes.values().sum::<u64>());
        }
    }

    /// tcp_rate_check_app_limited looks as the application writes, not as it has nothing left: retransmissions of a
    /// burst tell of the path.
    #[test]
    fn what_is_sent_is_limited_by_the_application_if_it_was_written_with_nothing_left_to_send() {
        let config = config(true, 9, 1 << 30);
        let mut sender = stream("bbr", &config);
        let now = Time::from_millis(100);
        let later = now + Time::from_millis(20);
        let write = |sender: &mut Sender, segments: u64| {
            sender.write(segments * u64::from(MSS), now, now, &config);
            let limited = sender.view.app_limited;
            sender.send(now, &config, &mut Vec::new());
            assert_eq!(sender.view.app_limited, limited);
            limited
        };
        // An idle sender until the first ACK, which leaves none of it in flight marked.
        assert!(write(&mut sender, 4));
        let ack = |seq| AckInfo { seq, part: 0, blocks: &[], dsack: false, tsecr: 1, tsval: 0, flags: 0 };
        sender.on_ack(&ack(1), later, &config, &mut Vec::new());
        assert!(!sender.view.app_limited);
        // With room in the window until all in flight is delivered; not where the window is full, or data waits.
        assert!(write(&mut sender, 40));
        sender.on_ack(&ack(4), later, &config, &mut Vec::new());
        assert!(sender.view.app_limited);
        sender.on_ack(&ack(5), later, &config, &mut Vec::new());
        assert!(!write(&mut sender, 1));
    }

    #[test]
    fn an_idle_sender_halves_its_window_for_each_timeout_but_not_below_the_initial_one() {
        let config = config(true, 9, 1 << 30);
        let windows = [0, 1, 3, 9].map(|timeouts| {
            let mut sender = stream("reno", &config);
            sender.control.cwnd = 64;
            let rto = sender.rtt.rto();
            let now = Time::from_secs(100);
            sender.write(1, now.saturating_sub(rto * timeouts + Time::from_millis(1)), now, &config);
            sender.control.cwnd
        });
        // tcp_cwnd_restart: it decays once at the first timeout passed, again for each one more; the threshold stays
        // known.
        assert_eq!(windows, [64, 32, 10, 10]);
    }

    #[test]
    fn only_a_sender_that_was_idle_for_longer_than_the_timeout_starts_anew() {
        let usual = config(true, 9, 1 << 30);
        let with = |config: Config, cc: &str, in_flight: bool, idle_rtos: u64| {
            let mut sender = stream(cc, &config);
            let now = Time::from_secs(100);
            let idle_since = now.saturating_sub(sender.rtt.rto() * idle_rtos);
            if in_flight {
                sender.write(1, idle_since, idle_since, &config);
                sender.send(idle_since, &config, &mut Vec::new());
            }
            (sender.control.cwnd, sender.control.ssthresh) = (64, 20);
            sender.write(1, idle_since, now, &config);
            (sender.control.cwnd, sender.control.ssthresh)
        };
        let after = |cc, in_flight, idle_rtos| with(usual, cc, in_flight, idle_rtos);
        // RFC 2861, 3.1: ssthresh becomes three quarters of the window.
        assert_eq!(after("reno", false, 3), (16, 48));
        // One that waited for no longer, one with data in flight, and BBR, which keeps its window itself.
        assert_eq!(after("reno", false, 1), (64, 20));
        assert_eq!(after("reno", true, 3), (64, 20));
        assert_eq!(after("bbr", false, 3), (64, 20));
        // tcp_slow_start_after_idle = 0.
        assert_eq!(with(Config { slow_start_after_idle: false, ..usual }, "reno", false, 3), (64, 20));
    }
}
