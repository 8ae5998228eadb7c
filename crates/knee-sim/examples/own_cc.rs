//! Your own congestion control in one file, beside CUBIC on one link:
//! `cargo run --release -p knee-sim --example own_cc`.
//!
//! The algorithm: MIMD ("multiplicative increase, multiplicative decrease", Chiu and Jain 1989) grows by 1 % of what is
//! acknowledged and gives up an eighth on a loss. Two such flows never become fair; see for yourself.

use knee_cc::{Ack, Congestion, CongestionControl, Control, Entry, Family, Needs};
use knee_core::convert::truncated_u32;
use knee_core::params;
use knee_sim::{Simulation, Spec};
use std::error::Error;

static ENTRY: Entry = Entry {
    name: "mimd",
    family: Family::LossBased,
    about: "multiplicative increase, multiplicative decrease",
    source: "Chiu and Jain, Computer Networks and ISDN Systems 17, 1989",
    params: Params::DECLARED,
    phases: &["running"],
    edges: &[],
    min_cwnd: 2,
    needs: Needs::NONE,
    make: |params, _| Box::new(Mimd { params: params.into(), credit: 0.0 }),
};

params! {
    /// The parameters, of which scenarios may set some.
    struct Params {
        /// growth per packet acknowledged
        gain: f64 = 0.01, in 0.0001..=1.0, from "this example";
    }
}

#[derive(Clone)]
struct Mimd {
    params: Params,
    /// Growth below one packet, kept for the next ACK.
    credit: f64,
}

impl CongestionControl for Mimd {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        // Where the window does not limit what is sent, its growth would be of no use.
        if !ack.cwnd_limited {
            return;
        }
        self.credit += self.params.gain * f64::from(ack.delivered);
        let whole = truncated_u32(self.credit);
        self.credit -= f64::from(whole);
        control.cwnd = control.cwnd.saturating_add(whole);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = (control.cwnd - control.cwnd / 8).max(2);
    }
}

/// The specification that `knee` makes from a scenario file, with the quantities in ns, bit/s and bytes.
const SCENARIO: &str = r#"{
    "duration": 30000000000, "seed": 1, "warmup": 0, "interval": 100000000,
    "links": [{
        "name": "bottleneck", "capacity": {"rate": 100000000}, "queue": "pfifo", "limit": {"packets": 250}, "overhead": 14
    }],
    "flows": [
        {"label": "mine", "cc": "mimd", "cc_params": {"gain": {"ratio": 0.02}}, "rtt": 20000000,
         "start": 0, "stop": 30000000000, "path": [0]},
        {"label": "cubic", "cc": "cubic", "rtt": 20000000, "start": 0, "stop": 30000000000, "path": [0]}
    ]
}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let spec: Spec = serde_json::from_str(SCENARIO)?;
    knee_cc::add(&ENTRY)?;
    let (output, _) = Simulation::new(&spec)?.run()?;
    for (flow, figures) in spec.flows.iter().zip(&output.flows) {
        println!("{:>6}: {:6.2} Mbit/s, {} packets lost", flow.label, figures.goodput_mbps, figures.lost_packets);
    }
    Ok(())
}
