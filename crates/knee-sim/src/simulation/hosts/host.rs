//! The ends of one path while something happens to them, what they are told, and where what they do goes to.

use super::udp::UdpFlow;
use super::{Ends, Flow, HalfView, Settings, Stores, no_tcp};
use knee_cc::{CaState, Control};
use knee_core::{Packet, Time};
use knee_net::network::FlowPath;
use knee_net::observe::States;
use knee_qlog::Log;
use knee_tcp::ends::{EndTimer, TcpEnds};

/// When something happens to an end, and on which path.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct At<'a> {
    pub(in crate::simulation) now: Time,
    pub(in crate::simulation) path: &'a FlowPath,
}

/// Takes what ends send and what is to be noted of them.
pub(in crate::simulation) trait Outbox {
    /// `count` packets that differ only by their segments leave a sender now.
    fn data(&mut self, first: Packet, count: u32);
    /// An ACK leaves a receiver now.
    fn ack(&mut self, ack: Packet, at: At<'_>);
    /// The sender of a flow changed its state.
    fn changed(&mut self, change: StateNote);
    /// All of a flow's transfer is acknowledged now. Its figures end once all that arrived before has been received.
    fn completed(&mut self, flow: u32, now: Time);
}

/// A new state of a flow's sender, for the record.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct StateNote {
    pub(in crate::simulation) at: Time,
    pub(in crate::simulation) flow: u32,
    /// The phase or the state of recovery that begins, or `timeout`.
    pub(in crate::simulation) event: &'static str,
    /// The window then, packets.
    pub(in crate::simulation) cwnd: u32,
}

/// One of the two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) enum End {
    /// Data leaves it.
    Sender,
    /// Data comes to it.
    Receiver,
}

impl End {
    /// The one to which a packet goes.
    #[inline]
    pub(in crate::simulation) const fn of(packet: &Packet) -> Self {
        if packet.has(Packet::ACK) { Self::Sender } else { Self::Receiver }
    }

    /// The one across.
    #[cfg(feature = "quic")]
    pub(in crate::simulation) const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }

    /// Its timers: TCP's, of which ends of flows over UDP have the first.
    #[inline]
    pub(in crate::simulation) const fn timers(self) -> [EndTimer; 2] {
        match self {
            Self::Sender => [EndTimer::Retransmit, EndTimer::Pace],
            Self::Receiver => [EndTimer::DelayedAck, EndTimer::CompressedSack],
        }
    }

    /// The one that has a timer.
    pub(in crate::simulation) const fn with(timer: EndTimer) -> Self {
        match timer {
            EndTimer::Retransmit | EndTimer::Pace => Self::Sender,
            EndTimer::DelayedAck | EndTimer::CompressedSack => Self::Receiver,
        }
    }
}

/// The ends of one path while something happens to them.
pub(in crate::simulation) struct Host<'a, E> {
    pub(in crate::simulation) i: u32,
    pub(in crate::simulation) ends: &'a mut E,
    pub(super) flow: &'a mut Flow,
    /// The direction of a connection that has the path, if one has, and the flow to which it belongs.
    pub(super) connection: Option<(&'a mut HalfView, &'a mut Flow)>,
    pub(super) settings: &'a Settings,
    pub(super) stores: &'a mut Stores,
}

/// TCP's ends of paths that can be visited.
pub(in crate::simulation) trait Visited {
    /// Those of path `i`, which something happens to.
    fn tcp(&mut self, i: u32) -> Host<'_, TcpEnds>;
    /// Those of path `i`, and what else is known of them.
    fn look(&self, i: u32) -> (&TcpEnds, &Flow);
}

/// Flows whose paths have numbers in a row, for one thread. None of them runs an application.
pub(in crate::simulation) struct Group<'a> {
    /// The number of the first one.
    pub(in crate::simulation) first: u32,
    pub(super) ends: &'a mut [Ends],
    pub(super) flows: &'a mut [Flow],
    pub(super) settings: &'a Settings,
    pub(super) stores: &'a mut Stores,
}

impl Visited for Group<'_> {
    #[inline]
    fn tcp(&mut self, i: u32) -> Host<'_, TcpEnds> {
        let k = (i - self.first) as usize;
        let Self { ends, flows, settings, stores, .. } = self;
        Host { i, ends: &mut ends[k], flow: &mut flows[k], connection: None, settings, stores }.tcp()
    }

    #[inline]
    fn look(&self, i: u32) -> (&TcpEnds, &Flow) {
        let k = (i - self.first) as usize;
        let Ends::Tcp(ends) = &self.ends[k] else { no_tcp(i) };
        (ends, &self.flows[k])
    }
}

impl<'a> Host<'a, Ends> {
    /// The same where TCP speaks over the path.
    #[inline]
    pub(super) fn tcp(self) -> Host<'a, TcpEnds> {
        let Self { i, ends, flow, connection, settings, stores } = self;
        let Ends::Tcp(ends) = ends else { no_tcp(i) };
        Host { i, ends, flow, connection, settings, stores }
    }

    /// The same of a flow over UDP.
    pub(super) fn udp(self) -> Host<'a, UdpFlow> {
        let Self { i, ends, flow, connection, settings, stores } = self;
        let Ends::Udp(ends) = ends else { panic!("path {i} is not that of a flow over UDP") };
        Host { i, ends, flow, connection, settings, stores }
    }
}

impl<E> Host<'_, E> {
    /// Takes an RTT sample for the flow to which the path belongs.
    #[inline]
    pub(super) fn book_rtt(&mut self, rtt: Option<Time>) {
        match &mut self.connection {
            None => self.flow.book_rtt(rtt),
            Some((_, owner)) => owner.book_rtt(rtt),
        }
    }

    /// Puts on record which states of the sender are new.
    pub(super) fn note_states(
        &mut self,
        now: Time,
        control: &Control,
        ca: CaState,
        timeouts: u32,
        out: &mut impl Outbox,
    ) {
        let (i, flow) = (self.i, &mut *self.flow);
        let before = States { phase: flow.phase, ca: flow.ca, timeouts: flow.seen_timeouts };
        let after = States { phase: control.phase, ca, timeouts };
        (flow.phase, flow.ca, flow.seen_timeouts) = (after.phase, after.ca, after.timeouts);
        let phases = self.settings.algorithms[flow.algorithm as usize].entry.phases;
        let log = self.log();
        for event in after.events_since(before, phases) {
            // Connections that come and go are too many.
            if self.connection.is_none() {
                out.changed(StateNote { at: now, flow: i, event, cwnd: control.cwnd });
            }
            if let Some(log) = &log {
                log.state(now, event);
            }
        }
    }

    /// The log of the sender's events.
    pub(super) fn log(&self) -> Option<Log> {
        let log = |flow: u32| self.settings.logs.get(flow as usize).cloned().flatten();
        let Some((HalfView { id, .. }, _)) = &self.connection else { return log(self.i) };
        if id.is_mirrored() { None } else { Some(log(id.flow())?.group(id.number())) }
    }

    /// All that the flow had to send is acknowledged now.
    pub(super) fn complete(&mut self, now: Time, out: &mut impl Outbox) {
        if self.flow.complete_at != u64::MAX {
            self.flow.complete_at = u64::MAX;
            out.completed(self.i, now);
        }
    }
}
