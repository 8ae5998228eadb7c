//! Reports of ACKs: SACKs, D-SACKs, reordering, parts of segments; probes and timers; the window's use.

use super::*;

// Reordering.

/// RFC 8985, 6.2 step 3: segments 0 and 1 were sent once and come after 5 was SACKed. The distance to the highest one
/// SACKed is 6. Where all before the highest SACK was repaired, what follows it is in order.
#[test]
fn an_ack_below_a_sack_shows_reordering() {
    let mut b = Bench::new(10, true);
    b.ack(40_000, 0, &[(5, 6)]);
    b.ack(40_100, 2, &[(5, 6)]);
    assert_eq!((b.sender.rack.reorder_seen, b.sender.recovery.reordering), (true, 6));
    let mut b = Bench::new(10, true);
    b.sacks(40_000, 1, 4);
    b.ack(60_200, 6, &[]);
    assert!(!b.sender.rack.reorder_seen);
}

/// RFC 8985, 6.2 step 2: an ACK of a retransmission counts for RACK unless it came within min_RTT, 20 ms, or echoes an
/// older timestamp: then the original arrived. Segment 0 left again at 40.2 ms.
#[test]
fn rack_takes_no_time_from_a_retransmission_that_was_not_answered() {
    let newest = |at, echoed: u64| {
        let mut b = Bench::new(10, true);
        b.sacks(40_000, 1, 4);
        if echoed > 0 {
            b.echo(at, 1, echoed)
        } else {
            b.ack(at, 1, &[])
        };
        (b.sender.rack.newest.0.0, b.sender.rack.newest.1)
    };
    assert_eq!(newest(60_200, 0), (40_200, 1));
    assert_eq!(newest(60_200, 40_200), (40_200, 1));
    assert_eq!(newest(60_100, 0), (START, 4), "within 19.9 ms");
    assert_eq!(newest(65_000, START), (START, 4), "an older echo");
}

/// RFC 8985, 6.2 step 5 runs where the newest delivery moved: a duplicate 26 ms after sending finds nothing, though 25
/// ms are over. The timer does, and PRR lets one segment leave: cwnd = 4 in flight + 1.
#[test]
fn rack_looks_for_losses_on_a_delivery_or_its_timer() {
    let mut b = Bench::new(10, true);
    b.ack(40_000, 0, &[(5, 6)]);
    let left = b.sender.snd_nxt();
    b.ack(46_000, 0, &[]);
    assert_eq!((b.sender.scoreboard().1, b.sender.snd_nxt()), (0, left));
    assert_eq!(b.fire(), (47_000, vec![again(0, 1)]));
    assert_eq!((b.sender.scoreboard(), b.windows()), ((1, 5, 1), (6, 5)));
}

// RTT.

/// RFC 6298, 3 (Karn): an ACK of segments of which one was sent twice is no sample without timestamps.
#[test]
fn no_sample_is_taken_where_a_retransmission_is_acknowledged() {
    let mut b = Bench::new(10, true);
    b.sacks(40_000, 1, 4);
    let srtt = b.sender.srtt();
    b.ack(100_000, 5, &[]);
    assert_eq!(b.sender.srtt(), srtt);
}

// D-SACKs.

/// RFC 2883, 4: a D-SACK of two segments reports two deliveries (tcp_dsack_seen), and is ignored where more was
/// reported than was sent again.
#[test]
fn a_d_sack_counts_the_segments_it_reports() {
    let mut b = Bench::new(10, true);
    b.sender.totals.retransmitted = 3;
    let before = b.sender.view.delivered;
    b.dsack(40_000, 10, (5, 7));
    assert_eq!(b.sender.view.delivered - before, 10 + 2);
    b.dsack(40_100, 10, (7, 9));
    assert_eq!(b.sender.view.delivered - before, 10 + 2);
}

/// RFC 8985, 6.2 step 4 widens the window only once reordering was seen, and not for a probe that was not needed.
#[test]
fn a_d_sack_widens_the_window_where_reordering_was_seen() {
    for (seen, probe, widened) in
        [(false, false, false), (true, false, true), (true, true, false), (false, true, false)]
    {
        let mut b = Bench::full(10);
        b.sender.rack.reorder_seen = seen;
        assert_eq!(b.fire().1, [again(9, 1)]);
        b.dsack(63_000, 10, if probe { (9, 10) } else { (3, 4) });
        assert_eq!(b.sender.widened, widened, "{seen} {probe}");
    }
}

/// RFC 2883, 4.1: duplicates beyond the cumulative ACK. 0 to 14 of 20 are lost, 0, 1 and 2 leave again. The original of
/// 1 comes, and 3 leaves: four retransmissions. A D-SACK of 5, which was sent once, is of none of them, and 4 leaves:
/// five. One of 1 is of the first, and 5 leaves: five again. So 1 came after 19, a distance of 20 - 1.
#[test]
fn a_d_sack_beyond_the_ack_takes_one_retransmission_off() {
    let mut b = Bench::new(20, true);
    b.sacks(40_000, 15, 20);
    b.ack(45_000, 0, &[(1, 2), (15, 20)]);
    assert_eq!(b.sender.recovery.undo.retransmissions, 4);
    let mut dsack = |at, first| {
        b.take(at, &AckInfo { blocks: &[first, (1, 2), (15, 20)], dsack: true, ..AckInfo::plain(0, 0, 0) });
        (b.sender.recovery.undo.retransmissions, b.sender.rack.reorder_seen, b.sender.recovery.reordering)
    };
    assert_eq!(dsack(46_000, (5, 6)), (5, false, 3));
    assert_eq!(dsack(47_000, (1, 2)), (5, true, 19));
}

/// The timeout's retransmissions of 3 and 4 are in flight when an echo undoes it. 4 is SACKed, and a D-SACK reports it:
/// that retransmission is not in flight any more.
#[test]
fn a_d_sack_of_a_sacked_segment_ends_its_retransmission() {
    let (mut b, at) = timed_out(false);
    b.ack(at + 20_000, 1, &[]);
    assert_eq!(b.ack(at + 40_000, 2, &[]), [again(3, 1), again(4, 1)]);
    b.echo(at + 41_000, 3, START);
    let retransmitted = |b: &Bench, seq| b.sender.rtx.flags(seq) & flags::RETRANSMITTED != 0;
    b.ack(at + 42_000, 3, &[(4, 5)]);
    assert!(retransmitted(&b, 4));
    b.take(at + 43_000, &AckInfo { blocks: &[(4, 5), (4, 5)], dsack: true, ..AckInfo::plain(3, 0, 0) });
    assert!(!retransmitted(&b, 4));
    let in_flight = (3..10).filter(|&seq| retransmitted(&b, seq)).count();
    assert_eq!(b.sender.scoreboard().2 as usize, in_flight);
}

// Parts of segments.

/// Linux counts bytes: an ACK of 700 bytes of segment 10 is beyond the probe of segment 9, which repaired a loss, and
/// neither a duplicate nor news where less of the same segment comes after it.
#[test]
fn an_ack_of_a_part_of_a_segment_is_progress() {
    let mut b = Bench::full(10);
    b.sender.control.ssthresh = 8;
    assert_eq!(b.fire().1, [again(9, 1)]);
    b.ack(82_000, 10, &[]);
    let part = |b: &mut Bench, at, part| b.take(at, &AckInfo { part, ..AckInfo::plain(10, 0, 0) });
    part(&mut b, 102_000, 700);
    assert_eq!((b.windows(), b.sender.reached), ((5, 5), (10, 700)));
    part(&mut b, 102_100, 300);
    assert_eq!((b.sender.state(), b.sender.reached), (CaState::Open, (10, 700)));
}

// Probes and timers.

/// RFC 8985, 7.3: no second probe while the first one's fate is open, be it new data or the last segment again. The
/// timeout runs instead, from when the oldest segment was sent (tcp_rearm_rto): SRTT = 20 + (43 - 20) / 8 = 22.875 ms,
/// and RTO is 200 ms more.
#[test]
fn one_probe_is_in_flight_at_a_time() {
    for (mut b, probe) in [(Bench::new(10, true), new(10, 1)), (Bench::full(10), again(9, 1))] {
        assert_eq!(b.fire(), (62_000, vec![probe]));
        b.ack(63_000, 5, &[]);
        assert_eq!(b.sender.pending, Pending::Probe);
        assert_eq!(b.fire().1, []);
        assert_eq!((b.sender.pending, b.due()), (Pending::Timeout, START + 222_875));
    }
}

/// RFC 8985, 7.2: without an RTT a probe comes after 1 s, and so would the timeout (RFC 6298, 2.1).
#[test]
fn without_an_rtt_a_probe_comes_after_a_second() {
    let b = Bench::without_rtt();
    assert_eq!((b.sender.pending, b.due()), (Pending::Probe, START + 1_000_000));
}

/// RFC 8985, 7.2: a probe comes no later than the timeout of the oldest segment, unless that time is past: of 20 ms and
/// RTO = 220 ms it is 240 ms. A write before it is probed for at 240 ms, later ones after 2 * SRTT and 2 ms.
#[test]
fn a_probe_waits_for_no_timeout_that_is_past() {
    for (written, due) in [(239_999, 240_000), (240_000, 282_000), (241_000, 283_000)] {
        let mut b = Bench::stream(10, INFINITE_SSTHRESH);
        b.write(START, 2);
        assert_eq!(b.fire(), (62_000, vec![again(1, 1)]));
        b.write(written, 1);
        assert_eq!((b.sender.pending, b.due()), (Pending::Probe, due));
    }
}

/// RFC 6298, 5.3: an ACK of new data restarts the timeout, 220 ms; 5.1: so does the oldest segment that leaves again.
#[test]
fn progress_in_recovery_restarts_the_timeout() {
    let mut b = Bench::new(10, true);
    b.ack(40_000, 0, &[(1, 4)]);
    assert_eq!((b.sender.pending, b.due()), (Pending::Timeout, 40_000 + 220_000));
    b.ack(41_500, 4, &[]);
    assert_eq!((b.sender.pending, b.due()), (Pending::Timeout, 41_500 + 220_000));
    assert_eq!(b.sender.due(), Time::from_micros(b.due()));
}

// Use of the window.

/// RFC 2861: a window of which the initial one is used has nothing to decay to.
#[test]
fn the_initial_window_does_not_decay() {
    let mut b = Bench::stream(10, 5);
    for k in 0..5 {
        b.write(START + k * 100_000, 1);
        b.ack(START + k * 100_000 + 20_000, k + 1, &[]);
    }
    assert_eq!(b.windows(), (10, 5));
}

/// tcp_rate_check_app_limited, as the application writes: the window has room, and there was nothing to send. A receive
/// window that is full is no application's limit.
#[test]
fn what_limits_sending_is_known() {
    let limited = |b: Bench| b.sender.view.app_limited;
    let mut few = Bench::stream(10, INFINITE_SSTHRESH);
    few.write(START, 3);
    let config = config(10, 5);
    let narrow = Bench { sender: testing::sender("reno", None, false, &config), config };
    assert!(limited(few) && !limited(narrow));
    assert!(!limited(Bench::new(10, true)) && !limited(Bench::new(10, false)));
}

/// The mean window: 10 packets for 20 ms, and, grown by one, 11 for 30 ms.
#[test]
fn the_window_is_summed_over_time() {
    let mut b = Bench::new(10, true);
    b.sender.note_cwnd(Time::from_micros(START));
    let start = b.sender.totals.cwnd_integral.0;
    b.ack(40_000, 1, &[]);
    assert_eq!(b.windows().0, 11);
    b.sender.note_cwnd(Time::from_millis(70));
    assert_eq!(b.sender.totals.cwnd_integral.0 - start, 10 * 20_000_000 + 11 * 30_000_000);
}

/// Two writes of 100 bytes are two packets of 152. A probe sends the second again, the timeout the first: four packets.
#[test]
fn a_short_segment_counts_its_own_bytes_whenever_it_leaves() {
    let mut b = Bench::stream(10, INFINITE_SSTHRESH);
    for at in [START, START + 1_000].map(Time::from_micros) {
        b.sender.write(100, at, at, &b.config);
        b.sender.send(at, &b.config, &mut Vec::new());
    }
    b.time_out();
    assert_eq!((b.sender.counters().sent, b.sender.counters().sent_bytes), (4, 4 * 152));
}

/// The last segment of 9 * 1448 + 100 bytes is a short one.
#[test]
fn the_last_segment_counts_its_own_bytes() {
    let sent = |bytes| {
        let config = config(10, 1_000);
        let sender = testing::sender("reno", Some(bytes), false, &config);
        sender.counters().sent_bytes
    };
    assert_eq!(sent(10 * 1448) - sent(9 * 1448 + 100), 1348);
}
