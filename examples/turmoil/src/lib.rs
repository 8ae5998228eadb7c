//! Links and queues of knee's between two hosts of a turmoil simulation, in place of its random latencies.
//!
//! turmoil holds each datagram until knee's network has carried it, and for ever one that the network drops, which a
//! host cannot tell from a loss. Its TCP is not carried: it has no retransmissions.

use knee_test::{Ecn, Error, Net, Port, Time};
use std::collections::BTreeSet;
use std::net::IpAddr;
use turmoil::{Protocol, SentRef, Sim};

/// A path between two hosts.
pub struct Path {
    /// Its links, for figures, drops and captures.
    pub net: Net,
    ports: [Port; 2],
    near: IpAddr,
    far: IpAddr,
    /// Numbers of the messages that turmoil holds, in its order.
    held: Vec<u64>,
    numbers: u64,
}

impl Path {
    /// The path of a flow of `net`'s, with a host at each end.
    ///
    /// # Errors
    /// If there is no such flow.
    pub fn new(net: Net, flow: &str, sim: &Sim<'_>, near: &str, far: &str) -> Result<Self, Error> {
        sim.hold(near, far);
        let (ports, near, far) = (net.ends(flow)?, sim.lookup(near), sim.lookup(far));
        Ok(Self { net, ports, near, far, held: Vec::new(), numbers: 0 })
    }

    /// Carries what the hosts have sent up to now; after each `sim.step()`, whose duration is the precision of times.
    ///
    /// # Errors
    /// If the network does not take a message, such as one above 1472 bytes.
    pub fn carry(&mut self, sim: &Sim<'_>) -> Result<(), Error> {
        let now = Time::from_nanos(u64::try_from(sim.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut sent = Vec::new();
        self.each(sim, |number, message| match message.protocol() {
            Protocol::Udp(datagram) if number.is_none() => sent.push((message.pair().0.ip(), datagram.0.len())),
            Protocol::Udp(_) => {}
            Protocol::Tcp(_) => message.deliver(),
        });
        for (from, len) in sent {
            // The network carries the number of the message, in as many bytes as it has.
            let mut bytes = vec![0; len.max(8)];
            bytes[..8].copy_from_slice(&self.numbers.to_le_bytes());
            self.net.send(now, self.ports[usize::from(from == self.far)], &bytes, Ecn::NotEct)?;
            self.held.push(self.numbers);
            self.numbers += 1;
        }
        let number = |bytes: Vec<u8>| bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let arrived: BTreeSet<u64> = self.net.poll(now)?.map(|packet| number(packet.bytes)).collect();
        self.each(sim, |number, message| {
            if number.is_some_and(|number| arrived.contains(&number)) {
                message.deliver();
            }
        });
        self.held.retain(|number| !arrived.contains(number));
        Ok(())
    }

    /// Each message between the two hosts that turmoil holds, with its number if it was here before.
    fn each(&self, sim: &Sim<'_>, mut what: impl FnMut(Option<u64>, SentRef<'_>)) {
        let mut numbers = self.held.iter().copied();
        let own = |pair| pair == (self.near, self.far) || pair == (self.far, self.near);
        sim.links(|links| {
            for link in links {
                if own(link.pair()) {
                    link.for_each(|message| {
                        let is_udp = matches!(message.protocol(), Protocol::Udp(_));
                        what(if is_udp { numbers.next() } else { None }, message);
                    });
                }
            }
        });
    }
}
