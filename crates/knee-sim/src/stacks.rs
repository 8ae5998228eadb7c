//! The QUIC stacks whose own controllers a flow can have: quinn, and others if the feature `stacks` is on.

use knee_cc::Entry;
use knee_core::Params;
use knee_quinn::stack::{self, StackControl};
use knee_quinn::{Quinn, Stack, Watch};
use std::sync::Arc;

/// The controllers of the stacks that are built in, with the names that scenario files give them.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    stack::ENTRIES.iter().chain(others())
}

/// The controller of this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.name == name)
}

/// Opens connections under the controller of an entry, which `watch` sees; none if no stack has it.
pub(crate) fn of(entry: &Entry, params: &Params, watch: &Arc<Watch>) -> Option<Arc<dyn Stack>> {
    match StackControl::of(entry, params, watch.clone()) {
        Some(control) => Some(Arc::new(Quinn(Arc::new(control)))),
        None => other(entry, watch),
    }
}

#[cfg(feature = "stacks")]
const fn others() -> &'static [Entry] {
    &knee_stacks::noq::ENTRIES
}

#[cfg(feature = "stacks")]
fn other(entry: &Entry, watch: &Arc<Watch>) -> Option<Arc<dyn Stack>> {
    Some(Arc::new(knee_stacks::noq::Noq::of(entry, watch.clone())?))
}

#[cfg(not(feature = "stacks"))]
const fn others() -> &'static [Entry] {
    &[]
}

#[cfg(not(feature = "stacks"))]
const fn other(_: &Entry, _: &Arc<Watch>) -> Option<Arc<dyn Stack>> {
    None
}
