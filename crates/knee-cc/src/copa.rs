//! Copa: steers the rate to `1 / (delta d_q)`, so that about `1 / delta` packets of the flow wait, and empties the
//! queue every few round trips to see what the path is like without it.
//!
//! Source: V. Arun, H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018, and
//! the authors' sender (genericCC, `MarkovianCC` in the mode `auto`), which takes precedence where the two differ.
//!
//! - queueing delay: `d_q = RTTstanding - RTTmin`; RTTstanding is the least RTT of the last srtt/2, RTTmin that of the
//!   last 10 s (Sec. 2.1) or 20 `RTTmin`, whichever is longer
//! - target rate: `lambda_t = 1 / (delta d_q)` (Eq. 1); current rate: `lambda = cwnd / RTTstanding`
//! - per packet acknowledged: `cwnd += v / (delta cwnd)` where `lambda <= lambda_t`, else `cwnd -= v / (delta cwnd)`
//! - velocity `v`: 1 at first; doubles after each round trip in the same direction and falls back to 1 at a turn
//!   (Sec. 2.1). The direction of a round trip is that of most of its ACKs; `v` halves where it is beyond `delta cwnd`
//! - pacing at `2 cwnd / RTTstanding`
//! - mode (Sec. 2.2): the queue is nearly empty where the least RTT of the last 4 srtt is within 10 % of RTTmax -
//!   RTTmin of RTTmin, RTTmax that of the same span. Otherwise another flow fills the buffer: competitive mode
//! - competitive mode: `1 / delta` grows by one per round trip without a loss and halves on one; never below its value
//!   in default mode, 2 (delta = 0.5), to which it returns once no loss was seen for a round trip
//!
//! Units: packets, seconds inside.
//!
//! ```text
//! slow_start ──lambda > lambda_t──► default ◄──────────► competitive
//! ```
//!
//! The authors' sender differs from the paper also in these points:
//!
//! - The window does not move on the first 19 ACKs. Until then nothing is paced and one packet more than the window is
//!   under way. Then the window grows by one with each ACK until `lambda > lambda_t`.
//! - The window shrinks by 30 % where 30 % of the packets of two round trips got lost.
//! - The pacing clock starts anew whenever the window, rounded up, is under way: a packet waits half its flow's packet
//!   time after the ACK that lets it go. (The program would let one more go then, but the clock never comes to that.)
//! - The program looks at the clock when an ACK comes and every so often after it (`timer`): a packet leaves that much
//!   late, and the next one that much sooner. Here each gap differs by up to half of that, at random.

use crate::entry::{Entry, Family};
use crate::window::rate_of;
use crate::{Ack, Congestion, CongestionControl, Control, Init, Needs};
use knee_core::convert::truncated_u32;
use knee_core::{Rate, Rng, Time, params};
use std::collections::VecDeque;

/// Copa's registry entry.
pub const ENTRY: Entry = Entry {
    name: "copa",
    family: Family::DelayBased,
    about: "steers to the rate 1 / (delta queueing delay); competes with flows that fill the buffer",
    source: "Arun, Balakrishnan: Copa, NSDI 2018",
    params: Params::DECLARED,
    phases: &["slow_start", "default", "competitive"],
    edges: &[(SLOW_START, DEFAULT), (SLOW_START, COMPETITIVE), (DEFAULT, COMPETITIVE), (COMPETITIVE, DEFAULT)],
    min_cwnd: 2,
    needs: Needs { pacing: true, full_control: true, ..Needs::NONE },
    make: |params, init| Box::new(Copa::new(Params::from(params), init)),
};

params! {
    /// Copa's parameters.
    struct Params {
        /// 1 / delta packets per flow are kept queued
        delta: f64 = 0.5, in 0.001..=100.0, from "NSDI 2018, Sec. 2";
        /// compete with flows that fill the buffer
        mode_switching: bool = true, from "NSDI 2018, Sec. 2.2";
        /// lifetime of the minimum RTT
        min_rtt_window: Time = Time::from_secs(10), in Time::from_millis(1)..=Time::from_secs(1000),
            from "NSDI 2018, Sec. 2.1";
        /// how coarse the waits of the sender are
        timer: Time = Time::ZERO, in Time::ZERO..=Time::from_millis(10), from "genericCC, ctcp.hh";
    }
}

const SLOW_START: u8 = 0;
const DEFAULT: u8 = 1;
const COMPETITIVE: u8 = 2;

/// The least window, in packets: the authors' sender's.
const LEAST: u32 = 2;
/// ACKs of the first two windows, which only measure.
const PROBES: u64 = 19;
/// Losses among that many packets or fewer do not make the window shrink.
const FEW: u32 = 20;

#[derive(Clone)]
struct Copa {
    params: Params,
    /// Packets.
    window: f64,
    /// The window last set at the sender, in whole packets.
    written: u32,
    slow_start: bool,
    competitive: bool,
    acked: u64,
    srtt: Time,
    min_rtt: Extreme,
    standing: Extreme,
    recent_min: Extreme,
    recent_max: Extreme,
    /// 1 / delta in force.
    packets: f64,
    /// When that last grew, and last shrank on a loss.
    grown_at: Option<Time>,
    lost_at: Option<Time>,
    velocity: f64,
    /// Direction of the last round trip.
    up: bool,
    /// ACKs of the round trip under way below the target, less those above.
    balance: i64,
    round_begin: Time,
    losses: Losses,
    rng: Rng,
}

/// An extreme RTT over a sliding span of time: the candidates, each better than all after it.
#[derive(Clone, Default)]
struct Extreme(VecDeque<(Time, Time)>);

impl Extreme {
    /// Takes a sample; `better` tells whether it makes an older one useless. The newest stays, however old.
    fn add(&mut self, now: Time, rtt: Time, span: Time, better: fn(&Time, &Time) -> bool) {
        while self.0.back().is_some_and(|(_, old)| better(&rtt, old)) {
            self.0.pop_back();
        }
        self.0.push_back((now, rtt));
        while self.0.len() > 1 && self.0[0].0 < now.saturating_sub(span) {
            self.0.pop_front();
        }
    }

    fn get(&self) -> Option<Time> {
        self.0.front().map(|(_, rtt)| *rtt)
    }
}

/// Packets delivered and lost since a moment.
#[derive(Clone, Default)]
struct Losses {
    since: Time,
    packets: u32,
    lost: u32,
}

impl Losses {
    /// Counts the packets that an ACK settled; whether 30 % of those of two round trips got lost.
    fn too_many(&mut self, now: Time, rtt: Time, delivered: u32, lost: u32) -> bool {
        self.lost = self.lost.saturating_add(lost);
        self.packets = self.packets.saturating_add(delivered).saturating_add(lost);
        if now <= self.since.saturating_add(rtt).saturating_add(rtt) || self.packets <= FEW {
            return false;
        }
        let many = f64::from(self.lost) > 0.3 * f64::from(self.packets);
        *self = Self { since: now, ..Self::default() };
        many
    }
}

/// `lambda_t` in packets per second at queueing delay `d_q` in seconds (Eq. 1); infinite without a queue.
fn target_rate(delta: f64, d_q: f64) -> f64 {
    if d_q > 0.0 { 1.0 / (delta * d_q) } else { f64::INFINITY }
}

/// How far `acked` packets move the window, in packets.
fn step(v: f64, delta: f64, cwnd: f64, acked: f64) -> f64 {
    v / (delta * cwnd) * acked
}

impl Copa {
    fn new(params: Params, init: &Init) -> Self {
        let packets = 1.0 / params.delta;
        Self {
            params,
            window: f64::from(init.cwnd),
            written: init.cwnd,
            slow_start: true,
            competitive: false,
            acked: 0,
            srtt: Time::ZERO,
            min_rtt: Extreme::default(),
            standing: Extreme::default(),
            recent_min: Extreme::default(),
            recent_max: Extreme::default(),
            packets,
            grown_at: None,
            lost_at: None,
            velocity: 1.0,
            up: true,
            balance: 1,
            round_begin: init.now,
            losses: Losses::default(),
            rng: init.rng.clone(),
        }
    }

    fn measure(&mut self, now: Time, rtt: Time) {
        self.srtt = if self.srtt == Time::ZERO { rtt } else { self.srtt.mul_div(15, 16).saturating_add(rtt / 16) };
        let longest = self.params.min_rtt_window.max(self.min_rtt.get().unwrap_or(Time::ZERO).mul_div(20, 1));
        let recent = longest.min(self.srtt.mul_div(4, 1));
        self.min_rtt.add(now, rtt, longest, Time::le);
        self.standing.add(now, rtt, longest.min(self.srtt / 2), Time::le);
        self.recent_min.add(now, rtt, recent, Time::le);
        self.recent_max.add(now, rtt, recent, Time::ge);
    }

    /// True if somebody else keeps the buffer full.
    fn is_queue_kept_full(&self) -> bool {
        let [least, low, high] =
            [&self.min_rtt, &self.recent_min, &self.recent_max].map(|it| it.get().unwrap_or_default());
        let swing = high.saturating_sub(least).as_secs_f64();
        low.saturating_sub(least).as_secs_f64() >= 0.1 * swing
    }

    /// Moves `1 / delta` on an ACK, or on a loss that one brought to light.
    fn update_delta(&mut self, lost: bool, now: Time, rtt: Time) {
        self.competitive = self.params.mode_switching && self.is_queue_kept_full();
        let least = 1.0 / self.params.delta;
        let past = |at: Option<Time>| at.is_none_or(|at| at.saturating_add(rtt) < now);
        if !self.competitive {
            if self.grown_at.is_none() || past(self.lost_at) {
                self.packets = least;
                self.grown_at = Some(now);
            }
        } else if lost && past(self.lost_at) {
            self.packets /= 2.0;
            self.lost_at = Some(now);
        } else if past(self.grown_at) {
            self.packets += 1.0;
            self.grown_at = Some(now);
        }
        self.packets = self.packets.max(least);
    }

    fn end_round(&mut self, now: Time) {
        if (self.balance > 0) == self.up && self.balance != 0 {
            self.velocity *= 2.0;
        } else {
            self.velocity = 1.0;
            self.up = !self.up;
        }
        self.round_begin = now;
        self.balance = 0;
    }

    /// The window that fits the target rate, packets.
    fn target(&self, rtt: Time) -> f64 {
        let standing = self.standing.get().unwrap_or(rtt);
        let d_q = standing.saturating_sub(self.min_rtt.get().unwrap_or(rtt)).as_secs_f64();
        target_rate(1.0 / self.packets, d_q) * standing.as_secs_f64()
    }

    /// Moves the window on a packet acknowledged.
    fn update_window(&mut self, now: Time, rtt: Time, target: f64) {
        let delta = 1.0 / self.packets;
        if self.slow_start {
            self.window += 1.0;
            self.slow_start = self.window < target;
            return;
        }
        if self.round_begin.saturating_add(rtt) < now {
            self.end_round(now);
        }
        if self.velocity > self.window * delta {
            self.velocity /= 2.0;
        }
        self.velocity = self.velocity.max(1.0);
        let moved = step(self.velocity, delta, self.window, 1.0);
        if self.window < target {
            self.balance += 1;
            self.window += moved;
        } else {
            self.balance -= 1;
            self.window -= moved;
        }
        self.window = self.window.max(f64::from(LEAST)).min(1e9);
    }

    /// The rate that makes the next gap between packets as long as the program's timer lets it be.
    fn rate(&mut self, mss: u32, standing: Time) -> Rate {
        let gap = standing.as_secs_f64() / (2.0 * self.window);
        let off = self.params.timer.as_secs_f64() * (self.rng.unit() - 0.5);
        rate_of(2.0 * self.window * gap / (gap + off).max(1e-9), mss, standing)
    }

    fn answer(&mut self, mss: u32, control: &mut Control) {
        let paced = self.standing.get().filter(|_| self.acked > PROBES);
        self.written = truncated_u32(self.window.ceil()) + u32::from(paced.is_none());
        control.cwnd = self.written;
        control.pacing_rate = Some(paced.map_or(Rate::MAX, |standing| self.rate(mss, standing)));
        control.min_burst = 1;
        control.restart_pacing = true;
        control.phase = match (self.slow_start, self.competitive) {
            (true, _) => SLOW_START,
            (false, false) => DEFAULT,
            (false, true) => COMPETITIVE,
        };
    }
}

impl CongestionControl for Copa {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if control.cwnd != self.written {
            // The sender set another one: after a timeout.
            self.window = f64::from(control.cwnd.max(LEAST));
        }
        let latest = ack.rtt.or_else(|| self.standing.get()).unwrap_or(ack.view.srtt);
        if let Some(rtt) = ack.rtt {
            self.measure(now, rtt);
            if ack.delivered > 0 {
                // The program does so for each packet; at the same moment the second changes nothing.
                self.update_delta(false, now, rtt);
            }
            let target = self.target(rtt);
            for _ in 0..ack.delivered {
                if self.acked >= PROBES {
                    self.update_window(now, rtt, target);
                }
                self.acked += 1;
            }
        }
        if ack.lost > 0 {
            self.update_delta(true, now, Time::ZERO);
        }
        if self.losses.too_many(now, latest, ack.delivered, ack.lost) {
            self.window = (0.7 * self.window).max(f64::from(LEAST));
        }
        self.answer(ack.view.mss, control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = control.cwnd.max(LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, close, init, make};

    fn params() -> Params {
        Params::default()
    }

    #[test]
    fn the_target_rate_keeps_one_over_delta_packets_queued() {
        // delta 0.5 and 4 ms of queue: 500 packets/s, which over 4 ms are 2 packets.
        assert!(close(target_rate(0.5, 0.004), 500.0));
        assert!(target_rate(0.5, 0.0).is_infinite());
    }

    #[test]
    fn a_window_of_packets_moves_it_by_v_over_delta() {
        assert!(close(step(1.0, 0.5, 50.0, 50.0), 2.0) && close(step(8.0, 0.5, 50.0, 50.0), 16.0));
    }

    /// ctcp.hh sends while `seq_num < _largest_ack + 1 + window`, and `_largest_ack` is one more than the last packet
    /// acknowledged: 11 are under way of a window of 10, as long as the pacing interval is zero.
    #[test]
    fn the_window_stands_for_nineteen_acks_and_then_grows_by_one_with_each() {
        let mut cc = make(&ENTRY);
        let mut control = Control::initial(10);
        let windows: Vec<u32> = (1..=22)
            .map(|i| {
                cc.on_ack(&ack_at(Time::from_millis(40 * i), 1, Some(Time::from_millis(40))), &mut control);
                control.cwnd
            })
            .collect();
        assert_eq!((&windows[..19], &windows[19..]), (&[11; 19][..], &[11, 12, 13][..]));
    }

    #[test]
    fn the_velocity_doubles_with_each_round_trip_in_the_same_direction_and_falls_to_one_at_a_turn() {
        let mut copa = Copa::new(params(), &init());
        let seen: Vec<u32> = [5, 5, 5, -5, -5, 0]
            .map(|balance| {
                copa.balance = balance;
                copa.end_round(Time::ZERO);
                copa.velocity as u32
            })
            .to_vec();
        assert_eq!(seen, [2, 4, 8, 1, 2, 1]);
    }

    #[test]
    fn losses_of_more_than_three_in_ten_over_two_round_trips_shrink_the_window() {
        let rtt = Time::from_millis(40);
        let after = |delivered, lost| Losses::default().too_many(Time::from_millis(81), rtt, delivered, lost);
        assert!(after(20, 10) && !after(21, 9) && !after(10, 10));
        assert!(!Losses::default().too_many(Time::from_millis(80), rtt, 20, 10));
    }

    #[test]
    fn gaps_differ_by_up_to_half_of_the_timer_and_are_as_long_on_average() {
        let gaps = |timer_us: u64| -> Vec<f64> {
            let timer = Time::from_micros(timer_us);
            let mut copa = Copa { window: 20.0, ..Copa::new(Params { timer, ..params() }, &init()) };
            let packet = 1448.0 * 8.0;
            // 1 / (2 cwnd / RTTstanding) is 1 ms, in us.
            (0..2000).map(|_| packet / copa.rate(1448, Time::from_millis(40)).as_bps() as f64 * 1e6).collect()
        };
        assert!(gaps(0).iter().all(|gap| (gap - 1000.0).abs() < 0.1));
        let gaps = gaps(100);
        let (least, most) = gaps.iter().fold((f64::MAX, 0.0_f64), |(a, b), gap| (a.min(*gap), b.max(*gap)));
        assert!((950.0..952.0).contains(&least) && (1048.0..1050.1).contains(&most), "{least} to {most}");
        assert!((gaps.iter().sum::<f64>() / 2000.0 - 1000.0).abs() < 3.0);
    }

    #[test]
    fn an_extreme_is_forgotten_after_its_span() {
        let ms = Time::from_millis;
        let mut least = Extreme::default();
        for (now, rtt) in [(0, 9), (1, 5), (2, 7), (3, 6)] {
            least.add(ms(now), ms(rtt), ms(2), Time::le);
        }
        assert_eq!(least.get(), Some(ms(5)));
        least.add(ms(4), ms(8), ms(2), Time::le);
        assert_eq!(least.get(), Some(ms(6)));
    }
}
