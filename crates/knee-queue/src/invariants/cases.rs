//! What a case is: a queue at the start, and what happens to it, drawn from bytes.

use crate::Limit;
use knee_core::testing::{Pick, Source};
use knee_core::{Bytes, Packet, Time};

/// A queue and what happens to it.
pub(super) type Case = (Start, Vec<Step>);

/// A queue and its link at the start.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub now_ns: u64,
    pub limit: Option<Limit>,
    pub overhead: u32,
    pub rate_bps: u64,
    pub seed: u64,
    /// The codepoint of each flow, in turn: an index into [`CODEPOINTS`].
    pub codepoints: Vec<u8>,
    /// The choice of each parameter.
    pub picks: Vec<Pick>,
}

/// Not ECN-capable, ECT(0), ECT(1), and the last two with CE set by an earlier hop. One flow keeps to one: a change
/// from one to another may lawfully change its queue and so its order (RFC 9331, Section 5.1).
pub(super) const CODEPOINTS: [u8; 5] =
    [0, Packet::ECT, Packet::ECT | Packet::L4S, Packet::ECT | Packet::CE, Packet::ECT | Packet::L4S | Packet::CE];

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Some packets of one flow, at once.
    Arrive { flow: u32, count: u16, size: u16, ack: bool },
    /// One packet of each of many flows, at once.
    Crowd { first: u32, flows: u16, size: u16 },
    /// The link asks so often, at once.
    Dequeue { count: u16 },
    /// The link sends at its rate, and a packet of the flow comes with each that leaves.
    Serve { count: u16, flow: u32 },
    /// Time goes by with nobody asking.
    Wait { ns: u64 },
    /// A new limit.
    Limit(Limit),
    /// A new rate.
    Rate { bps: u64 },
    /// The link serves until nothing is held.
    Drain,
}

fn limit(source: &mut Source) -> Limit {
    match source.below(3) {
        0 => Limit::Packets(source.log_uniform(12) - 1),
        1 => Limit::Bytes(Bytes(source.log_uniform(22))),
        _ => Limit::Time(Time::from_nanos(source.log_uniform(30))),
    }
}

/// 1 bit/s to 1 Tbit/s.
fn rate(source: &mut Source) -> u64 {
    match source.weighted(&[7, 7, 1]) {
        0 => 100_000_000,
        1 => source.log_uniform(30) * 1_000,
        _ => source.log_uniform(10),
    }
}

fn start(source: &mut Source) -> Start {
    Start {
        now_ns: if source.chance(128) { 0 } else { source.log_uniform(44) },
        limit: source.maybe(limit),
        overhead: source.below(60) as u32,
        rate_bps: rate(source),
        seed: source.bytes(8),
        codepoints: (0..source.range(1, 6)).map(|_| source.below(CODEPOINTS.len() as u64) as u8).collect(),
        picks: source.picks(),
    }
}

fn flow(source: &mut Source) -> u32 {
    (if source.chance(192) { source.below(4) } else { source.below(5_000) }) as u32
}

fn size(source: &mut Source) -> u16 {
    (match source.weighted(&[4, 2, 1]) {
        0 => 1500,
        1 => source.range(40, 1500),
        _ => source.range(40, 9_000),
    }) as u16
}

fn step(source: &mut Source) -> Step {
    match source.weighted(&[8, 2, 4, 6, 5, 1, 1, 1, 1]) {
        0 => {
            let (flow, count, size) = (flow(source), source.log_uniform(7) as u16, size(source));
            Step::Arrive { flow, count, size, ack: source.chance(50) }
        }
        1 => Step::Crowd { first: source.below(4_000) as u32, flows: source.range(2, 400) as u16, size: size(source) },
        2 => Step::Dequeue { count: source.range(1, 40) as u16 },
        3 => Step::Serve { count: source.range(1, 200) as u16, flow: flow(source) },
        4 => Step::Wait { ns: source.log_uniform(34) },
        // Up to two years, in which nothing may go on: it would not end.
        5 => Step::Wait { ns: source.log_uniform(56) },
        6 => Step::Limit(limit(source)),
        7 => Step::Rate { bps: rate(source) },
        _ => Step::Drain,
    }
}

/// A queue, and at most 60 steps.
pub(super) fn case(bytes: &[u8]) -> Case {
    let mut source = Source::new(bytes);
    let start = start(&mut source);
    let mut steps = vec![step(&mut source)];
    while !source.is_empty() && steps.len() < 60 {
        steps.push(step(&mut source));
    }
    (start, steps)
}
