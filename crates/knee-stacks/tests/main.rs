//! Flows of the stacks' own controllers in the simulator.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

mod conform;
mod simulated;
