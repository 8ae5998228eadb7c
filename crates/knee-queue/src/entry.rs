//! A queue discipline's entry in the registry.

use crate::Init;
use knee_core::{Param, Params};
use knee_link::DynQueue;

/// The description of a queue discipline.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper, RFC or kernel file it follows.
    pub source: &'static str,
    /// Its parameters, apart from the limit: `DECLARED` of what [`knee_core::params!`] makes.
    pub params: &'static [Param],
    /// Creates an instance.
    pub make: Make,
}

/// Creates a queue.
pub type Make = fn(&Params, &Init) -> Box<dyn DynQueue>;
