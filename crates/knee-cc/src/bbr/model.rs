//! The bandwidth half of the model: rounds, the maximum filter, and the bandwidth-delay product.

use super::policer::{Change, LossSample};
use super::{Bbr, Mode, UNIT};
use crate::bandwidth::{AppLimitedMark, BW_UNIT, bandwidth};
use crate::minmax::WindowedMax;
use crate::{Ack, View};

/// Window in packets while there is no RTT sample (`TCP_INIT_CWND`).
pub const INIT_CWND: u64 = 10;

/// `ceil(gain · bw · min_rtt)` in packets, `gain` rounded first as Linux does (`bbr_bdp`).
pub fn bdp(bw: u64, min_rtt_us: Option<u64>, gain: u64) -> u64 {
    let Some(rtt) = min_rtt_us else {
        return INIT_CWND;
    };
    (bw.saturating_mul(rtt).saturating_mul(gain) / UNIT).div_ceil(BW_UNIT).min(u64::from(u32::MAX))
}

/// The bandwidth sample of an ACK.
#[derive(Clone, Copy, Debug)]
pub struct BwSample {
    /// Bandwidth, where the sample is valid.
    pub bw: Option<u64>,
    /// The application (or `probe_rtt`) limited sending when the packet left.
    pub app_limited: bool,
}

/// Rounds and bandwidth.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Maximum over the last rounds, by `round`.
    max_bw: WindowedMax,
    /// Rounds so far (`rtt_cnt`).
    round: u64,
    /// `delivered` at which the round ends (`next_rtt_delivered`).
    round_end: u64,
    /// The last ACK began a round.
    round_start: bool,
    /// Packets sent under `probe_rtt`'s mark.
    pub mark: AppLimitedMark,
}

impl Model {
    /// Maximum bandwidth of the window.
    pub const fn max_bw(&self) -> u64 {
        self.max_bw.get()
    }

    /// A model with this bandwidth.
    #[cfg(test)]
    pub fn of(bw: u64) -> Self {
        let mut model = Self::default();
        model.max_bw.update(10, 0, bw);
        model
    }

    /// True if the last ACK began a round.
    pub const fn round_start(&self) -> bool {
        self.round_start
    }

    /// Takes a timeout for the end of a round.
    pub const fn force_round_start(&mut self) {
        self.round_start = true;
    }

    /// Begins the next round now.
    pub const fn restart_round(&mut self, delivered: u64) {
        self.round_end = delivered;
    }

    /// The ACK's bandwidth sample.
    pub fn sample(&self, ack: &Ack) -> BwSample {
        let rate = &ack.rate;
        BwSample {
            bw: rate.interval.and_then(|span| bandwidth(u64::from(rate.delivered), span.as_micros())),
            app_limited: rate.app_limited || self.mark.covers(rate.prior_delivered),
        }
    }

    /// Counts rounds: one has passed when a packet sent after its begin is delivered.
    fn update_round(&mut self, ack: &Ack) {
        self.round_start = ack.rate.prior_delivered >= self.round_end;
        if self.round_start {
            self.round_end = ack.view.delivered;
            self.round += 1;
        }
    }

    /// Takes a bandwidth into the filter, unless the application explains why it is low.
    fn update_max(&mut self, bw: u64, app_limited: bool, window: u64) {
        if !app_limited || bw >= self.max_bw() {
            self.max_bw.update(window, self.round, bw);
        }
    }
}

impl Bbr {
    /// Rounds, policer and bandwidth (`bbr_update_bw`).
    pub(super) fn update_bw(&mut self, ack: &Ack, sample: &BwSample) {
        self.model.round_start = false;
        let Some(bw) = sample.bw else {
            return;
        };
        self.model.update_round(ack);
        if self.model.round_start {
            self.recovery.packet_conservation = false;
        }
        self.sample_policer(ack.view, ack.lost, sample.app_limited);
        self.model.update_max(bw, sample.app_limited, self.tunables.params.bw_rtts);
    }

    /// The policer's share of an ACK or a timeout.
    pub(super) fn sample_policer(&mut self, view: &View, lost: u32, app_limited: bool) {
        if !self.tunables.params.lt_bw {
            return;
        }
        let sample = LossSample {
            at: self.delivered_at,
            lost,
            app_limited,
            round_start: self.model.round_start,
            in_probe_bw: self.mode == Mode::ProbeBw,
        };
        let rate_of = |bw| self.pacing.rate_of(bw, UNIT, &self.tunables);
        match self.policer.update(&sample, view, rate_of) {
            Some(Change::Found) => self.pacing_gain = UNIT,
            Some(Change::GivenUp) => self.enter_probe_bw(),
            None => {}
        }
    }

    /// Packets in flight that fill the path at `bw` and `gain` (`bbr_inflight`).
    pub(super) fn inflight(&self, bw: u64, gain: u64) -> u64 {
        self.quantization_budget(bdp(bw, self.min_rtt.micros(), gain))
    }

    /// Room for a burst each in the sender's queue, in its segmentation and at the receiver; then up to an even number
    /// against delayed ACKs, and two more where the gain cycle probes, so that a small BDP is exceeded.
    pub(super) fn quantization_budget(&self, cwnd: u64) -> u64 {
        let even = cwnd.saturating_add(3 * self.pacing.burst_goal()).saturating_add(1) & !1;
        if self.mode == Mode::ProbeBw && self.cycle.is_probing() && !self.is_old() {
            even.saturating_add(2)
        } else {
            even
        }
    }

    /// Packets expected in the network when the next one may leave (`bbr_packets_in_net_at_edt`): pacing has already
    /// decided that nothing leaves before, while the network keeps delivering. Linux 4.13 counts those in flight.
    pub(super) fn in_network_at_departure(&self, view: &View, in_flight: u32) -> u64 {
        if self.is_old() {
            return u64::from(in_flight);
        }
        let wait_us = view.paced_until.saturating_sub(view.now).as_micros();
        let delivered = self.bw().saturating_mul(wait_us) / BW_UNIT;
        let burst = if self.pacing_gain > UNIT { self.pacing.burst_goal() } else { 0 };
        (u64::from(in_flight) + burst).saturating_sub(delivered)
    }
}
