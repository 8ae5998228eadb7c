//! Event by event: takes any network.
//!
//! Links, pipes and timers have one event each in the heap that counts. The link or pipe that is next goes on as long as
//! nothing else is due before its next packet.

use super::alarms::Alarms;
use super::connections::Action;
use super::endpoints::Ack;
use super::world::{Outbox, World, blocks};
use crate::events::{Event, Events};
use crate::network::FlowPath;
use crate::observe::Tap;
use knee_core::cache::{fetch, fetch_first};
use knee_core::{Packet, Time};
use knee_link::Link;
use knee_queue::Burst;

/// Lets time pass from event to event.
pub(super) struct EventScheduler {
    events: Events,
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
            events.push(world.record.start(i), Event::Start(i as u32));
        }
        Self { events, alarms: vec![Alarms::NONE; world.flows.len()], sent: Sent::default(), taps: Vec::new() }
    }

    /// Lets `tap` see the packets at the senders.
    pub(super) fn tap(&mut self, tap: Box<dyn Tap>) {
        self.taps.push(tap);
    }

    /// Checks that an event is there for each link and pipe at the time at which it is due.
    pub(super) fn audit(&self, world: &World) -> Result<(), String> {
        let links = world.network.links.iter().map(|direction| &direction.link);
        let links = (0..).zip(links).map(|(i, link)| (link.due(), event_of(link, i)));
        let pipes = (0..).zip(&world.network.pipes).map(|(i, pipe)| (pipe.next().unwrap_or(Time::MAX), Event::Pipe(i)));
        match links.chain(pipes).find(|&(at, event)| at < Time::MAX && !self.events.contains(at, event)) {
            Some((at, event)) => Err(format!("no event for {event:?} at {at}")),
            None => Ok(()),
        }
    }

    /// Lets the next event happen. Gives how many that are: 1.
    pub(super) fn step(&mut self, world: &mut World) -> u64 {
        if self.events.next() >= world.end {
            world.reach_end();
        } else if let Some((at, event)) = self.events.pop() {
            world.now = at;
            self.dispatch(world, event);
        }
        1
    }

    fn dispatch(&mut self, world: &mut World, event: Event) {
        match event {
            Event::Wire(i) | Event::Link(i) => self.on_link(world, i, event),
            Event::Pipe(i) => self.on_pipe(world, i),
            Event::Retransmit(i) | Event::Pace(i) | Event::DelayedAck(i) | Event::CompressedSack(i) => {
                self.on_timer(world, event, i);
            }
            Event::Start(i) => {
                world.start(i, &mut self.sent);
                if world.is_non_tcp(i) {
                    self.after_non_tcp(world, i);
                } else {
                    self.after_sender(world, i);
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
                    self.events.push(world.now + world.interval, Event::Sample);
                }
            }
        }
    }

    /// Does what applications ask for, and tells them what they are to learn.
    fn serve_applications(&mut self, world: &mut World) {
        while let Some((flow, action)) = world.connections.next_action() {
            match action {
                Action::WakeAt(at) => self.events.push(at.max(world.now), Event::Wake(flow)),
                Action::Prepare(half, at) => self.events.push(at, Event::Answer(half)),
                _ => {
                    let sender = world.carry_out(flow, action, &mut self.sent);
                    self.alarms.resize(world.senders.len(), Alarms::NONE);
                    // An ACK that leaves with an answer belongs to the other half.
                    self.send_acks(world);
                    if let Some(i) = sender {
                        self.after_sender(world, i);
                    }
                }
            }
        }
    }

    fn on_timer(&mut self, world: &mut World, event: Event, i: u32) {
        if !self.alarms[i as usize].counts(event, world.now) {
            return;
        }
        if world.is_non_tcp(i) {
            world.on_non_tcp_timer(i, &mut self.sent);
            return self.after_non_tcp(world, i);
        }
        match event {
            Event::Retransmit(_) => world.on_retransmit_timer(i, &mut self.sent),
            Event::Pace(_) => world.on_pace_timer(i, &mut self.sent),
            Event::DelayedAck(_) => world.on_delayed_ack_timer(i, &mut self.sent),
            _ => world.on_compressed_sack_timer(i, &mut self.sent),
        }
        match event {
            Event::Retransmit(_) | Event::Pace(_) => self.after_sender(world, i),
            _ => self.after_receiver(world, i),
        }
    }

    /// A link serves, unless its time has changed since the event was made.
    fn on_link(&mut self, world: &mut World, i: u32, event: Event) {
        while world.network.links[i as usize].link.due() == world.now {
            let direction = &mut world.network.links[i as usize];
            let packet = direction.serve(world.now);
            let next = direction.link.due();
            if world.prefetches
                && let Some(on_wire) = direction.link.on_wire()
            {
                fetch(&world.receivers[on_wire.packet.flow as usize]);
                fetch(&world.network.ways[on_wire.packet.flow as usize]);
            }
            world.book_news(i);
            if let Some(packet) = packet {
                self.leave(world, i, packet);
            }
            // Where the link has been given another time meanwhile, there is an event for that.
            if next == Time::MAX || world.network.links[i as usize].link.due() != next {
                return;
            }
            if next >= self.events.next().min(world.end) {
                return self.events.push(next, event);
            }
            world.now = next;
        }
    }

    /// A packet leaves a link, perhaps into a pipe.
    fn leave(&mut self, world: &mut World, link: u32, packet: Packet) {
        match world.network.propagate(link, packet, world.now) {
            None => self.cross(world, packet),
            Some((pipe, Some(at))) => self.events.push(at, Event::Pipe(pipe)),
            Some((_, None)) => {}
        }
    }

    /// A pipe delivers.
    fn on_pipe(&mut self, world: &mut World, i: u32) {
        let brings_acks = world.network.ends_at_sender(i);
        loop {
            if world.prefetches && brings_acks {
                fetch_behind_head(world, i);
            }
            // None: an event that another packet overtook.
            let Some(packet) = world.network.pipes[i as usize].pop(world.now) else { return };
            if brings_acks && packet.has(Packet::ACK) {
                self.deliver_ack(world, &packet);
            } else if brings_acks {
                self.deliver_data(world, &packet);
            } else {
                self.cross(world, packet);
            }
            match world.network.pipes[i as usize].next() {
                Some(at) if at < self.events.next().min(world.end) => world.now = at,
                Some(at) => return self.events.push(at, Event::Pipe(i)),
                None => return,
            }
        }
    }

    /// A packet has crossed a link: it comes to the next one of its way, or to its end.
    fn cross(&mut self, world: &mut World, mut packet: Packet) {
        packet.hop += 1;
        if packet.has(Packet::ACK) {
            return self.forward_ack(world, packet);
        }
        if let Some(next) = world.network.next_link(&packet) {
            return self.arrive(world, next, packet, 1);
        }
        if world.connections.is_half(packet.flow) && world.network.ways[packet.flow as usize].mirrored {
            return self.push_end_pipe(world, packet);
        }
        self.deliver_data(world, &packet);
    }

    /// Data arrives at its receiver.
    fn deliver_data(&mut self, world: &mut World, packet: &Packet) {
        let i = packet.flow;
        if world.is_non_tcp(i) {
            world.on_non_tcp(packet, &mut self.sent);
            return self.after_non_tcp(world, i);
        }
        let way = world.network.ways[i as usize];
        world.on_data(i, packet, &way, &mut self.sent);
        if world.connections.is_half(i) {
            world.note_packet(i, packet, &mut self.sent);
        }
        self.after_receiver(world, i);
        if world.connections.is_half(i) {
            world.connections.count(i, -1, world.now);
            world.note_arrival(i);
            world.release_if_idle(i);
            self.serve_applications(world);
        }
    }

    /// A packet enters the pipe at the end of its way.
    fn push_end_pipe(&mut self, world: &mut World, packet: Packet) {
        let FlowPath { ack_pipe, ack_delay, .. } = world.network.ways[packet.flow as usize];
        let head = world.network.pipes[ack_pipe as usize].push(world.now + ack_delay, packet);
        if let Some(at) = head {
            self.events.push(at, Event::Pipe(ack_pipe));
        }
    }

    /// An ACK comes to the next link of its way, or to the pipe at its end.
    fn forward_ack(&mut self, world: &mut World, packet: Packet) {
        if let Some(next) = world.network.next_link(&packet) {
            return self.arrive(world, next, packet, 1);
        }
        if world.network.ways[packet.flow as usize].mirrored {
            return self.deliver_ack(world, &packet);
        }
        self.push_end_pipe(world, packet);
    }

    fn deliver_ack(&mut self, world: &mut World, packet: &Packet) {
        world.acks -= 1;
        if world.is_non_tcp(packet.flow) {
            let id = world.connections.id(packet.flow);
            self.taps.iter_mut().for_each(|tap| tap.received(world.now, id, packet, &[]));
            world.on_non_tcp(packet, &mut self.sent);
            return self.after_non_tcp(world, packet.flow);
        }
        let Packet { seq, stamp, extra: sacks, flags, .. } = *packet;
        for tap in &mut self.taps {
            tap.received(world.now, world.connections.id(packet.flow), packet, blocks(&world.sacks, sacks).as_slice());
        }
        world.on_ack(packet.flow, &Ack { seq, stamp, sacks, flags }, &mut self.sent);
        self.after_sender(world, packet.flow);
        if world.connections.is_half(packet.flow) {
            world.connections.count(packet.flow, -1, world.now);
            world.note_acknowledged(packet.flow);
            world.release_if_idle(packet.flow);
            self.serve_applications(world);
        }
    }

    /// `count` packets like `first` arrive at a link now.
    #[inline]
    fn arrive(&mut self, world: &mut World, i: u32, mut first: Packet, count: u32) {
        first.enqueued = world.now;
        let direction = &mut world.network.links[i as usize];
        let before = direction.link.due();
        direction.link.arrive(&Burst { first, count }, world.now, &mut direction.outcome);
        // An event at another time that the heap still holds for the link is void from now on.
        let due = direction.link.due();
        if due != before && due < Time::MAX {
            self.events.push(due, event_of(&direction.link, i));
        }
        world.book_news(i);
    }

    /// What both ends of a flow that is not TCP's have sent leaves, and their timers are armed.
    fn after_non_tcp(&mut self, world: &mut World, i: u32) {
        self.send_data(world, i);
        self.send_acks(world);
        let now = world.now;
        if let Some(flow) = world.non_tcp(i) {
            self.alarms[i as usize].arm_non_tcp(i, flow.due(now), &mut self.events);
        }
    }

    /// What a sender has sent leaves, and its timers are armed.
    #[inline]
    fn after_sender(&mut self, world: &mut World, i: u32) {
        for tap in &mut self.taps {
            tap.updated(world.now, world.connections.id(i), &world.senders[i as usize]);
        }
        self.send_data(world, i);
        self.alarms[i as usize].arm_sender(i, &world.senders[i as usize], &mut self.events);
    }

    #[inline]
    fn send_data(&mut self, world: &mut World, i: u32) {
        let first = world.network.first_link(i);
        let is_half = world.connections.is_half(i);
        for k in 0..self.sent.data.len() {
            let Burst { first: packet, count } = self.sent.data[k];
            for tap in &mut self.taps {
                let segment = |k| Packet { seq: packet.seq + u64::from(k), ..packet };
                (0..count).for_each(|k| tap.sent(world.now, world.connections.id(i), &segment(k)));
            }
            if is_half {
                world.connections.note_sent(i, count, world.now);
            }
            match first {
                Some(link) => self.arrive(world, link, packet, count),
                // The way against a flow's data may have no links.
                None => (0..u64::from(count)).for_each(|k| {
                    self.push_end_pipe(world, Packet { seq: packet.seq + k, ..packet });
                }),
            }
        }
        self.sent.data.clear();
        if let Some(i) = self.sent.completed.take() {
            world.end_transfer(i);
        }
    }

    /// What a receiver has sent leaves, and its timers are armed.
    #[inline]
    fn after_receiver(&mut self, world: &mut World, i: u32) {
        self.send_acks(world);
        self.alarms[i as usize].arm_receiver(i, &world.receivers[i as usize], &mut self.events);
    }

    #[inline]
    fn send_acks(&mut self, world: &mut World) {
        world.acks += self.sent.acks.len() as u64;
        for k in 0..self.sent.acks.len() {
            let ack = self.sent.acks[k];
            if world.connections.is_half(ack.flow) {
                world.connections.count(ack.flow, 1, world.now);
            }
            self.forward_ack(world, ack);
        }
        self.sent.acks.clear();
    }
}

/// What is due when the link at an index acts next.
const fn event_of(link: &Link, i: u32) -> Event {
    if link.is_wire() { Event::Wire(i) } else { Event::Link(i) }
}

/// Fetches what the ACKs behind the head of their pipe will need.
#[inline]
fn fetch_behind_head(world: &World, pipe: u32) {
    let pipe = &world.network.pipes[pipe as usize];
    if let Some(packet) = pipe.peek(2) {
        world.senders[packet.flow as usize].fetch();
        fetch_first(&world.flows[packet.flow as usize], 1);
        if let Some(blocks) = (packet.extra as usize).checked_sub(1).and_then(|key| world.sacks.get(key)) {
            fetch(blocks);
        }
    }
    if let Some(packet) = pipe.peek(1) {
        world.senders[packet.flow as usize].fetch_behind();
        world.flows[packet.flow as usize].rtt_histogram.fetch_counts();
    }
}
