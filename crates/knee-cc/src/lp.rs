//! TCP-LP: uses bandwidth that others leave free, by yielding when the one-way delay rises.
//!
//! Source: A. Kuzmanovic, E. Knightly, "TCP-LP: A Distributed Algorithm for Low Priority Data Transfer", INFOCOM 2003,
//! and Linux's `tcp_lp.c`.
//!
//! - smoothed delay `sd = 7/8 sd + 1/8 d`
//! - early congestion: `sd > d_min + delta (d_max - d_min)`, delta = 0.15
//! - on it: `cwnd = cwnd / 2`, and an inference time of 3 RTTs begins in which the window does not grow; `cwnd = 1` on
//!   early congestion within that time
//! - growth and losses: Reno
//!
//! ```text
//!  slow_start <-> congestion_avoidance      early congestion
//!       ^---------------^------------------> inference
//! ```
//!
//! Two forms (parameter `form`). `linux`, the default, is what the kernel does, and there early congestion is mostly
//! not seen at all: the delay is the difference of the receiver's and the sender's timestamps, hence carries the random
//! offset of the receiver's timestamp clock, up to 2^32 ms, and `8 sd` has 32 bits. From an offset of 2^29 ms on, for 7
//! of 8 pairs of hosts, `sd` loses its upper bits, stays below `d_min`, and LP is Reno. The rest give way at their
//! first delay, which is not below a threshold that equals it; then `d_min = sd` and `d_max = 2 sd`, and with the
//! offset in them the threshold is not reached again. `remote_clock` sets the offset.
//!
//! `paper` is the published algorithm: the delay is free of offset, `d_min` and `d_max` are those of the connection,
//! learnt in the first slow start and used after the first loss.
//!
//! Departures: the RTT sample serves as one-way delay, though ACKs have timestamps ([`crate::View::tsval`]). The
//! constant delay of the reverse path is an offset like any other; a queue there counts as one on the forward path. In
//! the paper's form, early congestion counts once per smoothed RTT, the time that a reduction takes to show; the paper
//! does not say how often to test for it.

use crate::entry::{Entry, Family};
use crate::increase::{CONGESTION_AVOIDANCE, SLOW_START};
use crate::{Ack, Congestion, CongestionControl, Control, INFINITE_SSTHRESH, Needs, increase, reno};
use knee_core::convert::{low_u32, non_negative};
use knee_core::{Time, choice, params};

/// LP's registry entry.
pub const ENTRY: Entry = Entry {
    name: "lp",
    family: Family::DelayBased,
    about: "low priority: Reno that yields when the one-way delay rises (in Linux, rarely)",
    source: "Kuzmanovic, Knightly, TCP-LP, INFOCOM 2003; Linux net/ipv4/tcp_lp.c",
    params: Params::DECLARED,
    phases: &["slow_start", "congestion_avoidance", "inference"],
    edges: &[
        (SLOW_START, CONGESTION_AVOIDANCE),
        (CONGESTION_AVOIDANCE, SLOW_START),
        (SLOW_START, INFERENCE),
        (CONGESTION_AVOIDANCE, INFERENCE),
        (INFERENCE, SLOW_START),
        (INFERENCE, CONGESTION_AVOIDANCE),
    ],
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, _| {
        let p = Params::from(params);
        match p.form {
            Form::Paper => Box::new(Paper { p, delay: Delay::default(), last_drop: None, inferring: false }),
            Form::Linux => Box::new(Linux::new(p)),
        }
    },
};

choice! {
    /// The source that the algorithm follows.
    enum Form {
        Linux = "linux",
        Paper = "paper",
    }
}

params! {
    /// LP's parameters.
    struct Params {
        /// the kernel's arithmetic or the paper's algorithm
        form: Form = Form::Linux, from "tcp_lp.c";
        /// form linux: offset of the receiver's timestamp clock in ms, which is random in Linux; default: mid-range
        remote_clock: u32 = 1 << 31, in 0..=u32::MAX, from "RFC 7323, 5.4; tcp_lp.c";
        /// early congestion starts at this percentage of the range of delays
        delta: u32 = 15, in 1..=100, from "Kuzmanovic, Knightly 2003; tcp_lp.c";
        /// RTTs without growth after early congestion
        inference: u32 = 3, in 1..=1000, from "Kuzmanovic, Knightly 2003; tcp_lp.c";
    }
}

/// Phase of the inference time; the others are [`increase`]'s.
const INFERENCE: u8 = 2;

fn phase(inferring: bool, control: &Control) -> u8 {
    if inferring { INFERENCE } else { increase::classic_phase(control) }
}

/// Growth outside of the inference time.
fn grow(inferring: bool, ack: &Ack, control: &mut Control) {
    if ack.cwnd_limited && !inferring {
        increase::reno(control, ack.delivered);
    }
    control.phase = phase(inferring, control);
}

/// The window after early congestion, in packets.
fn given_way(inferring: bool, cwnd: u32) -> u32 {
    if inferring { 1 } else { (cwnd / 2).max(1) }
}

/// A pair of timestamps in ms: the receiver's clock at its ACK, the sender's when the packet left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamps {
    remote: u32,
    local: u32,
}

/// The kernel's form. All in 32 bits that wrap, milliseconds.
#[derive(Clone)]
struct Linux {
    p: Params,
    /// Last pair of timestamps.
    stamps: Option<Stamps>,
    /// Estimate of the receiver's clock in Hz; zero: none yet.
    remote_hz: u32,
    /// Eight times the smoothed delay.
    sd8: u32,
    d_min: u32,
    d_max: u32,
    /// The greatest delay yet, held back until it is exceeded.
    d_max_reserve: u32,
    last_drop: Option<u32>,
    /// Length of the inference time.
    inference: u32,
    inferring: bool,
}

/// The receiver's clock rate, smoothed by 1/64, after another pair of timestamps.
fn next_remote_hz(hz: u32, last: Stamps, new: Stamps) -> u32 {
    if new.remote == last.remote || new.local == last.local {
        return hz;
    }
    let elapsed = new.remote.wrapping_sub(last.remote).wrapping_mul(1000);
    let sample = i64::from(elapsed / new.local.wrapping_sub(last.local));
    let hz64 = i64::from(hz << 6);
    let next = if hz64 > 0 { hz64 + sample - (hz64 >> 6) } else { sample << 6 };
    low_u32(non_negative(next >> 6))
}

/// The delay: the receiver's time, in ms by whole factors of its rate, less the sender's.
fn one_way_delay(remote_hz: u32, stamps: Stamps) -> u32 {
    stamps.remote.wrapping_mul(1000 / remote_hz.max(1)).wrapping_sub(stamps.local)
}

/// The least smoothed delay that is early congestion.
fn threshold(d_min: u32, d_max: u32, delta: u32) -> u32 {
    d_min.wrapping_add(delta.wrapping_mul(d_max.wrapping_sub(d_min)) / 100)
}

impl Linux {
    fn new(p: Params) -> Self {
        Self {
            p,
            stamps: None,
            remote_hz: 0,
            sd8: 0,
            d_min: u32::MAX,
            d_max: 0,
            d_max_reserve: 0,
            last_drop: None,
            inference: 0,
            inferring: false,
        }
    }

    fn measure(&mut self, new: Stamps) {
        if let Some(last) = self.stamps {
            self.remote_hz = next_remote_hz(self.remote_hz, last, new);
        }
        if self.remote_hz == 0 {
            return;
        }
        let d = one_way_delay(self.remote_hz, new);
        if d == 0 {
            return;
        }
        self.d_min = self.d_min.min(d);
        if d > self.d_max {
            // A new maximum of all counts only once it is exceeded in turn.
            self.d_max = if d > self.d_max_reserve && self.d_max_reserve > 0 { self.d_max_reserve } else { d };
            self.d_max_reserve = self.d_max_reserve.max(d);
        }
        self.sd8 = if self.sd8 == 0 { d.wrapping_shl(3) } else { self.sd8.wrapping_add(d).wrapping_sub(self.sd8 >> 3) };
    }
}

impl CongestionControl for Linux {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let ms = |time: Time| low_u32(time.as_millis());
        let now = ms(ack.view.now);
        let local = match (ack.rtt, self.stamps) {
            // Duplicate ACKs echo the timestamp of the last segment in order.
            (_, Some(stamps)) if ack.acked == 0 => stamps.local,
            (Some(rtt), _) => ms(ack.view.now.saturating_sub(rtt)),
            (None, Some(stamps)) => stamps.local,
            (None, None) => return,
        };
        if ack.rtt.is_some_and(|rtt| rtt > Time::ZERO) {
            let stamps = Stamps { remote: now.wrapping_add(self.p.remote_clock), local };
            self.measure(stamps);
            self.stamps = Some(stamps);
        }
        let elapsed = now.wrapping_sub(local);
        if 0 < elapsed && elapsed < 1 << 31 {
            self.inference = elapsed.wrapping_mul(self.p.inference);
        }
        self.inferring = self.last_drop.is_some_and(|drop| now.wrapping_sub(drop) < self.inference);
        let sd = self.sd8 >> 3;
        if sd < threshold(self.d_min, self.d_max, self.p.delta) {
            control.phase = phase(self.inferring, control);
            return;
        }
        (self.d_min, self.d_max, self.d_max_reserve) = (sd, self.sd8 >> 2, self.sd8 >> 2);
        control.cwnd = given_way(self.inferring, control.cwnd);
        control.phase = phase(self.inferring, control);
        self.last_drop = Some(now);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        grow(self.inferring, ack, control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = reno::halved(control.cwnd);
    }
}

/// Delays of the paper's form, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    /// Eight times the smoothed delay; zero before the first sample.
    sd8: u64,
    min: u64,
    max: u64,
}

impl Delay {
    fn take(&mut self, d: u64) {
        if self.sd8 == 0 {
            *self = Self { sd8: d << 3, min: d, max: d };
        } else {
            self.sd8 = self.sd8 + d - (self.sd8 >> 3);
            (self.min, self.max) = (self.min.min(d), self.max.max(d));
        }
    }

    fn early_congestion(&self, delta: u32) -> bool {
        (self.sd8 >> 3) > self.min + u64::from(delta) * (self.max - self.min) / 100
    }
}

/// The paper's form.
#[derive(Clone)]
struct Paper {
    p: Params,
    delay: Delay,
    last_drop: Option<Time>,
    inferring: bool,
}

impl CongestionControl for Paper {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let Some(rtt) = ack.rtt else { return };
        // Bounded at an hour: far beyond any delay, and no sum of it overflows.
        self.delay.take(rtt.as_micros().min(3_600_000_000));
        let since = self.last_drop.map(|drop| ack.view.now.saturating_sub(drop));
        let within = |round_trips: u32| {
            let span = ack.view.srtt.mul_div(u64::from(round_trips), 1);
            since.is_some_and(|since| since < span)
        };
        self.inferring = within(self.p.inference);
        let learning = control.ssthresh == INFINITE_SSTHRESH;
        if learning || within(1) || !self.delay.early_congestion(self.p.delta) {
            control.phase = phase(self.inferring, control);
            return;
        }
        control.cwnd = given_way(self.inferring, control.cwnd);
        (self.last_drop, self.inferring) = (Some(ack.view.now), true);
        control.phase = INFERENCE;
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        grow(self.inferring, ack, control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = reno::halved(control.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, avoiding, make, make_with};
    use knee_core::Value;

    fn stamps(remote: u32, local: u32) -> Stamps {
        Stamps { remote, local }
    }

    /// An ACK of two packets at `ms` with an RTT of `rtt` ms, measured and then used to grow.
    fn step(cc: &mut dyn CongestionControl, ms: u64, rtt: u64, mut c: Control) -> Control {
        let ack = ack_at(Time::from_millis(ms), 2, Some(Time::from_millis(rtt)));
        cc.on_measure(&ack, &mut c);
        cc.on_ack(&ack, &mut c);
        c
    }

    #[test]
    fn the_receivers_clock_is_estimated_from_pairs_of_timestamps() {
        // 3 ms there in 3 ms here; 3 ms in 6 ms, counted 1/64: 1000 - 500 / 64, rounded down.
        assert_eq!(next_remote_hz(0, stamps(7, 0), stamps(10, 3)), 1000);
        assert_eq!(next_remote_hz(1000, stamps(7, 0), stamps(10, 6)), 992);
        assert_eq!(next_remote_hz(1000, stamps(7, 0), stamps(7, 6)), 1000);
    }

    #[test]
    fn a_clock_deemed_faster_than_a_kilohertz_spoils_the_delay() {
        assert_eq!(one_way_delay(1000, stamps(150, 100)), 50);
        assert_eq!(one_way_delay(1001, stamps(150, 100)), u32::MAX - 99);
    }

    #[test]
    fn congestion_is_early_from_fifteen_percent_of_the_range_on() {
        assert_eq!(threshold(40, 140, 15), 55);
        let mut delay = Delay::default();
        delay.take(40_000);
        delay.take(140_000);
        assert!(!Delay { sd8: 55_000 << 3, ..delay }.early_congestion(15));
        assert!(Delay { sd8: 55_001 << 3, ..delay }.early_congestion(15));
    }

    #[test]
    fn with_linux_usual_clock_offset_it_is_reno() {
        let (mut lp, mut reno) = (make(&ENTRY), make(&crate::reno::ENTRY));
        let (mut l, mut r) = (avoiding(50), avoiding(50));
        for i in 0..2000 {
            let rtt = 40 + i / 20;
            (l, r) = (step(&mut *lp, 1000 + 3 * i, rtt, l), step(&mut *reno, 1000 + 3 * i, rtt, r));
            assert_eq!(l, r);
        }
    }

    #[test]
    fn without_an_offset_linux_gives_way_at_its_first_delay_and_then_to_a_rise_of_fifteen_percent() {
        let mut lp = make_with(&ENTRY, &[("remote_clock", Value::Count(0))]);
        // The first pair of timestamps gives no clock rate. At the second, delay and threshold are both 40 ms.
        let c = step(&mut *lp, 1000, 40, avoiding(64));
        assert_eq!((c.cwnd, c.phase), (64, 1));
        let mut c = step(&mut *lp, 1005, 40, c);
        assert_eq!(c.cwnd, 32);
        // From then on the range counts as 40 to 80 ms: up to 45 ms nothing happens but three round trips of rest.
        for i in 0..22 {
            c = step(&mut *lp, 1010 + 5 * i, 45, c);
            assert_eq!((c.cwnd, c.cwnd_cnt, c.phase), (32, 4, 2));
        }
        c = step(&mut *lp, 1140, 45, c);
        assert_eq!((c.cwnd_cnt, c.phase), (6, 1));
        // The delay rises, by 1 in 17 ms so that the clock estimate holds. The mean lags: it is at the threshold, 46
        // ms, with the sample of 49 ms, and at the next, 46 ms and 15 % of them, with that of 58 ms, still in the time
        // of rest.
        let mut windows = Vec::new();
        for rtt in 46..=58 {
            c = step(&mut *lp, 1140 + 17 * (rtt - 45), rtt, c);
            windows.push(c.cwnd);
        }
        assert_eq!(windows, [32, 32, 32, 16, 16, 16, 16, 16, 16, 16, 16, 16, 1]);
    }

    #[test]
    fn the_papers_form_halves_then_falls_to_one_if_the_delay_stays() {
        let mut lp = make_with(&ENTRY, &[("form", Value::Choice("paper"))]);
        let slow = Control::initial(64);
        step(&mut *lp, 1000, 40, slow);
        // The first slow start only teaches the range.
        assert!(step(&mut *lp, 1001, 140, slow).cwnd >= 64);
        let c = step(&mut *lp, 1100, 140, avoiding(64));
        assert_eq!((c.cwnd, c.phase), (32, 2));
        // Within a round trip (40 ms in these events) the cut cannot show; after it, it is met with a window of one.
        assert_eq!(step(&mut *lp, 1139, 140, c).cwnd, 32);
        assert_eq!(step(&mut *lp, 1140, 140, c).cwnd, 1);
    }

    #[test]
    fn the_papers_form_grows_again_after_three_round_trips() {
        let mut lp = make_with(&ENTRY, &[("form", Value::Choice("paper"))]);
        step(&mut *lp, 1000, 40, Control::initial(64));
        step(&mut *lp, 1001, 140, Control::initial(64));
        let mut c = step(&mut *lp, 1100, 140, avoiding(64));
        // The queue empties: the smoothed delay is below the threshold within a round trip.
        for i in 0..39 {
            c = step(&mut *lp, 1101 + i, 40, c);
        }
        assert_eq!((c.cwnd, c.cwnd_cnt), (32, 0));
        assert_eq!(step(&mut *lp, 1219, 40, c).cwnd_cnt, 0);
        let c = step(&mut *lp, 1220, 40, c);
        assert_eq!((c.cwnd_cnt, c.phase), (2, 1));
    }

    /// Claim of the paper: LP uses the capacity that others leave, without filling the queue.
    #[test]
    fn the_papers_form_alone_uses_the_link_with_a_short_queue() {
        // Fluid loop: 10 packets per ms, 40 ms, a queue of 400 packets; an ACK per packet.
        let mut lp = make_with(&ENTRY, &[("form", Value::Choice("paper"))]);
        let mut teach = Control::initial(10);
        teach = step(&mut *lp, 1, 40, teach);
        step(&mut *lp, 2, 80, teach);
        let (mut c, mut us) = (avoiding(400), 1_000_000u64);
        let (mut queued, mut acks) = (0.0, 0.0);
        for i in 0..400_000 {
            // With less than 400 packets in flight ACKs come at the pace of the window.
            us += if c.cwnd < 400 { 40_000 / u64::from(c.cwnd) } else { 100 };
            let queue = c.cwnd.saturating_sub(400);
            let rtt = Time::from_micros(40_000 + 100 * u64::from(queue));
            let mut ack = ack_at(Time::from_micros(us), 1, Some(rtt));
            ack.view = crate::testing::changed(ack.view, |view| view.srtt = rtt);
            lp.on_measure(&ack, &mut c);
            lp.on_ack(&ack, &mut c);
            if i > 100_000 {
                queued += f64::from(queue);
                acks += 1.0;
            }
            assert!(queue < 400);
        }
        let seconds = (us - 1_000_000) as f64 / 1e6;
        assert!(400_000.0 / seconds > 0.7 * 10_000.0, "{} packets/s", 400_000.0 / seconds);
        // 15 % of 400 packets is 60.
        assert!(queued / acks < 60.0, "{} packets queued", queued / acks);
    }
}
