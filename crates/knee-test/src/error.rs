//! Errors of a network: a paragraph each, with the value found and the remedy.

use crate::{MTU, Port};
use knee_core::Time;

/// Errors of a network.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file says what cannot be.
    #[error(transparent)]
    Scenario(#[from] knee_scenario::Error),
    /// Links that cannot be built.
    #[error("the network cannot be built: {0}; the scenario file has to say something else.")]
    Network(#[from] knee_net::SpecError),
    /// A flow that the simulator cannot send.
    #[error("nothing is known of what is sent on path {path}; a scenario has a flow for each path.")]
    NothingSent {
        /// The path.
        path: u32,
    },
    /// A flow that came too late.
    #[error("the flow {flow:?} came into the background at {at}; say so before anything is sent and time passes.")]
    Begun {
        /// The flow.
        flow: String,
        /// The latest time told.
        at: Time,
    },
    /// A flow that is not, or is, the simulator's.
    #[error("the flow {flow:?} is {found}.")]
    Whose {
        /// The flow.
        flow: String,
        /// Whose it is, and the remedy.
        found: &'static str,
    },
    /// A codepoint that a packet cannot have.
    #[error(
        "a packet sent at {at} has the codepoint {found}, which is not that of its path; beside flows of the simulator \
         that open connections, give the path that dscp, or another path."
    )]
    Codepoint {
        /// When.
        at: Time,
        /// The codepoint.
        found: u8,
    },
    /// A packet larger than the links carry.
    #[error(
        "a packet of {found} bytes was sent from port {port:?} at {at}; links carry up to {MTU} bytes with IP's and \
         UDP's headers, so send at most {most} bytes here, and expect no segmentation offload (GSO)."
    )]
    TooLarge {
        /// When.
        at: Time,
        /// The sender.
        port: Port,
        /// Bytes as an IP packet.
        found: usize,
        /// The most that the call takes.
        most: usize,
    },
    /// A clock that went back.
    #[error("the clock went back from {before} to {found}; a network is told times that never decrease.")]
    ClockWentBack {
        /// The last time told.
        before: Time,
        /// The earlier one told now.
        found: Time,
    },
    /// No such port.
    #[error("there is no port {found:?}; the file has {paths} paths, and port numbers up to {}.", paths * 2 - 1)]
    UnknownPort {
        /// The port.
        found: Port,
        /// How many paths there are.
        paths: u32,
    },
    /// No flow or link of this name.
    #[error("no {kind} is named {found:?}; there are: {}.", known.join(", "))]
    UnknownName {
        /// A flow or a link.
        kind: &'static str,
        /// The name.
        found: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A program that takes nothing.
    #[error(
        "{waiting} packets have come out since {since} and were not taken; call poll at the times that next gives, or \
         more often."
    )]
    NotPolled {
        /// How many.
        waiting: usize,
        /// When the first of them came out.
        since: Time,
    },
    /// Bytes that are no IP packet.
    #[error("the {len} bytes sent from port {port:?} are no IP packet: {fault}; send_ip takes a whole one.")]
    NotIp {
        /// The sender.
        port: Port,
        /// How many bytes.
        len: usize,
        /// The fault.
        fault: &'static str,
    },
    /// A program in real time.
    #[cfg(feature = "tokio")]
    #[error(
        "tokio's clock runs, or there is no runtime; a lab takes one whose clock is paused, as of \
         #[tokio::test(start_paused = true)]."
    )]
    ClockRuns,
    /// A program that waits for nothing.
    #[cfg(feature = "tokio")]
    #[error(
        "the program waits since {at}, and for a day nothing is due in the network and its timers, or for an hour \
         nothing but flows of the simulator."
    )]
    Stalled {
        /// When something happened last.
        at: Time,
    },
    /// A stack made no endpoint.
    #[cfg(any(feature = "noq", feature = "quinn"))]
    #[error("{stack} made no endpoint at port {port:?}: {error}.")]
    Endpoint {
        /// The stack.
        stack: &'static str,
        /// Where.
        port: Port,
        /// Its error.
        error: std::io::Error,
    },
    /// A file that cannot be written.
    #[error("{file} cannot be written ({error}); give a file in a folder that is there.")]
    Write {
        /// The file.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
}
