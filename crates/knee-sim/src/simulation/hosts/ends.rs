//! The ends of a path, by what speaks over it.

use super::End;
use super::datagrams::DatagramFlow;
use super::endpoint::QuicEnds;
use super::udp::UdpFlow;
use knee_core::Time;
use knee_tcp::ends::TcpEnds;

/// The two ends of a path.
pub(in crate::simulation) enum Ends {
    /// TCP's sender and receiver: of a flow, or of half a connection that an application opened.
    Tcp(Box<TcpEnds>),
    /// QUIC's sender and receiver, knee's own: of a flow, or of a connection that an application opened.
    Quic(Box<QuicEnds>),
    /// Both ends of another flow over UDP.
    Udp(Box<UdpFlow>),
    /// An application, whose connections have ends of their own.
    Application,
}

impl Ends {
    /// Returns true if they are those of a flow over UDP, apart from [`Ends::Quic`].
    #[inline]
    pub(super) const fn is_udp(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    /// When one of them has something to do by itself, at the earliest.
    #[inline]
    pub(in crate::simulation) fn due(&self) -> Time {
        match self {
            Self::Tcp(tcp) => tcp.sender.due().min(tcp.receiver.due()),
            Self::Quic(quic) => quic.due(End::Sender).min(quic.due(End::Receiver)),
            Self::Udp(_) | Self::Application => Time::MAX,
        }
    }

    /// A copy; none where a QUIC stack is at them, whose connections cannot be copied.
    pub(super) fn copied(&self) -> Option<Self> {
        Some(match self {
            Self::Tcp(tcp) => Self::Tcp(tcp.clone()),
            Self::Quic(quic) => Self::Quic(quic.clone()),
            Self::Udp(flow) => match &**flow {
                UdpFlow::Datagrams(flow) => Self::Udp(Box::new(UdpFlow::Datagrams(flow.clone()))),
                UdpFlow::Carried(flow) => Self::Udp(Box::new(UdpFlow::Carried(flow.clone()))),
                UdpFlow::Quic(_) => return None,
            },
            Self::Application => Self::Application,
        })
    }

    /// Both ends of a flow that sends datagrams.
    pub(in crate::simulation) fn datagrams(&self) -> Option<&DatagramFlow> {
        let Self::Udp(flow) = self else { return None };
        match &**flow {
            UdpFlow::Datagrams(flow) => Some(flow),
            UdpFlow::Carried(flow) => Some(&flow.datagrams),
            UdpFlow::Quic(_) => None,
        }
    }
}
