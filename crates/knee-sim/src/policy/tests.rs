use super::*;
use knee_cc::invariants::check;
use knee_cc::{RateSample, View};
use knee_core::Rng;
use proptest::prelude::*;

fn init(now_ms: u64, rtt_ms: u64) -> Init {
    Init {
        now: Time::from_millis(now_ms),
        rtt: Time::from_millis(rtt_ms),
        cwnd: 10,
        mss: 1448,
        tick: Time::ZERO,
        paced: true,
        accurate_ecn: false,
        tso: true,
        rng: Rng::stream(1, "policy"),
    }
}

/// An ACK at `now_ms` with these totals.
fn acked(steered: &mut Steered, now_ms: u64, rtt_ms: u64, delivered: u64, control: &mut Control) {
    let view = View { now: Time::from_millis(now_ms), delivered, in_flight: 10, ..View::INITIAL };
    let ack = Ack {
        view: &view,
        rtt: Some(Time::from_millis(rtt_ms)),
        acked: 1,
        delivered: 1,
        lost: 0,
        prior_in_flight: 40,
        prior_una: 0,
        part: false,
        cwnd_limited: true,
        ece: false,
        rate: &RateSample::NONE,
    };
    Piloted(steered.clone()).on_ack(&ack, control);
}

fn settings(interval_ms: u64) -> Settings {
    Settings { interval: Length::Time(interval_ms * 1_000_000), ..Settings::default() }
}

/// A network with weights drawn from a seed.
fn network(inputs: usize, seed: u64) -> Network {
    let mut rng = Rng::stream(seed, "weights");
    let mut layer = |takes: usize, gives: usize| Layer {
        weights: (0..gives).map(|_| (0..takes).map(|_| 4.0 * rng.unit() - 2.0).collect()).collect(),
        bias: (0..gives).map(|_| 2.0 * rng.unit() - 1.0).collect(),
    };
    Network(vec![layer(inputs, 6), layer(6, 1)])
}

#[test]
fn an_action_multiplies_or_divides_the_window() {
    let mut steered = Steered::new(&settings(20), &init(0, 20));
    let mut control = Control::initial(10);
    acked(&mut steered, 10, 20, 5, &mut control);
    assert_eq!(control.cwnd, 10);
    // 5 packets in 20 ms: at most 4 * 5 + 10.
    for (action, window) in
        [(1.0, 20.0_f64), (-1.0, 10.0), (0.5, 15.0), (f64::NAN, 15.0), (0.0, 15.0), (10.0, 30.0), (-1e300, 2.0)]
    {
        steered.with(|pilot| {
            pilot.close();
            pilot.act(action);
            assert_eq!(pilot.level().to_bits(), window.to_bits(), "{} after {action}", pilot.level());
        });
    }
}

#[test]
fn figures_of_an_interval_by_hand() {
    let mut steered = Steered::new(&settings(20), &init(0, 20));
    let mut control = Control::initial(10);
    // 5 ms and 15 ms: RTTs of 20 and 30 ms, 8 packets delivered in 20 ms.
    acked(&mut steered, 5, 20, 4, &mut control);
    acked(&mut steered, 15, 30, 8, &mut control);
    steered.with(|pilot| {
        assert_eq!((pilot.end(), pilot.has_heard()), (Time::from_millis(20), true));
        pilot.close();
        let expected = Figures {
            length_s: 0.02,
            throughput_bps: 8.0 * 1448.0 * 8.0 / 0.02,
            rtt_s: 0.025,
            queueing_s: 0.005,
            loss: 0.0,
        };
        assert_eq!(*pilot.figures(), Figures { queueing_s: pilot.figures().queueing_s, ..expected });
        assert!((pilot.figures().queueing_s - 0.005).abs() < 1e-12);
        // Half a second per second, of ±1.
        assert!((pilot.observation()[1] - 0.5).abs() < 1e-6);
    });
}

#[test]
fn an_interval_without_feedback_is_extended_by_its_length() {
    let mut steered = Steered::new(&settings(20), &init(0, 20));
    let mut control = Control::initial(10);
    acked(&mut steered, 71, 20, 5, &mut control);
    steered.with(|pilot| assert_eq!((pilot.end(), pilot.level()), (Time::from_millis(80), 10.0)));
    acked(&mut steered, 80, 20, 6, &mut control);
    steered.with(|pilot| assert_eq!(pilot.end(), Time::from_millis(80), "an ACK at its end is of the interval"));
}

#[test]
fn a_rate_sets_a_window_of_two_round_trips() {
    let settings = Settings { lever: Lever::Rate, ..settings(20) };
    let mut steered = Steered::new(&settings, &init(0, 20));
    let mut control = Control::initial(10);
    acked(&mut steered, 5, 20, 4, &mut control);
    // 10 packets of 1448 bytes in 20 ms.
    assert_eq!(control.pacing_rate.map(knee_core::Rate::as_bps), Some(5_792_000));
    assert_eq!(control.cwnd, 20);
}

#[test]
fn an_interval_is_cut_only_after_it_has_begun() {
    let steered = Steered::new(&settings(20), &init(5, 20));
    steered.with(|pilot| {
        pilot.cut(Time::from_millis(5));
        assert_eq!(pilot.end(), Time::from_millis(25));
        pilot.cut(Time::from_millis(6));
        assert_eq!(pilot.end(), Time::from_millis(6));
    });
}

/// Four times the greatest rate at which the flow delivered, and ten packets in a round trip.
#[test]
fn the_largest_rate_follows_from_what_the_flow_delivered() {
    let settings = Settings { lever: Lever::Rate, ..settings(20) };
    let mut steered = Steered::new(&settings, &init(0, 20));
    acked(&mut steered, 5, 25, 4, &mut Control::initial(10));
    steered.with(|pilot| {
        pilot.close();
        pilot.act(1e300);
        // 4 packets of 1448 bytes in 20 ms, and an RTT of 25 ms.
        let most = (4.0 * 200.0 + 10.0 / 0.025) * 1448.0 * 8.0;
        assert!((pilot.level() / most - 1.0).abs() < 1e-9, "{}", pilot.level());
    });
}

#[test]
fn a_policy_and_one_that_is_steered_by_its_network_give_the_same_bits() {
    proptest!(ProptestConfig::with_cases(200), |(seed: u64, gaps in prop::collection::vec(1u64..90, 1..200))| {
        let settings = Settings { history: 3, interval: Length::Rtts(0.7), ..Settings::default() };
        let plan = Arc::new(Plan { settings, layers: network(settings.size(), seed) });
        plan.check().unwrap();
        let (mut alone, start) = (plan.make(&init(0, 20)), init(0, 20));
        let mut steered = Steered::new(&settings, &start);
        let (mut one, mut other, mut now) = (Control::initial(10), Control::initial(10), 0);
        for (i, gap) in gaps.iter().enumerate() {
            now += gap;
            let (rtt, delivered) = (20 + (seed ^ now) % 50, 3 * i as u64);
            // From outside: at the end of each interval before this ACK.
            steered.with(|pilot| {
                while pilot.end() < Time::from_millis(now) {
                    if !pilot.has_heard() {
                        let next = pilot.end() + Time::from_nanos(1);
                        pilot.extend(next);
                        continue;
                    }
                    pilot.close();
                    let action = plan.layers.action(pilot.observation());
                    pilot.act(action);
                }
            });
            acked(&mut steered, now, rtt, delivered, &mut other);
            let view = View { now: Time::from_millis(now), delivered, in_flight: 10, ..View::INITIAL };
            let ack = Ack {
                view: &view, rtt: Some(Time::from_millis(rtt)), acked: 1, delivered: 1, lost: 0, prior_in_flight: 40,
                prior_una: 0, part: false, cwnd_limited: true, ece: false, rate: &RateSample::NONE,
            };
            alone.on_ack(&ack, &mut one);
            prop_assert_eq!(one, other, "at {} ms", now);
        }
    });
}

#[test]
fn policies_keep_the_invariants_of_algorithms_whatever_happens() {
    let mut entry = ENTRY;
    for make in [
        (|_, init| made(Lever::Window, Length::Rtts(1.0), init)) as knee_cc::Make,
        |_, init| made(Lever::Rate, Length::Rtts(0.5), init),
        |_, init| made(Lever::Window, Length::Time(20_000_000), init),
    ] {
        entry.make = make;
        knee_core::testing::fuzz(None, &[(entry.name, &entry)], 5_000, 2_000, |entry, bytes| check(entry, bytes));
    }
}

fn made(lever: Lever, interval: Length, init: &Init) -> Box<dyn DynCongestionControl> {
    let settings = Settings { lever, interval, ..Settings::default() };
    Arc::new(Plan { settings, layers: network(settings.size(), u64::from(init.cwnd)) }).make(init)
}

#[test]
fn bad_plans_are_refused_with_the_key() {
    let good = Plan { settings: Settings::default(), layers: network(8, 1) };
    assert_eq!(good.check(), Ok(()));
    let refused = |change: fn(&mut Plan)| {
        let mut plan = good.clone();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    };
    for (change, expected) in [
        ((|plan| plan.settings.gain = f64::NAN) as fn(&mut Plan), "`gain` is NaN; expected 0.001 to 10"),
        (|plan| plan.settings.history = 0, "`history` is 0; expected 1 to 64 intervals"),
        (|plan| plan.settings.interval = Length::Rtts(0.0), "`interval` is 0 RTTs"),
        (|plan| plan.settings.interval = Length::Time(5), "`interval` is 5 ns"),
        (|plan| plan.settings.history = 2, "`weights` is a row of 8 in layer 0, which takes 16 numbers"),
        (|plan| plan.layers.0.clear(), "`layers` is a list of 0; expected 1 to 8 layers"),
        (|plan| plan.layers.0.truncate(1), "`layers` is 6 numbers at the end"),
        (|plan| plan.layers.0[1].bias.clear(), "`bias` is a list of 0 in layer 1, which has 1 rows"),
        (|plan| plan.layers.0[0].weights[2][3] = f64::INFINITY, "`weights` is not finite in layer 0"),
    ] {
        let found = refused(change);
        assert!(found.starts_with(expected), "{found}");
    }
}
