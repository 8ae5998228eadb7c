//! Identity of connections: the flow and the number that stand for a packet's addresses and ports.

use crate::Packet;

/// The identity of a connection, in place of addresses and ports: its flow, and its number among those that the flow's
/// application opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(u64);

/// The identity of a connection's packets in one of its two directions, in place of their 5-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple(u64);

/// More flows than a simulation takes.
const FLOW_BITS: u32 = 20;
const FLOWS: u64 = 1 << FLOW_BITS;
/// The number of a connection that is a tunnel, above those of all connections that an application can open.
const TUNNEL: u64 = u64::MAX >> (1 + FLOW_BITS);

impl ConnectionId {
    /// The connection of a flow that runs no application, and the first one of a flow that does.
    pub const fn of_flow(flow: u32) -> Self {
        Self::new(flow, 0, false)
    }

    /// The connection with this number of a flow. `mirrored`: of packets whose data goes against the flow's data.
    pub const fn new(flow: u32, number: u64, mirrored: bool) -> Self {
        Self((number << FLOW_BITS | flow as u64) << 1 | mirrored as u64)
    }

    /// The tunnel whose first flow this is: all that goes through it has the tunnel's addresses and ports.
    pub const fn of_tunnel(flow: u32) -> Self {
        Self::new(flow, TUNNEL, false)
    }

    /// The connection itself, with data in the other direction where `turned`.
    #[must_use]
    pub const fn turned(self, turned: bool) -> Self {
        Self(self.0 ^ turned as u64)
    }

    /// Its flow.
    pub const fn flow(self) -> u32 {
        (self.0 >> 1 & (FLOWS - 1)) as u32
    }

    /// True if its data goes against the data of its flow.
    pub const fn is_mirrored(self) -> bool {
        self.0 & 1 == 1
    }

    /// Its number among those of its flow, from 0.
    pub const fn number(self) -> u64 {
        self.0 >> (1 + FLOW_BITS)
    }
}

impl Tuple {
    /// No packet's.
    pub const NONE: Self = Self(u64::MAX);

    /// The tuple of a packet of this connection. Data that goes one way and the ACKs of data that goes the other way
    /// have the same one.
    #[inline]
    pub const fn of(connection: ConnectionId, packet: &Packet) -> Self {
        Self(connection.0 ^ packet.has(Packet::ACK) as u64)
    }

    /// The flow that it belongs to.
    pub const fn flow(self) -> u32 {
        ConnectionId(self.0).flow()
    }

    /// True for a tunnel's tuple, so that nobody on the way sees the packets inside.
    pub const fn is_tunnel(self) -> bool {
        ConnectionId(self.0).number() == TUNNEL
    }

    /// True if it goes against the data of its flow.
    pub const fn is_backward(self) -> bool {
        self.0 & 1 == 1
    }

    /// Its number: another for each connection and direction.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// A number of its flow and direction, small where that of the flow is.
    pub const fn of_flow(self) -> usize {
        (self.0 & (2 * FLOWS - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Packet = Packet {
        at: crate::Time::ZERO,
        payload: crate::Payload::Stored(0),
        flow: 7,
        queued: 0,
        size: 1500,
        flags: Packet::ECT,
        hop: 0,
    };
    const ACK: Packet = Packet { flags: Packet::ACK, ..DATA };

    #[test]
    fn both_directions_of_each_connection_have_a_tuple_of_their_own() {
        let ids = [(0, 0), (7, 0), (7, 1), (7, 1 << 40), (999_999, 0)];
        let mut all: Vec<u64> = Vec::new();
        for (flow, number) in ids {
            let id = ConnectionId::new(flow, number, false);
            assert_eq!((id.flow(), id.number()), (flow, number));
            for packet in [DATA, ACK] {
                let tuple = Tuple::of(id, &packet);
                assert_eq!((tuple.flow(), tuple.of_flow()), (flow, 2 * flow as usize + usize::from(packet == ACK)));
                all.push(tuple.number());
            }
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * ids.len());
    }

    #[test]
    fn an_answer_has_the_tuple_of_the_acks_that_go_its_way() {
        let (away, back) = (ConnectionId::new(7, 3, false), ConnectionId::new(7, 3, true));
        assert_eq!(Tuple::of(away, &ACK), Tuple::of(back, &DATA));
        assert_eq!(Tuple::of(away, &DATA), Tuple::of(back, &ACK));
        assert_eq!(ConnectionId::of_flow(7), ConnectionId::new(7, 0, false));
    }

    #[test]
    fn a_tunnel_is_none_of_its_flows_connections_and_has_two_directions() {
        let tunnel = ConnectionId::of_tunnel(7);
        assert_eq!(tunnel.flow(), 7);
        assert_eq!(Tuple::of(tunnel, &ACK), Tuple::of(tunnel.turned(true), &DATA));
        for tuple in [DATA, ACK].map(|packet| Tuple::of(tunnel, &packet)) {
            assert!(tuple.is_tunnel() && tuple != Tuple::NONE);
        }
        assert!(!Tuple::of(ConnectionId::new(7, 1 << 40, false), &DATA).is_tunnel());
    }
}
