//! The list of what a link can be. To add a model: write its file, declare the module, add its entry here.

pub use crate::entry::{Choice, Copies, Init, Make, MakePath, Model, Shared};
use crate::models::{cellular, docsis, leo, wifi};
use crate::{delay, loss};
use knee_core::Time;

/// The default link.
const WIRE: Model = Model {
    choice: Choice {
        name: "wire",
        about: "serialises each packet at the rate; with burst a token bucket, with trace or rate_trace as recorded",
        source: "Linux htb for burst, mahimahi for trace",
        params: &[],
    },
    check: |_, _| Ok(()),
    access: |_, _| Time::ZERO,
    path: None,
    categories: |_| None,
    make: None,
};

static MODELS: &[Model] =
    &[WIRE, wifi::ENTRY, docsis::ENTRY, docsis::LLD_ENTRY, cellular::LTE, cellular::NR, leo::ENTRY];
static LOSSES: &[Choice] = &[loss::RANDOM, loss::GILBERT_ELLIOTT];
static DELAYS: &[Choice] = &[delay::UNIFORM, delay::NORMAL, delay::PARETO, delay::PARETO_NORMAL, delay::TABLE];

/// All models, in the order of listings.
pub fn models() -> &'static [Model] {
    MODELS
}

/// All models of loss before the queue.
pub fn losses() -> &'static [Choice] {
    LOSSES
}

/// All distributions of the extra delay behind the queue.
pub fn delays() -> &'static [Choice] {
    DELAYS
}

/// The model called `name`.
pub fn find(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.choice.name == name)
}
