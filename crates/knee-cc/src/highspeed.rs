//! HighSpeed TCP: Reno below 38 packets; above, the increase grows and the decrease shrinks with the window.
//!
//! Source: RFC 3649 in the form of Linux's `tcp_highspeed.c`. Between W_low = 38 packets at a loss rate of 10^-3 and
//! W_high = 83000 packets at 10^-7 the response function is a line in log-log scale (Sec. 5):
//!
//! - `p(w) = 0.078 / w^1.2`
//! - `b(w) = (b_high - 0.5) (ln w - ln W_low) / (ln W_high - ln W_low) + 0.5`, b_high = 0.1
//! - `a(w) = w^2 p(w) 2 b(w) / (2 - b(w))` packets per round trip
//! - loss: `ssthresh = max(cwnd - b cwnd, 2)`
//!
//! Linux goes by the RFC's table (Appendix B) of the windows at which `a` reaches the next whole packet, with `b` at
//! those windows in 256ths, rounded down.
//!
//! Departures from the RFC, all as Linux does: every ACK counts as one, however many packets it acknowledges, so that
//! delayed ACKs halve the growth; the row of the table is looked up when the window grows, not when it is cut; what an
//! ACK in slow start acknowledges beyond `ssthresh` is not used.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{Ack, Congestion, CongestionControl, Control, Needs, increase, slow_start};
use knee_core::convert::{index_u32, saturating_u32, truncated_u32};

/// HighSpeed TCP's registry entry.
pub const ENTRY: Entry = Entry {
    name: "highspeed",
    family: Family::LossBased,
    about: "Reno with larger increases and smaller decreases at larger windows",
    source: "RFC 3649; Linux net/ipv4/tcp_highspeed.c",
    params: slow_start::Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| slow_start::with(HighSpeed::default(), &params.into(), init),
};

/// RFC 3649, Appendix B: row `i` holds up to this many packets, and there `a` is `i + 1`.
const WINDOWS: [u32; 72] = [
    38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399, 3778, 4177, 4596, 5036,
    5497, 5979, 6483, 7009, 7558, 8130, 8726, 9346, 9991, 10_661, 11_358, 12_082, 12_834, 13_614, 14_424, 15_265,
    16_137, 17_042, 17_981, 18_955, 19_965, 21_013, 22_101, 23_230, 24_402, 25_618, 26_881, 28_193, 29_557, 30_975,
    32_450, 33_986, 35_586, 37_253, 38_992, 40_808, 42_707, 44_694, 46_776, 48_961, 51_258, 53_677, 56_230, 58_932,
    61_799, 64_851, 68_113, 71_617, 75_401, 79_517, 84_035, 89_053,
];

/// The largest window that grows, in packets: beyond it Linux's arithmetic could overflow.
const CLAMP: u32 = u32::MAX / 128;

/// State of a connection.
#[derive(Clone, Default)]
struct HighSpeed {
    /// Row of [`WINDOWS`] in force.
    row: usize,
}

/// Decrease factor at window `w` in packets, 0.5 at 38 and 0.1 at 83000 (RFC 3649, Sec. 5).
fn b(w: f64) -> f64 {
    let (low, high) = (libm::log(38.0), libm::log(83_000.0));
    (0.1 - 0.5) * (libm::log(w) - low) / (high - low) + 0.5
}

/// Decrease factor of a row of the table, in 256ths.
fn decrease_256ths(row: usize) -> u32 {
    truncated_u32(256.0 * b(f64::from(WINDOWS[row])))
}

/// The row with `WINDOWS[row - 1] < cwnd <= WINDOWS[row]`, or the last.
fn row_of(cwnd: u32) -> usize {
    WINDOWS.partition_point(|&w| w < cwnd).min(WINDOWS.len() - 1)
}

/// `ssthresh` after a congestion signal at `cwnd` packets.
fn reduced(cwnd: u32, row: usize) -> u32 {
    let cut = (u64::from(cwnd) * u64::from(decrease_256ths(row))) >> 8;
    (cwnd - saturating_u32(cut)).max(2)
}

impl CongestionControl for HighSpeed {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        let c = control;
        if c.in_slow_start() {
            increase::slow_start(c, ack.delivered);
        } else {
            self.row = row_of(c.cwnd);
            if c.cwnd < CLAMP {
                c.cwnd_cnt = c.cwnd_cnt.saturating_add(index_u32(self.row) + 1);
                if c.cwnd_cnt >= c.cwnd {
                    c.cwnd_cnt -= c.cwnd;
                    c.cwnd += 1;
                }
            }
        }
        c.phase = increase::classic_phase(c);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = reduced(control.cwnd, self.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, avoiding, loss_at, make};
    use knee_core::Time;

    /// Increase per round trip at window `w` (RFC 3649, Sec. 5).
    fn a(w: f64) -> f64 {
        let p = 0.078 / libm::pow(w, 1.2);
        w * w * p * 2.0 * b(w) / (2.0 - b(w))
    }

    #[test]
    fn the_response_function_hits_its_two_anchors() {
        assert!((b(38.0) - 0.5).abs() < 1e-12 && (b(83_000.0) - 0.1).abs() < 1e-12);
        // One packet per round trip at W_low, as Reno, within what the fit of `p` allows.
        assert!((a(38.0) - 1.0).abs() < 0.05);
    }

    #[test]
    fn the_equation_gives_the_tables_increase_at_every_row() {
        // The RFC's program takes more digits of `p(w)` than its text; the difference stays below 0.3 %.
        for (i, &w) in WINDOWS.iter().enumerate().skip(1) {
            let row = (i + 1) as f64;
            assert!((a(f64::from(w)) / row - 1.0).abs() < 0.003, "row {i}: {w}");
        }
    }

    #[test]
    fn decreases_are_the_tables() {
        // RFC 3649, Appendix B: 0.50, 0.44, 0.41, 0.38, 0.37 and in the last row 0.10.
        let rows = [0, 1, 2, 3, 4, 71].map(decrease_256ths);
        assert_eq!(rows, [128, 112, 104, 98, 93, 24]);
    }

    #[test]
    fn rows_end_at_their_windows() {
        assert_eq!([1, 38, 39, 118, 119, 89_053, 1_000_000].map(row_of), [0, 0, 1, 1, 2, 71, 71]);
    }

    #[test]
    fn an_ack_counts_once_whatever_it_acknowledges() {
        let mut cc = make(&ENTRY);
        // 600 is in row 5: six counts an ACK, 100 ACKs to a packet.
        let mut c = avoiding(600);
        for _ in 0..99 {
            cc.on_ack(&ack(2), &mut c);
        }
        assert_eq!((c.cwnd, c.cwnd_cnt), (600, 594));
        cc.on_ack(&ack(2), &mut c);
        assert_eq!((c.cwnd, c.cwnd_cnt), (601, 0));
        // 601 * 89 / 256 = 208.9.
        assert_eq!(crate::testing::after(c, |c| cc.on_congestion(&loss_at(Time::ZERO), c)).ssthresh, 601 - 208);
    }

    #[test]
    fn the_row_is_that_of_the_last_growth() {
        // Straight out of slow start the cut is a half whatever the window.
        assert_eq!(
            crate::testing::after(avoiding(600), |c| make(&ENTRY).on_congestion(&loss_at(Time::ZERO), c)).ssthresh,
            300
        );
    }
}
