//! CDG, the CAIA delay gradient: backs off randomly, with a probability that rises with the growth of the RTT.
//!
//! Source: Hayes, Armitage, "Revisiting TCP Congestion Control Using Delay Gradients", IFIP Networking 2011, in the
//! form of Linux's net/ipv4/tcp_cdg.c. RTTs and gradients are in microseconds.
//!
//! Once per round trip, with the least and the greatest RTT of this round trip and the one before:
//!
//! - gradients `g_min = min - min'`, `g_max = max - max'`, each summed over the last `window` round trips
//! - `g = g_min` where that is positive, else `g_max`; for `g > 0`, backoff with probability
//!   `1 - exp(-g · backoff_factor · 10^-6)` (the paper's Eq. 2 with `backoff_factor = 10^6 / (1000 · G · window)`)
//! - backoff: `ssthresh = cwnd · backoff_beta / 1024`, reached over one round trip; after `use_ineff` backoffs without
//!   effect (no sum below -32 us) it stops, since then other flows fill the queue
//! - loss: `ssthresh = max(shadow_wnd / 2, cwnd / 2)`; `shadow_wnd` is the window as if there had been no backoffs,
//!   which is what Reno flows beside it would have
//! - growth: Reno's; slow start also ends by the ACK train and the delay threshold of hybrid slow start
//!
//! Departures from the paper, all as Linux does: the hybrid slow start, the wider tolerance of `use_tolerance` off by
//! default, RTTs of delayed ACKs kept out of the maximum, sums in place of means.
//! Departures from Linux: a backoff there makes the sender enter CWR. Algorithms here cannot ask for that, so the
//! file carries out the proportional rate reduction itself; a loss meanwhile goes on with it.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, StateChange, StateEvent, View, increase, reno,
};
use knee_core::convert::{non_negative, saturating_i64, saturating_u32, truncated_u32};
use knee_core::{Rng, Time, params};

mod gradient;
mod hystart;
mod reduction;

use gradient::{Gradients, Minmax};
use hystart::Hystart;
use reduction::Reduction;

const SOURCE: &str = "Hayes, Armitage, IFIP Networking 2011; Linux net/ipv4/tcp_cdg.c";

/// CDG's registry entry.
pub const ENTRY: Entry = Entry {
    name: "cdg",
    family: Family::Hybrid,
    about: "backs off randomly as the RTT grows, and keeps a shadow window for losses",
    source: SOURCE,
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| Box::new(Cdg::new(params.into(), init)),
};

params! {
    /// CDG's parameters.
    struct Params {
        /// round trips whose gradients are summed; a power of two in Linux
        window: u32 = 8, in 1..=256, from SOURCE;
        /// window after a backoff, in 1/1024
        backoff_beta: u32 = 724, in 0..=1024, from SOURCE;
        /// weight of the gradient in the backoff probability
        backoff_factor: u64 = 42, in 0..=1_000_000, from SOURCE;
        /// 1: ACK train, 2: delay threshold, 3: both end slow start
        hystart_detect: u32 = 3, in 0..=3, from SOURCE;
        /// backoffs without effect after which they stop; 0: never
        use_ineff: u32 = 5, in 0..=65_535, from SOURCE;
        /// use the shadow window on losses
        use_shadow: bool = true, from SOURCE;
        /// treat losses without a full queue as random
        use_tolerance: bool = false, from SOURCE;
    }
}

/// A sum of gradients at or below this shows that a backoff had an effect, in microseconds.
const EFFECTUAL: i64 = -32;

/// The state of the queue, inferred from the gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Unknown,
    NotFull,
    Full,
    /// A backoff is under way.
    Backoff,
}

#[derive(Clone)]
struct CdgState {
    rng: Rng,
    /// RTT extremes of this round trip.
    rtt: Minmax,
    /// RTT extremes of the one before.
    rtt_prev: Minmax,
    gradients: Gradients,
    queue: Queue,
    /// The round trip ends with the first ACK beyond this segment.
    round_end: u64,
    /// The window without backoffs, in packets.
    shadow_wnd: u32,
    /// Backoffs since the last one that had an effect.
    backoff_count: u32,
    /// Single-packet ACKs still taken for delayed ones.
    delayed_acks: u8,
    /// Packets SACKed above the first unacknowledged one.
    sacked_out: u32,
    hystart: Hystart,
    reduction: Option<Reduction>,
}

#[derive(Clone)]
struct Cdg {
    params: Params,
    state: CdgState,
}

/// `2^32 · exp(-x / 10^6)`, rounded into 32 bits: the random number up to which a gradient is let pass. Linux
/// approximates the same by a table to about 1e-5.
pub fn pass_threshold(x: u64) -> u32 {
    let x = x.min(1 << 24) as f64;
    truncated_u32(f64::from(u32::MAX) * libm::exp(-x / 1e6))
}

/// `gradient / 64`, to the nearest: small variations are zero.
const fn coarse(gradient: i64) -> i64 {
    (gradient + if gradient > 0 { 32 } else { -32 }) / 64
}

impl CdgState {
    /// Nothing is measured; the first round trip ends beyond segment `round_end`.
    fn new(params: &Params, rng: Rng, cwnd: u32, round_end: u64) -> Self {
        Self {
            rng,
            rtt: Minmax::NONE,
            rtt_prev: Minmax::NONE,
            gradients: Gradients::new(params.window as usize),
            queue: Queue::Unknown,
            round_end,
            shadow_wnd: cwnd,
            backoff_count: 0,
            delayed_acks: 0,
            sacked_out: 0,
            hystart: Hystart::new(),
            reduction: None,
        }
    }
}

impl Cdg {
    fn new(params: Params, init: &Init) -> Self {
        let state = CdgState::new(&params, init.rng.clone(), init.cwnd, 0);
        Self { params, state }
    }

    /// Takes an RTT sample, unless a delayed ACK made it too long. A connection with delayed ACKs mostly acknowledges
    /// two packets at a time; single ones are then late.
    fn measure(&mut self, rtt: i64, acked: u32) {
        let state = &mut self.state;
        if state.sacked_out == 0 {
            if acked == 1 && state.delayed_acks > 0 {
                state.rtt.min = state.rtt.min.min(rtt);
                state.delayed_acks -= 1;
                return;
            } else if acked > 1 && state.delayed_acks < 5 {
                state.delayed_acks += 1;
            }
        }
        state.rtt.add(rtt);
    }

    /// The gradient at the end of a round trip, in microseconds.
    fn gradient(&mut self) -> i64 {
        let (params, state) = (&self.params, &mut self.state);
        let (sum, gradient) = state.gradients.push(state.rtt.minus(state.rtt_prev));
        if sum.min <= EFFECTUAL || sum.max <= EFFECTUAL {
            state.backoff_count = 0;
        }
        if params.use_tolerance {
            match (coarse(sum.min), coarse(sum.max)) {
                (1.., ..=0) => state.queue = Queue::Full,
                (1.., 1..) | (_, ..=-1) => state.queue = Queue::NotFull,
                _ => {}
            }
        }
        gradient
    }

    /// Returns true if the flow backs off from this gradient; throws the dice.
    fn backs_off(&mut self, gradient: i64) -> bool {
        let (params, state) = (&self.params, &mut self.state);
        let dice = (state.rng.next_u64() >> 32) as u32;
        if dice <= pass_threshold(non_negative(gradient).saturating_mul(params.backoff_factor)) {
            return false;
        }
        if params.use_ineff > 0 {
            state.backoff_count = state.backoff_count.saturating_add(1);
            return state.backoff_count <= params.use_ineff;
        }
        true
    }

    fn end_reduction(&mut self, view: &View) {
        let state = &mut self.state;
        state.queue = Queue::Unknown;
        state.round_end = view.snd_nxt;
        state.rtt_prev = state.rtt;
        state.rtt = Minmax::NONE;
        state.reduction = None;
    }

    fn ssthresh(&mut self, cwnd: u32) -> u32 {
        let (params, state) = (&self.params, &mut self.state);
        let half = reno::halved(cwnd);
        match state.queue {
            Queue::Backoff => backoff_window(cwnd, params.backoff_beta),
            Queue::NotFull if params.use_tolerance => cwnd.max(2),
            _ => {
                state.shadow_wnd = (state.shadow_wnd >> 1).min(cwnd);
                if params.use_shadow { state.shadow_wnd.max(half) } else { half }
            }
        }
    }

    /// Ends the round trip where this ACK does. Returns the control if it starts a backoff.
    fn backed_off(&mut self, ack: &Ack, control: &mut Control) -> bool {
        let state = &mut self.state;
        if ack.view.snd_una <= state.round_end || state.rtt.is_none() {
            return false;
        }
        let gradient = if state.rtt_prev.is_none() { 0 } else { self.gradient() };
        let state = &mut self.state;
        state.round_end = ack.view.snd_nxt;
        state.rtt_prev = state.rtt;
        state.rtt = Minmax::NONE;
        state.hystart.next_round();
        if gradient <= 0 || !self.backs_off(gradient) {
            return false;
        }
        let state = &mut self.state;
        state.shadow_wnd = state.shadow_wnd.max(control.cwnd);
        state.queue = Queue::Backoff;
        state.reduction = Some(Reduction::new(ack.view, control.cwnd));
        control.ssthresh = self.ssthresh(control.cwnd);
        control.cwnd_cnt = 0;
        true
    }

    fn grow(&mut self, ack: &Ack, control: &mut Control) {
        let state = &mut self.state;
        let detect = self.params.hystart_detect;
        let (ack_train, delay_threshold) = (detect & 1 != 0, detect & 2 != 0);
        if control.in_slow_start()
            && (ack_train || delay_threshold)
            && state.hystart.ends_slow_start(ack, state.rtt.min, ack_train, delay_threshold)
        {
            control.ssthresh = control.cwnd;
        }
        if self.backed_off(ack, control) {
            return;
        }
        let state = &mut self.state;
        if !ack.cwnd_limited {
            state.shadow_wnd = state.shadow_wnd.min(control.cwnd);
            return;
        }
        let before = control.cwnd;
        increase::reno(control, ack.delivered);
        state.shadow_wnd = state.shadow_wnd.saturating_add(control.cwnd.saturating_sub(before));
    }
}

/// The window after a backoff: `cwnd · beta / 1024`.
fn backoff_window(cwnd: u32, beta: u32) -> u32 {
    saturating_u32(((u64::from(cwnd) * u64::from(beta.min(1024))) >> 10).max(2))
}

impl CongestionControl for Cdg {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let state = &mut self.state;
        state.sacked_out = state.sacked_out.saturating_add(ack.delivered).saturating_sub(ack.acked);
        if let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO) {
            self.measure(saturating_i64(rtt.as_micros().min(i32::MAX as u64)), ack.acked);
        }
        if let Some(reduction) = &mut self.state.reduction {
            if reduction.ended(ack.view) {
                control.cwnd = control.ssthresh;
                self.end_reduction(ack.view);
            } else {
                control.cwnd = reduction.window(ack, control.ssthresh).unwrap_or(control.cwnd);
            }
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if self.state.reduction.is_none() {
            self.grow(ack, control);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        // While a backoff is carried out, Linux is in CWR and asks for no new threshold.
        if self.state.reduction.is_none() {
            control.ssthresh = self.ssthresh(control.cwnd);
        }
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::Idle => {
                let rng = self.state.rng.clone();
                self.state = CdgState::new(&self.params, rng, control.cwnd, change.view.snd_nxt);
            }
            StateEvent::ReductionDone => self.end_reduction(change.view),
            // From here on the sender itself brings the window to the threshold.
            StateEvent::Entered(CaState::Cwr | CaState::Recovery | CaState::Loss) => self.state.reduction = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Signal, testing};
    use knee_core::Value;

    fn cdg_with<'a>(given: impl IntoIterator<Item = (&'a str, Value)>) -> Cdg {
        let init = Init { cwnd: 100, tick: Time::ZERO, ..testing::init() };
        Cdg::new(Params::from(&knee_core::Params::resolve(ENTRY.params, given).unwrap()), &init)
    }

    fn lose(cc: &mut Cdg, cwnd: u32) -> u32 {
        testing::after(testing::avoiding(cwnd), |c| {
            cc.on_congestion(&testing::congestion(testing::view(), Signal::Loss), c);
        })
        .ssthresh
    }

    #[test]
    fn the_probability_of_a_backoff_is_one_minus_an_exponential_of_the_gradient() {
        assert_eq!(pass_threshold(0), u32::MAX);
        // A gradient sum of 10 ms: exp(-0.42) = 0.657 047.
        let share = f64::from(pass_threshold(10_000 * 42)) / f64::from(u32::MAX);
        assert!((share - 0.657_047).abs() < 1e-6, "{share}");
        let mut cc = cdg_with([("use_ineff", Value::Count(0))]);
        let backoffs = (0..10_000).filter(|_| cc.backs_off(10_000)).count();
        // Four standard deviations of a binomial with n = 10 000 and p = 0.343 are 190.
        assert!((3_240..3_620).contains(&backoffs), "{backoffs}");
    }

    #[test]
    fn without_effect_only_five_backoffs_are_made() {
        let mut cc = cdg_with([]);
        // exp(-42) is less than one in 2^32.
        assert_eq!((0..20).filter(|_| cc.backs_off(1_000_000)).count(), 5);
        cc.state.rtt = Minmax { min: 1_000, max: 1_000 };
        cc.state.rtt_prev = Minmax { min: 1_032, max: 1_032 };
        cc.gradient();
        assert!(cc.backs_off(1_000_000));
    }

    #[test]
    fn a_backoff_leaves_seven_tenths_and_the_sender_goes_there_over_a_round_trip() {
        let mut cc = cdg_with([("backoff_factor", Value::Count(1_000_000))]);
        cc.state.rtt_prev = Minmax { min: 40_000, max: 40_000 };
        let mut ack = testing::ack_up_to(1, 101, 41_000);
        let mut control = testing::after(testing::avoiding(100), |c| cc.on_measure(&ack, c));
        cc.on_ack(&ack, &mut control);
        // 100 · 724 / 1024
        assert_eq!((control.cwnd, control.ssthresh), (100, 70));
        ack = testing::ack_up_to(51, 136, 41_000);
        cc.on_measure(&Ack { delivered: 50, ..ack }, &mut control);
        cc.on_ack(&ack, &mut control);
        assert!(control.cwnd > 70 && control.cwnd < 100, "{}", control.cwnd);
        assert_eq!(lose(&mut cc, 90), 2, "the threshold in force stays");
        ack = testing::ack_up_to(102, 172, 40_000);
        assert_eq!((testing::after(control, |c| cc.on_measure(&ack, c)).cwnd, cc.state.queue), (70, Queue::Unknown));
    }

    #[test]
    fn a_loss_falls_back_on_the_shadow_window_where_backoffs_have_made_room() {
        let mut cc = cdg_with([]);
        cc.state.shadow_wnd = 160;
        assert_eq!((lose(&mut cc, 100), cc.state.shadow_wnd), (80, 80));
        assert_eq!((lose(&mut cc, 100), cc.state.shadow_wnd), (50, 40));
        let mut cc = cdg_with([("use_shadow", Value::Bool(false))]);
        cc.state.shadow_wnd = 160;
        assert_eq!(lose(&mut cc, 100), 50);
    }

    #[test]
    fn idle_time_longer_than_the_timeout_begins_all_anew() {
        // tcp_cdg_cwnd_event: gradients, extremes, backoffs and hybrid slow start; the window before it decays is the
        // shadow window.
        let mut cc = cdg_with([]);
        assert_eq!((0..9).filter(|_| cc.backs_off(1_000_000)).count(), 5);
        cc.state.rtt_prev = Minmax { min: 90_000, max: 200_000 };
        cc.state.rtt = Minmax { min: 40_000, max: 40_000 };
        cc.gradient();
        let view = View { snd_nxt: 700, ..testing::view() };
        let change = StateChange { view: &view, event: StateEvent::Idle };
        testing::after(testing::avoiding(64), |c| cc.on_state(&change, c));
        assert_eq!((cc.state.rtt, cc.state.rtt_prev), (Minmax::NONE, Minmax::NONE));
        assert_eq!((cc.state.shadow_wnd, cc.state.round_end, cc.state.backoff_count), (64, 700, 0));
        // A gradient of 1 ms, extrapolated by eight: those of -50 and -160 ms are forgotten.
        (cc.state.rtt, cc.state.rtt_prev) = (Minmax { min: 41_000, max: 41_000 }, Minmax { min: 40_000, max: 40_000 });
        assert_eq!(cc.gradient(), 8_000);
        assert!(cc.backs_off(1_000_000));
    }

    #[test]
    fn with_tolerance_a_loss_without_a_full_queue_costs_nothing() {
        let mut cc = cdg_with([("use_tolerance", Value::Bool(true))]);
        cc.state.rtt = Minmax { min: 41_000, max: 42_000 };
        cc.state.rtt_prev = Minmax { min: 40_000, max: 41_000 };
        cc.gradient();
        assert_eq!((cc.state.queue, lose(&mut cc, 100)), (Queue::NotFull, 100));
        // The minimum still rises while the maximum no longer does: the queue is full.
        cc.state.rtt = Minmax { min: 41_000, max: 40_000 };
        cc.gradient();
        assert_eq!((cc.state.queue, lose(&mut cc, 100)), (Queue::Full, 50));
    }

    #[test]
    fn delayed_acks_lower_the_minimum_but_never_raise_the_maximum() {
        let mut cc = cdg_with([]);
        cc.measure(40_000, 2);
        cc.measure(80_000, 1);
        assert_eq!((cc.state.rtt, cc.state.delayed_acks), (Minmax { min: 40_000, max: 40_000 }, 0));
        cc.measure(80_000, 1);
        assert_eq!(cc.state.rtt, Minmax { min: 40_000, max: 80_000 });
    }
}
