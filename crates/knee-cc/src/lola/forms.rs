//! LoLa's forms, ACK by ACK: each of the three additions of the form paper to what is printed, and the form program.

use super::{ENTRY, Lola, Params, Phase, equations};
use crate::testing::{self, after};
use crate::{Ack, CongestionControl, Control, View};
use knee_core::{Params as Given, Time, Value};

const BASE_MS: u64 = 50;
const CWND: u32 = 1000;

/// A flow whose whole window is acknowledged by one ACK a round trip.
struct Flow {
    cc: Lola,
    control: Control,
    view: View,
}

impl Flow {
    /// In cubic increase with an RTT of 50 ms known.
    fn new(form: &'static str) -> Self {
        let params = Given::resolve(ENTRY.params, [("form", Value::Choice(form))]).unwrap();
        let cc = Lola::new(Params::from(&params), &testing::init());
        let view = View { now: Time::from_secs(10), ..testing::view() };
        let mut flow = Self { cc, control: testing::avoiding(CWND), view };
        flow.round(BASE_MS);
        flow.round(BASE_MS);
        flow
    }

    fn round(&mut self, rtt_ms: u64) {
        self.view.now += Time::from_millis(rtt_ms);
        self.ack(self.control.cwnd, rtt_ms);
    }

    fn ack(&mut self, delivered: u32, rtt_ms: u64) {
        let (view, rtt) = (self.view, Time::from_millis(rtt_ms));
        let ack = Ack { view: &view, rtt: Some(rtt), delivered, cwnd_limited: true, ..testing::ack_of_nothing() };
        self.control = after(self.control, |c| self.cc.on_measure(&ack, c));
        self.control = after(self.control, |c| self.cc.on_ack(&ack, c));
    }

    fn rounds(mut self, rtts_ms: &[u64]) -> Self {
        for &rtt in rtts_ms {
            self.round(rtt);
        }
        self
    }
}

/// After 20 round trips of 53 ms, X(t) is what 1007 ms give, and 93 ms more with the lead of 53 + 40 ms.
#[test]
fn the_target_of_a_round_counts_from_a_feedback_delay_before_it() {
    for (form, lead_ms) in [("paper", 93), ("printed", 0)] {
        let mut flow = Flow::new(form).rounds(&[53; 2]);
        assert_eq!(flow.cc.phase, Phase::FairFlowBalancing);
        let begin = flow.cc.since;
        for _ in 0..100 {
            let before = flow.control.cwnd;
            flow.round(53);
            let age = flow.view.now - begin + Time::from_millis(lead_ms);
            let queued = equations::q_data(u64::from(before) * flow.cc.mss, 53_000, 50_000);
            let missing = equations::fair_flow_target(age, 35.0).saturating_sub(queued) / flow.cc.mss;
            let added = u64::from(flow.control.cwnd - before);
            assert!(added == missing.min(u64::from(before)) || added == 0, "{form}: {added} and not {missing}");
        }
        assert!(flow.control.cwnd > CWND);
    }
}

/// The queue holds `1 - 50/58` of 1000 packets at the greatest RTT of the hold, and `1 - 50/54` at its last.
#[test]
fn the_decrease_takes_the_greatest_rtt_of_the_hold_or_its_last() {
    for (form, rtt_us) in [("paper", 58_000), ("printed", 54_000)] {
        let mut flow = Flow::new(form).rounds(&[58; 3]);
        assert_eq!(flow.cc.phase, Phase::CwndHold);
        while flow.cc.phase == Phase::CwndHold {
            assert!(flow.control.cwnd >= CWND);
            flow.round(54);
        }
        let held = flow.cc.epoch.cwnd_max;
        let expected = equations::tailored_decrease(held, rtt_us, 50_000, flow.cc.scaled.gamma);
        assert_eq!((flow.cc.phase, flow.control.cwnd), (Phase::TailoredDecrease, expected), "{form}");
    }
}

#[test]
fn an_empty_queue_ends_balancing_or_leads_nowhere() {
    for (form, phase) in [("paper", Phase::CubicIncrease), ("printed", Phase::FairFlowBalancing)] {
        let flow = Flow::new(form).rounds(&[53; 2]).rounds(&[50; 3]);
        assert_eq!(flow.cc.phase, phase, "{form}");
    }
}

/// The form program: 1000 packets in flight with 16 RTTs of 53 ms, where 50 are known, become 1000 · 50/53 · 973/1024.
#[test]
fn the_program_ends_slow_start_by_a_rounds_first_16_rtts_and_decreases() {
    let mut flow = Flow::new("program");
    (flow.cc.phase, flow.control.ssthresh) = (Phase::SlowStart, u32::MAX);
    (flow.view.snd_una, flow.view.snd_nxt) = (5_000, 6_000);
    for k in 0..16 {
        assert_eq!((flow.cc.phase, flow.control.cwnd), (Phase::SlowStart, CWND + k), "{k}");
        flow.ack(1, 53);
    }
    assert_eq!((flow.cc.phase, flow.control.cwnd), (Phase::TailoredDecrease, (CWND + 15) * 50 * 973 / (53 * 1024)));
    flow.ack(1, 53);
    assert_eq!(flow.cc.phase, Phase::CubicIncrease);
}

/// X after 10 s at phi = 35 is 23 MB, of which 10 ms take a quarter of what misses; the window at most doubles.
#[test]
fn the_program_spreads_its_increase_from_the_entry_on() {
    let mut flow = Flow::new("program").rounds(&[53; 2]);
    assert_eq!(flow.cc.phase, Phase::FairFlowBalancing);
    flow.ack(1, 53);
    let (mut before, begin) = (flow.control.cwnd, flow.cc.since);
    for _ in 0..40 {
        flow.view.now += Time::from_millis(10);
        flow.ack(1, 53);
        let queued = equations::q_data(u64::from(before) * flow.cc.mss, 53_000, 50_000);
        let missing = equations::fair_flow_target(flow.view.now - begin, 35.0).saturating_sub(queued);
        let due = missing as f64 / 4.0 / flow.cc.mss as f64;
        assert!((f64::from(flow.control.cwnd - before) - due).abs() < 1.0, "{due}");
        before = flow.control.cwnd;
    }
}

/// The hold begins at 58 ms; what it sees later counts for nothing.
#[test]
fn the_program_decreases_by_the_rtt_with_which_the_hold_began() {
    for later_ms in [54, 70] {
        let mut flow = Flow::new("program").rounds(&[58; 3]);
        assert_eq!(flow.cc.phase, Phase::CwndHold);
        while flow.cc.phase == Phase::CwndHold {
            flow.round(later_ms);
        }
        let expected = equations::tailored_decrease(flow.cc.epoch.cwnd_max, 58_000, 50_000, flow.cc.scaled.gamma);
        assert_eq!((flow.cc.phase, flow.control.cwnd), (Phase::TailoredDecrease, expected), "{later_ms}");
    }
}
