//! Refusals of settings of `[tcp]` and `[quic]` that contradict the flows, and of what a flow over QUIC cannot have.

use crate::error::{Refused, refused};
use crate::fields::{Read, within};
use crate::sent::Sent;
use crate::settings::{given_of_quic, given_of_tcp, resolved};
use crate::traffic::Carried;
use crate::units::{BYTES, TIME};
use knee_net::spec::{EcnSpec, QuicSpec, TcpSpec, Transport};

/// Keys of `[quic]` that mean nothing to datagrams, which are under no flow control and of full size from the start;
/// and those that mean nothing to streams.
const OF_STREAMS: [&str; 3] = ["receive_window", "stream_receive_window", "initial_mtu"];
const OF_DATAGRAMS: [&str; 1] = ["datagram_buffer"];
/// The greatest settings of the simulator's endpoints: the delay of an ACK in ns, packets, and windows in bytes.
const MOST_DELAY: u64 = 524_000_000;
const MOST_PACKETS: u64 = 9999;
const MOST_WINDOW: u64 = (1 << 31) - 1;

/// Refuses settings that no flow has, or that mean one transport where both are limited.
pub(crate) fn check(flows: &[&Sent], tcp: &TcpSpec, quic: &QuicSpec) -> Read<()> {
    let no = |found: String, accepted: &str, key: &str| Err(under_table(refused(found, accepted), key));
    let over: Vec<&&Sent> = flows.iter().filter(|flow| flow.transport == Transport::Quic).collect();
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
    let is_datagrams = |flow: &&&Sent| flow.traffic.as_ref().is_some_and(|carried| carried.is_datagrams);
    let (datagrams, streams) = (over.iter().any(is_datagrams), !over.iter().all(is_datagrams));
    for key in &given {
        if OF_STREAMS.contains(key) && datagrams && !streams {
            let found = "all QUIC flows send datagrams, which have none".into();
            return no(found, "leave it out", &format!("quic.{key}"));
        }
        if OF_DATAGRAMS.contains(key) && streams && !datagrams {
            return no("no QUIC flow sends datagrams".into(), "leave it out", &format!("quic.{key}"));
        }
    }
    if given.contains(&"initial_mtu") {
        let found = "no flow has a QUIC stack's endpoints, and packets of the simulator's have max_mtu from the start";
        return no(found.into(), "leave it out", "quic.initial_mtu");
    }
    if !over.is_empty() {
        check_limits(quic)?;
    }
    check_streams(flows, quic)
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
fn check_streams(flows: &[&Sent], quic: &QuicSpec) -> Read<()> {
    let (most, mut several) = (u64::from(quic.max_streams), false);
    for (i, flow) in flows.iter().enumerate() {
        let streams = flow.traffic.as_ref().map_or(1, Carried::streams);
        several |= streams > 1;
        if streams > most {
            let found = format!("{streams} is more than max_streams of [quic], {most}");
            let error = refused(found, format!("expected at most {most}, or a larger max_streams"));
            return Err(within(error.under("streams").under("traffic"), "flows", i));
        }
    }
    if !several && quic.max_streams != QuicSpec::default().max_streams {
        let accepted = "expected streams of 2 or more in a flow's traffic, or no such key";
        return Err(refused("no connection has several streams", accepted).under("max_streams").under("quic"));
    }
    Ok(())
}

/// Refuses what means nothing to a flow over QUIC.
pub(crate) fn check_flow(flow: &Sent) -> Read<()> {
    if flow.transport != Transport::Quic {
        return Ok(());
    }
    if matches!(flow.ecn, EcnSpec::Accurate | EcnSpec::L4s) && flow.is_classic() {
        let found = "QUIC has feedback of its own, and sends ECT(0)";
        return Err(refused(found, "expected true or false").under("ecn"));
    }
    if flow.paced {
        let accepted = "expected pacing = \"auto\", or no such key";
        return Err(refused("QUIC paces every flow", accepted).under("pacing"));
    }
    Ok(())
}
