//! Applications in the batch scheduler.
//!
//! An application with independent connections gives a connection all its data as it opens, and hears of it again when
//! the data are acknowledged. So connections are visited like flows, and the news for applications waits meanwhile
//! ([`DueActions`]). When all flows have come to the end of the batch, applications get the news and their timers in
//! the order of time. Connections that they open come to the end of the batch, too, before links are gone through.

use super::visits::BatchOutbox;
use super::{BatchScheduler, BetweenVisits};
use crate::simulation::apps::{Action, Apps};
use crate::simulation::model::Model;
use knee_core::Time;
use knee_net::events::Event;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Actions for applications in the order in which they are due: by time, by tie-break key, then first come, first
/// served.
#[derive(Clone, Default)]
pub(super) struct DueActions {
    order: BinaryHeap<Reverse<(Time, u64, u64, usize)>>,
    /// By the last number in `order`, with their flows.
    actions: Slab<(u32, Action)>,
    added: u64,
}

impl DueActions {
    fn add(&mut self, at: Time, tie_break: u64, flow: u32, action: Action) {
        self.added += 1;
        self.order.push(Reverse((at, tie_break, self.added, self.actions.insert((flow, action)))));
    }

    /// When the next one is due; `Time::MAX`: there is none.
    pub(super) fn next(&self) -> Time {
        self.order.peek().map_or(Time::MAX, |Reverse((at, ..))| *at)
    }

    /// Takes the next one, with its time, tie-break key and flow, if it is due before `limit`.
    fn take(&mut self, limit: Time) -> Option<(Time, u64, u32, Action)> {
        if self.next() >= limit {
            return None;
        }
        let Reverse((at, tie_break, _, key)) = self.order.pop()?;
        let (flow, action) = self.actions.remove(key);
        Some((at, tie_break, flow, action))
    }

    /// Queues the actions just asked for, with this key.
    #[inline]
    pub(super) fn take_from(&mut self, apps: &mut Apps, now: Time, tie_break: u64) {
        while let Some((flow, action)) = apps.next_action() {
            self.add(now, tie_break, flow, action);
        }
    }
}

impl BatchScheduler {
    /// Flow `i`, which runs an application, starts at its time.
    pub(super) fn add_start(&mut self, i: u32, at: Time) {
        self.outbox.due.add(at, Event::Start(i).key(), i, Action::Start);
    }

    /// Tells applications what is due before `limit`, and does what they ask for; connections that they open come that
    /// far.
    pub(super) fn serve_applications(&mut self, model: &mut Model, limit: Time) {
        while let Some((at, tie_break, flow, action)) = self.outbox.due.take(limit) {
            model.now = at;
            if matches!(action, Action::Start) {
                model.begin_flow(flow);
            }
            model.apps.act(flow, action);
            self.carry_out(model, tie_break, limit);
        }
    }

    /// Does what applications ask for now, by an event of this key.
    pub(super) fn carry_out(&mut self, model: &mut Model, tie_break: u64, limit: Time) {
        while let Some((flow, action)) = model.apps.next_action() {
            if let Action::WakeAt(at) = action {
                self.outbox.due.add(at.max(model.now), Event::Wake(flow).key(), flow, Action::Wake);
                continue;
            }
            if let Some((half, _)) = model.carry_out(flow, action, tie_break, &mut self.outbox) {
                self.pending.resize(model.hosts.len() as usize, BetweenVisits::NOTHING);
                self.visit(model, half, None, Some(limit));
            }
        }
    }

    /// Counts what `i`, whose visit ends, has sent and what has left the network meanwhile, if it carries a connection.
    pub(super) fn count_packets(&mut self, model: &mut Model, i: u32) {
        let BatchOutbox { sent, received, moved_at, ref acks, .. } = self.outbox;
        if model.apps.carries(i) {
            let more = acks.more() + sent.cast_signed() - received.cast_signed();
            model.apps.add_packets(i, more, moved_at);
            model.apps.release_if_idle(i, &mut model.hosts);
        }
    }

    /// ACKs of connections in flight, where `flows` of the paths carry none.
    pub(super) fn acks_of_connections(&self, flows: u32) -> u64 {
        self.pending[flows as usize..].iter().map(|pending| pending.acks.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// They come by time, then by key, then in the order in which they were added, whatever was taken between.
        #[test]
        fn actions_come_by_time_and_key_and_then_as_they_were_added(
            steps in prop::collection::vec(prop::option::weighted(0.7, (0u64..4, 0u64..3)), 1..100)
        ) {
            let (mut due, mut waiting) = (DueActions::default(), Vec::new());
            for (number, step) in (0..).zip(steps) {
                if let Some((at, key)) = step {
                    due.add(Time::from_nanos(at), key, number, Action::Wake);
                    waiting.push((Time::from_nanos(at), key, number));
                    continue;
                }
                let first = waiting.iter().copied().min();
                prop_assert_eq!(due.next(), first.map_or(Time::MAX, |(at, ..)| at));
                prop_assert!(due.take(due.next()).is_none(), "none is due before the first");
                prop_assert_eq!(due.take(Time::MAX).map(|(at, key, number, _)| (at, key, number)), first);
                waiting.retain(|&each| Some(each) != first);
            }
        }
    }
}
