//! The configuration of a switch, as one line of JSON.

use knee_sim::Spec;
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Everything a run needs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The scenario, as the simulator takes it.
    pub spec: Spec,
    /// The two sides: the senders' (of flows in the forward direction), then the receivers'.
    pub sides: [Side; 2],
    /// Port of flow 0 at the receiver of its data; flow n has this plus n.
    pub port: u16,
    /// The addresses of the two sides, between which QUIC flows run.
    pub addresses: [Ipv4Addr; 2],
    /// The file, there already, to which the packets that leave links are written, as pcapng.
    pub capture: Option<PathBuf>,
    /// The folder in which the senders of QUIC flows get qlog files.
    pub qlog: Option<PathBuf>,
    /// The flow of all packets that have no other flow's port: those of a program. Without it they are dropped.
    #[serde(default)]
    pub program: Option<usize>,
    /// The file, there already, whose one line says now and then how the run goes.
    #[serde(default)]
    pub live: Option<PathBuf>,
    /// The process that waits for the outcome; the switch ends with it.
    pub parent: i32,
    /// User and group to run as once the devices are open; this process's own in a user namespace that has no other.
    pub user: u32,
}

/// A network namespace and the device in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// The file that stands for the namespace.
    pub namespace: PathBuf,
    /// The name of the device to make there.
    pub device: String,
}
