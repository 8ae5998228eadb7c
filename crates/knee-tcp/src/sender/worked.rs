//! Cases of loss recovery whose numbers were worked by hand from the RFCs.
//!
//! In all of them the handshake and each segment take 20 ms, all of the first window leaves at 20 ms, the clock has no
//! ticks, and no segments leave in bursts. Reno halves: `ssthresh = cwnd / 2` (RFC 5681, 3.1). At first SRTT = 20 ms,
//! and Linux's least deviation of 200 ms gives RTO = 220 ms.

mod segments;
mod states;

use super::testing;
use super::{AckInfo, Config, Outgoing, Pending, Sender, flags};
use crate::timer::Clock;
use knee_cc::{CaState, INFINITE_SSTHRESH};
use knee_core::Time;

/// When the first window leaves.
const START: u64 = 20_000;

/// A sender and its settings.
struct Bench {
    sender: Sender,
    config: Config,
}

/// First segment, count, and whether they were sent before.
type Left = Vec<(u64, u32, bool)>;

fn left(out: &[Outgoing]) -> Left {
    out.iter().map(|d| (d.start, d.count, d.retransmission)).collect()
}

/// A transmission of new segments.
const fn new(start: u64, count: u32) -> (u64, u32, bool) {
    (start, count, false)
}

/// A retransmission.
const fn again(start: u64, count: u32) -> (u64, u32, bool) {
    (start, count, true)
}

const fn config(window: u32, receive_window: u64) -> Config {
    Config {
        clock: Clock::new(Time::ZERO),
        initial_window: window,
        rto_min: Time::from_millis(200),
        tso: false,
        tso_rtt_log: 9,
        slow_start_after_idle: true,
        receive_window,
        window_growth: 0,
    }
}

impl Bench {
    /// One that has sent `window` segments and has more, or not.
    fn new(window: u32, endless: bool) -> Self {
        let config = config(window, 1_000);
        let bytes = (!endless).then_some(u64::from(window) * 1448);
        Self { sender: testing::sender("reno", bytes, false, &config), config }
    }

    /// A bench whose receive window is `window` packets, so that no more can leave.
    fn full(window: u32) -> Self {
        let config = config(window, u64::from(window));
        Self { sender: testing::sender("reno", None, false, &config), config }
    }

    /// A bench whose handshake gave no RTT.
    fn without_rtt() -> Self {
        let config = config(10, 1_000);
        Self { sender: testing::without_rtt("reno", &config), config }
    }

    /// An application that has written nothing, with this window.
    fn stream(cwnd: u32, ssthresh: u32) -> Self {
        let config = config(10, 1_000);
        let mut sender = testing::stream("reno", &config);
        (sender.control.cwnd, sender.control.ssthresh) = (cwnd, ssthresh);
        Self { sender, config }
    }

    /// An application writes `segments` at `at` us, which leave as far as they may.
    fn write(&mut self, at: u64, segments: u64) {
        let now = Time::from_micros(at);
        self.sender.write(segments * 1448, now, now, &self.config);
        self.sender.send(now, &self.config, &mut Vec::new());
    }

    fn take(&mut self, at: u64, ack: &AckInfo) -> Left {
        let mut out = Vec::new();
        self.sender.on_ack(ack, Time::from_micros(at), &self.config, &mut out);
        left(&out)
    }

    /// An ACK at `at` us without timestamps.
    fn ack(&mut self, at: u64, seq: u64, blocks: &[(u64, u64)]) -> Left {
        self.take(at, &AckInfo { blocks, ..AckInfo::plain(seq, 0, 0) })
    }

    /// An ACK at `at` us that echoes a timestamp sent at `sent` us.
    fn echo(&mut self, at: u64, seq: u64, sent: u64) -> Left {
        self.take(at, &AckInfo::plain(seq, Sender::tsval(Time::from_micros(sent)), 0))
    }

    /// An ACK at `at` us whose only block is a D-SACK.
    fn dsack(&mut self, at: u64, seq: u64, block: (u64, u64)) -> Left {
        self.take(at, &AckInfo { blocks: &[block], dsack: true, ..AckInfo::plain(seq, 0, 0) })
    }

    /// SACKs of `from..to`, one segment each: the first at `at` us, the others 100 us apart. Gives what each lets
    /// leave.
    fn sacks(&mut self, at: u64, from: u64, to: u64) -> Vec<Left> {
        (from..to).map(|seq| self.ack(at + (seq - from) * 100, 0, &[(from, seq + 1)])).collect()
    }

    /// When the timer is due, in us.
    fn due(&self) -> u64 {
        self.config.clock.expiry(&self.sender.timer).as_micros()
    }

    /// The timer fires when it is due.
    fn fire(&mut self) -> (u64, Left) {
        let (at, mut out) = (self.due(), Vec::new());
        self.sender.on_timer(Time::from_micros(at), &self.config, &mut out);
        (at, left(&out))
    }

    /// The timer fires up to the next retransmission timeout. Gives when that is, in us.
    fn time_out(&mut self) -> u64 {
        let before = self.sender.totals.timeouts;
        loop {
            let (at, _) = self.fire();
            if self.sender.totals.timeouts > before {
                return at;
            }
        }
    }

    const fn windows(&self) -> (u32, u32) {
        (self.sender.control.cwnd, self.sender.control.ssthresh)
    }
}

/// How many segments each of these ACKs lets leave.
fn counts(left: &[Left]) -> Vec<u32> {
    left.iter().map(|left| left.iter().map(|&(_, count, _)| count).sum()).collect()
}

// Proportional rate reduction.

/// The setting of RFC 9937, 8, first example: 20 in flight, segment 0 lost. Two SACKs send a new segment each (limited
/// transmit), the third the retransmission. From then on RFC 6937, 3, sends `CEIL(prr_delivered * 10 / 20) - prr_out`:
/// one for every two delivered. With the 19th SACK pipe is 10 = ssthresh, and MIN(ssthresh - pipe, limit) is 0.
#[test]
fn prr_sends_one_for_two_delivered() {
    let mut b = Bench::new(20, true);
    let out = b.sacks(40_000, 1, 20);
    assert_eq!(out[..4], [vec![new(20, 1)], vec![new(21, 1)], vec![again(0, 1)], vec![]]);
    assert_eq!(counts(&out), [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0]);
    assert_eq!((b.sender.state(), b.windows(), b.sender.in_flight()), (CaState::Recovery, (10, 10), 10));
}

/// PRR with 100 in flight: ssthresh = 50. Before ACK k sends, inflight = 101 - k + CEIL((k - 3) / 2), 51 at k =
/// 97. That sends the 48th and last; at k = 99 inflight is 2 + 48 = 50 = ssthresh.
#[test]
fn prr_brings_100_segments_to_50() {
    let mut b = Bench::new(100, true);
    let sent = counts(&b.sacks(40_000, 1, 100));
    assert_eq!((sent[..2].iter().sum::<u32>(), sent[2..].iter().sum::<u32>()), (2, 48));
    assert!(sent[2..97].iter().enumerate().all(|(i, &count)| count == u32::from(i % 2 == 0)));
    assert_eq!((b.windows(), b.sender.in_flight()), ((50, 50), 50));
}

/// RFC 6937, 4, second example: 0 to 14 of 20 are lost. With the third SACK pipe is 22 - 3 - 15 = 4, below ssthresh 10,
/// and SACKs without progress keep to the conservation bound: MAX(prr_delivered - prr_out, DeliveredData) = 1.
#[test]
fn prr_conserves_packets_below_ssthresh_without_progress() {
    let mut b = Bench::new(20, true);
    let out = b.sacks(40_000, 15, 20);
    assert_eq!(out[2..], [[again(0, 1)], [again(1, 1)], [again(2, 1)]]);
    assert_eq!((b.windows().1, b.sender.in_flight(), b.sender.scoreboard()), (10, 5, (5, 15, 3)));
}

/// RFC 6937, 3.1: the ACK of a retransmission makes progress without a new loss. prr_delivered = 6, prr_out = 5, so the
/// slow start bound is MAX(6 - 5, 1) + 1 = 2 segments, and pipe 21 - 7 - 14 + 4 = 4 becomes 6.
#[test]
fn prr_grows_as_slow_start_on_progress() {
    let mut b = Bench::new(20, true);
    b.sacks(40_000, 15, 20);
    // Limited transmit's two segments of 40.0 and 40.1 ms, then the retransmission of 40.2 ms arrive.
    assert_eq!([b.ack(60_000, 0, &[(15, 21)]), b.ack(60_100, 0, &[(15, 22)])], [[again(3, 1)], [again(4, 1)]]);
    let out = b.take(
        60_200,
        &AckInfo { blocks: &[(15, 22)], ..AckInfo::plain(1, Sender::tsval(Time::from_micros(40_200)), 0) },
    );
    assert_eq!(counts(&[out]), [2]);
    assert_eq!((b.windows(), b.sender.in_flight()), ((6, 10), 6));
}

/// RFC 5681, 3.2 and RFC 6675, 5: the ACK of all that was sent before recovery, 22 segments, ends it with cwnd =
/// ssthresh = 10. That ACK delivers one segment, a tenth of the window of congestion avoidance.
#[test]
fn recovery_ends_with_cwnd_at_ssthresh() {
    let mut b = Bench::new(20, true);
    b.sacks(40_000, 1, 20);
    b.ack(60_000, 0, &[(1, 21)]);
    b.ack(60_100, 0, &[(1, 22)]);
    assert_eq!(b.sender.state(), CaState::Recovery);
    b.echo(60_200, 22, 40_200);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Open, (10, 10)));
}

/// RFC 3042: the first two duplicate ACKs let a new segment leave each. cwnd stays, and so does what is in flight.
#[test]
fn limited_transmit_keeps_the_window() {
    let mut b = Bench::new(10, true);
    assert_eq!(b.sacks(40_000, 1, 3), [[new(10, 1)], [new(11, 1)]]);
    assert_eq!((b.sender.state(), b.windows(), b.sender.in_flight()), (CaState::Disorder, (10, INFINITE_SSTHRESH), 10));
}

// RACK.

/// RFC 8985, 6.2: with one segment SACKed, the window is min_RTT / 4 = 5 ms, and what is older than RACK.rtt + 5 ms is
/// lost. At 40 ms all are 20 ms old: 5 ms to wait, and Linux adds 2 ms. Then 0 to 4 are lost.
#[test]
fn rack_waits_for_a_quarter_of_the_least_rtt() {
    let mut b = Bench::new(10, true);
    b.ack(40_000, 0, &[(5, 6)]);
    assert_eq!((b.sender.pending, b.due(), b.sender.scoreboard().1), (Pending::Reordering, 47_000, 0));
    b.fire();
    // The segments behind the SACKed one left at its time, and it says nothing of them.
    assert_eq!((b.sender.state(), b.sender.scoreboard().1, b.windows().1), (CaState::Recovery, 5, 5));
}

/// RFC 8985, 3.3.2: no reordering was seen and three are SACKed, so the window is zero: 0 to 4 are lost at once.
#[test]
fn rack_waits_for_nothing_after_three_sacks() {
    let mut b = Bench::new(10, true);
    b.ack(40_000, 0, &[(5, 8)]);
    assert_eq!((b.sender.state(), b.sender.scoreboard().1, b.windows().1), (CaState::Recovery, 5, 5));
}

/// Segment 2 arrives after segment 5, which is reordering: three SACKs are no sign any more. The SACK of segment 7
/// gives RACK.rtt = 20.3 ms, and the timer 40.3 + 5 + 2 = 47.3 ms.
#[test]
fn rack_waits_after_three_sacks_too_once_reordering_was_seen() {
    let mut b = Bench::new(10, true);
    b.ack(40_000, 0, &[(5, 6)]);
    b.ack(40_100, 0, &[(2, 3), (5, 6)]);
    b.ack(40_200, 0, &[(5, 7), (2, 3)]);
    b.ack(40_300, 0, &[(5, 8), (2, 3)]);
    assert_eq!((b.sender.state(), b.sender.scoreboard()), (CaState::Disorder, (4, 0, 0)));
    assert_eq!((b.sender.pending, b.due()), (Pending::Reordering, 47_300));
}

/// RFC 8985, 6.2 step 4: after n round trips with a D-SACK the window is (n + 1) * min_RTT / 4 = (n + 1) * 5 ms, at
/// most SRTT = 20 ms. The timer of a hole runs for it and Linux's 2 ms.
#[test]
fn rack_widens_with_each_round_trip_that_saw_a_d_sack() {
    let waits = [0, 1, 2, 3, 4].map(|rounds| {
        let mut b = Bench::new(10, true);
        b.sender.rack.reorder_seen = true;
        // So many duplicates must have been caused by retransmissions.
        b.sender.totals.retransmitted = rounds;
        let mut at = START;
        for _ in 0..rounds {
            at += 20_000;
            let all = b.sender.snd_nxt();
            b.dsack(at, all, (0, 1));
        }
        at += 20_000;
        let una = b.sender.snd_una();
        b.ack(at, una, &[(una + 5, una + 6)]);
        assert_eq!(b.sender.pending, Pending::Reordering);
        b.due() - at
    });
    assert_eq!(waits, [7_000, 12_000, 17_000, 22_000, 22_000]);
}

/// RFC 8985, 3.1: a lost retransmission. Segment 0 leaves again at 40.2 ms and segment 22 at 40.4 ms. When that is
/// SACKed after 20 ms, the retransmission is 20.2 ms old, in recovery the window is zero, and 0 leaves once more.
#[test]
fn rack_finds_a_lost_retransmission() {
    let mut b = Bench::new(20, true);
    let out = b.sacks(40_000, 1, 20);
    assert_eq!((&out[2], &out[4]), (&vec![again(0, 1)], &vec![new(22, 1)]));
    b.ack(60_000, 0, &[(1, 21)]);
    b.ack(60_100, 0, &[(1, 22)]);
    assert_eq!(b.sender.losses(), 1);
    let out = b.ack(60_400, 0, &[(1, 23)]);
    assert_eq!((b.sender.losses(), out[0]), (2, again(0, 1)));
}

// F-RTO.

/// Ten segments, a loss probe and the timeout; the window before that was 10 and ssthresh 8.
fn timed_out(endless: bool) -> (Bench, u64) {
    let mut b = Bench::new(10, endless);
    b.sender.control.ssthresh = 8;
    let at = b.time_out();
    assert_eq!((b.sender.state(), b.windows(), b.sender.in_flight()), (CaState::Loss, (1, 5), 1));
    (b, at)
}

/// RFC 5682, 3.1, step 2b: the first ACK makes progress, cwnd = 2, and two new segments leave in place of
/// retransmissions. Segment 10 was the loss probe.
#[test]
fn frto_sends_two_new_segments_first() {
    let (mut b, at) = timed_out(true);
    assert_eq!(b.ack(at + 20_000, 1, &[]), [new(11, 1), new(12, 1)]);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Loss, (2, 5)));
}

/// Step 3b: the second ACK is of segment 1, which was sent once: the timeout was spurious. The window of 10 and the
/// threshold of 8 are back (RFC 4015, 3.2), and nothing is lost.
#[test]
fn frto_undoes_a_spurious_timeout() {
    let (mut b, at) = timed_out(true);
    b.ack(at + 20_000, 1, &[]);
    let out = b.ack(at + 20_100, 2, &[]);
    assert!(out.iter().all(|&(_, _, retransmission)| !retransmission), "{out:?}");
    assert_eq!((b.sender.state(), b.windows(), b.sender.scoreboard().1), (CaState::Open, (10, 8), 0));
}

/// Step 3a: the second ACK is a duplicate by one of the new segments. The timeout was right: of cwnd = 2, one is still
/// in flight, and segment 1 leaves again.
#[test]
fn frto_goes_on_with_recovery_on_a_duplicate() {
    let (mut b, at) = timed_out(true);
    b.ack(at + 20_000, 1, &[]);
    assert_eq!(b.ack(at + 40_000, 1, &[(11, 12)]), [again(1, 1)]);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Loss, (2, 5)));
}

/// Step 2b without new data: conventional recovery at once, in slow start: cwnd = 2.
#[test]
fn frto_needs_new_data() {
    let (mut b, at) = timed_out(false);
    let out = b.ack(at + 20_000, 1, &[]);
    assert!(out.iter().all(|&(_, _, retransmission)| retransmission));
    assert_eq!((counts(&[out]), b.windows()), (vec![2], (2, 5)));
}

// Undo.

/// RFC 3522, 3.2: the first ACK after the timeout echoes what the original carried at 20 ms, not the retransmission.
/// RFC 4015, 3.2: window and threshold are restored, 10 and 8.
#[test]
fn eifel_undoes_a_timeout() {
    let (mut b, at) = timed_out(true);
    b.echo(at + 100, 1, START);
    assert_eq!((b.sender.state(), b.windows(), b.sender.scoreboard().1), (CaState::Open, (10, 8), 0));
}

/// The echo of the retransmission's timestamp shows that the timeout was right.
#[test]
fn eifel_undoes_nothing_where_the_retransmission_arrived() {
    let (mut b, at) = timed_out(true);
    b.echo(at + 20_000, 1, at);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Loss, (2, 5)));
}

/// Segment 0, late by 21 ms, was sent again at 40.2 ms with ssthresh = 10 / 2. The ACK at 41 ms that echoes 20 ms
/// restores window and threshold.
#[test]
fn eifel_undoes_a_recovery() {
    let mut b = Bench::new(10, true);
    b.sender.control.ssthresh = 8;
    b.sacks(40_000, 1, 4);
    assert_eq!((b.sender.state(), b.windows().1), (CaState::Recovery, 5));
    b.echo(41_500, 4, START);
    assert_eq!((b.sender.state(), b.windows(), b.sender.scoreboard()), (CaState::Open, (10, 8), (0, 0, 0)));
}

/// RFC 2883: without timestamps, recovery ends at 12 with cwnd = ssthresh = 5. Then the D-SACK of segment 0, the only
/// retransmission, shows that it was for nothing: 10 and 8 are back.
#[test]
fn a_d_sack_of_each_retransmission_undoes_a_recovery() {
    let mut b = Bench::new(10, true);
    b.sender.control.ssthresh = 8;
    b.sacks(40_000, 1, 4);
    b.ack(41_000, 10, &[]);
    b.ack(60_100, 12, &[]);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Open, (5, 5)));
    b.dsack(60_200, 12, (0, 1));
    assert_eq!((b.sender.state(), b.windows()), (CaState::Open, (10, 8)));
}

// Tail loss probes.

/// RFC 8985, 7.2: PTO = 2 * SRTT = 40 ms, and Linux's 2 ms. The receive window is full: the last segment leaves again,
/// and the retransmission timeout runs from then (7.3).
#[test]
fn a_probe_comes_after_two_rtts() {
    let mut b = Bench::full(2);
    assert_eq!((b.sender.pending, b.due()), (Pending::Probe, START + 42_000));
    assert_eq!(b.fire(), (START + 42_000, vec![again(1, 1)]));
    assert_eq!((b.sender.pending, b.due()), (Pending::Timeout, START + 42_000 + 220_000));
}

/// With one segment in flight, PTO allows for a delayed ACK: 2 * 20 + 200 = 240 ms in Linux, but no later than the
/// timeout after 220 ms.
#[test]
fn a_probe_of_one_segment_waits_for_a_delayed_ack() {
    let b = Bench::full(1);
    assert_eq!((b.sender.pending, b.due()), (Pending::Probe, START + 220_000));
}

/// RFC 8985, 7.4.2: the probe repeats segment 9, one ACK covers it, and another one comes for what followed without a
/// D-SACK: the probe repaired a loss. Ten delivered of a window of 10 made that 11: ssthresh = 11 / 2 = cwnd.
#[test]
fn a_probe_that_repaired_a_loss_halves_the_window() {
    let mut b = Bench::full(10);
    b.sender.control.ssthresh = 8;
    let (at, out) = b.fire();
    assert_eq!((at, out), (62_000, vec![again(9, 1)]));
    b.ack(82_000, 10, &[]);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Open, (11, 8)));
    b.ack(102_000, 11, &[]);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Open, (5, 5)));
}

// Timeouts.

/// RFC 6298, 5.5: 220 ms, 440 ms, 880 ms and so on to at most 120 s (2.5). The first one runs from the loss probe.
#[test]
fn each_timeout_doubles_the_next() {
    let mut b = Bench::full(10);
    let mut last = START + 42_000;
    for k in 0..12 {
        let at = b.time_out();
        assert_eq!(at - last, (220_000 << k).min(120_000_000), "timeout {k}");
        last = at;
    }
}

/// RFC 6298, 3 and 5: after two timeouts RTO = 880 ms. The ACK of a retransmission is no sample without timestamps
/// (Karn), and RTO stays; one that echoes the retransmission is a sample of 20 ms: RTO = 20 + 200 ms.
#[test]
fn a_sample_ends_the_back_off() {
    let rto = |echoes: bool| {
        let mut b = Bench::full(10);
        b.time_out();
        let at = b.time_out();
        assert_eq!(b.sender.rtt.rto(), Time::from_millis(880));
        if echoes {
            b.echo(at + 20_000, 1, at)
        } else {
            b.ack(at + 20_000, 1, &[])
        };
        b.sender.rtt.rto()
    };
    assert_eq!([rto(false), rto(true)], [880, 220].map(Time::from_millis));
}

// Receivers that discard what they SACKed (RFC 2018, 8).

/// The receiver SACKs 0 to 4 of ten segments and keeps none. The timeout forgets the SACKs (tcp_timeout_mark_lost): all
/// ten are lost, and slow start sends them again: 1, 2, 4 and the other 3. That takes one timeout.
#[test]
fn a_timeout_that_finds_the_first_segment_sacked_sends_all_again() {
    let mut b = Bench::new(10, false);
    b.ack(40_000, 0, &[(0, 5)]);
    let at = b.time_out();
    assert_eq!((b.sender.state(), b.sender.scoreboard()), (CaState::Loss, (0, 10, 1)));
    let out = [(20_000, 1), (40_000, 3), (60_000, 7)].map(|(after, seq)| b.ack(at + after, seq, &[]));
    assert_eq!(out.each_ref().map(|left| (left[0].0, counts(std::slice::from_ref(left))[0])), [(1, 2), (3, 4), (7, 3)]);
    b.ack(at + 80_000, 10, &[]);
    assert_eq!((b.sender.state(), b.sender.totals.timeouts), (CaState::Open, 1));
}

/// tcp_check_sack_reneging: 1 to 3 are SACKed, and then an ACK ends before 1. The receiver has max(SRTT / 2, 10 ms) to
/// explain itself: 10 ms where SRTT is 20 ms, and (7 / 8 * 20 + 80 / 8) / 2 = 13.75 ms after a sample of 80 ms. Nothing
/// lost leaves meanwhile. Then all SACKs are forgotten.
#[test]
fn an_ack_that_ends_before_a_sacked_segment_sets_a_short_timer() {
    for (at, wait) in [(40_000, 10_000), (100_000, 13_750)] {
        let mut b = Bench::full(10);
        assert_eq!(b.ack(at, 0, &[(1, 4)]), [again(0, 1)]);
        let out = b.ack(at + 20_000, 1, &[]);
        assert!(out.iter().all(|&(_, _, retransmission)| !retransmission), "{out:?}");
        assert_eq!((b.sender.pending, b.due()), (Pending::Timeout, at + 20_000 + wait));
        // A duplicate does not put it off, or it would never come (3d2af9cce313 of Linux).
        b.ack(at + 25_000, 1, &[]);
        assert_eq!(b.due(), at + 20_000 + wait);
        assert_eq!(b.fire().1, [again(1, 1)]);
        let lost = u32::try_from(b.sender.snd_nxt() - 1).unwrap();
        assert_eq!((b.sender.state(), b.sender.scoreboard()), (CaState::Loss, (0, lost, 1)));
    }
}

/// The rest of the SACKed segments is acknowledged in time: the timeout is the usual one again.
#[test]
fn a_receiver_that_kept_what_it_sacked_has_time_to_say_so() {
    let mut b = Bench::full(10);
    b.ack(40_000, 0, &[(1, 4)]);
    b.ack(60_000, 1, &[]);
    b.ack(61_000, 4, &[]);
    assert_eq!((b.sender.pending, b.due()), (Pending::Timeout, 61_000 + 220_000));
    assert_eq!((b.sender.totals.timeouts, b.sender.scoreboard().0), (0, 0));
}

// Use of the window.

/// Linux's tcp_is_cwnd_limited (after RFC 7661): slow start goes on where more than half of the window is in use. With
/// a window of 10, 6 in flight let it grow by those 6; 5 do not.
#[test]
fn slow_start_needs_more_than_half_of_the_window() {
    let cwnd = [5, 6].map(|segments| {
        let mut b = Bench::stream(10, INFINITE_SSTHRESH);
        b.write(START, segments);
        b.ack(START + 20_000, segments, &[]);
        b.windows().0
    });
    assert_eq!(cwnd, [10, 16]);
}

/// Congestion avoidance needs all of it: of 10, 9 in flight are not enough, and 10 let it grow by one.
#[test]
fn congestion_avoidance_needs_all_of_the_window() {
    let cwnd = [9, 10].map(|segments| {
        let mut b = Bench::stream(10, 8);
        b.write(START, segments);
        b.ack(START + 20_000, segments, &[]);
        b.windows().0
    });
    assert_eq!(cwnd, [10, 11]);
}

/// RFC 2861: an application that sends a segment every 100 ms uses one of 40. Once RTO, 220 ms, has passed, the window
/// becomes its mean with what is used, which Linux takes to be no less than the initial window: (40 + 10) / 2 = 25;
/// ssthresh = 3 / 4 * 40 = 30.
#[test]
fn a_window_that_is_not_used_decays() {
    let mut b = Bench::stream(40, 20);
    for k in 0..3 {
        b.write(START + k * 100_000, 1);
        b.ack(START + k * 100_000 + 20_000, k + 1, &[]);
        assert_eq!(b.windows(), (40, 20));
    }
    b.write(START + 300_000, 1);
    assert_eq!(b.windows(), (25, 30));
}
