//! Rapid Start: three times the window per round trip while no queue builds up, and at the first loss a window that
//! comes from what was delivered.
//!
//! Source: K. Oku, M. Welzl, "Rapid Startup of Congestion Control", draft-kazuho-ccwg-rapid-start, the text of 2026
//! after version 02. Its terms, by the sections under "Algorithm":
//!
//! - "Full-RTT Pacing": what first goes beyond slow start, the second flight, is paced over an RTT
//! - "Increasing the Congestion Window": `cwnd += 2 N` per ACK of N packets while
//!   `rtt_floor <= min(min_rtt + 4 ms, 1.1 min_rtt)`, else `cwnd += N`; `rtt_floor` is the least RTT of a round as
//!   HyStart++ (RFC 9406) counts rounds
//! - "Congestion Handling": `cwnd *= s` as recovery begins, then `cwnd -= a` per packet acknowledged and `cwnd -= s`
//!   per packet lost, not below `beta / 3` of the window before it, nor `beta` initial windows
//! - "Reduction Factors": `s = beta + 2/3 (1 - beta)`, `a = 2/3 (1 - beta)`, with the algorithm's own beta; the end is
//!   `beta` times what was delivered of the window that was in flight
//!
//! Only packets that were in flight as recovery began count as acknowledged: TCP's recovery may last for several round
//! trips, in which retransmissions are acknowledged too (the draft leaves such accounting to TCP, "Considerations for
//! TCP"). Over TCP the sender's proportional rate reduction decides when packets leave in recovery, and takes the
//! window above as its aim; over QUIC it is the window. A sender that does not pace grows the same way, in bursts.

use super::SlowStart;
use super::careful_resume::rate_over;
use crate::{Ack, Congestion, Control, Init};
use knee_core::Time;
use knee_core::convert::saturating_u32;

/// A rise of the RTT by this, or by the part of it below, is a queue.
const RISE: Time = Time::from_millis(4);
const RISE_DIVISOR: u64 = 10;
/// Unit of beta.
const ONE: u64 = 1024;

/// The connection's figures when the reduction began.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    /// Window before it, packets.
    cwnd: u32,
    /// Share of that window that the algorithm leaves, in 1/1024.
    beta: u64,
    /// Packets delivered and lost before it.
    delivered: u64,
    lost: u64,
}

/// The state of a connection.
#[derive(Clone)]
pub(super) struct RapidStart {
    initial_cwnd: u32,
    min_rtt: Time,
    /// Least RTT of this round; [`Time::MAX`] for none yet.
    floor: Time,
    /// The round ends when everything before this segment is acknowledged.
    round_end: u64,
    rounds: u32,
    /// Packets lost before the last ACK of slow start: loss detection comes after it.
    lost: u64,
    reduction: Reduction,
}

/// True if the least RTT of a round is a sign of a queue.
fn queue_builds_up(floor: Time, min_rtt: Time) -> bool {
    floor > min_rtt.saturating_add(RISE.min(min_rtt / RISE_DIVISOR))
}

/// The window after `acked` and `lost` of the `cwnd` packets that were in flight, not below `least`; `beta` in 1/1024.
fn converging(cwnd: u32, beta: u64, acked: u64, lost: u64, least: u64) -> u32 {
    // s = (beta + 2) / 3 and a = 2 (1 - beta) / 3.
    let (s, a) = (beta + 2 * ONE, 2 * (ONE - beta));
    let left = (u64::from(cwnd) * s).saturating_sub(acked.saturating_mul(a)).saturating_sub(lost.saturating_mul(s));
    saturating_u32((left / (3 * ONE)).max(least).min(u64::from(cwnd)))
}

impl RapidStart {
    pub fn new(init: &Init) -> Self {
        Self {
            initial_cwnd: init.cwnd,
            min_rtt: init.rtt,
            floor: Time::MAX,
            round_end: 0,
            rounds: 0,
            lost: 0,
            reduction: Reduction::default(),
        }
    }

    fn pace(&self, mss: u32, control: &mut Control) {
        // The first round ends with the first ACK: the one after it sends three initial windows.
        let second = self.rounds == 1;
        let flight = self.initial_cwnd.saturating_mul(3);
        control.pacing_rate = second.then(|| rate_over(flight, mss, self.min_rtt));
    }

    /// The window with `delivered` and `lost` packets in the connection's life.
    fn window(&self, delivered: u64, lost: u64) -> u32 {
        let Reduction { cwnd, beta, .. } = self.reduction;
        let lost = lost.saturating_sub(self.reduction.lost).min(cwnd.into());
        let acked = delivered.saturating_sub(self.reduction.delivered).min(u64::from(cwnd) - lost);
        let least = (u64::from(cwnd) * beta / (3 * ONE)).max(u64::from(self.initial_cwnd.min(cwnd)) * beta / ONE);
        converging(cwnd, beta, acked, lost, least).max(2)
    }
}

impl SlowStart for RapidStart {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let view = ack.view;
        self.lost = view.lost;
        if view.snd_una >= self.round_end {
            self.round_end = view.snd_nxt.max(view.snd_una + 1);
            self.floor = Time::MAX;
            self.rounds = self.rounds.saturating_add(1);
            self.pace(view.mss, control);
        }
        if let Some(rtt) = ack.rtt {
            self.min_rtt = self.min_rtt.min(rtt);
            self.floor = self.floor.min(rtt);
        }
    }

    fn growth(&mut self, ack: &Ack) -> u32 {
        let factor = if self.floor < Time::MAX && !queue_builds_up(self.floor, self.min_rtt) { 2 } else { 1 };
        ack.delivered.saturating_mul(factor)
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let cwnd = control.cwnd;
        self.reduction = Reduction {
            cwnd,
            beta: (u64::from(control.ssthresh) * ONE / u64::from(cwnd.max(1))).min(ONE),
            delivered: congestion.view.delivered,
            lost: self.lost,
        };
        control.ssthresh = self.window(congestion.view.delivered, congestion.view.lost);
    }

    fn on_reducing(&mut self, ack: &Ack, control: &mut Control) {
        control.ssthresh = self.window(ack.view.delivered, ack.view.lost);
        control.cwnd = control.cwnd.min(control.ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Signal, View, testing};

    const RTT: Time = Time::from_millis(40);

    fn start() -> RapidStart {
        RapidStart::new(&Init { rtt: RTT, cwnd: 10, ..testing::init() })
    }

    #[test]
    fn a_queue_is_a_round_trip_longer_by_a_tenth_or_by_4_ms() {
        // 1.1 · 20 ms = 22 ms; 100 ms + 4 ms.
        let builds = |floor, min| queue_builds_up(Time::from_micros(floor), Time::from_micros(min));
        assert_eq!([builds(22_000, 20_000), builds(22_001, 20_000)], [false, true]);
        assert_eq!([builds(104_000, 100_000), builds(104_001, 100_000)], [false, true]);
    }

    #[test]
    fn the_window_grows_threefold_per_round_trip_and_twofold_with_a_queue() {
        let mut start = start();
        let mut c = Control::initial(10);
        let mut grown = |una, ms| {
            let view = testing::lent(View { snd_una: una, snd_nxt: una + 30, ..testing::view() });
            let ack = Ack { view, rtt: Some(Time::from_millis(ms)), ..testing::ack(10) };
            start.on_measure(&ack, &mut c);
            start.growth(&ack)
        };
        assert_eq!([grown(10, 40), grown(20, 50), grown(41, 45), grown(45, 44)], [20, 20, 10, 20]);
    }

    #[test]
    fn the_second_flight_is_paced_over_a_round_trip_and_no_other() {
        let mut start = start();
        let mut c = Control::initial(10);
        let mut paced = |una, nxt| {
            let view = testing::lent(View { snd_una: una, snd_nxt: nxt, ..testing::view() });
            start.on_measure(&Ack { view, rtt: Some(RTT), ..testing::ack(2) }, &mut c);
            c.pacing_rate
        };
        // 30 packets in 40 ms.
        let rate = Some(rate_over(30, testing::init().mss, RTT));
        assert_eq!([paced(2, 10), paced(8, 26), paced(10, 34), paced(12, 40)], [rate, rate, None, None]);
    }

    #[test]
    fn the_factors_are_those_of_the_draft() {
        // Beta 1/2: s = 5/6, a = 1/3. 600 packets, 60 of them acknowledged and 120 lost: 500 - 20 - 100.
        assert_eq!(converging(600, ONE / 2, 60, 120, 0), 380);
        // Beta 0.7: s = 9/10, a = 1/5; of 1000 packets, 100 and 100: 900 - 20 - 90.
        assert!(converging(1000, 717, 100, 100, 0).abs_diff(790) <= 1);
    }

    #[test]
    fn whatever_part_was_lost_the_end_is_beta_times_what_was_delivered() {
        for beta in [ONE / 2, 717, 870] {
            for delivered in [300, 500, 800, 900] {
                let end = u64::from(converging(900, beta, delivered, 900 - delivered, 0));
                assert_eq!(end, delivered * beta / ONE, "beta {beta}, {delivered} delivered");
            }
        }
    }

    #[test]
    fn losses_that_are_no_full_queue_leave_a_third_of_beta() {
        // A draft's floor of 900 · 0.5 / 3; the initial window's half is 5.
        let mut start = start();
        let mut c = Control { ssthresh: 450, ..Control::initial(900) };
        start.on_congestion(&testing::congestion(View { lost: 1, ..testing::view() }, Signal::Loss), &mut c);
        assert_eq!(c.ssthresh, (900 * 5 - 5) / 6);
        let view = testing::lent(View { lost: 890, delivered: 10, ..testing::view() });
        start.on_reducing(&Ack { view, ..testing::ack(0) }, &mut c);
        assert_eq!((c.ssthresh, c.cwnd), (150, 150));
    }
}
