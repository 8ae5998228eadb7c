//! Propagation delay and share of the rate, which change at each reconfiguration.

use super::Params;
use crate::entry::Init;
use crate::medium::PathDelay;
use knee_core::{Rng, Time};

/// Delay and capacity from one reconfiguration to the next.
#[derive(Clone)]
pub(super) struct Orbit {
    pub(super) params: Params,
    stream: (u64, String),
    /// Number of the reconfigurations so far, the extra delay and the share since the last.
    pub(super) current: (u64, Time, f64),
}

impl Orbit {
    /// The orbit of both directions of a link.
    pub(super) fn new(params: &knee_core::Params, init: &Init) -> Self {
        let stream = (init.seed, format!("leo/{}", init.link));
        let mut orbit = Self { params: params.into(), stream, current: (0, Time::ZERO, 1.0) };
        orbit.go_to(0);
        orbit
    }

    /// How many reconfigurations there were up to `now`, and when the last was.
    pub(super) fn epoch(&self, now: Time) -> (u64, Time) {
        if now < self.params.first {
            return (0, Time::ZERO);
        }
        let whole = (now - self.params.first).as_nanos() / self.params.period.as_nanos();
        (whole + 1, self.params.first + self.params.period * whole)
    }

    #[cold]
    pub(super) fn go_to(&mut self, epoch: u64) {
        let mut rng = Rng::stream(self.stream.0, &format!("{}/{epoch}", self.stream.1));
        let delay = Time::from_nanos(rng.below(self.params.delay_spread.as_nanos() + 1));
        self.current = (epoch, delay, self.params.capacity + (1.0 - self.params.capacity) * rng.unit());
    }
}

impl PathDelay for Orbit {
    fn delay(&mut self, now: Time) -> Time {
        let (epoch, _) = self.epoch(now);
        if epoch != self.current.0 {
            self.go_to(epoch);
        }
        self.current.1
    }
}

#[cfg(test)]
mod tests {
    use super::super::ENTRY;
    use super::*;
    use crate::entry::Shared;
    use knee_core::Rate;

    const MS: Time = Time::from_millis(1);

    fn orbit(seed: u64) -> Orbit {
        let shared = Shared::default();
        let init = Init { rate: Rate::from_mbps(1), seed, name: "sky", link: "sky", shared: &shared };
        Orbit::new(&knee_core::Params::defaults(ENTRY.choice.params), &init)
    }

    #[test]
    fn the_delay_changes_every_fifteen_seconds_and_not_in_between() {
        let mut orbit = orbit(1);
        let delays: Vec<Time> = (0..600).map(|i| orbit.delay(MS * 100 * i + MS)).collect();
        let changes: Vec<usize> = (1..600).filter(|&i| delays[i] != delays[i - 1]).collect();
        assert_eq!(changes, [120, 270, 420, 570], "at 12, 27, 42 and 57 s");
        assert!(delays.iter().all(|delay| *delay <= MS * 20));
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn steps_of_the_delay_are_a_third_of_the_spread_on_average() {
        // The mean distance of two uniform numbers is 1/3. Huston's RTTs: 6.7 ms between successive RTTs on average,
        // here 20 / 3 ms between one direction's reconfigurations.
        let mut orbit = orbit(1);
        let delays: Vec<f64> = (0..4000).map(|i| orbit.delay(Time::from_secs(15 * i + 13)).as_millis_f64()).collect();
        let mean = delays.windows(2).map(|w| (w[1] - w[0]).abs()).sum::<f64>() / 3999.0;
        assert!((mean - 20.0 / 3.0).abs() < 0.3, "{mean}");
    }
}
