//! A congestion control, a queue discipline and a kind of traffic in a crate of their own.
//!
//! [`add`] makes them known: from then on specifications can name them, wherever they name knee's own.

mod algorithm;
mod queue;
mod traffic;

use knee_core::registry::NameTaken;

/// Adds what this crate has to knee's registries; it may be called more than once.
///
/// # Errors
/// If knee has something of one of the names.
pub fn add() -> Result<(), NameTaken> {
    knee_cc::add(&algorithm::ENTRY)?;
    knee_queue::add(&queue::ENTRY)?;
    knee_traffic::add(&traffic::ENTRY)
}
