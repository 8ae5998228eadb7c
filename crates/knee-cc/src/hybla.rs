//! Hybla: a flow with a long RTT grows as fast in time as one with a short RTT.
//!
//! Source: C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", Int. J. Satellite
//! Communications and Networking 22, 2004, in the form of Linux's `tcp_hybla.c`. With `rho = srtt / rtt0`, at least 1:
//!
//! - slow start, per ACK: `cwnd += 2^rho - 1`
//! - congestion avoidance, per ACK: `cwnd += rho^2 / cwnd`
//! - the first window is `rho`
//! - loss: Reno
//!
//! rho is kept in eighths, rho^2 and the increments in 128ths; `2^rho` is `2^floor(rho)` times a tabled `2^(k/8)`.
//! rho follows the least smoothed RTT. Growth is Hybla's in loss recovery's state Open only, else Reno's.
//!
//! Departures from the paper, all as Linux does: increments are per ACK, however many packets it acknowledges, so that
//! delayed ACKs halve the growth; no pacing and no bandwidth estimate for the first threshold; the window is at most
//! 65535 packets.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::reno::halved;
use crate::{Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, StateChange, StateEvent, increase};
use knee_core::{Time, params};

/// Hybla's registry entry.
pub const ENTRY: Entry = Entry {
    name: "hybla",
    family: Family::LossBased,
    about: "growth made independent of the RTT, for satellite paths",
    source: "Caini, Firrincieli, TCP Hybla, IJSCN 22 2004; Linux net/ipv4/tcp_hybla.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| Box::new(Hybla::new(params.into(), init)),
};

params! {
    /// Hybla's parameters.
    struct Params {
        /// reference RTT: growth is that of a Reno flow with this RTT, in whole milliseconds
        rtt0: Time = Time::from_millis(25), in Time::from_millis(1)..=Time::from_secs(10),
            from "Caini, Firrincieli 2004; tcp_hybla.c";
    }
}

/// The largest window, in packets.
const CLAMP: u32 = 65_535;
/// 1 in the unit of increments.
const ONE: u32 = 1 << 7;
/// `2^(k/8)` in 128ths.
const POWERS: [u32; 8] = [128, 139, 152, 165, 181, 197, 215, 234];

/// State of a connection.
#[derive(Clone)]
struct Hybla {
    /// RTT of the reference flow.
    rtt0: Time,
    /// Loss recovery is in state Open.
    open: bool,
    /// RTT ratio in eighths.
    rho: u32,
    /// Least smoothed RTT.
    rtt_min: Time,
    /// Sum of increments below a whole packet, in 128ths.
    fraction: u32,
}

/// `srtt / rtt0` in eighths, at least 1.
fn rho(srtt: Time, rtt0: Time) -> u32 {
    let eighths = srtt.as_nanos() / 125 / rtt0.as_micros().max(1);
    // Bounded so that its square fits; an RTT of an hour is far below.
    eighths.clamp(8, 1 << 15) as u32
}

/// Increment per ACK in slow start, `2^rho - 1` in 128ths.
fn slow_start_increment(rho: u32) -> u32 {
    (1 << (rho >> 3).min(16)) * POWERS[(rho & 7) as usize] - ONE
}

/// Increment per ACK in congestion avoidance, `rho^2 / cwnd` in 128ths.
fn avoidance_increment(rho: u32, cwnd: u32) -> u32 {
    // From 64ths of rho^2 to 128ths.
    (rho * rho * 2) / cwnd.max(1)
}

impl Hybla {
    fn new(p: Params, init: &Init) -> Self {
        let rtt0 = p.rtt0.floor_to(Time::from_millis(1));
        Self { rtt0, open: true, rho: rho(init.rtt, rtt0), rtt_min: init.rtt, fraction: 0 }
    }

    fn grow(&mut self, c: &mut Control) {
        let slow_start = c.in_slow_start();
        let increment = if slow_start {
            slow_start_increment(self.rho)
        } else {
            let increment = avoidance_increment(self.rho, c.cwnd);
            if increment < ONE {
                c.cwnd_cnt = c.cwnd_cnt.saturating_add(1);
            }
            increment
        };
        self.fraction += increment % ONE;
        c.cwnd = c.cwnd.saturating_add(increment / ONE);
        if self.fraction >= ONE {
            self.fraction -= ONE;
            c.cwnd = c.cwnd.saturating_add(1);
            c.cwnd_cnt = 0;
        }
        // A window so large that the increment rounds to nothing grows as Reno does, by ACKs.
        if increment == 0 && c.cwnd_cnt >= c.cwnd {
            c.cwnd = c.cwnd.saturating_add(1);
            c.cwnd_cnt = 0;
        }
        if slow_start {
            c.cwnd = c.cwnd.min(c.ssthresh);
        }
        c.cwnd = c.cwnd.min(CLAMP);
    }
}

impl CongestionControl for Hybla {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if ack.view.srtt < self.rtt_min {
            self.rtt_min = ack.view.srtt;
            self.rho = rho(ack.view.srtt, self.rtt0);
        }
        if !ack.cwnd_limited {
            return;
        }
        if self.open {
            self.grow(control);
        } else {
            increase::reno(control, ack.delivered);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = halved(control.cwnd);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::Entered(state) => self.open = state == CaState::Open,
            StateEvent::Start => control.cwnd = (self.rho >> 3).max(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, avoiding, change_at, make, view_at};

    #[test]
    fn rho_is_the_ratio_of_rtts_and_at_least_one() {
        let rho = |ms| rho(Time::from_millis(ms), Time::from_millis(25));
        // 40 / 25 = 1.6, in eighths 12.8.
        assert_eq!([25, 40, 250, 1].map(rho), [8, 12, 80, 8]);
    }

    #[test]
    fn a_flow_at_the_reference_rtt_grows_as_reno_per_ack() {
        assert_eq!(slow_start_increment(8), ONE);
        assert_eq!(avoidance_increment(8, 1), ONE);
        assert_eq!(avoidance_increment(8, 64), 2);
    }

    #[test]
    fn increments_are_two_to_the_rho_and_rho_squared() {
        // rho = 1.5: 2^1.5 - 1 = 1.83; 2.25 / cwnd.
        assert_eq!(slow_start_increment(12), 2 * 181 - 128);
        assert_eq!(avoidance_increment(12, 1), 288);
        // Bounded at 2^16.
        assert_eq!(slow_start_increment(160), 65_536 * 128 - 128);
        for (k, power) in POWERS.iter().enumerate() {
            assert_eq!(*power, (128.0 * libm::pow(2.0, k as f64 / 8.0)) as u32);
        }
    }

    #[test]
    fn rho_squared_packets_are_gained_per_window_of_acks() {
        let mut cc = make(&ENTRY);
        let mut c = avoiding(100);
        for _ in 0..100 {
            cc.on_ack(&ack(2), &mut c);
        }
        // 288 / 100 = 2 of 128ths per ACK: 200 / 128.
        assert_eq!(c.cwnd, 101);
    }

    #[test]
    fn the_first_window_is_rho() {
        let mut cc = make(&ENTRY);
        let start = change_at(Time::ZERO, StateEvent::Start);
        assert_eq!(crate::testing::after(Control::initial(10), |c| cc.on_state(&start, c)).cwnd, 1);
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut cc = make(&ENTRY);
        let c = crate::testing::after(Control { ssthresh: 100, ..Control::initial(99) }, |c| cc.on_ack(&ack(1), c));
        assert_eq!((c.cwnd, c.phase), (100, 1));
    }

    #[test]
    fn outside_of_open_it_is_reno() {
        let (mut hybla, mut reno) = (make(&ENTRY), make(&crate::reno::ENTRY));
        hybla.on_state(&change_at(Time::ZERO, StateEvent::Entered(CaState::Disorder)), &mut avoiding(10));
        let slow = Control::initial(10);
        assert_eq!(
            crate::testing::after(slow, |c| hybla.on_ack(&ack(2), c)),
            crate::testing::after(slow, |c| reno.on_ack(&ack(2), c))
        );
    }

    #[test]
    fn rho_follows_the_least_smoothed_rtt() {
        let mut cc = Hybla::new(Params::default(), &crate::testing::init());
        let at = |ms| Ack {
            view: crate::testing::lent(crate::View { srtt: Time::from_millis(ms), ..view_at(Time::ZERO) }),
            ..ack(1)
        };
        cc.on_ack(&at(400), &mut avoiding(10));
        assert_eq!(cc.rho, 12);
        cc.on_ack(&at(30), &mut avoiding(10));
        assert_eq!(cc.rho, 9);
    }
}
