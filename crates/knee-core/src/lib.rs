//! Terms that every part of knee shares: units, packets, declared parameters and named random streams.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod boxed;
pub mod cache;
pub mod connection;
pub mod convert;
pub mod declare;
pub mod given;
pub mod packet;
pub mod params;
pub mod priority;
pub mod registry;
pub mod rng;
#[cfg(feature = "testing")]
pub mod testing;
pub mod units;

pub use connection::{ConnectionId, Tuple};
pub use given::{Conflict, ParamsSpec, ValueSpec};
pub use packet::{Packet, Payload, Received, Seq};
pub use params::{Kind, Param, ParamError, Params, Value};
pub use priority::Priority;
pub use rng::Rng;
pub use units::{Bytes, Rate, Time};
