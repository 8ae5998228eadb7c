//! Packets under way: the ones that a report acknowledges, and the lost ones.
//!
//! A packet is lost once a report has had a later one for the reordering window: 0 at first, and as long as the longest
//! time by which a packet that was held for lost came after all (as SCReAMv2 asks for, after RFC 8985).

use super::{Acked, Arrival};
use knee_core::Time;
use knee_core::convert::index;
use std::collections::VecDeque;

/// Lost packets are remembered for so long after the first report that lacked them.
const MEMORY: Time = Time::from_secs(2);

/// A packet that was sent.
#[derive(Clone)]
struct Sent {
    at: Time,
    bytes: u32,
    probe: u32,
    acked: bool,
    lost: bool,
    /// When a report first had a later one and not this one.
    missing: Option<Time>,
}

/// Packets sent and not forgotten.
#[derive(Clone, Default)]
pub(super) struct Flight {
    packets: VecDeque<Sent>,
    /// Number of the first of them.
    first: u64,
    /// The number after the highest one that arrived.
    expected: u64,
    /// Bytes of those from there on.
    bytes: u64,
    reordering: Time,
}

impl Flight {
    /// A packet leaves, of the probe of this number; 0: of none.
    pub(super) fn on_sent(&mut self, at: Time, bytes: u32, probe: u32) {
        self.packets.push_back(Sent { at, bytes, probe, acked: false, lost: false, missing: None });
        self.bytes += u64::from(bytes);
    }

    /// Bytes sent after the highest packet that arrived.
    pub(super) const fn in_flight(&self) -> u64 {
        self.bytes
    }

    /// Nothing is under way any more.
    pub(super) fn forget(&mut self) {
        self.first += self.packets.len() as u64;
        self.expected = self.first;
        self.packets.clear();
        self.bytes = 0;
    }

    /// Takes a report: what it acknowledges, the bytes up to the highest packet in it, and how many packets are found
    /// lost.
    pub(super) fn on_report(&mut self, arrivals: &[Arrival], now: Time) -> (Vec<Acked>, u64, u64) {
        let before = self.bytes;
        let mut acked = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            let place = arrival.number.checked_sub(self.first);
            let Some(sent) = place.and_then(|place| self.packets.get_mut(index(place))) else { continue };
            if let (true, Some(missing)) = (sent.lost, sent.missing) {
                self.reordering = self.reordering.max(now - missing);
            }
            sent.acked = true;
            acked.push(Acked {
                bytes: sent.bytes,
                sent: sent.at,
                arrived: arrival.at,
                ce: arrival.ce,
                probe: sent.probe,
            });
            while self.expected <= arrival.number {
                let passed = &self.packets[index(self.expected - self.first)];
                self.bytes -= u64::from(passed.bytes);
                self.expected += 1;
            }
        }
        let mut lost = 0;
        for sent in self.packets.range_mut(..index(self.expected - self.first)).filter(|sent| !sent.acked) {
            let missing = *sent.missing.get_or_insert(now);
            if !sent.lost && now - missing >= self.reordering {
                sent.lost = true;
                lost += 1;
            }
        }
        let over = |sent: &Sent| sent.acked || sent.missing.is_some_and(|missing| sent.lost && now - missing > MEMORY);
        while self.first < self.expected && self.packets.front().is_some_and(over) {
            self.packets.pop_front();
            self.first += 1;
        }
        (acked, before - self.bytes, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(flight: &mut Flight, numbers: &[u64], ms: u64) -> (usize, u64, u64) {
        let at = Time::from_millis(ms);
        let arrivals: Vec<Arrival> = numbers.iter().map(|&number| Arrival { number, at, ce: false }).collect();
        let (acked, bytes, lost) = flight.on_report(&arrivals, at);
        (acked.len(), bytes, lost)
    }

    #[test]
    fn bytes_count_up_to_the_highest_packet_and_what_lies_before_it_is_lost() {
        let mut flight = Flight::default();
        (0..6).for_each(|k| flight.on_sent(Time::from_millis(k), 100 + k as u32, 0));
        assert_eq!(report(&mut flight, &[0, 1, 3], 10), (3, 406, 1));
        assert_eq!(flight.in_flight(), 209);
        assert_eq!(report(&mut flight, &[4], 20), (1, 104, 0));
        flight.forget();
        assert_eq!((flight.in_flight(), report(&mut flight, &[5], 30)), (0, (0, 0, 0)));
    }

    #[test]
    fn a_packet_that_came_late_widens_the_reordering_window() {
        let mut flight = Flight::default();
        (0..6).for_each(|k| flight.on_sent(Time::from_millis(k), 100, 0));
        assert_eq!(report(&mut flight, &[1], 10), (1, 200, 1));
        assert_eq!(report(&mut flight, &[0], 25), (1, 0, 0));
        assert_eq!(report(&mut flight, &[3], 30), (1, 200, 0), "within 15 ms nothing is lost");
        assert_eq!(report(&mut flight, &[4], 45), (1, 100, 1));
    }
}
