//! A flow's traffic in a specification, in base units: times in nanoseconds, rates in bit/s, sizes in bytes.

use crate::given::Given;
use crate::{Entry, registry};
use knee_core::{Priority, Rate, Value};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// Traffic that a flow carries instead of an endless stream: a kind of the registry and its parameters.
///
/// In JSON `kind` is the kind's name, and all other keys are those that its entry declares.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Keys")]
pub struct TrafficSpec {
    /// Name of the kind.
    pub kind: String,
    given: Result<Given, String>,
}

#[derive(Deserialize)]
struct Keys {
    kind: String,
    #[serde(flatten)]
    given: Map<String, Json>,
}

impl From<Keys> for TrafficSpec {
    fn from(Keys { kind, given }: Keys) -> Self {
        let given = match registry::find(&kind) {
            Some(entry) => Given::read(entry, &given).and_then(|given| match (entry.check)(&given) {
                Ok(()) => Ok(given),
                Err(conflict) => Err(conflict.to_string()),
            }),
            None => Err("the registry has no such kind of traffic".into()),
        };
        Self { given: given.map_err(|error| format!("{kind}: {error}")), kind }
    }
}

impl TrafficSpec {
    /// Checks that it can be carried out.
    ///
    /// # Errors
    /// The parameter, the value found and what is accepted, without the name of the flow.
    pub fn check(&self) -> Result<(), String> {
        self.given.as_ref().map(drop).map_err(Clone::clone)
    }

    /// Its entry in the registry, with its parameters. `None` if it does not pass [`TrafficSpec::check`].
    pub fn resolved(&self) -> Option<(&'static Entry, &Given)> {
        Some((registry::find(&self.kind)?, self.given.as_ref().ok()?))
    }

    fn is(&self, property: impl FnOnce(&Entry, &Given) -> bool) -> bool {
        self.resolved().is_some_and(|(entry, given)| property(entry, given))
    }

    /// True if it goes in datagrams, not over connections.
    pub fn is_datagrams(&self) -> bool {
        self.is(|entry, _| entry.sends_datagrams())
    }

    /// True if the other end sends each datagram back: see [`Entry::echoes`].
    pub fn echoes(&self) -> bool {
        self.is(|entry, _| entry.echoes)
    }

    /// Exchanges that a connection has at once at most; above 1, each goes on a stream of its own. A kind that declares
    /// a parameter `streams` can have several.
    pub fn streams(&self) -> u64 {
        match self.resolved().and_then(|(_, given)| given.params.find("streams")) {
            Some(Value::Count(streams)) => streams,
            _ => 1,
        }
    }

    /// True if its connections meet only in the network: see [`Entry::independent`].
    pub fn has_independent_connections(&self) -> bool {
        self.is(|entry, given| (entry.independent)(given))
    }

    /// True if the application sits where the flow's data goes to: see [`Entry::pulls`].
    pub fn pulls(&self) -> bool {
        self.is(|entry, _| entry.pulls)
    }

    /// The rate that it offers on average: see [`Entry::load`].
    pub fn load(&self) -> Option<Rate> {
        self.resolved().and_then(|(entry, given)| (entry.load)(given))
    }
}

/// When transfers start.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// With exponential times between them: how many per second.
    Poisson(f64),
    /// At equal times: how many per second.
    Periodic(f64),
    /// At these times after the flow's start, ns, ascending.
    Times(Vec<u64>),
}

/// When pages are asked for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// By one user who asks again this long after the last page was complete, ns; the flag: the time is the mean of an
    /// exponential distribution.
    Closed(u64, bool),
    /// By users who come whether or not those before are served.
    Open(Arrivals),
}

/// How many objects a page has.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// Always this many.
    Fixed(u32),
    /// Geometric with this mean, at least 1.
    Geometric(f64),
}

/// How large messages are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Always this many bytes.
    Fixed(u64),
    /// Lognormal: the median in bytes, the standard deviation of the logarithm, and the greatest in bytes.
    Lognormal(f64, f64, u64),
    /// Pareto: the least in bytes, the shape, and the greatest in bytes (a bounded Pareto distribution).
    Pareto(f64, f64, u64),
    /// Sizes in bytes with the probability that a size is at most that, both ascending, the last 1; linear in between.
    Empirical(Vec<(u64, f64)>),
}

/// Priorities (RFC 9218), of which messages have one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Priorities(pub Vec<Priority>);

impl Priorities {
    /// That of message `n`, counted from 0.
    pub fn of(&self, n: u64) -> Priority {
        let place = n.checked_rem(self.0.len() as u64).map_or(0, knee_core::convert::index);
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// Ascending rates, bit/s.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Rates(pub Vec<u64>);

/// Recorded packets: times from the start, ns, ascending, and IP packets in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Packets(pub Vec<(u64, u16)>);
