//! The tables `[tcp]` and `[quic]`: settings of endpoints, which all flows over a transport have.

use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, between, between_u32, out_of_range, switch, table, word};
use crate::node::{Node, Value};
use crate::units::{BYTES, TIME};
use knee_net::spec::{QuicPreset, QuicSpec, TcpSpec};
use knee_quic::{Config, Settings, preset};
use serde_json::json;

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

        /// The keys whose values are not the usual ones, in order.
        pub(crate) fn $given(spec: &$spec, usual: &$spec) -> Vec<&'static str> {
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
    preset = |value| word(value, &preset::ALL.map(|preset| preset.name)).map(named);
    certificate = |value| bytes(value, 0, 36_000, "the size of the server's certificates, up to \"36 kB\"");
    zero_rtt = switch;
    retry = switch;
    idle_timeout = |value| idle_timeout(value).map(Some);
    initial_window = |value| between_u32(value, 2, 1000, "a number of packets, 2 to 1000").map(Some);
    initial_rtt = |value| some_time(
        value, 1_000, 60_000_000_000, "the RTT before the first sample, such as \"100 ms\""
    ).map(Some);
    packet_threshold = |value| between_u32(
        value, 3, 1_000_000, "the packets by which a packet is reordered before it is lost, 3 to 1000000"
    ).map(Some);
    pacing = |value| switch(value).map(Some);
    gso = |value| between_u32(value, 1, 64, "the packets that leave together where they are paced, 1 to 64");
    receive_window = |value| BYTES.parse(value, false).map(Some);
    stream_receive_window = |value| BYTES.parse(value, false).map(Some);
    max_streams = |value| between_u32(
        value, 1, 1_000_000, "the streams that a client may have open at once, 1 to 1000000"
    );
    initial_mtu = mtu;
    max_mtu = |value| mtu(value).map(Some);
    max_ack_delay = |value| time(
        value, 1_000_000, (1 << 14) * 1_000_000 - 1, "the maximum delay of an ACK, \"1 ms\" to \"16383 ms\""
    ).map(Some);
    ack_eliciting_threshold = |value| between(
        value, 0, (1 << 62) - 1, "a number of packets, 0 to 4611686018427387903; 0 acknowledges each at once"
    ).map(Some);
    datagram_buffer = |value| bytes(
        value, 2048, 1 << 30, "a size from \"2 KiB\" to \"1 GiB\", such as \"1 MiB\""
    );
}

/// Reads `[quic]`.
pub(crate) fn quic(given: Option<&Node>) -> Result<QuicSpec, Vec<Refused>> {
    let spec = of_quic(given)?;
    let whole = resolved(&spec);
    let most = whole.stacks_mtu();
    if spec.initial_mtu > most {
        let [initial, most] = [spec.initial_mtu, most].map(|mtu| BYTES.text(mtu));
        let found = format!("{initial} is more than max_mtu, {most}");
        return Err(vec![refused(found, "expected at most that").under("initial_mtu")]);
    }
    if spec.zero_rtt && spec.retry {
        // RFC 9000, 17.2.3.
        let found = "with retry = true the server discards the data of each first flight";
        return Err(vec![refused(found, "expected one of the two, or none").under("zero_rtt")]);
    }
    if spec.gso > 1 && whole.pacing == Some(false) {
        return Err(vec![refused("packets are not paced", "expected pacing = true, or no such key").under("gso")]);
    }
    // A preset keeps its own rules, which say more than one value.
    Ok(if spec.preset.is_some() { spec } else { whole })
}

/// The settings with all values that a preset, or its absence, gives.
pub(crate) fn resolved(quic: &QuicSpec) -> QuicSpec {
    let found = quic_presets().into_iter().find(|(name, _)| named(name) == quic.preset);
    let usual =
        found.map_or_else(|| QuicSpec { max_mtu: Some(QuicSpec::USUAL_MTU), ..of(&Settings::default()) }, |it| it.1);
    QuicSpec {
        initial_window: quic.initial_window.or(usual.initial_window),
        initial_rtt: quic.initial_rtt.or(usual.initial_rtt),
        packet_threshold: quic.packet_threshold.or(usual.packet_threshold),
        pacing: quic.pacing.or(usual.pacing),
        max_mtu: quic.max_mtu.or(usual.max_mtu),
        max_ack_delay: quic.max_ack_delay.or(usual.max_ack_delay),
        ack_eliciting_threshold: quic.ack_eliciting_threshold.or(usual.ack_eliciting_threshold),
        ..*quic
    }
}

/// By name of a stack whose defaults the simulator's endpoints of QUIC can have: those that are keys of scenario files.
pub fn quic_presets() -> [(&'static str, QuicSpec); preset::ALL.len()] {
    preset::ALL.map(|preset| (preset.name, of(&(preset.settings)())))
}

/// The keys of scenario files that settings of the simulator's endpoints have.
fn of(settings: &Settings) -> QuicSpec {
    // A test of that crate holds that no preset contradicts itself.
    let Config { settings, initial_window, .. } = Config::new(settings).unwrap_or_default();
    QuicSpec {
        initial_window: Some(initial_window),
        initial_rtt: Some(settings.initial_rtt.as_nanos()),
        packet_threshold: Some(settings.packet_threshold),
        pacing: Some(settings.pacing),
        max_mtu: u16::try_from(settings.datagram).ok(),
        max_ack_delay: Some(settings.max_ack_delay.as_nanos()),
        ack_eliciting_threshold: Some((settings.ack_every - 1).into()),
        ..QuicSpec::default()
    }
}

/// The preset of this name.
fn named(name: &str) -> Option<QuicPreset> {
    serde_json::from_value(json!(name)).ok()
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

/// A time without a packet after which a connection is closed, ns.
fn idle_timeout(value: &Value) -> Read<u64> {
    let time = TIME.parse(value, false)?;
    let is_accepted = (1_000_000..=1_000_000_000_000_000).contains(&time);
    if is_accepted {
        Ok(time)
    } else {
        Err(out_of_range(value, "a time from \"1 ms\" on, such as \"30 s\"; default: none"))
    }
}

/// A size from `least` to `most`, bytes.
pub(crate) fn bytes(value: &Value, least: u64, most: u64, about: &str) -> Read<u64> {
    let size = BYTES.parse(value, true)?;
    if (least..=most).contains(&size) { Ok(size) } else { Err(out_of_range(&Value::Text(BYTES.text(size)), about)) }
}

/// Bytes of UDP payload of a packet.
fn mtu(value: &Value) -> Read<u16> {
    const MOST: u16 = 1472;
    let size = bytes(value, 1200, MOST.into(), "\"1200 B\" to \"1472 B\" of UDP payload")?;
    Ok(u16::try_from(size).unwrap_or(MOST))
}
