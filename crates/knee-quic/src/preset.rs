//! Presets: the defaults of seven stacks, as far as an endpoint has them.
//!
//! The values were read at one commit of each (`docs/quic.md`, "Presets", has the files). Field trials change some of
//! them. A stack's congestion control is not a part of its preset.

use crate::config::Settings;
use knee_core::Time;

/// A limit in bytes that limits nothing.
const NO_LIMIT: u32 = 1_000_000_000;

/// A preset.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in scenario files.
    pub name: &'static str,
    /// The version or the commit that was read.
    pub version: &'static str,
    /// Its settings.
    pub settings: fn() -> Settings,
}

/// All presets.
pub const ALL: [Preset; 7] = [
    Preset { name: "quinn", version: "0.11.19", settings: quinn },
    Preset { name: "quiche", version: "e97798e1", settings: quiche },
    Preset { name: "neqo", version: "80ca01ee", settings: neqo },
    Preset { name: "picoquic", version: "d199d45b", settings: picoquic },
    Preset { name: "msquic", version: "4984c210", settings: msquic },
    Preset { name: "ngtcp2", version: "f3af8b14", settings: ngtcp2 },
    Preset { name: "chromium", version: "f44fa9f3", settings: chromium },
];

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// The bucket holds ten packets, or 2 ms of the window per RTT, which are 1.6 ms of 1.25 times that.
fn quinn() -> Settings {
    Settings {
        datagram: 1452,
        initial_bytes: 12_000,
        ack_ranges: 64,
        burst_time: Time::from_micros(1600),
        refill_whole: true,
        ..Settings::default()
    }
}

/// Its own controllers other than BBR are not paced.
fn quiche() -> Settings {
    Settings {
        initial_bytes: NO_LIMIT,
        packet_threshold_most: 20,
        late_time_threshold: 1.25,
        first_probes: 1,
        persistent_congestion: 0,
        ack_every: 1,
        ack_ranges: 68,
        pacing: false,
        ..Settings::default()
    }
}

/// Datagrams of 1,280 bytes with IPv4's header.
fn neqo() -> Settings {
    Settings {
        datagram: 1252,
        initial_rtt: Time::from_millis(100),
        max_ack_delay: Time::from_millis(20),
        pacing_gain: 2.0,
        pacing_gain_start: 2.0,
        burst: 2,
        least_wait: Time::from_millis(1),
        ..Settings::default()
    }
}

fn picoquic() -> Settings {
    Settings {
        datagram: 1440,
        initial_window: 1000,
        initial_bytes: 15_360,
        initial_rtt: Time::from_millis(250),
        reordering_window: Time::from_millis(5),
        probes: 1,
        pto_variations: 3,
        least_pto: Time::from_millis(50),
        persistent_congestion: 0,
        max_ack_delay: Time::from_millis(10),
        acks_per_rtt: 4,
        ack_delay_rtt: 0.25,
        ack_later_from: 0,
        pacing_gain: 1.0,
        burst: 16,
        burst_share: 4,
        ..Settings::default()
    }
}

/// Chunks of a millisecond; a window at once where nothing is in flight.
fn msquic() -> Settings {
    Settings {
        datagram: 1472,
        initial_bytes: NO_LIMIT,
        packet_threshold: 4,
        persistent_congestion: 0,
        persistent_probes: 2,
        pacing_gain_start: 2.0,
        burst: 1,
        burst_time: Time::from_millis(1),
        burst_first: 10_000,
        refill_whole: true,
        pacing_least_rtt: Time::from_millis(1),
        ..Settings::default()
    }
}

fn ngtcp2() -> Settings {
    Settings {
        datagram: 1452,
        flight_threshold_most: 256,
        burst_time: Time::from_millis(1),
        refill_whole: true,
        ..Settings::default()
    }
}

fn chromium() -> Settings {
    Settings {
        datagram: 1250,
        initial_window: 32,
        initial_bytes: NO_LIMIT,
        initial_rtt: Time::from_millis(100),
        packet_threshold_most: 1_000_000,
        time_threshold: 1.25,
        probes: 1,
        pto_variations: 2,
        persistent_congestion: 0,
        ack_every_later: 10,
        ack_delay_rtt: 0.25,
        pacing_gain_start: 2.0,
        burst: 2,
        burst_first: 10,
        least_wait: Time::from_millis(1),
        ..Settings::default()
    }
}
