//! How what was sent in an epoch crosses the link (see [`super::epochs`]).

use super::Simulation;
use super::epochs::Epochs;
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
    /// Step 2: what was sent crosses the link as far as there is time before `until`.
    pub(super) fn cross(&mut self, until: Time) {
        let Some(epochs) = &mut self.epochs else { return };
        let Epochs { link, at, sent, order, gone, .. } = &mut **epochs;
        // What leaves at the very end is no longer part of the run.
        let last = if until == self.end { until - Time::from_nanos(1) } else { until };
        let order = order.sort(&sent.bursts, &sent.turns, *at, until);
        self.links[*link as usize].cross(&sent.bursts, order, (*at, last), gone);
        sent.bursts.clear();
        sent.turns.clear();
        self.book_news();
        if let Some(epochs) = &mut self.epochs {
            epochs.distribute();
        }
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
    fn distribute(&mut self) {
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
        for Left { packet, .. } in &self.gone.left {
            let end = &mut self.ranges[packet.flow as usize].1;
            self.arrivals[*end as usize] = *packet;
            *end += 1;
        }
        self.gone.left.clear();
    }
}
