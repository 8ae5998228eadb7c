//! BBRv3: BBR with bounds learned from loss, so that it leaves room for others and loses no more than 2 % probing.
//!
//! Source: draft-ietf-ccwg-bbr-06, "BBR Congestion Control" (IETF CCWG, 2026); numbers in comments are its sections.
//!
//! - `max_bw = max(delivery rate)` over this and the previous bandwidth-probing cycle (5.5.2)
//! - `bw = min(max_bw, bw_shortterm)`, `pacing_rate = pacing_gain · bw · 0.99` (5.6.2)
//! - `max_inflight = cwnd_gain · bw · min_rtt + extra_acked`, at least 3 bursts and 4 packets (5.6.4.2)
//! - `cwnd → max_inflight`, at most `inflight_shortterm` and `inflight_longterm`, cruising 85 % of it (5.6.4.7)
//! - probing with loss above 2 %: `inflight_longterm = max(in flight then, 0.7 · min(bdp, cwnd))` (5.5.10.2)
//! - a round with loss, not probing: short-term bounds `= max(latest round's, 0.7 · bound)` (5.5.10.3)
//!
//! ```text
//!   startup ─▶ drain ─▶ probe_bw_down ─▶ probe_bw_cruise ─▶ probe_bw_refill ─▶ probe_bw_up
//!      ▲                  ▲     ▲ └─────── time to probe ─────────▲                │
//!      │                  │     └───── no more bandwidth, or loss above 2 % ───────┘
//!      └── probe_rtt ◀────┴─ every state, where the least RTT is 5 s old
//! ```
//! Several steps may fall on one ACK; a spurious loss leads back to startup or to refill.
//!
//! Units: packets, bandwidth in packets/us · 2^24, times in ns, gains and thresholds in 1/1000.
//!
//! Departures and choices:
//! - Of a lost packet only the number is known: for what was in flight when it left stand the figures of the newest
//!   packet delivered, which left a few packets later. Losses on one ACK count as one sequence range.
//! - `lost_prefix` (5.5.10.2) is not let below 0.
//! - Drain is bounded by `inflight_shortterm` only, as in the pseudocode (5.6.4.7), not as in the table (5.6.1).
//! - Without SACK nothing changes: the sender always has it.
//! - CE marks: the draft asks that they count as congestion and leaves open how (3.6). An echo counts as a loss in the
//!   round, and as a loss above the threshold if it is feedback on a bandwidth probe. With accurate ECN and a short RTT
//!   the response is that of Google's BBRv3 (see [`ecn`]).
//! - Packets that leave during `probe_rtt` are taken for application-limited by their `prior_delivered`.
//!
//! `kernel = "v3-2023"` is Google's kernel where it differs from the draft (github.com/google/bbr, branch v3,
//! net/ipv4/tcp_bbr.c), as facts:
//! - at most what the bandwidth delivers in 100 ms is added to the window for aggregation
//! - the search for a plateau starts anew on any ACK whose bandwidth has grown by a quarter, not once per round
//! - drain ends by what is in flight alone, against `max_bw`; the gain of `probe_bw_down` is 232/256
//! - an RTT equal to the least one refreshes it
//! - what should be in flight has room for offload in it; cruising, `inflight_shortterm` is at most the long-term bound
//! - a probe that stops at the long-term bound looks at what was in flight before the ACK, and a burst more
//! - a timeout bounds what is in flight at once, and restarts the search; only leaving a timeout restores the window
//! - a spurious loss restores bounds, and repeats nothing
//!
//! Constants that are parameters are as they are set; that kernel's `drain_pacing_gain` is 0.344.

mod control;
mod drain;
mod ecn;
mod loss;
mod model;
mod probe_bw;
mod probe_rtt;
mod startup;
mod undo;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod kernel;
#[cfg(test)]
mod tests;

use crate::entry::{Entry, Family, edges};
use crate::{Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, Signal};
use crate::{StateChange, StateEvent, Undo, View};
use control::Output;
use ecn::{Ecn, Fractions};
use knee_core::convert::truncated;
use knee_core::{Rng, Time, choice, params};
use loss::{Delivery, ShortTerm};
use model::{Model, Sample};
use probe_bw::Probe;
use probe_rtt::MinRtt;
use startup::FullPipe;
use undo::Saved;

/// A gain or share of 1.
const UNIT: u64 = 1000;
/// No bound.
const INFINITE: u64 = u64::MAX;
/// Least window aimed at, in packets (`MinPipeCwnd`, 2.7): two in each direction with every other one acknowledged.
const MIN_PIPE_CWND: u64 = 4;

const SOURCE: &str = "draft-ietf-ccwg-bbr-06";

/// BBRv3's registry entry.
pub const ENTRY: Entry = Entry {
    name: "bbr3",
    family: Family::Hybrid,
    about: "BBR with bounds learned from loss: probes for bandwidth every few seconds, loses at most 2 % doing so",
    source: "draft-ietf-ccwg-bbr-06",
    params: Params::DECLARED,
    phases: &["startup", "drain", "probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up", "probe_rtt"],
    edges: edges![State:
        // The diagram's.
        Startup => Drain,
        Drain => Down,
        Down => Cruise,
        Down => Refill,
        Cruise => Refill,
        Refill => Up,
        Up => Down,
        Startup => ProbeRtt,
        Drain => ProbeRtt,
        Down => ProbeRtt,
        Cruise => ProbeRtt,
        Refill => ProbeRtt,
        Up => ProbeRtt,
        ProbeRtt => Startup,
        ProbeRtt => Cruise,
        // Several of them on one ACK.
        Startup => Down,
        Startup => Cruise,
        Startup => Refill,
        Drain => Cruise,
        Drain => Refill,
        Up => Cruise,
        Up => Refill,
        // A spurious loss ended startup.
        Drain => Startup,
        Down => Startup,
        Cruise => Startup,
        Refill => Startup,
        Up => Startup,
    ],
    min_cwnd: 1,
    needs: Needs { pacing: true, full_control: true, rate: true, ..Needs::NONE },
    make: |params, init| Box::new(Bbr3::new(params.into(), init)),
};

choice! {
    /// The kernel whose BBRv3 it is, or none for the draft's.
    enum Kernel {
        /// The draft's.
        None = "none",
        /// Google's kernel of 2023.
        V3 = "v3-2023",
    }
}

params! {
    /// BBRv3's parameters.
    struct Params {
        /// whose BBRv3: the draft's (none), or that of Google's kernel of 2023
        kernel: Kernel = Kernel::None, from "github.com/google/bbr, branch v3";
        /// pacing gain in startup, 4 ln 2
        startup_pacing_gain: f64 = 2.77, in 1.0..=4.0, from SOURCE;
        /// pacing gain in drain
        drain_pacing_gain: f64 = 0.5, in 0.1..=1.0, from SOURCE;
        /// window gain outside of probe_bw_up and probe_rtt
        cwnd_gain: f64 = 2.0, in 1.0..=4.0, from SOURCE;
        /// window gain in probe_rtt
        probe_rtt_cwnd_gain: f64 = 0.5, in 0.1..=1.0, from SOURCE;
        /// loss per round that is tolerated while probing
        loss_thresh: f64 = 0.02, in 0.0..=0.5, from SOURCE;
        /// least share of a bound that is kept per round with loss
        beta: f64 = 0.7, in 0.1..=1.0, from SOURCE;
        /// share of inflight_longterm left to others while cruising
        headroom: f64 = 0.15, in 0.0..=0.9, from SOURCE;
        /// how long min_rtt is valid
        min_rtt_filter_len: Time = Time::from_secs(10), in Time::from_millis(1)..=Time::from_secs(3600), from SOURCE;
        /// age of the least RTT that sends the flow to probe_rtt
        probe_rtt_interval: Time = Time::from_secs(5), in Time::from_millis(1)..=Time::from_secs(3600), from SOURCE;
        /// least stay in probe_rtt
        probe_rtt_duration: Time = Time::from_millis(200), in Time::ZERO..=Time::from_secs(10), from SOURCE;
        /// rounds the aggregation filter looks back
        extra_acked_filter_len: u64 = 10, in 1..=1000, from SOURCE;
        /// lost ranges in a round that may end startup
        startup_full_loss_cnt: u64 = 6, in 1..=1000, from SOURCE;
        /// how far below the gain times bw pacing stays, percent
        pacing_margin_percent: u64 = 1, in 0..=50, from SOURCE;
        #[flatten]
        ecn: ecn::Params;
    }
}

/// The states, in the order of the entry's phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// True in the four states of `probe_bw` (`IsInAProbeBWState`).
    const fn in_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// True if the flow looks for more bandwidth (`IsProbingBW`).
    const fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// The parameters, and gains and shares in units of 1 / [`UNIT`].
#[derive(Clone, Copy, Debug)]
struct Tunables {
    params: Params,
    startup_pacing_gain: u64,
    drain_pacing_gain: u64,
    cwnd_gain: u64,
    probe_rtt_cwnd_gain: u64,
    loss_thresh: u64,
    beta: u64,
    headroom: u64,
    ecn: Fractions,
}

impl Tunables {
    /// True if this is Google's kernel.
    fn is_kernel(&self) -> bool {
        self.params.kernel == Kernel::V3
    }

    fn new(params: Params) -> Self {
        let permille = |ratio| truncated(libm::round(ratio * UNIT as f64));
        Self {
            params,
            startup_pacing_gain: permille(params.startup_pacing_gain),
            drain_pacing_gain: permille(params.drain_pacing_gain),
            cwnd_gain: permille(params.cwnd_gain),
            probe_rtt_cwnd_gain: permille(params.probe_rtt_cwnd_gain),
            loss_thresh: permille(params.loss_thresh),
            beta: permille(params.beta),
            headroom: permille(params.headroom),
            ecn: Fractions::new(&params.ecn),
        }
    }
}

/// BBRv3 of one connection.
#[derive(Clone)]
struct Bbr3 {
    tunables: Tunables,
    /// Draws when to probe for bandwidth.
    rng: Rng,
    state: State,
    /// The flow starts again after a pause of the application.
    idle_restart: bool,
    model: Model,
    /// Long-term bound on what is in flight, in packets; [`INFINITE`] until loss set it.
    inflight_longterm: u64,
    short_term: ShortTerm,
    delivery: Delivery,
    ecn: Ecn,
    full_pipe: FullPipe,
    probe: Probe,
    min_rtt: MinRtt,
    saved: Saved,
    output: Output,
}

impl Bbr3 {
    /// Initialization (5.2.1).
    fn new(params: Params, init: &Init) -> Self {
        let tunables = Tunables::new(params);
        Self {
            tunables,
            rng: init.rng.clone(),
            state: State::Startup,
            idle_restart: false,
            model: Model::new(init.now),
            inflight_longterm: INFINITE,
            short_term: ShortTerm::default(),
            delivery: Delivery::default(),
            ecn: Ecn::new(init.accurate_ecn),
            full_pipe: FullPipe::default(),
            probe: Probe::default(),
            min_rtt: MinRtt::new(init),
            saved: Saved::default(),
            output: Output::new(init, &tunables),
        }
    }

    /// The bandwidth in force (`BoundBWForModel`, 5.5.10.3).
    fn bw(&self) -> u64 {
        self.model.max_bw().min(self.short_term.bw)
    }

    /// Everything that shows outside, written into `control`.
    fn answer(&self, control: &mut Control) {
        control.cwnd = control.cwnd.max(1);
        control.min_burst = 2;
        control.phase = self.state as u8;
        control.pacing_rate = Some(self.output.rate());
    }

    /// True if a transmission into an empty pipe follows a pause of the application.
    fn is_idle_restart(&self, view: &View) -> bool {
        view.app_limited || self.model.mark.covers(view.delivered)
    }
}

impl CongestionControl for Bbr3 {
    fn on_measure(&mut self, _: &Ack, control: &mut Control) {
        self.answer(control);
    }

    /// The steps of 5.2.3, losses first.
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.output.resize(ack.view.mss);
        let sample = Sample::new(ack, &self.model.mark);
        self.handle_losses(ack, &sample, control);
        self.update_latest_delivery(ack, &sample);
        self.update_congestion_signals(ack, &sample, control);
        self.update_extra_acked(ack, control.cwnd);
        if !sample.app_limited && (self.model.round_start() || self.tunables.is_kernel()) {
            self.full_pipe.update(sample.bw, self.model.round_start());
        }
        self.check_startup_done(ack, &sample);
        self.check_drain_done(ack);
        self.update_probe_bw(ack, &sample, control);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack, control);
        self.advance_latest_delivery(&sample);
        self.note_cycle(&sample);

        let (bw, gain) = (self.bw(), self.pacing_gain());
        self.output.set_rate(bw, gain, self.full_pipe.reached, &self.tunables);
        self.set_cwnd(ack, control);
        self.answer(control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        match congestion.signal {
            Signal::Ecn if self.ecn.eligible => self.save_state(control.cwnd),
            Signal::Ecn => self.handle_echo(congestion.view, control),
            Signal::Loss | Signal::Timeout => self.save_state(control.cwnd),
        }
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::Entered(ca) => {
                // Leaving recovery, the window of before is back (5.6.4.4); the model's bounds follow on the ACK.
                let left = self.saved.enter(ca);
                if left.is_some_and(|left| left == CaState::Loss || !self.tunables.is_kernel()) {
                    control.cwnd = control.cwnd.max(self.saved.prior_cwnd);
                }
                if ca == CaState::Loss && self.tunables.is_kernel() {
                    self.bound_by_timeout(control);
                }
            }
            StateEvent::Restart if self.is_idle_restart(change.view) => self.restart(change.view, control),
            _ => {}
        }
        self.answer(control);
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        self.restore_state(undo.view);
        control.cwnd = control.cwnd.max(self.saved.prior_cwnd);
    }
}
