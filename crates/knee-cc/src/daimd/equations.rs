//! The equations of delay-based AIMD, in integers: ratios in millionths, times in nanoseconds.

use knee_core::convert::{saturating_u32, saturating_u64, truncated};
use knee_core::{Time, choice};

/// A ratio of one.
pub(super) const ONE: u64 = 1_000_000;

/// A ratio in millionths.
pub(super) fn millionths(ratio: f64) -> u64 {
    truncated(ratio * ONE as f64 + 0.5)
}

/// `time · ratio`.
pub(super) const fn scaled(time: Time, ratio: u64) -> Time {
    time.mul_div(ratio, ONE)
}

choice! {
    /// Additive increase in packets per round trip; the choice is free (Sec. II-B).
    pub(super) enum Increase {
        /// H-TCP's, as the paper prints it (Eq. 2).
        Htcp = "htcp",
        /// H-TCP's, as its draft has it and as Table I was made (draft-leith-tcp-htcp).
        HtcpDraft = "htcp_draft",
        /// One packet per round trip.
        Reno = "reno",
        /// A hundredth of the window (Kelly, "Scalable TCP", 2003).
        Scalable = "scalable",
    }
}

/// Alpha in millionths of a packet per round trip, `since` the last backoff.
pub(super) fn alpha(increase: Increase, since: Time, cwnd: u32) -> u64 {
    let quarters = match increase {
        Increase::Htcp => 2,
        Increase::HtcpDraft => 1,
        Increase::Reno => return ONE,
        Increase::Scalable => return u64::from(cwnd) * ONE / 100,
    };
    // 1 + 10 (D - 1) + 0.5 (D - 1)^2, D in seconds; microseconds are millionths of a second.
    let beyond = since.as_micros().saturating_sub(ONE).min(1 << 40);
    let square = u128::from(beyond) * u128::from(beyond) * quarters / (4 * u128::from(ONE));
    ONE + 10 * beyond + saturating_u64(square)
}

/// Eqs. 3 and 4 with Algorithm 1's cap: `beta = min(delta · RTTmin / RTT, max)`, in millionths.
pub(super) fn backoff(delta: u64, rtt_min: Time, rtt: Time, max: u64) -> u64 {
    if rtt == Time::ZERO { max } else { rtt_min.min(rtt).mul_div(delta, rtt.as_nanos()).as_nanos().min(max) }
}

/// Eq. 5: `tau0 = (1 - gamma) · base + gamma · (RTTmax - RTTmin)`.
pub(super) fn threshold(base: Time, gamma: u64, occupancy: Time) -> Time {
    scaled(base, ONE - gamma.min(ONE)).saturating_add(scaled(occupancy, gamma))
}

/// Algorithm 1, line 3, without the new sample: RTTmax has decayed by `a · RTT` per window, of which `acked` packets
/// came.
pub(super) fn decayed(rtt_max: Time, rtt: Time, cwnd: u32, a: u64, acked: u32) -> Time {
    rtt_max.saturating_sub((scaled(rtt, a) / u64::from(cwnd.max(1))).mul_div(acked.into(), 1))
}

/// Eq. 7: the window above which slow start is limited, in packets; none while there is no queue.
pub(super) fn max_ssthresh(cwnd: u32, tau0: Time, occupancy: Time) -> Option<u32> {
    if occupancy == Time::ZERO {
        return None;
    }
    let packets = u128::from(cwnd) * u128::from(tau0.as_nanos()) / (4 * u128::from(occupancy.as_nanos()));
    Some(saturating_u32(saturating_u64(packets.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eq_2_is_one_packet_in_the_first_second_and_grows_then() {
        let at = |ms| alpha(Increase::Htcp, Time::from_millis(ms), 1);
        // 3 s: 1 + 10 · 2 + 0.5 · 4
        assert_eq!([at(0), at(1_000), at(3_000)], [ONE, ONE, 23 * ONE]);
        assert_eq!(alpha(Increase::HtcpDraft, Time::from_secs(3), 1), 22 * ONE);
        assert_eq!(alpha(Increase::Reno, Time::from_secs(3), 1), ONE);
        assert_eq!(alpha(Increase::Scalable, Time::from_secs(3), 250), 2_500_000);
    }

    /// Seconds of increase at a round trip of 100 ms until half of `window` is regained, from the end of the first
    /// second on, which is what the durations of Table I count.
    fn epoch(increase: Increase, window: u64) -> f64 {
        let (mut packets, mut ms) = (0, 0);
        while packets < window / 2 * ONE * 100 {
            // The increase of one millisecond, times 100.
            packets += alpha(increase, Time::from_millis(1_000 + ms), 1);
            ms += 1;
        }
        ms as f64 / 1e3
    }

    #[test]
    fn table_i_follows_from_the_drafts_alpha() {
        let table = [(100, 1.1), (1000, 3.1), (2000, 4.3), (5000, 6.6), (10_000, 9.2), (20_000, 12.8), (50_000, 19.4)];
        for (window, seconds) in table {
            // Long epochs to the digit printed; short ones within two of the round trips that the table must have
            // counted.
            let allowed = if window < 5000 { 0.25 } else { 0.05 };
            let found = epoch(Increase::HtcpDraft, window);
            assert!((found - seconds).abs() < allowed, "{window}: {found}, not {seconds}");
        }
        // The 0.5 of Eq. 2 in place of 1/4 would give shorter long epochs than the table has.
        assert!(epoch(Increase::Htcp, 50_000) < 19.4 - 1.0);
    }

    #[test]
    fn eqs_3_and_4_scale_with_the_share_of_queueing_in_the_rtt_up_to_a_cap() {
        let ms = Time::from_millis;
        // 120 / 140; times 0.75; and 120 / 121 is capped.
        assert_eq!(backoff(ONE, ms(120), ms(140), 900_000), 857_142);
        assert_eq!(backoff(750_000, ms(120), ms(140), 900_000), 642_857);
        assert_eq!(backoff(ONE, ms(120), ms(121), 900_000), 900_000);
    }

    #[test]
    fn eq_5_lies_between_the_base_and_the_recent_queue() {
        let ms = Time::from_millis;
        assert_eq!(threshold(ms(20), 0, ms(100)), ms(20));
        assert_eq!(threshold(ms(20), 250_000, ms(100)), ms(40));
        assert_eq!(threshold(ms(20), ONE, ms(100)), ms(100));
    }

    #[test]
    fn eq_5_lets_a_queue_of_its_own_grow_to_the_base_threshold_whatever_gamma_is() {
        let rng = &mut knee_core::Rng::stream(1, "daimd thresholds");
        for _ in 0..100_000 {
            let (base, gamma) = (2 + rng.below(1 << 34), rng.below(ONE + 1));
            // Each of the two products is rounded down by less than a nanosecond.
            let queue = Time::from_nanos(rng.below(base - 1));
            assert!(queue <= threshold(Time::from_nanos(base), gamma, queue), "{base} {gamma} {queue}");
        }
    }

    #[test]
    fn rtt_max_decays_by_a_times_the_rtt_over_one_window() {
        let mut rtt_max = Time::from_millis(200);
        for _ in 0..100 {
            rtt_max = decayed(rtt_max, Time::from_millis(100), 100, 10_000, 1);
        }
        assert_eq!(rtt_max, Time::from_millis(199));
    }

    #[test]
    fn eq_7_is_the_window_that_queues_for_tau0() {
        // At a window of 400, a queue of 50 ms holds 100 packets; in 20 ms there are 40.
        assert_eq!(max_ssthresh(400, Time::from_millis(20), Time::from_millis(50)), Some(40));
        assert_eq!(max_ssthresh(400, Time::from_millis(20), Time::ZERO), None);
    }
}
