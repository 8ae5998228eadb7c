//! Counts on how many of 200 random networks the simulator's QUIC endpoints do what a stack's do.
//!
//! ```console
//! $ cargo run --release -p knee-sim --example quic_beside -- ['{"pacing": false}']
//! $ cargo run --release -p knee-sim --features stacks --example quic_beside -- '{}' noq:reno
//! ```
//!
//! The arguments are a table `quic` of a specification, and a controller of a stack, by default knee's Reno in quinn.
//! Those networks that do not agree are printed.

#![allow(clippy::unwrap_used, reason = "a failure here is a fault of the program")]

#[path = "../tests/beside.rs"]
mod beside;

use beside::{Apart, Network, Pair, apart, transfer, without_loss};
use knee_core::Rng;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn main() {
    let (mut arguments, mut pair) = (std::env::args().skip(1), Pair::default());
    if let Some(quic) = arguments.next() {
        pair.quic = serde_json::from_str(&quic).unwrap();
    }
    pair.stack = arguments.next().unwrap_or(pair.stack);
    let mut rng = Rng::stream(3, "beside");
    let mut draw = |count: usize, losses: &[f64]| -> Vec<Network> {
        (0..count).map(|i| Network::random(&mut rng, losses[i % losses.len()])).collect()
    };
    let (free, lossy) = (draw(200, &[0.0]), draw(30, &[0.01, 0.05, 0.1]));
    let sizes: Vec<_> =
        free[..60].iter().flat_map(|network| [1, 100_000, 10_000_000].map(|bytes| (*network, bytes))).collect();
    tell("no loss", &free, |network| without_loss(network, &pair));
    tell("loss", &lossy, |network| with_loss(network, &pair));
    tell("transfers", &sizes, |(network, bytes)| transfer(network, *bytes, &pair));
}

/// What differs by more than 3 % in the means of twenty seeds, with loss by chance.
fn with_loss(network: &Network, pair: &Pair) -> Option<Apart> {
    let mut sums = [[0.0; 2]; 2];
    for seed in 1..=20 {
        for (sum, in_stack) in sums.iter_mut().zip([false, true]) {
            let figures = network.run(in_stack, None, network.seconds(), seed, pair);
            *sum = [sum[0] + figures.goodput_mbps, sum[1] + figures.rtt_ms];
        }
    }
    apart([("goodput", sums[0][0] / sums[1][0]), ("RTT", sums[0][1] / sums[1][1])], 0.03)
}

/// Judges all cases on as many threads as there are processors, and prints those that are apart.
fn tell<T: Sync + Debug>(name: &str, cases: &[T], judge: impl Fn(&T) -> Option<Apart> + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.extend(judge(case).map(|apart| format!("  {case:?}:{apart}")));
        }
        found
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut apart: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    apart.sort();
    println!("{name}: {} of {} agree", cases.len() - apart.len(), cases.len());
    for line in apart {
        println!("{line}");
    }
}
