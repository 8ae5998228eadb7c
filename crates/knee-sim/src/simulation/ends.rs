//! What is at the two ends of each path, by its number: those of the scenario's flows come first, behind them those of
//! the connections that applications open ([`connections`](super::connections)).

use super::udp::UdpFlow;
use knee_cc::CaState;
use knee_core::{Rate, Received, Time};
use knee_net::output::SenderState;
use knee_tcp::receiver::Receiver;
use knee_tcp::sender::{Counters, Sender};
use std::ops::{Index, IndexMut};

/// What is at the two ends of a path.
pub(super) enum Ends {
    /// TCP's sender and receiver: of a flow, or of one direction of a connection that an application opened. None while
    /// they act ([`AllEnds::lend`]).
    Tcp(Option<Box<TcpEnds>>),
    /// Both ends of a flow over UDP.
    Udp(Box<UdpFlow>),
    /// An application, whose connections have ends of their own.
    Application,
}

/// TCP's receiver and sender. What the usual packet and ACK need lies together: the receiver, and the sender's first
/// cache lines.
#[repr(C)]
pub(super) struct TcpEnds {
    pub(super) receiver: Receiver,
    pub(super) sender: Sender,
}

impl Ends {
    /// TCP's.
    pub(super) fn tcp(receiver: Receiver, sender: Sender) -> Self {
        Self::Tcp(Some(Box::new(TcpEnds { receiver, sender })))
    }
}

/// What the figures say of both ends.
pub(super) struct EndFigures {
    /// Data packets that have arrived.
    pub(super) received: Received,
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

impl TcpEnds {
    /// What the figures say now.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        let Self { sender, receiver } = self;
        if sender.established() {
            sender.note_cwnd(now);
        }
        EndFigures {
            received: receiver.received,
            counters: sender.counters(),
            delivered_bytes: receiver.delivered_bytes(),
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

impl EndFigures {
    /// What a sample says of the sender. `full_control`: whether its algorithm keeps the window in recovery too.
    pub(super) const fn state(&self, full_control: bool) -> SenderState {
        let Self { phase, ca, srtt, cwnd, in_flight, pacing_rate_bps, .. } = *self;
        SenderState { phase, ca, full_control, srtt, cwnd, in_flight, pacing_rate_bps }
    }
}

/// The ends of all paths, by number.
pub(super) struct AllEnds(Vec<Ends>);

impl AllEnds {
    /// None yet, with room for those of `flows` flows.
    pub(super) fn new(flows: usize) -> Self {
        Self(Vec::with_capacity(flows))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, ends: Ends) {
        self.0.push(ends);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Ends)> {
        (0..).zip(&self.0)
    }

    /// The ends of those paths over which TCP speaks.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn all_tcp(&self) -> impl Iterator<Item = &TcpEnds> {
        self.0.iter().filter_map(|ends| if let Ends::Tcp(tcp) = ends { tcp.as_deref() } else { None })
    }

    /// The ends of the first two paths.
    #[cfg(test)]
    pub(super) fn first_two(&mut self) -> &mut [Ends; 2] {
        self.0.first_chunk_mut().expect("there are two")
    }

    /// TCP's ends of path `i`, over which TCP speaks.
    #[inline]
    pub(super) fn tcp(&self, i: u32) -> &TcpEnds {
        let Ends::Tcp(Some(tcp)) = &self[i] else { no_tcp(i) };
        tcp
    }

    #[inline]
    pub(super) fn tcp_mut(&mut self, i: u32) -> &mut TcpEnds {
        let Ends::Tcp(Some(tcp)) = &mut self[i] else { no_tcp(i) };
        tcp
    }

    #[inline]
    pub(super) fn sender(&self, i: u32) -> &Sender {
        &self.tcp(i).sender
    }

    #[inline]
    pub(super) fn receiver(&self, i: u32) -> &Receiver {
        &self.tcp(i).receiver
    }

    /// Takes TCP's ends of path `i` out of the table, to be given back.
    #[inline]
    pub(super) fn lend(&mut self, i: u32) -> Box<TcpEnds> {
        let Ends::Tcp(place) = &mut self[i] else { no_tcp(i) };
        place.take().unwrap_or_else(|| no_tcp(i))
    }

    #[inline]
    pub(super) fn give_back(&mut self, i: u32, tcp: Box<TcpEnds>) {
        let Ends::Tcp(place @ None) = &mut self[i] else { no_tcp(i) };
        *place = Some(tcp);
    }

    /// Flow `i`, if it goes over UDP.
    #[inline]
    pub(super) fn udp(&self, i: u32) -> Option<&UdpFlow> {
        if let Ends::Udp(flow) = &self[i] { Some(flow) } else { None }
    }

    #[inline]
    pub(super) fn udp_mut(&mut self, i: u32) -> Option<&mut UdpFlow> {
        if let Ends::Udp(flow) = &mut self[i] { Some(flow) } else { None }
    }

    /// Whether flow `i` goes over UDP.
    #[inline]
    pub(super) fn is_udp(&self, i: u32) -> bool {
        matches!(self[i], Ends::Udp(_))
    }

    /// Whether flow `i` runs an application.
    pub(super) fn is_application(&self, i: u32) -> bool {
        matches!(self[i], Ends::Application)
    }

    /// Data packets that came to the receiver of path `i`.
    #[inline]
    pub(super) fn received(&self, i: u32) -> &Received {
        self.udp(i).map_or_else(|| &self.receiver(i).received, UdpFlow::received)
    }

    /// What the figures say of the ends of path `i` now.
    pub(super) fn figures(&mut self, i: u32, now: Time) -> EndFigures {
        match self.udp_mut(i) {
            Some(flow) => flow.figures(now),
            None => self.tcp_mut(i).figures(now),
        }
    }
}

impl Index<u32> for AllEnds {
    type Output = Ends;

    #[inline]
    fn index(&self, i: u32) -> &Ends {
        &self.0[i as usize]
    }
}

impl IndexMut<u32> for AllEnds {
    #[inline]
    fn index_mut(&mut self, i: u32) -> &mut Ends {
        &mut self.0[i as usize]
    }
}

#[cold]
#[inline(never)]
fn no_tcp(i: u32) -> ! {
    panic!("path {i} is not TCP's, or its ends act already");
}
