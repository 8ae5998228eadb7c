//! Bursts after idle time: what a congestion control knows of a path must not make it slower than knowing nothing.

use crate::networks::{MS, S, flow, link, spec};
use knee_sim::Simulation;
use proptest::prelude::*;
use serde_json::json;

/// A path, and the bursts that one flow sends over it.
#[derive(Clone, Debug)]
struct Path {
    rate: u64,
    rtt: u64,
    /// What the buffer holds, and a burst brings, as what is in flight on the path.
    buffer: f64,
    burst: f64,
    /// From the last acknowledgement of a burst to the next one, ns.
    idle: u64,
}

const BURSTS: usize = 8;

impl Path {
    /// Bytes in flight that fill the link, at least 20 packets.
    fn product(&self) -> f64 {
        (self.rate as f64 * self.rtt as f64 / 8e9).max(30_000.0)
    }

    /// How long each burst took, s.
    fn times(&self, cc: &str, transport: &str) -> Vec<f64> {
        let burst = self.burst * self.product();
        let mut flow = flow(cc, self.rtt, 0, 0);
        flow["transport"] = json!(transport);
        flow["traffic"] = json!({
            "kind": "bursts", "period": self.idle, "burst": burst as u64, "waits": true
        });
        let drain = burst * 8.0 / self.rate as f64;
        // Whatever takes ten times as long at each burst is slow enough to be seen.
        let duration =
            (BURSTS as f64 * (10.0 * drain + 10.0 * self.rtt as f64 / 1e9 + self.idle as f64 / 1e9)).min(300.0);
        let duration = (duration * 1e9) as u64;
        flow["stop"] = json!(duration);
        let link = link(self.rate, &json!({"bytes": (self.buffer * self.product()) as u64}));
        let spec = serde_json::from_value::<knee_sim::Spec>(spec(duration, &[link], &[flow])).unwrap();
        let (_, rows) = Simulation::new(&spec).unwrap().run().unwrap();
        rows.completions.iter().take(BURSTS).map(|burst| burst.t_s - burst.started_s).collect()
    }

    /// How long a burst takes at the rate of a flow that is never idle, s.
    fn without_idle_time(&self, cc: &str, transport: &str) -> f64 {
        let burst = self.burst * self.product();
        let duration = (10e9 * burst * 8.0 / self.rate as f64) as u64 + 100 * self.rtt;
        let mut flow = flow(cc, self.rtt, 0, duration);
        flow["transport"] = json!(transport);
        let link = link(self.rate, &json!({"bytes": (self.buffer * self.product()) as u64}));
        let spec = serde_json::from_value::<knee_sim::Spec>(spec(duration, &[link], &[flow])).unwrap();
        let (output, _) = Simulation::new(&spec).unwrap().run().unwrap();
        burst / (output.flows[0].delivered_bytes as f64 / (duration as f64 / 1e9))
    }
}

prop_compose! {
    fn any_path()(
        // Evenly over the orders of magnitude: 3 to 100 Mbit/s, 5 to 150 ms, 0.3 to 10 s.
        (rate, rtt, idle) in (0.5..2.0, 0.7..2.2, -0.5..1.0),
        buffer in 1.0..3.0,
        burst in 4.0..30.0,
    ) -> Path {
        let ns = |exponent: f64, unit: u64| (libm::exp10(exponent) * unit as f64) as u64;
        Path { rate: ns(rate, 1_000_000), rtt: ns(rtt, MS), buffer, burst, idle: ns(idle, S) }
    }
}

/// How much longer a later burst may take than the slowest of the flow's first burst, CUBIC's, and one at the rate that
/// the flow has without idle time: C4 keeps two packets where the path holds three, and TIMELY, made for data centres,
/// its least rate where the RTT is above `t_high`. The first bursts begin with slow start from ten packets, so that
/// three quarters of the window (the threshold of RFC 2861) take at most a third longer; the rest is what a loss or a
/// backoff in the burst may cost.
const BOUND: f64 = 1.5;
/// How much a timeout adds where the last packets of a burst are lost, s: the least RTO.
const TIMEOUT: f64 = 0.2;

/// Algorithms of which a later burst may take longer still, whatever idle time does: their first burst is fast because
/// it ends before the window is reduced.
const SLOWER: [(&str, f64); 3] = [
    // A loss in slow start leaves what its low-pass filter estimates, which has not caught up by then, and RFC 5681's
    // increase from there.
    ("westwood", 5.0),
    // Its backoffs are drawn at random, in slow start too.
    ("cdg", 6.0),
    // It does not pace, and slow start's own bursts queue for longer than tau0, 20 ms, on a long path: the delay
    // backoff ends slow start at a fifth of what the path holds, and the first burst is ahead of it. At 75 Mbit/s and
    // 157 ms it takes 4.7 and 6.7 s; with pacing 3.8 and 3.1.
    ("daimd", 3.0),
];

fn holds(path: &Path, transport: &str) {
    let least = path.times("cubic", transport)[0];
    let mut failed = Vec::new();
    for entry in knee_cc::registry() {
        let bound = SLOWER.iter().find(|(name, _)| *name == entry.name).map_or(BOUND, |(_, bound)| *bound);
        let times = path.times(entry.name, transport);
        // What does not get through its first burst in the time has not known the path yet.
        let Some((first, later)) = times.split_first() else { continue };
        let worst = later.iter().copied().fold(0.0, f64::max) - TIMEOUT;
        let known = first.max(least);
        if worst > bound * known && worst > bound * known.max(path.without_idle_time(entry.name, transport)) {
            let worst = worst / known;
            failed.push(format!("{}: {worst:.2}, bursts of {times:.2?} s, CUBIC's first {least:.2}", entry.name));
        }
    }
    assert!(failed.is_empty(), "{path:?} over {transport}:\n{}", failed.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn a_burst_after_idle_time_takes_hardly_longer_than_the_first(path in any_path()) {
        holds(&path, "tcp");
    }
}
