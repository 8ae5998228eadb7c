//! Deterministic packet simulator: TCP, QUIC and datagrams over a network of links with queues.
//!
//! [`Spec`] says what to simulate, [`Simulation`] does it, [`Output`] and [`Rows`] are what comes out. Times are whole
//! nanoseconds; the same specification gives the same bits on every machine.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod policy;
pub mod sender_log;
pub mod simulation;
#[cfg(feature = "quic")]
pub mod stacks;
pub mod steered;
pub mod tap;

pub use knee_net::{EventRow, LinkRow, Output, Rows, SampleRow, Spec, SpecError};
pub use simulation::{Beside, Fate, Own, OwnMake, Simulation};
pub use tap::Tap;
