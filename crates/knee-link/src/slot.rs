//! Slots in which packets are let go together, as `slot` of Linux's netem has it (tc-netem(8)): a medium that sends in
//! bursts, such as a shared radio or a cable modem.
//!
//! A packet that could leave at `t`, after the slot before has begun, has the next slot begin `min` to `max` later. All
//! that come until then leave with it, up to `packets` and `bytes`; those behind wait for the slot after that, which
//! begins `min` to `max` after this one. (Linux net/sched/sch_netem.c, `get_slot_next` and `netem_dequeue`.)

use knee_core::{Rng, Time};

/// Distances of slots, and what fits into one.
#[derive(Clone, Copy, Debug)]
pub struct Slotting {
    /// The least time to the next slot.
    pub min: Time,
    /// The greatest, at least that.
    pub max: Time,
    /// Packets of a slot at the most.
    pub packets: u64,
    /// Bytes of a slot, after which no more packets are in it.
    pub bytes: u64,
}

/// Slots of one direction of a link.
#[derive(Clone)]
pub struct Slots {
    slotting: Slotting,
    rng: Rng,
    /// When the slot begins that packets wait for, or the last one began.
    next: Time,
    /// Packets and bytes that may still go in it.
    packets: u64,
    bytes: u64,
}

impl Slots {
    /// The first slot begins `min` to `max` after the start.
    pub fn new(slotting: Slotting, rng: Rng) -> Self {
        let mut slots = Self { slotting, rng, next: Time::ZERO, packets: 0, bytes: 0 };
        slots.begin_after(Time::ZERO);
        slots
    }

    /// When a packet of `bytes` is let go that could leave at `at`. Calls are in the order of departures.
    pub fn release(&mut self, at: Time, bytes: u64) -> Time {
        if self.next < at {
            self.begin_after(at);
        }
        let release = self.next;
        (self.packets, self.bytes) = (self.packets - 1, self.bytes.saturating_sub(bytes));
        if self.packets == 0 || self.bytes == 0 {
            self.begin_after(release);
        }
        release
    }

    fn begin_after(&mut self, now: Time) {
        let Slotting { min, max, packets, bytes } = self.slotting;
        let more = self.rng.below((max - min).as_nanos() + 1);
        self.next = now + min + Time::from_nanos(more);
        (self.packets, self.bytes) = (packets.max(1), bytes.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_millis(1);

    fn slots(min: Time, max: Time, packets: u64, bytes: u64) -> Slots {
        Slots::new(Slotting { min, max, packets, bytes }, Rng::stream(1, "slot"))
    }

    #[test]
    fn packets_that_come_before_a_slot_leave_together_in_it() {
        let mut slots = slots(MS * 5, MS * 5, u64::MAX, u64::MAX);
        let each: Vec<Time> = [0, 1, 4, 5, 6, 11, 20].iter().map(|ms| slots.release(MS * *ms, 1514)).collect();
        // The slot at 5 ms; the packet at 6 ms begins one at 11, that at 20 one at 25.
        assert_eq!(each, [5, 5, 5, 5, 11, 11, 25].map(|ms| MS * ms));
    }

    #[test]
    fn a_full_slot_sends_the_rest_to_the_next_one() {
        let mut by_packets = slots(MS, MS, 2, u64::MAX);
        let each: Vec<Time> = (0..5).map(|_| by_packets.release(Time::ZERO, 1514)).collect();
        assert_eq!(each, [1, 1, 2, 2, 3].map(|ms| MS * ms));
        // The packet that exceeds the bytes is the last one in it.
        let mut by_bytes = slots(MS, MS, u64::MAX, 2000);
        let each: Vec<Time> = (0..5).map(|_| by_bytes.release(Time::ZERO, 1514)).collect();
        assert_eq!(each, [1, 1, 2, 2, 3].map(|ms| MS * ms));
    }

    #[test]
    fn the_least_and_the_greatest_distance_both_occur() {
        let max = MS + Time::from_nanos(1);
        let (mut slots, mut before, mut gaps) = (slots(MS, max, 1, u64::MAX), Time::ZERO, Vec::new());
        for _ in 0..100 {
            let now = slots.release(before, 1514);
            gaps.push(now - before);
            before = now;
        }
        assert!(gaps.contains(&MS) && gaps.contains(&max), "{gaps:?}");
    }

    #[test]
    fn slots_are_as_far_apart_as_said_and_on_average_half_way_between() {
        let mut slots = slots(MS, MS * 3, 1, u64::MAX);
        let mut before = Time::ZERO;
        let mut gaps = Vec::new();
        for _ in 0..10_000 {
            let now = slots.release(before, 1514);
            gaps.push(now - before);
            before = now;
        }
        assert!(gaps.iter().all(|gap| (MS..=MS * 3).contains(gap)));
        let mean = before / 10_000;
        assert!(mean > Time::from_micros(1970) && mean < Time::from_micros(2030), "{mean}");
    }
}
