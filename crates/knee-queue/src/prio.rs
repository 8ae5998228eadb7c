//! `prio`: three bands, of which a lower one is served only while those above it are empty.
//!
//! Linux chooses the band in two steps: the low three bits of the DSCP, which were part of the TOS field, give a
//! priority (ip_tos2prio), and that gives the band (the usual priomap):
//!
//! | low three bits of the DSCP | for example | priority | band |
//! |---|---|---|---|
//! | 0, 1 | CS0 to CS7, LE | best effort | 1 |
//! | 2, 3 | AF11, AF41 | bulk | 2 |
//! | 4, 5 | AF12, VA, NQB | interactive | 0 |
//! | 6, 7 | EF, AF13 | interactive bulk | 1 |
//!
//! So EF goes with best effort: on Linux, too, it needs a filter to go first, for which `first` stands here.
//!
//! Source: Linux net/sched/sch_prio.c, net/ipv4/route.c, TC_PRIO_* of linux/pkt_sched.h; RFC 1349 for the bits.
//!
//! Departures: one limit for all bands together, 1000 packets for each by default; beyond it the packet at the tail of
//! the lowest band goes that has one, and not only the one that came.

use crate::Entry;
use crate::bound::Bound;
use crate::fifo::Fifo;
use crate::{Backlog, Bursts, Context, Init, Limit, Queue, Resize, Verdict};
use knee_core::{Bytes, Packet, params};

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "prio",
    about: "three bands by DSCP, a lower one served only while those above it are empty",
    source: "Linux net/sched/sch_prio.c",
    params: Params::DECLARED,
    make: |params, init| Box::new(Prio::new(params.into(), init)),
};

params! {
    /// Parameters of `prio`.
    struct Params {
        /// least DSCP that goes to band 0, whatever Linux's table says; 64: none
        first: u8 = 64, in 1..=64, from "ours: a filter, as tc-prio(8) has them";
    }
}

/// Packets held where no limit is given: the queue length of a device for each band.
const DEFAULT_LIMIT: Limit = Limit::Packets(3000);
/// Bands by the low three bits of the DSCP.
const BANDS: [usize; 8] = [1, 1, 2, 2, 0, 0, 1, 1];

#[derive(Clone)]
struct Prio {
    bands: [Fifo; 3],
    first: u8,
    bound: Bound,
}

impl Prio {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            bands: [(); 3].map(|()| Fifo::new(init)),
            first: params.first,
            bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate),
        }
    }

    fn band(&self, dscp: u8) -> usize {
        if dscp >= self.first { 0 } else { BANDS[usize::from(dscp & 7)] }
    }

    /// Drops from the tail of the lowest band what is not within the limit.
    fn shrink(&mut self, cx: &mut Context) {
        while let Backlog { packets, bytes } = self.backlog()
            && !self.bound.holds(packets, bytes.0)
            && let Some(lowest) = self.bands.iter_mut().rfind(|band| !band.is_empty())
        {
            lowest.drop_tail(cx);
        }
    }
}

impl Queue for Prio {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let band = self.band(cx.dscp(&packet));
        let (before, dropped) = (self.bands[band].len(), cx.dropped.len());
        self.bands[band].push(packet);
        self.shrink(cx);
        let own = cx.dropped.len() > dropped && self.bands[band].len() <= before;
        if own { Verdict::Dropped } else { Verdict::Queued }
    }

    fn dequeue(&mut self, _: &mut Context) -> Option<Packet> {
        self.bands.iter_mut().find_map(Fifo::pop)
    }

    fn backlog(&self) -> Backlog {
        self.bands.iter().map(Fifo::backlog).fold(Backlog::default(), |sum, band| Backlog {
            packets: sum.packets + band.packets,
            bytes: Bytes(sum.bytes.0 + band.bytes.0),
        })
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        self.shrink(cx);
    }
}

impl Bursts for Prio {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FULL, init, params};
    use knee_core::Value;

    /// With a flow of each codepoint, numbered like it.
    fn queue(limit: Option<Limit>, given: &[(&str, Value)]) -> (Prio, Context) {
        let mut cx = Context::default();
        (0..64).for_each(|dscp| cx.codepoints.set(dscp, dscp as u8));
        (Prio::new(params(&ENTRY, given), &init(&ENTRY, limit, 10)), cx)
    }

    fn enqueue(q: &mut Prio, dscp: u32, cx: &mut Context) -> Verdict {
        q.enqueue(Packet { flow: dscp, ..FULL }, cx)
    }

    #[test]
    fn the_band_is_that_of_linuxs_two_tables() {
        // tc-prio(8): minimize delay (TOS 0x10, DSCP 4) is band 0, maximize throughput (0x08, DSCP 2) band 2.
        let (q, _) = queue(None, &[]);
        let bands = [0, 8, 4, 2, 46, 44, 45, 10, 34, 48].map(|dscp| q.band(dscp));
        assert_eq!(bands, [1, 1, 0, 2, 1, 0, 0, 2, 2, 1]);
        let (q, _) = queue(None, &[("first", Value::Count(40))]);
        assert_eq!([46, 40, 34].map(|dscp| q.band(dscp)), [0, 0, 2]);
    }

    #[test]
    fn a_band_is_served_while_those_above_are_empty() {
        let (mut q, mut cx) = queue(None, &[]);
        assert_eq!([2, 0, 4, 0, 4].map(|dscp| enqueue(&mut q, dscp, &mut cx)), [Verdict::Queued; 5]);
        let order: Vec<_> = std::iter::from_fn(|| q.dequeue(&mut cx)).map(|packet| packet.flow).collect();
        assert_eq!(order, [4, 4, 0, 0, 2]);
    }

    #[test]
    fn beyond_the_limit_the_lowest_band_gives_way() {
        let (mut q, mut cx) = queue(Some(Limit::Packets(2)), &[]);
        assert_eq!([0, 2, 4].map(|dscp| enqueue(&mut q, dscp, &mut cx)), [Verdict::Queued; 3]);
        assert_eq!([2, 0].map(|dscp| enqueue(&mut q, dscp, &mut cx)), [Verdict::Dropped; 2]);
        assert_eq!(cx.dropped.iter().map(|packet| packet.flow).collect::<Vec<_>>(), [2, 2, 0]);
        assert_eq!(q.backlog().packets, 2);
    }
}
