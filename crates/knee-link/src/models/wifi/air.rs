//! The air of a Wi-Fi channel: who may send when, by DCF's rules (IEEE 802.11-2020, 10.3.4 and 10.23.2).
//!
//! Time runs in slots from when the channel has been idle for SIFS. A station waits for its AIFS, a number of these,
//! and then for a number drawn from a window that doubles with each failure. Two that send at one slot collide, and the
//! channel is busy for the longer frame. The others keep what is left of their backoff for the next idle period.
//!
//! Directions of links are stations, asked by their links; contenders are stations that always have a frame to send,
//! all of one length. Their frames are worked out when a direction asks: nothing happens in between that it would not
//! know of.

use knee_core::{Rng, Time};
use std::sync::{Arc, Mutex, PoisonError};

/// How far ahead it is worked out what contenders do.
const AHEAD: Time = Time::from_secs(1);

/// Slots that count as idle before a simulation starts: as many as the longest AIFS has.
const IDLE_BEFORE: u64 = 15;

/// Intervals of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Length of a slot.
    pub(super) slot: Time,
    /// Idle time before slots count.
    pub(super) sifs: Time,
    /// Duration of a contender's frame and its acknowledgement.
    pub(super) contender: Time,
}

/// The rules by which a station contends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contention {
    /// Slots of idle channel before backoff counts.
    pub(super) aifsn: u64,
    /// The least window, a number of slots less one.
    pub(super) cw_min: u64,
    /// The greatest.
    pub(super) cw_max: u64,
}

/// A station.
#[derive(Clone, Copy)]
struct Station {
    contention: Contention,
    /// Slot at which it sends; for one with nothing to send, the end of the backoff after its last frame.
    counter: Option<u64>,
    /// Failures in a row.
    failures: u32,
    /// True if it has something to send.
    active: bool,
    /// True from when another began to send at its slot until it sends itself, which is at the same time.
    collides: bool,
    /// The device that it is a category of: these do not collide, the first of them sends (10.23.2.4).
    device: usize,
}

impl Station {
    const fn new(contention: Contention, active: bool, device: usize) -> Self {
        Self { contention, counter: None, failures: 0, active, collides: false, device }
    }
}

/// Outcome of a station's attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Somebody else was first: ask again then.
    Later(Time),
    /// It sends now; whether somebody else does so too.
    Now { collides: bool },
}

/// A channel and the stations on it: directions first, contenders behind.
#[derive(Clone)]
pub(super) struct Air {
    rules: Rules,
    rng: Rng,
    /// When slots begin to count, SIFS after the channel was busy last; and the number of the first of them.
    base: Time,
    first_slot: u64,
    stations: Vec<Station>,
    directions: usize,
    devices: usize,
}

/// Air that directions of links share. Clones share it too; a [`SharedAir::copied`] one is another.
#[derive(Clone)]
pub struct SharedAir(Arc<Mutex<Air>>);

impl SharedAir {
    pub(super) fn new(air: Air) -> Self {
        Self(Arc::new(Mutex::new(air)))
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A copy of this air, the same for all that ask with the same `copies`: pairs of an air and its copy.
    pub(super) fn copied(&self, copies: &mut Vec<(Self, Self)>) -> Self {
        if let Some((_, copy)) = copies.iter().find(|(original, _)| original.is(self)) {
            return copy.clone();
        }
        let copy = self.with(|air| Self::new(air.clone()));
        copies.push((self.clone(), copy.clone()));
        copy
    }

    /// Does something with the air. Only one thread ever uses a simulation's air at a time.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Air) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Air {
    /// A channel with `contenders` of them.
    pub(super) fn new(rules: Rules, contenders: u64, contention: Contention, rng: Rng) -> Self {
        let (base, first_slot) = (Time::ZERO, IDLE_BEFORE);
        let mut air = Self { rules, rng, base, first_slot, stations: Vec::new(), directions: 0, devices: 0 };
        for _ in 0..contenders {
            let backoff = air.draw(&contention, 0);
            let station = Station::new(contention, true, usize::MAX);
            air.stations.push(Station { counter: Some(IDLE_BEFORE + backoff), ..station });
        }
        air
    }

    /// Another device comes to the channel, with a station for each of its categories, the most important first. Gives
    /// the place of the first.
    pub(super) fn join(&mut self, categories: &[Contention]) -> usize {
        let first = self.directions;
        for contention in categories {
            self.stations.insert(self.directions, Station::new(*contention, false, self.devices));
            self.directions += 1;
        }
        self.devices += 1;
        first
    }

    /// Station `who` has something to send from `now` on. Gives the earliest time at which it does.
    pub(super) fn contend(&mut self, who: usize, now: Time) -> Time {
        self.settle(now);
        let Station { contention, counter, failures, .. } = self.stations[who];
        let since = now.saturating_sub(self.base).as_nanos().div_ceil(self.rules.slot.as_nanos());
        let next = (self.first_slot + since).max(contention.aifsn);
        let counter = match counter {
            Some(counter) => counter.max(next),
            // Its last backoff is over. On a channel that was idle for AIFS it sends at once.
            None if now < self.time_of(Some(contention.aifsn)) => contention.aifsn + self.draw(&contention, failures),
            None => next,
        };
        (self.stations[who].counter, self.stations[who].active) = (Some(counter), true);
        if self.directions == 1 {
            // Nobody else can come in between. Where contenders hardly ever let it send, it asks again.
            self.settle(now.saturating_add(AHEAD));
        }
        self.time_of(self.stations[who].counter)
    }

    /// It is the time that station `who` was given.
    pub(super) fn claim(&mut self, who: usize, now: Time) -> Attempt {
        self.settle(now);
        let Station { counter, active, collides, device, .. } = self.stations[who];
        if collides {
            return Attempt::Now { collides };
        }
        let at = self.time_of(counter);
        if at > now {
            return Attempt::Later(at);
        }
        debug_assert!(active && at == now);
        let other = |station: &Station| station.active && station.counter == counter && station.device != device;
        Attempt::Now { collides: self.stations.iter().any(other) }
    }

    /// The channel is busy from `now` to `until` with what `who` sends, alone or not; whether it was `received`.
    pub(super) fn occupy(&mut self, who: usize, until: Time, received: bool) {
        let Station { counter: Some(slot), collides, .. } = self.stations[who] else { return };
        (self.stations[who].active, self.stations[who].collides) = (false, false);
        if collides {
            // The first that sent at this slot has let the others count.
            self.finish(who, received);
            self.base = self.base.max(until + self.rules.sifs);
            return;
        }
        let at = |station: &Station| station.active && station.counter == Some(slot);
        let with_contender = self.stations[self.directions..].iter().any(at);
        let until = if with_contender { until.max(self.time_of(Some(slot)) + self.rules.contender) } else { until };
        let mine = self.stations[who].device;
        let mut sends = mine;
        for i in 0..self.stations.len() {
            let station = &mut self.stations[i];
            if i == who {
                self.finish(i, received);
            } else if i < self.directions && at(station) && station.device != mine && station.device != sends {
                (station.collides, sends) = (true, station.device);
            } else {
                // Also a category whose device sends another at this slot: an internal collision.
                self.pass(i, slot, false);
            }
        }
        self.restart(until);
    }

    /// Nothing of station `who` is left to send.
    pub(super) fn withdraw(&mut self, who: usize) {
        let station = &mut self.stations[who];
        station.active = false;
        if std::mem::take(&mut station.collides) {
            station.counter = None;
        }
    }

    /// Lets contenders send what they begin to send before `now`, and before any direction does.
    fn settle(&mut self, now: Time) {
        loop {
            let (directions, contenders) = self.stations.split_at(self.directions);
            let first = |stations: &[Station]| {
                let counters = stations.iter().filter(|station| station.active).filter_map(|station| station.counter);
                counters.min().unwrap_or(u64::MAX)
            };
            let slot = first(contenders);
            if slot >= first(directions) || slot == u64::MAX || self.time_of(Some(slot)) >= now {
                return;
            }
            let senders = contenders.iter().filter(|station| station.counter == Some(slot)).count();
            let until = self.time_of(Some(slot)) + self.rules.contender;
            for i in 0..self.stations.len() {
                self.pass(i, slot, senders == 1);
            }
            self.restart(until);
        }
    }

    /// Slots count anew SIFS after `until`.
    fn restart(&mut self, until: Time) {
        (self.base, self.first_slot) = (until + self.rules.sifs, 0);
    }

    /// Others sent at `slot`: a station counts from there, or was among them.
    fn pass(&mut self, i: usize, slot: u64, received: bool) {
        let Station { counter, active, contention, .. } = self.stations[i];
        match counter {
            Some(counter) if active && counter == slot => self.finish(i, received),
            Some(counter) if counter > slot => {
                self.stations[i].counter = Some(counter - slot.saturating_sub(contention.aifsn));
            }
            _ => self.stations[i].counter = None,
        }
    }

    /// A station has sent, and draws its next backoff.
    fn finish(&mut self, i: usize, received: bool) {
        let Station { contention, failures, .. } = self.stations[i];
        let failures = if received { 0 } else { failures + 1 };
        self.stations[i].failures = failures;
        self.stations[i].counter = Some(contention.aifsn + self.draw(&contention, failures));
    }

    fn draw(&mut self, contention: &Contention, failures: u32) -> u64 {
        let Contention { cw_min, cw_max, .. } = contention;
        let window = ((cw_min + 1) << failures.min(16)).min(cw_max + 1);
        self.rng.below(window)
    }

    /// When a slot begins; the far future for none.
    fn time_of(&self, slot: Option<u64>) -> Time {
        let wait = |slot: u64| self.rules.slot * slot.saturating_sub(self.first_slot);
        slot.map_or(Time::MAX, |slot| self.base.saturating_add(wait(slot)))
    }
}
