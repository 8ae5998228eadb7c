//! The long-term model: rounds, the bandwidth of two probing cycles, the BDP, and ACK aggregation (5.5.1 to 5.5.9).

use super::{Bbr3, MIN_PIPE_CWND, State, UNIT};
use crate::Ack;
use crate::bandwidth::{AppLimitedMark, BW_UNIT, bandwidth};
use crate::minmax::WindowedMax;
use knee_core::Time;
use knee_core::convert::saturating_u64;

/// The delivery sample of an ACK.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// It is a valid sample of the delivery rate.
    pub valid: bool,
    /// Bandwidth; 0 if there is no sample.
    pub bw: u64,
    /// Packets delivered since the sample's packet left.
    pub delivered: u64,
    /// Packets delivered since with a mark.
    pub delivered_ce: u64,
    /// The application (or `probe_rtt`) limited sending when the sample's packet left.
    pub app_limited: bool,
    /// Packets in flight then.
    pub tx_in_flight: u64,
    /// Packets lost since.
    pub lost: u64,
}

impl Sample {
    /// The sample of an ACK.
    pub fn new(ack: &Ack, mark: &AppLimitedMark) -> Self {
        let rate = &ack.rate;
        let bw = rate.interval.and_then(|span| bandwidth(u64::from(rate.delivered), span.as_micros()));
        let valid = bw.is_some() && ack.delivered > 0;
        Self {
            valid,
            bw: if valid { bw.unwrap_or(0) } else { 0 },
            delivered: if valid { u64::from(rate.delivered) } else { 0 },
            delivered_ce: if valid { u64::from(rate.delivered_ce) } else { 0 },
            app_limited: rate.app_limited || mark.covers(rate.prior_delivered),
            tx_in_flight: u64::from(rate.tx_in_flight),
            lost: ack.view.lost.saturating_sub(rate.prior_lost),
        }
    }
}

/// `gain · bw · rtt` in packets, rounded up; `gain` in 1/1000 (`BDPMultiple`, 5.6.4.2).
pub fn bdp_multiple(bw: u64, rtt: Time, gain: u64) -> u64 {
    let product = u128::from(bw) * u128::from(rtt.as_micros()) * u128::from(gain);
    saturating_u64(product.div_ceil(u128::from(BW_UNIT * UNIT)).min(u128::from(u32::MAX)))
}

/// Rounds, bandwidth and aggregation.
#[derive(Clone, Debug)]
pub struct Model {
    /// Maximum bandwidth in the previous and in the current probing cycle (5.5.6).
    cycles: [u64; 2],
    /// Rounds so far.
    pub round: u64,
    /// `delivered` at which the round ends (`next_round_delivered`).
    round_end: u64,
    round_start: bool,
    /// Packets sent under `probe_rtt`'s mark.
    pub mark: AppLimitedMark,
    /// Greatest excess of delivery over `bw · time`, in packets, by round.
    extra_acked: WindowedMax,
    /// When the interval of `interval_delivered` began.
    interval_start: Time,
    /// Packets delivered in it.
    interval_delivered: u64,
}

impl Model {
    /// A model without any sample.
    pub fn new(now: Time) -> Self {
        Self {
            cycles: [0; 2],
            round: 0,
            round_end: 0,
            round_start: false,
            mark: AppLimitedMark::default(),
            extra_acked: WindowedMax::default(),
            interval_start: now,
            interval_delivered: 0,
        }
    }

    /// Maximum bandwidth of this and the previous cycle.
    pub fn max_bw(&self) -> u64 {
        self.cycles[0].max(self.cycles[1])
    }

    /// Begins a cycle, unless the current one has no sample yet (`AdvanceMaxBwFilter`).
    pub const fn advance_cycle(&mut self) {
        if self.cycles[1] > 0 {
            self.cycles = [self.cycles[1], 0];
        }
    }

    /// True if the last ACK began a round.
    pub const fn round_start(&self) -> bool {
        self.round_start
    }

    /// Begins a round now (`StartRound`).
    pub const fn start_round(&mut self, delivered: u64) {
        self.round_end = delivered;
    }

    /// A round has passed when a packet sent after its begin is delivered (`UpdateRound`, 5.5.1).
    fn update_round(&mut self, ack: &Ack, valid: bool) {
        self.round_start = valid && ack.rate.prior_delivered >= self.round_end;
        if self.round_start {
            self.start_round(ack.view.delivered);
            self.round += 1;
        }
    }

    /// Takes a bandwidth into the current cycle, unless the application explains why it is low (5.5.5).
    fn update_max_bw(&mut self, bw: u64, app_limited: bool) {
        if bw > 0 && (bw >= self.max_bw() || !app_limited) {
            self.cycles[1] = self.cycles[1].max(bw);
        }
    }

    /// After idleness a new interval of the aggregation begins.
    pub const fn restart_interval(&mut self, now: Time) {
        self.interval_start = now;
    }

    /// The greatest recent aggregation, in packets.
    pub const fn extra_acked(&self) -> u64 {
        self.extra_acked.get()
    }

    /// Takes `delivered` packets at `now` into the aggregation (`UpdateACKAggregation`, 5.5.9).
    fn update_extra_acked(&mut self, now: Time, delivered: u64, bw: u64, cwnd: u64, window: u64) {
        let elapsed = now.saturating_sub(self.interval_start).as_micros();
        let mut expected = bw.saturating_mul(elapsed) / BW_UNIT;
        if self.interval_delivered <= expected {
            (self.interval_delivered, self.interval_start, expected) = (0, now, 0);
        }
        self.interval_delivered = self.interval_delivered.saturating_add(delivered);
        let extra = self.interval_delivered.saturating_sub(expected).min(cwnd);
        self.extra_acked.update(window, self.round, extra);
    }
}

impl Bbr3 {
    /// `UpdateMaxBw` (5.5.5).
    pub(super) fn update_max_bw(&mut self, ack: &Ack, sample: &Sample) {
        self.model.update_round(ack, sample.valid);
        if self.model.round_start {
            self.probe.rounds_since_up = self.probe.rounds_since_up.saturating_add(1);
        }
        self.model.update_max_bw(sample.bw, sample.app_limited);
    }

    /// During startup the aggregation of one round is remembered, later of ten.
    pub(super) fn update_extra_acked(&mut self, ack: &Ack, cwnd: u32) {
        if ack.delivered > 0 {
            let window = if self.full_pipe.reached { self.tunables.params.extra_acked_filter_len } else { 1 };
            let bw = self.bw();
            self.model.update_extra_acked(ack.view.now, u64::from(ack.delivered), bw, u64::from(cwnd), window);
        }
    }

    /// `gain · bw · min_rtt` in packets; the initial window while there is no RTT.
    pub(super) fn bdp(&self, bw: u64, gain: u64) -> u64 {
        self.min_rtt.rtt().map_or(self.output.initial_cwnd, |rtt| bdp_multiple(bw, rtt, gain))
    }

    /// Room for offload and pipelining (`QuantizationBudget`, 5.6.4.2).
    pub(super) fn quantization_budget(&self, inflight: u64) -> u64 {
        let least = (3 * self.output.quantum()).max(MIN_PIPE_CWND);
        inflight.max(least) + if self.state == State::Up { 2 } else { 0 }
    }

    /// Packets in flight that fill the path at `bw` and `gain` (`Inflight`).
    pub(super) fn inflight(&self, bw: u64, gain: u64) -> u64 {
        self.quantization_budget(self.bdp(bw, gain))
    }

    /// How much should be in flight: the BDP, unless congestion cut the window (`TargetInflight`, 5.3.3.8).
    pub(super) fn target_inflight(&self, cwnd: u32) -> u64 {
        let bdp = self.bdp(self.bw(), UNIT);
        let bdp = if self.tunables.is_kernel() { self.quantization_budget(bdp) } else { bdp };
        bdp.min(u64::from(cwnd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_bw_covers_this_cycle_and_the_previous_one() {
        let mut model = Model::new(Time::ZERO);
        model.update_max_bw(100, false);
        model.advance_cycle();
        // A cycle without a sample does not push the previous one out.
        model.advance_cycle();
        assert_eq!(model.max_bw(), 100);
        model.update_max_bw(60, false);
        assert_eq!(model.max_bw(), 100);
        model.advance_cycle();
        assert_eq!(model.max_bw(), 60);
    }

    #[test]
    fn an_application_limited_sample_counts_only_where_it_is_larger() {
        let mut model = Model::new(Time::ZERO);
        model.update_max_bw(100, false);
        model.advance_cycle();
        model.update_max_bw(90, true);
        model.advance_cycle();
        assert_eq!(model.max_bw(), 100);
        model.update_max_bw(110, true);
        assert_eq!(model.max_bw(), 110);
    }

    #[test]
    fn a_clump_is_what_came_beyond_the_bandwidth_and_never_more_than_the_window() {
        let per_ms = BW_UNIT / 1000;
        let mut model = Model::new(Time::ZERO);
        model.update_extra_acked(Time::from_millis(10), 30, per_ms, 1000, 10);
        assert_eq!(model.extra_acked(), 30);
        // 10 ms later 9 were due (the bandwidth is rounded down) and 60 had come.
        model.update_extra_acked(Time::from_millis(20), 30, per_ms, 1000, 10);
        assert_eq!(model.extra_acked(), 51);
        let mut model = Model::new(Time::ZERO);
        model.update_extra_acked(Time::from_millis(10), 30, per_ms, 20, 10);
        assert_eq!(model.extra_acked(), 20);
    }
}
