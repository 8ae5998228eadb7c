//! Any of knee's congestion controls in a QUIC stack: a controller for [quinn](https://docs.rs/quinn).
//!
//! ```
//! use knee_quinn::{Control, proto::TransportConfig};
//! use std::sync::Arc;
//!
//! let mut transport = TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(Control::named("lola")?));
//! # Ok::<(), knee_quinn::ControlError>(())
//! ```
//!
//! quinn calls a controller when packets leave, for each packet acknowledged, after the last one of an ACK, and when
//! packets are deemed lost. [`Controller`] turns these calls into the events that an algorithm of `knee-cc` sees in a
//! Linux kernel: RTT and delivery-rate samples, ACKs, reductions, recovery. `docs/quic.md` lists what differs.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod acks;
pub mod conform;
pub mod connection;
mod controller;
mod end;
mod factory;
mod flight;
pub mod flights;
pub mod observed;
mod peer;
mod plain;
mod quinn;
mod rtt;
pub mod stack;
pub mod tls;
mod watch;

pub use bytes::Bytes;
pub use connection::{AckFrequency, Datagram, Ended, Settings, Stack};
pub use controller::Controller;
pub use factory::{Control, ControlError, Make};
pub use knee_core::params::Value;
pub use peer::{LEAST_BUFFER, LEAST_MTU, Peer};
pub use plain::Plain;
pub use quinn::Quinn;
pub use quinn_proto as proto;
pub use watch::{Seen, Watch};
