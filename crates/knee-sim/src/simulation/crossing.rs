//! How what was sent in an epoch crosses the link (see [`super::epochs`]).

use super::Simulation;
use super::epochs::{Epochs, Sent};
use knee_core::{Packet, Time};

impl Simulation {
    /// Step 2: what was sent crosses the link as far as there is time before `until`.
    pub(super) fn cross(&mut self, until: Time) {
        let Some(epochs) = &mut self.epochs else { return };
        let link = epochs.link;
        let (from, mut sent, mut order) =
            (epochs.at, std::mem::take(&mut epochs.sent), std::mem::take(&mut epochs.order));
        for k in order.sort(sent.iter().map(|sent| (sent.first.enqueued - from, sent.turn))) {
            let Sent { first, count, .. } = &sent[k as usize];
            self.serve_until(link, first.enqueued);
            self.now = first.enqueued;
            self.admit(link, *first, *count);
        }
        // What leaves at the very end is no longer part of the run.
        let last = if until == self.end { until - Time::from_nanos(1) } else { until };
        self.serve_until(link, last);
        sent.clear();
        if let Some(epochs) = &mut self.epochs {
            (epochs.sent, epochs.order) = (sent, order);
            epochs.distribute();
        }
    }

    /// Packets leave a link up to `until`.
    fn serve_until(&mut self, i: u32, until: Time) {
        while self.links[i as usize].due <= until {
            let now = self.links[i as usize].due;
            self.now = now;
            // None: it only waited for its queue to release a packet.
            if let Some((packet, since)) = self.links[i as usize].release() {
                self.land(i, &packet, 1, since, Some(now));
            }
            self.carry_on(i, now, until);
        }
    }

    /// The wire is free at `now` and takes what is next. All of it that leaves up to `until` lands, but for the last
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
            _ => self.land(i, &self.links[i as usize].taken(), count - 1, now, None),
        };
        self.links[i as usize].begin(count - 1, since);
    }

    /// `count` packets that differ by their segments only leave a wire back to back. The first entered it at `since` and
    /// leaves at `end`, where that is known already. Gives when the last one has left.
    #[inline]
    fn land(&mut self, i: u32, first: &Packet, count: u32, since: Time, end: Option<Time>) -> Time {
        let Some(epochs) = &mut self.epochs else { return since };
        let link = &mut self.links[i as usize];
        epochs.ranges[first.flow as usize].1 += count;
        let (mut since, mut end) = (since, end);
        for k in 0..u64::from(count) {
            let at = end.take().unwrap_or_else(|| since + link.time_for(first));
            let extra = link.book(first, since);
            epochs.landed.push(Packet { enqueued: at, seq: first.seq + k, extra, ..*first });
            since = at;
        }
        since
    }
}

impl Epochs {
    /// Puts what has landed, in the order of time, beside its flows, which have received all that came before.
    fn distribute(&mut self) {
        // The ranges hold how many came; each is filled from its beginning.
        let mut from = 0;
        for (next, end) in &mut self.ranges {
            let count = *end - *next;
            (*next, *end) = (from, from);
            from += count;
        }
        self.arrivals.resize(self.landed.len(), Packet::default());
        for packet in self.landed.drain(..) {
            let end = &mut self.ranges[packet.flow as usize].1;
            self.arrivals[*end as usize] = packet;
            *end += 1;
        }
    }
}
