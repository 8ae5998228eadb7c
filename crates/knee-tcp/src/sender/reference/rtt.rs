//! tcp_rtt_estimator, tcp_set_rto (RFC 6298) and the filter of the least RTT (lib/win_minmax.c), in microseconds.
//! Numbers that the kernel keeps in 32 bits wrap here as there.

use knee_core::Time;

const RTO_MAX: u64 = 120_000_000;
const WINDOW: u64 = 300_000_000;
/// Modulus of counters of 32 bits.
const WRAP: u64 = 1 << 32;

pub struct Rtt {
    pub srtt8: u64,
    mdev4: u64,
    mdev_max4: u64,
    rttvar4: u64,
    pub rto: u64,
    rto_min: u64,
    round_end: u64,
    /// When, and which RTT: the best, the second and third best since.
    least: Option<[(u64, u64); 3]>,
}

impl Rtt {
    pub fn new(rto_min: Time) -> Self {
        let rto_min = rto_min.as_micros().clamp(1, RTO_MAX);
        Self { srtt8: 0, mdev4: 0, mdev_max4: 0, rttvar4: 0, rto: 1_000_000, rto_min, round_end: 0, least: None }
    }

    pub fn min_rtt_us(&self) -> Option<u64> {
        self.least.map(|least| least[0].1)
    }

    pub fn min_rtt(&self) -> Time {
        self.min_rtt_us().map_or(Time::MAX, Time::from_micros)
    }

    pub fn rto(&self) -> Time {
        Time::from_micros(self.rto)
    }

    pub fn back_off(&mut self) {
        self.rto = (2 * self.rto).min(RTO_MAX);
    }

    /// `oldest` for the estimate, `newest` for the least RTT.
    pub fn sample(&mut self, oldest: u64, newest: u64, now: u64, snd_una: u64, snd_nxt: u64) {
        self.running_min(now, (newest % WRAP).max(1));
        if self.srtt8 == 0 {
            self.srtt8 = (8 * oldest).max(1) % WRAP;
            self.mdev4 = 2 * oldest % WRAP;
            self.rttvar4 = self.mdev4.max(self.rto_min);
            self.mdev_max4 = self.rttvar4;
            self.round_end = snd_nxt;
        } else {
            let (srtt, mdev) = (self.srtt8 / 8, self.mdev4 / 4);
            let deviation = oldest.abs_diff(srtt);
            self.srtt8 = (self.srtt8 + oldest - srtt).max(1) % WRAP;
            // mdev = 3/4 mdev + 1/4 deviation; where the RTT falls and deviates more, an eighth of that.
            self.mdev4 = if oldest < srtt && deviation > mdev {
                self.mdev4 + (deviation - mdev) / 8
            } else {
                self.mdev4 + deviation - mdev
            } % WRAP;
            self.mdev_max4 = self.mdev_max4.max(self.mdev4);
            self.rttvar4 = self.rttvar4.max(self.mdev_max4);
            if snd_una > self.round_end {
                // Once in a round trip it falls, by a quarter of what it is too large.
                self.rttvar4 -= (self.rttvar4 - self.mdev_max4) / 4;
                self.round_end = snd_nxt;
                self.mdev_max4 = self.rto_min;
            }
        }
        self.rto = (self.srtt8 / 8 + self.rttvar4).min(RTO_MAX);
    }

    /// minmax_running_min and minmax_subwin_update.
    fn running_min(&mut self, now: u64, rtt: u64) {
        let new = (now, rtt);
        let Some(s) = self.least.as_mut().filter(|s| rtt > s[0].1 && now - s[2].0 <= WINDOW) else {
            self.least = Some([new; 3]);
            return;
        };
        if rtt <= s[1].1 {
            (s[1], s[2]) = (new, new);
        } else if rtt <= s[2].1 {
            s[2] = new;
        }
        let age = now - s[0].0;
        if age > WINDOW {
            *s = [s[1], s[2], new];
            if now - s[0].0 > WINDOW {
                *s = [s[1], s[2], new];
            }
        } else if s[1].0 == s[0].0 && age > WINDOW / 4 {
            (s[1], s[2]) = (new, new);
        } else if s[2].0 == s[1].0 && age > WINDOW / 2 {
            s[2] = new;
        }
    }
}
