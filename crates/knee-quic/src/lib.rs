//! A QUIC endpoint of knee's own, packet by packet: RFC 9000's acknowledgments and RFC 9002's loss detection and
//! congestion control, without bytes.
//!
//! A [`Sender`] takes [`AckFrame`]s and timers and gives the packets that leave; a [`Receiver`] takes packets and gives
//! ACK frames. Both know nothing of what lies between them. All of their packets are in one packet number space, that
//! of application data; the [`handshake`] is by machines of its own, and over before a sender starts, but for 0-RTT. A
//! connection has one stream in each direction, or several at once with priorities ([`Sender::use_streams`]).
//! [`preset`] has the settings of seven stacks.
//!
//! ```
//! use knee_core::Time;
//! use knee_quic::{Arrival, Config, Mark, Receiver, Sender, SenderInit};
//!
//! let config = Config::default();
//! let mut sender = Sender::new(&SenderInit { bytes: Some(5_000), ..SenderInit::default() }, &config);
//! let (mut receiver, mut out) = (Receiver::default(), Vec::new());
//! sender.send(Time::ZERO, &config, &mut out);
//! for burst in out.drain(..) {
//!     for number in burst.first..burst.first + u64::from(burst.count) {
//!         let arrival = Arrival::of(&burst, number, Mark::NotEct);
//!         if let Some(ack) = receiver.on_packet(&arrival, Time::from_millis(10), &config) {
//!             sender.on_ack(&ack, Time::from_millis(20), &config, &mut Vec::new())?;
//!         }
//!     }
//! }
//! assert_eq!((receiver.in_order(), sender.srtt()), (5_000, Some(Time::from_millis(20))));
//! # Ok::<(), knee_quic::Violation>(())
//! ```

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod config;
mod frame;
mod frames;
pub mod handshake;
pub mod preset;
mod ranges;
pub mod receiver;
pub mod sender;

pub use config::{Config, Settings};
pub use frame::{AckFrame, DELAY_UNIT, EcnCounts, Mark};
pub use frames::{Frames, StreamFrame};
pub use ranges::{Range, Ranges};
pub use receiver::{Arrival, Receiver};
pub use sender::{Outgoing, Sender, SenderInit, Violation};
