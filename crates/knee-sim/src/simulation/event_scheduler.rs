//! Event by event: takes any network.
//!
//! A [`Driver`] moves packets through the network; what comes to an end of a flow, and what endpoints send for it, is
//! here.

use super::alarms::Alarms;
use super::connections::Action;
use super::ends::Ends;
use super::udp::End;
use super::world::{Outbox, World};
use crate::Tap;
use knee_core::cache::{fetch, fetch_first};
use knee_core::convert::index_u32;
use knee_core::{Packet, Payload, Time};
use knee_net::driver::{Driver, Step, Upcoming};
use knee_net::events::{Event, Events};
use knee_net::network::FlowPath;
use knee_queue::Burst;
use knee_tcp::receiver::Receiver;
use knee_tcp::sender::Sender;

/// Lets time pass from event to event.
pub(super) struct EventScheduler {
    driver: Driver,
    /// By flow.
    alarms: Vec<Alarms>,
    /// What the endpoint at work has sent.
    sent: Sent,
    /// Who sees the packets at the senders.
    taps: Vec<Box<dyn Tap>>,
}

/// What an endpoint sends at one time.
#[derive(Default)]
struct Sent {
    data: Vec<Burst>,
    acks: Vec<Packet>,
    /// A transfer that is complete.
    completed: Option<u32>,
}

impl Outbox for Sent {
    #[inline]
    fn data(&mut self, first: Packet, count: u32) {
        self.data.push(Burst { first, count });
    }

    #[inline]
    fn ack(&mut self, ack: Packet, _: Time, _: &FlowPath) {
        self.acks.push(ack);
    }

    fn completed(&mut self, flow: u32, _: Time) {
        self.completed = Some(flow);
    }
}

impl EventScheduler {
    /// A scheduler for `world`, in which nothing has happened yet.
    pub(super) fn new(world: &World, agenda: Events) -> Self {
        let mut events = agenda;
        for i in 0..world.flows.len() {
            events.push(world.record.start(i), Event::Start(index_u32(i)));
        }
        Self {
            driver: Driver::new(events),
            alarms: vec![Alarms::NONE; world.flows.len()],
            sent: Sent::default(),
            taps: Vec::new(),
        }
    }

    /// Lets `tap` see the packets at the senders.
    pub(super) fn tap(&mut self, tap: Box<dyn Tap>) {
        self.taps.push(tap);
    }

    /// Checks that an event is there for each link and pipe at the time at which it is due.
    pub(super) fn audit(&self, world: &World) -> Result<(), String> {
        self.driver.audit(&world.network)
    }

    /// Lets events happen, `most` of them at the most. Gives how many did.
    pub(super) fn step(&mut self, world: &mut World, most: u64) -> u64 {
        for done in 0..most {
            let Some((at, step)) = self.driver.step(&mut world.network, world.end) else {
                world.reach_end();
                return done + 1;
            };
            world.now = at;
            if world.prefetches {
                fetch_ahead(world, self.driver.upcoming(&world.network));
            }
            world.book_links();
            match step {
                Step::Moved => {}
                Step::Data(packet) => self.deliver_data(world, &packet),
                Step::Ack(packet) => self.deliver_ack(world, &packet),
                Step::Due(event) => self.dispatch(world, event),
            }
        }
        most
    }

    fn dispatch(&mut self, world: &mut World, event: Event) {
        match event {
            Event::Retransmit(i) | Event::Pace(i) | Event::DelayedAck(i) | Event::CompressedSack(i) => {
                self.on_timer(world, event, i);
            }
            Event::Start(i) => {
                world.start(i, &mut self.sent);
                match world.ends[i] {
                    Ends::Tcp(_) => {
                        world.with_tcp(i, |world, tcp| self.watch_sender(world, i, &tcp.sender));
                        self.send_data(world, i);
                    }
                    Ends::Udp(_) => self.after_udp(world, i, End::Sender),
                    Ends::Application => {}
                }
                self.serve_applications(world);
            }
            Event::Wake(i) => {
                world.connections.act(i, Action::Wake);
                self.serve_applications(world);
            }
            Event::Answer(i) => {
                world.note_ready(i);
                self.serve_applications(world);
            }
            _ => {
                world.on_agenda(event);
                self.serve_applications(world);
                if event == Event::Sample {
                    self.driver.events.push(world.now + world.interval, Event::Sample);
                }
            }
        }
    }

    /// Does what applications ask for, and tells them what they are to learn.
    fn serve_applications(&mut self, world: &mut World) {
        while let Some((flow, action)) = world.connections.next_action() {
            match action {
                Action::WakeAt(at) => self.driver.events.push(at.max(world.now), Event::Wake(flow)),
                Action::Prepare(half, at) => self.driver.events.push(at, Event::Answer(half)),
                _ => {
                    let sender = world.carry_out(flow, action, &mut self.sent);
                    self.alarms.resize(world.ends.len(), Alarms::NONE);
                    // An ACK that leaves with an answer belongs to the other half.
                    self.send_acks(world);
                    if let Some(i) = sender {
                        world.with_tcp(i, |world, tcp| self.watch_sender(world, i, &tcp.sender));
                        self.send_data(world, i);
                    }
                }
            }
        }
    }

    fn on_timer(&mut self, world: &mut World, event: Event, i: u32) {
        if !self.alarms[i as usize].counts(event, world.now) {
            return;
        }
        if world.ends.is_udp(i) {
            let end = if event == Event::DelayedAck(i) { End::Receiver } else { End::Sender };
            world.on_udp_timer(i, end, &mut self.sent);
            return self.after_udp(world, i, end);
        }
        world.with_tcp(i, |world, tcp| {
            let (sender, receiver) = (&mut tcp.sender, &mut tcp.receiver);
            match event {
                Event::Retransmit(_) => world.on_retransmit_timer(sender, i, &mut self.sent),
                Event::Pace(_) => world.on_pace_timer(sender, i, &mut self.sent),
                Event::DelayedAck(_) => world.on_delayed_ack_timer(receiver, i, &mut self.sent),
                _ => world.on_compressed_sack_timer(receiver, i, &mut self.sent),
            }
            if matches!(event, Event::Retransmit(_) | Event::Pace(_)) {
                self.watch_sender(world, i, sender);
            } else {
                self.watch_receiver(i, receiver);
            }
        });
        self.send_data(world, i);
        self.send_acks(world);
    }

    /// Data arrives at its receiver.
    fn deliver_data(&mut self, world: &mut World, packet: &Packet) {
        let i = packet.flow;
        if world.ends.is_udp(i) {
            return self.deliver_udp(world, packet);
        }
        let path = world.network.flow_paths[i as usize];
        world.with_tcp(i, |world, tcp| {
            world.on_data(&mut tcp.receiver, packet, &path, &mut self.sent);
            world.note_packet(&mut tcp.receiver, packet, &mut self.sent);
            self.watch_receiver(i, &tcp.receiver);
        });
        self.send_acks(world);
        world.note_arrival(i);
        self.after_delivery(world, i);
    }

    /// A packet has left the network: if it is a connection's, its application may have something to do.
    #[inline]
    fn after_delivery(&mut self, world: &mut World, i: u32) {
        if world.connections.half(i).is_none() {
            return;
        }
        world.connections.count(i, -1, world.now);
        world.release_if_idle(i);
        self.serve_applications(world);
    }

    /// A packet comes to either end of a flow over UDP.
    fn deliver_udp(&mut self, world: &mut World, packet: &Packet) {
        world.on_udp(packet, &mut self.sent);
        self.after_udp(world, packet.flow, End::of(packet));
    }

    /// An ACK, or what goes against the data of a flow over UDP, arrives at its sender.
    fn deliver_ack(&mut self, world: &mut World, packet: &Packet) {
        world.acks -= 1;
        let Packet { flow: i, payload, flags, .. } = *packet;
        let is_udp = world.ends.is_udp(i);
        if !self.taps.is_empty() {
            let ack = if is_udp { None } else { Some(world.ack(packet)) };
            let id = world.connections.id(i);
            self.taps.iter_mut().for_each(|tap| tap.received(world.now, id, packet, ack.as_ref()));
        }
        if is_udp {
            return self.deliver_udp(world, packet);
        }
        world.with_tcp(i, |world, tcp| {
            world.on_ack(&mut tcp.sender, i, (payload, flags), &mut self.sent);
            world.note_acknowledged(&tcp.sender, i);
            self.watch_sender(world, i, &tcp.sender);
        });
        self.send_data(world, i);
        self.after_delivery(world, i);
    }

    /// `count` packets like `first` leave their endpoint now.
    #[inline]
    fn send(&mut self, world: &mut World, first: Packet, count: u32) {
        self.driver.send(&mut world.network, first, count, world.now);
        world.book_links();
    }

    /// What an end of a flow over UDP has sent leaves, and its timers are armed.
    fn after_udp(&mut self, world: &mut World, i: u32, end: End) {
        self.send_data(world, i);
        self.send_acks(world);
        if let Some(flow) = world.ends.udp_mut(i) {
            let due = flow.due(end);
            self.alarms[i as usize].arm_udp(i, end, due.max(world.now), &mut self.driver.events);
        }
    }

    /// A sender has acted: taps see it, and its timers are armed.
    #[inline]
    fn watch_sender(&mut self, world: &World, i: u32, sender: &Sender) {
        for tap in &mut self.taps {
            tap.updated(world.now, world.connections.id(i), sender);
        }
        self.alarms[i as usize].arm_sender(i, sender, &mut self.driver.events);
    }

    /// A receiver has acted: its timers are armed.
    #[inline]
    fn watch_receiver(&mut self, i: u32, receiver: &Receiver) {
        self.alarms[i as usize].arm_receiver(i, receiver, &mut self.driver.events);
    }

    /// What sender `i` has sent leaves.
    #[inline]
    fn send_data(&mut self, world: &mut World, i: u32) {
        for k in 0..self.sent.data.len() {
            let Burst { first: packet, count } = self.sent.data[k];
            for tap in &mut self.taps {
                (0..count).for_each(|k| tap.sent(world.now, world.connections.id(i), &packet.behind(k)));
            }
            world.connections.note_sent(i, count, world.now);
            self.send(world, packet, count);
        }
        self.sent.data.clear();
        if let Some(i) = self.sent.completed.take() {
            world.end_transfer(i);
        }
    }

    /// What receivers have sent leaves.
    #[inline]
    fn send_acks(&mut self, world: &mut World) {
        world.acks += self.sent.acks.len() as u64;
        for k in 0..self.sent.acks.len() {
            let ack = self.sent.acks[k];
            world.connections.count(ack.flow, 1, world.now);
            self.send(world, ack, 1);
        }
        self.sent.acks.clear();
    }
}

/// Fetches what the ends of the packets that are expected next will need.
#[inline]
fn fetch_ahead(world: &World, upcoming: Upcoming) {
    let pipe = match upcoming {
        Upcoming::Nothing => return,
        Upcoming::Departure(packet) => {
            if let Ends::Tcp(Some(tcp)) = &world.ends[packet.flow] {
                fetch(&tcp.receiver);
            }
            return fetch(&world.network.flow_paths[packet.flow as usize]);
        }
        Upcoming::Arrivals(pipe) => pipe,
    };
    if let Some(packet) = pipe.peek(1)
        && let Ends::Tcp(Some(tcp)) = &world.ends[packet.flow]
    {
        tcp.sender.fetch();
        fetch_first(&world.flows[packet.flow as usize], 1);
        if let Payload::Stored(key) = packet.payload
            && let Some(ack) = world.full_acks.get(key as usize)
        {
            fetch(ack);
        }
    }
    if let Some(packet) = pipe.peek(0)
        && let Ends::Tcp(Some(tcp)) = &world.ends[packet.flow]
    {
        tcp.sender.fetch_behind();
        world.flows[packet.flow as usize].rtt_histogram.fetch_counts();
    }
}
