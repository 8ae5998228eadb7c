//! A kind of traffic's entry in the registry.

use crate::Application;
use crate::datagrams::Source;
use crate::given::{Given, Table};
use knee_core::{Conflict, Param, Rate, Rng};

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
    /// Its further keys, which take a table, a list or a file.
    pub tables: &'static [Table],
    /// The keys that a scenario must give: the declared default of a parameter is an example then.
    pub required: &'static [&'static str],
    /// The application sits where the flow's data goes to, and asks for it.
    pub pulls: bool,
    /// The other end sends each datagram back at once.
    pub echoes: bool,
    /// It also runs over the sockets of a real kernel.
    pub sockets: bool,
    /// Returns true if each connection carries one message, which is written as it opens and has no answer. Connections
    /// then meet only in the network, and the simulator visits them in batches.
    pub independent: fn(&Given) -> bool,
    /// Rejects parameters that contradict each other.
    pub check: fn(&Given) -> Result<(), Conflict>,
    /// The rate that it offers on average, whatever the network. `None` if it takes what it gets.
    pub load: fn(&Given) -> Option<Rate>,
    /// Creates an instance.
    pub make: Make,
}

/// Creates what sends, from its parameters and random numbers of its own.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// An application over connections.
    Application(fn(&Given, Rng) -> Box<dyn Application>),
    /// A source of datagrams; the flag: its packets are ECT(1) (RFC 9331).
    Source(fn(&Given, bool, Rng) -> Box<dyn Source>),
}

impl Entry {
    /// True if it goes in datagrams, not over connections.
    pub const fn sends_datagrams(&self) -> bool {
        matches!(self.make, Make::Source(_))
    }
}
