//! Response to loss: probing lowers the long-term bound, else the short-term bounds follow the delivery (5.5.10).

use super::model::Sample;
use super::{Bbr3, INFINITE, State, UNIT};
use crate::{Ack, Control, View};

/// The state that a loss ended (`undo_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Startup.
    Startup,
    /// `probe_bw_up`.
    Up,
}

/// Bounds for the rest of the probing cycle; [`INFINITE`] if no loss set them.
#[derive(Clone, Copy, Debug)]
pub struct ShortTerm {
    /// Bandwidth.
    pub bw: u64,
    /// Packets in flight.
    pub inflight: u64,
}

impl Default for ShortTerm {
    fn default() -> Self {
        Self { bw: INFINITE, inflight: INFINITE }
    }
}

impl ShortTerm {
    /// Forgets the bounds (`ResetShortTermModel`).
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// After a round with loss: what it delivered, yet no less than `beta` (in 1/1000) of the bound. A first loss
    /// starts from what is in force.
    fn lower(&mut self, delivery: &Delivery, max_bw: u64, cwnd: u32, beta: u64) {
        let bw = if self.bw == INFINITE { max_bw } else { self.bw };
        let inflight = if self.inflight == INFINITE { u64::from(cwnd) } else { self.inflight };
        self.bw = delivery.bw_latest.max(bw.saturating_mul(beta) / UNIT);
        self.inflight = delivery.inflight_latest.max(inflight.saturating_mul(beta) / UNIT);
    }
}

/// Delivery and loss of the latest round.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// Greatest bandwidth.
    bw_latest: u64,
    /// Greatest volume delivered in a round trip, in packets.
    pub inflight_latest: u64,
    /// `delivered` at which the round ends (`loss_round_delivered`).
    round_end: u64,
    /// The last ACK began a round.
    pub loss_round_start: bool,
    /// Packets were lost in the round.
    pub is_loss_in_round: bool,
    /// Ranges of consecutive packets lost in the round.
    pub ranges_in_round: u64,
    /// The connection's count of lost packets up to which they were handled.
    lost_seen: u64,
}

impl Delivery {
    /// `ResetCongestionSignals`.
    pub const fn reset(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }
}

/// How much was in flight when losses crossed the threshold (in 1/1000), given that `lost` of `in_flight` packets were
/// lost and the last `size` of both left as one burst (`InflightAtLoss`).
pub fn inflight_at_loss(in_flight: u64, lost: u64, size: u64, thresh: u64) -> u64 {
    let before = in_flight.saturating_sub(size);
    let lost_before = lost.saturating_sub(size);
    let excess = before.saturating_mul(thresh).saturating_sub(lost_before.saturating_mul(UNIT));
    before + excess / (UNIT - thresh)
}

impl Bbr3 {
    /// True if more was lost since the sample's packet left than is tolerated (`IsInflightTooHigh`).
    pub(super) fn is_inflight_too_high(&self, sample: &Sample) -> bool {
        sample.lost.saturating_mul(UNIT) > sample.tx_in_flight.saturating_mul(self.tunables.loss_thresh)
    }

    /// The packets lost on this ACK, and those lost on a timer since the last one (`HandleLostPacket`).
    pub(super) fn handle_losses(&mut self, ack: &Ack, sample: &Sample, control: &Control) {
        let lost = ack.view.lost.saturating_sub(self.delivery.lost_seen);
        self.delivery.lost_seen = ack.view.lost;
        if lost == 0 {
            return;
        }
        self.note_loss(ack.view, control.cwnd);
        self.delivery.ranges_in_round = self.delivery.ranges_in_round.saturating_add(1);
        if !self.probe.is_sample || sample.tx_in_flight == 0 {
            return;
        }
        // They are handled one by one: the first that crosses the threshold decides, with what was in flight up to it.
        let before = sample.lost.saturating_sub(lost);
        let tolerated = sample.tx_in_flight.saturating_mul(self.tunables.loss_thresh) / UNIT;
        let crossing = before.max(tolerated) + 1;
        if crossing <= sample.lost {
            let at_loss = inflight_at_loss(sample.tx_in_flight, crossing, 1, self.tunables.loss_thresh);
            self.handle_inflight_too_high(ack.view, at_loss, sample.app_limited, control.cwnd);
        }
    }

    /// A CE echo: congestion in this round, and too much in flight if it is feedback on a probe.
    pub(super) fn handle_echo(&mut self, view: &View, control: &Control) {
        self.note_loss(view, control.cwnd);
        if self.probe.is_sample {
            self.handle_inflight_too_high(view, u64::from(view.in_flight), false, control.cwnd);
        }
    }

    /// `NoteLoss`.
    fn note_loss(&mut self, view: &View, cwnd: u32) {
        if !self.delivery.is_loss_in_round {
            self.delivery.round_end = view.delivered;
            self.save_state(cwnd);
        }
        self.delivery.is_loss_in_round = true;
        self.ecn.loss_in_cycle = true;
    }

    /// A probe put too much in flight: remembers how much, and ends it (`HandleInflightTooHigh`).
    pub(super) fn handle_inflight_too_high(&mut self, view: &View, in_flight: u64, app_limited: bool, cwnd: u32) {
        self.probe.prev_too_high = true;
        self.probe.is_sample = false;
        if !app_limited {
            self.inflight_longterm =
                in_flight.max(self.target_inflight(cwnd).saturating_mul(self.tunables.beta) / UNIT);
        }
        if self.state == State::Up {
            self.saved.origin = Some(Origin::Up);
            self.start_down(view);
        }
    }

    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery(&mut self, ack: &Ack, sample: &Sample) {
        let delivery = &mut self.delivery;
        delivery.bw_latest = delivery.bw_latest.max(sample.bw);
        delivery.inflight_latest = delivery.inflight_latest.max(sample.delivered);
        delivery.loss_round_start = sample.valid && ack.rate.prior_delivered >= delivery.round_end;
        if delivery.loss_round_start {
            delivery.round_end = ack.view.delivered;
        }
    }

    /// Bandwidth, and once per round the short-term bounds (`UpdateCongestionSignals`).
    pub(super) fn update_congestion_signals(&mut self, ack: &Ack, sample: &Sample, control: &Control) {
        self.update_max_bw(ack, sample);
        self.update_ecn(ack);
        if !self.delivery.loss_round_start {
            return;
        }
        if !self.state.is_probing() {
            let after_marks = self.inflight_after_marks(control.cwnd);
            if self.delivery.is_loss_in_round {
                self.short_term.lower(&self.delivery, self.model.max_bw(), control.cwnd, self.tunables.beta);
            }
            self.short_term.inflight = self.short_term.inflight.min(after_marks);
        }
        self.delivery.is_loss_in_round = false;
        self.end_ecn_round();
    }

    /// A new round begins with this ACK's delivery (`AdvanceLatestDeliverySignals`).
    pub(super) fn advance_latest_delivery(&mut self, sample: &Sample) {
        if self.delivery.loss_round_start {
            self.delivery.bw_latest = sample.bw;
            self.delivery.inflight_latest = sample.delivered;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_cross_two_percent_where_the_draft_says() {
        // Nothing lost before, 980 in flight before a burst of 64 lost: 0.02 · 980 / 0.98 = 20 of them fit.
        assert_eq!(inflight_at_loss(1044, 64, 64, 20), 1000);
        // One by one: the 21st of 1000 is beyond, 999 were before it.
        assert_eq!(inflight_at_loss(1000, 21, 1, 20), 999);
        assert_eq!(inflight_at_loss(3, 10, 20, 20), 0);
    }

    #[test]
    fn short_term_bounds_fall_to_the_delivery_but_not_below_seven_tenths_a_round() {
        let mut bounds = ShortTerm::default();
        let delivery = Delivery { bw_latest: 900, inflight_latest: 50, ..Delivery::default() };
        bounds.lower(&delivery, 1000, 100, 700);
        assert_eq!((bounds.bw, bounds.inflight), (900, 70));
        bounds.lower(&delivery, 1000, 100, 700);
        assert_eq!((bounds.bw, bounds.inflight), (900, 50));
    }
}
