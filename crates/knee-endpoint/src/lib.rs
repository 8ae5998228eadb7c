//! The two ends of an application's flow over the sockets of a real kernel, so that the same [`Application`] runs in
//! the simulator and there. Each end is a process, which need not know what is between them.
//!
//! [`Application`]: knee_traffic::Application

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod client;
pub mod control;
pub mod datagrams;
pub mod error;
pub mod poller;
pub mod record;
pub mod server;
pub mod stream;
pub mod task;
pub mod ticks;
