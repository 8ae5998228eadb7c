//! The paper's claims, in a small closed loop.

use super::ENTRY;
use crate::testing::{self, Dumbbell};
use crate::{Control, Init, StateEvent};
use knee_core::{Rate, Time, Value};

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

/// The link of Figs. 2 to 4: 240 us per packet.
const LINK: Rate = Rate::from_mbps(50);
const SERVICE: Time = Time::from_micros(240);
const BASE_RTT: Time = Time::from_millis(120);

/// Share of the link that the flow used between 20 s and 60 s in the setting of Fig. 2, the least and the greatest
/// queueing delay meanwhile, and the drops.
fn fig_2(given: &[(&str, Value)]) -> (f64, Time, Time, u64) {
    let mut net = Dumbbell::new(LINK, 400);
    net.add(&ENTRY, given, BASE_RTT, Time::ZERO);
    net.run(Time::from_secs(20));
    let seen = net.measure(Time::from_secs(60));
    (seen.total() / 50.0, seen.delay.0, seen.delay.1, net.drops())
}

#[test]
fn fig_2_the_queue_just_empties_with_the_adaptive_backoff_and_the_link_idles_with_a_half() {
    let adaptive = with(&BASIC, &[("adaptive_backoff", Value::Bool(true)), ("delta", Value::Ratio(1.0))]);
    let (used, least, most, drops) = fig_2(&adaptive);
    assert!(used > 0.999, "{used}");
    // What is added in the round trip before the backoff shows is left over: alpha is below 20 packets, 4.8 ms.
    assert!(least < Time::from_micros(4_800), "{least}");
    // 20 ms, and once more what was added meanwhile; the queue's 400 packets would be 96 ms.
    assert!(most > Time::from_millis(20) && most < Time::from_micros(24_800), "{most}");
    assert_eq!(drops, 0);
    let (used, least, _, _) = fig_2(&BASIC);
    assert!(used < 0.8 && least == Time::ZERO, "{used} {least}");
}

#[test]
fn sec_ii_d_the_ratchet_drains_a_queue_that_stood_from_the_beginning() {
    // RTTmin is 200 ms at first, since 80 ms of queue stand there, and nobody but the flow can remove them. The queue has room
    // for the threshold on top of them, unlike that of Fig. 3, whose RTTmin is set and whose queue is empty.
    let rtt_min_after = |delta: f64, backoffs: u32| {
        let more = [
            ("adaptive_backoff", Value::Bool(true)),
            ("delta", Value::Ratio(delta)),
            ("slow_start", Value::Choice("off")),
        ];
        let mut net = Dumbbell::new(LINK, 1000).with_backlog(333);
        net.initial_window = 833;
        net.add(&ENTRY, &with(&BASIC, &more), BASE_RTT, Time::ZERO);
        // What the handshake measured does not count: the queue stood there already.
        net.flows[0].view.min_rtt = Time::MAX;
        assert!(net.run_while(Time::from_secs(60), |net| net.flows[0].reductions <= backoffs));
        net.flows[0].view.min_rtt
    };
    // The propagation delay and the time of one packet.
    let true_rtt = BASE_RTT + SERVICE;
    // Each backoff aims at 0.75 of RTTmin: 200 to 150 to 112.5 ms, which is below the true one.
    assert!(rtt_min_after(0.75, 1) < Time::from_millis(155));
    assert_eq!(rtt_min_after(0.75, 2), true_rtt);
    assert!(rtt_min_after(1.0, 8) > Time::from_millis(199));
}

/// A flow of the basic algorithm with `more`, whose RTT follows the window on the link of Figs. 2 to 4: RTT before and
/// window after over window before of each of the first backoffs.
fn backoffs(more: &[(&str, Value)], wanted: usize) -> Vec<(Time, f64)> {
    let given = with(&BASIC, &[("adaptive_backoff", Value::Bool(true)), ("slow_start", Value::Choice("off"))]);
    let params = knee_core::Params::resolve(ENTRY.params, with(&given, more)).unwrap();
    let init = Init { rtt: BASE_RTT, cwnd: 400, tick: Time::ZERO, ..testing::init() };
    let mut cc = (ENTRY.make)(&params, &init);
    let mut control = crate::testing::after(Control::initial(400), |c| {
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
fn fig_3_an_initial_rtt_min_holds_until_the_first_backoff_and_then_ratchets_down() {
    let more = [("delta", Value::Ratio(0.75)), ("rtt_min_initial", Value::Time(Time::from_millis(200)))];
    let at: Vec<u64> = backoffs(&more, 4).iter().map(|(rtt, _)| rtt.as_micros() / 1000).collect();
    // 200 ms and tau0; 0.75 of 200 ms and tau0; then the path's own 120 ms and tau0. The increase of the round trip in
    // which the threshold is passed, and the smoothing, come on top.
    for (found, wanted) in at.iter().zip([220, 170, 140, 140]) {
        assert!((wanted..wanted + 8).contains(found), "{at:?}");
    }
}

#[test]
fn fig_4_ten_flows_that_start_on_top_of_each_other_find_the_propagation_delay() {
    let more = [("adaptive_backoff", Value::Bool(true)), ("delta", Value::Ratio(0.75))];
    let mut net = Dumbbell::new(LINK, 400).with_backlog(333);
    net.initial_window = 80;
    for i in 0..10 {
        net.add(&ENTRY, &with(&BASIC, &more), BASE_RTT, Time::from_millis(10 * i));
        net.flows[i as usize].view.min_rtt = Time::MAX;
    }
    net.run(Time::from_secs(60));
    for flow in &net.flows {
        assert!(flow.view.min_rtt < BASE_RTT + Time::from_millis(1), "{}", flow.view.min_rtt);
    }
}

/// Goodput in Mbit/s between 20 and 60 s, all drops, and the mean queueing delay in ms of the default among its own kind.
fn equals(flows: u64, mbps: u64) -> (f64, u64, f64) {
    let rate = Rate::from_mbps(mbps);
    let packets = mbps as f64 * 1e6 / (8.0 * f64::from(knee_core::packet::MTU));
    let mut net = Dumbbell::new(rate, (packets / 4.0) as usize);
    for i in 0..flows {
        net.add(&ENTRY, &[], Time::from_millis(50), Time::from_millis(100 * i));
    }
    net.run(Time::from_secs(20));
    let before = net.drops();
    let seen = net.measure(Time::from_secs(60));
    (seen.total(), before + seen.drops, 1e3 * seen.queue / packets)
}

#[test]
fn sec_i_equals_keep_the_link_full_at_low_delay_without_a_loss_with_the_parameters_of_fig_6() {
    let (mbps, drops, ms) = equals(8, 100);
    assert!(mbps > 98.0 && drops == 0 && ms < 20.0, "{mbps} {drops} {ms}");
}

#[test]
fn sec_iv_limited_slow_start_reaches_the_bandwidth_delay_product_where_the_standard_one_leaves_too_soon() {
    // The window just before the first backoff.
    let reached = |mode| {
        let mut net = Dumbbell::new(LINK, 4000);
        let given = [("slow_start", Value::Choice(mode)), ("gamma", Value::Ratio(0.0))];
        net.add(&ENTRY, &given, BASE_RTT, Time::ZERO);
        let mut window = 0;
        net.run_while(Time::from_secs(10), |net| {
            let before = net.flows[0].reductions == 0;
            if before {
                window = net.flows[0].control.cwnd;
            }
            before
        });
        window
    };
    let product = 500;
    assert!(reached("standard") < product && reached("limited") > product);
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
