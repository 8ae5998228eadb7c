//! Deterministic packet simulator.

pub mod output;
pub mod spec;

pub use output::{EventRow, LinkRow, Output, SampleRow};
pub use spec::Spec;
