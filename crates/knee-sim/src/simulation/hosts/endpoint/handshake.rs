//! The way of the handshake's datagrams, which packets carry in the fields of [`Payload::Stream`]; and what goes before
//! its end: 0-RTT, and what a server sends right behind its flight.

use super::{HEADERS, QuicEnds};
use crate::simulation::hosts::{At, End, HostPair, Outbox};
use knee_cc::Init;
use knee_core::convert::{low_u16, low_u32};
use knee_core::packet::Seq;
use knee_core::{Packet, Payload, Time};
use knee_qlog::events::quic::PacketType;
use knee_quic::handshake::{FromClient, ToClient, ToServer};

/// Bits of a length below the kind of a datagram.
const KIND: u32 = 14;

/// The payload of a datagram: a number, a hello's number, its kind and its size.
fn payload(number: u32, hello: u16, kind: u16, size: u16) -> Payload {
    let (number, offset) = (Seq::new(number.into()), Seq::new(hello.into()));
    Payload::Stream { number, offset, len: kind << KIND | size }
}

impl HostPair<'_, QuicEnds> {
    /// The end of the server.
    fn server_end(&self) -> End {
        self.ends.client_end.other()
    }

    /// A datagram of the handshake leaves an end.
    fn send_handshake(&mut self, end: End, payload: Payload, size: u16, at: &At<'_>, out: &mut impl Outbox) {
        self.log_handshake(end, true, payload, at);
        self.stores.syns += i64::from(end == End::Sender);
        self.send(end, (payload, Packet::SYN), (HEADERS + size, 1), at, out);
    }

    /// Logs a datagram of the handshake that leaves an end, or arrives there, if the sender is there.
    fn log_handshake(&mut self, end: End, leaves: bool, payload: Payload, at: &At<'_>) {
        let from_client = (end == self.ends.client_end) == leaves;
        let Some(log) = self.ends.log.as_mut().filter(|_| end == End::Sender) else { return };
        let Payload::Stream { number, len, .. } = payload else { return };
        let is_first = number.near(0) >> u16::BITS == 0;
        let packet_type = match (from_client, len >> KIND) {
            (true, 0 | 3) => PacketType::Initial,
            (false, 0) if is_first => PacketType::Initial,
            (false, 2) => PacketType::Retry,
            _ => PacketType::Handshake,
        };
        log.note_handshake(at.now, leaves, packet_type, len & ((1 << KIND) - 1));
    }

    pub(super) fn send_to_server(&mut self, datagram: &ToServer, at: &At<'_>, out: &mut impl Outbox) {
        let (hello, kind) = match datagram.what {
            FromClient::Hello(number) => (number, 0),
            FromClient::Acks => (0, 1),
            FromClient::Finished => (0, 2),
            FromClient::HelloWithToken(number) => (number, 3),
        };
        let payload = payload(datagram.came, hello, kind, datagram.size);
        self.send_handshake(self.ends.client_end, payload, datagram.size, at, out);
    }

    fn send_to_client(&mut self, datagrams: &[ToClient], at: &At<'_>, out: &mut impl Outbox) {
        for datagram in datagrams {
            let payload = match *datagram {
                ToClient::Flight { place, of, hello, size } => {
                    payload(u32::from(place) << u16::BITS | u32::from(of), hello, 0, size)
                }
                ToClient::Done => payload(0, 0, 1, datagram.size()),
                ToClient::Retry => payload(0, 0, 2, datagram.size()),
            };
            self.send_handshake(self.server_end(), payload, datagram.size(), at, out);
        }
    }

    /// A datagram of the handshake has arrived at an end.
    #[cold]
    pub(super) fn on_handshake(&mut self, end: End, payload: Payload, at: &At<'_>, out: &mut impl Outbox) {
        self.stores.syns -= i64::from(end == End::Receiver);
        let Payload::Stream { number, offset, len } = payload else { panic!("not QUIC's: {payload:?}") };
        self.log_handshake(end, false, payload, at);
        let (number, hello) = (low_u32(number.near(0)), low_u16(offset.near(0)));
        let (kind, size) = (len >> KIND, len & ((1 << KIND) - 1));
        if self.ends.closed[end as usize] {
            return;
        }
        let config = &self.settings.quic_ends;
        self.ends.note_heard(end, at.now, config);
        if end == self.ends.client_end {
            let (place, of) = (low_u16(u64::from(number >> u16::BITS)), low_u16(number.into()));
            let datagram = match kind {
                0 => ToClient::Flight { place, of, hello, size },
                1 => ToClient::Done,
                _ => ToClient::Retry,
            };
            if let Some(answer) = self.ends.client.receive(&datagram, at.now, config) {
                self.send_to_server(&answer, at, out);
            }
            if let Some(rtt) = self.ends.client.connected() {
                self.finish(end, rtt, at, out);
            }
        } else {
            let what = match kind {
                0 => FromClient::Hello(hello),
                1 => FromClient::Acks,
                2 => FromClient::Finished,
                _ => FromClient::HelloWithToken(hello),
            };
            let mut answers = Vec::new();
            self.ends.server.receive(&ToServer { what, came: number, size }, at.now, config, &mut answers);
            self.send_to_client(&answers, at, out);
            match self.ends.server.connected() {
                Some(rtt) => self.finish(end, rtt, at, out),
                None => self.open_early(at, out),
            }
        }
        self.ends.note_rare_timers();
    }

    /// The handshake, of this RTT, is over at an end.
    fn finish(&mut self, end: End, rtt: Time, at: &At<'_>, out: &mut impl Outbox) {
        let is_first = !std::mem::replace(&mut self.ends.open[end as usize], true);
        let config = &self.settings.quic_ends;
        if is_first {
            self.ends.start_idle(end, at.now, config);
            if let Some(receiver) = self.ends.rx(end) {
                receiver.rtt = rtt;
            }
        }
        if is_first && config.settings.zero_rtt {
            if end == self.ends.client_end {
                //= RFC 9000, 17.2.3
                //# A client MUST NOT send 0-RTT packets once it starts processing 1-RTT packets from the server.
                self.ends.early_end = self.ends.tx(end).map_or(0, |sender| sender.view().snd_nxt);
            } else if let Some(ack) = self.ends.rx(end).and_then(|receiver| receiver.ack(at.now)) {
                // The client may have had no keys for the one before.
                self.send_ack(end, ack, at, out);
            }
            if self.ends.is_established(end)
                && let Some(sender) = self.ends.tx(end)
            {
                sender.confirm(rtt, at.now, config);
                return self.transmit(end, at, out);
            }
        }
        self.establish(end, Some(rtt), at, out);
    }

    /// With 0-RTT, the client's data leaves behind its hello.
    pub(super) fn start_early(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        if self.settings.quic_ends.settings.zero_rtt {
            self.ends.early_end = u64::MAX;
            self.establish(self.ends.client_end, None, at, out);
        }
    }

    /// With 0-RTT, the server's data leaves behind its flight, as far as the address allows it.
    fn open_early(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        let (end, config) = (self.server_end(), &self.settings.quic_ends);
        if !config.settings.zero_rtt || self.ends.server.allowance(config) == 0 {
            return;
        }
        if std::mem::take(&mut self.ends.owes_ack)
            && let Some(ack) = self.ends.rx(end).and_then(|receiver| receiver.ack(at.now))
        {
            self.send_ack(end, ack, at, out);
        }
        let allowance = self.ends.server.allowance(&self.settings.quic_ends);
        if let Some(sender) = self.ends.tx(end) {
            sender.allow(allowance);
        }
        self.establish(end, None, at, out);
        self.transmit(end, at, out);
    }

    /// A packet has come before an end reads those of 1-RTT. Tells whether it is one of 0-RTT that a server takes.
    #[cold]
    pub(super) fn admits_early(
        &mut self,
        end: End,
        (number, len): (Seq, u16),
        at: &At<'_>,
        out: &mut impl Outbox,
    ) -> bool {
        let expected = self.ends.rx(end).map_or(0, |receiver| receiver.expected());
        let is_late = number.near(expected) >= self.ends.early_end;
        if self.ends.closed[end as usize] || end == self.ends.client_end || is_late {
            return false;
        }
        //= RFC 9002, 6.4
        //# If a server accepts 0-RTT, but does not buffer 0-RTT packets that arrive before Initial packets, early 0-RTT
        //# packets will be declared lost, but that is expected to be infrequent.
        if !self.ends.server.has_hello() {
            return false;
        }
        let (config, mut answers) = (&self.settings.quic_ends, Vec::new());
        self.ends.server.receive_data(config.size(len), at.now, config, &mut answers);
        self.send_to_client(&answers, at, out);
        self.open_early(at, out);
        self.ends.note_rare_timers();
        true
    }

    /// Tells whether an end may send an ACK of this size before it reads packets of 1-RTT, and notes that it does.
    #[cold]
    pub(super) fn sends_early(&mut self, end: End, size: u64) -> bool {
        //= RFC 9000, 17.2.3
        //# For instance, a client cannot send an ACK frame in a 0-RTT packet, because that can only acknowledge a 1-RTT
        //# packet.
        if end == self.ends.client_end {
            return false;
        }
        let may = self.ends.server.allowance(&self.settings.quic_ends) >= size;
        self.ends.owes_ack |= !may;
        if may {
            self.ends.server.note_sent(size);
        }
        may
    }

    /// The timer of the handshake at an end has fired.
    #[cold]
    pub(super) fn on_handshake_timer(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        let config = &self.settings.quic_ends;
        if end == self.ends.client_end {
            if let Some(probe) = self.ends.client.on_timer(at.now, config) {
                self.send_to_server(&probe, at, out);
                if let Some(sender) = self.ends.tx(end) {
                    sender.probe_early(at.now, config, &mut self.stores.quic_outgoing);
                    self.after_sender(end, at, out);
                }
            }
        } else {
            let mut answers = Vec::new();
            self.ends.server.on_timer(at.now, config, &mut answers);
            self.send_to_client(&answers, at, out);
        }
        self.ends.note_rare_timers();
    }

    /// Data may leave an end from now on, if that has a sender. The handshake was of this RTT, or is not over.
    fn establish(&mut self, end: End, rtt: Option<Time>, at: &At<'_>, out: &mut impl Outbox) {
        let established = match end {
            End::Sender => &mut self.ends.established,
            End::Receiver => &mut self.ends.back_established,
        };
        if std::mem::replace(established, true) {
            return;
        }
        let (flow, rng) = (self.flow(), self.random_numbers(end == End::Sender));
        let (now, config) = (at.now, &self.settings.quic_ends);
        let Some(sender) = self.ends.tx(end) else { return };
        let init = Init {
            now,
            rtt: rtt.unwrap_or(config.settings.initial_rtt),
            cwnd: sender.control.cwnd,
            mss: u32::from(config.datagram),
            tick: Time::ZERO,
            paced: sender.paces(),
            accurate_ecn: true,
            tso: false,
            rng,
        };
        let cc = self.settings.algorithms[self.record.algorithm as usize].instance(&init, flow);
        match rtt {
            Some(rtt) => sender.adopt(cc, Some(rtt), now, config),
            None => sender.adopt_early(cc, now, config),
        }
        sender.send(now, config, &mut self.stores.quic_outgoing);
        if end == End::Sender {
            // The first phase is put on record, whichever it is.
            self.record.phase = u8::MAX;
        }
        self.after_sender(end, at, out);
    }
}
