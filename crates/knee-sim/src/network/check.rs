//! What a specification must fulfil.

use crate::spec::{Capacity, Change, LimitSpec, Spec};
use knee_core::{ParamError, Time};
use thiserror::Error;

/// Flows a simulation takes at the most.
const MAX_FLOWS: usize = 1_000_000;

/// Greatest numbers that a specification may have, in base units: three years, and beyond every link and buffer. Sums and
/// products of them, as the engine makes them, fit.
const MAX_TIME: u64 = 100_000_000_000_000_000;
const MAX_RATE: u64 = 1_000_000_000_000_000;
const MAX_BYTES: u64 = 1_000_000_000_000_000_000;

/// Why a specification was refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SpecError {
    /// Something there must be at least one of.
    #[error("there is no {0}")]
    Empty(&'static str),
    /// Too many flows.
    #[error("{0} flows are more than {MAX_FLOWS}")]
    TooManyFlows(usize),
    /// A number beyond all sense.
    #[error("{what} is {found}, which is more than {most}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The greatest accepted.
        most: u64,
    },
    /// A span that must not be zero.
    #[error("{0} is zero")]
    Zero(&'static str),
    /// Parameters that cannot be read.
    #[error("{owner}: its parameters cannot be read: {error}")]
    Text {
        /// Whose they are.
        owner: String,
        /// Why not.
        error: String,
    },
    /// No such algorithm.
    #[error("flow `{flow}`: no congestion control `{name}`")]
    UnknownCc {
        /// The flow.
        flow: String,
        /// The name found.
        name: String,
    },
    /// No such queue discipline.
    #[error("link `{link}`: no queue discipline `{name}`")]
    UnknownQueue {
        /// The link.
        link: String,
        /// The name found.
        name: String,
    },
    /// A parameter that is not declared or a value that is not accepted.
    #[error("{owner}: {error}")]
    Param {
        /// The flow or link.
        owner: String,
        /// What is wrong.
        error: ParamError,
    },
    /// A word that is not among a parameter's choices.
    #[error("{owner}: `{name}` takes another word")]
    Word {
        /// The flow or link.
        owner: String,
        /// The parameter.
        name: String,
    },
    /// A link without rate or opportunities.
    #[error("link `{0}` carries nothing: its rate is zero, or its trace is empty or not ascending")]
    NoCapacity(String),
    /// A probability outside 0 to 1.
    #[error("link `{0}`: a probability is outside 0 to 1")]
    Probability(String),
    /// An index of a link or flow that does not exist.
    #[error("{0} names a link or flow that does not exist")]
    Index(String),
    /// Propagation delays longer than the base RTT.
    #[error("flow `{0}`: the links of its path delay longer than its base RTT")]
    Delay(String),
    /// A reverse flow over a link whose reverse direction has no rate.
    #[error("flow `{flow}` runs in the reverse direction, but link `{link}` has no reverse rate")]
    NoReverse {
        /// The flow.
        flow: String,
        /// The link.
        link: String,
    },
}

/// Propagation delay of a path's links.
pub(super) fn path_delay(spec: &Spec, path: &[usize]) -> Time {
    path.iter().fold(Time::ZERO, |sum, &l| sum + Time::from_nanos(spec.links[l].delay))
}

/// Refuses a specification whose parts do not fit together.
///
/// # Errors
/// If it contradicts itself or names what does not exist.
pub fn check(spec: &Spec) -> Result<(), SpecError> {
    if spec.flows.is_empty() {
        return Err(SpecError::Empty("flow"));
    }
    if spec.links.is_empty() {
        return Err(SpecError::Empty("link"));
    }
    if spec.flows.len() > MAX_FLOWS {
        return Err(SpecError::TooManyFlows(spec.flows.len()));
    }
    for (what, value) in [("the duration", spec.duration), ("the interval", spec.interval)] {
        if value == 0 {
            return Err(SpecError::Zero(what));
        }
    }
    check_sizes(spec)?;
    for link in &spec.links {
        if !(0.0..=1.0).contains(&link.loss) {
            return Err(SpecError::Probability(link.name.clone()));
        }
    }
    for flow in &spec.flows {
        if flow.path.is_empty()
            || flow.path.len() > usize::from(u8::MAX)
            || flow.path.iter().any(|&l| l >= spec.links.len())
        {
            return Err(SpecError::Index(format!("the path of flow `{}`", flow.label)));
        }
        if path_delay(spec, &flow.path) > Time::from_nanos(flow.rtt) {
            return Err(SpecError::Delay(flow.label.clone()));
        }
        if flow.reverse
            && let Some(&link) = flow.path.iter().find(|&&l| spec.links[l].reverse.is_none())
        {
            return Err(SpecError::NoReverse { flow: flow.label.clone(), link: spec.links[link].name.clone() });
        }
    }
    check_changes(spec)
}

/// Refuses numbers with which the engine's sums and products would not fit.
fn check_sizes(spec: &Spec) -> Result<(), SpecError> {
    let within = |what, most| {
        move |found: u64| if found > most { Err(SpecError::TooLarge { what, found, most }) } else { Ok(()) }
    };
    let (time, rate, bytes) =
        (|what| within(what, MAX_TIME), |what| within(what, MAX_RATE), |what| within(what, MAX_BYTES));
    let limit = |limit: Option<LimitSpec>| match limit {
        Some(LimitSpec::Time(ns)) => time("a limit")(ns),
        Some(LimitSpec::Packets(n) | LimitSpec::Bytes(n)) => bytes("a limit")(n),
        None => Ok(()),
    };
    let capacity = |capacity: &Capacity| match capacity {
        Capacity::Rate(bps) => rate("a rate")(*bps),
        Capacity::Trace(ms) => time("a trace's last time")(ms.last().map_or(0, |ms| ms.saturating_mul(1_000_000))),
    };
    time("the duration")(spec.duration)?;
    time("the interval")(spec.interval)?;
    time("the warmup")(spec.warmup)?;
    let tcp = &spec.tcp;
    [tcp.tick, tcp.rto_min, tcp.delayed_ack, tcp.sack_delay].into_iter().try_for_each(time("a time of TCP"))?;
    [tcp.window_growth, tcp.receive_window.unwrap_or(0)].into_iter().try_for_each(bytes("a window of TCP"))?;
    for link in &spec.links {
        capacity(&link.capacity)?;
        limit(link.limit)?;
        time("a link's delay")(link.delay)?;
        time("a link's jitter")(link.jitter)?;
        bytes("a link's burst")(link.burst.unwrap_or(0))?;
        if let Some(back) = &link.reverse {
            capacity(&back.capacity)?;
            limit(back.limit)?;
        }
    }
    for flow in &spec.flows {
        time("a flow's RTT")(flow.rtt)?;
        time("a flow's start")(flow.start)?;
        bytes("a flow's size")(flow.bytes.unwrap_or(0))?;
    }
    for change in &spec.changes {
        time("the time of a change")(change.at)?;
        match change.what {
            Change::Rate { rate: bps, .. } => rate("a rate")(bps)?,
            Change::Limit { limit: new, .. } => limit(Some(new))?,
            Change::Rtt { rtt, .. } => time("a flow's RTT")(rtt)?,
            Change::Loss { .. } => {}
        }
    }
    Ok(())
}

fn check_changes(spec: &Spec) -> Result<(), SpecError> {
    for change in &spec.changes {
        match change.what {
            Change::Rate { link, .. } | Change::Loss { link, .. } | Change::Limit { link, .. }
                if link >= spec.links.len() =>
            {
                return Err(SpecError::Index("a change".into()));
            }
            Change::Rtt { flow, .. } if flow >= spec.flows.len() => return Err(SpecError::Index("a change".into())),
            Change::Rate { link, rate } => {
                let traced = matches!(spec.links[link].capacity, Capacity::Trace(_));
                if rate == 0 || traced {
                    return Err(SpecError::NoCapacity(spec.links[link].name.clone()));
                }
            }
            Change::Loss { link, loss } if !(0.0..=1.0).contains(&loss) => {
                return Err(SpecError::Probability(spec.links[link].name.clone()));
            }
            Change::Rtt { flow, rtt } if path_delay(spec, &spec.flows[flow].path) > Time::from_nanos(rtt) => {
                return Err(SpecError::Delay(spec.flows[flow].label.clone()));
            }
            _ => {}
        }
    }
    Ok(())
}
