//! The task of an end: a file of JSON.

use knee_traffic::TrafficSpec;
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The end of a flow's path that this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The application runs here.
    Client,
    /// The other end, which answers.
    Server,
}

/// The task of one end. Times are in ns from the run's start.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The end of the flow's path.
    pub role: Role,
    /// Index of the flow.
    pub flow: u32,
    /// Its traffic.
    pub traffic: TrafficSpec,
    /// Seed of the run.
    pub seed: u64,
    /// The network namespace to enter. `None` to stay where it starts.
    #[serde(default)]
    pub namespace: Option<PathBuf>,
    /// The user to become once all sockets are there. `None` to stay who it is.
    #[serde(default)]
    pub user: Option<u32>,
    /// The named pipe through which the client tells the server about exchanges, so that messages need no header and
    /// may have any size.
    pub control: PathBuf,
    /// The server's address and port.
    pub address: Ipv4Addr,
    /// See above.
    pub port: u16,
    /// Congestion control of the connections.
    pub cc: String,
    /// The ECN field of datagrams (RFC 3168): 0 Not-ECT, 1 ECT(1), 2 ECT(0).
    #[serde(default)]
    pub ecn: u8,
    /// Start of the flow.
    pub start: u64,
    /// End of the flow: nothing new from then on.
    pub stop: u64,
    /// End of the run.
    pub duration: u64,
    /// Time between two counts of what has arrived.
    pub interval: u64,
    /// Further times of such counts, ascending.
    #[serde(default)]
    pub marks: Vec<u64>,
}
