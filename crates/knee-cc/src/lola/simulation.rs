//! LoLa in a closed loop: the paper's figures at lower rates.

use super::ENTRY;
use crate::testing::{Dumbbell, change, congestion};
use crate::{CaState, Signal, StateEvent};
use knee_core::{Rate, Time, Value};

const FAIR_FLOW_BALANCING: u8 = 2;
const CWND_HOLD: u8 = 3;
const TAILORED_DECREASE: u8 = 4;

/// Flows of these base RTTs that start `step` seconds apart, run for `end` seconds.
fn run(mbps: u64, rtts_ms: &[u64], step: u64, end: u64) -> Dumbbell {
    let mut net = Dumbbell::new(Rate::from_mbps(mbps), usize::MAX);
    for (i, &rtt) in rtts_ms.iter().enumerate() {
        net.add(&ENTRY, &[], Time::from_millis(rtt), Time::from_secs(i as u64 * step));
    }
    net.run(Time::from_secs(end));
    net
}

/// When a flow entered a phase, in whole seconds.
fn entered(net: &Dumbbell, flow: usize, phase: u8) -> Vec<u64> {
    net.flows[flow].phases.iter().filter(|(_, p)| *p == phase).map(|(at, _)| at.as_millis() / 1000).collect()
}

/// Greatest queueing delay over a span of seconds.
fn peak(net: &Dumbbell, from: usize, to: usize) -> Time {
    *net.peaks[from * 10..to * 10].iter().max().unwrap()
}

/// Share of the link that a flow had over a span of seconds.
fn share(net: &Dumbbell, flow: usize, from: u64, to: u64) -> f64 {
    let at = |s: u64| net.flows[flow].series[s as usize * 10 - 1];
    (at(to) - at(from)) as f64 * 12_000.0 / net.rate().as_bps() as f64 / (to - from) as f64
}

#[test]
fn at_100_mbit_two_flows_are_fair_within_ten_seconds_and_the_queue_stays_low() {
    // Fig. 5.
    let net = run(100, &[21, 21], 20, 61);
    for i in 0..2 {
        let share = share(&net, i, 30, 60);
        assert!((0.45..0.55).contains(&share), "{share}");
    }
    assert!(share(&net, 0, 30, 60) + share(&net, 1, 30, 60) > 0.97);
    // Q_target, and what both flows add in the 67 ms until they see it: both X = (t/35)³ near t = 1.1 s grow the queue by
    // 13 ms per second, 0.9 ms, and in steps that large.
    assert!(peak(&net, 30, 60) < Time::from_micros(7_500), "{}", peak(&net, 30, 60));
}

#[test]
fn at_1_gbit_fairness_takes_four_to_six_rounds() {
    let net = run(1_000, &[21, 21], 20, 61);
    let rounds = entered(&net, 1, FAIR_FLOW_BALANCING);
    let ratio = |from| share(&net, 1, from, from + 4) / share(&net, 0, from, from + 4);
    assert!(ratio(rounds[2]) < 0.9, "after two rounds {}", ratio(rounds[2]));
    assert!((0.9..1.1).contains(&ratio(rounds[6])), "after six rounds {}", ratio(rounds[6]));
    assert!(share(&net, 0, 40, 60) + share(&net, 1, 40, 60) > 0.97);
    assert!(peak(&net, 40, 60) < Time::from_millis(6));
}

#[test]
fn flows_of_different_rtts_get_the_same_rate() {
    // Fig. 4d at a tenth and a hundredth of its rate.
    for mbps in [1_000, 100] {
        let net = run(mbps, &[21, 101], 20, 121);
        for i in 0..2 {
            let share = share(&net, i, 70, 120);
            assert!((0.425..0.575).contains(&share), "{mbps} Mbit/s: {share}");
        }
    }
}

#[test]
fn with_many_flows_the_delay_stays_around_the_target() {
    // Fig. 6 at a tenth of its rate: 18 flows, one more every 4 s.
    let net = run(1_000, &[21; 18], 4, 121);
    for i in 0..18 {
        let share = 18.0 * share(&net, i, 90, 120);
        assert!((0.9..1.1).contains(&share), "flow {i}: {share}");
    }
    assert!(peak(&net, 90, 120) < Time::from_millis(8), "{}", peak(&net, 90, 120));
}

#[test]
fn the_window_is_held_for_t_sync_and_every_decrease_is_seen() {
    let net = run(100, &[21], 0, 30);
    let phases = &net.flows[0].phases;
    assert!(entered(&net, 0, TAILORED_DECREASE).len() > 5);
    for pair in phases.windows(2).filter(|pair| pair[0].1 == CWND_HOLD) {
        let held = pair[1].0 - pair[0].0;
        assert_eq!(pair[1].1, TAILORED_DECREASE);
        assert!(held >= Time::from_millis(250) && held < Time::from_millis(255), "{held}");
    }
}

#[test]
fn a_longer_path_is_learnt_after_the_set_number_of_decreases() {
    let share_after_change = |resets| {
        let given = [("min_rtt_resets", Value::Count(resets))];
        let mut net = Dumbbell::new(Rate::from_mbps(100), usize::MAX);
        net.add(&ENTRY, &given, Time::from_millis(21), Time::ZERO);
        net.run(Time::from_secs(20));
        net.flows[0].base_rtt = Time::from_millis(61);
        net.run(Time::from_secs(81));
        share(&net, 0, 60, 80)
    };
    assert!(share_after_change(5) > 0.97);
    // Until then 40 ms of path are taken for a queue, and the window stays small.
    assert!(share_after_change(1_000_000) < 0.5);
}

#[test]
fn a_loss_is_handled_as_by_cubic_and_only_a_timeout_leads_to_slow_start() {
    let given = [("fast_convergence", Value::Bool(false))];
    let mut net = Dumbbell::new(Rate::from_mbps(1_000), usize::MAX);
    net.add(&ENTRY, &given, Time::from_millis(21), Time::ZERO);
    net.run(Time::from_secs(20));
    let lose = |net: &mut Dumbbell, signal, event| {
        let flow = &mut net.flows[0];
        flow.control.ssthresh =
            crate::testing::after(flow.control, |c| flow.cc.on_congestion(&congestion(flow.view, signal), c)).ssthresh;
        flow.control.cwnd = flow.control.ssthresh;
        flow.cc.on_state(&change(flow.view, event), &mut flow.control);
    };
    let cwnd_max = net.flows[0].control.cwnd;
    lose(&mut net, Signal::Loss, StateEvent::ReductionDone);
    let control = net.flows[0].control;
    assert_eq!((control.cwnd, control.phase), (cwnd_max * 717 / 1024, 1));
    // Eq. 1 with CWnd_max - CWnd = C K³, three seconds later and one RTT ahead.
    let k = libm::cbrt(f64::from(cwnd_max - control.cwnd) / 0.4);
    let expected = f64::from(cwnd_max) - 0.4 * (k - 3.021).powi(3);
    net.run(Time::from_secs(23));
    let control = net.flows[0].control;
    assert!((f64::from(control.cwnd) - expected).abs() < 5.0, "{} {expected}", control.cwnd);
    assert_eq!(control.phase, 1);
    lose(&mut net, Signal::Timeout, StateEvent::Entered(CaState::Loss));
    assert_eq!(net.flows[0].control.phase, 0);
}
