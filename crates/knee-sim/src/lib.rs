//! Deterministic packet simulator: links with queues, TCP endpoints that behave as Linux's, observers.
//!
//! [`Spec`] says what to simulate, [`Simulation`] does it, [`Output`] and [`Rows`] are what comes out. Times are whole
//! nanoseconds; the same specification gives the same bits on every machine.

pub mod ecn;
pub mod events;
pub mod network;
pub mod observe;
pub mod output;
pub mod pipe;
pub mod receiver;
pub mod sender;
pub mod simulation;
pub mod spec;
pub mod stacks;
pub mod timer;

pub use network::SpecError;
pub use observe::{Rows, Tap};
pub use output::{EventRow, LinkRow, Output, SampleRow};
pub use simulation::{Own, OwnMake, Simulation};
pub use spec::Spec;
