//! Control parameters from the model: gains, pacing rate, burst size, window (5.6).

use super::probe_bw::with_headroom;
use super::{Bbr3, INFINITE, MIN_PIPE_CWND, State, Tunables, UNIT};
use crate::bandwidth::BW_UNIT;
use crate::{Ack, Control, Init, View};
use knee_core::convert::{saturating_u32, saturating_u64};
use knee_core::{Rate, Time};

/// Window gain in `probe_bw_up`, in 1/1000 (5.3.3.5).
const UP_CWND_GAIN: u64 = 2250;
/// Pacing gain in `probe_bw_down`, in 1/1000 (5.3.3.1).
const DOWN_GAIN: u64 = 900;
/// Pacing gain in `probe_bw_down` of Google's kernel in 1/1000, 232/256.
const KERNEL_DOWN_GAIN: u64 = 906;
/// Google's kernel adds at most what the bandwidth delivers in this time to the window, us.
const MAX_EXTRA_US: u64 = 100_000;
/// Bursts carry at most this many bytes (5.6.3).
const MAX_BURST_BYTES: u64 = 64 * 1024;

/// `gain · bw` in payload bytes/s less the margin; `gain` in 1/1000 (`SetPacingRateWithGain`).
pub fn rate_bytes_per_sec(bw: u64, gain: u64, mss: u64, margin_percent: u64) -> u64 {
    let product = u128::from(bw) * u128::from(gain) * u128::from(mss) * 1_000_000;
    let kept = u128::from(100 - margin_percent.min(100));
    saturating_u64((product * kept / (u128::from(BW_UNIT * UNIT) * 100)).min(u128::from(u64::MAX >> 4)))
}

/// Pacing rate and burst size.
#[derive(Clone, Debug)]
pub struct Output {
    /// Payload of a packet in bytes.
    mss: u64,
    /// Payload bytes per second, at least 1.
    rate: u64,
    /// Window the connection began with, in packets.
    pub initial_cwnd: u64,
}

impl Output {
    /// The initial window per RTT (1 ms if unknown) times startup's gain (`InitPacingRate`).
    pub fn new(init: &Init, tunables: &Tunables) -> Self {
        let mss = u64::from(init.mss.max(1));
        let rtt_us = if init.rtt > Time::ZERO { init.rtt.as_micros().max(1) } else { 1000 };
        let bw = u64::from(init.cwnd).saturating_mul(BW_UNIT) / rtt_us;
        let rate = rate_bytes_per_sec(bw, tunables.startup_pacing_gain, mss, 0).max(1);
        Self { mss, rate, initial_cwnd: u64::from(init.cwnd) }
    }

    /// Packets carry `mss` bytes from now on.
    pub const fn resize(&mut self, mss: u32) {
        self.mss = if mss == 0 { 1 } else { mss as u64 };
    }

    /// Sets the rate; until the pipe has been full, it only rises.
    pub fn set_rate(&mut self, bw: u64, gain: u64, pipe_full: bool, tunables: &Tunables) {
        let rate = rate_bytes_per_sec(bw, gain, self.mss, tunables.params.pacing_margin_percent);
        if pipe_full || rate > self.rate {
            self.rate = rate.max(1);
        }
    }

    /// Packets per burst: a millisecond of the rate, two at least (`SetSendQuantum`, 5.6.3).
    pub fn quantum(&self) -> u64 {
        ((self.rate / 1000).min(MAX_BURST_BYTES) / self.mss).max(2)
    }

    /// The rate, of payload.
    pub const fn rate(&self) -> Rate {
        Rate::from_bytes_per_sec(self.rate)
    }
}

impl Bbr3 {
    /// Pacing gain of the state, in 1/1000 (5.6.1).
    pub(super) fn pacing_gain(&self) -> u64 {
        match self.state {
            State::Startup => self.tunables.startup_pacing_gain,
            State::Drain => self.tunables.drain_pacing_gain,
            State::Down if self.tunables.is_kernel() => KERNEL_DOWN_GAIN,
            State::Down => DOWN_GAIN,
            State::Cruise | State::Refill | State::ProbeRtt => UNIT,
            State::Up => 1250,
        }
    }

    /// Window gain of the state, in 1/1000 (5.6.1).
    pub(super) const fn cwnd_gain(&self) -> u64 {
        match self.state {
            State::Up => UP_CWND_GAIN,
            State::ProbeRtt => self.tunables.probe_rtt_cwnd_gain,
            _ => self.tunables.cwnd_gain,
        }
    }

    /// Grows the window by the packets delivered, up to the model's limit and the bounds (`SetCwnd`, 5.6.4.6).
    pub(super) fn set_cwnd(&self, ack: &Ack, control: &mut Control) {
        let wanted = self.bdp(self.bw(), self.cwnd_gain()).saturating_add(self.extra_acked());
        let max_inflight = self.quantization_budget(wanted);
        let cwnd = u64::from(control.cwnd);
        let grown = cwnd + u64::from(ack.delivered);
        let cwnd = if self.full_pipe.reached {
            grown.min(max_inflight)
        } else if cwnd < max_inflight || self.is_beginning(ack.view, cwnd) {
            grown
        } else {
            cwnd
        };
        control.cwnd =
            saturating_u32(cwnd.max(MIN_PIPE_CWND).min(self.bound()).min(u64::from(crate::INFINITE_SSTHRESH)));
    }

    /// The aggregation that the window allows for, in packets.
    fn extra_acked(&self) -> u64 {
        let extra = self.model.extra_acked();
        if !self.tunables.is_kernel() {
            return extra;
        }
        extra.min(self.bw().saturating_mul(MAX_EXTRA_US) / BW_UNIT)
    }

    /// True while the window grows in startup whatever the model says: less than the initial window was delivered; in
    /// Google's kernel the window is below twice that.
    fn is_beginning(&self, view: &View, cwnd: u64) -> bool {
        if self.tunables.is_kernel() {
            return cwnd < 2 * self.output.initial_cwnd;
        }
        view.delivered < self.output.initial_cwnd
    }

    /// The bounds in force, in packets (`BoundCwndForProbeRTT`, `BoundCwndForModel`, 5.6.4.5, 5.6.4.7).
    fn bound(&self) -> u64 {
        let long_term = match self.state {
            State::Startup | State::Drain => INFINITE,
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => with_headroom(self.inflight_longterm, self.tunables.headroom),
        };
        let bound = long_term.min(self.short_term.inflight).max(MIN_PIPE_CWND);
        if self.state == State::ProbeRtt { bound.min(self.probe_rtt_cwnd()) } else { bound }
    }
}
