//! The link that all data crosses may be served late, and its packets in batches.
//!
//! What senders hand down is noted with its time; every so often all that came to the link and left it meanwhile is
//! gone through, in the order of the simulated times. Nobody notices: an ACK reaches its sender only a base RTT after
//! the link was done with the packet, a receiver's timer is due only later still, and whoever looks at a link or a
//! receiver has the link catch up first. So the code and the memory of one end at a time are at hand, not of both by
//! turns with each packet.

use super::{Simulation, Way};
use crate::events::Event;
use crate::link::{Link, Server};
use knee_core::{Packet, Time};
use std::collections::VecDeque;

/// How a link lags behind.
pub(super) struct Lag {
    /// Which link it is.
    link: u32,
    /// How far behind it may be.
    most: Time,
    /// What came to it meanwhile, by time.
    pub(super) arrivals: VecDeque<Arrival>,
    /// When its event is due; `Time::MAX`: nothing is there or comes.
    wakes: Time,
}

/// Packets that came to a link at once and differ by their segments only.
pub(super) struct Arrival {
    /// The first of them, with the time.
    first: Packet,
    /// How many.
    pub(super) count: u32,
    /// Whether they came together with those before.
    joins: bool,
}

impl Simulation {
    /// Lets the link lag behind where all data crosses one wire and nothing else, and that pays: not with many flows,
    /// where the time goes into fetching their state, nor where each packet leaves the queue for itself.
    pub(super) fn allow_lag(&mut self) {
        if self.fetches {
            return;
        }
        let [route] = self.routes.as_slice() else { return };
        let ([link], []) = (route.data.as_slice(), route.acks.as_slice()) else { return };
        let Link { pipe: None, server: Server::Wire(_), queue, .. } = &self.links[*link as usize] else { return };
        if !queue.gives_runs() {
            return;
        }
        self.lag = Some(Lag { link: *link, most: Time::ZERO, arrivals: VecDeque::new(), wakes: Time::MAX });
        self.limit_lag();
        if self.lag.as_ref().is_some_and(|lag| lag.most == Time::ZERO) {
            self.lag = None;
        }
    }

    /// Sets how far behind the link may be: less than the way of any ACK and than any timer of a receiver takes.
    pub(super) fn limit_lag(&mut self) {
        let Some(lag) = &mut self.lag else { return };
        let receiver = &self.receiver_config;
        let way = |way: &Way| way.ack_delay.min(receiver.compression(way.base_rtt).unwrap_or(Time::MAX));
        lag.most = self.ways.iter().map(way).min().unwrap_or(Time::ZERO).min(receiver.delayed_ack / 2);
        let wakes = self.now + lag.most;
        if wakes < lag.wakes && lag.wakes < Time::MAX {
            lag.wakes = wakes;
            self.events.push(wakes, Event::Link(lag.link));
        }
    }

    /// `count` packets that differ by their segments only come to a link, together with those that came just before
    /// where they join them.
    #[inline]
    pub(super) fn hand_down(&mut self, i: u32, first: Packet, count: u32, joins: bool) {
        let Some(lag) = &mut self.lag else { return self.admit(i, first, count) };
        lag.arrivals.push_back(Arrival { first, count, joins });
        let wakes = self.now + lag.most;
        if wakes < lag.wakes {
            lag.wakes = wakes;
            self.events.push(wakes, Event::Link(i));
        }
    }

    /// The event of a lagging link, which is the head of the heap.
    pub(super) fn on_lagging_link(&mut self) {
        if self.lag.as_ref().is_none_or(|lag| lag.wakes != self.now) {
            return self.events.pop();
        }
        self.catch_up();
        let Some(lag) = &mut self.lag else { return };
        let due = self.links[lag.link as usize].due;
        lag.wakes = due.saturating_add(lag.most);
        if due == Time::MAX { self.events.pop() } else { self.events.postpone(lag.wakes) }
    }

    /// Lets a link that lags behind catch up with the time that it is.
    pub(super) fn catch_up(&mut self) {
        let Some(lag) = &mut self.lag else { return };
        let (until, i) = (self.now, lag.link);
        let mut arrivals = std::mem::take(&mut lag.arrivals);
        for Arrival { first, count, joins } in arrivals.drain(..) {
            if !joins {
                self.serve_until(i, first.enqueued);
                self.now = first.enqueued;
            }
            self.admit(i, first, count);
        }
        self.serve_until(i, until);
        self.now = until;
        if let Some(lag) = &mut self.lag {
            lag.arrivals = arrivals;
        }
    }

    /// Packets leave a link up to `until`, and arrive.
    fn serve_until(&mut self, i: u32, until: Time) {
        while self.links[i as usize].due <= until {
            let now = self.links[i as usize].due;
            self.now = now;
            // None: it only waited for its queue to release a packet.
            if let Some((packet, since)) = self.links[i as usize].release() {
                self.deliver(i, &packet, 1, since, Some(now));
            }
            self.carry_on(i, now, until);
        }
    }

    /// The wire is free at `now` and takes what is next. All of it that leaves up to `until` arrives, but for the last
    /// packet of a run, which stays on the wire.
    #[inline]
    fn carry_on(&mut self, i: u32, now: Time, until: Time) {
        let link = &mut self.links[i as usize];
        let count = link.next_run(now, until);
        if link.has_news() {
            self.collect(i);
        }
        let since = match count {
            0 => return,
            1 => now,
            _ => self.deliver(i, &self.links[i as usize].taken(), count - 1, now, None),
        };
        self.links[i as usize].begin(count - 1, since);
    }

    /// `count` packets that differ by their segments only leave a wire back to back and arrive. The first entered it at
    /// `since` and leaves at `end`, where that is known already. Gives when the last one has left.
    #[inline]
    fn deliver(&mut self, i: u32, first: &Packet, count: u32, since: Time, end: Option<Time>) -> Time {
        if !self.receivers[first.flow as usize].is_plain(first, &self.receiver_config) {
            return self.deliver_each(i, first, count, since, end);
        }
        let way = self.ways[first.flow as usize];
        let link = &mut self.links[i as usize];
        let receiver = &mut self.receivers[first.flow as usize];
        let pipe = &mut self.pipes[way.ack_pipe as usize].0;
        let was_empty = pipe.len() == 0;
        let (mut since, mut end, mut acked, mut queued) = (since, end, true, 0);
        for _ in 0..count {
            let at = end.take().unwrap_or_else(|| since + link.time_for(first));
            queued += u64::from(link.book(first, since));
            acked = receiver.take_plain(first.stamp, at, &self.receiver_config);
            if acked {
                pipe.push(at + way.ack_delay, receiver.ack());
            }
            since = at;
        }
        receiver.count_plain(count, first.size, queued);
        if !acked {
            receiver.delay_ack(since);
            if receiver.needs_arming() {
                self.arm_receiver(first.flow);
            }
        }
        if was_empty && let Some(at) = self.pipes[way.ack_pipe as usize].0.next() {
            self.schedule_event(at, Event::Pipe(way.ack_pipe));
        }
        since
    }

    /// As [`Simulation::deliver`], where the receiver has to look at each packet.
    #[inline(never)]
    fn deliver_each(&mut self, i: u32, first: &Packet, count: u32, since: Time, end: Option<Time>) -> Time {
        let way = self.ways[first.flow as usize];
        let (mut since, mut end) = (since, end);
        for k in 0..u64::from(count) {
            let link = &mut self.links[i as usize];
            let at = end.take().unwrap_or_else(|| since + link.time_for(first));
            let packet = Packet { seq: first.seq + k, extra: link.book(first, since), ..*first };
            self.now = at;
            self.on_data(&packet, &way);
            since = at;
        }
        since
    }
}
