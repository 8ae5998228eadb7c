//! A kind of traffic that this program adds to the registry: uploads of drawn sizes at equal times.

use crate::networks::{MS, S, flow, link, spec};
use knee_core::{Bytes, Rng, Time, params};
use knee_sim::simulation::Obstacle;
use knee_sim::{Output, Rows, Simulation};
use knee_traffic::spec::Size;
use knee_traffic::{Application, Completion, Conn, Entry, Exchange, Form, Make, Net, Table, What};
use serde_json::{Value, json};
use std::collections::BTreeMap;

static UPLOADS: Entry = Entry {
    name: "uploads",
    about: "uploads of drawn sizes at equal times, each over a connection of its own",
    source: "this test",
    params: Settings::DECLARED,
    tables: &[Table { name: "sizes", form: Form::Size, about: "sizes of uploads" }],
    required: &["period", "sizes"],
    pulls: false,
    echoes: false,
    sockets: true,
    independent: |_| true,
    check: |_| Ok(()),
    load: |_| None,
    make: Make::Application(|given, rng| {
        let (settings, sizes) = ((&given.params).into(), given.table::<Size>("sizes").clone());
        Box::new(Uploads { settings, sizes, rng, running: BTreeMap::new(), stopped: false })
    }),
};
/// `UPLOADS` without the promise that its connections are independent.
static CAUTIOUS: Entry = Entry { name: "cautious", independent: |_| false, ..UPLOADS };

params! {
    /// The parameters.
    struct Settings {
        /// time between two uploads
        period: Time = Time::from_millis(10), in Time::from_nanos(1)..=Time::from_secs(1), from "this test";
        /// greatest upload
        most: Bytes = Bytes(1_000_000), in Bytes(1)..=Bytes(1_000_000_000), from "this test";
    }
}

#[derive(Clone)]
struct Uploads {
    settings: Settings,
    sizes: Size,
    rng: Rng,
    running: BTreeMap<Conn, (Time, u64)>,
    stopped: bool,
}

impl Application for Uploads {
    fn start(&mut self, net: &mut dyn Net) {
        self.on_wake(net);
    }

    fn on_connected(&mut self, _: Conn, _: &mut dyn Net) {}

    fn on_complete(&mut self, conn: Conn, _: u64, net: &mut dyn Net) {
        let (started, bytes) = self.running.remove(&conn).unwrap();
        net.record(Completion::new(What::Transfer, started, net.now(), bytes, f64::NAN));
        net.close(conn);
    }

    fn on_wake(&mut self, net: &mut dyn Net) {
        if self.stopped {
            return;
        }
        let (conn, up) = (net.open(), self.sizes.draw(&mut self.rng).min(self.settings.most.0));
        self.running.insert(conn, (net.now(), up));
        net.exchange(conn, Exchange::of(up));
        net.wake(net.now() + self.settings.period);
    }

    fn stop(&mut self, _: &mut dyn Net) {
        self.stopped = true;
    }
}

fn simulation(traffic: &Value) -> Result<Simulation, String> {
    let mut flows = [flow("cubic", 20 * MS, 0, 2 * S), flow("reno", 30 * MS, 0, 2 * S)];
    flows[0]["traffic"] = traffic.clone();
    flows[1]["traffic"] = json!({"kind": "transfers", "arrivals": {"periodic": 50.0}, "size": {"fixed": 20_000}});
    let spec = spec(4 * S, &[link(50_000_000, &json!({"packets": 1000}))], &flows);
    Simulation::new(&serde_json::from_value(spec).unwrap()).map_err(|error| error.to_string())
}

fn run(traffic: &Value) -> (Output, Rows) {
    simulation(traffic).unwrap().run().unwrap()
}

/// With parameters and tables, in batches where its entry says that its connections are independent, and with the same
/// results event by event.
#[test]
fn a_kind_of_a_program_of_ones_own_runs_without_a_change_elsewhere() {
    knee_traffic::add(&UPLOADS).unwrap();
    knee_traffic::add(&CAUTIOUS).unwrap();
    let uploads = |kind: &str| json!({"kind": kind, "period": 50 * MS, "sizes": {"pareto": [1_000.0, 1.2, 100_000]}});
    let obstacle = |kind: &str| simulation(&uploads(kind)).unwrap().obstacle();
    assert_eq!(obstacle("uploads"), None);
    assert_eq!(obstacle("cautious"), Some(Obstacle::DependentConnections));
    let [(output, rows), (events, event_rows)] = ["uploads", "cautious"].map(|kind| run(&uploads(kind)));
    assert_eq!(serde_json::to_string(&output).unwrap(), serde_json::to_string(&events).unwrap());
    assert_eq!(bytes(&rows), bytes(&event_rows));
    // One each 50 ms of 2 s, at 0 and not at the stop.
    let own: Vec<u64> = rows.completions.iter().filter(|c| c.flow == 0).map(|c| c.bytes).collect();
    assert_eq!((own.len(), own.iter().sum()), (40, output.flows[0].delivered_bytes));
    assert!(own.iter().all(|bytes| (1_000..=100_000).contains(bytes)));

    let mut small = uploads("uploads");
    small["most"] = json!(2_000);
    assert!(run(&small).1.completions.iter().filter(|c| c.flow == 0).all(|c| c.bytes <= 2_000));
    small["period"] = Value::Null;
    assert_eq!(simulation(&small).err().unwrap(), "flow `cubic`: uploads: `period` is missing");
}

fn bytes(rows: &Rows) -> (&[u8], &[u8], &[u8]) {
    (bytemuck::cast_slice(&rows.samples), bytemuck::cast_slice(&rows.links), bytemuck::cast_slice(&rows.completions))
}
