//! Flows over UDP apart from those with knee's own QUIC ends ([`Ends::Quic`](super::Ends::Quic)): those of QUIC stacks,
//! and of an application's own datagrams.

use super::datagrams::DatagramFlow;
use super::{At, End, EndFigures, HostPair, Outbox};
use super::{carried::CarriedFlow, quic::QuicFlow};
use knee_core::{Packet, Received, Time};

/// Both ends of such a flow.
#[allow(clippy::large_enum_variant, reason = "each is in a box of its own")]
pub(in crate::simulation) enum UdpFlow {
    /// A connection of a QUIC stack.
    Quic(QuicFlow),
    /// Datagrams of an application.
    Datagrams(DatagramFlow),
    /// Datagrams of an application in those of a connection of knee's own QUIC.
    Carried(CarriedFlow),
}

/// Calls a method of the flow that a [`UdpFlow`] is.
macro_rules! either {
    ($flow:expr, $of:ident => $call:expr) => {
        match $flow {
            UdpFlow::Quic($of) => $call,
            UdpFlow::Datagrams($of) => $call,
            UdpFlow::Carried($of) => $call,
        }
    };
}

impl UdpFlow {
    /// True if packets are those of knee's own QUIC.
    pub(super) const fn is_own_quic(&self) -> bool {
        matches!(self, Self::Carried(_))
    }

    /// Packets that left the sender.
    pub(in crate::simulation) const fn sent(&self) -> u64 {
        either!(self, flow => flow.sent())
    }

    /// Packets that have crossed the links to the receiver.
    pub(in crate::simulation) const fn received(&self) -> &Received {
        either!(self, flow => flow.received())
    }

    /// Figures up to now.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        either!(self, flow => flow.figures(now))
    }

    /// When an end has something to do by itself.
    pub(super) fn due(&mut self, end: End) -> Time {
        either!(self, flow => flow.due(end))
    }

    /// No new data from now on.
    pub(super) fn stop(&mut self) {
        either!(self, flow => flow.stop());
    }

    /// The connection is over: nothing happens any more.
    pub(super) fn close(&mut self) {
        if let Self::Quic(flow) = self {
            flow.close();
        }
    }

    /// One of its packets was dropped.
    pub(super) fn on_drop(&mut self, packet: &Packet) {
        either!(self, flow => flow.on_drop(packet));
    }
}

/// Calls a method of the ends of the flow at a [`HostPair`].
macro_rules! at_either {
    ($pair:expr, $of:ident => $call:expr) => {{
        let HostPair { i, ends, record, half, settings, stores } = $pair;
        either!(ends, ends => { let mut $of = HostPair { i, ends, record, half, settings, stores }; $call })
    }};
}

impl<'a> HostPair<'a, UdpFlow> {
    /// QUIC's ends over the path.
    pub(super) fn quic(self) -> HostPair<'a, QuicFlow> {
        let Self { i, ends, record, half, settings, stores } = self;
        let UdpFlow::Quic(ends) = ends else { panic!("path {i} is not that of a QUIC connection") };
        HostPair { i, ends, record, half, settings, stores }
    }
}

impl HostPair<'_, UdpFlow> {
    /// The flow starts.
    pub(super) fn start(self, at: &At<'_>, out: &mut impl Outbox) {
        at_either!(self, pair => pair.start(at, out));
    }

    /// A packet has arrived at its end now.
    pub(super) fn on_packet(self, at: &At<'_>, packet: &Packet, out: &mut impl Outbox) {
        at_either!(self, pair => pair.on_packet(at, packet, out));
    }

    /// Fires a timer of an end if it is due.
    pub(super) fn on_timer(self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        at_either!(self, pair => pair.on_timer(end, at, out));
    }
}
