//! Flows of datagrams over QUIC (RFC 9221): what a source sends goes in DATAGRAM frames of a connection, under its
//! congestion control, and what a receiver reports comes back in such frames.
//!
//! A datagram begins with its number, a report with its own; whoever gets one finds the rest here. A datagram is
//! missing once the sender's stack has given it up or its packet was dropped, however long it waits before, and counts
//! as lost once a later one has come.

use super::datagrams::DatagramFlow;
use super::quic::{Bytes, QuicFlow};
use super::{At, End, EndFigures, HostPair, Outbox};
use knee_core::convert::low_u32;
use knee_core::{Packet, Time};
use knee_traffic::datagrams::{Arrival, HEADERS};
use std::collections::BTreeMap;

/// Bytes of the number with which each datagram and report begins.
const NUMBER: usize = 4;

/// Both ends of a flow of datagrams over QUIC.
pub(in crate::simulation) struct CarriedFlow {
    pub(super) datagrams: DatagramFlow,
    pub(super) quic: QuicFlow,
    /// Datagrams that have neither come nor are missing: when each was sent, and its size as an IP packet.
    open: BTreeMap<u64, (Time, u16)>,
    /// Reports that have not come, by number, and how many there have been.
    reports: BTreeMap<u32, Vec<Arrival>>,
    reported: u32,
    /// True once the source may send.
    begun: bool,
}

impl CarriedFlow {
    pub(in crate::simulation) const fn new(datagrams: DatagramFlow, quic: QuicFlow) -> Self {
        Self { datagrams, quic, open: BTreeMap::new(), reports: BTreeMap::new(), reported: 0, begun: false }
    }

    pub(super) const fn sent(&self) -> u64 {
        self.quic.sent()
    }

    pub(super) const fn received(&self) -> &knee_core::Received {
        self.quic.received()
    }

    /// Packets are QUIC's, payload is that of datagrams.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        let datagrams = self.datagrams.figures(now);
        let EndFigures { delivered_bytes, new_bytes, outstanding, .. } = datagrams;
        EndFigures { delivered_bytes, new_bytes, outstanding, ..self.quic.figures(now) }
    }

    pub(super) fn due(&mut self, end: End) -> Time {
        self.quic.due(end).min(self.datagrams.due(end))
    }

    pub(super) const fn stop(&mut self) {
        self.datagrams.stop();
    }

    pub(super) fn on_drop(&mut self, packet: &Packet) {
        self.quic.on_drop(packet);
        self.note_missing();
    }

    /// Sends what the source has now. True: there was something.
    fn send(&mut self, now: Time) -> bool {
        let before = self.datagrams.sent();
        while let Some(size) = self.datagrams.next(now) {
            let number = self.datagrams.note_sent(size);
            let mut bytes = vec![0; usize::from(size - HEADERS).max(NUMBER)];
            bytes[..NUMBER].copy_from_slice(&low_u32(number).to_le_bytes());
            self.open.insert(number, (now, size));
            self.quic.send_datagram(number, bytes);
        }
        self.datagrams.sent() > before
    }

    /// Sends the receiver's report if it is due. True: it was.
    fn report(&mut self, now: Time) -> bool {
        let Some((arrivals, size)) = self.datagrams.take_report(now) else { return false };
        let mut bytes = vec![0; usize::from(size - HEADERS)];
        bytes[..NUMBER].copy_from_slice(&self.reported.to_le_bytes());
        self.reports.insert(self.reported, arrivals);
        self.reported = self.reported.wrapping_add(1);
        self.quic.send_report(bytes);
        true
    }

    /// A datagram has come to the receiver in `packet`.
    fn on_datagram(&mut self, bytes: &Bytes, packet: &Packet, at: At<'_>) {
        let Some(low) = number(bytes) else { return };
        let Some((sent, size)) = self.open.remove(&self.datagrams.number(low)) else { return };
        self.datagrams.on_arrival((sent, low), &Packet { size, ..*packet }, at.path, at.now);
    }

    /// Notes the datagrams that will not arrive.
    fn note_missing(&mut self) {
        for number in self.quic.take_missing() {
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

impl HostPair<'_, CarriedFlow> {
    fn quic(&mut self) -> HostPair<'_, QuicFlow> {
        let Self { i, ends, record, half, settings, stores } = self;
        HostPair { i: *i, ends: &mut ends.quic, record, half, settings, stores }
    }

    /// Opens the connection, over which the datagrams begin.
    pub(super) fn start(&mut self, at: At<'_>, out: &mut impl Outbox) {
        self.quic().start(at, out);
    }

    /// A packet has arrived at its end now.
    pub(super) fn on_packet(&mut self, at: At<'_>, packet: &Packet, out: &mut impl Outbox) {
        self.quic().on_packet(at, packet, out);
        let end = End::of(packet);
        for bytes in self.ends.quic.take_datagrams(end) {
            match end {
                End::Receiver => self.ends.on_datagram(&bytes, packet, at),
                End::Sender => {
                    if let Some(arrivals) = number(&bytes).and_then(|number| self.ends.reports.remove(&number)) {
                        self.ends.datagrams.on_report(&arrivals, at.now);
                    }
                }
            }
        }
        self.act(end, at, out);
    }

    /// Fires the timers of an end that are due.
    pub(super) fn on_timer(&mut self, end: End, at: At<'_>, out: &mut impl Outbox) {
        self.quic().on_timer(end, at, out);
        self.act(end, at, out);
    }

    /// An end sends what it has to send now.
    fn act(&mut self, end: End, at: At<'_>, out: &mut impl Outbox) {
        let flow = &mut *self.ends;
        if !flow.begun && flow.quic.is_connected() {
            flow.begun = true;
            flow.datagrams.begin(at.now);
        }
        let sends = match end {
            End::Sender => flow.send(at.now),
            End::Receiver => flow.report(at.now),
        };
        if sends {
            self.quic().transmit(end, at, out);
        }
        self.ends.note_missing();
    }
}
