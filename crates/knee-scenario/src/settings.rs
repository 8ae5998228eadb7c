//! The tables `[tcp]` and `[quic]`: settings of endpoints, which all flows over a transport have.

use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, between, between_u32, out_of_range, switch, table};
use crate::node::{Node, Value};
use crate::units::{BYTES, TIME};
use knee_net::spec::{QuicSpec, TcpSpec};

/// Declares a table's keys in their order, each with what reads its value into the field of that name.
macro_rules! settings {
    ($read:ident, $given:ident, $spec:ty; $($key:ident = $value:expr;)+) => {
        /// Reads the table; keys that are not given have the defaults.
        pub(crate) fn $read(table_of: Option<&Node>) -> Result<$spec, Vec<Refused>> {
            let mut spec = <$spec>::default();
            let Some(node) = table_of else { return Ok(spec) };
            let mut fields = Fields::of(table(&node.value).map_err(|error| vec![error])?);
            $(if let Some(value) = fields.take(stringify!($key), $value) {
                spec.$key = value;
            })+
            fields.end(&[$(stringify!($key)),+]);
            if fields.errors.is_empty() { Ok(spec) } else { Err(fields.errors) }
        }

        /// The keys whose values are not the defaults, in order.
        pub(crate) fn $given(spec: &$spec) -> Vec<&'static str> {
            let usual = <$spec>::default();
            let mut given = Vec::new();
            $(if spec.$key != usual.$key {
                given.push(stringify!($key));
            })+
            given
        }
    };
}

settings! {
    tcp, given_of_tcp, TcpSpec;
    tick = |value| TIME.parse(value, true);
    initial_window = |value| between_u32(value, 1, 1000, "a number of packets, 1 to 1000");
    rto_min = |value| TIME.parse(value, false);
    delayed_ack = |value| TIME.parse(value, true);
    sack_delay = |value| TIME.parse(value, true);
    receive_offload = |value| TIME.parse(value, true);
    tso = switch;
    tso_rtt_log = |value| between_u32(value, 0, 31, "0 to 31; 0 is Linux before 5.18");
    slow_start_after_idle = switch;
    window_growth = |value| BYTES.parse(value, true);
    receive_window = |value| BYTES.parse(value, false).map(Some);
    trace_rtt = switch;
}

settings! {
    of_quic, given_of_quic, QuicSpec;
    certificate = |value| bytes(value, 0, 36_000, "the size of the server's certificates, such as \"3 kB\"");
    initial_window = |value| between_u32(value, 2, 1000, "a number of packets, 2 to 1000");
    initial_rtt = |value| some_time(
        value, 1_000, 60_000_000_000, "the RTT before the first sample, such as \"100 ms\""
    );
    packet_threshold = |value| between_u32(
        value, 3, 1_000_000, "the packets by which a packet is reordered before it is lost, 3 to 1000000"
    );
    pacing = switch;
    receive_window = |value| BYTES.parse(value, false).map(Some);
    stream_receive_window = |value| BYTES.parse(value, false).map(Some);
    max_streams = |value| between_u32(
        value, 1, 1_000_000, "the streams that a client may have open at once, 1 to 1000000"
    );
    initial_mtu = mtu;
    max_mtu = mtu;
    max_ack_delay = |value| time(
        value, 1_000_000, (1 << 14) * 1_000_000 - 1, "the maximum delay of an ACK, \"1 ms\" to \"16383 ms\""
    );
    ack_eliciting_threshold = |value| between(
        value, 0, (1 << 62) - 1, "a number of packets, 0 to 4611686018427387903; 0 acknowledges each at once"
    );
    datagram_buffer = |value| bytes(
        value, 2048, 1 << 30, "a size from \"2 KiB\" to \"1 GiB\", such as \"1 MiB\""
    );
}

/// Reads `[quic]`.
pub(crate) fn quic(given: Option<&Node>) -> Result<QuicSpec, Vec<Refused>> {
    let spec = of_quic(given)?;
    if spec.initial_mtu > spec.max_mtu {
        let [initial, most] = [spec.initial_mtu, spec.max_mtu].map(|mtu| BYTES.text(mtu.into()));
        let found = format!("{initial} is more than max_mtu, {most}");
        return Err(vec![refused(found, "expected at most that").under("initial_mtu")]);
    }
    Ok(spec)
}

/// A time above zero, and from `least` to `most`, ns.
fn some_time(value: &Value, least: u64, most: u64, about: &str) -> Read<u64> {
    TIME.parse(value, false)?;
    time(value, least, most, about)
}

/// A time from `least` to `most`, ns.
fn time(value: &Value, least: u64, most: u64, about: &str) -> Read<u64> {
    let time = TIME.parse(value, true)?;
    if (least..=most).contains(&time) { Ok(time) } else { Err(out_of_range(&Value::Text(TIME.text(time)), about)) }
}

/// A size from `least` to `most`, bytes.
fn bytes(value: &Value, least: u64, most: u64, about: &str) -> Read<u64> {
    let size = BYTES.parse(value, true)?;
    if (least..=most).contains(&size) { Ok(size) } else { Err(out_of_range(&Value::Text(BYTES.text(size)), about)) }
}

/// Bytes of UDP payload of a packet.
fn mtu(value: &Value) -> Read<u16> {
    const MOST: u16 = 1472;
    let size = bytes(value, 1200, MOST.into(), "\"1200 B\" to \"1472 B\" of UDP payload")?;
    Ok(u16::try_from(size).unwrap_or(MOST))
}
