//! The pacer: a bucket of tokens that fills at the pacing rate and holds a burst.
//!
//! The bucket counts missing tokens in bits times 10^9, of which a rate in bits per second adds a whole number each
//! nanosecond: nothing is lost to rounding.

use super::{Record, Sender};
use crate::config::{Config, Factor, Settings};
use knee_cc::CaState;
use knee_core::convert::count_u32;
use knee_core::{Bytes, Rate, Time};

/// Units of the bucket in a byte. A burst is at most 10,000 packets of 65,527 bytes, 5 * 10^18 units.
const BYTE: u64 = 8_000_000_000;

/// Most packets of a burst that is a time's: quinn's.
const MOST_OF_A_TIME: u64 = 256;

/// The pacing clock of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    on: bool,
    /// Units missing in the bucket at `at`.
    missing: u64,
    at: Time,
    /// The number after the packets that leave at once since none was in flight before.
    first_burst: Option<u64>,
    /// When it lets the next packet leave; `Time::MAX` where no packet waits for it.
    pub due: Time,
}

impl Pacer {
    /// A full bucket.
    pub const fn new(on: bool) -> Self {
        Self { on, missing: 0, at: Time::ZERO, first_burst: None, due: Time::MAX }
    }

    /// True if it paces.
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Packets are paced again, whatever was in flight.
    pub const fn end_first_burst(&mut self) {
        self.first_burst = None;
    }

    fn refill(&mut self, now: Time, rate: Rate) {
        let added = (now.saturating_sub(self.at)).as_nanos().saturating_mul(rate.as_bps());
        (self.missing, self.at) = (self.missing.saturating_sub(added), now);
    }

    /// How many packets of `size` bytes may leave now, up to a record's, if the bucket holds `burst` bytes; if none,
    /// since when they may.
    fn allows(&mut self, now: Time, rate: Rate, size: u64, burst: u64) -> Result<u32, Time> {
        self.refill(now, rate);
        let (each, bucket) = (size * BYTE, burst * BYTE);
        let count = bucket.saturating_sub(self.missing) / each;
        if count > 0 {
            return Ok(count_u32(count.min(u64::from(Record::MOST))));
        }
        let excess = self.missing.saturating_add(each) - bucket;
        let wait = if rate == Rate::ZERO { u64::MAX } else { excess.div_ceil(rate.as_bps()) };
        Err(now.saturating_add(Time::from_nanos(wait)))
    }

    /// When the bucket is full, if nothing leaves before.
    fn full_at(&self, now: Time, rate: Rate) -> Time {
        let wait = if rate == Rate::ZERO { u64::MAX } else { self.missing.div_ceil(rate.as_bps()) };
        now.saturating_add(Time::from_nanos(wait))
    }

    /// `bytes` leave.
    const fn take(&mut self, bytes: u64) {
        self.missing = self.missing.saturating_add(bytes * BYTE);
    }

    /// Empties the bucket, which holds `burst` bytes.
    fn drain(&mut self, now: Time, rate: Rate, burst: u64) {
        self.refill(now, rate);
        self.missing = self.missing.max(burst * BYTE);
    }
}

impl Sender {
    /// The pacing rate: the algorithm's, else a multiple of a window per RTT; where the algorithm asks for pacing and
    /// sets no rate, Linux's multiple (`tcp_update_pacing_rate`).
    pub fn pacing_rate(&self, config: &Config) -> Rate {
        let starts = self.control.cwnd < self.control.ssthresh;
        self.rate_by(if starts { config.pacing_gain_start } else { config.pacing_gain }, config)
    }

    /// The pacing rate, with `gain` windows per RTT where nothing else says how many.
    fn rate_by(&self, gain: Factor, config: &Config) -> Rate {
        if let Some(rate) = self.control.pacing_rate {
            return rate;
        }
        //= RFC 9002, 7.7
        //# rate = N * congestion_window / smoothed_rtt
        let rate = Rate::over(Bytes(self.window(config)), self.rtt.smoothed());
        if !self.needs.pacing {
            return gain.of_rate(rate);
        }
        rate.mul_div(if self.control.cwnd < self.control.ssthresh / 2 { 20 } else { 12 }, 10)
    }

    /// Packets that leave at once though they are paced: one where the algorithm asks for pacing.
    fn burst(&self, config: &Config) -> u32 {
        //= RFC 9002, 7.7
        //# Senders SHOULD limit bursts to the initial congestion window; see Section 7.2.
        let strict = self.needs.pacing || self.control.pacing_rate.is_some();
        if strict { 1 } else { config.settings.burst.min(u32::from(self.control.max_burst)).max(1) }
    }

    /// How many packets of `size` bytes the pacer lets leave now. If none, its timer is set.
    pub(super) fn paced(&mut self, size: u64, now: Time, config: &Config) -> u32 {
        //= RFC 9002, 7.7
        //# A sender SHOULD pace sending of all in-flight packets based on input from the congestion controller.
        if !self.pacer.on {
            return Record::MOST;
        }
        if config.tunes_pacer {
            return self.paced_otherwise(size, now, config);
        }
        let rate = self.rate_by(config.pacing_gain, config);
        let burst = u64::from(self.burst(config)) * u64::from(config.datagram);
        match self.pacer.allows(now, rate, size, burst) {
            Ok(count) => count,
            Err(due) => {
                (self.pacer.due, self.view.paced_until) = (due, due);
                0
            }
        }
    }

    /// How many packets another bucket than that of RFC 9002 lets leave now. If none, its timer is set.
    #[cold]
    fn paced_otherwise(&mut self, size: u64, now: Time, config: &Config) -> u32 {
        let Settings { refill_whole, least_wait, pacing_least_rtt, gso, .. } = config.settings;
        if self.rtt.smoothed() < pacing_least_rtt {
            return Record::MOST;
        }
        if let Some(count) = self.first_burst(config) {
            return count;
        }
        let rate = self.pacing_rate(config);
        let together = size * u64::from(gso);
        let burst = self.tuned_burst(rate, config);
        match self.pacer.allows(now, rate, together, burst) {
            Ok(count) => (count * gso).min(Record::MOST),
            Err(due) => {
                let due = if refill_whole { self.pacer.full_at(now, rate) } else { due };
                if due.saturating_sub(now) < least_wait {
                    return 1;
                }
                (self.pacer.due, self.view.paced_until) = (due, due);
                0
            }
        }
    }

    /// Packets that leave at once since none was in flight before; none where the bucket decides.
    fn first_burst(&mut self, config: &Config) -> Option<u32> {
        let most = config.settings.burst_first;
        if most > 0 && self.view.in_flight == 0 && self.view.ca == CaState::Open {
            self.pacer.first_burst = Some(self.view.snd_nxt + u64::from(most.min(self.control.cwnd)));
        }
        let end = self.pacer.first_burst?;
        // They take nothing from the bucket.
        self.pacer.missing = 0;
        let packets = count_u32(end.saturating_sub(self.view.snd_nxt).min(u64::from(Record::MOST)));
        if packets == 0 {
            self.pacer.first_burst = None;
        }
        (packets > 0).then_some(packets)
    }

    /// Bytes of a burst, of a part of the window at most, or of a time, unless the algorithm asks for pacing.
    fn tuned_burst(&self, rate: Rate, config: &Config) -> u64 {
        let Settings { burst_share, burst_time, gso, .. } = config.settings;
        let (packets, datagram) = (self.burst(config), u64::from(config.datagram));
        if self.needs.pacing || self.control.pacing_rate.is_some() {
            return u64::from(gso) * datagram;
        }
        let share = self.control.cwnd.checked_div(burst_share).map_or(u32::MAX, |share| share.max(2));
        let bytes = u64::from(packets.min(share).max(gso)) * datagram;
        bytes.max(rate.bytes_in(burst_time).0.min(MOST_OF_A_TIME * datagram))
    }

    /// Books `bytes` that leave now, probes included. The bucket is refilled first where no packet asked for it.
    pub(super) fn pace(&mut self, bytes: u64, now: Time, config: &Config) {
        if self.pacer.on {
            if self.pacer.at < now {
                self.pacer.refill(now, self.pacing_rate(config));
            }
            self.pacer.take(bytes);
        }
    }

    /// Empties the bucket: the next packet leaves a whole interval from now.
    pub(super) fn drain_pacer(&mut self, now: Time, config: &Config) {
        let rate = self.pacing_rate(config);
        self.pacer.drain(now, rate, self.tuned_burst(rate, config));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::{SenderInit, testing};

    /// 1.2 Mbit/s are a packet of 1,200 bytes every 8 ms.
    #[test]
    fn a_burst_leaves_at_once_and_then_a_packet_per_interval() {
        let (rate, mut pacer) = (Rate::from_bps(1_200_000), Pacer::new(true));
        let ms = Time::from_millis;
        assert_eq!(pacer.allows(ms(100), rate, 1200, 12_000), Ok(10));
        pacer.take(12_000);
        assert_eq!(pacer.allows(ms(100), rate, 1200, 12_000), Err(ms(108)));
        assert_eq!(pacer.allows(ms(108), rate, 1200, 12_000), Ok(1));
        pacer.take(1200);
        // 24 ms later three intervals have passed; after a second the bucket is full, and never fuller.
        assert_eq!(pacer.allows(ms(132), rate, 1200, 12_000), Ok(3));
        assert_eq!(pacer.allows(ms(1_000), rate, 1200, 12_000), Ok(10));
        // The last, short packet of a transfer finds room for itself.
        pacer.take(11_900);
        assert_eq!(
            (pacer.allows(ms(1_000), rate, 1200, 12_000), pacer.allows(ms(1_000), rate, 100, 12_000)),
            (Err(ms(1_007) + Time::from_nanos(333_334)), Ok(1))
        );
        assert_eq!(pacer.allows(ms(2_000), Rate::MAX, 1200, 12_000), Ok(10));
    }

    /// Probes ask no pacer, and empty its bucket all the same.
    #[test]
    fn packets_that_did_not_ask_for_it_are_paced_after() {
        let config = Config::default();
        let mut sender = testing::sender("reno", SenderInit::default(), None, &config);
        let now = Time::from_secs(10);
        sender.pace(12_000, now, &config);
        assert_eq!(sender.paced(1200, now, &config), 0);
        assert_eq!(sender.paced(1200, Time::from_secs(20), &config), 10);
    }

    /// Linux's multiples (`tcp_update_pacing_rate`): 2 below half of the threshold, 1.2 from there on. A window of ten
    /// packets in 100 ms are a packet each 5 ms, or 8.333.
    #[test]
    fn where_the_algorithm_asks_for_pacing_packets_leave_one_by_one_at_linuxs_rate() {
        let config = Config::default();
        let mut sender = testing::sender("lola", SenderInit::default(), Some(Time::from_millis(100)), &config);
        let now = Time::from_secs(1);
        for (ssthresh, next) in [(u32::MAX, 5_000_000), (20, 8_333_334)] {
            sender.pacer = Pacer::new(true);
            sender.control.ssthresh = ssthresh;
            assert_eq!(sender.paced(1200, now, &config), 1);
            sender.pace(1200, now, &config);
            assert_eq!((sender.paced(1200, now, &config), sender.pacer.due), (0, now + Time::from_nanos(next)));
        }
    }

    /// Four packets take four times 5 ms; after 15 ms the bucket has three, of which none leaves.
    #[test]
    fn packets_of_a_batch_leave_together() {
        let config = testing::config(|settings| settings.gso = 4);
        let mut sender = testing::sender("lola", SenderInit::default(), Some(Time::from_millis(100)), &config);
        let at = |ms: u64| Time::from_millis(1_000 + ms);
        assert_eq!(sender.paced(1200, at(0), &config), 4);
        sender.pace(4 * 1200, at(0), &config);
        for ms in [0, 15] {
            assert_eq!((sender.paced(1200, at(ms), &config), sender.pacer.due), (0, at(20)));
        }
        assert_eq!(sender.paced(1200, at(20), &config), 4);
    }

    #[test]
    fn a_rate_of_zero_lets_one_burst_leave() {
        let mut pacer = Pacer::new(true);
        assert!(pacer.allows(Time::ZERO, Rate::ZERO, 1200, 1200).is_ok());
        pacer.take(1200);
        assert_eq!(pacer.allows(Time::from_secs(9), Rate::ZERO, 1200, 1200), Err(Time::MAX));
    }
}
