//! Packets that leave links, as a pcapng file for Wireshark and tshark: real ones as they are, the simulator's with the
//! headers they would have.

mod file;
mod simulated;

pub use file::Capture;
pub use simulated::Simulated;
