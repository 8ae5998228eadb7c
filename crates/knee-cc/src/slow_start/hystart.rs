//! HyStart: finds the end of slow start before packets are lost, from the ACKs of one round trip.
//!
//! Two signs that the window has reached the path's capacity, either is enough:
//! - ACK train: closely spaced ACKs (at most [`Params::ack_delta_us`] apart) that go on for half of the least RTT
//!   after the round began mean that half a round trip of data leaves in one train;
//! - delay increase: the least of at least eight RTT samples of the round exceeds the least RTT by an eighth of it,
//!   but at least 4 ms and at most 16 ms.
//!
//! Source: S. Ha, I. Rhee, "Taming the elephants: new TCP slow start", Computer Networks 55 (2011), in the form of
//! Linux's `hystart_update` (net/ipv4/tcp_cubic.c, 6.12). Times in microseconds, windows in packets.
//!
//! As Linux and unlike the paper: ACKs are timed by arrival, the train's threshold grows by the time that aggregated
//! packets may add ([`ack_delay_us`]), and where the sender is paced the train has to last for all of the least RTT,
//! since pacing alone may spread a window over half of it.

use super::SlowStart;
use crate::{Ack, Control, Init, View};
use knee_core::Time;
use knee_core::convert::saturating_u64;

/// RTT samples that a round needs before their minimum counts (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u8 = 8;
/// Bounds of the delay increase that ends slow start, in microseconds (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_MIN_US: u64 = 4_000;
const DELAY_MAX_US: u64 = 16_000;
/// Bytes of one aggregated packet: 64 KiB less the room Linux keeps for headers (`sk_gso_max_size`).
const GSO_MAX_BYTES: u128 = 65_536 - 321;

/// The signs to look for.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// ACK trains are looked for.
    pub ack_train: bool,
    /// An increase of delay is looked for.
    pub delay: bool,
    /// Smallest window at which slow start may end, in packets.
    pub low_window: u32,
    /// Longest gap between ACKs of a train.
    pub ack_delta_us: u64,
    /// The sender paces.
    pub paced: bool,
}

/// One ACK with an RTT sample in slow start.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Arrival of the ACK.
    pub now_us: u64,
    /// First unacknowledged segment after this ACK.
    pub snd_una: u64,
    /// Next segment to be sent.
    pub snd_nxt: u64,
    /// The window, and the threshold.
    pub cwnd: u32,
    /// See above.
    pub ssthresh: u32,
    /// Payload of a packet.
    pub mss: u32,
    /// The smoothed RTT.
    pub srtt: Time,
    /// The sample.
    pub rtt_us: u64,
    /// Least RTT so far.
    pub rtt_min_us: u64,
}

impl Sample {
    /// An ACK with this sample, after it changed the sender; `rtt_min_us` is the least RTT so far.
    pub const fn new(view: &View, control: &Control, rtt_us: u64, rtt_min_us: u64) -> Self {
        Self {
            now_us: view.now.as_micros(),
            snd_una: view.snd_una,
            snd_nxt: view.snd_nxt,
            cwnd: control.cwnd,
            ssthresh: control.ssthresh,
            mss: view.mss,
            srtt: view.srtt,
            rtt_us,
            rtt_min_us,
        }
    }
}

/// The state of the current round.
#[derive(Clone, Copy, Debug)]
pub struct HyStart {
    params: Params,
    round_start_us: u64,
    last_ack_us: u64,
    /// The round ends when more than this segment is acknowledged.
    end_seq: u64,
    /// Least RTT of the round.
    rtt_us: u64,
    samples: u8,
}

/// Time that two aggregated packets take at the pacing rate of slow start, doubled since that rate is twice the
/// delivery rate; at most 1 ms (Linux's `hystart_ack_delay`).
///
/// The pacing rate is the sender's own, which Linux keeps also where it does not pace (`tcp_update_pacing_rate`): twice
/// `cwnd · mss / srtt` below half of `ssthresh`, 1.2 times above.
pub const fn ack_delay_us(cwnd: u32, ssthresh: u32, mss: u32, srtt: Time) -> u64 {
    let percent: u128 = if cwnd < ssthresh / 2 { 200 } else { 120 };
    let bytes_per_srtt_in_percent = percent * cwnd as u128 * mss as u128;
    if bytes_per_srtt_in_percent == 0 {
        return 0;
    }
    let us = 4 * GSO_MAX_BYTES * 100 * srtt.as_micros() as u128 / bytes_per_srtt_in_percent;
    if us > 1_000 { 1_000 } else { saturating_u64(us) }
}

/// How much the RTT may exceed its minimum before slow start ends.
pub fn delay_threshold_us(rtt_min_us: u64) -> u64 {
    (rtt_min_us / 8).clamp(DELAY_MIN_US, DELAY_MAX_US)
}

impl HyStart {
    /// Starts with a round that ends at `snd_nxt`.
    pub fn new(params: Params, now_us: u64, snd_nxt: u64) -> Self {
        let mut start = Self { params, round_start_us: 0, last_ack_us: 0, end_seq: 0, rtt_us: u64::MAX, samples: 0 };
        start.new_round(now_us, snd_nxt);
        start
    }

    /// Starts a new round that ends at `snd_nxt`.
    pub fn new_round(&mut self, now_us: u64, snd_nxt: u64) {
        self.round_start_us = now_us;
        self.last_ack_us = now_us;
        self.end_seq = snd_nxt;
        self.rtt_us = u64::MAX;
        self.samples = 0;
    }

    /// Takes a sample; whether slow start should end now.
    pub fn update(&mut self, sample: &Sample) -> bool {
        if sample.snd_una > self.end_seq {
            self.new_round(sample.now_us, sample.snd_nxt);
        }
        if sample.cwnd < self.params.low_window {
            return false;
        }
        let train = self.params.ack_train && self.long_train(sample);
        let slower = self.params.delay && self.delay_increased(sample);
        train || slower
    }

    fn long_train(&mut self, sample: &Sample) -> bool {
        if sample.now_us.saturating_sub(self.last_ack_us) > self.params.ack_delta_us {
            return false;
        }
        self.last_ack_us = sample.now_us;
        let part = |whole: u64| if self.params.paced { whole } else { whole / 2 };
        let lasts = sample.now_us.saturating_sub(self.round_start_us);
        // The delay takes a division: only where it decides.
        lasts > part(sample.rtt_min_us) && {
            let delay_us = ack_delay_us(sample.cwnd, sample.ssthresh, sample.mss, sample.srtt);
            lasts > part(sample.rtt_min_us.saturating_add(delay_us))
        }
    }

    fn delay_increased(&mut self, sample: &Sample) -> bool {
        self.rtt_us = self.rtt_us.min(sample.rtt_us);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.rtt_us > sample.rtt_min_us.saturating_add(delay_threshold_us(sample.rtt_min_us))
    }
}

/// HyStart before an algorithm other than CUBIC, with the defaults of Linux's module parameters.
#[derive(Clone)]
pub(super) struct Linux {
    hystart: HyStart,
    rtt_min_us: u64,
}

impl Linux {
    pub fn new(init: &Init) -> Self {
        let params = Params { ack_train: true, delay: true, low_window: 16, ack_delta_us: 2_000, paced: init.paced };
        Self { hystart: HyStart::new(params, init.now.as_micros(), 0), rtt_min_us: u64::MAX }
    }
}

impl SlowStart for Linux {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let Some(rtt) = ack.rtt else { return };
        let rtt_us = rtt.as_micros().max(1);
        self.rtt_min_us = self.rtt_min_us.min(rtt_us);
        if self.hystart.update(&Sample::new(ack.view, control, rtt_us, self.rtt_min_us)) {
            control.ssthresh = control.cwnd;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: Params = Params { ack_train: true, delay: true, low_window: 16, ack_delta_us: 2_000, paced: false };

    fn sample(now_us: u64, rtt_us: u64) -> Sample {
        // Aggregation may hold packets of this window back for 1 ms.
        let (cwnd, ssthresh, mss, srtt) = (40, u32::MAX, 1448, Time::from_millis(40));
        Sample { now_us, snd_una: 5, snd_nxt: 50, cwnd, ssthresh, mss, srtt, rtt_us, rtt_min_us: 40_000 }
    }

    /// How many ACKs `gap_us` apart with this RTT it takes to leave slow start, of at most 100 in one round.
    fn acks_until_exit(params: Params, gap_us: u64, rtt_us: u64, cwnd: u32) -> Option<u64> {
        let mut hystart = HyStart::new(params, 0, 10);
        (1..=100).find(|n| hystart.update(&Sample { cwnd, ..sample(n * gap_us, rtt_us) }))
    }

    #[test]
    fn a_train_of_half_the_least_rtt_ends_slow_start() {
        // (40 ms + 1 ms) / 2 = 20.5 ms: the first ACK at 1 ms spacing beyond that is the 21st.
        assert_eq!(acks_until_exit(PARAMS, 1_000, 40_000, 40), Some(21));
        // ACKs further apart than 2 ms are no train.
        assert_eq!(acks_until_exit(PARAMS, 2_001, 40_000, 40), None);
        assert_eq!(acks_until_exit(Params { ack_train: false, ..PARAMS }, 1_000, 40_000, 40), None);
        // Paced, all of the 41 ms.
        assert_eq!(acks_until_exit(Params { paced: true, ..PARAMS }, 1_000, 40_000, 40), Some(42));
    }

    #[test]
    fn the_ninth_sample_above_the_threshold_ends_slow_start() {
        // 40 ms / 8 = 5 ms.
        assert_eq!(acks_until_exit(PARAMS, 5_000, 45_001, 40), Some(9));
        assert_eq!(acks_until_exit(PARAMS, 5_000, 45_000, 40), None);
        assert_eq!(acks_until_exit(Params { delay: false, ..PARAMS }, 5_000, 45_001, 40), None);
        assert_eq!([8_000, 40_000, 400_000].map(delay_threshold_us), [4_000, 5_000, 16_000]);
    }

    #[test]
    fn nothing_ends_slow_start_below_the_low_window() {
        assert_eq!(acks_until_exit(PARAMS, 1_000, 90_000, 15), None);
    }

    #[test]
    fn one_low_sample_clears_a_round_and_a_new_round_forgets_it() {
        let mut hystart = HyStart::new(PARAMS, 0, 10);
        assert!(!hystart.update(&sample(5_000, 40_000)));
        assert!((2..50).all(|n| !hystart.update(&sample(n * 5_000, 60_000))));
        // Segment 11 is acknowledged: a new round, whose ninth sample decides.
        let later = |n: u64| Sample { snd_una: 11, ..sample((50 + n) * 5_000, 60_000) };
        assert!((1..9).all(|n| !hystart.update(&later(n))));
        assert!(hystart.update(&later(9)));
    }

    #[test]
    fn aggregation_counts_four_packets_of_64_kib_at_the_pacing_rate_up_to_1_ms() {
        let srtt = Time::from_millis(20);
        // 2 · 10000 · 1448 B / 20 ms = 1.448 GB/s; 4 · 65215 B take 180.15 us.
        assert_eq!(ack_delay_us(10_000, u32::MAX, 1448, srtt), 180);
        // At 1.2 instead of 2: 300.25 us.
        assert_eq!(ack_delay_us(10_000, 10_000, 1448, srtt), 300);
        assert_eq!(ack_delay_us(10, u32::MAX, 1448, srtt), 1_000);
        assert_eq!(ack_delay_us(10, u32::MAX, 1448, Time::ZERO), 0);
    }
}
