//! Checks of specifications.

use super::sizes::check_sizes;
use crate::spec::{Change, Spec, Transport};
use knee_core::{ParamError, Time};
use thiserror::Error;

/// Flows a simulation takes at the most.
const MAX_FLOWS: usize = 1_000_000;

/// Why a specification was refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SpecError {
    /// A change of a running simulation that is in its past.
    #[error("a change at {found} ns is too early: what is before {least} ns has happened")]
    TooEarly {
        /// When it was to be, ns.
        found: u64,
        /// The earliest time, ns.
        least: u64,
    },
    /// Something there must be at least one of.
    #[error("there is no {0}")]
    Empty(&'static str),
    /// Too many flows.
    #[error("{0} flows are more than {MAX_FLOWS}")]
    TooManyFlows(usize),
    /// A number beyond all sense.
    #[error("{what} is {found}, which is more than {most}")]
    TooLarge {
        /// Name of the quantity.
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
    /// A flow of datagrams under the controller of a QUIC stack.
    #[error("flow `{0}`: a QUIC stack carries streams, and the flow sends datagrams")]
    StackDatagrams(String),
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
    /// No such model of a link, of its loss or of its delay.
    #[error("link `{link}`: no model `{name}`")]
    UnknownModel {
        /// The link.
        link: String,
        /// The name found.
        name: String,
    },
    /// Parameters of a link's model that contradict each other.
    #[error("link `{link}`: `{key}`: {found}")]
    Conflict {
        /// The link.
        link: String,
        /// The parameter.
        key: &'static str,
        /// The value found.
        found: String,
    },
    /// A parameter that is not declared or a value that is not accepted.
    #[error("{owner}: {error}")]
    Param {
        /// The flow or link.
        owner: String,
        /// The fault.
        error: ParamError,
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
    /// A receiver that cannot be.
    #[error("flow `{flow}`: its receiver is `{name}`: {fault}")]
    Receiver {
        /// The flow.
        flow: String,
        /// The receiver's name.
        name: String,
        /// The fault.
        fault: &'static str,
    },
    /// Traffic that cannot be sent.
    #[error("flow `{flow}`: {fault}")]
    Traffic {
        /// The flow.
        flow: String,
        /// The fault.
        fault: String,
    },
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
        let traces = link.loss_trace.iter().chain(link.reverse.iter().filter_map(|back| back.loss_trace.as_ref()));
        let damage = link.reverse.iter().map(|back| &back.corrupt).chain([&link.corrupt]);
        let mut losses = traces.flat_map(|trace| &trace.values).chain([&link.loss]).chain(damage);
        if !losses.all(|loss| (0.0..=1.0).contains(loss)) {
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
        if let Some(traffic) = &flow.traffic {
            let fault = |fault: String| SpecError::Traffic { flow: flow.label.clone(), fault };
            traffic.check().map_err(fault)?;
            if flow.transport == Transport::Quic && traffic.echoes() {
                return Err(fault(format!("QUIC flows carry no `{}`", traffic.kind)));
            }
        }
        if flow.reverse
            && let Some(&link) = flow.path.iter().find(|&&l| spec.links[l].reverse.is_none())
        {
            return Err(SpecError::NoReverse { flow: flow.label.clone(), link: spec.links[link].name.clone() });
        }
    }
    check_changes(spec)
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
            Change::Rate { link, rate } if rate == 0 || spec.links[link].capacity.is_recorded() => {
                return Err(SpecError::NoCapacity(spec.links[link].name.clone()));
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
