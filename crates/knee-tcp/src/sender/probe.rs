//! Tail loss probes (RFC 8985, 7).

use super::ack::Findings;
use super::rtt::RTO_INITIAL;
use super::transmit::Push;
use super::{Config, Outgoing, Pending, Sender};
use knee_cc::{CaState, Signal};
use knee_core::Time;

/// Least timer of a loss probe beyond two RTTs (TCP_TIMEOUT_MIN_US).
const PROBE_MIN: Time = Time::from_micros(2000);

/// The tail loss probe whose outcome is awaited (RFC 8985, 7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tlp {
    /// The segment after it (TLP.end_seq); 0: there is none.
    pub end: u64,
    /// It sent a segment again (TLP.is_retrans).
    pub retransmitted: bool,
}

/// The fate of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The fate is not known yet.
    Open,
    /// The original of what it sent arrived, or it sent new data.
    Delivered,
    /// It repaired a loss that nothing else saw.
    Repaired,
}

impl Tlp {
    /// True while its outcome is not known.
    pub(super) const fn is_outstanding(&self) -> bool {
        self.end != 0
    }

    /// True if a D-SACK that ends before segment `end` reports it.
    pub(super) const fn is_reported_by(&self, end: u64) -> bool {
        self.is_outstanding() && self.retransmitted && end == self.end
    }

    /// Its fate by an ACK of all before a segment, and of some bytes of that (RFC 8985, 7.4.2).
    fn outcome(&self, reach: (u64, u16), found: &Findings) -> Outcome {
        if reach.0 < self.end {
            return Outcome::Open;
        }
        //= RFC 8985, 7.4.2
        //# If not TLP.is_retrans: TLP.end_seq = None /* TLP of new data delivered */ Else if ACK has a DSACK option
        //# matching TLP.end_seq: TLP.end_seq = None /* Case 1, above */
        if !self.retransmitted || found.dsack_of_probe {
            return Outcome::Delivered;
        }
        if reach > (self.end, 0) {
            return Outcome::Repaired;
        }
        //= RFC 8985, 7.4.2
        //# Else If ACK is a DupAck without any SACK option: TLP.end_seq = None /* Case 2, above */
        if found.advanced || found.sacked { Outcome::Open } else { Outcome::Delivered }
    }
}

impl Sender {
    /// Sets the timer for a loss probe where one is due (tcp_schedule_loss_probe). `advancing`: an ACK made progress.
    pub(super) fn schedule_probe(&mut self, advancing: bool, now: Time, config: &Config) -> bool {
        if self.packets_out() == 0 || !self.may_probe() {
            return false;
        }
        //= RFC 8985, 7.2
        //# Second, when there is no SRTT estimate available, the PTO SHOULD be 1 second.
        let mut span = if self.rtt.srtt8_us() > 0 { self.probe_span(config) } else { RTO_INITIAL };
        if advancing {
            span = span.min(self.rtt.rto());
        } else if let Some(left) = self.timeout_left(now) {
            //= RFC 8985, 7.2
            //# If Now() + PTO > TCP_RTO_expiration(): PTO = TCP_RTO_expiration() - Now()
            span = span.min(left);
        }
        self.set_timer(Pending::Probe, span, now);
        true
    }

    /// How long a loss probe waits where there is an RTT and something is in flight: two RTTs and a little.
    pub(super) fn probe_span(&self, config: &Config) -> Time {
        //= RFC 8985, 7.2
        //# PTO = 2 * SRTT
        let two_rtts = Time::from_micros(self.rtt.srtt8_us() >> 2);
        //= RFC 8985, 7.2 (departs: Linux adds the least RTO for it, and 2 ms otherwise)
        //# Third, when the FlightSize is one segment, the sender MAY inflate the PTO by TLP.max_ack_delay to
        //# accommodate a potentially delayed acknowledgment and reduce the risk of spurious retransmissions.
        two_rtts + if self.packets_out() == 1 { config.rto_min } else { PROBE_MIN }
    }

    /// True if loss probes are sent in the present state of loss recovery.
    pub(super) const fn may_probe(&self) -> bool {
        //= RFC 8985, 7.2
        //# unless it is already in fast recovery, RTO recovery, or segments have been SACKed (i.e., RACK.segs_sacked is
        //# not zero).
        matches!(self.view.ca, CaState::Open | CaState::Cwr)
    }

    /// RFC 8985, 7.3: a tail loss probe sends new data if there is some, else the last segment again.
    pub(super) fn send_probe(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        // Without a probe the timeout goes on counting from the oldest segment.
        self.pending = Pending::Probe;
        //= RFC 8985, 7.3
        //# First, there is no other previous loss probe still in flight.
        if !self.tlp.is_outstanding() {
            self.tlp.retransmitted = false;
            let before = self.view.snd_nxt;
            let window_open = self.view.snd_nxt < self.view.snd_una + self.offered_window(config);
            if self.view.snd_nxt < self.end && window_open {
                //= RFC 8985, 7.3
                //# If both conditions are met, then the sender SHOULD transmit a previously unsent data segment, if one
                //# exists and the receive window allows, and increment the FlightSize accordingly.
                self.send_new(Push::Probe, now, config, out);
            } else {
                self.rtx.track(self.view.snd_una, self.view.snd_nxt);
                //= RFC 8985, 7.3
                //# If such an unsent segment is not available, then the sender SHOULD retransmit the highest-sequence
                //# segment sent so far and set TLP.is_retrans to true.
                self.resend(self.view.snd_nxt - 1, 1, now, out);
                self.tlp.retransmitted = true;
            }
            if self.tlp.retransmitted || self.view.snd_nxt > before {
                self.tlp.end = self.view.snd_nxt;
                self.pending = Pending::Nothing;
            }
        }
        //= RFC 8985, 7.3
        //# After attempting to send a loss probe, regardless of whether a loss probe was sent, the sender MUST re-arm
        //# the RTO timer, not the PTO timer, if the FlightSize is not zero.
        self.rearm_timeout(now);
    }

    /// Settles the tail loss probe by an ACK of all segments before `reach.0` and of `reach.1` bytes of that segment
    /// (tcp_process_tlp_ack).
    #[cold]
    pub(super) fn check_probe(&mut self, reach: (u64, u16), found: &Findings, now: Time) {
        match self.tlp.outcome(reach, found) {
            Outcome::Open => {}
            Outcome::Delivered => self.tlp.end = 0,
            Outcome::Repaired => {
                //= RFC 8985, 7.4.2
                //# The sender then SHOULD invoke a congestion control response equivalent to a fast recovery.
                self.begin_reduction(Signal::Loss, now);
                self.set_state(CaState::Cwr, now);
                self.end_reduction(now);
                self.try_keep_open(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8985, 7.4.2, case by case, for a probe that ends before segment 10.
    #[test]
    fn an_ack_tells_what_became_of_a_probe() {
        let nothing = Findings::default;
        let again = Tlp { end: 10, retransmitted: true };
        let new = Tlp { retransmitted: false, ..again };
        assert_eq!(again.outcome((9, 700), &nothing()), Outcome::Open, "its last segment is not acknowledged");
        assert_eq!(new.outcome((10, 0), &nothing()), Outcome::Delivered, "new data");
        let progress = Findings { advanced: true, ..nothing() };
        assert_eq!(again.outcome((10, 0), &progress), Outcome::Open, "the original's ACK may still come");
        assert_eq!(again.outcome((10, 0), &nothing()), Outcome::Delivered, "case 2: a duplicate ACK");
        let dsack = Findings { advanced: true, dsack_of_probe: true, ..nothing() };
        assert_eq!(again.outcome((10, 0), &dsack), Outcome::Delivered, "case 1: a D-SACK");
        assert_eq!(again.outcome((11, 0), &progress), Outcome::Repaired, "only one of the two arrived");
        assert!(again.is_reported_by(10) && !again.is_reported_by(9) && !new.is_reported_by(10));
    }
    use crate::sender::AckInfo;
    use crate::sender::testing::{config, sender, stream};

    /// RFC 8985, 7.4.2: after a probe that retransmitted the last segment, one ACK of all leaves open whether that or
    /// the original arrived. Case 1 is a D-SACK of it, Case 2 a duplicate ACK without SACK blocks: both arrived.
    #[test]
    fn a_probe_that_was_not_needed_reduces_no_window() {
        // The receive window is full, so that the probe cannot be new data.
        let config = config(false, 9, 10);
        for blocks in [[].as_slice(), &[(9, 10)]] {
            let mut sender = sender("reno", None, false, &config);
            let now = config.clock.expiry(&sender.timer);
            let mut out = Vec::new();
            sender.on_timer(now, &config, &mut out);
            assert_eq!(out, [Outgoing { start: 9, count: 1, retransmission: true }]);
            let all = AckInfo { seq: 10, part: 0, blocks: &[], dsack: false, tsecr: 1, tsval: 0, flags: 0 };
            sender.on_ack(&all, now + Time::from_millis(1), &config, &mut Vec::new());
            assert!(sender.tlp.is_outstanding() && sender.packets_out() > 0);
            let second = AckInfo { blocks, dsack: !blocks.is_empty(), ..all };
            sender.on_ack(&second, now + Time::from_millis(2), &config, &mut Vec::new());
            assert!(!sender.tlp.is_outstanding() && !sender.reduced(), "{blocks:?}");
        }
    }

    /// tcp_ack of Linux comes to tcp_process_tlp_ack also where all was acknowledged before.
    #[test]
    fn that_a_probe_was_not_needed_is_learned_with_nothing_in_flight_too() {
        let config = config(false, 9, 1_000);
        let dsack = AckInfo { blocks: &[(9, 10)], dsack: true, ..AckInfo::plain(10, 1, 0) };
        for second in [dsack, AckInfo::plain(10, 1, 0)] {
            let (mut sender, mut out, start) = (stream("reno", &config), Vec::new(), Time::from_millis(20));
            sender.write(10 * 1448, start, start, &config);
            sender.send(start, &config, &mut out);
            let now = config.clock.expiry(&sender.timer);
            out.clear();
            sender.on_timer(now, &config, &mut out);
            assert_eq!(out, [Outgoing { start: 9, count: 1, retransmission: true }]);
            sender.on_ack(&AckInfo::plain(10, 1, 0), now + Time::from_millis(1), &config, &mut Vec::new());
            assert!(sender.tlp.is_outstanding() && sender.packets_out() == 0);
            sender.on_ack(&second, now + Time::from_millis(2), &config, &mut Vec::new());
            assert!(!sender.tlp.is_outstanding(), "{second:?}");
            // An ACK of what is written later does not say that the probe repaired a loss.
            let later = now + Time::from_millis(50);
            sender.write(10 * 1448, now, later, &config);
            sender.send(later, &config, &mut Vec::new());
            sender.on_ack(&AckInfo::plain(20, 1, 0), later + Time::from_millis(20), &config, &mut Vec::new());
            assert!(!sender.reduced(), "{second:?}");
        }
    }
}
