//! Much at a time, flow by flow: how a dumbbell is gone through.
//!
//! Where all data crosses one wire and ACKs come home over nothing but a delay, a sender hears of what it does now only
//! after the way of its ACKs. So time passes in epochs:
//!
//! 1. What has left the link up to the beginning of the epoch is put beside its flows.
//! 2. Flow by flow, the receiver takes it, and its ACKs wait for their sender, with the time at which they are home. Then
//!    the sender takes the ACKs and timers of the epoch, and what it sends is noted.
//! 3. What was sent comes to the link in the order of time, and packets leave it up to the end of the epoch.
//!
//! An epoch ends when an ACK may come home of what has not landed yet: the shortest way of an ACK after its beginning, or
//! later where it is foreseen what will land. A queue that is first in, first out says when a packet leaves as soon as it
//! comes (`Queue::cross`), and until its last one has, nothing else lands. Receivers are ahead of the time then, but never
//! beyond what concerns the whole run: a sample, a change, the end of a flow.
//!
//! So a flow's state is fetched once for all that it does in an epoch, nothing waits in a heap, and the code of one end
//! at a time is at hand. Nobody notices: things happen at the same times, those of one time in the order of
//! [`Event::order`], and whoever looks at the whole does so between two epochs.

use super::alarms::Alarms;
use super::crossing::Sent;
use super::endpoints::{packets, store_blocks};
use super::homing::{Cause, Homing, Lane};
use super::report::Sampling;
use super::{Simulation, Way};
use crate::events::Event;
use crate::link::{Link, Server};
use crate::order::Order;
use crate::receiver::Reply;
use crate::sender::AckInfo;
use crate::spec::Change;
use crate::timer::Timer;
use knee_core::cache::{fetch, fetch_first};
use knee_core::packet::MTU;
use knee_core::{Packet, Time};
use knee_queue::Gone;

/// Packets that leave the link in an epoch at the most, about: what is noted of them has a bound.
const PACKETS: u64 = 131_072;
/// The longest epoch, whose times 32 bits hold.
const LONGEST: Time = Time::from_secs(4);
/// Epochs pay where at least one flow in so many has something to do in each.
const IDLE_FLOWS: u64 = 16;
/// To look at so many flows is as much work as a visit.
const LOOKS: u64 = 64;
/// Flows whose state is fetched before they are visited, and those whose state behind it is.
const AHEAD: (usize, usize) = (3, 1);

/// How far the epochs have come, and what lies between one end of the link and the other.
pub(super) struct Epochs {
    /// The link that all data crosses.
    pub(super) link: u32,
    /// The shortest way of an ACK.
    most: Time,
    /// Whether packets may land ahead of their time: no transfer ends, and nobody asks when one did what its receiver had.
    pub(super) foresees: bool,
    /// All before this time has happened, but for what receivers do with packets that have landed. They may have done more,
    /// where that was foreseen.
    pub(super) at: Time,
    lanes: Vec<Lane>,
    /// ACKs of the flow that is visited on their way home, in that order: most are home within the visit.
    homing: Homing,
    /// When each flow has something to do, at the earliest, beside taking what has landed.
    dues: Vec<Time>,
    /// Flows that have not started, the next one last.
    starts: Vec<u32>,
    /// What was sent in this epoch, in the order of the flows.
    pub(super) sent: Sent,
    pub(super) order: Order,
    /// What has left the link, or was dropped.
    pub(super) gone: Gone,
    /// How many of those that left are in the link's figures.
    pub(super) booked: usize,
    /// What has left it flow by flow; its `enqueued` is the time at which it did.
    pub(super) arrivals: Vec<Packet>,
    /// Of each flow those of `arrivals` that it has not received: from the first to before the second.
    pub(super) ranges: Vec<(u32, u32)>,
    /// Flows to be visited in this epoch.
    visits: Vec<u32>,
    /// Order, among those of its time, of what a sender is doing.
    turn: u64,
    /// Why a receiver sends an ACK.
    cause: Cause,
    /// Transfers completed in this epoch.
    completed: Vec<(Time, u32)>,
}

/// The order, among what is due at one time, of an ACK that comes home from a pipe: of one pipe in the order in which
/// they left, those of packets before those of timers, and of one kind of timer by flow.
const fn turn_of_ack(pipe: u32, cause: Cause, flow: u32) -> u64 {
    Event::Pipe(0).order() << 20 | (pipe as u64) << 26 | (cause as u64) << 24 | flow as u64
}

/// The same of what a flow does.
const fn turn_of(event: Event) -> u64 {
    let order = event.order();
    order >> 32 << 52 | order & u32::MAX as u64
}

/// How long a wire takes for a full packet, at least 1 ns.
fn full_packet(link: &Link) -> Time {
    Time::from_nanos((u64::from(MTU) * 8_000_000_000 / link.wire_rate().max(1)).max(1))
}

/// The longest epoch: at its end the link has carried [`PACKETS`] at the most, about.
fn longest(link: &Link) -> Time {
    (full_packet(link) * PACKETS).min(LONGEST)
}

impl Simulation {
    /// Lets time pass in epochs where that can be and pays.
    pub(super) fn allow_epochs(&mut self) {
        let [route] = self.routes.as_slice() else { return };
        let ([link], []) = (route.data.as_slice(), route.acks.as_slice()) else { return };
        let Link { pipe: None, server: Server::Wire(_), .. } = &self.links[*link as usize] else { return };
        let most = self.shortest_way_home();
        if most == Time::ZERO {
            return;
        }
        let flows = self.flows.len();
        let mut starts: Vec<(Time, u32)> = self.flows.iter().map(|flow| flow.start).zip(0..).collect();
        starts.sort_unstable_by(|a, b| b.cmp(a));
        let epochs = Epochs {
            link: *link,
            most,
            foresees: self.flows.iter().all(|flow| flow.complete_at == u64::MAX),
            at: Time::ZERO,
            lanes: std::iter::repeat_with(Lane::default).take(flows).collect(),
            homing: Homing::default(),
            dues: vec![Time::MAX; flows],
            starts: starts.into_iter().map(|(_, i)| i).collect(),
            sent: Sent::default(),
            order: Order::default(),
            gone: Gone::default(),
            booked: 0,
            arrivals: Vec::new(),
            ranges: vec![(0, 0); flows],
            visits: Vec::new(),
            turn: 0,
            cause: Cause::Packet,
            completed: Vec::new(),
        };
        let link = &self.links[*link as usize];
        let packets = most.min(longest(link)).as_nanos() / full_packet(link).as_nanos();
        if packets * IDLE_FLOWS >= flows as u64 {
            self.epochs = Some(Box::new(epochs));
        }
    }

    /// Lets time pass event by event. Only before the first one.
    pub(super) fn leave_epochs(&mut self) {
        let Some(epochs) = self.epochs.take() else { return };
        self.alarms = vec![Alarms::NONE; self.flows.len()];
        for i in epochs.starts {
            self.events.push(self.flows[i as usize].start, Event::Start(i));
        }
    }

    /// The least that any ACK is under way.
    fn shortest_way_home(&self) -> Time {
        let changed = self.changes.iter().filter_map(|change| match change.what {
            Change::Rtt { flow, rtt } => Some(self.way_home(flow, Time::from_nanos(rtt))),
            _ => None,
        });
        self.ways.iter().map(|way| way.ack_delay).chain(changed).min().unwrap_or(Time::ZERO)
    }

    /// Goes through an epoch, or through what concerns the whole run at its beginning. Gives how much work that was: one,
    /// visits of flows, and packets that left the link. To look through the flows for those to be visited is little beside
    /// that, but not where there are many.
    pub(super) fn epoch(&mut self) -> u64 {
        let Some(epochs) = &self.epochs else { return 0 };
        let at = epochs.at;
        let next = self.events.peek().filter(|(due, _)| *due < self.end);
        match next {
            Some((due, Event::Sample)) if due <= at => self.pass_with_sample(at),
            Some((due, event)) if due <= at => {
                self.receive_all(at);
                self.now = at;
                self.dispatch(event);
                1
            }
            None if at >= self.end => {
                self.receive_all(at);
                self.reach_end();
                1
            }
            _ => self.pass(at, next.map_or(self.end, |(due, _)| due), None),
        }
    }

    /// An epoch that begins with a sample, which is taken of each flow as it is visited, unless something else is due at
    /// just that time.
    fn pass_with_sample(&mut self, at: Time) -> u64 {
        self.now = at;
        self.events.pop();
        self.events.push(at + self.interval, Event::Sample);
        let next = self.events.peek().map_or(self.end, |(due, _)| due.min(self.end));
        if next > at {
            let sampling = self.begin_sample();
            if let Some(sampling) = &sampling {
                self.book_departures(at);
                self.sample_links(sampling);
            }
            return self.pass(at, next, sampling.as_ref());
        }
        self.receive_all(at);
        self.now = at;
        self.sample();
        1
    }

    /// An epoch that begins at `at`, perhaps with a sample, and ends by `until`, before which nothing concerns the whole
    /// run.
    fn pass(&mut self, at: Time, until: Time, sampling: Option<&Sampling>) -> u64 {
        let Some(epochs) = &self.epochs else { return 0 };
        // What lands later is heard of after the end of the epoch only.
        let most = until.saturating_sub(epochs.most);
        let known = self.foresee(at, most);
        let packets = self.distribute(if sampling.is_some() { known.max(at) } else { known }) as u64;
        let Some(epochs) = &mut self.epochs else { return 0 };
        let link = &self.links[epochs.link as usize];
        let limit = until.min(known + epochs.most).min(at + longest(link));
        let (earliest, looks) = (epochs.choose(limit), 1 + self.flows.len() as u64 / LOOKS);
        if sampling.is_some() {
            epochs.visits.clear();
            epochs.visits.extend(0..self.flows.len() as u32);
        }
        let start = epochs.starts.last().map_or(Time::MAX, |&i| self.flows[i as usize].start);
        let departs = epochs.gone.left.first().map_or(link.due, |left| left.packet.enqueued);
        if epochs.visits.is_empty() && departs > limit && start >= limit {
            // Nothing happens: on to what comes next. What leaves just at the end of an epoch is part of it.
            epochs.at = earliest.min(start).min(until).min(departs - Time::from_nanos(1));
            return looks;
        }
        let visits = epochs.visits.len() as u64;
        self.visit(at, known, limit, sampling);
        self.cross(limit);
        self.book_completions(limit);
        if let Some(epochs) = &mut self.epochs {
            epochs.at = limit;
        }
        looks + visits + packets
    }

    /// Step 2 for all flows that have something to do: receivers come as far as what lands is `known`, senders to `until`.
    fn visit(&mut self, at: Time, known: Time, until: Time, sampling: Option<&Sampling>) {
        let Some(epochs) = &mut self.epochs else { return };
        let visits = std::mem::take(&mut epochs.visits);
        for (k, &i) in visits.iter().enumerate() {
            if self.fetches {
                self.fetch_ahead_of_visit(&visits[k..], sampling.is_some());
            }
            self.enter(i);
            if let Some(sampling) = sampling {
                self.receive(i, at);
                self.now = at;
                self.sample_flow(i as usize, sampling);
            }
            self.receive(i, known);
            self.act(i, until);
            self.leave(i);
        }
        if let Some(epochs) = &mut self.epochs {
            epochs.visits = visits;
        }
        while let Some(i) = self.next_start(until) {
            self.set_turn(turn_of(Event::Start(i)));
            self.now = self.flows[i as usize].start;
            self.enter(i);
            self.start(i);
            self.act(i, until);
            self.leave(i);
        }
    }

    /// Takes out the next flow that starts before `until`.
    fn next_start(&mut self, until: Time) -> Option<u32> {
        let epochs = self.epochs.as_mut()?;
        let flows = &self.flows;
        epochs.starts.pop_if(|i| flows[*i as usize].start < until)
    }

    fn set_turn(&mut self, turn: u64) {
        if let Some(epochs) = &mut self.epochs {
            epochs.turn = turn;
        }
    }

    /// Fetches what the flows behind the first of `visits` will need.
    #[inline]
    fn fetch_ahead_of_visit(&self, visits: &[u32], sampled: bool) {
        let Some(epochs) = &self.epochs else { return };
        if let Some(&i) = visits.get(AHEAD.0) {
            let i = i as usize;
            if sampled {
                fetch(&self.senders[i]);
                fetch(&self.flows[i]);
            } else {
                self.senders[i].fetch();
                fetch_first(&self.flows[i], 1);
            }
            fetch(&self.receivers[i]);
            fetch(&self.ways[i]);
            fetch_first(&epochs.lanes[i], 1);
        }
        if let Some(&i) = visits.get(AHEAD.1) {
            self.senders[i as usize].fetch_behind();
            self.receivers[i as usize].fetch_behind();
            self.flows[i as usize].rtt_histogram.fetch_counts();
            let acks = epochs.lanes[i as usize].acks.as_slice();
            fetch_first(acks, size_of_val(acks).min(1024));
        }
    }

    /// All receivers take what has arrived up to `at`, and their timers before.
    fn receive_all(&mut self, at: Time) {
        self.distribute(at);
        let Some(epochs) = &mut self.epochs else { return };
        epochs.choose(at);
        let visits = std::mem::take(&mut epochs.visits);
        for &i in &visits {
            self.enter(i);
            self.receive(i, at);
            self.leave(i);
        }
        if let Some(epochs) = &mut self.epochs {
            epochs.visits = visits;
        }
    }

    /// A receiver takes what has arrived up to `at`, and its timers before.
    fn receive(&mut self, i: u32, at: Time) {
        let k = i as usize;
        let way = self.ways[k];
        loop {
            let Some(epochs) = &mut self.epochs else { return };
            let (receiver, homing) = (&mut self.receivers[k], &mut epochs.homing);
            let (next, end) = epochs.ranges[k];
            let mut packets = epochs.arrivals[next as usize..end as usize].iter();
            let (arrival, limit) = loop {
                let Some(packet) = packets.as_slice().first() else { break (Time::MAX, at) };
                let arrival = packet.enqueued;
                let limit = arrival.min(at);
                let usual = packet.flags & (Packet::SYN | Packet::ECT) == 0;
                if arrival > at || receiver.due() < limit || !usual {
                    break (arrival, limit);
                }
                packets.next();
                if receiver.on_data(packet, arrival, &self.receiver_config, way.base_rtt, &mut self.spares) {
                    let reply = receiver.reply();
                    let (flags, extra) = if receiver.has_blocks() {
                        store_blocks(receiver, reply.flags, &mut self.sacks, &mut self.spares)
                    } else {
                        (reply.flags, 0)
                    };
                    homing.sends(Reply { flags, ..reply }, extra, arrival, &way, Cause::Packet);
                }
            };
            epochs.ranges[k].0 = end - packets.len() as u32;
            if receiver.due() < limit {
                self.receiver_timer(i, limit);
            } else if arrival > at {
                return;
            } else {
                self.receive_other(i, &way);
            }
        }
    }

    /// A receiver takes the next packet that has landed, whatever it is.
    #[cold]
    fn receive_other(&mut self, i: u32, way: &Way) {
        let Some(epochs) = &mut self.epochs else { return };
        let next = &mut epochs.ranges[i as usize].0;
        let packet = epochs.arrivals[*next as usize];
        *next += 1;
        self.now = packet.enqueued;
        self.on_data(&packet, way);
    }

    /// Lets the next timer of a receiver fire if it is due before `limit`; from then on it is known when it is due.
    #[inline(never)]
    fn receiver_timer(&mut self, i: u32, limit: Time) {
        let receiver = &mut self.receivers[i as usize];
        let due = self.receiver_config.clock.expiry(&receiver.delayed);
        receiver.delayed = Timer::at(due);
        let compressed = receiver.compressed_at;
        if due.min(compressed) >= limit {
            return;
        }
        self.now = due.min(compressed);
        if due <= compressed {
            self.set_cause(Cause::DelayedAck);
            self.delayed_ack_fires(i);
        } else {
            self.set_cause(Cause::CompressedSack);
            self.compressed_sack_fires(i);
        }
        self.set_cause(Cause::Packet);
    }

    fn set_cause(&mut self, cause: Cause) {
        if let Some(epochs) = &mut self.epochs {
            epochs.cause = cause;
        }
    }

    /// A sender takes its ACKs and timers before `until`.
    fn act(&mut self, i: u32, until: Time) {
        let k = i as usize;
        loop {
            let Some(epochs) = &mut self.epochs else { return };
            let (sender, flow, homing) = (&mut self.senders[k], &mut self.flows[k], &mut epochs.homing);
            // The usual case, in which nothing else is concerned.
            let limit = loop {
                let limit = homing.home().min(until);
                let Some(&ack) = homing.acks.get(homing.taken) else { break limit };
                if ack.at >= until || sender.due() < limit || ack.flags & Packet::SYN != 0 || flow.has_news(sender) {
                    break limit;
                }
                homing.taken += 1;
                let (config, out) = (&self.sender_config, &mut self.departures);
                let rtt = if ack.extra == 0 && ack.flags & Packet::ECE == 0 && sender.is_plain(ack.seq) {
                    sender.on_plain_ack(ack.seq, ack.stamp, ack.at, config, out)
                } else {
                    let blocks = self.sacks.get(ack.extra);
                    let info = AckInfo { seq: ack.seq, blocks, tsecr: ack.stamp, flags: ack.flags };
                    let rtt = sender.on_ack(&info, ack.at, config, out, &mut self.recovery_spares);
                    self.sacks.release(ack.extra);
                    rtt
                };
                flow.book_rtt(rtt);
                if !self.departures.is_empty() {
                    epochs.turn = turn_of_ack(ack.pipe, ack.cause, i);
                    let (at, turn) = (epochs.at, epochs.turn);
                    let note = |first, count| epochs.sent.push(at, first, count, turn);
                    packets(&mut self.departures, sender, i, ack.at, note);
                }
                self.now = ack.at;
            };
            if flow.has_news(sender) {
                self.note_state(i);
                self.complete(i);
            } else if sender.due() < limit {
                self.sender_timer(i, limit);
            } else if limit >= until {
                return;
            } else if let Some(&ack) = homing.acks.get(homing.taken) {
                homing.taken += 1;
                // Only the answer to a SYN is left.
                (epochs.turn, self.now) = (turn_of_ack(ack.pipe, ack.cause, i), ack.at);
                self.establish(i);
            }
        }
    }

    /// As [`Simulation::receiver_timer`], of a sender.
    #[inline(never)]
    fn sender_timer(&mut self, i: u32, limit: Time) {
        let sender = &mut self.senders[i as usize];
        let due = self.sender_config.clock.expiry(&sender.timer);
        sender.timer = Timer::at(due);
        let pace = sender.pace_at;
        if due.min(pace) >= limit {
            return;
        }
        self.now = due.min(pace);
        if due <= pace {
            self.set_turn(turn_of(Event::Retransmit(i)));
            self.retransmit_timer_fires(i);
        } else {
            self.set_turn(turn_of(Event::Pace(i)));
            self.pace_timer_fires(i);
        }
    }

    /// A visit of a flow begins.
    #[inline]
    fn enter(&mut self, i: u32) {
        let Some(epochs) = &mut self.epochs else { return };
        epochs.homing.enter(&mut epochs.lanes[i as usize]);
    }

    /// A visit of a flow ends: notes when it has something to do.
    #[inline]
    fn leave(&mut self, i: u32) {
        let Some(epochs) = &mut self.epochs else { return };
        let (sender, receiver) = (&self.senders[i as usize], &self.receivers[i as usize]);
        epochs.dues[i as usize] = epochs.homing.home().min(sender.due()).min(receiver.due());
        epochs.homing.leave(&mut epochs.lanes[i as usize]);
    }

    /// What ends with the transfers completed in this epoch: their figures, and the window in which all flows run.
    fn book_completions(&mut self, until: Time) {
        if self.epochs.as_ref().is_none_or(|epochs| epochs.completed.is_empty()) {
            return;
        }
        self.distribute(until);
        let Some(epochs) = &mut self.epochs else { return };
        let mut completed = std::mem::take(&mut epochs.completed);
        completed.sort_unstable();
        for &(at, i) in &completed {
            self.enter(i);
            self.receive(i, at);
            self.leave(i);
            self.now = at;
            self.end_figures(i);
            if self.common.from.is_some() && self.common.until.is_none() {
                self.receive_all(at);
                self.now = at;
                self.common_end();
            }
        }
    }

    /// A transfer is complete; what ends with it is booked once receivers have come this far.
    pub(super) fn note_completion(&mut self, i: u32) -> bool {
        let Some(epochs) = &mut self.epochs else { return false };
        epochs.completed.push((self.now, i));
        true
    }

    /// `count` packets that differ by their segments only come to a link.
    #[inline]
    pub(super) fn hand_down(&mut self, i: u32, first: Packet, count: u32) {
        let Some(epochs) = &mut self.epochs else {
            if let Some(tap) = &mut self.tap {
                (0..count).for_each(|k| tap.sent(self.now, &Packet { seq: first.seq + u64::from(k), ..first }));
            }
            return self.admit(i, first, count);
        };
        epochs.sent.push(epochs.at, first, count, epochs.turn);
    }

    /// An ACK goes home beside its flow. False: it has to go through a pipe.
    #[inline]
    pub(super) fn homes(&mut self, ack: Packet, way: &Way) -> bool {
        let Some(epochs) = &mut self.epochs else { return false };
        let Packet { seq, stamp, extra, flags, .. } = ack;
        epochs.homing.sends(Reply { seq, stamp, flags }, extra, self.now, way, epochs.cause);
        true
    }

    /// Packets that have landed and have not been received, for checks.
    pub(super) fn not_received(&self) -> u64 {
        let Some(epochs) = &self.epochs else { return 0 };
        epochs.gone.left.len() as u64 + epochs.ranges.iter().map(|(next, end)| u64::from(end - next)).sum::<u64>()
    }
}

impl Epochs {
    /// Lists the flows that have something to do before `limit`. Gives when the first of the others has.
    fn choose(&mut self, limit: Time) -> Time {
        self.visits.clear();
        let mut earliest = Time::MAX;
        for ((i, &due), (next, end)) in (0..).zip(&self.dues).zip(&self.ranges) {
            if due < limit || next < end {
                self.visits.push(i);
            } else {
                earliest = earliest.min(due);
            }
        }
        earliest
    }
}
