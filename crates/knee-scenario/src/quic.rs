//! Refusals of settings of `[tcp]` and `[quic]` that contradict the flows.

use crate::error::{Refused, refused};
use crate::fields::{Read, within};
use crate::fitting::{Keys, stack};
use crate::settings::{given_of_quic, given_of_tcp, resolved};
use crate::units::{BYTES, TIME};
use knee_net::spec::{QuicSpec, TcpSpec};
use serde::Deserialize;

/// Keys of `[quic]` that mean nothing to datagrams, which are under no flow control and of full size from the start;
/// and those that mean nothing to streams.
const OF_STREAMS: [&str; 3] = ["receive_window", "stream_receive_window", "initial_mtu"];
const OF_DATAGRAMS: [&str; 1] = ["datagram_buffer"];
/// Keys of `[quic]` that the simulator's endpoints alone have, and not those of QUIC stacks.
pub const QUIC_OF_SIMULATOR: [&str; 11] = [
    "preset",
    "certificate",
    "zero_rtt",
    "retry",
    "idle_timeout",
    "initial_window",
    "initial_rtt",
    "packet_threshold",
    "pacing",
    "gso",
    "max_streams",
];
/// The greatest delay of an ACK for which quinn and noq ask on a path with a shorter RTT, ns.
const ALWAYS_ASKED: u64 = 25_000_000;
/// The greatest settings of the simulator's endpoints: the delay of an ACK in ns, packets, and windows in bytes.
const MOST_DELAY: u64 = 524_000_000;
const MOST_PACKETS: u64 = 9999;
const MOST_WINDOW: u64 = (1 << 31) - 1;

/// A flow, for its endpoints.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct End {
    #[serde(flatten)]
    pub(crate) keys: Keys,
    /// Base round-trip time, ns.
    pub(crate) rtt: u64,
    /// True for QUIC with the simulator's endpoints, and not those of a QUIC stack.
    pub(crate) is_own: bool,
    /// True if a connection has as many streams as it is told.
    pub(crate) has_streams: bool,
}

impl End {
    /// A flow of the simulator with these keys.
    pub(crate) fn simulated(keys: Keys, rtt: u64) -> Self {
        let is_own = keys.is_quic() && stack(&keys.cc).is_none();
        Self { keys, rtt, is_own, has_streams: is_own }
    }
}

/// Refuses settings that no flow has, or that mean one transport where both are limited.
pub(crate) fn check(flows: &[End], tcp: &TcpSpec, quic: &QuicSpec) -> Read<()> {
    let no = |found: String, accepted: &str, key: &str| Err(under_table(refused(found, accepted), key));
    let over: Vec<&End> = flows.iter().filter(|flow| flow.keys.is_quic()).collect();
    let (quic, usual) = (&resolved(quic), &resolved(&QuicSpec::default()));
    let given = given_of_quic(quic, usual);
    if !given_of_tcp(tcp, &TcpSpec::default()).is_empty() && over.len() == flows.len() {
        return no("all flows are QUIC flows".into(), "expected a TCP flow, or no table [tcp]", "tcp");
    }
    if !given.is_empty() && over.is_empty() {
        let accepted = "expected one with transport = \"quic\", or no table [quic]";
        return no("no flow is a QUIC flow".into(), accepted, "quic");
    }
    if let (Some(window), None, false) = (tcp.receive_window, quic.receive_window, over.is_empty()) {
        let window = BYTES.text(window);
        let found = format!("{window} limits the flows over TCP, and those over QUIC have no limit");
        let accepted = format!("expected receive_window = \"{window}\" in [quic], too, or no such key");
        return no(found, &accepted, "tcp.receive_window");
    }
    let has = |is_datagrams| over.iter().any(|flow| flow.keys.is_datagrams() == is_datagrams);
    let (datagrams, streams) = (has(true), has(false));
    for key in &given {
        if OF_STREAMS.contains(key) && datagrams && !streams {
            let found = "all QUIC flows send datagrams, which have none".into();
            return no(found, "leave it out", &format!("quic.{key}"));
        }
        if OF_DATAGRAMS.contains(key) && streams && !datagrams {
            return no("no QUIC flow sends datagrams".into(), "leave it out", &format!("quic.{key}"));
        }
    }
    let (own, stacks) = (over.iter().any(|flow| flow.is_own), over.iter().any(|flow| !flow.is_own));
    if own && !stacks && given.contains(&"initial_mtu") {
        let found = "no flow has a QUIC stack's endpoints, and packets of the simulator's have max_mtu from the start";
        return no(found.into(), "leave it out", "quic.initial_mtu");
    }
    if let Some(key) = given.iter().find(|key| stacks && !own && QUIC_OF_SIMULATOR.contains(key)) {
        let found = "all QUIC flows have the endpoints of a QUIC stack, which have no such setting";
        return no(found.into(), "leave it out", &format!("quic.{key}"));
    }
    if own {
        check_limits(quic)?;
    }
    check_streams(flows, quic)?;
    check_delays(flows, quic)
}

/// Refuses a delay of ACKs for which no QUIC stack asks.
fn check_delays(flows: &[End], quic: &QuicSpec) -> Read<()> {
    let delay = quic.max_ack_delay.unwrap_or_default();
    let asked = |flow: &End| flow.rtt.max(ALWAYS_ASKED);
    let stacks = flows.iter().enumerate().filter(|(_, flow)| flow.keys.is_quic() && !flow.is_own);
    match stacks.into_iter().find(|(_, flow)| delay > asked(flow)) {
        Some((i, flow)) => {
            let [delay, asked] = [delay, asked(flow)].map(|ns| TIME.text(ns));
            let found = format!("{delay} is longer than the RTT of flows[{i}]");
            let accepted = format!("expected at most {asked}, for which the QUIC stack asks there");
            Err(under_table(refused(found, accepted), "quic.max_ack_delay"))
        }
        None => Ok(()),
    }
}

/// A refusal below a key such as `quic.max_mtu`.
fn under_table(error: Refused, key: &str) -> Refused {
    key.rsplit('.').fold(error, Refused::under)
}

/// Refuses settings that the simulator's endpoints do not have.
fn check_limits(quic: &QuicSpec) -> Read<()> {
    let within = |key, value: Option<u64>, most, said: fn(u64) -> String| {
        value.filter(|value| *value > most).map_or(Ok(()), |value| {
            let found = format!("{} is more than the simulator's endpoints have", said(value));
            Err(refused(found, format!("expected at most {}", said(most))).under(key).under("quic"))
        })
    };
    within("max_ack_delay", quic.max_ack_delay, MOST_DELAY, |ns| TIME.text(ns))?;
    within("ack_eliciting_threshold", quic.ack_eliciting_threshold, MOST_PACKETS, |packets| packets.to_string())?;
    let size = |bytes| BYTES.text(bytes);
    within("receive_window", quic.receive_window, MOST_WINDOW, size)?;
    within("stream_receive_window", quic.stream_receive_window, MOST_WINDOW, size)?;
    let windows = [("receive_window", quic.receive_window), ("stream_receive_window", quic.stream_receive_window)];
    let least = u64::from(quic.stacks_mtu());
    match windows.into_iter().find(|(_, window)| window.is_some_and(|window| window < least)) {
        Some((key, window)) => {
            let [window, least] = [window.unwrap_or_default(), least].map(|bytes| BYTES.text(bytes));
            let found = format!("{window} does not hold a packet of max_mtu, {least}");
            Err(refused(found, format!("expected at least {least}, or no such key")).under(key).under("quic"))
        }
        None => Ok(()),
    }
}

/// Refuses more streams than a server lets a client open, and a limit of streams that no flow has.
fn check_streams(flows: &[End], quic: &QuicSpec) -> Read<()> {
    let most = u64::from(quic.max_streams);
    for (i, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.keys.streams() > 1) {
        let no = |found: String, accepted: String| {
            Err(within(refused(found, accepted).under("streams").under("traffic"), "flows", i))
        };
        if !flow.has_streams {
            let found = "connections of QUIC have one stream on the ground host";
            return no(found.into(), "expected the ground \"sim\", or no such key".into());
        }
        let streams = flow.keys.streams();
        if streams > most {
            let found = format!("{streams} is more than max_streams of [quic], {most}");
            return no(found, format!("expected at most {most}, or a larger max_streams"));
        }
    }
    if flows.iter().all(|flow| flow.keys.streams() == 1) && quic.max_streams != QuicSpec::default().max_streams {
        let accepted = "expected streams of 2 or more in a flow's traffic, or no such key";
        return Err(under_table(refused("no connection has several streams", accepted), "quic.max_streams"));
    }
    Ok(())
}
