//! A simulation that is stepped, changed as it runs and copied gives the bits of an uninterrupted one of the same
//! specification.

use crate::networks::{
    MS, S, any_applications, any_chain, any_dumbbell, any_network, any_transfers, flow, link, spec, with_quic,
};
use crate::runs::{bits, read, simulation};
use knee_cc::{Ack, CloneCongestionControl, Congestion, CongestionControl, Control, DynCongestionControl};
use knee_core::Time;
use knee_core::convert::index;
use knee_sim::Simulation;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Changes to a simulation at a step, by numbers that mean something for any network.
#[derive(Clone, Copy, Debug)]
enum Act {
    Nothing,
    Rate(u64, u64),
    Loss(u64, f64),
    Limit(u64, u64),
    Rtt(u64, u64),
    Stop(u64),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Nothing),
        1 => (any::<u64>(), 500_000_u64..100_000_000).prop_map(|(link, rate)| Act::Rate(link, rate)),
        1 => (any::<u64>(), 0.0..0.05).prop_map(|(link, loss)| Act::Loss(link, loss)),
        1 => (any::<u64>(), 1_u64..200).prop_map(|(link, packets)| Act::Limit(link, packets)),
        1 => (any::<u64>(), 0_u64..100 * MS).prop_map(|(flow, more)| Act::Rtt(flow, more)),
        1 => any::<u64>().prop_map(Act::Stop),
    ]
}

impl Act {
    /// Adds it to a specification: it happens `at` this time.
    fn add_to(self, spec: &mut Value, at: u64) {
        let (links, flows) =
            (spec["links"].as_array().unwrap().len() as u64, spec["flows"].as_array().unwrap().len() as u64);
        let what = match self {
            Self::Nothing => return,
            // A recorded link has no rate that could change.
            Self::Rate(link, _) if spec["links"][index(link % links)]["capacity"]["rate"].is_null() => return,
            Self::Rate(link, rate) => json!({"rate": {"link": link % links, "rate": rate}}),
            Self::Loss(link, loss) => json!({"loss": {"link": link % links, "loss": loss}}),
            Self::Limit(link, packets) => json!({"limit": {"link": link % links, "limit": {"packets": packets}}}),
            Self::Rtt(flow, more) => {
                let flow = flow % flows;
                let delays = spec["links"].as_array().unwrap().iter().map(|link| link["delay"].as_u64().unwrap_or(0));
                json!({"rtt": {"flow": flow, "rtt": delays.sum::<u64>() + more}})
            }
            Self::Stop(flow) => {
                let stop = &mut spec["flows"][index(flow % flows)]["stop"];
                if stop.as_u64().unwrap() > at {
                    *stop = json!(at);
                }
                return;
            }
        };
        if !spec["changes"].is_array() {
            spec["changes"] = json!([]);
        }
        spec["changes"].as_array_mut().unwrap().push(json!({"at": at, "what": what}));
    }
}

/// Datagrams of each kind in place of some flows.
fn with_datagrams(spec: &mut Value, kinds: &[u8]) {
    for (flow, kind) in spec["flows"].as_array_mut().unwrap().iter_mut().zip(kinds) {
        flow["traffic"] = match kind % 4 {
            0 => json!({"kind": "rtc", "controller": "gcc"}),
            1 => json!({"kind": "rtc", "controller": "scream"}),
            2 => json!({"kind": "probe", "packet": 100, "interval": 20 * MS}),
            _ => continue,
        };
        flow["bytes"] = Value::Null;
    }
}

/// A network, with datagrams in a quarter of them.
fn any_spec() -> impl Strategy<Value = Value> {
    let datagrams = (any_dumbbell(), prop::collection::vec(any::<u8>(), 9)).prop_map(|(mut spec, kinds)| {
        with_datagrams(&mut spec, &kinds);
        spec
    });
    let bulk = with_quic(prop_oneof![any_dumbbell(), any_chain(), any_network()]);
    prop_oneof![3 => bulk, 1 => any_transfers(), 1 => any_applications(), 1 => datagrams]
}

/// A simulation of `spec` that has come to `at`.
fn replayed(spec: &Value, at: Time) -> Simulation {
    let mut simulation = simulation(spec);
    simulation.run_until(at);
    simulation
}

fn law(spec: &Value, acts: &[(u64, Act, bool)]) -> Result<(bool, bool), TestCaseError> {
    let (mut told, mut live) = (spec.clone(), simulation(spec));
    let end = spec["duration"].as_u64().unwrap();
    let in_batches = live.obstacle().is_none();
    let (mut at, mut left_behind, mut as_it_ran) = (0, Vec::new(), true);
    for &(span, act, copies) in acts {
        at += span;
        if at + 1 >= end {
            break;
        }
        live.run_until(Time::from_nanos(at));
        prop_assert_eq!(live.now(), Time::from_nanos(at));
        prop_assert_eq!(live.changeable_from(), Time::from_nanos(at + 1));
        live.audit().map_err(TestCaseError::fail)?;
        if copies {
            let copy = live.copied().expect("all parts can be copied");
            left_behind.push((told.clone(), std::mem::replace(&mut live, copy)));
        }
        act.add_to(&mut told, at + 1);
        if !live.amend(&read(&told)).unwrap() {
            as_it_ran = false;
            live = replayed(&told, Time::from_nanos(at));
        }
    }
    left_behind.push((told, live));
    for (told, mut stepped) in left_behind {
        while stepped.step(1 << 14) {}
        stepped.audit().map_err(TestCaseError::fail)?;
        let (whole, parts) = (bits(simulation(&told).run().unwrap()), bits(stepped.finish().unwrap()));
        prop_assert_eq!(whole.0, parts.0);
        prop_assert!(whole.1 == parts.1, "the rows differ");
    }
    Ok((in_batches, as_it_ran))
}

#[test]
fn stepped_changed_and_copied_it_gives_the_bits_of_an_uninterrupted_run() {
    let spans = prop_oneof![1_u64..400 * MS, (1_u64..40).prop_map(|n| n * 10 * MS), Just(1)];
    let acts = prop::collection::vec((spans, any_act(), any::<bool>()), 1..8);
    let (mut cases, mut batches, mut replays) = (0, 0, 0);
    let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(200) };
    let counted = std::sync::Mutex::new((&mut cases, &mut batches, &mut replays));
    proptest::test_runner::TestRunner::new(config)
        .run(&(any_spec(), acts), |(spec, acts)| {
            let (in_batches, as_it_ran) = law(&spec, &acts)?;
            let mut counted = counted.lock().unwrap();
            *counted.0 += 1;
            *counted.1 += u32::from(in_batches);
            *counted.2 += u32::from(!as_it_ran);
            Ok(())
        })
        .unwrap();
    assert!(batches * 5 > cases && batches * 5 < cases * 4, "{batches} of {cases} went in batches");
    assert!(replays * 4 < cases, "{replays} of {cases} had to be replayed");
}

/// Short steps come to a time in the end, and one that is past is reached at once, without a step.
#[test]
fn a_time_is_reached_once_and_stays_reached() {
    let mut spec = spec(S, &[link(10_000_000, &json!(null))], &[flow("reno", 20 * MS, 0, S)]);
    // A link that loses what it has carried goes event by event.
    for corrupt in [0.0, 0.01] {
        spec["links"][0]["corrupt"] = json!(corrupt);
        let mut simulation = simulation(&spec);
        let [early, late] = [100, 400].map(Time::from_millis);
        let steps = (1..1_000_000).find(|_| simulation.approach(late, 10)).unwrap();
        assert!(steps > 2 && simulation.now() == late);
        assert!([early, late].into_iter().all(|time| simulation.approach(time, 0)));
        assert_eq!(simulation.now(), late);
    }
}

/// With every algorithm and every discipline, and all changes there are.
#[test]
fn every_algorithm_and_every_queue_is_copied_as_it_is() {
    let queues: Vec<_> = knee_queue::registry().iter().map(|entry| entry.name).collect();
    for (k, cc) in knee_cc::registry().iter().enumerate() {
        let queue = queues[k % queues.len()];
        let mut bottleneck = link(10_000_000, &json!({"packets": 40}));
        bottleneck["queue"] = json!(queue);
        let flows = [flow(cc.name, 30 * MS, 0, 2 * S), flow(cc.name, 50 * MS, S / 5, 2 * S)];
        let spec = spec(2 * S, &[bottleneck], &flows);
        let acts = [Act::Rate(0, 5_000_000), Act::Rtt(0, 20 * MS), Act::Loss(0, 0.01), Act::Limit(0, 10), Act::Stop(1)];
        let acts: Vec<_> = acts.into_iter().map(|act| (300 * MS + 1234, act, true)).collect();
        law(&spec, &acts).unwrap_or_else(|error| panic!("{} over {queue}: {error}", cc.name));
    }
    for queue in queues {
        let mut bottleneck = link(10_000_000, &json!({"packets": 40}));
        bottleneck["queue"] = json!(queue);
        let spec = spec(S, &[bottleneck], &[flow("cubic", 30 * MS, 0, S), flow("prague", 40 * MS, 0, S)]);
        law(&spec, &[(400 * MS, Act::Nothing, true)]).unwrap_or_else(|error| panic!("{queue}: {error}"));
    }
}

/// Links of a channel, and both directions of each, share its air, which a copy has for itself.
#[test]
fn a_copy_with_wifi_and_its_original_go_on_alike_in_either_order() {
    let links = [0, 1].map(|i| {
        let mut link = link(50_000_000, &json!({"packets": 100}));
        link["name"] = json!(format!("link {i}"));
        link["model"] = json!({"name": "wifi", "params": {"contenders": {"count": i}}});
        link["channel"] = json!("home");
        link["reverse"] = json!({"capacity": {"rate": 20_000_000}, "queue": "pfifo", "limit": {"packets": 50}});
        link
    });
    let mut flows = [flow("cubic", 20 * MS, 0, S), flow("bbr", 30 * MS, 0, S), flow("reno", 10 * MS, 0, S)];
    flows[1]["path"] = json!([1]);
    flows[2]["path"] = json!([0, 1]);
    let spec = spec(S, &links, &flows);
    let whole = bits(simulation(&spec).run().unwrap());
    for original_first in [true, false] {
        let original = replayed(&spec, Time::from_nanos(400 * MS));
        let copies = [original.copied().unwrap(), original.copied().unwrap()];
        let second = copies[0].copied().unwrap();
        let mut all: Vec<_> = std::iter::once(original).chain(copies).chain([second]).collect();
        if !original_first {
            all.reverse();
        }
        for (i, simulation) in all.into_iter().enumerate() {
            assert!(bits(simulation.run().unwrap()) == whole, "{i}, the original first: {original_first}");
        }
    }
}

#[test]
fn a_change_in_the_past_is_refused_and_the_rest_goes_on() {
    let spec = spec(S, &[link(10_000_000, &json!({"packets": 40}))], &[flow("cubic", 30 * MS, 0, S)]);
    let mut live = simulation(&spec);
    live.run_until(Time::from_nanos(500 * MS));
    let mut early = spec.clone();
    Act::Rate(0, 1_000_000).add_to(&mut early, 500 * MS);
    let said = live.amend(&read(&early)).unwrap_err().to_string();
    assert_eq!(said, "a change at 500000000 ns is too early: what is before 500000001 ns has happened");
    // A step back does nothing.
    live.run_until(Time::from_nanos(100 * MS));
    assert_eq!(live.now(), Time::from_nanos(500 * MS));
    assert_eq!(bits(live.run().unwrap()), bits(simulation(&spec).run().unwrap()));
}

/// An algorithm whose copy is an error.
struct NotCopied;

impl CongestionControl for NotCopied {
    fn on_ack(&mut self, _: &Ack, _: &mut Control) {}

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = 2;
    }
}

impl CloneCongestionControl for NotCopied {
    fn boxed_copy(&self) -> Box<dyn DynCongestionControl> {
        panic!("it was copied")
    }
}

#[test]
fn an_own_algorithm_an_outside_queue_and_a_spool_are_not_copied() {
    let spec = spec(S, &[link(10_000_000, &json!({"packets": 40}))], &[flow("cubic", 30 * MS, 0, S)]);
    assert!(simulation(&spec).copied().is_some());
    let mut spooled = simulation(&spec);
    spooled.spool(std::io::sink());
    assert!(spooled.copied().is_none());
    let mut quic = spec.clone();
    quic["flows"][0]["transport"] = json!("quic");
    assert!(simulation(&quic).copied().is_some());
    quic["flows"][0]["cc"] = json!("quinn:cubic");
    assert!(!cfg!(feature = "quic") || simulation(&quic).copied().is_none());
    let make = knee_sim::OwnMake::Algorithm(std::sync::Arc::new(|_, _, _| Box::new(NotCopied)));
    let own = knee_sim::Own { name: "mine".into(), entry: knee_cc::find("reno").unwrap(), make };
    let queue = |outside| {
        let make: knee_net::network::MakeQueue = std::sync::Arc::new(|_, init| {
            let pfifo = knee_queue::find("pfifo").unwrap();
            (pfifo.make)(&knee_core::Params::defaults(pfifo.params), init)
        });
        let mut mine = spec.clone();
        mine["links"][0]["queue"] = json!("mine");
        let own = knee_net::network::OwnQueue { name: "mine".into(), make, outside };
        Simulation::with_own_queues(&read(&mine), &[], &[own]).unwrap()
    };
    let (inside, outside) = (queue(false), queue(true));
    assert_eq!((inside.obstacle(), outside.obstacle()), (None, Some(knee_sim::simulation::Obstacle::OwnQueue)));
    assert!(inside.copied().is_some() && outside.copied().is_none());
    let rows = |of: Simulation| bytemuck::cast_slice::<_, u8>(&of.run().unwrap().1.samples).to_vec();
    assert_eq!(rows(inside), rows(outside));
    let mut mine = spec;
    mine["flows"][0]["cc"] = json!("mine");
    let mut mine = Simulation::with_own(&read(&mine), &[own]).unwrap();
    mine.run_until(Time::from_nanos(S / 2));
    assert!(mine.copied().is_none());
}
