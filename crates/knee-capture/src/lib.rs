//! The packets that senders send and the ACKs that reach them, as a pcapng file for Wireshark and tshark: real packets
//! as they are, simulated ones with the headers they would have.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod file;
mod simulated;

pub use file::Capture;
pub use simulated::Simulated;
