//! Pacing: rate and size of bursts.
//!
//! Linux's own pacing counts payload (`sk_pacing_rate`), and so do all rates here.

use super::{Kernel, Tunables, UNIT};
use crate::Init;
use crate::bandwidth::BW_UNIT;
use knee_core::{Rate, Time};

/// Below this many bytes/s, bursts are single packets (`bbr_min_tso_rate`, 1.2 Mbit/s).
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// A burst carries at most what a GSO packet holds less headers: 64 KiB - 1 - `MAX_TCP_HEADER`.
const MAX_BURST_BYTES: u64 = 65_535 - 320;
/// Most of it, in packets: 7 bits.
const MAX_BURST: u64 = 127;
/// A burst is what the rate carries in 2^-10 s (`sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;

/// `gain · bw` in payload bytes/s, less the margin (`bbr_rate_bytes_per_sec`).
pub fn rate_bytes_per_sec(bw: u64, gain: u64, mss: u64, margin_percent: u64) -> u64 {
    let per_us = bw.saturating_mul(mss).saturating_mul(gain) / UNIT;
    per_us.saturating_mul(1_000_000 / 100 * (100 - margin_percent.min(100))) / BW_UNIT
}

/// The pacing rate and the burst size.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Payload of a packet in bytes.
    mss: u64,
    /// Payload bytes per second, at least 1.
    rate: u64,
    /// The rate was set from an RTT at least once (`has_seen_rtt`).
    has_seen_rtt: bool,
    /// Window the connection began with, in packets.
    initial_cwnd: u64,
    /// Most of a burst, in packets.
    most: u64,
}

impl Pacing {
    /// Initial pacing: the initial window per RTT (1 ms if unknown) times the high gain.
    pub fn new(init: &Init, tunables: &Tunables) -> Self {
        let single = tunables.params.kernel == Kernel::V4_13 && !init.tso;
        let mut pacing = Self {
            mss: u64::from(init.mss.max(1)),
            rate: 1,
            has_seen_rtt: false,
            initial_cwnd: u64::from(init.cwnd),
            most: if single { 1 } else { MAX_BURST },
        };
        pacing.init_rate(init.rtt, tunables);
        pacing
    }

    /// Packets carry `mss` bytes from now on.
    pub const fn resize(&mut self, mss: u32) {
        self.mss = if mss == 0 { 1 } else { mss as u64 };
    }

    /// Rate from the first RTT (`bbr_init_pacing_rate_from_rtt`); there Linux takes the window of the moment, which
    /// before the first RTT sample is still the initial one.
    fn init_rate(&mut self, rtt: Time, tunables: &Tunables) {
        self.has_seen_rtt = rtt > Time::ZERO;
        let rtt_us = if self.has_seen_rtt { rtt.as_micros().max(1) } else { 1000 };
        let bw = self.initial_cwnd * BW_UNIT / rtt_us;
        self.rate = self.rate_of(bw, tunables.high_gain, tunables).max(1);
    }

    /// Pacing rate for a bandwidth and gain, payload bytes/s.
    pub fn rate_of(&self, bw: u64, gain: u64, tunables: &Tunables) -> u64 {
        rate_bytes_per_sec(bw, gain, self.mss, tunables.params.pacing_margin_percent)
    }

    /// Sets the rate; until the pipe has been full, it only rises (`bbr_set_pacing_rate`).
    pub fn set_rate(&mut self, bw: u64, gain: u64, srtt: Time, pipe_full: bool, tunables: &Tunables) {
        let rate = self.rate_of(bw, gain, tunables);
        if !self.has_seen_rtt && srtt > Time::ZERO {
            self.init_rate(srtt, tunables);
        }
        if pipe_full || rate > self.rate {
            self.rate = rate.max(1);
        }
    }

    /// Least burst in packets (`bbr_min_tso_segs`).
    pub const fn min_burst(&self) -> u64 {
        if self.rate < MIN_TSO_RATE { 1 } else { 2 }
    }

    /// Size of the bursts the sender makes at this rate, in packets (`bbr_tso_segs_goal`). In Linux 4.13 it is at most
    /// what the device takes at once (`sk_gso_max_segs`), which is one segment without offload.
    pub fn burst_goal(&self) -> u64 {
        let bytes = (self.rate >> PACING_SHIFT).min(MAX_BURST_BYTES);
        (bytes / self.mss).max(self.min_burst()).min(self.most)
    }

    /// The rate, of payload.
    pub const fn rate(&self) -> Rate {
        Rate::from_bytes_per_sec(self.rate)
    }
}
