//! Observers: what is counted and recorded while a simulation runs. They read the parts; no part knows them.

mod datagrams;
mod flow;
mod histogram;
mod link;
mod record;
mod rows;
mod states;

pub use datagrams::{DatagramCounts, DatagramWatch};
pub use flow::{FlowCounts, FlowWatch, no_figures};
pub use histogram::{Histogram, Spread};
pub use link::{Drops, LinkCounts, LinkWatch};
pub use record::{FlowRecord, Interval, Record};
pub use rows::Rows;
pub use states::States;

/// Increase of a counter since it was `before`.
///
/// # Panics
/// If it has decreased, since that is an error in the program.
pub fn since(now: u64, before: u64) -> u64 {
    assert!(before <= now, "a counter fell from {before} to {now}");
    now - before
}

#[cfg(test)]
mod tests;
