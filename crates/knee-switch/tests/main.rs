//! The switch over loopback, and its network in virtual time. One program: each would link the engine anew.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

mod endpoints;
mod network;
