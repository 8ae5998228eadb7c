//! SEARCH: slow start ends where the data delivered no longer doubles from one round trip to the next.
//!
//! Source: J. Chung, M. Kachooei, F. Li, M. Claypool, "SEARCH -- a New Slow Start Algorithm for TCP and QUIC",
//! draft-chung-ccwg-search, the text of June 2024 (version 3 of the algorithm), Sec. 3. Its parameters, Sec. 4:
//!
//! - deliveries are counted in bins of 0.35 initial RTTs; ten of them, 3.5 RTTs, are a window
//! - when a bin is complete, the window up to now is compared with the one an RTT earlier, at this ACK's RTT:
//!   `norm_diff = (2 prev_delv - curr_delv) / (2 prev_delv)`; 0.35 or more ends slow start
//! - what was delivered in the last two initial RTTs is taken off the window, which grew by it since the path was full
//!
//! Packets are counted where the text counts bytes. An RTT may end within a bin, of which then a share counts. An RTT
//! of more than fifteen bins, 5.25 initial RTTs, cannot be compared. The text's line 26 clears the bin before the new
//! ones, against its own explanation; here only new ones are cleared. Later versions of the draft compare what was
//! delivered with what had been sent, and this one does not.

use super::SlowStart;
use crate::{Ack, Control, Init};
use knee_core::Time;
use knee_core::convert::{index, saturating_u32};

/// Bins of a window (`W`).
const WINDOW: u64 = 10;
/// Bins that an RTT may span (`EXTRA_BINS`).
const EXTRA: u64 = 15;
/// Bins that are kept: a window before the longest RTT, and the bin at its near end.
const KEPT: usize = index(WINDOW + EXTRA + 1);
/// A bin in hundredths of the initial RTT: 3.5 / 10.
const BIN_PERCENT: u64 = 35;
/// The difference that ends slow start, in percent (`THRESH`).
const THRESHOLD_PERCENT: u128 = 35;

/// The state of a connection.
#[derive(Clone)]
pub(super) struct Search {
    initial_rtt: Time,
    /// Duration of a bin.
    bin: Time,
    /// End of the bin that fills.
    bin_end: Time,
    /// Bins completed.
    completed: u64,
    /// Packets delivered in bin `n`, at `n % KEPT`; the first bin is 1.
    bins: [u64; KEPT],
    /// Packets delivered in all of them.
    delivered: u64,
}

/// True if so little was delivered that slow start should end. `prev` is in packets times `unit`.
const fn flattens(curr: u64, prev: u128, unit: u64) -> bool {
    // 1 - curr / (2 prev) >= 0.35.
    prev > 0 && 2 * prev * (100 - THRESHOLD_PERCENT) >= 100 * curr as u128 * unit as u128
}

impl Search {
    pub fn new(init: &Init) -> Self {
        let bin = init.rtt.mul_div(BIN_PERCENT, 100).max(Time::from_micros(1));
        Self {
            initial_rtt: init.rtt,
            bin,
            bin_end: init.now.saturating_add(bin),
            completed: 0,
            bins: [0; KEPT],
            delivered: 0,
        }
    }

    /// Puts what was delivered since the last bin into the newest of those that have passed (`update_bins`).
    fn update_bins(&mut self, now: Time, delivered: u64) {
        let passed = now.saturating_sub(self.bin_end).as_nanos() / self.bin.as_nanos() + 1;
        self.bin_end = self.bin_end.saturating_add(self.bin.mul_div(passed, 1));
        for i in 1..=passed.min(KEPT as u64) {
            self.bins[index((self.completed + i) % KEPT as u64)] = 0;
        }
        self.completed += passed;
        self.bins[index(self.completed % KEPT as u64)] = delivered.saturating_sub(self.delivered);
        self.delivered = delivered;
    }

    /// Packets delivered in bin `n`.
    fn at(&self, n: u64) -> u64 {
        self.bins[index(n % KEPT as u64)]
    }

    /// Packets delivered in the bins after `from`, up to and with `to` (`sum_bins`).
    fn sum(&self, from: u64, to: u64) -> u64 {
        (from + 1..=to).map(|n| self.at(n)).sum()
    }

    /// Packets delivered in the window that ended `rtt` before the newest bin's end, times the nanoseconds of a bin;
    /// `None` where there are not enough bins.
    fn earlier(&self, rtt: Time) -> Option<u128> {
        let bin = self.bin.as_nanos();
        let (back, fraction) = (rtt.as_nanos() / bin, rtt.as_nanos() % bin);
        let to = self.completed.checked_sub(back)?;
        // The text counts bins from 0, this from 1.
        if to <= WINDOW || back > EXTRA {
            return None;
        }
        let from = to - WINDOW;
        let (whole, bin, fraction) = (u128::from(self.sum(from, to - 1)), u128::from(bin), u128::from(fraction));
        Some(whole * bin + u128::from(self.at(from)) * fraction + u128::from(self.at(to)) * (bin - fraction))
    }
}

impl SlowStart for Search {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let view = ack.view;
        if view.now <= self.bin_end {
            return;
        }
        self.update_bins(view.now, view.delivered);
        let Some(earlier) = self.earlier(ack.rtt.unwrap_or(view.srtt)) else { return };
        let window = self.sum(self.completed - WINDOW, self.completed);
        if flattens(window, earlier, self.bin.as_nanos()) {
            let back = 2 * self.initial_rtt.as_nanos() / self.bin.as_nanos();
            let overshoot = self.sum(self.completed - back.min(WINDOW), self.completed);
            control.cwnd = saturating_u32(u64::from(control.cwnd).saturating_sub(overshoot).max(2));
            control.ssthresh = control.cwnd;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{INFINITE_SSTHRESH, View, testing};

    const RTT: Time = Time::from_millis(100);

    /// Goes on with an ACK per millisecond of what is delivered by then, until slow start ends. Gives when, in ms.
    fn runs(search: &mut Search, control: &mut Control, until_ms: u64, by: impl Fn(f64) -> f64) -> Option<u64> {
        (1..until_ms).find(|&ms| {
            let now = Time::from_millis(ms);
            let delivered = by(ms as f64 / 100.0) as u64;
            let view = testing::lent(View { now, srtt: RTT, delivered, ..testing::view() });
            search.on_measure(&Ack { view, rtt: Some(RTT), ..testing::ack_of_nothing() }, control);
            control.ssthresh < INFINITE_SSTHRESH
        })
    }

    fn search() -> Search {
        Search::new(&Init { rtt: RTT, ..testing::init() })
    }

    /// Packets that slow start delivers until `t` in RTTs: 100 · 2^t per RTT.
    fn doubling(t: f64) -> f64 {
        100.0 / std::f64::consts::LN_2 * (t.exp2() - 1.0)
    }

    #[test]
    fn a_delivery_rate_that_doubles_never_ends_slow_start() {
        assert_eq!(runs(&mut search(), &mut Control::initial(10), 2_000, doubling), None);
    }

    #[test]
    fn about_two_round_trips_after_the_rate_stops_doubling_slow_start_ends() {
        let full = |t: f64| if t < 8.0 { doubling(t) } else { doubling(8.0) + (t - 8.0) * 25_600.0 };
        let mut control = Control::initial(100_000);
        let end = runs(&mut search(), &mut control, 2_000, full).unwrap();
        // With windows of 3.5 RTTs, 1 - curr / (2 prev) passes 0.35 after 2.2 RTTs; a bin is 0.35 RTTs.
        assert!((1_020..=1_060).contains(&end), "{end} ms");
        // Five bins of 35 ms at 25,600 packets in 100 ms: 44,800.
        assert!(control.cwnd.abs_diff(100_000 - 44_800) < 400, "{}", control.cwnd);
        assert_eq!(control.ssthresh, control.cwnd);
    }

    #[test]
    fn a_difference_of_35_percent_ends_slow_start() {
        // Twice 100 were expected.
        assert!(flattens(130, 100, 1) && !flattens(131, 100, 1));
        assert!(flattens(130, 1000, 10) && !flattens(131, 1000, 10));
        assert!(!flattens(0, 0, 1));
    }

    #[test]
    fn an_rtt_that_ends_within_a_bin_takes_shares_of_the_bins_at_both_ends() {
        let mut search = search();
        search.completed = 13;
        for n in 1..=13 {
            search.bins[n] = 1 << n;
        }
        let bin = u128::from(search.bin.as_nanos());
        // Two bins back: 2 to 11.
        assert_eq!(search.earlier(Time::from_millis(70)), Some(bin * ((1 << 12) - 4)));
        // And half of one more: half of 1, 2 to 10, half of 11.
        let halves = Time::from_micros(87_500);
        assert_eq!(search.earlier(halves), Some(bin * (1 + (1 << 11) - 4 + 1024)));
        // Eleven bins are needed, and no more than fifteen can lie between.
        assert!(search.earlier(Time::from_millis(104)).is_some());
        assert!(search.earlier(Time::from_millis(105)).is_none());
    }

    #[test]
    fn after_a_pause_the_bins_that_passed_are_empty() {
        let mut search = search();
        search.update_bins(Time::from_millis(36), 10);
        search.update_bins(Time::from_millis(35 * 4 + 1), 30);
        assert_eq!([1, 2, 3, 4].map(|n| search.at(n)), [10, 0, 0, 20]);
        search.update_bins(Time::from_secs(1_000), 35);
        assert_eq!((search.at(search.completed), search.sum(search.completed - 26, search.completed)), (5, 5));
    }
}
