//! Laws of Wi-Fi, and the published figures that it is validated against.

use super::*;
use crate::entry::Shared;
use crate::models::testing::{Bench, make, make_on, together};
use knee_core::Value;

const MS: Time = Time::from_millis(1);

fn us(n: u64) -> Value {
    Value::Time(Time::from_micros(n))
}

/// A station that always has a packet to send: its goodput in bit/s of IP packets over `secs` seconds.
fn saturated(given: &[(&str, Value)], mbps: u64, secs: u64) -> f64 {
    let mut bench = Bench::new(make(&ENTRY, given, mbps));
    bench.saturate();
    bench.departures(Time::from_secs(secs)).len() as f64 * 12_000.0 / secs as f64
}

/// 802.11a at 54 Mbit/s without aggregation, as in ns-3's validation: data of 1500 bytes and 36 of headers take
/// 20 + 4 x 57 us, an ACK of 14 bytes at 24 Mbit/s takes 28 us; DIFS.
fn dot11a(contenders: u64) -> Vec<(&'static str, Value)> {
    let data = 20 + 4 * (22u64 + 8 * 1536).div_ceil(216);
    vec![
        ("contenders", Value::Count(contenders)),
        ("contender_airtime", us(data)),
        ("max_frames", Value::Count(1)),
        ("aifsn", Value::Count(2)),
        ("preamble", us(20)),
        ("header", Value::Bytes(Bytes(36))),
        ("ack", us(28)),
        ("retries", Value::Count(255)),
    ]
}

/// Bianchi's saturation throughput of `n` stations, bit/s, by his equations (7), (9) and (13) to (15): W = 16, m = 6, a
/// collision as long as a success.
fn bianchi(n: f64) -> f64 {
    let (w, m) = (16.0, 6);
    let tau = |p: f64| {
        let sum: f64 = (0..m).map(|i| libm::pow(2.0 * p, f64::from(i))).sum();
        2.0 / (1.0 + w + p * w * sum)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = 0.5 * (low + high);
        if 1.0 - libm::pow(1.0 - tau(p), n - 1.0) > p { low = p } else { high = p }
    }
    let t = tau(0.5 * (low + high));
    let some = 1.0 - libm::pow(1.0 - t, n);
    let alone = n * t * libm::pow(1.0 - t, n - 1.0) / some;
    let busy = 20.0 + 228.0 + 16.0 + 28.0 + 34.0;
    some * alone * 12_000.0 / ((1.0 - some) * 9.0 + some * busy) * 1e6
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn saturation_throughput_is_that_of_bianchi() {
    // Published with ns-3 (src/wifi/examples/wifi-bianchi.cc, bianchiResultsEifs, 54 Mbit/s), by number of stations.
    for (n, published) in [(5, 29.2861), (10, 27.3763), (20, 25.3325), (50, 22.4162)] {
        // One of n equal stations.
        let mine = saturated(&dot11a(n - 1), 54, 24 * n) * n as f64 / 1e6;
        let formula = bianchi(n as f64) / 1e6;
        assert!((mine / published - 1.0).abs() < 0.04, "{n} stations: {mine} Mbit/s, published {published}");
        assert!((mine / formula - 1.0).abs() < 0.04, "{n} stations: {mine} Mbit/s, by the formula {formula}");
    }
}

/// Goodputs of saturated links on one channel, bit/s of IP packets, by their parameters.
fn on_one_channel(links: &[Vec<(&'static str, Value)>], mbps: u64, secs: u64) -> Vec<f64> {
    let shared = Shared::default();
    let bench = |(i, given): (usize, &Vec<_>)| {
        let mut bench = Bench::new(make_on(&shared, &format!("link {i}"), &ENTRY, given, mbps));
        bench.saturate();
        bench
    };
    let mut benches: Vec<Bench> = links.iter().enumerate().map(bench).collect();
    let until = Time::from_secs(secs);
    together(&mut benches, until);
    benches.iter_mut().map(|bench| bench.departures(until).len() as f64 * 12_000.0 / secs as f64).collect()
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn links_on_one_channel_are_stations_of_bianchi() {
    for n in [2, 5, 10, 20] {
        let each = on_one_channel(&vec![dot11a(0); n], 54, 40);
        let (sum, formula) = (each.iter().sum::<f64>(), bianchi(n as f64));
        assert!((sum / formula - 1.0).abs() < 0.04, "{n} links: {sum} bit/s, by the formula {formula}");
        let jain = sum * sum / (n as f64 * each.iter().map(|one| one * one).sum::<f64>());
        assert!(jain > 0.99, "{n} links: {each:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn links_and_contenders_on_one_channel_are_alike() {
    let each = on_one_channel(&vec![dot11a(5); 5], 54, 40);
    let share = bianchi(10.0) / 2.0;
    let sum: f64 = each.iter().sum();
    assert!((sum / share - 1.0).abs() < 0.05, "5 links beside 5 contenders: {sum} bit/s, by the formula {share}");
}

/// Turns are shared, not time (Heusse et al., "Performance anomaly of 802.11b", INFOCOM 2003): a slow station takes the
/// others down to its own throughput.
#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn a_slow_station_takes_a_fast_one_down() {
    let shared = Shared::default();
    let bench = |name, mbps| {
        let mut bench = Bench::new(make_on(&shared, name, &ENTRY, &dot11a(0), mbps));
        bench.saturate();
        bench
    };
    let mut benches = [bench("fast", 54), bench("slow", 6)];
    let until = Time::from_secs(60);
    together(&mut benches, until);
    let each = benches.each_mut().map(|bench| bench.departures(until).len() as f64);
    assert!((each[0] / each[1] - 1.0).abs() < 0.05, "{each:?}");
}

#[test]
fn a_collision_takes_as_long_as_the_longer_frame() {
    // A window of one slot: both begin at once, again and again, and nothing is ever received.
    let one_slot = [("cw_min", Value::Count(0)), ("cw_max", Value::Count(0)), ("retries", Value::Count(0))];
    let given = [dot11a(0), one_slot.to_vec()].concat();
    let shared = Shared::default();
    let bench = |name, mbps| {
        let mut bench = Bench::new(make_on(&shared, name, &ENTRY, &given, mbps));
        bench.saturate();
        bench
    };
    let mut benches = [bench("fast", 54), bench("slow", 6)];
    together(&mut benches, Time::from_secs(1));
    let lost = benches.each_mut().map(|bench| bench.fates(Time::from_secs(1)).1.len() as f64);
    // 6 Mbit/s has 24 bits in a symbol: 20 + 4 x 513 us, SIFS and ACK of 44 us, DIFS of 34 us.
    let each = 20.0 + 4.0 * 513.0 + 44.0 + 34.0;
    assert!(lost.iter().all(|n| (n - 1e6 / each).abs() <= 1.0), "{lost:?}, expected {}", 1e6 / each);
}

#[test]
fn a_lone_station_has_the_throughput_of_its_overheads() {
    // DIFS 34 us, 7.5 slots of backoff on average, 20 + 228 us of data, SIFS and ACK of 44 us: 393.5 us.
    let expected = 12_000.0 / 393.5e-6;
    let mine = saturated(&dot11a(0), 54, 20);
    assert!((mine / expected - 1.0).abs() < 0.01, "{mine} {expected}");
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn aggregation_takes_the_share_of_the_phy_rate_from_a_third_to_nearly_all() {
    // Ginzburg and Kesselman (2007), two spatial streams: 33 % of the PHY rate without aggregation, and 95 % with it in
    // the ideal case. The abstract does not give the PHY rate; 130 Mbit/s (two streams in 20 MHz) fits its 33 %.
    let rate = 130;
    let single = saturated(&[("max_frames", Value::Count(1))], rate, 20) / (rate as f64 * 1e6);
    assert!((0.30..0.36).contains(&single), "{single}");
    let most = [("max_frames", Value::Count(0)), ("max_airtime", us(5484))];
    let aggregated = saturated(&most, rate, 20) / (rate as f64 * 1e6);
    assert!((0.92..0.96).contains(&aggregated), "{aggregated}");
}

#[test]
fn an_aggregate_leaves_at_once_and_within_its_airtime() {
    let mut bench = Bench::new(make(&ENTRY, &[("max_airtime", us(1000))], 300));
    bench.arrive(Time::ZERO, 200);
    let left = bench.departures(MS * 100);
    let mut bursts = left.clone();
    bursts.dedup();
    // 1500 + 42 bytes, padded to 1544, take 41.2 us: 24 in a millisecond. The first has what waited as it came: one.
    let sizes: Vec<usize> = bursts.iter().map(|at| left.iter().filter(|other| *other == at).count()).collect();
    assert_eq!(left.len(), 200);
    assert!(sizes.iter().all(|n| *n <= 24) && sizes.iter().filter(|n| **n == 24).count() >= 7, "{sizes:?}");
}

#[test]
#[cfg_attr(miri, ignore = "draws too often for Miri")]
fn frames_that_fail_are_sent_again_in_order_and_dropped_after_their_retries() {
    let fates = |error, retries| {
        let given = [("error", Value::Ratio(error)), ("retries", Value::Count(retries))];
        let mut bench = Bench::new(make(&ENTRY, &given, 300));
        (0..20_000).for_each(|i| bench.arrive(Time::from_micros(100) * i, 1));
        bench.fates(Time::from_secs(100))
    };
    let (left, lost) = fates(0.3, 255);
    assert!(left.len() == 20_000 && lost.is_empty() && left.windows(2).all(|w| w[0] < w[1]));
    // Dropped after two failures: 0.3^2 of 20,000 are 1800, give or take four standard deviations of 40.
    let (left, lost) = fates(0.3, 1);
    assert!((lost.len() as f64 - 1800.0).abs() < 162.0 && left.len() + lost.len() == 20_000, "{}", lost.len());
}

/// 802.11a at 54 Mbit/s with access categories, a frame at a time.
fn edca() -> Vec<(&'static str, Value)> {
    let plain = dot11a(0).into_iter().filter(|(name, _)| *name != "aifsn");
    plain.chain([("edca", Value::Bool(true))]).collect()
}

/// Frames per second of saturated categories of one station.
fn frames_by_category(categories: &[u8], secs: u64) -> [f64; 4] {
    let mut bench = Bench::new(make(&ENTRY, &edca(), 54));
    bench.saturate_categories(categories);
    [0, 1, 2, 3].map(|category| bench.delays_in(category, Time::from_secs(secs)).len() as f64 / secs as f64)
}

#[test]
fn a_category_alone_has_the_throughput_of_its_overheads() {
    // SIFS, AIFSN slots, half of CWmin slots, 20 + 228 us of data, SIFS and ACK of 44 us.
    for (category, aifsn, cw_min) in [(0, 2.0, 3.0), (1, 2.0, 7.0), (2, 3.0, 15.0), (3, 7.0, 15.0)] {
        let each = 16.0 + 9.0 * (aifsn + cw_min / 2.0) + 248.0 + 44.0;
        let mine = frames_by_category(&[category], 10)[usize::from(category)];
        assert!((mine * each / 1e6 - 1.0).abs() < 0.01, "category {category}: {mine} frames per second of {each} us");
    }
}

/// EDCA slot by slot, for saturated categories of one station: the least counter sends; of those that have the same one
/// the first does, and the others back off as after a collision (IEEE 802.11-2020, 10.23.2.4). Frames per second.
fn slot_by_slot(categories: &[usize], frames: u64) -> [f64; 4] {
    let table = [(2, 3, 7), (2, 7, 15), (3, 15, 1023), (7, 15, 1023u64)];
    let mut rng = Rng::stream(7, "slot by slot");
    let mut draw = |c: usize, failures: u32| rng.below(((table[c].1 + 1) << failures).min(table[c].2 + 1));
    let mut backoffs: Vec<(u64, u32)> = categories.iter().map(|c| (draw(*c, 0), 0)).collect();
    let (mut sent, mut us) = ([0u64; 4], 0.0);
    for _ in 0..frames {
        let slots: Vec<u64> = categories.iter().zip(&backoffs).map(|(c, backoff)| table[*c].0 + backoff.0).collect();
        let slot = *slots.iter().min().unwrap();
        let first = slots.iter().position(|other| *other == slot).unwrap();
        for (i, c) in categories.iter().enumerate() {
            if i == first {
                backoffs[i] = (draw(*c, 0), 0);
            } else if slots[i] == slot {
                let failures = (backoffs[i].1 + 1).min(10);
                backoffs[i] = (draw(*c, failures), failures);
            } else {
                backoffs[i].0 -= slot.saturating_sub(table[*c].0);
            }
        }
        sent[categories[first]] += 1;
        us += 16.0 + 9.0 * slot as f64 + 248.0 + 44.0;
    }
    sent.map(|n| n as f64 * 1e6 / us)
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn categories_of_a_station_share_the_air_as_slots_have_it() {
    for (categories, secs) in [(&[0, 2][..], 60), (&[1, 2], 60), (&[2, 3], 60), (&[0, 1, 2, 3], 600)] {
        let indices: Vec<usize> = categories.iter().map(|c| usize::from(*c)).collect();
        let mine = frames_by_category(categories, secs);
        let expected = slot_by_slot(&indices, 50_000 * secs);
        for (c, (mine, expected)) in mine.iter().zip(expected).enumerate() {
            // Four standard deviations of a count in which about five come together, since a success makes the window
            // short again; and 2 %.
            let room = 0.02 * expected + 4.0 * libm::sqrt(5.0 * expected / secs as f64);
            assert!((mine - expected).abs() <= room, "{categories:?}, category {c}: {mine}, slot by slot {expected}");
        }
    }
}

/// Voice waits for the frame of best effort that is on the air, and seldom for another: its backoff is a fifth as long.
#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn voice_waits_for_a_frame_of_best_effort_and_not_for_its_queue() {
    let mut bench = Bench::new(make(&ENTRY, &edca(), 54));
    bench.saturate_categories(&[2]);
    (1..3000).for_each(|i| bench.arrive_in(0, Time::from_micros(20_011) * i, 1));
    let mut delays = bench.delays_in(0, Time::from_secs(61));
    assert_eq!(delays.len(), 2999);
    delays.sort_unstable();
    // A frame, SIFS and ACK of best effort take 292 us; then SIFS, two slots, 1.5 on average, and its own 248 us. Half
    // of a frame on average, and less than two more with a probability of 0.99.
    let least = Time::from_nanos(292_000 / 2 + 16_000 + 31_500 + 248_000);
    let mean = delays.iter().fold(Time::ZERO, |sum, delay| sum + *delay) / 2999;
    assert!(mean > least - Time::from_micros(50) && mean < least + Time::from_micros(150), "{mean}");
    assert!(delays[2969] < Time::from_micros(3 * 292 + 2 * 61 + 248), "{}", delays[2969]);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn two_directions_share_the_air() {
    let shared = Shared::default();
    let station = |name| {
        let rate = Rate::from_mbps(300);
        let init = Init { rate, seed: 1, name, link: "link", shared: &shared };
        Wifi::new(Params::default(), &init)
    };
    let (one, two) = (station("there"), station("back"));
    assert!(one.air.is(&two.air) && (one.functions[0].station, two.functions[0].station) == (0, 1));
    // Copies of both share an air of their own, each time anew, whatever was cloned alone.
    let copied = |[one, two]: [&Wifi; 2]| {
        let (mut copies, mut there, _alone, mut back) = (Copies::default(), one.clone(), one.clone(), two.clone());
        there.separate(&mut copies);
        back.separate(&mut copies);
        [there.air, back.air]
    };
    let airs = [copied([&one, &two]), copied([&two, &one])];
    assert!(airs.iter().all(|[there, back]| there.is(back) && !there.is(&one.air)));
    assert!(!airs[0][0].is(&airs[1][0]) && one.air.is(&two.air));
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn the_phy_rate_walks_on_the_ladder_below_the_link_rate() {
    let shared = Shared::default();
    let params = Params { mcs_steps: 2, mcs_hold: MS * 10, ..Params::default() };
    let rate = Rate::from_mbps(400);
    let init = Init { rate, seed: 1, name: "a", link: "a", shared: &shared };
    let mut wifi = Wifi::new(params, &init);
    let mut seen: Vec<u64> = (0..10_000).map(|i| wifi.phy_rate(MS * i) / 1_000_000).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [300, 360, 400], "MCS 7, 8 and 9");
}

#[test]
fn parameters_that_contradict_each_other_are_named() {
    let conflict = |given: &[(&str, Value)], mbps| {
        let params = knee_core::Params::resolve(ENTRY.choice.params, given.iter().copied()).unwrap();
        (ENTRY.check)(&params, Rate::from_mbps(mbps)).err().map(|conflict| conflict.key)
    };
    assert_eq!(conflict(&[], 300), None);
    // 64 frames of 1542 bytes take 7.9 ms at 100 Mbit/s.
    assert_eq!(conflict(&[("max_frames", Value::Count(64))], 100), Some("max_frames"));
    assert_eq!(conflict(&[("max_frames", Value::Count(32))], 100), None);
    assert_eq!(conflict(&[("max_airtime", us(100))], 10), Some("max_airtime"));
    assert_eq!(conflict(&[("cw_min", Value::Count(2047))], 300), Some("cw_min"));
}

#[test]
fn a_conflict_says_how_many_frames_fit() {
    let accepted = |given: &[(&str, Value)], mbps| {
        let params = knee_core::Params::resolve(ENTRY.choice.params, given.iter().copied()).unwrap();
        (ENTRY.check)(&params, Rate::from_mbps(mbps)).unwrap_err().accepted
    };
    // A frame of 1500 bytes, 38 of headers and a delimiter of 4 takes 123.36 us at 100 Mbit/s: 32 take 3.95 ms.
    let given = [("max_frames", Value::Count(64)), ("max_airtime", us(4000))];
    assert_eq!(accepted(&given, 100), "expected at most 32 frames, or a longer max_airtime");
    assert_eq!(accepted(&[("max_airtime", us(100))], 10), "expected a higher rate, or a longer max_airtime");
}

/// Two contenders' frames of 248 us before one of 1540 bytes, 228,148.1 ns rounded up: 20 of preamble, 16 and 28 for
/// the answer, and before each frame 16 + 9 (2 + 15) idle. With ten frames, 3 ms at most.
#[test]
fn access_takes_as_long_as_contenders_and_the_aggregate_before() {
    let access = |frames: u64, most: u64, mbps: u64| {
        let mut given = dot11a(2);
        given.extend([("max_frames", Value::Count(frames)), ("max_airtime", us(most))]);
        given.extend([("cw_min", Value::Count(15)), ("slot", us(9)), ("sifs", us(16))]);
        let params = knee_core::Params::resolve(ENTRY.choice.params, given).unwrap();
        (ENTRY.access)(&params, Rate::from_mbps(mbps))
    };
    let (answer, idle) = (16_000 + 28_000, 16_000 + 9_000 * 17);
    let rest = 20_000 + answer + idle + 2 * (248_000 + answer + idle);
    assert_eq!(access(1, 3000, 54).as_nanos() - rest, 228_149);
    assert_eq!(access(10, 3000, 54).as_nanos() - rest, 2_281_482);
    assert_eq!(access(10, 2000, 54).as_nanos() - rest, 2_000_000);
    // 64 frames of a Block Ack where the number is not given.
    assert_eq!(access(0, 3000, 540).as_nanos() - rest, 1_460_149);
}

/// Without a window a contender that has sent once sends again first, for ever. This once never came to an end.
#[test]
fn who_is_never_let_send_waits_and_costs_no_more_than_the_time_that_passes() {
    let given = [("contenders", Value::Count(1)), ("cw_min", Value::Count(0))];
    let mut bench = Bench::new(make(&ENTRY, &given, 100));
    bench.saturate();
    assert!(bench.departures(Time::from_secs(3)).is_empty());
}
