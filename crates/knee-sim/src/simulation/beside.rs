//! A simulation beside a program: the packets of some flows are the program's, which come from outside and go there
//! again; the others are the simulator's own, with its senders, receivers and applications.

use super::event_scheduler::EventScheduler;
use super::figures::Observed;
use super::hosts::Outside;
use super::model::Model;
use knee_core::convert::index_u32;
use knee_core::{ConnectionId, Packet, Time};
use knee_net::SpecError;
use knee_net::driver::Step;
use knee_net::events::{Event, Events};
use knee_net::network::{FlowPath, Network, OwnQueue};
use knee_net::observe::FlowCounts;
use knee_net::recorder::Counts;
use knee_net::spec::{Change, Spec};

/// The fate of a packet of the program's.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It came to the other end of its path.
    Arrived(Packet),
    /// A link dropped it: the next one on its path.
    Dropped(Packet),
}

/// A simulation beside a program. It has no rows and no end but the specification's.
pub struct Beside {
    model: Model,
    events: EventScheduler,
}

impl Beside {
    /// Builds what `spec` says, at rest, with the `queues` before those of the registry; the flows where `outside` is
    /// true are the program's. Links' figures count from the start.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn new(spec: &Spec, queues: &[OwnQueue], outside: &[bool]) -> Result<Self, SpecError> {
        let mut model = Model::new(spec, &[], queues)?;
        model.hosts.outside = Some(Outside::new(outside));
        // Paths of aliases have no ends to fetch.
        model.prefetches = false;
        model.network.directions.iter_mut().for_each(|direction| direction.measure(Time::ZERO));
        // Nothing but what happens: whoever asks for the next event waits for it.
        let mut agenda = Events::default();
        for (i, change) in (0..).zip(&spec.changes) {
            agenda.push(Time::from_nanos(change.at), Event::Change(i));
        }
        for (i, flow) in (0..).zip(&spec.flows) {
            if !outside[i as usize] && flow.stop < spec.duration {
                agenda.push(Time::from_nanos(flow.stop), Event::Stop(i));
            }
        }
        let events = EventScheduler::new(&model, agenda);
        Ok(Self { model, events })
    }

    /// When something is due next; `Time::MAX`: nothing is before the end.
    pub fn next(&self) -> Time {
        let next = self.events.next();
        if next < self.model.end { next } else { Time::MAX }
    }

    /// Handles the next event.
    pub fn step(&mut self) {
        let Self { model, events } = self;
        let Some((now, step)) = events.move_on(model, model.end) else { return };
        match step {
            Step::Arrived(packet) if model.hosts.is_outside(packet.flow) => {
                model.hosts.note_fate(now, Fate::Arrived(packet));
            }
            step => events.handle(model, step),
        }
        if let Step::Due(Event::Change(i)) = step {
            self.follow_rtt(i as usize);
        }
    }

    /// Sends a packet of the program's; all events before `now` have been handled.
    pub fn send(&mut self, packet: Packet, now: Time) {
        let Self { model, events } = self;
        model.now = now;
        model.hosts.acks += 1;
        if let Step::Arrived(packet) = events.forward(model, packet, now) {
            model.hosts.note_fate(now, Fate::Arrived(packet));
        }
    }

    /// Takes the fates since the last call, in the order of time.
    pub fn take(&mut self) -> Vec<(Time, Fate)> {
        self.model.hosts.outside.as_mut().map(|outside| std::mem::take(&mut outside.fates)).unwrap_or_default()
    }

    /// Links, pipes and paths.
    pub const fn network(&self) -> &Network {
        &self.model.network
    }

    /// Links, pipes and paths, for figures that fold intervals.
    pub const fn network_mut(&mut self) -> &mut Network {
        &mut self.model.network
    }

    /// Counts of a flow of the simulator's up to now.
    pub fn counts(&mut self, flow: u32, now: Time) -> FlowCounts {
        let Model { hosts, apps, .. } = &mut self.model;
        Observed { hosts, apps }.counts(flow, now)
    }

    /// A number for packets of the program's on a path with another codepoint than the path's. `None` where
    /// applications run, whose connections take the numbers behind those of flows.
    pub fn alias(&mut self, path: u32, dscp: u8) -> Option<u32> {
        let Model { network, hosts, apps, .. } = &mut self.model;
        let outside = hosts.outside.as_mut().filter(|_| apps.is_empty())?;
        let copy = network.flow_paths[path as usize];
        let number = index_u32(network.flow_paths.len());
        network.flow_paths.push(copy);
        outside.owners.push(Some(path));
        network.identify(number, ConnectionId::of_flow(path), copy.route);
        let route = network.routes[copy.route as usize].clone();
        for link in route.data.into_iter().chain(route.acks) {
            network.directions[link as usize].link.set_dscp(number, dscp);
        }
        Some(number)
    }

    /// Checks the books: no packet created or lost unaccounted, no counter out of step.
    ///
    /// # Errors
    /// The counter that does not add up.
    pub fn audit(&self) -> Result<(), String> {
        self.events.audit(&self.model)
    }

    /// Aliases follow the RTT of their path.
    fn follow_rtt(&mut self, change: usize) {
        let Change::Rtt { flow, .. } = self.model.recorder.changes[change].what else { return };
        let Model { network, hosts, .. } = &mut self.model;
        let FlowPath { ack_pipe, ack_delay, base_rtt, .. } = network.flow_paths[flow];
        let owners = hosts.outside.iter().flat_map(|outside| &outside.owners);
        for (path, _) in network.flow_paths.iter_mut().zip(owners).filter(|(_, of)| **of == Some(index_u32(flow))) {
            (path.ack_pipe, path.ack_delay, path.base_rtt) = (ack_pipe, ack_delay, base_rtt);
        }
    }
}
