use super::*;
use crate::testing::Ideal;

const RTT: Time = Time::from_millis(40);
const LADDER: [u64; 6] = [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000];

fn spec(algorithm: Algorithm) -> Params {
    let (segment, buffer) = (Time::from_secs(4), Time::from_secs(240));
    Params { segment, buffer, algorithm, length: Time::MAX }
}

fn run(spec: Params, link: u64, stop: Option<u64>) -> Ideal {
    let mut net = Ideal::new(RTT, Rate::from_bps(link));
    net.run(&mut Video::new(LADDER.to_vec(), spec), stop.map(Time::from_secs));
    net
}

fn bitrates(net: &Ideal) -> Vec<u64> {
    net.of(What::Segment).iter().map(|c| c.value as u64).collect()
}

/// With 240 s: f is 250 kbit/s at 90 s and 8 Mbit/s at 216 s, 61508 bit/s more for each second.
#[test]
fn bba_follows_its_map_with_hand_worked_numbers() {
    let choose = |last, s| buffer_based(&LADDER, spec(Algorithm::Bba), last, Time::from_secs(s));
    assert_eq!([0, 40, 90].map(|s| choose(4, s)), [0, 0, 0]);
    assert_eq!([216, 230, 240].map(|s| choose(1, s)), [5, 5, 5]);
    // At 95 s f is 557.5 kbit/s: above the next encoding, the greatest below f is 500 kbit/s.
    assert_eq!(choose(0, 95), 1);
    // At 94 s it is 496 kbit/s, not yet the next.
    assert_eq!(choose(0, 94), 0);
    // At 120 s it is 2.095 Mbit/s: from 1 Mbit/s up to 2, at 2 Mbit/s it stays, from 4 Mbit/s it stays as well until f
    // falls to 2 Mbit/s, which it does below 118.5 s; then the least above f is 2 Mbit/s.
    assert_eq!([2, 3, 4].map(|last| choose(last, 120)), [3, 3, 4]);
    assert_eq!([3, 4].map(|last| choose(last, 118)), [3, 3]);
    // More than one step at once, both ways.
    assert_eq!([choose(0, 214), choose(5, 100)], [4, 2]);
}

#[test]
fn bba_comes_to_the_greatest_bitrate_with_every_buffer() {
    for seconds in 8..=240 {
        let spec = Params { buffer: Time::from_secs(seconds), ..spec(Algorithm::Bba) };
        assert_eq!(buffer_based(&LADDER, spec, 0, spec.buffer - spec.segment), 5);
        assert_eq!(buffer_based(&LADDER, spec, 5, Time::ZERO), 0);
        let net = run(spec, 100_000_000, Some(2_000));
        assert_eq!(bitrates(&net).last(), Some(&8_000_000), "{seconds} s");
        assert_eq!(net.of(What::Stall), []);
    }
}

#[test]
fn the_rate_based_player_takes_what_the_harmonic_mean_carries() {
    let choose = |rates: &[f64]| rate_based(&LADDER, &rates.iter().copied().collect());
    assert_eq!(choose(&[]), 0);
    assert_eq!([1.0, 1e6, 999_999.0, 1e12].map(|x| choose(&[x])), [0, 2, 1, 5]);
    // The harmonic mean of 1 and 3 Mbit/s is 1.5 Mbit/s; the arithmetic mean would take 2 Mbit/s.
    assert_eq!(choose(&[1e6, 3e6]), 2);
}

/// Startup: handshake, request and the bytes of one segment of the least bitrate.
#[test]
fn it_plays_as_soon_as_it_has_a_segment() {
    for algorithm in [Algorithm::Bba, Algorithm::Rate] {
        let net = run(spec(algorithm), 1_000_000, Some(10));
        let [startup] = net.of(What::Startup)[..] else { panic!("one startup") };
        // 300 and 125000 bytes at 1 Mbit/s.
        assert!((startup.t_s - startup.started_s - (0.08 + 0.0024 + 1.0)).abs() < 1e-9);
    }
}

/// The link carries a tenth more than the least bitrate needs: the player falls to it and does not stall.
#[test]
fn it_never_stalls_where_the_link_carries_the_least_bitrate_with_a_margin() {
    for algorithm in [Algorithm::Bba, Algorithm::Rate] {
        for link in [275_000, 600_000, 1_500_000, 3_000_000, 20_000_000] {
            let net = run(spec(algorithm), link, Some(1_200));
            assert_eq!(net.of(What::Stall), [], "{algorithm:?} at {link} bit/s");
        }
    }
}

/// In the long run a player cannot play more than the link carries, and BBA takes nearly that: a lower bitrate would
/// let the buffer grow, a higher one shrink.
#[test]
fn bba_settles_at_the_rate_of_the_link() {
    for link in [600_000, 1_500_000, 3_000_000, 6_000_000] {
        let net = run(spec(Algorithm::Bba), link, Some(6_000));
        let all = bitrates(&net);
        let late = &all[all.len() / 2..];
        let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
        assert!(mean <= link as f64 && mean > 0.93 * link as f64, "{mean} of {link}");
        let (below, above) = (LADDER.partition_point(|r| *r <= link) - 1, LADDER.partition_point(|r| *r <= link));
        assert!(late.iter().all(|rate| [LADDER[below], LADDER[above]].contains(rate)));
    }
}

#[test]
fn a_link_below_the_least_bitrate_stalls_for_the_time_that_it_lacks() {
    for algorithm in [Algorithm::Bba, Algorithm::Rate] {
        let net = run(spec(algorithm), 125_000, Some(1_000));
        let stalled: f64 = net.of(What::Stall).iter().map(|c| c.t_s - c.started_s).sum();
        let played = 1_000.0 - stalled - net.of(What::Startup)[0].t_s;
        // A segment takes twice its duration and 59 ms for the request: it plays for just below half of the time.
        let segments = net.of(What::Segment).iter().filter(|c| c.t_s <= 1_000.0).count() as f64;
        assert!((played - 4.0 * segments).abs() <= 4.0 && played < 500.0, "{played} s, {segments}");
        // Stalls follow each other without overlap.
        assert!(net.of(What::Stall).windows(2).all(|pair| pair[0].t_s < pair[1].started_s));
        // The last one ends with the flow, not with the segment that comes after.
        assert!(net.of(What::Stall).iter().all(|c| c.t_s <= 1_000.0));
    }
}

#[test]
fn a_full_buffer_makes_it_wait_for_room() {
    let buffer = Time::from_secs(20);
    let net = run(Params { buffer, ..spec(Algorithm::Rate) }, 100_000_000, Some(100));
    let asked: Vec<Time> = net.exchanges.iter().map(|(at, ..)| *at).collect();
    // Five segments fill it; then one each 4 s.
    assert!(asked[4] < Time::from_secs(2));
    assert!(asked[5..].windows(2).all(|pair| pair[1] - pair[0] == Time::from_secs(4)));
    // Video that has arrived at any time, less the video played by then, is never above the buffer.
    let playing = net.of(What::Startup)[0].t_s;
    for (i, segment) in net.of(What::Segment).iter().enumerate() {
        assert!(4.0 * (i + 1) as f64 - (segment.t_s - playing) <= 20.0 + 1e-9);
    }
}

#[test]
fn a_finite_video_has_its_length_and_ends() {
    let length = Time::from_secs(30);
    let net = run(Params { length, ..spec(Algorithm::Rate) }, 10_000_000, None);
    let segments = net.of(What::Segment);
    assert_eq!((segments.len(), net.opened(), net.of(What::Stall).len()), (8, 1, 0));
    // Seven of 4 s and one of 2 s.
    assert_eq!(segments.iter().map(|c| c.bytes * 8 / c.value as u64).collect::<Vec<_>>(), [4, 4, 4, 4, 4, 4, 4, 2]);
    // Its end is no stall, even if the flow stops long after.
    let net = run(Params { length, ..spec(Algorithm::Rate) }, 10_000_000, Some(100));
    assert_eq!(net.of(What::Stall), []);
}

#[test]
fn after_its_stop_it_finishes_the_segment_that_comes() {
    let net = run(spec(Algorithm::Bba), 260_000, Some(50));
    assert!(net.exchanges.iter().all(|(at, ..)| *at < Time::from_secs(50)));
    assert_eq!(net.exchanges.len(), net.of(What::Segment).len());
    assert!(net.of(What::Segment).last().unwrap().t_s > 50.0);
}
