//! Cost of a controller for each ACK, in ns: quinn's own CUBIC, and knee's algorithms behind the adapter, in turn.
//!
//! ```text
//! cargo run --release -p knee-quinn --example adapter_cost -- cubic reno lola bbr
//! ```
//!
//! Each ACK acknowledges two packets, and two leave. One ACK in 5000 shows a loss. The cost includes the algorithm
//! itself. The medians of all turns are printed.

use knee_core::Time;
use knee_quinn::proto::RttEstimator;
use knee_quinn::proto::congestion::{Controller, ControllerFactory, CubicConfig};
use knee_quinn::{Control, Peer, Quinn, Settings};
use std::any::Any;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MTU: u16 = 1452;
const ACKS: u64 = 200_000;
const TURNS: usize = 15;
/// Packets in flight.
const FLIGHT: u64 = 100;
/// Between two ACKs.
const GAP: Duration = Duration::from_micros(400);

/// Wall time of `ACKS` ACKs, ns for each.
fn measure(factory: &Arc<dyn ControllerFactory + Send + Sync>, base: Instant, rtt: &RttEstimator) -> f64 {
    let mut controller = factory.clone().build(base, MTU);
    let mut now = base + Duration::from_secs(1);
    let mut flight: VecDeque<Instant> = VecDeque::new();
    for number in 0..FLIGHT {
        controller.on_sent(now, MTU.into(), number);
        flight.push_back(now);
        now += GAP / 2;
    }
    #[allow(clippy::disallowed_methods, reason = "this is no simulation")]
    let begin = Instant::now();
    for ack in 0..ACKS {
        now += GAP;
        let newest = FLIGHT + 2 * ack;
        let lost = ack % 5000 == 4999;
        for _ in 0..2 {
            let Some(sent) = flight.pop_front() else { break };
            if lost {
                controller.on_congestion_event(now, sent, false, MTU.into());
            } else {
                controller.on_ack(now, sent, MTU.into(), false, rtt);
            }
        }
        controller.on_end_acks(now, (FLIGHT - 2) * u64::from(MTU), false, Some(newest));
        for number in 0..2 {
            controller.on_sent(now, MTU.into(), newest + number);
            flight.push_back(now);
        }
        std::hint::black_box(controller.window());
    }
    begin.elapsed().as_nanos() as f64 / ACKS as f64
}

/// Controllers by name, and what each turn measured.
type Cases = Vec<(String, Arc<dyn ControllerFactory + Send + Sync>, Vec<f64>)>;

/// Measures with its first ACK: quinn lends its estimator of the RTT to controllers alone.
#[derive(Clone)]
struct Bench(Arc<Mutex<Cases>>);

impl ControllerFactory for Bench {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new((*self).clone())
    }
}

impl Controller for Bench {
    fn on_ack(&mut self, now: Instant, _: Instant, _: u64, _: bool, rtt: &RttEstimator) {
        let Ok(mut cases) = self.0.lock() else { return };
        if cases.iter().any(|(.., turns)| !turns.is_empty()) {
            return;
        }
        for _ in 0..TURNS {
            for (_, factory, turns) in cases.iter_mut() {
                turns.push(measure(factory, now, rtt));
            }
        }
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        10 * u64::from(MTU)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let names = if names.is_empty() { vec!["cubic".into()] } else { names };
    let mut cases: Cases = vec![("quinn:cubic".into(), Arc::new(CubicConfig::default()), Vec::new())];
    for name in names {
        let control = Arc::new(Control::named(&name)?);
        cases.push((name, control, Vec::new()));
    }
    let cases = Arc::new(Mutex::new(cases));

    // A connection of which the first ACK is enough.
    let settings = |seed| Settings { receive_window: 1 << 20, seed, ..Settings::default() };
    let bench = Quinn(Arc::new(Bench(cases.clone())));
    let mut client = Peer::connect(&bench, Some(1), &settings(1), Time::ZERO);
    let mut server = Peer::receiver(&bench, &settings(2));
    for ms in 0..100 {
        let now = Time::from_millis(ms);
        while let Some(datagram) = client.transmit(now) {
            server.receive(now, datagram);
        }
        while let Some(datagram) = server.transmit(now) {
            client.receive(now, datagram);
        }
    }

    let mut cases = cases.lock().map_err(|error| error.to_string())?;
    let mut medians = Vec::new();
    for (name, _, turns) in cases.iter_mut() {
        turns.sort_by(f64::total_cmp);
        let median = turns.get(turns.len() / 2).copied().ok_or("the connection acknowledged nothing")?;
        medians.push((name.clone(), median));
    }
    let quinns = medians[0].1;
    for (name, median) in medians {
        println!("{name:12} {median:6.1} ns per ACK, {:+6.1} ns to quinn's CUBIC", median - quinns);
    }
    Ok(())
}
