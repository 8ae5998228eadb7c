//! Algorithms of a simulation's own, beside those of the registry.

use crate::networks::{MS, S, flow, link, spec};
use knee_cc::{Ack, Congestion, CongestionControl, Control, DynCongestionControl, Entry, Family, Needs};
use knee_sim::{Own, OwnMake, Simulation};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

/// Its window.
const WINDOW: u32 = 7;

static ENTRY: Entry = Entry {
    name: "fixed",
    family: Family::LossBased,
    about: "a window that stays",
    source: "this test",
    params: &[],
    phases: &["running"],
    edges: &[],
    min_cwnd: 2,
    needs: Needs::NONE,
    make: |_, _| unreachable!("it is not the registry's"),
};

#[derive(Clone)]
struct Fixed;

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _: &Ack, control: &mut Control) {
        control.cwnd = WINDOW;
    }

    fn on_congestion(&mut self, _: &Congestion, _: &mut Control) {}
}

/// Their names go first: one called `cubic` replaces the registry's, over TCP and QUIC, for a flow and for each
/// connection that an application opens. Flows that ask for another name do not get it.
#[test]
fn an_algorithm_of_ones_own_runs_the_flows_that_name_it_and_no_other() {
    let mut flows = ["cubic", "reno", "cubic", "reno", "cubic"].map(|cc| flow(cc, 20 * MS, 0, 4 * S));
    flows[2]["transport"] = json!("quic");
    flows[3]["transport"] = json!("quic");
    flows[4]["traffic"] = json!({
        "kind": "transfers", "arrivals": {"times": [0, S]}, "size": {"fixed": 200_000}, "persistent": false,
        "number": null
    });
    let spec = serde_json::from_value(spec(4 * S, &[link(100_000_000, &json!({"packets": 1000}))], &flows)).unwrap();
    let made = Arc::new(Mutex::new(Vec::new()));
    let note = made.clone();
    let make = move |_: &_, _: &_, i: usize| {
        note.lock().unwrap().push(i);
        Box::new(Fixed) as Box<dyn DynCongestionControl>
    };
    let own = Own { name: "cubic".into(), entry: &ENTRY, make: OwnMake::Algorithm(Arc::new(make)) };
    let (_, rows) = Simulation::with_own(&spec, &[own]).unwrap().run().unwrap();
    let mut made = made.lock().unwrap().clone();
    made.sort_unstable();
    assert_eq!(made, [0, 2, 4, 4]);
    for i in 0..4 {
        let late = rows.samples.iter().filter(|row| row.flow == i && row.t_s > 0.5);
        let windows: Vec<f32> = late.map(|row| row.cwnd_packets).collect();
        let fixed = windows.iter().all(|window| (window - WINDOW as f32).abs() < f32::EPSILON);
        assert!(windows.len() > 10 && fixed == [0, 2].contains(&i), "{i}: {windows:?}");
    }
    assert_eq!(rows.completions.len(), 2);
}

/// An algorithm that runs on one thread alone.
#[derive(Clone)]
struct Homely {
    home: ThreadId,
    /// True once another thread has called one.
    elsewhere: Arc<AtomicBool>,
}

impl CongestionControl for Homely {
    fn on_ack(&mut self, _: &Ack, _: &mut Control) {
        if thread::current().id() != self.home {
            self.elsewhere.store(true, Relaxed);
            panic!("away from home");
        }
        // So that this thread does not visit all flows before another one begins.
        for _ in 0..1_000 {
            if !self.elsewhere.load(Relaxed) {
                thread::yield_now();
            }
        }
    }

    fn on_congestion(&mut self, _: &Congestion, _: &mut Control) {}
}

#[test]
#[should_panic(expected = "away from home")]
fn a_panic_keeps_its_message_on_whichever_thread_it_happens() {
    let flows: Vec<_> = (0..16).map(|_| flow("homely", 20 * MS, 0, S)).collect();
    let spec = serde_json::from_value(spec(S, &[link(100_000_000, &json!({"packets": 1000}))], &flows)).unwrap();
    let homely = Homely { home: thread::current().id(), elsewhere: Arc::default() };
    let make = move |_: &_, _: &_, _: usize| Box::new(homely.clone()) as Box<dyn DynCongestionControl>;
    let own = Own { name: "homely".into(), entry: &ENTRY, make: OwnMake::Algorithm(Arc::new(make)) };
    let mut simulation = Simulation::with_own(&spec, &[own]).unwrap();
    assert_eq!(simulation.threads_for(2, 1), 2);
    simulation.run().unwrap();
}
