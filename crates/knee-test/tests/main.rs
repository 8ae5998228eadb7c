//! The network as tests use it, and the law that it is the simulator's.

#![allow(clippy::unwrap_used, reason = "a failure in a test's helper is the test's")]

mod law;
#[cfg(feature = "noq")]
mod over_noq;
#[cfg(feature = "quinn")]
mod over_quinn;
#[cfg(feature = "smoltcp")]
mod over_smoltcp;
#[cfg(feature = "quinn")]
mod page;
#[cfg(any(feature = "noq", feature = "quinn"))]
mod quic;
mod refusals;
#[cfg(feature = "quinn")]
mod streams;
mod use_of_it;
