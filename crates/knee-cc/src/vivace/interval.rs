//! Monitor intervals: packets sent one after another at the same rate, and what became of each of them.
//!
//! Every packet belongs to the interval in which it was sent, retransmissions included. Conservation gives the packets
//! that an ACK settles: the ones that were in flight before and are not any more were delivered or lost. Deliveries are
//! booked where the newest packet delivered was sent, losses in the oldest interval that still misses packets: on a
//! path that keeps the order those are the right ones.

use super::judge::Line;
use crate::{Ack, Sent, View};
use knee_core::Time;
use std::collections::VecDeque;

/// A monitor interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// The rate it was to be sent at, in Mbit/s of payload.
    pub wanted: f64,
    /// Its outcome is awaited.
    pub useful: bool,
    /// It belongs to the starting phase.
    pub starting: bool,
    /// It lasts longer, since few of its RTTs were reliable.
    pub extended: bool,
    /// RTT samples of its packets, and how many of them are reliable.
    pub samples: u32,
    /// See `samples`.
    pub reliable: u32,
    /// RTT in us over the number of the packet; the reliable samples.
    pub line: Line,
    /// When its first packet left.
    begin: Option<Time>,
    /// When its last one did.
    last: Time,
    sent: u64,
    payload_bits: u64,
    delivered: u64,
    lost: u64,
}

impl Interval {
    /// One in which nothing was sent yet.
    pub fn new(wanted: f64, useful: bool) -> Self {
        Self {
            wanted,
            useful,
            starting: false,
            extended: false,
            samples: 0,
            reliable: 0,
            line: Line::default(),
            begin: None,
            last: Time::ZERO,
            sent: 0,
            payload_bits: 0,
            delivered: 0,
            lost: 0,
        }
    }

    /// Packets of unknown fate.
    const fn outstanding(&self) -> u64 {
        self.sent - self.delivered - self.lost
    }

    /// When its first packet left, if one did.
    pub const fn begin(&self) -> Option<Time> {
        self.begin
    }

    /// How many of the usual spans it lasts.
    pub const fn spans(&self) -> u64 {
        if self.extended { 2 } else { 1 }
    }

    /// From its first packet to its last, us.
    pub fn span_us(&self) -> f64 {
        self.begin.map_or(0.0, |begin| self.last.saturating_sub(begin).as_secs_f64() * 1e6)
    }

    /// Payload sent.
    pub const fn payload_bits(&self) -> f64 {
        self.payload_bits as f64
    }

    /// The part of its packets that got lost.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }
}

/// The intervals whose packets are not all known to be delivered or lost, oldest first; the newest is being sent.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    list: VecDeque<Interval>,
    /// Packets sent so far.
    sent: u64,
    /// Packets deemed lost so far, as the sender counts them.
    lost: u64,
}

impl Intervals {
    /// The one being sent.
    pub fn current(&self) -> Option<&Interval> {
        self.list.back()
    }

    /// The interval being sent, to be changed.
    pub fn current_mut(&mut self) -> Option<&mut Interval> {
        self.list.back_mut()
    }

    /// Packets of unknown fate.
    pub fn outstanding(&self) -> u64 {
        self.list.iter().map(Interval::outstanding).sum()
    }

    /// How many somebody waits for.
    pub fn useful(&self) -> usize {
        self.list.iter().filter(|interval| interval.useful).count()
    }

    /// Ends the current interval and begins another.
    pub fn begin(&mut self, next: Interval) {
        if self.list.back().is_some_and(|last| last.sent == 0) {
            self.list.pop_back();
        }
        self.list.push_back(next);
    }

    /// Counts packets that left.
    pub fn on_sent(&mut self, sent: &Sent) {
        self.sent += u64::from(sent.packets);
        if let Some(current) = self.list.back_mut() {
            current.begin.get_or_insert(sent.view.now);
            current.last = sent.view.now;
            current.sent += u64::from(sent.packets);
            current.payload_bits += 8 * u64::from(sent.packets) * u64::from(sent.view.mss);
        }
    }

    /// Books the RTT of an ACK whose newest packet was the `newest`th sent, over that number.
    pub fn book_rtt(&mut self, newest: u64, rtt: Time, delivered: u32, reliable: bool) {
        let mut end = self.sent;
        let sent_in = |interval: &&mut Interval| {
            end = end.saturating_sub(interval.sent);
            end < newest
        };
        if let Some(interval) = self.list.iter_mut().rev().find(sent_in) {
            interval.samples = interval.samples.saturating_add(delivered);
            if reliable {
                interval.reliable = interval.reliable.saturating_add(delivered);
                interval.line.add(newest as f64, rtt.as_secs_f64() * 1e6);
            }
        }
    }

    /// Books what an ACK settled, but for its RTT; gives how many packets were sent up to the newest it delivered.
    pub fn on_ack(&mut self, ack: &Ack) -> u64 {
        let newest = self.newest(ack);
        self.settle(ack.view, newest);
        newest
    }

    /// How many packets were sent up to the newest one that an ACK delivered.
    fn newest(&self, ack: &Ack) -> u64 {
        let view = ack.view;
        let known = view.delivered + view.lost + u64::from(view.in_flight);
        let before = ack.rate.prior_delivered + ack.rate.prior_lost + u64::from(ack.rate.tx_in_flight);
        // As many left after it as the three counts have grown by since.
        self.sent.saturating_sub(known.saturating_sub(before))
    }

    /// Books what is in flight no more. `newest`: how many were sent up to the newest packet delivered.
    fn settle(&mut self, view: &View, newest: u64) {
        let lost = view.lost.saturating_sub(std::mem::replace(&mut self.lost, view.lost));
        let outstanding = self.outstanding();
        let in_flight = u64::from(view.in_flight);
        if outstanding < in_flight {
            self.take_back(in_flight - outstanding);
            return;
        }
        let settled = outstanding - in_flight;
        let mut lost = lost.min(settled);
        let mut delivered = settled - lost;
        // Numbers of the packets of each interval, counted back from the last one sent.
        let mut end = self.sent;
        for interval in self.list.iter_mut().rev() {
            let first = end.saturating_sub(interval.sent);
            // Packets of the interval sent up to the newest delivered that are not settled yet.
            let reached = newest.min(end).saturating_sub(first).saturating_sub(interval.delivered + interval.lost);
            let here = delivered.min(reached);
            interval.delivered += here;
            delivered -= here;
            end = first;
        }
        for interval in &mut self.list {
            let here = lost.min(interval.outstanding());
            interval.lost += here;
            lost -= here;
            let here = delivered.min(interval.outstanding());
            interval.delivered += here;
            delivered -= here;
        }
        self.correct(newest.saturating_sub(in_flight));
    }

    /// Packets sent up to `settled` are not under way, since as many as are were sent and passed by others after them.
    /// What is missing of them was booked in a later interval.
    fn correct(&mut self, settled: u64) {
        let mut end = self.sent - self.list.iter().map(|interval| interval.sent).sum::<u64>().min(self.sent);
        let mut missing = 0;
        for interval in &mut self.list {
            end += interval.sent;
            if end <= settled {
                missing += interval.outstanding();
                interval.delivered += interval.outstanding();
            } else {
                let back = missing.min(interval.delivered);
                interval.delivered -= back;
                missing -= back;
            }
        }
    }

    /// Losses that proved wrong.
    fn take_back(&mut self, mut packets: u64) {
        for interval in self.list.iter_mut().rev() {
            let here = packets.min(interval.lost);
            interval.lost -= here;
            packets -= here;
        }
    }

    /// Takes the useful intervals away, and those before them, if all of them are over, settled, and have `samples`
    /// reliable RTTs each.
    pub fn take_useful(&mut self, samples: u32) -> Option<Vec<Interval>> {
        let last = self.list.iter().rposition(|interval| interval.useful)?;
        let known = |i: &Interval| !i.useful || (i.sent > 0 && i.outstanding() == 0 && i.reliable >= samples);
        if !self.list.iter().all(known) {
            return None;
        }
        let mut taken: Vec<Interval> = self.list.drain(..=last).collect();
        taken.retain(|interval| interval.useful);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RateSample;
    use crate::testing::{ack_of_nothing, close, lent, lent_rate, view};

    fn sent(at_ms: u64, packets: u32) -> Sent<'static> {
        Sent { view: lent(View { now: Time::from_millis(at_ms), ..view() }), packets, retransmission: false }
    }

    /// Three intervals of ten packets each: one sent before and two to be seen.
    fn thirty_sent() -> Intervals {
        let mut intervals = Intervals::default();
        for i in 0..3 {
            intervals.begin(Interval::new(11.584, true));
            (0..5).for_each(|n| intervals.on_sent(&sent(10 * i + 2 * n, 2)));
        }
        intervals.begin(Interval::new(11.584, true));
        intervals
    }

    /// An ACK after which these numbers were delivered, lost and are in flight, the newest having been the `newest`th
    /// sent.
    fn ack(delivered: u64, lost: u64, newest: u32) -> Ack<'static> {
        let in_flight = (30 - delivered - lost) as u32;
        let rate = lent_rate(RateSample { tx_in_flight: newest, ..RateSample::NONE });
        Ack { view: lent(View { in_flight, delivered, lost, ..view() }), rate, ..ack_of_nothing() }
    }

    fn counts(intervals: &Intervals) -> Vec<(u64, u64)> {
        intervals.list.iter().take(3).map(|i| (i.delivered, i.lost)).collect()
    }

    #[test]
    fn a_lost_packet_counts_in_the_interval_in_which_it_was_sent() {
        let mut intervals = thirty_sent();
        intervals.on_ack(&ack(8, 0, 8));
        assert_eq!(counts(&intervals), [(8, 0), (0, 0), (0, 0)]);
        // The ninth and tenth are missing when four of the second interval have come.
        intervals.on_ack(&ack(11, 0, 13));
        intervals.on_ack(&ack(12, 2, 14));
        assert_eq!(counts(&intervals), [(8, 2), (4, 0), (0, 0)]);
        assert!(close(intervals.list[0].loss(), 0.2) && intervals.list[0].outstanding() == 0);
    }

    #[test]
    fn an_ack_of_two_packets_settles_one_in_each_of_two_intervals() {
        let mut intervals = thirty_sent();
        intervals.on_ack(&ack(9, 0, 9));
        intervals.on_ack(&ack(11, 0, 11));
        assert_eq!(counts(&intervals), [(10, 0), (1, 0), (0, 0)]);
    }

    #[test]
    fn what_was_booked_too_late_does_not_keep_an_interval_open() {
        // The tenth is passed by more packets than are in flight: one of those in the second interval was it.
        let mut intervals = thirty_sent();
        intervals.on_ack(&ack(9, 0, 9));
        intervals.list[1].delivered = 1;
        intervals.on_ack(&ack(28, 0, 28));
        assert_eq!((intervals.list[0].delivered, intervals.list[0].outstanding(), intervals.outstanding()), (10, 0, 2));
    }

    #[test]
    fn losses_that_no_rtt_came_with_are_counted_too() {
        // Retransmissions give no RTT; all of the first two intervals is lost but one packet of each.
        let mut intervals = thirty_sent();
        intervals.on_ack(&ack(2, 18, 20));
        let (first, second) = (&intervals.list[0], &intervals.list[1]);
        assert_eq!((first.delivered + second.delivered, first.lost + second.lost), (2, 18));
    }

    #[test]
    fn losses_that_proved_wrong_are_outstanding_again() {
        let mut intervals = thirty_sent();
        intervals.on_ack(&ack(15, 5, 20));
        let undone = View { delivered: 15, lost: 5, in_flight: 15, ..view() };
        intervals.on_ack(&Ack { view: &undone, ..ack_of_nothing() });
        assert_eq!(intervals.outstanding(), 15);
    }
}
