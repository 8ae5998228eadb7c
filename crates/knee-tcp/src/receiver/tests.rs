use super::*;
use disorder::MAX_RECENT;
use proptest::prelude::*;
use std::collections::BTreeSet;

const CONFIG: Config = Config {
    clock: Clock::new(Time::ZERO),
    delayed_ack: Time::from_millis(40),
    sack_delay: Time::from_millis(1),
    rto_min: Time::from_millis(200),
    receive_offload: Time::ZERO,
    window_growth: 0,
};

fn data(seq: u64) -> Packet {
    Packet { payload: Payload::Data { seq: Seq::new(seq), tsval: 1 }, size: 1500, ..Packet::default() }
}

/// An ACK and its SACK blocks.
type Answer = (Reply, Vec<Range>, bool);

fn answer(receiver: &mut Receiver) -> Answer {
    let reply = receiver.reply();
    let blocks = receiver.blocks();
    (reply, blocks.as_slice().to_vec(), blocks.dsack())
}

fn arrives(receiver: &mut Receiver, seq: u64, config: &Config) -> bool {
    receiver.on_data(&data(seq), Time::from_millis(1), config, Time::from_millis(40))
}

fn feed(receiver: &mut Receiver, seqs: impl IntoIterator<Item = u64>) -> Vec<Answer> {
    let mut replies = Vec::new();
    for seq in seqs {
        if arrives(receiver, seq, &CONFIG) {
            replies.push(answer(receiver));
        }
    }
    replies
}

fn settled() -> Receiver {
    let mut receiver = Receiver::new(Ecn::OFF);
    feed(&mut receiver, 0..u64::from(MAX_QUICK_ACKS));
    receiver
}

#[test]
fn the_first_sixteen_segments_are_acknowledged_each_then_every_second() {
    let mut receiver = Receiver::new(Ecn::OFF);
    assert_eq!(feed(&mut receiver, 0..16).len(), 16);
    let seqs: Vec<u64> = feed(&mut receiver, 16..24).iter().map(|r| r.0.seq).collect();
    assert_eq!(seqs, [18, 20, 22, 24]);
}

#[test]
fn a_lone_segment_waits_for_the_delayed_ack() {
    let mut receiver = settled();
    assert!(feed(&mut receiver, [16]).is_empty());
    assert_eq!(receiver.delayed, Timer::set(Time::from_millis(1), Time::from_millis(40)));
    receiver.on_delayed_ack(&CONFIG, Time::from_millis(40));
    assert_eq!(receiver.reply().seq, 17);
}

/// Segments arrive each 123 us, one's time at 98.44 Mbit/s; those of 600 us are one packet, which one ACK acknowledges.
#[test]
fn receive_offload_acknowledges_what_it_joins_once() {
    let config = Config { receive_offload: Time::from_micros(600), ..CONFIG };
    let mut receiver = settled();
    let at = |k: u64| Time::from_millis(100) + Time::from_micros(123 * k);
    for k in 0..5 {
        assert!(!receiver.on_data(&data(16 + k), at(k), &config, Time::from_millis(50)));
        assert_eq!(receiver.compressed_at, at(0) + config.receive_offload);
    }
    assert!(receiver.on_compressed_sack(&CONFIG, Time::from_millis(40)));
    assert_eq!(answer(&mut receiver).0.seq, 21);
    assert_eq!(receiver.compressed_at, Time::MAX);
    // One alone waits for the delayed ACK, and the next one alone acknowledges both.
    assert!(!receiver.on_data(&data(21), at(9), &config, Time::from_millis(50)));
    assert!(!receiver.on_compressed_sack(&CONFIG, Time::from_millis(40)));
    assert!(receiver.delayed.not_before() < Time::MAX);
    assert!(!receiver.on_data(&data(22), at(20), &config, Time::from_millis(50)));
    assert!(receiver.on_compressed_sack(&CONFIG, Time::from_millis(40)));
    assert_eq!(answer(&mut receiver).0.seq, 23);
    // 64 KiB are handed up at once, as is what a gap follows, and a short segment with all before it.
    let now = at(40);
    let held = (23..23 + MAX_JOINED).filter(|&seq| !receiver.on_data(&data(seq), now, &config, Time::ZERO)).count();
    assert_eq!((u64::try_from(held), answer(&mut receiver).0.seq), (Ok(MAX_JOINED - 1), 23 + MAX_JOINED));
    let next = 23 + MAX_JOINED;
    assert!(!receiver.on_data(&data(next), now, &config, Time::ZERO));
    assert!(!receiver.on_data(&data(next + 1), now, &config, Time::ZERO));
    assert!(receiver.on_data(&data(next + 3), now, &config, Time::ZERO));
    assert_eq!(answer(&mut receiver).0.seq, next + 2);
    assert!(receiver.on_data(&data(next + 2), now, &config, Time::ZERO));
    answer(&mut receiver);
    assert!(!receiver.on_data(&data(next + 4), now, &config, Time::ZERO));
    let short = Packet { size: 600, ..data(next + 5) };
    assert!(receiver.on_data(&short, now, &config, Time::ZERO));
    assert_eq!(answer(&mut receiver).0.seq, next + 6);
}

#[test]
fn the_newest_block_comes_first_and_at_most_three_are_sent() {
    let mut receiver = settled();
    let replies = feed(&mut receiver, [18, 20, 22]);
    assert_eq!(replies[2].1, [(22, 23), (20, 21), (18, 19)]);
    let mut receiver = settled();
    let replies = feed(&mut receiver, [18, 20, 19]);
    assert_eq!(replies[2].1, [(18, 21)]);
}

#[test]
fn after_three_duplicates_sacks_are_compressed() {
    let mut receiver = settled();
    assert_eq!(feed(&mut receiver, 17..37).len(), 3);
    assert_eq!(receiver.compressed_at, Time::from_millis(2));
    assert!(receiver.on_compressed_sack(&CONFIG, Time::from_millis(40)));
    assert_eq!(answer(&mut receiver).1, [(17, 37)]);
}

/// SACK blocks of each ACK that leaves as the segments `seqs` arrive, where `flushes_before` is asked before each.
fn flush(receiver: &mut Receiver, seqs: impl IntoIterator<Item = u64>) -> Vec<Vec<Range>> {
    let mut sent = Vec::new();
    for seq in seqs {
        if receiver.flushes_before(&data(seq)) {
            sent.push(answer(receiver).1);
        }
        sent.extend(feed(receiver, [seq]).into_iter().map(|answer| answer.1));
    }
    sent
}

#[test]
fn a_block_beyond_the_second_makes_the_compressed_sack_leave() {
    // tcp_sack_new_ofo_skb. The three duplicates that leave at once, then segments with a gap between each.
    let mut receiver = settled();
    flush(&mut receiver, [17, 18, 19]);
    // The second block opens: nothing is lost yet.
    assert!(flush(&mut receiver, [21, 22]).is_empty());
    assert_eq!(flush(&mut receiver, [24]), [[(21, 23), (17, 20)]]);
    // The ACK that left was that of 24, so neither a count nor a timer runs; with the next one they do.
    assert_eq!(receiver.compressed_at, Time::MAX);
    assert!(flush(&mut receiver, [26]).is_empty());
    assert_eq!(receiver.compressed_at, Time::from_millis(2));
    assert_eq!(flush(&mut receiver, [28]), [[(26, 27), (24, 25), (21, 23)]]);
    // A block among the first two grows without it, one behind them does not.
    assert!(flush(&mut receiver, [29, 27]).is_empty());
    assert_eq!(flush(&mut receiver, [20]), [[(26, 30), (24, 25), (21, 23)]]);
    assert_eq!(answer(&mut receiver).1, [(20, 23), (26, 30), (24, 25)]);
}

#[test]
fn at_each_gap_three_duplicates_leave_at_once() {
    // TCP_FASTRETRANS_THRESH, counted anew as the next segment expected is another one.
    let mut receiver = settled();
    assert_eq!(feed(&mut receiver, 17..27).len(), 3);
    assert_eq!(feed(&mut receiver, [16]).len(), 1);
    assert_eq!(feed(&mut receiver, 28..38).len(), 3);
}

#[test]
fn filling_the_gap_is_acknowledged_at_once() {
    let mut receiver = settled();
    feed(&mut receiver, [17, 18]);
    let replies = feed(&mut receiver, [16]);
    assert_eq!((replies[0].0.seq, replies[0].1.as_slice()), (19, [].as_slice()));
}

#[test]
fn a_duplicate_is_reported_by_d_sack() {
    let mut receiver = settled();
    let replies = feed(&mut receiver, [3]);
    assert!(replies[0].2);
    assert_eq!(replies[0].1, [(3, 4)]);
}

#[test]
fn accurate_ecn_acks_the_first_mark_and_every_second_one_at_once_and_counts_them() {
    let mut receiver = Receiver::new(Ecn::L4S);
    receiver.rcv_nxt = 100;
    receiver.acked = 100;
    receiver.ato = CONFIG.delayed_ack;
    receiver.last_arrival = Time::ZERO;
    receiver.quick_acks = 0;
    let marks = [false, true, true, true, true, false, true];
    let acks: Vec<_> = marks
        .into_iter()
        .zip(100..)
        .map(|(marked, seq)| {
            let flags = Packet::ECT | Packet::L4S | if marked { Packet::CE } else { 0 };
            let packet = Packet { flags, ..data(seq) };
            assert!(!receiver.echoes_apart(&packet));
            receiver.note_ecn(&packet);
            let (now, rtt) = (Time::from_millis(1), Time::from_millis(40));
            let leaves = receiver.on_data(&packet, now, &CONFIG, rtt);
            leaves.then(|| Packet::ace_count(receiver.reply().flags))
        })
        .collect();
    // RFC 9768, 3.2.1 and 3.2.2.5.1: the count begins with 5. The ACK of the fifth packet is that of two packets
    // too.
    assert_eq!(acks, [None, Some(6), None, Some(0), None, Some(1), Some(2)]);
}

/// The segments at which ACKs leave that acknowledge `seqs`, each a millisecond after the one before.
fn acknowledged(receiver: &mut Receiver, seqs: std::ops::Range<u64>, config: &Config) -> Vec<u64> {
    let leaves = |seq: &u64| {
        let leaves = receiver.on_data(&data(*seq), Time::from_millis(1), config, Time::from_millis(40));
        leaves.then(|| receiver.reply()).is_some()
    };
    seqs.filter(leaves).collect()
}

#[test]
fn while_the_window_grows_each_segment_is_acknowledged_at_once() {
    // tcp_grow_window: two segments of 1460 bytes more with each that comes, from 65,535 bytes; the last step is cut.
    let config = Config { window_growth: 65_535 + 2 * 2920 + 1, ..CONFIG };
    let grown = |config| acknowledged(&mut Receiver::new(Ecn::OFF), 0..24, config);
    // icsk_ack.quick is set to 16 first, then `|= 1` with each of the three: sixteen more are quick behind them.
    assert_eq!(grown(&config), [(0..19).collect::<Vec<_>>(), vec![20, 22]].concat());
    assert_eq!(acknowledged(&mut settled(), 16..24, &config), [16, 17, 18, 20, 22]);
    assert_eq!(acknowledged(&mut settled(), 16..24, &CONFIG), [17, 19, 21, 23]);
    // A packet of less than 128 bytes of payload lets nothing grow.
    let mut receiver = settled();
    for (payload, quick) in [(127, false), (128, true)] {
        let packet = Packet { size: 52 + payload, ..data(receiver.in_order()) };
        assert_eq!(receiver.on_data(&packet, Time::from_millis(1), &config, Time::from_millis(40)), quick);
        receiver.reply();
    }
}

/// Linux's pingpong mode: `tcp_in_quickack_mode` is false in it, and whoever reads acknowledges nothing.
#[test]
fn an_end_that_answers_delays_its_acks_until_one_has_waited_in_vain() {
    let config = Config { window_growth: 1 << 20, ..CONFIG };
    let at = |ms| Time::from_millis(ms);
    let answers = |ms| {
        let mut receiver = Receiver::new(Ecn::OFF);
        assert_eq!(acknowledged(&mut receiver, 0..3, &config), [0, 1, 2]);
        receiver.note_data_sent(at(ms), &config);
        receiver
    };
    assert_eq!(acknowledged(&mut Receiver::new(Ecn::OFF), 0..3, &config), [0, 1, 2]);
    // The last packet came at 1 ms.
    assert_eq!(acknowledged(&mut answers(40), 3..9, &config), [4, 6, 8]);
    assert_eq!(acknowledged(&mut answers(41), 3..9, &config), [3, 4, 5, 6, 7, 8]);
    let end = Packet { flags: Packet::PSH, ..data(3) };
    assert!(!answers(40).acknowledges_as_read(&end) && answers(41).acknowledges_as_read(&end));
    // tcp_delack_timer_handler leaves the mode with the usual delay; tcp_enter_quickack_mode, on a duplicate, too.
    let mut receiver = answers(40);
    receiver.on_delayed_ack(&config, at(40));
    assert_eq!((receiver.ato, acknowledged(&mut receiver, 3..5, &config)), (Time::ZERO, vec![3, 4]));
    let mut receiver = answers(40);
    assert_eq!(acknowledged(&mut receiver, 1..2, &config), [1]);
    assert_eq!(acknowledged(&mut receiver, 3..5, &config), [3, 4]);
    // Before data has come, there is nothing to answer.
    let mut receiver = Receiver::new(Ecn::OFF);
    receiver.note_data_sent(Time::ZERO, &config);
    assert_eq!(acknowledged(&mut receiver, 0..3, &config), [0, 1, 2]);
}

#[test]
fn after_a_pause_of_more_than_the_retransmission_timeout_acks_are_quick_again() {
    // tcp_event_data_recv. The timeout after one sample: the RTT and the greater of twice that and 200 ms.
    for (rtt, timeout) in [(1, 201), (40, 240), (103, 309), (400, 1200)] {
        for (pause, quick) in [(timeout, false), (timeout + 1, true), (5000, true)] {
            let mut receiver = settled();
            let now = Time::from_millis(1 + pause);
            let at_once = receiver.on_data(&data(16), now, &CONFIG, Time::from_millis(rtt));
            assert_eq!(at_once, quick, "{pause} ms at an RTT of {rtt}");
        }
    }
}

#[test]
fn the_delay_of_acks_follows_the_intervals_of_arrivals() {
    // tcp_event_data_recv with TCP_ATO_MIN of 40 ms: at most half of that halves the distance to it; below the
    // delay, half the delay and the interval; above, the delay stays.
    let delay = |gaps: &[u64]| {
        let mut receiver = settled();
        let mut now = 1;
        for (gap, seq) in gaps.iter().zip(16..) {
            now += gap;
            receiver.on_data(&data(seq), Time::from_millis(now), &CONFIG, Time::from_millis(40));
            receiver.reply();
        }
        receiver.ato.max(CONFIG.delayed_ack).as_millis()
    };
    assert_eq!((delay(&[]), delay(&[20]), delay(&[30]), delay(&[200])), (40, 40, 50, 40));
    assert_eq!((delay(&[30, 20]), delay(&[30, 21]), delay(&[30, 49, 60])), (45, 46, 97));
    // Sixteen quick ACKs lead back to the usual one (tcp_dec_quickack_mode).
    assert_eq!((delay(&[30, 300]), delay(&[&[30, 300][..], &[50; 15]].concat())), (50, 40));
    // A delayed ACK that runs out doubles it, to at most the timeout of 240 ms.
    let mut receiver = settled();
    let doubled = [(); 4].map(|()| {
        receiver.on_delayed_ack(&CONFIG, Time::from_millis(40));
        receiver.ato.as_millis()
    });
    assert_eq!(doubled, [80, 160, 240, 240]);
}

#[test]
fn the_kernel_counts_intervals_in_ticks() {
    // With ticks of 10 ms, from 1, 9 or 11 ms to 29 ms are two or one of them: no more than half of the delay of 40 ms.
    for (first, ms) in [(1, 40), (9, 40), (11, 40)] {
        let config = Config { clock: Clock::new(Time::from_millis(10)), ..CONFIG };
        let mut receiver = settled();
        receiver.last_arrival = Time::from_millis(first);
        receiver.on_data(&data(16), Time::from_millis(29), &config, Time::from_millis(40));
        assert_eq!(receiver.ato.max(CONFIG.delayed_ack).as_millis(), ms, "{first}");
    }
    let config = Config { clock: Clock::new(Time::from_millis(10)), ..CONFIG };
    let mut receiver = settled();
    receiver.on_data(&data(16), Time::from_millis(30), &config, Time::from_millis(40));
    assert_eq!(receiver.ato.as_millis(), 50, "29 ms are three ticks where one begins");
}

#[test]
fn a_delayed_ack_waits_no_longer_than_the_round_trip() {
    // tcp_send_delayed_ack: the greater of 40 ms and the RTT of the handshake, and at most 200 ms.
    for (rtt, longest) in [(5, 40), (40, 41), (103, 104), (500, 200)] {
        let config = Config { clock: Clock::new(Time::from_millis(1)), ..CONFIG };
        let mut receiver = settled();
        (0..4).for_each(|_| receiver.on_delayed_ack(&config, Time::from_millis(rtt)));
        receiver.on_data(&data(16), Time::from_millis(150), &config, Time::from_millis(rtt));
        assert_eq!(receiver.delayed, Timer::set(Time::from_millis(150), Time::from_millis(longest)), "{rtt}");
    }
}

#[test]
fn an_ack_carries_blocks_as_long_as_there_is_a_gap() {
    let sent = |receiver: &mut Receiver, seq: u64| {
        assert!(arrives(receiver, seq, &CONFIG));
        let mut sent = Vec::new();
        let reply = receiver.reply();
        assert_eq!(receiver.is_disturbed(), receiver.has_blocks());
        receiver.answer(reply, |full| {
            assert_eq!(full.is_bare(), full.blocks.is_empty());
            // RFC 2018, 3: eight bytes for each block and two more, padded to words.
            let size = [0, 12, 20, 28][full.blocks.as_slice().len()];
            assert_eq!(full.blocks.option_size(), size);
            sent.push((full.reply.seq, full.blocks.as_slice().to_vec()));
        });
        sent
    };
    let mut receiver = settled();
    assert_eq!(sent(&mut receiver, 18), [(16, vec![(18, 19)])]);
    assert_eq!(sent(&mut receiver, 20), [(16, vec![(20, 21), (18, 19)])]);
    assert_eq!(sent(&mut receiver, 19), [(16, vec![(18, 21)])]);
    assert_eq!(sent(&mut receiver, 16), [(17, vec![(18, 21)])]);
    assert_eq!(sent(&mut receiver, 17), [(21, vec![])]);
    assert!(!receiver.is_disturbed());
    // RFC 2883, 4: a D-SACK block goes once.
    assert_eq!(sent(&mut receiver, 3), [(21, vec![(3, 4)])]);
    assert!(!receiver.is_disturbed());
}

#[test]
fn four_ranges_are_remembered() {
    // TCP_NUM_SACKS. The first one, at 18, is forgotten as the fifth comes, and not reported when there is room.
    let mut receiver = settled();
    let config = Config { sack_delay: Time::ZERO, ..CONFIG };
    let blocks = [18, 20, 22, 24, 26, 25, 21].map(|seq| {
        assert!(arrives(&mut receiver, seq, &config));
        answer(&mut receiver).1
    });
    assert_eq!(blocks[5], [(24, 27), (22, 23), (20, 21)]);
    assert_eq!(blocks[6], [(20, 23), (24, 27)]);
}

#[test]
fn a_receiver_that_misbehaves_acknowledges_every_segment_at_once() {
    for entry in &ENTRIES[1..] {
        let mut receiver = Receiver::new(Ecn::OFF);
        receiver.misbehave(entry.make(&knee_core::Params::defaults(entry.params)).expect("it misbehaves"));
        assert_eq!(acknowledged(&mut receiver, 0..40, &CONFIG).len(), 40, "{}", entry.name);
        assert_eq!((receiver.in_order(), receiver.claimed()), (40, 40));
    }
}

#[test]
fn what_was_claimed_is_what_acks_said_at_the_most() {
    let entry = find("optimistic-acks").unwrap();
    let params = knee_core::Params::resolve(entry.params, [("ahead", knee_core::Value::Count(10))]).unwrap();
    let mut receiver = Receiver::new(Ecn::OFF);
    receiver.misbehave(entry.make(&params).unwrap());
    assert!(arrives(&mut receiver, 0, &CONFIG));
    let reply = receiver.reply();
    receiver.answer(reply, |full| assert_eq!(full.reply.seq, 11));
    assert_eq!((receiver.in_order(), receiver.claimed()), (1, 11));
}

/// RFC 8257, 3.2, with delayed ACKs: before the CE state changes, what came in the old state is acknowledged.
#[test]
fn per_packet_echoes_of_marked_and_unmarked_packets_are_apart() {
    let mut receiver = Receiver::new(Ecn::PER_PACKET);
    receiver.last_arrival = Time::ZERO;
    receiver.ato = CONFIG.delayed_ack;
    let echoed: Vec<_> = [false, false, true, true, false, false, false, true]
        .into_iter()
        .zip(0..)
        .map(|(marked, seq)| {
            let packet = Packet { flags: Packet::ECT | if marked { Packet::CE } else { 0 }, ..data(seq) };
            let before = receiver.echoes_apart(&packet).then(|| receiver.reply());
            receiver.note_ecn(&packet);
            let (now, rtt) = (Time::from_millis(1), Time::from_millis(40));
            let after = receiver.on_data(&packet, now, &CONFIG, rtt).then(|| receiver.reply());
            [before, after].map(|reply| reply.map(|reply| (reply.seq, reply.flags & Packet::ECE != 0)))
        })
        .collect();
    let expected = [
        [None, None],
        [None, Some((2, false))],
        // The state changes while nothing is unacknowledged.
        [None, Some((3, true))],
        [None, None],
        [Some((4, true)), Some((5, false))],
        [None, None],
        [None, Some((7, false))],
        [None, Some((8, true))],
    ];
    assert_eq!(echoed, expected);
}

#[test]
fn classic_ecn_echoes_a_mark_until_the_sender_has_reduced_its_window() {
    // RFC 3168, 6.1.3.
    let mut receiver = Receiver::new(Ecn::CLASSIC);
    let mut takes = |flags: u8, seq: u64| {
        let packet = Packet { flags: Packet::ECT | flags, ..data(seq) };
        receiver.note_ecn(&packet);
        receiver.on_data(&packet, Time::from_millis(1), &CONFIG, Time::from_millis(40));
        receiver.reply().flags & Packet::ECE != 0
    };
    let flags = [0, Packet::CE, 0, Packet::CWR, 0, Packet::CE, Packet::CWR | Packet::CE];
    let echoes: Vec<_> = flags.into_iter().zip(0..).map(|(flags, seq)| takes(flags, seq)).collect();
    assert_eq!(echoes, [false, true, true, false, false, true, true]);
}

proptest! {
    /// Each segment counts once, in the moment in which it arrives first, in whatever order and however often they
    /// come.
    #[test]
    fn payload_counts_as_it_first_arrives(seqs in prop::collection::vec(0u64..40, 1..120)) {
        let mut receiver = Receiver::new(Ecn::OFF);
        let mut came = BTreeSet::new();
        for seq in seqs {
            came.insert(seq);
            if arrives(&mut receiver, seq, &CONFIG) {
                answer(&mut receiver);
            }
            prop_assert_eq!(receiver.delivered_bytes(), came.len() as u64 * u64::from(MSS));
        }
    }

    /// Without lost ACKs the sender learns of all that came before the newest ACK, however many gaps there are.
    #[test]
    fn every_segment_is_reported(
        lost in 0.0f64..0.5, coins in prop::collection::vec(0.0f64..1.0, 300), timers in any::<u64>()
    ) {
        let mut receiver = settled();
        let (mut came, mut told) = (BTreeSet::new(), BTreeSet::new());
        for ((seq, coin), i) in (17u64..).zip(coins).zip(0u32..) {
            if coin < lost {
                continue;
            }
            let before = came.clone();
            if receiver.flushes_before(&data(seq)) {
                told.extend(answer(&mut receiver).1.into_iter().flat_map(|(start, end)| start..end));
                prop_assert_eq!(&told, &before);
            }
            came.insert(seq);
            let timer = (timers >> (i % 64)) & 1 == 1;
            if arrives(&mut receiver, seq, &CONFIG) || (timer && receiver.on_compressed_sack(&CONFIG, Time::from_millis(40))) {
                told.extend(answer(&mut receiver).1.into_iter().flat_map(|(start, end)| start..end));
                prop_assert_eq!(&told, &came);
            }
        }
    }

    /// RFC 2018, 4: the first block holds the segment that triggered the ACK, all tell only of what came, and as
    /// long as there are no more ranges than are remembered, the first block is all of its range.
    #[test]
    fn the_first_block_is_the_range_of_the_newest_segment(seqs in prop::collection::vec(17u64..60, 1..60)) {
        let config = Config { sack_delay: Time::ZERO, ..CONFIG };
        let mut receiver = settled();
        let (mut came, mut most) = (BTreeSet::new(), 0);
        for seq in seqs {
            if !came.insert(seq) {
                continue;
            }
            prop_assert!(arrives(&mut receiver, seq, &config));
            let blocks = answer(&mut receiver).1;
            most = most.max(came.iter().filter(|&s| !came.contains(&(s + 1))).count());
            let (start, end) = blocks[0];
            prop_assert!((start..end).contains(&seq));
            prop_assert!(blocks.iter().all(|&(start, end)| (start..end).all(|s| came.contains(&s))));
            if most <= MAX_RECENT {
                prop_assert!(!came.contains(&(start - 1)) && !came.contains(&end));
            }
        }
        // The gap is filled: all that came is in order up to the next hole.
        prop_assert!(arrives(&mut receiver, 16, &config));
        prop_assert_eq!(receiver.in_order(), (17..=60).find(|s| !came.contains(s)).unwrap());
    }
}
