//! Careful Resume: a connection that remembers what window an earlier one had on this path goes to half of it at once,
//! paced over a round trip, and gives more than that back if packets are lost.
//!
//! Source: N. Kuhn, E. Stephan, G. Fairhurst, R. Secchi, C. Huitema, "Convergence of Congestion Control from Retained
//! State", draft-ietf-tsvwg-careful-resume-24, "The Phases of CC using Careful Resume". Its terms, with `flight_size`
//! and `IW`:
//!
//! ```text
//!   Reconnaissance ── the initial data is acknowledged, the RTT fits ──▶ Unvalidated
//!        │                       PipeSize = flight_size, cwnd = jump_cwnd = saved_cwnd / 2, paced over an RTT
//!        │                                                                  │ all sent, an RTT over, or an ACK of it
//!        │                                                                  │ cwnd = flight_size
//!        │                                                                  ▼
//!        │                                     ┌─ congestion ───────── Validating
//!        │ congestion, another RTT             ▼                            │ all of it acknowledged
//!        └────────▶ Done ◀───────────────── Safe Retreat                    └──▶ Done
//!                           ssthresh = PipeSize / 2   cwnd <= PipeSize / 2
//! ```
//!
//! - the RTT fits from more than `saved_rtt / 2` to `10 saved_rtt`
//! - `PipeSize` grows by what is acknowledged from the jump on
//! - at the end of Unvalidated, `flight_size < IW` or `flight_size <= PipeSize` means that the sender had no more to
//!   send: `cwnd = PipeSize`, at least IW, and Done
//!
//! The jump waits for an ACK at which the window limits sending, as the draft permits. It needs a sender that paces.
//! What is remembered is a parameter: how a server keeps it, for how long, and that one connection only uses it at a
//! time is not modelled. Over TCP the sender's proportional rate reduction brings the window down to that of Safe
//! Retreat, which the draft advises against; over QUIC it falls at once.

use super::{Saved, SlowStart};
use crate::{Ack, Congestion, Control, Init, View};
use knee_core::{Bytes, Rate, Time};

/// An RTT more than this many times the one remembered is that of another path.
const GREATEST_RTT: u64 = 10;

/// The phase of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The initial window is not acknowledged yet.
    Reconnaissance {
        /// Least RTT so far.
        min_rtt: Time,
        /// The first segment after the initial window, from the first ACK on.
        end: Option<u64>,
    },
    /// More is sent than normal slow start would permit.
    Unvalidated {
        /// The first segment of that.
        first: u64,
        /// When this takes too long.
        until: Time,
    },
    /// It is being acknowledged.
    Validating {
        /// The segment after the last of it.
        end: u64,
    },
    /// Some of it was lost.
    SafeRetreat,
    /// Normal congestion control.
    Done,
}

/// The state of a connection.
#[derive(Clone)]
pub(super) struct CarefulResume {
    /// `jump_cwnd`, packets.
    jump: u32,
    saved_rtt: Time,
    initial_cwnd: u32,
    phase: Phase,
    /// `PipeSize`, packets.
    pipe: u32,
}

/// The rate at which `cwnd` packets leave within one RTT.
pub(super) fn rate_over(cwnd: u32, mss: u32, rtt: Time) -> Rate {
    let bytes = Bytes(u64::from(cwnd) * u64::from(mss));
    Rate::over(bytes, rtt.max(Time::from_micros(1))).max(Rate::from_bps(1))
}

impl CarefulResume {
    pub fn new(saved: &Saved, init: &Init) -> Self {
        let phase = if init.paced { Phase::Reconnaissance { min_rtt: init.rtt, end: None } } else { Phase::Done };
        Self { jump: saved.saved_cwnd / 2, saved_rtt: saved.saved_rtt, initial_cwnd: init.cwnd, phase, pipe: 0 }
    }

    /// An RTT sample of the initial data. Goes to the window remembered, or to normal congestion control.
    fn resume(&mut self, rtt: Time, min_rtt: Time, ack: &Ack, control: &mut Control) {
        let too_short = min_rtt <= self.saved_rtt / 2;
        let too_long = rtt > self.saved_rtt.mul_div(GREATEST_RTT, 1);
        if too_short || too_long || self.jump <= control.cwnd {
            self.phase = Phase::Done;
        } else if ack.cwnd_limited {
            self.pipe = ack.view.in_flight;
            control.cwnd = self.jump;
            control.pacing_rate = Some(rate_over(self.jump, ack.view.mss, rtt));
            self.phase = Phase::Unvalidated { first: ack.view.snd_nxt, until: ack.view.now.saturating_add(rtt) };
        }
    }

    /// The window becomes what of it was used.
    fn stop_jumping(&mut self, view: &View, control: &mut Control) {
        control.pacing_rate = None;
        let flight = view.in_flight;
        if flight < self.initial_cwnd || flight <= self.pipe {
            control.cwnd = self.pipe.max(self.initial_cwnd);
            self.phase = Phase::Done;
        } else {
            control.cwnd = flight;
            self.phase = Phase::Validating { end: view.snd_nxt };
        }
    }
}

impl SlowStart for CarefulResume {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let view = ack.view;
        match self.phase {
            Phase::Reconnaissance { min_rtt, end } => {
                let min_rtt = ack.rtt.map_or(min_rtt, |rtt| rtt.min(min_rtt));
                let end = end.unwrap_or_else(|| ack.prior_una.saturating_add(u64::from(self.initial_cwnd)));
                self.phase = Phase::Reconnaissance { min_rtt, end: Some(end) };
                if let Some(rtt) = ack.rtt.filter(|_| view.snd_una >= end) {
                    self.resume(rtt, min_rtt, ack, control);
                }
            }
            Phase::Unvalidated { first, until } => {
                self.pipe = self.pipe.saturating_add(ack.delivered);
                let sent = ack.prior_in_flight >= control.cwnd;
                if sent || view.snd_una > first || view.now > until {
                    self.stop_jumping(view, control);
                }
            }
            Phase::Validating { end } => {
                self.pipe = self.pipe.saturating_add(ack.delivered);
                if view.snd_una >= end {
                    self.phase = Phase::Done;
                }
            }
            Phase::SafeRetreat | Phase::Done => {}
        }
    }

    fn growth(&mut self, ack: &Ack) -> u32 {
        if matches!(self.phase, Phase::Unvalidated { .. }) { 0 } else { ack.delivered }
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        if matches!(self.phase, Phase::Unvalidated { .. } | Phase::Validating { .. }) {
            control.ssthresh = control.ssthresh.min(self.pipe / 2).max(2);
            self.phase = Phase::SafeRetreat;
        } else {
            self.phase = Phase::Done;
        }
    }

    fn on_reducing(&mut self, ack: &Ack, _: &mut Control) {
        self.pipe = self.pipe.saturating_add(ack.delivered);
    }

    fn on_reduced(&mut self, control: &mut Control) {
        if self.phase == Phase::SafeRetreat {
            control.ssthresh = (self.pipe / 2).max(2);
            self.phase = Phase::Done;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Signal;
    use crate::testing;

    const RTT: Time = Time::from_millis(100);

    /// A connection that remembers a window of 400 packets and an RTT of 100 ms, and whose window limits sending.
    struct Connection {
        start: CarefulResume,
        control: Control,
        view: View,
    }

    impl Connection {
        fn new(paced: bool) -> Self {
            let saved = Saved { saved_cwnd: 400, saved_rtt: RTT };
            let init = Init { rtt: RTT, cwnd: 10, paced, ..testing::init() };
            let view = View { snd_nxt: 10, in_flight: 10, srtt: RTT, ..testing::view() };
            Self { start: CarefulResume::new(&saved, &init), control: Control::initial(10), view }
        }

        /// This many packets are acknowledged at that time, and the window is filled then up to `window`.
        fn ack(&mut self, ms: u64, rtt: Time, packets: u32, window: u32) {
            let (prior_una, prior_in_flight) = (self.view.snd_una, self.view.in_flight);
            self.view.now = Time::from_millis(ms);
            self.view.snd_una += u64::from(packets);
            self.view.in_flight -= packets;
            let ack = Ack {
                view: &self.view,
                rtt: Some(rtt),
                acked: packets,
                delivered: packets,
                prior_una,
                prior_in_flight,
                ..testing::ack_of_nothing()
            };
            if self.start.phase == Phase::SafeRetreat {
                self.start.on_reducing(&ack, &mut self.control);
                return;
            }
            self.start.on_measure(&ack, &mut self.control);
            self.control.cwnd += self.start.growth(&ack);
            let sent = window.saturating_sub(self.view.in_flight);
            self.view.in_flight += sent;
            self.view.snd_nxt += u64::from(sent);
        }

        /// As far as the jump: ten packets acknowledged, in two ACKs.
        fn jumped(rtt: Time) -> Self {
            let mut c = Self::new(true);
            c.ack(200, rtt, 5, 15);
            c.ack(200, rtt, 5, 20);
            c
        }
    }

    #[test]
    fn with_the_initial_data_acknowledged_the_window_is_half_of_the_one_remembered_paced_over_an_rtt() {
        let mut c = Connection::new(true);
        c.ack(200, RTT, 5, 15);
        assert_eq!((c.control.cwnd, c.control.pacing_rate), (15, None));
        c.ack(200, RTT, 5, 20);
        assert_eq!(c.control.cwnd, 200);
        // 200 · 1448 B in 100 ms.
        let rate = Rate::from_bytes_per_sec(200 * u64::from(knee_core::packet::MSS) * 10);
        assert_eq!(c.control.pacing_rate, Some(rate));
        // PipeSize: ten packets were in flight.
        assert_eq!(c.start.pipe, 10);
    }

    #[test]
    fn an_rtt_of_another_path_and_a_sender_that_does_not_pace_leave_slow_start_as_it_is() {
        for (rtt_ms, cwnd) in [(50, 20), (51, 200), (1_000, 200), (1_001, 20)] {
            let mut c = Connection::jumped(Time::from_millis(rtt_ms));
            // The handshake's RTT counts too: that of the test is 100 ms.
            assert_eq!(c.control.cwnd, cwnd, "{rtt_ms} ms");
            c.ack(250, Time::from_millis(rtt_ms), 5, 0);
            assert_eq!(c.start.phase == Phase::Done, cwnd == 20);
        }
        let mut unpaced = Connection::new(false);
        unpaced.ack(200, RTT, 10, 20);
        assert_eq!(unpaced.control.cwnd, 20);
    }

    #[test]
    fn the_window_sent_is_validated_by_its_acks_and_grows_by_them() {
        let mut c = Connection::jumped(RTT);
        // The ten packets sent before; 190 left in the meantime.
        c.view.in_flight = 200;
        c.view.snd_nxt = 210;
        c.ack(290, RTT, 10, 0);
        assert_eq!(c.start.phase, Phase::Validating { end: 210 });
        // cwnd = flight_size = 190, and ten more by this ACK.
        assert_eq!((c.control.cwnd, c.start.pipe, c.control.pacing_rate), (200, 20, None));
        c.ack(300, RTT, 190, 0);
        assert_eq!((c.start.phase, c.control.cwnd, c.start.pipe), (Phase::Done, 390, 210));
    }

    #[test]
    fn a_sender_with_nothing_more_to_send_keeps_what_it_used() {
        let mut c = Connection::jumped(RTT);
        // Ten packets left after the jump, and nothing else until it had taken an RTT.
        c.ack(301, RTT, 5, 0);
        assert_eq!((c.start.phase, c.control.cwnd), (Phase::Done, 15 + 5));
    }

    #[test]
    fn a_loss_leaves_half_of_what_was_acknowledged_and_the_threshold_follows_what_arrives_yet() {
        let mut c = Connection::jumped(RTT);
        c.view.in_flight = 200;
        c.view.snd_nxt = 210;
        c.ack(290, RTT, 10, 0);
        c.ack(300, RTT, 40, 0);
        let loss = testing::congestion(c.view, Signal::Loss);
        c.control.ssthresh = 120;
        c.start.on_congestion(&loss, &mut c.control);
        // PipeSize: 10 in flight at the jump, 50 acknowledged since.
        assert_eq!(c.control.ssthresh, 30);
        c.ack(310, RTT, 80, 0);
        c.start.on_reduced(&mut c.control);
        assert_eq!(c.control.ssthresh, 70);
    }

    #[test]
    fn a_loss_of_the_initial_data_is_the_algorithms() {
        let mut c = Connection::new(true);
        c.control.ssthresh = 7;
        c.start.on_congestion(&testing::congestion(c.view, Signal::Loss), &mut c.control);
        c.start.on_reduced(&mut c.control);
        assert_eq!((c.control.ssthresh, c.start.phase), (7, Phase::Done));
    }
}
