//! Packets in flight, for controllers that keep something of each.

use crate::{Acked, Lost};
use std::collections::VecDeque;
use std::time::Duration;

/// Packets in flight in the order in which they left, each with what a controller keeps of it.
///
/// Many stacks hand a controller packets, where quinn tells of times and sizes. This finds the packets again: an
/// acknowledged one by its time; lost ones as all that are left up to the newest of them, since no packet is found lost
/// before those that left earlier. Call each method in the method of [`Window`](crate::Window) of the same name.
#[derive(Clone, Debug)]
pub struct InFlight<T> {
    packets: VecDeque<Packet<T>>,
    bytes: u64,
    next: u64,
    /// The size of the largest packet so far, bytes.
    largest: u64,
}

/// A packet in flight, acknowledged or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Its number; packets are counted from 0 in the order in which they left.
    pub number: u64,
    /// When it left.
    pub sent: Duration,
    /// Its size, bytes.
    pub bytes: u64,
    /// The controller's own data about it.
    pub info: T,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0, next: 0, largest: 0 }
    }
}

impl<T: Copy> InFlight<T> {
    /// Bytes in flight.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A packet leaves, of which `info` is kept.
    pub fn on_sent(&mut self, now: Duration, bytes: u64, info: T) -> Packet<T> {
        let packet = Packet { number: self.next, sent: now, bytes, info };
        self.packets.push_back(packet);
        self.bytes += bytes;
        self.next += 1;
        self.largest = self.largest.max(bytes);
        packet
    }

    /// The packet that was acknowledged. None for what quinn sends without telling: probes of the MTU, which are larger
    /// than all packets until one is acknowledged.
    pub fn on_ack(&mut self, ack: &Acked) -> Option<Packet<T>> {
        if ack.bytes > self.largest {
            return None;
        }
        let i = match self.packets.front() {
            Some(front) if front.sent == ack.sent => 0,
            _ => self.packets.partition_point(|packet| packet.sent < ack.sent),
        };
        let packet = *self.packets.get(i).filter(|packet| packet.sent == ack.sent)?;
        Some(self.take(i, packet.bytes.min(ack.bytes)))
    }

    /// The packets that were found lost, the oldest one first. None where packets were marked by ECN, or where it was a
    /// probe of the MTU, which is no sign of congestion (RFC 9000, 14.4).
    pub fn on_loss(&mut self, loss: &Lost) -> Vec<Packet<T>> {
        let (mut left, mut lost) = (loss.bytes, Vec::new());
        while left > 0
            && let Some(oldest) = self.packets.front().filter(|packet| packet.sent <= loss.sent)
        {
            let packet = self.take(0, oldest.bytes.min(left));
            left -= packet.bytes;
            lost.push(packet);
        }
        lost
    }

    /// Forgets what is not in flight after all: datagrams of ACKs alone, which are the smallest, and what belonged to
    /// keys that are discarded, which is the oldest. How many bytes that were.
    pub fn on_end_acks(&mut self, in_flight: u64) -> u64 {
        let excess = self.bytes.saturating_sub(in_flight);
        while self.bytes > in_flight {
            let left = self.bytes - in_flight;
            let sizes = self.packets.iter().map(|packet| packet.bytes).enumerate();
            match sizes.min_by_key(|(_, bytes)| *bytes).filter(|(_, bytes)| *bytes <= left) {
                Some((i, bytes)) => self.take(i, bytes),
                None => self.take(0, self.packets[0].bytes.min(left)),
            };
        }
        excess
    }

    /// Takes this many bytes of a packet: the whole, or one of several packets in a datagram.
    fn take(&mut self, i: usize, bytes: u64) -> Packet<T> {
        let packet = &mut self.packets[i];
        let taken = Packet { bytes, ..*packet };
        packet.bytes -= bytes;
        self.bytes -= bytes;
        if packet.bytes == 0 {
            self.packets.remove(i);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ack(sent: u64, bytes: u64) -> Acked {
        Acked { now: ms(100), sent: ms(sent), bytes, rtt: ms(40), min_rtt: ms(40), app_limited: false }
    }

    fn loss(sent: u64, bytes: u64) -> Lost {
        Lost { now: ms(100), sent: ms(sent), bytes, persistent: false }
    }

    /// Packets of 1000 bytes that left at these times, each with its place as what is kept of it.
    fn sent(times: &[u64]) -> InFlight<usize> {
        let mut flight = InFlight::default();
        for (i, time) in times.iter().enumerate() {
            flight.on_sent(ms(*time), 1_000, i);
        }
        flight
    }

    fn infos(packets: &[Packet<usize>]) -> Vec<usize> {
        packets.iter().map(|packet| packet.info).collect()
    }

    #[test]
    fn an_acknowledged_packet_is_found_by_its_time() {
        let mut flight = sent(&[0, 1, 2]);
        let packet = Packet { number: 1, sent: ms(1), bytes: 1_000, info: 1 };
        assert_eq!(flight.on_ack(&ack(1, 1_000)), Some(packet));
        assert_eq!(flight.on_ack(&ack(1, 1_000)), None);
        assert_eq!(flight.bytes(), 2_000);
    }

    #[test]
    fn packets_that_left_at_once_are_taken_in_order() {
        let mut flight = sent(&[5, 5, 5]);
        let taken = [(); 3].map(|()| flight.on_ack(&ack(5, 1_000)).unwrap().info);
        assert_eq!((taken, flight.bytes()), ([0, 1, 2], 0));
    }

    #[test]
    fn a_probe_of_the_mtu_takes_no_packet_that_left_with_it() {
        let mut flight = sent(&[5, 5]);
        assert_eq!(flight.on_ack(&ack(5, 1_400)), None);
        assert_eq!(flight.bytes(), 2_000);
    }

    #[test]
    fn a_datagram_of_two_packets_is_acknowledged_twice() {
        let mut flight = sent(&[0]);
        assert_eq!(flight.on_ack(&ack(0, 300)).unwrap().bytes, 300);
        assert_eq!(flight.on_ack(&ack(0, 700)).unwrap().bytes, 700);
        assert_eq!((flight.on_ack(&ack(0, 1)), flight.bytes()), (None, 0));
    }

    #[test]
    fn what_is_left_up_to_the_newest_lost_packet_is_lost() {
        let mut flight = sent(&[0, 1, 2, 2, 3]);
        flight.on_ack(&ack(1, 1_000));
        assert_eq!(infos(&flight.on_loss(&loss(2, 2_000))), [0, 2]);
        assert_eq!(infos(&flight.on_loss(&loss(2, 9_000))), [3]);
        assert_eq!(infos(&flight.on_loss(&loss(3, 0))), [0; 0], "ECN");
        assert_eq!(flight.bytes(), 1_000);
    }

    #[test]
    fn what_is_not_in_flight_is_forgotten() {
        let mut flight = sent(&[0, 1, 2]);
        assert_eq!(flight.on_end_acks(3_000), 0);
        // A probe of the MTU is in flight beside them.
        assert_eq!(flight.on_end_acks(4_400), 0);
        // An ACK alone.
        flight.on_sent(ms(3), 40, 3);
        assert_eq!(flight.on_end_acks(3_000), 40);
        assert_eq!(flight.on_ack(&ack(3, 40)), None);
        // Keys are discarded.
        assert_eq!(flight.on_end_acks(1_900), 1_100);
        assert_eq!(flight.bytes(), 1_900);
        assert_eq!(flight.on_ack(&ack(1, 1_000)).unwrap().bytes, 900);
    }
}
