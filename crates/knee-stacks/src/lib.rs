//! QUIC stacks beside quinn, each with its own connections and congestion controls, as flows of the simulator.
//!
//! knee is built with them if it is asked to: `docs/quic.md` says how.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod noq;
