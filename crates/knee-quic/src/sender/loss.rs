//! Loss detection (RFC 9002, 6): packets that are lost by number or by time, persistent congestion, the probe timeout.

use super::flight::LostPacket;
use super::{Outgoing, Sender};
use crate::config::Config;
use knee_core::Time;
use knee_core::convert::saturating_u32;
use knee_tcp::timer::Timer;

/// Packets found lost at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// How many.
    pub packets: u32,
    /// When the newest of them left; none if no packet was lost.
    pub newest_sent: Option<Time>,
    /// They establish persistent congestion.
    pub persistent: bool,
}

/// A row of lost packets with no acknowledged one between.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// When the first of them left.
    since: Time,
    /// Number after the last.
    end: u64,
}

impl Sender {
    /// Finds lost packets (RFC 9002, A.10).
    ///
    /// Lost packets are the first ones in flight, up to one of them: a packet is lost by number if it is far enough
    /// below the largest acknowledged, by time if it left long enough ago, and then all before it are.
    pub(super) fn detect_losses(&mut self, now: Time, config: &Config) -> Losses {
        let (mut losses, mut row) = (Losses::default(), None);
        self.loss_time = None;
        // Mostly nothing is missing below the largest packet acknowledged.
        if self.flight.get(0).is_none_or(|record| record.first() >= self.view.snd_una) {
            return losses;
        }
        let (delay, threshold) = if config.varies_thresholds {
            (self.rtt.varied_loss_delay(self.totals.spurious > 0, config), self.threshold_in_flight(config))
        } else {
            (self.rtt.loss_delay(config), u64::from(self.packet_threshold))
        };
        // Packets below this number are lost by number.
        let below = self.view.snd_una.saturating_sub(threshold);
        let mut place = 0;
        while let Some(record) = self.flight.get(place).copied() {
            //= RFC 9002, 6.1
            //# The packet is unacknowledged, in flight, and was sent prior to an acknowledged packet.
            let older = record.open_in(0, self.view.snd_una);
            if record.first() >= self.view.snd_una {
                break;
            }
            //= RFC 9002, 6.1.2
            //# Once a later packet within the same packet number space has been acknowledged, an endpoint SHOULD
            //# declare an earlier packet lost if it was sent a threshold amount of time in the past.
            let lost_at = record.sent().saturating_add(delay);
            //= RFC 9002, 6.1
            //# The packet was sent kPacketThreshold packets before an acknowledged packet (Section 6.1.1), or it was
            //# sent long enough in the past (Section 6.1.2).
            let lost = if lost_at <= now { older } else { record.open_in(0, below) };
            if lost != 0 {
                self.lose(place, lost, &mut row, &mut losses, config);
            }
            if older != lost {
                //= RFC 9002, 6.1.2
                //# If packets sent prior to the largest acknowledged packet cannot yet be declared lost, then a timer
                //# SHOULD be set for the remaining time.
                self.loss_time = Some(lost_at);
                break;
            }
            place += 1;
        }
        if losses.packets > 0 {
            self.flight.drop_settled();
        }
        losses
    }

    /// Packets by which a packet is reordered before it is lost, given those in flight.
    #[cold]
    fn threshold_in_flight(&self, config: &Config) -> u64 {
        let most = u64::from(config.settings.flight_threshold_most);
        let half = self.bytes_in_flight / u64::from(config.datagram) / 2;
        u64::from(self.packet_threshold).max(half.min(most))
    }

    /// A packet was not lost that is that far from the largest one acknowledged: the next one like it would not be.
    pub(super) fn adapt_threshold(&mut self, reach: u64, config: &Config) {
        //= RFC 9002, 6.1.1
        //# Algorithms that increase the reordering threshold after spuriously detecting losses, such as RACK [RFC8985],
        //# have proven to be useful in TCP and are expected to be at least as useful in QUIC.
        let wanted = saturating_u32(reach + 1).min(config.settings.packet_threshold_most);
        self.packet_threshold = self.packet_threshold.max(wanted);
    }

    /// Packets of the record at `place` are lost.
    fn lose(&mut self, place: u32, bits: u64, row: &mut Option<Row>, losses: &mut Losses, config: &Config) {
        let Some(record) = self.flight.get(place).copied() else { return };
        let (sent, near) = (record.sent(), self.acked.first_missing(0));
        for run in record.runs(bits, near) {
            //= RFC 9000, 13.3
            //# Endpoints SHOULD prioritize retransmission of data over sending new data, unless priorities specified by
            //# the application indicate otherwise; see Section 2.3.
            //= RFC 9221, 5.2
            //# Although DATAGRAM frames are not retransmitted upon loss detection, they are ack-eliciting ([RFC9002]).
            let is_stream = !record.is_datagram() && self.streams.is_none();
            if let Some(streams) = &mut self.streams {
                streams.send_again(run.first);
            }
            for (from, to) in self.acked.gaps(run.data.0, run.data.1).take_while(|_| is_stream) {
                self.lost.insert(from, to);
            }
            for i in 0..u64::from(run.count) {
                let offset = run.data.0 + i * u64::from(record.len());
                let (number, at) = (run.first + i, self.view.now);
                let len = if is_stream { record.len() } else { 0 };
                self.lost_packets.push_back(LostPacket { number, at, offset, len });
            }
            losses.persistent |= self.extend_row(row, run.first, run.first + u64::from(run.count), sent, config);
        }
        let packets = bits.count_ones();
        losses.packets += packets;
        losses.newest_sent = Some(sent);
        self.bytes_in_flight -= u64::from(packets) * config.size(record.len());
        self.view.in_flight -= packets;
        self.view.lost += u64::from(packets);
        self.flight.close(place, bits);
    }

    /// Adds lost packets, which left at `sent`, to a row or begins another. True if the row establishes persistent
    /// congestion.
    ///
    /// Packets found lost at once are all that were in flight up to the last of them: one that lies between them and is
    /// not among them was acknowledged.
    fn extend_row(&self, row: &mut Option<Row>, first: u64, end: u64, sent: Time, config: &Config) -> bool {
        //= RFC 9002, 7.6.2
        //# The persistent congestion period SHOULD NOT start until there is at least one RTT sample.
        let sampled = self.rtt.first_sample().is_some_and(|at| sent > at);
        if !sampled || config.settings.persistent_congestion == 0 {
            return false;
        }
        //= RFC 9002, 7.6.2
        //# across all packet number spaces, none of the packets sent between the send times of these two packets are
        //# acknowledged;
        let since = row.filter(|row| row.end == first).map_or(sent, |row| row.since);
        *row = Some(Row { since, end });
        //= RFC 9002, 7.6.1
        //# (smoothed_rtt + max(4*rttvar, kGranularity) + max_ack_delay) * kPersistentCongestionThreshold
        let duration = self.rtt.pto(config).mul_div(u64::from(config.settings.persistent_congestion), 1);
        //= RFC 9002, 7.6.2
        //# the duration between the send times of these two packets exceeds the persistent congestion duration (Section
        //# 7.6.1); and
        sent - since > duration
    }

    /// When the probe timeout fires, if nothing is acknowledged before.
    fn pto_at(&self, config: &Config) -> Time {
        //= RFC 9002, 6.2.1
        //# When a PTO timer expires, the PTO backoff MUST be increased, resulting in the PTO period being set to twice
        //# its current value.
        let pto = self.rtt.pto(config).max(config.settings.least_pto);
        let period = pto.mul_div(1 << self.pto_count.min(u64::BITS - 1), 1);
        self.last_sent.saturating_add(period)
    }

    /// Sets the timer of loss detection (RFC 9002, A.8).
    pub(super) fn set_timer(&mut self, config: &Config) {
        //= RFC 9002, 6.2.1
        //# The PTO timer MUST NOT be set if a timer is set for time threshold loss detection; see Section 6.1.2.
        self.timer = match self.loss_time {
            Some(time) => Timer::at(time),
            //= RFC 9002, 6.2.1
            //# An endpoint MUST NOT set its PTO timer for the Application Data packet number space until the handshake
            //# is confirmed.
            None if self.view.in_flight == 0 || self.early => Timer::OFF,
            None => Timer::at(self.pto_at(config)),
        };
    }

    /// The timer of loss detection fired (RFC 9002, A.9); before its time it does nothing.
    pub fn on_timer(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        if now < self.timer.not_before() {
            return;
        }
        self.view.now = now;
        if self.loss_time.is_some() {
            let losses = self.detect_losses(now, config);
            self.on_losses(&losses, config);
            self.set_timer(config);
            self.send(now, config, out);
            return;
        }
        //= RFC 9002, 6.2
        //# A PTO timer expiration event does not indicate packet loss and MUST NOT cause prior unacknowledged packets
        //# to be marked as lost.
        self.totals.timeouts += 1;
        self.pto_count += 1;
        self.send_probes(now, config, out);
        self.set_timer(config);
    }
}
