//! How many segments leave at once (TSO), and whether to wait until more may.

use super::micros::Micros;
use super::{Config, Sender};
use knee_cc::CaState;
use knee_core::convert::saturating_u32;
use knee_core::packet::MSS;
use knee_core::{Rate, Time};

/// Largest burst a host hands down at once, in segments: 64 KiB less headers (sk_gso_max_size).
const MAX_BURST: u64 = 45;
/// Segments per unit of the first writes, made while the receiver has offered 64 KiB: half of that at the most
/// (tcp_bound_to_half_wnd).
const EARLY_WRITE: u64 = 22;
/// Whole segments in the application's first write of 2 MiB, all of which the kernel takes before it learns of a larger
/// window. It belongs to the application: any write that ends in the same unit gives the same bursts
/// (docs/fidelity.md).
const FIRST_WRITE: u64 = (2 << 20) / MSS as u64;
/// Largest burst in bytes, as the sizing formula counts it.
const MAX_BURST_BYTES: u64 = 65_536 - 321;
/// Bursts are sized to 2^-10 s of the pacing rate (sk_pacing_shift).
const PACING_SHIFT: u32 = 10;
/// A window's part that is sent without waiting for more (tcp_tso_win_divisor).
const WINDOW_DIVISOR: u64 = 3;
/// Waiting for a larger burst is worth while when an ACK is due within this time.
const DEFER: Time = Time::from_millis(1);

/// Segments that the unit of the write queue which holds `snd_nxt` has from there on.
///
/// The second write fills the unit in which the first one ended, and those after it, to the largest burst.
const fn left_of_write(snd_nxt: u64, initial_window: u32) -> u32 {
    let first = initial_window as u64;
    let early = first + FIRST_WRITE.saturating_sub(first) / EARLY_WRITE * EARLY_WRITE;
    let left = if snd_nxt >= early {
        MAX_BURST - (snd_nxt - early) % MAX_BURST
    } else if snd_nxt < first {
        // The first unit loses the initial window at once and is filled up again.
        let unit = if early > first { EARLY_WRITE } else { MAX_BURST };
        first + unit - snd_nxt
    } else {
        EARLY_WRITE - (snd_nxt - first) % EARLY_WRITE
    };
    saturating_u32(left)
}

impl Sender {
    /// Largest burst now, in segments (tcp_tso_autosize).
    #[inline]
    pub(super) fn burst_limit(&self, config: &Config) -> u32 {
        if !config.tso {
            return 1;
        }
        let rate = self.control.pacing_rate.map_or_else(|| self.own_bytes_per_sec(), Rate::as_bytes_per_sec);
        let mut bytes = rate >> PACING_SHIFT;
        if let Some(min_rtt) = self.rtt.min_rtt_us() {
            let shift = min_rtt >> config.tso_rtt_log;
            bytes += if shift < 32 { MAX_BURST_BYTES >> shift } else { 0 };
        }
        let segments = bytes.min(MAX_BURST_BYTES) as u32 / u32::from(MSS);
        segments.clamp(self.least_burst(), saturating_u32(MAX_BURST)).min(u32::from(self.control.max_burst).max(1))
    }

    /// Least value of [`Sender::burst_limit`] with TSO, in segments.
    pub(super) fn least_burst(&self) -> u32 {
        u32::from(self.control.min_burst.min(self.control.max_burst)).min(saturating_u32(MAX_BURST))
    }

    /// Size of the burst that leaves now of at most `room` segments, at least 1; 0: it is better to wait for a larger
    /// one, if it may `wait`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with nearly every ACK, and mostly the first comparison")]
    pub(super) fn burst_now(&self, room: u32, wait: bool, config: &Config) -> u32 {
        let least = self.least_burst();
        // No burst limit is below that, so it need not be worked out.
        if config.tso && (room < least || room == least && !wait) {
            return if wait { 0 } else { room };
        }
        let max = self.burst_limit(config);
        if wait && room < max { 0 } else { room.min(max) }
    }

    /// True if it may be better to wait for the next ACK and send a larger burst than `room` (tcp_tso_should_defer).
    pub(super) fn may_wait(&self, room: u32, now: Time, config: &Config) -> bool {
        config.tso
            && !matches!(self.view.ca, CaState::Recovery | CaState::Loss)
            && self.packets_out() > 0
            && self.may_defer(room, self.rtx.burst_of(self.view.snd_una).sent(), now, config)
    }

    /// Answers as [`Sender::may_wait`] where nothing is being repaired and the oldest segment in flight was sent at
    /// `oldest`.
    pub(super) fn may_defer(&self, room: u32, oldest: Micros, now: Time, config: &Config) -> bool {
        if now.saturating_sub(self.view.paced_until) > DEFER
            || u64::from(room) * WINDOW_DIVISOR
                >= u64::from(self.control.cwnd).min(self.offered_window(config))
            // The application writes in such units; the rest of one is filled up from the next.
            || room >= left_of_write(self.view.snd_nxt, config.initial_window)
        {
            return false;
        }
        let srtt = Time::from_nanos(self.rtt.srtt8_us() * 125);
        oldest.time() + srtt <= now + DEFER.min(srtt / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use crate::sender::SenderInit;
    use crate::sender::testing::config;

    /// Segments in a burst of a flow paced at 50 Mbit/s, whose millisecond (2^-10 s) holds 6103 bytes.
    fn burst(rtt_us: u64, tso_rtt_log: u32) -> u32 {
        let config = config(true, tso_rtt_log, 1000);
        let needs = knee_cc::find("reno").unwrap().needs;
        let mut sender = Sender::new(&SenderInit { needs, paced: false, ecn: Ecn::OFF, bytes: None }, &config);
        sender.connect(Time::ZERO);
        sender.establish(Some(Time::from_micros(rtt_us)), Time::from_micros(rtt_us));
        sender.control.pacing_rate = Some(Rate::from_bytes_per_sec(6_250_000));
        sender.burst_limit(&config)
    }

    #[test]
    fn bursts_hold_a_millisecond_of_the_rate() {
        // 6103 / 1448 = 4.2.
        assert_eq!(burst(20_000, 9), 4);
    }

    #[test]
    fn bursts_are_larger_on_short_paths() {
        // (6103 + 65215 / 2^2) / 1448 = 15.5 at 1.2 ms; all that a burst may have below 512 us.
        assert_eq!(burst(1_200, 9), 15);
        assert_eq!(burst(300, 9), 45);
    }

    #[test]
    fn before_linux_5_18_they_were_not() {
        assert_eq!(burst(300, 0), 4);
    }

    #[test]
    fn units_of_the_write_queue_follow_one_another() {
        for window in [1, 3, 10, 32, 100, 1440, 2000] {
            for segment in 0..3000 {
                let (left, next) = (left_of_write(segment, window), left_of_write(segment + 1, window));
                assert!(next + 1 == left || left == 1, "window {window}, segment {segment}: {left}, then {next}");
            }
        }
        // 10 + 65 x 22 = 1440 is the last end of a unit of 22 before 2 MiB, which are 1448.3 segments; 1440 + 45 =
        // 1485.
        let ends: Vec<u64> =
            (1380..1540).filter(|&segment| left_of_write(segment, 10) == 1).map(|last| last + 1).collect();
        assert_eq!(ends, [1396, 1418, 1440, 1485, 1530]);
    }
}
