//! Losses in bursts, at the same times in both directions.

use super::Params;
use crate::entry::Init;
use knee_core::convert::truncated;
use knee_core::{Rng, Time};

/// When packets are lost.
#[derive(Clone)]
pub(super) struct LossBursts {
    params: Params,
    /// Draws gaps and lengths, the same for both directions; and which packets are lost.
    times: Rng,
    fates: Rng,
    /// The current burst or the next one.
    from: Time,
    until: Time,
}

impl LossBursts {
    pub(super) fn new(params: &knee_core::Params, init: &Init) -> Self {
        let times = Rng::stream(init.seed, &format!("leo/{}/bursts", init.link));
        let fates = Rng::stream(init.seed, &format!("leo/{}/losses", init.name));
        let mut bursts = Self { params: params.into(), times, fates, from: Time::ZERO, until: Time::ZERO };
        bursts.draw();
        bursts
    }

    /// Goes on to the next burst.
    fn draw(&mut self) {
        self.from = self.until.saturating_add(exponential(self.params.burst_gap, &mut self.times));
        self.until = self.from.saturating_add(exponential(self.params.burst_length, &mut self.times));
    }

    /// Returns true if a packet that is sent now is lost.
    pub(super) fn loses(&mut self, now: Time) -> bool {
        if self.params.burst_loss == 0.0 {
            return false;
        }
        while self.until <= now {
            self.draw();
        }
        self.from <= now && self.fates.chance(self.params.burst_loss)
    }
}

/// An exponentially distributed time of this mean, at least a nanosecond.
fn exponential(mean: Time, rng: &mut Rng) -> Time {
    Time::from_nanos(truncated(-libm::log(1.0 - rng.unit()) * mean.as_nanos() as f64).max(1))
}
