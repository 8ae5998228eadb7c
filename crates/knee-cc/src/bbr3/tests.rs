//! BBRv3 as a whole: the draft's example test cases (its Appendix A) and its goals, on a path of 12 Mbit/s and 40 ms,
//! which is 1000 packets a second and a BDP of 41 packets.

use super::control::rate_bytes_per_sec;
use super::model::bdp_multiple;
use super::*;
use crate::RateSample;
use crate::bandwidth::{BW_UNIT, bandwidth};
use crate::testing::{self, Dumbbell};
use knee_core::Rate;

const STARTUP: u8 = State::Startup as u8;
const DRAIN: u8 = State::Drain as u8;
const DOWN: u8 = State::Down as u8;
const CRUISE: u8 = State::Cruise as u8;
const REFILL: u8 = State::Refill as u8;
const UP: u8 = State::Up as u8;
const PROBE_RTT: u8 = State::ProbeRtt as u8;

fn tunables() -> Params {
    Params::default()
}

fn bbr3(rtt: Time) -> Bbr3 {
    Bbr3::new(tunables(), &Init { rtt, tick: Time::ZERO, ..testing::init() })
}

fn alone(buffer: usize) -> Dumbbell {
    Dumbbell::single(&ENTRY, Rate::from_mbps(12), buffer, Time::from_millis(40))
}

fn names(net: &Dumbbell) -> Vec<u8> {
    net.flows[0].phases.iter().map(|(_, phase)| *phase).collect()
}

/// Runs until the flow is in `phase`, at most until `end`.
fn run_to(net: &mut Dumbbell, phase: u8, end: Time) {
    while net.flows[0].control.phase != phase {
        assert!(net.now < end, "not in phase {phase} by {end}: {:?}", net.flows[0].phases);
        net.run(net.now + Time::from_millis(1));
    }
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

/// "Exiting STARTUP on Bandwidth Plateau" and "Exiting DRAIN Based on Inflight".
#[test]
fn a_plateau_leads_through_drain_to_probe_bw() {
    let mut net = alone(400);
    net.run(Time::from_secs(1));
    // With the queue drained there is nothing left to do in probe_bw_down: it is passed on the same ACK.
    assert_eq!(names(&net), [STARTUP, DRAIN, CRUISE]);
    assert_eq!(net.flows[0].view.lost, 0);
    // Two rounds of growth and three without, at up to twice 40 ms.
    assert!(net.flows[0].phases[1].0 < Time::from_millis(500), "{:?}", net.flows[0].phases);
}

#[test]
fn a_flow_alone_fills_the_link_and_probes_every_two_to_three_seconds_or_sooner() {
    let mut net = alone(400);
    net.run(Time::from_secs(1));
    let delivered = net.measure(Time::from_secs(21)).delivered[0];
    // Probe_rtt costs 2 % by design (5.3.4.2), pacing leaves 1 %.
    assert!(delivered > 19_200, "{delivered}");
    let ups: Vec<Time> = net.flows[0].phases.iter().filter(|(_, phase)| *phase == UP).map(|(at, _)| *at).collect();
    assert!(ups.len() >= 6, "{ups:?}");
    for pair in ups.windows(2) {
        // 2 to 3 s, the rounds of up and refill before, and a visit to probe_rtt on the way.
        assert!(pair[1] - pair[0] < Time::from_secs(4), "{ups:?}");
    }
}

/// "Entering and Exiting PROBE_RTT": half a BDP for 200 ms and a round, five seconds after the last least RTT.
#[test]
fn five_seconds_without_a_lower_rtt_lead_to_probe_rtt_at_half_a_bdp() {
    let mut net = alone(400);
    net.run(Time::from_secs(2));
    net.flows[0].base_rtt = Time::from_millis(41);
    run_to(&mut net, PROBE_RTT, Time::from_secs(8));
    let entered = net.now;
    assert!(entered > Time::from_secs(5));
    net.run(entered + Time::from_millis(100));
    // 0.5 · 1000/s · 41 ms is 20.5 packets.
    assert!((20..=22).contains(&net.flows[0].control.cwnd), "{}", net.flows[0].control.cwnd);
    run_to(&mut net, CRUISE, entered + Time::from_millis(400));
    assert!(net.now - entered >= Time::from_millis(200));
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

/// 5.3.1.3, and the loss ceiling of 5.5.10.2: a buffer of half a BDP.
#[test]
fn a_shallow_buffer_ends_startup_by_loss_and_loses_less_than_two_percent_from_then_on() {
    let mut net = alone(20);
    net.run(Time::from_secs(2));
    let (lost, delivered) = (net.flows[0].view.lost, net.measure(Time::from_secs(30)).delivered[0]);
    let share = (net.flows[0].view.lost - lost) as f64 / delivered as f64;
    assert!(share < 0.02, "{share}");
    assert!(delivered > 28_000 * 85 / 100, "{delivered}");
}

/// 5.3.3.8: one per cent of random loss is to be tolerated. Some of the link is lost to the short-term bounds, which
/// every round with a loss between two probes lowers to what was delivered: 1 % of margin and 1 % of loss less than sent.
#[test]
fn one_percent_random_loss_leaves_most_of_the_link() {
    for seed in 0..4 {
        let mut net = Dumbbell::single(&ENTRY, Rate::from_mbps(120), 4000, Time::from_millis(40))
            .with_loss_from(0.01, Rng::stream(seed, "loss"));
        net.run(Time::from_secs(5));
        let seen = net.measure(Time::from_secs(35));
        // Reno would have sqrt(3/(2p)) packets in 40 ms (Mathis et al. 1997), 3.7 Mbit/s.
        assert!(seen.total() > 0.7 * 120.0, "{seen:?}");
    }
}

/// "Increasing Bandwidth 10x".
#[test]
fn ten_times_the_bandwidth_is_found_in_a_few_probes() {
    let mut net = alone(400);
    net.set_rate(Rate::from_mbps(3));
    net.run(Time::from_secs(4));
    net.set_rate(Rate::from_mbps(30));
    net.run(Time::from_secs(16));
    let delivered = net.measure(Time::from_secs(18)).delivered[0];
    // 2500 packets a second.
    assert!(delivered > 4500, "{delivered}");
}

/// "Decreasing Bandwidth 10x": two probing cycles later the estimate has followed.
#[test]
fn a_tenth_of_the_bandwidth_is_followed_within_two_cycles() {
    let mut net = alone(100);
    net.set_rate(Rate::from_mbps(30));
    net.run(Time::from_secs(4));
    net.set_rate(Rate::from_mbps(3));
    for _ in 0..2 {
        // A cycle takes 3 s, half a second of probe_rtt, and a few round trips of up to 440 ms.
        let end = net.now + Time::from_secs(8);
        run_to(&mut net, UP, end);
        run_to(&mut net, DOWN, end);
    }
    net.run(net.now + Time::from_secs(1));
    let rate = net.flows[0].control.pacing_rate.unwrap();
    assert!(rate <= Rate::from_mbps(3), "{rate}");
    let (lost, start) = (net.flows[0].view.lost, net.now);
    let delivered = net.measure(start + Time::from_secs(8)).delivered[0];
    assert!(delivered > 8 * 250 * 9 / 10, "{delivered}");
    assert!((net.flows[0].view.lost - lost) * 50 < delivered, "{}", net.flows[0].view.lost - lost);
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
    assert_eq!((flow.state as u8, flow.inflight_longterm), (REFILL, INFINITE));
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
