//! The declaration of a link model, and the input of a new medium.

use crate::medium::{Medium, PathDelay};
use crate::models::wifi::SharedAir;
use knee_core::{Conflict, Param, Params, Rate, Time};
use std::cell::OnceCell;

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

/// Properties of the link that a new medium is made for.
pub struct Init<'a> {
    /// The rate at which it sends, which is not zero.
    pub rate: Rate,
    /// Seed of the random streams, which are named by the link.
    pub seed: u64,
    /// Name of the link's direction.
    pub name: &'a str,
    /// Name of the link, which both of its directions have.
    pub link: &'a str,
    /// State that the media of both directions share, and of other links on its channel.
    pub shared: &'a Shared,
}

/// State that media share: of both directions of a link, and of all links of a channel. The first that needs some
/// creates it, with its own parameters.
#[derive(Default)]
pub struct Shared {
    /// The air of `wifi`.
    pub(crate) air: OnceCell<SharedAir>,
}

/// Copies of the state that a network's media share, while the network is copied.
#[derive(Default)]
pub struct Copies {
    /// Airs of `wifi`, each with its copy.
    pub(crate) airs: Vec<(SharedAir, SharedAir)>,
}

/// Makes a medium with these parameters.
pub type Make = fn(&Params, &Init) -> Box<dyn Medium>;
/// Access categories: how many, and that of each codepoint.
pub type Categories = (u8, fn(u8) -> u8);
/// Makes the propagation delay behind a medium with these parameters.
pub type MakePath = fn(&Params, &Init) -> Box<dyn PathDelay>;

/// How a link sends at its rate.
pub struct Model {
    /// Name, description, source and parameters.
    pub choice: Choice,
    /// Rejects parameters that contradict each other or the rate.
    pub check: fn(&Params, Rate) -> Result<(), Conflict>,
    /// How long a packet that finds the queue empty may have to wait until it is taken out, apart from what chance
    /// adds: delays below that say nothing of a queue.
    pub access: fn(&Params, Rate) -> Time,
    /// Makes the extra propagation delay behind it. `None` if it has none.
    pub path: Option<MakePath>,
    /// The number of access categories with these parameters, and the category of each codepoint (DSCP, below 64); the
    /// link then has a queue for each. `None` for a single queue.
    pub categories: fn(&Params) -> Option<Categories>,
    /// Makes one. `None` for a wire, a token bucket or a trace, as the link's other keys say.
    pub make: Option<Make>,
}
