//! How what was sent in an epoch crosses the link (see [`super::epochs`]).

use super::Simulation;
use super::epochs::Epochs;
use crate::link::Span;
use crate::order::Turn;
use knee_core::cache::fetch;
use knee_core::{Packet, Time};
use knee_queue::{Coming, Key, Left};

/// Flows whose packets were dropped are fetched so many drops before their turn.
const AHEAD: usize = 8;

/// What was sent in an epoch.
#[derive(Default)]
pub(super) struct Sent {
    bursts: Vec<Coming>,
    /// When each was.
    turns: Vec<Turn>,
    packets: u64,
}

impl Sent {
    /// Adds `count` packets that differ by their segments only; the `first` says when they are sent, which is in the epoch
    /// that began `at`, and `turn` the order, among what is due at that time, of what they are sent for.
    #[inline]
    pub(super) fn push(&mut self, at: Time, first: Packet, count: u32, turn: u64) {
        self.turns.push((Key::new(first.enqueued - at, self.turns.len() as u32), turn));
        self.bursts.push(Coming::new(first, count));
        self.packets += u64::from(count);
    }

    fn clear(&mut self) {
        self.bursts.clear();
        self.turns.clear();
        self.packets = 0;
    }
}

impl Simulation {
    /// Step 3: what was sent crosses the link as far as there is time before `until`, or further where that is foreseen.
    pub(super) fn cross(&mut self, until: Time) {
        let last = self.last_before(until);
        let Some(epochs) = &mut self.epochs else { return };
        let Epochs { link, at, sent, order, gone, foresees, .. } = &mut **epochs;
        let order = order.sort(&sent.turns, until - *at);
        let span = Span { from: *at, until: last, foresees: *foresees };
        let link = &mut self.links[*link as usize];
        link.counters.arrived += sent.packets;
        link.cross(&sent.bursts, order, &span, gone);
        sent.clear();
        self.book_news();
    }

    /// What leaves at the very end is no longer part of the run.
    pub(super) fn last_before(&self, until: Time) -> Time {
        if until == self.end { until - Time::from_nanos(1) } else { until }
    }

    /// Until when it is known `at` the beginning of an epoch what leaves the link; where that is foreseen, no later than
    /// `most`.
    pub(super) fn foresee(&mut self, at: Time, most: Time) -> Time {
        let Some(epochs) = &mut self.epochs else { return at };
        if !epochs.foresees {
            return at;
        }
        let link = &mut self.links[epochs.link as usize];
        if link.in_service().is_none() {
            return at.min(most);
        }
        link.cross(&[], &[], &Span { from: at, until: at, foresees: true }, &mut epochs.gone);
        // What comes from now on leaves after all others.
        (link.due - Time::from_nanos(1)).min(most)
    }

    /// Puts the link where it is now, if it is further, with its figures.
    pub(super) fn recall(&mut self) {
        let Some(at) = self.epochs.as_ref().map(|epochs| epochs.at) else { return };
        let last = self.last_before(at);
        if let Some(epochs) = &mut self.epochs
            && epochs.foresees
        {
            self.links[epochs.link as usize].recall(last, &mut epochs.gone);
        }
        self.book_departures(at);
    }

    /// Books what has left the link up to `until`; gives how many packets that are of those not yet distributed.
    pub(super) fn book_departures(&mut self, until: Time) -> usize {
        let last = self.last_before(until);
        let Some(epochs) = &mut self.epochs else { return 0 };
        let Epochs { link, gone, booked, .. } = &mut **epochs;
        let count = gone.left.partition_point(|left| left.packet.enqueued <= last);
        if let Some(left) = gone.left.get(*booked..count) {
            self.links[*link as usize].book(left);
            *booked = count;
        }
        count
    }

    /// Puts what has left the link up to `until` beside its flows, which have received all that came before. Gives how many
    /// packets that is.
    pub(super) fn distribute(&mut self, until: Time) -> usize {
        let count = self.book_departures(until);
        if let Some(epochs) = &mut self.epochs {
            epochs.distribute(count);
        }
        count
    }

    /// Books what the queue has dropped or noted in this epoch.
    #[inline(never)]
    fn book_news(&mut self) {
        let Some(epochs) = &mut self.epochs else { return };
        let i = epochs.link;
        let mut dropped = std::mem::take(&mut epochs.gone.dropped);
        let mut notes = std::mem::take(&mut self.links[i as usize].cx.notes).into_iter().peekable();
        for (k, packet) in dropped.iter().enumerate() {
            if let Some(later) = dropped.get(k + AHEAD) {
                fetch(&self.flows[later.flow as usize].dropped);
            }
            while let Some(note) = notes.next_if(|note| note.at < packet.enqueued) {
                self.now = note.at;
                self.record(note.flow, Some(i), note.event, note.value);
            }
            self.now = packet.enqueued;
            self.book_drop(i, packet);
        }
        for note in notes {
            self.now = note.at;
            self.record(note.flow, Some(i), note.event, note.value);
        }
        dropped.clear();
        if let Some(epochs) = &mut self.epochs {
            epochs.gone.dropped = dropped;
        }
    }
}

impl Epochs {
    /// Puts the first `count` packets of those that left the link, which lie in the order of time, beside their flows.
    #[inline(never)]
    fn distribute(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let left = &self.gone.left[..count];
        for Left { packet, .. } in left {
            self.ranges[packet.flow as usize].1 += 1;
        }
        // The ranges hold how many came; each is filled from its beginning.
        let mut from = 0;
        for (next, end) in &mut self.ranges {
            let count = *end - *next;
            (*next, *end) = (from, from);
            from += count;
        }
        if self.arrivals.len() < count {
            self.arrivals.resize(count, Packet::default());
        }
        for Left { packet, .. } in left {
            let end = &mut self.ranges[packet.flow as usize].1;
            self.arrivals[*end as usize] = *packet;
            *end += 1;
        }
        self.gone.left.drain(..count);
        self.booked -= count;
    }
}
