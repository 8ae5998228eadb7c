//! Evaluations held against `knee evaluate`, of stacks' own controllers and of bad ones. One program: each would link
//! the engine anew.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

mod bad;
mod python;
mod shapes;
mod stacks;
mod svg;
mod window;
