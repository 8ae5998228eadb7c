//! QUIC stacks beside quinn, each with its own connections and congestion controls, as flows of the simulator.
//!
//! knee is built with them if it is asked to: `docs/quic.md` says how.

pub mod noq;
