//! When bursts may leave: the pacing clock, and the rate of senders whose algorithm sets none.

use super::Sender;
use knee_core::packet::MSS;
use knee_core::{Bytes, Rate, Time};

/// The burst that holds this packet of a connection is the first that is paced (tcp_update_skb_after_send, which counts
/// a burst before it asks).
const FIRST_PACED: u64 = 10;

/// The pacing clock of a sender, but for the time up to which it is paced, which the algorithm sees
/// ([`knee_cc::View::paced_until`]).
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// When its timer is due; `Time::MAX`: it is not set.
    pub due: Time,
    /// Packets in the window or, where there are more, in flight: what the sender's own rate follows, apart from the
    /// smoothed RTT. Few ask for the rate, so it is divided when asked.
    window: u32,
    /// The window may double in an RTT, so the rate is 200 % of window per RTT, else 120 %.
    doubled: bool,
    /// Departures are paced, those of window-based algorithms too.
    on: bool,
}

impl Pacer {
    /// A clock that has not started.
    pub(super) fn new(on: bool) -> Self {
        Self { due: Time::MAX, window: 0, doubled: false, on }
    }
}

impl Sender {
    /// True if its departures are paced.
    pub const fn paced(&self) -> bool {
        self.pacer.on
    }

    /// True if its receiver counts CE marks.
    pub const fn has_accurate_ecn(&self) -> bool {
        self.ecn.is_accurate()
    }

    /// Rate at which bursts leave, where they are paced: [`Rate::MAX`] holds none back.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacer.on.then(|| self.rate_in_force()).filter(|&rate| rate < Rate::MAX)
    }

    /// The pacing rate of the algorithm or, where it sets none, the sender's own.
    fn rate_in_force(&self) -> Rate {
        self.control.pacing_rate.unwrap_or_else(|| self.own_pacing_rate())
    }

    /// Notes what the sender's own pacing rate follows until the next ACK.
    pub(super) const fn update_pacing_rate(&mut self) {
        let (cwnd, packets_out) = (self.control.cwnd, self.packets_out());
        let window = if cwnd > packets_out { cwnd } else { packets_out };
        (self.pacer.window, self.pacer.doubled) = (window, cwnd < self.control.ssthresh / 2);
    }

    /// The sender's own pacing rate: twice `cwnd / srtt` in slow start, 1.2 times beyond (tcp_update_pacing_rate). It
    /// sizes bursts also where nothing is paced.
    pub(super) fn own_pacing_rate(&self) -> Rate {
        Rate::from_bytes_per_sec(self.own_bytes_per_sec())
    }

    /// The sender's own pacing rate in bytes per second, at most [`Rate::MAX`].
    pub(super) fn own_bytes_per_sec(&self) -> u64 {
        let Pacer { window, doubled, .. } = self.pacer;
        let percent = if doubled { 200 } else { 120 };
        let numerator = (u64::from(MSS) * 80_000 * percent).saturating_mul(u64::from(window));
        let bytes_per_s = numerator.checked_div(self.rtt.srtt8_us()).unwrap_or(numerator);
        bytes_per_s.min(Rate::MAX.as_bytes_per_sec())
    }

    /// Starts the pacing clock anew where the window opens after it held the sender back
    /// ([`knee_cc::Control::restart_pacing`]).
    pub(super) fn restart_pacing(&mut self, now: Time) {
        if self.held_back && self.window_room() > 0 {
            self.held_back = false;
            let wait = self.rate_in_force().time_for(Bytes(u64::from(MSS)));
            self.view.paced_until = self.view.paced_until.max(now.saturating_add(wait));
        }
    }

    /// Returns true if the next departure has to wait for the pacing clock, and sets the pacing timer then.
    pub(super) fn waits_for_pacing(&mut self, now: Time) -> bool {
        let waits = self.pacer.on && self.view.paced_until > now;
        if waits {
            self.pacer.due = self.view.paced_until;
        }
        waits
    }

    /// Segments with so much payload have left: the next ones may when that has gone at the pacing rate
    /// (tcp_update_skb_after_send).
    pub(super) fn advance_pacing_clock(&mut self, payload: u32, now: Time) {
        let prior = self.view.paced_until;
        self.view.paced_until = prior.max(now);
        if self.pacer.on && self.view.snd_nxt + self.totals.retransmitted >= FIRST_PACED {
            let span = self.rate_in_force().time_for(Bytes(payload.into()));
            let credit = self.view.paced_until - prior;
            self.view.paced_until = self.view.paced_until.saturating_add(span - credit.min(span / 2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::AckInfo;
    use crate::sender::Config;
    use crate::sender::testing::{config, established, sender};
    use proptest::prelude::*;

    /// When the next packet may leave after an ACK at 40 ms opened a window that was full, at 100 packets a second.
    fn next_departure(restart: bool) -> Time {
        let config = config(false, 9, 1000);
        let mut sender = sender("reno", None, true, &config);
        sender.control.pacing_rate = Some(Rate::from_bytes_per_sec(100 * u64::from(MSS)));
        sender.control.restart_pacing = restart;
        let (now, mut out) = (Time::from_millis(40), Vec::new());
        sender.on_ack(
            &AckInfo { seq: 2, part: 0, blocks: &[], dsack: false, tsecr: 1, tsval: 0, flags: 0 },
            now,
            &config,
            &mut out,
        );
        if out.is_empty() { sender.view.paced_until } else { now }
    }

    #[test]
    fn a_paced_sender_leaves_at_the_rate_of_its_algorithm_or_twice_its_window_per_rtt() {
        let config = config(false, 9, 1000);
        assert_eq!(sender("reno", None, false, &config).pacing_rate(), None);
        let mut paced = sender("reno", None, true, &config);
        // Ten packets per 20 ms, doubled (tcp_update_pacing_rate).
        let own = paced.pacing_rate().expect("it is paced");
        assert_eq!(own, Rate::from_bytes_per_sec(2 * 10 * u64::from(MSS) * 50));
        paced.control.pacing_rate = Some(Rate::from_bps(5));
        assert_eq!(paced.pacing_rate(), Some(Rate::from_bps(5)));
    }

    proptest! {
        /// tcp_update_skb_after_send: data_segs_out holds the burst already. Bursts leave at once up to the one that
        /// reaches the tenth packet; the next one waits until that has gone at the pacing rate.
        #[test]
        fn the_burst_that_reaches_the_tenth_packet_is_paced(burst in 1u8..20, initial_window in 20u32..60) {
            let config = Config { initial_window, ..config(true, 9, 1000) };
            let mut sender = established("reno", None, true, Some(Time::from_millis(20)), &config);
            sender.control.pacing_rate = Some(Rate::from_bytes_per_sec(100 * u64::from(MSS)));
            (sender.control.min_burst, sender.control.max_burst) = (burst, burst);
            let (now, mut out) = (Time::from_millis(20), Vec::new());
            sender.send(now, &config, &mut out);
            let at_once = u64::from(burst) * 10u64.div_ceil(u64::from(burst));
            prop_assert_eq!(sender.snd_nxt(), at_once);
            prop_assert_eq!(sender.pacer.due, now + Time::from_millis(10 * u64::from(burst)));
        }
    }

    #[test]
    fn where_the_pacing_clock_starts_anew_a_packet_waits_an_interval_after_the_ack_that_opens_the_window() {
        assert_eq!([next_departure(false), next_departure(true)], [40, 50].map(Time::from_millis));
    }
}
