//! Veno: Reno that uses Vegas's backlog to distinguish congestion losses from random ones.
//!
//! Source: C. P. Fu, S. C. Liew, "TCP Veno: TCP Enhancement for Transmission Over Wireless Access Networks", IEEE JSAC
//! 21(2), 2003, in the form of Linux's `tcp_veno.c`. With `rtt` the least of the RTTs since the window last grew:
//!
//! - backlog in packets: `n = cwnd (1 - base_rtt / rtt)`, kept in halves
//! - congestion avoidance: Reno while `n < beta`, beta = 3; else one packet every other round trip
//! - loss: `ssthresh = 4/5 cwnd` while `n < beta` (a random loss), else `cwnd / 2`
//! - slow start: Reno
//!
//! Departures from the paper, all as Linux does: the least RTT is taken anew with every ACK that may grow the window,
//! not every round trip, and where such an ACK brings no sample the backlog counts as large; the first two RTTs of a
//! connection leave it Reno (so does a count of samples that wraps at 2^16).

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Needs, StateChange, StateEvent, increase, reno, slow_start,
};
use knee_core::convert::saturating_u32;
use knee_core::params;

/// Veno's registry entry.
pub const ENTRY: Entry = Entry {
    name: "veno",
    family: Family::Hybrid,
    about: "Reno that reduces by only a fifth if the backlog indicates a random loss",
    source: "Fu, Liew, TCP Veno, IEEE JSAC 21(2) 2003; Linux net/ipv4/tcp_veno.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        slow_start::with(Veno::new(params), &params.start, init)
    },
};

params! {
    /// Veno's parameters.
    struct Params {
        /// backlog at which the path counts as congested, in packets
        beta: u64 = 3, in 1..=1_000_000, from "Fu, Liew 2003; tcp_veno.c";
        #[flatten]
        start: slow_start::Params;
    }
}

/// No RTT seen, in microseconds.
const NO_RTT: u64 = 0x7fff_ffff;

/// State of a connection.
#[derive(Clone)]
struct Veno {
    p: Params,
    /// Off outside of loss recovery's state Open.
    on: bool,
    /// RTT samples taken; wraps.
    samples: u16,
    /// Least RTT since the window last could grow, in microseconds.
    rtt: u64,
    /// Least RTT since the connection's start or last restart, in microseconds.
    base_rtt: u64,
    /// The next full window acknowledged grows the window.
    increase: bool,
    /// Backlog in half packets.
    backlog: u64,
}

/// Packets queued on the path, in halves.
fn backlog_halves(cwnd: u32, base_rtt: u64, rtt: u64) -> u64 {
    let cwnd = u64::from(cwnd);
    (2 * cwnd).saturating_sub(cwnd * base_rtt * 2 / rtt.max(1))
}

impl Veno {
    fn new(p: Params) -> Self {
        Self { p, on: true, samples: 0, rtt: NO_RTT, base_rtt: NO_RTT, increase: true, backlog: 0 }
    }

    fn congested(&self) -> bool {
        self.backlog >= 2 * self.p.beta
    }

    /// Grows the window by one packet per two windows acknowledged.
    fn every_other(&mut self, c: &mut Control, acked: u32) {
        if c.cwnd_cnt < c.cwnd {
            c.cwnd_cnt = c.cwnd_cnt.saturating_add(acked);
            return;
        }
        if self.increase {
            c.cwnd = c.cwnd.saturating_add(1);
        }
        self.increase = !self.increase;
        c.cwnd_cnt = 0;
    }

    fn grow(&mut self, c: &mut Control, acked: u32) {
        self.backlog = backlog_halves(c.cwnd, self.base_rtt, self.rtt);
        let rest = if c.in_slow_start() { increase::slow_start(c, acked) } else { acked };
        if rest > 0 && self.congested() {
            self.every_other(c, rest);
        } else if rest > 0 {
            increase::additive_increase(c, c.cwnd, rest);
        }
        c.cwnd = c.cwnd.max(2);
    }
}

impl CongestionControl for Veno {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        if let Some(rtt) = ack.rtt {
            // Never zero.
            let rtt = rtt.as_micros() + 1;
            self.base_rtt = self.base_rtt.min(rtt);
            self.rtt = self.rtt.min(rtt);
            self.samples = self.samples.wrapping_add(1);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        if self.on && self.samples > 2 {
            self.grow(control, ack.delivered);
        } else {
            increase::reno(control, ack.delivered);
        }
        if self.on {
            self.rtt = NO_RTT;
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        let cwnd = control.cwnd;
        control.ssthresh =
            if self.congested() { reno::halved(cwnd) } else { (saturating_u32(u64::from(cwnd) * 4 / 5)).max(2) };
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        match change.event {
            StateEvent::Entered(CaState::Open) => (self.on, self.rtt) = (true, NO_RTT),
            StateEvent::Entered(_) => self.on = false,
            StateEvent::Restart => {
                (self.on, self.rtt, self.base_rtt, self.increase) = (true, NO_RTT, NO_RTT, true);
            }
            StateEvent::Start | StateEvent::Timeout | StateEvent::ReductionDone | StateEvent::Idle => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, avoiding, change_at, loss_at, make};
    use knee_core::Time;

    /// Measures an RTT and acknowledges `n` packets.
    fn step(cc: &mut dyn CongestionControl, ms: u64, n: u32, mut c: Control) -> Control {
        let ack = ack_at(Time::from_secs(1), n, Some(Time::from_millis(ms)));
        cc.on_measure(&ack, &mut c);
        cc.on_ack(&ack, &mut c);
        c
    }

    #[test]
    fn backlog_is_the_share_of_the_window_beyond_the_base_rtt() {
        // 100 packets, a fifth of the RTT queued: 20 packets.
        assert_eq!(backlog_halves(100, 40_000, 50_000), 40);
        assert_eq!(backlog_halves(100, 40_000, 40_000), 0);
    }

    #[test]
    fn a_loss_without_backlog_costs_a_fifth_and_with_backlog_half() {
        let mut cc = make(&ENTRY);
        let mut c = avoiding(100);
        for _ in 0..3 {
            c = step(&mut *cc, 40, 1, c);
        }
        assert_eq!(crate::testing::after(avoiding(100), |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 80);
        // 3 packets of 100: an RTT of 41.3 ms.
        c = step(&mut *cc, 42, 1, c);
        assert_eq!(crate::testing::after(c, |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 50);
    }

    #[test]
    fn growth_halves_with_a_backlog() {
        let packets_per_gain = |ms: u64| {
            let mut cc = make(&ENTRY);
            for _ in 0..3 {
                step(&mut *cc, 40, 1, avoiding(100));
            }
            let (mut c, mut acked) = (avoiding(100), 0);
            while c.cwnd < 104 {
                acked += 1;
                c = step(&mut *cc, ms, 1, c);
            }
            acked
        };
        // 100 + 101 + 102 + 103. With a backlog a window and one ACK for the first gain, and twice that for each after.
        assert_eq!(packets_per_gain(40), 406);
        assert_eq!(packets_per_gain(60), 101 + 2 * (102 + 103 + 104));
    }

    #[test]
    fn the_first_two_samples_leave_it_reno() {
        let (mut veno, mut reno) = (make(&ENTRY), make(&crate::reno::ENTRY));
        let (mut v, mut r) = (avoiding(4), avoiding(4));
        for ms in [40, 80] {
            (v, r) = (step(&mut *veno, ms, 2, v), step(&mut *reno, ms, 2, r));
            assert_eq!(v, r);
        }
    }

    #[test]
    fn a_restart_learns_the_base_rtt_anew() {
        let mut cc = Veno::new(Params::default());
        step(&mut cc, 40, 1, avoiding(10));
        cc.on_state(&change_at(Time::ZERO, StateEvent::Restart), &mut avoiding(10));
        step(&mut cc, 60, 1, avoiding(10));
        assert_eq!(cc.base_rtt, 60_001);
    }

    #[test]
    fn outside_of_open_it_is_reno_but_remembers_the_backlog() {
        let mut cc = make(&ENTRY);
        for ms in [40, 40, 80] {
            step(&mut *cc, ms, 1, avoiding(100));
        }
        cc.on_state(&change_at(Time::ZERO, StateEvent::Entered(CaState::Recovery)), &mut avoiding(100));
        let c = step(&mut *cc, 40, 100, avoiding(100));
        assert_eq!(c.cwnd, 101);
        assert_eq!(crate::testing::after(avoiding(100), |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 50);
    }
}
