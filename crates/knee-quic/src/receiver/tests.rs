//! When an ACK leaves, and what it says, by the rules of RFC 9000, 13.2.

use super::*;
use crate::config::Settings;

struct Bench(Receiver, Config);

impl Bench {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self(Receiver::default(), Config::new(&settings).unwrap())
    }

    /// Packet `number` arrives after `us`: the ranges of the ACK that leaves at once.
    fn at(&mut self, us: u64, number: u64, mark: Mark) -> Option<Vec<(u64, u64)>> {
        let packet = Arrival { number, offset: number * 100, len: 100, eliciting: true, mark };
        self.0.on_packet(&packet, Time::from_micros(us), &self.1).map(|ack| ack.ranges().collect())
    }

    /// The packets that make an ACK leave at once, of those that arrive in this order.
    fn answered(&mut self, numbers: &[u64]) -> Vec<u64> {
        numbers.iter().copied().filter(|number| self.at(0, *number, Mark::NotEct).is_some()).collect()
    }
}

/// 13.2.2 and 13.2.1: with every second packet, and after 25 ms for one alone, with its delay in units of 8 us.
#[test]
fn every_second_packet_is_acknowledged_at_once_and_a_single_one_after_25_ms() {
    let mut bench = Bench::new(|_| {});
    assert_eq!(bench.at(1_000, 0, Mark::NotEct), None);
    assert_eq!(bench.at(2_000, 1, Mark::NotEct), Some(vec![(0, 2)]));
    assert_eq!(bench.0.delayed, Timer::OFF);
    assert_eq!(bench.at(3_001, 2, Mark::NotEct), None);
    assert_eq!(bench.0.delayed.not_before(), Time::from_micros(28_001));
    assert_eq!(bench.0.on_timer(Time::from_micros(28_000)), None);
    let ack = bench.0.on_timer(Time::from_micros(28_005)).unwrap();
    assert_eq!((ack.largest(), ack.delay), (Some(2), Time::from_micros(25_000)));
    assert_eq!((bench.0.on_timer(Time::from_secs(9)), bench.0.in_order()), (None, 300));
}

/// 13.2.5: from the arrival of the largest packet; 13.2.1: within 25 ms of the first one that waits.
#[test]
fn the_delay_is_that_of_the_largest_packet_and_the_timer_that_of_the_first() {
    let mut bench = Bench::new(|settings| (settings.ack_every, settings.reordering) = (3, 0));
    assert_eq!([bench.at(1_000, 0, Mark::NotEct), bench.at(2_000, 2, Mark::NotEct)], [None, None]);
    assert_eq!(bench.0.delayed.not_before(), Time::from_micros(26_000));
    let packet = Arrival { number: 1, offset: 100, len: 100, eliciting: true, mark: Mark::NotEct };
    let ack = bench.0.on_packet(&packet, Time::from_micros(6_000), &bench.1).unwrap();
    assert_eq!((ack.top, ack.below, ack.delay), ((0, 3), None, Time::from_millis(4)));
}

/// 13.2.1: less than another one, or beyond a gap.
#[test]
fn packets_out_of_order_and_marked_ones_are_acknowledged_at_once() {
    let mut bench = Bench::new(|settings| settings.ack_every = 100);
    assert_eq!(bench.answered(&[0, 1, 2, 5, 6, 3, 7, 4, 8]), [5, 3, 4]);
    assert_eq!(bench.at(0, 9, Mark::Ect0), None);
    assert!(bench.at(0, 10, Mark::Ce).is_some());
    let ecn = bench.0.ack(Time::ZERO).unwrap().ecn;
    assert_eq!(ecn, Some(EcnCounts { ect0: 1, ect1: 0, ce: 1 }));
}

/// draft-ietf-quic-ack-frequency, "Examples", for thresholds of 3 and 5; with 0 none leaves for a gap.
#[test]
fn a_reordering_threshold_delays_what_a_gap_lets_leave() {
    let mut bench = Bench::new(|settings| (settings.ack_every, settings.reordering) = (100, 3));
    assert_eq!(bench.answered(&[0, 1, 3, 4, 5, 8, 9, 10]), [5, 9, 10]);
    assert_eq!(bench.answered(&[7, 2]), [7, 2], "the sender may have found them lost");
    let mut bench = Bench::new(|settings| (settings.ack_every, settings.reordering) = (100, 5));
    assert_eq!(bench.answered(&[0, 1, 3, 5, 6, 7, 8, 9]), [7, 9]);
    let mut bench = Bench::new(|settings| (settings.ack_every, settings.reordering) = (5, 0));
    assert_eq!(bench.answered(&[0, 3, 2, 9, 8, 20]), [8]);
}

/// Chromium: every second packet up to the 100th, then every tenth, or a quarter of the handshake's RTT after the first
/// one that waits, but a millisecond at least and 25 at most.
#[test]
fn chromiums_acks_are_rarer_from_the_100th_packet_on() {
    let preset = crate::preset::find("chromium").unwrap();
    let mut bench = Bench::new(|settings| *settings = (preset.settings)());
    let all: Vec<u64> = (0..140).collect();
    let answered = bench.answered(&all);
    assert_eq!(answered, (0..50).map(|i| 2 * i + 1).chain([109, 119, 129, 139]).collect::<Vec<_>>());
    for (ms, waits) in [(40, 10), (2, 1), (200, 25)] {
        bench.0.rtt = Time::from_millis(ms);
        bench.0.ack(Time::ZERO);
        let number = bench.0.expected();
        assert_eq!(bench.at(0, number, Mark::NotEct), None);
        assert_eq!(bench.0.delayed.not_before(), Time::from_millis(waits));
    }
}

/// picoquic: four ACKs for the packets of the RTT before, each for 2 to 64 packets.
#[test]
fn picoquics_acks_are_four_in_an_rtt() {
    let preset = crate::preset::find("picoquic").unwrap();
    for (packets, every) in [(4, 2), (40, 10), (1_000, 64)] {
        let mut bench = Bench::new(|settings| *settings = (preset.settings)());
        bench.0.rtt = Time::from_millis(10);
        // Two RTTs: the ACKs of the second one count.
        let mut seen = Vec::new();
        for number in 0..2 * packets {
            if bench.at(10_000 * number / packets, number, Mark::NotEct).is_some() && number >= packets {
                seen.push(number);
            }
        }
        assert!(seen.windows(2).all(|pair| pair[1] - pair[0] == every), "{every}: {seen:?}");
        let mut bench = Bench::new(|settings| *settings = (preset.settings)());
        bench.0.rtt = Time::from_millis(20);
        bench.at(0, 0, Mark::NotEct);
        assert_eq!(bench.0.delayed.not_before(), Time::from_millis(5), "a quarter of the RTT");
    }
}

/// draft-ietf-quic-ack-frequency: where ACKs are rarer than every second packet, the first mark in a row is told at
/// once.
#[test]
fn a_row_of_marks_is_told_at_once_by_its_first_one_where_acks_are_rare() {
    let marks = [Mark::Ect0, Mark::Ce, Mark::Ce, Mark::Ect0, Mark::Ce];
    for (ack_every, answered) in [(10, [false, true, false, false, true]), (2, [false, true, true, false, true])] {
        let mut bench = Bench::new(|settings| settings.ack_every = ack_every);
        let mut numbers = 0..;
        assert_eq!(marks.map(|mark| bench.at(0, numbers.next().unwrap(), mark).is_some()), answered);
    }
}

/// 13.2.3: the lowest ranges are forgotten, and nothing below them is taken again.
#[test]
fn ranges_are_bounded_and_packets_below_them_discarded() {
    let mut bench = Bench::new(|settings| settings.ack_ranges = 3);
    bench.answered(&[0, 2, 4, 6, 8]);
    assert_eq!(bench.0.ack(Time::ZERO).unwrap().ranges().collect::<Vec<_>>(), [(4, 5), (6, 7), (8, 9)]);
    assert_eq!((bench.at(0, 1, Mark::NotEct), bench.at(0, 8, Mark::NotEct), bench.0.duplicates()), (None, None, 2));
    assert_eq!(bench.0.in_order(), 100, "packet 1 was discarded");
    assert_eq!(bench.at(0, 5, Mark::NotEct), Some(vec![(4, 7), (8, 9)]));
}

/// 13.2.1: a packet that elicits no ACK gets none, even beyond a gap, but is in the next one.
#[test]
fn a_packet_that_elicits_no_ack_is_acknowledged_with_the_next_that_does() {
    let mut bench = Bench::new(|_| {});
    let silent = Arrival { number: 7, offset: 0, len: 0, eliciting: false, mark: Mark::NotEct };
    assert_eq!(bench.0.on_packet(&silent, Time::ZERO, &bench.1), None);
    assert_eq!((bench.0.delayed, bench.0.in_order()), (Timer::OFF, 0));
    assert_eq!(bench.at(0, 8, Mark::NotEct), Some(vec![(7, 9)]));
    assert_eq!(Receiver::default().ack(Time::ZERO), None);
}
