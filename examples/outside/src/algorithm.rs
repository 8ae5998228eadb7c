//! A congestion control: MIMD ("multiplicative increase, multiplicative decrease"; Chiu and Jain, Computer Networks and ISDN
//! Systems 17, 1989). The window grows by a share of what is acknowledged and loses a share of itself on a loss.

use knee_cc::{Ack, Congestion, CongestionControl, Control, Entry, Family, Needs};
use knee_core::convert::truncated_u32;
use knee_core::params;

pub static ENTRY: Entry = Entry {
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
    /// The parameters, of which specifications may set some.
    struct Params {
        /// growth per packet acknowledged
        gain: f64 = 0.01, in 0.0001..=1.0, from "this example";
        /// share of the window that is left after a loss
        beta: f64 = 0.875, in 0.1..=0.99, from "this example";
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
        control.ssthresh = truncated_u32(f64::from(control.cwnd) * self.params.beta).max(2);
    }
}
