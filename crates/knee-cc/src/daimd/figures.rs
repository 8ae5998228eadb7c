//! The paper's claims about single backoffs, ACK by ACK: the RTT follows the window.

use super::ENTRY;
use crate::testing;
use crate::{Control, Init, StateEvent};
use knee_core::{Time, Value};

/// Params of the basic algorithm (Eq. 1).
const BASIC: [(&str, Value); 5] = [
    ("gamma", Value::Ratio(0.0)),
    ("hold", Value::Bool(false)),
    ("delta0_mode", Value::Choice("fixed")),
    ("delta0", Value::Time(Time::ZERO)),
    ("adaptive_backoff", Value::Bool(false)),
];

fn with<'a>(given: &[(&'a str, Value)], more: &[(&'a str, Value)]) -> Vec<(&'a str, Value)> {
    let mut all = given.to_vec();
    for &(name, value) in more {
        all.retain(|(n, _)| *n != name);
        all.push((name, value));
    }
    all
}

/// The link of Figs. 2 to 4: 50 Mbit/s, 240 us per packet.
const SERVICE: Time = Time::from_micros(240);
const BASE_RTT: Time = Time::from_millis(120);

/// A flow of the basic algorithm with `more`, whose RTT follows the window on the link of Figs. 2 to 4: RTT before and
/// window after over window before of each of the first backoffs.
fn backoffs(more: &[(&str, Value)], wanted: usize) -> Vec<(Time, f64)> {
    backoffs_from(400, more, wanted)
}

/// As [`backoffs`], from this window on.
fn backoffs_from(cwnd: u32, more: &[(&str, Value)], wanted: usize) -> Vec<(Time, f64)> {
    let given = with(&BASIC, &[("adaptive_backoff", Value::Bool(true)), ("slow_start", Value::Choice("off"))]);
    let params = knee_core::Params::resolve(ENTRY.params, with(&given, more)).unwrap();
    let init = Init { rtt: BASE_RTT, cwnd, tick: Time::ZERO, ..testing::init() };
    let mut cc = (ENTRY.make)(&params, &init);
    let mut control = crate::testing::after(Control::initial(cwnd), |c| {
        cc.on_state(&testing::change(testing::view(), StateEvent::Start), c);
    });
    let (mut now, mut una, mut seen) = (Time::ZERO, 0, Vec::new());
    while seen.len() < wanted {
        let rtt = BASE_RTT.max(SERVICE * u64::from(control.cwnd));
        now += rtt;
        una += 100_000;
        let before = control.cwnd;
        for i in 0..u64::from(before) {
            let mut ack = testing::ack_up_to(una + i, una + 99_999, rtt.as_micros());
            ack.view = testing::changed(ack.view, |view| view.now = now);
            cc.on_measure(&ack, &mut control);
            cc.on_ack(&ack, &mut control);
        }
        if control.cwnd < before {
            seen.push((rtt, f64::from(control.cwnd) / f64::from(before)));
        }
    }
    seen
}

#[test]
fn fig_2_the_first_backoff_halves_and_the_others_cut_what_is_queued_where_one_is_fixed() {
    let more = [("delta", Value::Ratio(1.0)), ("fixed_backoffs", Value::Count(1))];
    let seen = backoffs(&more, 3);
    assert!((seen[0].1 - 0.5).abs() < 0.01, "{seen:?}");
    // The smoothed RTT has just reached RTTmin + tau0.
    for (_, beta) in &seen[1..] {
        assert!((beta - 120.0 / 140.0).abs() < 0.005, "{seen:?}");
    }
}

#[test]
fn sec_ii_d_the_ratchet_drains_a_queue_that_stood_from_the_beginning() {
    // 833 packets are 200 ms of the link: 80 ms of queue stand on top of the path's 120 ms, and nobody but the flow can
    // remove them. RTTmin is 200 ms at first.
    let at = |delta, wanted| -> Vec<u64> {
        let seen = backoffs_from(833, &[("delta", Value::Ratio(delta))], wanted);
        seen.iter().map(|(rtt, _)| rtt.as_micros() / 1000).collect()
    };
    // tau0 of 20 ms above RTTmin, and the increase of the round trip in which it is passed: each backoff aims at 0.75
    // of RTTmin, 200 to 150 to 112.5 ms, which is below the path's own.
    for (found, wanted) in at(0.75, 4).iter().zip([220, 170, 140, 140]) {
        assert!((wanted..wanted + 8).contains(found), "{:?}", at(0.75, 4));
    }
    // With delta = 1 the backoff leaves what stood there.
    assert!(at(1.0, 8).iter().all(|rtt| *rtt >= 219), "{:?}", at(1.0, 8));
}

#[test]
fn fig_3_an_initial_rtt_min_holds_until_the_first_backoff_and_then_ratchets_down() {
    let more = [("delta", Value::Ratio(0.75)), ("rtt_min_initial", Value::Time(Time::from_millis(200)))];
    let at: Vec<u64> = backoffs(&more, 4).iter().map(|(rtt, _)| rtt.as_micros() / 1000).collect();
    // 200 ms and tau0; 0.75 of 200 ms and tau0; then the path's own 120 ms and tau0. The increase of the round trip in
    // which the threshold is passed, and the smoothing, come on top.
    for (found, wanted) in at.iter().zip([220, 170, 140, 140]) {
        assert!((wanted..wanted + 8).contains(found), "{at:?}");
    }
}

/// Congestion epochs until the second of two synchronised flows has nine tenths of its share, with a fixed `beta`.
fn epochs_to_nine_tenths(beta: f64) -> u32 {
    let given = with(&BASIC, &[("beta", Value::Ratio(beta)), ("slow_start", Value::Choice("off"))]);
    let given = with(&given, &[("increase", Value::Choice("reno"))]);
    let params = knee_core::Params::resolve(ENTRY.params, given).unwrap();
    let mut flows = [1_000, 2].map(|cwnd| {
        let init = Init { rtt: BASE_RTT, cwnd, tick: Time::ZERO, ..testing::init() };
        let mut cc = (ENTRY.make)(&params, &init);
        let start = testing::change(testing::view(), StateEvent::Start);
        let control = crate::testing::after(Control::initial(cwnd), |c| cc.on_state(&start, c));
        (cc, control)
    });
    let (mut now, mut una, mut epochs) = (Time::ZERO, 0, 0);
    loop {
        // All ACKs of a round trip show the same RTT, so that the flows back off together.
        let in_flight: u32 = flows.iter().map(|(_, control)| control.cwnd).sum();
        let rtt = BASE_RTT.max(Time::from_micros(120) * u64::from(in_flight));
        now += rtt;
        una += 100_000;
        let before = flows[0].1.cwnd;
        for (cc, control) in &mut flows {
            for i in 0..u64::from(control.cwnd) {
                let mut ack = testing::ack_up_to(una + i, una + 99_999, rtt.as_micros());
                ack.view = testing::changed(ack.view, |view| view.now = now);
                *control = crate::testing::after(*control, |c| cc.on_measure(&ack, c));
                *control = crate::testing::after(*control, |c| cc.on_ack(&ack, c));
            }
        }
        epochs += u32::from(flows[0].1.cwnd < before);
        let [first, second] = [flows[0].1.cwnd, flows[1].1.cwnd];
        if f64::from(second) >= 0.45 * f64::from(first + second) {
            return epochs;
        }
    }
}

#[test]
fn sec_vi_c_synchronised_flows_converge_within_log_tenth_over_log_beta_epochs() {
    for (beta, bound) in [(0.5, 3.32), (0.75, 8.004)] {
        assert!((libm::log(0.1) / libm::log(beta) - bound).abs() < 0.01);
        let epochs = epochs_to_nine_tenths(beta);
        // A window of two packets leaves less to make up than none at all, and the increase brings the rest nearer.
        assert!(
            f64::from(epochs) <= bound.ceil() && f64::from(epochs) >= bound / 2.0,
            "{epochs} epochs at beta {beta}"
        );
    }
}
