//! The simulator's QUIC endpoints beside quinn's, under the same Reno, on random networks: what differs is the
//! endpoint's. quinn's own Reno counts bytes where Linux's counts packets, so it would differ by itself.

use knee_core::Rng;
use knee_quinn::Control;
use knee_quinn::proto::congestion::ControllerFactory;
use knee_quinn::stack::OTHER;
use knee_sim::{Own, OwnMake, Simulation};
use serde_json::{Value, json};
use std::f64::consts::LN_10;
use std::fmt;
use std::sync::Arc;

const MS: f64 = 1e6;

/// A bottleneck and a path.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub mbit: f64,
    rtt_ms: f64,
    /// Buffer in milliseconds of the link's rate, ten packets at least.
    buffer_ms: f64,
    /// Share of the packets that are lost by chance.
    loss: f64,
}

/// The figures of a flow.
pub struct Figures {
    pub goodput_mbps: f64,
    pub rtt_ms: f64,
    lost: u64,
    /// Time until the last byte was acknowledged, s; zero if it never was.
    pub completion_s: f64,
}

/// The two that are compared: settings of the simulator's endpoints, and the controller of a stack.
#[derive(Clone, Debug)]
pub struct Pair {
    pub quic: Value,
    pub stack: String,
}

impl Default for Pair {
    fn default() -> Self {
        Self { quic: json!({}), stack: "reno in quinn".into() }
    }
}

impl Network {
    /// One of 1 to 40 Mbit/s, 10 to 150 ms, both by their logarithm, and 0.7 to 3 BDP of buffer.
    pub fn random(rng: &mut Rng, loss: f64) -> Self {
        let mut between = |least: f64, most: f64| least + (most - least) * rng.unit();
        let (mbit, rtt_ms) = (libm::exp(between(0.0, 3.688_879)), libm::exp(between(LN_10, LN_10 + 2.708_05)));
        let buffer_ms = (rtt_ms * between(0.7, 3.0)).max(120.0 / mbit);
        Self { mbit, rtt_ms, buffer_ms, loss }
    }

    /// Seconds in which a flow shows what it does: as many round trips on each path.
    pub fn seconds(&self) -> f64 {
        12.0 + 0.15 * self.rtt_ms
    }

    /// A flow alone under Reno, in the simulator's endpoints or in the stack without its search for the MTU.
    pub fn run(&self, in_stack: bool, bytes: Option<u64>, seconds: f64, seed: u64, pair: &Pair) -> Figures {
        let end = (seconds * 1e9) as u64;
        let quic = if in_stack { json!({"initial_mtu": 1452}) } else { pair.quic.clone() };
        let spec = json!({
            "duration": end, "seed": seed, "warmup": 0, "interval": 100_000_000, "quic": quic,
            "links": [{
                "name": "bottleneck", "capacity": {"rate": (self.mbit * 1e6) as u64}, "queue": "pfifo",
                "limit": {"bytes": (self.mbit * self.buffer_ms * 125.0) as u64}, "overhead": 14, "loss": self.loss
            }],
            "flows": [{
                "label": "flow", "cc": if in_stack { &pair.stack } else { "reno" }, "transport": "quic",
                "rtt": (self.rtt_ms * MS) as u64, "start": 0, "stop": end, "bytes": bytes, "path": [0]
            }]
        });
        let control = || -> Arc<dyn ControllerFactory + Send + Sync> { Arc::new(Control::named("reno").unwrap()) };
        let make = OwnMake::Quinn(Arc::new(move |_| control()));
        let own = Own { name: "reno in quinn".into(), entry: &OTHER, make };
        let simulation = Simulation::with_own(&serde_json::from_value(spec).unwrap(), &[own]).unwrap();
        let (output, _) = simulation.run().unwrap();
        let flow = &output.flows[0];
        Figures {
            goodput_mbps: flow.goodput_mbps,
            rtt_ms: flow.rtt_mean_ms.unwrap_or_default(),
            lost: flow.lost_packets,
            completion_s: flow.completion_s.unwrap_or_default(),
        }
    }
}

/// A figure of the simulator's endpoints as a part of quinn's, by its name.
#[derive(Clone, Debug)]
pub struct Apart(Vec<(&'static str, f64)>);

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, ratio)| write!(f, " {name} {ratio:.3}"))
    }
}

/// The ratios, if one of them is more than `most` from 1.
pub fn apart(ratios: [(&'static str, f64); 2], most: f64) -> Option<Apart> {
    let agrees = ratios.iter().all(|(_, ratio)| (ratio - 1.0).abs() <= most);
    (!agrees).then(|| Apart(ratios.to_vec()))
}

/// What differs by more than 1 % of the goodput or the RTT, or a fifth or three of the losses, of an endless flow of
/// which nothing is lost by chance.
pub fn without_loss(network: &Network, pair: &Pair) -> Option<Apart> {
    let [own, quinn] = [false, true].map(|in_stack| network.run(in_stack, None, network.seconds(), 1, pair));
    let ratios = [("goodput", own.goodput_mbps / quinn.goodput_mbps), ("RTT", own.rtt_ms / quinn.rtt_ms)];
    let losses = [own.lost as f64, quinn.lost as f64];
    if (losses[0] - losses[1]).abs() > (0.2 * losses[1]).max(3.0) {
        return Some(Apart([&ratios[..], &[("losses", losses[0] / losses[1])]].concat()));
    }
    apart(ratios, 0.01)
}

/// A completion time of `bytes` that differs by more than 3 %.
pub fn transfer(network: &Network, bytes: u64, pair: &Pair) -> Option<Apart> {
    let seconds = 20.0 + 12.0 * bytes as f64 / network.mbit / 1e6;
    let [own, quinn] = [false, true].map(|in_stack| network.run(in_stack, Some(bytes), seconds, 1, pair).completion_s);
    apart([("completion", own / quinn), ("", 1.0)], 0.03)
}

/// Of forty networks at most a tenth differs.
///
/// quinn against itself with other seeds differs by up to 0.7 % of the goodput and 0.5 % of the RTT, and by more than a
/// tenth of the losses on a third of the networks.
#[test]
fn reno_does_what_it_does_in_quinn() {
    let mut rng = Rng::stream(3, "beside");
    let networks: Vec<_> = (0..40).map(|_| Network::random(&mut rng, 0.0)).collect();
    let apart: Vec<_> =
        networks.iter().filter_map(|network| Some((network, without_loss(network, &Pair::default())?))).collect();
    assert!(apart.len() <= 4, "{apart:?}");
}

/// A transfer of one byte is the handshake, one of ten megabytes the rate. Between them the wait of a last ACK decides.
#[test]
fn short_and_long_transfers_take_as_long_as_in_quinn() {
    let mut rng = Rng::stream(3, "beside");
    for network in (0..12).map(|_| Network::random(&mut rng, 0.0)) {
        for bytes in [1, 10_000_000] {
            let apart = transfer(&network, bytes, &Pair::default());
            assert!(apart.is_none(), "{network:?}, {bytes} B: {apart:?}");
        }
    }
}
