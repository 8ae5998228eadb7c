//! What this crate adds runs in the simulator, and does what its sources say.

use knee_core::Params;
use knee_core::testing::fuzz;
use knee_sim::{Output, Rows, Simulation, Spec};
use serde_json::{Value, json};

const S: u64 = 1_000_000_000;

fn link(queue: &str, packets: u64) -> Value {
    json!({
        "name": "bottleneck", "capacity": {"rate": 10_000_000}, "queue": queue, "limit": {"packets": packets}, "overhead": 14,
        "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false, "burst": null, "reverse": null
    })
}

fn flow(cc: &str) -> Value {
    json!({"label": cc, "cc": cc, "rtt": S / 50, "start": 0, "stop": 20 * S, "bytes": null, "path": [0]})
}

fn run(link: Value, flows: &[Value]) -> (Output, Rows) {
    knee_outside::add().unwrap();
    let spec = json!({"duration": 20 * S, "seed": 1, "warmup": S, "interval": S / 10, "links": [link], "flows": flows});
    let spec: Spec = serde_json::from_value(spec).unwrap();
    Simulation::new(&spec).unwrap().run().unwrap()
}

/// Chiu and Jain: increase and decrease by shares of the window never bring two flows together.
#[test]
fn two_flows_with_multiplicative_increase_stay_as_unequal_as_they_started() {
    let mut late = flow("mimd");
    late["start"] = json!(5 * S);
    let share = |flows: &[Value]| {
        let (output, _) = run(link("pfifo", 50), flows);
        output.flows[1].goodput_mbps / output.flows[0].goodput_mbps
    };
    let mut reno = flow("reno");
    reno["start"] = json!(5 * S);
    let (mimd, reno) = (share(&[flow("mimd"), late]), share(&[flow("reno"), reno]));
    assert!(mimd < 0.5 && reno > 0.7, "{mimd} of the first flow's rate, with Reno {reno}");
}

#[test]
fn a_parameter_of_the_algorithm_is_set_by_the_specification() {
    let mut bold = flow("mimd");
    bold["cc_params"] = json!({"gain": {"ratio": 0.2}});
    let drops = |flow| run(link("pfifo", 50), &[flow]).0.links[0].drops;
    assert!(drops(bold) > 2 * drops(flow("mimd")));
    let mut misspelt = flow("mimd");
    misspelt["cc_params"] = json!({"gian": {"ratio": 0.2}});
    let spec = json!({
        "duration": S, "seed": 1, "warmup": 0, "interval": S, "links": [link("pfifo", 50)], "flows": [misspelt]
    });
    let refused = Simulation::new(&serde_json::from_value(spec).unwrap()).err().unwrap().to_string();
    assert!(refused.contains("gian") && refused.contains("gain, beta"), "{refused}");
}

/// Lakshman et al.: a packet lost at the head is missed as soon as those behind it arrive, one lost at the tail only after all
/// that the queue holds, here 120 ms.
#[test]
fn with_head_drop_senders_learn_of_losses_a_queue_earlier() {
    let learned = |queue| {
        let (output, rows) = run(link(queue, 100), &[flow("reno")]);
        let first = |name: &str| {
            let event = output.event_names.iter().position(|known| known == name).unwrap();
            rows.events.iter().find(|row| row.event as usize == event).unwrap().t_s
        };
        first("recovery") - first("drop")
    };
    let (head, tail) = (learned("head_drop"), learned("pfifo"));
    assert!((0.019..0.03).contains(&head) && (0.12..0.16).contains(&tail), "{head} s, with pfifo {tail} s");
}

/// A message of 10 kB fits into the initial window: it takes its serialisation and an RTT, and then comes the next.
#[test]
fn messages_go_one_after_the_other() {
    let mut asks = flow("cubic");
    asks["traffic"] = json!({"kind": "ping_pong", "message": 10_000});
    let (output, rows) = run(link("head_drop", 100), &[asks]);
    let times: Vec<f64> = rows.completions.iter().map(|c| c.t_s - c.started_s).collect();
    // 20 ms, and 10 kB with headers at 10 Mbit/s.
    assert!(times.len() > 600 && times.iter().all(|time| (0.027..0.031).contains(time)), "{times:?}");
    assert!(output.flows[0].lost_packets == 0);
}

#[test]
fn what_is_added_declares_defaults_within_its_ranges() {
    knee_outside::add().unwrap();
    for params in [
        knee_cc::find("mimd").unwrap().params,
        knee_queue::find("head_drop").unwrap().params,
        knee_traffic::find("ping_pong").unwrap().params,
    ] {
        let given = params.iter().map(|param| (param.name, param.default));
        assert!(Params::resolve(params, given).is_ok());
    }
}

/// knee's laws of its own algorithms and queues, under random events: windows within bounds, packets in = out + dropped + held,
/// the same answers twice.
#[test]
fn knees_laws_hold() {
    knee_outside::add().unwrap();
    let (mimd, head_drop) = (knee_cc::find("mimd").unwrap(), knee_queue::find("head_drop").unwrap());
    fuzz(Some("OUTSIDE_CC"), &[("mimd", mimd)], 1_000, 700, |entry, bytes| knee_cc::invariants::check(entry, bytes));
    fuzz(Some("OUTSIDE_QUEUE"), &[("head_drop", head_drop)], 1_000, 700, |entry, bytes| {
        knee_queue::invariants::check(entry, bytes)
    });
}
