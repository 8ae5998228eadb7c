//! BBR v1: paces at the bottleneck's bandwidth and keeps a small multiple of the bandwidth-delay product in flight.
//!
//! Source: Linux net/ipv4/tcp_bbr.c (6.12); Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue
//! 14(5), 2016. Loss plays no part in the model, apart from the policer detector and the first round of recovery.
//!
//! - `bw = max(delivered / interval)` over 10 packet-timed rounds (`model`)
//! - `min_rtt = min(rtt)` over 10 s (`probe_rtt`)
//! - `pacing_rate = pacing_gain · bw · 0.99` (`pacing`)
//! - `cwnd → max(cwnd_gain · bw · min_rtt + extra_acked + 3 bursts, 4)` (`window`)
//!
//! ```text
//!   startup ──bw grew < 25 % in 3 rounds──▶ drain ──in flight ≤ BDP──▶ probe_bw ⟲ 5/4, 3/4, 1, 1, 1, 1, 1, 1
//!      ▲                                      │                          │  ▲
//!      │       every state: no lower RTT for 10 s                        │  │
//!      └─pipe never full── probe_rtt ◀────────┴──────────────────────────┘  │
//!                            └──200 ms and a round at 4 packets─────────────┘
//! ```
//!
//! Units as in Linux, integers and roundings included: bandwidth in packets/us · 2^24, gains in 1/256, times in us;
//! `min_rtt`'s clock and the stay in `probe_rtt` count ticks of the kernel's clock.
//!
//! `kernel = "4.13"` is BBR before departure times (4.20) and ACK aggregation (5.1): its gain cycle compares what is in
//! flight now, two packets more while it probes are missing, and a `min_rtt` that is measured again, also by a
//! delayed ACK, is new. Without segmentation offload it allows for bursts of one segment. Its rate is of `mss + 52`
//! bytes a packet, of which fq spends `mss + 66`: the same margin of one percent.
//!
//! Departures:
//! - `probe_rtt` cannot mark the connection application-limited through the interface; instead the samples of the
//!   packets that would carry the mark are recognised by their `prior_delivered` (`bandwidth::AppLimitedMark`), which
//!   is equivalent.
//! - Counters do not wrap.

mod aggregation;
mod drain;
mod model;
mod pacing;
mod policer;
mod probe_bw;
mod probe_rtt;
mod startup;
mod window;

#[cfg(test)]
mod tests;

use crate::entry::{Entry, Family, edges};
use crate::{Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, StateChange};
use crate::{StateEvent, Undo};
use aggregation::Aggregation;
use knee_core::convert::{saturating_u8, truncated};
use knee_core::{Rng, Time, choice, params};
use model::Model;
use pacing::Pacing;
use policer::Policer;
use probe_bw::Cycle;
use probe_rtt::MinRtt;
use startup::FullPipe;
use window::Recovery;

/// A gain of 1 (`BBR_UNIT`).
const UNIT: u64 = 256;

const SOURCE: &str = "Linux tcp_bbr.c";

/// BBR's registry entry.
pub const ENTRY: Entry = Entry {
    name: "bbr",
    family: Family::Hybrid,
    about: "paces at the measured bottleneck bandwidth, with at most about two bandwidth-delay products in flight (v1)",
    source: "Linux net/ipv4/tcp_bbr.c; Cardwell et al., ACM Queue 14(5), 2016",
    params: Params::DECLARED,
    phases: &["startup", "drain", "probe_bw", "probe_rtt"],
    // Drain is passed within one ACK where little is in flight at the end of startup: the edge from startup to
    // probe_bw.
    edges: edges![Mode:
        Startup => Drain,
        Startup => ProbeBw,
        Drain => ProbeBw,
        Startup => ProbeRtt,
        Drain => ProbeRtt,
        ProbeBw => ProbeRtt,
        ProbeRtt => Startup,
        ProbeRtt => ProbeBw,
    ],
    min_cwnd: 1,
    needs: Needs { pacing: true, full_control: true, rate: true, ..Needs::NONE },
    make: |params, init| Box::new(Bbr::new(params.into(), init)),
};

choice! {
    /// The kernel whose BBR it is.
    enum Kernel {
        V6_12 = "6.12",
        V4_13 = "4.13",
    }
}

params! {
    /// BBR's parameters.
    struct Params {
        /// the Linux release: 4.13 neither adds two packets while it probes nor allows for ACK aggregation
        kernel: Kernel = Kernel::V6_12, from "Linux tcp_bbr.c, 6.12 and 4.13";
        /// pacing and window gain in startup, 2/ln 2; drain inverts it
        high_gain: f64 = 2.885, in 1.0..=3.99, from SOURCE;
        /// window gain in probe_bw
        cwnd_gain: f64 = 2.0, in 1.0..=3.99, from SOURCE;
        /// rounds covered by the bandwidth filter
        bw_rtts: u64 = 10, in 1..=1000, from SOURCE;
        /// age of min_rtt at which the flow enters probe_rtt
        min_rtt_win: Time = Time::from_secs(10), in Time::from_millis(1)..=Time::from_secs(3600), from SOURCE;
        /// minimum time in probe_rtt at 4 packets; 0: no probe_rtt
        probe_rtt_mode: Time = Time::from_millis(200), in Time::ZERO..=Time::from_secs(10), from SOURCE;
        /// how far the pacing rate stays below gain times bandwidth, percent
        pacing_margin_percent: u64 = 1, in 0..=50, from SOURCE;
        /// rounds without 25 % more bandwidth after which startup ends
        full_bw_cnt: u32 = 3, in 1..=3, from SOURCE;
        /// fraction of the ACK aggregation added to the window
        extra_acked_gain: f64 = 1.0, in 0.0..=3.99, from SOURCE;
        /// whether to detect token-bucket policers
        lt_bw: bool = true, from SOURCE;
    }
}

/// The state machine's states, in the order of the entry's phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The parameters, and the gains in units of 1 / [`UNIT`].
#[derive(Clone, Copy, Debug)]
struct Tunables {
    params: Params,
    /// Startup's.
    high_gain: u64,
    /// Drain's pacing gain.
    drain_gain: u64,
    cwnd_gain: u64,
    extra_acked_gain: u64,
}

impl Tunables {
    fn new(params: Params) -> Self {
        Self {
            params,
            // Linux rounds the first up and the second down: 739 and 88 of 256.
            high_gain: truncated(params.high_gain * UNIT as f64) + 1,
            drain_gain: truncated(UNIT as f64 / params.high_gain),
            cwnd_gain: truncated(params.cwnd_gain * UNIT as f64),
            extra_acked_gain: truncated(params.extra_acked_gain * UNIT as f64),
        }
    }
}

/// BBR of one connection.
#[derive(Clone)]
struct Bbr {
    tunables: Tunables,
    /// The kernel's clock tick.
    tick: Time,
    /// Draws where in the gain cycle `probe_bw` begins.
    rng: Rng,
    mode: Mode,
    /// In force for the pacing rate, in 1/256.
    pacing_gain: u64,
    /// In force for the window, in 1/256.
    cwnd_gain: u64,
    /// The flow starts again after a pause of the application.
    idle_restart: bool,
    /// When data was last delivered, us (`delivered_mstamp`).
    delivered_at: u64,
    model: Model,
    full_pipe: FullPipe,
    cycle: Cycle,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    policer: Policer,
    recovery: Recovery,
    pacing: Pacing,
}

impl Bbr {
    fn new(params: Params, init: &Init) -> Self {
        let tunables = Tunables::new(params);
        let now = init.now.as_micros();
        Self {
            tunables,
            tick: init.tick,
            rng: init.rng.clone(),
            mode: Mode::Startup,
            pacing_gain: tunables.high_gain,
            cwnd_gain: tunables.high_gain,
            idle_restart: false,
            delivered_at: now,
            model: Model::default(),
            full_pipe: FullPipe::default(),
            cycle: Cycle::default(),
            min_rtt: MinRtt::new(init),
            aggregation: Aggregation::new(now),
            policer: Policer::new(now),
            recovery: Recovery::default(),
            pacing: Pacing::new(init, &tunables),
        }
    }

    /// True if this is the BBR of Linux 4.13.
    fn is_old(&self) -> bool {
        self.tunables.params.kernel == Kernel::V4_13
    }

    /// The bandwidth in force: the policer's if one was detected.
    fn bw(&self) -> u64 {
        self.policer.bw().unwrap_or(self.model.max_bw())
    }

    /// Mode after `probe_rtt` (`bbr_reset_mode`).
    fn reset_mode(&mut self) {
        if self.full_pipe.reached() {
            self.enter_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Gains of the mode (`bbr_update_gains`).
    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (self.tunables.high_gain, self.tunables.high_gain),
            Mode::Drain => (self.tunables.drain_gain, self.tunables.high_gain),
            Mode::ProbeBw if self.policer.bw().is_some() => (UNIT, self.tunables.cwnd_gain),
            Mode::ProbeBw => (self.cycle.gain(), self.tunables.cwnd_gain),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Everything that shows outside, written into `control`.
    fn answer(&self, control: &mut Control) {
        control.cwnd = control.cwnd.max(1);
        control.min_burst = saturating_u8(self.pacing.min_burst());
        control.phase = self.mode as u8;
        control.pacing_rate = Some(self.pacing.rate());
    }
}

impl CongestionControl for Bbr {
    fn on_measure(&mut self, _: &Ack, control: &mut Control) {
        self.answer(control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.pacing.resize(ack.view.mss);
        if ack.delivered > 0 {
            self.delivered_at = ack.view.now.as_micros();
        }
        let sample = self.model.sample(ack);
        self.update_bw(ack, &sample);
        self.update_aggregation(ack, &sample, control.cwnd);
        self.update_cycle(ack);
        if self.model.round_start() && !sample.app_limited {
            self.full_pipe.update(self.model.max_bw(), self.tunables.params.full_bw_cnt);
        }
        self.check_drain(ack, control);
        self.update_min_rtt(ack, control);
        self.update_gains();

        let bw = self.bw();
        self.pacing.set_rate(bw, self.pacing_gain, ack.view.srtt, self.full_pipe.reached(), &self.tunables);
        self.set_cwnd(ack, bw, control);
        self.answer(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        self.recovery.save_cwnd(control.cwnd, self.mode);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::Entered(CaState::Loss) => {
                self.recovery.prev_ca = CaState::Loss;
                self.full_pipe.forget_baseline();
                // A timeout counts as the end of a round, with a loss in it.
                self.model.force_round_start();
                self.sample_policer(change.view, 1, false);
            }
            StateEvent::Restart if self.is_idle_restart(change.view) => {
                self.idle_restart = true;
                self.aggregation.restart(change.view.now.as_micros());
                match self.mode {
                    Mode::ProbeBw => {
                        let (bw, full) = (self.bw(), self.full_pipe.reached());
                        self.pacing.set_rate(bw, UNIT, change.view.srtt, full, &self.tunables);
                    }
                    Mode::ProbeRtt => self.check_probe_rtt_done(change.view.now, control),
                    Mode::Startup | Mode::Drain => {}
                }
            }
            _ => {}
        }
        self.answer(control);
    }

    fn on_undo(&mut self, undo: &Undo, _: &mut Control) {
        self.full_pipe.restart();
        self.policer.reset(self.delivered_at, undo.view);
    }
}
