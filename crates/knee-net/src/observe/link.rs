//! Observes a link.

use super::{Histogram, Spread, since};
use crate::output::{LinkFigures, LinkRow};
use knee_core::Time;
use knee_core::convert::{nearest_f32, saturating_u32};
use knee_link::{Departure, Link, Load};
use knee_queue::Backlog;

/// Cumulative counts of a link at some moment.
#[derive(Clone, Copy, Default)]
pub struct LinkCounts {
    /// Bits that it has carried and could have carried.
    pub load: Load,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
}

impl LinkCounts {
    /// The counts of `link` up to `now`.
    pub fn of(link: &Link, now: Time) -> Self {
        Self { load: link.load(now), drops: link.counters().drops, marks: link.marks() }
    }

    /// Bits that left since `before` over those that could have: what was offered since, and what had been saved.
    pub fn utilization_since(&self, before: &Self) -> f64 {
        let (load, before) = (&self.load, &before.load);
        let offered = load.offered - before.offered + before.saved;
        let carried = load.carried.saturating_sub(before.carried);
        let carried = if carried <= offered + load.rounding { carried.min(offered) } else { carried };
        if offered == 0 { 0.0 } else { carried as f64 / offered as f64 }
    }
}

/// Observations of a link.
#[derive(Clone)]
pub struct LinkWatch {
    /// Queueing delays since the figures began.
    pub delay: Histogram,
    /// Queueing delays of the interval.
    pub interval: Spread,
    /// Queueing delays of the interval from before the figures began.
    pub before: Spread,
    /// Counts when the figures began; none before that.
    pub from: Option<LinkCounts>,
    /// Counts at the end of the last interval.
    pub last: LinkCounts,
    /// Drops not yet on record.
    pub dropping: Option<Drops>,
    /// ACKs dropped, and how many had been when the figures began.
    ack_drops: u64,
    ack_drops_from: u64,
}

/// Drops of a flow closer together than this are one event.
const DROP_GAP: Time = Time::from_millis(1);

/// Drops of one flow in a row.
#[derive(Clone, Copy)]
pub struct Drops {
    /// Index of the flow.
    pub flow: u32,
    /// When the first was.
    pub first: Time,
    /// When the last was.
    pub last: Time,
    /// How many.
    pub count: u32,
}

impl Default for LinkWatch {
    fn default() -> Self {
        let (interval, before) = (Spread::EMPTY, Spread::EMPTY);
        Self {
            delay: Histogram::new(10),
            interval,
            before,
            from: None,
            last: LinkCounts::default(),
            dropping: None,
            ack_drops: 0,
            ack_drops_from: 0,
        }
    }
}

impl LinkWatch {
    /// The watch of a link before anything has happened. A token bucket starts full.
    pub fn of(link: &Link) -> Self {
        let mut watch = Self::default();
        watch.last.load.saved = link.load(Time::ZERO).saved;
        watch
    }

    /// Books the queueing delays of packets that have left.
    #[inline]
    pub fn book(&mut self, departed: &[Departure]) {
        for departure in departed {
            self.interval.add(departure.sojourn);
        }
        if self.from.is_some() {
            for departure in departed {
                self.delay.count(departure.sojourn);
            }
        }
    }

    /// Notes a drop, perhaps of an ACK; gives those before it that it does not belong to.
    pub fn note_drop(&mut self, flow: u32, is_ack: bool, now: Time) -> Option<Drops> {
        self.ack_drops += u64::from(is_ack);
        match &mut self.dropping {
            Some(drops) if drops.flow == flow && now - drops.last <= DROP_GAP => {
                drops.last = now;
                drops.count += 1;
                None
            }
            _ => self.dropping.replace(Drops { flow, first: now, last: now, count: 1 }),
        }
    }

    /// Begins the figures, with these counts.
    pub fn begin(&mut self, counts: LinkCounts) {
        self.before = std::mem::take(&mut self.interval);
        self.from = Some(counts);
        self.ack_drops_from = self.ack_drops;
    }

    /// Ends an interval of the time series at `t_s`; its row for link `i`.
    pub fn row(&mut self, i: u32, t_s: f64, counts: LinkCounts, backlog: Backlog) -> LinkRow {
        let mut spread = std::mem::take(&mut self.interval);
        if self.from.is_some() {
            self.delay.fold(&spread);
        }
        spread.merge(&std::mem::take(&mut self.before));
        let (mean, _, max) = spread.mean_min_max_ms();
        let last = std::mem::replace(&mut self.last, counts);
        LinkRow {
            t_s,
            backlog_bytes: backlog.bytes.0,
            link: i,
            backlog_packets: saturating_u32(backlog.packets),
            queue_delay_mean_ms: mean,
            queue_delay_max_ms: max,
            drops: saturating_u32(since(counts.drops, last.drops)),
            marks: saturating_u32(since(counts.marks, last.marks)),
            utilization: nearest_f32(counts.utilization_since(&last)),
            reserved: 0,
        }
    }

    /// The figures until `end`.
    pub fn figures(&self, link: String, end: &LinkCounts) -> LinkFigures {
        let from = self.from.unwrap_or(*end);
        LinkFigures {
            link,
            utilization: end.utilization_since(&from),
            queue_delay_mean_ms: self.delay.mean_ms(),
            queue_delay_p95_ms: self.delay.quantile_ms(0.95),
            queue_delay_p99_ms: self.delay.quantile_ms(0.99),
            queue_delay_max_ms: self.delay.max_ms(),
            drops: since(end.drops, from.drops),
            ack_drops: since(self.ack_drops, if self.from.is_some() { self.ack_drops_from } else { self.ack_drops }),
            marks: since(end.marks, from.marks),
        }
    }
}
