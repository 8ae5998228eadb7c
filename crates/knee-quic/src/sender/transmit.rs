//! Packets that leave: lost data again, then new data, as far as the window and the pacer let them; and probes.

use super::flight::{Record, packet_len, whole_packets};
use super::{Outgoing, Sender};
use crate::config::Config;
use knee_cc::{Sent, StateEvent};
use knee_core::Time;
use knee_core::convert::saturating_u32;
use knee_tcp::sender::Micros;

/// Data that leaves next.
#[derive(Clone, Copy, Debug)]
struct Data {
    /// Its place in the stream.
    offset: u64,
    /// How many bytes.
    bytes: u64,
    /// They were sent before.
    again: bool,
    /// It is a datagram, whose number is in place of the offset.
    datagram: bool,
    /// It is a packet of several streams, which is full or has all that they may send.
    framed: bool,
}

impl Data {
    /// Bytes of the stream.
    const fn of_stream(offset: u64, bytes: u64, again: bool) -> Self {
        Self { offset, bytes, again, datagram: false, framed: false }
    }
}

impl Sender {
    /// Sends what may leave, and sets the timer of loss detection.
    pub fn send(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        self.view.now = now;
        self.pacer.due = Time::MAX;
        if self.held_back && self.control.restart_pacing && self.window(config) > self.bytes_in_flight {
            self.drain_pacer(now, config);
        }
        self.held_back = false;
        loop {
            let room = self.window(config).saturating_sub(self.bytes_in_flight);
            let Some(data) = self.next_data(config) else {
                if self.underused(config) {
                    self.limit_by_application();
                }
                break;
            };
            let len = packet_len(data.bytes.min(u64::from(config.payload())));
            //= RFC 9002, 7
            //# An endpoint MUST NOT send a packet if it would cause bytes_in_flight (see Appendix B.2) to be larger
            //# than the congestion window, unless the packet is sent on a PTO timer expiration (see Section 6.2) or
            //# when entering recovery (see Section 7.3.2).
            let allowed = if self.early { room.min(self.allowed - self.totals.sent_bytes) } else { room };
            let fitting = saturating_u32(allowed / config.size(len));
            if fitting == 0 {
                self.held_back = room < config.size(len);
                break;
            }
            //= RFC 9002, 7.8
            //# A sender SHOULD NOT consider itself application limited if it would have fully utilized the congestion
            //# window without pacing delay.
            let paced = self.paced(config.size(len), now, config);
            if paced == 0 {
                break;
            }
            let alone = data.datagram || data.framed;
            let count = if alone { 1 } else { whole_packets(data.bytes, len).min(fitting).min(paced) };
            self.transmit(data, count, len, now, config, out);
        }
        self.set_timer(config);
    }

    /// True if data is missing, or the peer's window: there is room for a packet, and the pacer holds none back.
    pub(super) fn underused(&self, config: &Config) -> bool {
        //= RFC 9002, 7.8
        //# When bytes in flight is smaller than the congestion window and sending is not pacing limited, the congestion
        //# window is underutilized.
        self.bytes_in_flight + u64::from(config.datagram) <= self.window(config) && self.pacer.due == Time::MAX
    }

    /// Data that leaves next: datagrams, the first lost data, then new data.
    fn next_data(&self, config: &Config) -> Option<Data> {
        //= RFC 9221, 5
        //# This frame SHOULD be sent as soon as possible (as determined by factors like congestion control, described
        //# below) and MAY be coalesced with other frames.
        if let Some((number, len)) = self.datagrams.first() {
            return Some(Data { datagram: true, ..Data::of_stream(number, u64::from(len), false) });
        }
        if let Some(streams) = &self.streams {
            // As in quinn, there has to be room for a full one.
            let full = Data { framed: true, ..Data::of_stream(0, u64::from(config.payload()), false) };
            return streams.may_send(config).then_some(full);
        }
        if let Some(&(from, to)) = self.lost.as_slice().first() {
            return Some(Data::of_stream(from, to - from, true));
        }
        let limit = self.acked.first_missing(0).saturating_add(config.only_stream_window).min(self.end);
        let bytes = limit.saturating_sub(self.next);
        (bytes > 0).then_some(Data::of_stream(self.next, bytes, false))
    }

    /// The probe timeout of the handshake has fired before that is over: probes with what is in flight leave, too.
    pub fn probe_early(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        //= RFC 9002, 6.2.4
        //# In addition to sending data in the packet number space for which the timer expired, the sender SHOULD send
        //# ack-eliciting packets from other packet number spaces with in-flight data, coalescing packets if possible.
        if self.early && self.view.in_flight > 0 {
            self.view.now = now;
            self.send_probes(now, config, out);
        }
    }

    /// Sends one or two probes whatever the window.
    pub(super) fn send_probes(&mut self, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        let (mut behind, mut probed) = (0, 0);
        //= RFC 9002, 6.2.4
        //# An endpoint MAY send up to two full-sized datagrams containing ack-eliciting packets to avoid an expensive
        //# consecutive PTO expiration due to a single lost datagram or to transmit data from multiple packet number
        //# spaces.
        let probes = config.settings.probes;
        for i in 0..if self.pto_count <= 1 { probes.min(config.settings.first_probes) } else { probes } {
            //= RFC 9002, 6.2.4
            //# An endpoint SHOULD include new data in packets that are sent on PTO expiration.
            //= RFC 9002, 6.2.4
            //# Previously sent data MAY be sent if no new data can be sent.
            if self.next_data(config).is_none() {
                probed = self.probe_streams(probed);
            }
            let data = self.next_data(config).or_else(|| self.oldest_data(behind));
            //= RFC 9002, 6.2.4
            //# When there is no data to send, the sender SHOULD send a PING or other ack-eliciting frame in a single
            //# packet, rearming the PTO timer.
            let ping = Data::of_stream(self.next, 0, false);
            //= RFC 9002, 6.2.4
            //# When a PTO timer expires, a sender MUST send at least one ack-eliciting packet in the packet number
            //# space as a probe.
            let Some(data) = data.or_else(|| (i == 0).then_some(ping)) else { break };
            let len = packet_len(data.bytes.min(u64::from(config.payload())));
            behind = data.offset + u64::from(len);
            //= RFC 9002, 7.5
            //# Probe packets MUST NOT be blocked by the congestion controller.
            self.transmit(data, 1, len, now, config, out);
        }
    }

    /// The oldest data in flight from `behind` on that was not acknowledged, of the only stream.
    fn oldest_data(&self, behind: u64) -> Option<Data> {
        if self.uses_streams() {
            return None;
        }
        let near = self.acked.first_missing(0);
        let records = (0..self.flight.len()).filter_map(|place| self.flight.get(place));
        records
            .filter(|record| !record.is_datagram())
            .flat_map(|record| record.runs(record.open_in(0, u64::MAX), near))
            .find_map(|run| self.acked.gaps(run.data.0.max(behind), run.data.1).next())
            .map(|(from, to)| Data::of_stream(from, to - from, true))
    }

    /// Packs the next packet of several streams. Gives what is in it, and its size as bytes of data.
    fn pack(&mut self, config: &Config) -> (Data, u16) {
        let packed = self.pack_streams(config);
        self.next += packed.new;
        self.totals.again_bytes += packed.again;
        // With less than the head of one frame it is as long as a PING.
        let len = packed.size.saturating_sub(config.room() - config.payload());
        (Data { framed: true, ..Data::of_stream(0, u64::from(len), packed.again > 0) }, len)
    }

    /// `count` packets with `len` bytes of data each leave.
    fn transmit(&mut self, data: Data, count: u32, len: u16, now: Time, config: &Config, out: &mut Vec<Outgoing>) {
        if self.view.in_flight == 0 {
            (self.first_tx, self.delivered_at) = (Micros::of(now), Micros::of(now));
            self.tell(StateEvent::Restart);
        }
        let (data, len) = if data.framed { self.pack(config) } else { (data, len) };
        let Data { offset, again, datagram, framed, .. } = data;
        let bytes = u64::from(len) * u64::from(count);
        let sizes = config.size(len) * u64::from(count);
        if datagram {
            self.datagrams.pop();
        } else if framed {
            self.totals.again += u64::from(again);
        } else if again {
            self.lost.remove(offset, offset + bytes);
            self.totals.again += u64::from(count);
            self.totals.again_bytes += bytes;
        } else {
            self.next += bytes;
        }
        //= RFC 9000, 12.3
        //# A QUIC endpoint MUST NOT reuse a packet number within the same packet number space in one connection.
        //= RFC 9000, 12.3
        //# Subsequent packets sent in the same packet number space MUST increase the packet number by at least one.
        let first = self.view.snd_nxt;
        self.view.snd_nxt += u64::from(count);
        self.view.in_flight += count;
        //= RFC 9002, 7.5
        //# A sender MUST however count these packets as being additionally in flight, since these packets add network
        //# load without establishing packet loss.
        self.bytes_in_flight += sizes;
        self.totals.sent_bytes += sizes;
        self.ecn.sent(count);
        let start = self.rate_start();
        let record = Record::new(first, count, now, offset, len, self.ecn.is_on());
        let record = if datagram { record.with_datagram() } else { record };
        self.flight.push(record, || start);
        self.last_sent = now;
        self.pace(sizes, now, config);
        out.push(Outgoing { first, count, offset, len, datagram, framed, again, mark: self.ecn.mark() });
        if self.needs.sent {
            self.ask(|cc, view, control| cc.on_sent(&Sent { view, packets: count, retransmission: again }, control));
        }
    }
}
