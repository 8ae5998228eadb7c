//! A kind of traffic's entry in the registry.

use crate::Application;
use crate::datagrams::Source;
use knee_core::{Conflict, Param, Params, Rate, Rng};

/// The description of a kind of traffic.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, `kind` in scenario files.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper, RFC or program it follows.
    pub source: &'static str,
    /// Its parameters, which are keys of the table `traffic`.
    pub params: &'static [Param],
    /// Those of them that a scenario must give: their declared default is an example.
    pub required: &'static [&'static str],
    /// Whether the application sits where the flow's data goes to, and asks for it.
    pub pulls: bool,
    /// Whether it also runs over the sockets of a real kernel.
    pub sockets: bool,
    /// What of its parameters contradicts each other.
    pub check: fn(&Params) -> Result<(), Conflict>,
    /// The rate that it offers on average, whatever the network, unless it takes what it gets.
    pub load: fn(&Params) -> Option<Rate>,
    /// Creates an instance.
    pub make: Make,
}

/// Creates what sends, from its parameters and random numbers of its own.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// An application over connections.
    Application(fn(&Params, Rng) -> Box<dyn Application>),
    /// A source of datagrams; the flag: its packets are ECT(1) (RFC 9331).
    Source(fn(&Params, bool, Rng) -> Box<dyn Source>),
    /// [`crate::TrafficSpec`] has a variant for it and the Python package a model: it has tables, lists or files, which
    /// parameters cannot express.
    Tables {
        /// Whether it goes in datagrams.
        datagrams: bool,
    },
}

impl Entry {
    /// What kinds with tables have in common: the Python package works out what their parameters would say.
    pub(crate) const fn with_tables(name: &'static str, about: &'static str, source: &'static str) -> Self {
        Self {
            name,
            about,
            source,
            params: &[],
            required: &[],
            pulls: false,
            sockets: true,
            check: |_| Ok(()),
            load: |_| None,
            make: Make::Tables { datagrams: false },
        }
    }

    /// Whether it goes in datagrams, not over connections.
    pub const fn sends_datagrams(&self) -> bool {
        matches!(self.make, Make::Source(_) | Make::Tables { datagrams: true })
    }

    /// Whether its keys are tables of its own, not declared parameters.
    pub const fn has_tables(&self) -> bool {
        matches!(self.make, Make::Tables { .. })
    }
}
