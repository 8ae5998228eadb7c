//! H-TCP: the window grows faster the longer ago the last loss was; a loss reduces it to what just fills the path.
//!
//! Source: D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004, in the form of
//! Linux's `tcp_htcp.c`. With `d` the time since the last reduction ended, times in jiffies:
//!
//! - `alpha = 2 (1 - beta) f(d)`, `f = 1` for the first second, then `1 + 10 (d - 1) + ((d - 1) / 2)^2`; with
//!   RTT scaling `f` is divided by `100 ms / rtt_min`, kept within 0.5 to 10
//! - congestion avoidance: `cwnd += alpha / cwnd` per packet acknowledged
//! - loss: `beta = rtt_min / rtt_max` within 0.5 to 0.8, `ssthresh = beta cwnd`; where the throughput reached changed
//!   by more than 20 % since the loss before, beta = 0.5 (throughput switch)
//! - throughput: packets acknowledged over at least a window and an RTT, smoothed by 1/4, its greatest value between
//!   two losses
//!
//! alpha and beta are kept in 128ths.
//!
//! Departures from the paper, all as Linux does: adaptive backoff waits for the second loss in a row without a switch,
//! and for a `rtt_min` above 10 ms; `rtt_max` grows only in steps of at most 20 ms (so that single outliers do not
//! count) and fades by 5 % of the queueing delay per loss; alpha is computed anew only when the window has grown, so
//! that the first packet after a loss is still gained at the pace before it; what one ACK in slow start acknowledges
//! beyond `ssthresh` is not used. The first throughput sample reaches back to the kernel's start and is zero.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::jiffies::Jiffies;
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, StateChange, StateEvent, Undo, increase,
    slow_start,
};
use knee_core::convert::saturating_u32;
use knee_core::{Time, params};

/// H-TCP's registry entry.
pub const ENTRY: Entry = Entry {
    name: "htcp",
    family: Family::LossBased,
    about: "increase that grows with the time since the last loss, backoff to an empty queue",
    source: "Leith, Shorten, H-TCP, PFLDnet 2004; Linux net/ipv4/tcp_htcp.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        slow_start::with(Htcp::new(params, init), &params.start, init)
    },
};

params! {
    /// H-TCP's parameters.
    struct Params {
        /// scale growth to that of a flow with an RTT of 100 ms
        use_rtt_scaling: bool = true, from "tcp_htcp.c";
        /// halve the window on a loss if the throughput changed by more than 20 %
        use_bandwidth_switch: bool = true, from "Leith, Shorten 2004; tcp_htcp.c";
        #[flatten]
        start: slow_start::Params;
    }
}

/// 1 in the unit of alpha and beta.
const ONE: u64 = 1 << 7;
/// Least beta, 0.5.
const BETA_MIN: u64 = 1 << 6;
/// Greatest beta, 0.8 rounded down.
const BETA_MAX: u64 = 102;

/// State that a reduction changes, as it was before; restored if the reduction was wrong.
#[derive(Clone, Copy, Debug)]
struct Before {
    last_cong: u64,
    rtt_max: u64,
    old_max_rate: u64,
}

/// State of a connection.
#[derive(Clone)]
struct Htcp {
    p: Params,
    clock: Jiffies,
    /// Growth per round trip in 128ths of a packet.
    alpha: u64,
    /// Share of the window that a loss leaves, in 128ths.
    beta: u64,
    /// The last reduction allowed beta to adapt.
    adaptive: bool,
    /// Packets the next ACK in congestion avoidance counts for.
    pkts_acked: u32,
    /// Least RTT in jiffies; zero before the first sample.
    rtt_min: u64,
    /// Greatest RTT in jiffies.
    rtt_max: u64,
    /// When the last reduction ended, in jiffies.
    last_cong: u64,
    /// Set while a reduction is under way.
    before: Option<Before>,
    rate: Throughput,
}

/// Throughput reached, in packets per second.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput {
    /// Packets acknowledged since `since`.
    packets: u64,
    /// Start of the sample, in jiffies; `None`: the kernel's start, long ago.
    since: Option<u64>,
    /// Smoothed.
    smoothed: u64,
    /// Greatest since the last reduction.
    max: u64,
    /// Greatest between the two reductions before.
    old_max: u64,
}

/// Growth `f(d)`, in packets per round trip, `d` in ticks of 1/`hz` s.
fn growth(d: u64, hz: u64) -> u64 {
    if d <= hz {
        return 1;
    }
    let d = d - hz;
    let half = d / 2;
    1 + (d.saturating_mul(10).saturating_add(half.saturating_mul(half) / hz)) / hz
}

/// Growth scaled to an RTT of 100 ms: `f` over `100 ms / rtt_min`, that ratio in eighths and within 0.5 to 10.
fn rtt_scaled(f: u64, rtt_min: u64, hz: u64) -> u64 {
    let ratio = ((hz << 3) / (10 * rtt_min.max(1))).clamp(1 << 2, 10 << 3);
    (f.saturating_mul(8) / ratio).max(1)
}

/// `alpha = 2 (1 - beta) f`, in 128ths.
fn alpha(f: u64, beta: u64) -> u64 {
    2u64.saturating_mul(f).saturating_mul(ONE - beta)
}

/// `rtt_min / rtt_max` within 0.5 to 0.8, in 128ths.
fn adaptive_beta(rtt_min: u64, rtt_max: u64) -> u64 {
    (rtt_min.saturating_mul(ONE) / rtt_max.max(1)).clamp(BETA_MIN, BETA_MAX)
}

/// True if the throughput is within 20 % of the previous one.
fn steady(max: u64, old_max: u64) -> bool {
    (old_max.saturating_mul(4)..=old_max.saturating_mul(6)).contains(&max.saturating_mul(5))
}

impl Htcp {
    fn new(p: Params, init: &Init) -> Self {
        let clock = Jiffies::new(init.tick);
        Self {
            p,
            clock,
            alpha: ONE,
            beta: BETA_MIN,
            adaptive: false,
            pkts_acked: 1,
            rtt_min: 0,
            rtt_max: 0,
            last_cong: clock.at(init.now),
            before: None,
            rate: Throughput::default(),
        }
    }

    fn since_congestion(&self, now: u64) -> u64 {
        now.saturating_sub(self.last_cong)
    }

    fn measure_rtt(&mut self, rtt: Time, ca: CaState) {
        let rtt = self.clock.covering(rtt);
        if self.rtt_min == 0 || rtt < self.rtt_min {
            self.rtt_min = rtt;
        }
        if ca == CaState::Open {
            self.rtt_max = self.rtt_max.max(self.rtt_min);
            if rtt <= self.rtt_max + self.clock.covering(Time::from_millis(20)) {
                self.rtt_max = self.rtt_max.max(rtt);
            }
        }
    }

    fn measure_throughput(&mut self, ack: &Ack, cwnd: u32) {
        let now = self.clock.at(ack.view.now);
        if !matches!(ack.view.ca, CaState::Open | CaState::Disorder) {
            (self.rate.packets, self.rate.since) = (0, Some(now));
            return;
        }
        self.rate.packets += u64::from(ack.acked);
        // Linux subtracts without sign: where alpha exceeds the window, no sample is taken.
        let Some(enough) = u64::from(cwnd).checked_sub((self.alpha / ONE).max(1)) else { return };
        let span = self.rate.since.map_or(u64::MAX, |since| now.saturating_sub(since));
        if self.rate.packets < enough || span < self.rtt_min || self.rtt_min == 0 {
            return;
        }
        let sample = self.rate.packets.saturating_mul(self.clock.hz()) / span.max(1);
        if self.since_congestion(now) / self.rtt_min <= 3 {
            (self.rate.smoothed, self.rate.max) = (sample, sample);
        } else {
            self.rate.smoothed = (self.rate.smoothed.saturating_mul(3).saturating_add(sample)) / 4;
            self.rate.max = self.rate.max.max(self.rate.smoothed);
        }
        (self.rate.packets, self.rate.since) = (0, Some(now));
    }

    fn update_beta(&mut self) {
        if self.p.use_bandwidth_switch {
            let old_max = std::mem::replace(&mut self.rate.old_max, self.rate.max);
            if !steady(self.rate.max, old_max) {
                (self.beta, self.adaptive) = (BETA_MIN, false);
                return;
            }
        }
        if self.adaptive && self.rtt_min > self.clock.covering(Time::from_millis(10)) && self.rtt_max > 0 {
            self.beta = adaptive_beta(self.rtt_min, self.rtt_max);
        } else {
            (self.beta, self.adaptive) = (BETA_MIN, true);
        }
    }

    fn update_alpha(&mut self, now: u64) {
        let hz = self.clock.hz();
        let f = growth(self.since_congestion(now), hz);
        let f = if self.p.use_rtt_scaling && self.rtt_min > 0 { rtt_scaled(f, self.rtt_min, hz) } else { f };
        self.alpha = alpha(f, self.beta);
    }
}

impl CongestionControl for Htcp {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if ack.view.ca == CaState::Open {
            self.pkts_acked = ack.acked;
        }
        if let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO) {
            self.measure_rtt(rtt, ack.view.ca);
        }
        if self.p.use_bandwidth_switch {
            self.measure_throughput(ack, control.cwnd);
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if !ack.cwnd_limited {
            return;
        }
        let c = control;
        if c.in_slow_start() {
            increase::slow_start(c, ack.delivered);
        } else {
            if u64::from(c.cwnd_cnt).saturating_mul(self.alpha) / ONE >= u64::from(c.cwnd) {
                c.cwnd = c.cwnd.saturating_add(1);
                c.cwnd_cnt = 0;
                self.update_alpha(self.clock.at(ack.view.now));
            } else {
                c.cwnd_cnt = c.cwnd_cnt.saturating_add(self.pkts_acked);
            }
            self.pkts_acked = 1;
        }
        c.phase = increase::classic_phase(c);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.update_beta();
        self.update_alpha(self.clock.at(congestion.view.now));
        if self.rtt_min > 0 && self.rtt_max > self.rtt_min {
            self.rtt_max = self.rtt_min + (self.rtt_max - self.rtt_min) * 95 / 100;
        }
        control.ssthresh = (saturating_u32(u64::from(control.cwnd) * self.beta / ONE)).max(2);
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        let now = self.clock.at(change.view.now);
        match change.event {
            StateEvent::Entered(CaState::Open) if self.before.take().is_some() => self.last_cong = now,
            StateEvent::Entered(CaState::Cwr | CaState::Recovery | CaState::Loss) => {
                let (last_cong, rtt_max, old_max_rate) = (self.last_cong, self.rtt_max, self.rate.old_max);
                self.before = Some(Before { last_cong, rtt_max, old_max_rate });
                self.last_cong = now;
            }
            _ => {}
        }
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        if let Some(before) = self.before.take() {
            (self.last_cong, self.rtt_max, self.rate.old_max) = (before.last_cong, before.rtt_max, before.old_max_rate);
        }
        control.cwnd = control.cwnd.max(undo.prior_cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, ack_at, avoiding, change_at, init, loss_at};

    fn htcp() -> Htcp {
        Htcp::new(Params::default(), &init())
    }

    #[test]
    fn growth_is_renos_for_a_second_and_quadratic_after() {
        assert_eq!([0, 100].map(|d| growth(d, 100)), [1, 1]);
        // One second beyond the threshold: 1 + 10 + (1/2)^2 = 11.25; three: 1 + 30 + (3/2)^2 = 33.25.
        assert_eq!([200, 400].map(|d| growth(d, 100)), [11, 33]);
        assert_eq!(growth(4000, 1000), 33);
    }

    #[test]
    fn rtt_scaling_is_bounded() {
        // 40 ms: the ratio is 2.5; 400 ms: bounded to a half; 1 ms at 1 kHz: bounded to 10.
        assert_eq!(rtt_scaled(33, 4, 100), 33 * 8 / 20);
        assert_eq!(rtt_scaled(33, 40, 100), 66);
        assert_eq!(rtt_scaled(33, 1, 1000), 3);
        assert_eq!(rtt_scaled(1, 4, 100), 1);
    }

    #[test]
    fn beta_leaves_what_the_path_holds() {
        // 40 ms of 60 ms: 2/3; bounds at 1/2 and 0.8.
        assert_eq!([(4, 6), (4, 20), (4, 4)].map(|(min, max)| adaptive_beta(min, max)), [85, 64, 102]);
        // alpha makes up for a smaller cut: 2 (1 - 0.8).
        assert_eq!([64, 102].map(|beta| alpha(1, beta)), [128, 52]);
    }

    #[test]
    fn a_change_of_throughput_by_a_fifth_is_steady_and_more_is_not() {
        assert_eq!([800, 799, 1200, 1201].map(|max| steady(max, 1000)), [true, false, true, false]);
    }

    #[test]
    fn the_backoff_adapts_from_the_second_steady_loss_on() {
        let mut cc = htcp();
        (cc.rtt_min, cc.rtt_max, cc.rate.max) = (4, 6, 8000);
        let mut lose = |rate| {
            cc.rate.max = rate;
            crate::testing::after(avoiding(1280), |c| cc.on_congestion(&loss_at(Time::from_secs(1)), c)).ssthresh
        };
        // No throughput before; then steady, but the first of them; then (6 - 4) * 0.95 faded to 1 and 4/5 of it.
        assert_eq!([lose(8000), lose(8000), lose(8000)], [640, 640, 1020]);
        assert_eq!(lose(5000), 640);
    }

    #[test]
    fn the_longest_rtt_creeps_up_by_twenty_milliseconds() {
        let mut cc = htcp();
        let mut see = |ms| {
            cc.measure_rtt(Time::from_millis(ms), CaState::Open);
            (cc.rtt_min, cc.rtt_max)
        };
        assert_eq!([see(40), see(70), see(60), see(70)], [(4, 4), (4, 4), (4, 6), (4, 7)]);
    }

    #[test]
    fn throughput_is_taken_over_a_window_and_a_round_trip() {
        let mut cc = htcp();
        let at = |ms| ack_at(Time::from_millis(ms), 100, Some(Time::from_millis(40)));
        // The first sample spans the time since the kernel's start.
        cc.on_measure(&at(1000), &mut avoiding(100));
        assert_eq!((cc.rate.max, cc.rate.since), (0, Some(100)));
        // Three at 1010 to 1030 ms are too early; the four make 400 packets in 40 ms. It counts a quarter.
        for ms in [1010, 1020, 1030, 1040] {
            cc.on_measure(&at(ms), &mut avoiding(100));
        }
        assert_eq!(cc.rate.max, 10_000 / 4);
    }

    #[test]
    fn the_clock_of_growth_restarts_when_a_reduction_ends_and_an_undo_sets_it_back() {
        let entered = |ca, s| change_at(Time::from_secs(s), StateEvent::Entered(ca));
        let mut cc = htcp();
        cc.on_state(&entered(CaState::Recovery, 5), &mut avoiding(10));
        cc.on_state(&entered(CaState::Open, 6), &mut avoiding(10));
        assert_eq!(cc.last_cong, 600);
        cc.on_state(&entered(CaState::Recovery, 8), &mut avoiding(10));
        assert_eq!(cc.last_cong, 800);
        let undo = Undo { view: loss_at(Time::from_secs(9)).view, prior_cwnd: 20 };
        assert_eq!(crate::testing::after(avoiding(10), |c| cc.on_undo(&undo, c)).cwnd, 20);
        cc.on_state(&entered(CaState::Open, 9), &mut avoiding(20));
        assert_eq!(cc.last_cong, 600);
    }

    #[test]
    fn alpha_packets_are_gained_per_window_acknowledged() {
        let mut cc = htcp();
        // At 4 s, 40 ms: f = 33 scaled to 13, alpha = 13 packets.
        cc.on_measure(&ack_at(Time::from_secs(4), 1, Some(Time::from_millis(40))), &mut avoiding(1300));
        cc.update_alpha(400);
        assert_eq!(cc.alpha, 13 * ONE);
        let mut c = avoiding(1300);
        for _ in 0..101 {
            let ack = Ack { view: loss_at(Time::from_secs(4)).view, ..ack(1) };
            cc.on_measure(&ack, &mut c);
            cc.on_ack(&ack, &mut c);
        }
        // 100 ACKs to fill 1300 / 13, one more to take the packet.
        assert_eq!((c.cwnd, c.cwnd_cnt), (1301, 0));
    }
}
