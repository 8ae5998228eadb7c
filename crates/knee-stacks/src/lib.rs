//! QUIC stacks beside quinn, each with its own connections and congestion controls, as flows of the simulator.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod noq;
