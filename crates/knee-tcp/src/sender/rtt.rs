//! Smoothed RTT, retransmission timeout and least RTT, as Linux computes them.
//!
//! Source: RFC 6298 in the fixed-point form of `tcp_rtt_estimator` (net/ipv4/tcp_input.c); the least RTT of the last
//! 300 s by a windowed filter of three samples (Kathleen Nichols; lib/win_minmax.c).

use super::Sender;
use super::ack::Findings;
use super::micros::Micros;
use knee_core::Time;
use knee_core::convert::{low_u32, non_negative, saturating_u32};

//= RFC 6298, 2.5
//# A maximum value MAY be placed on RTO provided it is at least 60 seconds.
/// Longest retransmission timeout (TCP_RTO_MAX), in microseconds.
const RTO_MAX: u32 = 120_000_000;
//= RFC 6298, 2.1
//# Until a round-trip time (RTT) measurement has been made for a segment sent between the sender and receiver, the
//# sender SHOULD set RTO <- 1 second, though the "backing off" on repeated retransmission discussed in (5.5) still
//# applies.
/// Timeout before there is a sample (RFC 6298, 2.1; TCP_TIMEOUT_INIT).
pub const RTO_INITIAL: Time = Time::from_secs(1);
/// Length of the filter of the least RTT (tcp_min_rtt_wlen), in microseconds.
const MIN_RTT_WINDOW: u64 = 300_000_000;

/// The estimators of one connection. Spans inside are in microseconds.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// Eight times the smoothed RTT.
    // It and the deviation wrap at 2^32, as in Linux.
    srtt8: u32,
    /// Four times the mean deviation.
    mdev4: u32,
    /// Greatest `mdev4` of the current round trip.
    mdev_max4: u32,
    /// Deviation used for the timeout.
    rttvar4: u32,
    rto: u32,
    rto_min: u32,
    /// First and third sample of the filter of the least RTT.
    min: u32,
    third: u32,
    /// Until then that filter takes nothing from RTTs above its third sample.
    min_settled: Micros,
    /// The round trip ends when this segment is acknowledged.
    round_end: u64,
}

/// Samples of the filter of the least RTT, least first: when they were taken, and the RTTs.
#[derive(Clone, Debug)]
pub struct LeastRtts([(Micros, u32); 3]);

impl LeastRtts {
    /// A filter without a sample.
    pub const NONE: Self = Self([(Micros(0), u32::MAX); 3]);
}

impl RttEstimator {
    /// Estimators without a sample. A minimum below the clock's resolution, a microsecond, counts as that, and one
    /// above two minutes as two minutes.
    pub fn new(rto_min: Time) -> Self {
        Self {
            srtt8: 0,
            mdev4: 0,
            mdev_max4: 0,
            rttvar4: 0,
            rto: saturating_u32(RTO_INITIAL.as_micros()),
            rto_min: saturating_u32(rto_min.as_micros().clamp(1, u64::from(RTO_MAX))),
            min: u32::MAX,
            third: u32::MAX,
            min_settled: Micros(0),
            round_end: 0,
        }
    }

    /// Smoothed RTT; zero before the first sample.
    pub const fn srtt(&self) -> Time {
        Time::from_micros((self.srtt8 >> 3) as u64)
    }

    /// Eight times the smoothed RTT in microseconds, as Linux keeps it.
    pub const fn srtt8_us(&self) -> u64 {
        self.srtt8 as u64
    }

    /// Smoothed deviation (RFC 6298's RTTVAR).
    pub const fn variance(&self) -> Time {
        Time::from_micros((self.rttvar4 >> 2) as u64)
    }

    /// Least RTT of the last 300 s; `Time::MAX` before the first sample.
    pub const fn min_rtt(&self) -> Time {
        if self.min == u32::MAX { Time::MAX } else { Time::from_micros(self.min as u64) }
    }

    /// Least RTT of the last 300 s in microseconds; `None` before the first sample.
    pub const fn min_rtt_us(&self) -> Option<u32> {
        if self.min == u32::MAX { None } else { Some(self.min) }
    }

    /// Retransmission timeout, backed off where it was.
    pub const fn rto(&self) -> Time {
        self.rto_us().time()
    }

    /// Retransmission timeout in microseconds, on TCP's clock.
    pub const fn rto_us(&self) -> Micros {
        Micros(self.rto as u64)
    }

    /// Doubles the timeout after it fired (RFC 6298, 5.5).
    pub fn back_off(&mut self) {
        //= RFC 6298, 5.5
        //# The host MUST set RTO <- RTO * 2 ("back off the timer"). The maximum value discussed in (2.5) above may be
        //# used to provide an upper bound to this doubling operation.
        self.rto = self.rto.saturating_mul(2).min(RTO_MAX);
    }

    /// Takes an RTT for the smoothed estimate (`rtt`, of the oldest segment newly acknowledged) and for the least RTT
    /// (`newest`, of the newest), whose `filter` lies apart since it is seldom asked. True: the least RTT may have
    /// changed.
    #[inline]
    pub fn sample(
        &mut self,
        (rtt, newest): (Micros, Micros),
        now: Micros,
        (snd_una, snd_nxt): (u64, u64),
        filter: &mut LeastRtts,
    ) -> bool {
        let newest = low_u32(newest.0);
        let updates = newest <= self.third || now > self.min_settled;
        if updates {
            self.update_min(newest, now, filter);
        }
        self.update_srtt(rtt.0.cast_signed(), snd_una, snd_nxt);
        //= RFC 6298, 2.3
        //# After the computation, a host MUST update RTO <- SRTT + max (G, K*RTTVAR)
        self.rto = (self.srtt8 >> 3).saturating_add(self.rttvar4).min(RTO_MAX);
        updates
    }

    fn update_srtt(&mut self, rtt: i64, snd_una: u64, snd_nxt: u64) {
        if self.srtt8 == 0 {
            return self.first_sample(rtt, snd_nxt);
        }
        //= RFC 6298, 2.3
        //# The value of SRTT used in the update to RTTVAR is its value before updating SRTT itself using the second
        //# assignment.
        let error = rtt - i64::from(self.srtt8 >> 3);
        //= RFC 6298, 2.3
        //# SRTT <- (1 - alpha) * SRTT + alpha * R'
        self.srtt8 = low_u32(non_negative(i64::from(self.srtt8) + error).max(1));
        //= RFC 6298, 2.3 (departs: Linux takes the greatest deviation of a round trip)
        //# RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|
        let mut change = error.abs() - i64::from(self.mdev4 >> 2);
        //= RFC 6298, 2.3 (departs: Linux's beta is 1/32 where a falling RTT would raise it)
        //# The above SHOULD be computed using alpha=1/8 and beta=1/4 (as suggested in [JK88]).
        // A falling RTT moves the deviation by an eighth only, so that the timeout does not rise with it.
        if error < 0 && change > 0 {
            change >>= 3;
        }
        self.mdev4 = low_u32(non_negative(i64::from(self.mdev4) + change));
        if self.mdev4 > self.mdev_max4 {
            self.mdev_max4 = self.mdev4;
            self.rttvar4 = self.rttvar4.max(self.mdev_max4);
        }
        if snd_una > self.round_end {
            if self.mdev_max4 < self.rttvar4 {
                self.rttvar4 -= (self.rttvar4 - self.mdev_max4) >> 2;
            }
            self.round_end = snd_nxt;
            //= RFC 6298, 4 (departs: Linux's K*RTTVAR decays to the least RTO, never to zero)
            //# However, if the K*RTTVAR term in the RTO calculation equals zero, the variance term MUST be rounded to G
            //# seconds (i.e., use the equation given in step 2.3).
            self.mdev_max4 = self.rto_min;
        }
    }

    #[cold]
    fn first_sample(&mut self, rtt: i64, snd_nxt: u64) {
        //= RFC 6298, 2.2
        //# When the first RTT measurement R is made, the host MUST set SRTT <- R RTTVAR <- R/2
        self.srtt8 = low_u32(non_negative(rtt << 3).max(1));
        self.mdev4 = low_u32(non_negative(rtt << 1));
        //= RFC 6298, 2.4 (departs: Linux's K*RTTVAR is at least 200 ms, the RTO has no minimum of its own)
        //# Whenever RTO is computed, if it is less than 1 second, then the RTO SHOULD be rounded up to 1 second.
        self.rttvar4 = self.mdev4.max(self.rto_min);
        self.mdev_max4 = self.rttvar4;
        self.round_end = snd_nxt;
    }

    #[cold]
    fn update_min(&mut self, rtt: u32, now: Micros, filter: &mut LeastRtts) {
        filter.take(rtt.max(1), now);
        let [first, second, third] = filter.0;
        (self.min, self.third) = (first.1, third.1);
        // The next change that time alone can bring about.
        let span = match (second.0 == first.0, third.0 == second.0) {
            (true, _) => MIN_RTT_WINDOW / 4,
            (false, true) => MIN_RTT_WINDOW / 2,
            _ => MIN_RTT_WINDOW,
        };
        self.min_settled = Micros(first.0.0 + span);
    }
}

impl LeastRtts {
    //= RFC 8985, 6.2
    //# The sender SHOULD track a windowed min-filtered estimate of recent RTT measurements that can adapt when
    //# migrating to significantly longer paths rather than tracking a simple global minimum of all RTT measurements.
    fn take(&mut self, rtt: u32, now: Micros) {
        let min = &mut self.0;
        let new = (now, rtt);
        let age = |at: Micros| now.since(at).0;
        if rtt <= min[0].1 || age(min[2].0) > MIN_RTT_WINDOW {
            *min = [new; 3];
            return;
        }
        if rtt <= min[1].1 {
            min[1] = new;
            min[2] = new;
        } else if rtt <= min[2].1 {
            min[2] = new;
        }
        let oldest = age(min[0].0);
        if oldest > MIN_RTT_WINDOW {
            *min = [min[1], min[2], new];
            if age(min[0].0) > MIN_RTT_WINDOW {
                *min = [min[1], min[2], new];
            }
        } else if min[1].0 == min[0].0 && oldest > MIN_RTT_WINDOW / 4 {
            min[1] = new;
            min[2] = new;
        } else if min[2].0 == min[1].0 && oldest > MIN_RTT_WINDOW / 2 {
            min[2] = new;
        }
    }
}

impl Sender {
    /// Takes the RTT samples: the oldest newly acknowledged segment for the estimate, the newest for the algorithm
    /// (Karn's rule; a timestamp where only retransmissions were acknowledged).
    pub(super) fn sample_rtt(&mut self, found: &mut Findings, stamp: Micros) -> Option<Micros> {
        let span = |sent: Micros| stamp.since(sent);
        //= RFC 6298, 3
        //# A TCP implementation MUST take at least one RTT measurement per RTT (unless that is not possible per Karn's
        //# algorithm).
        if let (Some((first, last)), false, None) = (found.ack_sent, found.retransmitted_acked, found.sack_sent) {
            let newest = span(last);
            self.feed_rtt(span(first), newest, stamp);
            return Some(newest);
        }
        self.sample_rtt_of_rest(found, stamp)
    }

    #[inline]
    pub(super) fn feed_rtt(&mut self, oldest: Micros, newest: Micros, stamp: Micros) {
        let ends = (self.view.snd_una, self.view.snd_nxt);
        if self.rtt.sample((oldest, newest), stamp, ends, &mut self.least_rtts) {
            self.view.min_rtt = self.rtt.min_rtt();
        }
    }

    /// Takes the RTT sample of an ACK where SACKs or retransmissions are involved.
    #[cold]
    fn sample_rtt_of_rest(&mut self, found: &mut Findings, stamp: Micros) -> Option<Micros> {
        let span = |sent: Micros| stamp.since(sent);
        let mut smooth = None;
        let mut newest = None;
        //= RFC 6298, 3
        //# RTT samples MUST NOT be made using segments that were retransmitted (and thus for which it is ambiguous
        //# whether the reply was for the first instance of the packet or a later instance).
        if let (Some((first, last)), false) = (found.ack_sent, found.retransmitted_acked) {
            smooth = Some(span(first));
            newest = Some(span(last));
        }
        if let Some((first, last)) = found.sack_sent {
            smooth = smooth.or(Some(span(first)));
            newest = Some(span(last));
        }
        //= RFC 6298, 3
        //# The only case when TCP can safely take RTT samples from retransmitted segments is when the TCP timestamp
        //# option [JBB92] is employed, since the timestamp option removes the ambiguity regarding which instance of the
        //# data segment triggered the acknowledgment.
        if smooth.is_none() && found.acked > 0 && self.tsecr != 0 {
            smooth = Some(self.rtt_by_timestamp(stamp));
            newest = smooth;
        }
        let (Some(smooth), Some(newest)) = (smooth, newest) else { return None };
        self.feed_rtt(smooth, newest, stamp);
        // Do not put off the timeout for SACKs of what was sent before the oldest segment was sent last.
        if found.acked == 0 && self.packets_out() > 0 {
            let head = self.rtx.burst_of(self.view.snd_una).sent();
            found.set_timer |= found.sack_sent.is_some_and(|(first, _)| first < head);
        }
        Some(newest)
    }

    #[cold]
    fn rtt_by_timestamp(&self, stamp: Micros) -> Micros {
        let ms = Self::tsval(stamp.time()).wrapping_sub(self.tsecr);
        Micros(1000 * u64::from(ms.clamp(1, 3_600_000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(estimator: &mut RttEstimator, ms: u64, una: u64) {
        let rtt = Micros(1000 * ms);
        estimator.sample((rtt, rtt), Micros(1000 * una), (una, una + 1), &mut LeastRtts::NONE.clone());
    }

    #[test]
    fn the_first_sample_sets_srtt_and_a_timeout_no_less_than_200_ms_above_it() {
        let mut estimator = RttEstimator::new(Time::from_millis(200));
        take(&mut estimator, 40, 1);
        assert_eq!(estimator.srtt(), Time::from_millis(40));
        assert_eq!(estimator.rto(), Time::from_millis(240));
    }

    #[test]
    fn srtt_moves_by_an_eighth_of_the_error() {
        let mut estimator = RttEstimator::new(Time::from_millis(200));
        take(&mut estimator, 40, 1);
        take(&mut estimator, 48, 2);
        assert_eq!(estimator.srtt(), Time::from_millis(41));
    }

    #[test]
    fn a_backed_off_timeout_doubles_up_to_two_minutes() {
        let mut estimator = RttEstimator::new(Time::from_millis(200));
        take(&mut estimator, 40, 1);
        estimator.back_off();
        assert_eq!(estimator.rto(), Time::from_millis(480));
        (0..20).for_each(|_| estimator.back_off());
        assert_eq!(estimator.rto(), Time::from_secs(120));
    }

    #[test]
    fn a_timeout_is_never_zero_whatever_its_minimum() {
        // Doubling zero would let it fire for ever at one instant.
        for rto_min in [Time::ZERO, Time::from_nanos(15)] {
            let mut estimator = RttEstimator::new(rto_min);
            take(&mut estimator, 0, 1);
            (2..50).for_each(|una| take(&mut estimator, 0, una));
            assert!(estimator.rto() > Time::ZERO);
            (0..30).for_each(|_| estimator.back_off());
            assert_eq!(estimator.rto(), Time::from_secs(120));
        }
    }

    #[test]
    fn a_minimum_of_hours_is_cut_to_two_minutes() {
        // In microseconds, 2^32 of them are 72 minutes.
        let mut estimator = RttEstimator::new(Time::from_micros(1 << 32));
        take(&mut estimator, 40, 1);
        assert_eq!(estimator.rto(), Time::from_secs(120));
    }

    #[test]
    fn the_least_rtt_is_forgotten_after_300_s() {
        let mut estimator = RttEstimator::new(Time::from_millis(200));
        let mut filter = LeastRtts::NONE;
        for (s, ms, least) in [(0, 10, 10), (100, 20, 10), (200, 30, 10), (299, 30, 10), (301, 30, 20)] {
            let rtt = Micros(1000 * ms);
            estimator.sample((rtt, rtt), Micros(1_000_000 * s), (s, s + 1), &mut filter);
            assert_eq!(estimator.min_rtt(), Time::from_millis(least));
        }
    }
}
