//! Endless flows over one FIFO link: what claims of papers are held in.

use crate::networks::{flow, link, spec};
use knee_sim::{Output, Rows, Simulation};
use serde_json::{Value, json};

/// A link and its flows. Nothing is counted on top of IP packets: 12 Mbit/s are 1000 full packets a second.
pub struct Dumbbell(Value);

impl Dumbbell {
    /// A link with room for `packets` waiting packets.
    pub fn new(mbps: u64, packets: u64) -> Self {
        let mut link = link(mbps * 1_000_000, &json!({"packets": packets}));
        link["overhead"] = json!(0);
        Self(spec(0, &[link], &[]))
    }

    /// A flow from `start` ns on, with a base RTT of `rtt` ns.
    pub fn flow(mut self, cc: &str, params: &Value, rtt: u64, start: u64) -> Self {
        let mut flow = flow(cc, rtt, start, 0);
        flow["cc_params"] = params.clone();
        self.0["flows"].as_array_mut().unwrap().push(flow);
        self
    }

    /// Such flows, each `step` ns after the one before.
    pub fn flows(self, count: u64, cc: &str, params: &Value, rtt: u64, step: u64) -> Self {
        (0..count).fold(self, |net, i| net.flow(cc, params, rtt, i * step))
    }

    /// The flow that was added last stops sending at `at` ns.
    pub fn stop(mut self, at: u64) -> Self {
        self.0["flows"].as_array_mut().unwrap().last_mut().unwrap()["stop"] = json!(at);
        self
    }

    /// Each packet is lost with probability `loss`, before the queue.
    pub fn loss(mut self, loss: f64) -> Self {
        self.0["links"][0]["loss"] = json!(loss);
        self
    }

    /// Another seed than 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0["seed"] = json!(seed);
        self
    }

    /// The initial window of all flows, in packets.
    pub fn initial_window(mut self, packets: u64) -> Self {
        self.0["tcp"]["initial_window"] = json!(packets);
        self
    }

    /// Another interval of the time series than 100 ms.
    pub fn interval(mut self, interval: u64) -> Self {
        self.0["interval"] = json!(interval);
        self
    }

    /// Senders send packet by packet, not in TSO's bursts, and each packet is acknowledged: as models of papers have
    /// it, and senders that are programs of their own over UDP.
    pub fn packet_by_packet(mut self) -> Self {
        self.0["tcp"]["tso"] = json!(false);
        // Receivers acknowledge every packet until their window has grown by as much.
        self.0["tcp"]["window_growth"] = json!(1_000_000_000_000_000_000u64);
        self
    }

    /// The first flow has this base RTT from `at` ns on.
    pub fn rtt_at(self, at: u64, rtt: u64) -> Self {
        self.change(at, &json!({"rtt": {"flow": 0, "rtt": rtt}}))
    }

    /// The link has this rate from `at` ns on.
    pub fn rate_at(self, at: u64, mbps: u64) -> Self {
        self.change(at, &json!({"rate": {"link": 0, "rate": mbps * 1_000_000}}))
    }

    fn change(mut self, at: u64, what: &Value) -> Self {
        if self.0["changes"].is_null() {
            self.0["changes"] = json!([]);
        }
        self.0["changes"].as_array_mut().unwrap().push(json!({"at": at, "what": what}));
        self
    }

    /// Lets `until` ns pass.
    pub fn run(mut self, until: u64) -> Run {
        self.0["duration"] = json!(until);
        for flow in self.0["flows"].as_array_mut().unwrap().iter_mut().filter(|flow| flow["stop"] == 0) {
            flow["stop"] = json!(until);
        }
        let simulation = Simulation::new(&serde_json::from_value(self.0.clone()).unwrap()).unwrap();
        let (output, rows) = simulation.run().unwrap();
        let mbps = self.0["links"][0]["capacity"]["rate"].as_u64().unwrap() as f64 / 1e6;
        Run { output, rows, packets_per_ms: mbps / 12.0, interval: self.0["interval"].as_u64().unwrap() }
    }
}

/// The results of a run.
pub struct Run {
    pub output: Output,
    pub rows: Rows,
    /// Rate of the link before any change.
    packets_per_ms: f64,
    interval: u64,
}

/// Figures of a span of time. Rates are of IP packets received.
#[derive(Debug)]
pub struct Seen {
    /// Rate of each flow, Mbit/s.
    pub mbps: Vec<f64>,
    /// The least and the greatest RTT sample of each flow, ms.
    pub rtt: Vec<(f64, f64)>,
    /// Packets deemed lost by the senders.
    pub lost: u64,
    /// Packets dropped, at random and by the queue.
    pub drops: u64,
    /// Packets waiting on average (by Little's law), and those before the packet that waited longest, with the
    /// one being sent.
    pub queue: f64,
    pub queue_max: f64,
}

impl Seen {
    /// Rate of all flows together, Mbit/s.
    pub fn total(&self) -> f64 {
        self.mbps.iter().sum()
    }

    /// Jain's index of the flows' rates.
    pub fn jain(&self) -> f64 {
        let squares: f64 = self.mbps.iter().map(|x| x * x).sum();
        self.total() * self.total() / (squares * self.mbps.len() as f64)
    }
}

impl Run {
    /// Figures from one time until another, in ns, both at the end of an interval.
    pub fn between(&self, from: u64, until: u64) -> Seen {
        let (from, until) = (from as f64 / 1e9, until as f64 / 1e9);
        let part = self.interval as f64 / 1e9;
        let within = |t_s: f64| t_s > from + part / 2.0 && t_s < until + part / 2.0;
        let flows = self.output.flows.len();
        let span = until - from;
        let mut seen = Seen {
            mbps: vec![0.0; flows],
            rtt: vec![(f64::MAX, 0.0); flows],
            lost: 0,
            drops: 0,
            queue: 0.0,
            queue_max: 0.0,
        };
        for row in self.rows.samples.iter().filter(|row| within(row.t_s)) {
            let flow = row.flow as usize;
            seen.mbps[flow] += f64::from(row.throughput_mbps) * part / span;
            seen.lost += u64::from(row.lost_packets);
            let rtt = &mut seen.rtt[flow];
            *rtt = (rtt.0.min(f64::from(row.rtt_min_ms)), rtt.1.max(f64::from(row.rtt_max_ms)));
        }
        for row in self.rows.links.iter().filter(|row| within(row.t_s)) {
            seen.drops += u64::from(row.drops);
            let waited = [row.queue_delay_mean_ms, row.queue_delay_max_ms].map(|ms| f64::from(ms).max(0.0));
            seen.queue += waited[0] * self.packets_per_ms * f64::from(row.utilization) * part / span;
            seen.queue_max = seen.queue_max.max(waited[1] * self.packets_per_ms);
        }
        seen
    }

    /// The phases of its algorithm that a flow was in, and when each began, in s.
    pub fn phases(&self, flow: i32) -> Vec<(f64, &str)> {
        let events = self.rows.events.iter().filter(|row| row.flow == flow && row.link < 0);
        let named = events.map(|row| (row.t_s, self.output.event_names[row.event as usize].as_str()));
        named.filter(|(_, name)| knee_cc::registry().iter().any(|entry| entry.phases.contains(name))).collect()
    }

    /// When a flow entered a phase, in s.
    pub fn entered(&self, flow: i32, phase: &str) -> Vec<f64> {
        self.phases(flow).iter().filter(|(_, name)| *name == phase).map(|(at, _)| *at).collect()
    }
}
