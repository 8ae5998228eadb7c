//! A flow whose window or rate is steered.

use super::{Episode, Step};
use crate::policy::{ENTRY, Figures, Length, Settings, Steered};
use crate::{Own, OwnMake, Simulation, Spec, SpecError};
use knee_core::Time;
use knee_net::spec::Change;
use std::sync::{Arc, OnceLock};

/// The name of the flow's algorithm in the specification.
const NAME: &str = "steered";

/// One run with a flow that is steered. An action is one number ([`crate::policy::Pilot::act`]), once per monitor
/// interval.
pub struct FlowEpisode {
    simulation: Simulation,
    flow: usize,
    steered: Arc<OnceLock<Steered>>,
    /// The observation; zeros where the flow never began.
    observation: Vec<f32>,
    over: bool,
}

impl FlowEpisode {
    /// A run of `spec` that has come to the end of the flow's first interval, or to the scenario's end.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn begin(mut spec: Spec, flow: usize, settings: &Settings) -> Result<Self, SpecError> {
        // Algorithms over QUIC have a clock of their own, which begins with the connection.
        let of = spec.flows.get_mut(flow).filter(|of| of.is_tcp() && of.traffic.is_none());
        let Some(of) = of else { return Err(SpecError::Empty("flow over TCP to be steered")) };
        (of.cc, of.cc_params, of.policy) = (NAME.into(), None, None);
        let start = Time::from_nanos(of.start);
        let changed = spec.changes.iter().filter_map(|change| match change.what {
            Change::Rtt { flow: of, rtt } if of == flow => Some(rtt),
            _ => None,
        });
        let least_rtt = changed.fold(of.rtt, u64::min);
        let steered = Arc::new(OnceLock::new());
        let make = {
            let (steered, settings) = (Arc::clone(&steered), *settings);
            OwnMake::Algorithm(Arc::new(move |_, init, _| {
                let made = Steered::new(&settings, init);
                let control = made.control();
                // Another connection of the flow would find it taken, and be steered by nobody.
                let _ = steered.set(made);
                control
            }))
        };
        let own = Own { name: NAME.into(), entry: &ENTRY, make };
        let simulation = Simulation::with_own(&spec, std::slice::from_ref(&own))?;
        let observation = vec![0.0; settings.size()];
        let mut episode = Self { simulation, flow, steered, observation, over: false };
        episode.reach_first(start, stride(settings, least_rtt));
        Ok(episode)
    }

    /// Goes on to the end of the first interval.
    fn reach_first(&mut self, start: Time, stride: Time) {
        let mut time = start;
        self.simulation.run_until(time);
        while self.steered.get().is_none() {
            time = time.saturating_add(stride);
            if !self.simulation.run_until(time) {
                self.over = true;
                return;
            }
        }
        self.finish_interval();
    }

    /// Lets time pass to the end of the interval, and ends it.
    fn finish_interval(&mut self) {
        let Some(steered) = self.steered.get() else { return };
        loop {
            let end = steered.with(|pilot| pilot.end());
            let running = self.simulation.run_until(end);
            let now = self.simulation.now();
            let done = steered.with(|pilot| {
                let done = !running || pilot.has_heard();
                if done {
                    pilot.cut(now);
                    pilot.close();
                } else {
                    pilot.extend(end + Time::from_nanos(1));
                }
                done
            });
            if done {
                steered.with(|pilot| self.observation.copy_from_slice(pilot.observation()));
                self.over = !running;
                return;
            }
        }
    }

    /// The simulation, which goes on by itself from here.
    pub fn into_simulation(self) -> Simulation {
        self.simulation
    }
}

/// Half of the shortest interval that a flow of this least base RTT (ns) may begin with: its first interval ends later
/// than that after its connection is open.
fn stride(settings: &Settings, least_rtt: u64) -> Time {
    let ns = match settings.interval {
        Length::Time(ns) => ns / 2,
        Length::Rtts(rtts) => knee_core::convert::truncated(rtts * least_rtt as f64) / 2,
    };
    Time::from_nanos(ns.max(50_000))
}

impl Episode for FlowEpisode {
    fn step(&mut self, action: &[f64]) -> Result<Step, SpecError> {
        if !self.over {
            if let Some(steered) = self.steered.get() {
                steered.with(|pilot| pilot.act(action.first().copied().unwrap_or_default()));
            }
            self.finish_interval();
        }
        let terminated = self.simulation.has_ended(self.flow);
        Ok(Step { terminated, truncated: self.over && !terminated })
    }

    fn observation(&self) -> &[f32] {
        &self.observation
    }

    fn figures(&self) -> Figures {
        self.steered.get().map(|steered| steered.with(|pilot| *pilot.figures())).unwrap_or_default()
    }

    fn now_s(&self) -> f64 {
        self.simulation.now().as_secs_f64()
    }

    fn applied(&self) -> Vec<f64> {
        vec![self.steered.get().map_or(0.0, |steered| steered.with(|pilot| pilot.level()))]
    }
}
