//! A network by itself: what a specification says of it, links and pipes, the order of events, observers.
//!
//! [`Spec`] says what there is, [`network::Network`] is that at rest, a [`driver::Driver`] moves packets through it,
//! [`Output`] and [`Rows`] are what comes out of a run. What is at the ends of flows is another's part: the
//! simulator's, or the switch's between real kernels. Times are whole nanoseconds.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod driver;
pub mod events;
pub mod network;
pub mod observe;
pub mod output;
pub mod pipe;
pub mod recorder;
pub mod spec;
#[cfg(test)]
mod testing;

pub use network::SpecError;
pub use observe::Rows;
pub use output::{EventRow, LinkRow, Output, SampleRow};
pub use spec::Spec;
