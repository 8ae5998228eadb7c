//! Timeouts, F-RTO, undo, and reductions by ECN.

use super::*;
use knee_core::Packet;

// Timeouts.

/// RFC 5681, 3.1: ssthresh is set when a segment that was not resent by the timer is lost; further timeouts keep it. An
/// ACK in between makes it the next segment's first timeout: ssthresh = max(cwnd / 2, 2) with cwnd = 2.
#[test]
fn a_timeout_in_a_row_keeps_ssthresh() {
    let (mut b, _) = timed_out(true);
    let at = b.time_out();
    assert_eq!(b.windows(), (1, 5));
    b.ack(at + 20_000, 1, &[]);
    assert_eq!(b.windows(), (2, 5));
    b.time_out();
    assert_eq!(b.windows(), (1, 2));
}

/// A timeout during recovery belongs to the same loss: ssthresh stays at half of 10, 5.
#[test]
fn a_timeout_during_recovery_keeps_ssthresh() {
    let mut b = Bench::new(10, true);
    b.sacks(40_000, 1, 4);
    assert_eq!((b.sender.state(), b.windows().1), (CaState::Recovery, 5));
    b.time_out();
    assert_eq!((b.sender.state(), b.windows()), (CaState::Loss, (1, 5)));
}

/// tcp_timeout_mark_lost: a segment sent less than RACK.rtt = 20 ms ago is not lost, and the window leaves room for it.
/// Ten segments are in flight; 1 to 3 are SACKed, and 0 leaves again at 40 ms, in vain. At 260 ms the other seven are
/// lost, and the two sent at 250 ms are not: cwnd = 2 + 1. Segments sent at 240 ms are lost.
#[test]
fn a_timeout_spares_what_was_just_sent() {
    for (written, lost, cwnd) in [(250_000, 7, 3), (240_000, 9, 1)] {
        let mut b = Bench::stream(20, INFINITE_SSTHRESH);
        b.write(START, 10);
        assert_eq!(b.ack(40_000, 0, &[(1, 4)]), [again(0, 1)]);
        b.write(written, 2);
        assert_eq!(b.time_out(), 260_000);
        assert_eq!((b.sender.scoreboard(), b.windows().0), ((3, lost, 1), cwnd));
    }
}

// F-RTO.

/// RFC 5682, 3.1: no F-RTO where the timeout interrupts recovery; Linux applies it to a repeated timeout. Segment 4 was
/// sent once, and its ACK says that the timeout was spurious.
#[test]
fn frto_is_for_a_first_timeout_or_a_repeated_one() {
    let state = |timeouts| {
        let mut b = Bench::new(10, true);
        b.sacks(40_000, 1, 4);
        let at = (0..timeouts).map(|_| b.time_out()).last().unwrap();
        b.ack(at + 100, 5, &[]);
        b.sender.state()
    };
    assert_eq!([state(1), state(2)], [CaState::Loss, CaState::Open]);
}

/// Step 3b takes SACKs as well: segment 5, SACKed, was sent once and before the timeout.
#[test]
fn frto_undoes_a_timeout_on_a_sack_of_an_original() {
    let (mut b, at) = timed_out(true);
    b.ack(at + 20_000, 1, &[]);
    b.ack(at + 20_100, 1, &[(5, 6)]);
    assert_eq!(b.windows(), (10, 8));
    // A SACK of what left after it, 11, says nothing of the kind.
    let (mut b, at) = timed_out(true);
    b.ack(at + 20_000, 1, &[]);
    b.ack(at + 20_100, 1, &[(11, 12)]);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Loss, (2, 5)));
}

/// Step 3a without SACKs: a duplicate ends F-RTO, and an original that comes later no longer undoes the timeout.
#[test]
fn frto_ends_with_a_duplicate_without_sacks() {
    let (mut b, at) = timed_out(true);
    b.ack(at + 20_000, 1, &[]);
    b.ack(at + 20_100, 1, &[]);
    b.ack(at + 20_200, 3, &[]);
    assert_eq!(b.sender.state(), CaState::Loss);
}

/// Linux's tcp_process_loss goes to step 2b on progress only: a duplicate before it changes nothing.
#[test]
fn frto_waits_for_progress() {
    let (mut b, at) = timed_out(true);
    assert_eq!(b.ack(at + 10_000, 0, &[]), []);
    assert_eq!(b.ack(at + 20_000, 1, &[]), [new(11, 1), new(12, 1)]);
}

/// RACK finds a retransmission lost while the timeout is repaired: 1 and 2 left again at one time, and the SACK of 2
/// comes a round trip later. Linux goes on in recovery (tcp_fastretrans_alert). An echo of the first retransmission,
/// not of an original, undoes nothing.
#[test]
fn a_lost_retransmission_turns_a_timeout_into_recovery() {
    let (mut b, at) = timed_out(false);
    assert_eq!(b.ack(at + 20_000, 1, &[]), [again(1, 1), again(2, 1)]);
    assert_eq!(b.ack(at + 40_000, 1, &[(2, 3)])[0], again(1, 1));
    assert_eq!(b.sender.state(), CaState::Recovery);
    b.echo(at + 60_000, 3, at);
    assert_eq!((b.sender.state(), b.sender.recovery.undo.marker.is_some()), (CaState::Recovery, true));
}

// Undo.

/// RFC 3522 after more ACKs in recovery, and with the ACK that ends it: 10 and 8 are back each time.
#[test]
fn eifel_undoes_a_recovery_until_its_end() {
    for (sacked, acked) in [(7, 7), (4, 12)] {
        let mut b = Bench::new(10, true);
        b.sender.control.ssthresh = 8;
        b.sacks(40_000, 1, sacked);
        assert_eq!(b.sender.state(), CaState::Recovery);
        b.echo(41_500, acked, START);
        assert_eq!(b.windows(), (10, 8));
    }
}

/// Losses that an undo took back are no losses; the same segments may be lost later after all. 0 is lost with the third
/// SACK, comes late, and 4 is lost by the timeout.
#[test]
fn a_loss_that_was_undone_is_not_counted() {
    let mut b = Bench::full(10);
    b.sacks(40_000, 1, 4);
    assert_eq!((b.sender.losses(), b.sender.counters().lost), (1, 1));
    let (mut b, at) = timed_out(true);
    let before = b.sender.losses();
    b.echo(at + 100, 1, START);
    let (unmarked, again) = (u64::from(b.sender.totals.unmarked), b.sender.totals.lost_again);
    assert_eq!((b.sender.losses(), before, again), (11, 11, 0));
    assert!(unmarked > 0);
    b.time_out();
    assert!(b.sender.totals.lost_again > 0 && b.sender.totals.lost_again <= unmarked);
    assert_eq!(u64::from(b.sender.totals.unmarked) + b.sender.totals.lost_again, unmarked);
    assert_eq!(b.sender.counters().lost, b.sender.losses() - b.sender.totals.lost_again);
}

/// RFC 8985, 6.2 step 4: a widened window lasts for 16 recoveries (TCP_RACK_RECOVERY_THRESH).
#[test]
fn a_wider_reordering_window_lasts_for_16_recoveries() {
    let mut b = Bench::new(10, true);
    b.sender.rack.reorder_seen = true;
    b.sender.totals.retransmitted = 1;
    b.dsack(40_000, 10, (0, 1));
    assert_eq!(b.sender.rack.reorder_steps, 2);
    let mut at = 60_000;
    for _ in 0..16 {
        b.sender.rack.reorder_seen = false;
        let una = b.sender.snd_una();
        b.ack(at, una, &[(una + 1, una + 4)]);
        assert_eq!((b.sender.state(), b.sender.rack.reorder_steps), (CaState::Recovery, 2));
        // The ACK of all comes after a round trip, and another one for what it let leave.
        let all = b.sender.snd_nxt();
        b.echo(at + 20_000, all, at);
        let all = b.sender.snd_nxt();
        b.echo(at + 40_000, all, at + 20_000);
        at += 60_000;
    }
    assert_eq!(b.sender.rack.reorder_steps, 1);
}

// Reductions by ECN.

/// RFC 3168, 6.1.2 and Linux's CWR: an echo halves the window once, 10 to 5. That ends when something beyond segment 10
/// is acknowledged: the flag CWR may not have reached the receiver before. The rest of the round trip echoes in vain.
#[test]
fn an_ecn_echo_halves_the_window_once_in_a_round_trip() {
    let mut b = Bench::new(10, true);
    let echo = |b: &mut Bench, at, seq| {
        b.take(at, &AckInfo::plain(seq, 0, Packet::ECE));
        (b.sender.state(), b.windows().1)
    };
    b.sender.control.ssthresh = 10;
    assert_eq!(echo(&mut b, 40_000, 1), (CaState::Cwr, 5));
    assert_eq!(echo(&mut b, 40_100, 2), (CaState::Cwr, 5));
    b.ack(40_200, 10, &[]);
    assert_eq!(b.sender.state(), CaState::Cwr);
    b.ack(60_000, 11, &[]);
    assert_eq!((b.sender.state(), b.windows()), (CaState::Open, (5, 5)));
}
