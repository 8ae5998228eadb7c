//! More of the draft's example test cases: those that need a sender which the application limits, one round per ACK.

use super::model::Sample;
use super::*;
use crate::bandwidth::bandwidth;
use crate::testing::{self, ack_of_nothing, lent, lent_rate};
use crate::{CaState, RateSample};

const ROUND: Time = Time::from_millis(40);

fn bbr3(state: State) -> Bbr3 {
    let tunables = Params::default();
    let mut flow = Bbr3::new(tunables, &Init { tick: Time::ZERO, ..testing::init() });
    flow.state = state;
    flow.full_pipe.reached = state != State::Startup;
    flow
}

/// Contents of a test's ACK, beyond its round.
#[derive(Clone, Copy, Default)]
struct Told {
    app_limited: bool,
    /// Packets lost of the last 100.
    lost: u64,
    in_flight: u32,
}

/// The ACK that ends the round of that number: 100 packets in 40 ms.
fn ack(round: u64, told: Told) -> Ack<'static> {
    let view = View {
        now: Time::from_millis(40 * round),
        delivered: 100 * round,
        lost: told.lost,
        in_flight: told.in_flight,
        ca: if told.lost > 0 { CaState::Recovery } else { CaState::Open },
        ..testing::view()
    };
    let rate = RateSample {
        delivered: 100,
        interval: Some(ROUND),
        prior_delivered: 100 * (round - 1),
        tx_in_flight: 100,
        app_limited: told.app_limited,
        ..RateSample::NONE
    };
    Ack { view: lent(view), rtt: Some(ROUND), delivered: 100, rate: lent_rate(rate), ..ack_of_nothing() }
}

const LIMITED: Told = Told { app_limited: true, lost: 0, in_flight: 100 };

/// "Exiting STARTUP on Loss When Application-Limited": a round of recovery with six lost ranges and more than 2 %.
#[test]
fn loss_ends_startup_also_where_the_application_limits() {
    for (lost, ends) in [(2, false), (3, true)] {
        let mut flow = bbr3(State::Startup);
        // The first loss was a round ago; this ACK brings the sixth range.
        flow.delivery.is_loss_in_round = true;
        flow.delivery.ranges_in_round = 5;
        flow.on_ack(&ack(1, Told { lost, in_flight: 1000, ..LIMITED }), &mut Control::initial(100));
        assert_eq!(
            (flow.state, flow.full_pipe.reached),
            if ends { (State::Drain, true) } else { (State::Startup, false) }
        );
        assert_eq!(flow.full_pipe.now, ends);
    }
}

/// "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss".
#[test]
fn application_limited_rounds_end_neither_startup_nor_a_probe() {
    for state in [State::Startup, State::Up] {
        let mut flow = bbr3(state);
        let mut control = Control::initial(100);
        for round in 1..100 {
            flow.on_ack(&ack(round, LIMITED), &mut control);
            assert_eq!(flow.state, state, "round {round}");
        }
    }
}

/// "Exiting PROBE_UP on Bandwidth Plateau".
#[test]
fn a_probe_ends_after_three_rounds_without_growth() {
    let mut flow = bbr3(State::Up);
    flow.full_pipe.restart(bandwidth(100, 40_000).unwrap());
    let mut control = Control::initial(100);
    let states = [1, 2, 3].map(|round| {
        flow.on_ack(&ack(round, Told { in_flight: 1000, ..Told::default() }), &mut control);
        flow.state
    });
    assert_eq!(states, [State::Up, State::Up, State::Down]);
}

/// "Exiting PROBE_UP on Loss When Application-Limited". The case wants the bound updated "appropriately"; the
/// pseudocode (5.5.10.2) leaves it alone where the sample was application-limited.
#[test]
fn loss_ends_a_probe_also_where_the_application_limits() {
    let mut flow = bbr3(State::Up);
    flow.probe.is_sample = true;
    flow.on_ack(&ack(1, Told { lost: 3, in_flight: 1000, ..LIMITED }), &mut Control::initial(100));
    assert!(matches!(flow.state, State::Down), "{:?}", flow.state);
    assert!(flow.probe.prev_too_high);
    assert_eq!(flow.inflight_longterm, INFINITE);
}

/// "Exiting PROBE_DOWN on Inflight" and "After Max Time": with a queue that stays, it goes to refill past cruise.
#[test]
fn probe_down_ends_by_what_is_in_flight_or_by_time() {
    let after = |millis, in_flight| {
        let mut flow = bbr3(State::Up);
        let first = ack(1, Told { in_flight: 100, ..Told::default() });
        flow.update_max_bw(&first, &Sample::new(&first, &flow.model.mark));
        flow.start_down(first.view);
        let view = View { now: first.view.now + Time::from_millis(millis), in_flight, ..*first.view };
        let later = Ack { view: lent(view), ..first };
        flow.update_probe_bw(&later, &Sample::new(&later, &flow.model.mark), &Control::initial(100));
        flow.state
    };
    // The wait is 2 to 3 s; the BDP is 100 packets.
    let states = [after(1, 1000), after(1999, 1000), after(3001, 1000), after(1, 90)];
    assert_eq!(states, [State::Down, State::Down, State::Refill, State::Cruise]);
}

/// "Skipping PROBE_RTT Due to Application-Limited Sending".
#[test]
fn after_a_pause_of_the_application_probe_rtt_is_skipped() {
    for idle in [false, true] {
        let mut flow = bbr3(State::Cruise);
        let mut control = Control::initial(100);
        // Six seconds after the only least RTT.
        let view = View { now: Time::from_secs(6), app_limited: true, ..testing::view() };
        if idle {
            flow.on_state(&testing::change(view, StateEvent::Restart), &mut control);
        }
        let later = ack(1, LIMITED);
        flow.on_ack(&Ack { view: lent(View { now: view.now + ROUND, ..*later.view }), ..later }, &mut control);
        assert_eq!(flow.state == State::ProbeRtt, !idle, "{:?}", flow.state);
    }
}

/// "Entering and Exiting PROBE_RTT During STARTUP".
#[test]
fn probe_rtt_during_startup_leads_back_to_startup() {
    let mut flow = bbr3(State::Startup);
    let mut control = Control::initial(100);
    let mut states = Vec::new();
    for round in 126..140 {
        // Nothing is in flight to wait for.
        flow.on_ack(&ack(round, Told { app_limited: true, ..Told::default() }), &mut control);
        if states.last() != Some(&flow.state) {
            states.push(flow.state);
        }
    }
    assert_eq!(states, [State::ProbeRtt, State::Startup]);
}
