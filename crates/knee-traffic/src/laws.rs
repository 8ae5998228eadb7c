//! Laws that hold for every application over connections, on random specifications and paths. The [`Ideal`] net itself
//! checks that an application does nothing forbidden.

use knee_core::packet::MTU;
use knee_core::testing::{Source as Bytes, fuzz};
use knee_core::{Rate, Rng, Time};
use proptest::prelude::*;

use crate::datagrams::{self, HEADERS, Next};
use crate::random::{parse, traffic};
use crate::testing::Ideal;
use crate::{Entry, Make, TrafficSpec, What, application, registry};

/// The highest rate that a kind offers: in the 4 s of a case so much that 100 kbit/s carry it within years.
const MOST: Rate = Rate::from_bps(1_000_000_000_000);

/// Runs `spec` and returns the net after it has ended.
fn run(spec: &TrafficSpec, seed: u64, rtt_ms: u64, rate: u64, stop_ms: u64) -> Ideal {
    let mut net = Ideal::new(Time::from_millis(rtt_ms), Rate::from_bps(rate));
    let mut app = application(spec, Rng::stream(seed, "laws")).expect("no datagrams");
    net.run(&mut *app, Some(Time::from_millis(stop_ms)));
    net
}

/// It never exchanges on a closed connection, completes what it began, closes what it opened, ends after its stop, and
/// does the same again with the same seed.
fn completes_what_it_begins(spec: &TrafficSpec, path: (u64, u64, u64, u64)) -> Result<(), TestCaseError> {
    let (seed, rtt, rate, stop) = path;
    prop_assert_eq!(spec.check(), Ok(()));
    let net = run(spec, seed, rtt, rate, stop);
    let count = |what| net.of(what).len();
    match spec.kind.as_str() {
        "transfers" => prop_assert_eq!(count(What::Transfer), net.exchanges.len()),
        "requests" => {
            prop_assert_eq!(count(What::Connect), net.opened());
            prop_assert!([0, net.opened()].contains(&count(What::Tls)));
            let bytes = |what| net.of(what).iter().map(|c| c.bytes).sum::<u64>();
            prop_assert_eq!(bytes(What::Page), bytes(What::Request));
        }
        "video" => {
            prop_assert_eq!(count(What::Segment), net.exchanges.len());
            prop_assert!(count(What::Startup) <= 1 && net.opened() == 1);
        }
        // Any other application records what it likes, but nothing is there twice.
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

/// Every registry entry with random parameters; `KNEE_TRAFFIC=NAME` for one alone.
#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn every_kind_keeps_the_laws() {
    let entries: Vec<(&str, &Entry)> = registry().iter().map(|entry| (entry.name, entry)).collect();
    fuzz(Some("KNEE_TRAFFIC"), &entries, 200, 200, |entry, bytes| {
        let bytes = &mut Bytes::new(bytes);
        let spec = parse(&traffic(entry, &bytes.picks()));
        let path = (bytes.bytes(8), bytes.below(300), 100_000 + bytes.below(1_000_000_000), bytes.below(4_000));
        match entry.make {
            Make::Source(_) => sends_packets(&spec, path.0),
            Make::Application(_) if spec.load() > Some(MOST) => Ok(()),
            Make::Application(_) => completes_what_it_begins(&spec, path),
        }
    });
}
