//! Why a run goes event by event.

use std::fmt;

/// A reason why a run goes event by event, and not in batches, which are faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A flow sends datagrams, or has a QUIC stack: what its ends send depends on their application or stack.
    Udp,
    /// An event on one connection makes an application send more, there or on another.
    DependentConnections,
    /// Connections come and go over a link that is no wire, or whose delay varies.
    ConnectionsOverMedium,
    /// There are more links and pipes than the order of what happens at one time has room for.
    ManyLinks,
    /// ACKs cross links that queue.
    QueuedAcks,
    /// A link sends by a trace or a model without a rate.
    NoRate,
    /// Packets may overtake each other.
    Reordering,
    /// A link that is no wire leads without a delay to a link that is no wire either, or to which packets come from
    /// elsewhere too: what comes there at one time has an order that only events tell.
    MediumMerges,
    /// A link damages packets: they are lost where they leave it.
    Corruption,
    /// Links share a channel: when one sends depends on what the others do.
    SharedChannel,
    /// A queue is not the registry's, and sees in which order links call it.
    OwnQueue,
    /// Data crosses links in circles.
    Circle,
    /// A flow's ACKs arrive at once.
    NoAckDelay,
    /// Few of many flows are active within an ACK's delay: batches would cost more.
    FewActive,
    /// Packets or senders are observed one by one.
    Observed,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "a flow sends datagrams, or has a QUIC stack",
            Self::DependentConnections => "what an application sends depends on what happens on its connections",
            Self::ConnectionsOverMedium => "connections come and go over a link that is no wire, or whose delay varies",
            Self::ManyLinks => "there are too many links",
            Self::QueuedAcks => "ACKs cross links that queue",
            Self::NoRate => "a link sends by a trace or a model without a fixed rate",
            Self::Reordering => "packets may overtake each other",
            Self::MediumMerges => {
                "a link that is no wire leads without a delay to one that is none either, or that other packets enter"
            }
            Self::Corruption => "a link damages packets",
            Self::SharedChannel => "links share a channel",
            Self::OwnQueue => "a queue is not of the registry",
            Self::Circle => "data crosses links in circles",
            Self::NoAckDelay => "a flow has no delay apart from that of its links, so that its ACKs arrive at once",
            Self::FewActive => "few of many flows are active within the shortest delay of an ACK",
            Self::Observed => "packets are captured or senders logged",
        })
    }
}
