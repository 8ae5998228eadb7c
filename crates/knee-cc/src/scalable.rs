//! Scalable TCP: the window grows by a fixed fraction of the data acknowledged, and shrinks by a fixed fraction on a
//! loss.
//!
//! Source: T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", ACM CCR 33(2), 2003, in
//! the form of Linux's `tcp_scalable.c`. The time to win back a loss is then a number of round trips that does not
//! depend on the rate.
//!
//! - slow start: as Reno
//! - per packet acknowledged: `cwnd += a`, a = 0.01: one packet per `min(cwnd, ai_cnt)` acknowledged
//! - loss: `cwnd -= b cwnd`, b = 1/8: `ssthresh = max(cwnd - (cwnd >> md_shift), 2)`
//!
//! Departure from the paper, as Linux does: below `ai_cnt` packets it grows as Reno, where the paper uses Reno whole,
//! its halving included, below a window of 16.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{Ack, Congestion, CongestionControl, Control, Needs, increase, slow_start};
use knee_core::params;

/// Scalable TCP's registry entry.
pub const ENTRY: Entry = Entry {
    name: "scalable",
    family: Family::LossBased,
    about: "increase by 1 % of what is acknowledged, decrease by an eighth",
    source: "Kelly, Scalable TCP, ACM CCR 33(2) 2003; Linux net/ipv4/tcp_scalable.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        slow_start::with(Scalable { p: params }, &params.start, init)
    },
};

params! {
    /// Scalable TCP's parameters.
    struct Params {
        /// packets acknowledged per packet of growth, at most the window
        ai_cnt: u32 = 100, in 1..=1_000_000, from "Kelly 2003 (a = 0.01); TCP_SCALABLE_AI_CNT";
        /// a loss reduces the window by 2 to minus this
        md_shift: u32 = 3, in 1..=31, from "Kelly 2003 (b = 0.125); TCP_SCALABLE_MD_SCALE";
        #[flatten]
        start: slow_start::Params;
    }
}

/// Scalable TCP has no state beyond the window.
#[derive(Clone)]
struct Scalable {
    p: Params,
}

/// `ssthresh` after a congestion signal at `cwnd` packets.
fn reduced(cwnd: u32, md_shift: u32) -> u32 {
    (cwnd - (cwnd >> md_shift)).max(2)
}

impl CongestionControl for Scalable {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        let rest = if control.in_slow_start() { increase::slow_start(control, ack.delivered) } else { ack.delivered };
        if rest > 0 {
            increase::additive_increase(control, control.cwnd.min(self.p.ai_cnt), rest);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = reduced(control.cwnd, self.p.md_shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, avoiding, make};

    #[test]
    fn a_loss_takes_an_eighth() {
        assert_eq!([800, 15, 8, 2, 1].map(|w| reduced(w, 3)), [700, 14, 7, 2, 2]);
    }

    #[test]
    fn a_window_of_a_thousand_grows_by_ten_in_a_round_trip() {
        let mut cc = make(&ENTRY);
        let mut c = avoiding(1000);
        for _ in 0..500 {
            cc.on_ack(&ack(2), &mut c);
        }
        assert_eq!(c.cwnd, 1010);
    }

    #[test]
    fn below_a_hundred_it_grows_as_reno() {
        let (mut scalable, mut reno) = (make(&ENTRY), make(&crate::reno::ENTRY));
        let (mut s, mut r) = (avoiding(20), avoiding(20));
        for _ in 0..600 {
            (s, r) = (
                crate::testing::after(s, |c| scalable.on_ack(&ack(2), c)),
                crate::testing::after(r, |c| reno.on_ack(&ack(2), c)),
            );
            assert_eq!(s, r);
        }
        assert!(s.cwnd > 40);
    }

    #[test]
    fn the_round_trips_to_win_back_a_loss_do_not_depend_on_the_window() {
        // Kelly 2003: ln(1 - b) / ln(1 + a) = 13.4 round trips.
        for w in [1_000, 100_000] {
            let mut cc = make(&ENTRY);
            let mut c = avoiding(reduced(w, 3));
            let mut acked = 0.0;
            while c.cwnd < w {
                acked += 1.0 / f64::from(c.cwnd);
                cc.on_ack(&ack(1), &mut c);
            }
            assert!((acked - 13.4).abs() < 0.2, "{acked} round trips from a window of {w}");
        }
    }
}
