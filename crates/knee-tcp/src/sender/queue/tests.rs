//! The scoreboard against a model, and what its memory does.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn burst(start: u64, count: u32, now: u64, retransmission: bool) -> Transmission {
    Transmission::new(start, count, Micros(now), 0, retransmission)
}

/// Tells the transmissions apart.
fn begun(now: u64) -> RateStart {
    RateStart { delivered: now, ..RateStart::default() }
}

proptest! {
    /// The scoreboard against a map from segments to their last transmission, whether they are SACKed and whether their
    /// fate is open.
    #[test]
    fn segments_know_their_last_transmission(
        first in 1u32..12,
        steps in prop::collection::vec((0u8..16, prop_oneof![0u64..3, 0u64..30], 1u64..6), 1..300),
    ) {
        let mut rtx = RetransmitQueue::new(true);
        let (mut una, mut nxt) = (0, u64::from(first));
        rtx.push(burst(0, first, 0, false));
        rtx.push_start(begun(0));
        let mut model: BTreeMap<u64, (u64, bool, bool)> = (0..nxt).map(|seq| (seq, (0, false, true))).collect();
        rtx.track(una, nxt);
        for (now, (step, at, count)) in (1..).zip(steps) {
            let seq = (una + at).min(nxt - 1);
            let sacked = model[&seq].1;
            match step {
                0..=3 => {
                    rtx.push(burst(nxt, count as u32, now, false));
                    rtx.push_start(begun(now));
                    model.extend((nxt..nxt + count).map(|seq| (seq, (now, false, true))));
                    nxt += count;
                }
                4..=7 if !sacked => {
                    if rtx.retransmit(seq, burst(seq, 1, now, true)) {
                        rtx.push_start(begun(now));
                    }
                    model.insert(seq, (now, false, true));
                }
                8..=11 => {
                    while let Some((start, end)) = rtx.add_sack((seq, (seq + count).min(nxt))) {
                        for seq in start..end {
                            let sent = rtx.sack(seq).unwrap().1.sent().0;
                            let before = model.insert(seq, (sent, true, false)).unwrap();
                            prop_assert_eq!((before.0, before.1), (sent, false));
                        }
                    }
                }
                12..=14 if nxt - una > count => {
                    while una < seq || una + 1 < nxt && model[&una].1 {
                        let (sent, ..) = model.remove(&una).unwrap();
                        prop_assert_eq!(rtx.pop().unwrap().1.sent().0, sent);
                        una += 1;
                    }
                    rtx.tidy(una);
                }
                15 => {
                    rtx.forget_sacks();
                    for segment in model.values_mut() {
                        segment.1 = false;
                    }
                }
                _ => {}
            }
            for (&seq, &(sent, sacked, _)) in &model {
                prop_assert_eq!(rtx.burst_of(seq).sent(), Micros(sent));
                prop_assert_eq!(rtx.start_of(seq).delivered, sent);
                prop_assert_eq!(rtx.is_sacked((seq, seq + 1)), sacked);
            }
            let open: u32 = rtx.bursts.iter().map(|(_, burst)| burst.open()).sum();
            prop_assert_eq!(open as usize, model.values().filter(|segment| segment.2).count());
        }
    }
}

/// A segment that left again no longer needs the burst that carried it before.
#[test]
fn bursts_whose_segments_left_again_make_room() {
    let mut rtx = RetransmitQueue::default();
    (0..8).for_each(|seq| rtx.push(burst(seq, 1, seq, false)));
    rtx.track(0, 8);
    for now in 8..24 {
        rtx.retransmit(now % 8, burst(now % 8, 1, now, true));
    }
    // 24 were sent.
    assert_eq!(rtx.bursts.capacity(), 16);
    assert_eq!([0, 7].map(|seq| rtx.burst_of(seq).sent()), [16, 23].map(Micros));
}

#[test]
fn more_segments_are_retransmitted_at_one_time_than_a_burst_can_hold() {
    let mut rtx = RetransmitQueue::new(true);
    let segments = u64::from(Transmission::MOST) + 2;
    rtx.push(burst(0, Transmission::MOST, 0, false));
    rtx.push_start(begun(0));
    rtx.push(burst(u64::from(Transmission::MOST), 2, 0, false));
    rtx.push_start(begun(0));
    rtx.track(0, segments);
    for seq in 0..segments {
        if rtx.retransmit(seq, burst(seq, 1, 7, true)) {
            rtx.push_start(begun(7));
        }
    }
    for seq in [0, segments - 3, segments - 2, segments - 1] {
        assert_eq!((rtx.burst_of(seq).sent(), rtx.start_of(seq).delivered), (Micros(7), 7));
    }
}

/// On links of 10 Gbit/s two ACKs come within a microsecond. Packets that the second one lets leave were sent after the
/// packets that it delivered (tcp_rate_skb_sent).
#[test]
fn retransmissions_with_a_delivery_in_between_are_two_bursts() {
    let mut rtx = RetransmitQueue::new(false);
    rtx.push(burst(0, 4, 0, false));
    rtx.track(0, 4);
    let sent = Micros(7);
    assert!(rtx.retransmit(0, Transmission::new(0, 1, sent, 20, true)));
    assert!(!rtx.retransmit(1, Transmission::new(1, 1, sent, 20, true)));
    assert!(rtx.retransmit(2, Transmission::new(2, 1, sent, 21, true)));
    assert_eq!([0, 1, 2].map(|seq| rtx.burst_of(seq).delivered), [20, 20, 21]);
}
