//! What a specification says of a flow's traffic, every default written out, in base units: times in nanoseconds, rates
//! in bit/s, sizes in bytes.

use crate::{Entry, registry};
use knee_core::{Params, ParamsSpec};
use serde::Deserialize;

/// What a flow carries instead of an endless stream.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TrafficSpec {
    /// Connections that come and go, or messages on one that stays.
    Transfers {
        /// When they start.
        arrivals: Arrivals,
        /// How large they are.
        size: Size,
        /// Whether all go over one connection that stays.
        persistent: bool,
        /// How many there are at most.
        number: Option<u64>,
    },
    /// A kind whose parameters the registry declares.
    Declared {
        /// Its name.
        name: String,
        /// Its parameters.
        #[serde(default)]
        params: ParamsSpec,
    },
    /// Requests and answers. The one who asks sits where the flow's data goes to; answers are the flow's data.
    Requests {
        /// When users come, or when the one user asks again.
        pages: Pages,
        /// Bytes of a request.
        request: u64,
        /// Bytes of each answer.
        size: Size,
        /// Answers per page: the first alone, then all others; 1: an RPC.
        objects: Count,
        /// Connections at most for a page.
        connections: u32,
        /// Whether connections stay open from page to page.
        persistent: bool,
        /// TLS handshake.
        tls: Tls,
        /// How long the server takes for each answer, ns.
        service: u64,
        /// How many pages there are at most.
        number: Option<u64>,
    },
    /// Adaptive streaming over one connection. The player sits where the flow's data goes to.
    Video {
        /// Bitrates of the encodings, ascending, bit/s.
        ladder: Vec<u64>,
        /// Duration of a segment, ns.
        segment: u64,
        /// What the player holds at most, ns.
        buffer: u64,
        /// How it chooses.
        algorithm: VideoAlgorithm,
        /// Duration of the video, ns. `None` if endless.
        length: Option<u64>,
    },
    /// Datagrams at constant intervals, with pauses.
    ///
    /// Usual figures, as IP packets with headers of IPv4 and UDP (28 bytes) and RTP (12):
    ///
    /// * G.711: 160 bytes every 20 ms (RFC 3551, 4.5.14): 200 bytes, 80 kbit/s.
    /// * Opus at 24 kbit/s: 60 bytes every 20 ms: 100 bytes, 40 kbit/s. RFC 7587, 3.1.1 has 16 to 20 kbit/s for
    ///   wideband speech, and 28 to 40 for full band.
    /// * A first-person shooter: small packets at the rate of its clock. Published measurements (Feng, Chang, Feng and
    ///   Walpole, "Provisioning On-line Games", 2002; Claypool, LaPoint and Winslow, "Network Analysis of
    ///   Counter-strike and Starcraft", 2003) are of games with 20 to 40 packets per second, whose clients send some 40
    ///   bytes of payload and servers some 130; today's clocks have 60 Hz and more.
    Udp {
        /// IP packets, bytes.
        packet: u16,
        /// Time between two, ns.
        interval: u64,
        /// Mean times of talking and silence, both exponential, ns. `None` if always on.
        on_off: Option<(u64, u64)>,
        /// Both times are always the mean.
        #[serde(default)]
        constant: bool,
    },
    /// Datagrams as recorded.
    UdpTrace {
        /// Times from the start, ns, ascending, and IP packets in bytes.
        packets: Vec<(u64, u16)>,
        /// Whether it repeats.
        repeat: bool,
    },
    /// Datagrams that the other end sends back at once.
    Probe {
        /// IP packets, bytes.
        packet: u16,
        /// Time between two, ns.
        interval: u64,
    },
}

impl TrafficSpec {
    /// Its entry in the registry. `None` for a probe, or if there is no such kind.
    pub fn entry(&self) -> Option<&'static Entry> {
        registry::find(match self {
            Self::Transfers { .. } => "transfers",
            Self::Declared { name, .. } => name,
            Self::Requests { .. } => "requests",
            Self::Video { .. } => "video",
            Self::Udp { .. } | Self::UdpTrace { .. } => "udp",
            Self::Probe { .. } => return None,
        })
    }

    /// Whether it goes in datagrams, not over connections.
    pub fn is_datagrams(&self) -> bool {
        matches!(self, Self::Probe { .. }) || self.entry().is_some_and(Entry::sends_datagrams)
    }

    /// Whether each connection carries one message, which is written as it opens and has no answer: what happens on one
    /// then changes nothing on another but by way of the network.
    pub const fn has_independent_connections(&self) -> bool {
        matches!(self, Self::Transfers { persistent: false, .. })
    }

    /// Whether the application sits where the flow's data goes to, and asks for it.
    pub fn pulls(&self) -> bool {
        self.entry().is_some_and(|entry| entry.pulls)
    }
}

/// A kind with declared parameters, and these: the given ones, and defaults of the others.
///
/// # Errors
/// There is no such kind, or its parameters are not as it declares them.
pub(crate) fn declared(name: &str, given: &ParamsSpec) -> Result<(&'static Entry, Params), String> {
    let entry = registry::find(name).filter(|entry| !entry.has_tables());
    let entry = entry.ok_or_else(|| format!("the registry declares no kind of traffic `{name}`"))?;
    if let Some(missing) = entry.required.iter().find(|required| !given.contains_key(**required)) {
        return Err(format!("{name}: `{missing}` is missing"));
    }
    let params = Params::from_spec(entry.params, given).map_err(|error| format!("{name}: {error}"))?;
    (entry.check)(&params).map_err(|conflict| format!("{name}: {conflict}"))?;
    Ok((entry, params))
}

/// When transfers start.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// With exponential times between them: how many per second.
    Poisson(f64),
    /// At equal times: how many per second.
    Periodic(f64),
    /// At these times after the flow's start, ns, ascending.
    Times(Vec<u64>),
}

/// When pages are asked for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// By one user who asks again this long after the last page was complete, ns; the flag: the time is the mean of an
    /// exponential distribution.
    Closed(u64, bool),
    /// By users who come whether or not those before are served.
    Open(Arrivals),
}

/// How many objects a page has.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// Always this many.
    Fixed(u32),
    /// Geometric with this mean, at least 1.
    Geometric(f64),
}

/// How large messages are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Always this many bytes.
    Fixed(u64),
    /// Lognormal: the median in bytes, the standard deviation of the logarithm, and the greatest in bytes.
    Lognormal(f64, f64, u64),
    /// Pareto: the least in bytes, the shape, and the greatest in bytes (a bounded Pareto distribution).
    Pareto(f64, f64, u64),
    /// Sizes in bytes with the probability that a size is at most that, both ascending, the last 1; linear in between.
    Empirical(Vec<(u64, f64)>),
}

/// A TLS handshake before the first request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Tls {
    /// None.
    #[serde(rename = "none")]
    None,
    /// One round trip (RFC 8446).
    #[serde(rename = "1.3")]
    V13,
    /// Two round trips (RFC 5246).
    #[serde(rename = "1.2")]
    V12,
}

/// How a player chooses bitrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VideoAlgorithm {
    /// By the buffer (BBA-0; Huang et al., SIGCOMM 2014).
    Bba,
    /// By the measured throughput.
    Rate,
}
