//! How what was sent in an epoch crosses the link (see [`super::epochs`]).

use super::Simulation;
use super::epochs::Epochs;
use crate::link::Span;
use knee_core::cache::fetch;
use knee_core::{Packet, Time};
use knee_queue::{Burst, Left};

/// Flows whose packets were dropped are fetched so many drops before their turn.
const AHEAD: usize = 8;

/// What was sent in an epoch.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) bursts: Vec<Burst>,
    /// The order of each, among what is due at its time, of what it was sent for.
    pub(super) turns: Vec<u64>,
}

impl Sent {
    /// Adds `count` packets that differ by their segments only; the `first` says when they are sent.
    #[inline]
    pub(super) fn push(&mut self, first: Packet, count: u32, turn: u64) {
        self.bursts.push(Burst { first, count });
        self.turns.push(turn);
    }
}

impl Simulation {
    /// Step 2: what was sent before `until` crosses the link as far as there is time, or further, where nothing concerns
    /// the whole run before `ahead` and nothing can change it.
    pub(super) fn cross(&mut self, until: Time, ahead: Time) {
        let (last, ahead) = (self.last_before(until), self.last_before(ahead));
        let Some(epochs) = &mut self.epochs else { return };
        let Epochs { link, at, sent, order, gone, foresees, .. } = &mut **epochs;
        let order = order.sort(&sent.bursts, &sent.turns, *at, until);
        let span = Span { from: *at, until: last, ahead: if *foresees { ahead } else { last } };
        self.links[*link as usize].cross(&sent.bursts, order, &span, gone);
        sent.bursts.clear();
        sent.turns.clear();
        self.book_news();
    }

    /// What leaves at the very end is no longer part of the run.
    fn last_before(&self, until: Time) -> Time {
        if until == self.end { until - Time::from_nanos(1) } else { until }
    }

    /// Puts beside their flows all packets that leave the link up to some time, or those that surely do up to `ahead`,
    /// before which nothing concerns the whole run. Gives that time, which is `at` at the least.
    pub(super) fn look_ahead(&mut self, at: Time, ahead: Time) -> Time {
        let last = self.last_before(ahead);
        let Some(epochs) = &mut self.epochs else { return at };
        let link = &mut self.links[epochs.link as usize];
        let mut known = at;
        if epochs.foresees && link.in_service().is_some() {
            link.cross(&[], &[], &Span { from: at, until: at, ahead: last }, &mut epochs.gone);
            // What comes from now on leaves after the packet that is on the wire then.
            known = (link.due - Time::from_nanos(1)).min(last).max(at);
        }
        epochs.distribute();
        known
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
    /// Puts what has left the link, in the order of time, beside its flows, which have received all that came before.
    #[inline(never)]
    pub(super) fn distribute(&mut self) {
        if self.gone.left.is_empty() {
            return;
        }
        for Left { packet, .. } in &self.gone.left {
            self.ranges[packet.flow as usize].1 += 1;
        }
        // The ranges hold how many came; each is filled from its beginning.
        let mut from = 0;
        for (next, end) in &mut self.ranges {
            let count = *end - *next;
            (*next, *end) = (from, from);
            from += count;
        }
        self.arrivals.resize(self.gone.left.len(), Packet::default());
        for Left { packet, stay } in self.gone.left.drain(..) {
            let end = &mut self.ranges[packet.flow as usize].1;
            self.arrivals[*end as usize] = Packet { extra: Packet::queued_units(stay), ..packet };
            *end += 1;
        }
    }
}
