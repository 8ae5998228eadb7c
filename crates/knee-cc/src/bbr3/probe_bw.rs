//! Probe_bw: down, cruise, refill, up, and the long-term bound on what is in flight (5.3.3).

use super::model::Sample;
use super::{Bbr3, INFINITE, MIN_PIPE_CWND, State, UNIT};
use crate::{Ack, CaState, Control, View};
use knee_core::Time;

/// The longest wait between probes in rounds, so that Reno and CUBIC reach a fair share (5.3.3.8).
const MAX_PROBE_ROUNDS: u64 = 63;
/// The slope doubles this often at most.
const MAX_UP_ROUNDS: u32 = 30;
/// Least wait between probes; up to a second more is drawn.
const MIN_WAIT: Time = Time::from_secs(2);

/// The part of a probe that the ACKs coming in belong to (2.13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckPhase {
    /// Nothing.
    #[default]
    Init,
    /// ACKs of the refill.
    Refilling,
    /// ACKs of the refill, while in flight rises.
    ProbeStarting,
    /// ACKs of the probe.
    ProbeFeedback,
    /// ACKs after the probe, perhaps still of it.
    ProbeStopping,
}

/// Progress of the probing cycle.
#[derive(Clone, Debug)]
pub struct Probe {
    pub ack_phase: AckPhase,
    /// Samples are of a probe that was not reacted to yet.
    pub is_sample: bool,
    /// The last probe lost too much.
    pub prev_too_high: bool,
    /// The last probe was stopped where the one before had lost too much.
    prev_precautionary: bool,
    /// Round in which drain began.
    pub drain_start: u64,
    /// Rounds since the last probe.
    pub rounds_since_up: u64,
    /// When the cycle began.
    cycle_start: Time,
    /// How long it waits to probe.
    wait: Time,
    /// Rounds the bound has been growing.
    up_rounds: u32,
    /// Packets delivered towards the bound's next step.
    up_acked: u64,
    /// Packets that make it grow by one.
    acked_per_step: u64,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_sample: false,
            prev_too_high: false,
            prev_precautionary: false,
            drain_start: 0,
            rounds_since_up: 0,
            cycle_start: Time::ZERO,
            wait: Time::ZERO,
            up_rounds: 0,
            up_acked: 0,
            acked_per_step: INFINITE,
        }
    }
}

impl Probe {
    /// Doubles the bound's growth per round: 1, 2, 4, ... packets (`RaiseInflightLongtermSlope`).
    fn raise_slope(&mut self, cwnd: u32) {
        let growth = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.acked_per_step = (u64::from(cwnd) / growth).max(1);
    }

    /// How many packets the bound grows by for `delivered` more.
    fn steps(&mut self, delivered: u32) -> u64 {
        self.up_acked = self.up_acked.saturating_add(u64::from(delivered));
        let steps = self.up_acked / self.acked_per_step;
        self.up_acked %= self.acked_per_step;
        steps
    }
}

/// `inflight_longterm` less the room left to others, a packet at least (`InflightWithHeadroom`); `headroom` in 1/1000.
pub fn with_headroom(inflight_longterm: u64, headroom: u64) -> u64 {
    if inflight_longterm == INFINITE {
        return INFINITE;
    }
    let room = (inflight_longterm.saturating_mul(headroom) / UNIT).max(1);
    inflight_longterm.saturating_sub(room).max(MIN_PIPE_CWND)
}

impl Bbr3 {
    pub(super) fn start_down(&mut self, view: &View) {
        self.delivery.reset();
        self.ecn.reset();
        self.probe.acked_per_step = INFINITE;
        self.probe.rounds_since_up = self.rng.below(2);
        self.probe.wait = MIN_WAIT + Time::from_nanos(self.rng.below(1_000_000_000));
        self.probe.cycle_start = view.now;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.model.start_round(view.delivered);
        self.state = State::Down;
    }

    pub(super) fn start_cruise(&mut self) {
        if self.tunables.is_kernel() && self.short_term.inflight != INFINITE {
            self.short_term.inflight = self.short_term.inflight.min(self.inflight_longterm);
        }
        self.state = State::Cruise;
    }

    pub(super) fn start_refill(&mut self, view: &View) {
        self.short_term.reset();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.prev_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.model.start_round(view.delivered);
        self.state = State::Refill;
    }

    fn start_up(&mut self, view: &View, sample: &Sample, cwnd: u32) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.model.start_round(view.delivered);
        self.full_pipe.restart(sample.bw);
        self.state = State::Up;
        self.probe.raise_slope(cwnd);
    }

    /// `UpdateProbeBWCyclePhase` (5.3.3.9).
    pub(super) fn update_probe_bw(&mut self, ack: &Ack, sample: &Sample, control: &Control) {
        if !self.full_pipe.reached || ack.delivered == 0 || self.adapt_long_term(ack, sample, control) {
            return;
        }
        match self.state {
            State::Down | State::Cruise => self.check_time_to_probe(ack.view, control.cwnd),
            State::Refill if self.model.round_start() => {
                self.probe.is_sample = true;
                self.start_up(ack.view, sample, control.cwnd);
            }
            State::Up => self.check_up_done(ack, sample, control.cwnd),
            _ => {}
        }
    }

    /// Starts to probe where it is time; after marks that have ended, at once and with a steeper slope. Else down may
    /// end.
    fn check_time_to_probe(&mut self, view: &View, cwnd: u32) {
        let after_marks = self.reprobe_after_marks(view.ca == CaState::Open);
        if after_marks.is_some() || self.is_time_to_probe(view, cwnd) {
            self.start_refill(view);
            self.probe.up_rounds = after_marks.unwrap_or(0).min(MAX_UP_ROUNDS);
        } else if self.state == State::Down && self.is_time_to_cruise(view) {
            self.start_cruise();
        }
    }

    /// `IsTimeToProbeBW`: after 2 to 3 s, or after as many rounds as Reno would take to regain its window.
    fn is_time_to_probe(&self, view: &View, cwnd: u32) -> bool {
        let waited = view.now > self.probe.cycle_start.saturating_add(self.probe.wait);
        waited || self.probe.rounds_since_up >= self.target_inflight(cwnd).min(MAX_PROBE_ROUNDS)
    }

    /// `IsTimeToCruise`: there is headroom, and no queue of ours.
    fn is_time_to_cruise(&self, view: &View) -> bool {
        let in_flight = u64::from(view.in_flight);
        in_flight <= with_headroom(self.inflight_longterm, self.tunables.headroom)
            && in_flight <= self.inflight(self.model.max_bw(), UNIT)
    }

    fn check_up_done(&mut self, ack: &Ack, sample: &Sample, cwnd: u32) {
        if self.is_time_to_go_down(ack, sample, cwnd) {
            self.probe.prev_too_high = false;
            self.start_down(ack.view);
        }
    }

    /// `IsTimeToGoDown`: where the last probe lost too much, at the bound it set; else where the bandwidth stays.
    fn is_time_to_go_down(&mut self, ack: &Ack, sample: &Sample, cwnd: u32) -> bool {
        // Google's kernel looks at what was in flight before the ACK, and adds the burst that leaves next; after the
        // ACK the window has room again.
        let more = if self.tunables.is_kernel() { u64::from(ack.delivered) + self.output.quantum() } else { 0 };
        let reached = u64::from(ack.view.in_flight) + more;
        if self.probe.prev_too_high && reached >= self.inflight_longterm {
            self.probe.prev_precautionary = true;
            return true;
        }
        if ack.cwnd_limited && u64::from(cwnd) >= self.inflight_longterm {
            // The bound, not the path, holds the bandwidth down.
            self.full_pipe.restart(sample.bw);
            return false;
        }
        self.full_pipe.now
    }

    /// Follows a probe's feedback and raises the long-term bound where losses allow; tells whether it decided on a
    /// state (`AdaptLongTermModel`).
    fn adapt_long_term(&mut self, ack: &Ack, sample: &Sample, control: &Control) -> bool {
        if self.model.round_start() && self.advance_ack_phase(sample) {
            self.start_refill(ack.view);
            return true;
        }
        if self.is_marked_too_much(sample) {
            if self.probe.is_sample {
                self.handle_inflight_too_high(ack.view, sample.tx_in_flight, sample.app_limited, control.cwnd);
            }
        } else if !self.is_inflight_too_high(sample) && self.inflight_longterm != INFINITE {
            self.inflight_longterm = self.inflight_longterm.max(sample.tx_in_flight);
            if self.state == State::Up {
                self.probe_upward(ack, control.cwnd);
            }
        }
        false
    }

    /// A round after a probe ended its samples are all in; a precautionary one that lost little is repeated at once.
    fn advance_ack_phase(&mut self, sample: &Sample) -> bool {
        match self.probe.ack_phase {
            AckPhase::ProbeStarting => self.probe.ack_phase = AckPhase::ProbeFeedback,
            AckPhase::ProbeStopping => {
                self.probe.is_sample = false;
                self.probe.ack_phase = AckPhase::Init;
                if self.state.in_probe_bw() {
                    if !sample.app_limited {
                        self.model.advance_cycle();
                    }
                    return self.probe.prev_precautionary && !self.probe.prev_too_high;
                }
            }
            _ => {}
        }
        false
    }

    /// Raises the bound if it is the limit (`ProbeInflightLongtermUpward`).
    fn probe_upward(&mut self, ack: &Ack, cwnd: u32) {
        if !ack.cwnd_limited || u64::from(cwnd) < self.inflight_longterm {
            return;
        }
        self.inflight_longterm =
            self.inflight_longterm.saturating_add(self.probe.steps(ack.delivered)).min(INFINITE - 1);
        if self.model.round_start() {
            self.probe.raise_slope(cwnd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_15_percent_but_a_packet_at_least_and_leaves_four() {
        assert_eq!([1000, 100, 6, 5, 2].map(|bound| with_headroom(bound, 150)), [850, 85, 5, 4, 4]);
        assert_eq!(with_headroom(INFINITE, 150), INFINITE);
    }

    #[test]
    fn the_bound_grows_by_1_2_4_8_packets_in_successive_rounds_of_a_window_of_100() {
        let mut probe = Probe::default();
        let grown: Vec<u64> = (0..4)
            .map(|_| {
                probe.raise_slope(100);
                (0..100).map(|_| probe.steps(1)).sum()
            })
            .collect();
        // 100 / 8 is 12: the fourth round takes 100 / 12 steps.
        assert_eq!(grown, [1, 2, 4, 8]);
    }
}
