//! Flows of datagrams over QUIC (RFC 9221): what a source sends goes in DATAGRAM frames of a connection, under its
//! congestion control, and what a receiver reports comes back in such frames.
//!
//! A datagram has a number, and a report one of its own; whoever gets one finds the rest here. A datagram is missing
//! once the sender has given it up or its packet was dropped, however long it waits before, and counts as lost once a
//! later one has come.

use super::datagrams::DatagramFlow;
use super::endpoint::QuicEnds;
use super::quic::{Bytes, QuicFlow};
use super::{At, End, EndFigures, HostPair, Outbox, Protocol};
use knee_core::convert::{index_u16, low_u32};
use knee_core::{Packet, Received, Time};
use knee_quic::Config;
use knee_traffic::datagrams::{Arrival, HEADERS};
use std::collections::BTreeMap;

/// Bytes of the number with which each datagram and report of a stack begins.
const NUMBER: usize = 4;

/// Both ends of a flow of datagrams over QUIC.
pub(in crate::simulation) struct CarriedFlow {
    pub(super) datagrams: DatagramFlow,
    carrier: Carrier,
    /// Datagrams that have neither come nor are missing: when each was sent, and its size as an IP packet.
    open: BTreeMap<u64, (Time, u16)>,
    /// Reports that have not come, by number, and how many there have been.
    reports: BTreeMap<u32, Vec<Arrival>>,
    reported: u32,
    /// True once the source may send.
    begun: bool,
}

/// The connection that carries datagrams.
#[allow(clippy::large_enum_variant, reason = "each is in a box with its flow")]
pub(in crate::simulation) enum Carrier {
    /// A QUIC stack's.
    Stack(QuicFlow),
    /// One with knee's own endpoints.
    Own(Box<QuicEnds>, Config),
}

impl Carrier {
    fn figures(&mut self, now: Time) -> EndFigures {
        match self {
            Self::Stack(quic) => quic.figures(now),
            Self::Own(quic, config) => quic.figures(now, config),
        }
    }

    /// An end has a datagram of this number to send, of `size` bytes.
    fn push(&mut self, end: End, number: u64, size: usize) {
        match self {
            Self::Stack(quic) => {
                let mut bytes = vec![0; size.max(NUMBER)];
                bytes[..NUMBER].copy_from_slice(&low_u32(number).to_le_bytes());
                match end {
                    End::Sender => quic.send_datagram(number, bytes),
                    End::Receiver => quic.send_report(bytes),
                }
            }
            Self::Own(quic, config) => quic.push_datagram(end, number, index_u16(size), config),
        }
    }

    /// The lower halves of the numbers of the datagrams that came to an end since the last call.
    fn take_came(&mut self, end: End) -> Vec<u32> {
        match self {
            Self::Stack(quic) => quic.take_datagrams(end).iter().filter_map(number).collect(),
            Self::Own(quic, _) => quic.take_came(),
        }
    }

    /// The same of the sender's datagrams that will not arrive.
    fn take_missing(&mut self) -> Vec<u32> {
        match self {
            Self::Stack(quic) => quic.take_missing().into_iter().map(low_u32).collect(),
            Self::Own(quic, _) => quic.take_missing(),
        }
    }
}

impl CarriedFlow {
    pub(in crate::simulation) const fn new(datagrams: DatagramFlow, carrier: Carrier) -> Self {
        Self { datagrams, carrier, open: BTreeMap::new(), reports: BTreeMap::new(), reported: 0, begun: false }
    }

    /// A copy; none where a QUIC stack is at its ends.
    pub(super) fn copied(&self) -> Option<Self> {
        let Carrier::Own(quic, config) = &self.carrier else { return None };
        Some(Self {
            datagrams: self.datagrams.clone(),
            carrier: Carrier::Own(quic.clone(), *config),
            open: self.open.clone(),
            reports: self.reports.clone(),
            reported: self.reported,
            begun: self.begun,
        })
    }

    /// True if knee's own endpoints carry it.
    pub(super) const fn is_own(&self) -> bool {
        matches!(self.carrier, Carrier::Own(..))
    }

    pub(super) const fn sent(&self) -> u64 {
        match &self.carrier {
            Carrier::Stack(quic) => quic.sent(),
            Carrier::Own(quic, _) => quic.sent(),
        }
    }

    pub(super) const fn received(&self) -> &Received {
        match &self.carrier {
            Carrier::Stack(quic) => quic.received(),
            Carrier::Own(quic, _) => quic.received(),
        }
    }

    /// Packets are QUIC's, payload is that of datagrams.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        let datagrams = self.datagrams.figures(now);
        let EndFigures { delivered_bytes, new_bytes, outstanding, .. } = datagrams;
        EndFigures { delivered_bytes, new_bytes, outstanding, ..self.carrier.figures(now) }
    }

    pub(super) fn due(&mut self, end: End) -> Time {
        let due = match &mut self.carrier {
            Carrier::Stack(quic) => quic.due(end),
            Carrier::Own(quic, _) => quic.due(end),
        };
        due.min(self.datagrams.due(end))
    }

    pub(super) const fn stop(&mut self) {
        self.datagrams.stop();
    }

    pub(super) fn on_drop(&mut self, packet: &Packet) {
        match &mut self.carrier {
            Carrier::Stack(quic) => quic.on_drop(packet),
            Carrier::Own(quic, _) => quic.note_dropped(packet),
        }
        self.note_missing();
    }

    /// Sends what the source has now. True: there was something.
    fn send(&mut self, now: Time) -> bool {
        let before = self.datagrams.sent();
        while let Some(size) = self.datagrams.next(now) {
            let number = self.datagrams.note_sent(size);
            self.open.insert(number, (now, size));
            self.carrier.push(End::Sender, number, usize::from(size - HEADERS));
        }
        self.datagrams.sent() > before
    }

    /// Sends the receiver's report if it is due. True: it was.
    fn report(&mut self, now: Time) -> bool {
        let Some((arrivals, size)) = self.datagrams.take_report(now) else { return false };
        self.reports.insert(self.reported, arrivals);
        self.carrier.push(End::Receiver, self.reported.into(), usize::from(size - HEADERS));
        self.reported = self.reported.wrapping_add(1);
        true
    }

    /// The datagram with this lower half of its number has come to the receiver in `packet`.
    fn on_datagram(&mut self, low: u32, packet: &Packet, at: At<'_>) {
        let Some((sent, size)) = self.open.remove(&self.datagrams.number(low)) else { return };
        self.datagrams.on_arrival((sent, low), &Packet { size, ..*packet }, at.path, at.now);
    }

    /// Notes the datagrams that will not arrive.
    fn note_missing(&mut self) {
        for low in self.carrier.take_missing() {
            let number = self.datagrams.number(low);
            // Those that have come are open no more.
            if let Some((_, size)) = self.open.remove(&number) {
                self.datagrams.note_missing(number, size);
            }
        }
    }
}

fn number(bytes: &Bytes) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}

/// Calls a method of the carrier's ends at a [`HostPair`].
macro_rules! at_carrier {
    ($pair:expr, stack $stack:ident => $call:expr, own $own:ident => $other:expr) => {{
        let HostPair { i, ends, record, half, settings, stores } = $pair;
        let i = *i;
        match &mut ends.carrier {
            Carrier::Stack(ends) => {
                let mut $stack = HostPair { i, ends, record, half, settings, stores };
                $call;
            }
            Carrier::Own(ends, _) => {
                let mut $own = HostPair { i, ends: &mut **ends, record, half, settings, stores };
                $other;
            }
        }
    }};
}

impl HostPair<'_, CarriedFlow> {
    /// Opens the connection, over which the datagrams begin.
    pub(super) fn start(&mut self, at: At<'_>, out: &mut impl Outbox) {
        at_carrier!(self, stack quic => quic.start(at, out), own quic => quic.connect(at, out));
        // With 0-RTT the first ones leave behind the hello.
        if let Carrier::Own(quic, _) = &self.ends.carrier
            && quic.may_send()
        {
            self.act(End::Sender, at, out);
        }
    }

    /// A packet has arrived at its end now.
    pub(super) fn on_packet(&mut self, at: At<'_>, packet: &Packet, out: &mut impl Outbox) {
        let end = End::of(packet);
        at_carrier!(self, stack quic => quic.on_packet(at, packet, out), own quic => match end {
            End::Receiver => quic.on_data(packet, at, out),
            End::Sender => quic.on_ack((packet.payload, packet.flags), at, out),
        });
        for low in self.ends.carrier.take_came(end) {
            match end {
                End::Receiver => self.ends.on_datagram(low, packet, at),
                End::Sender => {
                    if let Some(arrivals) = self.ends.reports.remove(&low) {
                        self.ends.datagrams.on_report(&arrivals, at.now);
                    }
                }
            }
        }
        self.act(end, at, out);
    }

    /// Fires the timers of an end that are due.
    pub(super) fn on_timer(&mut self, end: End, at: At<'_>, out: &mut impl Outbox) {
        at_carrier!(self, stack quic => quic.on_timer(end, at, out), own quic => {
            for timer in end.timers() {
                quic.on_timer(timer, at, out);
            }
        });
        self.act(end, at, out);
    }

    /// An end sends what it has to send now.
    fn act(&mut self, end: End, at: At<'_>, out: &mut impl Outbox) {
        let flow = &mut *self.ends;
        let connected = match &flow.carrier {
            Carrier::Stack(quic) => quic.is_connected(),
            Carrier::Own(quic, _) => quic.may_send(),
        };
        if !flow.begun && connected {
            flow.begun = true;
            flow.datagrams.begin(at.now);
        }
        let sends = match end {
            End::Sender => flow.send(at.now),
            End::Receiver => flow.report(at.now),
        };
        if sends {
            at_carrier!(self, stack quic => quic.transmit(end, at, out), own quic => quic.transmit(end, at, out));
        }
        self.ends.note_missing();
    }
}
