//! Claims of papers and drafts that need a network: a real bottleneck, real loss recovery, real competitors.

mod bbr;
mod bbr3;
mod compound;
mod copa;
mod daimd;
mod dumbbell;
mod fast;
mod ledbat;
mod lola;
mod lola_wild;
mod reno;
mod timely;
mod vegas;
mod vivace;

use crate::networks::{MS, S, flow, link, spec};
use knee_sim::{Output, Simulation};
use serde_json::json;

/// Flows of `ccs` on 100 Mbit/s with a base RTT of 20 ms, one bandwidth-delay product of buffer (165 packets) and
/// random loss; figures from 20 s on.
fn at_one_bdp(ccs: &[&str], loss: f64, seconds: u64) -> Output {
    let mut link = link(100_000_000, &json!({"packets": 165}));
    link["loss"] = json!(loss);
    let flows: Vec<_> = ccs.iter().zip(0..).map(|(cc, i)| flow(cc, 20 * MS, i * S, seconds * S)).collect();
    let mut spec = spec(seconds * S, &[link], &flows);
    spec["warmup"] = json!(20 * S);
    Simulation::new(&serde_json::from_value(spec).unwrap()).unwrap().run().unwrap().0
}
