//! Bursts after idle time: what a congestion control knows of a path must not make it slower than knowing nothing.

use crate::networks::{MS, S, flow, link, spec};
use knee_core::packet::MSS;
use knee_core::{ConnectionId, Packet, Payload, Time};
use knee_sim::{Simulation, Tap};
use knee_tcp::sender::AckInfo;
use proptest::prelude::*;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// A path, and the bursts that one flow sends over it.
#[derive(Clone, Debug)]
struct Path {
    rate: u64,
    rtt: u64,
    /// Sizes of the buffer and of a burst, in units of what is in flight on the path.
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

    fn burst_bytes(&self) -> u64 {
        (self.burst * self.product()) as u64
    }

    fn simulation(&self, cc: &str, transport: &str) -> Simulation {
        let mut flow = flow(cc, self.rtt, 0, 0);
        flow["transport"] = json!(transport);
        flow["cc_params"] = self.params(cc);
        flow["traffic"] = json!({
            "kind": "bursts", "period": self.idle, "burst": self.burst_bytes(), "waits": true
        });
        let drain = self.burst * self.product() * 8.0 / self.rate as f64;
        // Whatever takes ten times as long at each burst is slow enough to be seen.
        let duration =
            (BURSTS as f64 * (10.0 * drain + 10.0 * self.rtt as f64 / 1e9 + self.idle as f64 / 1e9)).min(300.0);
        let duration = (duration * 1e9) as u64;
        flow["stop"] = json!(duration);
        let link = link(self.rate, &json!({"bytes": (self.buffer * self.product()) as u64}));
        let spec = serde_json::from_value::<knee_sim::Spec>(spec(duration, &[link], &[flow])).unwrap();
        Simulation::new(&spec).unwrap()
    }

    /// Parameters that the path needs. LoLa takes an RTT that is `q_low` above the least for a standing queue. An ACK
    /// of two packets sends two at once, and the second waits for the first: below 12 Mbit/s longer than the paper's
    /// 1 ms.
    fn params(&self, cc: &str) -> serde_json::Value {
        if cc != "lola" {
            return json!({});
        }
        let q_low = MS.max(2 * 1514 * 8 * S / self.rate);
        json!({"q_low": {"time": q_low}, "q_target": {"time": 5 * q_low}})
    }

    /// How long each burst took, s.
    fn times(&self, cc: &str, transport: &str) -> Vec<f64> {
        let (_, rows) = self.simulation(cc, transport).run().unwrap();
        rows.completions.iter().take(BURSTS).map(|burst| burst.t_s - burst.started_s).collect()
    }

    /// The time of the slowest burst where each follows 1 ms after the one before, s.
    fn without_idle_time(&self, cc: &str, transport: &str) -> f64 {
        Self { idle: MS, ..self.clone() }.times(cc, transport).into_iter().fold(0.0, f64::max)
    }

    /// Numbers, from 0, of the bursts of which the last segment was dropped.
    fn without_last_segment(&self, cc: &str, transport: &str) -> Vec<u64> {
        let mut simulation = self.simulation(cc, transport);
        let dropped = Arc::new(Mutex::new(Vec::new()));
        simulation.tap(Box::new(Drops(Arc::clone(&dropped))));
        simulation.run().unwrap();
        let segments = self.burst_bytes().div_ceil(MSS.into());
        let dropped = dropped.lock().unwrap();
        dropped.iter().filter(|seq| (*seq + 1) % segments == 0).map(|seq| seq / segments).collect()
    }
}

/// Numbers of the segments that were dropped.
struct Drops(Arc<Mutex<Vec<u64>>>);

impl Tap for Drops {
    fn sent(&mut self, _: Time, _: ConnectionId, _: &Packet) {}

    fn received(&mut self, _: Time, _: ConnectionId, _: &Packet, _: Option<&AckInfo>) {}

    fn dropped(&mut self, _: Time, _: ConnectionId, packet: &Packet) {
        if let Payload::Data { seq, .. } = packet.payload {
            self.0.lock().unwrap().push(seq.near(0));
        }
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

/// How much longer a later burst may take than the slowest of: the flow's first burst, CUBIC's first, and the flow's
/// bursts without idle time. C4 keeps two packets where the path holds three, and TIMELY, made for data centres, falls
/// to its least rate where the RTT is above `t_high`, with idle time and without. The first bursts begin with slow
/// start from ten packets, so that three quarters of the window (the threshold of RFC 2861) take at most a third
/// longer; the rest is what a loss or a backoff in the burst may cost.
///
/// A burst is left out where the last segment of the one before was dropped. A probe repairs that, but the sender takes
/// it for a loss only when an ACK goes beyond the probe (RFC 8985, 7.4.2; Linux's `tcp_process_tlp_ack`): the first one
/// of the next burst. By then idle time has left ten packets, and the threshold becomes a share of that.
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
        let slow = |known: f64| {
            let slow = move |(_, time): &(usize, &f64)| **time - TIMEOUT > bound * known;
            later.iter().enumerate().filter(slow).map(|(before, _)| before as u64).collect::<Vec<_>>()
        };
        let mut known = first.max(least);
        if slow(known).is_empty() {
            continue;
        }
        known = known.max(path.without_idle_time(entry.name, transport));
        let mut late = slow(known);
        if !late.is_empty() {
            let repaired = path.without_last_segment(entry.name, transport);
            late.retain(|before| !repaired.contains(before));
        }
        if !late.is_empty() {
            let worst = later.iter().copied().fold(0.0, f64::max) / known;
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

/// CUBIC's seventh burst takes a probe more, and the eighth begins with congestion avoidance from seven packets.
#[test]
fn the_loss_of_a_last_segment_costs_the_next_burst() {
    let (rate, rtt) = (7_555_898, 149_587_037);
    let path = Path { rate, rtt, buffer: 2.802_800_835_456_847_7, burst: 21.808_535_400_570_175, idle: 4_615_674_878 };
    let times = path.times("cubic", "tcp");
    assert_eq!(path.without_last_segment("cubic", "tcp").first(), Some(&6));
    assert!(times[7] > 2.0 * times[5] && times[..6].iter().all(|time| *time < times[6]), "{times:.2?}");
}
