//! Flows, queues and links that are steered from outside, and flows that a policy steers.

use crate::networks::{MS, S, any_network, flow, link, spec};
use crate::runs::{bits, read};
use knee_core::Rng;
use knee_sim::Simulation;
use knee_sim::policy::{Features, Length, Lever, Plan, Settings};
use knee_sim::steered::{
    Bounds, Episode, Fleet, FleetError, FlowEpisode, NETWORK_RANGES, NetworkEpisode, Next, Observations, Part,
    QUEUE_RANGES, QueueEpisode, Reward, Task,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The policy with weights drawn from a seed.
fn plan(settings: &Value, inputs: usize, seed: u64) -> Value {
    let mut rng = Rng::stream(seed, "weights");
    let mut layer = |takes: usize, gives: usize| {
        let weights: Vec<Vec<f64>> = (0..gives).map(|_| (0..takes).map(|_| rng.unit() - 0.5).collect()).collect();
        json!({"weights": weights, "bias": vec![0.1; gives]})
    };
    json!({"settings": settings, "layers": [layer(inputs, 4), layer(4, 1)]})
}

fn two_flows(cc: &str) -> Value {
    let flows = [flow("cubic", 20 * MS, 0, 3 * S), flow(cc, 30 * MS, 100 * MS, 3 * S)];
    spec(3 * S, &[link(20_000_000, &json!({"packets": 60}))], &flows)
}

/// A run of flow `i` steered from outside by the network of its policy.
fn steered(spec: &Value, i: usize, plan: &Plan) -> (String, Vec<u8>) {
    let mut episode = FlowEpisode::begin(read(spec), i, &plan.settings).unwrap();
    let mut over = false;
    while !over {
        let action = plan.layers.action(episode.observation());
        over = episode.step(&[action]).unwrap().truncated;
        over |= episode.now_s() >= read(spec).duration as f64 / 1e9;
    }
    bits(episode.into_simulation().run().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The policy that runs is the network that was trained.
    #[test]
    fn a_policy_gives_the_bits_of_its_network_steering_from_outside(
        spec in any_network(), seed: u64, rate: bool, per_rtt: bool, aurora: bool
    ) {
        let mut spec = spec;
        let flows = spec["flows"].as_array_mut().unwrap();
        let Some(i) = flows.iter().position(|flow| flow["traffic"].is_null() && flow["transport"] != "quic") else {
            return Ok(());
        };
        let settings = json!({
            "lever": if rate { "rate" } else { "window" },
            "interval": if per_rtt { json!({"rtts": 0.8}) } else { json!({"time": 20 * MS}) },
            "gain": 0.5, "features": if aurora { "aurora" } else { "knee" }, "history": 2
        });
        let policy = plan(&settings, if aurora { 6 } else { 16 }, seed);
        flows[i]["cc"] = json!("policy");
        flows[i]["cc_params"] = Value::Null;
        flows[i]["policy"] = policy.clone();
        let Ok(simulation) = Simulation::new(&read(&spec)) else { return Ok(()) };
        let alone = bits(simulation.run().unwrap());
        prop_assert_eq!(alone, steered(&spec, i, &serde_json::from_value(policy).unwrap()));
    }
}

/// The SYN is lost, and the connection opens with the RTT that a change has made shorter.
#[test]
fn an_episode_begins_with_the_first_interval_of_a_flow_whose_rtt_was_longer_before() {
    let settings = Settings { interval: Length::Rtts(0.8), ..Settings::default() };
    let mut spec = spec(2 * S, &[link(10_000_000, &json!({"packets": 60}))], &[flow("reno", 200 * MS, 0, 2 * S)]);
    spec["links"][0]["loss"] = json!(1.0);
    spec["changes"] = json!([
        {"at": 500 * MS, "what": {"loss": {"link": 0, "loss": 0.0}}},
        {"at": 500 * MS, "what": {"rtt": {"flow": 0, "rtt": 10 * MS}}},
    ]);
    let episode = FlowEpisode::begin(read(&spec), 0, &settings).unwrap();
    // A second and a tick of 4 ms, the handshake, and two intervals of 8 ms: in the first no ACK comes.
    assert!((1.030..1.031).contains(&episode.now_s()), "{}", episode.now_s());
}

#[test]
fn a_simulation_with_a_policy_can_be_copied() {
    let mut spec = two_flows("policy");
    spec["flows"][1]["policy"] = plan(&json!({}), 8, 1);
    let mut simulation = Simulation::new(&read(&spec)).unwrap();
    simulation.run_until(knee_core::Time::from_secs(1));
    let copy = simulation.copied().unwrap();
    assert_eq!(bits(simulation.run().unwrap()), bits(copy.run().unwrap()));
}

#[test]
fn a_policy_that_does_not_fit_is_refused_with_its_flow_and_key() {
    let mut spec = two_flows("policy");
    spec["flows"][1]["policy"] = plan(&json!({"history": 3}), 8, 1);
    let refused = Simulation::new(&read(&spec)).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("flow `policy`: its parameters cannot be read: `weights` is a row of 8"), "{refused}");
}

fn task(duration: u64) -> Task {
    let settings = Settings { interval: Length::Time(20 * MS), ..Settings::default() };
    let mut spec = two_flows("reno");
    spec["duration"] = json!(duration);
    spec["links"][0]["loss"] = json!(0.01);
    Task {
        spec: read(&spec),
        part: Part::Flow(1, settings),
        reward: Reward { throughput: 1e-6, rtt: 0.0, queueing: -1.0, loss: -1.0 },
    }
}

#[test]
fn a_reward_is_the_weighted_sum_of_the_figures() {
    let figures =
        knee_sim::policy::Figures { length_s: 1.0, throughput_bps: 2e6, rtt_s: 0.5, queueing_s: 0.25, loss: 0.125 };
    let reward = Reward { throughput: 3e-6, rtt: -5.0, queueing: -7.0, loss: -11.0 };
    assert_eq!(reward.of(&figures).to_bits(), (6.0 - 2.5 - 1.75 - 1.375_f64).to_bits());
}

#[test]
fn bits_of_a_fleet_do_not_depend_on_its_threads() {
    let run = |threads: usize| -> Vec<Observations> {
        let mut fleet = Fleet::new(vec![task(S), task(S / 2)], 5, threads).unwrap();
        let next: Vec<Next> = (0..5).map(|i| (i % 2, i as u64)).collect();
        let mut all = vec![fleet.begin(&next).unwrap()];
        for step in 0..100 {
            let actions: Vec<f64> = (0..5).map(|i| f64::from((step * 7 + i) % 5) / 2.0 - 1.0).collect();
            all.push(fleet.step(&actions, &next).unwrap());
        }
        all
    };
    let one = run(1);
    for threads in [2, 3, 16] {
        for (a, b) in one.iter().zip(run(threads)) {
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
        }
    }
    // An episode that is over is followed by another at the next step, without a reward.
    let over = one.iter().position(|observed| observed.truncated[1] == 1).unwrap();
    assert_eq!((one[over + 1].began[1], one[over + 1].rewards[1], one[over + 1].truncated[1]), (1, 0.0, 0));
    assert!((one[over].times[1] - 0.5).abs() < 1e-9, "{}", one[over].times[1]);
}

#[test]
fn a_transfer_that_is_complete_ends_its_episode() {
    let mut task = task(3 * S);
    task.spec.flows[1].bytes = Some(30_000);
    let mut fleet = Fleet::new(vec![task], 1, 1).unwrap();
    fleet.begin(&[(0, 1)]).unwrap();
    let over = (0..100).map(|_| fleet.step(&[0.0], &[(0, 1)]).unwrap()).find(|step| step.terminated[0] == 1).unwrap();
    assert!(over.times[0] < 1.0 && over.truncated[0] == 0);
}

#[test]
fn a_policy_runs_over_quic_and_only_tcp_is_steered_from_outside() {
    let mut spec = two_flows("policy");
    spec["flows"][1]["policy"] = plan(&json!({}), 8, 1);
    spec["flows"][1]["transport"] = json!("quic");
    let (output, _) = Simulation::new(&read(&spec)).unwrap().run().unwrap();
    assert!(output.flows[1].goodput_mbps > 0.1, "{}", output.flows[1].goodput_mbps);
    let refused = FlowEpisode::begin(read(&spec), 1, &Settings::default()).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "there is no flow over TCP to be steered");
}

#[test]
fn a_scenario_that_is_refused_is_named() {
    let mut bad = task(S);
    bad.spec.flows[0].cc = "nonsense".into();
    let mut fleet = Fleet::new(vec![task(S), bad], 2, 2).unwrap();
    let error = fleet.begin(&[(0, 1), (1, 1)]).unwrap_err();
    assert!(matches!(error, FleetError::Spec { task: 1, .. }), "{error}");
}

/// Utilization and reward of a flow alone whose window is held.
#[test]
fn figures_of_steps_obey_the_link() {
    let spec = spec(5 * S, &[link(10_000_000, &json!({"packets": 100}))], &[flow("reno", 20 * MS, 0, 5 * S)]);
    let settings = Settings { lever: Lever::Rate, features: Features::Aurora, history: 10, ..Settings::default() };
    let mut episode = FlowEpisode::begin(read(&spec), 0, &settings).unwrap();
    let mut delivered = 0.0;
    for _ in 0..400 {
        let step = episode.step(&[0.1]).unwrap();
        if step.truncated {
            break;
        }
        let figures = episode.figures();
        delivered += figures.throughput_bps * figures.length_s;
        assert!(figures.rtt_s >= 0.02 && figures.queueing_s < 0.13, "{figures:?}");
    }
    assert!(delivered < 10e6 * 5.0 && delivered > 8e6 * 4.0, "{delivered} bits");
}

fn queue_task(probability: f64) -> (Vec<f64>, f64, f64) {
    let mut spec = spec(5 * S, &[link(10_000_000, &json!({"packets": 100}))], &[flow("cubic", 40 * MS, 0, 5 * S)]);
    spec["links"][0]["queue"] = json!("codel");
    let mut episode = QueueEpisode::begin(read(&spec), 0, 20 * MS).unwrap();
    let (mut waited, mut carried, mut dropped) = (Vec::new(), 0.0, 0.0_f64);
    loop {
        let step = episode.step(&[probability]).unwrap();
        assert!(
            episode.observation().iter().zip(QUEUE_RANGES).all(|(value, (_, low, high))| (low..=high).contains(value))
        );
        assert_eq!(episode.applied(), [probability]);
        let figures = episode.figures();
        assert!(figures.throughput_bps <= 10e6 * 1.1 && figures.queueing_s <= figures.rtt_s + 1e-12);
        waited.push(figures.queueing_s);
        carried += figures.throughput_bps * figures.length_s;
        dropped = dropped.max(figures.loss);
        if step.truncated {
            return (waited, carried, dropped);
        }
    }
}

/// Without drops at random the queue is drop tail, and with them it is shorter.
#[test]
fn a_probability_shortens_the_queue() {
    let mean = |waited: &[f64]| waited.iter().sum::<f64>() / waited.len() as f64;
    let ((full, most, tail), (short, less, _), (_, none, all)) = (queue_task(0.0), queue_task(0.02), queue_task(1.0));
    assert!(mean(&short) < mean(&full) / 2.0, "{} and {}", mean(&short), mean(&full));
    assert!(tail < 0.2 && most > 0.9 * 50e6 && most < 50e6, "{tail} {most}");
    // Mathis et al. (1997): 1.22 * 1448 * 8 / (0.040 * sqrt(0.02)) = 2.5 Mbit/s for 5 s.
    assert!((less - 12.5e6).abs() < 3e6, "{less}");
    assert!(none < 1e6 && all > 0.999, "{none} {all}");
}

#[test]
fn a_queue_that_is_steered_needs_a_link_with_a_rate() {
    let mut traced = two_flows("reno");
    traced["links"][0]["capacity"] = json!({"trace": [0, 5]});
    assert!(QueueEpisode::begin(read(&traced), 0, 20 * MS).is_err());
    assert!(QueueEpisode::begin(read(&two_flows("reno")), 1, 20 * MS).is_err());
}

const BOUNDS: Bounds = Bounds { interval_ns: 50 * MS, rate: (0.3, 3.0), delay_ns: (0.0, 30e6), loss: (0.0, 0.05) };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// An adversary's episode is a scenario, whose run has the same bits.
    #[test]
    fn a_steered_link_gives_the_bits_of_its_changes(spec in any_network(), seed: u64) {
        let asked = read(&spec);
        prop_assume!(asked.links[0].model.name == "wire" && !asked.links[0].capacity.is_recorded());
        prop_assume!(asked.links[0].loss_model.is_none());
        let mut episode = NetworkEpisode::begin(asked, 0, &BOUNDS).unwrap();
        let mut rng = Rng::stream(seed, "actions");
        loop {
            let step = episode.step(&[rng.unit(), rng.unit(), rng.unit()]).unwrap();
            for (value, (name, low, high)) in episode.observation().iter().zip(NETWORK_RANGES) {
                prop_assert!((low..=high).contains(value), "{} is {}", name, value);
            }
            if step.truncated {
                break;
            }
        }
        let uninterrupted = Simulation::new(&episode.spec()).unwrap().run().unwrap();
        prop_assert_eq!(bits(episode.into_simulation().run().unwrap()), bits(uninterrupted));
    }
}

/// Bits of the last numbers of an observation: where rate, delay and loss are within their bounds.
fn places(episode: &NetworkEpisode) -> [u32; 3] {
    episode.observation().last_chunk().unwrap().map(f32::to_bits)
}

/// Bits of a value in single precision, in which observations are.
fn single(value: f64) -> u32 {
    (value as f32).to_bits()
}

#[test]
fn conditions_are_where_an_action_puts_them() {
    let mut episode = NetworkEpisode::begin(read(&two_flows("reno")), 0, &BOUNDS).unwrap();
    // Before the first action the rate is 1 of 0.3 to 3, and nothing is added.
    assert_eq!(places(&episode), [0.7 / 2.7, 0.0, 0.0].map(single));
    for (action, rate, delay, loss) in [
        ([0.0, 0.0, 0.0], 6e6, 0.0, 0.0),
        ([1.0, 1.0, 1.0], 60e6, 30e6, 0.05),
        ([0.5, 0.5, 0.5], 33e6, 15e6, 0.025),
        ([f64::NAN, -1.0, 7.0], 6e6, 0.0, 0.05),
    ] {
        episode.step(&action).unwrap();
        assert_eq!(episode.applied(), [rate, delay, loss]);
        let figures = episode.figures();
        assert!((figures.throughput_bps + figures.rtt_s * rate - rate).abs() < 1.0, "the rest was not used");
        let clamped = action.map(|place| if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) });
        assert_eq!(places(&episode), clamped.map(single));
        let [utilization, waiting] = episode.observation().first_chunk().copied().unwrap();
        let expected = [figures.throughput_bps / rate, figures.queueing_s / 0.010].map(single);
        assert_eq!([utilization, waiting].map(f32::to_bits), expected);
        // 60 packets wait for 121 ms at the least rate, and one for 0.2 ms at the greatest.
        assert!((0.0..0.122).contains(&figures.queueing_s), "{figures:?}");
    }
    // Two flows cross the link.
    assert_eq!(episode.spec().changes.len(), 4 * 4);
    let mut traced = two_flows("reno");
    traced["links"][0]["capacity"] = json!({"trace": [0, 5]});
    assert!(NetworkEpisode::begin(read(&traced), 0, &BOUNDS).is_err());
}

/// CUBIC and Reno fill a buffer of 60 packets, which at 6 Mbit/s take 121 ms; at the end of an interval all but the
/// packet on the wire may be there.
#[test]
fn a_steered_link_shows_its_backlog_as_time() {
    let mut episode = NetworkEpisode::begin(read(&two_flows("reno")), 0, &BOUNDS).unwrap();
    let shown = (0..40).map(|_| {
        episode.step(&[0.0, 0.0, 0.0]).unwrap();
        episode.observation()[2]
    });
    let most = shown.fold(0.0, f32::max) * 10.0;
    assert!((60.0..122.0).contains(&most), "{most} ms");
}
