//! Flows of datagrams over QUIC (RFC 9221): what a source sends goes in DATAGRAM frames of a connection, under its
//! congestion control, and what a receiver reports comes back in such frames.
//!
//! A datagram has a number, and a report one of its own; whoever gets one finds the rest here. A datagram is missing
//! once the sender has given it up or its packet was dropped, however long it waits before, and counts as lost once a
//! later one has come.

use super::datagrams::DatagramFlow;
use super::endpoint::QuicEnds;
use super::{At, End, EndFigures, HostPair, Outbox, Protocol};
use knee_core::{Packet, Received, Time};
use knee_quic::Config;
use knee_traffic::datagrams::{Arrival, HEADERS};
use std::collections::BTreeMap;

/// Both ends of a flow of datagrams over QUIC.
#[derive(Clone)]
pub(in crate::simulation) struct CarriedFlow {
    pub(super) datagrams: DatagramFlow,
    quic: QuicEnds,
    config: Config,
    /// Datagrams that have neither come nor are missing: when each was sent, and its size as an IP packet.
    open: BTreeMap<u64, (Time, u16)>,
    /// Reports that have not come, by number, and how many there have been.
    reports: BTreeMap<u32, Vec<Arrival>>,
    reported: u32,
    /// True once the source may send.
    begun: bool,
}

impl CarriedFlow {
    pub(in crate::simulation) const fn new(datagrams: DatagramFlow, quic: QuicEnds, config: &Config) -> Self {
        Self {
            datagrams,
            quic,
            config: *config,
            open: BTreeMap::new(),
            reports: BTreeMap::new(),
            reported: 0,
            begun: false,
        }
    }

    pub(super) const fn sent(&self) -> u64 {
        self.quic.sent()
    }

    pub(super) const fn received(&self) -> &Received {
        self.quic.received()
    }

    /// Packets are QUIC's, payload is that of datagrams.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        let datagrams = self.datagrams.figures(now);
        let EndFigures { delivered_bytes, new_bytes, outstanding, .. } = datagrams;
        EndFigures { delivered_bytes, new_bytes, outstanding, ..self.quic.figures(now, &self.config) }
    }

    pub(super) fn due(&mut self, end: End) -> Time {
        self.quic.due(end).min(self.datagrams.due(end))
    }

    pub(super) const fn stop(&mut self) {
        self.datagrams.stop();
    }

    pub(super) fn on_drop(&mut self, packet: &Packet) {
        self.quic.note_dropped(packet);
        self.note_missing();
    }

    /// Sends what the source has now. True: there was something.
    fn send(&mut self, now: Time) -> bool {
        let before = self.datagrams.sent();
        while let Some(size) = self.datagrams.next(now) {
            let number = self.datagrams.note_sent(size);
            self.open.insert(number, (now, size));
            self.quic.push_datagram(End::Sender, number, size - HEADERS, &self.config);
        }
        self.datagrams.sent() > before
    }

    /// Sends the receiver's report if it is due. True: it was.
    fn report(&mut self, now: Time) -> bool {
        let Some((arrivals, size)) = self.datagrams.take_report(now) else { return false };
        self.reports.insert(self.reported, arrivals);
        self.quic.push_datagram(End::Receiver, self.reported.into(), size - HEADERS, &self.config);
        self.reported = self.reported.wrapping_add(1);
        true
    }

    /// The datagram with this lower half of its number has come to the receiver in `packet`.
    fn on_datagram(&mut self, low: u32, packet: &Packet, at: &At<'_>) {
        let Some((sent, size)) = self.open.remove(&self.datagrams.number(low)) else { return };
        self.datagrams.on_arrival((sent, low), &Packet { size, ..*packet }, at.path, at.now);
    }

    /// Notes the datagrams that will not arrive.
    fn note_missing(&mut self) {
        for low in self.quic.take_missing() {
            let number = self.datagrams.number(low);
            // Those that have come are open no more.
            if let Some((_, size)) = self.open.remove(&number) {
                self.datagrams.note_missing(number, size);
            }
        }
        if self.quic.is_closed(End::Sender) {
            self.datagrams.miss_all();
        }
    }
}

impl HostPair<'_, CarriedFlow> {
    /// The ends of the connection.
    fn quic(&mut self) -> HostPair<'_, QuicEnds> {
        let HostPair { i, ends, record, half, settings, stores } = self;
        HostPair { i: *i, ends: &mut ends.quic, record, half, settings, stores }
    }
}

impl HostPair<'_, CarriedFlow> {
    /// Opens the connection, over which the datagrams begin.
    pub(super) fn start(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        self.quic().connect(at, out);
        // With 0-RTT the first ones leave behind the hello.
        if self.ends.quic.may_send() {
            self.act(End::Sender, at, out);
        }
    }

    /// A packet has arrived at its end now.
    pub(super) fn on_packet(&mut self, at: &At<'_>, packet: &Packet, out: &mut impl Outbox) {
        let end = End::of(packet);
        match end {
            End::Receiver => self.quic().on_data(packet, at, out),
            End::Sender => self.quic().on_ack((packet.payload, packet.flags), at, out),
        }
        for low in self.ends.quic.take_came() {
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
    pub(super) fn on_timer(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        for timer in end.timers() {
            self.quic().on_timer(timer, at, out);
        }
        self.act(end, at, out);
    }

    /// An end sends what it has to send now.
    fn act(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        let flow = &mut *self.ends;
        if !flow.begun && flow.quic.may_send() {
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
