//! Visits of flows: what one does in a batch.

use super::outbox::BatchOutbox;
use crate::simulation::ack_path::Parked;
use crate::simulation::apps::Apps;
use crate::simulation::hosts::{At, End, Visited};
use crate::simulation::landings::Landed;
use crate::simulation::stages::{Stages, landed_before};
use knee_core::Time;
use knee_core::cache::{fetch, fetch_first};
use knee_core::convert::index_u32;
use knee_net::network::FlowPath;
use knee_net::observe::{FlowRecord, Interval};
use knee_tcp::ends::TcpEnds;

/// Prefetch distance in flows: of their own state, and of the data behind its pointers.
const FLOWS_AHEAD: (usize, usize) = (3, 1);

/// Visits flows whose paths have numbers in a row.
pub(super) struct Visitor<'a, H> {
    pub(super) hosts: &'a mut H,
    /// The number of the first path.
    pub(super) first: u32,
    /// All paths.
    pub(super) paths: &'a [FlowPath],
    pub(super) stages: &'a Stages,
    pub(super) landed: Landed<'a>,
    /// ACKs in flight, by flow.
    pub(super) parked: &'a mut [Parked],
    /// When each flow has something to do.
    pub(super) dues: &'a mut [Time],
    pub(super) outbox: &'a mut BatchOutbox,
    /// The interval that ends with this batch's beginning, if one does, and the records of the flows.
    pub(super) sample: Option<(Interval, &'a mut [FlowRecord])>,
    /// Applications, where there are any.
    pub(super) apps: Option<&'a mut Apps>,
}

impl<H: Visited> Visitor<'_, H> {
    /// Lets receivers come to the beginning of the batch, `at`, and senders to `limit`.
    pub(super) fn visit_all(&mut self, visits: &[u32], prefetches: bool, at: Time, limit: Time) {
        for (k, &i) in visits.iter().enumerate() {
            if prefetches {
                self.fetch_ahead(&visits[k..]);
            }
            self.enter(i);
            self.run_receiver(i, at);
            self.sample(i, at);
            self.run_sender(i, limit);
            self.leave(i);
        }
    }

    /// Its place in the row.
    const fn place(&self, i: u32) -> usize {
        (i - self.first) as usize
    }

    /// Fetches what the flows behind the first of `visits` will need.
    #[inline]
    fn fetch_ahead(&self, visits: &[u32]) {
        if let Some(&i) = visits.get(FLOWS_AHEAD.0) {
            let (tcp, flow) = self.hosts.look(i);
            if self.sample.is_some() {
                fetch(&tcp.sender);
                fetch(flow);
            } else {
                tcp.sender.fetch();
                fetch_first(flow, 1);
            }
            fetch(&tcp.receiver);
            fetch(&self.paths[i as usize]);
            fetch_first(&self.parked[self.place(i)], 1);
        }
        if let Some(&i) = visits.get(FLOWS_AHEAD.1) {
            let (TcpEnds { sender, receiver }, flow) = self.hosts.look(i);
            sender.fetch_behind();
            receiver.fetch_behind();
            flow.rtt_histogram.fetch_counts();
            let acks = self.parked[self.place(i)].acks.as_slice();
            fetch_first(acks, size_of_val(acks).min(1024));
        }
    }

    /// A visit begins.
    #[inline]
    pub(super) fn enter(&mut self, i: u32) {
        self.outbox.take_path(&self.paths[i as usize], self.stages);
        let k = self.place(i);
        self.outbox.acks.enter(&mut self.parked[k]);
    }

    /// A visit ends: notes when the flow has something to do.
    #[inline]
    pub(super) fn leave(&mut self, i: u32) {
        let (TcpEnds { sender, receiver }, _) = self.hosts.look(i);
        let due = self.outbox.acks.next_arrival().min(sender.due()).min(receiver.due());
        let k = self.place(i);
        self.dues[k] = due;
        self.outbox.acks.leave(&mut self.parked[k]);
        (self.outbox.sent, self.outbox.landed, self.outbox.moved_at) = (0, 0, Time::ZERO);
    }

    /// The receiver takes what has landed up to `at`, and its timers before.
    #[inline]
    pub(super) fn run_receiver(&mut self, i: u32, at: Time) {
        let k = self.place(i);
        let (path, mut host, outbox) = (&self.paths[i as usize], self.hosts.tcp(i), &mut *self.outbox);
        let (landed, places) = self.landed.take(k, landed_before(at, outbox.landing));
        if let Some(last) = landed.last() {
            outbox.landed += index_u32(landed.len());
            outbox.moved_at = outbox.moved_at.max(last.at);
        }
        for (k, packet) in landed.iter().enumerate() {
            let lands = packet.at;
            while host.ends.receiver.due() < lands {
                outbox.fire(&mut host, End::Receiver, path, lands);
            }
            outbox.index = places.get(k).copied().unwrap_or(i);
            host.on_data(packet, At { now: lands, path }, outbox);
        }
        while host.ends.receiver.due() < at {
            outbox.fire(&mut host, End::Receiver, path, at);
        }
    }

    /// Takes the flow's sample, if an interval ends now and the flow has started.
    #[inline]
    fn sample(&mut self, i: u32, now: Time) {
        let k = self.place(i);
        let Some((interval, records)) = &mut self.sample else { return };
        let record = &mut records[k];
        if record.start() < now {
            let (counts, sender, rtts) = self.hosts.tcp(i).observe(now);
            self.outbox.samples.push(record.row(i, *interval, &counts, &rtts).with_sender(&sender));
        }
    }

    /// The sender takes its ACKs and timers before `until`.
    #[inline]
    pub(super) fn run_sender(&mut self, i: u32, until: Time) {
        let (path, mut host, outbox) = (&self.paths[i as usize], self.hosts.tcp(i), &mut *self.outbox);
        loop {
            let limit = outbox.acks.next_arrival().min(until);
            while host.ends.sender.due() < limit {
                outbox.fire(&mut host, End::Sender, path, limit);
            }
            let Some(returning) = outbox.acks.next(until) else { return };
            outbox.tie_break = returning.tie_break();
            host.on_ack(returning.ack(), returning.at, outbox);
            if let Some(apps) = self.apps.as_deref_mut().filter(|apps| apps.has(i)) {
                outbox.moved_at = returning.at;
                apps.after_ack(i, &host.ends.sender, host.handshake());
                outbox.due.take_from(apps, returning.at, outbox.tie_break);
            }
        }
    }
}
