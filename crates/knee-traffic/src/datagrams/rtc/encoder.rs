//! An encoder: frames at equal times, whose sizes vary about what the rate asks for.
//!
//! Sizes are those of the steady state of the synthetic source of RFC 8593 (section 5): the nominal size plus a
//! Laplacian deviation whose scale is 0.15 of it, here between half and twice the nominal size. Frames come at equal
//! times, and a new rate holds from the next frame on, where that model has deviations and a reaction time.

use knee_core::convert::{truncated, truncated_u32};
use knee_core::{Rng, Time};

/// Scale of the Laplacian deviation, as a fraction of the nominal size (RFC 8593, Table 1: `SCALE_B`).
const SCALE: f64 = 0.15;
/// The least and the greatest size of a frame, times the nominal one.
const LEAST: f64 = 0.5;
const GREATEST: f64 = 2.0;

/// An encoder.
#[derive(Clone)]
pub(super) struct Encoder {
    fps: f64,
    /// Scale of the deviation.
    pub(super) scale: f64,
    rng: Rng,
}

impl Encoder {
    /// An encoder of `fps` frames per second.
    pub(super) const fn new(fps: f64, rng: Rng) -> Self {
        Self { fps, scale: SCALE, rng }
    }

    /// The time between two frames.
    pub(super) fn period(&self) -> Time {
        Time::from_nanos(truncated(1e9 / self.fps))
    }

    /// Bytes of the next frame at `rate` bit/s, at least 1, and its nominal size.
    pub(super) fn frame(&mut self, rate: f64) -> (u32, f64) {
        let nominal = rate / self.fps / 8.0;
        let u = self.rng.unit() - 0.5;
        let deviation = -self.scale * u.signum() * libm::log(1.0 - 2.0 * u.abs());
        let bytes = nominal * (1.0 + deviation).clamp(LEAST, GREATEST);
        ((truncated_u32(bytes)).max(1), nominal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_rate_on_average_and_the_deviation_of_rfc_8593() {
        let mut encoder = Encoder::new(30.0, Rng::stream(1, "encoder"));
        let frames: Vec<f64> = (0..100_000).map(|_| f64::from(encoder.frame(1_200_000.0).0)).collect();
        let mean = frames.iter().sum::<f64>() / frames.len() as f64;
        // The standard deviation of a Laplacian is 0.15 · sqrt(2) · 5000 = 1061: 3.4 for the mean of 10^5.
        assert!((mean - 5000.0).abs() < 20.0, "{mean}");
        let deviation = frames.iter().map(|bytes| (bytes - mean).abs()).sum::<f64>() / frames.len() as f64;
        assert!(
            (deviation / 5000.0 - SCALE).abs() < 0.01,
            "the mean deviation of a Laplacian is its scale: {deviation}"
        );
        assert!(frames.iter().all(|bytes| (2500.0..=10_000.0).contains(bytes)));
    }
}
