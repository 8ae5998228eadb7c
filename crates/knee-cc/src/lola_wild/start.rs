//! The RTTs of slow start, by bursts of ACKs.
//!
//! Wi-Fi delivers an aggregate of up to 64 packets at once. Its ACKs come together, and all of their RTTs have the time
//! for which the medium was busy: 16 of them are no queue, 16 aggregates are one.

use knee_core::Time;

/// Bursts that are looked at.
const BURSTS: usize = 16;

/// The least RTTs of the last bursts, us.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    rtts: [u64; BURSTS],
    /// How many bursts there have been.
    count: usize,
    /// When the last one began.
    began: Time,
}

impl Recent {
    /// No burst yet.
    pub const NONE: Self = Self { rtts: [0; BURSTS], count: 0, began: Time::ZERO };

    /// Takes an RTT in microseconds at `now`. It is of the last burst if that began less than `burst` ago.
    pub fn update(&mut self, now: Time, rtt: u64, burst: Time) {
        if self.count > 0 && now.saturating_sub(self.began) < burst {
            let last = &mut self.rtts[(self.count - 1) % BURSTS];
            *last = (*last).min(rtt);
        } else {
            self.rtts[self.count % BURSTS] = rtt;
            self.count += 1;
            self.began = now;
        }
    }

    /// The least of them, once there are enough.
    pub fn least(&self) -> Option<u64> {
        self.rtts.iter().copied().min().filter(|_| self.count >= BURSTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RTTs of 50 ms, `apart` microseconds from one to the next.
    fn least(count: u64, apart: u64) -> Option<u64> {
        let mut recent = Recent::NONE;
        for k in 0..count {
            recent.update(Time::from_micros(k * apart), 50_000, Time::from_micros(200));
        }
        recent.least()
    }

    #[test]
    fn sixteen_acks_of_one_aggregate_are_no_queue_and_sixteen_aggregates_are_one() {
        assert_eq!(least(64, 3), None);
        assert_eq!(least(15, 200), None);
        assert_eq!(least(16, 200), Some(50_000));
    }

    #[test]
    fn the_least_rtt_of_a_burst_counts_until_sixteen_later_ones() {
        let mut recent = Recent::NONE;
        let at = |k: u64| Time::from_millis(k);
        for k in 0..16 {
            recent.update(at(k), 50_000, Time::from_micros(200));
        }
        recent.update(at(15) + Time::from_micros(199), 41_000, Time::from_micros(200));
        for k in 16..31 {
            recent.update(at(k), 50_000, Time::from_micros(200));
            assert_eq!(recent.least(), Some(41_000));
        }
        recent.update(at(31), 50_000, Time::from_micros(200));
        assert_eq!(recent.least(), Some(50_000));
    }
}
