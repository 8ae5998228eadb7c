//! TCP Prague: DCTCP for the Internet, the sender that L4S queues are made for.
//!
//! Source: De Schepper, Tilmans, Briscoe, Goel: "Prague Congestion Control",
//! draft-briscoe-iccrg-prague-congestion-control-04; arithmetic, constants and order of steps are those of its authors'
//! Linux module, version 0.7 (2024). lab/l4s.md compares it with version 00 of the draft section by section.
//!
//! With `F` the fraction of packets delivered with a mark in a round, `v = max(rtt, 25 ms)` the virtual RTT:
//!
//! - `alpha = (1 - g) · alpha + g · F`, once per virtual RTT, from the first mark on
//! - mark: `cwnd · (1 - alpha / 2)`, once per virtual RTT
//! - each packet delivered without a mark: `cwnd` grows by `(rtt / v)² / cwnd`, also while it is being reduced, so that
//!   flows of short RTTs grow by one packet per virtual RTT, in rate
//! - loss and timeout: half the window
//! - bursts of at most 250 us at the pacing rate, which is `cwnd / rtt`; in slow start twice that
//! - a window of four packets or fewer: the rate takes the place of the window, and moves up and down by 3 % in each
//!   virtual RTT, so that marks do not come in rounds
//!
//! A flow scales its growth once it has had four rounds after slow start. At the first mark the window is
//! halved, as alpha says nothing yet.
//!
//! Departure from the module: there the reduction comes as the connection enters its state CWR, which lasts a round
//! trip. A flow of 20 ms so reduces its window every 40 ms, where every 25 ms are meant; here the virtual RTT alone
//! counts, unless `reduce_on_cwr` asks for the module's way.
//! In slow start the module lets the packets without a mark that an ACK also covers set the window anew, so that a mark
//! ends slow start only where all packets of an ACK have one; behind CoDel, which marks one at a time, that takes
//! seconds. Here every mark ends it (version 00 of the draft, Sec. 2.4.5).
//! And where the rate rules, the module grows only if the window limits the sender, which it does not below two packets
//! per RTT: the rate then never leaves its least value. Here it grows unless the application limits it.
//! Departures from both: packets do not get smaller where the rate is below two packets per virtual RTT; the ECN
//! feedback is always accurate, so there is no fall-back to Reno.

use crate::entry::{Ecn, Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, StateChange, StateEvent, Undo, View, increase,
};
use knee_core::convert::{saturating_u8, saturating_u32};
use knee_core::packet::MTU;
use knee_core::{Rate, Time, params};

const SOURCE: &str = "draft-briscoe-iccrg-prague-congestion-control-04";
const MODULE: &str = "authors' Linux module 0.7";

/// Prague's registry entry.
pub const ENTRY: Entry = Entry {
    name: "prague",
    family: Family::EcnBased,
    about: "DCTCP for the Internet: for L4S queues, and fair among short RTTs",
    source: "draft-briscoe-iccrg-prague-congestion-control-04; authors' Linux module 0.7",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 2,
    needs: Needs { pacing: true, full_control: true, ecn: Ecn::Scalable, ..Needs::NONE },
    make: |params, init| Box::new(Prague::new(params.into(), init)),
};

params! {
    /// Prague's parameters.
    struct Params {
        /// flows of shorter RTTs behave as if theirs were this; 0: off
        rtt_target: Time = Time::from_millis(25), in Time::ZERO..=Time::from_millis(100), from SOURCE;
        /// rounds after slow start until they do
        rtt_transition: u32 = 4, in 0..=1000, from MODULE;
        /// the gain g of alpha is 2 to minus this
        shift_g: u32 = 4, in 0..=10, from "RFC 8257, Sec. 4.2: g = 1/16";
        /// a burst lasts 2 to minus this seconds at the pacing rate
        burst_shift: u32 = 12, in 0..=20, from MODULE;
        /// up to this window, in packets, the rate rules; 0: never
        rate_mode_cwnd: u32 = 4, in 0..=100, from MODULE;
        /// reduce only as the state CWR begins, a round trip apart, as Linux does
        reduce_on_cwr: bool = false, from MODULE;
    }
}

/// Bits of the fraction of alpha.
const ALPHA_BITS: u32 = 24;
/// Bits of the fraction of a window.
const CWND_BITS: u32 = 20;
/// A window of one packet.
const ONE: u64 = 1 << CWND_BITS;
/// A window that overflows nothing.
const MAX_WINDOW: u64 = (1 << 30) * ONE;
/// Least rate, bytes/s: 100 kbit/s.
const MIN_RATE: u64 = 12_500;
/// Least window in packets.
const MIN_CWND: u32 = 2;
/// RTTs beyond this grow as if nothing were scaled.
const MAX_SCALED_RTT: Time = Time::from_millis(100);
const MTU_BYTES: u64 = MTU as u64;

/// `a · b / c`, rounded to nearest; where `c` is 0, as with 1.
fn scaled(a: u64, b: u64, c: u64) -> u64 {
    let c = u128::from(c.max(1));
    u64::try_from((u128::from(a) * u128::from(b) + c / 2) / c).unwrap_or(u64::MAX)
}

/// The rate in bytes/s of `window` packets, in fixed point with [`ONE`], per `rtt`.
fn rate_of(window: u64, rtt: Time) -> u64 {
    let per_packet = scaled(MTU_BYTES, 1_000_000, rtt.as_micros());
    scaled(per_packet, window, ONE).max(MIN_RATE)
}

/// The window, in packets in fixed point, that `rate` bytes/s fill in `rtt`.
fn window_of(rate: u64, rtt: Time) -> u64 {
    scaled(rate.saturating_mul(ONE) / MTU_BYTES, rtt.as_micros(), 1_000_000).min(MAX_WINDOW)
}

#[derive(Clone)]
struct Prague {
    set: Params,
    /// Average fraction of marked packets, with [`ALPHA_BITS`] and the bits of g.
    alpha: u64,
    alpha_updated: Time,
    reduced: Time,
    /// The window with a fraction.
    window: u64,
    /// The pacing rate, bytes/s.
    rate: u64,
    /// The rate rules and the window follows.
    rate_mode: bool,
    /// Smoothed RTT, averaged again over 128 rounds, times 128, us.
    slow_srtt: u64,
    /// The round ends when this segment is the first unacknowledged.
    round_end: u64,
    /// Rounds since slow start.
    rounds: u32,
    /// Packets delivered, and those of them with a mark, when the round began.
    round_delivered: (u64, u64),
    /// Packets delivered with a mark, as of the last ACK.
    delivered_ce: u64,
    marked_before: bool,
    in_loss: bool,
    /// Window and rate before the last loss.
    before_loss: (u32, u64),
}

impl Prague {
    fn new(set: Params, init: &Init) -> Self {
        let window = u64::from(init.cwnd) * ONE;
        Self {
            set,
            alpha: 0,
            alpha_updated: init.now,
            reduced: Time::ZERO,
            window,
            rate: rate_of(window, init.rtt),
            rate_mode: false,
            slow_srtt: init.rtt.as_micros().max(1) << 7,
            round_end: 0,
            rounds: 0,
            round_delivered: (0, 0),
            delivered_ce: 0,
            marked_before: false,
            in_loss: false,
            before_loss: (0, 0),
        }
    }

    /// True if its rate does not depend on its RTT.
    const fn is_rtt_independent(&self, control: &Control) -> bool {
        !control.in_slow_start() && self.rounds >= self.set.rtt_transition
    }

    fn rate_rules(&self, control: &Control) -> bool {
        self.rate_mode && self.is_rtt_independent(control)
    }

    fn virtual_rtt(&self, view: &View) -> Time {
        view.srtt.max(self.set.rtt_target)
    }

    fn slow_rtt(&self) -> Time {
        Time::from_micros(self.slow_srtt >> 7)
    }

    /// Growth of the window, in packets with fixed point, per window of packets without marks: a packet, less where the
    /// RTT is short.
    fn increase(&self, srtt: Time) -> u64 {
        let target = self.set.rtt_target;
        let scales = self.rounds >= self.set.rtt_transition && Time::ZERO < srtt && srtt <= MAX_SCALED_RTT;
        if !scales || srtt >= target {
            return ONE;
        }
        let square = |time: Time| time.as_micros() * time.as_micros();
        scaled(square(srtt), ONE, square(target))
    }

    /// The least whole window with room for `self.window`.
    fn whole_window(&self) -> u32 {
        (saturating_u32(self.window.div_ceil(ONE))).max(MIN_CWND)
    }

    /// Takes up what an ACK delivered, `marked` packets of it with a mark.
    fn grow(&mut self, ack: &Ack, marked: u64, control: &mut Control) {
        if marked > 0 {
            if !std::mem::replace(&mut self.marked_before, true) {
                self.window = self.window.div_ceil(2);
            }
            if control.in_slow_start() {
                control.ssthresh = control.cwnd;
            }
        }
        let mut clean = u64::from(ack.delivered).saturating_sub(marked);
        // Where the rate rules it is what limits the sender, unless there is nothing to send.
        let limited = ack.cwnd_limited || self.rate_mode && !ack.view.app_limited;
        if clean == 0 || self.in_loss || !limited {
            return;
        }
        if control.in_slow_start() {
            clean = u64::from(increase::slow_start(control, saturating_u32(clean)));
            self.window = u64::from(control.cwnd) * ONE;
            if clean == 0 {
                return;
            }
        }
        let srtt = ack.view.srtt;
        if self.rate_rules(control) {
            let rtt = self.virtual_rtt(ack.view);
            let packets = window_of(self.rate, rtt).div_ceil(ONE).max(1);
            self.rate = self.rate.saturating_add(scaled(clean * MTU_BYTES, 1_000_000, rtt.as_micros()) / packets);
            self.window = (self.window + clean).max(window_of(self.rate, self.slow_rtt()));
        } else {
            let step = scaled(clean * self.increase(srtt), ONE, self.window);
            self.window += step.max(clean);
            self.rate = (self.rate.saturating_add(clean)).max(rate_of(self.window, srtt));
        }
        self.window = self.window.min(MAX_WINDOW);
    }

    /// Moves the window in force a packet towards the one wanted.
    fn follow(&self, control: &mut Control) {
        let wanted = self.whole_window();
        if control.cwnd > wanted {
            control.cwnd -= 1;
            control.ssthresh = control.cwnd;
        } else if control.cwnd < wanted {
            control.cwnd += 1;
        }
    }

    /// At the end of a round: alpha, and the next round.
    fn end_round(&mut self, view: &View, control: &Control) {
        let elapsed = view.now.saturating_sub(self.alpha_updated);
        if view.snd_una < self.round_end || self.is_rtt_independent(control) && elapsed < self.set.rtt_target {
            return;
        }
        if self.marked_before {
            let delivered = view.delivered.saturating_sub(self.round_delivered.0);
            let marked = view.delivered_ce.saturating_sub(self.round_delivered.1).min(delivered);
            let fraction = (marked << ALPHA_BITS) / delivered.max(1);
            let alpha = self.alpha - (self.alpha >> self.set.shift_g) + fraction;
            self.alpha = alpha.min(1 << (ALPHA_BITS + self.set.shift_g));
            self.alpha_updated = view.now;
        }
        self.slow_srtt = self.slow_srtt - (self.slow_srtt >> 7) + view.srtt.as_micros();
        self.begin_round(view, control);
    }

    const fn begin_round(&mut self, view: &View, control: &Control) {
        self.round_end = view.snd_nxt;
        self.round_delivered = (view.delivered, view.delivered_ce);
        if !control.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// Sets the pacing rate and the size of bursts.
    fn pace(&mut self, view: &View, control: &mut Control) {
        let mut rate = if self.rate_rules(control) {
            let offset = self.rate >> 5;
            let half = self.virtual_rtt(view) / 2 <= view.now.saturating_sub(self.alpha_updated);
            if half { self.rate - offset } else { self.rate.saturating_add(offset) }
        } else {
            let packets = (self.window / ONE).max(u64::from(view.in_flight));
            self.rate = rate_of(packets.min(1 << 30) * ONE, view.srtt);
            self.rate
        };
        if control.cwnd < control.ssthresh / 2 {
            rate = rate.saturating_mul(2);
        }
        let burst = saturating_u8(((rate / MTU_BYTES) >> self.set.burst_shift).clamp(1, u64::from(u8::MAX)));
        (control.min_burst, control.max_burst) = (burst, burst);
        control.pacing_rate = Some(Rate::from_bytes_per_sec(rate.min(Rate::MAX.as_bytes_per_sec())));
    }

    /// Lets the rate rule small windows.
    fn choose_mode(&mut self, view: &View, control: &Control) {
        self.rate_mode = self.marked_before && control.cwnd <= self.set.rate_mode_cwnd;
        if self.rate_mode {
            self.window = window_of(self.rate, self.slow_rtt());
        } else {
            self.rate = rate_of(self.window, view.srtt);
        }
    }

    /// Takes away `part / 2^bits` of the window or the rate, whichever rules.
    fn reduce(&mut self, part: u64, bits: u32, view: &View, control: &Control) {
        let left = |all: u64| all - scaled(all, part, 1 << bits).min(all);
        if self.rate_rules(control) {
            self.rate = left(self.rate).max(MIN_RATE);
            self.window = window_of(self.rate, self.slow_rtt());
        } else {
            self.window = left(self.window);
            self.rate = rate_of(self.window, view.srtt);
        }
    }

    fn on_mark(&mut self, view: &View, control: &Control) {
        let apart = if self.is_rtt_independent(control) { self.virtual_rtt(view) } else { view.srtt };
        if self.in_loss || view.now.saturating_sub(self.reduced) < apart {
            return;
        }
        self.reduced = view.now;
        self.reduce(self.alpha >> self.set.shift_g, ALPHA_BITS + 1, view, control);
    }

    fn on_loss(&mut self, view: &View, control: &Control) {
        self.before_loss = (control.cwnd, self.rate);
        self.reduce(1, 1, view, control);
        self.in_loss = true;
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let marked = ack.view.delivered_ce.saturating_sub(self.delivered_ce);
        self.delivered_ce = ack.view.delivered_ce;
        if marked > 0 && !self.set.reduce_on_cwr {
            self.on_mark(ack.view, control);
        }
        self.grow(ack, marked, control);
        self.follow(control);
        self.end_round(ack.view, control);
        self.pace(ack.view, control);
        self.choose_mode(ack.view, control);
        control.phase = increase::classic_phase(control);
    }

    /// The window falls packet by packet, and `ssthresh` with it.
    fn on_congestion(&mut self, _: &Congestion, _: &mut Control) {}

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        let view = change.view;
        match change.event {
            StateEvent::Start => {
                self.begin_round(view, control);
                self.pace(view, control);
            }
            StateEvent::Entered(CaState::Recovery) | StateEvent::Timeout => self.on_loss(view, control),
            StateEvent::Entered(CaState::Cwr) if self.set.reduce_on_cwr => self.on_mark(view, control),
            StateEvent::Entered(CaState::Open) => self.in_loss = false,
            _ => {}
        }
    }

    fn on_undo(&mut self, _: &Undo, control: &mut Control) {
        self.in_loss = false;
        self.rate = self.rate.max(self.before_loss.1);
        self.window = window_of(self.rate, self.slow_rtt());
        control.cwnd = control.cwnd.max(self.before_loss.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::{Ack, RateSample};

    const RTT: Time = Time::from_millis(10);

    fn prague(cwnd: u32) -> (Prague, Control) {
        let init = Init { rtt: RTT, cwnd, ..testing::init() };
        let mut prague = Prague::new(Params::default(), &init);
        let mut control = Control { ssthresh: cwnd, ..Control::initial(cwnd) };
        prague.rounds = 10;
        prague.marked_before = true;
        prague.pace(&View { srtt: RTT, ..View::INITIAL }, &mut control);
        (prague, control)
    }

    /// An ACK of `delivered` packets.
    fn ack(view: &View, delivered: u32) -> Ack<'_> {
        let rate = &RateSample::NONE;
        let (acked, prior_in_flight, prior_una) = (delivered, 100, view.snd_una - u64::from(delivered));
        Ack {
            view,
            rtt: Some(view.srtt),
            acked,
            delivered,
            lost: 0,
            prior_in_flight,
            prior_una,
            part: false,
            cwnd_limited: true,
            ece: false,
            rate,
        }
    }

    /// The window after round trips of `rtt`, from 100 packets, of which each `marks`-th is marked; none for 0.
    fn after(rounds: u64, rtt: Time, marks: u64) -> f64 {
        let (mut cc, mut control) = prague(100);
        let mut view = View { srtt: rtt, snd_nxt: 100, ..View::INITIAL };
        let mut end = 100;
        for round in 1..=rounds {
            view.now = rtt * round;
            while view.snd_una < end {
                view.snd_una += 1;
                view.delivered += 1;
                view.delivered_ce += u64::from(marks > 0 && view.delivered.is_multiple_of(marks));
                view.snd_nxt = view.snd_una + u64::from(control.cwnd);
                cc.on_ack(&ack(&view, 1), &mut control);
            }
            end = view.snd_nxt;
        }
        cc.window as f64 / ONE as f64
    }

    #[test]
    fn without_marks_the_window_grows_by_a_packet_per_virtual_rtt_in_rate() {
        // A packet per RTT from 25 ms on; of shorter RTTs (rtt / 25 ms)².
        for (rtt_ms, per_round) in [(100, 1.0), (25, 1.0), (10, 0.16), (5, 0.04)] {
            let grown = after(50, Time::from_millis(rtt_ms), 0) - 100.0;
            assert!((grown / (50.0 * per_round) - 1.0).abs() < 0.02, "{rtt_ms} ms: {grown}");
        }
    }

    #[test]
    fn a_fraction_p_of_marks_leads_to_a_window_of_two_over_p() {
        // Per virtual RTT it gains 1 - p and loses W p / 2: W = 2 (1 - p) / p.
        for p in [20, 50] {
            let window = after(600, Time::from_millis(30), p);
            let expected = 2.0 * (p as f64 - 1.0);
            assert!((window / expected - 1.0).abs() < 0.15, "1 of {p}: {window}, expected {expected}");
        }
    }

    #[test]
    fn rates_with_the_same_marks_hardly_depend_on_rtts_below_the_virtual_one() {
        // With windows alone they would be 5 : 2.5 : 1. The remaining difference is the wait for a mark after each
        // virtual RTT.
        let rates: Vec<f64> =
            [5, 10, 25].iter().map(|&ms| after(5_000 / ms, Time::from_millis(ms), 50) / ms as f64).collect();
        assert!(rates.iter().all(|rate| (0.9..1.8).contains(&(rate / rates[2]))), "{rates:?}");
    }

    #[test]
    fn a_loss_halves_the_window_and_a_wrong_one_is_undone() {
        let (mut cc, mut control) = prague(100);
        let view = View { srtt: RTT, ca: CaState::Recovery, ..View::INITIAL };
        cc.on_state(&StateChange { view: &view, event: StateEvent::Entered(CaState::Recovery) }, &mut control);
        assert_eq!(cc.window, 50 * ONE);
        control.cwnd = 50;
        cc.on_undo(&Undo { view: &view, prior_cwnd: 100 }, &mut control);
        assert_eq!(control.cwnd, 100);
        assert!((cc.window as f64 / ONE as f64 - 100.0).abs() < 2.0);
    }

    #[test]
    fn as_in_the_module_the_window_falls_only_where_cwr_begins() {
        for (on_cwr, marks_reduce, cwr_reduces) in [(false, true, false), (true, false, true)] {
            let (mut cc, mut control) = prague(100);
            (cc.set.reduce_on_cwr, cc.alpha) = (on_cwr, 1 << (ALPHA_BITS + 3));
            let mut view = View { now: Time::from_secs(1), srtt: RTT, snd_una: 10, snd_nxt: 110, ..View::INITIAL };
            (view.delivered, view.delivered_ce) = (10, 1);
            cc.on_ack(&ack(&view, 1), &mut control);
            // Alpha is a half: a quarter of the window goes.
            assert_eq!(cc.window < 80 * ONE, marks_reduce);
            let before = cc.window;
            let event = StateEvent::Entered(CaState::Cwr);
            cc.on_state(&StateChange { view: &view, event }, &mut control);
            assert_eq!(cc.window < before, cwr_reduces);
        }
    }

    #[test]
    fn the_first_mark_halves_the_window_and_ends_slow_start() {
        let (mut cc, _) = prague(100);
        let mut control = Control::initial(100);
        (cc.marked_before, cc.rounds) = (false, 0);
        let view =
            View { now: RTT, srtt: RTT, snd_una: 10, snd_nxt: 110, delivered: 10, delivered_ce: 1, ..View::INITIAL };
        cc.on_ack(&ack(&view, 1), &mut control);
        assert_eq!(cc.window, 50 * ONE);
        assert!(!control.in_slow_start());
        assert_eq!(control.cwnd, 99);
    }

    #[test]
    fn a_mark_ends_slow_start_though_its_ack_covers_packets_without_one() {
        let (mut cc, _) = prague(100);
        let mut control = Control::initial(100);
        (cc.marked_before, cc.rounds) = (false, 0);
        let view =
            View { now: RTT, srtt: RTT, snd_una: 10, snd_nxt: 110, delivered: 10, delivered_ce: 1, ..View::INITIAL };
        cc.on_ack(&ack(&view, 2), &mut control);
        assert!(!control.in_slow_start());
        assert!(cc.window < 51 * ONE);
        assert_eq!(control.cwnd, 99);
    }

    #[test]
    fn bursts_last_a_quarter_of_a_millisecond() {
        // 1000 packets per 10 ms: 100,000 a second, 24 in 2^-12 s.
        let (_, control) = prague(1000);
        assert_eq!((control.min_burst, control.max_burst), (24, 24));
        assert_eq!(prague(10).1.max_burst, 1);
    }

    #[test]
    fn conversions_between_window_and_rate_invert_each_other() {
        for (packets, ms) in [(2, 5), (100, 10), (100_000, 200)] {
            let (window, rtt) = (packets * ONE, Time::from_millis(ms));
            let back = window_of(rate_of(window, rtt), rtt);
            assert!(back.abs_diff(window) <= window / 1000, "{packets} packets in {ms} ms: {back}");
        }
    }
}
