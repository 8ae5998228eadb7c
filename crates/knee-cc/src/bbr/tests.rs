//! BBR as a whole: numbers of a real kernel.

use super::model::bdp;
use super::pacing::rate_bytes_per_sec;
use super::*;
use crate::bandwidth::{BW_UNIT, bandwidth};
use crate::testing;

/// Bandwidth of a 100 Mbit/s link with 1514 of its bytes per packet, as a kernel on it estimates it.
const BW_100: u64 = 138_536;

fn tunables() -> Tunables {
    Tunables::new(Params::default())
}

fn bbr(rtt: Time) -> Bbr {
    bbr_of(Params::default(), rtt)
}

fn bbr_of(params: Params, rtt: Time) -> Bbr {
    Bbr::new(params, &Init { rtt, tick: Time::ZERO, ..testing::init() })
}

#[test]
fn gains_are_the_kernels_fractions_of_256() {
    let t = tunables();
    assert_eq!([t.high_gain, t.drain_gain, t.cwnd_gain], [739, 88, 512]);
}

/// Pacing rates of Linux 7.2 at 100 Mbit/s and 40 ms: the first from the handshake, the others from one bandwidth with
/// the gains of startup, drain, and the three of probe_bw.
#[test]
fn pacing_rates_are_those_of_a_real_kernel() {
    assert_eq!(rate_bytes_per_sec(10 * BW_UNIT / 40_000, 739, 1448, 1), 1_034_467);
    let rates = [739, 88, 256, 320, 192].map(|gain| rate_bytes_per_sec(BW_100, gain, 1448, 1));
    assert_eq!(rates, [34_170_471, 4_069_014, 11_837_132, 14_796_415, 8_877_849]);
}

/// In the same run `ssthresh` is 400 after startup, and `cwnd` goes 686, 694, 680 through a cycle: twice the BDP of
/// 330.3 packets is 661, bursts are 7, 9 and 5 packets, the aggregation 4, the probing phase gets 2 more.
#[test]
fn windows_are_those_of_a_real_kernel() {
    let mut flow = bbr(Time::from_millis(40));
    let rate = |flow: &mut Bbr, gain| flow.pacing.set_rate(BW_100, gain, Time::from_millis(40), true, &tunables());
    rate(&mut flow, 739);
    assert_eq!(flow.inflight(BW_100, UNIT), 400);

    flow.mode = Mode::ProbeBw;
    let windows = [(2, 256), (0, 320), (1, 192)].map(|(phase, gain)| {
        flow.cycle = Cycle::at(phase);
        assert_eq!(flow.cycle.gain(), gain);
        rate(&mut flow, gain);
        flow.quantization_budget(bdp(BW_100, Some(40_000), 512) + 4)
    });
    assert_eq!(windows, [686, 694, 680]);
}

/// Linux 4.13 lacks the aggregation's 4 and the probing phase's 2: 661 and three bursts of 7, 9 and 5, made even.
#[test]
fn windows_of_linux_4_13_do_not_grow_while_probing_or_by_aggregation() {
    let mut flow = bbr_of(Params { kernel: Kernel::V4_13, ..Params::default() }, Time::from_millis(40));
    flow.mode = Mode::ProbeBw;
    let windows = [(2, 256), (0, 320), (1, 192)].map(|(phase, gain)| {
        flow.cycle = Cycle::at(phase);
        flow.pacing.set_rate(BW_100, gain, Time::from_millis(40), true, &tunables());
        flow.quantization_budget(bdp(BW_100, Some(40_000), 512) + flow.aggregation_cwnd())
    });
    assert_eq!(windows, [682, 688, 676]);
}

/// 661 and three bursts of one, made even.
#[test]
fn linux_4_13_without_offload_allows_for_bursts_of_one() {
    for (kernel, expected) in [(Kernel::V6_12, 682), (Kernel::V4_13, 664)] {
        let params = Params { kernel, ..Params::default() };
        let init = Init { rtt: Time::from_millis(40), tso: false, ..testing::init() };
        let mut flow = Bbr::new(params, &init);
        flow.pacing.set_rate(BW_100, UNIT, init.rtt, true, &tunables());
        assert_eq!(flow.quantization_budget(bdp(BW_100, Some(40_000), 512)), expected);
    }
}

/// Paced 10 ms ahead at 1 packet per ms: 90 of 100 are in the network then, 100 are in flight now.
#[test]
fn linux_4_13_counts_what_is_in_flight_now() {
    for (kernel, expected) in [(Kernel::V6_12, 90), (Kernel::V4_13, 100)] {
        let mut flow = bbr_of(Params { kernel, ..Params::default() }, Time::from_millis(40));
        flow.pacing_gain = UNIT;
        flow.model = Model::of(BW_UNIT.div_ceil(1000));
        let now = Time::from_secs(1);
        let view = crate::View { now, paced_until: now + Time::from_millis(10), ..testing::view() };
        assert_eq!(flow.in_network_at_departure(&view, 100), expected);
    }
}

/// The 40 ms of the handshake again after a second.
#[test]
fn the_same_rtt_is_new_to_linux_4_13() {
    for (kernel, stamp_s) in [(Kernel::V6_12, 0), (Kernel::V4_13, 1)] {
        let mut flow = bbr_of(Params { kernel, ..Params::default() }, Time::from_millis(40));
        let view = crate::View { now: Time::from_secs(1), ..testing::view() };
        let ack = Ack { view: &view, rtt: Some(Time::from_millis(40)), ..testing::ack_of_nothing() };
        testing::after(testing::avoiding(20), |c| flow.update_min_rtt(&ack, c));
        assert_eq!(flow.min_rtt.stamp(), Time::from_secs(stamp_s));
    }
}

#[test]
fn the_bdp_is_rounded_up_and_is_the_initial_window_without_an_rtt() {
    // 1 packet per ms, 2^24 / 1000 = 16777.2, rounded down: 10 ms hold 9.9999 packets.
    let bw = bandwidth(1, 1000).unwrap();
    assert_eq!(bdp(bw, Some(10_000), UNIT), 10);
    assert_eq!(bdp(bw, Some(10_100), UNIT), 11);
    assert_eq!(bdp(bw, None, UNIT), 10);
}

#[test]
fn bursts_are_single_packets_below_1_2_mbit_and_a_millisecond_of_the_rate_above() {
    let mut flow = bbr(Time::from_secs(1));
    // 10 packets a second, 2.886 times that: 41 kB/s.
    assert_eq!((flow.pacing.min_burst(), flow.pacing.burst_goal()), (1, 1));
    for (mbit, goal) in [(2, 2), (100, 8), (1000, 45), (100_000, 45)] {
        let bw = mbit * 125_000 * BW_UNIT / 1448 / 1_000_000;
        flow.pacing.set_rate(bw, UNIT, Time::from_secs(1), true, &tunables());
        assert_eq!((flow.pacing.min_burst(), flow.pacing.burst_goal()), (2, goal), "{mbit} Mbit/s");
    }
}

#[test]
fn recovery_begins_with_a_packet_out_per_packet_in_and_ends_with_the_window_of_before() {
    let mut flow = bbr(Time::from_millis(40));
    let mut control = Control::initial(100);
    control.ssthresh = crate::testing::after(control, |c| {
        flow.on_congestion(&Congestion { view: &testing::view(), signal: crate::Signal::Loss }, c);
    })
    .ssthresh;
    assert_eq!(control.ssthresh, crate::INFINITE_SSTHRESH);
    let mut ack = testing::ack_of_nothing();
    ack.view =
        testing::changed(ack.view, |view| (view.ca, view.in_flight, view.delivered) = (CaState::Recovery, 60, 1000));
    (ack.delivered, ack.lost) = (2, 3);
    flow.on_ack(&ack, &mut control);
    assert_eq!(control.cwnd, 62);
    // A loss reduces the window by the packets lost, but not below what is in flight.
    ack.view = testing::changed(ack.view, |view| view.in_flight = 59);
    ack.lost = 1;
    flow.on_ack(&ack, &mut control);
    assert_eq!(control.cwnd, 61);
    ack.lost = 0;
    ack.view = testing::changed(ack.view, |view| view.ca = CaState::Open);
    flow.on_ack(&ack, &mut control);
    // Startup does not cut to the target, so all of the window of before is back.
    assert_eq!(control.cwnd, 100);
}

#[test]
fn undoing_a_reduction_keeps_the_window_and_restarts_the_detectors() {
    let mut flow = bbr(Time::from_millis(40));
    flow.full_pipe.update(100, 3);
    flow.full_pipe.update(100, 3);
    let undo = Undo { view: &testing::view(), prior_cwnd: 100 };
    assert_eq!(crate::testing::after(Control::initial(50), |c| flow.on_undo(&undo, c)).cwnd, 50);
    flow.full_pipe.update(1, 3);
    flow.full_pipe.update(1, 3);
    flow.full_pipe.update(1, 3);
    assert!(!flow.full_pipe.reached());
}
