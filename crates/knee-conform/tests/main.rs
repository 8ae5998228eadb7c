//! Vectors with knee's own algorithms and with programs.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

mod mutants;
mod own;
