//! TCP endpoints that behave as Linux's, in segments and nanoseconds. They know nothing of what lies between them.
//!
//! A [`sender::Sender`] takes ACKs and timers and gives what leaves; a [`receiver::Receiver`] takes data and gives
//! ACKs. Their [`timer::Timer`]s fire on a kernel's clock of ticks.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod ecn;
pub mod ends;
pub mod receiver;
pub mod sender;
pub mod timer;
