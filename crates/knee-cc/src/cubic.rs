//! CUBIC: the window is a cubic function of the time since the last loss, steep, flat around the window of that loss,
//! steep again; it does not depend on the RTT.
//!
//! Source: Linux's net/ipv4/tcp_cubic.c (6.12), which RFC 9438 describes. Windows in packets, C in 1/1024 per 0.1 s of
//! RTT (`bic_scale` = 41: C = 0.4), time in 2^-10 s.
//!
//! - `W(t) = C (t - K)³ + W_max` (RFC 9438, Eq. 1), `K = cbrt((W_max - cwnd) / C)` (Eq. 2); `t` is the time since the
//!   epoch began plus the least RTT, and the window grows by one per `cwnd / (W(t) - cwnd)` packets acknowledged
//! - a loss: `ssthresh = beta · cwnd` (4.6), `W_max = cwnd`, or `cwnd (1 + beta) / 2` where the window had not reached
//!   its former maximum (fast convergence, 4.7)
//! - at least as fast as Reno with `beta` (Reno-friendly region, 4.3)
//! - slow start ends by HyStart ([`crate::slow_start`]), where `hystart` is on and `slow_start` asks for no other
//!
//! Differences from Linux: the cube root is exact; time since the last transmission is derived from the newest RTT
//! sample. Where Linux's 32-bit products would wrap (windows beyond some 10^6 packets), these do not.

#[cfg(test)]
mod tests;

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::slow_start::{self, HyStart, HyStartParams, Sample};
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, INFINITE_SSTHRESH, Init, Needs, StateChange, StateEvent,
    View, cubic_fn, increase,
};
use knee_core::convert::saturating_u32;
use knee_core::{Time, choice, params};

const SOURCE: &str = "Linux net/ipv4/tcp_cubic.c";

/// CUBIC's registry entry.
pub const ENTRY: Entry = Entry {
    name: "cubic",
    family: Family::LossBased,
    about: "window grows as a cubic function of the time since the last loss",
    source: "RFC 9438; Linux net/ipv4/tcp_cubic.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| {
        let params = Params::from(params);
        let cubic = Cubic::new(&params, init);
        match params.slow_start {
            // Its own HyStart has parameters, and looks again after a timeout.
            slow_start::Kind::HyStart => Box::new(cubic),
            slow_start => slow_start::with(cubic, &slow_start::Params { slow_start, saved: params.saved }, init),
        }
    },
};

choice! {
    /// The signs that end slow start.
    enum Detect {
        Both = "both",
        AckTrain = "ack_train",
        Delay = "delay",
    }
}

params! {
    /// CUBIC's parameters, those of Linux's module among them.
    struct Params {
        /// release bandwidth faster if the maximum window shrinks
        fast_convergence: bool = true, from SOURCE;
        //= RFC 9438, 4.6
        //# SHOULD be set to 0.7, which is different from the multiplicative decrease factor used in [RFC5681]
        /// fraction of the window kept after a loss, in 1/1024
        beta: u32 = 717, in 1..=1023, from SOURCE;
        /// first ssthresh in packets, used with standard slow start
        initial_ssthresh: u32 = 0, in 0..=1 << 30, from SOURCE;
        //= RFC 9438, 5.1
        //# Therefore, _C_ SHOULD be set to 0.4.
        /// C in 1/1024 per 100 ms of RTT (41: C = 0.4)
        bic_scale: u32 = 41, in 1..=1024, from SOURCE;
        /// grow at least as fast as Reno would
        tcp_friendliness: bool = true, from SOURCE;
        /// off: slow_start = "hystart" means standard
        hystart: bool = true, from SOURCE;
        /// what ends slow start in HyStart
        hystart_detect: Detect = Detect::Both, from SOURCE;
        /// minimum window for HyStart, in packets
        hystart_low_window: u32 = 16, in 0..=1 << 30, from SOURCE;
        /// longest gap between ACKs of a train, in us
        hystart_ack_delta_us: u64 = 2000, in 0..=1_000_000, from SOURCE;
        /// the connection's first slow start
        slow_start: slow_start::Kind = slow_start::Kind::HyStart, from slow_start::SOURCE;
        #[flatten]
        saved: slow_start::Saved;
    }
}

/// The reaction to loss, shared with algorithms that react as CUBIC does.
#[derive(Clone, Copy, Debug)]
pub struct Decrease {
    /// The share of the window that remains, in 1/1024.
    pub beta: u32,
    /// `W_max` shrinks further if the window had not reached its former maximum.
    pub fast_convergence: bool,
}

impl Decrease {
    /// `ssthresh` after a loss at window `cwnd` (RFC 9438, 4.6).
    pub fn ssthresh(self, cwnd: u32) -> u32 {
        let left = u64::from(cwnd) * u64::from(self.beta) / 1024;
        (saturating_u32(left)).max(2)
    }

    /// The new `W_max` after a loss at window `cwnd`, where the last one was `w_max` (RFC 9438, 4.7).
    pub fn w_max(self, cwnd: u32, w_max: u32) -> u32 {
        //= RFC 9438, 4.7
        //# To speed up this bandwidth release by existing flows, the following fast convergence mechanism SHOULD be
        //# implemented.
        if cwnd < w_max && self.fast_convergence {
            saturating_u32(u64::from(cwnd) * u64::from(1024 + self.beta) / 2048)
        } else {
            cwnd
        }
    }
}

/// The parameters that the window rule reads, in its units.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Rule {
    /// C as [`cubic_fn`] takes it (`cube_rtt_scale`).
    scale: u32,
    /// Packets per increase of Reno's estimated window, in 1/8 of the window.
    reno_scale: u32,
    tcp_friendliness: bool,
    hystart: bool,
    /// Initial `ssthresh`; 0 for none, so that HyStart or another slow start finds it.
    initial_ssthresh: u32,
    decrease: Decrease,
}

impl Rule {
    fn new(params: &Params) -> Self {
        let hystart = params.slow_start == slow_start::Kind::HyStart && params.hystart;
        let standard = params.slow_start == slow_start::Kind::Standard
            || params.slow_start == slow_start::Kind::HyStart && !params.hystart;
        Self {
            decrease: Decrease { beta: params.beta, fast_convergence: params.fast_convergence },
            initial_ssthresh: if standard { params.initial_ssthresh } else { 0 },
            scale: params.bic_scale * 10,
            reno_scale: reno_scale(params.beta),
            tcp_friendliness: params.tcp_friendliness,
            hystart,
        }
    }
}

fn detect(params: &Params, init: &Init) -> HyStartParams {
    HyStartParams {
        ack_train: params.hystart_detect != Detect::Delay,
        delay: params.hystart_detect != Detect::AckTrain,
        low_window: params.hystart_low_window,
        ack_delta_us: params.hystart_ack_delta_us,
        paced: init.paced,
    }
}

/// `8 (1 + beta) / (3 (1 - beta))` (RFC 9438, 4.3: alpha = 3 (1 - beta) / (1 + beta)), rounded in Linux's order
/// (`beta_scale`); `beta` in 1/1024.
const fn reno_scale(beta: u32) -> u32 {
    8 * (1024 + beta) / 3 / (1024 - beta)
}

/// The growth between two losses.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Packets to be acknowledged per increase by one.
    cnt: u32,
    /// Window when `cnt` was last computed.
    last_cwnd: u32,
    /// When `cnt` was last computed.
    last_time: Time,
    /// When the epoch began; `Time::MAX` until the first ACK after a loss.
    start: Time,
    /// Acknowledged packets that Reno's estimated window has not used yet.
    ack_cnt: u32,
    /// Reno's estimated window.
    tcp_cwnd: u32,
    /// Least RTT in microseconds, 0 before the first sample.
    delay_min_us: u32,
    /// Plateau of the cubic function, in packets, and the time to it, in 2^-10 s.
    origin: u32,
    k: u32,
    /// Window at the last loss (`W_max`), 0 before the first.
    last_max_cwnd: u32,
}

impl Epoch {
    /// The state before the first loss.
    const NEW: Self = Self {
        cnt: 0,
        last_cwnd: 0,
        last_time: Time::ZERO,
        start: Time::MAX,
        ack_cnt: 0,
        tcp_cwnd: 0,
        delay_min_us: 0,
        origin: 0,
        k: 0,
        last_max_cwnd: 0,
    };
}

/// The fields that ACKs in congestion avoidance need come first: two cache lines.
#[repr(C, align(64))]
#[derive(Clone)]
pub(crate) struct Cubic {
    epoch: Epoch,
    /// When the newest acknowledged packet was sent.
    last_sent: Time,
    /// The last jiffy computed.
    jiffy: Time,
    tick: Time,
    /// How long `cnt` holds while the window stays (`HZ / 32` jiffies).
    rest: Time,
    rule: Rule,
    /// HyStart ended slow start.
    found: bool,
    hystart: HyStart,
}

const _: () = assert!(size_of::<Cubic>() <= 192);

impl Cubic {
    fn new(params: &Params, init: &Init) -> Self {
        Self {
            rule: Rule::new(params),
            epoch: Epoch::NEW,
            hystart: HyStart::new(detect(params, init), init.now.as_micros(), 0),
            found: false,
            tick: init.tick,
            rest: Time::from_nanos(31_250_000).floor_to(init.tick),
            jiffy: Time::ZERO,
            last_sent: init.now,
        }
    }

    /// CUBIC with the standard parameters, for an algorithm that ends slow start by itself.
    pub(crate) fn without_hystart(init: &Init) -> Self {
        let given = knee_core::Params::resolve(ENTRY.params, [("hystart", knee_core::Value::Bool(false))]);
        Self::new(&Params::from(&given.expect("a parameter of CUBIC")), init)
    }

    /// Begins an epoch at the next ACK, whose plateau is at `w_max` packets.
    pub(crate) const fn begin_epoch(&mut self, w_max: u32) {
        self.epoch.start = Time::MAX;
        self.epoch.last_max_cwnd = w_max;
    }

    /// Takes a time in which the window did not follow the cubic function out of the epoch.
    pub(crate) fn pause(&mut self, away: Time) {
        if self.epoch.start != Time::MAX {
            self.epoch.start = self.epoch.start.saturating_add(away);
        }
    }

    /// The time as jiffies show it. Divides only where another jiffy has begun.
    #[inline]
    fn jiffies(&mut self, time: Time) -> Time {
        if time < self.jiffy || time - self.jiffy >= self.tick {
            self.jiffy = time.floor_to(self.tick);
        }
        self.jiffy
    }

    /// Takes the RTT sample of an ACK; false if it is ignored, as right after a recovery.
    #[inline]
    fn take_rtt(&mut self, now: Time, rtt: Time) -> bool {
        let jiffy = self.jiffies(now);
        self.last_sent = self.last_sent.max(now.saturating_sub(rtt));
        if self.epoch.start != Time::MAX && jiffy.saturating_sub(self.epoch.start) < Time::from_secs(1) {
            return false;
        }
        let rtt_us = saturating_u32(rtt.as_micros().clamp(1, u64::from(u32::MAX)));
        if self.epoch.delay_min_us == 0 || rtt_us < self.epoch.delay_min_us {
            self.epoch.delay_min_us = rtt_us;
        }
        true
    }

    /// Brings `cnt` up to date after `acked` packets at window `cwnd` (`bictcp_update`), `now` in jiffies.
    #[inline]
    fn update(&mut self, now: Time, cwnd: u32, acked: u32) {
        self.epoch.ack_cnt = self.epoch.ack_cnt.saturating_add(acked);
        if self.epoch.last_cwnd != cwnd || now.saturating_sub(self.epoch.last_time) > self.rest {
            self.renew(now, cwnd, acked);
        }
    }

    /// Computes `cnt`, `now` in jiffies.
    #[inline(never)]
    fn renew(&mut self, now: Time, cwnd: u32, acked: u32) {
        let epoch = &mut self.epoch;
        // Once per jiffy is enough for the cubic function.
        if epoch.start == Time::MAX || now != epoch.last_time {
            epoch.last_cwnd = cwnd;
            epoch.last_time = now;
            if epoch.start == Time::MAX {
                epoch.start = now;
                epoch.ack_cnt = acked;
                //= RFC 9438, 4.3
                //# _W_est_ is set equal to _cwnd_epoch_ at the start of the congestion avoidance stage.
                //= RFC 9438, 4.8
                //# In addition, for the Reno-friendly region, _W_est_ SHOULD be set to the congestion window size at
                //# the beginning of the current congestion avoidance stage.
                epoch.tcp_cwnd = cwnd;
                //= RFC 9438, 4.10
                //# It then increases its congestion window size using Figure 1, where _t_ is the elapsed time since the
                //# beginning of the current congestion avoidance stage, _K_ is set to 0, and _W_max_ is set to the
                //# congestion window size at the beginning of the current congestion avoidance stage.
                epoch.origin = cwnd.max(epoch.last_max_cwnd);
                // A cube root of 64 bits.
                epoch.k = saturating_u32(cubic_fn::k(self.rule.scale.into(), epoch.origin - cwnd));
            }
            //= RFC 9438, 4.2 (departs: Linux takes the least RTT, and computes once in 1/32 s unless cwnd changes)
            //# Upon receiving a new ACK during congestion avoidance, CUBIC computes the _target_ congestion window size
            //# after the next _RTT_ using Figure 1 as follows, where _RTT_ is the smoothed round-trip time.
            // One RTT ahead: what is acknowledged by then is sent now.
            let ahead = Time::from_micros(epoch.delay_min_us.into()).ceil_to(self.tick);
            let t = now.saturating_sub(epoch.start).saturating_add(ahead);
            epoch.cnt = self.rule.cubic_count(epoch, t, cwnd);
        }
        //= RFC 9438, 4.2
        //# CUBIC computes both W_cubic(_t_) and _W_est_ (see Section 4.3) on receiving a new ACK in congestion
        //# avoidance and chooses the larger of the two values.
        if self.rule.tcp_friendliness {
            self.rule.catch_up_with_reno(epoch, cwnd);
        }
        //= RFC 9438, 4.2
        //# The lower and upper bounds below ensure that CUBIC's congestion window increase rate is non-decreasing and
        //# is less than the increase rate of slow start [SXEZ19].
        // At most 1.5 times the window per RTT.
        epoch.cnt = epoch.cnt.max(2);
    }

    /// Ends slow start where HyStart or the first `ssthresh` given says so; `rtt`: a sample that counts.
    #[inline(never)]
    fn limit_slow_start(&mut self, view: &View, rtt: Option<Time>, control: &mut Control) {
        if self.rule.initial_ssthresh > 0 && control.ssthresh == INFINITE_SSTHRESH {
            control.ssthresh = self.rule.initial_ssthresh;
        }
        let looks = self.rule.hystart && !self.found && control.in_slow_start();
        if let Some(rtt) = rtt.filter(|_| looks)
            && self.slow_start_ends(view, rtt.as_micros().max(1), control)
        {
            self.found = true;
            control.ssthresh = control.cwnd;
        }
    }

    /// Returns true if HyStart wants slow start to end at this ACK.
    fn slow_start_ends(&mut self, view: &View, rtt_us: u64, control: &Control) -> bool {
        self.hystart.update(&Sample::new(view, control, rtt_us, self.epoch.delay_min_us.into()))
    }
}

impl Rule {
    /// Packets per increase that the cubic function asks for at `t`.
    fn cubic_count(&self, epoch: &Epoch, t: Time, cwnd: u32) -> u32 {
        let target = cubic_fn::w_cubic(self.scale.into(), t, epoch.k.into(), epoch.origin);
        let cwnd = u64::from(cwnd);
        //= RFC 9438, 4.2 (departs: at or above the target Linux grows by a packet in 100 RTTs)
        //# The lower and upper bounds below ensure that CUBIC's congestion window increase rate is non-decreasing
        // At or above its target the window hardly grows.
        //= RFC 9438, 4.4 (departs: for each packet acknowledged, as in Linux)
        //# for each received new ACK, where _target_ is calculated as described in Section 4.2.
        //= RFC 9438, 4.5 (departs: for each packet acknowledged, as in Linux)
        //# for each received new ACK, where _target_ is calculated as described in Section 4.2.
        let cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        // Before the first loss the curve may be far too flat: at least 5 % per RTT.
        let limit = if epoch.last_max_cwnd == 0 { 20 } else { u64::from(u32::MAX) };
        saturating_u32(cnt.min(limit))
    }

    /// Lets Reno's estimated window grow, and follows where it is ahead.
    fn catch_up_with_reno(&self, epoch: &mut Epoch, cwnd: u32) {
        let per_packet =
            saturating_u32((u64::from(cwnd) * u64::from(self.reno_scale) / 8).clamp(1, u64::from(u32::MAX)));
        // A full count is taken up only by the next packet, hence rounded up less one.
        if epoch.ack_cnt > per_packet {
            //= RFC 9438, 4.3
            //# Thus, CUBIC uses Figure 4 to estimate the window size _W_est_ in the Reno-friendly region
            let growth = epoch.ack_cnt.div_ceil(per_packet) - 1;
            epoch.ack_cnt -= growth * per_packet;
            epoch.tcp_cwnd = epoch.tcp_cwnd.saturating_add(growth);
        }
        if epoch.tcp_cwnd > cwnd {
            //= RFC 9438, 4.3 (departs: Linux moves the window there within an RTT)
            //# _cwnd_ SHOULD be set to _W_est_ at each reception of a new ACK.
            epoch.cnt = epoch.cnt.min(cwnd / (epoch.tcp_cwnd - cwnd));
        }
    }
}

impl CongestionControl for Cubic {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let rtt = ack.rtt.filter(|&rtt| self.take_rtt(ack.view.now, rtt));
        if control.in_slow_start() {
            self.limit_slow_start(ack.view, rtt, control);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        //= RFC 9438, 4.6
        //# Implementations that use _cwnd_ MUST use other measures to prevent _cwnd_ from growing when the volume of
        //# bytes in flight is smaller than _cwnd_.
        //= RFC 9438, 5.8
        //# CUBIC does not increase its congestion window if a flow is application limited.
        if !ack.cwnd_limited {
            return;
        }
        let rest = if control.in_slow_start() { increase::slow_start(control, ack.delivered) } else { ack.delivered };
        if rest > 0 {
            let jiffy = self.jiffies(ack.view.now);
            self.update(jiffy, control.cwnd, rest);
            increase::additive_increase(control, self.epoch.cnt, rest);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        let decrease = self.rule.decrease;
        self.epoch.start = Time::MAX;
        self.epoch.last_max_cwnd = decrease.w_max(control.cwnd, self.epoch.last_max_cwnd);
        control.ssthresh = decrease.ssthresh(control.cwnd);
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        let now = change.view.now;
        match change.event {
            StateEvent::Entered(CaState::Loss) => {
                //= RFC 9438, 4.8
                //# During the first congestion avoidance stage after a timeout, CUBIC increases its congestion window
                //# size using Figure 1, where _t_ is the elapsed time since the beginning of the current congestion
                //# avoidance stage, _K_ is set to 0, and _W_max_ is set to the congestion window size at the beginning
                //# of the current congestion avoidance stage.
                self.epoch = Epoch::NEW;
                self.found = false;
                self.hystart.new_round(now.as_micros(), change.view.snd_nxt);
            }
            //= RFC 9438, 4.2 (departs: Linux leaves out idle times only)
            //# The elapsed time _t_ in Figure 1 MUST NOT include periods during which _cwnd_ has not been updated due
            //# to application-limited behavior (see Section 5.8).
            // An idle time does not count as time of growth.
            StateEvent::Restart => {
                let now = self.jiffies(now);
                let idle = now.saturating_sub(self.last_sent.floor_to(self.tick));
                if self.epoch.start != Time::MAX {
                    self.epoch.start = self.epoch.start.saturating_add(idle).min(now);
                }
            }
            _ => {}
        }
    }
}
