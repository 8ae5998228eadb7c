//! Whole connections over QUIC, and the controller under random events. One program: each would link the stack anew.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

mod events;
mod reductions;
mod tls;
mod transfers;
