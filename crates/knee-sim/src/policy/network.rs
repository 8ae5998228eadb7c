//! A small neural network: layers of weighted sums, with `tanh` between them.

use serde::Deserialize;
use std::fmt;

/// The most numbers that a layer takes or gives.
const MOST_WIDE: usize = 1024;
/// The most layers.
const MOST_LAYERS: usize = 8;

/// Why a policy is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The key.
    pub key: &'static str,
    /// The value found there.
    pub found: String,
    /// The values accepted.
    pub accepted: &'static str,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}; expected {}", self.key, self.found, self.accepted)
    }
}

impl std::error::Error for PlanError {}

/// A layer of the network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// A row for each number that it gives, with a factor for each that it takes.
    pub weights: Vec<Vec<f64>>,
    /// Added to each row's sum.
    pub bias: Vec<f64>,
}

/// The layers, first to last.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Network(pub Vec<Layer>);

impl Network {
    /// Checks that it takes `inputs` numbers and gives one, and that all weights are finite.
    ///
    /// # Errors
    /// The key, what was found, and what is accepted.
    pub fn check(&self, inputs: usize) -> Result<(), PlanError> {
        let fault = |key, found, accepted| Err(PlanError { key, found, accepted });
        if !(1..=MOST_LAYERS).contains(&self.0.len()) {
            return fault("layers", format!("a list of {}", self.0.len()), "1 to 8 layers");
        }
        let mut width = inputs;
        for (i, layer) in self.0.iter().enumerate() {
            if let Some(row) = layer.weights.iter().find(|row| row.len() != width) {
                let found = format!("a row of {} in layer {i}, which takes {width} numbers", row.len());
                return fault("weights", found, "as many factors in a row as the layer takes numbers");
            }
            width = layer.weights.len();
            if !(1..=MOST_WIDE).contains(&width) {
                return fault("weights", format!("{width} rows in layer {i}"), "1 to 1024 rows");
            }
            if layer.bias.len() != width {
                let found = format!("a list of {} in layer {i}, which has {width} rows", layer.bias.len());
                return fault("bias", found, "one number for each row");
            }
            if !layer.weights.iter().flatten().chain(&layer.bias).all(|weight| weight.is_finite()) {
                return fault("weights", format!("not finite in layer {i}"), "finite numbers");
            }
        }
        if width != 1 {
            return fault("layers", format!("{width} numbers at the end"), "one number, the action");
        }
        Ok(())
    }

    /// The action for an observation. The sum of each row begins with its bias, and goes from left to right.
    pub fn action(&self, observation: &[f32]) -> f64 {
        let mut values: Vec<f64> = observation.iter().map(|&value| f64::from(value)).collect();
        for (i, layer) in self.0.iter().enumerate() {
            let hidden = i + 1 < self.0.len();
            let sums = layer.weights.iter().zip(&layer.bias).map(|(row, &bias)| {
                let sum = row.iter().zip(&values).fold(bias, |sum, (weight, value)| sum + weight * value);
                if hidden { libm::tanh(sum) } else { sum }
            });
            values = sums.collect();
        }
        values.first().copied().unwrap_or_default()
    }
}
