//! Event by event: takes any network.
//!
//! A [`Driver`] moves packets through the network. It says which packet has come to an end of its path, or which timer
//! or other event is due. That end acts; then the packets that it sends set out, and its timers are armed.
//!
//! An end sets a timer with nearly every packet, and hardly one ever fires. So the heap has at most one event that
//! counts for each timer ([`Alarms`]), for a time at which it may be due; older ones are void. When that time comes and
//! the timer is due later by now, a new event is made.

use super::apps::Action;
use super::hosts::{At, End, Outbox, StateNote, event_of, timer_of};
use super::model::Model;
use crate::Tap;
use knee_core::cache::{fetch, fetch_first};
use knee_core::convert::low_u16;
use knee_core::{Packet, Payload, Time};
use knee_link::queue::Burst;
use knee_net::driver::{Driver, Step, Upcoming};
use knee_net::events::{Event, Events};
use knee_tcp::ends::EndTimer;
use knee_tcp::sender::AckInfo;

/// Lets time pass from event to event.
pub(super) struct EventScheduler {
    driver: Driver,
    /// By path.
    alarms: Vec<Alarms>,
    /// Takes what the end that acts sends.
    outbox: EventOutbox,
    /// Who sees the packets at the senders.
    taps: Vec<Box<dyn Tap>>,
}

/// By timer, the time of its event that counts; `Time::MAX`: the heap holds none.
type Alarms = [Time; 4];

/// Packets and notes of an end at one time.
#[derive(Clone, Default)]
struct EventOutbox {
    packets: Vec<Burst>,
    /// RTT samples of connections, with the flows to which they belong.
    rtts: Vec<(u32, Time)>,
    changes: Vec<StateNote>,
    /// A transfer that is complete.
    completed: Option<u32>,
}

impl Outbox for EventOutbox {
    #[inline]
    fn data(&mut self, first: Packet, count: u32, _: &At<'_>) {
        self.packets.push(Burst { first, count });
    }

    #[inline]
    fn ack(&mut self, ack: Packet, _: &At<'_>) {
        self.packets.push(Burst { first: ack, count: 1 });
    }

    fn rtt(&mut self, owner: u32, rtt: Time) {
        self.rtts.push((owner, rtt));
    }

    fn changed(&mut self, change: StateNote) {
        self.changes.push(change);
    }

    fn completed(&mut self, flow: u32, _: Time) {
        self.completed = Some(flow);
    }
}

impl EventScheduler {
    /// A scheduler for `model`, in which nothing has happened yet.
    pub(super) fn new(model: &Model, agenda: Events) -> Self {
        let (mut events, paths) = (agenda, model.hosts.len());
        let own = (0..paths).filter(|i| !model.hosts.is_outside(*i));
        own.for_each(|i| events.push(model.recorder.start(i), Event::Start(i)));
        Self {
            driver: Driver::new(events),
            alarms: vec![[Time::MAX; 4]; paths as usize],
            outbox: EventOutbox::default(),
            taps: Vec::new(),
        }
    }

    /// A copy; none where a tap looks on.
    pub(super) fn copied(&self) -> Option<Self> {
        let Self { driver, alarms, outbox, taps } = self;
        let (driver, alarms, outbox) = (driver.clone(), alarms.clone(), outbox.clone());
        taps.is_empty().then_some(Self { driver, alarms, outbox, taps: Vec::new() })
    }

    /// Replaces what concerns the whole run by what `agenda` has from `from` on.
    pub(super) fn amend(&mut self, agenda: Events, from: Time) {
        self.driver.events.amend(agenda, from);
    }

    /// Lets `tap` see the packets at the senders.
    pub(super) fn tap(&mut self, model: &mut Model, tap: Box<dyn Tap>) {
        model.hosts.dropped.get_or_insert_default();
        self.taps.push(tap);
    }

    /// Checks that an event is there for each link and pipe at the time at which it is due, and the model's books.
    pub(super) fn audit(&self, model: &Model) -> Result<(), String> {
        self.driver.audit(&model.network)?;
        let in_pipes = model.network.pipes.iter().map(|pipe| pipe.len() as u64).sum();
        model.audit(in_pipes, 0)
    }

    /// Lets events before `until` happen, `most` of them at the most. Gives how many did.
    pub(super) fn step(&mut self, model: &mut Model, most: u64, until: Time) -> u64 {
        for done in 0..most {
            let Some((_, step)) = self.move_on(model, until.min(model.end)) else {
                if until <= model.end {
                    return done;
                }
                model.reach_end();
                return done + 1;
            };
            self.handle(model, step);
        }
        most
    }

    /// Lets the next event before `until` happen in the network, and books what links have dropped.
    #[inline]
    pub(super) fn move_on(&mut self, model: &mut Model, until: Time) -> Option<(Time, Step)> {
        let (at, step) = self.driver.step(&mut model.network, until)?;
        model.now = at;
        if model.prefetches {
            fetch_ahead(model, self.driver.upcoming(&model.network));
        }
        if !model.network.unbooked.is_empty() {
            self.book_drops(model);
        }
        Some((at, step))
    }

    /// Lets an end act on an outcome of [`Self::move_on`].
    #[inline]
    pub(super) fn handle(&mut self, model: &mut Model, step: Step) {
        match step {
            Step::Moved => {}
            Step::Arrived(packet) => self.on_arrival(model, &packet),
            Step::Due(event) => self.dispatch(model, event),
        }
    }

    /// When something is due next; `Time::MAX`: nothing is.
    pub(super) fn next(&self) -> Time {
        self.driver.next()
    }

    /// A packet that no end sends sets out.
    pub(super) fn forward(&mut self, model: &mut Model, packet: Packet, now: Time) -> Step {
        let step = self.driver.forward(&mut model.network, packet, 1, now);
        if !model.network.unbooked.is_empty() {
            self.book_drops(model);
        }
        step
    }

    fn dispatch(&mut self, model: &mut Model, event: Event) {
        if let Some((timer, i)) = timer_of(event) {
            return self.on_timer(model, timer, i);
        }
        match event {
            Event::Start(i) => self.start(model, i),
            Event::Wake(i) => model.apps.act(i, Action::Wake),
            Event::Answer(i) => model.apps.note_ready(i),
            _ => {
                model.on_agenda(event);
                self.show_drops(model);
                if event == Event::Sample {
                    self.driver.events.push(model.now + model.recorder.interval, Event::Sample);
                }
            }
        }
        self.serve_applications(model);
    }

    fn start(&mut self, model: &mut Model, i: u32) {
        model.begin_flow(i);
        if model.hosts.is_application(i) {
            return model.apps.act(i, Action::Start);
        }
        let (hosts, at) = model.hosts_at(i);
        hosts.start(i, &at, &mut self.outbox);
        self.send_and_arm(model, i, End::Sender);
    }

    /// Does what applications ask for, and tells them what they are to learn.
    fn serve_applications(&mut self, model: &mut Model) {
        while let Some((flow, action)) = model.apps.next_action() {
            match action {
                Action::WakeAt(at) => self.driver.events.push(at.max(model.now), Event::Wake(flow)),
                Action::Prepare(half, at) => self.driver.events.push(at, Event::Answer(half)),
                _ => {
                    let acts = model.carry_out(flow, action, 0, &mut self.outbox);
                    self.alarms.resize(model.hosts.len() as usize, [Time::MAX; 4]);
                    if let Some((i, end)) = acts {
                        self.send_and_arm(model, i, end);
                    }
                }
            }
        }
    }

    fn on_timer(&mut self, model: &mut Model, timer: EndTimer, i: u32) {
        // The event is void if the timer was set to an earlier time meanwhile.
        let alarm = &mut self.alarms[i as usize][timer as usize];
        if *alarm != model.now {
            return;
        }
        *alarm = Time::MAX;
        let (hosts, at) = model.hosts_at(i);
        hosts.on_timer(i, timer, &at, &mut self.outbox);
        self.send_and_arm(model, i, End::with(timer));
        if model.apps.carries(i) && model.apps.note_timeout(i, &model.hosts) {
            self.serve_applications(model);
        }
    }

    /// A packet has arrived at an end of its path: data at the receiver, an ACK at the sender.
    #[inline]
    fn on_arrival(&mut self, model: &mut Model, packet: &Packet) {
        let (i, end) = (packet.flow, End::of(packet));
        if end == End::Sender {
            model.hosts.acks -= 1;
            for tap in &mut self.taps {
                let ack = model.hosts.find_tcp(i).map(|_| model.hosts.ack(packet));
                tap.received(model.now, model.hosts.id(i), packet, ack.as_ref());
            }
        } else {
            self.taps.iter_mut().for_each(|tap| tap.delivered(model.now, model.hosts.id(i), packet));
            if model.apps.carries(i) {
                self.take_carried_ack(model, i, packet);
            }
        }
        let (hosts, at) = model.hosts_at(i);
        hosts.on_packet(i, &at, packet, &mut self.outbox);
        self.send_and_arm(model, i, end);
        if model.apps.carries(i) {
            model.apps.after_delivery(i, end, model.now, &mut model.hosts);
            self.serve_applications(model);
        }
    }

    /// A data packet of path `i`, a connection's, brings the other half's sender the ACK that it carries, if it does.
    fn take_carried_ack(&mut self, model: &mut Model, i: u32, packet: &Packet) {
        let Some((other, ack)) = model.apps.carried_ack(i, packet, &model.hosts) else { return };
        if !self.taps.is_empty() {
            let (hosts, now) = (&model.hosts, model.now);
            let info = AckInfo::plain(ack.seq, ack.tsecr, ack.flags);
            self.taps.iter_mut().for_each(|tap| tap.carried(now, hosts.id(other), packet, &info));
        }
        let (hosts, at) = model.hosts_at(other);
        let Payload::Data { tsval, .. } = packet.payload else { return };
        let tsval = low_u16(tsval.into());
        hosts.pair(other).tcp().on_carried_ack(ack, tsval, &at, &mut self.outbox);
        self.send_and_arm(model, other, End::Sender);
        model.apps.note_progress(other, End::Sender, model.now, &mut model.hosts);
    }

    /// Puts what links have dropped on record, tells its host, and shows it.
    #[cold]
    fn book_drops(&mut self, model: &mut Model) {
        let (recorder, network, mut observed) = model.observed();
        recorder.book_links(network, &mut observed);
        self.show_drops(model);
    }

    fn show_drops(&mut self, model: &mut Model) {
        let Some(drops) = &mut model.hosts.dropped else { return };
        for (at, id, packet) in drops.drain(..) {
            self.taps.iter_mut().for_each(|tap| tap.dropped(at, id, &packet));
        }
    }

    /// An end of path `i` has acted: sends its packets, and arms its timers.
    #[inline]
    fn send_and_arm(&mut self, model: &mut Model, i: u32, end: End) {
        if end == End::Sender
            && !self.taps.is_empty()
            && let Some(tcp) = model.hosts.find_tcp(i)
        {
            let id = model.hosts.id(i);
            self.taps.iter_mut().for_each(|tap| tap.updated(model.now, id, &tcp.sender));
        }
        self.send(model);
        for timer in end.timers() {
            let due = model.hosts.not_before(i, timer).max(model.now);
            let alarm = &mut self.alarms[i as usize][timer as usize];
            if due < *alarm {
                *alarm = due;
                self.driver.events.push(due, event_of(timer, i));
            }
        }
    }

    /// Sends the packets of the end that has acted, and puts its changes of state on record.
    #[inline]
    fn send(&mut self, model: &mut Model) {
        for k in 0..self.outbox.packets.len() {
            let Burst { first, count } = self.outbox.packets[k];
            if first.has(Packet::ACK) {
                model.hosts.acks += 1;
                if model.apps.carries(first.flow) {
                    model.apps.add_packets(first.flow, 1, model.now);
                }
            } else {
                for tap in &mut self.taps {
                    (0..count).for_each(|k| tap.sent(model.now, model.hosts.id(first.flow), &first.behind(k)));
                }
                if model.apps.carries(first.flow) {
                    model.apps.note_sent(first.flow, &first, count, model.now, &mut model.hosts);
                }
            }
            // Nothing arrives as it sets out: between the ends of a path lies a link or a pipe, whichever way.
            let step = self.driver.forward(&mut model.network, first, count, model.now);
            debug_assert!(matches!(step, Step::Moved), "{step:?}");
            if !model.network.unbooked.is_empty() {
                self.book_drops(model);
            }
        }
        self.outbox.packets.clear();
        self.outbox.rtts.drain(..).for_each(|(owner, rtt)| model.hosts.record_mut(owner).take_rtt(rtt));
        self.outbox.changes.drain(..).for_each(|change| model.record(change));
        if let Some(i) = self.outbox.completed.take() {
            model.end_transfer(i);
        }
    }
}

/// Fetches what the ends of the packets that are expected next will need.
#[inline]
fn fetch_ahead(model: &Model, upcoming: Upcoming) {
    let Model { hosts, network, .. } = model;
    let pipe = match upcoming {
        Upcoming::Nothing => return,
        Upcoming::Departure(packet) => {
            if let Some(tcp) = hosts.find_tcp(packet.flow) {
                fetch(&tcp.receiver);
            }
            return fetch(&network.flow_paths[packet.flow as usize]);
        }
        Upcoming::Arrivals(pipe) => pipe,
    };
    if let Some(packet) = pipe.peek(1)
        && let Some(tcp) = hosts.find_tcp(packet.flow)
    {
        tcp.sender.fetch();
        fetch_first(hosts.record(packet.flow), 1);
        if let Some(key) = packet.payload.stored()
            && let Some(ack) = hosts.full_ack(packet.flow, key)
        {
            fetch(ack);
        }
    }
    if let Some(packet) = pipe.peek(0)
        && let Some(tcp) = hosts.find_tcp(packet.flow)
    {
        tcp.sender.fetch_behind();
        hosts.record(packet.flow).rtt_histogram.fetch_counts();
    }
}
