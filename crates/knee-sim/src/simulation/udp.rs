//! Flows over UDP: QUIC's, and those of an application's own datagrams.

use super::datagrams::DatagramFlow;
use super::ends::EndFigures;
#[cfg(feature = "quic")]
use super::quic::QuicFlow;
use super::world::{Outbox, World};
use knee_core::{Packet, Received, Time};

/// An end of a flow over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Data leaves it.
    Sender,
    /// Data comes to it.
    Receiver,
}

impl End {
    /// The one to which a packet goes.
    pub(super) const fn of(packet: &Packet) -> Self {
        if packet.has(Packet::ACK) { Self::Sender } else { Self::Receiver }
    }
}

/// Both ends of a flow over UDP.
#[cfg_attr(feature = "quic", expect(clippy::large_enum_variant, reason = "each is in a box of its own"))]
pub(super) enum UdpFlow {
    /// A connection of a QUIC stack.
    #[cfg(feature = "quic")]
    Quic(QuicFlow),
    /// Datagrams of an application.
    Datagrams(DatagramFlow),
}

impl UdpFlow {
    /// Packets that left the sender.
    pub(super) const fn sent(&self) -> u64 {
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(flow) => flow.sent(),
            Self::Datagrams(flow) => flow.sent(),
        }
    }

    /// Packets that have crossed the links to the receiver.
    pub(super) const fn received(&self) -> &Received {
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(flow) => &flow.received,
            Self::Datagrams(flow) => &flow.crossed,
        }
    }

    /// What the figures say now.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(flow) => flow.figures(now),
            Self::Datagrams(flow) => flow.figures(now),
        }
    }

    /// When an end has something to do by itself.
    pub(super) fn due(&mut self, end: End) -> Time {
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(flow) => flow.due(end),
            Self::Datagrams(flow) => flow.due(end),
        }
    }

    /// No new data from now on.
    pub(super) fn stop(&mut self) {
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(flow) => flow.stop(),
            Self::Datagrams(flow) => flow.stop(),
        }
    }
}

impl World {
    /// Flow `i` starts.
    pub(super) fn start_udp(&mut self, i: u32, out: &mut impl Outbox) {
        match self.ends.udp_mut(i) {
            #[cfg(feature = "quic")]
            Some(UdpFlow::Quic(_)) => self.start_quic(i, out),
            _ => self.start_datagrams(i, out),
        }
    }

    /// A packet has arrived at its end now.
    pub(super) fn on_udp(&mut self, packet: &Packet, out: &mut impl Outbox) {
        match self.ends.udp_mut(packet.flow) {
            #[cfg(feature = "quic")]
            Some(UdpFlow::Quic(_)) => self.on_quic(packet, out),
            _ => self.on_datagram(packet, out),
        }
    }

    /// A packet was dropped.
    pub(super) fn drop_udp(&mut self, packet: &Packet) {
        match self.ends.udp_mut(packet.flow) {
            #[cfg(feature = "quic")]
            Some(UdpFlow::Quic(_)) => self.drop_quic(packet),
            Some(UdpFlow::Datagrams(flow)) => flow.on_drop(packet),
            None => {}
        }
    }

    /// The timers of an end of flow `i` may be due.
    pub(super) fn on_udp_timer(&mut self, i: u32, end: End, out: &mut impl Outbox) {
        match (self.ends.udp_mut(i), end) {
            #[cfg(feature = "quic")]
            (Some(UdpFlow::Quic(_)), _) => self.on_quic_timer(i, end, out),
            (_, End::Sender) => self.send_datagrams(i, out),
            (_, End::Receiver) => self.send_report(i, out),
        }
    }
}
