//! Observers: what is counted and recorded while a simulation runs. They read the parts; no part knows them.

mod flow;
mod histogram;
mod link;
mod rows;
mod spread;

pub use flow::{FlowCounts, FlowRates, FlowWatch, no_figures};
pub use histogram::Histogram;
pub use link::{Drops, LinkCounts, LinkWatch};
pub use rows::Rows;
pub use spread::{RttSpread, Spread};

use knee_core::{Packet, Time};

/// Somebody who sees each packet that leaves a link.
pub trait Tap: Send {
    /// A packet has left link `link` at `at`.
    fn packet(&mut self, link: u32, at: Time, packet: &Packet);
}
