//! The list of what a link can be. To add a model: write its file, declare the module, add its entry here.

use crate::medium::Medium;
use crate::models::wifi::SharedAir;
use crate::models::{cellular, docsis, leo, wifi};
use crate::{delay, loss};
use knee_core::{Conflict, Param, Params, Rate, Time};

/// One of several ways in which a part of a link works.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Its name in scenario files.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper, standard or program it follows.
    pub source: &'static str,
    /// Its parameters: `DECLARED` of what [`knee_core::params!`] makes.
    pub params: &'static [Param],
}

/// What a new medium is told about its link.
pub struct Init<'a> {
    /// The rate at which it sends, which is not zero.
    pub rate: Rate,
    /// Seed of the random streams, which are named by the link.
    pub seed: u64,
    /// Name of the link's direction.
    pub name: &'a str,
    /// Name of the link, which both of its directions have.
    pub link: &'a str,
    /// What the other direction has left for this one to share.
    pub air: &'a mut Option<SharedAir>,
}

/// Makes a medium with these parameters.
pub type Make = fn(&Params, &mut Init) -> Box<dyn Medium>;

/// How a link sends at its rate.
pub struct Model {
    /// What it is.
    pub choice: Choice,
    /// What of its parameters contradicts each other, or a rate.
    pub check: fn(&Params, Rate) -> Result<(), Conflict>,
    /// How long a packet that finds the queue empty may have to wait until it is taken out, beside what chance adds:
    /// delays below that say nothing of a queue.
    pub access: fn(&Params, Rate) -> Time,
    /// Makes one; none: a wire, a token bucket or a trace, as the link's other keys say.
    pub make: Option<Make>,
}

/// What a link is where nothing else is said.
const WIRE: Model = Model {
    choice: Choice {
        name: "wire",
        about: "serialises each packet at the rate; with burst a token bucket, with trace recorded opportunities",
        source: "Linux htb for burst, mahimahi for trace",
        params: &[],
    },
    check: |_, _| Ok(()),
    access: |_, _| Time::ZERO,
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
