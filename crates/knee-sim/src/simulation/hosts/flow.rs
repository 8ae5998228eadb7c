//! Records of the ends of a path besides their state, and their figures.

use knee_cc::CaState;
use knee_core::{Received, Time};
use knee_net::observe::{FlowCounts, Histogram, Spread};
use knee_net::output::SenderState;
use knee_tcp::sender::{Counters, Sender};

/// Records of the ends of a path besides their state. Every ACK needs the first cache line.
#[repr(C, align(64))]
#[derive(Clone)]
pub(in crate::simulation) struct Flow {
    pub(in crate::simulation) seen_timeouts: u32,
    pub(in crate::simulation) phase: u8,
    pub(in crate::simulation) ca: CaState,
    /// True if the window of the figures has begun and not ended.
    pub(in crate::simulation) watched: bool,
    /// True if it is an endless stream or one transfer, and not an application's traffic.
    pub(in crate::simulation) bulk: bool,
    /// RTT samples of the interval, since they were last folded.
    pub(in crate::simulation) rtt: Spread,
    /// Those of the window of the figures; next to `rtt`, since both take each sample.
    pub(in crate::simulation) rtt_histogram: Histogram,
    /// Bytes acknowledged with which its transfer is complete; `u64::MAX`: it is, or is endless.
    pub(in crate::simulation) complete_at: u64,
    /// When the first SYN left; `Time::MAX`: it has not.
    pub(in crate::simulation) syn_at: Time,
    pub(in crate::simulation) dropped: u64,
    /// Index of its algorithm.
    pub(in crate::simulation) algorithm: u32,
    /// Overhead of the first link, counted in throughput.
    pub(in crate::simulation) overhead: u32,
}

const _: () = assert!(std::mem::offset_of!(Flow, rtt_histogram) + Histogram::HOT <= 64 && size_of::<Flow>() == 128);

impl Flow {
    /// A flow that has not begun, under the algorithm of this index.
    pub(in crate::simulation) fn new(
        algorithm: u32,
        overhead: u32,
        complete_at: u64,
        rtt_histogram: Histogram,
    ) -> Self {
        Self {
            seen_timeouts: 0,
            phase: 0,
            ca: CaState::Open,
            watched: false,
            bulk: false,
            rtt: Spread::EMPTY,
            rtt_histogram,
            complete_at,
            syn_at: Time::MAX,
            dropped: 0,
            algorithm,
            overhead,
        }
    }

    /// Takes the RTT sample of an ACK, if it gave one.
    #[inline]
    pub(in crate::simulation) fn book_rtt(&mut self, rtt: Option<Time>) {
        let Some(rtt) = rtt else { return };
        self.rtt.add(rtt);
        if self.watched {
            self.rtt_histogram.count(rtt);
        }
    }

    /// Gives the RTT samples since it was last asked, and adds them to those of the figures if these are being taken.
    pub(in crate::simulation) fn take_rtts(&mut self) -> Spread {
        let spread = std::mem::take(&mut self.rtt);
        if self.watched {
            self.rtt_histogram.fold(&spread);
        }
        spread
    }

    /// Returns true if something about its sender is to be put on record.
    #[inline]
    pub(super) fn has_changed(&self, sender: &Sender) -> bool {
        sender.control.phase != self.phase
            || sender.state() != self.ca
            || sender.done() && sender.acked_bytes() == self.complete_at
    }

    /// Bytes received, with the overhead of the first link.
    pub(super) fn received_bytes(&self, received: &Received) -> u64 {
        received.bytes + u64::from(self.overhead) * received.packets
    }
}

/// Figures of both ends.
pub(in crate::simulation) struct EndFigures {
    /// Data packets that have arrived.
    pub(super) received: Received,
    pub(super) counters: Counters,
    /// Payload that has arrived, each byte counted once.
    pub(super) delivered_bytes: u64,
    /// Payload sent at least once.
    pub(super) new_bytes: u64,
    /// Packets sent and not acknowledged.
    pub(super) outstanding: u64,
    pub(super) cwnd_integral: u128,
    pub(super) sender: SenderState,
}

impl EndFigures {
    /// Counts of the path of `flow` up to now.
    pub(super) fn counts(&self, flow: &Flow, now: Time) -> FlowCounts {
        let Self { received, counters, .. } = self;
        FlowCounts {
            at: now,
            delivered_bytes: self.delivered_bytes,
            new_bytes: self.new_bytes,
            outstanding: self.outstanding,
            sent_bytes: counters.sent_bytes + u64::from(flow.overhead) * counters.sent,
            received_bytes: flow.received_bytes(received),
            received: received.packets,
            queued_units: received.queued_units,
            sent: counters.sent,
            lost: counters.lost,
            retransmitted: counters.retransmitted,
            timeouts: counters.timeouts,
            cwnd_integral: self.cwnd_integral,
        }
    }
}
