//! Reno: one packet more per round trip, half the window on a loss.
//!
//! Source: RFC 5681, in the form of Linux's `tcp_reno_*` (net/ipv4/tcp_cong.c).
//!
//! - slow start: `cwnd += acked` while `cwnd < ssthresh` (Sec. 3.1)
//! - congestion avoidance: `cwnd += 1` per `cwnd` packets acknowledged (Sec. 3.1, Eq. 3 counted in packets)
//! - loss: `ssthresh = max(cwnd / 2, 2)` (Sec. 3.1, Eq. 4)
//!
//! Departures from the RFC, all as Linux does: the threshold comes from `cwnd`, not from the flight size; growth
//! counts every packet acknowledged, without a limit per ACK; it stops where `cwnd` was not what limited sending.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{Ack, Congestion, CongestionControl, Control, Needs, increase, slow_start};

/// Reno's registry entry.
pub const ENTRY: Entry = Entry {
    name: "reno",
    family: Family::LossBased,
    about: "additive increase by one packet per round trip, multiplicative decrease by half",
    source: "RFC 5681; Linux net/ipv4/tcp_cong.c",
    params: slow_start::Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| slow_start::with(Reno, &params.into(), init),
};

/// Reno has no state beyond the window.
#[derive(Clone)]
struct Reno;

/// `ssthresh` after a congestion signal at window `cwnd`, in packets (RFC 5681, Eq. 4).
pub const fn halved(cwnd: u32) -> u32 {
    //= RFC 5681, 3.1 (departs: Linux takes cwnd for FlightSize)
    //# ssthresh = max (FlightSize / 2, 2*SMSS) (4)
    if cwnd / 2 > 2 { cwnd / 2 } else { 2 }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        increase::reno(control, ack.delivered);
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = halved(control.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_the_window_but_never_below_two() {
        assert_eq!([halved(1000), halved(5), halved(4), halved(1)], [500, 2, 2, 2]);
    }
}
