//! Both ends over the loopback device, as real sockets.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

use knee_core::{Rng, Time};
use knee_endpoint::record::EndRecord;
use knee_endpoint::task::Task;
use knee_endpoint::{client, poller, server};
use knee_traffic::{Application, Completion, Conn, Exchange, Net, TrafficSpec, What, application};
use nix::sys::stat::Mode;
use serde_json::{Value, json};
use std::path::Path;
use std::thread;

/// Exchanges that it does one after the other on a connection each, and on one connection at once.
#[derive(Clone)]
struct Script {
    together: Conn,
    sizes: Vec<(u64, u64)>,
    left: usize,
}

const SERVICE: Time = Time::from_millis(20);

impl Application for Script {
    fn start(&mut self, net: &mut dyn Net) {
        self.together = net.open();
        for &(up, down) in &self.sizes {
            net.exchange(self.together, Exchange { down, service: SERVICE, ..Exchange::of(up) });
        }
        net.close(self.together);
        self.on_wake(net);
    }

    fn on_connected(&mut self, conn: Conn, net: &mut dyn Net) {
        let what = What::Connect as u32;
        let row = Completion {
            t_s: net.now().as_secs_f64(),
            started_s: 0.0,
            value: f64::from(conn.0),
            bytes: 0,
            flow: 0,
            what,
        };
        net.record(row);
    }

    fn on_complete(&mut self, conn: Conn, _: u64, net: &mut dyn Net) {
        let what = if conn == self.together { What::Request } else { What::Transfer } as u32;
        let row = Completion {
            t_s: net.now().as_secs_f64(),
            started_s: 0.0,
            value: f64::from(conn.0),
            bytes: 0,
            flow: 0,
            what,
        };
        net.record(row);
        if conn != self.together {
            net.wake(net.now() + Time::from_millis(1));
        }
    }

    fn on_wake(&mut self, net: &mut dyn Net) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let conn = net.open();
        net.exchange(conn, Exchange::of(self.sizes[self.left].0));
        net.close(conn);
    }

    fn stop(&mut self, _net: &mut dyn Net) {}
}

fn task(role: &str, control: &Path, port: u16, traffic: &Value) -> Task {
    let told = json!({
        "role": role, "flow": 3, "traffic": traffic, "seed": 1, "control": control, "address": "127.0.0.1", "port": port,
        "cc": "reno", "start": 10_000_000, "stop": 1_500_000_000, "duration": 1_500_000_000, "interval": 100_000_000,
        "marks": [50_000_000],
    });
    serde_json::from_value(told).expect("a task")
}

/// Runs `application` and the other end of its connections; gives what each has seen.
fn run(name: &str, traffic: &Value, application: &mut dyn Application) -> (EndRecord, EndRecord) {
    let folder = std::env::temp_dir().join(format!("knee-endpoint-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let control = folder.join("control");
    nix::unistd::mkfifo(&control, Mode::S_IRWXU).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (here, there) = (task("client", &control, port, traffic), task("server", &control, port, traffic));
    let listening = server::Server::new(&there).unwrap();
    let start = poller::monotonic_ns().unwrap();
    let serving = thread::spawn(move || server::run(listening, &there, start).unwrap());
    let seen = client::run(client::Sockets::new(&here).unwrap(), application, &here, start).unwrap();
    let served = serving.join().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    (seen, served)
}

fn limited() -> Value {
    json!({ "kind": "app_limited", "rate": 1 })
}

/// Messages of any size, a byte and what no buffer holds; those of one connection complete in their order, an answer
/// comes after the service time, and the other end counts every byte once.
#[test]
fn exchanges_of_any_size_complete_in_order() {
    let sizes = vec![(1, 0), (20_000_000, 0), (1, 3_000_000), (5, 1), (100_000, 0)];
    let mut script = Script { together: Conn(0), left: sizes.len(), sizes: sizes.clone() };
    let (seen, served) = run("script", &limited(), &mut script);

    let count = |what: What| seen.completions.iter().filter(|row| row.what == what as u32).count();
    assert_eq!((count(What::Request), count(What::Transfer), count(What::Connect)), (5, 5, 6));
    assert!(seen.completions.iter().all(|row| row.flow == 3 && row.t_s > 0.01));
    assert!(seen.completions.is_sorted_by_key(|row| row.t_s));
    let together: Vec<_> = seen.completions.iter().filter(|row| row.what == What::Request as u32).collect();
    // Started at 10 ms; the third has an answer, after the service time.
    assert!(together[2].t_s >= 0.03);
    let all: u64 = sizes.iter().map(|&(up, _)| 2 * up).sum();
    assert_eq!(served.progress.last().unwrap().bytes, all);
    let answers: u64 = sizes.iter().map(|&(_, down)| down).sum();
    assert_eq!(seen.progress.last().unwrap().bytes, answers);
    assert_eq!(seen.progress.len(), 16, "every 100 ms, and at the mark");
}

/// 100 kB each 250 ms from 10 ms on, six times until 1.5 s: on time, on one connection, and each acknowledged.
#[test]
fn a_kind_that_declares_its_parameters_runs_over_sockets() {
    let traffic = json!({ "kind": "bursts", "period": 250_000_000, "burst": 100_000 });
    let spec: TrafficSpec = serde_json::from_value(traffic.clone()).unwrap();
    spec.check().unwrap();
    let mut bursts = application(&spec, Rng::stream(1, "bursts")).unwrap();
    let (seen, served) = run("bursts", &traffic, &mut *bursts);
    let whole = |row: &Completion| (row.what, row.bytes) == (What::Transfer as u32, 100_000) && row.t_s > row.started_s;
    assert!(seen.completions.len() == 6 && seen.completions.iter().all(whole), "{:?}", seen.completions);
    for (k, row) in seen.completions.iter().enumerate() {
        assert!(row.started_s >= 0.01 + 0.25 * k as f64, "{row:?}");
    }
    assert_eq!(served.progress.last().unwrap().bytes, 600_000);
}
