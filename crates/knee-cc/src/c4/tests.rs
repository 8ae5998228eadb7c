//! C4 worked by hand, and its era, window and states under generated ACKs.

use super::*;
use crate::testing::close;

/// "Variable Sensitivity" gives the points, and the thresholds their formulas.
#[test]
fn the_thresholds_by_hand() {
    assert!(close(sensitivity(0.0), 0.0) && close(sensitivity(5e4), 0.0));
    assert!(close(sensitivity(525_000.0), 0.46) && close(sensitivity(1e6), 0.92));
    assert!(close(sensitivity(5.5e6), 0.96) && close(sensitivity(1e8), 1.0));
    // A sixteenth of 80 ms for a fast flow, a quarter for a slow one, but never more than 25 ms.
    assert!(close(delay_threshold(1.0, 0.08, 0.025), 0.005) && close(delay_threshold(0.0, 0.08, 0.025), 0.02));
    assert!(close(delay_threshold(0.0, 0.4, 0.025), 0.025));
    assert!(close(loss_threshold(1.0), 0.02) && close(loss_threshold(0.0), 0.52));
    assert!(close(mark_threshold(1.0), 3.0 / 32.0) && close(mark_threshold(0.0), 6.0 / 32.0));
}

fn c4() -> C4 {
    C4 {
        params: Params::default(),
        mss: 1448.0,
        most_delay: 0.025,
        max_jitter: 0.25,
        seed_cwnd: 0.0,
        seed_rate: 0.0,
        resumes: false,
        initial_cwnd: 10.0,
        phase: Phase::Cruising,
        nominal_rate: 2e7,
        recent_max_rate: 0.0,
        nominal_max_rtt: 0.08,
        running_min_rtt: 0.08,
        era: Era::default(),
        alpha: 1.0,
        alpha_previous: 1.0,
        congested: false,
        congestions: 0,
        eras_in_phase: 0,
        eras_without_increase: 0,
        probed_from: None,
        cycle: Cycle::default(),
        jitter_seen: false,
        marks_seen: false,
        loss_rate: 0.0,
        accurate_ecn: true,
        echoed: false,
        marks: Marks::default(),
    }
}

fn ack_of<'a>(view: &'a View, rate: &'a crate::RateSample, rtt_ms: u64) -> Ack<'a> {
    Ack {
        view,
        rtt: Some(Time::from_millis(rtt_ms)),
        acked: 1,
        delivered: 1,
        lost: 0,
        prior_in_flight: 10,
        prior_una: 0,
        part: false,
        cwnd_limited: true,
        ece: false,
        rate,
    }
}

/// 80 ms and a threshold of 5: 86 ms are congestion by a fifth of the threshold, 87.5 by half of it, capped at a
/// quarter.
#[test]
fn a_delay_takes_up_to_a_quarter_while_cruising_and_nothing_elsewhere() {
    for (phase, rtt, left) in
        [(Phase::Cruising, 86, 0.8), (Phase::Cruising, 90, 0.75), (Phase::Probing, 90, 1.0), (Phase::Pushing, 90, 1.0)]
    {
        let mut c4 = C4 { phase, ..c4() };
        let mut control = Control::initial(10);
        c4.on_ack(&ack_of(&View::INITIAL, &crate::RateSample::NONE, rtt), &mut control);
        assert_eq!(c4.phase, Phase::Recovery);
        assert!(close(c4.nominal_rate, 2e7 * left), "{phase:?} {rtt}: {}", c4.nominal_rate);
    }
    let mut c4 = c4();
    c4.on_ack(&ack_of(&View::INITIAL, &crate::RateSample::NONE, 85), &mut Control::initial(10));
    assert_eq!(c4.phase, Phase::Cruising);
}

/// 16 packets with three marks: a share of 3/16 over 3/32, smoothed to 3/256; with eight of them it counts at once.
#[test]
fn marks_are_congestion_by_their_share_and_a_classic_echo_at_once() {
    let view = |marked| View { delivered: 16, delivered_ce: marked, ..View::INITIAL };
    for (marked, beta) in [(3, None), (8, Some(0.25))] {
        assert_eq!(c4().mark_congestion(&ack_of(&view(marked), &crate::RateSample::NONE, 80), 1.0), beta);
    }
    let mut classic = C4 { accurate_ecn: false, ..c4() };
    let mut control = Control::initial(10);
    let view = View::INITIAL;
    classic.on_congestion(&Congestion { view: &view, signal: Signal::Loss }, &mut control);
    assert_eq!(classic.mark_congestion(&ack_of(&view, &crate::RateSample::NONE, 80), 1.0), None);
    classic.on_congestion(&Congestion { view: &view, signal: Signal::Ecn }, &mut control);
    let ack = ack_of(&view, &crate::RateSample::NONE, 80);
    assert_eq!([(); 2].map(|()| classic.mark_congestion(&ack, 1.0)), [Some(0.25), None]);
}

#[test]
fn the_window_is_within_its_bounds_whatever_the_connection_starts_with() {
    for (first, cwnd) in [(1.0, 2), (f64::from(u32::MAX), 1_000_000_000)] {
        let c4 = C4 { phase: Phase::Initial, initial_cwnd: first, nominal_rate: 0.0, ..c4() };
        let mut control = Control::initial(1);
        c4.apply(&mut control);
        assert_eq!(control.cwnd, cwnd);
    }
}

/// 20 MB/s of payload: alpha times the rate, and what that sends in 80 ms and a margin of 15; in 40 ms, of 10.
#[test]
fn rate_and_window_are_alpha_times_the_nominal_ones() {
    for (phase, alpha, rtt, room) in [
        (Phase::Recovery, 0.9375, 0.08, 0.095),
        (Phase::Cruising, 1.0, 0.08, 0.095),
        (Phase::Probing, 1.0625, 0.08, 0.095),
        (Phase::Pushing, 1.25, 0.04, 0.05),
    ] {
        let mut c4 = C4 { nominal_max_rtt: rtt, ..c4() };
        c4.enter(phase, &View::INITIAL);
        let mut control = Control::initial(10);
        c4.apply(&mut control);
        assert_eq!(control.pacing_rate, Some(Rate::from_bps((alpha * 1.6e8) as u64)));
        assert_eq!(control.cwnd, (alpha * 2e7_f64 * room / 1448.0).ceil() as u32);
    }
}

/// 1,448 bytes in 100 ms: a window of 2.2 packets lets three go, which 17/16 do not change; and 116 kbit/s.
#[test]
fn a_probe_sends_a_packet_more_at_least_and_initial_a_mbit_per_second() {
    let mut c4 = C4 { nominal_rate: 14_480.0, nominal_max_rtt: 0.2, ..c4() };
    let mut control = Control::initial(10);
    let cwnds = [Phase::Cruising, Phase::Probing].map(|phase| {
        c4.enter(phase, &View::INITIAL);
        c4.apply(&mut control);
        control.cwnd
    });
    assert_eq!(cwnds, [3, 4]);
    c4.enter(Phase::Initial, &View::INITIAL);
    c4.apply(&mut control);
    assert_eq!(control.pacing_rate, Some(Rate::from_bps(1_048_576)));
}

/// 20 MB/s and 80 ms are 1105 packets: 17/16 of them Recovery drains at 15/16.
#[test]
fn recovery_drains_more_where_more_is_under_way() {
    for (in_flight, alpha) in [(1105, 0.9375), (1174, 0.9375), (1400, 0.875)] {
        let mut c4 = C4 { phase: Phase::Probing, ..c4() };
        c4.enter(Phase::Recovery, &View { in_flight, ..View::INITIAL });
        assert!(close(c4.alpha, alpha), "{in_flight}: {}", c4.alpha);
    }
}

/// Acknowledgements add what they acknowledge, and an eighth of it after each era without an increase; at the end
/// half the window over the rate is the greatest RTT.
#[test]
fn initial_grows_as_slow_start_and_tells_the_greatest_rtt() {
    let mut c4 = C4 { phase: Phase::Initial, nominal_rate: 0.0, ..c4() };
    let view = View::INITIAL;
    for (without, cwnd) in [(0, 11.0), (1, 11.125), (2, 11.140_625)] {
        c4.eras_without_increase = without;
        c4.measure(&ack_of(&view, &crate::RateSample::NONE, 80));
        assert!(close(c4.initial_cwnd, cwnd), "{}", c4.initial_cwnd);
    }
    (c4.nominal_rate, c4.initial_cwnd, c4.nominal_max_rtt) = (1e6, 400.0, 0.08);
    c4.enter(Phase::Recovery, &view);
    assert!(close(c4.nominal_max_rtt, 0.2 * 1448.0 / 1e3), "{}", c4.nominal_max_rtt);
}

#[test]
fn a_probe_that_finds_more_leads_to_pushing_and_others_to_cruising() {
    for (from, congested, next) in [
        (Some(1.9e7), false, Phase::Pushing),
        (Some(2e7), false, Phase::Cruising),
        (Some(1.9e7), true, Phase::Cruising),
        (None, false, Phase::Cruising),
    ] {
        let mut c4 = C4 { probed_from: from, congested, ..c4() };
        assert_eq!(c4.after_recovery(), next);
    }
}

/// Eras of Pushing: the first decides nothing, a later one needs 19/16 of the rate at its begin, the third leads
/// on.
#[test]
fn pushing_lasts_while_the_rate_grows_and_then_is_initial() {
    let view = View::INITIAL;
    let mut c4 = c4();
    c4.enter(Phase::Pushing, &view);
    c4.end_era(&view);
    assert_eq!(c4.phase, Phase::Pushing);
    let mut slow = c4.clone();
    slow.nominal_rate *= 1.18;
    slow.end_era(&view);
    assert_eq!(slow.phase, Phase::Recovery);
    for next in [Phase::Pushing, Phase::Initial] {
        c4.nominal_rate *= 1.19;
        c4.end_era(&view);
        assert_eq!(c4.phase, next);
    }
}

#[test]
fn a_rate_that_no_cycle_confirms_is_trimmed_by_half_and_persistent_congestion_takes_all() {
    let trimmed = |c4: C4| {
        let mut c4 = C4 { recent_max_rate: 1.8e7, cycle: Cycle { rate: 2e7, ..c4.cycle }, ..c4 };
        c4.after_recovery();
        c4.nominal_rate
    };
    assert!(close(trimmed(c4()), 1.9e7));
    assert!(close(trimmed(C4 { cycle: Cycle { app_limited: true, ..Cycle::default() }, ..c4() }), 2e7));
    assert!(close(trimmed(C4 { nominal_max_rtt: LEAST_RTT, running_min_rtt: LEAST_RTT, ..c4() }), 2e7));
    assert!(close(trimmed(C4 { congested: true, ..c4() }), 2e7));
    assert!(close(trimmed(C4 { congested: true, congestions: 1, ..c4() }), 1.8e7));
}

/// Jitter is remembered for several cycles: up at once, down by an eighth, at most 250 ms above the minimum.
#[test]
fn the_maximum_rtt_rises_at_once_and_falls_slowly() {
    let mut c4 = c4();
    c4.era.rtts = Some((0.08, 0.12));
    c4.track_rtts();
    assert!(close(c4.nominal_max_rtt, 0.12));
    c4.era.rtts = Some((0.08, 0.08));
    c4.track_rtts();
    assert!(close(c4.nominal_max_rtt, 0.115));
    c4.era.rtts = Some((0.08, 1.0));
    c4.track_rtts();
    assert!(close(c4.nominal_max_rtt, 0.33));
    assert_eq!(c4.after_recovery(), Phase::Initial, "0.08 is below two fifths of 0.33");
    assert_eq!(c4.after_recovery(), Phase::Cruising, "once");
}
