//! Laws that hold for every application over connections, on random specifications and paths. What an application must
//! not do, the [`Ideal`] net checks itself.

use knee_core::packet::MTU;
use knee_core::testing::{Source as Bytes, fuzz};
use knee_core::{Rate, Rng, Time};
use proptest::prelude::*;

use crate::datagrams::{self, HEADERS, Next};
use crate::random::{any_application, params};
use crate::spec::{Arrivals, Count, Pages, Size, Tls, TrafficSpec, VideoAlgorithm};
use crate::testing::Ideal;
use crate::{Entry, Make, What, application, registry};

const MS: u64 = 1_000_000;
/// What a declared kind offers at most: in the 4 s of a case so much that 100 kbit/s carry it within years.
const MOST: Rate = Rate::from_bps(1_000_000_000_000);

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        (0.5f64..300.0).prop_map(Arrivals::Poisson),
        (0.5f64..300.0).prop_map(Arrivals::Periodic),
        prop::collection::vec(0..2_000 * MS, 1..50).prop_map(|mut times| {
            times.sort_unstable();
            Arrivals::Times(times)
        }),
    ]
}

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![
        (1u64..200_000).prop_map(Size::Fixed),
        (1.0f64..50_000.0, 0.0f64..3.0, 1u64..1_000_000).prop_map(|(m, s, max)| Size::Lognormal(m, s, max)),
        (1.0f64..50_000.0, 0.1f64..4.0, 0u64..1_000_000).prop_map(|(m, a, more)| Size::Pareto(m, a, 50_000 + more)),
        prop::collection::vec((0u64..500_000, 0.0f64..1.0), 1..10).prop_map(|points| {
            let (mut sizes, mut shares): (Vec<u64>, Vec<f64>) = points.into_iter().unzip();
            sizes.sort_unstable();
            shares.sort_by(f64::total_cmp);
            sizes.push(500_000);
            shares.push(1.0);
            Size::Empirical(sizes.into_iter().zip(shares).collect())
        }),
    ]
}

fn number() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0u64..60).prop_map(Some)]
}

fn requests() -> impl Strategy<Value = TrafficSpec> {
    let pages = prop_oneof![
        (0..500 * MS, any::<bool>()).prop_map(|(think, random)| Pages::Closed(think, random)),
        arrivals().prop_map(Pages::Open),
    ];
    let objects = prop_oneof![(1u32..40).prop_map(Count::Fixed), (1.0f64..20.0).prop_map(Count::Geometric)];
    let tls = prop_oneof![Just(Tls::None), Just(Tls::V13), Just(Tls::V12)];
    let how = (1u64..5_000, 1u32..9, any::<bool>(), tls, 0..50 * MS);
    (pages, size(), objects, how, number()).prop_map(|(pages, size, objects, how, number)| {
        let (request, connections, persistent, tls, service) = how;
        TrafficSpec::Requests { pages, request, size, objects, connections, persistent, tls, service, number }
    })
}

fn spec() -> impl Strategy<Value = TrafficSpec> {
    let ladder = prop::collection::btree_set(1_000u64..10_000_000, 1..8);
    let algorithm = prop_oneof![Just(VideoAlgorithm::Bba), Just(VideoAlgorithm::Rate)];
    let length = prop_oneof![Just(None), (1..60_000 * MS).prop_map(Some)];
    prop_oneof![
        (arrivals(), size(), any::<bool>(), number()).prop_map(|(arrivals, size, persistent, number)| {
            TrafficSpec::Transfers { arrivals, size, persistent, number }
        }),
        any_application(MOST).prop_map(|(name, params)| TrafficSpec::Declared { name: name.into(), params }),
        requests(),
        (ladder, 100u64..6_000, 2u64..20, algorithm, length).prop_map(|(ladder, ms, segments, algorithm, length)| {
            let (segment, buffer) = (ms * MS, segments * ms * MS);
            TrafficSpec::Video { ladder: ladder.into_iter().collect(), segment, buffer, algorithm, length }
        }),
    ]
}

/// Runs `spec` and returns the net after it has ended.
fn run(spec: &TrafficSpec, seed: u64, rtt_ms: u64, rate: u64, stop_ms: u64) -> Ideal {
    let mut net = Ideal::new(Time::from_millis(rtt_ms), Rate::from_bps(rate));
    let mut app = application(spec, Rng::stream(seed, "laws")).expect("no datagrams");
    net.run(&mut *app, Some(Time::from_millis(stop_ms)));
    net
}

/// A kind that declares its parameters, as `bytes` have them.
fn declared(entry: &Entry, bytes: &mut Bytes) -> TrafficSpec {
    TrafficSpec::Declared { name: entry.name.into(), params: params(entry, &bytes.picks()) }
}

/// It never exchanges on a closed connection, completes what it began, closes what it opened, ends after its stop, and
/// does the same again with the same seed.
fn completes_what_it_begins(spec: &TrafficSpec, path: (u64, u64, u64, u64)) -> Result<(), TestCaseError> {
    let (seed, rtt, rate, stop) = path;
    prop_assert_eq!(spec.check(), Ok(()));
    let net = run(spec, seed, rtt, rate, stop);
    let count = |what| net.of(what).len();
    match spec {
        TrafficSpec::Transfers { .. } => prop_assert_eq!(count(What::Transfer), net.exchanges.len()),
        TrafficSpec::Requests { tls, number, .. } => {
            let handshakes = if *tls == Tls::None { 0 } else { net.opened() };
            prop_assert_eq!((count(What::Connect), count(What::Tls)), (net.opened(), handshakes));
            prop_assert_eq!(count(What::Request), net.exchanges.len() - handshakes * tls.rounds().len());
            prop_assert!(number.is_none_or(|n| count(What::Page) as u64 <= n));
            let bytes = |what| net.of(what).iter().map(|c| c.bytes).sum::<u64>();
            prop_assert_eq!(bytes(What::Page), bytes(What::Request));
        }
        TrafficSpec::Video { .. } => {
            prop_assert_eq!(count(What::Segment), net.exchanges.len());
            prop_assert!(count(What::Startup) <= 1 && net.opened() == 1);
        }
        // What it puts on record is its own business, but nothing is there twice.
        _ => prop_assert!(net.records.len() <= net.exchanges.len() + net.opened()),
    }
    let stop_s = stop as f64 / 1e3;
    let begins = [What::Transfer, What::Page, What::Segment, What::Stall];
    for begun in begins.into_iter().flat_map(|what| net.of(what)) {
        prop_assert!(begun.started_s <= stop_s, "{:?} began after the stop", begun);
    }
    let again = run(spec, seed, rtt, rate, stop);
    let bits = |net: &Ideal| -> Vec<u8> { net.records.iter().flat_map(|c| bytemuck::bytes_of(c).to_vec()).collect() };
    prop_assert_eq!(bits(&net), bits(&again));
    prop_assert_eq!(net.exchanges, again.exchanges);
    Ok(())
}

/// Packets have a size that a link carries, what waits waits for later, and the same seed gives the same packets.
fn sends_packets(spec: &TrafficSpec, seed: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(spec.check(), Ok(()));
    let run = || {
        let mut source = datagrams::source(spec, false, Rng::stream(seed, "laws")).expect("datagrams");
        let (mut now, mut sent) = (Time::from_millis(7), Vec::new());
        for _ in 0..2_000 {
            match source.next(now) {
                Next::Send(size) => sent.push((now, size)),
                Next::Wait(Time::MAX) => break,
                Next::Wait(at) if at > now => now = at,
                Next::Wait(at) => return Err(TestCaseError::fail(format!("at {now} it waits for {at}"))),
            }
        }
        Ok(sent)
    };
    let sent = run()?;
    prop_assert!(sent.iter().all(|(_, size)| (HEADERS..=MTU).contains(size)), "{:?}", sent);
    prop_assert_eq!(sent, run()?);
    Ok(())
}

/// Every registry entry that declares its parameters, with random ones; `KNEE_TRAFFIC=NAME` for one alone.
#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn every_declared_kind_keeps_the_laws() {
    let entries: Vec<(&str, &Entry)> =
        registry().iter().filter(|entry| !entry.has_tables()).map(|entry| (entry.name, entry)).collect();
    fuzz("KNEE_TRAFFIC", &entries, 100, 200, |entry, bytes| {
        let bytes = &mut Bytes::new(bytes);
        let spec = declared(entry, bytes);
        let path = (bytes.bytes(8), bytes.below(300), 100_000 + bytes.below(1_000_000_000), bytes.below(4_000));
        match entry.make {
            Make::Source(_) => sends_packets(&spec, path.0),
            _ if load(&spec) > Some(MOST) => Ok(()),
            _ => completes_what_it_begins(&spec, path),
        }
    });
}

/// What a declared kind offers.
fn load(spec: &TrafficSpec) -> Option<Rate> {
    let TrafficSpec::Declared { name, params } = spec else { return None };
    let (entry, params) = crate::spec::declared(name, params).expect("it was checked");
    (entry.load)(&params)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn applications_complete_what_they_begin_and_end(
        spec in spec(), seed: u64, rtt in 0u64..300, rate in 100_000u64..1_000_000_000, stop in 0u64..4_000,
    ) {
        completes_what_it_begins(&spec, (seed, rtt, rate, stop))?;
    }
}
