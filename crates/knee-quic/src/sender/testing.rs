//! Senders and frames for tests.

use super::{Record, Sender, SenderInit};
use crate::config::{Config, Settings};
use crate::frame::{AckFrame, EcnCounts};
use crate::ranges::{Range, Ranges};
use knee_cc::Init;
use knee_core::{Params, Rng, Time};

/// The settings after `change`.
pub fn config(change: impl FnOnce(&mut Settings)) -> Config {
    let mut settings = Settings::default();
    change(&mut settings);
    Config::new(&settings).unwrap()
}

/// A sender whose algorithm is in place from 0 on. `rtt`: that of a handshake.
pub fn sender(cc: &str, init: SenderInit, rtt: Option<Time>, config: &Config) -> Sender {
    let entry = knee_cc::find(cc).unwrap();
    let mut sender = Sender::new(&SenderInit { needs: entry.needs, ..init }, config);
    let init = Init {
        now: Time::ZERO,
        rtt: rtt.unwrap_or(config.settings.initial_rtt),
        cwnd: config.initial_window,
        mss: u32::from(config.datagram),
        tick: Time::ZERO,
        paced: entry.needs.pacing || config.settings.pacing,
        accurate_ecn: true,
        tso: false,
        rng: Rng::stream(1, "cc"),
    };
    sender.adopt((entry.make)(&Params::defaults(entry.params), &init), rtt, Time::ZERO, config);
    sender
}

/// A frame that acknowledges these packets.
pub fn frame(ranges: &[Range], delay: Time, ecn: Option<EcnCounts>) -> AckFrame {
    let mut set = Ranges::default();
    for range in ranges {
        set.insert(range.0, range.1);
    }
    AckFrame::of(&set, delay, ecn)
}

/// Packets and bytes in flight, counted anew.
pub fn counted(sender: &Sender, config: &Config) -> (u32, u64) {
    sender.flight.records.iter().fold((0, 0), |(packets, bytes), (_, record)| {
        let open = record.open_in(0, u64::MAX).count_ones();
        (packets + open, bytes + u64::from(open) * config.size(record.len()))
    })
}

/// The numbers of the packets in flight.
pub fn numbers(sender: &Sender) -> Vec<u64> {
    let open = |record: Record| (record.first()..record.end()).filter(move |n| record.open_in(*n, n + 1) != 0);
    sender.flight.records.iter().flat_map(|(_, record)| open(*record)).collect()
}
