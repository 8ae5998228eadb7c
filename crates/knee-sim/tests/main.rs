//! Whole simulations, held against laws, claims of papers and each other. One program: each would link the engine anew.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

mod applications;
#[cfg(feature = "quic")]
mod beside;
mod claims;
mod connections;
mod datagrams;
mod engine;
mod idle;
mod laws;
mod losses;
mod networks;
mod observing;
mod outside;
#[cfg(feature = "quic")]
mod own;
mod own_traffic;
mod packets;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "quic")]
mod quic_traffic;
mod receivers;
mod runs;
mod sender_log;
#[cfg(feature = "quic")]
mod steered;
mod stepping;
mod streams;
