//! The network: directions of links, the pipes behind them, and the paths of flows through both.
//!
//! All of the base RTT that the links of a path do not have as `delay` lies in one pipe at the end of the ACKs' path: a
//! control loop feels only the sum of its delays.

mod build;
mod check;
mod direction;
mod sizes;

pub use build::directions;
pub use check::{SpecError, check};
pub use direction::Direction;

pub use build::{MakeQueue, OwnQueue, params};

use crate::pipe::Pipe;
use crate::spec::{Change, FlowSpec, Spec};
use knee_core::convert::index_u32;
use knee_core::{ConnectionId, Packet, Rate, Time};
use knee_link::registry::Copies;
use std::collections::BTreeMap;

/// The links of a path, there and back.
#[derive(Clone, PartialEq, Eq)]
pub struct Route {
    /// The links that data crosses.
    pub data: Vec<u32>,
    /// The links that ACKs cross.
    pub acks: Vec<u32>,
}

/// Properties of a path that every packet needs: a flow's path, or that of half a connection.
#[derive(Clone, Copy)]
pub struct FlowPath {
    /// Index of its route.
    pub route: u32,
    /// The pipe at the end of the ACKs' path.
    pub ack_pipe: u32,
    /// Delay of the ACK pipe.
    pub ack_delay: Time,
    /// Base RTT: that delay, and the links'.
    pub base_rtt: Time,
    /// True for the half of a connection that runs against its flow's data: data crosses the links of the flow's ACKs
    /// and then `ack_pipe`; ACKs cross the links of the flow's data, and no pipe follows.
    pub mirrored: bool,
}

impl FlowPath {
    /// Propagation delay of the links of its path.
    fn links_delay(&self) -> Time {
        self.base_rtt - self.ack_delay
    }

    /// How long ACKs are in their pipe where the base RTT is `rtt`.
    pub fn ack_delay_at(&self, rtt: Time) -> Time {
        rtt.saturating_sub(self.links_delay())
    }
}

/// Something to put on record: flow, link, event and figure.
pub type ChangeRecord = (Option<u32>, Option<u32>, &'static str, f64);

/// Links, pipes and the paths of flows.
pub struct Network {
    /// All forward directions of links, then the reverse ones that queue: a link's number is its index here.
    pub directions: Vec<Direction>,
    /// The pipes behind links, then the pipes at the end of ACKs' paths.
    pub pipes: Vec<Pipe>,
    /// How many pipes lie behind links.
    hop_pipes: u32,
    /// Pipes of the ACKs' paths by their delay.
    ack_pipes: Vec<(Time, u32)>,
    /// Routes that flows share.
    pub routes: Vec<Route>,
    /// By path: the flows', and behind them those of halves of connections.
    pub flow_paths: Vec<FlowPath>,
    /// By flow: the tunnel that it goes through. Empty where none does.
    tunnels: Vec<Option<ConnectionId>>,
    /// By flow: its codepoint. Empty where all are 0.
    codepoints: Vec<u8>,
    /// Links that have dropped packets or left notes as a [`crate::driver::Driver`] moved packets, in the order in
    /// which they did; whoever books them empties it.
    pub unbooked: Vec<u32>,
}

impl Clone for Network {
    fn clone(&self) -> Self {
        let Self { directions, pipes, hop_pipes, ack_pipes, routes, flow_paths, tunnels, codepoints, unbooked } = self;
        let (mut directions, mut copies) = (directions.clone(), Copies::default());
        for direction in &mut directions {
            direction.link.separate(&mut copies);
        }
        Self {
            directions,
            pipes: pipes.clone(),
            hop_pipes: *hop_pipes,
            ack_pipes: ack_pipes.clone(),
            routes: routes.clone(),
            flow_paths: flow_paths.clone(),
            tunnels: tunnels.clone(),
            codepoints: codepoints.clone(),
            unbooked: unbooked.clone(),
        }
    }
}

impl Network {
    /// The network of `spec` at rest.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn new(spec: &Spec) -> Result<Self, SpecError> {
        Self::with_own(spec, &[])
    }

    /// As [`Network::new`], with queue disciplines that are not in the registry. Their names go first.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn with_own(spec: &Spec, own: &[OwnQueue]) -> Result<Self, SpecError> {
        check(spec)?;
        let (mut directions, reverse) = directions(spec, own)?;
        let mut pipes = Vec::new();
        for direction in &mut directions {
            if direction.delay > Time::ZERO || !direction.is_steady() {
                direction.pipe = Some(index_u32(pipes.len()));
                pipes.push(Pipe::new());
            }
        }
        let hop_pipes = index_u32(pipes.len());
        let flow_paths = Vec::with_capacity(spec.flows.len());
        let mut network = Self {
            directions,
            pipes,
            hop_pipes,
            ack_pipes: Vec::new(),
            routes: Vec::new(),
            flow_paths,
            tunnels: tunnels(&spec.flows),
            codepoints: codepoints(&spec.flows),
            unbooked: Vec::new(),
        };
        for flow in &spec.flows {
            let forward: Vec<u32> = flow.path.iter().map(|&l| index_u32(l)).collect();
            let backward: Vec<u32> = flow.path.iter().rev().filter_map(|&l| reverse[l]).collect();
            let (data, acks) = if flow.reverse { (backward, forward) } else { (forward, backward) };
            let route = network.route(Route { data, acks });
            let base_rtt = Time::from_nanos(flow.rtt);
            let ack_delay = base_rtt - check::path_delay(spec, &flow.path);
            let ack_pipe = network.ack_pipe(ack_delay);
            network.flow_paths.push(FlowPath { route, ack_pipe, ack_delay, base_rtt, mirrored: false });
        }
        for i in 0..index_u32(network.tunnels.len().max(network.codepoints.len())) {
            network.identify(i, ConnectionId::of_flow(i), network.flow_paths[i as usize].route);
        }
        Ok(network)
    }

    /// The path of what is sent against the data of a flow that has this one.
    pub fn mirrored(&mut self, path: &FlowPath) -> FlowPath {
        let Route { data, acks } = &self.routes[path.route as usize];
        let route = Route { data: acks.clone(), acks: data.clone() };
        let route = self.route(route);
        FlowPath { route, mirrored: !path.mirrored, ..*path }
    }

    fn route(&mut self, route: Route) -> u32 {
        // Newest first: flows mostly share the path of the one before.
        if let Some(i) = self.routes.iter().rposition(|r| *r == route) {
            return index_u32(i);
        }
        self.routes.push(route);
        index_u32(self.routes.len()) - 1
    }

    /// The pipe of all ACK ways with this delay: packets that take the same time stay in order.
    fn ack_pipe(&mut self, delay: Time) -> u32 {
        match self.ack_pipes.binary_search_by_key(&delay, |pipe| pipe.0) {
            Ok(i) => self.ack_pipes[i].1,
            Err(i) => {
                let pipe = index_u32(self.pipes.len());
                self.pipes.push(Pipe::new());
                self.ack_pipes.insert(i, (delay, pipe));
                pipe
            }
        }
    }

    /// Returns true if a pipe is the last part of a path, and not the delay behind a link: packets leave it at senders,
    /// on mirrored paths at receivers.
    pub const fn ends_a_path(&self, pipe: u32) -> bool {
        pipe >= self.hop_pipes
    }

    /// The links that a flow's data crosses.
    pub fn data_links(&self, flow: usize) -> impl Iterator<Item = &Direction> {
        self.routes[self.flow_paths[flow].route as usize].data.iter().map(|link| &self.directions[*link as usize])
    }

    /// Packets of path `i`, whose data takes this route, belong to connection `id` from now on, and have its
    /// flow's codepoint; links see the tunnel's connection where the flow goes through one.
    pub fn identify(&mut self, i: u32, id: ConnectionId, route: u32) {
        let tunnel = self.tunnels.get(id.flow() as usize).copied().flatten();
        let outer = tunnel.map_or(id, |tunnel| tunnel.turned(id.is_mirrored()));
        let dscp = self.codepoints.get(id.flow() as usize);
        let Route { data, acks } = &self.routes[route as usize];
        for &link in data.iter().chain(acks) {
            let link = &mut self.directions[link as usize].link;
            link.identify(i, outer);
            if let Some(&dscp) = dscp {
                link.set_dscp(i, dscp);
            }
        }
    }

    /// The link that `packet` crosses next, unless it has crossed all of its path.
    #[inline]
    pub fn next_link(&self, packet: &Packet) -> Option<u32> {
        let route = &self.routes[self.flow_paths[packet.flow as usize].route as usize];
        let links = if packet.has(Packet::ACK) { &route.acks } else { &route.data };
        links.get(usize::from(packet.hop)).copied()
    }

    /// Makes a change of the scenario, for which a link may drop packets. Gives what to put on record.
    pub fn change(&mut self, change: Change, now: Time) -> ChangeRecord {
        match change {
            Change::Rate { link, rate } => {
                self.directions[link].link.set_rate(Rate::from_bps(rate), now);
                (None, Some(index_u32(link)), "rate", rate as f64 / 1e6)
            }
            Change::Loss { link, loss } => {
                self.directions[link].link.set_loss(loss);
                (None, Some(index_u32(link)), "loss_probability", loss)
            }
            Change::Limit { link, limit } => {
                self.directions[link].link.set_limit(limit.into(), now);
                (None, Some(index_u32(link)), "limit", limit.figure())
            }
            Change::Rtt { flow, rtt } => {
                let rtt = Time::from_nanos(rtt);
                let delay = self.flow_paths[flow].ack_delay_at(rtt);
                let pipe = self.ack_pipe(delay);
                let path = &mut self.flow_paths[flow];
                (path.base_rtt, path.ack_delay, path.ack_pipe) = (rtt, delay, pipe);
                (Some(index_u32(flow)), None, "rtt", rtt.as_millis_f64())
            }
        }
    }
}

/// By flow: the tunnel that it goes through, known by its first flow, with data in the direction of this flow's. Empty
/// where no flow goes through one.
fn tunnels(flows: &[FlowSpec]) -> Vec<Option<ConnectionId>> {
    if flows.iter().all(|flow| flow.tunnel.is_none()) {
        return Vec::new();
    }
    let mut firsts = BTreeMap::new();
    let tunnels = (0..).zip(flows).map(|(i, flow)| {
        let &mut (first, reverse) = firsts.entry(flow.tunnel?).or_insert((i, flow.reverse));
        Some(ConnectionId::of_tunnel(first).turned(reverse != flow.reverse))
    });
    tunnels.collect()
}

/// By flow: its codepoint. Empty where all are 0.
fn codepoints(flows: &[FlowSpec]) -> Vec<u8> {
    if flows.iter().all(|flow| flow.dscp == 0) { Vec::new() } else { flows.iter().map(|flow| flow.dscp).collect() }
}

#[cfg(test)]
mod tests;
