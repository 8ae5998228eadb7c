//! Flows over UDP: QUIC's, and those of an application's own datagrams. The TCP endpoints of their number rest.

use super::datagrams::DatagramFlow;
#[cfg(feature = "quic")]
use super::quic::QuicFlow;
use super::world::{Outbox, World};
use knee_cc::CaState;
use knee_core::{Packet, Rate, Received, Time};
use knee_tcp::sender::Counters;

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

    /// Packets that came to the receiver.
    pub(super) const fn received(&self) -> &Received {
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(flow) => &flow.received,
            Self::Datagrams(flow) => &flow.received,
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

/// What the figures say of a sender, and of what it sent.
pub(super) struct SenderFigures {
    pub(super) counters: Counters,
    /// Payload that has arrived, each byte counted once.
    pub(super) delivered_bytes: u64,
    /// Payload sent at least once.
    pub(super) new_bytes: u64,
    /// Packets sent and not acknowledged.
    pub(super) outstanding: u64,
    pub(super) in_flight: u32,
    pub(super) srtt: Time,
    pub(super) ca: CaState,
    /// None: it has no window.
    pub(super) cwnd: Option<u32>,
    pub(super) phase: u8,
    pub(super) pacing_rate_bps: Option<u64>,
    pub(super) cwnd_integral: u128,
}

impl World {
    /// Whether flow `i` goes over UDP.
    #[inline]
    pub(super) fn is_udp(&self, i: u32) -> bool {
        self.udp.get(i as usize).is_some_and(Option::is_some)
    }

    /// Data packets that came to receiver `i`.
    #[inline]
    pub(super) fn received(&self, i: usize) -> &Received {
        let udp = self.udp.get(i).and_then(Option::as_deref);
        udp.map_or_else(|| &self.receivers[i].received, UdpFlow::received)
    }

    /// Flow `i`, if it goes over UDP.
    pub(super) fn udp_flow(&mut self, i: u32) -> Option<&mut UdpFlow> {
        self.udp.get_mut(i as usize)?.as_deref_mut()
    }

    /// Flow `i` starts.
    pub(super) fn start_udp(&mut self, i: u32, out: &mut impl Outbox) {
        match self.udp_flow(i) {
            #[cfg(feature = "quic")]
            Some(UdpFlow::Quic(_)) => self.start_quic(i, out),
            _ => self.start_datagrams(i, out),
        }
    }

    /// A packet has arrived at its end now.
    pub(super) fn on_udp(&mut self, packet: &Packet, out: &mut impl Outbox) {
        match self.udp_flow(packet.flow) {
            #[cfg(feature = "quic")]
            Some(UdpFlow::Quic(_)) => self.on_quic(packet, out),
            _ => self.on_datagram(packet, out),
        }
    }

    /// A packet was dropped.
    pub(super) fn drop_udp(&mut self, packet: &Packet) {
        match self.udp_flow(packet.flow) {
            #[cfg(feature = "quic")]
            Some(UdpFlow::Quic(_)) => self.drop_quic(packet),
            Some(UdpFlow::Datagrams(flow)) => flow.on_drop(packet),
            None => {}
        }
    }

    /// The timers of an end of flow `i` may be due.
    pub(super) fn on_udp_timer(&mut self, i: u32, end: End, out: &mut impl Outbox) {
        match (self.udp_flow(i), end) {
            #[cfg(feature = "quic")]
            (Some(UdpFlow::Quic(_)), _) => self.on_quic_timer(i, end, out),
            (_, End::Sender) => self.send_datagrams(i, out),
            (_, End::Receiver) => self.send_report(i, out),
        }
    }

    /// What the figures say of the sender of flow `i`.
    pub(super) fn sender_figures(&mut self, i: usize) -> SenderFigures {
        let now = self.now;
        match self.udp.get_mut(i).and_then(Option::as_deref_mut) {
            #[cfg(feature = "quic")]
            Some(UdpFlow::Quic(flow)) => return flow.figures(now),
            Some(UdpFlow::Datagrams(flow)) => return flow.figures(),
            None => {}
        }
        let sender = &mut self.senders[i];
        if sender.established() {
            sender.note_cwnd(now);
        }
        SenderFigures {
            counters: sender.counters(),
            delivered_bytes: self.receivers[i].delivered_bytes(),
            new_bytes: sender.new_bytes(),
            outstanding: sender.snd_nxt() - sender.snd_una(),
            in_flight: sender.in_flight(),
            srtt: sender.srtt(),
            ca: sender.state(),
            cwnd: Some(sender.control.cwnd),
            phase: sender.control.phase,
            pacing_rate_bps: sender.pacing_rate().map(Rate::as_bps),
            cwnd_integral: sender.cwnd_integral.0,
        }
    }
}
