//! The greatest numbers that a specification may have, so that the engine's sums and products of them fit.

use super::SpecError;
use crate::spec::{CapacitySpec, Change, LimitSpec, RecordedSpec, SlotSpec, Spec};

/// Three years, in ns.
const MAX_TIME: u64 = 100_000_000_000_000_000;
/// In bit/s; beyond every link.
const MAX_RATE: u64 = 1_000_000_000_000_000;
/// Bytes or packets; beyond every buffer.
const MAX_SIZE: u64 = 1_000_000_000_000_000_000;

/// Refuses a specification with a number beyond these.
pub(super) fn check_sizes(spec: &Spec) -> Result<(), SpecError> {
    let within = |what, most| {
        move |found: u64| if found > most { Err(SpecError::TooLarge { what, found, most }) } else { Ok(()) }
    };
    let (time, rate, bytes) =
        (|what| within(what, MAX_TIME), |what| within(what, MAX_RATE), |what| within(what, MAX_SIZE));
    let limit = |limit: Option<LimitSpec>| match limit {
        Some(LimitSpec::Time(ns)) => time("a limit")(ns),
        Some(LimitSpec::Packets(n) | LimitSpec::Bytes(n)) => bytes("a limit")(n),
        None => Ok(()),
    };
    let capacity = |capacity: &CapacitySpec| match capacity {
        CapacitySpec::Rate(bps) => rate("a rate")(*bps),
        CapacitySpec::Rates(recorded) => {
            recorded.at.iter().copied().chain(recorded.period).try_for_each(time("a recorded time"))?;
            recorded.values.iter().copied().try_for_each(rate("a rate"))
        }
        CapacitySpec::Trace(ms) => time("a trace's last time")(ms.last().map_or(0, |ms| ms.saturating_mul(1_000_000))),
    };
    let delays = |trace: &RecordedSpec<u64>| {
        trace.at.iter().copied().chain(trace.period).try_for_each(time("a recorded time"))?;
        trace.values.iter().copied().try_for_each(time("an extra delay"))
    };
    let losses =
        |trace: &RecordedSpec<f64>| trace.at.iter().copied().chain(trace.period).try_for_each(time("a recorded time"));
    let slot = |slot: Option<SlotSpec>| {
        slot.into_iter().flat_map(|slot| [slot.min, slot.max]).try_for_each(time("the time to a slot"))
    };
    time("the duration")(spec.duration)?;
    time("the interval")(spec.interval)?;
    time("the warmup")(spec.warmup)?;
    let tcp = &spec.tcp;
    let times = [tcp.tick, tcp.rto_min, tcp.delayed_ack, tcp.sack_delay, tcp.receive_offload];
    times.into_iter().try_for_each(time("a time of TCP"))?;
    [tcp.window_growth, tcp.receive_window.unwrap_or(0)].into_iter().try_for_each(bytes("a window of TCP"))?;
    for link in &spec.links {
        capacity(&link.capacity)?;
        limit(link.limit)?;
        time("a link's delay")(link.delay)?;
        time("a link's jitter")(link.jitter)?;
        link.delay_table.iter().flatten().copied().try_for_each(time("an extra delay"))?;
        link.delay_trace.iter().try_for_each(delays)?;
        link.loss_trace.iter().try_for_each(losses)?;
        slot(link.slot)?;
        bytes("a link's burst")(link.burst.unwrap_or(0))?;
        if let Some(back) = &link.reverse {
            capacity(&back.capacity)?;
            limit(back.limit)?;
            back.delay_trace.iter().try_for_each(delays)?;
            back.loss_trace.iter().try_for_each(losses)?;
            slot(back.slot)?;
        }
    }
    for flow in &spec.flows {
        time("a flow's RTT")(flow.rtt)?;
        time("a flow's start")(flow.start)?;
        bytes("a flow's size")(flow.bytes.unwrap_or(0))?;
    }
    for change in &spec.changes {
        time("the time of a change")(change.at)?;
        match change.what {
            Change::Rate { rate: bps, .. } => rate("a rate")(bps)?,
            Change::Limit { limit: new, .. } => limit(Some(new))?,
            Change::Rtt { rtt, .. } => time("a flow's RTT")(rtt)?,
            Change::Loss { .. } => {}
        }
    }
    Ok(())
}
