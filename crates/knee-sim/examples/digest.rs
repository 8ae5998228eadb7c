//! Digests of what runs give, to compare two states of the engine bit by bit:
//! `cargo run --release -p knee-sim --example digest -- [--threads N] [--random N]
//! [spec.json ...]`
//!
//! Prints a line for each specification: the digest of its figures and rows, and its name. `--random N` adds N networks
//! made up at random, the same ones every time, with everything in them that a scenario can ask for.

use knee_core::Rng;
use knee_sim::{Simulation, Spec};
use serde_json::{Value, json};
use std::error::Error;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// FNV-1a.
fn digest(parts: &[&[u8]]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn run(name: &str, spec: &Spec, threads: usize) -> Result<(), Box<dyn Error>> {
    let mut simulation = Simulation::new(spec)?;
    simulation.threads(threads);
    let (output, rows) = simulation.run()?;
    let text = serde_json::to_string(&output)?;
    let parts = [
        text.as_bytes(),
        bytemuck::cast_slice(&rows.samples),
        bytemuck::cast_slice(&rows.links),
        bytemuck::cast_slice(&rows.events),
        bytemuck::cast_slice(&rows.completions),
    ];
    println!("{:016x}  {name}  {} packets", digest(&parts), output.packets);
    Ok(())
}

/// One of `choices`.
fn one<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.below(choices.len() as u64) as usize]
}

/// A number from `from` to `until`.
fn between(rng: &mut Rng, from: u64, until: u64) -> u64 {
    from + rng.below(until - from + 1)
}

fn limit(rng: &mut Rng) -> Value {
    match rng.below(4) {
        0 => Value::Null,
        1 => json!({"bytes": between(rng, 3000, 500_000)}),
        2 => json!({"time": between(rng, MS, 80 * MS)}),
        _ => json!({"packets": between(rng, 1, 300)}),
    }
}

fn queue(rng: &mut Rng) -> &'static str {
    // The simplest one as often as all others together.
    if rng.chance(0.5) { "pfifo" } else { one(rng, knee_queue::registry()).name }
}

fn link(rng: &mut Rng, i: usize, round: bool) -> Value {
    let rate = if round { 1514 * 8 * 1_000_000 / between(rng, 60, 2000) } else { between(rng, 1_000_000, 200_000_000) };
    let traced = rng.chance(0.08);
    let capacity = if traced { json!({"trace": [0, 0, 1, 5, 5, 7, 12, 30]}) } else { json!({"rate": rate}) };
    let delay = if rng.chance(0.5) { between(rng, 0, 2 * MS) } else { 0 };
    let jitter = if rng.chance(0.1) { between(rng, 1, 5 * MS) } else { 0 };
    let reverse = if rng.chance(0.15) {
        json!({"capacity": {"rate": between(rng, 500_000, 20_000_000)}, "queue": queue(rng), "limit": {"packets": 50}})
    } else {
        Value::Null
    };
    let name = queue(rng);
    let held_back = name == "fq" && rng.chance(0.5);
    json!({
        "name": format!("link {i}"), "capacity": capacity, "queue": name, "limit": limit(rng),
        "queue_params": if held_back { json!({"flow_max_rate": {"rate": rate / 3}}) } else { json!({}) },
        "overhead": *one(rng, &[0, 14, 38]), "loss": if rng.chance(0.3) { rng.unit() * 0.03 } else { 0.0 },
        "delay": delay, "jitter": jitter, "reorder": rng.chance(0.5),
        "burst": if rng.chance(0.1) { json!(between(rng, 1600, 20_000)) } else { Value::Null }, "reverse": reverse,
    })
}

fn flow(rng: &mut Rng, i: usize, links: &[Value], round: bool) -> Value {
    let to = between(rng, 1, links.len() as u64) as usize;
    let from = rng.below(to as u64) as usize;
    let path: Vec<usize> = if rng.chance(0.1) { (from..to).rev().collect() } else { (from..to).collect() };
    let rounded = |time: u64| if round { time / (10 * MS) * (10 * MS) } else { time };
    let start = rounded(between(rng, 0, S));
    let reversible = path.iter().all(|&l| !links[l]["reverse"].is_null());
    json!({
        "label": format!("flow {i}"), "cc": one(rng, knee_cc::registry()).name,
        "rtt": rounded(between(rng, 10 * MS, 90 * MS)).max(10 * MS), "start": start,
        "stop": if rng.chance(0.2) { between(rng, start + MS, 3 * S) } else { 3 * S },
        "bytes": if rng.chance(0.2) { json!(between(rng, 1, 600_000)) } else { Value::Null },
        "path": path, "reverse": reversible && rng.chance(0.5), "pacing": rng.chance(0.2), "ecn": if rng.chance(0.3) { "on" } else { "off" },
    })
}

/// A network of some links and flows.
fn random(seed: u64) -> Value {
    let rng = &mut Rng::stream(seed, "digest");
    let round = rng.chance(0.4);
    let links: Vec<Value> = (0..*one(rng, &[1, 1, 1, 2, 3, 4])).map(|i| link(rng, i, round)).collect();
    let flows: Vec<Value> = (0..between(rng, 1, 12) as usize).map(|i| flow(rng, i, &links, round)).collect();
    let mut changes = Vec::new();
    if rng.chance(0.5) {
        let of = rng.below(links.len() as u64);
        let rtt = between(rng, 12 * MS, 90 * MS);
        changes = vec![
            json!({"at": S + S / 4, "what": {"rtt": {"flow": 0, "rtt": rtt}}}),
            json!({"at": S + S / 2, "what": {"limit": {"link": of, "limit": {"packets": 3}}}}),
            json!({"at": 2 * S, "what": {"loss": {"link": of, "loss": rng.unit() * 0.05}}}),
        ];
        if links[of as usize]["capacity"]["rate"].is_number() {
            changes
                .push(json!({"at": S, "what": {"rate": {"link": of, "rate": between(rng, 1_000_000, 100_000_000)}}}));
        }
    }
    json!({
        "duration": 3 * S, "seed": seed, "warmup": *one(rng, &[0, S / 2]), "interval": 100 * MS,
        "links": links, "flows": flows, "changes": changes,
        "tcp": {
            "sack_delay": *one(rng, &[0, MS]), "delayed_ack": *one(rng, &[40 * MS, MS]), "tso": rng.chance(0.8),
            "tick": *one(rng, &[4 * MS, 0, 10 * MS])
        },
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut threads = 1;
    while let Some(arg) = args.next() {
        if arg == "--threads" {
            threads = args.next().ok_or("--threads takes a number")?.parse()?;
        } else if arg == "--random" {
            let count: u64 = args.next().ok_or("--random takes a number")?.parse()?;
            for seed in 0..count {
                run(&format!("random {seed}"), &serde_json::from_value(random(seed))?, threads)?;
            }
        } else {
            let name = std::path::Path::new(&arg).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            run(&name, &serde_json::from_str(&std::fs::read_to_string(&arg)?)?, threads)?;
        }
    }
    Ok(())
}
