//! The paper's equations, each by itself. RTTs and delays in microseconds, windows in packets or bytes as named.

use knee_core::Time;
use knee_core::convert::{saturating_u32, saturating_u64, truncated};

/// Eq. 2, `X(t) = (t / phi)³`: the data in bytes that every flow should keep in the queue, `t` after fair flow
/// balancing began, with `t` in milliseconds. Rounded down.
pub fn fair_flow_target(t: Time, phi: f64) -> u64 {
    let ratio = t.as_millis_f64() / phi;
    truncated(ratio * ratio * ratio)
}

/// Eq. 6, `Q_delay = RTT_now - RTT_min`.
pub const fn q_delay(rtt_now: u64, rtt_min: u64) -> u64 {
    rtt_now.saturating_sub(rtt_min)
}

/// Eq. 7, `Q_data = Q_delay · CWnd / RTT_now`: the flow's own part of the queue, in the unit of `cwnd`.
pub const fn q_data(cwnd: u64, rtt_now: u64, rtt_min: u64) -> u64 {
    let rtt = if rtt_now == 0 { 1 } else { rtt_now };
    saturating_u64(q_delay(rtt_now, rtt_min) as u128 * cwnd as u128 / rtt as u128)
}

/// Section III-E, `CWnd = (CWnd - Q_data) · gamma`: the window in packets after tailored decrease, `gamma` in 1/1024.
///
/// Eq. 3 gives K such that the cubic function of Eq. 1 starts from this window.
pub const fn tailored_decrease(cwnd: u32, rtt_now: u64, rtt_min: u64, gamma: u64) -> u32 {
    let rtt = if rtt_now == 0 { 1 } else { rtt_now as u128 };
    let emptied = cwnd as u128 * if rtt_min < rtt_now { rtt_min as u128 } else { rtt };
    let left = emptied * gamma as u128 / (rtt * 1024);
    if left < 2 { 2 } else { saturating_u32(saturating_u64(left)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fair_target_reaches_a_megabyte_after_3_5_s() {
        // (3500 / 35)³ = 10^6 bytes; (350 / 35)³ = 1000.
        assert_eq!(
            [3_500, 350, 35, 0].map(|ms| fair_flow_target(Time::from_millis(ms), 35.0)),
            [1_000_000, 1000, 1, 0]
        );
    }

    #[test]
    fn own_queued_data_is_the_window_times_the_queueing_share_of_the_rtt() {
        // 5 of 26 ms of 2600 packets.
        assert_eq!(q_data(2_600, 26_000, 21_000), 500);
        assert_eq!(q_data(2_600, 21_000, 21_000), 0);
        assert_eq!(q_data(2_600, 0, 21_000), 0);
    }

    #[test]
    fn the_decrease_empties_the_queue_and_leaves_gamma() {
        // (2600 - 500) · 973 / 1024 = 1995.4.
        assert_eq!(tailored_decrease(2_600, 26_000, 21_000, 973), 1_995);
        // Never more than gamma, also where RTT_min is above RTT_now; never below two.
        assert_eq!(tailored_decrease(1_024, 20_000, 21_000, 973), 973);
        assert_eq!(tailored_decrease(2, 1_000_000, 1, 973), 2);
    }
}
