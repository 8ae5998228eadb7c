//! BBRv3 as a whole: equations, and those of the draft's example test cases (its Appendix A) that need no network.

use super::control::rate_bytes_per_sec;
use super::model::bdp_multiple;
use super::*;
use crate::RateSample;
use crate::bandwidth::{BW_UNIT, bandwidth};
use crate::testing;

fn tunables() -> Params {
    Params::default()
}

/// Google's kernel of 2023.
fn kernel() -> Bbr3 {
    let params = Params { kernel: Kernel::V3, ..Params::default() };
    Bbr3::new(params, &Init { rtt: Time::from_millis(40), tick: Time::ZERO, ..testing::init() })
}

#[test]
fn googles_kernel_allows_for_no_more_aggregation_than_100_ms_bring() {
    // 1000 packets/s over 40 ms, twice which is 80; a clump of 420. 100 ms bring 99: the bandwidth is rounded down.
    let rate = RateSample { delivered: 40, interval: Some(Time::from_millis(40)), ..RateSample::NONE };
    for (mut flow, expected) in [(bbr3(Time::from_millis(40)), 80 + 420), (kernel(), 80 + 99)] {
        flow.full_pipe.reached = true;
        flow.state = State::Cruise;
        let ack = Ack { rate: &rate, ..testing::ack(420) };
        flow.update_max_bw(&ack, &Sample::new(&ack, &flow.model.mark.clone()));
        flow.update_extra_acked(&ack, 1000);
        let mut control = Control::initial(1000);
        flow.set_cwnd(&ack, &mut control);
        assert_eq!(control.cwnd, expected);
    }
}

#[test]
fn googles_kernel_stops_a_cautious_probe_where_the_window_was_full_before_the_ack() {
    for (mut flow, stops) in [(bbr3(Time::from_millis(40)), false), (kernel(), true)] {
        flow.full_pipe.reached = true;
        flow.state = State::Up;
        flow.probe.prev_too_high = true;
        flow.inflight_longterm = 100;
        // 100 were in flight, and the ACK delivers two of them.
        let view = View { in_flight: 98, ..testing::view() };
        let ack = Ack { view: &view, delivered: 2, ..testing::ack_of_nothing() };
        let sample = Sample::new(&ack, &flow.model.mark.clone());
        flow.update_probe_bw(&ack, &sample, &Control::initial(100));
        assert_eq!(flow.state == State::Down, stops);
    }
}

#[test]
fn in_googles_kernel_growth_on_any_ack_restarts_the_search_and_drain_never_ends_by_time() {
    let mut pipe = FullPipe::default();
    pipe.update(100, true);
    pipe.update(100, true);
    pipe.update(126, false);
    pipe.update(126, true);
    pipe.update(126, true);
    assert!(!pipe.now);
    let mut flow = kernel();
    flow.full_pipe.reached = true;
    flow.enter_drain();
    flow.model.round = 100;
    let view = View { in_flight: 1000, ..testing::view() };
    flow.check_drain_done(&Ack { view: &view, ..testing::ack_of_nothing() });
    assert_eq!((flow.state, flow.pacing_gain()), (State::Drain, 500));
    flow.state = State::Down;
    assert_eq!(flow.pacing_gain(), 906);
}

fn bbr3(rtt: Time) -> Bbr3 {
    Bbr3::new(tunables(), &Init { rtt, tick: Time::ZERO, ..testing::init() })
}

#[test]
fn equations_by_hand() {
    // 10 packets per 40 ms, times 2.77: 362,000 B/s become 1,002,740; the bandwidth is rounded down to 4194 units.
    assert_eq!(rate_bytes_per_sec(10 * BW_UNIT / 40_000, 2770, 1448, 0), 1_002_667);
    // 1000 packets/s at gain 0.9 and a margin of 1 %: 1,448,000 · 0.891, less 13 ppm of rounding.
    assert_eq!(rate_bytes_per_sec(bandwidth(1000, 1_000_000).unwrap(), 900, 1448, 1), 1_290_151);
    // 1 packet/ms over 41 ms at gain 2 and 2.25.
    let bw = bandwidth(1, 1000).unwrap();
    assert_eq!([1000, 2000, 2250].map(|gain| bdp_multiple(bw, Time::from_millis(41), gain)), [41, 82, 93]);
}

#[test]
fn gains_and_bounds_are_those_of_the_drafts_table() {
    let mut flow = bbr3(Time::from_millis(40));
    let states = [State::Startup, State::Drain, State::Down, State::Cruise, State::Refill, State::Up, State::ProbeRtt];
    let gains = states.map(|state| {
        flow.state = state;
        (flow.pacing_gain(), flow.cwnd_gain())
    });
    assert_eq!(gains, [(2770, 2000), (500, 2000), (900, 2000), (1000, 2000), (1000, 2000), (1250, 2250), (1000, 500)]);
    // A window of 400 on an ACK of nothing, bounded by 200 in flight in the long and 180 in the short term.
    flow.inflight_longterm = 200;
    let windows = states.map(|state| {
        flow.state = state;
        flow.short_term.inflight = if state.is_probing() { INFINITE } else { 180 };
        let mut control = Control::initial(400);
        flow.set_cwnd(&testing::ack_of_nothing(), &mut control);
        control.cwnd
    });
    // Probe_rtt has half a BDP of bandwidth 0, so four packets.
    assert_eq!(windows, [400, 180, 180, 170, 200, 200, 4]);
}

/// "Exiting DRAIN Based on Time".
#[test]
fn drain_ends_after_three_rounds_where_the_queue_does_not() {
    let mut flow = bbr3(Time::from_millis(40));
    flow.full_pipe.reached = true;
    flow.enter_drain();
    let mut ack = testing::ack_of_nothing();
    ack.view = testing::changed(ack.view, |view| view.in_flight = 1000);
    for round in 1..=4 {
        flow.model.round = round;
        flow.check_drain_done(&ack);
        assert_eq!(flow.state == State::Drain, round <= 3);
    }
}

/// A flow in `probe_bw_up` with 100 packets in flight per window, of which a probe's ACK says `lost` are lost.
fn probed(lost: u64) -> Bbr3 {
    let mut flow = bbr3(Time::from_millis(40));
    flow.full_pipe.reached = true;
    flow.state = State::Up;
    flow.probe.is_sample = true;
    let (now, interval) = (Time::from_millis(40), Some(Time::from_millis(40)));
    let rate = RateSample { delivered: 100, interval, prior_delivered: 900, tx_in_flight: 100, ..RateSample::NONE };
    let view = View { now, delivered: 1000, lost, ..testing::view() };
    let ack = Ack { view: &view, lost: lost as u32, delivered: 1, rate: &rate, ..testing::ack_of_nothing() };
    flow.model.start_round(950);
    flow.on_ack(&ack, &mut Control::initial(100));
    flow
}

/// "Handling Loss During PROBE_UP": 3 of 100 are beyond 2 %, and 99 were in flight before the one that was too much.
#[test]
fn a_probe_that_loses_more_than_two_percent_ends_and_sets_the_bound() {
    let flow = probed(2);
    assert_eq!((flow.state, flow.inflight_longterm), (State::Up, INFINITE));
    let flow = probed(3);
    assert_eq!(flow.inflight_longterm, 99);
    assert!(matches!(flow.state, State::Down | State::Cruise), "{:?}", flow.state);
    assert!(flow.probe.prev_too_high);
}

/// "Handling Spurious Fast Recovery": the bound goes, and the probe begins again with a refill.
#[test]
fn a_spurious_loss_restores_the_bounds_and_repeats_the_probe() {
    let mut flow = probed(3);
    let undo = Undo { view: &testing::view(), prior_cwnd: 100 };
    assert_eq!(crate::testing::after(Control::initial(50), |c| flow.on_undo(&undo, c)).cwnd, 100);
    assert_eq!((flow.state, flow.inflight_longterm), (State::Refill, INFINITE));
}

/// 5.3.3.6: after a probe that lost too much the next one stops at the bound, and is repeated if it lost little.
#[test]
fn a_probe_after_one_that_lost_too_much_is_precautionary() {
    let mut flow = probed(3);
    let view = View { delivered: 2000, in_flight: 99, ..testing::view() };
    let ack = Ack { view: &view, delivered: 1, ..testing::ack_of_nothing() };
    flow.state = State::Up;
    flow.full_pipe.now = false;
    let sample = Sample::new(&ack, &flow.model.mark);
    flow.update_probe_bw(&ack, &sample, &Control::initial(120));
    assert_eq!(flow.state, State::Down);
    assert!(!flow.probe.prev_too_high);
    // A round later there was no loss.
    let interval = Some(Time::from_millis(40));
    let rate = RateSample { delivered: 100, interval, prior_delivered: 2000, prior_lost: 3, ..RateSample::NONE };
    let view = View { now: Time::from_millis(80), delivered: 2100, lost: 3, ..view };
    let ack = Ack { view: &view, rate: &rate, ..ack };
    flow.delivery.reset();
    flow.on_ack(&ack, &mut Control::initial(120));
    assert_eq!(flow.state, State::Refill);
}
