//! The way of the handshake's datagrams, which packets carry in the fields of [`Payload::Stream`].

use super::{HEADERS, QuicEnds};
use crate::simulation::hosts::{At, End, HostPair, Outbox};
use knee_cc::Init;
use knee_core::convert::{low_u16, low_u32};
use knee_core::packet::Seq;
use knee_core::{Packet, Payload, Time};
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
    fn send_handshake(&mut self, end: End, payload: Payload, size: u16, at: At<'_>, out: &mut impl Outbox) {
        self.stores.syns += i64::from(end == End::Sender);
        self.send(end, (payload, Packet::SYN), (HEADERS + size, 1), at, out);
    }

    pub(super) fn send_to_server(&mut self, datagram: &ToServer, at: At<'_>, out: &mut impl Outbox) {
        let (hello, kind) = match datagram.what {
            FromClient::Hello(number) => (number, 0),
            FromClient::Acks => (0, 1),
            FromClient::Finished => (0, 2),
        };
        let payload = payload(datagram.came, hello, kind, datagram.size);
        self.send_handshake(self.ends.client_end, payload, datagram.size, at, out);
    }

    fn send_to_client(&mut self, datagrams: &[ToClient], at: At<'_>, out: &mut impl Outbox) {
        for datagram in datagrams {
            let payload = match *datagram {
                ToClient::Flight { place, of, hello, size } => {
                    payload(u32::from(place) << u16::BITS | u32::from(of), hello, 0, size)
                }
                ToClient::Done => payload(0, 0, 1, datagram.size()),
            };
            self.send_handshake(self.server_end(), payload, datagram.size(), at, out);
        }
    }

    /// A datagram of the handshake has arrived at an end.
    #[cold]
    pub(super) fn on_handshake(&mut self, end: End, payload: Payload, at: At<'_>, out: &mut impl Outbox) {
        self.stores.syns -= i64::from(end == End::Receiver);
        let Payload::Stream { number, offset, len } = payload else { panic!("not QUIC's: {payload:?}") };
        let (number, hello) = (low_u32(number.near(0)), low_u16(offset.near(0)));
        let (kind, size) = (len >> KIND, len & ((1 << KIND) - 1));
        if self.ends.closed {
            return;
        }
        let config = &self.settings.quic_ends;
        if end == self.ends.client_end {
            let datagram = if kind == 1 {
                ToClient::Done
            } else {
                let (place, of) = (low_u16(u64::from(number >> u16::BITS)), low_u16(number.into()));
                ToClient::Flight { place, of, hello, size }
            };
            if let Some(answer) = self.ends.client.receive(&datagram, at.now, config) {
                self.send_to_server(&answer, at, out);
            }
            if let Some(rtt) = self.ends.client.connected() {
                self.establish(end, rtt, at, out);
            }
        } else {
            let what = match kind {
                0 => FromClient::Hello(hello),
                1 => FromClient::Acks,
                _ => FromClient::Finished,
            };
            let mut answers = Vec::new();
            self.ends.server.receive(&ToServer { what, came: number, size }, at.now, config, &mut answers);
            self.send_to_client(&answers, at, out);
            if let Some(rtt) = self.ends.server.connected() {
                self.establish(end, rtt, at, out);
            }
        }
    }

    /// The timer of the handshake at an end has fired.
    #[cold]
    pub(super) fn on_handshake_timer(&mut self, end: End, at: At<'_>, out: &mut impl Outbox) {
        let config = &self.settings.quic_ends;
        if end == self.ends.client_end {
            if let Some(probe) = self.ends.client.on_timer(at.now, config) {
                self.send_to_server(&probe, at, out);
            }
        } else {
            let mut answers = Vec::new();
            self.ends.server.on_timer(at.now, config, &mut answers);
            self.send_to_client(&answers, at, out);
        }
    }

    /// The handshake, of this RTT, lets data leave an end, if that has a sender.
    fn establish(&mut self, end: End, rtt: Time, at: At<'_>, out: &mut impl Outbox) {
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
            rtt,
            cwnd: sender.control.cwnd,
            mss: u32::from(config.datagram),
            tick: Time::ZERO,
            paced: sender.paces(),
            accurate_ecn: true,
            tso: false,
            rng,
        };
        let cc = self.settings.algorithms[self.record.algorithm as usize].instance(&init, flow);
        sender.adopt(cc, Some(rtt), now, config);
        sender.send(now, config, &mut self.stores.quic_outgoing);
        if end == End::Sender {
            // The first phase is put on record, whichever it is.
            self.record.phase = u8::MAX;
        }
        self.after_sender(end, at, out);
    }
}
